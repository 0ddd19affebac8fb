"""The final message: every way to end has one."""

from __future__ import annotations

from ..states.reasons import REASONS
from ..states.run import Run
from .case import Case


def final_answer(case: Case, reason: str, *, done: bool) -> str:
    """
    Return the review's answer, else the refinement's, else the draft, else one composed from the results.

    A workflow whose review has no words of its own has those of its tasks.
    """
    memory = case.run.memory
    review = case.review or memory.review
    refinement = case.refinement or memory.refinement
    given = (
        review.answer if review is not None else None,
        refinement.answer if refinement is not None else None,
        memory.answer,
    )
    for answer in given:
        if answer is not None and answer.strip():
            return answer.strip()
    if case.run.spec.task == 0 and done:
        said = [message.output for message in memory.history if message.success and message.output]
        if said:
            return "\n\n".join(said)
    return composed(case.run, reason, done=done)


def composed(run: Run, reason: str, *, done: bool) -> str:
    """Return a message made by code: what happened, why it ended, and what there is to use."""
    head = "Done" if done else "Not finished"
    lines = [f"{head}: {REASONS.get(reason, reason)}."]
    for message in run.memory.history[-5:]:
        mark = "" if message.success else " (failed)"
        lines.append(f"- {message.tool}{mark}: {message.summary}")
    if not run.memory.history:
        lines.append("No action was completed.")
    return "\n".join(lines)
