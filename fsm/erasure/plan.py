"""
What has to go when a run, a document or a field is erased: payload numbers, run by run. Reads, writes nothing.

Three rules decide (docs/journal-format.md, "Erasing"). By reference: what a row says belongs to it. By excerpt: every
payload in which `excerpts.EXCERPT` characters in a row of an erased text stand. By key: where a call's arguments go,
the spec goes too, since its key_salt would let a guess of the arguments be checked against the key in the row. What a
model has said in words of its own about an erased text cannot be known; only erasing by run takes that away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import orjson

from ...states.base.errors import UsageError
from ...states.run.spec import TASK_TOOL
from ..journal.lineage import part_with
from ..journal.rows import RunRow, StoredDocument
from .text_search import Excerpts, form, leaves, texts_within

if TYPE_CHECKING:
    from ..journal.reader import JournalReader

SPEC_FIELDS: Mapping[str, tuple[str, ...]] = {
    "objective": ("objective", "tasks"),
    "criteria": ("success_criteria", "tasks"),
    "context": ("context", "children"),
    "transcript": ("transcript", "children"),
    "history": ("history",),
}
"""Fields that stand in the spec and in every prompt, and the keys of the spec that hold them."""

FIELDS = (*SPEC_FIELDS, "prompts", "replies", "arguments", "results", "documents", "questions", "answer")
"""What can be erased by name."""

_BATCH = 200


class ErasurePlan:
    """
    What is to be erased, found in steps; `settle` again after the file has grown looks at what is new only.

    Args:
        journal: That holds the runs.
        runs: In which texts are searched for, by number.

    Attributes:
        doomed: Payloads to be erased, by number of the run.
    """

    def __init__(self, journal: JournalReader, runs: Iterable[int]) -> None:
        self.journal = journal
        self.doomed: dict[int, set[int]] = {}
        self._runs = list(runs)
        self._fresh: list[str | bytes] = []
        self._searched: list[Excerpts] = []
        self._seen: dict[int, int] = {}
        self._sources: set[str] = set()
        self._specs: dict[int, int] = {}

    def doom(self, run: int, numbers: Iterable[int]) -> None:
        """Erase these payloads of a run, if they are there still; of a fork what it shares goes from its parent."""
        for n in numbers:
            payload = self.journal.find_payload(run, n)
            if payload is not None and payload.body is not None:
                self.doomed.setdefault(holder(self.journal, run, n), set()).add(n)

    def doom_run(self, run: int) -> None:
        """Erase every payload of a run."""
        rows = self.journal.query(
            "SELECT n FROM payloads WHERE id BETWEEN ? AND ? AND body IS NOT NULL",
            (run << 32, run << 32 | (2**32 - 1)),
        )
        self.doomed.setdefault(run, set()).update(n for (n,) in rows)

    def search(self, texts: Iterable[str | bytes]) -> None:
        """Erase whatever holds an excerpt of one of these."""
        self._fresh += texts

    def follow(self, body: str | bytes) -> None:
        """Erase, beside excerpts of it, what calls have made of a document with this body, in every run."""
        source = form(body)
        if source not in self._sources:
            self._sources.add(source)
            self._fresh.append(body)

    def settle(self) -> None:
        """Search until nothing more is found."""
        while self._fresh or self._grown():
            fresh = Excerpts(self._fresh)
            self._fresh = []
            known = list(self._searched)
            if fresh:
                self._searched.append(fresh)
            for run in self._runs:
                self._search_run(run, fresh, known)
            for run in self._runs if self._sources else ():
                self._follow_run(run)
            for run in self._runs:
                self._settle_keys(run)

    def _grown(self) -> bool:
        return any(self.journal.next_payload(run) > self._seen.get(run, 0) for run in self._runs)

    def _search_run(self, run: int, fresh: Excerpts, known: Sequence[Excerpts]) -> None:
        """Search for what is new in all payloads, and for what was known in those that are new."""
        seen, doomed = self._seen.get(run, 0), self.doomed.get(run, set())
        for payload in self.journal.iterate_payloads(run, _BATCH):
            self._seen[run] = max(self._seen.get(run, 0), payload.n + 1)
            if payload.body is None or payload.n in doomed:
                continue
            body, older = payload.body, known if payload.n >= seen else ()
            if (fresh and fresh.stand_in(body)) or any(index.stand_in(body) for index in older):
                self.doom(run, [payload.n])
                doomed = self.doomed.get(run, set())

    def _follow_run(self, run: int) -> None:
        """Erase the results of calls that were given a followed document, and follow the documents among them."""
        tainted = set()
        for document, body in self.journal.documents_at(run, 0, 2**32):
            if body is not None and form(body) in self._sources:
                tainted |= {f"docItem:{document.label}#{document.position}", f"docList:{document.label}"}
        chosen: set[str] = set()
        given = False
        for row in self.journal.rows(run) if tainted else ():
            trigger, change_n = row[3], orjson.loads(row[9])["n"]
            change = json_of(self.journal, run, change_n)
            selection = (change or {}).get("selection")
            if isinstance(selection, dict):
                chosen = set(selection.get("documents") or ())
            intent = (change or {}).get("intent")
            if isinstance(intent, dict):
                texts = "\n".join(texts_within(intent.get("arguments")))
                whole = intent.get("tool") == TASK_TOOL.name
                given = whole or bool(chosen & tainted) or any(name in texts for name in tainted)
            elif trigger == "specify":
                given = True  # the arguments were erased before: nobody can say what they named
            if trigger == "execute" and given:
                tainted |= self._follow_result(run, change_n, change, orjson.loads(row[8]))

    def _follow_result(
        self, run: int, change_n: int, change: Mapping[str, Any] | None, outcome: Mapping[str, Any]
    ) -> set[str]:
        """Erase what a call made of a document; return the references of the documents that it made."""
        self.doom(run, [change_n, *(place["n"] for pair in outcome.get("texts", ()) for place in pair)])
        references = set()
        for document in ((change or {}).get("result") or {}).get("documents") or ():
            n = document["payload"]["n"]
            body = self.journal.payload(run, n).body
            references |= {
                f"docItem:{document['label']}#{document['position']}",
                f"docList:{document['label']}",
            }
            self.doom(run, [n])
            if body is not None:
                self.follow(body)
        return references

    def _settle_keys(self, run: int) -> None:
        """Erase the spec, and with it the salt of the keys, where the arguments of a call go."""
        spec = spec_payload(self.journal, run)
        doomed = self.doomed.get(run, set())
        if not doomed or self.journal.payload(run, spec).body is None:
            return
        for n in sorted(doomed):
            if isinstance((json_of(self.journal, run, n) or {}).get("intent"), dict):
                self.doom(run, [spec])
                return


def spec_payload(journal: JournalReader, run: int) -> int:
    """Return the number of the payload that holds a run's spec."""
    n: int = journal.query("SELECT spec_payload FROM specs WHERE run = ?", (run,))[0][0]
    return n


def holder(journal: JournalReader, run: int, n: int) -> int:
    """Return the number of the run under which a payload of a run stands: of what a fork shares, an ancestor's."""
    return part_with(journal.lineage(run), "first_payload", n).run


def json_of(journal: JournalReader, run: int, n: int) -> dict[str, Any] | None:
    """Return a payload that holds a JSON object, None for anything else and once erased."""
    payload = journal.find_payload(run, n)
    if payload is None or payload.media_type != "application/json" or payload.body is None:
        return None
    try:
        data = orjson.loads(payload.body)
    except orjson.JSONDecodeError:
        return None
    return data if isinstance(data, dict) else None


# -- documents ---------------------------------------------------------------------------------------------------


def documents_named(journal: JournalReader, row: RunRow, wanted: Iterable[str | int]) -> list[StoredDocument]:
    """
    Return the documents that somebody names by number, by ``LABEL#POSITION`` or, all under it, by label.

    Raises:
        UsageError: A name that fits none.
    """
    documents = journal.documents(row.run_id)
    found: dict[int, StoredDocument] = {}
    for name in wanted:
        if isinstance(name, bool) or not isinstance(name, str | int):
            raise UsageError(f"a document is named by its label or number, not by {name!a:.80}")
        text = str(name).removeprefix("docItem:").removeprefix("docList:")
        fit = [
            item
            for item in documents
            if text in (item.label, f"{item.label}#{item.position}", str(item.number))
        ]
        if not fit:
            raise UsageError(
                f"{name}: run {row.run_id} has no such document; see: paor show {row.run_id} --documents"
            )
        found |= {item.number: item for item in fit}
    return [found[number] for number in sorted(found)]


def plan_document(plan: ErasurePlan, run: int, document: StoredDocument) -> None:
    """Erase a document: its body, excerpts, and what calls have made of it; of a PDF or page also its text."""
    body = plan.journal.payload(run, document.payload).body
    plan.doom(run, [document.payload])
    if body is None:
        return
    plan.follow(body)
    text = _text_of(document, body)
    if text is not None:
        plan.search([text])


def _text_of(document: StoredDocument, body: str | bytes) -> str | None:
    """Return the text that tools see of a document which is not plain text itself, None where there is none."""
    if document.mime in ("text/plain", "text/markdown", "application/json"):
        return None
    from ...tools.documents.convert.registry import ConversionError, convert

    try:
        data = body if isinstance(body, bytes) else body.encode()
        return convert(document.name, data, mime=document.mime).text
    except ConversionError:
        return None


# -- fields ------------------------------------------------------------------------------------------------------


def plan_field(plan: ErasurePlan, run: int, name: str) -> None:
    """
    Erase one field of a run.

    Raises:
        UsageError: There is no such field.
    """
    if name not in FIELDS:
        raise UsageError(f"field {name!a:.80}: expected one of {', '.join(FIELDS)}")
    if name in SPEC_FIELDS:
        _plan_spec_field(plan, run, SPEC_FIELDS[name])
    elif name == "documents":
        for document, _ in plan.journal.documents_at(run, 0, 2**32):
            plan_document(plan, run, document)
    else:
        for row in plan.journal.rows(run):
            _ROW_FIELDS[name](plan, run, _Row(plan.journal, run, row))


def _plan_spec_field(plan: ErasurePlan, run: int, keys: tuple[str, ...]) -> None:
    """A text of the spec is in the spec, and in every prompt."""
    place = spec_payload(plan.journal, run)
    spec = json_of(plan.journal, run, place) or {}
    plan.doom(run, [place])
    first = keys[0]
    whole = spec.get(first)
    plan.search([whole] if isinstance(whole, str) else [text for text in texts_within(whole) if _tells(text)])
    plan.search(text for key in keys[1:] for text in texts_within(spec.get(key)) if _tells(text))
    for values in plan.journal.rows(run):
        plan.doom(run, _Row(plan.journal, run, values).prompts)


def _tells(text: str) -> bool:
    """Whether one of several texts says enough to be searched for: the names of roles and modes do not."""
    return len(form(text)) >= 12


class _Row:
    """A row's payload numbers, and the change that it refers to."""

    def __init__(self, journal: JournalReader, run: int, values: tuple[Any, ...]) -> None:
        self.trigger: str = values[3]
        self.request, self.outcome = orjson.loads(values[7]), orjson.loads(values[8])
        self.change_n: int = orjson.loads(values[9])["n"]
        self._journal, self._run = journal, run
        texts = self.outcome.get("texts", ())
        self.prompts = [place["n"] for place in self.request.get("prompt", ())] + [
            pair[0]["n"] for pair in texts
        ]
        self.replies = [self.outcome[key]["n"] for key in ("reply", "message") if key in self.outcome]
        self.told = [pair[1]["n"] for pair in texts]

    @property
    def change(self) -> dict[str, Any]:
        """What the row set; empty once erased."""
        return json_of(self._journal, self._run, self.change_n) or {}

    def texts(self, numbers: Iterable[int]) -> Iterator[str]:
        """Yield the texts in payloads, of JSON its values."""
        for n in numbers:
            body = self._journal.payload(self._run, n).body
            if body is not None:
                yield from (text for text in leaves(body) if _long(text))


def _long(text: str) -> bool:
    return len(form(text)) >= 24


def _prompts(plan: ErasurePlan, run: int, row: _Row) -> None:
    plan.doom(run, row.prompts)


def _replies(plan: ErasurePlan, run: int, row: _Row) -> None:
    """What a model said is in its reply and, read, in the change of the same row."""
    said = [*row.replies, *row.told]
    if said:
        plan.search(row.texts(said))
        plan.doom(run, [*said, row.change_n])


def _arguments(plan: ErasurePlan, run: int, row: _Row) -> None:
    change = row.change
    if (
        row.request.get("kind") in ("parameters", "plan", "task_plan")
        or change.get("intent")
        or change.get("plan")
    ):
        found = [
            text for slot in ("intent", "plan") for text in texts_within(change.get(slot)) if _long(text)
        ]
        plan.search([*row.texts(row.replies), *found])
        plan.doom(run, [*row.replies, row.change_n, spec_payload(plan.journal, run)])


def _results(plan: ErasurePlan, run: int, row: _Row) -> None:
    if row.trigger in ("execute", "observe"):
        documents = (row.change.get("result") or {}).get("documents") or ()
        numbers = [document["payload"]["n"] for document in documents]
        plan.search(row.texts([row.change_n, *row.told]))
        plan.search(body for n in numbers if (body := plan.journal.payload(run, n).body) is not None)
        plan.doom(run, [row.change_n, *row.told, *numbers])


def _questions(plan: ErasurePlan, run: int, row: _Row) -> None:
    change = row.change
    numbers = [row.outcome["answer"]["n"]] if "answer" in row.outcome else []
    if numbers or change.get("question") or change.get("reply"):
        found = [
            text for slot in ("question", "reply") for text in texts_within(change.get(slot)) if _tells(text)
        ]
        plan.search([*row.texts(numbers), *found])
        plan.doom(run, [*numbers, row.change_n])


def _answer(plan: ErasurePlan, run: int, row: _Row) -> None:
    change = row.change
    given = [
        change.get("answer"),
        *((change.get(slot) or {}).get("answer") for slot in ("refinement", "review")),
    ]
    found = [text for text in given if isinstance(text, str) and text.strip()]
    if found:
        plan.search(found)
        plan.doom(run, [row.change_n, *row.replies])


_ROW_FIELDS: Mapping[str, Callable[[ErasurePlan, int, _Row], None]] = {
    "prompts": _prompts,
    "replies": _replies,
    "arguments": _arguments,
    "results": _results,
    "questions": _questions,
    "answer": _answer,
}
