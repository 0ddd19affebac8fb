"""The journal's rows as values, for people and for the engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import orjson

from ...states.records.actions import DocumentRef

ROOT_COLUMNS = (
    "run_id",
    "workflow_id",
    "round",
    "task",
    "parent_run_id",
    "parent_seq",
    "spec",
    "spec_payload",
    "created_at",
)
"""Columns of a run that never change; their hash is the root of its chain."""


PREVIOUS_HASH = (
    "coalesce((SELECT hash FROM rows AS before WHERE before.id = rows.id - 1),"
    " (SELECT root_hash FROM specs WHERE specs.run = rows.id >> 32))"
)
"""The hash that a row of `rows` follows, in SQL."""


class CalledBy(NamedTuple):
    """
    The call that a run was started by.

    Attributes:
        run_id: Of the run that called it.
        action: Number of the action there.
    """

    run_id: str
    action: int


MARK = "/"


def called_place(caller: str, action: int) -> str:
    """Return the workflow id of the run that a run's action calls: there is one such run, whoever starts it."""
    return f"{caller}{MARK}{action}"


def called_places(caller: str) -> tuple[str, str]:
    """Return the bounds between which the workflow ids of all runs stand that a run has called; the second is beyond."""
    return f"{caller}{MARK}", f"{caller}{chr(ord(MARK) + 1)}"


def caller_at(workflow_id: str) -> CalledBy | None:
    """Return the call that a workflow id names, None where it is that of a run nobody has called."""
    caller, mark, action = workflow_id.partition(MARK)
    if not (mark and action.isascii() and action.isdecimal() and len(action) < 10):
        return None
    return CalledBy(caller, int(action))


class RunRow(NamedTuple):
    """
    One row of the view ``runs``.

    Attributes:
        run: Number within this file, from 1.
        run_id: Public id.
        workflow_id: Workflow it belongs to; its own id for a single run.
        round, task: Its place in the workflow, from 1; task 0 is the workflow itself.
        parent_run_id, parent_seq: Of a fork the run it was forked from, and the last row it shares; else None.
        spec: Digest of what it was started with.
        state: Phase in which it is, or ``Done`` or ``Failed``.
        status: ``running``, ``waiting``, ``done`` or ``failed``.
        reason: Why it ended, from the closed list; None before.
        created_at, ended_at: Microseconds since the epoch; None before the end.
        head_seq: Number of its last row; -1 before the first.
        head_hash: Hash of its last row.
        key: The host's own key of it; None for none, for a fork, and once the spec is erased.
        metadata: What the host finds it by; empty for none, for a fork, and once the spec is erased.
        conversation: Id of the conversation of which it is a round; None for none, for a fork, a task, and once the spec is erased.
        objective: What it was started with, in the user's words; None once the spec is erased, and in rows that are listed within paor.
        driver: Which process drives it now, such as ``process 17 on host``; None where nobody does. One that is ``running`` with no
            driver was left or lost, or waits in the queue of workers: `Engine.recover` goes on with it. From `Journal.run` and
            `Journal.runs`.
    """

    run: int
    run_id: str
    workflow_id: str
    round: int
    task: int
    parent_run_id: str | None
    parent_seq: int | None
    spec: str
    state: str
    status: str
    reason: str | None
    created_at: int
    ended_at: int | None
    head_seq: int
    head_hash: bytes
    key: str | None = None
    metadata: Mapping[str, Any] = MappingProxyType({})
    conversation: str | None = None
    objective: str | None = None
    driver: str | None = None

    @property
    def called_by(self) -> CalledBy | None:
        """The run and the action whose tool has started this run (`Engine.as_tool`); None for any other, and for a fork."""
        return caller_at(self.workflow_id)


class Transition(NamedTuple):
    """
    One row of the table ``transitions`` with its JSON columns read; ``docs/journal-format.md`` says what they hold.

    Attributes:
        run: Number of the run that it belongs to.
        seq: Number of the row within the run, from 0.
        at: When it was decided, in microseconds since the epoch.
        trigger: Name of the transition.
        source, dest: Phases that it leaves and enters.
        guards: Every guard that was evaluated, with its value.
        request: What was asked for.
        outcome: What the model, tool or person answered.
        change: What the row changed in the run.
        step, action, retries: Counters after the row.
        tokens_in, tokens_out: Tokens of the run so far.
        cost_micro: Cost of the run so far, in millionths of the currency unit.
        time_us: Active time of the run so far, in microseconds.
        counters: All other counters.
        prev_hash, hash: Of the chain, as hex.
    """

    run: int
    seq: int
    at: int
    trigger: str
    source: str
    dest: str
    guards: Mapping[str, bool]
    request: Mapping[str, Any]
    outcome: Mapping[str, Any]
    change: Mapping[str, Any]
    step: int
    action: int
    retries: int
    tokens_in: int
    tokens_out: int
    cost_micro: int
    time_us: int
    counters: Mapping[str, Any]
    prev_hash: str
    hash: str


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """
    One row of the table ``documents``: a document that a run was given or produced.

    Attributes:
        number: Its number within the run, from 0.
        label: By which later steps refer to it.
        position: Its place under the label, from 0.
        name: File name.
        mime: Media type.
        bytes: Size in bytes.
        digest: Salted digest, as hex.
        payload: Number of the payload that holds its body.
    """

    number: int
    label: str
    position: int
    name: str
    mime: str
    bytes: int
    digest: str
    payload: int


def document_row(document: DocumentRef) -> tuple[Any, ...]:
    """Return the row of `documents` for one document of a run, without its key and the run's number."""
    return (
        document.number,
        document.label,
        document.position,
        document.name,
        document.mime,
        document.payload.bytes,
        document.payload.digest,
        document.payload.n,
    )


def transition_of(row: tuple[Any, ...]) -> Transition:
    """
    Return a plain row with its JSON columns read.

    Raises:
        JSONDecodeError: One of them is not a JSON object.
        TypeError: The name of a phase or trigger is not a string.
    """
    values = list(row)
    if not all(isinstance(name, str) for name in row[3:6]):
        raise TypeError("trigger, source or dest must be a string")
    for index in (6, 7, 8, 9, 17):
        values[index] = orjson.loads(row[index])
        if not isinstance(values[index], dict):
            raise orjson.JSONDecodeError("expected an object", row[index], 0)
    values[18], values[19] = values[18].hex(), values[19].hex()
    return Transition(*values)
