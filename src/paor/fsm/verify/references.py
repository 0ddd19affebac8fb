"""What `verify` reads of JSON: the references to payloads in a row, and the documents in a result."""

from __future__ import annotations

import re
from typing import Annotated, Any, NamedTuple, TypeAlias

import orjson
from msgspec import DecodeError, Meta, Struct
from msgspec.json import Decoder

from ..journal.record import Labels, label_columns

Claim: TypeAlias = tuple[Any, Any]
"""Digest (hex) and size that a payload is said to have; None where neither is said."""

Columns: TypeAlias = tuple[Any, ...]
"""Label, position, name, media type, size, digest and payload of a document: the columns of its row, in order."""


class _Named(Struct, forbid_unknown_fields=True, gc=False):
    """The column ``change`` as it is written: number and digest of a payload, and nothing else."""

    n: Annotated[int, Meta(ge=0, lt=2**32)]
    digest: str


class _Object(Struct, gc=False):
    """Any JSON object; nothing of it is kept."""


named_change = Decoder(_Named).decode
"""Reads the column ``change`` as it is written; whatever it refuses is read in full."""

_check_object = Decoder(_Object).decode
_READ_IN_FULL = re.compile(r"\\|[0-9][eE]|[0-9]{19}")
"""Escapes, behind which any key may be, and exponents, of which decoders think differently."""


def refers_to_nothing(text: str) -> bool:
    """Whether *text* is a JSON object without any key that could name a payload, found without reading what is in it."""
    if '"n"' in text or '"payloads"' in text or _READ_IN_FULL.search(text):
        return False
    try:
        _check_object(text)
    except (DecodeError, RecursionError):
        return False
    return True


def json_object(text: str | bytes) -> dict[str, Any] | None:
    """Return a JSON object, None for anything else."""
    try:
        data = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return data if isinstance(data, dict) else None


def references(data: Any) -> list[dict[str, Any]]:
    """Return every reference to a payload within JSON: an object with a number ``n``."""
    found, left = [], [data]
    for item in left:  # which grows meanwhile
        if type(item) is dict:
            number = item.get("n")
            if type(number) is int and 0 <= number < 2**32:  # `is_number`, without a call
                found.append(item)
            else:
                left += item.values()
        elif type(item) is list:
            left += item
    return found


def is_number(value: Any) -> bool:
    """Whether *value* can be the number of a payload or document."""
    return type(value) is int and 0 <= value < 2**32


ERASED: Any = ...
"""In the place of a column that only an erased text has named."""


class Promised(NamedTuple):
    """
    The documents that a hashed row has counted, for a spec or result that is erased.

    Attributes:
        first: Number of the first one.
        many: How many.
        label: Their label, `ERASED` if no row has it.
    """

    first: int
    many: int
    label: Any

    def columns(self, most: int) -> list[tuple[int, Columns]]:
        """Return number and columns of each, of no more than *most*: a row may count what no file holds."""
        known = self.label is not ERASED
        return [
            (self.first + position, (self.label, position if known else ERASED, *(ERASED,) * 5))
            for position in range(min(self.many, most))
        ]


def promised_documents(first: Any, count: Any, label: Any) -> Promised | None:
    """Return what a row says of documents, None when it says nothing of the kind."""
    return Promised(first, count, label) if is_number(first) and is_number(count) else None


def labels_of(spec: dict[str, Any] | None) -> Labels | None:
    """Return the columns ``key``, ``metadata`` and ``conversation`` of a run by its spec; None for a spec that cannot be read."""
    try:
        return label_columns(spec or {})
    except (TypeError, ValueError):
        return None


def documents_of(body: bytes, *, spec: bool) -> list[tuple[int, Columns]] | None:
    """
    Return number and columns of the documents that a spec or a result names.

    Args:
        body: JSON of the spec, or of what an ``execute`` row set.
        spec: Which of both.

    Returns:
        None when it cannot be read: it was changed, which its own digest tells.
    """
    try:
        data: Any = json_object(body)
        found = []
        for item in list((data if spec else data["result"]).get("documents") or ()):
            place = item["payload"]
            if not (is_number(item["number"]) and is_number(place["n"])):
                return None
            own = tuple(item[name] for name in ("label", "position", "name", "mime"))
            found.append((item["number"], (*own, place["bytes"], place["digest"], place["n"])))
    except (KeyError, TypeError, AttributeError):
        return None
    return found
