"""The recipes in the examples folder run as they stand and print what they promise."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import threading
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest

from paor import Engine, Journal, ModelCall, Reply, ScriptedModel

from ..support.pages import ROOT, environment

PRINTED = {
    "http": """
## Objective
200 The archive opens at nine.
Clerk, plan this: When does it open?
200 The archive opens at nine.
400 the request needs a query
""",
    "duplicate_calls": """
AAABAAA blocked at [3, 7]: the defaults (3 in a row, 4 in a window of 8)
AAABAAA blocked at [2, 3, 6, 7]: consecutive_limit=2
AAABAAA blocked at [5, 6, 7]: consecutive_limit=9, window_freq_limit=3
AAABAAA blocked at []: repeat_allowed=True
""",
    "plan_prompt": """
Request: When does the archive open?

You can:
- ai.process(documentList,aiPrompt,processingMode,includeMetadata,customInstructions,expectedDocumentFormats): Write a text from documents: a summary, an answer, a comparison, a list.
-> Done: The archive opens at nine.

## Objective
When does the archive open?

Choose the one next action, or answer when none is needed. Another step sets its parameters. Never write `parameters`.

## Reply
{"action": "one name from the list", "actionObjective": "what this action is for", "parametersContext": "the values, names and texts from which its parameters are set"}
When no action is needed: {"action": null, "answer": "..."}
-> Done: The archive opens at nine.
""",
    "tools": """
with a list: Done, 31 days.
the mail was not sent
refused: unknown tool 'calc.dates'; there are: calc.days, mail.send, ai.process, document.extract, document.generateReport
with a policy: Done, 31 days.
""",
    "workflow_prompt": """
Request: When does the archive open?
-> Done: The archive opens at nine.

## Objective
When does the archive open?

## Reply
{"intention": "what the plan is for", "steps": [{"type": "tool", "name": "service.method", "args": {}, "reason": "why", "retries": 0}]}
When nothing is left to do: {"steps": [], "answer": "..."}
Only when nothing can be planned without the user: {"steps": [], "elicitation": {"message": "a question to the user", "requestedSchema": {}}}
-> Done: The archive opens at nine.
""",
    "workflow_tools": """
Done: Three weeks are 21 days.
the plan with the mail was asked again
refused: unknown tool 'calc.weeks'; there are: calc.days, mail.send
""",
    "post_processing": """
summarising: Page 2 says that the supplier delivers within 20 days.
Done: In short: the supplier delivers within 20 days.
Done: Nothing needs to be read.
""",
    "loop_limit": """
reading page 1
reading page 2
reading page 3
Done after 3 steps: Three pages.
""",
    "error_handling": """
#runtime-alerts: tool notes.read failed: page 2 is torn out
Failed (aborted), read: page 1
#runtime-alerts: tool notes.read failed: page 2 is torn out
Done (model_stop), read: page 1, page 3
""",
}


def test_every_recipe_is_run_here() -> None:
    """A new file needs its lines above."""
    assert {path.stem for path in (ROOT / "examples").glob("recipe_*.py")} == {
        f"recipe_{name}" for name in PRINTED
    }


def printed_by(name: str, folder: Path) -> str:
    """Return what a recipe prints when it is run from another folder; it leaves nothing behind there."""
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / f"recipe_{name}.py"],
        cwd=folder,
        env=environment(),
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stderr, list(folder.iterdir())) == (0, "", [])
    return done.stdout


def test_A157_the_guards_options_decide_what_is_blocked(tmp_path: Path) -> None:
    """The recipe of the duplicate guard."""
    assert printed_by("duplicate_calls", tmp_path).strip() == PRINTED["duplicate_calls"].strip()


def test_A158_a_template_of_ones_own_is_rendered_and_an_empty_one_falls_back(tmp_path: Path) -> None:
    """Recipe 5.1."""
    assert printed_by("plan_prompt", tmp_path).strip() == PRINTED["plan_prompt"].strip()


def test_A160_only_listed_tools_can_be_executed(tmp_path: Path) -> None:
    """Recipe 5.2: a tool that is not in the list is refused, and a name that no tool has fails at once."""
    assert printed_by("tools", tmp_path).strip() == PRINTED["tools"].strip()


def test_A159_a_template_that_is_posted_over_http_is_rendered_like_one_that_is_given(tmp_path: Path) -> None:
    """The last route: a planner's input as JSON, on a real socket; the prompt is the one of a direct call."""
    assert printed_by("http", tmp_path).strip() == PRINTED["http"].strip()
    found = importlib.util.spec_from_file_location("recipe_http", ROOT / "examples" / "recipe_http.py")
    assert found is not None and found.loader is not None
    recipe = importlib.util.module_from_spec(found)
    found.loader.exec_module(recipe)
    asked = []

    class Kept(ScriptedModel):
        """Keeps what its planner was asked."""

        def ask(self, call: ModelCall) -> Reply:
            """Keep and answer."""
            asked.append([message.text for message in call.messages])
            return super().ask(call)

    template = "Clerk, plan this: {{KEY:OBJECTIVE}}\n\nYou can:\n{{KEY:CATALOG_FULL}}"
    model = Kept(["At nine."])
    with Engine(model, journal=Journal(":memory:", "off")) as engine:
        server = ThreadingHTTPServer(("127.0.0.1", 0), recipe.handler(engine))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            status, data = recipe.posted(
                server.server_address[1],
                {"query": "When?", "promptTemplate": template, "tools": ["ai.process"]},
            )
        finally:
            server.shutdown()
            server.server_close()
        assert (status, data["state"], data["answer"]) == (200, "Done", "At nine.")
        engine.run("When?", mode="planner", prompt_template=template, tools=["ai.process"])
    assert asked[0] == asked[1] and asked[0][0].startswith(
        "Clerk, plan this: When?\n\nYou can:\n- ai.process"
    )


@pytest.mark.parametrize(
    "name", ["workflow_prompt", "workflow_tools", "post_processing", "loop_limit", "error_handling"]
)
def test_A158_A160_A161_A162_A164_the_workflow_recipes_run_as_they_stand(tmp_path: Path, name: str) -> None:
    """Recipes 5.1 to 5.5, each as a workflow that one engine follows."""
    assert printed_by(name, tmp_path).strip() == PRINTED[name].strip()
