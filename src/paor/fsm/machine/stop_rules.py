"""
Why a run stops: the predicates that the table of stops names, and the one place where it is read. Pure.

`first_stop` walks `fsm.machine.table.STOPS` in order; its answer is the reason that a guard (`hard_stop`, `stop_reached`) looks at and
that a transition records. Nothing else sets a reason. `read_case` is what the machine decides on: an outcome as the readers
understood it (`fsm.decision.interpret`), with the reasons to stop beside it.
"""

from __future__ import annotations

from collections.abc import Callable

from ...states.records.observations import Observation, StepCheck
from ...states.records.outcomes import (
    Answered,
    Cancelled,
    Ended,
    ModelFault,
    NoOutcome,
    Outcome,
    Recalled,
    Replied,
    Unaffordable,
)
from ...states.records.reviews import Refinement, Review
from ...states.run import budgets
from ...states.run.completion import last_call_failed
from ...states.run.phase_names import OBSERVING, PHASES, REVIEWING, SPECIFYING
from ...states.run.state import Run
from ..decision.guard_context import GuardContext
from ..decision.interpret import read_phase, read_workflow
from ..decision.plan_mode import steps_left_in_plan
from ..decision.progress import stale_after
from ..decision.run_resources import RunResources
from .guards import reply_invalid, review_retry
from .table import CONCLUDED, OWN, STOPS, Stop

Predicate = Callable[[GuardContext], bool]

HARD_STOP, STOP_REACHED, ANSWER, LAST_FAIL = "hard_stop", "stop_reached", "answer_present", ""
"""When a reason is read: the guard that it makes hold, of the last ``fail`` of a phase none."""


def read_case(run: Run, outcome: Outcome, kit: RunResources, at_us: int = 0) -> GuardContext:
    """Return the case of *run* and *outcome*; pure, and total for every outcome that a request can have."""
    case = GuardContext(run, outcome, criteria=run.counters.criteria, at_us=at_us)
    if run.memory.question is None:
        read_phase(case, kit)
    if run.state == OBSERVING:
        return case
    case.stop = None if nothing_stops(case) else first_stop(case, HARD_STOP)
    if run.memory.flow is not None and case.stop is None:
        # After the first reading: a run that must stop is not led on. Then once more: the workflow itself may say abort.
        read_workflow(case, kit)
        case.stop = first_stop(case, HARD_STOP)
    if run.state == REVIEWING and not (run.counters.concluded or run.counters.formatted):
        case.stop_reason = None if nothing_concludes(case) else first_stop(case, STOP_REACHED)
    return case


_ORDINARY = frozenset({Replied.kind, Ended.kind, Recalled.kind, NoOutcome.kind})
"""Kinds of outcome that stop no run by themselves."""


def nothing_stops(case: GuardContext) -> bool:
    """Return whether no hard stop can hold, without asking the table: three of four transitions are like this."""
    if case.outcome.kind not in _ORDINARY or case.unaskable or case.lost or case.aborted:
        return False
    return not budgets.limit_reached(case.run)


def nothing_concludes(case: GuardContext) -> bool:
    """Return whether no stop after an action can hold, without asking the table: the model goes on, and nothing is used up."""
    run, refinement = case.run, case.refinement
    if refinement is None or refinement.decision != "continue" or case.moved is not None or run.spec.plans:
        return False
    if run.spec.limits.budgeted or budgets.all_met(case.criteria) or stale(case):
        return False
    return budgets.steps_left(run)


def first_stop(case: GuardContext, guard: str) -> str | None:
    """
    Return the reason of the first stop of the table that holds in the case's phase, or None.

    Args:
        case: As far as it is read.
        guard: Which stops are asked: those that make this guard hold, empty for the reason of the last ``fail``.
    """
    phase = case.run.state if case.run.state in PHASES else OWN
    for reason, needed in _COMPILED[guard, phase]:
        for predicate, wanted in needed:
            if predicate(case) is not wanted:
                break
        else:
            return reason if reason != CONCLUDED else case.run.counters.stop
    return None


# -- hard stops --------------------------------------------------------------------------------------------------


def unaskable(case: GuardContext) -> bool:
    """A question has to be asked, and the run may ask no more."""
    return case.unaskable


def workflow_lost(case: GuardContext) -> bool:
    """The workflow file cannot be followed any further."""
    return case.lost


def cancelled(case: GuardContext) -> bool:
    """Somebody cancelled the run, or answered its question with a cancellation."""
    outcome = case.outcome
    return isinstance(outcome, Cancelled) or (
        isinstance(outcome, Answered) and outcome.answer.action == "cancel"
    )


def model_failed(case: GuardContext) -> bool:
    """The model could not be reached, or answered with an error."""
    return isinstance(case.outcome, ModelFault)


def calls_refused(case: GuardContext) -> bool:
    """Calls were blocked as duplicates, or refused for their parameters in a row, too often."""
    return budgets.calls_refused(case.run)


def errors_in_a_row(case: GuardContext) -> bool:
    """Too many calls in a row have failed."""
    return budgets.errors_in_a_row(case.run)


def tokens_used_up(case: GuardContext) -> bool:
    """The token budget is used up, or what is left is too little for the next request."""
    if isinstance(case.outcome, Unaffordable) and case.outcome.reason == "token_budget":
        return True
    return budgets.token_budget_used_up(case.run.spec.limits, case.run.counters)


def time_used_up(case: GuardContext) -> bool:
    """The time budget is used up."""
    return budgets.time_budget_used_up(case.run.spec.limits, case.run.counters)


def cost_used_up(case: GuardContext) -> bool:
    """The cost budget is used up, or what is left is too little for the next request."""
    if isinstance(case.outcome, Unaffordable) and case.outcome.reason == "cost_budget":
        return True
    return budgets.cost_budget_used_up(case.run.spec.limits, case.run.counters)


def beyond_limits(case: GuardContext) -> bool:
    """No limit applies: only the final formatting is left, or a phase of the host's own acts without a model."""
    if case.run.counters.formatted:
        return True
    if case.phase is not None:
        return case.phase.prompt is None
    return case.run.state == SPECIFYING and case.selection is not None and case.selection.origin == "phase"


def calls_unmade(case: GuardContext) -> bool:
    """The model has asked for calls for which no step was left."""
    return case.run.counters.unmade > 0


def waiting(case: GuardContext) -> bool:
    """The run waits for an answer, and makes no request to a model."""
    return case.run.memory.question is not None


def all_met_in_review(case: GuardContext) -> bool:
    """The run is in Reviewing, with every criterion met before, and its last call did not fail: it can still be done."""
    met = case.run.state == REVIEWING and budgets.all_met(case.run.counters.criteria)
    return met and not last_call_failed(case.run)


def aborted(case: GuardContext) -> bool:
    """A step of the plan, or the workflow, says abort."""
    return case.aborted


# -- after an action ---------------------------------------------------------------------------------------------


def refined(case: GuardContext) -> bool:
    """The model has judged the action."""
    return case.refinement is not None


def all_met(case: GuardContext) -> bool:
    """There is at least one criterion, and all are met after this outcome."""
    return budgets.all_met(case.criteria)


def model_stops(case: GuardContext) -> bool:
    """The model's refinement decides to stop."""
    return case.refinement is not None and case.refinement.decision == "stop"


def refinement_unreadable(case: GuardContext) -> bool:
    """The refinement could not be read, and may not be asked again."""
    return case.problem is not None and not budgets.review_retries_left(case.run)


def plan_is_done(case: GuardContext) -> bool:
    """A batch has no steps left in its plan, or the workflow has ended."""
    if case.moved is not None:
        return case.moved.state.kind == "end"
    return _between_steps(case) and case.run.spec.mode == "batch" and not steps_left_in_plan(case.run)


def plan_wanted(case: GuardContext) -> bool:
    """A planner's plan has no steps left, but the run has, so it would plan again."""
    run = case.run
    if not _between_steps(case) or run.spec.mode != "planner" or steps_left_in_plan(run):
        return False
    return budgets.steps_left(run)


def no_plan_left(case: GuardContext) -> bool:
    """No other plan may be made."""
    return not budgets.plans_left(case.run)


def stale(case: GuardContext) -> bool:
    """The scores have not risen for as many refinements in a row as `Limits.no_improvement_limit` says."""
    return budgets.improvement_failed(case.run, stale_after(case.run, case.refinement)[0])


def step_wanted(case: GuardContext) -> bool:
    """
    The run would start another action that counts as a step.

    In react mode after each refinement, but with native calls never, since the model may answer without one; with a plan
    while it has steps left, a planner also after it; in a workflow until its end, except for the call of a hook.
    """
    moved, run = case.moved, case.run
    if moved is not None:
        return moved.state.kind != "end" and moved.counts
    if not run.spec.plans:
        return case.refinement is not None
    if run.spec.native:
        return False
    return _between_steps(case) and (run.spec.mode == "planner" or steps_left_in_plan(run) > 0)


def no_step_left(case: GuardContext) -> bool:
    """No other action may be started."""
    return not budgets.steps_left(case.run)


def _between_steps(case: GuardContext) -> bool:
    """Whether Reviewing goes on by code, without a reply."""
    return case.run.spec.plans and not isinstance(case.outcome, Replied)


# -- the last fail of a phase; with the guards `review_retry` and `reply_invalid` ------------------------------


def vetoed(case: GuardContext) -> bool:
    """A guard that the host requires of a row of paor's own did not hold."""
    return bool(case.vetoes)


def improved_nothing(case: GuardContext) -> bool:
    """The run concluded because its scores no longer rose."""
    return case.run.counters.stop == "no_improvement"


def reviewed(case: GuardContext) -> bool:
    """There is a completion review."""
    return case.review is not None


def stop_recorded(case: GuardContext) -> bool:
    """A reason was recorded when the run concluded."""
    return bool(case.run.counters.stop)


_FUNCTIONS = {**globals(), reply_invalid.__name__: reply_invalid, review_retry.__name__: review_retry}
PREDICATES: dict[str, Predicate] = {
    name: _FUNCTIONS[name] for name in {name.removeprefix("not "): 1 for stop in STOPS for name in stop.when}
}
"""Every predicate that the table of stops names; a name without a function fails on import."""


def should_continue(
    observation: Observation | None, review: Refinement | Review | StepCheck | None, *, run: Run | None = None
) -> bool:
    """
    Return whether another action is to be chosen; for a host's own tests and tools.

    It is not where the judgement says stop, all criteria are met, the run's steps are used up, another of its limits is reached, or the judgement is a failure or
    cannot be read. An action that failed is no reason to stop: the next one is chosen with its error in sight. The machine's guard of the
    same name (`paor.machine.guards`) says the same of a run.

    Args:
        observation: Of the action; None where nothing was observed.
        review: How it was judged: by the model's refinement or completion review, or by code; None where no judgement can be read.
        run: Whose steps and limits are looked at, such as that of a `paor.testing.guard_context`; None for no bound.

    Source: document 002, "should_continue(observation, review) -> bool"; docs/spec-coverage.md, A065.
    """
    if review is None or (run is not None and (not budgets.steps_left(run) or budgets.limit_reached(run))):
        return False
    if isinstance(review, Refinement):
        met = [item.met for item in review.criteria]
        return review.decision == "continue" and not (met and all(met))
    if isinstance(review, Review):
        return review.status == "retry"
    return review.status != "failed" and observation is not None


Compiled = dict[tuple[str, str], tuple[tuple[str, tuple[tuple[Predicate, bool], ...]], ...]]
"""By guard and phase the reasons in order, each with its predicates and what they must be."""


def _compile(stops: tuple[Stop, ...]) -> Compiled:
    def needed(stop: Stop) -> tuple[tuple[Predicate, bool], ...]:
        return tuple((PREDICATES[name.removeprefix("not ")], name in PREDICATES) for name in stop.when)

    return {
        (guard, phase): tuple(
            (stop.reason, needed(stop)) for stop in stops if stop.guard == guard and phase in stop.phases
        )
        for guard in (HARD_STOP, STOP_REACHED, ANSWER, LAST_FAIL)
        for phase in (*PHASES, OWN)
    }


_COMPILED = _compile(STOPS)
