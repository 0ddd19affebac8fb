"""The provider's own turns: kept in replies as they came, and sent back unchanged to servers that refuse anything else."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from paor import Engine, Journal, Limits, ModelCall, Reply, replay, tool
from paor.models import OfferedTool, PromptMessage, ToolCall

from ..support.model_server import (
    KEY,
    Behaviour,
    Connection,
    ModelServer,
    Received,
    Wire,
    event,
    model_server,
    plain,
    streamed,
)
from .inside import CallProgress, Scrubber, checked_reply, kept_parts

CHAT, RESPONSES, MESSAGES = (Wire(name) for name in ("chat", "responses", "messages"))
each_way = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
TOOLS = (OfferedTool("notes_read", "Read a page.", {"type": "object", "properties": {"page": {}}}),)
HEAD = (PromptMessage("system", "Be brief."), PromptMessage("user", "Read all pages"))
TURNS = 10


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    """Return a server for the whole module."""
    with model_server() as running:
        yield running


def arguments(kind: str, number: int) -> str:
    """Return the arguments of the first or second call of a turn, with blanks that a client would not write."""
    return f'{{ "page" : {2 * number + (kind == "b")} }}'


# -- four kinds of providers -----------------------------------------------------------------------------------------


class Refused(Exception):
    """The provider does not take a request."""


class Provider:
    """
    Gives a turn with two calls each time until the last one, an answer, and refuses a turn that does not come back as it was.

    Attributes:
        wire: Its interface.
        given: The turns so far.
        seen: The bodies of its requests.
    """

    wire = CHAT

    def __init__(self, *, stream: bool) -> None:
        self.given: list[Any] = []
        self.seen: list[dict[str, Any]] = []
        self._stream = stream

    def __call__(self, connection: Connection, received: Received) -> None:
        """Answer one request."""
        self.seen.append(received.body)
        try:
            self.check(received.body)
        except Refused as error:
            plain(self.wire.error(str(error), type="invalid_request_error"), status=400)(connection, received)
            return
        turn = self.turn(len(self.given))
        self.given.append(turn)
        (self.streamed(turn) if self._stream else self.whole(turn))(connection, received)

    def check(self, body: dict[str, Any]) -> None:
        """Raise `Refused` unless all turns came back in their places."""
        raise NotImplementedError

    def turn(self, number: int) -> Any:
        """Return the turn of that number."""
        raise NotImplementedError

    def whole(self, turn: Any) -> Behaviour:
        """Return it as a whole response."""
        raise NotImplementedError

    def streamed(self, turn: Any) -> Behaviour:
        """Return it as a stream."""
        raise NotImplementedError


class DeepSeek(Provider):
    """Chat Completions that need the thoughts of every turn back."""

    def turn(self, number: int) -> Any:
        message: dict[str, Any] = {
            "role": "assistant",
            "content": "All is read." if number == TURNS else "",
            "reasoning_content": f"I must read page {number}.\n",
            "vendor": {"trace": [number, None, 0.5]},
        }
        if number < TURNS:
            message["tool_calls"] = [self.call(kind, number) | self.extra(kind, number) for kind in "ab"]
        return message

    def call(self, kind: str, number: int) -> dict[str, Any]:
        function = {"name": "notes_read", "arguments": arguments(kind, number)}
        return {"id": f"{kind}{number}", "type": "function", "function": function}

    def extra(self, kind: str, number: int) -> dict[str, Any]:
        return {}

    def check(self, body: dict[str, Any]) -> None:
        messages = body["messages"]
        turns = [message for message in messages if message["role"] == "assistant"]
        if turns != self.given:
            raise Refused("the reasoning_content in the thinking mode must be passed back to the API")
        for place, message in enumerate(messages):
            ids = [call["id"] for call in message.get("tool_calls", ())]
            if [one.get("tool_call_id") for one in messages[place + 1 : place + 1 + len(ids)]] != ids:
                raise Refused("every call needs its result behind it")

    def whole(self, turn: Any) -> Behaviour:
        finish = "tool_calls" if "tool_calls" in turn else "stop"
        body = self.wire.body("")
        body["choices"] = [{"index": 0, "message": turn, "finish_reason": finish}]
        return plain(body)

    def streamed(self, turn: Any) -> Behaviour:
        thought, deltas = turn["reasoning_content"], []
        deltas += [
            {"role": "assistant", "content": None, "reasoning_content": thought[:3]},
            {"role": "assistant", "content": None, "reasoning_content": thought[3:]},
        ]
        deltas += [{"content": piece} for piece in (turn["content"][:3], turn["content"][3:])]
        for index, call in enumerate(turn.get("tool_calls", ())):
            given = call["function"]["arguments"]
            begin = call | {"index": index, "function": call["function"] | {"arguments": given[:3]}}
            rest = {"index": index, "function": {"arguments": given[3:]}}
            deltas += [{"tool_calls": [begin]}, {"tool_calls": [rest]}]
        deltas.append({"vendor": turn["vendor"]})
        finish = "tool_calls" if "tool_calls" in turn else "stop"
        choices = [{"index": 0, "delta": delta} for delta in deltas]
        choices.append({"index": 0, "delta": {}, "finish_reason": finish})
        return streamed([event({"choices": [choice]}) for choice in choices])


class Gemini(DeepSeek):
    """The same with a signature at the first call of every turn."""

    def extra(self, kind: str, number: int) -> dict[str, Any]:
        signed = {"extra_content": {"google": {"thought_signature": f"c2ln{number}"}}}
        return signed if kind == "a" else {}

    def check(self, body: dict[str, Any]) -> None:
        for message in body["messages"]:
            first = message.get("tool_calls", [{"extra_content": {"google": "-"}}])[0]
            if "thought_signature" not in str(first) and first.get("id"):
                raise Refused("Function call is missing a thought_signature in functionCall parts")
        super().check(body)


class Claude(Provider):
    """Messages that think before they call, with a signature, and need every result in the next message."""

    wire = MESSAGES

    def turn(self, number: int) -> Any:
        place = {"type": "char_location", "document_index": 0, "document_title": None}
        cited = place | {"cited_text": "Page", "start_char_index": 0, "end_char_index": number}
        blocks: list[dict[str, Any]] = [
            {
                "type": "thinking",
                "thinking": f"Page {number} comes next.",
                "signature": f"c2lnbmVk{number}==",
            },
            {"type": "redacted_thinking", "data": f"ZW5j{number}"},
            {"type": "future_block", "payload": {"n": [number, None]}, "more": True},
            {
                "type": "text",
                "text": "All is read." if number == TURNS else "Let me look.",
                "citations": [cited],
            },
        ]
        if number < TURNS:
            caller = {"type": "direct"}
            blocks += [
                {
                    "type": "tool_use",
                    "id": f"toolu_{kind}{number}",
                    "name": "notes_read",
                    "input": json.loads(arguments(kind, number)),
                    "caller": caller,
                }
                for kind in "ab"
            ]
        return blocks

    def check(self, body: dict[str, Any]) -> None:
        messages = [message | {"content": _plain(message["content"])} for message in body["messages"]]
        if [message["role"] for message in messages] != ["user", "assistant"] * (len(messages) // 2) + [
            "user"
        ]:
            raise Refused("messages: roles must alternate")
        if [message["content"] for message in messages if message["role"] == "assistant"] != self.given:
            raise Refused("`thinking` blocks in the latest assistant message cannot be modified")
        for turn, answer in zip(messages[1::2], messages[2::2], strict=True):
            ids = [block["id"] for block in turn["content"] if block["type"] == "tool_use"]
            results = [block["tool_use_id"] for block in answer["content"] if block["type"] == "tool_result"]
            if results != ids:
                raise Refused("`tool_use` ids were found without `tool_result` blocks immediately after")

    def whole(self, turn: Any) -> Behaviour:
        stop = "tool_use" if any(block["type"] == "tool_use" for block in turn) else "end_turn"
        return plain(self.wire.body("") | {"content": turn, "stop_reason": stop})

    def streamed(self, turn: Any) -> Behaviour:
        parts: list[dict[str, Any]] = []
        for index, block in enumerate(turn):
            deltas: list[dict[str, Any]] = []
            begin = dict(block)
            for name, kind in (("thinking", "thinking"), ("signature", "signature"), ("text", "text")):
                if name in block and block["type"] in ("thinking", "text"):
                    begin[name] = ""
                    pieces = (block[name][:4], block[name][4:])
                    deltas += [{"type": f"{kind}_delta", name: piece} for piece in pieces]
            if "citations" in block:
                begin["citations"] = None
                deltas += [{"type": "citations_delta", "citation": one} for one in block["citations"]]
            if block["type"] == "tool_use":
                begin["input"], given = {}, json.dumps(block["input"])
                deltas += [
                    {"type": "input_json_delta", "partial_json": piece}
                    for piece in ("", given[:4], given[4:])
                ]
            parts.append({"type": "content_block_start", "index": index, "content_block": begin})
            parts += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
            parts.append({"type": "content_block_stop", "index": index})
        stop = "tool_use" if any(block["type"] == "tool_use" for block in turn) else "end_turn"
        parts += [{"type": "message_delta", "delta": {"stop_reason": stop}}, {"type": "message_stop"}]
        return streamed([event(part, part["type"]) for part in parts])


def _plain(content: Any) -> Any:
    """Return a message's content without what asks for a cache."""
    if not isinstance(content, list):
        return content
    return [{name: value for name, value in block.items() if name != "cache_control"} for block in content]


class Codex(Provider):
    """Responses whose thoughts are encrypted and whose words have phases."""

    wire = RESPONSES

    def turn(self, number: int) -> Any:
        def said(text: str, phase: str) -> dict[str, Any]:
            part = {"type": "output_text", "text": text, "annotations": []}
            message = {"type": "message", "id": f"msg_{phase}{number}", "role": "assistant", "phase": phase}
            return message | {"status": "completed", "content": [part]}

        thought = {
            "type": "reasoning",
            "id": f"rs_{number}",
            "summary": [],
            "encrypted_content": f"gAAA{number}",
        }
        items: list[dict[str, Any]] = [thought, said("Let me look.", "commentary")]
        items.append({"type": "future_item", "id": f"fi_{number}", "payload": {"n": [number, None]}})
        if number == TURNS:
            return [*items, said("All is read.", "final_answer")]
        return items + [
            {
                "type": "function_call",
                "id": f"fc_{kind}{number}",
                "call_id": f"call_{kind}{number}",
                "name": "notes_read",
                "arguments": arguments(kind, number),
                "status": "completed",
            }
            for kind in "ab"
        ]

    def check(self, body: dict[str, Any]) -> None:
        if body.get("store") is not False or body.get("include") != ["reasoning.encrypted_content"]:
            raise Refused("nothing was asked for")
        items = [
            item for item in body["input"] if item.get("type") != "function_call_output" and "id" in item
        ]
        if items != [item for turn in self.given for item in turn]:
            raise Refused("Item 'fc_1' was provided without its required 'reasoning' item")
        called = [item["call_id"] for item in items if item["type"] == "function_call"]
        results = [item["call_id"] for item in body["input"] if item.get("type") == "function_call_output"]
        if called != results:
            raise Refused("No tool output found for function call")

    def whole(self, turn: Any) -> Behaviour:
        return plain(self.wire.body("") | {"output": turn})

    def streamed(self, turn: Any) -> Behaviour:
        events: list[dict[str, Any]] = []
        for item in turn:
            if item["type"] == "message":
                text = item["content"][0]["text"]
                pieces = (text[:4], text[4:])
                events += [{"type": "response.output_text.delta", "delta": piece} for piece in pieces]
            events.append({"type": "response.output_item.done", "item": item})
        events.append({"type": "response.completed", "response": self.wire.body("") | {"output": []}})
        return streamed([event(data, data["type"]) for data in events])


def results_of(reply: Reply) -> list[PromptMessage]:
    """Return the messages that follow a reply: its turn, as a conversation holds it, and the results of its calls."""
    try:
        data = json.loads(reply.text)
    except ValueError:
        return [PromptMessage("assistant", reply.text, parts=reply.parts, api=reply.api)]
    calls = tuple(ToolCall(call["id"], call["name"], call["arguments"]) for call in data["calls"])
    turn = PromptMessage("assistant", data["text"], calls, parts=reply.parts, api=reply.api)
    return [turn, *(PromptMessage("tool", f"Page {n}.", call_id=call.id) for n, call in enumerate(calls))]


@each_way
@pytest.mark.parametrize("kind", [DeepSeek, Gemini, Claude, Codex])
def test_a_long_conversation_goes_on_with_a_provider_that_wants_its_turns_back(
    server: ModelServer, kind: Callable[..., Provider], stream: bool
) -> None:
    """Ten turns of two calls each; what is sent back is what was received, and every request begins with the one before."""
    provider = kind(stream=stream)
    server.script(provider)
    model = provider.wire.model(server.url, stream=stream, retries=0)
    conversation: Sequence[PromptMessage] = HEAD
    for _ in range(TURNS + 1):
        call = ModelCall("turn", tuple(conversation), tools=TOOLS, stable=len(conversation), run_id="r1")
        reply = model.ask(call)
        conversation = [*conversation, *results_of(reply)]
    assert (reply.text, reply.finish) == ("All is read.", "stop")
    assert [part for item in conversation for part in item.parts] == [
        part for turn in provider.given for part in (turn if isinstance(turn, list) else [turn])
    ]
    assert model.without == frozenset()
    name = "input" if kind is Codex else "messages"
    for before, after in zip(provider.seen, provider.seen[1:], strict=False):
        old, new = (
            [one | {"content": _plain(one.get("content"))} for one in body[name]] for body in (before, after)
        )
        assert new[: len(old)] == old and after["tools"] == before["tools"]


@tool("notes.read", effect="read")
def read(page: int) -> str:
    """Read a page."""
    return f"Page {page}."


@each_way
@pytest.mark.parametrize("kind", [DeepSeek, Gemini, Claude, Codex])
def test_a_run_of_many_steps_ends_at_a_provider_that_wants_its_turns_back(
    server: ModelServer, kind: Callable[..., Provider], stream: bool
) -> None:
    """Each turn is in the journal and goes back as it came, whole; a replay asks nobody."""
    provider = kind(stream=stream)
    server.script(provider)
    model = provider.wire.model(server.url, stream=stream, retries=0)
    limits = Limits(max_steps=3 * TURNS, completion_review="rules", context_tokens=128_000)
    with Engine(model, [read], Journal(":memory:"), limits, builtins=False) as engine:
        result = engine.run("Read all pages", profile="native")
        assert (result.state, result.answer, result.steps) == ("Done", "All is read.", 2 * TURNS)
        assert len(provider.seen) == TURNS + 1 and model.without == frozenset()
        assert replay(engine.journal, result.run_id, engine).identical and engine.journal.verify() == []


@pytest.mark.parametrize("kind", [DeepSeek, Gemini, Claude, Codex])
def test_these_providers_refuse_the_normal_form(server: ModelServer, kind: Callable[..., Provider]) -> None:
    """Or the test above would prove nothing."""
    provider = kind(stream=False)
    server.script(provider)
    model = provider.wire.model(server.url, retries=0)
    reply = model.ask(ModelCall("turn", HEAD, tools=TOOLS))
    turn, *results = results_of(reply)
    plain_turn = PromptMessage("assistant", turn.text, turn.calls)
    with pytest.raises(Exception, match="HTTP 400"):
        model.ask(ModelCall("turn", (*HEAD, plain_turn, *results), tools=TOOLS))


# -- what differs ----------------------------------------------------------------------------------------------------


def sent(server: ModelServer, wire: Wire, *messages: PromptMessage, **options: Any) -> Any:
    """Return what a server is sent of *messages*, without the question before them."""
    server.script(plain(wire.body("Read.")))
    model = wire.model(server.url)
    call = ModelCall(
        "turn", (PromptMessage("user", "Go"), *made_by(model, *messages)), tools=TOOLS, **options
    )
    model.ask(call)
    return server.requests[0].body["input" if wire is RESPONSES else "messages"][1:]


def label(model: Any) -> str:
    """Return what a client calls the interface and the server of its turns."""
    return str(model._turns_of)


def made_by(model: Any, *messages: PromptMessage) -> list[PromptMessage]:
    """Return messages with those that name an interface as turns that came from this model's server."""
    own = label(model)
    return [replace(item, api=own) if item.api and own.startswith(item.api) else item for item in messages]


def called(wire: Wire, id: str, given: Any) -> tuple[dict[str, Any], ...]:
    """Return the parts of a turn with one call."""
    if wire is CHAT:
        function = {"name": "notes_read", "arguments": given}
        return ({"role": "assistant", "tool_calls": [{"id": id, "type": "function", "function": function}]},)
    if wire is RESPONSES:
        return ({"type": "function_call", "call_id": id, "name": "notes_read", "arguments": given},)
    return ({"type": "tool_use", "id": id, "name": "notes_read", "input": given},)


@pytest.mark.parametrize("wire", [CHAT, RESPONSES, MESSAGES], ids=lambda wire: wire.name)
def test_calls_go_under_the_ids_of_their_results_with_arguments_that_can_be_read(
    server: ModelServer, wire: Wire
) -> None:
    """Some servers give no ids, and none takes back arguments that are no JSON."""
    turn = PromptMessage(
        "assistant",
        "",
        (ToolCall("c1", "notes_read", {"page": 1}),),
        parts=called(wire, "", "{no JSON"),
        api=wire.name,
    )
    result = PromptMessage("tool", "Page 1.", call_id="c1")
    got = sent(server, wire, turn, result)[0]
    (wanted,) = called(wire, "c1", {"page": 1} if wire is MESSAGES else '{"page":1}')
    assert got == ({"role": "assistant", "content": [wanted]} if wire is MESSAGES else wanted)


@pytest.mark.parametrize("wire", [CHAT, RESPONSES, MESSAGES], ids=lambda wire: wire.name)
def test_a_turn_of_another_interface_or_with_other_calls_goes_in_the_normal_form(
    server: ModelServer, wire: Wire
) -> None:
    """A cut reply, a call that was written as text, a turn of another model."""
    parts = called(wire, "c1", {})
    plain_turn = sent(server, wire, PromptMessage("assistant", "Let me look."))
    for turn in (
        PromptMessage("assistant", "Let me look.", parts=parts, api="other"),
        PromptMessage("assistant", "Let me look.", parts=parts, api=wire.name),
    ):
        assert sent(server, wire, turn) == plain_turn


@pytest.mark.parametrize("wire", [CHAT, MESSAGES], ids=lambda wire: wire.name)
def test_a_turn_goes_back_to_the_server_that_made_it_alone(server: ModelServer, wire: Wire) -> None:
    """Another one under the same model's name gets the normal form; how the key is given does not matter, and is not in the label."""
    parts: Any = ({"role": "assistant", "content": "Hm.", "reasoning_content": "Private."},)
    if wire is MESSAGES:
        parts = {"type": "thinking", "thinking": "Private."}, {"type": "text", "text": "Let me look."}
    with model_server() as other:
        model = wire.model(server.url)
        turn = PromptMessage("assistant", "Let me look.", parts=parts, api=label(model))
        for place, goes_back in ((server, True), (other, False)):
            place.script(plain(wire.body("Read.")))
            ask = ModelCall("turn", (PromptMessage("user", "Go"), turn, PromptMessage("user", "And?")))
            wire.model(place.url).ask(ask)
            assert ("Private." in json.dumps(place.requests[-1].body)) == goes_back
    keyed = wire.model(server.url.replace("//", f"//u:{KEY}@"))
    assert label(keyed) == label(model) != label(wire.model(server.url + "/b"))
    assert re.fullmatch(rf"{wire.name}:[0-9a-f]{{8}}", label(model))


def test_a_turn_does_not_end_with_thoughts_that_lead_to_nothing(server: ModelServer) -> None:
    """Both providers refuse that; what is then empty is left out."""
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
    turn = PromptMessage("assistant", "", parts=(thought,), api="messages")
    assert sent(server, MESSAGES, turn) == []
    item = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
    turn = PromptMessage("assistant", "", parts=(item,), api="responses")
    assert sent(server, RESPONSES, turn) == []


@pytest.mark.parametrize(
    ("words", "for_good"),
    [
        ("'messages.1' : property 'annotations' is unsupported", True),
        ("The encrypted content gAAA could not be verified", False),
        ("messages.1.content.0: Invalid `signature` in `thinking` block", False),
    ],
)
@pytest.mark.parametrize("wire", [CHAT, RESPONSES, MESSAGES], ids=lambda wire: wire.name)
def test_a_server_that_does_not_take_its_turn_back_gets_the_normal_form(
    server: ModelServer, wire: Wire, words: str, for_good: bool
) -> None:
    """For good if it does not know the members, else in this request: the turn may be of another account."""
    turn = PromptMessage(
        "assistant",
        "",
        (ToolCall("c1", "notes_read", {"page": 1}),),
        parts=tuple(part | {"annotations": []} for part in called(wire, "c1", {"page": 1})),
        api=wire.name,
    )
    result = PromptMessage("tool", "Page 1.", call_id="c1")
    server.script(plain(wire.error(words), status=400), plain(wire.body("Read.")))
    model = wire.model(server.url, retries=0)
    call = ModelCall("turn", (*HEAD, *made_by(model, turn, result)), tools=TOOLS)
    assert (model.ask(call).text, model.ask(call).text) == ("Read.", "Read.")
    has = ["annotations" in json.dumps(one.body) for one in server.requests]
    assert has == ([True, False, False] if for_good else [True, False, True])


# -- phases ----------------------------------------------------------------------------------------------------------


def phased(*phases: str) -> list[dict[str, Any]]:
    """Return messages of these phases that say them."""
    part = {"type": "output_text", "annotations": []}
    return [
        {"type": "message", "role": "assistant", "phase": name, "content": [part | {"text": name}]}
        for name in phases
    ]


@each_way
@pytest.mark.parametrize(
    ("phases", "text"),
    [
        (("commentary", "final_answer"), "final_answer"),
        (("commentary",), ""),
        (("commentary", "commentary"), ""),
    ],
)
def test_a_commentary_is_no_answer(
    server: ModelServer, stream: bool, phases: tuple[str, ...], text: str
) -> None:
    """It is kept and may be shown; alone it leaves the reply without words, so that the model is asked again."""
    items = phased(*phases)
    provider = Codex(stream=stream)
    server.script(provider.streamed(items) if stream else provider.whole(items))
    shown: list[str] = []
    call = ModelCall("turn", HEAD, on_text=shown.append)
    reply = RESPONSES.model(server.url, stream=stream).ask(call)
    assert (reply.text, reply.finish, list(reply.parts)) == (text, "stop", items)
    again = ModelCall("turn", (*HEAD, *results_of(reply), PromptMessage("user", "Go on.")))
    server.script(plain(RESPONSES.body("Done.")))
    RESPONSES.model(server.url).ask(again)
    assert server.requests[0].body["input"][1:-1] == items


# -- caches ----------------------------------------------------------------------------------------------------------


def marks(body: dict[str, Any]) -> list[str]:
    """Return what of a request asks for a cache, by place."""
    places = [("system", body.get("system")), ("tools", body.get("tools"))]
    places += [(f"{at}", message["content"]) for at, message in enumerate(body["messages"])]
    return [
        f"{name}:{at}"
        for name, parts in places
        if isinstance(parts, list)
        for at, part in enumerate(parts)
        if "cache_control" in part
    ]


CALLED = PromptMessage("assistant", "", (ToolCall("c1", "notes_read", {"page": 1}),))
RESULT = PromptMessage("tool", "Page 1.", call_id="c1")
THINKING = PromptMessage(
    "assistant",
    "",
    CALLED.calls,
    parts=(
        *called(MESSAGES, "c1", {"page": 1}),
        {"type": "thinking", "thinking": "And?", "signature": "c2ln"},
        {"type": "text", "text": ""},
    ),
    api="messages",
)


@pytest.mark.parametrize(
    ("messages", "stable", "wanted"),
    [
        (HEAD, 0, []),
        (HEAD, 1, ["system:0"]),
        (HEAD, 2, ["system:0", "0:0"]),
        (HEAD[1:], 1, ["tools:0", "0:0"]),
        ((*HEAD, CALLED, RESULT), 4, ["system:0", "2:0"]),
        ((*HEAD, CALLED, RESULT, PromptMessage("user", "Answer now.")), 4, ["system:0", "2:0"]),
        ((*HEAD, THINKING, RESULT), 3, ["system:0", "1:0"]),
    ],
)
def test_a_cache_is_asked_for_up_to_what_later_requests_begin_with(
    server: ModelServer, messages: tuple[PromptMessage, ...], stable: int, wanted: list[str]
) -> None:
    """At its last block that may ask; the texts are the same as without."""
    server.script(plain(MESSAGES.body("Read.")))
    for number in (stable, 0):
        model = MESSAGES.model(server.url)
        model.ask(ModelCall("turn", tuple(made_by(model, *messages)), tools=TOOLS, stable=number))
    cached, without = (one.body for one in server.requests)
    assert marks(cached) == wanted and marks(without) == []

    def texts(body: dict[str, Any]) -> list[Any]:
        contents = [body.get("system"), *(message["content"] for message in body["messages"])]
        return [
            [part.get("text", part.get("content")) for part in content]
            if isinstance(content, list)
            else [content]
            for content in contents
        ]

    assert texts(cached) == texts(without)


def test_a_cache_is_left_out_where_a_server_does_not_know_it(server: ModelServer) -> None:
    """As any feature of a request."""
    words = "messages.0.content.0.text.cache_control: Extra inputs are not permitted"
    server.script(plain(MESSAGES.error(words), status=400), plain(MESSAGES.body("Read.")))
    model = MESSAGES.model(server.url, retries=0)
    assert model.ask(ModelCall("turn", HEAD, tools=TOOLS, stable=2)).attempts == 2
    assert [len(marks(one.body)) for one in server.requests] == [2, 0] and "cache" in model.without


@pytest.mark.parametrize("wire", [CHAT, RESPONSES], ids=lambda wire: wire.name)
def test_openai_is_given_the_run_as_the_key_of_its_cache(wire: Wire) -> None:
    """Other servers are not: they may refuse what they do not know."""
    call = ModelCall("turn", HEAD, run_id="run-7", stable=2)
    own, foreign = (wire.model("http://127.0.0.1:9"), wire.model("https://api.openai.com"))
    bodies = [
        model._interface.body(call, model._options(call, CallProgress()))[0] for model in (own, foreign)
    ]
    assert [body.get("prompt_cache_key") for body in bodies] == [None, "run-7"]


# -- what can be kept ------------------------------------------------------------------------------------------------


def deep(levels: int) -> dict[str, Any]:
    """Return an object of so many levels."""
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    "part",
    [
        {"a": float("nan")},
        {"a": 2**70},
        {"a": "\ud800"},
        {"a": "x" * 4_000_001},
        deep(200),
        deep(5000),
        {"a": b"x"},
    ],
    ids=["nan", "large", "surrogate", "long", "deep", "very deep", "bytes"],
)
def test_parts_that_no_journal_holds_are_not_kept(part: dict[str, Any]) -> None:
    """Of a client's reply they are left out, a host's model is told."""
    assert kept_parts((part,), Scrubber()) == ()
    assert kept_parts(({"a": [2**63, None, 0.5, "ä"]},), Scrubber()) == ({"a": [2**63, None, 0.5, "ä"]},)
    with pytest.raises(TypeError, match="parts of its turn"):
        checked_reply(Reply("x", parts=(part,)))


PLAIN_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 99) | st.text("abc", max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("type", max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)


@st.composite
def parts_with_a_key(draw: st.DrawFn) -> tuple[dict[str, Any], ...]:
    """Return parts of a turn with `KEY` somewhere in them: as a value or a name, whole or divided among neighbours."""
    at = draw(st.integers(1, len(KEY)))
    pieces = [piece for piece in (KEY[:at], KEY[at:]) if piece]
    shape = draw(st.sampled_from(("type", "value", "name", "list", "nested", "parts")))
    if shape in ("type", "value"):
        name = "type" if shape == "type" else draw(st.sampled_from(("text", "note")))
        told: Any = [{name: piece} for piece in pieces]
    elif shape == "name":
        told = [{piece: draw(PLAIN_JSON) for piece in pieces}]
    elif shape == "list":
        told = [{"type": pieces}]
    elif shape == "nested":
        told = [{"type": {"deep": [{"type": KEY}]}}]
    else:
        told = [{"type": "text", "text": piece} for piece in pieces]
    around = draw(st.lists(st.dictionaries(st.just("n"), PLAIN_JSON, max_size=1), max_size=2))
    return (*around, *told)


@given(parts=parts_with_a_key())
def test_no_key_stands_in_kept_parts_wherever_it_came(parts: tuple[dict[str, Any], ...]) -> None:
    """In names, in types, in values; whole in one or divided among those of a kind: nobody can put it together again."""
    kept = kept_parts(parts, Scrubber([KEY]))
    names: list[str] = []
    types: list[str] = []
    values: list[str] = []

    def read(value: Any, name: str = "") -> None:
        if isinstance(value, str):
            (types if name == "type" else values).append(value)
        for inner in value if isinstance(value, list) else ():
            read(inner)
        for own, inner in value.items() if isinstance(value, dict) else ():
            names.append(own)
            read(inner, own)

    read(list(kept))
    assert KEY not in json.dumps(kept)
    assert not any(KEY in "".join(texts) for texts in (names, types, values))


def test_words_that_are_no_keys_come_back_as_they_were() -> None:
    """A part's own words, such as its type, are never taken for a secret."""
    parts = ({"type": "thinking", "signature": "abc="}, {"type": "tool_use", "input": {"type": "note"}})
    assert kept_parts(parts, Scrubber([KEY])) == parts


def test_no_key_stands_in_parts(server: ModelServer) -> None:
    """Neither in a text nor divided among several."""
    message = CHAT.body("It is.")
    message["choices"][0]["message"] |= {"reasoning_content": f"The key is {KEY}.", KEY: [{"a": KEY}]}
    server.script(plain(message))
    reply = CHAT.model(server.url).ask(ModelCall("turn", HEAD))
    assert reply.parts[0]["reasoning_content"] == "The key is [redacted]." and KEY not in str(reply.parts)
    blocks = [{"type": "text", "text": piece} for piece in (KEY[:8], KEY[8:])]
    server.script(plain(MESSAGES.body("") | {"content": blocks}))
    reply = MESSAGES.model(server.url).ask(ModelCall("turn", HEAD))
    assert (reply.text, reply.parts) == ("[redacted]", ())
