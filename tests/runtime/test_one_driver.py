"""
One driver for a run: many real processes at once, and drivers that have been stopped for longer than their lease.

The processes are forked from this one, which has everything imported, so that 50 of them cost little; a few more are the
real command line. Whoever wins waits within its tool until all others have reported, so nobody comes merely too late.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from paor import Engine, Journal, PaorError, Policy, replay, tool
from paor.errors import InvalidAnswer, LeaseHeld, LeaseLost
from paor.events import TransitionTaken
from paor.testing import RandomIds, SystemClock

from ..journal.test_lease import alter
from ..support.postgres_server import PostgresServer, needs_postgres
from ..support.worlds import JOURNAL, PARAMETERS, SELECT, STOP, SUCCESS, engine

PROCESSES = 50


class Race:
    """
    A folder in which many processes do the same at the same moment; each appends one line on what it came to.

    Args:
        folder: For the journal, the effects and the reports.
        where: The journal, if it is elsewhere.
    """

    def __init__(self, folder: Path, where: str = "") -> None:
        self.folder = folder
        self.where = where or folder / JOURNAL
        self.reports = folder / "reports"
        self.effects = folder / "effects"
        self.expected = 0

    def engine(self, **options: Any) -> Engine:
        """Return an engine whose tool leaves a line, and then waits for the losers' reports."""

        @tool("notes.work")
        def work(page: int) -> str:
            """Work."""
            with self.effects.open("a") as file:
                file.write(f"{os.getpid()}\n")
            deadline = time.monotonic() + 120
            while len(self.lines()) < self.expected and time.monotonic() < deadline:
                time.sleep(0.01)
            return "worked"

        journal = options.pop("journal", None) or Journal(self.where, "normal")
        script = [SELECT("notes.work"), PARAMETERS(page=1), STOP, SUCCESS]
        options = {"ids": RandomIds(), "clock": SystemClock(), **options}
        return engine(self.folder, script, [work], journal=journal, **options)

    def lines(self) -> list[dict[str, Any]]:
        """Return what was reported so far."""
        if not self.reports.exists():
            return []
        return [json.loads(line) for line in self.reports.read_text().splitlines()]

    def report(self, **values: Any) -> None:
        """Append a line, whole even when many do it at once."""
        place = os.open(self.reports, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        os.write(place, (json.dumps({"pid": os.getpid(), **values}) + "\n").encode())
        os.close(place)

    def run(self, act: Callable[[Engine], Any], *, processes: int = PROCESSES, **options: Any) -> None:
        """Let *processes* call *act* at once, each with an engine of its own; all of them must end well."""
        start, go = os.pipe()
        children = []
        for _ in range(processes):
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    os.close(go)
                    os.read(start, 1)  # returns when the parent closes its end
                    self._take_part(act, options)
                    code = 0
                finally:
                    os._exit(code)
            children.append(child)
        os.close(start)
        os.close(go)
        assert [os.waitpid(child, 0)[1] for child in children] == [0] * processes

    def _take_part(self, act: Callable[[Engine], Any], options: dict[str, Any]) -> None:
        rows: list[tuple[str, int]] = []

        def hook(event: Any) -> None:
            if isinstance(event, TransitionTaken):
                rows.append((event.run_id, event.seq))

        try:
            with self.engine(hooks=[hook], **options) as scripted:
                came_to = act(scripted).state
        except PaorError as error:
            came_to = type(error).__name__
        except BaseException as error:  # noqa: BLE001 - the report says what no caller should have seen
            came_to = f"{type(error).__name__}: {error}"
        self.report(came_to=came_to, rows=rows)

    def judge(self, runs: int) -> None:
        """Assert that every row was written by one process, in one stretch, and that the file holds."""
        with Journal(self.where, read_only=True) as journal:
            assert journal.verify() == []
            assert len(journal.runs()) == runs
            written: dict[str, list[tuple[int, int]]] = {}
            for line in self.lines():
                for run_id, seq in line["rows"]:
                    written.setdefault(run_id, []).append((seq, line["pid"]))
            for row in journal.runs():
                assert row.state == "Done"
                told = sorted(written[row.run_id])
                first = told[0][0]
                assert [seq for seq, _ in told] == list(range(first, row.head_seq + 1))
                assert len({pid for _, pid in told}) == 1
                assert replay(journal, row.run_id).identical


def interrupted(race: Race) -> str:
    """Return a run that stands after its first row and that nobody drives."""
    with race.engine() as scripted:
        events = (
            event for event in scripted.stream("Work", on_close="stop") if isinstance(event, TransitionTaken)
        )
        next(events)
        events.close()
        return scripted.journal.runs()[0].run_id


def one_resumes(race: Race, processes: int = PROCESSES) -> None:
    """Have all resume an interrupted run: the others are told that it is driven, and the effect happens once."""
    run_id = interrupted(race)
    race.expected = processes - 1
    race.run(lambda scripted: scripted.resume(run_id), processes=processes)
    assert Counter(line["came_to"] for line in race.lines()) == {"Done": 1, "LeaseHeld": processes - 1}
    assert len(race.effects.read_text().split()) == 1
    race.judge(1)


@pytest.mark.parametrize("processes", [8, pytest.param(PROCESSES, marks=pytest.mark.whole)])
def test_of_many_processes_that_resume_an_interrupted_run_one_wins(tmp_path: Path, processes: int) -> None:
    """No row is interleaved, and no process sees a lock."""
    one_resumes(Race(tmp_path), processes)


@pytest.mark.whole
@needs_postgres
def test_of_50_processes_that_resume_a_run_in_postgresql_one_wins(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    """Each with a connection of its own; nobody sees a lock there either."""
    one_resumes(Race(tmp_path, postgres.url()))


@pytest.mark.whole
def test_of_50_processes_that_give_the_same_answer_one_wins(tmp_path: Path) -> None:
    """The others are told that it is driven, or that it waits no more."""
    race = Race(tmp_path)
    policy = Policy(approvals=("notes.work",))
    with race.engine(policy=policy) as scripted:
        run_id = scripted.run("Work").run_id
    race.expected = PROCESSES - 1
    race.run(lambda scripted: scripted.resume(run_id, answer={"approve": True}), policy=policy)
    found = Counter(line["came_to"] for line in race.lines())
    assert found["Done"] == 1
    assert found["LeaseHeld"] + found["AlreadyAnswered"] == PROCESSES - 1
    assert len(race.effects.read_text().split()) == 1
    race.judge(1)


@pytest.mark.whole
def test_of_50_processes_that_settle_an_effect_in_doubt_one_wins(tmp_path: Path) -> None:
    """To try again was allowed once, so it is tried again once."""
    race = Race(tmp_path)
    race.expected = 10**9

    def dying(scripted: Engine) -> Any:
        scripted.run("Work")

    child = os.fork()
    if child == 0:
        dying(race.engine())
    while not race.effects.exists():
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with race.engine() as scripted:
        run_id = scripted.journal.runs()[0].run_id
        assert scripted.resume(run_id).status == "waiting"
    race.expected = PROCESSES - 1
    race.run(lambda scripted: scripted.resume(run_id, outcome="retry"))
    found = Counter(line["came_to"] for line in race.lines())
    assert found["Done"] == 1
    assert found["LeaseHeld"] + found["AlreadyAnswered"] == PROCESSES - 1
    assert len(race.effects.read_text().split()) == 2
    race.judge(1)


@pytest.mark.whole
def test_50_processes_start_their_runs_in_one_new_file(tmp_path: Path) -> None:
    """The file and its schema do not exist yet; every process drives its own run to its end."""
    race = Race(tmp_path)
    race.run(lambda scripted: scripted.run("Work"))
    assert Counter(line["came_to"] for line in race.lines()) == {"Done": PROCESSES}
    assert len(set(race.effects.read_text().split())) == PROCESSES
    race.judge(PROCESSES)


# -- a driver that was stopped for too long ------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["in a tool", "between two rows"])
def test_a_driver_that_was_stopped_past_its_lease_writes_nothing_more(where: str, tmp_path: Path) -> None:
    """SIGSTOP, taken over as if from another host, SIGCONT: LeaseLost, no row, and not the next effect."""
    marks = tmp_path / "marks"

    def make(*, stop: bool) -> Engine:
        def halt(name: str) -> None:
            if stop and name == where:
                os.kill(os.getpid(), signal.SIGSTOP)

        @tool("notes.work", effect="idempotent")
        def work(page: int) -> str:
            """Work."""
            with marks.open("a") as file:
                file.write(f"{page} {'first' if stop else 'second'}\n")
            halt("in a tool")
            return "worked"

        def hook(event: Any) -> None:
            if isinstance(event, TransitionTaken) and event.trigger == "select":
                halt("between two rows")

        script: list[Any] = []
        for page in (1, 2):
            script += [SELECT("notes.work"), PARAMETERS(page=page), {"decision": "continue", "reason": "on"}]
        journal = Journal(tmp_path / JOURNAL, "normal", lease_s=0.2)
        return engine(
            tmp_path, [*script[:-1], STOP, SUCCESS], [work], journal=journal, hooks=[hook], ids=RandomIds()
        )

    report, told = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            make(stop=True).run("Work")
            os.write(told, b"went on")
        except LeaseLost as error:
            os.write(told, f"LeaseLost: {error}".encode())
        finally:
            os._exit(0)
    os.close(told)
    assert os.WIFSTOPPED(os.waitpid(child, os.WUNTRACED)[1])
    with Journal(tmp_path / JOURNAL, read_only=True) as journal:
        owner = json.loads(journal.reader.query("SELECT owner FROM leases")[0][0])
    # as another host sees it: it cannot look whether the process lives, and waits for the end of the lease
    alter(tmp_path / JOURNAL, owner=json.dumps(owner | {"host": "elsewhere"}))
    with make(stop=False) as scripted:
        run_id = scripted.journal.runs()[0].run_id
        deadline = time.monotonic() + 60
        while True:
            try:
                result = scripted.resume(run_id)
                break
            except LeaseHeld:
                assert time.monotonic() < deadline
                time.sleep(0.05)
        rows = scripted.journal.reader.rows(1)
        done = marks.read_text()
        os.kill(child, signal.SIGCONT)
        os.waitpid(child, 0)
        assert os.read(report, 1000).decode().startswith("LeaseLost: run 1, row ")
        assert result.state == "Done"
        assert scripted.journal.reader.rows(1) == rows
        assert marks.read_text() == done, "the stale driver has begun no further effect"
        assert scripted.journal.verify() == []
        assert replay(scripted.journal, run_id).identical
    firsts = [line for line in done.splitlines() if line.endswith("first")]
    assert firsts == (["1 first"] if where == "in a tool" else [])


def test_an_owner_that_is_stopped_on_this_host_is_not_dead(tmp_path: Path) -> None:
    """It may go on at any moment; only when its lease has run out may somebody else."""
    race = Race(tmp_path)
    race.expected = 10**9
    child = os.fork()
    if child == 0:
        race.engine(journal=Journal(tmp_path / JOURNAL, "normal", lease_s=1000)).run("Work")
    while not race.effects.exists():
        time.sleep(0.01)
    os.kill(child, signal.SIGSTOP)
    try:
        with race.engine() as scripted:
            run_id = scripted.journal.runs()[0].run_id
            with pytest.raises(LeaseHeld):
                scripted.resume(run_id)
            alter(tmp_path / JOURNAL, lease_until=1)
            assert scripted.resume(run_id).status == "waiting"
            with pytest.raises(InvalidAnswer):
                scripted.resume(run_id, outcome="perhaps")
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
