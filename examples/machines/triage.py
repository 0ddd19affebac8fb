"""
A first, cheap model chooses how a run works: its mode, and limits below those that the run was given.

    python examples/machines/triage.py
    paor check --app triage:engine                  # in this folder
    paor diagram --app triage:engine --format svg --output triage.svg

A choice that is none is asked for again. No limit rises: a cheap model cannot spend more than its host allows. Scripts stand for both models.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from shown import play, show

from paor import Engine, Journal, Limits, Machine, Phase, ScriptedModel, tool
from paor.testing import SeededIds, SteppingClock, call, plan, refine, review, step

CHOICE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "mode": {"enum": ["react", "batch"]},
        "limits": {
            "type": "object",
            "properties": {"max_steps": {"type": "integer"}},
            "additionalProperties": False,
        },
    },
    "required": ["mode"],
}
PROMPT = """Choose how to work on the objective: batch if all calls are known beforehand, else react.

=== user ===

## Objective
{{KEY:OBJECTIVE}}

## What was wrong with your last reply
{{KEY:FEEDBACK}}

## Reply
{{KEY:REPLY}}
"""


def machine(cheap: ScriptedModel) -> Machine:
    """Return the machine whose first phase asks the cheap model."""
    # lines: a new phase with a model
    triage = Phase("Triage", prompt=PROMPT, reply=CHOICE, model=cheap, chooses=True)
    return (
        Machine.standard()
        .phase(triage, initial=True)
        .row("Triage", "begin", "Planning", when="succeeded")
        .row("Triage", "give_up", "Failed")
    )
    # end


@tool("orders.count", effect="read")
def count(month: str) -> str:
    """Count the orders of a month."""
    return {"May": "42", "June": "17"}[month]


ONE_STEP = [*call("orders.count", month="May"), refine("stop", answer="42 orders in May.")]
IN_MAY = [*call("orders.count", month="May"), refine("continue")]
IN_JUNE = [*call("orders.count", month="June"), refine("continue")]
IN_ONE_PLAN = [
    plan(step("orders.count", month="May"), step("orders.count", month="June")),
    review("success", answer="42 orders in May, 17 in June."),
]


def engine(journal: Journal, *choices: Any, said: tuple[Any, ...] = ()) -> Engine:
    """Return the engine: what the cheap model chooses, and what the run's own says then."""
    cheap = ScriptedModel([*(choices or ({"mode": "react"},))], name="cheap")
    first = ["the cheap model is asked"] * len(choices or (1,))
    return Engine(
        ScriptedModel([*first, *(said or ONE_STEP)], name="dear"),
        [count],
        journal,
        limits=Limits(max_steps=2),
        machine=machine(cheap),
        clock=SteppingClock(),
        ids=SeededIds("triage"),
        builtins=False,
    )


def shown(journal: Journal, objective: str, *choices: Any, said: list[Any]) -> None:
    """Run, and print which model was asked for what."""
    with engine(journal, *choices, said=tuple(said)) as counting:
        result = counting.run(objective)
        show(counting, result)
        asked = [row.request for row in journal.transitions(result.run_id) if "model" in row.request]
        told = [f"{item['model']} for {item['kind']}" for item in asked]
        print(f"      asked: {', '.join(told)}")


def simple(journal: Journal, folder: Path) -> None:
    """One question: one step, though the dear model would go on."""
    chosen = {"mode": "react", "limits": {"max_steps": 1}}
    end = review("success", answer="42 orders in May.")
    shown(journal, "How many orders in May?", chosen, said=[*IN_MAY, end])


def known(journal: Journal, folder: Path) -> None:
    """All calls are known: one plan. The first choice was none, and was asked for again."""
    shown(journal, "How many orders in May and June?", {"mode": "swarm"}, {"mode": "batch"}, said=IN_ONE_PLAN)


def bounded(journal: Journal, folder: Path) -> None:
    """A choice of a thousand steps leaves the two that the host allows."""
    chosen = {"mode": "react", "limits": {"max_steps": 1000}}
    end = review("success", answer="42 orders in May, 17 in June.")
    shown(journal, "How many orders a month?", chosen, said=[*IN_MAY, *IN_JUNE, end])


if __name__ == "__main__":
    play(simple, known, bounded)
