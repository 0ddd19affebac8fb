"""Falling back: what a react run that failed is started as again, as one plan."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from ...prompts.building.templates import reported
from ...states.base.errors import UsageError
from ...states.run.phase_names import FAILED
from ...states.run.spec import Spec
from ...states.run.state import Run

if TYPE_CHECKING:
    from ..journal.reader import JournalReader

FALLBACKS = ("batch",)

FINAL_REASONS = frozenset({"cancelled", "token_budget", "time_budget", "cost_budget", "model_error"})
"""Reasons after which another mode would fail in the same way, or must not be tried."""

_told: set[str] = set()


def fallback_of(given: str | None, mode: str) -> str | None:
    """
    Return the mode that a run falls back to, None for none.

    Raises:
        UsageError: An unknown one, or a run that is not in react mode.
    """
    if given is None:
        return None
    if given not in FALLBACKS:
        raise UsageError(f"fallback {given!r} is unknown; use {', '.join(FALLBACKS)}")
    if mode != "react":
        raise UsageError(f"a fallback is for react mode; this run is in {mode} mode")
    return given


def fallback_spec(run: Run, key_salt: str) -> Spec | None:
    """
    Return what a run that has ended is started as again, None when its end counts.

    The task, its documents and its bounds are the same, and so is the workflow; the new run's own spec says which run it
    replaces, and why that one failed.
    """
    spec = run.spec
    if spec.fallback is None or run.state != FAILED or run.counters.stop in FINAL_REASONS:
        return None
    return spec.model_copy(
        update={
            "mode": spec.fallback,
            "templates": reported(spec.templates),
            "fallback": None,
            "fallback_for": run.run_id,
            "key": None,  # it stays with the run that this one stands in for
            "fallback_reason": run.counters.stop,
            "key_salt": key_salt,
            "asked_before": spec.asked_before + (run.counters.calls if spec.conversation else 0),
        }
    )


def is_owed(journal: JournalReader, run: Run) -> bool:
    """
    Return whether *run* is to be started as again and was not: its driver was lost right after its end.

    The run that replaces it has its place in the workflow and a later number.
    """
    if fallback_spec(run, "") is None:
        return False
    spec = run.spec
    later = journal.index.of_workflow(spec.workflow_id, round=spec.round, task=spec.task, after=run.number)
    return not later


def stand_in(journal: JournalReader, run_id: str) -> str:
    """Return the run that stands in for a failed one; the run itself when none does."""
    row = journal.run(run_id)
    later = journal.index.of_workflow(row.workflow_id, round=row.round, task=row.task, after=row.run)
    return later[-1].run_id if later else run_id


def warn_of_legacy(mode: str) -> None:
    """Tell once a process that batch mode is legacy: it is kept, and as a fallback it is silent."""
    if mode != "batch" or mode in _told:
        return
    _told.add(mode)
    warnings.warn(
        "mode='batch' (react_mode=False) is legacy; use mode='react', or mode='planner' for plans",
        DeprecationWarning,
        stacklevel=9,
    )
