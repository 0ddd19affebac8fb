"""Defects planted in machines of a host's own, by kind: each is to be found before a run starts."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple

from paor import Machine, Phase
from paor.machine import GuardContext

from ..support.own_machines import CHOICE, TRIAGE, four_eyes, once_call, two_failures, verifying


class OwnDefect(NamedTuple):
    """
    One planted defect.

    Attributes:
        kind: Of the list of kinds.
        make: Builds the machine; may raise itself.
        found: Where it is found: ``built`` (the method that adds it), ``engine`` (`Engine(machine=...)`), ``check`` (`paor check`).
        code: Of the finding; empty where it is found while it is built.
        told: What the message names.
    """

    kind: str
    make: Callable[[], Machine]
    found: str
    code: str
    told: str


def standard() -> Machine:
    """Return the machine to begin with."""
    return Machine.standard()


def open_question(context: GuardContext) -> bool:
    """Something is open."""
    return context.counters.errors > 0


_COUNTED = [0]


def counts_itself(context: GuardContext) -> bool:
    """It counts how often it is asked."""
    _COUNTED[0] += 1
    return _COUNTED[0] < 9


def by_the_clock(context: GuardContext) -> bool:
    """It looks at a clock of its own."""
    return time.time() > 0


def by_the_day(context: GuardContext) -> bool:
    """It looks at today's date."""
    return datetime.now().hour < 18  # noqa: DTZ005 - that is the defect


def by_chance(context: GuardContext) -> bool:
    """It throws a coin."""
    return random.random() < 0.5


def by_the_environment(context: GuardContext) -> bool:
    """It looks at the environment."""
    return "OPEN" in os.environ


def _remembering() -> Callable[[GuardContext], bool]:
    seen: list[int] = []

    def remembers(context: GuardContext) -> bool:
        """It remembers what it saw."""
        seen.append(context.run.seq)
        return len(seen) < 5

    return remembers


def changes_its_context(context: GuardContext) -> bool:
    """It writes into what it looks at."""
    context.trouble = "mine"
    return True


class Desk:
    """Something that changes where no guard can see it."""

    def __init__(self) -> None:
        self.open = 0

    def is_open(self) -> bool:
        """Return another answer each time."""
        self.open += 1
        return self.open % 2 == 0


def raises_in_reviewing(context: GuardContext) -> bool:
    """It takes a refinement for granted."""
    return context.refinement.decision == "stop"  # type: ignore[union-attr]


def raises_without_value(context: GuardContext) -> bool:
    """It takes a value of the host for granted."""
    return bool(context.values["credit"] > 5)


def raises_for_other_calls(context: GuardContext) -> bool:
    """It takes an argument for granted that only some tools have."""
    assert context.call is not None
    return bool(context.call.arguments["amount"] < 10)


def says_maybe(context: GuardContext) -> bool:
    """It gives a number."""
    return context.counters.step  # type: ignore[return-value]


def asks_without_history(context: GuardContext) -> str:
    """Return a question that takes an action for granted."""
    return f"What of {context.run.memory.history[0].tool}?"


def unbounded_ring() -> Machine:
    """Return two phases that lead to each other for ever."""
    return (
        standard()
        .phase(Phase("There"))
        .phase(Phase("Back"))
        .row("Reviewing", "go", "There", when=open_question, before="next_step", at_most=1)
        .row("There", "on", "Back", when=open_question)
        .row("There", "end", "Planning")
        .row("Back", "again", "There", when=open_question)
        .row("Back", "end", "Planning")
    )


def rework(**bound: Any) -> Machine:
    """Return Verifying whose way back has *bound*."""
    return (
        standard()
        .phase(Phase("Verifying", tool="tests.run"))
        .row("Reviewing", "verify", "Verifying", when="review_success", before="finish")
        .row("Verifying", "finish", "Done", when="succeeded")
        .row("Verifying", "rework", "Planning", **bound)
    )


def aside(*rows: tuple[Any, ...], phase: Phase | None = None, **last: Any) -> Machine:
    """Return a machine with one phase beside Reviewing, and *rows* of it."""
    machine = standard().phase(phase or Phase("Aside"))
    machine = machine.row(
        "Reviewing", "step_aside", "Aside", when=open_question, before="next_step", at_most=2
    )
    for row in rows:
        machine = machine.row("Aside", *row)
    return machine


SELF_LOOP = ("linger", "Aside", "not open_question")

DEFECTS: dict[str, OwnDefect] = {
    # -- loops without a budget ------------------------------------------------------------------------------------
    "back to planning by an answer": OwnDefect("loop", rework, "engine", "endless_loop", "Verifying.rework"),
    "a phase that leads to itself": OwnDefect(
        "loop",
        lambda: aside(SELF_LOOP, ("back", "Planning")).guard(open_question),
        "engine",
        "endless_loop",
        "Aside.linger",
    ),
    "two phases in a ring": OwnDefect("loop", unbounded_ring, "engine", "endless_loop", "There.on"),
    "reviewing to reviewing": OwnDefect(
        "loop",
        lambda: (
            standard()
            .phase(Phase("Aside"))
            .row("Reviewing", "step_aside", "Aside", when=open_question, before="next_step")
            .row("Aside", "back", "Reviewing")
        ),
        "engine",
        "endless_loop",
        "Reviewing.step_aside",
    ),
    "specifying and back": OwnDefect(
        "loop",
        lambda: (
            standard()
            .phase(Phase("Looking", question="?"))
            .row("Specifying", "look", "Looking", when=once_call)
            .row("Looking", "back", "Specifying")
        ),
        "engine",
        "endless_loop",
        "Specifying.look",
    ),
    "planning to itself over a phase": OwnDefect(
        "loop",
        lambda: (
            standard()
            .phase(Phase("Pausing"))
            .row("Planning", "pause", "Pausing", when=open_question, before="select")
            .row("Pausing", "wake", "Planning")
        ),
        "engine",
        "endless_loop",
        "Planning.pause",
    ),
    "a bound that the loop does not come by": OwnDefect(
        "loop",
        lambda: (
            aside(SELF_LOOP, ("back", "Planning", open_question, None), ("end", "Failed"))
            .guard(open_question)
            .row("Aside", "once", "Planning", when="concluded", before="back", at_most=1)
        ),
        "engine",
        "endless_loop",
        "Aside.linger",
    ),
    "a model asked for ever": OwnDefect(
        "loop",
        lambda: aside(
            ("again", "Aside", "succeeded"),
            ("back", "Planning"),
            phase=Phase("Aside", prompt="{{KEY:OBJECTIVE}}", reply={"properties": {"a": {"type": "string"}}}),
        ),
        "engine",
        "endless_loop",
        "Aside.again",
    ),
    # -- dead ends ---------------------------------------------------------------------------------------------------
    "nothing leads on": OwnDefect("dead end", aside, "engine", "uncovered_case", "Aside"),
    "only itself leads on": OwnDefect(
        "dead end",
        lambda: (
            standard()
            .phase(Phase("Aside"))
            .row("Reviewing", "step_aside", "Aside", when=open_question, before="next_step")
            .row("Aside", "stay", "Aside", at_most=5)
            .row("Aside", "remain", "Aside")
        ),
        "engine",
        "dead_end",
        "Aside",
    ),
    "two phases without a way out": OwnDefect(
        "dead end",
        lambda: (
            standard()
            .phase(Phase("There"))
            .phase(Phase("Back"))
            .row("Reviewing", "go", "There", when=open_question, before="next_step")
            .row("There", "on", "Back")
            .row("Back", "again", "There")
        ),
        "engine",
        "dead_end",
        "There",
    ),
    "a row to a phase that is not there": OwnDefect(
        "dead end",
        lambda: standard().row("Reviewing", "go", "Nowhere"),
        "built",
        "",
        "there is no phase 'Nowhere'",
    ),
    # -- shadowed rows -----------------------------------------------------------------------------------------------
    "behind a row without guards": OwnDefect(
        "shadowed",
        lambda: aside(("back", "Planning"), ("never", "Failed")),
        "engine",
        "shadowed_row",
        "Aside.never",
    ),
    "the same guards twice": OwnDefect(
        "shadowed",
        lambda: aside(("back", "Planning", "concluded"), ("other", "Failed", "concluded"), ("end", "Failed")),
        "engine",
        "shadowed_row",
        "Aside.other",
    ),
    "both values come before": OwnDefect(
        "shadowed",
        lambda: aside(
            ("back", "Planning", "concluded"),
            ("other", "Failed", "not concluded"),
            ("end", "Failed", "final_action_pending"),
        ),
        "engine",
        "shadowed_row",
        "Aside.end",
    ),
    "rows of paor's own in passing": OwnDefect(
        "shadowed",
        lambda: (
            standard()
            .phase(Phase("Verifying", tool="tests.run"))
            .row("Reviewing", "verify", "Verifying", when="review_success", before="format")
            .row("Verifying", "finish", "Done")
        ),
        "engine",
        "shadowed_row",
        "Reviewing.finish",
    ),
    # -- guards that raise -------------------------------------------------------------------------------------------
    "raises in some states": OwnDefect(
        "raises",
        lambda: standard().require("finish", raises_in_reviewing),
        "check",
        "guard_raises",
        "raises_in_reviewing",
    ),
    "raises without a value of the host": OwnDefect(
        "raises",
        lambda: standard().require("specify", raises_without_value),
        "check",
        "guard_raises",
        "context.values.get",
    ),
    "raises for calls of other tools": OwnDefect(
        "raises",
        lambda: standard().require("specify", raises_for_other_calls),
        "check",
        "guard_raises",
        "raises_for_other_calls",
    ),
    "gives no bool": OwnDefect(
        "raises",
        lambda: standard().require("conclude", says_maybe),
        "check",
        "guard_raises",
        "says_maybe gave a int",
    ),
    "a question that raises": OwnDefect(
        "raises",
        lambda: (
            standard()
            .phase(Phase("Opening", question=asks_without_history), initial=True)
            .row("Opening", "begin", "Planning")
        ),
        "check",
        "guard_raises",
        "Opening.question",
    ),
    # -- impure guards -----------------------------------------------------------------------------------------------
    "a clock": OwnDefect(
        "impure", lambda: standard().require("specify", by_the_clock), "engine", "impure_guard", "time.time"
    ),
    "today": OwnDefect(
        "impure", lambda: standard().require("specify", by_the_day), "engine", "impure_guard", "datetime"
    ),
    "chance": OwnDefect(
        "impure", lambda: standard().require("specify", by_chance), "engine", "impure_guard", "random"
    ),
    "the environment": OwnDefect(
        "impure",
        lambda: standard().require("specify", by_the_environment),
        "engine",
        "impure_guard",
        "environ",
    ),
    "a global that it changes": OwnDefect(
        "impure", lambda: standard().require("specify", counts_itself), "engine", "impure_guard", "_COUNTED"
    ),
    "a closure that it changes": OwnDefect(
        "impure", lambda: standard().require("specify", _remembering()), "engine", "impure_guard", "seen"
    ),
    "its own context": OwnDefect(
        "impure",
        lambda: standard().require("specify", changes_its_context),
        "engine",
        "impure_guard",
        "trouble",
    ),
    # -- missing cover -----------------------------------------------------------------------------------------------
    "no row where a call fails": OwnDefect(
        "cover",
        lambda: (
            standard()
            .phase(Phase("Verifying", tool="tests.run"))
            .row("Reviewing", "verify", "Verifying", when="review_success", before="finish")
            .row("Verifying", "finish", "Done", when="succeeded")
        ),
        "engine",
        "uncovered_case",
        "succeeded is False",
    ),
    "no row where the bound is used up": OwnDefect(
        "cover", lambda: rework(at_most=3), "engine", "uncovered_case", "rework_left is False"
    ),
    "no row where a person declines": OwnDefect(
        "cover",
        lambda: aside(("back", "Planning", "succeeded"), phase=Phase("Aside", question="Go on?")),
        "engine",
        "uncovered_case",
        "succeeded is False",
    ),
    "no row where an own guard says no": OwnDefect(
        "cover",
        lambda: aside(("back", "Planning", two_failures)),
        "engine",
        "uncovered_case",
        "two_failures is False",
    ),
    # -- others --------------------------------------------------------------------------------------------------------
    "a guard that is not there": OwnDefect(
        "other",
        lambda: standard().row("Reviewing", "go", "Done", when="moonlight", before="finish"),
        "engine",
        "unknown_name",
        "moonlight",
    ),
    "a phase that nobody comes to": OwnDefect(
        "other",
        lambda: verifying().phase(Phase("Lonely")).row("Lonely", "end", "Failed"),
        "engine",
        "unreachable_phase",
        "Lonely",
    ),
    "back to a call that is not there": OwnDefect(
        "other", lambda: aside(("call_again", "Specifying")), "engine", "unready_phase", "Aside.call_again"
    ),
    "from where a tool works": OwnDefect(
        "other", lambda: standard().row("Executing", "skip", "Planning"), "built", "", "would be lost"
    ),
    "an approval passed over": OwnDefect(
        "other", lambda: standard().require("wait", four_eyes), "built", "", "passed over"
    ),
    "a choice in the middle": OwnDefect(
        "other",
        lambda: standard().phase(Phase("Triage", prompt=TRIAGE, reply=CHOICE, chooses=True)),
        "built",
        "",
        "in which a run begins",
    ),
}
"""By what is wrong."""
