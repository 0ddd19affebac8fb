"""What a model gets of a conversation is made once, and is the same as if each request made all of it."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paor.prompts.building.conversation import RoundMessage, ShownMessages, round_text
from paor.prompts.model import NOT_SHOWN, Picture, PromptMessage
from paor.prompts.scripted import ScriptedModel
from paor.states.records.actions import StoredText

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)
PLACE = StoredText(0, "00" * 32, len(PNG))
KINDS = (
    PromptMessage("user", "words"),
    PromptMessage("assistant", "read", source="the reply"),
    PromptMessage("user", "a picture", pictures=(Picture(PLACE),)),
    PromptMessage(
        "round", round_text("run", (RoundMessage("asked", "Go"), RoundMessage("assistant", "Gone")))
    ),
)


class Sees(ScriptedModel):
    """Takes pictures."""

    takes_pictures = True


MODELS = ScriptedModel(["a"]), Sees(["a"])
BODIES = (lambda place: PNG), (lambda place: None)
STEPS = st.lists(
    st.tuples(
        st.integers(0, 12),
        st.lists(st.sampled_from(KINDS), max_size=4),
        st.integers(0, 2),
        st.sampled_from(MODELS),
    ),
    max_size=12,
)


@given(STEPS)
def test_what_is_made_once_is_what_each_request_would_make(steps: list[Any]) -> None:
    """Whatever is cut of a conversation, is added to it, is stable of it and is asked, and whether its pictures are there still."""
    kept, held = ShownMessages(), tuple[PromptMessage, ...]()
    for number, (cut, added, asked, model) in enumerate(steps):
        held = (*held[cut if number % 3 == 2 else 0 :], *added)
        messages = (*held, *[PromptMessage("user", f"question {number}")] * asked)
        body_of = BODIES[number % 2]
        stable = 0 if number % 5 == 4 else len(held)
        fresh = ShownMessages()
        assert kept.of(model, messages, stable, body_of) == fresh.of(model, messages, 0, body_of)
        assert kept.characters == fresh.characters


def test_rounds_are_told_and_pictures_put_into_words() -> None:
    """For a model that takes none."""
    told = ShownMessages().of(MODELS[0], KINDS, 0, BODIES[0])
    assert [message.body for message in told][2:] == [f"a picture\n{NOT_SHOWN}", "Go", "Gone"]


@pytest.mark.parametrize("model", MODELS, ids=["blind", "sees"])
def test_a_request_costs_the_same_however_long_its_conversation_is(model: Any) -> None:
    """Counted in bytecodes; a picture is shown anew, and nothing else behind it."""

    def cost(length: int) -> int:
        begin = (KINDS[2], *(PromptMessage("user", "words"),) * length)
        kept, count = ShownMessages(), 0
        kept.of(model, begin, length + 1, lambda place: PNG)

        def trace(frame: FrameType, event: str, arg: Any) -> Any:
            nonlocal count
            frame.f_trace_opcodes, count = True, count + 1
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            kept.of(model, (*begin, KINDS[1]), length + 2, lambda place: PNG)
        finally:
            sys.settrace(before)
        return count

    assert cost(10) == cost(2000)
