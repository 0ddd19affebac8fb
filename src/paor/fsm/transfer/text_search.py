"""
Where does a piece of a text stand? What erasing and redacting search with; pure.

Texts are compared in a form without blanks, cases and JSON's escapes, so that a line break that became a space, or a
text within JSON within JSON, hides nothing. An excerpt is `EXCERPT` characters in a row of that form: less than what
32 characters of running text hold.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

EXCERPT = 24
"""Characters in a row, blanks aside, that are an excerpt."""

SHORTEST = 4
"""Characters, blanks aside, below which a whole text is too short to be searched for."""

_PASSES = 6
"""How deep JSON within JSON is unescaped."""

_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.?))", re.DOTALL)
_CONTROL = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def _unescape(found: re.Match[str]) -> str:
    return chr(int(found[1], 16)) if found[1] else _CONTROL.get(found[2], found[2])


def plain(body: str | bytes) -> str:
    """Return a body as text without JSON's escapes; bytes that are no UTF-8 as one character each."""
    text = body if isinstance(body, str) else _decode(body)
    for _ in range(_PASSES):
        if "\\" not in text:
            break
        text = _ESCAPE.sub(_unescape, text)
    if any("\ud800" <= char <= "\udbff" for char in text):  # pairs that were escaped one by one
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def unescaped(text: str) -> Iterator[tuple[str, Sequence[int]]]:
    """
    Yield *text*, then without its outermost JSON escapes, and so on until it is `plain`.

    Beside each is where its characters begin in *text*, and as a last place the end of *text*.
    """
    starts: Sequence[int] = range(len(text) + 1)
    yield text, starts
    for _ in range(_PASSES):
        if "\\" not in text:
            return
        parts, places, end = list[str](), list[int](), 0
        for found in _ESCAPE.finditer(text):
            parts += [text[end : found.start()], _unescape(found)]
            places += [*starts[end : found.start()], *[starts[found.start()]] * len(parts[-1])]
            end = found.end()
        text = "".join((*parts, text[end:]))
        starts = [*places, *starts[end:]]
        yield text, starts


def _decode(body: bytes) -> str:
    try:
        return body.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return body.decode("latin-1")


def form(body: str | bytes) -> str:
    """Return the form in which texts are compared: `plain`, in lower case, without blanks."""
    return "".join(plain(body).casefold().split())


def texts_within(data: Any) -> Iterator[str]:
    """Yield every text among the values of JSON data, not those among its keys."""
    left = [data]
    while left:
        item = left.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            left += item.values()
        elif isinstance(item, list):
            left += item


class Excerpts:
    """
    Texts, and whether another one holds an excerpt of one of them; a text shorter than an excerpt counts as a whole.

    Args:
        texts: What is searched for.
        least: Characters of an excerpt, blanks aside.
    """

    def __init__(self, texts: Iterable[str | bytes], *, least: int = EXCERPT) -> None:
        forms = dict.fromkeys(form(text) for text in texts)
        self._short = [text for text in forms if SHORTEST <= len(text) < least]
        # every excerpt holds a whole one of these blocks: it is as long as two of them less one character
        self._least, self._block = least, (least + 1) // 2
        self._around: dict[str, dict[str, None]] = {}
        for text in forms:
            for start in range(0, len(text) - self._block + 1 if len(text) >= least else 0, self._block):
                block = text[start : start + self._block]
                self._around.setdefault(block, {})[self._surroundings(text, start)] = None

    def _surroundings(self, text: str, start: int) -> str:
        """Return as much of *text* as an excerpt with the block at *start* can reach."""
        return text[max(0, start + self._block - self._least) : start + self._least]

    def stand_in(self, body: str | bytes) -> bool:
        """Return whether *body* holds an excerpt of one of the texts, or all of a short one."""
        text, block, least = form(body), self._block, self._least
        if any(short in text for short in self._short):
            return True
        for start in range(len(text) - block + 1 if self._around else 0):
            for around in self._around.get(text[start : start + block], ()):
                here = self._surroundings(text, start)
                if any(around[at : at + least] in here for at in range(len(around) - least + 1)):
                    return True
        return False
