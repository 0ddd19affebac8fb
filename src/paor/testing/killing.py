"""A run that is killed at one of its rows, in a real process by a real SIGKILL, and continued in this one."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from ..fsm.engine import Engine
from ..fsm.journal_api import Journal
from ..states.base.errors import UsageError
from .scripted import Walk, play, walk

Make = Callable[[Journal], Engine]
Answers = Sequence[Mapping[str, Any]]

SECONDS_MAX = 120
"""After which a process that nothing has ended is given up."""


def kill(make: Make, run: Mapping[str, Any], path: Path, row: int, before: bool, answers: Answers) -> None:
    """
    Run in a process of its own, which is killed at a row; see the fixture `paor.pytest_plugin.paor_kill`.

    Raises:
        AssertionError: The process has ended otherwise, as when the run has fewer rows.
    """
    child = get_context("spawn").Process(target=_run, args=(make, run, path, row, before, answers))
    child.start()
    child.join(SECONDS_MAX)
    code = child.exitcode
    child.kill()
    if code != -signal.SIGKILL:
        ends = {None: f"is still running after {SECONDS_MAX} seconds", 0: f"has ended before row {row}"}
        message = ends.get(code, f"has ended with exit code {code}; its error output has the reason")
        raise AssertionError(f"the run to be killed {message}")


def _run(make: Make, run: Mapping[str, Any], path: Path, row: int, before: bool, answers: Answers) -> None:
    with make(Journal(path)) as engine:
        if Path(engine.journal.path).resolve() != path.resolve():
            raise UsageError(
                f"the engine has the journal {engine.journal.path}, not the one that it was given"
            )
        backend: Any = engine.journal.store.backend
        append = backend.append

        def killing(entries: Any) -> None:
            written = [one for entry in entries for one in (entry.before, entry) if one is not None]
            reached = any(entry.place[1] == row for entry in written)
            if not (reached and before):
                append(entries)
            if reached:
                os.kill(os.getpid(), signal.SIGKILL)

        backend.append = killing
        play(engine, run, answers)


def resume(engine: Engine, run: Mapping[str, Any], answers: Answers, doubt: Mapping[str, Any]) -> Walk:
    """Continue the run that a killed process has left, with the answers that it was not given, and return what both did."""
    if not (runs := engine.journal.runs()):
        return play(engine, run, answers)
    result = engine.resume(runs[-1].run_id)
    rows = engine.journal.transitions(result.run_id)
    given = sum((row.trigger == "provide") - ("noted" in row.outcome) for row in rows)
    left = list(answers[given:])
    while result.status == "waiting" and result.waiting_for is not None:
        question = result.waiting_for
        if question.kind != "in_doubt" and not left:
            raise AssertionError(f"the run waits once more than there are answers ({len(answers)})")
        options = doubt if question.kind == "in_doubt" else left.pop(0)
        result = engine.resume(result.run_id, **{"question": question.id, **options})
    return walk(engine.journal, result.run_id)
