"""
The journal as a host uses it: a store with everything that is done with its runs as a whole.

Verifying, erasing, exporting and importing are functions of their own modules, which take a `fsm.journal.store.JournalStore`; this class
gives them their public names and is not imported by any of them. Schema, hash chain and every column are described in
``docs/journal-format.md``; ``docs/verify_journal.py`` checks a file without this package.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ..states.base.errors import JournalBusy
from .journal.erasure_log import Erasure, erasures_of
from .journal.store import JournalStore

if TYPE_CHECKING:
    from sqlite_utils import Database

    from .erasure.execute import ErasureResult, Others
    from .transfer.importer import Imported
    from .transfer.redaction import Redaction
    from .verify.heads import Head


class Journal(JournalStore):
    """
    A journal file, for any number of runs, threads and processes at once.

    Args:
        path: Of the SQLite file; created with the first run. ``:memory:`` keeps it in this process.
        durability: ``full`` survives a power loss (one fsync a transition), ``normal`` a killed process, ``off`` is
            for tests.
        lease_s: Seconds without renewal after which a driver is replaced even if it may still be alive.
        busy_timeout_s: Seconds to wait for another process's write lock.
        read_only: Never write, never create a file.

    Raises:
        NotAJournal: The file is something else, or (read-only) is missing.
        JournalTooNew: Written by a newer paor.
    """

    @property
    def db(self) -> Database:
        """
        The journal as a `sqlite_utils.Database` that can only read, for its tables and the views ``v_runs``, ``v_steps``,
        ``v_actions`` and ``v_usage``: ``journal.db["v_runs"].rows``, ``journal.db.query("SELECT ...")``.

        It has its own connection, so it can read while runs continue; for a journal in memory it is a copy. Do not
        keep it, get it again: for a file that nobody else has open it shows the state at that moment. Writing,
        attaching files and loading extensions raise `sqlite3.DatabaseError`. Closed with the journal.
        """
        return self._database.get()

    def verify(self, heads: Sequence[Head] = ()) -> list[Any]:
        """
        Return every defect of the file: of its chain, payloads and derived columns.

        Args:
            heads: What `heads` returned earlier, kept elsewhere. A truncated, missing or rebuilt run is then a
                defect, too; new runs, and runs that have grown, are not.
        """
        from .verify.verify import verify_journal

        for _ in range(3):
            with suppress(JournalBusy), self.snapshot() as still:
                return verify_journal(still, heads)
        raise JournalBusy(f"{self.path}: was written again and again while it was read; verify it later")

    def heads(self) -> list[Head]:
        """Return where every run ends now, so that `verify` can compare it later; see `fsm.verify.heads`."""
        from .verify.heads import heads_of

        return heads_of(self)

    def erasures(self, run_id: str) -> list[Erasure]:
        """
        Return the records of a run's erasures, oldest first.

        Args:
            run_id: Its id, or a prefix of at least 4 characters that fits only one.
        """
        return erasures_of(self, self.run(run_id).run)

    def erase(
        self,
        run_id: str,
        *,
        documents: Iterable[str | int] = (),
        payloads: Iterable[int] = (),
        others: Others = "refuse",
        reason: str | None = None,
        force: bool = False,
        dry_run: bool = False,
        at: int | None = None,
    ) -> ErasureResult:
        """
        Erase texts of a run; the rest still verifies. Without documents and payloads, erase all of them.

        Args:
            run_id: The run, or a prefix of its id.
            documents: Labels, ``LABEL#POSITION`` or numbers: their bodies, everything that contains an excerpt of
                them, and results that calls derived from them.
            payloads: Numbers of single payloads.
            others: What to do if other runs contain the same text: ``refuse`` erases nothing and names them in an
                error, ``erase`` erases it there, too, ``keep`` leaves it and names them in the result.
            reason: A code to record, such as a ticket number; not a sentence.
            force: Erase even if the run has not ended; it cannot be resumed afterwards.
            dry_run: Erase nothing, only tell what would be.
            at: Microseconds since the epoch, for the record; default now.

        Returns:
            The number of erased payloads by run, and the runs that still contain the text.

        Raises:
            UnknownRun: There is no such run.
            UsageError: Something that cannot be erased, or a choice that is missing; nothing was erased.
            LeaseHeld: The run has a driver; nothing was erased.
            JournalBusy: The texts are erased and the erasure is recorded, but other processes have the file open,
                and it still contains old copies; call `finish_erasing` when they have closed it.
        """
        from .erasure.execute import erase

        return erase(
            self,
            run_id,
            documents=documents,
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
        from .erasure.execute import finish

        return finish(self)

    def export(
        self, run_id: str, *, redact: Redaction | Mapping[str, str] | bool | None = None
    ) -> Iterator[dict[str, Any]]:
        """
        Yield a run as JSON-able lines, the same for the same run (see `fsm.transfer.export`).

        Args:
            run_id: The run, or a prefix of its id.
            redact: True: payloads with keys, tokens and passwords are exported as erased (`fsm.transfer.redaction`); a mapping
                of names to regular expressions adds rules; None: everything is exported as it is.

        Raises:
            UsageError: Rules that cannot be used.
        """
        from .transfer.export import export_runs
        from .transfer.redaction import redaction_of

        return export_runs(self, [run_id], redaction_of(redact))

    def import_lines(self, lines: Iterable[bytes]) -> tuple[Imported, ...]:
        """
        Import the lines of `export` or ``paor export``, completely or not at all; a known run is kept, or extended.

        Args:
            lines: Of one or more exports, as bytes; a file opened for reading bytes will do.

        Returns:
            What was done with each run, in the order of the lines.

        Raises:
            UsageError: An invalid line, with its number, or a version that this paor does not know.
            JournalDamaged: A hash, a digest or a reference in the lines is wrong.
            JournalConflict: The file has the run with other rows.
            LeaseHeld: A run that would be extended has a driver.
        """
        from .transfer.importer import import_lines

        return import_lines(self, lines)
