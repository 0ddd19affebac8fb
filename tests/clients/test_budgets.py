"""Budgets and the clients, over real HTTP: what a reply may use reaches the wire, and no attempt goes beyond it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paor import Engine, Limits, ModelCall, OpenAIModel, Result, replay
from paor.errors import UsageError
from paor.machine import Counters
from paor.models import PromptMessage

from ..support.model_server import (
    WIRES,
    Behaviour,
    Connection,
    QuickPort,
    Received,
    Wire,
    model_server,
    plain,
    streamed,
)
from ..support.worlds import PARAMETERS, READ, STOP, SUCCESS, TOOLS
from .inside import REPLY_TOKENS_MIN, Reservation, allowance, refusal, reservation

CHAT, RESPONSES, MESSAGES = WIRES
SCRIPT = [*READ(1), STOP, SUCCESS]
TEXTS = [json.dumps(item) for item in SCRIPT]
WRITING = [
    {"action": "ai.process", "actionObjective": "write", "parametersContext": "it"},
    PARAMETERS(aiPrompt="write"),
]
each_wire = pytest.mark.parametrize("wire", WIRES, ids=lambda wire: str(wire.name))
chat_first = pytest.mark.parametrize(
    "wire",
    [pytest.param(wire, id=wire.name, marks=() if wire is CHAT else pytest.mark.whole) for wire in WIRES],
)
"""By default the one wire."""
each_driver = pytest.mark.parametrize("driver", ["sync", "async"])
NAMES = {"chat": "max_tokens", "responses": "max_output_tokens", "messages": "max_tokens"}


def go(engine: Engine, driver: str = "sync", **options: Any) -> Result:
    """Run on either driver."""
    return (
        asyncio.run(engine.arun("Read it", **options))
        if driver == "async"
        else engine.run("Read it", **options)
    )


def prompt_tokens(received: Received) -> int:
    """Return how many tokens a server counts in a prompt: four bytes make one, as in English."""
    told = [received.body.get("system", ""), received.body.get("instructions", "")]
    told += [item["content"] for item in received.body.get("messages", received.body.get("input", []))]
    return sum(len(text.encode()) for text in told) // 4


def greedy(wire: Wire, text: str) -> Behaviour:
    """Answer well, and use every token that is allowed."""

    def behave(connection: Connection, received: Received) -> None:
        body = wire.body(text)
        names = list(body["usage"])[:2]
        own = {"messages": ("input_tokens", "output_tokens")}.get(wire.name, names)
        body["usage"] = dict(
            zip(own, (prompt_tokens(received), received.body[NAMES[wire.name]]), strict=True)
        )
        plain(body)(connection, received)

    return behave


# -- on the wire ---------------------------------------------------------------------------------------------------


@chat_first
@each_driver
@pytest.mark.parametrize("own, limit, sent", [(4096, 77, 77), (50, 77, 50), (500, None, 500)])
def test_what_is_reserved_for_a_reply_is_its_limit(
    tmp_path: Path, wire: Wire, driver: str, own: int, limit: int | None, sent: int
) -> None:
    """`Limits.reply_tokens` in every request, bounded by the client's own setting; the run replays without the server."""
    with model_server() as server:
        server.script(*(plain(wire.body(text)) for text in TEXTS))
        model = wire.model(server.url, max_tokens=own)
        with Engine(
            model, tools=TOOLS, journal=tmp_path / "runs.db", limits=Limits(reply_tokens=limit)
        ) as engine:
            result = go(engine, driver)
            assert [item.body[NAMES[wire.name]] for item in server.requests] == [sent] * 4
            assert result.state == "Done"
            assert replay(engine.journal, result.run_id).identical and engine.journal.verify() == []


@each_driver
def test_what_a_tool_has_written_is_limited_too(tmp_path: Path, driver: str) -> None:
    """`ai.process` asks by itself, under the same limits."""
    replies = [*map(json.dumps, WRITING), "A text.", json.dumps(STOP), json.dumps(SUCCESS)]
    with model_server() as server:
        server.script(*(plain(CHAT.body(text)) for text in replies))
        limits, journal = Limits(reply_tokens=77), tmp_path / "runs.db"
        with Engine(CHAT.model(server.url), journal=journal, limits=limits, builtins=True) as engine:
            assert go(engine, driver).state == "Done"
        assert [item.body["max_tokens"] for item in server.requests] == [77] * 5


@chat_first
@pytest.mark.parametrize("reply_tokens", [None, 300])
@pytest.mark.parametrize("budget", [2000, 9000])
def test_no_reply_however_long_overspends_a_token_budget(
    tmp_path: Path, wire: Wire, reply_tokens: int | None, budget: int
) -> None:
    """A server that uses all that it is allowed: with `reply_tokens` never, without it by the floor of one reply."""
    with model_server() as server:
        server.script(*(greedy(wire, text) for text in [*TEXTS[:2], *TEXTS]))
        limits = Limits(token_budget=budget, reply_tokens=reply_tokens)
        model = wire.model(server.url, max_tokens=100_000)
        with Engine(model, tools=TOOLS, journal=tmp_path / "runs.db", limits=limits) as engine:
            result = engine.run("Read it")
            used = result.usage.tokens_in + result.usage.tokens_out
            last = prompt_tokens(server.requests[-1]) if server.requests else 0
            assert used <= budget + (0 if reply_tokens else last + REPLY_TOKENS_MIN)
            assert reply_tokens or server.requests[0].body[NAMES[wire.name]] < max(
                budget, REPLY_TOKENS_MIN + 1
            )
            assert replay(engine.journal, result.run_id).identical and engine.journal.verify() == []


def test_a_prompt_that_leaves_room_keeps_even_a_budget_without_reply_tokens(tmp_path: Path) -> None:
    """One request and its longest reply fit: what is left beside the prompt is what the reply gets."""
    with model_server() as server:
        server.script(greedy(CHAT, TEXTS[0]))
        limits = Limits(token_budget=9000, max_reply_tokens=None)
        model = CHAT.model(server.url, max_tokens=100_000)
        with Engine(model, tools=TOOLS, journal=tmp_path / "runs.db", limits=limits) as engine:
            result = engine.run("Read it")
        assert (result.reason, len(server.requests)) == ("token_budget", 2)
        first = server.requests[0]
        assert prompt_tokens(first) + first.body["max_tokens"] <= 9000 < first.body["max_tokens"] + 3000


# -- repeated attempts -----------------------------------------------------------------------------------------------


@each_driver
@pytest.mark.parametrize("spare, attempts", [(2 * 1201, 3), (2 * 1201 - 1, 2), (1201, 2), (1200, 1), (0, 1)])
def test_attempts_that_used_tokens_are_repeated_as_far_as_the_budget_goes(
    tmp_path: Path, driver: str, spare: int, attempts: int
) -> None:
    """Each cut stream has cost 1,201 tokens; the next one is made if the prompt and 300 tokens of reply still fit."""
    with model_server() as server:
        server.script(streamed(MESSAGES.events(TEXTS[0])[:5]))
        model = MESSAGES.model(server.url, port=QuickPort(), stream=True, retries=3)
        with Engine(
            model, tools=TOOLS, journal=tmp_path / "runs.db", limits=Limits(reply_tokens=300)
        ) as engine:
            (row,) = engine.journal.transitions(go(engine, driver).run_id)
            assert row.outcome["calls"] == 4
            limits = Limits(token_budget=row.request["reserved"] + spare, reply_tokens=300)
            result = go(engine, driver, limits=limits)
            (row,) = engine.journal.transitions(result.run_id)
            assert (result.reason, row.outcome["code"], row.outcome["calls"]) == (
                "model_error",
                "cut_stream",
                attempts,
            )
            assert row.tokens_in + row.tokens_out == 1201 * attempts
            words = engine.journal.payload(row.run, row.outcome["message"]["n"]).body
            assert "what is left of the token budget is too little for another attempt" in str(words)


@pytest.mark.parametrize("left, attempts", [(None, 4), (10_000, 4), (2_500, 2), (1_300, 1)])
def test_a_turn_that_pauses_is_sent_back_as_far_as_the_budget_goes(left: int | None, attempts: int) -> None:
    """Then it counts as cut off."""
    with model_server() as server:
        server.script(plain(MESSAGES.body("and ") | {"stop_reason": "pause_turn"}))
        call = ModelCall("text", (PromptMessage("user", "Go on"),), max_tokens=100, tokens_left=left)
        reply = MESSAGES.model(server.url).ask(call)
        assert (reply.finish, reply.attempts) == ("length", attempts)


# -- what nobody counted -----------------------------------------------------------------------------------------------


@each_wire
@pytest.mark.parametrize("told", ["nothing", "zeros"])
def test_a_server_that_reports_no_usage_costs_by_estimate(wire: Wire, told: str) -> None:
    """Four characters a token, at the model's price: a budget of money would never end a run otherwise."""
    with model_server() as server:
        body = wire.body("x" * 40)
        if told == "nothing":
            del body["usage"]
        else:
            body["usage"] = {name: 0 for name in body["usage"]}
        server.script(plain(body))
        prices = {f"{wire.model(server.url).name}": {"in": "1", "out": "10"}}
        call = ModelCall("text", (PromptMessage("user", "y" * 80),))
        usage = wire.model(server.url, prices=prices).ask(call).usage
        assert usage is not None and (usage.tokens_in, usage.tokens_out, usage.cost_micro) == (20, 10, 120)


def test_a_budget_of_money_needs_a_price(tmp_path: Path) -> None:
    """A price that is unknown is not a price of zero: such a run is not begun, resumed or forked."""
    priced = {"prices": {"openai:gpt-6-luna": {"in": "0", "out": "0"}}}
    with model_server() as server:
        server.script(*(plain(CHAT.body(text)) for text in TEXTS))
        journal, limits = tmp_path / "runs.db", Limits(cost_budget=1)
        with Engine(CHAT.model(server.url), tools=TOOLS, journal=journal, limits=limits) as engine:
            with pytest.raises(
                UsageError, match="no price is known for openai:gpt-6-luna; give one in a price list"
            ):
                engine.run("Read it")
            assert engine.journal.runs() == [] and server.requests == []
            result = engine.run("Read it", model=CHAT.model(server.url, **priced))
            assert result.state == "Done"
            with pytest.raises(UsageError, match="no price is known"):
                engine.fork(result.run_id, 0)
            assert engine.run("Read it", limits=Limits(), model="offline").state in ("Done", "Failed")


def test_a_run_with_a_budget_of_money_is_not_resumed_by_a_model_without_a_price(tmp_path: Path) -> None:
    """It stays as it was, and can be resumed by one that has a price."""
    prices = {"openai:gpt-6-luna": {"in": "1", "out": "1"}}
    with model_server() as server:
        server.script(*(plain(CHAT.body(text)) for text in TEXTS))
        engine = Engine(
            CHAT.model(server.url, prices=prices, stream=False),
            tools=TOOLS,
            journal=tmp_path / "runs.db",
            limits=Limits(cost_budget=1),
        )
        stream = engine.stream("Read it", on_close="stop")
        run_id = next(item.run_id for item in stream if item.kind == "transition")
        stream.close()
        with pytest.raises(UsageError, match="no price is known"):
            engine.resume(run_id, model=CHAT.model(server.url))
        assert engine.resume(run_id).state == "Done"


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens", "max_output_tokens"])
def test_no_other_limit_can_stand_beside_the_clients(name: str) -> None:
    """`extra` would overwrite what a budget has lowered."""
    with pytest.raises(UsageError, match=f"extra holds {name}: use max_tokens"):
        OpenAIModel("m", base_url="http://127.0.0.1:9/v1", extra={name: 5})


# -- the rule ------------------------------------------------------------------------------------------------------------

TOKENS = st.integers(0, 50_000)


@given(
    budget=st.none() | st.integers(1, 50_000),
    reply=st.none() | st.integers(1, 5_000),
    used=TOKENS,
    held=TOKENS,
    size=TOKENS,
)
def test_a_request_that_is_made_cannot_go_beyond_its_budget(
    budget: int | None, reply: int | None, used: int, held: int, size: int
) -> None:
    """With `reply_tokens`: prompt and reply fit beside all else. Without: the reply fits, or is as short as one can be."""
    limits = Limits(token_budget=budget, reply_tokens=reply)
    counters, open_ones = Counters(tokens_in=used), Reservation(held)
    allowed = allowance(limits, counters, size, open_ones)
    prompt = -(-size // 3)
    if budget is None:
        assert (allowed.reply, allowed.left) == (reply, None)
    elif reply is not None:
        fits = refusal(limits, counters, reservation(limits, counters, size), open_ones) is None
        assert allowed.reply == reply and fits is (used + held + prompt + reply <= budget)
    else:
        assert allowed.reply is not None and allowed.left == max(0, budget - used - held)
        assert allowed.reply == REPLY_TOKENS_MIN or prompt + allowed.reply == allowed.left
