"""The journal's rows as values, for people and for the engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson

from ..states.actions import DocumentRef

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


class RunRow(NamedTuple):
    """One row of the view ``runs``; times in microseconds since the epoch."""

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


class Transition(NamedTuple):
    """One row of ``transitions`` with its JSON columns read; hashes as hex."""

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
    """One row of ``documents``: a document that a run was given or produced."""

    number: int
    label: str
    position: int
    name: str
    mime: str
    bytes: int
    digest: str
    payload: int


def document_row(run: int, document: DocumentRef) -> tuple[Any, ...]:
    """Return the row of `documents` for one document of a run."""
    return (
        run << 32 | document.number,
        run,
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
        JSONDecodeError: One of them is no JSON object.
    """
    values = list(row)
    for index in (6, 7, 8, 9, 17):
        values[index] = orjson.loads(row[index])
        if not isinstance(values[index], dict):
            raise orjson.JSONDecodeError("expected an object", row[index], 0)
    values[18], values[19] = values[18].hex(), values[19].hex()
    return Transition(*values)
