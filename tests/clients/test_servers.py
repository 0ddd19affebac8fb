"""
The clients against servers that others wrote, and against a real small model: see `real_servers`.

What a small model decides is not asserted: it may choose badly. That the run ends in Done or Failed with a reason, that
every row verifies, and that it replays with the server stopped is.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, build_opener

import pytest

from paor import AnthropicModel, Engine, Journal, Limits, ModelCall, OpenAIModel, Reply, replay
from paor.errors import ModelUnavailable
from paor.events import ModelText, RunEnded
from paor.models import PromptMessage
from paor.prompts.parsing.plans import read_plan
from paor.prompts.parsing.reply_forms import plan_form
from paor.states.records.plans import Plan

from ..support.main_job import REPLIES, look_back, run_job
from ..support.model_server import KEY, REFINEMENT, QuickPort
from ..support.worlds import CONTINUE, PARAMETERS, READ, SELECT, STOP, SUCCESS, TOOLS
from .real_servers import aimock_command, free_port, llama_command, llmock_command, post, running

pytestmark = pytest.mark.whole
TEXT = json.dumps(STOP)
SCRIPT = [*READ(1), CONTINUE, SELECT(), PARAMETERS(page=2), STOP, SUCCESS]
APIS = ["chat", "responses", "messages"]
MISSING = "see tests/clients/real_servers.py: PAOR_TEST_SERVERS names no folder with"


def model_at(url: str, api: str, prefix: str = "", **options: Any) -> OpenAIModel | AnthropicModel:
    """Return a model that speaks *api* at *url*."""
    options = {"api_key": KEY, "port": QuickPort(), **options}
    if api == "messages":
        return AnthropicModel("claude-haiku-5-5", base_url=f"{url}{prefix}", **options)
    return OpenAIModel("gpt-6-luna", base_url=f"{url}/v1", api=api, **options)


def asked(
    model: OpenAIModel | AnthropicModel,
    *,
    driver: str = "sync",
    stream: bool = False,
    schema: Any = REFINEMENT,
) -> Reply:
    """Ask for a refinement."""
    messages = (PromptMessage("system", "Reply in JSON."), PromptMessage("user", "plan it"))
    call = ModelCall("refinement", messages, 0, schema, on_text=(lambda text: None) if stream else None)
    return model.ask(call) if driver == "sync" else asyncio.run(model.aask(call))


def fault(model: OpenAIModel | AnthropicModel, **how: Any) -> ModelUnavailable:
    """Ask a model that cannot answer."""
    with pytest.raises(ModelUnavailable) as caught:
        asked(model, **how)
    return caught.value


# -- aimock ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def aimock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run aimock."""
    port = free_port()
    command = aimock_command(port, tmp_path_factory.mktemp("aimock") / "seed.json")
    if command is None:
        pytest.skip(f"{MISSING} aimock")
    with running(command, port) as url:
        yield url


def told(name: str, rows: list[Any]) -> None:
    """Print what each request came to, for whoever runs this with ``-s``."""
    print(f"\n{name}")
    for row in rows:
        kept = ("invalid", "finish", "attempts", "tokens_in", "tokens_out", "request_id")
        facts = {name: row.outcome[name] for name in kept if row.outcome.get(name)}
        print(f"  {row.seq} {row.request['kind']}: {row.trigger} {facts}")


def load(url: str, *fixtures: dict[str, Any]) -> None:
    """Script aimock anew."""
    post(f"{url}/__aimock/reset", b"{}")
    post(f"{url}/__aimock/fixtures", json.dumps({"fixtures": fixtures}).encode())


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("driver", ["sync", "async"])
@pytest.mark.parametrize("stream", [False, True])
def test_replies_of_aimock(aimock: str, api: str, driver: str, stream: bool) -> None:
    """Text, usage and id as another implementation of the interfaces has them."""
    usage = {"prompt_tokens": 1200, "completion_tokens": 34, "total_tokens": 1234}
    load(aimock, {"match": {"userMessage": "plan it"}, "response": {"content": TEXT, "usage": usage}})
    reply = asked(model_at(aimock, api), driver=driver, stream=stream)
    assert (reply.text, reply.finish, reply.attempts) == (TEXT, "stop", 1) and reply.request_id
    assert reply.usage is not None and (reply.usage.tokens_in, reply.usage.tokens_out) == (1200, 34)


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("stream", [False, True])
def test_native_calls_of_aimock(aimock: str, api: str, stream: bool) -> None:
    """A tool call becomes a step of a plan."""
    calls = [{"name": "notes.read", "arguments": {"page": 3}}]
    load(aimock, {"match": {"userMessage": "plan it"}, "response": {"toolCalls": calls}})
    reply = asked(model_at(aimock, api), stream=stream, schema=plan_form().schema)
    plan = read_plan(reply.text, chars_max=100_000, finish=reply.finish)
    assert isinstance(plan, Plan) and [(step.name, step.args) for step in plan.steps] == [
        ("notes.read", {"page": 3})
    ]


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(
    "status, code", [(429, "rate_limited"), (500, "server_error"), (529, "overloaded"), (401, "unauthorized")]
)
def test_errors_of_aimock(aimock: str, api: str, status: int, code: str) -> None:
    """Its Retry-After is honoured."""
    error = {"status": status, "retryAfter": 9, "error": {"message": "scripted", "type": "some_error"}}
    load(aimock, {"match": {"userMessage": "plan it"}, "response": error})
    port = QuickPort()
    found = fault(model_at(aimock, api, port=port, retries=1))
    assert found.code == code and "scripted" in found.message
    assert port.waits == ([] if status == 401 else [9.0] if status == 429 else port.waits)


@pytest.mark.parametrize("api", APIS)
def test_broken_bodies_of_aimock(aimock: str, api: str) -> None:
    """Malformed, disconnected, cut off in the stream, at the token limit."""
    said = {"match": {"userMessage": "plan it"}, "response": {"content": TEXT * 9}}
    load(aimock, said | {"chaos": {"malformedRate": 1.0}})
    assert fault(model_at(aimock, api, retries=1)).code == "bad_body"
    load(aimock, said | {"chaos": {"disconnectRate": 1.0}})
    assert fault(model_at(aimock, api, retries=1)).code == "unreachable"
    load(aimock, said | {"truncateAfterChunks": 3})
    cut = fault(model_at(aimock, api, retries=1), stream=True)
    assert cut.code in ("cut_stream", "unreachable")  # its headers may not have left it yet
    load(
        aimock,
        {"match": {"userMessage": "plan it"}, "response": {"content": '{"a', "finishReason": "length"}},
    )
    assert asked(model_at(aimock, api)).finish == "length"


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("live", [False, True])
def test_a_run_on_aimock_with_a_fault_in_it(aimock: str, tmp_path: Path, api: str, live: bool) -> None:
    """The two-stage loop to Done; it replays identical whatever the server says by then."""
    texts = [json.dumps(item) for item in SCRIPT]
    load(
        aimock,
        *(
            {"match": {"sequenceIndex": place}, "response": {"content": text}}
            for place, text in enumerate(texts)
        ),
    )
    post(f"{aimock}/__aimock/error", b'{"status": 529}')
    engine = Engine(model_at(aimock, api), tools=TOOLS, journal=tmp_path / "runs.db")
    if live:
        events = list(engine.stream("Read it"))
        result = next(item.result for item in events if isinstance(item, RunEnded))
        assert any(isinstance(item, ModelText) for item in events)
    else:
        result = engine.run("Read it")
    load(aimock)
    assert result.state == "Done" and engine.journal.transitions(result.run_id)[0].outcome["attempts"] == 2
    assert replay(engine.journal, result.run_id).identical and engine.journal.verify() == []


@pytest.mark.parametrize("name", ["openai:gpt-6-luna", "anthropic:claude-haiku-5-5"])
def test_the_main_job_on_aimock(aimock: str, tmp_path: Path, name: str) -> None:
    """By the command line: overloaded at first; replayed with nothing to answer."""
    said = [
        {"match": {"sequenceIndex": at}, "response": {"content": text}} for at, text in enumerate(REPLIES)
    ]
    load(aimock, *said)
    post(f"{aimock}/__aimock/error", b'{"status": 529}')
    result = run_job(tmp_path, name, f"{aimock}/v1" if name.startswith("openai") else aimock)
    load(aimock)
    with Journal(tmp_path / "paor.db") as journal:
        rows = [row for row in journal.transitions(result["run_id"]) if "model" in row.request]
    assert rows[0].outcome["attempts"] == 2
    look_back(tmp_path, result["run_id"])
    told(name, rows)


# -- llmock ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def llmock() -> Iterator[str]:
    """Run llmock."""
    port = free_port()
    command = llmock_command(port)
    if command is None:
        pytest.skip(f"{MISSING} llmock")
    with running(command, port) as url:
        yield url


def behave(url: str, *behaviors: dict[str, Any]) -> None:
    """Script llmock anew."""
    post(f"{url}/_llmock/reset", b"{}")
    post(f"{url}/_llmock/scenario", json.dumps({"behaviors": behaviors}).encode())


def judged(url: str) -> dict[str, Any]:
    """Return what llmock thinks of its clients."""
    with build_opener(ProxyHandler({})).open(f"{url}/_llmock/verdict", timeout=10) as answer:
        verdict: dict[str, Any] = json.loads(answer.read())
    return verdict


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("driver", ["sync", "async"])
def test_retries_on_llmock(llmock: str, api: str, driver: str) -> None:
    """Two 429 with a time to wait, then an answer; llmock itself judges that it was not hurried."""
    behave(
        llmock,
        {"type": "fail", "status": 429, "retry_after": 0.5, "times": 2},
        {"type": "reply", "text": TEXT},
    )
    model = model_at(llmock, api, "/anthropic", port=None, retries=3)
    reply = asked(model, driver=driver)
    assert (reply.text, reply.attempts) == (TEXT, 3)
    verdict = judged(llmock)
    assert verdict["passed"] and verdict["attempts"] == 3, verdict["findings"]


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(
    "kind, codes",
    [
        ("disconnect", {"cut_stream"}),
        ("truncate", {"cut_stream"}),
        ("malformed", {"bad_body"}),
        ("stall", {"timeout"}),
    ],
)
def test_broken_streams_of_llmock(llmock: str, api: str, kind: str, codes: set[str]) -> None:
    """None of them is taken for a reply."""
    broken = {"type": "stream_fault", "kind": kind, "after_chunks": 1}
    behave(llmock, broken, {"type": "reply", "text": TEXT * 20})
    model = model_at(llmock, api, "/anthropic", retries=0, timeout_s=1.0)
    assert fault(model, stream=True).code in codes


@pytest.mark.parametrize("name", ["openai:gpt-6-luna", "anthropic:claude-haiku-5-5"])
def test_the_main_job_on_llmock(llmock: str, tmp_path: Path, name: str) -> None:
    """By the command line: three errors, a reply that breaks off; it judges that no retry came too early."""
    texts = [*REPLIES[:3], '{"decision": "st', *REPLIES[3:]]
    errors: list[dict[str, Any]] = [{"status": 429, "retry_after": 0.3}, {"status": 529}, {"status": 503}]
    behave(
        llmock,
        *({"type": "fail", "times": 1, **error} for error in errors),
        *({"type": "reply", "text": text} for text in texts),
    )
    result = run_job(tmp_path, name, f"{llmock}/v1" if name.startswith("openai") else f"{llmock}/anthropic")
    verdict = judged(llmock)
    assert verdict["passed"] and verdict["attempts"] == 9, verdict["findings"]
    with Journal(tmp_path / "paor.db") as journal:
        rows = [row for row in journal.transitions(result["run_id"]) if "model" in row.request]
    assert [row.outcome.get("attempts", 1) for row in rows] == [4, 1, 1, 1, 1]
    assert [row.trigger for row in rows if "invalid" in row.outcome] == ["reassess"]
    behave(llmock, {"type": "fail", "status": 500, "times": None})
    look_back(tmp_path, result["run_id"])
    told(name, rows)


# -- a real model ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def llama() -> Iterator[str]:
    """Run llama.cpp's server with a small model."""
    port = free_port()
    command = llama_command(port)
    if command is None:
        pytest.skip(f"{MISSING} the small model")
    with running(command, port, path="/health") as url:
        yield url


@pytest.mark.whole
@pytest.mark.parametrize(
    ("api", "profile"),
    [("chat", "lenient"), ("messages", "lenient"), ("chat", "native"), ("messages", "native")],
)
def test_a_real_small_model_ends_in_done_or_failed(tmp_path: Path, api: str, profile: str) -> None:
    """With a reason, never an exception; the journal verifies, and replays with the server stopped."""
    port = free_port()
    command = llama_command(port)
    if command is None:
        pytest.skip(f"{MISSING} the small model")
    limits = Limits(max_steps=2, max_retries=1)
    seen: list[Any] = []
    with running(command, port, path="/health") as url:
        options: dict[str, Any] = {"max_tokens": 200, "temperature": 0, "timeout_s": 300, "retries": 1}
        if api == "chat":
            model: Any = OpenAIModel("local", base_url=f"{url}/v1", **options)
        else:
            model = AnthropicModel("local", base_url=url, structured="tool", **options)
        engine = Engine(
            model,
            tools=TOOLS,
            builtins=False,
            journal=tmp_path / "runs.db",
            limits=limits,
            hooks=[seen.append],
        )
        result = engine.run(
            "Read page 1 of the notes and say what it is about.", ["Page 1 is read."], profile=profile
        )
    assert result.state in ("Done", "Failed") and result.reason and result.answer
    assert replay(engine.journal, result.run_id).identical and engine.journal.verify() == []
    rows = engine.journal.transitions(result.run_id)
    assert any("model" in row.request for row in rows)
    print(f"\n{api}, {profile}: {result.state} ({result.reason}), {len(rows)} rows, {result.usage}")
    for row in rows:
        told = {
            name: row.outcome.get(name)
            for name in ("kind", "finish", "invalid", "tokens_in", "tokens_cached", "tokens_out")
        }
        print(
            row.seq,
            row.source,
            "->",
            row.dest,
            row.trigger,
            {name: value for name, value in told.items() if value},
        )


@pytest.mark.whole
def test_real_faults_of_llama(llama: str) -> None:
    """A prompt that is too long, a reply that meets its limit, a schema that is none."""
    model = OpenAIModel("local", base_url=f"{llama}/v1", max_tokens=8, retries=0)
    long = ModelCall("text", (PromptMessage("user", "word " * 20_000),))
    with pytest.raises(ModelUnavailable) as caught:
        model.ask(long)
    assert caught.value.code == "bad_request" and "context" in caught.value.message
    assert model.ask(ModelCall("text", (PromptMessage("user", "Count to one hundred."),))).finish == "length"
    odd = {"type": "object", "properties": {"a": {"type": "nonsense"}}, "required": ["a"]}
    reply = model.ask(ModelCall("parameters", (PromptMessage("user", "Say {} as JSON."),), 0, odd))
    assert reply.attempts == 2 and model.without == frozenset()
