"""Digests of functions that are none of paor's: of their source by what it means, else of their compiled form."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import CodeType
from typing import Any

from .source_digests import digest_of, function_digest


def foreign_digest(function: Any) -> str:
    """Return the digest of a function of somebody else's; of one that is only named, of its name."""
    try:
        return function_digest(inspect.getsource(function))
    except (OSError, TypeError, SyntaxError):
        code = getattr(function, "__code__", None)
        told = (repr(type(function)), getattr(function, "__name__", ""))
        return digest_of(_compiled_form(code) if isinstance(code, CodeType) else told)


def _compiled_form(code: CodeType) -> Iterator[str]:
    """Yield what a compiled function is, functions within it included."""
    yield code.co_code.hex()
    yield repr(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _compiled_form(constant)
        else:
            yield ascii(constant)
