"""OpenAI's models, and any server that speaks OpenAI's interfaces: llama.cpp, Ollama, vLLM and others."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from ...states.errors import MissingExtra, UsageError
from .client import RemoteModel
from .connection import CONNECT_S, Attempt
from .settings import Port
from .wire.chat_completions import ChatWire
from .wire.interface import Interface
from .wire.responses import ResponsesWire

KEY, BASE_URL = "OPENAI_API_KEY", "OPENAI_BASE_URL"
NO_KEY = "none"
"""What a server of one's own is given where there is no key."""


class OpenAIModel(RemoteModel):
    """
    A model at OpenAI or at a compatible server.

    Args:
        model: Its name there.
        api_key: Default: ``OPENAI_API_KEY``; servers of one's own need none.
        base_url: The server, such as ``http://127.0.0.1:8080/v1``; default: ``OPENAI_BASE_URL``, else OpenAI.
        api: ``responses``, ``chat``, or ``auto`` (default): Responses at OpenAI, Chat Completions elsewhere.
        max_tokens: Most tokens of a reply, reasoning included; default 16,000 at OpenAI, 4,096 elsewhere.
        temperature: Sent if given.
        effort: How much it reasons, such as ``low``; sent if given.
        structured: How a reply's schema is sent: ``schema``, ``object`` (JSON mode), ``none``, or ``auto`` (default): the
            best that the server takes.
        timeout_s: Seconds of one attempt.
        retries: Attempts after the first one that failed for a reason that may pass.
        wait_max_s: Longest wait between two; a server that asks for more ends the call.
        stream: Whether replies are streamed; None (default): when somebody listens.
        prices: A price list as data or a file; default: ``PAOR_PRICES``, else the shipped one.
        extra: More members of every request's body.
        headers: More headers of every request; their values are kept secret like the key.
        port: Time and chance, for tests.
        client, async_client: Clients of the SDK that you have made, for what they can do; their retries are turned off.

    Raises:
        UsageError: A value that cannot be used, or no key where one is needed.
        MissingExtra: The SDK is not installed.
    """

    provider = "openai"
    hosts = ("openai.com",)
    modules = ("openai", "openai.resources.chat.completions", "openai.resources.responses")

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        api: str = "auto",
        max_tokens: int | None = None,
        temperature: float | None = None,
        effort: str | None = None,
        structured: str = "auto",
        timeout_s: float = 300.0,
        retries: int = 3,
        wait_max_s: float = 60.0,
        stream: bool | None = None,
        prices: Mapping[str, Any] | str | os.PathLike[str] | None = None,
        extra: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        port: Port | None = None,
        client: Any = None,
        async_client: Any = None,
    ) -> None:
        if find_spec("openai") is None:
            raise MissingExtra(f'openai:{model} needs the SDK: pip install "paor[openai]"')
        if api not in ("auto", "chat", "responses"):
            raise UsageError(f"api={api!r}: use auto, chat or responses")
        own = client is not None or async_client is not None
        key = api_key if api_key is not None or own else os.environ.get(KEY) or None
        super().__init__(
            model,
            key=key,
            base_url=base_url or (None if own else os.environ.get(BASE_URL) or None),
            max_tokens=max_tokens,
            temperature=temperature,
            effort=effort,
            structured=structured,
            timeout_s=timeout_s,
            retries=retries,
            wait_max_s=wait_max_s,
            stream=stream,
            prices=prices,
            extra=extra,
            headers=headers,
            port=port,
            client=client.with_options(max_retries=0) if client is not None else None,
            async_client=async_client.with_options(max_retries=0) if async_client is not None else None,
        )
        if structured == "tool":
            raise UsageError("structured='tool' is for AnthropicModel; use schema, object or none")
        if self.official and not (self._key or own):
            raise UsageError(f"{self.name} needs a key: set {KEY}, or {BASE_URL} for a server of your own")
        self.api = api if api != "auto" else "responses" if self.official else "chat"
        self._wire: Interface = ResponsesWire() if self.api == "responses" else ChatWire()

    @property
    def _interface(self) -> Interface:
        return self._wire

    def _made(self, *, is_async: bool) -> Any:
        import openai

        from .http import abound, bound, trust

        options: dict[str, Any] = {
            "api_key": self._key or NO_KEY,
            "base_url": self.base_url,
            "max_retries": 0,
            "timeout": self._timeout_s,
        }
        http: dict[str, Any] = {"verify": trust(), "follow_redirects": False}
        if is_async:
            own = openai.DefaultAsyncHttpxClient(event_hooks={"response": [abound]}, **http)
            return openai.AsyncOpenAI(http_client=own, **options)
        client = openai.DefaultHttpxClient(event_hooks={"response": [bound]}, **http)
        return openai.OpenAI(http_client=client, **options)

    def _open(self, client: Any, attempt: Attempt) -> Any:
        import httpx2

        place = client.responses if self.api == "responses" else client.chat.completions
        return place.with_streaming_response.create(
            **attempt.body,
            extra_body=self._extra or None,
            extra_headers={"Accept-Encoding": "gzip", **self._headers},
            timeout=httpx2.Timeout(attempt.timeout_s, connect=min(CONNECT_S, attempt.timeout_s)),
        )
