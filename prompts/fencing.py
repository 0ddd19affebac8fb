"""
What others have said, made harmless for a prompt: it can open no section and close no fence.

Documents and tools' texts stand between markers; what stands in a section of its own, such as a hint or an objective, has a
backslash before every line that would be a heading.
"""

from __future__ import annotations

import re

DRAFT = "draft answer"
"""Title of a draft that stands between markers."""

_MARKER = re.compile("<(?=<<)|>(?=>>)")
_SECTION = re.compile(r"(?:(?<=[\n\r\v\f\x85\u2028\u2029])|\A)(?=[ \t]*(?:#{1,6}(?:\s|\Z)|={3}))")


def inert(text: str) -> str:
    """Return *text* with a backslash before what would open a section of the prompt, as Markdown has it."""
    return _SECTION.sub(r"\\", text) if "#" in text or "===" in text else text


def fenced(name: str, text: str) -> str:
    """Return *text* between markers that neither it nor *name* can forge: a marker inside them is broken up."""
    title, body = (_MARKER.sub("\\g<0>\u200b", part) for part in (name, text))
    return f"<<<document {' '.join(title.split())}\n{body}\n>>>"


def drafted(text: str) -> str:
    """Return a draft as it stands, between markers when it has headings: what is copied from it must stay as it is."""
    return fenced(DRAFT, text) if inert(text) != text else text
