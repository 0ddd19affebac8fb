"""
What paor promises, each promise beside the tests that hold it and an edit that breaks it: ``docs/guarantees.toml``.

The tables of ``docs/guarantees.md`` are written from it, and ``tests/project/test_guarantees_page.py`` makes every one of the
edits and sees the named test fail: a guarantee whose test cannot fail is none. The first edit of a guarantee is made in the
default set of tests, the others by ``pytest --whole``.
"""

from __future__ import annotations

import ast
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "docs" / "guarantees.toml"


@dataclass(frozen=True, slots=True)
class Breakage:
    """
    One edit that takes a guarantee away.

    Attributes:
        what: The edit, for people.
        place, at, change: Where, which node, and what becomes of it, see ``tests/support/edits.py``.
        test: The test that then fails, as ``tests/test_x.py::test_name``, with the parameters of one case where it has some.
    """

    what: str
    place: str
    at: str
    change: str
    test: str


@dataclass(frozen=True, slots=True)
class Guarantee:
    """
    One promise.

    Attributes:
        group: What it is about.
        says: The promise in one sentence.
        tests: Tests that hold it.
        broken: Edits that take it away.
    """

    group: str
    says: str
    tests: tuple[str, ...]
    broken: tuple[Breakage, ...]


@cache
def guarantees() -> tuple[Guarantee, ...]:
    """Return all promises in their order."""
    data = tomllib.loads(SOURCE.read_text(encoding="utf-8"))
    return tuple(_guarantee(entry) for entry in data["guarantee"])


def _guarantee(entry: dict[str, Any]) -> Guarantee:
    broken = tuple(Breakage(**edit) for edit in entry["broken"])
    named = (*entry.get("tests", ()), *(edit.test.split("[")[0] for edit in broken))
    return Guarantee(entry["group"], entry["says"], tuple(dict.fromkeys(named)), broken)


def guarantee_table() -> str:
    """Return the promises by group, each with the tests that hold it."""
    lines: list[str] = []
    group = ""
    for number, item in enumerate(guarantees(), 1):
        if item.group != group:
            group = item.group
            lines += ["", f"### {group}", "", "| | guarantee | held by |", "|---|---|---|"]
        lines.append(f"| {number} | {_cell(item.says)} | {'<br>'.join(_test(test) for test in item.tests)} |")
    return "\n".join(lines)


def breakage_table() -> str:
    """Return the edits, each with the test that sees it."""
    lines = ["| guarantee | edit | place | seen by |", "|---|---|---|---|"]
    for number, item in enumerate(guarantees(), 1):
        for edit in item.broken:
            lines.append(f"| {number} | {_cell(edit.what)} | `{edit.place}` | {_test(edit.test)} |")
    return "\n".join(lines)


@cache
def tests_of(file: str) -> set[str]:
    """Return the names of the tests in a file, those of classes as ``Class::name``."""
    names: set[str] = set()
    for node in ast.parse((ROOT / file).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef):
            names |= {
                f"{node.name}::{inner.name}" for inner in node.body if isinstance(inner, ast.FunctionDef)
            }
            names |= {f"{node.name}::runTest"}
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):  # hypothesis: TestX = Machine.TestCase
            names |= {f"{target.id}::runTest" for target in node.targets if isinstance(target, ast.Name)}
    return names


def _test(name: str) -> str:
    return f"`{name.split('[')[0].removeprefix('tests/')}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
