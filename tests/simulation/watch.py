"""What must hold at every moment: held to each commit, each call and each error as it comes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from paor.errors import (
    AlreadyAnswered,
    InternalError,
    InvalidAnswer,
    InvalidFork,
    JournalBusy,
    JournalFull,
    LeaseHeld,
    LeaseLost,
)

from .inside import Owner
from .outside import ONCE, TIMED, Call
from .processes import Process, ProcessTable
from .schedule import Actor, Schedule
from .storage import ROW, Lease

EXPECTED = (AlreadyAnswered, InvalidAnswer, InvalidFork, JournalBusy, JournalFull, LeaseHeld, LeaseLost)
"""Errors that a caller may get in a world whose journal is sound."""


ASKED = frozenset({"bank.pay", "bank.transfer"})
"""Tools that say later whether their effect happened."""


class Provided(NamedTuple):
    """An answer that was taken in: when, by the wall clock of its driver, and under which token."""

    at_us: int
    fence: int


class Intent(NamedTuple):
    """The intent of a call: when it was decided, under which token, and the answer right before it, if any."""

    at_us: int
    fence: int
    given: Provided | None


class Watch:
    """
    The observer of one world.

    Args:
        schedule: Time and turns.
        table: The processes.

    Attributes:
        broken: What did not hold, in words.
        rows: Hash of every row that was committed, by run number and seq.
        intents: Idempotency keys of all calls whose intent is in the file.
        run_ids: By run number.
        retried: How often somebody said ``retry`` of a call that was in doubt, by key.
        approved: Keys of calls that somebody approved.
        approvals: Which tools need that.
        turns: Numbers of the rows with an intent or an answer, by run number.
        cancels: True time at which the cancel of a run came into the file, by run number.
        queued: Numbers of the runs that were submitted.
        server_us: Returns the clock of a store that many machines share; None for a file.
        is_calm: Whether the disk works and nobody is held up, so that whoever lives renews its leases.
        is_timely: Whether no wall clock is set, so that the times of rows can be compared.
    """

    def __init__(self, schedule: Schedule, table: ProcessTable) -> None:
        self._schedule, self._table = schedule, table
        self.broken: list[str] = []
        self.rows: dict[tuple[int, int], bytes] = {}
        self.heads: dict[int, tuple[int, str]] = {}
        self.intents: dict[str, Intent] = {}
        self.provided: dict[int, Provided] = {}
        self.calls: dict[str, Call] = {}
        self.turns: dict[int, list[int]] = {}
        self.robbed: list[Actor | None] = []
        self.asked: dict[int, int] = {}
        self.is_calm = True
        self.is_timely = True
        self.valid_us = 0
        self.run_ids: dict[int, str] = {}
        self.numbers: dict[str, int] = {}
        self.leases: dict[int, Lease] = {}
        self.retried: dict[str, int] = {}
        self.approved: set[str] = set()
        self.approvals: tuple[str, ...] = ()
        self.cancels: dict[int, int] = {}
        self.queued: set[int] = set()
        self.server_us: Callable[[], int] | None = None
        self.began: dict[str, int] = {}

    def say(self, what: str) -> None:
        """Note that something does not hold."""
        self.broken.append(what)

    # -- commits

    def run_is_in_the_file(self, run: int, run_id: str) -> None:
        """A run was created."""
        self.run_ids[run], self.numbers[run_id] = run_id, run

    def run_is_queued(self, run: int) -> None:
        """A run stands in the queue from now on."""
        self.queued.add(run)

    def row_is_in_the_file(self, process: Process, row: Sequence[Any], fence: int | None) -> None:
        """Only who holds the lease may write, one row after the other, and none after an end."""
        run, seq, dest = row[ROW["run"]], row[ROW["seq"]], row[ROW["dest"]]
        name = f"run {run} row {seq}"
        self._schedule.note(f"{process.name} wrote {name} {row[ROW['trigger']]} {dest}")
        lease = self.leases.get(run)
        if lease is None or self._table.of_owner(lease[1]) is not process:
            self.say(f"fence: {name} was written by {process.name}, who does not hold the run")
        elif fence is not None and fence != lease[0]:
            self.say(f"fence: {name} was written with the token {fence}, the run has {lease[0]}")
        if (run, seq) in self.rows:
            self.say(f"rows: {name} was written twice")
        last = self.heads.get(run)
        if last is not None and (last[0] + 1 != seq or last[1] in ("Done", "Failed")):
            self.say(f"rows: {name} follows row {last[0]} in {last[1]}")
        self.heads[run] = (seq, dest)
        self.rows[run, seq] = row[ROW["hash"]]
        self._follow(process, run, row)
        decided_us = process.read_us
        is_late = dest in ("Done", "Failed") and self.cancels.get(run, decided_us) < decided_us
        if is_late and '"cancelled"' not in row[ROW["outcome"]]:
            self.say(f"cancel: {name} ends a run otherwise that was to be cancelled")

    def _follow(self, process: Process, run: int, row: Sequence[Any]) -> None:
        """Hold a row to what is known of the call that it is about."""
        trigger, outcome = row[ROW["trigger"]], row[ROW["outcome"]]
        key, fence = f"{self.run_ids[run]}-{row[ROW['action']]}", self.leases[run][0]
        given = self.provided.pop(run, None)
        if trigger in ("specify", "provide"):
            self.turns.setdefault(run, []).append(row[ROW["seq"]])
        if trigger == "specify":
            self.intents[key] = Intent(row[ROW["at"]], fence, given)
        elif trigger == "provide":
            self.provided[run] = Provided(row[ROW["at"]], fence)
        elif row[ROW["source"]] == "Executing" and key in self.intents:
            self._check_doubt(key, fence, trigger, outcome, given)

    def _check_doubt(self, key: str, fence: int, trigger: str, outcome: str, given: Provided | None) -> None:
        """Whoever has begun a call itself knows what became of it; what is not known is no error of a once call."""
        begun_by = {self.intents[key].fence, *([given.fence] if given is not None else ())}
        if trigger == "wait" and '"driver_lost"' in outcome and fence in begun_by:
            self.say(f"doubt: {key} was begun by the driver that says it was lost")
        call = self.calls.get(key)
        if call is None or call.tool not in ONCE or trigger != "execute" or given is not None:
            return
        if '"error":"timeout"' in outcome and call.tool not in ASKED:
            self.say(f"doubt: {key} was given up, and counts as an error")
        if call.is_unknown and '"ok":false' in outcome and call.tool not in ASKED:
            self.say(f"doubt: {key} came to nobody knows what, and counts as an error")

    def lease_has_changed(self, process: Process, run: int, before: Lease | None, after: Lease) -> None:
        """Nobody is replaced who drives still, and a token never comes again."""
        self.leases[run] = after
        owner = self._table.of_owner(after[1])
        self._schedule.note(
            f"{process.name} lease of run {run}: fence {after[0]} {owner and owner.name} cancel {after[3]}"
        )
        if after[3] and not (before and before[3]):
            self.cancels[run] = self._schedule.now_us
        if before is not None and after[0] < before[0]:
            self.say(f"lease: the token of run {run} went back from {before[0]} to {after[0]}")
        if after[1] is None:
            if before is not None and self._table.of_owner(before[1]) not in (None, process):
                self._check_replaced(process, run, before)
            return
        if before is None or after[0] != before[0] or after[1] != before[1]:
            if before is not None and after[0] == before[0]:
                self.say(f"lease: run {run} has a new driver under the old token {after[0]}")
            if owner is not process:
                self.say(f"lease: {process.name} has written the lease of somebody else")
            if before is not None and before[1] is not None:
                self._check_replaced(process, run, before)
            process.drives[run] = (after[0], self._schedule.current)

    def _check_replaced(self, process: Process, run: int, before: Lease) -> None:
        owner = self._table.of_owner(before[1])
        if owner is None or not owner.alive:
            return
        if owner is process:
            held = process.drives.get(run)
            is_driving = held is not None and held[0] == before[0] and held[1] is not None
            if is_driving and held is not None and not self.has_run_out(before, owner.owner):
                self.robbed.append(held[1])  # one that is just giving it back does not mind
            return
        if not self.has_run_out(before, owner.owner):
            self.say(f"lease: {process.name} took run {run} from {owner.name}, who holds it still")
        elif self.is_calm and self._drives(owner, run):
            self.say(f"lease: {owner.name} drives run {run} and did not renew its lease")

    def _drives(self, process: Process, run: int) -> bool:
        held = process.drives.get(run)
        return held is not None and held[1] is not None

    def has_run_out(self, lease: Lease, owner: Owner, now_us: int | None = None) -> bool:
        """Return whether the time of a lease is over, now or at some time, by the clock that nobody sets."""
        until, clock = lease[2], owner.clock
        if self.server_us is not None:  # the store's clock counts, whatever others show
            ago_us = self._schedule.now_us - now_us if now_us else 0
            return until is None or until < self.server_us() - ago_us
        return until is None or clock is None or until - clock < (now_us or self._schedule.now_us)

    # -- calls

    def call_begins(self, process: Process, call: Call) -> None:
        """Its intent is in the file, it is approved if that is needed, and nobody has cancelled the run before."""
        name = f"{call.tool} {call.page} under {call.key}"
        if call.key not in self.intents:
            self.say(f"intent: {name} began before its intent was in the file")
        if (
            self.needs_approval(call.tool)
            and call.key not in self.approved
            and not self.retried.get(call.key)
        ):
            self.say(f"approval: {name} began and nobody has approved it")
        given = self.intents[call.key].given if call.key in self.intents else None
        is_old = given is not None and self.intents[call.key].at_us - given.at_us > self.valid_us
        if self.needs_approval(call.tool) and self.is_timely and is_old:
            self.say(f"approval: {name} began, its approval was too old")
        self.calls[call.key] = call
        run = self.numbers.get(call.run_id)
        if run is None:
            self.say(f"rows: {name} began in a run that is not in the file")
        elif call.tool not in TIMED and call.tool != "desk.ask" and run in self.cancels:
            self.say(f"cancel: {name} began after its run was to be cancelled")
        if call.tool in ONCE:
            self.began[call.key] = self.began.get(call.key, 0) + 1

    def model_is_asked(self, process: Process, run_id: str) -> None:
        """Once a run is to be cancelled its driver asks at most once more."""
        run = self.numbers.get(run_id)
        lease = self.leases.get(run) if run is not None else None
        if (
            run is None
            or run not in self.cancels
            or lease is None
            or self._table.of_owner(lease[1]) is not process
        ):
            return
        self.asked[run] = self.asked.get(run, 0) + 1
        if self.asked[run] > 1:
            self.say(
                f"cancel: the model was asked {self.asked[run]} times after run {run} was to be cancelled"
            )

    def needs_approval(self, name: str) -> bool:
        """Return whether a tool needs an approval."""
        return any(
            name == rule or (rule.endswith("*") and name.startswith(rule[:-1])) for rule in self.approvals
        )

    # -- errors

    def error_has_left(self, process: Process, what: str, error: BaseException, began_us: int) -> None:
        """Only typed errors leave the engine, and those that fit what was so when it was called."""
        if not isinstance(error, EXPECTED) or isinstance(error, InternalError):
            words = str(error).rpartition("/")[2]  # the folder has another name in each run
            self.say(f"error: {what} raised {type(error).__name__}: {words}")
        if isinstance(error, LeaseLost) and self._schedule.current in self.robbed:
            self.say(f"lease: {process.name} took a run from itself while it drove: {what}")
        if isinstance(error, LeaseHeld):
            self._check_held(process, error, began_us)

    def _check_held(self, process: Process, error: LeaseHeld, began_us: int) -> None:
        for run, run_id in self.run_ids.items():
            lease = self.leases.get(run)
            if run_id not in str(error) or lease is None or lease[1] is None:
                continue
            owner = self._table.of_owner(lease[1])
            is_known = self.is_calm or owner is process  # a process knows what it has left behind
            if owner is not None and owner.alive and is_known and not self._drives(owner, run):
                self.say(f"lease: {process.name} may not take run {run}, which nobody drives")
            if owner is None or owner.died_us >= began_us:
                continue
            if self._table.is_provably_gone(owner, process) or self.has_run_out(lease, owner.owner, began_us):
                self.say(f"lease: {process.name} may not take run {run} from {owner.name}, who is gone")
