"""
Refactorings of paor's own deciding code, for tests: each gives edited files by path, and none of them changes what the code means.

Kept apart from `fsm.versioning.normal_form` on purpose: nothing here asks it what a local name is.
"""

from __future__ import annotations

import ast
import json
import re
import symtable
from collections.abc import Callable, Iterator

from ..support.pages import PACKAGE

Edits = dict[str, str]


def deciding() -> Edits:
    """Return the files of all modules that decide, by path."""
    read = json.loads((PACKAGE / "fsm/versioning/fingerprints.json").read_text())["read"]
    return {
        path: (PACKAGE / path).read_text(encoding="utf-8")
        for path in read
        if not path.endswith("__init__.py")
    }


def everywhere(files: Edits, change: Callable[[str], str]) -> Edits:
    """Return *files* with the text of each changed."""
    return {path: change(text) for path, text in files.items()}


# -- form alone ---------------------------------------------------------------------------------------------------


def reformatted(text: str) -> str:
    """Return code without comments and blank lines, written as Python itself writes it."""
    return ast.unparse(ast.parse(text))


def commented(text: str) -> str:
    """Return code with a comment at every return."""
    return re.sub(r"(?m)^( *)(return .*)$", r"\1# a comment\n\1\2  # another", text) + "\n# the end\n"


class _Docstrings(ast.NodeTransformer):
    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        text = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return ast.copy_location(ast.Expr(ast.Constant("Other words.")), node) if text else node


def redocumented(text: str) -> str:
    """Return code every docstring of which has other words."""
    return ast.unparse(ast.fix_missing_locations(_Docstrings().visit(ast.parse(text))))


class _Annotations(ast.NodeTransformer):
    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.generic_visit(node)
        node.returns = None
        for item in ast.walk(node.args):
            if isinstance(item, ast.arg):
                item.annotation = None
        return node

    visit_AsyncFunctionDef = visit_FunctionDef  # type: ignore[assignment]


def unannotated(text: str) -> str:
    """Return code without the annotations of its functions."""
    return ast.unparse(_Annotations().visit(ast.parse(text)))


def reordered(text: str) -> str:
    """Return code with its functions in the opposite order, as far as nothing but functions is between them."""
    tree = ast.parse(text)
    body: list[ast.stmt] = []
    functions: list[ast.stmt] = []
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef) and not statement.decorator_list:
            functions.insert(0, statement)
        else:
            body += [*functions, statement]
            functions = []
    tree.body = [*body, *functions]
    return ast.unparse(tree)


def imports_turned(text: str) -> str:
    """Return code with its imports in the opposite order."""
    tree = ast.parse(text)
    first = [item for item in tree.body if isinstance(item, ast.ImportFrom) and item.module == "__future__"]
    imports = [
        item for item in tree.body if isinstance(item, ast.Import | ast.ImportFrom) and item not in first
    ]
    rest = [item for item in tree.body if item not in imports and item not in first]
    docstring = rest[:1] if ast.get_docstring(tree) is not None else []
    tree.body = [*docstring, *first, *reversed(imports), *rest[len(docstring) :]]
    return ast.unparse(tree)


# -- names --------------------------------------------------------------------------------------------------------


class _Renamed(ast.NodeTransformer):
    """Renames local names within one function."""

    def __init__(self, names: set[str]) -> None:
        self.names = names

    def _new(self, name: str) -> str:
        return f"{name}_renamed" if name in self.names else name

    def visit_Name(self, node: ast.Name) -> ast.AST:
        node.id = self._new(node.id)
        return node

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.arg = self._new(node.arg)
        return node

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.AST:
        node.name = node.name and self._new(node.name)
        return self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.name = self._new(node.name)
        return self.generic_visit(node)

    def visit_MatchAs(self, node: ast.MatchAs) -> ast.AST:
        node.name = node.name and self._new(node.name)
        return self.generic_visit(node)

    def visit_Nonlocal(self, node: ast.Nonlocal) -> ast.AST:
        node.names = [self._new(name) for name in node.names]
        return node


def keywords_in(texts: Iterator[str] | list[str]) -> set[str]:
    """Return every name that some call gives an argument by."""
    nodes = (node for text in texts for node in ast.walk(ast.parse(text)))
    return {node.arg for node in nodes if isinstance(node, ast.keyword) and node.arg}


def locals_renamed(text: str, kept: set[str]) -> tuple[str, int]:
    """
    Return code with all local variables and parameters renamed, and how many names these are.

    Args:
        text: Of a module.
        kept: Names of parameters that are given by name somewhere.
    """
    tree, count = ast.parse(text), 0
    functions = {
        (item.name, item.lineno): item for item in ast.walk(tree) if isinstance(item, ast.FunctionDef)
    }
    for table in _outermost(symtable.symtable(text, "module.py", "exec")):
        node = next(
            (item for (name, _), item in functions.items() if name == table.get_name() and _at(item, table)),
            None,
        )
        if node is None or any(isinstance(item, ast.ClassDef) for item in ast.walk(node)):
            continue
        names = _local_names(table) - kept
        count += len(names)
        renamer = _Renamed(names)
        node.args = renamer.visit(node.args)
        node.body = [renamer.visit(item) for item in node.body]
    return ast.unparse(tree), count


def _at(node: ast.FunctionDef, table: symtable.SymbolTable) -> bool:
    first = min([node.lineno, *(item.lineno for item in node.decorator_list)])
    return table.get_lineno() in (node.lineno, first)


def _outermost(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    for child in table.get_children():
        if child.get_type() == "class":
            yield from _outermost(child)
        elif (
            child.get_type() == "function"
            and child.get_name().isidentifier()
            and child.get_name() != "lambda"
        ):
            yield child


def _local_names(table: symtable.SymbolTable) -> set[str]:
    """Return the names that are local wherever the function or a function within it uses them."""
    found: set[str] = set()
    others: set[str] = set()
    left = [table]
    while left:
        inner = left.pop()
        left += inner.get_children()
        for symbol in inner.get_symbols():
            name = symbol.get_name()
            is_own = symbol.is_local() and not symbol.is_imported() and not symbol.is_global()
            if is_own and not name.startswith("."):
                found.add(name)
            elif not symbol.is_free():
                others.add(name)
    return found - others - {"self", "cls", "__class__"}


def helpers_renamed(files: Edits, kept: set[str]) -> tuple[Edits, int]:
    """Return files with every private function, class and constant of a module renamed, wherever it is imported."""
    trees = {path: ast.parse(text) for path, text in files.items()}
    homes = {path: _private_definitions(tree) - kept for path, tree in trees.items()}
    for path, tree in trees.items():
        renamed = dict.fromkeys(homes[path])
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.level:
                home = _target(path, node)
                for item in node.names:
                    if item.name in homes.get(home, ()):
                        item.asname = item.asname or item.name
                        item.name = f"{item.name}_helper"
        _rename_names(tree, set(renamed))
    return {path: ast.unparse(tree) for path, tree in trees.items()}, sum(map(len, homes.values()))


def _target(path: str, node: ast.ImportFrom) -> str:
    base = path.split("/")[: -node.level]
    return "/".join([*base, *filter(None, (node.module or "").split("."))]) + ".py"


def _private_definitions(tree: ast.Module) -> set[str]:
    inner = {
        name.id
        for item in ast.walk(tree)
        if isinstance(item, ast.ClassDef)
        for statement in item.body
        for name in ast.walk(statement)
        if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
    }
    found: set[str] = set()
    for item in tree.body:
        if isinstance(item, ast.FunctionDef | ast.ClassDef):
            found.add(item.name)
        elif isinstance(item, ast.Assign | ast.AnnAssign):
            targets = item.targets if isinstance(item, ast.Assign) else [item.target]
            found.update(target.id for target in targets if isinstance(target, ast.Name))
    return {name for name in found if name.startswith("_") and not name.startswith("__")} - inner


def _rename_names(tree: ast.Module, names: set[str]) -> None:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in names:
            node.id = f"{node.id}_helper"
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name in names:
            node.name = f"{node.name}_helper"


def attributes_renamed(files: Edits) -> tuple[Edits, int]:
    """Return files with every private attribute and method of their classes renamed."""
    owned: set[str] = set()
    trees = {path: ast.parse(text) for path, text in files.items()}
    for tree in trees.values():
        for item in ast.walk(tree):
            if isinstance(item, ast.ClassDef):
                owned |= set(_owned(item))
    owned = {name for name in owned if name.startswith("_") and not name.startswith("__")}
    for tree in trees.values():
        slots = [item for item in ast.walk(tree) if isinstance(item, ast.Assign) and _is_slots(item)]
        for text in (inner for item in slots for inner in ast.walk(item.value)):
            if isinstance(text, ast.Constant) and text.value in owned:
                text.value = f"{text.value}_attribute"
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr in owned:
                node.attr = f"{node.attr}_attribute"
            if isinstance(node, ast.ClassDef):
                for inner in node.body:
                    if isinstance(inner, ast.FunctionDef) and inner.name in owned:
                        inner.name = f"{inner.name}_attribute"
                    target = getattr(inner, "target", None) or next(iter(getattr(inner, "targets", ())), None)
                    if isinstance(target, ast.Name) and target.id in owned:
                        target.id = f"{target.id}_attribute"
    return {path: ast.unparse(tree) for path, tree in trees.items()}, len(owned)


def _is_slots(node: ast.Assign) -> bool:
    return isinstance(node.targets[0], ast.Name) and node.targets[0].id == "__slots__"


def _owned(node: ast.ClassDef) -> Iterator[str]:
    for item in node.body:
        if isinstance(item, ast.FunctionDef):
            yield item.name
        for inner in ast.walk(item):
            if isinstance(inner, ast.Attribute) and isinstance(inner.ctx, ast.Store):
                yield inner.attr


# -- places -------------------------------------------------------------------------------------------------------


def movable(text: str) -> list[str]:
    """Return the functions of a module that can live elsewhere: plain ones, with defaults that are constants."""
    tree = ast.parse(text)
    return [
        item.name
        for item in tree.body
        if isinstance(item, ast.FunctionDef)
        and not item.decorator_list
        and all(isinstance(default, ast.Constant) for default in item.args.defaults)
        and all(default is None or isinstance(default, ast.Constant) for default in item.args.kw_defaults)
        and not any(isinstance(inner, ast.Global) or _is_bound(inner) for inner in ast.walk(item))
    ]


def _is_bound(node: ast.AST) -> bool:
    """Whether a node says which file it is in, so that a function with it means something else elsewhere."""
    return isinstance(node, ast.Name) and node.id in ("__file__", "__name__", "__package__")


def moved(path: str, text: str, names: list[str], room: str) -> Edits:
    """
    Return a module without some of its functions, and the new module of a new room that has them.

    What they use is imported within each function, so that the two modules can import each other.
    """
    tree = ast.parse(text)
    chosen = [item for item in tree.body if isinstance(item, ast.FunctionDef) and item.name in names]
    defined = _definitions(tree)
    back = path.removesuffix(".py").replace("/", ".")
    up = "." * (room.count("/") + 1)
    imports = {
        alias.asname or alias.name: _import_of(node, alias, path, up)
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    for function in chosen:
        nodes = [node for node in ast.walk(function) if isinstance(node, ast.Name)]
        own = {node.arg for node in ast.walk(function) if isinstance(node, ast.arg)}
        own |= {node.id for node in nodes if not isinstance(node.ctx, ast.Load)} | _imported_in(function)
        used = {node.id for node in nodes} - own
        _lead_away(function, path, up)
        lines = [imports[name] for name in sorted(used & imports.keys() - defined)]
        others = sorted(used & defined)
        lines += [f"from {up}{back} import {', '.join(others)}"] if others else []
        function.body[:0] = ast.parse("\n".join(lines)).body
    module = "from __future__ import annotations\n\n" + "\n\n".join(map(ast.unparse, chosen)) + "\n"
    level = "." * (path.count("/") + 1)
    tree.body = [item for item in tree.body if item not in chosen]
    at = 1 + max(
        number
        for number, item in enumerate(tree.body)
        if isinstance(item, ast.ImportFrom) and item.module == "__future__"
    )
    target = room.removesuffix(".py").replace("/", ".")
    tree.body[at:at] = ast.parse(
        f"from {level}{target} import {', '.join(item.name for item in chosen)}"
    ).body
    return {path: ast.unparse(ast.fix_missing_locations(tree)), room: module}


def module_moved(files: Edits, old: str, new: str) -> dict[str, str | None]:
    """Return *files* with the module of path *old* at *new*, and every import of it mended."""
    edits: dict[str, str | None] = {
        path: _imports_mended(text, path, new if path == old else path, old, new)
        for path, text in files.items()
    }
    return {**edits, new: edits[old], old: None}


def _imports_mended(text: str, path: str, place: str, old: str, new: str) -> str:
    """Return the *text* of *path*, which is at *place* now, with imports that lead where they led."""
    tree = ast.parse(text)
    was, now = (name.removesuffix(".py").replace("/", ".") for name in (old, new))
    up = len(place.split("/"))
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or not node.level:
            continue
        base = ".".join([*path.split("/")[: -node.level], *filter(None, (node.module or "").split("."))])
        names = [alias for alias in node.names if f"{base}.{alias.name}" == was]
        if names:  # the module itself
            room, _, name = now.rpartition(".")
            assert len(node.names) == 1, "imported alone"
            node.names = [ast.alias(name, names[0].asname or names[0].name)]
            base = room
        node.module, node.level = now if base == was else base, up
    return ast.unparse(tree)


def _imported_in(function: ast.FunctionDef) -> set[str]:
    return {
        alias.asname or alias.name
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }


def _lead_away(function: ast.FunctionDef, path: str, up: str) -> None:
    """Have the imports within a function name the same modules from its new place."""
    for node in ast.walk(function):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = [*path.split("/")[: -node.level], *filter(None, (node.module or "").split("."))]
            node.module, node.level = ".".join(base), len(up)


def _definitions(tree: ast.Module) -> set[str]:
    names = {item.name for item in tree.body if isinstance(item, ast.FunctionDef | ast.ClassDef)}
    for item in tree.body:
        if not isinstance(item, ast.FunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom):
            names |= {
                node.id
                for node in ast.walk(item)
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
            }
    return names


def _import_of(node: ast.Import | ast.ImportFrom, alias: ast.alias, path: str, up: str) -> str:
    name = f"{alias.name} as {alias.asname}" if alias.asname else alias.name
    if isinstance(node, ast.Import):
        return f"import {name}"
    if not node.level:
        return f"from {node.module} import {name}"
    base = [*path.split("/")[: -node.level], *filter(None, (node.module or "").split("."))]
    return f"from {up}{'.'.join(base)} import {name}"
