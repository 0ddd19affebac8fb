"""One round of a conversation runs at a time, whichever threads, tasks and processes start one; the others are told, or wait."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from paor import Engine, Journal, Policy, ScriptedModel, tool
from paor.errors import ConversationBusy, KeyConflict

from ..support.postgres_server import PostgresServer, needs_postgres
from .talk import desk, holds

CALL = {"text": "", "calls": [{"id": "c", "name": "orders_pay", "arguments": {}}]}


@tool("orders.pay", effect="once")
def pay() -> str:
    """Pay."""
    return "paid"


def asking(path: Path | str) -> Engine:
    """Return an engine whose runs wait for an approval."""
    model = ScriptedModel([CALL, "Paid.", "More.", "Last."])
    return Engine(
        model, [pay], Journal(path, "off"), builtins=False, policy=Policy(approvals=("orders.pay",))
    )


ROOT = Path(__file__).parents[2]

STARTS: dict[str, Callable[..., Any]] = {
    "run": lambda host, **options: host.run("Say", conversation="c", **options),
    "arun": lambda host, **options: asyncio.run(host.arun("Say", conversation="c", **options)),
    "stream": lambda host, **options: list(host.stream("Say", conversation="c", **options)),
    "run_workflow": lambda host, **options: host.run_workflow("Say", conversation="c", **options),
    "submit": lambda host, **options: host.submit("Say", conversation="c", **options),
}


@pytest.mark.parametrize("start", STARTS)
def test_a_start_while_a_round_waits_is_refused_and_writes_nothing(start: str, tmp_path: Path) -> None:
    """The error names the round; once that has ended, the next one begins."""
    with asking(tmp_path / "runs.db") as host:
        waits = host.run("Pay", conversation="c")
        with pytest.raises(ConversationBusy, match=f"run {waits.run_id} waits for an answer") as told:
            STARTS[start](host)
        assert (told.value.run_id, told.value.conversation, told.value.status) == (
            waits.run_id,
            "c",
            "waiting",
        )
        assert len(host.journal.runs()) == 1
        host.resume(waits.run_id, answer={"approve": True})
        STARTS[start](host)
        assert host.journal.runs(conversation="c")[0].round == 2


def looked_again(reader: Any, monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Return what is set when *reader* is asked for the third time from now on which round is the newest."""
    newest, looks, again = reader.newest_round, iter(range(2)), threading.Event()

    def look(conversation: str) -> Any:
        if next(looks, None) is None:
            again.set()
        return newest(conversation)

    monkeypatch.setattr(reader, "newest_round", look)
    return again


def test_a_queued_start_waits_for_its_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It looks again and again, and nothing is written before; then it is told of the round that it has waited for."""
    for start in ("run", "arun", "stream"):
        with asking(tmp_path / f"{start}.db") as host:
            waits = host.run("Pay", conversation="c")
            again = looked_again(host.journal.reader, monkeypatch)
            with ThreadPoolExecutor(1) as pool:
                waiting = pool.submit(STARTS[start], host, queue=True)
                assert again.wait(60)
                assert len(host.journal.runs()) == 1
                host.resume(waits.run_id, answer={"approve": True})
                waiting.result(60)
            messages = host.journal.conversation("c").messages
            assert [message.text for message in messages] == ["Pay", "Paid.", "Say", "More."]


def test_a_key_that_comes_again_goes_on_with_its_round(tmp_path: Path) -> None:
    """Also while it waits, and when others have followed; another conversation under the key is refused."""
    with asking(tmp_path / "runs.db") as host:
        first = host.run("Pay", conversation="c", key="k")
        assert host.run("Pay", conversation="c", key="k") == first and first.status == "waiting"
        host.resume(first.run_id, answer={"approve": True})
        host.run("Say", conversation="c")
        assert host.run("Pay", conversation="c", key="k").answer == "Paid."
        with pytest.raises(KeyConflict, match="other conversation"):
            host.run("Pay", conversation="d", key="k")
        with pytest.raises(KeyConflict, match="other language"):
            host.run("Pay", conversation="c", key="k", language="de")
        spoken = host.run("Say", conversation="c", key="s", language="de")
        assert host.run("Say", conversation="c", key="s", language="de") == spoken
        with pytest.raises(
            KeyConflict, match="other language"
        ):  # it was its caller's, and not that of the rounds before
            host.run("Say", conversation="c", key="s")
        assert len(host.journal.runs()) == 3


def test_a_round_that_began_meanwhile_is_seen_by_the_statement_that_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a start would be told was read before: it is refused, or reads again."""

    for queue in (False, True):
        with desk(tmp_path / f"{queue}.db") as host, desk(tmp_path / f"{queue}.db") as other:
            host.run("Say a", conversation="c")
            create, meanwhile = host.journal.store.create, [True]

            def late(
                *arguments: Any,
                create: Any = create,
                meanwhile: list[bool] = meanwhile,
                other: Engine = other,
                **options: Any,
            ) -> Any:
                if meanwhile:
                    meanwhile.pop()
                    other.run("Say b", conversation="c")
                return create(*arguments, **options)

            monkeypatch.setattr(host.journal.store, "create", late)
            if queue:
                host.run("Say c", conversation="c", queue=True)
                assert [row.round for row in host.journal.runs()] == [3, 2, 1]
                (told,) = host.journal.spec(host.journal.runs()[0].run_id).earlier
                assert len(told.runs) == 2
            else:
                with pytest.raises(ConversationBusy, match="has begun meanwhile"):
                    host.run("Say c", conversation="c")
            holds(host.journal)


CHILD = """
import sys
from tests.conversation.talk import Clerk, find
from paor import Engine, Journal
from paor.errors import ConversationBusy
host = Engine(Clerk(), [find], Journal(sys.argv[1], "off"), builtins=False)
print("ready", flush=True)
for line in sys.stdin:
    words = line.strip()
    try:
        print(host.run(words, conversation="c", queue="queue" in words).run_id, flush=True)
    except ConversationBusy:
        print("busy", flush=True)
host.close()
"""


def children(place: str, count: int, program: str = CHILD) -> Iterator[subprocess.Popen[str]]:
    """Yield processes that start a round for each line that they are given."""
    for _ in range(count):
        yield subprocess.Popen(
            [sys.executable, "-c", program, place],
            cwd=ROOT,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )


def said_at_once(processes: list[subprocess.Popen[str]], words: list[str]) -> list[str]:
    """Give each process its words at the same time, and return what they came to."""
    for process, word in zip(processes, words, strict=True):
        assert process.stdin is not None
        process.stdin.write(f"{word}\n")
        process.stdin.flush()
    return [process.stdout.readline().strip() for process in processes if process.stdout is not None]


def check_processes(place: str) -> None:
    """Of processes that start a round of a conversation at once one does, or each in its turn; no word is lost and none doubled."""
    processes = list(children(place, 4))
    try:
        assert [process.stdout.readline().strip() for process in processes if process.stdout] == ["ready"] * 4
        words, began = [], []
        for number in range(5):
            given = [f"Say {number} of {place_}" for place_ in range(4)]
            found = said_at_once(processes, given)
            began += [word for word, run_id in zip(given, found, strict=True) if run_id != "busy"]
            assert any(run_id != "busy" for run_id in found)
        words = [f"Say queue {place_}" for place_ in range(4)]
        assert "busy" not in said_at_once(processes, words)
    finally:
        for process in processes:
            process.communicate(timeout=60)
    with Journal(place) as journal:
        messages = [message.text for message in journal.conversation("c").messages if message.role == "user"]
        assert sorted(messages) == sorted(began + words) and len(set(messages)) == len(messages)
        rounds = [row.round for row in journal.runs(conversation="c")]
        assert rounds == list(range(len(rounds), 0, -1))
        last = journal.spec(journal.runs()[0].run_id)
        assert sum(len(item.runs) for item in last.earlier) == len(rounds) - 1
        holds(journal)


def test_of_processes_that_start_a_round_one_does(tmp_path: Path) -> None:
    """In a file."""
    check_processes(str(tmp_path / "runs.db"))


@pytest.mark.whole  # it starts a server
@needs_postgres
def test_of_processes_that_start_a_round_in_postgresql_one_does(postgres: PostgresServer) -> None:
    """In a schema."""
    check_processes(postgres.url())


# -- the line ------------------------------------------------------------------------------------------------------------

CALLERS = """
import sys, threading
from tests.conversation.talk import Clerk, find
from paor import Engine, Journal
host = Engine(Clerk(), [find], Journal(sys.argv[1], "off"), builtins=False)
threads = []
print("ready", flush=True)
for line in sys.stdin:
    threads.append(threading.Thread(target=host.run, args=(line.strip(),), kwargs={"conversation": "c", "queue": True}))
    threads[-1].start()
for thread in threads:
    thread.join()
host.close()
"""


def in_line(journal: Journal) -> int:
    """Return how many wait for their turn."""
    backend = journal.store.backend
    return int(backend.query("SELECT count(*) FROM turns")[0][0]) if backend.has_table("turns") else 0


def queue_up(journal: Journal, processes: list[subprocess.Popen[str]], words: list[str]) -> None:
    """Have each word be asked by the processes in turns, each once the one before waits."""
    for number, word in enumerate(words, in_line(journal) + 1):
        process = processes[number % len(processes)]
        assert process.stdin is not None
        process.stdin.write(f"{word}\n")
        process.stdin.flush()
        fuse = time.monotonic() + 60
        while in_line(journal) < number:
            assert time.monotonic() < fuse and process.poll() is None


def asked(journal: Journal) -> list[str]:
    return [message.text for message in journal.conversation("c").messages if message.role == "user"]


def check_order(place: str, count: int) -> None:
    """Callers of two processes start in the order in which they came; one that is killed while it waits loses its turn and nobody else's."""
    with asking(place) as host:
        waits = host.run("Pay", conversation="c")
        processes = list(children(place, 3, CALLERS))
        try:
            assert [process.stdout.readline() for process in processes if process.stdout] == ["ready\n"] * 3
            words = [f"Say {number}" for number in range(count)]
            queue_up(host.journal, processes[:2], words[: count // 2])
            queue_up(host.journal, processes[2:], ["Say no more"])
            processes[2].kill()
            processes[2].wait()
            queue_up(host.journal, processes[:2], words[count // 2 :])
            host.resume(waits.run_id, answer={"approve": True})
        finally:
            for process in processes:
                process.communicate(timeout=120)
        assert asked(host.journal) == ["Pay", *words] and in_line(host.journal) == 0
        holds(host.journal)


@pytest.mark.whole  # it starts a server and processes
@needs_postgres
def test_twenty_queued_callers_start_in_the_order_in_which_they_came(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    """In a file and in a schema."""
    for place in (str(tmp_path / "runs.db"), postgres.url()):
        check_order(place, 20)


def test_queued_starts_take_their_turns_in_order_but_for_one_that_is_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others keep their places, though the first looks seldom; and of the cancelled one nothing is written."""
    look_s = "paor.fsm.lifecycle.turns.LOOK_S"
    monkeypatch.setattr(look_s, 1.0)

    async def main(host: Engine) -> None:
        waits = await host.arun("Pay", conversation="c")
        tasks: list[asyncio.Task[Any]] = []
        for number in range(3):
            start = host.arun(f"Say {number}", conversation="c", queue=True)
            tasks.insert(0, asyncio.create_task(start))
            while in_line(host.journal) <= number:
                await asyncio.sleep(0)
            for _ in range(100):  # until it sleeps
                await asyncio.sleep(0)
            monkeypatch.setattr(look_s, 0.001)
        tasks[1].cancel()
        with pytest.raises(asyncio.CancelledError):
            await tasks[1]
        assert in_line(host.journal) == 2
        await host.aresume(waits.run_id, answer={"approve": True})
        assert [(await task).status for task in (tasks[0], tasks[2])] == ["done"] * 2

    with asking(tmp_path / "runs.db") as host:
        asyncio.run(main(host))
        assert asked(host.journal) == ["Pay", "Say 0", "Say 2"] and in_line(host.journal) == 0
