"""
A host's own machine for exploring: whatever its functions may say, they say.

No world can list the values that a host's guards look at. So each guard of the host's own is a free choice, and so are the bounds of its
rows (``rework_left``) and what a phase's call is made with: a decision that asks is taken once for each choice. What is proven then holds
for any guards, any arguments and any ``at_most``. A choice is part of the move (``own``), so that a path can be walked again.

The first choice is what the host's function really says of the context (`fsm.check.host_functions` calls it). A walk that needs no other
choice is *natural*; the exploration goes by such walks first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from ...states.phase import Phase
from ...states.run.spec import Spec, ToolSpec
from ...states.settings.policy import ApprovalRule, Policy
from ..decision.guard_context import GuardContext
from ..machine.host_rows import NO_HOST, Host, HostGuard
from ..machine.machine import Machine
from .findings import Move
from .host_functions import HostFunctions, MissingValues
from .smallest import fitting_values

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


def with_changes(machine: Machine, changes: Any) -> Machine:
    """Return a copy of a `free_machine` whose rows set what *changes* says."""
    if machine.host is NO_HOST:
        return Machine(machine.table, machine.waiting, machine.guards, changes)
    copy = Machine(machine.table, machine.waiting, host=machine.host)
    object.__setattr__(copy, "changes", changes)  # a machine of our own, which no run walks
    return copy


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


__all__ = ["Oracle", "branches", "free_machine", "own_raised", "with_changes", "with_host"]
