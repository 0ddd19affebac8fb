"""``--app MODULE:ENGINE``: a host's own engine on the command line, and engines for commands without one."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout

import click

from ...fsm.engine import Engine
from ...fsm.journal.file import Durability
from ...fsm.journal_api import Journal
from ...prompts.model import Model
from ...states.base.errors import PaorError, UsageError
from ...states.records.events import Event
from ...tools.tool import Tool
from .journals import busy_timeout_s, reading
from .streams import (
    reason,
)

WEB_HELP = "Offer web.search, web.scrape and web.crawl; the network is used only with this."
APP_HELP = "Your Engine, or a function f(journal) that returns one."
Factory = Callable[[Journal], object]


def app_of(app: str) -> Engine | Factory:
    """
    Import what ``MODULE:ENGINE`` names, from the current folder too.

    Raises:
        UsageError: It cannot be imported, or is no engine and no function; what the module raised is named.
    """
    module_name, _, name = app.partition(":")
    if not (module_name and name):
        raise UsageError(f"--app {app!r}: expected MODULE:ENGINE, such as shop:engine")
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        with redirect_stdout(sys.stderr):
            found: object = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a host's code may raise anything
        raise UsageError(f"--app {app}: importing {module_name} raised {_error_text(error)}") from None
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise UsageError(f"--app {app}: {module_name} has no {name}") from None
    if isinstance(found, Engine) or callable(found):
        return found
    raise UsageError(
        f"--app {app}: is of type {type(found).__name__}, expected an Engine or a function f(journal)"
    )


def _error_text(error: BaseException) -> str:
    return f"{type(error).__name__}: {reason(error)}"


def engine_of(app: str, journal: Journal) -> Engine:
    """
    Return the engine that *app* names; a function is called with *journal*.

    Raises:
        UsageError: There is none, or the function raised or returned something else.
    """
    found = app_of(app)
    return found if isinstance(found, Engine) else made_engine(app, found, journal)


def made_engine(app: str, factory: Factory, journal: Journal) -> Engine:
    """Return the engine that a host's function makes; raise `UsageError` when it does not."""
    if is_machine(factory):
        raise UsageError(
            f"--app {app}: is an EngineMachine, which only paor fuzz and paor replay --repro take;"
            " name an Engine or a function f(journal) that returns one"
        )
    try:
        with redirect_stdout(sys.stderr):
            made = factory(journal)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a host's code may raise anything
        raise UsageError(
            f"--app {app}: {app.partition(':')[2]}(journal) raised {_error_text(error)}"
        ) from None
    if inspect.iscoroutine(made):
        made.close()  # without a warning that it was never awaited
    if not isinstance(made, Engine):
        raise UsageError(f"--app {app}: returned a value of type {type(made).__name__}, expected an Engine")
    return made


def is_machine(found: object) -> bool:
    """Return whether something is a subclass of `paor.fuzz.EngineMachine`; decided without importing hypothesis."""
    kind = ("paor.fuzz.machine", "EngineMachine")
    return isinstance(found, type) and any((base.__module__, base.__name__) == kind for base in found.__mro__)


def asked_tools(app: str | None, *, web: bool) -> tuple[Tool, ...]:
    """
    Return the tools beside the built-in ones: those of the web where they are asked for.

    Raises:
        UsageError: With *app*, which brings its own.
        MissingExtra: They are not installed.
    """
    if not web:
        return ()
    if app is not None:
        raise UsageError("--web goes without --app: an app's engine has tools of its own, see web_tools()")
    from ...tools.web.tools import web_tools

    return web_tools()


@contextmanager
def driving(
    app: str | None,
    path: str,
    *,
    durability: Durability = "full",
    model: Model | str | None = None,
    hooks: Sequence[Callable[[Event], None]] = (),
    web: bool = False,
    extra: Sequence[Tool] = (),
) -> Iterator[Engine]:
    """
    Open the engine that drives runs: the one of *app*, or one with the built-in tools.

    Args:
        app: ``MODULE:ENGINE`` or None.
        path: Of the journal; an engine with a journal of its own keeps that.
        durability: Of a journal that is opened here.
        model: Of an engine that is made here.
        hooks: The same.
        web: Whether it has the web tools too.
        extra: Further tools of an engine that is made here.

    Raises:
        UsageError: *app* or *model* cannot be used, or the web tools together with *app*.
        JournalError: The journal cannot be opened or written.
    """
    tools = (*asked_tools(app, web=web), *extra)
    found = app_of(app) if app is not None else None
    if isinstance(found, Engine):
        _check_own_journal(app, found, path)
        with found:
            yield found
        return
    if os.path.isdir(path):
        raise UsageError(f"{path}: is a directory, expected a journal file")
    timeout = busy_timeout_s()
    try:
        journal = Journal(path, durability, busy_timeout_s=timeout)
    except ValueError as error:
        if isinstance(error, PaorError):
            raise
        raise UsageError(f"{path!r}: is not a file name") from None
    with journal:
        engine = (
            Engine(model=model, tools=tools, journal=journal, hooks=hooks)
            if app is None or found is None
            else made_engine(app, found, journal)
        )
        with engine:
            yield engine


@contextmanager
def looking(app: str | None, path: str) -> Iterator[Journal]:
    """Open the journal that `driving` would drive, for reading only; creates nothing."""
    found = app_of(app) if app is not None else None
    if isinstance(found, Engine):
        _check_own_journal(app, found, path)
        yield found.journal
        return
    with reading(path) as journal:
        yield journal


def _check_own_journal(app: str | None, engine: Engine, path: str) -> None:
    context = click.get_current_context(silent=True)
    explicit = context is not None and context.meta.get("paor.journal") is True
    if explicit and os.path.realpath(path) != os.path.realpath(engine.journal.path):
        raise UsageError(
            f"--app {app}: has the journal {engine.journal.path}, not {path};"
            " leave --journal out, or name a function f(journal)"
        )
