"""
What others have said, made harmless for a prompt: it can open no section and close no fence.

Documents and tools' texts stand between markers; what is in a section of its own, such as a hint or an objective, has a
backslash before every line that would be a heading.
"""

from __future__ import annotations

import re

FENCE_BYTES = 20
"""What `fence` adds to a text and its name."""

DRAFT = "draft answer"
"""Title of a draft that is between markers."""

_MARKER = re.compile("<(?=<<)|>(?=>>)")
_SECTION = re.compile(r"(?:(?<=[\n\r\v\f\x85\u2028\u2029])|\A)(?=[ \t]*(?:#{1,6}(?:\s|\Z)|={3}))")


def inert(text: str) -> str:
    """Return *text* with a backslash before what would open a section of the prompt, as Markdown has it."""
    return _SECTION.sub(r"\\", text) if "#" in text or "===" in text else text


def fence(name: str, text: str) -> str:
    """Return *text* between markers that neither it nor *name* can forge: a marker inside them is broken up."""
    title, body = (_MARKER.sub("\\g<0>\u200b", part) for part in (name, text))
    return f"<<<document {' '.join(title.split())}\n{body}\n>>>"


_REST = re.compile(r"\n\n\[Only the first \d+ of \d+ characters of this document stand here\.\]\n?\Z")


def beginning(text: str, chars_max: int) -> str:
    """
    Return *text* within *chars_max* characters.

    One that is longer ends with a note of how much of it is here, unless there is no room for the note (about 100
    characters), and before that with the last line or sentence that ends within the last thousand characters, if one does.
    """
    if len(text) <= chars_max:
        return text
    note = "\n\n[Only the first {} of {} characters of this document stand here.]"
    room = chars_max - len(note.format(len(text), len(text)))
    if room < 0:
        return text[:chars_max]
    end = max(text.rfind(mark, max(0, room - 1000), room) for mark in ("\n", ". ")) + 1
    body = text[: end or room].rstrip()
    return body + note.format(len(body), len(text))


def without_note(text: str) -> tuple[str, bool]:
    """Return a text as `beginning` gave it without its note, and whether it is the whole of it."""
    found = _REST.search(text)
    return (text, True) if found is None else (text[: found.start()], False)


def fence_draft(text: str) -> str:
    """Return a draft as it stands, between markers when it has headings: what is copied from it must stay as it is."""
    return fence(DRAFT, text) if inert(text) != text else text
