"""What the chats have in common and none is counted for: the page, the orders, and a bank that cannot take a payment back."""

import ast
import asyncio
import time
from pathlib import Path

from pydantic import BaseModel

SERVICE = Path(__file__).resolve().parents[2] / "examples" / "chat_service.py"
PAGE = next(
    ast.literal_eval(node.value)
    for node in ast.parse(SERVICE.read_text(encoding="utf-8")).body
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "PAGE"
)


class Order(BaseModel):
    """An order of the shop."""

    order_id: str
    city: str
    amount: int


async def find(order_id: str) -> Order:
    """Find an order."""
    await asyncio.sleep(0.1)
    return Order(order_id=order_id, city="Leeds", amount=250)


def pay(order_id: str, amount: int) -> str:
    """Pay: a line in the ledger, and an answer that does not come while a file ``slow`` is there."""
    with Path("ledger.txt").open("a", encoding="utf-8") as ledger:
        ledger.write(f"{order_id} {amount}\n")
    while Path("slow").exists():
        time.sleep(0.01)
    return f"{amount} paid back for {order_id}"
