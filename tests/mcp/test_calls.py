"""Calls of MCP tools: what a server returns, and what it can do wrong; each ends in a result, an error or in doubt."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from paor import Engine, Journal, Limits, McpServer, Policy, ScriptedModel, replay

from ..support.mcp_kit import (
    FAULTY,
    SECRET,
    bytes_written,
    called,
    command,
    done,
    engine_of,
    error_of,
    faulty,
    modern,
    outcome,
    over_http,
    script,
    sound,
    texts,
)
from .inside import messages_of

DOUBTFUL = {
    "crash": "exit code 7, Traceback: the floor is lava",
    "bad": "breaks the protocol",
    "huge": "more than 200000",
}


def test_every_kind_of_content_becomes_a_document(tmp_path: Path) -> None:
    """Texts, pictures, sounds, resources by value and by link; nothing that a link names is fetched."""
    with faulty(tmp_path) as server:
        result = called(server, tmp_path, "f.parts")
        found = texts(tmp_path)
        assert found["result.txt"] == "first" and found["result-2.txt"] == "second"
        assert found["image.png"] == b"\x89PNG\r\n\x1a\n0000" and found["audio.wav"] == found["image.png"]
        assert found["notes.md"] == "# N" and found["data.bin"] == b"PK00"
        assert "- guide: <file:///srv/guide.md> (text/markdown, 12 bytes)" in str(found["links.md"])
        assert {item.name: item.mime for item in result.documents}["notes.md"] == "text/markdown"


@pytest.mark.parametrize(
    ("tool", "name", "text"),
    [
        ("echo", "result.txt", "echo: hi"),
        ("structured", "result.json", '{\n  "rows": [\n    1,\n    2\n  ],\n  "ok": true\n}'),
        ("wrapped", "result.txt", "plain words"),
        ("noise", "result.txt", "through the noise"),
    ],
)
def test_a_result_is_told_once(tool: str, name: str, text: str, tmp_path: Path) -> None:
    """Structured content that is in a text too is one document; prints of a server between messages are none."""
    with faulty(tmp_path) as server:
        called(server, tmp_path, f"f.{tool}")
    assert texts(tmp_path) == {name: text}


def test_parts_beyond_any_measure_are_left_out_with_a_note(tmp_path: Path) -> None:
    """And data that is no base64."""
    with faulty(tmp_path) as server:
        assert len(called(server, tmp_path, "f.many").documents) == 200
        (tmp_path / "b").mkdir()
        assert called(server, tmp_path / "b", "f.broken_parts").documents == ()
    assert b"50 more parts of the result were left out" in bytes_written(tmp_path)
    assert b"no base64" in bytes_written(tmp_path / "b")


@pytest.mark.parametrize(
    ("tool", "words"),
    [
        ("is_error", "the shelf is empty"),
        ("is_error_silent", "and not why"),
        ("rpc_error", "the MCP server f refused rpc_error: no such thing"),
    ],
)
def test_what_a_server_calls_an_error_is_one(tool: str, words: str, tmp_path: Path) -> None:
    """One line for the model; the run goes on."""
    with faulty(tmp_path) as server:
        result = called(server, tmp_path, f"f.{tool}")
        assert result.state == "Done" and outcome(tmp_path) == "tool_error"
        assert words in error_of(tmp_path) and "\n" not in error_of(tmp_path)


@pytest.mark.parametrize(
    ("tool", "words"), [("misfit", "'many' is not"), ("unstructured", "did not return structured")]
)
def test_a_result_that_does_not_fit_its_tools_schema_is_one(tool: str, words: str, tmp_path: Path) -> None:
    """The call was made: what came is kept, with a note."""
    with faulty(tmp_path) as server:
        assert called(server, tmp_path, f"f.{tool}").state == "Done"
        assert outcome(tmp_path) == "ok" and done(tmp_path / "effects") == [tool]
    assert b"what its own schema does not allow" in bytes_written(tmp_path)
    assert words.encode() in bytes_written(tmp_path)


@pytest.mark.parametrize("tool", DOUBTFUL)
def test_a_once_call_that_nobody_knows_the_end_of_is_in_doubt(tool: str, tmp_path: Path) -> None:
    """The server was gone, or spoke no protocol: the effect happened here, and the run must not say it did not."""
    with faulty(tmp_path, message_bytes=200_000) as server:
        result = called(server, tmp_path, f"f.{tool}")
        assert result.waiting_for is not None and result.waiting_for.kind == "in_doubt"
        assert done(tmp_path / "effects") == [tool]
        with engine_of(server, tmp_path, f"f.{tool}") as engine:
            result = engine.resume(result.run_id, outcome="done", result="it happened")
            assert result.state == "Done" and done(tmp_path / "effects") == [tool]
            sound(engine, result.run_id)


@pytest.mark.whole
@pytest.mark.parametrize("tool", DOUBTFUL)
@pytest.mark.parametrize("effect", ["read", "idempotent"])
def test_any_other_call_that_broke_is_an_error(tool: str, effect: Any, tmp_path: Path) -> None:
    """The host has said that it may be made again, and the model decides."""
    with faulty(tmp_path, message_bytes=200_000, effects={"*": effect}) as server:
        assert called(server, tmp_path, f"f.{tool}").state == "Done"
        assert outcome(tmp_path) == "tool_error" and DOUBTFUL[tool] in error_of(tmp_path)


@pytest.mark.whole
def test_a_call_that_takes_too_long_is_in_doubt_and_stalls_nobody_else(tmp_path: Path) -> None:
    """The hanging server is let go; the next call gets a new one."""
    with faulty(tmp_path, call_s=0.5) as server:
        assert called(server, tmp_path, "f.hang").status == "waiting"
        (tmp_path / "next").mkdir()
        server.settings = McpServer(server.settings.target, name="f").settings
        called(server, tmp_path / "next", "f.echo")
    assert texts(tmp_path / "next") == {"result.txt": "echo: hi"}
    assert done(tmp_path / "effects") == ["hang"]


def test_a_server_that_died_between_two_calls_is_started_again(tmp_path: Path) -> None:
    """Nothing was sent to the dead one, so nothing is in doubt."""
    with faulty(tmp_path, effects={"crash": "read"}) as server:
        called(server, tmp_path, "f.crash")
        (tmp_path / "next").mkdir()
        assert outcome(tmp_path) == "tool_error"
        assert called(server, tmp_path / "next", "f.send").state == "Done"
        assert done(tmp_path / "effects") == ["crash", "send"]


def test_a_server_that_cannot_be_started_again_did_certainly_nothing(tmp_path: Path) -> None:
    """A once call is an error then, and not in doubt."""
    script_file = tmp_path / "server.py"
    script_file.write_text(FAULTY.read_text())
    with McpServer(command(script_file, tmp_path / "effects"), name="f", effects={"crash": "read"}) as server:
        called(server, tmp_path, "f.crash")
        script_file.unlink()
        (tmp_path / "next").mkdir()
        assert called(server, tmp_path / "next", "f.send").state == "Done"
        assert outcome(tmp_path / "next") == "tool_error" and "cannot be used" in error_of(tmp_path / "next")
    assert done(tmp_path / "effects") == ["crash"]


def test_a_result_larger_than_the_limits_is_cut_or_an_error(tmp_path: Path) -> None:
    """The limits of a run hold for servers as for any tool; a call that happens once is done all the same."""
    for effect in ("once", "read"):
        (folder := tmp_path / effect).mkdir()
        with faulty(folder, effects={"big": effect}) as server:
            result = called(server, folder, "f.big", limits=Limits(document_bytes=10_000))
            if effect == "read":
                assert "at most 10000 are kept" in error_of(folder)
            else:
                assert outcome(folder) == "ok" and result.documents[0].bytes == 10_000


def test_an_idempotency_key_goes_with_every_call_that_has_an_effect(tmp_path: Path) -> None:
    """The same for every attempt of an action."""
    with faulty(tmp_path, effects={"put": "idempotent"}) as server:
        result = called(server, tmp_path, "f.put")
        assert (tmp_path / "effects").read_text() == f"put hi {result.run_id}-1\n"


def test_secrets_come_back_from_no_server(tmp_path: Path) -> None:
    """A server that prints its whole environment gives the variables we gave it back; the journal never sees them."""
    with faulty(tmp_path, env={"TOKEN": SECRET, "QUOTED": 'pass"word\\1'}) as server:
        called(server, tmp_path, "f.environment")
        found = json.loads(str(texts(tmp_path)["result.json"]))
        assert (
            found["TOKEN"] == "[secret redacted]"
            and found["QUOTED"] == "[secret redacted]"
            and "PAOR_TEST" not in found
        )
    written = bytes_written(tmp_path)
    assert SECRET.encode() not in written and b"word\\\\1" not in written and b"[secret redacted]" in written


def test_policy_and_approvals_hold_for_tools_of_servers(tmp_path: Path) -> None:
    """Denied is not called; approved is called once."""
    with faulty(tmp_path) as server:
        assert called(server, tmp_path, "f.send", policy=Policy(deny=("f.s*",))).state == "Failed"
        (tmp_path / "b").mkdir()
        with engine_of(server, tmp_path / "b", "f.send", policy=Policy(approvals=("f.*",))) as engine:
            waiting = engine.run("Send it")
            assert waiting.waiting_for is not None and waiting.waiting_for.kind == "approval"
            assert done(tmp_path / "effects") == []
            assert engine.resume(waiting.run_id, answer={"approve": True}).state == "Done"
        assert done(tmp_path / "effects") == ["send"]
        (tmp_path / "c").mkdir()
        url = {"text": "http://169.254.169.254/latest"}
        assert called(server, tmp_path / "c", "f.send", arguments=url).state in ("Done", "Failed")
        assert done(tmp_path / "effects") == ["send"]


@pytest.mark.whole
def test_one_server_serves_sync_and_async_runs_and_threads(tmp_path: Path) -> None:
    """All at once, over one connection; each gets its own result."""
    with faulty(tmp_path) as server:
        tools = server.tools()
        results: list[str] = []

        def engine(number: int) -> Engine:
            model = ScriptedModel(script("f.echo", text=f"number {number}"))
            return Engine(model, tools, Journal(str(tmp_path / f"{number}.db"), "off"), builtins=False)

        def in_thread(number: int) -> None:
            with engine(number) as own:
                results.append(str(own.run("Say it").documents[0].read()))

        async def on_a_loop() -> None:
            async def one(number: int) -> None:
                with engine(number) as own:
                    results.append(str((await own.arun("Say it")).documents[0].read()))

            await asyncio.gather(*(one(number) for number in range(10, 20)))

        threads = [threading.Thread(target=in_thread, args=(number,)) for number in range(10)]
        for thread in threads:
            thread.start()
        asyncio.run(on_a_loop())
        for thread in threads:
            thread.join()
        assert sorted(results) == sorted(f"echo: number {number}" for number in range(20))


def test_a_cancelled_task_takes_its_call_with_it(tmp_path: Path) -> None:
    """The coroutine of an async run is cancelled: the request is cancelled too, and nobody waits for it."""
    with faulty(tmp_path) as server, engine_of(server, tmp_path, "f.hang") as engine:

        async def cancelled() -> None:
            task = asyncio.create_task(engine.arun("Hang"))
            while not done(tmp_path / "effects"):
                await asyncio.sleep(0.02)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(cancelled())
        run_id = engine.journal.runs()[0].run_id
        result = engine.resume(run_id)
        assert result.waiting_for is not None and result.waiting_for.kind == "in_doubt"


def test_a_run_replays_identically_with_the_server_gone(tmp_path: Path) -> None:
    """Also against an engine, with the tools of then."""
    arguments = {"a": 2, "b": 3}
    with modern(tmp_path) as server, engine_of(server, tmp_path, "m.add", arguments=arguments) as engine:
        result = engine.run("Add")
        assert result.documents[0].read() == '{\n  "total": 5\n}'
        server.close()
        assert replay(engine.journal, result.run_id).identical
        assert replay(engine.journal, result.run_id, engine).identical
    with Journal(str(tmp_path / "runs.db")) as alone:
        assert replay(alone, result.run_id).identical


HTTP_FAULTS: dict[str, tuple[str, str]] = {
    "http_401": ("tool_error", "HTTP 401"),
    "http_429": ("tool_error", "HTTP 429"),
    "http_500": ("in_doubt", ""),
    "http_502": ("in_doubt", ""),
    "http_cut": ("in_doubt", ""),
    "http_garbage": ("in_doubt", ""),
    "http_huge": ("in_doubt", ""),
    "http_packed": ("in_doubt", ""),
    "http_redirect": ("tool_error", "refused http_redirect"),
    "http_html": ("in_doubt", ""),
    "http_gateway": ("in_doubt", ""),
    "http_forgot": ("tool_error", "did not take the call: HTTP 404: no such session"),
    "http_accepted": ("in_doubt", ""),
    "http_other": ("in_doubt", ""),
    "http_events": ("in_doubt", ""),
    "echo": ("ok", ""),
}


@pytest.mark.whole
def test_http_faults_end_as_what_is_known_of_them(tmp_path: Path) -> None:
    """Turned away is an error, lost is in doubt; the server does note the call in each case."""
    with over_http(FAULTY, tmp_path) as url:
        for tool, (expected, words) in HTTP_FAULTS.items():
            folder = tmp_path / tool
            folder.mkdir()
            with McpServer(url, name="f", message_bytes=200_000) as server:
                result = called(server, folder, f"f.{tool}")
            assert (outcome(folder), tool) == (expected, tool)
            assert words in error_of(folder), error_of(folder)
            assert result.status == ("waiting" if expected == "in_doubt" else "done")


@pytest.mark.whole
def test_an_answer_as_events_may_be_as_large_as_any_other(tmp_path: Path) -> None:
    """The package's own bound of a million bytes for one event is not ours."""
    with over_http(FAULTY, tmp_path) as url, McpServer(url, name="f") as server:
        called(server, tmp_path, "f.http_long_event")
    assert len(str(texts(tmp_path)["result.txt"])) == 3_000_000


@pytest.mark.whole
def test_a_session_that_the_server_forgot_is_opened_anew(tmp_path: Path) -> None:
    """The call was turned away, so it is made again, once; also when the refusal is JSON of the protocol."""
    with over_http(FAULTY, tmp_path) as url, McpServer(url, name="f") as server:
        called(server, tmp_path, "f.http_forgot")
    assert done(tmp_path / "effects") == ["http_forgot", "http_forgot"]


@pytest.mark.whole
def test_what_servers_send_stands_in_no_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The package would log the answer that it cannot read, with a traceback."""
    with over_http(FAULTY, tmp_path) as url:
        for tool in ("http_garbage", "http_events", "http_other"):
            (tmp_path / tool).mkdir()
            with McpServer(url, name="f") as server:
                called(server, tmp_path / tool, f"f.{tool}")
    assert "not json" not in caplog.text and "Traceback" not in caplog.text


def test_headers_reach_the_server_and_nothing_else(tmp_path: Path) -> None:
    """A server that says the token again is not heard, in whatever form it went over the wire."""
    (tmp_path / "b").mkdir()
    with over_http(FAULTY, tmp_path) as url:
        with McpServer(url, name="f", headers={"Authorization": f"Bearer {SECRET}"}) as server:
            called(server, tmp_path, "f.http_headers")
        target = url.replace("http://", "http://user:hunter2%20hunter@") + "?key=query-secret-1"
        with McpServer(target) as server:
            assert "hunter2" not in server.settings.shown and "secret" not in server.settings.shown
            server.tools()
            called(server, tmp_path / "b", f"{server.prefix}.http_headers")
    assert texts(tmp_path) == {"result.txt": "[secret redacted]"}
    assert texts(tmp_path / "b") == {"result.txt": "Basic [secret redacted]"}
    assert SECRET.encode() not in bytes_written(tmp_path)


def test_a_server_that_is_not_there_any_more_turned_the_call_away(tmp_path: Path) -> None:
    """A connection that nobody takes is no effect in doubt."""
    with over_http(FAULTY, tmp_path) as url:
        server = McpServer(url, name="f")
        server.tools()
    with server:
        assert called(server, tmp_path, "f.send").state == "Done"
        assert outcome(tmp_path) == "tool_error" and "cannot be reached" in error_of(tmp_path)


def test_a_closed_server_is_an_error_of_the_call(tmp_path: Path) -> None:
    """And never an exception out of a run."""
    with faulty(tmp_path) as server:
        server.tools()
    result: Any = called(server, tmp_path, "f.echo")
    assert result.state == "Done" and "was closed" in error_of(tmp_path)


def answer_with(text: bytes) -> bytes:
    return (
        b'{"jsonrpc": "2.0", "id": 7, "result": {"content": [{"type": "text", "text": "' + text + b'"}]}}\n'
    )


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (answer_with(b"plain"), "plain"),
        (answer_with(b"a\xffb"), "a\ufffdb"),
        (answer_with(b"a\\ud800b"), "a?b"),
        (answer_with(b'", "deep": ' + b"[" * 900 + b"]" * 900 + b', "x": "'), None),
        (answer_with(b'" "'), None),
        (answer_with(b"cut")[:-9] + b"\n", None),
        (b'{"jsonrpc": "2.0", "id": 7, "result": NaN, "id": 8}\n', None),
        (b'{"id": 7, "result": {}}\n', None),
        (b'{"jsonrpc": "2.0", "id": 7, "error": {"code": 1}}\n', None),
        (b'[{"jsonrpc": "2.0", "id": 7, "result": {"content": [{"text": "of a batch"}]}}]\n', "of a batch"),
    ],
)
def test_an_answer_in_a_line_that_cannot_be_read_is_waited_for_no_longer(
    line: bytes, said: str | None
) -> None:
    """What can be made of it is read; else it is an error of its number, after which nobody knows what the server did."""
    (first,) = messages_of(line, [3, 7])
    assert first.id == 7
    if said is None:
        assert first.error.code == -32700
    else:
        assert first.result["content"][0]["text"] == said


@pytest.mark.parametrize(
    "line",
    [
        b'  "jsonrpc": "2.0",\n',
        b'{"jsonrpc": "2.0", "result": {}}\n',
        b'{"jsonrpc": "2.0", "id": null, "error": {"code": -32700, "message": "what?"}}\n',
        b'{"jsonrpc": "2.0", "id": 70, "result": {"content": [\n',
    ],
)
def test_an_answer_that_does_not_say_to_what_ends_every_open_request(line: bytes) -> None:
    """A server that writes its JSON over several lines, or forgets the number, answers none of them."""
    assert [(one.id, one.error.code) for one in messages_of(line, [3, 7])] == [(3, -32700), (7, -32700)]


@pytest.mark.parametrize(
    "line",
    [
        b"DEBUG starting\n",
        b"{not json}\n",
        b"[1,2]\n",
        b"\n",
        b"\xff\n",
        b'{"id": 7}\n',
        b'{"level": "warn", "error": "slow"}\n',
        b'DEBUG got {"jsonrpc": "2.0", "id": 7, "method": "tools/call"}}\n',
    ],
)
def test_what_a_server_prints_is_no_answer(line: bytes) -> None:
    """Banners and prints between the messages."""
    assert messages_of(line, [3, 7]) == []
