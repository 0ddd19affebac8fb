"""
Payloads: the texts and bytes that rows refer to, by number and salted digest.

A row's new texts are in the row's own column ``texts``, its change the last of them; long ones, bytes, and what a run was started with are in
the table of that name.

digest = SHA-256(salt || SHA-256(body) || T or B || media type), T for text and B for bytes. The salt is random, kept beside the body and erased with it, so that a
row that stays says nothing about what was erased. A body is stored once within a run as far as the last
`REMEMBERED` bodies reach.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from hashlib import sha256
from typing import Any, NamedTuple

from msgspec import MsgspecError
from msgspec.json import Decoder, Encoder

from ...states.records.actions import StoredText

INLINE_CHARS = 16_384
"""Characters of the longest text that is with its row; but a row's change is there, whatever its length."""

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


Inline = tuple[int, str | None, str | None, str | None, str | None]
"""
A text of a row as it is stored: number, media type (None for JSON), digest, salt and body. Digest and salt are hex. The digest is there
once salt and body are erased; before, it follows from both, and the row says it, too.
"""

_encode_texts = Encoder().encode
_decode_texts: Callable[[str], list[Inline]] = Decoder(list[Inline]).decode


def is_inline(payload: Payload) -> bool:
    """Return whether a payload of a row, unless it is the change, is stored with the row."""
    body = payload.body
    return body is None or (isinstance(body, str) and len(body) <= INLINE_CHARS)


def texts_column(payloads: Iterable[Payload]) -> str:
    """Return the column ``texts`` of a row with these payloads."""
    told = [
        (
            n,
            None if media_type == JSON else media_type,
            digest.hex() if salt is None else None,
            None if salt is None else salt.hex(),
            body,
        )
        for n, media_type, digest, salt, body in payloads
    ]
    return _encode_texts(told).decode()


def text_values(run: int, payload: Payload) -> tuple[Any, ...]:
    """Return the columns of the table `texts` for a payload."""
    n, media_type, digest, salt, body = payload
    return run << 32 | n, media_type, digest.hex(), None if salt is None else salt.hex(), body


def payload_of_text(
    key: int, media_type: str, digest: str, salt: str | None, body: str | bytes | None
) -> Payload:
    """
    Return the payload in a row of the table `texts`.

    Raises:
        ValueError: Its digest or salt is no hex.
    """
    salted = None if salt is None else _unhex(salt)
    return _payload((key & (2**32 - 1), media_type, _unhex(digest), salted, body))


def _told(
    n: int, media_type: str | None, digest: str | None, salt: str | None, body: str | None, *, hashed: bool
) -> Payload:
    """Return the payload in one item of a row's texts."""
    kind = JSON if media_type is None else media_type
    salted = None if salt is None else _unhex(salt)
    if digest is not None:
        told = _unhex(digest)
    elif hashed and salted is not None and body is not None:
        told = salted_digest(salted, body, kind)
    else:
        told = b""
    return _payload((n, kind, told, salted, body))


def _unhex(text: str) -> bytes:
    """Return the bytes of what is written as `bytes.hex` writes them; of two ways to write the same one is none."""
    data = bytes.fromhex(text)
    if data.hex() != text:
        raise ValueError("not as hex is written here")
    return data


def payloads_of(key: int, texts: str, *, hashed: bool = True) -> list[tuple[int, Payload]]:
    """
    Return the payloads in a row's column ``texts``, in order, each with its key.

    Args:
        key: Of the last one: the run's number << 32 | the number of the row's change.
        texts: The column.
        hashed: Whether the digest of a payload that is not erased is wanted; else it is empty.

    Raises:
        ValueError: It cannot be read, or its numbers are not in order.
    """
    try:
        told = _decode_texts(texts)
    except (MsgspecError, UnicodeError, RecursionError) as error:
        raise ValueError(str(error)) from None
    base = key >> 32 << 32
    found = [(base | item[0], _told(*item, hashed=hashed)) for item in told]
    numbers = [n for n, *_ in told]
    if numbers and (numbers[0] < 0 or base | numbers[-1] > key or numbers != sorted(set(numbers))):
        raise ValueError("its numbers are not in order")
    return found


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
