"""
A text that has begun to say the same again and again, as small models do: found while it comes in; pure.

What counts is exact, so that a table of like rows, a quoted clause or a list with one new word each is none: at least
1,000 characters that the text ends with, and the same as many directly before them.
"""

from __future__ import annotations

REPEATED_CHARS = 1_000
"""How many characters a text has to say again; a shorter passage that comes again is one while it fills as many."""


def said_once(text: str) -> int | None:
    """Return after how many characters *text* only repeats what stands directly before, None if it does not."""
    tail = text[-REPEATED_CHARS:]
    before = text.rfind(tail, 0, -1) if len(tail) == REPEATED_CHARS else -1
    period = len(text) - REPEATED_CHARS - before
    if before < 0 or text[-period:] != text[-2 * period : -period]:
        return None
    begin = len(text) - 2 * period
    while begin and text[begin - 1] == text[begin - 1 + period]:
        begin -= 1
    return begin + period
