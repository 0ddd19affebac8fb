"""
What passes between the client of the ``mcp`` package and a server, seen on its way: faults of a part are taken out of the whole.

The package reads an answer as a whole or not at all. One tool that is listed wrongly would take every tool of its server
away, and structured content that is no object, which only the newest protocol allows, would take away the result of a call
that was made.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from .naming import one_line

KEPT = "paor/structuredContent"
"""Key in a result's ``_meta`` under which structured content is that its protocol does not allow; also null, which says something."""


class SiftedTransport:
    """
    A transport whose messages are looked at; an async context manager that gives the two streams the client needs.

    Args:
        transport: The same.

    Attributes:
        version: The protocol that was agreed on; empty before.
        refused: Tools that were taken out of the listing by name, with the reason.
    """

    def __init__(self, transport: Any) -> None:
        self.version = ""
        self.refused: dict[str, str] = {}
        self._transport = transport
        self._methods: dict[Any, str] = {}

    async def __aenter__(self) -> tuple[Any, Any]:
        read, write = await self._transport.__aenter__()
        return _Read(read, self), _Write(write, self)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Any:
        return await self._transport.__aexit__(kind, error, trace)

    def sent(self, item: Any) -> None:
        """Note which request a number is of."""
        number, method = (getattr(item.message, name, None) for name in ("id", "method"))
        if method is not None and number is not None:
            self._methods[number] = method

    def came(self, item: Any) -> Any:
        """Return what came, with the parts taken out or put aside for which the package would refuse all of it."""
        message = getattr(item, "message", None)
        if message is None or hasattr(message, "method"):
            return item
        method, result = self._methods.pop(message.id, ""), getattr(message, "result", None)
        if isinstance(result, dict) and method == "tools/list":
            self._sift(result)
        elif isinstance(result, dict) and method == "tools/call":
            put_aside(result)
        return item

    def _sift(self, result: dict[str, Any]) -> None:
        """Take the tools out that are none; a listing that is none as a whole stays as it is."""
        tools = result.get("tools")
        if not self.version or not isinstance(tools, list) or self._flaw(result | {"tools": []}):
            return
        flaws = [self._flaw(result | {"tools": [tool]}) for tool in tools]
        result["tools"] = [tool for tool, flaw in zip(tools, flaws, strict=True) if not flaw]
        for number, (tool, flaw) in enumerate(zip(tools, flaws, strict=True), 1):
            if flaw:
                name = tool.get("name") if isinstance(tool, dict) else None
                self.refused[name if isinstance(name, str) else f"number {number} of its page"] = flaw

    def _flaw(self, result: Mapping[str, Any]) -> str:
        """Return why a listing is none, empty for one."""
        from mcp.shared.inbound import find_invalid_x_mcp_header
        from mcp_types.methods import parse_server_result
        from mcp_types.version import MODERN_PROTOCOL_VERSIONS
        from pydantic import ValidationError

        try:
            parse_server_result("tools/list", self.version, result)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = ".".join(
                str(part) for part in first["loc"] if part != "tools" and not isinstance(part, int)
            )
            return one_line(f"is listed against the protocol: {place or 'it'}: {first['msg']}", 300)
        if self.version in MODERN_PROTOCOL_VERSIONS:  # the package leaves these out, and says nothing
            for tool in result["tools"]:
                if (flaw := find_invalid_x_mcp_header(tool["inputSchema"])) is not None:
                    return one_line(f"is listed against the protocol: x-mcp-header: {flaw}", 300)
        return ""


def structured_of(result: Any) -> tuple[bool, Any]:
    """Return whether a `CallToolResult` has structured content, and that; null beside other content says nothing."""
    if result.meta is not None and KEPT in result.meta:
        found = result.meta[KEPT]
        return found is not None or not result.content, found
    return result.structured_content is not None, result.structured_content


def put_aside(result: dict[str, Any]) -> None:
    """Put structured content that is no object where it passes in any protocol; beside any, content may be missing."""
    if "structuredContent" not in result:
        return
    result.setdefault("content", [])
    if isinstance(result["structuredContent"], dict):
        return
    meta = result.get("_meta")
    result["_meta"] = (meta if isinstance(meta, dict) else {}) | {KEPT: result.pop("structuredContent")}


class _Read:
    """The stream of what a server says."""

    def __init__(self, stream: Any, wire: SiftedTransport) -> None:
        self._stream, self._wire = stream, wire

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def receive(self) -> Any:
        return self._wire.came(await self._stream.receive())

    def __aiter__(self) -> _Read:
        return self

    async def __anext__(self) -> Any:
        return self._wire.came(await self._stream.__anext__())

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> Any:
        return await self._stream.__aexit__(*error)


class _Write:
    """The stream of what is said to it."""

    def __init__(self, stream: Any, wire: SiftedTransport) -> None:
        self._stream, self._wire = stream, wire

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def send(self, item: Any) -> None:
        self._wire.sent(item)
        await self._stream.send(item)

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> Any:
        return await self._stream.__aexit__(*error)
