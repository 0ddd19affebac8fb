"""
What always holds of a run, by name, whatever a model, a tool, a person or a clock does.

Those of `ROW` are held after every row, by what came in and what the row says; those of `REST` when a run has ended, waits,
or has lost its driver, by the journal as a whole. They are written from the documentation, not from the engine's code: the
rules of names, policy and duplicates stand here a second time, as short as they can be said.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ...fsm.replay.replay import replay
from ...fsm.replay.restore import restore_run
from ...states.run.reasons import REASONS
from ...states.run.state import Run
from ...states.settings.policy import ApprovalRule, Policy
from .own_machine import OWN
from .reference_model import ENDS, MODELLED
from .run_oracle import TRUTHS, chain_fits_the_format
from .seen import Observed, Seen, by_name

ACCEPTED = {
    "selection": ("select", "answer"),
    "plan": ("select", "answer", "wait"),
    "turn": ("select", "answer"),
    "task_plan": ("select", "answer"),
    "parameters": ("specify", "wait"),
    "refinement": ("proceed",),
    "review": ("finish", "format", "retry"),
    "answer": ("answer",),
}
"""Triggers that only a reply of this kind that was understood can lead to."""

ASKED_AGAIN = ("reselect", "respecify", "reassess", "reask")


# -- the rules, a second time --------------------------------------------------------------------------------------


def same_name(name: str) -> str:
    """Return the one spelling of a tool's name."""
    return re.sub(r"[._:/-]+", ".", name.strip()).lower()


def fits(name: str, patterns: Sequence[str]) -> bool:
    """Whether a tool's name fits one of *patterns*, in which ``*`` stands for any characters."""
    regular = [
        ".*".join(re.escape(same_name(part)) if part else "" for part in p.split("*")) for p in patterns
    ]
    return any(re.fullmatch(pattern, same_name(name)) for pattern in regular)


def denied(policy: Policy, task_type: str | None, tool: str) -> bool:
    """Whether the policy forbids *tool*: deny wins over the task type, which wins over allow."""
    listed = policy.task_types.get(task_type or "")
    if fits(tool, policy.deny) or (listed is not None and not fits(tool, listed)):
        return True
    return bool(policy.allow) and not fits(tool, policy.allow)


def asks_first(policy: Policy, tool: str) -> bool:
    """Whether every call of *tool* needs a person's yes; rules about arguments are left to the engine."""
    return fits(tool, [rule for rule in policy.approvals if not isinstance(rule, ApprovalRule)])


def canonical(arguments: Mapping[str, Any]) -> str:
    """Return arguments as one text, the same for equal ones."""
    return json.dumps(arguments, sort_keys=True, default=str)


# -- after every row -----------------------------------------------------------------------------------------------


def budgets_never_overspent(seen: Seen) -> bool:
    """No request is made once a budget is used up, those of tools included."""
    before, limits = seen.before, seen.spec.limits
    asked = seen.row.outcome["kind"] in ("reply", "fault") or any(
        reply.kind == "text" for reply in seen.replies
    )
    if before is None or not asked or before.counters.get("formatted"):
        return True
    tokens, cost = before.tokens_in + before.tokens_out, before.cost_micro
    for reply in seen.replies:
        if limits.token_budget is not None and tokens >= limits.token_budget:
            return False
        if limits.cost_budget_micro is not None and cost >= limits.cost_budget_micro:
            return False
        tokens, cost = tokens + sum(reply.tokens), cost + reply.cost_micro
    return limits.time_budget_us is None or before.time_us < limits.time_budget_us


def usage_adds_up(seen: Seen) -> bool:
    """The row's tokens are the sum of what the model has reported so far."""
    return seen.tokens is None or (seen.row.tokens_in, seen.row.tokens_out) == seen.tokens


def denied_never_begun(seen: Seen) -> bool:
    """No intent is committed for a tool that the policy forbids."""
    return seen.begun is None or not denied(seen.spec.policy, seen.spec.task_type, seen.begun[0])


def approved_before_it_begins(seen: Seen) -> bool:
    """No intent is committed for a tool whose calls need a person's yes, unless there was one for this call."""
    if seen.row.trigger != "specify" or seen.call is None or seen.spec.task == 0:
        return True
    return seen.approved or not asks_first(seen.spec.policy, seen.call[0])


def duplicates_are_blocked(seen: Seen) -> bool:
    """A call is not begun again once it stands often enough in a row, or within the window."""
    tool = seen.tool
    if seen.begun is None or tool is None or tool.repeat_allowed:
        return True
    limits = seen.spec.limits.model_copy(update=dict(tool.duplicate_limits))
    key, begun = (seen.begun[0], canonical(seen.begun[1])), seen.calls
    row = limits.consecutive_limit - 1
    if begun[-row:] == [key] * row:
        return False
    return begun[-limits.window_size :].count(key) < limits.window_freq_limit


def blocked_only_if_repeated(seen: Seen) -> bool:
    """Nothing is blocked as a duplicate that was never begun before."""
    if not seen.row.guards.get("duplicate") or seen.row.trigger != "refuse":
        return True
    reply = seen.reply
    if reply is None or not reply.good or "arguments" not in reply.means:
        return True
    return any(tool == reply.means["tool"] for tool, _ in seen.calls)


def effects_are_not_made_again(seen: Seen) -> bool:
    """A `once` call that has succeeded is not begun again in its run; the tools are withheld only for a known result."""
    if seen.row.trigger == "withhold":
        if len(seen.calls) < sum(row.trigger == "execute" for row in seen.rows):
            return True  # of a task's calls nothing is seen
        chosen = seen.reply.means.get("tool") if seen.reply is not None and seen.reply.good else None
        return any(chosen in (None, name) for name, _ in seen.known)
    if seen.begun is None or seen.tool is None or seen.tool.effect != "once" or seen.tool.repeat_allowed:
        return True
    return (seen.begun[0], canonical(seen.begun[1])) not in seen.known


def replies_are_read_rightly(seen: Seen) -> bool:
    """What was understood is not asked again, and what cannot be understood leads nowhere."""
    reply = seen.reply
    if reply is None or reply.fault or reply.good is None:
        return True
    if reply.good:
        return seen.row.trigger not in ASKED_AGAIN
    if reply.kind == "phase":
        return not seen.row.guards.get("succeeded")
    return seen.row.trigger not in ACCEPTED[reply.kind]


def said_is_what_counts(seen: Seen) -> bool:
    """A review that says retry or failed does not end well; a stop does not go on."""
    reply = seen.reply
    if reply is None or not reply.good or seen.on_own_row:
        return True
    status, decision = reply.means.get("status"), reply.means.get("decision")
    if status == "success":
        return seen.row.trigger in ("finish", "format")
    if status == "retry":
        return seen.row.trigger in ("retry", "fail")
    if status is not None:
        return seen.row.trigger == "fail"
    return decision != "stop" or seen.row.trigger != "proceed"


def reviewed_by_code(seen: Seen) -> bool | None:
    """Whether no model is asked for the completion review, by the limits or since it has answered; None: unknown."""
    if seen.spec.output_schema is not None:
        return None
    choice = seen.spec.limits.completion_review
    if choice == "model":
        return False
    failed = seen.errors > 0 or seen.refused > 0 or seen.denied
    if choice == "auto":
        if seen.spec.success_criteria or seen.decided != "model_stop" or failed:
            return False
        return None if seen.lapses else seen.draft
    if seen.lapses and not failed:
        return None
    if not failed or seen.decided not in ("criteria_met", "model_stop"):
        return True
    return seen.decided == "model_stop" and (None if seen.draft is None else not seen.draft)


def reviews_are_asked_when_due(seen: Seen) -> bool:
    """The completion review is asked for where code cannot tell, and nowhere else."""
    before, row = seen.before, seen.row
    if before is None or row.source != "Reviewing" or before.counters.get("formatted") or not seen.decided:
        return True
    by_code, asked = reviewed_by_code(seen), row.request.get("kind") == "review"
    if seen.spec.task == 0 or by_code is None or row.guards.get("budget_used_up"):
        return True
    return not asked if by_code else asked or row.trigger not in ("finish", "format", "retry")


def done_only_after_success(seen: Seen) -> bool:
    """Done is reached after a successful completion review, a model's or code's, or out of budget with every criterion met."""
    if (seen.row.dest != "Done" and seen.row.trigger != "format") or seen.success or seen.on_own_row:
        return True
    if reviewed_by_code(seen) is not False and seen.decided in ("model_stop", "criteria_met"):
        return True
    met = bool(seen.spec.success_criteria) and set(seen.spec.success_criteria) <= seen.met
    return met and not (seen.errors or seen.refused or seen.denied)


def only_declared_retries(seen: Seen) -> bool:
    """A call is tried again at most as often as its tool, or the plan's step, declares."""
    if seen.row.trigger != "retry_step" or seen.call is None:
        return True
    tool = seen.tool
    return seen.spec.mode != "react" or (tool is not None and seen.model.again <= tool.step_retries)


ROW: dict[str, Callable[[Seen], bool]] = by_name(
    budgets_never_overspent,
    usage_adds_up,
    denied_never_begun,
    approved_before_it_begins,
    duplicates_are_blocked,
    blocked_only_if_repeated,
    effects_are_not_made_again,
    replies_are_read_rightly,
    said_is_what_counts,
    reviews_are_asked_when_due,
    done_only_after_success,
    only_declared_retries,
)
ROW |= TRUTHS
"""What is held after every row, by name."""


def broken_by(seen: Seen) -> Iterator[tuple[str, str]]:
    """Yield the name of everything that the newest row of a run breaks, with what it was to be."""
    for name, holds in seen.model.take(seen.row):
        if not holds:
            yield name, "the row is not what the run so far leads to"
    seen.judge()
    for name, check in ROW.items():
        if not check(seen):
            yield name, (check.__doc__ or "").strip()
    if seen.own is not None:
        seen.own.take(seen.row)
        for name, own_check in OWN.items():
            if not own_check(seen, seen.own):
                yield name, (own_check.__doc__ or "").strip()
        seen.own.leave(seen.row)
        seen.go_on_as_chosen(seen.own)
    seen.take()


# -- when nothing moves --------------------------------------------------------------------------------------------


def chain_verifies(world: Observed) -> Iterator[str]:
    """The journal's own check finds no defect."""
    yield from map(str, world.journal.verify())


def replays_to_the_same(world: Observed) -> Iterator[str]:
    """Every run is derived again from its record, row by row, and comes out the same, an own machine also with the host's code."""
    for row in world.moved():
        found = replay(world.journal, row.run_id)
        yield from map(str, found.divergences)
        yield from (f"not derived: {item}" for item in found.unchecked if not _is_the_hosts(item.field))
        if world.code is not None:
            with_code = replay(world.journal, row.run_id, world.code)
            yield from (f"with its code: {item}" for item in (*with_code.divergences, *with_code.unchecked))


def _is_the_hosts(field: str) -> bool:
    """Whether a field of a row is the host's code alone to derive."""
    texts = ("change.selection.arguments", "change.question.message", "change.improvements")
    return field in texts or field.startswith("guards.")


def journal_tells_the_state(world: Observed) -> Iterator[str]:
    """What the journal tells of a run is what its driver held, and what was read of it row by row."""
    for number in [row.run for row in world.moved()]:
        seen = world.seen.get(number)
        if seen is None or not seen.rows:
            continue
        run = restore_run(world.journal.reader, seen.run_id)[0]
        if (run.state, run.seq) != (seen.model.phase, seen.model.seq):
            yield f"the journal tells {run.state} at row {run.seq}, the rows {seen.model.phase} at {seen.model.seq}"
        held = world.held
        if held is not None and (held.number, held.seq) == (number, run.seq) and held != run:
            yield f"the journal tells something else than the driver held: {_difference(held, run)}"


def _difference(held: Run, message: Run) -> str:
    """Return the names of the counters and of the slots of memory in which two runs differ, with their values."""
    parts = [
        f"{name}: {getattr(one, name)!r:.120} and {getattr(other, name)!r:.120}"
        for one, other in ((held.counters, message.counters), (held.memory, message.memory))
        for name in one.__struct_fields__
        if not getattr(one, name) == getattr(other, name)  # noqa: SIM201 - a HashTrieMap has no other comparison
    ]
    return "; ".join(parts) or f"{held.state} and {message.state}"


def every_end_says_why(world: Observed) -> Iterator[str]:
    """An ended run has a reason of the closed list and a final message."""
    for row in world.moved():
        if row.state in ENDS:
            result = world.result_of(row.run_id)
            if result.reason not in REASONS:
                yield f"the run ended for {result.reason!a}"
            if not result.answer.strip():
                yield "the run ended without a message"


REST: dict[str, Callable[[Observed], Iterator[str]]] = by_name(
    chain_verifies, chain_fits_the_format, journal_tells_the_state, replays_to_the_same, every_end_says_why
)
"""What is held when a run has ended, waits, or has lost its driver, by name."""

OTHERS = (
    "denied_never_called",
    "once_never_repeats",
    "intent_before_effect",
    "one_key_for_a_call",
    "late_results_are_dropped",
    "nothing_begins_after_a_cancel",
    "ends_within_bounds",
    "raises_nothing",
    "a_cancel_ends_the_run",
    "an_end_stays",
    "wrong_answers_change_nothing",
    "host_errors_change_nothing",
    "host_functions_never_raise",
    "never_happens",
)
"""What a world holds itself, at the moment in which it could break."""

INVARIANTS: tuple[str, ...] = tuple(
    sorted({*MODELLED, *ROW, *OWN, *REST, *OTHERS, "rows_never_change", "check"})
)
"""The names of all invariants."""
