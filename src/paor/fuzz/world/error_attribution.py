"""Whose error it is: the test machinery's, a user's own function's, the kit's own drawing's; none says anything of the engine."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ...fsm.engine import Engine
from ...fsm.journal_api import Journal
from ...states.base.errors import UsageError
from ..oracles.seen import Violation


def is_foreign(error: BaseException) -> bool:
    """Whether an error is the test machinery's own, not the engine's: hypothesis stops an example by raising."""
    kind = type(error)
    ends = kind.__module__.startswith("_pytest") and kind.__name__ in ("Exit", "Skipped")
    return kind.__module__.startswith("hypothesis") or ends or isinstance(error, Violation)


def is_own_code(error: BaseException) -> bool:
    """Whether an error was raised in code that is neither paor's nor hypothesis'."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    module = str(place.tb_frame.f_globals.get("__name__", "")) if place is not None else ""
    return module.partition(".")[0] not in ("", "hypothesis", __name__.partition(".")[0])


@contextmanager
def blaming(what: str, more: str = "") -> Iterator[None]:
    """
    Report an error in a user's own code, or in the kit's drawing, as that; it is nothing that the engine has done.

    Args:
        what: Begins the message, up to the error.
        more: Ends it.
    """
    try:
        yield
    except UsageError:
        raise
    except (Exception, SystemExit) as error:
        if is_foreign(error):
            raise
        raise UsageError(f"{what} {type(error).__name__}: {error!s:.300}{more}") from error


def make_engine(make: Callable[[Journal], Any], journal: Journal, before: int) -> Engine:
    """
    Return the engine that a user's function makes for a journal.

    Args:
        make: The function.
        journal: For the engine.
        before: How often it was called in this case before.

    Raises:
        UsageError: It raised, or returned something else.
    """
    name = getattr(make, "__qualname__", type(make).__name__).rpartition("<locals>.")[2]
    again = f"; it was call {before + 1} of it in this case, for a new process" if before else ""
    with blaming(f"{name} raised", again):
        engine = make(journal)
    if inspect.iscoroutine(engine):
        engine.close()  # without a warning that it was never awaited
    if not isinstance(engine, Engine):
        raise UsageError(f"the engine under test is of type {type(engine).__name__}, expected an Engine")
    return engine
