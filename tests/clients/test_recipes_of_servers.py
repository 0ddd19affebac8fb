"""
The recipes of docs/models.md for servers of other makers: llama.cpp, Ollama, vLLM, and LiteLLM in front of Anthropic and Gemini.

LiteLLM's proxy and llama.cpp run for real where `real_servers` has put them; the providers behind LiteLLM are a server on 127.0.0.1
that speaks their interfaces. Of Ollama and vLLM the wire is spoken as their sources and references have it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from paor import Engine, OpenAIModel, Tool, replay, tool
from paor.models import ServerFacts

from ..support.model_server import Behaviour, ModelServer, QuickPort, event, model_server, plain, streamed
from .real_servers import free_port, litellm_command, running

pytestmark = pytest.mark.whole
MASTER = "sk-of-the-proxy-0123456789"


# -- the providers behind the proxy ---------------------------------------------------------------------------------------


def gemini(*parts: dict[str, Any]) -> Behaviour:
    """Answer as `streamGenerateContent`: a chunk for each part, then why it ended."""
    chunks: list[dict[str, Any]] = [
        {"candidates": [{"index": 0, "content": {"role": "model", "parts": [part]}}]} for part in parts
    ]
    chunks[-1]["candidates"][0]["finishReason"] = "STOP"
    used = {"promptTokenCount": 40, "candidatesTokenCount": 7, "thoughtsTokenCount": 5, "totalTokenCount": 52}
    for chunk in chunks:
        chunk |= {"usageMetadata": used, "modelVersion": "gemini-2.5-flash", "responseId": "r1"}
    return streamed([event(chunk) for chunk in chunks])


def claude(*blocks: dict[str, Any]) -> Behaviour:
    """Answer as `/v1/messages` with a stream: blocks, each in one piece."""
    pieces = {"thinking": "thinking_delta", "text": "text_delta"}
    start = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-haiku-4-5",
        "content": [],
    }
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": start | {"usage": {"input_tokens": 40, "output_tokens": 1}}}
    ]
    for index, block in enumerate(blocks):
        kind, signature = block["type"], block.get("signature")
        if kind == "tool_use":
            begun, delta = (
                block | {"input": {}},
                {"type": "input_json_delta", "partial_json": json.dumps(block["input"])},
            )
        else:
            begun, delta = block | {kind: ""}, {"type": pieces[kind], kind: block[kind]}
        deltas = [delta, *([{"type": "signature_delta", "signature": signature}] if signature else [])]
        events.append({"type": "content_block_start", "index": index, "content_block": begun})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    reason = "tool_use" if blocks[-1]["type"] == "tool_use" else "end_turn"
    events.append({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 7}})
    events.append({"type": "message_stop"})
    return streamed([event(one, one["type"]) for one in events])


SIGNED = "c2lnbmVk"
THOUGHT, WORDS, ORDER = "The order is paid.", "I ship it.", {"order": "O-1"}
BACKS: dict[str, tuple[Any, list[dict[str, Any]], dict[str, Any]]] = {
    "claude": (
        claude,
        [
            {"type": "thinking", "thinking": THOUGHT, "signature": SIGNED},
            {"type": "text", "text": WORDS},
            {"type": "tool_use", "id": "toolu_1", "name": "orders_ship", "input": ORDER},
        ],
        {"type": "text", "text": "It is shipped."},
    ),
    "gemini": (
        gemini,
        [
            {"text": THOUGHT, "thought": True},
            {"text": WORDS},
            {"functionCall": {"name": "orders_ship", "args": ORDER}, "thoughtSignature": SIGNED},
        ],
        {"text": "It is shipped."},
    ),
}
"""What each provider says: how, a turn that thinks, speaks and calls, and an answer."""
each_back = pytest.mark.parametrize("name", BACKS)


@pytest.fixture(scope="module")
def provider() -> Iterator[ModelServer]:
    """Return the server behind the proxy."""
    with model_server() as server:
        yield server


@pytest.fixture(scope="module")
def proxy(provider: ModelServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run LiteLLM's proxy in front of it."""
    port, config = free_port(), tmp_path_factory.mktemp("litellm") / "config.json"
    command = litellm_command(port, config)
    if command is None:
        pytest.skip("see tests/clients/real_servers.py: PAOR_TEST_SERVERS names no folder with litellm")
    behind = {"claude": "anthropic/claude-haiku-4-5", "gemini": "gemini/gemini-2.5-flash"}
    models = [
        {
            "model_name": name,
            "litellm_params": {"model": model, "api_base": provider.url, "api_key": "key-of-the-provider"},
        }
        for name, model in behind.items()
    ]
    settings = {"general_settings": {"master_key": MASTER}, "router_settings": {"disable_cooldowns": True}}
    config.write_text(json.dumps({"model_list": models} | settings))
    with running(command, port, path="/health/liveliness") as url:
        yield url


def shipping(made: list[str]) -> list[Tool]:
    """Return a tool that counts outside how often it ships."""

    @tool("orders.ship", effect="once")
    def ship(order: str) -> str:
        """Ship an order."""
        made.append(order)
        return f"{order} is on its way"

    return [ship]


def through(proxy: str, name: str, **options: Any) -> OpenAIModel:
    """Return a model as the recipe has it."""
    return OpenAIModel(name, base_url=f"{proxy}/v1", api_key=MASTER, port=QuickPort(), **options)


@each_back
def test_litellm_is_asked_once_whether_it_calls_tools(provider: ModelServer, proxy: str, name: str) -> None:
    """It tells the context of each model, not whether tools are called: that takes one request."""
    says, *_ = BACKS[name]
    call = {"type": "tool_use", "id": "toolu_0", "name": "temperature", "input": {"place": "Leeds"}}
    made = call if name == "claude" else {"functionCall": {"name": "temperature", "args": {"place": "Leeds"}}}
    provider.script(says(made))
    context = {"claude": 200_000, "gemini": 1_048_576}[name]
    assert through(proxy, name).look() == through(proxy, name).look() == ServerFacts(True, context)
    assert len(provider.requests) == 1


@each_back
def test_a_call_through_litellm_is_made_once_and_the_thoughts_go_back_signed(
    provider: ModelServer, proxy: str, name: str, tmp_path: Path
) -> None:
    """Streamed, with reasoning: the provider gets its own turn back, and the journal has the thoughts."""
    says, turn, answer = BACKS[name]
    provider.script(says(*turn), says(answer))
    made: list[str] = []
    model = through(proxy, name, effort="low")
    with Engine(model, shipping(made), tmp_path / "runs.db", builtins=False, profile="native") as engine:
        shown = [event.text for event in engine.stream("Ship O-1") if event.kind == "model_text"]
        result = engine.journal.runs()[0]
        assert (result.state, made, "".join(shown)) == ("Done", ["O-1"], f"{WORDS}It is shipped.")
        assert replay(engine.journal, result.run_id, engine).identical and engine.journal.verify() == []
    first, second = (request.body for request in provider.requests)
    sent = json.dumps(second)
    assert SIGNED in sent and "O-1 is on its way" in sent
    if name == "claude":
        assert first["thinking"]["type"] == "enabled" and first["stream"] is True
        thought, said, call = second["messages"][1]["content"]
        assert thought == turn[0] and said["text"] == WORDS and call["input"] == ORDER
    else:
        assert first["generationConfig"]["thinkingConfig"]["includeThoughts"] is True
        call = next(
            part
            for part in second["contents"][1]["parts"]
            if "functionCall" in part or "function_call" in part
        )
        assert call["thoughtSignature"] == SIGNED


@each_back
def test_the_schema_of_a_reply_reaches_the_provider_behind_litellm(
    provider: ModelServer, proxy: str, name: str, tmp_path: Path
) -> None:
    """As the one's `output_format` and the other's `responseJsonSchema`."""
    says, *_ = BACKS[name]
    choice = json.dumps({"action": None, "answer": "Nothing is to be done."})
    provider.script(says({"type": "text", "text": choice} if name == "claude" else {"text": choice}))
    with Engine(through(proxy, name), shipping([]), tmp_path / "runs.db", builtins=False) as engine:
        result = engine.run("Is anything to be done?", profile="two_stage")
    assert (result.state, result.answer) == ("Done", "Nothing is to be done.")
    assert "actionObjective" in json.dumps(schema_of(provider.requests[0].body))


def schema_of(body: dict[str, Any]) -> Any:
    """Return the schema of the reply in a provider's request."""
    config = body.get("generationConfig", {})
    names = (
        "output_format",
        "output_config",
        "responseJsonSchema",
        "response_json_schema",
        "response_schema",
    )
    return [value for held in (body, config) for key, value in held.items() if key in names]


@each_back
@pytest.mark.parametrize("status", [400, 401, 429, 529])
def test_what_a_provider_refuses_behind_litellm_ends_with_its_words(
    provider: ModelServer, proxy: str, name: str, status: int, tmp_path: Path
) -> None:
    """And with the proxy's address; nothing was called."""
    error = {"type": "error", "error": {"type": "x", "code": status, "message": "Provider says no."}}
    provider.script(plain(error, status=status))
    made: list[str] = []
    model = through(proxy, name, retries=1)
    with Engine(model, shipping(made), tmp_path / "runs.db", builtins=False, profile="native") as engine:
        result = engine.run("Ship O-1")
    assert (result.state, result.reason, made) == ("Failed", "model_error", [])
    assert result.answer is not None
    assert f"{proxy}/v1" in result.answer and "Provider says no." in result.answer and "; " in result.answer
