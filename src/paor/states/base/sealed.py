"""
Lists and mappings that stay as they are made: each attempt to change one raises `UsageError`, which says what is used instead.

JSON data that a run is decided with is `sealed` where its record is made, since guards, tools, models and hooks see the records
themselves: what one of them changed would be decided with, and no row would tell. `unsealed` returns a copy that is the caller's own.
"""

from __future__ import annotations

from typing import Any, NoReturn

from .errors import UsageError

DATA = "what a run is decided with is not changed; change a copy, as copy.deepcopy makes it"


class SealedList(list[Any]):
    """A list that is not changed."""

    __slots__ = ()

    def append(self, *given: object) -> NoReturn:
        """Refuse."""
        raise UsageError(DATA)

    extend = insert = remove = pop = clear = sort = reverse = append  # type: ignore[assignment]
    __iadd__ = __imul__ = __setitem__ = __delitem__ = append

    def __copy__(self) -> list[Any]:
        """Return a list that can be changed; what is in it cannot."""
        return list(self)

    def __deepcopy__(self, memo: object) -> list[Any]:
        """Return a copy that can be changed, with all that is in it."""
        copy: list[Any] = unsealed(self)
        return copy

    def __reduce_ex__(self, protocol: object) -> tuple[type, tuple[list[Any]]]:
        """Go to another process as a list."""
        return list, (list(self),)


class SealedDict(dict[str, Any]):
    """A mapping that is not changed."""

    __slots__ = ()

    def update(self, *given: object, **more: object) -> NoReturn:
        """Refuse."""
        raise UsageError(DATA)

    pop = popitem = clear = setdefault = update
    __setitem__ = __delitem__ = __ior__ = update

    def __copy__(self) -> dict[str, Any]:
        """Return a mapping that can be changed; what is in it cannot."""
        return dict(self)

    def __deepcopy__(self, memo: object) -> dict[str, Any]:
        """Return a copy that can be changed, with all that is in it."""
        copy: dict[str, Any] = unsealed(self)
        return copy

    def __reduce_ex__(self, protocol: object) -> tuple[type, tuple[dict[str, Any]]]:
        """Go to another process as a mapping."""
        return dict, (dict(self),)


def sealed(value: Any) -> Any:
    """Return JSON data that stays as it is: *value*, what of it can be changed being copied."""
    if value is None or isinstance(value, _SEALED):
        return value
    return _copied(value, SealedDict, SealedList, _SEALED)


def unsealed(value: Any) -> Any:
    """Return a copy of JSON data that is the caller's own."""
    return _copied(value, dict, list, ())


_SEALED = (SealedDict, SealedList)


def _copied(
    value: Any, mapping: type[dict[Any, Any]], sequence: type[list[Any]], kept: tuple[type, ...]
) -> Any:
    """Return a copy of JSON data in two kinds of containers; without recursion, since a model nests as deep as it likes."""
    if not isinstance(value, _CONTAINERS):
        return value
    top = _begun(value, mapping, sequence)
    left: list[tuple[Any, Any]] = [(value, top)]
    for source, copy in left:  # which grows meanwhile
        is_mapping = isinstance(source, dict)
        for key, item in source.items() if is_mapping else enumerate(source):
            if isinstance(item, _CONTAINERS) and not isinstance(item, kept):
                inner = _begun(item, mapping, sequence)
                left.append((item, inner))
                (dict if is_mapping else list).__setitem__(copy, key, inner)
    return top


_CONTAINERS = (dict, list)


def _begun(value: Any, mapping: type[dict[Any, Any]], sequence: type[list[Any]]) -> Any:
    """Return a shallow copy of one container."""
    if isinstance(value, dict):
        named = mapping.__new__(mapping)
        dict.update(named, value)
        return named
    listed = sequence.__new__(sequence)
    list.extend(listed, value)
    return listed
