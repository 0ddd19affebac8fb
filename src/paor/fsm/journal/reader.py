"""
Reading a journal: plain statements, small results, a bounded number of rows in memory.

All of a process's reading and writing goes through one connection under one lock, so a reader never sees half a row.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from operator import itemgetter
from typing import Any, Protocol, get_type_hints

import orjson

from ...states.base.errors import Erased, JournalDamaged, PaorError, UnknownRun, UsageError
from ...states.run.phase_names import DONE, FAILED
from ...states.run.spec import Spec
from ...states.run.state import Change
from .backend import ChangeWatch, JournalSource
from .erasure_log import Erasure
from .lineage import SharedPart, part_with, parts_of
from .payloads import Payload, payload_of_text, payloads_of, recalled_text
from .record import COLUMNS, Labels, root_hash, row_of
from .rows import PREVIOUS_HASH, ROOT_COLUMNS, RunRow, StoredDocument, Transition, transition_of
from .run_index import RunIndex
from .run_writer import NEWEST_ROUND, NO_ROUND

_BETWEEN = "WHERE id BETWEEN ? AND ?"
_KEYED = {
    "specs": f"SELECT run, root_hash, {', '.join(ROOT_COLUMNS)} FROM specs WHERE run BETWEEN ? AND ? ORDER BY run LIMIT ?",
    "rows": f'SELECT id, "row", {PREVIOUS_HASH}, hash FROM rows {_BETWEEN} ORDER BY id LIMIT ?',
    "documents": f"SELECT id, number, label, position, name, mime, bytes, digest, payload FROM documents {_BETWEEN} ORDER BY id LIMIT ?",
    "erasures": f"SELECT id, number, at, rule, payloads, reason, hash FROM erasures {_BETWEEN} ORDER BY id LIMIT ?",
}
_WITH_TEXTS = (
    'SELECT "last", texts FROM rows WHERE "last" >= ?'
    ' AND "last" <= coalesce((SELECT min("last") FROM rows WHERE "last" >= ?), 9223372036854775807)'
    ' ORDER BY "last" LIMIT ?'
)
_WITH_GONE = (
    'SELECT "last", texts FROM rows WHERE "last" >= ?'
    ' AND "last" <= coalesce((SELECT min("last") FROM rows WHERE "last" >= ?), 9223372036854775807)'
    """ AND texts LIKE '%,null,null]%' ORDER BY "last" LIMIT ?"""
)
"""How a text ends that is erased; one that is not may hold the same words."""

_ALL = 2**62
_NEAR, _STRETCH = 16, 500
"""Payloads in a gap that are read though nobody has asked for them, rather than begin another statement; most numbers of one."""

_key = itemgetter(0)
_SELECT_RUN = "SELECT * FROM runs"
_ENDED = "SELECT run FROM transitions WHERE dest IN ('Done', 'Failed')"

UNENDED = ("running", "waiting")
"""What a run's status is before its end."""


class JournalReader:
    """
    A journal that is read: that of a store, one snapshot of it, or runs on their way into another file.

    Args:
        source: What it is read through.
    """

    def __init__(self, source: JournalSource) -> None:
        self.source = source
        self._lineages: dict[int, tuple[SharedPart, ...]] = {}
        source.reopened = self._lineages.clear

    @property
    def path(self) -> str:
        """How messages call the journal."""
        return self.source.path

    @property
    def name(self) -> str:
        """How pages call it."""
        return self.source.name

    @property
    def place(self) -> str:
        """Where it is."""
        return self.source.place

    @property
    def reader(self) -> JournalReader:
        """Itself, so that a snapshot can be given wherever a host gives its `fsm.journal_api.Journal`."""
        return self

    @property
    def index(self) -> RunIndex:
        """What is asked of many runs at once."""
        return RunIndex(self.query)

    @contextmanager
    def snapshot(self) -> Iterator[JournalReader]:
        """See `fsm.journal_api.Journal.snapshot`."""
        with self.source.snapshot() as own:
            yield self if own is self.source else JournalReader(own)

    def query(self, sql: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a reading statement of this project's own; see `fsm.journal.backend.JournalSource.query`."""
        return self.source.query(sql, values)

    def watch(self) -> ChangeWatch:
        """Return what notices that the journal was written, by whatever process; for one thread."""
        return self.source.watch()

    def search(self, patterns: Sequence[str], *, most: int, seconds: float) -> list[int]:
        """
        Return the numbers of the runs that hold a text, newest first.

        It has a connection of its own, so nobody else who reads waits for it; only a journal in memory has none.

        Args:
            patterns: The text as `LIKE` takes it, with a backslash for escapes, and as it is within JSON.
            most: Runs that are given at most.
            seconds: After which the search ends with what it has found.
        """
        return self.source.search(patterns, most=most, seconds=seconds)

    def forget(self) -> None:
        """Forget what was read of runs: what a transaction had written was undone, and their numbers may come again."""
        self._lineages.clear()

    def check_same(self) -> None:
        """
        See to it that the journal is still the one that was opened.

        Raises:
            JournalBusy: It was written while it was read without locks.
        """
        self.query("SELECT 1")

    def keyed(self, table: str, first: int, last: int, most: int = _ALL) -> list[tuple[Any, ...]]:
        """
        Return rows of a table in the order of their keys, each with its key before its columns.

        Args:
            table: A key of `_KEYED`, ``payloads``, or ``erased`` for the keys of the payloads without a body.
            first, last: Keys; of ``specs`` the run's number, of the others that << 32 | the number within the run.
            most: Rows at most.
        """
        if table == "payloads":
            return self._keyed_payloads(first, last, most)
        if table == "erased":
            return self._keyed_erased(first, last, most)
        found = self.query(_KEYED[table], (first, last, most))
        return [self._row(*row) for row in found] if table == "rows" else found

    def _keyed_payloads(self, first: int, last: int, most: int) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = []
        key = first
        try:
            for key, *values in self.source.query_texts(first, last, most):
                found.append((key, *payload_of_text(key, *values)))
            if found and first == last:
                return found
            beside = len(found)
            for key, texts in self.query(_WITH_TEXTS, (first, last, most)):
                found += [(own, *payload) for own, payload in payloads_of(key, texts) if first <= own <= last]
        except (TypeError, ValueError) as error:
            raise JournalDamaged(
                f"run {self._name(key >> 32)}: payload {key & (2**32 - 1)} cannot be read; run: paor verify"
            ) from error
        if 0 < beside < len(found):
            found.sort(key=_key)
        return found[:most]

    def _keyed_erased(self, first: int, last: int, most: int) -> list[tuple[Any, ...]]:
        sql = f"SELECT id FROM texts {_BETWEEN} AND body IS NULL ORDER BY id LIMIT ?"
        beside, at, some = self.query(sql, (first, last, most)), first, _STRETCH
        gone: list[tuple[int]] = []
        while len(gone) < most and some == _STRETCH:
            rows = self.query(_WITH_GONE, (at, last, _STRETCH))
            for at, texts in rows:
                with suppress(TypeError, ValueError):  # which verify names
                    gone += [
                        (key,)
                        for key, item in payloads_of(at, texts)
                        if item.body is None and first <= key <= last
                    ]
            at, some = at + 1, len(rows)
        return sorted([*beside, *gone])[:most]

    def _row(self, key: int, text: str, before: bytes, hash: bytes) -> tuple[Any, ...]:
        """Return a row of `rows` as values, its key before them."""
        try:
            return (key, *row_of(key >> 32, text, before, hash))
        except (TypeError, ValueError) as error:
            raise JournalDamaged(
                f"run {self._name(key >> 32)}: row {key & (2**32 - 1)} cannot be read; run: paor verify"
            ) from error

    def runs(
        self,
        *,
        status: str | None = None,
        state: str | None = None,
        key: str | None = None,
        metadata: Mapping[str, Sequence[str]] | None = None,
        conversation: str | None = None,
        since: int | None = None,
        before: int | None = None,
        limit: int | None = None,
    ) -> list[RunRow]:
        """
        Return the runs that all of these hold for, newest first.

        Args:
            status, state, key, conversation: As the columns of `RunRow`.
            metadata: By name the values that a run may have there, as canonical JSON.
            since: Microseconds since the epoch: begun then or later.
            before: Number of a run: only those with a smaller one.
            limit: Only so many.
        """
        wanted: list[tuple[str, tuple[Any, ...]]] = [
            (f'"{name}" = ?', (value,))
            for name, value in (
                *(("status", status), ("state", state), ("key", key)),
                ("conversation", conversation),
            )
            if value is not None
        ]
        for name, texts in (metadata or {}).items():
            wanted.append((f"metadata -> ? IN ({', '.join('?' * len(texts))})", (f'$."{name}"', *texts)))
        if since is not None:
            wanted.append(("created_at >= ?", (since,)))
        if before is not None:
            wanted.append(("run < ?", (before,)))
        if status in UNENDED or (state is not None and state not in (DONE, FAILED)):
            wanted.append(
                (f"run NOT IN ({_ENDED})", ())
            )  # by an index, before the last row of a run is looked for
        where = " AND ".join(condition for condition, _ in wanted)
        sql = f"{_SELECT_RUN}{f' WHERE {where}' if where else ''} ORDER BY run DESC LIMIT ?"
        values = [value for _, own in wanted for value in own]
        return [_run_row(row) for row in self.query(sql, (*values, 2**62 if limit is None else limit))]

    def run(self, run_id: str) -> RunRow:
        """See `fsm.journal_api.Journal.run`."""
        if not isinstance(run_id, str):
            raise UnknownRun(f"a run is named by its id as a text, not by {run_id!a:.80}")
        if re.search("[\ud800-\udfff]", run_id):  # half a character, which SQLite does not take
            raise UnknownRun(f"{self.path}: there is no run {run_id!a:.80}; list them with: paor runs")
        rows = self.query(f"{_SELECT_RUN} WHERE run_id = ?", (run_id,))
        if not rows and len(run_id) >= 4:
            rows = self.query(f"{_SELECT_RUN} WHERE substr(run_id, 1, {len(run_id)}) = ?", (run_id,))
            if len(rows) > 1:
                raise UnknownRun(f"{len(rows)} runs start with {run_id!r}; give more of the id (paor runs)")
        if not rows:
            raise UnknownRun(f"{self.path}: there is no run {run_id!r}; list them with: paor runs")
        row = _run_row(rows[0])
        if not 0 < row.run < 2**31:  # keys of rows are made of it
            raise JournalDamaged(f"run {row.run_id}: its number {row.run} is out of range; run: paor verify")
        return row

    def with_objectives(self, rows: Sequence[RunRow]) -> list[RunRow]:
        """Return rows with what their runs were started with; a fork may have that in its parent's spec."""
        known = self.index.objectives([row.run for row in rows])
        for row in rows:
            if row.run not in known and row.parent_run_id is not None:
                with suppress(Erased, JournalDamaged):
                    known[row.run] = self.spec(row.run_id).objective
        return [row._replace(objective=known.get(row.run)) for row in rows]

    def transitions(self, run_id: str, first: int = 0, last: int = 2**32 - 1) -> list[Transition]:
        """See `fsm.journal_api.Journal.transitions`; only those from *first* to *last*."""
        number = self.run(run_id).run
        with damage_told(run_id):
            return [transition_of(row) for row in self.rows(number, first, last)]

    def documents(self, run_id: str) -> list[StoredDocument]:
        """See `fsm.journal_api.Journal.documents`."""
        with damage_told(run_id):
            return [StoredDocument(*row) for row in self._document_rows(self.run(run_id).run, 0, 2**32 - 1)]

    def document(self, run_id: str, number: int) -> str | bytes | None:
        """See `fsm.journal_api.Journal.document`."""
        run = self.run(run_id).run
        rows = self._document_rows(run, number, 1)
        if not rows:
            raise UnknownRun(f"run {run_id} has no document {number}")
        with damage_told(run_id):
            return self.intact(run, rows[0][7], rows[0][6])

    def spec(self, run_id: str) -> Spec:
        """See `fsm.journal_api.Journal.spec`."""
        with damage_told(run_id, "its spec "):
            return self._spec(self.run(run_id))

    def _spec(self, row: RunRow) -> Spec:
        columns = self.root_columns(row.run)
        body = self.intact(row.run, columns["spec_payload"], columns["spec"])
        if body is None:
            raise Erased(f"run {row.run_id}: its spec has been erased; it can be verified, not resumed")
        spec = Spec.model_validate_json(body)
        if spec.workflow_id == row.workflow_id:
            return spec
        # a fork with its parent's spec, which is a run of its own
        return spec.model_copy(
            update={"workflow_id": row.workflow_id, "key": None, "metadata": {}, "conversation": ""}
        )

    def lineage(self, run: int) -> tuple[SharedPart, ...]:
        """
        Return which runs the rows of run number *run* belong to: for a fork its ancestors' parts first, its own last.

        Raises:
            JournalDamaged: The row that it was forked at is missing.
        """
        if run not in self._lineages:
            if len(self._lineages) >= 1024:
                self._lineages.clear()
            self._lineages[run] = parts_of(self.query, run)
        return self._lineages[run]

    def rows(self, run: int, first: int = 0, last: int = 2**32 - 1) -> list[tuple[Any, ...]]:
        """Return the rows of run number *run* from *first* to *last* as plain tuples in the order of the table, shared ones too."""
        found: list[tuple[Any, ...]] = []
        for part in reversed(self.lineage(run)):
            if first <= last:
                found = self.own_rows(part.run, max(first, part.first_seq), last) + found
            last = min(last, part.first_seq - 1)
        return found

    def own_rows(self, run: int, first: int = 0, last: int = 2**32 - 1) -> list[tuple[Any, ...]]:
        """Return the own rows of run number *run*, from *first* to *last*, as plain tuples."""
        return [row[1:] for row in self.keyed("rows", run << 32 | first, run << 32 | last)]

    def columns(
        self,
        run: int,
        names: Sequence[str],
        triggers: Sequence[str] = (),
        first: int = 0,
        last: int = 2**32 - 1,
    ) -> list[tuple[Any, ...]]:
        """
        Return some columns of the own rows of run number *run*, in order.

        Args:
            run: The run's number.
            names: Of the columns.
            triggers: Only rows with one of these; none for all.
            first, last: Only rows from one number to the other.
        """
        assert set(names) <= set(COLUMNS), "columns of a row"
        shown = ", ".join(f'"{name}"' for name in names)
        only = f' AND "trigger" IN ({", ".join("?" * len(triggers))})' if triggers else ""
        sql = f"SELECT {shown} FROM transitions WHERE id BETWEEN ? AND ?{only} ORDER BY id"
        return self.query(sql, (run << 32 | first, run << 32 | last, *triggers))

    def root_columns(self, run: int) -> dict[str, Any]:
        """Return the columns of a run that never change."""
        return dict(zip(ROOT_COLUMNS, self.keyed("specs", run, run)[0][2:], strict=True))

    def root(self, run: int, before: bytes = b"") -> bytes:
        """
        Return the hash that a run's first own row follows, recomputed from its immutable columns.

        Args:
            run: Its number.
            before: Of a fork the hash of the last row that it shares.

        Raises:
            JournalDamaged: It is not the stored one.
        """
        columns = self.root_columns(run)
        root = root_hash(columns, before)
        if root != self.stored_root(run):
            raise JournalDamaged(f"run {columns['run_id']}: its first columns were changed; run: paor verify")
        return root

    def stored_root(self, run: int) -> bytes:
        """Return the hash that a run's first own row and its first record of an erasure follow, as it is stored."""
        root: bytes = self.keyed("specs", run, run)[0][1]
        return root

    def labels(self, run: int) -> Labels:
        """Return the columns ``key``, ``metadata`` and ``conversation`` of a run."""
        (labels,) = self.query('SELECT "key", metadata, conversation FROM specs WHERE run = ?', (run,))
        return (*labels,)

    def erasures(self, run: int) -> list[Erasure]:
        """Return the records of what was erased of a run, in order."""
        return [Erasure(*row[1:]) for row in self.keyed("erasures", *_range(run))]

    def forks(self, run_id: str) -> list[tuple[str, int]]:
        """Return id and last shared row of every fork of a run."""
        return [(fork, seq) for _, fork, parent, seq in self.index.forks() if parent == run_id]

    def called_by(self, run_id: str) -> list[str]:
        """Return the ids of the runs that the tools of a run have started, in the order in which they were started."""
        return self.index.called_by(run_id)

    def next_payload(self, run: int) -> int:
        """Return the number of a run's next payload."""
        last = self.last_payload(run)
        return last + 1 if last >= 0 else self.lineage(run)[-1].first_payload

    def last_payload(self, run: int) -> int:
        """Return the number of a run's newest own payload, -1 without one."""
        of_rows = 'SELECT max("last") FROM rows WHERE "last" BETWEEN ? AND ?'
        found = self.query(f"SELECT ({of_rows}), (SELECT max(id) FROM texts {_BETWEEN})", _range(run) * 2)[0]
        return max((key & (2**32 - 1) for key in found if key is not None), default=-1)

    def payload(self, run: int, n: int) -> Payload:
        """See `fsm.journal_api.Journal.payload`."""
        payload = self.find_payload(run, n)
        if payload is None:
            raise JournalDamaged(f"run {self._name(run)}: payload {n} is missing; run: paor verify")
        return payload

    def intact(self, run: int, n: int, digest: str | None = None) -> str | bytes | None:
        """See `fsm.journal_api.Journal.intact`."""
        payload = self.payload(run, n)
        if not payload.fits(digest):
            raise JournalDamaged(f"run {self._name(run)}: payload {n} was changed; run: paor verify")
        return payload.body

    def intact_payloads(self, run: int, digests: Mapping[int, str]) -> dict[int, Payload]:
        """Return many payloads of a run, by number, each checked as `intact` does."""
        found: dict[int, Payload] = {}
        numbers = sorted(digests)
        for first, last in _stretches(numbers):
            rows = self.keyed("payloads", run << 32 | first, run << 32 | last)
            found |= {row[1]: Payload(*row[1:]) for row in rows if row[1] in digests}
        for n in numbers:
            payload = found.get(n) or found.setdefault(
                n, self.payload(run, n)
            )  # of a fork one that it shares
            if not payload.fits(digests[n]):
                raise JournalDamaged(f"run {self._name(run)}: payload {n} was changed; run: paor verify")
        return found

    def newest_round(self, conversation: str, before: int = NO_ROUND) -> str | None:
        """Return the id of the newest run of a conversation, of the rounds *before* a number, None when there is none."""
        found = self.query(NEWEST_ROUND, (conversation, before))
        return found[0][0] if found else None

    def _name(self, run: int) -> str:
        """Return how people call run number *run*: by its id."""
        found = self.query("SELECT run_id FROM specs WHERE run = ?", (run,))
        return str(found[0][0]) if found else f"number {run}"

    def find_payload(self, run: int, n: int) -> Payload | None:
        """Return one payload, of a fork also one that it shares, or None when there is none."""
        if not 0 <= n < 2**32:
            return None
        rows = self.keyed("payloads", run << 32 | n, run << 32 | n)
        if not rows and (part := part_with(self.lineage(run), "first_payload", n)).run != run:
            rows = self.keyed("payloads", part.run << 32 | n, part.run << 32 | n)
        return Payload(*rows[0][1:]) if rows else None

    def numbers_of_payloads(
        self, run: int, *, erased: bool, first: int = 0, last: int = 2**32 - 1
    ) -> list[int]:
        """Return the numbers of a run's payloads, of those that were erased or of those that were not."""
        gone = [key & (2**32 - 1) for (key,) in self.keyed("erased", run << 32 | first, run << 32 | last)]
        if erased:
            return gone
        begin, end, without = self.lineage(run)[-1].first_payload, self.last_payload(run), {*gone}
        return [n for n in range(max(first, begin), min(last, end) + 1) if n not in without]

    def payloads_at(self, run: int, first: int, count: int) -> list[Payload]:
        """Return *count* payloads of a run from number *first* on, fewer where there are no more."""
        last = min(first + count - 1, 2**32 - 1)
        return [Payload(*row[1:]) for row in self.keyed("payloads", run << 32 | first, run << 32 | last)]

    def newest_row(self, run: int) -> int | None:
        """Return the number of the newest own row of a run, None without one."""
        found = self.query(f"SELECT max(id) FROM rows {_BETWEEN}", _range(run))[0][0]
        return None if found is None else found & (2**32 - 1)

    def iterate_rows(self, run: int, batch: int, first: int = 0) -> Iterator[tuple[Any, ...]]:
        """Yield the own rows of a run from number *first* on, in order, a bounded number in memory at a time."""
        first, last = _range(run, first)
        while rows := self.keyed("rows", first, last, batch):
            yield from (row[1:] for row in rows)
            first = self._after(rows[-1][0], first)

    def iterate_payloads(self, run: int, batch: int, first: int = 0) -> Iterator[Payload]:
        """Yield the payloads under a run's number from number *first* on, in order, a bounded number in memory at a time."""
        first, last = _range(run, first)
        while rows := self.keyed("payloads", first, last, batch):
            yield from (Payload(*row[1:]) for row in rows)
            first = self._after(rows[-1][0], first)

    def _after(self, last: int, first: int) -> int:
        """Return the key after the last one that was read from *first* on; pages out of order could lead back for ever."""
        if last < first:
            raise JournalDamaged(f"{self.path}: its keys are not in order; run: paor verify")
        return last + 1

    def payloads(self, run: int, last: int) -> list[Payload]:
        """Return the newest payloads of a run, at most *last*, in order; of a fork also those that it shares."""
        found: list[Payload] = []
        end = self.next_payload(run)
        for part in reversed(self.lineage(run)):
            begin = max(part.first_payload, end - (last - len(found)))
            if begin < end:
                found = self.payloads_at(part.run, begin, end - begin) + found
            end = min(end, part.first_payload)
        return found

    def change(self, run: int, column: str) -> Change:
        """Return the change that a row's ``change`` column refers to, checked against the digest there."""
        place = orjson.loads(column)
        return Change.read(self._kept(run, place["n"], place.get("digest")), partial(self._shown, run))

    def _shown(self, run: int, n: int) -> str | None:
        return recalled_text(self._kept(run, n), 2)

    def _kept(self, run: int, n: int, digest: str | None = None) -> str | bytes:
        """Return a payload that is intact and not erased."""
        body = self.intact(run, n, digest)
        if body is None:
            raise Erased(
                f"run {self._name(run)}: a part has been erased that resuming needs; it can be verified"
            )
        return body

    def stored_documents(self, run: int) -> list[StoredDocument]:
        """Return the own documents of run number *run*, in order."""
        return [StoredDocument(*row) for row in self._own_documents(run, 0, 2**32 - 1)]

    def documents_at(
        self, run: int, first: int, count: int
    ) -> list[tuple[StoredDocument, str | bytes | None]]:
        """Return *count* documents of a run from number *first* on, with their bodies."""
        found = [StoredDocument(*row) for row in self._document_rows(run, first, count)]
        return [(item, self.intact(run, item.payload, item.digest)) for item in found]

    def _document_rows(self, run: int, first: int, count: int) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = []
        end = min(first + count, 2**32)
        for part in reversed(self.lineage(run)):
            begin = max(first, part.first_document)
            if begin < end:
                found = self._own_documents(part.run, begin, end - begin) + found
            end = min(end, part.first_document)
        return found

    def _own_documents(self, run: int, first: int, count: int) -> list[tuple[Any, ...]]:
        last = min(first + count - 1, 2**32 - 1)
        return [row[1:] for row in self.keyed("documents", run << 32 | first, run << 32 | last)]

    def count_documents(self, run: int) -> int:
        """Return how many documents stand under a run's number."""
        sql = "SELECT count(*) FROM documents WHERE id BETWEEN ? AND ?"
        return int(self.query(sql, _range(run))[0][0])


class Readable(Protocol):
    """What a public function reads: the host's `fsm.journal_api.Journal`, or one of its snapshots."""

    @property
    def reader(self) -> JournalReader:
        """What reads it."""


def reader_of(journal: Readable | None, usage: str) -> JournalReader:
    """
    Return what reads a journal that a host gave.

    Raises:
        UsageError: It gave something else; *usage* says what is expected.
    """
    reader = getattr(journal, "reader", None)
    if not isinstance(reader, JournalReader):
        raise UsageError(usage)
    return reader


@contextmanager
def damage_told(run_id: object, what: str = "") -> Iterator[None]:
    """Turn what a row of the wrong shape makes of code that reads it into `JournalDamaged` with the run's id."""
    try:
        yield
    except PaorError:
        raise
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        told = ascii(f"{type(error).__name__}: {error}".partition("\n")[0])[1:-1][:160]
        raise JournalDamaged(f"run {run_id}: {what}cannot be read ({told}); run: paor verify") from error


_RUN_TYPES = tuple(dict if name == "metadata" else kind for name, kind in get_type_hints(RunRow).items())


def _run_row(row: tuple[Any, ...]) -> RunRow:
    """Return a row of the view ``runs``, whose columns may hold anything in a damaged file."""
    *columns, metadata, conversation = row
    with damage_told(ascii(row[1])[:80], "its metadata "):
        columns += orjson.loads(metadata), conversation
    for name, value, kind in zip(RunRow._fields, columns, _RUN_TYPES, strict=False):
        if not isinstance(value, kind):
            raise JournalDamaged(f"run {row[1]!a:.80}: its {name} cannot be read; run: paor verify")
    return RunRow(*columns)


def _stretches(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield first and last of every stretch of rising numbers without a wide gap, none of them long."""
    first = 0
    for at in range(1, len(numbers) + 1):
        if at == len(numbers) or numbers[at] - numbers[at - 1] > _NEAR or at - first >= _STRETCH:
            yield numbers[first], numbers[at - 1]
            first = at


def _range(run: int, first: int = 0) -> tuple[int, int]:
    """Return the first and last possible key of a run's rows from number *first* on."""
    return run << 32 | first, run << 32 | (2**32 - 1)
