"""
Mixtures: the settings of one side with some of the other's, and what two sides differ in, piece by piece.

A piece is the smallest thing that a person would name: a line of a prompt, a tool, one rule of the policy, a limit, a guard, a row.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import Any, NamedTuple, TypeVar

import orjson

from ...states.run.spec import Spec
from ..decision.host_machine import recorded_phases
from ..machine.decide import machine_told
from ..machine.host_rows import Host
from ..machine.machine import MACHINE, Machine
from ..machine.properties import Property
from ..machine.table import Row
from ..replay.comparison import apart
from ..replay.trial import TrialSettings
from ..versioning.host_code import host_text
from .divergence import spec_places

_ABSENT = object()
_ORDER = "\0order"
_T = TypeVar("_T")


class BisectPart(NamedTuple):
    """
    One thing in which two sides differ.

    Attributes:
        part: Its kind, such as ``guard``, ``prompt line``, ``tool schema``, ``policy rule``, ``limit``.
        name: Which one.
        was: As one side has it, in a line.
        now: As the other side has it.
    """

    part: str
    name: str
    was: str
    now: str


@dataclass(frozen=True, slots=True)
class _Place:
    """A place of the settings: what it holds, as items in order that have counterparts, and how it is put together again."""

    part: str
    name: str
    one: Mapping[str, Any]
    two: Mapping[str, Any]
    put: Callable[[Spec, dict[str, Any]], Spec]

    def pieces(self) -> Iterator[tuple[BisectPart, str]]:
        """Yield the pieces in which both differ, with the key of each."""
        for key in dict.fromkeys((*self.one, *self.two)):
            was, now = self.one.get(key, _ABSENT), self.two.get(key, _ABSENT)
            if was is _ABSENT or now is _ABSENT or was != now:
                yield BisectPart(self.part, f"{self.name}{key}", *_told(was, now)), key
        for told in _orders(self.one, self.two):
            yield BisectPart(self.part, f"{self.name}order", *told), _ORDER

    def mixed(self, spec: Spec, chosen: Collection[BisectPart]) -> Spec:
        """Return *spec* with the *chosen* ones of the other side."""
        keys = [key for piece, key in self.pieces() if piece in chosen]
        if not keys:
            return spec
        items = {
            key: (self.two if key in keys else self.one).get(key, _ABSENT)
            for key in (_merged(self.two, self.one) if _ORDER in keys else _merged(self.one, self.two))
        }
        return self.put(spec, {key: item for key, item in items.items() if item is not _ABSENT})


def _merged(one: Iterable[str], two: Iterable[str]) -> list[str]:
    """Return the keys of both in one order: what only *two* has behind what it has before it."""
    found, place = list(one), 0
    for key in two:
        if key not in found:
            found.insert(place, key)
        place = found.index(key) + 1
    return found


def _orders(one: Iterable[str], two: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the two orders of the keys that both have, where they are not the same."""
    orders = [key for key in one if key in [*two]], [key for key in two if key in [*one]]
    if orders[0] != orders[1]:
        yield apart(*map(", ".join, orders))


def _text(value: Any) -> str:
    if value is None or value is _ABSENT:
        return "(none)"
    if hasattr(value, "model_dump"):
        value = value.model_dump(mode="json")
    return value if isinstance(value, str) else orjson.dumps(value, default=str).decode()


def _told(was: Any, now: Any) -> tuple[str, str]:
    return apart(_text(was), _text(now))


# -- a spec ---------------------------------------------------------------------------------------------------------

_PARTS = {"limits": "limit", "policy": "policy rule", "values": "value", "rules": "prompt line"}
_ELSEWHERE = ("host_machine", "phase_tools", "fingerprints", "engine", "machine")
"""Fields that belong to the machine, or to the code."""

_Put = Callable[[Spec, Any], Spec]


def _places(one: Spec, two: Spec) -> Iterator[_Place]:
    """Yield every place at which two specs differ, without the host's own machine."""
    phases = {*recorded_phases(one.host_machine), *recorded_phases(two.host_machine)}
    for place in spec_places(one, two):
        name, was, now, put = place.field, place.left, place.right, place.put
        if name in _ELSEWHERE or (name == "templates" and place.key in phases):
            continue
        if name in ("templates", "instructions", "own_instructions"):
            yield _lines(f"{place.key or name}, ", was or "", now or "", put)
        elif name == "tools":
            old, new = ({tool.name: tool for tool in side} for side in (was, now))
            yield _Place("tool schema", "", old, new, _tuple(put))
        else:
            yield _values(_PARTS.get(name, "setting"), place.name, was, now, put)


def _tuple(put: _Put) -> _Put:
    return lambda spec, items: put(spec, tuple(items.values()))


def _values(part: str, name: str, was: Any, now: Any, put: _Put) -> _Place:
    """Return the place of a value: item by item of a list or a mapping, else as a whole."""
    if isinstance(was, tuple) and isinstance(now, tuple):
        one, two = ({_text(item): item for item in side} for side in (was, now))
        return _Place(part, f"{name}: ", one, two, _tuple(put))
    if isinstance(was, Mapping) and isinstance(now, Mapping):
        return _Place(part, f"{name}.", was, now, put)
    return _Place(part, name, {"": was}, {"": now}, lambda spec, items: put(spec, items[""]))


def _lines(name: str, was: str, now: str, put: _Put) -> _Place:
    """Return the place of a text, of which each line is an item; a line that takes the place of another one is its counterpart."""
    old, new = was.split("\n"), now.split("\n")
    one, two = dict[str, str](), dict[str, str]()
    number = 0
    for _, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        for at in range(max(b - a, d - c)):
            number += 1
            one |= {f"line {number}": old[a + at]} if a + at < b else {}
            two |= {f"line {number}": new[c + at]} if c + at < d else {}
    return _Place("prompt line", name, one, two, lambda spec, lines: put(spec, "\n".join(lines.values())))


# -- a host's own machine --------------------------------------------------------------------------------------------


class _RowPair(NamedTuple):
    """A row of two machines: as each has it, and its pieces by the guards that they are; one piece with an empty name is the whole row."""

    was: Row | None
    now: Row | None
    pieces: Mapping[str, BisectPart]

    def mixed(self, chosen: Collection[BisectPart]) -> Row | None:
        """Return the row of the first machine with the *chosen* pieces of the second."""
        taken = {name for name, piece in self.pieces.items() if piece in chosen}
        if not taken or self.was is None or self.now is None or "" in taken:
            return self.now if taken else self.was
        sides = self.was.guards, self.now.guards
        kept = (name for name in _merged(*sides) if name in sides[name.removeprefix("not ") in taken])
        return replace(self.was, guards=tuple(kept))


def _row_keys(machine: Machine) -> dict[str, Row]:
    """Return the rows of a machine by what two machines have in common of a row: its place, and which one it is of several there."""
    found: dict[str, Row] = {}
    for row in machine.rows:
        place = f"{row.source}.{row.trigger}.{row.dest}{' answers' if row.answers else ''}"
        # one that a host has put beside one of paor's own is no counterpart of that
        place += (
            f" {' '.join(row.guards)}" if row.host and (row.source, row.trigger) in MACHINE.changes else ""
        )
        found[next(key for key in (place, *(f"{place} {n}" for n in range(2, 1000))) if key not in found)] = (
            row
        )
    return found


def _row_pairs(one: Machine, two: Machine, moved: Collection[str] = ()) -> dict[str, _RowPair]:
    """Return the rows of two machines by their keys, in an order in which the first has them; those of the phases *moved* as the second."""
    mine, other = _row_keys(one), _row_keys(two)
    keys = [key for key in _merged(mine, other) if _source(key) not in moved]
    keys += [key for key in _merged(other, mine) if _source(key) in moved]
    return {
        key: _RowPair(mine.get(key), other.get(key), _row_pieces(mine.get(key), other.get(key), one, two))
        for key in keys
    }


def _source(key: str) -> str:
    return key.partition(".")[0]


def _row_pieces(was: Row | None, now: Row | None, one: Machine, two: Machine) -> dict[str, BisectPart]:
    """Return the pieces of a row that is not the same in two machines: the phase that one has alone, each guard by its name, or the row."""
    row = now or was
    assert row is not None, "one of the two has it"
    for name in (row.source, row.dest):
        if (name in one.host.phases) is not (name in two.host.phases):
            return {"": _phase_piece(name, one, two)}
    guards = [
        {name.removeprefix("not ") for name in item.guards} if item is not None else set[str]()
        for item in (was, now)
    ]
    changed = sorted((guards[0] ^ guards[1]) & {*one.host.guards, *two.host.guards})
    if changed and (row.source, row.trigger) in MACHINE.changes:
        return {name if was and now else "": _guard_piece(name, one, two) for name in changed}
    told = (
        f"to {item.dest} if {', '.join(item.guards) or 'nothing else'}" if item else "(none)"
        for item in (was, now)
    )
    return {"": BisectPart("row", f"{row.source}.{row.trigger}", *told)}


def _phase_piece(name: str, one: Machine, two: Machine) -> BisectPart:
    return BisectPart(
        "phase", name, *("a phase" if name in side.host.phases else "(none)" for side in (one, two))
    )


def _guard_piece(name: str, one: Machine, two: Machine) -> BisectPart:
    return BisectPart(
        "guard",
        name,
        *(
            f"{side.host.guards[name].__doc__}" if name in side.host.guards else "(none)"
            for side in (one, two)
        ),
    )


def _machine_pieces(one: Machine, two: Machine) -> Iterator[BisectPart]:
    """Yield the pieces in which two machines differ. Functions of two modules count as others, since what they call may be."""
    for name, guard in one.host.guards.items():
        other = two.host.guards.get(name)
        if other is not None and (guard.function is not other.function or guard.tools != other.tools):
            yield _guard_piece(name, one, two)
    for name in dict.fromkeys((*one.host.phases, *two.host.phases)):
        if one.host.phases.get(name) is not two.host.phases.get(name):
            yield _phase_piece(name, one, two)
    for pair in _row_pairs(one, two).values():
        yield from pair.pieces.values() if pair.was != pair.now else ()
    keys = [*_row_keys(one)], [*_row_keys(two)]
    for source in dict.fromkeys(row.source for row in one.rows):
        for told in _orders(*([key for key in side if _source(key) == source] for side in keys)):
            yield BisectPart("row order", source, *told)
    for place in dict.fromkeys((*one.host.tells, *two.host.tells)):
        if one.host.tells.get(place) is not two.host.tells.get(place):
            yield BisectPart("words", ".".join(place), "its words", "other words")
    for name in ("initial", "fresh"):
        values = getattr(one.host, name), getattr(two.host, name)
        if values[0] != values[1]:
            yield BisectPart("machine", name, *_told(*values))


def _names(chosen: Collection[BisectPart], part: str) -> set[str]:
    return {piece.name for piece in chosen if piece.part == part}


def _mixed(one: Mapping[str, _T], two: Mapping[str, _T], names: Collection[str]) -> dict[str, _T]:
    """Return the entries of *one*, those with *names* as *two* has them."""
    return {
        name: found
        for name in dict.fromkeys((*one, *two))
        if (found := (two if name in names else one).get(name)) is not None
    }


def _mixed_machine(one: Machine, two: Machine, chosen: Collection[BisectPart]) -> Machine:
    """Return the first machine with the *chosen* pieces of the second."""
    names = {part: _names(chosen, part) for part in ("guard", "phase", "words", "machine", "row order")}
    rows = [pair.mixed(chosen) for pair in _row_pairs(one, two, names["row order"]).values()]
    guards = {**two.host.guards, **one.host.guards}
    guards |= {name: two.host.guards[name] for name in names["guard"] & two.host.guards.keys()}
    phases = _mixed(one.host.phases, two.host.phases, names["phase"])
    tells = {
        place: tell
        for place in dict.fromkeys((*one.host.tells, *two.host.tells))
        if (tell := (two if ".".join(place) in names["words"] else one).host.tells.get(place)) is not None
    }
    initial, fresh = ((two if name in names["machine"] else one).host for name in ("initial", "fresh"))
    return Machine(
        tuple(row for row in rows if row is not None and not row.answers),
        tuple(row for row in rows if row is not None and row.answers),
        host=Host(initial.initial, phases, guards, tells, fresh.fresh),
    )


# -- both ------------------------------------------------------------------------------------------------------------


class Mixture:
    """
    The settings of one side with some pieces of the other's.

    Args:
        one, two: The sides.
        chosen: What is taken from *two*.
    """

    def __init__(self, one: TrialSettings, two: TrialSettings, chosen: Collection[BisectPart] = ()) -> None:
        self._one, self._two, self._chosen = one, two, chosen
        self._machine: Machine | None = None

    @property
    def model(self) -> Any:
        """The model whose price counts."""
        return (self._two if any(piece.part == "price" for piece in self._chosen) else self._one).model

    @property
    def never(self) -> tuple[Property, ...]:
        """What no row may do."""
        one, two = ({item.text: item for item in side.never} for side in (self._one, self._two))
        return tuple(_mixed(one, two, _names(self._chosen, "never")).values())

    def pieces(self, spec: Spec) -> list[BisectPart]:
        """Return everything in which both sides differ for a run with *spec*."""
        sides = self._one, self._two
        one, two = (side.trial_spec(spec) for side in sides)
        found = [piece for place in _places(one, two) for piece, _ in place.pieces()]
        machines = self._machines(one, two)
        if machines is not None:
            found += _machine_pieces(*machines)
        prices = [getattr(side.model, "price", None) for side in sides]
        if prices[0] != prices[1]:
            told = (
                "(none)" if item is None else f"{item.tokens_in} in, {item.tokens_out} out" for item in prices
            )
            found.append(BisectPart("price", f"{self._two.model.name}", *told))
        never = [{item.text: item for item in side.never} for side in sides]
        for text in dict.fromkeys((*never[0], *never[1])):
            if never[0].get(text) != never[1].get(text):
                told = (text if text in side else "(none)" for side in never)
                found.append(BisectPart("never", text, *told))
        return list(dict.fromkeys(found))

    def _machines(self, one: Spec, two: Spec) -> tuple[Machine, Machine] | None:
        """Return the machines of both sides, without functions where they are not here; None where both have the standard one."""
        if not one.host_machine and not two.host_machine:
            return None
        found = []
        for side, spec in ((self._one, one), (self._two, two)):
            own = side.machine_for(spec)
            found.append(own if isinstance(own, Machine) else machine_told(spec.host_machine))
        return found[0], found[1]

    def trial_spec(self, spec: Spec) -> Spec:
        """Return *spec* with the settings of the mixture."""
        one, two = self._one.trial_spec(spec), self._two.trial_spec(spec)
        mixed = one
        for place in _places(one, two):
            mixed = place.mixed(mixed, self._chosen)
        machines = self._machines(one, two)
        if machines is None:
            return mixed
        self._machine = machine = _mixed_machine(*machines, self._chosen)
        phases = machine.host.phases
        templates = {
            **mixed.templates,
            **{name: phase.prompt for name, phase in phases.items() if phase.prompt},
        }
        tools = {tool.name: tool for tool in (*two.phase_tools, *one.phase_tools)}
        text = "" if machine.rows == MACHINE.rows else host_text(machine)
        own = {"host_machine": text, "phase_tools": tuple(tools.values()), "templates": templates}
        return mixed.model_copy(update=own)

    def machine_for(self, spec: Spec) -> Machine | None:
        """Return the machine of the mixture, with the functions of both sides."""
        return self._machine if spec.host_machine else None


def smallest(pieces: Sequence[BisectPart], flips: Callable[[Sequence[BisectPart]], bool]) -> list[BisectPart]:
    """
    Return as few of *pieces* as still flip: one of them if one does, else what no piece can be left out of (delta debugging).

    Args:
        pieces: All of them flip together.
        flips: Says whether some do.
    """
    for piece in pieces:
        if flips([piece]):
            return [piece]
    kept, parts = list(pieces), 2
    while len(kept) > 1:
        size = -(-len(kept) // parts)
        blocks = [kept[at : at + size] for at in range(0, len(kept), size)]
        without = ([item for item in kept if item not in block] for block in blocks)
        fewer = next((rest for rest in without if rest and flips(rest)), None)
        if fewer is not None:
            kept, parts = fewer, max(2, parts - 1)
        elif parts >= len(kept):
            break
        else:
            parts = min(len(kept), parts * 2)
    return kept
