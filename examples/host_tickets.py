"""
The desk's tickets: 24 shapes of a task, each with the replies that a model gives to it.

A reply is what a language model would send at that point of the two-stage protocol, see docs/machine.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from paor import Limits
from paor.errors import ModelUnavailable

Reply = Mapping[str, Any] | Exception


@dataclass(frozen=True)
class Ticket:
    """
    One task for the desk.

    Attributes:
        number: ``T-001`` and so on; every prompt of its run holds it.
        shape: Name of its shape.
        request: What the customer or a colleague wants.
        replies: What the model says, in order.
        state, reason: How its run must end.
        options: Further arguments of `Engine.run`.
        decision: What the person in charge answers when the run waits: approve, decline or cancel.
    """

    number: str
    shape: str
    request: str
    replies: tuple[Reply, ...]
    state: str = "Done"
    reason: str = "model_stop"
    options: dict[str, Any] = field(default_factory=dict)
    decision: str = ""

    @property
    def objective(self) -> str:
        """The request with the ticket's number."""
        return f"{self.number}: {self.request}"


@dataclass(frozen=True)
class Case:
    """What the shapes are written with: one ticket's number, order and replies."""

    ticket: str
    order: str
    customer: str

    def choose(self, action: str, *fields: str, **more: Any) -> dict[str, Any]:
        """Stage 1: choose an action and name the parameters that Stage 2 is to set."""
        schema = [{"name": name, "type": "string", "required": False, "description": ""} for name in fields]
        return {
            "action": action,
            "actionObjective": f"{self.ticket}: {action} for the customer",
            "parametersContext": f"order {self.order} of customer {self.customer}",
            "parametersSchema": {"fields": schema},
        } | more

    def call(self, action: str, **parameters: Any) -> tuple[Reply, Reply]:
        """Stage 1 and Stage 2 of one action."""
        return self.choose(action, *parameters), give(**parameters)


def give(**parameters: Any) -> dict[str, Any]:
    """Stage 2: set the parameters."""
    return {"schema": "parameters_v1", "parameters": parameters}


def go_on(reason: str = "there is more to do", **more: Any) -> dict[str, Any]:
    """Refinement: another action is needed."""
    return {"decision": "continue", "reason": reason} | more


def stop(reason: str = "nothing is left to do", **more: Any) -> dict[str, Any]:
    """Refinement: enough is known."""
    return {"decision": "stop", "reason": reason} | more


def success(answer: str = "All done.") -> dict[str, Any]:
    """Completion review: the task is done."""
    return {"status": "success", "improvements": [], "answer": answer}


def again(improvement: str) -> dict[str, Any]:
    """Completion review: try once more."""
    return {"status": "retry", "improvements": [improvement]}


def tickets(count: int = 120) -> list[Ticket]:
    """Return *count* tickets; each has the next shape."""
    makers = list(SHAPES.items())
    made = []
    for index in range(count):
        name, shape = makers[index % len(makers)]
        case = Case(f"T-{index + 1:03}", f"O-{1001 + index}", f"C-{(index + 1) % 40 + 1:03}")
        made.append(Ticket(case.ticket, name, **shape(case)))
    return made


# -- runs that reach Done ----------------------------------------------------------------------------------------


def _find(case: Case) -> dict[str, Any]:
    criterion = "says in which city the order is"
    check = {"criterion": criterion, "met": True, "evidence": "the order's record"}
    return {
        "request": f"Where is {case.order}?",
        "replies": (*case.call("orders.find", order_id=case.order), stop(criteria=[check]), success()),
        "reason": "criteria_met",
        "options": {"success_criteria": [criterion]},
    }


def _three_steps(case: Case) -> dict[str, Any]:
    late = {"status": "late", "placed": {"from": "2026-01-01", "to": "2026-03-31"}}
    return {
        "request": "Which of this customer's orders are late? Note it on the customer's page.",
        "replies": (
            *case.call("orders.search", filter=late, limit=5),
            go_on(),
            *case.call("customers.find", email=f"buyer{case.order[2:]}@example.com"),
            go_on(),
            *case.call("customers.note", customer_id=case.customer, text="orders are late", tags=["delay"]),
            stop(),
            success("Two orders are late; it is noted."),
        ),
    }


def _answer_only(case: Case) -> dict[str, Any]:
    return {
        "request": "What are your opening hours?",
        # an answer of the model's own is not reviewed
        "replies": ({"action": None, "answer": "From 8 to 17, Monday to Friday."},),
    }


def _create(case: Case) -> dict[str, Any]:
    lines = [{"sku": "chair", "quantity": 4}, {"sku": "desk", "quantity": 1}]
    home = {"street": "Quay 7", "city": "Leeds", "country": "GB"}
    return {
        "request": "Order four chairs and a desk to Quay 7 in Leeds.",
        "replies": (
            {"action": {"method": "orders", "name": "create"}},  # the short form of Stage 1
            give(customer_id=case.customer, lines=lines, ship_to=home),
            stop(),
            success(),
        ),
    }


def _reserve(case: Case) -> dict[str, Any]:
    return {
        "request": "Reserve two lamps.",
        "replies": (*case.call("stock.reserve", lines=[{"sku": "lamp", "quantity": 2}]), stop(), success()),
    }


def _quote(case: Case) -> dict[str, Any]:
    parcel = {"weight_kg": 12.5, "size_cm": {"length": 80, "width": 60, "height": 15}}
    return {
        "request": "What does express shipping of a flat desk cost?",
        "replies": (*case.call("shipping.quote", parcel=parcel, service="express"), stop(), success()),
    }


def _corrected(case: Case) -> dict[str, Any]:
    choice, _ = case.call("orders.redirect", order_id=case.order, to={})
    return {
        "request": f"Redirect {case.order} to the pick-up point at the harbour.",
        "replies": (
            choice,
            give(order_id=case.order, to={"harbour": True}),  # fits neither branch: asked again
            give(order_id=case.order, to={"pickup_point": "harbour"}),
            stop(),
            success(),
        ),
    }


def _refused_then_right(case: Case) -> dict[str, Any]:
    choice, _ = case.call("orders.cancel", order_id=case.order, reason="")
    wrong = give(order_id=case.order, reason="no idea")
    return {
        "request": f"Cancel {case.order}, the customer asked for it.",
        "replies": (
            *(choice, wrong, wrong),  # wrong twice: the call is refused, and observed like any other
            go_on("the reason must be one of the list"),
            *case.call("orders.cancel", order_id=case.order, reason="customer"),
            stop(),
            success(),
        ),
    }


def _denied_then_other(case: Case) -> dict[str, Any]:
    return {
        "request": f"Get rid of {case.order}.",
        "replies": (
            case.choose("orders.purge", "order_ids"),  # the policy says no: asked again
            *case.call("orders.cancel", order_id=case.order, reason="customer"),
            stop(),
            success(),
        ),
    }


def _refund_approved(case: Case) -> dict[str, Any]:
    return {
        "request": f"Refund {case.order} in full.",
        "replies": (*case.call("payments.refund", order_id=case.order, amount="full"), stop(), success()),
        "decision": "approve",
    }


def _refund_declined(case: Case) -> dict[str, Any]:
    return {
        "request": f"Refund 10 of {case.order}.",
        "replies": (
            *case.call("payments.refund", order_id=case.order, amount=10),
            stop("a person said no"),
            success("The refund was not approved."),
        ),
        "decision": "decline",
    }


def _tool_fails(case: Case) -> dict[str, Any]:
    return {
        "request": "Where is O-9999? The telephone number is 555 0142.",
        "replies": (
            *case.call("orders.find", order_id="O-9999"),
            go_on("there is no such order; look for the customer"),
            *case.call("customers.find", phone="555 0142"),
            stop(),
            success("There is no such order; the customer is known."),
        ),
    }


def _carrier_busy(case: Case) -> dict[str, Any]:
    return {
        "request": f"Have {case.order} picked up today.",
        "replies": (*case.call("shipping.book", order_id=case.order, pickup="today"), stop(), success()),
    }


def _polling(case: Case) -> dict[str, Any]:
    looks = [reply for _ in range(3) for reply in (*case.call("stock.level", skus=["lamp"]), go_on())]
    return {
        "request": "Tell me when lamps have arrived.",
        "replies": (*looks[:-1], stop("they are here"), success("Twelve lamps have arrived.")),
    }


def _unsafe_link(case: Case) -> dict[str, Any]:
    link = [{"name": "invoice", "url": "http://localhost/admin"}]
    choice, bad = case.call("mail.send", to="buyer@example.com", subject="Invoice", attachments=link)
    return {
        "request": "Mail the invoice.",
        "replies": (
            *(choice, bad, bad),  # a private address in an argument never reaches a tool
            stop("the link may not be sent"),
            success("The invoice was not mailed: its link is private."),
        ),
    }


def _mail(case: Case) -> dict[str, Any]:
    choice = case.choose("mail.send", "to", "subject", requiredConnection="mailbox")
    return {
        "request": "Tell the customer that the order has left.",
        "replies": (
            choice,
            give(to="buyer@example.com", subject=f"{case.order} has left"),
            stop(),
            success(),
        ),
        "options": {"connections": {"mailbox": "desk@shop.example"}},
    }


def _list_and_report(case: Case) -> dict[str, Any]:
    listing = f"order,days_late\n{case.order},3\nO-1002,1\n"
    choice = case.choose("desk.read_list", requiredInputDocuments=["docList:round1_task1_action0_input"])
    return {
        "request": "Make a report of the late orders in the list.",
        "replies": (choice, stop(), success("Two orders are late.")),
        "options": {"documents": [("late.csv", listing)], "final_format": "md"},
    }


def _second_attempt(case: Case) -> dict[str, Any]:
    return {
        "request": f"What was paid for {case.order}, refunds included?",
        "replies": (
            *case.call("payments.status", order_id=case.order),
            stop(),
            again("include the refunds"),
            *case.call("payments.status", order_id=case.order, with_refunds=True),
            stop(),
            success(),
        ),
    }


def _last_step_is_enough(case: Case) -> dict[str, Any]:
    return {
        "request": f"Tell me everything about {case.order}.",
        "replies": (*case.call("orders.find", order_id=case.order), go_on(), success("This much is known.")),
        "reason": "max_steps",
        "options": {"limits": Limits(max_steps=1)},
    }


# -- runs that must end in Failed --------------------------------------------------------------------------------


def _max_steps(case: Case) -> dict[str, Any]:
    return {
        "request": "Look until you have found everything.",
        "replies": (
            *case.call("orders.find", order_id=case.order),
            go_on(),
            *case.call("payments.status", order_id=case.order),
            go_on(),
            again("keep looking"),
        ),
        "state": "Failed",
        "reason": "max_steps",
        "options": {"limits": Limits(max_steps=2)},
    }


def _denied(case: Case) -> dict[str, Any]:
    purge = case.choose("orders.purge", "order_ids")
    return {
        "request": f"Delete {case.order} for good.",
        "replies": (purge, purge),
        "state": "Failed",
        "reason": "selection_invalid",
    }


def _refund_cancelled(case: Case) -> dict[str, Any]:
    return {
        "request": f"Refund {case.order} in full, at once.",
        "replies": case.call("payments.refund", order_id=case.order, amount="full"),
        "state": "Failed",
        "reason": "cancelled",
        "decision": "cancel",
    }


def _stuck(case: Case) -> dict[str, Any]:
    call = case.call("orders.redirect", order_id=case.order, to={"pickup_point": "harbour"})
    same = [reply for _ in range(3) for reply in (*call, go_on())]
    return {
        "request": f"Redirect {case.order} to the harbour. Do not stop trying.",
        "replies": tuple(
            same[:-1]
        ),  # the third call in a row is blocked, and one blocked call is enough here
        "state": "Failed",
        "reason": "stuck",
        "options": {"limits": Limits(max_steps=10, max_blocked_calls=1)},
    }


def _model_down(case: Case) -> dict[str, Any]:
    return {
        "request": f"Where is {case.order}?",
        "replies": (ModelUnavailable("overloaded", "the model is overloaded"),),
        "state": "Failed",
        "reason": "model_error",
    }


SHAPES: dict[str, Callable[[Case], dict[str, Any]]] = {
    "find": _find,
    "three steps": _three_steps,
    "answer only": _answer_only,
    "create": _create,
    "reserve": _reserve,
    "quote": _quote,
    "corrected": _corrected,
    "refused, then right": _refused_then_right,
    "denied, then other": _denied_then_other,
    "refund approved": _refund_approved,
    "refund declined": _refund_declined,
    "tool fails": _tool_fails,
    "carrier busy": _carrier_busy,
    "polling": _polling,
    "unsafe link": _unsafe_link,
    "mail": _mail,
    "list and report": _list_and_report,
    "second attempt": _second_attempt,
    "last step is enough": _last_step_is_enough,
    "max steps": _max_steps,
    "denied": _denied,
    "refund cancelled": _refund_cancelled,
    "stuck": _stuck,
    "model down": _model_down,
}
"""The shapes by name; 24 of them."""
