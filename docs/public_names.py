"""What is known of the public names: their source, their docstrings, what of them is not described."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, is_typeddict

from docstrings import Docstring, parsed

import paor

INNER = {
    "Engine": frozenset(("current_spec", "machine_for")),
    "Journal": frozenset(("reader",)),
    "Tool": frozenset(("invoke", "is_async", "reconciles_async", "spec")),
    "Redaction": frozenset(("found_in", "plan")),
    "EngineMachine": frozenset(("begin", "move", "teardown")),
    "WebFact": frozenset(("of", "read")),
    "Intent": frozenset(("of", "read")),
    "Message": frozenset(("of", "read", "told_error")),
    "Observation": frozenset(("of", "read")),
    "Selection": frozenset(("is_bare",)),
    "StepCheck": frozenset(("of", "read")),
    "ToolResult": frozenset(("of", "read")),
    "Visit": frozenset(("of", "read")),
    "Phase": frozenset(("enter", "exit", "request")),
    "Machine": frozenset(
        (
            *("add_model", "add_ordered_transitions", "add_states", "add_transition", "add_transitions"),
            *("callback", "callbacks", "dispatch", "remove_model", "remove_transition", "set_state"),
            *("rows", "rows_of"),
        )
    ),
}
"""Methods that paor itself calls; they may change without notice, so the reference leaves them out."""


def public() -> dict[str, Any]:
    """Return every public name with what it names: of `paor` and of the modules beside it, the fuzz kit left out."""
    homes = [paor, *(importlib.import_module(f"paor.{name}") for name in paor._FURTHER)]
    return {name: getattr(home, name) for home in homes for name in home.__all__}


@dataclass
class Member:
    """One thing with a docstring: a class, a function, a method, a property, an alias."""

    name: str
    node: ast.AST
    doc: Docstring
    fields: dict[str, tuple[str, str]] = field(default_factory=dict)
    members: list[Member] = field(default_factory=list)


def described(name: str) -> Member:
    """Return what is known of a public name, or of a ``module:Name``."""
    home, _, inner = name.rpartition(":")
    value = getattr(importlib.import_module(home) if home else paor, inner)
    if inner == "__version__":
        return Member(inner, ast.Name(id="str"), parsed("Version of paor, such as ``0.1.0``."))
    if inspect.isclass(value):
        return _class(value)
    if inspect.ismodule(value):
        return Member(inner, ast.Module([], []), parsed(value.__doc__ or ""))
    module = _home_of(inner, home)
    node = _found(_tree(module), inner)
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return Member(inner, node, parsed(ast.get_docstring(node) or ""))
    return Member(inner, node, parsed(_text_after(_tree(module), node)))


def undescribed(name: str) -> Iterator[str]:
    """Yield what of a public name has no description: parameters, fields, methods, attributes."""
    member = described(name)
    yield from _gaps(member, member.name)


def _gaps(member: Member, name: str) -> Iterator[str]:
    if not member.doc.text:
        yield f"{name}: no docstring"
    for item in member.fields:
        if item not in member.doc.named:
            yield f"{name}: field {item}"
    if not member.doc.like:
        yield from (
            f"{name}: argument {item}" for item in _parameters(member) if item not in member.doc.named
        )
    for inner in member.members:
        yield from _gaps(inner, f"{name}.{inner.name}")


def _parameters(member: Member) -> list[str]:
    """Return the parameters that need a description; those of twins stand with the one they are like."""
    if not isinstance(member.node, ast.FunctionDef | ast.AsyncFunctionDef):
        return []
    return [arg.arg for arg, _ in arguments_of(member.node.args)]


def arguments_of(args: ast.arguments) -> list[tuple[ast.arg, ast.expr | None]]:
    plain = [*args.posonlyargs, *args.args]
    first = len(plain) - len(args.defaults)
    found: list[tuple[ast.arg, ast.expr | None]] = [
        (arg, args.defaults[place - first] if place >= first else None) for place, arg in enumerate(plain)
    ]
    found += [(args.vararg, None)] if args.vararg else []
    found += list(zip(args.kwonlyargs, args.kw_defaults, strict=True))
    found += [(args.kwarg, None)] if args.kwarg else []
    return [(arg, default) for arg, default in found if arg.arg not in ("self", "cls")]


def _class(kind: type) -> Member:
    """Return a class with its fields and its public methods, also those of bases of paor's own that are not public themselves."""
    if is_typeddict(kind):
        return _options(kind)
    homes = [base for base in kind.__mro__ if base.__module__.startswith("paor.")]
    homes = [base for base in homes if base is kind or base.__name__ not in public()]
    made = Member(kind.__name__, _node(kind), parsed(ast.get_docstring(_node(kind)) or ""))
    for base in reversed(homes):
        for name, (annotation, default) in _fields(base).items():
            made.fields[name] = (annotation, default)
    seen: set[str] = set()
    for base in homes:
        for node in _node(base).body:
            if isinstance(
                node, ast.FunctionDef | ast.AsyncFunctionDef
            ) and node.name not in seen | _overloads(node):
                seen.add(node.name)
                shown = not node.name.startswith("_") and node.name not in INNER.get(kind.__name__, ())
                if shown and not issubclass(kind, BaseException):
                    made.members.append(Member(node.name, node, parsed(ast.get_docstring(node) or "")))
    made.fields.update({} if made.fields else _set_in_protocol(homes) or _set_in_class(homes, made.doc))
    return made


def _options(kind: type) -> Member:
    """Return the options that a TypedDict declares: each a field that is annotated with its type and an `Option`."""
    made = Member(kind.__name__, _node(kind), parsed(ast.get_docstring(_node(kind)) or ""))
    for base in (*getattr(kind, "__orig_bases__", ()), kind):
        if not is_typeddict(base):
            continue
        made.doc.named = parsed(ast.get_docstring(_node(base)) or "").named | made.doc.named
        for node in _node(base).body:
            if isinstance(node, ast.AnnAssign):
                shape, default = (
                    node.annotation,
                    "False" if ast.unparse(node.annotation) == "bool" else "None",
                )
                if isinstance(shape, ast.Subscript) and ast.unparse(shape.value) == "Annotated":
                    shape, option = shape.slice.elts  # type: ignore[attr-defined]
                    given = [ast.unparse(item.value) for item in option.keywords if item.arg == "default"]
                    default = given[0].replace("MappingProxyType({})", "{}") if given else default
                made.fields[ast.unparse(node.target)] = (ast.unparse(shape), default)
    return made


def _overloads(node: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """Return the name of a function that only gives types to a later one of the same name."""
    return {node.name} if any(ast.unparse(mark) == "overload" for mark in node.decorator_list) else set()


_VALUES = ("__dataclass_fields__", "__struct_fields__", "model_fields", "_fields")


def _fields(kind: type) -> dict[str, tuple[str, str]]:
    """Return the fields that a class of values declares, with annotation and default."""
    if not any(hasattr(kind, mark) for mark in _VALUES):
        return {}
    found = {}
    for node in _node(kind).body:
        if not (isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)):
            continue
        annotation = ast.unparse(node.annotation)
        if not node.target.id.startswith("_") and not annotation.startswith(("ClassVar", "InitVar")):
            found[node.target.id] = _shape(annotation, node.value)
    return found


def _set_in_protocol(homes: list[type]) -> dict[str, tuple[str, str]]:
    """Return the attributes that a protocol asks for."""
    return {
        node.target.id: (ast.unparse(node.annotation), "")
        for base in homes
        if getattr(base, "_is_protocol", False)
        for node in _node(base).body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }


def _set_in_class(homes: list[type], doc: Docstring) -> dict[str, tuple[str, str]]:
    """Return the described attributes of a class whose subclasses set them, with what they are without that."""
    found = {}
    for base in reversed(homes):
        module = importlib.import_module(base.__module__)
        for node in _node(base).body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                annotation = ast.unparse(node.annotation)
                if annotation.startswith("ClassVar["):
                    value = node.value and _Constants(module).visit(node.value)
                    found[node.target.id] = _shape(annotation[len("ClassVar[") : -1], value)
    return {name: found.get(name, ("", "")) for name in doc.named} if {*found} & {*doc.named} else {}


def _shape(annotation: str, value: ast.expr | None) -> tuple[str, str]:
    """Return type and default of a field, the bounds of a validated one with its type."""
    if not (isinstance(value, ast.Call) and ast.unparse(value.func) in ("Field", "field")):
        return annotation, "" if value is None else ast.unparse(value)
    given = {item.arg: item.value for item in value.keywords}
    signs = {"gt": ">", "ge": "from", "lt": "<", "le": "to"}
    bounds = [f"{signs[name]} {_number(given[name])}" for name in signs if name in given]
    default = ast.unparse(given["default"]) if "default" in given else ""
    if "default_factory" in given:
        made = ast.unparse(given["default_factory"])
        default = {"dict": "{}", "list": "[]"}.get(made, f"{made}()")
    return annotation + (f", {' '.join(bounds)}" if bounds else ""), default


def _number(node: ast.expr) -> str:
    value = node.value if isinstance(node, ast.Constant) else None
    return f"{value:,}" if isinstance(value, int) else ast.unparse(node)


@cache
def initial_of(name: str) -> ast.FunctionDef | None:
    """Return the ``__init__`` of a public class, the nearest that paor has."""
    kind = getattr(paor, name, None)
    if kind is None or getattr(kind, "_is_protocol", False):
        return None
    for base in kind.__mro__:
        if base.__module__.startswith("paor."):
            for node in _node(base).body:
                if isinstance(node, ast.FunctionDef) and node.name == "__init__":
                    return node
    return None


@cache
def _tree(module: ModuleType) -> ast.Module:
    """Return the source of a module; constants in its defaults stand as their values."""
    tree = ast.parse(Path(inspect.getsourcefile(module) or "").read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.arguments):
            node.defaults = [_Constants(module).visit(item) for item in node.defaults]
            node.kw_defaults = [item and _Constants(module).visit(item) for item in node.kw_defaults]
        elif isinstance(node, ast.AnnAssign) and isinstance(node.value, ast.Call):
            node.value = _Constants(module).visit(node.value)
    return tree


class _Constants(ast.NodeTransformer):
    """Put values in the places of a module's constants."""

    def __init__(self, module: ModuleType) -> None:
        self.module = module

    def visit_Name(self, node: ast.Name) -> ast.expr:
        value = getattr(self.module, node.id, None) if node.id.isupper() else None
        return ast.Constant(value) if type(value) in (bool, int, float, str) else node


def _node(kind: type) -> ast.ClassDef:
    node = _found(_tree(importlib.import_module(kind.__module__)), kind.__name__)
    assert isinstance(node, ast.ClassDef)
    return node


def _found(tree: ast.Module, name: str) -> ast.stmt:
    for node in tree.body:
        targets = [getattr(node, "name", None), getattr(getattr(node, "target", None), "id", None)]
        targets += [getattr(item, "id", None) for item in getattr(node, "targets", ())]
        if name in targets:
            return node
    raise LookupError(name)


def _home_of(name: str, home: str) -> ModuleType:
    """Return the module in which a name is defined, through the modules that only pass it on."""
    module = importlib.import_module(home or "paor")
    lazy: dict[str, str] = getattr(module, "_MODULES", {})
    if name in lazy:
        return _home_of(name, f"{module.__name__}{lazy[name]}")
    for node in _tree(module).body:
        if isinstance(node, ast.ImportFrom) and name in [item.name for item in node.names]:
            place = "." * node.level + (node.module or "")
            package = module.__name__ if hasattr(module, "__path__") else module.__name__.rpartition(".")[0]
            return _home_of(name, importlib.util.resolve_name(place, package))
    return module


def _text_after(tree: ast.Module, node: ast.stmt) -> str:
    """Return the string that is below an assignment."""
    after = tree.body[tree.body.index(node) + 1 :][:1]
    text = after[0].value if after and isinstance(after[0], ast.Expr) else None
    return inspect.cleandoc(str(text.value)) if isinstance(text, ast.Constant) else ""
