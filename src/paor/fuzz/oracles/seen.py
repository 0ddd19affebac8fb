"""What was seen of a run, what is wrong with it, and what an oracle may ask of the engine under test."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ...fsm.journal.rows import RunRow, Transition
from ...fsm.journal_api import Journal
from ...fsm.runtime.result import Result
from ...states.run.spec import Spec, ToolSpec
from ...states.run.state import Run
from ..strategies.reply_builder import Said
from .reference_model import RunModel

if TYPE_CHECKING:
    from ...fsm.replay.walk import SpecSource
    from .own_run import OwnRun

Check = TypeVar("Check", bound=Callable[..., Any])


def by_name(*checks: Check) -> dict[str, Check]:
    """Return functions by their names."""
    return {check.__name__: check for check in checks}


class Violation(AssertionError):
    """
    Something that should always hold did not.

    Attributes:
        invariant: Its name.
        seq: Number of the row, or of the last one; -1 before the first.
        run_id: Of the run.
        told: What was found.
        script: Every step of the world up to here.
        rows: The run's rows as the journal tells them, for people.
        machine: The host's own machine as data, empty for the standard one.
    """

    def __init__(self, invariant: str, seq: int, run_id: str, told: str) -> None:
        super().__init__(invariant, seq, run_id, told)
        self.invariant, self.seq, self.run_id, self.told = invariant, seq, run_id, told
        self.script: list[dict[str, Any]] = []
        self.rows: list[dict[str, Any]] = []
        self.machine: dict[str, Any] = {}

    @property
    def size(self) -> tuple[int, int, int]:
        """By which one case is smaller than another: its rows, its steps, its length."""
        return len(self.rows), len(self.script), len(json.dumps(self.script))

    def __str__(self) -> str:
        return f"{self.invariant} at seq {self.seq}: {self.told}"


@dataclass(slots=True)
class Seen:
    """
    What a world has seen of one run.

    Attributes:
        run_id: Of the run.
        spec: What it was started with.
        model: The run in thirty lines.
        rows: Its rows so far.
        replies: Of the newest row, what the model said for it; texts that tools asked for included.
        tokens: Input and output tokens that were reported for rows of this run; None when that is not known.
        calls: Duplicate-relevant calls that were begun: tool and arguments as JSON.
        known: Those of them whose results the run has.
        approved: Whether a person has said yes to the call that comes next.
        success: Whether a completion review has said success, or did not have to be asked for.
        draft: Whether the model has given an answer when it stopped; None when that is not known.
        met: Criteria that were said to be met.
        call: Of the newest row, the call that the run is about: tool and arguments.
        last: Trigger of the row before, and how often it came in a row.
        decided: The reason of the stop that was decided, empty while the run goes on.
        errors, refused: Calls that failed, or were refused for their parameters, in a row.
        denied: Whether the last call was denied.
        lapses: Calls of the run that failed, were refused or blocked.
        blocked: Calls that were blocked as duplicates.
        stale, best: Scores in a row that did not rise, and the highest one.
        scored: Whether every refinement so far was understood for sure.
        criteria: The criteria's progress in the row before.
        sure: Criteria that were said to be met, for sure; *unsure* once a judgement may have been read either way.
        plan: Steps of the plan in force, each a tool or another type, with its arguments; None when they are not known.
        place: Of the plan's step that is being taken.
        own: What was seen of the host's own machine, None for a run of the standard one.
    """

    run_id: str
    spec: Spec
    model: RunModel
    rows: list[Transition] = field(default_factory=list)
    replies: list[Said] = field(default_factory=list)
    tokens: tuple[int, int] | None = (0, 0)
    calls: list[tuple[str, str]] = field(default_factory=list)
    known: set[tuple[str, str]] = field(default_factory=set)
    approved: bool = False
    success: bool = False
    draft: bool | None = False
    met: set[str] = field(default_factory=set)
    call: tuple[str, Mapping[str, Any]] | None = None
    last: tuple[str, int] = ("", 0)
    decided: str = ""
    errors: int = 0
    refused: int = 0
    denied: bool = False
    lapses: int = 0
    blocked: int = 0
    stale: int = 0
    best: float | None = None
    scored: bool = True
    criteria: str = ""
    sure: set[str] = field(default_factory=set)
    unsure: bool = False
    plan: list[Mapping[str, Any]] | None = None
    place: int = 0
    own: OwnRun | None = None

    @property
    def row(self) -> Transition:
        """The newest row."""
        return self.rows[-1]

    @property
    def before(self) -> Transition | None:
        """The row before it."""
        return self.rows[-2] if len(self.rows) > 1 else None

    @property
    def begun(self) -> tuple[str, Mapping[str, Any]] | None:
        """The call that the newest row commits to, None for none, for one that only formats the answer, and for an own phase's."""
        is_own = self.row.counters.get("formatted") or self.for_phase
        begins = self.row.trigger == "specify" and not is_own
        return self.call if begins else None

    @property
    def tool(self) -> ToolSpec | None:
        """The tool of the call that the run is about."""
        tools = (*self.spec.tools, *self.spec.phase_tools)
        return next((tool for tool in tools if self.call and tool.name == self.call[0]), None)

    @property
    def on_own_row(self) -> bool:
        """Whether the newest row is one of the host's own machine."""
        return self.own is not None and self.own.is_own(self.row)

    @property
    def for_phase(self) -> bool:
        """Whether the call that the run is about is an own phase's; it is no action of the model."""
        return self.own is not None and bool(self.own.caller)

    @property
    def reply(self) -> Said | None:
        """What the model said to the row's own request, None when it asked none."""
        kind = self.row.request.get("kind")
        found = [reply for reply in self.replies if reply.kind == kind and kind != "text"]
        return found[-1] if found and self.row.outcome["kind"] in ("reply", "fault") else None

    def again(self, trigger: str) -> int:
        """Return how often *trigger* came in a row right before the newest row."""
        return self.last[1] if self.last[0] == trigger else 0

    def go_on_as_chosen(self, own: OwnRun) -> None:
        """Go on with the mode and the limits that a first phase has chosen with the newest row."""
        if own.chosen is not None:
            self.spec, self.model.limits, own.chosen = own.chosen, own.chosen.limits, None

    def judge(self) -> None:
        """Go on with what a judgement said, before the row that it led to is looked at."""
        reply = self.reply
        if reply is None or reply.kind not in ("refinement", "review") or reply.fault:
            return
        if reply.good is None:
            self.unsure, self.scored = True, False
        if not reply.good:
            return
        self.sure |= set(reply.means.get("met", ()))
        if reply.kind == "refinement":
            score = reply.means.get("score")
            rises = score is not None and (self.best is None or score > self.best)
            self.stale = 0 if score is None or rises else self.stale + 1
            self.best = score if rises else self.best

    def take(self) -> None:
        """Go on with the newest row, after what it says was held to what was seen before."""
        row, reply = self.row, self.reply
        self.last = (row.trigger, self.again(row.trigger) + 1)
        self.criteria = str(row.counters.get("criteria", ""))
        if row.trigger in ("execute", "refuse"):
            self.denied = row.trigger == "refuse" and row.guards.get("action_allowed") is False
            self.lapses += row.trigger == "refuse" or not row.outcome.get("ok")
        match row.trigger:
            case "conclude":
                self.decided = str(row.outcome.get("stop", ""))
                self.draft = self._draft_of(reply)
            case "answer":
                self.decided, self.draft = "model_stop", self._draft_of(reply)
            case "retry":
                self.decided, self.draft = "", False
            case "format":
                self.success = True  # it was held to what may lead there
            case _ if self.on_own_row:
                self._take_own_row()
            case "execute" | "refuse" if self.for_phase:
                pass
            case "execute":
                self.errors = 0 if row.outcome.get("ok") else self.errors + 1
            case "specify":
                self.refused = 0
            case "refuse":
                blocked = not self.denied and bool(row.guards.get("duplicate"))
                self.blocked += blocked
                self.refused = 0 if self.denied or blocked else self.refused + 1
            case "next_step":
                self.place += 1
            case "select":
                steps = reply.means.get("steps") if reply is not None and reply.good else None
                self.plan, self.place = (list(steps) if steps is not None else None), 0

    def _take_own_row(self) -> None:
        """Go on with a row of the host's own machine: one that leads to Planning begins a new attempt."""
        if self.row.dest == "Planning":
            self.decided, self.draft, self.plan = "", False, None
        elif self.row.dest == "Reviewing":
            self.decided = str(self.row.counters.get("stop", ""))

    def _draft_of(self, reply: Said | None) -> bool | None:
        """Return whether a stop came with an answer, None when that is not known."""
        if self.spec.plans or reply is None or not reply.good or "answer" not in reply.means:
            return None
        return reply.means.get("decision") != "continue" and bool(str(reply.means["answer"]).strip())


class Observed(Protocol):
    """The engine under test, as far as an invariant of the whole journal reads it."""

    seen: dict[int, Seen]

    @property
    def journal(self) -> Journal:
        """The journal of its runs."""

    @property
    def code(self) -> SpecSource | None:
        """The host's code for a replay, None where its machine is the standard one."""

    @property
    def held(self) -> Run | None:
        """The run as the last driver held it after its last row."""

    def moved(self) -> Sequence[RunRow]:
        """Return the runs that have rows since the whole journal was last checked."""

    def result_of(self, run_id: str) -> Result:
        """Return the result of a run, from the journal alone."""
