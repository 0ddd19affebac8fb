"""Leases: one driver for a run, told apart by host, boot and process; who was replaced cannot write."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from paor import Engine, Journal, Result, tool
from paor.errors import JournalDamaged, LeaseHeld, LeaseLost
from paor.events import TransitionTaken
from paor.fsm.journal import leases
from paor.fsm.journal.leases import LeaseBook, Owner, current_owner
from paor.testing import RandomIds

from ..support.stored import file_of
from ..support.worlds import CONTINUE, JOURNAL, PARAMETERS, READ, SELECT, STOP, SUCCESS, engine

ONCE = [SELECT("notes.work"), PARAMETERS(page=1), STOP, SUCCESS]


def working(folder: Path, function: Callable[[int], Any], *, lease_s: float = 30.0, **options: Any) -> Engine:
    """Return an engine on the folder's journal whose one tool calls *function*."""

    @tool("notes.work", effect="idempotent")
    def work(page: int) -> str:
        """Work."""
        function(page)
        return f"page {page}"

    journal = Journal(folder / JOURNAL, "off", lease_s=lease_s)
    return engine(folder, ONCE, [work], journal=journal, **{"ids": RandomIds(), **options})


def begun(folder: Path, *, rows: int = 2) -> str:
    """Return a run that stands after *rows* rows and that nobody drives."""
    with working(folder, lambda page: None) as scripted:
        events = (
            event for event in scripted.stream("Work", on_close="stop") if isinstance(event, TransitionTaken)
        )
        for _ in range(rows):
            next(events)
        events.close()
        return scripted.journal.runs()[0].run_id


def lease_row(journal: Journal) -> tuple[Any, ...]:
    """Return fence, owner and end of the one lease."""
    return journal.reader.query("SELECT fence, owner, lease_until FROM leases")[0]


def alter(path: Path, **columns: Any) -> None:
    """Change columns of the one lease from outside."""
    import sqlite3

    connection = sqlite3.connect(path)
    for name, value in columns.items():
        connection.execute(f"UPDATE leases SET {name} = ?", (value,))
    connection.commit()
    connection.close()


# -- one driver ----------------------------------------------------------------------------------------------------


def test_of_many_threads_at_once_exactly_one_drives(tmp_path: Path) -> None:
    """Whoever comes first; nobody runs the tool twice."""
    run_id = begun(tmp_path)
    calls: list[int] = []
    barrier, refused = threading.Barrier(8), threading.Semaphore(0)

    def function(page: int) -> None:
        calls.append(page)
        assert all(refused.acquire(timeout=30) for _ in range(7)), (
            "the call lasts until the others were refused"
        )

    def resume(scripted: Engine) -> Result | LeaseHeld:
        barrier.wait()
        try:
            return scripted.resume(run_id)
        except LeaseHeld as error:
            refused.release()
            return error

    with working(tmp_path, function) as scripted, ThreadPoolExecutor(8) as pool:
        found = list(pool.map(resume, [scripted] * 8))
        assert scripted.journal.verify() == []
    assert len(calls) == 1
    assert sum(isinstance(item, Result) for item in found) == 1


# -- replacing -----------------------------------------------------------------------------------------------------


def killed_within_the_tool(folder: Path, *, wait: bool = True) -> int:
    """Start a run in a child that is killed within its tool; return the child's process id."""
    child = os.fork()
    if child == 0:
        try:
            scripted = working(folder, lambda page: os.kill(os.getpid(), signal.SIGKILL), lease_s=1000)
            scripted.run("Work")
        finally:
            os._exit(1)
    if wait:
        assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    return child


def test_a_lease_that_this_process_has_left_behind_is_taken_at_once(tmp_path: Path) -> None:
    """As when it could not be given back, the disk being full: nobody drives the run, so nobody has to wait."""
    run_id = begun(tmp_path)
    alter(tmp_path / JOURNAL, owner=current_owner().encode(), lease_until=2**53)
    with working(tmp_path, lambda page: None) as scripted:
        assert scripted.resume(run_id).state == "Done"


@pytest.mark.parametrize("taken_by", ["start", "resume"])
def test_a_lease_is_held_from_the_moment_others_can_see_it(
    taken_by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two journals of one process on one file: the second is refused although the first has only just committed."""
    run_id = begun(tmp_path)
    with working(tmp_path, lambda page: None) as first, working(tmp_path, lambda page: None) as second:
        hold = LeaseBook.hold
        told: list[str] = []

        def interrupted(book: LeaseBook, run: int, fence: int) -> None:
            if book is first.journal.store.leases and not told:
                with pytest.raises(LeaseHeld) as caught:
                    second.journal.store.leases.acquire(run)
                told.append(str(caught.value))
            hold(book, run, fence)

        monkeypatch.setattr(LeaseBook, "hold", interrupted)
        result = first.resume(run_id) if taken_by == "resume" else first.run("Work")
        assert result.state == "Done" and len(told) == 1


def test_a_dead_owner_is_replaced_at_once(tmp_path: Path) -> None:
    """Nobody waits for a lease of 1,000 seconds whose process is known to be gone."""
    child = killed_within_the_tool(tmp_path)
    with working(tmp_path, lambda page: None, lease_s=1000) as scripted:
        fence, owner, until = lease_row(scripted.journal)
        assert fence == 1 and json.loads(owner)["pid"] == child and until > time.time() * 1e6
        result = scripted.resume(scripted.journal.runs()[0].run_id)
        assert result.state == "Done"
        assert lease_row(scripted.journal)[0] == 2


def test_an_owner_that_ended_and_was_not_waited_for_counts_as_dead(tmp_path: Path) -> None:
    """In a container without an init such processes stay in the process table for ever."""
    child = killed_within_the_tool(tmp_path, wait=False)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    try:
        with working(tmp_path, lambda page: None, lease_s=1000) as scripted:
            assert scripted.resume(scripted.journal.runs()[0].run_id).state == "Done"
    finally:
        os.waitpid(child, 0)


def test_an_owner_on_another_host_keeps_its_lease_until_it_has_run_out(tmp_path: Path) -> None:
    """It cannot be seen from here whether it lives."""
    killed_within_the_tool(tmp_path)
    path = tmp_path / JOURNAL
    away = replace(current_owner(), host="elsewhere").encode()
    alter(path, owner=away, lease_until=int((time.time() + 1000) * 1e6))
    with working(tmp_path, lambda page: None) as scripted:
        run_id = scripted.journal.runs()[0].run_id
        with pytest.raises(LeaseHeld, match="on elsewhere; wait for it, cancel it"):
            scripted.resume(run_id)
        alter(path, lease_until=int((time.time() - 0.001) * 1e6))
        assert scripted.resume(run_id).state == "Done"


@pytest.mark.parametrize(
    "owner", ["", "{}", "[]", "no json", '{"host": 1, "boot": 2, "pid": "x", "start": 0}']
)
def test_an_owner_that_cannot_be_read_keeps_its_lease_too(owner: str, tmp_path: Path) -> None:
    """A newer paor may write it in another way."""
    killed_within_the_tool(tmp_path)
    assert Owner.decode(owner) is None
    alter(tmp_path / JOURNAL, owner=owner)
    with (
        working(tmp_path, lambda page: None) as scripted,
        pytest.raises(LeaseHeld, match="driven by another driver"),
    ):
        scripted.resume(scripted.journal.runs()[0].run_id)


def test_a_run_whose_lease_is_gone_is_damage(tmp_path: Path) -> None:
    """Nobody can say who drives it."""
    run_id = begun(tmp_path)
    with working(tmp_path, lambda page: None) as scripted:
        file_of(scripted.journal).connection.execute("DELETE FROM leases")
        with pytest.raises(JournalDamaged, match="run number 1 has no lease"):
            scripted.resume(run_id)


def test_a_lease_without_an_end_does_not_last(tmp_path: Path) -> None:
    """So that no file can lock a run for ever."""
    run_id = begun(tmp_path)
    alter(tmp_path / JOURNAL, owner="somebody", lease_until=None)
    with working(tmp_path, lambda page: None) as scripted:
        assert scripted.resume(run_id).state == "Done"


def test_cancelling_a_run_that_somebody_drives_asks_and_does_not_take(tmp_path: Path) -> None:
    """The driver sees it with its next row."""
    run_id = begun(tmp_path)
    inside, leave = threading.Event(), threading.Event()

    def function(page: int) -> None:
        inside.set()
        assert leave.wait(30)

    with working(tmp_path, function) as scripted, ThreadPoolExecutor(1) as pool:
        first: Future[Result] = pool.submit(scripted.resume, run_id)
        assert inside.wait(30)
        with working(tmp_path, function) as other:
            assert other.cancel(run_id).status == "running"
        leave.set()
        result = first.result()
        assert (result.state, result.reason) == ("Failed", "cancelled")
        assert scripted.journal.verify() == []


# -- fencing -------------------------------------------------------------------------------------------------------


def test_two_drivers_never_drive_one_run(tmp_path: Path) -> None:
    """The one whose token is not the lease's any more writes nothing, also while nobody else has written a row."""
    with working(tmp_path, lambda page: None) as scripted:
        events = scripted.stream("Work", on_close="stop")
        assert any(event.kind == "transition" for event in events)
        rows = scripted.journal.transitions(scripted.journal.runs()[0].run_id)
        alter(tmp_path / JOURNAL, fence=7)
        with pytest.raises(LeaseLost):
            list(events)
        assert scripted.journal.transitions(scripted.journal.runs()[0].run_id) == rows


def test_a_driver_that_was_replaced_writes_nothing_more(tmp_path: Path) -> None:
    """It was only slow; the run has gone on without it, and both tell the truth."""
    ended: list[Result] = []

    def slow(page: int) -> None:
        alter(tmp_path / JOURNAL, owner=replace(current_owner(), host="elsewhere").encode(), lease_until=1)
        with working(tmp_path, lambda page: None) as other:
            ended.append(other.resume(other.journal.runs()[0].run_id))

    with working(tmp_path, slow) as scripted:
        with pytest.raises(LeaseLost, match=r"run 1, row 2: another driver has taken the run over"):
            scripted.run("Work")
        assert ended[0].state == "Done"
        rows = scripted.journal.transitions(ended[0].run_id)
        assert len(rows) == 6 and scripted.journal.verify() == []
        assert lease_row(scripted.journal) == (2, None, None)


def test_releasing_a_lease_that_was_taken_over_leaves_it_alone(tmp_path: Path) -> None:
    """Only the current holder gives it back."""
    run_id = begun(tmp_path, rows=1)
    with working(tmp_path, lambda page: None) as scripted:
        leases = scripted.journal.store.leases
        run = scripted.journal.run(run_id).run
        old = leases.acquire(run)
        alter(tmp_path / JOURNAL, lease_until=1, owner="somebody")
        new = leases.acquire(run)
        assert new == old + 1
        leases.release(run, old)
        assert lease_row(scripted.journal)[1] is not None
        leases.release(run, new)
        assert lease_row(scripted.journal)[1:] == (None, None)


# -- renewing ------------------------------------------------------------------------------------------------------


def test_a_long_call_keeps_its_lease_by_renewing_it(tmp_path: Path) -> None:
    """The tool takes more than twice as long as a lease lasts; meanwhile the lease is renewed again and again."""
    ends: list[int] = []

    def long(page: int) -> None:
        deadline = time.monotonic() + 30
        while len(ends) < 2 or ends[-1] < ends[0] + 400_000:
            assert time.monotonic() < deadline
            end = lease_row(scripted.journal)[2]
            ends.extend([end] if end not in ends else [])
            time.sleep(0.01)

    with working(tmp_path, long, lease_s=0.2) as scripted:
        assert scripted.run("Work").state == "Done"
        assert ends == sorted(ends) and len(ends) > 2
        assert scripted.journal.verify() == []


def test_renewing_goes_on_after_the_file_could_not_be_written(tmp_path: Path) -> None:
    """A locked file is no reason to give up; the next round tries again."""
    run_id = begun(tmp_path)
    with working(tmp_path, lambda page: None, lease_s=0.06) as scripted:
        connection = file_of(scripted.journal).connection
        connection.execute("PRAGMA query_only = ON")
        tried: list[str] = []
        connection.set_trace_callback(tried.append)
        scripted.journal.store.leases.hold(scripted.journal.run(run_id).run, 1)
        deadline = time.monotonic() + 30
        while not tried:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        with scripted.journal.store.backend.lock:  # once that round has given up
            connection.set_trace_callback(None)
            connection.execute("PRAGMA query_only = OFF")
        alter(tmp_path / JOURNAL, lease_until=5)
        deadline = time.monotonic() + 30
        while lease_row(scripted.journal)[2] == 5:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_closing_a_journal_gives_back_what_it_holds(tmp_path: Path) -> None:
    """So that the next process need not wait; the renewing thread ends."""
    run_id = begun(tmp_path)
    scripted = working(tmp_path, lambda page: None, lease_s=0.05)
    fence = scripted.journal.store.leases.acquire(scripted.journal.run(run_id).run)
    renewer = scripted.journal.store.leases._renewer
    scripted.close()
    assert renewer is not None
    renewer.join(30)
    assert not renewer.is_alive()
    with working(tmp_path, lambda page: None) as scripted:
        assert lease_row(scripted.journal) == (fence, None, None)


# -- who is dead ---------------------------------------------------------------------------------------------------


def test_this_process_is_alive() -> None:
    """As itself, and read back from the journal."""
    owner = current_owner()
    assert not owner.provably_dead()
    assert Owner.decode(owner.encode()) == owner


@pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="start times of processes are read from /proc"
)
def test_only_what_is_certain_counts_as_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another host or process namespace cannot be judged from here; another boot or start time can."""
    me = current_owner()
    assert me.boot and me.space and me.start
    assert not replace(me, host="elsewhere", pid=2**30).provably_dead()
    assert not replace(me, space="pid:[1]", pid=2**30).provably_dead()
    assert replace(me, boot="another").provably_dead()
    assert not replace(me, boot="").provably_dead()
    assert replace(me, start=me.start - 1).provably_dead()
    assert replace(me, pid=2**30).provably_dead()


def test_without_start_times_a_process_counts_as_alive_while_there_is_one_of_its_id(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where the system tells no start times, its id is all there is."""
    me = replace(current_owner(), start=0)
    assert not me.provably_dead()
    assert replace(me, pid=2**22 + 1).provably_dead()

    def forbidden(pid: int, sign: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "kill", forbidden)
    assert not replace(me, pid=2**22 + 1).provably_dead()


def test_an_owner_that_cannot_be_seen_is_not_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where /proc hides the processes of other users, only its id tells that there is none any more."""
    me = current_owner()
    real = Path.read_text

    def hidden(path: Path, *arguments: Any, **keywords: Any) -> str:
        if path.name == "stat":
            raise FileNotFoundError(path)
        return real(path, *arguments, **keywords)

    def of_another_user(pid: int, sign: int) -> None:
        raise PermissionError

    monkeypatch.setattr(Path, "read_text", hidden)
    assert replace(me, pid=2**30).provably_dead()
    monkeypatch.setattr(os, "kill", of_another_user)
    assert not replace(me, pid=2**22 + 1).provably_dead()


@pytest.mark.skipif(not current_owner().boot, reason="this system has no ids of its boots")
@pytest.mark.parametrize("step_s", [-86_400 * 365, -40, 40, 86_400 * 365])
def test_a_step_of_the_clock_takes_no_run_from_a_driver_that_lives(
    step_s: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Seen by a process of the same boot that cannot look at it; its lease runs out by the time that passes."""
    hidden = replace(current_owner(), space="pid:[1]")
    until = hidden.now() + 30_000_000
    real = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real() + step_s * 10**9)
    with Journal(tmp_path / JOURNAL) as journal:
        leases = journal.store.leases
        assert not leases.replaceable(hidden.encode(), until, 1, 1)
        assert leases.replaceable(hidden.encode(), hidden.now() - 1, 1, 1)
        assert abs(leases._until() - until) < 20_000_000, "what is renewed stays comparable"


def test_a_system_without_proc_still_has_owners(monkeypatch: pytest.MonkeyPatch) -> None:
    """Host and process id remain."""

    def missing(path: Path, *arguments: Any, **keywords: Any) -> str:
        raise FileNotFoundError(path)

    monkeypatch.setattr(Path, "read_text", missing)
    leases._owner.cache_clear()
    try:
        me = current_owner()
        assert (me.boot, me.space, me.start, me.pid) == ("", "", 0, os.getpid())
        assert not me.provably_dead()
    finally:
        leases._owner.cache_clear()


def test_runs_of_one_process_do_not_wait_for_each_other(tmp_path: Path) -> None:
    """A lease is for one run, not for the file."""
    with engine(tmp_path, [*READ(1), CONTINUE, *READ(2), STOP, SUCCESS], ids=RandomIds()) as scripted:
        one, two = scripted.stream("One", on_close="stop"), scripted.stream("Two", on_close="stop")
        for _ in range(5):
            next(one)
            next(two)
        assert len(scripted.journal.reader.query("SELECT 1 FROM leases WHERE owner IS NOT NULL")) == 2
        list(one)
        list(two)
        assert {row.state for row in scripted.journal.runs()} == {"Done"}


def test_where_a_process_cannot_be_asked_for_it_counts_as_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    """On Windows signal 0 is a Ctrl-C, so nobody is sent one: a lost driver's lease runs out."""

    def kill(pid: int, number: int) -> None:
        raise AssertionError("no signal is sent")

    with monkeypatch.context() as patch:
        patch.setattr("os.kill", kill)
        patch.setattr("os.name", "nt")
        alive = leases._exists(2**30)
    assert alive and not leases._exists(2**30)
