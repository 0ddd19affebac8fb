"""Callbacks of a host's own machine run after the commit and cannot hurt; what would run within the decision is refused."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from transitions import State
from transitions.core import Transition

from paor import Engine, Journal, Machine, Phase, ScriptedModel, replay, tool
from paor.errors import UsageError
from paor.events import TransitionTaken
from paor.testing import call, refine

from ..diagrams.drawn_machines import verifying
from ..lifecycle.test_resume import in_child

DECIDE, SETTLE = Machine.standard().events
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


# -- what is refused -----------------------------------------------------------------------------------------------

Attempt = Callable[[Machine], object]


class Model:
    """A model as users of `transitions` have one."""

    state = "Planning"


def transition_of(machine: Machine) -> Any:
    return machine.get_transitions(DECIDE)[0]


def each(names: str, attempt: Callable[[Machine, str], object], form: str = "{}") -> dict[str, Attempt]:
    """Return an attempt for each of the names, under *form* with the name in it."""

    def of(name: str) -> Attempt:
        return lambda machine: attempt(machine, name)

    return {form.format(name): of(name) for name in names.split()}


MACHINE_LISTS = (
    "before_state_change after_state_change prepare_event finalize_event on_exception on_final models"
)
OWNERS: dict[str, tuple[Callable[[Machine], Any], str]] = {
    "": (lambda machine: machine, MACHINE_LISTS),
    "state.": (lambda machine: machine.get_state("Planning"), "on_enter on_exit"),
    "own.": (lambda machine: machine.get_state("Verifying"), "on_enter on_exit"),
    "transition.": (transition_of, "before after prepare conditions"),
}
"""Whatever of a machine holds lists of callbacks, and their names."""
MUTATIONS: dict[str, tuple[Any, ...]] = {
    "append": (notify,),
    "extend": ([notify],),
    "insert": (0, notify),
    "__iadd__": ([notify],),
    "__setitem__": (slice(0, 0), [notify]),
    "clear": (),
    "remove": (notify,),
    "pop": (),
}


def mutations() -> dict[str, Attempt]:
    """Return every way to change a list of callbacks, and to put another one in its place."""
    found: dict[str, Attempt] = {}
    for prefix, (owner, names) in OWNERS.items():
        found |= each(names, lambda m, name, of=owner: setattr(of(m), name, [notify]), prefix + "{} =")  # type: ignore[misc]
        for change, given in MUTATIONS.items():

            def mutate(
                m: Machine, name: str, of: Any = owner, change: str = change, given: Any = given
            ) -> object:
                return getattr(getattr(of(m), name), change)(*given)

            found |= each(names, mutate, f"{prefix}{{}}.{change}")
    return found


CALLED: dict[str, Attempt] = {
    **mutations(),
    **each(
        "enter exit", lambda m, name: m.get_state("Done").add_callback(name, notify), "state.add_callback {}"
    ),
    **each(
        "before after prepare conditions",
        lambda m, name: transition_of(m).add_callback(name, notify),
        "transition.add_callback {}",
    ),
    **each(
        "before after prepare",
        lambda m, name: m.events[DECIDE].add_callback(name, notify),
        "event.add_callback {}",
    ),
    **each(
        "before_select prepare_select before_decide prepare_decide on_final_Done"
        " on_enter_Nowhere on_exit_Nowhere after_nothing",
        lambda m, name: getattr(m, name)(notify),
    ),
    "callbacks": lambda m: m.callbacks([notify], None),  # type: ignore[arg-type]
    "callback": lambda m: m.callback(notify, None),
    **each(
        "before_state_change prepare_event on_exception",
        lambda m, name: Machine(**dict[str, Any]({name: notify})),
        "Machine({})",
    ),
    "row(before=function)": lambda m: m.row("Planning", "a", "Failed", before=notify),  # type: ignore[arg-type]
    "row(prepare)": lambda m: m.row("Planning", "a", "Failed", prepare=notify),
    "row(conditions)": lambda m: m.row("Planning", "a", "Failed", conditions=[notify]),
    "row(unless)": lambda m: m.row("Planning", "a", "Failed", unless="x"),
    "row(after=5)": lambda m: m.row("Planning", "a", "Failed", after=5),  # type: ignore[arg-type]
    "row(after=[...])": lambda m: m.row("Planning", "a", "Failed", after=[notify]),  # type: ignore[arg-type]
    "on_enter(name)": lambda m: m.on_enter("Done", "notify"),  # type: ignore[arg-type]
    "on_enter([...])": lambda m: m.on_enter("Done", [notify]),  # type: ignore[arg-type]
    "Phase(on_enter=[...])": lambda m: Phase("A", on_enter=[notify]),  # type: ignore[arg-type]
    "Phase(on_exit=name)": lambda m: Phase("A", on_exit="notify"),  # type: ignore[arg-type]
}
"""Every way in which something of the host's would be called within the decision, or is none that can be called after it."""

CHANGED: dict[str, Attempt] = {
    "add_state": lambda m: m.add_state("X"),
    "add_states": lambda m: m.add_states(["X"]),
    "add_states State": lambda m: m.add_states(State("X")),
    "add_transition": lambda m: m.add_transition("a", "Planning", "Done"),
    "add_transitions": lambda m: m.add_transitions([["a", "Planning", "Done"]]),
    "add_transitions none": lambda m: m.add_transitions([]),
    "add_ordered_transitions": lambda m: m.add_ordered_transitions(),
    "remove_transition": lambda m: m.remove_transition(DECIDE),
    "add_model": lambda m: m.add_model(Model()),
    "remove_model": lambda m: m.remove_model(Model()),
    "set_state": lambda m: m.set_state("Done"),
    "set_state of a model": lambda m: m.set_state("Done", Model()),
    "dispatch": lambda m: m.dispatch(DECIDE),
    "Machine(model)": lambda m: Machine(model=Model()),
    "Machine(a model)": lambda m: Machine(Model()),  # type: ignore[arg-type]
    "Machine(states)": lambda m: Machine(states=["a"], initial="a"),
    "Machine(transitions)": lambda m: Machine(transitions=[]),
    "Machine(send_event)": lambda m: Machine(send_event=True),
    "phase(name)": lambda m: m.phase("A"),  # type: ignore[arg-type]
    "phase(State)": lambda m: m.phase(State("A")),  # type: ignore[arg-type]
    "row from all": lambda m: m.row("*", "a", "Done"),
    "row from several": lambda m: m.row(["Planning"], "a", "Done"),  # type: ignore[arg-type]
    "row to itself": lambda m: m.row("Planning", "a", "="),
    "row to none": lambda m: m.row("Planning", "a", None),  # type: ignore[arg-type]
    **each(
        "send_event auto_transitions ignore_invalid_triggers initial name states events models model_attribute"
        " model_override transition_cls event_cls state_cls table waiting guards changes host required"
        " _initial _queued _prepare_event other",
        lambda m, name: setattr(m, name, "x"),
        "{} =",
    ),
    **each(
        "final ignore_invalid_triggers _name prompt tool question callbacks other",
        lambda m, name: setattr(m.get_state("Done"), name, "x"),
        "state.{} =",
    ),
    **each(
        "source dest row needed required label other",
        lambda m, name: setattr(transition_of(m), name, "x"),
        "transition.{} =",
    ),
    **each(
        "name machine transitions other", lambda m, name: setattr(m.events[DECIDE], name, "x"), "event.{} ="
    ),
    **each("events states host", delattr, "del {}"),
    "event.add_transition": lambda m: m.events[DECIDE].add_transition(Transition("Planning", "Done")),
    "event.transitions[]": lambda m: m.events[DECIDE].transitions["Planning"].append(transition_of(m)),
    "event.transitions[] =": lambda m: m.events[DECIDE].transitions.__setitem__("X", []),
    "settle.transitions[]": lambda m: m.events[SETTLE].transitions["Planning"].append(transition_of(m)),
    "event.transitions.pop": lambda m: m.events[DECIDE].transitions.pop("Planning"),
    "event.transitions.clear": lambda m: m.events[DECIDE].transitions.clear(),
    **each("states events", lambda m, name: getattr(m, name).update({"X": None}), "{}.update"),
    **each("states events", lambda m, name: getattr(m, name).__setitem__("X", 1), "{}[] ="),
    **each("states events", lambda m, name: getattr(m, name).clear(), "{}.clear"),
    **each("states events", lambda m, name: getattr(m, name).pop("X"), "{}.pop"),
    **each("states events", lambda m, name: getattr(m, name).setdefault("X", 1), "{}.setdefault"),
}
"""Every way in which a machine that runs share would be another one afterwards."""

RIGHT = (
    *(
        "machine.",
        "Machine.",
        "machine =",
        "Phase(",
        "Engine(",
        "methods return another",
        "a function is needed",
    ),
    *("one function", "there is no", "there are:"),
)


@pytest.mark.parametrize("attempts", [CALLED, CHANGED], ids=["called", "changed"])
@pytest.mark.parametrize("own", [False, True], ids=["standard", "own"])
def test_nothing_is_called_within_the_decision_and_nothing_changes_a_machine(
    attempts: dict[str, Attempt], own: bool
) -> None:
    """Each attempt is refused in one line that shows the right way, and the machine stays what it is."""
    machine = verifying() if own else Machine.standard()
    before = machine.to_dict(), told_of(machine)
    for name, attempt in attempts.items():
        if name.startswith("own.") and not own:
            continue
        with pytest.raises(UsageError) as refused:
            attempt(machine)
            pytest.fail(f"{name} is not refused")
        assert any(word in str(refused.value) for word in RIGHT), (name, str(refused.value))
        assert "\n" not in str(refused.value), name
        assert (machine.to_dict(), told_of(machine)) == before, name


def told_of(machine: Machine) -> Any:
    """Return what the library has of a machine."""
    return [
        (item.source, item.dest, [one.func for one in item.conditions], item.before, item.after, item.prepare)
        for item in machine.get_transitions()
    ], [(name, state.final, state.on_enter, state.on_exit) for name, state in machine.states.items()]


@pytest.mark.parametrize(
    "name", ["trigger", "may_trigger", "select", "to_Done", "is_Done", "state", "get_graph"]
)
def test_a_machine_is_no_model_of_itself(name: str) -> None:
    """Its runs are; what `transitions` would add to a model is not there."""
    with pytest.raises(AttributeError, match="a run is no model of the machine"):
        getattr(Machine.standard(), name)
    assert not hasattr(Machine.standard(), name)
