"""
Two engines on one file, step by step: drivers that stop, are stopped, taken over, cancelled and answered, in any order.

Hypothesis moves both drivers row by row. Whatever it does, one of them at most can write, what it wrote stays, nothing
follows an end, and the effect that must not repeat has not.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from paor import Engine, Journal, Limits, Policy, ScriptedModel, ToolContext, replay, tool
from paor.errors import InvalidAnswer, LeaseHeld, LeaseLost
from paor.testing import RandomIds, SteppingClock

from ..journal.test_lease import alter
from ..support.inside import FINAL, current_owner, take_up
from ..support.worlds import CONTINUE, JOURNAL, READ, SELECT, STOP, SUCCESS

SENDS = [SELECT("notes.send", {"text": "string"}), {"schema": "parameters_v1", "parameters": {"text": "one"}}]
SCRIPT: list[Any] = [*READ(1), CONTINUE, *SENDS, CONTINUE, *READ(2), STOP, SUCCESS]
WHICH = st.integers(0, 1)


class TwoDrivers(RuleBasedStateMachine):
    """One journal, two engines as two processes would have them, and one run after the other."""

    @initialize(approvals=st.sampled_from([(), ("notes.send",)]), reconcile=st.sampled_from([None, "sure"]))
    def open(self, approvals: tuple[str, ...], reconcile: str | None) -> None:
        """Open both engines."""
        self.folder = Path(tempfile.mkdtemp())
        self.performed: Counter[str] = Counter()
        self.allowed: Counter[str] = Counter()
        self.drivers: list[Iterator[Any] | None] = [None, None]
        self.stale: set[int] = set()
        self.rows: list[tuple[Any, ...]] = []
        self.run_id = ""
        self.cancelled = False
        self.engines = [self.engine(approvals, reconcile) for _ in range(2)]

    def engine(self, approvals: tuple[str, ...], reconcile: str | None) -> Engine:
        """Return an engine with a tool that counts its effects by key, and may say later whether they happened."""

        @tool("notes.read", effect="read", label="page")
        def read(page: int) -> str:
            """Read."""
            return f"page {page}"

        def happened(key: str) -> str | None:
            return f"sent {key}" if self.performed[key] else None

        @tool("notes.send", label="receipt", reconcile=happened if reconcile else None)
        def send(context: ToolContext, text: str) -> str:
            """Send."""
            self.performed[context.idempotency_key] += 1
            return "sent"

        return Engine(
            ScriptedModel(SCRIPT),
            [read, send],
            Journal(self.folder / JOURNAL, "off"),
            Limits(max_elicitations=9),
            Policy(approvals=approvals),
            clock=SteppingClock(),
            ids=RandomIds(),
            builtins=False,
        )

    @property
    def row(self) -> Any:
        """The run as the journal shows it."""
        return self.engines[0].journal.run(self.run_id)

    @property
    def status(self) -> str:
        """Of the run; empty without one."""
        return self.row.status if self.run_id else ""

    def free(self, which: int) -> bool:
        """Whether an engine drives nothing."""
        return self.drivers[which] is None

    def holder(self) -> int | None:
        """Which engine may write, None when nobody does."""
        found = [n for n in range(2) if self.drivers[n] is not None and n not in self.stale]
        assert len(found) <= 1
        return found[0] if found else None

    def take(self, which: int, **given: Any) -> None:
        """Take the run up with one engine, without a step yet; the other one must be refused while one drives."""
        engine, other = self.engines[which], self.holder()
        if other is not None:
            with pytest.raises((LeaseHeld, InvalidAnswer)):
                drive, walk = take_up(engine._runner, self.run_id, **given)
                assert walk is None, "somebody else drives it"
                raise LeaseHeld
            return
        drive, walk = take_up(engine._runner, self.run_id, **given)
        if walk is not None:
            self.drivers[which] = driver = engine._runner.drive(lambda: (drive, walk), resumed=True)
            next(driver)

    # -- rules

    @precondition(lambda self: self.status in ("", "done", "failed") and self.holder() is None)
    @rule(which=WHICH)
    def start(self, which: int) -> None:
        """A new run."""
        if not self.free(which):
            return
        self.drivers[which] = stream = self.engines[which].stream("Read and send")
        self.run_id = next(stream).run_id
        self.rows, self.cancelled = [], False

    @precondition(lambda self: any(driver is not None for driver in self.drivers))
    @rule(which=WHICH, events=st.integers(1, 9))
    def step(self, which: int, events: int) -> None:
        """Go on by some rows; a driver that was replaced is told, and has written nothing."""
        driver = self.drivers[which]
        if driver is None:
            return
        before = self.engines[0].journal.reader.rows(self.row.run)
        try:
            for _ in range(events):
                next(driver)
        except StopIteration:
            self.drivers[which] = None
            self.stale.discard(which)
        except LeaseLost:
            assert which in self.stale
            self.drivers[which] = None
            self.stale.discard(which)
            assert self.engines[0].journal.reader.rows(self.row.run) == before

    @precondition(lambda self: any(driver is not None for driver in self.drivers))
    @rule(which=WHICH)
    def drop(self, which: int) -> None:
        """A driver stops where it stands, and gives its lease back if it is still its own."""
        driver = self.drivers[which]
        if driver is not None:
            driver.close()  # type: ignore[attr-defined]
            self.drivers[which] = None
            self.stale.discard(which)

    @precondition(lambda self: self.holder() is not None and self.status == "running")
    @rule()
    def take_over(self) -> None:
        """The holder has not renewed for too long, as somebody on another host sees it: who is free takes the run."""
        holder = self.holder()
        assert holder is not None
        if not self.free(1 - holder):
            return
        run = self.row.run
        away = replace(current_owner(), host="elsewhere").encode()
        alter(self.folder / JOURNAL, owner=away, lease_until=1)
        self.stale.add(holder)
        self.take(1 - holder)
        fence = self.engines[0].journal.reader.query("SELECT fence FROM leases WHERE run = ?", (run,))[0][0]
        assert fence >= 2

    @precondition(lambda self: self.status == "running")
    @rule(which=WHICH)
    def resume(self, which: int) -> None:
        """Go on, or be refused while the other one drives."""
        if self.free(which):
            self.take(which)

    @precondition(lambda self: self.status == "waiting" and self.holder() is None)
    @rule(which=WHICH, outcome=st.sampled_from(["done", "retry", "fail"]))
    def answer(self, which: int, outcome: str) -> None:
        """Whatever it waits for."""
        if not self.free(which):
            return
        question = self.engines[which].resume(self.run_id).waiting_for
        assert question is not None
        if question.kind == "in_doubt":
            assert question.key is not None
            self.allowed[question.key] += outcome == "retry"
            self.take(which, outcome=outcome, result="seen")
        else:
            self.take(which, answer={"approve": outcome != "fail"})

    @precondition(lambda self: self.status in ("running", "waiting"))
    @rule(which=WHICH, sure=st.integers(0, 3))
    def cancel(self, which: int, sure: int) -> None:
        """At once when nobody drives it; else whoever does ends it before its next call."""
        if sure:
            return
        result = self.engines[which].cancel(self.run_id)
        self.cancelled = True
        assert self.holder() is not None or (result.state, result.reason) == ("Failed", "cancelled")

    # -- what always holds

    @invariant()
    def the_journal_holds(self) -> None:
        """No gap, nothing changed, nothing behind an end, the chain and the replay hold."""
        if not getattr(self, "run_id", ""):
            return
        journal, run = self.engines[0].journal, self.row
        rows = journal.reader.rows(run.run)
        assert rows[: len(self.rows)] == self.rows
        self.rows = rows
        assert [row[1] for row in rows] == list(range(len(rows)))
        assert not any(row[5] in FINAL for row in rows[:-1])
        assert journal.verify() == []
        assert replay(journal, self.run_id).identical
        if self.cancelled and run.status in ("done", "failed"):
            assert run.reason == "cancelled"

    @invariant()
    def no_effect_repeats(self) -> None:
        """Once for each key, and once more for each time somebody said to try again."""
        for key, count in getattr(self, "performed", {}).items():
            assert count <= 1 + self.allowed[key]

    def teardown(self) -> None:
        """Whatever happened, the run can be brought to an end."""
        if not hasattr(self, "engines"):
            return
        for driver in self.drivers:
            if driver is not None:
                driver.close()  # type: ignore[attr-defined]
        if self.status in ("running", "waiting"):
            alter(self.folder / JOURNAL, owner=None, lease_until=None)
        for _ in range(9):
            if self.status not in ("running", "waiting"):
                break
            waiting = self.engines[0].resume(self.run_id).waiting_for
            if waiting is not None and waiting.kind == "in_doubt":
                self.engines[0].resume(self.run_id, outcome="fail")
            elif waiting is not None:
                self.engines[0].resume(self.run_id, answer={"approve": True})
        assert self.status in ("", "done", "failed")
        for engine in self.engines:
            engine.close()
        shutil.rmtree(self.folder)


TestTwoDrivers = TwoDrivers.TestCase
TestTwoDrivers.settings = settings(max_examples=30, stateful_step_count=25, deadline=None)
