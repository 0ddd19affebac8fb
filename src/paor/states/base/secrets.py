"""
Keys do not get out: texts from outside are searched for the keys that somebody was sent.

A server or a tool can repeat a key in an error, a header, an id or a reply, in the clear or in the ways in which keys travel:
in a URL, in JSON or HTML, as hex, in base64 with other words before it, in other case, in lines, cut off at its end, backwards.
A text is searched as it stands, and then without escapes, blanks and case (`_Plain`).
"""

from __future__ import annotations

import base64
import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import product
from typing import Any
from urllib.parse import quote, quote_plus

REDACTED = "[secret redacted]"
"""What stands in the place of a secret: words that no document says, so that an argument which holds them is known to have lost one."""

LENGTH_MIN = 8
"""Shorter values are no keys but words such as ``none``, which local servers are given."""

PLACEHOLDERS = frozenset(
    [
        "anything",
        "lm-studio",
        "localhost",
        "no-api-key",
        "no-key-required",
        "no-key-needed",
        "not-needed",
        "not-required",
        "not-used",
        "notneeded",
        "placeholder",
        "sk-no-key-required",
        "sk-not-needed",
    ]
)
"""Longer values that local servers are given for a key: no secrets either."""

CUT_MIN = 16
"""Shortest key of which the first three quarters count, too; of a shorter one that is a word."""

HELD_MIN, HELD_TIMES = 2_000, 8
"""A stream holds back at most so many characters, and so many times the longest form of a key: it may send blanks for ever."""

THOROUGH_CHARS = 50_000
"""What is said in more characters than these is not searched for secrets with blanks or escapes in them, or cut off: that is 20 times faster."""

_ENCODINGS = ("utf-8", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be")

_KEY = re.compile(r"(?=\S*\d)(?!\S*://)\S{8,}")
"""A word that is a key: other values of headers, such as titles and addresses, stand in many texts in other case or in part."""


class Scrubber:
    """
    Takes secrets out of texts.

    Args:
        secrets: The values; those shorter than `LENGTH_MIN` are left alone, and `PLACEHOLDERS`.
    """

    __slots__ = ("_exact", "_exact_forms", "_hidden", "_hidden_forms", "_known")

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        long = {secret for secret in secrets if len(secret) >= LENGTH_MIN}
        known = self._known = tuple(sorted(key for key in long if key.lower() not in PLACEHOLDERS))
        self._exact, self._exact_forms = _exact_pattern(known)
        self._hidden, self._hidden_forms = _hidden_pattern(known)

    def __bool__(self) -> bool:
        """Whether it knows any."""
        return self._exact is not None

    def __call__(self, text: str) -> str:
        """Return *text* with every secret replaced."""
        return replaced(text, self.spans(text))

    def of_said(self, said: str) -> str:
        """Return what a tool, a person or a host has said, with every secret replaced; see `THOROUGH_CHARS` of a long text."""
        if self._exact is None:
            return said
        if len(said) <= THOROUGH_CHARS:
            return self(said)
        found = [hit.span() for hit in self._exact.finditer(said)]
        lower = said.lower()
        if len(lower) != len(said):  # some letters have two in lower case
            lower = said.translate(_LOWER)
        for form in self._hidden_forms:
            at = lower.find(form)
            while at >= 0:
                found.append((at, at + len(form)))
                at = lower.find(form, at + len(form))
        return replaced(said, found)

    def of_data(self, data: Any) -> Any:
        """Return JSON data likewise; itself where there is nothing to replace."""
        if self._exact is None:
            return data
        found: list[Any] = [None]
        left: list[tuple[Any, Any, Any]] = [
            (found, 0, data)
        ]  # without recursion: it may be nested as deep as its sender likes
        while left:
            made, place, value = left.pop()
            if isinstance(value, str):
                made[place] = self.of_said(value)
            elif isinstance(value, Mapping):
                items = [(self.of_said(name), item) for name, item in value.items()]
                inner: Any = dict(items)
                made[place] = inner
                left += [(inner, name, item) for name, item in items]
            elif isinstance(value, list | tuple):
                made[place] = inner = list(value)
                left += [(inner, number, item) for number, item in enumerate(value)]
            elif isinstance(value, int | float) and not isinstance(value, bool) and str(value) in self._known:
                made[place] = REDACTED
            else:
                made[place] = value
        return found[0]

    def of_bytes(self, data: bytes) -> bytes:
        """Return bytes with every secret replaced, in whichever of Unicode's encodings, and in the forms of `of_said`."""
        for secret, code in product(self._known, _ENCODINGS):
            data = data.replace(secret.encode(code, "surrogatepass"), REDACTED.encode(code))
        said = data.decode("latin-1")
        clean = self.of_said(said)
        return data if clean == said else clean.encode("latin-1")

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return where secrets stand: begin and end of each, in no order; some may overlap."""
        if self._exact is None or self._hidden is None:
            return []
        found = [hit.span() for hit in self._exact.finditer(text)]
        plain = _Plain(text)
        for hit in self._hidden.finditer(plain.text):
            found.append((plain.place(hit.start())[0], plain.place(hit.end() - 1)[1]))
        return found

    def held_back(self, text: str) -> int:
        """Return how many characters at the end of *text* may be the beginning of a secret."""
        if self._exact is None:
            return 0
        longest = _longest_end(text, self._exact_forms)
        escape = _OPEN_ESCAPE.search(text)
        whole = text[: escape.start()] if escape else text
        plain = _Plain(whole)
        length = _longest_end(plain.text, self._hidden_forms)
        start = plain.place(len(plain.text) - length)[0] if length else len(whole)
        most = HELD_MIN + HELD_TIMES * max(map(len, (*self._exact_forms[:1], *self._hidden_forms[:1])))
        return min(max(longest, len(text) - start), most)

    def __repr__(self) -> str:
        return "Scrubber()"


def replaced(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """Return *text* with `REDACTED` in the place of each of *spans*; those that overlap become one."""
    parts, end = [], 0
    for first, last in sorted(spans):
        if first >= end:
            parts += [text[end:first], REDACTED]
        end = max(end, last)
    return "".join((*parts, text[end:]))


class StreamScrubber:
    """A scrubber for a text that comes in pieces; a secret may be cut by them."""

    def __init__(self, scrub: Scrubber) -> None:
        self._scrub = scrub
        self._kept = ""

    def feed(self, piece: str) -> str:
        """Return what can be shown after *piece*."""
        text = self._scrub(self._kept + piece)
        end = len(text) - self._scrub.held_back(text)
        self._kept = text[end:]
        return text[:end]

    def end(self) -> str:
        """Return what was held back."""
        kept, self._kept = self._kept, ""
        return kept


# -- a text without its disguise -----------------------------------------------------------------------------------

_ENTITIES = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}
_BLANK = r"\s\x00-\x1f\xad\u200b-\u200f\u2060-\u2064\ufeff"
_ESCAPE = re.compile(
    r"%(?P<a>[0-9a-f]{2})|\\x(?P<b>[0-9a-f]{2})|\\u(?P<c>[0-9a-f]{4})|\\u\{(?P<d>[0-9a-f]{1,5})\}"
    r"|&\#x(?P<e>[0-9a-f]{1,5});?|&\#(?P<dec>[0-9]{1,6});?|&(?P<name>amp|lt|gt|quot|apos);"
    rf"|\\(?P<self>[\"'/\\])|\\[nrt]|[{_BLANK}]+",
    re.IGNORECASE,
)
_OPEN_ESCAPE = re.compile(r"(?:%[0-9a-f]?|\\(?:[xu]\{?[0-9a-f]{0,5})?|&\#?[0-9a-z]{0,6})\Z", re.IGNORECASE)
_LOWER = {letter: letter + 32 for letter in range(ord("A"), ord("Z") + 1)}


class _Plain:
    """
    A text without escapes, blanks and upper case, and where each of its characters stood.

    Attributes:
        text: What is left.
    """

    __slots__ = ("_at", "_pieces", "text")

    def __init__(self, source: str) -> None:
        parts: list[str] = []
        self._at: list[int] = []
        self._pieces: list[tuple[int, int]] = []
        length = end = 0
        for found in _ESCAPE.finditer(source):
            if found.start() > end:
                length = self._add(parts, source[end : found.start()], length, (end, 0))
            letter = _letter_of(found)
            if letter:
                length = self._add(parts, letter, length, found.span())
            end = found.end()
        self._add(parts, source[end:], length, (end, 0))
        self.text = "".join(parts).translate(_LOWER)

    def _add(self, parts: list[str], part: str, length: int, span: tuple[int, int]) -> int:
        if part:
            parts.append(part)
            self._at.append(length)
            self._pieces.append(span)
        return length + len(part)

    def place(self, index: int) -> tuple[int, int]:
        """Return begin and end of what one character was in the source."""
        number = bisect_right(self._at, index) - 1
        begin, end = self._pieces[number]
        offset = index - self._at[number]
        return (begin, end) if end else (begin + offset, begin + offset + 1)


def _letter_of(found: re.Match[str]) -> str:
    """Return the character that an escape stands for, nothing for blanks."""
    kind = found.lastgroup
    if kind is None:
        return ""
    if kind == "name":
        return _ENTITIES[found[kind].lower()]
    if kind == "self":
        return found[kind]
    code = int(found[kind], 10 if kind == "dec" else 16)
    return chr(code) if code < 0x110000 and not chr(code).isspace() else ""


def _longest_end(text: str, forms: tuple[str, ...]) -> int:
    """Return the length of the longest end of *text* with which one of *forms* begins."""
    longest = 0
    for form in forms:
        at = text.find(form[0], max(0, len(text) - len(form) + 1))
        while 0 <= at < len(text) - longest:
            if form.startswith(text[at:]):
                longest = len(text) - at
            at = text.find(form[0], at + 1)
    return longest


# -- the forms of a secret -----------------------------------------------------------------------------------------


@lru_cache(maxsize=32)
def _exact_pattern(secrets: tuple[str, ...]) -> tuple[re.Pattern[str] | None, tuple[str, ...]]:
    """Return what finds secrets as they stand, in a URL, in JSON and in base64, and the beginnings of these."""
    forms = set()
    for secret in secrets:
        raw = secret.encode("utf-8", "surrogatepass")
        forms |= {json.dumps(secret, ensure_ascii=False)[1:-1]}
        forms |= {secret, json.dumps(secret)[1:-1], base64.b64encode(raw).decode().rstrip("=")}
        forms |= {quote(raw, safe=""), quote(raw), quote_plus(raw)}
    ordered = tuple(sorted(forms, key=lambda form: (-len(form), form)))
    return _pattern(ordered), ordered


@lru_cache(maxsize=32)
def _hidden_pattern(secrets: tuple[str, ...]) -> tuple[re.Pattern[str] | None, tuple[str, ...]]:
    """Return what finds secrets in a `_Plain` text, and the beginnings of its forms."""
    forms, cut = set(), []
    for secret in secrets:
        forms |= _coded_forms(secret) | _coded_forms(secret[::-1])
        for word in filter(_KEY.fullmatch, secret.split()):
            plain = _Plain(word).text
            forms |= {plain, _Plain(word[::-1]).text}
            if len(plain) >= CUT_MIN:
                kept = -(-len(plain) * 3 // 4)
                rest = "".join(f"(?:{re.escape(letter)})?" for letter in plain[kept:])
                cut.append(re.escape(plain[:kept]) + rest)
    ordered = tuple(sorted(forms, key=lambda form: (-len(form), form)))
    ordered = tuple(form for form in ordered if len(form) >= LENGTH_MIN)
    return _pattern(ordered, cut), ordered


def _coded_forms(secret: str) -> set[str]:
    """Return how a coded secret looks in a `_Plain` text: as numbers, and within base64 at each of three offsets."""
    raw = secret.encode("utf-8", "surrogatepass")
    pairs = [f"{byte:02x}" for byte in raw]
    forms = {"".join(pairs), ":".join(pairs), "-".join(pairs), ",".join(f"0x{pair}" for pair in pairs)}
    forms.add(",".join(map(str, raw)))
    for offset in range(3):
        coded = base64.b64encode(bytes(offset) + raw).decode()
        inner = coded[-(-8 * offset // 6) : 8 * (offset + len(raw)) // 6].translate(_LOWER)
        forms |= {inner, inner.translate({ord("+"): "-", ord("/"): "_"})}
    return forms


def _pattern(forms: Iterable[str], more: Iterable[str] = ()) -> re.Pattern[str] | None:
    whole = [*map(re.escape, forms), *more]
    return re.compile("|".join(whole)) if whole else None


def scrubbed(value: Any, scrub: Scrubber) -> Any:
    """Return JSON data without the keys of the environment; numbers and what they stand in are left as they are."""
    return _cleaned(value, scrub) if scrub and scrub.spans("\0".join(_texts(value))) else value


def _cleaned(value: Any, scrub: Scrubber) -> Any:
    if isinstance(value, str):
        return scrub(value)
    if isinstance(value, dict):
        return {scrub(name): _cleaned(item, scrub) for name, item in value.items()}
    return [_cleaned(item, scrub) for item in value] if isinstance(value, list | tuple) else value


def _texts(value: Any) -> Iterator[str]:
    """Yield every text of JSON data."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list | tuple):
        for item in (*value, *value.values()) if isinstance(value, dict) else value:
            yield from _texts(item)
