"""
Ways to get a machine of one's own wrong, written by hand: each is found before a run starts.

Beside each stands who finds it: ``built``, what is added is refused where it is added; ``engine``, `Engine(machine=...)` refuses the whole machine;
``check``, `paor check` finds it, since it shows only where the machine goes. What is found names the place.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from paor import Machine, Phase
from paor.machine import GuardContext

from ..support.own_machines import ADVICE, APPROVE, escalating, two_reviewers, verifying

By = Literal["built", "engine", "warned", "check"]


@dataclass(frozen=True)
class OwnDefect:
    """
    One of them.

    Attributes:
        kind: What is wrong.
        name: What was done.
        make: Returns the machine.
        by: Who finds it.
        code: Of the finding; empty where the machine is refused while it is built.
        place: What the message names.
    """

    kind: str
    name: str
    make: Callable[[], Machine]
    by: By
    code: str
    place: str


# -- guards that are fine ------------------------------------------------------------------------------------------


def often(context: GuardContext) -> bool:
    """More than one step was taken."""
    return context.counters.step > 1


def seldom(context: GuardContext) -> bool:
    """An action has failed."""
    return context.counters.errors > 0


# -- guards that raise, or give no truth value, in some states -----------------------------------------------------


def last_failed(context: GuardContext) -> bool:
    """The last action failed; before the first one there is none."""
    return not context.run.memory.history[-1].success


def over_limit(context: GuardContext) -> bool:
    """The amount is over a limit, which a run need not have."""
    return bool(context.counters.step > context.values["limit"])


def over_optional_limit(context: GuardContext) -> bool:
    """The same, without a default."""
    return bool(context.counters.step > context.values.get("ceiling"))  # type: ignore[operator]


def counts(context: GuardContext) -> bool:
    """It gives a number."""
    return context.counters.step  # type: ignore[return-value]


def asks_of_nobody(context: GuardContext) -> str:
    """It asks about a call where there is none."""
    return f"May {context.call.tool} be called?"  # type: ignore[union-attr]


# -- guards that are not pure --------------------------------------------------------------------------------------

SEEN: list[int] = []
calls = 0


def office_hours(context: GuardContext) -> bool:
    """It looks at a clock."""
    return time.localtime().tm_hour < 18


def every_other(context: GuardContext) -> bool:
    """It counts its calls."""
    global calls
    calls += 1
    return calls % 2 == 0


def is_staging(context: GuardContext) -> bool:
    """It looks at the environment."""
    return os.environ.get("STAGE") == "staging"


def first_time(context: GuardContext) -> bool:
    """It remembers the steps that it has seen."""
    SEEN.append(context.counters.step)
    return len(SEEN) == 1


def notes_it(context: GuardContext) -> bool:
    """It changes the values of the run."""
    context.run.spec.values["seen"] = True
    return True


def remembering() -> Callable[[GuardContext], bool]:
    """Return a guard with a counter in its closure."""
    count = 0

    def remembers(context: GuardContext) -> bool:
        """It counts in its closure."""
        nonlocal count
        count += 1
        return count % 2 == 0

    return remembers


def counts_within(context: GuardContext) -> bool:
    """It counts in the values of the run, by a way that its code does not tell."""
    for held in [context.run.spec.values]:
        held["seen"] = held.get("seen", 0) + 1
    return True


# -- machines ------------------------------------------------------------------------------------------------------

STANDARD = Machine.standard()


def thinking() -> Machine:
    """Return a machine with a phase that asks nothing, without ways to it or from it."""
    return STANDARD.phase(Phase("Thinking"))


def required(guard: Callable[[GuardContext], bool], trigger: str = "specify") -> Machine:
    """Return the standard machine with one condition more."""
    return STANDARD.require(trigger, guard)


def asked(**asks: Any) -> Machine:
    """Return a machine that asks something before an answer is reviewed, twice at most."""
    return (
        STANDARD.phase(Phase("Asking", **asks))
        .row("Planning", "ask", "Asking", before="answer", at_most=2)
        .row("Asking", "back", "Planning", at_most=2)
        .row("Asking", "give_up", "Failed")
    )


def _unguarded_bound() -> Machine:
    data = verifying().to_dict()
    row = next(item for item in data["transitions"] if item["trigger"] == "rework")
    del row["conditions"]
    return Machine.from_dict(data, verifying())


def _ring(bound: int | None = None) -> Machine:
    return (
        STANDARD.phase(Phase("Asking"))
        .phase(Phase("Thinking"))
        .row("Reviewing", "ask", "Asking", when=often, before="finish")
        .row("Asking", "think", "Thinking", when=seldom, at_most=bound)
        .row("Asking", "finish", "Done")
        .row("Thinking", "again", "Asking")
    )


def _elsewhere() -> Machine:
    return (
        STANDARD.phase(Phase("Verifying", tool="tests.run"))
        .row("Reviewing", "verify", "Verifying", when="review_success", before="finish")
        .row("Verifying", "finish", "Done", when="succeeded")
        .row("Verifying", "rework", "Planning", when=seldom)
        .row("Verifying", "give_up", "Failed", at_most=3)
        .row("Verifying", "end", "Failed")
    )


def asked_again() -> Machine:
    return (
        STANDARD.phase(Phase("Asking", question="Go on?", answer=ADVICE))
        .row("Planning", "ask", "Asking", when=often, before="answer")
        .row("Asking", "advise", "Planning", when=seldom)
        .row("Asking", "give_up", "Failed")
    )


def _looking() -> Machine:
    return (
        STANDARD.phase(Phase("Looking", question="May it be called?", answer=APPROVE))
        .row("Specifying", "look", "Looking", when=("parameters_valid", seldom))
        .row("Looking", "back", "Specifying")
    )


def _calling_again() -> Machine:
    return (
        STANDARD.phase(Phase("Verifying", tool="tests.run"))
        .row("Reviewing", "verify", "Verifying", when="review_success", before="finish")
        .row("Verifying", "finish", "Done", when="succeeded")
        .row("Verifying", "once_more", "Verifying", when=seldom)
        .row("Verifying", "give_up", "Failed")
    )


def _cage() -> Machine:
    return (
        STANDARD.phase(Phase("Asking"))
        .phase(Phase("Thinking"))
        .row("Planning", "ask", "Asking", when=often, before="answer")
        .row("Asking", "think", "Thinking", at_most=3)
        .row("Thinking", "again", "Asking", at_most=3)
    )


def ending_with(*rows: tuple[Any, ...], **asks: Any) -> Machine:
    """Return a machine with a phase *Ending* before Done that has these rows: trigger, destination, guards."""
    machine = STANDARD.phase(Phase("Ending", **asks)).row(
        "Reviewing", "end", "Ending", when="review_success", before="finish"
    )
    for trigger, dest, *when in rows:
        machine = machine.row("Ending", trigger, dest, when=tuple(when))
    return machine


def _planned(when: str, before: str | None = None) -> Machine:
    return (
        thinking()
        .row("Planning", "think", "Thinking", when=when, before=before, at_most=1)
        .row("Thinking", "back", "Planning")
    )


DEFECTS: tuple[OwnDefect, ...] = (
    # a loop without a budget
    OwnDefect("loop", "to a phase and back", lambda: thinking().row("Planning", "think", "Thinking", when=often, before="answer").row("Thinking", "back", "Planning"), "engine", "endless_loop", "Planning.think"),
    OwnDefect("loop", "a phase that stays", lambda: ending_with(("finish", "Done", often), ("stay", "Ending")), "engine", "endless_loop", "Ending.stay"),
    OwnDefect("loop", "two phases in a ring", _ring, "engine", "endless_loop", "Asking.think"),
    OwnDefect("loop", "the bound is on a row beside it", _elsewhere, "engine", "endless_loop", "Verifying.rework"),
    OwnDefect("loop", "through an answer", asked_again, "engine", "endless_loop", "Asking.advise"),
    OwnDefect("loop", "through the completion review", lambda: verifying().phase(Phase("Thinking")).row("Reviewing", "think", "Thinking", when=often, before="finish").row("Thinking", "review", "Reviewing"), "engine", "endless_loop", "Thinking.review"),
    OwnDefect("loop", "a call that is looked at again", _looking, "engine", "endless_loop", "Specifying.look"),
    OwnDefect("loop", "a phase that calls again", _calling_again, "engine", "endless_loop", "Verifying.once_more"),
    OwnDefect("loop", "a bound without its guard", _unguarded_bound, "engine", "uncounted", "Verifying.rework"),
    OwnDefect("loop", "a call that begins its phase anew", lambda: STANDARD.phase(Phase("Looking", tool="tests.run")).row("Specifying", "look", "Looking", when=often).row("Looking", "give_up", "Failed"), "engine", "endless_loop", "Specifying.look"),
    OwnDefect("loop", "a bound of none", lambda: verifying(0), "built", "", "Verifying.rework"),
    OwnDefect("loop", "a bound that is counted elsewhere, too", lambda: verifying().phase(Phase("Thinking")).row("Thinking", "rework", "Planning", at_most=3), "built", "", "Thinking.rework"),
    # a dead end
    OwnDefect("dead end", "two phases that lead to each other alone", _cage, "engine", "uncovered_case", "Asking"),
    OwnDefect("dead end", "a phase that nothing leads on from", lambda: ending_with(), "engine", "uncovered_case", "Ending"),
    OwnDefect("dead end", "a call and no way on", lambda: ending_with(tool="tests.run"), "engine", "uncovered_case", "Ending"),
    OwnDefect("dead end", "a question and no way on", lambda: ending_with(question="Good?"), "engine", "uncovered_case", "Ending"),
    OwnDefect("dead end", "a run that begins where only Failed is", lambda: STANDARD.phase(Phase("Closed"), initial=True).row("Closed", "turn_away", "Failed"), "check", "unreachable_phase", "Planning"),
    # a row that an earlier one shadows
    OwnDefect("shadowed", "after the last one", lambda: ending_with(("finish", "Done"), ("stay", "Failed")), "check", "row_never_taken", "Ending.stay"),
    OwnDefect("shadowed", "the same guards", lambda: ending_with(("finish", "Done", often), ("leave", "Failed", often), ("end", "Done")), "check", "row_never_taken", "Ending.leave"),
    OwnDefect("shadowed", "more guards than one before it", lambda: ending_with(("finish", "Done", often), ("leave", "Failed", often, seldom), ("end", "Done")), "check", "row_never_taken", "Ending.leave"),
    OwnDefect("shadowed", "two before it take everything", lambda: ending_with(("finish", "Done", often), ("leave", "Failed", "not often"), ("end", "Done")), "check", "row_never_taken", "Ending.end"),
    OwnDefect("shadowed", "a guard that must hold and must not", lambda: ending_with(("finish", "Done", often, "not often"), ("end", "Done")), "check", "row_never_taken", "Ending.finish"),
    OwnDefect("shadowed", "behind a row of paor's own that fits", lambda: _planned("answer_present"), "check", "row_never_taken", "Planning.think"),
    # a guard that raises in some states, or gives no truth value
    OwnDefect("raises", "what it looks at is not there yet", lambda: required(last_failed, "finish"), "check", "guard_raises", "guard last_failed"),
    OwnDefect("raises", "a value that a run need not have", lambda: required(over_limit), "check", "guard_raises", "guard over_limit"),
    OwnDefect("raises", "a value without a default", lambda: required(over_optional_limit), "check", "guard_raises", "guard over_optional_limit"),
    OwnDefect("raises", "a number", lambda: required(counts), "check", "guard_raises", "guard counts"),
    OwnDefect("raises", "a question about nothing", lambda: asked(question=asks_of_nobody), "check", "guard_raises", "Asking.question"),
    # a guard that is not pure
    OwnDefect("impure", "a clock", lambda: required(office_hours), "warned", "impure_name", "guard office_hours"),
    OwnDefect("impure", "a global counter", lambda: required(every_other), "check", "impure_guard", "guard every_other"),
    OwnDefect("impure", "the environment", lambda: required(is_staging), "warned", "impure_name", "guard is_staging"),
    OwnDefect("impure", "a global list", lambda: required(first_time), "check", "impure_guard", "guard first_time"),
    OwnDefect("impure", "a variable of its closure", lambda: required(remembering()), "check", "impure_guard", "guard remembers"),
    OwnDefect("impure", "it changes its context", lambda: required(notes_it), "check", "impure_guard", "guard notes_it"),
    OwnDefect("impure", "it changes its context by a detour", lambda: required(counts_within), "check", "impure_guard", "guard counts_within"),
    # a case that no row takes
    OwnDefect("cover", "what did not succeed", lambda: ending_with(("finish", "Done", "succeeded"), tool="tests.run"), "engine", "uncovered_case", "Ending"),
    OwnDefect("cover", "what a guard refuses", lambda: ending_with(("finish", "Done", often)), "engine", "uncovered_case", "Ending"),
    OwnDefect("cover", "one of four cases", lambda: ending_with(("finish", "Done", often, seldom), ("leave", "Failed", "not often"), ("stop", "Failed", "not seldom", "not often")), "engine", "uncovered_case", "Ending"),
    OwnDefect("cover", "a bound that is used up", lambda: ending_with().row("Ending", "rework", "Planning", at_most=2), "engine", "uncovered_case", "Ending"),
    OwnDefect("cover", "a reply that does not fit", lambda: ending_with(("finish", "Done", "succeeded"), prompt="Judge.\n=== user ===\n{{KEY:OBJECTIVE}}\n\n{{KEY:REPLY}}", reply=APPROVE), "engine", "uncovered_case", "Ending"),
    # others
    OwnDefect("name", "a guard that nobody knows", lambda: ending_with(("finish", "Done", "is_good"), ("end", "Failed")), "engine", "unknown_name", "Ending.finish"),
    OwnDefect("name", "a phase that nobody knows", lambda: STANDARD.row("Reviewing", "verify", "Verifying"), "built", "", "Reviewing.verify"),
    OwnDefect("name", "a tool that the engine does not have", lambda: asked(tool="tests.walk"), "engine", "", "Asking"),
    OwnDefect("name", "a function without one", lambda: required(lambda context: True), "built", "", "guard"),
    OwnDefect("order", "a row from Executing", lambda: thinking().row("Executing", "think", "Thinking"), "built", "", "Executing.think"),
    OwnDefect("order", "a row to Executing", lambda: thinking().row("Thinking", "execute_it", "Executing"), "built", "", "Thinking.execute_it"),
    OwnDefect("order", "a row from Done", lambda: thinking().row("Done", "think", "Thinking"), "built", "", "Done.think"),
    OwnDefect("order", "behind the approval", lambda: two_reviewers().row("Specifying", "think", "FirstReview", when=often, before="specify", at_most=1), "built", "", "Specifying.think"),
    OwnDefect("order", "a refusal that is refused", lambda: required(often, "refuse"), "built", "", "refuse"),
    OwnDefect("order", "back to Specifying without a call", lambda: escalating().row("Escalating", "specify_it", "Specifying", when=often), "engine", "unready_phase", "Escalating.specify_it"),
    OwnDefect("order", "a phase that no run comes to", lambda: ending_with(("finish", "Done")).phase(Phase("Thinking")).row("Thinking", "back", "Failed"), "check", "unreachable_phase", "Thinking"),
    OwnDefect("order", "a row whose guards never hold together", lambda: _planned("result_known", "answer"), "check", "row_never_taken", "Planning.think"),
)  # fmt: skip
