"""
Templates: plain Markdown files with placeholders, and nothing else.

A template has a system part and a user part, divided by a line ``=== user ===``. A placeholder is
``{{KEY:NAME}}`` (document 003's form). A block of lines between blank lines disappears when it holds placeholders
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
    *("opening", "selection", "parameters", "parameters_full", "refinement", "review", "output", "answer"),
    *("plan", "task_plan", "turn", "text"),
)
"""
The templates that a host can replace, by name.

With ``opening`` every request of the profile `two_stage` begins, and behind it stand the run's actions with their results; the
others then say only what is asked. One that names the objective, the catalog, the history or the observation is the whole prompt.
"""

_RULES = frozenset(("RULES", "OWN_RULES"))
DIVIDER = "=== user ==="
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
    """

    system: tuple[Block, ...]
    user: tuple[Block, ...]
    keys: frozenset[str]

    def system_text(self, values: Mapping[str, str], *, before_rules: str = "") -> str:
        """
        Return the system part with *values* in place; a name that is missing counts as empty.

        Args:
            values: By the placeholders' names.
            before_rules: A text that stands before the business rules, or at the end where there are none; taken as it is.
        """
        if not before_rules:
            return _fill(self.system, values)
        place = next(
            (n for n, block in enumerate(self.system) if _RULES & set(block[1::2])), len(self.system)
        )
        return _fill((*self.system[:place], (before_rules,), *self.system[place:]), values)

    def user_text(self, values: Mapping[str, str]) -> str:
        """Return the user part, likewise."""
        return _fill(self.user, values)


_VELOCITY = re.compile(r"#(?:foreach|if|set)\s*\(|\$!?\{?(?:query|tools?|results?|transcript|context)\b")
_INSTEAD = {
    "query": "OBJECTIVE",
    "context": "CONTEXT",
    "tools": "CATALOG_FULL",
    "results": "RESULTS",
    "transcript": "TRANSCRIPT",
}


def other_form(text: str) -> str | None:
    """Return what to write instead in a planning template in document 004's own form, Velocity, which is not rendered; None for any other."""
    if _VELOCITY.search(text) is None:
        return None
    told = ", ".join(f"{{{{KEY:{key}}}}} for ${name}" for name, key in _INSTEAD.items())
    return f"it is written in Velocity, which is not rendered: write {told}; lists are written out in their places"


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
        UsageError: It is empty, or has more than one divider.
    """
    parts = re.split(rf"(?m)^{re.escape(DIVIDER)}[ \t]*$", text.replace("\r\n", "\n"))
    if len(parts) > 2:
        raise UsageError(f"{name}: the line {DIVIDER!r} may stand once, found it {len(parts) - 1} times")
    if not text.strip():
        raise UsageError(f"{name}: the template is empty")
    system, user = ("", parts[0]) if len(parts) == 1 else (parts[0], parts[1])
    keys = frozenset(_PLACEHOLDER.findall(text))
    return Template(_blocks(system), _blocks(user), keys)


def _blocks(text: str) -> tuple[Block, ...]:
    """Return the blocks of one part, split at blank lines, each split at its placeholders."""
    found = (block.strip("\n") for block in re.split(r"\n[ \t]*\n", text.strip()))
    return tuple(tuple(_PLACEHOLDER.split(block)) for block in found if block.strip())


@lru_cache(maxsize=1)
def default_templates() -> dict[str, str]:
    """Return the shipped templates by name, of which two stages tell a run as a conversation; read from the package once."""
    parts = re.split(
        r"(?m)^=== (selection|refinement|answer|review|output) ===\n", _read_shipped("two_stage")
    )
    asked = dict(zip(parts[1::2], parts[2::2], strict=True))
    return report_templates() | {"opening": parts[0]} | asked


@lru_cache(maxsize=1)
def report_templates() -> dict[str, str]:
    """Return those that tell a run as a report: of the strict profile, and of runs that plan or call tools natively."""
    return {name: _read_shipped(name) for name in NAMES if name != "opening"}


def reported(templates: Mapping[str, str]) -> dict[str, str]:
    """Return *templates* with the shipped ones of a conversation replaced by those of a report, for a run that holds none."""
    shipped, reports = default_templates(), report_templates()
    kept = {name: text for name, text in templates.items() if name != "opening"}
    return {name: reports[name] if text == shipped.get(name) else text for name, text in kept.items()}


@lru_cache(maxsize=1)
def single_stage_templates() -> dict[str, str]:
    """Return those of the profile's stage ``single``: its selection asks for document 002's bare choice."""
    return report_templates() | {"selection": _read_shipped("selection_single")}


def _read_shipped(name: str) -> str:
    return (Path(__file__).parent.parent / f"{name}.md").read_text(encoding="utf-8")
