"""Listings: names, schemas, effect classes and descriptions of strangers, and settings that cannot be used."""

from __future__ import annotations

import asyncio
import builtins
import importlib.util
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paor import Engine, Journal, McpServer, ScriptedModel, mcp_tools
from paor.errors import MissingExtra, ToolError, UsageError

from ..support.effort import examples
from ..support.mcp_kit import FAULTY, SECRET, command, faulty
from .inside import NAME, Catalog, Listed, McpSettings, entries_of, fold_name, prefix_of, settings_of


def test_names_are_made_fit_and_none_takes_anothers_place(tmp_path: Path) -> None:
    """Tools whose names would be one get a digest each; descriptions are one line without controls."""
    with faulty(tmp_path, "--listing", "odd") as server:
        names = [tool.name for tool in server.tools()]
        assert len({fold_name(name) for name in names}) == len(names) == 9
        assert names[-1] == "f.ok" and all(NAME.match(name) for name in names)
        assert [name[:6] for name in names[:4]] == ["f.a_b_", "f.a.b_", "f.a_b_", "f.A_B_"]
        assert server.skipped == {"ok": "is listed twice; the first one counts"}
        description = server.tools()[0].description
        assert "\n" not in description and "\x1b" not in description and len(description) == 1000
        Catalog([tool.spec() for tool in server.tools()])


def test_descriptions_are_data_in_every_prompt(tmp_path: Path) -> None:
    """What a server writes there opens no section and is in no rules; decisions stay within the policy."""
    with faulty(tmp_path, "--listing", "odd") as server:
        model = ScriptedModel([{"steps": []}])
        with Engine(model, server.tools(), Journal(str(tmp_path / "x.db"), "off"), builtins=False) as engine:
            result = engine.run("Do nothing", mode="planner")
            (row, *_) = engine.journal.transitions(result.run_id)
            for place in row.request["prompt"]:
                text = str(engine.journal.payload(row.run, place["n"]).body)
                assert "\n## SYSTEM" not in text and "\x1b" not in text and "\u202e" not in text


def test_schemas_come_as_they_are_and_bad_ones_are_named(tmp_path: Path) -> None:
    """A schema that cannot be checked leaves its tool out; validation stays strict for all others."""
    with faulty(tmp_path, "--listing", "schemas") as server:
        tools = {tool.own_name: tool for tool in server.tools()}  # type: ignore[attr-defined]
        assert set(tools) == {"plain", "refs", "draft07", "union", "names"}
        assert set(server.skipped) == {"remote", "wrong", "pattern"}
        assert tools["draft07"].parameters["$schema"] == "http://json-schema.org/draft-07/schema#"
        schema = Catalog([tools["names"].spec()]).schema(tools["names"].spec())
        assert schema.names == ("self", "a-b c", "run")
        assert [problem.code for problem in schema.check({"x": 1})] == ["unknown"]


@pytest.mark.whole
def test_long_listings_are_paged_and_bounded(tmp_path: Path) -> None:
    """More tools than any prompt can hold need a choice; a listing without an end is given up."""
    with (
        faulty(tmp_path, "--listing", "huge") as server,
        pytest.raises(UsageError, match="offers 1200 tools"),
    ):
        server.tools()
    with faulty(tmp_path, "--listing", "huge", include=["tool 7*"]) as server:
        assert len(server.tools()) == 111
    with faulty(tmp_path, "--listing", "endless") as server:
        assert len(server.tools()) == 200
    with faulty(tmp_path, "--listing", "stuck") as server:
        assert [tool.name for tool in server.tools()] == ["f.only"]


def test_hints_count_only_where_the_host_says_so(tmp_path: Path) -> None:
    """A server that calls its sending tool read-only is not believed."""

    def effects(**options: Any) -> dict[str, str]:
        with faulty(tmp_path, **options) as server:
            return {
                tool.name: tool.effect for tool in server.tools() if tool.name[2:] in ("echo", "send", "put")
            }

    assert set(effects().values()) == {"once"}
    assert effects(trust_annotations=True) == {"f.echo": "read", "f.send": "read", "f.put": "idempotent"}
    assert effects(effects={"put": "read"}) == {"f.echo": "once", "f.send": "once", "f.put": "read"}
    assert effects(effects={"send": "once"}, trust_annotations=True)["f.send"] == "once"
    with pytest.raises(UsageError, match="offers no tool 'sned'"):
        effects(effects={"sned": "read"})


def test_a_server_that_calls_itself_as_paors_own_tools_takes_no_place_of_theirs(tmp_path: Path) -> None:
    """Else its extract would be called instead of document.extract."""
    with faulty(tmp_path, "--listing", "shadow", name="") as server:
        assert server.tools()[0].name == "mcp_document.echo"
        server.rename("mine")
        assert server.tools()[0].name == "mine.echo"


def told(server: McpServer) -> bool:
    """Whether the server has told of a change; asked anew each time."""
    return server.changed


def test_a_listing_that_changed_is_noticed_and_taken_between_runs(tmp_path: Path) -> None:
    """A tool that is gone is an error of its call; engines are made with what `refresh` returns."""
    with faulty(tmp_path, "--listing", "later") as server:
        assert "f.echo" in [tool.name for tool in server.tools()] and not told(server)
        tools = {tool.name: tool for tool in server.tools()}
        asyncio.run(tools["f.changed"](text="x"))
        until = time.monotonic() + 60
        while not told(server) and time.monotonic() < until:
            time.sleep(0.02)
        assert told(server)
        asyncio.run(tools["f.send"](text="x"))
        assert "f.echo" not in [tool.name for tool in server.refresh()] and not told(server)


@pytest.mark.parametrize(
    ("target", "options", "words"),
    [
        ("", {}, "expected a command"),
        ('python "', {}, "cannot be split"),
        ("   ", {}, "empty"),
        ("python x.py", {"name": "a.b"}, "name 'a.b'"),
        ("python x.py", {"headers": {"A": "b"}}, "headers are for a URL"),
        ("http://127.0.0.1/", {"env": {"A": "b"}}, "env and cwd are for a command"),
        ("http://127.0.0.1/", {"headers": {"A": "b\r\nX: y"}}, "line break"),
        ("python x.py", {"env": {"A": 1}}, "env must be a mapping"),
        ("python x.py", {"effects": {"a": "never"}}, "effects['a']"),
        ("python x.py", {"include": "a*"}, "include must be a list"),
        ("python x.py", {"mode": "old"}, "mode 'old'"),
        ("python x.py", {"call_s": 0}, "call_s must be a number above 0"),
        ("python x.py", {"timeout": 3}, "unexpected keyword argument 'timeout'"),
    ],
)
def test_settings_that_cannot_be_used_are_refused_at_once(target: str, options: Any, words: str) -> None:
    """Before any server is started."""
    with pytest.raises(UsageError) as error:
        McpServer(target, **options)
    assert words in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (["no-such-command-anywhere"], "there is no no-such-command-anywhere"),
        (
            [sys.executable, "-c", "import sys; sys.exit('the key is missing')"],
            "exit code 1, the key is missing",
        ),
        ([sys.executable, "-c", "print('hello')"], "exit code 0"),
        ("http://127.0.0.1:9/mcp", "cannot be reached"),
    ],
)
def test_a_server_that_is_none_is_one_line(target: Any, words: str) -> None:
    """With the last thing it said."""
    with pytest.raises(ToolError) as error:
        mcp_tools(target, name="f")
    assert words in str(error.value) and "\n" not in str(error.value)


@pytest.mark.whole
def test_a_server_that_says_nothing_is_given_up(tmp_path: Path) -> None:
    """Its input is closed when its time is over, not when it would have answered at last; its process is gone then."""
    (tmp_path / "silent.py").write_text(
        "import os, pathlib, select\n"
        "told = pathlib.Path(__file__).parent\n"
        "(told / 'pid').write_text(str(os.getpid()))\n"
        "is_open = True\n"
        "while is_open and select.select([0], [], [], 60)[0]:\n"
        "    is_open = os.read(0, 65536) != b''\n"
        "(told / 'input').write_text('open' if is_open else 'closed')\n"
    )
    with pytest.raises(ToolError, match="did not answer within 5 seconds"):
        mcp_tools([sys.executable, str(tmp_path / "silent.py")], connect_s=5)
    assert (tmp_path / "input").read_text() == "closed"
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_what_a_failing_server_says_holds_no_secret() -> None:
    """A traceback with a token in it is common."""
    code = "import os, sys; sys.exit('bad token ' + os.environ['TOKEN'])"
    with pytest.raises(ToolError) as error:
        mcp_tools([sys.executable, "-c", code], env={"TOKEN": SECRET})
    assert SECRET not in str(error.value) and "bad token [secret redacted]" in str(error.value)


def test_without_the_package_there_is_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """And importing paor imports nothing of it."""
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "mcp" else found(name, *more)
    )
    with pytest.raises(MissingExtra, match=r'pip install "paor\[mcp\]"'):
        McpServer("anything")


def test_the_package_is_imported_on_first_use_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Making a server starts and imports nothing."""
    real = builtins.__import__

    def guarded(name: str, *more: Any, **options: Any) -> Any:
        assert not name.partition(".")[0].startswith("mcp"), name
        return real(name, *more, **options)

    monkeypatch.setattr(builtins, "__import__", guarded)
    McpServer(command(FAULTY, Path("nowhere"))).close()


@settings(max_examples=examples(30))
@given(
    names=st.lists(st.text(max_size=80), unique=True, max_size=12),
    own=st.text(max_size=50),
    chosen=st.sampled_from(["", "given"]),
)
def test_any_names_become_a_catalog(names: list[str], own: str, chosen: str) -> None:
    """Valid, without collisions, one for each, whatever the order of the listing."""
    settings = settings_of("server", name=chosen)
    listed = [Listed(name, "", {"type": "object"}) for name in names]
    prefix = prefix_of(settings, own)
    entries, skipped = entries_of(settings, prefix, listed)
    assert not skipped and len(entries) == len(names)
    assert all(NAME.match(entry.name) and entry.name.startswith(f"{prefix}.") for entry in entries)
    assert len({fold_name(entry.name) for entry in entries}) == len(names)
    again, _ = entries_of(settings, prefix, list(reversed(listed)))
    assert {entry.listed.name: entry.name for entry in again} == {
        entry.listed.name: entry.name for entry in entries
    }


def test_the_url_is_shown_without_what_is_secret() -> None:
    """User, query and fragment stay out of every message."""
    assert McpSettings("https://u:p@example.org/mcp?key=1#x").shown == "https://example.org/mcp"
    assert McpSettings(["/usr/bin/server", "--key", "x"]).shown == "server"
