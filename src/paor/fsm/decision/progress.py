"""What a model's judgement says of the progress: whether the scores still rise, and which criteria are met."""

from __future__ import annotations

from ...states.records.reviews import CriterionCheck, Refinement
from ...states.run.state import Run


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
