"""What is known of a model before the first request: its context, and whether it calls tools; asked of a server once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from paor import AnthropicModel, OpenAIModel
from paor.models import ServerFacts

from ..support.model_server import (
    NO_TOOLS,
    QUESTIONS,
    ModelServer,
    QuickPort,
    Wire,
    dead,
    model_server,
    plain,
)
from .inside import ANSWER_BYTES, KNOWN, listed_context, settings_module

CHAT, RESPONSES, MESSAGES = (Wire(name) for name in ("chat", "responses", "messages"))
each_driver = pytest.mark.parametrize("driver", ["sync", "async"])
PROPS = {
    "default_generation_settings": {"n_ctx": 16_384, "params": {}},
    "total_slots": 1,
    "chat_template_caps": {"supports_tool_calls": True, "supports_tools": True},
}
LLAMA = {
    "models": [{"name": "local", "model": "local", "capabilities": ["completion"]}],
    "data": [
        {"id": "local", "owned_by": "llamacpp", "meta": {"n_ctx": 32_768, "n_ctx_train": 131_072}},
    ],
}
"""As llama.cpp's server answers, but for what does not matter."""
SHOW = {
    "capabilities": ["completion", "tools"],
    "model_info": {"qwen2.context_length": 131_072},
    "parameters": 'stop "<|im_end|>"\nnum_ctx                        8192',
}


@pytest.fixture
def server() -> Iterator[ModelServer]:
    """Return a server that says nothing of itself."""
    with model_server() as running:
        running.says = {}
        yield running


def look(model: OpenAIModel | AnthropicModel, driver: str = "sync") -> ServerFacts:
    """Look as *driver* does."""
    return model.look() if driver == "sync" else asyncio.run(model.alook())


def calling(wire: Wire) -> dict[str, Any]:
    """Return a response that calls the tool."""
    body = wire.body("")
    function = {"name": "temperature", "arguments": '{"place": "Leeds"}'}
    if wire is CHAT:
        body["choices"][0]["message"]["tool_calls"] = [{"id": "c1", "type": "function", "function": function}]
    elif wire is RESPONSES:
        body["output"] = [{"type": "function_call", "id": "fc1", "call_id": "c1", **function}]
    else:
        block = {"type": "tool_use", "id": "c1", "name": "temperature", "input": {"place": "Leeds"}}
        body |= {"content": [block], "stop_reason": "tool_use"}
    return body


# -- the providers' own models -----------------------------------------------------------------------------------------


def test_the_providers_own_models_are_known_by_name() -> None:
    """Nobody is asked."""
    model = OpenAIModel("gpt-6-luna-2026-09-22", api_key="sk-of-nobody-123")
    assert (model.calls_tools, model.context_tokens) == (True, 1_050_000)
    assert model.look() == ServerFacts(True, 1_050_000, True) == asyncio.run(model.alook())
    claude = AnthropicModel("claude-unheard-of", api_key="sk-of-nobody-123")
    assert (claude.calls_tools, claude.context_tokens) == (True, 200_000)
    assert OpenAIModel("unheard-of", api_key="sk-of-nobody-123").look() == ServerFacts(True, None, True)


def test_every_model_with_a_price_has_a_context() -> None:
    """And the longest name counts."""
    path = Path(str(settings_module.__file__)).with_name("prices.json")
    names = json.loads(path.read_text(encoding="utf-8"))["models"]
    assert [name for name in names if not listed_context(name.partition(":")[2])] == []
    assert listed_context("claude-haiku-4-5") == 200_000 and listed_context("claude-haiku-5-5") == 1_000_000


# -- what servers say --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("says", "facts"),
    [
        ({"/v1/models": LLAMA, "/props": PROPS}, ServerFacts(True, 16_384)),
        (
            {"/v1/models": LLAMA, "/props": {"chat_template_caps": {"supports_tool_calls": False}}},
            ServerFacts(False, 32_768),
        ),
        (
            {
                "/v1/models": {"data": [{"id": "gpt-6-luna"}, {"id": "other"}]},
                "/api/ps": {"models": []},
                "/api/show": SHOW,
            },
            ServerFacts(True, 8192, False),
        ),
        (
            {
                "/api/show": {"capabilities": ["completion"]},
                "/api/ps": {"models": [{"name": "gpt-6-luna:latest", "context_length": 4096}]},
            },
            ServerFacts(False, 4096, False),
        ),
        (
            {
                "/v1/models": {
                    "data": [
                        {"id": "other", "context_length": 5, "supported_parameters": []},
                        {"id": "gpt-6-luna", "context_length": 65_536, "supported_parameters": ["tools"]},
                    ]
                }
            },
            ServerFacts(True, 65_536),
        ),
        (
            {
                "/v1/models": {
                    "data": [
                        {"id": "any", "max_context_length": 9, "capabilities": {"function_calling": True}}
                    ]
                }
            },
            ServerFacts(True, 9),
        ),
        (NO_TOOLS, ServerFacts(False, None)),
    ],
    ids=["llama", "llama without tools", "ollama", "ollama loaded", "openrouter", "mistral", "no tools"],
)
@each_driver
def test_what_a_server_says_of_itself_is_enough(
    server: ModelServer, driver: str, says: dict[str, object], facts: ServerFacts
) -> None:
    """The model is not asked; the answer is remembered, also for another object."""
    server.says = says
    model = CHAT.model(server.url)
    assert model.calls_tools is None and model.context_tokens is None
    assert look(model, driver) == facts and server.requests == []
    asked = list(server.questions)
    other = CHAT.model(server.url)
    assert (other.calls_tools, other.context_tokens) == (facts.calls_tools, facts.context_tokens)
    assert look(model, driver) == look(other, driver) == facts and server.questions == asked


# -- what one tiny request shows ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("wire", [CHAT, RESPONSES, MESSAGES], ids=lambda wire: wire.name)
@each_driver
def test_a_model_whose_server_does_not_say_is_shown_a_tool(
    server: ModelServer, wire: Wire, driver: str
) -> None:
    """A call is one in every form in which calls are read; words are none."""
    length: dict[str, object] = {"/v1/models": {"data": [{"id": "x", "max_model_len": 8192}]}}
    written = '<tool_call>{"name": "temperature", "arguments": {"place": "Leeds"}}</tool_call>'
    for body, calls in (
        (calling(wire), True),
        (wire.body(written), True),
        (wire.body("It is 9 degrees."), False),
    ):
        KNOWN.clear()
        server.says = length
        server.script(plain(body))
        model = wire.model(server.url)
        for _ in range(2):
            assert look(model, driver) == ServerFacts(calls, 8192)
        (request,) = server.requests
        assert len(request.body["tools"]) == 1 and len(json.dumps(request.body)) < 800


@pytest.mark.parametrize("status", [400, 422])
def test_a_server_that_refuses_a_tool_calls_none(server: ModelServer, status: int) -> None:
    """As vLLM does where it was not started for tools."""
    words = '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
    server.script(plain(CHAT.error(words), status=status))
    model = CHAT.model(server.url)
    assert model.look() == ServerFacts(False, None) == model.look()
    assert len(server.requests) == 1 and model.calls_tools is False


def test_ollama_says_its_context_once_it_has_loaded_the_model(server: ModelServer) -> None:
    """Until then nobody knows how much it will be; what the model could take says nothing."""
    loaded: dict[str, object] = {
        "/api/show": {"capabilities": ["tools"]},
        "/api/ps": {"models": [{"name": "gpt-6-luna"}]},
    }
    server.says = loaded

    def load(connection: Any, received: Any) -> None:
        server.says = loaded | {"/api/ps": {"models": [{"name": "gpt-6-luna", "context_length": 4096}]}}
        plain(CHAT.body("It is 9 degrees."))(connection, received)

    server.script(load)
    assert CHAT.model(server.url).look() == ServerFacts(True, 4096, False)


# -- what is not remembered --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wire", [CHAT, MESSAGES], ids=lambda wire: wire.name)
@each_driver
def test_a_server_that_cannot_be_asked_is_asked_again(server: ModelServer, wire: Wire, driver: str) -> None:
    """It counts as one that calls no tools until then; one that is not there is waited for as by any request."""
    model = wire.model(server.url, retries=1, port=QuickPort())
    for behaviour in (
        dead,
        plain(wire.error("no"), status=401),
        plain(wire.error("no"), status=503),
        plain(wire.body("I think that", "length")),
    ):
        server.script(behaviour)
        assert look(model, driver) == ServerFacts(False, None)
        assert model.calls_tools is None and len(server.requests) > 0
    server.script(plain(calling(wire)))
    assert look(model, driver).calls_tools is True


def test_a_server_that_is_not_there_raises_nothing() -> None:
    """Nor does one that hangs up on questions."""
    model = OpenAIModel("local", base_url="http://127.0.0.1:9/v1", retries=0)
    assert model.look() == ServerFacts(False, None) and model.calls_tools is None


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"no JSON",
        b"[]",
        b"[" * 100_000,
        b'{"data": "x", "models": 3}',
        b'{"data": [1, {"id": 5, "meta": [], "context_length": -1, "supported_parameters": {"tools": 1}}]}',
        b'{"data": [{"id": "x", "context_length": 1e400, "capabilities": []}], "chat_template_caps": []}',
        b'{"capabilities": 1, "parameters": "num_ctx 99999999999999999999\\nnum_ctx \\u00b2"}',
        b'{"x": "' + b"x" * ANSWER_BYTES + b'"}',
    ],
    ids=["empty", "no JSON", "list", "deep", "types", "more types", "floats", "ollama", "long"],
)
@each_driver
def test_whatever_a_server_answers_is_an_answer_or_none(
    server: ModelServer, driver: str, body: bytes
) -> None:
    """Of bounded size; the tiny request decides."""
    server.says = dict.fromkeys(QUESTIONS, body)
    server.script(plain(calling(CHAT)))
    assert look(CHAT.model(server.url), driver) == ServerFacts(True, None)


@each_driver
def test_a_host_s_own_client_asks(server: ModelServer, driver: str) -> None:
    """With its headers; what it learns is its own, since its address may stand for anything."""
    server.says = {"/v1/models": LLAMA, "/props": PROPS}
    options: dict[str, Any] = {"api_key": "sk-of-nobody-123", "base_url": f"{server.url}/v1"}
    client = openai.OpenAI(**options) if driver == "sync" else None
    async_client = openai.AsyncOpenAI(**options) if driver == "async" else None
    model = OpenAIModel("local", client=client, async_client=async_client)
    assert look(model, driver) == ServerFacts(True, 16_384) == look(model, driver)
    assert len(server.questions) == 2 and not KNOWN
