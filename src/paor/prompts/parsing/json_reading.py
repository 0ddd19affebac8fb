"""
Reads the one JSON object out of what a language model really returned.

Accepted is strict JSON (RFC 8259) in lenient packaging: plain, in a Markdown fence, or anywhere in prose or tags.
What a model thinks aloud first, in a ``<think>`` block, is not its reply. What is inside the object is never
repaired: a reply that could be read in two ways is refused and asked again.

How a reply is read
1. The whole text is one JSON object: done, by a decoder that is quick where no key can be there twice (`_plainest`).
2. Otherwise one pass from left to right looks at every opening bracket that is not inside something seen before.
   A bracket that starts like JSON is followed, with respect for strings and escapes, to the bracket that closes it;
   the piece between is parsed, and the pass goes on behind it. A bracket that does not start like JSON
   (``{like this}``, ``[1]``) is prose. Fences only rank what is found: in a ```json fence, in any fence, in prose.
3. The best rank in which something was found decides: one object, or the reason why there is none.

A line that starts with a fence mark ends every piece, since JSON cannot hold such a line: strings have no raw line
breaks. So an object that is cut off spoils no other fence.

Every piece is parsed once and the pass never goes back, so the time is linear in the length of the text. Nothing
here depends on the wording or the positions of the `json` module's errors, which change between Python versions:
the same text gives the same result, message included, on every Python.

Not covered: arrays as an answer, and JSON inside a JSON string.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from itertools import accumulate
from json import JSONDecoder
from math import isinf
from typing import Any

import msgspec
import orjson

DIGITS_MAX = 308
"""Longest whole number that is read. Source: the largest double is 1.8e308; a longer number is infinite for others."""

_NESTED_MAX = 64
"""Deepest nesting of a value within a text."""

_EDGES = " \t\r\n\f\v\xa0\u2028\u2029\ufeff\u200b\u2060"
"""Stripped at both ends: white space, the byte order mark, zero-width space and word joiner."""

_THINKING = re.compile(r"<think>.*?</think>", re.DOTALL)

_JSON_FENCE, _FENCE, _PROSE = range(3)
"""Ranks: where an object was found, the most deliberate place first."""

_MARK = re.compile(r"(`{3,}+)[ \t]*+([\w+-]*+)|[{\[]")
_LINE_FENCE = re.compile(r"[\r\n][ \t]*+`{3}")
_JSON_TAG = re.compile(r"json[5cl]?", re.IGNORECASE)

_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|([{\[])|([}\]])', re.DOTALL)
"""A string (to the end of the text, if nothing closes it), an opening or a closing bracket."""

_BRACKET = re.compile(r"[{}\[\]]")
_STEP = {"{": 1, "[": 1, "}": -1, "]": -1}

_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)

_NUL = re.compile(r"(?<!\\)(?:\\\\)*+\\u0000")
"""As the `json` module writes it."""

_SURE = re.compile(r"\{\s*+(?:[\"'\u201c\u2018\\}]|//|/\*|#|`{3}|\Z)|\[\s*+(?:\{|\Z)")
"""An opening that is meant as JSON: what follows it is wrong JSON, if it is none."""

_SCALAR = r"-?(?:\d[-+.\w]*+|true|false|null|NaN|Infinity)"
_MAYBE = re.compile(rf"\{{\s*+(?:[{{\[]|[A-Za-z_$][\w$-]*+\s*+:)|\[\s*+(?:{_SCALAR}\s*+,\s*+)*+[{{\[\"]")
"""An opening that can be JSON or prose: ``{{name}}``, ``{note: this}``, ``["quoted" text]``."""

_FLAT = re.compile(rf"\[\s*+(?:{_SCALAR}\s*+,?\s*+)*+\]")
"""A list without strings: a citation such as ``[1]`` in prose, an array in a fence."""

_QUOTED_OTHERWISE = re.compile(r"\{\s*+['\u2018\u201c\\]")

_PLACEHOLDER = re.compile(r":\s*+(?:<|\.\.\.|\u2026)")
"""A value of a format description, not of an answer: ``{"name": <string>}``, ``{"name": ...}``."""

_FAULTS = (
    (re.compile(r",\s*+[}\]]"), "a trailing comma"),
    (re.compile(r"//|/\*|#"), "a comment"),
    (re.compile("['\u2018\u2019\u201c\u201d]"), "single or typographic quotes"),
    (re.compile(r"\b(?:True|False|None)\b"), "a Python literal"),
    (re.compile(r"[{,]\s*+[A-Za-z_$]"), "a key without double quotes"),
)
"""What to name in a malformed object, looked for outside its strings; the first that fits is named."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """
    Why a reply holds no usable JSON object.

    Attributes:
        code: One of empty, no_json, truncated, malformed, duplicate_key, not_finite, too_large, too_deep,
            not_an_object, several_objects, bad_text.
        message: One ASCII line for the model and the log: what was found, what is expected.
    """

    code: str
    message: str


class _Refused(Exception):
    """Raised inside a parse with an `Unreadable`: the JSON is well-formed, but not to be used."""


@dataclass(frozen=True, slots=True)
class _Finding:
    """A piece of a reply and what it is; what is not *firm* may be prose: it counts only if nothing else is there."""

    rank: int
    result: dict[str, Any] | Unreadable
    firm: bool


def read_object(text: str, *, chars_max: int = 1_000_000, depth_max: int = 64) -> dict[str, Any] | Unreadable:
    """
    Return the JSON object that a model's reply holds.

    Args:
        text: The raw reply: plain JSON, or JSON in a fence, in prose, or in tags. Any str is allowed.
        chars_max: A longer text is refused without looking at it.
        depth_max: How deep objects and arrays may be nested, the outermost one included.

    Returns:
        The object, with whole numbers as int however large (up to `DIGITS_MAX` digits), the rest of JSON as usual,
        all numbers finite, all text free of NUL and lone surrogates; or an `Unreadable` that says what is wrong.
        Nothing is raised for any *text*.
    """
    if len(text) > chars_max:
        return Unreadable(
            "too_large", f"found a reply of {len(text)} characters; expected at most {chars_max}"
        )
    body = after_thinking(text).strip(_EDGES)
    if (plainest := _plainest(body, depth_max)) is not None:
        return plainest
    try:
        if body[:1] == "{" and _depth(body, depth_max) <= depth_max:
            try:
                value, end = _parse(body, 0)
                if end == len(body) and _text_is_clean(body, value):
                    return value  # type: ignore[no-any-return]
            except (ValueError, _Refused):
                pass  # The pass below finds out what is wrong.
        return _verdict(body, _Reader(body, depth_max).findings())
    except RecursionError:  # A depth_max beyond what the interpreter can do, or a caller near its own limit.
        return _too_deep(depth_max)


def decode_first(text: str, at: int = 0) -> tuple[Any, int] | None:
    """Return the JSON value that begins at *at* and where it ends, as strictly as any other; None where there is none."""
    try:
        value, end = _parse(text, at)
    except (ValueError, _Refused, RecursionError):
        return None
    piece = text[at:end]
    return (
        (value, end) if _depth(piece, _NESTED_MAX) <= _NESTED_MAX and _text_is_clean(piece, value) else None
    )


def json_value(text: str) -> dict[str, Any] | list[Any] | None:
    """Return the object or the list that *text* is, read as strictly as a reply; None for any other text."""
    body = text.strip()
    if body[:1] not in ("{", "[") or _depth(body, _NESTED_MAX) > _NESTED_MAX:
        return None
    found = decode_first(body)
    if found is None or found[1] != len(body) or holds_any(found[0], rounded_in(body)):
        return None
    value: dict[str, Any] | list[Any] = found[0]
    return value


_FRACTION = re.compile(r"(?<!\d)-?\d++(?:\.\d++(?:[eE][+-]?\d++)?|[eE][+-]?\d++)")


def rounded_in(text: str) -> frozenset[float]:
    """Return the floats that are read for numbers of *text* which say something else, such as ``9007199254740993.0``."""
    return frozenset(float(digits) for digits in _FRACTION.findall(text) if _is_rounded(digits))


def _is_rounded(digits: str) -> bool:
    read = float(digits)
    with suppress(InvalidOperation):  # an exponent beyond those of Decimal
        return not isinf(read) and Decimal(digits) not in (Decimal(repr(read)), Decimal(read))
    return True


def holds_any(value: object, floats: Collection[float]) -> bool:
    """Return whether one of *floats* is in a JSON value."""
    if isinstance(value, float):
        return value in floats
    items = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return any(holds_any(item, floats) for item in items)


def _plainest(body: str, depth_max: int) -> dict[str, Any] | None:
    """
    Return the object that *body* is as a whole, None where anything in it needs a closer look: the long way finds the same.

    The quick decoder keeps the last of two values of one key. But then the object written anew has fewer quotes than *body*, unless a
    quote is written as an escape in one of them alone.
    """
    if ("\\" in body and "\\u" in body) or body.count("{") + body.count("[") > depth_max:
        return None
    try:
        value = _decode(body)
        if type(value) is dict and orjson.dumps(value).count(b'"') == body.count('"'):
            return value
    except (ValueError, TypeError, RecursionError):  # no JSON, or a number of more than 64 bits
        pass
    return None


_decode = msgspec.json.Decoder().decode


def after_thinking(text: str) -> str:
    """Return what a reply says after the closed ``<think>`` block that it begins with, if it does."""
    body = text.lstrip(_EDGES)
    thinking = _THINKING.match(body)
    return body[thinking.end() :] if thinking else body


def _depth(body: str, enough: int) -> int:
    """
    Return how deep the brackets outside strings are nested; at least what a parser meets before it stops.

    With no more than *enough* brackets in all it is their number, which says as much.
    """
    if (brackets := body.count("{") + body.count("[")) <= enough:
        return brackets
    bare = body.replace("\\\\", "").replace('\\"', "")
    steps = (_STEP[bracket] for bracket in _BRACKET.findall("".join(bare.split('"')[::2])))
    return max(accumulate(steps), default=0)


class _Reader:
    """
    One pass over one reply.

    Attributes:
        body: The reply.
        depth_max: See `read_object`.
        limit: No line before this position, and behind the last piece, starts with a fence mark.
        found: What was found, by rank and text; a repeated piece is once.
    """

    def __init__(self, body: str, depth_max: int) -> None:
        self.body = body
        self.depth_max = depth_max
        self.limit = 0
        self.found: dict[tuple[int, str], _Finding] = {}

    def findings(self) -> list[_Finding]:
        """Return all pieces of JSON that are not inside another one, in their order."""
        body = self.body
        rank, at = _PROSE, 0
        while (mark := _MARK.search(body, at)) is not None:
            start, at = mark.span()
            if mark[1]:
                rank = _rank_after(rank, mark[2])
            elif _SURE.match(body, start):
                at = self._take(start, rank, sure=True)
            elif _MAYBE.match(body, start):
                at = self._take(start, rank, sure=False)
            elif flat := _FLAT.match(body, start):
                at = flat.end()
                if rank != _PROSE or flat[0] == body:
                    self._keep(flat[0], rank, _read(flat[0]), sure=False)
        return list(self.found.values())

    def _take(self, start: int, rank: int, *, sure: bool) -> int:
        """Keep the piece that begins at *start*, and return where it ends; *sure* says that it is meant as JSON."""
        end, problem = self._end_of(start)
        piece = self.body[start:end]
        if (rank, piece) not in self.found:
            self._keep(piece, rank, problem or _read(piece), sure=sure)
        return end

    def _keep(self, piece: str, rank: int, result: dict[str, Any] | Unreadable, *, sure: bool) -> None:
        """Add what a piece turned out to be, and whether it counts beside other pieces."""
        firm = rank == _JSON_FENCE or isinstance(result, dict)
        if not firm and sure and isinstance(result, Unreadable):
            firm = result.code not in ("malformed", "not_an_object")
            if result.code == "malformed":
                firm = _PLACEHOLDER.search(_STRING.sub('""', piece)) is None
        self.found[rank, piece] = _Finding(rank, result, firm)

    def _end_of(self, start: int) -> tuple[int, Unreadable | None]:
        """
        Return where the bracket at *start* is closed, or where to go on and why it is not closed.

        Strings are skipped as JSON writes them; brackets have to match in kind.
        """
        body = self.body
        if self.limit <= start:
            fence = _LINE_FENCE.search(body, start)
            self.limit = len(body) if fence is None else fence.start()
        closers: list[str] = []
        for token in _TOKEN.finditer(body, start, self.limit):
            if token[1]:
                if len(closers) >= self.depth_max:
                    return self.limit, _too_deep(self.depth_max)
                closers.append("}" if token[1] == "{" else "]")
            elif token[2]:
                if closers.pop() != token[2]:
                    return self.limit, _malformed(body[start : token.end()])
                if not closers:
                    return token.end(), None
        if _QUOTED_OTHERWISE.match(body, start):
            return self.limit, _malformed(body[start : self.limit])
        return self.limit, Unreadable(
            "truncated", "found JSON that is cut off before its end; expected one complete object"
        )


def _rank_after(rank: int, tag: str) -> int:
    """Return the rank of what follows a fence mark: it opens a fence, or closes the one that is open."""
    if _JSON_TAG.fullmatch(tag):
        return _JSON_FENCE
    return _FENCE if rank == _PROSE else _PROSE


def _read(piece: str) -> dict[str, Any] | Unreadable:
    try:
        value = _parse(piece, 0)[0]
    except _Refused as refused:
        return Unreadable(*refused.args)
    except ValueError:
        return _bad_text() if "\0" in piece else _malformed(piece)
    if not _text_is_clean(piece, value):
        return _bad_text()
    return value if type(value) is dict else _not_an_object("an array")


def _verdict(body: str, found: list[_Finding]) -> dict[str, Any] | Unreadable:
    """Return the one object that the best rank holds, or the reason why there is none."""
    if not found:
        return _nothing(body)
    firm = [finding for finding in found if finding.firm]
    if not firm:
        return found[0].result
    rank = min(finding.rank for finding in firm)
    results = [finding.result for finding in firm if finding.rank == rank]
    for result in results:
        if isinstance(result, Unreadable):
            return result
    if len(results) > 1 and len(set(map(_text_of, results))) > 1:
        return Unreadable(
            "several_objects", f"found {len(results)} JSON objects that differ; expected exactly one"
        )
    return results[0]


def _nothing(body: str) -> Unreadable:
    """Return the reason for a reply without any object: prose, or a JSON value of another kind."""
    if not body:
        return Unreadable("empty", "found an empty reply; expected one JSON object")
    try:
        end = _parse(body, 0)[1]
    except (ValueError, _Refused):
        end = -1
    if end == len(body):
        return _not_an_object("a single JSON value")
    return Unreadable("no_json", "found text without a JSON object; expected exactly one JSON object")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build one object; refuse a key that occurs twice."""
    built = dict(pairs)
    if len(built) == len(pairs):
        return built
    name = Counter(key for key, _ in pairs).most_common(1)[0][0]
    raise _Refused("duplicate_key", f"found the key {_shown(name)} twice in one object; expected unique keys")


def _float(digits: str) -> float:
    """Build one float; refuse one that becomes infinite."""
    value = float(digits)
    if isinf(value):
        raise _Refused(
            "not_finite", f"found the number {_shown(digits)}; expected numbers that a double can hold"
        )
    return value


def _int(digits: str) -> int:
    """Build one whole number; refuse one that is infinite as a double."""
    if len(digits) > DIGITS_MAX:
        raise _Refused("not_finite", f"found a number of {len(digits)} digits; expected at most {DIGITS_MAX}")
    return int(digits)


def _constant(name: str) -> Any:
    """Refuse NaN and the infinities, which Python's parser would let pass."""
    raise _Refused("not_finite", f"found {name}; expected a number or null, JSON has no {name}")


_parse = JSONDecoder(
    object_pairs_hook=_object, parse_float=_float, parse_int=_int, parse_constant=_constant
).raw_decode


def _text_is_clean(piece: str, value: Any) -> bool:
    """Return whether no key and no string holds NUL or a lone surrogate, raw or as an escape."""
    text = json.dumps(value, ensure_ascii=False) if "\\u" in piece else piece
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return text is piece or _NUL.search(text) is None


def _text_of(value: object) -> str:
    """Return a text that is equal for equal JSON; ``1``, ``1.0`` and ``true`` differ."""
    return json.dumps(value, sort_keys=True)


def _shown(text: str) -> str:
    """Return *text* as ASCII in quotes, cut to a length that a message can carry."""
    shown = ascii(text[:60])
    return shown if len(text) <= 60 and len(shown) <= 60 else f"{shown[:56]}...'"


def _malformed(piece: str) -> Unreadable:
    bare = _STRING.sub('""', piece)
    fault = next((words for pattern, words in _FAULTS if pattern.search(bare)), "a syntax error")
    return Unreadable(
        "malformed", f"found {fault} in the JSON; expected one object in strict JSON (RFC 8259)"
    )


def _too_deep(depth_max: int) -> Unreadable:
    return Unreadable("too_deep", f"found JSON nested too deep; expected at most {depth_max} levels")


def _bad_text() -> Unreadable:
    return Unreadable("bad_text", "found NUL or a lone surrogate in the JSON; expected valid Unicode text")


def _not_an_object(kind: str) -> Unreadable:
    return Unreadable("not_an_object", f"found {kind}; expected one JSON object")
