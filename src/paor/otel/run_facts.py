"""What the spans of a run need beside its rows: where it stands, what it was started with, and which machine it walks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from ..fsm.journal.reader import JournalReader
from ..fsm.journal.rows import RunRow, Transition
from ..fsm.machine.decide import machine_told
from ..fsm.machine.machine import MACHINE, Machine
from ..states.base.errors import JournalDamaged, UsageError
from ..states.run.phase_names import EXECUTING
from .span import span_id_of, trace_id_of


@dataclass(frozen=True, slots=True)
class RunFacts:
    """
    A run before its rows.

    Attributes:
        number, run_id, workflow_id, round, task: As in `RunRow`.
        created_at: When, in microseconds since the epoch.
        trace_id: Of the trace that it belongs to.
        parent_id: Of a workflow's task the span of the call that started it, else None.
        spec: What it was started with, as JSON data; empty once erased.
        machine: What it walks; None where that was erased or cannot be read.
        forked: Of a fork the run and the number of the last row that it shares, with that run's trace; else None.
        replaces: The run that failed and that it was started instead of, with that run's trace; else None.
    """

    number: int
    run_id: str
    workflow_id: str
    round: int
    task: int
    created_at: int
    trace_id: str
    parent_id: str | None
    spec: Mapping[str, Any] = field(repr=False)
    machine: Machine | None = field(repr=False)
    forked: tuple[str, int, str] | None = None
    replaces: tuple[str, str] | None = None


def facts_of(reader: JournalReader, row: RunRow) -> RunFacts:
    """
    Return what the spans of a run need beside its rows; none of it changes while the run goes on.

    Raises:
        JournalDamaged: It cannot be read.
    """
    spec, machine = _spec_of(reader, row.run)
    forked = replaces = None
    if row.parent_run_id is not None and row.parent_seq is not None:
        parent = reader.run(row.parent_run_id)
        forked = parent.run_id, row.parent_seq, trace_id_of(parent.workflow_id, parent.round)
    elif other := spec.get("fallback_for"):
        replaces = str(other), trace_id_of(row.workflow_id, row.round)
    return RunFacts(
        row.run,
        row.run_id,
        row.workflow_id,
        row.round,
        row.task,
        row.created_at,
        trace_id_of(row.workflow_id, row.round),
        _calling_span(reader, row),
        spec,
        machine,
        forked,
        replaces,
    )


def _spec_of(reader: JournalReader, run: int) -> tuple[Mapping[str, Any], Machine | None]:
    """Return a run's spec and machine as far as they are not erased, and can be read."""
    payload = reader.find_payload(run, reader.root_columns(run)["spec_payload"])
    if payload is None:
        raise JournalDamaged(f"run number {run}: its spec is missing; run: paor verify")
    if payload.body is None:
        return {}, None
    try:
        spec = orjson.loads(payload.body)
        told = spec.get("host_machine", "")
    except (orjson.JSONDecodeError, AttributeError):
        raise JournalDamaged(f"run number {run}: its spec cannot be read; run: paor verify") from None
    try:
        return spec, machine_told(told) if told else MACHINE
    except (UsageError, ValueError, TypeError, LookupError, AttributeError):
        return spec, None


def _calling_span(reader: JournalReader, row: RunRow) -> str | None:
    """Return the span of the call that started a workflow's task: its intent is there before the task's run is."""
    if row.task == 0:
        return None
    for workflow in reader.index.of_workflow(row.workflow_id, round=row.round, task=0):
        for seq, dest, action in reader.columns(workflow.run, ("seq", "dest", "action"), ("specify",)):
            if dest == EXECUTING and action == row.task:
                return span_id_of(workflow.run_id, seq, "tool")
    return None


def deciding_guards(machine: Machine | None, before: Transition | None, row: Transition) -> tuple[str, ...]:
    """
    Return the guards of the row of the machine that was taken, ``not NAME`` for one that had to be false.

    Where the machine does not tell, because its record was erased or changed on the way, every guard that was looked at.
    """
    waiting = before is not None and before.trigger == "wait"
    for known in machine.rows_of(row.source, waiting=waiting) if machine is not None else ():
        if (known.trigger, known.dest) != (row.trigger, row.dest):
            continue
        wanted = {**dict.fromkeys(known.conditions, True), **dict.fromkeys(known.unless, False)}
        if all(row.guards.get(name) is value for name, value in wanted.items()):
            return known.guards
    return tuple(name if value else f"not {name}" for name, value in sorted(row.guards.items()))
