"""The calls of a run as its rows have them: what was called with which arguments, who decided, when, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

from ...states.base.errors import JournalDamaged
from ...states.records.actions import Intent
from ...states.records.questions import Answer
from ...states.run.phase_names import EXECUTING, FINAL, PHASES, SPECIFYING
from ...states.run.state import Change
from ..journal.payloads import recalled_text
from ..journal.reader import JournalReader, Readable, reader_of
from ..journal.rows import Transition


@dataclass(frozen=True, slots=True)
class Decided:
    """
    What a person decided about a call.

    Attributes:
        decision: ``approved``, ``not approved``, else the action of the answer: ``accept``, ``decline``, ``done``, ...
        actor, reason: Who, and why; None when nobody said.
        at: When, in microseconds since the epoch.
        seq: Number of the row of the answer.
    """

    decision: str
    actor: str | None
    reason: str | None
    at: int
    seq: int


@dataclass(slots=True)
class RunCall:
    """
    One call of a run, made or refused.

    Attributes:
        seq: Number of the row that began it, asked about it or refused it.
        last: Number of its last row so far.
        key: Its idempotency key, as the tool gets it; None where no call was complete, and once erased.
        step, action: Its numbers within the run and the task.
        tool, effect: What was called; the effect class is None where no call was complete.
        arguments: As the tool got them; None where no call was complete, or they were erased.
        asked: The arguments that a person was asked about, where the call was approved with others; else None.
        outcome: ``ok``, ``failed``, ``refused``, ``waits``, ``in doubt``, ``running``, or ``cancelled``.
        result: What came of it in a few words: the summary of what was observed, or the error.
        decided: What people decided about it, in order.
        asked_at, started_at, ended_at: In microseconds since the epoch; None for what did not happen.
        caller: The phase of the host's own that asked for it; empty for a call that the model or a plan chose.
        label, documents_count, documents: Under which label it has stored how many documents, and the references to those that are offered.
        decision: What the model decided after it, with its reason; empty where it was not asked, and once erased.
    """

    seq: int
    step: int
    action: int
    tool: str
    effect: str | None = None
    arguments: Mapping[str, Any] | None = None
    outcome: str = "running"
    result: str = ""
    decided: list[Decided] = field(default_factory=list)
    asked_at: int | None = None
    started_at: int | None = None
    ended_at: int | None = None
    caller: str = ""
    asked: Mapping[str, Any] | None = None
    label: str = ""
    documents_count: int = 0
    documents: tuple[str, ...] = ()
    decision: str = ""
    last: int = 0
    key: str | None = None

    def wire(self) -> dict[str, Any]:
        """Return the JSON form, keys as the attributes."""
        told: dict[str, Any] = {name: getattr(self, name) for name in self.__slots__}
        told["decided"] = [asdict(item) for item in self.decided]
        told["documents"] = list(self.documents)
        return told


def calls_of(journal: Readable, run_id: str) -> list[RunCall]:
    """
    Return the calls of a run in order, the refused ones too.

    Args:
        journal: The journal that holds it.
        run_id: Its id, or an unambiguous prefix.

    Raises:
        UnknownRun: There is no such run.
        JournalDamaged: A row cannot be read.
    """
    reader = reader_of(journal, "calls_of takes a Journal, such as calls_of(engine.journal, run_id)")
    found = CallReader()
    for row in reader.transitions(run_id):
        found.add(row, change_of(reader, row))
    return found.calls


ENDS = ("execute", "refuse", "withhold")
"""Rows with which a call is over."""


class CallReader:
    """
    Reads the calls of a run, row by row.

    Attributes:
        calls: Those that the rows so far have begun; the last one may change with the rows to come.
    """

    def __init__(self) -> None:
        self.calls: list[RunCall] = []
        self._open: RunCall | None = None
        self._caller = ""

    def add(self, row: Transition, change: Change) -> None:
        """Take the next row in, with what it set; nothing of that once it was erased."""
        call = self._open
        if call is not None and _is_dropped(row, change):
            call.outcome, call.ended_at, call = "refused", row.at, None
        if row.dest == SPECIFYING != row.source:
            self._caller = _caller(row, change, self._caller)
        if call is None and row.source == SPECIFYING and (row.trigger in _BEGINS or row.dest not in PHASES):
            call = _begun(row, change, self._caller)
            self.calls.append(call)
        if call is not None:
            _take(call, row, change)
            if row.trigger in ENDS:
                call = None
        elif row.trigger == "observe" and self.calls:
            message = change.message or None
            self.calls[-1].result = message.summary if message else "(erased)"
            self.calls[-1].documents = message.documents if message else ()
        elif change.refinement and self.calls:
            self.calls[-1].decision = change.refinement.words
        if call is not None and row.dest in FINAL:
            call.outcome = "in doubt" if row.outcome.get("in_doubt") else "cancelled"
        self._open = call


_BEGINS = ("wait", "specify", "refuse")
"""Specifying rows that start a call (rows to a host review phase excluded)."""


def _caller(row: Transition, change: Change, before: str) -> str:
    """Return which phase of the host's own asked for the call that is specified from *row* on; the rows tell it once texts are erased."""
    if change.selection:
        return change.selection.caller
    if row.source in PHASES:
        return ""
    return row.source if row.trigger == "call" else before


def _is_dropped(row: Transition, change: Change) -> bool:
    """Whether a row of the host's own machine leaves a call that was looked at, without making it."""
    return (
        row.source not in PHASES
        and row.dest not in FINAL
        and row.dest != row.source
        and change.intent is None
    )


def _begun(row: Transition, change: Change, caller: str) -> RunCall:
    intent: Intent | None = change.intent or None
    tool = intent.tool if intent else change.result.tool if change.result else ""
    if not tool and change.question:
        tool = change.question.tool or change.question.kind
    return RunCall(row.seq, row.step, row.action, tool or str(row.request.get("tool", "")), caller=caller)


def _take(call: RunCall, row: Transition, change: Change) -> None:
    """Take one row of a call in."""
    call.last = row.seq
    if change.intent:
        if change.intent.changed:
            call.asked = call.arguments
        call.tool, call.effect, call.arguments = (
            change.intent.tool,
            change.intent.effect,
            change.intent.arguments,
        )
        call.label, call.key = change.intent.label, change.intent.idempotency_key
    if row.trigger == "wait":
        call.outcome, call.asked_at = (
            ("in doubt" if row.outcome.get("kind") == "in_doubt" else "waits"),
            row.at,
        )
    elif row.trigger == "provide" and change.reply:
        call.outcome = "running"
        call.decided.append(
            Decided(decision_words(change.reply), change.reply.actor, change.reply.reason, row.at, row.seq)
        )
    elif row.trigger == "specify":
        call.outcome, call.started_at, call.action = "running", row.at, row.action
    elif row.trigger in ENDS:
        failed = "failed" if row.source == EXECUTING else "refused"
        call.outcome = "ok" if row.outcome.get("ok") or (change.result and change.result.ok) else failed
        call.ended_at, call.action = row.at, row.action
        call.result = (change.result.error or "") if change.result else ""
        call.tool = call.tool or str(row.request.get("tool", ""))
        call.label = str(row.outcome.get("label", call.label))
        call.documents_count = int(row.outcome.get("documents", 0))


def decision_words(answer: Answer) -> str:
    """Return what an answer decides: that of an approval whether it approves, of others its action."""
    content = answer.content
    if answer.action == "accept" and isinstance(content, dict) and isinstance(content.get("approve"), bool):
        return "approved" if content["approve"] else "not approved"
    return answer.action


def _shown(journal: JournalReader, run: int, n: int) -> str | None:
    body = journal.payload(run, n).body
    return "(erased)" if body is None else recalled_text(body, 2)


def change_of(journal: JournalReader, row: Transition) -> Change:
    """Return what a row set, nothing once erased; of what it shows of documents, what is still there."""
    try:
        body = journal.payload(row.run, row.change["n"]).body
        return Change.read(body, partial(_shown, journal, row.run)) if body is not None else Change()
    except (ValueError, KeyError, TypeError):
        raise JournalDamaged(
            f"run number {row.run}, row {row.seq}: what it set cannot be read; run: paor verify"
        ) from None
