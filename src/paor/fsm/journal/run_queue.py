"""
The queue: which runs a worker is to take up, and when. It is no part of any run: it is not chained, not exported, and may be lost.

A run stands in it from its start until a worker has seen its end. Whoever claims it moves it back by the time after which a driver
counts as lost, so that a worker that dies loses nothing: the run comes up again, and its lease says whether somebody still drives it.
A run that waits for a person stands further back, and comes to the front with the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .backend import Backend
from .leases import now_us

QUEUE_TABLE = """
CREATE TABLE IF NOT EXISTS queue (
  run BIGINT PRIMARY KEY,
  ready_at BIGINT,
  attempts BIGINT NOT NULL,
  tried_seq BIGINT NOT NULL,
  worker TEXT,
  reason TEXT
)
"""
QUEUE_INDEXES = (
    "CREATE INDEX IF NOT EXISTS queue_ready ON queue (ready_at, run)",
    "CREATE INDEX IF NOT EXISTS queue_reason ON queue (reason) WHERE worker IS NULL",
)

_READY = "SELECT run FROM queue WHERE ready_at <= ? ORDER BY ready_at, run LIMIT ?"

ATTEMPTS_MAX = 1_000_000
"""What a count of attempts is at most: any host may write one that the database cannot count on from, and no worker would claim anything."""

_CLAIM = (
    f"UPDATE queue SET ready_at = ?, attempts = CASE WHEN attempts BETWEEN 0 AND {ATTEMPTS_MAX - 1} THEN attempts + 1"
    f" ELSE {ATTEMPTS_MAX} END, worker = ? WHERE run IN ({{places}})"
    " RETURNING run, attempts, tried_seq, reason, ready_at"
)

_IN_LINE = "waits for the end of run "
"""Why a round is there again whose turn has not come (`RunQueue.let_on`); the run's id follows."""

_OF_CLAIM = "WHERE run = ? AND ready_at = ?"
"""Of a note that a worker makes: it counts only while nobody has claimed or released the run since."""


class Claim(NamedTuple):
    """
    A run that a worker is to drive now.

    Attributes:
        run: Its number.
        attempts: How often it was claimed since it last got further, this time included.
        tried_seq: Number of its newest row when it last got further; -1 before the first.
        reason: Why it is here again, None where nobody has said.
        ready_at: When it comes up again, in microseconds since the epoch: what tells this claim from any other.
    """

    run: int
    attempts: int
    tried_seq: int
    reason: str | None
    ready_at: int


class Queued(NamedTuple):
    """
    One row of the queue.

    Attributes:
        run_id: The run.
        ready_at: When it may be claimed, in microseconds since the epoch; None if it is held back until somebody releases it.
        attempts: How often it was claimed since it last got further.
        worker: Who claimed it last.
        reason: Why it is there again, or held back.
    """

    run_id: str
    ready_at: int | None
    attempts: int
    worker: str | None
    reason: str | None


class RunQueue:
    """
    The queue of a journal.

    Args:
        backend: That has it.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._there = False

    def prepare(self) -> None:
        """Make the table where there is none yet."""
        if not self.is_there():
            for sql in (QUEUE_TABLE, *QUEUE_INDEXES):
                self._backend.execute(sql, ())

    def prune(self) -> None:
        """
        Take out the runs that were done by other hands; one that failed may be owed another run, which a claim finds out.

        Rounds in line come up: a process may have died after the end of a run, and before it has let on what waits for that.
        """
        done = "SELECT run FROM transitions WHERE dest = 'Done'"
        self._backend.execute(f"DELETE FROM queue WHERE run IN ({done})", ())
        sql = "UPDATE queue SET ready_at = ? WHERE ready_at IS NOT NULL AND worker IS NULL AND reason LIKE ?"
        self._backend.execute(sql, (self.now_us(), f"{_IN_LINE}%"))

    def is_there(self) -> bool:
        """Return whether runs of this journal were ever queued."""
        self._there = self._there or self._backend.has_table("queue")
        return self._there

    def now_us(self) -> int:
        """Return the clock by which runs are ready."""
        now = self._backend.now_us()
        return now if now is not None else now_us()

    # -- what a worker does --------------------------------------------------------------------------------------------

    def claim(self, count: int, worker: str, back_s: float) -> list[Claim]:
        """
        Return runs that are ready, each for this worker alone.

        Args:
            count: At most so many; those that have been ready longest.
            worker: Its name.
            back_s: Seconds after which they come up again.
        """
        if count < 1 or not self.is_there():
            return []
        now = self.now_us()
        with self._backend.transaction(alone=False) as connection:
            # first chosen, then taken: within one statement a plan may choose again what it has passed over
            ready = connection.execute(_READY + self._backend.skipping_locked, (now, count)).fetchall()
            if not ready:
                return []
            sql = _CLAIM.format(places=", ".join("?" * len(ready)))
            values = (now + _us(back_s), worker, *(run for (run,) in ready))
            rows = connection.execute(sql, values).fetchall()
        return [Claim(*row) for row in sorted(rows)]

    def got_further(self, claim: Claim, seq: int) -> None:
        """Note that a run has a newest row that it had not when it was claimed before: the count of attempts begins anew."""
        sql = f"UPDATE queue SET attempts = 1, tried_seq = ? {_OF_CLAIM}"
        self._backend.execute(sql, (seq, claim.run, claim.ready_at))

    def remove(self, run: int) -> None:
        """Take a run out: it has ended."""
        self._backend.execute("DELETE FROM queue WHERE run = ?", (run,))

    def replace(self, run: int, other: int) -> None:
        """Have another run stand in the queue in place of one that has failed."""
        sql = "UPDATE queue SET run = ?, attempts = 1, tried_seq = -1 WHERE run = ?"
        self._backend.execute(sql, (other, run))

    def put_back(self, claim: Claim, at_us: int, reason: str | None = None, *, counted: bool = True) -> None:
        """
        Have a run come up again.

        Args:
            claim: By which it was driven.
            at_us: When, in microseconds since the epoch.
            reason: Why.
            counted: Whether this attempt counts; not where nobody is to blame.
        """
        less = "" if counted else ", attempts = attempts - 1"
        sql = f"UPDATE queue SET ready_at = ?, reason = ?{less} {_OF_CLAIM}"
        self._backend.execute(sql, (at_us, reason, claim.run, claim.ready_at))

    def wait_for(self, claim: Claim, run_id: str, at_us: int) -> None:
        """Have a run come up when another one has ended (`let_on`), and at *at_us* in any case; the attempt does not count."""
        sql = f"UPDATE queue SET ready_at = ?, reason = ?, attempts = attempts - 1, worker = NULL {_OF_CLAIM}"
        self._backend.execute(sql, (at_us, f"{_IN_LINE}{run_id}", claim.run, claim.ready_at))

    def hold_back(self, claim: Claim, reason: str) -> None:
        """Have nobody claim a run until it is released."""
        sql = f"UPDATE queue SET ready_at = NULL, reason = ? {_OF_CLAIM}"
        self._backend.execute(sql, (reason, claim.run, claim.ready_at))

    # -- what others do ------------------------------------------------------------------------------------------------

    def release(self, run: int) -> None:
        """Have a run that is queued come up now, whatever it waits for; nothing for one that is not."""
        if self.is_there():
            self._backend.execute(
                "UPDATE queue SET ready_at = ?, attempts = 0 WHERE run = ?", (self.now_us(), run)
            )
            self._backend.signal()

    def bring_forward(self, runs: Sequence[int], within_s: float) -> None:
        """
        Have those of *runs* that would come up later come up after some seconds; runs held back stay as they are.

        So do those come up that a worker has claimed, whose note on the run counts no more: it may have seen the run wait before the answer.

        Args:
            runs: Their numbers.
            within_s: Seconds from now.
        """
        at, places = self.now_us() + _us(within_s), ", ".join("?" * len(runs))
        self._backend.execute(
            f"UPDATE queue SET ready_at = ? WHERE run IN ({places}) AND ready_at > ?", (at, *runs, at)
        )

    def let_on(self, *run_ids: str) -> None:
        """Have the rounds come up, of whatever conversation, that wait for the end of one of these runs and that nobody has claimed."""
        if run_ids and self.is_there():
            now = self.now_us()
            those = f"ready_at > ? AND worker IS NULL AND reason IN ({', '.join('?' * len(run_ids))})"
            values = (now, *(f"{_IN_LINE}{run_id}" for run_id in run_ids))
            if self._backend.query(f"SELECT run FROM queue WHERE {those} LIMIT 1", values):
                self._backend.execute(f"UPDATE queue SET ready_at = ? WHERE {those}", (now, *values))
                self._backend.signal()

    def has(self, run: int) -> bool:
        """Return whether a run is queued."""
        return self.is_there() and bool(self._backend.query("SELECT 1 FROM queue WHERE run = ?", (run,)))

    def rows(self, limit: int = 1000) -> list[Queued]:
        """Return the runs in it that have not ended, first what is held back, then what is ready first."""
        if not self.is_there():
            return []
        sql = (
            "SELECT run_id, ready_at, attempts, worker, reason FROM queue JOIN specs ON specs.run = queue.run"
            " WHERE NOT EXISTS (SELECT 1 FROM transitions AS ended WHERE ended.run = queue.run AND dest IN ('Done', 'Failed'))"
            " ORDER BY ready_at IS NOT NULL, ready_at, queue.run LIMIT ?"
        )
        return [Queued(*row) for row in self._backend.query(sql, (limit,))]

    def next_ready(self) -> int | None:
        """Return when the next run is ready, None when none ever is."""
        if not self.is_there():
            return None
        found = self._backend.query("SELECT min(ready_at) FROM queue", ())[0][0]
        return None if found is None else int(found)

    def lease_end(self, runs: Sequence[int]) -> dict[int, int]:
        """Return until when drivers hold runs."""
        places = ", ".join("?" * len(runs))
        sql = f"SELECT run, lease_until FROM leases WHERE lease_until IS NOT NULL AND run IN ({places})"
        return {run: until for run, until in self._backend.query(sql, tuple(runs))}


def _us(seconds: float) -> int:
    return round(seconds * 1_000_000)
