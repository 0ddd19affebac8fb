"""
When two runs count as one state: everything that a guard, a request or an effect can look at, and nothing else. Pure.

Of a counter it is the distance to its limit that matters, of a score whether there is one, of a call whether the same one
was made before (with native calls also whether it left a result), of a text nothing. `docs/checking.md` argues for each of them; the tests hold real runs against it.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import lru_cache
from typing import Any, NamedTuple

from ...states.records.questions import Answer
from ...states.run.budgets import all_met, exhausted_budget, tools_withheld
from ...states.run.completion import decided_by_rules, draft_of, review_by_rules
from ...states.run.host_machine import machine_data
from ...states.run.phase_names import EXECUTING, OBSERVING, PHASES, PLANNING, REVIEWING, SPECIFYING
from ...states.run.state import Run
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
    if counters.formatted and (own is None or not _begins_again(run)):  # beyond all limits
        retried = (
            ()
            if own is None
            else (counters.parameter_retries, counters.step_retries, counters.review_retries)
        )
        return run.state, "formatted", counters.elicitations, asked, _memory(run), own, retried
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


class _Ways(NamedTuple):
    """
    Where the host's own rows lead in the end, through phases of its own.

    Attributes:
        reviews: The phases from which some way leads to Reviewing.
        specifies: Those from which one leads back to Specifying.
        begins: Those from which one leads to a new attempt in Planning.
    """

    reviews: frozenset[str]
    specifies: frozenset[str]
    begins: frozenset[str]


@lru_cache(maxsize=32)
def _ways(text: str) -> _Ways:
    """Return where the rows of a spec's `host_machine` lead; a phase's own call comes back to it, and is not looked at."""
    rows = [row for row in machine_data(text)["transitions"] if row.get("host") and row["trigger"] != "call"]
    found = []
    for end in (REVIEWING, SPECIFYING, PLANNING):
        leading: set[str] = set()
        while (
            more := {row["source"] for row in rows if row["dest"] in leading | {end}} - leading - {OBSERVING}
        ):
            leading |= more
        found.append(frozenset(leading))
    return _Ways(*found)


def _begins_again(run: Run) -> bool:
    """Return whether a run that only has its last formatting to do may begin another attempt, so that its limits matter again."""
    return not _ways(run.spec.host_machine).begins.isdisjoint((SPECIFYING, REVIEWING))


def _own(run: Run) -> Hashable:
    """
    Return what else a host's own machine looks at: what was chosen, and in a phase of its own what that works on and goes on with.

    The host's functions look at more, and the bounds of its rows at their counters: those are free choices
    (`fsm.check.free_machine`). While a call is under way that a phase has made, the state tells what comes after it, too.
    """
    memory, counters = run.memory, run.counters
    selection, ways = memory.selection, _ways(run.spec.host_machine)
    caller = selection.caller if selection is not None else ""
    chosen = (run.spec.mode, run.spec.limits.parameter_retries) if memory.choice is not None else None
    place = caller if run.state in PHASES and caller else run.state
    seen: Hashable = None
    if place in ways.reviews:
        seen = memory.observation is None, not memory.history, bool(draft_of(run)), _has_succeeded(run)
    elif place in ways.begins:
        seen = _has_succeeded(run)
    if place in PHASES:
        return counters.formatted, chosen, seen, _kept_call(run) if place in ways.specifies else None
    judged = None
    if place in ways.reviews:
        judged = memory.review.status if memory.review is not None else None, _completion(run)
    came = memory.result.ok if caller and memory.result is not None else None
    answered = memory.reply.action if memory.reply is not None and run.state not in PHASES else None
    call = _kept_call(run) if place in ways.specifies or run.state == SPECIFYING else None
    return counters.formatted, chosen, seen, caller, judged, came, answered, call


def _kept_call(run: Run) -> Hashable:
    """Return the call that is being specified meanwhile, with what it is made with."""
    selection, intent = run.memory.selection, run.memory.intent
    chosen = given = None
    if selection is not None:
        chosen = selection.tool, selection.origin, selection.is_bare, selection.arguments is None
        given = str(selection.arguments) if selection.caller else None
    return chosen, given, None if intent is None else _kind_of_call(run, str(intent.arguments.get("text")))


_ONLY = {
    "selection_retries": PLANNING,
    "parameter_retries": SPECIFYING,
    "step_retries": EXECUTING,
    "review_retries": REVIEWING,
}
"""Counters that one phase alone looks at before they begin anew."""

_RESET = ("selection_retries", "step_retries")

_LIVE = {
    phase: [(name, BOUNDS.get(name, "")) for name in COUNTERS if _ONLY.get(name, phase) == phase]
    for phase in PHASES
}
"""By phase the counters that it looks at, each with its limit."""

_OWN_LIVE = [
    [(name, BOUNDS.get(name, "")) for name in COUNTERS if name not in (*_RESET, *more)]
    for more in (("parameter_retries",), ())
]
"""Those of a phase of a host's own, and of one that leads back to Specifying; the others begin anew wherever a way leads."""


def _relevant_counters(run: Run) -> tuple[int, ...]:
    """Return the counters that the run's phase looks at, each no larger than what is just past its limit."""
    counters, limits = run.counters, run.spec.limits
    live = _LIVE.get(run.state)
    if live is None:
        live = _OWN_LIVE[run.state in _ways(run.spec.host_machine).specifies]
    return tuple(
        min(getattr(counters, name), getattr(limits, limit) + 1 if limit else RETRIES_TOP)
        for name, limit in live
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
            proposed = intent.tool, origin != "phase" and intent.key in memory.window
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
    first, done = run.counters.plan_step, run.state in (OBSERVING, REVIEWING)
    if run.spec.host_machine:
        selection, ways = run.memory.selection, _ways(run.spec.host_machine)
        caller = selection.caller if selection is not None else ""
        if (place := caller or run.state) not in PHASES:
            if place not in ways.reviews and place not in ways.specifies:
                return None  # a new attempt plans anew
            done = place not in ways.specifies
    for number, step in enumerate(plan.steps[first:]):
        if number == 0 and done:
            continue
        text = str(step.args.get("text"))
        output = 0 in run.memory.produced if "$step" in text else None
        kinds = (step.type, step.name, tuple(sorted(step.args)), _kind_of_call(run, text), output)
        left.append(step.retries if number == 0 and run.state == EXECUTING else (*kinds, step.retries))
    return tuple(left)
