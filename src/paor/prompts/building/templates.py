"""
Templates: plain Markdown files with placeholders, and nothing else.

A template has a system part and a user part, divided by a line ``=== user ===``. Behind a line ``=== last ===`` a third part can
follow: then the run's actions with their results stand between the user part and this one, as a conversation that only grows, and
what changes from request to request belongs into the last part. A placeholder is ``{{KEY:NAME}}`` (document 003's form). A block of lines between blank lines disappears when it holds placeholders
and all of them are empty, so a heading never is above nothing. Values are inserted once and never scanned
again: text from a document or a tool cannot become a placeholder.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from ...states.base.errors import UsageError

NAMES = (
    *("selection", "parameters", "parameters_full", "refinement", "review", "output", "answer"),
    *("plan", "task_plan", "turn", "text"),
)
"""The templates that a host can replace, by name."""

CONVERSED = ("selection", "refinement", "answer", "review", "output")
"""Those that can have a last part."""

DIVIDER, LAST = "=== user ===", "=== last ==="
_PLACEHOLDER = re.compile(r"\{\{KEY:([A-Z_]+)\}\}")

Block = tuple[str, ...]
"""Literal text at even places, placeholder names at odd ones."""


@dataclass(frozen=True, slots=True)
class Template:
    """
    One parsed template.

    Attributes:
        system: Blocks of the system part.
        user: Blocks of the user part.
        keys: Every placeholder that occurs.
        last: Blocks of what follows the run's conversation; empty in a report.
    """

    system: tuple[Block, ...]
    user: tuple[Block, ...]
    keys: frozenset[str]
    last: tuple[Block, ...] = ()

    def system_text(self, values: Mapping[str, str]) -> str:
        """Return the system part with *values* in place; a name that is missing counts as empty."""
        return _fill(self.system, values)

    def user_text(self, values: Mapping[str, str]) -> str:
        """Return the user part, likewise."""
        return _fill(self.user, values)

    def last_text(self, values: Mapping[str, str]) -> str:
        """Return the last part, likewise."""
        return _fill(self.last, values)


def _fill(blocks: tuple[Block, ...], values: Mapping[str, str]) -> str:
    """Return *blocks* as text, without those whose placeholders are all empty."""
    texts = []
    for block in blocks:
        if len(block) == 1:
            texts.append(block[0])
        elif len(block) == 3:
            before, key, after = block
            if value := values.get(key):
                texts.append(f"{before}{value}{after}")
        else:
            inserted = [values.get(key, "") for key in block[1::2]]
            if any(inserted):
                pieces = list(block)
                pieces[1::2] = inserted
                texts.append("".join(pieces))
    return "\n\n".join(texts)


@lru_cache(maxsize=256)
def parse_template(text: str, name: str = "template") -> Template:
    """
    Return *text* as a template.

    Raises:
        UsageError: It is empty, or has a divider twice, or a last part that *name* cannot have.
    """
    text = text.replace("\r\n", "\n")
    before, *after = _parts(text, LAST, name)
    parts = _parts(before, DIVIDER, name)
    if not text.strip():
        raise UsageError(f"{name}: the template is empty")
    if after and name not in (*CONVERSED, "template"):
        raise UsageError(f"{name}: only {', '.join(CONVERSED)} can have the line {LAST!r}")
    system, user = ("", parts[0]) if len(parts) == 1 else (parts[0], parts[1])
    keys = frozenset(_PLACEHOLDER.findall(text))
    return Template(_blocks(system), _blocks(user), keys, _blocks(after[0]) if after else ())


def _parts(text: str, divider: str, name: str) -> list[str]:
    """Return *text* divided at the one line *divider*, whole where it has none."""
    parts = re.split(rf"(?m)^{re.escape(divider)}[ \t]*$", text)
    if len(parts) > 2:
        raise UsageError(f"{name}: the line {divider!r} may stand once, found it {len(parts) - 1} times")
    return parts


def _blocks(text: str) -> tuple[Block, ...]:
    """Return the blocks of one part, split at blank lines, each split at its placeholders."""
    found = (block.strip("\n") for block in re.split(r"\n[ \t]*\n", text.strip()))
    return tuple(tuple(_PLACEHOLDER.split(block)) for block in found if block.strip())


@lru_cache(maxsize=1)
def default_templates() -> dict[str, str]:
    """Return the shipped templates by name; those that can converse do, and begin with the same text. Read from the package once."""
    head, *parts = re.split(r"(?m)^=== (\w+) ===\n", _read_shipped("two_stage"))
    begin = f"{head}{DIVIDER}\n{parts[1]}{LAST}\n"
    named = zip(parts[2::2], parts[3::2], strict=True)
    return report_templates() | {name: begin + part for name, part in named}


@lru_cache(maxsize=1)
def report_templates() -> dict[str, str]:
    """Return those of profiles that tell a run as reports: the documents' own form, and a run that plans or calls natively."""
    return {name: _read_shipped(name) for name in NAMES}


@lru_cache(maxsize=1)
def single_stage_templates() -> dict[str, str]:
    """Return those of the profile's stage ``single``: its selection asks for document 002's bare choice."""
    return report_templates() | {"selection": _read_shipped("selection_single")}


def _read_shipped(name: str) -> str:
    return (Path(__file__).parent.parent / f"{name}.md").read_text(encoding="utf-8")
