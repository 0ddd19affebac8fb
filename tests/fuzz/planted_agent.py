"""
A small typical agent, the one in which the testing kit looks for planted bugs: a support desk.

Its tools are of every class of effect and have schemas as they come from elsewhere: patterns, enums, ranges, formats,
nested objects, lists, names in several spellings. One tool is denied, one waits for a person, one asks the model, one gives
a picture. Written against the public names alone, as a user would.
"""

from __future__ import annotations

from typing import Any

from paor import ApprovalRule, Document, Engine, Journal, Limits, Policy, Tool, ToolContext, ToolOutput, tool
from paor.errors import NotStarted, ToolError

ORDER = {"type": "string", "pattern": "^[A-Z]{2}-[0-9]{4}$", "description": "Such as DE-1042."}
ADDRESS = {
    "type": "object",
    "properties": {
        "street": {"type": "string", "minLength": 1},
        "city": {"type": "string", "minLength": 1},
        "country": {"enum": ["AT", "CH", "DE"]},
    },
    "required": ["street", "city"],
    "additionalProperties": False,
}


def _schema(required: list[str], **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def _look_up(order: str) -> dict[str, Any]:
    return {"order": order, "status": "late", "total": 119.9, "items": [{"sku": "A-1", "count": 2}]}


def _search(status: str = "open", limit: int = 10, filter: dict[str, Any] | None = None) -> list[str]:
    return [f"{status} order {number}" for number in range(min(limit, 3))]


def _refund(context: ToolContext, order: str, cents: int, reason: str = "") -> str:
    if cents > 90_000:
        raise ToolError("the bank refuses this amount")
    return f"refunded {cents} of {order} under {context.idempotency_key}"


def _send(context: ToolContext, to: list[str], subject: str, body: str = "") -> str:
    if not subject.strip():
        raise NotStarted("a message without a subject is not taken")
    return f"sent to {', '.join(to)} under {context.idempotency_key}"


def _move(context: ToolContext, customer: int, address: dict[str, Any]) -> str:
    if customer < 0:
        raise ToolError(f"there is no customer {customer}")
    return f"customer {customer} has moved to {address['city']} ({context.idempotency_key})"


def _forget(customer: int) -> str:
    return f"customer {customer} is gone"


def _fetch(urls: list[str], depth: str = "basic") -> list[Document]:
    return [Document(f"page{number}.html", f"<p>{url}</p>", "text/html") for number, url in enumerate(urls)]


def _chart(weeks: int = 4) -> ToolOutput:
    picture = bytes(range(256))[: 64 * weeks]
    return ToolOutput([Document("chart.png", picture, "image/png")], notes=[f"{weeks} weeks"])


TOOLS: tuple[Tool, ...] = (
    Tool("orders.lookUp", "Look an order up.", _schema(["order"], order=ORDER), _look_up, "read", "order"),
    Tool(
        "orders.search",
        "Search orders.",
        _schema(
            [],
            status={"enum": ["open", "late", "done"], "default": "open"},
            limit={"type": "integer", "minimum": 1, "maximum": 50, "default": 10},
            filter={
                "type": "object",
                "properties": {"city": {"type": "string"}, "since": {"format": "date"}},
            },
        ),
        _search,
        "read",
        "orders",
        retries=1,
    ),
    Tool(
        "payments.refund",
        "Pay money back; a person approves every call.",
        _schema(
            ["order", "cents"],
            order=ORDER,
            cents={"type": "integer", "minimum": 1, "maximum": 100_000},
            reason={"type": "string", "maxLength": 200},
        ),
        _refund,
        "once",
        "receipt",
    ),
    Tool(
        "mail_sendMessage.v2",
        "Send a message.",
        _schema(
            ["to", "subject"],
            to={
                "type": "array",
                "items": {"type": "string", "format": "email"},
                "minItems": 1,
                "maxItems": 3,
            },
            subject={"type": "string", "maxLength": 120},
            body={"type": "string"},
        ),
        _send,
        "once",
        "mail",
        retries=1,
    ),
    Tool(
        "crm.updateAddress",
        "Set the address of a customer.",
        _schema(["customer", "address"], customer={"type": "integer"}, address=ADDRESS),
        _move,
        "idempotent",
        "address",
        retries=2,
    ),
    Tool(
        "crm.deleteCustomer",
        "Delete a customer; the policy denies it.",
        _schema(["customer"], customer={"type": "integer"}),
        _forget,
    ),
    Tool(
        "pages.fetch",
        "Fetch pages.",
        _schema(
            ["urls"],
            urls={"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 4},
            depth={"enum": ["basic", "advanced"], "default": "basic"},
        ),
        _fetch,
        "read",
        "pages",
    ),
    Tool(
        "reports.chart",
        "Draw the last weeks.",
        _schema([], weeks={"type": "integer", "minimum": 1, "maximum": 4}),
        _chart,
        "read",
        "chart",
        repeat_allowed=True,
    ),
)


@tool("texts.summarise", effect="read")
def summarise(context: ToolContext, text: str, words: int = 50) -> str:
    """Have the model write a summary."""
    return context.ask(f"Summarise in {words} words: {text}")


def engine(journal: Journal) -> Engine:
    """Return the agent for a journal; the kit brings model, clock and ids."""
    policy = Policy(
        deny=("crm_delete*",),
        approvals=("payments.*", ApprovalRule(tool="mail_*", arguments={"to": "*@example.org"})),
    )
    return Engine("offline", (*TOOLS, summarise), journal, Limits(max_steps=4), policy, builtins=False)
