"""
A page of a run: a support desk refunds an order, books its pickup and tells the customer.

    python examples/report_page.py                    # writes report.html
    python examples/report_page.py desk.db            # keeps the journal, too: paor inspect --journal desk.db

On the way a denied tool is chosen, an argument does not fit, a person approves the refund, the carrier does not say whether it has booked, and
the review wants the customer told. Two more runs wait for a person. The model is a script and time a story, so the page is the same every time.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
from pathlib import Path
from typing import Annotated

from pydantic import Field

from paor import Engine, Journal, Limits, ModelCall, Policy, Reply, Usage, report, tool
from paor.errors import EffectUnknown
from paor.testing import SeededIds, call, refine, review

OrderId = Annotated[str, Field(pattern=r"^O-[0-9]{4}$")]


class Story:
    """The clock of the story, which goes on as models and tools work."""

    def __init__(self) -> None:
        self.now = 1_779_181_322_000_000
        self._random = random.Random(118)

    def pass_s(self, least: float, most: float) -> None:
        """Let between *least* and *most* seconds pass."""
        self.now += int(self._random.uniform(least, most) * 1e6)

    def now_us(self) -> int:
        """Return the time of the story."""
        self.now += 137
        return self.now

    def active_us(self) -> int:
        """Return the same, as what budgets count."""
        return self.now_us()


STORY = Story()


class DeskModel:
    """A script; each reply takes a second or two, and costs what its tokens cost."""

    name = "scripted-desk"

    def __init__(self, *replies: object) -> None:
        self.replies = [json.dumps(reply) for reply in replies]

    def ask(self, call: ModelCall) -> Reply:
        """Return the next reply."""
        STORY.pass_s(0.8, 2.4)
        text = self.replies[call.number]
        tokens_in, tokens_out = sum(len(item.text) for item in call.messages) // 4, len(text) // 4
        return Reply(text, Usage(1, tokens_in, tokens_out, cost_micro=tokens_in * 3 + tokens_out * 15))


@tool("orders.find", effect="read")
def find(order_id: OrderId) -> dict[str, str]:
    """Find an order."""
    STORY.pass_s(0.02, 0.05)
    return {"order": order_id, "customer": "C-005", "name": "Ida Lund", "state": "delivered, damaged"}


@tool("orders.purge", effect="once")
def purge(order_id: OrderId) -> str:
    """Delete an order for ever."""
    return f"{order_id} is gone"


@tool("payments.refund", effect="once")
def refund(order_id: OrderId, amount: float) -> dict[str, object]:
    """Pay money back for an order."""
    STORY.pass_s(0.7, 1.1)
    return {"receipt": "R-20418", "order": order_id, "amount": amount}


@tool("shipping.book", effect="once")
def book(order_id: OrderId, day: str) -> str:
    """Book a pickup with the carrier."""
    STORY.pass_s(10, 10)
    raise EffectUnknown("the carrier did not answer within 10 s; the request was sent")


@tool("mail.send", effect="once")
def send(to: str, subject: str, body: str) -> dict[str, str]:
    """Write to a customer."""
    STORY.pass_s(0.2, 0.5)
    return {"message": "m-77120", "to": to}


@tool("rules.read", effect="read")
def rules() -> str:
    """Read the rules of the desk."""
    return "Damaged goods: full refund, pickup within 3 days."


CRITERIA = ["the refund has a receipt", "the pickup has a day", "the customer was told of both"]
EVIDENCE = [
    "receipt R-20418",
    "pickup P-5531 on 2026-05-21, settled by a person",
    "mail m-77120 to ida.lund@example.org",
]


def met(count: int) -> list[dict[str, object]]:
    """Return the judgement that the first *count* criteria are met."""
    return [
        {"criterion": text, "met": place < count, "evidence": EVIDENCE[place] if place < count else "not yet"}
        for place, text in enumerate(CRITERIA)
    ]


FIND = call("orders.find", order_id="O-1004")
REPLIES = [
    call("orders.purge", order_id="O-1004")[0],
    FIND[0],
    call("orders.find", order_id="1004")[1],
    FIND[1],
    refine("continue", reason="the order arrived damaged", hint="pay it back", criteria=met(0)),
    *call("payments.refund", order_id="O-1004", amount=34.0),
    refine("continue", reason="the refund has a receipt", hint="book the pickup", criteria=met(1)),
    *call("shipping.book", order_id="O-1004", day="2026-05-21"),
    refine("stop", reason="refunded and booked", answer="O-1004 is refunded.", criteria=met(2)),
    review("retry", "tell the customer of the refund and of the pickup", criteria=met(2)),
    *call(
        "mail.send",
        to="ida.lund@example.org",
        subject="Your order O-1004",
        body="We have paid 34.00 back (R-20418). The pickup comes on 21 May (P-5531).",
    ),
    refine("stop", reason="all is done", answer="O-1004 is refunded and will be picked up.", criteria=met(3)),
    review(
        "success",
        answer="O-1004 is refunded (R-20418), picked up on 21 May (P-5531), and Ida Lund knows.",
        criteria=met(3),
    ),
]


def desk(journal: Journal) -> str:
    """Work through three tickets; return the run of the first, which ends. The others wait for a person."""
    engine = Engine(
        DeskModel(*REPLIES),
        tools=[find, purge, refund, book, send, rules],
        journal=journal,
        policy=Policy(deny=("*.purge",), approvals=("payments.refund",)),
        limits=Limits(max_steps=8, token_budget=30_000, time_budget_s=120, cost_budget=0.25),
        clock=STORY,
        ids=SeededIds("desk"),
    )
    first = engine.run(
        "T-118: Order O-1004 arrived damaged. Refund it, arrange the pickup, tell the customer.", CRITERIA
    )
    assert first.waiting_for is not None and first.waiting_for.kind == "approval"
    STORY.pass_s(372, 372)
    asked = first.waiting_for.id
    first = engine.resume(
        first.run_id,
        answer={"approve": True},
        question=asked,
        actor="Dana Okafor",
        reason="the photo shows a broken leg",
    )
    assert first.waiting_for is not None and first.waiting_for.kind == "in_doubt"
    STORY.pass_s(1124, 1124)
    asked = first.waiting_for.id
    booked = {"booking": "P-5531", "day": "2026-05-21"}
    first = engine.resume(
        first.run_id,
        outcome="done",
        result=booked,
        question=asked,
        actor="Dana Okafor",
        reason="booking P-5531 stands in the carrier's portal",
    )
    assert first.state == "Done", first
    engine.model = DeskModel(*call("payments.refund", order_id="O-1011", amount=58.5))
    engine.run("T-119: Refund the late order O-1011.")
    engine.model = DeskModel(*call("shipping.book", order_id="O-1020", day="2026-05-22"))
    engine.run("T-121: Arrange a pickup for O-1020.")
    return first.run_id


def main() -> None:
    """Write the page of the first ticket."""
    kept = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    with tempfile.TemporaryDirectory() as folder, Journal(kept or Path(folder) / "desk.db") as journal:
        run_id = desk(journal)
        page = report(journal, run_id)
    Path("report.html").write_text(page, encoding="utf-8")
    print(f"report.html: run {run_id}, {len(page):,} bytes")


if __name__ == "__main__":
    main()
