"""
Change the prompt that actions are chosen with.

    python examples/recipe_plan_prompt.py

A template is a text with placeholders such as ``{{KEY:OBJECTIVE}}``. It is given to one run, to an engine for all its runs, or
to the command line as a file (``--prompt-template``) or as JSON (``promptTemplate``). An empty one falls back to the shipped one.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from paor import Engine, Journal, ModelCall, Reply, ScriptedModel

TEMPLATE = """You are the clerk of a small archive. Choose one action, or answer at once.

Reply with JSON: {"action": "method.name", ...} or {"action": null, "answer": "..."}.

=== user ===

Request: {{KEY:OBJECTIVE}}

You can:
{{KEY:CATALOG}}

You did, newest first:
{{KEY:WORKFLOW_HISTORY}}
"""


class Shown(ScriptedModel):
    """A script that shows what it was asked first."""

    def ask(self, call: ModelCall) -> Reply:
        """Print the user's part of the first prompt, then answer."""
        if call.number == 0:
            print("\n\n".join(message.text for message in call.messages if message.role == "user"))
        return super().ask(call)


def main() -> None:
    """Run with the template for this run only, then without one."""
    replies = [
        {"action": None, "answer": "The archive opens at nine."},
        {"status": "success", "improvements": []},
    ]
    with (
        tempfile.TemporaryDirectory() as folder,
        Engine(model=Shown(replies), journal=Journal(Path(folder) / "runs.db", "off")) as engine,
    ):
        for template in (TEMPLATE, ""):
            result = engine.run("When does the archive open?", prompt_template=template, tools=["ai.process"])
            print(f"-> {result.state}: {result.answer}\n")


if __name__ == "__main__":
    main()
