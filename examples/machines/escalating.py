"""
After two failures a person decides: advice for the next plan, or the end.

    python examples/machines/escalating.py
    paor check --app escalating:engine                  # in this folder
    paor diagram --app escalating:engine --format svg --output escalating.svg

The question says what failed; the answer has a schema of its own, and reaches the next plan. Once a run, so that nobody is asked for ever. The
model is a script.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from shown import ask, play, show

from paor import Engine, Journal, Machine, Phase, ScriptedModel, tool
from paor.errors import InvalidAnswer, ToolError
from paor.machine import GuardContext
from paor.testing import SeededIds, SteppingClock, call, refine

ADVICE: dict[str, Any] = {
    "type": "object",
    "properties": {"advice": {"type": "string", "minLength": 1}},
    "required": ["advice"],
    "additionalProperties": False,
}


# lines: a new phase with a person
def two_failures(context: GuardContext) -> bool:
    """Two calls in a row have failed."""
    return context.counters.errors >= 2


def what_failed(context: GuardContext) -> str:
    """Return what the person is asked."""
    return f"Two calls failed, the last one: {context.run.memory.history[-1].summary}. How to go on?"


MACHINE = (
    Machine.standard()
    .phase(Phase("Escalating", question=what_failed, answer=ADVICE))
    .row("Reviewing", "escalate", "Escalating", when=two_failures, before="next_step", at_most=1)
    .row("Escalating", "advise", "Planning", when="succeeded")
    .row("Escalating", "give_up", "Failed")
)
# end


@tool("db.query", effect="read")
def query(sql: str) -> str:
    """Ask the database."""
    if "from orders" not in sql:
        raise ToolError(f"no such table in: {sql}")
    return "42"


QUERIES = ("select count(*) from order", "select count(*) from sales", "select count(*) from orders")


def replies() -> list[Any]:
    """Return what a model says that guesses the table's name twice, and then does as it is advised."""
    *guesses, last = QUERIES
    said: list[Any] = [reply for sql in guesses for reply in (*call("db.query", sql=sql), refine("continue"))]
    return [*said, *call("db.query", sql=last), refine("stop", answer="There are 42 orders.")]


def engine(journal: Journal) -> Engine:
    """Return the engine."""
    return Engine(
        ScriptedModel(replies()),
        [query],
        journal,
        machine=MACHINE,
        clock=SteppingClock(),
        ids=SeededIds("escalating"),
        builtins=False,
    )


def advised(journal: Journal, folder: Path) -> None:
    """A person advises, and the third query works."""
    with engine(journal) as asking:
        result = asking.run("How many orders are there?")
        try:
            asking.resume(result.run_id, answer={"hint": "orders"}, actor="ann")
        except InvalidAnswer as error:
            print(f"  not taken: {' '.join(str(error).split())[:150]}")
        given = ask(result.waiting_for, "ann", {"advice": "the table is called orders"})
        show(asking, asking.resume(result.run_id, **given))


def stopped(journal: Journal, folder: Path) -> None:
    """A person declines: the run ends."""
    with engine(journal) as asking:
        result = asking.run("How many orders are there?")
        show(
            asking,
            asking.resume(result.run_id, **ask(result.waiting_for, "ann", {"action": "decline"})),
        )


if __name__ == "__main__":
    play(advised, stopped)
