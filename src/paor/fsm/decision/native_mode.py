"""
The profile `native`: how the calls of a turn become the steps of a plan. Pure.

One reply may call several tools; they are taken one after the other in its order, like the steps of a plan, without a request
between them. What is wrong with one call (an unknown tool, arguments that are no object, a document that does not exist, a
tool that is denied) is the result of that call, for the model to read; it is no invalid reply.
"""

from __future__ import annotations

from typing import Any

from ...prompts.parsing.replies import DirectAnswer, Invalid
from ...prompts.parsing.turns import read_turn
from ...states.records.outcomes import Replied
from ...states.records.plans import Plan, Step
from ...states.run.budgets import may_call
from ...states.run.spec import ToolSpec
from ...states.run.state import Run
from ...tools.catalog import CONNECTION, DOCUMENT_LIST, Catalog
from .guard_context import GuardContext
from .observation import TURN_CHARS, clean, cut
from .offered_tools import connection_lacks, connection_meant
from .plan_mode import plan_id, selection_of
from .run_resources import RunResources

# -- Planning ----------------------------------------------------------------------------------------------------


def read_native(case: GuardContext, kit: RunResources) -> None:
    """Read a turn into *case*: its calls as a plan with its first step, an answer, or a problem."""
    outcome, run = case.outcome, case.run
    if not isinstance(outcome, Replied):
        return
    read = read_turn(
        outcome.text,
        chars_max=run.spec.limits.reply_chars,
        finish=outcome.finish,
        reply_id=f"{run.run_id}-{run.counters.calls}",
    )
    if isinstance(read, Invalid):
        case.problem = read
    elif isinstance(read, DirectAnswer):
        case.answer = clean(read.text)
    elif not may_call(run) and read.text.strip():
        case.answer = clean(read.text.strip())
    elif not may_call(run):
        case.problem = Invalid("no_calls", "no tool can be called any more; answer with what is known")
    else:
        steps = [_named(step, run, kit) for step in read.steps]
        steps, case.dropped = _before_effects(steps, run, kit)
        if read.text.strip():
            steps[0] = steps[0].model_copy(update={"reason": cut(clean(read.text.strip()), TURN_CHARS)})
        case.plan = Plan(id=plan_id(run), steps=tuple(steps))
        case.selection = selection_of(steps[0], run)


def _before_effects(steps: list[Step], run: Run, kit: RunResources) -> tuple[list[Step], tuple[str, ...]]:
    """
    Return the calls that are made at once, and the names of those that wait for another turn.

    A ``once`` call behind one that is not was written before its model could see what that has brought; small models fill
    it with a guess, and it cannot be taken back. It waits until they have seen it. ``once`` calls behind each other do not,
    nor do those behind calls that are only written again: what they brought is known.
    """
    unseen = False
    for number, step in enumerate(steps):
        tool = kit.catalog.find(step.name)
        once = tool is not None and tool.effect == "once"
        if once and unseen:
            return steps[:number], tuple(one.name for one in steps[number:])
        unseen = unseen or not (once or _is_known(step, run))
    return steps, ()


def _is_known(step: Step, run: Run) -> bool:
    """Return whether a call repeats one that has succeeded, argument by argument."""
    return step.fault is None and any(
        message.success and message.tool == step.name and (message.arguments or {}) == step.args
        for message in run.memory.history
    )


def _named(step: Step, run: Run, kit: RunResources) -> Step:
    """Return a call under its tool's own name; of an unknown tool with what to choose from as its fault."""
    tool = kit.called(step.name)
    if tool is not None:
        return step.model_copy(update={"name": tool.name})
    names = ", ".join(offered.name for offered in kit.offered("turn", run))
    told = f"there is no tool {ascii(step.name)[:80]}; choose from: {names}"
    return step.model_copy(update={"fault": step.fault or told})


# -- Specifying --------------------------------------------------------------------------------------------------


def call_arguments(
    case: GuardContext, step: Step, tool: ToolSpec | None, catalog: Catalog
) -> dict[str, Any] | None:
    """
    Return the arguments of a call, or None with the reason in *case*.

    One reference may stand for a list of one. Where a tool needs documents, the call names none and the run was given just
    one, that is meant; where it needs a connection, and the call names none that there is, the run's only one.
    """
    spec = case.run.spec
    if step.fault is not None or tool is None:
        case.invalid = step.fault or f"there is no tool {ascii(step.name)[:80]}"
        return None
    given, schema = dict(step.args), catalog.schema(tool)
    if isinstance(given.get(DOCUMENT_LIST), str):
        given[DOCUMENT_LIST] = [given[DOCUMENT_LIST]]
    if not given.get(DOCUMENT_LIST) and DOCUMENT_LIST in schema.required and len(spec.documents) == 1:
        given[DOCUMENT_LIST] = [spec.documents[0].reference]
    if CONNECTION not in schema.names:
        return given
    named, needed = given.get(CONNECTION), CONNECTION in schema.required
    connection = connection_meant(named, spec, needed=needed)
    if connection is not None:
        return given | {CONNECTION: connection}
    if named is not None:
        case.invalid = f"there is no connection {ascii(named)[:80]}"
    elif needed:
        case.invalid = connection_lacks(tool.name, CONNECTION, spec)
    return None if case.invalid is not None else given
