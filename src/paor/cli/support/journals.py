"""The journal that a command works on: opened for reading, its runs found by name."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from ...fsm.journal.reader import Readable
from ...fsm.journal.rows import RunRow
from ...fsm.journal_api import Journal
from ...states.base.errors import UnknownRun, UsageError
from .options import journal_flag


def busy_timeout_s() -> float:
    """Return how long to wait for another's lock, ``PAOR_BUSY_TIMEOUT_S`` or 30; raise `UsageError` if it is no time."""
    text = os.environ.get("PAOR_BUSY_TIMEOUT_S")
    if not text:
        return 30.0
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 86_400:
        raise UsageError(f"PAOR_BUSY_TIMEOUT_S={text!r}: expected seconds from 0 to 86400")
    return seconds


def command_line(name: str, journal: Journal, run_id: str) -> str:
    """Return the command line ``paor NAME`` for a run, ready for a shell."""
    return f"paor {name} {short_id(journal, run_id)}{journal_flag(journal.path)}"


@contextmanager
def reading(path: str) -> Iterator[Journal]:
    """Open a journal for reading only; raise `NotAJournal` when it is missing or something else."""
    with Journal(path, read_only=True, busy_timeout_s=busy_timeout_s()) as journal:
        yield journal


@contextmanager
def two_runs(
    path: str, left: str, right: str, other: str | None
) -> Iterator[tuple[Journal, RunRow, Journal, RunRow]]:
    """Open one journal, or two where there is *other*, and give journal and row of *left* and of *right*."""
    with reading(path) as one, nullcontext(one) if other is None else reading(other) as two:
        yield one, find_run(one, left), two, find_run(two, right)


def find_run(journal: Journal, name: str | None) -> RunRow:
    """
    Return a run by its id, an unambiguous prefix, ``last``, or ``last~1`` for the one before; None means the newest.

    Raises:
        UsageError: The name is empty, as of a variable that was never set.
        UnknownRun: There is no such run.
    """
    if name is not None and not name.strip():
        raise UsageError('RUN is empty; give an id, the start of one, or "last"')
    back = re.fullmatch(r"last(?:~(\d{1,9}))?", name or "last")
    if back is None:
        return journal.run(str(name))
    newest = journal.reader.index.newest(int(back[1] or 0))
    if newest is None:
        one = f"{name}; list them with: paor runs" if back[1] else "yet; start one with: paor run OBJECTIVE"
        raise UnknownRun(f"{journal.path}: the journal holds no run {one}")
    return journal.run(newest)


ALONE = "nobody drives it"
"""Of a run that has not ended and does not wait: what a resume is for."""


def short_id(journal: Readable, run_id: str, least: int = 13) -> str:
    """Return the shortest start of an id, of at least *least* characters, that no other run has."""
    near = journal.reader.index.near(run_id)
    while least < len(run_id) and any(other.startswith(run_id[:least]) for other in near):
        least += 1
    return run_id[:least].rstrip("-")
