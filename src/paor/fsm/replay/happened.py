"""What the rows of a recorded run have done, for the properties that are held to them; nothing of it is decided again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import orjson
from msgspec import UnsetType

from ...states.base.errors import UsageError
from ...states.records.actions import Intent
from ...states.records.questions import Answer
from ..journal.reader import JournalReader
from ..journal.rows import Transition
from ..machine.machine import MACHINE, Machine
from ..machine.properties import Happened, Property, PropertyWatch, happened_with, properties_of, row_taken
from .machines import machine_of_run, machines_of


def recorded(journal: JournalReader, run_id: str) -> Iterator[tuple[Transition, Machine, Happened | None]]:
    """
    Yield each row of a run with the machine that decided it and what it has done; None where that cannot be known.

    Args:
        journal: That holds the run.
        run_id: Its id.

    Raises:
        Erased: What a call was is erased.
    """
    rows = journal.transitions(run_id)
    tool: str | None = None
    approved = False
    for row, machine in zip(rows, machines_of(journal, journal.run(run_id).run, rows), strict=False):
        found = machine if machine is not None else MACHINE
        taken = row_taken(found, row.source, row.trigger, row.dest, row.guards)
        if taken is None:
            yield row, found, None
            continue
        intents: tuple[Intent, ...] = ()
        reply: Answer | UnsetType | None = None
        if row.trigger in ("specify", "provide"):
            change = journal.change(row.run, orjson.dumps(dict(row.change)).decode())
            if row.trigger == "specify" and change.intent:
                intents = (change.intent, *(change.ahead or ()))
            reply = change.reply
        ended = tool if row.outcome.get("ok") is True else None
        yield row, found, happened_with(taken, row.guards, intents, ended, approved=approved)
        if row.trigger == "specify" and intents:
            tool = intents[0].tool
        approved = isinstance(reply, Answer) and reply.approves and reply.approval is not None


def broken_rows(
    journal: JournalReader, run_id: str, properties: Iterable[Property]
) -> Iterator[tuple[Property, Transition]]:
    """
    Yield each property that a recorded run has broken, with the first row that did.

    Raises:
        Erased: What a call was is erased.
    """
    watches: dict[Property, PropertyWatch | None] = dict.fromkeys(properties)
    done = set[Property]()
    for row, machine, taken in recorded(journal, run_id):
        for prop, watch in watches.items():
            if taken is None or prop in done:
                continue
            if watch is None or watch.machine is not machine:
                held = watch.held if watch is not None else False
                watches[prop] = watch = PropertyWatch(prop, machine)
                watch.held = held
            if watch.breaks(taken):
                done.add(prop)
                yield prop, row
            watch.note(taken)


def known_machines(journal: JournalReader) -> list[Machine]:
    """Return the machines that the runs of a journal were started on, each once; the standard one first."""
    found = {id(MACHINE): MACHINE}
    for number in journal.index.numbers():
        machine = machine_of_run(journal, number)
        if machine is not None:
            found.setdefault(id(machine), machine)
    return list(found.values())


def recorded_properties(
    machines: Iterable[Machine], never: Sequence[str], always: Sequence[str]
) -> tuple[Property, ...]:
    """
    Return properties whose names one of *machines* has; in runs of another one such a phase is never passed.

    Raises:
        UsageError: A text that is no property, or a name that none of them has.
    """
    error: UsageError | None = None
    for machine in machines:
        try:
            return properties_of(machine, None, never, always)
        except UsageError as raised:
            error = error or raised
    assert error is not None, "there is a machine"
    raise error
