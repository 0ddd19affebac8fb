"""
Diff: where two runs part, and why.

Rows are compared by number, without what differs between any two runs, whatever they did: ids, times, salts and what is made
of them (run ids within texts, digests and numbers of payloads, in whose place their content is, duplicate and idempotency
keys, the ids of plans that came without one). At the first row that differs, the first of request, outcome and decision that differs names the cause: an outcome comes from outside, a request or a
decision follows from what decides (`fsm.explain.divergence`).
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Any

import orjson
from pydantic import ValidationError

from ...states.base.errors import Erased, JournalDamaged, PaorError
from ...states.base.wire import json_text
from ...states.records.actions import DocumentRef
from ...states.records.outcomes import Outcome
from ...states.run.phase_names import FINAL
from ..journal.lineage import SharedPart, part_with
from ..journal.payloads import content_key
from ..journal.prompts import Known, prompt_places, told_messages
from ..journal.reader import JournalReader, Readable, damage_told, reader_of
from ..journal.rows import Transition
from ..replay.comparison import apart, first_line, told_tools
from ..replay.recorded_outcome import recorded_host, recorded_outcome
from ..replay.restore import run_before
from ..versioning.amendments import amend_spec
from .divergence import (
    CAUSES,
    ComparedPart,
    causes_of,
    changed_guards,
    host_causes,
    parts_between,
    parts_used,
)

ERASED = "(erased)"
"""Placeholder for erased text; compares equal to any text."""

_OWN_KEYS = frozenset({"key", "idempotency_key", "salt", "approval", "run_id", "at"})
_PLAN_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
_BODY_MAX = 2000
"""Characters of a text that stand in a comparable value; of a longer one its digest."""

_FIRST = {
    name: place for place, name in enumerate(("kind", "trigger", "dest", "guards", "outcome", "counters"))
}
"""What is told first when several things differ; the others follow by name."""

USAGE = ("tokens_in", "tokens_out", "cost_micro")


@dataclass(frozen=True, slots=True)
class Side:
    """
    One of the two runs: how it continues after the first difference, and how it ends.

    Attributes:
        run_id, state, status, reason: As in the view ``runs``.
        transitions: Rows in all.
        steps, tokens, cost, seconds: In all.
        text: The first line that differs, as this run has it; of a long one the part around the first difference.
    """

    run_id: str
    state: str
    status: str
    reason: str | None
    transitions: int
    steps: int
    tokens: int
    cost: float
    seconds: float
    text: str = ""


@dataclass(frozen=True, slots=True)
class RunDiff:
    """
    The difference of two runs.

    Attributes:
        left, right: The runs.
        identical: Whether nothing differs but ids, times and salts.
        shared: Rows of the journal that both share, as a fork and its parent do; 0 for unrelated runs.
        seq: First row that differs, None for identical runs.
        source: Phase in which it is decided.
        field: The first field that differs: ``request.prompt``, ``outcome.reply``, ``guards.steps_left`` and so on.
        line: The line of the field, from 1.
        cause: A key of `fsm.explain.divergence.CAUSES`; empty for identical runs.
        parts: Where the cause is: names within the spec or of what was used, the tool, the model.
        detail: One sentence.
        decision_seq: First row from there on with another transition, None if all are the same.
        same_end: Whether both have ended in the same state for the same reason.
        same_answer: Whether the last message is the same.
        others: Other parts of the specs that differ, without being the cause.
    """

    left: Side
    right: Side
    identical: bool
    shared: int
    seq: int | None
    source: str
    field: str
    line: int
    cause: str
    parts: tuple[str, ...]
    detail: str
    decision_seq: int | None
    same_end: bool
    same_answer: bool
    others: tuple[str, ...]

    def wire(self) -> dict[str, Any]:
        """Return the JSON form, keys as the attributes."""
        return asdict(self) | {"parts": list(self.parts), "others": list(self.others)}


@dataclass(frozen=True, slots=True)
class _Found:
    """The first difference: its row, its place and two values, and what caused it."""

    seq: int
    place: tuple[str, Any, Any]
    cause: str
    detail: str
    parts: tuple[ComparedPart, ...] = ()
    names: tuple[str, ...] = ()


def diff(journal: Readable, left: str, right: str, other: Readable | None = None) -> RunDiff:
    """
    Compare two runs: the first difference and its cause.

    Args:
        journal: That holds them.
        left, right: Their ids, or unambiguous prefixes.
        other: The journal that holds *right*, if it is another one.

    Returns:
        The first difference with its cause, and a summary of what follows. Erased content counts as the same.

    Raises:
        UnknownRun: There is no such run.
        JournalDamaged: A row of one of them cannot be read.
    """
    usage = "diff takes a Journal, such as diff(engine.journal, one, other)"
    journal = reader_of(journal, usage)
    one = Reader(journal, left)
    two = Reader(reader_of(other, usage) if other is not None else journal, right)
    with damage_told(f"{one.row.run_id} or {two.row.run_id}"):
        shared = _shared_rows(one, two)
        try:
            specs = parts_between(journal.spec(one.row.run_id), two.journal.spec(two.row.run_id))
        except (Erased, JournalDamaged, ValidationError):
            specs = []  # erased: what it said cannot be a cause that is named
        found = _first(one, two, shared) or _drift(one, two, shared)
        return _words(one, two, shared, found, specs)


def _shared_rows(one: Reader, two: Reader) -> int:
    """Return how many rows both runs have by reference."""
    if one.journal is not two.journal and one.journal.place != two.journal.place:
        return 0
    pairs = zip(one.rows, two.rows, strict=False)
    return next(
        (place for place, (row, other) in enumerate(pairs) if row.run != other.run),
        min(len(one.rows), len(two.rows)),
    )


# -- the first difference ----------------------------------------------------------------------------------------


def _first(one: Reader, two: Reader, shared: int) -> _Found | None:
    """Return the first difference, None when there is none but of usage."""
    for row, other in zip(one.rows[shared:], two.rows[shared:], strict=False):
        kinds = row.outcome.get("kind"), other.outcome.get("kind")
        if kinds[0] != kinds[1] and "cancelled" in kinds:  # what it would have asked for is not in its row
            return _from_outside(row, other, {"outcome": {"kind": kinds[0]}}, {"outcome": {"kind": kinds[1]}})
        asked = {"request": one.request_facts(row)}, {"request": two.request_facts(other)}
        if not alike(*asked):
            return _from_within(one, two, row, other, asked, judged=False)
        for index, texts in enumerate(zip(one.prompt(row), two.prompt(other), strict=False)):
            if not alike(*texts):
                name = "request.prompt" if index + 1 == len(one.prompt(row)) else f"request.prompt[{index}]"
                return _from_within(one, two, row, other, ({name: texts[0]}, {name: texts[1]}), judged=False)
        if row.request.get("kind") == "turn":
            offers = {"request.tools": one.offered(row)}, {"request.tools": two.offered(other)}
            if not alike(*offers):
                return _offered_otherwise(one, two, row, *offers)
        came = {"outcome": one.outcome_facts(row)}, {"outcome": two.outcome_facts(other)}
        if not alike(*came):
            return _asked_within(one, two, row, *came) or _from_outside(row, other, *came)
        decided = one.decision_facts(row), two.decision_facts(other)
        if not alike(*decided):
            return _from_within(one, two, row, other, decided, judged=True)
    if len(one.rows) == len(two.rows):
        return None
    return _length_difference(one, two)


def _length_difference(one: Reader, two: Reader) -> _Found:
    short, long = (one, two) if len(one.rows) < len(two.rows) else (two, one)
    seq = len(short.rows)
    word = "waits" if short.row.status == "waiting" else "has not ended and has no further row"
    detail = f"run {short.row.run_id} {word}; the other one went on with {long.rows[seq].trigger}"
    left, right = (reader.rows[seq].trigger if reader is long else None for reader in (one, two))
    return _Found(seq, ("trigger", left, right), "unfinished", detail)


def _from_outside(row: Transition, other: Transition, one: dict[str, Any], two: dict[str, Any]) -> _Found:
    """Return a difference in what came back: it is its own cause."""
    place = first_place(one, two)
    kinds = {row.outcome["kind"], other.outcome["kind"]}
    names: tuple[str, ...] = ()
    told = {row.outcome.get("why"), other.outcome.get("why")} & {"deadline", "tool_unsure"}
    if "in_doubt" in kinds and not told:
        cause, names = "crash", (str(row.request.get("tool", "")),)
        detail = f"in one of them a driver was lost while {names[0]} was running"
    elif "cancelled" in kinds:
        cause, detail = "cancelled", "one of them was cancelled here"
    elif "answer" in kinds:
        late = any(_late(side) for side in (one, two))
        cause = "clock" if late else "answer"
        detail = "one of them was answered too late" if late else "what a person answered differs"
    elif kinds <= {"reply", "fault"}:
        models = [str(item.request.get("model", "")) for item in (row, other)]
        cause, names = "model_output", tuple(dict.fromkeys(models))
        same = "the same prompt" if models[0] == models[1] else "the same prompt, but not the same model"
        detail = f"{same}, and another {'fault' if 'fault' in kinds else 'reply'} to {row.request['kind']}"
    else:
        names = (str(row.request.get("tool", "")),)
        within = place[0].endswith(".reply")
        cause = "model_output" if within else "tool_output"
        what = "the model answered a request of" if within else "the same call of"
        detail = f"{what} {names[0]} {'otherwise' if within else 'came to something else'}"
    return _Found(row.seq, place, cause, detail, names=names)


def _offered_otherwise(
    one: Reader, two: Reader, row: Transition, left: dict[str, Any], right: dict[str, Any]
) -> _Found:
    """Return the difference of two turns whose providers were told of other tools; none of that is in a prompt."""
    found = parts_between(*(side.journal.spec(side.part(row).run_id) for side in (one, two)))
    named = ("tools", "policy", "task_type", "connections")
    parts = tuple(part for part in found if part.name.partition(":")[0].partition(".")[0] in named)
    names = ", ".join(part.name for part in parts) or "paor's own code"
    cause, detail = parts[0].cause if parts else "code", f"asked with other tools because of {names}"
    return _Found(row.seq, first_place(left, right), cause, detail, parts)


def _asked_within(
    one: Reader, two: Reader, row: Transition, left: dict[str, Any], right: dict[str, Any]
) -> _Found | None:
    """Return the difference when a tool asked a model otherwise because of a template."""
    place = first_place(left, right)
    if not place[0].endswith(".prompt"):
        return None
    specs = [side.journal.spec(side.part(row).run_id) for side in (one, two)]
    parts = tuple(part for part in parts_between(*specs) if part.cause == "prompt")
    names = ", ".join(part.name for part in parts)
    detail = f"{row.request.get('tool')} asked a model otherwise because of {names}"
    return _Found(row.seq, place, "prompt", detail, parts) if parts else None


def _late(came: dict[str, Any]) -> bool:
    return "nobody answered within" in str(came["outcome"].get("answer", ""))


def _from_within(
    one: Reader, two: Reader, row: Transition, other: Transition, values: tuple[Any, Any], *, judged: bool
) -> _Found:
    """Return a difference in a request or a decision: what decides is not the same."""
    place = first_place(*values)
    if place[0].startswith("request.values"):
        return _Found(row.seq, place, "values", "the engine's values port gave something else")
    what = "decided otherwise" if judged else "asked otherwise"
    try:
        run, theirs = (run_before(side.journal, side.row.run_id, row.seq) for side in (one, two))
        outcome: Outcome | None = recorded_outcome(one.journal, run, row) if judged else None
    except (PaorError, ValidationError, ValueError, LookupError, TypeError) as error:
        detail = f"{what}; why cannot be derived: {str(error).partition(';')[0]}"
        return _Found(row.seq, place, "code", detail)
    parts = parts_between(run.spec, theirs.spec)
    causes = (
        changed_guards(parts, row, other)
        or causes_of(
            run, row, outcome, [*parts, *parts_used(run, theirs)], recorded_host(one.journal, run, row)
        )
        or host_causes(parts, run, row, other)
    )
    if not causes and not _same_inputs(one, two, run.spec.documents, theirs.spec.documents):
        return _Found(row.seq, place, "config", f"{what} because of documents", names=("documents",))
    if not causes:
        named = tuple(part for part in parts if part.cause == "code")
        versions = ", ".join(f"{part.name} {part.left} and {part.right}" for part in named)
        told = f": {versions}" if versions else ", though all that was recorded of what decides is the same"
        return _Found(row.seq, place, "code", f"{what}{told}", named)
    names = ", ".join(map(_part_name, causes))
    return _Found(row.seq, place, causes[0].cause, f"{what} because of {names}", tuple(causes))


def _part_name(part: ComparedPart) -> str:
    """Return a part's name, with its values where they are short."""
    values = [
        ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
        for value in (part.left, part.right)
    ]
    short = all(len(value) <= 40 and "\n" not in value for value in values)
    return f"{part.name} ({values[0] or 'none'} and {values[1] or 'none'})" if short else part.name


def _same_inputs(one: Reader, two: Reader, left: Any, right: Any) -> bool:
    """Whether two runs were given the same documents."""
    given = [
        [(item.name, item.label, item.position, item.mime, reader.input(item)) for item in references]
        for reader, references in ((one, left), (two, right))
    ]
    return bool(given[0] == given[1])


def _drift(one: Reader, two: Reader, shared: int) -> _Found | None:
    """Return the first row at which other amounts were counted, of runs that are the same otherwise."""
    for row, other in zip(one.rows[shared:], two.rows[shared:], strict=False):
        for name in USAGE:
            left, right = row.outcome.get(name, 0), other.outcome.get(name, 0)
            if left != right:
                detail = "everything was said and decided alike, but other amounts were counted"
                return _Found(row.seq, (f"outcome.{name}", left, right), "budget", detail, names=(name,))
    return None


# -- the summary -------------------------------------------------------------------------------------------------


def _words(one: Reader, two: Reader, shared: int, found: _Found | None, specs: list[ComparedPart]) -> RunDiff:
    seq = found.seq if found is not None else None
    what = found or _Found(-1, ("", None, None), "", "")
    line, *texts = first_line(*map(_lines, what.place[1:])) if found is not None else (0, "", "")
    left, right = apart(*texts)
    names = tuple(part.name for part in what.parts) + what.names
    sources = [reader.rows[what.seq].source for reader in (one, two) if 0 <= what.seq < len(reader.rows)]
    return RunDiff(
        left=_side(one, left),
        right=_side(two, right),
        identical=found is None,
        shared=shared,
        seq=seq,
        source=next(iter(sources), ""),
        field=what.place[0],
        line=line,
        cause=what.cause,
        parts=names,
        detail=what.detail,
        decision_seq=_decision(one, two, seq),
        same_end=(one.row.state, one.row.reason) == (two.row.state, two.row.reason)
        and one.row.state in FINAL,
        same_answer=alike(_answer(one), _answer(two)),
        others=tuple(part.name for part in specs if part.name not in names),
    )


def _side(reader: Reader, text: str) -> Side:
    row, last = reader.row, reader.rows[-1] if reader.rows else None
    return Side(
        row.run_id,
        row.state,
        row.status,
        row.reason,
        len(reader.rows),
        last.step if last is not None else 0,
        last.tokens_in + last.tokens_out if last is not None else 0,
        last.cost_micro / 1e6 if last is not None else 0.0,
        last.time_us / 1e6 if last is not None else 0.0,
        text,
    )


def _decision(one: Reader, two: Reader, seq: int | None) -> int | None:
    """Return the first row from *seq* on that is another transition in one than in the other."""
    if seq is None:
        return None
    for row, other in zip(one.rows[seq:], two.rows[seq:], strict=False):
        if (row.trigger, row.dest) != (other.trigger, other.dest):
            return row.seq
    shorter = min(len(one.rows), len(two.rows))
    return shorter if len(one.rows) != len(two.rows) else None


def _answer(reader: Reader) -> Any:
    if not reader.rows or reader.row.state not in FINAL:
        return None
    changed = reader.change_facts(reader.rows[-1])
    return changed if isinstance(changed, str) else changed.get("answer")


# -- comparable rows -------------------------------------------------------------------------------------------------


class Reader:
    """
    One run as comparable rows.

    Args:
        journal: That holds it.
        run_id: Its whole id.
    """

    def __init__(self, journal: JournalReader, run_id: str) -> None:
        self.journal = journal
        self.row = journal.run(run_id)
        self.parts: tuple[SharedPart, ...] = journal.lineage(self.row.run)
        self.rows: list[Transition] = journal.transitions(self.row.run_id)
        self._prompts: Known = {}
        self._offered: dict[tuple[str, int], Any] = {}
        self._ids = [part.run_id for part in self.parts]

    def part(self, row: Transition) -> SharedPart:
        """Return the part that a row belongs to."""
        return part_with(self.parts, "first_seq", row.seq)

    def offered(self, row: Transition) -> Any:
        """Return what a provider was told of tools for a row, by their names: by the spec, and what a resume has accepted since."""
        part = self.part(row)
        amended = [one for one in self.rows[part.first_seq : row.seq + 1] if "spec" in one.request]
        key = part.run_id, len(amended)
        if key not in self._offered:
            try:
                spec = self.journal.spec(part.run_id)
                for one in amended:
                    spec = amend_spec(spec, self.journal.payload(one.run, one.request["spec"]["n"]).body)
                self._offered[key] = told_tools(spec)
            except (Erased, JournalDamaged):  # an amendment that is erased is damage
                self._offered[key] = ERASED
        return self._offered[key]

    def text(self, row: Transition, place: Any) -> str:
        """Return the text of a payload that a row refers to, without ids of the run."""
        body = self.journal.payload(row.run, place["n"]).body
        if body is None:
            return ERASED
        return self.plain(body if isinstance(body, str) else body.decode("utf-8", "backslashreplace"))

    def plain(self, text: str) -> str:
        """Return *text* without the ids of the run and of plans that it made itself."""
        for run_id in self._ids:
            text = text.replace(run_id, "RUN")
        return _PLAN_ID.sub("PLAN", text)

    def input(self, document: DocumentRef) -> str | bytes | None:
        """Return the body of a document that the run was given."""
        return self.journal.payload(self.parts[0].run, document.payload.n).body

    def prompt(self, row: Transition) -> list[str]:
        """Return the messages of a model request."""
        places = prompt_places(self.rows, row, self._prompts)
        return [text or "" for _, text in told_messages(places, lambda found: self.text(row, found.place))]

    def request_facts(self, row: Transition) -> dict[str, Any]:
        """Return a row's request without its prompt and without the model's name."""
        kept = {
            name: value
            for name, value in row.request.items()
            if name not in ("prompt", "after", "roles", "model", "summary")
        }
        for name in ("values", "spec"):
            if name in kept:
                kept[name] = self.value(row, kept[name])
        if "payloads" in kept:
            kept["payloads"] = [self.value(row, {"n": number}) for number in kept["payloads"]]
        return kept

    def outcome_facts(self, row: Transition) -> dict[str, Any]:
        """Return a row's outcome as far as it came from outside: texts, codes, how it ended; no usage, no label."""
        facts = row.outcome
        found: dict[str, Any] = {"kind": facts["kind"]}
        for name in ("reply", "message", "answer"):
            if isinstance(facts.get(name), dict):
                found[name] = self.text(row, facts[name])
        for name in ("finish", "code", "action"):
            if name in facts:
                found[name] = facts[name]
        if "reply" in facts.get("summary", {}):
            found["summary"] = self.text(row, facts["summary"]["reply"])
        for index, (prompt, reply) in enumerate(facts.get("texts", ())):
            found[f"texts[{index}].prompt"] = self.text(row, prompt)
            found[f"texts[{index}].reply"] = self.text(row, reply)
        if facts["kind"] == "result":
            change_facts = self.change_facts(row)
            found["result"] = change_facts if isinstance(change_facts, str) else change_facts.get("result")
        return found

    def decision_facts(self, row: Transition) -> dict[str, Any]:
        """Return what was decided at a row: the transition, its guards, what it set, its counters; no usage."""
        facts = {
            name: row.outcome.get(name) for name in ("invalid", "stop", "duplicate", "skipped", "dropped")
        }
        counters = {name: value for name, value in row.counters.items() if name != "calls"}
        return {
            "trigger": row.trigger,
            "dest": row.dest,
            "guards": dict(row.guards),
            "outcome": {name: value for name, value in facts.items() if value is not None},
            "counters": counters | {"step": row.step, "action": row.action, "retries": row.retries},
            "change": self.change_facts(row),
        }

    def change_facts(self, row: Transition) -> Any:
        """Return what a row set, as a mapping of slots."""
        body = self.journal.payload(row.run, row.change["n"]).body
        return ERASED if body is None else self.value(row, orjson.loads(body))

    def value(self, row: Transition, data: Any) -> Any:
        """Return JSON with the content of payloads in the place of their numbers, and without keys of the run's own."""
        if isinstance(data, dict):
            if type(data.get("n")) is int and set(data) <= {"n", "bytes", "digest"}:
                return self._content(row, data["n"])
            kept = {name: item for name, item in data.items() if name not in _OWN_KEYS}
            return {name: self.value(row, item) for name, item in kept.items()}
        if isinstance(data, list):
            return [self.value(row, item) for item in data]
        return self.plain(data) if isinstance(data, str) else data

    def _content(self, row: Transition, number: int) -> str:
        found = self.journal.find_payload(row.run, number)
        if found is None or found.body is None:
            return ERASED
        if isinstance(found.body, str) and len(found.body) <= _BODY_MAX:
            return self.plain(found.body)
        return content_key(found.body).hex()


def alike(one: Any, other: Any) -> bool:
    """Whether two comparable values are the same; what was erased is like anything."""
    if any(isinstance(value, str) and value == ERASED for value in (one, other)):
        return True
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(alike(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(alike, one, other))
    return bool(one == other) and type(one) is type(other)


def first_place(one: Any, other: Any, name: str = "") -> tuple[str, Any, Any]:
    """Return the place of the first difference within two comparable values, and what is there."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted({*one, *other}, key=_rank):
            if key not in one or key not in other or not alike(one[key], other[key]):
                return first_place(one.get(key), other.get(key), f"{name}.{key}" if name else str(key))
    if isinstance(one, list) and isinstance(other, list):
        for index, (left, right) in enumerate(zip(one, other, strict=False)):
            if not alike(left, right):
                return first_place(left, right, f"{name}[{index}]")
        if len(one) != len(other):
            index = min(len(one), len(other))
            missing = (one[index] if index < len(one) else None, other[index] if index < len(other) else None)
            return f"{name}[{index}]", *missing
    return name, one, other


def _rank(key: str) -> tuple[int, str]:
    """Order the keys of a mapping: how it came out first, then what a tool asked of a model, then the rest."""
    return (1 if key.startswith("texts[") else _FIRST.get(key, len(_FIRST)) + 1 if key != "kind" else 0), key


def _lines(value: Any) -> list[str]:
    if value is None:
        return ["(nothing)"]
    return (value if isinstance(value, str) else json_text(value)).split("\n")


__all__ = ["CAUSES", "RunDiff", "Side", "diff"]
