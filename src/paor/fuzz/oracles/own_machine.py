"""
What always holds of a run that walks a host's own machine, beside what holds of any run.

Written from docs/howto/machine.md, by what came in and what the rows say: what each stay in an own phase came to, how often a bounded row was
taken, what the host's functions said while the engine decided.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from ...fsm.explain.coverage import tried_rows
from ...fsm.machine.decide import machine_told
from ...states.run.spec import Spec
from .own_run import OwnRun
from .reference_model import RunModel
from .seen import Seen, by_name

# -- after every row -----------------------------------------------------------------------------------------------


def own_rows_within_bounds(seen: Seen, own: OwnRun) -> bool:
    """A row of an own machine is taken at most `at_most` times in a run, and the row says how often."""
    return own.within_bounds() and dict(seen.row.counters.get("own", {})) == dict(own.taken)


def first_fitting_row_is_taken(seen: Seen, own: OwnRun) -> bool:
    """Of the rows of a phase the first is taken whose recorded guards all hold, and every guard that this takes is recorded."""
    row = seen.row
    return bool(tried_rows(own.rows, (row.source, row.trigger, row.dest), row.guards, own.guards))


def calls_come_back(seen: Seen, own: OwnRun) -> bool:
    """The call of an own phase leads back to that phase, any other call to Reviewing."""
    return seen.row.trigger != "observe" or seen.row.dest == (own.caller or "Reviewing")


def succeeded_says_what_happened(seen: Seen, own: OwnRun) -> bool:
    """An own phase succeeds by what it asked for in this very stay: a reply that fits, a call without an error, an answer that accepts."""
    phase, value = own.phases.get(seen.row.source), seen.row.guards.get("succeeded")
    if phase is None or value is None:
        return True
    if phase.prompt is not None:
        reply = seen.reply
        if reply is None or reply.fault:
            return not value
        return reply.good is None or value is reply.good
    if phase.tool is not None or phase.question is not None:
        return bool(value) is bool(own.came_to)
    return bool(value)


def phases_ask_again(seen: Seen, own: OwnRun) -> bool:
    """A reply that does not fit is asked for again `review_retries` times in each stay, whatever was asked before it."""
    row, reply = seen.row, seen.reply
    if row.source not in own.phases or reply is None or reply.good is not False or reply.fault:
        return True
    if row.guards.get("hard_stop") or seen.again("reask") >= seen.spec.limits.review_retries:
        return True
    before = [other for other in own.rows if other.source == row.source and other.trigger == row.trigger]
    ahead = next(place for place, other in enumerate(own.rows) if _is(other, row.source, "reask"))
    return row.trigger == "reask" or any(own.rows.index(other) < ahead for other in before)


def _is(row: Any, source: str, trigger: str) -> bool:
    return (row.source, row.trigger) == (source, trigger)


def phases_stop_hard(seen: Seen, own: OwnRun) -> bool:
    """A model that cannot be reached, and a cancellation, end a run in an own phase, whatever its rows say."""
    row = seen.row
    if row.source not in own.phases or row.outcome["kind"] not in ("fault", "cancelled"):
        return True
    return row.dest == "Failed" and row.guards.get("hard_stop") is True


def own_guards_are_recorded(seen: Seen, own: OwnRun) -> bool:
    """What the host's own guards said in a decision is what its row records, no more and no less."""
    if own.asked is None or seen.row.outcome["kind"] == "cancelled":
        return True
    told = {name: value for name, value in seen.row.guards.items() if name in own.guards}
    said = {name: value for name, value in own.asked.items() if name in own.guards}
    free = {name for name in told if name not in said}  # of another tool's call a guard holds unasked
    return said.items() <= told.items() and all(told[name] for name in free)


def own_guards_are_asked_once(seen: Seen, own: OwnRun) -> bool:
    """A guard of the host's own is evaluated at most once a decision."""
    return not own.twice


def visits_are_of_their_call(seen: Seen, own: OwnRun) -> bool:
    """What a stay came to that was about a call counts for this very call alone."""
    return not own.strangers


def host_values_are_journaled(seen: Seen, own: OwnRun) -> bool:
    """What the port for values gave for a decision stands in its row."""
    return own.given is None or own.recorded == json.loads(json.dumps(own.given))


def choices_raise_nothing(seen: Seen, own: OwnRun) -> bool:
    """A first phase may lower limits and choose a mode; no limit rises."""
    return not own.raised


OWN: dict[str, Callable[[Seen, OwnRun], bool]] = by_name(
    own_rows_within_bounds,
    first_fitting_row_is_taken,
    calls_come_back,
    succeeded_says_what_happened,
    phases_ask_again,
    phases_stop_hard,
    own_guards_are_recorded,
    own_guards_are_asked_once,
    visits_are_of_their_call,
    host_values_are_journaled,
    choices_raise_nothing,
)
"""What is held after every row of a run of an own machine, by name."""


def seen_of(run_id: str, spec: Spec) -> Seen:
    """Return what was seen of a run before its first row."""
    own = OwnRun(spec) if spec.host_machine else None
    return Seen(run_id, spec, RunModel(spec.limits, machine_told(spec.host_machine)), own=own)
