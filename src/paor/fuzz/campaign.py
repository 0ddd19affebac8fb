"""Fuzzing from code: one search over an engine, what it covered, and the smallest case that it found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from hypothesis import Phase, seed, settings
from hypothesis.database import InMemoryExampleDatabase
from hypothesis.stateful import run_state_machine_as_test

from ..fsm.engine import Engine
from ..fsm.explain.coverage import Coverage, coverage
from ..fsm.journal.rows import Transition
from ..fsm.journal_api import Journal
from ..states.base.errors import UsageError
from .failing_case import SETTINGS, quiet, smallest, violation_in
from .machine import EngineMachine
from .oracles.seen import Violation
from .repro import Repro, repro_of
from .sample_engine import sample_engine
from .world.error_attribution import is_own_code, making
from .world.world import Make

_ROWS_HELD = 5_000
_VERIFY = ("verify", "payloads", "file", "forks", "stream", "chain", "references")
_CONVERT = (
    *("registry", "archive", "reflow", "eml", "html_sanitizer", "docx", "pdf", "xlsx", "pptx"),
    *("plain", "html"),
)
_LOADED = (
    *(
        "fsm.journal.erasure_log",
        "fsm.verify.heads",
        "fsm.replay.row_columns",
        "fuzz.strategies.plan_replies",
    ),
    *("prompts.offline.model", "prompts.offline.sections"),
    *(f"fsm.verify.{name}" for name in _VERIFY),
    *(f"tools.documents.convert.{name}" for name in _CONVERT),
)
"""
Modules that are loaded before a search, not on first use: hypothesis draws constants from the modules that it finds, so the
same seed would give another search to whoever is the first.
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
        repro: The smallest failing case, None when none was found.
        violation: What it violates.
    """

    examples: int
    rows: int
    requests: dict[str, int]
    families: dict[str, int]
    coverage: Coverage
    repro: Repro | None = None
    violation: Violation | None = None


class SearchProgress:
    """What a search has seen so far; `progress` is called with it after every example."""

    def __init__(self, progress: Callable[[SearchProgress], None] | None = None) -> None:
        self.examples = self.rows = 0
        self.requests: Counter[str] = Counter()
        self.families: Counter[str] = Counter()
        self.failed = False
        self._progress = progress
        self._covered = Coverage.empty()
        self._rows: list[Transition] = []

    def add(self, machine: EngineMachine) -> None:
        """Take in one example."""
        self.examples += 1
        for number, seen in machine.world.seen.items():
            self.rows += len(seen.rows)
            self._rows += [row._replace(run=self.examples << 16 | number) for row in seen.rows]
        if len(self._rows) > _ROWS_HELD:
            self._covered, self._rows = self.coverage, []
        for step in machine.world.script:
            for said in step.get("said", ()):
                self.requests[said["kind"]] += 1
                self.families[said.get("family", "good")] += 1
        if self._progress is not None:
            self._progress(self)

    @property
    def coverage(self) -> Coverage:
        """What of the table was taken so far."""
        return self._covered + coverage(self._rows)


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
        examples: How many worlds to try.
        steps: Most rules that are taken in one of them.
        number: Seed; the same one gives the same search. None: by the name of the machine, so the same one each time.
        app: What the engine is called on the command line, for the repro file.
        progress: Called after every example.
        shrink: Whether to look for a smaller case once one has failed.
        unfinished: File that holds the case being tried while a tool is called, for a tool that ends the process; gone
            when the search has ended. None: no file.
    """
    for name in _LOADED:
        import_module(f"..{name}", __package__)
    seen = SearchProgress(progress)
    base = make if isinstance(make, type) else machine_of(make)
    file = Unfinished(unfinished, app) if unfinished is not None else None
    if file is not None:
        base = _written(base, file)
    machine = _searching(base, seen)
    chosen = settings(
        SETTINGS,
        max_examples=examples,
        stateful_step_count=steps,
        database=InMemoryExampleDatabase(),
        derandomize=False,
        print_blob=False,
        phases=(Phase.generate,),
    )
    factory: Any = seed(0 if number is None else number)(machine)
    found: Violation | None = None
    try:
        with quiet(), redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            run_state_machine_as_test(factory, settings=chosen)
    except BaseException as error:
        found = violation_in(error) or machine.failure
        if found is None and machine.refused is not None:
            raise machine.refused from None
        if found is None and isinstance(error, Exception) and is_own_code(error):
            words = (str(error).strip() or "no words").splitlines()[0]
            message = f"a rule or invariant of {base.__name__} raised {type(error).__name__}: {words:.300}"
            raise UsageError(f"{message}; only what check raises is saved") from error
        if found is None:
            raise
        with redirect_stdout(StringIO()), suppress(KeyboardInterrupt):  # what was found is not lost with it
            found = smallest(base, found) if shrink else found
    finally:
        if file is not None:
            file.drop()
    requests, families = (dict(sorted(counter.items())) for counter in (seen.requests, seen.families))
    repro = repro_of(found, app) if found is not None else None
    return Found(seen.examples, seen.rows, requests, families, seen.coverage, repro, found)


def _searching(base: type[EngineMachine], seen: SearchProgress) -> Any:
    """Return *base* as a search takes it: every example is counted, and the first that goes wrong is kept."""

    class Searching(base):  # type: ignore[misc, valid-type] # the base is a user's, known at run time only
        failure: ClassVar[Violation | None] = None
        refused: ClassVar[UsageError | None] = None

        def __init__(self) -> None:
            found = type(self).failure or type(self).refused
            if found is not None:  # hypothesis drops what is found while it stops an example
                raise found
            with self._noted(), making(base):
                super().__init__()

        def _do(self, step: dict[str, Any]) -> None:
            with self._noted():
                super()._do(step)

        @contextmanager
        def _noted(self) -> Iterator[None]:
            """Keep a refusal: of an app that raises once and not again hypothesis says only that."""
            try:
                yield
            except UsageError as error:
                type(self).refused = error
                raise

        def teardown(self) -> None:
            try:
                super().teardown()
            finally:
                seen.failed = type(self).failure is not None
                seen.add(self)

    return Searching


def _written(base: type[EngineMachine], file: Unfinished) -> type[EngineMachine]:
    """Return *base* with its case in a file while a tool is called."""

    class Written(base):  # type: ignore[misc, valid-type] # the base is a user's, known at run time only
        def __init__(self) -> None:
            super().__init__()
            self.world.calling = file.write

    Written.__name__ = Written.__qualname__ = base.__name__
    return Written


def machine_of(make: Make) -> type[EngineMachine]:
    """Return the machine of an engine that is made by a function."""

    class Machine(EngineMachine):
        def engine(self, journal: Journal) -> Engine:
            return make(journal)

    return Machine


class Unfinished:
    """
    The file of one search, which holds the case that is being tried: what is left when its process ends.

    A tool that ends its process, or kills it, ends the search too, and nobody is left to report. So the file is written
    before a tool of the engine's own is called, and deleted when the search has ended.

    Args:
        path: Of the file. A place that cannot be written is left alone: it is no reason not to search.
        app: What the engine is called on the command line.
    """

    def __init__(self, path: Path, app: str) -> None:
        self._path, self._app = path, app
        self._made = [folder for folder in (path.parent, *path.parent.parents) if not folder.exists()]

    def write(self, case: Violation) -> None:
        """Write the case in which a tool is now called."""
        with suppress(UsageError):
            repro_of(case, self._app).save(self._path.parent, self._path.name)

    def drop(self) -> None:
        """Leave nothing behind: the search has come to its end."""
        with suppress(OSError):
            self._path.unlink()
        for folder in self._made:
            with suppress(OSError):  # something is in it
                folder.rmdir()
