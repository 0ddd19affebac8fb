"""The main job asked of a real client: the same question and files as in `test_main_job`, replies from a script."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from ..support.model_server import KEY

EXAMPLES = Path(__file__).parents[2] / "examples" / "documents"
OBJECTIVE = "Summarise the obligations and list every deadline"
REPORT = "# Obligations\n\n- The supplier reports within 30 days of receiving it.\n- Notice is given 90 days before the end."
_INPUTS = [f"docItem:round1_task1_action0_input#{place}" for place in (0, 1)]
REPLIES: list[str] = [
    json.dumps(
        {
            "action": "ai.process",
            "actionObjective": "write the summary",
            "requiredInputDocuments": _INPUTS,
            "parametersContext": "both documents",
        }
    ),
    json.dumps({"parameters": {"documentList": _INPUTS, "aiPrompt": "Summarise the obligations"}}),
    REPORT,
    json.dumps({"decision": "stop", "reason": "everything is in it"}),
    json.dumps({"status": "success", "improvements": [], "answer": REPORT}),
]
"""Selection, parameters, the text itself, refinement, review: what a model says in this job."""

_NAMES = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL")


def paor(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command line in *folder*, with nothing of models in the environment but *environment*."""
    kept = {name: value for name, value in os.environ.items() if name not in _NAMES}
    command = [sys.executable, "-m", "paor", *arguments]
    return subprocess.run(
        command,
        cwd=folder,
        env={**kept, **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def run_job(folder: Path, model: str, base_url: str) -> dict[str, Any]:
    """Run the job with *model* at *base_url* and return its result; the report is in the folder."""
    provider = model.partition(":")[0].upper()
    documents = [
        part for name in ("contract.pdf", "notes.html") for part in ("--document", str(EXAMPLES / name))
    ]
    done = paor(
        folder,
        *("run", OBJECTIVE, *documents, "--model", model, "--output", "report.md", "--json"),
        **{f"{provider}_API_KEY": KEY, f"{provider}_BASE_URL": base_url},
    )
    assert done.returncode == 0, done.stderr
    assert KEY not in done.stdout + done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    assert (result["state"], result["answer"]) == ("Done", REPORT)
    return result


def look_back(folder: Path, run_id: str) -> None:
    """Assert that everything can be told again where there is no server: replay, verify, and the report itself."""
    assert "within 30 days of receiving it" in (folder / "report.md").read_text(encoding="utf-8")
    for arguments in (("replay", run_id), ("verify",)):
        looked = paor(folder, *arguments)
        assert looked.returncode == 0, looked.stderr
    for path in folder.rglob("*"):
        assert not path.is_file() or KEY.encode() not in path.read_bytes(), path
