"""
Lists, mappings and objects of the `transitions` library that stay as they are made.

The library lets anybody add to them, and would call what was added within the decision, or let every run of the process walk another
machine. Here each attempt raises `UsageError`, with a sentence that shows what is used instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from .errors import UsageError

UNCHANGED = (
    "a machine is never changed, since runs share it and journals name it; its methods return another one"
)
WITHIN = "a callback within the decision would not be journaled; machine.on_enter, on_exit and after call yours after the commit"


class SealedList(list[Any]):
    """
    A list that is not changed.

    Args:
        items: What is in it.
        told: What an attempt to change it says.
    """

    __slots__ = ("told",)

    def __init__(self, items: Iterable[Any] = (), told: str = WITHIN) -> None:
        super().__init__(items)
        self.told = told

    def append(self, *given: object) -> NoReturn:
        """Refuse."""
        raise UsageError(self.told)

    extend = insert = remove = pop = clear = sort = reverse = append  # type: ignore[assignment]
    __iadd__ = __imul__ = __setitem__ = __delitem__ = append


class SealedDict(dict[str, Any]):
    """
    A mapping that is not changed.

    Args:
        items: What is in it.
        told: What an attempt to change it says.
    """

    __slots__ = ("told",)

    def __init__(self, items: Mapping[str, Any], told: str) -> None:
        super().__init__(items)
        self.told = told

    def update(self, *given: object, **more: object) -> NoReturn:
        """Refuse."""
        raise UsageError(self.told)

    pop = popitem = clear = setdefault = update
    __setitem__ = __delitem__ = __ior__ = update


class Sealed:
    """An object that is not changed once `_seal` was called."""

    _sealed = False

    def _seal(self) -> None:
        self._sealed = True

    def __setattr__(self, name: str, value: Any) -> None:
        if self._sealed:
            raise UsageError(f"{name} cannot be set: {self._told(name)}")
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        if self._sealed:
            raise UsageError(f"{name} cannot be deleted: {UNCHANGED}")
        super().__delattr__(name)

    def _told(self, name: str) -> str:
        return WITHIN if name in _CALLED_WITHIN else UNCHANGED


_CALLED_WITHIN = frozenset(
    (
        *("on_enter", "on_exit", "before", "after", "prepare", "prepare_event", "finalize_event"),
        *("before_state_change", "after_state_change", "on_exception", "on_final"),
    )
)
