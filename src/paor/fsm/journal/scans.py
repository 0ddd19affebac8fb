"""Reading a whole table in bulk: in order of its key, a bounded number of rows in memory, no statement a run."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Generator, Iterator
from contextlib import closing
from heapq import merge
from itertools import chain, islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal

from .payloads import encode_text, payload_of_text, payloads_of
from .rows import ROOT_COLUMNS

if TYPE_CHECKING:
    from .backend import JournalSource
    from .reader import JournalReader

Table = Literal["specs", "rows", "payloads", "documents", "erasures", "runs"]

_SHOWN = "state, status, reason, ended_at, head_seq, head_hash"

_TEXTS = 'SELECT "last", texts FROM rows WHERE "last" >= ? ORDER BY "last"'

_SELECT: dict[str, str] = {
    "specs": f'SELECT run, root_hash, "key", metadata, conversation, {", ".join(ROOT_COLUMNS)} FROM specs WHERE run >= ? ORDER BY run',
    "rows": 'SELECT id, "last", "row", hash FROM rows WHERE id >= ? ORDER BY id',
    "documents": "SELECT id, label, position, name, mime, bytes, digest, payload FROM documents WHERE id >= ? ORDER BY id",
    "erasures": "SELECT id, number, at, rule, payloads, reason, hash FROM erasures WHERE id >= ? ORDER BY id",
    "runs": f"SELECT run, {_SHOWN} FROM runs WHERE run >= ? ORDER BY run",
}

_key = itemgetter(0)


class Scan:
    """
    The rows of one table, handed out up to a key at a time.

    Each begins with its key: of `specs` and `runs` the run's number, of the others that << 32 | the number within the run. A row of
    `rows` has the key of its last text, its text and its hash; a payload its digest, its salt, ``T`` or ``B`` with the media type as bytes
    (``?`` for one that cannot be read), and the body as bytes. The digest of one that is with its row is empty, since it follows.

    Args:
        reader: A snapshot of the journal.
        table: Which.
        size: Rows that are fetched together.
        first: The lowest key that is wanted.
    """

    def __init__(self, reader: JournalReader, table: Table, size: int, first: int = -(2**63)) -> None:
        if table == "payloads":
            self._batches = _payloads(reader.source, size, first)
        else:
            self._batches = reader.source.scan(_SELECT[table], first, size)
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


def _payloads(source: JournalSource, size: int, first: int) -> Generator[list[tuple[Any, ...]], None, None]:
    """Yield payloads in bulk: those of rows, and those of the table `texts`, by their keys."""
    with (
        closing(source.scan(source.text_scan, first, size)) as beside,
        closing(source.scan(_TEXTS, first, size)) as of_rows,
    ):
        batches = (map(_of_table, rows) for rows in beside), (_of_rows(rows) for rows in of_rows)
        merged = merge(*map(chain.from_iterable, batches), key=_key)
        while some := list(islice(merged, size)):
            yield some


def _of_table(row: tuple[Any, ...]) -> tuple[Any, ...]:
    key, digest, salt, kind, body = row
    try:
        _, _, digest, salt, _ = payload_of_text(key, "", digest, salt, None)
        return key, digest, salt, kind, body
    except (TypeError, ValueError):
        return _unread(key)


def _of_rows(rows: list[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    for last, texts in rows:
        try:
            yield from [
                (
                    key,
                    digest,
                    salt,
                    b"-" if body is None else f"T{media_type}".encode(),
                    None if body is None else encode_text(body),
                )
                for key, (_, media_type, digest, salt, body) in payloads_of(last, texts, hashed=False)
            ]
        except (TypeError, ValueError):
            yield _unread(last)


def _unread(key: int) -> tuple[Any, ...]:
    return key, b"", b"", b"?", b""


def shown_run(reader: JournalReader, run: int) -> list[tuple[Any, ...]]:
    """Return what a scan of the view `runs` gives of one run, without the key."""
    return reader.query(f"SELECT {_SHOWN} FROM runs WHERE run = ?", (run,))
