"""
What the planner's and the executor's actions give to a workflow: its variables after each of them.

Both append, neither changes what was there: earlier results stay first, and a message of the transcript is never taken
back. A plan of nothing is given on without steps, so that ``len(plan.steps) > 0`` does not hold for it.

Source: document 004 sections 4 and 6; SPEC A133, A135, A144, A145, A147, A151, B1.4, C11, C17.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..prompts.replies import DirectAnswer
from ..states.plans import Plan, PlanResult, TranscriptMessage
from .expression_values import CHARS_MAX, Misfit, text

ERROR_PREFIX = "Error: "

Values = Sequence[Mapping[str, Any]]


def planner_outputs(
    reply: Plan | DirectAnswer, *, said: str, results: Values = (), transcript: Values = ()
) -> dict[str, Any]:
    """
    Return the planner's outputs.

    Args:
        reply: As `prompts.plans.read_plan` returned it.
        said: The reply's text, for the transcript; nothing is added when it is blank.
        results: So far; given on unchanged.
        transcript: So far.

    Returns:
        ``plan``, null with an answer in words; ``answer``, null with a plan that is not empty and the empty text with
        one that is; ``elicitation``, the plan's question or null; ``results``; ``transcript``.
    """
    messages = [TranscriptMessage(role="assistant", content=said).wire()] if said.strip() else []
    plan = reply if isinstance(reply, Plan) else None
    if plan is not None and plan.is_empty:
        plan = plan.model_copy(update={"steps": ()})
    answer = (
        reply.text if isinstance(reply, DirectAnswer) else "" if plan is not None and plan.is_empty else None
    )
    question = plan.question if plan is not None else None
    return {
        "plan": plan.wire() if plan is not None else None,
        "answer": answer,
        "elicitation": question.wire() if question is not None else None,
        "results": list(results),
        "transcript": [*transcript, *messages],
    }


def executor_outputs(
    done: Sequence[PlanResult], *, results: Values = (), transcript: Values = ()
) -> dict[str, Any]:
    """
    Return the executor's outputs.

    Args:
        done: What its steps came to, in order, one for each call.
        results: Before them.
        transcript: Before them.

    Returns:
        ``results`` and ``transcript`` with those of *done* at their ends; ``elicitation``, null, since a step that asks
        is done only when it was answered.
    """
    messages = [_message(result).wire() for result in done]
    return {
        "results": [*results, *(result.wire() for result in done)],
        "elicitation": None,
        "transcript": [*transcript, *messages],
    }


def _message(result: PlanResult) -> TranscriptMessage:
    """Return what a tool said: its output, after its error if there is one (a blocked call has both)."""
    try:
        output = text(result.result)
    except Misfit:
        output = f"(an output of more than {CHARS_MAX:,} characters)"
    error = f"{ERROR_PREFIX}{result.error}" if result.error else ""
    content = "\n".join(part for part in (error, output) if part)
    return TranscriptMessage(role="tool", content=content, name=result.name, tool_call_id=result.id or None)
