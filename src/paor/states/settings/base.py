"""The base of what a host sets: validated when it is made, and an error of paor's own for what cannot be used."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from ..base.errors import UsageError

TOLD_MAX = 5
"""Wrong fields that one message names."""


class Settings(BaseModel):
    """
    A frozen value of named fields.

    Raises:
        UsageError: One line that names every wrong field, what it must be, and what was given.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    def __init__(self, /, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise UsageError(f"{type(self).__name__}: {problems_of(error, type(self))}") from None

    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]  # read back without a call of it


def problems_of(error: ValidationError, kind: type[BaseModel]) -> str:
    """Return on one line what is wrong with the values for *kind*: field by field, at most `TOLD_MAX` of them."""
    found = error.errors(include_url=False, include_context=False)
    told = []
    for details in found[:TOLD_MAX]:
        name = ".".join(map(str, details["loc"]))
        if details["type"] == "extra_forbidden":
            near = get_close_matches(name, kind.model_fields, n=1)
            known = f"did you mean {near[0]}?" if near else f"there are: {', '.join(kind.model_fields)}"
            told.append(f"unknown field {name!a}; {known}")
        else:
            words = (
                details["msg"]
                .lower()
                .removeprefix("value error, ")
                .replace("input should be", "must be")
                .replace("valid tuple", "list")
            )
            told.append(f"{name}: {words}, not {shown(details['input'])}")
    more = [f"and {len(found) - TOLD_MAX} more"] if len(found) > TOLD_MAX else []
    return "; ".join(told + more)


def shown(value: object) -> str:
    """Return a wrong value in one short line of printable ASCII, whatever it is."""
    try:
        text = ascii(value)
    except Exception:  # a class of the host's own  # noqa: BLE001
        text = ""
    return (text if len(text) <= 80 else f"{text[:77]}...") or f"a value of type {type(value).__name__}"
