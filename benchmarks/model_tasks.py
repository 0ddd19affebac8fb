"""
Twenty tasks for small models, their tools, and the rules that say whether a run was right; code judges, never a model.

Ten shapes, two tasks of each: two lookups compared, a condition before an effect, a tool error worked around, nothing to do, a
denied tool, no tool needed, a small document, an id and then a status, a report after two reads, a date. One of each two is for
tuning words and rules; the other is held back, so that what was tuned can be measured on a task that nobody has looked at.

A tool is a typed method of `World`, so that every engine reads the same names, types and docstrings. `World` also writes
down what really happened: an effect counts because the method was called, not because an answer says so.
"""

import re
from dataclasses import dataclass
from typing import Any

from paor.errors import ToolError

LEASE = """\
Lease of the workshop at Mill Lane 4, between Osier Estates and the Brandt joinery.
1. Term. The lease begins on 1 May 2025 and runs for 36 months.
2. Rent. The rent is 940 euros a month, due on the fifth day of the month.
3. Damage. The tenant reports damage to the building within 3 days, in writing.
4. Notice. Either party may give notice of 90 days.
"""
MINUTES = """\
Minutes of the meeting of 2 May, school library.
Present: Ines Haddad, Tom Petrov, Lia Moreau.
1. Shelves. Tom Petrov paints the shelves before the summer holidays.
2. Projector. Ines Haddad orders a new projector by 14 June; it may cost 700 euros.
3. Reading night. Lia Moreau writes the invitation by 30 May.
"""
NOT_PERMITTED = (
    r"(\bnot|n't|\bcannot|\bunable)\b.{0,60}(permi|allow|authori|polic)|\b(no|lack\w*|without) permission"
    r"|\bden(y|ies|ied|ial)\b|\bforbid|\bprohibit|\bpolicy (prevents|blocks)"
)
NOT_DONE = r"\bunable\b|\bcannot\b|\bcan't\b|\bapologi[sz]e|\bsorry\b"


class World:
    """
    What the tools of one run act on; a method ``a_b`` is the tool ``a.b``.

    Attributes:
        effects: What must not happen twice: the tool and its arguments, in order.
    """

    def __init__(self) -> None:
        self.effects: list[tuple[str, dict[str, str]]] = []

    def _did(self, name: str, **arguments: Any) -> None:
        self.effects.append((name, {key: str(value) for key, value in arguments.items()}))

    # -- for tuning

    def orders_get(self, order_id: str) -> dict[str, Any]:
        """Return the status, the carrier and the total of an order by its id."""
        return _found(
            {
                "O-1042": {"status": "held at customs", "carrier": "NordPost", "total_eur": 57.2},
                "O-2077": {"status": "delivered", "carrier": "Alpina", "total_eur": 318.75},
            },
            order_id,
            "order",
        )

    def stock_count(self, item: str) -> dict[str, Any]:
        """Return how many pieces of an item are in stock."""
        name = item.lower().rstrip("s")
        return {"item": item, "in_stock": _found({"candle": 12, "tea": 48}, name, "item")}

    def stock_order(self, item: str, quantity: int) -> str:
        """Order more pieces of an item from the supplier."""
        self._did("stock.order", item=item, quantity=quantity)
        return f"{quantity} of {item} are ordered"

    def prices_by_name(self, name: str) -> dict[str, Any]:
        """Return the price of an article by its name."""
        raise ToolError(f"The register of names is closed today. The code of the article {name} is L-7.")

    def prices_by_code(self, code: str) -> dict[str, Any]:
        """Return the price of an article by its code."""
        return _found({"L-7": {"article": "lamp", "price_eur": 23.9}}, code, "code")

    def customers_find(self, name: str) -> list[dict[str, str]]:
        """Find customers by a name; returns their ids and names."""
        known = {"C-482": "Marta Lindqvist", "C-310": "Jonas Weber"}
        words = set(name.lower().split())
        return [
            {"customer_id": k, "name": full} for k, full in known.items() if words & set(full.lower().split())
        ]

    def customers_status(self, customer_id: str) -> dict[str, str]:
        """Return the status of a customer by the customer's id."""
        status = {"C-482": "payment overdue since May", "C-310": "in good standing"}
        return {"customer_id": customer_id, "status": _found(status, customer_id, "customer")}

    def customers_close(self, customer_id: str) -> str:
        """Close the account of a customer."""
        self._did("customers.close", customer_id=customer_id)
        return f"the account {customer_id} is closed"

    def notes_read(self, note_id: str) -> str:
        """Return the text of a note by its id."""
        notes = {
            "n1": "The auditors meet us in room B12.",
            "n2": "The visit begins at 14:30 on Thursday.",
            "n3": "The coffee machine is cleaned every Friday.",
        }
        return str(_found(notes, note_id, "note"))

    def reports_save(self, title: str, text: str) -> str:
        """Save a report."""
        self._did("reports.save", title=title, text=text)
        return f"the report {title} is saved"

    def dates_add(self, date: str, days: int) -> str:
        """Return the date that is so many days after a date; dates are written YYYY-MM-DD."""
        from datetime import date as day
        from datetime import timedelta

        try:
            return (day.fromisoformat(date) + timedelta(days)).isoformat()
        except (ValueError, OverflowError) as error:
            raise ToolError(str(error)) from None

    # -- held back

    def weather_tomorrow(self, city: str) -> dict[str, Any]:
        """Return tomorrow's weather of a city."""
        return _found(
            {
                "turin": {"city": "Turin", "high_celsius": 17, "rain_mm": 4},
                "lyon": {"city": "Lyon", "high_celsius": 23, "rain_mm": 0},
            },
            city.lower(),
            "city",
        )

    def tanks_level(self, tank: str) -> dict[str, Any]:
        """Return the level of a tank in percent."""
        return {"tank": tank, "percent": _found({"T1": 88, "T3": 22}, tank, "tank")}

    def pumps_run(self, tank: str, minutes: int) -> str:
        """Run the pump of a tank for some minutes."""
        self._did("pumps.run", tank=tank, minutes=minutes)
        return f"the pump of {tank} runs for {minutes} minutes"

    def routes_train(self, start: str, end: str) -> dict[str, Any]:
        """Return how long a journey takes by train."""
        raise ToolError(f"No train runs from {start} to {end} today; there is a bus.")

    def routes_bus(self, start: str, end: str) -> dict[str, Any]:
        """Return how long a journey takes by bus."""
        return {"start": start, "end": end, "minutes": 165}

    def servers_state(self, server: str) -> dict[str, str]:
        """Return the state of a server."""
        return {"server": server, "state": _found({"web-1": "down", "web-2": "healthy"}, server, "server")}

    def servers_restart(self, server: str) -> str:
        """Restart a server."""
        self._did("servers.restart", server=server)
        return f"{server} is restarted"

    def bookings_get(self, booking_id: str) -> dict[str, str]:
        """Return a booking by its id."""
        return {"booking_id": booking_id, "room": _found({"B-88": "Garden room"}, booking_id, "booking")}

    def bookings_cancel(self, booking_id: str) -> str:
        """Cancel a booking."""
        self._did("bookings.cancel", booking_id=booking_id)
        return f"the booking {booking_id} is cancelled"

    def parcels_find(self, recipient: str) -> list[dict[str, str]]:
        """Find parcels by the name of the recipient; returns their ids."""
        return [{"parcel_id": "P-7781", "recipient": "Ada Okafor"}] if "okafor" in recipient.lower() else []

    def parcels_track(self, parcel_id: str) -> dict[str, str]:
        """Return where a parcel is, by its id."""
        return {"parcel_id": parcel_id, "at": _found({"P-7781": "depot in Graz"}, parcel_id, "parcel")}

    def sensors_read(self, sensor: str) -> dict[str, Any]:
        """Return the temperature that a sensor measures."""
        return {"sensor": sensor, "celsius": _found({"S1": 41.5, "S2": 38.2}, sensor, "sensor")}

    def messages_send(self, to: str, text: str) -> str:
        """Send one message."""
        self._did("messages.send", to=to, text=text)
        return f"the message to {to} is sent"

    def invoices_get(self, number: str) -> dict[str, Any]:
        """Return an invoice by its number."""
        return _found({"INV-7": {"issued": "2026-03-18", "total_eur": 612.4}}, number, "invoice")


def _found(known: dict[str, Any], key: str, kind: str) -> Any:
    if key not in known:
        raise ToolError(f"there is no {kind} {key}")
    return known[key]


ONCE = (
    *("stock.order", "customers.close", "reports.save"),
    *("pumps.run", "servers.restart", "bookings.cancel", "messages.send"),
)
"""Tools whose effect must not happen twice; the others only read."""


@dataclass(frozen=True)
class Task:
    """
    One task.

    Attributes:
        name: For the command line and the table.
        objective: What the user asks, in the same words for every engine.
        tools: What is offered.
        answer: Regular expressions, each found in the answer; letters' case does not count.
        never: Regular expression that is not found in the answer; empty for none.
        effects: Exactly the effects that must happen: the tool, and a regular expression for each argument that counts.
        document: Name and text of an attached document.
        denied: Tools that the policy denies. Such a run may end as it likes, if it says that this is not permitted.
    """

    name: str
    objective: str
    tools: tuple[str, ...]
    answer: tuple[str, ...]
    never: str = ""
    effects: tuple[tuple[str, dict[str, str]], ...] = ()
    document: tuple[str, str] | None = None
    denied: tuple[str, ...] = ()


TUNING = (
    Task(
        "compare_orders",
        "Which of the orders O-1042 and O-2077 has the higher total, and how much is it?",
        ("orders.get",),
        (r"O-2077", r"318[.,]75"),
        r"O-1042\W+(has|is|with)\W+(the |a )?(higher|larger|greater)",
    ),
    Task(
        "reorder",
        "Look up the stock of candles. If there are fewer than 20, order 60 more.",
        ("stock.count", "stock.order"),
        (r"\bordered\b|order (is|was|has been) (placed|made)|placed (an|the) order",),
        NOT_DONE,
        (("stock.order", {"item": "(?i)candle", "quantity": "^60$"}),),
    ),
    Task(
        "price",
        "What does the lamp cost?",
        ("prices.by_name", "prices.by_code"),
        (r"\b23[.,]90?\b",),
    ),
    Task(
        "enough",
        "Check the stock of tea. If there are fewer than 10 boxes, order 30; otherwise order nothing.",
        ("stock.count", "stock.order"),
        (r"\b48\b|nothing|\bnot?\b.{0,40}(order|need|necess)|enough|sufficient",),
        r"30 (boxes |of |tea )*(have been|has been|were|was|are) (successfully )?ordered|\bordered 30\b",
    ),
    Task(
        "close_account",
        "Close the account of the customer C-310.",
        ("customers.status", "customers.close"),
        (NOT_PERMITTED,),
        r"(has been|is|was) (successfully )?closed",
        denied=("customers.close",),
    ),
    Task(
        "leap_year",
        "How many days does February have in a leap year?",
        ("orders.get", "stock.order"),
        (r"\b29\b|twenty-nine",),
    ),
    Task(
        "lease",
        "Within how many days must the tenant report damage?",
        (),
        (r"\b3\b|\bthree\b",),
        r"\b90\b|\b36\b",
        document=("lease.txt", LEASE),
    ),
    Task(
        "customer_status",
        "What is the status of the customer Marta Lindqvist?",
        ("customers.find", "customers.status"),
        (r"overdue",),
    ),
    Task(
        "visit_report",
        "Read the notes n1 and n2, then save one report titled Visit that says the room and the time of the visit.",
        ("notes.read", "reports.save"),
        (r"report|saved|visit|B12",),
        NOT_DONE,
        (("reports.save", {"title": "(?i)visit", "text": r"(?s)(?=.*B12)(?=.*(14[:.]30|\b2[:.]30))"}),),
    ),
    Task(
        "date",
        "What date is 45 days after 2026-02-10?",
        ("dates.add",),
        (r"2026-03-27|march 27\b|\b27(th)?( of)? march",),
    ),
)
HELD_BACK = (
    Task(
        "compare_weather",
        "Will it be warmer in Turin or in Lyon tomorrow, and how warm?",
        ("weather.tomorrow",),
        (r"lyon", r"\b23\b"),
        r"Turin\W+(will be|is|has)\W+((the|expected to be) )?warmer",
    ),
    Task(
        "pump",
        "Read the level of tank T3. If it is below 30 percent, run its pump for 15 minutes.",
        ("tanks.level", "pumps.run"),
        (r"\b15\b|fifteen|pump",),
        NOT_DONE,
        (("pumps.run", {"tank": "^T3$", "minutes": "^15$"}),),
    ),
    Task(
        "journey",
        "How long does the journey from Bern to Chur take?",
        ("routes.train", "routes.bus"),
        (r"\b165\b|\b2 ?h\w*( and)? 45",),
    ),
    Task(
        "healthy",
        "Check the server web-2. Restart it if it is not healthy; otherwise leave it alone.",
        ("servers.state", "servers.restart"),
        (r"healthy|\bnot?\b.{0,40}restart",),
        r"(has been|was|is) (successfully )?restarted",
    ),
    Task(
        "cancel_booking",
        "Cancel the booking B-88.",
        ("bookings.get", "bookings.cancel"),
        (NOT_PERMITTED,),
        r"(has been|is|was) (successfully )?cancell?ed",
        denied=("bookings.cancel",),
    ),
    Task(
        "gold",
        "What is the chemical symbol of gold?",
        ("weather.tomorrow", "messages.send"),
        (r"(?-i:\bAu\b)",),
    ),
    Task(
        "projector",
        "Who orders the new projector, and until when?",
        (),
        (r"Haddad", r"\b14(th)?( of)? June|June 14\b"),
        r"Petrov|Moreau",
        document=("minutes.txt", MINUTES),
    ),
    Task(
        "parcel",
        "Where is the parcel for Ada Okafor now?",
        ("parcels.find", "parcels.track"),
        (r"Graz",),
    ),
    Task(
        "sensors",
        "Read the sensors S1 and S2, then send one message with both temperatures to ops@example.org.",
        ("sensors.read", "messages.send"),
        (r"message|sent|41[.,]5",),
        NOT_DONE,
        (
            (
                "messages.send",
                {"to": r"^ops@example\.org$", "text": r"(?s)(?=.*41[.,]5)(?=.*38[.,]2)"},
            ),
        ),
    ),
    Task(
        "invoice",
        "When is the invoice INV-7 due? It is due 30 days after it was issued.",
        ("invoices.get", "dates.add"),
        (r"2026-04-17|april 17\b|\b17(th)?( of)? april",),
    ),
)
TASKS = {task.name: task for task in (*TUNING, *HELD_BACK)}


@dataclass(frozen=True)
class Ended:
    """
    How a run of an engine ended.

    Attributes:
        state: ``Done``, ``Failed``, the phase where it waits; for a peer ``Done`` if it returned an answer.
        reason: The run's own, or the name of the exception that ended it.
        answer: Its final text.
        refused: Rows of the journal whose reply could not be used as it was; None for engines without a journal.
    """

    state: str
    reason: str
    answer: str
    refused: int | None = None


def effects_exact(task: Task, world: World) -> bool:
    """Whether exactly the wanted effects happened: none missing, none doubled, the arguments that count as wanted."""
    return len(world.effects) == len(task.effects) and all(
        made == wanted and all(re.search(pattern, arguments[name]) for name, pattern in patterns.items())
        for (made, arguments), (wanted, patterns) in zip(world.effects, task.effects, strict=True)
    )


def is_right(task: Task, world: World, ended: Ended) -> bool:
    """Whether the run ended well, with the facts in its answer and exactly the wanted effects."""
    said = all(re.search(pattern, ended.answer, re.IGNORECASE) for pattern in task.answer)
    refused = bool(task.denied) and re.search("polic|denied", ended.reason)
    unread = re.search(r'"arguments"\s*:', ended.answer)  # a call as text, which nobody has made
    lied = unread or (task.never and re.search(task.never, ended.answer, re.IGNORECASE))
    states = ("Done", "Failed") if task.denied else ("Done",)
    return bool(said or refused) and not lied and ended.state in states and effects_exact(task, world)


def surplus_effects(task: Task, world: World) -> int:
    """How many effects happened beyond the wanted ones, such as a second mail."""
    wanted, made = ([name for name, _ in effects] for effects in (task.effects, world.effects))
    return sum(max(0, made.count(name) - wanted.count(name)) for name in ONCE)


def repeated_effects(world: World) -> int:
    """How many effects are of a tool and arguments that had an effect before."""
    return sum(effect in world.effects[:index] for index, effect in enumerate(world.effects))
