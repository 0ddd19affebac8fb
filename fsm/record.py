"""
One row of the journal as a value, its canonical bytes and its place in the hash chain.

A row holds ASCII keys, short ASCII texts from closed lists, digests and whole numbers below 2^53; no free text of
a user, a model or a tool. So its bytes from orjson with sorted keys **are** its RFC 8785 (JCS) form.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple

import orjson
from msgspec import defstruct
from msgspec.json import Encoder
from msgspec.structs import astuple

from ..states.run import Counters

COLUMN_COUNTERS = ("step", "action", "retries", "tokens_in", "tokens_out", "cost_micro", "time_us")
"""Counters with a column of their own; the others stand together in the column ``counters``."""


class Record(NamedTuple):
    """
    One row of `transitions`, in the order of its columns without the key.

    Attributes:
        run: The journal's number of the run.
        seq: From 0, no gap.
        at: Microseconds since the epoch, UTC.
        trigger, source, dest: The transition.
        guards: JSON object: every guard of the rows that were tried, with its value.
        request: JSON object: what was asked, with payload references.
        outcome: JSON object: what came back, with payload references.
        change: JSON object: reference of the payload that holds what the transition set.
        step, action, retries, tokens_in, tokens_out, cost_micro, time_us: Counters after it.
        counters: JSON object: the other counters that are not at their default.
        prev_hash, hash: The chain, 32 bytes each.
    """

    run: int
    seq: int
    at: int
    trigger: str
    source: str
    dest: str
    guards: str
    request: str
    outcome: str
    change: str
    step: int
    action: int
    retries: int
    tokens_in: int
    tokens_out: int
    cost_micro: int
    time_us: int
    counters: str
    prev_hash: bytes
    hash: bytes


record_of: Callable[[tuple[Any, ...]], Record] = partial(tuple.__new__, Record)
"""Makes a record of all its columns in order; `Record._make` at a third of its time."""

PREV_HASH = Record._fields.index("prev_hash")
"""Place of the first hash; what stands before it is given to `chained`."""

HASHED = Record._fields[1:PREV_HASH]
"""Columns under the hash: not the two hashes, and not the run's number, which another file may give to another run."""

_ORDER = sorted(range(1, PREV_HASH), key=Record._fields.__getitem__)
_in_order = itemgetter(*_ORDER)
_Hashed = defstruct("_Hashed", [(Record._fields[index], Any) for index in _ORDER], gc=False)
_encode_row = Encoder().encode


def canonical_row(values: tuple[Any, ...]) -> bytes:
    """Return the RFC 8785 bytes of a row's hashed columns, given in `Record` order up to the hashes."""
    return _encode_row(_Hashed(*_in_order(values)))


SORTED_COLUMNS = tuple(Record._fields[index] for index in _ORDER)
"""The hashed columns in the order of their names, which is the order of the canonical bytes."""


def canonical_sorted(values: tuple[Any, ...]) -> bytes:
    """Return the RFC 8785 bytes of a row's hashed columns, given in the order of `SORTED_COLUMNS`."""
    return _encode_row(_Hashed(*values))


def chained(prev_hash: bytes, values: tuple[Any, ...]) -> bytes:
    """Return the hash of a row after *prev_hash*: SHA-256(prev_hash || canonical row)."""
    return hashlib.sha256(prev_hash + canonical_row(values)).digest()


def canonical(data: dict[str, Any]) -> str:
    """Return *data* as canonical JSON text: sorted keys, no spaces, ASCII values."""
    return orjson.dumps(data, option=orjson.OPT_SORT_KEYS).decode()


def root_hash(record: dict[str, Any], before: bytes = b"") -> bytes:
    """
    Return the hash that the first own row follows: of the run's immutable columns, the spec's digest among them.

    Args:
        record: The columns.
        before: Of a fork the hash of the last row that it shares, so that its chain goes on where the parent's stood.
    """
    return hashlib.sha256(before + orjson.dumps(record, option=orjson.OPT_SORT_KEYS)).digest()


_FIRST = len(COLUMN_COUNTERS)
_NAMES, _DEFAULTS = Counters.__struct_fields__[_FIRST:], astuple(Counters())[_FIRST:]
_Others = defstruct(
    "_Others",
    [(name, Any, default) for name, default in zip(_NAMES, _DEFAULTS, strict=True)],
    omit_defaults=True,
    gc=False,
)


def counters_text(counters: Counters) -> str:
    """Return the counters without a column of their own, those at their default left out."""
    return _encode_row(_Others(*astuple(counters)[_FIRST:])).decode()


def counters_of(values: tuple[Any, ...]) -> Counters:
    """Return the counters of a row, given in `Record` order."""
    own = dict(zip(COLUMN_COUNTERS, values[10:17], strict=True))
    return Counters(**own, **orjson.loads(values[17]))
