"""
Replay: derive every request, guard, decision and counter of a run again, and compare with what was recorded.

Offline: outcomes come from the journal, nothing is asked or performed. Without an engine the spec's own templates,
policy and schemas are used, so a difference means that the journal was altered or paor decides differently now.
With an engine its templates, policy and schemas are used, so a changed prompt or guard is named. It fails closed: a
record that is missing is a divergence.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import orjson
from msgspec.structs import replace
from pydantic import ValidationError

from ..prompts.model import PromptMessage, prompt_bytes
from ..states.budgets import refusal, reservation
from ..states.errors import JournalDamaged, PaorError, ReplayDiverged, UsageError
from ..states.requests import NOTHING, ModelRequest, Recall, Request, ToolRequest
from ..states.run import Change, Counters, Run
from ..states.spec import Spec
from .fold import apply
from .journal import Journal, Transition
from .journal_reading import JournalReader
from .kit import Kit
from .machine import Decision, Moment, decide, request_of
from .record import counters_text
from .recorded import recorded_outcome
from .resuming import handed_over

if TYPE_CHECKING:
    from .replay_erased import Unchecked


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
        identical: Whether everything was compared and nothing differs.
        divergences: Every difference, in order; after the first row that decides otherwise the record is followed.
        unchecked: What could not be compared, because it or what it follows from was erased.
    """

    run_id: str
    transitions: int
    identical: bool
    divergences: tuple[Divergence, ...]
    unchecked: tuple[Unchecked, ...] = ()

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
    from .replay_erased import erased_numbers, replay_erased

    if gone := erased_numbers(journal, row.run):
        return replay_erased(journal, row, engine, gone)
    parts = {part.run: (part, _spec(journal, part.run_id, engine)) for part in journal.lineage(row.run)}
    part, spec = next(iter(parts.values()))
    run, kit = handed_over(None, part, spec), Kit(spec)
    divergences: list[Divergence] = []
    transitions = journal.transitions(row.run_id)
    for transition in transitions:
        if transition.run != run.number:  # the fork's own rows begin, with what it was started with
            part, spec = parts[transition.run]
            run, kit = handed_over(run, part, spec), Kit(spec)
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


def _spec(journal: Journal, run_id: str, engine: SpecSource | None) -> Spec:
    """Return what a run is derived with."""
    try:
        spec = journal.spec(run_id)
    except ValidationError as error:
        raise JournalDamaged(
            f"run {run_id}: its spec cannot be read ({error.error_count()} errors)"
        ) from None
    return spec if engine is None else engine.current_spec(spec)


_UNREADABLE = (PaorError, ValueError, LookupError, TypeError, AttributeError, AssertionError)
"""What reading a record can raise that is not as paor wrote it."""


def _follow(journal: Journal, run: Run, row: Transition) -> Run:
    """Return *run* after the recorded row."""
    body = journal.payload(run.number, row.change["n"]).body
    if body is None:
        raise JournalDamaged("the change has been erased")
    return apply(
        run,
        trigger=row.trigger,
        dest=row.dest,
        counters=_recorded_counters(run, row),
        change=Change.read(body),
        outcome=dict(row.outcome),
    )


def _recorded_counters(run: Run, row: Transition) -> Counters:
    """Return the counters of *run* as the row has them."""
    return replace(
        run.counters,
        **{name: getattr(row, name) for name in _COLUMNS},
        **_other_counters(row),
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
    kind = row.outcome.get("kind")  # a cancelled run may have had a call open, and then names it
    uncalled = kind == "answer" or (kind == "cancelled" and row.request.get("kind") == "none")
    yield from _compare_request(journal, kit, run, row, NOTHING if uncalled else request_of(run))
    try:
        outcome = recorded_outcome(journal, run, row)
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
    for name in sorted(row.request.keys() - {"kind", "model", "prompt", "attempt", "reserved"}):
        yield Divergence(row.seq, f"request.{name}", _short(str(row.request[name])), "(nothing)")
    prompt = kit.messages(request.kind, run)
    yield from _compare_reservation(run, row, prompt)
    messages = [message.text for message in prompt]
    recorded = [journal.payload(run.number, place["n"]).body for place in row.request.get("prompt", ())]
    if len(messages) != len(recorded):
        yield Divergence(row.seq, "request.prompt", f"{len(recorded)} messages", f"{len(messages)} messages")
        return
    for old, new in zip(recorded, messages, strict=True):
        if (old.decode("utf-8", "surrogatepass") if isinstance(old, bytes) else old) != new:
            yield Divergence(row.seq, "request.prompt", *_first_difference(old, new))


def _compare_reservation(run: Run, row: Transition, prompt: Sequence[PromptMessage]) -> Iterator[Divergence]:
    """Yield where a request was reserved, made or refused otherwise than its prompt and the budgets say."""
    limits, short, tokens = run.spec.limits, None, None
    if limits.reply_tokens is not None:
        wanted = reservation(limits, run.counters, prompt_bytes(prompt))
        tokens, short = wanted.tokens, refusal(limits, run.counters, wanted)
    if row.request.get("reserved") != tokens:
        yield Divergence(row.seq, "request.reserved", str(row.request.get("reserved")), str(tokens))
    refused = row.outcome.get("stop") if row.outcome.get("kind") == "unaffordable" else None
    if refused != short:
        yield Divergence(row.seq, "request.refused", str(refused), str(short))


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
