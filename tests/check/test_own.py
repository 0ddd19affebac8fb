"""`paor.check` of a host's own machine: the sound ones are proven, and every planted defect is found before a run starts."""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from paor import Engine, Machine, Phase
from paor.audit import Check, Finding
from paor.errors import UsageError
from paor.fsm.check.bounded_specs import BOUNDS, BoundedSpec, worlds_of
from paor.fsm.check.checker import LEAST, OWN_STATES_MAX, least_world, prove, rerun
from paor.fsm.check.findings import CODES
from paor.fsm.check.host_functions import HostFunctions, Oracle, branches
from paor.fsm.check.inputs import fitting_values
from paor.fsm.check.state_space import State, StateGraph, StateWalker, explore, state_of
from paor.fsm.machine.host_rows import NO_HOST
from paor.machine import GuardContext, defects_of

from ..support.cases import Run, chosen_spec, tools_withheld
from ..support.cli_support import Shell
from ..support.effort import examples
from ..support.own_machines import APPROVE, CHOICE, World, escalating, triage, two_reviewers, verifying
from ..support.own_machines import engine as engine_of
from . import planted_own_machines as planted
from .planted_own_machines import DEFECTS, OwnDefect
from .test_soundness import LARGE, OWN, cut_run

SOUND: dict[str, Callable[[], Machine]] = {
    "verifying": verifying,
    "escalating": escalating,
    "two_reviewers": two_reviewers,
    "triage": triage,
}
SMALL = [world for world in worlds_of({"react": LEAST, "batch": LEAST}) if not world.full]
"""Worlds that are explored wholly in a moment: no limit is larger than what is explored."""

PARTLY = {"row_never_taken", "unreachable_phase"}
"""What such small limits alone can be the reason of."""


def engine(machine: Machine, path: Path) -> Engine:
    """Return an engine with the tools of the sound machines."""
    return engine_of(path / "runs.db", machine, [])


TWO = LEAST.model_copy(update={"max_steps": 2})
TWO_STEPS = [world for world in worlds_of({"react": TWO, "batch": TWO, "native": TWO}) if not world.full]
"""Larger ones, in which a call can be repeated."""


def small(machine: Machine, worlds: Sequence[BoundedSpec] = SMALL) -> Check:
    """Return what is found in small worlds."""
    return prove(machine, worlds, tools=[tool.spec() for tool in World().tools()])


SOON = {"raises", "impure"}
"""Kinds of defects that the smallest world shows."""


def impure_notes(machine: Machine) -> Sequence[Finding]:
    """Return what is noted of the names in its functions."""
    return [item for item in small(machine, SMALL[:1]).notes if item.code == "impure_name"]


def codes(check: Check) -> set[str]:
    """Return the codes of its findings, but for what only the whole would show."""
    return {item.code for item in check.findings} - PARTLY


# -- sound machines ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SOUND)
@pytest.mark.parametrize(
    "worlds", [SMALL[:1], pytest.param(TWO_STEPS, marks=pytest.mark.whole)], ids=["least", "two steps"]
)
def test_nothing_is_wrong_with_a_sound_machine(name: str, worlds: list[BoundedSpec]) -> None:
    """Every run of it ends, whatever its guards say."""
    check = small(SOUND[name](), worlds)
    assert codes(check) == set(), [str(item) for item in check.findings]
    assert check.states > (100 if worlds == SMALL[:1] else 1_000)


def test_the_standard_machine_has_no_choice_of_a_host() -> None:
    """So its proof is what it was: no move of it carries one."""
    graph = explore(SMALL[0], Machine())
    assert all("own" not in edge.move for edge in graph.edges)
    assert Machine().host is NO_HOST


# -- planted defects -----------------------------------------------------------------------------------------------


def test_there_are_thirty_defects_of_every_kind() -> None:
    kinds = Counter(defect.kind for defect in DEFECTS)
    assert len({(item.kind, item.name) for item in DEFECTS}) == len(DEFECTS) >= 30
    least = {"loop": 8, "dead end": 4, "shadowed": 4, "raises": 4, "impure": 6, "cover": 4}
    assert all(kinds[kind] >= count for kind, count in least.items())
    assert {defect.code for defect in DEFECTS if defect.code} <= set(CODES)


@pytest.mark.parametrize(
    "defect",
    [
        pytest.param(item, marks=pytest.mark.whole if item.by == "check" and item.kind not in SOON else ())
        for item in DEFECTS
    ],
    ids=lambda defect: f"{defect.kind}: {defect.name}",
)
def test_every_planted_defect_is_found(defect: OwnDefect, tmp_path: Path) -> None:
    """Before a run starts, by whom it should be, with a message that names the place."""
    if defect.by == "built":
        with pytest.raises(UsageError) as refused:
            defect.make()
        assert defect.place in str(refused.value)
        return
    machine = defect.make()
    if defect.by == "engine":
        with pytest.raises(UsageError) as refused:
            engine(machine, tmp_path)
        assert f"{defect.place}" in str(refused.value)
        if defect.code:  # and who only checks the machine finds it by its code
            told = [(item.code, item.place.split(", ")) for item in defects_of(machine)]
            assert any(code == defect.code and defect.place in places for code, places in told), told
        return
    if defect.by == "warned":
        with pytest.warns(UserWarning, match=f"{defect.place} "), engine(machine, tmp_path):
            pass
        assert (defect.code, defect.place) in {(item.code, item.place) for item in impure_notes(machine)}
        return
    with warnings.catch_warnings():  # of names alone
        warnings.simplefilter("ignore")
        engine(machine, tmp_path).close()  # nothing shows without exploring it
    found = small(machine, SMALL[:1] if defect.kind in SOON else SMALL).findings
    assert (defect.code, defect.place) in {(item.code, item.place) for item in found}, found


@pytest.mark.parametrize(
    ("guard", "told"),
    [
        ("over_limit", "give it a default, context.values.get('limit', ...)"),
        ("over_optional_limit", "give it a default, context.values.get('ceiling', ...)"),
        ("last_failed", "raised IndexError: tuple index out of range (in Reviewing)"),
        ("counts", "gave a int, not a bool"),
    ],
)
def test_a_guard_that_raises_is_told_with_what_helps(guard: str, told: str) -> None:
    function = getattr(planted, guard)
    trigger = "finish" if guard == "last_failed" else "specify"
    finding = next(
        item for item in small(planted.required(function, trigger)).findings if item.code == "guard_raises"
    )
    assert told in finding.message and finding.place == f"guard {guard}"


def test_all_defects_of_a_machine_are_told_at_once(tmp_path: Path) -> None:
    ending = planted.ending_with(("finish", "Done", planted.often), ("stay", "Ending")).phase(
        Phase("Thinking")
    )
    machine = ending.row("Planning", "think", "Thinking", "often", before="answer").row(
        "Thinking", "back", "Planning"
    )
    with pytest.raises(UsageError) as refused:
        engine(machine, tmp_path)
    told = str(refused.value)
    assert "Planning.think, Thinking.back: 2 steps that no bound ends" in told and "Ending.stay" in told


def test_what_an_engine_explores_is_explored_once_and_calls_nothing(tmp_path: Path) -> None:
    """The machine as data says what is explored: two machines that are the same, with other functions, are one."""

    def never_called(context: GuardContext) -> bool:
        """It holds."""
        raise AssertionError("an engine called a guard while it was made")

    before = least_world.cache_info()
    for _ in range(2):
        engine(Machine.standard().require("proceed", never_called), tmp_path).close()
    after = least_world.cache_info()
    assert (after.misses - before.misses, after.hits - before.hits) == (1, 1)


def test_a_loop_of_an_own_machine_has_a_walk_that_can_be_taken_again() -> None:
    """With what its guards said on the way."""
    machine = planted.asked_again()
    found = [item for item in small(machine).findings if item.path is not None and item.path.loop is not None]
    assert found and {item.code for item in found} == {"endless_loop"}
    for finding in found:
        assert finding.path is not None
        told = [(step.phase, step.trigger, step.dest) for step in finding.path.steps]
        assert rerun(finding.path, machine) == told
        again = json.loads(json.dumps(finding.wire()))["path"]
        assert any("own" in step["move"] for step in again["steps"])


def test_a_function_that_fails_only_where_its_guards_did_not_lead_is_a_note() -> None:
    """`what_failed` looks at the last action; there is one after two failures, which the guard waits for."""
    check = small(escalating())
    assert codes(check) == set()
    assert [(item.code, item.place) for item in check.notes] == [("guard_raises", "Escalating.question")]


@pytest.mark.parametrize("guard", [planted.notes_it, planted.counts_within, planted.every_other])
def test_what_a_guard_changes_is_seen_when_it_is_called(guard: Callable[[GuardContext], bool]) -> None:
    """Whatever its code tells: the functions are called, too."""
    functions = HostFunctions()
    explore(SMALL[0], planted.required(guard), functions=functions)
    told = {item.message for item in functions.findings}
    counts = guard is planted.every_other
    assert told == {
        "it gives False and then True for the same context" if counts else "it changes its context"
    }


def test_a_guard_is_called_for_the_tools_of_the_engine() -> None:
    """A world's own tool has none of their arguments."""
    called = set[str]()

    def within(context: GuardContext) -> bool:
        """The amount is small."""
        assert context.call is not None
        called.add(f"{context.call.tool} {dict(context.call.arguments)}")
        return bool(context.call.arguments["amount"] < 10)

    machine = Machine.standard().require("specify", within, tool="bank.*")
    tools = [tool.spec() for tool in World().tools()]
    assert codes(prove(machine, SMALL, tools=tools)) <= {"impure_guard"}
    assert called == {"bank.pay {'amount': 1}"}


# -- values that fit -----------------------------------------------------------------------------------------------


def test_values_that_fit_are_few_and_one_of_each_choice() -> None:
    assert fitting_values(None) == ({},)
    assert fitting_values(APPROVE) == ({"approve": True}, {"approve": False})
    assert {item["mode"] for item in fitting_values(CHOICE)} == {"react", "batch", "planner"}
    assert fitting_values({"type": "object", "properties": {"a": {"type": "string", "pattern": "^q{3}$"}}, "required": ["a"]}) == ()  # fmt: skip
    many = {"type": "object", "properties": {name: {"type": "boolean"} for name in "abcdefghij"}}
    assert len(fitting_values(many)) == 8


def test_every_choice_of_the_hosts_functions_is_taken_once() -> None:
    oracle, taken = Oracle(), []

    def take(move: dict[str, Any]) -> tuple[Any, ...]:
        oracle.begin(move.get("own", {}))
        first = oracle.say("first", (True, False))
        second = oracle.say("second", (True, False)) if first else None
        kind = oracle.say("kind", ("a", "b", "c"), "b") if second else None
        return first, second, kind

    for move, came in branches(oracle, take, {"move": "nothing"}):
        oracle.begin(move["own"])
        assert take(move) == came
        taken.append(came)
    expected = {(True, True, kind) for kind in "abc"} | {(True, False, None), (False, None, None)}
    assert set(taken) == expected and len(taken) == len(expected)
    assert taken[0] == (True, True, "b")


# -- the graph holds every run with larger limits ----------------------------------------------------------------------

CUT = {world.name: world for world in worlds_of({"react": OWN, "planner": OWN, "native": OWN})}


@lru_cache(maxsize=2)
def explored(machine: str, name: str) -> tuple[StateGraph, dict[State, int], set[tuple[int, str, str, int]]]:
    """Return the graph of a cut world, its states by what they are, and its edges."""
    graph = explore(CUT[name], SOUND[machine](), states_max=OWN_STATES_MAX)
    numbers = {state_of(run): number for number, run in enumerate(graph.runs)}
    edges = {(edge.source, edge.row.trigger, edge.row.dest, edge.dest) for edge in graph.edges}
    return graph, numbers, edges


def cut(run: Run, machine: str, name: str) -> Run:
    """Return a run of a large world as the cut world holds it: of each counter the distance to its limit, or *far*."""
    spec = chosen_spec(explored(machine, name)[0].runs[0].spec, run.memory.choice)
    held = cut_run(run, CUT[name])
    values = {
        counter: max(
            0,
            getattr(run.counters, counter) - (getattr(run.spec.limits, limit) - getattr(spec.limits, limit)),
        )
        for counter, limit in BOUNDS.items()
    }
    if tools_withheld(run):
        values["withheld"] = values["retries"] + 1
    counters: dict[str, Any] = values
    return replace(held, spec=spec, counters=replace(held.counters, **counters))


@pytest.mark.whole
@pytest.mark.parametrize(
    ("machine", "name"), [(item, "react") for item in SOUND] + [("verifying", "planner")]
)
@settings(max_examples=examples(160), deadline=None)
@given(data=st.data())
def test_every_step_of_a_run_of_an_own_machine_is_an_edge(
    machine: str, name: str, data: st.DataObject
) -> None:
    """Whatever its guards say, and however often a row of it may be taken."""
    _, numbers, edges = explored(machine, name)
    world = CUT[name]
    large = BoundedSpec(name, world.mode, world.limits.model_copy(update=LARGE), world.full, step_retries=3)
    walker = StateWalker(large, SOUND[machine]())
    run = walker.start()
    for _ in range(60):
        if run.final:
            break
        moves = [move for move in walker.moves(run) if move["kind"] not in ("cancelled", "fault")]
        move = moves[data.draw(st.integers(0, len(moves) - 1))]
        ways = list(branches(walker.oracle, partial(walker.take, run), move))
        chosen, _ = ways[data.draw(st.integers(0, len(ways) - 1))]
        taken, _ = walker.take(run, chosen)
        source, dest = (numbers.get(state_of(cut(item, machine, name))) for item in (run, taken.after))
        assert source is not None and dest is not None, (chosen, run.state)
        assert (source, taken.row.trigger, taken.row.dest, dest) in edges
        run = taken.after


# -- on the command line -------------------------------------------------------------------------------------------

APP = '''
from paor import Engine, Machine, Phase, tool
from paor.machine import GuardContext

def two_failures(context: GuardContext) -> bool:
    """Two calls in a row have failed."""
    return context.counters.errors >= {errors}

def what_failed(context: GuardContext) -> str:
    """It looks at the last action."""
    return f"How to go on after {context.run.memory.history[-1].tool}?"

machine = (
    Machine.standard()
    .phase(Phase("Escalating", question=what_failed))
    .row("Reviewing", "escalate", "Escalating", when=two_failures, before="next_step", at_most=1)
    .row("Escalating", "advise", "Planning", when="succeeded")
    .row("Escalating", "give_up", "Failed")
)
engine = Engine("offline", machine=machine)
'''


@pytest.mark.whole
def test_the_command_names_the_phases_and_rows_of_an_own_machine(shell: Shell) -> None:
    (shell.folder / "desk.py").write_text(APP.replace("{errors}", "2"))
    said = shell("check", "--app", "desk:engine", "--mode", "batch")
    assert said.code == 0
    assert "own machine, proven for whatever its guards say:\n      phases: Escalating\n" in said.out
    assert "Reviewing.escalate (at most 1), " in said.out and "guards: two_failures\n" in said.out
    assert "note  Escalating.question: " in said.out and "every tool can be used" in said.out
    told = shell("check", "--app", "desk:engine", "--mode", "batch", "--json").json
    assert told["machine"]["phases"] == ["Escalating"] and "Escalating.advise" in told["machine"]["rows"]


@pytest.mark.whole
def test_the_command_finds_a_guard_that_raises(shell: Shell) -> None:
    (shell.folder / "wary_desk.py").write_text(APP.replace("{errors}", "context.values['patience']"))
    said = shell("check", "--app", "wary_desk:engine", "--mode", "batch")
    assert said.code == 1 and "guard two_failures: two_failures raised KeyError: 'patience'" in said.out
