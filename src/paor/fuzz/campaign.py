"""Fuzzing from code: one search over an engine, what it covered, and the smallest case that it found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from importlib import import_module
from io import StringIO
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, ClassVar, NamedTuple

from hypothesis import Phase, seed, settings
from hypothesis.database import InMemoryExampleDatabase
from hypothesis.stateful import run_state_machine_as_test

from ..fsm import journal, replay, verify
from ..fsm.engine import Engine
from ..fsm.explain.coverage import Coverage, coverage
from ..fsm.journal_api import Journal
from ..fsm.machine.decide import machine_told
from ..prompts import offline
from ..states.base.errors import UsageError
from ..tools.documents import convert
from . import strategies
from .failing_case import SETTINGS, last_run_alone, quiet, violation_in
from .machine import EngineMachine
from .oracles.invariants import fits
from .oracles.seen import Violation
from .repro import Repro, repro_of
from .sample_engine import sample_engine
from .strategies.shown import Learned
from .world.error_attribution import blaming, is_own_code
from .world.world import Make

_LOADED = (verify, replay, journal, offline, convert, strategies)
"""
Rooms whose modules are loaded before a search, not on first use: hypothesis draws constants from the modules that it finds, so
the same seed would give another search in a process that has loaded less.
"""


ROUND = 10
"""
Examples of one run of hypothesis where a search learns from round to round. After its first ten valid examples hypothesis changes
each one in places and takes it again, up to five times; of an agent's runs most of these are the same run.
"""


class Found(NamedTuple):
    """
    The result of a search.

    Attributes:
        examples: Examples that were run, those of shrinking included.
        rows: Rows that they wrote.
        requests: Requests to the model by kind.
        families: Near misses that were sent, by family.
        coverage: What of the table was taken, and which guards were seen both ways.
        without_success: The host's own tools in which no call has succeeded, with what to list in ``values``; of those in ``fakes`` nothing is said.
        repro: The smallest failing case, None when none was found.
        violation: What it violates.
    """

    examples: int
    rows: int
    requests: dict[str, int]
    families: dict[str, int]
    coverage: Coverage
    without_success: dict[str, str]
    repro: Repro | None = None
    violation: Violation | None = None


class SearchProgress:
    """What a search has seen so far; `progress` is called with it after every example."""

    def __init__(self, progress: Callable[[SearchProgress], None] | None = None) -> None:
        self.examples = self.rows = 0
        self.requests: Counter[str] = Counter()
        self.families: Counter[str] = Counter()
        self.tools: dict[str, None] = {}
        self.memory = Learned()
        self.failed = False
        self.coverage = Coverage.empty()
        self._progress = progress

    def add(self, machine: EngineMachine) -> None:
        """Take in one example."""
        self.examples += 1
        for seen in machine.world.seen.values():
            self.rows += len(seen.rows)
            self.coverage = self.coverage + coverage(seen.rows, machine=machine_told(seen.spec.host_machine))
        self.tools |= dict.fromkeys(tool.name for tool in machine._own if not fits(tool.name, machine.fakes))
        for call in machine._ended():
            self.memory.add(*call)
        for step in machine.world.script:
            for reply in step.get("said", ()):
                self.requests[reply["kind"]] += 1
                self.families[reply.get("family", "good")] += 1
        if self._progress is not None:
            self._progress(self)


def search(
    make: Make | type[EngineMachine] = sample_engine,
    *,
    examples: int = 100,
    steps: int = 20,
    number: int | None = None,
    app: str = "",
    progress: Callable[[SearchProgress], None] | None = None,
    shrink: bool = True,
    unfinished: Path | None = None,
) -> Found:
    """
    Fuzz an engine; return what was covered, and the smallest failing case if one was found.

    Args:
        make: Returns the engine for a journal; or a subclass of `EngineMachine`.
        examples: Number of examples to try.
        steps: Largest number of rules in one example.
        number: Seed; the same seed gives the same search. None: derived from the machine's name, so the same each
            time.
        app: The value of ``--app`` for the engine, for the repro file.
        progress: Called after every example.
        shrink: Whether to look for a smaller case once one has failed.
        unfinished: File for the current case while a tool is called, in case the tool ends the process; deleted
            when the search ends. None: no file.
    """
    for room in _LOADED:
        for module in iter_modules(room.__path__, f"{room.__name__}."):
            import_module(module.name)
    seen = SearchProgress(progress)
    base = make if isinstance(make, type) else machine_of(make)
    chosen = settings(
        SETTINGS,
        max_examples=examples,
        stateful_step_count=steps,
        database=InMemoryExampleDatabase(),
        derandomize=False,
        print_blob=False,
        phases=(Phase.generate, Phase.shrink) if shrink else (Phase.generate,),
    )
    with _unfinished_case(unfinished, app) as write:
        base = type(base.__name__, (base,), {"_calling": staticmethod(write)}) if write is not None else base
        machine = _searching(base, seen)
        try:
            with quiet(), redirect_stdout(StringIO()), redirect_stderr(StringIO()):
                size = ROUND if machine._has_check() else examples
                for place in range(0, examples, size):
                    machine._before = seen.memory.of({}, ())
                    part = settings(chosen, max_examples=min(size, examples - place))
                    run_state_machine_as_test(seed((number or 0) + (place << 32))(machine), settings=part)
            found = machine.failure
        except BaseException as error:  # KeyboardInterrupt, too: what was found is not lost with it
            found = machine.failure or violation_in(error)
            if found is None and machine._refused is not None:
                raise machine._refused from None
            if found is None and isinstance(error, Exception) and is_own_code(error):
                words = (str(error).strip() or "no words").splitlines()[0]
                message = (
                    f"a rule or invariant of {base.__name__} raised {type(error).__name__}: {words:.300}"
                )
                raise UsageError(f"{message}; only what check raises is saved") from error
            if found is None:
                raise
    if found is not None and shrink:
        with redirect_stdout(StringIO()):
            found = last_run_alone(base, found)
    requests, families = (dict(sorted(counter.items())) for counter in (seen.requests, seen.families))
    repro = repro_of(found, app) if found is not None else None
    without = seen.memory.lacking(seen.tools)
    return Found(seen.examples, seen.rows, requests, families, seen.coverage, without, repro, found)


def _searching(base: type[EngineMachine], seen: SearchProgress) -> Any:
    """Return *base* as a search takes it: every example is counted, and the first that goes wrong is kept."""

    class Searching(base):  # type: ignore[misc, valid-type] # the base is a user's, known at run time only
        failure: ClassVar[Violation | None] = None
        _tries: ClassVar[int] = 0
        _refused: ClassVar[UsageError | None] = None

        def __init__(self) -> None:
            if (refused := type(self)._refused) is not None:  # hypothesis drops it while it stops an example
                raise refused
            try:
                with blaming(f"{base.__name__} cannot be made:"):
                    super().__init__()
            except UsageError as error:
                type(self)._refused = error
                raise

        def teardown(self) -> None:
            try:
                super().teardown()
            finally:
                seen.failed = type(self).failure is not None
                seen.add(self)

    return Searching


def machine_of(make: Make) -> type[EngineMachine]:
    """Return the machine of an engine that is made by a function."""

    class Machine(EngineMachine):
        def engine(self, journal: Journal) -> Engine:
            return make(journal)

    return Machine


@contextmanager
def _unfinished_case(path: Path | None, app: str) -> Iterator[Callable[[Violation], None] | None]:
    """
    Give what writes the case that is being tried into a file: what is left when the process of a search ends.

    A tool that ends its process, or kills it, ends the search too, and nobody is left to report. So the file is written
    before a tool of the engine's own is called, and deleted when the search has ended. A place that cannot be written is
    left alone: it is no reason not to search.
    """
    if path is None:
        yield None
        return
    new_folders = [folder for folder in (path.parent, *path.parent.parents) if not folder.exists()]

    def write(case: Violation) -> None:
        with suppress(UsageError):
            repro_of(case, app).save(path.parent, path.name)

    try:
        yield write
    finally:
        with suppress(OSError):
            path.unlink()
        for folder in new_folders:
            with suppress(OSError):  # something is in it
                folder.rmdir()
