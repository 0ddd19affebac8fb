"""The model's context: no request is larger, whatever results, documents, turns and questions bring, also after a fork or a resume."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from paor import Document, Engine, Limits, ModelCall, Reply, replay, tool
from paor.events import ModelNotice, RunEnded
from paor.testing import call_tools, step

from ..support.effort import examples

LETTERS = st.sampled_from("w\N{CYRILLIC SMALL LETTER ZHE}\N{CJK UNIFIED IDEOGRAPH-6F22}#")


class Asker:
    """
    A model that reads pages and then answers, in each way in which it is asked.

    Attributes:
        calls: What it was asked.
    """

    def __init__(
        self,
        turns: list[int],
        *,
        native: bool = True,
        letter: str = "w",
        words: int = 0,
        context: int | None = None,
    ) -> None:
        self.name, self.calls_tools, self.context_tokens = f"asker-{context}", native, context
        self.calls: list[ModelCall] = []
        self._turns, self._page, self._said = list(turns), 0, letter * words

    def ask(self, call: ModelCall) -> Reply:
        """Answer: the next turn's calls, what the two stages want of it, or the end."""
        self.calls.append(call)
        return Reply(getattr(self, call.kind)(call), finish="stop")

    def _pages(self, count: int) -> list[dict[str, Any]]:
        self._page += count
        note = {"note": self._said} if self._said else {}
        return [step("notes.page", page=self._page - number, **note) for number in range(count)]

    def turn(self, call: ModelCall) -> str:
        if not self._turns or not call.may_call:
            return "Read."
        return json.dumps(call_tools(*self._pages(self._turns.pop(0)), text=self._said))

    def plan(self, call: ModelCall) -> str:
        steps = self._pages(self._turns.pop(0)) if self._turns else []
        return json.dumps({"intention": self._said, "steps": steps})

    def selection(self, call: ModelCall) -> str:
        if not self._turns:
            return json.dumps({"action": None, "answer": "Read."})
        self._turns.pop()
        return json.dumps({"action": "notes.page", "actionObjective": self._said[:500]})

    def parameters(self, call: ModelCall) -> str:
        self._page += 1
        return json.dumps({"parameters": {"page": self._page}})

    def refinement(self, call: ModelCall) -> str:
        return json.dumps({"decision": "continue", "reason": "more", "hint": self._said[:2000]})

    def review(self, call: ModelCall) -> str:
        return json.dumps({"status": "success", "answer": "Read.", "improvements": []})


def over(calls: list[ModelCall], context: int) -> list[int]:
    """Return the sizes of the requests that are larger than a context."""
    found = []
    for call in calls:
        texts = [item.text if not item.calls else item.body for item in call.messages]
        texts += [json.dumps(item.parts) for item in call.messages if item.parts]
        texts += [json.dumps([tool.name, tool.description, tool.schema]) for tool in call.tools]
        found.append(sum(len(text.encode("utf-8", "replace")) for text in texts))
    return [size for size in found if size > 3 * context]


@settings(max_examples=examples(25), deadline=None)
@given(
    way=st.sampled_from(("native", "planner", "two_stage", "strict")),
    context=st.sampled_from((1_000, 2_000, 4_096, 8_192, 32_000)),
    letter=LETTERS,
    turns=st.lists(st.sampled_from((1, 1, 2, 12, 60)), min_size=1, max_size=7),
    size=st.sampled_from((0, 10, 400, 5_000, 60_000)),
    documents=st.lists(st.sampled_from((10, 3_000, 20_000)), max_size=3),
    words=st.sampled_from((0, 0, 3_000, 40_000)),
    kind=st.sampled_from(("text", "bytes", "many", "error")),
    effect=st.sampled_from(("read", "idempotent")),
)
def test_no_request_is_larger_than_the_models_context(
    way: str,
    context: int,
    letter: str,
    turns: list[int],
    size: int,
    documents: list[int],
    words: int,
    kind: str,
    effect: Any,
) -> None:
    """In any script, however many calls a reply has; but where the head alone is nearly as large, and then an event says so."""

    @tool("notes.page", effect=effect)
    def page(page: int, note: str = "") -> Any:
        """Read a page."""
        text = f"{page}\n" + letter * size
        if kind == "error":
            raise ValueError(text)
        if kind == "many":
            return [Document(f"{number}{letter}.txt", text) for number in range(30)]
        return text.encode() if kind == "bytes" else text

    if way == "strict":  # whose prompts are reports, at least as long as its rules
        context = max(context, 4_096)
    native = way in ("native", "planner")
    model = Asker(turns, native=native, letter=letter, words=words)
    limits = Limits(max_steps=200, max_consecutive_errors=100, context_tokens=context)
    given: dict[str, Any] = {"mode": "planner"} if way == "planner" else {}
    profile: Any = "strict" if way == "strict" else None
    with Engine(model, [page], ":memory:", limits=limits, profile=profile) as engine:
        inputs = [(f"{letter}{at}.txt", letter * count) for at, count in enumerate(documents)]
        events = list(engine.stream("Read the pages", documents=inputs, **given))
        (run_id,) = [event.run_id for event in events if isinstance(event, RunEnded)]
        crowded = [event for event in events if isinstance(event, ModelNotice) and event.kind == "context"]
        assert not over(model.calls, context) or crowded, run_id
        assert replay(engine.journal, run_id).divergences == ()
