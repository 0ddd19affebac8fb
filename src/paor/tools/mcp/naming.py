"""What a server lists, as tools of a catalog: names, effect classes, descriptions. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from hashlib import sha256
from typing import Any

from ...states.base.errors import UsageError
from ...states.records.actions import Effect
from ..catalog import fold_name
from ..schema.parameters import ParameterSchema, SchemaError
from .settings import McpSettings

RESERVED = frozenset({"ai", "document", "task", "web", "workflow"})
"""Methods of paor's own tools; a server that calls itself so would take their place."""

_NONE: Mapping[str, str] = {}

NAME_CHARS = 64
DESCRIPTION_CHARS = 1000


@dataclass(frozen=True, slots=True)
class Listed:
    """
    One tool as its server lists it.

    Attributes:
        name: As the server has it; what it is called with.
        description: In the server's words; data, never a rule.
        schema: JSON Schema of the arguments, as it came.
        read_only, idempotent: The server's hints.
    """

    name: str
    description: str
    schema: dict[str, Any]
    read_only: bool = False
    idempotent: bool = False


@dataclass(frozen=True, slots=True)
class ListedTool:
    """A listed tool with its place in a catalog: canonical name and effect class."""

    name: str
    effect: Effect
    listed: Listed


def prefix_of(settings: McpSettings, own_name: str) -> str:
    """Return the first part of the tools' names: the host's choice, else what the server calls itself, made fit."""
    if settings.name:
        return settings.name
    name = _fit(own_name, 40) or "mcp"
    if not name[0].isalpha():
        name = f"mcp_{name}"
    return f"mcp_{name}" if fold_name(name) in RESERVED else name


def entries_of(
    settings: McpSettings, prefix: str, listed: Sequence[Listed], refused: Mapping[str, str] = _NONE
) -> tuple[list[ListedTool], dict[str, str]]:
    """
    Return the catalog entries of a listing, and why other tools have none, by the server's names.

    A name that is none here is made fit; tools whose names would be the same each get a digest of their own name, so
    that none takes another's place when the listing changes.

    Args:
        settings: Of the server.
        prefix: First part of the names.
        listed: What it lists.
        refused: What it lists in a form that is none, by name, with the reason.

    Raises:
        UsageError: A pattern of `effects` or `include` that fits no tool, or more tools than `tools_max`.
    """
    skipped = {name: reason for name, reason in refused.items() if _is_wanted(settings, name)}
    kept: list[Listed] = []
    for tool in listed:
        if not _is_wanted(settings, tool.name):
            continue
        if any(tool.name == other.name for other in kept):
            skipped[tool.name] = "is listed twice; the first one counts"
            continue
        try:
            ParameterSchema(tool.schema)
        except SchemaError as error:
            skipped[tool.name] = one_line(str(error), 300)
        else:
            kept.append(tool)
    if len(kept) > settings.tools_max:
        raise UsageError(
            f"{settings.shown} offers {len(kept)} tools, at most {settings.tools_max} are taken;"
            " choose some with include=[...]"
        )
    _check_patterns(settings, [*(tool.name for tool in listed), *refused])
    taken: defaultdict[str, list[str]] = defaultdict(list)
    names = {tool.name: f"{prefix}.{_fit(tool.name, NAME_CHARS, dots=True) or 'tool'}" for tool in kept}
    for own, name in names.items():
        taken[fold_name(name)].append(own)
    for group in taken.values():
        for own in group if len(group) > 1 else ():
            names[own] += f"_{sha256(own.encode('utf-8', 'replace')).hexdigest()[:6]}"
    return [ListedTool(names[tool.name], effect_of(settings, tool), tool) for tool in kept], skipped


def effect_of(settings: McpSettings, tool: Listed) -> Effect:
    """Return the effect class: the host's word, else ``once``, else the hints where the host trusts them."""
    for pattern, effect in settings.effects.items():
        if fnmatchcase(tool.name, pattern):
            return effect
    if settings.trust_annotations:
        return "read" if tool.read_only else "idempotent" if tool.idempotent else "once"
    return "once"


def one_line(text: str, chars_max: int = DESCRIPTION_CHARS) -> str:
    """Return foreign *text* on one line without control characters, cut to size."""
    plain = "".join(
        " " if unicodedata.category(sign) in ("Cc", "Cf", "Zl", "Zp") else sign for sign in text[:20_000]
    )
    line = " ".join(plain.encode("utf-8", "replace").decode().split())
    return line if len(line) <= chars_max else f"{line[: chars_max - 1]}…"


def _fit(name: str, chars_max: int, *, dots: bool = False) -> str:
    """Return *name* with letters, digits, _ and - only, and with single dots inside where they are wanted."""
    fit = re.sub(r"[^A-Za-z0-9_.-]+" if dots else r"[^A-Za-z0-9_-]+", "_", name.strip())
    return re.sub(r"\.{2,}", ".", fit).strip("._" if dots else "_")[:chars_max].rstrip(".")


def _is_wanted(settings: McpSettings, name: str) -> bool:
    if any(fnmatchcase(name, pattern) for pattern in settings.exclude):
        return False
    return not settings.include or any(fnmatchcase(name, pattern) for pattern in settings.include)


def _check_patterns(settings: McpSettings, offered: Sequence[str]) -> None:
    """Refuse a pattern that fits nothing: a typing error in `effects` would leave a tool in another class."""
    patterns: Mapping[str, Sequence[str]] = {"effects": list(settings.effects), "include": settings.include}
    for option, given in patterns.items():
        for pattern in given:
            if not any(fnmatchcase(name, pattern) for name in offered):
                names = ", ".join(sorted(one_line(name, 40) for name in offered)[:12])
                raise UsageError(
                    f"{settings.shown} offers no tool {pattern!a} ({option}); it offers: {names}"
                )
