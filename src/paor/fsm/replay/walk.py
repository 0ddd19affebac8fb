"""
The walk of a replay: every row derived from its recorded outcome and compared, one after the other.

Where a row decides otherwise the difference is noted and the record is followed, so that later rows are compared, too. An
erased text is unknown: what depends on it is named as not checked, and so is a difference that may come from it; an
agreement counts as one. Of a run with erased texts the chain, the places, the choices by the recorded guards and the sums
are checked as well (`fsm.replay.replay`), which need no text at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple, Protocol

from pydantic import ValidationError

from ...states.base.errors import Erased, JournalDamaged, PaorError, ReplayDiverged, UsageError
from ...states.records.outcomes import Ended
from ...states.records.requests import NOTHING, Request
from ...states.run.spec import Spec
from ...states.run.state import Change, Run
from ..decision.guard_context import GuardContext
from ..decision.host_machine import Unbound, recorded_phases
from ..decision.run_resources import RunResources
from ..journal.lineage import SharedPart
from ..journal.prompts import with_summary
from ..journal.reader import JournalReader
from ..journal.rows import Transition
from ..machine.decide import Moment, decide, machine_of, machine_told, request_of
from ..machine.summary import ASKED, after, asking
from ..machine.updates import Decision
from ..versioning.amendments import amend_spec
from ..versioning.changes import ChangedPart
from .comparison import (
    Difference,
    Divergence,
    Unchecked,
    compare_decision,
    compare_fingerprints,
    compare_request,
    compare_result,
    short,
)
from .payload_window import PayloadWindow
from .recorded_outcome import recorded_change, recorded_host, recorded_outcome
from .restore import changed, continue_with


@dataclass(frozen=True, slots=True)
class Replay:
    """
    What a replay found.

    Attributes:
        run_id: The run.
        transitions: Rows compared.
        identical: Whether everything was compared and nothing differs.
        divergences: Every difference, in order; after the first different decision the record is followed.
        unchecked: What could not be compared, because texts were erased.
        changed: Parts that have changed since the run was recorded; that alone is not a difference.
        accepted: Rows from which on changes were accepted, each with the changed parts.
    """

    run_id: str
    transitions: int
    identical: bool
    divergences: tuple[Divergence, ...]
    unchecked: tuple[Unchecked, ...] = ()
    changed: tuple[ChangedPart, ...] = ()
    accepted: tuple[tuple[int, tuple[str, ...]], ...] = ()

    def wire(self, error: str | None = None) -> dict[str, Any]:
        """
        Return the JSON form, keys as the attributes.

        Args:
            error: Why the record cannot be read; None where it can.
        """
        names = ("part", "visited", "may_visit")
        return {
            "run_id": self.run_id,
            "transitions": None if error else self.transitions,
            "identical": self.identical,
            "divergences": [asdict(item) for item in self.divergences],
            "unchecked": [asdict(item) for item in self.unchecked],
            "changed": [{name: getattr(part, name) for name in names} for part in self.changed],
            "accepted": [{"seq": seq, "parts": list(parts)} for seq, parts in self.accepted],
            "error": error,
        }

    def raise_if_diverged(self) -> None:
        """Raise `ReplayDiverged` with the first difference, if there is one."""
        if self.divergences:
            raise ReplayDiverged(f"run {self.run_id}: {self.divergences[0]}")


class SpecSource(Protocol):
    """An engine, as far as a replay needs one: what it would start a recorded run with now."""

    def current_spec(self, spec: Spec) -> Spec:
        """Return *spec* with this engine's templates, tools and policy."""
        ...

    def machine_for(self, spec: Spec) -> object:
        """Return the machine of a run with *spec*, with this engine's functions; None for the standard one."""
        ...


def spec_of_part(journal: JournalReader, run_id: str) -> Spec | None:
    """
    Return the spec that a run was started with, None once it was erased.

    Raises:
        JournalDamaged: It cannot be read.
    """
    try:
        return journal.spec(run_id)
    except Erased:
        return None
    except ValidationError as error:
        raise JournalDamaged(
            f"run {run_id}: its spec cannot be read ({error.error_count()} errors)"
        ) from None


UNREADABLE = (PaorError, ValueError, LookupError, TypeError, AttributeError, AssertionError)
"""What reading a record can raise that is not as paor wrote it."""

_NOT_HERE = "the host's code is not here"


@dataclass(slots=True)
class ReplayWalk:
    """
    One walk through the rows of a run.

    Attributes:
        store: Payloads.
        engine: To compare with, or None.
        parts: By run number, oldest first, the parts that the run consists of, each with the spec that it began with, None
            once that was erased.
        transitions: All rows; the last one of them that amends the spec decides from where on an engine is compared.
        recorded: Spec in force as recorded.
        spec, kit: What rows are derived with.
        amended: Rows that amended the spec, each with the parts that became others.
        found: Every difference so far.
        unchecked: What could not be compared so far.
        adrift: Whether an erased change that could not be derived again is missing from the run's memory.
        cases: Gets what the guards of each row looked at; None: that is not kept.
    """

    store: PayloadWindow
    engine: SpecSource | None
    parts: Mapping[int, tuple[SharedPart, Spec | None]]
    transitions: Sequence[Transition]
    recorded: Spec = field(init=False)
    spec: Spec = field(init=False)
    kit: RunResources = field(init=False)
    amended: list[tuple[int, tuple[str, ...]]] = field(default_factory=list)
    found: list[Divergence] = field(default_factory=list)
    unchecked: list[Unchecked] = field(default_factory=list)
    adrift: bool = False
    cases: list[GuardContext] | None = None

    def replay(self) -> Run | None:
        """Replay every row; return the run after the last one, None where a row cannot be read or a spec was erased."""
        first, *_, own = *self.parts, *self.parts
        run = self._hand_over(None, first)
        for row in self.transitions:
            if run is None:
                return None
            run = self._replay_row(run, row)
        if run is not None and run.number != own:  # a fork that has no row of its own yet
            run = self._hand_over(run, own)
        return run

    def _hand_over(self, run: Run | None, number: int) -> Run | None:
        """Return the run that goes on with the part of run *number*, None when its spec was erased."""
        part, spec = self.parts[number]
        seq = part.first_seq - 1
        if spec is None:
            self._tell(Unchecked(seq, "spec, and with it every request and decision"))
            return None
        return continue_with(run, part, self.spec) if self._take_spec(spec, seq) else None

    def _amend(self, run: Run, row: Transition) -> Run | None:
        """Return *run* with the spec that is in force from *row* on, None when that was erased."""
        body = self.store.payload(run.number, row.request["spec"]["n"]).body
        if body is None:
            self._tell(Unchecked(row.seq, "spec, and with it every later request and decision"))
            return None
        before, spec = self.recorded.fingerprints, amend_spec(self.recorded, body)
        after = spec.fingerprints
        parts = sorted(part for part in {**before, **after} if before.get(part) != after.get(part))
        self.amended.append((row.seq, tuple(parts)))
        return run.under(self.spec) if self._take_spec(spec, row.seq) else None

    def _take_spec(self, spec: Spec, seq: int) -> bool:
        """
        Go on with *spec* after row *seq*; before the last amendment no engine of now has a say in what was decided.

        Returns:
            Whether a run may walk the machine that it tells.
        """
        self.recorded = self.spec = spec
        try:
            machine_told(spec.host_machine)
        except (UsageError, ValueError, TypeError) as error:
            self._tell(
                Divergence(seq, "spec.host_machine", short(str(error)), "a machine that a run may walk")
            )
            return False
        self.found.extend(compare_fingerprints(seq, spec))
        amended = self.amended[-1][0] if self.amended else -1
        if self.engine and not any("spec" in row.request for row in self.transitions if row.seq > amended):
            self.spec = _with_machine(self.engine.current_spec(spec), spec)
        self.kit = self._resources(self.spec)
        return True

    def _resources(self, spec: Spec) -> RunResources:
        return RunResources(spec, None, self.engine.machine_for(spec) if self.engine is not None else None)

    def _replay_row(self, run: Run, row: Transition) -> Run | None:
        """Compare one row; return the run after it as recorded, None where it cannot be read or a spec was erased."""
        after = None
        with _Reading(self, row, "record", "row"):
            known: Run | None = run
            if row.run != run.number:  # the fork's own rows begin, with what it was started with
                known = self._hand_over(run, row.run)
            if known is not None and "spec" in row.request:
                known = self._amend(known, row)
            after = self._run_after(known, row) if known is not None else None
        return after

    def _run_after(self, run: Run, row: Transition) -> Run:
        before = len(self.found) + len(self.unchecked)
        decision = self._derive_decision(run, row)
        self.store.missed = False
        self.store.payload(run.number, row.change["n"])  # one that was erased excuses what cannot be derived
        same = before == len(self.found) + len(self.unchecked)
        if decision is not None and same:
            return changed(run, row, decision.change, decision.counters)
        change = recorded_change(self.store, run.number, row.change["n"])
        if change is None and decision is not None:
            change = decision.change
        elif change is None:
            self.adrift, change = True, Change()
        return changed(run, row, change)

    def _derive_decision(self, run: Run, row: Transition) -> Decision | None:
        """Compare one row; return what is decided now, None when it cannot be derived or an erased text went into it."""
        if row.seq != run.seq or row.source != run.state:
            self._tell(
                Divergence(row.seq, "place", f"{row.source} at {row.seq}", f"{run.state} at {run.seq}")
            )
            return None
        if self.kit.spec is not run.spec:  # its first phase has chosen the mode or the limits
            self.kit = self._resources(run.spec)
        request, (*beside, own), seen = request_at(run, row), with_summary(row), run
        block, summary = asking(run, request, self.kit), None
        if (block is not None) is not bool(beside):
            told = "asked for", "not asked for"
            self._tell(Divergence(row.seq, "request.summary", *(told if beside else told[::-1])))
        with _Reading(self, row, "request", "request"):
            if block is not None and beside:
                for item in compare_request(self.store, self.kit, block, self.transitions, beside[0], ASKED):
                    self._tell(item)
                self.store.missed = False
                summary = recorded_outcome(self.store, run, beside[0])
                seen, _, _ = after(run, summary, self.kit)
            for item in compare_request(self.store, self.kit, seen, self.transitions, own, request):
                self._tell(item)
        if beside and summary is None:
            return None
        self.store.missed = False  # a prompt decides nothing
        self._tell_unbound(run, row)
        decision, sure = None, False
        with _Reading(self, row, "outcome", "outcome"):
            outcome = recorded_outcome(self.store, run, row)
            sure = not self.store.missed
            moment = Moment(row.at, row.time_us - run.counters.time_us)
            given, fresh = recorded_host(self.store, run, row)
            derived = decide(
                run, outcome, moment, self.kit, request, given=given, fresh=fresh, summary=summary
            )
            if self.cases is not None:
                self.cases.append(derived.case)
            if isinstance(outcome, Ended):
                for item in compare_result(self.store, self.kit, run, row, outcome):
                    self._tell(item, sure=sure)
            if moment.active_us < 0:
                self._tell(
                    Divergence(row.seq, "time_us", str(row.time_us), f"at least {run.counters.time_us}")
                )
            for item in compare_decision(self.store, run, row, derived):
                self._tell(item, sure=sure)
            decision = derived
        return decision if sure and not self.adrift else None

    def _tell_unbound(self, run: Run, row: Transition) -> None:
        """Note what of a row is the host's code alone to derive, and that code is not here."""
        if not run.spec.host_machine:
            return
        host = machine_of(run, self.kit).host
        for name in row.guards:
            if name in host.guards and isinstance(host.guards[name].function, Unbound):
                self._tell(Unchecked(row.seq, f"guards.{name}", _NOT_HERE))
        phase = host.phases.get(row.source)
        if phase is not None and row.trigger == "call" and isinstance(phase.arguments, Unbound):
            self._tell(Unchecked(row.seq, "change.selection.arguments", _NOT_HERE))
        if phase is not None and row.trigger == "wait" and isinstance(phase.question, Unbound):
            self._tell(Unchecked(row.seq, "change.question.message", _NOT_HERE))
        if isinstance(host.tells.get((row.source, row.trigger)), Unbound):
            self._tell(Unchecked(row.seq, "change.improvements", _NOT_HERE))

    def _tell(self, item: Difference, *, sure: bool = True) -> None:
        if isinstance(item, Unchecked):
            self.unchecked.append(item)
        elif sure and not self.adrift:
            self.found.append(item)
        else:
            self.unchecked.append(Unchecked(item.seq, item.field))


class _Reading(NamedTuple):
    """Notes what cannot be read of a row; of an erased text that is no difference."""

    walk: ReplayWalk
    row: Transition
    field: str
    what: str

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, trace: object) -> bool:
        if not isinstance(error, UNREADABLE):
            return False
        told = short(f"{type(error).__name__}: {error}")
        found = Divergence(self.row.seq, self.field, f"a readable {self.what}", told)
        self.walk._tell(found, sure=not self.walk.store.missed)
        return True


def _with_machine(present: Spec, recorded: Spec) -> Spec:
    """Return *present*, with the recorded machine where an engine has none of its own: its rows can be followed without any code."""
    if present.host_machine or not recorded.host_machine:
        return present
    phases = recorded_phases(recorded.host_machine)
    prompts = {name: recorded.templates[name] for name, phase in phases.items() if phase.prompt is not None}
    kept = {"host_machine": recorded.host_machine, "phase_tools": recorded.phase_tools}
    return present.model_copy(update=kept | {"templates": {**present.templates, **prompts}})


def request_at(run: Run, row: Transition) -> Request:
    """Return what a row's request must be; a run that was cancelled may have had a call open, and then names it."""
    kind = row.outcome.get("kind")
    uncalled = kind == "answer" or (kind == "cancelled" and row.request.get("kind") == "none")
    return NOTHING if uncalled else request_of(run)
