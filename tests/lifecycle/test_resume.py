"""
Resume: a run is a fold over its rows, and a killed process loses nothing but the effect it was in.

The kills are real: a forked child SIGKILLs itself after the commit or within the effect that the test names.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import orjson
import pytest
from msgspec.structs import replace

from paor import Engine, Journal, Limits, Policy, Result, ToolContext, replay, tool
from paor.errors import AlreadyAnswered, InvalidAnswer, JournalDamaged, UnknownRun
from paor.events import TransitionTaken
from paor.testing import RandomIds

from ..support.cases import Decision
from ..support.forging import writable
from ..support.inside import (
    Run,
    applied,
    apply,
    counters_of,
    initial_run,
    loop,
    restore,
    restore_run,
    salted_digest,
)
from ..support.journey import answered
from ..support.journeys import BY_NAME, JOURNEYS, SEND, Journey, play
from ..support.stored import file_of
from ..support.worlds import (
    ANSWER,
    CONTINUE,
    JOURNAL,
    PARAMETERS,
    READ,
    SELECT,
    STOP,
    SUCCESS,
    TOOLS,
    Script,
    engine,
)

EACH = pytest.mark.parametrize("journey", JOURNEYS, ids=[journey.name for journey in JOURNEYS])


# -- a run is a fold over its rows ---------------------------------------------------------------------------------


def folded(journal: Journal, run: Run, rows: Sequence[tuple[Any, ...]]) -> list[Run]:
    """Return *run* and what it becomes with each of *rows*, one `apply` at a time."""
    runs = [run]
    for row in rows:
        after = apply(
            runs[-1],
            at=row[2],
            trigger=row[3],
            dest=row[5],
            counters=counters_of(row),
            change=journal.reader.change(run.number, row[9]),
            outcome=orjson.loads(row[8]),
        )
        runs.append(after)
    return runs


@EACH
@pytest.mark.parametrize("driver", ["sync", "async"])
def test_restoring_is_folding_is_living(
    journey: Journey, driver: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At every prefix of rows the three ways to a run give equal values, slot by slot."""
    lived: list[Run] = []

    def remember(run: Run, decision: Decision, at: int) -> Run:
        lived.append(applied(run, decision, at))
        return lived[-1]

    monkeypatch.setattr(loop, "applied", remember)
    with journey.engine(tmp_path) as scripted:
        row = scripted.journal.run(play(journey, scripted, driver=driver).run_id)
        rows = scripted.journal.reader.rows(row.run)
        start = initial_run(row.run_id, row.run, scripted.journal.spec(row.run_id))
        every = folded(scripted.journal, start, rows)
        assert len(rows) == row.head_seq + 1 == len(lived)
        for count, run in enumerate(every):
            again = restore(
                start, rows[:count], lambda column: scripted.journal.reader.change(row.run, column)
            )
            assert again == run
            if count:
                assert lived[count - 1] == run
        assert restore_run(scripted.journal.reader, row.run_id)[0] == every[-1]


def test_a_long_run_restores_with_its_windows_full(tmp_path: Path) -> None:
    """History, duplicate window, labels and outputs of 60 actions: more than any window holds."""
    script: list[Any] = []
    for page in range(60):
        script += [*READ(page % 7), CONTINUE]
    limits = Limits(max_steps=60, window_freq_limit=100, consecutive_limit=100, max_blocked_calls=100)
    with engine(tmp_path, [*script[:-1], STOP, SUCCESS], limits=limits) as scripted:
        row = scripted.journal.run(scripted.run("Read").run_id)
        rows = scripted.journal.reader.rows(row.run)
        start = initial_run(row.run_id, row.run, scripted.journal.spec(row.run_id))
        every = folded(scripted.journal, start, rows)
        for count in range(0, len(rows) + 1, 7):
            loaded: list[str] = []

            def load(column: str, loaded: list[str] = loaded) -> Any:
                loaded.append(column)
                return scripted.journal.reader.change(row.run, column)

            assert restore(start, rows[:count], load) == every[count]
            assert len(loaded) <= sum(item[4] == "Observing" for item in rows[:count]) + 12
        assert len(every[-1].memory.history) == 50
        assert len(every[-1].memory.labels) == 60


# -- killed after every commit -------------------------------------------------------------------------------------


def in_child(function: Callable[[], Any]) -> int:
    """Run *function* in a forked process; return the signal that ended it, 0 when it returned."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            function()
            code = 0
        finally:
            os._exit(code)
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, "the child failed"
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0


def die() -> None:
    """End this process as a power cut would."""
    os.kill(os.getpid(), signal.SIGKILL)


SEVENTEEN_ROWS: Script = [
    *READ(1),
    CONTINUE,
    *SEND("one"),
    CONTINUE,
    SELECT(),
    "not JSON",
    PARAMETERS(page=2),
    STOP,
    SUCCESS,
]
"""A run that reads, sends, and is asked again for parameters."""


class World:
    """
    A scripted engine with a once tool whose effects stand in a file, whoever runs it.

    Args:
        folder: For journal and effects.
        script: Replies of the model.
        die: ``before`` or ``after``: kill the process before or after the effect of the once tool; empty: never.
    """

    rows = 17

    def __init__(self, folder: Path, *, die: str = "", script: Script = SEVENTEEN_ROWS) -> None:
        self.folder = folder
        self.script = script
        self.effects = folder / "effects"
        self._die = die

    def engine(self, **options: Any) -> Engine:
        """Return an engine on the folder's journal."""

        @tool("notes.send", effect="once", label="receipt")
        def send(text: str) -> str:
            """Send a note."""
            if self._die == "before":
                die()
            with self.effects.open("a") as file:
                file.write(f"{text}\n")
            if self._die == "after":
                die()
            return f"sent: {text}"

        return engine(self.folder, self.script, [TOOLS[0], send, TOOLS[2]], **options)

    def sent(self) -> list[str]:
        """Return what was sent, once for each time."""
        return self.effects.read_text().split() if self.effects.exists() else []

    def run_and_die(self, after: int) -> None:
        """Run in a child that kills itself once row *after* is durable; -1: before any row."""

        def hook(event: Any) -> None:
            seq = event.seq if isinstance(event, TransitionTaken) else -1
            if seq == after:
                die()

        def child() -> None:
            self.engine(hooks=[hook]).run("Read and send", ["all is sent"], documents=[("a.txt", "first")])

        assert in_child(child) == signal.SIGKILL


def what_counts(scripted: Engine, result: Result) -> dict[str, Any]:
    """Return everything of a run that does not depend on time or on who drove it."""
    journal = scripted.journal
    run, _ = restore_run(journal.reader, result.run_id)
    rows = journal.transitions(result.run_id)
    return {
        "result": (result.state, result.status, result.reason, result.answer, result.steps, result.criteria),
        "usage": (result.usage.tokens_in, result.usage.tokens_out, result.usage.cost, result.usage.calls),
        "counters": replace(run.counters, time_us=0),
        "rows": [(row.seq, row.trigger, row.source, row.dest, row.guards) for row in rows],
        "documents": [
            (
                item.number,
                item.label,
                item.position,
                item.name,
                item.mime,
                journal.document(result.run_id, item.number),
            )
            for item in journal.documents(result.run_id)
        ],
        "history": run.memory.history,
        "keys": (run.memory.window, run.memory.window_steps),
        "waiting": result.waiting_for,
    }


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return what counts of the run that nobody interrupted."""
    world = World(tmp_path_factory.mktemp("whole"))
    with world.engine() as scripted:
        result = scripted.run("Read and send", ["all is sent"], documents=[("a.txt", "first")])
        found = what_counts(scripted, result)
    assert len(found["rows"]) == World.rows and world.sent() == ["one"]
    return found


@pytest.mark.parametrize("after", range(-1, World.rows))
def test_a_run_that_is_killed_after_any_commit_ends_as_if_nothing_had_happened(
    after: int, whole: dict[str, Any], tmp_path: Path
) -> None:
    """Same rows, counters, documents and answer; the once tool was called once, or is asked about."""
    world = World(tmp_path)
    world.run_and_die(after)
    with world.engine() as scripted:
        (row,) = scripted.journal.runs()
        together = after in (2, 13)  # an execution and its observation
        assert row.head_seq == after + together
        assert scripted.journal.verify() == []
        result = scripted.resume(row.run_id)
        if result.status == "waiting":
            assert after == 6 and world.sent() == []
            assert result.waiting_for is not None and result.waiting_for.kind == "in_doubt"
            result = scripted.resume(row.run_id, outcome="retry")
            extra = 2
        else:
            extra = 0
        found = what_counts(scripted, result)
        rows = [item for item in found["rows"] if item[1] not in ("wait", "provide")]
        assert len(found["rows"]) == World.rows + extra
        assert [item[1:4] for item in rows] == [item[1:4] for item in whole["rows"]]
        assert {**found, "rows": 0} == {**whole, "rows": 0}
        assert world.sent() == ["one"]
        assert scripted.journal.verify() == []
        assert replay(scripted.journal, row.run_id).identical


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("outcome", ["done", "retry", "fail"])
def test_a_once_effect_in_doubt_is_never_repeated_silently(moment: str, outcome: str, tmp_path: Path) -> None:
    """Killed within the tool: whoever resumes is asked, and what is answered becomes the outcome."""
    world = World(tmp_path, die=moment)
    assert in_child(lambda: world.engine().run("Read and send")) == signal.SIGKILL
    world = World(tmp_path)
    effects = world.sent()
    assert effects == (["one"] if moment == "after" else [])
    with world.engine() as scripted:
        run_id = scripted.journal.runs()[0].run_id
        result = scripted.resume(run_id)
        question = result.waiting_for
        assert (result.status, result.state) == ("waiting", "Executing")
        assert question is not None and question.kind == "in_doubt" and question.tool == "notes.send"
        assert question.key == f"{run_id}-2"
        assert scripted.resume(run_id).status == "waiting"
        assert world.sent() == effects
        result = scripted.resume(run_id, outcome=outcome, result="a receipt")
        assert result.state == "Done"
        assert world.sent() == ([*effects, "one"] if outcome == "retry" else effects)
        rows = scripted.journal.transitions(run_id)
        call = [row for row in rows if row.trigger == "execute"][1]
        bodies = {item.label: item.read() for item in result.documents}
        label = "round1_task1_action2_receipt"
        assert call.outcome["ok"] is (outcome != "fail")
        assert bodies.get(label) == {"done": "a receipt", "retry": "sent: one", "fail": None}[outcome]
        waits = [row.trigger for row in rows if row.trigger in ("wait", "provide")]
        assert waits == ["wait", "provide"]
        assert scripted.journal.verify() == []
        assert replay(scripted.journal, run_id).identical


@pytest.mark.parametrize("outcome", ["done", "fail", "retry"])
def test_a_process_that_dies_right_after_the_answer_loses_it_not(outcome: str, tmp_path: Path) -> None:
    """The answer is a row, and the next driver goes on from it; but a retry may have begun, so it is in doubt."""
    world = World(tmp_path, die="after")
    assert in_child(lambda: world.engine().run("Read and send")) == signal.SIGKILL
    world = World(tmp_path)
    with world.engine() as scripted:
        run_id = scripted.journal.runs()[0].run_id
        assert scripted.resume(run_id).status == "waiting"

    def child() -> None:
        def hook(event: Any) -> None:
            if isinstance(event, TransitionTaken) and event.trigger == "provide":
                die()

        world.engine(hooks=[hook]).resume(run_id, outcome=outcome, result={"receipt": 7})

    assert in_child(child) == signal.SIGKILL
    with world.engine() as scripted:
        result = scripted.resume(run_id)
        if outcome == "retry":
            assert result.status == "waiting" and world.sent() == ["one"]
            result = answered(scripted, run_id, outcome="retry")
        assert result.state == "Done"
        assert world.sent() == (["one"] * 2 if outcome == "retry" else ["one"])
        assert scripted.journal.verify() == []
        assert replay(scripted.journal, run_id).identical


def test_a_retry_that_was_allowed_once_is_made_once(tmp_path: Path) -> None:
    """Killed again within the retry: asked again, and not silently made for a third time."""
    world = World(tmp_path, die="after")
    assert in_child(lambda: world.engine().run("Read and send")) == signal.SIGKILL
    with World(tmp_path).engine() as scripted:
        run_id = scripted.journal.runs()[0].run_id
        assert scripted.resume(run_id).status == "waiting"
    assert in_child(lambda: world.engine().resume(run_id, outcome="retry")) == signal.SIGKILL
    assert world.sent() == ["one"] * 2
    with World(tmp_path).engine() as scripted:
        assert scripted.resume(run_id).status == "waiting"
        assert world.sent() == ["one"] * 2
        assert answered(scripted, run_id, outcome="done", result="two receipts").state == "Done"
        assert world.sent() == ["one"] * 2
        assert replay(scripted.journal, run_id).identical


@pytest.mark.parametrize("effect", ["read", "idempotent"])
def test_effects_that_may_happen_again_do(effect: Any, tmp_path: Path) -> None:
    """With the same idempotency key as before, so that the other side can tell."""
    keys = tmp_path / "keys"

    def make(*, deadly: bool) -> Engine:
        @tool("notes.put", effect=effect)
        def put(context: ToolContext, page: int) -> str:
            """Put a page."""
            with keys.open("a") as file:
                file.write(f"{context.idempotency_key}\n")
            if deadly:
                die()
            return "put"

        return engine(tmp_path, [SELECT("notes.put"), PARAMETERS(page=1), STOP, SUCCESS], [put])

    assert in_child(lambda: make(deadly=True).run("Put")) == signal.SIGKILL
    with make(deadly=False) as scripted:
        run_id = scripted.journal.runs()[0].run_id
        assert scripted.resume(run_id).state == "Done"
    assert keys.read_text().split() == [f"{run_id}-1"] * 2


def test_A037_A063_counters_and_criteria_survive_a_restart(tmp_path: Path) -> None:
    """Round, task, action, step and criteria are those of the journal, not of the process."""
    world = World(tmp_path)
    world.run_and_die(9)
    with Journal(tmp_path / JOURNAL, read_only=True) as journal:
        run, _ = restore_run(journal.reader, journal.runs()[0].run_id)
    assert (run.spec.round, run.spec.task, run.counters.action, run.counters.step) == (1, 1, 2, 2)
    assert run.counters.criteria == "0"


def test_A038_labels_after_a_crash_are_those_without_one(tmp_path: Path) -> None:
    """A crash between two actions uses up no number."""
    world = World(tmp_path)
    world.run_and_die(8)
    with world.engine() as scripted:
        result = scripted.resume(scripted.journal.runs()[0].run_id)
    assert [document.label for document in result.documents] == [
        "round1_task1_action1_page",
        "round1_task1_action2_receipt",
        "round1_task1_action3_page",
    ]


# -- answers -------------------------------------------------------------------------------------------------------


def waiting(folder: Path, **options: Any) -> tuple[Engine, str]:
    """Return an engine and a run that waits for an approval."""
    options.setdefault("policy", Policy(approvals=("notes.send",)))
    scripted = engine(folder, [*SEND("hello"), STOP, SUCCESS], **options)
    return scripted, scripted.run("Send").run_id


def test_an_answer_to_a_run_that_does_not_wait_is_refused(tmp_path: Path) -> None:
    """Finished runs return their result; running ones say what they are."""
    with engine(tmp_path, [ANSWER(), SUCCESS]) as scripted:
        events = scripted.stream("Read", on_close="stop")
        next(events)
        next(events)
        run_id = scripted.journal.runs()[0].run_id
        with pytest.raises(InvalidAnswer, match="waits for nothing; it is running in Reviewing"):
            scripted.resume(run_id, answer={"approve": True})
        list(events)
        with pytest.raises(InvalidAnswer, match="has ended in Done and takes no answer"):
            scripted.resume(run_id, answer={"approve": True})
        assert scripted.resume(run_id).state == "Done"
        with pytest.raises(UnknownRun):
            scripted.resume("none-such")


def test_of_two_answers_at_once_one_counts(tmp_path: Path) -> None:
    """The other is told, and the run is not asked twice."""
    scripted, run_id = waiting(tmp_path)
    real = scripted.journal.store.leases.acquire
    other: list[Result] = []

    def acquire(run: int) -> int:
        if not other:
            other.append(Result.__new__(Result))
            with engine(tmp_path, [*SEND("hello"), STOP, SUCCESS], ids=RandomIds()) as second:
                other[0] = second.resume(run_id, answer={"approve": True})
        return real(run)

    with scripted:
        scripted.journal.store.leases.acquire = acquire  # type: ignore[method-assign]
        with pytest.raises(AlreadyAnswered, match="has taken an answer already, and nothing was changed"):
            scripted.resume(run_id, answer={"approve": True})
        assert other[0].state == "Done"
        assert scripted.resume(run_id) == other[0]


def test_an_answer_is_kept_as_its_json_says_it(tmp_path: Path) -> None:
    """What a crash would read back is what the run goes on with: a tuple becomes a list, a model its fields."""
    journey = BY_NAME["in_doubt_done"]
    for name, value in {"tuple": (1, (2, 3)), "set": {7}, "bytes": b"text"}.items():
        (tmp_path / name).mkdir()
        replaced = Journey(**{**vars(journey), "answers": [{"outcome": "done", "result": value}]})
        with replaced.engine(tmp_path / name) as scripted:
            result = play(replaced, scripted)
            body = result.documents[0].read()
            assert isinstance(body, str)
            assert body == {"tuple": "[1,[2,3]]", "set": "[7]", "bytes": "text"}[name]


def test_many_resumes_of_finished_and_waiting_runs_are_harmless(tmp_path: Path) -> None:
    """From threads, all at once: nothing is appended, everybody gets the same."""
    scripted, run_id = waiting(tmp_path)
    with scripted, ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda _: scripted.resume(run_id), range(20)))
        assert {result.status for result in results} == {"waiting"}
        assert scripted.journal.run(run_id).head_seq == 1
        assert asyncio.run(scripted.aresume(run_id)).status == "waiting"


# -- damage --------------------------------------------------------------------------------------------------------


def test_a_run_whose_chain_is_broken_is_not_resumed(tmp_path: Path) -> None:
    """The first row that does not fit is named, and the lease is free again."""
    world = World(tmp_path)
    world.run_and_die(9)
    with world.engine() as scripted:
        run_id = scripted.journal.runs()[0].run_id
        writable(file_of(scripted.journal).connection).execute(
            "UPDATE transitions SET step = 7 WHERE seq = 4"
        )
        with pytest.raises(JournalDamaged, match="row 4 does not fit"):
            scripted.resume(run_id)
        writable(file_of(scripted.journal).connection).execute(
            "UPDATE transitions SET step = 1 WHERE seq = 4"
        )
        file_of(scripted.journal).connection.execute("UPDATE specs SET round = 2")
        with pytest.raises(JournalDamaged, match="first columns were changed"):
            scripted.resume(run_id)
        file_of(scripted.journal).connection.execute("UPDATE specs SET round = 1")
        assert scripted.journal.reader.query("SELECT owner FROM leases") == [(None,)]
        assert scripted.resume(run_id).status in ("done", "waiting")


def tampered(journal: Journal, number: int, *, fitting: bool) -> None:
    """Change the body of one payload, with *fitting* also its digest, so that it fits itself."""
    payload = journal.payload(1, number)
    assert payload.body is not None and payload.salt is not None
    body = f"{payload.body} " if isinstance(payload.body, str) else payload.body + b" "
    digest = salted_digest(payload.salt, body, payload.media_type) if fitting else payload.digest
    writable(file_of(journal).connection).execute(
        "UPDATE payloads SET body = ?, digest = ? WHERE n = ?", (body, digest.hex(), number)
    )


@pytest.mark.parametrize("fitting", [False, True], ids=["body", "body and digest"])
@pytest.mark.parametrize("after", [4, 9, 13])
def test_a_run_does_not_go_on_with_a_text_that_was_changed(
    after: int, fitting: bool, whole: dict[str, Any], tmp_path: Path
) -> None:
    """Each payload in turn: resume names it, or has no use for it and goes on as if nothing had happened."""
    world = World(tmp_path / "first")
    world.folder.mkdir()
    world.run_and_die(after)
    with world.engine() as scripted:
        numbers = [item.n for item in scripted.journal.reader.payloads(1, 100)]
        run_id = scripted.journal.runs()[0].run_id
    refused = set()
    for number in numbers:
        folder = tmp_path / str(number)
        shutil.copytree(world.folder, folder)
        with World(folder).engine() as scripted:
            tampered(scripted.journal, number, fitting=fitting)
            try:
                found = what_counts(scripted, scripted.resume(run_id))
            except JournalDamaged as error:
                assert f"payload {number} was changed; run: paor verify" in str(error)
                assert scripted.journal.reader.query("SELECT owner FROM leases") == [(None,)]
                assert scripted.journal.runs()[0].head_seq >= after
                refused.add(number)
            else:
                assert found == whole
            assert scripted.journal.verify() != []
    assert len(refused) >= len(numbers) // 4
