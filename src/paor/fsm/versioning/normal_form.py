"""
The normal form of a definition: its syntax tree without whatever is only form.

Two texts that mean the same have one normal form. Left out are comments, formatting, docstrings, imports, the annotations of
functions and local variables, and an argument by the keyword ``meaning``: one line for people, as the tables have it. Local variables and parameters are numbers, in the order of their first use. A name of the package, the
definition's own included, is a `NameReference`, and an attribute an `Attribute`: whoever hashes the form replaces the one by the digest of that
definition, and the other, where it is private (a leading underscore), by its number in its class. A name from elsewhere is
its dotted origin, whatever alias it was imported under. Kept as they are: constants, operators, the order of everything, public
attributes, fields of a class with their annotations.

Nothing but the standard library is used, and Python 3.11 to 3.13 give the same forms.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

Place = tuple[str, str]
"""A definition: name of its module within the package, such as ``fsm.machine.guards``, and its own name."""

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_SCOPES = (*FUNCTIONS, ast.ClassDef, ast.Lambda, *_COMPREHENSIONS)
_UNWRITTEN = frozenset(("annotation", "returns", "type_comment", "kind", "ctx", "defaults", "kw_defaults"))
"""Fields of nodes that are only form, or that are written before the function that they belong to."""

_FOR_PEOPLE = frozenset(("meaning",))
"""Arguments by keyword that only people read."""

_BINDING = {
    **dict.fromkeys((*FUNCTIONS, ast.ClassDef, ast.ExceptHandler, ast.MatchAs, ast.MatchStar), "name"),
    ast.MatchMapping: "rest",
    ast.arg: "arg",
}
"""Kinds of nodes that bind a name, with the field that holds it."""


class NameReference(NamedTuple):
    """A definition of the package, which a form uses."""

    place: Place


class Attribute(NamedTuple):
    """An attribute; the number of a private one is known once all classes of the package have been read."""

    name: str


class MethodKeyword(NamedTuple):
    """The name of an argument for a method; which parameter that is depends on the classes that have the method."""

    method: str
    name: str | None


Piece = str | NameReference | Attribute | MethodKeyword


class Module(NamedTuple):
    """A name that is bound to a module of the package."""

    name: str


class Outside(NamedTuple):
    """A name that is none of the package's: a builtin, or the dotted origin of an import."""

    dotted: str


Origin = NameReference | Module | Outside


class Names(Protocol):
    """What names mean in a package."""

    def imported(self, module: str, statement: ast.Import | ast.ImportFrom) -> dict[str, Origin]:
        """Return the names that an import in a module binds, with what they mean."""

    def member(self, module: str, name: str) -> Origin:
        """Return what a global name of a module means."""

    def parameters(self, place: Place) -> list[str]:
        """Return the parameters that a definition is called with by name, none where names are no matter of form."""


@dataclass(slots=True)
class Form:
    """
    The normal form of one definition.

    Attributes:
        pieces: That together are its text.
        private: Private attributes that it defines, with their numbers.
        bases: Classes of the package that it inherits from.
        methods: Parameters of its methods, by name.
        named: Its own name, of a class.
        tagged: Whether that name is written on the wire (``tag=True``).
    """

    pieces: list[Piece] = field(default_factory=list)
    private: dict[str, int] = field(default_factory=dict)
    bases: list[Place] = field(default_factory=list)
    methods: dict[str, list[str]] = field(default_factory=dict)
    named: str = ""
    tagged: bool = False


def is_private(name: str) -> bool:
    """Whether a name is one's own: a leading underscore, and no name of Python's."""
    return name.startswith("_") and not (name.startswith("__") and name.endswith("__"))


def normal_form(statements: Iterable[ast.stmt], module: str, names: Names) -> Form:
    """
    Return the normal form of a definition.

    Args:
        statements: That define it, in their order.
        module: That they are in.
        names: What names mean there.
    """
    writer = _Writer(module, names)
    for statement in statements:
        writer.write(statement)
    return writer.form


def in_same_scope(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and what is within it in the same scope, not what inner functions, classes and comprehensions hold."""
    yield node
    if isinstance(node, _COMPREHENSIONS):  # a walrus binds outside of the comprehension
        yield from (item.target for item in ast.walk(node) if isinstance(item, ast.NamedExpr))
    elif not isinstance(node, _SCOPES):
        for child in ast.iter_child_nodes(node):
            yield from in_same_scope(child)


def bound_by(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yield the names that *nodes* themselves bind."""
    for node in nodes:
        if isinstance(node, ast.Name):
            name = None if isinstance(node.ctx, ast.Load) else node.id
        else:
            name = getattr(node, _BINDING.get(type(node), ""), None)
        if name is not None:
            yield name


def parameters_of(arguments: ast.arguments) -> list[str]:
    """Return the parameters that can be given by name or place, in their order."""
    return [item.arg for item in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]


@dataclass(slots=True)
class _Scope:
    """
    Names that a function, comprehension or class binds.

    Attributes:
        names: Its variables.
        known: Names that mean something else in it: imported within it, or declared global.
        in_class: Whether its names are attributes.
        numbers: Of the variables, as far as they were written.
    """

    names: set[str]
    known: dict[str, Origin] = field(default_factory=dict)
    in_class: bool = False
    numbers: dict[str, str] = field(default_factory=dict)


class _Writer:
    """Writes a definition node by node."""

    def __init__(self, module: str, names: Names) -> None:
        self.form = Form()
        self._module = module
        self._names = names
        self._scopes: list[_Scope] = []
        self._locals = 0

    def write(self, value: Any) -> None:
        """Write a node with everything in it, a list of nodes without statements that do nothing, or a constant."""
        if isinstance(value, ast.AST):
            _WRITERS.get(type(value), _Writer.plain)(self, value)
        elif isinstance(value, list):
            self.put("[")
            for item in value:
                if not isinstance(item, ast.stmt) or not is_silent(item):
                    self.write(item)
                    self.put(",")
            self.put("]")
        else:  # in ASCII: what can be printed differs from Python to Python
            self.put(ascii(value))

    def plain(self, node: ast.AST) -> None:
        """Write a node as its kind and its fields."""
        self.put(f"{type(node).__name__}(")
        for name in node._fields:
            value = getattr(node, name, None)
            if name in _UNWRITTEN or value is None or value == []:
                continue
            self.put(f"{name}=")
            if name == _BINDING.get(type(node)):
                self.name(value)
            else:
                self.write(value)
            self.put(";")
        self.put(")")

    def put(self, piece: Piece) -> None:
        self.form.pieces.append(piece)

    # names

    def meaning(self, name: str) -> str | Attribute | Origin:
        """Return the number of a variable, a class's own name as an attribute, or what any other name means."""
        for depth, scope in enumerate(reversed(self._scopes)):
            if scope.in_class and depth > 0:
                continue  # a method does not see the names of its class
            if name in scope.known:
                return scope.known[name]
            if name in scope.names:
                return Attribute(name) if scope.in_class else self._number(scope, name)
        return self._names.member(self._module, name)

    def _number(self, scope: _Scope, name: str) -> str:
        if name not in scope.numbers:
            scope.numbers[name] = f"%{self._locals}"
            self._locals += 1
        return scope.numbers[name]

    def name(self, name: str) -> None:
        self.origin(self.meaning(name))

    def origin(self, origin: str | Attribute | Origin) -> None:
        self.put(f"<{origin[0]}>" if isinstance(origin, Module | Outside) else origin)

    def dotted(self, node: ast.expr) -> Origin | None:
        """Return what a dotted name means, None for any other expression."""
        if isinstance(node, ast.Name):
            found = self.meaning(node.id)
            return None if isinstance(found, str | Attribute) else found
        if isinstance(node, ast.Attribute):
            base = self.dotted(node.value)
            if isinstance(base, Module):
                return self._names.member(base.name, node.attr)
            if isinstance(base, Outside):
                return Outside(f"{base.dotted}.{node.attr}")
        return None

    # scopes

    def _inside(self, node: ast.AST, outer: list[Any], inner: list[Any], scope: _Scope) -> None:
        """Write a node with a scope of its own: what belongs to the scope around it, then what is within."""
        self.put(f"{type(node).__name__}(")
        self.write(outer)
        self._scopes.append(scope)
        self.write(inner)
        self._scopes.pop()
        self.put(")")

    def _scope_of(self, nodes: Iterable[ast.AST], parameters: Iterable[str] = ()) -> _Scope:
        """Return the scope of *nodes*; inner scopes keep their own names."""
        found = [inner for outer in nodes for inner in in_same_scope(outer)]
        scope = _Scope({*bound_by(found), *parameters})
        for node in found:
            if isinstance(node, ast.Import | ast.ImportFrom):
                imported = self._names.imported(self._module, node)
                scope.known |= {name: origin for name, origin in imported.items() if name not in scope.names}
            elif isinstance(node, ast.Global):
                scope.known |= {name: self._names.member(self._module, name) for name in node.names}
            elif isinstance(node, ast.Nonlocal):
                scope.names.difference_update(node.names)
        return scope

    def function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._callable(node, [ast.Name(node.name, ast.Store()), node.decorator_list], node.body)

    def lambda_(self, node: ast.Lambda) -> None:
        self._callable(node, [], [node.body])

    def _callable(self, node: Any, outer: list[Any], body: Sequence[ast.AST]) -> None:
        """Write what can be called; its defaults belong to the scope around it."""
        outer = [*outer, node.args.defaults, node.args.kw_defaults]
        scope = self._scope_of(body, bound_by(ast.iter_child_nodes(node.args)))
        self._inside(node, outer, [node.args, body], scope)

    def class_(self, node: ast.ClassDef) -> None:
        """Write a class; what it inherits and defines is noted for other forms."""
        if not self._scopes:
            self._notice(node)
        scope = self._scope_of(node.body)
        scope.in_class = True
        outer = [ast.Name(node.name, ast.Store()), node.decorator_list, node.bases, node.keywords]
        self._inside(node, outer, node.body, scope)

    def _notice(self, node: ast.ClassDef) -> None:
        form = self.form
        form.named = node.name
        form.tagged = any(item.arg in ("tag", "tag_field") for item in node.keywords)
        origins = (
            self.dotted(base.value if isinstance(base, ast.Subscript) else base) for base in node.bases
        )
        form.bases = [origin.place for origin in origins if isinstance(origin, NameReference)]
        form.methods = {
            item.name: parameters_of(item.args) for item in node.body if isinstance(item, FUNCTIONS)
        }
        owned = list(bound_by(inner for item in node.body for inner in in_same_scope(item)))
        owned += [
            item.attr
            for item in ast.walk(node)
            if isinstance(item, ast.Attribute)
            and isinstance(item.ctx, ast.Store)
            and isinstance(item.value, ast.Name)
        ]
        private = dict.fromkeys(filter(is_private, owned))
        form.private = {name: number for number, name in enumerate(private)}

    def comprehension(self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp) -> None:
        """Write a comprehension; its first iterable belongs to the scope around it."""
        loops = [[item.is_async, item.target, item.ifs, item.iter] for item in node.generators]
        first = loops[0].pop()
        results = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        names = bound_by(inner for item in node.generators for inner in ast.walk(item.target))
        self._inside(node, [first], [loops, results], _Scope(set(names)))

    # single kinds of nodes

    def access(self, node: ast.Attribute) -> None:
        """Write the access of an attribute; of a module it is what the module defines."""
        origin = self.dotted(node)
        if origin is not None:
            self.origin(origin)
        else:
            self.write([node.value])
            self.put(Attribute(node.attr))

    def call(self, node: ast.Call) -> None:
        """Write a call; an argument for a parameter of a known function is named by the parameter's number."""
        self.put("Call(")
        self.write([node.func, node.args])
        function = self.dotted(node.func)
        is_partial = function == Outside("functools.partial") and node.args
        called = self.dotted(node.args[0]) if is_partial else function
        known = self._names.parameters(called.place) if isinstance(called, NameReference) else []
        for keyword in (keyword for keyword in node.keywords if keyword.arg not in _FOR_PEOPLE):
            if keyword.arg in known:
                self.put(f"#{known.index(keyword.arg)}=")
            elif function is None and isinstance(node.func, ast.Attribute):
                self.put(MethodKeyword(node.func.attr, keyword.arg))
            else:
                self.put(f"{keyword.arg}=")
            self.write(keyword.value)
        self.put(")")

    def annotated(self, node: ast.AnnAssign) -> None:
        """Write an annotated assignment: the annotation of a class's field counts, any other does not."""
        if self._scopes and self._scopes[-1].in_class:
            self.put("Field")
            self.write([node.target, node.annotation, node.value])
        elif node.value is not None:
            self.plain(ast.Assign([node.target], node.value))


def is_silent(statement: ast.stmt) -> bool:
    """Whether a statement does nothing that a form has to hold."""
    if isinstance(statement, ast.Pass | ast.Import | ast.ImportFrom | ast.Global | ast.Nonlocal):
        return True
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        return isinstance(statement.value.value, str)
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
        return statement.targets[0].id in ("__slots__", "__all__")
    test = statement.test if isinstance(statement, ast.If) else None
    return "TYPE_CHECKING" in (getattr(test, "id", ""), getattr(test, "attr", ""))


_WRITERS: dict[type[ast.AST], Callable[[_Writer, Any], None]] = {
    **dict.fromkeys(FUNCTIONS, _Writer.function),
    **dict.fromkeys(_COMPREHENSIONS, _Writer.comprehension),
    ast.ClassDef: _Writer.class_,
    ast.Lambda: _Writer.lambda_,
    ast.Name: lambda writer, node: writer.name(node.id),
    ast.Attribute: _Writer.access,
    ast.Call: _Writer.call,
    ast.AnnAssign: _Writer.annotated,
}
