"""The clients of OpenAI and Anthropic over real HTTP: what they send, what they make of replies, what they count."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import openai
import pytest
from msgspec.structs import replace

from paor import AnthropicModel, Engine, ModelCall, OfflineModel, OpenAIModel, Reply, Usage, replay
from paor.errors import MissingExtra, ModelUnavailable, UsageError
from paor.events import ModelNotice, ModelText, RunEnded, TransitionTaken
from paor.models import Notice, OfferedTool, PromptMessage

from ..support.model_server import (
    KEY,
    REFINEMENT,
    WIRES,
    Connection,
    ModelServer,
    QuickPort,
    Wire,
    model_server,
    plain,
    streamed,
)
from ..support.worlds import CONTINUE, PARAMETERS, READ, SELECT, STOP, SUCCESS, TOOLS
from .inside import RequestKind, model_of
from .inside import settings_module as settings

TEXT = '{"decision": "stop", "reason": "enough is known"}'
CHAT, RESPONSES, MESSAGES = WIRES
REPORTED = Usage(1, 1200, 34, 0, tokens_cached=1000, tokens_reasoning=20)
each_wire = pytest.mark.parametrize("wire", WIRES, ids=lambda wire: str(wire.name))
chat_first = pytest.mark.parametrize(
    "wire",
    [pytest.param(wire, id=wire.name, marks=() if wire is CHAT else pytest.mark.whole) for wire in WIRES],
)
"""By default the one wire."""
each_driver = pytest.mark.parametrize("driver", ["sync", "async"])


@pytest.fixture(scope="module")
def server() -> Any:
    """One server for all tests of this file."""
    with model_server() as running:
        yield running


def call(
    kind: RequestKind = "refinement",
    schema: dict[str, Any] | None = REFINEMENT,
    *,
    on_text: Callable[[str], None] | None = None,
    notices: list[Notice] | None = None,
    timeout_s: float | None = None,
) -> ModelCall:
    """Return a request of two messages."""
    messages = (PromptMessage("system", "Be brief."), PromptMessage("user", "Go on? Reply in JSON."))
    told = notices.append if notices is not None else None
    return ModelCall(kind, messages, 0, schema, timeout_s, on_text, told)


def asked(model: OpenAIModel | AnthropicModel, request: ModelCall, driver: str = "sync") -> Reply:
    """Ask as *driver* does."""
    return model.ask(request) if driver == "sync" else asyncio.run(model.aask(request))


# -- replies -----------------------------------------------------------------------------------------------------


@each_wire
@each_driver
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_reply_with_its_usage_and_id(server: ModelServer, wire: Wire, driver: str, stream: bool) -> None:
    """Cached and reasoning tokens too, whichever way each interface counts them."""
    headers = {"request-id" if wire.name == "messages" else "x-request-id": "req_011CSHoEeqs5C35K"}
    behaviour = (
        streamed(wire.events(TEXT), headers=headers) if stream else plain(wire.body(TEXT), headers=headers)
    )
    server.script(behaviour)
    pieces: list[str] = []
    model = wire.model(server.url, prices={}, stream=None if stream else False)
    reply = asked(model, call(on_text=pieces.append if stream else None), driver)
    assert reply == Reply(TEXT, REPORTED, "stop", "req_011CSHoEeqs5C35K", 1, reply.parts, reply.api)
    assert reply.api.partition(":")[0] == wire.name
    assert "".join(pieces) == (TEXT if stream else "") and (len(pieces) > 3) is stream
    (received,) = server.requests
    assert received.path == wire.path and received.headers["authorization"] == f"Bearer {KEY}"
    assert received.body.get("stream", False) is stream


@each_wire
@each_driver
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("end", ["length", "refusal", "content_filter"])
def test_how_a_reply_ended(server: ModelServer, wire: Wire, driver: str, stream: bool, end: str) -> None:
    """What a model said before it was cut off or refused is kept, and counted."""
    server.script(streamed(wire.events("I can", end)) if stream else plain(wire.body("I can", end)))
    reply = asked(wire.model(server.url, stream=stream), call(), driver)
    finish = "refusal" if (wire, end) == (MESSAGES, "content_filter") else end
    assert (reply.text, reply.finish, reply.usage) == ("I can", finish, REPORTED)


def test_a_refusal_without_words_says_its_category(server: ModelServer) -> None:
    """Anthropic's classifiers may refuse before the first word."""
    details = {"type": "refusal", "category": "cyber", "explanation": "not this"}
    body = MESSAGES.body("") | {"content": [], "stop_reason": "refusal", "stop_details": details}
    server.script(plain(body))
    reply = asked(MESSAGES.model(server.url), call())
    assert (reply.text, reply.finish) == ("cyber: not this", "refusal")


def test_a_paused_turn_is_sent_back_until_it_ends(server: ModelServer) -> None:
    """Its usage is added up; the model goes on where it paused."""
    paused = MESSAGES.body('{"decision": ') | {"stop_reason": "pause_turn"}
    last = MESSAGES.body('"stop", "reason": "x"}')
    server.script(plain(paused), plain(last))
    reply = asked(MESSAGES.model(server.url), call())
    assert json.loads(reply.text) == {"decision": "stop", "reason": "x"}
    assert reply.attempts == 2 and reply.usage is not None and reply.usage.tokens_in == 2400
    assert server.requests[1].body["messages"][-1] == {"role": "assistant", "content": paused["content"]}
    assert list(reply.parts) == paused["content"] + last["content"], "kept as one turn"


# -- requests ----------------------------------------------------------------------------------------------------


def told_the_provider(make: Callable[[httpx2.Client], OpenAIModel | AnthropicModel]) -> dict[str, Any]:
    """Return the body of the request that a model sends to its provider, which never answers."""
    bodies: list[dict[str, Any]] = []

    def noted(request: httpx2.Request) -> httpx2.Response:
        bodies.append(json.loads(request.content))
        return httpx2.Response(500)

    with httpx2.Client(transport=httpx2.MockTransport(noted)) as http, pytest.raises(ModelUnavailable):
        make(http).ask(call())
    return bodies[0]


def test_what_is_asked_of_the_providers_themselves() -> None:
    """Strict schemas, nothing stored, a limit of tokens, no parameter that newer models refuse."""
    options: dict[str, Any] = {"effort": "low", "retries": 0}
    model = OpenAIModel("gpt-6.1-sol", api_key=KEY)
    assert (model.official, model.api, model.price is not None) == (True, "responses", True)
    body = told_the_provider(
        lambda http: OpenAIModel(
            "gpt-6.1-sol", client=openai.OpenAI(api_key=KEY, http_client=http), api="responses", **options
        )
    )
    assert (body["store"], body["max_output_tokens"], body["reasoning"]) == (False, 16_000, {"effort": "low"})
    assert body["instructions"] == "Be brief."
    assert body["input"] == [{"role": "user", "content": "Go on? Reply in JSON."}]
    schema = body["text"]["format"]
    assert schema["strict"] is True and schema["schema"]["required"] == list(REFINEMENT["properties"])
    assert "temperature" not in body
    body = told_the_provider(
        lambda http: AnthropicModel(
            "claude-sonnet-5-5", client=anthropic.Anthropic(api_key=KEY, http_client=http), **options
        )
    )
    assert body["output_config"]["format"]["schema"]["required"] == ["decision", "reason"]
    assert body["output_config"]["effort"] == "low" and body["system"] == "Be brief."


def test_what_is_asked_of_a_server_of_ones_own(server: ModelServer) -> None:
    """Chat Completions with the schema as it is and the older name of the limit; headers and members of the host's."""
    server.script(plain(CHAT.body(TEXT)))
    options: dict[str, Any] = {
        "temperature": 0,
        "max_tokens": 99,
        "extra": {"seed": 7},
        "headers": {"x-team": "blue-team"},
    }
    model = OpenAIModel("local", base_url=f"{server.url}/v1", **options)
    assert asked(model, call()).finish == "stop" and (model.official, model.api) == (False, "chat")
    received = server.requests[0]
    assert received.headers["x-team"] == "blue-team" and received.headers["authorization"] == "Bearer none"
    assert (received.body["max_tokens"], received.body["temperature"], received.body["seed"]) == (99, 0, 7)
    assert received.body["response_format"]["json_schema"]["schema"] == REFINEMENT
    server.script(plain(MESSAGES.body(TEXT)))
    asked(AnthropicModel("local", base_url=server.url, **options), call())
    assert (server.requests[0].body["temperature"], server.requests[0].body["seed"]) == (0, 7)


def test_a_server_that_passes_over_schemas_is_made_to_call_a_tool(server: ModelServer) -> None:
    """What it calls it with is the reply; without a call its words are."""
    block = {"type": "tool_use", "id": "t", "name": "reply", "input": json.loads(TEXT)}
    server.script(
        plain(MESSAGES.body("") | {"content": [block], "stop_reason": "tool_use"}),
        plain(MESSAGES.body("No.")),
    )
    model = MESSAGES.model(server.url, structured="tool")
    reply = asked(model, call())
    assert json.loads(reply.text) == json.loads(TEXT) and reply.finish == "stop"
    assert server.requests[0].body["tool_choice"] == {"type": "tool", "name": "reply"}
    assert asked(model, call()).text == "No."


# -- what a server lacks -----------------------------------------------------------------------------------------


@each_wire
@each_driver
def test_a_refused_schema_is_left_out_once_and_for_all(server: ModelServer, wire: Wire, driver: str) -> None:
    """Said once; JSON mode is tried where there is one, then the words of the prompt alone."""
    refusal = plain(
        wire.error("This model does not support json_schema or text.format or output_config"), status=400
    )
    notices: list[Notice] = []
    model = wire.model(server.url)
    server.script(refusal, plain(wire.body(TEXT)))
    reply = asked(model, call(notices=notices), driver)
    assert (reply.text, reply.attempts, set(model.without)) == (TEXT, 2, {"schema"})
    assert [notice.kind for notice in notices] == ["fallback", "prices"]
    assert "structured output (schema)" in notices[0].text
    server.script(plain(wire.body(TEXT)))
    assert asked(model, call(), driver).attempts == 1
    sent = server.requests[0].body
    mode = {"chat": sent.get("response_format"), "responses": sent.get("text")}.get(wire.name)
    expected = {"chat": {"type": "json_object"}, "responses": {"format": {"type": "json_object"}}}.get(
        wire.name
    )
    assert mode == expected and "output_config" not in sent


def test_a_schema_that_is_called_wrong_is_left_out_for_itself(server: ModelServer) -> None:
    """The next request has another one, which may be right."""
    model = CHAT.model(server.url)
    words = "Invalid schema for response_format 'parameters': unknown keyword"
    server.script(plain(CHAT.error(words, param="response_format"), status=400), plain(CHAT.body(TEXT)))
    odd = {"type": "object", "if": {}}
    asked(model, call("parameters", odd))
    assert model.without == frozenset()
    server.script(plain(CHAT.body(TEXT)))
    asked(model, call("parameters", odd))
    assert server.requests[0].body["response_format"] == {"type": "json_object"}
    asked(model, call())
    assert server.requests[1].body["response_format"]["type"] == "json_schema"


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (400, "JSON schema conversion failed:\nPattern must start with '^' and end with '$'"),
        (400, "Failed to initialize samplers: failed to parse grammar"),
        (500, '"json_schema": JSON schema conversion failed: Pattern must start with ...'),
        (500, "invalid JSON schema in format"),
    ],
)
def test_patterns_are_left_out_before_the_schema_is(server: ModelServer, status: int, words: str) -> None:
    """llama.cpp and Ollama make a grammar of a schema and know few patterns; offered tools keep the rest of theirs, too."""
    text = {"type": "string", "pattern": r"\S", "minLength": 1}
    schema = {"type": "object", "properties": {"pattern": text, "texts": {"type": "array", "items": text}}}
    plainer = json.loads(json.dumps(schema).replace(r'"pattern": "\\S", ', ""))
    model = CHAT.model(server.url, port=QuickPort())
    server.script(plain(CHAT.error(words), status=status), plain(CHAT.body(TEXT)))
    assert asked(model, call("review", schema)).attempts == 2
    sent = [request.body["response_format"]["json_schema"]["schema"] for request in server.requests]
    assert sent == [schema, plainer]
    assert asked(model, replace(call("turn", None), tools=(OfferedTool("a_b", "", schema),))).attempts == 1
    assert server.requests[2].body["tools"][0]["function"]["parameters"] == plainer
    server.script(plain(CHAT.error(words), status=status), plain(CHAT.body(TEXT)))
    asked(model, call("review", schema))
    assert server.requests[1].body["response_format"] == {"type": "json_object"}


@pytest.mark.parametrize(
    "words, gone, there",
    [
        ("Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.", "max_tokens", "max_completion_tokens"),
        ("Unsupported value: 'temperature' does not support 0 with this model.", "temperature", "max_tokens"),
        ("unknown field stream_options", "stream_options", "stream"),
        ("Unrecognized request argument supplied: reasoning_effort", "reasoning_effort", "temperature"),
    ],
)  # fmt: skip
def test_a_parameter_that_a_server_does_not_know_is_left_out(
    server: ModelServer, words: str, gone: str, there: str
) -> None:
    """And not sent again."""
    model = CHAT.model(server.url, temperature=0, effort="low", stream=True)
    server.script(plain(CHAT.error(words), status=400), streamed(CHAT.events(TEXT)))
    assert asked(model, call()).text == TEXT
    assert gone in server.requests[0].body and gone not in server.requests[1].body
    assert there in server.requests[1].body
    asked(model, call())
    assert gone not in server.requests[2].body


def test_a_server_that_refuses_everything_is_asked_a_bounded_number_of_times(server: ModelServer) -> None:
    """Each feature is left out once."""
    words = (
        "not supported: response_format max_tokens max_completion_tokens temperature stream_options effort"
    )
    server.script(plain(CHAT.error(words), status=400))
    model = CHAT.model(server.url, temperature=0, effort="low", stream=True)
    with pytest.raises(ModelUnavailable) as caught:
        asked(model, call())
    assert caught.value.code == "bad_request" and len(server.requests) <= 9


# -- prices ------------------------------------------------------------------------------------------------------


def test_costs_are_whole_micro_units(server: ModelServer) -> None:
    """Of what is read, what the cache had, and what is written; of every attempt whose usage is known."""
    prices = {"anthropic:claude-haiku-5-5": {"in": "1", "cached": "0.10", "cache_write": "1.25", "out": "5"}}
    model = MESSAGES.model(server.url, prices=prices, stream=True, port=QuickPort())
    server.script(streamed(MESSAGES.events(TEXT)[:5]), streamed(MESSAGES.events(TEXT)))
    usage = asked(model, call()).usage
    one = 200 * 1 + 100 + 34 * 5
    cut = 200 * 1 + 100 + 1 * 5
    assert usage == Usage(2, 2400, 35, one + cut, tokens_cached=2000, tokens_reasoning=40)


def test_the_price_list_of_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A file of the user's own; one that cannot be read is named at once."""
    path = tmp_path / "prices.json"
    path.write_text('{"models": {"openai:local": {"in": 1, "out": "2.50"}}}')
    monkeypatch.setenv("PAOR_PRICES", str(path))
    price = OpenAIModel("local", base_url="http://127.0.0.1:9/v1").price
    assert price is not None and (price.tokens_in, price.tokens_out) == (1_000_000, 2_500_000)
    path.write_text('{"models": {"openai:local": {"in": 1}}}')
    with pytest.raises(UsageError, match="both in and out"):
        OpenAIModel("local", base_url="http://127.0.0.1:9/v1")
    monkeypatch.setenv("PAOR_PRICES", str(tmp_path / "none.json"))
    with pytest.raises(UsageError, match="cannot be read"):
        OpenAIModel("local", base_url="http://127.0.0.1:9/v1")
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="not UTF-8"):
        settings.price_list(path)


# -- being made --------------------------------------------------------------------------------------------------


def test_models_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key in the environment decides; `PAOR_MODEL` before it; without both it is the offline model."""
    assert isinstance(model_of(None), OfflineModel)
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    assert model_of("auto").name == "anthropic:claude-sonnet-5-5"
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert model_of(None).name == "openai:gpt-6.1-sol"
    assert model_of("anthropic:claude-x").name == "anthropic:claude-x"
    monkeypatch.setenv("PAOR_MODEL", "offline")
    assert isinstance(model_of(None), OfflineModel)
    with pytest.raises(UsageError, match=r"openai:NAME, anthropic:NAME, offline or script:FILE"):
        model_of("openai:")


def test_without_key_or_sdk_one_line_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is asked."""
    with pytest.raises(UsageError, match="set OPENAI_API_KEY, or OPENAI_BASE_URL"):
        OpenAIModel("gpt-6.1-sol")
    with pytest.raises(UsageError, match="set ANTHROPIC_API_KEY, or ANTHROPIC_BASE_URL"):
        AnthropicModel("claude-sonnet-5-5")
    for name in ("openai", "anthropic"):
        monkeypatch.setattr("paor.prompts.clients.client.find_spec", lambda _: None)
        with pytest.raises(MissingExtra, match=rf'pip install "paor\[{name}\]"'):
            model_of(f"{name}:x")


@pytest.mark.parametrize(
    "options, words",
    [
        ({"model": ""}, "printable ASCII"),
        ({"model": "a\nb"}, "printable ASCII"),
        ({"api_key": "sk-\u00e9"}, "printable ASCII"),
        ({"api_key": "sk-a\nb"}, "printable ASCII"),
        ({"base_url": "ftp://host"}, "http or https"),
        ({"base_url": "http://"}, "http or https"),
        ({"base_url": "http://host:99999/"}, "http or https"),
        ({"base_url": "nonsense"}, "http or https"),
        ({"api": "soap"}, "api="),
        ({"structured": "xml"}, "structured="),
        ({"structured": "tool"}, "AnthropicModel"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": True}, "max_tokens"),
        ({"retries": -1}, "retries"),
        ({"timeout_s": float("nan")}, "timeout_s"),
        ({"timeout_s": "5"}, "timeout_s"),
        ({"wait_max_s": -1}, "wait_max_s"),
        ({"temperature": "hot"}, "temperature"),
        ({"prices": {"openai:m": {"in": "x", "out": "1"}}}, "expected a price"),
    ],
)
def test_values_that_cannot_be_used_are_refused_at_once(options: dict[str, Any], words: str) -> None:
    """In one line, and without the key in it."""
    given = {"model": "m", "api_key": KEY, "base_url": "http://127.0.0.1:9/v1"} | options
    with pytest.raises(UsageError, match=words) as caught:
        OpenAIModel(given.pop("model"), **given)
    assert KEY not in str(caught.value) and "sk-" not in str(caught.value)


def test_clients_that_a_host_has_made(server: ModelServer) -> None:
    """Such as those for other clouds; their own retries are turned off."""
    given: list[tuple[Wire, Callable[[], OpenAIModel | AnthropicModel]]] = [
        (CHAT, lambda: OpenAIModel("m", client=openai.OpenAI(api_key=KEY, base_url=f"{server.url}/v1"), retries=0)),
        (MESSAGES, lambda: AnthropicModel("m", client=anthropic.Anthropic(api_key=KEY, base_url=server.url), retries=0)),
    ]  # fmt: skip
    for wire, make in given:
        server.script(plain(wire.error("busy"), status=500))
        with pytest.raises(ModelUnavailable, match="HTTP 500: busy"):
            make().ask(call())
        assert len(server.requests) == 1

    async def both() -> list[str]:
        found = []
        chat = openai.AsyncOpenAI(api_key=KEY, base_url=f"{server.url}/v1")
        claude = anthropic.AsyncAnthropic(api_key=KEY, base_url=server.url)
        for wire, model in (
            (CHAT, OpenAIModel("m", async_client=chat)),
            (MESSAGES, AnthropicModel("m", async_client=claude)),
        ):
            server.script(plain(wire.body(TEXT)))
            found.append((await model.aask(call())).text)
        return found

    assert asyncio.run(both()) == [TEXT, TEXT]


# -- in a run ----------------------------------------------------------------------------------------------------

SCRIPT = [*READ(1), CONTINUE, SELECT(), PARAMETERS(page=2), STOP, SUCCESS]


@chat_first
@pytest.mark.parametrize("driver", ["run", "arun", "stream", "astream"])
def test_a_whole_run_with_faults_in_it(tmp_path: Path, wire: Wire, driver: str) -> None:
    """Done; request ids, attempts and tokens stand in the rows; it replays without the server."""
    live = driver in ("stream", "astream")
    with model_server() as server:
        replies = [json.dumps(reply) for reply in SCRIPT]
        headers = {"x-request-id": "req_a", "request-id": "req_a"}
        answers = [
            streamed(wire.events(text), headers=headers) if live else plain(wire.body(text), headers=headers)
            for text in replies
        ]
        busy = plain(wire.error("slow down"), status=429, headers={"retry-after": "3"})
        server.script(answers[0], busy, busy, *answers[1:])
        port = QuickPort()
        engine = Engine(wire.model(server.url, port=port), tools=TOOLS, journal=tmp_path / "runs.db")
        events: list[Any] = []

        async def collect() -> None:
            events.extend([event async for event in engine.astream("Read it", on_close="stop")])

        if driver == "run":
            result = engine.run("Read it")
        elif driver == "arun":
            result = asyncio.run(engine.arun("Read it"))
        else:
            events.extend(engine.stream("Read it", on_close="stop")) if driver == "stream" else asyncio.run(
                collect()
            )
            result = next(event.result for event in events if isinstance(event, RunEnded))
    assert (result.state, port.waits) == ("Done", [3.0, 3.0])
    rows = [row.outcome for row in engine.journal.transitions(result.run_id) if "model" in row.request]
    assert [row["request_id"] for row in rows] == ["req_a"] * 7 and [row.get("attempts") for row in rows][
        1
    ] == 3
    assert {(row["tokens_cached"], row["tokens_reasoning"]) for row in rows} == {(1000, 20)}
    sums = engine.journal.reader.query(
        "SELECT sum(tokens_cached), sum(tokens_reasoning), sum(requests) FROM v_usage"
    )
    assert sums == [(7000, 140, 7)]
    assert replay(engine.journal, result.run_id).identical and engine.journal.verify() == []
    if live:
        _check_events(events, replies)


def test_a_replay_needs_no_server_no_sdk_and_no_key(tmp_path: Path) -> None:
    """In another process that can neither import them nor open a connection; faults and texts of tools included."""
    select = {"action": "ai.process", "actionObjective": "write", "parametersContext": "it"}
    replies = [select, {"parameters": {"aiPrompt": "write"}}, "A text.", CONTINUE]
    with model_server() as server:
        said = [plain(MESSAGES.body(item if isinstance(item, str) else json.dumps(item))) for item in replies]
        server.script(*said, plain(MESSAGES.error("no"), status=401))
        with Engine(MESSAGES.model(server.url), journal=tmp_path / "runs.db", builtins=True) as engine:
            assert engine.run("Write").reason == "model_error"
    code = """
        import socket, sys
        for name in ("openai", "anthropic", "httpx2"):
            sys.modules[name] = None
        socket.socket.connect = None
        from paor import Journal, replay
        with Journal("runs.db") as journal:
            done = replay(journal, journal.runs()[0].run_id)
        print(done.identical, done.divergences)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        cwd=tmp_path,
        env={"PATH": "", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout == "True ()\n", done.stdout + done.stderr


def _check_events(events: list[Any], replies: list[str]) -> None:
    """Text comes before the row that holds it, and makes up the whole reply; what was repeated is told."""
    told = [event for event in events if isinstance(event, ModelNotice)]
    assert [(event.notice, event.code, event.seq) for event in told if event.notice == "retry"] == [
        ("retry", "rate_limited", 1)
    ] * 2
    texts: dict[int, str] = {}
    done: set[int] = set()
    for item in events:
        if isinstance(item, ModelText):
            assert item.seq not in done
            texts[item.seq] = texts.get(item.seq, "") + item.text
        elif isinstance(item, TransitionTaken):
            done.add(item.seq)
    assert list(texts.values()) == replies
    assert max(event.wait_us for event in told) == 3_000_000


@pytest.mark.parametrize("driver", ["sync", "async"])
def test_text_that_a_tool_has_written_is_streamed_too(tmp_path: Path, driver: str) -> None:
    """`ai.process` asks the model itself; its text comes as it is written."""
    select = {"action": "ai.process", "actionObjective": "write", "parametersContext": "it"}
    replies = [select, {"parameters": {"aiPrompt": "write"}}, "A long text of the model.", STOP, SUCCESS]
    with model_server() as server:
        texts = [reply if isinstance(reply, str) else json.dumps(reply) for reply in replies]
        server.script(*(streamed(CHAT.events(text), headers={"x-request-id": "req_t"}) for text in texts))
        engine = Engine(CHAT.model(server.url), journal=tmp_path / "runs.db", builtins=True)
        events: list[Any] = []

        async def collect() -> None:
            events.extend([event async for event in engine.astream("Write", on_close="stop")])

        events.extend(engine.stream("Write", on_close="stop")) if driver == "sync" else asyncio.run(collect())
    written = [item.text for item in events if isinstance(item, ModelText) and item.request == "text"]
    assert "".join(written) == "A long text of the model." and len(written) > 2
    result = events[-1].result
    (row,) = [row for row in engine.journal.transitions(result.run_id) if row.trigger == "execute"]
    assert row.outcome["request_ids"] == ["req_t"] and row.outcome["tokens_cached"] == 1000
    assert replay(engine.journal, result.run_id).identical


@pytest.mark.parametrize("driver", ["sync", "async"])
def test_who_stops_listening_stops_the_exchange(tmp_path: Path, driver: str) -> None:
    """At its next piece; the run can be resumed, no row was written for the reply that nobody heard."""
    hung_up = threading.Event()

    pieces = CHAT.events(json.dumps(SCRIPT[0]), size=1)[:6]

    def then(connection: Connection) -> None:
        try:
            for piece in chain(pieces, repeat(CHAT.events("more")[1])):
                connection.chunk(piece)
                hung_up.wait(0.02)
        except OSError:
            hung_up.set()

    with model_server() as server:
        server.script(streamed([], then=then))
        engine = Engine(CHAT.model(server.url), tools=TOOLS, journal=tmp_path / "runs.db")

        async def listen() -> str:
            stream = engine.astream("Read it", on_close="stop")
            async for item in stream:
                if isinstance(item, ModelText):
                    await stream.aclose()
                    return item.run_id
            raise AssertionError("no text came")

        if driver == "sync":
            stream = engine.stream("Read it", on_close="stop")
            run_id = next(item.run_id for item in stream if isinstance(item, ModelText))
            stream.close()
        else:
            run_id = asyncio.run(listen())
        assert hung_up.wait(60) and engine.journal.transitions(run_id) == []
        server.script(*(plain(CHAT.body(json.dumps(reply))) for reply in SCRIPT))
        assert engine.resume(run_id).state == "Done"
