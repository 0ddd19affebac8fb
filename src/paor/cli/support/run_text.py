"""What a journal says of one run, for people: its head, what it waits for, its calls and its rows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...fsm.explain.calls import RunCall
from ...fsm.explain.story import RowTexts, Story, StoryRow, is_given, policy_of, story, used_of
from ...fsm.journal.erasure_log import numbers_of
from ...fsm.journal.rows import RunRow
from ...fsm.journal_api import Journal
from ...fsm.replay.callers import open_question
from ...states.records.outcomes import cached_share
from ...states.records.questions import Question
from ...states.run.reasons import REASONS
from ...states.run.spec import Spec
from ...states.settings.limits import Limits
from . import terminal as io
from .journals import ALONE

ARGUMENTS_SHOWN, ARGUMENT_LINES = 20, 12
"""What people are shown of a call that waits: so many arguments, of each so many lines."""
FACT_NAMES, SAID_CELLS = 14, 200
"""Cells that the names of facts take at most, and that are shown of a text of others in a row; the rest is in the journal."""

OUTCOME_STYLES = {"ok": "good", "failed": "bad", "refused": "warn", "in doubt": "warn", "waits": "warn"}
TRIGGER_STYLES = {"finish": "good", "fail": "bad"} | dict.fromkeys(
    ("wait", "reselect", "withhold", "respecify", "refuse", "retry_step", "reassess", "retry"), "warn"
)
_MARKS = {True: ("met", "good"), False: ("not met", "warn"), None: ("open", "")}
"""What is said of a criterion, and its style."""


def story_of(journal: Journal, row: RunRow) -> Story:
    """Return the story of a run with its open question."""
    return story(journal.reader, row, open_question(journal.reader, row))


# -- what waits, and calls -------------------------------------------------------------------------------------------


def call_lines(question: Question, cells: int) -> list[str]:
    """Return the call that a question is about, nothing without a tool; what is left out is said: nobody shall approve what is not shown."""
    if question.tool is None:
        return []
    head = io.folded(f"{question.tool} ({question.effect})", cells)
    return [*head, *argument_lines(question.arguments or {}, cells)]


def argument_lines(given: Mapping[str, Any], cells: int, lines_max: int = ARGUMENT_LINES) -> list[str]:
    """Return arguments, one below the other, bounded, with keys of the environment taken out."""
    lines = list[str]()
    for name, value in list(given.items())[:ARGUMENTS_SHOWN]:
        found = io.folded(f"{name}: {_value_text(value)}", cells)
        lines += found[:lines_max]
        if rest := sum(map(len, found[lines_max:])):
            lines.append(f"  ({io.count(rest, 'more character')} of {io.one_line(name)}; whole with --json)")
    if (more := len(given) - ARGUMENTS_SHOWN) > 0:
        lines.append(f"({io.count(more, 'more argument')}; whole with --json)")
    return lines


def question_pairs(question: Question | None) -> Iterator[tuple[str, str, str]]:
    """Yield name, value and style of what a run waits for; nothing for None."""
    if question is None:
        return
    yield "waits for", f"{question.kind}: {question.message}", "warn"
    yield "since", io.local_time(question.asked_at), ""
    for index, line in enumerate(call_lines(question, io.width() - FACT_NAMES)):
        yield "" if index else "call", line, ""


def question_line(question: Question) -> str:
    """Return what a run waits for as one line, however long: the call with its arguments, else the message."""
    if question.tool is None:
        return f"{question.kind}: {question.message}"
    given = (question.arguments or {}).items()
    told = (f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in given)
    return f"{question.kind}: {question.tool}({', '.join(told)})"


def _value_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def call_blocks(calls: Sequence[RunCall]) -> Iterator[str]:
    """Yield the calls of a run, each with its arguments, who decided about it, its times and what came of it."""
    cells = io.width() - 5
    for call in calls:
        kind = f" ({call.effect})" if call.effect else ""
        times = " to ".join(io.local_time(at)[11:] for at in (call.started_at, call.ended_at) if at)
        head = f"{call.action:>3}  {io.styled(io.one_line(call.tool) + kind, 'strong')}"
        head += f"  for {io.one_line(call.caller)}" if call.caller else ""
        outcome = io.styled(call.outcome, OUTCOME_STYLES.get(call.outcome, ""))
        yield f"{head}  {outcome}  {io.styled(times, 'dim')}".rstrip()
        told = argument_lines(call.arguments or {}, cells, 4)
        if call.asked is not None:
            told += ["a person changed its arguments, which were:", *argument_lines(call.asked, cells, 4)]
        for item in call.decided:
            why = f": {item.reason}" if item.reason else ""
            when = f"{item.actor or 'somebody'}, {io.local_time(item.at)}"
            told += io.folded(f"{item.decision} by {when}{why}", cells)
        told += io.folded(f"result: {call.result}", cells)[:4] if call.result else []
        told += [f"label: {io.one_line(call.label)}"] if call.documents_count else []
        told += io.folded(f"then: {call.decision}", cells)[:2] if call.decision else []
        yield from (f"     {line}" for line in told)


# -- the head of a run -----------------------------------------------------------------------------------------------


def head_pairs(told: Story) -> Iterator[tuple[str, str, str]]:
    """Yield name, value and style of every fact above the rows of a run."""
    row, spec = told.run, told.spec
    yield "run", row.run_id, "strong"
    yield "objective", spec.objective if spec is not None else "(erased)", ""
    if (called := row.called_by) is not None:
        yield "called by", f"action {called.action} of run {called.run_id}", ""
    elif row.task == 0 or row.workflow_id != row.run_id:
        task = f"task {row.task}" if row.task else "all tasks"
        yield "workflow", f"round {row.round}, {task}, of {row.workflow_id}", ""
    if row.parent_run_id is not None:
        yield "fork", f"shares rows 0 to {row.parent_seq} of run {row.parent_run_id}", ""
    yield from state_pairs(told)
    for inner in told.called:
        yield "called", f"run {inner.run_id}, {inner.status}", ""
    if spec is not None:
        yield "model", spec.model, ""
        values = json.dumps(spec.values, ensure_ascii=False, sort_keys=True) if spec.values else ""
        yield "values", values, ""
        yield from _permitted(spec)
    ended = f", ended {io.local_time(row.ended_at)}" if row.ended_at else ""
    yield "started", io.local_time(row.created_at) + ended, ""
    given = sum(is_given(row, item.label) for item in told.documents)
    documents = ((given, "given"), (len(told.documents) - given, "produced"))
    yield "documents", ", ".join(f"{number:,} {text}" for number, text in documents if number), ""
    for erasure in told.erasures:
        message = io.count(len(numbers_of([erasure])), "payload")
        message += f" by {erasure.by}, {io.local_time(erasure.at)}"
        yield "erased", message + (f", {erasure.reason}" if erasure.reason else ""), "warn"
    for index, item in enumerate(told.criteria):
        mark, style = _MARKS[item["met"]]
        yield "" if index else "criteria", f"{mark}: {item['criterion']}", style
    yield from question_pairs(told.question)
    yield "answer", "\n".join(line for line in told.answer.split("\n") if line.strip()), ""


def state_pairs(told: Story) -> Iterator[tuple[str, str, str]]:
    """Yield in which phase a run is with its reason in words, and what it has used, of how much."""
    row = told.run
    why = row.status if row.driver or row.status != "running" else ALONE
    if row.reason:
        why = f"{row.reason}: {REASONS[row.reason]}" if row.reason in REASONS else row.reason
    elif told.question:
        why = f"waits: {told.question.kind}"
    yield "state", f"{row.state} ({why})", io.STATE_STYLES.get(row.status, "")
    yield "used", ", ".join(_used(told)), ""


def _used(told: Story) -> Iterator[str]:
    """Yield what was used, and of how much where there is a limit."""
    last = told.last
    for item in used_of(told.spec, last):
        used, most = item.used, item.allowed
        if item.counter in ("step", "tokens"):
            noun = item.counter.removesuffix("s")
            text = f"{used:,} of {io.count(int(most), noun)}" if most else io.count(int(used), noun)
            if item.counter == "tokens" and last is not None:
                text += io.cached_text(
                    cached_share(int(last.counters.get("tokens_cached", 0)), last.tokens_in)
                )
            yield text
        elif item.counter == "retries" and used:
            yield f"{used} of {most} retries" if most is not None else f"{used} retries"
        elif item.counter == "time":
            yield f"{io.duration(used)} of {io.duration(most)}" if most else io.duration(used)
        elif item.counter == "cost" and (used or most):
            yield f"{used:,.4f} of {most:,.2f} cost" if most else f"{used:,.4f} cost"


def _permitted(spec: Spec) -> Iterator[tuple[str, str, str]]:
    """Yield what a run is offered, what is denied to it and needs an approval, and the limits that are not the usual ones."""
    policy, usual = policy_of(spec), Limits()
    yield "offered", ", ".join(policy["offered"]), ""
    yield "denied", ", ".join(dict.fromkeys((*(name for name, _ in policy["denied"]), *policy["never"]))), ""
    yield "approvals", "; ".join(policy["asks"]), ""
    told = (
        f"{name} {'none' if value is None else _value_text(value)}"
        for name, value in spec.limits
        if value != getattr(usual, name) and isinstance(value, int | float | str | None)
    )
    yield "limits", ", ".join(told), ""


# -- its rows --------------------------------------------------------------------------------------------------------


def row_table(rows: Sequence[StoryRow], *, head: bool) -> list[str]:
    """Return rows of a run as lines, each with its own tokens and time; the columns have the same widths if they come one by one."""
    narrow = io.width() < io.NARROW
    way = "to12" if narrow else f"from {io.arrow()} to24"
    columns = io.columns("seq>3", "trigger10", way, "step>~4", "tokens>~6", "time>~6", "detail*")
    cells: list[list[io.Cell]] = []
    for row in rows:
        tokens = row.tokens_in + row.tokens_out
        told: list[io.Cell] = [
            (str(row.seq), "dim"),
            (row.trigger, TRIGGER_STYLES.get(row.trigger, "strong")),
            row.dest if narrow else f"{row.source} {io.arrow()} {row.dest}",
            (str(row.step) if row.step else "", "dim"),
            (f"{tokens:,}" if tokens else "", "dim"),
            (io.duration(row.time_us / 1e6) if row.time_us >= 500 else "", "dim"),
            _detail(row),
        ]
        cells.append(told)
    return io.table(columns, cells, wrap=True, head=head)


def _detail(row: StoryRow) -> str:
    """Return what was asked for, what came back and the guards that decided, in one line."""
    parts = ["" if row.asked == "tool" else row.asked, row.tool or ""]
    parts += [f"attempt {row.attempt + 1}" if row.attempt else "", *row.facts]
    told = ", ".join(part for part in parts if part)
    told += f" by {io.cut(row.actor, SAID_CELLS)}" if row.actor else ""
    told += f": {io.cut(row.said, SAID_CELLS)}" if row.said else ""
    return told + (f" [{', '.join(row.decided)}]" if row.decided else "")


def text_lines(texts: RowTexts) -> Iterator[str]:
    """Yield the texts of a row for people: keys of the environment taken out, new lines of a prompt marked."""
    scrub = io.scrubber()
    for number, text in enumerate(texts.prompt, 1):
        of = f" {number} of {len(texts.prompt)}" if len(texts.prompt) > 1 else ""
        who = f", {texts.roles[number - 1]}" if any(texts.roles) else ""
        yield from ("", io.styled(f"prompt{of}{who}", "strong"))
        last = texts.before[number - 1] if number <= len(texts.before) else None
        known = set((last or "").split("\n")) if texts.before else None
        for line in io.harmless(scrub("(erased)" if text is None else text)).split("\n"):
            new = known is not None and line.strip() and line not in known
            yield io.styled(f"+ {line}", "good") if new else f"  {line}".rstrip()
    inner = (("beside it", text, True) for text in texts.inner)
    rest = (("thought", texts.thought, texts.thought), ("reply", texts.reply, texts.replied))
    for name, said, shown in (*inner, *rest):
        if shown:
            lines = io.harmless("(erased)" if said is None else said).split("\n")
            yield from ("", io.styled(name, "strong"), *(f"  {line}" for line in lines))
