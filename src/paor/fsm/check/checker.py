"""
`check`: an engine's policy and its machine, examined before anything has run. Pure, but for asking the engine its settings.

Three things are examined. The *policy*: rules that can never fire. The *table* as it stands: names, effects, rows that an
earlier one shadows. The *machine* that an engine's limits bound: every state and every edge of it, by the real guards and
the real decision (`fsm.check.state_space`), held against what every transition promises (`fsm.check.invariants`), and the whole against
dead ends and endless loops (`fsm.check.termination`). What that proves, and what not, is argued in docs/checking.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Protocol

import orjson

from ...states.base.errors import IllegalEvent
from ...states.run.budgets import limit_reached
from ...states.run.phase_names import DONE, FINAL, PLANNING
from ...states.run.spec import Mode, ToolSpec
from ...states.settings.limits import PLANNER_STEPS, Limits
from ...states.settings.policy import Policy
from ...tools.tool import Tool
from ..machine.decide import machine_told
from ..machine.guards import GUARDS
from ..machine.host_rows import NO_HOST
from ..machine.impure_names import impure_parts
from ..machine.machine import MACHINE, Machine
from ..machine.properties import Happened, Property, PropertyWatch, properties_of
from ..machine.safety import MachineDefect
from ..machine.table import Row
from ..machine.updates import CHANGES
from .bounded_specs import BOUNDS, FORMS, BoundedSpec, Form, world_of, worlds_of
from .findings import Check, Explored, Finding, Path, PathStep
from .host_functions import HostFunctions
from .invariants import broken_promises
from .policy_lint import policy_findings
from .promised import Broken, Tools
from .promised import broken as broken_in
from .state_space import STATES_MAX, AppliedDecision, StateEdge, StateGraph, StateWalker, explore
from .table_findings import places_of, table_defects, table_findings
from .termination import endless_walk, unbounded_parts


class Examined(Protocol):
    """What `check` asks an engine for its settings; an `Engine` is one."""

    @property
    def policy(self) -> Policy: ...
    @property
    def tools(self) -> tuple[Tool, ...]: ...
    @property
    def machine(self) -> Machine: ...
    def limits_of(self, mode: Mode) -> Limits: ...


def path_of(
    graph: StateGraph,
    edges: Sequence[StateEdge],
    machine: Machine,
    last: PathStep | None = None,
    loop: int | None = None,
) -> Path:
    """
    Return a path along *edges*, in a world whose limits are as large as the path needs them.

    Args:
        graph: What was explored.
        edges: From the start.
        machine: That were examined.
        last: A step behind them that leads nowhere.
        loop: Number of the edge at which a loop begins.
    """
    steps = tuple(edge.step for edge in edges) + ((last,) if last is not None else ())
    world = _widen_limits(graph.world, edges)
    path = Path(world.wire(), steps, loop)
    return path if not any(edge.kept for edge in edges) else _path_in(world, path, machine)


def _widen_limits(world: BoundedSpec, edges: Sequence[StateEdge]) -> BoundedSpec:
    """Return *world* with every limit raised by how often its counter was kept, at most in one stretch between resets."""
    longest: dict[str, int] = {}
    running: dict[str, int] = {}
    for edge in edges:
        for name in edge.lowered:
            running[name] = 0
        for name in edge.kept:
            running[name] = running.get(name, 0) + 1
            longest[name] = max(longest.get(name, 0), running[name])
    limits = {
        BOUNDS[name]: getattr(world.limits, BOUNDS[name]) + count
        for name, count in longest.items()
        if name in BOUNDS
    }
    retries = world.step_retries + longest.get("step_retries", 0)
    return replace(world, limits=world.limits.model_copy(update=limits), step_retries=retries)


def _path_in(world: BoundedSpec, path: Path, machine: Machine) -> Path:
    """Return *path* with the moves as *world* has them: an argument that must be new may have another number."""
    walker = StateWalker(world, machine)
    run, steps = walker.start(), []
    for step in path.steps:
        named = {move["move"]: move for move in walker.moves(run)}
        move = {**step.move, **named.get(step.move["move"], {})}
        steps.append(replace(step, move=move))
        if not step.trigger:
            break
        try:
            taken, _ = walker.take(run, move)
        except Exception:  # noqa: BLE001 - the path then shows what was explored, not a run
            return path
        if (taken.row.trigger, taken.row.dest) != (step.trigger, step.dest):
            return path
        run = taken.after
    return replace(path, steps=tuple(steps))


def rerun(path: Path, machine: Machine | None = None) -> list[tuple[str, str, str]]:
    """
    Walk a path again, by the real decision, and return the rows that were taken: phase, trigger, destination.

    Args:
        path: As a finding holds it.
        machine: The same that were examined; paor's own when not given.

    Returns:
        The rows; where no row takes the last move the trigger is empty, where its effect cannot be ``!``.
    """
    world = world_of(path.world)
    walker = StateWalker(world, machine if machine is not None else Machine())
    run = walker.start()
    found: list[tuple[str, str, str]] = []
    for step in path.steps:
        try:
            if step.move["move"] == "request":
                list(walker.moves(run))
            taken, _ = walker.take(run, step.move)
        except IllegalEvent:
            return [*found, (run.state, "", "")]
        except Exception:  # noqa: BLE001 - an edited effect can raise anything
            return [*found, (run.state, "!", "")]
        found.append((taken.row.source, taken.row.trigger, taken.row.dest))
        run = taken.after
    return found


MODES = FORMS
OWN_STATES_MAX = 150_000
"""Of one world of a host's own machine."""

NOTED = frozenset(("never_allowed",))
"""Findings on a policy that may well be meant: to deny a tool is what a policy is for."""

FORCED = frozenset(("cancelled", "fault", "unaffordable"))
"""Outcomes that end a run from outside; an end must be reachable without them."""


def check(
    engine: Examined,
    machine: Machine | None = None,
    *,
    modes: Iterable[Form] = MODES,
    never: str | Sequence[str] = (),
    always: str | Sequence[str] = (),
) -> Check:
    """
    Prove that every run of an engine ends well or for a reason, and report what is wrong. Nothing is run.

    Args:
        engine: Its policy, tools and limits are examined.
        machine: Instead of the engine's, such as one with an edited table, guards or effects.
        modes: Modes of a run that are explored, and ``native`` for the profile; default all four.
        never: What no run may do, such as ``"Done without Verifying"``, ``"pay.* without approval"``; see ``docs/checking.md``.
        always: Likewise what comes before what, such as ``"refund.* before mail.send"``.

    Returns:
        The findings, each with a path that leads to it, and how many states and edges were explored.

    Raises:
        UsageError: *never* or *always* is no property of this engine.
    """
    worlds = worlds_of({mode: engine.limits_of("react" if mode == "native" else mode) for mode in modes})
    tools = [tool.spec() for tool in engine.tools]
    policy = policy_findings(engine.policy, tools)
    if machine is None and not engine.machine.is_standard:
        machine = engine.machine
    held = properties_of(machine or MACHINE, {tool.name for tool in tools}, never, always)
    if machine is None and not held:
        # with the functions that decide in this process; others may have been put in their place
        proof = _proven(worlds, (*GUARDS.items(), *CHANGES.items()))
    else:
        held_for = Tools({tool.name: tool for tool in tools}, engine.policy)
        proof = prove(machine or Machine(), worlds, _others(), tools=tools, held=held, held_for=held_for)
    notes = (*(item for item in policy if item.code in NOTED), *proof.notes)
    findings = (*(item for item in policy if item.code not in NOTED), *proof.findings)
    return Check(findings, proof.states, proof.edges, proof.worlds, proof.unused, notes)


@lru_cache(maxsize=32)
def _proven(worlds: tuple[BoundedSpec, ...], in_force: tuple[object, ...]) -> Check:
    """Return what is wrong with paor's own machine; the same for all engines with the same limits."""
    return prove(Machine(), worlds, _others())


def _others() -> tuple[BoundedSpec, ...]:
    return tuple(sorted(worlds_of(default_limits()), key=lambda world: world.full))


def prove(
    machine: Machine,
    worlds: Sequence[BoundedSpec],
    others: Sequence[BoundedSpec] = (),
    *,
    states_max: int | None = None,
    tools: Sequence[ToolSpec] = (),
    held: Sequence[Property] = (),
    held_for: Tools | None = None,
) -> Check:
    """
    Return what is wrong with *machine* in *worlds*.

    Args:
        machine: What decides.
        worlds: To explore, as `fsm.check.bounded_specs.worlds_of` gives them.
        others: Where rows are looked for that are never taken in *worlds*, before that is a finding; the limits or the
            mode can be why. Nothing else is examined there.
        states_max: Of each world; what is found in a part of it is found in the whole. None: `STATES_MAX`, for a host's own
            machine `OWN_STATES_MAX`.
        tools: With which calls the functions of a host's own machine are tried.
        held: Properties that every run must keep.
        held_for: Whose calls the calls of a world stand for, with them.
    """
    own = machine.host is not NO_HOST
    findings = list(table_findings(machine))
    if any(item.code == "unknown_name" for item in findings):
        return Check(tuple(findings), 0, 0)
    functions, rows = HostFunctions(tools), machine.rows
    states_max = states_max or (OWN_STATES_MAX if own else STATES_MAX)
    explored, phases = [], set[str]()
    broken: dict[Property, tuple[Broken, StateGraph]] = {}
    for world in worlds:
        graph, found = _explore_world(machine, world, states_max, functions)
        findings = [_with_walk(item, graph, machine) for item in findings]
        findings += [item for item in found if item not in findings]
        phases |= {run.state for run in graph.runs}
        explored.append(_figures(graph, machine))
        for prop in held:
            assert held_for is not None, "a property is held for tools"
            shown = broken_in(graph, machine, prop, held_for)
            if shown is not None and (prop not in broken or len(shown.edges) < len(broken[prop][0].edges)):
                broken[prop] = shown, graph
    findings += [_forbidden(shown, graph, machine) for shown, graph in broken.values()]
    taken = {number for item in explored for number in item.rows}
    places = [places_of(machine)[id(row)] for row in rows]
    never = set(range(len(places))) - taken
    left = {number for number in never if not own or rows[number].host}
    for world in others:
        if left and world not in worlds:
            graph = explore(world, machine)
            phases |= {run.state for run in graph.runs}
            left.difference_update(_figures(graph, machine).rows)
    findings += [Finding("row_never_taken", places[number], NEVER_TAKEN) for number in sorted(left)]
    findings += functions.findings
    findings += [
        Finding("unreachable_phase", phase, "no run comes to this phase")
        for phase in machine.states
        if phase not in phases and not any(item.place == phase for item in findings)
    ]
    unused = tuple(places[number] for number in sorted(never - left))
    states, edges = sum(item.states for item in explored), sum(item.edges for item in explored)
    named = (Finding("impure_name", place, told) for place, told in impure_parts(machine.host))
    return Check(tuple(findings), states, edges, tuple(explored), unused, (*named, *functions.notes))


def _forbidden(shown: Broken, graph: StateGraph, machine: Machine) -> Finding:
    """Return the finding of a broken property, with the walk that breaks it: each step that begins a call says whose it is (``as``)."""
    path = path_of(graph, shown.edges, machine)
    steps = tuple(
        replace(step, move={**step.move, "as": list(shown.calls[number])}) if number in shown.calls else step
        for number, step in enumerate(path.steps)
    )
    last = shown.edges[-1].row
    told = f"a run breaks it with row {len(steps) - 1}, {last.trigger} from {last.source} to {last.dest}"
    return Finding("forbidden", shown.prop.text, told, replace(path, steps=steps))


def breaks(machine: Machine, never: str, path: Mapping[str, Any]) -> bool:
    """
    Return whether a walk that `paor check` has shown still breaks a property: the regression test of what was mended.

    Args:
        machine: That decides now.
        never: The property; one of *always* as ``A without ever B``.
        path: As the finding holds it, as JSON data.

    Raises:
        UsageError: *never* is no property of the machine.
    """
    (prop,) = properties_of(machine, None, never)
    walker, watch = StateWalker(world_of(path["world"]), machine), PropertyWatch(prop, machine)
    run, caller = walker.start(), ""
    for step in path["steps"]:
        move = step["move"]
        try:
            list(walker.moves(run))
            taken, decision = walker.take(run, move)
        except Exception:  # noqa: BLE001 - the walk cannot be gone any more
            return False
        begun = (tuple(move["as"]),) if "as" in move else ()
        reply, ok = run.memory.reply, decision.facts.get("ok") is True
        ended = caller if ok and taken.row.trigger == "execute" else None
        approved = bool(begun) and reply is not None and reply.approves
        happened = Happened(taken.row, decision.guards, begun, ended, approved)
        if watch.breaks(happened):
            return True
        watch.note(happened)
        caller = begun[0][0] if begun else caller
        run = taken.after
    return False


NEVER_TAKEN = (
    "no run comes to take this row: a row before it fits whenever it does, or its guards never hold together"
)


LEAST = Limits(
    max_steps=1,
    max_plans=1,
    selection_retries=0,
    parameter_retries=1,
    max_retries=1,
    max_elicitations=1,
    no_improvement_limit=1,
    max_consecutive_errors=1,
    max_consecutive_refused=1,
    max_blocked_calls=1,
)
"""Of the world that is explored when an engine is made: some hundred states, in which every loop and every case of a host's rows shows."""

LEAST_STATES = 2_000
"""States after which that exploration ends; what it has found until then holds."""

REFUSED = frozenset(("endless_loop", "uncovered_case", "dead_end", "broken_effect", "uncounted"))
"""Findings of that world that an engine refuses a machine for: with them a run would not end, or stay where it is."""


def machine_defects(machine: Machine) -> tuple[MachineDefect, ...]:
    """
    Return what an engine refuses a machine for, nothing for the standard one: what its table shows, else what runs of the smallest world
    come to, with the host's functions as free choices, none of which is called. `check` explores the worlds of an engine's own limits.

    Args:
        machine: With its host's functions.
    """
    if machine.is_standard:
        return ()
    return table_defects(machine) or least_world(
        orjson.dumps(machine.to_dict(), option=orjson.OPT_SORT_KEYS).decode()
    )


@lru_cache(maxsize=256)
def least_world(told: str) -> tuple[MachineDefect, ...]:
    """Return what the smallest world shows of a machine as data; a case that no row takes alone, since nothing leads on from there."""
    found = prove(machine_told(told), worlds_of({"react": LEAST})[:1], states_max=LEAST_STATES).findings
    defects = [MachineDefect(item.code, item.place, item.message) for item in found if item.code in REFUSED]
    open_cases = [item for item in defects if item.code == "uncovered_case"]
    return tuple(open_cases or defects)


def _figures(graph: StateGraph, machine: Machine) -> Explored:
    taken = {id(edge.row) for edge in graph.edges}
    numbers = (number for number, row in enumerate(machine.rows) if id(row) in taken)
    world = graph.world
    return Explored(world.name, len(graph.runs), len(graph.edges), tuple(numbers), dict(world.beyond))


def _with_walk(finding: Finding, graph: StateGraph, machine: Machine) -> Finding:
    """Return what is wrong with a row with a walk that shows it: it is taken, or another one in its place."""
    places = places_of(machine)
    row = next((row for row in machine.rows if places[id(row)] == finding.place), None)
    if finding.path is not None or row is None:
        return finding
    if row.source in FINAL:
        ends = (number for number, run in enumerate(graph.runs) if run.state == row.source)
        way = next((graph.way(number) for number in ends), None)
    else:
        own = (edge for edge in graph.edges if edge.row is row)
        edge = next(own, next((edge for edge in graph.edges if _instead(edge, row)), None))
        way = [*graph.way(edge.source), edge] if edge is not None else None
    return finding if way is None else replace(finding, path=path_of(graph, way, machine))


def _instead(edge: StateEdge, row: Row) -> bool:
    """Return whether an edge takes another row where *row* would fit, as far as its guards were evaluated."""
    wanted = (*((name, True) for name in row.conditions), *((name, False) for name in row.unless))
    return edge.row.source == row.source and all(
        edge.guards.get(name, value) is value for name, value in wanted
    )


# -- the machine ---------------------------------------------------------------------------------------------------


def _explore_world(
    machine: Machine, world: BoundedSpec, states_max: int, functions: HostFunctions
) -> tuple[StateGraph, list[Finding]]:
    """Return an explored world, and what is wrong in it."""
    places = places_of(machine)
    broken: dict[tuple[str, str], tuple[str, int, PathStep]] = {}

    def watch(taken: AppliedDecision, number: int, step: PathStep) -> None:
        for code, told in broken_promises(taken):
            broken.setdefault((code, places[id(taken.row)]), (told, number, step))

    graph = explore(world, machine, watch, states_max=states_max, functions=functions)
    findings = [
        Finding(code, place, told, path_of(graph, graph.way(number), machine, last=step))
        for (code, place), (told, number, step) in broken.items()
    ]
    findings += _stuck_findings(graph, machine)
    findings += _end_findings(graph, machine)
    findings += _loop_findings(graph, machine)
    if not graph.full:
        findings.append(Finding("too_large", world.name, f"more than {len(graph.runs) - 1:,} states"))
    return graph, findings


def _stuck_findings(graph: StateGraph, machine: Machine) -> Iterator[Finding]:
    seen = set[tuple[str, str]]()
    for stuck in graph.stuck:
        move, phase = stuck.step.move["move"], stuck.step.phase
        said = ", ".join(f"{name} is {value}" for name, value in stuck.step.move.get("own", {}).items())
        code, told = (
            "uncovered_case",
            f"no row takes {move!a}{said and f' where {said}'}; add a last row without guards",
        )
        if stuck.error:
            code, told = "broken_effect", f"after {move!a}: {ascii(stuck.error)[1:-1][:120]}"
        if (code, phase) not in seen:
            seen.add((code, phase))
            path = path_of(graph, graph.way(stuck.source), machine, last=stuck.step)
            yield Finding(code, phase, told, path)


def _end_findings(graph: StateGraph, machine: Machine) -> Iterator[Finding]:
    """Yield the first state of each phase that no end, or no success, can be reached from."""
    if not graph.full:
        return
    ends = [number for number, run in enumerate(graph.runs) if run.final]
    ended = _reaching(graph, ends)
    seen = set[str]()
    for number, run in enumerate(graph.runs):
        if number not in ended and run.state not in seen:
            seen.add(run.state)
            path = path_of(graph, graph.way(number), machine)
            yield Finding("dead_end", run.state, "no end can be reached from here", path)
    done = _reaching(graph, [number for number in ends if graph.runs[number].state == DONE])
    for number, run in enumerate(graph.runs):
        limited = limit_reached(run) or run.counters.unmade  # which only has its last words to say
        free = run.state == PLANNING and run.waiting_for is None and not limited
        if free and number not in done:
            path = path_of(graph, graph.way(number), machine)
            yield Finding(
                "done_unreachable", PLANNING, "nothing stops the run, and Done cannot be reached", path
            )
            return


def _reaching(graph: StateGraph, ends: Iterable[int]) -> set[int]:
    """Return the states from which one of *ends* can be reached without an outcome that is forced from outside."""
    before: dict[int, list[int]] = {}
    for edge in graph.edges:
        if edge.move["kind"] not in FORCED and edge.move.get("action") != "cancel":
            before.setdefault(edge.dest, []).append(edge.source)
    found, line = set(ends), list(ends)
    while line:
        for number in before.get(line.pop(), ()):
            if number not in found:
                found.add(number)
                line.append(number)
    return found


def _loop_findings(graph: StateGraph, machine: Machine) -> Iterator[Finding]:
    seen = set[frozenset[str]]()
    for part in unbounded_parts(graph.edges, outside=_is_asked_again):
        loop = endless_walk(part)
        rows = dict.fromkeys(f"{edge.row.source}.{edge.row.trigger}" for edge in loop)
        if frozenset(rows) not in seen:
            seen.add(frozenset(rows))
            way = graph.way(loop[0].source)
            path = path_of(graph, [*way, *loop], machine, loop=len(way))
            told = f"{len(loop)} steps that no bound ends; give a row of them at_most=..."
            yield Finding("endless_loop", ", ".join(rows), told, path)


def _is_asked_again(edge: StateEdge) -> bool:
    """Whether a person has a call in doubt made again: as often as that person says so, each time anew."""
    return bool(edge.move["kind"] == "answer" and edge.move["action"] == "retry")


def default_limits() -> dict[Form, Limits]:
    """Return the limits of an engine that was given none, by mode."""
    return {mode: Limits(max_steps=PLANNER_STEPS) if mode == "planner" else Limits() for mode in MODES}
