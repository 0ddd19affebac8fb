"""
The journal: one SQLite file in which every transition of every run stands before anything else happens.

Schema, hash chain and every column are described in ``docs/journal-format.md``; ``docs/verify_journal.py`` checks a
file without this package.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from ..states.actions import DocumentRef, StoredText
from ..states.errors import JournalBusy, LeaseHeld, UsageError
from ..states.spec import Spec
from .committer import INSERT_DOCUMENT, INSERT_PAYLOAD, Committer, Entry
from .journal_db import DatabaseOfJournal
from .journal_file import SYNCHRONOUS, Durability, open_reader, open_writer
from .journal_reading import JournalReader
from .journal_rows import RunRow, StoredDocument, Transition, document_row
from .lease_book import LEASE_S, LeaseBook
from .payloads import Payload
from .record import root_hash

if TYPE_CHECKING:
    from sqlite_utils import Database

    from .erase import ErasureResult, Others
    from .heads import Head
    from .importing import Imported
    from .redaction import Redaction

__all__ = ["Journal", "RunRow", "StoredDocument", "Transition"]


class Journal(JournalReader):
    """
    A journal file, for any number of runs, threads and processes at once.

    Args:
        path: Of the SQLite file; created with the first run. ``:memory:`` keeps it in this process.
        durability: ``full`` survives a power loss (one fsync a transition), ``normal`` a killed process, ``off`` is
            for tests.
        lease_s: Seconds after which an owner that cannot be proven dead is replaced.
        busy_timeout_s: Seconds to wait for another process's write lock.
        read_only: Never write, never create a file.

    Raises:
        NotAJournal: The file is something else, or (read-only) is missing.
        JournalTooNew: Written by a newer paor.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        durability: Durability = "full",
        *,
        lease_s: float = LEASE_S,
        busy_timeout_s: float = 30.0,
        read_only: bool = False,
    ) -> None:
        if durability not in SYNCHRONOUS:
            raise UsageError(f"durability {durability!r}: expected one of {', '.join(SYNCHRONOUS)}")
        try:
            path = os.fsdecode(path)
        except TypeError:
            raise UsageError(f"a journal is named by its path, not by {path!a:.80}") from None
        if "\0" in path:
            raise UsageError(f"{path!r}: is not a file name")
        lease_s = _seconds("lease_s", lease_s, least=0.001)
        busy_timeout_s = _seconds("busy_timeout_s", busy_timeout_s, least=0)
        self.durability: Durability = durability
        self.read_only = read_only
        standing = None
        if read_only:
            connection, standing = open_reader(path, busy_timeout_s=busy_timeout_s)
        else:
            connection = open_writer(path, durability=durability, busy_timeout_s=busy_timeout_s)
        super().__init__(Committer(connection, path), path, standing=standing, busy_timeout_s=busy_timeout_s)
        self.leases = LeaseBook(self._committer, path, lease_s)
        self._database = DatabaseOfJournal(self._committer, path, self.place, busy_timeout_s=busy_timeout_s)
        self._open = True

    @property
    def db(self) -> Database:
        """
        The journal as a `sqlite_utils.Database` that can only read, for its tables and the views ``v_runs``, ``v_steps``,
        ``v_actions`` and ``v_usage``: ``journal.db["v_runs"].rows``, ``journal.db.query("SELECT ...")``.

        It has a connection of its own, so it reads beside runs that go on; of a journal in memory it is a copy. Ask for
        it anew instead of keeping it: of a file that nobody has open it shows the state at that moment. Writing,
        attaching files and loading extensions raise `sqlite3.DatabaseError`. Closed with the journal.
        """
        return self._database.get()

    def verify(self, heads: Sequence[Head] = ()) -> list[Any]:
        """
        Return every defect of the file, empty when chain, payloads and derived columns hold.

        Args:
            heads: What `heads` returned earlier, kept elsewhere: a cut end, a missing run and one that was made anew
                are defects then too. Runs that have grown since, and new ones, are none.
        """
        from .verify import verify_journal

        for _ in range(3):
            with suppress(JournalBusy), self.snapshot() as still:
                return verify_journal(still, heads)
        raise JournalBusy(f"{self.path}: was written again and again while it was read; verify it later")

    def heads(self) -> list[Head]:
        """Return where every run ends now, for `verify` to be held against later; see `fsm.heads`."""
        from .heads import heads_of

        return heads_of(self)

    def erase(
        self,
        run_id: str,
        *,
        documents: Iterable[str | int] = (),
        fields: Iterable[str] = (),
        payloads: Iterable[int] = (),
        others: Others = "refuse",
        reason: str | None = None,
        force: bool = False,
        dry_run: bool = False,
        at: int | None = None,
    ) -> ErasureResult:
        """
        Erase texts of a run; everything that is left still verifies. Without documents, fields and payloads, all of it.

        Args:
            run_id: The run, or a prefix of its id.
            documents: Labels, ``LABEL#POSITION`` or numbers: their bodies, everything in which an excerpt of them
                stands, and what calls have made of them.
            fields: Names from `fsm.erasing.FIELDS`: what belongs to them, and everything in which an excerpt stands.
            payloads: Numbers of single payloads.
            others: When other runs hold text of it too: ``refuse`` names them and erases nothing, ``erase`` erases
                there too, ``keep`` leaves them and names them in the result.
            reason: A code that is recorded with it, such as a ticket's number; never a sentence.
            force: Also of a run that has not ended; it cannot be resumed then.
            dry_run: Erase nothing, only tell what would be.
            at: Microseconds since the epoch, for the record; default now.

        Returns:
            How many payloads were erased, by run, and who holds text of it still.

        Raises:
            UnknownRun: There is none.
            UsageError: Something that cannot be erased, or a choice that is missing; nothing was erased.
            LeaseHeld: Somebody drives the run; nothing was erased.
            JournalBusy: It is erased and recorded, but others have the file open, and old copies still stand in it:
                `finish_erasing` when they have closed it.
        """
        from .erase import erase

        return erase(
            self,
            run_id,
            documents=documents,
            fields=fields,
            payloads=payloads,
            others=others,
            reason=reason,
            force=force,
            dry_run=dry_run,
            at=at,
        )

    def finish_erasing(self) -> bool:
        """
        Remove old copies that an interrupted erasure has left in the file; return whether there was one.

        Raises:
            JournalBusy: Others have the file open.
        """
        from .erase import finish

        return finish(self)

    def export(
        self, run_id: str, *, redact: Redaction | Mapping[str, str] | bool | None = None
    ) -> Iterator[dict[str, Any]]:
        """
        Yield a run as JSON-able lines, the same for the same run (see `fsm.export`).

        Args:
            run_id: The run, or a prefix of its id.
            redact: True: payloads with keys, tokens and passwords are exported as erased (`fsm.redaction`); a mapping
                of names to regular expressions adds rules; None: everything is exported as it is.

        Raises:
            UsageError: Rules that cannot be used.
        """
        from .export import export_runs
        from .redaction import redaction_of

        return export_runs(self, [run_id], redaction_of(redact))

    def import_lines(self, lines: Iterable[bytes]) -> tuple[Imported, ...]:
        """
        Take in what `export` or ``paor export`` gave, all of it or nothing; a run that is here already stays as it is.

        Args:
            lines: Of one or more exports, as bytes; a file opened for reading bytes will do.

        Returns:
            What became of every run, in the order of the lines.

        Raises:
            UsageError: A line that is none, with its number, or a version that this paor does not know.
            JournalDamaged: The lines do not prove themselves: a hash, a digest or a reference does not hold.
            JournalConflict: A run here tells something else than the one that comes in.
            LeaseHeld: A run that would be extended is being driven.
        """
        from .importing import import_lines

        return import_lines(self, lines)

    def close(self) -> None:
        """Release what this process holds and close the file; idempotent."""
        if not self._open:
            return
        self._open = False
        self.leases.close()
        self._database.close()
        with self._committer.lock:
            self._committer.connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def create(
        self,
        run_id: str,
        spec: Spec,
        *,
        created_at: int,
        place: StoredText,
        payloads: list[Payload],
        documents: tuple[DocumentRef, ...],
        parent: tuple[str, int] | None = None,
        before: bytes = b"",
    ) -> tuple[int, bytes, int]:
        """
        Write a new run without transitions and take its lease.

        Args:
            run_id: Public id, new in this file.
            spec: What it is started with, already staged at *place*.
            created_at: Microseconds since the epoch.
            place: Reference of the spec's payload.
            payloads: Everything staged so far: documents and spec.
            documents: Input documents.
            parent: Of a fork: id of the run under which the last shared row stands, and its seq.
            before: Of a fork: hash of that row.

        Returns:
            The run's number, the hash that its first row follows, and the fencing token.

        Raises:
            LeaseHeld: Another driver has started the same round or task of a workflow.
        """
        columns = {
            "run_id": run_id,
            "workflow_id": spec.workflow_id or run_id,
            "round": spec.round,
            "task": spec.task,
            "parent_run_id": parent[0] if parent else None,
            "parent_seq": parent[1] if parent else None,
            "spec": place.digest,
            "spec_payload": place.n,
            "created_at": created_at,
        }
        root = root_hash(columns, before)
        with self.leases.taking() as connection:
            if parent is None and columns["workflow_id"] != run_id:
                self._check_place(connection, spec)
            run = connection.execute("SELECT coalesce(max(run), 0) + 1 FROM specs").fetchone()[0]
            connection.execute(
                f"INSERT INTO specs (run, {', '.join(columns)}, root_hash) VALUES (?, {', '.join('?' * 9)}, ?)",
                (run, *columns.values(), root),
            )
            fence = self.leases.first(connection, run)
            for payload in payloads:
                connection.execute(INSERT_PAYLOAD, (run << 32 | payload.n, run, *payload))
            for document in documents:
                connection.execute(INSERT_DOCUMENT, document_row(run, document))
        self.leases.hold(run, fence)
        return run, root, fence

    def _check_place(self, connection: sqlite3.Connection, spec: Spec) -> None:
        """
        See to it that no place in a workflow is taken twice, whoever else starts rounds and tasks of it.

        Raises:
            LeaseHeld: Another driver has started this one.
        """
        found = connection.execute(
            "SELECT run_id FROM specs WHERE workflow_id = ? AND round = ? AND task = ? AND run_id IS NOT ?",
            (spec.workflow_id, spec.round, spec.task, spec.fallback_for),
        ).fetchone()
        if found is not None:
            place = f"round {spec.round}, task {spec.task} of workflow {spec.workflow_id}"
            raise LeaseHeld(f"{place} has been started by another driver as run {found[0]}")

    def append(self, entry: Entry) -> None:
        """Commit one transition; see `fsm.committer.Committer.append`."""
        self._committer.append(entry)

    def append_all(self, entries: list[Entry]) -> None:
        """Commit transitions of different runs together; each entry tells its own error."""
        self._committer.append_all(entries)


def _seconds(name: str, value: float, *, least: float) -> float:
    """
    Return a time that a journal is opened with.

    Raises:
        UsageError: It is no number from *least* to a year; a lease that has run out at once would let two drivers in.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= 31_536_000:
        raise UsageError(f"{name}: expected seconds from {least} to a year, not {value!a:.80}")
    return value
