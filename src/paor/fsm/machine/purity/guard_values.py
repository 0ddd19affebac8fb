"""
What the variables of a guard may hold before it is called, looked at without running any code of the host.

Objects are compared by identity and asked by `inspect.getattr_static`: a host's ``__eq__`` or property may do anything.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, time, timedelta, tzinfo
from enum import Enum
from functools import partial
from pathlib import PurePath
from types import (
    BuiltinFunctionType,
    EllipsisType,
    FunctionType,
    GenericAlias,
    MappingProxyType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    ModuleType,
    NoneType,
    NotImplementedType,
    UnionType,
    WrapperDescriptorType,
)
from typing import Any, TypeVar

from .impure_names import name_of, public

_FIXED = (
    *(int, float, complex, str, bytes, range, slice, tuple, frozenset, MappingProxyType, Enum, PurePath),
    *(date, time, timedelta, tzinfo, NoneType, EllipsisType, NotImplementedType, GenericAlias, UnionType),
)
_FIXED_MODULES = {"decimal", "fractions", "functools", "ipaddress", "operator", "re", "typing", "uuid"}
_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: a class that is not built into the interpreter
_PACKAGE = __name__.partition(".")[0]
DEPTH_MAX = 30
"""How far functions in functions, and values in values, are followed."""

ABSENT = object()


@dataclass(frozen=True, slots=True)
class Atom:
    """
    One thing that a variable may hold.

    Attributes:
        kind: ``known`` for the thing itself, ``made`` for an instance of a class, ``context`` for what is reached from the
            guard's parameter, ``method`` for a method of that or of something unknown, ``constant`` for one in the code.
        name: What messages call it.
        thing: The thing or the class; of a method what it belongs to; compared by identity, so that no code of the host runs.
    """

    kind: str
    name: str
    thing: Any = field(default=None, compare=False)
    identity: int = 0


_T = TypeVar("_T")
Value = frozenset[Atom]
UNKNOWN: Value = frozenset()


def known(name: str, thing: object) -> Value:
    named = issubclass(type(thing), ModuleType | type | FunctionType)
    return frozenset({Atom("known", name_of(thing) if named else name, thing, id(thing))})


def constant(thing: object) -> Value:
    return frozenset({Atom("constant", "a constant", thing, id(thing))})


def constants(value: Value, kind: type[_T]) -> list[_T]:
    """Return the constants of a kind in *value*."""
    return [atom.thing for atom in value if atom.kind == "constant" and type(atom.thing) is kind]


def context_in(*values: Value) -> Value:
    """Return what in *values* is reached from the context."""
    return frozenset(atom for value in values for atom in value if atom.kind == "context")


def attribute_of(atom: Atom, name: str) -> tuple[Any, bool]:
    """Return an attribute as it is there, no code run for it, and whether a call gets what it is taken from first."""
    thing, of_type = atom.thing, issubclass(type(atom.thing), ModuleType | type) and atom.kind == "known"
    held = {} if of_type or atom.kind == "made" else dict(parts(thing))
    if f".{name}" in held:
        return held[f".{name}"], False
    static = inspect.getattr_static(thing, name, ABSENT)
    if issubclass(type(static), staticmethod):
        return static.__func__, False
    if issubclass(type(static), classmethod):
        return static.__func__, True
    return static, not of_type and has_name(static)


def parts(thing: Any) -> Iterator[tuple[str, object]]:
    """Yield what a value holds, with what is written behind its name."""
    kind = type(thing)
    if issubclass(kind, tuple | frozenset | MappingProxyType):
        yield from (
            ("[...]", part) for part in (thing.values() if issubclass(kind, MappingProxyType) else thing)
        )
    elif issubclass(kind, partial | MethodType):
        function, arguments, keywords = unwrapped(thing)
        yield from (("", part) for part in (function, *arguments, *keywords.values()))
    elif (
        not issubclass(kind, type)
        and (wrapped := inspect.getattr_static(thing, "__wrapped__", None)) is not None
    ):
        yield "", wrapped
    elif not issubclass(kind, type) and kind.__module__.partition(".")[0] not in sys.stdlib_module_names:
        yield from ((f".{name}", part) for name, part in getattr(thing, "__dict__", {}).items())
        for base in kind.__mro__:
            for name, slot in vars(base).items():
                is_field = type(slot) is MemberDescriptorType and not name.startswith("__")
                if is_field and (part := _slot(slot, thing)) is not ABSENT:
                    yield f".{name}", part


def _slot(slot: Any, thing: object) -> object:
    try:
        return slot.__get__(thing)
    except AttributeError:  # not set
        return ABSENT


def unwrapped(thing: Any) -> tuple[Any, list[object], dict[str, Any]]:
    """Return the function that a call of *thing* comes to in the end, with the arguments that it gets first."""
    arguments: list[object] = []
    keywords: dict[str, Any] = {}
    for _ in range(DEPTH_MAX):
        kind = type(thing)
        call = inspect.getattr_static(kind, "__call__", None)
        if issubclass(kind, partial):
            thing, arguments, keywords = thing.func, [*thing.args, *arguments], thing.keywords | keywords
        elif kind is MethodType:
            thing, arguments = thing.__func__, [thing.__self__, *arguments]
        elif type(call) is FunctionType:
            thing, arguments = call, [thing, *arguments]
    return thing, arguments, keywords


def given_in(value: Value, method: str) -> list[str]:
    """Return the names of what a guard did not make and the method would change."""
    changing = (MethodDescriptorType, WrapperDescriptorType)
    return sorted(
        atom.name
        for atom in value
        if atom.kind == "context"
        or (
            atom.kind == "known"
            and not has_name(atom.thing)
            and type(inspect.getattr_static(atom.thing, method, None)) in changing
        )
    )


def has_name(thing: object) -> bool:
    """Return whether it is a module, a class or a function, and no value."""
    return name_of(thing) != name_of(type(thing))


def is_path(atom: Atom) -> bool:
    return issubclass(atom.thing if atom.kind == "made" else type(atom.thing), PurePath)


def is_fixed(kind: type) -> bool:
    """Return whether instances of a class cannot change, but for what they hold."""
    is_function = not kind.__flags__ & _HEAP_TYPE and "__call__" in vars(kind)
    return issubclass(kind, _FIXED) or is_function or public(kind.__module__) in _FIXED_MODULES


def is_frozen(thing: object) -> bool:
    """Return whether an object of some class cannot change: it is declared so, or it holds nothing."""
    kind = type(thing)
    marks = [getattr(kind, name, None) for name in ("__dataclass_params__", "__struct_config__")]
    config = getattr(kind, "model_config", None)
    if any(getattr(mark, "frozen", False) for mark in marks) or (
        type(config) is dict and config.get("frozen")
    ):
        return True
    bases = kind.__mro__[:-1]  # of a class that is written in C nobody sees what it holds
    is_written_in_c = any(type(vars(base).get("__new__")) is BuiltinFunctionType for base in bases)
    return (
        not list(parts(thing)) and not is_written_in_c and all(base.__flags__ & _HEAP_TYPE for base in bases)
    )


def is_of_host(thing: Any) -> bool:
    """Return whether it is a function of the host's own, to be walked, and not one of a library."""
    if type(thing) is not FunctionType:
        return False
    top = str(thing.__globals__.get("__name__")).partition(".")[0]
    installed = {"site-packages", "dist-packages"} & set(PurePath(thing.__code__.co_filename).parts)
    return not installed and top != _PACKAGE and top not in sys.stdlib_module_names
