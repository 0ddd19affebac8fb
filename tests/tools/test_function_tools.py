"""A decorated function keeps its signature, for people, for programs and for type checkers; mypy reads this file, too."""

from __future__ import annotations

import asyncio
import inspect
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import assert_type

import pytest

from paor import Engine, ScriptedModel, Tool, ToolContext, tool
from paor.errors import UsageError
from paor.testing import call, refine


@tool("orders.late", effect="read")
def late(days: int, *, carrier: str = "any") -> list[str]:
    """List the orders that are late."""
    return [f"O-{days} by {carrier}"]


@tool("orders.wait", effect="read", timeout_s=1.0)
async def wait(context: ToolContext, order: str) -> str:
    """Wait for an order."""
    await asyncio.sleep(0)
    return order


def test_it_is_called_with_its_own_types() -> None:
    """What `assert_type` says is checked by mypy, the rest here."""
    found = late(3, carrier="NordPost")
    assert_type(found, list[str])
    assert found == ["O-3 by NordPost"]
    waited = wait
    assert isinstance(waited, Tool) and waited.is_async
    with pytest.raises(TypeError, match="carriers"):
        late(3, carriers="x")  # type: ignore[call-arg]


def test_programs_see_its_parameters() -> None:
    """`inspect.signature` tells the function's, not those of a class."""
    assert inspect.signature(late) == inspect.signature(late.run or (lambda: None))
    assert list(inspect.signature(wait).parameters) == ["context", "order"]
    assert str(inspect.signature(late)) == "(days: 'int', *, carrier: 'str' = 'any') -> 'list[str]'"


class Shop:
    """Has methods that can be tools."""

    def stock(self, item: str) -> str:
        """Tell the stock."""
        return f"12 of {item}"

    @classmethod
    def opening(cls, day: str) -> str:
        """Tell when it opens."""
        return f"at 9 on {day}"


def test_a_method_is_a_tool_where_it_is_bound_and_refused_where_it_is_not() -> None:
    """Nobody would pass its ``self``: every call would fail."""
    assert tool("shop.stock", effect="read")(Shop().stock)("pump") == "12 of pump"
    assert tool("shop.opening")(Shop.opening)("Monday") == "at 9 on Monday"
    with pytest.raises(UsageError, match=r"Shop\.stock is a method, .*decorate the bound one"):
        tool("shop.stock")(Shop.stock)
    with pytest.raises(UsageError, match="is a method"):

        class Other:
            @tool("other.stock", effect="read")
            def stock(self, item: str) -> str:
                """Tell the stock."""
                return item


def test_sync_tools_that_wait_for_runs_leave_threads_for_these(tmp_path: Path) -> None:
    """However few threads the event loop's pool has, and however deep they wait."""

    def agent(name: str, made: Tool) -> Engine:
        model = ScriptedModel([*call(name), refine("stop", answer=name)])
        return Engine(model, [made], tmp_path / "runs.db", builtins=False)

    async def main() -> list[str]:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(1))

        def asking(name: str, then: Tool) -> Tool:
            @tool(name, effect="read")
            def ask() -> str:
                """Ask another agent."""
                return asyncio.run_coroutine_threadsafe(run(then), loop).result(30)

            return ask

        @tool("a.work", effect="read")
        def work() -> str:
            """Do it."""
            return "done"

        async def run(made: Tool) -> str:
            with agent(made.name, made) as engine:
                result = await engine.arun("do it")
                assert [one.outcome for one in engine.journal.calls(result.run_id)] == ["ok"]
                return result.answer

        return await asyncio.gather(*(run(asking("a.outer", asking("a.inner", work))) for _ in range(2)))

    assert asyncio.run(main()) == ["a.outer"] * 2
