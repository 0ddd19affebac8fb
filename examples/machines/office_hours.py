"""
Money moves in office hours only, and never while the bank is shut.

    python examples/machines/office_hours.py
    paor check --app office_hours:engine                  # in this folder
    paor diagram --app office_hours:engine --format svg --output office_hours.svg

A guard reads no clock and asks nobody: the time is the one that the row records, and whether the bank is open is asked by the engine, right
before the decision, and journaled with it. So a replay next year comes to the same. The model is a script.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from shown import play, show

from paor import Engine, Journal, Machine, ScriptedModel, ToolContext, tool
from paor.machine import GuardContext
from paor.testing import SeededIds, SteppingClock, call, refine, review


# lines: a new guard
def office_hours(context: GuardContext) -> bool:
    """Money moves from Monday to Friday, from 9 to 17 o'clock UTC."""
    return context.now.weekday() < 5 and 9 <= context.now.hour < 17


MACHINE = Machine.standard().require("specify", office_hours, tool="bank.*")
# end


# lines: a new guard with a value from outside
def bank_open(context: GuardContext) -> bool:
    """The bank must be open."""
    return context.values.get("bank") == "open"


MACHINE = MACHINE.require("specify", bank_open, tool="bank.*").ask_values("specify")
# end


@tool("bank.pay", effect="once")
def pay(to: str, amount: int, context: ToolContext[Path]) -> str:
    """Pay somebody."""
    with (context.deps / "ledger.txt").open("a", encoding="utf-8") as file:
        file.write(f"{to} {amount}\n")
    return f"{amount} paid to {to}"


MONDAY, SUNDAY = datetime(2026, 11, 23, 12, tzinfo=UTC), datetime(2026, 11, 22, 12, tzinfo=UTC)


def engine(
    journal: Journal, folder: Path | None = None, now: datetime = MONDAY, bank: str = "open"
) -> Engine:
    """Return the engine at *now*, with a bank that is open or shut."""

    def values(run_id: str, phase: str) -> Mapping[str, Any]:
        """Ask the bank; here, what the example says of it."""
        return {"bank": bank}

    said = [*call("bank.pay", to="Dee", amount=250), refine("stop", answer="I have done what I may.")]
    said += [review("failed", answer="It was refused.")]  # asked where the last call was refused
    return Engine(
        ScriptedModel(said),
        [pay],
        journal,
        machine=MACHINE,
        values=values,
        deps=folder,
        clock=SteppingClock(int(now.timestamp() * 1_000_000)),
        ids=SeededIds("hours"),
        builtins=False,
    )


def shown(journal: Journal, folder: Path, **world: Any) -> None:
    """Run, and print what the guards said, what the model read and what was paid."""
    with engine(journal, folder, **world) as paying:
        result = paying.run("Pay Dee")
        show(paying, result)
        decided = journal.transitions(result.run_id)[1]
        named = [name for name in ("office_hours", "bank_open") if name in decided.guards]
        print(f"      {decided.trigger}: {', '.join(f'{name} {decided.guards[name]}' for name in named)}")
        (paid,) = journal.calls(result.run_id)
        print(f"      {paid.tool} {paid.outcome}: {paid.result}")
        ledger = folder / "ledger.txt"
        print(f"      paid: {ledger.read_text().splitlines() if ledger.exists() else 'nothing'}")


def on_monday(journal: Journal, folder: Path) -> None:
    """Monday at noon, and the bank is open."""
    shown(journal, folder)


def on_sunday(journal: Journal, folder: Path) -> None:
    """Sunday at noon."""
    shown(journal, folder, now=SUNDAY)


def shut(journal: Journal, folder: Path) -> None:
    """Monday at noon, and the bank is shut."""
    shown(journal, folder, bank="shut")


if __name__ == "__main__":
    play(on_monday, on_sunday, shut)
