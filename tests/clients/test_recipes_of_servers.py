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

from paor import Engine, ModelCall, OpenAIModel, Tool, replay, tool
from paor.errors import ModelUnavailable
from paor.models import OfferedTool, PromptMessage, ServerFacts

from ..support.model_server import (
    REFINEMENT,
    Behaviour,
    ModelServer,
    QuickPort,
    event,
    model_server,
    plain,
    streamed,
)
from .real_servers import MISSING, free_port, litellm_command, llama_command, running

real = pytest.mark.whole
"""Of a server that is started for it."""
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
        pytest.skip(f"{MISSING} litellm")
    behind = {"claude": "anthropic/claude-haiku-4-5", "gemini": "gemini/gemini-2.5-flash"}
    models = [
        {
            "model_name": name,
            "litellm_params": {"model": model, "api_base": provider.url, "api_key": "key-of-the-provider"},
        }
        for name, model in behind.items()
    ]
    settings = {
        "general_settings": {"master_key": MASTER},
        "router_settings": {"disable_cooldowns": True, "num_retries": 0},
    }
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


@real
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


@real
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


@real
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


@real
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


# -- Ollama and vLLM, as recorded -------------------------------------------------------------------------------------------


def ollama(thought: str, text: str, calls: list[tuple[str, dict[str, Any]]]) -> Behaviour:
    """Answer as Ollama's `/v1/chat/completions`: each call whole in one chunk, and an end with empty content."""
    deltas: list[dict[str, Any]] = [
        {"content": "", "reasoning": piece} for piece in (thought[:5], thought[5:])
    ]
    deltas += [{"content": piece} for piece in (text[:4], text[4:])] if text else []
    for number, (name, given) in enumerate(calls):
        function = {"name": name, "arguments": json.dumps(given)}
        called = {"id": f"call_{number}", "index": number, "type": "function", "function": function}
        deltas.append({"content": "", "tool_calls": [called]})
    ends = "tool_calls" if calls else "stop"
    chunks = [(delta, None) for delta in deltas] + [({"content": ""}, ends)]
    return _chunks(
        [({"role": "assistant"} | delta, end) for delta, end in chunks], {"system_fingerprint": "fp_ollama"}
    )


def vllm(thought: str, text: str, calls: list[tuple[str, dict[str, Any]]]) -> Behaviour:
    """Answer as vLLM's: a role first, a call's name before its arguments in pieces, `stop_reason` beside the end."""
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}, {"reasoning": thought}]
    deltas += [{"content": text}] if text else []
    for number, (name, given) in enumerate(calls):
        whole = json.dumps(given)
        begun = {
            "id": f"chatcmpl-tool-{number}",
            "type": "function",
            "index": number,
            "function": {"name": name},
        }
        deltas.append({"tool_calls": [begun]})
        for piece in (whole[:3], whole[3:]):
            deltas.append({"tool_calls": [{"index": number, "function": {"arguments": piece}}]})
    chunks: list[tuple[dict[str, Any], str | None]] = [(delta, None) for delta in deltas]
    return _chunks(
        [*chunks, ({"content": ""}, "tool_calls" if calls else "stop")],
        {},
        {"stop_reason": None, "logprobs": None},
    )


def _chunks(
    deltas: list[tuple[dict[str, Any], str | None]],
    more: dict[str, Any],
    beside: dict[str, Any] | None = None,
) -> Behaviour:
    same = {"id": "chatcmpl-7", "object": "chat.completion.chunk", "created": 1, "model": "m"} | more
    chunks: list[dict[str, Any]] = [
        same | {"choices": [{"index": 0, "delta": delta, "finish_reason": end} | (beside or {})]}
        for delta, end in deltas
    ]
    used = {"prompt_tokens": 40, "completion_tokens": 7, "total_tokens": 47}
    return streamed([*map(event, chunks), event(same | {"choices": [], "usage": used}), b"data: [DONE]\n\n"])


OLLAMA_SAYS = {
    "/v1/models": {"object": "list", "data": [{"id": "qwen3:8b", "object": "model", "created": 1, "owned_by": "library"}]},
    "/api/show": {"capabilities": ["completion", "tools", "thinking"], "model_info": {"qwen3.context_length": 40_960}, "parameters": "stop \"x\""},
    "/api/ps": {"models": [{"name": "qwen3:8b", "model": "qwen3:8b", "context_length": 16_384}]},
}  # fmt: skip
VLLM_SAYS = {
    "/v1/models": {"object": "list", "data": [{"id": "m", "object": "model", "owned_by": "vllm", "root": "m", "max_model_len": 32_768}]}
}  # fmt: skip
RECORDED: dict[str, tuple[Any, str, dict[str, Any], ServerFacts, int]] = {
    "Ollama": (ollama, "qwen3:8b", OLLAMA_SAYS, ServerFacts(True, 16_384, False), 0),
    "vLLM": (vllm, "m", VLLM_SAYS, ServerFacts(True, 32_768), 1),
}
"""How each answers, the model's name there, what it says of itself, what that means, and requests that finding out takes."""
each_recorded = pytest.mark.parametrize("maker", RECORDED)


@each_recorded
def test_a_recorded_server_tells_its_facts_calls_once_and_gets_its_thoughts_back(
    provider: ModelServer, maker: str, tmp_path: Path
) -> None:
    """By the default profile: no option but address and name is needed; the answer is streamed and its tokens are the server's."""
    says, model_name, of_itself, facts, tries = RECORDED[maker]
    shown = says("", "", [("temperature", {"place": "Leeds"})])
    turns = [says(THOUGHT, WORDS, [("orders_ship", ORDER)]), says(THOUGHT, "It is shipped.", [])]
    provider.script(*[shown] * tries, *turns)
    provider.says = of_itself
    made: list[str] = []
    model = OpenAIModel(model_name, base_url=f"{provider.url}/v1", port=QuickPort())
    assert model.look() == facts and len(provider.requests) == tries
    with Engine(model, shipping(made), tmp_path / "runs.db", builtins=False) as engine:
        result = engine.run("Ship O-1")
        assert (result.state, result.answer, made) == ("Done", "It is shipped.", ["O-1"])
        assert (result.usage.tokens_in, result.usage.tokens_out) == (80, 14)
        assert replay(engine.journal, result.run_id, engine).identical
    first, second = (request.body for request in provider.requests[tries:])
    assert first["stream"] is True and first["max_tokens"] == 4_096 and "temperature" not in first
    told = next(message for message in second["messages"] if message["role"] == "assistant")
    assert (told["reasoning"], told["content"]) == (THOUGHT, WORDS)
    assert second["messages"][-1] == {
        "role": "tool",
        "content": "O-1 is on its way",
        "tool_call_id": told["tool_calls"][0]["id"],
    }


@each_recorded
def test_a_recorded_server_is_sent_the_schema_and_without_it_where_it_takes_none(
    provider: ModelServer, maker: str
) -> None:
    """Once: the words of both makers are understood."""
    says, model_name, *_ = RECORDED[maker]
    words = {
        "Ollama": {"error": {"message": "invalid JSON schema in format", "type": "invalid_request_error", "code": None}},
        "vLLM": {"error": {"message": "The provided JSON schema contains features not supported by xgrammar.", "type": "BadRequestError", "param": None, "code": 400}},
    }[maker]  # fmt: skip
    good = says("", json.dumps({"decision": "stop", "reason": "done"}), [])
    provider.script(plain(words, status=400), good)
    model = OpenAIModel(model_name, base_url=f"{provider.url}/v1", port=QuickPort())
    call = ModelCall("refinement", (PromptMessage("user", "Go on? Answer in JSON."),), schema=REFINEMENT)
    assert [json.loads(model.ask(call).text)["decision"] for _ in range(2)] == ["stop"] * 2
    forms = [request.body.get("response_format", {}).get("type") for request in provider.requests]
    assert forms[0] == "json_schema" and "json_schema" not in forms[1:] and len(forms) == 3


@pytest.mark.parametrize(
    ("maker", "status", "error", "step"),
    [
        ("Ollama", 404, {"error": {"message": 'model "qwen3:8b" not found, try pulling it first', "type": "api_error"}}, "the model's name"),
        ("Ollama", 400, {"error": {"message": "registry.ollama.ai/library/qwen3:8b does not support tools"}}, "another profile"),
        ("vLLM", 404, {"error": {"message": "The model `m` does not exist.", "type": "NotFoundError", "code": 404}}, "the model's name"),
        ("vLLM", 400, {"error": {"message": "This model's maximum context length is 8 tokens. However, your request has 90 input tokens.", "type": "BadRequestError", "code": 400}}, r"Limits.context_tokens"),
        ("vLLM", 401, {"error": "Unauthorized"}, "api_key"),
    ],
)  # fmt: skip
def test_what_a_recorded_server_refuses_is_told_with_what_to_change(
    provider: ModelServer, maker: str, status: int, error: Any, step: str
) -> None:
    """In its words."""
    provider.script(plain(error, status=status))
    model = OpenAIModel(RECORDED[maker][1], base_url=f"{provider.url}/v1", port=QuickPort())
    call = ModelCall("turn", (PromptMessage("user", "Ship O-1"),), tools=shipping_offer())
    with pytest.raises(ModelUnavailable) as caught:
        model.ask(call)
    assert f"{provider.url}/v1 refused a request (turn)" in caught.value.message
    assert step in caught.value.message.rpartition("; ")[2]


def shipping_offer() -> tuple[OfferedTool, ...]:
    """Return the tool as a model is offered it."""
    return (
        OfferedTool(
            "orders_ship", "Ship an order.", {"type": "object", "properties": {"order": {"type": "string"}}}
        ),
    )


# -- llama.cpp --------------------------------------------------------------------------------------------------------------


@real
def test_llama_cpp_tells_its_context_holds_a_schema_and_names_a_prompt_that_is_too_long() -> None:
    """The real server with a small model: streamed, without a key, in the form of the schema at once."""
    port = free_port()
    command = llama_command(port)
    if command is None:
        pytest.skip(f"{MISSING} the small model")
    pieces: list[str] = []
    with running(command, port, path="/health") as url:
        model = OpenAIModel("local", base_url=f"{url}/v1", max_tokens=200, temperature=0)
        facts = model.look(calls=False)
        assert facts.context_tokens == 8_192
        question = PromptMessage("user", "All pages are read. Continue or stop? Answer in JSON.")
        reply = model.ask(ModelCall("refinement", (question,), schema=REFINEMENT, on_text=pieces.append))
        assert json.loads(reply.text)["decision"] in ("continue", "stop") and reply.attempts == 1
        assert "".join(pieces) == reply.text and len(pieces) > 3
        assert reply.usage is not None and reply.usage.tokens_out > 0
        with pytest.raises(ModelUnavailable) as caught:
            model.ask(ModelCall("text", (PromptMessage("user", "page " * 9_000),)))
    assert caught.value.code == "bad_request" and "Limits.context_tokens" in caught.value.message
