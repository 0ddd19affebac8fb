"""
A host's own machine for exploring: whatever its guards and functions may say, they say.

No world can list the values that a host's guards look at. So each of them is a free choice: a decision that asks one is taken twice, with
it holding and with it not. What is proven then holds for any guards whatever, and what is said of arguments, questions and words holds for
any texts. A choice is part of the move (``own``), so a path can be walked again. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from ...states.phase import Phase
from ...states.run.spec import Spec, ToolSpec
from ...states.run.state import Counters
from ..decision.guard_context import GuardContext
from ..machine.host_rows import NO_HOST, HostGuard
from ..machine.machine import Machine
from .findings import Move

OWN_BOUND = 1
"""Where the bound of a host's own row is cut; beyond it its counter is explored as *at least that far from its bound*."""


class Unchosen(BaseException):
    """A decision asks a guard of the host's own that was not chosen yet; no part of the machine catches it."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


@dataclass
class Choices:
    """
    What the guards of the host's own say in the decision that is being made.

    Attributes:
        values: By name; one that is missing is to be chosen.
    """

    values: dict[str, bool] = field(default_factory=dict)

    def guard(self, name: str) -> Callable[[GuardContext], bool]:
        """Return a guard that says what was chosen."""

        def chosen(context: GuardContext) -> bool:
            if name not in self.values:
                raise Unchosen(name)
            return self.values[name]

        chosen.__name__ = name
        return chosen


def free_machine(machine: Machine, choices: Choices, changes: Any = None) -> Machine:
    """
    Return *machine* with guards that *choices* decides, and with fixed arguments, questions and words.

    Args:
        machine: Any; the standard one comes back as it is but for *changes*.
        choices: What decides.
        changes: Wraps the functions of what rows set, by source and trigger; None leaves them.
    """
    if machine.host is NO_HOST:
        return Machine(machine.table, machine.waiting, machine.guards, changes or machine.changes)
    own = machine.host
    host = replace(
        own,
        guards={name: HostGuard(name, choices.guard(name)) for name in own.guards},
        phases={name: _fixed(phase) for name, phase in own.phases.items()},
        tells=dict.fromkeys(own.tells, _some_words),
        callbacks=(),
    )
    table = tuple(
        row if row.at_most <= OWN_BOUND else replace(row, at_most=OWN_BOUND) for row in machine.table
    )
    free = Machine(table, machine.waiting, host=host)
    return free if changes is None else _with_changes(free, changes)


def _with_changes(machine: Machine, changes: Any) -> Machine:
    object.__setattr__(machine, "changes", changes)  # a copy of our own, which no run walks
    return machine


def _fixed(phase: Phase) -> Phase:
    question = _some_words if callable(phase.question) else phase.question
    arguments = {} if callable(phase.arguments) else phase.arguments
    asks: dict[str, Any] = {
        name: getattr(phase, name) for name in ("prompt", "reply", "chooses", "tool", "answer")
    }
    return Phase(phase.name, question=question, arguments=arguments, **asks)


def _some_words(context: GuardContext) -> str:
    return "words of the host"


def with_host(spec: Spec, machine: Machine) -> Spec:
    """Return the spec of a world whose runs walk *machine*."""
    host = machine.host
    if host is NO_HOST:
        return spec
    prompts = {name: phase.prompt for name, phase in host.phases.items() if phase.prompt is not None}
    names = dict.fromkeys(phase.tool for phase in host.phases.values() if phase.tool is not None)
    tools = tuple(ToolSpec(name=name, parameters={"type": "object"}, effect="once") for name in names)
    text = orjson.dumps(machine.to_dict(), option=orjson.OPT_SORT_KEYS).decode()
    update = {"host_machine": text, "phase_tools": tools, "templates": {**spec.templates, **prompts}}
    return spec.model_copy(update=update)


def bounds_of(machine: Machine) -> dict[str, int]:
    """Return the bounds of the host's own rows, by the name of the counter in a state: ``own.TRIGGER``."""
    return {f"own.{row.trigger}": row.at_most for row in machine.rows if row.at_most}


def own_raised(before: Mapping[str, int], after: Mapping[str, int]) -> tuple[str, ...]:
    """Return the counters of the host's own rows that a transition has raised; nothing ever lowers one."""
    return tuple(f"own.{name}" for name, count in after.items() if count > before.get(name, 0))


def own_held(before: Mapping[str, int], after: Mapping[str, int], held: Sequence[str]) -> dict[str, int]:
    """Return the counters after a transition, those of *held* as they were before it."""
    return {name: before.get(name, 0) if f"own.{name}" in held else count for name, count in after.items()}


def value_of(counters: Counters, name: str) -> int:
    """Return a counter by the name that it has in a state."""
    if name.startswith("own."):
        return counters.own.get(name.removeprefix("own."), 0)
    value: int = getattr(counters, name)
    return value


def moves_with(move: Move, values: dict[str, bool]) -> Move:
    """Return *move* with what the host's guards say meanwhile."""
    return {**move, "own": dict(sorted(values.items()))} if values else move


def branches(take: Callable[[Move], Any], move: Move) -> Iterator[tuple[Move, Callable[[], Any]]]:
    """Yield *move* with every choice of what the host's guards say in it, each with what then comes of it."""
    pending: list[dict[str, bool]] = [{}]
    while pending:
        values = pending.pop()
        chosen = moves_with(move, values)
        try:
            taken = take(chosen)
        except Unchosen as missing:
            pending += [{**values, missing.name: value} for value in (False, True)]
            continue
        except Exception as error:  # noqa: BLE001 - an edited effect can raise anything; who asks is told
            yield chosen, _raiser(error)
            continue
        yield chosen, _giver(taken)


def _raiser(error: Exception) -> Callable[[], Any]:
    def again() -> Any:
        raise error

    return again


def _giver(value: Any) -> Callable[[], Any]:
    return lambda: value
