"""How a server of tools is reached and how far it is trusted, as one value that is checked when it is made."""

from __future__ import annotations

import base64
import math
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args
from urllib.parse import unquote

from ...states.base.errors import UsageError
from ...states.records.actions import Effect

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,59}\Z")
Mode = Literal["auto", "legacy", "modern"]
_SECRET_CHARS = 6
"""Shortest value of a header or a variable that is looked for in what a server says; shorter ones occur by chance."""


@dataclass(frozen=True, slots=True)
class McpSettings:
    """
    Everything about one server but the connection itself.

    Attributes:
        target: Command with its arguments; an ``http(s)://`` URL; or an object of the ``mcp`` package that its client
            takes (a server in this process, a transport).
        name: First part of its tools' names; empty: what the server calls itself.
        env: Variables of the command, beside a few harmless ones (``PATH``, ``HOME``); nothing else is inherited.
        cwd: Folder in which the command runs.
        headers: Headers of every request to a URL.
        trust_annotations: Whether the server's own hints (``readOnlyHint``, ``idempotentHint``) set effect classes.
        effects: Effect classes by tool name, as the server has it, ``*`` for any characters; win over hints.
        include, exclude: Patterns of tool names, as the server has them; empty `include`: all.
        asks_first: Whether its tools are known to do nothing before their questions are answered; then a call whose
            question was answered too late may be made again.
        sampling: Whether the run's model answers the server's own requests to a model.
        roots: Folders that the server is told it may work in.
        mode: Protocol: ``auto`` (newest first), ``legacy`` (up to 2025-11-25), ``modern`` (2026-07-28 only).
        connect_s: Seconds to start the server and list its tools.
        call_s: Seconds of one call, without the time in which a person answers.
        task_s: Seconds in which the result of a call that its server has made a task is polled for; then the run waits, and
            every resume polls on.
        message_bytes: Largest message of the server.
        tools_max: Most tools.
        held_max: Calls of the old protocol that are kept open for an answer; the oldest is given up first.
    """

    target: Any
    name: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    trust_annotations: bool = False
    effects: Mapping[str, Effect] = field(default_factory=dict)
    include: Sequence[str] = ()
    exclude: Sequence[str] = ()
    asks_first: bool = False
    sampling: bool = False
    roots: Sequence[str | os.PathLike[str]] = ()
    mode: Mode = "auto"
    connect_s: float = 30.0
    call_s: float = 120.0
    task_s: float = 120.0
    message_bytes: int = 20_000_000
    tools_max: int = 1000
    held_max: int = 8

    def __post_init__(self) -> None:
        if not self.target:
            raise UsageError("McpServer: expected a command, a list of its words, or a URL")
        if self.name and not NAME.match(self.name):
            raise UsageError(
                f"McpServer: name {self.name!a} may hold letters, digits, _ and -, first a letter"
            )
        for name in ("env", "headers"):
            given = getattr(self, name)
            if not _is_texts(given):
                raise UsageError(f"McpServer: {name} must be a mapping of texts to texts")
            if any("\r" in text or "\n" in text or "\0" in text for item in given.items() for text in item):
                raise UsageError(f"McpServer: {name} holds a line break or a NUL character")
        if self.headers and not self.is_url:
            raise UsageError("McpServer: headers are for a URL; a command is given variables: env={...}")
        if (self.env or self.cwd) and self.command is None:
            raise UsageError("McpServer: env and cwd are for a command; a URL is given headers={...}")
        for pattern, effect in self.effects.items():
            if effect not in get_args(Effect):
                raise UsageError(f"McpServer: effects[{pattern!a}] is none of {', '.join(get_args(Effect))}")
        if self.mode not in get_args(Mode):
            raise UsageError(f"McpServer: mode {self.mode!a} is none of {', '.join(get_args(Mode))}")
        for name in ("include", "exclude"):
            if isinstance(getattr(self, name), str):
                raise UsageError(f"McpServer: {name} must be a list of patterns, such as ['read_*']")
        for name in ("connect_s", "call_s", "message_bytes", "tools_max", "held_max"):
            value = getattr(self, name)
            good = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
            if not good or value <= 0:
                raise UsageError(f"McpServer: {name} must be a number above 0")
        if not (isinstance(self.task_s, int | float) and 0 <= self.task_s < math.inf):
            raise UsageError("McpServer: task_s must be a number from 0")

    @property
    def is_url(self) -> bool:
        """Whether the server is reached over HTTP."""
        return isinstance(self.target, str) and self.target.lower().startswith(("http://", "https://"))

    @property
    def command(self) -> list[str] | None:
        """The words of the command, None for a URL or an object."""
        if self.is_url or not isinstance(self.target, str | list | tuple):
            return None
        return (
            shlex.split(self.target) if isinstance(self.target, str) else [str(word) for word in self.target]
        )

    @property
    def shown(self) -> str:
        """The server in few words for messages: its name here, the command's name, or the URL without user, query and fragment."""
        if self.name:
            return self.name
        if self.is_url:
            scheme, _, rest = self.target.partition("//")
            return f"{scheme}//{re.split(r'[?#]', rest)[0].rpartition('@')[2]}"[:200]
        command = self.command
        return os.path.basename(command[0])[:80] if command else type(self.target).__name__

    def secrets(self) -> tuple[str, ...]:
        """Return every text that must not come back: values of variables and headers, user and query of the URL."""
        found: set[str] = set()
        for value in (*self.env.values(), *self.headers.values()):
            found |= {value, *value.split()}
        if self.is_url:
            rest = self.target.partition("//")[2]
            user, mark, _ = re.split(r"[/?#]", rest)[0].rpartition("@")
            plain = unquote(user)
            basic = base64.b64encode(plain.encode()).decode()  # as it goes over the wire
            found |= {user, plain, basic, *user.split(":"), *plain.split(":")} if mark else set()
            query = rest.partition("?")[2].partition("#")[0]
            values = [pair.partition("=")[2] for pair in query.split("&")]
            found |= {*values, *map(unquote, values)}
        return tuple(sorted(text for text in found if len(text) >= _SECRET_CHARS))


def settings_of(target: Any, **options: Any) -> McpSettings:
    """
    Return the settings of a server.

    Raises:
        UsageError: A command that cannot be split into words, an unknown option, or a value that is none.
    """
    try:
        settings = McpSettings(target, **options)
        if settings.command == []:
            raise UsageError("McpServer: the command is empty")
        if settings.command and "://" in settings.command[0]:
            raise UsageError("McpServer: a URL begins with http:// or https://")
    except TypeError as error:
        raise UsageError(f"McpServer: {str(error).removeprefix('McpSettings.__init__() ')}") from None
    except ValueError as error:
        if isinstance(error, UsageError):
            raise
        raise UsageError(f"McpServer: the command cannot be split into words: {error}") from None
    return settings


def _is_texts(value: object) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(key, str) and isinstance(text, str) for key, text in value.items()
    )
