"""The house is as designed: one package, four links into it, one version, errors that travel, a light import."""

from __future__ import annotations

import importlib
import inspect
import os
import pickle  # pure: errors cross process borders pickled, see test_every_error_survives_pickling
import re
import subprocess
import sys
import tomllib
import typing
from pathlib import Path
from typing import Any

import pytest

import paor
from paor.fsm.journal.reader import JournalReader
from paor.fsm.journal.store import JournalStore
from paor.fsm.lifecycle.runner import Runner
from paor.states.base import errors
from paor.states.base.version import VERSION

ROOT = Path(__file__).resolve().parents[2]
FACE = ROOT / "src" / "paor"
FLOORS = ("fsm", "prompts", "states", "tools")
HEAVY = (
    *("openai", "anthropic", "httpx2", "sqlite_utils", "click", "rich", "pypdfium2", "docx"),
    *("markdownify", "bs4", "jsonschema_rs", "lark", "yaml", "httpcore2", "trafilatura", "lxml"),
    *("protego", "ddgs"),
)
"""What `import paor` must not load: imported on first use, or only there with an extra."""

ERRORS = {
    name: found
    for name, found in vars(errors).items()
    if isinstance(found, type) and issubclass(found, Exception) and found.__module__ == errors.__name__
}


def printed_by(program: str) -> str:
    """Return what *program* prints in a fresh interpreter that starts outside of the repository."""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=ROOT.root
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("floor", FLOORS)
def test_each_link_leads_to_its_folder(floor: str) -> None:
    """Relative, so that it holds in a moved checkout; where links are not supported, a text file with the same words."""
    link = ROOT / floor
    target = os.readlink(link) if link.is_symlink() else link.read_text(encoding="utf-8")
    assert target == f"src/paor/{floor}" and (FACE / floor).is_dir() and not (FACE / floor).is_symlink()


def test_the_version_stands_in_two_places_only() -> None:
    """The code's version is the one that is released."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == VERSION


def test_the_package_says_that_it_is_typed() -> None:
    """Type checkers ignore annotations of a package without this marker."""
    assert (FACE / "py.typed").is_file()


def tree_in_docstring() -> dict[str, str | None]:
    """Return the name and the parent of each error in the indented list at the top of the errors' module."""
    parents: dict[str, str | None] = {}
    path: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        name, depth = line.split()[0] if line.strip() else "", (len(line) - len(line.lstrip())) // 4
        if name == "PaorError" or (path and depth > 0):
            path[depth:] = [name]
            parents[name] = path[depth - 1] if depth else None
        elif name:
            path = []
    return parents


def test_the_printed_tree_of_errors_is_the_real_one() -> None:
    """Every class, under the class that it first derives from, and no class that is gone."""
    real = {
        name: base.__name__ if (base := found.__bases__[0]) in ERRORS.values() else None
        for name, found in ERRORS.items()
    }
    assert tree_in_docstring() == real


@pytest.mark.parametrize("name", ERRORS)
def test_every_error_survives_pickling(name: str) -> None:
    """A host that runs the engine in a worker process sees the same error, facts included."""
    error = ERRORS[name]("run r1: expected a, found b; do c")
    error.run_id = "r1"  # type: ignore[attr-defined]  # facts are attributes
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301  # pure: the bytes are this test's own
    assert type(copy) is type(error)
    assert (str(copy), copy.args, copy.__dict__) == (str(error), error.args, error.__dict__)


def test_every_public_name_exists() -> None:
    """`__all__` is explicit, without duplicates, and holds what it says."""
    names = paor.__all__
    assert len(set(names)) == len(names)
    assert [name for name in names if not hasattr(paor, name)] == []


def test_a_star_import_gives_the_public_names() -> None:
    """What the docs' first line promises, in a fresh interpreter."""
    given = printed_by(
        "from paor import *; import paor; print([n for n in paor.__all__ if n not in globals()])"
    )
    assert given.strip() == "[]"


def test_importing_paor_is_light() -> None:
    """Clients, converters, the CLI's libraries and the schema engine load on first use only."""
    program = f"import sys, paor; print(*[name for name in {HEAVY!r} if name in sys.modules])"
    assert printed_by(program).split() == []


def modules() -> list[str]:
    """Return the dotted name of every module of the package."""
    files = [path.relative_to(FACE) for path in FACE.rglob("*.py")]
    named = (["paor", *path.with_suffix("").parts] for path in files)
    return sorted({".".join(part for part in parts if part != "__init__") for parts in named})


@pytest.mark.whole
def test_every_module_can_be_the_first_that_is_imported() -> None:
    """No module needs another to be imported before it, and none does anything when imported."""
    # `import paor.x` always loads `paor` first, so only what that leaves out has an order to get wrong
    program = f"""
import importlib, sys, paor
always = set(sys.modules)
for name in {modules()!r}:
    for loaded in [loaded for loaded in sys.modules if loaded.startswith('paor.') and loaded not in always]:
        del sys.modules[loaded]
    try:
        importlib.import_module(name)
    except BaseException as error:
        print(name, repr(error))
"""
    assert printed_by(program).splitlines() == []


def test_what_a_host_touches_is_imported_by_nothing_below() -> None:
    """`Engine` and `Journal` are faces: they inherit nothing, as what they hold, and no module of `fsm` needs one to do its work."""
    for face in (paor.Engine, paor.Journal, Runner, JournalStore, JournalReader):
        assert face.__mro__ == (face, object)
    faces = re.compile(r"^\s*from \.+(engine|journal_api) import ", re.MULTILINE)
    found = {
        path.relative_to(ROOT).as_posix()
        for path in (FACE / "fsm").rglob("*.py")
        if faces.search(path.read_text(encoding="utf-8")) and path.parent.name != "fuzz"
    }
    assert found == {"src/paor/fsm/engine.py"}


TAKEN = {
    *(
        "Catalog",
        "Examined",
        "HasMachine",
        "JournalReader",
        "Readable",
        "Row",
        "Run",
        "SpecSource",
        "TakenRow",
    ),
    *("Nothing", "ModelRequest", "ToolRequest", "Recall", "Moved", "Given", "Invalid", "QuestionRecord"),
    *("Answer", "Asked", "CriterionCheck", "DocumentRef", "Preview", "SchemaField", "StoredText", "WebFact"),
    *("FlowTask", "Plan", "Spec", "ToolSpec"),
}
"""What calls take beside public types, and the records of a spec, a plan and a workflow file: docs/journal-format.md has these."""


def test_every_type_that_a_host_receives_has_a_public_name() -> None:
    """In signatures and fields of public names, however deep in a list or a union."""
    homes = [paor, *(importlib.import_module(f"paor.{name}") for name in paor._FURTHER)]
    public = {name: getattr(home, name) for home in homes for name in home.__all__}
    known = {id(value) for value in public.values()}
    found: dict[str, str] = {}

    def look(hint: Any, where: str) -> None:
        for part in typing.get_args(hint):
            look(part, where)
        kind = typing.get_origin(hint) or hint
        if inspect.isclass(kind) and kind.__module__.startswith("paor.") and id(kind) not in known:
            found[kind.__name__] = where

    for name, value in public.items():
        members = [(name, value)]
        if inspect.isclass(value):
            members += [
                (f"{name}.{key}", item) for key, item in vars(value).items() if not key.startswith("_")
            ]
        for where, member in members:
            member = getattr(member, "fget", None) or member
            if inspect.isclass(member) or inspect.isfunction(member):
                lazy = {
                    "Any": Any,
                    "WorkflowLike": Any,
                    "Database": Any,
                    "Others": Any,
                    "JournalReader": Any,
                    **public,
                }
                for key, hint in typing.get_type_hints(member, localns=lazy).items():
                    look(hint, f"{where}.{key}" if not key.startswith("_") else "")
    assert {kind: where for kind, where in found.items() if where and kind not in TAKEN} == {}
