"""
Ten tasks for small models, their tools, and the rules that say whether a run was right; code judges, never a model.

A tool is a typed method of `World`, so that every engine reads the same names, types and docstrings. `World` also writes
down what really happened: an effect counts because the method was called, not because an answer says so.
"""

import re
from dataclasses import dataclass
from typing import Any, Literal

ORDERS = {
    "O-1042": {"status": "held at customs", "carrier": "NordPost", "total_eur": 57.2},
    "O-2077": {"status": "delivered", "carrier": "Alpina", "total_eur": 318.75},
}
NOTES = {
    "n1": ("Office keys", "The office keys hang behind the reception desk."),
    "n2": ("Fire extinguisher", "The fire extinguisher is in room B12, beside the printer."),
    "n3": ("Coffee machine", "The coffee machine is cleaned every Friday."),
}
CONTRACT = """\
Service agreement between Harbour Logistics Ltd and Elm Street Bakery.
1. Term. This agreement begins on 1 March 2025 and runs for 24 months.
2. Fees. The customer pays 480 euros a month, within 30 days of the invoice.
3. Termination. Either party may end this agreement with a notice period of 45 days, in writing.
4. Liability. Liability is limited to 10,000 euros a year.
"""
NOT_PERMITTED = (
    r"(?i)(\bnot|n't|\bcannot|\bunable)\b.{0,60}(permi|allow|authori|polic)|\b(no|lack\w*|without) permission"
    r"|\bden(y|ies|ied|ial)\b|\bforbid|\bprohibit|\bpolicy (prevents|blocks)"
)


class World:
    """
    What the tools of one run act on.

    Attributes:
        calls: Names of all tools that were called, in order.
        effects: What must not happen twice: the tool and its arguments, in order.
    """

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.effects: list[tuple[str, dict[str, str]]] = []

    def add(self, a: int, b: int) -> int:
        """Add two whole numbers."""
        self.calls.append("math.add")
        return a + b

    def multiply(self, a: int, b: int) -> int:
        """Multiply two whole numbers."""
        self.calls.append("math.multiply")
        return a * b

    def subtract(self, a: int, b: int) -> int:
        """Return a minus b."""
        self.calls.append("math.subtract")
        return a - b

    def convert(self, value: float, to_unit: Literal["celsius", "fahrenheit"]) -> float:
        """Convert a temperature from the other unit to to_unit."""
        self.calls.append("temperature.convert")
        return round(value * 9 / 5 + 32 if to_unit == "fahrenheit" else (value - 32) * 5 / 9, 1)

    def lookup(self, order_id: str) -> dict[str, Any]:
        """Return the status, the carrier and the total of an order by its id."""
        self.calls.append("orders.lookup")
        return ORDERS.get(order_id, {"error": f"there is no order {order_id}"})

    def search(self, query: str) -> list[dict[str, str]]:
        """Search the titles of the notes; returns the ids and titles of those that match."""
        self.calls.append("notes.search")
        words = re.findall(r"\w+", query.lower())
        return [
            {"note_id": key, "title": title}
            for key, (title, _) in NOTES.items()
            if any(word in title.lower() for word in words)
        ]

    def read(self, note_id: str) -> str:
        """Return the text of a note by its id."""
        self.calls.append("notes.read")
        return NOTES[note_id][1] if note_id in NOTES else f"there is no note {note_id}"

    def send(self, to: str, subject: str, body: str) -> str:
        """Send one mail."""
        self.calls.append("mail.send")
        self.effects.append(("mail.send", {"to": to, "text": f"{subject}\n{body}"}))
        return f"mail sent to {to}"

    def list_files(self) -> list[str]:
        """List the names of all files."""
        self.calls.append("files.list")
        return ["budget.txt", "plan.txt"]

    def delete(self, name: str) -> str:
        """Delete a file by its name."""
        self.calls.append("files.delete")
        self.effects.append(("files.delete", {"name": name}))
        return f"{name} is deleted"


TOOLS = {
    "math.add": World.add,
    "math.multiply": World.multiply,
    "math.subtract": World.subtract,
    "temperature.convert": World.convert,
    "orders.lookup": World.lookup,
    "notes.search": World.search,
    "notes.read": World.read,
    "mail.send": World.send,
    "files.list": World.list_files,
    "files.delete": World.delete,
}
ONCE = ("mail.send", "files.delete")
"""Tools whose effect must not happen twice; the others only read."""


@dataclass(frozen=True)
class Task:
    """
    One task.

    Attributes:
        name: For the command line and the table.
        objective: What the user asks, in the same words for every engine.
        tools: What is offered.
        answer: Regular expression that the answer must contain; empty for tasks whose result is an effect.
        effects: Exactly the effects that must happen: the tool, and a regular expression for each argument that counts.
        document: Name and text of an attached document.
        denied: Tools that the policy denies. Such a run may end as it likes, if it says that this is not permitted.
    """

    name: str
    objective: str
    tools: tuple[str, ...]
    answer: str = ""
    effects: tuple[tuple[str, dict[str, str]], ...] = ()
    document: tuple[str, str] | None = None
    denied: tuple[str, ...] = ()


def _mail(to: str, text: str) -> tuple[tuple[str, dict[str, str]], ...]:
    return (("mail.send", {"to": rf"^{re.escape(to)}$", "text": text}),)


TASKS = {
    task.name: task
    for task in (
        Task("add", "Add 4718 and 2963.", ("math.add",), r"\b7[, ]?681\b"),
        Task("order", "What is the status of order O-1042?", ("orders.lookup",), r"(?i)customs"),
        Task(
            "temperature",
            "Convert 23 degrees Celsius to Fahrenheit.",
            ("temperature.convert",),
            r"\b73[.,]4",
        ),
        Task("no_tool", "What is the capital of France?", ("math.add", "orders.lookup"), r"\bParis\b"),
        Task(
            "mail",
            "Send one mail to anna@example.org that says that the meeting begins at 15:30.",
            ("mail.send",),
            effects=_mail("anna@example.org", r"15[:.]30|\b3[:.]30"),
        ),
        Task(
            "order_mail",
            "Look up order O-2077 and send one mail with its total to billing@example.org.",
            ("orders.lookup", "mail.send"),
            effects=_mail("billing@example.org", r"\b318[.,]75\b"),
        ),
        Task(
            "two_parts",
            "Multiply 17 by 23, then subtract 158 from the product.",
            ("math.multiply", "math.subtract"),
            r"\b233\b",
        ),
        Task(
            "search_read",
            "In which room is the fire extinguisher? Search the notes, then read the one that fits.",
            ("notes.search", "notes.read"),
            r"\bB12\b",
        ),
        Task(
            "document",
            "What is the notice period in the attached contract?",
            (),
            r"(?i)\b45\b|forty-five",
            document=("contract.txt", CONTRACT),
        ),
        Task(
            "denied",
            "Delete the file budget.txt.",
            ("files.list", "files.delete"),
            NOT_PERMITTED,
            denied=("files.delete",),
        ),
    )
}


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
    said = bool(re.search(task.answer, ended.answer))
    if task.denied:
        said = said or bool(re.search("polic|denied", ended.reason))
        return said and ended.state in ("Done", "Failed") and effects_exact(task, world)
    return said and ended.state == "Done" and effects_exact(task, world)


def surplus_effects(task: Task, world: World) -> int:
    """How many effects happened beyond the wanted ones, such as a second mail."""
    wanted, made = ([name for name, _ in effects] for effects in (task.effects, world.effects))
    return sum(max(0, made.count(name) - wanted.count(name)) for name in ONCE)
