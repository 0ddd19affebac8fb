"""Runs that follow a workflow file: tools, plans, and what must hold of every such run's journal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from msgspec.structs import asdict

from paor import Journal, Tool, replay, tool
from paor.errors import ToolError
from paor.fsm.machine.fold import AT_TIMES, apply, restore, sets_of
from paor.states.run.counters import counters_of
from paor.states.run.state import initial_run

from .recording import World

FIXTURES = Path(__file__).parents[1] / "fixtures" / "document_004"
OK = {"status": "success", "improvements": []}
EMPTY: dict[str, Any] = {"steps": []}
TORN = 13
"""The page that cannot be read."""


@tool("notes.read", effect="read", label="page")
def read(page: int) -> str:
    """Read one page of the notes."""
    if page == TORN:
        raise ToolError(f"page {page} is torn out")
    return f"page {page}"


@tool("notes.data", effect="read")
def data(page: int) -> dict[str, Any]:
    """Return a page as data."""
    return {"page": page, "lines": [f"line {n}" for n in range(page)]}


class Calls:
    """
    The tools that workflows name, with what they were called with.

    Attributes:
        summarised: Inputs of ``my.tool.summarise``.
        sent: Inputs of ``notify.send_slack``.
        tools: All tools, with those that plans use.
    """

    def __init__(self, *, broken: bool = False) -> None:
        self.summarised: list[Any] = []
        self.sent: list[dict[str, Any]] = []

        def summarise(data: Any = None) -> dict[str, Any]:
            self.summarised.append(data)
            return {"summary": f"about {str(data)[:6]}"}

        def send(**values: Any) -> str:
            self.sent.append(values)
            if broken:
                raise ToolError("nobody listens")
            return "sent"

        schema = {"type": "object", "properties": {"channel": {}, "text": {}}, "required": ["text"]}
        self.tools: tuple[Tool, ...] = (
            read,
            data,
            Tool(
                name="my.tool.summarise",
                parameters={"type": "object", "properties": {"data": {}}, "required": ["data"]},
                run=summarise,
                effect="read",
            ),
            Tool(name="notify.send_slack", parameters=schema, run=send, effect="idempotent"),
        )


def fixture(name: str) -> str:
    """Return one of the document's snippets, as it is there."""
    return (FIXTURES / name).read_text(encoding="utf-8")


def PLAN(*pages: int, name: str = "notes.read", **keys: Any) -> dict[str, Any]:
    """Return a plan that calls *name* for each page."""
    steps = [{"type": "tool", "name": name, "args": {"page": page}, "reason": "r"} for page in pages]
    return {"intention": "read them", "steps": steps, **keys}


def check_journal(world: World) -> None:
    """Assert that the newest run replays identical, verifies, and is restored at every place from few of its rows."""
    replayed = replay(world.journal, world.run_id)
    assert replayed.identical, [str(item) for item in replayed.divergences]
    assert world.journal.verify() == []
    check_fold(world.journal, world.run_id)


def check_fold(journal: Journal, run_id: str) -> None:
    """Assert that the fold of all rows and the restore of a few give the same run, after every row."""
    number = journal.run(run_id).run
    start = initial_run(run_id, number, journal.spec(run_id))
    rows, folded = journal.reader.rows(number), start
    for count, row in enumerate(rows, 1):
        change = journal.reader.change(number, row[9])
        assert change.slots().keys() - AT_TIMES == sets_of(folded)[row[4], row[3]], row[3]
        folded = apply(
            folded,
            at=row[2],
            trigger=row[3],
            dest=row[5],
            counters=counters_of(row),
            change=change,
            outcome=json.loads(row[8]),
        )
        restored = restore(start, rows[:count], lambda column: journal.reader.change(number, column))
        assert (restored.state, restored.counters) == (folded.state, folded.counters)
        for name, value in asdict(folded.memory).items():
            assert getattr(restored.memory, name) == value, (count, name)
