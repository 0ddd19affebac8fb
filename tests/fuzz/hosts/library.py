"""A library: who may have one book gets a second one from another reader."""

from __future__ import annotations

from paor import Engine, Journal, tool
from paor.errors import ToolError
from paor.fuzz import EngineMachine, World

READERS = (2201, 2202)
SHELF = """
Dune by Frank Herbert
Emma by Jane Austen
Momo by Michael Ende
"""


class Agent(EngineMachine):
    """No reader has two books."""

    repro_folder = None

    def prepare(self) -> None:
        """Have all books on the shelf."""
        self.lent: dict[str, int] = {}
        self.titles = {line.partition(" by ")[0] for line in SHELF.split("\n") if line}

    def engine(self, journal: Journal) -> Engine:
        """Return the library's agent."""

        def known(title: str, *readers: int) -> None:
            if title not in self.titles or not set(readers) <= set(READERS):
                raise ToolError("there is no such book or reader")

        @tool("books.catalogue", effect="read")
        def catalogue() -> str:
            """Return all books, with their authors."""
            return SHELF

        @tool("loans.lend")
        def lend(member: int, title: str) -> str:
            """Lend a book to a reader who has none."""
            known(title, member)
            if title in self.lent or member in self.lent.values():
                raise ToolError("the book is lent, or the reader has one")
            self.lent[title] = member
            return "lent"

        @tool("loans.hand_over")
        def hand_over(title: str, giver: int, taker: int) -> str:
            """Have a reader give a book to another one."""
            known(title, giver, taker)
            if self.lent.get(title) != giver:
                raise ToolError("the giver has another book")
            self.lent[title] = taker
            return "handed over"

        return Engine("offline", [catalogue, lend, hand_over], journal)

    def check(self, world: World) -> None:
        """Count each reader's books."""
        assert len(set(self.lent.values())) == len(self.lent), "a reader with two books"
