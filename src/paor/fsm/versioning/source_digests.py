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
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from .normal_form import (
    FUNCTIONS,
    Form,
    MethodKeyword,
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


@dataclass(slots=True)
class _Source:
    """A module: its definitions as statements, and what the names are that it imports."""

    name: str
    is_room: bool
    definitions: dict[str, list[ast.stmt]] = field(default_factory=dict)
    imports: dict[str, Place | Outside] = field(default_factory=dict)


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

    def digests(self, roots: Iterable[Place]) -> dict[Place, str]:
        """
        Return the digests of *roots*.

        Raises:
            UnknownDefinition: A root is not there.
        """
        roots = list(roots)
        for module, name in roots:
            if name not in getattr(self.source(module), "definitions", ()):
                raise UnknownDefinition(f"{module} defines no {name}")
        for root in roots:
            self.reached(root)
        hashing = _Hashing(self)
        hashing.hash_all()
        hashing.named = hashing.alike()
        hashing.hash_all()
        return {root: hashing.digests[root] for root in roots}

    def reached(self, root: Place) -> set[Place]:
        """Return what a root depends on, itself included; boundaries are not followed."""
        found: set[Place] = set()
        left = [root]
        while left:
            place = left.pop()
            if place not in found:
                found.add(place)
                if place not in self.forms:
                    self.forms[place] = self.form(place)
                pieces = self.forms[place].pieces
                used = (piece.place for piece in pieces if isinstance(piece, NameReference))
                left += (other for other in used if other not in self.boundaries)
        return found

    def source(self, name: str) -> _Source | None:
        """Return a module, None where the package has none of this name."""
        if name not in self._sources:
            self._sources[name] = self._parse(name)
        return self._sources[name]

    def _parse(self, name: str) -> _Source | None:
        base = name.replace(".", "/")
        for path in (f"{base}.py", f"{base}/__init__.py".lstrip("/")):
            content = self.files.read(path)
            if content is not None:
                self.paths.add(path)
                source = _Source(name, path.endswith("__init__.py"))
                for statement in ast.parse(content).body:
                    for owner in _owners(statement, source.definitions):
                        source.definitions.setdefault(owner, []).append(statement)
                    for node in in_same_scope(statement):
                        if isinstance(node, ast.Import | ast.ImportFrom):
                            source.imports |= _imports_of(node, source)
                return source
        return None

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

    def form(self, place: Place) -> Form:
        """Return the normal form of one definition."""
        source = self.source(place[0])
        assert source is not None, "a reference leads to a module that was read"
        return normal_form(source.definitions[place[1]], place[0], self)

    # -- what names mean (`fsm.versioning.normal_form.Names`)

    def member(self, module: str, name: str) -> Origin:
        """Return what a global name of a module means, also where it was only imported there."""
        source = self.source(module)
        if source is not None and name in source.definitions:
            return NameReference((module, name))
        imported = source.imports.get(name) if source is not None else None
        if imported is not None and imported != (module, name):
            return self._meaning(imported)
        inner = f"{module}.{name}".strip(".")
        return Module(inner) if self.source(inner) is not None else Outside(name)

    def _meaning(self, imported: Place | Outside) -> Origin:
        return imported if isinstance(imported, Outside) else self.member(*imported)

    def imported(self, module: str, statement: ast.Import | ast.ImportFrom) -> dict[str, Origin]:
        """Return the names that an import in a module binds, with what they mean."""
        source = self.source(module)
        assert source is not None, "its statements were read"
        return {name: self._meaning(item) for name, item in _imports_of(statement, source).items()}

    def parameters(self, place: Place) -> list[str]:
        """Return the parameters of a function or of a class's own constructor."""
        source = self.source(place[0])
        statement = source.definitions[place[1]][-1] if source is not None else None
        if isinstance(statement, ast.ClassDef):
            own = (item for item in statement.body if isinstance(item, FUNCTIONS) and item.name == "__init__")
            statement = next(own, None)
        return parameters_of(statement.args) if isinstance(statement, FUNCTIONS) else []


class _Hashing:
    """
    The hashing of a package's forms.

    Attributes:
        named: Classes whose names count.
        digests: Of all definitions whose forms were read.
    """

    def __init__(self, package: Package) -> None:
        self.named: frozenset[Place] = frozenset()
        self.digests: dict[Place, str] = {}
        self.boundaries = package.boundaries
        self._forms = package.forms
        reached = {place: package.reached(place) for place in list(self._forms)}
        self._groups = [
            (place, {other for other in reached[place] if place in reached[other]})
            for place in sorted(reached, key=lambda place: len(reached[place]))
        ]
        self._private: dict[str, list[int]] = {}
        self._keywords: dict[tuple[str, str | None], set[int]] = {}
        for form in self._forms.values():
            for name, number in form.private.items():
                self._private.setdefault(name, []).append(number)
            for method, parameters in form.methods.items():
                for number, parameter in enumerate(parameters):
                    self._keywords.setdefault((method, parameter), set()).add(number)

    def hash_all(self) -> None:
        """Set the digests of all definitions, each after those that it uses; of a group that uses each other all count."""
        found: dict[Place, str] = {}
        for place, group in self._groups:
            found[place] = self._digest(place, group, found)
        self.digests = found

    def alike(self) -> frozenset[Place]:
        """Return the classes that only their names tell from others: equal in form, and yet not the same."""
        by_digest: dict[str, list[Place]] = {}
        for place, form in self._forms.items():
            if form.named:
                by_digest.setdefault(self.digests[place], []).append(place)
        named: set[Place] = set()
        for places in by_digest.values():
            private = [place for place in places if is_private(place[1])]
            if len(places) > 1:  # one private class is told by being the only one without a name
                named.update(place for place in places if place not in private or len(private) > 1)
        return frozenset(named)

    def _digest(self, first: Place, group: set[Place], found: Mapping[Place, str]) -> str:
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
            whole.update(self._text(place, other).encode() + b"\n")
        return whole.hexdigest()

    def _text(self, place: Place, others: Callable[[Place], str]) -> str:
        form = self._forms[place]

        def written(piece: Piece) -> str:
            if isinstance(piece, str):
                return piece
            if isinstance(piece, NameReference):
                return f"[{self.boundaries.get(piece.place) or others(piece.place)}]"
            if isinstance(piece, MethodKeyword):
                numbers = self._keywords.get((piece.method, piece.name))
                return f"{sorted(numbers) if numbers else piece.name}="
            if not is_private(piece.name):
                return f".{piece.name}"
            own = self._own(place, piece.name)
            return f"._{own or sorted(set(self._private.get(piece.name, ()))) or piece.name}"

        own = f"class {form.named}:" if place in self.named or self._is_tagged(place) else ""
        return own + "".join(map(written, form.pieces))

    def _own(self, place: Place, name: str) -> str | None:
        """Return which private attribute of a class or of its bases *name* is."""
        form = self._forms.get(place)
        if form is None:
            return None
        for number, base in enumerate(form.bases):
            if (found := self._own(base, name)) is not None:
                return f"{number}<{found}"
        return f"{form.private[name]}" if name in form.private else None

    def _is_tagged(self, place: Place) -> bool:
        """Whether a class's name is on the wire, also by a base that says so."""
        form = self._forms.get(place)
        return form is not None and (form.tagged or any(map(self._is_tagged, form.bases)))


def _imports_of(statement: ast.Import | ast.ImportFrom, source: _Source) -> dict[str, Place | Outside]:
    """Return the names that an import of a module binds, with where they come from."""
    if isinstance(statement, ast.Import):
        tops = {item.name: item.name.partition(".")[0] for item in statement.names}
        return {
            item.asname or tops[item.name]: Outside(item.name if item.asname else tops[item.name])
            for item in statement.names
        }
    module = statement.module or ""
    if not statement.level:
        return {item.asname or item.name: Outside(f"{module}.{item.name}") for item in statement.names}
    here = source.name.split(".") if source.name else []
    up = statement.level - source.is_room
    room = ".".join([*here[: len(here) - up], *filter(None, module.split("."))])
    return {item.asname or item.name: (room, item.name) for item in statement.names}


def _owners(statement: ast.stmt, defined: Mapping[str, object]) -> list[str]:
    """Return the definitions that a statement of a module makes, or changes after they were made."""
    if is_silent(statement):
        return []
    nodes = list(in_same_scope(statement))
    changed = [
        node.value
        for node in nodes
        if isinstance(node, ast.Subscript | ast.Attribute) and not isinstance(node.ctx, ast.Load)
    ]
    if isinstance(statement, ast.Expr):
        changed += [node for node in ast.walk(statement) if isinstance(node, ast.expr)]
    used = [node.id for node in changed if isinstance(node, ast.Name) and node.id in defined]
    return list(dict.fromkeys([*bound_by(nodes), *used]))


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
