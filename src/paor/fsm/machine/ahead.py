"""
Which calls of a reply are started together: a `read` call, and the `read` calls behind it that are certain. Pure.

A call is certain when its own intent follows from the run as it is now, whatever the calls before it return. That is not judged
by rules of its own: the rows in between are decided by `fsm.machine.decide` itself, as if each call before had succeeded with
nothing to show, and the walk ends at the first row that is another one than ``execute``, ``observe``, ``next_step``, ``specify``,
or that needs anything from outside. So every check of Specifying counts: policy, schema, safety, duplicates, approvals, steps.

That a call before fails instead cannot change the intents behind it: the guard of duplicate calls only allows more then, and
limits only end the run before their rows.
"""

from __future__ import annotations

from collections.abc import Callable

from ...states.base.errors import IllegalEvent
from ...states.records.actions import Intent, ToolResult
from ...states.records.outcomes import Ended, NoOutcome, Outcome
from ...states.run.state import Run
from ..decision.run_resources import RunResources
from .fold import applied
from .updates import Decision

GROUP_MOST = 64
"""Most calls that are started together, the first included: the first one's row holds the intents of all of them."""

Decide = Callable[[Run, Outcome], Decision]


def starts_together(run: Run) -> bool:
    """Return whether reads of one reply are started together in runs like *run*: the row of the first names the others."""
    spec = run.spec
    return spec.converses and not spec.host_machine and spec.limits.parallel_calls > 1


def calls_ahead(run: Run, decision: Decision, kit: RunResources, decide: Decide) -> tuple[Intent, ...]:
    """
    Return the intents of the calls that are started together with the one that a ``specify`` row proposes.

    Args:
        run: Before that row.
        decision: The row.
        kit: Of the run.
        decide: Decides a row of a run that follows.
    """
    if run.counters.action < run.counters.ahead:  # itself started with a call before it
        return ()
    after, found = run, list[Intent]()
    while len(found) < GROUP_MOST - 1 and _reads(after, kit, 0) and _reads(after, kit, 1):
        after = applied(after, decision, after.at) if after is run else after
        called = _next_call(after, decide)
        if called is None or called.memory.intent is None:
            break
        found.append(called.memory.intent)
        after = called
    return tuple(found)


def _reads(run: Run, kit: RunResources, ahead: int) -> bool:
    """Return whether a step of the plan, the current one or one *ahead* of it, calls a tool that only reads."""
    plan, number = run.memory.plan, run.counters.plan_step + ahead
    if plan is None or number >= len(plan.steps):
        return False
    step = plan.steps[number]
    tool = kit.catalog.find(step.name) if step.type == "tool" and step.fault is None else None
    return tool is not None and tool.effect == "read"


def _next_call(run: Run, decide: Decide) -> Run | None:
    """Return the run with the intent of its next call, once its current one has succeeded; None where that is not certain."""
    intent = run.memory.intent
    assert intent is not None, "a run in Executing has an intent"
    nothing = NoOutcome()
    succeeded = Ended(ToolResult(tool=intent.tool, ok=True))
    for outcome, trigger in (
        (succeeded, "execute"),
        (nothing, "observe"),
        (nothing, "next_step"),
        (nothing, "specify"),
    ):
        try:
            decision = decide(run, outcome)
        except IllegalEvent:  # it needs something from outside
            return None
        if decision.row.trigger != trigger:
            return None
        run = applied(run, decision, run.at)
        if run.memory.selection is None or run.memory.selection.needs:  # the output of a step before
            return None
    return run
