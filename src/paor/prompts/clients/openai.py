"""OpenAI's models, and any server that speaks OpenAI's interfaces: llama.cpp, Ollama, vLLM and others."""

from __future__ import annotations

from typing import Any

from .client import RemoteModel
from .wire.chat_completions import ChatWire
from .wire.interface import Interface
from .wire.responses import ResponsesWire


class OpenAIModel(RemoteModel):
    """
    A model at OpenAI or at a compatible server.

    Args:
        model: Its name there.
        api_key: Default: ``OPENAI_API_KEY``; your own servers need none.
        base_url: The server, such as ``http://127.0.0.1:8080/v1``; default: ``OPENAI_BASE_URL``, else OpenAI.
        api: ``responses``, ``chat``, or ``auto`` (default): Responses at OpenAI, Chat Completions elsewhere.
        max_tokens: Most tokens of a reply, reasoning included; default 16,000 at OpenAI, 4,096 elsewhere.
        temperature: Sent if given.
        effort: How much it reasons, such as ``low``; sent if given.
        structured: How a reply's schema is sent: ``schema``, ``object`` (JSON mode), ``none``, or ``auto`` (default): the
            best that the server takes.
        timeout_s: Seconds of one attempt; default 300 at OpenAI, 1,800 elsewhere.
        retries: Further attempts after a temporary failure.
        wait_max_s: Longest wait between two attempts, in seconds; if a server asks for more, the call ends.
        stream: Whether replies are streamed; None (default): if there is a listener, and always elsewhere than at OpenAI, where
            a reply that repeats itself is then cut off.
        prices: A price list as data or a file; default: ``PAOR_PRICES``, else the shipped one.
        extra: Further members of every request's body.
        headers: Further headers of every request; their values are kept secret like the key.
        port: Clock and randomness, for tests.
        client, async_client: Your own clients of the SDK; their retries are turned off.

    Raises:
        UsageError: A value that cannot be used, or no key where one is needed.
        MissingExtra: The SDK is not installed.
    """

    provider = "openai"
    home = "https://api.openai.com/v1"
    hosts = ("openai.com",)
    key_names = ("OPENAI_API_KEY",)
    sdk_client = "AsyncOpenAI"
    modules = ("openai", "openai.resources.chat.completions", "openai.resources.responses")
    apis = ("chat", "responses")
    structures = ("schema", "object", "none")

    @property
    def api(self) -> str:
        """The API that it uses, ``chat`` or ``responses``."""
        if self._api != "auto":
            return self._api
        return "responses" if self.official else "chat"

    def _wire(self) -> Interface:
        return ResponsesWire() if self.api == "responses" else ChatWire()

    def _resource(self, client: Any) -> Any:
        return client.responses if self.api == "responses" else client.chat.completions
