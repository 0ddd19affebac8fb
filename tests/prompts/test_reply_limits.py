"""How long a reply may be: a limit for each kind of request, told to the server, held by the client, absent from old specs."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paor import Engine, Limits, ModelCall, OpenAIModel, ReplyTokens, replay
from paor.fsm.versioning.fingerprints import given_fingerprints
from paor.models import PromptMessage

from ..support.cases import Spec, reply_limit
from ..support.model_server import (
    KEY,
    WIRES,
    Behaviour,
    Connection,
    Received,
    Wire,
    event,
    model_server,
    plain,
    streamed,
)
from ..support.worlds import PARAMETERS, READ, STOP, SUCCESS, TOOLS

CHAT = WIRES[0]
NAMES = {"chat": "max_tokens", "responses": "max_output_tokens", "messages": "max_tokens"}
WRITING = [
    {"action": "ai.process", "actionObjective": "write", "parametersContext": "it"},
    PARAMETERS(aiPrompt="write"),
]
OWN = ReplyTokens(selection=11, parameters=12, refinement=13, review=14, plan=15, task_plan=16, text=17)
each_wire = pytest.mark.parametrize(
    "wire",
    [
        pytest.param(wire, marks=() if wire is CHAT else pytest.mark.whole, id=str(wire.name))
        for wire in WIRES
    ],
)
each_driver = pytest.mark.parametrize("driver", ["sync", "async"])


def go(engine: Engine, driver: str, **options: Any) -> Any:
    """Run on either driver."""
    return (
        asyncio.run(engine.arun("Read it", **options))
        if driver == "async"
        else engine.run("Read it", **options)
    )


# -- told to the server --------------------------------------------------------------------------------------------


@each_wire
@each_driver
def test_each_kind_of_request_has_its_limit(tmp_path: Path, wire: Wire, driver: str) -> None:
    """That of `Limits`, of a text that a tool has written too; the replies are short enough for it."""
    replies = [*map(json.dumps, WRITING), "A text.", json.dumps(STOP), json.dumps(SUCCESS)]
    with (
        model_server() as server,
        Engine(wire.model(server.url), journal=tmp_path / "runs.db", builtins=True) as engine,
    ):
        server.script(*(plain(wire.body(text)) for text in replies))
        assert go(engine, driver, limits=Limits(max_reply_tokens=OWN)).usage.calls == 5
        assert [item.body[NAMES[wire.name]] for item in server.requests] == [11, 12, 17, 13, 14]
        server.script(plain(wire.body(json.dumps({"steps": []}))))
        go(engine, driver, limits=Limits(max_reply_tokens=OWN), mode="planner")
        assert server.requests[0].body[NAMES[wire.name]] == 15


def test_the_shipped_limits_hold_without_any_given(tmp_path: Path) -> None:
    """Also where others are given; None leaves what the client itself allows."""
    with (
        model_server() as server,
        Engine(CHAT.model(server.url), tools=TOOLS, journal=tmp_path / "runs.db") as engine,
    ):
        for limits, told in (
            (None, [4000, 4000, 4000, 4000]),
            (Limits(max_steps=3), [4000, 4000, 4000, 4000]),
            (Limits(max_reply_tokens=ReplyTokens(review=99)), [4000, 4000, 4000, 99]),
            (Limits(max_reply_tokens=None), [4096] * 4),
        ):
            server.script(*(plain(CHAT.body(json.dumps(item))) for item in (*READ(1), STOP, SUCCESS)))
            result = engine.run("Read it", limits=limits)
            assert [item.body["max_tokens"] for item in server.requests] == told
            assert replay(engine.journal, result.run_id).identical


@given(
    kind=st.sampled_from(list(ReplyTokens.model_fields)),
    allowed=st.none() | st.integers(0, 10**6),
    reasoning=st.integers(0, 10**6),
)
def test_a_limit_never_raises_what_a_budget_allows(kind: Any, allowed: int | None, reasoning: int) -> None:
    """Reasoning comes on top of the limit, and not of the budget; without limits the budget alone counts."""
    limit = reply_limit(Limits(), kind, allowed, reasoning)
    own = getattr(ReplyTokens(), kind) + reasoning
    assert limit == (own if allowed is None or own < allowed else allowed)
    assert reply_limit(Limits(max_reply_tokens=None), kind, allowed, reasoning) == allowed


# -- models that reason --------------------------------------------------------------------------------------------


def test_the_providers_own_models_get_tokens_to_reason() -> None:
    """All but 4,000 of what the client allows, so that no limit of a reply is used up by what nobody reads."""
    assert OpenAIModel("gpt-6-luna", api_key=KEY).reasoning_tokens == 12_000
    assert OpenAIModel("gpt-6-luna", api_key=KEY, max_tokens=64_000).reasoning_tokens == 60_000
    assert OpenAIModel("local", base_url="http://127.0.0.1:1/v1").reasoning_tokens == 0


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_model_of_ones_own_server_that_reasons_gets_them_from_then_on(
    tmp_path: Path, name: str, stream: bool
) -> None:
    """Its first reply has spent its limit on that; asked again it has room, and the run goes on."""
    cut = CHAT.body("", "length")
    cut["choices"][0]["message"][name] = "Let me think. " * 9
    thoughts = {"id": "c", "choices": [{"index": 0, "delta": {name: "Let me think."}, "finish_reason": None}]}
    first = streamed([event(thoughts), *CHAT.events("", "length")]) if stream else plain(cut)
    with model_server() as server:
        server.script(first, *(plain(CHAT.body(json.dumps(item))) for item in (*READ(1), STOP, SUCCESS)))
        model = CHAT.model(server.url, stream=stream)
        with Engine(model, tools=TOOLS, journal=tmp_path / "runs.db") as engine:
            result = engine.run("Read it", limits=Limits(max_reply_tokens=ReplyTokens(selection=500)))
        assert result.state == "Done"
        assert [item.body["max_tokens"] for item in server.requests] == [500, *[4096] * 4]


# -- held by the client --------------------------------------------------------------------------------------------


def endless(wire: Wire) -> Behaviour:
    """Answer with a text that has no end, whatever the limit that was told."""
    before, piece, *_ = _around(wire)

    def behave(connection: Connection, received: Received) -> None:
        def more(connection: Connection) -> None:
            for _ in range(1_000_000):
                connection.chunk(piece)
            connection.hold()

        streamed([*before, piece], then=more)(connection, received)

    return behave


def _around(wire: Wire) -> tuple[list[bytes], bytes]:
    events = wire.events("word " * 10, size=50)
    at = next(at for at, item in enumerate(events) if b"word word" in item)
    return events[:at], events[at]


@each_wire
@each_driver
def test_a_server_that_goes_on_regardless_is_cut_off(wire: Wire, driver: str) -> None:
    """At eight characters a token, closed at once, and the reply says that it was too long; what was shown is as long."""
    with model_server() as server:
        server.script(endless(wire))
        shown: list[str] = []
        call = ModelCall("text", (PromptMessage("user", "Go on"),), on_text=shown.append, max_tokens=100)
        model = wire.model(server.url)
        reply = asyncio.run(model.aask(call)) if driver == "async" else model.ask(call)
        assert (reply.finish, len(reply.text), reply.attempts) == ("length", 800, 1)
        assert reply.text == "".join(shown) and reply.usage is not None and reply.usage.tokens_out > 0


@each_wire
def test_a_whole_body_that_is_too_long_is_cut_off_too(wire: Wire) -> None:
    """And one that is not stays as it is, to the last character."""
    with model_server() as server:
        for size, finish in ((800, "stop"), (801, "length")):
            server.script(plain(wire.body("x" * size)))
            reply = wire.model(server.url).ask(
                ModelCall("text", (PromptMessage("user", "Go on"),), max_tokens=100)
            )
            assert (reply.finish, len(reply.text)) == (finish, 800)


def test_a_selection_without_end_is_asked_for_again(tmp_path: Path) -> None:
    """The row says why; the run goes on with the next reply, and a second one ends it."""
    with model_server() as server:
        replies = [plain(CHAT.body(json.dumps(item))) for item in (*READ(1), STOP, SUCCESS)]
        server.script(endless(CHAT), *replies)
        limits = Limits(max_reply_tokens=ReplyTokens(selection=50))
        with Engine(
            CHAT.model(server.url, stream=True), tools=TOOLS, journal=tmp_path / "runs.db", limits=limits
        ) as engine:
            result = engine.run("Read it")
            first = engine.journal.transitions(result.run_id)[0]
            assert (result.state, first.trigger, first.outcome["invalid"]) == ("Done", "reselect", "length")
            server.script(endless(CHAT))
            assert engine.run("Read it").reason == "selection_invalid"


# -- written into specs --------------------------------------------------------------------------------------------


def test_a_new_spec_says_its_limits_and_an_old_one_has_none(tmp_path: Path) -> None:
    """What is absent means what it meant when it was written; the fingerprint of such limits is as it was."""
    with Engine("offline", journal=tmp_path / "runs.db") as engine:
        spec = engine.journal.spec(engine.run("Read it").run_id)
    assert spec.limits.max_reply_tokens == ReplyTokens()
    written = json.loads(spec.model_dump_json())
    assert written["limits"]["max_reply_tokens"]["selection"] == 4000
    del written["limits"]["max_reply_tokens"]
    old = Spec.model_validate_json(json.dumps(written))
    assert old.limits.max_reply_tokens is None and old.limits.max_steps == spec.limits.max_steps
    assert Spec.model_validate(old.model_dump()).limits == old.limits
    assert given_fingerprints(old)["limits"] != given_fingerprints(spec)["limits"]


def test_the_tasks_of_a_workflow_have_its_limits(tmp_path: Path) -> None:
    """Those that were given, and without any the shipped ones; each stands in the spec of the task."""
    from paor import Task

    for number, limits in enumerate(
        (Limits(max_reply_tokens=None), Limits(max_reply_tokens=OWN), Limits(max_steps=2))
    ):
        with Engine("offline", journal=tmp_path / f"{number}.db") as engine:
            engine.run_workflow("Read both", tasks=[Task("Read it")], limits=limits)
            specs = [engine.journal.spec(row.run_id) for row in engine.journal.runs() if row.task]
            given = limits.model_copy(
                update={"completion_review": "model", "context_tokens": 32_000}
            )  # as the offline model says of itself, and where nobody knows the context
            assert specs and all(spec.limits == given for spec in specs)
