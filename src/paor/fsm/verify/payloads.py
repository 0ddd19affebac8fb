"""The payloads and documents of one run, in step with its rows: digests, sizes, and what was said of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256

from ...states.base.errors import JournalDamaged
from ..journal.payloads import Payload, encode_text
from ..journal.reader import JournalReader
from ..journal.record import NO_LABELS, Labels
from ..journal.scans import Scan
from .chain import NUMBERS, ChainWalk, Found
from .references import ERASED, Columns, Promised, documents_of, is_number, json_object, labels_of

KNOWN_PAYLOADS = 4096
"""Payloads of long ago whose digest is remembered once it was asked for."""

_NAMES = ("label", "position", "name", "mime", "bytes", "digest", "payload")

_TEXT, _UNREAD = ord("T"), ord("?")

Kept = tuple[bytes, int | None]
"""Digest and size of a payload that is there; the size of an erased one is not known."""


@dataclass(slots=True)
class Contents:
    """
    Where the pass over payloads and documents of a run stands.

    Args:
        reader: Snapshot of the journal.
        payloads, documents: The scans, at the run's first row.
        walk: The pass over the rows.

    Attributes:
        found_payloads, found_documents: What is wrong.
        gone: Payloads that are erased: first and last number of each stretch.
        labels: Key, metadata and conversation of the run as its spec says them; none for a fork, and once that is erased.
    """

    reader: JournalReader
    payloads: Scan
    documents: Scan
    walk: ChainWalk
    found_payloads: Found = field(default_factory=list)
    found_documents: Found = field(default_factory=list)
    gone: list[tuple[int, int]] = field(default_factory=list)
    labels: Labels | None = NO_LABELS
    _next: int = 0
    _begun: bool = False
    _inputs: bytes | None = None
    _whole: bool = True
    _pending: list[tuple[int, Columns]] = field(default_factory=list)
    _expected: dict[int, Columns] = field(default_factory=dict)
    _unclaimed: dict[int, Columns] = field(default_factory=dict)
    _recent: dict[int, Kept] = field(default_factory=dict)
    _known: dict[int, Kept] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._next = self.walk.first

    def begin(self) -> None:
        """Read the spec, which says what the rows are held against; of a fork it may stand under an ancestor."""
        walk = self.walk
        walk.text_of = self.text_of
        if walk.first:
            body = self.text_of(walk.spec_payload)
        else:
            limit = (walk.run << 32) + min(walk.count, NUMBERS + 1)
            body = self._inputs = self._read_payloads(limit, {walk.spec_payload}).get(walk.spec_payload)
        spec = json_object(body) if body is not None else None
        walk.take_spec(spec)
        if not walk.first:
            self.labels = labels_of(spec)

    def text_of(self, number: int) -> bytes | None:
        """Return the text of a payload wherever it stands, None for one that is erased or missing."""
        found = self._find(number)
        text = found.body if found is not None and isinstance(found.body, str) else None
        return None if text is None else encode_text(text)

    def _find(self, number: int) -> Payload | None:
        """Return a payload wherever it is, None for one that is missing or cannot be read, which the pass says where it comes to it."""
        try:
            return self.reader.find_payload(self.walk.run, number)
        except JournalDamaged:
            return None

    def follow(self) -> None:
        """Read the payloads and documents that the rows so far account for."""
        walk, recent = self.walk, self._recent
        if self._begun:
            recent.clear()
        wanted = {event[0] for event in walk.events if event is not None}
        first, self._begun = not self._begun, True
        base = walk.run << 32
        bodies = self._read_payloads(base + min(walk.count, NUMBERS + 1), wanted)
        if first and walk.first == 0:  # of a fork the inputs stand under an ancestor
            self._expect(walk.spec_payload, self._inputs, walk.inputs)
            self._inputs = None
            self._observe()
        elif first and walk.shared_result is not None:
            number, counted = walk.shared_result
            self._expect(number, self.text_of(number), counted)
        for event in walk.events:
            if event is None:
                self._observe()
            else:
                self._expect(event[0], bodies.get(event[0]), event[1])
        walk.events.clear()
        if self._expected:
            self._read_documents(base + max(self._expected) + 1)
        self._settle_claims()

    def finish(self) -> None:
        """Read what is left of the run, and say what is missing or too much."""
        walk, end = self.walk, (self.walk.run + 1) << 32
        self.follow()
        self._read_payloads(end, set())
        if self._next != walk.count:
            self.found_payloads.append(
                (
                    "payloads",
                    f"{self._next - walk.first} are there, the last row counts {walk.count - walk.first}",
                )
            )
        self._read_documents(end)
        self._settle_claims()
        for number in sorted(n for n in walk.claims if not walk.first <= n < self._next):
            self.found_payloads.append((f"payloads n {number}", "is referred to and missing"))
        for number in sorted(self._expected):
            self._say_document(number, "is missing")
        for number in sorted(self._unclaimed) if self._whole else ():
            self._say_document(number, "no result has produced it")

    # -- payloads ----------------------------------------------------------------------------------------------

    def _read_payloads(self, limit: int, wanted: set[int]) -> dict[int, bytes]:
        """Check every payload below the key *limit*; return the texts of those that are *wanted*, by number."""
        base, recent = self.walk.run << 32, self._recent
        expected, bodies = self._next, {}
        while rows := self.payloads.take(limit):
            for key, digest, salt, kind, body in rows:
                number = key - base
                if number != expected:
                    self._say_payload(number, f"expected n {expected}: payloads are missing")
                expected = number + 1
                if salt is None or body is None:
                    self._check_erased(number, whole=salt is body)
                    recent[number] = (digest, None)
                    continue
                own = sha256(salt + sha256(body).digest() + kind).digest()
                if not digest:  # it is with its row, and its digest in what refers to it
                    digest = own
                if own != digest or kind[0] == _UNREAD:
                    self._check_slowly(number, kind)
                elif not (body.isascii() and kind.isascii()):
                    self._check_text(number, kind, body)
                recent[number] = (digest, len(body))
                if number in wanted and kind[0] == _TEXT:
                    bodies[number] = body
            self._next = expected
        return bodies

    def _check_erased(self, number: int, *, whole: bool) -> None:
        """Check a payload without salt or body."""
        if not whole:
            self._say_payload(number, "is neither whole nor erased")
        elif self.gone and self.gone[-1][1] == number - 1:
            self.gone[-1] = (self.gone[-1][0], number)
        else:
            self.gone.append((number, number))

    def _check_slowly(self, number: int, kind: bytes) -> None:
        """Check a payload whose bytes do not simply fit: as text, in whatever encoding the file holds it."""
        if kind[0] == _UNREAD:
            self._say_payload(number, "it, or a text of its row, cannot be read")
            return
        payload = self._find(number)
        if payload is None or not isinstance(payload.body, str | bytes) or not payload.fits():
            self._say_payload(number, "body, salt and media type do not fit its digest")

    def _check_text(self, number: int, kind: bytes, body: bytes) -> None:
        """Check that what is stored as text is text; its bytes fit the digest."""
        try:
            (kind + body if kind[0] == _TEXT else kind).decode()
        except UnicodeDecodeError:
            self._say_payload(number, "is stored as text and is no UTF-8")

    def _settle_claims(self) -> None:
        """Hold what was said of payloads against those that are there; the others may still come."""
        claims = self.walk.claims
        left = {}
        for number, claim in claims.items():
            kept = self._recent.get(number) or self._seen_payload(number)
            if kept is None:
                left[number] = claim
                continue
            digest, size = claim
            if digest is not None and digest != kept[0].hex():
                self._say_payload(number, "its digest is not the one that is referred to")
            if size is not None and kept[1] is not None and size != kept[1]:
                self._say_payload(number, "its size is not the one that is referred to")
        self.walk.claims = left

    def _seen_payload(self, number: int) -> Kept | None:
        """Return a payload of before, None when it is not there or was not read yet."""
        if number >= self._next:
            return None
        found = self._known.get(number)
        if found is None:
            payload = self._find(number)
            if payload is None:
                return None
            there = payload.salt is not None and isinstance(payload.body, str | bytes)
            found = (payload.digest, len(encode_text(payload.body or "")) if there else None)
            if len(self._known) >= KNOWN_PAYLOADS:
                self._known.clear()
            self._known[number] = found
        return found

    def _say_payload(self, number: int, problem: str) -> None:
        self.found_payloads.append((f"payloads n {number}", problem))

    # -- documents ---------------------------------------------------------------------------------------------

    def _expect(self, number: int, body: bytes | None, counted: Promised | None) -> None:
        """Take note of the documents that a result names, or its row counts; their rows come with the next transition."""
        named = documents_of(body, spec=number == self.walk.spec_payload) if body is not None else None
        for _, columns in named or ():
            size, digest, payload = columns[-3:]
            self.walk.claims.setdefault(payload, (digest, size))
        if named is None and counted is None:
            self._whole = False  # the inputs of an erased run without a row
        elif named is None and counted is not None:
            named = counted.columns(self._documents_there() + 1)  # one that is missing tells it
        self._pending = named or []

    def _documents_there(self) -> int:
        return self.reader.count_documents(self.walk.run)

    def _observe(self) -> None:
        self._expected.update(self._pending)
        self._pending = []

    def _read_documents(self, limit: int) -> None:
        """Compare the documents below the key *limit* with what spec and results say."""
        base, expected = self.walk.run << 32, self._expected
        while rows := self.documents.take(limit):
            for row in rows:
                number = row[0] - base
                columns = expected.pop(number, None)
                if row[1:] != columns:
                    self._compare(number, row[1:], columns)
        for number in [number for number in self._unclaimed if number in expected]:
            found, columns = self._unclaimed.pop(number), expected.pop(number)
            if found != columns:
                self._compare(number, found, columns)

    def _compare(self, number: int, row: Columns, columns: Columns | None) -> None:
        """Say how a row differs from its result; without one it is at least held against its payload."""
        if columns is None:
            self._unclaimed[number] = row
        else:
            for name, found, value in zip(_NAMES, row, columns, strict=True):
                if found != value is not ERASED:
                    self._say_document(number, f"{name} is not what its result says")
        size, digest, payload = row[-3:]
        if not is_number(payload):
            self._say_document(number, "its payload has no number")
            return
        kept = self._recent.get(payload) or self._seen_payload(payload)
        if kept is None:
            self.walk.claims.setdefault(payload, (None, None))
            return
        if digest != kept[0].hex():
            self._say_document(number, "digest is not its payload's")
        if kept[1] is not None and size != kept[1]:
            self._say_document(number, "its size is not its payload's")

    def _say_document(self, number: int, problem: str) -> None:
        self.found_documents.append((f"documents number {number}", problem))
