"""Machines of a host's own for the tests: one of each kind, each with an engine that a script drives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from paor import Engine, Machine, Phase, ScriptedModel, Tool, tool
from paor.machine import GuardContext
from paor.testing import SeededIds, SteppingClock, call, refine, review


class World:
    """
    The tools of the machines below, and what they did.

    Attributes:
        failures: How often `tests.run` and `db.query` fail before they succeed.
        done: Names of the calls that were made, in order.
    """

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.done: list[str] = []

    def tools(self) -> list[Tool]:
        """Return the tools: two that may fail, one with an effect that happens once, one that writes."""

        def fallible(name: str) -> str:
            self.done.append(name)
            if self.failures:
                self.failures -= 1
                raise RuntimeError(f"{name} failed: 1 != 2")
            return "all 12 passed"

        @tool("tests.run", effect="read")
        def run_tests() -> str:
            """Run the tests."""
            return fallible("tests.run")

        @tool("db.query", effect="read")
        def query(sql: str) -> str:
            """Ask the database."""
            return fallible("db.query")

        @tool("patch.write", effect="idempotent")
        def write(text: str) -> str:
            """Write a patch."""
            self.done.append("patch.write")
            return f"written {text}"

        @tool("bank.pay", effect="once")
        def pay(amount: int) -> str:
            """Pay."""
            self.done.append(f"bank.pay {amount}")
            return "paid"

        return [run_tests, query, write, pay]


# -- Verifying: the tests run before Done --------------------------------------------------------------------------


def verifying(at_most: int = 3) -> Machine:
    """Return the machine that is Done only once the tests pass."""
    return (
        Machine.standard()
        .phase(Phase("Verifying", tool="tests.run"))
        .row("Reviewing", "verify", "Verifying", when="review_success", before="finish")
        .row("Verifying", "finish", "Done", when="succeeded")
        .row("Verifying", "rework", "Planning", at_most=at_most)
        .row("Verifying", "give_up", "Failed")
    )


def patch_script(*texts: str) -> list[Any]:
    """Return the replies of a model that writes one patch after the other."""
    return [
        reply
        for text in texts
        for reply in (*call("patch.write", text=text), refine("stop", answer=f"fixed {text}"))
    ]


# -- Escalating: a person decides after two failures ---------------------------------------------------------------


def two_failures(context: GuardContext) -> bool:
    """Two calls in a row have failed."""
    return context.counters.errors >= 2


def what_failed(context: GuardContext) -> str:
    """Return the question to the person."""
    return f"Two calls failed, the last one: {context.run.memory.history[-1].summary}. How to go on?"


ADVICE: dict[str, Any] = {
    "type": "object",
    "properties": {"advice": {"type": "string"}},
    "required": ["advice"],
    "additionalProperties": False,
}


def escalating() -> Machine:
    """Return the machine that asks a person after two failures."""
    return (
        Machine.standard()
        .phase(Phase("Escalating", question=what_failed, answer=ADVICE))
        .row("Reviewing", "escalate", "Escalating", when=two_failures, before="next_step", at_most=1)
        .row("Escalating", "advise", "Planning", when="succeeded")
        .row("Escalating", "give_up", "Failed")
    )


def query_script(*queries: str) -> list[Any]:
    """Return the replies of a model that asks the database, and stops after the last query."""
    replies: list[Any] = []
    for number, sql in enumerate(queries, 1):
        end = refine("stop", answer="42") if number == len(queries) else refine("continue")
        replies += [*call("db.query", sql=sql), end]
    return replies


# -- TwoReviewers: four eyes before a once call --------------------------------------------------------------------

APPROVE: dict[str, Any] = {
    "type": "object",
    "properties": {"approve": {"type": "boolean"}},
    "required": ["approve"],
    "additionalProperties": False,
}


def once_call(context: GuardContext) -> bool:
    """The call has an effect that may happen once only."""
    return context.call is not None and context.call.effect == "once"


def not_reviewed(context: GuardContext) -> bool:
    """Nobody has looked at this very call yet."""
    return context.visited("FirstReview") is None


def four_eyes(context: GuardContext) -> bool:
    """Two different people have agreed to this very call."""
    first, second = context.visited("FirstReview"), context.visited("SecondReview")
    if first is None or second is None or not (first.ok and second.ok):
        return False
    return bool(first.value["approve"] and second.value["approve"] and first.actor != second.actor)


def which_call(context: GuardContext) -> str:
    """Return the question to a reviewer."""
    assert context.call is not None
    return f"May {context.call.tool} be called with {dict(context.call.arguments)}?"


def two_reviewers() -> Machine:
    """Return the machine whose bank is called only when two people agree."""
    complete = ("parameters_valid", "parameters_safe", "action_allowed", "not duplicate")
    return (
        Machine.standard()
        .phase(Phase("FirstReview", question=which_call, answer=APPROVE))
        .phase(Phase("SecondReview", question=which_call, answer=APPROVE))
        .row("Specifying", "look", "FirstReview", when=(*complete, once_call, not_reviewed), at_most=20)
        .row("FirstReview", "pass_on", "SecondReview", when="succeeded")
        .row("FirstReview", "back", "Specifying")
        .row("SecondReview", "back", "Specifying")
        .require("specify", four_eyes, tool="bank.*")
    )


def pay_script(*amounts: int) -> list[Any]:
    """Return the replies of a model that pays one amount after the other."""
    replies: list[Any] = []
    for number, amount in enumerate(amounts, 1):
        end = refine("stop", answer="paid") if number == len(amounts) else refine("continue")
        replies += [*call("bank.pay", amount=amount), end]
    return replies


# -- Triage: a first model chooses mode and limits -----------------------------------------------------------------

CHOICE: dict[str, Any] = {
    "type": "object",
    "properties": {"mode": {"enum": ["react", "batch", "planner"]}, "limits": {"type": "object"}},
    "required": ["mode"],
}
TRIAGE = "Choose how to work on the objective.\n=== user ===\n{{KEY:OBJECTIVE}}\n\n{{KEY:REPLY}}"


def triage(*choices: Mapping[str, Any] | str, name: str = "cheap") -> Machine:
    """Return the machine whose first phase has a model of its own choose."""
    model = ScriptedModel([dict(item) if isinstance(item, Mapping) else item for item in choices], name=name)
    return (
        Machine.standard()
        .phase(Phase("Triage", prompt=TRIAGE, reply=CHOICE, model=model, chooses=True), initial=True)
        .row("Triage", "begin", "Planning")
    )


BATCH = {
    "id": "p",
    "intention": "ask",
    "steps": [{"type": "tool", "name": "db.query", "args": {"sql": "count"}}],
}


def engine(
    path: Path | str, machine: Machine | None, script: list[Any], world: World | None = None, **options: Any
) -> Engine:
    """Return an engine with *machine* that *script* drives, with the same ids and times each time."""
    return Engine(
        ScriptedModel(script),
        tools=(world or World()).tools(),
        journal=str(path),
        machine=machine,
        clock=SteppingClock(),
        ids=SeededIds("own"),
        **options,
    )


def walk(of: Engine, run_id: str) -> str:
    """Return the triggers of a run's rows, in order."""
    return " ".join(row.trigger for row in of.journal.transitions(run_id))


Make = Callable[[Path, World], tuple[Engine, list[dict[str, Any]]]]
"""Makes an engine, and the answers that its run wants, in order."""


def _verifying(path: Path, world: World) -> tuple[Engine, list[dict[str, Any]]]:
    world.failures = 1
    return engine(path, verifying(), patch_script("a", "b"), world), []


def _escalating(path: Path, world: World) -> tuple[Engine, list[dict[str, Any]]]:
    world.failures = 2
    return engine(path, escalating(), query_script("a", "b", "c"), world), [{"answer": {"advice": "use t"}}]


def _two_reviewers(path: Path, world: World) -> tuple[Engine, list[dict[str, Any]]]:
    script = [*pay_script(5, 7), review("failed", answer="One payment was refused.")]
    yes = [{"answer": {"approve": True}, "actor": actor} for actor in ("ann", "bob", "ann", "ann")]
    return engine(path, two_reviewers(), script, world), yes


def _triage(path: Path, world: World) -> tuple[Engine, list[dict[str, Any]]]:
    script = [
        "the cheap model answers first",
        BATCH,
        {"status": "success", "improvements": [], "answer": "ok"},
    ]
    return engine(path, triage({"mode": "batch", "limits": {"max_steps": 2}}), script, world), []


KINDS: dict[str, Make] = {
    "verifying": _verifying,
    "escalating": _escalating,
    "two_reviewers": _two_reviewers,
    "triage": _triage,
}
"""One engine of each kind, with all that its run needs to end."""
