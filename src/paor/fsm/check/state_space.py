"""
The exhaustive exploration of a world: every state that a run can come to, every edge between two of them. Pure.

A state is examined by one real run that is in it, decided by the real `fsm.machine.decide.decide` with the machine that are
examined. Where the engine's own limit is larger than the world's, a counter that is at 0 stands for *at least as
far from its limit as the world's is*: an edge that raises it leads to two states, with the counter raised and with the
counter as it was. So a world holds every behaviour of the larger limits, and perhaps some that they do not have; of
those that need no such edge each is a real run of the world.

When two runs count as one state: everything that a guard, a request or an effect can look at, and nothing else. Pure.

Of a counter it is the distance to its limit that matters, of a score whether there is one, of a call whether the same one
was made before (with native calls also whether it left a result), of a text nothing. `docs/checking.md` argues for each of them; the tests hold real runs against it.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import chain, product
from operator import attrgetter
from typing import Any, NamedTuple

from msgspec.structs import replace

from ...states.base.errors import IllegalEvent
from ...states.records.actions import NOT_MADE_CODES
from ...states.records.questions import Answer
from ...states.run.budgets import all_met, exhausted_budget, tools_withheld
from ...states.run.completion import (
    decided_by_rules,
    draft_of,
    failed_calls,
    last_call_failed,
    review_by_rules,
)
from ...states.run.phase_names import EXECUTING, OBSERVING, PHASES, PLANNING, REVIEWING, SPECIFYING
from ...states.run.spec import machine_data
from ...states.run.state import Counters, Run, initial_run
from ...states.settings.limits import Limits
from ..decision.guard_context import GuardContext
from ..decision.observation import message_of, observation_of
from ..decision.plan_mode import steps_left_in_plan
from ..decision.run_resources import RunResources
from ..machine.decide import Moment, decide, request_of
from ..machine.fold import applied
from ..machine.machine import Machine
from ..machine.table import Row
from ..machine.updates import Decision
from .bounded_specs import BOUNDS, BoundedSpec, spec_of_world
from .findings import Move, PathStep
from .host_functions import HostFunctions, Oracle, branches, free_machine, own_raised, with_host
from .inputs import LATE_US, NOW_US, PLANNED_RETRIES, key_of_call, made_texts, moves_of, outcome_of, read_made

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
        counters.unmade > 0,
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
        _failed_in_turn(run),
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
    (`fsm.check.host_functions`). While a call is under way that a phase has made, the state tells what comes after it, too.
    """
    memory, counters = run.memory, run.counters
    selection, ways = memory.selection, _ways(run.spec.host_machine)
    caller = selection.caller if selection is not None else ""
    chosen = (run.spec.mode, run.spec.limits.parameter_retries) if memory.choice is not None else None
    place = caller if run.state in PHASES and caller else run.state
    seen: Hashable = None
    if place in ways.reviews:
        seen = memory.observation is None, not memory.history, bool(draft_of(run)), _came_to(run)
    elif place in ways.begins:
        seen = _came_to(run)
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
    """Return the call that is being specified meanwhile, with what it is made with, and what the last one came to."""
    selection, intent = run.memory.selection, run.memory.intent
    chosen = given = None
    if selection is not None:
        chosen = selection.tool, selection.origin, selection.is_bare, selection.arguments is None
        given = str(selection.arguments) if selection.caller else None
    kind = None if intent is None else _kind_of_call(run, str(intent.arguments.get("text")))
    return chosen, given, kind, _before_call(run)


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


def _relevant_counters(run: Run) -> tuple[Hashable, ...]:
    """Return the counters that the run's phase looks at, each no larger than what is just past its limit, and what has failed."""
    counters, limits = run.counters, run.spec.limits
    live = _LIVE.get(run.state)
    if live is None:
        live = _OWN_LIVE[run.state in _ways(run.spec.host_machine).specifies]
    return _failed(run), *(
        min(getattr(counters, name), getattr(limits, limit) + 1 if limit else RETRIES_TOP)
        for name, limit in live
    )


def _failed(run: Run) -> Hashable:
    """Return whether calls have failed after which code does not judge: in the newest turn, and beyond it."""
    run = _observed(run)
    counters = run.counters
    later = replace(run, counters=replace(counters, step=counters.step + 1, plan_step=0))
    return any(failed_calls(run)), any(failed_calls(later))


def _observed(run: Run) -> Run:
    """Return *run* with the result that it observes in its history already."""
    result = run.memory.result if run.state == OBSERVING else None
    if result is None:
        return run
    message = message_of(run, result, observation_of(run, result, ()))
    return replace(run, memory=replace(run.memory, history=(*run.memory.history, message)))


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
        return chosen, proposed, _before_call(run), None if reply is None else _answer(run, reply)
    if run.state == EXECUTING:
        settled = reply.action if reply is not None and reply.action in ("done", "fail") else None
        return intent is None or intent.tool, origin, settled
    if (
        run.state == OBSERVING
    ):  # what is recalled makes no difference: a result is observed, whatever it holds
        result = memory.result
        return None if result is None else (origin, result.ok, last_call_failed(_observed(run)))
    if run.state == REVIEWING:
        review = memory.review
        if run.counters.formatted:
            return origin, review.status if review is not None else None
        return origin, _completion(run)
    return _came_to(run) if run.state == PLANNING else None


def _completion(run: Run) -> Hashable:
    """Return what a completion review, by a model or by code, finds beside the reply."""
    if not run.counters.concluded:
        check = run.memory.check if run.spec.limits.completion_review == "rules" else None
        return _came_to(run), check.status if check is not None else None
    if not decided_by_rules(run):
        return "asked", _came_to(run)  # another attempt may answer at once
    review = review_by_rules(run)
    return "rules", review.status if review is not None else run.counters.stop


def _before_call(run: Run) -> Hashable:
    """Return what Specifying keeps of the last action and the last call; in a run of single calls the former is set anew."""
    return _came_to(run) if run.spec.native else last_call_failed(run)


def _came_to(run: Run) -> Hashable:
    """Return what the last action and the last call came to, as code's review looks at them."""
    observed = run.memory.observation
    return observed is not None and observed.success, last_call_failed(run)


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


def _failed_in_turn(run: Run) -> Hashable:
    """Return why calls of the newest turn have failed, while others of it are left: of a turn each reason counts once."""
    done = run.state not in (SPECIFYING, EXECUTING, OBSERVING)
    if not run.spec.native or not (steps_left_in_plan(run) or not done):
        return None
    made = run.counters.plan_step + done
    codes = {message.error_code for message in run.memory.history[-made:] if made}
    if run.state == OBSERVING and run.memory.result is not None:
        codes.add(run.memory.result.error_code or "")
    codes -= {"", "denied"}
    return tuple(sorted(code if code in NOT_MADE_CODES else "made" for code in codes))


STATES_MAX = 50_000
"""More states than that are not explored; the shipped machine has a fraction of it."""

NOW, LATE = Moment(NOW_US, 0), Moment(LATE_US, 0)


@dataclass(frozen=True, slots=True)
class StateEdge:
    """
    One transition between two states.

    Attributes:
        source, dest: Numbers of the states.
        move: What came back.
        row: The row that was taken.
        guards: The guards that were evaluated.
        raised, lowered: Counters that it raises, as long as they are within their limit, and those that it lowers.
        kept: Of the raised ones those that stay as they are in the state, since the limit may be far.
    """

    source: int
    dest: int
    move: Move
    row: Row
    guards: dict[str, bool]
    raised: tuple[str, ...]
    lowered: tuple[str, ...]
    kept: tuple[str, ...]

    @property
    def step(self) -> PathStep:
        """The edge as a step of a path."""
        return PathStep(self.row.source, self.move, self.row.trigger, self.row.dest, self.guards)


@dataclass(frozen=True, slots=True)
class AppliedDecision:
    """
    One decision that was applied: what the promises of `fsm.check.invariants` are held against.

    Attributes:
        case: What the guards looked at.
        row: The row that was taken.
        before, after: The run.
        lowered: Counters that it lowers, also where only a larger value than this run's shows it.
        strained: 1 where one of the host's functions was made to say what it does not say there.
    """

    case: GuardContext
    row: Row
    before: Run
    after: Run
    lowered: tuple[str, ...] = ()
    strained: int = 0


@dataclass(frozen=True, slots=True)
class Stuck:
    """
    A move that no row takes, or whose row sets what cannot be.

    Attributes:
        source: Number of the state.
        step: The move; without a row's trigger.
        error: Why; empty when no row takes it.
    """

    source: int
    step: PathStep
    error: str


@dataclass(slots=True)
class StateGraph:
    """
    An explored world.

    Attributes:
        world: What was explored.
        runs: One run in each state; the first is the start.
        edges: All of them, in the order in which they were found.
        via: Per state the edge by which it was found first: with the fewest strained choices (`fsm.check.host_functions`), then with
            the fewest kept counters, then the shortest way.
        stuck: What no row takes.
        full: Whether there was room for all states.
    """

    world: BoundedSpec
    runs: list[Run] = field(default_factory=list)
    edges: list[StateEdge] = field(default_factory=list)
    via: list[StateEdge | None] = field(default_factory=list)
    stuck: list[Stuck] = field(default_factory=list)
    full: bool = True

    def way(self, number: int) -> list[StateEdge]:
        """Return the edges that lead from the start to a state."""
        edges: list[StateEdge] = []
        while (edge := self.via[number]) is not None:
            edges.append(edge)
            number = edge.source
        return edges[::-1]


class StateWalker:
    """
    Decides moves of a world by given machine.

    Args:
        world: Whose spec is used.
        machine: That decides.
        functions: Calls the host's own functions; None: nobody does.
    """

    def __init__(self, world: BoundedSpec, machine: Machine, functions: HostFunctions | None = None) -> None:
        self.world = world
        self.oracle = Oracle(functions)
        self._case: GuardContext | None = None
        free = free_machine(machine, self.oracle)
        self._own = free.changes
        noting = {place: self._noting(change) for place, change in free.changes.items()}
        self._machine = Machine(free.table, free.waiting, free.guards, noting, free.host)
        self.kit = RunResources(with_host(spec_of_world(world), free), machine=self._machine)
        self._kits: dict[tuple[str, Limits], RunResources] = {}

    def _noting(self, change: Any) -> Any:
        def noted(case: GuardContext) -> Any:
            self._case = case
            return change(case)

        return noted

    def start(self) -> Run:
        """Return a run of the world before its first transition."""
        return initial_run("check", 1, self.kit.spec)

    def moves(self, run: Run) -> Iterator[Move]:
        """Yield every move from where *run* stands."""
        return moves_of(run, request_of(run), self.world)

    def take(self, run: Run, move: Move) -> tuple[AppliedDecision, Decision]:
        """
        Return what *move* comes to.

        Raises:
            IllegalEvent: No row takes it.
            Exception: What the row sets cannot be.
        """
        moment = LATE if move.get("late") else NOW
        self.oracle.begin(move.get("own", {}))
        decision = decide(run, outcome_of(move, run), moment, self.kit_of(run), machine=self._machine)
        after = applied(run, decision, moment.at_us)
        assert self._case is not None, "a decision has a case"
        lowered = self._counters_lowered_by(self._case, decision, after.counters)
        strained = int(self.oracle.strained or "strained" in move)
        return AppliedDecision(self._case, decision.row, run, after, lowered, strained), decision

    def kit_of(self, run: Run) -> RunResources:
        """Return what *run* is decided with: a first phase may have chosen another mode and limits."""
        if run.spec is self.kit.spec:
            return self.kit
        key = run.spec.mode, run.spec.limits
        if key not in self._kits:
            self._kits[key] = RunResources(run.spec, self.kit.catalog, self._machine)
        return self._kits[key]

    def _counters_lowered_by(
        self, case: GuardContext, decision: Decision, after: Counters
    ) -> tuple[str, ...]:
        """
        Return the counters that a row lowers, whatever they were.

        What it sets is asked a second time, of a run whose counters are all one higher: a row that sets a counter back
        is seen by that where it was 0 already, and may stand for more.
        """
        self.oracle.asks = False
        before = case.run.counters
        was, now = _VALUES(before), _VALUES(after)
        values: dict[str, Any] = {name: value + 1 for name, value in zip(COUNTERS, was, strict=True)}
        second = replace(case, run=replace(case.run, counters=replace(before, **values)))
        again = _VALUES(self._own[decision.row.source, decision.row.trigger](second)[1])
        compared = zip(COUNTERS, was, now, again, strict=True)
        return tuple(name for name, old, new, more in compared if new < old or more < old + 1)


def earlier_by(run: Run, steps: int) -> Run:
    """Return *run* with the actions of its history so many *steps* earlier."""
    history = tuple(replace(message, step=message.step - steps) for message in run.memory.history)
    return replace(run, memory=replace(run.memory, history=history))


def explore(
    world: BoundedSpec,
    machine: Machine,
    watch: Any = None,
    *,
    states_max: int = STATES_MAX,
    functions: HostFunctions | None = None,
) -> StateGraph:
    """
    Return every state and edge of *world*.

    Args:
        world: What to explore.
        machine: By which it is decided.
        watch: Called with every `AppliedDecision`, and with the number of its state and the move's `PathStep`.
        states_max: Exploration ends there, with `StateGraph.full` False.
        functions: Calls the functions of a host's own machine with what is come to; None: nobody does.
    """
    walker, graph = StateWalker(world, machine, functions), StateGraph(world)
    limits = {counter: getattr(world.limits, limit) for counter, limit in BOUNDS.items()}
    limits["step_retries"] = max(world.step_retries, PLANNED_RETRIES)
    larger = {"step_retries"} | {name for name, limit in BOUNDS.items() if limit in dict(world.beyond)}
    numbers: dict[State, int] = {}
    heap: list[tuple[int, int, int, int]] = []
    strains: list[int] = []

    def visit(run: Run, cost: tuple[int, int, int]) -> tuple[int, bool]:
        """Return the number of a run's state, and whether this is the first way to it, or the first that is strained less."""
        state = state_of(run)
        number = numbers.setdefault(state, len(graph.runs))
        if number == len(graph.runs):
            graph.runs.append(run)
            graph.via.append(None)
            strains.append(cost[0])
        elif cost[0] < strains[number]:
            graph.runs[number], strains[number] = run, cost[0]
        else:
            return number, False
        heapq.heappush(heap, (*cost, number))
        return number, True

    visit(walker.start(), (0, 0, 0))
    while heap:
        strain, kept, length, number = heapq.heappop(heap)
        run = graph.runs[number]
        if run.final or strain > strains[number]:
            continue
        if len(graph.runs) > states_max:
            graph.full = False
            break
        walker.oracle.certain = not strain
        for taken, decision, move in _expand(walker, graph, number, run, watch):
            moved = zip(COUNTERS, _VALUES(run.counters), _VALUES(taken.after.counters), strict=True)
            raised = tuple(name for name, old, new in moved if old < new and old < limits[name])
            far = [name for name in raised if name in larger and not getattr(run.counters, name)]
            raised += own_raised(run.counters.own, taken.after.counters.own)
            for choice in product(*[(None, name) for name in far]):  # first that none of them stays as it was
                held = tuple(name for name in choice if name is not None)
                after = taken.after
                if held:
                    back: dict[str, Any] = {name: getattr(run.counters, name) for name in held}
                    if "retries" in held:  # the attempt in which the tools were withheld is over all the same
                        back["withheld"] = 0
                    after = replace(after, counters=replace(after.counters, **back))
                    if "step" in held:  # what was done is as many steps ago all the same
                        after = earlier_by(after, 1)
                dest, is_first = visit(after, (strain + taken.strained, kept + len(held), length + 1))
                edge = StateEdge(number, dest, move, taken.row, decision.guards, raised, taken.lowered, held)
                graph.edges.append(edge)
                if is_first:
                    graph.via[dest] = edge
    return graph


def _expand(
    walker: StateWalker, graph: StateGraph, number: int, run: Run, watch: Any
) -> Iterator[tuple[AppliedDecision, Decision, Move]]:
    """Yield what every move from a state comes to, whatever the host's functions say; what none takes goes into the graph."""

    def stick(move: Move, error: Exception) -> None:
        words = "" if isinstance(error, IllegalEvent) else f"{type(error).__name__}: {error}"
        graph.stuck.append(Stuck(number, PathStep(run.state, move, "", "", {}), words))

    try:
        moves = list(walker.moves(run))
    except Exception as error:  # noqa: BLE001 - an edited table can bring a run where its phase cannot even ask
        return stick({"move": "request", "kind": "none"}, error)
    take = partial(walker.take, run)
    for move, come_to in chain.from_iterable(branches(walker.oracle, take, move) for move in moves):
        if isinstance(come_to, Exception):
            stick(move, come_to)
            continue
        taken, decision = come_to
        if watch is not None:
            row = taken.row
            watch(taken, number, PathStep(row.source, move, row.trigger, row.dest, decision.guards))
        yield taken, decision, move


_VALUES = attrgetter(*COUNTERS)
