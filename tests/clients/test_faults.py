"""Whatever a server does ends in a journaled outcome with a code and the right trigger, never in an exception."""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from paor import AnthropicModel, Engine, ModelCall, OpenAIModel, replay
from paor.errors import ModelUnavailable
from paor.models import PromptMessage

from ..support.model_server import (
    KEY,
    WIRES,
    Behaviour,
    Connection,
    ModelServer,
    QuickPort,
    Received,
    Wire,
    dead,
    event,
    model_server,
    packed,
    plain,
    silent,
    streamed,
)
from ..support.worlds import ANSWER, READ, STOP, SUCCESS, TOOLS
from .inside import Invalid, read_plan

TEXT = '{"decision": "stop", "reason": "enough is known"}'
CHAT, RESPONSES, MESSAGES = WIRES
each_wire = pytest.mark.parametrize("wire", WIRES, ids=lambda wire: str(wire.name))


@pytest.fixture(scope="module")
def server() -> Any:
    """One server for all tests of this file."""
    with model_server() as running:
        yield running


def status(number: int, words: str = "no", **more: Any) -> Any:
    """Return what makes a behaviour with an error status."""
    headers = more.pop("headers", {})
    return lambda wire: plain(wire.error(words, **more), status=number, headers=headers)


def drip(wire: Wire) -> Behaviour:
    """A stream that never ends: a comment line every twentieth of a second."""

    def then(connection: Connection) -> None:
        pause = threading.Event()
        for _ in range(200):
            connection.chunk(b": still here\n\n")
            pause.wait(0.05)

    return streamed(wire.events(TEXT)[:3], then=then)


def bomb(wire: Wire) -> Behaviour:
    """A small packed body that unpacks to more than is taken."""
    return plain(gzip.compress(b" " * (33 * 2**20)), headers={"content-encoding": "gzip"})


def huge_error(connection: Connection, received: Received) -> None:
    """An error whose body never ends."""
    connection.head(500, {"content-type": "application/json", "transfer-encoding": "chunked"})
    while True:
        connection.chunk(b" " * 65536)


def short(wire: Wire) -> Behaviour:
    """A body that is shorter than it says."""
    return plain(json.dumps(wire.body(TEXT))[:40], headers={"content-length": "4000"})


FAULTS: dict[str, tuple[Any, str, bool]] = {
    "400": (status(400, "prompt too long: exceed_context_size_error"), "bad_request", False),
    "401": (status(401, type="authentication_error"), "unauthorized", False),
    "402": (status(402), "quota", False),
    "403": (status(403), "forbidden", False),
    "404": (status(404, "no such model"), "not_found", False),
    "408": (status(408), "timeout", True),
    "409": (status(409), "server_error", True),
    "413": (status(413), "bad_request", False),
    "422": (status(422), "bad_request", False),
    "429": (status(429), "rate_limited", True),
    "429 that is spent": (status(429, code="insufficient_quota"), "quota", False),
    "500": (status(500), "server_error", True),
    "502": (status(502), "server_error", True),
    "503": (status(503), "overloaded", True),
    "504": (status(504), "server_error", True),
    "529": (status(529), "overloaded", True),
    "500, do not retry": (status(500, headers={"x-should-retry": "false"}), "server_error", False),
    "400, do retry": (status(400, headers={"x-should-retry": "true"}), "bad_request", True),
    "302": (lambda wire: plain("", status=302, headers={"location": "http://127.0.0.1:9/"}), "unreachable", False),
    "error as text": (lambda wire: plain("<h1>Bad gateway</h1>", status=502, kind="text/html"), "server_error", True),
    "error of nothing": (lambda wire: plain(b"", status=500), "server_error", True),
    "error without end": (lambda wire: huge_error, "server_error", True),
    "error packed wrongly": (lambda wire: plain(b"xx", status=500, headers={"content-encoding": "gzip"}), "bad_body", True),
    "200 with an error": (lambda wire: plain(wire.error("busy", type="overloaded_error")), "overloaded", True),
    "closed at once": (lambda wire: dead, "unreachable", True),
    "silent": (lambda wire: silent, "timeout", True),
    "shorter than it says": (short, "cut_stream", True),
    "no JSON": (lambda wire: plain("<html>It works!</html>", kind="text/html"), "bad_body", True),
    "half JSON": (lambda wire: plain('{"id": "x", '), "bad_body", True),
    "JSON of another kind": (lambda wire: plain("[1, 2]"), "bad_body", True),
    "an empty object": (lambda wire: plain("{}"), "bad_body", True),
    "nothing": (lambda wire: plain(b""), "bad_body", True),
    "deep JSON": (lambda wire: plain("[" * 100_000), "bad_body", True),
    "not UTF-8": (lambda wire: plain(b'{"a": "\xff"}'), "bad_body", True),
    "packed wrongly": (lambda wire: plain(b"nonsense", headers={"content-encoding": "gzip"}), "bad_body", True),
    "packed unknown": (lambda wire: plain(b"nonsense", headers={"content-encoding": "zstd"}), "bad_body", True),
    "a bomb": (bomb, "bad_body", False),
}  # fmt: skip

STREAM_FAULTS: dict[str, tuple[Any, str, bool]] = {
    "cut between events": (lambda wire: streamed(wire.events(TEXT)[:4], end=False), "cut_stream", True),
    "cut within an event": (
        lambda wire: streamed([b"".join(wire.events(TEXT)[:5])[:-20]], end=False), "cut_stream", True
    ),
    "ends within an event": (lambda wire: streamed([b"".join(wire.events(TEXT)[:5])[:-20]]), "cut_stream", True),
    "ends too early": (lambda wire: streamed(wire.events(TEXT)[:5]), "cut_stream", True),
    "ends before it begins": (lambda wire: streamed([]), "cut_stream", True),
    "stalls": (lambda wire: streamed(wire.events(TEXT)[:4], then=lambda connection: connection.hold()), "timeout", True),
    "drips for ever": (drip, "timeout", True),
    "an event of no JSON": (
        lambda wire: streamed([*wire.events(TEXT)[:3], b"event: message_delta\ndata: {nonsense}\n\n", *wire.events(TEXT)[3:]]), "bad_body", True
    ),
    "an event of a list": (lambda wire: streamed([b"event: message_start\ndata: [1]\n\n", *wire.events(TEXT)]), "bad_body", True),
    "an error within": (
        lambda wire: streamed([*wire.events(TEXT)[:3], event(wire.error("full", type="overloaded_error"), "error")]),
        "overloaded", True,
    ),
    "a refusal within": (
        lambda wire: streamed([event(wire.error("no", type="invalid_request_error"), "error")]), "bad_request", False
    ),
    "a page instead": (lambda wire: plain("<html>It works!</html>", kind="text/html"), "bad_body", True),
    "more than is taken": (
        lambda wire: streamed([b"data: " + b"x" * 2**20] * 40, end=True), "bad_body", False
    ),
}  # fmt: skip


def unavailable(
    model: OpenAIModel | AnthropicModel, driver: str, pieces: list[str] | None = None
) -> ModelUnavailable:
    """Ask a model that cannot answer, and return what it says."""
    messages = (PromptMessage("system", "Be brief."), PromptMessage("user", "Go on?"))
    call = ModelCall("refinement", messages, on_text=pieces.append if pieces is not None else None)
    with pytest.raises(ModelUnavailable) as caught:
        asyncio.run(model.aask(call)) if driver == "async" else model.ask(call)
    assert caught.value.__cause__ is None and caught.value.__context__ is None
    return caught.value


def of_every_wire(names: Sequence[str], *of_all: str) -> pytest.MarkDecorator:
    """Return a case for each name and wire; by default those of one wire run, and those *of_all* wires."""
    cases = [
        pytest.param(
            name,
            wire,
            id=f"{name}-{wire.name}",
            marks=[] if wire is CHAT or name in of_all else pytest.mark.whole,
        )
        for name in names
        for wire in WIRES
    ]
    return pytest.mark.parametrize(("name", "wire"), cases)


@of_every_wire([*FAULTS], "401", "429", "200 with an error", "no JSON", "shorter than it says")
def test_faults_of_whole_responses(server: ModelServer, wire: Wire, name: str) -> None:
    """Each has its code; what may pass is tried again, once here, but for a server that is not ready."""
    make, code, passes = FAULTS[name]
    again = 7 if name == "503" else int(passes)
    server.script(make(wire))
    port = QuickPort()
    model = wire.model(server.url, port=port, retries=1, timeout_s=0.3 if name == "silent" else 20)
    for driver in ("sync", "async"):
        server.requests.clear()
        fault = unavailable(model, driver)
        assert (fault.code, len(server.requests)) == (code, 1 + again), fault.message
        assert fault.usage is not None and fault.usage.calls == 1 + again
        assert "\n" not in fault.message and len(fault.message) < 700
    assert port.waits == [0.5, 1, 2, 4, 8, 8, 8][:again] * 2


@of_every_wire([*STREAM_FAULTS], "ends too early", "an error within", "an event of no JSON")
def test_faults_of_streams(server: ModelServer, wire: Wire, name: str) -> None:
    """What was heard before is shown and thrown away; its usage is counted where the server told it."""
    make, code, again = STREAM_FAULTS[name]
    server.script(make(wire))
    model = wire.model(server.url, port=QuickPort(), retries=1, timeout_s=0.4 if code == "timeout" else 20)
    for driver in ("sync", "async"):
        server.requests.clear()
        pieces: list[str] = []
        fault = unavailable(model, driver, pieces)
        assert (fault.code, len(server.requests)) == (code, 1 + again), fault.message
        assert (wire.name, name) != ("messages", "ends too early") or fault.usage.tokens_in == 2400  # type: ignore[union-attr]
        assert TEXT not in "".join(pieces)


@each_wire
def test_a_stream_that_breaks_after_its_end_is_whole(server: ModelServer, wire: Wire) -> None:
    """Nothing is missing once the reason of the end has come."""
    events = wire.events(TEXT)[:-1] if wire is not RESPONSES else wire.events(TEXT)
    for behaviour in (streamed(events, end=False), streamed(wire.events(TEXT), then=lambda c: c.hold())):
        server.script(behaviour)
        model = wire.model(server.url, port=QuickPort(), retries=0, timeout_s=5, stream=True)
        call = ModelCall("refinement", (PromptMessage("user", "Go on?"),))
        assert model.ask(call).text == TEXT and asyncio.run(model.aask(call)).text == TEXT


ODD_STREAMS: dict[str, Any] = {
    "lines end in CR LF": lambda events: [item.replace(b"\n", b"\r\n") for item in events],
    "lines end in CR": lambda events: [item.replace(b"\n", b"\r") for item in events],
    "byte by byte": lambda events: [bytes([byte]) for byte in b"".join(events)],
    "all at once": lambda events: [b"".join(events)],
    "a byte order mark": lambda events: [b"\xef\xbb\xbf", *events],
    "comments and odd fields": lambda events: [
        *(b": comment\nid: 7\nretry: 10\nnonsense\nfoo: bar\n" + item for item in events)
    ],
    "empty lines and pings": lambda events: [b"\n\n\nevent: ping\ndata: {}\n\n", *events],
    "no space after the colon": lambda events: [item.replace(b"data: ", b"data:") for item in events],
    "no empty line at the end": lambda events: [*events[:-1], events[-1].rstrip(b"\n")],
}


@of_every_wire([*ODD_STREAMS])
def test_odd_streams_that_are_well_formed(server: ModelServer, wire: Wire, name: str) -> None:
    """They are read as they mean; with whatever content type."""
    text = '{"decision": "stop", "reason": "\N{SNOWMAN} genug \N{GRINNING FACE}"}'
    kind = "application/json" if name == "all at once" else "text/event-stream; charset=utf-8"
    server.script(streamed(ODD_STREAMS[name](wire.events(text)), kind=kind))
    call = ModelCall("refinement", (PromptMessage("user", "Go on?"),))
    model = wire.model(server.url, stream=True, retries=0)
    assert model.ask(call).text == text and asyncio.run(model.aask(call)).text == text


@each_wire
def test_wrong_content_types_and_packed_bodies(server: ModelServer, wire: Wire) -> None:
    """What the body is counts; a whole body in place of a stream is taken, too."""
    body = json.dumps(wire.body(TEXT)).encode()
    call = ModelCall("refinement", (PromptMessage("user", "Go on?"),))
    whole: Sequence[Behaviour] = (
        plain(body, kind="text/html"),
        plain(b"\xef\xbb\xbf" + body, kind="application/octet-stream"),
        packed(body),
        packed(body, packing="deflate"),
    )
    for stream in (False, True):
        model = wire.model(server.url, stream=stream, retries=0)
        for behaviour in whole:
            server.script(behaviour)
            assert model.ask(call).text == TEXT and asyncio.run(model.aask(call)).text == TEXT
    server.script(packed(b"".join(wire.events(TEXT)), kind="text/event-stream"))
    assert wire.model(server.url, stream=True).ask(call).text == TEXT


RETRY_AFTER = {
    "seconds": ({"retry-after": "7"}, 7.0),
    "a fraction": ({"retry-after": "0.25"}, 0.25),
    "milliseconds": ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
    "a date": ({"retry-after": "Wed, 18 Nov 2026 11:00:10 GMT"}, 10.0),
    "a date that is past": ({"retry-after": "Tue, 18 Nov 2025 11:06:50 GMT"}, 0.0),
    "garbage": ({"retry-after": "soon"}, 0.5),
    "negative": ({"retry-after": "-5"}, 0.5),
    "nan": ({"retry-after": "nan"}, 0.5),
    "empty": ({"retry-after": ""}, 0.5),
    "huge": ({"retry-after": "86400"}, None),
    "beyond all numbers": ({"retry-after": "9" * 350}, None),
    "a date far away": ({"retry-after": "Tue, 18 Nov 2036 11:06:50 GMT"}, None),
}


@pytest.mark.parametrize("name", RETRY_AFTER)
def test_retry_after(server: ModelServer, name: str) -> None:
    """Honoured up to a limit; a server that asks for more ends the call, what cannot be read is passed over."""
    headers, wait = RETRY_AFTER[name]
    port = QuickPort()
    port.wall = lambda: 1_794_999_600.0  # type: ignore[method-assign]
    for wire in (CHAT, MESSAGES):
        port.waits.clear()
        server.script(plain(wire.error("slow"), status=429, headers=headers))
        fault = unavailable(wire.model(server.url, port=port, retries=1), "sync")
        assert (fault.code, port.waits) == ("rate_limited", [] if wait is None else [wait]), port.waits
        assert ("at most 60 s are waited" in fault.message) is (wait is None)


def test_waits_double_up_to_eight_seconds(server: ModelServer) -> None:
    """And the number of attempts is bounded."""
    port = QuickPort()
    server.script(status(500)(CHAT))
    fault = unavailable(CHAT.model(server.url, port=port, retries=6), "async")
    assert port.waits == [0.5, 1, 2, 4, 8, 8] and "attempt 7, the last one" in fault.message


def test_a_server_that_is_not_there() -> None:
    """Its port is closed, or its name is none: said alike by both drivers, without what libraries make of it."""
    for wire in WIRES:
        model = wire.model("http://127.0.0.1:9", port=QuickPort(), retries=1)
        for driver in ("sync", "async"):
            fault = unavailable(model, driver)
            assert fault.code == "unreachable"
            assert "no connection to 127.0.0.1:9: Connection refused (attempt 8, the last one); check" in (
                fault.message
            )
    for driver in ("sync", "async"):
        fault = unavailable(CHAT.model("http://paor.invalid", retries=0), driver)
        assert "no connection to paor.invalid:http: " in fault.message and "not known" in fault.message


def test_an_address_that_lacks_its_last_part_is_hinted_at(server: ModelServer) -> None:
    """The most frequent mistake with a server of one's own."""
    server.script(plain({"detail": "Not Found"}, status=404))
    fault = unavailable(OpenAIModel("m", base_url=server.url), "sync")
    assert fault.message.endswith(
        "HTTP 404: Not Found; let base_url end in /v1, below which most compatible servers listen"
    )
    right = unavailable(OpenAIModel("m", base_url=f"{server.url}/v1"), "sync")
    assert right.message.endswith("HTTP 404: Not Found; check the model's name and base_url")


# -- what is no answer, whatever is in it ----------------------------------------------------------------------

CALL = {"id": "call_1", "type": "function", "function": {"name": "notes.read", "arguments": '{"page": 1}'}}
ITEM = {"type": "function_call", "call_id": "call_1", "name": "notes.read", "arguments": '{"page": 1}'}
BLOCK = {"type": "tool_use", "id": "call_1", "name": "notes.read", "input": {"page": 1}}
REPLY = {"type": "tool_use", "id": "call_1", "name": "reply", "input": {"decision": "stop", "reason": "x"}}
REFUSED = {"type": "refusal", "refusal": "No."}


def _chat(**message: Any) -> dict[str, Any]:
    end = message.pop("end")
    return CHAT.body("") | {"choices": [{"index": 0, "message": message, "finish_reason": end}]}


def _responses(*output: Any, reason: str = "") -> dict[str, Any]:
    more = {"status": "incomplete", "incomplete_details": {"reason": reason}} if reason else {}
    return RESPONSES.body("") | {"output": list(output)} | more


NO_ANSWERS: dict[str, tuple[Wire, dict[str, Any], str]] = {
    "chat: calls that were cut off": (CHAT, _chat(end="length", content=None, tool_calls=[CALL]), "length"),
    "chat: calls that were filtered": (CHAT, _chat(end="content_filter", content=None, tool_calls=[CALL]), "content_filter"),
    "chat: a refusal beside calls": (CHAT, _chat(end="tool_calls", content=None, refusal="No.", tool_calls=[CALL]), "refusal"),
    "chat: a refusal after a text": (CHAT, _chat(end="stop", content=TEXT, refusal="No."), "refusal"),
    "responses: calls that were cut off": (RESPONSES, _responses(ITEM, reason="max_output_tokens"), "length"),
    "responses: calls that were filtered": (RESPONSES, _responses(ITEM, reason="content_filter"), "content_filter"),
    "responses: a refusal beside calls": (
        RESPONSES, _responses({"type": "message", "content": [REFUSED]}, ITEM), "refusal"
    ),
    "responses: a refusal after a text": (
        RESPONSES, _responses({"type": "message", "content": [{"type": "output_text", "text": TEXT}, REFUSED]}), "refusal"
    ),
    "messages: calls that were cut off": (MESSAGES, MESSAGES.body("") | {"content": [BLOCK], "stop_reason": "max_tokens"}, "length"),
    "messages: a refusal beside calls": (MESSAGES, MESSAGES.body("") | {"content": [BLOCK], "stop_reason": "refusal"}, "refusal"),
    "messages: a refusal beside the reply": (MESSAGES, MESSAGES.body("") | {"content": [REPLY], "stop_reason": "refusal"}, "refusal"),
    "messages: a reply that was cut off": (MESSAGES, MESSAGES.body("") | {"content": [REPLY], "stop_reason": "max_tokens"}, "length"),
}  # fmt: skip


@pytest.mark.parametrize("name", NO_ANSWERS)
def test_a_cut_or_refused_reply_says_so_whatever_stands_in_it(server: ModelServer, name: str) -> None:
    """Calls and texts that a provider has broken off are no calls and texts of the model."""
    wire, body, finish = NO_ANSWERS[name]
    server.script(plain(body))
    reply = wire.model(server.url).ask(ModelCall("plan", (PromptMessage("user", "Go on?"),)))
    assert reply.finish == finish
    if finish != "length":
        assert read_plan(reply.text, chars_max=10_000, finish=reply.finish) == Invalid(
            finish, "the model declined to answer"
        )
    elif name != "messages: a reply that was cut off":
        assert isinstance(read_plan(reply.text, chars_max=10_000, finish=reply.finish), Invalid)


@pytest.mark.parametrize("finish", ["refusal", "content_filter"])
def test_a_refusal_that_looks_like_an_answer_is_asked_again(tmp_path: Path, finish: str) -> None:
    """In every phase: a complete object is no answer when the provider says that the model was stopped."""
    with model_server() as server:
        good = [json.dumps(reply) for reply in (*READ(1), STOP, SUCCESS)]
        bodies = [CHAT.body(text, end) for text in good for end in (finish, "stop")]
        if finish == "refusal":  # words in the content, and a refusal beside them
            bodies = [_chat(end="stop", content=text, refusal=no) for text in good for no in ("No.", None)]
        server.script(*map(plain, bodies))
        engine = Engine(CHAT.model(server.url), tools=TOOLS, journal=tmp_path / "runs.db")
        result = engine.run("Read it")
        rows = [row for row in engine.journal.transitions(result.run_id) if "invalid" in row.outcome]
        assert result.state == "Done" and [row.outcome["invalid"] for row in rows] == [finish] * 4
        assert [row.trigger for row in rows] == ["reselect", "respecify", "reassess", "reassess"]
        assert replay(engine.journal, result.run_id).identical


# -- in a run ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["401", "429", "500", "closed at once", "no JSON", "302"])
@pytest.mark.parametrize("driver", ["sync", "async"])
def test_a_run_whose_model_cannot_answer_is_failed(tmp_path: Path, name: str, driver: str) -> None:
    """Failed(model_error) by the trigger fail, the code and the words in its last row; replay needs no server."""
    make, code, again = FAULTS[name]
    wire = WIRES[len(name) % 3]
    with model_server() as server:
        answer = [plain(wire.body(json.dumps(reply))) for reply in READ(1)]
        server.script(*answer, make(wire))
        model = wire.model(server.url, port=QuickPort(), retries=2, timeout_s=20)
        engine = Engine(model, tools=TOOLS, journal=tmp_path / "runs.db")
        result = engine.run("Read it") if driver == "sync" else asyncio.run(engine.arun("Read it"))
    assert (result.state, result.reason) == ("Failed", "model_error")
    last = engine.journal.transitions(result.run_id)[-1]
    assert (last.trigger, last.dest, last.outcome["kind"], last.outcome["code"]) == (
        "fail",
        "Failed",
        "fault",
        code,
    )
    assert last.outcome["calls"] == (3 if again else 1) and result.usage.calls == 2 + last.outcome["calls"]
    assert replay(engine.journal, result.run_id).identical and engine.journal.verify() == []


@pytest.mark.parametrize(
    "end, text, code, trigger",
    [
        ("length", '{"action": "notes.re', "length", "reselect"),
        ("length", "", "length", "reselect"),
        ("refusal", "I cannot help with that.", "refusal", "reselect"),
        ("content_filter", "", "content_filter", "reselect"),
        ("stop", "", "empty", "reselect"),
        ("stop", "Well, let me think.", "no_json", "reselect"),
        ("stop", '{"action": "notes.read", }', "malformed", "reselect"),
    ],
)
def test_a_reply_that_cannot_be_used_is_asked_again(
    tmp_path: Path, end: str, text: str, code: str, trigger: str
) -> None:
    """Cut off, refused, filtered, empty, no JSON: the row says which; a second one ends the run."""
    with model_server() as server:
        bad, good = (
            plain(CHAT.body(text, end)),
            [plain(CHAT.body(json.dumps(item))) for item in (ANSWER(), SUCCESS)],
        )
        server.script(bad, *good)
        engine = Engine(CHAT.model(server.url), tools=TOOLS, journal=tmp_path / "runs.db")
        result = engine.run("Read it")
        first = engine.journal.transitions(result.run_id)[0]
        assert (result.state, first.trigger, first.outcome["invalid"]) == ("Done", trigger, code)
        server.script(bad)
        failed = engine.run("Read it")
        assert (failed.state, failed.reason) == ("Failed", "selection_invalid")
        assert replay(engine.journal, failed.run_id).identical


@pytest.mark.parametrize("end", ["length", "refusal", "content_filter", "fault"])
def test_a_text_that_a_tool_did_not_get_is_a_failed_action(tmp_path: Path, end: str) -> None:
    """`ai.process` fails with the reason, what the attempts used is counted, and the run goes on."""
    select = {"action": "ai.process", "actionObjective": "write", "parametersContext": "it"}
    with model_server() as server:
        items = [select, {"parameters": {"aiPrompt": "write"}}]
        good = [plain(CHAT.body(json.dumps(item))) for item in (*items, STOP, SUCCESS)]
        bad = plain(CHAT.body("A text that", end))
        if end == "fault":
            bad = plain(CHAT.body("") | {"choices": []})
        server.script(*good[:2], bad, *good[2:])
        engine = Engine(CHAT.model(server.url, retries=0), journal=tmp_path / "runs.db", builtins=True)
        result = engine.run("Write")
        (row,) = [row for row in engine.journal.transitions(result.run_id) if row.trigger == "execute"]
        assert (row.outcome["ok"], row.outcome["error"], row.outcome["tokens_in"]) == (
            False,
            "tool_error",
            1200,
        )
        words = {"length": "cut off", "fault": "has no choices"}.get(end, "declined")
        assert words in engine.journal.payload(row.run, row.change["n"]).body  # type: ignore[operator]
        assert replay(engine.journal, result.run_id).identical and engine.journal.verify() == []


def test_an_illegal_key_is_a_fault_that_does_not_show_it() -> None:
    """The HTTP library names the header that it refuses."""
    model = CHAT.model("http://127.0.0.1:9", headers={"x-more": f"{KEY}\u20ac"}, retries=0)
    fault = unavailable(model, "sync")
    assert fault.code in ("unexpected", "unreachable") and KEY not in fault.message
