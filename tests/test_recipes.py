"""The recipes in the examples folder run as they stand and print what they promise."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from .pages import ROOT, environment

PRINTED = {
    "duplicate_calls": """
AAABAAA blocked at [3, 7]: the defaults (3 in a row, 4 in a window of 8)
AAABAAA blocked at [2, 3, 6, 7]: consecutive_limit=2
AAABAAA blocked at [5, 6, 7]: consecutive_limit=9, window_freq_limit=3
AAABAAA blocked at []: repeat_allowed=True
""",
    "plan_prompt": """
Request: When does the archive open?

You can:
- ai.process(documentList,aiPrompt,processingMode,includeMetadata,customInstructions,expectedDocumentFormats)
- document.extract(documentList,aiPrompt)
- document.generateReport(documentList,title)
-> Done: The archive opens at nine.

## Objective
When does the archive open?

## Language
en
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

## Language
en
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


@pytest.mark.parametrize(
    "name", ["workflow_prompt", "workflow_tools", "post_processing", "loop_limit", "error_handling"]
)
def test_A158_A160_A161_A162_A164_the_workflow_recipes_run_as_they_stand(tmp_path: Path, name: str) -> None:
    """Recipes 5.1 to 5.5, each as a workflow that one engine follows."""
    assert printed_by(name, tmp_path).strip() == PRINTED[name].strip()
