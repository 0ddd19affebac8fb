"""Every bound of a run, in one validated value."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Literal

from pydantic import Field, ValidationError

from ..base.errors import UsageError
from .base import Settings, problems_of

MAX_STEPS_CEILING = 1_000_000
PLANNER_STEPS = 1000
"""Steps of a run in planner mode whose host has set no limits: a planner plans again until a plan is empty."""
GUARD_CEILING = 10_000
REPLY_CEILING = 10_000_000
CONTEXT_FLOOR = 1_000
TIMEOUT_CEILING = 86_400
"""Most seconds of one call of a tool."""


class ReplyTokens(Settings):
    """
    Most tokens of one reply of a model, by what the model is asked for.

    The server is told, and the model client stops to read a reply that goes on regardless. A model that reasons gets tokens
    for that on top; a client's own ``max_tokens`` and the budgets of a run can lower these limits and never raise them.

    Attributes:
        selection: The choice of an action, or the answer.
        parameters: The parameters of a call, which can be a whole text.
        refinement: The judgement after an action, with the answer when it stops.
        review: The completion review with the run's answer; also the reply to a phase of the host's own machine.
        plan: All steps of a plan with their parameters.
        task_plan: The tasks of a workflow.
        turn: A turn of the profile `native`: calls with their parameters, or the answer.
        answer: The answer that is asked for when the tools are withheld; also a summary of the conversation.
        text: What a tool has the model write, such as a report.

    Raises:
        UsageError: A value out of its range or an unknown name.
    """

    selection: int = Field(default=4_000, ge=1, le=REPLY_CEILING)
    parameters: int = Field(default=4_000, ge=1, le=REPLY_CEILING)
    refinement: int = Field(default=4_000, ge=1, le=REPLY_CEILING)
    review: int = Field(default=4_000, ge=1, le=REPLY_CEILING)
    plan: int = Field(default=8_000, ge=1, le=REPLY_CEILING)
    task_plan: int = Field(default=4_000, ge=1, le=REPLY_CEILING)
    turn: int = Field(default=8_000, ge=1, le=REPLY_CEILING)
    answer: int = Field(default=4_000, ge=1, le=REPLY_CEILING)
    text: int = Field(default=16_000, ge=1, le=REPLY_CEILING)


class Limits(Settings):
    """
    Limits and budgets of one run.

    Attributes:
        max_steps: Actions a run may start, from 1 to 1,000,000. On the last one the refinement and the completion
            review are still asked.
        max_plans: Plans that may be accepted in one run (batch and planner mode), those after a retry included.
        selection_retries: How often an invalid selection is asked again, per step.
        parameter_retries: How often invalid parameters are asked again, per step.
        review_retries: How often an invalid refinement or completion review is asked again, per iteration.
        max_retries: Completion reviews that may answer ``retry`` before the run is Failed(retries_exhausted).
        max_elicitations: Questions to the user per run, approvals included.
        elicitation_timeout_s: Seconds after which a question or an approval that is still unanswered when the run is
            resumed counts as declined; None waits for ever. An effect in doubt always waits.
        completion_review: Who judges a run that would end: ``model`` always asks for the completion review, ``rules``
            decides by what the model said last, ``auto`` asks only where there are success criteria, or where
            the model has not said an answer itself. Where the last call failed or was denied only a review can call the run done: it is asked.
        no_improvement_limit: Consecutive refinements with a ``score`` that does not rise before the run stops.
        max_consecutive_errors: Tool errors in a row before the run is Failed(consecutive_errors).
        max_consecutive_refused: Calls in a row refused for their parameters before Failed(stuck).
        max_blocked_calls: Duplicate calls blocked in the whole run before Failed(stuck).
        token_budget: Input plus output tokens as counted by the model, or None.
        time_budget_s: Seconds of active work (waiting for a person does not count), or None.
        cost_budget: Money in the currency of the price list, or None.
        tool_timeout_s: Seconds that one call of a tool may take, up to a day; None: as long as the tool itself allows. Of this
            and `Tool.timeout_s` the shorter holds. A call that is given up is an error, a ``once`` call is in doubt.
        reply_tokens: Tokens set aside for each reply of a model. With it a request is not made unless an estimate of its
            prompt and this many tokens fit into what is left of the budgets; None: a request is made as long as no
            budget is used up.
        max_reply_tokens: The limit of a reply for each kind of request, see `ReplyTokens`; None: only the model client's own.
        consecutive_limit: The n-th identical call in a row is blocked.
        window_size: How many executed calls the frequency rule considers.
        window_freq_limit: Identical calls within the window after which the next one is blocked.
        block_repeated_success: Whether a call is blocked at once if the same call was the last one and succeeded.
        observation_chars: Characters of an observation's JSON, at most a quarter of the model's context.
        snippet_chars: Characters of one preview's snippet.
        note_chars: Characters of one note.
        previews: Previews in one observation; ``documentsCount`` is always the true total.
        history_chars: Characters of history in a prompt that is a report.
        context_tokens: Tokens that a request may have, its reply included: the model's context. None: what the model or its
            server says, else 32,000. A run's spec has the number.
        calls_per_reply: Most calls of one reply that are made; None for all. 1 helps small models, which write further calls
            before they have seen a result; strong models need the others.
        parallel_calls: Most ``read`` calls of one reply that are made at the same time.
        compaction: Who says what a conversation that no longer fits its context leaves out: ``code`` shortens results and drops the
            oldest turns, ``model`` has the model write a summary in their place, one request for each cut.
        context_chars: Characters of ``parametersContext`` kept from Stage 1.
        reply_chars: Characters of a model reply that are read; a longer one is an invalid reply.
        text_chars: Characters of document text handed to one ``text`` request.
        document_bytes: Size of one document.
        document_time_s: Seconds that reading the text of one document may take; then it is given up, and the model is told.
        document_memory_bytes: Memory of the process that reads documents.
        result_bytes: Size of all that one tool call may return.

    Raises:
        UsageError: A value out of its range or an unknown name.

    Source: the specification in docs/spec-coverage.md (retries, steps, duplicates); the ceilings keep every counter small.
    """

    max_steps: int = Field(default=5, ge=1, le=MAX_STEPS_CEILING)
    max_plans: int = Field(default=50, ge=1, le=MAX_STEPS_CEILING)
    selection_retries: int = Field(default=1, ge=0, le=GUARD_CEILING)
    parameter_retries: int = Field(default=1, ge=0, le=GUARD_CEILING)
    review_retries: int = Field(default=1, ge=0, le=GUARD_CEILING)
    max_retries: int = Field(default=2, ge=0, le=GUARD_CEILING)
    max_elicitations: int = Field(default=5, ge=0, le=GUARD_CEILING)
    elicitation_timeout_s: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    completion_review: Literal["auto", "model", "rules"] = "auto"
    no_improvement_limit: int = Field(default=2, ge=1, le=GUARD_CEILING)
    max_consecutive_errors: int = Field(default=5, ge=1, le=GUARD_CEILING)
    max_consecutive_refused: int = Field(default=3, ge=1, le=GUARD_CEILING)
    max_blocked_calls: int = Field(default=3, ge=1, le=GUARD_CEILING)
    token_budget: int | None = Field(default=None, ge=1, le=2**53 - 1)
    time_budget_s: float | None = Field(default=None, gt=0, le=1e9, allow_inf_nan=False)
    cost_budget: float | None = Field(default=None, gt=0, le=1e9, allow_inf_nan=False)
    tool_timeout_s: float | None = Field(
        default=None, gt=0, le=TIMEOUT_CEILING, allow_inf_nan=False, strict=True
    )
    reply_tokens: int | None = Field(default=None, ge=1, le=REPLY_CEILING)
    max_reply_tokens: ReplyTokens | None = Field(default_factory=ReplyTokens)
    consecutive_limit: int = Field(default=3, ge=2, le=GUARD_CEILING)
    window_size: int = Field(default=8, ge=1, le=GUARD_CEILING)
    window_freq_limit: int = Field(default=4, ge=1, le=GUARD_CEILING)
    block_repeated_success: bool = False
    observation_chars: int = Field(default=20_000, ge=400, le=1_000_000)
    snippet_chars: int = Field(default=4000, ge=20, le=1_000_000)
    note_chars: int = Field(default=300, ge=20, le=10_000)
    previews: int = Field(default=5, ge=0, le=1000)
    history_chars: int = Field(default=16_000, ge=0, le=1_000_000)
    context_tokens: int | None = Field(default=None, ge=CONTEXT_FLOOR, le=REPLY_CEILING)
    calls_per_reply: int | None = Field(default=None, ge=1, le=GUARD_CEILING)
    parallel_calls: int = Field(default=8, ge=1, le=1000)
    compaction: Literal["code", "model"] = "code"
    context_chars: int = Field(default=2000, ge=0, le=1_000_000)
    reply_chars: int = Field(default=1_000_000, ge=1000, le=100_000_000)
    text_chars: int = Field(default=400_000, ge=1000, le=100_000_000)
    document_bytes: int = Field(default=50_000_000, ge=1, le=1_000_000_000)
    document_time_s: float = Field(default=60, gt=0, le=86_400, allow_inf_nan=False)
    document_memory_bytes: int = Field(default=2_000_000_000, ge=200_000_000, le=1_000_000_000_000)
    result_bytes: int = Field(default=100_000_000, ge=1, le=1_000_000_000)

    @cached_property
    def budgeted(self) -> bool:
        """Whether there is a budget of tokens, time or money."""
        return not (self.token_budget is self.time_budget_s is self.cost_budget is None)

    @property
    def time_budget_us(self) -> int | None:
        """The time budget in whole microseconds."""
        return None if self.time_budget_s is None else round(self.time_budget_s * 1_000_000)

    @property
    def cost_budget_micro(self) -> int | None:
        """The cost budget in millionths of the currency unit."""
        return None if self.cost_budget is None else round(self.cost_budget * 1_000_000)


def merged_limits(base: Limits, given: Limits | Mapping[str, Any] | None) -> Limits:
    """
    Return *base* with the limits that were given; the others stay. The one rule for every place that takes limits.

    Args:
        base: What holds without them: the engine's, or those of the run before.
        given: A `Limits` value, of which the fields that it was made with count, a mapping of fields, or None. Of
            `ReplyTokens` within them, too, only what was given changes.

    Raises:
        UsageError: An unknown limit, or one out of its range.
    """
    try:
        return Limits.model_validate(_merged(base, given))
    except ValidationError as error:
        raise UsageError(f"limits: {problems_of(error, Limits)}") from None


def _merged(base: Settings, given: Settings | Mapping[str, Any] | None) -> dict[str, Any]:
    values = base.model_dump()
    if isinstance(given, Settings):
        given = {name: getattr(given, name) for name in given.model_fields_set}
    for name, value in (given or {}).items():
        before = getattr(base, name) if name in values else None
        if isinstance(before, Settings) and isinstance(value, Settings | Mapping):
            value = _merged(before, value)
        values[name] = value
    return values


LOWERABLE = (
    *(
        "max_steps",
        "max_plans",
        "max_retries",
        "max_elicitations",
        "selection_retries",
        "parameter_retries",
        "review_retries",
    ),
    *("token_budget", "time_budget_s", "cost_budget"),
)
"""Limits that a run's own first phase may lower."""


def lowered_limits(limits: Limits, wanted: Mapping[str, Any]) -> Limits:
    """Return *limits* with those of *wanted* that are lower; the others stay, whatever is wanted."""
    lower = {name: value for name, value in wanted.items() if _is_lower(value, getattr(limits, name))}
    return limits.model_copy(update=lower) if lower else limits


def _is_lower(value: Any, now: Any) -> bool:
    return now is None or value < now


def recorded_limits(data: Mapping[str, Any]) -> Limits:
    """Return limits from a journal: those that an earlier version did not know are not there, as they were not then."""
    return Limits.model_validate({"max_reply_tokens": None, "completion_review": "model", **data})
