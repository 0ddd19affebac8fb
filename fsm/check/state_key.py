"""
When two runs count as one state: everything that a guard, a request or an effect can look at, and nothing else. Pure.

Of a counter it is the distance to its limit that matters, of a score whether there is one, of a call whether the same one
was made before, of a text nothing. `docs/checking.md` argues for each of them; the tests hold real runs against it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from operator import attrgetter
from typing import Any

from ...states.records.questions import Answer
from ...states.run.budgets import all_met, exhausted_budget
from ...states.run.phase_names import EXECUTING, OBSERVING, PHASES, PLANNING, REVIEWING, SPECIFYING
from ...states.run.state import Run
from .bounded_specs import BOUNDS
from .inputs import key_of_call, made_text

State = tuple[Hashable, ...]
RETRIES_TOP = 9
"""More retries within a step than any world allows."""

COUNTERS = (*BOUNDS, "step_retries")
"""Counters that have a limit, in the order in which a state holds them."""


def state_of(run: Run) -> State:
    """Return the state that *run* is in; all ends of a phase are one."""
    if run.final:
        return (run.state,)
    counters, question = run.counters, run.memory.question
    if counters.formatted:  # beyond all limits: only what the last action itself can do is left
        own = (counters.elicitations, counters.step_retries)
        asked = question.kind if question is not None else None
        return run.state, "formatted", own, asked, _PARTS[run.state](run)
    return (
        run.state,
        tuple(map(min, *_relevant_counters(run))),
        counters.concluded,
        counters.stop == "no_improvement",
        all_met(counters.criteria),
        exhausted_budget(run.spec.limits, counters) is not None,
        counters.best_score is None,
        made_text(run) is not None,
        question.kind if question is not None else None,
        _PARTS[run.state](run),
        _plan(run),
    )


_LIVE: dict[str, tuple[str, ...]] = {
    "selection_retries": (PLANNING,),
    "parameter_retries": (SPECIFYING,),
    "step_retries": (EXECUTING,),
    "review_retries": (REVIEWING,),
}
"""Phases in which a counter is looked at before it begins anew."""


def _relevant_counters(run: Run) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the counters that the run's phase looks at, and of each the value from which on it is past its limit."""
    values, limits = _LIVE_VALUES[run.state](run.counters), run.spec.limits
    return values, tuple(
        getattr(limits, limit) + 1 if limit else RETRIES_TOP for limit in _LIVE_LIMITS[run.state]
    )


_LIVE_NAMES = {
    phase: tuple(name for name in COUNTERS if phase in _LIVE.get(name, PHASES)) for phase in PHASES
}
_LIVE_LIMITS = {phase: tuple(BOUNDS.get(name, "") for name in names) for phase, names in _LIVE_NAMES.items()}
_LIVE_VALUES = {phase: attrgetter(*names) for phase, names in _LIVE_NAMES.items()}


def _planning(run: Run) -> Hashable:
    return None


def _specifying(run: Run) -> Hashable:
    selection, intent, reply = run.memory.selection, run.memory.intent, run.memory.reply
    chosen: Hashable = None
    if selection is not None:
        chosen = selection.origin, selection.tool, selection.fields is None, selection.arguments is None
    proposed = None if intent is None else (intent.tool, intent.key in run.memory.window)
    return chosen, proposed, None if reply is None else _answer(run, reply)


def _answer(run: Run, reply: Answer) -> Hashable:
    content: Any = reply.content
    given: Hashable = bool(content)
    if isinstance(content, dict):
        text = str(content.get("text"))
        kind = _kind_of_call(run, text) if "text" in content else None
        given = (tuple(sorted(content)), content.get("approve"), kind)
    return reply.action, given, reply.approval is None


def _kind_of_call(run: Run, text: str) -> str:
    """Return whether a call with this argument is a repeated one, else whether it needs approval."""
    return "made" if key_of_call(text) in run.memory.window else text[:1]


def _executing(run: Run) -> Hashable:
    intent, reply = run.memory.intent, run.memory.reply
    called = intent is None or intent.tool
    return (
        called,
        _origin(run),
        reply.action if reply is not None and reply.action in ("done", "fail") else None,
    )


def _observing(run: Run) -> Hashable:
    """What is recalled of a result makes no difference: it is observed, whatever it holds."""
    result = run.memory.result
    return None if result is None else (_origin(run), result.ok)


def _reviewing(run: Run) -> Hashable:
    review = run.memory.review
    return _origin(run), review.status if review is not None and run.counters.formatted else None


def _origin(run: Run) -> str | None:
    """Return who chose the action: a plan's step may be tried again after an empty result."""
    selection = run.memory.selection
    return None if selection is None else selection.origin


_PARTS: dict[str, Callable[[Run], Hashable]] = {
    PLANNING: _planning,
    SPECIFYING: _specifying,
    EXECUTING: _executing,
    OBSERVING: _observing,
    REVIEWING: _reviewing,
}
"""What a phase looks at of the memory, before it is set anew."""


def _plan(run: Run) -> Hashable:
    """Return the steps that are left, with the current one as far as it is looked at."""
    plan = run.memory.plan
    if plan is None:
        return None
    left: list[Hashable] = []
    first = run.counters.plan_step
    for number, step in enumerate(plan.steps[first:]):
        if number == 0 and run.state in (OBSERVING, REVIEWING):
            continue
        text = str(step.args.get("text"))
        output = 0 in run.memory.produced if "$step" in text else None
        kinds = (step.type, step.name, tuple(sorted(step.args)), _kind_of_call(run, text), output)
        left.append(step.retries if number == 0 and run.state == EXECUTING else (*kinds, step.retries))
    return tuple(left)
