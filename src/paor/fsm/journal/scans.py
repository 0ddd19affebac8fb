"""Reading a whole table in bulk: in order of its key, a bounded number of rows in memory, no statement a run."""

from __future__ import annotations

from bisect import bisect_left
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal

from .record import SORTED_COLUMNS
from .rows import ROOT_COLUMNS

if TYPE_CHECKING:
    from .reader import JournalReader

Table = Literal["specs", "transitions", "payloads", "documents", "erasures", "runs"]

_SHOWN = "state, status, reason, ended_at, head_seq, head_hash"

_HASHED = ", ".join(f'"{name}"' for name in SORTED_COLUMNS)

_SELECT: dict[str, str] = {
    "specs": f'SELECT run, root_hash, "key", metadata, conversation, {", ".join(ROOT_COLUMNS)} FROM specs WHERE run >= ? ORDER BY run',
    "transitions": f"SELECT id, {_HASHED}, prev_hash, hash, run FROM transitions WHERE id >= ? ORDER BY id",
    "documents": "SELECT id, label, position, name, mime, bytes, digest, payload FROM documents WHERE id >= ? ORDER BY id",
    "erasures": "SELECT id, number, at, rule, payloads, reason, hash FROM erasures WHERE id >= ? ORDER BY id",
    "runs": f"SELECT run, {_SHOWN} FROM runs WHERE run >= ? ORDER BY run",
}

_key = itemgetter(0)


class Scan:
    """
    The rows of one table, handed out up to a key at a time.

    Each begins with its key: of `specs` and `runs` the run's number, of the others that << 32 | the number within the run. A row of
    `transitions` has its hashed columns in the order of their names, the two hashes, and the run; a payload its digest, its salt, ``T``
    or ``B`` with the media type as bytes, and the body as bytes.

    Args:
        reader: A snapshot of the journal.
        table: Which.
        size: Rows that are fetched together.
        first: The lowest key that is wanted.
    """

    def __init__(self, reader: JournalReader, table: Table, size: int, first: int = -(2**63)) -> None:
        sql = reader.source.payload_scan if table == "payloads" else _SELECT[table]
        self._batches = reader.source.scan(sql, first, size)
        self._rows: list[tuple[Any, ...]] = []

    def take(self, limit: int) -> list[tuple[Any, ...]]:
        """
        Return some of the next rows whose key is below *limit*; none when all of them were taken.

        Raises:
            JournalError: The table cannot be read.
        """
        rows = self._rows or next(self._batches, [])
        if not rows:
            return rows
        if rows[-1][0] < limit:
            self._rows = []
            return rows
        place = bisect_left(rows, limit, key=_key)
        self._rows = rows[place:]
        return rows[:place]

    def close(self) -> None:
        """Fetch no more: a statement that stays open keeps all that is read with its connection at the file as it was then."""
        self._batches.close()


def shown_run(reader: JournalReader, run: int) -> list[tuple[Any, ...]]:
    """Return what a scan of the view `runs` gives of one run, without the key."""
    return reader.query(f"SELECT {_SHOWN} FROM runs WHERE run = ?", (run,))
