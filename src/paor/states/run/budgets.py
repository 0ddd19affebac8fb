"""
What is left of a run's limits: the only place where a counter is compared with its limit. Pure. (How often one and the same call
may be made is a rule of its own: `fsm.decision.duplicate_calls`.)

Everybody else asks here: `steps_left`, `plans_left`, `retries_left` and the like for what is counted, `token_budget_used_up`
and the like for what is spent. Which of them ends a run, where and with which reason, is the table of stops (`fsm.machine.table`).

Limits are read at entry to Reviewing and before every model request; the counters a phase
starts with are those of the row that led to it, so the answer is the same live, on resume and on replay.

The ledger reserves, then settles. What a request may need is reserved before it is made, from its prompt and the run's
limits alone; what it did use is in the row of its outcome, and the sum of those rows is all that counts. A request
that was lost with its process is in no row: it is made again, and counts once.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from ..records.requests import RequestKind
from ..settings.limits import Limits
from .state import Counters, Run

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


# -- what is counted ---------------------------------------------------------------------------------------------


def steps_left(run: Run) -> bool:
    """Return whether another action may be started."""
    return run.counters.step < run.spec.limits.max_steps


def plans_left(run: Run) -> bool:
    """Return whether another plan may be made; without plans there is nothing to count."""
    return run.counters.plans < run.spec.limits.max_plans


def retries_left(run: Run) -> bool:
    """Return whether the completion review may ask for another attempt: never after one that improved nothing."""
    return run.counters.retries < run.spec.limits.max_retries and run.counters.stop != "no_improvement"


def tools_withheld(run: Run) -> bool:
    """Return whether the run has repeated a call in this attempt, so that it is asked for the answer, without tools."""
    return run.counters.withheld > run.counters.retries


def may_call(run: Run) -> bool:
    """Return whether a turn of the profile `native` may call a tool: a step is left, and the tools are not withheld."""
    return steps_left(run) and not tools_withheld(run)


def questions_left(run: Run) -> bool:
    """Return whether somebody may be asked another question."""
    return run.counters.elicitations < run.spec.limits.max_elicitations


def selection_retries_left(run: Run) -> bool:
    """Return whether Stage 1 may be asked again in this step."""
    return run.counters.selection_retries < run.spec.limits.selection_retries


def parameter_retries_left(run: Run) -> bool:
    """Return whether Stage 2 may be asked again in this step."""
    return run.counters.parameter_retries < run.spec.limits.parameter_retries


def review_retries_left(run: Run) -> bool:
    """Return whether the refinement or the completion review may be asked again in this iteration."""
    return run.counters.review_retries < run.spec.limits.review_retries


def step_retries_left(run: Run, allowed: int) -> bool:
    """Return whether the call may be tried again; its tool and the plan's step say how often that is *allowed*."""
    return run.counters.step_retries < allowed


def improvement_failed(run: Run, stale: int) -> bool:
    """Return whether the scores have not risen for too long: *stale* refinements in a row."""
    return stale >= run.spec.limits.no_improvement_limit


def calls_refused(run: Run) -> bool:
    """Return whether calls were blocked as duplicates, or refused for their parameters in a row, too often."""
    limits, counters = run.spec.limits, run.counters
    return counters.blocked >= limits.max_blocked_calls or counters.refused >= limits.max_consecutive_refused


def errors_in_a_row(run: Run) -> bool:
    """Return whether too many calls in a row have failed."""
    return run.counters.errors >= run.spec.limits.max_consecutive_errors


def all_met(criteria: str) -> bool:
    """Return whether there is at least one criterion in this progress and all are met."""
    return bool(criteria) and "0" not in criteria


# -- what is spent -----------------------------------------------------------------------------------------------


def token_budget_used_up(limits: Limits, used: Counters, held: Reservation = NO_RESERVATION) -> bool:
    """Return whether the tokens that were settled, with those that open requests have reserved, are all there were."""
    if limits.token_budget is None:
        return False
    return used.tokens_in + used.tokens_out + held.tokens >= limits.token_budget


def time_budget_used_up(limits: Limits, used: Counters) -> bool:
    """Return whether the active time is used up; nobody can reserve time."""
    if limits.time_budget_s is None:
        return False
    budget = limits.time_budget_us
    return budget is not None and used.time_us >= budget


def cost_budget_used_up(limits: Limits, used: Counters, held: Reservation = NO_RESERVATION) -> bool:
    """Return whether the money that was settled, with what open requests have reserved, is all there was."""
    if limits.cost_budget is None:
        return False
    budget = limits.cost_budget_micro
    return budget is not None and used.cost_micro + held.cost_micro >= budget


def exhausted_budget(
    limits: Limits, used: Counters, held: Reservation = NO_RESERVATION
) -> Literal["token_budget", "time_budget", "cost_budget"] | None:
    """
    Return the first budget of *limits* that is used up, or None.

    Args:
        limits: Of the run.
        used: What was settled.
        held: What requests that are still open have reserved.
    """
    if not limits.budgeted:  # most runs; asked several times in each transition
        return None
    if token_budget_used_up(limits, used, held):
        return "token_budget"
    if time_budget_used_up(limits, used):
        return "time_budget"
    return "cost_budget" if cost_budget_used_up(limits, used, held) else None


def is_reckoned(limits: Limits) -> bool:
    """Return whether requests have to be reckoned before they are made; without budgets and `Limits.reply_tokens` each may."""
    return limits.budgeted or limits.reply_tokens is not None


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


def shortage(run: Run, wanted: Reservation) -> Literal["token_budget", "cost_budget"] | None:
    """Return the budget for which a request of *run* is not made: it does not fit, or a summary just before it has used up the rest."""
    limits, used = run.spec.limits, run.counters
    if used.formatted:
        return None
    if token_budget_used_up(limits, used):
        return "token_budget"
    return "cost_budget" if cost_budget_used_up(limits, used) else refusal(limits, used, wanted)


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


def reply_limit(limits: Limits, kind: RequestKind, allowed: int | None, reasoning: int) -> int | None:
    """
    Return the most tokens of one reply, None where neither limits nor budgets say: what a model is told.

    Args:
        limits: Of the run.
        kind: What the model is asked for.
        allowed: What the budgets leave, see `Allowance.reply`.
        reasoning: Tokens that the model may use to reason, on top of the limit of its reply but not of the budgets.
    """
    if limits.max_reply_tokens is None:
        return allowed
    own: int = getattr(limits.max_reply_tokens, _LIKE.get(kind, kind)) + reasoning
    return own if allowed is None else min(own, allowed)


_LIKE: dict[RequestKind, str] = {"phase": "review", "summary": "answer"}
"""Kinds of request whose replies are as long as those of another kind."""


def prompt_tokens(prompt_bytes: int) -> int:
    """Return how many tokens a prompt has at most, by estimate."""
    return -(-prompt_bytes // BYTES_PER_TOKEN)


def time_left_s(run: Run) -> float | None:
    """Return the seconds of the time budget that are left, None without one."""
    budget = run.spec.limits.time_budget_us
    return None if budget is None else max(0, budget - run.counters.time_us) / 1_000_000


def shorter(*bounds: float | None) -> float | None:
    """Return the shortest of some bounds, None when none of them is one."""
    return min((bound for bound in bounds if bound is not None), default=None)


def limit_reached(run: Run) -> bool:
    """
    Return whether nothing more may be asked of the model; the final formatting is beyond all limits.

    These are the limits for which the table of stops ends a run before a request, so that none is made in vain.
    """
    counters, limits = run.counters, run.spec.limits
    if counters.formatted:
        return False
    return (
        counters.errors >= limits.max_consecutive_errors
        or counters.blocked >= limits.max_blocked_calls
        or counters.refused >= limits.max_consecutive_refused
        or (limits.budgeted and exhausted_budget(limits, counters) is not None)
    )
