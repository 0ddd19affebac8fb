"""A server of protocol 2026-07-28 without the SDK: tasks, structured content, changed lists, traces, names."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from paor import Engine, Journal, McpServer, ScriptedModel
from paor.errors import AnswerNeeded, NotStarted, RunChanged
from paor.otel import OpenTelemetry, spans_of
from paor.testing import Walk, walk

from ..support.effort import examples
from ..support.mcp_kit import (
    FAULTY,
    HERE,
    MODERN,
    called,
    command,
    done,
    engine_of,
    error_of,
    faulty,
    script,
    sound,
    texts,
)

RAW = HERE / "raw_modern_server.py"


@contextmanager
def raw(tmp_path: Path, *more: str, **options: Any) -> Iterator[McpServer]:
    """A connection to the server without the SDK; its tools are called ``r.NAME``."""
    with McpServer(command(RAW, tmp_path / "effects", *more), **{"name": "r", **options}) as server:
        yield server


def tool_of(server: McpServer, name: str) -> Any:
    return next(tool for tool in server.tools() if tool.name.partition(".")[2] == name)


# -- parts of a listing ---------------------------------------------------------------------------------------------

GOOD = {"type": "object", "properties": {"text": {"type": "string"}}}
TOOL: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "name": st.one_of(st.just("odd"), st.none(), st.integers()),
        "inputSchema": st.one_of(st.just(GOOD), st.sampled_from([{}, {"type": "array"}, {"anyOf": [GOOD]}, None, "object", 1])),
        "description": st.one_of(st.text(max_size=5), st.integers()),
        "annotations": st.one_of(st.just({"readOnlyHint": True}), st.just("many"), st.just({"readOnlyHint": "yes?"})),
        "outputSchema": st.one_of(st.just(GOOD), st.just([])),
    },
)  # fmt: skip


@settings(max_examples=examples(60))
@given(odd=st.lists(st.one_of(TOOL, st.text(max_size=3), st.none(), st.lists(st.integers())), max_size=5), place=st.integers(0, 5), version=st.sampled_from(["2025-06-18", "2025-11-25", "2026-07-28"]))  # fmt: skip
def test_whatever_else_is_listed_a_good_tool_is_kept_and_each_bad_one_is_named(
    odd: list[Any], place: int, version: str
) -> None:
    """One bad tool of hundreds took the whole server away."""
    from mcp.shared.message import SessionMessage
    from mcp_types import JSONRPCRequest, JSONRPCResponse
    from mcp_types.methods import parse_server_result

    from .inside import SiftedTransport

    wire = SiftedTransport(None)
    wire.version = version
    wire.sent(SessionMessage(JSONRPCRequest(jsonrpc="2.0", id=1, method="tools/list")))
    listed = [*odd[:place], {"name": "good", "inputSchema": GOOD}, *odd[place:]]
    page = {"tools": list(listed), "ttlMs": 0, "cacheScope": "private", "resultType": "complete"}
    came = wire.came(SessionMessage(JSONRPCResponse(jsonrpc="2.0", id=1, result=page)))
    parsed: Any = parse_server_result("tools/list", version, came.message.result)
    assert "good" in [tool.name for tool in parsed.tools]
    lost = len(listed) - len(parsed.tools)
    names = {item.get("name") for item in odd if isinstance(item, dict)}
    assert bool(wire.refused) == bool(lost) and len(wire.refused) <= lost
    assert all(name in names or name.startswith("number ") for name in wire.refused)
    assert all("\n" not in reason for reason in wire.refused.values())


@pytest.mark.parametrize("mode", ["auto", "modern"])
def test_a_bad_tool_of_a_server_is_left_out_and_the_others_work(tmp_path: Path, mode: str) -> None:
    """Its reason is in `skipped`; a pattern that names it is no mistake of the host's."""
    with raw(tmp_path, "--listing", "bad", mode=mode, effects={"header": "read", "echo": "read"}) as server:
        assert len(server.tools()) == 8
        assert set(server.skipped) == {"array", "none", "hints", "header", "number 4 of its page", "number 5 of its page"}  # fmt: skip
        assert "x-mcp-header" in server.skipped["header"] and "inputSchema" in server.skipped["none"]
        called(server, tmp_path, "r.echo")
        assert texts(tmp_path) == {"result.txt": "hi"}


@pytest.mark.parametrize("script", [pytest.param(MODERN, marks=pytest.mark.whole), RAW])
def test_names_are_the_same_in_every_mode_of_the_protocol(tmp_path: Path, script: Path) -> None:
    """A policy, an approval and a recorded run name tools: they must not depend on which protocol was spoken."""
    found = {}
    for mode in ("auto", "modern", "legacy") if script == MODERN else ("auto", "modern"):
        with McpServer(command(script, tmp_path / "effects"), mode=mode) as server:
            found[mode] = [tool.name for tool in server.tools()]
    assert len({tuple(names) for names in found.values()}) == 1, found
    assert found["modern"][0].startswith(("modern.", "raw."))


def test_a_server_of_the_old_protocol_is_refused_where_only_the_new_one_is_wanted(tmp_path: Path) -> None:
    """In one line that says so."""
    with faulty(tmp_path, mode="modern") as server, pytest.raises(NotStarted, match="2026-07-28"):
        server.tools()


# -- structured content ---------------------------------------------------------------------------------------------

VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**53), 2**53), st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=8)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text("abc", min_size=1, max_size=3), inner, max_size=3)),
    max_leaves=6,
)  # fmt: skip


@settings(
    max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(value=VALUES, texted=st.sampled_from([None, "same", "other"]))
def test_structured_content_of_any_form_is_kept(both: list[Any], value: Any, texted: str | None) -> None:
    """Object, list, number, truth, text or null, with the same text, another one or none, in either protocol."""
    words = {"same": json.dumps(value), "other": "and so on"}.get(str(texted))
    result: dict[str, Any] = {"structuredContent": value}
    if words is not None:
        result["content"] = [{"type": "text", "text": words}]
    for tool in both:
        found = asyncio.run(tool.run(text=json.dumps(result)))
        kept = {document.name: document.data for document in found.documents}
        if value is None and texted is not None:  # null beside words says nothing
            assert kept == {"result.txt": words}
            continue
        inner = value["result"] if isinstance(value, dict) and [*value] == ["result"] else value
        name = "result.txt" if isinstance(inner, str) and inner is not value else "result.json"
        assert kept[name] == inner if name == "result.txt" else json.loads(kept[name]) == value
        assert ("and so on" in kept.values()) == (texted == "other")
        assert len(kept) == 1 + (texted == "other")


def test_a_text_that_is_the_only_member_of_structured_content_too_is_told_once(both: list[Any]) -> None:
    """Under any key; as the reference server for files says what is in one. Other words beside it are kept with it."""
    for said, names in (("plums", {"result.txt"}), ("two plums", {"result.json", "result.txt"})):
        block = {"type": "text", "text": said}
        told = json.dumps({"structuredContent": {"content": "plums"}, "content": [block]})
        for tool in both:
            kept = {document.name: document.data for document in asyncio.run(tool.run(text=told)).documents}
            assert kept.keys() == names and kept["result.txt"] == said


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Any]]:
    """A tool that returns what it is given, in the new protocol and in the old one."""
    folder = tmp_path_factory.mktemp("both")
    with raw(folder) as new, McpServer(command(FAULTY, folder / "old"), name="f") as old:
        yield [tool_of(new, "structured"), tool_of(old, "any")]


# -- tasks ----------------------------------------------------------------------------------------------------------


def test_a_call_that_is_a_task_is_polled_until_it_is_done(tmp_path: Path) -> None:
    """Without a question, where its server is quick enough."""
    (tmp_path / "ready").touch()
    with raw(tmp_path) as server:
        called(server, tmp_path, "r.bake")
    assert json.loads(str(texts(tmp_path)["result.json"])) == ["a", 1, None] and done(
        tmp_path / "effects"
    ) == ["bake"]


@pytest.mark.parametrize("effect", ["once", "read"])
@pytest.mark.parametrize("task_s", [0, 0.05])
def test_a_task_that_takes_long_is_polled_by_the_next_process_and_never_begun_again(
    tmp_path: Path, effect: str, task_s: float
) -> None:
    """The handle is in the journal: another engine with another connection goes on, as often as it takes."""
    options: dict[str, Any] = {"task_s": task_s, "effects": {"bake": effect}}
    with raw(tmp_path, **options) as server, engine_of(server, tmp_path, "r.bake") as engine:
        waiting = engine.run("Bake")
        assert waiting.waiting_for is not None and "works on bake" in waiting.waiting_for.message
    for last in (False, True):
        if last:
            (tmp_path / "ready").touch()
        with raw(tmp_path, **options) as server, engine_of(server, tmp_path, "r.bake") as engine:
            result = engine.resume(waiting.run_id, answer={}, question=waiting.waiting_for.id)
            assert (result.state == "Done") == last, result.waiting_for
            if last:
                sound(engine, waiting.run_id)
            else:
                waiting = result
    assert json.loads(str(texts(tmp_path)["result.json"])) == ["a", 1, None]
    assert done(tmp_path / "effects") == ["bake"]


def test_a_driver_that_is_lost_while_it_polls_leaves_a_task_to_be_polled_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its handle is in the journal before it is polled, so no crash puts it in doubt, also of a once call."""
    (tmp_path / "ready").touch()
    with raw(tmp_path) as server, engine_of(server, tmp_path, "r.bake") as engine:
        kind = type(tool_of(server, "bake"))
        invoke = kind.invoke

        def lost(self: Any, arguments: Any, context: Any) -> Any:
            if context.resumption is not None:
                raise KeyboardInterrupt
            return invoke(self, arguments, context)

        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(kind, "invoke", lost)
            engine.run("Bake")
        run_id = engine.journal.runs()[0].run_id
        assert engine.resume(run_id).state == "Done"
        sound(engine, run_id)
    assert done(tmp_path / "effects") == ["bake"]


def baking(effects: Path, journal: Journal) -> Engine:
    """Return an engine that bakes, as a task of the server; its server ends with the process."""
    server = McpServer(command(RAW, effects), name="r")
    CONNECTED.append(server)
    return Engine(ScriptedModel(script("r.bake", text="hi")), server.tools(), journal, builtins=False)


CONNECTED: list[McpServer] = []
"""Servers of this process that `baking` has connected to."""

KILLS = {
    "its handle is received": ("wait", True),
    "its handle is journaled": ("wait", False),
    "it is polled": ("", False),
    "its result is received": ("execute", True),
    "its result is journaled": ("execute", False),
}
"""Where a driver is killed: before or after its row with this trigger; while it polls by the server itself."""


@pytest.mark.whole
@pytest.mark.parametrize("when", KILLS)
def test_a_driver_that_is_killed_at_a_task_loses_nothing_and_begins_nothing_twice(
    tmp_path: Path, paor_kill: Callable[..., Walk], when: str
) -> None:
    """A once call is in doubt only where its handle was in no journal; nobody is asked anything else."""
    (tmp_path / "ready").touch()
    make = partial(baking, tmp_path / "effects")
    with make(Journal(tmp_path / "whole.db", "off")) as engine:
        whole = walk(engine.journal, engine.run("Bake").run_id)
    assert done(tmp_path / "effects") == ["bake"] and whole.triggers.count("wait") == 1
    (tmp_path / "effects").unlink()
    trigger, before = KILLS[when]
    if not trigger:
        (tmp_path / "kill").touch()
    row = whole.triggers.index(trigger) if trigger else len(whole.triggers)
    seen = paor_kill(make, "Bake", row, before=before, doubt={"outcome": "done", "result": "by hand"})
    while CONNECTED:
        CONNECTED.pop().close()
    in_doubt = when == "its handle is received"
    assert (seen.state, seen.triggers.count("wait"), done(tmp_path / "effects")) == ("Done", 1, ["bake"])
    assert (seen.calls[-1].ok is None) is in_doubt


def test_a_task_whose_server_is_away_keeps_its_handle(tmp_path: Path) -> None:
    """A server that cannot be reached when the run goes on has done nothing, and the task is still its."""
    with raw(tmp_path, task_s=0) as server, engine_of(server, tmp_path, "r.bake") as engine:
        waiting = engine.run("Bake")
        server.settings = type(server.settings)([sys.executable, "-c", "pass"], name="r", task_s=0)
        asyncio.run_coroutine_threadsafe(server._drop(), server._running()).result(30)
        again = engine.resume(waiting.run_id, answer={})
        assert again.waiting_for is not None and "works on bake" in again.waiting_for.message
        server.settings = type(server.settings)(command(RAW, tmp_path / "effects"), name="r")
        (tmp_path / "ready").touch()
        assert engine.resume(waiting.run_id, answer={}, question=again.waiting_for.id).state == "Done"
    assert done(tmp_path / "effects") == ["bake"]


def test_a_task_that_nobody_waits_for_any_more_is_cancelled(tmp_path: Path) -> None:
    """A decline tells the server; what it has done by then nobody knows, so a once effect is in doubt."""
    with raw(tmp_path, task_s=0) as server, engine_of(server, tmp_path, "r.bake") as engine:
        waiting = engine.run("Bake")
        doubt = engine.resume(waiting.run_id, answer={"action": "decline"})
        assert doubt.waiting_for is not None and doubt.waiting_for.kind == "in_doubt"
    assert done(tmp_path / "effects") == ["bake", "tasks/cancel"]


def test_a_task_asks_in_the_middle_and_gets_the_answer_once(tmp_path: Path) -> None:
    """However often the server lists what it asks."""
    with raw(tmp_path) as server, engine_of(server, tmp_path, "r.asking") as engine:
        waiting = engine.run("Paint")
        assert waiting.waiting_for is not None and "Which colour?" in waiting.waiting_for.message
        assert engine.resume(waiting.run_id, answer={"colour": "red"}).state == "Done"
        sound(engine, waiting.run_id)
    assert json.loads(str(texts(tmp_path)["result.txt"])) == {
        "colour": {"action": "accept", "content": {"colour": "red"}}
    }
    assert done(tmp_path / "effects") == ["asking", "tasks/update"]


def test_a_task_that_fails_or_is_forgotten_is_an_error_or_in_doubt(tmp_path: Path) -> None:
    """What the server says of it is the error; of a task that it knows no more nobody knows what it did."""
    with raw(tmp_path) as server:
        called(server, tmp_path, "r.failing")
        assert error_of(tmp_path) == "the task of failing failed: the oven is cold"
        (tmp_path / "b").mkdir()
        server.settings = type(server.settings)(server.settings.target, name="r", task_s=0)
        with engine_of(server, tmp_path / "b", "r.bake") as engine:
            waiting = engine.run("Bake")
            (tmp_path / "task-t-bake.json").unlink()
            doubt = engine.resume(waiting.run_id, answer={})
            assert doubt.waiting_for is not None and doubt.waiting_for.kind == "in_doubt"
            assert "knows the task of bake no more" in doubt.waiting_for.message


def test_a_task_of_a_call_outside_any_run_gives_its_handle(tmp_path: Path) -> None:
    with raw(tmp_path, task_s=0) as server, pytest.raises(AnswerNeeded, match="works on bake"):
        asyncio.run(tool_of(server, "bake").run(text="x"))


# -- lists that change ----------------------------------------------------------------------------------------------


def test_a_changed_list_is_noticed_and_no_call_is_made_of_a_tool_that_is_another_one_now(
    tmp_path: Path,
) -> None:
    """The arguments were checked against the parameters of then."""
    with raw(tmp_path) as server:
        tools: dict[str, Any] = {tool.name: tool for tool in server.tools()}
        heard = threading.Event()
        session = server._session
        assert session is not None
        _until(lambda: session.is_listening, heard)
        asyncio.run(tools["r.grow"].run(text="x"))
        _until(lambda: server.changed, heard)
        with pytest.raises(NotStarted, match="has changed the parameters of echo"):
            asyncio.run(tools["r.echo"].run(text="x"))
        asyncio.run(tools["r.meta"].run(text="x"))  # the others are as they were
        again: dict[str, Any] = {tool.name: tool for tool in server.refresh()}
        assert not server.changed and again["r.echo"].parameters["required"] == ["text"]
        asyncio.run(again["r.echo"].run(text="x"))
    assert done(tmp_path / "effects") == ["grow", "meta", "echo"]


def _until(holds: Any, pause: threading.Event) -> None:
    """Wait until something holds; it is made by another thread, and comes."""
    for _ in range(3000):
        if holds():
            return
        pause.wait(0.01)
    raise AssertionError("it never came")


def test_a_run_whose_tool_the_server_has_changed_is_refused_as_for_any_tool(tmp_path: Path) -> None:
    """And goes on once the change is accepted."""
    with raw(tmp_path) as server, _engine(server, tmp_path) as engine:
        waiting = engine.run("Paint")
        assert waiting.waiting_for is not None
    (tmp_path / "grown").touch()
    with raw(tmp_path) as server, _engine(server, tmp_path) as engine:
        with pytest.raises(RunChanged, match=r"r\.echo"):
            engine.resume(waiting.run_id, answer={"colour": "red"})
        assert engine.resume(waiting.run_id, answer={"colour": "red"}, accept_changes=True).state == "Done"


def _engine(server: McpServer, folder: Path) -> Engine:
    return engine_of(server, folder, "r.asking")


# -- traces ---------------------------------------------------------------------------------------------------------


def test_the_span_of_a_call_is_sent_along(tmp_path: Path) -> None:
    """As the specification says, in `_meta`; it is the id of the span that the journal gives."""
    hook = OpenTelemetry(InMemorySpanExporter())
    journal = Journal(str(tmp_path / "runs.db"), "off")
    with raw(tmp_path) as server, Engine(ScriptedModel(script("r.meta", text="x")), server.tools(), journal, builtins=False, hooks=[hook]) as engine:  # fmt: skip
        result = engine.run("Say what came along")
        (span,) = [
            item for item in spans_of(engine.journal, result.run_id) if item.name == "execute_tool r.meta"
        ]
    assert (
        json.loads(str(texts(tmp_path)["result.txt"]))["traceparent"]
        == f"00-{span.trace_id}-{span.span_id}-01"
    )


def test_nothing_is_sent_along_without_a_trace(tmp_path: Path) -> None:
    with raw(tmp_path) as server:
        called(server, tmp_path, "r.meta")
    assert "traceparent" not in str(texts(tmp_path)["result.txt"])
