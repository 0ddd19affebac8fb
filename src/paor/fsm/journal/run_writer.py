"""The statements that write a run, within a transaction of whoever calls: as it begins, as it comes from another file, as its texts go."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from msgspec import MsgspecError

from .backend import SqlConnection, stored_row
from .erasure_log import Erasure
from .payloads import Payload, payloads_of, texts_column
from .record import COLUMNS, NO_LABELS, Labels, Row, last_text, row_text
from .rows import ROOT_COLUMNS

INSERT_DOCUMENT = (
    "INSERT INTO documents (id, run, number, label, position, name, mime, bytes, digest, payload)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
ROW_VALUES = ", ".join("?" * 5)
INSERT_ROW = f'INSERT INTO rows (id, "last", "row", hash, texts) VALUES ({ROW_VALUES})'

_INSERT_RUN = (
    f'INSERT INTO specs (run, {", ".join(ROOT_COLUMNS)}, root_hash, "key", metadata, conversation)'
    f" VALUES ({', '.join('?' * (len(ROOT_COLUMNS) + 5))})"
)
_CHANGE = COLUMNS.index("change")
_INSERT_ERASURE = "INSERT INTO erasures VALUES (?, ?, ?, ?, ?, ?, ?, ?)"

NEWEST_ROUND = (
    "SELECT run_id, EXISTS (SELECT 1 FROM transitions WHERE transitions.run = specs.run AND dest IN ('Done', 'Failed')), round"
    " FROM specs WHERE conversation = ? AND round < ? ORDER BY round DESC, run DESC LIMIT 1"
)
"""Statement that returns id, whether it has ended, and round of the newest run of a conversation before a round."""

NO_ROUND = 2**62
"""More than any round's number."""

GONE = "(erased)"
"""What replaces the name and type of a document whose naming payload was erased."""

PLAIN_TYPES = ("text/plain", "application/json")
"""Media types that say nothing about what was there."""


def blanked(payload: Payload) -> Payload:
    """Return a payload without salt and body, and without a media type that would say something of it."""
    plain = payload.media_type in PLAIN_TYPES
    return payload._replace(salt=None, body=None, media_type=payload.media_type if plain else "")


class RunWriter:
    """
    Writes the parts of runs.

    Args:
        connection: In a transaction.
        insert_payloads: Writes payloads of a run through it; see `fsm.journal.backend.Backend.insert_payloads`.
    """

    def __init__(
        self,
        connection: SqlConnection,
        insert_payloads: Callable[[SqlConnection, int, Collection[Payload]], None],
    ) -> None:
        self.connection = connection
        self._insert_payloads = insert_payloads

    # -- what is there -------------------------------------------------------------------------------------------------

    def next_number(self) -> int:
        """Return the number of the next run."""
        sql = "SELECT coalesce(max(run), 0) + 1 FROM specs"
        number: int = self.connection.execute(sql).fetchone()[0]
        return number

    def number_of(self, run_id: str) -> int | None:
        """Return the number of a run, None when it is not here."""
        found = self._one("SELECT run FROM specs WHERE run_id = ?", run_id)
        return found[0] if found is not None else None

    def holder_of(self, key: str, but: str = "") -> str | None:
        """Return the id of the run that has a key, but for the run *but*; None when none has."""
        found = self._one('SELECT run_id FROM specs WHERE "key" = ? AND run_id <> ?', key, but)
        return found[0] if found is not None else None

    def at_place(self, workflow_id: str, round: int, task: int, but: str | None) -> str | None:
        """Return the id of another run at this workflow position (excluding *but*), or None."""
        found = self._one(
            "SELECT run_id FROM specs WHERE workflow_id = ? AND round = ? AND task = ? AND run_id <> ?",
            workflow_id,
            round,
            task,
            but or "",
        )
        return found[0] if found is not None else None

    def hash_of(self, run_id: str, seq: int) -> bytes | None:
        """Return the hash of row *seq* of the run, or None."""
        sql = "SELECT hash FROM specs JOIN rows ON rows.id = (specs.run << 32 | ?) WHERE run_id = ?"
        found = self._one(sql, seq, run_id)
        return found[0] if found is not None else None

    def columns_of_spec(self, run: int, n: int) -> dict[str, Any] | None:
        """Return the columns that never change of the run whose spec is payload *n*, None when that is another payload."""
        sql = f"SELECT {', '.join(ROOT_COLUMNS)} FROM specs WHERE run = ? AND spec_payload = ?"
        found = self._one(sql, run, n)
        return dict(zip(ROOT_COLUMNS, found, strict=True)) if found is not None else None

    def rounds(self, conversation: str, round: int) -> list[tuple[str, str]]:
        """Return run id and workflow of the runs that are one round of a conversation: more than one where a run stands in for another."""
        sql = "SELECT run_id, workflow_id FROM specs WHERE conversation = ? AND round = ?"
        return [(*row,) for row in self.connection.execute(sql, (conversation, round)).fetchall()]

    def newest_round(self, conversation: str) -> tuple[str, bool] | None:
        """Return id and whether it has ended of the newest run of a conversation, None when it has none."""
        found = self._one(NEWEST_ROUND, conversation, NO_ROUND)
        return (found[0], bool(found[1])) if found is not None else None

    # -- a run and its parts -------------------------------------------------------------------------------------------

    def add_run(self, run: int, columns: Mapping[str, Any], root: bytes, labels: Labels) -> None:
        """
        Write a run without anything in it.

        Args:
            run: Its number.
            columns: Those that never change.
            root: Their hash.
            labels: Its key, metadata and conversation.
        """
        values = (columns[name] for name in ROOT_COLUMNS)
        self.connection.execute(_INSERT_RUN, (run, *values, root, *labels))

    def set_spec(self, run: int, columns: Mapping[str, Any], root: bytes) -> None:
        """Write which spec a run has that has no rows, and take out its payloads and documents, which are written anew."""
        sql = "UPDATE specs SET spec = ?, spec_payload = ?, root_hash = ? WHERE run = ?"
        self.connection.execute(sql, (columns["spec"], columns["spec_payload"], root, run))
        for table in ("texts", "documents"):
            sql = f"DELETE FROM {table} WHERE id BETWEEN ? AND ?"
            self.connection.execute(sql, (run << 32, (run + 1 << 32) - 1))

    def add_free_lease(self, run: int) -> None:
        """Write the lease of a run that nobody drives."""
        self.connection.execute("INSERT INTO leases VALUES (?, 1, NULL, NULL, 0)", (run,))

    def add_queued(self, run: int, ready_at: int) -> None:
        """Write that a worker is to take a run up, from a time on; see `fsm.journal.run_queue`."""
        self.connection.execute("INSERT INTO queue VALUES (?, ?, 0, -1, NULL, NULL)", (run, ready_at))

    def set_labels(self, run: int, labels: Labels) -> None:
        """Write key, metadata and conversation of a run."""
        sql = 'UPDATE specs SET "key" = ?, metadata = ?, conversation = ? WHERE run = ?'
        self.connection.execute(sql, (*labels, run))

    def add_row(self, row: Row, payloads: Iterable[Payload]) -> None:
        """
        Write a row with the payloads that it has brought, as far as they are not written already.

        Raises:
            ValueError: One of its columns that are JSON is none.
        """
        run, seq, hash = row[0], row[1], row[-1]
        try:
            last, text = last_text(0, row[_CHANGE]), row_text(row)
        except MsgspecError as error:
            raise ValueError(str(error)) from None
        values, beside = stored_row(run, seq, last, text, hash, payloads)
        self.connection.execute(INSERT_ROW, values)
        self.add_payloads(run, beside)

    def add_payloads(self, run: int, payloads: Collection[Payload]) -> None:
        """Write payloads."""
        self._insert_payloads(self.connection, run, payloads)

    def add_documents(self, run: int, documents: Collection[Sequence[Any]]) -> None:
        """Write documents: number, label and the other columns of `fsm.journal.rows.StoredDocument`."""
        self.connection.executemany(
            INSERT_DOCUMENT, [(run << 32 | document[0], run, *document) for document in documents]
        )

    def add_erasure(self, run: int, record: Erasure) -> None:
        """Write the record of an erasure."""
        self.connection.execute(_INSERT_ERASURE, (run << 32 | record.number, run, *record))

    # -- texts that go -------------------------------------------------------------------------------------------------

    def blank(self, run: int, payloads: Collection[int], documents: Collection[int], *, labels: bool) -> None:
        """
        Set bodies and salts to NULL, and whatever was derived from what they said.

        Args:
            run: The run's number.
            payloads: Their numbers.
            documents: Numbers of the documents whose names go.
            labels: Whether the run's key, metadata and conversation go.
        """
        self.connection.executemany(
            "UPDATE documents SET name = ?, mime = ? WHERE id = ?",
            [(GONE, GONE, run << 32 | number) for number in documents],
        )
        if labels:
            self.set_labels(run, NO_LABELS)
        keys = [run << 32 | n for n in sorted(payloads)]
        self.connection.executemany(
            "UPDATE texts SET body = NULL, salt = NULL,"
            f" media_type = CASE WHEN media_type IN {PLAIN_TYPES} THEN media_type ELSE '' END WHERE id = ?",
            [(key,) for key in keys],
        )
        self._blank_in_rows(keys)
        # in the same transaction: after a crash before the file was written anew it is known that it still has to be
        self.connection.execute("INSERT INTO unscrubbed VALUES (?) ON CONFLICT (run) DO NOTHING", (run,))

    def _blank_in_rows(self, keys: Sequence[int]) -> None:
        """Set salts and bodies to None in the rows that have these texts; *keys* are of one run, in order."""
        at = 0
        while at < len(keys):
            sql = 'SELECT "last", texts FROM rows WHERE "last" >= ? ORDER BY "last" LIMIT 1'
            found = self._one(sql, keys[at])
            if found is None or found[0] >> 32 != keys[at] >> 32:
                return
            key, texts = found
            end = bisect_right(keys, key, at)
            gone = {*keys[at:end]}
            kept: list[
                Payload
            ] = []  # of a row whose texts cannot be read: damage keeps nothing from being erased
            with suppress(TypeError, ValueError):
                kept += (blanked(item) if own in gone else item for own, item in payloads_of(key, texts))
            self.connection.execute('UPDATE rows SET texts = ? WHERE "last" = ?', (texts_column(kept), key))
            at = end

    def _one(self, sql: str, *values: Any) -> tuple[Any, ...] | None:
        found: tuple[Any, ...] | None = self.connection.execute(sql, values).fetchone()
        return found
