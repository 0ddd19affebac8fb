"""What a list of runs says of each: one line a run, and of those that wait for a person the question."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import orjson

from ...states.base.errors import PaorError
from ...states.records.questions import Question
from ...states.run.phase_names import FINAL
from ...states.run.reasons import REASONS
from ...states.run.spec import Spec
from ...tools.approvals import approval_needed
from ..explain.calls import RunCall
from ..explain.story import totals_of
from ..journal.reader import JournalReader, damage_told
from ..journal.rows import RunRow
from ..replay.callers import open_question
from ..replay.restore import restore_run

_OF_CALLS = ("trigger", "guards", "request", "at")
_ROWS = 10_000
"""Rows that are looked at together."""


def run_line(journal: JournalReader, row: RunRow) -> dict[str, Any]:
    """Return what a list says of one run; what was erased of it is None."""
    question = open_question(journal, row)
    spec = spec_data(journal, row)
    used = totals_of(journal, row)
    with damage_told(row.run_id):
        tools, calls, refused, waited_us, asked_at = _calls(journal, row)
    if question is not None and question.tool is not None:
        tools = sorted({*tools, question.tool})
    return {
        "id": row.run_id,
        "objective": spec.get("objective"),
        "state": row.state,
        "status": row.status,
        "reason": row.reason,
        "verdict": verdict_words(row),
        "model": spec.get("model"),
        "mode": spec.get("mode"),
        "created_at": row.created_at,
        "ended_at": row.ended_at,
        "rows": row.head_seq + 1,
        "steps": used["step"],
        "calls": calls,
        "refused": refused,
        "tokens": used["tokens_in"] + used["tokens_out"],
        "cached_share": used["cached_share"],
        "cost_micro": used["cost_micro"],
        "time_us": used["time_us"],
        "waited_us": waited_us,
        "asked_at": asked_at if row.ended_at is None else None,
        "waits_for": question.kind if question is not None else "erased" if row.status == "waiting" else "",
        "parent": [row.parent_run_id, row.parent_seq] if row.parent_run_id else None,
        "workflow": _workflow(row),
        "key": row.key,
        "metadata": dict(row.metadata),
        "conversation": row.conversation,
        "tools": tools,
    }


def spec_data(journal: JournalReader, row: RunRow) -> dict[str, Any]:
    """Return the spec of a run as JSON data; empty once it was erased, or where it cannot be read."""
    with suppress(PaorError, ValueError, TypeError, LookupError):
        body = journal.payload(row.run, journal.root_columns(row.run)["spec_payload"]).body
        data = orjson.loads(body) if body is not None else {}
        return data if isinstance(data, dict) else {}
    return {}


def verdict_words(row: RunRow) -> str:
    """Return how a run stands, in a few words."""
    if row.state in FINAL:
        return f"{row.state}: {REASONS.get(row.reason or '', row.reason or 'no reason')}"
    if row.status == "waiting":
        return "Waits for a person"
    return f"{row.state}: not ended"


def _calls(journal: JournalReader, row: RunRow) -> tuple[list[str], int, int, int, int | None]:
    """
    Return the tools that a run has called, and how many calls were made and refused.

    Then how long it has waited for answers, in microseconds, of a fork without what its parent has waited; and since when it waits for one.
    """
    tools: dict[str, None] = {}
    calls = refused = waited = asked_at = 0
    last = row.head_seq
    ranges = []
    for part in reversed(journal.lineage(row.run)):
        ranges.append((part.run, part.first_seq, max(last, 0)))
        last = part.first_seq - 1
    for run, begin, end in reversed(ranges):
        for first in range(begin, end + 1, _ROWS):
            for trigger, guards, request, at in journal.columns(
                run, _OF_CALLS, (), first, min(first + _ROWS - 1, end)
            ):
                waited += max(0, at - max(asked_at, row.created_at)) if asked_at else 0
                asked_at = at if trigger == "wait" else 0
                calls += trigger == "execute"
                refused += trigger in ("refuse", "withhold") or _told(guards, "action_allowed") is False
                if isinstance(tool := _told(request, "tool"), str) and tool:
                    tools[tool] = None
    return sorted(tools), calls, refused, waited, asked_at or None


def _told(text: str, key: str) -> object:
    """Return what a column of JSON says under a key, None where it says nothing."""
    if f'"{key}"' not in text:
        return None
    data = orjson.loads(text)
    return data.get(key) if isinstance(data, dict) else None


def _workflow(row: RunRow) -> dict[str, Any] | None:
    if (called := row.called_by) is not None:
        return {"id": called.run_id, "action": called.action}
    if row.workflow_id == row.run_id and row.task != 0:
        return None
    return {"id": row.workflow_id, "round": row.round, "task": row.task}


def wait_of(journal: JournalReader, row: RunRow, name: str) -> dict[str, Any] | None:
    """Return the question of a run for the inbox, with all that an answer has to know; None where there is none to be read."""
    question = open_question(journal, row)
    if question is None:
        return None
    asks = journal.run(question.run_id)
    run = restore_run(journal, asks.run_id)[0]
    selection, tool = run.memory.selection, None
    if question.tool is not None:
        tool = next((item for item in run.spec.tools if item.name == question.tool), None)
    return {
        "run": asks.run_id,
        "workflow": row.run_id if row.run_id != asks.run_id else None,
        "seq": asks.head_seq,
        "name": question.id,
        "kind": question.kind,
        "message": question.message,
        "since": question.asked_at,
        "objective": run.spec.objective,
        "tool": question.tool,
        "effect": question.effect,
        "description": tool.description if tool is not None else None,
        "metadata": dict(row.metadata or asks.metadata),
        "given": _given(question),
        "arguments": [[name, value_text(value)] for name, value in (question.arguments or {}).items()],
        "wanted_for": selection.objective if selection is not None and selection.objective else None,
        "why": _why(question, run.spec),
        "counts_for": _COUNTS_FOR.get(question.kind, ""),
        "rows": asks.head_seq + 1,
        "tokens": run.counters.tokens_in + run.counters.tokens_out,
        "cost_micro": run.counters.cost_micro,
        "call_key": question.key,
        "schema": dict(question.schema) if question.kind != "approval" else {},
        "safe_to_retry": _safe_to_retry(question),
        "command": _command(question, name),
    }


def _given(question: Question) -> str | None:
    """Return the arguments that an approval is about as JSON, to be changed and sent back; None where there are none."""
    if question.kind != "approval" or question.arguments is None:
        return None
    return json.dumps(question.arguments, ensure_ascii=False)


_COUNTS_FOR = {
    "approval": "this call with these arguments, or with those that you give instead, once",
    "in_doubt": "this call alone",
    "argument": "this argument of this call",
    "elicitation": "this question",
}


def _why(question: Question, spec: Spec) -> list[str]:
    """Return why a question is asked, in sentences."""
    if question.kind == "approval" and question.tool is not None:
        rules = spec.policy.approvals
        rule = next(
            (
                item if isinstance(item, str) else item.tool
                for item in rules
                if approval_needed(
                    spec.policy.model_copy(update={"approvals": (item,)}),
                    question.tool,
                    question.arguments or {},
                )
            ),
            None,
        )
        named = f" (rule {rule})" if rule and rule != question.tool else ""
        return [f"{question.tool} needs an approval{named}, and nobody has given it yet"]
    if question.kind == "in_doubt":
        return ["the process was lost, or the tool gave up, after the call had begun: it may have happened"]
    if question.kind == "argument":
        return ["the plan's step lacks a value"]
    return ["the model or a tool needs an answer to go on"]


def _safe_to_retry(question: Question) -> str:
    if question.kind != "in_doubt":
        return ""
    return "only if it certainly did not happen; the call would have the same key"


def _command(question: Question, path: str) -> str:
    """Return the command line that answers a question."""
    given, more = {
        "approval": ("--answer yes", "or no"),
        "in_doubt": ("--outcome done", "or retry, or fail"),
    }.get(question.kind, ("--answer TEXT", ""))
    line = f"paor resume {question.run_id} {given} --journal {shlex.quote(path)}"
    return f"{line}  # {more}" if more else line


def value_text(value: Any) -> str:
    """Return a value as people read it: a text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def exact_arguments(calls: Sequence[RunCall]) -> dict[str, list[list[str]]]:
    """Return the arguments of the calls that have numbers which a browser would not keep as they were written, by the call's row."""
    return {
        str(call.seq): [[name, _short(value_text(value))] for name, value in (call.arguments or {}).items()]
        for call in calls
        if _has_numbers(call.arguments)
    }


def _has_numbers(value: Any) -> bool:
    """Return whether there is a number that is no small integer in *value*."""
    if isinstance(value, Mapping):
        return any(map(_has_numbers, value.values()))
    if isinstance(value, list | tuple):
        return any(map(_has_numbers, value))
    return isinstance(value, float) or (isinstance(value, int) and abs(value) >= 2**53)


def _short(text: str, most: int = 400) -> str:
    return text if len(text) <= most else f"{text[:most]}\u2026"
