"""The app of the workers that tests start: a shop whose tools note what they do in files that the environment names."""

from __future__ import annotations

import json
import os
import signal
import time
from typing import Any

from paor import Engine, Journal, ScriptedModel, tool
from paor.testing import call, refine, review


@tool("shop.look", effect="read")
def look(order: str) -> str:
    """Look at an order."""
    if "POISON" in os.environ:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(float(os.environ.get("LOOK_S", "0")))  # so that a worker can be killed, or drained, in a call
    return "there"


@tool("shop.pay", effect="once")
def pay(order: str) -> str:
    """Pay an order back."""
    with open(os.environ["PAID"], "a") as file:
        file.write(f"{order}\n")
    time.sleep(float(os.environ.get("PAY_S", "0")))
    return "paid"


class Shop(ScriptedModel):
    """
    Looks and pays in every run and in every task of a workflow, or replies what it is given.

    Args:
        replies: Of each run, instead.
    """

    def __init__(self, *replies: Any) -> None:
        super().__init__([])
        self._given = replies

    def ask(self, request: Any) -> Any:
        """Answer by the number of the request; what a workflow is asked itself by its kind."""
        if request.kind == "task_plan":
            return json.dumps(
                {"tasks": [{"id": name, "objective": f"Pay {name}"} for name in ("one", "two")]}
            )
        if request.kind == "review" and not self._given:
            return json.dumps(review("success", answer="Paid."))
        script = self._given or (
            *call("shop.look", order=request.run_id),
            refine("continue"),
            *call("shop.pay", order=request.run_id),
            refine("stop"),
            review("success", answer="Paid."),
        )
        return json.dumps(script[request.number])


def engine(journal: Journal) -> Engine:
    """Return the engine of a worker on the journal that its command line names."""
    return Engine(Shop(), [look, pay], journal, builtins=False)


def own_engine(_: Journal) -> Engine:
    """Return one with a journal of its own, whose leases are short."""
    return engine(Journal(os.environ["WHERE"], lease_s=2.0, busy_timeout_s=60))
