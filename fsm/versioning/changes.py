"""
What has changed since a run was recorded, and whether that matters to it.

A part (`fsm.versioning.fingerprints`) matters when rows of the run have used it, or when later rows may: it is reachable from where the
run stands, in its mode and with what is left of its bounds. What can be said for certain is left out; the rest counts as
possible, so nothing that is used later was called irrelevant.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from ...states.base.version import VERSION
from ...states.run.budgets import retries_left, steps_left
from ...states.run.phase_names import EXECUTING, PLANNING, REVIEWING, SPECIFYING
from ...states.run.spec import TASK_TOOL, Spec
from ...states.run.state import Change, Run
from ...tools.catalog import fold_name
from ..journal.reader import JournalReader
from ..machine.table import Row, rows_of
from .fingerprints import UNREADABLE, fingerprints_of, given_fingerprints, row_part

Load = Callable[[str], Change]
_SHOWN = 6


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
        told = [f"{self.part} {what}"]
        if self.visited:
            rows = ", ".join(map(str, self.visited[:_SHOWN])) + (
                ", ..." if len(self.visited) > _SHOWN else ""
            )
            told.append(f"used by {'row' if len(self.visited) == 1 else 'rows'} {rows}")
        told.append("may be used again" if self.visited else "may be used")
        if not self.may_visit:
            told[-1] = "cannot be used again" if self.visited else "never used by this run"
        return "; ".join(told)


def changes_of(
    journal: JournalReader, run: Run, present: Spec, tools: Collection[str]
) -> tuple[ChangedPart, ...]:
    """
    Return the parts that decide a run otherwise than when it was recorded, those that matter to it first.

    Args:
        journal: The journal that holds it.
        run: As it stands, with the spec in force.
        present: That spec as the engine would write it now.
        tools: Names of the engine's tools; one that is missing matters where the run has called it or will.
    """
    recorded = run.spec.fingerprints or given_fingerprints(run.spec)
    now = fingerprints_of(present)
    if UNREADABLE in (*recorded, *now):  # code cannot be compared: the same version counts as the same code
        recorded, now = _by_version(recorded, run.spec.engine), _by_version(now, VERSION)
    there = {*map(fold_name, tools), TASK_TOOL.name}
    lacking = {f"tool.{tool.name}" for tool in run.spec.tools if fold_name(tool.name) not in there}
    now = {part: digest for part, digest in now.items() if part not in lacking}
    if now == recorded:
        return ()
    rows = journal.rows(run.number)
    found = changed_parts(run, rows, recorded, now, lambda column: journal.change(run.number, column))
    offered = {part for part in lacking if not _needs(run, part.removeprefix("tool."))}
    return tuple(item for item in found if item.part not in offered or item.visited)


def _needs(run: Run, tool: str) -> bool:
    """Whether what a run works on names a tool; that it could be chosen does not count here."""
    memory = run.memory
    named = [memory.selection.tool] if memory.selection is not None else []
    named += [memory.intent.tool] if memory.intent is not None else []
    return tool in named


def _by_version(parts: dict[str, str], version: str) -> dict[str, str]:
    kept = {
        part: text for part, text in parts.items() if part.partition(".")[0] not in ("phase", "guard", "core")
    }
    return kept | {UNREADABLE: version}


def changed_parts(
    run: Run,
    rows: Sequence[tuple[Any, ...]],
    recorded: Mapping[str, str],
    present: Mapping[str, str],
    load: Load,
) -> tuple[ChangedPart, ...]:
    """
    Return the parts that differ, those that matter first.

    Args:
        run: Where it stands.
        rows: All its rows, in the order of the table.
        recorded: Fingerprints that it was recorded with; kinds of parts that are not in it are not compared.
        present: Fingerprints of now.
        load: Returns the change that a row's ``change`` column refers to.
    """
    kinds = {_kind(part) for part in recorded}
    differing = [
        part
        for part in {**recorded, **present}
        if recorded.get(part) != present.get(part) and _kind(part) in kinds
    ]
    if not differing:
        return ()
    visits, ahead = _Visits(run, rows, load), _Ahead(run)
    found = [
        ChangedPart(
            part, recorded.get(part, ""), present.get(part, ""), tuple(visits.of(part)), ahead.may_visit(part)
        )
        for part in differing
    ]
    return tuple(sorted(found, key=lambda item: (not item.relevant, item.part)))


def _kind(part: str) -> str:
    return part.partition(".")[0]


_WITH_PROMPTS = ("selection", "parameters", "refinement", "review", "plan", "task_plan")
_ALWAYS = ("vocabulary", "decide")


class _Visits:
    """What the rows of a run have used."""

    def __init__(self, run: Run, rows: Sequence[tuple[Any, ...]], load: Load) -> None:
        self.run = run
        self._rows = rows
        self._load = load
        self._requests = [orjson.loads(row[7]) for row in rows]

    def of(self, part: str) -> Iterator[int]:
        """Yield the rows that have used *part*."""
        kind, _, name = part.partition(".")
        for row, request in zip(self._rows, self._requests, strict=True):
            if _USED[kind](self, name, row, request):
                yield row[1]

    def code(self, name: str, row: tuple[Any, ...], request: dict[str, Any]) -> bool:
        """Whether a row used a part of the shared code."""
        spec = self.run.spec
        if name in ("workflow", "expressions"):
            return spec.workflow is not None
        if name == "plans":
            return spec.mode != "react" and row[4] in (PLANNING, SPECIFYING)
        if name == "prompts":
            return request.get("kind") in _WITH_PROMPTS
        if name == "results":
            return bool(row[4] == EXECUTING)
        return name != "schemas" or row[4] in (PLANNING, SPECIFYING)

    def row(self, name: str, row: tuple[Any, ...], request: dict[str, Any]) -> bool:
        """Whether a row of the table was tried."""
        if not name.startswith(f"{row[4]}."):
            return False
        waited = row[1] > 0 and self._rows[row[1] - 1][3] == "wait"
        for tried in rows_of(row[4], waiting=waited):
            if row_part(tried.source, tried.trigger) == f"row.{name}":
                return True
            if (tried.trigger, tried.dest) == (row[3], row[5]):
                return False
        return False

    def prompt(self, name: str, row: tuple[Any, ...], request: dict[str, Any]) -> bool:
        """Whether a template was prompted with."""
        if name == "text":
            return '"texts":' in row[8]
        if name not in ("parameters", "parameters_full"):
            return bool(request.get("kind") == name)
        return request.get("kind") == "parameters" and self._template_before(row[1]) == name

    def _template_before(self, seq: int) -> str:
        """Return the template of the parameters that row *seq* asked for: the selection before it decides."""
        for row in reversed(self._rows[:seq]):
            if row[5] == SPECIFYING and row[4] != SPECIFYING:
                selection = self._load(row[9]).selection
                return "parameters_full" if selection and selection.fields is None else "parameters"
        return "parameters"

    def tool(self, name: str, row: tuple[Any, ...], request: dict[str, Any]) -> bool:
        """Whether a tool was chosen or called."""
        if request.get("tool") == name:
            return True
        if row[5] != SPECIFYING or row[4] == SPECIFYING:
            return False
        selection = self._load(row[9]).selection
        return bool(selection and selection.tool == name and selection.origin != "format")


_USED: dict[str, Callable[[_Visits, str, tuple[Any, ...], dict[str, Any]], bool]] = {
    "phase": lambda visits, name, row, request: row[4] == name,
    "guard": lambda visits, name, row, request: f'"{name}":' in row[6],
    "row": _Visits.row,
    "core": _Visits.code,
    "code": lambda visits, name, row, request: True,
    "prompt": _Visits.prompt,
    "schema": lambda visits, name, row, request: request.get("kind") == name,
    "tool": _Visits.tool,
    "formatter": lambda visits, name, row, request: row[3] == "format",
    "policy": lambda visits, name, row, request: row[4] in (PLANNING, SPECIFYING),
    "limits": lambda visits, name, row, request: True,
    "rules": lambda visits, name, row, request: request.get("kind") == "selection",
}


class _Ahead:
    """What a run may still come to: the phases that it can reach from where it stands, and the rows tried there."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.rows: list[Row] = []
        self.phases: set[str] = set()
        if not run.final:
            self._walk(run.state)
        if run.waiting_for is not None:
            self.rows += rows_of(run.state, waiting=True)

    def _walk(self, phase: str) -> None:
        self.phases.add(phase)
        for row in rows_of(phase):
            self.rows.append(row)  # its guards are evaluated even where it cannot be taken
            if row.dest not in self.phases and self._possible(row):
                self._walk(row.dest)
        if any(row.trigger == "wait" for row in rows_of(phase)):
            self.rows += rows_of(phase, waiting=True)

    def _possible(self, row: Row) -> bool:
        """Whether a row can still be taken; the counters that say no only grow."""
        run, trigger = self.run, row.trigger
        spec, counters = run.spec, run.counters
        if spec.mode == "react" and (row.source, trigger) in ((PLANNING, "wait"), (REVIEWING, "next_step")):
            return False
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

    def may_visit(self, part: str) -> bool:
        """Whether rows to come may use *part*."""
        kind, _, name = part.partition(".")
        if not self.phases:
            return False
        if kind in ("phase", "policy", "rules", "code", "formatter", "limits"):
            return {
                "phase": name in self.phases,
                "policy": bool(self.phases & {PLANNING, SPECIFYING}),
                "rules": "selection" in self._kinds(),
                "code": True,
                "limits": True,
                "formatter": self._formatting(),
            }[kind]
        if kind == "guard":
            return any(name in (*row.conditions, *row.unless) for row in self.rows)
        if kind == "row":
            return any(row_part(row.source, row.trigger) == part for row in self.rows)
        if kind in ("prompt", "schema"):
            return self._prompts(kind, name)
        return self._code(name) if kind == "core" else self._tool(name)

    def _formatting(self) -> bool:
        selection = self.run.memory.selection
        return self.formats or (selection is not None and selection.origin == "format")

    def _kinds(self) -> set[str]:
        """Return the kinds of requests to a model that may come."""
        run, found = self.run, set()
        react = run.spec.mode == "react"
        if PLANNING in self.phases:
            found.add("selection" if react else "plan" if run.spec.task else "task_plan")
        if react and SPECIFYING in self.phases and (PLANNING in self.phases or not run.counters.formatted):
            found.add("parameters")
        if REVIEWING in self.phases and not run.counters.formatted:
            found.add("review")
            if react and (PLANNING in self.phases or not run.counters.concluded):
                found.add("refinement")
        return found

    def _prompts(self, kind: str, name: str) -> bool:
        kinds = self._kinds()
        if kind == "prompt" and name == "text":
            return EXECUTING in self.phases
        if kind == "prompt" and name in ("parameters", "parameters_full"):
            single = self.run.spec.profile.stage == "single"
            return "parameters" in kinds and not (single and name == "parameters")
        return name in kinds

    def _code(self, name: str) -> bool:
        run = self.run
        if name in ("workflow", "expressions"):
            return run.spec.workflow is not None
        if name == "plans":
            return run.spec.mode != "react" and bool(self.phases & {PLANNING, SPECIFYING})
        if name == "prompts":
            return bool(self._kinds())
        if name == "results":
            return EXECUTING in self.phases
        return name != "schemas" or SPECIFYING in self.phases

    def _tool(self, name: str) -> bool:
        """Whether a tool may be called: it may be chosen again, or what the run works on names it."""
        if PLANNING in self.phases or self.run.memory.flow is not None:
            return True
        memory = self.run.memory
        named = [memory.selection.tool] if memory.selection is not None else []
        named += [memory.intent.tool] if memory.intent is not None else []
        named += [step.name for step in memory.plan.steps] if memory.plan is not None else []
        return bool(self.phases & {SPECIFYING, EXECUTING}) and fold_name(name) in map(fold_name, named)
