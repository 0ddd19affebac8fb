"""
One attempt over an SDK, sync and async: opened, read by the SDK's own stream, and its outcome as a value.

Nothing that a server does raises. Between the response and the SDK's stream stands a `Body`, which bounds the bytes, the
time and a run that was cancelled: the SDK's reader has no bound of its own, and in a sync client nothing else can stop it.
"""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from importlib import import_module
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from msgspec import Struct

from ...states.base.secrets import Scrubber
from ..model import CallStopped, ModelCall, request_label
from .background_loop import BACKGROUND
from .facts import ANSWER_BYTES, QUESTION_S, ServerQuestion
from .settings import Port
from .wire.exchange import Exchange
from .wire.faults import AttemptFault
from .wire.interface import Interface, ParsedReply, decoded

if TYPE_CHECKING:
    from .http import AsyncBody, Body, SyncBody

CONNECT_S = 10.0
"""Longest time to connect."""
_NAMED = ("model", "max_tokens", "stream")
NO_KEY = "none"
"""What a server of one's own is given where there is no key."""

AttemptResult = tuple[ParsedReply | AttemptFault, str | None]
"""The outcome of an attempt, and the server's id of it."""


class Attempt(Struct, frozen=True):
    """One request to make: its body, the seconds that it may take, who hears its text, and the tokens that the reply may have."""

    body: dict[str, Any]
    timeout_s: float
    call: ModelCall
    max_tokens: int


class Connection(ABC):
    """
    The SDK's clients of one model.

    Args:
        port: Time and chance.
        secrets: What must not get out.
        client, async_client: Made by the host. Without a sync one requests are made by async ones only, made on first use,
            one for each event loop.

    Attributes:
        provider: Name of the provider and of its SDK.
        home: Its address.
        sdk_client: Name of the SDK's client.
        modules: Of the SDK, imported before the first attempt so that no time of it is spent on that.
    """

    provider = ""
    home = ""
    sdk_client = ""
    modules: tuple[str, ...] = ()
    base_url: str | None
    _key: str
    _timeout_s: float
    _extra: dict[str, Any]
    _headers: dict[str, str]

    def __init__(self, port: Port, secrets: frozenset[str], client: Any, async_client: Any) -> None:
        self._port = port
        self._interface = self._wire()
        self._secrets = secrets
        self._scrub = Scrubber(sorted(secrets))
        self._client, self._async_given = client, async_client
        self._async_clients: WeakKeyDictionary[asyncio.AbstractEventLoop, Any] = WeakKeyDictionary()
        self._lock = threading.Lock()
        self._prepared = False

    @property
    def secrets(self) -> frozenset[str]:
        """What must not get out of paor: keys, headers, addresses with a password."""
        return self._secrets

    # -- the SDK ---------------------------------------------------------------------------------------------------

    def _ready(self) -> None:
        """Do what is done once before the first attempt: the SDK is imported, its logs are held back."""
        with self._lock:
            if not self._prepared:
                for module in self.modules:
                    import_module(module)
                from .http import quiet

                quiet(self._secrets)
                self._prepared = True

    def _make_client(self) -> Any:
        """Return a client of the SDK, its own retries off: attempts are counted, budgeted and journaled here."""
        from .http import bound, trust

        sdk, hooks = import_module(self.provider), {"response": [bound]}
        http = sdk.DefaultAsyncHttpxClient(event_hooks=hooks, verify=trust(), follow_redirects=False)
        return getattr(sdk, self.sdk_client)(
            api_key=self._key or NO_KEY,
            base_url=self.base_url or self.home,
            max_retries=0,
            timeout=self._timeout_s,
            http_client=http,
        )

    def _async_client(self) -> Any:
        loop = asyncio.get_running_loop()
        if self._async_given is not None and loop is not BACKGROUND.loop:  # which its host does not know
            return self._async_given
        with self._lock:
            if loop not in self._async_clients:
                self._async_clients[loop] = self._make_client()
            return self._async_clients[loop]

    @abstractmethod
    def _wire(self) -> Interface:
        """Return the interface that the server speaks."""

    @abstractmethod
    def _resource(self, client: Any) -> Any:
        """Return what of the SDK's client makes requests of that interface."""

    def _open(self, client: Any, attempt: Attempt) -> Any:
        """Return the context manager of the response to an attempt, its body not read."""
        import httpx2

        # What the SDK is given by name it takes apart member by member, for a second where a conversation is long, and may change;
        # so it gets by name what its clients of other clouds look at.
        named = {name: value for name, value in attempt.body.items() if name in _NAMED}
        if "messages" in attempt.body:  # without which it makes no request
            named["messages"] = []
        return self._resource(client).with_streaming_response.create(
            **named,
            extra_body=attempt.body | self._extra,
            extra_headers={"Accept-Encoding": "gzip", **self._headers},
            timeout=httpx2.Timeout(attempt.timeout_s, connect=min(CONNECT_S, attempt.timeout_s)),
        )

    def _events(self, client: Any, body: SyncBody | AsyncBody) -> Any:
        import httpx2

        sdk = import_module(self.provider)
        kind = sdk.AsyncStream if body.is_async else sdk.Stream
        response = httpx2.Response(200, stream=body, request=httpx2.Request("POST", self.home))
        return kind(cast_to=self._interface.sdk_type(self._interface.event), response=response, client=client)

    # -- one question -----------------------------------------------------------------------------------------------------

    def _asked(self, question: ServerQuestion) -> Mapping[str, Any] | None:
        """Return what a host's sync client gets as the answer to *question*, nothing in it if it is none, None without one."""
        try:
            self._ready()
            with self._client._client.stream(**self._request(self._client, question)) as response:
                data, end = b"", self._port.now() + QUESTION_S
                for piece in response.iter_bytes():
                    data += piece
                    if len(data) > ANSWER_BYTES or self._port.now() > end:
                        return {}
                return _answer(response.status_code, data)
        except Exception:  # whatever a foreign library raises: there is no answer
            return None

    async def _aasked(self, question: ServerQuestion) -> Mapping[str, Any] | None:
        """Do the same with an async client."""
        try:
            if not self._prepared:
                await asyncio.to_thread(self._ready)
            client = self._async_client()
            request = client._client.stream(**self._request(client, question))
            async with asyncio.timeout(QUESTION_S), request as response:
                data = b""
                async for piece in response.aiter_bytes():
                    data += piece
                    if len(data) > ANSWER_BYTES:
                        return {}
                return _answer(response.status_code, data)
        except Exception:  # as above
            return None

    def _request(self, client: Any, question: ServerQuestion) -> dict[str, Any]:
        """Return a question as the SDK's HTTP library takes it."""
        return {
            "method": "GET" if question.body is None else "POST",
            "url": question.url,
            "json": question.body,
            "headers": {"Accept-Encoding": "gzip", **client.auth_headers, **self._headers},
            "timeout": QUESTION_S,
            "follow_redirects": False,
        }

    # -- one attempt -----------------------------------------------------------------------------------------------

    def _attempted(self, attempt: Attempt) -> AttemptResult:
        """Make one attempt with a host's sync client and return its outcome, with the server's id of it."""
        from .http import SyncBody

        exchange = Exchange(self._interface, attempt.call.on_text, self._scrub, attempt.max_tokens)
        body: SyncBody | None = None
        end = self._port.now() + attempt.timeout_s

        def watch() -> None:
            if attempt.call.is_cancelled is not None and attempt.call.is_cancelled():
                raise CallStopped("the run is cancelled")
            if self._port.now() > end:
                raise TimeoutError

        try:
            self._ready()
            opened: AbstractContextManager[Any] = self._open(self._client, attempt)
            with opened as response:  # leaving it closes the connection, whatever the SDK's stream has done
                is_stream = self._begin(exchange, attempt, response)
                # from here on an error is one within the reply, of which what was heard may be whole
                body = SyncBody(response.iter_bytes(), watch, is_stream=is_stream)
                for event in self._events(self._client, body) if is_stream else body:
                    if is_stream and exchange.take(event):
                        break
        except CallStopped:  # before all others: a run that was cancelled is no fault of the server
            raise
        except Exception as error:  # whatever a foreign library raises is a fault of this attempt
            return self._broken(exchange, body, error)
        return self._finish(exchange, body, None)

    async def _aattempted(self, attempt: Attempt) -> AttemptResult:
        """Do the same with an async client."""
        from .http import AsyncBody

        exchange = Exchange(self._interface, attempt.call.on_text, self._scrub, attempt.max_tokens)
        body: AsyncBody | None = None
        try:
            if not self._prepared:
                await asyncio.to_thread(self._ready)  # an import of seconds
            client = self._async_client()
            opened: AbstractAsyncContextManager[Any] = self._open(client, attempt)
            async with asyncio.timeout(attempt.timeout_s), opened as response:
                is_stream = self._begin(exchange, attempt, response)
                body = AsyncBody(response.iter_bytes(), is_stream=is_stream)
                async for event in self._events(client, body) if is_stream else body:
                    if is_stream and exchange.take(event):
                        break
        except Exception as error:  # whatever a foreign library raises is a fault of this attempt
            return self._broken(exchange, body, error)
        return self._finish(exchange, body, None)

    def _begin(self, exchange: Exchange, attempt: Attempt, response: Any) -> bool:
        """Note what the head of a response says, and return whether its body may be a stream."""
        exchange.request_id = self._label(response.headers)
        exchange.content_type = response.headers.get("content-type", "").lower()
        return bool(attempt.body.get("stream")) or exchange.is_events

    def _label(self, headers: Mapping[str, str]) -> str | None:
        """Return the id in a response's headers, if it is one and no secret."""
        found = headers.get("x-request-id") or headers.get("request-id")
        return request_label(self._scrub(found)) if found else None

    def _broken(self, exchange: Exchange, body: Body | None, error: Exception) -> AttemptResult:
        from .http import fault_of

        headers = getattr(getattr(error, "response", None), "headers", None)
        if headers and exchange.request_id is None:
            exchange.request_id = self._label(headers)
        return self._finish(exchange, body, fault_of(error, self._port.wall(), body))

    def _finish(self, exchange: Exchange, body: Body | None, broken: AttemptFault | None) -> AttemptResult:
        """Return the outcome of an attempt: *broken*, a stream's reply as far as it is whole, or a whole body's."""
        if body is not None and (exchange.begun or exchange.is_events):
            result = exchange.end(broken, is_done=body.is_done)
        else:
            result = broken or exchange.whole(b"".join(body.kept if body else ()))
        request_id = exchange.request_id
        if request_id is None and isinstance(result, ParsedReply):
            request_id = request_label(self._scrub(result.id))
        return result, request_id


def _answer(status: int, data: bytes) -> Mapping[str, Any]:
    try:
        return decoded(data) if status == 200 else {}
    except ValueError:
        return {}
