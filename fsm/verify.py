"""
Verify: does the file still say what was written?

Recomputes every hash, every derived column and every payload digest of every run, holds what refers to something
against what it refers to, and checks that the rows walk the table. What a hash chain cannot show by itself, the loss
of a whole run or of a consistent tail, needs an exported head to compare with (docs/journal-format.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import lt
from typing import TYPE_CHECKING, Any

import orjson

from ..states.errors import JournalBusy, JournalDamaged, JournalError
from ..states.phase import DONE, FAILED, PLANNING
from .erasures import erasure_problems
from .payloads import encoded, salted_digest
from .record import PREV_HASH, chained, root_hash
from .table import ROWS
from .verify_forks import Beginning, beginning_of, claim_problems, shared_problems
from .verify_types import type_problems

if TYPE_CHECKING:
    from .journal_reading import JournalReader as Journal
    from .journal_rows import StoredDocument

_EDGES = frozenset((row.source, row.trigger, row.dest) for row in ROWS)
_PREV, _HASH = PREV_HASH, PREV_HASH + 1
_BATCH = 2000
_KEYS = {"transitions": "seq", "payloads": "n", "documents": "number", "erasures": "number"}
"""Tables of rows that belong to a run, and the number within the run that is part of their key."""


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
    defects: list[Defect] = []
    try:
        defects.extend(_file_defects(journal))
        unfit = [Defect("", place, problem) for place, problem in type_problems(journal)]
        if unfit:  # nothing can be said of values that are not what they claim to be
            return defects + unfit
        for run, run_id in journal.query("SELECT run, run_id FROM specs ORDER BY run"):
            if 0 < run < 2**31:
                defects.extend(run_defects(journal, run, run_id))
            else:
                defects.append(Defect(run_id, f"specs run {run}", "its number is out of range"))
        shared = shared_problems(journal, [(item.run_id, item.place) for item in defects])
        defects += [Defect(run_id, "specs", problem) for run_id, problem in shared]
    except JournalBusy:
        raise
    except JournalError as error:
        defects.append(Defect("", "file", str(error)))
    return defects


# -- the file ----------------------------------------------------------------------------------------------------


def _file_defects(journal: Journal) -> Iterator[Defect]:
    for (text,) in journal.query("PRAGMA integrity_check(20)"):
        if text != "ok":
            yield Defect("", "file", str(text))
    for (name,) in journal.query("SELECT name FROM sqlite_master WHERE type = 'trigger' ORDER BY name"):
        yield Defect("", f"trigger {name}", "a journal has no triggers")
    for table, key in _KEYS.items():
        wrong = f"id IS NOT (run << 32 | {key}) OR run IS NOT id >> 32"
        for (number,) in journal.query(f"SELECT id FROM {table} WHERE {wrong}"):
            yield Defect("", f"{table} id {number}", f"its key is not made of its run and {key}")
    for table in (*_KEYS, "leases"):
        run_of = "run" if table == "leases" else "id >> 32"
        for (run,) in journal.query(f"SELECT {run_of} FROM {table} EXCEPT SELECT run FROM specs"):
            yield Defect("", f"{table} run {run}", "there is no such run in specs")
    for (run,) in journal.query("SELECT run FROM specs WHERE run NOT IN (SELECT run FROM leases)"):
        yield Defect("", f"specs run {run}", "there is no such run in leases")


# -- a run -------------------------------------------------------------------------------------------------------


def run_defects(journal: Journal, run: int, run_id: str) -> Iterator[Defect]:
    """Yield what is wrong with one run, whatever stands in its rows."""
    columns, begins = journal.root_columns(run), None
    if columns["parent_run_id"] is not None or columns["parent_seq"] is not None:
        try:
            begins = beginning_of(journal, run)
        except JournalDamaged as error:
            yield Defect(run_id, "specs", str(error))
            return
    root = root_hash(columns, begins.row[_HASH] if begins is not None else b"")
    if root != journal.query("SELECT root_hash FROM specs WHERE run = ?", (run,))[0][0]:
        yield Defect(run_id, "specs", "the immutable columns do not fit their hash")
    walk = _Walk(run, run_id, root, columns["spec_payload"])
    if begins is not None:
        walk.begin(begins)
    walk.claims[columns["spec_payload"]] = (columns["spec"], None)
    for values in journal.iterate_rows(run, _BATCH):
        yield from walk.check(values)
    yield from _view_defects(journal, walk)
    documents = {document.number: document for document in journal.stored_documents(run)}
    expected, whole = _expected_documents(journal, walk)
    yield from _payload_defects(journal, walk, documents)
    yield from _document_defects(walk, documents, expected, whole=whole)
    for place, problem in erasure_problems(journal, run, root, walk.count):
        yield Defect(run_id, place, problem)


@dataclass(slots=True)
class _Walk:
    """
    The state of one pass over the rows of a run.

    Attributes:
        run, run_id: Which run.
        head: Hash of the last row.
        spec_payload: Number of the spec's payload.
        seq, state: What the next row must have.
        first: Number of the first payload.
        count: Payloads that the rows so far account for.
        claims: Digest and size of payloads as rows and results name them, None where they name only the number.
        results: Payloads whose documents must stand in `documents`: the spec, and each observed result.
        pending: Result that was executed and not yet observed.
        last: The last row.
        rising: Its counters that never fall.
    """

    run: int
    run_id: str
    head: bytes
    spec_payload: int
    seq: int = 0
    state: str = PLANNING
    first: int = 0
    count: int = 0
    claims: dict[int, tuple[Any, Any]] = field(default_factory=dict)
    results: list[int] = field(default_factory=list)
    pending: list[int] = field(default_factory=list)
    last: tuple[Any, ...] | None = None
    rising: tuple[int, ...] = (0,) * 7

    def __post_init__(self) -> None:
        self.count = self.spec_payload + 1
        self.results = [self.spec_payload]

    def begin(self, begins: Beginning) -> None:
        """Stand after the last row that a fork shares; its inputs stand under an ancestor."""
        part, row = begins.part, begins.row
        self.seq, self.state, self.last, self.rising = part.first_seq, row[5], row, row[_RISING]
        self.first = part.first_payload
        self.count = max(self.first, self.spec_payload + 1)
        self.results, self.pending = [], list(begins.pending)

    def check(self, values: tuple[Any, ...]) -> Iterator[Defect]:
        """Yield what is wrong with the next row, then stand after it."""
        place = f"transitions seq {values[1]}"
        for problem in (*self._chain_problems(values), *self._reference_problems(values)):
            yield Defect(self.run_id, place, problem)
        self.head, self.seq, self.state, self.last = values[_HASH], values[1] + 1, values[5], values
        self.rising = values[_RISING]

    def _chain_problems(self, values: tuple[Any, ...]) -> Iterator[str]:
        if values[1] != self.seq or values[0] != self.run:
            yield f"expected seq {self.seq} of run {self.run}: rows are missing or moved"
        if values[_PREV] != self.head:
            yield "prev_hash is not the hash of the row before"
        if chained(values[_PREV], values[:_PREV]) != values[_HASH]:
            yield "the row does not fit its hash"
        if values[4] != self.state or (values[4], values[3], values[5]) not in _EDGES:
            yield f"{values[3]} from {values[4]} to {values[5]} is not in the table here"
        rising = values[_RISING]
        if any(map(lt, rising, self.rising)):
            yield "a counter that only rises has fallen"

    def _reference_problems(self, values: tuple[Any, ...]) -> Iterator[str]:
        """Take note of the payloads that a row refers to; one number must always have one digest and one size."""
        objects = _json_objects([values[index] for index in _JSON_COLUMNS.values()])
        for name, data in zip(_JSON_COLUMNS, objects, strict=True):
            if data is None:
                yield f"{name} is not a JSON object"
        request, outcome, changed = objects[1] or {}, objects[2] or {}, objects[3] or {}
        for data in (request, outcome, changed):
            for reference in _references(data):
                yield from self.claim(reference)
        recalled = request.get("payloads")
        for number in recalled if isinstance(recalled, list) else ():
            if _number(number):
                self.claims.setdefault(number, (None, None))
        change: Any = changed.get("n")
        if not _number(change) or change < self.count:
            yield "its change is not a payload of its own"
            return
        self.count = change + 1
        if values[3] == "execute":
            self.pending = [change]
        elif values[3] == "observe":
            self.results += self.pending
            self.pending = []

    def claim(self, reference: dict[str, Any]) -> Iterator[str]:
        """Take note of one reference; yield what contradicts an earlier one."""
        number, digest, size = reference["n"], reference.get("digest"), reference.get("bytes")
        known_digest, known_size = self.claims.get(number, (None, None))
        if None not in (digest, known_digest) and digest != known_digest:
            yield f"payload {number} is named with two digests"
        if None not in (size, known_size) and size != known_size:
            yield f"payload {number} is named with two sizes"
        self.claims[number] = (known_digest or digest, known_size if known_size is not None else size)


_RISING = slice(10, 17)
"""Places of step, action, retries, tokens, cost and time in a row; a clock may go back, they may not."""

_JSON_COLUMNS = {"guards": 6, "request": 7, "outcome": 8, "change": 9, "counters": 17}


def _references(data: Any) -> list[dict[str, Any]]:
    """Return every reference to a payload within a row's JSON: an object with a number ``n``."""
    found, left = [], [data]
    while left:
        item = left.pop()
        if type(item) is dict:
            if _number(item.get("n")):
                found.append(item)
                continue
            item = item.values()
        left += [value for value in item if type(value) is dict or type(value) is list]
    return found


def _json_objects(texts: list[str]) -> list[dict[str, Any] | None]:
    """Return the JSON objects that *texts* hold, None for anything else; read together where all is well."""
    try:
        found = orjson.loads("[[" + "],\n[".join(texts) + "]]")  # no text can hide a line break in a string
        if len(found) == len(texts) and all(len(item) == 1 and type(item[0]) is dict for item in found):
            return [item[0] for item in found]
    except orjson.JSONDecodeError:
        pass
    return [_json(text) for text in texts]


def _view_defects(journal: Journal, walk: _Walk) -> Iterator[Defect]:
    """Compare the derived columns of the view `runs` with what the rows say."""
    row = walk.last
    ended = row is not None and row[5] in (DONE, FAILED)
    expected = {
        "state": walk.state,
        "status": {DONE: "done", FAILED: "failed"}.get(walk.state)
        or ("waiting" if row is not None and row[3] == "wait" else "running"),
        "reason": (_json(row[17]) or {}).get("stop") if row is not None and ended else None,
        "ended_at": row[2] if row is not None and ended else None,
        "head_seq": walk.seq - 1,
        "head_hash": walk.head,
    }
    try:
        found = journal.query(f"SELECT {', '.join(expected)} FROM runs WHERE run = ?", (walk.run,))
    except JournalBusy:
        raise
    except JournalError as error:
        yield Defect(walk.run_id, "view runs", str(error))
        return
    if found != [tuple(expected.values())]:
        yield Defect(walk.run_id, "view runs", "its derived columns are not what the rows say")


def _expected_documents(journal: Journal, walk: _Walk) -> tuple[dict[int, dict[str, Any]], bool]:
    """Return the documents that spec and results name, by number, and whether none of those was erased."""
    expected: dict[int, dict[str, Any]] = {}
    whole = True
    for place in (*walk.results, *walk.pending):
        payload = journal.find_payload(walk.run, place)
        data = _json(payload.body) if payload is not None and isinstance(payload.body, str) else None
        try:
            found = [_columns(document) for document in _documents(data, spec=place == walk.spec_payload)]
        except (KeyError, TypeError, AttributeError):  # erased, or its own defect tells that it was changed
            whole = False
            continue
        for number, columns in found:
            if place not in walk.pending:  # the row that stores them is the next one
                expected[number] = columns
            walk.claims.setdefault(columns["payload"], (columns["digest"], columns["bytes"]))
    return expected, whole


def _documents(data: Any, *, spec: bool) -> list[Any]:
    result = data if spec else data["result"]
    return list(result.get("documents") or ())


def _columns(document: Any) -> tuple[int, dict[str, Any]]:
    """Return number and columns of a row of `documents` as a spec or a result names them."""
    payload = document["payload"]
    if not (_number(document["number"]) and _number(payload["n"])):
        raise TypeError("a document or payload without a number")
    columns = {name: document[name] for name in ("label", "position", "name", "mime")}
    columns |= {"bytes": payload["bytes"], "digest": payload["digest"], "payload": payload["n"]}
    return document["number"], columns


def _payload_defects(journal: Journal, walk: _Walk, documents: dict[int, StoredDocument]) -> Iterator[Defect]:
    named: dict[int, list[StoredDocument]] = {}
    for document in documents.values():
        named.setdefault(document.payload, []).append(document)
    for place, problem in claim_problems(journal, walk.run, walk.first, walk.claims):
        yield Defect(walk.run_id, place, problem)
    expected = walk.first
    for payload in journal.iterate_payloads(walk.run, 200):
        place = f"payloads n {payload.n}"
        if payload.n != expected:
            yield Defect(walk.run_id, place, f"expected n {expected}: payloads are missing")
        expected = payload.n + 1
        digest, size = walk.claims.get(payload.n, (None, None))
        if digest not in (None, payload.digest.hex()):
            yield Defect(walk.run_id, place, "its digest is not the one that is referred to")
        for document in named.pop(payload.n, ()):
            if document.digest != payload.digest.hex():
                yield Defect(
                    walk.run_id, f"documents number {document.number}", "digest is not its payload's"
                )
        if payload.body is None and payload.salt is None:
            continue
        if payload.salt is None or payload.body is None:
            yield Defect(walk.run_id, place, "is neither whole nor erased")
            continue
        if salted_digest(payload.salt, payload.body, payload.media_type) != payload.digest:
            yield Defect(walk.run_id, place, "body, salt and media type do not fit its digest")
        if size is not None and size != len(encoded(payload.body)):
            yield Defect(walk.run_id, place, "its size is not the one that is referred to")
    if expected != walk.count:
        told = f"{expected - walk.first} are there, the last row counts {walk.count - walk.first}"
        yield Defect(walk.run_id, "payloads", told)
    for number in sorted(number for number in {*walk.claims, *named} if number >= expected):
        yield Defect(walk.run_id, f"payloads n {number}", "is referred to and missing")


def _document_defects(
    walk: _Walk, stored: dict[int, StoredDocument], expected: dict[int, dict[str, Any]], *, whole: bool
) -> Iterator[Defect]:
    """Compare the table of documents with what spec and results say; what was erased cannot be compared."""
    for number, document in expected.items():
        place, found = f"documents number {number}", stored.get(number)
        if found is None:
            yield Defect(walk.run_id, place, "is missing")
            continue
        for name, value in document.items():
            if getattr(found, name) != value:
                yield Defect(walk.run_id, place, f"{name} is not what its result says")
    for number in sorted(stored.keys() - expected.keys()):
        if whole:
            yield Defect(walk.run_id, f"documents number {number}", "no result has produced it")


def _number(value: Any) -> bool:
    """Whether *value* can be the number of a payload."""
    return type(value) is int and 0 <= value < 2**32


def _json(text: str) -> dict[str, Any] | None:
    """Return a JSON object, None for anything else."""
    try:
        data = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return data if isinstance(data, dict) else None
