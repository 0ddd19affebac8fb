"""
What a host may add to a machine: each check is made where it is added, and its message shows the right way.

What only the whole machine shows is found by `fsm.machine.safety`, when it is made, and by `fsm.machine.soundness`, when an engine is to walk it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from difflib import get_close_matches
from inspect import iscoroutinefunction, signature
from typing import Any

import orjson

from ...prompts.building.builder import PLACEHOLDERS
from ...prompts.building.templates import parse_template
from ...states.base.errors import UsageError
from ...states.phase import Phase
from ...states.run.phase_names import DONE, EXECUTING, FINAL, OBSERVING, PHASES, PLANNING, SPECIFYING
from ...tools.schema.parameters import ParameterSchema, SchemaError
from .guards import Guard
from .host_rows import DESTS, SOURCES, HostGuard
from .table import Row

_PHASE_NAME = re.compile(r"[A-Z][A-Za-z0-9]{0,39}")
_TRIGGER = re.compile(r"[a-z][a-z0-9_]{0,39}")
_GUARD = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,79}")

KEPT = {
    "fail": "a run must be able to fail, whatever the host's guards say",
    "wait": "a question that is not asked, such as an approval, would be passed over",
    "provide": "an answer that was given must be taken",
    "refuse": "a call that is not specified must be refused",
    "execute": "what a tool has done must be recorded",
    "observe": "what a tool has done must be recorded",
    "retry_step": "what a tool has done must be recorded; Tool(step_retries=...) says how often a call is tried again",
    "call": "the phase's own call is due once in each stay",
    "reask": "Limits.review_retries says how often a reply is asked for again",
}
"""Rows of these triggers take no further condition, and why."""


def host_guard(guard: Guard, tool: str | Sequence[str] | None) -> HostGuard:
    """
    Return a host's function as a guard of the machine.

    Raises:
        UsageError: It is none that a run could be decided by.
    """
    if isinstance(guard, HostGuard):
        return guard
    given = (tool,) if isinstance(tool, str) else tool
    if given is not None and not (
        isinstance(given, Sequence) and given and all(isinstance(item, str) and item for item in given)
    ):
        raise UsageError("tool: a pattern of tools is needed, such as 'bank.*', or a list of them")
    tools = None if given is None else tuple(given)
    check_function(guard, "a guard")
    name = guard.__name__
    return HostGuard(name, guard, tools)


def check_function(function: object, what: str) -> None:
    """Raise `UsageError` where *function* is none that can be named in a journal; its code is examined by `fsm.machine.soundness`."""
    name = getattr(function, "__name__", "")
    if not callable(function) or not _GUARD.fullmatch(name):
        raise UsageError(
            f"{what} must be a function with a name, which the journal records: def office_hours(context): ..."
        )
    if iscoroutinefunction(function):
        raise UsageError(
            f"{name} cannot be async, since a decision waits for nothing; what it needs from outside comes as values"
        )
    try:
        signature(function).bind(None)
    except TypeError:
        raise UsageError(f"{name} must take one argument, the context: def {name}(context): ...") from None
    except ValueError:  # what has no signature is simply called
        pass


def near(name: str, names: Iterable[str]) -> str:
    """Return which of *names* was probably meant, else what there is."""
    known = sorted(set(names))
    found = get_close_matches(name, known, n=1)
    return f"did you mean {found[0]}?" if found else f"there are: {', '.join(known)}"


def check_required(trigger: str, source: str | None, rows: Iterable[Row], table: Iterable[Row]) -> None:
    """Raise `UsageError` where no row of *trigger* in *table* can have a condition of the host's own."""
    place = trigger if source is None else f"{source}.{trigger}"
    if trigger in KEPT:
        raise UsageError(f"{place} takes no condition: {KEPT[trigger]}")
    if not rows:
        there = {row.trigger if source is None else f"{row.source}.{row.trigger}" for row in table}
        raise UsageError(f"there is no row {place}; {near(place, there)}")
    for row in rows:
        if not row.guards:
            raise UsageError(f"{place} takes no condition: it is what the other rows of {row.source} leave")


def check_phase(phase: Phase, *, initial: bool, taken: Container[str]) -> None:
    """Raise `UsageError` where a phase cannot be added."""
    if not isinstance(phase, Phase):
        raise UsageError("phase takes a Phase: machine.phase(Phase('Verifying', tool='tests.run'))")
    name = phase.name
    if not _PHASE_NAME.fullmatch(name) or name in taken:
        raise UsageError(f"a phase needs a name of its own, one word such as Verifying, not {name!a:.60}")
    if phase.final:
        raise UsageError(f"{name}: only Done and Failed are final; lead a row there")
    asks = [item for item in ("prompt", "tool", "question") if getattr(phase, item) is not None]
    if len(asks) > 1:
        raise UsageError(f"{name} asks for one thing at most, not for {' and '.join(asks)}")
    for item, needs in (
        ("reply", "prompt"),
        ("model", "prompt"),
        ("chooses", "prompt"),
        ("arguments", "tool"),
        ("answer", "question"),
    ):
        if getattr(phase, item) not in (None, False) and getattr(phase, needs) is None:
            raise UsageError(f"{name}: {item} goes with {needs}")
    if phase.chooses and not initial:
        raise UsageError(f"{name}: only the phase in which a run begins may choose its mode and limits")
    if phase.prompt is not None:
        _check_prompt(phase)
    if phase.tool is not None and not isinstance(phase.tool, str):
        raise UsageError(f"{name}: tool is the name of one, such as 'tests.run'")
    if callable(phase.arguments):
        check_function(phase.arguments, f"the arguments of {name}")
    elif not isinstance(phase.arguments, Mapping | None):
        raise UsageError(f"{name}: arguments are a mapping, or a function of the context that gives one")
    for item in ("reply", "arguments", "answer"):
        _check_data(name, item, getattr(phase, item))
    if phase.answer is not None:
        _check_answer(name, phase.answer)
    if callable(phase.question):
        check_function(phase.question, f"the question of {name}")
    elif phase.question is not None and not (isinstance(phase.question, str) and phase.question.strip()):
        raise UsageError(f"{name}: the question is a text, or a function of the context that gives one")


def _check_answer(name: str, schema: Mapping[str, Any]) -> None:
    """Raise `UsageError` where nobody could be held to a question's schema."""
    try:
        ParameterSchema({"properties": {"answer": dict(schema)}})
    except SchemaError as error:
        raise UsageError(f"{name}: answer: {error}") from None


def _check_data(name: str, item: str, value: object) -> None:
    """Raise `UsageError` where something that the spec records is no JSON data."""
    if value is None or callable(value):
        return
    if not isinstance(value, Mapping):
        raise UsageError(f"{name}: {item} is a mapping of names to JSON values")
    try:
        orjson.dumps(value, default=dict)
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"{name}: {item} is no JSON data: {' '.join(str(error).split())[:120]}") from None


def _check_prompt(phase: Phase) -> None:
    name, schema = phase.name, phase.reply
    if not isinstance(phase.prompt, str):
        raise UsageError(f"{name}: prompt is the text of a template")
    parse_template(phase.prompt, name)
    for key in re.findall(r"\{\{KEY:(.*?)\}\}", phase.prompt):
        if key not in PLACEHOLDERS["phase"]:
            known = ", ".join(sorted(PLACEHOLDERS["phase"]))
            raise UsageError(f"prompt {name}: nothing is ever put in place of {key!a}; there are: {known}")
    if (
        not isinstance(schema, Mapping)
        or schema.get("type", "object") != "object"
        or not schema.get("properties")
    ):
        raise UsageError(
            f"{name}: reply is the JSON Schema of an object with properties, which the model is held to"
        )
    try:
        ParameterSchema(dict(schema))
    except SchemaError as error:
        raise UsageError(f"{name}: reply: {error}") from None


def way_problem(row: Row) -> str | None:
    """Return why a row of the host's own cannot lead where it leads, None where it can."""
    for end, name, allowed in (("source", row.source, SOURCES), ("dest", row.dest, DESTS)):
        if name in PHASES and name not in allowed:
            told = _NOTHING_AFTER if end == "source" and name in FINAL else _NOT_THERE[end]
            return told.format(name)
    if row.trigger in KEPT and row.trigger != "fail":
        return f"the trigger must be one word of its own, such as verify; {row.trigger} is paor's, and means one thing everywhere"
    if row.dest == DONE and row.source in (PLANNING, SPECIFYING):
        return f"no row of the host's own leads from {row.source} to Done: nothing was reviewed; lead to Reviewing, or to a phase of your own"
    return None


def check_row(
    row: Row, table: Iterable[Row], phases: Container[str], *, at_most: int | None, tell: object
) -> None:
    """Raise `UsageError` where a row cannot be added."""
    place = f"{row.source}.{row.trigger}"
    for end, name in (("source", row.source), ("dest", row.dest)):
        if not isinstance(name, str) or name not in phases:
            raise UsageError(
                f"{place}: {end}: there is no phase {name!a:.60}; add it first, with machine.phase(...)"
            )
    if not isinstance(row.trigger, str) or not _TRIGGER.fullmatch(row.trigger):
        raise UsageError(f"{place}: the trigger must be one word of its own in small letters, such as verify")
    if told := way_problem(row):
        raise UsageError(f"{place}: {told}")
    same = [other for other in table if (other.source, other.trigger) == (row.source, row.trigger)]
    if any(not other.host for other in same) or any(
        other.dest != row.dest for other in same if other.guards != ("hard_stop",)
    ):
        raise UsageError(f"{place}: there is such a row already; give this one another trigger")
    if at_most is not None and (isinstance(at_most, bool) or not isinstance(at_most, int) or at_most < 1):
        raise UsageError(f"{place}: at_most is how often a run may take the row, from 1")
    if at_most is not None and any(other.trigger == row.trigger and other.at_most for other in table):
        raise UsageError(f"{place}: another row of this trigger has a bound; give this one another trigger")
    for guard in row.guards:
        if not isinstance(guard, str) or not _GUARD.fullmatch(guard.removeprefix("not ")):
            raise UsageError(f"{place}: when takes names of guards and functions, not {guard!a:.60}")
    if tell is not None:
        if row.dest != PLANNING:
            raise UsageError(f"{place}: tell goes with a row to Planning, which tells the next plan")
        check_function(tell, f"what {place} tells")


_NOTHING_AFTER = (
    "no row of the host's own leads from {}: a run that has ended is over; fork it, or start another"
)
_NOT_THERE = {
    "source": "no row of the host's own leads from {}; what a tool has done would be lost. Add it to Planning, Specifying or Reviewing",
    "dest": "no row of the host's own leads to {}: a call is begun by specify alone, and observed after it has ended."
    " A phase with tool=... makes a call, machine.require('specify', ...) adds a condition",
}


def place_of(row: Row, table: Sequence[Row], before: str | None) -> int:
    """
    Return where in the table a new row stands; see `fsm.machine.machine.Machine.row`.

    Raises:
        UsageError: *before* names no row of its source, or one before which nothing may stand.
    """
    own = [place for place, other in enumerate(table) if other.source == row.source]
    behind = own[-1] + 1 if own else len(table)
    others = [place for place in own if table[place].guards != ("hard_stop",)]
    waits = [place for place in others if table[place].trigger == "wait"]
    if before is None:
        if row.source == SPECIFYING:
            return waits[0]
        last = next((place for place in others if not table[place].guards), None)
        return behind if last is None or not row.guards else last
    found = next((place for place in others if table[place].trigger == before), None)
    if found is None:
        named = ", ".join(dict.fromkeys(table[place].trigger for place in others))
        raise UsageError(
            f"{row.source}.{row.trigger}: before: there is no row {before!a:.40}; there are: {named}"
        )
    return found


def check_fresh(trigger: str, table: Iterable[Row]) -> None:
    """Raise `UsageError` where the ``values`` port cannot be asked before rows of *trigger*."""
    sources = {row.source for row in table if row.trigger == trigger}
    if not sources:
        raise UsageError(f"there is no row {trigger!a:.40} to ask values for")
    if lost := sorted(sources & {EXECUTING, OBSERVING}):
        raise UsageError(
            f"no values are asked in {lost[0]}: if that failed, what a tool has done would be lost"
        )


def check_callback(kind: str, place: str, callback: Callable[[Any], object], known: Iterable[str]) -> None:
    """Raise `UsageError` where a callback cannot be called."""
    names = list(known)
    if place not in names:
        raise UsageError(f"{kind}: there is no {place!a:.60}; there are: {', '.join(sorted(names))}")
    if not callable(callback):
        raise UsageError(f"{kind}: a function is needed, which is called with the event of the row")
