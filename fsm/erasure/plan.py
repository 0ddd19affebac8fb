"""
What has to go when a run, a document or a field is erased: payload numbers, run by run. Reads, writes nothing.

Three rules decide (docs/journal-format.md, "Erasing"). By reference: what a row says belongs to it. By excerpt: every
payload in which `excerpts.EXCERPT` characters in a row of an erased text stand. By key: where a call's arguments go,
the spec goes too, since its key_salt would let a guess of the arguments be checked against the key in the row. What a
model has said in words of its own about an erased text cannot be known; only erasing by run takes that away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import orjson

from ...states.base.errors import UsageError
from ...states.run.spec import TASK_TOOL
from ..journal.lineage import part_with
from ..journal.payloads import Payload
from ..journal.rows import RunRow, StoredDocument
from .text_search import EXCERPT, Excerpts, form, leaves, texts_within

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
_TELLS, _LONG = 12, 24
"""Characters, blanks aside, of one of several texts that say enough to be searched for: names of modes and tools do not."""


class ErasurePlan:
    """
    What is to be erased, found in steps; `settle` again after the file has grown looks at what is new only.

    Args:
        journal: That holds the runs.
        runs: In which texts are searched for, by number.
        least: Characters of an excerpt.

    Attributes:
        doomed: Payloads to be erased, by number of the run.
    """

    def __init__(self, journal: JournalReader, runs: Iterable[int], least: int = EXCERPT) -> None:
        self.journal = journal
        self.doomed: dict[int, set[int]] = {}
        self._runs = list(runs)
        self._least = least
        self._texts: dict[str | bytes, None] = {}
        self._searched = 0
        self._seen = dict.fromkeys(self._runs, 0)
        self._sources: set[str] = set()

    def doom(self, run: int, numbers: Iterable[int]) -> None:
        """Erase these payloads of a run, if they are there still; of a fork what it shares goes from its parent."""
        for n in numbers:
            payload = self.journal.find_payload(run, n)
            if payload is not None and payload.body is not None:
                holder = part_with(self.journal.lineage(run), "first_payload", n).run
                self.doomed.setdefault(holder, set()).add(n)

    def doom_run(self, run: int) -> None:
        """Erase every payload of a run."""
        rows = self.journal.query(
            "SELECT n FROM payloads WHERE id BETWEEN ? AND ? AND body IS NOT NULL",
            (run << 32, run << 32 | (2**32 - 1)),
        )
        self.doomed.setdefault(run, set()).update(n for (n,) in rows)

    def search(self, texts: Iterable[str | bytes]) -> None:
        """Erase whatever holds an excerpt of one of these."""
        self._texts |= dict.fromkeys(texts)

    def follow(self, body: str | bytes) -> None:
        """Erase, beside excerpts of it, what calls have made of a document with this body, in every run."""
        self._sources.add(form(body))
        self.search([body])

    def settle(self) -> None:
        """Search until nothing more is found."""
        while self._texts and (self._searched < len(self._texts) or self._grown()):
            if self._searched < len(self._texts):
                self._searched, self._seen = len(self._texts), dict.fromkeys(self._runs, 0)
            index = Excerpts(self._texts, least=self._least)
            for run in self._runs:
                self._search_run(run, index)
            for run in self._runs if self._sources else ():
                self._follow_run(run)
        for run in self._runs:
            self._doom_keys(run)

    def _grown(self) -> bool:
        return any(self.journal.next_payload(run) > seen for run, seen in self._seen.items())

    def _search_run(self, run: int, index: Excerpts) -> None:
        """Search in the payloads that were not looked at since the last text was added."""
        seen, self._seen[run] = self._seen[run], self.journal.next_payload(run)
        for payload in self.journal.iterate_payloads(run, _BATCH):
            if payload.n < seen or payload.body is None or payload.n in self.doomed.get(run, ()):
                continue
            if index.stand_in(payload.body):
                self.doom(run, [payload.n])

    def _follow_run(self, run: int) -> None:
        """Erase the results of calls that were given a followed document, and follow the documents among them."""
        tainted: set[str] = set()
        for document, body in self.journal.documents_at(run, 0, 2**32):
            if body is not None and form(body) in self._sources:
                tainted |= _references(document.label, document.position)
        chosen: set[str] = set()
        given = False
        for values in self.journal.rows(run) if tainted else ():
            row = _Row(self.journal, run, values)
            if selection := row.slot("selection"):
                chosen = set(selection.get("documents") or ())
            if intent := row.slot("intent"):
                texts = "\n".join(texts_within(intent.get("arguments")))
                whole = intent.get("tool") == TASK_TOOL.name
                given = whole or bool(chosen & tainted) or any(name in texts for name in tainted)
            elif row.trigger == "specify":
                given = True  # the arguments were erased before: nobody can say what they named
            if row.trigger != "execute" or not given:
                continue
            self.doom(run, [row.change_n, *row.prompts, *row.told])
            for made in row.documents:
                n = made["payload"]["n"]
                body = self.journal.payload(run, n).body
                tainted |= _references(made["label"], made["position"])
                self.doom(run, [n])
                if body is not None:
                    self.follow(body)

    def _doom_keys(self, run: int) -> None:
        """Erase the spec, and with it the salt of the keys, where the arguments of a call go."""
        spec = spec_payload(self.journal, run)
        doomed = self.doomed.get(run, set())
        if doomed and self.journal.payload(run, spec).body is not None:
            read = (json_of(self.journal.find_payload(run, n)) for n in sorted(doomed))
            if any(isinstance(data.get("intent"), dict) for data in read):
                self.doom(run, [spec])


def _references(label: str, position: int) -> set[str]:
    """Return how calls name a document."""
    return {f"docItem:{label}#{position}", f"docList:{label}"}


def spec_payload(journal: JournalReader, run: int) -> int:
    """Return the number of the payload that holds a run's spec."""
    n: int = journal.query("SELECT spec_payload FROM specs WHERE run = ?", (run,))[0][0]
    return n


def json_of(payload: Payload | None) -> dict[str, Any]:
    """Return a payload that holds a JSON object; of anything else and once erased an empty one."""
    if payload is None or payload.media_type != "application/json" or payload.body is None:
        return {}
    try:
        data = orjson.loads(payload.body)
    except orjson.JSONDecodeError:
        return {}
    return data if isinstance(data, dict) else {}


def numbers_named(payload: Payload | None, *, spec: bool) -> list[int]:
    """Return the numbers of the documents whose names a payload holds: a spec those of inputs, a change its result's."""
    data = json_of(payload)
    try:
        documents = (data if spec else data.get("result") or {}).get("documents")
        return [document["number"] for document in documents or ()]
    except (AttributeError, TypeError, KeyError):
        return []


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
    plan.search(_converted(document, body))


def _converted(document: StoredDocument, body: str | bytes) -> list[str]:
    """Return the text that tools see of a document which is not plain text itself."""
    if document.mime in ("text/plain", "text/markdown", "application/json"):
        return []
    from ...tools.documents.convert.registry import ConversionError, convert

    try:
        data = body if isinstance(body, bytes) else body.encode()
        return [convert(document.name, data, mime=document.mime).text]
    except ConversionError:
        return []


# -- fields ------------------------------------------------------------------------------------------------------


def plan_field(plan: ErasurePlan, run: int, name: str) -> None:
    """
    Erase one field of a run.

    Raises:
        UsageError: There is no such field.
    """
    if name not in FIELDS:
        raise UsageError(f"field {name!a:.80}: expected one of {', '.join(FIELDS)}")
    if name == "documents":
        for document, _ in plan.journal.documents_at(run, 0, 2**32):
            plan_document(plan, run, document)
        return
    if name in SPEC_FIELDS:  # a text of the spec is in the spec, and in every prompt
        place = spec_payload(plan.journal, run)
        spec = json_of(plan.journal.find_payload(run, place))
        plan.doom(run, [place])
        for value in map(spec.get, SPEC_FIELDS[name]):
            plan.search([value] if isinstance(value, str) else _texts_of([value], _TELLS))
    for values in plan.journal.rows(run):
        row = _Row(plan.journal, run, values)
        numbers, texts = _ROW_FIELDS.get(name, _prompts)(row)
        plan.search(texts)
        plan.doom(run, numbers)
        if numbers and name == "arguments":
            plan.doom(run, [spec_payload(plan.journal, run)])


def _texts_of(values: Iterable[Any], least: int) -> list[str]:
    """Return the texts within JSON values that have at least so many characters, blanks aside."""
    return [text for value in values for text in texts_within(value) if len(form(text)) >= least]


class _Row:
    """A row's payload numbers, and the change that it refers to, empty once erased."""

    def __init__(self, journal: JournalReader, run: int, values: tuple[Any, ...]) -> None:
        self.trigger: str = values[3]
        self.request, self.outcome = orjson.loads(values[7]), orjson.loads(values[8])
        self.change_n: int = orjson.loads(values[9])["n"]
        self.change = json_of(journal.find_payload(run, self.change_n))
        self._journal, self._run = journal, run
        texts = self.outcome.get("texts", ())
        self.prompts = [place["n"] for place in self.request.get("prompt", ())] + [
            pair[0]["n"] for pair in texts
        ]
        self.replies = [self.outcome[key]["n"] for key in ("reply", "message") if key in self.outcome]
        self.told = [pair[1]["n"] for pair in texts]

    def slot(self, name: str) -> dict[str, Any]:
        """Return an object that the row set, an empty one where it set none."""
        value = self.change.get(name)
        return value if isinstance(value, dict) else {}

    @property
    def documents(self) -> Sequence[Mapping[str, Any]]:
        """The documents that the row's result names."""
        return self.slot("result").get("documents") or ()

    def bodies(self, numbers: Iterable[int]) -> list[str | bytes]:
        """Return those of these payloads that are there."""
        found = (self._journal.payload(self._run, n).body for n in numbers)
        return [body for body in found if body is not None]

    def texts(self, numbers: Iterable[int]) -> list[str]:
        """Return the texts in payloads, of JSON its values."""
        return _texts_of([leaves(body) for body in self.bodies(numbers)], _LONG)


_Field = tuple[Sequence[int], Sequence[str | bytes]]
"""The payloads of a row that hold a field, and its texts, which are searched for elsewhere."""


def _prompts(row: _Row) -> _Field:
    return row.prompts, ()


def _replies(row: _Row) -> _Field:
    """What a model said is in its reply and, read, in the change of the same row."""
    said = [*row.replies, *row.told]
    return ([*said, row.change_n], row.texts(said)) if said else ((), ())


def _arguments(row: _Row) -> _Field:
    given = [row.change[slot] for slot in ("intent", "plan") if row.change.get(slot)]
    if not given and row.request.get("kind") not in ("parameters", "plan", "task_plan"):
        return (), ()
    return [*row.replies, row.change_n], [*row.texts(row.replies), *_texts_of(given, _LONG)]


def _results(row: _Row) -> _Field:
    if row.trigger not in ("execute", "observe"):
        return (), ()
    documents = [document["payload"]["n"] for document in row.documents]
    own = [row.change_n, *row.told]
    return [*own, *documents], [*row.texts(own), *row.bodies(documents)]


def _questions(row: _Row) -> _Field:
    answers = [row.outcome["answer"]["n"]] if "answer" in row.outcome else []
    asked = [row.change[slot] for slot in ("question", "reply") if row.change.get(slot)]
    if not (answers or asked):
        return (), ()
    return [*answers, row.change_n], [*row.texts(answers), *_texts_of(asked, _TELLS)]


def _answer(row: _Row) -> _Field:
    given = [row.change.get("answer"), *(row.slot(slot).get("answer") for slot in ("refinement", "review"))]
    texts = [text for text in given if isinstance(text, str) and text.strip()]
    return ([row.change_n, *row.replies], texts) if texts else ((), ())


_ROW_FIELDS: Mapping[str, Callable[[_Row], _Field]] = {
    "replies": _replies,
    "arguments": _arguments,
    "results": _results,
    "questions": _questions,
    "answer": _answer,
}
"""Fields of rows; any other one goes with all prompts."""
