"""The statements that write a run, within a transaction of whoever calls: as it begins, as it comes from another file, as its texts go."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from .backend import SqlConnection
from .erasure_log import Erasure
from .payloads import Payload
from .record import COLUMNS, NO_LABELS, Labels, Row
from .rows import ROOT_COLUMNS

INSERT_DOCUMENT = (
    "INSERT INTO documents (id, run, number, label, position, name, mime, bytes, digest, payload)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
ROW_VALUES = ", ".join("?" * (len(COLUMNS) + 1))
INSERT_ROW = f"INSERT INTO transitions VALUES ({ROW_VALUES})"

_INSERT_RUN = (
    f'INSERT INTO specs (run, {", ".join(ROOT_COLUMNS)}, root_hash, "key", metadata, conversation)'
    f" VALUES ({', '.join('?' * (len(ROOT_COLUMNS) + 5))})"
)
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
        sql = "SELECT hash FROM transitions JOIN specs ON specs.run = transitions.run WHERE run_id = ? AND seq = ?"
        found = self._one(sql, run_id, seq)
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
        for table in ("payloads", "documents"):
            self.connection.execute(f"DELETE FROM {table} WHERE run = ?", (run,))

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

    def add_rows(self, rows: Collection[Row]) -> None:
        """Write rows, each with its run's number first."""
        self.connection.executemany(INSERT_ROW, [(row[0] << 32 | row[1], *row) for row in rows])

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
        self.connection.executemany(
            "UPDATE payloads SET body = NULL, salt = NULL,"
            f" media_type = CASE WHEN media_type IN {PLAIN_TYPES} THEN media_type ELSE '' END WHERE id = ?",
            [(run << 32 | n,) for n in sorted(payloads)],
        )
        # in the same transaction: after a crash before the file was written anew it is known that it still has to be
        self.connection.execute("INSERT INTO unscrubbed VALUES (?) ON CONFLICT (run) DO NOTHING", (run,))

    def _one(self, sql: str, *values: Any) -> tuple[Any, ...] | None:
        found: tuple[Any, ...] | None = self.connection.execute(sql, values).fetchone()
        return found
