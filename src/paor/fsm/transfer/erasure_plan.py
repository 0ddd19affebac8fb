"""
What has to go when a run or a document is erased: payload numbers, run by run. Reads, writes nothing.

Three rules decide (docs/journal-format.md, "Erasing"). By reference: what a row says belongs to it. By excerpt: every
payload in which `excerpts.EXCERPT` characters in a row of an erased text stand. By key: where a call's arguments go,
the spec goes too, since its key_salt would let a guess of the arguments be checked against the key in the row; and where a run has not
ended that nobody can go on with, since later rounds would wait for its end. What a
model has said in words of its own about an erased text cannot be known; only erasing by run takes that away.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import orjson

from ...states.base.errors import Erased, JournalDamaged, UsageError
from ...states.run.spec import TASK_TOOL
from ...states.run.state import Change, initial_run, shown_payloads
from ..journal.lineage import part_with
from ..journal.payloads import Payload
from ..journal.rows import RunRow, StoredDocument, transition_of
from .text_search import EXCERPT, Excerpts, form, texts_within

if TYPE_CHECKING:
    from ..journal.reader import JournalReader

_BATCH = 200


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
        self.doomed.setdefault(run, set()).update(self.journal.numbers_of_payloads(run, erased=False))

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
            self._doom_spec(run)

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
        given, result = False, None
        for values in self.journal.rows(run) if tainted else ():
            row = transition_of(values)
            change = json_of(self.journal.find_payload(run, row.change["n"]))
            if selection := _object(change, "selection"):
                chosen = set(selection.get("documents") or ())
            if intent := _object(change, "intent"):
                texts = "\n".join(texts_within(intent.get("arguments")))
                whole = intent.get("tool") == TASK_TOOL.name
                given = whole or bool(chosen & tainted) or any(name in texts for name in tainted)
            elif row.trigger == "specify":
                given = True  # the arguments were erased before: nobody can say what they named
            if result and change.get("result") == result:  # rows of a host's own machine set it again
                self.doom(run, [row.change["n"]])
            if row.trigger != "execute" or not given:
                continue
            result = _object(change, "result")
            asked = [place["n"] for pair in row.outcome.get("texts", ()) for place in pair]
            self.doom(run, [row.change["n"], *asked])
            for made in result.get("documents") or ():
                n = made["payload"]["n"]
                body = self.journal.payload(run, n).body
                tainted |= _references(made["label"], made["position"])
                self.doom(run, [n])
                if body is not None:
                    self.follow(body)

    def _doom_spec(self, run: int) -> None:
        """Erase the spec where the arguments of a call go, or what a resume needs: with it the salt of the keys, and the conversation."""
        spec = self.journal.root_columns(run)["spec_payload"]
        doomed = self.doomed.get(run, set())
        if self.doomed and self.journal.payload(run, spec).body is not None:
            read = (json_of(self.journal.find_payload(run, n)) for n in sorted(doomed))
            if any(_object(data, "intent") for data in read) or self._ends(run):
                self.doom(run, [spec])

    def _ends(self, run: int) -> bool:
        """Return whether a run has not ended, and goes on no more without what goes of it and of those whose rows it shares."""
        if not any(self.doomed.get(part.run) for part in self.journal.lineage(run)):
            return False
        row = self.journal.run(self.journal.index.names([run])[run])
        if row.status in ("done", "failed"):
            return False
        try:
            return any(n in self.doomed.get(number, ()) for number, n in self._needed(run))
        except Erased:
            return True
        except JournalDamaged:  # nobody goes on with it as it is
            return False

    def _needed(self, run: int) -> list[tuple[int, int]]:
        """Return the changes that whoever goes on with a run reads, each by the number of the run that holds it and its own."""
        from ..machine.fold import restore  # which an export does without

        needed: list[tuple[int, int]] = []

        def load(number: int, column: str) -> Change:
            change, n = self.journal.change(number, column), orjson.loads(column)["n"]
            body = self.journal.payload(number, n).body
            lineage = self.journal.lineage(number)
            for shown in (n, *shown_payloads(body or "{}")):
                needed.append((part_with(lineage, "first_payload", shown).run, shown))
            return change

        parts = self.journal.lineage(run)
        for part, last in zip(parts, (*(after.first_seq - 1 for after in parts[1:]), 2**32 - 1), strict=True):
            begun = initial_run(part.run_id, part.run, self.journal.spec(part.run_id))
            restore(begun, self.journal.own_rows(part.run, part.first_seq, last), partial(load, part.run))
        return needed


def _object(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return the object under a key, an empty one where there is none."""
    value = data.get(key)
    return value if isinstance(value, dict) else {}


def _references(label: str, position: int) -> set[str]:
    """Return how calls name a document."""
    return {f"docItem:{label}#{position}", f"docList:{label}"}


def json_of(payload: Payload | None) -> dict[str, Any]:
    """Return a payload that holds a JSON object; of anything else and once erased an empty one."""
    if payload is None or payload.media_type != "application/json" or payload.body is None:
        return {}
    try:
        data = orjson.loads(payload.body)
    except orjson.JSONDecodeError:
        return {}
    return data if isinstance(data, dict) else {}


def named_with(journal: JournalReader, run: int, numbers: Collection[int]) -> list[int]:
    """
    Return the numbers of the documents whose names go with these payloads of a run.

    An input is named by the spec, any other document by what the ``execute`` row of its call has set. A row of a host's own
    machine sets the same result again; the names do not go with that.
    """
    if not numbers:
        return []
    spec = journal.root_columns(run)["spec_payload"]
    changes = journal.columns(run, ("change",), ("execute",))
    naming = {spec, *(_number_in(change) for (change,) in changes)}
    return [
        number
        for n in sorted(naming.intersection(numbers))
        for number in _numbers_named(journal.find_payload(run, n), spec=n == spec)
    ]


def _number_in(change: object) -> object:
    """Return the number of the payload that a row's change is in, None where that cannot be read."""
    try:
        number = orjson.loads(change)["n"] if isinstance(change, str) else None
    except (ValueError, KeyError, TypeError):
        return None
    return number if type(number) is int else None


def _numbers_named(payload: Payload | None, *, spec: bool) -> list[int]:
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
    plan.search(_converted_texts(document, body))


def _converted_texts(document: StoredDocument, body: str | bytes) -> list[str]:
    """Return the text that tools see of a document which is not plain text itself."""
    if document.mime in ("text/plain", "text/markdown", "application/json"):
        return []
    from ...tools.documents.convert.conversion import ConversionError
    from ...tools.documents.convert.converter import read_bytes

    try:
        data = body if isinstance(body, bytes) else body.encode()
        return [read_bytes(document.name, data, mime=document.mime).text]
    except ConversionError:
        return []
