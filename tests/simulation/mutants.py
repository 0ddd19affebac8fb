"""
Edits that break a promise, and how soon the simulation finds each: in a process of its own that loads the edited modules.

    python -m tests.simulation.mutants NAME SEED RUNS    prints one JSON line
"""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from typing import Any

from ..fuzz.planted_bugs import Bug, patched, planted
from ..support.edits import ROOT

SOURCE = Path(__file__).parent / "simulated_bugs.toml"


class Edited(SourceFileLoader):
    """Loads a module from a text instead of its file; nothing of it is cached."""

    text = b""

    def get_data(self, path: str) -> bytes:
        """Return the text."""
        return self.text

    def path_stats(self, path: str) -> Any:
        """Refuse, so that no compiled form is looked for or kept."""
        raise OSError(path)


class Finder(MetaPathFinder):
    """
    Finds one module of the package as an edit has it.

    Args:
        file: From the root of the repository.
        text: The whole file after the edit.
    """

    def __init__(self, file: str, text: str) -> None:
        self.name = file.removeprefix("src/").removesuffix(".py").replace("/", ".")
        self.loader = Edited(self.name, str(ROOT / file))
        self.loader.text = text.encode()

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        """Return the module's place and loader, nothing for any other module."""
        return (
            spec_from_file_location(name, self.loader.path, loader=self.loader) if name == self.name else None
        )


def bugs() -> tuple[Bug, ...]:
    """Return all edits in their order."""
    return planted(SOURCE)


def judge(name: str, seed: int, runs: int) -> dict[str, Any]:
    """Return what another process says of an edit: ``found`` (in words, or empty), ``runs`` until then, and ``seed``, or ``failed``."""
    command = [sys.executable, "-m", "tests.simulation.mutants", name, str(seed), str(runs)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=3600)
    if ended.returncode:
        return {"found": "", "runs": 0, "failed": ended.stderr.strip().splitlines()[-1:]}
    told: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return told


def judge_all(names: list[str], seed: int, runs: int) -> int:
    """Print a line for each edit, or for those that are named; return 1 when one was not found."""
    missed, chosen = 0, [bug for bug in bugs() if not names or bug.name in names]
    for bug in chosen:
        told = judge(bug.name, seed, runs)
        missed += not told["found"]
        after = f"{told['runs']:>6} runs" if told["found"] else f"not in {told['runs']} runs"
        words = told["found"] or told.get("failed") or ""
        print(f"{bug.area:<10} {bug.name:<44} {after}  {words[:90]}", flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} edits found")
    return 1 if missed or not chosen else 0


def _search(name: str, seed: int, runs: int) -> dict[str, Any]:
    """Load an edit in this process, which must not have imported the package, and simulate until it is found."""
    (bug,) = [bug for bug in bugs() if bug.name == name]
    for file, text in patched(bug).items():
        sys.meta_path.insert(0, Finder(file, text))
    from .simulate import until, worlds

    had = 0
    for outcome in until(runs, worlds(seed, machines=bug.area == "machines")):
        had += outcome.totals["runs"]
        if outcome.broken:
            return {"found": outcome.broken[0], "runs": had, "seed": outcome.seed}
    return {"found": "", "runs": had, "seed": 0}


if __name__ == "__main__":
    print(json.dumps(_search(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
