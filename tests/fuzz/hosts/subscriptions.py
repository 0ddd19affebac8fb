"""Subscriptions: who has tried the dearest plan for nothing gets its price as credit."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from paor import Engine, Journal, tool
from paor.errors import ToolError
from paor.fuzz import EngineMachine, World


class Plan(Enum):
    """What can be had."""

    BASIC = "basic"
    PLUS = "plus"
    PRO = "pro"


PRICES = {Plan.BASIC: 0, Plan.PLUS: 900, Plan.PRO: 2900}


@dataclass
class Account:
    """What a customer has, has paid, and is owed."""

    plan: Plan = Plan.BASIC
    paid: int = 0
    credit: int = 0
    tried: bool = False


class Agent(EngineMachine):
    """Nobody is owed more than was paid."""

    repro_folder = None

    def prepare(self) -> None:
        """Have two customers on the smallest plan."""
        self.accounts = {"lena@shop.example": Account(), "omar@shop.example": Account()}

    def engine(self, journal: Journal) -> Engine:
        """Return the shop's agent."""

        def account_of(email: str) -> Account:
            if email not in self.accounts:
                raise ToolError("nobody has this address")
            return self.accounts[email]

        @tool("accounts.show", effect="read")
        def show(email: str) -> dict[str, object]:
            """
            Show a customer's account.

            In the test system there are lena@shop.example and omar@shop.example.
            """
            account = account_of(email)
            return {"plan": account.plan.value, "paid": account.paid, "credit": account.credit}

        @tool("plans.try")
        def begin_trial(email: str, plan: Plan) -> str:
            """Let a customer try a plan for a month, once, for nothing."""
            account = account_of(email)
            if account.tried:
                raise ToolError("this customer had a trial")
            account.plan, account.tried = plan, True
            return "the trial has begun"

        @tool("plans.change")
        def change(email: str, plan: Plan) -> dict[str, int]:
            """Change a customer's plan: more is paid at once, less gives credit."""
            account = account_of(email)
            difference = PRICES[plan] - PRICES[account.plan]
            if difference >= 0:
                account.paid += difference
            else:
                account.credit -= difference
            account.plan = plan
            return {"difference": difference}

        @tool("mail.newsletter")
        def newsletter(subject: str, text: str) -> str:
            """Write to all customers."""
            return "sent"

        return Engine("offline", [show, begin_trial, change, newsletter], journal)

    def check(self, world: World) -> None:
        """Hold the credit to what was paid."""
        for email, account in self.accounts.items():
            assert account.credit <= account.paid, f"{email} is owed money that was never paid"
