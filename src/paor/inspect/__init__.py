"""
A look at runs as they go on, and answers to what waits: a page on this machine, or within a host's own server.

    import paor.inspect

    host.mount("/runs", paor.inspect.app(engine))     # an ASGI application
    paor.inspect.serve(paor.Journal("runs.db"))       # or a server of its own; the command is paor inspect

Needs ``pip install "paor[inspect]"`` (Starlette and uvicorn). docs/howto/inspect.md says how it is used and what keeps it safe.

    application     `app`: its addresses and what each answers
    access          what a request must bring
    views           the parts of the page, kept as long as they hold
    live_events     what is new, told to all who listen
    watching        noticing that the file was written
    actions         answer, cancel, fork
    search          runs that hold a text
    server          `serve`

May import the four folders, nothing of `paor.cli`. Start reading at `application`, then `access`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .application import Inspector, app
    from .server import serve

__all__ = ["Inspector", "app", "serve"]

_MODULES = {"app": ".application", "Inspector": ".application", "serve": ".server"}
"""Public names by module; one is imported when it is first used, so that the message for who lacks the extra is a clear one."""


def __getattr__(name: str) -> Any:
    """
    Import a public name on first use (PEP 562).

    Raises:
        MissingExtra: Starlette or uvicorn is not installed.
    """
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    with naming_the_extra():
        value = getattr(import_module(_MODULES[name], __name__), name)
    globals()[name] = value
    return value


@contextmanager
def naming_the_extra() -> Iterator[None]:
    """
    Name what has to be installed where an import within the block fails for want of it.

    Raises:
        MissingExtra: Starlette or uvicorn is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("starlette", "uvicorn", "anyio", "h11"):
            raise
        from ..states.base.errors import MissingExtra

        raise MissingExtra('paor inspect needs starlette and uvicorn: pip install "paor[inspect]"') from None


def __dir__() -> list[str]:
    return sorted(__all__)
