"""The model's context: no request is larger, whatever results, documents, turns and questions bring, also after a fork or a resume."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paor import Document, Engine, Limits, ModelCall, Reply, replay, tool
from paor.events import ModelNotice, RunEnded
from paor.testing import call_tools, step

from ..support.effort import examples
from ..support.recording import paired

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
        summary: str | Exception = "Pages were read.",
    ) -> None:
        self.name, self.calls_tools, self.context_tokens = f"asker-{context}", native, context
        self.calls: list[ModelCall] = []
        self._turns, self._page, self._said = list(turns), 0, letter * words
        self._summary = summary

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

    def summary(self, call: ModelCall) -> str:
        if isinstance(self._summary, Exception):
            raise self._summary
        return self._summary

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


WORLDS: dict[str, dict[str, Any]] = {
    "many calls of one reply": {"turns": [30], "size": 5_000, "context": 4_096},
    "wide letters": {"turns": [6, 1, 1, 1], "size": 10_000, "letter": "\N{CJK UNIFIED IDEOGRAPH-6F22}"},
    "many documents in a result": {"turns": [2], "size": 5_000, "kind": "many"},
    "long turns": {"turns": [1, 2, 1], "size": 10, "words": 40_000},
    "a plan of many steps": {"turns": [60], "size": 5_000, "way": "planner", "context": 4_096},
    "two stages": {"turns": [1] * 5, "size": 20_000, "way": "two_stage", "words": 3_000},
    "reports": {
        "turns": [1] * 5,
        "size": 20_000,
        "way": "strict",
        "letter": "\N{CJK UNIFIED IDEOGRAPH-6F22}",
    },
    "a small document": {"turns": [3, 1], "size": 5_000, "documents": [3_000]},
    "summaries": {"turns": [1] * 12, "size": 5_000, "compaction": "model"},
    "summaries in two stages": {
        "turns": [1] * 8,
        "size": 5_000,
        "words": 60,
        "way": "two_stage",
        "compaction": "model",
    },
    "summaries of plans": {
        "turns": [12, 60],
        "size": 5_000,
        "words": 3_000,
        "way": "planner",
        "compaction": "model",
    },
}
"""Worlds in which a request was larger than its context, or nearly."""


@pytest.mark.parametrize("name", WORLDS)
def test_no_request_is_larger_than_the_models_context(name: str) -> None:
    """Sizes are bytes, the calls of a turn share what is left, and a turn that is too long is shortened."""
    assert not drive(**WORLDS[name])


def test_a_head_that_fills_the_context_is_told() -> None:
    """Nothing can be left out of it: an event says that requests may be longer than the model takes."""
    assert drive(turns=[1], size=400, context=1_000, objective="Read the pages " * 150)


@pytest.mark.whole
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
    compaction=st.sampled_from(("code", "model", "model")),
    summary=st.sampled_from(
        ("Pages were read.", "w" * 1_500, "", "{}", "# Pages\n" * 9_999, OSError("gone"))
    ),
)
def test_no_request_of_any_world_is_larger_than_its_context(**world: Any) -> None:
    """Whatever the script, the sizes and the way of asking; but where the head alone is nearly as large, which is told."""
    if world["way"] == "strict":  # whose prompts are reports, at least as long as its rules
        world["context"] = max(world["context"], 4_096)
    drive(**world)


def drive(
    *,
    turns: list[int],
    size: int,
    way: str = "native",
    context: int = 8_192,
    letter: str = "w",
    documents: Any = (),
    words: int = 0,
    kind: str = "text",
    effect: Any = "read",
    objective: str = "Read the pages",
    compaction: Any = "code",
    summary: str | Exception = "Pages were read.",
) -> bool:
    """
    Run a world and hold all its requests to its context: in each of a conversation stand the user's words.

    Returns:
        Whether an event told that its head is too large for that.
    """

    @tool("notes.page", effect=effect)
    def page(page: int, note: str = "") -> Any:
        """Read a page."""
        text = f"{page}\n" + letter * size
        if kind == "error":
            raise ValueError(text)
        if kind == "many":
            return [Document(f"{number}{letter}.txt", text) for number in range(30)]
        return text.encode() if kind == "bytes" else text

    model = Asker(turns, native=way in ("native", "planner"), letter=letter, words=words, summary=summary)
    limits = Limits(max_steps=200, max_consecutive_errors=100, context_tokens=context, compaction=compaction)
    given: dict[str, Any] = {"mode": "planner"} if way == "planner" else {}
    profile: Any = "strict" if way == "strict" else None
    with Engine(model, [page], ":memory:", limits=limits, profile=profile) as engine:
        inputs = [(f"{letter}{at}.txt", letter * count) for at, count in enumerate(documents)]
        events = list(engine.stream(objective, documents=inputs, **given, on_close="stop"))
        (run_id,) = [event.run_id for event in events if isinstance(event, RunEnded)]
        crowded = any(isinstance(event, ModelNotice) and event.notice == "context" for event in events)
        assert crowded or not over(model.calls, context)
        assert all(
            objective.strip() in "\n".join(item.text for item in call.messages) for call in model.calls
        )
        for call in model.calls if way == "native" else ():
            paired(call)
        assert replay(engine.journal, run_id).divergences == ()
    return crowded


def test_the_calls_of_a_turn_share_what_is_left() -> None:
    """Of twelve long results all are shown alike, and each says how much of it that is."""

    @tool("notes.page", effect="read")
    def page(page: int) -> str:
        """Read a page."""
        return f"{page}\n" + "w" * 5_000

    model = Asker([12])
    with Engine(model, [page], ":memory:", limits=Limits(max_steps=20, context_tokens=8_192)) as engine:
        engine.run("Read")
    texts = [item.text for item in model.calls[1].messages if item.role == "tool"]
    assert len(texts) == 12 and min(map(len, texts)) > 1_000
    assert max(map(len, texts)) < min(map(len, texts)) + 100
    assert all("[Cut: the first 1," in text for text in texts)


@pytest.mark.parametrize("own", [None, ["notes.page"]], ids=["usual", "own"])
@pytest.mark.parametrize("way", ["fork", "resume"])
def test_a_model_with_a_smaller_context_goes_on_within_it(
    tmp_path: Path, way: str, own: list[str] | None
) -> None:
    """
    Its first request is cut, and the next row records the same cut.

    A document that it is not shown can be read with a tool, unless the run has named its tools.
    """
    path = tmp_path / "runs.db"
    stops = {"dies": way == "resume"}

    class Lost(BaseException):
        """The process ends here."""

    @tool("notes.page", effect="read")
    def page(page: int) -> str:
        """Read a page."""
        if stops["dies"] and page == 9:
            raise Lost
        return f"{page}\n" + "w" * 5_000

    big, small = Asker([1] * 9, context=128_000), Asker([1] * 3, context=8_000)
    inputs = [("note.txt", "The code is 4711. " + "w" * 8_000)]
    limits = Limits(max_steps=20)
    with Engine(big, [page], path, limits=limits) as engine:
        try:
            run_id = engine.run("Read", documents=inputs, tools=own).run_id
        except Lost:
            run_id = engine.journal.runs()[0].run_id
        at = [row.seq for row in engine.journal.transitions(run_id) if row.trigger == "proceed"][-1]
    stops["dies"] = False
    with Engine(small, [page], path, limits=limits) as engine:
        result = engine.fork(run_id, at) if way == "fork" else engine.resume(run_id)
        assert result.state == "Done" and replay(engine.journal, result.run_id).divergences == ()
        cuts = [
            row.outcome["cut"] for row in engine.journal.transitions(result.run_id) if "cut" in row.outcome
        ]
    assert len(small.calls) == 4 and not over(small.calls, 8_000) and cuts
    first, second = (flat(call) for call in small.calls[:2])
    assert second[: len(first)] == first, "between two cuts the requests grow"
    assert "4711" not in str(first[:2])
    assert ("document_extract" in [offered.name for offered in small.calls[0].tools]) == (own is None)


def flat(call: ModelCall) -> list[tuple[str, str]]:
    """Return the messages of a request as data."""
    return [(item.role, item.text) for item in call.messages]
