"""
What a run says of itself, held to what came in: why it stops, what is met, whose turn it is, what a tool is given.

The row model (`model`) counts; here stands what the numbers mean. A reason must be true of the rows so far, and where
nothing is a reason the run goes on. Like the other invariants these are written from the documentation: "In Reviewing" and
"Limits" of docs/machine.md, the plans of docs/workflows.md, the safety of arguments of docs/howto/policy.md, the hash chain of
docs/journal-format.md.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from hashlib import sha256
from typing import Any
from urllib.parse import urlsplit

from ...fsm.journal.record import HASHED, PREV_HASH
from ...states.run.budgets import BYTES_PER_TOKEN
from ...tools.catalog import RESOLVED
from .seen import Observed, Seen, by_name

# -- reasons -------------------------------------------------------------------------------------------------------


def _is_read(seen: Seen, *, used_up: bool) -> bool:
    """Whether the newest reply may not have been understood, and all its retries are used up."""
    return seen.reply is None or seen.reply.good is None or (seen.reply.good is False and used_up)


def _model_stops(seen: Seen) -> bool:
    reply, limits = seen.reply, seen.spec.limits
    if reply is None or seen.spec.mode != "react":
        return True
    stops = bool(reply.good) and reply.means.get("decision") == "stop"
    return stops or _is_read(seen, used_up=seen.again("reassess") >= limits.review_retries)


def _review_fails(seen: Seen) -> bool:
    reply, limits = seen.reply, seen.spec.limits
    fails = reply is not None and bool(reply.good) and reply.means.get("status") == "failed"
    return fails or _is_read(seen, used_up=seen.again("reassess") >= limits.review_retries)


def _is_stuck(seen: Seen) -> bool:
    limits = seen.spec.limits
    asked = seen.model.asked >= limits.max_elicitations
    return asked or seen.blocked >= limits.max_blocked_calls or seen.refused >= limits.max_consecutive_refused


def _used_up(seen: Seen, name: str) -> bool:
    """Whether a budget is used up, or with reservations perhaps too small for the next request."""
    before, limits = seen.before, seen.spec.limits
    if limits.reply_tokens is not None:
        return True
    if before is None:
        return False
    count, budget = {
        "token_budget": (before.tokens_in + before.tokens_out, limits.token_budget),
        "time_budget": (before.time_us, limits.time_budget_us),
        "cost_budget": (before.cost_micro, limits.cost_budget_micro),
    }[name]
    return budget is not None and count >= budget


def _all_met(seen: Seen) -> bool:
    wanted = set(seen.spec.success_criteria)
    return bool(wanted) and (seen.unsure or wanted <= seen.sure)


REASONS_TRUE: dict[str, Callable[[Seen], bool]] = {
    "criteria_met": _all_met,
    "model_stop": _model_stops,
    "no_improvement": lambda seen: not seen.scored or seen.stale >= seen.spec.limits.no_improvement_limit,
    "max_steps": lambda seen: seen.model.steps >= seen.spec.limits.max_steps,
    "max_plans": lambda seen: seen.row.counters.get("plans", 0) >= seen.spec.limits.max_plans,
    "selection_invalid": lambda seen: _is_read(
        seen, used_up=seen.again("reselect") >= seen.spec.limits.selection_retries
    ),
    "retries_exhausted": lambda seen: seen.model.retries >= seen.spec.limits.max_retries,
    "review_failed": _review_fails,
    "stuck": _is_stuck,
    "consecutive_errors": lambda seen: seen.errors >= seen.spec.limits.max_consecutive_errors,
    "cancelled": lambda seen: seen.row.outcome["kind"] in ("cancelled", "answer"),
    "model_error": lambda seen: seen.row.outcome["kind"] == "fault",
    "internal_error": lambda seen: False,
    **{name: partial(_used_up, name=name) for name in ("token_budget", "time_budget", "cost_budget")},
}
"""Whether a reason is true of a run; one that is not here is not looked at."""


def stops_for_a_reason(seen: Seen) -> bool:
    """What stops or ends a run is true of it: no limit is met before its time, and nothing is asked less often than allowed."""
    row = seen.row
    if seen.spec.task == 0:
        return True
    if row.trigger == "refuse" and seen.reply is not None and seen.reply.good is False:
        return seen.again("respecify") >= seen.spec.limits.parameter_retries
    if row.trigger == "conclude":
        reason = str(row.outcome.get("stop", ""))
    elif row.dest == "Failed" and row.counters.get("stop", "") != seen.decided:
        reason = str(row.counters.get("stop", ""))
    else:
        return True
    is_true = REASONS_TRUE.get(reason)
    return is_true is None or is_true(seen)


def goes_on_only_without_a_reason(seen: Seen) -> bool:
    """A run that met a limit, or whose criteria are all met, does not go on with another action."""
    if seen.row.trigger != "proceed" or seen.spec.mode != "react" or seen.reply is None:
        return True
    met = bool(seen.spec.success_criteria) and set(seen.spec.success_criteria) <= seen.sure
    stale = seen.scored and seen.stale >= seen.spec.limits.no_improvement_limit
    return not met and not stale and seen.model.steps < seen.spec.limits.max_steps


def criteria_stay_met(seen: Seen) -> bool:
    """A criterion is met once somebody said so, and from then on."""
    now, before = str(seen.row.counters.get("criteria", "")), seen.criteria
    if before and any(old == "1" and new != "1" for old, new in zip(before, now, strict=False)):
        return False
    if seen.unsure:
        return True
    names = seen.spec.success_criteria
    met = [name for name, mark in zip(names, now, strict=False) if mark == "1"]
    return set(met) <= seen.sure


# -- plans ---------------------------------------------------------------------------------------------------------


def plans_are_followed(seen: Seen) -> bool:
    """The steps of a plan are taken in order, each once and with its own arguments, and none is left out."""
    plan, place, row = seen.plan, seen.place, seen.row
    if seen.spec.native and row.trigger == "select":
        steps = seen.reply.means.get("steps") if seen.reply is not None and seen.reply.good else None
        return steps is None or calls_wait_rightly(seen, steps)
    if plan is None or not seen.spec.plans or row.counters.get("formatted"):
        return True
    if seen.spec.native:
        return calls_are_followed(seen, plan)
    if row.trigger == "next_step":
        return place + 1 < len(plan)
    if row.trigger == "proceed" or (row.trigger == "conclude" and row.outcome.get("stop") == "model_stop"):
        return place + 1 >= len(plan)
    if row.trigger != "specify" or seen.call is None or seen.for_phase:
        return True
    name, arguments = seen.call
    args = plan[place].get("args", {})
    plain = {key: value for key, value in args.items() if "$" not in json.dumps(value)}
    return plan[place].get("name") == name and all(arguments.get(key) == plain[key] for key in plain)


def calls_wait_rightly(seen: Seen, calls: Sequence[Mapping[str, Any]]) -> bool:
    """A `once` call waits behind one that is not `once`, unless that one's result can be known; nothing else waits."""
    effects = {tool.name.replace("_", "."): tool.effect for tool in seen.spec.tools}
    once = [effects.get(call["name"].replace("_", "."), "") == "once" for call in calls]
    may_wait = [late and not all(once[:number]) for number, late in enumerate(once)]
    made = len(calls) - int(seen.row.outcome.get("dropped", 0))
    room = (
        seen.spec.context_tokens * BYTES_PER_TOKEN * 3 // 16
    )  # for the calls of one turn, with their results
    is_full = made == seen.spec.limits.calls_per_reply or (made + 1) * _CALL_BYTES > room
    if made < len(calls) and not (may_wait[made] or is_full):
        return False
    behind = max((number for number in range(made) if may_wait[number]), default=0)
    return all(once[number] or _can_be_known(seen, calls[number]) for number in range(behind))


_CALL_BYTES = 428
"""Bytes that a call of a turn and its result have in a conversation, with the longest id that is likely."""


def _can_be_known(seen: Seen, call: Mapping[str, Any]) -> bool:
    """Whether a call with these arguments was begun before, and its result or error seen; the arguments that code adds are left open."""
    name = call["name"].replace("_", ".")
    known = (json.loads(arguments) for tool, arguments in seen.calls if tool.replace("_", ".") == name)
    return any(given.items() >= call["args"].items() for given in known)


def calls_are_followed(seen: Seen, calls: Sequence[Mapping[str, Any]]) -> bool:
    """The calls of a turn are taken in order and as asked for, but for those that wait for another turn."""
    place, row = seen.place, seen.row
    selected = next(row for row in reversed(seen.rows) if row.trigger == "select")
    calls = calls[: len(calls) - int(selected.outcome.get("dropped", 0))]
    if row.trigger == "next_step":
        return place + 1 < len(calls) and seen.model.steps <= seen.spec.limits.max_steps
    if row.trigger == "proceed":
        return place + 1 >= len(calls) or seen.model.steps >= seen.spec.limits.max_steps
    if row.trigger != "specify" or seen.call is None or seen.for_phase:
        return True
    name, arguments = seen.call
    given = {key: value for key, value in calls[place]["args"].items() if key not in RESOLVED}
    same = calls[place]["name"].replace("_", ".") == name.replace("_", ".")
    return same and all(arguments.get(key) == value for key, value in given.items())


# -- arguments -----------------------------------------------------------------------------------------------------

_PRIVATE = re.compile(r"localhost|127\.|10\.|192\.168\.|169\.254\.|\[::1\]|0\.0\.0\.0")


def unsafe_values_reach_no_tool(seen: Seen) -> bool:
    """No call is begun with a dangerous URL, a private host, user info, a NUL or a path that climbs, at any depth."""
    policy = seen.spec.policy
    if seen.row.trigger != "specify" or seen.call is None or policy.private_hosts:
        return True
    if set(policy.url_schemes) != {"http", "https"}:
        return True
    return not any(is_unsafe(name, text) for name, text in texts_in(seen.call[1]))


def texts_in(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield every text in *value*, at any depth, with the name that it is under."""
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from texts_in(item, str(key))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from texts_in(item, name)


def is_unsafe(name: str, text: str) -> bool:
    """Whether a text certainly must not reach a tool."""
    lowered = text.lower()
    if "\0" in text or re.match(r"(file|javascript|vbscript|data):\S", lowered):
        return True
    if re.match(r"https?://", lowered):
        try:
            host = urlsplit(lowered).netloc
        except ValueError:
            return False
        return "@" in host or _PRIVATE.match(host) is not None
    return name.lower().endswith(("path", "file", "filename", "dir")) and ".." in re.split(r"[/\\]", text)


# -- the chain -----------------------------------------------------------------------------------------------------


_OBJECTS = ("guards", "request", "outcome", "change", "counters")


def chain_fits_the_format(world: Observed) -> Iterator[str]:
    """Every row's hash is that of its columns as docs/journal-format.md says, worked out by code of its own."""
    for run in world.journal.runs():
        head = None
        for row in world.journal.reader.rows(run.run):
            columns = {
                name: json.loads(value) if name in _OBJECTS else value
                for name, value in zip(HASHED, row[1:PREV_HASH], strict=True)
            }
            text = json.dumps(columns, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
            prev, own = row[PREV_HASH], row[PREV_HASH + 1]
            if (head is not None and prev != head) or sha256(prev + text.encode()).digest() != own:
                yield f"row {row[1]} of run {run.run_id} does not fit its hash"
            head = own


TRUTHS: dict[str, Callable[[Seen], bool]] = by_name(
    stops_for_a_reason,
    goes_on_only_without_a_reason,
    criteria_stay_met,
    plans_are_followed,
    unsafe_values_reach_no_tool,
)
"""What is held after every row, by name; `Seen.judge` was called before, `Seen.take` is called after."""
