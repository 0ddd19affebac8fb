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
from ...states.run.state import Change, Run
from ..decision.run_resources import RunResources

GROUP_MOST = 64
"""Most calls that are started together, the first included: the first one's row holds the intents of all of them."""

Take = Callable[[Run, Outcome], tuple[str, Run]]
"""Decides a row: its trigger, and the run after it."""


def may_start_others(run: Run, kit: RunResources) -> bool:
    """Return whether the call that *run* specifies and the next one of its reply only read; asked first, since it costs little."""
    spec, counters = run.spec, run.counters
    if not spec.converses or spec.host_machine or spec.limits.parallel_calls == 1:
        return False
    return counters.action >= counters.ahead and _reads(run, kit, 0) and _reads(run, kit, 1)


def calls_ahead(specified: Run, kit: RunResources, take: Take) -> tuple[Intent, ...]:
    """
    Return the intents of the calls that are started together with one whose intent was just decided.

    Args:
        specified: The run after that row.
        kit: Of the run.
        take: Decides the rows that follow.
    """
    run, found = specified, list[Intent]()
    while len(found) < GROUP_MOST - 1 and _reads(run, kit, 1):
        called = _next_call(run, take)
        if called is None or called.memory.intent is None:
            break
        found.append(called.memory.intent)
        run = called
    return tuple(found)


def ahead_words(change: Change) -> str:
    """Return what a row with calls ahead says of them, empty for any other row."""
    return f", {len(change.ahead)} more at once" if change.ahead else ""


def _reads(run: Run, kit: RunResources, ahead: int) -> bool:
    """Return whether a step of the plan, the current one or one *ahead* of it, calls a tool that only reads."""
    plan, number = run.memory.plan, run.counters.plan_step + ahead
    if plan is None or number >= len(plan.steps):
        return False
    step = plan.steps[number]
    tool = kit.catalog.find(step.name) if step.type == "tool" and step.fault is None else None
    return tool is not None and tool.effect == "read"


def _next_call(run: Run, take: Take) -> Run | None:
    """Return the run with the intent of its next call, once its current one has succeeded; None where that is not certain."""
    intent = run.memory.intent
    assert intent is not None, "a run in Executing has an intent"
    nothing = NoOutcome()
    succeeded = Ended(ToolResult(tool=intent.tool, ok=True))
    for outcome, wanted in (
        (succeeded, "execute"),
        (nothing, "observe"),
        (nothing, "next_step"),
        (nothing, "specify"),
    ):
        try:
            trigger, run = take(run, outcome)
        except IllegalEvent:  # it needs something from outside
            return None
        selection = run.memory.selection
        if (
            trigger != wanted or selection is None or selection.needs
        ):  # what it needs is the output of a step before
            return None
    return run
