"""
A small agent with a machine of its own, in which the testing kit looks for bugs planted in what the engine does for such machines.

A first model chooses mode and limits, two people agree to every payment, the shop's hours come from outside, and before Done the books are
checked by a tool and by a model. Written against the public names alone, as a user would.
"""

from __future__ import annotations

from typing import Any

from paor import Engine, Journal, Limits, Machine, Phase, tool
from paor.machine import GuardContext


@tool("orders.find", effect="read")
def find(number: int) -> str:
    """Find an order."""
    return f"order {number} is late"


@tool("bank.pay", effect="once")
def pay(cents: int) -> str:
    """Pay."""
    return f"paid {cents}"


@tool("books.check", effect="read")
def check() -> str:
    """Check the books."""
    return "the books agree"


@tool("books.close", effect="idempotent")
def close(day: int) -> str:
    """Close the books of a day."""
    return f"day {day} is closed"


CHOICE: dict[str, Any] = {
    "type": "object",
    "properties": {"mode": {"enum": ["react", "batch", "planner"]}, "limits": {"type": "object"}},
}
VERDICT: dict[str, Any] = {
    "type": "object",
    "properties": {"verdict": {"enum": ["fine", "poor"]}},
    "required": ["verdict"],
    "additionalProperties": False,
}
YES: dict[str, Any] = {
    "type": "object",
    "properties": {"approve": {"type": "boolean"}},
    "required": ["approve"],
    "additionalProperties": False,
}
FORM = "Judge.\n=== user ===\n{{KEY:OBJECTIVE}}\n\n{{KEY:REPLY}}"


def is_payment(context: GuardContext) -> bool:
    """The call is a payment."""
    return context.call is not None and context.call.tool == "bank.pay"


def not_seen(context: GuardContext) -> bool:
    """Nobody has looked at this very call yet."""
    return context.visited("First") is None


def agreed(context: GuardContext) -> bool:
    """Two people have agreed to this very call."""
    found = [context.visited(phase) for phase in ("First", "Second")]
    return all(visit is not None and visit.ok and visit.value["approve"] for visit in found)


def open_now(context: GuardContext) -> bool:
    """The shop is open."""
    return bool(context.values.get("open", False))


def busy(context: GuardContext) -> bool:
    """The shop is open, so that the objective has to be narrowed first."""
    return bool(context.values.get("open", False))


def poor(context: GuardContext) -> bool:
    """The last verdict was poor."""
    visit = context.visited("Judging")
    return visit is not None and visit.ok and visit.value["verdict"] == "poor"


def machine() -> Machine:
    """Return the machine."""
    complete = ("parameters_valid", "parameters_safe", "action_allowed", "not duplicate")
    return (
        Machine.standard()
        .phase(Phase("Triage", prompt=FORM, reply=CHOICE, chooses=True), initial=True)
        .row("Triage", "begin", "Planning")
        .phase(Phase("Scoping", prompt=FORM, reply=VERDICT))
        .row("Planning", "scope", "Scoping", when=busy, before="wait", at_most=1)
        .row("Scoping", "go_on", "Planning")
        .phase(Phase("First", question="May it be paid?", answer=YES))
        .phase(Phase("Second", question="May it be paid, too?", answer=YES))
        .row("Specifying", "look", "First", when=(*complete, is_payment, not_seen), at_most=1)
        .row("First", "pass_on", "Second")
        .row("Second", "back", "Specifying", when="succeeded")
        .row("Second", "decline", "Planning", at_most=1)
        .row("Second", "give_up", "Failed")
        .require("specify", agreed, tool="bank.*")
        .require("specify", open_now, tool="books.close")
        .ask_values("specify")
        .phase(Phase("Checking", tool="books.check"))
        .phase(Phase("Closing", tool="books.close", arguments={"day": 1}))
        .phase(Phase("Judging", prompt=FORM, reply=VERDICT))
        .row("Reviewing", "check_books", "Checking", when="review_success", before="finish", at_most=1)
        .row("Checking", "judge", "Judging", when="succeeded")
        .row("Checking", "rework", "Planning", at_most=1)
        .row("Checking", "give_up", "Failed")
        .row("Judging", "redo", "Planning", when=poor, at_most=1)
        .row("Judging", "close_books", "Closing")
        .row("Closing", "finish", "Done")
    )


MACHINE = machine()


def hours(run_id: str, phase: str) -> dict[str, Any]:
    """Return whether the shop is open; the kit draws what is said in its place."""
    return {"open": True}


def engine(journal: Journal) -> Engine:
    """Return the agent for a journal; the kit brings model, clock and ids."""
    tools = (find, pay, check, close)
    limits = Limits(max_steps=4)
    return Engine("offline", tools, journal, limits, builtins=False, machine=MACHINE, values=hours)
