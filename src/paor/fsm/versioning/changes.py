"""
What has changed since a run was recorded, and whether that matters to it.

A part (`fsm.versioning.fingerprints`) matters when rows of the run have used it, or when later rows may: it is reachable from where the
run stands, in its mode and with what is left of its bounds. What can be said for certain is left out; the rest counts as
possible, so nothing that is used later was called irrelevant.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from ...states.base.version import VERSION
from ...states.records.actions import Selection
from ...states.run.budgets import retries_left, steps_left
from ...states.run.phase_names import EXECUTING, PLANNING, REVIEWING, SPECIFYING
from ...states.run.spec import TASK_TOOL, Spec
from ...states.run.state import Run
from ...tools.catalog import fold_name
from ..journal.reader import JournalReader
from ..machine.decide import machine_told
from ..machine.machine import Machine
from ..machine.table import Row
from .fingerprints import INSTRUCTIONS, UNREADABLE, fingerprints_of, given_fingerprints, row_part

_SHOWN = 6
_CHOOSING = frozenset((PLANNING, SPECIFYING))
_PROMPTED = frozenset(
    ("selection", "parameters", "refinement", "review", "plan", "task_plan", "answer", "turn")
)
_ASKED = _PROMPTED | {"phase", "text"}
"""Kinds of requests whose prompts hold the host's instructions."""

_CODE_PHASES = {"plans": _CHOOSING, "schemas": _CHOOSING, "results": frozenset((EXECUTING,))}
"""Phases in which a part of the shared code is used; any other is used in all of them."""


@dataclass(frozen=True, slots=True)
class ChangedPart:
    """
    A part that has changed since the run was recorded.

    Attributes:
        part: Such as ``prompt.selection`` or ``guard.retries_left``.
        recorded: Digest when the run was recorded; empty for a new part.
        present: Digest now; empty for a part that no longer exists.
        visited: Rows that have used it.
        may_visit: Whether rows to come may use it.
    """

    part: str
    recorded: str
    present: str
    visited: tuple[int, ...]
    may_visit: bool

    @property
    def relevant(self) -> bool:
        """Whether it matters to this run."""
        return bool(self.visited) or self.may_visit

    def __str__(self) -> str:
        what = (
            "is not there any more" if not self.present else "is new" if not self.recorded else "has changed"
        )
        if not self.visited:
            return f"{self.part} {what}; {'may be used' if self.may_visit else 'never used by this run'}"
        rows = ", ".join(map(str, self.visited[:_SHOWN])) + (", ..." if len(self.visited) > _SHOWN else "")
        used = f"used by {'row' if len(self.visited) == 1 else 'rows'} {rows}"
        return f"{self.part} {what}; {used}; {'may' if self.may_visit else 'cannot'} be used again"


def changes_of(
    journal: JournalReader, run: Run, present: Spec, tools: Collection[str]
) -> tuple[ChangedPart, ...]:
    """
    Return the parts that decide a run otherwise than when it was recorded, those that matter to it first.

    Args:
        journal: The journal that holds it.
        run: As it is, with the spec in force.
        present: That spec as the engine would write it now.
        tools: Names of the engine's tools; one that is missing matters where the run has called it or will.
    """
    recorded = run.spec.fingerprints or given_fingerprints(run.spec)
    now = fingerprints_of(present)
    if UNREADABLE in (*recorded, *now):  # code cannot be compared: the same version counts as the same code
        recorded, now = _by_version(recorded, run.spec.engine), _by_version(now, VERSION)
    if run.memory.choice is not None:  # its own first phase has lowered them; no engine brings others
        now["limits"] = recorded.get("limits", now["limits"])
    there = {*map(fold_name, tools), TASK_TOOL.name}
    lacking = {f"tool.{tool.name}" for tool in run.spec.tools if fold_name(tool.name) not in there}
    offered = lacking - {f"tool.{name}" for name in _at_work(run)}
    now = {part: digest for part, digest in now.items() if part not in lacking}
    kinds = {_kind(part) for part in recorded}  # a kind that it was not recorded with is not compared
    differing = [
        part for part in {**recorded, **now} if recorded.get(part) != now.get(part) and _kind(part) in kinds
    ]
    if not differing:
        return ()
    rows = journal.rows(run.number)
    machines = (machine_told(run.spec.host_machine), machine_told(present.host_machine))
    past = [_Past(journal, run, machines, rows, number) for number in range(len(rows))]
    ahead = _Ahead(run, machines)
    found = []
    for part in differing:
        visited = tuple(row.seq for row in past if row.uses(part))
        if visited or part not in offered:
            may_visit = not run.final and ahead.uses(part)
            found.append(ChangedPart(part, recorded.get(part, ""), now.get(part, ""), visited, may_visit))
    return tuple(sorted(found, key=lambda item: (not item.relevant, item.part)))


def _kind(part: str) -> str:
    return part.partition(".")[0]


def _at_work(run: Run) -> list[str]:
    """Return the tools that what a run works on names; that one could be chosen does not count here."""
    return [item.tool for item in (run.memory.selection, run.memory.intent) if item is not None]


def _by_version(parts: dict[str, str], version: str) -> dict[str, str]:
    kept = {part: text for part, text in parts.items() if _kind(part) not in ("phase", "guard", "core")}
    return kept | {UNREADABLE: version}


class _Use:
    """What transitions use: the one of a row, or all that may come."""

    def __init__(self, run: Run, machines: Sequence[Machine], phases: set[str], kinds: set[str]) -> None:
        self.run = run
        self.machines = machines
        self.phases = phases
        self.kinds = kinds

    def rows_of(self, phase: str, *, waiting: bool = False) -> tuple[Row, ...]:
        """Return the rows that are tried in *phase* by the machine that the run was recorded with, then by the present one."""
        return tuple(
            dict.fromkeys(row for item in self.machines for row in item.rows_of(phase, waiting=waiting))
        )

    def uses(self, part: str) -> bool:
        """Whether they use *part*; what is not known better counts as used."""
        kind, _, name = part.partition(".")
        match kind:
            case "phase":
                return name.partition(".")[0] in self.phases
            case "policy":
                return bool(self.phases & _CHOOSING)
            case "rules":
                return bool(self.kinds & {"selection", "turn"})
            case "prompt" if part == INSTRUCTIONS:
                return bool(self.kinds & _ASKED)
            case "schema":
                return name in self.kinds
            case "core":
                return self._code(name)
        return self.own(kind, name)

    def own(self, kind: str, name: str) -> bool:
        """Whether they use a part that the past and what is ahead tell differently."""
        raise NotImplementedError

    def _code(self, name: str) -> bool:
        spec = self.run.spec
        if name in ("workflow", "expressions"):
            return spec.workflow is not None
        if name == "prompts":
            return bool(self.kinds & _PROMPTED)
        if name == "plans" and not spec.plans:
            return False
        return name not in _CODE_PHASES or bool(self.phases & _CODE_PHASES[name])


class _Past(_Use):
    """What one row of a run has used."""

    def __init__(
        self,
        journal: JournalReader,
        run: Run,
        machines: Sequence[Machine],
        rows: Sequence[tuple[Any, ...]],
        number: int,
    ) -> None:
        self._journal = journal
        self._rows = rows
        self._row = rows[number]
        self.seq: int = self._row[1]
        self._request: Mapping[str, Any] = orjson.loads(self._row[7])
        super().__init__(run, machines, {self._row[4]}, {self._request.get("kind", "")})

    def own(self, kind: str, name: str) -> bool:
        """Whether it used a guard, a row of the table, a template, a tool or the formatter."""
        match kind:
            case "guard":
                return f'"{name}":' in self._row[6]
            case "row":
                return self._is_tried(f"row.{name}")
            case "prompt" if name == "text":
                return '"texts":' in self._row[8]
            case "prompt" if name in ("parameters", "parameters_full"):
                return "parameters" in self.kinds and self._template() == name
            case "prompt" if name == "output":
                return "review" in self.kinds and self.run.spec.output_schema is not None
            case "prompt":
                return name in self.kinds or (name in self.phases and "phase" in self.kinds)
            case "tool":
                return self._request.get("tool") == name or self._chosen_tool() == name
            case "formatter":
                return bool(self._row[3] == "format")
        return True

    def _is_tried(self, part: str) -> bool:
        waited = self.seq > 0 and self._rows[self.seq - 1][3] == "wait"
        for tried in self.rows_of(self._row[4], waiting=waited):
            if row_part(tried.source, tried.trigger) == part:
                return True
            if (tried.trigger, tried.dest) == (self._row[3], self._row[5]):
                return False
        return False

    def _template(self) -> str:
        """Return the template of the parameters that the row asked for: the selection before it decides."""
        before = (row for row in reversed(self._rows[: self.seq]) if _is_choice(row))
        selection = self._selection(next(before, None))
        return "parameters_full" if selection and selection.is_bare else "parameters"

    def _chosen_tool(self) -> str | None:
        """Return the tool that was chosen in the row."""
        selection = self._selection(self._row if _is_choice(self._row) else None)
        return selection.tool if selection and selection.origin != "format" else None

    def _selection(self, row: tuple[Any, ...] | None) -> Selection | None:
        return (self._journal.change(self.run.number, row[9]).selection or None) if row is not None else None


def _is_choice(row: tuple[Any, ...]) -> bool:
    """Whether an action was selected in a row."""
    return bool(row[5] == SPECIFYING and row[4] != SPECIFYING)


class _Ahead(_Use):
    """What a run may still use: the phases that it can reach from where it is, and the rows tried there."""

    def __init__(self, run: Run, machines: Sequence[Machine]) -> None:
        super().__init__(run, machines, set(), set())
        self.rows: list[Row] = []
        self._walk(run.state)
        if run.waiting_for is not None:
            self.rows += self.rows_of(run.state, waiting=True)
        self.kinds.update(self._kinds())

    def _walk(self, phase: str) -> None:
        self.phases.add(phase)
        for row in self.rows_of(phase):
            self.rows.append(row)  # its guards are evaluated even where it cannot be taken
            if row.dest not in self.phases and self._possible(row):
                self._walk(row.dest)
        if any(row.trigger == "wait" for row in self.rows_of(phase)):
            self.rows += self.rows_of(phase, waiting=True)

    def _possible(self, row: Row) -> bool:
        """Whether a row can still be taken; the counters that say no only grow."""
        run, trigger = self.run, row.trigger
        spec, counters = run.spec, run.counters
        if spec.mode == "react" and (row.source, trigger) == (PLANNING, "wait"):
            return False
        if not spec.plans and (row.source, trigger) == (REVIEWING, "next_step"):
            return False
        if trigger == "withhold":
            return self.reads
        if row.source != REVIEWING or run.memory.flow is not None:
            return True
        if trigger == "format":
            return self.formats
        if trigger not in ("retry", "proceed", "next_step", "conclude", "reassess"):
            return True
        if counters.formatted:
            return False
        if trigger == "reassess":
            return True
        if counters.concluded and run.state == REVIEWING:
            return retries_left(run) and steps_left(run)
        return trigger == "conclude" or run.state == PLANNING or steps_left(run)

    @property
    def formats(self) -> bool:
        """Whether the one last formatting action is still to come."""
        spec = self.run.spec
        return bool(spec.final_format and spec.formatter is not None and not self.run.counters.formatted)

    @property
    def reads(self) -> bool:
        """Whether it may repeat a call that only reads, so that its tools are withheld."""
        spec, formatted = self.run.spec, self.run.counters.formatted
        return spec.mode == "react" and not formatted and any(tool.effect == "read" for tool in spec.tools)

    def _kinds(self) -> Iterator[str]:
        """Yield the kinds of requests to a model that may come."""
        run = self.run
        react, plans = not run.spec.plans, PLANNING in self.phases
        if plans and run.spec.native:
            yield "turn"
        elif plans:
            yield "selection" if react else "plan" if run.spec.task else "task_plan"
        if plans and self.reads:
            yield "answer"
        if react and SPECIFYING in self.phases and (plans or not run.counters.formatted):
            yield "parameters"
        if REVIEWING in self.phases and not run.counters.formatted:
            yield "review"
            if react and (plans or not run.counters.concluded):
                yield "refinement"

    def own(self, kind: str, name: str) -> bool:
        """Whether it may use a guard, a row of the table, a template, a tool or the formatter."""
        match kind:
            case "guard":
                return any(name in (*row.conditions, *row.unless) for row in self.rows)
            case "row":
                return any(row_part(row.source, row.trigger) == f"row.{name}" for row in self.rows)
            case "prompt" if name == "text":
                return EXECUTING in self.phases
            case "prompt" if name == "parameters_full":
                return "parameters" in self.kinds
            case "prompt" if name == "parameters" and self.run.spec.profile.stage == "single":
                return False
            case "prompt" if name == "output":
                return "review" in self.kinds and self.run.spec.output_schema is not None
            case "prompt":
                return name in self.kinds or name in self.phases
            case "tool":
                return self._is_callable(fold_name(name))
            case "formatter":
                selection = self.run.memory.selection
                return self.formats or (selection is not None and selection.origin == "format")
        return True

    def _is_callable(self, tool: str) -> bool:
        """Whether a tool may be called: it may be chosen again, or what the run works on names it."""
        plan = self.run.memory.plan
        if PLANNING in self.phases or self.run.memory.flow is not None:
            return True
        if any(
            self.machines[0].host.phases[name].tool
            for name in self.phases & self.machines[0].host.phases.keys()
        ):
            return True
        named = [*_at_work(self.run), *(step.name for step in (plan.steps if plan is not None else ()))]
        return bool(self.phases & {SPECIFYING, EXECUTING}) and tool in map(fold_name, named)
