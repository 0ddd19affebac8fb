"""The tool ``show``: a run with some of its rows and their calls, or one row with what is behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from ..fsm.explain.calls import Decided, RunCall, calls_at, calls_of
from ..fsm.explain.why import outcome_words, request_words
from ..fsm.journal.prompts import EarlierRows, prompt_places, with_summary
from ..fsm.journal.rows import RunRow, StoredDocument, Transition
from ..fsm.report.run_lines import spec_data
from ..states.base.errors import JournalDamaged, UsageError
from ..states.run.phase_names import FINAL, PHASES
from ..states.run.reasons import REASONS
from ..states.run.state import Change
from .answers import (
    CHARS,
    CHARS_MAX,
    ShowAnswer,
    ShownCall,
    ShownCriterion,
    ShownDecision,
    ShownDetail,
    ShownDocument,
    ShownRow,
    Untrusted,
)
from .looking import KnownNames, Look
from .names import facts_of, moment_text, name_of

LIMIT, LIMIT_MAX = 40, 200
"""Rows of one answer: by default, and at most."""

DOCUMENTS_SHOWN = 50
"""Most documents that are listed."""


def show(look: Look, arguments: Mapping[str, Any]) -> ShowAnswer:
    """
    Return a run, or one row of it.

    Args:
        look: At the journal.
        arguments: ``run``; ``document`` for the text of one; ``row`` for one row; else ``first`` and ``limit`` of the rows.

    Raises:
        UnknownRun: There is no such run, or it has no such document.
        UsageError: It has no such row, or texts are not shown.
        JournalDamaged: It cannot be read.
    """
    row = look.run(arguments["run"])
    if (number := arguments.get("document")) is not None:
        return _one_document(look, row, int(number))
    if (wanted := arguments.get("row")) is not None:
        return _one_row(look, row, placed(row, row.head_seq + 1, int(wanted)))
    rows = look.reader.transitions(row.run_id)
    first = int(arguments.get("first", 0))
    first = max(0, len(rows) + first) if first < 0 else first
    if rows and first >= len(rows):
        placed(row, len(rows), first)
    shown = slice(first, min(len(rows), first + int(arguments.get("limit", LIMIT))))
    more = (
        f"there are rows {shown.stop} to {len(rows) - 1}: first={shown.stop}"
        if shown.stop < len(rows)
        else None
    )
    return _show(look, row, rows, shown, _head(look, row, rows), more)


def _one_row(look: Look, row: RunRow, place: int) -> ShowAnswer:
    """Return one row with what is behind it; of the run's rows only those around it are read."""
    near = {item.seq: item for item in look.reader.transitions(row.run_id, max(0, place - 1), place)}
    if (shown := near.get(place)) is None:
        raise JournalDamaged(f"run {row.run_id}: row {place} is missing; run: paor verify")
    known = KnownNames(look.reader, row)
    return ShowAnswer(
        run=look.line(row),
        calls=[_call(look, known, call, shown) for call in calls_at(look.reader, row, place)],
        rows=[_row(shown, near.get(place - 1))],
        detail=_detail(look, EarlierRows(look.reader, row.run_id), shown),
    )


def _one_document(look: Look, row: RunRow, number: int) -> ShowAnswer:
    if not look.texts.shown:
        raise UsageError("the text of a document is content: a person can start the server with --content")
    body = look.reader.document(row.run_id, number)
    return ShowAnswer(run=look.line(row), calls=[], rows=[], text=look.texts(body))


def placed(row: RunRow, count: int, wanted: int) -> int:
    """
    Return the number of a row; a negative one counts from the end.

    Raises:
        UsageError: The run has no such row.
    """
    place = count + wanted if wanted < 0 else wanted
    if not 0 <= place < count:
        told = f"rows 0 to {count - 1}" if count else "no row yet"
        raise UsageError(f"run {name_of(row.run_id)} has {told}; there is no row {wanted}")
    return place


def _show(
    look: Look,
    row: RunRow,
    rows: Sequence[Transition],
    shown: slice,
    head: Mapping[str, Any],
    more: str | None,
) -> ShowAnswer:
    pairs = list(pairwise([None, *rows]))[shown]
    calls = [call for call in calls_of(look.reader, row.run_id) if shown.start <= call.seq < shown.stop]
    known = KnownNames(look.reader, row)
    return ShowAnswer(
        run=look.line(row),
        calls=[_call(look, known, call, rows[call.seq]) for call in calls],
        rows=[_row(item, before) for before, item in pairs if item is not None],
        more=more,
        **head,
    )


def _head(look: Look, row: RunRow, rows: Sequence[Transition]) -> dict[str, Any]:
    """Return what is above the rows of a run."""
    spec, last = spec_data(look.reader, row), rows[-1] if rows else None
    met = str(last.counters.get("criteria", "")) if last is not None else ""
    criteria = [
        ShownCriterion(met=met[index : index + 1] == "1", text=look.texts(str(text)))
        for index, text in enumerate(spec.get("success_criteria", ()))
    ]
    ended = last is not None and last.dest in FINAL
    documents = look.reader.documents(row.run_id)
    return {
        "reason_means": REASONS.get(row.reason or ""),
        "paor": name_of(spec["engine"]) if spec.get("engine") else None,
        "criteria": criteria or None,
        "answer": look.texts(_change(look, last).answer or None) if last is not None and ended else None,
        "documents": [_document(look, row, item) for item in documents[:DOCUMENTS_SHOWN]] or None,
        "erasures": len(look.reader.erasures(row.run)) or None,
    }


def _document(look: Look, row: RunRow, item: StoredDocument) -> ShownDocument:
    stored = look.reader.find_payload(row.run, item.payload)
    return ShownDocument(
        number=item.number,
        bytes=item.bytes,
        erased=stored is None or stored.body is None,
        label=look.texts(item.label),
        name=look.texts(item.name),
        mime=look.texts(item.mime),
    )


def _row(row: Transition, before: Transition | None) -> ShownRow:
    tokens = row.tokens_in + row.tokens_out - (before.tokens_in + before.tokens_out if before else 0)
    return ShownRow(
        row=row.seq,
        at=moment_text(row.at),
        trigger=name_of(row.trigger),
        source=name_of(row.source),
        dest=name_of(row.dest),
        asked=request_words(facts_of(row.request)),
        came=outcome_words(facts_of(row.outcome)),
        step=row.step,
        tokens=tokens,
        seconds=(row.time_us - (before.time_us if before else 0)) / 1e6,
    )


def _call(look: Look, known: KnownNames, call: RunCall, row: Transition) -> ShownCall:
    named = call.tool in PHASES or row.request.get("tool") == call.tool
    return ShownCall(
        row=call.seq,
        step=call.step,
        tool=name_of(call.tool) if named else known.tool(call.tool),
        effect=name_of(call.effect) if call.effect else None,
        outcome=call.outcome,
        started=moment_text(call.started_at),
        ended=moment_text(call.ended_at),
        decided=[_decision(look, item) for item in call.decided],
        arguments=look.json(dict(call.arguments)) if call.arguments is not None else None,
        result=look.texts(call.result or None),
    )


def _decision(look: Look, item: Decided) -> ShownDecision:
    return ShownDecision(
        decision=item.decision,
        at=moment_text(item.at),
        actor=look.texts(item.actor),
        reason=look.texts(item.reason),
    )


def _detail(look: Look, rows: Mapping[int, Transition], row: Transition) -> ShownDetail:
    """Return what is behind one row: its guards and hashes, and the texts that it refers to."""
    outcome = row.outcome
    prompt = [_body(look, found.run, found.place) for found in prompt_places(rows, row)]
    reply = _body(look, row.run, outcome.get("reply") or outcome.get("message"))
    answer = _body(look, row.run, outcome.get("answer") or outcome.get("asked"))
    change = _body(look, row.run, row.change)
    inner = [_body(look, row.run, place) for pair in outcome.get("texts", ()) for place in pair]
    for one in with_summary(row)[:-1]:
        inner += [
            _body(look, one.run, place) for place in (one.request["prompt"][-1], one.outcome.get("reply"))
        ]
    return ShownDetail(
        guards={name_of(name): bool(value) for name, value in row.guards.items()},
        prev_hash=row.prev_hash,
        hash=row.hash,
        erased=any(gone for _, gone in (*prompt, *inner, reply, answer, change)),
        prompt=[found for found, _ in prompt if found is not None] or None,
        reply=reply[0],
        answer=answer[0],
        inner=[found for found, _ in inner if found is not None] or None,
        set=change[0],
    )


def _body(look: Look, run: int, place: Any) -> tuple[Untrusted | None, bool]:
    """Return a text that a row refers to as it is shown, and whether it was erased."""
    if not isinstance(place, Mapping) or "n" not in place:
        return None, False
    body = look.reader.payload(run, place["n"]).body
    return look.texts(body), body is None


def _change(look: Look, row: Transition) -> Change:
    body = look.reader.payload(row.run, row.change["n"]).body
    return Change.read(body) if body is not None else Change()


RUN: dict[str, Any] = {
    "type": "string",
    "minLength": 1,
    "maxLength": 64,
    "description": 'Id of a run, the start of one (4 characters at least), or "last" for the newest.',
}

TEXT_CHARS: dict[str, Any] = {
    "type": "integer",
    "minimum": 100,
    "maximum": CHARS_MAX,
    "default": CHARS,
    "description": "Characters of each text; only a server started with --content shows any.",
}

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "run": RUN,
        "row": {
            "type": "integer",
            "minimum": -(2**31),
            "maximum": 2**31,
            "description": "Only this row, with its guards, prompt, reply and what it set; -1 is the last one.",
        },
        "first": {
            "type": "integer",
            "minimum": -(2**31),
            "maximum": 2**31,
            "default": 0,
            "description": "First row that is shown; -20 for the last twenty.",
        },
        "limit": {"type": "integer", "minimum": 1, "maximum": LIMIT_MAX, "default": LIMIT},
        "document": {
            "type": "integer",
            "minimum": 0,
            "maximum": 2**31,
            "description": "Only the text of this document; needs a server with --content.",
        },
        "chars": TEXT_CHARS,
    },
    "required": ["run"],
    "additionalProperties": False,
}
