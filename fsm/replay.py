"""
Replay: derive every request, guard, decision and counter of a run again, and compare with what was recorded.

Offline: outcomes come from the journal, nothing is asked or performed. Without an engine the spec's own templates,
policy and schemas are used, so a difference means that the journal was altered or paor decides differently now.
With an engine its templates, policy and schemas are used, so a changed prompt or guard is named. It fails closed: a
record that is missing is a divergence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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
from .accepting import changes_of
from .amending import amended
from .changed_parts import ChangedPart
from .fold import apply
from .journal import Journal, Transition
from .journal_reading import JournalReader
from .kit import Kit
from .machine import Decision, Moment, decide, request_of
from .payload_window import PayloadWindow
from .payloads import Payload
from .record import canonical, counters_text
from .replay_facts import (
    Divergence,
    compare_documents,
    compare_fingerprints,
    compare_head,
    compare_result,
    first_difference,
    short,
    template_of,
)


@dataclass(frozen=True, slots=True)
class Replay:
    """
    What a replay found.

    Attributes:
        run_id: The run.
        transitions: Rows compared.
        identical: Whether nothing differs.
        divergences: Every difference, in order; after the first row that decides otherwise the record is followed.
        changed: Parts that are other ones now than when the run was recorded; that alone is no difference.
        accepted: Rows from which on such changes were accepted, each with the parts that it was about.
    """

    run_id: str
    transitions: int
    identical: bool
    divergences: tuple[Divergence, ...]
    changed: tuple[ChangedPart, ...] = ()
    accepted: tuple[tuple[int, tuple[str, ...]], ...] = ()

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
    spec = _spec(journal, row.run_id)
    transitions = [item for item in journal.transitions(row.run_id) if item.seq <= row.head_seq]
    walk = _Walk(PayloadWindow(journal), engine, spec, transitions)
    run = _walked(walk, initial_run(row.run_id, row.run, walk.spec), transitions)
    if run is not None:
        walk.found.extend(compare_documents(journal, row, spec, run, transitions))
        walk.found.extend(compare_head(row, run, transitions))
    present = walk.spec if engine is not None else walk.recorded
    changed = _changed(journal, run, walk.recorded, present) if run is not None else ()
    found = tuple(walk.found)
    return Replay(row.run_id, len(transitions), not found, found, changed, tuple(walk.amended))


def _spec(journal: JournalReader, run_id: str) -> Spec:
    try:
        return journal.spec(run_id)
    except ValidationError as error:
        raise JournalDamaged(
            f"run {run_id}: its spec cannot be read ({error.error_count()} errors)"
        ) from None


def _changed(journal: JournalReader, run: Run, recorded: Spec, present: Spec) -> tuple[ChangedPart, ...]:
    """Return what a present engine, or without one the present code, has changed."""
    return changes_of(journal, replace(run, spec=recorded), present, [tool.name for tool in recorded.tools])


def _walked(walk: _Walk, run: Run, transitions: Sequence[Transition]) -> Run | None:
    """Replay every row; return the run after the last one, None when a row cannot be read."""
    walk.found.extend(compare_fingerprints(-1, walk.recorded))
    for transition in transitions:
        try:
            if "spec" in transition.request:
                run = walk.amend(run, transition)
            before = len(walk.found)
            decision = _replayed_row(walk.store, walk.kit, run, transition, walk.found)
            if decision is None or len(walk.found) > before:
                run = _follow(walk.store, run, transition)
            else:  # what was derived is what was recorded
                run = _next(run, transition, decision.counters, decision.change)
        except _UNREADABLE as error:
            found = short(f"{type(error).__name__}: {error}")
            walk.found.append(Divergence(transition.seq, "record", "a readable row", found))
            return None
    return run


@dataclass(slots=True)
class _Walk:
    """
    What one replay has at hand.

    Attributes:
        store: Payloads.
        engine: To compare with, or None.
        recorded: Spec in force as recorded.
        transitions: All rows; the last one of them that amends the spec tells from where on an engine is compared.
        spec, kit: What rows are derived with.
        amended: Rows that amended the spec, each with the parts that became others.
        found: Every difference so far.
    """

    store: PayloadWindow
    engine: SpecSource | None
    recorded: Spec
    transitions: Sequence[Transition]
    spec: Spec = field(init=False)
    kit: Kit = field(init=False)
    amended: list[tuple[int, tuple[str, ...]]] = field(default_factory=list)
    found: list[Divergence] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._derive()

    def _derive(self) -> None:
        """Before the last amendment rows belong to what was in force then, and no engine of now has a say in them."""
        seq = self.amended[-1][0] if self.amended else -1
        last = not any("spec" in item.request for item in self.transitions if item.seq > seq)
        self.spec = self.engine.current_spec(self.recorded) if self.engine and last else self.recorded
        self.kit = Kit(self.spec)

    def amend(self, run: Run, row: Transition) -> Run:
        """Return *run* with the spec that is in force from *row* on."""
        body = self.store.payload(run.number, row.request["spec"]["n"]).body
        before, self.recorded = self.recorded.fingerprints, amended(self.recorded, body)
        after = self.recorded.fingerprints
        parts = sorted(part for part in {**before, **after} if before.get(part) != after.get(part))
        self.amended.append((row.seq, tuple(parts)))
        self.found.extend(compare_fingerprints(row.seq, self.recorded))
        self._derive()
        return replace(run, spec=self.spec)


_UNREADABLE = (PaorError, ValueError, LookupError, TypeError, AttributeError, AssertionError)
"""What reading a record can raise that is not as paor wrote it."""


def _follow(journal: PayloadWindow, run: Run, row: Transition) -> Run:
    """Return *run* after the recorded row."""
    body = journal.payload(run.number, row.change["n"]).body
    if body is None:
        raise JournalDamaged("the change has been erased")
    counters = replace(
        run.counters,
        **{name: getattr(row, name) for name in _COLUMNS},
        **_other_counters(row),
    )
    return _next(run, row, counters, Change.read(body))


def _next(run: Run, row: Transition, counters: Counters, change: Change) -> Run:
    facts = dict(row.outcome)
    return apply(run, trigger=row.trigger, dest=row.dest, counters=counters, change=change, outcome=facts)


_COLUMNS = ("step", "action", "retries", "tokens_in", "tokens_out", "cost_micro", "time_us")


def _other_counters(row: Transition) -> dict[str, Any]:
    defaults = Counters()
    others = {name: getattr(defaults, name) for name in Counters.__struct_fields__ if name not in _COLUMNS}
    return others | dict(row.counters)


def _replayed_row(
    journal: PayloadWindow, kit: Kit, run: Run, row: Transition, found: list[Divergence]
) -> Decision | None:
    """Add what differs at one row to *found*; return what was decided, None when nothing could be."""
    if row.seq != run.seq or row.source != run.state:
        found.append(Divergence(row.seq, "place", f"{row.source} at {row.seq}", f"{run.state} at {run.seq}"))
        return None
    uncalled = row.outcome.get("kind") in ("cancelled", "answer")
    request = NOTHING if uncalled else request_of(run)
    found.extend(_compare_request(journal, kit, run, row, request))
    try:
        outcome = _recorded_outcome(journal, run, row)
        moment = Moment(row.at, row.time_us - run.counters.time_us)
        decision = decide(run, outcome, moment, kit)
        if isinstance(outcome, Ended):
            found.extend(compare_result(journal, kit, run, row, outcome))
    except _UNREADABLE as error:
        told = short(f"{type(error).__name__}: {error}")
        found.append(Divergence(row.seq, "outcome", "a readable outcome", told))
        return None
    if moment.active_us < 0:
        found.append(Divergence(row.seq, "time_us", str(row.time_us), f"at least {run.counters.time_us}"))
    found.extend(_compare_decision(journal, run, row, decision))
    return decision


def _compare_request(
    journal: PayloadWindow, kit: Kit, run: Run, row: Transition, request: Request
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
        if "spec" in row.request:
            derived["spec"] = row.request["spec"]
        yield from _compare_maps(row.seq, "request", dict(row.request), derived)
        return
    if row.request.get("attempt", 0) != request.attempt:
        yield Divergence(row.seq, "request.attempt", str(row.request.get("attempt", 0)), str(request.attempt))
    for name in sorted(row.request.keys() - {"kind", "model", "prompt", "attempt", "spec"}):
        yield Divergence(row.seq, f"request.{name}", short(str(row.request[name])), "(nothing)")
    messages = kit.messages(request.kind, run)
    recorded = row.request.get("prompt", ())
    if len(messages) != len(recorded):
        yield Divergence(row.seq, "request.prompt", f"{len(recorded)} messages", f"{len(messages)} messages")
        return
    for place, message in zip(recorded, messages, strict=True):
        payload = journal.payload(run.number, place["n"])
        if not journal.is_text(payload, place, message.text):
            where = f"{message.role} message, template {template_of(request.kind, run)}"
            yield Divergence(
                row.seq, "request.prompt", *_prompt_difference(payload, place, message.text), where
            )


def _prompt_difference(payload: Payload, place: Mapping[str, Any], text: str) -> tuple[str, str]:
    """Return the first line that differs; of the same text its size or digest, which then were forged."""
    body = payload.body.decode("utf-8", "surrogatepass") if isinstance(payload.body, bytes) else payload.body
    if body != text:
        return first_difference(payload.body, text)
    size = len(text.encode("utf-8", "surrogatepass"))
    if place.get("bytes", size) != size:
        return f"{place['bytes']} bytes", f"{size} bytes"
    return f"digest {place.get('digest', payload.digest.hex())}", "the digest of the same text"


def _kind_of(request: Request) -> str:
    if isinstance(request, ModelRequest):
        return request.kind
    if isinstance(request, ToolRequest):
        return "tool"
    return "recall" if isinstance(request, Recall) else "none"


def _recorded_outcome(journal: PayloadWindow, run: Run, row: Transition) -> Outcome:
    """Return the outcome that a row recorded, its texts read from the payloads."""
    facts = row.outcome
    kind = facts["kind"]
    if kind == "reply":
        place = StoredText(**facts["reply"])
        usage = Usage(1, facts["tokens_in"], facts["tokens_out"], facts.get("cost_micro", 0))
        return Replied(_text(journal, run, place.n), place, facts.get("finish", "stop"), usage)
    if kind == "fault":
        place = StoredText(**facts["message"])
        usage = Usage(
            facts.get("calls", 0),
            facts.get("tokens_in", 0),
            facts.get("tokens_out", 0),
            facts.get("cost_micro", 0),
        )
        return ModelFault(facts["code"], _text(journal, run, place.n), place, usage)
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


def _recorded_result(journal: PayloadWindow, run: Run, row: Transition) -> Ended:
    """The result stands in the row's change, usage and the tool's own requests in its outcome."""
    facts = row.outcome
    change = Change.read(_text(journal, run, row.change["n"]))
    if not change.result:
        raise JournalDamaged("a result is missing in the change")
    texts = tuple((StoredText(**prompt), StoredText(**reply)) for prompt, reply in facts.get("texts", ()))
    usage = Usage(
        len(texts), facts.get("tokens_in", 0), facts.get("tokens_out", 0), facts.get("cost_micro", 0)
    )
    return Ended(change.result, usage, texts)


def _text(journal: PayloadWindow, run: Run, number: int) -> str:
    body = journal.payload(run.number, number).body
    if body is None:
        raise JournalDamaged(f"payload {number} has been erased; what follows from it cannot be checked")
    return body if isinstance(body, str) else body.decode("utf-8", "surrogatepass")


def _compare_decision(
    journal: PayloadWindow, run: Run, row: Transition, decision: Decision
) -> Iterator[Divergence]:
    for name, found in (("trigger", decision.row.trigger), ("dest", decision.row.dest)):
        if getattr(row, name) != found:
            yield Divergence(row.seq, name, str(getattr(row, name)), found)
    if canonical(dict(row.guards)) != canonical(decision.guards):
        for guard in sorted({*row.guards, *decision.guards}):
            old, new = row.guards.get(guard), decision.guards.get(guard)
            if old is not new:
                yield Divergence(row.seq, f"guards.{guard}", str(old), str(new))
    counters, others = decision.counters, counters_text(decision.counters)
    for name in _COLUMNS:
        if getattr(row, name) != getattr(counters, name):
            yield Divergence(row.seq, name, str(getattr(row, name)), str(getattr(counters, name)))
    if canonical(dict(row.counters)) != others:
        yield from _compare_maps(row.seq, "counters", dict(row.counters), orjson.loads(others))
    yield from _compare_maps(row.seq, "outcome", dict(row.outcome), decision.facts)
    payload = journal.payload(run.number, row.change["n"])
    derived = decision.change.wire_json()
    if payload.body != derived:
        yield from _compare_change(row.seq, payload.body, derived)
    if row.change.get("digest") != payload.digest.hex():
        yield Divergence(row.seq, "change.digest", str(row.change.get("digest")), payload.digest.hex())


def _compare_maps(seq: int, place: str, old: dict[str, Any], new: dict[str, Any]) -> Iterator[Divergence]:
    if old == new:
        return
    for name in sorted({*old, *new}):
        if old.get(name) != new.get(name):
            yield Divergence(seq, f"{place}.{name}", short(str(old.get(name))), short(str(new.get(name))))


def _compare_change(seq: int, body: str | bytes | None, derived: str) -> Iterator[Divergence]:
    if body is None:
        yield Divergence(seq, "change", "(erased)", short(derived))
        return
    try:
        old, new = orjson.loads(body), orjson.loads(derived)
    except orjson.JSONDecodeError:
        yield Divergence(seq, "change", short(str(body)), short(derived))
        return
    for slot in sorted({*old, *new}):
        before, after = old.get(slot), new.get(slot)
        if before == after and (slot in old) == (slot in new):
            continue
        if isinstance(before, dict) and isinstance(after, dict):
            yield from _compare_maps(seq, f"change.{slot}", before, after)
        else:
            yield Divergence(seq, f"change.{slot}", short(str(before)), short(str(after)))


__all__ = ["Divergence", "Replay", "replay"]
