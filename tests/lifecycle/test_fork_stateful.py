"""
Forks of forks, resumed, answered, cancelled and lost, in any order.

Hypothesis drives a real engine on a file with many runs in it. After every rule each run still begins with the rows that
it shares, no row has changed, every once effect has happened at most once, whichever run began it, and the file verifies.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, multiple, rule

from paor import Engine, Event, Journal, Limits, Policy, replay
from paor.errors import InvalidFork
from paor.states.run.phase_names import FINAL

from .fragile import CRASHES, Crash, FragileModel, Lost, fragile_tools


class Forks(RuleBasedStateMachine):
    """Runs and forks in one journal, by one process after the other."""

    runs = Bundle("runs")

    @initialize(
        actions=st.lists(st.sampled_from(["send", "send", "read", "answer", "?"]), min_size=1, max_size=4),
        decisions=st.lists(st.sampled_from(["continue", "continue", "stop", "?"]), min_size=1, max_size=4),
        approvals=st.sampled_from([(), ("notes.send",)]),
    )
    def open(self, actions: list[str], decisions: list[str], approvals: tuple[str, ...]) -> None:
        """Start a process on a new journal."""
        self.folder = Path(tempfile.mkdtemp())
        self.crash = Crash()
        self.performed: Counter[str] = Counter()
        self.allowed: Counter[str] = Counter()
        self.model = FragileModel(actions, decisions, self.crash)
        self.policy = Policy(approvals=approvals)
        self.seen: dict[str, list[Any]] = {}
        self.engine = self.process()

    def process(self) -> Engine:
        """Return an engine as a new process would make it."""

        def hook(event: Event) -> None:
            self.crash.at("event")

        return Engine(
            self.model,
            fragile_tools(self.crash, self.performed),
            Journal(self.folder / "runs.db", "off"),
            Limits(max_steps=3, max_elicitations=3),
            self.policy,
            hooks=[hook],
            builtins=False,
        )

    def driven(self, crash: tuple[str, int], drive: Any) -> None:
        """Call *drive*; when the process is lost in it another one takes over."""
        self.crash.where, self.crash.left = crash
        try:
            drive()
        except Lost:
            self.engine.close()
            self.engine = self.process()
        self.crash.where = ""

    @rule(target=runs, crash=CRASHES)
    def start(self, crash: tuple[str, int]) -> Any:
        """Run to the end, to a question, or into the crash that was planned."""
        before = len(self.engine.journal.runs())
        self.driven(crash, lambda: self.engine.run("Read the notes", ["names the day"]))
        rows = self.engine.journal.runs()
        return rows[0].run_id if len(rows) > before else multiple()

    @rule(
        target=runs,
        run_id=runs,
        place=st.integers(0, 40),
        crash=CRASHES,
        steps=st.sampled_from([None, None, 2, 4]),
        drive=st.booleans(),
    )
    def fork(self, run_id: str, place: int, crash: tuple[str, int], steps: int | None, *, drive: bool) -> Any:
        """Fork any run at any of its rows, perhaps with another limit; it may be lost at once."""
        journal = self.engine.journal
        row = journal.run(run_id)
        last = row.head_seq - (row.status in ("done", "failed"))
        limits = {"max_steps": steps} if steps is not None else None
        if last < 0 or place > 38:
            with pytest.raises(InvalidFork):
                self.engine.fork(run_id, row.head_seq + (row.status not in ("done", "failed")))
            return multiple()
        before = len(journal.runs())
        self.driven(crash, lambda: self.engine.fork(run_id, place % (last + 1), limits=limits, drive=drive))
        rows = self.engine.journal.runs()
        assert len(rows) == before + 1
        return rows[0].run_id

    @rule(run_id=runs, crash=CRASHES)
    def resume(self, run_id: str, crash: tuple[str, int]) -> None:
        """Another process goes on."""
        self.driven(crash, lambda: self.engine.resume(run_id))

    @rule(run_id=runs, crash=CRASHES, yes=st.booleans(), outcome=st.sampled_from(["done", "retry", "fail"]))
    def answer(self, run_id: str, crash: tuple[str, int], outcome: str, *, yes: bool) -> None:
        """Somebody answers what a run waits for, whoever else has answered the same question of its relatives."""
        question = self.engine.resume(run_id).waiting_for if self.status(run_id) == "waiting" else None
        if question is None:
            return
        if question.kind == "in_doubt":
            assert question.key is not None
            self.allowed[question.key] += outcome == "retry"
            self.driven(
                crash,
                lambda: self.engine.resume(run_id, question=question.id, outcome=outcome, result="sent"),
            )
        else:
            self.driven(
                crash, lambda: self.engine.resume(run_id, question=question.id, answer={"approve": yes})
            )

    @rule(run_id=runs, sure=st.integers(0, 3))
    def cancel(self, run_id: str, sure: int) -> None:
        """A run is cancelled; its relatives are not."""
        if sure == 3:
            self.engine.cancel(run_id)

    def status(self, run_id: str) -> str:
        """Return a run's status."""
        return self.engine.journal.run(run_id).status

    @invariant()
    def every_run_begins_with_what_it_shares_and_only_grows(self) -> None:
        """No row changes, none is missing, none follows an end; a replay derives each of them again."""
        if not hasattr(self, "engine"):
            return
        journal = self.engine.journal
        for run in journal.runs():
            rows = journal.transitions(run.run_id)
            assert rows[: len(self.seen.get(run.run_id, []))] == self.seen.get(run.run_id, [])
            assert [row.seq for row in rows] == list(range(len(rows)))
            assert not any(row.dest in FINAL for row in rows[:-1])
            assert [row.step for row in rows] == sorted(row.step for row in rows)
            if run.parent_run_id is not None and run.parent_seq is not None:
                shared = journal.transitions(run.parent_run_id)[: run.parent_seq + 1]
                assert rows[: run.parent_seq + 1] == shared
                assert shared[-1].run == journal.run(run.parent_run_id).run
            self.seen[run.run_id] = rows

    @invariant()
    def effects_that_must_not_repeat_do_not(self) -> None:
        """Once for each key, whichever run began the call, and once more for each time somebody said to try again."""
        for key, count in getattr(self, "performed", {}).items():
            assert count <= 1 + self.allowed[key]

    def teardown(self) -> None:
        """The file verifies, and every run replays."""
        if not hasattr(self, "engine"):
            return
        journal = self.engine.journal
        assert journal.verify() == []
        for run in journal.runs():
            assert replay(journal, run.run_id).divergences == ()
        self.engine.close()
        shutil.rmtree(self.folder)


TestForks = Forks.TestCase
TestForks.settings = settings(max_examples=25, stateful_step_count=12)
