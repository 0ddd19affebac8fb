"""Runs outlive their listeners: each listener sees every row once and in order, wherever it is and whatever it does."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paor import ApprovalRule, Journal, ModelCall, Policy
from paor.errors import KeyConflict, UnknownRun, UsageError
from paor.events import Event

from ..support.postgres_server import PostgresServer, needs_postgres, server_missing
from .listeners import ROWS, STEPS, Stepping, end_of, process, stepping

if not server_missing():
    import psycopg

FUSE_S = 20.0


class Gate:
    """A model's replies wait until the test lets them go."""

    def __init__(self) -> None:
        self.asked, self.free = threading.Semaphore(0), threading.Semaphore(0)

    def __call__(self, call: ModelCall) -> None:
        self.asked.release()
        assert self.free.acquire(timeout=FUSE_S)

    def reached(self) -> None:
        """Wait until the model is asked."""
        assert self.asked.acquire(timeout=FUSE_S)

    def open(self) -> None:
        """Let every reply go."""
        self.free.release(10_000)


def all_of(stream: Iterable[Event]) -> list[Event]:
    """Return what is still to come, within bounds."""
    events: list[Event] = []
    thread = threading.Thread(target=lambda: events.extend(stream), daemon=True)
    thread.start()
    thread.join(FUSE_S)
    assert not thread.is_alive(), events[-1:]
    return events


def rows_of(events: list[Event]) -> list[int]:
    return [event.seq for event in events if event.kind == "transition"]


def test_a_start_returns_at_once_and_its_errors_are_raised_there(tmp_path: Path) -> None:
    """The run is in the journal before its model has said anything; what is wrong with a start is not found out by listening."""
    gate = Gate()
    with stepping(tmp_path / "runs.db", Stepping(gate)) as engine:
        run_id = engine.start("Take the steps", key="k")
        assert engine.journal.run(run_id).status == "running"
        with pytest.raises(UsageError):
            engine.start("")
        with pytest.raises(UsageError):
            engine.stream("Take the steps", tools=["no.such"])
        with pytest.raises(KeyConflict):
            engine.start("Something else", key="k")
        assert engine.start("Take the steps", key="k") == run_id  # it is driven, and only once
        assert len(engine.journal.runs()) == 1
        gate.open()
        assert end_of(engine.events(run_id)).status == "done"
        assert engine.start("Take the steps", key="k") == run_id


def test_who_listens_names_a_run_and_a_row(tmp_path: Path) -> None:
    with stepping(tmp_path / "runs.db") as engine:
        with pytest.raises(UnknownRun):
            engine.events("nobody")
        with pytest.raises(UnknownRun):
            engine.aevents("nobody")
        run_id = engine.run("Take the steps").run_id
        for wrong in ("3", -2, True, 1.5):
            with pytest.raises(UsageError):
                engine.events(run_id, after=wrong)  # type: ignore[arg-type]
        assert rows_of(list(engine.events(run_id, after=10_000))) == []


@settings(max_examples=6, deadline=None)
@given(st.lists(st.sampled_from(["thread", "task", "slow", "leaves"]), min_size=1, max_size=8), st.data())
def test_each_listener_sees_every_row_once_and_in_order(kinds: list[str], data: st.DataObject) -> None:
    """Threads and tasks, from any row on; one leaves and comes again where it was, one takes nothing until all is over."""
    gate, over = Gate(), threading.Event()
    with Journal(":memory:") as journal, stepping(journal, Stepping(gate)) as engine:
        run_id = engine.start("Take the steps")
        places = [data.draw(st.integers(0, len(ROWS))) for _ in kinds]
        seen: list[list[Event]] = [[] for _ in kinds]

        def listen(number: int) -> None:
            if kinds[number] == "slow":
                stream = engine.events(run_id)
                seen[number].append(next(stream))
                assert over.wait(FUSE_S)
                seen[number].extend(stream)
                return
            if kinds[number] == "leaves":
                stream = engine.events(run_id)
                for event in stream:
                    seen[number].append(event)
                    if event.kind == "transition" and event.seq >= places[number]:
                        break
                stream.close()
                if seen[number][-1].kind == "complete":
                    return
            after = seen[number][-1].seq if seen[number] else None
            seen[number].extend(engine.events(run_id, after=after))

        async def task(number: int) -> None:
            seen[number].extend([event async for event in engine.aevents(run_id)])

        async def tasks() -> None:
            await asyncio.gather(*(task(number) for number, kind in enumerate(kinds) if kind == "task"))

        threads = [
            threading.Thread(target=listen, args=(n,)) for n, kind in enumerate(kinds) if kind != "task"
        ]
        threads.append(threading.Thread(target=asyncio.run, args=(tasks(),)))
        for thread in threads:
            thread.start()
        gate.open()
        list(engine.events(run_id))
        over.set()
        for thread in threads:
            thread.join(FUSE_S)
        for events in seen:
            assert rows_of(events) == ROWS
            assert events[-1].kind == "complete" and events[-1].result.status == "done"
            assert all(event.run_id == run_id for event in events)
            steps = [event.seq for event in events if event.kind == "step"]
            assert len(steps) >= STEPS - 1  # one that leaves within a row has seen its first event


@pytest.mark.whole
def test_fifty_listeners_of_one_run(tmp_path: Path) -> None:
    """Twenty of them are slow or leave; ten are in other processes; the run is driven once and says the same to all."""
    gate, over = Gate(), threading.Event()
    path = tmp_path / "runs.db"
    with stepping(path, Stepping(gate)) as engine:
        run_id = engine.start("Take the steps")
        others = [process(path, run_id) for _ in range(10)]
        seen: dict[int, list[Event]] = {number: [] for number in range(40)}

        def listen(number: int) -> None:
            stream = engine.events(run_id)
            if number < 10:
                seen[number].append(next(stream))
                assert over.wait(FUSE_S)
            elif number < 20:
                for event in stream:
                    seen[number].append(event)
                    if event.kind == "transition" and event.seq == number:
                        break
                stream.close()
                stream = engine.events(run_id, after=number)
            seen[number].extend(stream)

        async def tasks() -> None:
            async def one(number: int) -> None:
                seen[number].extend([event async for event in engine.aevents(run_id)])

            await asyncio.gather(*(one(number) for number in range(30, 40)))

        threads = [threading.Thread(target=listen, args=(number,)) for number in range(30)]
        threads.append(threading.Thread(target=asyncio.run, args=(tasks(),)))
        for thread in threads:
            thread.start()
        gate.open()
        list(engine.events(run_id))
        over.set()
        for thread in threads:
            thread.join(FUSE_S)
        assert [rows_of(events) for events in seen.values()] == [ROWS] * 40
        for other in others:
            told, _ = other.communicate(timeout=FUSE_S)
            assert told.split() == [*map(str, ROWS), "end"]


def test_another_process_is_told_of_each_row_as_it_is_written(tmp_path: Path) -> None:
    """It hears the rows while the run is on its way, not only at the end; here the model waits until the other has heard."""
    path, gate = tmp_path / "runs.db", Gate()
    with stepping(path, Stepping(gate)) as engine:
        run_id = engine.start("Take the steps")
        other = process(path, run_id)
        assert other.stdout is not None
        gate.free.release()
        assert other.stdout.readline() == "0\n"
        assert engine.journal.run(run_id).status == "running"
        gate.open()
        told, _ = other.communicate(timeout=FUSE_S)
        assert told.split() == [*map(str, ROWS[1:]), "end"]


def test_what_the_model_says_comes_before_its_row_and_whole(tmp_path: Path) -> None:
    """Whoever comes while a reply is on its way gets it from its beginning."""
    gate, late = Gate(), []
    said = threading.Event()

    class Slow(Stepping):
        def ask(self, call: ModelCall) -> Any:
            if call.number == 0 and call.on_text is not None:
                call.on_text("Let me ")
                said.set()
            return super().ask(call)

    with stepping(tmp_path / "runs.db", Slow(gate)) as engine:
        run_id = engine.start("Take the steps")
        assert said.wait(FUSE_S)  # nobody has listened so far
        stream = engine.events(run_id)
        late.append(next(stream))
        late.append(next(stream))
        assert late[1].kind == "model_text" and (late[1].text, late[1].seq) == ("Let me ", 0)
        gate.open()
        late.extend(stream)
    texts: dict[int, str] = {}
    row = -1
    for event in late:
        if event.kind == "transition":
            row = event.seq
        elif event.kind == "model_text":
            assert event.seq > row
            texts[event.seq] = texts.get(event.seq, "") + event.text
    assert texts[0].startswith("Let me {") and len(texts) == 3 * STEPS
    assert all(text.endswith("}") for text in texts.values())


def test_a_listener_that_is_slow_is_told_what_it_missed_and_loses_no_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Little is kept for it, whatever is said; the rows come from the journal."""
    monkeypatch.setattr("paor.fsm.runtime.channel.SAID_MAX", 20)
    monkeypatch.setattr("paor.fsm.journal.feeds.KEPT", 2)
    gate = Gate()
    with stepping(tmp_path / "runs.db", Stepping(gate)) as engine:
        run_id = engine.start("Take the steps")
        stream = engine.events(run_id)
        events = [next(stream)]
        gate.free.release()
        while not rows_of(events):  # it has come as far as the run, and falls behind from here on
            events.append(next(stream))
        gate.open()
        all_of(engine.events(run_id))
        (feed,) = engine._runner.listening._feeds.values()
        assert len(feed.kept) <= 2 and feed.speech.end - feed.speech.start <= 20 < feed.speech.end
        events += all_of(stream)
    assert rows_of(events) == ROWS
    missed = [event for event in events if event.kind == "model_notice"]
    assert [event.notice for event in missed] == ["missed"] and "characters" in missed[0].text


@pytest.mark.parametrize("loop", [False, True], ids=["sync", "async"])
def test_a_stream_that_is_closed_leaves_its_run_going_unless_it_is_to_stop(
    loop: bool, tmp_path: Path
) -> None:
    """By default the run ends all the same; with ``stop`` it is left at the row that was read."""
    gate = Gate()
    with stepping(tmp_path / "runs.db", Stepping(gate)) as engine:

        async def first_row(**options: Any) -> str:
            stream = engine.astream("Take the steps", **options)
            async for event in stream:
                if event.kind == "transition":
                    break
            await stream.aclose()
            gate.open()
            if not options:
                async for _ in engine.aevents(event.run_id):
                    pass
            return event.run_id

        def first(**options: Any) -> str:
            if loop:
                return asyncio.run(first_row(**options))
            stream = engine.stream("Take the steps", **options)
            event = next(event for event in stream if event.kind == "transition")
            stream.close()
            gate.open()
            return event.run_id

        gate.free.release()
        detached = first()
        assert end_of(engine.events(detached)).status == "done"
        stopped = first(on_close="stop")
        row = engine.journal.run(stopped)
        assert (row.status, row.head_seq) == ("running", 0)
        with pytest.raises(UsageError):
            engine.stream("Take the steps", on_close="maybe")  # type: ignore[arg-type]


def test_whoever_hears_that_a_run_waits_can_answer_at_once(tmp_path: Path) -> None:
    """The driver has let go of it by then; who listens hears it go on and end, whoever goes on with it."""
    policy = Policy(approvals=(ApprovalRule(tool="steps.take", arguments={"number": {"gt": STEPS - 3}}),))
    told, early = threading.Event(), []

    def hold(event: Event) -> None:
        if event.kind == "waiting":  # the driver still has the run
            early.append(told.wait(0.2))

    with stepping(tmp_path / "runs.db", policy=policy, hooks=[hold]) as engine:
        run_id = engine.start("Take the steps")
        answered = 0
        events: list[Event] = []
        for event in engine.events(run_id):
            events.append(event)
            if event.kind == "waiting":
                told.set()
                answered += 1
                told.clear()
                engine.continue_run(run_id, answer={"approve": True}, question=event.question.id, actor="ann")
        assert early == [False, False]
        assert answered == 2 and events[-1].kind == "complete" and events[-1].result.status == "done"
        rows = rows_of(events)
        assert rows == list(range(len(rows)))
        actors = [
            event.actor for event in events if event.kind == "transition" and event.trigger == "provide"
        ]
        assert actors == ["ann", "ann"]


def test_rows_read_from_the_journal_are_the_events_that_the_driver_told(tmp_path: Path) -> None:
    """Another engine, which has driven nothing, tells the same of a run with answers, steps and an end."""
    policy = Policy(approvals=(ApprovalRule(tool="steps.take", arguments={"number": {"lt": 1}}),))
    heard: list[Event] = []
    path = tmp_path / "runs.db"
    with stepping(path, policy=policy, hooks=[heard.append]) as engine:
        waits = engine.run("Take the steps")
        engine.resume(waits.run_id, answer={"approve": True}, actor="bob")
        rows = ("transition", "step", "waiting")
        with stepping(path) as other:
            read = [event for event in other.events(waits.run_id) if event.kind in rows]
    assert read == [event for event in heard if event.kind in rows]


def test_draining_ends_what_ends_in_time_and_leaves_the_rest(tmp_path: Path) -> None:
    """What is left is left between two calls, and another process goes on with it; nothing is started any more."""
    gate = Gate()
    path = tmp_path / "runs.db"
    with stepping(path, Stepping(gate)) as engine:
        run_id = engine.start("Take the steps")
        gate.reached()
        assert engine.drain(0) == (run_id,)
        with pytest.raises(UsageError):
            engine.start("Take the steps")
        assert engine.journal.run(run_id).driver is not None
        gate.free.release()  # the reply is a row; then the run is left
    with stepping(path) as engine:
        row = engine.journal.run(run_id)
        assert (row.status, row.head_seq, row.driver) == ("running", 0, None)
        assert [result.status for result in engine.recover()] == ["done"]
        assert rows_of(list(engine.events(run_id))) == ROWS
        assert engine.drain(FUSE_S) == ()


def test_a_run_of_an_event_loop_is_left_when_its_engine_is_closed_there(tmp_path: Path) -> None:
    """``async with`` waits for the call that is on its way; nothing is in doubt."""
    gate = Gate()
    path = tmp_path / "runs.db"

    async def main() -> str:
        async with stepping(path, Stepping(gate)) as engine:
            run_id = await engine.astart("Take the steps")
            await asyncio.to_thread(gate.reached)
            asyncio.get_running_loop().call_soon(gate.free.release)
        return run_id

    run_id = asyncio.run(main())
    with Journal(path) as journal:
        row = journal.run(run_id)
        assert (row.status, row.head_seq, row.driver) == ("running", 0, None)


def test_those_who_listen_hear_no_more_once_the_engine_is_closed(tmp_path: Path) -> None:
    gate, heard = Gate(), []
    engine = stepping(tmp_path / "runs.db", Stepping(gate))
    run_id = engine.start("Take the steps")
    stream = engine.events(run_id)
    heard.append(next(stream))
    thread = threading.Thread(target=lambda: heard.extend(stream))
    thread.start()
    gate.free.release()
    engine.close()
    thread.join(FUSE_S)
    assert not thread.is_alive() and heard[-1].kind != "complete"


# -- PostgreSQL ----------------------------------------------------------------------------------------------------------

LISTENS = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ShareLock' AND granted"


def heard_elsewhere(postgres: PostgresServer, listens: Callable[[Any], None]) -> list[int]:
    """Return the rows that a listener hears of a run on another connection, which goes on once *listens* has returned."""
    url, gate = postgres.url(), Gate()
    with stepping(url, Stepping(gate)) as drives, stepping(url) as other:
        run_id = drives.start("Take steps")
        gate.reached()
        events = other.events(run_id)
        assert next(events).kind == "start"
        with psycopg.connect(
            f"postgresql://postgres@127.0.0.1:{postgres.port}/postgres", autocommit=True
        ) as raw:
            listens(raw)
        gate.open()
        return rows_of(all_of(events))


@needs_postgres
@pytest.mark.parametrize("when", ["at once", "connection lost"])
def test_rows_of_another_process_are_notified_of(
    when: str, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody looks for them meanwhile; a connection that was lost is made anew, and what was missed is looked for then."""
    monkeypatch.setattr("paor.fsm.journal.postgres.source.PostgresWatch.look_s", 3600.0)

    def listens(raw: Any) -> None:
        fuse = time.monotonic() + FUSE_S
        while not (found := raw.execute(LISTENS).fetchall()):
            assert time.monotonic() < fuse
        if when == "connection lost":
            raw.execute("SELECT pg_terminate_backend(%s, 10000)", found[0])

    assert heard_elsewhere(postgres, listens) == ROWS


@needs_postgres
def test_a_server_that_notifies_nobody_delays_rows_only(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As behind a pooler, or on a standby: they are looked for."""
    monkeypatch.setattr("paor.fsm.journal.postgres.source.PostgresWatch.hear", lambda *_: lambda: None)
    assert heard_elsewhere(postgres, lambda raw: None) == ROWS
