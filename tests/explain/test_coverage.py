"""Coverage: what is counted is what the machine tried, what is left out cannot happen, and sums are sums."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paor import Engine, Journal, ScriptedModel, coverage, why
from paor.audit import Coverage, GuardOutcome
from paor.errors import UsageError
from paor.machine import GuardContext, Machine

from ..support import own_machines
from ..support.effort import examples
from ..support.journeys import BY_NAME, play
from .inside import (
    COUNT_MAX,
    ROWS,
    UNREACHED,
    Gathering,
    Row,
    coverage_of,
    default_limits,
    explore,
    machine_told,
    never,
    possible_outcomes,
    rows_of,
    tried_rows,
    worlds_of,
)
from .inside import asked_guards as guards_asked

JOURNALS = Path(__file__).parents[1] / "fixtures" / "journals"


class Taken(NamedTuple):
    run: int
    source: str
    trigger: str
    dest: str
    guards: dict[str, bool]


NAMES = st.sampled_from("abcd")
GUARDS = st.lists(st.builds(lambda no, name: f"not {name}" if no else name, st.booleans(), NAMES), max_size=3)
TABLES = st.lists(
    st.builds(
        Row,
        st.sampled_from(["A", "B"]),
        st.sampled_from(["go", "stop", "provide"]),
        st.sampled_from(["A", "B", "C"]),
        st.one_of(st.just(["hard_stop"]), GUARDS).map(tuple),
        st.just(""),
    ),
    max_size=7,
)


def holds(row: Row, values: dict[str, bool]) -> bool:
    return all(values[name] for name in row.conditions) and not any(values[name] for name in row.unless)


def orders(rows: list[Row], source: str) -> list[list[int]]:
    """The rows that are tried in a phase, and those that are tried while it waits; as `rows_of` tells it."""
    own = [place for place, row in enumerate(rows) if row.source == source]
    answers = [place for place in own if rows[place].trigger == "provide"]
    return [
        [place for place in own if place not in answers],
        [place for place in own if rows[place].guards == ("hard_stop",) and place not in answers] + answers,
    ]


def steps(
    rows: list[Row], sources: Iterable[str] = ("A", "B"), own: tuple[str, ...] = ()
) -> list[tuple[Taken, set[GuardOutcome], int]]:
    """
    Everything that a machine of this table could ever record: the record, the outcomes tried, the row taken.

    Guards that are the host's *own* are asked only where a row's other guards hold, up to the first that does not.
    """
    found = []
    for source in sources:
        for order in orders(rows, source):
            names = sorted({guard.removeprefix("not ") for place in order for guard in rows[place].guards})
            for drawn in product((True, False), repeat=len(names)):
                values = dict(zip(names, drawn, strict=True))
                recorded: dict[str, bool] = {}
                tried: set[GuardOutcome] = set()
                for place in order:
                    row = rows[place]
                    for name in asked_of(row, values, own):
                        recorded[name] = values[name]
                        tried.add(GuardOutcome(place, name, values[name]))
                    if holds(row, values):
                        found.append((Taken(0, source, row.trigger, row.dest, recorded), tried, place))
                        break
    return found


def asked_of(row: Row, values: dict[str, bool], own: tuple[str, ...]) -> Iterator[str]:
    """The guards of a row that are looked at."""
    wanted = [(guard.removeprefix("not "), not guard.startswith("not ")) for guard in row.guards]
    first = [item for item in wanted if item[0] not in own]
    yield from (name for name, _ in first)
    if all(values[name] is value for name, value in first):
        for name, value in wanted:
            if name in own:
                yield name
                if values[name] is not value:
                    return


@given(TABLES)
@settings(max_examples=examples(150))
def test_no_outcome_that_some_record_can_hold_is_left_out(rows: list[Row]) -> None:
    """Against every assignment of truth values, tried one by one."""
    expected = {outcome for _, tried, _ in steps(rows) for outcome in tried}
    found = possible_outcomes(tuple(map(rows_key, rows)))
    assert set(found) >= expected
    assert len(found) == len(set(found)) and list(found) == sorted(found, key=lambda one: one.place)


def left_out(*guards: tuple[str, ...], own: tuple[str, ...] = ()) -> set[tuple[int, str, bool]]:
    """Return the outcomes that do not count of rows with these guards."""
    named = {(place, name.removeprefix("not ")) for place, names in enumerate(guards) for name in names}
    keys = tuple(("A", f"t{number}", "B", names) for number, names in enumerate(guards))
    return {(*one, value) for one in named for value in (True, False)} - set(possible_outcomes(keys, own))


def test_an_outcome_that_one_row_leaves_no_room_for_does_not_count() -> None:
    assert left_out(("a",), ("not a", "b"), ()) == {(1, "a", True)}
    assert left_out(("a", "b"), ("a",), ()) == set()
    assert left_out(("a",)) == {(0, "a", False)}
    assert left_out(("a", "b"), ("a", "not b"), (), own=("b",)) == {(1, "b", True)}


@given(TABLES, st.data())
@settings(max_examples=examples(100))
def test_what_the_machine_tried_is_what_is_counted(rows: list[Row], data: st.DataObject) -> None:
    world = steps(rows)
    drawn = data.draw(st.lists(st.sampled_from(world), max_size=8)) if world else []
    counted = coverage((record for record, _, _ in drawn), rows=rows)
    assert [row.count for row in counted.rows] == [
        sum(place == taken for _, _, taken in drawn) for place in range(len(rows))
    ]
    assert counted.transitions == len(drawn) and not counted.foreign
    for outcome in counted.possible:
        assert counted.seen(outcome) == sum(outcome in tried for _, tried, _ in drawn)
    assert {row.key for row in counted.missing_rows} >= {
        row.key for row in counted.rows if row.key not in {rows_key(rows[taken]) for _, _, taken in drawn}
    }
    everything = coverage((record for record, _, _ in world), rows=rows)
    assert not {outcome for _, tried, _ in world for outcome in tried} & set(everything.missing_outcomes)


def rows_key(row: Row) -> tuple[Any, ...]:
    return row.source, row.trigger, row.dest, row.guards


@given(TABLES, st.data())
@settings(max_examples=60)
def test_sums_are_counted_as_if_together_and_survive_their_json(rows: list[Row], data: st.DataObject) -> None:
    world = [record for record, _, _ in steps(rows)]
    world.append(Taken(0, "B", "leap\u2028\U0001f600", "Z", {"a": True}))
    one, two = (data.draw(st.lists(st.sampled_from(world), max_size=6)) for _ in "12")
    two = [record._replace(run=1) for record in two]
    both = coverage(one, rows=rows) + coverage(two, rows=rows)
    assert both == coverage([*two, *one], rows=rows) == coverage(two, rows=rows) + coverage(one, rows=rows)
    assert both + Coverage.empty(rows) == both
    text = both.wire_json()
    assert Coverage.read(text) == Coverage.read(text.encode()) == both
    assert Coverage.read(text).wire_json() == text and json.loads(text) == both.wire()


def test_the_order_in_which_rows_are_tried_is_the_tables() -> None:
    """`orders` above, which the other tests rely on, says what `rows_of` says of the table itself."""
    for source in {row.source for row in ROWS}:
        plain, waiting = orders(list(ROWS), source)
        assert [ROWS[place] for place in plain] == list(rows_of(source))
        assert [ROWS[place] for place in waiting] == list(rows_of(source, waiting=True))


def test_of_the_shipped_table_what_no_journal_can_hold_is_left_out() -> None:
    """An answer that does not fit is never recorded, and what no state comes to is not."""
    empty = Coverage.empty()
    all_outcomes = {
        GuardOutcome(place, one.guard, value)
        for place, row in enumerate(empty.rows)
        for one in row.seen
        for value in (True, False)
    }
    left_out = all_outcomes - set(empty.possible)
    assert {(empty.rows[one.place].trigger, one.guard, one.value) for one in left_out} == {
        ("provide", "answer_valid", False),
        ("reselect", "selection_ok", True),
    }
    assert len(left_out) == 4
    assert (empty.percent, empty.rows_percent, empty.guards_percent) == (0, 0, 0)
    assert len(empty.missing_rows) == len(ROWS) and empty.missing_outcomes == empty.possible


@pytest.mark.whole
def test_of_the_shipped_table_the_machine_comes_to_everything_else() -> None:
    """Every state and edge of the machine in all modes: what is left out of the sum never happens, all the rest does."""
    modes = {
        world.mode: [
            Taken(1, edge.row.source, edge.row.trigger, edge.row.dest, edge.guards)
            for edge in explore(world, Machine()).edges
        ]
        for world in worlds_of(default_limits())
        if world.full
    }
    records = [record for taken in modes.values() for record in taken]
    found = coverage(records)
    assert (found.percent, found.missing_rows, found.missing_outcomes, found.foreign) == (100, (), (), ())
    assert set(modes) == {"react", "batch", "planner", "native"}
    for mode, taken in modes.items():  # what paor fuzz does not call a gap
        assert {row.key for row in coverage(taken).missing_rows} == never(mode)
    assert never("workflow") < never("react") and not never("another")
    rows = [(row.source, row.trigger, one) for row in found.rows for one in row.seen]
    for source, trigger, guard, value in UNREACHED:
        seen = [one for *key, one in rows if key == [source, trigger] and one.guard == guard]
        assert seen and not any(one.true if value else one.false for one in seen)


@pytest.mark.parametrize(
    "record",
    [
        Taken(0, "Planning", "leap", "Done", {"hard_stop": False}),
        Taken(0, "Nowhere", "leap", "Done", {}),
        Taken(0, "Planning", "fail", "Failed", {}),
        Taken(0, "Planning", "wait", "Planning", {"hard_stop": True}),
        Taken(0, "Planning", "fail", "Failed", {"hard_stop": 1}),  # type: ignore[dict-item]
        Taken(0, "Planning", "fail", "Failed", {"hard_stop": []}),  # type: ignore[dict-item]
        Taken(0, "Planning", "fail", "Done", {"hard_stop": True}),
    ],
)
def test_a_record_that_the_table_would_not_make_covers_nothing(record: Taken) -> None:
    found = coverage([record, record])
    assert [(step.source, step.trigger, step.dest, step.count) for step in found.foreign] == [
        (*record[1:4], 2)
    ]
    assert found.percent == 0 and found.transitions == 2 and found.runs == 1


@pytest.mark.parametrize("name", ["two_pages", "planner_asked"])
def test_real_runs_are_counted_row_by_row_as_why_tells_them(name: str, tmp_path: Path) -> None:
    """`why` tells of each row of a journal what was tried; coverage adds up the same, also of a plan that asks."""
    tried, taken = dict[tuple[str, bool | None], int](), 0
    with BY_NAME[name].engine(tmp_path) as one:
        run_id = play(BY_NAME[name], one).run_id
        rows = one.journal.transitions(run_id)
        for row in rows:
            for item in why(one.journal, run_id, row.seq).candidates:
                taken += item.fate == "taken"
                for guard in item.guards if item.fate != "later" else ():
                    key = (guard.guard, guard.value)
                    tried[key] = tried.get(key, 0) + 1
    found = coverage(rows)
    assert not found.foreign and sum(row.count for row in found.rows) == taken == len(rows)
    counted = dict[tuple[str, bool | None], int]()
    for each in found.rows:
        for guard_count in each.seen:
            for value, times in ((True, guard_count.true), (False, guard_count.false)):
                if times:
                    counted[guard_count.guard, value] = counted.get((guard_count.guard, value), 0) + times
    assert counted == tried


def test_the_journals_of_released_versions_hold_no_foreign_step() -> None:
    with Journal(JOURNALS / "schema3.db", read_only=True) as journal:
        rows = [row for run in journal.runs() for row in journal.transitions(run.run_id)]
        runs = len(journal.runs())
    found = coverage(rows)
    assert rows and not found.foreign and sum(row.count for row in found.rows) == len(rows)
    assert found.runs == runs


def test_a_percentage_is_rounded_down() -> None:
    rows = [Row("A", f"t{n}", "B", (f"g{n}",), "") for n in range(70)]
    everything = coverage(
        (
            Taken(0, "A", f"t{n}", "B", {**{f"g{m}": False for m in range(n)}, f"g{n}": True})
            for n in range(1, 70)
        ),
        rows=rows,
    )
    assert [row.trigger for row in everything.missing_rows] == ["t0"]
    assert everything.rows_percent == 98.5
    assert Coverage.empty([]).percent == 100


def test_different_tables_cannot_be_added() -> None:
    with pytest.raises(UsageError, match="different tables"):
        Coverage.empty() + Coverage.empty(ROWS[1:])
    with pytest.raises(TypeError):
        Coverage.empty() + 1  # type: ignore[operator]


def changed(**parts: Any) -> str:
    return json.dumps(Coverage.empty().wire() | parts)


ROW = {"source": "A", "trigger": "t", "dest": "B", "guards": ["not a"], "count": 1}


@pytest.mark.parametrize(
    "text",
    [
        "",
        b"\xff\xfe\x00",
        "[]",
        "null",
        "\ud800",
        "[" * 100_000,
        "{}",
        '{"format": "paor-coverage", "version": 1}',
        Coverage.empty().wire_json()[:-3],
        changed(format="paor-heads"),
        changed(version=2),
        changed(runs=-1),
        changed(runs=1.5),
        changed(runs=True),
        changed(transitions=COUNT_MAX + 1),
        changed(transitions=10**400),
        changed(more=1),
        changed(rows=[ROW]),
        changed(rows=[{**ROW, "seen": []}]),
        changed(rows=[{**ROW, "seen": [{"guard": "b", "true": 1, "false": 0}]}]),
        changed(rows=[{**ROW, "count": -1, "seen": [{"guard": "a", "true": 1, "false": 0}]}]),
        changed(rows=[{**ROW, "seen": [{"guard": "a", "true": -1, "false": 0}]}]),
        changed(rows=[{**ROW, "source": 1, "seen": [{"guard": "a", "true": 0, "false": 0}]}]),
        changed(foreign=[{"source": "A", "trigger": "t", "dest": "B", "count": 1}] * 2),
        changed(rows=[{**ROW, "guards": [], "seen": []}] * 1001),
        changed(foreign=[{"source": "A", "trigger": "t\n\x1b", "dest": "B", "count": -1}]),
    ],
)
def test_what_is_no_coverage_file_is_a_typed_error_of_one_short_line(text: str | bytes) -> None:
    with pytest.raises(UsageError) as found:
        Coverage.read(text)
    message = str(found.value)
    assert message.startswith("not a coverage file: ") and message.isprintable() and len(message) < 300


@given(st.text() | st.binary())
def test_garbage_never_gets_further_than_the_typed_error(text: str | bytes) -> None:
    with pytest.raises(UsageError):
        Coverage.read(text)


# -- machines of a host's own --------------------------------------------------------------------------------------


def free(context: GuardContext) -> bool:
    """It is allowed."""
    return True


@given(TABLES, st.sampled_from([("a",), ("a", "b"), ("c", "d")]))
@settings(max_examples=examples(100))
def test_own_guards_are_counted_where_they_are_asked(rows: list[Row], own: tuple[str, ...]) -> None:
    """Against every assignment of truth values: what is possible, and what each record counts."""
    rows = [row for row in rows if not {guard.removeprefix("not ") for guard in row.guards} & {"hard_stop"}]
    world = steps(rows, own=own)
    keys = tuple(rows_key(row) for row in rows)
    assert set(possible_outcomes(keys, own)) >= {outcome for _, tried, _ in world for outcome in tried}
    for record, tried, _ in world:
        places = tried_rows(rows, record[1:4], record.guards, own)
        assert places and tried == {
            GuardOutcome(place, name, record.guards[name])
            for place in places
            for name in guards_asked(rows[place], record.guards, own)
        }


def own_run(tmp_path: Path, kind: str, name: str = "own.db") -> tuple[Engine, str]:
    """Return an engine of one of the machines of `own_machines`, and the run that it has driven to its end."""
    one, answers = own_machines.KINDS[kind](tmp_path / name, own_machines.World())
    result = one.run("Do it")
    for options in answers:
        if result.waiting_for is not None:
            result = one.resume(result.run_id, question=result.waiting_for.id, **options)
    return one, result.run_id


@pytest.mark.parametrize("kind", own_machines.KINDS)
def test_rows_of_an_own_machine_are_counted_as_those_of_a_table_of_its_own(kind: str, tmp_path: Path) -> None:
    one, run_id = own_run(tmp_path, kind)
    with one:
        rows, machine = one.journal.transitions(run_id), machine_told(one.journal.spec(run_id).host_machine)
        found = coverage(rows, machine=machine)
        assert coverage_of(one.journal.reader) == coverage_of(one.journal.reader, [run_id]) == found
    assert found.transitions == 0 and found.rows == Coverage.empty().rows
    (own,) = found.own
    assert not own.foreign and sum(row.count for row in own.rows) == len(rows)
    assert found.tables == (own,) and found.percent == own.percent
    assert own.name and own.own_rows and {row.source for row in own.own_rows} - {row.source for row in ROWS}
    text = found.wire_json()
    assert Coverage.read(text) == found and Coverage.read(text).wire_json() == text
    assert (found + found).own[0].transitions == 2 * len(rows)


def test_runs_of_several_machines_are_counted_each_on_its_own(tmp_path: Path) -> None:
    """One journal, three machines: the sum names the rows of each that no run took."""
    path = str(tmp_path / "runs.db")
    patches, queries = own_machines.patch_script("a"), own_machines.query_script("a")
    for machine, script in (
        (own_machines.verifying(), patches),
        (own_machines.escalating(), queries),
        (None, queries),
    ):
        with Engine(
            ScriptedModel(script), own_machines.World().tools(), path, machine=machine, builtins=False
        ) as one:
            assert one.run("Ask").state == "Done"
    with Journal(path, read_only=True) as journal:
        found = coverage_of(journal.reader)
        parts = [coverage_of(journal.reader, [run.run_id]) for run in journal.runs()]
    assert sum(parts[1:], start=parts[0]) == found
    assert [one.name for one in found.own] == ["Escalating", "Verifying"]
    assert found.runs == 1 and len(found.tables) == 3
    assert {row.trigger for row in found.own[1].own_rows if not row.count} == {"fail", "rework", "give_up"}


def test_a_plugin_names_the_own_rows_that_no_test_took(tmp_path: Path) -> None:
    gathering = Gathering.start(None, [])
    try:
        one, _ = own_run(tmp_path, "verifying")
        one.close()
    finally:
        gathering.stop()
    lines = gathering.lines()
    assert lines[0] == "own machine: Verifying"
    assert "never taken, a row of the host's own: Verifying give_up Failed" in lines
    assert sum(line.startswith("rows ") for line in lines) == 1
    other = Gathering(None, [])
    other.take(gathering.wire())
    assert other.lines() == lines


def test_coverage_takes_a_table_or_a_machine() -> None:
    machine = Machine.standard().require("finish", free)
    with pytest.raises(UsageError, match="not both"):
        coverage([], rows=ROWS, machine=machine)
    assert coverage([], machine=Machine.standard()) == coverage([], machine=machine) == Coverage.empty()


@pytest.mark.parametrize(
    "own",
    [
        1,
        [{}],
        [Coverage.empty().wire()],
        [{"rows": [], "runs": 0, "transitions": 0, "foreign": [], "guards": ["b", "a"]}],
        [{"rows": [], "runs": 0, "transitions": 0, "foreign": [], "guards": []}] * 2,
    ],
)
def test_what_is_no_coverage_of_own_machines_is_refused(own: Any) -> None:
    with pytest.raises(UsageError, match="not a coverage file"):
        Coverage.read(changed(own=own))
