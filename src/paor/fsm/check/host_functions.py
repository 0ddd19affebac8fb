"""
The functions of a host's own machine, called with what an exploration comes to: none may raise, give something else, or differ.

A proof takes them for free choices (`free_machine`); here they are called themselves, twice with every context in which the
machine asks them. Calls are also made the host's own: of each tool of the engine, with the smallest arguments that its schema allows.

Some contexts come only from choices that the host's guards did not make there. A function that fails in such ones alone is a note: perhaps
no run comes to it.

A host's own machine for exploring: whatever its functions may say, they say.

No world can list the values that a host's guards look at. So each guard of the host's own is a free choice, and so are the bounds of its
rows (``rework_left``) and what a phase's call is made with: a decision that asks is taken once for each choice. What is proven then holds
for any guards, any arguments and any ``at_most``. A choice is part of the move (``own``), so that a path can be walked again.

The first choice is what the host's function really says of the context (`fsm.check.host_functions` calls it). A walk that needs no other
choice is *natural*; the exploration goes by such walks first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
from msgspec.structs import replace

from ...states.base.errors import HostFunctionError
from ...states.phase import Phase
from ...states.run.spec import Spec, ToolSpec
from ...states.settings.policy import ApprovalRule, Policy
from ...tools.policy import matches
from ..decision.guard_context import GuardContext
from ..decision.host_machine import Unbound
from ..machine.host_rows import NO_HOST, Host, HostGuard, host_value
from ..machine.machine import Machine
from .findings import Finding, Move
from .inputs import fitting_values, smallest_of

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


PHASE_PARAMETERS = {
    "type": "object",
    "properties": {"text": {"type": "string"}},
    "required": ["text"],
    "additionalProperties": False,
}
"""Of the tools that phases call, whatever they are."""

ARGUMENTS: dict[str, dict[str, Any]] = {
    "valid": {"text": "n"},
    "to be approved": {"text": "a"},
    "invalid": {},
}
"""What a phase's call may be made with, by the name of the choice; a call that the policy denies is refused like an invalid one."""

WORDS = "words of the host"


@dataclass
class Oracle:
    """
    What the host's functions say in the decision that is being made.

    Attributes:
        functions: Calls the host's real ones; None: nobody does.
        forced: By name, what was chosen.
        said: By name, in the order in which it was asked, what was said.
        others: Likewise what else could have been said.
        strained: Whether something was said that the real function does not say here.
        certain: Whether the run's state can be come to by natural choices.
        asks: Whether the machine asks; while it is asked a second time for the same decision nothing is called.
    """

    functions: HostFunctions | None = None
    forced: Mapping[str, Any] = field(default_factory=dict)
    said: dict[str, Any] = field(default_factory=dict)
    others: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    strained: bool = False
    certain: bool = True
    asks: bool = True

    def begin(self, forced: Mapping[str, Any]) -> None:
        """Begin another decision, in which *forced* is said."""
        self.forced, self.said, self.others = forced, {}, {}
        self.strained, self.asks = False, True

    def say(self, name: str, choices: Sequence[Any], natural: Any = None) -> Any:
        """Return what *name* says: what is forced, else what is *natural*, else the first choice."""
        if name in self.said:
            return self.said[name]
        value = self.forced.get(name, choices[0] if natural is None else natural)
        self.said[name], self.others[name] = value, tuple(item for item in choices if item != value)
        self.strained = self.strained or (natural is not None and value != natural)
        return value

    def look(self, place: str, function: Callable[..., Any], case: GuardContext, kind: type) -> Any:
        """Return what the host's real function gives, None where it is not called or gives nothing that could be used."""
        if self.functions is None or not self.asks:
            return None
        return self.functions.look(place, function, case, kind, certain=self.certain and not self.strained)


def free_machine(machine: Machine, oracle: Oracle) -> Machine:
    """Return *machine* with guards, arguments and bounds that *oracle* says, and with fixed words; the standard one as it is."""
    own = machine.host
    if own is NO_HOST:
        return machine
    guards = {name: HostGuard(name, _guard(oracle, guard)) for name, guard in own.guards.items()}
    for row in machine.rows:
        if row.at_most:
            guards[f"{row.trigger}_left"] = HostGuard(f"{row.trigger}_left", _bound(oracle, row.trigger))
    host = Host(
        initial=own.initial,
        guards=guards,
        phases={name: _free_phase(oracle, phase) for name, phase in own.phases.items()},
        tells={place: _words(oracle, f"{'.'.join(place)}.tell", tell) for place, tell in own.tells.items()},
    )
    return Machine(machine.table, machine.waiting, host=host)


def _guard(oracle: Oracle, guard: HostGuard) -> Callable[[GuardContext], bool]:
    def chosen(case: GuardContext) -> bool:
        known = guard.name in oracle.said
        natural = None if known else oracle.look(f"guard {guard.name}", guard, case, bool)
        return bool(oracle.say(guard.name, (True, False), natural))

    chosen.__name__, chosen.__doc__ = guard.name, guard.__doc__
    return chosen


def _bound(oracle: Oracle, trigger: str) -> Callable[[GuardContext], bool]:
    """Return the guard of a bound that may be anywhere: a walk that has taken the row once is natural with it used up, too."""

    def chosen(case: GuardContext) -> bool:
        natural = None if case.run.counters.own.get(trigger) else True
        return bool(oracle.say(f"{trigger}_left", (True, False), natural))

    chosen.__name__ = f"{trigger}_left"
    return chosen


def _free_phase(oracle: Oracle, phase: Phase) -> Phase:
    asks: dict[str, Any] = {name: getattr(phase, name) for name in ("prompt", "chooses", "tool", "answer")}
    if phase.reply is not None:
        asks["reply"] = phase.reply if fitting_values(phase.reply) else {**_ANY, "properties": {"x": {}}}
    if phase.question is not None:
        given = phase.question
        asks["question"] = _words(oracle, f"{phase.name}.question", given) if callable(given) else given
    if phase.tool is not None:
        asks["arguments"] = _arguments(oracle, phase)
    return Phase(phase.name, **asks)


_ANY: dict[str, Any] = {"type": "object"}


def _arguments(oracle: Oracle, phase: Phase) -> Callable[[GuardContext], dict[str, Any]]:
    def arguments(case: GuardContext) -> dict[str, Any]:
        if callable(phase.arguments):
            oracle.look(f"{phase.name}.arguments", phase.arguments, case, dict)
        return ARGUMENTS[oracle.say(f"{phase.name}.arguments", tuple(ARGUMENTS))]

    return arguments


def _words(oracle: Oracle, place: str, function: Callable[..., str]) -> Callable[[GuardContext], str]:
    def words(case: GuardContext) -> str:
        oracle.look(place, function, case, str)
        return WORDS

    return words


def with_host(spec: Spec, machine: Machine) -> Spec:
    """Return the spec of a world whose runs walk *machine*, a `free_machine`."""
    if machine.host is NO_HOST:
        return spec
    phases = machine.host.phases.values()
    prompts = {phase.name: phase.prompt for phase in phases if phase.prompt is not None}
    names = tuple(dict.fromkeys(phase.tool for phase in phases if phase.tool is not None))
    rules = tuple(ApprovalRule(tool=name, arguments=_APPROVED) for name in names)
    update = {
        "host_machine": orjson.dumps(machine.to_dict(), option=orjson.OPT_SORT_KEYS).decode(),
        "phase_tools": tuple(
            ToolSpec(name=name, parameters=PHASE_PARAMETERS, effect="once", step_retries=1) for name in names
        ),
        "templates": {**spec.templates, **prompts},
        "policy": Policy(deny=spec.policy.deny, approvals=(*spec.policy.approvals, *rules)),
        "values": MissingValues(),
    }
    return spec.model_copy(update=update)


_APPROVED: dict[str, Any] = {"text": "a*"}


def own_raised(before: Mapping[str, int], after: Mapping[str, int]) -> tuple[str, ...]:
    """Return the counters of the host's own rows that a transition has raised; nothing ever lowers one."""
    if before is after:
        return ()
    return tuple(f"own.{name}" for name, count in after.items() if count > before.get(name, 0))


def branches(oracle: Oracle, take: Callable[[Move], Any], move: Move) -> Iterator[tuple[Move, Any]]:
    """Yield *move* with every choice of what the host's functions say in it, each with what *take* returns or raises."""
    pending: list[dict[str, Any]] = [{}]
    while pending:
        forced = pending.pop()
        try:
            taken = take({**move, "own": forced} if forced else move)
        except Exception as error:  # noqa: BLE001 - an edited effect can raise anything; who asks is told
            taken = error
        said = oracle.said
        if not said:
            yield move, taken
            return
        names = list(said)
        for number, name in enumerate(names):
            if name not in forced:
                before = {known: said[known] for known in names[:number]}
                pending += [{**before, name: value} for value in oracle.others[name]]
        yield {**move, "own": dict(said)}, taken
