"""
The case: one run and one outcome, read and checked, ready for the guards.

Everything that needs understanding (parsing a reply, resolving references, validating arguments, asking the
policy) happens here, once and purely; a guard only looks at the result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ..prompts.replies import (
    DirectAnswer,
    Invalid,
    after,
    read_parameters,
    read_refinement,
    read_review,
    read_selection,
)
from ..states.actions import Intent, Selection, ToolResult
from ..states.budgets import criteria_met, exhausted, hard_limit, hopeless
from ..states.outcomes import (
    Answered,
    Asked,
    Cancelled,
    Ended,
    ModelFault,
    Nought,
    Outcome,
    Recalled,
    Replied,
    Unaffordable,
)
from ..states.phase import EXECUTING, OBSERVING, PLANNING, REVIEWING, SPECIFYING
from ..states.plans import Plan
from ..states.reviews import Refinement, Review
from ..states.run import Run, label_of
from ..states.waiting import Question
from ..tools.approvals import approval_id, approval_needed
from ..tools.catalog import CONNECTION, DOCUMENT_LIST
from ..tools.defaults import filled
from ..tools.policy import denial, matches, unsafe
from .duplicates import duplicate_key, limits_for, rule_broken
from .judging import progress, stop_after
from .kit import Kit
from .observe import TURN_CHARS, cut, line
from .planned import (
    ask_for_missing,
    plan_stop,
    read_other_step,
    read_planned,
    step_arguments,
    step_of,
    unknown_documents,
)

if TYPE_CHECKING:
    from .flowing import Moved


class Case(Struct):
    """
    What the guards look at; filled by the reader of the phase, then left alone.

    Attributes:
        run: The run before the transition.
        outcome: What came back.
        stop: Reason of a hard stop, or None.
        problem: Why a reply cannot be used.
        selection: Stage 1's choice.
        answer: Text of a direct answer.
        denied: Why the policy forbids the action.
        arguments: Complete arguments, defaults filled.
        dropped: Parameter names that Stage 2 may not set and that were left out.
        invalid: What is wrong with the parameters.
        unsafe: Which argument must not reach a tool.
        duplicate: Which duplicate rule the call breaks.
        intent: The call as it would be executed.
        approval: Whether a person must approve it.
        approval_id: What that approval would be for.
        at_us: When it came back, in microseconds since the epoch.
        result: How the tool ended.
        recalled: Bodies that the observation shows.
        refinement, review: The model's judgements.
        criteria: Progress after this outcome.
        plan: A planner's accepted plan.
        question: What the user must be asked before the run can go on.
        stop_reason: Why the run should stop now, or None.
        moved: Where the workflow goes, in a run with one.
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
    question: Question | None = None
    stop_reason: str | None = None
    moved: Moved | None = None
    trouble: str = ""


def read_case(run: Run, outcome: Outcome, kit: Kit, at_us: int = 0) -> Case:
    """Return the case of *run* and *outcome*; pure, and total for every outcome that a request can have."""
    case = Case(run, outcome, criteria=run.counters.criteria, at_us=at_us)
    case.stop = _hard_stop(run, outcome)
    if run.memory.question is None:
        _READERS[run.state](case, kit)
    if run.memory.flow is not None:
        from .flowing import read_flow

        read_flow(case, kit)
    return case


def _hard_stop(run: Run, outcome: Outcome) -> str | None:
    """Return why the run must end here whatever else holds, or None."""
    if outcome.kind not in _USUAL and (reason := _stopped(run, outcome)) is not None:
        return reason
    state = run.state
    if state in (EXECUTING, OBSERVING) or run.memory.question is not None:
        return None
    if state == REVIEWING and not run.counters.formatted:
        return hopeless(run) or (None if criteria_met(run) else exhausted(run))
    return hard_limit(run)


_USUAL = frozenset({Replied.kind, Ended.kind, Recalled.kind, Nought.kind})
"""Kinds of outcome that end no run by themselves."""


def _stopped(run: Run, outcome: Outcome) -> str | None:
    """Return why an outcome of another kind ends the run, or None."""
    if isinstance(outcome, Cancelled):
        return "cancelled"
    if isinstance(outcome, ModelFault):
        return "model_error"
    if isinstance(outcome, Unaffordable) and not (run.state == REVIEWING and criteria_met(run)):
        return outcome.reason
    return "cancelled" if isinstance(outcome, Answered) and outcome.answer.action == "cancel" else None


def _read_planning(case: Case, kit: Kit) -> None:
    if case.run.spec.mode != "react":
        read_planned(case, kit)
        return
    if not isinstance(case.outcome, Replied):
        return
    limits = case.run.spec.limits
    read = read_selection(
        case.outcome.text,
        chars_max=limits.reply_chars,
        context_chars=limits.context_chars,
        profile=case.run.spec.profile,
    )
    read = after(case.outcome.finish, read)
    if isinstance(read, Invalid):
        case.problem = read
    elif isinstance(read, DirectAnswer):
        case.answer = read.text
    else:
        _check_selection(case, read, kit)


def _check_selection(case: Case, selection: Selection, kit: Kit) -> None:
    """Resolve the tool's name and the references; what does not exist makes the selection invalid."""
    run = case.run
    tool = kit.catalog.find(selection.tool)
    if tool is None:
        names = ", ".join(item.name for item in kit.catalog)
        case.problem = Invalid(
            "unknown_action", f"there is no action {ascii(selection.tool)[:80]}; choose one of: {names}"
        )
        return
    if tool.name != selection.tool:
        selection = selection.model_copy(update={"tool": tool.name})
    case.selection = selection
    case.denied = denial(kit.spec.policy, run.spec.task_type, tool.name)
    for reference in selection.documents:
        reason = _unresolved(run, reference)
        if reason is not None:
            case.problem = Invalid("reference", reason)
            return
    if selection.connection is not None and selection.connection not in run.spec.connections:
        case.problem = Invalid("connection", f"there is no connection {ascii(selection.connection)[:80]}")
    elif DOCUMENT_LIST in kit.catalog.schema(tool).required and not selection.documents:
        case.problem = Invalid("no_documents", f"{tool.name} needs at least one of requiredInputDocuments")


def _unresolved(run: Run, reference: str) -> str | None:
    """Return why *reference* names no document of this run, or None when it does."""
    kind, _, place = reference.partition(":")
    label, mark, position = place.partition("#")
    found = run.memory.labels.get(label)
    if found is None or (kind == "docItem") != bool(mark):
        return f"{ascii(reference)[:120]} names no document of this run"
    count = found[1]
    if count == 0:
        return f"{ascii(reference)[:120]} holds no documents"
    if mark and not (
        position.isascii() and position.isdigit() and len(position) < 10 and int(position) < count
    ):
        return f"{ascii(reference)[:120]}: the label holds documents #0 to #{count - 1}"
    return None


def _read_specifying(case: Case, kit: Kit) -> None:
    run = case.run
    selection = run.memory.selection
    assert selection is not None, "Specifying is entered with a selection"
    case.selection = selection
    step = step_of(run)
    if step is not None and step.type != "tool":
        read_other_step(case, step)
        return
    if selection.origin == "workflow" and selection.tool == "noop":
        return
    case.denied = denial(kit.spec.policy, run.spec.task_type, selection.tool)
    if step is not None and run.memory.flow is not None:
        from .flowing import check_listed

        check_listed(case, kit, selection)
    if selection.origin == "format" and not matches(selection.tool, kit.spec.policy.deny):
        case.denied = None
    values = _parameter_values(case, selection, kit)
    if values is None:
        return
    tool = kit.tool(selection)
    schema = kit.schema(tool)
    values = dict(values)
    if selection.documents and DOCUMENT_LIST in schema.names:
        values[DOCUMENT_LIST] = list(selection.documents)
    if selection.connection is not None and CONNECTION in schema.names:
        values[CONNECTION] = selection.connection
    arguments = filled(run.spec, tool, schema, values)
    problems = schema.check(arguments)
    case.invalid = "; ".join(problem.message for problem in problems[:10]) or None
    if step is not None:
        missing = [item.path for item in problems if item.code == "missing" and item.path in schema.required]
        if missing and len(missing) == len(problems):
            ask_for_missing(case, step, missing, tool)
        case.invalid = case.invalid or unknown_documents(arguments, run, _unresolved)
    if case.invalid is not None:
        return
    case.arguments = arguments
    case.unsafe = unsafe(kit.spec.policy, arguments)
    if case.unsafe is None:
        _propose(case, kit)


def _parameter_values(case: Case, selection: Selection, kit: Kit) -> dict[str, Any] | None:
    """Return the values that Stage 2, the plan or an approved intent settles, or None with the reason in *case*."""
    if case.run.memory.intent is not None:
        return dict(case.run.memory.intent.arguments)
    step = step_of(case.run)
    if step is not None:
        return step_arguments(case, step)
    if selection.origin in ("workflow", "hook"):
        from .flowing import flow_arguments

        return flow_arguments(case, kit, selection)
    if selection.arguments is not None:
        return selection.arguments
    if not isinstance(case.outcome, Replied):
        return None
    spec = case.run.spec
    read = read_parameters(
        case.outcome.text, selection.fields, chars_max=spec.limits.reply_chars, profile=spec.profile
    )
    read = after(case.outcome.finish, read)
    if isinstance(read, Invalid):
        case.problem, case.invalid = read, read.message
        return None
    case.dropped = read.dropped
    return read.values


def _propose(case: Case, kit: Kit) -> None:
    """Build the intent, and ask the duplicate guard and the approval rules about it."""
    run, selection, arguments = case.run, case.selection, case.arguments
    assert selection is not None and arguments is not None
    tool = kit.tool(selection)
    key = duplicate_key(run.spec.key_salt, tool.name, arguments)
    action = run.counters.action + 1
    if selection.origin != "format" and not tool.repeat_allowed:
        limits, counters = limits_for(run.spec.limits, tool.duplicate_limits), run.counters
        succeeded = counters.errors == 0  # an executed call that succeeds sets it back
        case.duplicate = rule_broken(key, run.memory.window, counters.same_key, limits, succeeded=succeeded)
    name = "final_format" if selection.origin == "format" else tool.label
    case.intent = Intent(
        tool=tool.name,
        arguments=arguments,
        label=label_of(run.spec, action, name),
        key=key,
        idempotency_key=f"{run.run_id}-{action}",
        effect=tool.effect,
    )
    policy = kit.spec.policy
    if case.duplicate is None and case.denied is None and approval_needed(policy, tool.name, arguments):
        case.approval_id = approval_id(policy, tool.name, key)
        case.approval = _undecided(case, policy.approval_valid_s)
        if case.approval and run.counters.elicitations >= run.spec.limits.max_elicitations:
            case.stop = "stuck"  # nobody may be asked any more, and without a yes the call must not be made


def _undecided(case: Case, valid_s: float) -> bool:
    """
    Whether this very call still waits for its approval; anything but a typed yes to it denies it.

    An approval that is for another call, arguments or policy, or that was given longer than *valid_s* seconds ago,
    counts for nothing.
    """
    reply = case.run.memory.reply
    if reply is None or (reply.approval, reply.run_id) != (case.approval_id, case.run.run_id):
        return True
    approved = (
        reply.action == "accept" and isinstance(reply.content, dict) and reply.content.get("approve") is True
    )
    if not approved:
        case.denied = "the call was not approved"
        return False
    return case.at_us - (reply.at or 0) > valid_s * 1_000_000


def _read_executing(case: Case, kit: Kit) -> None:
    if isinstance(case.outcome, Ended):
        case.result = case.outcome.result
    case.intent = case.run.memory.intent
    if isinstance(case.outcome, Asked) and case.intent is not None:  # for when nobody may be asked any more
        error = (
            f"the tool needs an answer, and this run may ask no more questions: {case.outcome.asking.message}"
        )
        case.result = ToolResult(
            case.intent.tool, ok=False, error=cut(line(error), TURN_CHARS), error_code="declined"
        )


def _read_observing(case: Case, kit: Kit) -> None:
    if isinstance(case.outcome, Recalled):
        case.recalled = case.outcome.texts
    case.result = case.run.memory.result


def _read_reviewing(case: Case, kit: Kit) -> None:
    run, outcome = case.run, case.outcome
    counters, limits = run.counters, run.spec.limits
    if counters.formatted:
        case.review = run.memory.review
        return
    if not isinstance(outcome, Replied):
        if not counters.concluded:
            planned = plan_stop(run) if run.spec.mode != "react" else None
            short = outcome.reason if isinstance(outcome, Unaffordable) else None
            case.stop_reason = short or exhausted(run) or planned
        return
    if counters.concluded:
        review = after(outcome.finish, read_review(outcome.text, chars_max=limits.reply_chars))
        if isinstance(review, Invalid):
            case.problem = review
            return
        case.review = review
        case.criteria = progress(run, review.criteria)
        return
    refinement = after(outcome.finish, read_refinement(outcome.text, chars_max=limits.reply_chars))
    if isinstance(refinement, Invalid):
        case.problem = refinement
        if counters.review_retries >= limits.review_retries:
            case.stop_reason = "model_stop"
        return
    case.refinement = refinement
    case.criteria = progress(run, refinement.criteria)
    case.stop_reason = stop_after(run, refinement, case.criteria)


_READERS = {
    PLANNING: _read_planning,
    SPECIFYING: _read_specifying,
    EXECUTING: _read_executing,
    OBSERVING: _read_observing,
    REVIEWING: _read_reviewing,
}
