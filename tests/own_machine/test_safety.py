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
from pathlib import Path
from typing import Any

import pytest

from paor import Engine, Journal, Limits, Machine, Policy, ScriptedModel, replay, tool
from paor.errors import PaorError, UsageError
from paor.machine import GuardContext, NoOutcome, defects_of
from paor.testing import call, refine

from ..support.cases import run_in
from ..support.own_machines import World, escalating, two_reviewers, verifying
from ..verify.test_verify import altered, rehash
from .inside import (
    CHANGES,
    DECIDE,
    GUARDS,
    HOST_GUARDS,
    SETTLE,
    Row,
    Walker,
    salted_digest,
)

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

    def __missing__(self, name: str) -> bool:
        self[name] = self.dice.random() < 0.7
        return self[name]

    def get(self, name: str, default: Any = None) -> Any:
        """Return the guard's value."""
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
    [(150, 0), *(pytest.param(250, seed, marks=pytest.mark.whole) for seed in range(1, 9))],
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


# -- each kind of damage, by name ----------------------------------------------------------------------------------


def row_at(data: Data, source: str, trigger: str, number: int = 0) -> Data:
    """Return a row of a phase by its trigger."""
    rows: list[Data] = data["transitions"]
    return [row for row in rows if (row["source"], row["trigger"]) == (source, trigger)][number]


def without(source: str, trigger: str, number: int = 0) -> Callable[[Data], object]:
    return lambda data: data["transitions"].remove(row_at(data, source, trigger, number))


def changed(source: str, trigger: str, number: int = 0, **values: Any) -> Callable[[Data], object]:
    return lambda data: row_at(data, source, trigger, number).update(values)


def first(source: str, trigger: str, number: int = 0) -> Callable[[Data], object]:
    """Put a row before all others."""

    def moved(data: Data) -> None:
        row = row_at(data, source, trigger, number)
        data["transitions"].remove(row)
        data["transitions"].insert(0, row)

    return moved


def added(
    source: str, trigger: str, dest: str, at: int | None = None, **more: Any
) -> Callable[[Data], object]:
    """Add a row of the host's own, as the last one or at a place."""
    row = {"source": source, "trigger": trigger, "dest": dest, "host": True, **more}
    return lambda data: data["transitions"].insert(len(data["transitions"]) if at is None else at, row)


def named(name: str) -> Callable[[Data], object]:
    return lambda data: data.setdefault("guards", []).append({"name": name, "sentence": "It holds."})


UNSAFE: dict[str, tuple[Callable[[Data], object], str]] = {
    "no approval is asked for": (without("Specifying", "wait"), "Specifying.wait"),
    "no argument is asked for": (without("Specifying", "wait", 1), "Specifying.wait"),
    "a denied action is selected": (changed("Planning", "select", conditions=["selection_valid", "steps_left"]), "Planning.select"),
    "a denied call is made": (changed("Specifying", "specify", conditions=["parameters_valid", "parameters_safe"]), "Specifying.specify"),
    "a call is made twice": (changed("Specifying", "specify", unless=[], guards=["parameters_valid", "parameters_safe", "action_allowed"]), "Specifying.specify"),
    "a call is made before it is approved": (first("Specifying", "specify"), "Specifying"),
    "a refused call is made": (changed("Specifying", "refuse", dest="Executing"), "Specifying.refuse"),
    "approvals only where the host says so": (changed("Specifying", "wait", conditions=["approval_needed", "elicitations_left", "duplicate"]), "Specifying.wait"),
    "an effect in doubt is forgotten": (without("Executing", "wait"), "Executing.wait"),
    "a doubt comes last": (first("Executing", "execute"), "Executing"),
    "no call is recorded": (changed("Executing", "execute", dest="Reviewing"), "Executing.execute"),
    "a result is not observed": (changed("Observing", "observe", dest="Planning"), "Observing.observe"),
    "an effect is retried without limit": (changed("Executing", "retry_step", conditions=["retryable"]), "Executing.retry_step"),
    "steps without limit": (changed("Planning", "select", conditions=["selection_valid", "action_allowed"]), "Planning.select"),
    "reviews without limit": (changed("Reviewing", "reassess", conditions=["reply_invalid"]), "Reviewing.reassess"),
    "a cancellation comes later": (first("Planning", "reselect"), "Planning"),
    "a budget is looked at only now and then": (changed("Reviewing", "fail", conditions=["hard_stop", "concluded"]), "Reviewing.fail"),
    "Done without a review": (changed("Reviewing", "finish", conditions=["concluded"]), "Reviewing.finish"),
    "Done from a failure": (changed("Reviewing", "fail", 1, dest="Done"), "Reviewing.fail"),
    "an answer is not taken": (without("Specifying", "provide"), "Specifying.provide"),
    "an answer that does not fit is taken": (changed("Specifying", "provide", conditions=[], guards=[]), "Specifying.provide"),
    "an answer where nobody was asked": (changed("Specifying", "provide", answers=False), "Specifying.provide"),
    "a row of paor's is called the host's": (changed("Specifying", "specify", host=True), "Specifying.specify"),
    "a row that only passes for paor's": (added("Planning", "go", "Reviewing", host=False), "Planning.go"),
    "another way into Executing": (added("Reviewing", "go", "Executing"), "Reviewing.go"),
    "a call that is taken back": (added("Executing", "go", "Planning", 0), "Executing"),
    "a row behind the approval": (added("Specifying", "go", "Reviewing"), "Specifying.go"),
    "a second specify": (added("Specifying", "specify", "Executing", 8), "Specifying.specify"),
    "an effect of paor's on another way": (added("Reviewing", "retry", "Reviewing"), "Reviewing.retry"),
    "asked again without limit": (added("Planning", "reselect", "Planning", 4), "Planning.reselect"),
    "Done from Planning": (added("Planning", "go", "Done"), "Planning.go"),
    "Done from Specifying": (added("Specifying", "go", "Done", 8), "Specifying.go"),
    "an answer of a row that asked nothing": (added("Reviewing", "go", "Planning", answers=True), "Reviewing.go"),
    "a phase that is not cancelled": (without("Verifying", "fail"), "Verifying.fail"),
    "a phase that is cancelled later": (first("Verifying", "finish"), "Verifying.finish"),
    "a phase's call does not come back": (without("Observing", "observe"), "Verifying"),
    "a failure that is none": (added("Verifying", "fail", "Done"), "Verifying.fail"),
    "a guard of paor's is the host's": (named("action_allowed"), "guard action_allowed"),
    "a guard of phases is the host's": (named("succeeded"), "guard succeeded"),
    "a way back is the host's": (named("called_by_Verifying"), "guard called_by_Verifying"),
    "a bound is the host's": (named("rework_left"), "guard rework_left"),
    "a bound in place of paor's": (added("Verifying", "steps", "Planning", conditions=["steps_left"], at_most=10**9), "Verifying.steps"),
    "values while a tool works": (lambda data: data.update(values=["execute"]), "execute"),
    "a told plan that is none": (changed("Reviewing", "retry", tell="told"), "Reviewing.retry"),
}  # fmt: skip
"""What is done to the data of `verifying`, and the place that the refusal names."""


@pytest.mark.parametrize("what", UNSAFE)
def test_a_machine_is_held_to_each_promise_however_it_was_made(what: str) -> None:
    """Data is refused in one line that names the place."""
    damage, place = UNSAFE[what]
    data = verifying().to_dict()
    assert Machine.from_dict(data).to_dict() == data
    damage(data)
    with pytest.raises(UsageError) as refused:
        Machine.from_dict(data)
    assert place in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("make", "place"),
    [
        (lambda m: m.row("Planning", "leap", "Done", "answer_present"), "Planning.leap"),
        (lambda m: m.row("Specifying", "leap", "Done", "duplicate"), "Specifying.leap"),
        (lambda m: m.row("Reviewing", "steps", "Planning", "review_retry", at_most=9), "Reviewing.steps"),
        (
            lambda m: m.row("Reviewing", "elicitations", "Failed", "review_retry", at_most=9),
            "elicitations_left",
        ),
        (lambda m: verifying().require("specify", rework_left), "rework_left"),
        (lambda m: verifying().guard(called_by_Verifying), "called_by_Verifying"),
        (lambda m: m.row("Specifying", "leap", "Planning", "duplicate", before="specify"), "before wait"),
    ],
)
def test_a_method_refuses_what_data_may_not_have(make: Callable[[Machine], Machine], place: str) -> None:
    """One function holds both to it."""
    with pytest.raises(UsageError, match=place):
        make(Machine.standard())


def rework_left(context: GuardContext) -> bool:
    """It has the name of a bound."""
    return True


def called_by_Verifying(context: GuardContext) -> bool:
    """It has the name of a way back."""
    return False


def any_call(context: GuardContext) -> bool:
    """Everything is allowed."""
    return True


def test_an_engine_walks_no_machine_that_was_made_past_its_methods() -> None:
    """Neither one with other rows, nor one with other functions for paor's own guards and effects."""
    rows = Machine.standard().table
    lax = tuple(row for row in rows if (row.source, row.trigger) != ("Specifying", "wait"))
    effect = CHANGES["Specifying", "refuse"]
    for machine, code, place in (
        (Machine(lax), "unsafe_row", "Specifying.wait"),
        (Machine(guards={**GUARDS, "action_allowed": any_call}), "foreign_code", "guard action_allowed"),
        (
            Machine(changes={**CHANGES, ("Specifying", "specify"): effect}),
            "foreign_code",
            "Specifying.specify",
        ),
    ):
        assert (code, place) in {(item.code, item.place) for item in defects_of(machine)}
        with pytest.raises(UsageError, match=place):
            Engine("offline", journal=Journal(":memory:"), machine=machine)


@pytest.mark.parametrize("source", ["Planning", "Reviewing"])
def test_an_engine_walks_no_machine_that_begins_a_call_without_one(source: str) -> None:
    """Specifying is entered with the call that `select`, `next_step` or a phase with a tool has set: any other row has none to go on with."""
    machine = Machine.standard().row(source, "again", "Specifying", often, at_most=2)
    found = [(item.code, item.place) for item in defects_of(machine)]
    assert ("unready_phase", f"{source}.again") in found
    with pytest.raises(UsageError, match=f"{source}.again"):
        Engine("offline", journal=Journal(":memory:"), machine=machine)


# -- journals ------------------------------------------------------------------------------------------------------


def test_a_journal_with_an_unsafe_machine_is_told_and_not_driven(tmp_path: Path) -> None:
    """As somebody with the format in hand could write one: verify and replay say so in a line each, and no engine goes on with it."""
    path = str(tmp_path / "runs.db")
    with desk(path, verifying()) as engine:
        waiting = engine.run("Pay Dee")
    assert waiting.waiting_for is not None
    with altered(Path(path)) as db:
        n, salt, body, kind = db.execute(
            "SELECT n, salt, body, media_type FROM payloads WHERE n = (SELECT spec_payload FROM specs)"
        ).fetchone()
        spec = json.loads(body)
        data = json.loads(spec["host_machine"])
        UNSAFE["a denied action is selected"][0](data)
        text = json.dumps(spec | {"host_machine": json.dumps(data)})
        digest = salted_digest(bytes.fromhex(salt), text, kind).hex()
        db.execute("UPDATE payloads SET body = ?, digest = ? WHERE n = ?", (text, digest, n))
        db.execute("UPDATE specs SET spec = ? WHERE run = 1", (digest,))
        rehash(db, 1)
    told = "the recorded machine cannot be used: Planning.select"
    with Journal(path, read_only=True) as journal:
        defects = [str(item) for item in journal.verify()]
        found = replay(journal, waiting.run_id)
    assert [item.count("\n") for item in defects if told in item] == [0], defects
    assert [item.field for item in found.divergences] == ["spec.host_machine"] and not found.identical
    assert told in str(found.divergences[0])
    PAID.clear()
    for machine in (None, verifying()):
        with desk(path, machine) as engine:
            for accept in (False, True):
                with pytest.raises(UsageError, match=told):
                    engine.resume(waiting.run_id, answer={"approve": True}, accept_changes=accept)
    assert PAID == []


def desk(path: str, machine: Machine | None) -> Engine:
    """Return an engine that pays once somebody has approved it."""
    return Engine(
        ScriptedModel([*call("bank.pay", to="Dee", amount=250), refine("stop", answer="done")]),
        tools=[pay, World().tools()[0]],
        journal=path,
        machine=machine,
        policy=Policy(approvals=("bank.*",)),
    )
