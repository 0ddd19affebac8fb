"""
Heads: where every run of a journal ends, as a small file that is kept elsewhere.

A hash chain shows every change but one: that its end, or a whole run, is not there any more, or was made anew. Whoever
has kept the heads sees that too: each run must still be there, and its row of then must still have the hash of then.
What came later, rows and runs, is no defect; neither is a payload that was erased, since no text is under a hash.
"""

from __future__ import annotations

from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import msgspec

from ...states.base.errors import PaorError, UsageError
from ...states.base.wire import decoder_of
from ..journal.record import canonical

if TYPE_CHECKING:
    from ..journal.reader import JournalReader

FORMAT = "paor-heads"
VERSION = 1
BYTES_MAX = 64 * 2**20
"""Most bytes of a file of heads; a run takes about 170."""


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


def heads_file(heads: list[Head]) -> bytes:
    """Return heads as a file: canonical JSON and a line feed, the same bytes for the same heads."""
    data: dict[str, Any] = {"format": FORMAT, "version": VERSION}
    data["runs"] = [head._asdict() for head in heads]
    data["digest"] = sha256(canonical(data).encode()).hexdigest()
    return f"{canonical(data)}\n".encode()


def read(data: bytes, name: str) -> list[Head]:
    """
    Return the heads that a file holds.

    Args:
        data: What is in it.
        name: Of the file, for messages.

    Raises:
        UsageError: It is no file of heads of this version, or not as it was written.
    """
    try:
        found = _read_heads(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        found = f"is no file of heads ({str(error)!a:.120})"
    if isinstance(found, str):
        raise UsageError(f"{name}: {found}; write one with: paor verify --write-head FILE")
    return found


class _Version(msgspec.Struct):
    """What every version of the file says."""

    format: str
    version: int


class _Item(msgspec.Struct, forbid_unknown_fields=True):
    run_id: str
    head_seq: Annotated[int, msgspec.Meta(ge=-1, lt=2**32)]
    head_hash: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}\\Z")]


class _File(_Version, forbid_unknown_fields=True):
    runs: list[_Item]
    digest: str


def _read_heads(data: bytes) -> list[Head] | str:
    """Return the heads, or what is wrong with the file."""
    if len(data) > BYTES_MAX:
        return f"is larger than {BYTES_MAX:,} bytes"
    version = decoder_of(_Version).decode(data)
    if version.format != FORMAT:
        return "is no file of heads"
    if version.version != VERSION:
        return f"has version {version.version}, this paor knows {VERSION}"
    runs = decoder_of(_File).decode(data).runs
    heads = [Head(item.run_id, item.head_seq, item.head_hash) for item in runs]
    if not all(head.run_id.isprintable() for head in heads):
        return "names a run by what is no id"
    if len({head.run_id for head in heads}) != len(heads):
        return "names a run twice"
    if data.strip() != heads_file(heads).strip():
        return "is not as it was written: its digest or form does not fit"
    return heads


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
