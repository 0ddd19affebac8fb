"""
Amending: what is in force in a run from a row on, when its resume accepted that the engine had changed.

The row's ``request.spec`` refers to a payload that holds those fields of the spec that are other ones from there on, its
fingerprints among them. Rows before it belong to the spec as it was; a run can be amended more than once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import orjson
from pydantic import ValidationError

from ...states.base.errors import JournalDamaged
from ...states.run.spec import Spec

AMENDABLE = (
    *("templates", "host_templates", "tools", "formatter", "policy", "rules", "limits"),
    *("fingerprints", "engine", "machine", "host_machine", "phase_tools"),
)
"""Fields of a spec that an engine brings, of its limits the model's context; what the caller of the run chose is never amended."""

_REQUEST = 7
_MARK = '"spec":{'
"""How the reference is in a row's ``request``, in which no free text does."""


def amendment(old: Spec, new: Spec) -> str:
    """Return the payload that makes *new* of *old*: the amendable fields that differ, as JSON."""
    changed = {name for name in AMENDABLE if getattr(old, name) != getattr(new, name)}
    data = new.model_dump(mode="json", include=changed)
    return orjson.dumps(data, option=orjson.OPT_SORT_KEYS).decode()


def amend_spec(spec: Spec, body: str | bytes | None) -> Spec:
    """
    Return *spec* with an amendment.

    Raises:
        JournalDamaged: It was erased, or is none.
    """
    if body is None:
        raise JournalDamaged("a change of the spec has been erased; the run can be verified, not resumed")
    try:
        data = orjson.loads(body)
        if not isinstance(data, dict) or not data.keys() <= set(AMENDABLE):
            raise ValueError("other fields than an engine brings")
        return Spec.model_validate({**spec.model_dump(), **data})
    except (ValueError, ValidationError) as error:
        raise JournalDamaged(f"a change of the spec cannot be read: {str(error)[:200]}") from None


def amendments(rows: Iterable[tuple[Any, ...]]) -> list[dict[str, Any]]:
    """Return the reference of every payload that amends the spec, in order; *rows* in the order of the table."""
    found = []
    for row in rows:
        if _MARK in row[_REQUEST]:
            place = orjson.loads(row[_REQUEST]).get("spec")
            if isinstance(place, dict):
                found.append(place)
    return found


def in_force(
    spec: Spec, rows: Iterable[tuple[Any, ...]], body: Callable[[dict[str, Any]], str | bytes | None]
) -> Spec:
    """Return the spec that is in force after *rows*; *body* returns that of a payload by the reference to it."""
    for place in amendments(rows):
        spec = amend_spec(spec, body(place))
    return spec
