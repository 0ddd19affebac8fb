"""
Replay: derive every request, guard, decision and counter of a run again, and compare with what was recorded.

Offline: outcomes come from the journal, nothing is asked or performed. Without an engine the spec's own templates,
policy and schemas are used, so a difference means that the journal was altered or paor decides differently now.
With an engine its templates, policy and schemas are used, so a changed prompt or guard is named. It fails closed: a
record that is missing is a divergence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import orjson
from msgspec.structs import replace
from pydantic import ValidationError

from ..states.actions import StoredText
from ..states.errors import JournalDamaged, PaorError, ReplayDiverged, UsageError
from ..states.outcomes import (
    Answered,
    Cancelled,
    Ended,
    InDoubt,
    ModelFault,
    Nought,
    Outcome,
    Recalled,
    Replied,
    Usage,
)
from ..states.requests import NOTHING, ModelRequest, Recall, Request, ToolRequest
from ..states.run import Change, Counters, Run, initial_run
from ..states.spec import Spec
from ..states.waiting import Answer
from .fold import apply
from .journal import Journal, Transition
from .journal_reading import JournalReader
from .kit import Kit
from .machine import Decision, Moment, decide, request_of
from .record import counters_text


@dataclass(frozen=True, slots=True)
class Divergence:
    """
    One difference between record and derivation.

    Attributes:
        seq: Row.
        field: What differs: ``trigger``, ``guards``, ``request.prompt``, ``change``, ``step`` and so on.
        expected: As recorded.
        found: As derived now.
    """

    seq: int
    field: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"row {self.seq}, {self.field}: recorded {self.expected}, derived {self.found}"


@dataclass(frozen=True, slots=True)
class Replay:
    """
    What a replay found.

    Attributes:
        run_id: The run.
        transitions: Rows compared.
        identical: Whether nothing differs.
        divergences: Every difference, in order; after the first row that decides otherwise the record is followed.
    """

    run_id: str
    transitions: int
    identical: bool
    divergences: tuple[Divergence, ...]

    def raise_if_diverged(self) -> None:
        """Raise `ReplayDiverged` with the first difference, if there is one."""
        if self.divergences:
            raise ReplayDiverged(f"run {self.run_id}: {self.divergences[0]}")


class SpecSource(Protocol):
    """An engine, as far as a replay needs one: what it would start a recorded run with now."""

    def current_spec(self, spec: Spec) -> Spec:
        """Return *spec* with this engine's templates, tools and policy."""
        ...


def replay(journal: Journal, run_id: str, engine: SpecSource | None = None) -> Replay:
    """
    Derive a run again from its recorded outcomes and compare field by field.

    Args:
        journal: That holds it.
        run_id: Its id.
        engine: Compare with this engine's templates, policy and schemas; None: with the spec's own.

    Returns:
        Every difference; `Replay.raise_if_diverged` turns the first into an error.

    Raises:
        UnknownRun: There is none.
        JournalDamaged: Its spec cannot be read.
    """
    if not isinstance(journal, JournalReader):
        raise UsageError("replay takes a Journal, such as replay(engine.journal, run_id)")
    row = journal.run(run_id)
    try:
        spec = journal.spec(row.run_id)
    except ValidationError as error:
        raise JournalDamaged(
            f"run {row.run_id}: its spec cannot be read ({error.error_count()} errors)"
        ) from None
    if engine is not None:
        spec = engine.current_spec(spec)
    run, kit = initial_run(row.run_id, row.run, spec), Kit(spec)
    divergences: list[Divergence] = []
    transitions = journal.transitions(row.run_id)
    for transition in transitions:
        try:
            divergences.extend(_replayed_row(journal, kit, run, transition))
            run = _follow(journal, run, transition)
        except _UNREADABLE as error:
            found = _short(f"{type(error).__name__}: {error}")
            divergences.append(Divergence(transition.seq, "record", "a readable row", found))
            break
    if not divergences and run.state != row.state:
        divergences.append(Divergence(run.seq - 1, "runs.state", row.state, run.state))
    return Replay(row.run_id, len(transitions), not divergences, tuple(divergences))


_UNREADABLE = (PaorError, ValueError, LookupError, TypeError, AttributeError, AssertionError)
"""What reading a record can raise that is not as paor wrote it."""


def _follow(journal: Journal, run: Run, row: Transition) -> Run:
    """Return *run* after the recorded row."""
    body = journal.payload(run.number, row.change["n"]).body
    if body is None:
        raise JournalDamaged("the change has been erased")
    counters = replace(
        run.counters,
        **{name: getattr(row, name) for name in _COLUMNS},
        **_other_counters(row),
    )
    return apply(
        run,
        trigger=row.trigger,
        dest=row.dest,
        counters=counters,
        change=Change.read(body),
        outcome=dict(row.outcome),
    )


_COLUMNS = ("step", "action", "retries", "tokens_in", "tokens_out", "cost_micro", "time_us")


def _other_counters(row: Transition) -> dict[str, Any]:
    defaults = Counters()
    others = {name: getattr(defaults, name) for name in Counters.__struct_fields__ if name not in _COLUMNS}
    return others | dict(row.counters)


def _replayed_row(journal: Journal, kit: Kit, run: Run, row: Transition) -> Iterator[Divergence]:
    """Yield what differs at one row."""
    if row.seq != run.seq or row.source != run.state:
        yield Divergence(row.seq, "place", f"{row.source} at {row.seq}", f"{run.state} at {run.seq}")
        return
    uncalled = row.outcome.get("kind") in ("cancelled", "answer")
    yield from _compare_request(journal, kit, run, row, NOTHING if uncalled else request_of(run))
    try:
        outcome = _recorded_outcome(journal, run, row)
        moment = Moment(row.at, row.time_us - run.counters.time_us)
        decision = decide(run, outcome, moment, kit)
    except _UNREADABLE as error:
        yield Divergence(row.seq, "outcome", "a readable outcome", _short(f"{type(error).__name__}: {error}"))
        return
    yield from _compare_decision(journal, run, row, decision)


def _compare_request(
    journal: Journal, kit: Kit, run: Run, row: Transition, request: Request
) -> Iterator[Divergence]:
    kind = _kind_of(request)
    if row.request.get("kind") != kind:
        yield Divergence(row.seq, "request.kind", str(row.request.get("kind")), kind)
        return
    if not isinstance(request, ModelRequest):
        derived: dict[str, Any] = {"kind": kind}
        if isinstance(request, Recall):
            derived["payloads"] = [place.n for place in request.payloads]
        elif isinstance(request, ToolRequest):
            derived |= {"tool": request.intent.tool, "effect": request.intent.effect}
        yield from _compare_maps(row.seq, "request", dict(row.request), derived)
        return
    if row.request.get("attempt", 0) != request.attempt:
        yield Divergence(row.seq, "request.attempt", str(row.request.get("attempt", 0)), str(request.attempt))
    for name in sorted(row.request.keys() - {"kind", "model", "prompt", "attempt"}):
        yield Divergence(row.seq, f"request.{name}", _short(str(row.request[name])), "(nothing)")
    messages = [message.text for message in kit.messages(request.kind, run)]
    recorded = [journal.payload(run.number, place["n"]).body for place in row.request.get("prompt", ())]
    if len(messages) != len(recorded):
        yield Divergence(row.seq, "request.prompt", f"{len(recorded)} messages", f"{len(messages)} messages")
        return
    for old, new in zip(recorded, messages, strict=True):
        if (old.decode("utf-8", "surrogatepass") if isinstance(old, bytes) else old) != new:
            yield Divergence(row.seq, "request.prompt", *_first_difference(old, new))


def _kind_of(request: Request) -> str:
    if isinstance(request, ModelRequest):
        return request.kind
    if isinstance(request, ToolRequest):
        return "tool"
    return "recall" if isinstance(request, Recall) else "none"


def _first_difference(old: str | bytes | None, new: str) -> tuple[str, str]:
    """Return the first line that differs, as recorded and as derived."""
    if old is None:
        return "(erased)", _short(new)
    text = old if isinstance(old, str) else old.decode("utf-8", "replace")
    before, after = text.split("\n"), new.split("\n")
    for index in range(max(len(before), len(after))):
        left = before[index] if index < len(before) else "(end)"
        right = after[index] if index < len(after) else "(end)"
        if left != right:
            return f"line {index + 1}: {_short(left)}", f"line {index + 1}: {_short(right)}"
    return _short(text), _short(new)


def _recorded_outcome(journal: Journal, run: Run, row: Transition) -> Outcome:
    """Return the outcome that a row recorded, its texts read from the payloads."""
    facts = row.outcome
    kind = facts["kind"]
    if kind == "reply":
        place = StoredText(**facts["reply"])
        text, finish = _text(journal, run, place.n), facts.get("finish", "stop")
        asked = facts.get("request_id"), facts.get("attempts", 1)
        return Replied(text, place, finish, _usage(facts, 1), *asked)
    if kind == "fault":
        place = StoredText(**facts["message"])
        usage = _usage(facts, facts.get("calls", 0))
        message = _text(journal, run, place.n)
        return ModelFault(facts["code"], message, place, usage, facts.get("request_id"))
    if kind == "recalled":
        bodies = [journal.payload(run.number, number).body for number in row.request["payloads"]]
        return Recalled(tuple(body if isinstance(body, str) else None for body in bodies))
    if kind == "answer":
        place = StoredText(**facts["answer"])
        return Answered(Answer.model_validate_json(_text(journal, run, place.n)), place)
    if kind == "result":
        return _recorded_result(journal, run, row)
    plain: dict[str, Outcome] = {"none": Nought(), "in_doubt": InDoubt(), "cancelled": Cancelled()}
    return plain[kind]


def _recorded_result(journal: Journal, run: Run, row: Transition) -> Ended:
    """The result stands in the row's change, usage and the tool's own requests in its outcome."""
    facts = row.outcome
    change = Change.read(_text(journal, run, row.change["n"]))
    if not change.result:
        raise JournalDamaged("a result is missing in the change")
    texts = tuple((StoredText(**prompt), StoredText(**reply)) for prompt, reply in facts.get("texts", ()))
    return Ended(change.result, _usage(facts, len(texts)), texts, tuple(facts.get("request_ids", ())))


def _usage(facts: Mapping[str, Any], calls: int) -> Usage:
    """Return the usage that a row's outcome tells of; what it leaves out is 0."""
    return Usage(calls, *(facts.get(name, 0) for name in Usage.__struct_fields__[1:]))


def _text(journal: Journal, run: Run, number: int) -> str:
    body = journal.payload(run.number, number).body
    if body is None:
        raise JournalDamaged(f"payload {number} has been erased; what follows from it cannot be checked")
    return body if isinstance(body, str) else body.decode("utf-8", "surrogatepass")


def _compare_decision(
    journal: Journal, run: Run, row: Transition, decision: Decision
) -> Iterator[Divergence]:
    for name, found in (("trigger", decision.row.trigger), ("dest", decision.row.dest)):
        if getattr(row, name) != found:
            yield Divergence(row.seq, name, str(getattr(row, name)), found)
    for guard in sorted({*row.guards, *decision.guards}):
        old, new = row.guards.get(guard), decision.guards.get(guard)
        if old is not new:
            yield Divergence(row.seq, f"guards.{guard}", str(old), str(new))
    counters = decision.counters
    for name in _COLUMNS:
        if getattr(row, name) != getattr(counters, name):
            yield Divergence(row.seq, name, str(getattr(row, name)), str(getattr(counters, name)))
    yield from _compare_maps(row.seq, "counters", dict(row.counters), orjson.loads(counters_text(counters)))
    yield from _compare_maps(row.seq, "outcome", dict(row.outcome), decision.facts)
    body = journal.payload(run.number, row.change["n"]).body
    derived = decision.change.wire_json()
    if body != derived:
        yield from _compare_change(row.seq, body, derived)


def _compare_maps(seq: int, place: str, old: dict[str, Any], new: dict[str, Any]) -> Iterator[Divergence]:
    for name in sorted({*old, *new}):
        if old.get(name) != new.get(name):
            yield Divergence(seq, f"{place}.{name}", _short(str(old.get(name))), _short(str(new.get(name))))


def _compare_change(seq: int, body: str | bytes | None, derived: str) -> Iterator[Divergence]:
    if body is None:
        yield Divergence(seq, "change", "(erased)", _short(derived))
        return
    try:
        old, new = orjson.loads(body), orjson.loads(derived)
    except orjson.JSONDecodeError:
        yield Divergence(seq, "change", _short(str(body)), _short(derived))
        return
    for slot in sorted({*old, *new}):
        before, after = old.get(slot), new.get(slot)
        if before == after and (slot in old) == (slot in new):
            continue
        if isinstance(before, dict) and isinstance(after, dict):
            yield from _compare_maps(seq, f"change.{slot}", before, after)
        else:
            yield Divergence(seq, f"change.{slot}", _short(str(before)), _short(str(after)))


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 160 else line[:157] + "..."


__all__ = ["Divergence", "Replay", "replay"]
