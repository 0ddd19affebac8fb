"""
What the planner's action gives to a workflow: its variables after a reply.

It appends and changes nothing that was there: results are given on as they were, and a message of the transcript is
never taken back. A plan of nothing is given on without steps, so that ``len(plan.steps) > 0`` does not hold for it. What
the executor's action gives is a fold over the run's rows (`fsm.flow_values`).

Source: document 004 sections 4 and 6; docs/spec-coverage.md, A133, A145, A147, C11, C17.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..prompts.replies import DirectAnswer
from ..states.plans import Plan, TranscriptMessage

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
