"""What a journal says of one run, as `paor show` shows it: its head, what it waits for, and its actions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError

from ...fsm.explain.calls import RunCall
from ...fsm.journal.erasure_log import numbers_of
from ...fsm.journal.rows import RunRow, Transition
from ...fsm.journal_api import Journal
from ...prompts.clients.settings import environment_secrets
from ...states.base.errors import JournalDamaged
from ...states.base.secrets import Scrubber
from ...states.records.actions import Intent
from ...states.records.outcomes import cached_share
from ...states.records.questions import Question
from ...states.run.phase_names import EXECUTING
from ...states.run.reasons import REASONS
from ...states.run.spec import Spec
from ...states.run.state import Change
from ...states.settings.limits import Limits
from ...states.settings.policy import ApprovalRule
from ...tools.policy import denial
from .journals import ALONE
from .text import (
    NARROW,
    STATE_STYLES,
    Cell,
    Column,
    arrow,
    cached_text,
    count,
    duration,
    folded,
    local_time,
    one_line,
    styled,
    width,
)


def spec_of(journal: Journal, row: RunRow) -> Spec | None:
    """Return what a run was started with, None once erased; raise `JournalDamaged` when it cannot be read."""
    if journal.payload(row.run, journal.reader.root_columns(row.run)["spec_payload"]).body is None:
        return None
    try:
        return journal.spec(row.run_id)
    except ValidationError as error:
        message = f"its spec cannot be read ({error.error_count()} errors); run: paor verify"
        raise JournalDamaged(f"run {row.run_id}: {message}") from None


def is_given(row: RunRow, label: str) -> bool:
    """Whether a run was given a document: an input, or what another task or round of its workflow produced."""
    return not label.startswith(f"round{row.round}_task{row.task}_action") or "_action0_" in label


def change_of(journal: Journal, row: Transition) -> Change:
    """Return what a row set, nothing once erased; raise `JournalDamaged` when it cannot be read."""
    try:
        body = journal.payload(row.run, row.change["n"]).body
        return Change.read(body) if body is not None else Change()
    except (ValueError, KeyError, TypeError):
        raise JournalDamaged(
            f"run number {row.run}, row {row.seq}: what it set cannot be read; run: paor verify"
        ) from None


def asking(journal: Journal, row: RunRow) -> RunRow:
    """Return the run whose question a waiting run waits for: one that it has called, else the run itself."""
    from ...fsm.lifecycle.subruns import waiting_called

    called = waiting_called(journal.reader, row)
    return journal.run(called) if called is not None else row


def question_of(journal: Journal, row: RunRow) -> Question | None:
    """Return what a run waits for, of a workflow what its waiting task asks; None for nothing, or once it was erased."""
    if row.status != "waiting":
        return None
    from ...fsm.lifecycle.subruns import open_question  # which runs can be driven with, too

    return open_question(journal.reader, row)


def run_columns(row: RunRow) -> dict[str, Any]:
    """Return a run's columns as JSON-able data."""
    called = {"called_by": row.called_by._asdict()} if row.called_by is not None else {}
    return row._asdict() | {"head_hash": row.head_hash.hex()} | called


ARGUMENTS_SHOWN = 20
ARGUMENT_LINES = 12
"""What people are shown of a call that waits: so many arguments, of each so many lines."""


FACT_NAMES = 14
"""Cells that the names of facts take at most."""


def call_lines(question: Question, cells: int) -> list[str]:
    """
    Return the call that a question is about: its tool and effect class, then its arguments; nothing without a tool.

    What is left out is said: nobody shall approve what is not shown.
    """
    if question.tool is None:
        return []
    return [
        *folded(f"{question.tool} ({question.effect})", cells),
        *argument_lines(question.arguments or {}, cells),
    ]


def argument_lines(given: Mapping[str, Any], cells: int, lines_max: int = ARGUMENT_LINES) -> list[str]:
    """Return arguments, one below the other, bounded, with keys of the environment taken out."""
    arguments, scrub, lines = list(given.items()), Scrubber(environment_secrets()), list[str]()
    for name, value in arguments[:ARGUMENTS_SHOWN]:
        found = folded(f"{name}: {scrub(_value_text(value))}", cells)
        lines += found[:lines_max]
        if len(found) > lines_max:
            rest = sum(map(len, found[lines_max:]))
            lines.append(f"  ({count(rest, 'more character')} of {one_line(name)}; whole with --json)")
    if len(arguments) > ARGUMENTS_SHOWN:
        rest = len(arguments) - ARGUMENTS_SHOWN
        lines.append(f"({count(rest, 'more argument')}; whole with --json)")
    return lines


def question_pairs(question: Question | None) -> Iterator[tuple[str, str, str]]:
    """Yield name, value and style of what a run waits for; nothing for None."""
    if question is None:
        return
    yield "waits for", f"{question.kind}: {question.message}", "warn"
    yield "since", local_time(question.asked_at), ""
    for index, line in enumerate(call_lines(question, width() - FACT_NAMES)):
        yield "" if index else "call", line, ""


def question_line(question: Question) -> str:
    """Return what a run waits for as one line, however long: the call with its arguments, else the message."""
    if question.tool is None:
        return f"{question.kind}: {question.message}"
    scrub, arguments = Scrubber(environment_secrets()), (question.arguments or {}).items()
    told = ", ".join(f"{name}={scrub(json.dumps(value, ensure_ascii=False))}" for name, value in arguments)
    return f"{question.kind}: {question.tool}({told})"


def _value_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


SETTINGS = (
    *("objective", "success_criteria", "language", "task_type", "mode", "model", "context"),
    *("final_format", "limits", "tools", "engine", "machine"),
)
"""What a run was started with, as far as the head shows it as JSON; of tools the names."""


def _permitted(spec: Spec) -> Iterator[tuple[str, str, str]]:
    """Yield what a run is offered, what is denied to it and needs an approval, and the limits that are not the usual ones."""
    names = [tool.name for tool in spec.tools]
    denied = [name for name in names if denial(spec.call_policy, spec.task_type, name) is not None]
    yield "offered", ", ".join(name for name in names if name not in denied), ""
    yield "denied", ", ".join(dict.fromkeys((*denied, *spec.policy.deny))), ""
    rules = [rule if isinstance(rule, str) else _rule_text(rule) for rule in spec.policy.approvals]
    yield "approvals", "; ".join(rules), ""
    usual = Limits()
    set_ = {name: value for name, value in spec.limits if value != getattr(usual, name)}
    told = (
        f"{name} {'none' if value is None else _value_text(value)}"
        for name, value in set_.items()
        if _is_plain(value)
    )
    yield "limits", ", ".join(told), ""


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, int | float | str)


def _rule_text(rule: ApprovalRule) -> str:
    arguments = rule.model_dump(mode="json")["arguments"]
    return f"{rule.tool} where {json.dumps(arguments, ensure_ascii=False)}" if arguments else rule.tool


def call_blocks(calls: Sequence[RunCall]) -> Iterator[str]:
    """Yield the calls of a run, each with its arguments, who decided about it, its times and what came of it."""
    scrub = Scrubber(environment_secrets())
    for call in calls:
        kind = f" ({call.effect})" if call.effect else ""
        times = " to ".join(local_time(at)[11:] for at in (call.started_at, call.ended_at) if at)
        head = f"{call.action:>3}  {styled(one_line(call.tool) + kind, 'strong')}"
        head += f"  for {one_line(call.caller)}" if call.caller else ""
        yield f"{head}  {styled(call.outcome, OUTCOME_STYLES.get(call.outcome, ''))}  {styled(times, 'dim')}".rstrip()
        told = argument_lines(call.arguments or {}, width() - 5, 4)
        if call.asked is not None:
            told += [
                "a person changed its arguments, which were:",
                *argument_lines(call.asked, width() - 5, 4),
            ]
        for item in call.decided:
            why = f": {item.reason}" if item.reason else ""
            told += folded(
                f"{item.decision} by {item.actor or 'somebody'}, {local_time(item.at)}{why}", width() - 5
            )
        if call.result:
            told += folded(f"result: {scrub(call.result)}", width() - 5)[:4]
        yield from (f"     {line}" for line in told)


class RunHead:
    """
    What is above the rows of a run.

    Attributes:
        row: Its line of the view ``runs``.
        spec: None once erased.
        last: Its last row, None before the first.
        change: What that row set: the answer of a finished run, the question of a waiting one.
        question: What it waits for, or None; of a workflow what its waiting task asks.
        given, produced: Numbers of documents.
        erasures: What was erased of it.
        driven: Whether a process drives it now.
        called: The runs that its tools have called.
    """

    def __init__(self, journal: Journal, row: RunRow, last: Transition | None) -> None:
        self.row = row
        self.spec = spec_of(journal, row)
        self.last = last
        self.change = change_of(journal, last) if last is not None else Change()
        self.question = question_of(journal, row)
        labels = [document.label for document in journal.documents(row.run_id)]
        self.given = sum(is_given(row, label) for label in labels)
        self.produced = len(labels) - self.given
        self.erasures = tuple(journal.erasures(row.run_id))
        self.called = [journal.run(run) for run in journal.reader.called_by(row.run_id)]

    def pairs(self) -> Iterator[tuple[str, str, str]]:
        """Yield name, value and style of every fact."""
        row, spec = self.row, self.spec
        yield "run", row.run_id, "strong"
        yield "objective", spec.objective if spec is not None else "(erased)", ""
        if (called := row.called_by) is not None:
            yield "called by", f"action {called.action} of run {called.run_id}", ""
        elif row.task == 0 or row.workflow_id != row.run_id:
            place = f"round {row.round}, task {row.task}" if row.task else f"round {row.round}, all tasks"
            yield "workflow", f"{place}, of {row.workflow_id}", ""
        if row.parent_run_id is not None:
            yield "fork", f"shares rows 0 to {row.parent_seq} of run {row.parent_run_id}", ""
        yield "state", self.state, STATE_STYLES.get(row.status, "")
        for inner in self.called:
            yield "called", f"run {inner.run_id}, {inner.status}", ""
        yield "model", spec.model if spec is not None else "", ""
        if spec is not None and spec.values:
            yield "values", json.dumps(spec.values, ensure_ascii=False, sort_keys=True), ""
        if spec is not None:
            yield from _permitted(spec)
        ended = f", ended {local_time(row.ended_at)}" if row.ended_at else ""
        yield "started", local_time(row.created_at) + ended, ""
        yield "used", ", ".join(self.used()), ""
        numbers = ((self.given, "given"), (self.produced, "produced"))
        yield "documents", ", ".join(f"{number:,} {text}" for number, text in numbers if number), ""
        for erasure in self.erasures:
            message = (
                f"{count(len(numbers_of([erasure])), 'payload')} by {erasure.by}, {local_time(erasure.at)}"
            )
            yield "erased", message + (f", {erasure.reason}" if erasure.reason else ""), "warn"
        yield from self._criteria()
        yield from question_pairs(self.question)
        answer = (self.change.answer or "") if row.status in ("done", "failed") else ""
        yield "answer", "\n".join(line for line in answer.split("\n") if line.strip()), ""

    @property
    def state(self) -> str:
        """The phase with its reason in words."""
        row = self.row
        if row.reason:
            words = REASONS.get(row.reason)
            return f"{row.state} ({row.reason}: {words})" if words else f"{row.state} ({row.reason})"
        if self.question:
            return f"{row.state} (waits: {self.question.kind})"
        return f"{row.state} ({row.status if row.driver or row.status != 'running' else ALONE})"

    def used(self) -> Iterator[str]:
        """Yield what was used, and of how much where there is a limit."""
        last, limits = self.last, self.spec.limits if self.spec is not None else None
        steps = retries = tokens = cost = time_us = 0
        if last is not None:
            steps, retries, tokens = last.step, last.retries, last.tokens_in + last.tokens_out
            cost, time_us = last.cost_micro, last.time_us
        yield f"{steps:,} of {count(limits.max_steps, 'step')}" if limits else count(steps, "step")
        if retries:
            yield f"{retries} of {limits.max_retries} retries" if limits else f"{retries} retries"
        budget = limits.token_budget if limits else None
        told = f"{tokens:,} of {count(budget, 'token')}" if budget else count(tokens, "token")
        read = int(last.counters.get("tokens_cached", 0)) if last is not None else 0
        yield told + cached_text(cached_share(read, last.tokens_in if last is not None else 0))
        seconds = limits.time_budget_s if limits else None
        yield f"{duration(time_us / 1e6)} of {duration(seconds)}" if seconds else duration(time_us / 1e6)
        money = limits.cost_budget if limits else None
        if cost or money:
            yield f"{cost / 1e6:,.4f} of {money:,.2f} cost" if money else f"{cost / 1e6:,.4f} cost"

    def _criteria(self) -> Iterator[tuple[str, str, str]]:
        met = str(self.last.counters.get("criteria", "")) if self.last is not None else ""
        for index, text in enumerate(self.spec.success_criteria if self.spec is not None else ()):
            fulfilled = met[index : index + 1] == "1"
            mark, style = ("met", "good") if fulfilled else ("open", "")
            yield "criteria" if index == 0 else "", f"{mark}: {text}", style

    def wire(self) -> dict[str, Any]:
        """Return the head as JSON-able data, without times of now."""
        settings = self.spec.model_dump(mode="json") if self.spec is not None else None
        if settings is not None:
            settings = {name: settings[name] for name in SETTINGS}
            settings["tools"] = [tool["name"] for tool in settings["tools"]]
        return {
            "spec": settings,
            "answer": self.change.answer or None,
            "waiting_for": self.question.wire() if self.question else None,
            "documents_given": self.given,
            "documents_produced": self.produced,
            "erasures": [item._asdict() | {"hash": item.hash.hex()} for item in self.erasures],
        }


@dataclass(frozen=True, slots=True)
class Action:
    """One action of a run, from the row that observed it; of an erased one only what the rows say. Its decision is the model's after it."""

    seq: int
    step: int
    action: int
    tool: str
    outcome: str
    label: str
    documents_count: int
    documents: tuple[str, ...]
    summary: str
    decision: str = ""


def actions_of(journal: Journal, row: RunRow, rows: list[Transition]) -> list[Action]:
    """Return the actions of a run in order; one that is not observed yet comes last."""
    actions = []
    ended: Transition | None = None
    for item in rows:
        if item.trigger in ("execute", "refuse"):
            ended = item
        elif item.trigger == "observe" and ended is not None:
            actions.append(_action_of(journal, item, ended))
        elif actions and (refinement := change_of(journal, item).refinement):
            actions[-1] = replace(actions[-1], decision=refinement.words)
    if row.state == EXECUTING:
        intent = last_intent(journal, rows)
        if intent is not None:
            state, last = ("in doubt" if row.status == "waiting" else "running"), rows[-1]
            actions.append(
                Action(last.seq, last.step, last.action, intent.tool, state, intent.label, 0, (), "")
            )
    return actions


def last_intent(journal: Journal, rows: Sequence[Transition]) -> Intent | None:
    """Return the call that a run is about: the last one that its rows intended."""
    changes = (change_of(journal, row) for row in reversed(rows))
    return next((change.intent for change in changes if change.intent), None)


def _action_of(journal: Journal, row: Transition, ended: Transition) -> Action:
    message = change_of(journal, row).message
    refused = ended.trigger == "refuse"
    good = bool(ended.outcome.get("ok"))
    return Action(
        seq=row.seq,
        step=row.step,
        action=row.action,
        tool=message.tool if message else str(ended.request.get("tool", "")),
        outcome="ok" if good else "refused" if refused else "failed",
        label=str(ended.outcome.get("label", "")),
        documents_count=int(ended.outcome.get("documents", 0)),
        documents=message.documents if message else (),
        summary=message.summary if message else "(erased)",
    )


OUTCOME_STYLES = {"ok": "good", "failed": "bad", "refused": "warn", "in doubt": "warn", "waits": "warn"}


def action_cells(action: Action) -> list[Cell]:
    """Return one action as cells."""
    summary = action.summary.removeprefix(f"{count(action.documents_count, 'document')}: ")
    return [
        Cell(str(action.action), "dim"),
        Cell(action.tool, "strong"),
        Cell(action.outcome, OUTCOME_STYLES.get(action.outcome, "")),
        Cell(f"{action.documents_count:,}" if action.documents_count else ""),
        Cell(action.label if action.documents_count or action.outcome in ("running", "in doubt") else ""),
        Cell(f"{summary} {arrow()} {action.decision}" if action.decision else summary, "dim"),
    ]


ACTION_COLUMNS = (
    Column("#", right=True),
    Column("tool"),
    Column("outcome"),
    Column("docs", right=True),
    Column("label", from_width=NARROW),
    Column("summary", wide=True),
)
"""Columns of the table of actions; labels are in the table of documents, too."""
