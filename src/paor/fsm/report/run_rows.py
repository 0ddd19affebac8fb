"""The rows of a run as columns: a few numbers of each row, so that a page can list, draw and count fifty thousand of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...states.run.phase_names import EXECUTING, OBSERVING, PHASES, SPECIFYING
from ...states.run.state import Change
from ..decision.guard_context import GuardContext
from ..explain.calls import CallReader
from ..explain.story import RowReader, asked_words, evidence_of, is_given
from ..explain.thoughts import thought_in
from ..explain.why import guard_fact, repeated_calls
from ..journal.payloads import TEXT, as_text
from ..journal.prompts import Known, MessagePlace, inner_places, prompt_places, told_messages
from ..journal.reader import JournalReader
from ..journal.record import PREV_HASH, canonical_row
from ..journal.rows import RunRow, StoredDocument, Transition
from ..machine.guards import GUARDS
from ..machine.machine import Machine

REFUSED, INVALID, WAITS, ANSWERED, IN_DOUBT, FAULT, ERASED, AMENDED, SHARED = (1 << bit for bit in range(9))
"""What stands out of a row: bits of its ``flags``."""

_REFUSES = ("refuse", "withhold")
_ASKED_AGAIN = ("reselect", "respecify", "reassess", "reask")

TABLES = ("trigger", "phase", "kind", "tool", "model")
"""Names that rows repeat; a row has their place."""


class RunRows:
    """
    What a page needs of every row, read row by row.

    Args:
        own: Number of the run that is shown; rows under another one are shared with the run that it was forked from.

    Attributes:
        columns: By name one number for each row: ``at`` as the difference to the row before.
        tables: By name the names that the columns mean.
        reader: Its `calls` are those that the rows have made so far.
        by_key: By the key of a call the executed ones with it, as action and row.
        refused: What was refused: the row, the tool, and why.
        evidence: By criterion the model's last words about it.
        answer: The last answer that was set; None before.
        last: The last row, None before the first.
        previous: By kind of request the last row that asked a model for it.
        times: Of each row when it was decided.
        asked: The rows that asked a model, by number.
        prompts: Those that were shown last.
        before: Of each row the last one before it with the same kind of request, -1 for none.
        ends, costs, keys: Of each call its last row, what its rows cost in millionths, and its idempotency key.
        decided_at: Of each call the rows of the answers about it.
    """

    def __init__(self, own: int) -> None:
        self.own = own
        self.columns: dict[str, list[int]] = {name: [] for name in COLUMNS}
        self.tables: dict[str, dict[str, int]] = {name: {} for name in TABLES}
        self.reader = CallReader()
        self.ends: list[int] = []
        self.decided_at: list[list[int]] = []
        self.costs: list[int] = []
        self.keys: list[str | None] = []
        self.by_key: dict[str, list[tuple[int, int]]] = {}
        self.previous: dict[str, int] = {}
        self.asked: dict[int, Transition] = {}
        self.prompts: Known = {}
        self.before: list[int] = []
        self.times: list[int] = []
        self.last: Transition | None = None
        self.evidence: dict[str, str] = {}
        self.refused: list[tuple[int, str, str]] = []
        self.answer: str | None = None
        self._tool = -1

    @property
    def count(self) -> int:
        """How many rows were read."""
        return len(self.columns["at"])

    def _place(self, table: str, name: str) -> int:
        found = self.tables[table]
        return found.setdefault(name, len(found))

    def add(self, row: Transition, change: Change, *, erased: bool) -> None:
        """Take the next row in."""
        before, columns = self.last, self.columns
        kind, model = str(row.request.get("kind", "none")), row.request.get("model")
        tool = self._tool_of(row, change)
        values = {
            "at": row.at - (before.at if before else 0),
            "took": row.time_us - (before.time_us if before else 0),
            "trigger": self._place("trigger", row.trigger),
            "source": self._place("phase", row.source),
            "dest": self._place("phase", row.dest),
            "kind": self._place("kind", kind),
            "tool": tool,
            "model": self._place("model", str(model)) if model else -1,
            "tokens_in": row.tokens_in - (before.tokens_in if before else 0),
            "tokens_out": row.tokens_out - (before.tokens_out if before else 0),
            "cost": row.cost_micro - (before.cost_micro if before else 0),
            "step": row.step,
            "flags": self._flags(row) | (ERASED if erased else 0),
        }
        for name, value in values.items():
            columns[name].append(value)
        self.times.append(row.at)
        self.before.append(self.previous.get(kind, -1))
        if "prompt" in row.request:
            self.previous[kind], self.asked[row.seq] = row.seq, row
        self._add_call(row, change)
        self._add_judgement(change)
        if self.columns["flags"][-1] & REFUSED:
            self.refused.append(_refusal(row, change, self._name(tool)))
        self.last = row

    def _name(self, tool: int) -> str:
        return list(self.tables["tool"])[tool] if tool >= 0 else ""

    def _tool_of(self, row: Transition, change: Change) -> int:
        """Return which tool a row is about, -1 for none."""
        chosen = change.selection or change.intent
        if chosen:
            self._tool = self._place("tool", chosen.tool)
        elif row.request.get("tool"):
            self._tool = self._place("tool", str(row.request["tool"]))
        near = (
            row.source in (SPECIFYING, EXECUTING, OBSERVING)
            or row.dest == SPECIFYING
            or row.source not in PHASES
        )
        return self._tool if near else -1

    def _flags(self, row: Transition) -> int:
        outcome = row.outcome
        kind = outcome.get("kind")
        held = (
            (REFUSED, row.trigger in _REFUSES or row.guards.get("action_allowed") is False),
            (INVALID, bool(outcome.get("invalid")) or row.trigger in _ASKED_AGAIN),
            (WAITS, row.trigger == "wait"),
            (ANSWERED, kind == "answer"),
            (IN_DOUBT, kind == "in_doubt" or bool(outcome.get("in_doubt"))),
            (FAULT, kind == "fault" or bool(outcome.get("error"))),
            (AMENDED, "spec" in row.request),
            (SHARED, row.run != self.own),
        )
        return sum(bit for bit, holds in held if holds)

    def _add_judgement(self, change: Change) -> None:
        """Keep the answer so far, and for each criterion the last words that say why it is met or not."""
        self.evidence |= evidence_of(change)
        if change.answer:
            self.answer = change.answer

    def _add_call(self, row: Transition, change: Change) -> None:
        """Follow the calls: where each ends, what it cost, and which one it repeats."""
        self.reader.add(row, change)
        while len(self.ends) < len(self.reader.calls):
            self.ends.append(row.seq)
            self.decided_at.append([])
            self.costs.append(0)
            self.keys.append(None)
        if not self.reader.calls or row.source not in (SPECIFYING, EXECUTING, OBSERVING):
            return
        call = self.reader.calls[-1]
        if change.intent:
            self.keys[-1] = change.intent.idempotency_key
        if row.source in (SPECIFYING, EXECUTING):
            self.ends[-1] = row.seq
            self.costs[-1] += self.columns["cost"][-1]
            if len(call.decided) > len(self.decided_at[-1]):
                self.decided_at[-1].append(row.seq)
        key = row.outcome.get("key")
        if key and row.trigger == "execute":
            self.by_key.setdefault(key, []).append((row.action, row.seq))

    def wire(self) -> dict[str, Any]:
        """Return the columns as the page reads them."""
        tables = {name: list(found) for name, found in self.tables.items()}
        return {"n": self.count, "tables": tables, **self.columns}

    def entry(self, seq: int) -> dict[str, Any]:
        """Return one row by names: of ``at`` the time itself."""
        entry: dict[str, Any] = {name: values[seq] for name, values in self.columns.items()}
        entry["at"] = self.times[seq]
        for name, table in NAMED.items():
            names = list(self.tables[table])
            entry[name] = names[entry[name]] if entry[name] >= 0 else None
        return entry


def _refusal(row: Transition, change: Change, tool: str) -> tuple[int, str, str]:
    """Return the row that refused something, the tool, and what the model was told; nothing of that once it was erased."""
    if change.result:
        return row.seq, change.result.tool, change.result.error or ""
    return row.seq, tool, change.feedback or ""


COLUMNS = (
    "at",
    "took",
    "trigger",
    "source",
    "dest",
    "kind",
    "tool",
    "model",
    "tokens_in",
    "tokens_out",
    "cost",
    "step",
    "flags",
)
NAMED = {
    "trigger": "trigger",
    "source": "phase",
    "dest": "phase",
    "kind": "kind",
    "tool": "tool",
    "model": "model",
}
"""Columns that hold the place of a name, and the table that has it."""


class RowDetails:
    """
    Makes the rows of one chunk.

    Args:
        journal: That holds the run.
        run: The run.
        rows: Its columns.
        documents: Its documents, by number.

    Attributes:
        texts: By run number and payload number, such as ``3.17``, every text that the rows name.
    """

    def __init__(
        self, journal: JournalReader, run: RunRow, rows: RunRows, documents: Sequence[StoredDocument]
    ) -> None:
        self.journal, self.number, self.rows = journal, run.run, rows
        self.documents = documents
        self.given = [item for item in documents if is_given(run, item.label)]
        self.texts: dict[str, dict[str, Any]] = {}

    def row(
        self, values: tuple[Any, ...], row: Transition, case: GuardContext | None, machine: Machine, note: str
    ) -> dict[str, Any]:
        """Return one row; its texts go to `texts`."""
        told = RowReader(self.journal).add(row)
        earlier = self.rows.before[row.seq]
        places = prompt_places(self.rows.asked, row, self.rows.prompts)
        prompt = [message for found in places for message in self._messages(found)]
        reply = row.outcome.get("reply") or row.outcome.get("message")
        documents = self._documents(row)
        return {
            "seq": row.seq,
            "run": row.run,
            "canonical": canonical_row(values[:PREV_HASH]).decode(),
            "prev": row.prev_hash,
            "hash": row.hash,
            "asked": asked_words(row.request),
            "came": told.told,
            "words": self._facts(row, case, machine),
            "note": "" if case is not None else note,
            "prompt": [name for _, name in prompt],
            "roles": [role for role, _ in prompt],
            "thought": self._thought(row),
            "previous": earlier if prompt and earlier >= 0 else None,
            "reply": self._text(row.run, reply) if isinstance(reply, dict) else None,
            "answer": self._text(row.run, row.outcome["answer"]) if "answer" in row.outcome else None,
            "set": self._text(row.run, row.change) if "n" in row.change else None,
            "inner": [[self._text(row.run, place) for place in pair] for pair in inner_places(row)],
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
