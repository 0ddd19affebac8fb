"""What a host's model, tool or reconciliation may do wrong ends in a row and a reason, never in an exception of `run`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from paor import Engine, Journal, Reply, Tool, tool
from paor.errors import JournalError
from paor.events import TransitionTaken

from ..support.recording import World, observation
from ..support.worlds import PARAMETERS, SELECT, STOP, SUCCESS


class Unspeakable(Exception):
    """An exception that cannot say what happened."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


class Raising:
    """A model that raises."""

    name = "raising"

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def ask(self, call: Any) -> Reply:
        """Raise."""
        raise self.error

    async def aask(self, call: Any) -> Reply:
        """Raise."""
        raise self.error


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(
    ("error", "told"),
    [
        (Unspeakable(), "Unspeakable"),
        (SystemExit(3), "SystemExit: 3"),
        (asyncio.CancelledError(), "CancelledError"),
        (RuntimeError("the line is dead"), "RuntimeError: the line is dead"),
    ],
    ids=["unspeakable", "exit", "cancelled", "error"],
)
def test_whatever_a_model_raises_fails_the_run_and_the_answer_says_so(
    error: BaseException, told: str, is_async: bool, tmp_path: Path
) -> None:
    """An exit is the model's, not the host's; the person who reads the answer learns what went wrong."""
    with Engine(model=Raising(error), journal=str(tmp_path / "runs.db")) as engine:
        result = asyncio.run(engine.arun("Read")) if is_async else engine.run("Read")
        assert (result.state, result.reason) == ("Failed", "model_error")
        assert f"The model: {told}" in result.answer


@pytest.mark.parametrize("is_async", [False, True])
def test_a_function_that_returns_an_awaitable_is_waited_for(is_async: bool, tmp_path: Path) -> None:
    """As wrappers of async functions do: its value is the result, not the coroutine."""

    async def look() -> str:
        await asyncio.sleep(0)
        return "seen"

    look_up = Tool(name="host.look", run=lambda: look(), effect="read")
    with World(tmp_path, [SELECT("host.look", {}), STOP, SUCCESS], [look_up]) as world:
        if is_async:
            asyncio.run(world.engine.arun("Look"))
        else:
            world.run()
        seen = observation(world)
        assert seen["success"] and seen["previews"][0]["snippet"] == "seen"


@pytest.mark.parametrize("value", [object(), SystemExit(1)], ids=["no json", "exit"])
def test_a_reconciliation_that_says_nothing_usable_leaves_the_effect_in_doubt(
    value: Any, tmp_path: Path
) -> None:
    """An effect that happened must not look like one that failed."""

    def reconcile(key: str) -> Any:
        if isinstance(value, BaseException):
            raise value
        return value

    @tool("notes.post", effect="once", reconcile=reconcile)
    def post(text: str) -> str:
        """Post."""
        return text

    with World(
        tmp_path, [SELECT("notes.post", {"text": "string"}), PARAMETERS(text="x"), STOP, SUCCESS], [post]
    ) as world:
        events = world.engine.stream("Post", on_close="stop")
        for event in events:
            if isinstance(event, TransitionTaken) and event.dest == "Executing":
                break
        events.close()
        result = world.engine.resume(world.run_id)
        assert (result.status, result.waiting_for and result.waiting_for.kind) == ("waiting", "in_doubt")


def test_a_journal_that_is_closed_in_the_middle_of_a_run_is_one_typed_error(tmp_path: Path) -> None:
    """Not what SQLite's module says of a connection that is gone."""
    journal = Journal(tmp_path / "runs.db")

    @tool("notes.close", effect="read")
    def close() -> str:
        """Close."""
        journal.close()
        return "closed"

    with World(tmp_path / "other", [SELECT("notes.close", {}), STOP, SUCCESS], [close]) as world:
        engine = Engine(model=world.model, tools=[close], journal=journal)
        with pytest.raises(JournalError):
            engine.run("Close")
