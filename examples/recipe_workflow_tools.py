"""
Restrict the tools of a workflow.

    python examples/recipe_workflow_tools.py

The variable ``tools`` lists what the planner is offered; a plan with another tool is refused and asked again. The file sets it, and
a caller's own list wins. The tools that the workflow itself calls need not be in it.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from paor import Engine, Journal, ScriptedModel, tool
from paor.errors import UsageError

WORKFLOW = """
init:
  tools: [calc.days]
"""


@tool("calc.days", effect="read")
def days(weeks: int) -> str:
    """Count the days of some weeks."""
    return f"{7 * weeks} days"


@tool("mail.send")
def send(text: str) -> str:
    """Send a mail."""
    return "sent"


def plan(name: str, **args: Any) -> dict[str, Any]:
    """Return a plan of one step."""
    return {"steps": [{"type": "tool", "name": name, "args": args}]}


SCRIPT = [
    plan("mail.send", text="How many days are three weeks?"),
    plan("calc_days", weeks=3),
    {"steps": [], "answer": "Three weeks are 21 days."},
    {"status": "success", "improvements": []},
]


def main() -> None:
    """Run with the file's list, then with one that names a tool that is not there."""
    with tempfile.TemporaryDirectory() as folder:
        journal = Journal(Path(folder) / "runs.db", "off")
        with Engine(ScriptedModel(SCRIPT), [days, send], journal, builtins=False) as engine:
            result = engine.run("How many days are three weeks?", workflow=WORKFLOW)
            print(f"{result.state}: {result.answer}")
            taken = [row.trigger for row in engine.journal.transitions(result.run_id)]
            print(f"the plan with the mail was {'asked again' if taken[0] == 'reselect' else 'executed'}")
            try:
                engine.run("How many?", workflow=WORKFLOW.replace("calc.days", "calc.weeks"))
            except UsageError as error:
                print(f"refused: {error}")


if __name__ == "__main__":
    main()
