"""
The budgets of a run: which one is used up, and whether one more request fits into what is left.

Limits are read at entry to Reviewing and before every model request; the counters a phase
starts with are those of the row that led to it, so the answer is the same live, on resume and on replay.

The ledger reserves, then settles. What a request may need is reserved before it is made, from its prompt and the run's
limits alone; what it did use stands in the row of its outcome, and the sum of those rows is all that counts. A request
that was lost with its process stands in no row: it is made again, and counts once.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from .limits import Limits
from .run import Counters, Run

BYTES_PER_TOKEN = 3
"""Of a prompt as UTF-8, for estimates: tokenizers make about 4 bytes of English prose a token, and 3 of JSON or code."""


class Reservation(Struct, frozen=True, gc=False):
    """
    What one request is expected to use at most.

    Attributes:
        tokens: Of its prompt, by estimate, and of its reply, as `Limits.reply_tokens` allows.
        cost_micro: Those tokens at the run's price per token so far; 0 before the first price is known.
    """

    tokens: int = 0
    cost_micro: int = 0


class Allowance(Struct, frozen=True, gc=False):
    """
    What one request may use.

    Attributes:
        reply: Most tokens of its reply, None when the run's limits do not say.
        left: What is left of the token budget for it and its repeated attempts, None without one.
    """

    reply: int | None = None
    left: int | None = None


REPLY_TOKENS_MIN = 256
"""What a reply is allowed where a budget without `Limits.reply_tokens` is nearly used up: with less it could say nothing."""


NO_RESERVATION = Reservation()
"""Of a run without `Limits.reply_tokens`: its budgets end it once they are used up."""


def exhausted(run: Run) -> str | None:
    """Return the reason of the first budget that is used up, or None."""
    return spent(run.spec.limits, run.counters)


def spent(limits: Limits, used: Counters, held: Reservation = NO_RESERVATION) -> str | None:
    """
    Return the reason of the first budget of *limits* that is used up, or None.

    Args:
        limits: Of the run.
        used: What was settled.
        held: What requests that are still open have reserved.
    """
    if limits.token_budget is not None:
        tokens = used.tokens_in + used.tokens_out + held.tokens
        if tokens >= limits.token_budget:
            return "token_budget"
    if limits.time_budget_s is not None:
        budget = limits.time_budget_us
        if budget is not None and used.time_us >= budget:
            return "time_budget"
    if limits.cost_budget is not None:
        budget = limits.cost_budget_micro
        if budget is not None and used.cost_micro + held.cost_micro >= budget:
            return "cost_budget"
    return None


def reservation(limits: Limits, used: Counters, prompt_bytes: int) -> Reservation:
    """Return what a request with a prompt of *prompt_bytes*, as UTF-8, is expected to use at most."""
    tokens = prompt_tokens(prompt_bytes) + (limits.reply_tokens or 0)
    counted = used.tokens_in + used.tokens_out
    return Reservation(tokens, -(-tokens * used.cost_micro // counted) if counted else 0)


def refusal(
    limits: Limits, used: Counters, wanted: Reservation, held: Reservation = NO_RESERVATION
) -> Literal["token_budget", "cost_budget"] | None:
    """
    Return the budget into which *wanted* does not fit beside what is settled and *held*, or None.

    Always None without `Limits.reply_tokens`: then a budget that is not used up lets one more request pass.
    """
    if limits.reply_tokens is None:
        return None
    tokens = used.tokens_in + used.tokens_out + held.tokens + wanted.tokens
    if limits.token_budget is not None and tokens > limits.token_budget:
        return "token_budget"
    cost = used.cost_micro + held.cost_micro + wanted.cost_micro
    if limits.cost_budget_micro is not None and cost > limits.cost_budget_micro:
        return "cost_budget"
    return None


def allowance(
    limits: Limits, used: Counters, prompt_bytes: int, held: Reservation = NO_RESERVATION
) -> Allowance:
    """
    Return what a request with a prompt of *prompt_bytes* may use, so that its reply cannot overspend the token budget.

    The reply gets `Limits.reply_tokens`, which its reservation holds; without that what the budget has left beside an
    estimate of the prompt, at least `REPLY_TOKENS_MIN`.
    """
    if limits.token_budget is None:
        return Allowance(limits.reply_tokens)
    left = max(0, limits.token_budget - used.tokens_in - used.tokens_out - held.tokens)
    if limits.reply_tokens is not None:
        return Allowance(limits.reply_tokens, left)
    return Allowance(max(REPLY_TOKENS_MIN, left - prompt_tokens(prompt_bytes)), left)


def prompt_tokens(prompt_bytes: int) -> int:
    """Return how many tokens a prompt has at most, by estimate."""
    return -(-prompt_bytes // BYTES_PER_TOKEN)


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
