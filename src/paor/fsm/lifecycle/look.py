"""Looking: a run as it is now, and what waits for a person. Drives nothing, takes no lease, writes nothing."""

from __future__ import annotations

from ...states.base.errors import Erased, JournalDamaged
from ..journal.reader import JournalReader
from ..journal.rows import RunRow
from ..replay.callers import asking_run, caller_of
from ..replay.restore import restore_run
from ..runtime.logs import LOGGER
from ..runtime.result import Result, result_of_run
from .subruns import with_question


def result_now(journal: JournalReader, run_id: str) -> Result:
    """Return a run as it is now; see `fsm.engine.Engine.result`."""
    run, _ = restore_run(journal, journal.run(run_id).run_id)
    return with_question(journal, result_of_run(run, journal))


def waiting_results(journal: JournalReader) -> list[Result]:
    """Return the runs that wait for a person, by the time of their questions; see `fsm.engine.Engine.waiting`."""
    rows = journal.runs(status="waiting")
    found: list[tuple[int, int, Result]] = []
    for row in rows:
        if asking_run(journal, row) is None:
            continue  # what it has called waits no more, so it goes on by itself
        caller = caller_of(journal, row)
        if caller is not None and caller.status == "waiting":
            continue  # its caller stands for it
        try:
            found.append((asked_at(journal, row), row.run, result_now(journal, row.run_id)))
        except (
            Erased,
            JournalDamaged,
        ) as error:  # nobody could answer it; the others are to be seen all the same
            LOGGER.warning("run %s waits and cannot be read: %s", row.run_id, error)
    return [result for _, _, result in sorted(found, key=lambda item: item[:2]) if result.waiting_for]


def asked_at(journal: JournalReader, row: RunRow) -> int:
    """Return when a waiting run asked, in microseconds since the epoch."""
    at: int = journal.rows(row.run, row.head_seq)[-1][2]
    return at
