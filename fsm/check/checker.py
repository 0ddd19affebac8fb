"""
`check`: an engine's policy and its machine, examined before anything has run. Pure, but for asking the engine its settings.

Three things are examined. The *policy*: rules that can never fire. The *table* as it stands: names, effects, rows that an
earlier one shadows. The *machine* that an engine's limits bound: every state and every edge of it, by the real guards and
the real decision (`fsm.check.state_space`), held against what every transition promises (`fsm.check.invariants`), and the whole against
dead ends and endless loops (`fsm.check.termination`). What that proves, and what not, is argued in docs/checking.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, cast, get_args

from ...states.run.budgets import limit_reached
from ...states.run.phase_names import DONE, FINAL, PHASES, PLANNING, REVIEWING
from ...states.run.spec import Mode
from ...states.settings.limits import Limits
from ..machine.machine import Rules, guards_in_force
from ..machine.table import Row, rows_of
from ..machine.updates import CHANGES
from .bounded_specs import BoundedSpec, worlds_of
from .counterexample import path_of
from .findings import Check, Explored, Finding, PathStep
from .guard_logic import find_shadowed, wanted_of
from .invariants import broken_promises
from .policy_lint import policy_findings
from .state_space import STATES_MAX, AppliedDecision, StateEdge, StateGraph, explore
from .termination import endless_walk, unbounded_parts

if TYPE_CHECKING:
    from ..engine import Engine

MODES = get_args(Mode)
NOTED = frozenset(("never_allowed",))
"""Findings on a policy that may well be meant: to deny a tool is what a policy is for."""

FORCED = frozenset(("cancelled", "fault", "unaffordable"))
"""Outcomes that end a run from outside; an end must be reachable without them."""


def check(engine: Engine, rules: Rules | None = None, *, modes: Iterable[Mode] = MODES) -> Check:
    """
    Prove that every run of an engine ends well or for a reason, and report what is wrong. Nothing is run.

    Args:
        engine: Its policy, tools and limits are examined.
        rules: Instead of paor's own table, guards and effects, an edited copy.
        modes: Modes of a run that are explored; default all three.

    Returns:
        The findings, each with a path that leads to it, and how many states and edges were explored.
    """
    worlds = worlds_of({mode: engine.limits_of(mode) for mode in modes})
    policy = policy_findings(engine.policy, [tool.spec() for tool in engine.tools])
    machine = _proven(worlds, _in_force()) if rules is None else prove(rules, worlds, _others())
    notes = tuple(item for item in policy if item.code in NOTED)
    findings = (*(item for item in policy if item.code not in NOTED), *machine.findings)
    return Check(findings, machine.states, machine.edges, machine.worlds, machine.unused, notes)


@lru_cache(maxsize=32)
def _proven(worlds: tuple[BoundedSpec, ...], in_force: tuple[object, ...]) -> Check:
    """Return what is wrong with paor's own rules; the same for all engines with the same limits."""
    return prove(Rules(), worlds, _others())


def _in_force() -> tuple[object, ...]:
    """Return the functions that decide in this process; somebody may have put others in their place."""
    return (*guards_in_force().items(), *CHANGES.items())


def _others() -> tuple[BoundedSpec, ...]:
    return tuple(sorted(worlds_of(default_limits()), key=lambda world: world.full))


def prove(
    rules: Rules,
    worlds: Sequence[BoundedSpec],
    others: Sequence[BoundedSpec] = (),
    *,
    states_max: int = STATES_MAX,
) -> Check:
    """
    Return what is wrong with *rules* in *worlds*.

    Args:
        rules: What decides.
        worlds: To explore, as `fsm.check.bounded_specs.worlds_of` gives them.
        others: Where rows are looked for that are never taken in *worlds*, before that is a finding; the limits or the
            mode can be why. Nothing else is examined there.
        states_max: Of each world; what is found in a part of it is found in the whole.
    """
    findings = list(_table_findings(rules))
    if any(item.code == "unknown_name" for item in findings):
        return Check(tuple(findings), 0, 0)
    rows = rules.table + rules.waiting
    explored, phases = [], set[str]()
    for world in worlds:
        graph, found = _explore_world(rules, world, states_max)
        findings = [_with_walk(item, graph, rules) for item in findings]
        findings += [item for item in found if item not in findings]
        phases |= {run.state for run in graph.runs}
        explored.append(_figures(graph, rules))
    own = {number for item in explored for number in item.rows}
    told = {item.place for item in findings if item.code in ("shadowed_row", "duplicate_row")}
    never = [
        number for number, row in enumerate(rows) if number not in own and place_of(row, rows) not in told
    ]
    unused = []
    for world in others:
        if never and world not in worlds:
            graph = explore(world, rules)
            phases |= {run.state for run in graph.runs}
            taken = _figures(graph, rules).rows
            unused += [number for number in never if number in taken]
            never = [number for number in never if number not in taken]
    for number in never:
        findings.append(
            Finding("row_never_taken", place_of(rows[number], rows), "no run comes to take this row")
        )
    for phase in PHASES:
        if phase not in phases:
            findings.append(Finding("unreachable_phase", phase, "no run comes to this phase"))
    states, edges = (sum(getattr(item, name) for item in explored) for name in ("states", "edges"))
    places = tuple(place_of(rows[number], rows) for number in sorted(unused))
    return Check(tuple(findings), states, edges, tuple(explored), places)


def place_of(row: Row, rows: Sequence[Row]) -> str:
    """Return how a finding names a row: ``Planning.select``, and which one where there are several."""
    same = [other for other in rows if (other.source, other.trigger) == (row.source, row.trigger)]
    number = next(index for index, other in enumerate(same) if other is row)
    return f"{row.source}.{row.trigger}" + (f"[{number}]" if len(same) > 1 else "")


def _figures(graph: StateGraph, rules: Rules) -> Explored:
    numbers = {id(row): number for number, row in enumerate(rules.table + rules.waiting)}
    taken = sorted({numbers[id(edge.row)] for edge in graph.edges})
    return Explored(
        graph.world.name, len(graph.runs), len(graph.edges), tuple(taken), dict(graph.world.beyond)
    )


# -- the table as it stands --------------------------------------------------------------------------------------


def _table_findings(rules: Rules) -> Iterator[Finding]:
    rows = rules.table + rules.waiting
    for row in rows:
        yield from _row_findings(row, rows, rules)
    for source, trigger in rules.changes:
        if not any((row.source, row.trigger) == (source, trigger) for row in rows):
            yield Finding("missing_row", f"{source}.{trigger}", "the table has no such row")
    named = {name for row in rows for name in (*row.conditions, *row.unless)}
    for name in rules.guards:
        if name not in named:
            yield Finding("unused_guard", name, "no row looks at this guard")
    for phase in PHASES:
        for waits in (False, True):
            tried = rows_of(phase, waiting=waits, table=rules.table, answers=rules.waiting)
            yield from _shadow_findings(tried, rows, waits=waits)


def _row_findings(row: Row, rows: Sequence[Row], rules: Rules) -> Iterator[Finding]:
    place = place_of(row, rows)
    for phase in (row.source, row.dest):
        if phase not in PHASES:
            yield Finding("unknown_name", place, f"there is no phase {phase!a}")
    for name in (*row.conditions, *row.unless):
        if name not in rules.guards:
            yield Finding("unknown_name", place, f"there is no guard {name!a}")
    if (row.source, row.trigger) not in rules.changes:
        yield Finding("no_effect", place, "nothing says what this row sets")
    if row.source in FINAL:
        yield Finding("final_row", place, f"{row.source} is final, and this row leads out of it")
    if row.dest == DONE and row.source != REVIEWING:
        yield Finding("done_elsewhere", place, f"it leads to Done from {row.source}")


def _shadow_findings(tried: Sequence[Row], rows: Sequence[Row], *, waits: bool) -> Iterator[Finding]:
    for number in find_shadowed(tried):
        row, place = tried[number], place_of(tried[number], rows)
        if waits and row.guards == ("hard_stop",):
            continue  # told for the phase that does not wait
        if any(_same(row, other) for other in tried[:number]):
            yield Finding("duplicate_row", place, "the same row stands before it")
        else:
            yield Finding("shadowed_row", place, "whenever its guards hold, an earlier row is taken")


def _same(row: Row, other: Row) -> bool:
    return (row.trigger, row.dest, sorted(row.guards)) == (other.trigger, other.dest, sorted(other.guards))


def _with_walk(finding: Finding, graph: StateGraph, rules: Rules) -> Finding:
    """Return what is wrong with a row with a walk that shows it: it is taken, or another one in its place."""
    rows = rules.table + rules.waiting
    row = next((row for row in rows if place_of(row, rows) == finding.place), None)
    if finding.path is not None or row is None:
        return finding
    way: list[StateEdge] | None = None
    if row.source in FINAL:
        ends = (number for number, run in enumerate(graph.runs) if run.state == row.source)
        way = next((graph.way(number) for number in ends), None)
    else:
        own = (edge for edge in graph.edges if edge.row is row)
        edge = next(own, next((edge for edge in graph.edges if _instead(edge, row)), None))
        way = [*graph.way(edge.source), edge] if edge is not None else None
    return finding if way is None else replace(finding, path=path_of(graph, way, rules))


def _instead(edge: StateEdge, row: Row) -> bool:
    """Return whether an edge takes another row where *row* would fit, as far as its guards were evaluated."""
    wanted = wanted_of(row)
    if wanted is None or edge.row.source != row.source:
        return False
    return all(edge.guards.get(name, value) is value for name, value in wanted.items())


# -- the machine ---------------------------------------------------------------------------------------------------


def _explore_world(rules: Rules, world: BoundedSpec, states_max: int) -> tuple[StateGraph, list[Finding]]:
    """Return an explored world, and what is wrong in it."""
    rows = rules.table + rules.waiting
    broken: dict[tuple[str, str], tuple[str, int, PathStep]] = {}

    def watch(taken: AppliedDecision, number: int, step: PathStep) -> None:
        for code, told in broken_promises(taken):
            key = (code, place_of(taken.row, rows))
            if key not in broken:
                broken[key] = (told, number, step)

    graph = explore(world, rules, watch, states_max=states_max)
    findings = [
        Finding(code, place, told, path_of(graph, graph.way(number), rules, last=step))
        for (code, place), (told, number, step) in broken.items()
    ]
    findings += _stuck_findings(graph, rules)
    findings += _end_findings(graph, rules)
    findings += _loop_findings(graph, rules)
    if not graph.full:
        findings.append(Finding("too_large", world.name, f"more than {len(graph.runs) - 1:,} states"))
    return graph, findings


def _stuck_findings(graph: StateGraph, rules: Rules) -> Iterator[Finding]:
    seen = set[tuple[str, str]]()
    for stuck in graph.stuck:
        code, phase = "broken_effect" if stuck.error else "uncovered_case", stuck.step.phase
        if (code, phase) in seen:
            continue
        seen.add((code, phase))
        told = f"no row takes {stuck.step.move['move']!a}"
        if stuck.error:
            told = f"after {stuck.step.move['move']!a}: {ascii(stuck.error)[1:-1][:120]}"
        path = path_of(graph, graph.way(stuck.source), rules, last=stuck.step)
        yield Finding(code, phase, told, path)


def _end_findings(graph: StateGraph, rules: Rules) -> Iterator[Finding]:
    """Yield the first state of each phase that no end, or no success, can be reached from."""
    if not graph.full:
        return
    ends = [number for number, run in enumerate(graph.runs) if run.final]
    ended = _reaching(graph, ends)
    seen = set[str]()
    for number, run in enumerate(graph.runs):
        if number not in ended and run.state not in seen:
            seen.add(run.state)
            path = path_of(graph, graph.way(number), rules)
            yield Finding("dead_end", run.state, "no end can be reached from here", path)
    done = _reaching(graph, [number for number in ends if graph.runs[number].state == DONE])
    for number, run in enumerate(graph.runs):
        free = run.state == PLANNING and run.waiting_for is None and not limit_reached(run)
        if free and number not in done:
            path = path_of(graph, graph.way(number), rules)
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


def _loop_findings(graph: StateGraph, rules: Rules) -> Iterator[Finding]:
    seen = set[str]()
    for part in unbounded_parts(graph.edges, outside=_is_asked_again):
        loop = endless_walk(part)
        way = graph.way(loop[0].source)
        place = ", ".join(dict.fromkeys(f"{edge.row.source}.{edge.row.trigger}" for edge in loop))
        if place in seen:
            continue
        seen.add(place)
        path = path_of(graph, [*way, *loop], rules, loop=len(way))
        yield Finding("endless_loop", place, f"{len(loop)} steps that no bound ends", path)


def _is_asked_again(edge: StateEdge) -> bool:
    """Whether a person has a call in doubt made again: as often as that person says so, each time anew."""
    return bool(edge.move["kind"] == "answer" and edge.move["action"] == "retry")


def default_limits() -> dict[Mode, Limits]:
    """Return the limits of an engine that was given none, by mode."""
    from ..lifecycle.settings import PLANNER_STEPS

    return {
        cast("Mode", mode): Limits(max_steps=PLANNER_STEPS) if mode == "planner" else Limits()
        for mode in MODES
    }
