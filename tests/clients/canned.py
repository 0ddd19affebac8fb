"""A model over the real SDK whose server sends what a test has put there, without a network."""

from __future__ import annotations

from functools import cache
from typing import Any

import anthropic
import httpx2
import openai

from paor import AnthropicModel, ModelCall, OpenAIModel, Reply
from paor.errors import ModelUnavailable
from paor.models import PromptMessage

from ..support.model_server import Wire
from .inside import RequestKind


class Canned:
    """
    A model over the real SDK, whose server sends what a test has put there; nothing goes over a network.

    Attributes:
        shown: The pieces of text of the last reply.
    """

    def __init__(self, wire: Wire) -> None:
        self.shown: list[str] = []
        self._pieces: list[bytes] = []
        self._kind = ""
        transport = httpx2.MockTransport(
            lambda request: httpx2.Response(
                200, headers={"content-type": self._kind}, content=iter(self._pieces)
            )
        )
        options: dict[str, Any] = {
            "api_key": "secret-value",
            "http_client": httpx2.Client(transport=transport),
        }
        self._model: OpenAIModel | AnthropicModel
        if wire.name == "messages":
            claude = anthropic.Anthropic(base_url="http://model", **options)
            self._model = AnthropicModel("m", client=claude, retries=0, stream=True)
        else:
            client = openai.OpenAI(base_url="http://model/v1", **options)
            self._model = OpenAIModel("m", client=client, api=wire.name, retries=0, stream=True)

    def ask(
        self, pieces: list[bytes], kind: str = "text/event-stream", *, request: RequestKind = "refinement"
    ) -> Reply | ModelUnavailable:
        """Return what the model makes of a body that comes in *pieces*."""
        self._pieces, self._kind, self.shown = pieces, kind, []
        call = ModelCall(request, (PromptMessage("user", "Go on?"),), on_text=self.shown.append)
        try:
            return self._model.ask(call)
        except ModelUnavailable as fault:
            return fault


@cache
def canned(name: str) -> Canned:
    """Return the one of an interface: its client is made once."""
    return Canned(Wire(name))
