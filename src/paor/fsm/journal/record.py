"""
One row of the journal as a value, its canonical bytes and its place in the hash chain.

A row holds ASCII keys, short ASCII texts from closed lists, digests and whole numbers below 2^53; no free text of
a user, a model or a tool. So its bytes from orjson with sorted keys **are** its RFC 8785 (JCS) form.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from operator import itemgetter
from typing import Any

import orjson
from msgspec import defstruct
from msgspec.json import Encoder

from .rows import Transition

COLUMNS = Transition._fields
"""Columns of `transitions` without the key, in the order of the table."""

Row = tuple[Any, ...]
"""
One row of `transitions` as the file holds it: the columns of `Transition` in their order, but those that are JSON as their
canonical text, and the two hashes as 32 bytes. A plain tuple: a run of many rows is read, checked and written as such.
"""

PREV_HASH = COLUMNS.index("prev_hash")
"""Place of the first hash; what is before it is given to `chain_hash`."""

HASHED = COLUMNS[1:PREV_HASH]
"""Columns under the hash: not the two hashes, and not the run's number, which another file may give to another run."""

_ORDER = sorted(range(1, PREV_HASH), key=COLUMNS.__getitem__)
_in_order = itemgetter(*_ORDER)
_Hashed = defstruct("_Hashed", [(COLUMNS[index], Any) for index in _ORDER], gc=False)
_encode_row = Encoder().encode


def canonical_row(values: Row) -> bytes:
    """Return the RFC 8785 bytes of a row's hashed columns, in the order of `COLUMNS` up to the hashes."""
    return _encode_row(_Hashed(*_in_order(values)))


SORTED_COLUMNS = tuple(COLUMNS[index] for index in _ORDER)
"""The hashed columns in the order of their names, which is the order of the canonical bytes."""


def canonical_sorted(values: Row) -> bytes:
    """Return the RFC 8785 bytes of a row's hashed columns, given in the order of `SORTED_COLUMNS`."""
    return _encode_row(_Hashed(*values))


def chain_hash(prev_hash: bytes, values: Row) -> bytes:
    """Return the hash of a row after *prev_hash*: SHA-256(prev_hash || canonical row)."""
    return hashlib.sha256(prev_hash + canonical_row(values)).digest()


def canonical(data: dict[str, Any]) -> str:
    """Return *data* as canonical JSON text: sorted keys, no spaces, ASCII values."""
    return orjson.dumps(data, option=orjson.OPT_SORT_KEYS).decode()


Labels = tuple[str | None, str, str | None]
"""Key, metadata and conversation of a run, as columns."""

NO_LABELS: Labels = (None, "{}", None)
"""Those of a run that has none, or whose spec is erased."""

_sorted_json = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode
"""As the independent script writes it, to the last digit of a fraction."""


def label_columns(spec: Mapping[str, Any], *, fork: bool = False) -> Labels:
    """
    Return the columns ``key``, ``metadata`` and ``conversation`` of a run, which are derived from its spec and go when that is erased.

    A fork is a run of its own and has none; neither is a task of a workflow a round of its conversation.

    Args:
        spec: As JSON data; one that was erased is empty.
        fork: Whether the run is a fork.

    Raises:
        TypeError: What the spec says has no canonical form.
    """
    if fork:
        return NO_LABELS
    conversation = None if spec.get("task_id") else spec.get("conversation")
    return spec.get("key"), _sorted_json(spec.get("metadata", {})), conversation or None


def root_hash(record: dict[str, Any], before: bytes = b"") -> bytes:
    """
    Return the hash that the first own row follows: of the run's immutable columns, the spec's digest among them.

    Args:
        record: The columns.
        before: Of a fork the hash of the last row that it shares, so that its chain goes on where the parent's stood.
    """
    return hashlib.sha256(before + orjson.dumps(record, option=orjson.OPT_SORT_KEYS)).digest()
