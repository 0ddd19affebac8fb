"""
One row of the journal as a value, the text that it is stored as, and its place in the hash chain.

The text is a JSON object with sorted keys: ASCII keys, short ASCII texts from closed lists, digests and whole numbers below 2^53; no free
text of a user, a model or a tool. So the bytes **are** its RFC 8785 (JCS) form. They are stored as they are hashed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from operator import attrgetter, itemgetter
from typing import Any

import orjson
from msgspec import MsgspecError, Raw, defstruct
from msgspec.json import Decoder, Encoder

from .rows import Transition

COLUMNS = Transition._fields
"""Columns of the view `transitions` without the key, in its order."""

Row = tuple[Any, ...]
"""
One row as values: the columns of `Transition` in their order, but those that are JSON as their canonical text, and the two hashes as 32
bytes. A plain tuple: a run of many rows is read, checked and written as such.
"""

PREV_HASH = COLUMNS.index("prev_hash")
"""Place of the first hash; what is before it is given to `chain_hash`."""

HASHED = COLUMNS[1:PREV_HASH]
"""Columns under the hash: not the two hashes, and not the run's number, which another file may give to another run."""

_JSON = ("guards", "request", "outcome", "change", "counters")
_TEXTS = ("trigger", "source", "dest")
_PLACES = sorted(range(1, PREV_HASH), key=COLUMNS.__getitem__)
_in_order = itemgetter(*_PLACES)
_RAW = tuple(at for at, place in enumerate(_PLACES) if COLUMNS[place] in _JSON)


def _type_of(column: str) -> type:
    return Raw if column in _JSON else str if column in _TEXTS else int


RowText = defstruct(
    "RowText",
    [(COLUMNS[place], _type_of(COLUMNS[place])) for place in _PLACES],
    gc=False,
    forbid_unknown_fields=True,
)
"""The object in a row's text: the hashed columns in the order of their names, those that are JSON as `msgspec.Raw`."""

encode_row: Callable[[Any], bytes] = Encoder().encode
decode_row: Callable[[str | bytes], Any] = Decoder(RowText).decode
_columns = attrgetter(*HASHED)
_JSON_AT = tuple(HASHED.index(name) for name in _JSON)


def row_text(values: Row) -> bytes:
    """Return the text of a row, as it is stored and hashed, of its columns in the order of `COLUMNS` up to the hashes."""
    told = list(_in_order(values))
    for at in _RAW:
        told[at] = Raw(told[at])
    return encode_row(RowText(*told))


def row_of(run: int, text: str | bytes, prev_hash: bytes, hash: bytes) -> Row:
    """
    Return a row as values.

    Args:
        run: Number of the run that it belongs to.
        text: As it is stored.
        prev_hash, hash: Of the chain.

    Raises:
        ValueError: The text is no row.
    """
    try:
        values = list(_columns(decode_row(text)))
    except (MsgspecError, UnicodeError, RecursionError) as error:
        raise ValueError(str(error)) from None
    for at in _JSON_AT:
        values[at] = str(memoryview(values[at]), "utf-8")
    return (run, *values, prev_hash, hash)


def chain_hash(prev_hash: bytes, values: Row) -> bytes:
    """Return the hash of a row after *prev_hash*: SHA-256(prev_hash || the row's text)."""
    return hashlib.sha256(prev_hash + row_text(values)).digest()


def last_text(run: int, change: str) -> int:
    """
    Return the key of a row's last text, which is its change: run << 32 | number; by it a text is found without reading other rows.

    Raises:
        ValueError: The column ``change`` names no text.
    """
    try:
        number: Any = orjson.loads(change)["n"]
        if type(number) is int and 0 <= number < 2**32:
            return run << 32 | number
    except (LookupError, TypeError):
        pass
    raise ValueError("its change names no text")


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
