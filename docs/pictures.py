"""
The runs whose pictures stand in the documentation: scripted, with counted ids and times, so always the same bytes.

A shop's agent finds an order, and may send a mail once somebody has approved it. One run is approved, one is not.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
from pathlib import Path
from typing import Any

from paor import Engine, Journal, Limits, Policy, ScriptedModel, Tool, diagram, tool
from paor.fsm.diagrams.overlays import coverage_of
from paor.testing import SeededIds, SteppingClock

CONTINUE = {"decision": "continue", "reason": "the customer has not been told"}
STOP = {"decision": "stop", "reason": "all is done"}
SUCCESS = {"status": "success", "improvements": [], "answer": "The order is in Leeds; the customer knows."}
RETRY = {"status": "retry", "improvements": ["say when it arrives"]}
FAILED = {"status": "failed", "improvements": []}
OBJECTIVE = "Where is order O-1004? Tell the customer"


@tool("orders.find", effect="read")
def find(order_id: str) -> str:
    """Find an order."""
    return f"Order {order_id} is in Leeds."


@tool("mail.send", effect="once")
def send(text: str) -> str:
    """Send the customer a mail."""
    return "sent"


TOOLS: list[Tool] = [find, send]


def choose(action: str, **parameters: Any) -> list[dict[str, Any]]:
    """Return the two replies that lead to a call."""
    first = {
        "action": action,
        "actionObjective": action,
        "requiredInputDocuments": [],
        "parametersContext": "",
    }
    return [first, {"schema": "parameters_v1", "parameters": parameters}]


FIND, UNREADABLE = choose("orders.find", order_id="O-1004"), choose("orders.find", order=1004)
MAIL = choose("mail.send", text="It is in Leeds.")
BEGIN = [UNREADABLE[0], UNREADABLE[1], FIND[1], CONTINUE, *MAIL]
SCRIPTS: tuple[tuple[bool, list[Any]], ...] = (
    (True, [*BEGIN, STOP, RETRY, *FIND, STOP, SUCCESS]),
    (False, [*BEGIN, CONTINUE, {"action": None, "answer": "It is in Leeds."}, FAILED]),
)
"""Whether the mail is approved, and what the model says."""


def record(path: Path) -> tuple[str, ...]:
    """Make the runs in a new journal; return their ids."""
    ids = []
    for number, (approve, replies) in enumerate(SCRIPTS, start=1):
        engine = Engine(
            ScriptedModel(replies),
            TOOLS,
            Journal(path),
            ids=SeededIds(number),
            clock=SteppingClock(),
            policy=Policy(approvals=("mail.*",)),
            limits=Limits(completion_review="model"),
        )
        with engine:
            run_id = engine.run(OBJECTIVE).run_id
            engine.resume(run_id, answer={"approve": approve})
            ids.append(run_id)
    return tuple(ids)


MACHINES = Path(__file__).resolve().parent.parent / "examples" / "machines"
OWN = ("verifying", "escalating", "two_reviewers", "triage", "office_hours")
"""Examples of own machines."""


def machine_pictures() -> dict[str, str]:
    """Return the diagram of each example's machine by its file name."""
    sys.path.insert(0, str(MACHINES))
    try:
        made = {name: importlib.import_module(name).engine for name in OWN}
    finally:
        sys.path.remove(str(MACHINES))
    found = {}
    for name, engine in made.items():
        with engine(Journal(":memory:")) as drawn:
            found[f"machine-{name.replace('_', '-')}.svg"] = diagram(drawn, form="svg")
    return found


def pictures() -> dict[str, str]:
    """Return every picture of the documentation by its file name, and the Mermaid form that a page shows."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "shop.db"
        one, other = record(path)
        with Journal(path, read_only=True) as journal:
            return {
                "machine.svg": diagram(form="svg"),
                "run.svg": diagram(journal, one, form="svg"),
                "coverage.svg": diagram(coverage=coverage_of(journal.reader), form="svg"),
                "difference.svg": diagram(journal, one, form="svg", diff=other),
                "difference.mermaid": diagram(journal, one, diff=other),
                **machine_pictures(),
            }
