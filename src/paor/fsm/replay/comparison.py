"""What a replay compares: of each row what was derived now with what was recorded, and documents, the head, fingerprints."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from operator import attrgetter
from typing import Any, TypeAlias

import orjson

from ...prompts.building.builder import TextTask
from ...prompts.building.templates import Template, parse_template
from ...prompts.model import PromptMessage, prompt_bytes
from ...states.records.actions import DocumentRef, StoredText
from ...states.records.outcomes import Ended
from ...states.records.requests import ModelRequest, Recall, Request, ToolRequest
from ...states.run.budgets import reservation, shortage
from ...states.run.completion import output_asked
from ...states.run.counters import COLUMN_COUNTERS as COLUMNS
from ...states.run.counters import counters_text
from ...states.run.phase_names import FINAL, PLANNING
from ...states.run.spec import Spec
from ...states.run.state import Change, Run
from ...tools.catalog import Catalog
from ..decision.run_resources import RunResources, offered_tools
from ..journal.payloads import Payload, as_text
from ..journal.prompts import prompt_places
from ..journal.reader import JournalReader
from ..journal.record import canonical
from ..journal.rows import RunRow, Transition
from ..machine.updates import Decision
from ..versioning.fingerprints import given_fingerprints
from .payload_window import PayloadWindow


@dataclass(frozen=True, slots=True)
class Divergence:
    """
    One difference between record and derivation.

    Attributes:
        seq: Row.
        field: What differs: ``trigger``, ``guards``, ``request.prompt``, ``change``, ``step`` and so on.
        expected: As recorded.
        found: As derived now.
        where: Of a prompt, whose message it is and the template that it comes from.
    """

    seq: int
    field: str
    expected: str
    found: str
    where: str = ""

    def __str__(self) -> str:
        place = f"row {self.seq}, " if self.seq >= 0 else ""
        where = f" ({self.where})" if self.where else ""
        return f"{place}{self.field}{where}: recorded {self.expected}, derived {self.found}"


@dataclass(frozen=True, slots=True)
class Unchecked:
    """
    What a replay cannot say, because a text was erased or the host's own code is not here.

    Attributes:
        seq: Row; -1 for the spec.
        field: As in `Divergence`.
        why: In a few words.
    """

    seq: int
    field: str
    why: str = "erased"

    def __str__(self) -> str:
        return f"row {self.seq}, {self.field}: {self.why}" if self.seq >= 0 else f"{self.field}: {self.why}"


Difference: TypeAlias = Divergence | Unchecked


def short(text: str) -> str:
    """Return *text* as one line of at most 160 characters."""
    line = " ".join(text.split())
    return line if len(line) <= 160 else line[:157] + "..."


def apart(before: object, after: object) -> tuple[str, str]:
    """Return two values as a line each of at most 160 characters and dots; of long ones what is around the place where they part."""
    one, two = (" ".join(f"{value}".split()) for value in (before, after))
    if one == two:  # they differ in blanks, or in their types
        one, two = repr(before), repr(after)
    same = bisect_left(range(1, min(len(one), len(two)) + 1), True, key=lambda size: one[:size] != two[:size])
    start, dots = (same - 40, "...") if same > 120 else (0, "")
    return dots + short(one[start:]), dots + short(two[start:])


def first_difference(old: str | bytes, new: str) -> tuple[str, str]:
    """Return the first line that differs, as recorded and as derived."""
    text = old if isinstance(old, str) else old.decode("utf-8", "replace")
    number, before, after = first_line(text.split("\n"), new.split("\n"))
    left, right = apart(before, after)
    return f"line {number}: {left}", f"line {number}: {right}"


def first_line(before: list[str], after: list[str]) -> tuple[int, str, str]:
    """Return number (from 1) and text of the first line in which two texts differ; one that says something, if any."""
    blank: tuple[int, str, str] | None = None
    for number, (left, right) in enumerate(zip_longest(before, after, fillvalue="(end)"), 1):
        if left == right:
            continue
        if left.strip() not in ("", "(end)") or right.strip() not in ("", "(end)"):
            return number, left, right
        blank = blank or (number, left, right)
    return blank or (1, before[0], after[0])


def told_tools(spec: Spec, catalog: Catalog | None = None) -> dict[str, str]:
    """Return what a provider is told of each tool that the turns of a run are offered, by its name; *catalog* is that of the spec."""
    tools = offered_tools(catalog if catalog is not None else Catalog(spec.tools), spec)
    return {
        tool.name: orjson.dumps(
            [tool.description, tool.schema], default=dict, option=orjson.OPT_SORT_KEYS
        ).decode()
        for tool in tools
    }


def template_of(kind: str, run: Run) -> str:
    """Return the name of the template of a *kind* request."""
    if kind == "review" and output_asked(run):
        return "output"
    selection = run.memory.selection
    whole = kind == "parameters" and selection is not None and selection.is_bare
    return "parameters_full" if whole else kind


# -- one row --------------------------------------------------------------------------------------------------------


def compare_request(
    journal: PayloadWindow,
    kit: RunResources,
    run: Run,
    rows: Sequence[Transition],
    row: Transition,
    request: Request,
) -> Iterator[Difference]:
    derived = request_facts(request)
    if row.request.get("kind") != derived["kind"]:
        yield Divergence(row.seq, "request.kind", str(row.request.get("kind")), derived["kind"])
        return
    if not isinstance(request, ModelRequest):
        derived |= {name: row.request[name] for name in ("spec", "values") if name in row.request}
        yield from _compare_maps(row.seq, "request", dict(row.request), derived)
        return
    if row.request.get("attempt", 0) != request.attempt:
        yield Divergence(row.seq, "request.attempt", str(row.request.get("attempt", 0)), str(request.attempt))
    for name in sorted(
        row.request.keys()
        - {"kind", "model", "prompt", "after", "roles", "attempt", "reserved", "spec", "values"}
    ):
        yield Divergence(row.seq, f"request.{name}", short(str(row.request[name])), "(nothing)")

    messages, whole = built_prompt(journal, kit, run, row, request)
    size = 0
    if run.spec.limits.reply_tokens is not None:
        size = prompt_bytes(messages, kit.offered(request.kind, run))
    yield from _compare_reservation(run, row, size)
    yield from compare_prompt(journal, run, rows, row, request, messages, whole=whole)


def built_prompt(
    journal: PayloadWindow,
    kit: RunResources,
    run: Run,
    row: Transition,
    request: ModelRequest,
    model: str | None = None,
) -> tuple[tuple[PromptMessage, ...], bool]:
    """Return the messages of a request as they are made now, for *model* or the recorded one, and whether no text in them was erased."""
    erased = []

    def texts(place: StoredText) -> str | None:
        body = journal.payload(run.number, place.n).body
        erased.extend([place] if body is None else [])
        return as_text(body)

    asked = str(row.request.get("model", "")) if model is None else model
    messages = kit.messages(request.kind, run, texts, asked)
    return messages, not erased


def compare_prompt(
    journal: PayloadWindow,
    run: Run,
    rows: Sequence[Transition],
    row: Transition,
    request: ModelRequest,
    messages: Sequence[PromptMessage],
    *,
    whole: bool,
) -> Iterator[Difference]:
    """Yield where *messages*, as `built_prompt` gives them, are not the prompt that *row* recorded."""
    recorded = prompt_places(rows, row, journal.prompts if request.kind != "summary" else None)
    if len(messages) != len(recorded):
        yield Divergence(row.seq, "request.prompt", f"{len(recorded)} messages", f"{len(messages)} messages")
        return
    begin, differs = journal.begins_as_before(request.kind, recorded, messages), not whole
    for (number, place, role), message in zip(recorded[begin:], messages[begin:], strict=True):
        if role and role != message.role:
            differs = True
            yield Divergence(row.seq, "request.roles", role, message.role)
        payload = journal.payload(number, place["n"])
        if payload.body is not None and journal.is_text(payload, place, message.body):
            continue
        differs = True
        if payload.body is None or not whole:
            yield Unchecked(row.seq, "request.prompt")
            continue
        where = f"{message.role} message, template {template_of(request.kind, run)}"
        yield Divergence(row.seq, "request.prompt", *_prompt_difference(payload, place, message.body), where)
    if not differs:
        journal.same_prompts[request.kind] = recorded, messages


def _compare_reservation(run: Run, row: Transition, prompt_size: int) -> Iterator[Divergence]:
    """Yield where a request was reserved, made or refused otherwise than its prompt and the budgets say."""
    limits, tokens = run.spec.limits, None
    wanted = reservation(limits, run.counters, prompt_size)
    refused_by = shortage(run, wanted)
    if limits.reply_tokens is not None:
        tokens = wanted.tokens
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


def request_facts(request: Request) -> dict[str, Any]:
    """Return what a row says of a request, without the model and the prompt."""
    if isinstance(request, ModelRequest):
        return {"kind": request.kind}
    if isinstance(request, ToolRequest):
        return {"kind": "tool", "tool": request.intent.tool, "effect": request.intent.effect}
    if isinstance(request, Recall):
        return {"kind": "recall", "payloads": [place.n for place in request.payloads]}
    return {"kind": "none"}


_BOOL = {bool}
_columns = attrgetter(*COLUMNS)


def compare_decision(
    journal: PayloadWindow, run: Run, row: Transition, decision: Decision
) -> Iterator[Difference]:
    for name, found in (("trigger", decision.row.trigger), ("dest", decision.row.dest)):
        if getattr(row, name) != found:
            yield Divergence(row.seq, name, str(getattr(row, name)), found)
    if row.guards != decision.guards or not _BOOL.issuperset(map(type, row.guards.values())):
        for guard in sorted({*row.guards, *decision.guards}):
            old, new = row.guards.get(guard), decision.guards.get(guard)
            if old is not new:
                yield Divergence(row.seq, f"guards.{guard}", str(old), str(new))
    counters, others = decision.counters, counters_text(decision.counters)
    for name, old, new in zip(COLUMNS, _columns(row), _columns(counters), strict=True):
        if old != new:
            yield Divergence(row.seq, name, str(old), str(new))
    if canonical(dict(row.counters)) != others:
        yield from _compare_maps(row.seq, "counters", dict(row.counters), orjson.loads(others))
    yield from _compare_maps(row.seq, "outcome", dict(row.outcome), decision.facts)
    payload = journal.payload(run.number, row.change["n"])
    derived = decision.change_text
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
            yield Divergence(seq, f"{place}.{name}", *apart(old.get(name), new.get(name)))


def _compare_change(seq: int, body: str | bytes, derived: str) -> Iterator[Divergence]:
    try:
        old, new = orjson.loads(body), orjson.loads(derived)
    except orjson.JSONDecodeError:
        yield Divergence(seq, "change", *apart(body, derived))
        return
    for slot in sorted({*old, *new}):
        before, after = old.get(slot), new.get(slot)
        if before == after and (slot in old) == (slot in new):
            continue
        if isinstance(before, dict) and isinstance(after, dict):
            yield from _compare_maps(seq, f"change.{slot}", before, after)
        else:
            yield Divergence(seq, f"change.{slot}", *apart(before, after))


# -- results and the requests of tools ----------------------------------------------------------------------------


def compare_result(
    journal: PayloadWindow, kit: RunResources, run: Run, row: Transition, outcome: Ended
) -> Iterator[Difference]:
    """Yield the parts of a call result that do not derive from code: document locations and prompts of nested requests."""
    intent, first = run.memory.intent, run.counters.documents
    for position, document in enumerate(outcome.result.documents):
        found = (first + position, intent.label if intent is not None else "", position)
        recorded = (document.number, document.label, document.position)
        if recorded != found:
            yield Divergence(row.seq, f"change.result.documents.{position}", str(recorded), str(found))
    for number, (prompt, _) in enumerate(outcome.texts):
        yield from _compare_text(journal, kit, run, row, number, prompt)


def _compare_text(
    journal: PayloadWindow, kit: RunResources, run: Run, row: Transition, number: int, prompt: StoredText
) -> Iterator[Difference]:
    """Compare what of a tool's own prompt does not come from the tool: what the template says before its values."""
    body, field = journal.payload(run.number, prompt.n).body, f"outcome.texts.{number}"
    if body is None:
        yield Unchecked(row.seq, field)
        return
    try:
        recorded = {role: text for role, text in orjson.loads(body)}
    except orjson.JSONDecodeError:
        return  # lone surrogates: kept in another form
    messages = {message.role: message.text for message in kit.prompts.text(TextTask("", ()))}
    template = parse_template(kit.spec.templates["text"], "text")
    messages["user"] = _head(template, recorded.get("user", ""))
    for role in ("system", "user"):
        old, new = recorded.get(role, ""), messages.get(role, "")
        if role == "user":
            old = old[: len(new)]
        if old != new:
            yield Divergence(row.seq, field, *first_difference(old, new), f"{role} message, template text")


def _head(template: Template, recorded: str) -> str:
    """Return with which words of *template* a user message begins; blocks without values are left out of messages."""
    heads = []
    for block in template.user:
        heads.append(block[0])
        if len(block) == 1:  # nothing but words: it is in every message
            break
    may_be_empty = all(
        len(block) > 1 for block in template.user
    )  # a tool that asks for nothing, in no language
    missed = "" if not recorded and may_be_empty else next(iter(heads), "")
    return next((head for head in heads if recorded.startswith(head)), missed)


# -- documents, head, fingerprints --------------------------------------------------------------------------------


def compare_documents(
    journal: JournalReader, row: RunRow, spec: Spec, run: Run, transitions: Sequence[Transition]
) -> Iterator[Divergence]:
    """Yield rows of `documents` that are not what the spec and the observed results say."""
    expected = {document.number: (-1, document) for document in spec.documents}
    result: list[DocumentRef] = []
    store = PayloadWindow(journal)
    for item in transitions:
        if item.trigger == "execute" and item.outcome.get("documents"):
            change = Change.read(store.payload(item.run, item.change["n"]).body or "")
            result = list(change.result.documents) if change.result else []
        elif item.trigger == "observe":
            expected |= {document.number: (item.seq, document) for document in result}
            result = []
    stored = {document.number: document for document in journal.stored_documents(row.run)}
    for number, (seq, document) in expected.items():
        found = stored.get(number)
        if found is None:
            if row.parent_run_id is None:
                yield Divergence(seq, f"documents.{number}", "(nothing)", document.label)
            continue
        place = document.payload
        values = {"label": document.label, "position": document.position, "name": document.name}
        values |= {"mime": document.mime, "bytes": place.bytes, "digest": place.digest, "payload": place.n}
        for name, value in values.items():
            if getattr(found, name) != value:
                yield Divergence(seq, f"documents.{number}.{name}", *apart(getattr(found, name), value))
    for number in sorted(stored.keys() - expected.keys()):
        if row.parent_run_id is None and number < run.counters.documents:
            yield Divergence(-1, f"documents.{number}", stored[number].label, "(nothing)")


def compare_head(row: RunRow, run: Run, transitions: Sequence[Transition]) -> Iterator[Divergence]:
    """Yield what the view `runs` says otherwise than the rows do."""
    last = transitions[-1] if transitions else None
    ended = last is not None and run.state in FINAL
    expected: dict[str, Any] = {
        "state": run.state if last is not None else PLANNING,  # the view knows no other beginning
        "status": run.status,
        "reason": run.counters.stop if ended else None,
        "ended_at": last.at if last is not None and ended else None,
        "head_seq": run.seq - 1,
    }
    if last is not None and last.run == row.run:  # a fork without rows of its own ends with its root hash
        expected["head_hash"] = bytes.fromhex(last.hash)
    for name, value in expected.items():
        if getattr(row, name) != value:
            yield Divergence(run.seq - 1, f"runs.{name}", str(getattr(row, name)), str(value))


def compare_fingerprints(seq: int, spec: Spec) -> Iterator[Divergence]:
    """Yield fingerprints of a spec that do not fit its contents; code is compared by whoever has it."""
    derived = given_fingerprints(spec) if spec.fingerprints else {}
    for part, digest in derived.items():
        if spec.fingerprints.get(part) != digest:
            recorded = spec.fingerprints.get(part, "(nothing)")
            yield Divergence(seq, f"spec.fingerprints.{part}", recorded, digest)
