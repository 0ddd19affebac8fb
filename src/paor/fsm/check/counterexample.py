"""Paths of an exploration as runs that anybody can walk again. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...states.base.errors import IllegalEvent
from ..machine.machine import Machine
from .bounded_specs import BOUNDS, BoundedSpec, world_of
from .findings import Path, PathStep
from .state_space import StateEdge, StateGraph, StateWalker


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
