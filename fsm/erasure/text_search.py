"""
Where does a piece of a text stand? What erasing and redacting search with; pure.

Texts are compared in a form without blanks, cases and JSON's escapes, so that a line break that became a space, or a
text within JSON within JSON, hides nothing. An excerpt is `EXCERPT` characters in a row of that form: less than what
32 characters of running text hold.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import orjson

EXCERPT = 24
"""Characters in a row, blanks aside, that are an excerpt."""

SHORTEST = 4
"""Characters, blanks aside, below which a whole text is too short to be searched for."""

_PASSES = 6
"""How deep JSON within JSON is unescaped."""

_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.?))", re.DOTALL)
_CONTROL = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def _unescaped(found: re.Match[str]) -> str:
    return chr(int(found[1], 16)) if found[1] else _CONTROL.get(found[2], found[2])


def plain(body: str | bytes) -> str:
    """Return a body as text without JSON's escapes; bytes that are no UTF-8 as one character each."""
    text = body if isinstance(body, str) else _decoded(body)
    for _ in range(_PASSES):
        if "\\" not in text:
            break
        text = _ESCAPE.sub(_unescaped, text)
    if any("\ud800" <= char <= "\udbff" for char in text):  # pairs that were escaped one by one
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _decoded(body: bytes) -> str:
    try:
        return body.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return body.decode("latin-1")


def form(body: str | bytes) -> str:
    """Return the form in which texts are compared: `plain`, in lower case, without blanks."""
    return "".join(plain(body).casefold().split())


def leaves(body: str | bytes) -> list[str]:
    """Return the texts within a JSON body; anything else is one text."""
    text = body if isinstance(body, str) else plain(body)
    try:
        data = orjson.loads(text)
    except (orjson.JSONDecodeError, UnicodeEncodeError):
        return [text]
    return list(texts_within(data))


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
    Texts, and whether another one holds an excerpt of one of them.

    Args:
        texts: What is searched for.
        least: Characters of an excerpt, blanks aside.
        shortest: A text with fewer than *least* is searched for as a whole if it has this many; None: it is not.
    """

    def __init__(
        self, texts: Iterable[str | bytes], *, least: int = EXCERPT, shortest: int | None = SHORTEST
    ) -> None:
        self._least, self._block = least, (least + 1) // 2
        forms = dict.fromkeys(form(text) for text in texts)
        self._texts = [text for text in forms if len(text) >= least]
        self._short = [text for text in forms if shortest is not None and shortest <= len(text) < least]
        self._places: dict[str, list[tuple[int, int]]] = {}
        for number, text in enumerate(self._texts):
            # every excerpt holds one whole block of these: it is as long as two of them less one character
            for start in range(0, len(text) - self._block + 1, self._block):
                self._places.setdefault(text[start : start + self._block], []).append((number, start))

    def __bool__(self) -> bool:
        return bool(self._texts or self._short)

    def stand_in(self, body: str | bytes) -> bool:
        """Return whether *body* holds an excerpt of one of the texts, or all of a short one."""
        text, block, places = form(body), self._block, self._places
        if any(short in text for short in self._short):
            return True
        if not places:
            return False
        for start in range(len(text) - block + 1):
            found = places.get(text[start : start + block])
            if found is not None and any(self._reaches(text, start, *place) for place in found):
                return True
        return False

    def _reaches(self, text: str, start: int, number: int, place: int) -> bool:
        """Whether what two texts share around a common block is long enough."""
        other, length = self._texts[number], self._block
        end, other_end = start + length, place + length
        while (
            length < self._least
            and end < len(text)
            and other_end < len(other)
            and text[end] == other[other_end]
        ):
            end, other_end, length = end + 1, other_end + 1, length + 1
        while length < self._least and start and place and text[start - 1] == other[place - 1]:
            start, place, length = start - 1, place - 1, length + 1
        return length >= self._least
