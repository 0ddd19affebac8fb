"""Why a run ends: the closed list."""

from __future__ import annotations

REASONS = {
    "criteria_met": "every success criterion is met",
    "model_stop": "the model decided to stop",
    "no_improvement": "no further action improved the score",
    "max_steps": "the step limit was reached",
    "max_plans": "the limit of plans was reached",
    "token_budget": "the token budget is used up",
    "time_budget": "the time budget is used up",
    "cost_budget": "the cost budget is used up",
    "selection_invalid": "the model selected no usable action, also when asked again",
    "retries_exhausted": "the completion review asked for more retries than are allowed",
    "review_failed": "the completion review failed",
    "stuck": "calls were repeated or refused too often",
    "consecutive_errors": "too many tool errors in a row",
    "aborted": "the plan or the workflow said abort",
    "workflow_error": "the workflow file could not be followed",
    "cancelled": "the run was cancelled",
    "model_error": "the model could not be reached or answered with an error",
    "own_row": "the host's own machine ended the run",
    "internal_error": "an unexpected error in the engine or one of its parts",
}

LIMIT_REASONS = frozenset({"max_steps", "max_plans", "token_budget", "time_budget", "cost_budget"})
"""Reasons for which a Failed run has the exit code 6."""
