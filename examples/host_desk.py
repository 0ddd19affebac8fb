"""The shop behind the example host: orders, customers, stock, a carrier that is often busy, and a cash book."""

from __future__ import annotations

import csv
import io
import threading
from typing import Any

from paor import ToolContext
from paor.errors import NotStarted, ToolError

PRICES = {"chair": 80.0, "desk": 240.0, "lamp": 35.0}
CITIES = ("Oslo", "Turin", "Leeds")
STATUSES = ("open", "shipped", "late")


class Desk:
    """
    An order desk in memory; its methods are what the tools call, from any thread.

    Args:
        orders: How many orders there are; the first is O-1001.

    Attributes:
        orders: By id.
        refunds: The cash book: what was paid back, by idempotency key.
        sent, purged: Mails that left the house, and orders that were deleted for good.
    """

    def __init__(self, orders: int = 200) -> None:
        self.orders = {order["id"]: order for order in map(_order, range(1, orders + 1))}
        self.notes: dict[str, list[str]] = {}
        self.refunds: dict[str, dict[str, Any]] = {}
        self.reserved: dict[str, list[dict[str, Any]]] = {}
        self.sent: list[str] = []
        self.purged: list[str] = []
        self._polls: dict[str, int] = {}
        self._calls: set[str] = set()
        self._lock = threading.Lock()

    # -- orders ------------------------------------------------------------------------------------------------

    def find_order(self, order_id: str) -> dict[str, Any]:
        """Return one order; raise `ToolError` when there is none, which the model may read."""
        if order_id not in self.orders:
            raise ToolError(f"there is no order {order_id}")
        return dict(self.orders[order_id])

    def search_orders(
        self, filter: dict[str, Any], sort: str = "placed", limit: int = 10
    ) -> list[dict[str, Any]]:
        """Return the orders that fit every condition of *filter*."""
        period = filter.get("placed", {})
        found = [
            order
            for order in self.orders.values()
            if order["status"] == filter.get("status", order["status"])
            and period.get("from", "") <= order["placed"] <= period.get("to", "9999")
        ]
        return sorted(found, key=lambda order: order[sort])[:limit]

    def create_order(
        self, customer_id: str, lines: list[dict[str, Any]], ship_to: dict[str, Any], priority: str = "normal"
    ) -> dict[str, Any]:
        """Book a new order."""
        total = sum(PRICES[line["sku"]] * line["quantity"] for line in lines)
        with self._lock:
            order = {"id": f"O-{1001 + len(self.orders)}", "customer": customer_id, "status": "open"}
            order |= {"city": ship_to["city"], "placed": "2026-05-04", "total": total, "priority": priority}
            self.orders[order["id"]] = order
        return dict(order)

    def redirect_order(self, order_id: str, to: dict[str, Any]) -> str:
        """Send an order to another address or pick-up point; the second time changes nothing."""
        self.find_order(order_id)
        place = to.get("pickup_point") or f"{to['street']}, {to['city']}"
        self.orders[order_id]["city"] = place
        return f"{order_id} goes to {place}"

    def cancel_order(self, order_id: str, reason: str) -> str:
        """Cancel an order that has not left yet."""
        self.find_order(order_id)
        self.orders[order_id]["status"] = "cancelled"
        return f"{order_id} is cancelled ({reason})"

    def purge_orders(self, order_ids: list[str]) -> str:
        """Delete orders for good: the policy of this desk never lets a model do it."""
        self.purged += order_ids
        return f"{len(order_ids)} orders are gone"

    # -- customers ---------------------------------------------------------------------------------------------

    def find_customer(self, email: str = "", phone: str = "") -> dict[str, Any]:
        """Return the customer with this e-mail address or telephone number."""
        digits = "".join(character for character in email.partition("@")[0] + phone if character.isdigit())
        if not digits:
            raise ToolError(f"nobody is known as {email or phone}")
        return {"id": f"C-{int(digits) % 40 + 1:03}", "name": f"Customer {digits}", "since": 2021}

    def note_customer(self, customer_id: str, text: str, tags: list[str]) -> str:
        """Put a note on a customer's page."""
        with self._lock:
            self.notes.setdefault(customer_id, []).append(f"[{', '.join(tags)}] {text}")
        return f"noted for {customer_id}"

    # -- stock and shipping ------------------------------------------------------------------------------------

    def stock_level(self, skus: list[str], context: ToolContext) -> dict[str, int]:
        """Tell how many pieces there are; lamps arrive while one waits, after two looks."""
        with self._lock:
            looks = self._polls[context.run_id] = self._polls.get(context.run_id, 0) + 1
        return {sku: (12 if sku != "lamp" or looks > 2 else 0) for sku in skus}

    def reserve_stock(self, lines: list[dict[str, Any]], context: ToolContext) -> str:
        """Reserve pieces; the key makes a second call harmless."""
        self.reserved[context.idempotency_key] = lines
        return f"reserved {sum(line['quantity'] for line in lines)} pieces"

    async def quote_shipping(self, parcel: dict[str, Any], service: str = "standard") -> dict[str, Any]:
        """Ask the carrier for its price; a coroutine, as most network code is."""
        volume = parcel["size_cm"]["length"] * parcel["size_cm"]["width"] * parcel["size_cm"]["height"] / 1000
        price = 4 + parcel["weight_kg"] * 0.9 + volume * 0.01
        return {"service": service, "price": round(price * (2 if service == "express" else 1), 2)}

    def book_shipping(self, order_id: str, pickup: str, context: ToolContext) -> str:
        """Book a pick-up. The carrier is busy at the first try, and that try certainly did not begin."""
        with self._lock:
            first = context.idempotency_key not in self._calls
            self._calls.add(context.idempotency_key)
        if first:
            raise NotStarted("the carrier's line is busy")
        return f"{order_id} will be picked up: {pickup}"

    # -- money and mail ----------------------------------------------------------------------------------------

    def refund(self, order_id: str, amount: float | str, context: ToolContext) -> dict[str, Any]:
        """Pay money back, once per key."""
        total = float(self.find_order(order_id)["total"])
        entry = {"order": order_id, "amount": total if amount == "full" else amount}
        with self._lock:
            return self.refunds.setdefault(context.idempotency_key, entry)

    def refund_of(self, key: str) -> dict[str, Any] | None:
        """Tell after a crash whether a refund happened; None: it certainly did not."""
        return self.refunds.get(key)

    def send_mail(
        self, to: str, subject: str, context: ToolContext, attachments: list[dict[str, str]] | None = None
    ) -> str:
        """Send a mail from the mailbox that the run was given."""
        if context.connection is None:
            raise ToolError("choose a connection: the mailbox to send from")
        with self._lock:
            self.sent.append(f"{context.connection} -> {to}: {subject}")
        return f"sent to {to} with {len(attachments or ())} attachments"

    def read_list(self, texts: list[str]) -> list[dict[str, str]]:
        """Return the rows of CSV texts."""
        rows = [row for text in texts for row in csv.DictReader(io.StringIO(text))]
        if not rows:
            raise ToolError("the list has no rows")
        return rows


def _order(number: int) -> dict[str, Any]:
    return {
        "id": f"O-{1000 + number}",
        "customer": f"C-{number % 40 + 1:03}",
        "status": STATUSES[number % 3],
        "city": CITIES[number % 3],
        "placed": f"2026-{number % 4 + 1:02}-{number % 28 + 1:02}",
        "total": 20.0 + 3.5 * number,
    }
