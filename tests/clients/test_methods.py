"""A host's model may be asked in one way alone, and every driver finds it."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from paor import Engine, Model, ModelCall, Reply, ScriptedModel, ToolContext, replay, tool
from paor.errors import UsageError

from ..support.worlds import CONTINUE, PARAMETERS, SELECT, STOP, SUCCESS

REPLIES: list[Any] = [SELECT("notes.write"), PARAMETERS(page=1), "a text", STOP, SUCCESS]


class Asked:
    """Has ``ask`` alone."""

    name = "one:sync"

    def __init__(self, replies: list[Any] = REPLIES) -> None:
        self._inner = ScriptedModel(replies)
        self.threads: set[int] = set()

    def ask(self, call: ModelCall) -> Reply:
        self.threads.add(threading.get_ident())
        return self._inner.ask(call)


class Awaited:
    """Has ``aask`` alone, and needs its loop to be one that runs."""

    name = "one:async"
    streams = True

    def __init__(self) -> None:
        self._inner = ScriptedModel(REPLIES)
        self.threads: set[int] = set()

    async def aask(self, call: ModelCall) -> Reply:
        self.threads.add(threading.get_ident())
        await asyncio.sleep(0)
        if call.on_text is not None:
            call.on_text("a piece")
        return self._inner.ask(call)


@tool("notes.write", effect="read")
def write(page: int, context: ToolContext) -> str:
    """Write a page; the run's model is asked for it."""
    return context.ask(f"page {page}")


@tool("notes.write", effect="read")
async def awrite(page: int, context: ToolContext) -> str:
    """Write a page on the driver's loop."""
    return await context.aask(f"page {page}")


@pytest.mark.parametrize("kind", [Asked, Awaited])
@pytest.mark.parametrize("driver", ["run", "stream", "arun"])
@pytest.mark.parametrize("writes", [write, awrite], ids=["sync tool", "async tool"])
def test_every_driver_asks_a_model_that_has_one_method(
    kind: type[Asked | Awaited], driver: str, writes: Any, tmp_path: Path
) -> None:
    """For rows and for texts of tools; in a thread of its own where the driver is of the other kind."""
    model = kind()
    assert isinstance(model, Model)
    with Engine(model, tools=[writes], journal=tmp_path / "runs.db") as engine:
        if driver == "run":
            result = engine.run("Write page 1")
        elif driver == "arun":
            result = asyncio.run(engine.arun("Write page 1"))
        else:
            kinds = [event.kind for event in engine.stream("Write page 1", on_close="stop")]
            assert ("model_text" in kinds) is (kind is Awaited)
            result = engine.resume(engine.journal.runs()[0].run_id)
        assert (result.state, result.usage.calls) == ("Done", 5)
        assert replay(engine.journal, result.run_id)
    is_own_thread = (kind is Awaited) is (driver != "arun")
    if driver != "stream" and writes is write:  # an async tool asks on the loop that it is on
        assert (threading.get_ident() in model.threads) is not is_own_thread


def test_a_run_that_is_cancelled_does_not_wait_for_a_model_that_is_awaited(tmp_path: Path) -> None:
    """A sync driver can end its request like one of a shipped client."""

    class Slow(Awaited):
        async def aask(self, call: ModelCall) -> Reply:
            engine.cancel(call.run_id)
            await asyncio.Event().wait()
            raise AssertionError("unreachable")

    with Engine(Slow(), journal=tmp_path / "runs.db") as engine:
        result = engine.run("Wait")
        assert (result.state, result.reason) == ("Failed", "cancelled")


def test_a_model_without_either_is_refused() -> None:
    """One line says what it needs."""

    class Mute:
        name = "mute"

    with pytest.raises(UsageError, match="Mute is not a model; it needs name, and ask or aask"):
        Engine(Mute())  # type: ignore[arg-type]


class Greedy(Asked):
    """Takes apart what it was given."""

    def __init__(self, replies: list[Any]) -> None:
        super().__init__(replies)
        self.keys: list[tuple[str, set[str]]] = []

    def ask(self, call: ModelCall) -> Reply:
        if call.schema is not None:
            self.keys.append((call.kind, set(call.schema)))
            call.schema.clear()
        return super().ask(call)


def test_what_a_model_does_to_a_schema_it_was_given_stays_with_that_request(tmp_path: Path) -> None:
    """The next request of the same kind has all of it again."""
    pages = [[SELECT("notes.count"), PARAMETERS(page=page)] for page in (1, 2)]
    model = Greedy([*pages[0], CONTINUE, *pages[1], STOP, SUCCESS])
    with Engine(model, tools=[count], journal=tmp_path / "runs.db") as engine:
        assert engine.run("Count").state == "Done"
    parameters = [keys for kind, keys in model.keys if kind == "parameters"]
    assert len(parameters) > 1 and all(keys == parameters[0] != set() for keys in parameters)


@tool("notes.count", effect="read", repeat_allowed=True)
def count(page: int) -> str:
    """Count the words of a page."""
    return "7"
