"""A host's own machine as a spec records it: its data, and of every function of the host a digest, so that a changed one is named."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from types import CodeType
from typing import Any

import orjson

from ...states.run.spec import machine_data
from ..machine.machine import MACHINE, Machine

_DIGITS = 10


def short_digest(data: bytes) -> str:
    """Return the short digest of bytes."""
    return sha256(data).hexdigest()[:_DIGITS]


def function_digest(function: Any) -> str:
    """
    Return the digest of a host's function: of its source, without comments and layout.

    Names of variables and docstrings count; functions that it calls do not. Without source it is that of the compiled function, and of an
    object that is no function that of its type and name.
    """
    try:
        return short_digest(ast.unparse(ast.parse(textwrap.dedent(inspect.getsource(function)))).encode())
    except (OSError, TypeError, SyntaxError):
        code = getattr(function, "__code__", None)
        named = f"{type(function)!r} {getattr(function, '__name__', '')}"
        return short_digest((_compiled(code) if isinstance(code, CodeType) else named).encode())


def _compiled(value: Any) -> str:
    """Return a compiled function or one of its constants as text, the same in every process."""
    if isinstance(value, CodeType):
        return f"{value.co_code.hex()} {value.co_names} {[*map(_compiled, value.co_consts)]}"
    return f"{sorted(map(ascii, value))}" if isinstance(value, frozenset) else ascii(value)


def host_text(machine: Machine | None) -> str:
    """Return what a spec's `host_machine` is for *machine*, empty for the standard one."""
    if machine is None or machine.is_standard:
        return ""
    data = machine.to_dict()
    data["code"] = {part: function_digest(function) for part, function in sorted(_functions(machine))}
    return orjson.dumps(data, option=orjson.OPT_SORT_KEYS).decode()


def _functions(machine: Machine) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield every function of the host that decides, with the part of the fingerprints that it belongs to."""
    host = machine.host
    for name, guard in host.guards.items():
        yield f"guard.{name}", guard.function
    for name, phase in host.phases.items():
        for item in ("arguments", "question"):
            if callable(getattr(phase, item)):
                yield f"phase.{name}.{item}", getattr(phase, item)
    for (source, trigger), tell in host.tells.items():
        yield f"row.{source}.{trigger}.tell", tell


def machine_fingerprints(text: str) -> dict[str, str]:
    """Return the fingerprints of the machine that a spec's `host_machine` describes, those of the standard one for an empty text."""
    return host_fingerprints(text or orjson.dumps(MACHINE.to_dict()).decode())


def host_fingerprints(text: str) -> dict[str, str]:
    """Return the fingerprints of a host's own machine: its rows, phases and guards, from a spec's `host_machine`; none without one."""
    data = machine_data(text)
    if not data:
        return {}
    code: Mapping[str, str] = data.get("code", {})
    found: dict[str, str] = {}
    earlier: dict[str, list[str]] = {}
    for row in data["transitions"]:
        part = row_part(row["source"], row["trigger"])
        guards = [*row.get("conditions", ()), *(f"not {name}" for name in row.get("unless", ()))]
        before = earlier.setdefault(row["source"], [])
        bound, tell = row.get("at_most", 0), code.get(f"{part}.tell")
        found[part] = short_digest(orjson.dumps([found.get(part), before, row["dest"], *guards, bound, tell]))
        before.append(row["trigger"])
    for phase in data["states"]:
        if "asks" in phase:
            functions = [code.get(f"phase.{phase['name']}.{item}") for item in ("arguments", "question")]
            whole = orjson.dumps([phase, functions], option=orjson.OPT_SORT_KEYS)
            found[f"phase.{phase['name']}"] = short_digest(whole)
    for guard in data.get("guards", ()):
        digest = f"{code.get('guard.' + guard['name'])}"
        # the model reads the sentence where a call is refused
        whole = "\n".join((digest, guard["sentence"], *guard.get("tools", ()))).encode()
        found[f"guard.{guard['name']}"] = short_digest(whole)
    return found


def row_part(source: str, trigger: str) -> str:
    """Return the part that a machine's rows of this source and trigger are; there may be several of them."""
    return f"row.{source}.{trigger}"
