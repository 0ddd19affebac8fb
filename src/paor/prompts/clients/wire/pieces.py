"""
What a stream brings in pieces, put together: texts, and parts that are opened one by one and then added to; pure.

Servers number such parts, but some number them all alike, or only the first piece of each, or none. So a piece belongs to the part
whose number or id it has, where that is certain, else to the newest.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Generic, TypeVar

from msgspec import Struct

from .interface import as_json, decoded, members, text_in

_HALVES = re.compile("[\ud800-\udbff][\udc00-\udfff]")
Part = TypeVar("Part")


def joined(pieces: Iterable[str]) -> str:
    """Return the text of *pieces*; the halves of a character that a server has sent one by one become that character."""
    text = "".join(pieces)
    if text.isascii() or not _HALVES.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def number_of(value: object) -> int | None:
    """Return the number that a server gives a part, None without one."""
    return value if type(value) is int else None


class Parts(Generic[Part]):
    """The parts of one reply, in the order of their numbers, those of the same number in the order in which they came."""

    def __init__(self) -> None:
        self._parts: list[tuple[int, Part]] = []
        self._newest: dict[int | None, Part] = {}

    def __iter__(self) -> Iterator[Part]:
        return iter([part for _, part in sorted(self._parts, key=lambda numbered: numbered[0])])

    def begin(self, number: int | None, part: Part) -> Part:
        """Add *part* and return it; without a number it stands behind the newest."""
        place = number if number is not None else self._parts[-1][0] if self._parts else 0
        self._parts.append((place, part))
        self._newest[place] = part
        return self.touched(part)

    def touched(self, part: Part) -> Part:
        """Make *part* the newest, and return it."""
        self._newest[None] = part
        return part

    def at(self, number: int | None) -> Part | None:
        """Return the newest part of that number, None if there is none; without a number the newest of all."""
        return self._newest.get(number)


class _Take(Struct):
    """A piece of a call with a name, and what followed it."""

    name: str = ""
    id: str = ""
    given: list[Any] = []


class _Call(Struct):
    """What came under one number and id."""

    id: str = ""
    takes: list[_Take] = []
    function: dict[str, Any] = {}
    more: dict[str, Any] = {}


class CallPieces:
    """
    The tool calls of a streamed chat completion.

    A number or an id that is new begins a call. Within one number and id a name that comes again may begin another one, or be
    repeated: they are several calls if the arguments behind each name are whole, else one.
    """

    def __init__(self) -> None:
        self._calls: Parts[_Call] = Parts()
        self._by_id: dict[tuple[int | None, str], _Call] = {}

    def add(self, piece: dict[str, Any]) -> None:
        """Take a piece of a call."""
        number, id = number_of(piece.pop("index", None)), text_in(piece.pop("id", None))
        function = members(piece.pop("function", None))
        name, given = text_in(function.pop("name", None)), function.pop("arguments", None)
        call = self._calls.touched(self._place(number, id, is_named=bool(name)))
        if id:
            self._by_id.setdefault((number, id), call)
            call.id = call.id or id
        if not call.takes or (name and call.takes[-1].name):
            call.takes.append(_Take())
        take = call.takes[-1]
        take.name, take.id = take.name or name, take.id or id
        if given not in (None, ""):
            take.given.append(given)
        call.function |= {key: value for key, value in function.items() if value is not None}
        call.more |= {key: value for key, value in piece.items() if value is not None}

    def _place(self, number: int | None, id: str, *, is_named: bool) -> _Call:
        """Return the call that a piece belongs to."""
        found = self._by_id.get((number, id)) or self._calls.at(number)
        if found is None and not (id or is_named):  # it says nothing of its own
            found = self._calls.at(None)
        # some servers give every piece another id, but a number, too, and a name only where a call begins
        is_other = found is not None and id and found.id not in ("", id) and (is_named or number is None)
        if found is None or (is_other and (number, id) not in self._by_id):
            return self._calls.begin(number, _Call())
        return found

    def made(self) -> list[dict[str, Any]]:
        """Return the calls in the form of a whole message."""
        return [made for call in self._calls for made in _made(call)]


def _made(call: _Call) -> list[dict[str, Any]]:
    given = [_arguments(take.given) for take in call.takes]
    if len(given) > 1 and all(map(_is_whole, given)):
        # the same id, or the same call without one, is one call that was sent again
        found = {
            take.id or as_json([take.name, value]): _whole(call, take.id, take.name, value)
            for take, value in zip(call.takes, given, strict=True)
        }
        return list(found.values())
    names = [take.name for take in call.takes]
    name = names[0] if len(set(names)) == 1 else "".join(names)
    return [_whole(call, call.id, name, _arguments([piece for take in call.takes for piece in take.given]))]


def _whole(call: _Call, id: str, name: str, given: object) -> dict[str, Any]:
    function = {"name": name, "arguments": given, **call.function}
    return {"id": id, "type": "function", "function": function, **call.more}


def _arguments(pieces: list[Any]) -> Any:
    """Return what the pieces of a call's arguments make; an object that came as one stays one."""
    if len(pieces) > 1 and pieces[0] in ("{}", {}):  # a placeholder, which some servers begin with
        pieces = pieces[1:]
    if len(pieces) == 1 and not isinstance(pieces[0], str):
        return pieces[0]
    return joined(piece if isinstance(piece, str) else as_json(piece) for piece in pieces)


def _is_whole(given: object) -> bool:
    if isinstance(given, str):
        try:
            given = decoded(given)
        except ValueError:
            return False
    return isinstance(given, dict)
