"""Anthropic's models, and any server that speaks its Messages interface."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from ...states.errors import MissingExtra, UsageError
from .client import RemoteModel
from .connection import CONNECT_S, Attempt
from .settings import Port
from .wire.interface import Interface
from .wire.messages import MessagesWire

KEY, TOKEN, BASE_URL = "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL"
NO_KEY = "none"


class AnthropicModel(RemoteModel):
    """
    A model at Anthropic or at a server that speaks its Messages interface.

    Args:
        model: Its name there.
        api_key: Default: ``ANTHROPIC_API_KEY``, else ``ANTHROPIC_AUTH_TOKEN``; servers of one's own need none.
        base_url: The server, such as ``http://127.0.0.1:8080``; default: ``ANTHROPIC_BASE_URL``, else Anthropic.
        max_tokens: Most tokens of a reply, thinking included; default 16,000 at Anthropic, 4,096 elsewhere.
        temperature: Sent if given; Anthropic's newer models refuse it.
        effort: How much it thinks, such as ``low``; sent if given.
        structured: How a reply's schema is sent: ``schema``, ``tool`` (a call of a tool is forced, for servers that pass
            over ``output_config``), ``none``, or ``auto`` (default): ``schema`` until the server refuses it.
        timeout_s, retries, wait_max_s, stream, prices, extra, headers, port, client, async_client: As for `OpenAIModel`.

    Raises:
        UsageError: A value that cannot be used, or no key where one is needed.
        MissingExtra: The SDK is not installed.
    """

    provider = "anthropic"
    hosts = ("anthropic.com", "claude.com")
    modules = ("anthropic", "anthropic.resources.messages")

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
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
        if find_spec("anthropic") is None:
            raise MissingExtra(f'anthropic:{model} needs the SDK: pip install "paor[anthropic]"')
        own = client is not None or async_client is not None
        key = api_key
        if key is None and not own:
            key = os.environ.get(KEY) or os.environ.get(TOKEN) or None
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
        if structured == "object":
            raise UsageError("structured='object' is for OpenAIModel; use schema, tool or none")
        if self.official and not (self._key or own):
            raise UsageError(f"{self.name} needs a key: set {KEY}, or {BASE_URL} for a server of your own")
        self._wire: Interface = MessagesWire()

    @property
    def _interface(self) -> Interface:
        return self._wire

    def _made(self, *, is_async: bool) -> Any:
        import anthropic

        from .http import abound, bound, trust

        options: dict[str, Any] = {
            "api_key": self._key or NO_KEY,
            "base_url": self.base_url or "https://api.anthropic.com",
            "max_retries": 0,
            "timeout": self._timeout_s,
        }
        http: dict[str, Any] = {"verify": trust(), "follow_redirects": False}
        if is_async:
            own = anthropic.DefaultAsyncHttpxClient(event_hooks={"response": [abound]}, **http)
            return anthropic.AsyncAnthropic(http_client=own, **options)
        client = anthropic.DefaultHttpxClient(event_hooks={"response": [bound]}, **http)
        return anthropic.Anthropic(http_client=client, **options)

    def _open(self, client: Any, attempt: Attempt) -> Any:
        import httpx2

        body, extra = dict(attempt.body), dict(self._extra)
        if "temperature" in body:  # no parameter of the SDK any more; servers of one's own take it
            extra.setdefault("temperature", body.pop("temperature"))
        return client.messages.with_streaming_response.create(
            **body,
            extra_body=extra or None,
            extra_headers={"Accept-Encoding": "gzip", **self._headers},
            timeout=httpx2.Timeout(attempt.timeout_s, connect=min(CONNECT_S, attempt.timeout_s)),
        )
