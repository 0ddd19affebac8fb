"""Gift cards: a card that is merged with itself is worth twice as much."""

from __future__ import annotations

import zlib
from typing import Annotated, Any

from pydantic import Field

from paor import Engine, Journal, tool
from paor.errors import ToolError
from paor.fuzz import EngineMachine, World


class Agent(EngineMachine):
    """The cards hold no more than was paid for them."""

    repro_folder = None

    def prepare(self) -> None:
        """Begin without cards."""
        self.cards: dict[str, int] = {}
        self.sold = 0

    def engine(self, journal: Journal) -> Engine:
        """Return the shop's agent."""

        def worth(card: str) -> int:
            if card not in self.cards:
                raise ToolError("this card is not known")
            return self.cards[card]

        @tool("cards.sell")
        def sell(euros: Annotated[int, Field(ge=5, le=200)]) -> dict[str, Any]:
            """Sell a new card."""
            card = f"{zlib.crc32(str(len(self.cards)).encode()):08X}"
            self.cards[card] = euros
            self.sold += euros
            return {"card": card, "worth": euros}

        @tool("cards.redeem")
        def redeem(card: str, euros: int) -> dict[str, int]:
            """Pay with a card."""
            if not 0 < euros <= worth(card):
                raise ToolError("the card is not worth that much")
            self.cards[card] -= euros
            self.sold -= euros
            return {"left": self.cards[card]}

        @tool("cards.merge")
        def merge(first: str, second: str) -> dict[str, Any]:
            """Put what a second card is worth onto the first."""
            both = worth(first) + worth(second)
            self.cards[second] = 0
            self.cards[first] = both
            return {"card": first, "worth": both}

        return Engine("offline", [sell, redeem, merge], journal)

    def check(self, world: World) -> None:
        """Hold the cards to what was paid."""
        assert sum(self.cards.values()) <= self.sold, "worth more than was paid"
