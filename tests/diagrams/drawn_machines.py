"""Machines of hosts: the four examples, one without phases of its own, and one with six; and random ones, built through the API."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from paor import Machine, Phase
from paor.machine import GuardContext

from .inside import Guard

ADVICE = {"type": "object", "properties": {"advice": {"type": "string"}}, "required": ["advice"]}
CHOICE = {"type": "object", "properties": {"mode": {"enum": ["react", "batch"]}}, "required": ["mode"]}
PROMPT = "Choose a mode.\n=== user ===\n{{KEY:OBJECTIVE}}\n\n{{KEY:REPLY}}"


def two_failures(context: GuardContext) -> bool:
    """Two calls in a row have failed."""
    return context.counters.errors >= 2


def once_call(context: GuardContext) -> bool:
    """The call has an effect that may happen once only."""
    return context.call is not None and context.call.effect == "once"


def not_seen(context: GuardContext) -> bool:
    """Nobody has looked yet."""
    return context.visited("FirstReview") is None


def four_eyes(context: GuardContext) -> bool:
    """Two different people have agreed to this very call."""
    first, second = context.visited("FirstReview"), context.visited("SecondReview")
    return first is not None and second is not None and first.actor != second.actor


def office_hours(context: GuardContext) -> bool:
    """The bank is open."""
    return bool(context.values.get("open", True))


def what_failed(context: GuardContext) -> str:
    return f"{context.counters.errors} calls have failed. How to go on?"


def verifying(machine: Machine | None = None) -> Machine:
    """Done only once the tests pass."""
    return (
        (machine or Machine.standard())
        .phase(Phase("Verifying", tool="tests.run"))
        .row("Reviewing", "verify", "Verifying", when="review_success", before="finish")
        .row("Verifying", "finish", "Done", when="succeeded")
        .row("Verifying", "rework", "Planning", at_most=3)
        .row("Verifying", "give_up", "Failed")
    )


def escalating(machine: Machine | None = None) -> Machine:
    """A person decides after two failures."""
    return (
        (machine or Machine.standard())
        .phase(Phase("Escalating", question=what_failed, answer=ADVICE))
        .row("Reviewing", "escalate", "Escalating", when=two_failures, before="next_step", at_most=1)
        .row("Escalating", "advise", "Planning", when="succeeded")
        .row("Escalating", "stop_here", "Failed")
    )


def reviewers(machine: Machine | None = None) -> Machine:
    """Four eyes before a call that happens once."""
    fits = ("parameters_valid", "action_allowed", "parameters_safe", once_call, not_seen)
    return (
        (machine or Machine.standard())
        .phase(Phase("FirstReview", question="May it be called?"))
        .phase(Phase("SecondReview", question="May it really be called?"))
        .row("Specifying", "look", "FirstReview", when=fits, at_most=20)
        .row("FirstReview", "pass_on", "SecondReview", when="succeeded")
        .row("FirstReview", "decline", "Specifying")
        .row("SecondReview", "back", "Specifying")
        .require("specify", four_eyes, tool="bank.*")
    )


def triage(machine: Machine | None = None) -> Machine:
    """A first model chooses the mode."""
    return (
        (machine or Machine.standard())
        .phase(Phase("Triage", prompt=PROMPT, reply=CHOICE, chooses=True), initial=True)
        .row("Triage", "begin", "Planning")
    )


def guarded(machine: Machine | None = None) -> Machine:
    """No phase, but a guard and rows between the seven."""
    return (
        (machine or Machine.standard())
        .require("specify", office_hours, tool="bank.*")
        .require("select", two_failures)
        .row("Planning", "skip", "Reviewing", when="not plan_has_steps", at_most=2)
        .row("Reviewing", "abandon", "Failed", when="office_hours", at_most=1)
    )


def six(machine: Machine | None = None) -> Machine:
    """All at once."""
    whole = triage(reviewers(escalating(verifying(machine)))).phase(Phase("Auditing"))
    return (
        whole.row("Escalating", "to_audit", "Auditing", when="not succeeded")
        .row("Auditing", "pass_audit", "Reviewing", when="succeeded")
        .row("Auditing", "give_up_now", "Failed")
    )


MACHINES: dict[str, Callable[[], Machine]] = {
    made.__name__: made for made in (verifying, escalating, reviewers, triage, guarded, six)
}

_WHEN: st.SearchStrategy[str | Guard] = st.sampled_from(
    ["succeeded", "not succeeded", "review_success", "not duplicate", two_failures, office_hours]
)
_ASKS: tuple[dict[str, Any], ...] = (
    {},
    {"tool": "tests.run"},
    {"tool": "tests.run", "arguments": {"deep": {"list": [1, 2.5, None, "ü"]}}},
    {"question": "Why?"},
    {"question": what_failed, "answer": ADVICE},
    {"prompt": PROMPT, "reply": CHOICE},
)


@st.composite
def machines(draw: st.DrawFn) -> Machine:
    """A machine as a host may build it; not all of them may be walked."""
    machine = Machine.standard()
    names = draw(
        st.lists(st.sampled_from(["Verifying", "B", "Checking2", "AsLongAsItGetsButNotLonger"]), unique=True)
    )
    for place, name in enumerate(names):
        machine = machine.phase(
            Phase(name, **draw(st.sampled_from(_ASKS))), initial=place == 0 and draw(st.booleans())
        )
    if draw(st.booleans()):
        machine = machine.require(draw(st.sampled_from(["specify", "select", "finish"])), office_hours)
    ends = ["Planning", "Specifying", "Reviewing", *names]
    for number in range(draw(st.integers(0, 8))):
        source = draw(st.sampled_from(ends))
        done = [] if source in ("Planning", "Specifying") else ["Done"]
        machine = machine.row(
            source,
            f"way{number}",
            draw(st.sampled_from([*ends, *done, "Failed"])),
            when=draw(st.lists(_WHEN, max_size=3)),
            at_most=draw(st.none() | st.integers(1, 9)),
            meaning=draw(st.sampled_from(["", "a way of its own"])),
        )
    return machine.ask_values("finish") if draw(st.booleans()) else machine
