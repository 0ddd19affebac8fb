"""
A patch is Done only once its tests pass.

    python examples/machines/verifying.py
    paor check --app verifying:engine --never "Done without Verifying"      # in this folder
    paor diagram --app verifying:engine --format svg --output verifying.svg

Every way to Done goes through a phase of its own, which calls ``tests.run``, whatever the model thinks and whatever is used up. What failed goes into the next plan, at
most three times. The model is a script; the patches, the tests and the process that runs them are real.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from patch_tools import run_tests, write
from shown import play, show

from paor import Engine, Journal, Machine, Phase, ScriptedModel
from paor.machine import GuardContext
from paor.testing import SeededIds, SteppingClock, call, refine, walk


# lines: a new phase with a tool
def where(context: GuardContext) -> dict[str, Any]:
    """Return the arguments of the tests: the folder that the run was started for."""
    return {"folder": context.values.get("folder", "")}


MACHINE = (
    Machine.standard()
    .phase(Phase("Verifying", tool="tests.run", arguments=where))
    .row("Verifying", "finish", "Done", when="succeeded")
    .row("Verifying", "rework", "Planning", at_most=3)
    .row("Verifying", "give_up", "Failed")
    .gate("Done", "Verifying")
)
# end

FLAT = "def price(pieces):\n    return 10 * pieces\n"
RABATE = "def price(pieces):\n    return 10 * pieces if pieces < 10 else 9 * pieces\n"


def replies(patches: Sequence[str]) -> list[Any]:
    """Return what a model says that writes one patch after the other, and is content each time."""
    said: list[Any] = []
    for number, text in enumerate(patches, 1):
        said += [*call("patch.write", text=text), refine("stop", answer=f"Patch {number} is in price.py.")]
    return said


def engine(journal: Journal, folder: Path | None = None, patches: Sequence[str] = (FLAT, RABATE)) -> Engine:
    """Return the engine; its patches are written to *folder*."""
    return Engine(
        ScriptedModel(replies(patches)),
        [write, run_tests],
        journal,
        machine=MACHINE,
        deps=folder,
        clock=SteppingClock(),
        ids=SeededIds("verifying"),
        builtins=False,
    )


def mended(journal: Journal, folder: Path) -> None:
    """The first patch fails a test, the second passes."""
    with engine(journal, folder) as mending:
        result = mending.run("Ten pieces cost 90", values={"folder": str(folder)})
        show(mending, result)
        second = [asked.prompt for asked in walk(journal, result.run_id).asked if asked.kind == "selection"][
            1
        ]
        told = next(line for line in second.splitlines() if "Verifying: " in line)
        print(f"      the second plan was told {told}")


def given_up(journal: Journal, folder: Path) -> None:
    """Four patches, and none passes: three times back to Planning, then the run fails."""
    variants = [f"{FLAT}# {number}\n" for number in range(4)]
    with engine(journal, folder, variants) as mending:
        show(mending, mending.run("Ten pieces cost 90", values={"folder": str(folder)}))


if __name__ == "__main__":
    play(mended, given_up)
