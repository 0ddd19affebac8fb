"""
Simulate worlds in which anything goes wrong, and hold the engine to its promises in each of them.

    python -m tests.simulation.simulate --seed N --runs M [--workers K]    worlds N, N+1, ... until they had M runs
    python -m tests.simulation.simulate --machines ...                     worlds of many machines, with workers and a store that fails over
    python -m tests.simulation.simulate --seed N --runs 1 --trace          the world of one seed, with all that happens in it
    python -m tests.simulation.simulate --mutants [NAME ...]               how soon each edit of `tests/simulation/simulated_bugs.toml` is found

A world has one to four processes on one journal; a seed decides whose turn it is, clocks, disks, servers, people and who is
lost. Exit code 0: nothing was found; 1: something was; 2: wrong arguments.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .world import Outcome

CHUNK = 40
"""Worlds that a worker simulates at a time."""

RUNS_MAX = 10_000
"""Runs within which an edit must be found."""


def folder() -> str | None:
    """Return a folder in memory where the system has one, else None for the usual place."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def chunk(first: int, count: int, *, machines: bool = False) -> list[Outcome]:
    """Return what *count* worlds came to."""
    from .world import Place

    with tempfile.TemporaryDirectory(dir=folder()) as name:
        place = Place(Path(name))
        return [_kind(machines=machines)(seed, place) for seed in range(first, first + count)]


def _kind(*, machines: bool) -> Callable[..., Outcome]:
    """Return what simulates a world of one machine, or of many."""
    if machines:
        from .machines import simulate_machines

        return simulate_machines
    from .world import simulate

    return simulate


def worlds(first: int, workers: int = 1, *, machines: bool = False) -> Iterator[Outcome]:
    """Yield what the worlds of all seeds from *first* on came to, in their order."""
    seed = first
    if workers == 1:
        while True:
            yield from chunk(seed, CHUNK, machines=machines)
            seed += CHUNK
    with ProcessPoolExecutor(workers) as pool:
        waiting: list[Future[list[Outcome]]] = []
        while True:
            while len(waiting) < workers * 2:
                waiting.append(pool.submit(chunk, seed, CHUNK, machines=machines))
                seed += CHUNK
            yield from waiting.pop(0).result()


def until(runs: int, found: Iterator[Outcome]) -> Iterator[Outcome]:
    """Yield outcomes until they had *runs* runs."""
    had = 0
    for outcome in found:
        yield outcome
        had += outcome.totals["runs"]
        if had >= runs:
            return


def traced(seed: int, *, machines: bool = False) -> Outcome:
    """Print all that happens in a world."""
    from .world import Place

    with tempfile.TemporaryDirectory(dir=folder()) as name:
        return _kind(machines=machines)(seed, Place(Path(name)), print)


def report(seed: int, runs: int, workers: int, *, trace: bool, machines: bool = False) -> int:
    """Simulate, and print what was found; return the exit code."""
    began, totals, broken, seeds = time.monotonic(), Counter[str](), 0, 0
    source = (
        iter([traced(seed, machines=machines)])
        if trace
        else until(runs, worlds(seed, workers, machines=machines))
    )
    kind = " --machines" if machines else ""
    with suppress(KeyboardInterrupt):  # what was found until then is told
        for outcome in source:
            totals.update(outcome.totals)
            seeds += 1
            if outcome.broken:
                broken += 1
                print(f"world {outcome.seed}: {outcome.broken[0]}")
                print(
                    f"  again: python -m tests.simulation.simulate --seed {outcome.seed} --runs 1 --trace{kind}",
                    flush=True,
                )
    took_s = time.monotonic() - began
    told = ", ".join(f"{number:,} {name}" for name, number in totals.items())
    rate = f"{totals['runs'] / took_s:,.0f} runs and {seeds / took_s:,.0f} seeds a second"
    print(f"{seeds:,} seeds from {seed}: {told}; {took_s:,.1f} s, {rate}; {broken} worlds broken")
    return 1 if broken else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulation.simulate", description="Simulate worlds."
    )
    parser.add_argument("--seed", type=int, default=1, help="of the first world")
    parser.add_argument("--runs", type=int, default=1000, help="runs that the worlds have together, at least")
    parser.add_argument("--workers", type=int, default=1, help="processes that simulate")
    parser.add_argument("--trace", action="store_true", help="print all that happens in the first world")
    parser.add_argument("--machines", action="store_true", help="worlds of many machines over a shared store")
    parser.add_argument("--mutants", nargs="*", metavar="NAME", help="look for planted edits")
    given = parser.parse_args(arguments)
    if given.runs < 1 or given.workers < 1 or given.seed < 0:
        parser.error("seed is 0 or more, runs and workers are 1 or more")
    if given.mutants is not None:
        from .mutants import judge_all

        return judge_all(
            given.mutants, given.seed, min(given.runs, RUNS_MAX) if given.runs != 1000 else RUNS_MAX
        )
    return report(given.seed, given.runs, given.workers, trace=given.trace, machines=given.machines)


if __name__ == "__main__":
    sys.exit(main())
