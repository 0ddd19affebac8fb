"""
What always holds of a run that walks a host's own machine, beside what holds of any run.

Written from docs/howto/machine.md, by what came in and what the rows say: what each stay in an own phase came to, how often a bounded row was
taken, what the host's functions said while the engine decided.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from ...fsm.decision.host_machine import recorded_phases
from ...fsm.explain.coverage import tried_rows
from ...fsm.journal.rows import Transition
from ...fsm.machine.decide import machine_told
from ...states.run.spec import Spec
from ...states.settings.limits import LOWERABLE
from .reference_model import RunModel
from .seen import Seen, by_name

IN_A_PHASE = ("fail", "wait", "provide", "reask", "call")
"""Rows that a phase brings itself; every other one leads on from it."""


class OwnRun:
    """
    What was seen of a run of an own machine.

    Attributes:
        phases: The host's own phases by name, as the spec records them.
        rows: All rows of the machine, in the order in which they are tried.
        guards: Names of the host's own guards.
        taken: How often each row with a bound was taken.
        caller: The phase whose call is being made, empty for none.
        came_to: What the stay in an own phase came to so far: whether its call ended well or its question was accepted; None for nothing.
        asked: What the host's guards said in the newest decision, None where nobody watched.
        twice, strangers: See `HostWatch`.
        given, recorded: What the port gave for the newest row, and what the row says that it gave; None for nothing.
        raised: What the first phase has chosen though it may not: a limit that is higher, a mode that nobody named.
    """

    def __init__(self, spec: Spec) -> None:
        machine = machine_told(spec.host_machine)
        self.phases = recorded_phases(spec.host_machine)
        self.rows = machine.rows
        self.guards = frozenset(machine.host.guards)
        self._arrows = {(row.source, row.trigger, row.dest): row for row in self.rows if row.host}
        self._bounds = {row.trigger: row.at_most for row in self.rows if row.at_most}
        self.taken: Counter[str] = Counter()
        self.caller = ""
        self.came_to: bool | None = None
        self.asked: Mapping[str, bool] | None = None
        self.twice: tuple[str, ...] = ()
        self.strangers: tuple[str, ...] = ()
        self.given: Any = None
        self.recorded: Any = None
        self.raised = ""
        self._chosen: Spec | None = None

    def is_own(self, row: Transition) -> bool:
        """Whether a row is one that the host's machine brought."""
        return (row.source, row.trigger, row.dest) in self._arrows

    def is_counted(self, row: Transition) -> bool:
        """Whether a row has a bound of its own."""
        found = self._arrows.get((row.source, row.trigger, row.dest))
        return found is not None and found.at_most > 0

    def within_bounds(self) -> bool:
        """Whether no row was taken more often than it may be."""
        return all(times <= self._bounds[trigger] for trigger, times in self.taken.items())

    def chooses(self, row: Transition) -> bool:
        """Whether a row leads on from the phase that chooses mode and limits."""
        phase = self.phases.get(row.source)
        return phase is not None and phase.chooses and row.trigger not in IN_A_PHASE

    def choice_is_kept(self, seen: Seen, chosen: Spec) -> None:
        """Note the spec that a first phase has chosen, which counts from the next row on, and what it must not have."""
        reply = seen.reply
        said = reply.means.get("value", {}) if reply is not None and reply.good else None
        for name in LOWERABLE:
            before, now = getattr(seen.spec.limits, name), getattr(chosen.limits, name)
            if before is not None and (now is None or now > before):
                self.raised = f"{name} was {before} and is {now}"
        wanted = said.get("mode") or seen.spec.mode if said is not None else chosen.mode
        if chosen.mode != wanted:
            self.raised = f"the mode is {chosen.mode}, chosen was {wanted}"
        self._chosen = chosen

    def take(self, row: Transition) -> None:
        """Go on with a row, before it is looked at."""
        self.taken[row.trigger] += self.is_counted(row)
        if not self.taken[row.trigger]:
            del self.taken[row.trigger]

    def leave(self, seen: Seen) -> None:
        """Go on with the newest row, after it was looked at."""
        row = seen.row
        if self._chosen is not None:
            seen.spec, seen.model.limits, self._chosen = self._chosen, self._chosen.limits, None
        if row.trigger == "call" and row.source in self.phases:
            self.caller, self.came_to = row.source, None
        elif row.trigger in ("select", "next_step", "format", "withhold"):
            self.caller = ""
        elif row.trigger == "refuse" and self.caller:
            self.came_to = False
        elif row.trigger == "execute" and self.caller:
            self.came_to = bool(row.outcome.get("ok"))
        elif row.trigger == "provide" and row.source in self.phases:
            self.came_to = row.outcome.get("action") == "accept"
        elif row.dest in self.phases and row.trigger not in (*IN_A_PHASE, "observe"):
            self.came_to = None
        if row.trigger == "observe":
            self.caller = ""


# -- after every row -----------------------------------------------------------------------------------------------


def own_rows_within_bounds(seen: Seen, own: OwnRun) -> bool:
    """A row of an own machine is taken at most `at_most` times in a run, and the row says how often."""
    return own.within_bounds() and dict(seen.row.counters.get("own", {})) == dict(own.taken)


def first_fitting_row_is_taken(seen: Seen, own: OwnRun) -> bool:
    """Of the rows of a phase the first is taken whose recorded guards all hold, and every guard that this takes is recorded."""
    row = seen.row
    return bool(tried_rows(own.rows, (row.source, row.trigger, row.dest), row.guards, own.guards))


def calls_come_back(seen: Seen, own: OwnRun) -> bool:
    """The call of an own phase leads back to that phase, any other call to Reviewing."""
    return seen.row.trigger != "observe" or seen.row.dest == (own.caller or "Reviewing")


def succeeded_says_what_happened(seen: Seen, own: OwnRun) -> bool:
    """An own phase succeeds by what it asked for in this very stay: a reply that fits, a call without an error, an answer that accepts."""
    phase, value = own.phases.get(seen.row.source), seen.row.guards.get("succeeded")
    if phase is None or value is None:
        return True
    if phase.prompt is not None:
        reply = seen.reply
        if reply is None or reply.fault:
            return not value
        return reply.good is None or value is reply.good
    if phase.tool is not None or phase.question is not None:
        return bool(value) is bool(own.came_to)
    return bool(value)


def phases_ask_again(seen: Seen, own: OwnRun) -> bool:
    """A reply that does not fit is asked for again `review_retries` times in each stay, whatever was asked before it."""
    row, reply = seen.row, seen.reply
    if row.source not in own.phases or reply is None or reply.good is not False or reply.fault:
        return True
    if row.guards.get("hard_stop") or seen.again("reask") >= seen.spec.limits.review_retries:
        return True
    before = [other for other in own.rows if other.source == row.source and other.trigger == row.trigger]
    ahead = next(place for place, other in enumerate(own.rows) if _is(other, row.source, "reask"))
    return row.trigger == "reask" or any(own.rows.index(other) < ahead for other in before)


def _is(row: Any, source: str, trigger: str) -> bool:
    return (row.source, row.trigger) == (source, trigger)


def phases_stop_hard(seen: Seen, own: OwnRun) -> bool:
    """A model that cannot be reached, and a cancellation, end a run in an own phase, whatever its rows say."""
    row = seen.row
    if row.source not in own.phases or row.outcome["kind"] not in ("fault", "cancelled"):
        return True
    return row.dest == "Failed" and row.guards.get("hard_stop") is True


def own_guards_are_recorded(seen: Seen, own: OwnRun) -> bool:
    """What the host's own guards said in a decision is what its row records, no more and no less."""
    if own.asked is None or seen.row.outcome["kind"] == "cancelled":
        return True
    told = {name: value for name, value in seen.row.guards.items() if name in own.guards}
    said = {name: value for name, value in own.asked.items() if name in own.guards}
    free = {name for name in told if name not in said}  # of another tool's call a guard holds unasked
    return said.items() <= told.items() and all(told[name] for name in free)


def own_guards_are_asked_once(seen: Seen, own: OwnRun) -> bool:
    """A guard of the host's own is evaluated at most once a decision."""
    return not own.twice


def visits_are_of_their_call(seen: Seen, own: OwnRun) -> bool:
    """What a stay came to that was about a call counts for this very call alone."""
    return not own.strangers


def host_values_are_journaled(seen: Seen, own: OwnRun) -> bool:
    """What the port for values gave for a decision stands in its row."""
    return own.given is None or own.recorded == json.loads(json.dumps(own.given))


def choices_raise_nothing(seen: Seen, own: OwnRun) -> bool:
    """A first phase may lower limits and choose a mode; no limit rises."""
    return not own.raised


OWN: dict[str, Callable[[Seen, OwnRun], bool]] = by_name(
    own_rows_within_bounds,
    first_fitting_row_is_taken,
    calls_come_back,
    succeeded_says_what_happened,
    phases_ask_again,
    phases_stop_hard,
    own_guards_are_recorded,
    own_guards_are_asked_once,
    visits_are_of_their_call,
    host_values_are_journaled,
    choices_raise_nothing,
)
"""What is held after every row of a run of an own machine, by name."""


def seen_of(run_id: str, spec: Spec) -> Seen:
    """Return what was seen of a run before its first row."""
    own = OwnRun(spec) if spec.host_machine else None
    return Seen(run_id, spec, RunModel(spec.limits, machine_told(spec.host_machine)), own=own)
