"""
`typing.TypedDict` for pydantic, which wants `typing_extensions.TypedDict` before Python 3.12.

The class that makes those is taken from pydantic's own `ConfigDict`, so that paor does not depend on typing_extensions.
"""

from __future__ import annotations

from types import UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    Required,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from pydantic import ConfigDict


def modern(annotation: Any) -> Any:
    """
    Return *annotation* with every `typing.TypedDict` in it replaced by an equal one that pydantic takes.

    Raises:
        RecursionError: A `typing.TypedDict` that refers to itself.
    """
    if is_typeddict(annotation):
        return _copy(annotation) if type(annotation).__module__ == "typing" else annotation
    origin, inner = get_origin(annotation), get_args(annotation)
    if not inner or origin is Literal:
        return annotation
    if origin is Annotated:
        return Annotated[(modern(inner[0]), *inner[1:])]
    changed = tuple(map(modern, inner))
    if all(new is old for new, old in zip(changed, inner, strict=True)):
        return annotation
    if origin in (Union, UnionType):
        return Union[changed]  # noqa: UP007 - a tuple of types
    return origin[changed]


def _copy(annotation: Any) -> Any:
    """Return a TypedDict of the same name, keys and types."""
    fields = {}
    for name, kind in get_type_hints(annotation, include_extras=True).items():
        if get_origin(kind) in (Required, NotRequired):
            kind = get_args(kind)[0]
        mark = Required if name in annotation.__required_keys__ else NotRequired
        fields[name] = mark[modern(kind)]
    made: Any = type(ConfigDict)
    return made(annotation.__name__, (), {"__annotations__": fields})
