"""Which machine decided each row of a run: what its spec records, and what resumes have accepted since."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from ...states.base.errors import UsageError
from ..journal.reader import JournalReader
from ..journal.rows import Transition
from ..machine.decide import machine_told
from ..machine.machine import MACHINE, Machine


def machines_of(journal: JournalReader, run: int, rows: Sequence[Transition]) -> list[Machine | None]:
    """
    Return the machine that decided each of *rows*, and last the one that decides the row to come, without the host's code.

    Args:
        journal: That holds the run.
        run: Its number.
        rows: Its first rows, shared ones too, in order.

    Returns:
        None in the place of one whose record was erased or cannot be read.
    """
    parts = [part.run for part in journal.lineage(run)]
    here = parts[0]
    machine = _of_spec(journal, here)
    found: list[Machine | None] = []
    for row in rows:
        if row.run != here:  # the fork's own rows begin
            here, machine = row.run, _of_spec(journal, row.run)
        if "spec" in row.request:
            machine = _told(_read(journal, here, row.request["spec"].get("n")), machine)
        found.append(machine)
    return [*found, machine if here == parts[-1] else _of_spec(journal, parts[-1])]


def _of_spec(journal: JournalReader, run: int) -> Machine | None:
    return _told(_read(journal, run, journal.root_columns(run)["spec_payload"]), MACHINE)


def _read(journal: JournalReader, run: int, number: Any) -> Any:
    """Return the JSON of a payload, None where there is none to be read."""
    payload = journal.find_payload(run, number) if isinstance(number, int) else None
    try:
        return orjson.loads(payload.body) if payload is not None and payload.body is not None else None
    except orjson.JSONDecodeError:
        return None


def _told(data: Any, before: Machine | None) -> Machine | None:
    """Return the machine that a spec or a change of one tells; *before* where it says nothing of it."""
    if not isinstance(data, dict):
        return None
    try:
        return machine_told(data["host_machine"]) if "host_machine" in data else before
    except (UsageError, ValueError, TypeError, LookupError, AttributeError):
        return None
