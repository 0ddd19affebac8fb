"""A warehouse: what is reserved for one customer is shipped to another."""

from __future__ import annotations

import sqlite3
from typing import Annotated, Any

from pydantic import Field

from paor import Engine, Journal, tool
from paor.errors import ToolError
from paor.fuzz import EngineMachine, World

PARTS = (("bolt", 12), ("gasket", 7), ("valve", 30), ("bearing", 4))


def filled() -> sqlite3.Connection:
    """Return the stock of a Monday morning."""
    database = sqlite3.connect(":memory:", check_same_thread=False)
    database.execute("CREATE TABLE stock (sku TEXT PRIMARY KEY, on_hand INTEGER, reserved INTEGER)")
    for number, (name, on_hand) in enumerate(PARTS, 1):
        database.execute("INSERT INTO stock VALUES (?, ?, 0)", (f"{name[:3].upper()}-{number:03}", on_hand))
    return database


class Agent(EngineMachine):
    """Nobody has promised what is not on the shelf."""

    repro_folder = None

    def prepare(self) -> None:
        """Fill the shelves."""
        self.database = filled()

    def _row(self, sku: str) -> tuple[int, int]:
        found = self.database.execute("SELECT on_hand, reserved FROM stock WHERE sku = ?", (sku,)).fetchone()
        if found is None:
            raise ToolError("unknown article")
        return int(found[0]), int(found[1])

    def engine(self, journal: Journal) -> Engine:
        """Return the warehouse's agent."""

        @tool("stock.list", effect="read")
        def list_all() -> list[dict[str, Any]]:
            """List all articles with what is on the shelf."""
            rows = self.database.execute("SELECT sku, on_hand, reserved FROM stock ORDER BY sku")
            return [{"sku": sku, "on_hand": on_hand, "reserved": reserved} for sku, on_hand, reserved in rows]

        @tool("stock.reserve", effect="idempotent")
        def reserve(sku: str, quantity: Annotated[int, Field(ge=1)]) -> dict[str, int]:
            """Keep some of an article back for a customer."""
            on_hand, reserved = self._row(sku)
            if reserved + quantity > on_hand:
                raise ToolError("not enough of it is free")
            self.database.execute("UPDATE stock SET reserved = reserved + ? WHERE sku = ?", (quantity, sku))
            return {"reserved": reserved + quantity}

        @tool("stock.ship", effect="once")
        def ship(sku: str, quantity: Annotated[int, Field(ge=1)], address: str = "") -> str:
            """Send some of an article to an address."""
            on_hand, _ = self._row(sku)
            if quantity > on_hand:
                raise ToolError("so many there are not")
            self.database.execute("UPDATE stock SET on_hand = on_hand - ? WHERE sku = ?", (quantity, sku))
            return f"{quantity} pieces are on their way"

        @tool("mail.write")
        def write(to: str, text: str) -> str:
            """Write to a customer."""
            return "written"

        return Engine("offline", [list_all, reserve, ship, write], journal)

    def check(self, world: World) -> None:
        """Hold the stock to what is promised."""
        for sku, on_hand, reserved in self.database.execute("SELECT sku, on_hand, reserved FROM stock"):
            assert reserved <= on_hand, f"{sku} is promised and gone"
