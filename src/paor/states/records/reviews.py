"""The two judgements: a refinement after every action, a completion review before every end."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from ..base.wire import AnyData, Wire

SCORE_UNIT = 1_000_000
"""Scores are kept as whole millionths, so that no float is in a hashed row."""


def says_something(text: str) -> bool:
    """Return whether *text* is more than blanks and dots: small models copy the dots that stand in an answer's place."""
    return bool(text.strip(" \t\n\r\f\v.…"))


def _said(answer: object) -> object:
    return None if isinstance(answer, str) and answer and not says_something(answer) else answer


AnswerText = Annotated[str | None, BeforeValidator(_said)]
"""An answer; blanks and dots are none."""


LEARNINGS_MAX, LEARNING_CHARS = 5, 200


def _learnt(texts: object) -> object:
    found = (
        [text for text in texts if isinstance(text, str) and text.strip()] if isinstance(texts, list) else []
    )
    return tuple(text.strip()[:LEARNING_CHARS] for text in found[:LEARNINGS_MAX])


Learnings = Annotated[tuple[str, ...], BeforeValidator(_learnt)]
"""What a reply says was learnt: the first few texts; anything else is none."""


REASON_CHARS = 300
"""Most characters of the reason for a decision."""


class CriterionCheck(Wire):
    """The model's judgement of one success criterion."""

    criterion: str
    met: bool
    evidence: str | None = None


class Refinement(Wire):
    """
    ``{"decision": "continue"|"stop", "reason": str, ...}``: go on with another single action, or stop.

    A hint is advice for the next selection; an action named here is never executed. What was learnt stands in the next
    selection's history.

    Attributes:
        decision: Whether to go on.
        reason: Why, as the model said; empty where it gave none.
        hint: Advice for the next selection.
        answer: The answer so far.
        criteria: Each success criterion that was judged.
        score: How good the answer is, on any scale that rises.
        learnings: What was learnt.
    """

    decision: Literal["continue", "stop"]
    reason: str = ""
    hint: str | None = None
    answer: AnswerText = None
    criteria: tuple[CriterionCheck, ...] = Field(default=(), strict=False)
    score: float | None = Field(default=None, allow_inf_nan=False, ge=-1e9, le=1e9)
    learnings: Learnings = ()

    @property
    def words(self) -> str:
        """The decision with the reason that was given for it, in one line."""
        return f"{self.decision}: {self.reason}" if self.reason else f"{self.decision}, no reason given"

    @property
    def score_micro(self) -> int | None:
        """The score in whole millionths, or None when the model gave none."""
        return None if self.score is None else round(self.score * SCORE_UNIT)


class Review(Wire):
    """
    ``{"status": "success"|"retry"|"failed", "improvements": [str], ...}``: is the whole task done?

    Of a run with an `output_schema` a success has its ``output``, which becomes the answer, as JSON text.

    Attributes:
        status: Done, another attempt, or the end.
        improvements: What another attempt should do better.
        answer: The final answer.
        output: The answer as data, of a run with an output schema.
        criteria: Each success criterion that was judged.
    """

    status: Literal["success", "retry", "failed"]
    improvements: tuple[str, ...] = Field(default=(), strict=False)
    answer: AnswerText = None
    output: AnyData = None
    criteria: tuple[CriterionCheck, ...] = Field(default=(), strict=False)
