"""What was seen of a run that walks a host's own machine: its stays, its bounded rows, what its functions said."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from ...fsm.decision.host_machine import recorded_phases
from ...fsm.journal.rows import Transition
from ...fsm.machine.decide import machine_told
from ...states.run.spec import Spec
from ...states.settings.limits import LOWERABLE
from ..strategies.reply_builder import Said

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
        chosen: The spec that the first phase has chosen with the newest row, until it counts.
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
        self.chosen: Spec | None = None

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

    def choice_is_kept(self, spec: Spec, reply: Said | None, chosen: Spec) -> None:
        """Note the spec that a first phase has chosen by *reply*, which counts from the next row on, and what it must not have."""
        said = reply.means.get("value", {}) if reply is not None and reply.good else None
        for name in LOWERABLE:
            before, now = getattr(spec.limits, name), getattr(chosen.limits, name)
            if before is not None and (now is None or now > before):
                self.raised = f"{name} was {before} and is {now}"
        wanted = said.get("mode") or spec.mode if said is not None else chosen.mode
        if chosen.mode != wanted:
            self.raised = f"the mode is {chosen.mode}, chosen was {wanted}"
        self.chosen = chosen

    def take(self, row: Transition) -> None:
        """Go on with a row, before it is looked at."""
        self.taken[row.trigger] += self.is_counted(row)
        if not self.taken[row.trigger]:
            del self.taken[row.trigger]

    def leave(self, row: Transition) -> None:
        """Go on with a row, after it was looked at."""
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
