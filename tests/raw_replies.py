"""
What models send: good replies of every kind, the ways in which they go wrong, and hypothesis strategies of both.

A `Turn` is two small numbers: which good reply, and what happens to it on its way. So a failing stream of replies
shrinks to the few turns that matter, and one stream fits whatever the run asks for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from hypothesis import strategies as st

from paor import ModelCall, ModelUnavailable, Reply, Usage

from .worlds import ANSWER, MET, PARAMETERS, REFINE, REVIEW, SELECT

CRITERION = "names the day"
FIT = "what fits the action"
"""Stands for parameters that the selected action takes; the n-th of them is about page n modulo 3."""
REFUSAL = "I'm sorry, but I can't help with that."

GOOD: dict[str, list[Any]] = {
    "selection": [
        SELECT(),
        SELECT("notes.send", {"text": "string"}),
        SELECT("notes.wait", {}),
        SELECT("notes.ask", {"text": "string"}),
        SELECT(parametersSchema=None, learnings=["page 1 is short"]),
        {"action": {"method": "notes", "name": "read"}},
        ANSWER(),
        SELECT("notes.fail"),
        SELECT("notes_read"),
        SELECT("notes.read", {}),
        SELECT("notes.secret"),
        SELECT("nobody.knows"),
        SELECT(requiredInputDocuments=["docList:round1_task1_action0_input"]),
        SELECT(requiredInputDocuments=["docItem:round1_task1_action1_page#0"]),
        SELECT(requiredInputDocuments=["docList:somewhere_else"]),
        SELECT(requiredConnection="nobody"),
        {"action": {"method": "notes.read", "name": "read"}},
        {"action": {"method": "notes.read", "name": "page"}},
        ANSWER(""),
        SELECT(parameters={"page": 1}),
    ],
    "parameters": [
        *[FIT] * 8,
        PARAMETERS(text="http://127.0.0.1/"),
        PARAMETERS(page="one"),
        PARAMETERS(page=1, documentList=["docList:x"]),
        PARAMETERS(page=1, colour="red"),
        PARAMETERS(),
        {"page": 1},
        {"schema": "parameters_v2", "parameters": {"page": 1}},
        {"parameters": [1]},
        {"parameters": {"page": 1}},
    ],
    "refinement": [
        REFINE("continue", hint="read on"),
        REFINE("stop", answer="It is the 3rd."),
        REFINE("continue", score=0.5),
        REFINE("continue", criteria=[MET(CRITERION)]),
        REFINE("stop"),
        REFINE("continue", score=0.25),
        REFINE("continue", criteria=[MET("names the year")]),
        REFINE("continue", criteria=[MET("names the year"), MET(CRITERION)]),
        REFINE("halt"),
        {"decision": "continue"},
        {"reason": "no decision"},
    ],
    "review": [
        REVIEW("success", answer="It is the 3rd."),
        REVIEW("retry", "read page 2 as well"),
        REVIEW("success"),
        {"status": "success", "criteria": [MET(CRITERION)]},
        REVIEW("retry"),
        REVIEW("failed", answer="Nothing says it."),
        REVIEW("fine"),
    ],
    "text": ["A text written by a model.", "", "# Heading\n\nMore."],
}
"""Replies that a run can use, and some that are well-formed and wrong."""


def _deep(text: str) -> str:
    return '{"a":' * 500 + "1" + "}" * 500


def _doubled(text: str) -> str:
    """Send every key of the object twice, with another value the second time."""
    return (
        text[:-1]
        + "".join(f', "{key}": null' for key in ("action", "parameters", "decision", "status"))
        + "}"
    )


MANGLES: list[Callable[[str], str]] = [
    lambda text: text,
    lambda text: f"```json\n{text}\n```",
    lambda text: f"Here is what you asked for:\n\n{text}\n\nAnything else?",
    lambda text: f"<think>What about {{this}}?</think>{text}",
    lambda text: text[: len(text) // 2],
    lambda text: text[:-1],
    lambda text: text + text[:-1] + ', "more": 1}',
    lambda text: f"[{text}, {text}]",
    _doubled,
    lambda text: text.replace("true", "NaN").replace("1", "Infinity"),
    lambda text: text.replace('"', "'"),
    lambda text: text[:-1] + ', "note": "\\ud800"}',
    lambda text: text[:-1] + ', "note": "\ud800"}',
    lambda text: text[:-1] + ', "note": "\0"}',
    lambda text: text[:-1] + ', "note": "\\u0000"}',
    _deep,
    lambda text: "[" * 100_000,
    lambda text: text + " " * 2_000_000,
    lambda text: json.dumps({"action": "x" * 1_200_000}),
    lambda text: "",
    lambda text: "   \n",
    lambda text: REFUSAL,
    lambda text: "null",
    lambda text: "{}",
    lambda text: json.dumps(text),
    lambda text: text.replace(": ", ": [").replace(",", "],"),
]
"""What can happen to a reply; the first keeps it as it is."""


class Turn(NamedTuple):
    """One answer of a model: which good reply of the kind that is asked for, and what happens to it."""

    choice: int
    mangle: int = 0

    def text(self, kind: str, action: str = "notes.read") -> str:
        """Return the raw reply to a *kind* request, which is about *action*."""
        pool = GOOD[kind]
        good = pool[self.choice % len(pool)]
        if good is FIT:
            page = self.choice % 3
            good = (
                PARAMETERS(text=f"note {page}")
                if action in ("notes.send", "notes.ask")
                else PARAMETERS(page=page)
            )
        text = good if isinstance(good, str) else json.dumps(good)
        return MANGLES[self.mangle % len(MANGLES)](text)


CHOICES = st.one_of(*[st.integers(0, 7)] * 4, st.integers(0, max(map(len, GOOD.values())) - 1))
TURNS = st.builds(Turn, CHOICES, st.one_of(*[st.just(0)] * 9, st.integers(0, len(MANGLES) - 1)))


class TurnModel:
    """
    A model that answers the n-th request of a run with the n-th turn, whatever is asked; then it is unavailable.

    Attributes:
        asked: Kinds of the requests so far, also of those that were asked again after a crash.
    """

    name = "turns"

    def __init__(self, turns: Sequence[Turn], *, cycle: bool = False, tokens: int = 100) -> None:
        self._turns = list(turns)
        self._cycle = cycle
        self._tokens = tokens
        self.asked: list[str] = []

    def ask(self, call: ModelCall) -> Reply:
        """Return the turn's text for this kind of request."""
        self.asked.append(call.kind)
        number = call.number % len(self._turns) if self._cycle and self._turns else call.number
        if number >= len(self._turns):
            raise ModelUnavailable("script_exhausted", "no turn is left")
        turn = self._turns[number]
        found = re.search(r"## Selected action\n(\S+)", call.messages[-1].text)
        action = found.group(1) if found is not None else ""
        return Reply(turn.text(call.kind, action), Usage(1, self._tokens, self._tokens, 7))

    async def aask(self, call: ModelCall) -> Reply:
        """Do the same."""
        return self.ask(call)


TEXTS = st.one_of(
    st.builds(lambda turn, kind: turn.text(kind), TURNS, st.sampled_from(sorted(GOOD))),
    st.text(max_size=60),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
        max_leaves=10,
    ).map(json.dumps),
    st.dictionaries(
        st.sampled_from(
            [
                *("action", "actionObjective", "learnings", "requiredInputDocuments", "requiredConnection"),
                *("parametersContext", "parametersSchema", "answer", "schema", "decision", "reason", "hint"),
                *("criteria", "score", "status", "improvements"),
            ]
        ),
        st.sampled_from(
            [
                *(
                    "notes.read",
                    "continue",
                    "stop",
                    "success",
                    "retry",
                    "failed",
                    "",
                    " ",
                    None,
                    True,
                    0,
                    -1,
                    1e300,
                ),
                *([], {}, [None], ["docList:x"], [{"criterion": "x", "met": True}], {"fields": None}),
                *(
                    {"fields": [{}]},
                    {"fields": [{"name": "page", "type": "date"}]},
                    {"method": "a", "name": 1},
                ),
            ]
        ),
        max_size=8,
    ).map(json.dumps),
)
"""Any raw reply: good, nearly good, arbitrary text, arbitrary JSON, the right keys with the wrong values."""
