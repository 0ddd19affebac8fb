"""Whether an agent goes on after an action, as one function of what it saw and how that was judged: for a host's own tests and tools."""

from __future__ import annotations

from ...states.records.observations import Observation, StepCheck
from ...states.records.reviews import Refinement, Review


def should_continue(
    observation: Observation | None,
    review: Refinement | Review | StepCheck | None,
    *,
    current_step: int = 0,
    max_steps: int | None = None,
    budget_left: bool = True,
) -> bool:
    """
    Return whether another action is to be chosen.

    Not where the judgement says stop, all criteria are met, the steps or a budget are used up, or the judgement is a failure or cannot be
    read. An action that failed is no reason to stop: the next one is chosen with its error in sight. The machine's guard of the same name
    (`paor.machine.guards`) says the same of a run.

    Args:
        observation: Of the action; None where nothing was observed.
        review: How it was judged: by the model's refinement or completion review, or by code; None where no judgement can be read.
        current_step: Actions started so far.
        max_steps: How many may be started; None for no bound.
        budget_left: Whether every budget has something left.

    Source: document 002, "should_continue(observation, review) -> bool"; docs/spec-coverage.md, A065.
    """
    if review is None or not budget_left or (max_steps is not None and current_step >= max_steps):
        return False
    if isinstance(review, Refinement):
        met = [item.met for item in review.criteria]
        return review.decision == "continue" and not (met and all(met))
    if isinstance(review, Review):
        return review.status == "retry"
    return review.status != "failed" and observation is not None
