"""What is behind a row beside its story: the texts that it names, what each guard looked at, and what is hashed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..decision.guard_context import GuardContext
from ..explain.story import is_given
from ..explain.thoughts import thought_in
from ..explain.why import guard_fact, repeated_calls
from ..journal.payloads import TEXT, as_text
from ..journal.prompts import Known, MessagePlace, inner_places, prompt_places, told_messages
from ..journal.reader import JournalReader
from ..journal.record import row_text
from ..journal.rows import RunRow, StoredDocument, Transition
from ..machine.guards import GUARDS
from ..machine.machine import Machine


class PastRows:
    """
    What the details of a row take from the rows before it.

    Attributes:
        asked: The rows that asked a model, by number.
        previous: Of each of them the last one before it with the same kind of request.
        prompts: Those that were shown last.
        calls: By the key of a call the executed ones with it, as action and row.
    """

    def __init__(self) -> None:
        self.asked: dict[int, Transition] = {}
        self.previous: dict[int, int] = {}
        self.prompts: Known = {}
        self.calls: dict[str, list[tuple[int, int]]] = {}
        self._kinds: dict[str, int] = {}

    def add(self, row: Transition) -> None:
        """Take the next row in."""
        if "prompt" in row.request:
            kind = str(row.request.get("kind"))
            if kind in self._kinds:
                self.previous[row.seq] = self._kinds[kind]
            self._kinds[kind], self.asked[row.seq] = row.seq, row
        if row.trigger == "execute" and (key := row.outcome.get("key")):
            self.calls.setdefault(key, []).append((row.action, row.seq))


class RowDetails:
    """
    Makes the details of the rows of one chunk.

    Args:
        journal: That holds the run.
        run: The run.
        earlier: Of all of its rows.
        documents: Its documents, by number.

    Attributes:
        texts: By run number and payload number, such as ``3.17``, every text that the rows name.
    """

    def __init__(
        self,
        journal: JournalReader,
        run: RunRow,
        earlier: PastRows,
        documents: Sequence[StoredDocument],
    ) -> None:
        self.journal, self.number, self.earlier = journal, run.run, earlier
        self.documents = documents
        self.given = [item for item in documents if is_given(run, item.label)]
        self.texts: dict[str, dict[str, Any]] = {}

    def row(
        self, values: tuple[Any, ...], row: Transition, case: GuardContext | None, machine: Machine, note: str
    ) -> dict[str, Any]:
        """Return the details of one row; its texts go to `texts`."""
        places = prompt_places(self.earlier.asked, row, self.earlier.prompts)
        prompt = [message for found in places for message in self._messages(found)]
        reply = row.outcome.get("reply") or row.outcome.get("message")
        return {
            "seq": row.seq,
            "run": row.run,
            "canonical": row_text(values).decode(),
            "prev": row.prev_hash,
            "hash": row.hash,
            "words": self._facts(row, case, machine),
            "note": "" if case is not None else note,
            "prompt": [name for _, name in prompt],
            "roles": [role for role, _ in prompt],
            "thought": self._thought(row),
            "previous": self.earlier.previous.get(row.seq) if places else None,
            "reply": self._text(row.run, reply) if isinstance(reply, dict) else None,
            "answer": self._text(row.run, row.outcome["answer"]) if "answer" in row.outcome else None,
            "set": self._text(row.run, row.change) if "n" in row.change else None,
            "inner": [[self._text(row.run, place) for place in pair] for pair in inner_places(row)],
            "documents": self._documents(row),
            "guards": dict(row.guards),
            "counters": [["retries", row.retries], *([name, value] for name, value in row.counters.items())],
            "values": self._text(row.run, row.request["values"]) if "values" in row.request else None,
        }

    def _facts(self, row: Transition, case: GuardContext | None, machine: Machine) -> dict[str, str]:
        """Return what each guard looked at, where that says more than the guard's own sentence."""
        if case is None:
            return {}
        known = self.earlier.calls.get(case.intent.key, ()) if case.intent is not None else ()
        repeats = repeated_calls(case, [item for item in known if item[1] < row.seq])
        told = {}
        for name in row.guards:
            guard = machine.guards.get(name)
            if guard is not None and name in GUARDS:
                told[name] = guard_fact(guard, name, case, repeats)
        return told

    def _documents(self, row: Transition) -> list[tuple[int, str]]:
        """Return number and text of each document that a row has produced, of the first one those that the run was given, too."""
        found = [item for item in self.given if row.seq == 0]
        if (
            row.trigger == "execute" and "first" in row.outcome
        ):  # numbers are places: documents are numbered from 0
            first = int(row.outcome["first"])
            found += self.documents[first : first + int(row.outcome.get("documents", 0))]
        return [(item.number, self._text(self.number, {"n": item.payload})) for item in found]

    def _thought(self, row: Transition) -> str:
        place = row.outcome.get("parts")
        body = self.journal.payload(row.run, place["n"]).body if isinstance(place, Mapping) else None
        return thought_in(body if isinstance(body, str) else None)

    def _messages(self, found: MessagePlace) -> Iterator[tuple[str, str]]:
        """Yield role and name of a message's text, of earlier rounds of each of theirs, after adding it to `texts`."""
        if found.role != "round":
            yield found.role, self._text(found.run, found.place)
            return
        body = as_text(self.journal.payload(found.run, found.place["n"]).body)
        for number, (role, text) in enumerate(told_messages([found], lambda _: body)):
            name = f"{found.run}.{found.place['n']}.{number}"
            self.texts[name] = {"text": text, "type": TEXT}
            yield role, name

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
