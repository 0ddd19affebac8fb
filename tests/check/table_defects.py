"""
Sixty ways to get the machine wrong, written by hand: each an edit of the table, of a guard, or of what a row sets.

Each is really wrong: some run would end badly, never end, or do what it must not. Beside it stands the code that
`paor check` has to find it by, and the smallest world in which it shows. None changes the package's own table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from msgspec.structs import replace as changed

from paor import Machine
from paor.fsm.machine.guards import GUARDS
from paor.fsm.machine.table import TABLE, WAITING, Row
from paor.fsm.machine.updates import CHANGES
from paor.machine import GuardContext

from ..support.cases import DONE, EXECUTING, FAILED, OBSERVING, PLANNING, REVIEWING, SPECIFYING


@dataclass(frozen=True)
class Defect:
    """
    One of them.

    Attributes:
        name: What was done.
        rules: The edited copy.
        code: What it has to be found as.
        world: Where; empty where no run is needed.
    """

    name: str
    rules: Machine
    code: str
    world: str = "react"


def rows_of(source: str, trigger: str) -> list[Row]:
    """Return the rows of a phase and trigger, in order."""
    return [row for row in TABLE + WAITING if (row.source, row.trigger) == (source, trigger)]


def edited(source: str, trigger: str, number: int = 0, **fields: Any) -> Machine:
    """Return the rules with one row changed."""
    wanted = rows_of(source, trigger)[number]
    table, waiting = (
        tuple(replace(row, **fields) if row is wanted else row for row in rows) for rows in (TABLE, WAITING)
    )
    return Machine(table, waiting)


def dropped(source: str, trigger: str, number: int = 0) -> Machine:
    """Return the rules without one row."""
    wanted = rows_of(source, trigger)[number]
    table, waiting = (tuple(row for row in rows if row is not wanted) for rows in (TABLE, WAITING))
    return Machine(table, waiting)


def without(source: str, trigger: str, guard: str, number: int = 0) -> Machine:
    """Return the rules with one guard of a row removed."""
    row = rows_of(source, trigger)[number]
    assert guard in row.guards
    return edited(source, trigger, number, guards=tuple(name for name in row.guards if name != guard))


def negated(source: str, trigger: str, guard: str, number: int = 0) -> Machine:
    """Return the rules with one guard of a row turned round."""
    row = rows_of(source, trigger)[number]
    assert guard in row.guards
    turned = guard[4:] if guard.startswith("not ") else f"not {guard}"
    return edited(
        source, trigger, number, guards=tuple(turned if name == guard else name for name in row.guards)
    )


def swapped(source: str, first: tuple[str, int], second: tuple[str, int]) -> Machine:
    """Return the rules with two rows of a phase in each other's place."""
    one, two = rows_of(source, first[0])[first[1]], rows_of(source, second[0])[second[1]]
    places = {id(one): two, id(two): one}
    return Machine(tuple(places.get(id(row), row) for row in TABLE))


def added(row: Row, *, before: tuple[str, str] | None = None) -> Machine:
    """Return the rules with one more row, before another or at the end."""
    if before is None:
        return Machine((*TABLE, row))
    at = TABLE.index(rows_of(*before)[0])
    return Machine((*TABLE[:at], row, *TABLE[at:]))


def guarded(name: str, guard: Callable[[GuardContext], bool]) -> Machine:
    """Return the rules with another function as a guard."""
    assert name in GUARDS
    return Machine(guards={**GUARDS, name: guard})


def setting(source: str, trigger: str, **counters: Callable[[GuardContext], Any]) -> Machine:
    """Return the rules with a row that sets some counters otherwise."""
    own = CHANGES[source, trigger]

    def effect(case: GuardContext) -> Any:
        change, after = own(case)
        return change, changed(after, **{name: value(case) for name, value in counters.items()})

    return Machine(changes={**CHANGES, (source, trigger): effect})


def same(counter: str) -> Callable[[GuardContext], int]:
    """Return what leaves a counter as it was."""
    return lambda case: int(getattr(case.run.counters, counter))


def forgetting(source: str, trigger: str, **slots: Any) -> Machine:
    """Return the rules with a row that sets some slots of the memory otherwise."""
    own = CHANGES[source, trigger]

    def effect(case: GuardContext) -> Any:
        change, after = own(case)
        return changed(change, **slots), after

    return Machine(changes={**CHANGES, (source, trigger): effect})


def _always(case: GuardContext) -> bool:
    return True


def _never(case: GuardContext) -> bool:
    return False


def _up_to(counter: str, limit: str) -> Callable[[GuardContext], bool]:
    """Return a guard that is off by one."""
    return lambda case: bool(getattr(case.run.counters, counter) <= getattr(case.run.spec.limits, limit))


def _refund(case: GuardContext) -> int:
    return max(0, case.run.counters.step - 1)


def steps_without_end() -> Machine:
    """Return the rules in which no row looks at the steps; either row alone is enough to hold them."""
    one = without(PLANNING, "select", "steps_left")
    row = rows_of(REVIEWING, "retry")[0]
    return Machine(
        tuple(
            replace(row, guards=("review_retry", "retries_left")) if item is row else item
            for item in one.table
        )
    )


DEFECTS: tuple[Defect, ...] = (
    # rows that are gone
    Defect("no hard stop in Planning", dropped(PLANNING, "fail"), "stop_ignored"),
    Defect("no hard stop in Specifying", dropped(SPECIFYING, "fail"), "stop_ignored"),
    Defect("no hard stop in Executing", dropped(EXECUTING, "fail"), "broken_effect"),
    Defect("no hard stop in Reviewing", dropped(REVIEWING, "fail"), "stop_ignored", "react, full"),
    Defect("no last row in Planning", dropped(PLANNING, "fail", 1), "uncovered_case"),
    Defect("no refusal in Specifying", dropped(SPECIFYING, "refuse"), "uncovered_case"),
    Defect("no row for an ended call", dropped(EXECUTING, "execute"), "missing_row"),
    Defect("nothing observes", dropped(OBSERVING, "observe"), "dead_end"),
    Defect("no last row in Reviewing", dropped(REVIEWING, "fail", 1), "uncovered_case"),
    Defect("no approval is asked for", dropped(SPECIFYING, "wait"), "unchecked_call"),
    Defect("an effect in doubt is not asked about", dropped(EXECUTING, "wait"), "broken_effect"),
    Defect("no answer is taken in Executing", dropped(EXECUTING, "provide"), "dead_end"),
    Defect("out of budget is never Done", dropped(REVIEWING, "finish", 1), "done_missed", "react, full"),
    Defect("what is known is read again", dropped(SPECIFYING, "withhold"), "needless_repeat"),
    # rows that lead elsewhere
    Defect("Done from Planning", edited(PLANNING, "answer", dest=DONE), "done_elsewhere"),
    Defect("Done from Executing", edited(EXECUTING, "execute", dest=DONE), "done_elsewhere"),
    Defect("a hard stop is Done", edited(REVIEWING, "fail", dest=DONE), "done_unreviewed"),
    Defect("a successful review fails", edited(REVIEWING, "finish", dest=FAILED), "done_missed"),
    Defect("selected and executed at once", edited(PLANNING, "select", dest=EXECUTING), "unready_phase"),
    Defect("a refusal is executed", edited(SPECIFYING, "refuse", dest=EXECUTING), "unready_phase"),
    Defect("what is executed is not observed", edited(EXECUTING, "execute", dest=REVIEWING), "unobserved_result"),
    Defect("a retry skips Planning", edited(REVIEWING, "retry", dest=SPECIFYING), "unready_phase"),
    Defect("asked again in Specifying", edited(PLANNING, "reselect", dest=SPECIFYING), "unready_phase"),
    Defect("a refusal is told to nobody", edited(SPECIFYING, "refuse", dest=SPECIFYING), "unobserved_result"),
    Defect("observed again and again", edited(OBSERVING, "observe", dest=OBSERVING), "endless_loop"),
    Defect("a failure is retried for ever", edited(REVIEWING, "fail", 1, dest=PLANNING), "endless_loop", "react, full"),
    Defect("an invalid selection plans again", edited(PLANNING, "fail", 1, dest=PLANNING), "endless_loop"),
    Defect("a phase nobody knows", edited(REVIEWING, "proceed", dest="Thinking"), "unknown_name", ""),
    Defect("what is known is executed", edited(SPECIFYING, "withhold", dest=EXECUTING), "unready_phase"),
    # rows that should not be there, and rows in the wrong order
    Defect("a way out of Done", added(Row(DONE, "retry", PLANNING, (), "")), "final_row", ""),
    Defect("a way out of Failed", added(Row(FAILED, "retry", PLANNING, ("retries_left",), "")), "final_row", ""),
    Defect("Done from Observing", added(Row(OBSERVING, "finish", DONE, (), "")), "no_effect", ""),
    Defect("a row twice", added(rows_of(PLANNING, "select")[0]), "unsafe_row", ""),
    Defect(
        "a row twice, one after the other",
        added(replace(rows_of(REVIEWING, "retry")[0], meaning="once more"), before=(REVIEWING, "next_step")),
        "unsafe_row",
        "",
    ),
    Defect(
        "a row that contradicts itself",
        edited(REVIEWING, "proceed", guards=("should_continue", "plan_has_steps", "not plan_has_steps")),
        "row_never_taken",
    ),
    Defect("failing comes first in Planning", swapped(PLANNING, ("fail", 1), ("wait", 0)), "row_never_taken"),
    Defect("finished before formatted", swapped(REVIEWING, ("format", 0), ("finish", 0)), "row_never_taken"),
    Defect("specified before approved", swapped(SPECIFYING, ("wait", 0), ("specify", 0)), "unchecked_call"),
    Defect("executed before doubted", swapped(EXECUTING, ("wait", 0), ("execute", 0)), "row_never_taken"),
    Defect("concluded after success", swapped(REVIEWING, ("conclude", 0), ("fail", 1)), "row_never_taken"),
    Defect("begun before stopped", swapped(PLANNING, ("fail", 0), ("reselect", 0)), "stop_ignored"),
    # guards of a row
    Defect("denied actions are selected", without(PLANNING, "select", "action_allowed"), "unchecked_selection"),
    Defect("steps without end", steps_without_end(), "bound_exceeded"),
    Defect("selections asked for ever", without(PLANNING, "reselect", "selection_retries_left"), "bound_exceeded"),
    Defect("unsafe calls are made", without(SPECIFYING, "specify", "parameters_safe"), "unchecked_call"),
    Defect("duplicates are made", without(SPECIFYING, "specify", "not duplicate"), "unchecked_call"),
    Defect("questions without end", without(EXECUTING, "wait", "elicitations_left", 1), "bound_exceeded"),
    Defect("finished without a success", without(REVIEWING, "finish", "review_success"), "done_unreviewed"),
    Defect("retried without limit", without(REVIEWING, "retry", "retries_left"), "bound_exceeded"),
    Defect("every iteration is the last", without(REVIEWING, "conclude", "stop_reached"), "row_never_taken"),
    Defect("stops where nothing stops", negated(PLANNING, "fail", "hard_stop"), "done_unreachable"),
    Defect("retried once none is left", negated(REVIEWING, "retry", "retries_left"), "false_reason"),
    Defect("duplicates alone are made", negated(SPECIFYING, "specify", "not duplicate"), "needless_refusal"),
    Defect("any first call withholds the tools", without(SPECIFYING, "withhold", "result_known"), "needless_repeat"),
    Defect("a guard nobody knows", edited(PLANNING, "answer", guards=("answered",)), "unknown_name", ""),
    # guards
    Defect("every selection is allowed", guarded("action_allowed", _always), "unchecked_selection"),
    Defect("there is always a step", guarded("steps_left", _always), "bound_exceeded"),
    Defect("one step too many", guarded("steps_left", _up_to("step", "max_steps")), "bound_exceeded"),
    Defect("one retry too many", guarded("review_retries_left", _up_to("review_retries", "review_retries")), "bound_exceeded"),
    Defect("nothing ever stops a run", guarded("hard_stop", _never), "stop_ignored"),
    Defect(
        "the wrong limit",
        guarded(
            "parameter_retries_left",
            lambda case: case.run.counters.parameter_retries < case.run.spec.limits.selection_retries,
        ),
        "needless_refusal",
    ),
    # what a row sets
    Defect("withheld tools are offered again", setting(SPECIFYING, "withhold", withheld=same("withheld")), "needless_repeat"),
    Defect("steps are not counted", setting(PLANNING, "select", step=same("step")), "endless_loop"),
    Defect("selections asked again are not counted", setting(PLANNING, "reselect", selection_retries=same("selection_retries")), "endless_loop"),
    Defect("reviews asked again are not counted", setting(REVIEWING, "reassess", review_retries=same("review_retries")), "uncounted"),
    Defect("tries are not counted", setting(EXECUTING, "retry_step", step_retries=same("step_retries")), "endless_loop"),
    Defect("a retry begins anew", setting(REVIEWING, "retry", step=lambda case: 0, retries=lambda case: 0), "endless_loop"),
    Defect("a step is given back", setting(REVIEWING, "proceed", step=_refund), "counter_reset"),
    Defect("the stop is not kept", setting(REVIEWING, "conclude", concluded=lambda case: 0), "endless_loop"),
    Defect("no intent is kept", forgetting(SPECIFYING, "specify", intent=None), "unready_phase"),
    Defect("the question is not kept", forgetting(SPECIFYING, "wait", question=None), "question_ignored"),
    Defect("the answer does not count", forgetting(EXECUTING, "provide", reply=None), "endless_loop"),
    Defect("no final message", forgetting(REVIEWING, "finish", answer=None), "unready_phase"),
)  # fmt: skip
