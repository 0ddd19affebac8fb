"""
The app of the workers that tests start: a shop whose tools note what they do in files that the environment names.

A test chooses where a worker is lost: it leaves a file named after a `POINTS` in the folder ``HOLDS``, and the first call that gets
there, in whichever process, takes the file away, says so in another one, and goes no further before the test lets it (`Holds`).
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from paor import Engine, Journal, ScriptedModel, tool
from paor.testing import call, refine, review

POINTS = ("look", "unpaid", "paid")
"""Where a call can be held: looking at an order, before it is paid, and after it."""


class Held(NamedTuple):
    """A call that goes no further: its process, and the order that it was given."""

    pid: int
    order: str


class Holds:
    """
    The points at which calls are held, as the test sees them.

    Args:
        folder: Of the files; the environment of the workers names it as ``HOLDS``.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)

    def hold(self, point: str) -> None:
        """Have the next call that gets to *point* be held."""
        assert point in POINTS
        (self.folder / point).touch()

    def held(self, point: str, meanwhile: Callable[[], object] = lambda: None) -> Held:
        """Return the call that is held at *point* once one is; do something between two looks for it."""
        deadline = time.monotonic() + 300
        while not (self.folder / f"{point}.held").exists():
            assert time.monotonic() < deadline, f"no call came to {point}"
            meanwhile()
            time.sleep(0.01)
        pid, order = (self.folder / f"{point}.held").read_text().split()
        return Held(int(pid), order)

    def release(self, point: str) -> None:
        """Have the held call go on, or forget the one whose process is lost."""
        (self.folder / f"{point}.held").unlink()


def _come_to(point: str, order: str) -> None:
    """Wait here if the test holds calls at this point."""
    if "HOLDS" not in os.environ:
        return
    place, held = Path(os.environ["HOLDS"], point), Path(os.environ["HOLDS"], f"{point}.held")
    with suppress(FileNotFoundError):  # the file goes to one of all who come
        place.rename(own := place.with_name(f"{point}.{os.getpid()}"))
        own.write_text(f"{os.getpid()} {order}")
        own.rename(held)
        while held.exists():
            time.sleep(0.01)


@tool("shop.look", effect="read")
def look(order: str) -> str:
    """Look at an order."""
    if "POISON" in os.environ:
        os.kill(os.getpid(), signal.SIGKILL)
    _come_to("look", order)
    return "there"


@tool("shop.pay", effect="once")
def pay(order: str) -> str:
    """Pay an order back."""
    _come_to("unpaid", order)
    with open(os.environ["PAID"], "a") as file:
        file.write(f"{order}\n")
    _come_to("paid", order)
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
