"""
What has changed since a run was recorded, and whether that matters to it.

A part (`fsm.versioning.fingerprints`) matters when rows of the run have used it, or when later rows may: those that the run
can reach from its phase, in its mode and within the rest of its bounds. Use that cannot be ruled out counts as possible.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

import orjson

from ...states.run.budgets import retries_left, steps_left
from ...states.run.phase_names import EXECUTING, PHASES, PLANNING, REVIEWING, SPECIFYING
from ...states.run.spec import TASK_TOOL, Spec
from ...states.run.state import Run
from ...tools.catalog import fold_name
from ..journal.reader import JournalReader
from ..machine.decide import machine_told
from ..machine.machine import Machine
from ..machine.table import Row
from .fingerprints import INSTRUCTIONS, RULES_PART, TABLE_PART, fingerprints_of, given_fingerprints
from .host_code import machine_fingerprints, row_part

_SHOWN = 6
_TALKS = {"selection", "parameters", "refinement", "review", "plan", "task_plan", "answer", "turn", "phase"}
"""Kinds of requests to a model, which all begin with the head of the run's conversation where it holds one."""


@dataclass(frozen=True, slots=True)
class ChangedPart:
    """
    A part that has changed since the run was recorded.

    Attributes:
        part: Such as ``prompt.selection``, ``guard.office_hours`` or ``machine.rules``.
        recorded: Digest when the run was recorded, of ``machine.rules`` the number; empty for a new part.
        present: The one now; empty for a part that no longer exists.
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
        if self.part == RULES_PART:
            what += f" from {self.recorded} to {self.present}"
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
    recorded, now = dict(run.spec.fingerprints), fingerprints_of(present)
    if RULES_PART not in recorded:  # by a build without numbers, which recorded digests of its code instead
        recorded = {RULES_PART: "0", TABLE_PART: now[TABLE_PART], **given_fingerprints(run.spec)}
    if run.memory.choice is not None:  # its own first phase has lowered them; no engine brings others
        now["limits"] = recorded.get("limits", now["limits"])
    if run.spec.host_machine != present.host_machine:  # one of them may be the standard machine
        recorded |= machine_fingerprints(run.spec.host_machine)
        now |= machine_fingerprints(present.host_machine)
    there = {*map(fold_name, tools), TASK_TOOL.name}
    lacking = {f"tool.{tool.name}" for tool in run.spec.tools if fold_name(tool.name) not in there}
    offered = lacking - {f"tool.{name}" for name in _at_work(run)}
    now = {part: digest for part, digest in now.items() if part not in lacking}
    differing = [part for part in {**recorded, **now} if recorded.get(part) != now.get(part)]
    if not differing:
        return ()
    machines = (machine_told(run.spec.host_machine), machine_told(present.host_machine))
    past, ahead = list(_past(journal, run, machines)), _ahead(run, present, machines)
    found = []
    for part in differing:
        visited = tuple(seq for seq, use in past if use.of(part))
        if visited or part not in offered:
            may_visit = not run.final and ahead.of(part)
            found.append(ChangedPart(part, recorded.get(part, ""), now.get(part, ""), visited, may_visit))
    return tuple(sorted(found, key=lambda item: (not item.relevant, item.part)))


def _at_work(run: Run) -> list[str]:
    """Return the tools that what a run works on names; that one could be chosen does not count here."""
    return [item.tool for item in (run.memory.selection, run.memory.intent) if item is not None]


@dataclass(slots=True)
class _Use:
    """
    What transitions use: the one of a row, or all that may come.

    Attributes:
        phases: In which they are.
        kinds: Of requests to a model.
        prompts: Templates.
        tools: Their names, folded.
        rows: Parts of the rows of the machine that are tried.
        guards: That are evaluated.
        formats: Whether the formatter is called.
    """

    phases: set[str]
    kinds: set[str]
    prompts: set[str] = field(default_factory=set)
    tools: set[str] = field(default_factory=set)
    rows: set[str] = field(default_factory=set)
    guards: set[str] = field(default_factory=set)
    formats: bool = False

    def of(self, part: str) -> bool:
        """Whether they use *part*; all use the rules and the limits."""
        kind, _, name = part.partition(".")
        match kind:
            case "prompt":
                return bool(self.kinds & {*_TALKS, "text"}) if part == INSTRUCTIONS else name in self.prompts
            case "tool":
                return fold_name(name) in self.tools
            case "row":
                return part in self.rows
            case "guard":
                return name in self.guards
            case "phase":
                return name in self.phases
            case "policy":
                return bool(self.phases & {PLANNING, SPECIFYING})
            case "rules":
                return bool(self.kinds & {"selection", "turn"})
            case "formatter":
                return self.formats
        return True


def _prompts(spec: Spec, kinds: set[str], parameters: str) -> set[str]:
    """Return the templates that requests of *kinds* are made with, the one of the *parameters* included."""
    found = {parameters if kind == "parameters" else kind for kind in kinds}
    if "review" in kinds and spec.output_schema is not None:
        found.add("output")
    if kinds & _TALKS and spec.converses:
        found.add("turn" if spec.native else "plan" if spec.plans else "opening")
    return found


def _tried(machines: Sequence[Machine], phase: str, *, waiting: bool = False) -> tuple[Row, ...]:
    """Return the rows that are tried in *phase* by the machine that the run was recorded with, then by the present one."""
    return tuple(dict.fromkeys(row for item in machines for row in item.rows_of(phase, waiting=waiting)))


def _past(journal: JournalReader, run: Run, machines: Sequence[Machine]) -> Iterator[tuple[int, _Use]]:
    """Yield the number of every row of a run, with the parts that it has used."""
    parameters, waited = "parameters", False
    for row in journal.rows(run.number):
        trigger, source, dest, request = row[3], row[4], row[5], orjson.loads(row[7])
        kind = request.get("kind", "")
        use = _Use({source}, {kind, "text"} if '"texts":' in row[8] else {kind})
        use.prompts = _prompts(run.spec, use.kinds, parameters) | ({source} if kind == "phase" else set())
        if request.get("tool"):
            use.tools.add(fold_name(request["tool"]))
        if dest == SPECIFYING != source and (selection := journal.change(run.number, row[9]).selection):
            parameters = "parameters_full" if selection.is_bare else "parameters"
            if selection.origin != "format":
                use.tools.add(fold_name(selection.tool))
        for tried in _tried(machines, source, waiting=waited):
            use.rows.add(row_part(tried.source, tried.trigger))
            if (tried.trigger, tried.dest) == (trigger, dest):
                break
        use.guards.update(orjson.loads(row[6]))
        use.formats, waited = trigger == "format", trigger == "wait"
        yield row[1], use


def _ahead(run: Run, present: Spec, machines: Sequence[Machine]) -> _Use:
    """Return the parts that a run may still use: the phases that it can reach from where it is, and the rows tried there."""
    spec, formatted = run.spec, run.counters.formatted
    formats = bool(spec.final_format and spec.formatter is not None and not formatted)
    reads = spec.mode == "react" and not formatted and any(tool.effect == "read" for tool in spec.tools)
    phases, rows = [run.state], list(_tried(machines, run.state, waiting=run.waiting_for is not None))
    for phase in phases:  # grows while it is walked
        for row in _tried(machines, phase):
            rows.append(row)  # its guards are evaluated even where it cannot be taken
            if row.trigger == "wait":
                rows += _tried(machines, phase, waiting=True)
            if row.dest not in phases and _possible(row, run, formats=formats, reads=reads):
                phases.append(row.dest)
    use = _Use(set(phases), set(_kinds_ahead(run, phases, reads=reads)))
    use.rows = {row_part(row.source, row.trigger) for row in rows}
    use.guards = {name for row in rows for name in (*row.conditions, *row.unless)}
    use.formats = formats or (run.memory.selection is not None and run.memory.selection.origin == "format")
    use.prompts = use.phases | _prompts(spec, use.kinds, "parameters_full")
    if spec.profile.stage != "single":
        use.prompts |= _prompts(spec, use.kinds, "parameters")
    use.tools = set(map(fold_name, _tools_ahead(run, present, machines[0], use.phases)))
    return use


def _possible(row: Row, run: Run, *, formats: bool, reads: bool) -> bool:
    """Whether a row can still be taken; the counters that say no only grow."""
    spec, counters, trigger = run.spec, run.counters, row.trigger
    if spec.mode == "react" and (row.source, trigger) == (PLANNING, "wait"):
        return False
    if not spec.plans and (row.source, trigger) == (REVIEWING, "next_step"):
        return False
    if trigger == "withhold":
        return reads
    if row.source != REVIEWING or run.memory.flow is not None:
        return True
    if trigger == "format":
        return formats
    if trigger not in ("retry", "proceed", "next_step", "conclude", "reassess"):
        return True
    if counters.formatted or trigger == "reassess":
        return not counters.formatted
    if counters.concluded and run.state == REVIEWING:
        return retries_left(run) and steps_left(run)
    return trigger == "conclude" or run.state == PLANNING or steps_left(run)


def _kinds_ahead(run: Run, phases: Collection[str], *, reads: bool) -> Iterator[str]:
    """Yield the kinds of requests to a model that may come."""
    spec, counters = run.spec, run.counters
    react, plans = not spec.plans, PLANNING in phases
    if plans:
        yield "turn" if spec.native else "selection" if react else "plan" if spec.task else "task_plan"
    if plans and reads:
        yield "answer"
    if react and SPECIFYING in phases and (plans or not counters.formatted):
        yield "parameters"
    if REVIEWING in phases and not counters.formatted:
        yield "review"
        if react and (plans or not counters.concluded):
            yield "refinement"
    if EXECUTING in phases:
        yield "text"
    if not set(phases) <= set(PHASES):
        yield "phase"


def _tools_ahead(run: Run, present: Spec, machine: Machine, phases: Collection[str]) -> Iterator[str]:
    """Yield the tools that may be called: all where one may be chosen again, else those that the run works on."""
    own = machine.host.phases
    if (
        PLANNING in phases
        or run.memory.flow is not None
        or any(name in own and own[name].tool for name in phases)
    ):
        yield from (tool.name for spec in (run.spec, present) for tool in (*spec.tools, *spec.phase_tools))
    elif SPECIFYING in phases or EXECUTING in phases:
        yield from _at_work(run)
        yield from (step.name for step in run.memory.plan.steps) if run.memory.plan is not None else ()
