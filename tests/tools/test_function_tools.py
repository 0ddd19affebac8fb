"""A decorated function keeps its signature, for people, for programs and for type checkers; mypy reads this file, too."""

from __future__ import annotations

import asyncio
import inspect
from typing import assert_type

import pytest

from paor import Tool, ToolContext, tool


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
