"""Rows as a page shows them one by one: what was asked, what came back, what each guard looked at, and the texts themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..decision.guard_context import GuardContext
from ..explain.why import guard_fact, repeated_calls, row_words
from ..journal.reader import JournalReader
from ..journal.record import PREV_HASH, canonical_row
from ..journal.rows import StoredDocument, Transition
from ..machine.guards import GUARDS
from ..machine.machine import Machine
from .run_rows import RunRows


class RowDetails:
    """
    Makes the rows of one chunk.

    Args:
        journal: That holds the run.
        number: The run's own number.
        rows: Its columns.
        documents: Its documents, by number.

    Attributes:
        texts: By run number and payload number, such as ``3.17``, every text that the rows name.
    """

    def __init__(
        self, journal: JournalReader, number: int, rows: RunRows, documents: Sequence[StoredDocument]
    ) -> None:
        self.journal, self.number, self.rows = journal, number, rows
        self.documents = documents
        self.given = [item for item in documents if is_given(item)]
        self.texts: dict[str, dict[str, Any]] = {}

    def row(
        self, values: tuple[Any, ...], row: Transition, case: GuardContext | None, machine: Machine, note: str
    ) -> dict[str, Any]:
        """Return one row; its texts go to `texts`."""
        asked, came = row_words(row, case)
        earlier = self.rows.before[row.seq]
        prompt = [self._text(row.run, place) for place in row.request.get("prompt", ())]
        reply = row.outcome.get("reply") or row.outcome.get("message")
        documents = self._documents(row)
        return {
            "seq": row.seq,
            "run": row.run,
            "canonical": canonical_row(values[:PREV_HASH]).decode(),
            "prev": row.prev_hash,
            "hash": row.hash,
            "asked": asked,
            "came": came,
            "words": self._facts(row, case, machine),
            "note": "" if case is not None else note,
            "prompt": prompt,
            "previous": earlier if prompt and earlier >= 0 else None,
            "reply": self._text(row.run, reply) if isinstance(reply, dict) else None,
            "answer": self._text(row.run, row.outcome["answer"]) if "answer" in row.outcome else None,
            "set": self._text(row.run, row.change) if "n" in row.change else None,
            "inner": [
                [self._text(row.run, one), self._text(row.run, two)]
                for one, two in row.outcome.get("texts", ())
            ],
            "documents": [item.number for item in documents],
            "guards": dict(row.guards),
            "counters": [["retries", row.retries], *([name, value] for name, value in row.counters.items())],
            "values": self._text(row.run, row.request["values"]) if "values" in row.request else None,
        }

    def _facts(self, row: Transition, case: GuardContext | None, machine: Machine) -> dict[str, str]:
        """Return what each guard looked at, where that says more than the guard's own sentence."""
        if case is None:
            return {}
        known = self.rows.by_key.get(case.intent.key, ()) if case.intent is not None else ()
        repeats = repeated_calls(case, [item for item in known if item[1] < row.seq])
        told = {}
        for name in row.guards:
            guard = machine.guards.get(name)
            if guard is not None and name in GUARDS:
                told[name] = guard_fact(guard, name, case, repeats)
        return told

    def _documents(self, row: Transition) -> list[StoredDocument]:
        """Return the documents that a row has produced, of the first one those that the run was given, too; their texts go to `texts`."""
        found = [item for item in self.given if row.seq == 0]
        if (
            row.trigger == "execute" and "first" in row.outcome
        ):  # numbers are places: documents are numbered from 0
            first = int(row.outcome["first"])
            found += self.documents[first : first + int(row.outcome.get("documents", 0))]
        for item in found:
            self._text(self.number, {"n": item.payload})
        return found

    def _text(self, run: int, place: Mapping[str, Any]) -> str:
        """Return the name of a stored text after adding it to `texts`."""
        name = f"{run}.{place['n']}"
        if name not in self.texts:
            payload = self.journal.payload(run, place["n"])
            body, kind = payload.body, payload.media_type
            if isinstance(body, bytes):
                shown: str | None = body.decode("utf-8", "replace") if kind.startswith("text/") else None
                self.texts[name] = {"text": shown, "type": kind, "bytes": len(body)}
            else:
                self.texts[name] = {"text": body, "type": kind}
        return name


def is_given(document: StoredDocument) -> bool:
    """Return whether a run was given a document at its start."""
    return "_action0_" in document.label
