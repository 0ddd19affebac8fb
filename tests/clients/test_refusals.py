"""What a server refuses is left out, made smaller or said otherwise once, whatever words and JSON its refusal stands in."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import anthropic
import httpx2
import openai
import pytest
from msgspec.structs import replace

from paor import AnthropicModel, ModelCall, OpenAIModel
from paor.errors import ModelUnavailable
from paor.models import Notice, OfferedTool, PromptMessage, ToolCall

from ..support.model_server import QuickPort, Wire
from .inside import AttemptFault, refused, status_fault
from .refusal_catalog import CATALOG

HEAD = (PromptMessage("system", "Be brief."), PromptMessage("user", "Which route?"))
SCHEMA: dict[str, Any] = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
UNION = {
    "type": "object",
    "properties": {"route": {"type": "string"}, "file": {"type": "string"}},
    "anyOf": [{"required": ["route"]}, {"required": ["file"]}],
}
FILTER = {"type": "object", "properties": {"$filter": {"type": "string"}}, "required": ["$filter"]}
GOOD = OfferedTool("clock_now", "Tell the time.", {"type": "object", "properties": {}})
CALLED = (
    PromptMessage("assistant", "", (ToolCall("c1", "clock_now", {}),)),
    PromptMessage("tool", "12:00", call_id="c1"),
)
MAX_TOKENS = 4_000

Body = dict[str, Any]


def limit_of(body: Body) -> int:
    """Return the limit of a reply."""
    return int(
        next(
            body[name]
            for name in ("max_tokens", "max_completion_tokens", "max_output_tokens")
            if name in body
        )
    )


def roles(body: Body) -> list[Any]:
    """Return who speaks in a request, the system text of every interface included."""
    messages: list[dict[str, Any]] = body.get("messages") or body["input"]
    return [message.get("role") for message in messages] + ["system"] * (
        "system" in body or "instructions" in body
    )


def schemas(body: Body) -> dict[str, Any]:
    """Return the schemas of the tools by their names."""
    tools = [tool.get("function", tool) for tool in body.get("tools", ())]
    return {tool["name"]: tool.get("parameters", tool.get("input_schema")) for tool in tools}


OFFENDS: dict[str, Callable[[Body], object]] = {
    "temperature": lambda body: "temperature" in body,
    "effort": lambda body: "effort" in json.dumps(body),
    "stream_options": lambda body: "stream_options" in body,
    "store": lambda body: "store" in body,
    "include": lambda body: "include" in body,
    "system": lambda body: "system" in roles(body),
    "schema": lambda body: (
        "schema" in json.dumps([body.get(name) for name in ("response_format", "text", "output_config")])
    ),
    "forced": lambda body: "tool_choice" in body,
    "tool_choice": lambda body: "tool_choice" in body,
    "max_tokens": lambda body: "max_tokens" in body,
    "plain": lambda body: "anyOf" in schemas(body).get("api_impact", {}),
    "offer": lambda body: "api_impact" in schemas(body),
}


class Picky:
    """A server, without a network, that refuses what offends it, and answers everything else."""

    def __init__(self, wire: Wire, offends: Callable[[Body], object], status: int, error: Any) -> None:
        self.seen: list[Body] = []
        self.wire = wire

        def answer(request: httpx2.Request) -> httpx2.Response:
            body = json.loads(request.content)
            self.seen.append(body)
            if not offends(body):
                events = wire.events('{"ok": true}')
                if body.get("stream"):
                    return httpx2.Response(
                        200, headers={"content-type": "text/event-stream"}, content=b"".join(events)
                    )
                return httpx2.Response(200, json=wire.body('{"ok": true}'))
            if isinstance(error, str):
                return httpx2.Response(status, text=error)
            return httpx2.Response(status, json=error)

        self.transport = httpx2.MockTransport(answer)

    def model(self, **options: Any) -> OpenAIModel | AnthropicModel:
        """Return a model there that sends all that a server may refuse."""
        given: dict[str, Any] = {
            "api_key": "secret-value",
            "http_client": httpx2.Client(transport=self.transport),
        }
        options = {
            "retries": 0, "port": QuickPort(), "stream": True, "max_tokens": MAX_TOKENS, "temperature": 0.0, "effort": "low",
            "prices": {"openai:m": {"in": "0", "out": "0"}, "anthropic:m": {"in": "0", "out": "0"}}, **options,
        }  # fmt: skip
        if self.wire.name == "messages":
            return AnthropicModel(
                "m", client=anthropic.Anthropic(base_url="http://model", **given), **options
            )
        return OpenAIModel(
            "m", client=openai.OpenAI(base_url="http://model/v1", **given), api=self.wire.name, **options
        )


def request_of(meaning: str, notices: list[Notice]) -> ModelCall:
    """Return a request that has in it what is refused."""
    call = ModelCall("review", HEAD, schema=SCHEMA, on_notice=notices.append)
    if meaning in ("plain", "offer"):
        bad = OfferedTool("api_impact", "Tell the impact.", UNION if meaning == "plain" else FILTER)
        return replace(call, kind="turn", schema=None, tools=(GOOD, bad))
    if meaning == "tool_choice":
        return replace(
            call, kind="turn", schema=None, messages=(*HEAD, *CALLED), tools=(GOOD,), may_call=False
        )
    return call


@pytest.mark.parametrize("name", CATALOG)
def test_a_refusal_is_answered_once_by_what_it_is_about(name: str) -> None:
    """One more attempt, which the server answers; said as an event; not asked for again, and nothing else is given up."""
    meaning, api, status, error = CATALOG[name]
    count = 0

    def first(body: Body) -> bool:
        nonlocal count
        count += 1
        return count == 1

    limit = int(meaning.replace(",", "")) if meaning[0].isdigit() else None
    offends = (lambda body: limit_of(body) > limit) if limit else OFFENDS.get(meaning, first)
    server = Picky(Wire(api), offends, status, error)
    model = server.model(**({"structured": "tool"} if meaning == "forced" else {}))
    notices: list[Notice] = []
    call = request_of(meaning, notices)
    reply = model.ask(call)
    assert (reply.text, reply.attempts) == ('{"ok": true}', 2)
    assert [notice.kind for notice in notices] == ["fallback"]
    refused_body, taken = server.seen
    gone = {key for key in refused_body if refused_body[key] != taken.get(key)}
    assert len(gone) <= (2 if meaning in ("tool_choice", "forced", "system") else 1), (
        "nothing else is left out"
    )
    if limit is not None:
        assert limit_of(taken) == limit
    assert model.ask(call).attempts == (
        1 if meaning != "again" and not is_of_one_prompt(name) else 1 + (meaning != "again")
    )


def is_of_one_prompt(name: str) -> bool:
    """Whether what a server says depends on this prompt or its limit: it is not remembered."""
    return name in ("OpenAI, context", "vLLM, rest", "Anthropic, context", "TGI, sum", "LiteLLM, budget")


def test_the_catalog_is_large_and_of_every_form() -> None:
    """Objects, lists, texts; over all interfaces."""
    assert len(CATALOG) >= 60
    assert {type(error) for *_, error in CATALOG.values()} == {dict, list, str}
    assert {api for _, api, *_ in CATALOG.values()} == {"chat", "responses", "messages"}
    assert all(status_fault(status, error, {}, 0).message for _, _, status, error in CATALOG.values())


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, {"error": {"message": "Your input was flagged by the policy."}}),
        (400, [{"error": {"message": "API key not valid."}}]),
        (401, {"error": {"message": "temperature: unknown key"}}),
        (404, {"error": {"message": "The model `m` does not exist"}}),
        (413, {"error": {"message": "The request is larger than 4000 kB"}}),
        (429, {"error": {"message": "Too many tokens: max_tokens 3000 of 10000 a minute"}}),
        (500, {"error": {"message": "temperature sensor failed"}}),
        (400, "<html><h1>Bad request</h1></html>"),
        (400, ""),
    ],
    ids=str,
)
def test_what_is_about_something_else_is_not_asked_again(status: int, error: Any) -> None:
    """The run ends with the server's words."""
    server = Picky(Wire("chat"), lambda body: True, status, error)
    with pytest.raises(ModelUnavailable) as caught:
        server.model().ask(request_of("temperature", []))
    assert len(server.seen) == 1 and caught.value.message


def test_nothing_is_remembered_of_a_server_that_does_not_answer_all_the_same() -> None:
    """Its words were about something else; the next request is whole again."""
    server = Picky(Wire("chat"), lambda body: True, 400, {"error": {"message": "temperature and all"}})
    model = server.model()
    for _ in range(2):
        with pytest.raises(ModelUnavailable):
            model.ask(request_of("temperature", []))
    assert (
        model.without == frozenset() and ["temperature" in body for body in server.seen] == [True, False] * 2
    )


def test_a_tool_that_is_refused_in_every_form_is_left_out_and_the_others_are_offered() -> None:
    """By its number or its name; said as an event that names it."""
    error = {"error": {"message": "tools[1].function.parameters: no"}}
    server = Picky(Wire("chat"), OFFENDS["offer"], 400, error)
    notices: list[Notice] = []
    model = server.model()
    assert model.ask(request_of("plain", notices)).attempts == 3
    assert list(schemas(server.seen[-1])) == ["clock_now"]
    assert [notice.code for notice in notices] == ["schemas", "offer"] and "api_impact" in notices[-1].text
    model.ask(request_of("plain", []))
    assert list(schemas(server.seen[-1])) == ["clock_now"] and len(server.seen) == 4


def test_no_limit_that_is_too_small_for_an_answer_is_asked_for() -> None:
    """A prompt that fills the context leaves nothing to ask for."""
    fault = AttemptFault("bad_request", "max_tokens: 190 + 100 > 200 of the context", status=400)
    assert refused(fault, {"smaller"}, max_tokens=100) is None
