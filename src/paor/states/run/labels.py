"""What a host calls a run by: a key of its own, and metadata to find it with. Neither decides anything, nor reaches a prompt."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

import orjson

from ..base.errors import UsageError

KEY_CHARS = 200
"""Most characters of a key."""

METADATA_BYTES = 4096
"""Most bytes of all metadata of a run, as compact JSON."""

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,63}")
"""What a name in metadata looks like: a word that needs no quoting in a shell or in SQL."""


def key_of(given: object) -> str | None:
    """
    Return the key of a run, None for none.

    Raises:
        UsageError: It is no text of 1 to `KEY_CHARS` printable characters.
    """
    if given is None:
        return None
    if not isinstance(given, str) or not given.strip() or len(given) > KEY_CHARS or not given.isprintable():
        raise UsageError(
            f"key {given!a:.60}: expected a text of 1 to {KEY_CHARS} printable characters, such as 'order-17'"
        )
    return given


def conversation_of(given: object) -> str:
    """
    Return the id of a conversation, empty for none.

    Raises:
        UsageError: It is no text of 1 to `KEY_CHARS` printable characters.
    """
    if given is None:
        return ""
    if not isinstance(given, str) or not given.strip() or len(given) > KEY_CHARS or not given.isprintable():
        raise UsageError(
            f"conversation {given!a:.60}: expected a text of 1 to {KEY_CHARS} printable characters, such as 'c-17'"
        )
    return given


def metadata_of(given: object) -> dict[str, Any]:
    """
    Return the metadata of a run as plain JSON data, its names in order; empty for none.

    Raises:
        UsageError: It is no mapping of names (`NAME`) to JSON values, or larger than `METADATA_BYTES`.
    """
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise UsageError("metadata must be a mapping of names to JSON values, such as {'tenant': 'acme'}")
    for name in given:
        name_of(name)
    text = "".join(value_text(name, given[name]) for name in given)
    if len(text.encode()) > METADATA_BYTES:
        raise UsageError(f"metadata: {len(text.encode())} bytes of JSON; at most {METADATA_BYTES} are kept")
    data: dict[str, Any] = orjson.loads(
        orjson.dumps(
            {name: orjson.loads(value_text(name, given[name])) for name in given}, option=orjson.OPT_SORT_KEYS
        )
    )
    return data


VALUES_BYTES = 65_536
"""Most bytes of the host values of a run, or of one decision, as compact JSON."""


def values_of(given: object) -> dict[str, Any]:
    """
    Return host values as plain JSON data, names in order; empty for none.

    Raises:
        UsageError: They are no mapping of texts to JSON values, or larger than `VALUES_BYTES`.
    """
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise UsageError("values must be a mapping of names to JSON values, such as {'open': True}")
    try:
        text = json.dumps(dict(given), allow_nan=False)
        data: dict[str, Any] = orjson.loads(orjson.dumps(json.loads(text), option=orjson.OPT_SORT_KEYS))
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"values: they have no JSON form: {str(error)[:120]}") from None
    if len(text) > VALUES_BYTES:
        raise UsageError(f"values: {len(text):,} bytes of JSON; at most {VALUES_BYTES:,} are kept")
    return data


def name_of(given: object) -> str:
    """
    Return a name of metadata.

    Raises:
        UsageError: It is not of the form `NAME`.
    """
    if not isinstance(given, str) or not NAME.fullmatch(given):
        raise UsageError(
            f"metadata: the name {given!a:.60} is not 1 to 64 of A-Z a-z 0-9 _ . : / -, the first no sign but _"
        )
    return given


def value_text(name: str, value: object) -> str:
    """
    Return a value of metadata as the journal's column has it: JSON with sorted keys, no spaces, fractions as Python writes them.

    Raises:
        UsageError: It has no JSON form.
    """
    try:
        data = json.loads(json.dumps(value, allow_nan=False, ensure_ascii=False))
        orjson.dumps(data)  # refuses lone surrogates and integers beyond 64 bits
        return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        raise UsageError(f"metadata {name}: a {type(value).__name__} like this has no JSON form") from None


_AGO = re.compile(r"(\d{1,6})([mhd])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days"}


def moment_of(text: str, now: datetime) -> int | None:
    """
    Return a moment as microseconds since the epoch, None for what is none.

    Args:
        text: ``2026-05-31``, ``2026-05-31T18:00`` (local without a time zone), or ``90m``, ``12h``, ``7d`` ago.
        now: With its time zone.
    """
    with suppress(ValueError, OverflowError, OSError):
        if ago := _AGO.fullmatch(text):
            moment = now - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        else:
            moment = datetime.fromisoformat(text)
        return round(moment.timestamp() * 1e6)
    return None
