"""
What `tests.fuzz.planted_bugs` runs in a process of its own: one search with the kit, or one replay of what it found.

    python -m tests.fuzz.planted_search search AGENT SEED EXAMPLES FOLDER
    python -m tests.fuzz.planted_search replay AGENT FILE

Both print one JSON object; the agent is ``desk`` or ``machine``.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from hypothesis import strategies as st

import paor
from paor import fuzz

from . import planted_agent, planted_machine


class Desk(fuzz.EngineMachine):
    """The agent, several runs in each example, with ids as its host would know them."""

    runs = 8
    values: ClassVar[Mapping[str, Sequence[Any]]] = {"order": ["DE-1042", "AT-0007"], "customer": [17, 18]}

    def engine(self, journal: paor.Journal) -> paor.Engine:
        """Return the engine of a new process."""
        return planted_agent.engine(journal)


class OwnMachine(fuzz.EngineMachine):
    """The agent with a machine of its own, whose runs know when the shop is open."""

    runs = 3
    values: ClassVar[Mapping[str, Sequence[Any]]] = {"cents": [100, 250], "number": [17]}
    host_values: ClassVar[Any] = st.fixed_dictionaries({"open": st.booleans()})

    def engine(self, journal: paor.Journal) -> paor.Engine:
        """Return the engine of a new process."""
        return planted_machine.engine(journal)


AGENTS = {"desk": Desk, "machine": OwnMachine}
"""By the name that a planted bug has for it."""

STEPS = {"desk": 100, "machine": 60}
"""Rules of one example, for several runs, by agent."""


def searched(agent: str, seed: int, examples: int, folder: str) -> dict[str, Any]:
    """Return what a search for anything wrong in the agent comes to; its repro file is saved in *folder*."""
    began, first = time.process_time(), [0, 0.0]

    def progress(seen: Any) -> None:
        if not first[0] and seen.failed:
            first[:] = [seen.examples, time.process_time() - began]

    found = fuzz.search(AGENTS[agent], examples=examples, steps=STEPS[agent], number=seed, progress=progress)
    spent = time.process_time() - began
    told: dict[str, Any] = {
        "found": found.repro is not None,
        "examples": found.examples,
        "seconds": round(spent, 1),
    }
    if found.repro is not None:
        told |= {"examples": first[0], "seconds": round(first[1], 1), "shrunk_in": round(spent - first[1], 1)}
        told |= {"invariant": found.repro.invariant, "told": found.repro.told, "rows": len(found.repro.rows)}
        told["repro"] = str(found.repro.save(folder))
    return told


def replayed(agent: str, file: str) -> dict[str, Any]:
    """Return what a repro file violates now."""
    violation = fuzz.load(file).run(AGENTS[agent])
    return {"invariant": violation.invariant if violation is not None else "", "told": str(violation or "")}


def main() -> None:
    """Do what the command line asks for."""
    what, agent, *rest = sys.argv[1:]
    if what == "search":
        told = searched(agent, int(rest[0]), int(rest[1]), rest[2])
    else:
        told = replayed(agent, rest[0])
    print(json.dumps({"package": paor.__file__, **told}))


if __name__ == "__main__":
    main()
