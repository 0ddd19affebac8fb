"""
No machine, whoever made it, lets a call pass that is denied or that nobody has approved.

The methods of a machine give only safe ones; what is read from data or from a journal is held to the same. Here the standard machine's data, and
that of machines of a host's own, is damaged at random: what is accepted all the same keeps every promise, and runs of it pay nothing unasked.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from paor import Engine, Journal, Limits, Machine, Policy, ScriptedModel, tool
from paor.errors import PaorError, UsageError
from paor.machine import GuardContext, NoOutcome
from paor.testing import call, refine

from ..support.cases import run_in
from ..support.own_machines import escalating, two_reviewers, verifying
from .inside import DECIDE, GUARDS, HOST_GUARDS, SETTLE, Row, Walker

Data = dict[str, Any]
PHASES = ("Planning", "Specifying", "Executing", "Observing", "Reviewing", "Done", "Failed")
"""The phases of every machine."""


def often(context: GuardContext) -> bool:
    """More than one step was taken."""
    return context.counters.step > 1


BASES: dict[str, Machine] = {
    "standard": Machine.standard(),
    "verifying": verifying(),
    "escalating": escalating(),
    "two_reviewers": two_reviewers(),
    "required": Machine.standard().require("select", often).require("finish", often),
}


# -- damage --------------------------------------------------------------------------------------------------------


def row_in(data: Data, dice: random.Random) -> Data:
    found: Data = dice.choice(data["transitions"])
    return found


def remove(data: Data, dice: random.Random) -> None:
    data["transitions"].remove(row_in(data, dice))


def move(data: Data, dice: random.Random) -> None:
    row = row_in(data, dice)
    data["transitions"].remove(row)
    data["transitions"].insert(dice.randrange(len(data["transitions"]) + 1), row)


def repeat(data: Data, dice: random.Random) -> None:
    data["transitions"].insert(
        dice.randrange(len(data["transitions"])), copy.deepcopy(row_in(data, dice)) | {"host": True}
    )


def redirect(data: Data, dice: random.Random) -> None:
    row_in(data, dice)[dice.choice(("source", "dest"))] = dice.choice(
        [item["name"] for item in data["states"]]
    )


def rename(data: Data, dice: random.Random) -> None:
    row_in(data, dice)["trigger"] = dice.choice(
        [*(row["trigger"] for row in data["transitions"]), "go", "steps", "elicitations", "retries"]
    )


def guards_of(row: Data) -> list[str]:
    """Return a row's guards, and let them be told in one form alone."""
    given = row.pop("guards", None)
    told = [*row.pop("conditions", ()), *(f"not {name}" for name in row.pop("unless", ()))]
    return given or told


def set_guards(row: Data, guards: list[str]) -> None:
    row["conditions"] = [name for name in guards if not name.startswith("not ")]
    row["unless"] = [name[4:] for name in guards if name.startswith("not ")]


def drop_guard(data: Data, dice: random.Random) -> None:
    row = row_in(data, dice)
    guards = guards_of(row)
    if guards:
        guards.remove(dice.choice(guards))
    set_guards(row, guards)


def turn_guard(data: Data, dice: random.Random) -> None:
    row = row_in(data, dice)
    guards = guards_of(row)
    if guards:
        at = dice.randrange(len(guards))
        guards[at] = guards[at][4:] if guards[at].startswith("not ") else f"not {guards[at]}"
    set_guards(row, guards)


def add_guard(data: Data, dice: random.Random) -> None:
    row = row_in(data, dice)
    set_guards(
        row, [*guards_of(row), dice.choice(("", "not ")) + dice.choice(sorted({*GUARDS, *HOST_GUARDS}))]
    )


def swap_guards(data: Data, dice: random.Random) -> None:
    one, two = row_in(data, dice), row_in(data, dice)
    first, second = guards_of(one), guards_of(two)
    set_guards(one, second)
    set_guards(two, first if one is not two else second)


def flag(data: Data, dice: random.Random) -> None:
    row = row_in(data, dice)
    name = dice.choice(("answers", "host"))
    row[name] = not row.get(name, False)


def bound(data: Data, dice: random.Random) -> None:
    row = row_in(data, dice)
    row["at_most"] = dice.choice((0, 1, 10**9))


def add_row(data: Data, dice: random.Random) -> None:
    names = [item["name"] for item in data["states"]]
    guards = dice.sample(sorted(GUARDS), dice.randrange(3))
    row: Data = {
        "trigger": dice.choice(("go", "specify", "wait", "fail", "steps", "elicitations", "call", "provide")),
        "source": dice.choice(names),
        "dest": dice.choice(names),
        "conditions": guards,
        "host": dice.random() < 0.8,
    }
    row |= {"at_most": 1_000_000} if dice.random() < 0.5 else {}
    data["transitions"].insert(dice.randrange(len(data["transitions"]) + 1), row)


def name_guard(data: Data, dice: random.Random) -> None:
    name = dice.choice((*sorted(GUARDS), *sorted(HOST_GUARDS), "rework_left", "called_by_Verifying", "mine"))
    data.setdefault("guards", []).append({"name": name, "sentence": "It holds."})


def ask_values(data: Data, dice: random.Random) -> None:
    data["values"] = [row_in(data, dice)["trigger"]]


def tell(data: Data, dice: random.Random) -> None:
    row_in(data, dice)["tell"] = "told"


def begin(data: Data, dice: random.Random) -> None:
    data["initial"] = dice.choice(data["states"])["name"]


def words(data: Data, dice: random.Random) -> None:
    row_in(data, dice)["meaning"] = "other words"


DAMAGES: tuple[Callable[[Data, random.Random], None], ...] = (
    *(remove, move, repeat, redirect, rename, drop_guard, turn_guard, add_guard, swap_guards),
    *(flag, bound, add_row, name_guard, ask_values, tell, begin, words),
)


def damaged(count: int, seed: int) -> Iterator[tuple[str, Data]]:
    """Yield the data of machines, each with one to three damages."""
    dice = random.Random(seed)
    told = {name: machine.to_dict() for name, machine in BASES.items()}
    for _ in range(count):
        name = dice.choice(("standard", "standard", *BASES))
        data = copy.deepcopy(told[name])
        for damage in dice.choices(DAMAGES, k=dice.choice((1, 1, 2, 3))):
            damage(data, dice)
        yield name, json.loads(json.dumps(data))


# -- what an accepted machine promises, asked of `transitions` itself ------------------------------------------------


class Told(dict[str, bool]):
    """Values of guards that were evaluated already; whichever else is asked for has a value by chance."""

    def __init__(self, dice: random.Random, **values: bool) -> None:
        super().__init__(values)
        self.dice = dice

    def get(self, name: str, default: Any = None) -> Any:
        """Return the guard's value."""
        if name not in self:
            self[name] = self.dice.random() < 0.7
        return self[name]


def decided(machine: Machine, phase: str, guards: Told, event: str = DECIDE) -> Row | None:
    """Return the row that the machine takes in a phase where the guards have these values."""
    walker = Walker(GuardContext(run_in("Planning"), NoOutcome()))
    walker.state, walker.guards = phase, guards
    return walker.row if machine.events[event].trigger(walker) else None


CALL = ("parameters_valid", "parameters_safe", "action_allowed")


def check_promises(machine: Machine, dice: random.Random) -> None:
    """What the guards say is drawn at random, and what is taken keeps to what they say."""
    for phase in machine.states:
        if phase in ("Done", "Failed"):
            continue
        for _ in range(4):
            guards = Told(dice, hard_stop=dice.random() < 0.1)
            row = decided(machine, phase, guards)
            if guards["hard_stop"] and phase != "Observing":
                assert row is not None and (row.trigger, row.dest) == ("fail", "Failed")
                continue
            if row is None:  # a case that no row takes is no event at all; an engine refuses such a machine
                continue
            if row.dest == "Executing" and phase != "Executing":
                assert phase == "Specifying" and all(guards[name] for name in CALL)
                assert not guards["duplicate"]
                assert not (guards["approval_needed"] and guards["elicitations_left"])
                assert not (guards["argument_missing"] and guards["elicitations_left"])
            if phase == "Specifying" and row.dest == "Observing":
                assert row.trigger == "refuse"
            if phase == "Executing":
                assert row.dest in ("Executing", "Observing")
                assert not guards["in_doubt"] or row.trigger == "wait"
            if phase == "Observing":
                assert row.trigger == "observe"
            if row.dest == "Done" and not row.host:
                assert phase == "Reviewing"
                assert guards["review_success"] or (guards["budget_used_up"] and guards["criteria_met"])
            assert row.dest != "Done" or phase not in PHASES or phase == "Reviewing"
            if row.trigger in ("select", "retry") and not row.host:
                assert guards["steps_left"]
        guards = Told(dice, hard_stop=False)
        if machine.events[SETTLE].transitions.get(phase):
            settled = decided(machine, phase, guards, SETTLE)
            assert settled is None or settled.trigger == "provide"


@tool("bank.pay", effect="once")
def pay(to: str, amount: int) -> str:
    """Pay somebody."""
    PAID.append(amount)
    return "paid"


PAID: list[int] = []


def check_for_real(machine: Machine) -> None:
    """Run the machine with a policy that denies the call, and with one that wants it approved: nothing is paid."""
    for policy in (Policy(deny=("bank.*",)), Policy(approvals=("bank.*",))):
        PAID.clear()
        # an engine may refuse the machine for another reason, and a run come to where a function or a reply is not there
        with suppress(PaorError), Journal(":memory:") as journal:
            Engine(
                ScriptedModel([*call("bank.pay", to="Dee", amount=250), refine("stop", answer="done")]),
                tools=[pay],
                journal=journal,
                machine=machine,
                policy=policy,
                limits=Limits(max_steps=3),
                builtins=False,
            ).run("Pay Dee")
        assert PAID == []


def calls_in(machine: Machine) -> set[Any]:
    """Return the rows that a call comes by."""
    return {row for row in machine.rows if {row.source, row.dest} & {"Specifying", "Executing"}}


@pytest.mark.parametrize(
    ("count", "seed"),
    [(400, 0), *(pytest.param(500, seed, marks=pytest.mark.whole) for seed in range(1, 5))],
)
def test_no_damaged_machine_passes_a_call_that_is_denied_or_not_approved(count: int, seed: int) -> None:
    """Of machines damaged at random those that are accepted promise what the standard one promises, and pay nothing unasked."""
    dice, accepted, refused = random.Random(seed), 0, 0
    for name, data in damaged(count, seed):
        try:
            machine = Machine.from_dict(data)
        except UsageError as error:
            refused += 1
            assert "\n" not in str(error)
            continue
        accepted += 1
        check_promises(machine, dice)
        if calls_in(machine) != calls_in(BASES[name]):
            check_for_real(machine)
    assert accepted > count / 20 and refused > count / 2
