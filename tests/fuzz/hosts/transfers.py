"""A bank: each transfer is held to its own limit, none to the limit of the day."""

from __future__ import annotations

from paor import Engine, Journal, tool
from paor.errors import ToolError
from paor.fuzz import EngineMachine, World

MOST_AT_ONCE = 500
MOST_A_DAY = 1_200


class Agent(EngineMachine):
    """No account gives more in a day than the bank allows."""

    repro_folder = None

    def prepare(self) -> None:
        """Open the accounts."""
        branches = {"DE": (7710, 7711), "AT": (42,)}
        self.given = {f"{land}-{number:04}": 0 for land, numbers in branches.items() for number in numbers}

    def engine(self, journal: Journal) -> Engine:
        """Return the bank's agent."""

        @tool("accounts.transfer")
        def transfer(source: str, target: str, euros: int) -> str:
            """Move money between two accounts of the bank."""
            for account in (source, target):
                if account not in self.given:
                    raise ToolError(f"unknown account; there are {', '.join(self.given)}")
            if source == target:
                raise ToolError("from an account to itself nothing is moved")
            if not 0 < euros <= MOST_AT_ONCE:
                raise ToolError("this amount is not moved at once")
            self.given[source] += euros
            return "moved"

        @tool("accounts.block", effect="idempotent")
        def block(account: str) -> str:
            """Block an account."""
            if account not in self.given:
                raise ToolError("unknown account")
            return "blocked"

        return Engine("offline", [transfer, block], journal)

    def check(self, world: World) -> None:
        """Hold every account to the limit of the day."""
        assert max(self.given.values()) <= MOST_A_DAY, "more than the limit of a day"
