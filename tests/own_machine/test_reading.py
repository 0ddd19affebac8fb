"""Everything that reads a journal follows a run's own machine: both verifiers, replay, why, diff, calls, erasure, export and import."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from paor import Engine, Journal, Machine, Phase, Policy, diff, replay, why, why_not
from paor.errors import RunChanged
from paor.machine import GuardContext
from paor.testing import call, refine

from ..journal.test_journal import PAGE
from ..support.own_machines import (
    ADVICE,
    KINDS,
    World,
    engine,
    escalating,
    patch_script,
    pay_script,
    query_script,
    two_reviewers,
    verifying,
    what_failed,
)
from ..verify.test_verify import altered, by_package, by_script, rehash
from .inside import salted_digest

EACH = pytest.mark.parametrize("kind", sorted(KINDS))
CODE = "the host's code is not here"


class Recorded(NamedTuple):
    """A journal of one run of a kind, not to be changed, and the run's id."""

    path: Path
    run_id: str


def through(of: Engine, answers: list[dict[str, Any]], **options: Any) -> str:
    """Run to the end, giving each answer to the question that is open then; return the id."""
    result = of.run("Do it", **options)
    for given in answers:
        if result.waiting_for is not None:
            result = of.resume(result.run_id, question=result.waiting_for.id, **given)
    return result.run_id


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Recorded]:
    """Return a run of each kind, by its name."""
    found = {}
    for kind, make in KINDS.items():
        path = tmp_path_factory.mktemp("kinds") / f"{kind}.db"
        of, answers = make(path, World())
        with of:
            found[kind] = Recorded(path, through(of, answers))
    return found


@pytest.fixture
def copy(recorded: dict[str, Recorded], tmp_path: Path) -> Callable[[str], Recorded]:
    """Return a function that copies the run of a kind to a file that may be changed."""

    def copied(kind: str) -> Recorded:
        found = recorded[kind]
        return Recorded(Path(shutil.copy(found.path, tmp_path / f"{kind}.db")), found.run_id)

    return copied


def opened(kind: str, path: Path) -> Engine:
    """Return an engine of a kind on a journal that is there."""
    return KINDS[kind](path, World())[0]


# -- what holds ----------------------------------------------------------------------------------------------------


UNCHECKED = {
    "verifying": set[str](),
    "escalating": {"guards.two_failures", "change.question.message"},
    "two_reviewers": {
        "guards.once_call",
        "guards.not_reviewed",
        "guards.four_eyes",
        "change.question.message",
    },
    "triage": set[str](),
}


@EACH
def test_a_replay_names_what_only_the_hosts_code_derives(kind: str, copy: Callable[[str], Recorded]) -> None:
    """Without the code nothing differs and exactly that is unchecked; with the engine the run is identical."""
    path, run_id = copy(kind)
    with Journal(path, read_only=True) as journal:
        alone = replay(journal, run_id)
    assert alone.divergences == ()
    assert {item.field for item in alone.unchecked} == UNCHECKED[kind]
    assert {item.why for item in alone.unchecked} <= {CODE}
    with opened(kind, path) as of:
        assert replay(of.journal, run_id, of).identical


def test_an_accepted_machine_holds_from_its_row_on(tmp_path: Path) -> None:
    """A waiting run that another engine takes over: its rows before are of the machine before, those after of the new one."""
    first = engine(tmp_path / "runs.db", escalating(), query_script("a", "b", "c"), World(failures=2))
    with first:
        result = first.run("Do it")
    more = (
        escalating()
        .phase(Phase("Checking", tool="tests.run"))
        .row("Reviewing", "check", "Checking", when="review_success", before="finish")
        .row("Checking", "finish", "Done")
    )
    with engine(tmp_path / "runs.db", more, query_script("a", "b", "c")) as second:
        with pytest.raises(RunChanged):
            second.resume(result.run_id, answer={"advice": "x"})
        ended = second.resume(result.run_id, answer={"advice": "x"}, accept_changes=True)
        assert ended.state == "Done"
        assert "check" in [row.trigger for row in second.journal.transitions(ended.run_id)]
        assert second.journal.verify() == []
        assert replay(second.journal, ended.run_id, second).identical
        assert replay(second.journal, ended.run_id).divergences == ()
        for row in second.journal.transitions(ended.run_id):
            found = why(second.journal, ended.run_id, row.seq)
            assert [item.trigger for item in found.candidates if item.fate == "taken"] == [row.trigger]
        second.journal.erase(ended.run_id, payloads=[0])
        assert second.journal.verify() == []
        assert replay(second.journal, ended.run_id).divergences == ()
    assert by_script(tmp_path / "runs.db")[0] == 0


# -- forgeries -----------------------------------------------------------------------------------------------------

Row = dict[str, Any]
Forge = Callable[[sqlite3.Connection, list[Row]], bool]
"""Changes a journal; returns whether there was something to change."""


def own_rows(rows: list[Row]) -> list[Row]:
    """Return the rows that the standard table does not have."""
    names = {"Planning", "Specifying", "Executing", "Observing", "Reviewing", "Done", "Failed"}
    return [row for row in rows if not {row["source"], row["dest"]} <= names]


def put(db: sqlite3.Connection, row: Row, **columns: Any) -> bool:
    """Change columns of a row."""
    for name, value in columns.items():
        db.execute(f'UPDATE transitions SET "{name}" = ? WHERE id = ?', (value, row["id"]))
    return True


def another_trigger(db: sqlite3.Connection, rows: list[Row]) -> bool:
    """A row of the host's under a name that no row has."""
    return put(db, own_rows(rows)[-1], trigger="sneak")


def another_own_trigger(db: sqlite3.Connection, rows: list[Row]) -> bool:
    """A row of the host's under the name of another row of the host's."""
    own = own_rows(rows)
    other = next((row["trigger"] for row in own if row["trigger"] != own[-1]["trigger"]), "verify")
    return put(db, own[-1], trigger=other)


def another_dest(db: sqlite3.Connection, rows: list[Row]) -> bool:
    """A row of the host's that ends the run."""
    return put(db, own_rows(rows)[0], dest="Failed")


def a_phase_of_no_machine(db: sqlite3.Connection, rows: list[Row]) -> bool:
    """A whole stay in a phase that the machine does not have."""
    phase = own_rows(rows)[0]["source"] if rows[0]["source"] == "Triage" else own_rows(rows)[0]["dest"]
    for column in ("source", "dest"):
        db.execute(f"UPDATE transitions SET {column} = 'Sleeping' WHERE {column} = ?", (phase,))
    return True


def an_edge_of_the_standard_machine(db: sqlite3.Connection, rows: list[Row]) -> bool:
    """A stay in a phase of the host's that is skipped as no row allows it."""
    row = next((row for row in own_rows(rows) if row["dest"] not in ("Planning", "Specifying")), None)
    return put(db, row, dest="Planning") if row is not None else False


def another_beginning(db: sqlite3.Connection, rows: list[Row]) -> bool:
    """The run begins in another phase."""
    return put(db, rows[0], source="Planning" if rows[0]["source"] == "Triage" else "Triage")


def a_bound_counted_back(db: sqlite3.Connection, rows: list[Row]) -> bool:
    """The counter of a row's own bound says less."""
    found = [row for row in rows if "own" in json.loads(row["counters"])]
    for row in found:
        counters = json.loads(row["counters"])
        del counters["own"]
        put(db, row, counters=json.dumps(counters, separators=(",", ":"), sort_keys=True))
    return bool(found)


def a_bound_counted_more(db: sqlite3.Connection, rows: list[Row]) -> bool:
    """The last row has taken a bounded row that nobody took."""
    counters = json.loads(rows[-1]["counters"])
    counters["own"] = counters.get("own", {}) | {"sneak": 7}
    return put(db, rows[-1], counters=json.dumps(counters, separators=(",", ":"), sort_keys=True))


def a_guard_that_said_otherwise(db: sqlite3.Connection, rows: list[Row]) -> bool:
    """A guard of a row that was taken has another value."""
    row = next(row for row in own_rows(rows) if row["trigger"] not in ("wait", "provide", "observe"))
    names = ("succeeded", "call_due", "review_success", "two_failures", "once_call", "hard_stop")
    guards = json.loads(row["guards"])
    name = next(name for name in names if name in guards)
    guards[name] = not guards[name]
    return put(db, row, guards=json.dumps(guards, separators=(",", ":"), sort_keys=True))


def a_guard_that_was_not_asked(db: sqlite3.Connection, rows: list[Row]) -> bool:
    """Guards that must have been asked are missing."""
    return put(db, own_rows(rows)[0], guards="{}")


def another_caller(db: sqlite3.Connection, rows: list[Row]) -> bool:
    """The way back from a call to a phase that it was not made for."""
    row = next((row for row in rows if row["trigger"] == "observe"), None)
    return put(db, row, dest="Escalating") if row is not None else False


def another_step(db: sqlite3.Connection, rows: list[Row]) -> bool:
    """A row of the host's counts a step."""
    for row in rows[own_rows(rows)[0]["seq"] :]:
        put(db, row, step=row["step"] + 1)
    return True


def another_machine_with_its_digest(db: sqlite3.Connection, rows: list[Row]) -> bool:
    """The record of the machine has a row more, and its payload a digest that fits."""
    n, salt, body, kind = db.execute(
        "SELECT n, salt, body, media_type FROM payloads WHERE n = (SELECT spec_payload FROM specs)"
    ).fetchone()
    spec = json.loads(body)
    machine = json.loads(spec["host_machine"])
    machine["transitions"].append({"trigger": "sneak", "source": "Planning", "dest": "Done", "meaning": ""})
    text = json.dumps(spec | {"host_machine": json.dumps(machine)})
    digest = salted_digest(bytes.fromhex(salt), text, kind).hex()
    db.execute("UPDATE payloads SET body = ?, digest = ? WHERE n = ?", (text, digest, n))
    return True


FORGERIES: tuple[Forge, ...] = (
    another_trigger,
    another_own_trigger,
    another_dest,
    a_phase_of_no_machine,
    an_edge_of_the_standard_machine,
    another_beginning,
    a_bound_counted_back,
    a_bound_counted_more,
    a_guard_that_said_otherwise,
    a_guard_that_was_not_asked,
    another_caller,
    another_step,
    another_machine_with_its_digest,
)
TOLD_BY_ROWS = {another_trigger, another_own_trigger, another_dest, a_phase_of_no_machine, another_beginning,
                an_edge_of_the_standard_machine, another_caller}  # fmt: skip
"""Forgeries that the machine of the spec shows, so that verifying finds them even where the chain was made anew."""

NOTHING_TO_FORGE = {
    (an_edge_of_the_standard_machine, "triage"),  # its one own row leads to Planning
    (a_bound_counted_back, "triage"),
}
CASES = [
    pytest.param(forge, kind, marks=() if kind == "two_reviewers" else pytest.mark.whole)
    for forge in FORGERIES
    for kind in KINDS
    if (forge, kind) not in NOTHING_TO_FORGE
]


def forged(copied: Recorded, forge: Forge) -> None:
    """Forge a journal and make its chain again, as somebody would who knows the format."""
    with altered(copied.path) as db:
        db.row_factory = sqlite3.Row
        rows = [dict(row) for row in db.execute("SELECT * FROM transitions ORDER BY id")]
        assert forge(db, rows)
        rehash(db, 1)


@pytest.mark.parametrize(("forge", "kind"), CASES, ids=lambda item: getattr(item, "__name__", item))
def test_a_forgery_is_found_behind_a_chain_that_was_made_anew(
    forge: Forge, kind: str, copy: Callable[[str], Recorded]
) -> None:
    """By the machine that the spec records, or by a replay without any of the host's code."""
    copied = copy(kind)
    forged(copied, forge)
    defects = by_package(copied.path)
    if forge in TOLD_BY_ROWS:
        assert any("is not in the table here" in item.problem for item in defects), defects
    with Journal(copied.path, read_only=True) as journal:
        try:
            told: Any = replay(journal, copied.run_id).divergences
        except Exception as error:  # noqa: BLE001  # of a journal that does not hold any error is an answer
            told = error
    assert defects or told


# -- erased --------------------------------------------------------------------------------------------------------


@pytest.mark.whole
@EACH
def test_any_erased_payload_leaves_a_run_that_holds(kind: str, copy: Callable[[str], Recorded]) -> None:
    """Each by itself: both verifiers find nothing, a replay finds no difference and says what it could not check."""
    path, run_id = copy(kind)
    with Journal(path, read_only=True) as journal:
        count = journal.reader.next_payload(1)
    for number in range(count):
        path, run_id = copy(kind)
        with opened(kind, path) as of:
            of.journal.erase(run_id, payloads=[number])
            assert of.journal.verify() == [], number
            for given in (None, of):
                again = replay(of.journal, run_id, given)
                assert (again.divergences, again.unchecked != ()) == ((), True), number


@EACH
def test_an_erased_machine_is_no_defect_and_no_secret(kind: str, copy: Callable[[str], Recorded]) -> None:
    """Rows that cannot be held against it are named, not called defects; what no machine can have is one."""
    path, run_id = copy(kind)
    with Journal(path) as journal:
        own = [
            row.seq
            for row in journal.transitions(run_id)
            if row.source not in PHASES or row.dest not in PHASES
        ]
        journal.erase(run_id)
        unchecked: list[Any] = []
        assert journal.verify(unchecked=unchecked) == []
        assert [item.run_id for item in unchecked] == [run_id]
        assert f"against it: {len(own)}, the first is seq {own[0]}" in unchecked[0].problem
        again = replay(journal, run_id)
        assert again.divergences == () and "spec" in again.unchecked[0].field
        for row in journal.transitions(run_id):
            found = why(journal, run_id, row.seq)
            assert (found.source, found.trigger) == (row.source, row.trigger)
            assert [item.trigger for item in found.candidates if item.fate == "taken"] == [row.trigger]
            assert why_not(found, "Done").answer
    assert by_script(path)[0] == 0
    with altered(path) as db:
        db.execute("UPDATE transitions SET \"trigger\" = 'execute' WHERE seq = ?", (own[0],))
        rehash(db, 1)
        db.execute("DELETE FROM erasures")
    assert any("is not in the table here" in item.problem for item in by_package(path))


PHASES = ("Planning", "Specifying", "Executing", "Observing", "Reviewing", "Done", "Failed")


@pytest.mark.parametrize(
    "forge",
    [a_guard_that_said_otherwise, a_guard_that_was_not_asked, another_step, a_bound_counted_more],
    ids=lambda forge: forge.__name__,
)
@pytest.mark.parametrize(
    "kind",
    ["verifying", *(pytest.param(kind, marks=pytest.mark.whole) for kind in KINDS if kind != "verifying")],
)
def test_columns_tell_a_forgery_where_texts_are_erased(
    forge: Forge, kind: str, copy: Callable[[str], Recorded]
) -> None:
    """The choice by the recorded guards and the sums hold by the run's own machine, whatever the erased text said."""
    copied = copy(kind)
    with Journal(copied.path) as journal:
        asked = [row for row in journal.transitions(copied.run_id) if "prompt" in row.request]
        journal.erase(copied.run_id, payloads=[asked[-1].request["prompt"][-1]["n"]])
        assert replay(journal, copied.run_id).divergences == ()
    forged(copied, forge)
    with Journal(copied.path, read_only=True) as journal:
        found = replay(journal, copied.run_id)
    assert any(item.field in ("guards", "step", "counters.own") for item in found.divergences), (
        found.divergences
    )


def looking() -> Machine:
    """Return the machine whose last phase asks for nothing, so that its rows keep the last call's result."""
    return (
        Machine.standard()
        .phase(Phase("Looking"))
        .row("Reviewing", "look", "Looking", when="review_success", before="finish")
        .row("Looking", "finish", "Done")
    )


def test_erasing_a_document_reaches_the_rows_that_set_its_result_again(tmp_path: Path) -> None:
    """A row of the host's own sets a call's result once more; the name of what the call made goes there, too."""
    script = [*call("db.query", sql="docItem:round1_task1_action0_input#0"), refine("stop", answer="x")]
    with engine(tmp_path / "runs.db", looking(), script) as of:
        run_id = of.run(
            "Do it", documents=[("plan.txt", "the secret plan of the year, which nobody may read")]
        ).run_id
        journal = of.journal
        own = [row.change["n"] for row in journal.transitions(run_id) if row.trigger in ("look", "finish")]
        assert all('"documents":[{' in str(journal.payload(1, n).body) for n in own)
        journal.erase(run_id, documents=[0])
        assert [journal.payload(1, n).body for n in own] == [None, None]
        assert journal.verify() == []
    assert by_script(tmp_path / "runs.db")[0] == 0


def test_erasing_a_row_that_set_a_result_again_leaves_the_names_of_its_documents(tmp_path: Path) -> None:
    """They are said by the call's own row, which is still there."""
    with engine(tmp_path / "runs.db", looking(), patch_script("a")) as of:
        run_id = of.run("Do it").run_id
        row = next(row for row in of.journal.transitions(run_id) if row.trigger == "look")
        names = [document.name for document in of.journal.documents(run_id)]
        of.journal.erase(run_id, payloads=[row.change["n"]])
        assert [document.name for document in of.journal.documents(run_id)] == names
        assert of.journal.verify() == []


def test_texts_of_own_phases_are_left_out_of_a_redacted_export(
    tmp_path: Path, copy: Callable[[str], Recorded]
) -> None:
    """Answers, what a phase came to, and the host's own values, wherever they are repeated."""
    path, run_id = copy("escalating")
    with Journal(path, read_only=True) as journal, Journal(tmp_path / "other.db") as other:
        lines = [json.dumps(line).encode() for line in journal.export(run_id, redact={"word": "use t"})]
        assert not any(b"use t" in line for line in lines)
        other.import_lines(lines)
        assert other.verify() == [] and replay(other, run_id).divergences == ()


# -- what has changed ----------------------------------------------------------------------------------------------


def two_failures(context: GuardContext) -> bool:
    """Two calls in a row have failed."""
    return context.counters.errors >= 1


two_failures_of_now = two_failures


def changed_guard() -> Machine:
    """Return the escalating machine with another function under the same name."""
    return _escalating(two_failures_of_now)


def _escalating(
    guard: Callable[[GuardContext], bool], at_most: int = 1, question: Any = what_failed
) -> Machine:
    return (
        Machine.standard()
        .phase(Phase("Escalating", question=question, answer=ADVICE))
        .row("Reviewing", "escalate", "Escalating", when=guard, before="next_step", at_most=at_most)
        .row("Escalating", "advise", "Planning", when="succeeded")
        .row("Escalating", "give_up", "Failed")
    )


def asked_otherwise(context: GuardContext) -> str:
    """Return another question."""
    return "And now?"


def test_a_changed_guard_is_named_by_replay_and_by_resume(tmp_path: Path) -> None:
    """With the engine that has it: the part by its name, and where it decides otherwise."""
    with engine(tmp_path / "runs.db", escalating(), query_script("a", "b", "c"), World(failures=2)) as of:
        waiting = of.run("Do it")
    with engine(tmp_path / "runs.db", changed_guard(), []) as other:
        found = replay(other.journal, waiting.run_id, other)
        assert "guard.two_failures" in [part.part for part in found.changed]
        assert any(item.field == "guards.two_failures" for item in found.divergences)
        with pytest.raises(RunChanged) as caught:
            other.resume(waiting.run_id, answer={"advice": "x"})
        assert any(part.startswith("guard.two_failures") for part in caught.value.parts)


CHANGED: dict[str, tuple[Callable[[], Machine], str]] = {
    "a bound": (lambda: _escalating(_named_two_failures(), at_most=2), "row.Reviewing.escalate"),
    "a question": (lambda: _escalating(_named_two_failures(), question=asked_otherwise), "phase.Escalating"),
    "a row more": (
        lambda: escalating().row("Escalating", "again", "Planning", before="give_up", at_most=1),
        "row.Escalating.again",
    ),
}


def _named_two_failures() -> Callable[[GuardContext], bool]:
    from ..support.own_machines import two_failures as named

    return named


@pytest.mark.parametrize("what", CHANGED)
def test_a_changed_row_or_phase_is_named(what: str, tmp_path: Path) -> None:
    """By replay with the engine, and by a resume that would use it."""
    with engine(tmp_path / "runs.db", escalating(), query_script("a", "b", "c"), World(failures=2)) as of:
        waiting = of.run("Do it")
    make, part = CHANGED[what]
    with engine(tmp_path / "runs.db", make(), []) as other:
        changed = replay(other.journal, waiting.run_id, other).changed
        assert part in [item.part for item in changed]


def test_another_pattern_of_tools_is_named(copy: Callable[[str], Recorded]) -> None:
    """The same function for other tools is another guard."""
    path, run_id = copy("two_reviewers")
    machine = two_reviewers()
    data = machine.to_dict()
    for guard in data["guards"]:
        if guard["name"] == "four_eyes":
            guard["tools"] = ["bank.*", "cash.*"]
    with engine(path, Machine.from_dict(data, machine), pay_script(5, 7)) as other:
        changed = replay(other.journal, run_id, other).changed
    assert [item.part for item in changed] == ["guard.four_eyes"]


# -- why -----------------------------------------------------------------------------------------------------------


def test_a_guard_of_the_hosts_is_told_by_its_sentence(recorded: dict[str, Recorded]) -> None:
    """With the value that was recorded, since its code is not here; and phases of the host's are known by name."""
    path, run_id = recorded["two_reviewers"]
    with Journal(path, read_only=True) as journal:
        refused = next(row for row in journal.transitions(run_id) if row.trigger == "refuse")
        found = why(journal, run_id, refused.seq)
        told = why_not(found, "executing").answer
        assert "four_eyes was False: Two different people have agreed to this very call." in told
        assert "not_reviewed was False" in why_not(found, "firstreview").answer
    path, run_id = recorded["triage"]
    with Journal(path, read_only=True) as journal:
        assert why(journal, run_id, 0).request == "phase from cheap"


def test_a_row_with_which_a_change_was_accepted_is_told_by_what_was_in_force_then(tmp_path: Path) -> None:
    """The policy of the engine that went on, not the one before."""
    with engine(tmp_path / "runs.db", None, pay_script(5)) as of:
        for event in of.stream("Do it", on_close="stop"):
            if event.kind == "transition":
                break
        (row,) = of.journal.runs()
    with engine(tmp_path / "runs.db", None, pay_script(5), policy=Policy(deny=("bank.*",))) as other:
        other.resume(row.run_id, accept_changes=True)
        assert "spec" in other.journal.transitions(row.run_id)[1].request
        found = why(other.journal, row.run_id, 1)
    (fact,) = {
        guard.fact for item in found.candidates for guard in item.guards if guard.guard == "action_allowed"
    }
    assert fact == "bank.pay is denied by policy"


# -- diff ----------------------------------------------------------------------------------------------------------


def difference(
    tmp_path: Path,
    left: Machine | None,
    right: Machine | None,
    script: list[Any],
    failures: int,
    **options: Any,
) -> Iterator[Any]:
    """Yield how two runs of two machines with the same script differ, then the other way round."""
    ids = []
    for name, machine in (("one", left), ("other", right)):
        with engine(tmp_path / f"{name}.db", machine, list(script), World(failures)) as of:
            ids.append(through(of, [{"answer": {"advice": "use t"}}], **options.get(name, {})))
    with (
        Journal(tmp_path / "one.db", read_only=True) as first,
        Journal(tmp_path / "other.db", read_only=True) as second,
    ):
        yield diff(first, ids[0], ids[1], second)
        yield diff(second, ids[1], ids[0], first)


def test_a_guard_of_the_hosts_is_named_as_the_cause(tmp_path: Path) -> None:
    """The first row at which the two functions say something else, and the guard by its name."""
    for found in difference(tmp_path, escalating(), changed_guard(), query_script("a", "b", "c"), 2):
        assert (found.seq, found.field, found.cause) == (4, "trigger", "machine")
        assert found.parts == ("guard.two_failures",)


def test_a_machine_that_has_a_row_more_is_the_cause(tmp_path: Path) -> None:
    """Against the standard one; what else the machine has is no cause, and paor's own rows are the same."""
    for found in difference(tmp_path, escalating(), None, query_script("a", "b", "c"), 2):
        assert (found.seq, found.cause, found.parts) == (4, "machine", ("guard.two_failures",))
        assert "row.Escalating.advise" in found.others and "row.Planning.select" not in found.others


def test_another_bound_is_the_cause_where_it_is_used_up(tmp_path: Path) -> None:
    """Not before."""
    script = patch_script("a", "b", "c")
    for found in difference(tmp_path, verifying(at_most=1), verifying(at_most=2), script, 2):
        assert (found.cause, found.parts) == ("machine", ("row.Verifying.rework",))
        assert found.left.state != found.right.state


def open_now(context: GuardContext) -> bool:
    """The office is open."""
    return context.values.get("open") is True


def test_values_of_the_host_are_the_cause_where_a_guard_of_its_own_looked(tmp_path: Path) -> None:
    """The guard is the same function in both; nothing but the values differs."""
    machine = Machine.standard().require("specify", open_now)
    script = [*call("patch.write", text="x"), refine("stop", answer="x")]
    values = {"one": {"values": {"open": True}}, "other": {"values": {"open": False}}}
    for found in difference(tmp_path, machine, machine, script, 0, **values):
        assert (found.seq, found.cause, found.parts) == (1, "values", ("values.open",))


def test_what_the_port_gave_is_the_cause(tmp_path: Path) -> None:
    """Journaled with the row that it was asked for; two runs that got the same are the same, whatever their salts."""
    machine = Machine.standard().require("specify", open_now).ask_values("specify")
    script = [*call("patch.write", text="x"), refine("stop", answer="x")]
    given = [True, True, False]

    def port(run_id: str, phase: str) -> dict[str, Any]:
        return {"open": given[min(len(ids), 2)]}

    ids: list[str] = []
    with engine(tmp_path / "runs.db", machine, script, values=port) as of:
        for _time in given:
            ids.append(of.run("Do it").run_id)  # the port counts them
        assert diff(of.journal, ids[0], ids[1]).identical
        found = diff(of.journal, ids[0], ids[2])
    assert (found.seq, found.cause) == (1, "values") and found.field.startswith("request.values")


# -- calls ---------------------------------------------------------------------------------------------------------


def test_calls_of_a_phase_name_the_phase(copy: Callable[[str], Recorded]) -> None:
    """Also once the texts are erased, by the rows alone."""
    path, run_id = copy("verifying")
    with Journal(path) as journal:
        told = [(item.tool, item.caller, item.outcome) for item in journal.calls(run_id)]
        assert told == [
            ("patch.write", "", "ok"),
            ("tests.run", "Verifying", "failed"),
            ("patch.write", "", "ok"),
            ("tests.run", "Verifying", "ok"),
        ]
        journal.erase(run_id)
        assert [item.caller for item in journal.calls(run_id)] == ["", "Verifying", "", "Verifying"]


def test_who_looked_at_a_call_in_phases_of_the_hosts_is_told_with_the_call(
    recorded: dict[str, Recorded],
) -> None:
    """Both reviewers, for the call that was made and for the one that was refused."""
    path, run_id = recorded["two_reviewers"]
    with Journal(path, read_only=True) as journal:
        told = [
            (item.tool, item.outcome, [(one.decision, one.actor) for one in item.decided])
            for item in journal.calls(run_id)
        ]
    assert told == [
        ("bank.pay", "ok", [("approved", "ann"), ("approved", "bob")]),
        ("bank.pay", "refused", [("approved", "ann"), ("approved", "ann")]),
    ]


def test_a_call_that_a_phase_drops_is_refused(tmp_path: Path) -> None:
    """The row to Planning leaves it, and the next call is another one."""

    def dropping() -> Machine:
        return (
            Machine.standard()
            .phase(Phase("Looking", question="May it be?", answer={"type": "object"}))
            .row("Specifying", "look", "Looking", when=("parameters_valid", "parameters_safe"), at_most=1)
            .row("Looking", "drop", "Planning")
        )

    script = [*call("patch.write", text="x"), *call("patch.write", text="y"), refine("stop", answer="y")]
    with engine(tmp_path / "runs.db", dropping(), script) as of:
        run_id = through(of, [{"answer": {}}])
        told = [(item.outcome, item.arguments) for item in of.journal.calls(run_id)]
    assert told == [("refused", {"text": "x"}), ("ok", {"text": "y"})]


# -- the page ------------------------------------------------------------------------------------------------------


def test_the_page_describes_every_key_of_rows_of_own_machines(recorded: dict[str, Recorded]) -> None:
    """What rows and changes of the four kinds hold beyond those of the standard machine."""
    words = set(re.findall(r"`(\w+)`", PAGE)) | {"kind", "n"}
    for path, run_id in recorded.values():
        with Journal(path, read_only=True) as journal:
            used = set[str]()
            for row in journal.transitions(run_id):
                used |= {*row.request, *row.outcome, *row.counters, *row.change, row.request["kind"]}
                change = json.loads(str(journal.payload(row.run, row.change["n"]).body))
                used |= {*change, *(change.get("visit") or ()), *(change.get("choice") or ())}
            machine = json.loads(journal.spec(run_id).host_machine)
            used |= {*machine} - {
                "name",
                "send_event",
                "auto_transitions",
                "ignore_invalid_triggers",
                "queued",
            }
            used |= {
                key
                for part in ("states", "transitions", "guards")
                for item in machine.get(part, ())
                for key in item
            }
            assert used - words == set()
