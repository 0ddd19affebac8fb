"""
Four eyes: two different people look at a call that can happen once only, before it is made.

    python examples/machines/two_reviewers.py
    paor check --app two_reviewers:engine                  # in this folder
    paor diagram --app two_reviewers:engine --format svg --output two_reviewers.svg

Each sees the exact call. Their two yeses count for this very call, once: an equal call needs two new ones. The guard `four_eyes` is a condition
of the only row that leads into Executing, so whatever else a machine does, no call of ``bank.*`` is begun without it. The model is a script. Who
answers is what the host says (``actor=``): a host must know its users.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from shown import ask, play, show

from paor import Engine, Journal, Limits, Machine, Phase, ScriptedModel, ToolContext, tool
from paor.machine import GuardContext
from paor.testing import SeededIds, SteppingClock, call, refine, review

APPROVE: dict[str, Any] = {
    "type": "object",
    "properties": {"approve": {"type": "boolean"}},
    "required": ["approve"],
    "additionalProperties": False,
}


def for_review(context: GuardContext) -> bool:
    """The call can happen once only, and nobody has looked at it yet."""
    call = context.call
    return call is not None and call.effect == "once" and context.visited("FirstReview") is None


def agreed(context: GuardContext) -> bool:
    """The person has agreed to the call."""
    return context.visit is not None and context.visit.ok and context.visit.value.get("approve") is True


def four_eyes(context: GuardContext) -> bool:
    """Two different people must agree to this very call."""
    visits = [context.visited("FirstReview"), context.visited("SecondReview")]
    people = {visit.actor for visit in visits if visit and visit.ok and visit.value.get("approve") is True}
    return len(people - {None}) == 2


def which_call(context: GuardContext) -> str:
    """Return what a reviewer is asked."""
    call = context.call
    return (
        "Nothing is left to look at." if call is None else f"May {call.tool} be called with {call.arguments}?"
    )


COMPLETE = ("parameters_valid", "parameters_safe", "action_allowed", "not duplicate")

MACHINE = (
    Machine.standard()
    .phase(Phase("FirstReview", question=which_call, answer=APPROVE))
    .phase(Phase("SecondReview", question=which_call, answer=APPROVE))
    .row("Specifying", "look", "FirstReview", when=(*COMPLETE, for_review), at_most=20)
    .row("FirstReview", "pass_on", "SecondReview", when=agreed)
    .row("FirstReview", "back", "Specifying")
    .row("SecondReview", "back", "Specifying")
    .require("specify", four_eyes, tool="bank.*")
)

STRICT = Machine.standard().require("specify", four_eyes, tool="bank.*")
"""The condition alone: nobody is asked, so nothing is ever paid. A machine that forgets to ask cannot forget to refuse."""


@tool(
    "bank.pay", effect="once", repeat_allowed=True
)  # an equal call that has succeeded is not made again otherwise
def pay(to: str, amount: int, context: ToolContext[Path]) -> str:
    """Pay somebody."""
    with (context.deps / "ledger.txt").open("a", encoding="utf-8") as file:
        file.write(f"{to} {amount}\n")
    return f"{amount} paid to {to}"


def replies(payments: int) -> list[Any]:
    """Return what a model says that pays Dee 250, so many times."""
    said: list[Any] = []
    for number in range(1, payments + 1):
        end = refine("stop", answer="I have done what I may.") if number == payments else refine("continue")
        said += [*call("bank.pay", to="Dee", amount=250), end]
    return [*said, review("failed", answer="It was refused.")]  # asked where the last call was refused


def engine(
    journal: Journal, folder: Path | None = None, payments: int = 1, machine: Machine = MACHINE
) -> Engine:
    """Return the engine; its ledger is in *folder*."""
    return Engine(
        ScriptedModel(replies(payments)),
        [pay],
        journal,
        limits=Limits(max_elicitations=8),
        machine=machine,
        deps=folder,
        clock=SteppingClock(),
        ids=SeededIds("reviewers"),
        builtins=False,
    )


def reviewed(
    journal: Journal,
    folder: Path,
    *said: tuple[str, bool],
    payments: int = 1,
    machine: Machine = MACHINE,
) -> None:
    """Run, let each person say yes or no in turn, and show what was paid."""
    with engine(journal, folder, payments, machine) as paying:
        result = paying.run("Pay Dee what we owe")
        for who, yes in said:
            result = paying.resume(result.run_id, **ask(result.waiting_for, who, {"approve": yes}))
        show(paying, result)
        for call in journal.calls(result.run_id):
            if call.outcome == "refused":
                print(f"      refused: {call.result.rpartition('refuse it: ')[2]}")
        ledger = folder / "ledger.txt"
        print(f"      paid: {ledger.read_text().splitlines() if ledger.exists() else 'nothing'}")


def two_people(journal: Journal, folder: Path) -> None:
    """Two people agree: it is paid."""
    reviewed(journal, folder, ("ann", True), ("bob", True))


def one_person_twice(journal: Journal, folder: Path) -> None:
    """One person says yes twice: it is not paid, and the model reads why."""
    reviewed(journal, folder, ("ann", True), ("ann", True))


def one_no(journal: Journal, folder: Path) -> None:
    """The first says no: the second is not asked."""
    reviewed(journal, folder, ("ann", False))


def paid_again(journal: Journal, folder: Path) -> None:
    """An equal call needs two new yeses, and gets one."""
    reviewed(journal, folder, ("ann", True), ("bob", True), ("ann", True), ("bob", False), payments=2)


def nobody_asked(journal: Journal, folder: Path) -> None:
    """A machine that asks nobody pays nothing."""
    reviewed(journal, folder, machine=STRICT)


if __name__ == "__main__":
    play(two_people, one_person_twice, one_no, paid_again, nobody_asked)
