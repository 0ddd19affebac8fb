"""
Change the prompt that plans, in the workflow file.

    python examples/recipe_workflow_prompt.py

The task ``plan`` gets a ``promptTemplate``, here a variable that the caller sets; empty or not set, the shipped prompt is used. A
file next to the workflow is named with ``promptTemplateFile``.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from paor import Engine, Journal, ModelCall, Reply, ScriptedModel

WORKFLOW = """
plan:
  action: llm/core:plan
  input:
    promptTemplate: ${myPrompt}
"""
TEMPLATE = """You are the clerk of a small archive. Reply with a plan as JSON, or with plain words.

=== user ===

Request: {{KEY:OBJECTIVE}}

Done so far:
{{KEY:RESULTS}}
"""


class Shown(ScriptedModel):
    """A script that shows what it was asked first."""

    def ask(self, call: ModelCall) -> Reply:
        """Print the first prompt's user part, then answer."""
        if call.number == 0:
            print(call.messages[-1].text)
        return super().ask(call)


def main() -> None:
    """Run with the caller's template, then with an empty one."""
    model = Shown(["The archive opens at nine.", {"status": "success", "improvements": []}])
    with (
        tempfile.TemporaryDirectory() as folder,
        Engine(model=model, journal=Journal(Path(folder) / "runs.db", "off")) as engine,
    ):
        for template in (TEMPLATE, ""):
            result = engine.run(
                "When does the archive open?", workflow=WORKFLOW, variables={"myPrompt": template}
            )
            print(f"-> {result.state}: {result.answer}\n")


if __name__ == "__main__":
    main()
