"""Rows of a journal: their canonical bytes, what they hold after every transition, and that they are reproducible."""

from __future__ import annotations

import json
import re
import sqlite3
from collections import defaultdict
from hashlib import sha256
from itertools import count, pairwise
from pathlib import Path
from typing import Any, get_type_hints

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import asdict, astuple

from paor import Engine, Limits, Reply, Usage
from paor.audit import Transition
from paor.errors import ModelUnavailable

from ..support.forging import stored_row
from ..support.inside import (
    COLUMNS,
    GUARD_LETTERS,
    GUARDS,
    HASHED,
    REMEMBERED,
    ROOT_COLUMNS,
    TABLE,
    Counters,
    Stager,
    StoredText,
    canonical,
    chain_hash,
    counters_of,
    counters_text,
    record,
    row_of,
    row_text,
    salted_digest,
)
from ..support.journeys import BY_NAME, JOURNEYS, Journey, play
from ..support.worlds import (
    CONTINUE,
    JOURNAL,
    MET,
    PARAMETERS,
    READ,
    REFINE,
    REVIEW,
    SELECT,
    STOP,
    SUCCESS,
    engine,
)

NAMES = [journey.name for journey in JOURNEYS]
EACH = pytest.mark.parametrize("journey", JOURNEYS, ids=NAMES)

WHOLE = st.integers(min_value=0, max_value=2**53 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
KEYS = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=10)
JSON_LEAVES = st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | TEXT
JSON_OBJECTS = st.dictionaries(
    KEYS,
    st.recursive(
        JSON_LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3)
    ),
    max_size=5,
)


HELD = st.dictionaries(KEYS | st.sampled_from(sorted(GUARD_LETTERS.values())), st.booleans(), max_size=8)

OBJECTS = ("guards", "request", "outcome", "change", "counters")


def values_of(draw: Any) -> tuple[Any, ...]:
    """Draw the columns of a row up to its hashes: JSON, any Unicode text, or a whole number."""
    kinds = get_type_hints(Transition)
    return tuple(
        canonical(draw(HELD))
        if name == "guards"
        else canonical(draw(JSON_OBJECTS))
        if name in OBJECTS
        else draw(WHOLE if kinds[name] is int else TEXT)
        for name in ("run", *HASHED)
    )


@given(st.data())
def test_the_bytes_of_any_row_are_its_rfc_8785_form(data: st.DataObject) -> None:
    """Sorted orjson is 80 times faster than the rfc8785 package, and must be the same bytes."""
    values = values_of(data.draw)
    columns = {
        name: json.loads(value) if name in OBJECTS else value
        for name, value in zip(HASHED, values[1:], strict=True)
    }
    assert row_text(values) == rfc8785.dumps(stored_row(columns))
    head, own = bytes(32), chain_hash(bytes(32), values)
    assert row_of(values[0], row_text(values), head, own) == (*values, head, own)


@given(JSON_OBJECTS)
def test_the_json_of_any_column_is_its_rfc_8785_form(column: dict[str, Any]) -> None:
    """ASCII keys, whole numbers below 2^53: then sorting by code point is sorting as RFC 8785 wants it."""
    assert canonical(column).encode() == rfc8785.dumps(column)


@given(st.data())
def test_the_hash_of_a_row_depends_on_every_column_and_on_the_row_before(data: st.DataObject) -> None:
    """So no column can be changed alone; but the run's number is the file's, and another file may give another one."""
    values, head = values_of(data.draw), data.draw(st.binary(min_size=32, max_size=32))
    hashes = {chain_hash(head, values), chain_hash(bytes(32) if any(head) else head[:-1] + b"x", values)}
    for index, value in enumerate(values):
        other = (
            value + 1 if isinstance(value, int) else f'{{"x":{value}}}' if value[:1] == "{" else value + "x"
        )
        if COLUMNS[index] == "guards":
            held = json.loads(value)
            other = canonical(held | {"x": not held.get("x", False)})
        hashes.add(chain_hash(head, (*values[:index], other, *values[index + 1 :])))
    assert len(hashes) == len(values) + 1


@given(
    st.builds(
        Counters,
        **{
            name: TEXT
            if name in ("criteria", "stop")
            else st.none() | WHOLE
            if name == "best_score"
            else WHOLE
            for name in Counters.__struct_fields__
        },
    )
)
def test_counters_survive_a_row(counters: Counters) -> None:
    """Seven have a column of their own, the others stand in one together, without those at their default."""
    columns = [0] * 10 + [*astuple(counters)[:7]] + [counters_text(counters)]
    assert counters_of(tuple(columns)) == counters
    assert json.loads(counters_text(counters)).keys() == {
        name
        for name, default in asdict(Counters()).items()
        if name in Counters.__struct_fields__[7:] and getattr(counters, name) != default
    }


@EACH
def test_rows_hold_canonical_json_without_free_text(journey: Journey, tmp_path: Path) -> None:
    """Only closed words, digests, labels and whole numbers stand under the hash, so that payloads can be erased."""
    with journey.engine(tmp_path) as scripted:
        run_id = play(journey, scripted).run_id
        for row in scripted.journal.reader.rows(scripted.journal.run(run_id).run):
            for index in (6, 7, 8, 9, 17):
                assert row[index].encode() == rfc8785.dumps(json.loads(row[index]))
            text = row_text(row).decode()
            assert text.isascii()
            for said in ("script says", "supplier", "Journey", "torn", "busy", "odd", "hello", "gone"):
                assert said not in text.replace("notes.", "")


@EACH
def test_the_chain_starts_at_the_spec_and_covers_every_row(journey: Journey, tmp_path: Path) -> None:
    """Recomputed here from the columns alone, with the rfc8785 package."""
    with journey.engine(tmp_path) as scripted:
        play(journey, scripted)
    connection = sqlite3.connect(tmp_path / JOURNAL)
    connection.row_factory = sqlite3.Row
    spec = connection.execute("SELECT * FROM specs").fetchone()
    head = sha256(rfc8785.dumps({name: spec[name] for name in ROOT_COLUMNS})).digest()
    assert head == spec["root_hash"]
    for seq, row in enumerate(connection.execute("SELECT * FROM transitions ORDER BY id")):
        assert (row["seq"], row["prev_hash"], row["id"]) == (seq, head, row["run"] << 32 | seq)
        columns = {name: json.loads(row[name]) if name in OBJECTS else row[name] for name in HASHED}
        (text,) = connection.execute('SELECT "row" FROM rows WHERE id = ?', (row["id"],)).fetchone()
        assert text.encode() == rfc8785.dumps(stored_row(columns))
        head = sha256(head + text.encode()).digest()
        assert row["hash"] == head
    view = connection.execute("SELECT head_seq, head_hash FROM runs").fetchone()
    assert tuple(view) == (seq, head)


def tables(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Return every row of every table but the leases, which name this process."""
    connection = sqlite3.connect(path)
    names = ("specs", "transitions", "payloads", "documents")
    found = {name: connection.execute(f"SELECT * FROM {name} ORDER BY 1").fetchall() for name in names}
    connection.close()
    return found


@EACH
def test_A038_the_same_ports_and_script_write_the_same_bytes(journey: Journey, tmp_path: Path) -> None:
    """Twice with the sync driver and once with the async one: rows, payloads, documents and export are identical."""
    found, exports = [], []
    for name, driver in (("one", "sync"), ("two", "sync"), ("three", "async")):
        (tmp_path / name).mkdir()
        with journey.engine(tmp_path / name) as scripted:
            run_id = play(journey, scripted, driver=driver).run_id
            exports.append(json.dumps(list(scripted.journal.export(run_id))))
        found.append(tables(tmp_path / name / JOURNAL))
    assert found[0] == found[1] == found[2]
    assert exports[0] == exports[1] == exports[2]


def test_journeys_show_every_row_of_the_table(tmp_path: Path) -> None:
    """What is tested for every journey is tested for every kind of row."""
    seen = set()
    for journey in JOURNEYS:
        (tmp_path / journey.name).mkdir()
        with journey.engine(tmp_path / journey.name) as scripted:
            play(journey, scripted)
            for (run_id,) in scripted.journal.reader.query("SELECT run_id FROM runs"):
                for row in scripted.journal.transitions(run_id):
                    seen.add((row.source, row.trigger, row.dest))
    assert {(row.source, row.trigger, row.dest) for row in TABLE} - seen == set()


def test_each_trigger_always_sets_the_same_slots(tmp_path: Path) -> None:
    """`fold.restore` reads only the last row of each kind, which is right because of this; react has no plans."""
    slots: dict[tuple[bool, str, str], set[frozenset[str]]] = defaultdict(set)
    for journey in JOURNEYS:
        (tmp_path / journey.name).mkdir()
        with journey.engine(tmp_path / journey.name) as scripted:
            run_id = play(journey, scripted).run_id
            run = scripted.journal.run(run_id).run
            react = scripted.journal.spec(run_id).mode == "react"
            for row in scripted.journal.reader.rows(run):
                found = frozenset(scripted.journal.reader.change(run, row[9]).slots())
                slots[react, row[4], row[3]].add(found - {"said", "ahead"})  # these add, and replace nothing
    assert {kind: sets for kind, sets in slots.items() if len(sets) > 1} == {}


def rows_of(scripted: Engine, run_id: str) -> list[Transition]:
    """Return the rows of a run."""
    return scripted.journal.transitions(run_id)


# -- payloads ------------------------------------------------------------------------------------------------------


def stager() -> Stager:
    """Return one whose salts count up."""
    numbers = count(1)
    return Stager(0, lambda: next(numbers).to_bytes(16, "big"))


@given(st.lists(st.text(max_size=3) | st.binary(max_size=3), max_size=30))
def test_a_body_is_stored_once_and_told_by_its_digest(bodies: list[str | bytes]) -> None:
    """Text and bytes apart, since they come back as what they were; lone surrogates are kept as bytes."""
    staging = stager()
    places = [staging.stage(body) for body in bodies]
    stored = staging.taken()
    assert [payload.n for payload in stored] == list(range(len(stored)))
    for body, place in zip(bodies, places, strict=True):
        payload = stored[place.n]
        kept = payload.body
        assert kept is not None and payload.salt is not None
        assert kept == body or (isinstance(kept, bytes) and kept.decode("utf-8", "surrogatepass") == body)
        kind = b"T" if isinstance(kept, str) else b"B"
        data = kept.encode() if isinstance(kept, str) else kept
        digest = sha256(payload.salt + sha256(data).digest() + kind + b"text/plain").digest()
        assert payload.digest == digest == salted_digest(payload.salt, kept, "text/plain")
        assert place == StoredText(payload.n, digest.hex(), len(data))
    assert len(stored) == len({(type(payload.body), payload.body) for payload in stored})


def test_what_must_be_new_is_stored_again() -> None:
    """A change is always a payload of its own, and never stands in for a later body."""
    staging = stager()
    first, second = staging.stage("{}", always=True), staging.stage("{}", always=True)
    third, fourth = staging.stage("{}"), staging.stage("{}")
    assert [first.n, second.n, third.n, fourth.n] == [0, 1, 2, 2]


def test_an_earlier_row_has_told_the_digest() -> None:
    """So a later one names only the number."""
    staging = stager()
    place = staging.stage("said before")
    assert staging.reference(place) == {"n": 0, "digest": place.digest, "bytes": 11}
    assert [payload.n for payload in staging.taken()] == [0] and staging.taken() == []
    assert staging.reference(staging.stage("said before")) == {"n": 0}
    assert staging.reference(staging.stage("said now")).keys() == {"n", "digest", "bytes"}


def test_memory_of_bodies_is_bounded() -> None:
    """The oldest are forgotten, and stored again when they come again; constant texts are asked for by identity."""
    staging = stager()
    for number in range(REMEMBERED + 1):
        staging.stage(str(number))
    assert staging.stage(str(REMEMBERED)).n == REMEMBERED
    assert staging.stage("0").n == REMEMBERED + 1
    messages = [f"system {number}" for number in range(40)]
    places = [told["n"] for told in staging.stage_messages(messages)]
    assert [told["n"] for told in staging.stage_messages(messages)] == places


# -- labels --------------------------------------------------------------------------------------------------------


def test_A038_labels_are_deterministic_and_unique_within_a_run(tmp_path: Path) -> None:
    """``round{r}_task{t}_action{a}_{label}``, also after blocked and refused calls, which use up a number."""
    names = ("blocked", "refused", "documents", "retried_run")
    for name in names:
        journey = BY_NAME[name]
        (tmp_path / name).mkdir()
        with journey.engine(tmp_path / name) as scripted:
            run_id = play(journey, scripted).run_id
            documents = scripted.journal.documents(run_id)
            places = [(document.label, document.position) for document in documents]
            assert len(set(places)) == len(places)
            labels = {row.outcome["label"] for row in rows_of(scripted, run_id) if row.trigger == "execute"}
            assert {document.label for document in documents if "_action0_" not in document.label} <= labels
            for row in rows_of(scripted, run_id):
                if row.trigger == "execute":
                    assert row.outcome["label"].startswith(f"round1_task1_action{row.action}_")


def test_A011_a_label_names_round_task_action_and_the_tools_label(tmp_path: Path) -> None:
    """The input is under action 0, what the first action reads under action 1."""
    with engine(tmp_path, [*READ(1), CONTINUE, *READ(2), STOP, SUCCESS]) as scripted:
        run_id = scripted.run("Read", documents=[("a.txt", "a"), ("b.txt", "b")]).run_id
        places = [(item.label, item.position, item.number) for item in scripted.journal.documents(run_id)]
    assert places == [
        ("round1_task1_action0_input", 0, 0),
        ("round1_task1_action0_input", 1, 1),
        ("round1_task1_action1_page", 0, 2),
        ("round1_task1_action2_page", 0, 3),
    ]


# -- counters ------------------------------------------------------------------------------------------------------


def test_A037_round_task_and_action_stand_in_the_journal(tmp_path: Path) -> None:
    """Round and task with the run, the action with every row; another process reads the same."""
    with engine(tmp_path, [*READ(1), CONTINUE, *READ(2), CONTINUE, *READ(3), STOP, SUCCESS]) as scripted:
        scripted.run("Read")
    program = "SELECT round, task, max(action) FROM specs JOIN transitions USING (run)"
    assert sqlite3.connect(tmp_path / JOURNAL).execute(program).fetchone() == (1, 1, 3)


def test_A080_every_row_has_tokens_and_time_after_it(tmp_path: Path) -> None:
    """Tokens are the sums of what the outcomes say; time rises with every row, by what the clock says."""
    replies = [
        Reply(json.dumps(SELECT()), Usage(1, 100, 10, 1000)),
        Reply(json.dumps(PARAMETERS(page=1)), Usage(1, 200, 20, 2000)),
        Reply(json.dumps(STOP), Usage(1, 300, 30)),
        Reply(json.dumps(SUCCESS), Usage(1, 400, 40, 4000)),
    ]
    with engine(tmp_path, replies) as scripted:
        result = scripted.run("Read")
        rows = rows_of(scripted, result.run_id)
    found = [(row.trigger, row.tokens_in, row.tokens_out, row.cost_micro) for row in rows]
    assert found == [
        ("select", 100, 10, 1000),
        ("specify", 300, 30, 3000),
        ("execute", 300, 30, 3000),
        ("observe", 300, 30, 3000),
        ("conclude", 600, 60, 3000),
        ("finish", 1000, 100, 7000),
    ]
    times = [row.time_us for row in rows]
    assert times == sorted(times) and times[0] > 0
    assert (result.usage.tokens_in, result.usage.cost, result.usage.calls) == (1000, 0.007, 4)


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        ({"token_budget": 300}, "token_budget"),
        ({"cost_budget": 0.003}, "cost_budget"),
        ({"time_budget_s": 0.005}, "time_budget"),
    ],
)
def test_A046_a_budget_that_is_used_up_ends_the_run_without_another_request(
    limits: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    """The row that ends it has the reason, and the counters show that the budget was reached only there."""
    usage = Usage(1, 90, 10, 1000)
    iteration = [Reply(json.dumps(data), usage) for data in (*READ(1), CONTINUE)]
    with engine(tmp_path, iteration * 5, limits=Limits(**limits)) as scripted:
        result = scripted.run("Read")
        rows = rows_of(scripted, result.run_id)
    assert (result.state, result.reason) == ("Failed", reason)
    assert rows[-1].trigger == "fail" and rows[-1].request == {"kind": "none"}
    assert rows[-1].counters["stop"] == reason and rows[-1].guards["hard_stop"] is True
    assert all("stop" not in row.counters for row in rows[:-1])
    assert rows[-1].counters["calls"] == rows[-2].counters["calls"]
    assert result.answer


def test_A046_a_models_own_text_requests_count(tmp_path: Path) -> None:
    """A tool that asks the model spends the run's tokens; they stand in the row of its call."""
    with BY_NAME["documents"].engine(tmp_path) as scripted:
        rows = rows_of(scripted, play(BY_NAME["documents"], scripted).run_id)
    before, call = next((one, two) for one, two in pairwise(rows) if two.trigger == "execute")
    assert call.tokens_in - before.tokens_in == call.outcome["tokens_in"] > 0
    assert call.counters["calls"] == before.counters["calls"] + 1


def test_A042_progress_of_criteria_is_kept_across_attempts(tmp_path: Path) -> None:
    """Met in attempt 1 stays met in attempt 2, whatever the model says later; every row holds the progress."""
    criteria = ["every page is read", "the dates are listed"]
    script = [
        *READ(1),
        REFINE("stop", criteria=[MET(criteria[0])]),
        REVIEW("retry", "list the dates"),
        *READ(2),
        REFINE("stop", criteria=[MET(criteria[0], met=False)]),
        SUCCESS,
    ]
    with engine(tmp_path, script) as scripted:
        result = scripted.run("Read", criteria)
        progress = [row.counters["criteria"] for row in rows_of(scripted, result.run_id)]
    assert progress == ["00"] * 4 + ["10"] * (len(progress) - 4)
    assert [item.met for item in result.criteria] == [True, False]


def test_a_failed_request_counts_what_its_attempts_used(tmp_path: Path) -> None:
    """Faults cost money too."""
    fault = ModelUnavailable("timeout", "no answer", Usage(3, 30, 0, 9))
    with engine(tmp_path, [fault]) as scripted:
        row = rows_of(scripted, scripted.run("Read").run_id)[0]
    assert (row.tokens_in, row.cost_micro, row.counters["calls"]) == (30, 9, 3)
    assert row.outcome["code"] == "timeout"


def test_usage_that_no_row_can_hold_is_left_out_of_a_fault(tmp_path: Path) -> None:
    """The fault itself is what matters."""
    fault = ModelUnavailable("timeout", "no answer", Usage(1, 0.5, 0, 0))  # type: ignore[arg-type]
    with engine(tmp_path, [fault]) as scripted:
        row = rows_of(scripted, scripted.run("Read").run_id)[0]
        assert (row.outcome["code"], row.tokens_in) == ("timeout", 0)
        assert scripted.journal.verify() == []


def test_every_guard_has_a_letter_and_both_schemas_name_it() -> None:
    """A guard without one would be told as a host's; a view with another table would tell another guard."""
    assert {*GUARDS} <= {*GUARD_LETTERS.values()}
    assert all(letter.isascii() and letter.isalnum() and len(letter) == 1 for letter in GUARD_LETTERS)
    told = json.dumps(GUARD_LETTERS, separators=(",", ":"))
    for database in ("sqlite", "postgres"):
        schema = (Path(record.__file__).parent / database / "schema.sql").read_text("utf-8")
        assert told in re.sub(r",\n +", ",", schema)
