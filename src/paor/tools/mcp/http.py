"""
A server over HTTP: bounds on what it sends, and failures that say whether a request was carried out.

The client of the ``mcp`` package turns every failure below JSON-RPC into the same few words. Here each becomes a
JSON-RPC error of its own request, whose `data` says how far the request came: `REFUSED` (the server or the way to it
said no before anything was done) or `LOST` (it was sent, and nobody knows).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import httpx2

REFUSED = "paor-refused"
LOST = "paor-lost"
FATE = "paorFate"
"""Key in an error's data under which one of the two stands."""
CALL = "tools/call"
"""The method whose answers are looked at; how the others fail is part of finding out which protocol a server speaks."""

_REFUSALS = frozenset({400, 401, 403, 404, 405, 406, 407, 408, 410, 411, 413, 414, 415, 421, 426, 429, 431})
"""Statuses with which a server turns a request away unread; any other one says nothing of what was done."""


def http_client(headers: Mapping[str, str], *, message_bytes: int, connect_s: float) -> httpx2.AsyncClient:
    """Return the client for one server: no redirects of its own, no time limits on answers, bounded sizes."""
    import httpx2

    class Guard(httpx2.AsyncHTTPTransport):
        """Makes failures answers, and counts bytes."""

        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            if request.method != "POST":
                return await super().handle_async_request(request)
            try:
                response = await super().handle_async_request(request)
            except (
                httpx2.ConnectError,
                httpx2.ConnectTimeout,
                httpx2.PoolTimeout,
                httpx2.UnsupportedProtocol,
            ) as error:
                return _failure(request, 503, f"it cannot be reached ({type(error).__name__})", REFUSED)
            except httpx2.TransportError as error:
                return _failure(request, 502, f"the connection broke ({type(error).__name__})", LOST)
            kind, asked = response.headers.get("content-type", "").lower(), _request_message(request)
            is_call = asked.get("method") == CALL
            if response.status_code >= 400 and not kind.startswith("application/json"):
                await response.aclose()
                fate = REFUSED if response.status_code in _REFUSALS else LOST
                return _failure(request, response.status_code, f"HTTP {response.status_code}", fate)
            if response.headers.get("content-encoding", "identity") != "identity":
                await response.aclose()
                return _failure(request, 502, "it packed its answer, which it was not asked to", LOST)
            if kind.startswith("application/json"):
                return await self._read_bounded(request, response, asked if is_call else None)
            if is_call and response.is_success and not kind.startswith("text/event-stream"):
                await response.aclose()
                status = response.status_code
                return _failure(request, 502, f"HTTP {status} with {kind[:60] or 'nothing'} in it", LOST)
            return response

        async def _read_bounded(
            self, request: httpx2.Request, response: httpx2.Response, call: dict[str, Any] | None
        ) -> httpx2.Response:
            """Return *response* with its body read; one that does not answer *call* becomes a failure."""
            body = bytearray()
            try:
                async for chunk in response.stream:  # type: ignore[union-attr]
                    body += chunk
                    if len(body) > message_bytes:
                        return _failure(request, 502, f"it sent more than {message_bytes} bytes", LOST)
            except httpx2.TransportError as error:
                return _failure(request, 502, f"the connection broke ({type(error).__name__})", LOST)
            finally:
                await response.aclose()
            if call is not None and not response.is_redirect:
                flaw = _flaw(bytes(body), call.get("id"), response.status_code)
                if flaw is not None:
                    fate = REFUSED if response.status_code in _REFUSALS else LOST
                    return _failure(request, response.status_code if fate == REFUSED else 502, flaw, fate)
            left = [
                (name, value) for name, value in response.headers.raw if name.lower() != b"content-length"
            ]
            return httpx2.Response(response.status_code, headers=left, stream=httpx2.ByteStream(bytes(body)))

    timeout = httpx2.Timeout(30.0, connect=connect_s, read=None)
    return httpx2.AsyncClient(
        headers={"accept-encoding": "identity", **headers}, timeout=timeout, transport=Guard()
    )


def _request_message(request: httpx2.Request) -> dict[str, Any]:
    """Return the JSON-RPC message of a request."""
    try:
        found = json.loads(request.content)
    except (ValueError, RuntimeError):
        return {}
    return found if isinstance(found, dict) else {}


def _flaw(body: bytes, number: Any, status: int) -> str | None:
    """Return why *body* is no answer to the request of this *number*; None for one."""
    from mcp_types import JSONRPCError, JSONRPCResponse, jsonrpc_message_adapter

    try:
        message = jsonrpc_message_adapter.validate_json(body, by_name=False)
    except ValueError:
        return "it answered no message of the protocol" if status < 400 else f"HTTP {status}"
    if isinstance(message, JSONRPCResponse | JSONRPCError) and message.id == number:
        return None
    if isinstance(message, JSONRPCError):
        return f"HTTP {status}: {message.error.message[:300]}"
    return "it answered another request than this"


def _failure(request: httpx2.Request, status: int, words: str, fate: str) -> httpx2.Response:
    """Return an answer that is a JSON-RPC error of the request."""
    import httpx2

    error: dict[str, Any] = {"code": -32603, "message": words, "data": {FATE: fate, "status": status}}
    number = _request_message(request).get("id")
    return httpx2.Response(
        status, json={"jsonrpc": "2.0", "id": number if number is not None else 0, "error": error}
    )
