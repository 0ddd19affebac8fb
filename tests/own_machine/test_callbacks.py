"""Callbacks of a host's own machine run after the commit and cannot hurt; what would run within the decision is refused."""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from transitions import State

from paor import Engine, Journal, Machine, Phase, ScriptedModel, replay, tool
from paor.errors import UsageError
from paor.events import TransitionTaken
from paor.testing import call, refine

from ..diagrams.drawn_machines import verifying
from ..lifecycle.test_resume import in_child
from ..support.cases import MOMENT, RunResources, decide, replied, run_in

DECIDE, _ = Machine.standard().events
"""The events of the machine: an outcome, and an outcome while the run waits."""
SCRIPT = [*call("tests.run"), refine("stop", answer="ok")]


@tool("tests.run", effect="read")
def run_tests() -> str:
    """Run the tests."""
    return "all passed"


def engine_of(journal: Any, machine: Machine) -> Engine:
    return Engine(ScriptedModel(SCRIPT), tools=[run_tests], journal=journal, machine=machine)


def notify(event: Any) -> None:
    """A callback that does nothing."""


def all_kinds(told: Callable[[str, TransitionTaken], None]) -> Machine:
    """A machine with a callback of each kind and each spelling."""

    def as_(kind: str) -> Callable[[Any], None]:
        return lambda event: told(kind, event)

    machine = (
        Machine.standard()
        .phase(
            Phase("Verifying", tool="tests.run", on_enter=as_("Phase.on_enter"), on_exit=as_("Phase.on_exit"))
        )
        .row(
            "Reviewing", "verify", "Verifying", when="review_success", before="finish", after=as_("row.after")
        )
        .row("Verifying", "finish", "Done", when="succeeded")
        .row("Verifying", "give_up", "Failed")
        .on_enter("Reviewing", as_("on_enter"))
        .on_exit("Reviewing", as_("on_exit"))
        .after("select", as_("after"))
    )
    machine = machine.on_enter_Done(as_("on_enter_Done"))
    machine = machine.on_exit_Planning(as_("on_exit_Planning"))
    return machine.after_finish(as_("after_finish"))  # type: ignore[no-any-return]


EXPECTED: dict[str, Callable[[Any], bool]] = {
    "Phase.on_enter": lambda row: row.dest == "Verifying",
    "Phase.on_exit": lambda row: row.source == "Verifying",
    "row.after": lambda row: row.trigger == "verify",
    "on_enter": lambda row: row.dest == "Reviewing",
    "on_exit": lambda row: row.source == "Reviewing",
    "after": lambda row: row.trigger == "select",
    "on_enter_Done": lambda row: row.dest == "Done",
    "on_exit_Planning": lambda row: row.source == "Planning",
    "after_finish": lambda row: row.trigger == "finish",
}


def drive(engine: Engine, how: str) -> Any:
    if how == "run":
        return engine.run("Mend the bug")
    if how == "stream":
        return [event for event in engine.stream("Mend the bug", on_close="stop")][-1].result  # type: ignore[union-attr]
    if how == "arun":
        return asyncio.run(engine.arun("Mend the bug"))

    async def events() -> Any:
        return [event async for event in engine.astream("Mend the bug", on_close="stop")][-1].result  # type: ignore[union-attr]

    return asyncio.run(events())


@pytest.mark.parametrize("how", ["run", "stream", "arun", "astream"])
def test_a_callback_sees_its_row_in_the_file(tmp_path: Path, how: str) -> None:
    """Read through another connection: the row is committed before the callback is called, once, in the order of the rows."""
    path, calls = tmp_path / "own.db", list[tuple[str, int]]()

    def told(kind: str, event: TransitionTaken) -> None:
        with Journal(path, read_only=True) as journal:
            row = journal.transitions(event.run_id)[-1]
        assert (row.seq, row.source, row.trigger, row.dest) == (
            event.seq,
            event.source,
            event.trigger,
            event.dest,
        )
        calls.append((kind, event.seq))

    with engine_of(path, all_kinds(told)) as engine:
        result = drive(engine, how)
        rows = engine.journal.transitions(result.run_id)
        assert result.state == "Done" and replay(engine.journal, result.run_id, engine).identical
    for kind, wanted in EXPECTED.items():
        assert [seq for name, seq in calls if name == kind] == [row.seq for row in rows if wanted(row)], kind
    assert [seq for _, seq in calls] == sorted(seq for _, seq in calls)
    assert [kind for kind, seq in calls if rows[seq].trigger == "verify"] == [
        "on_exit",
        "Phase.on_enter",
        "row.after",
    ]


@pytest.mark.parametrize("how", ["run", "stream", "arun", "astream"])
def test_what_a_callback_raises_is_logged_and_changes_nothing(
    tmp_path: Path, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    def told(kind: str, event: TransitionTaken) -> None:
        raise RuntimeError(f"{kind} is down")

    with engine_of(tmp_path / "a.db", all_kinds(told)) as engine, caplog.at_level(logging.ERROR):
        result = drive(engine, how)
        raised = [(row.source, row.trigger, row.guards) for row in engine.journal.transitions(result.run_id)]
    with engine_of(tmp_path / "b.db", all_kinds(lambda kind, event: None)) as engine:
        quiet = drive(engine, how)
        assert raised == [
            (row.source, row.trigger, row.guards) for row in engine.journal.transitions(quiet.run_id)
        ]
    said = [
        record for record in caplog.records if "a callback of the machine raised on row" in record.message
    ]
    assert result.state == "Done" and len(said) >= len(EXPECTED)
    assert all(record.exc_info for record in said)


@pytest.mark.parametrize("at", [0, 3, 5, 8])
def test_a_killed_process_has_called_nothing_for_a_row_that_is_not_in_the_file(
    tmp_path: Path, at: int
) -> None:
    """The process is killed within the callback of row *at*."""
    path, log = tmp_path / "own.db", tmp_path / "log"

    def told(kind: str, event: TransitionTaken) -> None:
        with log.open("a") as out:
            out.write(f"{event.run_id} {event.seq} {kind}\n")
        if event.seq >= at:
            os.kill(os.getpid(), signal.SIGKILL)

    assert in_child(lambda: engine_of(path, all_kinds(told)).run("Mend the bug")) == signal.SIGKILL
    called = [line.split() for line in log.read_text().splitlines()]
    with Journal(path, read_only=True) as journal:
        rows = journal.transitions(called[0][0])
        assert [row.seq for row in rows] == list(range(len(rows)))
        for _, seq, kind in called:
            assert int(seq) < len(rows) and EXPECTED[kind](rows[int(seq)])


def test_callbacks_are_no_part_of_what_a_run_records() -> None:
    """A run may go on with other callbacks: they decide nothing."""
    machine = verifying()
    assert machine.on_enter("Done", notify).to_dict() == machine.to_dict()
    assert machine.on_enter("Done", notify) is not machine and machine.host.callbacks == ()


# -- what is none ---------------------------------------------------------------------------------------------------

NO_CALLBACKS: dict[str, Callable[[Machine], object]] = {
    "row(after=5)": lambda m: m.row("Planning", "a", "Failed", after=5),  # type: ignore[arg-type]
    "row(after=[...])": lambda m: m.row("Planning", "a", "Failed", after=[notify]),  # type: ignore[arg-type]
    "on_enter(name)": lambda m: m.on_enter("Done", "notify"),  # type: ignore[arg-type]
    "on_enter([...])": lambda m: m.on_enter("Done", [notify]),  # type: ignore[arg-type]
    "on_enter_Nowhere": lambda m: m.on_enter_Nowhere(notify),
    "after_nothing": lambda m: m.after_nothing(notify),
    "Phase(on_enter=[...])": lambda m: Phase("A", on_enter=[notify]),  # type: ignore[arg-type]
    "Phase(on_exit=name)": lambda m: Phase("A", on_exit="notify"),  # type: ignore[arg-type]
    "row(before=function)": lambda m: m.row("Planning", "a", "Failed", before=notify),  # type: ignore[arg-type]
    "row from all": lambda m: m.row("*", "a", "Done"),
    "row to itself": lambda m: m.row("Planning", "a", "="),
    "row to none": lambda m: m.row("Planning", "a", None),  # type: ignore[arg-type]
    "phase(name)": lambda m: m.phase("A"),  # type: ignore[arg-type]
    "phase(State)": lambda m: m.phase(State("A")),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("what", NO_CALLBACKS)
def test_what_is_no_callback_and_no_row_is_refused_where_it_is_given(what: str) -> None:
    """In one line."""
    with pytest.raises(UsageError) as refused:
        NO_CALLBACKS[what](verifying())
    assert "\n" not in str(refused.value)


# -- what would change a machine -------------------------------------------------------------------------------------

Change = Callable[[Machine], object]


def transition_of(machine: Machine) -> Any:
    """Return the transition of Planning that is tried first."""
    return machine.get_transitions(DECIDE, "Planning")[0]


def each(names: str, change: Callable[[Machine, str], object], form: str = "{}") -> dict[str, Change]:
    """Return a change for each of the names, under *form* with the name in it."""
    return {
        form.format(name): functools.partial(lambda machine, name: change(machine, name), name=name)
        for name in names.split()
    }


BARE = next(row for row in Machine.standard().table if not row.guards)
WITHIN = "before_state_change after_state_change prepare_event finalize_event on_exception on_final"
"""Lists of callbacks that the library calls within a decision."""

CHANGED: dict[str, Change] = {
    **each(WITHIN, lambda m, name: setattr(m, name, [notify]), "{} ="),
    **each(WITHIN, lambda m, name: getattr(m, name).append(notify), "{}.append"),
    **each(
        "before after prepare conditions",
        lambda m, name: setattr(transition_of(m), name, [notify]),
        "transition.{} =",
    ),
    **each(
        "before after prepare conditions",
        lambda m, name: getattr(transition_of(m), name).append(notify),
        "transition.{}.append",
    ),
    **each(
        "before after prepare conditions",
        lambda m, name: transition_of(m).add_callback(name, notify),
        "transition.add_callback {}",
    ),
    **each(
        "source dest row needed required",
        lambda m, name: setattr(transition_of(m), name, (notify,)),
        "transition.{} =",
    ),
    **each(
        "before after prepare",
        lambda m, name: m.events[DECIDE].add_callback(name, notify),
        "event.add_callback {}",
    ),
    **each("table waiting guards changes host", lambda m, name: setattr(m, name, ()), "{} ="),
    "add_state": lambda m: m.add_state("X"),
    "add_transition": lambda m: m.add_transition(DECIDE, "Planning", "Done", row=BARE),
    "add_transition to all": lambda m: m.add_transition(DECIDE, "*", "Done", row=BARE),
    "remove_transition": lambda m: m.remove_transition(DECIDE),
    "transitions.pop": lambda m: m.events[DECIDE].transitions["Planning"].pop(),
    "transitions.reverse": lambda m: m.events[DECIDE].transitions["Planning"].reverse(),
    "transitions.clear": lambda m: m.events[DECIDE].transitions.clear(),
    **each(
        "enter exit",
        lambda m, name: m.get_state("Planning").add_callback(name, notify),
        "state.add_callback {}",
    ),
    **each(
        "enter exit",
        lambda m, name: getattr(m.get_state("Planning"), f"on_{name}").append(notify),
        "state.on_{}.append",
    ),
    "another event": lambda m: m.add_transition("leap", "Planning", "Done", row=BARE),
    "states[] =": lambda m: m.states.__setitem__("X", Phase("X")),
    "states.pop": lambda m: m.states.pop("Failed"),
    **each(
        "prompt tool question arguments",
        lambda m, name: (
            setattr(m.states["Verifying"], name, "x") if "Verifying" in m.states else m.add_state("Y")
        ),
        "phase.{} =",
    ),
}
"""Ways in which a machine that runs share would decide otherwise, or would call something within a decision."""

IGNORED: dict[str, Change] = {"models": lambda m: m.models.append(m)}
"""A way to change what no decision looks at."""


def decided(machine: Machine) -> tuple[str, dict[str, bool]]:
    """Return the row that a reply of nothing leads to in Planning, and what was evaluated."""
    run = run_in("Planning")
    found = decide(run, replied("nothing"), MOMENT, RunResources(run.spec), machine=machine)
    return found.row.trigger, dict(found.guards)


@pytest.mark.parametrize("own", [False, True], ids=["standard", "own"])
@pytest.mark.parametrize("what", [*CHANGED, *IGNORED])
def test_a_machine_that_was_changed_decides_nothing(what: str, own: bool) -> None:
    """What it was made of is compared before each decision; what is ignored changes none."""

    machine = verifying() if own else Machine()
    before, taken = machine.to_dict(), decided(machine)
    (CHANGED | IGNORED)[what](machine)
    assert decided(Machine.standard()) == decided(Machine()), "it shares nothing that can be changed"
    if what in IGNORED:
        assert decided(machine) == taken and machine.to_dict() == before
        return
    with pytest.raises(UsageError, match="the machine was changed after it was made") as refused:
        decided(machine)
    instead = "machine.on_enter(" if what.startswith("state.") else "machine = machine.row("
    assert instead in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.parametrize("what", CHANGED)
def test_a_machine_that_was_changed_is_no_other_ones(what: str, tmp_path: Path) -> None:
    """What a host is given is its own: engines decide as before, and one that is made with the changed machine is refused."""
    with Engine(ScriptedModel(SCRIPT), tools=[run_tests], journal=tmp_path / "a.db") as engine:
        machines = Machine.standard(), engine.machine
        for machine in machines:
            CHANGED[what](machine)
        assert engine.run("Mend the bug").state == "Done"
        for machine in machines:
            with pytest.raises(UsageError, match="the machine was changed after it was made"):
                engine_of(tmp_path / "b.db", machine)
    with engine_of(tmp_path / "c.db", Machine.standard()) as engine:
        assert engine.run("Mend the bug").state == "Done"


def test_a_run_of_a_changed_machine_stays_where_it_was(tmp_path: Path) -> None:
    """And goes on with a machine that is as it was made."""
    machine = verifying()
    with engine_of(tmp_path / "own.db", machine) as engine:
        machine.events[DECIDE].transitions["Planning"].reverse()
        with pytest.raises(UsageError, match="nothing is decided with it in Planning"):
            engine.run("Mend the bug")
        (row,) = engine.journal.runs()
        assert engine.journal.transitions(row.run_id) == []
    with engine_of(tmp_path / "own.db", verifying()) as engine:
        assert engine.resume(row.run_id).state == "Done"


@pytest.mark.parametrize(
    "name", ["trigger", "may_trigger", "select", "to_Done", "is_Done", "state", "get_graph"]
)
def test_a_machine_is_no_model_of_itself(name: str) -> None:
    """Its runs are; what `transitions` would add to a model is not there."""
    with pytest.raises(AttributeError, match="a run is no model of the machine"):
        getattr(Machine.standard(), name)
    assert not hasattr(Machine.standard(), name)
