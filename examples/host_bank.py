"""The world behind the example service: orders, and a bank whose ledger is a file with one line for each payment."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Order:
    """An order of the shop; amounts are whole units of money."""

    id: str
    paid: int


class Bank:
    """
    A bank that pays whatever it is told to pay, also twice, and cannot take it back.

    Args:
        ledger: The file; a line is the payment's key, the order and the amount.
    """

    def __init__(self, ledger: str | os.PathLike[str]) -> None:
        self.ledger = Path(ledger)

    def order(self, order_id: str) -> Order:
        """Return an order; every order of this shop was paid with 900."""
        return Order(order_id, 900)

    def pay(self, key: str, order_id: str, amount: int) -> str:
        """Pay, and return the receipt."""
        receipt = f"{key} {order_id} {amount}"
        with self.ledger.open("a", encoding="utf-8") as file:
            file.write(f"{receipt}\n")
        return receipt

    def receipt(self, key: str) -> str | None:
        """
        Return the receipt of the payment with this key, None if there is none.

        Raises:
            ConnectionError: The bank does not tell; many banks do not.
        """
        lines = self.ledger.read_text(encoding="utf-8").splitlines() if self.ledger.exists() else []
        return next((line for line in lines if line.startswith(f"{key} ")), None)
