"""
The story of a run: what every screen says of it, read from the rows and what they set, and from nothing else.

A run is a head (what it was started with, what it was allowed and has used, how it ended), its calls, and its rows. Each row says what was
asked for, what came back, who judged, which guards decided and what it used. `Story.wire` is the one JSON form; the command line prints it,
the page lays it out, the MCP server returns it.

Whatever stands in a row where a name belongs is shown only in the form of one, so words that are made here hold no text of others: what
a model, a tool or a person said is in `StoryRow.said` and `StoryRow.actor` alone. Nothing here loads what drives or replays a run.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from operator import attrgetter, sub
from typing import Any, NamedTuple

import orjson
from pydantic import ValidationError

from ...states.base.errors import Erased, JournalDamaged, UsageError
from ...states.records.outcomes import DOUBTS, cached_share
from ...states.records.questions import Question
from ...states.records.visits import Visit
from ...states.run.counters import COLUMN_COUNTERS
from ...states.run.phase_names import FINAL, PHASES, PLANNING, REVIEWING, SPECIFYING
from ...states.run.reasons import REASONS
from ...states.run.spec import TASK_TOOL, Spec
from ...states.run.state import Change, Counters
from ...states.settings.policy import ApprovalRule
from ...tools.policy import denial
from ..journal.erasure_log import Erasure
from ..journal.prompts import MessagePlace, inner_places, prompt_places, told_messages
from ..journal.reader import JournalReader, damage_told
from ..journal.rows import RunRow, StoredDocument, Transition
from ..machine.table import ROWS, Row
from ..versioning.amendments import amend_spec
from .calls import CallReader, RunCall, change_of, decision_words
from .thoughts import thought_in

LEFT_OUT = "(left out)"
"""In the place of what should be a name and is not of the form of one."""

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/@+-]{0,119}")


def name_of(value: object) -> str:
    """Return a name as it is, `LEFT_OUT` for what has not the form of one."""
    return _named(value) if isinstance(value, str) else LEFT_OUT


@lru_cache(maxsize=1024)
def _named(text: str) -> str:
    return text if _NAME.fullmatch(text) else LEFT_OUT


def _word(value: object) -> str:
    """Return a name or a number of a row's columns."""
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else name_of(value)


class StoryRow(NamedTuple):
    """
    One row of a run.

    Attributes:
        seq, at, trigger, source, dest, step, action: As in `Transition`.
        asked: What was asked for: the kind of request; empty for nothing.
        attempt: How often it had been asked for before; 0 for the first time.
        model: Which model was asked, None for none.
        tool: Which tool the row is about, None for none; a model may have made the name up.
        facts: What came back, as short words without any foreign text.
        came: The same as one sentence that also says what was usual.
        marks: What stands out of it, of ``refused``, ``invalid``, ``waits``, ``answered``, ``in_doubt`` and ``fault``.
        said: What a model, a tool or a person said with it: a reason, an error; why it was refused; empty for nothing.
        actor: Who answered, by the name that the host gave; None when nobody said.
        judge: Who judged: ``model``, ``code``, ``person``, or empty.
        taken: The guards of the row of the table that was taken, ``not NAME`` for one that had to be false; all that were looked at where it cannot be told.
        decided: Those that explain why the row was taken; none for the usual way.
        tokens_in, tokens_out, cost_micro, time_us: Of this row alone.
    """

    seq: int
    at: int
    trigger: str
    source: str
    dest: str
    step: int
    action: int
    asked: str
    attempt: int
    model: str | None
    tool: str | None
    facts: tuple[str, ...]
    came: str
    marks: tuple[str, ...]
    said: str
    actor: str | None
    judge: str
    taken: tuple[str, ...]
    decided: tuple[str, ...]
    tokens_in: int
    tokens_out: int
    cost_micro: int
    time_us: int

    @property
    def told(self) -> str:
        """What came back with who said what."""
        by = f" by {self.actor}" if self.actor else ""
        return f"{self.came}{by}: {self.said}" if self.said else f"{self.came}{by}"

    def wire(self) -> dict[str, Any]:
        """Return the JSON form, keys as the attributes, without the short words and the guards of the usual way."""
        return dict(zip(_TOLD, _told(self), strict=True))


_TOLD = tuple(name for name in StoryRow._fields if name not in ("facts", "taken"))
_told = attrgetter(*_TOLD)


class RowReader:
    """
    Tells the rows of a run, one after the other.

    Args:
        reader: Of the journal that holds them; another one may be set for the rows to come.
        before: The row before the first one, None for a run from its beginning.
    """

    def __init__(self, reader: JournalReader, before: Transition | None = None) -> None:
        self.reader, self._before = reader, before
        self._tables: dict[int, Sequence[Row]] = {}
        self._known: dict[tuple[object, ...], tuple[tuple[str, ...], tuple[str, ...]]] = {}

    def add(self, row: Transition, change: Change | None = None) -> StoryRow:
        """Return what is said of the next row; *change* is what it set, where that was read already."""
        before, self._before = self._before, row
        change = change_of(self.reader, row) if change is None else change
        facts, said, actor, judge = _came(self.reader, row, change)
        used = _spent(row) if before is None else map(sub, _spent(row), _spent(before))
        model = row.request.get("model")
        return StoryRow(
            row.seq,
            row.at,
            name_of(row.trigger),
            name_of(row.source),
            name_of(row.dest),
            row.step,
            row.action,
            _kind_words(row.request),
            int(row.request.get("attempt") or 0),
            name_of(model) if model else None,
            _tool_of(row, change),
            tuple(facts),
            _sentence(row, facts),
            tuple(_marks(row)),
            said,
            actor,
            judge,
            *self._decided(row),
            *used,
        )

    def _decided(self, row: Transition) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the guards of the row that was taken, and those that explain it; most rows of a run are like an earlier one."""
        key = row.run, row.source, row.trigger, row.dest, *row.guards.items()
        if key not in self._known:
            if row.run not in self._tables:
                self._tables[row.run] = _table_of(self.reader, row.run)
            way = row.source, row.trigger, row.dest, row.guards, self._tables[row.run]
            taken = taken_guards(*way)
            if taken is None:
                taken = tuple(name if value else f"not {name}" for name, value in sorted(row.guards.items()))
            self._known[key] = taken, tuple(deciding(*way))
        return self._known[key]


_spent = attrgetter("tokens_in", "tokens_out", "cost_micro", "time_us")


def _kind_words(request: Mapping[str, Any]) -> str:
    kind = request.get("kind", "none")
    return "" if kind == "none" else name_of(kind)


def asked_words(request: Mapping[str, Any]) -> str:
    """Return what a row asked for, of whom, as one sentence."""
    told = _kind_words(request)
    if request.get("model"):
        again = f", attempt {request['attempt'] + 1}" if request.get("attempt") else ""
        return f"{told} from {name_of(request['model'])}{again}"
    if told == "tool":
        return f"{name_of(request.get('tool'))} ({name_of(request.get('effect'))})"
    return _many(len(request.get("payloads", ())), "stored text") if told == "recall" else told or "nothing"


def _many(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _tool_of(row: Transition, change: Change) -> str | None:
    """Return which tool a row is about: the one that was chosen by it, else the one that was called."""
    if row.request.get("kind") in ("selection", "parameters", "turn") or row.trigger in _CHOOSES:
        chosen = change.selection or change.intent or change.result
        if chosen:
            return chosen.tool
    return name_of(row.request["tool"]) if row.request.get("tool") else None


def _marks(row: Transition) -> Iterator[str]:
    """Yield what stands out of a row."""
    outcome, kind = row.outcome, row.outcome.get("kind")
    if _is_refused(row):
        yield "refused"
    if outcome.get("invalid") or row.trigger in ("reselect", "respecify", "reassess", "reask"):
        yield "invalid"
    if row.trigger == "wait":
        yield "waits"
    if kind == "answer":
        yield "answered"
    if kind == "in_doubt" or outcome.get("in_doubt"):
        yield "in_doubt"
    if kind == "fault" or outcome.get("error"):
        yield "fault"


def _is_refused(row: Transition) -> bool:
    return row.trigger in ("refuse", "withhold") or row.guards.get("action_allowed") is False


_CHOOSES = ("specify", "wait", "format", "refuse")
_CODES = ("invalid", "error", "stop", "duplicate")


def _came(reader: JournalReader, row: Transition, change: Change) -> tuple[list[str], str, str | None, str]:
    """Return what came back as short words, what was said with it, by whom, and who judged; the last word is what was said about."""
    outcome, kind = row.outcome, row.outcome.get("kind", "none")
    facts = (
        [f"{len(change.ahead)} more at once"] if change.ahead and row.trigger in (*_CHOOSES, "select") else []
    )
    facts += [f"{name} {_word(outcome[name])}" for name in _CODES if outcome.get(name)]
    facts += [name_of(kind)] if kind in ("cancelled", "asked") else []
    facts += ["effect in doubt"] if outcome.get("in_doubt") else []
    facts += ["left running"] if outcome.get("left") else []
    if kind == "unaffordable":
        facts.append(f"not asked, {_word(row.request.get('reserved'))} tokens reserved")
    if outcome.get("reconciled"):
        facts.append(f"reconciled {name_of(outcome['reconciled']).replace('_', ' ')}")
    if row.trigger == "execute" and outcome.get("ok"):
        number = outcome.get("documents", 0)
        facts.append(f"{_word(number)} document{'' if number == 1 else 's'}")
    facts += _cut_words(outcome)
    if kind == "fault":
        return [*facts, f"fault {name_of(outcome.get('code'))}"], _text(reader, row, "message"), None, ""
    if kind == "in_doubt":
        told = DOUBTS.get(str(outcome.get("why", "")), "begun")
        return [*facts, f"in doubt: {told}"], _text(reader, row, "message"), None, ""
    if kind == "answer":
        reply = change.reply or None
        decided = f"answer {decision_words(reply) if reply else name_of(outcome.get('action'))}"
        said = (reply.reason, reply.actor) if reply else (None, None)
        return [*facts, decided.replace("_", " ")], said[0] or "", said[1] or None, "person"
    return _judged(row, change, facts)


def _judged(row: Transition, change: Change, facts: list[str]) -> tuple[list[str], str, str | None, str]:
    """Return the same of a row that judged, or that left a phase of the host's own."""
    visit = change.visit
    if isinstance(visit, Visit) and visit.phase == row.source:
        value = visit.value if isinstance(visit.value, str) else json.dumps(visit.value, ensure_ascii=False)
        said = "" if visit.value in (None, "", {}, []) else value
        judge = "person" if visit.actor else "model" if row.request.get("model") else ""
        return [*facts, "succeeded" if visit.ok else "did not succeed"], said, visit.actor, judge
    if _is_refused(row):
        return facts, (change.result.error or "") if change.result else change.feedback or "", None, ""
    if row.source != REVIEWING:
        return facts, "", None, ""
    if refinement := change.refinement:
        why = "" if refinement.reason else ", no reason given"
        return [*facts, f"{refinement.decision}{why}"], refinement.reason, None, "model"
    if row.request.get("kind", "none") == "none":
        by_code = row.guards.get("review_success") and not row.counters.get("formatted")
        return ([*facts, "judged by code"], "", None, "code") if by_code else (facts, "", None, "")
    if review := change.review:
        return [*facts, review.status], "", None, "model"
    if change.improvements and row.trigger == "retry":
        return [*facts, "retry"], "; ".join(change.improvements), None, "model"
    return facts, "", None, ""


def _cut_words(outcome: Mapping[str, Any]) -> list[str]:
    """Return what a row has cut of its run's conversation."""
    told = []
    if shown := outcome.get("shown"):
        told.append(f"shown to the model: {shown[0]:,} of {shown[1]:,} bytes")
    if cut := outcome.get("cut"):
        told.append(f"conversation cut: {_many(cut[0], 'message')} left out, {cut[1]:,} shortened")
    if summary := outcome.get("summary"):
        unused = str(summary.get("unused", "")).replace("_", " ")
        told.append(f"summary not used: {unused}" if unused else "summarized by the model")
    return told


_USUAL = {"none": "nothing was needed", "recalled": "they were read", "result": "a result"}


def _sentence(row: Transition, facts: Sequence[str]) -> str:
    """Return what came back as one sentence."""
    outcome, kind = row.outcome, str(row.outcome.get("kind", "none"))
    head = _USUAL.get(kind, "")
    if kind == "reply":
        head = f"a reply of {_word(outcome.get('tokens_out', 0))} tokens"
    elif kind not in _USUAL and not facts:
        head = name_of(kind)
    stop = row.counters.get("stop")
    end = [f"the run ends: {name_of(stop)}"] if row.dest in FINAL and stop else []
    return "; ".join([*([head] if head else []), *end, *facts])


def _text(reader: JournalReader, row: Transition, key: str) -> str:
    """Return a text that a row's outcome refers to; nothing once erased."""
    place = row.outcome.get(key)
    body = reader.payload(row.run, place["n"]).body if isinstance(place, Mapping) else None
    return body.strip() if isinstance(body, str) else ""


# -- the guards that decided -----------------------------------------------------------------------------------------


def _table_of(reader: JournalReader, run: int) -> Sequence[Row]:
    """Return the rows of the machine that the run with this number walks, the standard ones where its spec cannot be read any more."""
    try:
        if not reader.spec(reader.root_columns(run)["run_id"]).host_machine:
            return ROWS
        from ..replay.machines import machine_of_run  # with the machine, which the standard rows do without

        machine = machine_of_run(reader, run)
    except (JournalDamaged, Erased, ValidationError):
        return ROWS
    return ROWS if machine is None else machine.rows


_EXPECTED = frozenset(
    {"select", "answer", "specify", "execute", "observe", "proceed", "conclude", "provide", "format"}
)

_WITHIN = frozenset({"wait", "provide", "call", "observe", "reask"})
"""Rows that a phase of the host's own brings with it; they lead on from nothing."""

_GRANTED = ("action_allowed", "tools_offered")
"""Guards that say no more than that nothing was in the way."""

_LEADING_ON = {
    PLANNING: ("select", "reselect"),
    SPECIFYING: ("specify", "respecify"),
    REVIEWING: ("reassess", "retry", "finish"),
}
"""Rows before the last one of a phase that would have led on; their guards say why it was the last."""


def taken_guards(
    source: str, trigger: str, dest: str, guards: Mapping[str, bool], table: Sequence[Row]
) -> tuple[str, ...] | None:
    """Return the guards of the row of *table* that was taken, as it has them; None where none of its rows fits."""
    facts = {name if value else f"not {name}" for name, value in guards.items()}
    for row in table:
        if (row.source, row.trigger, row.dest) == (source, trigger, dest) and facts.issuperset(row.guards):
            return row.guards
    return None


def deciding(
    source: str, trigger: str, dest: str, guards: Mapping[str, bool], table: Sequence[Row] = ROWS
) -> list[str]:
    """
    Return the guards that explain why a row was taken, as ``NAME`` and ``not NAME``; nothing for the usual way.

    For a row with guards its own, without those that only say that nothing was in the way; for the last row of a phase
    those that kept the rows before from fitting.

    Args:
        source, trigger, dest, guards: Of the row.
        table: Rows of the machine that the run walks.
    """
    own = source not in PHASES or any(
        row.host and (row.source, row.trigger, row.dest) == (source, trigger, dest) for row in table
    )
    if trigger in (_WITHIN if own else _EXPECTED):
        return []
    if taken := taken_guards(source, trigger, dest, guards, table):
        return [name for name in taken if name not in _GRANTED and not name.endswith("_left")]
    rows = [row for row in table if row.source == source and row.is_tried(waits=False)]
    near: tuple[str, ...] = _LEADING_ON.get(source, ())
    if own:
        own_rows = (row for row in rows if row.host and row.trigger not in _WITHIN and row.trigger != "fail")
        near = tuple(dict.fromkeys(row.trigger for row in own_rows))
    if source == REVIEWING and not own:
        near = (
            near[:1] if guards.get("reply_invalid") else near[1:2] if guards.get("review_retry") else near[2:]
        )
    names: dict[str, None] = {}
    for name in near:
        row = next(row for row in rows if row.trigger == name)
        names |= {f"not {guard}": None for guard in row.conditions if guards.get(guard) is False}
        names |= {guard: None for guard in row.unless if guards.get(guard) and not guard.endswith("_ok")}
    return list(names)


# -- the texts of a row ----------------------------------------------------------------------------------------------


class RowTexts(NamedTuple):
    """
    The texts that a row refers to; None for one that was erased.

    Attributes:
        prompt: What was said to a model.
        before: The last prompt of a row that asked for the same; empty for the first.
        roles: Who speaks in each message, where the row says it.
        thought: What the model has thought before its reply, as far as its provider has given it.
        reply: What it said, or how it failed.
        replied: Whether it said anything.
        answer: What a person answered, or a tool asked, as JSON.
        inner: Prompts and replies of what its tool asked a model, or of a summary what was asked and said.
        set: What the row set in the run, as JSON.
        erased: Whether any of them was erased.
    """

    prompt: tuple[str | None, ...] = ()
    before: tuple[str | None, ...] = ()
    roles: tuple[str, ...] = ()
    thought: str = ""
    reply: str | None = None
    replied: bool = False
    answer: str | None = None
    inner: tuple[str | None, ...] = ()
    set: str | None = None
    erased: bool = False

    def wire(self) -> dict[str, Any]:
        """Return the JSON form, keys as the attributes, without the prompt before."""
        data = self._asdict() | {name: list(getattr(self, name)) for name in ("prompt", "roles", "inner")}
        del data["before"]
        return data


def row_texts(reader: JournalReader, rows: Mapping[int, Transition], row: Transition) -> RowTexts:
    """Return the texts of *row*; *rows* are those before it by number."""

    def told(places: Sequence[MessagePlace]) -> list[tuple[str, str | None]]:
        return list(told_messages(places, lambda found: _body(reader, found.run, found.place)))

    places, outcome, kind = prompt_places(rows, row), row.outcome, row.request.get("kind")
    numbers = range(row.seq - 1, -1, -1) if places else ()
    last = next((rows[seq] for seq in numbers if rows[seq].request.get("kind") == kind), None)
    single = (
        outcome.get("reply") or outcome.get("message"),
        outcome.get("answer") or outcome.get("asked"),
        row.change,
    )
    reply, answer, change = (_body(reader, row.run, place) for place in single)
    prompt = told(places)
    texts = tuple(text for _, text in prompt)
    inner = tuple(_body(reader, row.run, place) for pair in inner_places(row) for place in pair)
    kept = (text for place, text in zip(single, (reply, answer, change), strict=True) if place)
    return RowTexts(
        texts,
        tuple(text for _, text in told(prompt_places(rows, last))) if last is not None else (),
        tuple(role for role, _ in prompt),
        thought_in(_body(reader, row.run, outcome.get("parts"))),
        reply,
        bool(single[0]),
        answer,
        inner,
        change,
        any(text is None for text in (*texts, *inner, *kept)),
    )


def _body(reader: JournalReader, run: int, place: Any) -> str | None:
    if not isinstance(place, Mapping) or "n" not in place:
        return None
    body = reader.payload(run, place["n"]).body
    return body.decode("utf-8", "replace") if isinstance(body, bytes) else body


# -- the run as a whole ----------------------------------------------------------------------------------------------


def spec_of(reader: JournalReader, run_id: str) -> Spec | None:
    """Return what a run was started with, None once erased; raise `JournalDamaged` when it cannot be read."""
    try:
        return reader.spec(run_id)
    except Erased:
        return None
    except ValidationError as error:
        message = f"its spec cannot be read ({error.error_count()} errors); run: paor verify"
        raise JournalDamaged(f"run {run_id}: {message}") from None


def is_given(row: RunRow, label: str) -> bool:
    """Whether a run was given a document: an input, or what another task or round of its workflow produced."""
    return not label.startswith(f"round{row.round}_task{row.task}_action") or "_action0_" in label


def run_wire(row: RunRow) -> dict[str, Any]:
    """Return a run's columns as JSON-able data."""
    called = row.called_by._asdict() if row.called_by is not None else None
    return row._asdict() | {
        "head_hash": row.head_hash.hex(),
        "metadata": dict(row.metadata),
        "called_by": called,
    }


def document_wire(document: StoredDocument) -> dict[str, Any]:
    """Return a document's row as JSON-able data, with the reference that prompts use."""
    told = {name: getattr(document, name) for name in document.__slots__ if name != "payload"}
    return told | {"reference": f"docItem:{document.label}#{document.position}"}


def document_content(reader: JournalReader, row: RunRow, document: StoredDocument) -> dict[str, Any]:
    """Return a document with its body as JSON-able data, bytes as base64; raise `UsageError` once it was erased."""
    body = reader.document(row.run_id, document.number)
    if body is None:
        raise UsageError(f"{document.label}#{document.position}: has been erased")
    content = {"text": body} if isinstance(body, str) else {"base64": base64.b64encode(body).decode()}
    return document_wire(document) | content


def totals_of(reader: JournalReader, row: RunRow) -> dict[str, Any]:
    """Return what a run has used, read from its last row alone."""
    names = ("step", "tokens_in", "tokens_out", "cost_micro", "time_us")
    for part in reversed(reader.lineage(row.run)):
        if found := reader.columns(part.run, (*names, "counters"), (), row.head_seq, row.head_seq):
            *values, others = found[0]
            with suppress(ValueError, AttributeError, TypeError):  # of a damaged row
                read = cached_share(orjson.loads(others).get("tokens_cached", 0), values[1])
                return dict(zip(names, values, strict=True)) | {"cached_share": round(read, 3)}
            return dict(zip(names, values, strict=True)) | {"cached_share": 0.0}
    return dict.fromkeys(names, 0) | {"cached_share": 0.0}


def objective_of(reader: JournalReader, row: RunRow) -> str | None:
    """Return the objective of a run, None once erased; read without building the whole spec."""
    body = reader.payload(row.run, reader.root_columns(row.run)["spec_payload"]).body
    if body is None:
        return None
    try:
        return str(orjson.loads(body)["objective"])
    except (LookupError, ValueError, TypeError):
        raise JournalDamaged(f"run {row.run_id}: its spec cannot be read; run: paor verify") from None


def line_wire(reader: JournalReader, row: RunRow, question: Question | None) -> dict[str, Any]:
    """Return what a list says of one run that waits for *question*."""
    waits = question.wire() if question is not None else None
    return run_wire(row) | {"waiting_for": waits, "used": totals_of(reader, row)}


class Used(NamedTuple):
    """
    What is used of something that can have a limit.

    Attributes:
        name: Of what; ``counter`` is the one that it is.
        used, allowed: How much, None where there is no limit.
        unit: ``count``, ``tokens``, ``s`` for seconds, ``money`` for units of the price list.
    """

    name: str
    counter: str
    used: float
    allowed: float | None
    unit: str


def used_of(spec: Spec | None, last: Transition | None) -> list[Used]:
    """Return what a run has used after its row *last*, and of how much."""
    found = Counters()
    if last is not None:
        columns = {name: getattr(last, name) for name in COLUMN_COUNTERS}
        found = Counters(**columns, **dict(last.counters))
    limits = spec.limits if spec is not None else None
    told = [
        ("steps", "step", found.step, "max_steps", "count"),
        ("retries", "retries", found.retries, "max_retries", "count"),
        ("blocked calls", "blocked", found.blocked, "max_blocked_calls", "count"),
        ("errors in a row", "errors", found.errors, "max_consecutive_errors", "count"),
        ("questions", "elicitations", found.elicitations, "max_elicitations", "count"),
        ("tokens", "tokens", found.tokens_in + found.tokens_out, "token_budget", "tokens"),
        ("active time", "time", found.time_us / 1e6, "time_budget_s", "s"),
        ("cost", "cost", found.cost_micro / 1e6, "cost_budget", "money"),
    ]
    if spec is not None and spec.mode != "react":
        told.insert(1, ("plans", "plans", found.plans, "max_plans", "count"))
    return [
        Used(name, counter, used, getattr(limits, limit, None), unit)
        for name, counter, used, limit, unit in told
    ]


def policy_of(spec: Spec) -> dict[str, Any]:
    """Return what a run was allowed: tools that are ``offered``, ``denied`` with why, ``never`` and ``only`` patterns, and what ``asks`` first."""
    names = [tool.name for tool in spec.tools]
    why = {
        name: told for name in names if (told := denial(spec.call_policy, spec.task_type, name)) is not None
    }
    return {
        "never": list(spec.policy.deny),
        "only": list(spec.policy.allow),
        "asks": [rule if isinstance(rule, str) else _rule_text(rule) for rule in spec.policy.approvals],
        "offered": [name for name in names if name not in why],
        "denied": [[name, told] for name, told in why.items()],
    }


def _rule_text(rule: ApprovalRule) -> str:
    arguments = rule.model_dump(mode="json")["arguments"]
    return f"{rule.tool} where {json.dumps(arguments, ensure_ascii=False)}" if arguments else rule.tool


def criteria_of(
    spec: Spec | None, last: Transition | None, evidence: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return each criterion with whether it is met, None while that is open, and the model's last words about it."""
    met = str(last.counters.get("criteria", "")) if last is not None else ""
    judged = last is not None and last.dest in FINAL
    return [
        {
            "criterion": text,
            "met": met[place : place + 1] == "1" or (False if judged else None),
            "evidence": evidence.get(text),
        }
        for place, text in enumerate(spec.success_criteria if spec is not None else ())
    ]


SETTINGS = (
    *("objective", "success_criteria", "language", "task_type", "mode", "model", "context"),
    *("values", "final_format", "limits", "profile", "engine", "machine"),
)
"""What a run was started with, as far as the story shows it."""


class Story(NamedTuple):
    """
    What every screen says of a run.

    Attributes:
        run: Its line of the view ``runs``.
        spec: What it was started with, as far as no row has changed it; None once erased.
        last: Its last row, None before the first.
        question: What it waits for, of a workflow what its task asks; None for nothing, and once erased.
        answer: The last answer of a run that has ended; empty for none.
        criteria, documents, erasures: In order; a document is produced unless it `is_given`.
        calls: What was called, the refused ones too.
        rows: What happened.
        called: The runs that its tools have called, and how each stands.
        gone: Numbers of the documents whose text was erased.
    """

    run: RunRow
    spec: Spec | None
    last: Transition | None
    question: Question | None
    answer: str
    criteria: Sequence[Mapping[str, Any]]
    documents: Sequence[StoredDocument]
    erasures: Sequence[Erasure]
    calls: Sequence[RunCall]
    rows: Sequence[StoryRow]
    called: Sequence[RunRow] = ()
    gone: frozenset[int] = frozenset()

    @property
    def tools(self) -> frozenset[str]:
        """Names of the tools that the run knows; any other one is text of whoever wrote it."""
        return known_tools(self.spec)

    def wire(self, first: int = 0) -> dict[str, Any]:
        """Return the JSON form, without times of now; of the rows those from number *first* on."""
        settings = None
        if self.spec is not None:
            data = self.spec.model_dump(mode="json")
            settings = {name: data[name] for name in SETTINGS} | {
                "tools": [tool.name for tool in self.spec.tools]
            }
        return {
            "run": run_wire(self.run),
            "means": REASONS.get(self.run.reason or ""),
            "spec": settings,
            "policy": policy_of(self.spec) if self.spec is not None else None,
            "used": [item._asdict() for item in used_of(self.spec, self.last)],
            "criteria": list(self.criteria),
            "answer": self.answer or None,
            "waiting_for": self.question.wire() if self.question else None,
            "documents": [
                document_wire(item)
                | {"given": is_given(self.run, item.label), "erased": item.number in self.gone}
                for item in self.documents
            ],
            "erasures": [item._asdict() | {"hash": item.hash.hex()} for item in self.erasures],
            "called": [[row.run_id, row.status] for row in self.called],
            "calls": [call.wire() for call in self.calls],
            "rows": [row.wire() for row in self.rows[first:]],
        }


def known_tools(spec: Spec | None) -> frozenset[str]:
    """Return the names of the tools that a run was offered, and of those that its own phases call."""
    if spec is None:
        return frozenset()
    given = [*spec.tools, *spec.phase_tools, *([spec.formatter] if spec.formatter else []), TASK_TOOL]
    return frozenset(tool.name for tool in given)


class StoryReader:
    """
    Tells a run row by row, as far as it has come.

    Args:
        reader: Of the journal that holds it.

    Attributes:
        rows: What happened so far.
        last: The last row, None before the first.
        amended: The rows from which on another spec is in force.
    """

    def __init__(self, reader: JournalReader) -> None:
        self._reader, self._calls, self._read = reader, CallReader(), RowReader(reader)
        self.rows: list[StoryRow] = []
        self.last: Transition | None = None
        self.amended: list[Transition] = []
        self._evidence: dict[str, str] = {}
        self._answer = ""

    def add(self, row: Transition) -> None:
        """Take the next row in."""
        change = change_of(self._reader, row)
        self._calls.add(row, change)
        self.rows.append(self._read.add(row, change))
        if "spec" in row.request:
            self.amended.append(row)
        self._answer = change.answer or self._answer
        self._evidence |= evidence_of(change)
        self.last = row

    def spec(self, row: RunRow) -> Spec | None:
        """Return the spec of the run that is in force, None once erased; raise `JournalDamaged` when it cannot be read."""
        spec = spec_of(self._reader, row.run_id)
        for item in self.amended:
            if spec is not None and item.run == row.run:
                body = self._reader.payload(item.run, item.request["spec"]["n"]).body
                spec = amend_spec(spec, body) if body is not None else None
        return spec

    def story(self, row: RunRow, spec: Spec | None, question: Question | None = None) -> Story:
        """Return the story up to here."""
        reader, last = self._reader, self.last
        documents = reader.documents(row.run_id)
        erasures = [item for part in reader.lineage(row.run) for item in reader.erasures(part.run)]
        stored = [(item.number, reader.find_payload(row.run, item.payload)) for item in documents if erasures]
        return Story(
            row if row.objective is not None else reader.with_objectives([row])[0],
            spec,
            last,
            question,
            self._answer if last is not None and last.dest in FINAL else "",
            criteria_of(spec, last, self._evidence),
            documents,
            erasures,
            self._calls.calls,
            self.rows,
            [reader.run(run) for run in reader.called_by(row.run_id)],
            frozenset(number for number, payload in stored if payload is None or payload.body is None),
        )


def story(reader: JournalReader, row: RunRow, question: Question | None = None) -> Story:
    """
    Return the story of a run.

    Args:
        reader: Of the journal that holds it.
        row: The run.
        question: What it waits for.

    Raises:
        JournalDamaged: It cannot be read.
    """
    told = StoryReader(reader)
    with damage_told(row.run_id):
        for item in reader.transitions(row.run_id):
            told.add(item)
    return told.story(row, told.spec(row), question)


def evidence_of(change: Change) -> dict[str, str]:
    """Return what a judgement said about each criterion."""
    return {
        check.criterion: check.evidence
        for judged in (change.refinement, change.review)
        for check in (judged.criteria if judged else ())
        if check.evidence
    }
