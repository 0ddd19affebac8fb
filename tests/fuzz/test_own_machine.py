"""The fuzz kit on machines of a host's own: nothing is found where nothing is wrong, and what is planted is."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paor import Engine, Journal, Limits, Machine, Phase, Result, replay
from paor.errors import UsageError
from paor.fsm.machine import host_rows
from paor.fuzz import EngineMachine, Repro, Said, Setting, Violation, World, load, replies, repro_of, search
from paor.fuzz.oracles.own_machine import OWN
from paor.fuzz.repro import machine_words, step_lines
from paor.fuzz.strategies.replies import phase_reply
from paor.machine import GuardContext
from paor.tools.schema.parameters import ParameterSchema

from ..support import own_machines
from ..support.effort import examples
from . import planted_machine
from .planted_bugs import planted

MACHINES: dict[str, Callable[[], Machine]] = {
    "verifying": own_machines.verifying,
    "escalating": own_machines.escalating,
    "two_reviewers": own_machines.two_reviewers,
    "triage": lambda: own_machines.triage({"mode": "batch"}),
}
"""Of `own_machines`."""


def maker(machine: Callable[[], Machine]) -> Callable[[Journal], Engine]:
    """Return what makes an engine with a machine and the tools of `own_machines`."""

    made = machine()

    def make(journal: Journal) -> Engine:
        tools = own_machines.World().tools()
        return Engine("offline", tools, journal, Limits(max_steps=4), machine=made, builtins=False)

    return make


@pytest.mark.whole
@pytest.mark.parametrize("kind", MACHINES)
def test_nothing_is_found_in_a_machine_that_is_right(kind: str) -> None:
    """Crashes, faults of the host's functions, near misses, people that decline: everything that a search has."""
    found = search(maker(MACHINES[kind]), examples=examples(30), steps=30, number=5)
    assert found.violation is None, found.violation
    (own,) = found.coverage.own
    assert not own.foreign
    assert {row.name for row in own.own_rows if row.count}


class Hours(EngineMachine):
    """An agent whose guards look at values of the run and of the port."""

    host_values: ClassVar[Any] = st.fixed_dictionaries({"open": st.booleans()})
    fakes = ("*",)

    def engine(self, journal: Journal) -> Engine:
        """Return the engine."""
        return planted_machine.engine(journal)


@pytest.mark.whole
def test_nothing_is_found_with_values_from_outside_and_phases_of_every_kind() -> None:
    found = search(Hours, examples=examples(30), steps=30, number=2)
    assert found.violation is None, found.violation
    assert found.requests["phase"]


# -- what is drawn -------------------------------------------------------------------------------------------------


@given(phase_reply(Setting(reply=planted_machine.VERDICT)))
@settings(max_examples=examples(40))
def test_a_good_reply_to_a_phase_fits_its_schema(said: Said) -> None:
    assert said.kind == "phase" and said.good is True
    assert not ParameterSchema(planted_machine.VERDICT).check(said.means["value"])


@pytest.mark.parametrize("aim", ["lead_on", "reask", "fail"])
def test_replies_to_phases_are_aimed(aim: str) -> None:
    seen: set[bool | None] = set()

    @given(replies("phase", Setting(reply=planted_machine.VERDICT), aim))
    @settings(max_examples=40, database=None)
    def judged(said: Said) -> None:
        assert bool(said.fault) is (aim == "fail")
        seen.add(said.good)

    judged()
    assert (False in seen) is (aim == "reask")
    assert True in seen or aim == "fail"


# -- scripts -------------------------------------------------------------------------------------------------------


def say(kind: str, text: str, **options: Any) -> dict[str, Any]:
    """Return a step in which the model says something."""
    return {"do": "row", "said": [Said(kind, text, good=None).wire()], **options}


ANSWERED = say("selection", '{"action": null, "answer": "It is known."}')
DONE = say("review", '{"status": "success"}')
ROW: dict[str, Any] = {"do": "row"}
START: dict[str, Any] = {"do": "start", "mode": "react", "limits": {"completion_review": "model"}}


def played(machine: Callable[[], Machine], script: list[dict[str, Any]]) -> World:
    """Return a world in which a script was played."""
    world = World(maker(machine))
    world.play(script)
    return world


def broken(machine: Callable[[], Machine], script: list[dict[str, Any]]) -> str:
    """Return the invariant that a script violates, empty for none."""
    try:
        played(machine, script).close()
    except Violation as violation:
        return violation.invariant
    return ""


def test_a_function_of_the_host_that_raises_changes_nothing_and_the_run_goes_on_once_mended() -> None:
    pay = [
        say("selection", '{"action": "bank.pay", "actionObjective": "pay"}'),
        say("parameters", '{"schema": "parameters_v1", "parameters": {"amount": 5}}', raises=True),
    ]
    world = played(own_machines.two_reviewers, [START, *pay])
    assert world.script[-1]["refused"] and [row.trigger for row in world.seen[1].rows] == ["select"]
    again = {name: value for name, value in pay[1].items() if name != "raises"}
    world.play([again, ROW])
    assert [row.trigger for row in world.seen[1].rows] == ["select", "look", "wait"]
    world.play(
        [{"do": "answer", "answer": {"approve": True}, "actor": "ann"}, {"do": "finish", "how": "polite"}]
    )
    assert world.need == "end"
    world.close()


def test_a_crash_and_a_cancel_in_an_own_phase_that_waits() -> None:
    pay = [
        say("selection", '{"action": "bank.pay", "actionObjective": "pay"}'),
        say("parameters", '{"schema": "parameters_v1", "parameters": {"amount": 5}}'),
        ROW,
        {"do": "crash"},
    ]
    world = played(own_machines.two_reviewers, [START, *pay])
    assert world.need == "question" and world.question is not None
    world.play([{"do": "cancel"}])
    assert world.run is not None and (world.run.state, world.run.reason) == ("Failed", "cancelled")
    world.close()


def raising(context: GuardContext) -> bool:
    """This guard has a mistake."""
    return bool(context.values["nothing"])


def test_a_guard_that_raises_by_itself_is_a_finding() -> None:
    def machine() -> Machine:
        return Machine.standard().require("finish", raising)

    assert broken(machine, [START, ANSWERED, DONE]) == "host_functions_never_raise"


BREAKS: dict[str, tuple[str, Callable[..., Any]]] = {
    "own_rows_within_bounds": ("bound_guard", lambda trigger, at_most: lambda case: True),
    "calls_come_back": ("called_by", lambda run, phase: False),
}
"""Parts of `host_rows` put in place of the engine's, and what they break; the others are planted in `tests/fuzz/planted_bugs.toml`."""

VERIFIED = [
    START,
    ANSWERED,
    DONE,
    ROW,
    ROW,
    {"do": "row", "happened": [{"do": "raise", "what": "ToolError"}]},
    ROW,
]


@pytest.mark.parametrize("name", BREAKS)
def test_an_engine_that_breaks_a_promise_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = [*VERIFIED, ROW, *[*VERIFIED[1:], ROW] * 2]
    assert broken(lambda: own_machines.verifying(1), rounds) == ""
    part, changed = BREAKS[name]
    if part == "bound_guard":
        known = host_rows.bound_guard

        def lenient(trigger: str, at_most: int) -> Any:
            return known(trigger, at_most + 1)

        changed = lenient
    monkeypatch.setattr(host_rows, part, changed)
    assert broken(lambda: own_machines.verifying(1), rounds) == name


def test_a_phase_left_without_an_answer_is_restored_as_it_was() -> None:
    """A stay that came to nothing is the last one: the journal tells the same as the driver held."""
    first = [
        say("selection", '{"action": "bank.pay", "actionObjective": "pay"}'),
        say("parameters", '{"schema": "parameters_v1", "parameters": {"amount": 5}}'),
        ROW,
        {"do": "answer", "answer": {"approve": True}},
        ROW,
        ROW,
        {"do": "answer", "answer": {"approve": False}},
        ROW,
        ROW,
        ROW,
        say("refinement", '{"decision": "continue", "reason": "go on"}'),
    ]
    second = [
        say("selection", '{"action": "bank.pay", "actionObjective": "pay"}'),
        say("parameters", '{"schema": "parameters_v1", "parameters": {"amount": 7}}'),
        ROW,
        {"do": "answer", "answer": {"approve": True}},
        ROW,
        ROW,
        {"do": "crash"},
    ]
    start = {**START, "limits": {"max_elicitations": 3}}
    world = played(own_machines.two_reviewers, [start, *first, *second])
    assert world.run is not None and not world.run.memory.visits["SecondReview"].ok
    assert world.run.memory.visits["SecondReview"].seq == world.run.seq - 1
    world.close()


# -- every row, resumed and forked ---------------------------------------------------------------------------------


@given(st.sampled_from(sorted(own_machines.KINDS)), st.integers(0, 40))
@settings(max_examples=examples(24), deadline=None)
def test_a_fork_at_any_row_of_an_own_machine_replays(kind: str, at: int) -> None:
    with TemporaryDirectory() as folder:
        of, answers = own_machines.KINDS[kind](Path(folder, "runs.db"), own_machines.World())
        with of:
            result: Result = of.run("Do it")
            for options in answers:
                if result.waiting_for is None:
                    break
                result = of.resume(result.run_id, question=result.waiting_for.id, **options)
            rows = of.journal.transitions(result.run_id)
            fork = of.fork(result.run_id, at % (len(rows) - 1))
            assert replay(of.journal, fork.run_id, of).identical
            assert not replay(of.journal, fork.run_id).divergences


# -- cases as files ------------------------------------------------------------------------------------------------


def case_of() -> Repro:
    """Return a failing case of an own machine."""

    def machine() -> Machine:
        return (
            Machine.standard()
            .phase(Phase("Pause"))
            .row("Planning", "pause", "Pause", at_most=1)
            .row("Pause", "go_on", "Planning")
            .require("finish", raising)
        )

    try:
        played(machine, [{**START, "values": {"open": True}}, ANSWERED, DONE])
    except Violation as violation:
        return repro_of(violation, "shop:engine")
    raise AssertionError("the case must fail")


def test_a_saved_case_says_which_machine_it_is_of(tmp_path: Path) -> None:
    case = case_of()
    told = step_lines(case)[0]
    assert "phases Pause" in told and "Planning.pause" in told and "guards raising" in told
    again = load(case.save(tmp_path))
    assert again == case and again.machine and again.script[0]["values"] == {"open": True}
    assert machine_words(again.machine) == machine_words(case.machine)


@pytest.mark.parametrize("machine", [[], {"states": 1}, {"states": [], "transitions": [{}], "initial": "x"}])
def test_a_case_with_a_machine_that_is_none_is_refused(machine: Any, tmp_path: Path) -> None:
    case = case_of()
    wire = case._replace(machine={}).wire() | {"machine": machine}
    path = tmp_path / "case.json"
    path.write_text(json.dumps(wire))
    with pytest.raises(UsageError, match="machine"):
        load(path)


def test_the_case_of_a_standard_machine_has_the_bytes_that_it_had() -> None:
    case = Repro("", "check", 0, "told", ({"do": "start"},))
    assert "machine" not in case.wire()


def test_every_invariant_of_own_machines_is_broken_by_something() -> None:
    """By an edit that is planted, or here: a claim that was never seen to fail proves nothing."""
    seen: set[str] = {name for bug in planted() for name in bug.seen_by} | set(BREAKS)
    assert set(OWN) <= seen | {"first_fitting_row_is_taken"}
