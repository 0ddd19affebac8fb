"""
Verify: does the file still say what was written?

Recomputes every hash, every derived column and every payload digest of every run, and checks that the rows walk the
table. What a hash chain cannot show by itself, the loss of a whole run or of a consistent tail, needs an exported
head to compare with (docs/journal-format.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from ..states.phase import PLANNING
from .payloads import encoded, salted_digest
from .record import HASHED, chained, root_hash
from .table import ROWS

if TYPE_CHECKING:
    from .journal_reading import JournalReader as Journal
    from .journal_rows import RunRow, StoredDocument

_EDGES = frozenset((row.source, row.trigger, row.dest) for row in ROWS)
_PREV, _HASH = len(HASHED), len(HASHED) + 1
_BATCH = 2000


@dataclass(frozen=True, slots=True)
class Defect:
    """
    One place where the file does not hold.

    Attributes:
        run_id: The run, or empty for the file itself.
        place: Table and key, such as ``transitions seq 17``.
        problem: What is wrong.
    """

    run_id: str
    place: str
    problem: str

    def __str__(self) -> str:
        return (
            f"run {self.run_id}, {self.place}: {self.problem}"
            if self.run_id
            else f"{self.place}: {self.problem}"
        )


def verify_journal(journal: Journal) -> list[Defect]:
    """Return every defect of the file; an empty list means that everything recomputes."""
    defects = list(_file_defects(journal))
    if defects:
        return defects
    for row in journal.runs():
        defects.extend(_run_defects(journal, row))
    defects.extend(_strays(journal))
    return defects


def _file_defects(journal: Journal) -> Iterator[Defect]:
    for (text,) in journal.query("PRAGMA integrity_check(20)"):
        if text != "ok":
            yield Defect("", "file", str(text))
    specs, leases = (journal.query(f"SELECT run FROM {table} ORDER BY run") for table in ("specs", "leases"))
    if specs != leases:
        yield Defect("", "tables specs and leases", "do not hold the same runs")


def _strays(journal: Journal) -> Iterator[Defect]:
    """Yield rows of runs that do not exist."""
    for table in ("transitions", "payloads", "documents"):
        found = journal.query(f"SELECT count(*) FROM {table} WHERE run NOT IN (SELECT run FROM specs)")[0][0]
        if found:
            yield Defect("", f"table {table}", f"{found} rows of runs that do not exist")


def _run_defects(journal: Journal, row: RunRow) -> Iterator[Defect]:
    columns = journal.root_columns(row.run)
    root = root_hash(columns)
    if root != journal.query("SELECT root_hash FROM specs WHERE run = ?", (row.run,))[0][0]:
        yield Defect(row.run_id, "specs", "the immutable columns do not fit their hash")
    references = {columns["spec_payload"]: columns["spec"]}
    walk = _Walk(row.run, row.run_id, root, columns["spec_payload"] + 1)
    for values in journal.iterate_rows(row.run, _BATCH):
        yield from walk.check(values)
        yield from _collect(row.run_id, values, references)
    yield from _payload_defects(journal, row, references, walk.payloads)
    yield from _document_defects(journal, row, walk)


class _Walk:
    """The state of one pass over the rows of a run."""

    def __init__(self, run: int, run_id: str, root: bytes, payloads: int) -> None:
        self.run = run
        self.run_id = run_id
        self.head = root
        self.seq = 0
        self.state = PLANNING
        self.payloads = payloads
        self.results = [payloads - 1]
        self.observing: list[int] = []
        self.last: tuple[Any, ...] | None = None

    def check(self, values: tuple[Any, ...]) -> Iterator[Defect]:
        """Yield what is wrong with the next row, then stand after it."""
        place = f"transitions seq {values[1]}"
        if values[1] != self.seq or values[0] != self.run:
            yield Defect(
                self.run_id, place, f"expected seq {self.seq} of run {self.run}: rows are missing or moved"
            )
        if values[_PREV] != self.head:
            yield Defect(self.run_id, place, "prev_hash is not the hash of the row before")
        try:
            computed = chained(values[_PREV], values[: len(HASHED)])
        except (TypeError, ValueError):
            computed = b""
        if computed != values[_HASH]:
            yield Defect(self.run_id, place, "the row does not fit its hash")
        if values[4] != self.state or (values[4], values[3], values[5]) not in _EDGES:
            yield Defect(
                self.run_id, place, f"{values[3]} from {values[4]} to {values[5]} is not in the table here"
            )
        if self.last is not None and any(values[index] < self.last[index] for index in _RISING):
            yield Defect(self.run_id, place, "a counter that only rises has fallen")
        if values[3] == "execute" and _json(values[8]).get("documents"):
            self.observing = [_json(values[9])["n"]]
        elif values[3] == "observe":
            self.results += self.observing
            self.observing = []
        self.payloads = _json(values[9]).get("n", -2) + 1
        self.head, self.seq, self.state, self.last = values[_HASH], values[1] + 1, values[5], values

    def readable(self, journal: Journal, run: int) -> list[int]:
        """Return the results whose payloads have not been erased."""
        return [place for place in self.results if journal.payload(run, place).body is not None]


_RISING = (10, 11, 12, 13, 14, 15, 16)
"""Places of step, action, retries, tokens, cost and time in a row; a clock may go back, they may not."""


def _collect(run_id: str, values: tuple[Any, ...], references: dict[int, str]) -> Iterator[Defect]:
    """Collect the payload references of a row; one number must always have one digest."""
    for index in (7, 8, 9):
        text = values[index]
        if '"digest"' not in text:
            continue
        for reference in _references(_json(text)):
            number, digest = reference["n"], reference["digest"]
            if references.setdefault(number, digest) != digest:
                yield Defect(run_id, f"transitions seq {values[1]}", f"payload {number} has two digests")


def _references(data: Any) -> Iterator[dict[str, Any]]:
    if isinstance(data, dict):
        if "digest" in data and "n" in data:
            yield data
        else:
            for value in data.values():
                yield from _references(value)
    elif isinstance(data, list):
        for value in data:
            yield from _references(value)


def _payload_defects(
    journal: Journal, row: RunRow, references: dict[int, str], count: int
) -> Iterator[Defect]:
    expected = 0
    for payload in journal.iterate_payloads(row.run, 200):
        place = f"payloads n {payload.n}"
        if payload.n != expected:
            yield Defect(row.run_id, place, f"expected n {expected}: payloads are missing")
        expected = payload.n + 1
        if references.get(payload.n, payload.digest.hex()) != payload.digest.hex():
            yield Defect(row.run_id, place, "its digest is not the one that a row refers to")
        if payload.body is None and payload.salt is None:
            continue
        if payload.salt is None or payload.body is None:
            yield Defect(row.run_id, place, "is neither whole nor erased")
        elif salted_digest(payload.salt, encoded(payload.body)) != payload.digest:
            yield Defect(row.run_id, place, "the body does not fit its digest")
    if expected != count:
        yield Defect(row.run_id, "payloads", f"{expected} are there, the last row counts {count}")


def _document_defects(journal: Journal, row: RunRow, walk: _Walk) -> Iterator[Defect]:
    """Compare the table of documents with what the spec and the results say; erased ones cannot be compared."""
    stored = {document.number: document for document in journal.documents(row.run_id)}
    seen = set()
    for place in walk.results:
        body = journal.payload(row.run, place).body
        data = _json(body) if isinstance(body, str) else None
        if not isinstance(data, dict):
            continue
        for expected in (data.get("result") or data).get("documents", ()):
            seen.add(expected["number"])
            yield from _one_document(row, expected, stored.get(expected["number"]))
    whole = len(walk.results) == len(walk.readable(journal, row.run))
    for number in stored:
        if number not in seen and whole:
            yield Defect(row.run_id, f"documents number {number}", "no result has produced it")


def _one_document(row: RunRow, expected: dict[str, Any], found: StoredDocument | None) -> Iterator[Defect]:
    place = f"documents number {expected['number']}"
    if found is None:
        yield Defect(row.run_id, place, "is missing")
        return
    payload = expected["payload"]
    columns = {name: expected[name] for name in ("label", "position", "name", "mime")}
    columns |= {"bytes": payload["bytes"], "digest": payload["digest"], "payload": payload["n"]}
    for name, value in columns.items():
        if getattr(found, name) != value:
            yield Defect(row.run_id, place, f"{name} is not what its result says")


def _json(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return {}
