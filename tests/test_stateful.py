"""
A run and everything that can happen to it: crashes at any point, new processes, answers, cancellations.

Hypothesis drives a real engine on a file and keeps a small model beside it: what was asked for, and how often each
effect that must not repeat has happened. After every rule the journal must verify, replay, and only have grown.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

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
    Tool,
    ToolContext,
    replay,
    tool,
)
from paor.states.phase import FINAL
from paor.states.reasons import REASONS

from .raw_replies import TURNS, Turn, TurnModel

WHERE = ["event", "model", "before the effect", "after the effect"]


class Lost(BaseException):
    """The process is gone: nothing in it goes on."""


class Crash:
    """Where and when the process is lost; counts down the occasions of one kind."""

    def __init__(self) -> None:
        self.where, self.left = "", 0

    def at(self, where: str) -> None:
        """Raise `Lost` if this is the place and the time."""
        if where == self.where:
            self.left -= 1
            if self.left < 0:
                self.where = ""
                raise Lost(where)


class FragileModel(TurnModel):
    """A model whose process may be lost after it has answered, before its row is written."""

    def __init__(self, turns: Sequence[Turn], crash: Crash) -> None:
        super().__init__(turns, cycle=True, tokens=10)
        self.crash = crash

    def ask(self, call: ModelCall) -> Reply:
        """Answer, then perhaps vanish."""
        reply = super().ask(call)
        self.crash.at("model")
        return reply


def fragile_tools(crash: Crash, performed: Counter[str]) -> list[Tool]:
    """Return a tool that reads and one whose effect is counted by its idempotency key."""

    @tool("notes.read", effect="read", label="page")
    def read(page: int) -> str:
        """Read."""
        crash.at("before the effect")
        crash.at("after the effect")
        return f"page {page}"

    @tool("notes.send", label="receipt")
    def send(context: ToolContext, text: str) -> str:
        """Send."""
        crash.at("before the effect")
        performed[context.idempotency_key] += 1
        crash.at("after the effect")
        return f"sent {text}"

    return [read, send]


class Runs(RuleBasedStateMachine):
    """One run after the other in one journal, by one process after the other."""

    @initialize(
        turns=st.lists(TURNS, min_size=2, max_size=8),
        max_steps=st.integers(1, 4),
        token_budget=st.one_of(st.none(), st.none(), st.integers(20, 400)),
        approvals=st.sampled_from([(), (), ("notes.send",), ("*",)]),
    )
    def open(
        self, turns: list[Turn], max_steps: int, token_budget: int | None, approvals: tuple[str, ...]
    ) -> None:
        """Start a process on a new journal."""
        self.folder = Path(tempfile.mkdtemp())
        self.crash = Crash()
        self.performed: Counter[str] = Counter()
        self.allowed: Counter[str] = Counter()
        self.model = FragileModel(turns, self.crash)
        self.limits = Limits(max_steps=max_steps, token_budget=token_budget, max_elicitations=3)
        self.policy = Policy(approvals=approvals)
        self.run_id = ""
        self.rows: list[tuple[Any, ...]] = []
        self.result: Result | None = None
        self.cancel_asked = False
        self.engine = self.process()

    def process(self) -> Engine:
        """Return an engine as a new process would make it."""

        def hook(event: Event) -> None:
            self.crash.at("event")

        return Engine(
            self.model,
            fragile_tools(self.crash, self.performed),
            Journal(self.folder / "runs.db", "off"),
            self.limits,
            self.policy,
            hooks=[hook],
            builtins=False,
        )

    # -- the model's side

    @property
    def row(self) -> Any:
        """The run as the journal's overview shows it."""
        return self.engine.journal.run(self.run_id)

    def status_is(self, *names: str) -> bool:
        """Whether there is a run with one of these statuses."""
        return bool(self.run_id) and self.row.status in names

    def driven(self, drive: Any) -> Result | None:
        """Call *drive*; return its result, or None when the process was lost in it and another one took over."""
        try:
            result: Result = drive()
        except Lost:
            self.engine.close()
            self.engine = self.process()
            result_or_none = None
        else:
            result_or_none = result
            assert result.status in ("waiting", "done", "failed")
            assert result.status == "waiting" or result.state in FINAL
        self.crash.where = ""
        runs = self.engine.journal.runs()
        self.run_id = runs[0].run_id if runs else ""
        if result_or_none is not None and result_or_none.state in FINAL:
            self.result = result_or_none
        return result_or_none

    # -- rules

    @precondition(lambda self: not self.run_id or self.status_is("done", "failed"))
    @rule()
    def start(self) -> None:
        """Run to the end, to a question, or into the crash that was planned."""
        self.rows, self.result, self.cancel_asked = [], None, False
        self.driven(lambda: self.engine.run("Read the notes", ["names the day"]))

    @rule(where=st.sampled_from(WHERE), left=st.integers(0, 12))
    def plan_a_crash(self, where: str, left: int) -> None:
        """The next drive is lost at the n-th occasion of this kind, if it comes to that."""
        self.crash.where, self.crash.left = where, left

    @precondition(lambda self: self.status_is("running"))
    @rule()
    def resume(self) -> None:
        """Another process goes on."""
        self.driven(lambda: self.engine.resume(self.run_id))

    @precondition(lambda self: self.status_is("waiting"))
    @rule(
        answer=st.sampled_from(
            [{"approve": True}, {"approve": False}, {"action": "decline"}, {"action": "cancel"}]
        ),
        outcome=st.sampled_from(["done", "retry", "fail"]),
    )
    def answer(self, answer: Any, outcome: str) -> None:
        """Somebody answers the question; to retry an effect in doubt allows it once more."""
        before = len(self.engine.journal.transitions(self.run_id))
        waiting = self.engine.resume(self.run_id).waiting_for
        assert len(self.engine.journal.transitions(self.run_id)) == before, "asking again appends nothing"
        assert waiting is not None
        if waiting.kind == "in_doubt":
            assert waiting.key is not None
            self.allowed[waiting.key] += outcome == "retry"
            self.driven(lambda: self.engine.resume(self.run_id, outcome=outcome, result="it was sent"))
        else:
            self.driven(lambda: self.engine.resume(self.run_id, answer=answer))

    @precondition(lambda self: self.status_is("running", "waiting"))
    @rule()
    def cancel(self) -> None:
        """It ends now, or, when the process is lost in it, with the next one that drives it."""
        self.cancel_asked = True
        result = self.driven(lambda: self.engine.cancel(self.run_id))
        assert result is None or (result.state, result.reason) == ("Failed", "cancelled")

    @rule()
    def restart(self) -> None:
        """Another process, without a crash."""
        self.engine.close()
        self.engine = self.process()

    @precondition(lambda self: self.status_is("done", "failed"))
    @rule()
    def ask_an_ended_run(self) -> None:
        """Resume and cancel return the result that it had, and append nothing."""
        self.crash.where = ""
        found = self.engine.resume(self.run_id)
        assert found == self.engine.cancel(self.run_id)
        assert found == self.engine.resume(self.run_id, answer={"approve": True})
        if self.result is not None:
            assert found.wire() == self.result.wire()

    @precondition(lambda self: self.status_is("running", "waiting"))
    @rule(bad=st.sampled_from([{"approve": "yes"}, "yes", {}]))
    def answer_wrongly(self, bad: Any) -> None:
        """A bad answer, or one that nobody asked for, is refused and changes nothing."""
        with pytest.raises(InvalidAnswer):
            self.engine.resume(self.run_id, answer=bad)

    # -- what always holds

    @invariant()
    def the_journal_only_grows_and_always_verifies(self) -> None:
        """Rows stay as they were; no gap; nothing behind an end; the chain holds; the replay is the same."""
        if not getattr(self, "run_id", ""):
            return
        journal, run = self.engine.journal, self.row
        rows = journal.rows(run.run)
        assert rows[: len(self.rows)] == self.rows
        self.rows = rows
        assert [row[1] for row in rows] == list(range(len(rows)))
        assert not any(row[5] in FINAL for row in rows[:-1])
        assert journal.verify() == []
        assert replay(journal, self.run_id).divergences == ()

    @invariant()
    def effects_that_must_not_repeat_do_not(self) -> None:
        """Once for each action, and once more for each time somebody said to try again."""
        for key, count in getattr(self, "performed", {}).items():
            assert count <= 1 + self.allowed[key]

    @invariant()
    def limits_hold(self) -> None:
        """Steps, tokens before the last request, and a reason and an answer at every end."""
        if not getattr(self, "run_id", ""):
            return
        rows = self.engine.journal.transitions(self.run_id)
        budget = self.limits.token_budget
        for row in rows:
            assert row.step <= self.limits.max_steps
            own = row.outcome.get("tokens_in", 0) + row.outcome.get("tokens_out", 0)
            assert budget is None or not own or row.tokens_in + row.tokens_out - own < budget
        if self.row.status in ("done", "failed"):
            result = self.engine.resume(self.run_id)
            assert result.reason in REASONS and result.answer.strip()
            assert not self.cancel_asked or result.reason == "cancelled"

    def teardown(self) -> None:
        """Whatever happened, the run can be brought to an end."""
        if not hasattr(self, "engine"):
            return
        self.crash.where = ""
        while self.status_is("running", "waiting"):
            waiting = self.engine.resume(self.run_id)
            if waiting.waiting_for is not None and waiting.waiting_for.kind == "in_doubt":
                self.engine.resume(self.run_id, outcome="fail")
            elif waiting.waiting_for is not None:
                self.engine.resume(self.run_id, answer={"approve": True})
        self.limits_hold()
        self.engine.close()
        shutil.rmtree(self.folder)


TestRuns = Runs.TestCase
TestRuns.settings = settings(max_examples=60, stateful_step_count=20)
