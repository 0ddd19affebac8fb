"""The data of a machine that is none: each kind of damage is one clear line. (The property of any damage is in diagrams/test_host_machine_drawing.py.)"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from paor import Machine
from paor.errors import UsageError
from paor.machine import GuardContext, defects_of

from ..support.own_machines import escalating, two_reviewers, verifying


def row_of(data: dict[str, Any], trigger: str) -> dict[str, Any]:
    """Return the first row of a trigger."""
    found: dict[str, Any] = next(item for item in data["transitions"] if item["trigger"] == trigger)
    return found


def nested(data: dict[str, Any]) -> None:
    """Nest an answer's schema so deeply that nothing can walk it."""
    inner: dict[str, Any] = {}
    for _ in range(20_000):
        inner = {"properties": {"a": inner}}
    data["states"][-1]["asks"]["answer"] = inner


DAMAGE: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "a key less": (lambda data: data.pop("initial"), "missing required field `initial`"),
    "a number for a name": (
        lambda data: row_of(data, "look").update(source=1),
        "Expected `str`, got `int` - at `$.transitions[",
    ),
    "a text for a list": (
        lambda data: row_of(data, "look").update(conditions="a"),
        "Expected `array`, got `str` - at `$.transitions[",
    ),
    "a phase less": (lambda data: data["states"].pop(0), "the seven phases"),
    "a final beginning": (lambda data: data.update(initial="Done"), "in which a run could begin"),
    "a row to nowhere": (lambda data: row_of(data, "look").update(dest="Moon"), "there is no way"),
    "no row out of a phase": (
        lambda data: data.update(
            transitions=[row for row in data["transitions"] if row["source"] != "Observing"]
        ),
        "no row leads on from 'Observing'",
    ),
    "guards of a row that are others": (
        lambda data: row_of(data, "look").update(guards=["a"]),
        "are not its conditions",
    ),
    "a flag that is none": (
        lambda data: row_of(data, "look").update(host="yes"),
        "Expected `bool`, got `str`",
    ),
    "a bound that is none": (lambda data: row_of(data, "look").update(at_most=-1), "Expected `int` >= 0"),
    "a phase that asks for two things": (
        lambda data: data["states"][-1]["asks"].update(tool="a.b"),
        "one thing at most",
    ),
    "too deep": (nested, "this is no machine's data"),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_damaged_data_is_one_clear_line(what: str) -> None:
    """And never another error."""
    damage, told = DAMAGE[what]
    data = copy.deepcopy(two_reviewers().to_dict())
    damage(data)
    with pytest.raises(UsageError) as caught:
        Machine.from_dict(data)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_functions_come_back_by_their_names() -> None:
    """A phase or a guard that the engine's machine does not have stays by its name alone."""
    recorded = escalating().to_dict()
    again = Machine.from_dict(recorded, escalating())
    assert again.host.phases["Escalating"].question is escalating().host.phases["Escalating"].question
    other = Machine.from_dict(recorded, verifying())
    assert type(other.host.phases["Escalating"].question).__name__ == "Unbound"
    assert type(other.host.guards["two_failures"].function).__name__ == "Unbound"


def test_the_standard_machine_has_no_defect() -> None:
    """What is proven elsewhere is not looked at again."""
    assert defects_of(Machine.standard()) == ()


def nobody() -> bool:
    """It takes no context."""
    return True


async def later(context: GuardContext) -> bool:
    """It is not there yet."""
    return True


@pytest.mark.parametrize(("guard", "told"), [(nobody, "must take one argument"), (later, "cannot be async")])
def test_a_guard_that_cannot_be_called_with_a_context_is_refused(guard: Any, told: str) -> None:
    """Where it is added."""
    with pytest.raises(UsageError, match=told):
        Machine.standard().require("specify", guard)


def test_what_has_no_signature_is_simply_called() -> None:
    """Whether it gives what a guard gives is another question."""
    machine = Machine.standard().require("specify", dict)  # type: ignore[arg-type]
    assert defects_of(machine) == ()


def test_a_row_that_others_leave_takes_no_condition() -> None:
    """Else a case would be left that no row takes."""
    with pytest.raises(UsageError, match="what the other rows of Verifying leave"):
        verifying().require("give_up", nobody_fails)


def nobody_fails(context: GuardContext) -> bool:
    """Nobody gives up."""
    return False


def test_a_guard_of_a_machine_can_be_required_again() -> None:
    """As the machine has it, with its tools."""
    machine = two_reviewers()
    again = machine.require("finish", machine.host.guards["four_eyes"])
    assert again.host.guards["four_eyes"] is machine.host.guards["four_eyes"]
