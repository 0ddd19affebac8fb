"""
A run and everything that can happen to it: crashes at any point, new processes, answers, cancellations.

Hypothesis drives a real engine on a file and keeps a small model beside it: what was asked for, and how often each
effect that must not repeat has happened. After every rule the journal must verify, replay, and only have grown.
"""

from __future__ import annotations

import json
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
    Usage,
    replay,
    tool,
)
from paor.states.phase import FINAL
from paor.states.reasons import REASONS

from .worlds import ANSWER, PARAMETERS, REFINE, REVIEW, SELECT

CRASHES = st.one_of(
    st.just(("", 0)),
    st.tuples(st.just("event"), st.integers(0, 14)),
    st.tuples(st.sampled_from(["before the effect", "after the effect"]), st.integers(0, 2)),
    st.tuples(st.just("after the effect"), st.integers(0, 1)),
    st.tuples(st.just("model"), st.integers(0, 5)),
)
"""Where the next drive is lost, and after how many occasions; or nowhere."""


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


class FragileModel:
    """
    A model that says what was drawn, by the number of the request within its run.

    Its process may be lost after it has answered, before its row is written.
    """

    name = "fragile"

    def __init__(self, actions: Sequence[str], decisions: Sequence[str], crash: Crash) -> None:
        self.actions, self.decisions, self.crash = actions, decisions, crash

    def ask(self, call: ModelCall) -> Reply:
        """Answer, then perhaps vanish."""
        number = call.number
        action = self.actions[number // 3 % len(self.actions)]
        sends = "notes.send" in call.messages[-1].text
        reply: Any = {
            "selection": {
                "send": SELECT("notes.send", {"text": "string"}),
                "read": SELECT(),
                "answer": ANSWER(),
            }.get(action, "?"),
            "parameters": PARAMETERS(text=f"note {number}") if sends else PARAMETERS(page=number % 5),
            "refinement": REFINE(self.decisions[number // 3 % len(self.decisions)]),
            "review": REVIEW("retry" if number % 4 == 0 else "success"),
        }[call.kind]
        self.crash.at("model")
        return Reply(reply if isinstance(reply, str) else json.dumps(reply), Usage(1, 5, 5))

    async def aask(self, call: ModelCall) -> Reply:
        """Do the same."""
        return self.ask(call)


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
        actions=st.lists(
            st.sampled_from([*["send"] * 8, *["read"] * 3, "answer", "?"]), min_size=1, max_size=5
        ),
        decisions=st.lists(st.sampled_from([*["continue"] * 6, "stop", "?"]), min_size=1, max_size=5),
        max_steps=st.integers(1, 5),
        token_budget=st.one_of(st.none(), st.none(), st.integers(20, 400)),
        approvals=st.sampled_from([(), (), ("notes.send",)]),
    )
    def open(
        self,
        actions: list[str],
        decisions: list[str],
        max_steps: int,
        token_budget: int | None,
        approvals: tuple[str, ...],
    ) -> None:
        """Start a process on a new journal."""
        self.folder = Path(tempfile.mkdtemp())
        self.crash = Crash()
        self.performed: Counter[str] = Counter()
        self.allowed: Counter[str] = Counter()
        self.model = FragileModel(actions, decisions, self.crash)
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

    def driven(self, crash: tuple[str, int], drive: Any) -> Result | None:
        """Call *drive*; return its result, or None when the process was lost in it and another one took over."""
        self.crash.where, self.crash.left = crash
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
    @rule(crash=CRASHES)
    def start(self, crash: tuple[str, int]) -> None:
        """Run to the end, to a question, or into the crash that was planned."""
        self.rows, self.result, self.cancel_asked = [], None, False
        self.driven(crash, lambda: self.engine.run("Read the notes", ["names the day"]))

    @precondition(lambda self: self.status_is("running"))
    @rule(crash=CRASHES)
    def resume(self, crash: tuple[str, int]) -> None:
        """Another process goes on."""
        self.driven(crash, lambda: self.engine.resume(self.run_id))

    def waits_for(self, kind: str) -> bool:
        """Whether the run waits for this; asking appends nothing."""
        if not self.status_is("waiting"):
            return False
        before = len(self.engine.journal.rows(self.row.run))
        question = self.engine.resume(self.run_id).waiting_for
        assert len(self.engine.journal.rows(self.row.run)) == before
        return question is not None and question.kind == kind

    @precondition(lambda self: self.waits_for("approval"))
    @rule(
        crash=CRASHES,
        answer=st.sampled_from(
            [*[{"approve": True}] * 3, {"approve": False}, {"action": "decline"}, {"action": "cancel"}]
        ),
    )
    def decide(self, crash: tuple[str, int], answer: Any) -> None:
        """Somebody approves the call, or does not."""
        self.driven(crash, lambda: self.engine.resume(self.run_id, answer=answer))

    @precondition(lambda self: self.waits_for("in_doubt"))
    @rule(crash=CRASHES, outcome=st.sampled_from(["done", "retry", "retry", "fail"]))
    def settle(self, crash: tuple[str, int], outcome: str) -> None:
        """Somebody has looked whether the effect happened; to retry allows it once more."""
        question = self.engine.resume(self.run_id).waiting_for
        assert question is not None and question.key is not None
        self.allowed[question.key] += outcome == "retry"
        self.driven(crash, lambda: self.engine.resume(self.run_id, outcome=outcome, result="it was sent"))

    @precondition(lambda self: self.status_is("running", "waiting"))
    @rule(crash=CRASHES, sure=st.integers(0, 4))
    def cancel(self, crash: tuple[str, int], sure: int) -> None:
        """It ends now, or, when the process is lost in it, with the next one that drives it."""
        if sure < 4:
            return
        self.cancel_asked = True
        result = self.driven(crash, lambda: self.engine.cancel(self.run_id))
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
TestRuns.settings = settings(max_examples=60, stateful_step_count=25)
