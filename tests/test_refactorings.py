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


PUBLIC = (
    *(
        "plans_left",
        "stale_after",
        "steps_left_in_plan",
        "step_of",
        "selection_of",
        "plan_stop",
        "folded_text",
    ),
    *("rule_broken", "limits_for", "observation_of", "previews_of", "message_of", "exhausted", "hopeless"),
    *(
        "hard_limit",
        "prompt_tokens",
        "newest_lines",
        "history_text",
        "final_answer",
        "Reservation",
        "Invalid",
    ),
)
"""Public functions and classes that only the package uses."""


def public_renamed(*names: str) -> Edits:
    """Return the deciding modules with public names renamed wherever they are used."""
    whole = re.compile(rf"\b({'|'.join(names)})\b")
    return everywhere(deciding(), lambda text: whole.sub(lambda found: f"{found[1]}_anew", text))


def test_public_names_within_the_package_change_nothing() -> None:
    """All at once; where that fails, each alone, so that the failure has a name."""
    if parts_after(public_renamed(*PUBLIC)):
        assert {name: parts for name in PUBLIC if (parts := parts_after(public_renamed(name)))} == {}
        raise AssertionError("only all of them together change something")


def module_renamed(old: str, new: str) -> Callable[[], Mapping[str, str | None]]:
    """Return what renames a module of one floor, which may go to another room."""

    def edits() -> Mapping[str, str | None]:
        floor, _, name = old.partition("/")
        other, _, rest = new.partition("/")
        up = "." * (new.count("/") - old.count("/"))
        target = rest.replace("/", ".")
        files: dict[str, str | None] = {}
        for path, text in deciding().items():
            text = (
                re.sub(rf"from \.{name} import", f"from .{target} import", text)
                if path.startswith(floor)
                else text
            )
            files[path] = re.sub(rf"from \.\.{floor}\.{name} import", f"from ..{other}.{target} import", text)
        moved = files.pop(f"{old}.py") or ""
        if up:
            moved = re.sub(r"from (\.+)", rf"from {up}\1", moved)
        return {**files, f"{old}.py": None, f"{new}.py": moved}

    return edits


def merged() -> Mapping[str, str | None]:
    """Return the modules with `fsm.judging` within `fsm.planned`."""
    files: dict[str, str | None] = {
        path: text.replace("from .judging import", "from .planned import")
        for path, text in deciding().items()
    }
    judging = (files.pop("fsm/judging.py") or "").replace("from __future__ import annotations\n", "")
    return {**files, "fsm/judging.py": None, "fsm/planned.py": f"{files['fsm/planned.py']}\n{judging}"}


MODULES: dict[str, Callable[[], Mapping[str, str | None]]] = {
    "a module is renamed": module_renamed("fsm/judging", "fsm/stop_rules"),
    "a module goes to a room of its own": module_renamed("fsm/duplicates", "fsm/decision/duplicate_calls"),
    "another one does": module_renamed("states/budgets", "states/records/budgets"),
    "the placeholders go to the workflow's room": module_renamed(
        "fsm/placeholders", "fsm/workflow/step_references"
    ),
    "two modules become one": merged,
}


@pytest.mark.parametrize("name", MODULES)
def test_modules_have_no_say(name: str) -> None:
    """What a module is called, which room it is in and what else it defines changes nothing."""
    edits = MODULES[name]()
    found = computed_code(package_files({path: text and text.encode() for path, text in edits.items()}))  # type: ignore[misc]
    assert found == plain()


G, J, C = "fsm/guards.py", "fsm/judging.py", "fsm/changes.py"
SMALL: dict[str, tuple[tuple[str, str, str], ...]] = {
    "a local variable of a guard": (
        (
            G,
            "    spec = case.run.spec\n    wanted = spec.final_format is not None and spec.formatter is not None",
            "    given = case.run.spec\n    wanted = given.final_format is not None and given.formatter is not None",
        ),
    ),
    "the parameter of a guard": (
        (G, "def elicitations_left(case: Case) -> bool:", "def elicitations_left(it: Case) -> bool:"),
        (
            G,
            "return case.run.counters.elicitations < case.run.spec.limits.max_elicitations",
            "return it.run.counters.elicitations < it.run.spec.limits.max_elicitations",
        ),
    ),
    "the variable of a generator": (
        (
            G,
            "next((tool for tool in case.run.spec.tools if tool.name == intent.tool), None)",
            "next((each for each in case.run.spec.tools if each.name == intent.tool), None)",
        ),
    ),
    "another local with the name of a module's function": (
        (
            J,
            "    wanted = [folded_text(text) for text in run.spec.success_criteria]",
            "    progress = [folded_text(text) for text in run.spec.success_criteria]",
        ),
        (J, "in enumerate(wanted):", "in enumerate(progress):"),
    ),
    "an import has an alias": (
        (G, "import exhausted\n", "import exhausted as used_up\n"),
        (G, "or exhausted(case.run)", "or used_up(case.run)"),
    ),
    "a module is imported instead of its functions": (
        (G, "from .planned import plans_left, step_of, steps_left_in_plan", "from . import planned"),
        (G, "and plans_left(run)", "and planned.plans_left(run)"),
        (G, "    step = step_of(case.run)\n", "    step = planned.step_of(case.run)\n"),
        (
            G,
            "step = step_of(case.run) if result.ok else None",
            "step = planned.step_of(case.run) if result.ok else None",
        ),
        (G, "return steps_left_in_plan(case.run) > 0", "return planned.steps_left_in_plan(case.run) > 0"),
    ),
    "an import is within a function": (
        ("fsm/duplicates.py", "import hashlib\n", ""),
        (
            "fsm/duplicates.py",
            "    return hashlib.sha256(",
            "    import hashlib\n\n    return hashlib.sha256(",
        ),
    ),
    "a name is imported from its module": (
        ("fsm/planned.py", "import uuid\n", "from uuid import UUID, uuid5\n"),
        ("fsm/planned.py", '_PLAN_IDS = uuid.UUID("', '_PLAN_IDS = UUID("'),
        ("fsm/planned.py", "uuid.uuid5(", "uuid5("),
    ),
    "a local has an annotation": (
        (J, "    met = list(run.counters.criteria)", "    met: list[str] = list(run.counters.criteria)"),
    ),
    "a constant has another annotation": (
        (C, "def _failed(case: Case, reason: str) -> Effect:", "def _failed(case: Any, reason: Any) -> Any:"),
    ),
    "parentheses and lines": (
        (
            G,
            "    return reviewed and case.stop_reason is None",
            "    return (\n        reviewed\n        and (case.stop_reason is None)\n    )",
        ),
    ),
    "a statement that does nothing": (
        (
            G,
            "    result = case.result\n    if result is None or",
            "    result = case.result\n    pass\n    if result is None or",
        ),
    ),
    "a parameter and those who give it by name": (
        (
            "fsm/duplicates.py",
            "limits: Limits, *, succeeded: bool = False",
            "limits: Limits, *, worked: bool = False",
        ),
        ("fsm/duplicates.py", "and succeeded and window", "and worked and window"),
        ("fsm/case.py", "limits, succeeded=succeeded)", "limits, worked=succeeded)"),
    ),
    "a function that nobody uses": (
        (J, "def folded_text(", "def unused(text: str) -> str:\n    return text\n\n\ndef folded_text("),
    ),
    "a constant that nobody uses": ((G, "Guard = Callable", "UNUSED = 7\nGuard = Callable"),),
}


def test_small_refactorings_change_nothing() -> None:
    """All at once; where that fails, each alone, so that the failure has a name."""
    every = [edit for edits in SMALL.values() for edit in edits]
    if parts_after(edited(*every)):
        assert {name: parts for name, edits in SMALL.items() if (parts := parts_after(edited(*edits)))} == {}
        raise AssertionError("only all of them together change something")


def test_there_are_enough_refactorings() -> None:
    """At least forty named ones, most of them in all modules at once."""
    assert len(FORM) + len(RENAMINGS) + len(PUBLIC) + len(MODULES) + len(SMALL) >= 50
