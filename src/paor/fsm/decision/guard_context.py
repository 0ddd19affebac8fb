"""
A case: one run and one outcome, read and checked, ready for the guards.

The readers of `fsm.decision.interpret` fill it, once and purely; `fsm.machine.stop_rules` adds the reasons to stop; a guard only looks at it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec import Struct
from rpds import HashTrieMap

from ...prompts.parsing.replies import Invalid
from ...states.phase import Phase
from ...states.records.actions import Intent, Selection, ToolResult
from ...states.records.outcomes import Outcome
from ...states.records.plans import Plan
from ...states.records.questions import QuestionRecord
from ...states.records.reviews import Refinement, Review
from ...states.records.visits import Visit
from ...states.run.spec import FlowState
from ...states.run.state import Change, Counters, Run
from ...states.settings.limits import Limits


class Moved(Struct, frozen=True, gc=False):
    """
    Where a transition leaves the workflow.

    Attributes:
        state: After it.
        answer: The variable ``answer``.
        plan: The planner's latest plan.
        selection: The action that comes next, None when none does.
        plan_step: Number of the plan's step that it is, or that came before.
        counts: Whether it counts as a step; a hook does not.
    """

    state: FlowState
    answer: str | None = None
    plan: Plan | None = None
    selection: Selection | None = None
    plan_step: int = 0
    counts: bool = True


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NO_VALUES: Mapping[str, Any] = HashTrieMap()


class Given(Struct, frozen=True):
    """
    What a row has recorded, for a replay without the host's code.

    Attributes:
        guards: Values of the guards.
        change: What the row set.
    """

    guards: Mapping[str, bool]
    change: Change


class GuardContext(Struct):
    """
    What the guards look at: filled by the readers of the phase and by the table of stops, then left alone.

    Attributes:
        run: The run before the transition.
        outcome: What came back.
        stop: Why the run must end at once, or None; set by the table of stops, like `stop_reason`.
        problem: Why a reply cannot be used.
        selection: Stage 1's choice.
        answer: Text of a direct answer.
        denied: Why the policy forbids the action.
        arguments: Complete arguments, defaults filled.
        dropped: What of a reply was left out: parameters that Stage 2 may not set, references that do not exist, calls that wait.
        invalid: What is wrong with the parameters.
        unsafe: Which argument must not reach a tool.
        duplicate: Which duplicate rule the call breaks.
        repeated: Whether the call needs not be made, since the run has its result: it only reads, or ends a native turn.
        intent: The call as it would be executed.
        approval: Whether a person must approve it.
        approval_id: What that approval would be for.
        at_us: When it came back, in microseconds since the epoch.
        result: How the tool ended.
        recalled: Bodies that the observation shows.
        refinement, review: The model's judgements.
        criteria: Progress after this outcome.
        plan: A planner's accepted plan.
        calls: Of a turn the ids of all its calls, those that wait included.
        question: What the user must be asked before the run can go on.
        stop_reason: Why the run should go on to its completion review, or None.
        moved: Where the workflow goes, in a run with one.
        unaskable: Whether somebody would have to be asked and no more questions are allowed.
        aborted: Whether a step of the plan or the workflow says abort.
        lost: Whether the workflow file cannot be followed any further.
        trouble: Why the workflow ends the run, for the final message.
        phase: The host's own phase that the run is in, None in one of the seven.
        visit: What that phase came to so far; None while it has come to nothing.
        vetoes: What the host's own guards have refused on the way to the row that is taken, a sentence each.
        given: What a replay goes by where the host's code is not there; None where it is.
        fresh: Values from the engine's ``values`` port for this decision, over those of the run.
    """

    run: Run
    outcome: Outcome
    stop: str | None = None
    problem: Invalid | None = None
    selection: Selection | None = None
    answer: str | None = None
    denied: str | None = None
    arguments: dict[str, Any] | None = None
    dropped: tuple[str, ...] = ()
    invalid: str | None = None
    unsafe: str | None = None
    duplicate: str | None = None
    repeated: bool = False
    intent: Intent | None = None
    approval: bool = False
    approval_id: str | None = None
    at_us: int = 0
    result: ToolResult | None = None
    recalled: tuple[str | None, ...] = ()
    refinement: Refinement | None = None
    review: Review | None = None
    criteria: str = ""
    plan: Plan | None = None
    calls: tuple[str, ...] = ()
    question: QuestionRecord | None = None
    stop_reason: str | None = None
    moved: Moved | None = None
    unaskable: bool = False
    aborted: bool = False
    lost: bool = False
    trouble: str = ""
    phase: Phase | None = None
    visit: Visit | None = None
    vetoes: tuple[str, ...] = ()
    given: Given | None = None
    fresh: Mapping[str, Any] = NO_VALUES

    # -- what a host's own guards need most, by short names; all of the above is theirs, too --

    @property
    def tool(self) -> str | None:
        """Name of the tool that is being chosen, specified or called; None where there is none."""
        call = self.intent or self.run.memory.intent or self.selection or self.run.memory.selection
        return call.tool if call is not None else None

    @property
    def call(self) -> Intent | None:
        """The complete call as it would be executed, or as it was; None while it is not complete."""
        return self.intent or self.run.memory.intent

    @property
    def now(self) -> datetime:
        """When the outcome came in, in UTC: the time that the row records, so that a replay sees the same."""
        return EPOCH + timedelta(microseconds=self.at_us)

    @property
    def values(self) -> Mapping[str, Any]:
        """The host's own values: those of ``run(values=...)``, and over them those of the ``values`` port."""
        return {**self.run.spec.values, **self.fresh} if self.fresh else self.run.spec.values

    @property
    def counters(self) -> Counters:
        """Every number of the run, such as ``step``, ``errors``, ``retries`` and ``own``."""
        return self.run.counters

    @property
    def limits(self) -> Limits:
        """The run's limits."""
        return self.run.spec.limits

    def visited(self, phase: str) -> Visit | None:
        """
        Return what the last stay in one of the host's own phases came to, None before the first.

        A stay that was about a call counts for this very call, its arguments and its number alone.

        Args:
            phase: Its name.
        """
        visit = (
            self.visit
            if self.phase is not None and self.phase.name == phase
            else self.run.memory.visits.get(phase)
        )
        if visit is None or not visit.call:
            return visit
        return visit if self.call is not None and visit.call == self.call.idempotency_key else None
