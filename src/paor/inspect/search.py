"""Searching the runs of a journal: a text in what they were started with, what they called, how they ended, and what was said in them."""

from __future__ import annotations

import orjson

from ..fsm.journal.reader import JournalReader
from ..states.base.errors import UsageError

FOUND_MAX = 200
"""Runs that a search gives at most, the newest."""

TEXT_CHARS = 200
"""Characters of a text that is searched for."""

SEARCH_S = 2.0
"""Seconds after which a search ends with what it has found: the texts may be gigabytes."""


def search(reader: JournalReader, text: str) -> list[str]:
    """
    Return the ids of the runs that hold a text, newest first, at most `FOUND_MAX`.

    Small and large letters of ASCII count as the same; the text is taken as it is, no sign in it has a meaning. A search that takes longer
    than `SEARCH_S` ends with what it has found.

    Args:
        reader: What reads the journal.
        text: What to look for, of 1 to `TEXT_CHARS` characters.

    Raises:
        UsageError: It is empty or longer.
        JournalError: The journal cannot be read.
    """
    text = text.strip()
    if not 0 < len(text) <= TEXT_CHARS or any(char == "\0" or "\ud800" <= char <= "\udfff" for char in text):
        raise UsageError(f"q: expected 1 to {TEXT_CHARS} characters")
    patterns = _pattern(text), _pattern(orjson.dumps(text).decode()[1:-1])
    found = reader.search(patterns, most=FOUND_MAX, seconds=SEARCH_S)
    ids = reader.index.names(found)
    return [ids[run] for run in found if run in ids]


def _pattern(text: str) -> str:
    """Return what `LIKE` takes for a text anywhere, none of its signs with a meaning."""
    escaped = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"
