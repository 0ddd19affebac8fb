"""
What `verify` reads of JSON: the references to payloads in a row, and the documents in a result.

Each part is read twice over. A typed decoder, which knows exactly the keys that are written today and refuses all
others, is quick and misses no reference; whatever it refuses is read again in full by a slow reader that knows
nothing but what a reference is: an object with a whole number ``n``.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import orjson
from msgspec import DecodeError, Meta, Struct
from msgspec.json import Decoder

Number: TypeAlias = Annotated[int, Meta(ge=0, le=2**32 - 1)]


class Reference(Struct, forbid_unknown_fields=True, gc=False):
    """A payload as a row names it: by its number, and the first time with digest (hex) and size."""

    n: Number
    digest: str | None = None
    bytes: int | None = None


class Request(Struct, forbid_unknown_fields=True, gc=False):
    """The column ``request``."""

    kind: str
    model: str | None = None
    prompt: list[Reference] = []
    attempt: int = 0
    reserved: int = 0
    spec: Reference | None = None
    tool: str | None = None
    effect: str | None = None
    payloads: list[Number] = []


class OutcomeColumn(Struct, forbid_unknown_fields=True, gc=False):
    """The column ``outcome``."""

    kind: str
    reply: Reference | None = None
    message: Reference | None = None
    answer: Reference | None = None
    asked: Reference | None = None
    output: Reference | None = None
    texts: list[tuple[Reference, Reference]] = []
    tokens_in: int = 0
    tokens_out: int = 0
    cost_micro: int = 0
    calls: int = 0
    finish: str | None = None
    invalid: str | None = None
    stop: str | None = None
    duplicate: str | None = None
    code: str | None = None
    error: str | None = None
    why: str | None = None
    reconciled: str | None = None
    in_doubt: int = 0
    ok: bool = False
    key: str | None = None
    label: str | None = None
    first: int = 0
    documents: int = 0
    plan_step: int = 0
    action: str | None = None
    skipped: int = 0
    dropped: int = 0


class _Object(Struct):
    """Any JSON object; nothing of it is kept."""


class _Whole(Struct, gc=False):
    """A reference with everything that it can have."""

    n: Number
    digest: str
    bytes: int


class _Document(Struct, gc=False):
    number: Number
    label: str
    position: int
    name: str
    mime: str
    payload: _Whole


class _Documents(Struct):
    documents: list[_Document] | None = None


class _Change(Struct):
    result: _Documents


request_of = Decoder(Request).decode
outcome_of = Decoder(OutcomeColumn).decode
change_of = Decoder(Reference).decode
check_object = Decoder(_Object).decode
_change_of, _spec_of = Decoder(_Change).decode, Decoder(_Documents).decode

Claim: TypeAlias = tuple[Any, Any]
"""Digest (hex) and size that a payload is said to have; None where neither is said."""

Columns: TypeAlias = tuple[Any, ...]
"""Label, position, name, media type, size, digest and payload of a document: the columns of its row, in order."""


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
    while left:
        item = left.pop()
        if type(item) is dict:
            if is_number(item.get("n")):
                found.append(item)
                continue
            item = item.values()
        left += [value for value in item if type(value) is dict or type(value) is list]
    return found


def is_number(value: Any) -> bool:
    """Whether *value* can be the number of a payload or document."""
    return type(value) is int and 0 <= value < 2**32


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
        named = (_spec_of(body) if spec else _change_of(body).result).documents or ()
    except DecodeError:
        return _documents_slowly(body, spec=spec)
    return [
        (
            item.number,
            (
                item.label,
                item.position,
                item.name,
                item.mime,
                item.payload.bytes,
                item.payload.digest,
                item.payload.n,
            ),
        )
        for item in named
    ]


def _documents_slowly(body: bytes, *, spec: bool) -> list[tuple[int, Columns]] | None:
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
