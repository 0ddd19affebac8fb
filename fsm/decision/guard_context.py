"""
A case: one run and one outcome, read and checked, ready for the guards.

The readers of `fsm.decision.interpret` fill it, once and purely; `fsm.machine.stop_rules` adds the reasons to stop; a guard only looks at it.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from ...prompts.parsing.replies import Invalid
from ...states.records.actions import Intent, Selection, ToolResult
from ...states.records.outcomes import Outcome
from ...states.records.plans import Plan
from ...states.records.questions import QuestionRecord
from ...states.records.reviews import Refinement, Review
from ...states.run.state import Run
from ...states.run.workflow_position import FlowState


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
        overruled: Whether the model's completion review said ``failed``, and its answer stands all the same.
        criteria: Progress after this outcome.
        plan: A planner's accepted plan.
        question: What the user must be asked before the run can go on.
        stop_reason: Why the run should go on to its completion review, or None.
        moved: Where the workflow goes, in a run with one.
        unaskable: Whether somebody would have to be asked and no more questions are allowed.
        aborted: Whether a step of the plan or the workflow says abort.
        lost: Whether the workflow file cannot be followed any further.
        trouble: Why the workflow ends the run, for the final message.
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
    overruled: bool = False
    criteria: str = ""
    plan: Plan | None = None
    question: QuestionRecord | None = None
    stop_reason: str | None = None
    moved: Moved | None = None
    unaskable: bool = False
    aborted: bool = False
    lost: bool = False
    trouble: str = ""
