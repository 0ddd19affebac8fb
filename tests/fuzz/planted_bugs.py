"""
Planted bugs, and a judge that has the testing kit look for one of them in a copy of the project.

    python -m tests.fuzz.planted_bugs NAME...    judges them, all without a name, and prints a line for each
    python -m tests.fuzz.planted_bugs --write    the same, and writes what docs/planted-bugs.md tells

The kit knows nothing of the bugs. In a process of its own, which imports the copy, it looks for anything wrong in a small
agent (`tests.fuzz.planted_agent`) as a user's call of `paor.fuzz.search` does: fixed seed, no database.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ..support.edits import ROOT, Edit, applied

FOLDER = Path(__file__).resolve().parent
SOURCE = FOLDER / "planted_bugs.toml"
MEASURED = ROOT / "docs" / "planted-bugs.json"

EXAMPLES, SECONDS = 300, 60
"""Within which a bug is found: examples, or seconds if that is sooner reached."""

ROWS = {"desk": 12, "machine": 20}
"""Most rows of the shrunk journal, by agent: a run of the other one has a phase before Planning, and rows within its own phases."""

SEED = 2
"""Of the judge; the tests take others, too."""

COPIED = ("src", "pyproject.toml")


@dataclass(frozen=True, slots=True)
class Bug:
    """
    One planted bug.

    Attributes:
        name: In words of the code.
        area: What it is in.
        what: What is wrong.
        breaks: The promise that does not hold any more.
        seen_by: The kit's invariants that may see it.
        edits: What is changed.
        agent: In which agent it is looked for, see `tests.fuzz.planted_search`.
    """

    name: str
    area: str
    what: str
    breaks: str
    seen_by: tuple[str, ...]
    edits: tuple[Edit, ...]
    agent: str = "desk"


@cache
def planted(source: Path = SOURCE) -> tuple[Bug, ...]:
    """Return all planted bugs of a file in their order."""
    data = tomllib.loads(source.read_text(encoding="utf-8"))
    return tuple(
        Bug(
            **{
                **item,
                "seen_by": tuple(item["seen_by"]),
                "edits": tuple(Edit.of(one, item["name"]) for one in item["edits"]),
            }
        )
        for item in data["bug"]
    )


def patched(bug: Bug | None) -> dict[str, str]:
    """
    Return the files of a bug as they are with it; of none nothing.

    Raises:
        EditLost: One of its edits does not apply.
    """
    return applied(bug.edits) if bug is not None else {}


class Copy:
    """A copy of the project that has one bug at a time, or none."""

    def __init__(self, root: Path) -> None:
        self.root = root
        ignored = shutil.ignore_patterns("__pycache__", "*.egg-info", "*.db", "*.db-*")
        for name in COPIED:
            source, target = ROOT / name, root / name
            if source.is_dir():
                shutil.copytree(source, target, symlinks=True, ignore=ignored)
            else:
                shutil.copy2(source, target)
        (root / "tests" / "fuzz").mkdir(parents=True)
        for name in ("planted_agent.py", "planted_machine.py", "planted_search.py"):
            shutil.copy2(FOLDER / name, root / "tests" / "fuzz" / name)
        self._clock = 1_600_000_000
        self._edited: set[str] = set()

    def plant(self, bug: Bug | None) -> None:
        """Have this bug, and no other one."""
        texts = patched(bug)
        for file in sorted(self._edited - texts.keys()):
            self._write(file, (ROOT / file).read_text(encoding="utf-8"))
        for file, text in texts.items():
            self._write(file, text)
        self._edited = set(texts)

    def _write(self, file: str, text: str) -> None:
        """Write a file with a time of its own, so that no compiled form of it is taken for the present one."""
        path = self.root / file
        path.write_text(text, encoding="utf-8")
        self._clock += 2
        os.utime(path, (self._clock, self._clock))

    def python(self, *arguments: str) -> Any:
        """Return what `tests.fuzz.planted_search` of the copy tells as JSON, run in a process that imports the copy."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("COV", "PYTEST"))}
        kept.pop("PYTHONDONTWRITEBYTECODE", None)  # one process compiles for all that follow
        env = kept | {"PYTHONPATH": str(self.root / "src"), "PYTHONPYCACHEPREFIX": str(self.root / "pyc")}
        command = [sys.executable, "-m", "tests.fuzz.planted_search", *arguments]
        ended = subprocess.run(
            command, cwd=self.root, env=env, capture_output=True, text=True, timeout=1200, check=False
        )
        if ended.returncode:
            raise RuntimeError(f"{' '.join(arguments)}: {ended.stderr[-3000:]}")
        told = json.loads(ended.stdout)
        assert Path(told["package"]).is_relative_to(self.root), "the copy's own package must be imported"
        return told


def judged(
    copy: Copy, bug: Bug | None, *, seed: int = SEED, examples: int = EXAMPLES, agent: str = "desk"
) -> dict[str, Any]:
    """
    Have the kit look for *bug*, and take its repro file in fresh processes, with the bug and without it.

    Returns:
        What was found: ``found``, ``invariant``, ``told``, ``examples`` and ``seconds`` until it was first seen, ``rows``
        of the shrunk journal; ``fails`` and ``passes``, whether the file still fails with the bug, and no more without it.
    """
    folder, agent = Path(tempfile.mkdtemp(dir=copy.root)), bug.agent if bug is not None else agent
    copy.plant(bug)
    told: dict[str, Any] = copy.python("search", agent, str(seed), str(examples), str(folder))
    if told["found"]:
        again = copy.python("replay", agent, told["repro"])
        told["fails"] = again["invariant"] == told["invariant"]
        copy.plant(None)
        told["passes"] = copy.python("replay", agent, told["repro"])["invariant"] == ""
    copy.plant(None)
    return told


def problems(bug: Bug, told: Mapping[str, Any]) -> list[str]:
    """Return everything in which what the judge tells of a bug is less than what is asked of the kit."""
    if not told["found"]:
        return [f"not found within {told['examples']} examples, {told['seconds']:.0f} s"]
    found = []
    if told["invariant"] not in bug.seen_by:
        found.append(f"seen by {told['invariant']} ({told['told']}), not by {' or '.join(bug.seen_by)}")
    if told["examples"] > EXAMPLES and told["seconds"] > SECONDS:
        found.append(f"found after {told['examples']} examples, {told['seconds']:.0f} s")
    if told["rows"] > ROWS[bug.agent]:
        found.append(f"{told['rows']} rows, at most {ROWS[bug.agent]} are wanted")
    if not told["fails"]:
        found.append("its repro file does not fail in a fresh process")
    if not told["passes"]:
        found.append("its repro file fails without the bug, too")
    return found


def main(arguments: Sequence[str]) -> int:
    """Judge bugs and print a line for each; return 1 if one of them is not found as it should be."""
    write, names = "--write" in arguments, [item for item in arguments if not item.startswith("--")]
    chosen = [bug for bug in planted() if not names or bug.name in names]
    measured: dict[str, Any] = json.loads(MEASURED.read_text()) if MEASURED.exists() else {}
    bad = 0
    with tempfile.TemporaryDirectory() as root:
        copy = Copy(Path(root))
        for bug in chosen:
            told = judged(copy, bug)
            wrong = problems(bug, told)
            bad += bool(wrong)
            facts = "  ".join(str(told.get(key, "-")) for key in ("examples", "seconds", "rows", "invariant"))
            print(f"{bug.name:<36} {facts}  {'; '.join(wrong) or 'ok'}", flush=True)
            measured[bug.name] = {
                key: told.get(key) for key in ("invariant", "examples", "seconds", "rows") if told["found"]
            }
    if write:
        known = {bug.name for bug in planted()}
        kept = {name: facts for name, facts in sorted(measured.items()) if name in known}
        MEASURED.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
