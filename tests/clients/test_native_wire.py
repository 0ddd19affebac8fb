"""Native turns over the wire: what each of the three interfaces is sent, and calls that come back from it, whole or streamed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from paor import Engine, Journal, Limits, ModelCall, replay, tool
from paor.models import OfferedTool, PromptMessage, ToolCall
from paor.testing import walk

from ..support.model_server import Behaviour, ModelServer, Wire, event, model_server, plain, streamed
from .inside import Calls, read_turn

CHAT, RESPONSES, MESSAGES = (Wire(name) for name in ("chat", "responses", "messages"))
each_wire = pytest.mark.parametrize("wire", [CHAT, RESPONSES, MESSAGES], ids=lambda wire: wire.name)
each_way = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
SCHEMA = {"type": "object", "properties": {"page": {"type": "integer"}}, "required": ["page"]}


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    """Return a server for the whole module."""
    with model_server() as running:
        yield running


def turn(wire: Wire, calls: list[tuple[str, str]], *, stream: bool, text: str = "") -> Behaviour:
    """Return a response that calls tools: name and arguments as their text, each in two pieces when streamed."""
    return globals()[f"_{wire.name}"](wire, calls, stream, text)  # type: ignore[no-any-return]


def _chat(wire: Wire, calls: list[tuple[str, str]], stream: bool, text: str) -> Behaviour:
    made = [
        {"id": f"c{n}", "type": "function", "function": {"name": name, "arguments": given}}
        for n, (name, given) in enumerate(calls)
    ]
    body = wire.body("")
    body["choices"][0]["message"] |= {"content": text or None, "tool_calls": made}
    if not stream:
        return plain(body)
    deltas: list[dict[str, Any]] = [{"content": text}]
    for n, (name, given) in enumerate(calls):
        deltas.append(
            {"tool_calls": [{"index": n, "id": f"c{n}", "function": {"name": name, "arguments": given[:3]}}]}
        )
        deltas.append({"tool_calls": [{"index": n, "function": {"arguments": given[3:]}}]})
    chunks: list[dict[str, Any]] = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    return streamed([event(chunk) for chunk in chunks])


def _responses(wire: Wire, calls: list[tuple[str, str]], stream: bool, text: str) -> Behaviour:
    items: list[dict[str, Any]] = [
        {"type": "function_call", "id": f"fc{n}", "call_id": f"c{n}", "name": name, "arguments": given}
        for n, (name, given) in enumerate(calls)
    ]
    if text:
        items.insert(0, wire.body(text)["output"][1])
    body = wire.body("") | {"output": items}
    if not stream:
        return plain(body)
    events = [
        event({"type": "response.output_item.done", "item": item}, "response.output_item.done")
        for item in items
    ]
    last = {"type": "response.completed", "response": body | {"output": []}}
    return streamed([*events, event(last, last["type"])])  # type: ignore[arg-type]


def _messages(wire: Wire, calls: list[tuple[str, str]], stream: bool, text: str) -> Behaviour:
    blocks: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
    blocks += [
        {"type": "tool_use", "id": f"c{n}", "name": name, "input": {}} for n, (name, _) in enumerate(calls)
    ]
    inputs = [""] * bool(text) + [given for _, given in calls]
    if not stream:
        for block, given in zip(blocks, inputs, strict=True):
            if given:
                block["input"] = json.loads(given)
        return plain(wire.body("") | {"content": blocks, "stop_reason": "tool_use"})
    parts: list[dict[str, Any]] = []
    for n, (block, given) in enumerate(zip(blocks, inputs, strict=True)):
        parts.append({"type": "content_block_start", "index": n, "content_block": block})
        for piece in (given[:3], given[3:]):
            delta = {"type": "input_json_delta", "partial_json": piece}
            parts += [{"type": "content_block_delta", "index": n, "delta": delta}] if piece else []
    parts.append({"type": "message_delta", "delta": {"stop_reason": "tool_use"}})
    return streamed([event(part, part["type"]) for part in parts])


def offer(*messages: PromptMessage, may_call: bool = True) -> ModelCall:
    """Return a request for a turn."""
    tools = (OfferedTool("notes_read", "Read a page.", SCHEMA),)
    head = (PromptMessage("system", "Be brief."), PromptMessage("user", "Read page 1"))
    return ModelCall("turn", (*head, *messages), tools=tools, may_call=may_call)


def test_the_users_messages_in_a_row_are_one_over_chat_completions(server: ModelServer) -> None:
    """Templates of many models refuse two of them; the other interfaces join them themselves."""
    said = [
        PromptMessage("assistant", "{}"),
        PromptMessage("user", "A result."),
        PromptMessage("user", "Go on?"),
    ]
    call = ModelCall("refinement", (PromptMessage("system", "S"), PromptMessage("user", "Head."), *said))
    server.script(plain(CHAT.body("{}")))
    CHAT.model(server.url).ask(call)
    sent = server.requests[0].body["messages"]
    assert [one["role"] for one in sent] == ["system", "user", "assistant", "user"]
    assert sent[-1]["content"] == "A result.\n\nGo on?"


# -- what comes back -------------------------------------------------------------------------------------------------


@each_wire
@each_way
def test_calls_of_every_interface_are_recorded_in_one_form(
    server: ModelServer, wire: Wire, stream: bool
) -> None:
    """Several at once, with the text beside them; what is streamed to a listener is the text alone."""
    calls = [("notes_read", '{"page": 1}'), ("notes_read", '{"page": 2}')]
    server.script(turn(wire, calls, stream=stream, text="Both."))
    reply = wire.model(server.url, stream=stream).ask(offer())
    wanted = [{"id": f"c{n}", "name": "notes_read", "arguments": {"page": n + 1}} for n in range(2)]
    assert json.loads(reply.text) == {"text": "Both.", "calls": wanted}
    assert reply.finish == "tool_calls"


@pytest.mark.parametrize("wire", [CHAT, RESPONSES], ids=lambda wire: wire.name)
@each_way
@pytest.mark.parametrize("given", ["", "{", "[1]", '"page"', "no JSON"])
def test_arguments_that_are_no_object_are_told_to_the_model(
    server: ModelServer, wire: Wire, stream: bool, given: str
) -> None:
    """They are recorded as they came; the empty text is no arguments at all."""
    server.script(turn(wire, [("notes_read", given)], stream=stream))
    read = read_turn(wire.model(server.url, stream=stream).ask(offer()).text, chars_max=10_000)
    assert isinstance(read, Calls) and (read.steps[0].fault is None) is (given == "")


@pytest.mark.whole
@each_wire
@each_way
def test_words_are_the_answer(server: ModelServer, wire: Wire, stream: bool) -> None:
    """As they stand, although tools were offered."""
    server.script(streamed(wire.events("It is there.")) if stream else plain(wire.body("It is there.")))
    reply = wire.model(server.url, stream=stream).ask(offer())
    assert (reply.text, reply.finish) == ("It is there.", "stop")


# -- what is sent ----------------------------------------------------------------------------------------------------


CALLED = PromptMessage("assistant", "", (ToolCall("call_1", "notes_read", {"page": 1}),))
RESULT = PromptMessage("tool", "Page 1.", call_id="call_1")


def sent(server: ModelServer, wire: Wire, call: ModelCall) -> dict[str, Any]:
    """Return the body of a request."""
    server.script(plain(wire.body("Read.")))
    wire.model(server.url).ask(call)
    return server.requests[0].body


def test_chat_completions_are_sent_functions_calls_and_results(server: ModelServer) -> None:
    """As its reference has them."""
    body = sent(server, CHAT, offer(CALLED, RESULT))
    function = {"name": "notes_read", "description": "Read a page.", "parameters": SCHEMA}
    assert body["tools"] == [{"type": "function", "function": function}] and "tool_choice" not in body
    made = {"id": "call_1", "type": "function", "function": {"name": "notes_read", "arguments": '{"page":1}'}}
    assert body["messages"][2:] == [
        {"role": "assistant", "content": None, "tool_calls": [made]},
        {"role": "tool", "content": "Page 1.", "tool_call_id": "call_1"},
    ]
    body = sent(server, CHAT, offer(CALLED, RESULT, may_call=False))
    assert body["tools"][0]["function"] == function and body["tool_choice"] == "none"


@pytest.mark.parametrize("wire", [CHAT, RESPONSES], ids=lambda wire: wire.name)
def test_tools_are_left_out_where_a_server_cannot_be_told_to_call_none(
    server: ModelServer, wire: Wire
) -> None:
    """For good: a small model calls whatever it is shown."""
    refused = plain(wire.error("Unknown parameter: 'tool_choice'", param="tool_choice"), status=400)
    server.script(refused, plain(wire.body("Read.")))
    model = wire.model(server.url)
    for attempts in (2, 1):
        assert model.ask(offer(CALLED, RESULT, may_call=False)).attempts == attempts
    assert "tool_choice" in server.requests[0].body and "tools" in server.requests[0].body
    assert all("tool_choice" not in one.body and "tools" not in one.body for one in server.requests[1:])
    model.ask(offer())
    assert "tools" in server.requests[-1].body


def test_responses_are_sent_functions_calls_and_results(server: ModelServer) -> None:
    """Not strict, which is what this interface would take them for otherwise."""
    body = sent(server, RESPONSES, offer(CALLED, RESULT))
    assert body["tools"] == [
        {
            "type": "function",
            "strict": False,
            "name": "notes_read",
            "description": "Read a page.",
            "parameters": SCHEMA,
        }
    ]
    assert body["input"][1:] == [
        {"type": "function_call", "call_id": "call_1", "name": "notes_read", "arguments": '{"page":1}'},
        {"type": "function_call_output", "call_id": "call_1", "output": "Page 1."},
    ]
    assert sent(server, RESPONSES, offer(may_call=False))["tool_choice"] == "none"


def test_messages_are_sent_tools_uses_and_results(server: ModelServer) -> None:
    """A conversation with calls comes with its tools, also when none may be called."""
    body = sent(server, MESSAGES, offer(CALLED, RESULT))
    assert body["tools"] == [{"name": "notes_read", "description": "Read a page.", "input_schema": SCHEMA}]
    use = {"type": "tool_use", "id": "call_1", "name": "notes_read", "input": {"page": 1}}
    assert body["messages"][1:] == [
        {"role": "assistant", "content": [use]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": "Page 1."}]},
    ]
    body = sent(server, MESSAGES, offer(CALLED, RESULT, may_call=False))
    assert body["tools"] and body["tool_choice"] == {"type": "none"}


# -- whole runs --------------------------------------------------------------------------------------------------------


@tool("notes.read", effect="read")
def read(page: int) -> str:
    """Read a page."""
    return f"Page {page}."


@each_wire
@each_way
def test_a_run_is_the_same_over_every_interface(server: ModelServer, wire: Wire, stream: bool) -> None:
    """Two turns and the review; the journal holds nothing of the provider, and replays without it."""
    last = '{"status": "success", "improvements": []}'
    ends = [
        streamed(wire.events(text)) if stream else plain(wire.body(text)) for text in ("It says 1.", last)
    ]
    server.script(turn(wire, [("notes_read", '{"page": 1}')], stream=stream), *ends)
    model = wire.model(server.url, stream=stream)
    limits = Limits(token_budget=1_000_000, reply_tokens=500)
    with Engine(model, [read], Journal(":memory:"), limits, builtins=False) as engine:
        result = engine.run("Read page 1", profile="native")
        assert (result.state, result.answer, result.steps) == ("Done", "It says 1.", 1)
        seen = walk(engine.journal, result.run_id)
        assert (
            seen.asked[0].reply
            == '{"text": "", "calls": [{"id": "c0", "name": "notes_read", "arguments": {"page": 1}}]}'
        )
        assert replay(engine.journal, result.run_id, engine).identical and engine.journal.verify() == []
