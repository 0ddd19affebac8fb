"""
A small support agent, the tests of which are drawn by hypothesis: `paor fuzz` finds what is wrong with it.

It may look an order up, refund it, and write to the customer. One of its tools does not keep what it declares: run

    pip install "paor[fuzz]"
    paor fuzz --app fuzzed_agent:ShopMachine

in this folder, or this file with unittest, and read the shortest way in which a customer is paid twice. `careful=True` is
the same agent, repaired.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from paor import Engine, Journal, Policy, Tool, ToolContext, tool
from paor.errors import ToolError
from paor.fuzz import EngineMachine, World

PRICES = {"A-1": 20, "A-2": 75}


class Bank:
    """Where money goes; it outlives the agent's process. One that gets the same key again pays nothing again."""

    def __init__(self) -> None:
        self.payments: list[tuple[str, int]] = []
        self.keys: set[str] = set()

    def pay(self, order: str, amount: int, key: str | None = None) -> None:
        """Pay, unless *key* was paid before."""
        if key is None or key not in self.keys:
            self.payments.append((order, amount))
        self.keys |= {key} if key is not None else set()


def tools(bank: Bank, *, careful: bool) -> list[Tool]:
    """Return the agent's tools."""

    @tool("orders.lookup", effect="read")
    def lookup(order: str) -> dict[str, object]:
        """Look one order up."""
        if order not in PRICES:
            raise ToolError(f"there is no order {order!a}")
        return {"order": order, "price": PRICES[order]}

    @tool("orders.refund", effect="idempotent")
    def refund(context: ToolContext, order: str, percent: Annotated[int, Field(ge=1, le=100)] = 100) -> str:
        """Refund an order, or a part of it."""
        if order not in PRICES:
            return "nothing to refund"
        key = context.idempotency_key if careful else None  # the bug: the bank could tell, and is not told
        bank.pay(order, PRICES[order] * percent // 100, key)
        return "refunded"

    @tool("mail.send")
    def send(text: str) -> str:
        """Write to the customer; it cannot be taken back."""
        return f"sent {len(text)} characters"

    return [lookup, refund, send]


def make_engine(journal: Journal, bank: Bank | None = None, *, careful: bool = False) -> Engine:
    """Return the agent's engine, as the service starts it."""
    own = tools(bank if bank is not None else Bank(), careful=careful)
    return Engine("offline", own, journal, policy=Policy(approvals=("mail.*",)), builtins=False)


class ShopMachine(EngineMachine):
    """The agent under test: whatever happens, one call of the model pays once."""

    app = "fuzzed_agent:ShopMachine"
    objective = "Refund what was late"
    values: ClassVar = {"order": tuple(PRICES)}
    careful = False

    def prepare(self) -> None:
        """The bank is there before the agent, and stays when its process is lost."""
        self.bank = Bank()

    def engine(self, journal: Journal) -> Engine:
        """Return the agent's engine, as after every start of its process."""
        return make_engine(journal, self.bank, careful=self.careful)

    def check(self, world: World) -> None:
        """As many payments as there were calls, however often a call was begun."""
        calls = {call.key for call in world.watch.calls if call.tool == "orders.refund"}
        assert len(self.bank.payments) <= len(calls), "a customer was paid twice for one call"


TestShop = ShopMachine.TestCase

if __name__ == "__main__":
    import unittest

    unittest.main()
