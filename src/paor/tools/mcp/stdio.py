"""
A server as a child process: one JSON message a line on its standard input and output.

The package's own transport reads lines of any length and hands the server's complaints to our standard error; this one
bounds both, and knows whether the process was there when a request was sent.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any

_TOLD_BYTES = 4000
"""What is kept of the end of the server's standard error, for the message when it is gone."""

_GRACE_S = 2.0
"""Seconds that a server has to end by itself after its input was closed, and again after SIGTERM."""


class StdioTransport:
    """
    One run of a server's command; an async context manager that gives the two streams the client needs.

    Args:
        command: Program and arguments; no shell.
        env: All variables it gets.
        cwd: Where it runs.
        message_bytes: Longest line.

    Attributes:
        ended: Whether its output has ended, so that nothing can be asked of it any more.
        flaw: Why we ended it ourselves, or empty.
    """

    def __init__(
        self, command: Sequence[str], env: Mapping[str, str], cwd: str | None, *, message_bytes: int
    ) -> None:
        self.ended = False
        self.flaw = ""
        self._command = list(command)
        self._env = dict(env)
        self._cwd = cwd
        self._limit = message_bytes
        self._told = b""
        self._waiting: dict[int | str, None] = {}
        self._process: asyncio.subprocess.Process | None = None

    @property
    def told(self) -> str:
        """The last line of its standard error, and its exit code if it has ended."""
        lines = [line for line in self._told.decode("utf-8", "replace").splitlines() if line.strip()]
        code = self._process.returncode if self._process is not None else None
        parts = [f"exit code {code}"] if code is not None else []
        return ", ".join(parts + [line.strip() for line in lines[-1:]])

    async def __aenter__(self) -> tuple[Any, Any]:
        import anyio
        from mcp.shared.message import SessionMessage

        process = self._process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self._env,
            cwd=self._cwd,
            limit=self._limit,
            start_new_session=True,
        )
        self._inbound, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        write, self._outbound = anyio.create_memory_object_stream[SessionMessage](0)
        self._streams = (self._inbound, read, write, self._outbound)
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        pumps = (self._read(process.stdout), self._write(process.stdin), self._listen(process.stderr))
        self._tasks = [asyncio.create_task(work) for work in pumps]
        return read, write

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.ended = True
        for stream in self._streams:
            stream.close()
        process = self._process
        assert process is not None and process.stdin is not None, "it was entered"
        with suppress(OSError):
            process.stdin.close()
        for sign in (None, signal.SIGTERM, signal.SIGKILL):
            if sign is not None:
                _kill(process, sign)
            with suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), _GRACE_S)
                break
        _kill(process, signal.SIGKILL)  # what it has started and left behind
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _read(self, stdout: asyncio.StreamReader) -> None:
        from anyio import BrokenResourceError, ClosedResourceError
        from mcp.shared.message import SessionMessage

        try:
            while line := await stdout.readline():
                for message in messages_of(line, self._waiting):
                    if not hasattr(message, "method"):
                        self._waiting.pop(message.id, None)
                    await self._inbound.send(SessionMessage(message))
        except ValueError:
            self.flaw = f"it sent a message of more than {self._limit} bytes"
        except (BrokenResourceError, ClosedResourceError, OSError):
            pass
        finally:
            self.ended = True
            self._inbound.close()

    async def _write(self, stdin: asyncio.StreamWriter) -> None:
        from mcp_types import JSONRPCRequest

        try:
            async for item in self._outbound:
                if isinstance(item.message, JSONRPCRequest):
                    self._waiting[item.message.id] = None
                text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                stdin.write(text.encode("utf-8", "replace") + b"\n")
                await stdin.drain()
        except OSError:
            self.ended = True
            self._inbound.close()

    async def _listen(self, stderr: asyncio.StreamReader) -> None:
        while chunk := await stderr.read(4096):
            self._told = (self._told + chunk)[-_TOLD_BYTES:]


def messages_of(line: bytes, waiting: Collection[int | str] = ()) -> list[Any]:
    """
    Return the messages that a line holds; nothing for one that a server prints to its standard output.

    What is no UTF-8, and half a character, are replaced. An answer that cannot be read all the same, or does not say to which request it
    belongs, is an error of the requests that it may be an answer to: nobody waits for it until the time of its call is over.

    Args:
        line: As the server wrote it.
        waiting: Numbers of the requests that have no answer yet.
    """
    from mcp_types import JSONRPCError, jsonrpc_message_adapter

    try:
        message = jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError:
        return _read_again(line.decode("utf-8", "replace"), waiting)
    if (
        isinstance(message, JSONRPCError) and message.id is None
    ):  # it could not read a request, and not say which
        return [message.model_copy(update={"id": number}) for number in waiting]
    return [message]


def _read_again(text: str, waiting: Collection[int | str]) -> list[Any]:
    """Return the messages of a line that is no message as it is."""
    from mcp_types import jsonrpc_message_adapter

    try:
        found = json.loads(text)
        clean = json.dumps(found, ensure_ascii=False).encode("utf-8", "replace")
    except (ValueError, RecursionError):
        return _unreadable(text, waiting) if _BROKEN.match(text) else []
    if isinstance(found, list):  # a batch, as the protocol of 2025-03-26 has it
        items = [item for item in found if isinstance(item, dict)]
        return [message for item in items for message in messages_of(json.dumps(item).encode(), waiting)]
    with suppress(ValueError):
        return [jsonrpc_message_adapter.validate_json(clean, by_name=False)]
    answers = isinstance(found, dict) and ("result" in found or "error" in found)
    meant = answers and ("jsonrpc" in found or found.get("id") in waiting)
    return _unreadable(text, waiting) if meant else []


def _unreadable(text: str, waiting: Collection[int | str]) -> list[Any]:
    """Return an error for each request that an answer which cannot be read may belong to: those that it names, else all."""
    from mcp_types import PARSE_ERROR, jsonrpc_message_adapter

    named: set[int | str] = {int(number) for number in _NUMBER.findall(text)}
    error = {"code": PARSE_ERROR, "message": "its answer cannot be read"}
    return [
        jsonrpc_message_adapter.validate_python({"jsonrpc": "2.0", "id": number, "error": error})
        for number in [one for one in waiting if one in named] or waiting
    ]


_NUMBER = re.compile(r'"id"\s*:\s*"?([0-9]{1,15})["\s,}]')
_BROKEN = re.compile(r'[\s\ufeff]*(?:\{.*)?"jsonrpc"\s*:', re.DOTALL)
"""How a line begins that was to be a message, or a part of one; a program that prints what it has read writes more before it."""


def _kill(process: asyncio.subprocess.Process, sign: signal.Signals) -> None:
    """Send *sign* to the process and everything that it has started in its own session."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, sign)
