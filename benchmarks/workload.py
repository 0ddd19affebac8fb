"""The one workload of the benchmarks: a scripted run of five phases an iteration with a 1 KB tool document."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from paor import Engine, Journal, Limits, ScriptedModel, tool
from paor.testing import RandomIds, SystemClock

DOCUMENT = ("The supplier shall deliver the goods within thirty days of the order. " * 16)[:1024]

SELECTION = {
    "action": "bench.fetch",
    "actionObjective": "fetch the next page of the contract",
    "learnings": ["the supplier delivers within thirty days"],
    "requiredInputDocuments": [],
    "requiredConnection": None,
    "parametersContext": "the next page",
    "parametersSchema": {
        "fields": [{"name": "page", "type": "number", "required": True, "description": "page number"}]
    },
}
PARAMETERS = {"schema": "parameters_v1", "parameters": {"page": 7}}
CONTINUE = {"decision": "continue", "reason": "another page is needed", "hint": "read the next page"}
SUCCESS = {"status": "success", "improvements": [], "answer": "All pages were read."}


@tool("bench.fetch", effect="read", repeat_allowed=True)
def fetch(page: int) -> str:
    """Fetch one page."""
    return DOCUMENT


class Script(ScriptedModel):
    """Three replies an iteration and a review at the end, without a list that grows with the run."""

    def __init__(self, iterations: int) -> None:
        super().__init__([SELECTION, PARAMETERS, CONTINUE, SUCCESS])
        self._end = 3 * iterations

    def ask(self, call: Any) -> Any:
        """Answer by the place within the iteration."""
        return self._replies[3 if call.number == self._end else call.number % 3]


def engine(path: Path, *, durability: Any, iterations: int) -> Engine:
    """Return an engine on a fresh journal for runs of *iterations* iterations."""
    return engine_on(Journal(path, durability), iterations=iterations)


def engine_on(journal: Journal, *, iterations: int) -> Engine:
    """Return such an engine on a journal that others may use, too."""
    return Engine(
        model=Script(iterations),
        tools=[fetch],
        journal=journal,
        limits=Limits(max_steps=iterations),
        clock=SystemClock(),
        ids=RandomIds(),
    )
