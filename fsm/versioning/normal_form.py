"""
The normal form of a definition: its syntax tree without whatever is only form.

Two texts that mean the same have one normal form. Left out are comments, formatting, docstrings, imports, the annotations of
functions and local variables, and the definition's own name. Local variables, parameters and private attributes (a leading underscore) are
numbers, in the order of their first use. A name of the package is a `NameReference`, which whoever hashes the form replaces by the
digest of that definition; a name from elsewhere is its dotted origin, whatever alias it was imported under. Kept as they are:
constants, operators, the order of everything, public attributes, fields of a class with their annotations.

Nothing but the standard library is used, and Python 3.11 to 3.13 give the same forms.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

Place = tuple[str, str]
"""A definition: name of its module within the package, such as ``fsm.machine.guards``, and its own name."""

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_UNWRITTEN = frozenset(
    ("returns", "type_comment", "type_params", "kind", "ctx", "type_ignores", "lineno", "col_offset")
)


class NameReference(NamedTuple):
    """Another definition of the package, which a form uses."""

    place: Place


class Attribute(NamedTuple):
    """A private attribute; its number is known once all classes of the package have been read."""

    name: str


class MethodKeyword(NamedTuple):
    """The name of an argument for a method; which parameter that is depends on the classes that have the method."""

    method: str
    name: str


Piece = str | NameReference | Attribute | MethodKeyword


class Module(NamedTuple):
    """A name that is bound to a module of the package."""

    name: str


class Outside(NamedTuple):
    """A name that is none of the package's: a builtin, or the dotted origin of an import."""

    dotted: str


Origin = NameReference | Module | Outside


class Names(Protocol):
    """What the names of a module mean."""

    def of(self, name: str) -> Origin:
        """Return what a global name of the module means."""

    def imported(self, statement: ast.Import | ast.ImportFrom) -> dict[str, Origin]:
        """Return the names that an import binds, with what they mean."""

    def member(self, module: str, name: str) -> Origin:
        """Return what an attribute of another module of the package means."""

    def parameters(self, place: Place) -> list[str] | None:
        """Return the parameters that a definition is called with by name, None where names are no matter of form."""


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


def normal_form(statements: Iterable[ast.stmt], name: str, names: Names) -> Form:
    """
    Return the normal form of the definition *name*.

    Args:
        statements: That define it, in their order.
        name: As its module calls it.
        names: What other names of the module mean.
    """
    writer = _Writer(name, names)
    for statement in statements:
        writer.write(statement)
    return writer.form


# -- scopes -------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Scope:
    """Names that a function, comprehension or class binds."""

    in_class: bool = False
    names: set[str] = field(default_factory=set)
    imports: dict[str, Origin] = field(default_factory=dict)
    passed_on: set[str] = field(default_factory=set)
    globals: set[str] = field(default_factory=set)
    numbers: dict[str, str] = field(default_factory=dict)


def _bound(nodes: Iterable[ast.AST], names: Names, scope: _Scope) -> _Scope:
    """Return *scope* with what *nodes* bind in it; inner scopes keep their own names."""
    for node in (inner for outer in nodes for inner in in_same_scope(outer)):
        scope.names.update(_binds(node))
        if isinstance(node, ast.Import | ast.ImportFrom):
            scope.imports |= names.imported(node)
        elif isinstance(node, ast.Global):
            scope.globals.update(node.names)
        elif isinstance(node, ast.Nonlocal):
            scope.passed_on.update(node.names)
    scope.names -= scope.globals | scope.passed_on
    for name in scope.names & scope.imports.keys():
        del scope.imports[name]  # imported or assigned, as it happens: a variable like any other
    return scope


def in_same_scope(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and what is within it in the same scope, not what inner functions, classes and comprehensions hold."""
    left = [node]
    while left:
        found = left.pop()
        yield found
        left += reversed(_same_scope(found))


def bound_by(statement: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement binds in its own scope."""
    for node in in_same_scope(statement):
        yield from _binds(node)


def _binds(node: ast.AST) -> Iterator[str]:
    """Yield the names that a node itself binds."""
    if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
        yield node.id
    elif isinstance(node, (*FUNCTIONS, ast.ClassDef)):
        yield node.name
    elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar):
        yield from () if node.name is None else (node.name,)
    elif isinstance(node, ast.MatchMapping) and node.rest is not None:
        yield node.rest


def _same_scope(node: ast.AST) -> list[ast.AST]:
    """Return the parts of a node that are in its own scope."""
    if isinstance(node, FUNCTIONS):
        return [*node.decorator_list, *_defaults(node.args)]
    if isinstance(node, ast.ClassDef):
        return [*node.decorator_list, *node.bases, *node.keywords]
    if isinstance(node, ast.Lambda):
        return list(_defaults(node.args))
    if isinstance(node, _COMPREHENSIONS):  # a walrus binds outside of the comprehension
        inner = (item for item in ast.walk(node) if isinstance(item, ast.NamedExpr))
        return [node.generators[0].iter, *(item.target for item in inner)]
    if isinstance(node, ast.AnnAssign):
        return [node.target, *([node.value] if node.value is not None else [])]
    return list(ast.iter_child_nodes(node))


def _defaults(arguments: ast.arguments) -> Iterator[ast.expr]:
    yield from arguments.defaults
    yield from (item for item in arguments.kw_defaults if item is not None)


def parameters_of(arguments: ast.arguments) -> list[str]:
    """Return the parameters that can be given by name or place, in their order."""
    return [item.arg for item in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]


# -- writing ------------------------------------------------------------------------------------------------------


class _Writer:
    """Writes a definition node by node."""

    def __init__(self, name: str, names: Names) -> None:
        self.form = Form()
        self._name = name
        self._names = names
        self._scopes: list[_Scope] = []
        self._locals = 0
        self._others: list[str] = []

    def write(self, node: ast.AST) -> None:
        """Write one node with everything in it."""
        special = _WRITERS.get(type(node))
        if special is not None:
            special(self, node)
        else:
            self.plain(node)

    def plain(self, node: ast.AST, left_out: frozenset[str] = frozenset()) -> None:
        """Write a node as its kind and its fields."""
        self.put(f"{type(node).__name__}(")
        for name in node._fields:
            value = getattr(node, name, None)
            if name not in _UNWRITTEN and name not in left_out and value is not None and value != []:
                self.put(f"{name}=")
                self._value(value)
                self.put(";")
        self.put(")")

    def _value(self, value: Any) -> None:
        if isinstance(value, ast.AST):
            self.write(value)
        elif isinstance(value, list):
            for item in value:
                self._value(item)
                self.put(",")
        else:
            self.put(ascii(value))

    def put(self, piece: Piece) -> None:
        """Add one piece to the form."""
        self.form.pieces.append(piece)

    def body(self, statements: Iterable[ast.AST]) -> None:
        """Write statements; what does nothing is left out."""
        self.put("body=")
        for statement in statements:
            if not isinstance(statement, ast.stmt) or not is_silent(statement):
                self.write(statement)
                self.put(",")
        self.put(";")

    # names

    def meaning(self, name: str) -> str | Origin:
        """Return the number of a local name, what any other name means, or a class's own name as an attribute."""
        for depth, scope in enumerate(reversed(self._scopes)):
            if scope.in_class and depth > 0:
                continue  # a method does not see the names of its class
            if name in scope.globals:
                break
            if name in scope.imports:
                return scope.imports[name]
            if name in scope.names:
                return self._number(scope, name)
        return self._names.of(name)

    def _number(self, scope: _Scope, name: str) -> str:
        if scope.in_class:
            return name
        if name not in scope.numbers:
            scope.numbers[name] = f"%{self._locals}"
            self._locals += 1
        return scope.numbers[name]

    def name(self, name: str) -> None:
        """Write a name that is used or bound."""
        found = self.meaning(name)
        if isinstance(found, str):
            if found.startswith("%"):
                self.put(found)
            else:
                self.attribute(found)
        else:
            self.origin(found)

    def origin(self, origin: Origin) -> None:
        """Write what a global name means."""
        if isinstance(origin, NameReference):
            self.put(origin)
        else:
            self.put(
                f"module {origin.name}" if isinstance(origin, Module) else f"<{ascii(origin.dotted)[1:-1]}>"
            )

    def attribute(self, name: str) -> None:
        """Write the name of an attribute."""
        self.put(Attribute(name) if is_private(name) else f".{ascii(name)[1:-1]}")

    def dotted(self, node: ast.expr) -> Origin | None:
        """Return what a dotted name means, None for any other expression."""
        if isinstance(node, ast.Name):
            found = self.meaning(node.id)
            return None if isinstance(found, str) else found
        if not isinstance(node, ast.Attribute):
            return None
        base = self.dotted(node.value)
        if isinstance(base, Module):
            return self._names.member(base.name, node.attr)
        return Outside(f"{base.dotted}.{node.attr}") if isinstance(base, Outside) else None

    # scopes

    def inside(self, scope: _Scope, write: Callable[[], None]) -> None:
        """Write something within a scope of its own."""
        self._scopes.append(scope)
        write()
        self._scopes.pop()

    def callable_(self, arguments: ast.arguments, body: list[ast.AST]) -> None:
        """Write the parameters and the body of a function; its defaults belong to the scope around it."""
        for default in (*arguments.defaults, *arguments.kw_defaults):
            self._value(default)
            self.put(",")
        scope = _bound(body, self._names, _Scope())
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        rest = [item for item in (arguments.vararg, arguments.kwarg) if item is not None]
        scope.names.update(item.arg for item in (*every, *rest))
        counts = (len(arguments.posonlyargs), len(arguments.args), len(arguments.kwonlyargs))
        self.put(f"{counts}{arguments.vararg is not None}{arguments.kwarg is not None}")
        for item in (*every, *rest):
            self.put(self._number(scope, item.arg))
        self.inside(scope, lambda: self.body(body))

    def function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """Write a function."""
        self.put(f"{type(node).__name__}(")
        self._decorators(node)
        self._own_name(node.name)
        self.callable_(node.args, list(node.body))
        self.put(")")

    def _decorators(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        for decorator in node.decorator_list:
            self.write(decorator)
            self.put("@")

    def _own_name(self, name: str) -> None:
        """Write the name of an inner function or class; that of the definition itself is left out."""
        if self._scopes:
            self.name(name)

    def class_(self, node: ast.ClassDef) -> None:
        """Write a class; what it inherits and defines is noted for other forms."""
        if not self._scopes:
            self._notice(node)
        self.put("ClassDef(")
        self._decorators(node)
        self._own_name(node.name)
        for item in (*node.bases, *node.keywords):
            self.write(item)
            self.put(",")
        scope = _bound(node.body, self._names, _Scope(in_class=True))
        self.inside(scope, lambda: self.body(node.body))
        self.put(")")

    def _notice(self, node: ast.ClassDef) -> None:
        form = self.form
        form.named = node.name
        form.tagged = any(item.arg in ("tag", "tag_field") for item in node.keywords)
        origins = (
            self.dotted(base.value if isinstance(base, ast.Subscript) else base) for base in node.bases
        )
        form.bases = [origin.place for origin in origins if isinstance(origin, NameReference)]
        for item in node.body:
            if isinstance(item, FUNCTIONS):
                form.methods[item.name] = parameters_of(item.args)
        for name in _private_of(node):
            form.private.setdefault(name, len(form.private))

    # single kinds of nodes

    def lambda_(self, node: ast.Lambda) -> None:
        """Write a lambda."""
        self.put("Lambda(")
        self.callable_(node.args, [node.body])
        self.put(")")

    def comprehension(self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp) -> None:
        """Write a comprehension: the first iterable outside of its scope, the rest within."""
        self.put(f"{type(node).__name__}(")
        self.write(node.generators[0].iter)
        scope = _Scope()
        for generator in node.generators:
            scope.names.update(name for item in ast.walk(generator.target) for name in _binds(item))
        self.inside(scope, lambda: self._generators(node))
        self.put(")")

    def _generators(self, node: Any) -> None:
        for number, generator in enumerate(node.generators):
            self.put("async for" if generator.is_async else "for")
            self.write(generator.target)
            if number:
                self.write(generator.iter)
            for condition in generator.ifs:
                self.put("if")
                self.write(condition)
        self.put(":")
        self.plain(node, frozenset(("generators",)))

    def identifier(self, node: ast.Name) -> None:
        """Write a name."""
        if self._scopes or isinstance(node.ctx, ast.Load):
            self.name(node.id)
        elif node.id == self._name:
            self.put("self")
        else:  # a statement that defines several names
            if node.id not in self._others:
                self._others.append(node.id)
            self.put(f"other {self._others.index(node.id)}")

    def access(self, node: ast.Attribute) -> None:
        """Write the access of an attribute; of a module it is what the module defines."""
        origin = self.dotted(node)
        if origin is not None:
            self.origin(origin)
            return
        self.put("(")
        self.write(node.value)
        self.attribute(node.attr)
        self.put(")")

    def call(self, node: ast.Call) -> None:
        """Write a call; an argument for a parameter of a known function is named by the parameter's number."""
        self.put("Call(")
        self.write(node.func)
        origin = self.dotted(node.func)
        target = node.args[0] if origin == Outside("functools.partial") and node.args else node.func
        place = self.dotted(target)
        known = self._names.parameters(place.place) if isinstance(place, NameReference) else None
        for argument in node.args:
            self.put(",")
            self.write(argument)
        for keyword in node.keywords:
            self.put(",")
            self._keyword(keyword, node.func, known)
        self.put(")")

    def _keyword(self, node: ast.keyword, function: ast.expr, known: list[str] | None) -> None:
        if node.arg is None:
            self.put("**")
        elif known is not None and node.arg in known:
            self.put(f"#{known.index(node.arg)}=")
        elif isinstance(function, ast.Attribute) and self.dotted(function) is None:
            self.put(MethodKeyword(function.attr, node.arg))
        else:
            self.put(f"{node.arg!a}=")
        self.write(node.value)

    def annotated(self, node: ast.AnnAssign) -> None:
        """Write an annotated assignment: the annotation of a class's field counts, any other does not."""
        is_field = bool(self._scopes) and self._scopes[-1].in_class
        if is_field:
            self.put("Field(")
            self.write(node.target)
            self._annotation(node.annotation)
        elif node.value is None:
            return
        else:
            self.put("Assign(targets=")
            self.write(node.target)
            self.put(",;value=")
        if node.value is not None:
            self.put("=" if is_field else "")
            self.write(node.value)
        self.put(")" if is_field else ";)")

    def _annotation(self, node: ast.expr) -> None:
        """Write an annotation; one that is a text is read."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            with suppress(SyntaxError):
                node = ast.parse(node.value, mode="eval").body
        self.put(":")
        self.write(node)

    def handler(self, node: ast.ExceptHandler) -> None:
        """Write an exception's handler."""
        if node.name is not None:
            self.identifier(ast.Name(node.name, ast.Store()))
        self.block(node, frozenset(("name",)))

    def _named(self, node: Any, name: str) -> None:
        """Write a node one field of which is a name that it binds."""
        bound = getattr(node, name)
        if bound is not None:
            self.identifier(ast.Name(bound, ast.Store()))
        self.plain(node, frozenset((name,)))

    def pattern(self, node: ast.MatchAs | ast.MatchStar) -> None:
        """Write a pattern that binds a name."""
        self._named(node, "name")

    def mapping_pattern(self, node: ast.MatchMapping) -> None:
        """Write a pattern of a mapping."""
        self._named(node, "rest")

    def class_pattern(self, node: ast.MatchClass) -> None:
        """Write a pattern of a class with its attributes."""
        for name in node.kwd_attrs:
            self.attribute(name)
        self.plain(node, frozenset(("kwd_attrs",)))

    def constant(self, node: ast.Constant) -> None:
        """Write a constant; texts in ASCII, since what can be printed differs from Python to Python."""
        self.put(f"Constant({node.value!a})")

    def joined(self, node: ast.JoinedStr) -> None:
        """Write a formatted text, neighbouring constants as one."""
        self.put("JoinedStr(")
        text = ""
        for item in node.values:
            if isinstance(item, ast.Constant):
                text += str(item.value)
                continue
            self.put(ascii(text))
            text = ""
            self.write(item)
        self.put(f"{text!a})")

    def block(self, node: ast.AST, left_out: frozenset[str] = frozenset()) -> None:
        """Write a compound statement without what does nothing in its bodies."""
        self.put(f"{type(node).__name__}(")
        for name in node._fields:
            value = getattr(node, name, None)
            if value is None or value == [] or name in _UNWRITTEN or name in left_out:
                continue
            self.put(f"{name}:")
            if isinstance(value, list):
                self.body(value)
            else:
                self._value(value)
        self.put(")")


def is_silent(statement: ast.stmt) -> bool:
    """Whether a statement does nothing that a form has to hold."""
    if isinstance(statement, ast.Pass | ast.Import | ast.ImportFrom | ast.Global | ast.Nonlocal):
        return True
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        return isinstance(statement.value.value, str)
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
        return statement.targets[0].id in ("__slots__", "__all__")
    return is_typing_only(statement)


def is_typing_only(statement: ast.stmt) -> bool:
    """Whether a statement is there for type checkers alone."""
    if not isinstance(statement, ast.If):
        return False
    test = statement.test
    return (test.id if isinstance(test, ast.Name) else getattr(test, "attr", "")) == "TYPE_CHECKING"


def _private_of(node: ast.ClassDef) -> Iterator[str]:
    """Yield the private attributes that a class defines or sets, in the order of its text."""
    for item in node.body:
        for inner in _in_order(item):
            if isinstance(inner, ast.Attribute) and is_private(inner.attr):
                if isinstance(inner.ctx, ast.Store) and isinstance(inner.value, ast.Name):
                    yield inner.attr
            elif inner is item or isinstance(item, ast.Assign | ast.AnnAssign):
                yield from filter(is_private, _binds(inner))


def _in_order(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and all in it, in the order of the text."""
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _in_order(child)


_WRITERS: dict[type[ast.AST], Callable[[_Writer, Any], None]] = {
    ast.FunctionDef: _Writer.function,
    ast.AsyncFunctionDef: _Writer.function,
    ast.ClassDef: _Writer.class_,
    ast.Lambda: _Writer.lambda_,
    **dict.fromkeys(_COMPREHENSIONS, _Writer.comprehension),
    ast.Name: _Writer.identifier,
    ast.Attribute: _Writer.access,
    ast.Call: _Writer.call,
    ast.AnnAssign: _Writer.annotated,
    ast.ExceptHandler: _Writer.handler,
    ast.MatchAs: _Writer.pattern,
    ast.MatchStar: _Writer.pattern,
    ast.MatchMapping: _Writer.mapping_pattern,
    ast.MatchClass: _Writer.class_pattern,
    ast.Constant: _Writer.constant,
    ast.JoinedStr: _Writer.joined,
    **dict.fromkeys(
        (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, ast.match_case),
        _Writer.block,
    ),
    ast.TryStar: _Writer.block,
}
