"""Runs of many rows and those who listen to them; as a program: a listener in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from paor import Engine, Journal, Limits, ModelCall, Reply, Result, tool
from paor.events import Event, RunEnded
from paor.testing import call, refine

from ..support.pages import ROOT

STEPS = 8
ROWS = list(range(5 * STEPS + 1))
"""Numbers of the rows of a run: each step is chosen, set, carried out, observed and judged; then the run ends."""


class Stepping:
    """A model that has a run take `STEPS` steps, and says it piece by piece; *before* is called before each reply."""

    name, streams = "stepping", True

    def __init__(self, before: Callable[[ModelCall], None] = lambda call: None) -> None:
        self.before = before

    def ask(self, call_: ModelCall) -> Reply:
        """Answer from what was asked so far."""
        import json

        self.before(call_)
        each = [
            part for step in range(STEPS) for part in (*call("steps.take", number=step), refine("continue"))
        ]
        each[-1] = refine("stop", answer="All steps are taken.")
        text = json.dumps(each[call_.number])
        if call_.on_text is not None:
            for at in range(0, len(text), 5):
                call_.on_text(text[at : at + 5])
        return Reply(text)


@tool("steps.take", effect="read")
def take(number: int) -> str:
    """Take a step."""
    return f"step {number} taken"


def stepping(journal: Journal | Path | str, model: Stepping | None = None, **options: Any) -> Engine:
    """Return an engine whose runs take `STEPS` steps."""
    given: dict[str, Any] = {"limits": Limits(max_steps=STEPS + 1), "profile": "two_stage"} | options
    return Engine(model or Stepping(), [take], journal, **given)


def end_of(events: Iterable[Event]) -> Result:
    """Return what a run has come to, from its events."""
    *_, last = events
    assert isinstance(last, RunEnded)
    return last.result


def process(journal: Path | str, run_id: str) -> subprocess.Popen[str]:
    """Start a process that listens to a run and prints the number of each row, then ``end``."""
    command = [sys.executable, "-m", "tests.lifecycle.listeners", str(journal), run_id]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def main() -> None:
    """Listen to the run that the arguments name."""
    journal, run_id = sys.argv[1:]
    with stepping(journal) as engine:
        for event in engine.events(run_id):
            if event.kind == "transition":
                print(event.seq, flush=True)
            elif event.kind == "complete":
                print("end", flush=True)


if __name__ == "__main__":
    main()
