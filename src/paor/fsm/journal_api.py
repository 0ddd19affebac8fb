"""
The journal as a host uses it: it holds a `fsm.journal.store.JournalStore` and gives public names to what is done with one.

Verifying, erasing, exporting and importing are functions of their own modules. None of them knows this class: what writes is given
`Journal.store`, what only reads `Journal.reader`; public functions that a host gives a journal ask `fsm.journal.reader.reader_of`.
Schema, hash chain and every column are described in ``docs/journal-format.md``; ``docs/verify_journal.py`` checks a file without this
package.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self

from ..states.base.errors import JournalBusy, UsageError
from ..states.run.labels import conversation_of, key_of, name_of, value_text
from ..states.run.phase_names import PHASES
from ..states.run.spec import Spec
from .explain.calls import RunCall, calls_of
from .journal.backend import Backend, Durability
from .journal.erasure_log import Erasure
from .journal.leases import LEASE_S
from .journal.payloads import Payload
from .journal.places.opening import open_store
from .journal.reader import JournalReader
from .journal.rows import RunRow, StoredDocument, Transition

if TYPE_CHECKING:
    from sqlite_utils import Database

    from .explain.conversations import Conversation
    from .transfer.erasure import ErasureResult, Others
    from .transfer.importer import Imported
    from .transfer.redaction import Redaction
    from .verify.heads import Head

STATUSES = ("running", "waiting", "done", "failed")
"""What the status of a run can be."""


class Journal:
    """
    A journal, for any number of runs, threads and processes at once.

    Args:
        path: Of the SQLite file; created with the first run. ``:memory:`` keeps it in this process. Or the address of a
            schema in PostgreSQL, ``postgresql://USER@HOST/DATABASE?schema=NAME``, for any number of machines. Or a backend of
            the host's own (`paor.fsm.journal.backend.Backend`).
        durability: ``full`` survives a power loss (one fsync a transition), ``normal`` a killed process, ``off`` is
            for tests. In PostgreSQL ``normal`` survives a killed process of the host, and of the server's at most the last
            second may be lost.
        lease_s: Seconds without renewal after which a driver is replaced even if it may still be alive.
        busy_timeout_s: Seconds to wait for another process's write lock, and for a server that cannot be reached.
        read_only: Never write, never create a file.

    Raises:
        NotAJournal: The file is something else, or (read-only) is missing.
        JournalTooNew: Written by a newer paor.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | Backend,
        durability: Durability = "full",
        *,
        lease_s: float = LEASE_S,
        busy_timeout_s: float = 30.0,
        read_only: bool = False,
    ) -> None:
        self.store = open_store(
            path, durability, lease_s=lease_s, busy_timeout_s=busy_timeout_s, read_only=read_only
        )

    @property
    def reader(self) -> JournalReader:
        """What reads the file."""
        return self.store.reader

    @property
    def path(self) -> str:
        """Path of the file, as it was given."""
        return self.store.path

    def close(self) -> None:
        """Release what this process holds and close the file; idempotent."""
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def snapshot(self) -> AbstractContextManager[JournalReader]:
        """
        Give a reader that shows one snapshot of this file, whatever is written meanwhile.

        Raises:
            JournalBusy: From its methods: no process had the file open, and then one wrote to it.
        """
        return self.reader.snapshot()

    def runs(
        self,
        *,
        status: str | None = None,
        state: str | None = None,
        key: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        conversation: str | None = None,
        since: datetime | int | None = None,
        limit: int | None = None,
    ) -> list[RunRow]:
        """
        Return the runs that all of these hold for, newest first; without any, every run.

        Args:
            status: ``running``, ``waiting``, ``done`` or ``failed``. A run is ``running`` from its start on, whether or not
                anybody drives it (`RunRow.driver`).
            state: A phase, such as ``Executing``, or ``Done`` or ``Failed``.
            key: The key that it was started with.
            metadata: Names and values that are all among those that it was started with; values are compared as JSON.
            conversation: Id of the conversation of which they are rounds.
            since: Started then or later: a `datetime`, or microseconds since the epoch. One without a time zone is local.
            limit: Only the newest so many.

        Raises:
            UsageError: A value that no run can have.
        """
        if status is not None and status not in STATUSES:
            raise UsageError(f"status {status!a:.60}: expected one of {', '.join(STATUSES)}")
        if state is not None and state not in PHASES:
            raise UsageError(f"state {state!a:.60}: expected one of {', '.join(PHASES)}")
        _check_limit(limit)
        if not isinstance(metadata, Mapping | None):
            raise UsageError("metadata must be a mapping of names to values, such as {'tenant': 'acme'}")
        rows = self.reader.runs(
            status=status,
            state=state,
            key=key_of(key),
            metadata={name_of(name): [value_text(name, value)] for name, value in (metadata or {}).items()},
            conversation=conversation_of(conversation) or None,
            since=_microseconds(since),
            limit=limit,
        )
        drivers = self.store.leases.drivers([row.run for row in rows if row.ended_at is None])
        rows = [row._replace(driver=drivers[row.run]) if row.run in drivers else row for row in rows]
        return self.reader.with_objectives(rows)

    def conversation(self, id: str) -> Conversation:
        """
        Return a conversation: its rounds, what was said, and what it has used.

        Args:
            id: As ``run(conversation=...)`` was given it.

        Raises:
            UnknownConversation: No run is a round of it.
        """
        from .explain.conversations import conversation_named

        return conversation_named(self.reader, id)

    def conversations(
        self,
        *,
        status: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        since: datetime | int | None = None,
        limit: int | None = None,
    ) -> list[Conversation]:
        """
        Return the conversations with a round for which all of these hold, the one with the newest such round first.

        Args:
            status, metadata, since: See `runs`.
            limit: Only so many.

        Raises:
            UsageError: A value that no run can have.
        """
        from .explain.conversations import conversations_of

        _check_limit(limit)
        rows = self.runs(status=status, metadata=metadata, since=since)
        return conversations_of(self.reader, rows, limit)

    def run(self, run_id: str) -> RunRow:
        """
        Return one run.

        Args:
            run_id: Its id, or a prefix of at least 4 characters that fits only one.

        Raises:
            UnknownRun: There is none, or several start like this.
        """
        row = self.reader.run(run_id)
        driver = self.store.leases.drivers([row.run]).get(row.run)
        if driver is None and row.status == "running":
            # its end may have been written before the lease was looked at
            row = self.reader.run(row.run_id)
        row = row._replace(driver=driver)
        return self.reader.with_objectives([row])[0]

    def transitions(self, run_id: str) -> list[Transition]:
        """
        Return the rows of a run in order; of a fork the shared ones first, each with the number of the run that it belongs to.

        Args:
            run_id: Its id, or a prefix of at least 4 characters that fits only one.

        Raises:
            UnknownRun: There is no such run.
            JournalDamaged: A row cannot be read.
        """
        return self.reader.transitions(run_id)

    def calls(self, run_id: str) -> list[RunCall]:
        """
        Return the calls of a run in order, the refused ones too, each with who decided about it.

        Args:
            run_id: Its id, or a prefix of at least 4 characters that fits only one.

        Raises:
            UnknownRun: There is no such run.
            JournalDamaged: A row cannot be read.
        """
        return calls_of(self, run_id)

    def documents(self, run_id: str) -> list[StoredDocument]:
        """
        Return the documents of a run, oldest first.

        Args:
            run_id: Its id, or a prefix of at least 4 characters that fits only one.
        """
        return self.reader.documents(run_id)

    def document(self, run_id: str, number: int) -> str | bytes | None:
        """
        Return the body of one document, None once erased.

        Args:
            run_id: Its id, or a prefix of at least 4 characters that fits only one.
            number: The document's number within the run, from 0.

        Raises:
            UnknownRun: There is no such run, or it has no such document.
        """
        return self.reader.document(run_id, number)

    def spec(self, run_id: str) -> Spec:
        """
        Return what a run was started with.

        Args:
            run_id: Its id, or a prefix of at least 4 characters that fits only one.

        Raises:
            UnknownRun: There is no such run.
            Erased: What it was started with has been erased.
            JournalDamaged: It was changed.
        """
        return self.reader.spec(run_id)

    def payload(self, run: int, n: int) -> Payload:
        """
        Return one payload.

        Args:
            run: Number of the run within this file, `RunRow.run`.
            n: Number of the payload within the run, as ``request``, ``outcome`` and ``change`` of a row have it.

        Raises:
            JournalDamaged: There is none.
        """
        return self.reader.payload(run, n)

    def intact(self, run: int, n: int, digest: str | None = None) -> str | bytes | None:
        """
        Return the checked body of a payload, None once erased.

        Args:
            run: Number of the run within this file, `RunRow.run`.
            n: Number of the payload within the run.
            digest: The digest in hex with which a row of the chain refers to it, if known.

        Raises:
            JournalDamaged: It is missing, or was changed.
        """
        return self.reader.intact(run, n, digest)

    @property
    def db(self) -> Database:
        """
        The journal as a `sqlite_utils.Database` that can only read, for its tables and the views ``v_runs``, ``v_steps``,
        ``v_actions``, ``v_calls`` and ``v_usage``: ``journal.db["v_runs"].rows``, ``journal.db.query("SELECT ...")``.

        It has its own connection, so it can read while runs continue; for a journal in memory it is a copy. Do not
        keep it, get it again: for a file that nobody else has open it shows the state at that moment. Writing,
        attaching files and loading extensions raise `sqlite3.DatabaseError`. Closed with the journal.
        """
        database: Database = self.store.backend.database()
        return database

    def verify(self, heads: Sequence[Head] = (), *, unchecked: list[Any] | None = None) -> list[Any]:
        """
        Return every defect of the file: of its chain, payloads and derived columns.

        Args:
            heads: What `heads` returned earlier, kept elsewhere. A truncated, missing or rebuilt run is then a
                defect, too; new runs, and runs that have grown, are not.
            unchecked: Gets what is no defect but could not be checked: rows of a machine of its host's own, once the spec that
                records that machine was erased.
        """
        from .verify.verify import verify_journal

        for _ in range(3):
            with suppress(JournalBusy), self.reader.snapshot() as still:
                told: list[Any] = []
                defects = verify_journal(still, heads, told)
                if unchecked is not None:
                    unchecked.extend(told)
                return defects
        raise JournalBusy(f"{self.path}: was written again and again while it was read; verify it later")

    def heads(self) -> list[Head]:
        """Return where every run ends now, so that `verify` can compare it later; see `fsm.verify.heads`."""
        from .verify.heads import heads_of

        return heads_of(self.reader)

    def erasures(self, run_id: str) -> list[Erasure]:
        """
        Return the records of a run's erasures, oldest first.

        Args:
            run_id: Its id, or a prefix of at least 4 characters that fits only one.
        """
        return self.reader.erasures(self.run(run_id).run)

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
        from .transfer.erasure import erase

        return erase(
            self.store,
            run_id,
            documents=documents,
            payloads=payloads,
            others=others,
            reason=reason,
            force=force,
            dry_run=dry_run,
            at=at,
        )

    def erase_conversation(
        self,
        id: str,
        *,
        others: Others = "refuse",
        reason: str | None = None,
        force: bool = False,
        dry_run: bool = False,
    ) -> list[ErasureResult]:
        """
        Erase all texts of every round of a conversation, newest first; see `erase`.

        Args:
            id: The conversation.
            others: What to do if runs outside of it are told of a round, such as a conversation that branches off.
            reason, force, dry_run: As for `erase`.

        Returns:
            What was done with each round.

        Raises:
            UnknownConversation: There is none.
            UsageError, LeaseHeld, JournalBusy: See `erase`; rounds that come before the one that raises are erased.
        """
        rounds = [row.run_id for row in reversed(self.conversation(id).runs)]
        own = set(self.reader.index.of_conversation(id))
        if others == "refuse":
            found = [self.erase(run_id, dry_run=True) for run_id in rounds]
            told = dict.fromkeys(run_id for one in found for run_id in one.kept if run_id not in own)
            if told:
                raise UsageError(
                    f"conversation {id!a:.60}: nothing was erased, since other runs are told of it: {', '.join(list(told)[:5])};"
                    " choose whether to erase there too or to keep those (--others erase, --others keep)"
                )
            others = "erase"
        return [
            self.erase(run_id, others=others, reason=reason, force=force, dry_run=dry_run)
            for run_id in rounds
        ]

    def erase_older_than(
        self,
        age_s: float,
        *,
        others: Others = "keep",
        reason: str | None = None,
        dry_run: bool = False,
        at: int | None = None,
    ) -> list[ErasureResult]:
        """
        Erase all texts of every run that ended longer ago than *age_s*; a run that has not ended stays.

        Args:
            age_s: In seconds.
            others: What to do in younger runs that hold text of one: ``keep`` leaves it there and names them in the result.
            reason, dry_run: As for `erase`.
            at: Microseconds since the epoch from which the age is counted; default now.

        Returns:
            What was done with each run of which something was left.

        Raises:
            UsageError: An age that is none.
            LeaseHeld, JournalBusy: See `erase`.
        """
        from .journal.leases import now_us
        from .transfer.erasure import erase_ended_before

        if not isinstance(age_s, int | float) or isinstance(age_s, bool) or not 0 <= age_s < 1e10:
            raise UsageError(f"age_s {age_s!a:.40}: expected seconds from 0")
        before = (now_us() if at is None else at) - round(age_s * 1e6)
        return erase_ended_before(self.store, before, others=others, reason=reason, dry_run=dry_run)

    def finish_erasing(self) -> bool:
        """
        Remove old copies that an interrupted erasure has left in the file; return whether there was one.

        Raises:
            JournalBusy: Others have the file open.
        """
        return self.store.scrub()

    def export(
        self,
        run_id: str | None = None,
        *,
        conversation: str | None = None,
        redact: Redaction | Mapping[str, str] | bool | None = None,
    ) -> Iterator[dict[str, Any]]:
        """
        Yield a run as JSON-able lines, the same for the same run (see `fsm.transfer.export`).

        Args:
            run_id: The run, or a prefix of its id.
            conversation: Instead: all rounds of this conversation, oldest first.
            redact: True: payloads with keys, tokens and passwords are exported as erased (`fsm.transfer.redaction`); a mapping
                of names to regular expressions adds rules; None: everything is exported as it is.

        Raises:
            UsageError: Rules that cannot be used.
        """
        from .transfer.export import export_runs
        from .transfer.redaction import redaction_of

        return export_runs(self.reader, self._named(run_id, conversation), redaction_of(redact))

    def _named(self, run_id: str | None, conversation: str | None) -> list[str]:
        """Return the run that is named, or all of a conversation."""
        if (run_id is None) is (conversation is None):
            raise UsageError("name a run, or a conversation: one of them")
        if run_id is not None:
            return [run_id]
        self.conversation(conversation or "")
        return self.reader.index.of_conversation(conversation or "")

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

        return import_lines(self.store, lines)


def _check_limit(limit: object) -> None:
    if limit is not None and (type(limit) is not int or not 0 < limit < 2**63):
        raise UsageError(f"limit {limit!a:.60}: expected a whole number from 1")


def _microseconds(since: datetime | int | None) -> int | None:
    """Return a time as the journal has it; raise `UsageError` for what is none."""
    try:
        found = round(since.timestamp() * 1e6) if isinstance(since, datetime) else since
    except (OverflowError, ValueError, OSError):
        found = -(2**63)
    if found is None or (type(found) is int and abs(found) < 2**53):
        return found
    raise UsageError(
        f"since {since!a:.60}: expected a datetime, or microseconds since 1970 as a whole number"
    )
