"""
Heads: where every run of a journal ends, as a small file that is kept elsewhere.

A hash chain shows every change but one: that its end, or a whole run, is not there any more, or was made anew. Whoever
has kept the heads sees that too: each run must still be there, and its row of then must still have the hash of then.
What came later, rows and runs, is no defect; neither is a payload that was erased, since no text is under a hash.
"""

from __future__ import annotations

import json
import re
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

from ...states.base.errors import UsageError
from ..journal.record import canonical

if TYPE_CHECKING:
    from ..journal.reader import JournalReader

FORMAT = "paor-heads"
VERSION = 1
BYTES_MAX = 64 * 2**20
"""Most bytes of a file of heads; a run takes about 170."""

_KEYS = {"format", "version", "runs", "digest"}
_HEAD_KEYS = {"run_id", "head_seq", "head_hash"}
_HASH = re.compile("[0-9a-f]{64}")


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
    """Return the head of every run of a journal, in the order of their ids."""
    rows = journal.query("SELECT run_id, head_seq, head_hash FROM runs ORDER BY run_id")
    return [Head(run_id, seq, value.hex()) for run_id, seq, value in rows]


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
        found = _checked(data)
    except RecursionError:
        found = "is nested too deeply"
    except UnicodeDecodeError:
        found = "is not JSON, it is no UTF-8 text"
    except ValueError as error:
        found = f"is not JSON ({str(error)!a:.80})"
    if isinstance(found, str):
        raise UsageError(f"{name}: {found}; write one with: paor verify --write-head FILE")
    return found


def _checked(data: bytes) -> list[Head] | str:
    """Return the heads, or what is wrong with the file."""
    if len(data) > BYTES_MAX:
        return f"is larger than {BYTES_MAX:,} bytes"
    found = json.loads(
        data.decode(), object_pairs_hook=_object, parse_constant=_no_number, parse_float=_no_number
    )
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        return "is no file of heads"
    if type(found.get("version")) is not int or found["version"] != VERSION:
        return f"has version {found.get('version')!a:.40}, this paor knows {VERSION}"
    if found.keys() != _KEYS or not isinstance(found["runs"], list):
        return f"expected exactly the keys {', '.join(sorted(_KEYS))}, and a list of runs"
    for place, item in enumerate(found["runs"]):
        if not _is_head(item):
            return f"runs[{place}] is no run_id with head_seq and head_hash"
    if len({item["run_id"] for item in found["runs"]}) != len(found["runs"]):
        return "names a run twice"
    heads = [Head(**item) for item in found["runs"]]
    if data.strip() != heads_file(heads).strip():
        return "is not as it was written: its digest or form does not fit"
    return heads


def _is_head(item: Any) -> bool:
    if not isinstance(item, dict) or item.keys() != _HEAD_KEYS:
        return False
    run_id, seq, value = item["run_id"], item["head_seq"], item["head_hash"]
    if not isinstance(run_id, str) or type(seq) is not int or not isinstance(value, str):
        return False
    return run_id.isprintable() and -1 <= seq < 2**32 and _HASH.fullmatch(value) is not None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice")
    return found


def _no_number(text: str) -> Any:
    raise ValueError(f"{text:.40} is no whole number")


def head_problem(journal: JournalReader, head: Head) -> str | None:
    """Return what has become of a run since its head was taken, None when it is still in its chain."""
    found = journal.query(
        "SELECT run, coalesce(parent_seq, -1), root_hash FROM specs WHERE run_id = ?", (head.run_id,)
    )
    if not found:
        return "the run is missing"
    ((run, before, root),) = found
    rows = journal.query("SELECT hash FROM transitions WHERE id = (? << 32 | ?)", (run, head.head_seq))
    if head.head_seq == before:  # it had no row of its own yet
        rows = [(root,)]
    if not rows:
        ((last,),) = journal.query("SELECT head_seq FROM runs WHERE run = ?", (run,))
        return f"the row is missing, the run now ends at seq {last}"
    return None if rows[0][0].hex() == head.head_hash else "another hash stands there: the run was made anew"
