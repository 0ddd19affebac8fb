"""One row of a replay: what was derived now, held field by field against what was recorded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from ...prompts.model import PromptMessage, prompt_bytes
from ...states.records.requests import ModelRequest, Recall, Request, ToolRequest
from ...states.run.budgets import refusal, reservation
from ...states.run.counters import COLUMN_COUNTERS as COLUMNS
from ...states.run.counters import counters_text
from ...states.run.state import Run
from ..decision.run_resources import RunResources
from ..journal.payloads import Payload
from ..journal.record import canonical
from ..journal.rows import Transition
from ..machine.machine import Decision
from .payload_window import PayloadWindow
from .run_comparison import Difference, Divergence, Unchecked, first_difference, short, template_of


def compare_request(
    journal: PayloadWindow, kit: RunResources, run: Run, row: Transition, request: Request
) -> Iterator[Difference]:
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
    for name in sorted(row.request.keys() - {"kind", "model", "prompt", "attempt", "reserved", "spec"}):
        yield Divergence(row.seq, f"request.{name}", short(str(row.request[name])), "(nothing)")
    messages = kit.messages(request.kind, run)
    yield from _compare_reservation(run, row, messages)
    recorded = row.request.get("prompt", ())
    if len(messages) != len(recorded):
        yield Divergence(row.seq, "request.prompt", f"{len(recorded)} messages", f"{len(messages)} messages")
        return
    for place, message in zip(recorded, messages, strict=True):
        payload = journal.payload(run.number, place["n"])
        if payload.body is None:
            yield Unchecked(row.seq, "request.prompt")
            continue
        if not journal.is_text(payload, place, message.text):
            where = f"{message.role} message, template {template_of(request.kind, run)}"
            yield Divergence(
                row.seq, "request.prompt", *_prompt_difference(payload, place, message.text), where
            )


def _compare_reservation(run: Run, row: Transition, prompt: Sequence[PromptMessage]) -> Iterator[Divergence]:
    """Yield where a request was reserved, made or refused otherwise than its prompt and the budgets say."""
    limits, refused_by, tokens = run.spec.limits, None, None
    if limits.reply_tokens is not None:
        wanted = reservation(limits, run.counters, prompt_bytes(prompt))
        tokens, refused_by = wanted.tokens, refusal(limits, run.counters, wanted)
    if row.request.get("reserved") != tokens:
        yield Divergence(row.seq, "request.reserved", str(row.request.get("reserved")), str(tokens))
    refused = row.outcome.get("stop") if row.outcome.get("kind") == "unaffordable" else None
    if refused != refused_by:
        yield Divergence(row.seq, "request.refused", str(refused), str(refused_by))


def _prompt_difference(payload: Payload, place: Mapping[str, Any], text: str) -> tuple[str, str]:
    """Return the first line that differs; of the same text its size or digest, which then were forged."""
    body = payload.body or ""
    if isinstance(body, bytes):
        body = body.decode("utf-8", "surrogatepass")
    if body != text:
        return first_difference(body, text)
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


def compare_decision(
    journal: PayloadWindow, run: Run, row: Transition, decision: Decision
) -> Iterator[Difference]:
    for name, found in (("trigger", decision.row.trigger), ("dest", decision.row.dest)):
        if getattr(row, name) != found:
            yield Divergence(row.seq, name, str(getattr(row, name)), found)
    if canonical(dict(row.guards)) != canonical(decision.guards):
        for guard in sorted({*row.guards, *decision.guards}):
            old, new = row.guards.get(guard), decision.guards.get(guard)
            if old is not new:
                yield Divergence(row.seq, f"guards.{guard}", str(old), str(new))
    counters, others = decision.counters, counters_text(decision.counters)
    for name in COLUMNS:
        if getattr(row, name) != getattr(counters, name):
            yield Divergence(row.seq, name, str(getattr(row, name)), str(getattr(counters, name)))
    if canonical(dict(row.counters)) != others:
        yield from _compare_maps(row.seq, "counters", dict(row.counters), orjson.loads(others))
    yield from _compare_maps(row.seq, "outcome", dict(row.outcome), decision.facts)
    payload = journal.payload(run.number, row.change["n"])
    derived = decision.change.wire_json()
    if payload.body is None:
        yield Unchecked(row.seq, "change")
    elif payload.body != derived:
        yield from _compare_change(row.seq, payload.body, derived)
    if row.change.get("digest") != payload.digest.hex():
        yield Divergence(row.seq, "change.digest", str(row.change.get("digest")), payload.digest.hex())


def _compare_maps(seq: int, place: str, old: dict[str, Any], new: dict[str, Any]) -> Iterator[Divergence]:
    if old == new:
        return
    for name in sorted({*old, *new}):
        if old.get(name) != new.get(name):
            yield Divergence(seq, f"{place}.{name}", short(str(old.get(name))), short(str(new.get(name))))


def _compare_change(seq: int, body: str | bytes, derived: str) -> Iterator[Divergence]:
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
