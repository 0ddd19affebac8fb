"""A Python in which only paor and what its core depends on can be imported, as after ``pip install paor``."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import tomllib
from functools import cache
from importlib.metadata import packages_distributions, requires
from pathlib import Path
from typing import Any, NamedTuple

from packaging.requirements import Requirement

from .pages import ROOT, environment

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]

BLOCK = """
import importlib.machinery, sys

class Lean:
    hidden = frozenset({hidden!r})

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.hidden:
            return None
        return importlib.machinery.PathFinder.find_spec(name, path, target)

sys.meta_path[:] = [Lean() if finder is importlib.machinery.PathFinder else finder for finder in sys.meta_path]
"""


def plain(name: str) -> str:
    """Return the name of a distribution in the form in which all of its spellings are alike."""
    return re.sub(r"[-_.]+", "-", name).lower()


def names(requirements: list[str]) -> set[str]:
    """Return the distributions that requirements name, extras of other projects left out."""
    return {plain(Requirement(line).name) for line in requirements}


@cache
def closure(*roots: str) -> frozenset[str]:
    """Return *roots* and all that they need here, as pip would install them."""
    found: set[str] = set()
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        needs = map(Requirement, requires(name) or ())
        waiting += [
            plain(need.name) for need in needs if need.marker is None or need.marker.evaluate({"extra": ""})
        ]
    return frozenset(found)


def core() -> frozenset[str]:
    """Return the distributions of a plain install, without pip itself, which one of them asks for, and with paor."""
    return closure(*sorted(names(PROJECT["dependencies"]))) - {"pip"} | {"paor"}


def hidden() -> set[str]:
    """Return the modules that are here and would not be after a plain install."""
    kept = core()
    return {
        module
        for module, owners in packages_distributions().items()
        if not kept & set(map(plain, owners))
        and module.isidentifier()
        and module not in sys.stdlib_module_names
    }


def run_lean(program: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run *program* in *folder* where nothing but the core can be imported."""
    text = BLOCK.format(hidden=sorted(hidden())) + program
    return subprocess.run(
        [sys.executable, "-c", text, *arguments],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


class Said(NamedTuple):
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str


COMMANDS = """
import contextlib, io, json, sys
from paor.cli import main

class Bytes(io.TextIOWrapper):
    def __init__(self):
        super().__init__(io.BytesIO(), "utf-8", write_through=True)

def said(line):
    out, err = Bytes(), Bytes()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(line)
    return code, *(stream.buffer.getvalue().decode() for stream in (out, err))

print(json.dumps([said(line) for line in json.loads(sys.argv[1])]))
"""


def paor_lean(folder: Path, *lines: str) -> list[Said]:
    """Run commands of paor in the same way, one after the other in one process."""
    done = run_lean(COMMANDS, folder, json.dumps([shlex.split(line) for line in lines]))
    assert done.returncode == 0, done.stderr
    return [Said(*said) for said in json.loads(done.stdout)]
