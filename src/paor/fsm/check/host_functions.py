"""
The functions of a host's own machine, called with what an exploration comes to: none may raise, give something else, or differ.

A proof takes them for free choices (`fsm.check.free_machine`); here they are called themselves, twice with every context in which the
machine asks them. Calls are also made the host's own: of each tool of the engine, with the smallest arguments that its schema allows.

Some contexts come only from choices that the host's guards did not make there. A function that fails in such ones alone is a note: perhaps
no run comes to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from ...states.base.errors import HostFunctionError
from ...states.run.spec import ToolSpec
from ...tools.policy import matches
from ..decision.guard_context import GuardContext
from ..decision.host_machine import Unbound
from ..machine.host_rows import HostGuard, host_value
from .findings import Finding
from .smallest import smallest_of

VARIED_MAX = 100
"""Contexts of one function in which it is also called for each of the engine's tools."""

DEFAULT = "; a run need not have the value: give it a default, context.values.get({!r}, ...)"


class MissingValue(KeyError):
    """A function of the host wants a value that a run need not have."""


class MissingValues(dict[str, Any]):
    """
    The values of a run that was given none, which know what was asked of them without a default.

    Attributes:
        missed: Those names.
    """

    def __init__(self) -> None:
        super().__init__()
        self.missed: list[str] = []

    def __missing__(self, name: str) -> Any:
        """Raise what tells a missing value from any other missing name."""
        raise MissingValue(name)

    def get(self, name: str, default: Any = None) -> Any:
        """Return *default*, as any dictionary without the name."""
        if default is None and name not in self:
            self.missed.append(name)
        return super().get(name, default)


class HostFunctions:
    """
    What was found of the functions of one machine.

    Args:
        tools: Of the engine; calls are made of these.
    """

    def __init__(self, tools: Sequence[ToolSpec] = ()) -> None:
        self._tools = tools
        self._varied = Counter[str]()
        self._spoilt = set[str]()
        self._fine = set[str]()
        self._sure: dict[tuple[str, str], Finding] = {}
        self._perhaps: dict[tuple[str, str], Finding] = {}

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is wrong with a function in a run, or wherever it was called."""
        always = (item for item in self._perhaps.values() if item.place not in self._fine)
        return tuple({(item.code, item.place): item for item in (*always, *self._sure.values())}.values())

    @property
    def notes(self) -> tuple[Finding, ...]:
        """What is wrong with one in contexts that perhaps no run comes to."""
        found = self.findings
        return tuple(
            item for item in self._perhaps.values() if item not in found and item.place in self._fine
        )

    def look(
        self, place: str, function: Callable[..., Any], case: GuardContext, kind: type, *, certain: bool
    ) -> Any:
        """
        Return what *function* gives for *case*, None where that cannot be used; note what is wrong with it.

        Args:
            place: How a finding names it.
            function: The host's own.
            case: With what the machine asks it.
            kind: What it must give.
            certain: Whether the host's own guards lead there.
        """
        plain = function.function if isinstance(function, HostGuard) else function
        if isinstance(plain, Unbound) or place in self._spoilt:
            return None
        value = self._called(place, function, case, kind, certain=certain)
        if self._varied[place] < VARIED_MAX and (case.intent or case.run.memory.intent) is not None:
            self._varied[place] += 1
            for varied in self._with_tools(case, function):
                self._called(place, function, varied, kind, certain=certain)
        return value

    def _called(self, place: str, function: Any, case: GuardContext, kind: type, *, certain: bool) -> Any:
        values: list[Any] = []
        held = case.run.spec.values
        if isinstance(held, MissingValues):
            held.missed.clear()
        before = _can_change(case)
        wrong: tuple[str, str, bool] | None = None
        try:
            for _ in range(2):
                values.append(
                    function(case) if isinstance(function, HostGuard) else host_value(function, case, kind)
                )
        except HostFunctionError as error:
            wrong = "guard_raises", *_told(error, case)
        if _can_change(case) != before:
            self._spoilt.add(place)
            held.clear()  # as it was; all runs of a world have the same
            wrong = "impure_guard", "it changes its context", True
        elif len(values) == 1:
            wrong = "impure_guard", "it gives a value and then raises, for the same context", True
        elif len(values) == 2 and values[0] != values[1]:
            told = f"it gives {values[0]!a:.60} and then {values[1]!a:.60} for the same context"
            wrong = "impure_guard", told, True
        if wrong is None:
            self._fine.add(place)
            return values[0]
        code, told, always = wrong
        found = self._sure if certain or always else self._perhaps
        found.setdefault((code, place), Finding(code, place, told))
        return None

    def _with_tools(self, case: GuardContext, function: Any) -> Iterator[GuardContext]:
        """Yield *case* with a call of each tool of the engine that the function may be asked for."""
        intent = case.intent or case.run.memory.intent
        assert intent is not None, "there is a call"
        wanted = function.tools if isinstance(function, HostGuard) else None
        for tool in self._tools:
            if wanted is not None and not matches(tool.name, wanted):
                continue
            made = replace(intent, tool=tool.name, arguments=smallest_of(tool.parameters), effect=tool.effect)
            kept = made if case.run.memory.intent is not None else None
            run = replace(case.run, memory=replace(case.run.memory, intent=kept))
            chosen = case.selection and case.selection.model_copy(update={"tool": tool.name})
            yield replace(case, intent=made, selection=chosen, arguments=dict(made.arguments), run=run)


def _told(error: HostFunctionError, case: GuardContext) -> tuple[str, bool]:
    """Return what a function did instead of giving a value, and whether that is wrong wherever it happens."""
    told = str(error).partition("the host's function ")[2] or str(error)
    cause = error.__cause__
    missed: list[str] = getattr(case.run.spec.values, "missed", [])
    if isinstance(cause, MissingValue):
        return f"{told.replace('MissingValue', 'KeyError')}{DEFAULT.format(cause.args[0])}", True
    if isinstance(cause, TypeError) and missed:
        return f"{told}{DEFAULT.format(missed[-1])}", True
    return f"{told} (in {case.run.state})", False


def _can_change(case: GuardContext) -> tuple[Any, ...]:
    """Return what of a context a function could change: its fields, and what the mappings and lists in it hold."""
    run, memory = case.run, case.run.memory
    fields = tuple(id(getattr(case, name)) for name in case.__struct_fields__)
    calls = (case.intent, memory.intent, case.selection, memory.selection)
    held = (
        [call.arguments for call in calls if call is not None],
        case.arguments,
        run.spec.values,
        case.fresh,
        run.counters.own,
        case.visit,
        [visit.value for visit in memory.visits.values()],
        memory.plan,
        case.plan,
    )
    return fields, repr(held)
