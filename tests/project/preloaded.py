"""
A process that has imported pytest and everything else but the project, and forks a child for every run of pytest.

Reads jobs from its standard input, one JSON object a line, and answers each with one line: pytest's exit code, what it
printed, and where the child found `paor`. A child imports the project anew, from the folder that its job names.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOREIGN = (
    "asyncio",
    "click",
    "hypothesis",
    "jsonschema_rs",
    "lark",
    "msgspec",
    "orjson",
    "pydantic",
    "pytest",
    "rich.console",
    "rpds",
    "sqlite3",
    "transitions",
    "yaml",
)
"""What most tests import of others; a child imports what is not here by itself."""


def main() -> None:
    """Serve until the input ends."""
    for name in FOREIGN:
        importlib.import_module(name)
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(_in_child(json.loads(line))), flush=True)


def _in_child(job: dict[str, Any]) -> dict[str, Any]:
    with tempfile.TemporaryFile() as printed, tempfile.TemporaryFile() as found:
        pid = os.fork()
        if pid == 0:
            _child(job, printed.fileno(), found.fileno())
        _, status = os.waitpid(pid, 0)
        printed.seek(0)
        found.seek(0)
        output = printed.read().decode(errors="replace")
        return {"code": os.waitstatus_to_exitcode(status), "output": output, "package": found.read().decode()}


def _child(job: dict[str, Any], printed: int, found: int) -> None:
    code = 70
    try:
        nothing = os.open(os.devnull, os.O_RDONLY)
        for own, standard in ((nothing, 0), (printed, 1), (printed, 2)):
            os.dup2(own, standard)
        root = Path(job["root"])
        os.chdir(root)
        os.environ.update(PYTHONPATH=str(root / "src"), PYTHONPYCACHEPREFIX=str(root / "pyc"))
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        sys.pycache_prefix, sys.dont_write_bytecode = (
            str(root / "pyc"),
            False,
        )  # the next child need not compile it
        sys.path[:0] = [str(root), str(root / "src")]  # as ``python -m pytest`` in that folder would have it
        import pytest

        code = int(pytest.main(job["arguments"]))
        sys.stdout.flush()
        os.write(found, str(getattr(sys.modules.get("paor"), "__file__", "")).encode())
    finally:
        os._exit(code)


@dataclass(frozen=True)
class Ran:
    """How a run of pytest ended: its exit code (negative: the signal), what it printed, the file of the `paor` it tested."""

    code: int
    output: str
    package: str


class Preloaded:
    """The other end: starts the process, and gives it jobs."""

    def __init__(self) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("COV", "PYTEST"))}
        self._process = subprocess.Popen(
            [sys.executable, "-P", __file__],
            env=kept,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._line() == "ready", "the process could not start"

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().rstrip("\n")

    def pytest(self, root: Path, *arguments: str) -> Ran:
        """Run pytest in *root*, on the package that its `src` holds, as in a process of its own."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"root": str(root), "arguments": arguments}) + "\n")
        self._process.stdin.flush()
        return Ran(**json.loads(self._line()))

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)


if __name__ == "__main__":
    main()
