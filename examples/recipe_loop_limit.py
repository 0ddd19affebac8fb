"""
End the loop after a number of rounds.

    python examples/recipe_loop_limit.py

A variable counts the executions; ``post`` comes before ``goto``, so ``iteration < 3`` allows exactly three. The run is then reviewed
like any other, and a review that asks for more gets one more round.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from paor import Engine, Journal, ScriptedModel, tool

WORKFLOW = """
vars:
  iteration: 0

exec:
  post:
    iteration: ${iteration + 1}
  goto:
    when: iteration < 3 && len(plan.steps) > 0
    task: loop
"""


@tool("notes.read", effect="read")
def read(page: int) -> str:
    """Read a page."""
    print(f"reading page {page}")
    return f"page {page}"


def plan(page: int) -> dict[str, Any]:
    """Return a plan that reads one page."""
    return {"steps": [{"type": "tool", "name": "notes.read", "args": {"page": page}}]}


def main() -> None:
    """Run with a model that would go on for ever."""
    script = [plan(1), plan(2), plan(3), {"status": "success", "improvements": [], "answer": "Three pages."}]
    with tempfile.TemporaryDirectory() as folder:
        journal = Journal(Path(folder) / "runs.db", "off")
        with Engine(ScriptedModel(script), [read], journal) as engine:
            result = engine.run("Read on and on", workflow=WORKFLOW)
            print(f"{result.state} after {result.steps} steps: {result.answer}")


if __name__ == "__main__":
    main()
