"""A shop: an order is paid in parts, each of which is held to the whole sum alone."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from paor import Engine, Journal, tool
from paor.errors import ToolError
from paor.fuzz import EngineMachine, World

TOTALS = {"A-1001": 12_950, "A-1002": 4_000, "B-2001": 99_900}
"""Sums of orders, in cents."""


class Agent(EngineMachine):
    """No order is paid beyond its sum."""

    repro_folder = None

    def prepare(self) -> None:
        """Nothing is paid yet."""
        self.paid = dict.fromkeys(TOTALS, 0)

    def engine(self, journal: Journal) -> Engine:
        """Return the shop's agent."""

        @tool("orders.show", effect="read")
        def show(order: str) -> dict[str, Any]:
            """Show an order."""
            if order not in TOTALS:
                raise ToolError(f"there is no order {order!a}")
            return {"order": order, "total": TOTALS[order], "paid": self.paid[order]}

        @tool("orders.pay")
        def pay(order: str, cents: Annotated[int, Field(ge=1)]) -> str:
            """Pay an order, or a part of it."""
            if order not in TOTALS:
                raise ToolError(f"there is no order {order!a}")
            if cents > TOTALS[order]:
                raise ToolError("that is more than the order costs")
            self.paid[order] += cents
            return "paid"

        @tool("mail.send")
        def send(to: str, text: str) -> str:
            """Write to a customer."""
            return "sent"

        return Engine("offline", [show, pay, send], journal)

    def check(self, world: World) -> None:
        """Hold what was paid to the sums."""
        for order, total in TOTALS.items():
            assert self.paid[order] <= total, f"{order} was paid twice"
