"""Fuzzing from code: one search over an engine, what it covered, and the smallest case that it found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from typing import Any, ClassVar, NamedTuple

from hypothesis import Phase, seed, settings
from hypothesis.database import InMemoryExampleDatabase
from hypothesis.stateful import run_state_machine_as_test

from ..engine import Engine
from ..journal import Journal
from ..journal_rows import Transition
from .invariants import Violation
from .machine import SETTINGS, EngineMachine, smallest, violation_in
from .repro import Repro, repro_of
from .sample import sample_engine
from .world import Make


class Found(NamedTuple):
    """
    What a search came to.

    Attributes:
        examples: Examples that were run, those of shrinking included.
        rows: Rows that they wrote.
        requests: Requests to the model by kind.
        families: Near misses that were sent, by family.
        triggers: Rows of the table that were taken, by ``source trigger dest``.
        repro: The smallest failing case, None when none was found.
        violation: What it violates.
    """

    examples: int
    rows: int
    requests: dict[str, int]
    families: dict[str, int]
    triggers: dict[str, int]
    repro: Repro | None = None
    violation: Violation | None = None


class Seen:
    """What a search has seen so far; `progress` is called with it after every example."""

    def __init__(self, progress: Callable[[Seen], None] | None = None) -> None:
        self.examples = self.rows = 0
        self.requests: Counter[str] = Counter()
        self.families: Counter[str] = Counter()
        self.triggers: Counter[str] = Counter()
        self.failed = False
        self.transitions: Callable[[list[Transition]], None] = lambda rows: None
        self._progress = progress

    def add(self, machine: EngineMachine) -> None:
        """Take in one example."""
        self.examples += 1
        for seen in machine.world.seen.values():
            self.rows += len(seen.rows)
            self.triggers.update(f"{row.source} {row.trigger} {row.dest}" for row in seen.rows)
            self.transitions(seen.rows)
        for step in machine.world.script:
            for said in step.get("said", ()):
                self.requests[said["kind"]] += 1
                self.families[said.get("family", "good")] += 1
        if self._progress is not None:
            self._progress(self)


def search(
    make: Make | type[EngineMachine] = sample_engine,
    *,
    examples: int = 100,
    steps: int = 20,
    number: int | None = None,
    app: str = "",
    progress: Callable[[Seen], None] | None = None,
    shrink: bool = True,
    seen: Seen | None = None,
) -> Found:
    """
    Fuzz an engine; return what was covered, and the smallest failing case if one was found.

    Args:
        make: Returns the engine for a journal; or a subclass of `EngineMachine`.
        examples: How many worlds to try.
        steps: Most rules that are taken in one of them.
        number: Seed; the same one gives the same search. None: by the name of the machine, so the same one each time.
        app: What the engine is called on the command line, for the repro file.
        progress: Called after every example.
        shrink: Whether to look for a smaller case once one has failed.
        seen: Takes in what is seen, instead of a new one.
    """
    seen = seen if seen is not None else Seen(progress)
    base = make if isinstance(make, type) else machine_of(make)

    class Searching(base):  # type: ignore[misc, valid-type]
        failure: ClassVar[Violation | None] = None

        def teardown(self) -> None:
            try:
                super().teardown()
            finally:
                seen.failed = type(self).failure is not None
                seen.add(self)

    chosen = settings(
        SETTINGS,
        max_examples=examples,
        stateful_step_count=steps,
        database=InMemoryExampleDatabase(),
        derandomize=False,
        print_blob=False,
        phases=(Phase.generate,),
    )
    factory: Any = seed(0 if number is None else number)(Searching)
    found: Violation | None = None
    try:
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            run_state_machine_as_test(factory, settings=chosen)
    except BaseException as error:
        found = violation_in(error)
        if found is None:
            raise
        found = smallest(base, found) if shrink else found
    covered = (
        seen.examples,
        seen.rows,
        *(dict(sorted(c.items())) for c in (seen.requests, seen.families, seen.triggers)),
    )
    return Found(*covered, repro_of(found, app) if found is not None else None, found)


def machine_of(make: Make) -> type[EngineMachine]:
    """Return the machine of an engine that is made by a function."""

    class Machine(EngineMachine):
        def engine(self, journal: Journal) -> Engine:
            return make(journal)

    return Machine
