"""A host's own machine as a spec records it: its data, and of every function of the host a digest, so that a changed one is named."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from types import CodeType
from typing import Any

import orjson

from ...states.run.spec import machine_data
from ..machine.machine import Machine
from .source_digests import digest_of, function_digest, short_digest


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


def host_text(machine: Machine | None) -> str:
    """Return what a spec's `host_machine` is for *machine*, empty for the standard one."""
    if machine is None or machine.is_standard:
        return ""
    data = machine.to_dict()
    data["code"] = {part: foreign_digest(function) for part, function in sorted(_functions(machine))}
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


def host_fingerprints(text: str) -> dict[str, str]:
    """Return the fingerprints of a host's own machine: its rows, phases and guards, by what the spec says of them."""
    data = machine_data(text)
    if not data:
        return {}
    code: Mapping[str, str] = data.get("code", {})
    found: dict[str, str] = {}
    earlier: dict[str, list[str]] = {}
    for row in data["transitions"]:
        part = f"row.{row['source']}.{row['trigger']}"
        guards = [*row.get("conditions", ()), *(f"not {name}" for name in row.get("unless", ()))]
        before = earlier.setdefault(row["source"], [])
        told = [
            found.get(part),
            list(before),
            row["dest"],
            *guards,
            row.get("at_most", 0),
            code.get(f"{part}.tell"),
        ]
        found[part] = short_digest(orjson.dumps(told))
        before.append(row["trigger"])
    for phase in data["states"]:
        if "asks" in phase:
            functions = [code.get(f"phase.{phase['name']}.{item}") for item in ("arguments", "question")]
            found[f"phase.{phase['name']}"] = short_digest(
                orjson.dumps([phase, functions], option=orjson.OPT_SORT_KEYS)
            )
    for guard in data.get("guards", ()):
        parts = (
            f"{code.get('guard.' + guard['name'])}",
            guard["sentence"],  # the model reads it where a call is refused
            *guard.get("tools", ()),
        )
        found[f"guard.{guard['name']}"] = digest_of(parts)
    return found
