"""
Which hard limit a run has reached, read from its counters alone.

Limits are read at entry to Reviewing and before every model request (DESIGN section 2); the counters a phase
starts with are those of the row that led to it, so the answer is the same live, on resume and on replay.
"""

from __future__ import annotations

from .run import Run


def exhausted(run: Run) -> str | None:
    """Return the reason of the first budget that is used up, or None."""
    limits, counters = run.spec.limits, run.counters
    if limits.token_budget is not None and counters.tokens_in + counters.tokens_out >= limits.token_budget:
        return "token_budget"
    if limits.time_budget_us is not None and counters.time_us >= limits.time_budget_us:
        return "time_budget"
    if limits.cost_budget_micro is not None and counters.cost_micro >= limits.cost_budget_micro:
        return "cost_budget"
    return None


def time_left_s(run: Run) -> float | None:
    """Return the seconds of the time budget that are left, None without one."""
    budget = run.spec.limits.time_budget_us
    return None if budget is None else max(0, budget - run.counters.time_us) / 1_000_000


def hopeless(run: Run) -> str | None:
    """Return ``stuck`` or ``consecutive_errors`` when calls were blocked, refused or failed too often."""
    limits, counters = run.spec.limits, run.counters
    if counters.blocked >= limits.max_blocked_calls or counters.refused >= limits.max_consecutive_refused:
        return "stuck"
    if counters.errors >= limits.max_consecutive_errors:
        return "consecutive_errors"
    return None


def hard_limit(run: Run) -> str | None:
    """Return why nothing more may be asked of the model, or None; the final formatting is beyond all limits."""
    if run.counters.formatted:
        return None
    return hopeless(run) or exhausted(run)


def criteria_met(run: Run) -> bool:
    """Return whether there is at least one criterion and all are met."""
    return bool(run.counters.criteria) and "0" not in run.counters.criteria
