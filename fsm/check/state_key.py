"""
When two runs count as one state: everything that a guard, a request or an effect can look at, and nothing else. Pure.

Of a counter it is the distance to its limit that matters, of a score whether there is one, of a call whether the same one
was made before (with native calls also whether it left a result), of a text nothing. `docs/checking.md` argues for each of them; the tests hold real runs against it.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import lru_cache
from typing import Any

from ...states.records.questions import Answer
from ...states.run.budgets import all_met, exhausted_budget, tools_withheld
from ...states.run.completion import decided_by_rules, draft_of, review_by_rules
from ...states.run.host_machine import machine_data
from ...states.run.phase_names import DONE, EXECUTING, OBSERVING, PHASES, PLANNING, REVIEWING, SPECIFYING
from ...states.run.state import Run
from ..decision.host_machine import recorded_phases
from .bounded_specs import BOUNDS
from .inputs import key_of_call, made_texts, read_made

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
    asked = question.kind if question is not None else None
    own = _own(run) if run.spec.host_machine else None
    if counters.formatted:  # beyond all limits; and the last action is never tried again
        return run.state, "formatted", counters.elicitations, asked, _memory(run), own
    return (
        run.state,
        _relevant_counters(run),
        counters.concluded,
        counters.stop == "no_improvement",
        all_met(counters.criteria),
        exhausted_budget(run.spec.limits, counters) is not None,
        counters.best_score is None,
        tuple(sorted(made_texts(run))),
        read_made(run),
        tools_withheld(run),
        asked,
        _memory(run),
        _plan(run),
        own,
    )


def _own(run: Run) -> Hashable:
    """
    Return what else a host's own machine looks at: its counters, its choice, and in a phase of its own what that works on.

    The host's guards look at more, but they are free choices (`fsm.check.free_machine`). A call that a phase has made goes back to it,
    so what a completion review would find then stays part of the state until it is back.
    """
    memory, counters = run.memory, tuple(sorted(run.counters.own.items()))
    choice = memory.choice.wire_json() if memory.choice is not None else None
    selection, intent, reply = memory.selection, memory.intent, memory.reply
    caller = selection.caller if selection is not None else ""
    if run.state in PHASES and not caller:
        return counters, choice
    chosen = (
        (selection.tool, selection.origin, selection.is_bare, selection.arguments is None)
        if selection
        else None
    )
    proposed = (intent.tool, intent.key in memory.window) if intent is not None else None
    result = memory.result.ok if caller and memory.result is not None else None
    answered = (reply.action, reply.approval is None) if reply is not None else None
    reviewed = memory.review.status if memory.review is not None else None
    judged: Hashable = None
    if caller or run.state in _judging(run.spec.host_machine):
        judged = _completion(run), reviewed, bool(memory.history), memory.observation is None
    return counters, choice, caller, chosen, proposed, result, answered, judged


_ONLY = {
    "selection_retries": PLANNING,
    "parameter_retries": SPECIFYING,
    "step_retries": EXECUTING,
    "review_retries": REVIEWING,
}
"""Counters that one phase alone looks at before they begin anew."""

_LIVE = {
    phase: [(name, BOUNDS.get(name, "")) for name in COUNTERS if _ONLY.get(name, phase) == phase]
    for phase in PHASES
}
"""By phase the counters that it looks at, each with its limit."""

_LEFT = ("selection_retries", "step_retries", "review_retries")
"""Counters that begin anew wherever a phase of a host's own leads; the last one it counts itself where it asks a model."""


def _live_in_own(run: Run) -> list[tuple[str, str]]:
    """Return the counters that a phase of a host's own looks at, each with its limit."""
    asks = recorded_phases(run.spec.host_machine)[run.state].prompt is not None
    left = _LEFT[:2] if asks else _LEFT
    return [(name, BOUNDS.get(name, "")) for name in COUNTERS if name not in left]


@lru_cache(maxsize=64)
def _judging(text: str) -> frozenset[str]:
    """Return the host's own phases that may lead to Reviewing or to an end, over each other or directly."""
    rows = [(row["source"], row["dest"]) for row in machine_data(text)["transitions"]]
    found: set[str] = {REVIEWING, DONE}
    while more := {source for source, dest in rows if dest in found and source not in PHASES} - found:
        found |= more
    return frozenset(found) - {REVIEWING, DONE}


def _relevant_counters(run: Run) -> tuple[int, ...]:
    """Return the counters that the run's phase looks at, each no larger than what is just past its limit."""
    counters, limits = run.counters, run.spec.limits
    return tuple(
        min(getattr(counters, name), getattr(limits, limit) + 1 if limit else RETRIES_TOP)
        for name, limit in _LIVE.get(run.state) or _live_in_own(run)
    )


def _memory(run: Run) -> Hashable:
    """Return what a phase looks at of the memory, before it is set anew."""
    memory = run.memory
    selection, intent, reply = memory.selection, memory.intent, memory.reply
    origin = (
        selection.origin if selection is not None else None
    )  # a plan's step may be tried again when it is empty
    if run.state == SPECIFYING:
        chosen = proposed = None
        if selection is not None:
            chosen = origin, selection.tool, selection.is_bare, selection.arguments is None
        if intent is not None:
            proposed = intent.tool, intent.key in memory.window
        before = run.spec.native and _has_succeeded(
            run
        )  # within a turn of several calls; else it is set anew
        return chosen, proposed, before, None if reply is None else _answer(run, reply)
    if run.state == EXECUTING:
        settled = reply.action if reply is not None and reply.action in ("done", "fail") else None
        return intent is None or intent.tool, origin, settled
    if (
        run.state == OBSERVING
    ):  # what is recalled makes no difference: a result is observed, whatever it holds
        return None if memory.result is None else (origin, memory.result.ok)
    if run.state == REVIEWING:
        review = memory.review
        if run.counters.formatted:
            return origin, review.status if review is not None else None
        return origin, _completion(run)
    return _has_succeeded(run) if run.state == PLANNING else None


def _completion(run: Run) -> Hashable:
    """Return what a completion review, by a model or by code, finds beside the reply."""
    if not run.counters.concluded:
        check = run.memory.check if run.spec.limits.completion_review == "rules" else None
        return _has_succeeded(run), check.status if check is not None else None
    if not decided_by_rules(run):
        return bool(draft_of(run)), _has_succeeded(run)
    review = review_by_rules(run)
    return "rules", review.status if review is not None else run.counters.stop


def _has_succeeded(run: Run) -> bool:
    """Return whether the last action succeeded: then an answer is drawn from it, which a review cannot simply call failed."""
    observed = run.memory.observation
    return observed is not None and observed.success


def _answer(run: Run, reply: Answer) -> Hashable:
    content: Any = reply.content
    given: Hashable = bool(content)
    if isinstance(content, dict):
        kind = _kind_of_call(run, str(content["text"])) if "text" in content else None
        given = (tuple(sorted(content)), content.get("approve"), kind)
    return reply.action, given, reply.approval is None


def _kind_of_call(run: Run, text: str) -> str:
    """Return how a repeated call with this argument stands, as `made_texts` tells them apart; else whether it needs approval."""
    key = key_of_call(text)
    if key not in run.memory.window:
        return text[:1]
    return "made" if not run.spec.native or key in run.memory.outputs else "failed"


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
