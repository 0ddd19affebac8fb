"""``--app MODULE:ENGINE``: a host's own engine on the command line, and engines for commands without one."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Annotated

import click

from ...fsm.engine import Engine
from ...fsm.journal.backend import Durability
from ...fsm.journal.places.opening import open_store
from ...fsm.journal.postgres.address import is_address, shown
from ...fsm.journal.store import JournalStore
from ...fsm.journal_api import Journal
from ...fsm.runtime.events import Event
from ...prompts.model import Model
from ...states.base.errors import JournalError, PaorError, ToolError, UsageError
from ...states.settings.policy import Policy
from ...tools.tool import Tool
from . import terminal as io
from .journals import busy_timeout_s, reading
from .json_input import json_value, text_file
from .options import App, file_name, journal_given

Factory = Callable[[Journal], object]


def app_of(app: str) -> Engine | Factory:
    """Import ``MODULE:ENGINE``, from the current folder too; raise `UsageError` when it is no engine or function."""
    module_name, _, name = app.partition(":")
    if not (module_name and name):
        raise UsageError(f"--app {app!r}: expected MODULE:ENGINE, such as shop:engine")
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    with _foreign_code(f"--app {app}: importing {module_name}"):
        module = importlib.import_module(module_name)
    try:
        found: object = attrgetter(name)(module)
    except AttributeError:
        raise UsageError(f"--app {app}: {module_name} has no {name}") from None
    if isinstance(found, Engine) or callable(found):
        return found
    kind = type(found).__name__
    raise UsageError(f"--app {app}: is of type {kind}, expected an Engine or a function f(journal)")


@contextmanager
def _foreign_code(what: str) -> Iterator[None]:
    """Send what a host's code prints to standard error; what it raises but for the journal becomes a `UsageError`."""
    try:
        with redirect_stdout(sys.stderr):
            yield
    except JournalError:
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a host's code may raise anything
        raise UsageError(f"{what} raised {type(error).__name__}: {io.reason(error)}") from None


def engine_of(app: str, journal: Journal) -> Engine:
    """Return the engine that *app* names, made for *journal* if it is a function; raise `UsageError` when there is none."""
    found = app_of(app)
    return found if isinstance(found, Engine) else made_engine(app, found, journal)


def made_engine(app: str, factory: Factory, journal: Journal) -> Engine:
    """Return the engine that a host's function makes; raise `UsageError` when it does not."""
    if is_machine(factory):
        raise UsageError(
            f"--app {app}: is an EngineMachine, which only paor fuzz and paor replay --repro take;"
            " name an Engine or a function f(journal) that returns one"
        )
    with _foreign_code(f"--app {app}: {app.partition(':')[2]}(journal)"):
        made = factory(journal)
    if inspect.iscoroutine(made):
        made.close()  # without a warning that it was never awaited
    if not isinstance(made, Engine):
        raise UsageError(f"--app {app}: returned a value of type {type(made).__name__}, expected an Engine")
    return made


def is_machine(found: object) -> bool:
    """Return whether something is a subclass of `paor.fuzz.EngineMachine`; decided without importing hypothesis."""
    kind = ("paor.fuzz.machine", "EngineMachine")
    return isinstance(found, type) and any((base.__module__, base.__name__) == kind for base in found.__mro__)


@contextmanager
def engine_alone(app: str | None) -> Iterator[Engine]:
    """Give the engine that *app* names, else one with the built-in tools, on a journal that nobody has; raise as `engine_of`."""
    with Journal(":memory:") as nowhere:
        yield engine_of(app, nowhere) if app is not None else Engine("offline", journal=nowhere)


def policy_of(data: object, where: str) -> Policy:
    """Return a policy that is given as JSON *data*; raise `UsageError` that says *where* for one that cannot be used."""
    if not isinstance(data, dict):
        raise UsageError(f'{where}: expected an object such as {{"deny": ["web.*"]}}')
    try:
        return Policy(**data)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from None


def _policy_file(context: click.Context, option: click.Parameter, file: str | None) -> Policy | None:
    file = file_name(context, option, file)
    return None if file is None else policy_of(json_value(text_file(file), file), file)


class _JournalWhenUsed(Journal):
    """A journal that is opened when it is first used, so that a host's function which has one of its own leaves no file."""

    def __init__(self, path: str, durability: Durability = "full", *, read_only: bool = False) -> None:
        self._given = path, durability, read_only

    @cached_property
    def store(self) -> JournalStore:  # type: ignore[override]
        """The file, opened now; raises what `Journal` does, and `UsageError` for what is no file name."""
        path, durability, read_only = self._given
        if os.path.isdir(path) and not read_only:
            raise UsageError(f"{path}: is a directory, expected a journal file")
        try:
            return open_store(path, durability, busy_timeout_s=busy_timeout_s(), read_only=read_only)
        except PaorError:
            raise
        except ValueError:
            raise UsageError(f"{path!r}: is not a file name") from None

    def close(self) -> None:
        """Close the file, if it was opened."""
        if "store" in self.__dict__:
            super().close()


_WEB = "Offer web.search, web.scrape and web.crawl; the network is used only with this."
_ENRICH = "With --web: put the pages first that fit best, with their key points and names."
_POLICY = "What may be called, as JSON: the fields of Policy."
_MCP = "Tools of an MCP server; a command runs without a shell; repeatable."


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """With which engine a command works; one that has a journal of its own keeps that, also one that a function made."""

    journal: str
    web: Annotated[bool, "--web", _WEB] = False
    enrich: Annotated[bool, "--enrich", _ENRICH] = False
    policy: Annotated[Policy | None, "--policy FILE", _POLICY, {"callback": _policy_file}] = None
    mcp: Annotated[tuple[str, ...], "--mcp COMMAND|URL", _MCP] = ()
    mcp_env: Annotated[tuple[str, ...], "--mcp-env NAME", "Environment variable to pass to the command."] = ()
    mcp_header: Annotated[
        tuple[str, ...], "--mcp-header NAME=VARIABLE", "Header for the URL, with a variable's value."
    ] = ()
    mcp_trust: Annotated[bool, "--mcp-trust", "Trust the servers' hints about the effects of tools."] = False
    app: App = None

    @contextmanager
    def looking(self) -> Iterator[Journal]:
        """Open the journal that `driving` would drive, for reading only; creates nothing."""
        found = self._load()
        if isinstance(found, Engine):
            yield found.journal
        elif found is None:
            with reading(self.journal) as journal:
                yield journal
        else:
            with _JournalWhenUsed(self.journal, read_only=True) as given, self._made(found, given) as engine:
                yield engine.journal

    @contextmanager
    def tools(self) -> Iterator[tuple[Tool, ...]]:
        """Give the tools that are asked for beside the built-in ones; servers are connected until the block ends."""
        own = "an app's engine has tools of its own, see mcp_tools()"
        io.unless_wrong((self.app is not None and self.mcp, f"--mcp goes without --app: {own}"))
        with _mcp_offered(self) as offered:
            yield (*asked_tools(self.app, web=self.web, enrich=self.enrich), *offered)

    @contextmanager
    def driving(
        self,
        tools: Sequence[Tool] = (),
        *,
        durability: Durability = "full",
        model: Model | str | None = None,
        hooks: Sequence[Callable[[Event], None]] = (),
    ) -> Iterator[Engine]:
        """Open the engine that drives runs: the one of the app, or one with the built-in tools and what is given here."""
        own = "an app's engine has a policy of its own, see Engine"
        io.unless_wrong((self.policy and self.app is not None, f"--policy goes without --app: {own}"))
        found = self._load()
        with ExitStack() as stack:
            if not isinstance(found, Engine):
                journal = stack.enter_context(_JournalWhenUsed(self.journal, durability))
                if found is None:
                    found = Engine(model=model, tools=tools, journal=journal, policy=self.policy)
                else:
                    found = self._made(found, journal)
            engine = stack.enter_context(found)
            engine.hooks = (*engine.hooks, *hooks)
            yield engine

    def _load(self) -> Engine | Factory | None:
        found = app_of(self.app) if self.app is not None else None
        return self._checked(found) if isinstance(found, Engine) else found

    def _made(self, factory: Factory, journal: Journal) -> Engine:
        assert self.app is not None, "a function is an app"
        return self._checked(made_engine(self.app, factory, journal))

    def _checked(self, engine: Engine) -> Engine:
        """Return an app's engine; raise `UsageError` when ``--journal`` names another journal than it has."""
        own = engine.journal.path
        if journal_given() and _place_of(self.journal) != _place_of(own):
            raise UsageError(
                f"--app {self.app}: has the journal {own}, not {shown(self.journal)};"
                " leave --journal out, or name a function f(journal) that uses the journal it is given"
            )
        return engine


def _place_of(journal: str) -> str:
    """Return what names of the same journal have in common."""
    return shown(journal) if is_address(journal) else os.path.realpath(journal)


def asked_tools(app: str | None, *, web: bool, enrich: bool = False) -> tuple[Tool, ...]:
    """Return the tools of the web where they are asked for; raise `UsageError` with *app*, which brings its own, `MissingExtra` without them."""
    io.unless_wrong(
        (enrich and not web, "--enrich goes with --web: it is about the pages that these tools find"),
        (
            web and app is not None,
            "--web goes without --app: an app's engine has tools of its own, see web_tools()",
        ),
    )
    if not web:
        return ()
    from ...tools.web.tools import web_tools

    return web_tools(enrich=enrich)


@contextmanager
def _mcp_offered(given: EngineOptions) -> Iterator[tuple[Tool, ...]]:
    """Connect to the MCP servers that are *given* and yield their tools; the connections end with the block."""
    urls, secrets = sum(map(_is_url, given.mcp)), "no server gets another one's secrets"
    io.unless_wrong(
        (
            given.mcp_env and len(given.mcp) - urls != 1,
            f"--mcp-env comes with one --mcp command: {secrets}",
        ),
        (given.mcp_header and urls != 1, f"--mcp-header comes with one --mcp URL: {secrets}"),
        (given.mcp_trust and not given.mcp, "--mcp-trust comes with --mcp"),
    )
    if not given.mcp:
        yield ()
        return
    from ...tools.mcp.toolset import McpServer

    offered, prefixes = list[Tool](), set[str]()
    headers = {name: _variable(at, "--mcp-header") for name, at in map(_header, given.mcp_header)}
    env = {name: _variable(name, "--mcp-env") for name in given.mcp_env}
    with ExitStack() as stack:
        for target in given.mcp:
            own = {"headers": headers} if _is_url(target) else {"env": env}
            try:
                server = stack.enter_context(McpServer(target, trust_annotations=given.mcp_trust, **own))
                tools = server.tools()
                first, number = server.prefix, 2
                while server.prefix.lower() in prefixes:
                    tools = server.rename(f"{first}_{number}")
                    number += 1
            except ToolError as error:
                raise UsageError(f"--mcp {io.one_line(target)}: {error}") from None
            except UsageError as error:
                words = str(error).removeprefix("McpServer: ")
                if words == str(error):
                    raise
                raise UsageError(f"--mcp {io.one_line(target)!a}: {words}") from None
            prefixes.add(server.prefix.lower())
            offered += tools
            for name, why in server.skipped.items():
                left_out = f"the tool {io.one_line(name)} is left out: {io.one_line(why)}"
                io.tell(f"paor: --mcp {server.prefix}: {left_out}")
        yield tuple(offered)


def _is_url(target: str) -> bool:
    return target.lower().startswith(("http://", "https://"))


def _header(given: str) -> tuple[str, str]:
    name, _, variable = given.partition("=")
    if not (name and variable):
        expected = "expected NAME=VARIABLE, such as Authorization=MY_TOKEN"
        raise UsageError(f"--mcp-header {io.one_line(name)}: {expected}")
    return name, variable


def _variable(name: str, option: str) -> str:
    value = os.environ.get(name)
    if value is None:
        raise UsageError(f"{option} {io.one_line(name)}: there is no such variable in the environment")
    return value
