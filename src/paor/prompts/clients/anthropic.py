"""Anthropic's models, and any server that speaks its Messages interface."""

from __future__ import annotations

from typing import Any

from .client import RemoteModel
from .wire.interface import Interface
from .wire.messages import MessagesWire


class AnthropicModel(RemoteModel):
    """
    A model at Anthropic or at a server that speaks its Messages interface.

    Args:
        model: Its name there.
        api_key: Default: ``ANTHROPIC_API_KEY``, else ``ANTHROPIC_AUTH_TOKEN``; your own servers need none.
        base_url: The server, such as ``http://127.0.0.1:8080``; default: ``ANTHROPIC_BASE_URL``, else Anthropic.
        api: ``messages`` or ``auto``, which is the same.
        max_tokens: Most tokens of a reply, thinking included; default 16,000 at Anthropic, 4,096 elsewhere.
        temperature: Sent if given; Anthropic's newer models refuse it.
        effort: How much it thinks, such as ``low``; sent if given.
        structured: How a reply's schema is sent: ``schema``, ``tool`` (a forced tool call, for servers that ignore
            ``output_config``), ``none``, or ``auto`` (default): ``schema`` until the server refuses it.
        timeout_s, retries, wait_max_s, stream, prices, extra, headers, port, client, async_client: As for `OpenAIModel`.

    Raises:
        UsageError: A value that cannot be used, or no key where one is needed.
        MissingExtra: The SDK is not installed.
    """

    provider = "anthropic"
    home = "https://api.anthropic.com"
    hosts = ("anthropic.com", "claude.com")
    key_names = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
    sdk_client = "AsyncAnthropic"
    modules = ("anthropic", "anthropic.resources.messages")
    models_path = "/v1/models"
    apis = ("messages",)
    structures = ("schema", "tool", "none")

    def _wire(self) -> Interface:
        return MessagesWire()

    def _resource(self, client: Any) -> Any:
        return client.messages
