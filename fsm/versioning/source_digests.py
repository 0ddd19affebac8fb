"""
Digests of the package's definitions: they change with what a definition means, never with its form.

Each definition is hashed as its normal form (`fsm.versioning.normal_form`), in which the digests of the definitions that it uses stand
for their names, as Unison does it. So a digest holds everything that a definition depends on, and nothing of where that is or
what it is called: to rename a helper, to move it to another module or room, to split or merge modules changes no digest.
Definitions that use each other are hashed together, numbered in the order in which the first of them comes to the others.

Some definitions are *boundaries*: parts of their own, which others use without depending on how they are made. In the forms of
others a boundary is its label.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from .normal_form import (
    FUNCTIONS,
    Attribute,
    Form,
    Module,
    NameReference,
    Origin,
    Outside,
    Piece,
    Place,
    bound_by,
    in_same_scope,
    is_private,
    is_silent,
    normal_form,
    parameters_of,
)

_DIGITS = 10
_BEGINNINGS = re.compile(r"^(?:(?:async )?def |class )?(\w+)", re.MULTILINE)
"""What may be a definition of a module: a word at the beginning of a line."""


class UnknownDefinition(LookupError):
    """A root is defined nowhere in its room, or more than once."""


class Files:
    """
    The Python files of a package.

    Args:
        folder: Of the package.
        edits: Texts of files by path within the folder, instead of what is there; None for a file that is gone.
    """

    def __init__(self, folder: Path, edits: Mapping[str, bytes | None] | None = None) -> None:
        self._folder = folder
        self._contents = dict(edits or {})
        self._edited = frozenset(self._contents)

    def read(self, path: str) -> bytes | None:
        """Return what a file holds, None where there is none."""
        if path not in self._contents:
            self._contents[path] = None
            with suppress(FileNotFoundError, NotADirectoryError):
                self._contents[path] = (self._folder / path).read_bytes()
        return self._contents[path]

    def inside(self, room: str) -> list[str]:
        """Return the paths of all files of a room: of a folder with its own rooms, or of one module."""
        path = room.replace(".", "/")
        found = {str(item.relative_to(self._folder)) for item in (self._folder / path).rglob("*.py")}
        found |= {item for item in self._edited if item.startswith(f"{path}/") and item.endswith(".py")}
        if not found:
            found.add(f"{path}.py")
        return sorted(item for item in found if self.read(item) is not None)


Import = tuple[bool, str, str]
"""Where a name comes from: whether of the package itself, the module, and its name there (empty for the module itself)."""


@dataclass(slots=True)
class _Source:
    """A module: its definitions as statements, and where the names come from that it imports."""

    name: str
    path: str
    definitions: dict[str, list[ast.stmt]] = field(default_factory=dict)
    imports: dict[str, Import] = field(default_factory=dict)


class Package:
    """
    The definitions of a package, read as far as they are asked for.

    Args:
        files: Where they are.

    Attributes:
        boundaries: Labels of definitions that are parts of their own; to be set before any digest is asked for.
        paths: Of all files that were read.
        forms: Of the definitions that were read.
    """

    def __init__(self, files: Files) -> None:
        self.files = files
        self.boundaries: dict[Place, str] = {}
        self._sources: dict[str, _Source | None] = {}
        self._rooms: dict[str, dict[str, list[str]]] = {}
        self.paths: set[str] = set()
        self.forms: dict[Place, Form] = {}
        self._digests: dict[Place, str] = {}

    def digests(self, roots: Iterable[Place]) -> dict[Place, str]:
        """
        Return the digests of *roots*.

        Raises:
            UnknownDefinition: A root is not there.
        """
        roots = list(roots)
        for root in roots:
            if root[1] not in getattr(self.source(root[0]), "definitions", ()):
                raise UnknownDefinition(f"{root[0]} defines no {root[1]}")
        self._read(roots)
        self._digests = self._hashed(frozenset())
        self._digests = self._hashed(self._alike())
        return {root: self._digests[root] for root in roots}

    def reached(self, root: Place) -> set[Place]:
        """Return what a root depends on, itself included; boundaries are not followed."""
        found: set[Place] = set()
        left = [root]
        while left:
            place = left.pop()
            if place not in found:
                found.add(place)
                left += self._edges(place)
        return found

    # -- reading

    def source(self, name: str) -> _Source | None:
        """Return a module, None where the package has none of this name."""
        if name not in self._sources:
            self._sources[name] = self._parsed(name)
        return self._sources[name]

    def _parsed(self, name: str) -> _Source | None:
        base = name.replace(".", "/")
        for path in (f"{base}.py", f"{base}/__init__.py" if base else "__init__.py"):
            content = self.files.read(path)
            if content is not None:
                self.paths.add(path)
                return self._split(name, path, ast.parse(content))
        return None

    def _split(self, name: str, path: str, tree: ast.Module) -> _Source:
        source = _Source(name, path)
        for statement in tree.body:
            for owner in _owners(statement, source.definitions):
                source.definitions.setdefault(owner, []).append(statement)
            for node in in_same_scope(statement):
                if isinstance(node, ast.Import | ast.ImportFrom):
                    source.imports |= imports_of(node, source)
        return source

    def find(self, room: str, name: str) -> Place:
        """
        Return where a room defines *name*.

        Raises:
            UnknownDefinition: Nowhere, or more than once.
        """
        if room not in self._rooms:
            self._rooms[room] = self._index(room)
        modules = self._rooms[room].get(name, ())
        found = [module for module in modules if name in getattr(self.source(module), "definitions", ())]
        if len(found) != 1:
            raise UnknownDefinition(
                f"{room} has {name} in {' and '.join(found) or 'no module'}, expected one"
            )
        return found[0], name

    def _index(self, room: str) -> dict[str, list[str]]:
        """Return by name the modules of a room that may define it; they are parsed once somebody asks for one."""
        found: dict[str, list[str]] = {}
        for path in self.files.inside(room):
            module = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
            for name in set(_BEGINNINGS.findall((self.files.read(path) or b"").decode())):
                found.setdefault(name, []).append(module)
        return found

    def member(self, module: str, name: str) -> Origin:
        """Return what a name of a module means, also where it was only imported there."""
        source = self.source(module)
        if source is not None and name in source.definitions:
            return NameReference((module, name))
        if source is not None and name in source.imports and source.imports[name] != (True, module, name):
            return self.meaning(source.imports[name])
        inner = f"{module}.{name}".strip(".")
        return Module(inner) if self.source(inner) is not None else Outside(name)

    def meaning(self, imported: Import) -> Origin:
        """Return what an imported name means."""
        own, module, name = imported
        if own:
            return self.member(module, name) if name else Module(module)
        return Outside(f"{module}.{name}" if name else module)

    def _read(self, roots: Iterable[Place]) -> None:
        """Write the forms of *roots* and of everything that they use."""
        left = list(roots)
        while left:
            place = left.pop()
            if place in self.forms:
                continue
            self.forms[place] = self.form(place)
            left += self._edges(place)

    def form(self, place: Place) -> Form:
        """Return the normal form of one definition."""
        source = self.source(place[0])
        assert source is not None, "a reference leads to a module that was read"
        return normal_form(source.definitions[place[1]], place[1], _ModuleNames(self, source))

    def _edges(self, place: Place) -> Iterator[Place]:
        for piece in self.forms[place].pieces:
            if isinstance(piece, NameReference) and piece.place not in self.boundaries:
                yield piece.place

    # -- hashing

    def _alike(self) -> frozenset[Place]:
        """Return the classes that only their names tell from others: equal in form, and yet not the same."""
        by_digest: dict[str, list[Place]] = {}
        for place, form in self.forms.items():
            if form.named:
                by_digest.setdefault(self._digests[place], []).append(place)
        named: set[Place] = set()
        for places in by_digest.values():
            private = [place for place in places if is_private(place[1])]
            if len(places) > 1:  # one private class is told by being the only one without a name
                named.update(place for place in places if place not in private or len(private) > 1)
        return frozenset(named)

    def _hashed(self, named: frozenset[Place]) -> dict[Place, str]:
        """Return the digest of every form; of the classes in *named* the name counts."""
        attributes = self._attributes()
        methods = self._methods()

        def text_of(place: Place, others: Callable[[Place], str]) -> str:
            form = self.forms[place]
            own = f"class {form.named}:" if place in named or self._is_tagged(place) else ""
            numbers = attributes[place]

            def written(piece: Piece) -> str:
                if isinstance(piece, str):
                    return piece
                if isinstance(piece, NameReference):
                    return f"[{self.boundaries.get(piece.place) or others(piece.place)}]"
                if isinstance(piece, Attribute):
                    return numbers.get(piece.name, f".{ascii(piece.name)[1:-1]}")
                return f"{methods.get((piece.method, piece.name), ascii(piece.name))}="

            return own + "".join(map(written, form.pieces))

        found: dict[Place, str] = {}
        for group in self._groups():
            for place in group:
                found[place] = _group_digest(place, frozenset(group), text_of, found)
        return found

    def _is_tagged(self, place: Place) -> bool:
        """Whether a class's name is on the wire, also by a base that says so."""
        form = self.forms.get(place)
        return form is not None and (form.tagged or any(self._is_tagged(base) for base in form.bases))

    def _methods(self) -> dict[tuple[str, str], str]:
        """Return which parameters a method's argument of a name can be meant for, in any class that has the method."""
        found: dict[tuple[str, str], set[int]] = {}
        for form in self.forms.values():
            for method, parameters in form.methods.items():
                for number, parameter in enumerate(parameters):
                    found.setdefault((method, parameter), set()).add(number)
        return {key: "#" + ",".join(map(str, sorted(numbers))) for key, numbers in found.items()}

    def _attributes(self) -> dict[Place, dict[str, str]]:
        """Return for every definition how it writes private attributes: its own class's first, then those of others."""
        everyone: dict[str, list[tuple[int, ...]]] = {}
        families = self._families()
        numbered = {family: self._numbered(family) for family in set(families.values())}
        for numbers in numbered.values():
            for name, owned in numbers.items():
                everyone.setdefault(name, []).append(owned)
        outer = {name: f"._{sorted(set(owned))}" for name, owned in everyone.items()}
        return {
            place: outer
            | {name: f"._{[owned]}" for name, owned in numbered.get(families.get(place, ()), {}).items()}
            for place in self.forms
        }

    def _families(self) -> dict[Place, tuple[Place, ...]]:
        """Return for every class those that share its private attributes: its bases and what inherits from them."""
        family = {place: {place} for place, form in self.forms.items() if form.named}
        for place in list(family):
            for base in self.forms[place].bases:
                if base in family:
                    joined = family[place] | family[base]
                    family |= dict.fromkeys(joined, joined)
        return {place: tuple(sorted(members)) for place, members in family.items()}

    def _numbered(self, family: tuple[Place, ...]) -> dict[str, tuple[int, ...]]:
        """Return the private attributes of a family of classes, each with its numbers in those that define it."""
        found: dict[str, list[int]] = {}
        for place in family:
            for name, number in self.forms[place].private.items():
                found.setdefault(name, []).append(number)
        return {name: tuple(sorted(numbers)) for name, numbers in found.items()}

    def _groups(self) -> Iterator[list[Place]]:
        """Yield definitions that use each other together, each group after those that it uses (Tarjan)."""
        index: dict[Place, int] = {}
        low: dict[Place, int] = {}
        open_: list[Place] = []
        done: set[Place] = set()
        for root in self.forms:
            walk = [] if root in index else [(root, self._entered(root, index, low, open_))]
            while walk:
                place, edges = walk[-1]
                other = next(edges, None)
                if other is None:
                    walk.pop()
                    if walk:
                        low[walk[-1][0]] = min(low[walk[-1][0]], low[place])
                    if low[place] == index[place]:
                        at = open_.index(place)
                        done.update(open_[at:])
                        yield open_[at:]
                        del open_[at:]
                elif other not in index:
                    walk.append((other, self._entered(other, index, low, open_)))
                elif other not in done:
                    low[place] = min(low[place], index[other])

    def _entered(
        self, place: Place, index: dict[Place, int], low: dict[Place, int], open_: list[Place]
    ) -> Iterator[Place]:
        index[place] = low[place] = len(index)
        open_.append(place)
        return self._edges(place)


def _group_digest(
    first: Place,
    group: frozenset[Place],
    text_of: Callable[[Place, Callable[[Place], str]], str],
    found: Mapping[Place, str],
) -> str:
    """Return the digest of one of several definitions that use each other: of all their texts, seen from this one."""
    order = [first]

    def other(place: Place) -> str:
        if place not in group:
            return found[place]
        if place not in order:
            order.append(place)
        return f"member {order.index(place)}"

    whole = sha256()
    for place in order:  # grows while it is walked
        whole.update(text_of(place, other).encode() + b"\n")
    return whole.hexdigest()


class _ModuleNames:
    """What the names of a module mean (`fsm.versioning.normal_form.Names`)."""

    def __init__(self, package: Package, source: _Source) -> None:
        self._package = package
        self._source = source

    def of(self, name: str) -> Origin:
        """Return what a global name of the module means."""
        if name in self._source.definitions:
            return NameReference((self._source.name, name))
        found = self._source.imports.get(name)
        return Outside(name) if found is None else self._package.meaning(found)

    def imported(self, statement: ast.Import | ast.ImportFrom) -> dict[str, Origin]:
        """Return the names that an import binds, with what they mean."""
        found = imports_of(statement, self._source)
        return {name: self._package.meaning(imported) for name, imported in found.items()}

    def member(self, module: str, name: str) -> Origin:
        """Return what an attribute of another module of the package means."""
        return self._package.member(module, name)

    def parameters(self, place: Place) -> list[str] | None:
        """Return the parameters of a function or of a class's own constructor."""
        source = self._package.source(place[0])
        statement = source.definitions[place[1]][-1] if source is not None else None
        if isinstance(statement, ast.ClassDef):
            own = [item for item in statement.body if isinstance(item, FUNCTIONS) and item.name == "__init__"]
            return parameters_of(own[0].args) if own else None
        return parameters_of(statement.args) if isinstance(statement, FUNCTIONS) else None


def imports_of(statement: ast.Import | ast.ImportFrom, source: _Source) -> dict[str, Import]:
    """Return the names that an import of a module binds, with where they come from."""
    if isinstance(statement, ast.Import):
        names = [(item.asname, item.name) for item in statement.names]
        return {
            alias or name.partition(".")[0]: (False, name if alias else name.partition(".")[0], "")
            for alias, name in names
        }
    module = statement.module or ""
    if statement.level:
        here = source.name.split(".") if source.name else []
        up = statement.level - source.path.endswith("__init__.py")
        module = ".".join([*here[: len(here) - up], *filter(None, module.split("."))])
    return {item.asname or item.name: (statement.level > 0, module, item.name) for item in statement.names}


def _owners(statement: ast.stmt, defined: Mapping[str, object]) -> list[str]:
    """Return the definitions that a statement of a module makes, or changes after they were made."""
    if is_silent(statement):
        return []
    names = list(bound_by(statement))
    if isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
        return names[:1]
    changed = [
        node.value
        for node in in_same_scope(statement)
        if isinstance(node, ast.Subscript | ast.Attribute) and not isinstance(node.ctx, ast.Load)
    ]
    if isinstance(statement, ast.Expr):
        changed += [node for node in ast.walk(statement) if isinstance(node, ast.expr)]
    used = [node.id for node in changed if isinstance(node, ast.Name) and node.id in defined]
    return list(dict.fromkeys([*names, *used]))


def digest_of(texts: Iterable[str]) -> str:
    """Return the short digest of texts in their order."""
    return short_digest("\n".join(texts).encode())


def short_digest(data: bytes) -> str:
    """Return the short digest of bytes."""
    return sha256(data).hexdigest()[:_DIGITS]


def function_digest(source: str) -> str:
    """
    Return the short digest of a function's own *source*, which may be indented.

    Raises:
        SyntaxError: It is no Python by itself.
    """
    tree = ast.parse(textwrap.dedent(source))
    package = Package(Files(Path(), {"function.py": ast.unparse(tree).encode()}))
    name = next(iter(getattr(package.source("function"), "definitions", ())), None)
    if name is None:
        raise SyntaxError("it defines nothing")
    return package.digests([("function", name)])["function", name][:_DIGITS]
