"""
A run and everything that can happen to it: crashes at any point, new processes, answers, cancellations.

The testing kit drives a real engine on a file, as its users have it drive theirs; every new process opens the file anew.
"""

from __future__ import annotations

from collections import Counter
from typing import ClassVar

from hypothesis import settings

from paor import Engine, Journal, Limits, Policy, Tool, ToolContext, tool
from paor.fuzz import EngineMachine, World


def tools_into(performed: Counter[str]) -> list[Tool]:
    """Return a tool that reads and one whose effect is counted by its idempotency key."""

    @tool("notes.read", effect="read", label="page")
    def read(page: int) -> str:
        """Read."""
        return f"page {page}"

    @tool("notes.send", label="receipt")
    def send(context: ToolContext, text: str) -> str:
        """Send."""
        performed[context.idempotency_key] += 1
        return f"sent {text}"

    return [read, send]


class Runs(EngineMachine):
    """One run after the other in one file, by one process after the other."""

    on_disk: ClassVar[bool] = True
    repro_folder: ClassVar[str | None] = None
    modes: ClassVar = ("react",)
    approvals: ClassVar[tuple[str, ...]] = ()

    def prepare(self) -> None:
        """What was sent stays sent."""
        self.performed: Counter[str] = Counter()

    def engine(self, journal: Journal) -> Engine:
        """Return an engine as a new process would make it."""
        policy = Policy(approvals=self.approvals)
        return Engine("offline", tools_into(self.performed), journal, Limits(), policy, builtins=False)

    def check(self, world: World) -> None:
        """An effect happened once for each action, and once more for each time somebody said to try again."""
        for key, count in self.performed.items():
            assert count <= 1 + world.allowed.get(key, 0) + world.watch.not_begun.get(key, 0)


class ApprovedRuns(Runs):
    """The same where a person has to say yes first."""

    approvals: ClassVar[tuple[str, ...]] = ("notes.send",)


TestRuns = Runs.TestCase
TestRuns.settings = settings(TestRuns.settings, max_examples=40)
TestApprovedRuns = ApprovedRuns.TestCase
TestApprovedRuns.settings = settings(TestApprovedRuns.settings, max_examples=15)
