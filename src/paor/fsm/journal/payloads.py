"""
Payloads: the texts and bytes that rows refer to, by number and salted digest.

digest = SHA-256(salt || SHA-256(body) || T or B || media type), T for text and B for bytes. The salt is random, kept beside the body and erased with it, so that a
row that stays says nothing about what was erased. A body is stored once within a run as far as the last
`REMEMBERED` bodies reach.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from hashlib import sha256
from typing import Any, NamedTuple

from ...states.records.actions import StoredText

REMEMBERED = 4096
"""Bodies of a run that are recognised when they come again; about 150 bytes of memory each."""

RECENT_BYTES = 65_536
"""Bytes of a run's newest bodies that its driver need not read from the journal; those of the last row, whatever they are."""

MESSAGES = 64
"""Messages of a run's prompts that are known without a look at their bytes."""

JSON = "application/json"
TEXT = "text/plain"


class Payload(NamedTuple):
    """
    One row of `payloads`, without its key.

    Attributes:
        n: Number within the run, from 0.
        media_type: Such as ``text/plain``.
        digest: Salted digest, 32 bytes.
        salt: 16 bytes, None once erased.
        body: Text or bytes, None once erased.
    """

    n: int
    media_type: str
    digest: bytes
    salt: bytes | None
    body: str | bytes | None

    def fits(self, digest: str | None = None) -> bool:
        """
        Return whether it is what its digest says; an erased body says nothing.

        Args:
            digest: Hex; its digest must be this one, too.
        """
        if digest is not None and digest != self.digest.hex():
            return False
        if self.body is None:
            return True
        return self.salt is not None and salted_digest(self.salt, self.body, self.media_type) == self.digest


_payload: Callable[[tuple[Any, ...]], Payload] = partial(tuple.__new__, Payload)
"""Makes a payload of its fields; `Payload._make` at a third of its time."""


def encode_text(body: str | bytes) -> bytes:
    """Return the bytes that are hashed: text as UTF-8."""
    return body if isinstance(body, bytes) else body.encode()


_FORMATS = b"%PDF-", b"{\\rtf"
"""How files begin whose bytes may be text, and whose text has to be read by what knows their format."""

_CONTROLS = bytes({*range(32)} - {*b"\b\t\n\v\f\r\x1b"})
"""Bytes that no text has."""


def is_text(body: str | bytes) -> bool:
    """Return whether *body* can be read as it is: the one rule for what a model is shown, whatever its media type says."""
    if isinstance(body, str):
        return True
    if body.startswith(_FORMATS) or len(body.translate(None, _CONTROLS)) < len(body):
        return False
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True


def as_text(body: str | bytes | None) -> str | None:
    """Return a payload's body as text, what is no UTF-8 in it replaced; None for what is erased."""
    return body.decode("utf-8", "replace") if isinstance(body, bytes) else body


def recalled_text(body: str | bytes | None, revision: int) -> str | None:
    """Return what a row recalls of a payload: its text, None for what is none; in the first revision for all bytes."""
    if isinstance(body, str):
        return body
    return body.decode() if body is not None and revision > 1 and is_text(body) else None


def salted_digest(salt: bytes, body: str | bytes, media_type: str) -> bytes:
    """Return SHA-256(salt || SHA-256(body) || T or B || media type)."""
    return sha256(salt + content_key(body) + media_type.encode()).digest()


def content_key(body: str | bytes) -> bytes:
    """Return SHA-256(body) || T or B: what two bodies share that are stored once."""
    return sha256(encode_text(body)).digest() + (b"B" if isinstance(body, bytes) else b"T")


class Stager:
    """
    Number, salt and collect the payloads of one run until its next append.

    Args:
        first: Number of the next payload.
        salt: Source of fresh salts, 16 bytes each.

    Attributes:
        next: Number of the next payload.
        pending: What the next append stores.
        recent: Bodies that the last rows staged, by number.
    """

    def __init__(self, first: int, salt: Callable[[], bytes]) -> None:
        self.next = first
        self._row_first = first
        self.pending: list[Payload] = []
        self.recent: dict[int, str | bytes] = {}
        self._recent_bytes = 0
        self._staged: dict[int, str | bytes] = {}
        self._salt = salt
        self._known: dict[bytes, StoredText] = {}
        self._messages: dict[str, StoredText] = {}
        self._told: dict[str, StoredText] = {}

    def stage(self, body: str | bytes, media_type: str = TEXT, *, always: bool = False) -> StoredText:
        """
        Return the reference of *body*, which is stored with the next append unless it already was.

        A row's change is staged last and *always*, so that its number says how many payloads there are.
        """
        try:
            data = body if isinstance(body, bytes) else body.encode()
        except UnicodeEncodeError:  # lone surrogates: kept as bytes, so that nothing a model said is lost
            body = data = str(body).encode("utf-8", "surrogatepass")
        content = sha256(data).digest() + (b"B" if data is body else b"T")
        if not always and content in self._known:
            known = self._known[content]
            self._staged[known.n] = body
            return known
        salt, number = self._salt(), self.next
        digest = sha256(salt + content + media_type.encode()).digest()
        reference = StoredText(number, digest.hex(), len(data))
        self.pending.append(_payload((number, media_type, digest, salt, body)))
        self._staged[number] = body
        self.next = number + 1
        if not always:
            self.remember(content, reference)
        return reference

    def stage_told(self, told: str | Payload) -> StoredText:
        """Return the reference of the text of an earlier round, or of a copy of its payload; messages of prompts share it, and nothing else does."""
        if isinstance(told, str):
            reference, body = self.stage(told, JSON, always=True), told
        else:
            body = as_text(told.body) or ""
            reference = StoredText(self.next, told.digest.hex(), len(body.encode()))
            self.pending.append(told._replace(n=self.next))
            self._staged[self.next] = body
            self.next += 1
        self._told[body] = reference
        return reference

    def stage_messages(self, bodies: Iterable[str]) -> list[dict[str, Any]]:
        """Return how a row refers to a prompt's messages; most come again with the next request, and are not hashed then."""
        known, found = self._messages, []
        for body in bodies:
            reference = self._told.get(body) or known.get(body)
            if reference is None:
                if len(known) >= MESSAGES:
                    known.clear()
                reference = known[body] = self.stage(body)
            found.append(self.reference(reference))
        return found

    def reference(self, stored: StoredText) -> dict[str, Any]:
        """Return how a row refers to a payload: with its digest the first time, later by its number alone."""
        return stored.wire() if stored.n >= self._row_first else {"n": stored.n}

    def remember(self, content: bytes, reference: StoredText) -> None:
        """Recognise the body with this `content_key` when it comes again."""
        if len(self._known) >= REMEMBERED:
            for key in list(self._known)[: REMEMBERED // 4]:
                del self._known[key]
        self._known[content] = reference

    def taken(self) -> list[Payload]:
        """Return what has to be stored now, and start a new collection."""
        pending, self.pending = self.pending, []
        if self._recent_bytes > RECENT_BYTES:
            self.recent, self._recent_bytes = {}, 0
        self.recent.update(self._staged)
        self._recent_bytes += sum(map(len, self._staged.values()))
        self._staged, self._row_first = {}, self.next
        return pending
