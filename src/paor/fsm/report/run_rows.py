"""The rows of a run as columns: a few numbers of each row, so that a page can list, draw and count fifty thousand of them."""

from __future__ import annotations

from typing import Any

from ...states.run.phase_names import EXECUTING, OBSERVING, PHASES, SPECIFYING
from ...states.run.state import Change
from ..explain.calls import CallReader
from ..journal.rows import Transition

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
        if row.request.get("prompt"):
            self.previous[kind] = row.seq
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
        for judged in (change.refinement, change.review):
            for check in judged.criteria if judged else ():
                if check.evidence:
                    self.evidence[check.criterion] = check.evidence
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
