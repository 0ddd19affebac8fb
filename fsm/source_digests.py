"""
Digests of source code that only change when the code does: comments, formatting, docstrings and the annotations of
functions do not count, and Python 3.11 to 3.13 give the same ones.

A module is read as its definitions: what each one is, and which names of the module it uses. `closure` follows the names,
also into other modules, so that a part of the machine has one digest with everything that it depends on.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

Place = tuple[str, str]
"""A definition: name of its module within the package, such as ``fsm.guards``, and its own name."""

WHOLE = "*"
"""Instead of the name of a definition: all of the module."""

LOOSE = ""
"""Name of the statements of a module that define nothing; whatever uses the module depends on them."""

_DIGITS = 10
_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(slots=True)
class Module:
    """
    A module as its definitions.

    Attributes:
        texts: Of each definition, what it is in a form that formatting does not change.
        uses: Of each definition, the names that it uses.
        imports: Where a name comes from that another module of the package defines.
    """

    texts: dict[str, str] = field(default_factory=dict)
    uses: dict[str, frozenset[str]] = field(default_factory=dict)
    imports: dict[str, Place] = field(default_factory=dict)


def read_module(name: str, source: str | bytes, modules: frozenset[str]) -> Module:
    """
    Return the module *name* from its *source*.

    Args:
        name: Within the package, such as ``fsm.guards``.
        source: Python.
        modules: Names of all modules that are followed; an import from any other is left alone.

    Raises:
        SyntaxError: It is no Python.
    """
    module = Module()
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            _import(module, name, node, modules)
    for statement in tree.body:
        _define(module, statement)
    return module


def _import(module: Module, name: str, node: ast.ImportFrom, modules: frozenset[str]) -> None:
    base = name.split(".")[: -node.level]
    origin = ".".join([*base, *(node.module or "").split(".")]).strip(".")
    for alias in node.names:
        inner = f"{origin}.{alias.name}".strip(".")
        if inner in modules:
            module.imports[alias.asname or alias.name] = (inner, WHOLE)
        elif origin in modules:
            module.imports[alias.asname or alias.name] = (origin, alias.name)


def _define(module: Module, statement: ast.stmt) -> None:
    if isinstance(statement, ast.Import | ast.ImportFrom) or _is_typing_only(statement):
        return
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        return  # a docstring, of the module or of a constant
    names = _defined(statement)
    if names == ["__all__"]:
        return
    text, used = "".join(_written(statement)), frozenset(_used(statement))
    for name in names or [LOOSE]:
        module.texts[name] = module.texts.get(name, "") + text
        module.uses[name] = module.uses.get(name, frozenset()) | used


def _is_typing_only(statement: ast.stmt) -> bool:
    """Whether a statement is there for type checkers alone."""
    return (
        isinstance(statement, ast.If)
        and isinstance(statement.test, ast.Name)
        and statement.test.id == "TYPE_CHECKING"
    )


def _defined(statement: ast.stmt) -> list[str]:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [statement.name]
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, ast.AnnAssign | ast.AugAssign):
        targets = [statement.target]
    else:
        return []
    names = [item.id for target in targets for item in ast.walk(target) if isinstance(item, ast.Name)]
    return names if all(isinstance(target, ast.Name | ast.Tuple) for target in targets) else []


def _used(statement: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement uses, those in the annotations of functions left out."""
    left: list[ast.AST] = [statement]
    while left:
        node = left.pop()
        if isinstance(node, ast.Name):
            yield node.id
        left.extend(child for _, child in _children(node))


_NEVER = frozenset({"returns", "type_comment", "type_params", "kind", "ctx", "type_ignores"})


def _children(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    for name, value in _fields(node):
        if isinstance(value, ast.AST):
            yield name, value
        elif isinstance(value, list):
            yield from ((name, item) for item in value if isinstance(item, ast.AST))


def _fields(node: ast.AST) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a node that decide something, in their order; a docstring does not."""
    for name in node._fields:
        value = getattr(node, name, None)
        if name in _NEVER or value is None or value == []:
            continue
        if name == "annotation" and isinstance(node, ast.arg):
            continue
        if name == "body" and isinstance(node, _Function | ast.ClassDef):
            value = _without_docstrings(value)
        yield name, value


def _without_docstrings(body: list[ast.stmt]) -> list[ast.stmt]:
    return [
        item
        for item in body
        if not (
            isinstance(item, ast.Expr)
            and isinstance(item.value, ast.Constant)
            and isinstance(item.value.value, str)
        )
    ]


def _written(node: ast.AST) -> Iterator[str]:
    """Yield pieces that together say what a node is, whatever version of Python has parsed it."""
    yield type(node).__name__
    yield "("
    for name, value in _fields(node):
        yield f"{name}="
        if isinstance(value, ast.AST):
            yield from _written(value)
        elif isinstance(value, list):
            for item in value:
                if isinstance(item, ast.AST):
                    yield from _written(item)
                else:
                    yield repr(item)
                yield ","
        else:
            yield repr(value)
        yield ";"
    yield ")"


def closure(
    modules: Mapping[str, Module], roots: Iterable[Place], stops: Callable[[Place], bool]
) -> dict[Place, str]:
    """
    Return everything that *roots* depend on, themselves included: what each definition is, by its place.

    Args:
        modules: By name.
        roots: Where to begin; with `WHOLE` for all of a module.
        stops: Whether a place is another part's matter; roots are never stopped at.
    """
    found: dict[Place, str] = {}
    left = [inner for place in roots for inner in _expanded(modules, place)]
    while left:
        place = left.pop()
        module = modules[place[0]]
        if place in found or place[1] not in module.texts:
            continue
        found[place] = module.texts[place[1]]
        if place[1] != LOOSE:
            left.append((place[0], LOOSE))
        for name in module.uses[place[1]]:
            target = (place[0], name) if name in module.texts else module.imports.get(name)
            if target is not None and not stops(target):
                left += [item for item in _expanded(modules, target) if not stops(item)]
    return found


def _expanded(modules: Mapping[str, Module], place: Place) -> list[Place]:
    """Return *place*; of a whole module all its definitions; of a name that its module only passes on where that is."""
    module = modules[place[0]]
    if place[1] == WHOLE:
        return [(place[0], name) for name in module.texts]
    if place[1] not in module.texts and place[1] in module.imports:
        return _expanded(modules, module.imports[place[1]])
    return [place]


def digest_of(texts: Mapping[Place, str]) -> str:
    """Return the short digest of definitions, whatever order they come in."""
    whole = sha256()
    for (module, name), text in sorted(texts.items()):
        whole.update(f"{module}:{name}={text}\n".encode("utf-8", "surrogatepass"))
    return whole.hexdigest()[:_DIGITS]


def short_digest(data: bytes) -> str:
    """Return the short digest of bytes."""
    return sha256(data).hexdigest()[:_DIGITS]


def function_digest(source: str) -> str:
    """
    Return the short digest of a function's own *source*, which may be indented.

    Raises:
        SyntaxError: It is no Python by itself.
    """
    import textwrap

    return short_digest("".join(_written(ast.parse(textwrap.dedent(source)))).encode())
