"""
Tune the guard against repeated calls, and exempt a tool that has to be polled.

    python examples/recipe_duplicate_calls.py

The model asks for the same page again and again. By default the third call in a row is blocked: it is not made, and
the model sees the marker ``duplicate_call_blocked`` with what the call brought the last time. `Limits` has the guard's three
numbers; a tool with ``repeat_allowed=True`` is never blocked. A tool with ``effect="read"`` would not get that far: its second
call in a row is answered from the history, and the model is asked for its answer. The script stands in for a model.
"""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

from paor import Engine, Journal, Limits, ScriptedModel, tool

SEQUENCE = "AAABAAA"


@tool("notes.read", effect="idempotent")
def read(page: str) -> str:
    """Read a page."""
    return f"page {page}"


@tool("jobs.status", effect="read", repeat_allowed=True)
def status(page: str) -> str:
    """Ask how far a job is; the same question may be asked many times."""
    return f"job {page} is running"


def script(action: str, sequence: str) -> list[dict[str, Any]]:
    """Return the replies of a model that calls *action* with each letter of *sequence*, then stops."""
    replies: list[dict[str, Any]] = []
    for page in sequence:
        replies.append({"action": action, "actionObjective": f"look at {page}", "parametersContext": page})
        replies.append({"parameters": {"page": page}})
        replies.append({"decision": "continue", "reason": "go on"})
    replies[-1] = {"decision": "stop", "reason": "that is enough"}
    return [*replies, {"status": "success", "improvements": [], "answer": "Done."}]


def blocked(folder: Path, action: str, limits: Limits) -> list[int]:
    """Run the sequence; return the numbers of the calls that were blocked, read from the journal with SQL."""
    file = folder / "runs.db"
    model = ScriptedModel(script(action, SEQUENCE))
    with Engine(model=model, tools=[read, status], journal=Journal(file, "off"), limits=limits) as engine:
        run_id = engine.run("Look at the pages").run_id
    statement = (
        "SELECT step FROM v_actions WHERE run_id = ? AND error = 'duplicate_call_blocked' ORDER BY step"
    )
    with closing(sqlite3.connect(file)) as connection:
        return [step for (step,) in connection.execute(statement, (run_id,))]


def main() -> None:
    """Print what is blocked, with the defaults and with numbers of our own."""
    cases = {
        "the defaults (3 in a row, 4 in a window of 8)": ("notes.read", {}),
        "consecutive_limit=2": ("notes.read", {"consecutive_limit": 2}),
        "consecutive_limit=9, window_freq_limit=3": (
            "notes.read",
            {"consecutive_limit": 9, "window_freq_limit": 3},
        ),
        "repeat_allowed=True": ("jobs.status", {}),
    }
    for name, (action, numbers) in cases.items():
        limits = Limits(max_steps=20, max_blocked_calls=20, **numbers)
        with tempfile.TemporaryDirectory() as folder:
            print(f"{SEQUENCE} blocked at {blocked(Path(folder), action, limits)}: {name}")


if __name__ == "__main__":
    main()
