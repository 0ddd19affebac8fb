"""Submitted rounds stand in line: each is written at once, and driven by a worker once those before it have ended, whoever dies."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from paor import Engine, Journal, ModelCall, Policy, Reply, ScriptedModel, Task
from paor.errors import ConversationBusy, Erased, KeyConflict, LeaseLost
from paor.worker import Worker

from ..support.inside import RunQueue, line_bytes
from .talk import Clerk, desk, find, holds
from .test_kills import FUSE_S, ROUNDS, WORDS, check
from .test_rounds import MODES
from .test_turns import CALL, asking, pay

pytestmark = pytest.mark.filterwarnings("ignore:mode='batch'")


def work(host: Engine, concurrency: int = 4) -> None:
    """Drive what is queued until nothing is left."""
    asyncio.run(Worker(host, concurrency=concurrency).run(until_idle=True))


def test_rounds_are_driven_in_the_order_in_which_they_were_submitted(tmp_path: Path) -> None:
    """Each is told of all before it, one at a time; they are rounds from the start, and a start that does not queue is refused."""
    model = Clerk()
    with desk(tmp_path / "runs.db", model) as host:
        runs = [host.submit(f"Say {n}", conversation="c", queue=True).run_id for n in range(5)]
        assert [row.run_id for row in host.journal.conversation("c").runs] == runs
        assert [row.round for row in host.journal.runs()] == [5, 4, 3, 2, 1]
        for start in (host.run, host.submit):
            with pytest.raises(ConversationBusy):
                start("Say no", conversation="c")
        with pytest.raises(ConversationBusy, match=runs[1]):
            host.resume(runs[2])
        assert host.journal.verify() == [] and model.calls == []
        heads = host.journal.heads()
        work(host)
        assert host.journal.verify(heads=heads) == []
        for number, call in enumerate(model.calls):
            told = "\n".join(message.body for message in call.messages)
            assert [f"You said: Say {n}" in told for n in range(5)] == [n < number for n in range(5)]
        assert host.run("Say 5", conversation="c").status == "done"
        assert [row.run_id for row in host.journal.conversation("c").runs][:5] == runs
        holds(host.journal)


FILE = "after: {action: 'orders/find', input: {order_id: '${transcript[0].content} then ${query}'}}"
"""A workflow file, which is told what was said as its own variable."""

INIT = """
init: {first: '${transcript[0].content}', mine: theirs}
skipped: {when: 'transcript == []', action: 'orders/find', input: {order_id: '${mine}'}}
after: {action: 'orders/find', input: {order_id: '${first}, ${mine}'}}
"""
"""One whose variables, and whose first task, depend on that."""

EACH: dict[str, dict[str, Any]] = {
    **MODES,
    "file": {"workflow": FILE},
    "init": {"workflow": INIT, "variables": {"mine": "ours"}},
}


@pytest.mark.parametrize("mode", EACH)
def test_a_round_that_has_waited_is_what_it_would_be_if_it_had_not(mode: str, tmp_path: Path) -> None:
    """Its spec, its documents and what it is told: as those of one that is submitted when the round before has ended."""

    def told(waits: bool, own: dict[str, Any], first: dict[str, Any]) -> Any:
        path = tmp_path / f"{waits}{len(list(tmp_path.iterdir()))}.db"
        with Engine(Clerk(), [find], Journal(path, "off")) as host:
            host.submit(**first, language="French", conversation="c")
            if not waits:
                work(host)
            run_id = host.submit("Say b", conversation="c", queue=True, **own, **EACH[mode]).run_id
            assert host.journal.spec(run_id).in_line == waits
            work(host)
            assert host.result(run_id).status == "done"
            spec = host.journal.spec(run_id)
            random = {"key_salt", "workflow_id", "follows", "earlier", "documents"}
            documents = [
                (item.label, item.name, host.journal.document(run_id, item.number))
                for item in host.journal.documents(run_id)
            ]
            holds(host.journal)
            earlier = [(item.size, len(item.runs)) for item in spec.earlier]
            return spec.model_dump(exclude=random), documents, earlier

    given: dict[str, Any] = {
        "documents": [("two.txt", "second")],
        "transcript": [{"role": "user", "content": "Hi"}],
    }
    begins: list[dict[str, Any]] = [
        {"objective": "Say a", "profile": "two_stage", "documents": [("one.txt", "first")]},
        {"objective": "find O-1"},  # which makes a document
    ]
    for own in (given, {}, {"tools": ["orders.find"]}):
        for first in begins:
            assert told(True, own, first) == told(False, own, first)


@pytest.mark.parametrize("mode", [*EACH, "tasks"])
def test_a_later_round_that_is_started_again_with_its_key_is_the_same_start(
    mode: str, tmp_path: Path
) -> None:
    """What it has of the rounds before is not its caller's: in line, and when it has ended; another value of the caller's is refused."""
    own: dict[str, Any] = {
        "conversation": "c",
        "key": "k",
        "documents": [("two.txt", "second")],
        "transcript": [{"role": "user", "content": "Hi"}],
        **EACH.get(mode, {}),
    }
    with desk(tmp_path / "runs.db") as host:
        starts: list[Any] = [host.submit, host.run]
        if mode == "tasks":
            starts = [
                partial(start, tasks=[Task("Say b")]) for start in (host.submit_workflow, host.run_workflow)
            ]
        host.submit(
            "Say a",
            conversation="c",
            language="French",
            documents=[("one.txt", "first")],
            profile="two_stage",
        )
        begun = starts[0]("Say b", queue=True, **own).run_id
        assert starts[0]("Say b", queue=True, **own).run_id == begun
        if "workflow" in own:
            with pytest.raises(KeyConflict, match="with other flow;"):
                starts[0]("Say b", queue=True, **own | {"variables": {"mine": "another"}})
        work(host)
        assert host.journal.spec(begun).language == "French"
        for start in starts:
            assert start("Say b", **own).run_id == begun
            with pytest.raises(KeyConflict, match="with other language;"):
                start("Say b", **own, language="Dutch")
            with pytest.raises(KeyConflict, match="with other transcript;"):
                start("Say b", **own | {"transcript": [{"role": "user", "content": "Bye"}]})
        assert len(host.journal.runs(conversation="c")) == 2


def test_one_that_is_cancelled_in_line_ends_when_its_turn_comes(tmp_path: Path) -> None:
    """Without a request to a model; those behind it go on, and are told that it was said."""
    model = Clerk()
    with desk(tmp_path / "runs.db", model) as host:
        host.submit("Say a", conversation="c")
        second = host.submit("Say b", conversation="c", queue=True).run_id
        last = host.submit("Say c", conversation="c", queue=True).run_id
        assert host.cancel(second).status == "running"
        work(host)
        assert (host.result(second).reason, host.result(last).answer) == ("cancelled", "You said: Say c")
        assert len(model.calls) == 2 and "Say b" in model.told()
        holds(host.journal)


def test_a_line_waits_behind_a_question_and_goes_on_with_its_answer(tmp_path: Path) -> None:
    """And the worker does not wait for a person; a workflow of tasks stands in line like any other round."""
    with asking(tmp_path / "runs.db") as host:
        first = host.submit("Pay", conversation="c").run_id
        host.submit_workflow("Say all", tasks=[Task("Say it")], conversation="c", queue=True)
        work(host)
        assert [row.status for row in host.journal.conversation("c").runs] == ["waiting", "running"]
        host.model = Clerk()
        assert host.resume(first, answer={"approve": True}).status == "done"
        work(host)
        assert [row.status for row in host.journal.conversation("c").runs] == ["done", "done"]
        holds(host.journal)


def ready(host: Engine) -> dict[str, bool]:
    """Return by run whether a worker may take it up now."""
    queue = RunQueue(host.journal.store.backend)
    now = queue.now_us()
    return {row.run_id: row.ready_at is not None and row.ready_at <= now for row in queue.rows()}


@pytest.mark.parametrize("way", ["resume", "aresume"])
@pytest.mark.parametrize("place", ["c", "other", None])
def test_what_waits_for_a_run_comes_up_when_that_has_ended(
    place: str | None, way: str, tmp_path: Path
) -> None:
    """Whatever conversation that is of, and whoever ends it; what waits for the rounds behind it looks no sooner."""
    with asking(tmp_path / "runs.db") as host:
        first = host.submit("Pay", conversation=place).run_id
        runs = [host.submit("Say", conversation="c", queue=True, after=first).run_id]
        runs.append(host.submit("Say", conversation="c", queue=True).run_id)
        work(host)
        assert ready(host) == dict.fromkeys([first, *runs], False)
        if way == "resume":
            host.resume(first, answer={"approve": True})
        else:
            asyncio.run(host.aresume(first, answer={"approve": True}))
        assert (ready(host)[runs[0]], ready(host)[runs[1]]) == (True, False)
        work(host)
        assert [host.result(run_id).answer for run_id in runs] == ["More.", "Last."]
        holds(host.journal)


def test_what_waits_for_a_run_is_found_by_an_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each end of a run asks for it, however many wait for people or are claimed."""
    with desk(tmp_path / "runs.db") as host:
        host.submit("Say a")
        backend, asked = host.journal.store.backend, list[tuple[str, Any]]()
        query = backend.query

        def heard(sql: str, values: Any) -> Any:
            asked.append((sql, values))
            return query(sql, values)

        monkeypatch.setattr(backend, "query", heard)
        RunQueue(backend).let_on("a run")
        sql, values = next(given for given in asked if "reason IN" in given[0])
        assert "USING INDEX queue_reason" in str(query(f"EXPLAIN QUERY PLAN {sql}", values))


def test_a_run_that_stands_in_for_a_failed_one_is_waited_for(tmp_path: Path) -> None:
    """What waits for the first of both comes up at the end of the second."""
    with desk(
        tmp_path / "runs.db", ScriptedModel(["no JSON"] * 3 + [{"steps": [], "answer": "Known."}])
    ) as host:
        first = host.submit("Say a", conversation="c", fallback="batch", profile="two_stage").run_id
        last = host.submit("Say b", conversation="c", queue=True).run_id
        queue = RunQueue(host.journal.store.backend)
        queue.wait_for(queue.claim(2, "w", 60.0)[1], first, queue.now_us() + 3_600_000_000)
        assert not ready(host)[last]
        host.resume(first)
        assert host.journal.spec(host.journal.runs()[0].run_id).fallback_for == first and ready(host)[last]


def test_a_run_that_ends_while_its_line_is_looked_at_is_not_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker has seen that it waits for a person, and notes to look again in an hour: before the note it has ended."""
    with asking(tmp_path / "runs.db") as host:
        first = host.run("Pay", conversation="c").run_id
        last = host.submit("Say", conversation="c", queue=True).run_id
        wait_for = RunQueue.wait_for

        def late(self: RunQueue, *arguments: Any) -> None:
            host.resume(first, answer={"approve": True})
            wait_for(self, *arguments)

        monkeypatch.setattr(RunQueue, "wait_for", late)
        work(host)
        assert host.result(last).answer == "More."


@pytest.mark.parametrize("again", ["worker", "start"])
def test_what_a_driver_that_died_has_not_let_on_comes_up(
    again: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a worker sees the end of the run that was waited for, and where one starts after that end was seen."""
    with asking(tmp_path / "runs.db") as host:
        first = host.submit("Pay", conversation="c").run_id
        last = host.submit("Say", conversation="c", queue=True).run_id
        work(host)
        with monkeypatch.context() as dead:
            dead.setattr(RunQueue, "let_on", lambda *_: None)
            host.resume(first, answer={"approve": True})
        assert not ready(host)[last]
        if again == "worker":
            monkeypatch.setattr(RunQueue, "prune", lambda _: None)
            RunQueue(host.journal.store.backend).release(host.journal.run(first).run)
        work(host)
        assert host.result(last).answer == "More."


class Watched(Clerk):
    """A model that has a worker look at the line before its first answer."""

    line: Engine

    def ask(self, call: ModelCall) -> Reply:
        """Answer."""
        if not self.calls:
            asyncio.run(self._look())
        return super().ask(call)

    async def _look(self) -> None:
        """Work until the worker has said why the round in line does not begin."""
        worker, queue = Worker(self.line), RunQueue(self.line.journal.store.backend)
        working = asyncio.create_task(worker.run())
        while not any(row.reason for row in queue.rows()):
            await asyncio.sleep(0.01)
        worker.drain()
        await working


def test_a_round_behind_one_that_is_driven_is_looked_at_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That one is in no queue, and its driver may die after its end, and before it has let the line on."""
    monkeypatch.setattr(RunQueue, "let_on", lambda *_: None)
    monkeypatch.setattr(RunQueue, "prune", lambda _: None)
    model = Watched()
    with desk(tmp_path / "runs.db", model) as host, desk(tmp_path / "runs.db") as model.line:
        stream = host.stream("Say a", conversation="c")
        next(stream)
        last = model.line.submit("Say b", conversation="c", queue=True).run_id
        assert len(list(stream)) > 1 and not ready(host)[last]
        work(model.line)
        assert model.line.result(last).answer == "You said: Say b"


def test_a_round_that_another_driver_has_taken_over_is_not_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between its lease and the statement that writes what it is told: its spec stays as it was."""
    with desk(tmp_path / "runs.db") as host:
        host.submit("Say a", conversation="c")
        last = host.submit("Say b", conversation="c", queue=True).run_id
        host.resume(host.journal.runs()[1].run_id)
        store, before = host.journal.store, host.journal.spec(last)
        write_anew = store.write_anew

        def late(*arguments: Any, **options: Any) -> None:
            store.backend.execute("UPDATE leases SET fence = fence + 1", ())
            write_anew(*arguments, **options)

        monkeypatch.setattr(store, "write_anew", late)
        with pytest.raises(LeaseLost, match=last):
            host.resume(last)
        assert host.journal.spec(last) == before and host.journal.verify() == []


@pytest.mark.parametrize("case", ["begun", "ended", "waiting", "task", "branch"])
def test_a_line_goes_on_behind_a_round_that_is_erased(case: str, tmp_path: Path) -> None:
    """As it began, ended, while it or its task waits for a person, and where the conversation branches off it."""
    model = Clerk()
    with asking(tmp_path / "runs.db") as host:
        if case == "task":
            first = host.submit_workflow("Say pay", tasks=[Task("Pay it")], conversation="c").run_id
        else:
            first = host.submit("Say pay", conversation="other" if case == "branch" else "c").run_id
        after: dict[str, Any] = {"after": first} if case == "branch" else {}
        runs = [host.submit("Say 0", conversation="c", queue=True, **after).run_id]
        runs.append(host.submit("Say 1", conversation="c", queue=True).run_id)
        if case == "ended":
            host.model = Clerk()
            host.resume(first)
        elif case != "begun":
            work(host)  # its worker looks at the line again in an hour
        host.model = model
        host.journal.erase(first, others="erase" if case == "task" else "refuse", force=case != "ended")
        assert ready(host)[runs[0]]
        work(host)
        assert [host.result(run_id).answer for run_id in runs] == ["You said: Say 0", "You said: Say 1"]
        assert host.journal.spec(runs[1]).earlier[-1].runs == (runs[0],) and "pay" not in model.told()
        holds(host.journal)


def test_a_workflow_in_line_has_the_files_that_it_names_without_what_was_said(tmp_path: Path) -> None:
    """A variable that cannot be evaluated before its turn takes none of the others with it."""
    (tmp_path / "plan.md").write_text("Plan in few words.")
    flow = tmp_path / "flow.yaml"
    flow.write_text(
        "init: {first: '${transcript[0].content + \"!\"}', text: 'plan.md'}\n"
        "plan: {input: {promptTemplateFile: '${text}'}}\n"
    )
    with desk(tmp_path / "runs.db") as host:
        host.submit("Say a", conversation="c", queue=True)
        last = host.submit("Say b", conversation="c", queue=True, workflow=flow).run_id
        assert "Plan in few words." in str(host.journal.spec(last).workflow)
        work(host)
        assert "Plan in few words." in str(host.journal.spec(last).workflow)


CALLS: list[Any] = [
    {"text": "", "calls": [{"id": f"f{n}", "name": "orders_find", "arguments": {"order_id": f"O-{n}"}}]}
    for n in (1, 2)
]


def test_an_older_change_that_no_resume_reads_may_go(tmp_path: Path) -> None:
    """The run that has lost it goes on, in its conversation."""
    policy = Policy(approvals=("orders.pay",))
    model = ScriptedModel([*CALLS, CALL, "Paid."])
    with Engine(model, [find, pay], tmp_path / "runs.db", builtins=False, policy=policy) as host:
        first = host.run("Pay", conversation="c")
        older = next(row for row in host.journal.transitions(first.run_id) if row.trigger == "execute")
        host.journal.erase(first.run_id, payloads=[older.change["n"]], force=True)
        assert host.journal.run(first.run_id).conversation == "c"
        assert host.resume(first.run_id, answer={"approve": True}).answer == "Paid."


def test_a_line_goes_on_behind_a_fork_whose_shared_part_is_erased(tmp_path: Path) -> None:
    """Its texts are its parent's, which has ended and needs none."""
    model = ScriptedModel([*CALLS, CALL, "Paid.", "You said: Say more"])
    policy = Policy(approvals=("orders.pay",))
    with Engine(model, [find, pay], tmp_path / "runs.db", builtins=False, policy=policy) as host:
        parent = host.run("Pay", conversation="c")
        rows = host.journal.transitions(parent.run_id)
        fork = host.fork(parent.run_id, at_seq=rows[-1].seq)
        assert host.resume(parent.run_id, answer={"approve": True}).state == "Done"
        last = host.submit("Say more", conversation="d", queue=True, after=fork.run_id).run_id
        host.journal.erase(parent.run_id, payloads=[rows[0].change["n"]], force=True)
        with pytest.raises(Erased):
            host.resume(fork.run_id, answer={"approve": True})
        host.model = Clerk()
        work(host)
        assert host.result(last).answer == "You said: Say more"


@pytest.mark.parametrize("place", ["c", None])
def test_a_line_goes_on_behind_a_round_of_which_a_part_is_erased_that_its_resume_needs(
    place: str | None, tmp_path: Path
) -> None:
    """Nobody can end that round any more, not even as cancelled. What else is erased of it lets it go on, and keeps it in its place."""
    with asking(tmp_path / "runs.db") as host:
        first = host.submit("Say pay", conversation=place).run_id
        last = host.submit("Say more", conversation="c", queue=True, after=first).run_id
        work(host)
        rows = host.journal.transitions(first)
        host.journal.erase(first, payloads=[rows[0].outcome["reply"]["n"]], force=True)
        work(host)
        assert host.journal.run(first).conversation == place and host.journal.spec(last).in_line
        host.journal.erase(first, payloads=[rows[0].change["n"]], force=True)
        with pytest.raises(Erased):
            host.cancel(first)
        host.model = Clerk()
        work(host)
        assert host.result(last).answer == "You said: Say more"
        holds(host.journal)


def test_a_round_that_is_imported_alone_goes_on_without_those_before_it(tmp_path: Path) -> None:
    """It is told of nothing, since nothing is there."""
    with desk(tmp_path / "runs.db") as host:
        host.submit("Say a", conversation="c")
        last = host.submit("Say b", conversation="c", queue=True).run_id
        lines = [line_bytes(line) for line in host.journal.export(last)]
    with desk(tmp_path / "other.db") as host:
        host.journal.import_lines(lines)
        assert host.resume(last).answer == "You said: Say b"
        assert host.journal.spec(last).earlier == () and not host.journal.spec(last).in_line
        holds(host.journal)


def test_what_waits_in_line_moves_with_its_conversation(tmp_path: Path) -> None:
    """Where it is imported, whoever takes it up goes on from the rounds that are there."""
    with desk(tmp_path / "runs.db") as host:
        host.submit("Say a", conversation="c")
        last = host.submit("Say b", conversation="c", queue=True).run_id
        lines = [line_bytes(line) for line in host.journal.export(conversation="c")]
    model = Clerk()
    with desk(tmp_path / "other.db", model) as host:
        host.journal.import_lines(lines)
        assert not host.recover().refused
        assert "You said: Say a" in model.told() and host.result(last).status == "done"
        holds(host.journal)


# -- processes ---------------------------------------------------------------------------------------------------------


def drive_until(place: str, target: int) -> None:
    """Work on what is queued; killed before or after the write number *target*, 0 for never; below 0 only beginnings of rounds count."""
    with desk(place) as host:
        store: Any = host.journal.store
        writes = [0]

        def killing(write: Any) -> Any:
            def counted(*arguments: Any, **options: Any) -> Any:
                writes[0] += 2
                if writes[0] - 1 == abs(target):
                    os.kill(os.getpid(), signal.SIGKILL)
                found = write(*arguments, **options)
                if writes[0] == abs(target):
                    os.kill(os.getpid(), signal.SIGKILL)
                return found

            return counted

        store.write_anew = killing(store.write_anew)
        if target > 0:
            store.backend.append = killing(store.backend.append)
        work(host)


def workers(place: str, *targets: int) -> list[int | None]:
    """Return how workers in processes of their own have ended; what one had that was killed comes up at once."""
    with desk(place) as host:
        queue = RunQueue(host.journal.store.backend)
        for row in queue.rows():
            queue.release(host.journal.run(row.run_id).run)
    context = get_context("forkserver")
    context.set_forkserver_preload(["tests.conversation.talk"])
    children = [context.Process(target=drive_until, args=(place, target)) for target in targets]
    for child in children:
        child.start()
    for child in children:
        child.join(FUSE_S)
    codes = [child.exitcode for child in children]
    for child in children:
        child.kill()
    return codes


def line_survives(place: str, seed: int, kills: int) -> None:
    """Submit the words of a conversation, kill worker after worker at their writes, then let two end it together."""
    chance = random.Random(seed)
    with desk(place) as host:
        for number, words in enumerate(WORDS):
            host.submit(words, conversation="c", queue=True, key=str(number))
            assert host.submit(words, conversation="c", queue=True, key=str(number)).status == "running"
    for _ in range(kills):
        (code,) = workers(place, chance.randrange(1, 9))
        assert code in (0, -signal.SIGKILL)
    assert workers(place, 0, 0) == [0, 0]
    check(place)


@pytest.mark.parametrize("target", [-1, -2])
def test_a_line_survives_a_worker_that_is_killed_as_a_round_begins(target: int, tmp_path: Path) -> None:
    """Before the round is written with what it is told, and right after."""
    path = tmp_path / "runs.db"
    with desk(path) as host:
        runs = [host.submit(f"Say {n}", conversation="c", queue=True).run_id for n in range(3)]
    assert workers(str(path), target) == [-signal.SIGKILL]
    with desk(path) as host:
        assert host.journal.spec(runs[1]).in_line == (target == -1) and host.journal.verify() == []
        assert [result.answer for result in host.recover().results] == ["You said: Say 1", "You said: Say 2"]
        assert host.journal.spec(runs[2]).earlier[0].runs == tuple(runs[:2])
        holds(host.journal)


@pytest.mark.whole
@pytest.mark.parametrize("seed", range(5))
def test_a_line_survives_kills(seed: int, tmp_path: Path) -> None:
    """Ten workers, one after the other; then two at once."""
    line_survives(str(tmp_path / "runs.db"), seed, ROUNDS)


@pytest.mark.whole
def test_a_line_survives_kills_in_postgresql(postgres: Any) -> None:
    """The same over a server."""
    line_survives(postgres.url(), 0, 4)
