"""Properties of a host's own: what check says of them is so, by walks that are held to them in another way; and by an engine, a journal and the fuzzer."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from runpy import run_path
from typing import Any, Literal, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paor import ApprovalRule, Engine, Journal, Machine, Phase, Policy, ScriptedModel, diagram
from paor.audit import Finding
from paor.errors import ForbiddenRow, UsageError
from paor.fsm.check.bounded_specs import BoundedSpec, worlds_of
from paor.fsm.check.checker import LEAST, prove
from paor.fsm.check.host_functions import branches
from paor.fsm.check.promised import Tools
from paor.fsm.check.state_space import StateWalker
from paor.fsm.machine.properties import Happened, Property, PropertyWatch, properties_of
from paor.fsm.replay.happened import broken_rows
from paor.fuzz import Said, Violation
from paor.fuzz import World as PlainWorld
from paor.machine import GuardContext, breaks, defects_of
from paor.testing import SeededIds, SteppingClock, call, refine

from ..support.cli_support import Shell
from ..support.own_machines import World, escalating, triage, two_reviewers, verifying

TOOLS = {tool.name: tool.spec() for tool in World().tools()}
FULL = LEAST.model_copy(update={"max_steps": 2})
WORLDS = worlds_of({"react": LEAST, "batch": LEAST, "native": LEAST})
POLICY = Policy(approvals=("bank.*", ApprovalRule(tool="patch.*", arguments={"text": "a*"})))


def gated() -> Machine:
    """Return the machine whose every way to Done goes through its tests."""
    return (
        Machine.standard()
        .phase(Phase("Verifying", tool="tests.run"))
        .row("Verifying", "finish", "Done", when="succeeded")
        .row("Verifying", "rework", "Planning", at_most=3)
        .row("Verifying", "give_up", "Failed")
        .gate("Done", "Verifying")
    )


def twice_gated() -> Machine:
    """Return one with a second gate before the first."""
    return (
        gated()
        .phase(Phase("Signing", question="Is it good?"))
        .row("Signing", "sign", "Verifying", when="succeeded")
        .row("Signing", "turn_down", "Failed")
        .gate("Verifying", "Signing")
    )


MACHINES: dict[str, Callable[[], Machine]] = {
    "standard": Machine.standard,
    "verifying": verifying,
    "escalating": escalating,
    "two reviewers": two_reviewers,
    "triage": triage,
    "gated": gated,
    "twice gated": twice_gated,
}


# -- brute force: walks of single runs, each held to a property by its whole past -------------------------------------


class Step(NamedTuple):
    """One row of a walk: the row, its guards, the tool whose call it begins, the one whose call it ends well, whether that was approved."""

    row: Any
    guards: dict[str, bool]
    begun: str = ""
    ended: str = ""
    approved: bool = False


def effect(tool: str) -> bool:
    """Whether a tool has an effect."""
    return TOOLS[tool].effect != "read" if tool in TOOLS else True


def needs(tool: str) -> bool | None:
    """Whether a call of a tool needs an approval; None for some."""
    return {"bank.pay": True, "patch.write": None}.get(tool, False)


def walks(machine: Machine, world: BoundedSpec, seed: int, count: int) -> Iterator[list[Step]]:
    """Yield random walks, with a tool of the engine in the place of each call."""
    chance = random.Random(seed)
    walker = StateWalker(world, machine)
    for _ in range(count):
        run, steps, tool = walker.start(), list[Step](), ""
        while not run.final and len(steps) < 60:
            ways = [
                way
                for move in walker.moves(run)
                if move["kind"] not in ("fault", "cancelled") or chance.random() < 0.02
                for way in branches(walker.oracle, partial(walker.take, run), move)
                if not isinstance(way[1], Exception)
            ]
            _, (taken, decision) = chance.choice(ways)
            row, begun, ended, approved = taken.row, "", "", False
            if row.trigger == "specify":
                approved = run.memory.reply is not None and run.memory.reply.approves
                begun = tool = named(taken.after.memory.intent.tool, run, approved, chance)
                if not begun:  # the engine has no such tool
                    break
            elif row.trigger == "execute" and taken.after.memory.result.ok:
                ended = tool
            steps.append(Step(row, decision.guards, begun, ended, approved))
            run = taken.after
        yield steps


def named(tool: str, run: Any, approved: bool, chance: random.Random) -> str:
    """Return the tool of the engine whose call a world's is taken for, empty for none."""
    caller = run.memory.selection.caller if run.memory.selection is not None else ""
    if tool not in ("check.call", "check.read"):
        return tool if not caller or needs(tool) is not (not approved) else ""
    reads = tool == "check.read"
    fitting = [name for name in TOOLS if effect(name) is not reads and needs(name) is not (not approved)]
    return chance.choice(fitting) if fitting else ""


def is_broken(steps: Sequence[Step], never: str, machine: Machine) -> bool:
    """Whether a walk breaks a property: of each place where A is, everything before it is looked at anew."""
    match never.split():
        case [happens]:
            needed, ever = "", True
        case [happens, "without", needed]:
            ever = False
        case [happens, _, _, needed]:
            ever = True
    for place, step in enumerate(steps):
        if not occurs(step, happens, machine):
            continue
        if needed == "approval":
            if not step.approved:
                return True
            continue
        last = (
            -1
            if ever
            else max(
                (n for n, one in enumerate(steps[:place]) if one.begun and effect(one.begun)), default=-1
            )
        )
        since = steps[last + 1 : place + 1]
        if not any(was(one, needed, machine) for one in since):
            return True
    return False


def fits(tool: str, pattern: str) -> bool:
    """Whether a tool's name fits a pattern that ends in a star, or is it."""
    return bool(tool) and (tool.startswith(pattern[:-1]) if pattern.endswith("*") else tool == pattern)


def occurs(step: Step, name: str, machine: Machine) -> bool:
    """Whether A is in a row."""
    row = step.row
    if name in machine.states:
        return bool(
            row.dest == name
            and row.source != name
            and not (row.source == "Observing" and name in machine.host.phases)
        )
    return bool(row.trigger == name or held(step, name, machine) or fits(step.begun, name))


def held(step: Step, name: str, machine: Machine) -> bool:
    """Whether a guard held."""
    if step.guards.get(name) is not True:
        return False
    own = machine.host.guards.get(name)
    return own is None or own.tools is None or any(fits(step.begun, pattern) for pattern in own.tools)


def was(step: Step, name: str, machine: Machine) -> bool:
    """Whether B is in a row."""
    row = step.row
    if name in machine.host.phases:
        says = any(guard == "succeeded" or guard in machine.host.guards for guard in row.guards)
        return bool(
            row.source == name
            and says
            and row.dest not in (name, "Planning", "Failed")
            and row.trigger != "call"
        )
    if name in machine.states:
        return bool(row.source == name and row.dest not in (name, "Failed"))
    return bool(row.trigger == name or held(step, name, machine) or fits(step.ended, name))


NAMES = {
    "standard": [
        "Done",
        "Reviewing",
        "finish",
        "specify",
        "bank.*",
        "patch.write",
        "review_success",
        "proceed",
        "tests.run",
    ],
    "verifying": ["Done", "Verifying", "finish", "bank.*", "rework", "patch.write", "tests.run", "succeeded"],
    "escalating": ["Done", "Escalating", "advise", "bank.*", "escalate", "two_failures", "Planning"],
    "two reviewers": [
        "bank.*",
        "FirstReview",
        "four_eyes",
        "SecondReview",
        "patch.write",
        "Done",
        "specify",
        "once_call",
    ],
    "triage": ["Planning", "Triage", "Done", "bank.*", "succeeded"],
    "gated": ["Done", "Verifying", "finish", "rework", "tests.run", "patch.write", "succeeded", "bank.*"],
    "twice gated": ["Done", "Verifying", "Signing", "sign", "tests.run", "bank.*"],
}


def all_properties(name: str) -> list[str]:
    """Return properties of every form over the names of a machine."""
    names = NAMES[name]
    texts = [f"{one} without {two}" for one in names for two in names if one != two]
    texts += [f"{one} without ever {two}" for one in names for two in names if one != two]
    return [
        *texts,
        *names,
        "bank.* without approval",
        "patch.write without approval",
        "tests.run without approval",
    ]


@cache
def verdicts(name: str, count: int = len(WORLDS)) -> dict[str, Finding | None]:
    """Return of each property of a machine the finding that shows it broken in the first *count* worlds, None where it holds."""
    machine = MACHINES[name]()
    held = properties_of(machine, set(TOOLS), all_properties(name))
    found = prove(machine, WORLDS[:count], held=held, held_for=Tools(TOOLS, POLICY)).findings
    broken = {item.place: item for item in found if item.code == "forbidden"}
    return {prop.text: broken.get(prop.text) for prop in held}


def judged(name: str, seeds: Sequence[int], count: int, worlds: int = len(WORLDS)) -> tuple[int, int]:
    """Hold random walks to what check says; return how many properties hold, and how many are broken."""
    machine, found = MACHINES[name](), verdicts(name, worlds)
    kept = [text for text, finding in found.items() if finding is None]
    least = {text: len(item.path.steps) for text, item in found.items() if item and item.path}
    for seed, world in zip(seeds, WORLDS[:worlds] * len(seeds), strict=False):
        for steps in walks(machine, world, seed, count):
            told = [(one.row.trigger, one.begun) for one in steps]
            for text in kept:
                assert not is_broken(steps, text, machine), (text, told)
            for text, length in least.items():  # none is shorter than the one that is shown
                assert not is_broken(steps[: length - 1], text, machine), (text, told)
    for text, finding in found.items():
        if finding is not None:
            assert finding.path is not None
            assert breaks(machine, text, finding.path.wire()), text
    return len(kept), len(found) - len(kept)


def test_an_effect_takes_back_what_was_before_it() -> None:
    """A call that only reads does not."""
    machine = Machine.standard()
    (prop,) = properties_of(machine, set(TOOLS), "Done without answer")
    rows = {row.trigger: row for row in machine.rows}
    for effects, is_broken_then in (("read", False), ("once", True), ("write", True)):
        watch = PropertyWatch(prop, machine)
        watch.note(Happened(rows["answer"], {}))
        watch.note(Happened(rows["specify"], {}, (("some.tool", effects),)))
        assert watch.breaks(Happened(rows["finish"], {})) is is_broken_then
    (ever,) = properties_of(machine, set(TOOLS), "Done without ever answer")
    watch = PropertyWatch(ever, machine)
    watch.note(Happened(rows["answer"], {}))
    watch.note(Happened(rows["specify"], {}, (("some.tool", "once"),)))
    assert not watch.breaks(Happened(rows["finish"], {}))


def test_no_walk_breaks_what_holds_and_what_does_not_is_shown_broken() -> None:
    kept, broken = judged("two reviewers", range(2), 3, worlds=1)
    assert kept > 3 and broken > 10


@pytest.mark.whole
@pytest.mark.parametrize("name", MACHINES)
def test_no_walk_of_many_breaks_what_holds(name: str) -> None:
    kept, broken = judged(name, range(18), 40)
    assert kept + broken == len(all_properties(name)) and kept and broken


@pytest.mark.whole
def test_what_the_recipe_is_for_holds_by_its_gate_alone() -> None:
    """Without it a run can be Done by a used-up budget while its tests fail."""
    for machine, is_gated in ((verifying(), False), (gated(), True)):
        held = properties_of(machine, set(TOOLS), "Done without Verifying")
        findings = prove(machine, WORLDS[1:2], held=held, held_for=Tools(TOOLS, POLICY)).findings
        assert ("forbidden" in {item.code for item in findings}) is not is_gated


def test_every_way_to_what_has_a_gate_comes_from_it() -> None:
    """And of paor's own rows to it none can be taken: one with the same guards, or fewer, stands before it."""
    one, two = gated(), twice_gated()
    for machine, target, gate, first in (
        (one, "Done", "Verifying", "Verifying"),
        (two, "Verifying", "Signing", "Signing"),
        (two, "Done", "Verifying", "Signing"),
    ):
        rows = machine.table
        for place, row in enumerate(rows):
            if row.dest != target or row.source in (gate, target, "Observing"):
                continue
            before = [other for other in rows[:place] if (other.source, other.dest) == (row.source, first)]
            assert any(set(other.guards) <= set(row.guards) for other in before), row


@pytest.mark.whole
def test_gates_stand_one_behind_the_other() -> None:
    found = verdicts("twice gated")
    assert found["Done without Signing"] is None and found["Done without Verifying"] is None


def test_approval_is_told_by_the_policy_and_the_machine() -> None:
    found = verdicts("standard", 1)
    assert found["bank.* without approval"] is None
    assert found["patch.write without approval"] is not None
    assert found["tests.run without approval"] is not None
    assert verdicts("two reviewers", 1)["bank.* without four_eyes"] is None


# -- gates -----------------------------------------------------------------------------------------------------------


def test_a_row_that_is_added_after_a_gate_is_gated() -> None:
    machine = gated().row("Reviewing", "hurry", "Done", when="review_success", before="format")
    assert [row.dest for row in machine.rows if row.trigger == "hurry"] == ["Verifying"]
    ways = {(row.source, row.trigger) for row in machine.rows if row.dest == "Done" and row.host}
    assert ways == {("Verifying", "finish")} and defects_of(machine) == ()
    twice = machine.row("Reviewing", "hurry", "Done", when="concluded", before="format")
    assert [row.dest for row in twice.rows if row.trigger == "hurry"] == ["Verifying"] * 2
    again = Machine.from_dict(machine.to_dict())
    assert again.rows == machine.rows
    assert [
        row.dest
        for row in again.row("Reviewing", "rush", "Done", when="concluded").rows
        if row.trigger == "rush"
    ] == ["Verifying"]


def test_a_condition_that_is_required_of_a_gated_row_is_one_of_the_way_to_its_gate() -> None:
    def in_order(context: GuardContext) -> bool:
        """It is in order."""
        return True

    rows = gated().require("finish", in_order).rows
    ways = [row for row in rows if row.trigger == "to_verifying"]
    assert len(ways) == 2 and all("in_order" in row.guards for row in ways)


@pytest.mark.parametrize(
    ("target", "gate", "told"),
    [
        ("Done", "Nowhere", "is no phase of the host's own"),
        ("Planning", "Verifying", "the target is Done or a phase of the host's own"),
        ("Done", "Signing", "is the gate of Done already"),
        ("Verifying", "Verifying", "no gate leads to itself"),
        ("Signing", "Verifying", "comes before Verifying already"),
    ],
)
def test_what_can_be_no_gate_is_refused(target: str, gate: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        twice_gated().gate(target, gate)


def test_a_gate_needs_a_condition() -> None:
    open_ = Machine.standard().phase(Phase("Verifying", tool="tests.run")).row("Verifying", "finish", "Done")
    with pytest.raises(UsageError, match="whatever Verifying came to"):
        open_.gate("Done", "Verifying")


def test_data_in_which_a_gate_is_open_is_refused() -> None:
    data = gated().to_dict()
    ways = [row for row in data["transitions"] if row["trigger"] != "to_verifying"]
    with pytest.raises(UsageError, match=r"as machine\.gate"):
        Machine.from_dict({**data, "transitions": ways})
    there = [
        {**row, "dest": "Done"} if row["trigger"] == "to_verifying" else row for row in data["transitions"]
    ]
    with pytest.raises(UsageError):
        Machine.from_dict({**data, "transitions": there})


# -- the language -----------------------------------------------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(
    text=st.text(max_size=60)
    | st.lists(
        st.sampled_from(["Done", "without", "ever", "bank.*", "before", "approval", "x"]), max_size=5
    ).map(" ".join)
)
def test_any_text_is_a_property_or_one_line(text: str) -> None:
    for given_as in ("never", "always"):
        options: dict[str, Any] = {given_as: [text]}
        try:
            (prop,) = properties_of(Machine.standard(), set(TOOLS), **options)
        except UsageError as error:
            assert len(str(error).splitlines()) == 1 and len(str(error)) < 300
        else:
            assert isinstance(prop, Property) and prop.text == text


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Done without Verfying", "nearest: "),
        ("Done with Verifying", "expected 'A'"),
        ("approval", "approval is of the very call"),
        ("Done without approval", "approval is of the very call"),
        ("bank.* without ever approval", "approval is of the very call"),
        ("x" * 501, "at most 500 characters"),
    ],
)
def test_a_bad_property_is_refused(text: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        properties_of(verifying(), set(TOOLS), text)


# -- in an engine, over a journal, by the fuzzer -----------------------------------------------------------------------


def paying(path: Path, *, never: Sequence[str] = (), world: World, script: Sequence[Any]) -> Engine:
    """Return an engine whose machine asks nobody before it pays."""
    return Engine(
        ScriptedModel(list(script)),
        world.tools(),
        path / "runs.db",
        never=never,
        clock=SteppingClock(),
        ids=SeededIds("paying"),
        builtins=False,
    )


PAYS = [*call("tests.run"), refine("continue"), *call("bank.pay", amount=5), refine("stop", answer="paid")]


def test_an_engine_refuses_the_row_that_breaks_a_property(tmp_path: Path) -> None:
    """Nothing is called and nothing written; an engine without the property goes on."""
    world = World()
    with paying(tmp_path, never=["bank.* without patch.write"], world=world, script=PAYS) as engine:
        with pytest.raises(
            ForbiddenRow, match=r"specify in Specifying is refused.*bank\.\* without patch\.write"
        ):
            engine.run("Pay")
        run_id = engine.journal.runs()[0].run_id
        rows = engine.journal.transitions(run_id)
        with pytest.raises(ForbiddenRow):  # held to the rows before, by another driver, too
            engine.resume(run_id)
        assert engine.journal.transitions(run_id) == rows and engine.journal.verify() == []
    assert world.done == ["tests.run"]
    with paying(tmp_path, world=world, script=PAYS) as engine:
        assert engine.resume(run_id).state == "Done"
    assert world.done == ["tests.run", "bank.pay 5"]


def test_what_came_before_a_resume_counts(tmp_path: Path) -> None:
    world = World()
    script = [
        *call("patch.write", text="b"),
        refine("continue"),
        *call("bank.pay", amount=5),
        refine("stop", answer="paid"),
    ]
    with paying(tmp_path, never=["bank.*"], world=world, script=script) as engine:
        with pytest.raises(ForbiddenRow):
            engine.run("Pay")
        run_id = engine.journal.runs()[0].run_id
    with paying(tmp_path, never=["bank.* without patch.write"], world=world, script=script) as engine:
        assert engine.resume(run_id).state == "Done"
        assert list(
            broken_rows(engine.journal.reader, run_id, properties_of(Machine.standard(), None, "bank.*"))
        )
        kept = properties_of(Machine.standard(), None, ["bank.* without patch.write"])
        assert list(broken_rows(engine.journal.reader, run_id, kept)) == []


def test_a_journal_is_held_to_properties(tmp_path: Path, shell: Shell) -> None:
    with paying(tmp_path, world=World(), script=PAYS) as engine:
        run_id = engine.run("Pay").run_id
    path = str(tmp_path / "runs.db")
    told = shell(
        "check",
        "--journal",
        path,
        "--never",
        "bank.* without patch.write",
        "--always",
        "tests.run before bank.pay",
    )
    assert (
        told.code == 1
        and f"{run_id} row" in told.out
        and "Specifying.specify to Executing breaks: bank.* without patch.write" in told.out
    )
    assert "tests.run before" not in told.out
    assert shell("check", "--journal", path, "--never", "patch.*").code == 0
    assert shell("check", "--journal", path).code == 2
    assert shell("check", "--journal", path, "--never", "Nowhere").code == 2


APP = """
from paor import Engine, Limits, Policy, ScriptedModel, tool

@tool("bank.pay", effect="once")
def pay(amount: int) -> str:
    "Pay."
    return "paid"

def engine(journal):
    limits = Limits(max_steps=1, selection_retries=0, parameter_retries=0, review_retries=0, max_retries=0, no_improvement_limit=1,
                    max_consecutive_errors=1, max_consecutive_refused=1, max_blocked_calls=1, max_elicitations=1)
    return Engine(ScriptedModel([]), [pay], journal, limits=limits, policy=Policy(approvals=["bank.*"]), builtins=False)
"""
"""The smallest limits, so that it is explored in a moment."""


@pytest.mark.whole
def test_check_ends_with_one_and_the_run_and_its_test(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is printed as a test fails as long as the walk can be gone."""
    shell.write("small_bank.py", APP)
    options = ("--app", "small_bank:engine", "--mode", "react")
    told = shell(
        "check", *options, "--never", "bank.* without approval", "--always", "finish before bank.pay"
    )
    assert told.code == 1 and "bank.pay: specify -> Executing" in told.out
    assert "finish before bank.pay: a run breaks it with row" in told.out
    assert "bank.* without approval: a run" not in told.out
    shell.write("case.py", told.out[told.out.index("from importlib") :])
    names = run_path(str(shell.folder / "case.py"))
    monkeypatch.syspath_prepend(str(shell.folder))
    with pytest.raises(AssertionError):
        names["test_never_finish_before_bank_pay"]()
    found = shell("check", *options, "--never", "bank.pay", "--json")
    assert (
        found.code == 1
        and found.json["findings"][0]["code"] == "forbidden"
        and "bank.pay" in found.json["tests"]
    )
    kept = shell("check", *options, "--never", "bank.* without approval")
    assert kept.code == 0 and "ok  never bank.* without approval" in kept.out
    assert shell("check", *options, "--never", "Done with x").code == 2
    assert shell("check", *options, "--never", "shop.* without Done").code == 2


def test_a_gated_machine_keeps_its_gate_in_every_form(tmp_path: Path) -> None:
    """On a picture, in a Mermaid diagram, and without the way past it."""
    svg, mermaid = gated_drawing("svg"), gated_drawing("mermaid")
    assert "calls tests.run · gate of Done" in svg and "Verifying (gate of Done)" in mermaid
    assert "Reviewing --> Done" not in mermaid


def gated_drawing(form: Literal["svg", "mermaid"]) -> str:
    """Return the drawing of the gated machine."""
    return diagram(gated(), form=form)


def test_the_fuzzer_holds_runs_to_what_the_engine_never_does() -> None:
    """A row that the engine refuses is a failing case."""

    def make(journal: Journal) -> Engine:
        return Engine(ScriptedModel([]), World().tools(), journal, never=["answer"], builtins=False)

    said = Said("selection", '{"action": null, "answer": "It is known."}', good=None).wire()
    world = PlainWorld(make)
    try:
        with pytest.raises(Violation) as found:
            world.play([{"do": "start", "mode": "react"}, {"do": "row", "said": [said]}])
    finally:
        world.close()
    assert found.value.invariant == "never_happens" and "what never happens: answer" in found.value.told
