"""
The prompt of a row: its messages, of which a conversation's rows name only those that are new.

A row's request has ``prompt``, references to messages, and, where the run's prompt before began with the same ones,
``after: [seq, count]``: the first *count* messages of the prompt of row *seq* stand before them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...states.base.errors import JournalDamaged
from ...states.run.state import Run
from .reader import JournalReader
from .rows import Transition

Place = tuple[int, Mapping[str, Any]]
"""Number of the run that holds a payload, and how the row refers to it."""


def prompt_places(rows: Sequence[Transition], row: Transition) -> list[Place]:
    """
    Return where the messages of a row's prompt are, in order; none for a row that asked no model.

    Args:
        rows: All rows of the run up to *row*, those that a fork shares included.
        row: One of them.

    Raises:
        JournalDamaged: It refers to a prompt that is not there.
    """
    parts: list[list[Place]] = []
    count: int | None = None
    while True:
        own = [(row.run, place) for place in row.request.get("prompt", ())]
        after = row.request.get("after")
        seq, before = after if after is not None else (-1, 0)
        if count is not None:
            own = own[: max(0, count - before)]
            before = min(before, count)
        parts.append(own)
        if not before:
            break
        if not 0 <= seq < row.seq or rows[seq].seq != seq:
            raise JournalDamaged(f"row {row.seq}: its prompt goes on from row {seq}, which has none")
        row, count = rows[seq], before
    return [place for part in reversed(parts) for place in part]


def last_prompt(journal: JournalReader, run: Run) -> tuple[int, list[str]]:
    """Return the number of the row that holds a run's newest prompt, and its messages; -1 and none for none."""
    if run.seq == 0:
        return -1, []
    rows = journal.transitions(run.run_id) if run.seq else []
    row = next((item for item in reversed(rows) if "prompt" in item.request), None)
    if row is None:
        return -1, []
    bodies = [journal.payload(number, place["n"]).body for number, place in prompt_places(rows, row)]
    return row.seq, [body if isinstance(body, str) else "" for body in bodies]
