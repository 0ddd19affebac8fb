"""
Add a step after the plans.

    python examples/recipe_post_processing.py

A task behind ``exec`` calls a tool of the host with the whole last result, once the planner has nothing left to do. What it returns
becomes variables; the variable ``answer`` is what the run answers, unless the completion review gives an answer of its own.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from paor import Engine, Journal, ScriptedModel, tool

WORKFLOW = """
postproc:
  action: my/tool:summarise
  when: len(results) > 0
  input:
    data: ${results[-1].result}
  post:
    summary: ${summary}
    answer: "In short: ${summary}"
"""


@tool("notes.read", effect="read")
def read(page: int) -> str:
    """Read a page."""
    return f"Page {page} says that the supplier delivers within {10 * page} days."


@tool("my.tool.summarise", effect="read")
def summarise(data: str) -> dict[str, Any]:
    """Summarise a text."""
    print(f"summarising: {data}")
    return {"summary": data.partition(" that ")[2]}


PLAN = {"steps": [{"type": "tool", "name": "notes.read", "args": {"page": page}} for page in (1, 2)]}
SUCCESS = {"status": "success", "improvements": []}


def main() -> None:
    """Run with two results, then without any: then the task is skipped."""
    for script in ([PLAN, {"steps": []}, SUCCESS], ["Nothing needs to be read.", SUCCESS]):
        with tempfile.TemporaryDirectory() as folder:
            journal = Journal(Path(folder) / "runs.db", "off")
            with Engine(ScriptedModel(script), [read, summarise], journal) as engine:
                result = engine.run("When does the supplier deliver?", workflow=WORKFLOW)
                print(f"{result.state}: {result.answer}")


if __name__ == "__main__":
    main()
