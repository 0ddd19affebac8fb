"""The table of ``docs/planted-bugs.md``: the planted bugs of the tests, and what was measured when they were last looked for."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
BUGS = ROOT / "tests" / "fuzz" / "planted_bugs.toml"
MEASURED = ROOT / "docs" / "planted-bugs.json"


def planted_table() -> str:
    """Return the bugs by area, each with the promise that it breaks and what the kit found."""
    bugs: list[dict[str, Any]] = tomllib.loads(BUGS.read_text(encoding="utf-8"))["bug"]
    measured: dict[str, Any] = json.loads(MEASURED.read_text(encoding="utf-8"))
    lines = [
        "| area | what is wrong | promise that it breaks | seen by | examples | rows |",
        "|---|---|---|---|---|---|",
    ]
    for bug in bugs:
        found = measured.get(bug["name"])
        facts = (
            (f"`{found['invariant']}`", found["examples"], found["rows"]) if found else ("not found", "", "")
        )
        cells = (bug["area"], bug["what"], bug["breaks"], *map(str, facts))
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)
