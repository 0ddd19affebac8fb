"""
The functions of a host's own machine, called with what an exploration comes to: none may raise, give something else, or differ.

A proof takes them for free choices (`fsm.check.free_machine`); here they are called themselves, each twice, with the contexts in which the
machine asks them. A call is the host's own: of each tool of the engine, with the smallest arguments that its schema allows. Values of
the host are missing, as in a run that was given none.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from ...states.base.errors import HostFunctionError
from ...states.run.phase_names import PLANNING
from ...states.run.spec import ToolSpec
from ..decision.guard_context import GuardContext
from ..machine.host_rows import NO_HOST, HostGuard, host_value
from ..machine.machine import Machine
from ..machine.table import Row
from .findings import Finding
from .smallest import smallest_of

CONTEXTS_MAX = 100
"""Contexts with which one function is called; the first ones of an exploration are the shortest ways to it."""


class HostFunctions:
    """
    The functions of one machine, and what was found of them.

    Args:
        machine: With the host's real functions.
        tools: Of the engine; calls are made of these.
    """

    def __init__(self, machine: Machine, tools: Sequence[ToolSpec]) -> None:
        self._machine, self._tools = machine, tools
        self._calls: dict[str, int] = {}
        self.findings: dict[tuple[str, str], Finding] = {}

    def look(self, case: GuardContext, row: Row, guards: dict[str, bool]) -> None:
        """Call the functions that a decision has asked, with its context."""
        host = self._machine.host
        if host is NO_HOST:
            return
        for name in guards:
            if name in host.guards:
                self._hold(f"guard {name}", host.guards[name], case, bool)
        phase = host.phases.get(row.source)
        if phase is not None and row.trigger == "call" and callable(phase.arguments):
            self._hold(f"{phase.name}.arguments", phase.arguments, case, dict)
        if phase is not None and row.trigger == "wait" and callable(phase.question):
            self._hold(f"{phase.name}.question", phase.question, case, str)
        tell = host.tells.get((row.source, row.trigger))
        if tell is not None and row.dest == PLANNING:
            self._hold(f"{row.source}.{row.trigger}.tell", tell, case, str)

    def _hold(self, place: str, function: Any, case: GuardContext, kind: type) -> None:
        """Note what is wrong with *function* for *case*."""
        if self._calls.get(place, 0) >= CONTEXTS_MAX:
            return
        self._calls[place] = self._calls.get(place, 0) + 1
        for context in self._contexts(case, function):
            found = _wrong_with(function, context, kind)
            if found is not None:
                self.findings.setdefault((found[0], place), Finding(found[0], place, found[1]))

    def _contexts(self, case: GuardContext, function: Any) -> Iterator[GuardContext]:
        """Yield *case* as it is in a run of the engine's own tools; with no call at hand, as it is."""
        intent = case.intent or case.run.memory.intent
        if intent is None or not self._tools:
            yield case
            return
        for tool in self._tools:
            made = replace(intent, tool=tool.name, arguments=smallest_of(tool.parameters), effect=tool.effect)
            memory = replace(case.run.memory, intent=made if case.run.memory.intent is not None else None)
            yield replace(case, intent=made, arguments=made.arguments, run=replace(case.run, memory=memory))


def _wrong_with(function: Any, case: GuardContext, kind: type) -> tuple[str, str] | None:
    """Return code and words of what is wrong with a function for a context, None for nothing."""
    kept = (
        case.run.spec,
        case.phase,
    )  # none of the host's functions is given a way to them that could change them
    before = copy.deepcopy(case, {id(item): item for item in kept if item is not None})
    try:
        values = [
            function(case) if isinstance(function, HostGuard) else host_value(function, case, kind)
            for _ in range(2)
        ]
    except HostFunctionError as error:
        told = str(error).partition("the host's function ")[2] or str(error)
        missing = (
            "; a value of the host may be missing: use context.values.get(...)" if "KeyError" in told else ""
        )
        return "guard_raises", f"{told} (in {case.run.state}){missing}"
    if values[0] != values[1]:
        return "impure_guard", f"gives {values[0]!a:.60} and then {values[1]!a:.60} for the same context"
    return None if case == before else ("impure_guard", "changes its context")
