"""
How the counters of a run are written in a row: seven columns of their own, and one JSON object for the others.

The column ``counters`` holds only what is not at its default, with keys in the order of `Counters`, so the same counters
always give the same bytes, which the hash chain relies on.
"""

from __future__ import annotations

from typing import Any

import orjson
from msgspec import defstruct
from msgspec.json import Encoder
from msgspec.structs import astuple

from ..base.sealed import sealed
from .state import Counters

COLUMN_COUNTERS = ("step", "action", "retries", "tokens_in", "tokens_out", "cost_micro", "time_us")
"""Counters with a column of their own; the others stand together in the column ``counters``."""

_FIRST = len(COLUMN_COUNTERS)
_NAMES, _DEFAULTS = Counters.__struct_fields__[_FIRST:], astuple(Counters())[_FIRST:]
_Others = defstruct(
    "_Others",
    [(name, Any, default) for name, default in zip(_NAMES, _DEFAULTS, strict=True)],
    omit_defaults=True,
    gc=False,
)
_encode = Encoder().encode


def counters_text(counters: Counters) -> str:
    """Return the counters without a column of their own, those at their default left out."""
    return _encode(_Others(*astuple(counters)[_FIRST:])).decode()


def counters_of(values: tuple[Any, ...]) -> Counters:
    """Return the counters of a row, given in the order of its columns."""
    own = dict(zip(COLUMN_COUNTERS, values[10:17], strict=True))
    others = orjson.loads(values[17])
    if "own" in others:
        others["own"] = sealed(others["own"])
    return Counters(**own, **others)
