"""What a model's judgement comes to: whether the run should stop, whether it still improves, which criteria are met."""

from __future__ import annotations

from ..states.reviews import CriterionCheck, Refinement
from ..states.run import Run


def stop_after(run: Run, refinement: Refinement, criteria: str) -> str | None:
    """
    Return why the run should stop after *refinement*, or None to go on.

    Order: all criteria met, then the model's decision, then no improvement, then the step limit.
    Criteria that are all met stop the run whatever the model decides, and a stop stands while some are open.
    """
    if criteria and "0" not in criteria:
        return "criteria_met"
    if refinement.decision == "stop":
        return "model_stop"
    if stale_after(run, refinement)[0] >= run.spec.limits.no_improvement_limit:
        return "no_improvement"
    if run.counters.step >= run.spec.limits.max_steps:
        return "max_steps"
    return None


def stale_after(run: Run, refinement: Refinement | None) -> tuple[int, int | None]:
    """Return how many scores in a row did not rise, and the best one, after *refinement*."""
    stale, best = run.counters.stale, run.counters.best_score
    score = refinement.score_micro if refinement is not None else None
    if score is None:
        return 0 if refinement is not None else stale, best
    if best is None or score > best:
        return 0, score
    return stale + 1, best


def progress(run: Run, checks: tuple[CriterionCheck, ...]) -> str:
    """Return the criteria progress after *checks*; a criterion once met stays met."""
    met = list(run.counters.criteria)
    if not checks:
        return "".join(met)
    wanted = [folded_text(text) for text in run.spec.success_criteria]
    for check in checks:
        if check.met:
            text = folded_text(check.criterion)
            for index, criterion in enumerate(wanted):
                if criterion == text:
                    met[index] = "1"
    return "".join(met)


def folded_text(text: str) -> str:
    """Return *text* for comparison: case, spacing and a final stop ignored."""
    return " ".join(text.casefold().split()).rstrip(".")
