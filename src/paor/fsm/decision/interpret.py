"""
How an outcome is read: one reader for each phase, from run and outcome to a `GuardContext`. Pure.

Everything that needs understanding (parsing a reply, resolving references, validating arguments, asking the policy) happens
here and in the modules of the two modes, which only this one imports: `fsm.decision.plan_mode` for plans, `fsm.decision.workflow_mode` for workflow
files. A reader notes what it found; whether that ends the run is decided by the table of stops (`fsm.machine.stop_rules`).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from msgspec.structs import asdict, replace

from ...prompts.parsing.json_reading import json_value
from ...prompts.parsing.replies import (
    DirectAnswer,
    Invalid,
    after,
    answer_in,
    read_answer,
    read_output,
    read_parameters,
    read_refinement,
    read_review,
    read_selection,
)
from ...states.base.secrets import REDACTED
from ...states.records.actions import SET_BY_CODE, Intent, Selection, ToolResult
from ...states.records.observations import cut
from ...states.records.outcomes import Asked, Ended, NoOutcome, Recalled, Replied
from ...states.records.plans import Step
from ...states.records.questions import Answer
from ...states.records.reviews import Review
from ...states.run.budgets import questions_left, tools_withheld
from ...states.run.completion import decided_by_rules, output_asked, review_by_rules
from ...states.run.phase_names import EXECUTING, OBSERVING, PLANNING, REVIEWING, SPECIFYING
from ...states.run.spec import ToolSpec
from ...states.run.state import Run, label_of, with_defaults
from ...states.settings.policy import Policy
from ...tools.approvals import approval_id, approval_needed
from ...tools.catalog import CONNECTION, DOCUMENT_LIST
from ...tools.defaults import fill_defaults
from ...tools.policy import denial, matches, unsafe
from ...tools.schema.parameters import ParameterSchema
from ...tools.schema.secret_values import takes_secret
from .call_as_said import (
    call_arguments,
    changed_names,
    changed_note,
    is_exact,
    left_out_note,
    target_of,
    target_problem,
)
from .conversation import pending
from .duplicate_calls import duplicate_key, limits_for, rule_broken
from .guard_context import GuardContext
from .host_phases import read_host_phase
from .observation import TURN_CHARS, line
from .plan_mode import (
    ask_for_missing,
    read_native,
    read_other_step,
    read_planned,
    step_arguments,
    step_of,
)
from .progress import progress
from .run_resources import RunResources


def read_phase(case: GuardContext, kit: RunResources) -> None:
    """Fill *case* with what its outcome means in the run's phase; total for every outcome that a request can have."""
    _READERS.get(case.run.state, read_host_phase)(case, kit)
    if case.answer and case.run.spec.revision > 1:
        read = answer_in(case.answer)
        case.problem, case.answer = (read, None) if isinstance(read, Invalid) else (case.problem, read)


def read_workflow(case: GuardContext, kit: RunResources) -> None:
    """Fill *case* with where its outcome leads the workflow; after `read_phase`, and not for a run that must stop."""
    from .workflow_mode import read_flow  # a run without a workflow file never loads what reads one

    read_flow(case, kit)


def _read_planning(case: GuardContext, kit: RunResources) -> None:
    if case.run.spec.native:
        read_native(case, kit)
        return
    if case.run.spec.plans:
        read_planned(case, kit)
        return
    if not isinstance(case.outcome, Replied):
        return
    limits = case.run.spec.limits
    if tools_withheld(case.run):
        said = after(case.outcome.finish, read_answer(case.outcome.text, chars_max=limits.reply_chars))
        case.problem, case.answer = (said, None) if isinstance(said, Invalid) else (None, said.text)
        return
    read = read_selection(
        case.outcome.text,
        chars_max=limits.reply_chars,
        context_chars=limits.context_chars,
        profile=case.run.spec.profile,
        whole=case.run.spec.to_the_letter,
    )
    read = after(case.outcome.finish, read)
    if isinstance(read, Invalid):
        case.problem = read
    elif isinstance(read, DirectAnswer):
        case.answer = read.text
    else:
        _check_selection(case, read, kit)


def _check_selection(case: GuardContext, selection: Selection, kit: RunResources) -> None:
    """
    Resolve the tool's name and the references, and settle whether Stage 2 has anything to set.

    Which references and connections may be left out or taken for granted is a question of `call_as_said`.
    """
    run = case.run
    tool = kit.catalog.find(selection.tool)
    if tool is None:
        names = ", ".join(name for _, group in kit.offer(run).offered for name in group)
        case.problem = Invalid(
            "unknown_action", f"there is no action {ascii(selection.tool)[:80]}; choose one of: {names}"
        )
        return
    target = target_of(selection, tool, kit, run)
    case.denied = denial(kit.spec.call_policy, run.spec.task_type, tool.name)
    if isinstance(target, Invalid):
        case.selection, case.problem = selection.model_copy(update={"tool": tool.name}), target
        return
    if run.spec.to_the_letter and (wrong := _fields_problem(selection, kit.schema(tool))) is not None:
        case.selection, case.problem = selection.model_copy(update={"tool": tool.name}), wrong
        return
    changes: dict[str, Any] = {"tool": tool.name, **asdict(target)}
    if kit.needs_nothing(tool):
        changes["arguments"] = {}
    if run.spec.revision == 1:
        del changes["left_out"]
    case.selection = selection.model_copy(update=changes)
    case.dropped = target.left_out


def _fields_problem(selection: Selection, schema: ParameterSchema) -> Invalid | None:
    """Return why Stage 2 could not fill the fields that Stage 1 has listed: they are all that it is asked for."""
    listed = [field.name for field in selection.fields or ()]
    if unknown := [name for name in listed if not schema.is_known(name)]:
        return Invalid("unknown_parameter", f"{selection.tool} has no parameter {ascii(unknown[0])[:80]}")
    lacking = [name for name in schema.required if name.lower() not in SET_BY_CODE and name not in listed]
    if lacking:
        return Invalid("missing_field", f"`parametersSchema` must list {', '.join(lacking)}")
    return None


def _read_specifying(case: GuardContext, kit: RunResources) -> None:
    """
    Settle the call of the selected action, each check on what the one before it has let through.

    The policy is asked again, although Planning has asked it: a selection may be by code, and a run may be resumed with
    another policy. References and defaults are filled in before the schema is checked and before the key is made, so that
    what is checked, compared with earlier calls and approved is exactly what the tool would get.
    """
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
    _check_allowed(case, selection, kit)
    approved = _approved_arguments(case, kit)
    values = approved if approved is not None else _parameter_values(case, selection, kit)
    if values is None:
        return
    # Stage 1's references replace what Stage 2 may have said of them: a reply cannot name another run's documents.
    tool, values = kit.tool(selection), dict(values)
    schema = kit.schema(tool)
    if run.spec.revision > 1:
        values = schema.texts_read(values, json_value)
    # A person's arguments are complete.
    if approved is None and selection.documents and DOCUMENT_LIST in schema.names:
        values[DOCUMENT_LIST] = list(selection.documents)
    if approved is None and selection.connection is not None and CONNECTION in schema.names:
        values[CONNECTION] = selection.connection
    arguments = fill_defaults(run.spec, tool, schema, values)
    if tool.effect != "read" and REDACTED in json.dumps(arguments, default=str):
        case.invalid = f"an argument holds a key, which {REDACTED} stands for: no call is made with another text than was said"
        return
    _check_arguments(case, arguments, tool, schema, step)
    if case.invalid is not None:
        return
    case.arguments = arguments
    # An unsafe value is looked for in valid arguments only, and a key is made of safe ones only: nothing of a call that
    # will not be made is compared with earlier calls or shown to the person who approves.
    case.unsafe = unsafe(kit.spec.call_policy, arguments)
    if case.unsafe is None:
        _propose(case, tool, schema, kit, run.memory.intent if approved is not None else None)


def approval_problem(run: Run, kit: RunResources, answer: Answer, at_us: int) -> str | None:
    """
    Return why the call that a run asks about cannot be made with the arguments that *answer* approves; None where it can.

    It is what Specifying would say of them after the answer: schema, policy, safety, references, duplicates.
    """
    question, selection, asked, given = (
        run.memory.question,
        run.memory.selection,
        run.memory.intent,
        answer.arguments,
    )
    if question is None or question.approval is None or selection is None or asked is None or given is None:
        return None
    schema = kit.tool(selection).parameters
    for name in {**asked.arguments, **given}:
        if takes_secret(schema, name) and asked.arguments.get(name) != given.get(name):
            return f"{ascii(name)[:80]} is a secret, which an approval cannot change"
    reply = answer.bound(question.approval, run.run_id, at_us)
    after = replace(run, memory=replace(run.memory, question=None, reply=reply))
    case = GuardContext(after, NoOutcome(), at_us=at_us)
    _read_specifying(case, kit)
    if case.duplicate is not None or case.repeated:
        return "the same call was made before"
    return case.denied or case.invalid or case.unsafe or (None if case.intent else "they are no call")


def _approved_arguments(case: GuardContext, kit: RunResources) -> dict[str, Any] | None:
    """Return the arguments that a person has approved in place of those that were asked about; None where there are none."""
    run, asked, reply = case.run, case.run.memory.intent, case.run.memory.reply
    if asked is None or reply is None or reply.arguments is None or case.selection is None:
        return None
    policy = kit.spec.call_policy
    if not _is_for(case, reply, approval_id(policy, asked.tool, asked.key)) or _is_late(case, reply, policy):
        return None
    given = dict(reply.arguments)
    defaults = kit.schema(kit.tool(case.selection)).defaults
    same = duplicate_key(run.spec.key_salt, asked.tool, defaults | given) == asked.key
    return None if same else given


def _check_allowed(case: GuardContext, selection: Selection, kit: RunResources) -> None:
    """Note why the policy, or the workflow's own list, denies the action."""
    run = case.run
    case.denied = denial(kit.spec.call_policy, run.spec.task_type, selection.tool)
    if run.memory.flow is not None and step_of(run) is not None:
        from .workflow_mode import check_listed

        check_listed(case, kit, selection)
    # The last formatting is paor's own action, a phase's call the host's: a list of allowed tools names neither, a ban of it holds.
    if selection.origin in ("format", "phase") and not matches(selection.tool, kit.spec.call_policy.deny):
        case.denied = None


def _check_arguments(
    case: GuardContext, arguments: dict[str, Any], tool: ToolSpec, schema: ParameterSchema, step: Step | None
) -> None:
    """Note what is wrong with complete arguments; what a plan's step merely lacks, the user is asked for."""
    problems = schema.check(arguments)
    if problems:
        case.invalid = "; ".join(problem.message for problem in problems[:10])
    if step is None:
        if case.run.spec.revision > 1:
            case.invalid = case.invalid or target_problem(arguments, schema, case.run)
        return
    missing = [item.path for item in problems if item.code == "missing" and item.path in schema.required]
    if missing and len(missing) == len(problems):
        ask_for_missing(case, step, missing, tool)
    case.invalid = case.invalid or target_problem(arguments, schema, case.run)


def _parameter_values(case: GuardContext, selection: Selection, kit: RunResources) -> dict[str, Any] | None:
    """Return the values that Stage 2, the plan or an approved intent settles, or None with the reason in *case*."""
    if case.run.memory.intent is not None:
        return dict(case.run.memory.intent.arguments)
    step = step_of(case.run)
    if step is not None and case.run.spec.native:
        return _native_values(case, step, kit)
    if step is not None:
        return step_arguments(case, step)
    if selection.origin in ("workflow", "hook"):
        from .workflow_mode import flow_arguments

        return flow_arguments(case, kit, selection)
    if selection.arguments is not None:
        return selection.arguments
    if not isinstance(case.outcome, Replied):
        return None
    spec = case.run.spec
    tool = kit.tool(selection)
    schema = kit.schema(tool)
    listed = {field.name for field in selection.fields or ()}
    to_the_word = is_exact(spec, tool)
    all_said = to_the_word and spec.revision > 1
    read = read_parameters(
        case.outcome.text,
        listed.__contains__ if spec.to_the_letter else schema.is_known,
        chars_max=spec.limits.reply_chars,
        profile=spec.profile,
        exact=to_the_word,
        all_said=all_said,
    )
    read = after(case.outcome.finish, read)
    if isinstance(read, Invalid):
        case.problem, case.invalid = read, read.message
        return None
    case.dropped = read.dropped
    return schema.without_nulls(read.values, keep_defaults=all_said)


def _native_values(case: GuardContext, step: Step, kit: RunResources) -> dict[str, Any] | None:
    """Return the values of a native call, or None with the reason in *case*."""
    tool = kit.catalog.find(step.name)
    if step.fault is not None or tool is None:
        case.invalid = step.fault or f"there is no tool {ascii(step.name)[:80]}"
        return None
    read = call_arguments(step.args, tool, kit.schema(tool), case.run.spec)
    if isinstance(read, str):
        case.invalid = read
        return None
    values, case.dropped = read
    return values


def _propose(
    case: GuardContext, tool: ToolSpec, schema: ParameterSchema, kit: RunResources, asked: Intent | None
) -> None:
    """
    Build the intent, and ask the duplicate guard and the approval rules about it.

    In this order: nobody is asked to approve a call that would be blocked or denied anyway, or whose result is known. Where a person has
    approved other arguments than those of *asked*, the answer that holds them is the approval.
    """
    run, selection, arguments = case.run, case.selection, case.arguments
    assert selection is not None and arguments is not None
    # a default that is written out is the same call as one that is left out
    key = duplicate_key(run.spec.key_salt, tool.name, schema.defaults | arguments)
    action = run.counters.action + 1
    if selection.origin not in ("format", "phase") and not tool.repeat_allowed:
        limits, counters = limits_for(run.spec.limits, tool.duplicate_limits), run.counters
        succeeded = counters.errors == 0  # an executed call that succeeds sets it back
        case.duplicate = rule_broken(key, run.memory.window, counters.same_key, limits, succeeded=succeeded)
        known = key in run.memory.outputs
        if run.spec.revision == 1:  # as the first journals were decided
            again = succeeded and run.memory.window[-1:] == (key,) and not tool.duplicate_limits
            reads = selection.origin == "model" and tool.effect == "read"
            case.repeated = known and reads and (again or case.duplicate is not None)
        else:
            if known and tool.effect == "once":
                case.duplicate = "made"
            reads = selection.origin == "model" and tool.effect == "read"
            ends_turn = run.spec.native and len(pending(run.memory.conversation)) <= 1
            case.repeated = known and case.duplicate is not None and (reads or ends_turn)
    name = "final_format" if selection.origin == "format" else tool.label
    case.intent = Intent(
        tool=tool.name,
        arguments=arguments,
        label=label_of(run.spec, action, name),
        key=key,
        idempotency_key=f"{run.run_id}-{action}",
        effect=tool.effect,
        left_out=() if run.spec.revision == 1 else (*selection.left_out, *case.dropped),
        changed=changed_names(asked.arguments, arguments, tool.parameters) if asked is not None else (),
    )
    policy = kit.spec.call_policy
    made = case.duplicate is None and case.denied is None and (not case.repeated or tools_withheld(run))
    if (
        made
        and policy.approvals
        and approval_needed(policy, tool.name, with_defaults(arguments, tool.parameters))
    ):
        case.approval_id = approval_id(policy, tool.name, key)
        case.approval = asked is None and _awaits_approval(case, policy)
        if case.approval and not questions_left(run):
            case.unaskable = True  # and without a yes the call must not be made


def _awaits_approval(case: GuardContext, policy: Policy) -> bool:
    """
    Whether this very call still waits for its approval; anything but a typed yes to it denies it.

    An approval that is for another call, arguments or policy, or that was given too long ago, counts for nothing.
    """
    reply = case.run.memory.reply
    if reply is None or not _is_for(case, reply, case.approval_id):
        return True
    if not reply.approves:
        case.denied = "the call was not approved"
        return False
    return _is_late(case, reply, policy)


def _is_for(case: GuardContext, reply: Answer, approval: str | None) -> bool:
    """Whether an answer was given to this run, for the call *approval*."""
    return (reply.approval, reply.run_id) == (approval, case.run.run_id)


def _is_late(case: GuardContext, reply: Answer, policy: Policy) -> bool:
    """Whether an approval was given so long ago that it counts no more."""
    return case.at_us - (reply.at or 0) > policy.approval_valid_s * 1_000_000


def _read_executing(case: GuardContext, kit: RunResources) -> None:
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


def _read_observing(case: GuardContext, kit: RunResources) -> None:
    if isinstance(case.outcome, Recalled):
        case.recalled = case.outcome.texts
    case.result, intent = case.run.memory.result, case.run.memory.intent
    if case.result is None or intent is None:
        return
    if intent.left_out:
        told = left_out_note(intent.left_out)
        case.result = replace(case.result, notes=(told, *case.result.notes))
    if intent.changed:
        told = changed_note(intent.changed, intent.arguments)
        case.result = replace(case.result, notes=(told, *case.result.notes))


def _read_reviewing(case: GuardContext, kit: RunResources) -> None:
    run, outcome, limits = case.run, case.outcome, case.run.spec.limits
    if run.counters.formatted:
        case.review = run.memory.review
        return
    if not isinstance(outcome, Replied):
        if run.counters.concluded and decided_by_rules(run):
            case.review = review_by_rules(run)
        return
    if run.counters.concluded:
        review = completion_review(run, outcome.text, outcome.finish, kit)
        if outcome.refused is not None:
            review = Invalid("output", f"output: {outcome.refused[0]}")
        if isinstance(review, Invalid):
            case.problem = review
            return
        case.criteria = progress(run, review.criteria)
        case.review = review
        return
    spec = run.spec
    judged = read_refinement(
        outcome.text, chars_max=limits.reply_chars, strict=spec.profile.strict, first=spec.revision == 1
    )
    refinement = after(outcome.finish, judged)
    if isinstance(refinement, Invalid):
        case.problem = refinement
        return
    case.refinement = refinement
    case.criteria = progress(run, refinement.criteria)


def completion_review(run: Run, text: str, finish: str, kit: RunResources) -> Review | Invalid:
    """Return the completion review in a reply of *text*; of a run with an output schema with its output as the answer."""
    read = read_output if output_asked(run) else read_review
    review = after(finish, read(text, chars_max=run.spec.limits.reply_chars))
    if isinstance(review, Review) and run.spec.output_schema is not None:
        review = _with_output(review, kit)
    return review


def _with_output(review: Review, kit: RunResources) -> Review | Invalid:
    """Return a completion review with its output as the answer, a JSON text; a success needs one that fits the schema."""
    if review.status != "success":
        return review.model_copy(update={"output": None})
    output = review.output
    if (problems := kit.output_problems(output)) is not None:
        output = _without_nulls(output)  # some servers want every name given
        if kit.output_problems(output) is not None:
            return Invalid("output", problems)
    said = json.dumps(output, ensure_ascii=False, separators=(",", ":"))
    return review.model_copy(update={"answer": said, "output": None})


def _without_nulls(value: Any) -> Any:
    """Return JSON data without the names whose value is null, at every depth."""
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {name: _without_nulls(item) for name, item in value.items() if item is not None}


_READERS: dict[str, Callable[[GuardContext, RunResources], None]] = {
    PLANNING: _read_planning,
    SPECIFYING: _read_specifying,
    EXECUTING: _read_executing,
    OBSERVING: _read_observing,
    REVIEWING: _read_reviewing,
}
