"""
What is explored is all there is: every step of any run, with limits of any size, is an edge of the explored graph.

A world cuts the limits and merges runs into states. These tests take runs that are not cut, walk them at random by the
real decision, and look each step up in the graph. They also hold the two parts of the proof that are logic alone
against brute force: which loops use up no bound, and that a walk beside a loop is really endless.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from paor import Limits, Machine
from paor.fsm.check.bounded_specs import BOUNDS, BoundedSpec, worlds_of
from paor.fsm.check.inputs import outcome_of
from paor.fsm.check.state_space import (
    COUNTERS,
    LATE,
    NOW,
    State,
    StateGraph,
    StateWalker,
    earlier_by,
    explore,
    state_of,
)
from paor.fsm.check.termination import endless_walk, unbounded_parts

from ..support.cases import Run, decide, tools_withheld
from ..support.effort import examples

SAMPLES = 12
"""Random runs in each world; a hundred times as many were tried when the states were defined."""

LARGE = {
    name: limit
    for name, limit in {
        "max_steps": 6,
        "max_plans": 4,
        "selection_retries": 3,
        "parameter_retries": 4,
        "review_retries": 3,
        "max_retries": 3,
        "max_elicitations": 4,
        "no_improvement_limit": 3,
        "max_consecutive_errors": 3,
        "max_consecutive_refused": 3,
        "max_blocked_calls": 3,
    }.items()
}
OWN = Limits(**LARGE)  # type: ignore[arg-type]
CUT = {world.name: world for world in worlds_of({"react": OWN, "planner": OWN, "native": OWN})}


@lru_cache(maxsize=4)
def explored(name: str) -> tuple[StateGraph, dict[State, int], set[tuple[int, str, str, int]]]:
    """Return the graph of a cut world, its states by what they are, and its edges."""
    graph = explore(CUT[name], Machine())
    numbers = {state_of(run): number for number, run in enumerate(graph.runs)}
    edges = {(edge.source, edge.row.trigger, edge.row.dest, edge.dest) for edge in graph.edges}
    return graph, numbers, edges


def large_world(name: str) -> BoundedSpec:
    """Return the world with its limits as they are."""
    cut = CUT[name]
    return BoundedSpec(name, cut.mode, cut.limits.model_copy(update=LARGE), cut.full, step_retries=3)


def cut_run(run: Run, cut: BoundedSpec) -> Run:
    """Return a run of a large world as the cut world holds it: of each counter the distance to its limit, or *far*."""
    values = {"withheld": 0}
    for name in COUNTERS:
        value = getattr(run.counters, name)
        large = LARGE[BOUNDS[name]] if name in BOUNDS else 3
        small = getattr(cut.limits, BOUNDS[name]) if name in BOUNDS else cut.step_retries
        values[name] = max(0, value - (large - small))
    if tools_withheld(run):
        values["withheld"] = values["retries"] + 1
    counters: dict[str, Any] = values
    run = earlier_by(run, run.counters.step - values["step"])
    return replace(run, spec=explored(cut.name)[0].runs[0].spec, counters=replace(run.counters, **counters))


@pytest.mark.whole
@pytest.mark.parametrize("name", sorted(CUT))
@settings(max_examples=SAMPLES, deadline=None)
@given(data=st.data())
def test_every_step_of_a_run_with_larger_limits_is_an_edge(name: str, data: st.DataObject) -> None:
    """The graph of a world with limits of one holds the runs of a world with limits of three and more."""
    _, numbers, edges = explored(name)
    walker = StateWalker(large_world(name), Machine())
    run = walker.start()
    for _ in range(60):
        if run.final:
            break
        moves = [move for move in walker.moves(run) if move["kind"] not in ("cancelled", "fault")]
        move = moves[data.draw(st.integers(0, len(moves) - 1))]
        taken, _ = walker.take(run, move)
        source, dest = (numbers.get(state_of(cut_run(item, CUT[name]))) for item in (run, taken.after))
        assert source is not None and dest is not None, (move, run.state)
        assert (source, taken.row.trigger, taken.row.dest, dest) in edges
        run = taken.after


class Watched(int):
    """A number that notes what it is compared with."""

    seen: ClassVar[set[tuple[str, str, Any]]] = set()
    name = ""

    def _noted(self, how: str, other: Any) -> None:
        Watched.seen.add((self.name, how, int(other) if isinstance(other, int) else other))

    def __lt__(self, other: Any) -> bool:
        self._noted("<", other)
        return bool(int(self) < other)

    def __ge__(self, other: Any) -> bool:
        self._noted(">=", other)
        return bool(int(self) >= other)

    def __le__(self, other: Any) -> bool:
        self._noted("<=", other)
        return bool(int(self) <= other)

    def __gt__(self, other: Any) -> bool:
        self._noted(">", other)
        return bool(int(self) > other)

    def __eq__(self, other: object) -> bool:
        self._noted("==", other)
        return bool(int(self).__eq__(other) is True)

    def __hash__(self) -> int:
        return hash(int(self))


def watched(name: str, value: int) -> Watched:
    """Return a watched counter; each has a class of its own, so that sums are plain numbers."""
    number = Watched(value)
    number.__dict__["name"] = name
    return number


@pytest.mark.whole
@pytest.mark.parametrize("name", ["react", "planner, full"])
def test_a_counter_is_compared_with_its_limit_and_with_nothing_else(name: str) -> None:
    """What saturation rests on: below its limit, one value of a counter is as good as another."""
    graph, _, _ = explored(name)
    walker = StateWalker(CUT[name], Machine())
    Watched.seen.clear()
    for run in graph.runs[:1500]:
        if run.final:
            continue
        values: dict[str, Any] = {
            counter: watched(counter, getattr(run.counters, counter)) for counter in BOUNDS
        }
        looking = replace(run, counters=replace(run.counters, **values))
        for move in walker.moves(run):
            decide(looking, outcome_of(move, run), LATE if move.get("late") else NOW, walker.kit)
    limits, attempts = CUT[name].limits, {run.counters.withheld for run in graph.runs}
    told = {(counter, how, other) for counter, how, other in Watched.seen if counter not in ("step_retries",)}
    assert {counter for counter, _, _ in told} >= {"step", "retries", "elicitations", "errors"}
    for counter, how, other in told:
        if (counter, how, other) == (
            "errors",
            "==",
            0,
        ):  # only for `block_repeated_success`, which blocks a repeat
            continue
        if (counter, how) == (
            "retries",
            "<",
        ) and other in attempts:  # `tools_withheld`, which the state holds
            continue
        assert how in ("<", ">=") and other == getattr(limits, BOUNDS[counter]), (counter, how, other)


# -- loops ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Arc:
    source: int
    dest: int
    raised: tuple[str, ...] = ()
    lowered: tuple[str, ...] = ()


COUNTED = st.lists(st.sampled_from("ab"), max_size=2, unique=True).map(tuple)
ARCS = st.lists(st.builds(Arc, st.integers(0, 3), st.integers(0, 3), COUNTED, COUNTED), max_size=8)


def walks_on(arcs: Sequence[Arc], bound: int = 2) -> bool:
    """Return whether a walk can go on for ever: raising a counter at its bound is impossible, lowering one empties it."""
    places = {
        (node, values): [
            (arc.dest, tuple(_after(arc, name, value) for name, value in zip("ab", values, strict=True)))
            for arc in arcs
            if arc.source == node and not any(values["ab".index(name)] >= bound for name in arc.raised)
        ]
        for node in range(4)
        for values in product(range(bound + 1), repeat=2)
    }
    while True:  # a place from which nothing leads on is left out, until nothing changes
        ends = [place for place, rest in places.items() if not any(step in places for step in rest)]
        if not ends:
            return bool(places)
        for place in ends:
            del places[place]


def _after(arc: Arc, name: str, value: int) -> int:
    if name in arc.lowered:
        return 0
    return value + 1 if name in arc.raised else value


def clean(arcs: list[Arc]) -> list[Arc]:
    """Return arcs of which none raises and lowers the same counter."""
    return [arc for arc in arcs if not set(arc.raised) & set(arc.lowered)]


@settings(max_examples=examples(300))
@given(arcs=ARCS.map(clean))
def test_a_graph_without_an_unbounded_part_has_no_endless_walk(arcs: list[Arc]) -> None:
    """And where a part is told, its walk closes and lowers whatever it raises, so it is one."""
    parts = unbounded_parts(arcs)
    assert walks_on(arcs, bound=9) is bool(parts)
    for part in parts:
        walk = endless_walk(part)
        assert all(one.dest == two.source for one, two in zip(walk, [*walk[1:], walk[0]], strict=True))
        raised = {name for arc in walk for name in arc.raised}
        assert raised <= {name for arc in walk for name in arc.lowered} and set(walk) <= set(arcs)


def test_a_loop_that_somebody_outside_ends_is_left_out() -> None:
    loop = [Arc(0, 1), Arc(1, 0)]
    assert unbounded_parts(loop) and not unbounded_parts(loop, outside=lambda arc: arc.source == 1)
