"""What a journal says of one run, as `paor show` shows it: its head, what it waits for, and its actions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...fsm.explain.calls import RunCall
from ...fsm.explain.story import Story, is_given, policy_of, story, used_of
from ...fsm.journal.erasure_log import numbers_of
from ...fsm.journal.rows import RunRow
from ...fsm.journal_api import Journal
from ...states.records.outcomes import cached_share
from ...states.records.questions import Question
from ...states.run.reasons import REASONS
from ...states.run.spec import Spec
from ...states.settings.limits import Limits
from .journals import ALONE
from .streams import scrubber
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


def asking(journal: Journal, row: RunRow) -> RunRow:
    """Return the run whose question a waiting run waits for: one that it has called, else the run itself."""
    from ...fsm.lifecycle.subruns import waiting_called

    called = waiting_called(journal.reader, row)
    return journal.run(called) if called is not None else row


def story_of(journal: Journal, row: RunRow) -> Story:
    """Return the story of a run with its open question."""
    if row.status != "waiting":
        return story(journal.reader, row)
    from ...fsm.lifecycle.subruns import open_question  # with which runs can be driven, too

    return story(journal.reader, row, open_question(journal.reader, row))


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
    arguments, scrub, lines = list(given.items()), scrubber(), list[str]()
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
    arguments = (question.arguments or {}).items()
    told = ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in arguments)
    return f"{question.kind}: {question.tool}({told})"


def _value_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def call_blocks(calls: Sequence[RunCall]) -> Iterator[str]:
    """Yield the calls of a run, each with its arguments, who decided about it, its times and what came of it."""
    scrub = scrubber()
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


def head_pairs(told: Story) -> Iterator[tuple[str, str, str]]:
    """Yield name, value and style of every fact above the rows of a run."""
    row, spec = told.run, told.spec
    yield "run", row.run_id, "strong"
    yield "objective", spec.objective if spec is not None else "(erased)", ""
    if (called := row.called_by) is not None:
        yield "called by", f"action {called.action} of run {called.run_id}", ""
    elif row.task == 0 or row.workflow_id != row.run_id:
        place = f"round {row.round}, task {row.task}" if row.task else f"round {row.round}, all tasks"
        yield "workflow", f"{place}, of {row.workflow_id}", ""
    if row.parent_run_id is not None:
        yield "fork", f"shares rows 0 to {row.parent_seq} of run {row.parent_run_id}", ""
    yield from state_pairs(told)
    for inner in told.called:
        yield "called", f"run {inner.run_id}, {inner.status}", ""
    yield "model", spec.model if spec is not None else "", ""
    if spec is not None and spec.values:
        yield "values", json.dumps(spec.values, ensure_ascii=False, sort_keys=True), ""
    if spec is not None:
        yield from _permitted(spec)
    ended = f", ended {local_time(row.ended_at)}" if row.ended_at else ""
    yield "started", local_time(row.created_at) + ended, ""
    given = sum(is_given(row, item.label) for item in told.documents)
    numbers = ((given, "given"), (len(told.documents) - given, "produced"))
    yield "documents", ", ".join(f"{number:,} {text}" for number, text in numbers if number), ""
    for erasure in told.erasures:
        message = f"{count(len(numbers_of([erasure])), 'payload')} by {erasure.by}, {local_time(erasure.at)}"
        yield "erased", message + (f", {erasure.reason}" if erasure.reason else ""), "warn"
    for index, item in enumerate(told.criteria):
        mark, style = _MARKS[item["met"]]
        yield "" if index else "criteria", f"{mark}: {item['criterion']}", style
    yield from question_pairs(told.question)
    yield "answer", "\n".join(line for line in told.answer.split("\n") if line.strip()), ""


_MARKS = {True: ("met", "good"), False: ("not met", "warn"), None: ("open", "")}
"""What is said of a criterion, and its style."""


def state_pairs(told: Story) -> Iterator[tuple[str, str, str]]:
    """Yield in which phase a run is with its reason in words, and what it has used, of how much."""
    row = told.run
    why = row.status if row.driver or row.status != "running" else ALONE
    if row.reason:
        why = f"{row.reason}: {REASONS[row.reason]}" if row.reason in REASONS else row.reason
    elif told.question:
        why = f"waits: {told.question.kind}"
    yield "state", f"{row.state} ({why})", STATE_STYLES.get(row.status, "")
    yield "used", ", ".join(_used(told)), ""


def _used(told: Story) -> Iterator[str]:
    """Yield what was used, and of how much where there is a limit."""
    last = told.last
    for item in used_of(told.spec, last):
        most = item.allowed
        if item.counter == "step":
            yield f"{item.used:,} of {count(int(most), 'step')}" if most else count(int(item.used), "step")
        elif item.counter == "retries" and item.used:
            yield f"{item.used} of {most} retries" if most is not None else f"{item.used} retries"
        elif item.counter == "tokens":
            tokens = (
                f"{item.used:,} of {count(int(most), 'token')}" if most else count(int(item.used), "token")
            )
            read = int(last.counters.get("tokens_cached", 0)) if last is not None else 0
            yield tokens + cached_text(cached_share(read, last.tokens_in if last is not None else 0))
        elif item.counter == "time":
            yield f"{duration(item.used)} of {duration(most)}" if most else duration(item.used)
        elif item.counter == "cost" and (item.used or most):
            yield f"{item.used:,.4f} of {most:,.2f} cost" if most else f"{item.used:,.4f} cost"


def _permitted(spec: Spec) -> Iterator[tuple[str, str, str]]:
    """Yield what a run is offered, what is denied to it and needs an approval, and the limits that are not the usual ones."""
    policy = policy_of(spec)
    yield "offered", ", ".join(policy["offered"]), ""
    yield "denied", ", ".join(dict.fromkeys((*(name for name, _ in policy["denied"]), *policy["never"]))), ""
    yield "approvals", "; ".join(policy["asks"]), ""
    usual = Limits()
    plain = {name: value for name, value in spec.limits if value != getattr(usual, name)}
    told = (
        f"{name} {'none' if value is None else _value_text(value)}"
        for name, value in plain.items()
        if value is None or isinstance(value, int | float | str)
    )
    yield "limits", ", ".join(told), ""


OUTCOME_STYLES = {"ok": "good", "failed": "bad", "refused": "warn", "in doubt": "warn", "waits": "warn"}


def action_cells(call: RunCall) -> list[Cell]:
    """Return one call as the cells of a line."""
    summary = call.result.removeprefix(f"{count(call.documents_count, 'document')}: ")
    return [
        Cell(str(call.action), "dim"),
        Cell(call.tool, "strong"),
        Cell(call.outcome, OUTCOME_STYLES.get(call.outcome, "")),
        Cell(f"{call.documents_count:,}" if call.documents_count else ""),
        Cell(call.label if call.documents_count or call.outcome in ("running", "in doubt") else ""),
        Cell(f"{summary} {arrow()} {call.decision}" if call.decision else summary, "dim"),
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
