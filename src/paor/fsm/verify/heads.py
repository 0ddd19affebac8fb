"""
Heads: where every run of a journal ends, as a small signed file that is kept elsewhere.

A hash chain shows every change but one: that its end, or a whole run, is not there any more, or was made anew. A comparison with heads that were
kept shows that too: each run must still be there, and its row of then must still have the hash of then.
What came later, rows and runs, is no defect; neither is a payload that was erased, since no text is under a hash.

The file is a checkpoint as transparency logs write it: an origin, the number of runs, the root of a Merkle tree (RFC 6962) over the lines that follow,
a line for each run; then, behind an empty line, its signatures (Ed25519).

Source: C2SP signed-note and tlog-checkpoint, https://c2sp.org/.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from binascii import Error as NoBase64
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from ...states.base.errors import MissingExtra, PaorError, UsageError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

    from ..journal.reader import JournalReader

ORIGIN = "paor/heads"
"""First line of the file, and the name of the key, unless another is given."""

BYTES_MAX = 64 * 2**20
"""Most bytes of a file of heads; a run takes about 110."""

_NAME = re.compile(r"[^\s+]{1,200}")
_LINE = re.compile(r"(-1|0|[1-9]\d{0,9}) ([0-9a-f]{64}) (.+)")
_SIGNATURE = re.compile(r"\u2014 ([^\s+]{1,200}) ([A-Za-z0-9+/]+={0,2})")
_ED25519 = b"\x01"
"""The kind of the key, as a signed note counts them."""


class Head(NamedTuple):
    """
    Where a run ended when its head was taken.

    Attributes:
        run_id: Public id of the run.
        head_seq: Number of its last row, -1 without rows.
        head_hash: Hash of that row, or of the run's first columns without rows; 64 hex digits.
    """

    run_id: str
    head_seq: int
    head_hash: str


class Checkpoint(NamedTuple):
    """
    A file of heads.

    Attributes:
        origin: What it says it is of.
        heads: Of all runs, in the order of their ids.
        signatures: Name of the key, key id and signature of each.
    """

    origin: str
    heads: list[Head]
    signatures: tuple[tuple[str, bytes, bytes], ...] = ()

    @property
    def text(self) -> str:
        """What is signed: every line up to the empty one, each with its end."""
        lines = [f"{head.head_seq} {head.head_hash} {head.run_id}" for head in self.heads]
        return "".join(f"{line}\n" for line in (self.origin, len(lines), root_of(lines), *lines))

    def file(self) -> bytes:
        """Return it as a file; the same bytes for the same heads and key."""
        signed = (
            f"\u2014 {name} {b64encode(key_id + signature).decode()}\n"
            for name, key_id, signature in self.signatures
        )
        return f"{self.text}\n{''.join(signed)}".encode()

    def signed(self, key: Ed25519PrivateKey) -> Checkpoint:
        """Return it with the signature of *key*, named by its origin."""
        signature = key.sign(self.text.encode())
        return self._replace(signatures=((self.origin, key_id(self.origin, key.public_key()), signature),))

    def is_signed_by(self, key: Ed25519PublicKey) -> bool:
        """Return whether one of its signatures is of *key*."""
        from cryptography.exceptions import InvalidSignature

        for name, found, signature in self.signatures:
            if found == key_id(name, key):
                try:
                    key.verify(signature, self.text.encode())
                except InvalidSignature:
                    continue
                return True
        return False


def root_of(lines: Sequence[str]) -> str:
    """Return the root of the Merkle tree over *lines*, in base64 (RFC 6962, 2.1)."""
    level = [sha256(b"\0" + line.encode()).digest() for line in lines] or [sha256(b"").digest()]
    while len(level) > 1:
        pairs = zip(level[::2], level[1::2], strict=False)
        level = [sha256(b"\1" + one + two).digest() for one, two in pairs] + level[len(level) & ~1 :]
    return b64encode(level[0]).decode()


def key_id(name: str, key: Ed25519PublicKey) -> bytes:
    """Return the four bytes by which a signature names its key."""
    return sha256(name.encode() + b"\n" + _ED25519 + key.public_bytes_raw()).digest()[:4]


def heads_of(journal: JournalReader) -> list[Head]:
    """Return the head of every run of a journal, in the order of their ids; of none that waits in line, which is written anew when it begins."""
    return [
        Head(run_id, seq, value.hex())
        for run_id, seq, value in journal.index.ends()
        if seq >= 0 or not _in_line(journal, run_id)
    ]


def _in_line(journal: JournalReader, run_id: str) -> bool:
    with suppress(PaorError):  # erased, or damaged, which `verify` tells
        return journal.spec(run_id).in_line
    return False


def origin_of(text: str) -> str:
    """
    Return *text* as an origin.

    Raises:
        UsageError: It has a space or a plus sign, or more than 200 characters.
    """
    if not _NAME.fullmatch(text):
        raise UsageError(
            f"--origin {text!a:.80}: expected a name such as example.com/runs, without spaces and +"
        )
    return text


def private_key(data: bytes, name: str) -> Ed25519PrivateKey:
    """
    Return the key that a PEM file holds (PKCS 8).

    Raises:
        UsageError: It holds none, or one that is encrypted.
        MissingExtra: `cryptography` is not installed.
    """
    serialization, ed25519 = _cryptography()
    try:
        key: Any = serialization.load_pem_private_key(data, None)
    except TypeError:
        raise UsageError(f"{name}: the key is encrypted; give one without a password") from None
    except Exception:  # noqa: BLE001 - whatever the library says of a foreign file
        key = None
    if isinstance(key, ed25519.Ed25519PrivateKey):
        return cast("Ed25519PrivateKey", key)
    raise UsageError(f"{name}: is no Ed25519 private key in PEM; make one with: {_MAKE}")


def public_key(data: bytes, name: str) -> Ed25519PublicKey:
    """
    Return the public key that a PEM file holds.

    Raises:
        UsageError: It holds none.
        MissingExtra: `cryptography` is not installed.
    """
    serialization, ed25519 = _cryptography()
    try:
        key = serialization.load_pem_public_key(data)
    except Exception:  # noqa: BLE001 - whatever the library says of a foreign file
        key = None
    if isinstance(key, ed25519.Ed25519PublicKey):
        return cast("Ed25519PublicKey", key)
    raise UsageError(
        f"{name}: is no Ed25519 public key in PEM; make one with: openssl pkey -in KEY.pem -pubout"
    )


_MAKE = "openssl genpkey -algorithm ed25519 -out KEY.pem"


def _cryptography() -> tuple[Any, Any]:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ModuleNotFoundError:
        raise MissingExtra('signing needs cryptography: pip install "paor[sign]"') from None
    return serialization, ed25519


def read(data: bytes, name: str) -> Checkpoint:
    """
    Return what a file of heads holds; its signatures are not checked.

    Args:
        data: What is in it.
        name: Of the file, for messages.

    Raises:
        UsageError: It is no file of heads, or not as it was written.
    """
    found = _read(data)
    if isinstance(found, str):
        raise UsageError(f"{name}: {found}; write one with: paor heads --output FILE")
    return found


def _read(data: bytes) -> Checkpoint | str:
    """Return the file, or what is wrong with it."""
    if len(data) > BYTES_MAX:
        return f"is larger than {BYTES_MAX:,} bytes"
    try:
        body, empty, signed = data.decode().partition("\n\n")
    except UnicodeDecodeError:
        return "is no file of heads"
    origin, *lines = body.split("\n")
    if not empty or len(lines) < 2 or not _NAME.fullmatch(origin):
        return "is no file of heads"
    heads = [
        Head(found[3], int(found[1]), found[2])
        for line in lines[2:]
        if (found := _LINE.fullmatch(line)) is not None
    ]
    if not all(head.run_id.isprintable() and head.head_seq < 2**32 for head in heads):
        return "names a run by what is no id, or a row by what is no number"
    if len({head.run_id for head in heads}) != len(heads):
        return "names a run twice"
    signatures = []
    for line in signed.split("\n")[:-1]:
        found, raw = _SIGNATURE.fullmatch(line), b""
        if found is not None:
            with suppress(NoBase64):
                raw = b64decode(found[2], validate=True)
        if found is None or len(raw) < 5:
            return "has a line that is no signature"
        signatures.append((found[1], raw[:4], raw[4:]))
    checkpoint = Checkpoint(origin, heads, tuple(signatures))
    return (
        checkpoint
        if checkpoint.file() == data
        else "is not as it was written: its number, its root or its form does not fit"
    )


def head_problem(journal: JournalReader, head: Head) -> str | None:
    """Return what has become of a run since its head was taken, None when it is still in its chain."""
    found = journal.index.beginning(head.run_id)
    if found is None:
        return "the run is missing"
    run, before, root = found
    if not 0 < run < 2**31:  # which is a defect of its own
        return "the run has no number that a row could have"
    rows = journal.columns(run, ("hash",), (), head.head_seq, head.head_seq)
    if head.head_seq == before:  # it had no row of its own yet
        rows = [(root,)]
    if not rows:
        last = journal.newest_row(run)
        return f"the row is missing, the run now ends at seq {before if last is None else last}"
    return None if rows[0][0].hex() == head.head_hash else "another hash stands there: the run was made anew"
