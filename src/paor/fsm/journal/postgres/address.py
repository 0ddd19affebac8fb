"""The address of a journal in PostgreSQL: ``postgresql://USER@HOST/DATABASE?schema=NAME`` and whatever else libpq takes."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from msgspec import Struct

from ....states.base.errors import UsageError

SCHEMES = ("postgresql", "postgres")

_UNREADABLE = (
    "the journal's address cannot be read: expected postgresql://USER@HOST/DATABASE?schema=NAME; in user and password write"
    " %, /, #, ?, @ and : as %25, %2F, %23, %3F, %40 and %3A"
)

_HOST = r"(\[[0-9A-Fa-f:.%]+\]|[\w.%-]*)(:\d{1,5})?"
_HOSTS = re.compile(f"{_HOST}(,{_HOST})*")
_LOOSE_PERCENT = re.compile("%(?![0-9A-Fa-f]{2})")
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_OWN_SCHEMAS = ("pg_", "information_schema")
_SHOWN = frozenset(("schema", "sslmode", "target_session_attrs", "application_name", "service"))
"""What messages show of an address beside host and database; the rest may be secret."""


def is_address(text: str) -> bool:
    """Return whether a journal is named by an address and not by a path."""
    return text.partition("://")[0].lower() in SCHEMES and "://" in text


def shown(text: str) -> str:
    """Return how messages call a journal: a path as it is, an address without its password."""
    return read_address(text).shown if is_address(text) else text


class Address(Struct, frozen=True):
    """
    Where a journal is.

    Attributes:
        given: As it was given, with its password.
        shown: For messages: without password.
        name: For pages: database and schema.
        conninfo: What libpq takes.
        schema: Of the database; ``paor`` by default.
    """

    given: str
    shown: str
    name: str
    conninfo: str
    schema: str


def read_address(text: str) -> Address:
    """
    Return what an address says.

    Raises:
        UsageError: It is none; the message does not repeat it, since it may hold a password.
    """
    try:
        parts = urlsplit(text)
        options = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
        login, _, hosts = parts.netloc.rpartition("@")
        given = unquote(login, errors="strict")
    except ValueError:
        raise UsageError(_UNREADABLE) from None
    # what is cut elsewhere than it looks is refused: a part of a password would stand in what is shown
    cut = parts.fragment or "@" in parts.path + parts.query or "\0" in given or _LOOSE_PERCENT.search(login)
    if cut or not _HOSTS.fullmatch(hosts):
        raise UsageError(_UNREADABLE)
    schemas = [value for name, value in options if name == "schema"]
    schema = schemas[-1] if schemas else "paor"
    if len(schemas) > 1 or not _SCHEMA.fullmatch(schema) or schema.startswith(_OWN_SCHEMAS):
        raise UsageError(
            f"schema {schema!a:.80}: expected one name of small letters, digits and _, up to 63, not one of PostgreSQL's own"
        )
    rest = [(name, value) for name, value in options if name != "schema"]
    query = urlencode(rest, quote_via=quote)
    conninfo = f"{parts.scheme}://{parts.netloc}{parts.path}{f'?{query}' if query else ''}"
    user = login.partition(":")[0]
    kept = urlencode([(name, value) for name, value in options if name in _SHOWN])
    shown = f"{parts.scheme}://{f'{user}@' if user else ''}{hosts}{parts.path}{f'?{kept}' if kept else ''}"
    name = f"{parts.path.lstrip('/') or 'postgresql'}.{schema}"
    return Address(text, shown, name, conninfo, schema)
