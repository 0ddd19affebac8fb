"""Sixteen tools over one order desk: fourteen with a JSON Schema as hosts have it already, two typed functions."""

from __future__ import annotations

from typing import Annotated, Any

from host_desk import Desk
from pydantic import Field

from paor import Tool, ToolContext, tool

ORDER_ID = {"type": "string", "pattern": "^O-[0-9]{4}$", "description": "such as O-1004"}
LINE = {
    "type": "object",
    "properties": {
        "sku": {"enum": ["chair", "desk", "lamp"]},
        "quantity": {"type": "integer", "minimum": 1, "maximum": 500},
    },
    "required": ["sku", "quantity"],
    "additionalProperties": False,
}
ADDRESS = {
    "type": "object",
    "properties": {
        "street": {"type": "string"},
        "city": {"type": "string"},
        "country": {"enum": ["NO", "IT", "GB"]},
    },
    "required": ["street", "city"],
}


def shape(required: list[str], **properties: Any) -> dict[str, Any]:
    """Return the schema of an object that takes these properties and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def host_tools(desk: Desk) -> list[Tool]:
    """Return the tools of *desk*: orders, customers, stock, shipping, money and mail."""

    @tool("payments.status", effect="read")
    def payment_status(
        order_id: Annotated[str, Field(pattern="^O-[0-9]{4}$")], with_refunds: bool = False
    ) -> dict[str, Any]:
        """Tell what has been paid for an order."""
        order = desk.find_order(order_id)
        refunds = [entry for entry in desk.refunds.values() if entry["order"] == order_id]
        return {"order": order_id, "paid": order["total"]} | ({"refunds": refunds} if with_refunds else {})

    @tool("desk.read_list", effect="read", label="rows")
    def read_list(context: ToolContext, documentList: list[str]) -> list[dict[str, str]]:
        """Read the CSV lists that came with the ticket."""
        bodies = [item.data for item in context.documents(documentList)]
        return desk.read_list([body if isinstance(body, str) else body.decode() for body in bodies])

    return [
        *_order_tools(desk),
        *_customer_tools(desk),
        *_stock_and_shipping_tools(desk),
        *_money_and_mail_tools(desk),
        payment_status,
        read_list,
    ]


def _order_tools(desk: Desk) -> list[Tool]:
    return [
        Tool(
            "orders.find",
            "Return one order.",
            shape(["order_id"], order_id=ORDER_ID),
            desk.find_order,
            "read",
        ),
        Tool(
            name="orders.search",
            description="Search orders by status and by the day on which they were placed.",
            parameters={
                "type": "object",
                "properties": {
                    "filter": {
                        "type": "object",
                        "properties": {
                            "status": {"enum": ["open", "shipped", "late", "cancelled"]},
                            "placed": {"$ref": "#/$defs/period"},
                        },
                        "minProperties": 1,
                        "additionalProperties": False,
                    },
                    "sort": {"enum": ["placed", "total", "id"], "default": "placed"},
                    "limit": {"type": "integer", "minimum": 1, "maximum": 50, "default": 10},
                },
                "required": ["filter"],
                "$defs": {
                    "day": {"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"},
                    "period": {
                        "type": "object",
                        "properties": {"from": {"$ref": "#/$defs/day"}, "to": {"$ref": "#/$defs/day"}},
                        "additionalProperties": False,
                    },
                },
            },
            run=desk.search_orders,
            effect="read",
        ),
        Tool(
            name="orders.create",
            description="Book a new order.",
            parameters={
                "type": "object",
                "properties": {
                    "customer_id": {"type": "string", "pattern": "^C-[0-9]{3}$"},
                    "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}, "minItems": 1},
                    "ship_to": {"$ref": "#/$defs/address"},
                    "priority": {"enum": ["normal", "high"], "default": "normal"},
                },
                "required": ["customer_id", "lines", "ship_to"],
                "$defs": {"line": LINE, "address": ADDRESS},
            },
            run=desk.create_order,
        ),
        Tool(
            name="orders.redirect",
            description="Send an order to another address, or to a pick-up point.",
            parameters=shape(
                ["order_id", "to"],
                order_id=ORDER_ID,
                to={"anyOf": [ADDRESS, shape(["pickup_point"], pickup_point={"type": "string"})]},
            ),
            run=desk.redirect_order,
            effect="idempotent",
        ),
        Tool(
            name="orders.cancel",
            description="Cancel an order.",
            parameters=shape(
                ["order_id", "reason"],
                order_id=ORDER_ID,
                reason={"enum": ["customer", "out_of_stock", "fraud"]},
            ),
            run=desk.cancel_order,
        ),
        Tool(
            name="orders.purge",
            description="Delete orders for good.",
            parameters=shape(["order_ids"], order_ids={"type": "array", "items": ORDER_ID, "minItems": 1}),
            run=desk.purge_orders,
        ),
    ]


def _customer_tools(desk: Desk) -> list[Tool]:
    return [
        Tool(
            name="customers.find",
            description="Find a customer by e-mail address or telephone number.",
            parameters={  # no "type" at the top: schemas in the wild often lack it
                "properties": {
                    "email": {"type": "string", "format": "email"},
                    "phone": {"type": "string"},
                },
                "anyOf": [{"required": ["email"]}, {"required": ["phone"]}],
            },
            run=desk.find_customer,
            effect="read",
        ),
        Tool(
            name="customers.note",
            description="Put a note on a customer's page.",
            parameters=shape(
                ["customer_id", "text", "tags"],
                customer_id={"type": "string"},
                text={"type": "string", "minLength": 1, "maxLength": 500},
                tags={"type": "array", "items": {"enum": ["delay", "praise", "refund"]}, "uniqueItems": True},
            ),
            run=desk.note_customer,
        ),
    ]


def _stock_and_shipping_tools(desk: Desk) -> list[Tool]:
    sizes = {name: {"type": "number", "exclusiveMinimum": 0} for name in ("length", "width", "height")}
    return [
        Tool(
            name="stock.level",
            description="Tell how many pieces there are; may be asked again and again.",
            parameters={
                "properties": {"skus": {"items": {"enum": ["chair", "desk", "lamp"]}, "minItems": 1}},
                "required": ["skus"],
            },
            run=desk.stock_level,
            effect="read",
            repeat_allowed=True,
        ),
        Tool(
            name="stock.reserve",
            description="Reserve pieces.",
            parameters=shape(["lines"], lines={"type": "array", "items": LINE, "minItems": 1}),
            run=desk.reserve_stock,
            effect="idempotent",
        ),
        Tool(
            name="shipping.quote",
            description="Ask the carrier for a price.",
            parameters=shape(
                ["parcel"],
                parcel=shape(
                    ["weight_kg", "size_cm"],
                    weight_kg={"type": "number", "exclusiveMinimum": 0, "maximum": 40},
                    size_cm=shape(list(sizes), **sizes),
                ),
                service={"enum": ["standard", "express"], "default": "standard"},
            ),
            run=desk.quote_shipping,
            effect="read",
        ),
        Tool(
            name="shipping.book",
            description="Book a pick-up for an order.",
            parameters=shape(
                ["order_id", "pickup"],
                order_id=ORDER_ID,
                pickup={"anyOf": [{"const": "today"}, {"type": "string", "format": "date"}]},
            ),
            run=desk.book_shipping,
            retries=2,
        ),
    ]


def _money_and_mail_tools(desk: Desk) -> list[Tool]:
    return [
        Tool(
            name="payments.refund",
            description="Pay money back; a person approves each call.",
            parameters=shape(
                ["order_id", "amount"],
                order_id=ORDER_ID,
                amount={"anyOf": [{"const": "full"}, {"type": "number", "exclusiveMinimum": 0}]},
            ),
            run=desk.refund,
            reconcile=desk.refund_of,
        ),
        Tool(
            name="mail.send",
            description="Send a mail to a customer.",
            parameters=shape(
                ["to", "subject"],
                to={"type": "string", "format": "email"},
                subject={"type": "string"},
                attachments={
                    "type": "array",
                    "items": shape(["name", "url"], name={"type": "string"}, url={"type": "string"}),
                },
            ),
            run=desk.send_mail,
        ),
    ]
