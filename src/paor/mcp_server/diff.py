"""The tool ``diff``: where two runs of a journal part, and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..fsm.explain.diff import Side as Compared
from ..fsm.explain.diff import diff as compare
from ..fsm.explain.divergence import CAUSES
from .answers import DiffAnswer, ShownSide
from .looking import Look
from .names import field_of, name_of, part_of
from .show import RUN, TEXT_CHARS

PARTS_NAMED = 20
"""Most parts that are named."""


def diff(look: Look, arguments: Mapping[str, Any]) -> DiffAnswer:
    """
    Compare two runs.

    Args:
        look: At the journal.
        arguments: ``left`` and ``right``.

    Raises:
        UnknownRun: There is no such run.
        JournalDamaged: One of them cannot be read.
    """
    left, right = (look.run(arguments[name]).run_id for name in ("left", "right"))
    found = compare(look.reader, left, right)
    return DiffAnswer(
        left=_side(look, found.left),
        right=_side(look, found.right),
        identical=found.identical,
        shared=found.shared,
        row=found.seq,
        source=name_of(found.source) if found.source else None,
        field=field_of(found.field) if found.field else None,
        line=found.line or None,
        cause=found.cause or None,
        cause_means=CAUSES.get(found.cause),
        parts=[part_of(name) for name in found.parts[:PARTS_NAMED]],
        others=[part_of(name) for name in found.others[:PARTS_NAMED]],
        other_way_at=found.decision_seq,
        same_end=found.same_end,
        same_answer=found.same_answer,
        detail=look.texts(found.detail or None),
    )


def _side(look: Look, side: Compared) -> ShownSide:
    return ShownSide(
        run_id=name_of(side.run_id),
        state=name_of(side.state),
        status=name_of(side.status),
        reason=name_of(side.reason) if side.reason else None,
        rows=side.transitions,
        steps=side.steps,
        tokens=side.tokens,
        cost=side.cost,
        seconds=side.seconds,
        line=look.texts(side.text or None),
    )


SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"left": RUN, "right": RUN, "chars": TEXT_CHARS},
    "required": ["left", "right"],
    "additionalProperties": False,
}
