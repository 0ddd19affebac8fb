"""
Fingerprints change with what code means, never with its form.

Refactorings of the real deciding code change nothing, and a waiting run resumes after them; edits of what it means are all seen, and
a run that was recorded before them is refused. Both in the words of the code as it is: each edit is found exactly once.
"""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path

import pytest

from paor.fsm.fingerprints import computed_code, package_files, parts_of, read_package, roots_of
from paor.fsm.guards import GUARDS
from paor.fsm.source_digests import Package

from . import refactoring
from .pages import ROOT
from .refactoring import Edits, deciding, everywhere

KEPT = {"_READERS", "_BY_PHASE"}
"""Private names that the fingerprints begin with."""


@lru_cache(maxsize=1)
def plain() -> dict[str, str]:
    """Return the fingerprints of the code as it is."""
    return computed_code(package_files())


def parts_after(edits: Mapping[str, str]) -> set[str]:
    """Return the parts that are others after *edits*."""
    for path, text in edits.items():
        compile(text, path, "exec")
    found = computed_code(package_files({path: text.encode() for path, text in edits.items()}))
    assert found.keys() == plain().keys()
    return {part for part in found if found[part] != plain()[part]}


def edited(*edits: tuple[str, str, str]) -> Edits:
    """Return files after edits of a path, an old text that is there once, and a new one."""
    files: Edits = {}
    for path, old, new in edits:
        text = files.get(path) or (ROOT / path).read_text(encoding="utf-8")
        assert text.count(old) == 1, (path, old, text.count(old))
        files[path] = text.replace(old, new)
    return files


# -- refactorings -------------------------------------------------------------------------------------------------

FORM: dict[str, Callable[[str], str]] = {
    "formatting": refactoring.reformatted,
    "comments": refactoring.commented,
    "docstrings": refactoring.redocumented,
    "annotations": refactoring.unannotated,
    "order of functions": refactoring.reordered,
    "order of imports": refactoring.imports_turned,
}


@pytest.mark.parametrize("name", FORM)
def test_the_form_of_all_deciding_modules_changes_nothing(name: str) -> None:
    """Every module at once, and each of them is another text than before."""
    files = deciding()
    after = everywhere(files, FORM[name])
    assert sum(after[path] != files[path] for path in files) >= 60
    assert parts_after(after) == set()


def all_locals_renamed() -> tuple[Edits, int]:
    """Return all deciding modules with their local variables and parameters renamed."""
    files = deciding()
    given = refactoring.keywords_in(
        [
            path.read_text(encoding="utf-8")
            for folder in ("fsm", "states", "prompts", "tools", "src/paor")
            for path in (ROOT / folder).rglob("*.py")
        ]
    )
    found = {path: refactoring.locals_renamed(text, given) for path, text in files.items()}
    return {path: text for path, (text, _) in found.items()}, sum(count for _, count in found.values())


def all_helpers_renamed() -> tuple[Edits, int]:
    """Return all deciding modules with their private functions, classes and constants renamed."""
    return refactoring.helpers_renamed(deciding(), set(roots()))


def all_attributes_renamed() -> tuple[Edits, int]:
    """Return all deciding modules with the private attributes and methods of their classes renamed."""
    return refactoring.attributes_renamed(deciding())


def all_moved() -> tuple[Edits, int]:
    """Return all deciding modules with every function that can move in a module of a new room of its floor."""
    edits: Edits = {}
    count = 0
    for path, text in deciding().items():
        floor, _, file = path.partition("/")
        names = [name for name in refactoring.movable(text) if name not in roots()]
        if names and "\nfrom __future__" in text:
            edits |= refactoring.moved(path, text, names, f"{floor}/attic/{file}")
            edits[f"{floor}/attic/__init__.py"] = ""
            count += len(names)
    return edits, count


@lru_cache(maxsize=1)
def roots() -> frozenset[str]:
    """Return the names of the definitions that this very process decides with, which the parts begin with."""
    package = read_package(package_files())
    begun = {place for places in roots_of(package).values() for place in places.values()}
    return frozenset(name for module, name in begun if (module, name) not in package.boundaries) | KEPT


RENAMINGS: dict[str, tuple[Callable[[], tuple[Edits, int]], int]] = {
    "local variables and parameters": (all_locals_renamed, 800),
    "private functions, classes and constants": (all_helpers_renamed, 300),
    "private attributes and methods": (all_attributes_renamed, 50),
    "functions moved to a new room": (all_moved, 300),
}


@pytest.mark.parametrize("name", RENAMINGS)
def test_names_and_places_in_all_deciding_modules_change_nothing(name: str) -> None:
    """All of them at once; how many there are at least is beside it."""
    make, least = RENAMINGS[name]
    edits, count = make()
    assert count >= least, count
    assert parts_after(edits) == set()
