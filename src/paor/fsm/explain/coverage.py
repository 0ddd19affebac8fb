"""
Coverage: which rows of the table were taken, and which guards were seen true and false where they are tried.

`coverage` counts the records of any number of runs; counts of several add up with ``+``. Two things are counted:

- **Rows.** All rows of the table, also those that fit only in one mode. A row is covered when it was taken.
- **Guard outcomes.** A guard is tried with its row, and with each row its value may be true or false; so a row with two
  guards has four outcomes. One is covered when the row was tried, taken or not, while the guard had this value: the
  rows before did not fit, and this or a later one was taken. Of the table that is shipped four outcomes can never stand in a
  journal and are no part of the sum: an ``answer_valid`` that is false in the ``provide`` rows, which no row follows, and one that
  no state comes to (`UNREACHED`). So 100 % can be reached. Of a host's own table more can count than a run comes to (`possible_outcomes`).

A host's own machine is a table of its own: `Coverage.own` has one for each machine whose runs were counted, told apart by their rows. Its own
guards are asked only where a row's other guards hold, so one is tried with a row only then.

What a record says is believed only as far as the table allows it: a step that the table does not have, or whose
recorded guards choose another row, is counted as `Coverage.foreign` and covers nothing.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, NamedTuple, Protocol, Self

import msgspec
from msgspec.structs import replace

from ...states.base.errors import UsageError
from ...states.base.wire import decoder_of
from ...states.run.phase_names import PHASES
from ..machine.machine import Machine
from ..machine.table import ROWS, Row

FORMAT = "paor-coverage"
VERSION = 1
COUNT_MAX = 2**53 - 1
"""The largest whole number that every reader of JSON gives back as it was."""
ROWS_MAX, FOREIGN_MAX, MACHINES_MAX = 1000, 10_000, 100
"""What a coverage file may hold."""


Count = Annotated[int, msgspec.Meta(ge=0, le=COUNT_MAX)]


RowKey = tuple[str, str, str, tuple[str, ...]]
"""Source, trigger, destination and guards of a row."""

Step = tuple[str, str, str]
Literal = tuple[str, bool]
"""A guard and a value of it."""

UNREACHED = frozenset({("Planning", "reselect", "selection_ok", True)})
"""
Source and trigger of the shipped rows with the values of guards that no state comes to: a run without a step left ends in
Reviewing and does not plan again (with native calls and withheld tools it may answer, and calls are refused), so a selection that is
fine is always taken. The exploration of `paor check` over all states of the shipped machine finds these and no others; a test holds that.
"""

_SHIPPED: tuple[RowKey, ...] = tuple((row.source, row.trigger, row.dest, row.guards) for row in ROWS)


def _in_order(row: Row) -> Row:
    """Return a row of an own machine with its guards in the order in which they are asked and recorded: those that must hold first."""
    return dataclasses.replace(row, guards=(*row.conditions, *(f"not {name}" for name in row.unless)))


_STANDARD = frozenset((row.source, row.trigger, row.dest, _in_order(row).guards) for row in ROWS)
"""The shipped rows as an own machine has them."""


class GuardOutcome(NamedTuple):
    """
    One value of one guard where one row is tried.

    Attributes:
        place: The row's place in the table, from 0.
        guard: Its name, without ``not``.
        value: What it said.
    """

    place: int
    guard: str
    value: bool


class TakenRow(Protocol):
    """One transition as the journal gives it, such as a `Transition`."""

    @property
    def run(self) -> int: ...
    @property
    def source(self) -> str: ...
    @property
    def trigger(self) -> str: ...
    @property
    def dest(self) -> str: ...
    @property
    def guards(self) -> Mapping[str, bool]: ...


class GuardCount(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """
    How often a guard was seen where its row was tried.

    Attributes:
        guard: Its name.
        true, false: How often it held, and did not.
    """

    guard: str
    true: Count = 0
    false: Count = 0


class RowCoverage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """
    What was seen of one row of the table.

    Attributes:
        source, trigger, dest, guards: As in the table.
        count: How often it was taken.
        seen: Its guards, each once, in the order of the table.
    """

    source: str
    trigger: str
    dest: str
    guards: tuple[str, ...]
    count: Count
    seen: tuple[GuardCount, ...]

    @property
    def key(self) -> tuple[str, str, str, tuple[str, ...]]:
        """Return what makes it this row."""
        return self.source, self.trigger, self.dest, self.guards

    @property
    def name(self) -> str:
        """Return ``Planning wait Planning [a, not b]``, as messages name it."""
        guards = f" [{', '.join(self.guards)}]" if self.guards else ""
        return f"{self.source} {self.trigger} {self.dest}{guards}"


class ForeignStep(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """
    A step that the table does not have, or not with these guards.

    Attributes:
        source, trigger, dest: As recorded.
        count: How often.
    """

    source: str
    trigger: str
    dest: str
    count: Count


@dataclass(frozen=True, slots=True)
class Coverage:
    """
    What a number of runs have covered of a table; add two with ``+``.

    Attributes:
        rows: Every row of the table, in its order.
        runs: How many runs were counted; one that is in two sums counts twice.
        transitions: How many records were counted.
        foreign: Recorded steps that are not in the table, sorted.
        guards: Names of the guards of a host's own machine, sorted: they are asked only where a row's other guards hold.
        own: What runs of hosts' own machines have covered of theirs, one for each machine, in the order of their names; none of them
            has any itself.
    """

    rows: tuple[RowCoverage, ...]
    runs: int = 0
    transitions: int = 0
    foreign: tuple[ForeignStep, ...] = ()
    guards: tuple[str, ...] = ()
    own: tuple[Coverage, ...] = ()

    @classmethod
    def empty(cls, rows: Sequence[Row] = ROWS, guards: Collection[str] = ()) -> Self:
        """
        Return the coverage of no run, the start of a sum.

        Args:
            rows: The table that is measured; default: paor's own.
            guards: Names of the guards of a host's own machine.
        """
        unseen = [tuple(map(GuardCount, guard_names(row))) for row in rows]
        return cls(
            tuple(
                RowCoverage(row.source, row.trigger, row.dest, row.guards, 0, seen)
                for row, seen in zip(rows, unseen, strict=True)
            ),
            guards=tuple(sorted(guards)),
        )

    @property
    def name(self) -> str:
        """Return what a host's own machine has that the standard one has not, in words; empty for the standard one."""
        phases = dict.fromkeys(row.source for row in self.rows if row.source not in PHASES)
        rows = dict.fromkeys(f"{row.source}.{row.trigger}" for row in self.own_rows)
        return ", ".join(phases or self.guards or rows)

    @property
    def own_rows(self) -> tuple[RowCoverage, ...]:
        """Return the rows that the standard machine does not have, or not with these guards."""
        shipped = _STANDARD | set(_SHIPPED)
        return tuple(row for row in self.rows if row.key not in shipped)

    @property
    def tables(self) -> tuple[Coverage, ...]:
        """Return what counts for the whole, one coverage a machine: the standard one only if a run of it was counted, or no other was."""
        standard = (dataclasses.replace(self, own=()),) if self.transitions or not self.own else ()
        return (*standard, *self.own)

    @property
    def possible(self) -> tuple[GuardOutcome, ...]:
        """Return the guard outcomes that a journal can hold, in the order of the table: the whole of 100 %."""
        return possible_outcomes(tuple(row.key for row in self.rows), self.guards)

    @property
    def missing_rows(self) -> tuple[RowCoverage, ...]:
        """Return the rows that were never taken, in the order of the table."""
        return tuple(row for row in self.rows if not row.count)

    @property
    def missing_outcomes(self) -> tuple[GuardOutcome, ...]:
        """Return the possible guard outcomes that were never seen, in the order of the table."""
        return tuple(outcome for outcome in self.possible if not self.seen(outcome))

    @property
    def rows_percent(self) -> float:
        """Return the share of rows that were taken, rounded down to a tenth: 100.0 only when none is missing."""
        return _percent(len(self.rows) - len(self.missing_rows), len(self.rows))

    @property
    def guards_percent(self) -> float:
        """Return the share of possible guard outcomes that were seen, rounded down to a tenth."""
        return _percent(len(self.possible) - len(self.missing_outcomes), len(self.possible))

    @property
    def percent(self) -> float:
        """Return the share of rows and possible guard outcomes of all machines together, rounded down to a tenth."""
        tables = self.tables
        whole = sum(len(one.rows) + len(one.possible) for one in tables)
        missing = sum(len(one.missing_rows) + len(one.missing_outcomes) for one in tables)
        return _percent(whole - missing, whole)

    def seen(self, outcome: GuardOutcome) -> int:
        """
        Return how often an outcome of a guard was seen.

        Args:
            outcome: The guard, its place in the table and its value.
        """
        found = next(one for one in self.rows[outcome.place].seen if one.guard == outcome.guard)
        return found.true if outcome.value else found.false

    def __add__(self, other: Coverage) -> Coverage:
        """
        Return both together.

        Raises:
            UsageError: They were measured on different tables.
        """
        if not isinstance(other, Coverage):
            return NotImplemented
        if [row.key for row in self.rows] != [row.key for row in other.rows]:
            raise UsageError(
                "coverage of different tables cannot be added: measure both with the same version of paor"
            )
        foreign = Counter[Step]()
        for step in (*self.foreign, *other.foreign):
            foreign[step.source, step.trigger, step.dest] += step.count
        rows = (_sum_of(one, two) for one, two in zip(self.rows, other.rows, strict=True))
        own = dict[tuple[RowKey, ...], Coverage]()
        for one in (*self.own, *other.own):
            key = tuple(row.key for row in one.rows)
            own[key] = own[key] + one if key in own else one
        return Coverage(
            tuple(rows),
            self.runs + other.runs,
            self.transitions + other.transitions,
            _foreign(foreign),
            tuple(sorted({*self.guards, *other.guards})),
            tuple(own[key] for key in sorted(own, key=lambda key: (own[key].name, key))),
        )

    def wire(self) -> dict[str, Any]:
        """Return it as JSON-able data, with the table that it was measured on."""
        found = self._parts()
        if self.own:
            found["own"] = [one._parts() | {"guards": list(one.guards)} for one in self.own]
        return {"format": FORMAT, "version": VERSION, **found}

    def _parts(self) -> dict[str, Any]:
        parts = {name: getattr(self, name) for name in ("foreign", "rows", "runs", "transitions")}
        found: dict[str, Any] = json.loads(msgspec.json.encode(parts))
        return found

    def wire_json(self) -> str:
        """Return it as JSON with sorted keys, one line for each row, at the end a line end: same counts, same bytes."""
        parts = []
        for name, value in sorted(self.wire().items()):
            text = json.dumps(value)
            if isinstance(value, list) and value:
                lines = (f"  {json.dumps(item, sort_keys=True)}" for item in value)
                text = "[\n" + ",\n".join(lines) + "\n ]"
            parts.append(f" {json.dumps(name)}: {text}")
        return "{\n" + ",\n".join(parts) + "\n}\n"

    @classmethod
    def read(cls, text: str | bytes) -> Coverage:
        """
        Return the coverage that `wire_json` has written.

        Args:
            text: A file's whole content.

        Raises:
            UsageError: It is not JSON, or not of this form and version; the message says where.
        """
        try:
            found = decoder_of(_File).decode(text)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise UsageError(f"not a coverage file: {_one_line(error)}") from None
        if found.format != FORMAT or found.version != VERSION:
            raise UsageError(f"not a coverage file: it must say format {FORMAT!r} and version {VERSION}")
        own = tuple(_table_of(one, one.guards) for one in found.own)
        keys = [tuple(row.key for row in one.rows) for one in own]
        if len(set(keys)) != len(keys):
            raise UsageError("not a coverage file: a machine stands twice")
        return dataclasses.replace(_table_of(found, ()), own=own)


class _Table(msgspec.Struct, forbid_unknown_fields=True):
    """The coverage of one machine in a file."""

    rows: Annotated[tuple[RowCoverage, ...], msgspec.Meta(max_length=ROWS_MAX)]
    runs: Count
    transitions: Count
    foreign: Annotated[tuple[ForeignStep, ...], msgspec.Meta(max_length=FOREIGN_MAX)]


class _OwnTable(_Table, forbid_unknown_fields=True):
    """The coverage of a host's own machine."""

    guards: Annotated[tuple[str, ...], msgspec.Meta(max_length=ROWS_MAX)]


class _File(_Table, forbid_unknown_fields=True):
    """A coverage file."""

    format: str
    version: int
    own: Annotated[tuple[_OwnTable, ...], msgspec.Meta(max_length=MACHINES_MAX)] = ()


def _table_of(found: _Table, guards: tuple[str, ...]) -> Coverage:
    """Return what a file says of one machine, checked."""
    steps = [(step.source, step.trigger, step.dest) for step in found.foreign]
    if steps != sorted(set(steps)):
        raise UsageError("not a coverage file: the foreign steps are not sorted, or one stands twice")
    for row in found.rows:
        if [one.guard for one in row.seen] != list(guard_names(Row(*row.key, ""))):
            raise UsageError(
                f"not a coverage file: {_one_line(row.name)}: seen does not name the row's guards"
            )
    if list(guards) != sorted(set(guards)):
        raise UsageError("not a coverage file: the guards of a machine are not sorted, or one stands twice")
    return Coverage(found.rows, found.runs, found.transitions, found.foreign, guards)


def coverage(
    transitions: Iterable[TakenRow], *, rows: Sequence[Row] | None = None, machine: Machine | None = None
) -> Coverage:
    """
    Return what *transitions* cover of a table, or of a host's own machine.

    Args:
        transitions: Records of any number of runs, in any order, as `Journal.transitions` gives them. Those of a
            fork include the ones that it shares with its parent; leave them out if both are counted.
        rows: The table; the engine's own by default.
        machine: That the runs walk, where it is a host's own; what it covers is `Coverage.own`.

    Returns:
        The counts; the same for the same records, whatever their order.
    """
    if machine is None or machine.is_standard:
        return _counted(transitions, ROWS if rows is None else rows, frozenset())
    if rows is not None:
        raise UsageError("coverage takes rows or a machine, not both")
    rows = tuple(map(_in_order, machine.rows))
    found = _counted(transitions, rows, machine.host.guards.keys())
    return dataclasses.replace(Coverage.empty(), own=(found,) if found.transitions else ())


def _counted(transitions: Iterable[TakenRow], rows: Sequence[Row], own: Collection[str]) -> Coverage:
    """Return what *transitions* cover of *rows*, among whose guards *own* are a host's."""
    taken, runs, odd = Counter[tuple[Step, tuple[Literal, ...]]](), set[int](), Counter[Step]()
    total = 0
    for record in transitions:
        total += 1
        runs.add(record.run)
        step = (record.source, record.trigger, record.dest)
        if all(type(value) is bool for value in record.guards.values()):
            taken[step, tuple(record.guards.items())] += 1
        else:
            odd[step] += 1
    counts, seen = Counter[int](), Counter[GuardOutcome]()
    for (step, values), times in taken.items():
        guards = dict(values)
        tried = tried_rows(rows, step, guards, own)
        if not tried:
            odd[step] += times
            continue
        counts[tried[-1]] += times
        for place in tried:
            for name in asked_guards(rows[place], guards, own):
                seen[GuardOutcome(place, name, guards[name])] += times
    found = tuple(
        replace(
            row,
            count=counts[place],
            seen=tuple(
                GuardCount(
                    one.guard, *(seen[GuardOutcome(place, one.guard, value)] for value in (True, False))
                )
                for one in row.seen
            ),
        )
        for place, row in enumerate(Coverage.empty(rows).rows)
    )
    return Coverage(found, len(runs), total, _foreign(odd), tuple(sorted(own)))


def _sum_of(one: RowCoverage, two: RowCoverage) -> RowCoverage:
    pairs = zip(one.seen, two.seen, strict=True)
    seen = tuple(GuardCount(a.guard, a.true + b.true, a.false + b.false) for a, b in pairs)
    return replace(one, count=one.count + two.count, seen=seen)


def _foreign(counts: Mapping[Step, int]) -> tuple[ForeignStep, ...]:
    return tuple(ForeignStep(*step, counts[step]) for step in sorted(counts))


def _percent(part: int, whole: int) -> float:
    """Return a share in percent, rounded down to a tenth; of nothing all."""
    return (part * 1000 // whole) / 10 if whole else 100.0


def _one_line(text: object) -> str:
    """Return a text of somebody else's, safe to print in one line."""
    shown = ascii(str(text))[1:-1]
    return shown if len(shown) <= 200 else shown[:199] + "..."


# -- what a table allows a journal to hold --------------------------------------------------------------------------


@lru_cache(maxsize=64)
def possible_outcomes(rows: tuple[RowKey, ...], own: tuple[str, ...] = ()) -> tuple[GuardOutcome, ...]:
    """
    Return the guard outcomes that count: all but `UNREACHED`, and those with which one row before always fits, or the last row never.

    Nothing else is proven: an outcome that several rows before leave no room for counts, and is never seen.

    Args:
        rows: The table.
        own: Names of the guards of a host's own, each asked only where the row's other guards hold.
    """
    table = [Row(*key, "") for key in rows]
    found = set[GuardOutcome]()
    for source in dict.fromkeys(row.source for row in table):
        for order in (_order(table, source, waiting=False), _order(table, source, waiting=True)):
            before: list[set[Literal]] = []
            for place in order:
                needed = required_values(table[place])
                for name, value in (
                    (name, value) for name in guard_names(table[place]) for value in (True, False)
                ):
                    known = {*_asked_after(table[place], name, own), (name, value)}
                    never = (source, table[place].trigger, name, value) in UNREACHED or any(
                        row <= known for row in before
                    )
                    if not never and (place != order[-1] or (name, value) in needed):
                        found.add(GuardOutcome(place, name, value))
                before.append(set(needed))
    return tuple(
        sorted(
            found, key=lambda one: (one.place, guard_names(table[one.place]).index(one.guard), not one.value)
        )
    )


def _asked_after(row: Row, name: str, own: Collection[str]) -> tuple[Literal, ...]:
    """Return what must hold of a row for a guard of it to be asked: of a host's own all guards of paor's and those before it."""
    if name not in own:
        return ()
    needed = required_values(row)
    before = next(place for place, literal in enumerate(needed) if literal[0] == name)
    return tuple(literal for place, literal in enumerate(needed) if literal[0] not in own or place < before)


def asked_guards(row: Row, guards: Mapping[str, bool], own: Collection[str]) -> tuple[str, ...]:
    """Return the guards of a tried row that were asked for it."""
    return tuple(
        name
        for name in guard_names(row)
        if all(guards.get(other) is value for other, value in _asked_after(row, name, own))
    )


def _order(rows: Sequence[Row], source: str, *, waiting: bool) -> tuple[int, ...]:
    """Return the places of the rows that are tried in a phase, as `table.rows_of` has them."""
    own = [place for place, row in enumerate(rows) if row.source == source]
    answers = [place for place in own if rows[place].trigger == "provide"]
    if waiting:
        own = [place for place in own if rows[place].guards == ("hard_stop",) and place not in answers]
        return (*own, *answers)
    return tuple(place for place in own if place not in answers)


def tried_rows(
    rows: Sequence[Row], step: Step, guards: Mapping[str, bool], own: Collection[str] = frozenset()
) -> tuple[int, ...]:
    """
    Return the places of the rows that were tried, the last of them taken; none when the table would not do this.

    Args:
        rows: The table.
        step: Source, trigger and destination as recorded.
        guards: As recorded.
        own: Names of the guards of a host's own, each asked only where a row's other guards hold.
    """
    source, trigger, dest = step
    for waiting in (True,) if trigger == "provide" else (False, True):
        order = _order(rows, source, waiting=waiting)
        tried = _first_fit([rows[place] for place in order], guards, own)
        if tried and (rows[order[tried - 1]].trigger, rows[order[tried - 1]].dest) == (trigger, dest):
            return order[:tried]
    return ()


def _first_fit(rows: Sequence[Row], guards: Mapping[str, bool], own: Collection[str]) -> int:
    """Return how many rows were tried until one fitted; 0 when none does or *guards* are not exactly theirs."""
    names = set[str]()
    for tried, row in enumerate(rows, start=1):
        asked = asked_guards(row, guards, own) if own else guard_names(row)
        names.update(asked)
        if any(name not in guards for name in asked):
            return 0
        if all(guards.get(name) is value for name, value in required_values(row)):
            return tried if len(names) == len(guards) else 0
    return 0


def required_values(row: Row) -> tuple[Literal, ...]:
    """Return a row's guards in order, and what each must say for it to fit."""
    return tuple((name.removeprefix("not "), not name.startswith("not ")) for name in row.guards)


def guard_names(row: Row) -> tuple[str, ...]:
    """Return a row's guards without ``not``, each once, in its order."""
    return tuple(dict(required_values(row)))
