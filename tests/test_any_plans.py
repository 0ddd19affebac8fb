"""Whatever a planner says: real engines, lost at any row, end every run of batch and planner mode within its bounds."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from paor import (
    Engine,
    Event,
    InvalidAnswer,
    Journal,
    Limits,
    ModelCall,
    Policy,
    Reply,
    Result,
    SeededIds,
    SteppingClock,
    Tool,
    ToolError,
    TransitionTaken,
    replay,
    tool,
)
from paor.states.phase import FINAL
from paor.states.reasons import REASONS

from .journey import Lost
from .worlds import JOURNAL

VALUES = st.sampled_from(
    [
        1,
        2,
        "one",
        None,
        [1],
        {"a": 1},
        "$step[0].output",
        "$step[1].output.a[0]",
        "$$step[0]",
        "x $step[0].output",
    ]
)
ARGUMENTS = st.dictionaries(st.sampled_from(["page", "text", "documentList", "odd"]), VALUES, max_size=2)
NAMES = st.sampled_from(
    ["notes.read", "notes_read", "notes.send", "notes.empty", "notes.fail", "notes.deny", "no.such"]
)
QUESTION = {
    "message": "Which?",
    "requestedSchema": {"properties": {"page": {"type": "integer"}}, "required": ["page"]},
}
STEPS = st.one_of(
    *[
        st.fixed_dictionaries(
            {"type": st.just("tool"), "name": NAMES, "args": ARGUMENTS, "retries": st.integers(0, 2)}
        )
    ]
    * 5,
    st.sampled_from(
        [
            {"type": "noop"},
            {"type": "elicitation", "elicitation": QUESTION},
            {"type": "elicitation", "message": "Say something"},
            {"type": "abort", "reason": "enough"},
            {"type": "unknown"},
            {"type": "tool", "name": "notes.read", "args": {"page": 1}},
        ]
    ),
)
PLANS = st.one_of(
    *[
        st.fixed_dictionaries(
            {"steps": st.lists(STEPS, max_size=4)}, optional={"elicitation": st.just(QUESTION)}
        )
    ]
    * 4,
    st.sampled_from(
        [
            {"elicitation": QUESTION},
            {"steps": []},
            {"answer": "known"},
            "some words",
            "{cut",
            "",
            {
                "role": "assistant",
                "tool_calls": [{"function": {"name": "notes_read", "arguments": '{"page": 1}'}}],
            },
            {"role": "assistant", "tool_calls": [{"function": {"name": "notes_read", "arguments": "{"}}]},
        ]
    ),
)
REVIEWS = st.sampled_from(
    [
        {"status": "success", "improvements": []},
        {"status": "retry", "improvements": ["x"]},
        {"status": "failed"},
        "?",
    ]
)
ANSWERS: list[Any] = [
    {"page": 1},
    {"text": "hello"},
    {"approve": True},
    {"approve": False},
    {"action": "decline"},
    {"action": "accept"},
    {"action": "cancel"},
    "words",
]


class Drawn(NamedTuple):
    """
    One run, drawn.

    Attributes:
        mode, limits, approvals: Of the run.
        plans, reviews: What the model says, over and over.
        answers: Numbers of the answers that people try, in turn.
        losses: Rows after which a driver is lost.
    """

    mode: str
    limits: Limits
    approvals: tuple[str, ...]
    plans: Sequence[Any]
    reviews: Sequence[Any]
    answers: Sequence[int]
    losses: frozenset[int]


DRAWN = st.builds(
    Drawn,
    mode=st.sampled_from(["batch", "planner"]),
    limits=st.builds(
        Limits,
        max_steps=st.integers(1, 12),
        max_plans=st.integers(1, 4),
        max_retries=st.integers(0, 2),
        selection_retries=st.integers(0, 2),
        max_elicitations=st.integers(0, 3),
        max_consecutive_errors=st.integers(1, 5),
        block_repeated_success=st.booleans(),
        token_budget=st.sampled_from([None, None, None, 2000]),
        elicitation_timeout_s=st.sampled_from([None, None, 0.000_001]),
    ),
    approvals=st.sampled_from([(), (), ("notes.send",), ("*",)]),
    plans=st.lists(PLANS, min_size=1, max_size=4),
    reviews=st.lists(REVIEWS, min_size=1, max_size=3),
    answers=st.lists(st.integers(0, len(ANSWERS) - 1), min_size=1, max_size=4),
    losses=st.frozensets(st.integers(0, 25), max_size=4),
)


class Saying:
    """A model that says what was drawn, by the number of the request within its run."""

    name = "saying"

    def __init__(self, drawn: Drawn) -> None:
        self.drawn = drawn

    def ask(self, call: ModelCall) -> Reply:
        """Answer."""
        said = self.drawn.plans if call.kind == "plan" else self.drawn.reviews
        reply = said[call.number % len(said)]
        return Reply(reply if isinstance(reply, str) else json.dumps(reply))

    async def aask(self, call: ModelCall) -> Reply:
        """Do the same."""
        return self.ask(call)


def tools() -> list[Tool]:
    """Return small tools: one reads, one may not be repeated, one returns nothing, one fails, one is denied."""

    @tool("notes.read", effect="read", label="page")
    def read(page: int) -> dict[str, Any]:
        """Read."""
        return {"a": [page, page + 1]}

    @tool("notes.send")
    def send(text: str) -> str:
        """Send."""
        return text

    @tool("notes.empty", effect="idempotent")
    def empty() -> None:
        """Return nothing."""

    @tool("notes.fail", effect="read", retries=1)
    def fail() -> str:
        """Fail."""
        raise ToolError("torn")

    @tool("notes.deny", effect="read")
    def deny() -> str:
        """Never be called."""
        raise AssertionError("denied")

    return [read, send, empty, fail, deny]


def hosted(folder: Path, drawn: Drawn, number: int) -> Engine:
    """Return the *number*-th engine of a run; some are lost after a row."""

    def lose(event: Event) -> None:
        if isinstance(event, TransitionTaken) and event.seq in drawn.losses and number < 9:
            raise Lost

    return Engine(
        Saying(drawn),
        tools(),
        Journal(folder / JOURNAL, "off"),
        drawn.limits,
        Policy(approvals=drawn.approvals, deny=("notes.deny",)),
        hooks=[lose],
        clock=SteppingClock(1_767_225_600_000_000 + number * 1_000_000),
        ids=SeededIds(str(number)),
        builtins=False,
    )


def carried_out(folder: Path, drawn: Drawn) -> Result:
    """Drive a run to its end, each time in an engine of its own; wrong answers are refused and the next one is tried."""
    tried = 0
    for number in range(200):
        with hosted(folder, drawn, number) as engine:
            rows = engine.journal.runs()
            try:
                if not rows:
                    result = engine.run("Read", ["all is read"], mode=drawn.mode)  # type: ignore[arg-type]
                else:
                    result = engine.resume(rows[0].run_id)
                if result.status == "waiting":
                    assert result.waiting_for is not None
                    doubt = result.waiting_for.kind == "in_doubt"
                    answer = ANSWERS[drawn.answers[tried % len(drawn.answers)] if tried < 20 else 4]
                    tried += 1
                    given = {"outcome": "retry"} if doubt else {"answer": answer}
                    result = engine.resume(result.run_id, **given)
            except (Lost, InvalidAnswer):
                continue
            if result.state in FINAL:
                return result
    raise AssertionError("the run does not end")


@settings(max_examples=150)
@given(DRAWN)
def test_C3_23_A137_A148_any_plans_end_within_their_bounds_and_replay(drawn: Drawn) -> None:
    """A reason and a message at every end; it verifies, replays, and keeps each bound."""
    with tempfile.TemporaryDirectory() as folder:
        result = carried_out(Path(folder), drawn)
        with hosted(Path(folder), drawn, 999) as engine:
            assert result.reason in REASONS
            last = engine.resume(result.run_id)
            assert last.answer is not None and last.answer.strip()
            rows = engine.journal.transitions(result.run_id)
            assert engine.journal.verify() == []
            for host in (None, engine):
                assert replay(engine.journal, result.run_id, host).divergences == ()
        counters = rows[-1].counters
        assert rows[-1].step <= drawn.limits.max_steps
        assert counters.get("plans", 0) <= drawn.limits.max_plans
        assert counters.get("elicitations", 0) <= drawn.limits.max_elicitations
        asked = [row for row in rows if row.trigger == "wait" and row.source != "Executing"]
        assert len(asked) == counters.get("elicitations", 0)
        assert sum(row.trigger == "observe" for row in rows) <= rows[-1].step
