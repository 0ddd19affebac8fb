"""
Properties: what a run never does, in the words of a small language, and the watch that holds rows to them. Pure.

``A`` alone: A never happens. ``A without B``: never unless B was since the last call with an effect. ``A without ever B``: never unless B was in the
run. ``B before A``, which is said with *always*, is ``A without ever B``. A and B are each one of:

- a phase, ``Done``: as A it is entered; as B a phase of the host's own was passed, by a row that says so (`fsm.machine.gates.is_passed`), and one of
  paor's own was left for another one but Failed;
- a trigger, ``finish``: a row of it is taken;
- a pattern of tools, ``pay.*``: as A such a call is begun; as B one has ended without an error;
- a guard: it held in a decision. One that is required of some tools' calls alone holds for those;
- ``approval``, as B of a tool: a person has approved this very call.

What happens with the row itself counts: a guard that held when it was decided, and the passage of the phase that it leaves.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal, NamedTuple

from ...states.base.errors import ForbiddenRow, UsageError
from ...states.records.actions import Intent
from ...states.run.phase_names import EXECUTING, FAILED, OBSERVING, PHASES
from ...states.run.state import Run
from ...tools.policy import matches
from .gates import is_passed
from .machine import Machine
from .table import Row
from .updates import Decision

Kind = Literal["phase", "trigger", "guard", "tool", "approval"]
TEXT_MAX = 500
"""Longest text of a property, in characters."""


class Term(NamedTuple):
    """
    What may happen with a row.

    Attributes:
        kind: What the name is one of.
        name: Of the phase, trigger or guard; of tools a pattern.
    """

    kind: Kind
    name: str


@dataclass(frozen=True, slots=True)
class Property:
    """
    What never happens.

    Attributes:
        text: As it was given.
        happens: A.
        needs: B; None: A never happens at all.
        ever: Whether B counts for the rest of the run, not until the next call with an effect only.
    """

    text: str
    happens: Term
    needs: Term | None = None
    ever: bool = False

    def __str__(self) -> str:
        return self.text


class Happened(NamedTuple):
    """
    What a row has done, as far as a property looks at it.

    Attributes:
        row: As the table has it.
        guards: Those that were evaluated.
        begun: Tool and effect of each call that it begins.
        ended: The tool of the call that has ended with it, without an error; None for none.
        approved: Whether a person has approved the call that it begins.
    """

    row: Row
    guards: Mapping[str, bool]
    begun: tuple[tuple[str, str], ...] = ()
    ended: str | None = None
    approved: bool = False


def read_properties(
    never: str | Sequence[str] = (), always: str | Sequence[str] = ()
) -> tuple[tuple[str, str, str | None, bool], ...]:
    """
    Return the texts of properties with their words: the text, A, B or None, and whether B may have been at any time.

    Args:
        never: ``A``, ``A without B`` or ``A without ever B``.
        always: ``B before A``.

    Raises:
        UsageError: A text that is none of these.
    """
    found: list[tuple[str, str, str | None, bool]] = []
    for text in _texts(never, "never"):
        match text.split():
            case [happens]:
                found.append((text, happens, None, True))
            case [happens, "without", "ever", needs]:
                found.append((text, happens, needs, True))
            case [happens, "without", needs]:
                found.append((text, happens, needs, False))
            case _:
                raise UsageError(
                    f"never {text!a:.80}: expected 'A', 'A without B' or 'A without ever B', such as 'Done without Verifying'"
                )
    for text in _texts(always, "always"):
        match text.split():
            case [needs, "before", happens]:
                found.append((text, happens, needs, True))
            case _:
                raise UsageError(
                    f"always {text!a:.80}: expected 'B before A', such as 'refund.* before mail.send'"
                )
    return tuple(found)


def _texts(given: str | Sequence[str], name: str) -> Iterable[str]:
    texts = (given,) if isinstance(given, str) else tuple(given)
    for text in texts:
        if not isinstance(text, str) or len(text) > TEXT_MAX:
            raise UsageError(f"{name}: a property is a text of at most {TEXT_MAX} characters")
    return texts


def properties_of(
    machine: Machine,
    tools: Collection[str] | None,
    never: str | Sequence[str] = (),
    always: str | Sequence[str] = (),
) -> tuple[Property, ...]:
    """
    Return properties of a machine's runs.

    Args:
        machine: Whose phases, triggers and guards they name.
        tools: Names of the tools that there are; None where that is not known: then each word that names nothing else is a pattern of tools.
        never, always: See `read_properties`.

    Raises:
        UsageError: A text that is no property, a name that nothing has, or a pattern that no tool fits.
    """
    found = []
    for text, happens, needs, ever in read_properties(never, always):
        first = _term(text, happens, machine, tools)
        second = None if needs is None else _term(text, needs, machine, tools)
        if first.kind == "approval" or (
            second is not None and second.kind == "approval" and (ever or first.kind != "tool")
        ):
            raise UsageError(
                f"{text!a:.80}: approval is of the very call that is begun: 'pay.* without approval'"
            )
        found.append(Property(text, first, second, ever))
    return tuple(found)


def _term(text: str, name: str, machine: Machine, tools: Collection[str] | None) -> Term:
    """Return what a word names: an approval, a phase, a trigger, a guard, else tools."""
    triggers = {row.trigger for row in machine.rows}
    if name == "approval":
        return Term("approval", name)
    known: tuple[tuple[Kind, Collection[str]], ...] = (
        ("phase", machine.states),
        ("trigger", triggers),
        ("guard", machine.guards),
    )
    for kind, names in known:
        if name in names:
            return Term(kind, name)
    if tools is None or any(matches(tool, (name,)) for tool in tools):
        return Term("tool", name)
    every = sorted({*machine.states, *triggers, *machine.guards, *tools, "approval"})
    near = get_close_matches(name.replace("*", ""), every, n=3, cutoff=0.4)
    told = f"; nearest: {', '.join(near)}" if near else ""
    raise UsageError(f"{text!a:.80}: {name!a:.60} is no phase, trigger, guard or tool{told}")


def happened(run: Run, decision: Decision) -> Happened:
    """Return what a row does that was decided for *run* and is not applied yet."""
    reply, intent, change = run.memory.reply, run.memory.intent, decision.change
    return happened_with(
        decision.row,
        decision.guards,
        (change.intent, *(change.ahead or ())) if change.intent else (),
        intent.tool if intent is not None and decision.facts.get("ok") is True else None,
        approved=reply is not None and reply.approves and reply.approval is not None,
    )


def happened_with(
    row: Row, guards: Mapping[str, bool], intents: Iterable[Intent], ended: str | None, *, approved: bool
) -> Happened:
    """Return what a row has done that may begin the calls *intents*, or end a call of the tool *ended* without an error."""
    begins = row.dest == EXECUTING and row.source != EXECUTING
    begun = tuple((intent.tool, intent.effect) for intent in intents) if begins else ()
    return Happened(row, guards, begun, ended if row.trigger == "execute" else None, begins and approved)


def row_taken(
    machine: Machine, source: str, trigger: str, dest: str, guards: Mapping[str, bool]
) -> Row | None:
    """Return the row of *machine* that a journal's row tells, by its evaluated guards where there are several; None where it has none."""
    rows = [row for row in machine.rows if (row.source, row.trigger, row.dest) == (source, trigger, dest)]
    fitting = (
        row
        for row in rows
        if all(guards.get(name) is True for name in row.conditions)
        and all(guards.get(name) is False for name in row.unless)
    )
    return next(fitting, rows[0] if rows else None)


class PropertyWatch:
    """
    Holds the rows of one run to one property, in their order.

    Args:
        prop: The property.
        machine: That the run walks.

    Attributes:
        held: Whether B was, as far as it still counts.
    """

    def __init__(self, prop: Property, machine: Machine) -> None:
        self.prop, self.machine = prop, machine
        self.held = False

    def breaks(self, taken: Happened) -> bool:
        """Return whether a row would break the property; nothing is noted."""
        if not self._happens(taken):
            return False
        needs = self.prop.needs
        if needs is None:
            return True
        return not (taken.approved if needs.kind == "approval" else self.held or self._fulfils(needs, taken))

    def note(self, taken: Happened) -> None:
        """Go on after a row."""
        self.held = self.after(self.held, taken)

    def after(self, held: bool, taken: Happened) -> bool:
        """Return what `held` is after a row."""
        needs = self.prop.needs
        held = held or (needs is not None and self._fulfils(needs, taken))
        return held and (self.prop.ever or all(effect == "read" for _, effect in taken.begun))

    def _happens(self, taken: Happened) -> bool:
        kind, name = self.prop.happens
        row = taken.row
        if kind == "phase":  # the way back from a phase's own call is no way to it
            return row.dest == name != row.source and (row.source != OBSERVING or name in PHASES)
        if kind == "tool":
            return any(matches(tool, (name,)) for tool, _ in taken.begun)
        return self._is_so(self.prop.happens, taken)

    def _fulfils(self, term: Term, taken: Happened) -> bool:
        kind, name = term
        row = taken.row
        if kind == "phase":
            if row.source != name or row.dest in (name, FAILED):
                return False
            return name in PHASES or is_passed(row, self.machine.host.guards)
        if kind == "tool":
            return taken.ended is not None and matches(taken.ended, (name,))
        return self._is_so(term, taken)

    def _is_so(self, term: Term, taken: Happened) -> bool:
        kind, name = term
        if kind == "trigger":
            return taken.row.trigger == name
        if kind != "guard" or taken.guards.get(name) is not True:
            return False
        own = self.machine.host.guards.get(name)
        if own is None or own.tools is None:
            return True
        return any(matches(tool, own.tools) for tool, _ in taken.begun)


class Promises:
    """
    The properties that an engine holds one run to.

    Args:
        properties: All of them.
        machine: That the run walks.
    """

    def __init__(self, properties: Iterable[Property], machine: Machine) -> None:
        self._watches = [PropertyWatch(prop, machine) for prop in properties]

    def check(self, run: Run, decision: Decision) -> None:
        """
        Refuse a row that was decided for *run*.

        Raises:
            ForbiddenRow: It would break a property.
        """
        taken = happened(run, decision)
        for watch in self._watches:
            if watch.breaks(taken):
                place = f"run {run.run_id}, row {run.seq}: {taken.row.trigger} in {run.state}"
                raise ForbiddenRow(
                    f"{place} is refused, since it would break what never happens: {watch.prop.text}"
                )

    def note(self, taken: Happened) -> None:
        """Go on after a row."""
        for watch in self._watches:
            watch.note(taken)

    def walks(self, machine: Machine) -> None:
        """Go on with the rows of another machine, such as those of a fork."""
        for watch in self._watches:
            watch.machine = machine
