"""
Edits that break a promise on purpose, each named by a place and a change of the syntax tree, never by lines of text.

An edit has three fields. `place` is a module below `paor` and a public name in it, `fsm.journal.leases:Leases.take`, or the
module alone for its statements outside of functions and classes. What is searched is that definition, with the private
functions, methods, classes and constants of the module that it reaches. A module that is gone, or does not define the name,
is looked for by the name: moving a module or renaming a private helper changes no edit.

`at` selects one node there: the word of its kind (`KINDS`) and names, constants and operators that it mentions, in any order;
`-x` says that it does not mention x, and `within` leads on to a node around it: `constant 1 within return head_seq`. Of a
compound statement the header counts, of nested expressions the innermost. Private names are never mentioned.

`change` says what becomes of the node:

    drop              a statement, argument, keyword, element, entry of a dict, term, operand, decorator or handler goes
    negate            a condition, or the condition of a statement
    be EXPRESSION     an expression, the value or condition of a statement or keyword, or the value of a key in a dict
    return EXPRESSION a statement is a return of it; nothing without one
    only SELECTOR     an expression or statement is replaced by a node within it
    op SYMBOL         the operator of a comparison, a sum or a condition
    name NAME         a name, an attribute, a keyword, the function that is called, the kind of error that is handled
    text OLD -> NEW   within a text
    last              a statement moves to the end of its block

An expression names nothing private, and nothing that its module does not know.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "src/paor"

KINDS: dict[str, tuple[type[ast.AST], ...]] = {
    **{
        kind.__name__.lower(): (kind,)
        for kind in (
            *(ast.And, ast.Attribute, ast.Call, ast.Compare, ast.Constant, ast.Continue, ast.Dict, ast.If),
            *(
                ast.List,
                ast.Name,
                ast.Not,
                ast.Or,
                ast.Raise,
                ast.Return,
                ast.Subscript,
                ast.Tuple,
                ast.keyword,
            ),
        )
    },
    "assign": (ast.Assign, ast.AnnAssign, ast.AugAssign),
    "choice": (ast.IfExp,),
    "def": (ast.FunctionDef, ast.AsyncFunctionDef),
    "except": (ast.ExceptHandler,),
    "for": (ast.For, ast.AsyncFor),
    "fstring": (ast.JoinedStr,),
    "statement": (ast.Expr,),
    "sum": (ast.BinOp,),
    "with": (ast.With, ast.AsyncWith),
    "yield": (ast.Yield, ast.YieldFrom),
}
"""The words for kinds of nodes; `and`, `or` and `not` stand for the expression that has the operator."""

OPERATORS: dict[str, type[ast.AST]] = {
    "<": ast.Lt,
    "<=": ast.LtE,
    ">": ast.Gt,
    ">=": ast.GtE,
    "==": ast.Eq,
    "!=": ast.NotEq,
    "is": ast.Is,
    "is-not": ast.IsNot,
    "in": ast.In,
    "not-in": ast.NotIn,
    "+": ast.Add,
    "-": ast.Sub,
    "*": ast.Mult,
    "and": ast.And,
    "or": ast.Or,
    "not": ast.Not,
}
SYMBOLS = {kind: symbol for symbol, kind in OPERATORS.items()}
INVERSE = {"<": ">=", ">": "<=", "==": "!=", "is": "is-not", "in": "not-in"}
INVERSE |= {other: one for one, other in INVERSE.items()}
BODIES = ("body", "orelse", "handlers", "finalbody", "cases")


@dataclass(frozen=True, slots=True)
class Edit:
    """
    One edit.

    Attributes:
        place: Module below `paor`, and the public name in it.
        at: Which node there.
        change: What becomes of it.
        owner: What it belongs to, for messages: a guarantee or the name of a bug.
    """

    place: str
    at: str
    change: str
    owner: str = ""

    @classmethod
    def of(cls, item: Mapping[str, Any], owner: str) -> Edit:
        """Read an edit from a table, whose other entries are passed over."""
        return cls(item["place"], item["at"], item["change"], owner)

    def __str__(self) -> str:
        return f"{self.owner or 'edit'}: {self.change} at `{self.at}` in {self.place}"


class EditLost(Exception):
    """An edit does not apply: its place is gone, or its selector does not match exactly one node there."""


@cache
def sources() -> dict[str, str]:
    """Return the text of each module of the package by its path from the root."""
    return {
        path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted((ROOT / PACKAGE).rglob("*.py"))
    }


def applied(edits: Iterable[Edit], texts: Mapping[str, str] | None = None) -> dict[str, str]:
    """
    Return the modules that the edits change, by path, as they are with all of them.

    Raises:
        EditLost: One of them does not apply; the message says which, where, and how many nodes matched.
    """
    now, changed = dict(sources() if texts is None else texts), {}
    for edit in edits:
        path, tree = changed_tree(edit, now)
        now[path] = changed[path] = ast.unparse(tree) + "\n"
    return changed


def changed_tree(edit: Edit, texts: Mapping[str, str]) -> tuple[str, ast.Module]:
    """Return the path of the module that an edit changes, and its tree as it is then, with the lines of the present text."""
    path = found(edit, texts)[0]
    tree = ast.parse(texts[path])
    _Change(edit, tree).make(_matches(tree, edit.place.partition(":")[2], edit.at)[0])
    return path, ast.fix_missing_locations(tree)


def found(edit: Edit, texts: Mapping[str, str]) -> tuple[str, ast.AST]:
    """Return where the one node is that an edit changes: the path of its module, and the node."""
    module, _, name = edit.place.partition(":")
    stem = f"{PACKAGE}/{module.replace('.', '/')}"
    own = next((path for path in (f"{stem}.py", f"{stem}/__init__.py") if path in texts), None)
    if own is not None and (not name or _defined(_parsed(texts[own]), name)):
        counts = {own: _matches(_parsed(texts[own]), name, edit.at)}
    else:
        first = name.partition(".")[0]
        defining = re.compile(rf"^(?:\s*(?:async def|def|class) )?{first}\b", re.MULTILINE)
        likely = [path for path, text in texts.items() if first in text and defining.search(text)]
        trees = {path: _parsed(texts[path]) for path in likely}
        counts = {path: _matches(tree, name, edit.at) for path, tree in trees.items() if _defined(tree, name)}
        if not name or not counts:
            raise EditLost(f"{edit}: there is no such module, and no other one defines `{name}`")
    (only, *more) = [(path, nodes) for path, nodes in counts.items() if nodes] or [("", [])]
    if len(only[1]) != 1 or more:
        told = ", ".join(f"{len(nodes)} in {path}" for path, nodes in counts.items() if nodes) or "none"
        raise EditLost(f"{edit}: the selector must match exactly one node, it matches {told}")
    return only[0], only[1][0]


@lru_cache(maxsize=1024)
def _parsed(text: str) -> ast.Module:
    return ast.parse(text)


def _words(selector: str) -> tuple[str, set[str], set[str]]:
    """Return the kind of a selector, what it mentions, and what it does not."""
    kind, *words = selector.split()
    if kind not in KINDS:
        raise ValueError(f"`{selector}` begins with no kind of node: {', '.join(KINDS)}")
    absent = {word[1:] for word in words if len(word) > 1 and word[0] == "-" and not word[1:].isdigit()}
    return kind, {word for word in words if word[1:] not in absent}, absent


def _matches(tree: ast.Module, name: str, at: str) -> list[ast.AST]:
    """Return the nodes that a selector matches in what a place reaches."""
    scopes, own = _reached(tree, name), True
    for part in reversed(at.split(" within ")):
        scopes, own = _of_kind(scopes, part, own=own), False
    return scopes


def _of_kind(scopes: Iterable[ast.AST], selector: str, *, own: bool) -> list[ast.AST]:
    kind, wanted, absent = _words(selector)
    nodes = {id(node): node for scope in scopes for node in _walked(scope) if own or node is not scope}
    fitting = {
        number: node
        for number, node in nodes.items()
        if (isinstance(node, KINDS[kind]) or isinstance(getattr(node, "op", None), KINDS[kind]))
        and wanted <= (mentioned := _mentioned(node))
        and not absent & mentioned
    }
    outer = {
        id(node)
        for node in fitting.values()
        if not isinstance(node, ast.stmt)
        and any(id(inner) in fitting for inner in ast.walk(node) if inner is not node)
    }
    return [node for number, node in fitting.items() if number not in outer]


def _walked(node: ast.AST) -> Iterator[ast.AST]:
    """Walk over a tree without its docstrings."""
    yield node
    for child in ast.iter_child_nodes(node):
        if not _is_docstring(child):
            yield from _walked(child)


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and node.value.value is not ...


def _mentioned(node: ast.AST) -> set[str]:
    """Return the public names, constants and operators in a node, in the header alone of a compound statement."""
    found = _own_words(node)
    for field, value in ast.iter_fields(node):
        if field not in BODIES or not isinstance(value, list):
            for item in value if isinstance(value, list) else [value]:
                if isinstance(item, ast.AST):
                    found |= _mentioned(item)
    return found


def _own_words(node: ast.AST) -> set[str]:
    """Return what a node itself mentions; a text mentions each of its words."""
    if type(node) in SYMBOLS:
        return {SYMBOLS[type(node)]}
    if isinstance(node, ast.Constant):
        texts = [str(node.value)]
    else:
        values = (value for _, value in ast.iter_fields(node))
        texts = [
            item
            for value in values
            for item in (value if isinstance(value, list) else [value])
            if isinstance(item, str)
        ]
    if isinstance(node, ast.AsyncFunctionDef):
        texts.append("async")
    words = {word for text in texts for word in (text, *re.findall(r"\w+", text))}
    return {word for word in words if not word.startswith("_") or word.endswith("__")}


def _reached(tree: ast.Module, name: str) -> list[ast.AST]:
    """Return what a place stands for: its definitions and the private ones of the module that they reach."""
    private: dict[str, list[ast.AST]] = {}
    for statement in _statements(tree.body):
        within = _statements(statement.body) if isinstance(statement, ast.ClassDef) else ()
        for one in (statement, *within):
            for own in _names(one):
                if own.startswith("_"):
                    private.setdefault(own, []).append(one)
    reached = _defined(tree, name) if name else _loose(tree)
    for node in reached:  # grows
        for inner in ast.walk(node):
            used = inner.id if isinstance(inner, ast.Name) else getattr(inner, "attr", "")
            reached += [one for one in private.pop(used, ()) if one not in reached]
    return reached


def _loose(tree: ast.Module) -> list[ast.AST]:
    return [
        one
        for one in _statements(tree.body)
        if not isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    ]


def _defined(tree: ast.Module, name: str) -> list[ast.AST]:
    """Return the definitions of a qualified name in a module."""
    first, *others = name.split(".")
    found: list[ast.AST] = [one for one in _statements(tree.body) if first in _names(one)]
    for other in others:
        inner = [one for outer in found if isinstance(outer, ast.ClassDef) for one in _statements(outer.body)]
        found = [one for one in inner if other in _names(one)]
    return found


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Return the statements of a block, those within `if`, `try` and `with` too."""
    for one in body:
        if isinstance(one, ast.If | ast.Try | ast.With):
            yield from _statements([*one.body, *getattr(one, "orelse", ())])
        elif not _is_docstring(one):
            yield one


def _names(statement: ast.AST) -> set[str]:
    """Return the names that a statement defines."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {statement.name}
    targets = getattr(statement, "targets", None) or [getattr(statement, "target", None)]
    return {one.id for target in targets if target for one in ast.walk(target) if isinstance(one, ast.Name)}


class _Change:
    """The change of one edit in a tree that is made for it."""

    def __init__(self, edit: Edit, tree: ast.Module) -> None:
        self._edit = edit
        self._tree = tree
        self._around = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
        self._verb, _, self._given = edit.change.partition(" ")

    def make(self, node: Any) -> None:
        """Change the node."""
        given, target = self._given, _valued(node)
        match self._verb:
            case "drop":
                self._drop(node)
            case "negate":
                self._put(target, _negated(target))
            case "be":
                self._put(self._entry(target), self._expression(given))
            case "return":
                self._put(node, ast.Return(self._expression(given) if given else None))
            case "op":
                self._operate(target, OPERATORS[given]())
            case "only":
                self._put(node, self._one(node, given))
            case "name":
                self._name(node)
            case "text":
                self._text(node, *given.split(" -> "))
            case "last":
                block, place = self._block(node)
                block.append(block.pop(place))
            case _:
                raise ValueError(f"{self._edit}: no such change")

    def _one(self, node: ast.AST, selector: str) -> ast.AST:
        nodes = _of_kind([node], selector, own=False)
        if len({ast.dump(one) for one in nodes}) != 1:
            raise EditLost(
                f"{self._edit}: `{selector}` must match exactly one node within, it matches {len(nodes)}"
            )
        return nodes[0]

    def _block(self, node: ast.AST) -> tuple[list[Any], int]:
        """Return the list that a node is in, and where."""
        for _, value in ast.iter_fields(self._around[node]):
            if isinstance(value, list) and any(item is node for item in value):
                return value, next(place for place, item in enumerate(value) if item is node)
        raise EditLost(f"{self._edit}: what is found is no part of a list")

    def _put(self, node: ast.AST, new: ast.AST) -> None:
        new = ast.copy_location(new, node)
        for field, value in ast.iter_fields(self._around[node]):
            if value is node:
                setattr(self._around[node], field, new)
            elif isinstance(value, list):
                value[:] = [new if item is node else item for item in value]

    def _drop(self, node: Any) -> None:
        around: Any = self._around[node]
        if isinstance(around, ast.Expr | ast.Await | ast.FormattedValue | ast.Starred | ast.keyword):
            self._drop(around)
        elif isinstance(around, ast.BinOp):
            self._put(around, around.right if node is around.left else around.left)
        elif isinstance(around, ast.Dict):
            place = [*around.keys, *around.values].index(node) % len(around.keys)
            del around.keys[place], around.values[place]
        elif isinstance(around, ast.Slice | ast.Return):
            for field in around._fields:
                if getattr(around, field) is node:
                    setattr(around, field, None)
        else:
            block, place = self._block(node)
            del block[place]
            if isinstance(around, ast.BoolOp) and len(block) == 1:
                self._put(around, block[0])
            elif isinstance(node, ast.stmt) and not block and block is getattr(around, "body", None):
                block.append(ast.copy_location(ast.Pass(), node))

    def _entry(self, node: Any) -> Any:
        """Return the value of a key in a dict, any other node as it is."""
        around = self._around[node]
        if isinstance(around, ast.Dict) and node in around.keys:
            return around.values[around.keys.index(node)]
        return node

    def _expression(self, text: str) -> ast.expr:
        """Parse what is put in; it may use public names alone, and only those that the module has."""
        new = ast.parse(text, mode="eval").body
        nodes = [*ast.walk(self._tree), *(one for one in ast.walk(new) if isinstance(one, ast.arg))]
        known = set(dir(builtins)).union(*(_own_words(one) for one in nodes))
        bound = {
            one.id for one in ast.walk(new) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)
        }
        named = {getattr(one, "id", getattr(one, "attr", "")) for one in ast.walk(new)}
        private = {word for word in named if word.startswith("_") and not word.endswith("__")}
        read = {one.id for one in ast.walk(new) if isinstance(one, ast.Name)}
        if missing := (read - known - bound) | private:
            raise EditLost(f"{self._edit}: the module does not know {', '.join(sorted(missing))}")
        return new

    def _operate(self, node: Any, operator: Any) -> None:
        if isinstance(node, ast.Compare):
            node.ops = [operator]
        else:
            node.op = operator

    def _name(self, node: Any) -> None:
        node = node.func if isinstance(node, ast.Call) else node
        if isinstance(node, ast.ExceptHandler):
            node.type = ast.Name(self._given, ast.Load())
        else:
            field = {ast.Name: "id", ast.Attribute: "attr", ast.keyword: "arg"}[type(node)]
            setattr(node, field, self._given)

    def _text(self, node: ast.AST, old: str, new: str) -> None:
        texts = [
            one
            for one in ast.walk(node)
            if isinstance(one, ast.Constant) and isinstance(one.value, str) and old in one.value
        ]
        if len(texts) != 1 or str(texts[0].value).count(old) != 1:
            raise EditLost(f"{self._edit}: the text must be there exactly once")
        texts[0].value = str(texts[0].value).replace(old, new)


def _valued(node: Any) -> Any:
    """Return the condition or value of a statement or keyword, any other node as it is."""
    if isinstance(node, ast.If | ast.While | ast.IfExp | ast.Assert):
        return node.test
    if isinstance(node, ast.For | ast.AsyncFor):
        return node.iter
    if isinstance(node, ast.Raise):
        return node.exc
    if isinstance(node, ast.Return | ast.Assign | ast.AnnAssign | ast.AugAssign | ast.keyword | ast.Expr):
        return node.value
    return node


def _negated(node: ast.expr) -> ast.expr:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return node.operand
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in SYMBOLS:
        symbol = INVERSE[SYMBOLS[type(node.ops[0])]]
        return ast.Compare(node.left, [OPERATORS[symbol]()], node.comparators)  # type: ignore[list-item]
    return ast.UnaryOp(ast.Not(), node)
