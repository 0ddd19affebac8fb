"""
Be told of a tool's failure, and end the run.

    python examples/recipe_error_handling.py

``onError`` calls a tool with the failed step and its error; with ``abort`` the run is Failed afterwards and keeps its results.
Without ``abort`` the plan goes on, and the planner sees the error as a result.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from paor import Engine, Journal, ScriptedModel, tool
from paor.errors import ToolError

WORKFLOW = """
exec:
  onError:
    action: notify:send_slack
    input:
      channel: "#runtime-alerts"
      text: "tool ${step.name} failed: ${error}"
  abort: true
"""


@tool("notes.read", effect="read")
def read(page: int) -> str:
    """Read a page."""
    if page == 2:
        raise ToolError("page 2 is torn out")
    return f"page {page}"


@tool("notify.send_slack", effect="idempotent")
def send_slack(channel: str, text: str) -> str:
    """Tell a channel."""
    print(f"{channel}: {text}")
    return "sent"


PLAN = {"steps": [{"type": "tool", "name": "notes.read", "args": {"page": page}} for page in (1, 2, 3)]}
SCRIPT = [PLAN, {"steps": [], "answer": "Page 2 is missing."}, {"status": "success", "improvements": []}]


def main() -> None:
    """Run with the abort, then without it."""
    for workflow in (WORKFLOW, WORKFLOW.replace("abort: true", "abort: false")):
        with tempfile.TemporaryDirectory() as folder:
            journal = Journal(Path(folder) / "runs.db", "off")
            with Engine(ScriptedModel(SCRIPT), [read, send_slack], journal) as engine:
                result = engine.run("Read the notes", workflow=workflow)
                read_pages = [
                    document.read() for document in result.documents if "page" in str(document.read())
                ]
                print(f"{result.state} ({result.reason}), read: {', '.join(map(str, read_pages))}")


if __name__ == "__main__":
    main()
