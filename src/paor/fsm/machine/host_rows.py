"""
The rows of a host's own machine: the guards that come with them, and what taking one sets.

An own row always sets all of `OWN_SLOTS`, to what they were where it changes nothing: so `fsm.machine.fold.restore` needs to know nothing else
of a machine that it has never seen. What a row sets follows from where it leads:

- to Planning: a new attempt, with what the phase came to as improvements for the next plan;
- to Specifying: the call that was being specified goes on; a phase with a tool begins its own there;
- to Reviewing: the completion review is next where nothing was observed since, else whatever Reviewing would ask;
- to Done and Failed: the final message, as in any run;
- to a phase of the host's own: the phase begins anew.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from msgspec.structs import replace

from ...states.base.errors import HostFunctionError
from ...states.base.sealed import SealedDict
from ...states.phase import Phase
from ...states.records.actions import Selection
from ...states.records.observations import cut
from ...states.records.outcomes import Answered
from ...states.records.questions import QuestionRecord
from ...states.run.phase_names import DONE, FAILED, OBSERVING, PHASES, PLANNING, REVIEWING, SPECIFYING
from ...states.run.state import Change, Counters
from ...tools.policy import matches
from ..decision.guard_context import GuardContext
from ..decision.host_machine import Unbound
from ..decision.host_phases import called_by, choice_of, visit_of
from ..decision.observation import TURN_CHARS, line
from ..decision.progress import stale_after
from .fold import OWN_SLOTS
from .guards import Guard
from .table import Row
from .updates import Update, fail_update, final_answer, problem_of

Tell = Callable[[GuardContext], str]
"""What the next plan is told by a row that leads to Planning."""

OWN_ROW = "own_row"
"""The reason of an end that only the host's own machine knows."""


# -- the guards that come with own phases --------------------------------------------------------------------------


def succeeded(case: GuardContext) -> bool:
    """What the host's own phase asked for succeeded: a reply that fits, a call without an error, an answer that accepts."""
    return case.visit is not None and case.visit.ok


def call_due(case: GuardContext) -> bool:
    """The host's own phase has not made its call yet in this stay."""
    return case.phase is not None and case.phase.tool is not None and case.visit is None


def question_due(case: GuardContext) -> bool:
    """The host's own phase has not had its question answered yet in this stay."""
    return case.phase is not None and case.phase.question is not None and case.visit is None


HOST_GUARDS: dict[str, Guard] = {guard.__name__: guard for guard in (succeeded, call_due, question_due)}
"""Guards that rows of an own machine may name beside those of the table."""


def bound_guard(trigger: str, at_most: int) -> Guard:
    """Return the guard of a row's own bound: it was taken less than *at_most* times in the run."""

    def left(case: GuardContext) -> bool:
        return case.run.counters.own.get(trigger, 0) < at_most

    left.__name__ = f"{trigger}_left"
    left.__doc__ = f"The row {trigger} was taken less than {at_most:,} times in this run."
    return left


def return_guard(phase: str) -> Guard:
    """Return the guard of the way back from a call to the phase that it was made for."""

    def called(case: GuardContext) -> bool:
        return called_by(case.run, phase)

    called.__name__ = return_name(phase)
    called.__doc__ = f"The call was made for the phase {phase}."
    return called


def return_name(phase: str) -> str:
    """Return the name of a phase's `return_guard`."""
    return f"called_by_{phase}"


# -- what a row sets -----------------------------------------------------------------------------------------------


def host_update(row: Row, phases: Mapping[str, Phase], tell: Tell | None, case: GuardContext) -> Update:
    """
    Return what *row*, one of the host's own machine, sets.

    Args:
        row: From any phase to any.
        phases: The host's own phases, with their functions where those are there.
        tell: What the next plan is told, for a row to Planning.
        case: What was decided on.
    """
    if row.answers:
        return _provide(case)
    if row.source == row.dest and row.trigger == "wait":
        return _wait(phases[row.source], case)
    if row.source == row.dest and row.trigger == "reask":
        counters = replace(case.run.counters, review_retries=case.run.counters.review_retries + 1)
        return _change(case, feedback=problem_of(case)), counters
    if case.phase is not None and case.visit is None and row.trigger != "call":
        # a stay that came to nothing is the last one all the same; every row that leads on says so, since `restore` reads the last alone
        case.visit = visit_of(case.run, case.phase, ok=False)
    change, counters = _led(row, phases, tell, case)
    if row.at_most:
        own = counters.own
        counters = replace(counters, own=SealedDict({**own, row.trigger: own.get(row.trigger, 0) + 1}))
    return change, counters


def _led(row: Row, phases: Mapping[str, Phase], tell: Tell | None, case: GuardContext) -> Update:
    """Return what follows from where a row leads."""
    stale, best = stale_after(case.run, case.refinement)
    counters = replace(
        case.run.counters, criteria=case.criteria, review_retries=0, stale=stale, best_score=best
    )
    if row.dest == FAILED:
        change, ended = fail_update(case, case.stop or OWN_ROW)
        return _change(case, answer=change.answer, question=None), replace(ended, criteria=case.criteria)
    if row.dest == DONE:
        answer = final_answer(case, counters.stop, done=True)
        return _change(case, answer=answer, question=None), replace(counters, stop=counters.stop or OWN_ROW)
    if row.dest == PLANNING:
        return _attempt(tell, case, counters)
    if row.dest == REVIEWING:
        return _to_review(case, counters)
    if row.dest == SPECIFYING:
        if row.trigger == "call":
            return _begin_call(phases[row.source], case, counters)
        return _change(case, reply=None, feedback=None), counters
    return _enter(phases[row.dest], case, counters)


def _enter(phase: Phase, case: GuardContext, counters: Counters) -> Update:
    """A phase of the host's own begins: whatever it asks for is asked anew; a call that is being specified is kept."""
    kept: dict[str, Any] = {"reply": None, "feedback": None}
    if phase.tool is not None:
        kept |= {"selection": None, "intent": None, "result": None}
    return _change(case, **kept), counters


def _attempt(tell: Tell | None, case: GuardContext, counters: Counters) -> Update:
    """Planning begins a new attempt, as after a review that said retry."""
    told = _told(tell, case)
    change = _change(
        case,
        improvements=(told,) if told else None,
        hint=None,
        selection=None,
        intent=None,
        result=None,
        answer=None,
        review=None,
        feedback=None,
        reply=None,
        plan=None,
        choice=choice_of(case.visit.value)
        if case.phase is not None and case.phase.chooses and case.visit is not None and case.visit.ok
        else case.run.memory.choice,
    )
    # the tools that were withheld for a repeated call are offered again, as after a retry, which counts another attempt
    withheld = min(counters.withheld, counters.retries)
    return change, replace(
        counters, concluded=0, stop="", formatted=0, selection_retries=0, withheld=withheld
    )


def _told(tell: Tell | None, case: GuardContext) -> str:
    """Return what the next plan is told: the host's words, else what the phase came to."""
    if tell is not None:
        if isinstance(tell, Unbound) and case.given is not None:
            recorded = case.given.change.improvements
            return recorded[0] if recorded else ""
        return cut(line(_text(tell, case)), TURN_CHARS)
    visit = case.visit
    if visit is None or visit.value in (None, "", {}, []):
        return ""
    if case.phase is not None and case.phase.chooses:
        return ""
    value = visit.value
    if case.phase is not None and case.phase.tool is not None:
        value = ": ".join(part for part in (value["error"] or value["summary"], value["output"]) if part)
    told = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)
    return cut(line(f"{visit.phase}: {told}"), TURN_CHARS)


def _to_review(case: GuardContext, counters: Counters) -> Update:
    """Reviewing goes on where it was; where nothing was observed since the last attempt only the completion review is left."""
    nothing = case.run.memory.observation is None or not case.run.memory.history
    if nothing and not counters.concluded:
        counters = replace(counters, concluded=1, stop=OWN_ROW)
    return _change(case, feedback=None, reply=None), counters


def _begin_call(phase: Phase, case: GuardContext, counters: Counters) -> Update:
    """The phase's own call goes through Specifying, Executing and Observing, and comes back."""
    arguments: dict[str, Any] = {}
    if isinstance(phase.arguments, Unbound) and case.given is not None:
        recorded = case.given.change.selection
        arguments = (recorded.arguments if recorded else None) or {}
    elif callable(phase.arguments):
        arguments = host_value(phase.arguments, case, dict)
    elif phase.arguments is not None:
        arguments = dict(phase.arguments)
    assert phase.tool is not None, "only a phase with a tool calls one"
    selection = Selection(
        tool=phase.tool,
        objective=f"asked for by {phase.name}",
        arguments=arguments,
        origin="phase",
        caller=phase.name,
    )
    change = _change(case, selection=selection, intent=None, result=None, reply=None, feedback=None)
    return change, replace(counters, parameter_retries=0, step_retries=0)


def _wait(phase: Phase, case: GuardContext) -> Update:
    """The phase's question stops the run until somebody answers."""
    message = phase.question
    if isinstance(message, Unbound) and case.given is not None:
        recorded = case.given.change.question
        message = recorded.message if recorded else ""
    elif callable(message):
        message = _text(message, case)
    assert message is not None, "only a phase with a question asks one"
    intent, counters = case.run.memory.intent, case.run.counters
    question = QuestionRecord(
        kind="elicitation",
        message=message,
        answer_schema=dict(phase.answer or {}),
        tool=intent.tool if intent is not None else None,
        key=intent.idempotency_key if intent is not None else None,
    )
    return _change(case, question=question, reply=None), replace(
        counters, elicitations=counters.elicitations + 1
    )


def _provide(case: GuardContext) -> Update:
    """The answer settles the question of a host's own phase."""
    outcome = case.outcome
    assert isinstance(outcome, Answered), "only an answer is valid here"
    return _change(case, question=None, reply=outcome.answer), case.run.counters


def _change(case: GuardContext, **slots: Any) -> Change:
    """Return a change of all `OWN_SLOTS`: *slots*, the others as they are, with what this decision has read."""
    memory = case.run.memory
    kept = {name: getattr(memory, name) for name in OWN_SLOTS if name != "visit"}
    kept["review"] = case.review or memory.review
    kept["refinement"] = case.refinement or memory.refinement
    kept["visit"] = case.visit
    if case.run.state == SPECIFYING:
        kept["intent"] = case.intent
    return Change(**(kept | slots))


class HostGuard:
    """
    A guard of the host's own, as the machine calls it.

    Args:
        name: As rows and journals name it.
        function: The host's; an `Unbound` where it is not there: then a replay goes by what was recorded.
        tools: Patterns of tools; for a call of any other the guard holds. None for every call, and where there is no call.
    """

    def __init__(self, name: str, function: Guard | Unbound, tools: tuple[str, ...] | None = None) -> None:
        self.name, self.function, self.tools = name, function, tools
        self.__name__ = name
        self.__doc__ = sentence_of(function)

    def __call__(self, case: GuardContext) -> bool:
        """
        Return what the host's function says of *case*.

        Raises:
            HostFunctionError: It raised, or said something else than True or False; or it is not there, and nothing was recorded.
        """
        if self.tools is not None and (case.tool is None or not matches(case.tool, self.tools)):
            return True
        if isinstance(self.function, Unbound) and case.given is not None:
            recorded = case.given.guards.get(self.name)
            if recorded is not None:
                return recorded
        value: bool = host_value(self.function, case, bool)
        return value


def sentence_of(function: object) -> str:
    """Return the first sentence of a function's docstring, as one line; its name without one."""
    told = " ".join((getattr(function, "__doc__", None) or "").split())
    name: str = getattr(function, "__name__", "")
    return re.split(r"(?<=[.!?])\s", told, maxsplit=1)[0][:200] if told else name


def host_value(function: Callable[[GuardContext], Any], case: GuardContext, kind: type) -> Any:
    """
    Return what a function of the host gives for *case*.

    Raises:
        HostFunctionError: It raised, or gave something else than a *kind*.
    """
    # its own copy: the case is still read once the function has seen it, and all that is in it is sealed
    name, run = function.__name__, case.run
    where = f"run {run.run_id}, row {run.seq} in {run.state}: the host's function {name}"
    try:
        value = function(copy.copy(case))
    except Exception as error:
        raise HostFunctionError(f"{where} raised {type(error).__name__}: {error}"[:500]) from error
    if kind is dict and isinstance(value, Mapping):
        return dict(value)
    if type(value) is not kind:
        raise HostFunctionError(f"{where} gave a {type(value).__name__}, not a {kind.__name__}")
    return value


def _text(function: Tell, case: GuardContext) -> str:
    text: str = host_value(function, case, str)
    return text


STANDARD = frozenset(PHASES)
"""The phases that every machine has."""

SOURCES = frozenset((PLANNING, SPECIFYING, REVIEWING))
"""Those of them that a host's own row may lead from: nothing is lost there that a tool has done."""

DESTS = frozenset((PLANNING, SPECIFYING, REVIEWING, DONE, FAILED))
"""Those of them that it may lead to: a call is begun by `specify` alone, and observed after it has ended."""


# -- all that a machine has from its host --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Host:
    """
    What a machine has from its host.

    Attributes:
        initial: The phase in which a run begins.
        phases: The host's own phases by name.
        guards: The host's own guards by name.
        tells: By source and trigger of a row to Planning, what the next plan is told.
        fresh: Triggers of the rows before which the engine's ``values`` port is asked.
        callbacks: What runs after the commit: ``on_enter``, ``on_exit`` or ``after``, the phase or trigger, and the function.
        gates: By phase the one that every way to it goes through (`fsm.machine.gates`).
    """

    initial: str = PLANNING
    phases: Mapping[str, Phase] = field(default_factory=dict)
    guards: Mapping[str, HostGuard] = field(default_factory=dict)
    tells: Mapping[tuple[str, str], Tell] = field(default_factory=dict)
    fresh: tuple[str, ...] = ()
    callbacks: tuple[tuple[str, str, Callable[[Any], object]], ...] = ()
    gates: Mapping[str, str] = field(default_factory=dict)


NO_HOST = Host()


def host_guards(rows: tuple[Row, ...], host: Host) -> dict[str, Guard]:
    """Return the guards that a host's rows may name beside those of the table: its own, and those that its rows and phases bring."""
    found: dict[str, Guard] = {**HOST_GUARDS}
    found |= {
        return_name(name): return_guard(name) for name, phase in host.phases.items() if phase.tool is not None
    }
    for row in rows:
        if row.at_most:
            found[f"{row.trigger}_left"] = bound_guard(row.trigger, row.at_most)
    return found | dict(host.guards)


def host_changes(
    rows: tuple[Row, ...], host: Host, standard: Mapping[tuple[str, str], object]
) -> dict[tuple[str, str], Callable[[GuardContext], Update]]:
    """Return what each of a host's rows sets, by source and trigger; not of those whose place in the table is a *standard* one."""
    return {
        (row.source, row.trigger): partial(
            host_update, row, host.phases, host.tells.get((row.source, row.trigger))
        )
        for row in rows
        if row.host and (row.source, row.trigger) not in standard
    }


def phase_rows(phase: Phase) -> tuple[tuple[Row, ...], tuple[Row, ...]]:
    """Return the rows that a phase of the host's own brings: those within it, and the way back from its call."""
    name = phase.name
    rows = [Row(name, "fail", FAILED, ("hard_stop",), "cancelled, a budget used up, model_error", host=True)]
    back: tuple[Row, ...] = ()
    if phase.prompt is not None:
        rows.append(
            Row(name, "reask", name, ("reply_invalid", "review_retries_left"), "asked again", host=True)
        )
    if phase.tool is not None:
        rows.append(Row(name, "call", SPECIFYING, ("call_due",), f"{phase.tool} is to be called", host=True))
        back = (Row(OBSERVING, "observe", name, (return_name(name),), f"back to {name}", host=True),)
    if phase.question is not None:
        asks = ("question_due", "elicitations_left")
        rows.append(Row(name, "wait", name, asks, "a person is asked", host=True))
        rows.append(Row(name, "provide", name, ("answer_valid",), "the answer", answers=True, host=True))
    return tuple(rows), back
