"""
What a database does to hold a journal: the one seam between paor and a database.

Statements stand above it, once, in the SQL that SQLite and PostgreSQL share, with ``?`` for a value. Below it stands what differs:
transactions, appending, the bodies of payloads, bulk reading, noticing changes, a database's own checks.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal, Protocol, get_args, runtime_checkable

from msgspec import Struct

from .payloads import Payload, is_inline, texts_column

Durability = Literal["full", "normal", "off"]
"""What a commit survives: a power loss, a process that is killed, nothing."""

DURABILITIES: tuple[str, ...] = get_args(Durability)

Values = tuple[Any, ...]
"""Of one row, or of the places of a statement."""

Problem = tuple[str, str]
"""Place and problem."""


class Entry(Struct, eq=False):
    """
    Everything that one transition writes, in one transaction.

    Attributes:
        run, seq: Numbers of the run and of the row.
        text: The row, as it is stored and hashed (`fsm.journal.record.row_text`).
        hash: Of the chain, 32 bytes.
        payloads: New payloads that it refers to, its change last.
        documents: Rows of `documents`, without key and run.
        before: The row before, where that has not been written yet; it is written with this one, or neither is.
        fence: The driver's token; a wrong one writes nothing.
        cancelled: After the commit: whether somebody asked to cancel the run.
        done: After the commit, or the failure.
        error: Why nothing of it was written.
    """

    run: int
    seq: int
    text: bytes
    hash: bytes
    payloads: list[Payload]
    documents: list[Values]
    fence: int
    before: Entry | None = None
    cancelled: bool = False
    done: bool = False
    error: BaseException | None = None

    @property
    def place(self) -> tuple[int, int]:
        """Numbers of the run and of the row."""
        return self.run, self.seq


def stored_row(
    run: int, seq: int, last: int, text: bytes, hash: bytes, payloads: Iterable[Payload]
) -> tuple[Values, list[Payload]]:
    """
    Return the columns of `rows` for one row, and those of its payloads that are stored in the table `texts`.

    Args:
        run, seq, text, hash: As in `Entry`.
        last: Number of its change.
        payloads: Those that it has brought.
    """
    own: list[Payload] = []
    beside: list[Payload] = []
    for payload in payloads:
        (own if payload.n == last or is_inline(payload) else beside).append(payload)
    base = run << 32
    return (base | seq, base | last, text.decode(), hash, texts_column(own)), beside


class SqlCursor(Protocol):
    """What a statement came to."""

    @property
    def rowcount(self) -> int:
        """How many rows it has changed."""

    def fetchone(self) -> Any:
        """Return the next row, None without one."""

    def fetchall(self) -> list[Any]:
        """Return all rows that are left."""


class SqlConnection(Protocol):
    """A database within a transaction."""

    def execute(self, sql: str, values: Values = (), /) -> SqlCursor:
        """Carry out a statement."""

    def executemany(self, sql: str, rows: Iterable[Values], /) -> object:
        """Carry it out for each of *rows*."""


NEWEST_ROW = "SELECT coalesce(max(id), 0) FROM rows"
"""Statement that returns the number of a journal's newest row."""


class ChangeWatch(Protocol):
    """
    Whether a journal was written since it was last asked; for one thread.

    Attributes:
        look_s: Seconds after which it is to be asked, though nothing was heard.
        pace_s: Seconds to leave it alone after it was asked, however often it is written.
    """

    look_s: float
    pace_s: float

    def hear(self, written: Callable[[int | None], None]) -> Callable[[], None]:
        """
        Have *written* called, from any thread, as soon as the journal was written: with the number of the run that has a new row, or None.

        Returns:
            What ends it. A file tells nobody: it is asked from time to time.
        """

    def changed(self) -> bool:
        """Return whether it was, by whatever process; the first time always."""

    def newest(self) -> int:
        """Return the number of the newest row, read with nothing that others read with; 0 for none, and where that cannot be read now."""

    def close(self) -> None:
        """Release what it holds; the next question takes it again."""


class Integrity(Protocol):
    """What a database itself can say of a journal; each yields what is wrong."""

    def beside(self) -> Iterator[Problem]:
        """Yield what stands beside the journal and would change it."""

    def schema(self) -> Iterator[Problem]:
        """Yield every table, view and index that is not as this version made it."""

    def storage(self) -> Iterator[Problem]:
        """Yield what the database finds broken."""

    def types(self) -> Iterator[Problem]:
        """Yield every row with a value of a type that its column does not allow."""

    def keys(self) -> Iterator[Problem]:
        """Yield every document and record of an erasure whose key is not made of its run and number."""

    def strays(self) -> Iterator[Problem]:
        """Yield every run that has rows, payloads, documents or a lease and does not exist, and every one without lease."""


class JournalSource(Protocol):
    """
    A journal as it is read, by any number of threads.

    Attributes:
        path: How messages call it; without passwords.
        name: How pages call it, shorter.
        place: Where it is, whatever becomes of the name.
        busy_timeout_s: Seconds to wait for locks of others.
        reopened: Called after it was opened again.
        text_scan: The statement that `fsm.journal.scans` reads the table `texts` with.
    """

    path: str
    name: str
    place: str
    busy_timeout_s: float
    reopened: Callable[[], None]
    text_scan: str

    @property
    def in_memory(self) -> bool:
        """Whether it is gone with this process."""

    @property
    def integrity(self) -> Integrity:
        """What the database says of it."""

    def query(self, sql: str, values: Values = ()) -> list[Values]:
        """
        Return the rows of a reading statement of this project's own.

        Raises:
            JournalBusy: The journal was written while it was read without locks.
            JournalError: It cannot be read.
        """

    def query_texts(self, first: int, last: int, most: int) -> list[Values]:
        """Return rows of the table `texts` by their keys: key, media type, digest and salt as hex, and body, as text, bytes or None."""

    def scan(self, sql: str, first: int, size: int) -> Generator[list[Values], None, None]:
        """
        Yield the rows of a statement in bulk, within a snapshot.

        Args:
            sql: Its first column is a rising key, its one place the lowest key that is wanted.
            first: That key.
            size: Rows that are fetched together.
        """

    def snapshot(self) -> AbstractContextManager[JournalSource]:
        """Give the journal as it is now, whatever is written meanwhile."""

    def watch(self) -> ChangeWatch:
        """Return what notices that it was written."""

    def search(self, patterns: Sequence[str], *, most: int, seconds: float) -> list[int]:
        """See `fsm.journal.reader.JournalReader.search`."""


@runtime_checkable
class Backend(JournalSource, Protocol):
    """
    A journal that may also be written.

    Attributes:
        lock: Held by the thread that uses the connection.
        identity: Equal for two that are the same journal, within this process.
        of_row_locked: What a reading statement ends with so that nobody else changes its row before the transaction ends.
        is_shared: Whether processes of other machines may use it.
        look_s: Seconds between two looks for what `signal` may not have told.
        skipping_locked: What one ends with so that it passes over rows that others have locked likewise.
    """

    lock: threading.RLock
    identity: str
    of_row_locked: str
    is_shared: bool
    look_s: float
    skipping_locked: str

    def transaction(self, *, alone: bool = True) -> AbstractContextManager[SqlConnection]:
        """
        Give a transaction, which any error undoes, also one of the commit itself.

        Args:
            alone: Whether no other such transaction may run meanwhile, whoever's it is.

        Raises:
            JournalError: It cannot be written; also by the commit, which may have taken place then.
        """

    def execute(self, sql: str, values: Values) -> None:
        """Carry out one writing statement as a transaction of its own."""

    def append(self, entries: Sequence[Entry]) -> None:
        """
        Write entries in one transaction.

        Each gets `Entry.cancelled`; one whose fencing token is not its run's gets `LeaseLost` as its error, and nothing of it
        is written. An error that is raised has written nothing of any.
        """

    def insert_payloads(self, connection: SqlConnection, run: int, payloads: Collection[Payload]) -> None:
        """Write payloads of a run into the table `texts`, within a transaction."""

    def runs_to_cancel(self, runs: Sequence[int]) -> set[int]:
        """Return which of *runs* are to be cancelled, waiting for no commit; none when that cannot be read now."""

    def signal(self) -> None:
        """Wake whoever listens, in whatever process: a run is to be cancelled, or to be taken up."""

    def listen(self, wake: Callable[[], None]) -> Callable[[], None]:
        """
        Have *wake* called, from any thread, after a `signal`; also when some may have been missed.

        Returns:
            What ends it. A database that cannot tell of signals calls nobody: whoever listens looks from time to time as well.
        """

    def has_table(self, name: str) -> bool:
        """Return whether the journal has a table."""

    def now_us(self) -> int | None:
        """Return the database's own clock in microseconds, which all machines share; None where there is none but theirs."""

    def start_erasing(self) -> None:
        """See to it that what is freed from now on is overwritten, as far as the database can."""

    def keep_drivers_out(self, connection: SqlConnection) -> None:
        """Have nobody append, take or give back a lease until the transaction ends, so that no text comes in unseen."""

    def scrub(self) -> bool:
        """
        Remove what may still hold erased texts; return False if that could not be done since somebody uses it.

        Raises:
            JournalFull: There is no space for it.
        """

    def answer(self, sql: str, batch: int) -> AbstractContextManager[tuple[list[str], Iterator[Values]]]:
        """
        Give the names of the columns of a host's own question, and its rows one by one.

        Args:
            sql: A SELECT in the database's own dialect.
            batch: Rows that are read together.

        Raises:
            UsageError: It cannot be carried out, would write, or gives no rows.
            JournalBusy: The journal was written while it was read without locks.
            JournalError: The database cannot read it.
            KeyboardInterrupt: Ctrl-C, also while the database is at work.
        """

    def database(self) -> Any:
        """Return what a host's own reading statements are given to."""

    def close(self) -> None:
        """Close it."""
