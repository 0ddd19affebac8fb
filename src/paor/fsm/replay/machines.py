"""
The one place that says which machine a run has that stands in a journal: what its spec records, and what resumes have accepted since.

In memory it is `fsm.machine.decide.machine_of`. Here the host's code is not there: functions are known by their names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from ...states.base.errors import JournalDamaged, UsageError
from ..journal.reader import JournalReader
from ..journal.rows import Transition
from ..machine.decide import machine_told
from ..machine.machine import MACHINE, Machine


def machine_of_run(journal: JournalReader, run: int) -> Machine | None:
    """
    Return the machine that the run with this number was started on, None once its spec is erased.

    Raises:
        JournalDamaged: It cannot be read.
    """
    held = journal.payload(run, journal.root_columns(run)["spec_payload"]).body
    body = None if held is None else str(held)
    # most runs are of the standard machine: a spec, which may be long, is not read as a whole for that
    if body is None or '"host_machine":""' in body:
        return None if body is None else MACHINE
    try:
        return machine_of_spec(orjson.loads(body))
    except (UsageError, ValueError, TypeError, LookupError, AttributeError):
        raise JournalDamaged(f"run number {run}: its machine cannot be read; run: paor verify") from None


def machine_of_spec(spec: Mapping[str, Any]) -> Machine:
    """
    Return the machine of a spec as data; the standard one where it says nothing of it.

    Raises:
        UsageError: It is none that a run may walk. (And what reading anything else than a spec raises.)
    """
    return machine_told(spec.get("host_machine", ""))


def machines_of(journal: JournalReader, run: int, rows: Sequence[Transition]) -> list[Machine | None]:
    """
    Return the machine that decided each of *rows*, and last the one that decides the row to come.

    Args:
        journal: That holds the run.
        run: Its number.
        rows: Its first rows, shared ones too, in order.

    Returns:
        None in the place of one whose record was erased or cannot be read.
    """
    parts = [part.run for part in journal.lineage(run)]
    here = parts[0]
    machine = _started(journal, here)
    found: list[Machine | None] = []
    for row in rows:
        if row.run != here:  # the fork's own rows begin
            here, machine = row.run, _started(journal, row.run)
        if "spec" in row.request:
            machine = _amended(journal, here, row.request["spec"].get("n"), machine)
        found.append(machine)
    return [*found, machine if here == parts[-1] else _started(journal, parts[-1])]


def _started(journal: JournalReader, run: int) -> Machine | None:
    try:
        return machine_of_run(journal, run)
    except JournalDamaged:
        return None


def _amended(journal: JournalReader, run: int, number: Any, before: Machine | None) -> Machine | None:
    """Return the machine after a resume that has accepted a change; *before* where the change says nothing of it."""
    try:
        told = orjson.loads(journal.payload(run, number).body or "")
        return machine_of_spec(told) if "host_machine" in told else before
    except (JournalDamaged, UsageError, ValueError, TypeError, LookupError, AttributeError):
        return None
