"""What the tools share: a look at a journal at one moment, and the parts of their answers that several of them have."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from ..fsm.journal.reader import JournalReader
from ..fsm.journal.rows import RunRow
from ..fsm.journal_api import STATUSES
from ..fsm.lifecycle.subruns import open_question
from ..fsm.report.run_lines import line_with
from ..states.base.errors import Erased, PaorError, UnknownRun, UsageError
from ..states.records.questions import Question
from ..states.run.labels import key_of, moment_of
from ..states.run.spec import TASK_TOOL, Spec
from .answers import RunsAnswer, ShownRun, Texts, WaitsFor
from .names import LEFT_OUT, moment_text, name_of, names_of

NEWEST = "last"
"""The name under which the newest run can be asked for."""

TOOLS_NAMED = 30
"""Most tools of a run that are named."""


@dataclass(frozen=True, slots=True)
class Look:
    """
    One look at a journal.

    Attributes:
        reader: One snapshot of it.
        texts: Shows the texts of others, or none.
    """

    reader: JournalReader
    texts: Texts

    def run(self, name: str) -> RunRow:
        """
        Return a run.

        Args:
            name: Its id, an unambiguous start of it, or ``last``.

        Raises:
            UnknownRun: There is none.
        """
        if name != NEWEST:
            return self.reader.run(name)
        newest = self.reader.runs(limit=1)
        if not newest:
            raise UnknownRun(f"{self.reader.path}: the journal holds no run yet")
        return newest[0]

    def line(self, row: RunRow) -> ShownRun:
        """Return what a list says of one run."""
        question = open_question(self.reader, row)
        found = line_with(self.reader, row, question)
        parent = f"{name_of(row.parent_run_id)} row {row.parent_seq}" if row.parent_run_id else None
        place = f"{name_of(row.workflow_id)} round {row.round} task {row.task}"
        return ShownRun(
            run_id=name_of(row.run_id),
            status=name_of(row.status),
            state=name_of(row.state),
            reason=name_of(row.reason) if row.reason else None,
            started=moment_text(row.created_at),
            ended=moment_text(row.ended_at),
            rows=row.head_seq + 1,
            steps=found["steps"],
            calls=found["calls"],
            refused=found["refused"],
            tokens=found["tokens"],
            cost=found["cost_micro"] / 1e6,
            seconds=found["time_us"] / 1e6,
            model=name_of(found["model"]) if found["model"] else None,
            mode=name_of(found["mode"]) if found["mode"] else None,
            tools=names_of(found["tools"][:TOOLS_NAMED]),
            waits_for=self._waits(row, question),
            fork_of=parent,
            workflow=place if found["workflow"] else None,
            objective=self.texts(found["objective"]),
            key=self.texts(row.key),
            metadata=self.json(dict(row.metadata)) if row.metadata else None,
        )

    def waits(self, row: RunRow) -> WaitsFor | None:
        """Return what a run waits for, of a workflow what its task asks; None for nothing."""
        return self._waits(row, open_question(self.reader, row))

    def _waits(self, row: RunRow, question: Question | None) -> WaitsFor | None:
        if question is None:
            return WaitsFor(kind="erased") if row.status == "waiting" else None
        known = KnownNames(self.reader, self.reader.run(question.run_id))
        return WaitsFor(
            kind=name_of(question.kind),
            tool=known.tool(question.tool) if question.tool is not None else None,
            effect=name_of(question.effect) if question.effect is not None else None,
            since=moment_text(question.asked_at),
            message=self.texts(question.message),
            arguments=self.json(dict(question.arguments)) if question.arguments is not None else None,
        )

    def json(self, value: Any) -> Any:
        """Return data of others as a text, shown as one."""
        return self.texts(json.dumps(value, ensure_ascii=False)) if self.texts.shown else None


class KnownNames:
    """
    The tools that a run knows: any other name of a tool is text of whoever wrote it.

    Args:
        reader: The journal.
        row: The run.
    """

    def __init__(self, reader: JournalReader, row: RunRow) -> None:
        self._reader, self._row = reader, row

    @cached_property
    def spec(self) -> Spec | None:
        """What the run was started with; None once erased, or where it cannot be read."""
        try:
            return self._reader.spec(self._row.run_id)
        except (Erased, PaorError, ValueError):
            return None

    @cached_property
    def tools(self) -> frozenset[str]:
        """Names of the tools that it was offered, and of those that its own phases call."""
        spec = self.spec
        if spec is None:
            return frozenset()
        given = [*spec.tools, *spec.phase_tools, *([spec.formatter] if spec.formatter else []), TASK_TOOL]
        return frozenset(tool.name for tool in given)

    def tool(self, name: str, recorded: object = None) -> str:
        """Return the name of a tool; `LEFT_OUT` for one that neither the spec nor a row's own column (*recorded*) has."""
        return name_of(name) if name in self.tools or name == recorded else LEFT_OUT


LIMIT, LIMIT_MAX = 20, 100
"""Runs of one answer: by default, and at most."""


def runs(look: Look, arguments: Mapping[str, Any]) -> RunsAnswer:
    """
    Return the runs that all conditions hold for.

    Args:
        look: At the journal.
        arguments: ``status``, ``state``, ``since``, ``key``, ``limit``, ``before``; none is needed.

    Raises:
        UnknownRun: *before* is no run of this journal.
        UsageError: *since* is no moment.
    """
    limit, before = int(arguments.get("limit", LIMIT)), arguments.get("before")
    since = arguments.get("since")
    found = look.reader.runs(
        status=arguments.get("status"),
        state=arguments.get("state"),
        key=key_of(arguments.get("key")),
        since=_since(since) if since is not None else None,
        before=look.run(before).run if before is not None else None,
        limit=limit + 1,
    )
    lines = [look.line(row) for row in found[:limit]]
    more = f'there are older ones: before="{lines[-1].run_id}"' if len(found) > limit else None
    return RunsAnswer(runs=lines, more=more)


def _since(text: str) -> int:
    found = moment_of(text, datetime.now(UTC))
    if found is None:
        raise UsageError(
            f"since {text!a:.60}: expected a date, a time such as 2026-05-31T18:00Z, or 90m, 12h, 7d"
        )
    return found


SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "status": {"enum": list(STATUSES)},
        "state": {
            "type": "string",
            "pattern": "^[A-Z][A-Za-z0-9]{0,39}$",
            "description": "Phase in which it is, such as Executing, or Done or Failed.",
        },
        "since": {
            "type": "string",
            "maxLength": 40,
            "description": "Started since: a date or time (ISO 8601), or 90m, 12h, 7d ago.",
        },
        "key": {"type": "string", "maxLength": 200, "description": "The host's own key of the run, exactly."},
        "limit": {"type": "integer", "minimum": 1, "maximum": LIMIT_MAX, "default": LIMIT},
        "before": {"type": "string", "maxLength": 64, "description": "Only runs older than this run."},
    },
    "additionalProperties": False,
}
