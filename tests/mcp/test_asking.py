"""Servers that ask: the run waits, any process answers, and the call goes on or is made anew as its effect allows."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from paor import Engine, Journal, Limits, McpServer, Result
from paor.errors import InvalidAnswer

from ..support.journey import answered
from ..support.mcp_kit import (
    MODERN,
    bytes_written,
    called,
    done,
    engine_of,
    faulty,
    modern,
    outcome,
    over_http,
    script,
    sound,
    texts,
)

YES = {"ok": True}


def asked(result: Result) -> str:
    """Return what a run waits for: the kind, and the end of the question."""
    assert result.waiting_for is not None, result
    return f"{result.waiting_for.kind}: {result.waiting_for.message}"


def test_a_question_of_the_new_protocol_waits_and_goes_on_in_the_same_process(tmp_path: Path) -> None:
    """The request is made again with the answer and the server's state: that is the protocol, not a second call."""
    with (
        modern(tmp_path) as server,
        engine_of(server, tmp_path, "m.delete", arguments={"path": "x"}) as engine,
    ):
        waiting = engine.run("Delete x")
        assert asked(waiting) == "elicitation: The MCP server m, for delete, asks: Delete x?"
        assert waiting.waiting_for is not None
        assert waiting.waiting_for.schema["required"] == ["ok"] and waiting.waiting_for.tool == "m.delete"
        assert done(tmp_path / "effects") == []
        with pytest.raises(InvalidAnswer, match=r"answer\.ok is required"):
            engine.resume(waiting.run_id, answer={"note": "?"})
        with pytest.raises(InvalidAnswer):
            engine.resume(waiting.run_id, answer={})
        assert engine.resume(waiting.run_id, answer={"ok": True, "note": "fine"}).state == "Done"
        assert done(tmp_path / "effects") == ["delete"]
        sound(engine, waiting.run_id)
    assert texts(tmp_path) == {"result.txt": "accept x fine"}


def test_several_questions_come_one_after_the_other(tmp_path: Path) -> None:
    """Each is a wait of its own; the call is made when all are answered."""
    with (
        modern(tmp_path) as server,
        engine_of(server, tmp_path, "m.paint", arguments={"path": "x"}) as engine,
    ):
        waiting = engine.run("Paint x")
        waiting = engine.resume(waiting.run_id, answer=YES)
        assert asked(waiting).endswith("Which colour?") and done(tmp_path / "effects") == []
        assert answered(engine, waiting.run_id, answer={"colour": "blue"}).state == "Done"
        sound(engine, waiting.run_id)
    assert texts(tmp_path) == {"result.txt": "accept blue"} and done(tmp_path / "effects") == ["paint"]


def test_a_question_that_is_declined_tells_the_server_so(tmp_path: Path) -> None:
    """The tool decides what that means."""
    with (
        modern(tmp_path) as server,
        engine_of(server, tmp_path, "m.delete", arguments={"path": "x"}) as engine,
    ):
        waiting = engine.run("Delete x")
        assert engine.resume(waiting.run_id, answer={"action": "decline"}).state == "Done"
    assert texts(tmp_path) == {"result.txt": "decline x "}


@pytest.mark.whole
def test_another_process_answers_and_the_same_server_goes_on(tmp_path: Path) -> None:
    """Over HTTP the server lives on, and takes its own state back from anybody."""
    with over_http(MODERN, tmp_path) as url:
        server = McpServer(url, name="m")
        with server, engine_of(server, tmp_path, "m.delete", arguments={"path": "x"}) as engine:
            run_id = engine.run("Delete x").run_id
        code = (
            "import sys\n"
            "from paor import Engine, McpServer, ScriptedModel\n"
            "from tests.support.mcp_kit import script\n"
            "with McpServer(sys.argv[1], name='m') as server:\n"
            "    replies = script('m.delete', path='x')\n"
            "    with Engine(ScriptedModel(replies), server.tools(), sys.argv[2], builtins=False) as engine:\n"
            "        print(engine.resume(sys.argv[3], answer={'ok': True}).state)\n"
        )
        words = [sys.executable, "-c", code, url, str(tmp_path / "runs.db"), run_id]
        root = Path(__file__).parents[2]
        said = subprocess.run(words, capture_output=True, text=True, cwd=root, check=False)
    assert said.stdout == "Done\n", said.stderr
    assert done(tmp_path / "effects") == ["delete"] and texts(tmp_path) == {"result.txt": "accept x "}


@pytest.mark.whole
@pytest.mark.parametrize("way", ["once", "asks_first", "idempotent"])
@pytest.mark.parametrize("tool", ["m.delete", "f.ask"])
def test_when_the_process_that_held_the_session_is_gone(tool: str, way: str, tmp_path: Path) -> None:
    """
    A child process's server dies with us: its state is worth nothing to the next one, and an open call is lost.

    A call that may be repeated is made anew, with the answer; a once call is in doubt until somebody says retry. In no
    case is the question asked twice, nor is there a second effect.
    """
    ways: dict[str, dict[str, Any]] = {
        "once": {},
        "asks_first": {"asks_first": True},
        "idempotent": {"effects": {"*": "idempotent"}},
    }
    options = ways[way]
    start = modern if tool == "m.delete" else faulty
    arguments = {"path": "x"} if tool == "m.delete" else {"text": "hi"}
    with (
        start(tmp_path, **options) as server,
        engine_of(server, tmp_path, tool, arguments=arguments) as engine,
    ):
        run_id = engine.run("Do it").run_id
    with (
        start(tmp_path, **options) as server,
        engine_of(server, tmp_path, tool, arguments=arguments) as engine,
    ):
        result = engine.resume(run_id, answer=YES)
        if way == "once":
            assert asked(result).startswith("in_doubt: ") and done(tmp_path / "effects") == []
            result = answered(engine, run_id, outcome="retry")
        assert result.state == "Done"
        assert len(done(tmp_path / "effects")) == 1
        sound(engine, run_id)
    assert outcome(tmp_path) == "ok"


def test_an_open_call_of_the_old_protocol_goes_on_while_its_process_lives(tmp_path: Path) -> None:
    """The server waits within its call; other calls get a connection of their own meanwhile."""
    with faulty(tmp_path) as server, engine_of(server, tmp_path, "f.ask_twice") as engine:
        waiting = engine.run("Ask twice")
        assert asked(waiting).endswith("First?")
        (tmp_path / "other").mkdir()
        assert called(server, tmp_path / "other", "f.echo").state == "Done"
        waiting = engine.resume(waiting.run_id, answer=YES)
        assert asked(waiting).endswith("Second?")
        assert answered(engine, waiting.run_id, answer={"ok": False}).state == "Done"
        sound(engine, waiting.run_id)
    assert texts(tmp_path) == {"result.txt": json.dumps([{"ok": True}, {"ok": False}])}
    assert done(tmp_path / "effects") == ["asked"]


@pytest.mark.whole
def test_the_same_question_asked_twice_is_answered_twice(tmp_path: Path) -> None:
    """Only a call that is made anew gets the answers of before, each once and in order."""
    with (
        faulty(tmp_path, effects={"*": "read"}) as server,
        engine_of(server, tmp_path, "f.ask_same") as engine,
    ):
        run_id = engine.run("Ask the same").run_id
        waiting = engine.resume(run_id, answer={"ok": True})
        assert waiting.status == "waiting", "the second question is another one"
    with (
        faulty(tmp_path, effects={"*": "read"}) as server,
        engine_of(server, tmp_path, "f.ask_same") as engine,
    ):
        assert answered(engine, run_id, answer={"ok": False}).state == "Done"
    assert texts(tmp_path) == {"result.txt": json.dumps([{"ok": True}, {"ok": False}])}


@pytest.mark.whole
def test_calls_that_are_held_are_few(tmp_path: Path) -> None:
    """The oldest is given up first, and then made anew or in doubt."""
    with faulty(tmp_path, held_max=1) as server:
        runs = []
        for number in range(2):
            folder = tmp_path / str(number)
            folder.mkdir()
            with engine_of(server, folder, "f.ask") as engine:
                runs.append((folder, engine.run("Ask").run_id))
        kinds = []
        for folder, run_id in runs:
            with engine_of(server, folder, "f.ask") as engine:
                result = engine.resume(run_id, answer=YES)
                kinds.append(result.waiting_for.kind if result.waiting_for else result.state)
        assert kinds == ["in_doubt", "Done"]


@pytest.mark.parametrize("tool", ["f.url_form", "f.visit"])
def test_a_question_can_be_a_url_to_visit(tool: str, tmp_path: Path) -> None:
    """Nothing is opened; a person goes there and says so."""
    with faulty(tmp_path) as server, engine_of(server, tmp_path, tool) as engine:
        waiting = engine.run("Sign in")
        assert "Visit https://example.org/in, then accept with an empty answer." in asked(waiting)
        assert engine.resume(waiting.run_id, answer={}).state == "Done"
        sound(engine, waiting.run_id)
    assert outcome(tmp_path) == "ok"
    assert texts(tmp_path)["result.txt"] in ('{"action": "accept"}', "signed in")


def test_a_question_nobody_answers_in_time_is_declined(tmp_path: Path) -> None:
    """As any other question of a run."""
    options: dict[str, Any] = {"arguments": {"path": "x"}, "limits": Limits(elicitation_timeout_s=0.001)}
    with modern(tmp_path) as server, engine_of(server, tmp_path, "m.delete", **options) as engine:
        result = engine.run("Delete x")
        while result.status == "waiting":
            result = engine.resume(result.run_id)
    assert texts(tmp_path) == {"result.txt": "decline x "}


def test_models_and_folders_are_given_to_no_server_unless_the_host_says_so(tmp_path: Path) -> None:
    """Sampling is paid for by the run, and recorded as its own request."""
    with faulty(tmp_path) as server:
        for tool, words in (("sample", "Sampling not supported"), ("folders", "List roots not supported")):
            (tmp_path / tool).mkdir()
            called(server, tmp_path / tool, f"f.{tool}")
            assert words in str(texts(tmp_path / tool)["result.txt"])
    with faulty(tmp_path, sampling=True, roots=[tmp_path]) as server:
        (tmp_path / "b").mkdir()
        called(server, tmp_path / "b", "f.folders")
        assert tmp_path.as_uri() in str(texts(tmp_path / "b")["result.txt"])
        (tmp_path / "c").mkdir()
        replies = script("f.sample", text="hi")
        replies.insert(2, "The word is plum.")
        from paor import ScriptedModel

        with Engine(
            ScriptedModel(replies), server.tools(), str(tmp_path / "c" / "runs.db"), builtins=False
        ) as engine:
            result = engine.run("Sample")
            assert result.usage.calls == 5
            sound(engine, result.run_id)
        assert "The word is plum." in str(texts(tmp_path / "c")["result.txt"])


def test_a_server_cannot_ask_within_a_direct_call(tmp_path: Path) -> None:
    """Outside any run nobody can answer: the caller gets the question as an error, and nothing stays open."""
    import asyncio

    from paor.errors import AnswerNeeded

    with faulty(tmp_path) as server:
        tools = {tool.name: tool for tool in server.tools()}
        with pytest.raises(AnswerNeeded, match="Really"):
            asyncio.run(tools["f.ask"](text="hi"))
        with Journal(":memory:"):
            assert done(tmp_path / "effects") == []


def test_a_question_that_nobody_could_read_is_no_question(tmp_path: Path) -> None:
    """Two million characters would stand in the journal; the call is given up, and a ``once`` one is in doubt."""
    with faulty(tmp_path) as server:
        waiting = called(server, tmp_path, "f.ask_much").waiting_for
        assert waiting is not None and waiting.kind == "in_doubt" and "1,000,000 bytes" in waiting.message
    assert len(bytes_written(tmp_path)) < 1_000_000
