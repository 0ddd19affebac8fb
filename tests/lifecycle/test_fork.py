"""Forks: the beginning of a run shared by reference, provably, and gone on from there."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from paor import Engine, Journal, Limits, PaorError, Policy, ScriptedModel, Tool, ToolContext, replay, tool
from paor.errors import Erased, InvalidAnswer, InvalidFork, JournalDamaged, RunChanged, UnknownRun, UsageError
from paor.testing import SeededIds

from ..support.forging import change, forge
from ..support.forks import Forker, given_after, holds
from ..support.inside import chain_hash, prompt_places, root_hash
from ..support.journeys import BY_NAME, Lost, losing, play
from ..support.worlds import CONTINUE, JOURNAL, PARAMETERS, READ, SELECT, STOP, SUCCESS, TOOLS, engine
from ..verify.test_verify import by_package, by_script

SHAPES = ("two_pages", "approved", "in_doubt_done", "documents", "planner", "batch")
"""Journeys that show everything a fork can begin in: waits, doubts, documents, plans."""


def whole(path: Path) -> None:
    """Assert that package and script find nothing wrong with a file."""
    assert by_package(path) == []
    assert by_script(path)[0] == 0


# -- everywhere ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SHAPES)
def test_a_fork_with_the_same_calls_has_the_same_rows(name: str, tmp_path: Path) -> None:
    """Byte for byte but for hashes, salts, times and ids, and where a once call of the parent was in doubt."""
    journey = BY_NAME[name]
    with journey.engine(tmp_path) as scripted:
        result = play(journey, scripted)
        rows = scripted.journal.transitions(result.run_id)
    for seq in range(len(rows) - 1):
        if any(row.outcome["kind"] == "in_doubt" for row in rows) or _begun_once(rows, seq):
            continue
        if rows[seq].trigger == "provide" and rows[seq + 1].trigger in ("specify", "refuse"):
            continue  # an approval of the parent's call: the fork asks again
        with Forker(journey, tmp_path, f"fork {seq}") as forker:
            fork = forker.fork(result.run_id, seq)
            forker.finish(fork, given_after(forker.journal, result.run_id, seq))
            own = forker.journal.transitions(fork)
            assert [row.trigger for row in own] == [row.trigger for row in rows]
            for mine, theirs in zip(own[seq + 1 :], rows[seq + 1 :], strict=True):
                for column in (
                    "source",
                    "dest",
                    "guards",
                    "step",
                    "action",
                    "retries",
                    "tokens_in",
                    "counters",
                ):
                    assert getattr(mine, column) == getattr(theirs, column)
                assert mine.change["n"] == theirs.change["n"]


def _begun_once(rows: list[Any], seq: int) -> bool:
    """Whether a once call has begun with this row and has not ended."""
    return bool(rows[seq].dest == "Executing" and rows[seq + 1].request.get("effect") == "once")


def test_a_fork_of_a_fork_at_any_row(tmp_path: Path) -> None:
    """What both share is under the first run; labels, payloads and documents resolve through all of them."""
    journey = BY_NAME["documents"]
    with journey.engine(tmp_path) as scripted:
        result = play(journey, scripted)
        count = len(scripted.journal.transitions(result.run_id))
    for first in (2, 4, 9):
        with Forker(journey, tmp_path, f"first {first}") as forker:
            fork = forker.fork(result.run_id, first)
            one = forker.finish(fork, [])
            for seq in range(count - 1):
                other = forker.fork(fork, seq)
                parent = forker.journal.run(other)
                assert parent.parent_run_id == (result.run_id if seq <= first else fork)
                two = forker.finish(other, [])
                assert [item.read() for item in two.documents] == [item.read() for item in one.documents]
                assert (two.answer, two.reason, two.usage.calls) == (one.answer, one.reason, one.usage.calls)
                holds(forker.journal, other)
    whole(tmp_path / JOURNAL)


def test_another_reply_parts_exactly_there(tmp_path: Path) -> None:
    """The rows before are the parent's, the prompt is the same, and what follows is the other reply's."""
    journey = BY_NAME["two_pages"]
    with journey.engine(tmp_path) as scripted:
        result = play(journey, scripted)
        rows = scripted.journal.transitions(result.run_id)
    at = next(row.seq for row in rows if row.trigger == "proceed") - 1
    replies = [*journey.replies[:2], STOP, SUCCESS]
    with Forker(journey, tmp_path, "other", replies=replies) as forker:
        fork = forker.fork(result.run_id, at)
        forker.finish(fork, [])
        own = forker.journal.transitions(fork)
        assert own[: at + 1] == rows[: at + 1]
        assert [row.trigger for row in own[at + 1 :]] == ["conclude", "finish"]

        def prompt(of: list[Any]) -> list[Any]:
            places = prompt_places(of, of[at + 1])
            return [forker.journal.payload(run, place["n"]).body for run, place, *_ in places]

        assert prompt(own) == prompt(rows)


# -- shared by reference, provably -----------------------------------------------------------------------------------


@pytest.fixture
def forked(tmp_path: Path) -> Iterator[tuple[Path, str, str]]:
    """Return a file with a run of two actions and a finished fork of it at row 4, and both ids."""
    with engine(tmp_path, [*READ(1), CONTINUE, *READ(2), STOP, SUCCESS]) as scripted:
        run_id = scripted.run("Read the notes", ["every page is read"]).run_id
        fork = scripted.fork(run_id, 4)
        assert fork.state == "Done"
    yield tmp_path / JOURNAL, run_id, fork.run_id


def test_nothing_is_copied(forked: tuple[Path, str, str]) -> None:
    """No row, payload or document of the parent is under the fork; numbers go on where the shared ones end."""
    path, run_id, fork = forked
    with closing(sqlite3.connect(path)) as connection:
        number = connection.execute("SELECT run FROM specs WHERE run_id = ?", (fork,)).fetchone()[0]
        of = "WHERE run = ?"
        assert connection.execute(f"SELECT min(seq) FROM transitions {of}", (number,)).fetchone() == (5,)
        parent = connection.execute(
            "SELECT change ->> '$.n' FROM transitions WHERE run = 1 AND seq = 4"
        ).fetchone()[0]
        assert connection.execute(f"SELECT min(n) FROM payloads {of}", (number,)).fetchone() == (parent + 1,)
        assert connection.execute(f"SELECT min(number) FROM documents {of}", (number,)).fetchone() == (1,)
        shared = "SELECT spec, spec_payload FROM specs WHERE run_id = ?"
        specs = [connection.execute(shared, (name,)).fetchone() for name in (run_id, fork)]
        assert specs[0] == specs[1]


def test_the_root_hash_commits_to_the_row(forked: tuple[Path, str, str]) -> None:
    """SHA-256 of the shared row's hash and the fork's own columns, the parent's identity among them."""
    path, run_id, fork = forked
    with Journal(path, read_only=True) as journal:
        rows = journal.transitions(fork)
        columns = journal.reader.root_columns(journal.run(fork).run)
        assert (columns["parent_run_id"], columns["parent_seq"]) == (run_id, 4)
        root = root_hash(columns, bytes.fromhex(rows[4].hash))
        assert rows[5].prev_hash == root.hex()
        assert root != root_hash(columns | {"parent_run_id": "another"}, bytes.fromhex(rows[4].hash))
    whole(path)


TAMPERED = {
    "a shared row": "UPDATE transitions SET \"trigger\" = 'answer' WHERE run = 1 AND seq = 2",
    "a shared payload": "UPDATE payloads SET body = 'other' WHERE run = 1 AND n = 2",
    "the parent's spec": "UPDATE specs SET created_at = 1 WHERE run = 1",
    "the shared row is gone": "DELETE FROM transitions WHERE run = 1 AND seq >= 4",
    "another row of the parent": "UPDATE specs SET parent_seq = 3 WHERE run = 2",
    "another parent": "UPDATE specs SET parent_run_id = 'none' WHERE run = 2",
    "its own ancestor": "UPDATE specs SET parent_run_id = run_id WHERE run = 2",
    "half a parent": "UPDATE specs SET parent_run_id = NULL WHERE run = 2",
    "no parent at all": "UPDATE specs SET parent_run_id = NULL, parent_seq = NULL WHERE run = 2",
    "its own row": "UPDATE transitions SET step = 9 WHERE run = 2 AND seq = 6",
    "its own payload": "UPDATE payloads SET body = 'other' WHERE id = (SELECT max(id) FROM payloads WHERE run = 2)",
    "its own documents": "UPDATE documents SET name = 'x' WHERE run = 2",
    "the end of the parent": "UPDATE specs SET parent_seq = 10 WHERE run = 2",
}


@pytest.mark.parametrize("edit", TAMPERED.values(), ids=TAMPERED)
def test_whatever_is_changed_of_the_fork_or_its_parent_breaks_the_fork(
    edit: str, forked: tuple[Path, str, str]
) -> None:
    """Package and script name the fork itself, not only the parent."""
    path, _, fork = forked
    with closing(forge(path)) as connection, connection:
        assert change(connection, edit)
    assert fork in {defect.run_id for defect in by_package(path)}
    code, lines = by_script(path)
    assert code == 4 and any(line.startswith(f"run {fork}") for line in lines)


def test_a_parent_that_was_made_anew_does_not_fit_the_fork(forked: tuple[Path, str, str]) -> None:
    """Somebody computes the parent's whole chain again: the parent holds, the fork does not."""
    path, run_id, fork = forked
    with Journal(path, read_only=True) as journal:
        rows = journal.reader.own_rows(1)
        head = journal.reader.root(1)
    with closing(forge(path)) as connection, connection:
        for row in rows:
            values = (*row[:2], row[2] + 1, *row[3:18])
            found = chain_hash(head, values)
            connection.execute(
                "UPDATE transitions SET at = ?, hash = ? WHERE run = 1 AND seq = ?",
                (row[2] + 1, found, row[1]),
            )
            head = found
    assert {defect.run_id for defect in by_package(path)} == {fork}
    code, lines = by_script(path)
    assert code == 4
    assert all(fork in line for line in lines[:-1]) and not any(f"run {run_id}" in line for line in lines)


def test_a_fork_without_rows_of_its_own_verifies_and_shows(tmp_path: Path) -> None:
    """Its state is that of the row it was forked at; its head is its root."""
    for name in SHAPES:
        journey, folder = BY_NAME[name], tmp_path / name
        folder.mkdir()
        with journey.engine(folder) as scripted:
            result = play(journey, scripted)
            stored, produced = len(scripted.journal.spec(result.run_id).documents), 0
            for row in scripted.journal.transitions(result.run_id)[:-1]:
                fork = scripted.fork(result.run_id, row.seq, drive=False)
                produced = row.outcome.get("documents", produced) if row.trigger == "execute" else produced
                stored, produced = (stored + produced, 0) if row.trigger == "observe" else (stored, produced)
                assert len(scripted.journal.documents(fork.run_id)) == stored
                found = scripted.journal.run(fork.run_id)
                assert (found.state, found.head_seq) == (row.dest, row.seq)
                assert found.status == ("waiting" if row.trigger == "wait" else "running")
                assert found.head_hash.hex() != row.hash
                walked = scripted.journal.reader.query(
                    "SELECT transitions, steps, tokens_in FROM v_runs WHERE run_id = ?", (fork.run_id,)
                )
                assert walked == [(row.seq + 1, row.step, row.tokens_in)]
        whole(folder / JOURNAL)


def test_views_hold_each_row_once_and_lineage_tells_the_walk(forked: tuple[Path, str, str]) -> None:
    """Sums over the file count nothing twice; a fork's walk is what `v_lineage` joins."""
    path, run_id, fork = forked
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT count(*) FROM transitions").fetchone()
        assert connection.execute("SELECT count(*) FROM v_steps").fetchone() == rows
        parts = "SELECT stands_under, first_seq, last_seq FROM v_lineage WHERE run_id = ? ORDER BY first_seq"
        assert connection.execute(parts, (fork,)).fetchall() == [(run_id, 0, 4), (fork, 5, 10)]
        assert connection.execute(parts, (run_id,)).fetchall() == [(run_id, 0, 10)]
        walk = (
            'SELECT seq, "trigger" FROM v_lineage JOIN v_steps ON v_steps.run_id = stands_under'
            " AND seq BETWEEN first_seq AND last_seq WHERE v_lineage.run_id = ? ORDER BY seq"
        )
        with Journal(path, read_only=True) as journal:
            expected = [(row.seq, row.trigger) for row in journal.transitions(fork)]
        assert connection.execute(walk, (fork,)).fetchall() == expected
        own = "SELECT sum(requests) FROM v_usage WHERE run_id = ?"
        assert [connection.execute(own, (name,)).fetchone()[0] for name in (run_id, fork)] == [7, 4]


# -- effects ---------------------------------------------------------------------------------------------------------


def calling(effect: Any, performed: list[str], **options: Any) -> Tool:
    """Return a tool of an effect class that keeps the keys it was called with."""

    @tool("notes.do", effect=effect, **options)
    def do(context: ToolContext, page: int) -> str:
        """Do something."""
        performed.append(context.idempotency_key)
        return f"done {page}"

    return do


DO = [SELECT("notes.do"), PARAMETERS(page=1), STOP, SUCCESS]


@pytest.mark.parametrize("effect", ["read", "idempotent"])
def test_a_shared_intent_is_carried_out_under_the_parents_key(effect: str, tmp_path: Path) -> None:
    """A call that was begun and may run again does; its key is the parent's, so an idempotent one happens once."""
    performed: list[str] = []
    with engine(tmp_path, DO, [calling(effect, performed)]) as scripted:
        run_id = scripted.run("Do it").run_id
        assert scripted.fork(run_id, 1).state == "Done"
        assert scripted.fork(run_id, 0).state == "Done"
    assert performed == [f"{run_id}-1", f"{run_id}-1", performed[2]]
    assert performed[2] != performed[0]


@pytest.mark.parametrize("known", ["nothing", "that it happened", "that it did not"])
def test_a_once_effect_of_the_parent_is_in_doubt_for_the_fork(known: str, tmp_path: Path) -> None:
    """At the intent row the outcome is not shared: it is never begun again by itself, whatever the parent came to."""
    performed: list[str] = []
    reconcile: dict[str, Any] = {
        "nothing": {},
        "that it happened": {"reconcile": lambda key: f"receipt {key}"},
        "that it did not": {"reconcile": lambda key: None},
    }
    with engine(tmp_path, DO, [calling("once", performed, **reconcile[known])]) as scripted:
        run_id = scripted.run("Do it").run_id
        assert len(performed) == 1
        fork = scripted.fork(run_id, 1)
        if known == "that it happened":
            assert fork.state == "Done"
            assert fork.documents[0].read() == f"receipt {run_id}-1"
        else:
            assert fork.status == "waiting" and fork.waiting_for is not None
            assert fork.waiting_for.kind == "in_doubt" and fork.waiting_for.key == f"{run_id}-1"
            assert scripted.resume(fork.run_id, outcome="done", result="it is done").state == "Done"
        assert len(performed) == 1
        created = scripted.fork(run_id, 1, drive=False)
        assert scripted.resume(created.run_id).status == fork.status
        assert len(performed) == 1
        after = scripted.fork(run_id, 2)
        assert after.state == "Done" and len(performed) == 1


def test_a_fork_of_a_run_whose_driver_was_lost_asks_like_the_run_itself(tmp_path: Path) -> None:
    """Also at the row that says retry: the retry was said to the parent."""
    with engine(tmp_path, [SELECT("notes.lose"), PARAMETERS(page=1), STOP, SUCCESS], [losing()]) as scripted:
        with pytest.raises(Lost):
            scripted.run("Lose it")
        run_id = scripted.journal.runs()[0].run_id
        assert scripted.resume(run_id).status == "waiting"
        fork = scripted.fork(run_id, 2)
        assert fork.status == "waiting"
        answered = scripted.fork(run_id, 2, outcome="fail", result="nobody")
        assert answered.state == "Done"
        assert scripted.resume(run_id, outcome="retry").state == "Done"
        again = scripted.fork(run_id, 3)
        assert again.status == "waiting" and again.waiting_for is not None
        assert again.waiting_for.kind == "in_doubt"
    whole(tmp_path / JOURNAL)


def test_the_parent_may_be_running(tmp_path: Path) -> None:
    """Its driver goes on as if nothing had happened; neither needs the other's lease."""
    with engine(tmp_path, [*READ(1), CONTINUE, *READ(2), STOP, SUCCESS]) as scripted:
        events = scripted.stream("Read the notes", on_close="stop")
        for event in events:
            if event.kind == "transition" and getattr(event, "seq", 0) == 4:
                break
        run_id = scripted.journal.runs()[0].run_id
        forks = [scripted.fork(run_id, seq) for seq in range(4)]
        assert {fork.state for fork in forks} == {"Done"}
        last = list(events)[-1]
        assert getattr(last, "result").state == "Done"  # noqa: B009
        assert scripted.journal.run(run_id).status == "done"
    whole(tmp_path / JOURNAL)


# -- amended -----------------------------------------------------------------------------------------------------------


def test_totals_and_budgets_include_what_is_shared(tmp_path: Path) -> None:
    """Steps, tokens, cost and time of the fork go on from the row; a budget counts them."""
    with engine(tmp_path, [*READ(1), CONTINUE, *READ(2), STOP, SUCCESS]) as scripted:
        result = scripted.run("Read the notes")
        row = scripted.journal.transitions(result.run_id)[4]
        fork = scripted.fork(result.run_id, 4)
        assert (fork.steps, fork.usage.tokens_in, fork.usage.calls) == (
            result.steps,
            result.usage.tokens_in,
            result.usage.calls,
        )
        used = row.tokens_in + row.tokens_out
        spent = scripted.fork(result.run_id, 4, limits={"token_budget": used})
        assert (spent.state, spent.reason, spent.usage.calls) == ("Failed", "token_budget", 3)
        left = scripted.fork(result.run_id, 4, limits={"token_budget": used + 1})
        assert left.usage.calls == 4


def test_changed_options_stand_in_the_forks_own_spec(tmp_path: Path) -> None:
    """What is shared replays with the parent's spec, what follows with the fork's own; what did not change stays."""
    replies = [*READ(1), CONTINUE, *READ(2), CONTINUE, *READ(3), STOP, SUCCESS]

    another = ScriptedModel([*replies[:6], SUCCESS])
    another.name = "another"
    with engine(tmp_path, replies) as scripted:
        run_id = scripted.run("Read the notes", limits=Limits(max_steps=4, snippet_chars=77)).run_id
        fork = scripted.fork(
            run_id,
            4,
            limits={"max_steps": 2},
            policy=Policy(deny=("notes.send",)),
            model=another,
        )
        spec, parent = scripted.journal.spec(fork.run_id), scripted.journal.spec(run_id)
        assert (spec.limits.max_steps, spec.limits.snippet_chars, spec.model) == (2, 77, "another")
        assert spec.policy.deny == ("notes.send",)
        assert (
            spec.model_copy(
                update={
                    "limits": parent.limits,
                    "policy": parent.policy,
                    "model": parent.model,
                    "workflow_id": run_id,
                    "engine": parent.engine,
                    "machine": parent.machine,
                    "fingerprints": parent.fingerprints,
                }
            )
            == parent
        )
        assert fork.steps == 2 and fork.state == "Done"
        rows = scripted.journal.transitions(fork.run_id)
        assert rows[5].request["model"] == "another"
        holds(scripted.journal, fork.run_id)
        assert replay(scripted.journal, run_id).identical
        again = scripted.fork(fork.run_id, 6)
        assert scripted.journal.spec(again.run_id).limits.max_steps == 2
        holds(scripted.journal, again.run_id)
        early = scripted.fork(fork.run_id, 3)
        assert scripted.journal.spec(early.run_id).limits.max_steps == 4
        resumed = scripted.fork(run_id, 4, limits={"max_steps": 2}, drive=False)
        assert scripted.resume(resumed.run_id).steps == 2
    whole(tmp_path / JOURNAL)


def test_a_fork_can_take_the_engines_prompts_of_now(tmp_path: Path) -> None:
    """With `current` its own spec has them; without, it is refused as a resume is."""
    from ..support.inside import default_templates

    replies = [*READ(1), CONTINUE, *READ(2), STOP, SUCCESS]
    with engine(tmp_path, replies) as scripted:
        run_id = scripted.run("Read the notes").run_id
    changed = default_templates()["refinement"] + "\nBe brief."
    with engine(tmp_path, replies, prompts={"refinement": changed}, ids=SeededIds("b")) as other:
        with pytest.raises(RunChanged):
            other.fork(run_id, 4)
        current = other.fork(run_id, 4, current=True)
        assert other.journal.spec(current.run_id).templates["refinement"] == changed
        assert replay(other.journal, current.run_id).identical
        assert not replay(other.journal, run_id, other).identical
        found = {item.seq for item in replay(other.journal, current.run_id, other).divergences}
        assert found == {4}
        own = default_templates()["selection"] + "\nChoose well."
        brought = other.fork(run_id, 4, prompt_template=own, current=True)
        assert other.journal.spec(brought.run_id).own_templates == ("selection",)
        holds(other.journal, brought.run_id)
    whole(tmp_path / JOURNAL)


def test_an_answer_can_be_given_where_the_parent_waited(tmp_path: Path) -> None:
    """Another one than the parent got; without one the fork waits like the parent did."""
    journey = BY_NAME["approved"]
    with journey.engine(tmp_path) as scripted:
        result = play(journey, scripted)
        at = next(row.seq for row in scripted.journal.transitions(result.run_id) if row.trigger == "wait")
        assert scripted.fork(result.run_id, at).status == "waiting"
        fork = scripted.fork(result.run_id, at, answer={"approve": False})
        refused = scripted.journal.transitions(fork.run_id)[at + 2]
        assert refused.trigger == "refuse"
        before = len(scripted.journal.runs())
        for wrong in ({"answer": "yes"}, {"answer": {"approve": 1}}):
            with pytest.raises(InvalidAnswer):
                scripted.fork(result.run_id, at, **wrong)
        with pytest.raises(InvalidAnswer, match="waits for nothing at row 0"):
            scripted.fork(result.run_id, 0, answer={"approve": True})
        assert len(scripted.journal.runs()) == before
        holds(scripted.journal, fork.run_id)


def test_a_fork_is_cancelled_followed_up_and_resumed_like_any_run(tmp_path: Path) -> None:
    """And none of it touches the parent."""
    with engine(tmp_path, [*READ(1), CONTINUE, *READ(2), STOP, SUCCESS]) as scripted:
        run_id = scripted.run("Read the notes", documents=[("a.txt", "first")]).run_id
        before = scripted.journal.transitions(run_id)
        created = scripted.fork(run_id, 4, drive=False)
        assert scripted.cancel(created.run_id).reason == "cancelled"
        fork = scripted.fork(run_id, 4)
        assert scripted.journal.run(fork.run_id).workflow_id == fork.run_id
        followed = scripted.run("And now?", conversation="c", after=fork.run_id)
        row = scripted.journal.run(followed.run_id)
        assert (row.workflow_id, row.round) == (row.run_id, 2)
        names = [document.label for document in scripted.journal.documents(followed.run_id)[:3]]
        assert names == [
            "round1_task1_action0_input",
            "round1_task1_action1_page",
            "round1_task1_action2_page",
        ]
        assert scripted.journal.transitions(run_id) == before
        assert scripted.resume(fork.run_id).answer == fork.answer
    whole(tmp_path / JOURNAL)


def test_a_fork_that_falls_back_does_so_by_itself(tmp_path: Path) -> None:
    """The place in the parent's workflow is not taken by it."""
    replies = ["no JSON", "no JSON"]
    with engine(tmp_path, replies) as scripted:
        run_id = scripted.run("Read the notes", fallback="batch").run_id
        rows = scripted.journal.runs()
        assert len(rows) == 2
        first = min(rows, key=lambda row: row.run)
        fork = scripted.fork(first.run_id, 0)
        spec = scripted.journal.spec(fork.run_id)
        assert spec.fallback_for == scripted.journal.runs()[1].run_id != run_id
    whole(tmp_path / JOURNAL)


# -- refused -----------------------------------------------------------------------------------------------------------


def test_what_cannot_be_forked_is_told_and_creates_nothing(forked: tuple[Path, str, str]) -> None:
    """One line each, typed."""
    path, run_id, fork = forked
    with Engine(ScriptedModel([]), list(TOOLS), Journal(path, "off"), builtins=False) as other:
        before = len(other.journal.runs())
        cases: tuple[tuple[str, Any, type[PaorError], str], ...] = (
            ("none-such", 1, UnknownRun, "there is no run"),
            (run_id, -1, InvalidFork, "rows 0 to 10"),
            (run_id, 11, InvalidFork, "no row 11"),
            (run_id, 2**40, InvalidFork, "rows 0 to 10"),
            (run_id, 10, InvalidFork, "ended with row 10 in Done"),
            (fork, 10, InvalidFork, "ended with row 10 in Done"),
            (run_id, "4", UsageError, "number of a row"),
            (run_id, True, UsageError, "number of a row"),
        )
        for name, seq, kind, words in cases:
            with pytest.raises(kind, match=words) as told:
                other.fork(name, seq)
            assert "\n" not in str(told.value)
        for options in (
            {"limits": 3},
            {"policy": "all"},
            {"limits": {"max_steps": 0}},
            {"limits": {"no": 1}},
        ):
            with pytest.raises(UsageError):
                other.fork(run_id, 4, **options)
        with pytest.raises(UsageError):
            other.fork(run_id, 4, prompt_template="{{KEY:NOTHING_LIKE_IT}}")
        with pytest.raises(TypeError):
            asyncio.run(other.afork(run_id, 4, colour="red"))  # type: ignore[call-arg]
        assert len(other.journal.runs()) == before


@pytest.mark.parametrize(
    ("edit", "kind"),
    [
        ("UPDATE payloads SET body = NULL, salt = NULL WHERE run = 1 AND n = 0", InvalidFork),
        ("UPDATE payloads SET body = NULL, salt = NULL WHERE run = 1", InvalidFork),
        ("UPDATE transitions SET step = 7 WHERE run = 1 AND seq = 2", JournalDamaged),
        ("UPDATE specs SET created_at = 7 WHERE run = 1", JournalDamaged),
    ],
)
def test_a_prefix_that_was_erased_or_damaged_is_not_forked(
    edit: str, kind: type[PaorError], forked: tuple[Path, str, str]
) -> None:
    """What was erased is told as such; what was changed as damage."""
    path, run_id, fork = forked
    with closing(forge(path)) as connection, connection:
        connection.execute(edit)
    with Engine(ScriptedModel([]), list(TOOLS), Journal(path, "off"), builtins=False) as other:
        for name in (run_id, fork):
            with pytest.raises(kind):
                other.fork(name, 4)
        with pytest.raises((JournalDamaged, Erased)):
            other.fork(fork, 7) if kind is JournalDamaged else other.resume(fork)


def test_a_run_without_rows_and_a_workflow_are_refused(tmp_path: Path) -> None:
    """There is nothing to share; and a workflow only calls its tasks, which can be forked."""
    from paor import Task

    with engine(tmp_path, [*READ(1), STOP, SUCCESS, SUCCESS]) as scripted:
        events = scripted.stream("Read", on_close="stop")
        next(events)
        with pytest.raises(InvalidFork, match="no row yet"):
            scripted.fork(scripted.journal.runs()[0].run_id, 0)
        events.close()
        scripted.run_workflow("Read all", tasks=[Task("Read page 1")])
        task, workflow = scripted.journal.runs()[:2]
        assert (task.task, workflow.task) == (1, 0)
        with pytest.raises(InvalidFork, match="is a workflow"):
            scripted.fork(workflow.run_id, 0)
        assert scripted.fork(task.run_id, 2).run_id
        place = scripted.journal.runs()[0]
        assert (place.round, place.task, place.workflow_id) == (1, 1, place.run_id)
    whole(tmp_path / JOURNAL)
