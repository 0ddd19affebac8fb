"""
The lines gate: a tree that only gets smaller, and tests that look inside only where ``.ci/lines.toml`` says so.

``.ci/lines.toml`` holds figures, and each is what is counted now:

- the physical lines of each room of the product (a folder with modules under ``src/paor``, its own modules with the ``__init__.py``) and
  of each room of tests, with the sums of both;
- how many test files import modules behind the public face (`FACE`), and how often tests touch a private name: an attribute
  ``x._name`` of anything but ``self``, ``cls``, ``mcs`` and ``super()``, a ``_name`` that is imported, or one that is given to `setattr` and
  the like (`BY_NAME`); names with two underscores at both
  ends, and those of `PUBLIC`, are none.

A figure that is above its count is lowered: ``python .ci/lines.py --lower`` writes the counts of now. One below its count fails. It may be
raised, with a reason under ``[reasons]`` that begins with the new figure: ``"paor/fsm/journal" = "2950: why"`` (``--because "why"`` writes
both). A rise is a figure
above the one at the merge base with the main branch (on the main branch: in the commit before), so a reason of an earlier rise is good for
no other one; and a reason for a figure that is not in force fails. Without a repository, or without its history, no rise can be seen.

A room has at least `MODULES_MIN` modules besides its ``__init__.py``, or a reason under ``[few_modules]``. ``[inside]`` lists for each room of
tests the rooms of the product whose modules it may import beyond the face.
"""

from __future__ import annotations

import argparse
import ast
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FILE = ".ci/lines.toml"
MODULES_MIN = 4
MAIN_BRANCHES = ("origin/HEAD", "origin/main", "origin/master", "main", "master")
FIGURES = ("product", "tests", "sums")

FACE = frozenset(
    f"paor{name}"
    for name in (
        *(
            "",
            ".audit",
            ".documents",
            ".errors",
            ".events",
            ".machine",
            ".models",
            ".web",
            ".testing",
            ".fuzz",
            ".otel",
        ),
        *(".temporal", ".worker", ".inspect", ".pytest_plugin", ".cli.main"),
    )
)
"""What every test may import."""

PUBLIC = frozenset({"_asdict", "_exit", "_fields", "_make", "_replace"})
"""Names with an underscore that the library reference documents: those of named tuples, and `os._exit`."""

BY_NAME = ("getattr", "setattr", "delattr")
"""Functions, and methods of pytest's ``monkeypatch``, that are given the name of what they touch as a text."""

HEADER = """\
# Figures that only fall; .ci/lines.py says how they are counted and what a rise takes. python .ci/lines.py --lower writes them.
"""


@dataclass(frozen=True)
class Import:
    """A test file's import of a module behind the face: the file, the line, and the room of the product that the module is in."""

    file: str
    line: int
    room: str


@dataclass(frozen=True)
class Counted:
    """
    The tree as it is now.

    Attributes:
        figures: By section and name, as the file has them.
        modules: How many modules each room of the product has besides its ``__init__.py``.
        inner: What tests import behind the face.
    """

    figures: dict[str, dict[str, int]]
    modules: dict[str, int]
    inner: list[Import]


def count(root: Path) -> Counted:
    """Count the lines, modules, imports and touches of the tree at *root*."""
    product: dict[str, int] = defaultdict(int)
    modules: dict[str, int] = defaultdict(int)
    for path in sorted((root / "src" / "paor").rglob("*.py")):
        room = path.parent.relative_to(root / "src").as_posix()
        product[room] += _lines(path)
        modules[room] += path.name != "__init__.py"
    tests: dict[str, int] = defaultdict(int)
    inner: list[Import] = []
    touches = 0
    for path in sorted((root / "tests").rglob("*.py")):
        file = path.relative_to(root).as_posix()
        tests[room_of_tests(file)] += _lines(path)
        tree = ast.parse(path.read_text(encoding="utf-8"))
        inner += _inner_imports(tree, file, root)
        touches += sum(_touches(node) for node in ast.walk(tree))
    sums = {
        "product": sum(product.values()),
        "tests": sum(tests.values()),
        "test files that import inner modules": len({item.file for item in inner}),
        "private touches of tests": touches,
    }
    return Counted({"product": dict(product), "tests": dict(tests), "sums": sums}, dict(modules), inner)


def _lines(path: Path) -> int:
    return path.read_bytes().count(b"\n")


def room_of_tests(file: str) -> str:
    """Return the room of a file below ``tests``: the folder directly below it, or ``tests`` itself."""
    parts = file.split("/")
    return "/".join(parts[:2]) if len(parts) > 2 else parts[0]


def _inner_imports(tree: ast.Module, file: str, root: Path) -> Iterator[Import]:
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            names = [_imported(node.module, alias.name, root) for alias in node.names]
        for name in dict.fromkeys(names):
            if name.split(".")[0] == "paor" and name not in FACE:
                yield Import(file, node.lineno if isinstance(node, ast.stmt) else 0, _room_of(name, root))


def _imported(module: str, name: str, root: Path) -> str:
    """Return the module that a ``from`` import names; `paor.cli.main`, which is on the face, is a function."""
    full = f"{module}.{name}"
    return full if full in FACE or _is_module(full, root) else module


def _is_module(name: str, root: Path) -> bool:
    path = root.joinpath("src", *name.split("."))
    return path.is_dir() or path.with_suffix(".py").is_file()


def _room_of(name: str, root: Path) -> str:
    """Return the room of the product that a module is in; of a folder it is the folder itself."""
    path = root.joinpath("src", *name.split("."))
    return "/".join(name.split(".")[: None if path.is_dir() else -1])


def _touches(node: ast.AST) -> int:
    """Return how many private names *node* touches."""
    if isinstance(node, ast.ImportFrom):
        return sum(_is_private(alias.name) for alias in node.names)
    if isinstance(node, ast.Call) and _called(node.func) in BY_NAME:
        texts = (part.value for part in node.args if isinstance(part, ast.Constant))
        return sum(isinstance(text, str) and _is_private(text.rpartition(".")[2]) for text in texts)
    if not isinstance(node, ast.Attribute) or not _is_private(node.attr):
        return 0
    base = node.value.func if isinstance(node.value, ast.Call) else node.value
    own = ("super",) if isinstance(node.value, ast.Call) else ("self", "cls", "mcs")
    return not (isinstance(base, ast.Name) and base.id in own)


def _called(function: ast.expr) -> str:
    """Return the last name of what is called."""
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__") and name not in PUBLIC


def read(root: Path) -> dict[str, Any]:
    """Return the file of figures as it is in the tree at *root*."""
    path = root / FILE
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def read_before(root: Path) -> dict[str, Any]:
    """Return the file of figures as it was before the change: at the merge base, or in the commit before; empty where that cannot be read."""
    head = _git(root, "rev-parse", "--verify", "--quiet", "HEAD")
    bases = (_git(root, "merge-base", "HEAD", branch) for branch in MAIN_BRANCHES)
    base = next((base for base in bases if base and base != head), "HEAD^")
    return tomllib.loads(_git(root, "show", f"{base}:{FILE}") or "")


def _git(root: Path, *arguments: str) -> str | None:
    command = ["git", "-c", "safe.directory=*", *arguments]
    try:
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def problems(counted: Counted, data: dict[str, Any], before: dict[str, Any]) -> Iterator[str]:
    """Yield every rule that the tree or the file of figures breaks, a line each."""
    reasons: dict[str, str] = data.get("reasons", {})
    in_force: dict[str, int] = {}
    for section in FIGURES:
        given: dict[str, int] = data.get(section, {})
        in_force |= {_key(section, name): figure for name, figure in given.items()}
        for name, figure in given.items():
            if section in before and figure > before[section].get(name, 0):
                key = _key(section, name)
                if not _reason(reasons.get(key, ""), figure):
                    was = before[section].get(name, 0)
                    yield f'{key} rises from {was} to {figure}: say why in [reasons], as "{key}" = "{figure}: ..."'
        yield from _differences(section, counted.figures[section], given)
    for key, text in reasons.items():
        if not _reason(text, in_force.get(key, -1)):
            yield f"[reasons] {key}: gives no reason for the figure in force, {in_force.get(key, 'none')}; take it out"
    yield from _few(counted.modules, data.get("few_modules", {}))
    inside: dict[str, list[str]] = data.get("inside", {})
    for item in counted.inner:
        if item.room not in inside.get(room_of_tests(item.file), ()):
            yield f"{item.file}:{item.line}: imports a module of {item.room}; [inside] does not list it for {room_of_tests(item.file)}"
    if data.get("inside", {}) != _used(counted, inside):
        yield f"[inside] lists rooms that no test imports from any more; lower it: python {Path(FILE).with_suffix('.py')} --lower"


def _key(section: str, name: str) -> str:
    return f"all {name}" if section == "sums" and name in FIGURES else name


def _reason(text: str, figure: int) -> bool:
    """Return whether *text* gives a reason for exactly this figure."""
    number, _, why = text.partition(":")
    return number.strip() == str(figure) and bool(why.strip())


def _differences(section: str, now: dict[str, int], given: dict[str, int]) -> Iterator[str]:
    for name in sorted(now.keys() | given.keys()):
        actual, figure = now.get(name, 0), given.get(name, 0)
        if actual > figure:
            yield f"{_key(section, name)}: {actual}, at most {figure}"
        elif actual < figure:
            yield f"{_key(section, name)}: {actual}, {FILE} has {figure}; lower it: python .ci/lines.py --lower"


def _few(modules: dict[str, int], exceptions: dict[str, str]) -> Iterator[str]:
    for room, found in modules.items():
        if found < MODULES_MIN and not exceptions.get(room, "").strip():
            yield f"{room}: {found} modules, at least {MODULES_MIN} or a reason in [few_modules]"
    for room in exceptions:
        if modules.get(room, MODULES_MIN) >= MODULES_MIN:
            yield f"[few_modules] {room}: is no such room; take it out"


def _used(counted: Counted, inside: dict[str, list[str]]) -> dict[str, list[str]]:
    """Return of the rooms that tests may look into those that they do."""
    used = _rooms_used(counted)
    kept = {room: sorted(used[room] & set(listed)) for room, listed in sorted(inside.items())}
    return {room: listed for room, listed in kept.items() if listed}


def _rooms_used(counted: Counted) -> dict[str, set[str]]:
    used: dict[str, set[str]] = defaultdict(set)
    for item in counted.inner:
        used[room_of_tests(item.file)].add(item.room)
    return used


def lowered(counted: Counted, data: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    """
    Return the file of figures with every figure that is too high at its count, and without what holds for nothing any more.

    Where there was no file before, there is nothing to rise from: every figure is the count, and tests may import what they do.
    """
    if not before:
        inside = {room: sorted(rooms) for room, rooms in sorted(_rooms_used(counted).items())}
        data = {**data, **counted.figures, "inside": inside}
    figures = {
        section: {
            name: min(figure, counted.figures[section][name])
            for name, figure in sorted(data.get(section, {}).items())
            if name in counted.figures[section]
        }
        for section in FIGURES
    }
    in_force = {
        _key(section, name): figure for section, names in figures.items() for name, figure in names.items()
    }
    reasons = {
        key: text for key, text in data.get("reasons", {}).items() if _reason(text, in_force.get(key, -1))
    }
    few = {
        room: text
        for room, text in data.get("few_modules", {}).items()
        if counted.modules.get(room, MODULES_MIN) < MODULES_MIN
    }
    return {
        **figures,
        "reasons": reasons,
        "few_modules": few,
        "inside": _used(counted, data.get("inside", {})),
    }


def raised(counted: Counted, data: dict[str, Any], why: str) -> dict[str, Any]:
    """Return the file of figures with every figure that is too low at its count, and *why* as the reason of each."""
    reasons = dict(data.get("reasons", {}))
    figures = {section: dict(data.get(section, {})) for section in FIGURES}
    for section, names in figures.items():
        for name, found in counted.figures[section].items():
            if found > names.get(name, 0):
                names[name] = found
                reasons[_key(section, name)] = f"{found}: {why}"
        figures[section] = dict(sorted(names.items()))
    return {**data, **figures, "reasons": dict(sorted(reasons.items()))}


def as_toml(data: dict[str, Any]) -> str:
    """Return the text of the file of figures."""
    parts = [HEADER]
    for section, values in data.items():
        parts.append(f"\n[{section}]\n")
        parts += [f"{_quoted(name)} = {_value(value)}\n" for name, value in values.items()]
    return "".join(parts)


def _value(value: int | str | list[str]) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_quoted, value))}]"
    return str(value) if isinstance(value, int) else _quoted(value)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """Print the sums and every broken rule; return 1 if there is one."""
    parser = argparse.ArgumentParser(description="Hold the tree to .ci/lines.toml.")
    parser.add_argument("--lower", action="store_true", help="write the figures that have fallen, then check")
    parser.add_argument(
        "--because", metavar="WHY", default="", help="write the figures that have risen, with this reason"
    )
    given = parser.parse_args(arguments)
    counted, data, before = count(root), read(root), read_before(root)
    written = data
    if given.lower:
        written = lowered(counted, written, before)
    if given.because:
        written = raised(counted, written, given.because)
    if written is not data:
        data = written
        (root / FILE).write_text(as_toml(data), encoding="utf-8")
    print(", ".join(f"{_key('sums', name)}: {figure:,}" for name, figure in counted.figures["sums"].items()))
    found = list(problems(counted, data, before))
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
