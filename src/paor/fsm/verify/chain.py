"""
The rows of one run in order: every hash, every link, every transition, and what the rows refer to.

A million rows pass through `ChainWalk.rows`, so its loop is one function without calls that could be done without; JSON that has been
read once is known by its text.

Which rows a run may take: those of the table, or of the host's own machine that its spec records.

Once that record was erased nobody can say which machine it was. What no machine of any host can have is a defect even then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from typing import Any, NamedTuple

from msgspec import DecodeError, MsgspecError

from ...states.base.errors import UsageError
from ...states.run.phase_names import FAILED, OBSERVING, PHASES, PLANNING, SPECIFYING
from ..journal.record import decode_row, encode_row, guards_column
from ..machine.table import ROWS, Row
from .references import (
    ERASED,
    Claim,
    Promised,
    is_number,
    json_object,
    named_change,
    promised_documents,
    references,
    refers_to_nothing,
)

Edge = tuple[str, str, str]
"""Source, trigger and destination."""


class Walked(NamedTuple):
    """
    What is known of the machine that a run walks.

    Attributes:
        initial: The phase in which a run begins.
        edges: Every row that it can take.
        known: Whether that is all; False where the spec that says so cannot be read.
        problem: Why no run may walk it; empty where one may.
    """

    initial: str
    edges: frozenset[Edge]
    known: bool = True
    problem: str = ""


STANDARD_WALK = Walked(PLANNING, frozenset((row.source, row.trigger, row.dest) for row in ROWS))
UNKNOWN = STANDARD_WALK._replace(known=False)


def walked_by(spec: dict[str, Any] | None) -> Walked:
    """Return what a spec says of the machine, `UNKNOWN` for one that was erased or changed."""
    if spec is None:
        return UNKNOWN
    text = spec.get("host_machine", "")
    return STANDARD_WALK if text == "" else _recorded(text) if isinstance(text, str) else UNKNOWN


@lru_cache(maxsize=64)
def _recorded(text: str) -> Walked:
    from ..machine.decide import (
        machine_told,  # with all that decides, as below: a host's own machine alone needs it
    )

    try:
        machine = machine_told(text)
    except (UsageError, ValueError, TypeError) as error:
        return UNKNOWN._replace(problem=" ".join(str(error).split()))
    edges = frozenset((row.source, row.trigger, row.dest) for row in machine.rows)
    return Walked(machine.host.initial, edges)


def may_be_own(source: str, trigger: str, dest: str) -> bool:
    """Whether a row that is not in the table can be one of a host's own machine at all."""
    from ..machine.host_checks import way_problem

    own = source not in PHASES
    if source == OBSERVING:
        return trigger == "observe" and dest not in PHASES
    if trigger in ("wait", "provide", "reask"):
        return own and dest == source
    if trigger in ("call", "fail"):
        return own and dest == (SPECIFYING if trigger == "call" else FAILED)
    return way_problem(Row(source, trigger, dest, (), "")) is None


NUMBERS = 2**32 - 1
"""The part of a key that is the number within the run."""

_KNOWN = ("counters", "request", "outcome")
"""Columns whose texts come again and again."""
KNOWN_TEXTS = 4096
"""JSON texts of a run that are recognised when they come again."""

Found = list[tuple[str, str]]
"""Defects as place and problem."""


Event = tuple[int, Promised | None]
"""The number of a result's payload, and the documents that its row counts."""


def _nothing(number: int) -> bytes | None:
    return None


def counted_documents(outcome: str | bytes) -> Promised | None:
    """Return the documents that the outcome of an ``execute`` row counts, None when it says nothing of them."""
    told = json_object(outcome) or {}
    return promised_documents(told.get("first"), told.get("documents"), told.get("label"))


@dataclass(slots=True)
class ChainWalk:
    """
    Where one pass over the rows of a run stands.

    Attributes:
        run, run_id: Which run.
        head: Hash of the last row.
        spec_payload: Number of the spec's payload.
        first: Number of the first payload; of a fork the ones before it stand under an ancestor.
        seq, state: What the next row must have.
        machine: Whose rows they must be.
        text_of: Returns the text of one of its payloads by number, None once it was erased.
        count: Payloads that the rows so far account for.
        claims: What rows have said of payloads since the last look at those.
        events: What the last rows did, in order: for an ``execute`` the number of the payload that it set and the documents
            that it counts, None for ``observe``.
        shared_result: Of a fork the same of the result that its last shared row has recorded and that nobody has observed.
        input_label: Of the run's input documents, `ERASED` if only its spec knows it.
        inputs: What its first row says of those; None before it.
        last: Trigger, time and counters of the last row.
        rising: Its counters that never fall.
        unheld: Rows that are not in the table, and the record of the machine whose they may be was erased.
        found: What is wrong.
    """

    run: int
    run_id: str
    head: bytes
    spec_payload: int
    first: int = 0
    seq: int = 0
    state: str = STANDARD_WALK.initial
    machine: Walked = STANDARD_WALK
    text_of: Callable[[int], bytes | None] = _nothing
    count: int = 0
    claims: dict[int, Claim] = field(default_factory=dict)
    events: list[Event | None] = field(default_factory=list)
    shared_result: Event | None = None
    input_label: Any = ERASED
    inputs: Promised | None = None
    last: tuple[str, int, str] | None = None
    rising: tuple[int, ...] = (0,) * 7
    unheld: list[int] = field(default_factory=list)
    found: Found = field(default_factory=list)
    _known: set[bytes] = field(default_factory=set)

    def take_spec(self, spec: dict[str, Any] | None) -> None:
        """Take note of the machine that the rows walk; *spec* is None where it cannot be read."""
        self._walk(spec, self.seq)
        if self.seq == 0:
            self.state = self.machine.initial

    def _walk(self, spec: dict[str, Any] | None, seq: int) -> None:
        self.machine = walked_by(spec)
        if self.machine.problem:
            self._say(seq, self.machine.problem)

    def rows(self, rows: list[tuple[Any, ...]]) -> None:
        """Check the next rows, given as key, key of the last text, text and hash."""
        head, seq, state = self.head, self.seq, self.state
        step0, action0, retries0, tokens_in0, tokens_out0, cost0, time0 = self.rising
        key = (self.run << 32) + seq - 1
        known, events, edges = self._known, self.events, self.machine.edges
        for own_key, last, text, own_hash in rows:
            key += 1
            own_seq = own_key & NUMBERS
            if own_key != key:
                self._say(own_seq, f"expected seq {seq} of run {self.run}: rows are missing or moved")
                key = own_key
            data = text.encode()
            if sha256(head + data).digest() != own_hash:
                self._say(own_seq, "the row does not fit its hash or the row before")
            head, seq = own_hash, own_seq + 1
            row = self._decoded(own_seq, data)
            if row is None:
                continue
            step, action, retries, tokens_in = row.step, row.action, row.retries, row.tokens_in
            tokens_out, cost, time = row.tokens_out, row.cost_micro, row.time_us
            if (
                step < step0
                or action < action0
                or retries < retries0
                or tokens_in < tokens_in0
                or tokens_out < tokens_out0
                or cost < cost0
                or time < time0
            ):
                self._say(own_seq, "a counter that only rises has fallen")
            outcome = bytes(row.outcome)
            for name, told in zip(
                _KNOWN,
                (bytes(row.counters), bytes(row.request), outcome),
                strict=True,
            ):
                if told not in known:
                    self._read(own_seq, name, told.decode())
                    known.add(told)
                    edges = self.machine.edges
            source, trigger, dest = row.source, row.trigger, row.dest
            if source != state or (source, trigger, dest) not in edges:
                self._check_place(own_seq, state, (source, trigger, dest))
            number = self._read_change(own_seq, bytes(row.change).decode())
            if not is_number(number) or number < self.count or last & NUMBERS != number:
                self._say(own_seq, "its change is not a payload of its own")
            else:
                self.count = number + 1
                if trigger == "execute":
                    events.append((number, counted_documents(outcome)))
                elif trigger == "observe":
                    events.append(None)
            state, self.last = dest, (trigger, row.at, bytes(row.counters).decode())
            step0, action0, retries0, tokens_in0 = step, action, retries, tokens_in
            tokens_out0, cost0, time0 = tokens_out, cost, time
            if self.inputs is None:
                count = (json_object(bytes(row.counters)) or {}).get("documents", 0)
                self.inputs = promised_documents(0, count, self.input_label)
        self.head, self.seq, self.state = head, seq, state
        self.rising = (step0, action0, retries0, tokens_in0, tokens_out0, cost0, time0)
        if len(known) > KNOWN_TEXTS:
            known.clear()

    def _decoded(self, seq: int, data: bytes) -> Any:
        """Return the row in a text, None for one that is none; say where the text is not the one way to write it."""
        try:
            row = decode_row(data)
            guards_column(row.guards, bytes(row.own_guards).decode())
        except (MsgspecError, UnicodeError, RecursionError, ValueError):
            self._say(seq, "the row cannot be read")
            return None
        if row.seq != seq or encode_row(row) != data:
            self._say(seq, "the row is not written as rows are, or under another number")
        return row

    def _say(self, seq: int, problem: str) -> None:
        self.found.append((f"transitions seq {seq}", problem))

    def _check_place(self, seq: int, state: str, edge: Edge) -> None:
        """Say that a row cannot stand where it does; where nobody knows the machine any more, only what none can have."""
        source, trigger, dest = edge
        follows = source == state or (seq == 0 and source not in PHASES)
        if not self.machine.known and follows and may_be_own(*edge):
            self.unheld.append(seq)
            return
        self._say(seq, f"{trigger} from {source} to {dest} is not in the table here")

    def _read_change(self, seq: int, text: str) -> Any:
        """Take note of the payload that a row's change is in; return its number, which may be anything where the row was changed."""
        try:
            named = named_change(text)
        except DecodeError:
            return self._read(seq, "change", text).get("n", -1)
        self.claim(seq, named.n, (named.digest, None))
        return named.n

    def _read(self, seq: int, name: str, text: str) -> dict[str, Any]:
        """Take note of the payloads that a column of a row refers to; return its object, an empty one where it refers to none."""
        if refers_to_nothing(text):
            return {}
        data = json_object(text)
        if data is None:
            self._say(seq, f"{name} is not a JSON object")
            return {}
        for reference in references(data):
            number, claim = reference["n"], (reference.get("digest"), reference.get("bytes"))
            if number >= self.count or claim != (None, None):
                self.claim(seq, number, claim)
        if name == "request" and "spec" in data:
            self._amend(data["spec"], seq)
        recalled = data.get("payloads")
        for number in recalled if isinstance(recalled, list) else ():
            if is_number(number):
                self.claim(seq, number, (None, None))
        return data

    def _amend(self, reference: Any, seq: int) -> None:
        """Go on with the machine that a resume has accepted; nothing changes where the amendment says nothing of it."""
        number: Any = reference.get("n") if isinstance(reference, dict) else None
        body = self.text_of(number) if is_number(number) else None
        told = json_object(body) if body is not None else None
        if told is None or "host_machine" in told:
            self._walk(told, seq)

    def claim(self, seq: int, number: int, claim: Claim) -> None:
        """Take note of what a row says of a payload, and say what contradicts an earlier row."""
        if claim == (None, None) and number < self.count:
            return  # a payload of before, of which nothing new is said
        known = self.claims.setdefault(number, claim)
        if known == claim:
            return
        for what, new, old in zip(("digests", "sizes"), claim, known, strict=True):
            if None not in (new, old) and new != old:
                self._say(seq, f"payload {number} is named with two {what}")
        digest, size = (new if old is None else old for new, old in zip(claim, known, strict=True))
        self.claims[number] = digest, size
