"""
Whatever ends a run at a server: one sentence names server, request and what to change, and no call is lost or made twice.

Each situation comes before a call that must be made once, behind it, and while its result is told; the calls are counted outside.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from paor import Engine, Result, Tool, replay, tool

from ..support.model_server import (
    WIRES,
    Behaviour,
    ModelServer,
    QuickPort,
    Wire,
    dead,
    model_server,
    plain,
    silent,
    streamed,
)
from .inside import BY_CODE, FAULT_CODES, AttemptFault, next_step, status_fault
from .test_native_wire import offer, turn

each_wire = pytest.mark.parametrize(
    "wire",
    [
        pytest.param(wire, id=wire.name, marks=() if wire.name == "chat" else pytest.mark.whole)
        for wire in WIRES
    ],
)
"""By default the one wire."""
Make = Callable[[Wire], Behaviour]


def status(number: int, words: str, **more: Any) -> Make:
    """Return what makes an error of a server."""
    return lambda wire: plain(wire.error(words, **more), status=number)


SITUATIONS: dict[str, tuple[Make, str]] = {
    "key refused": (status(401, "Incorrect API key", code="invalid_api_key"), r"api_key or \w+_API_KEY"),
    "not allowed": (status(403, "No access"), "another model"),
    "no credit": (status(402, "Pay first"), "credit"),
    "quota used up": (status(429, "You have no quota left", code="insufficient_quota"), "credit"),
    "credit, as 400": (status(400, "Your credit balance is too low"), "credit"),
    "rate limit": (status(429, "Slower"), "raise retries or wait_max_s"),
    "unknown model": (status(404, "The model does not exist", code="model_not_found"), "the model's name"),
    "wrong address": (lambda wire: plain({"detail": "Not Found"}, status=404), "base_url"),
    "redirected": (lambda wire: plain("", status=308, headers={"location": "/v2"}), "base_url"),
    "context full": (status(400, "This model's maximum context length is 8 tokens"), r"Limits\.context_tokens"),
    "too large": (status(413, "Payload too large"), r"Limits\.context_tokens"),
    "schema refused": (status(400, "Invalid schema for the reply"), 'structured="none"'),
    "no tools": (status(400, "this model takes no tools"), "another profile"),
    "parameter refused": (status(400, "top_k: unknown"), "leave out"),
    "server error": (status(500, "Oops"), "log"),
    "overloaded": (status(529, "Busy"), "later"),
    "a page": (lambda wire: plain("<html><h1>It works!</h1></html>", kind="text/html"), "that of the API"),
    "a page of a proxy": (lambda wire: plain("<h1>Bad gateway</h1>", status=502, kind="text/html"), "log"),
    "nothing": (lambda wire: plain(b""), "that of the API"),
    "request timeout": (status(408, "Too late"), "timeout_s"),
    "broken connection": (lambda wire: dead, "base_url"),
    "cut stream": (lambda wire: streamed(wire.events("It is sent.")[:2], end=False), "log"),
    "empty reply": (lambda wire: plain(wire.body("")), "another model or profile"),
    "refusal": (lambda wire: plain(wire.body("No.", "refusal")), "say the objective otherwise"),
    "filtered": (lambda wire: plain(wire.body("", "content_filter")), "say the objective otherwise"),
    "cut reply": (lambda wire: plain(wire.body("", "length")), r"Limits\.max_reply_tokens"),
}  # fmt: skip
"""What servers do, and what the last sentence of a run asks for."""
PASSING = {"rate limit", "server error", "overloaded", "a page", "a page of a proxy", "nothing", "request timeout", "broken connection"} | {
    "cut stream", "empty reply", "refusal", "filtered", "cut reply",
}  # fmt: skip
"""What is asked again, so that a run goes on if it was the only one."""
each_situation = pytest.mark.parametrize("name", SITUATIONS)


class World:
    """The world outside: it counts, and refuses nothing."""

    def __init__(self) -> None:
        self.sent: list[str] = []

    def tools(self) -> list[Tool]:
        """Return its one tool, which must be called once."""

        @tool("letters.send", effect="once")
        def send(to: str) -> str:
            """Send a letter."""
            self.sent.append(to)
            return f"sent to {to}"

        return [send]


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    """Return a server for the whole module."""
    with model_server() as running:
        yield running


def engine(server: str, wire: Wire, world: World, folder: Path, **options: Any) -> Engine:
    """Return an engine whose model is there; it waits for nothing."""
    model = wire.model(server, port=QuickPort(), **{"retries": 1, "timeout_s": 20, **options})
    return Engine(model, world.tools(), folder / "runs.db", builtins=False, profile="native")


def calls(wire: Wire) -> Behaviour:
    """Return the turn that calls the tool."""
    return turn(wire, [("letters_send", '{"to": "Ada"}')], stream=False)


def done(wire: Wire) -> Behaviour:
    """Return the turn that answers."""
    return plain(wire.body("It is sent."))


def last_words(result: Result[Any]) -> str:
    """Return the sentence with which a failed run ends."""
    assert result.state == "Failed" and result.answer is not None
    words = result.answer.split("\n\n")[-1]
    assert words.startswith("The model: ") and "\n" not in words
    return words


def names(words: str, wire: Wire, server: str) -> bool:
    """Whether a sentence says where a request went and which it was: its kind, or the phase and row that asked."""
    by_server = server in words and "a request (turn) to" in words
    by_model = wire.model(server).name in words and re.search(r"in Planning \(row \d+\)", words) is not None
    return by_server or by_model


@each_wire
@each_situation
def test_a_run_that_cannot_go_on_names_server_request_and_what_to_change(
    server: ModelServer, wire: Wire, name: str, tmp_path: Path
) -> None:
    """In its last sentence; no call was made."""
    make, step = SITUATIONS[name]
    server.script(make(wire))
    world = World()
    with engine(server.url, wire, world, tmp_path) as paor:
        words = last_words(paor.run("Write to Ada"))
    assert names(words, wire, server.url)
    assert re.search(step, words.rpartition("; ")[2] if "log" not in step else words), words
    assert world.sent == []


@each_wire
@each_situation
def test_a_call_is_neither_lost_nor_made_twice_whatever_a_server_does_behind_it(
    server: ModelServer, wire: Wire, name: str, tmp_path: Path
) -> None:
    """The run ends and keeps the call; a fork of its last decision goes on with its result, and makes it no more."""
    make, _ = SITUATIONS[name]
    world = World()
    server.script(calls(wire), make(wire))
    with engine(server.url, wire, world, tmp_path) as paor:
        result = paor.run("Write to Ada")
        assert names(last_words(result), wire, server.url) and world.sent == ["Ada"]
        rows = paor.journal.transitions(result.run_id)
        made = next(row.seq for row in rows if row.outcome["kind"] == "result")
        server.script(done(wire))
        forked = paor.fork(result.run_id, made)
        assert (forked.state, forked.answer, world.sent) == ("Done", "It is sent.", ["Ada"])
        assert "sent to Ada" in str(server.requests[0].body), "the model is told the result"
        for run_id in (result.run_id, forked.run_id):
            assert replay(paor.journal, run_id, paor).identical
        assert paor.journal.verify() == []


@each_wire
@pytest.mark.parametrize("name", sorted(PASSING))
def test_what_passes_delays_a_call_and_makes_it_once(
    server: ModelServer, wire: Wire, name: str, tmp_path: Path
) -> None:
    """The same before the call and behind it: the run ends as if nothing had been."""
    make, _ = SITUATIONS[name]
    world = World()
    server.script(make(wire), calls(wire), make(wire), done(wire))
    with engine(server.url, wire, world, tmp_path) as paor:
        result = paor.run("Write to Ada")
        assert (result.state, result.answer, world.sent) == ("Done", "It is sent.", ["Ada"])
        assert replay(paor.journal, result.run_id, paor).identical
    assert len(server.requests) == 4


@each_wire
@pytest.mark.parametrize(
    ("url", "timeout_s", "step"),
    [
        ("http://127.0.0.1:9", 20, "check that the server runs, and base_url, network and proxy"),
        ("https", 20, "let base_url begin with http or https as the server speaks, or trust its certificate"),
        ("http", 0.3, "raise timeout_s, lower max_tokens, or use a faster model"),
    ],
    ids=["not there", "no TLS", "silent"],
)
def test_a_server_without_an_answer_is_named(
    server: ModelServer, wire: Wire, tmp_path: Path, url: str, timeout_s: float, step: str
) -> None:
    """Nobody listens at its address, it speaks http where https is meant, or it says nothing."""
    server.script(silent)
    url = url if ":" in url else server.url.replace("http", url)
    with engine(url, wire, World(), tmp_path, retries=0, timeout_s=timeout_s) as paor:
        words = last_words(paor.run("Write to Ada"))
    assert names(words, wire, url) and words.rpartition("; ")[2].startswith(step)


def test_every_code_has_a_next_step() -> None:
    """None is left without a word of what to change."""
    assert set(BY_CODE) == set(FAULT_CODES)


def test_an_extra_member_and_a_missing_path_are_named_first() -> None:
    """They are the host's own."""
    said = status_fault(400, {"error": {"message": "top_k: no"}}, {}, 0)
    given: dict[str, Any] = {"call": offer(), "key": "KEY", "lacks_v1": True}
    assert next_step(said, extra={"top_k": 1}, **given) == "extra sends top_k: leave that out"
    assert "/v1" in next_step(AttemptFault("not_found", "no", status=404), extra={}, **given)
