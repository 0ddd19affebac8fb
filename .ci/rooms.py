"""
The rooms gate: how the house is divided, read from the code and held to its rules.

A room is a folder with modules of its own. Every import counts, also those within functions and those that only
annotations need, since a reader has to follow them all the same. The gate holds:

- no circle of imports between modules, and none between rooms;
- an ``__init__.py`` in every room that says what the room is for;
- at most `DOUBLE_NAMES_MAX` class names that two modules define.

Which room may import which is in ``pyproject.toml``, as contracts of import-linter; ``docs/rooms.md`` has the picture. Run as ``python .ci/rooms.py``;
prints the figures and what is wrong, and exits 1 when something is.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOUBLE_NAMES_MAX = 6


@dataclass(frozen=True)
class Module:
    """
    One file of the package.

    Attributes:
        name: Dotted, within the package: ``fsm.machine.table``; of an ``__init__.py`` the folder's.
        path: The file.
        package: Whether it is an ``__init__.py``.
        lines: How many the file has.
        doc: Its docstring, or an empty text.
        classes: Names of the classes that it defines at its top level.
        imports: Names of the modules of the package that it imports anywhere.
    """

    name: str
    path: Path
    package: bool
    lines: int
    doc: str
    classes: tuple[str, ...]
    imports: frozenset[str]

    @property
    def room(self) -> str:
        """The folder that it is in, dotted."""
        return self.name if self.package else self.name.rpartition(".")[0]


@dataclass(frozen=True)
class House:
    """
    All modules of the package, and what follows from their imports.

    Attributes:
        modules: By name.
    """

    modules: Mapping[str, Module] = field(repr=False)

    @cached_property
    def rooms(self) -> dict[str, list[Module]]:
        """The modules of every room, its ``__init__.py`` first."""
        found: dict[str, list[Module]] = defaultdict(list)
        for module in sorted(self.modules.values(), key=lambda item: (not item.package, item.name)):
            found[module.room].append(module)
        return dict(sorted(found.items()))

    @cached_property
    def arrows(self) -> dict[str, frozenset[str]]:
        """
        The rooms that each room imports.

        A floor's own ``__init__.py`` and the face are doors: they pass names on to those outside, and nothing inside imports them.
        """
        found: dict[str, set[str]] = {room: set() for room in self.rooms}
        for module in self.modules.values():
            found[module.room] |= {self.modules[name].room for name in module.imports} - {module.room}
        return {room: frozenset(targets) for room, targets in found.items()}

    @property
    def circles(self) -> list[list[str]]:
        """Groups of modules that import each other, by whatever way."""
        return circles({name: module.imports for name, module in self.modules.items()})

    @property
    def double_names(self) -> dict[str, list[str]]:
        """Class names that more than one module defines, private ones left out, with these modules."""
        homes: dict[str, list[str]] = defaultdict(list)
        for module in self.modules.values():
            for name in module.classes:
                if not name.startswith("_"):
                    homes[name].append(module.name)
        return {name: sorted(found) for name, found in sorted(homes.items()) if len(found) > 1}


def read_house(root: Path = ROOT) -> House:
    """Return the package as its files are now."""
    files: dict[str, Path] = {}
    base = root / "src" / "paor"
    for path in _python_files(base):
        parts = [*path.relative_to(base).with_suffix("").parts]
        if parts[-1] == "__init__":
            parts.pop()
        files[".".join(parts)] = path
    return House({name: _read(name, path, files) for name, path in sorted(files.items())})


def _python_files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.is_dir() and path.name != "__pycache__":
            yield from _python_files(path)
        elif path.suffix == ".py":
            yield path


def _read(name: str, path: Path, files: Mapping[str, Path]) -> Module:
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    package = path.name == "__init__.py"
    return Module(
        name=name,
        path=path,
        package=package,
        lines=source.count("\n"),
        doc=ast.get_docstring(tree) or "",
        classes=tuple(node.name for node in tree.body if isinstance(node, ast.ClassDef)),
        imports=frozenset(_imports(tree, name, package, files)) - {name},
    )


def _imports(tree: ast.Module, name: str, package: bool, files: Mapping[str, Path]) -> Iterator[str]:
    """Yield the modules of the package that a module names in any import statement, wherever it is."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name == "paor" or alias.name.startswith("paor."):
                    yield _known(alias.name.removeprefix("paor").lstrip("."), files)
        elif isinstance(node, ast.ImportFrom):
            base = _base(node, name, package)
            if base is None:
                continue
            for alias in node.names:
                inner = f"{base}.{alias.name}".lstrip(".")
                yield inner if inner in files else _known(base, files)


def _base(node: ast.ImportFrom, name: str, package: bool) -> str | None:
    """Return the module that a ``from`` import names, dotted within the package, or None for one of others."""
    if not node.level:
        own = node.module is not None and node.module.split(".")[0] == "paor"
        return str(node.module).removeprefix("paor").lstrip(".") if own else None
    parts = name.split(".") if name else []
    parts = parts[: len(parts) - node.level + package]
    return ".".join([*parts, *([node.module] if node.module else [])])


def _known(name: str, files: Mapping[str, Path]) -> str:
    while name not in files:
        name = name.rpartition(".")[0]
    return name


def circles(graph: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """Return the strongly connected components of *graph* with more than one member (Tarjan, without recursion)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []
    for root in graph:
        if root in index:
            continue
        work: list[tuple[str, Iterator[str]]] = [(root, iter(sorted(graph[root])))]
        index[root] = low[root] = len(index)
        stack.append(root)
        while work:
            node, targets = work[-1]
            target = next(targets, None)
            if target is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    members: list[str] = []
                    while not members or members[-1] != node:
                        members.append(stack.pop())
                        low[members[-1]] = len(graph)  # closed: no later node is on its circle
                    if len(members) > 1:
                        found.append(sorted(members))
            elif target not in index:
                index[target] = low[target] = len(index)
                stack.append(target)
                work.append((target, iter(sorted(graph[target]))))
            else:
                low[node] = min(low[node], low[target])
    return sorted(found)


def problems(house: House) -> Iterator[str]:
    """Yield every rule that the house breaks, a line each."""
    for members in house.circles:
        yield f"circle of imports: {', '.join(members)}"
    for members in circles(house.arrows):
        yield f"circle of rooms: {', '.join(members)}"
    for room, modules in house.rooms.items():
        if not modules[0].package or not modules[0].doc:
            yield f"{room}: no __init__.py with a docstring"
    doubles = house.double_names
    if len(doubles) > DOUBLE_NAMES_MAX:
        yield f"{len(doubles)} class names are defined twice, at most {DOUBLE_NAMES_MAX}:"
        yield from (f"  {name}: {', '.join(homes)}" for name, homes in doubles.items())


def figures(house: House) -> Iterator[str]:
    """Yield what the house measures, a line each."""
    sizes = {room: sum(not item.package for item in modules) for room, modules in house.rooms.items()}
    largest = max(sizes, key=lambda room: sizes[room])
    yield f"{len(house.modules)} modules, {sum(module.lines for module in house.modules.values()):,} lines"
    yield f"{len(house.rooms)} rooms, the largest {largest} with {sizes[largest]} modules"
    yield f"{len(house.circles)} circles of imports, {len(circles(house.arrows))} of rooms"
    yield f"{len(house.double_names)} class names defined in two modules: {', '.join(house.double_names)}"


def main() -> int:
    """Print the figures and every broken rule; return 1 if there is one."""
    house = read_house()
    print(*figures(house), sep="\n")
    found = list(problems(house))
    print(*found, sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
