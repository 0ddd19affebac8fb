"""
What can be shown of a journal without its content: names, times, numbers, and words of paor's own.

Rows hold names from closed lists, labels, digests and numbers; free text is in payloads (``docs/journal-format.md``). A file that
was changed may hold anything anywhere, so a name is shown only in the form of one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from ..states.base.errors import (
    Erased,
    JournalBusy,
    JournalDamaged,
    JournalTooNew,
    JournalTooOld,
    NotAJournal,
    PaorError,
    UsageError,
)

LEFT_OUT = "(left out)"
"""In the place of what should be a name and is not of the form of one."""

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/@+-]{0,119}")
_PLACE = re.compile(r"[a-z_]+(?: [a-z_]+){0,2}(?: -?\d+)?")
_STEP = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,79}(?:\[\d+\])?")

_TOLD: tuple[type[PaorError], ...] = (UsageError, NotAJournal, JournalBusy, JournalTooNew, JournalTooOld)
"""Errors whose words are paor's own and the caller's: nothing of a journal's content is in them."""


def name_of(value: object) -> str:
    """Return a name as it stands, `LEFT_OUT` for what has not the form of one."""
    return value if isinstance(value, str) and _NAME.fullmatch(value) else LEFT_OUT


def names_of(values: Iterable[object]) -> list[str]:
    """Return names, each in the form of one."""
    return [name_of(value) for value in values]


def facts_of(column: Mapping[str, Any]) -> dict[str, Any]:
    """Return a JSON column of a row with every text in it in the form of a name."""
    return {
        name: value if not isinstance(value, str) else value and name_of(value)
        for name, value in column.items()
    }


def field_of(path: str) -> str:
    """Return the place of a difference without the keys of foreign data: the first two steps of ``change.intent.arguments.city``."""
    steps = path.split(".")[:2]
    return ".".join(step if _STEP.fullmatch(step) else LEFT_OUT for step in steps)


def part_of(name: str) -> str:
    """Return the name of a part in which two runs differ, without names that the host's values have."""
    if name.startswith("values."):
        return "values"
    head, mark, rest = name.partition(": ")
    if mark:
        return f"{name_of(head)}: {', '.join(names_of(rest.split(', ')))}"
    return name if all(_NAME.fullmatch(word) for word in name.split(" ")) else LEFT_OUT


def place_of(text: str) -> str:
    """Return the place of a defect, such as ``transitions seq 17``."""
    return text if _PLACE.fullmatch(text) else LEFT_OUT


def moment_text(microseconds: int | None) -> str | None:
    """Return a moment as ``2026-05-31T18:00:00.000Z``, None for none."""
    if microseconds is None:
        return None
    try:
        moment = datetime.fromtimestamp(microseconds / 1e6, UTC)
    except (OverflowError, OSError, ValueError):
        return LEFT_OUT
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03}Z"


def error_words(error: PaorError) -> str:
    """Return what an error says, without what a journal holds."""
    if isinstance(error, _TOLD):
        return str(error)
    if isinstance(error, Erased):
        return "what this needs has been erased"
    if isinstance(error, JournalDamaged):
        return "the journal is damaged where this reads it; the tool verify says where"
    return f"the journal cannot be read ({type(error).__name__})"
