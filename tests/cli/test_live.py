"""
What a person sees while a run is driven: the model and where it comes from, its text as it is written, every row, every wait.

The terminal is a real one (a pseudo-terminal) and the model a real server on 127.0.0.1, which waits within a reply until the
screen shows what it has sent so far.
"""

from __future__ import annotations

import json
import re
import sys
import termios
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from paor.events import TransitionTaken

from ..support.cli_support import Shell
from ..support.model_server import KEY, ModelServer, plain
from ..support.screen import CHAT, held, said, screen
from .inside import LINES_MAX, LiveView, drawn, readable

SELECT = {
    "action": "shop.look",
    "actionObjective": "look [bold]tea[/bold] up \x1b[31m\x07",
    "parametersContext": "tea",
}
LOOK = {"parameters": {"word": f"tea {KEY}"}}
STOP = {"decision": "stop", "reason": "it was found"}
END = {"status": "success", "improvements": [], "answer": "Tea is there."}
LOADING = plain(CHAT.error("Loading model", type="unavailable_error"), status=503)
SHOP = '''
from paor import Engine, OpenAIModel, tool


@tool("shop.look", effect="read")
def look(word: str) -> str:
    """Look a word up."""
    return "seen tea"


def engine(journal):
    return Engine(OpenAIModel("small", base_url="URL/v1"), tools=[look], journal=journal, profile="two_stage")
'''


@pytest.fixture(name="server")
def make_server(shell: Shell) -> Iterator[ModelServer]:
    """Return a server, with an app ``live:engine`` that asks it."""
    server = ModelServer()
    shell.write("live.py", SHOP.replace("URL", server.url))
    yield server
    server.close()


RUN = ("run", "Look", "--app", "live:engine")


# -- while it is written -------------------------------------------------------------------------------------------


@pytest.mark.whole
@pytest.mark.parametrize("columns", [60, 100])
def test_text_is_shown_while_it_is_written_and_every_row_stays(
    shell: Shell, server: ModelServer, columns: int
) -> None:
    """The half reply is on the screen before its other half is sent; then rows, arguments, the tool's outcome, the answer."""
    seen = threading.Event()
    server.script(held(SELECT, seen, "look [bold]"), said(LOOK), said(STOP), said(END))
    with screen(shell, *RUN, columns=columns) as shown:
        shown.wait_for("│ actionObjective: look [bold]")
        assert "model: openai:small (from --app live:engine)" in shown.text
        assert "Planning: choosing the next action" in shown.text and "select " not in shown.text
        seen.set()
        assert shown.end() == 0
        rows = [" ".join(line.split()) for line in shown.text.splitlines()]
        way = "→ Specifying" if columns == 60 else "Planning → Specifying"
        assert any(row.startswith(f"{way} select shop.look: look [bold]tea") for row in rows), rows
        assert any('specify shop.look(word="tea' in row for row in rows), rows
        assert any("observe ✓ shop.look: 1 document:" in row for row in rows), rows
        assert any("Done finish judged success" in row for row in rows) and "Tea is there." in rows
        flat = " ".join(shown.text.split())  # a narrow screen breaks lines between words
        assert "␛[31m" in flat and "[secret redacted]" in flat
        assert KEY not in shown.text and b"\x07" not in shown.raw
        settled = [line for line in shown.text.splitlines() if "select " in line or "specify " in line]
        assert settled and max(map(len, settled)) <= columns


@pytest.mark.whole
def test_only_messages_are_on_the_terminal_when_output_is_piped(shell: Shell, server: ModelServer) -> None:
    """Standard output has the JSON and nothing else."""
    server.script(said(SELECT), said(LOOK), said(STOP), said(END))
    with screen(shell, *RUN, "--json", piped=True) as shown:
        out = shown.process.stdout
        assert out is not None and json.loads(out.read())["answer"] == "Tea is there."
        assert shown.end() == 0 and "Planning → Specifying" in shown.text and '"answer"' not in shown.text


@pytest.mark.whole
def test_quiet_shows_the_answer_and_the_end_only(shell: Shell, server: ModelServer) -> None:
    """Neither the model nor rows nor attempts, on a terminal and elsewhere."""
    server.script(LOADING, said(SELECT), said(LOOK), said(STOP), said(END))
    for arguments in (RUN, ("fork", "last", "--at", "1", "--app", "live:engine")):
        with screen(shell, *arguments, "--quiet") as shown:
            assert shown.end() == 0, shown.text
            lines = [line for line in shown.text.split("\n") if line]
            assert lines[0] == "Tea is there." and "attempt" not in shown.text
        server.script(LOADING, said(STOP), said(END))
    assert shell.process("fork", "last", "--at", "1", "--no-run", "--app", "live:engine").code == 0
    told = shell.process("resume", "last", "--app", "live:engine", "--quiet")
    assert told.code == 0 and told.err.startswith("run ")


@pytest.mark.whole
def test_ctrl_c_leaves_the_terminal_as_it_was(shell: Shell, server: ModelServer) -> None:
    """In the middle of a reply: exit code 130, the command to go on with, the cursor there, the modes as before."""
    server.script(held(SELECT, threading.Event(), "look [bold]"))
    with screen(shell, *RUN) as shown:
        shown.wait_for("│ actionObjective: look [bold]")
        shown.type(b"\x03")
        assert shown.end() == 130
        assert "go on with: paor resume" in shown.text and "Traceback" not in shown.text
        assert shown.raw.rfind(b"\x1b[?25h") > shown.raw.rfind(b"\x1b[?25l")
        assert termios.tcgetattr(shown.other) == shown.before


# -- attempts --------------------------------------------------------------------------------------------------------


@pytest.mark.whole
def test_attempts_and_waits_are_told(shell: Shell, server: ModelServer) -> None:
    """On a terminal with the wait that goes on; elsewhere one line for each."""
    server.script(LOADING, LOADING, said(SELECT), said(LOOK), said(STOP), said(END))
    with screen(shell, *RUN) as shown:
        shown.wait_for("s for the model")
        assert shown.end() == 0
        assert (
            len(set(re.findall(r"attempt (\d) failed: HTTP 503: Loading model; the next one in", shown.text)))
            == 2
        )
    server.script(LOADING, said(SELECT), said(LOOK), said(STOP), said(END))
    told = shell.process(*RUN).err.splitlines()
    assert told[0] == "model: openai:small (from --app live:engine)"
    assert re.fullmatch(
        r"paor: attempt 1 failed: HTTP 503: Loading model; the next one in 0\.[45] s", told[1]
    )
    assert len(told) == 4 and told[2].startswith("run ")


# -- the model ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given, environment, told",
    [
        ((), {}, "offline (no key found; choose another with --model)"),
        (("--model", "auto"), {}, "offline (no key found; choose another with --model)"),
        (("--model", "offline"), {"OPENAI_API_KEY": KEY}, "offline (from --model)"),
        (("--input", '{"model": "offline"}'), {"OPENAI_API_KEY": KEY}, "offline (from --input)"),
        (
            (),
            {"OPENAI_API_KEY": KEY},
            "openai:gpt-6.1-sol (from OPENAI_API_KEY; choose another with --model)",
        ),
        (
            ("--model", "auto"),
            {"PAOR_MODEL": "openai:small"},
            "openai:small (from PAOR_MODEL; choose another with --model)",
        ),
        (("--app", "live:engine"), {"PAOR_MODEL": "offline"}, "openai:small (from --app live:engine)"),
    ],
)
def test_the_model_and_where_it_comes_from_stand_first(
    shell: Shell,
    server: ModelServer,
    monkeypatch: pytest.MonkeyPatch,
    given: Any,
    environment: Any,
    told: str,
) -> None:
    """Before the first request, and not only on a terminal; a key that decides is told by its name, never its value."""
    server.script(plain(CHAT.error("no"), status=401))
    for name in ("PAOR_MODEL", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    found = shell("run", "Look", *given)
    assert found.err.splitlines()[0] == f"model: {told}"
    assert "--quiet" in given or KEY not in found.err
    assert "model:" not in shell("run", "Look", *given, "--quiet").err


def test_whoever_goes_on_with_a_run_is_told_its_model(shell: Shell) -> None:
    """The run's own, or another one, and then which one it had."""
    assert shell("run", "Look", "--model", "offline").err.splitlines()[0] == "model: offline (from --model)"
    assert shell("fork", "last", "--at", "0", "--no-run").code == 0
    assert shell("resume", "last").err.splitlines()[0] == "model: offline (the run's own)"
    assert "model: offline (the run's own)" in shell("fork", "last", "--at", "0").err.splitlines()
    assert shell("fork", "last", "--at", "0", "--no-run").code == 0
    told = shell("resume", "last", "--model", shell.script(STOP, END)).err.splitlines()
    assert "had the model offline, it goes on with scripted" in told[0]
    assert told[1] == "model: scripted (from --model)"


def test_a_key_that_decides_for_a_model_whose_sdk_is_missing_is_named(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has a key for something else learns why, and what to write."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setattr("paor.prompts.clients.client.find_spec", lambda name: None)
    shell("run", "Look").refused("needs the SDK", "OPENAI_API_KEY has chosen the model", "such as offline")


# -- whatever a model says ---------------------------------------------------------------------------------------------


@given(said=st.text(), cut_at=st.integers(0, 400))
def test_anything_can_be_made_readable(said: str, cut_at: int) -> None:
    """Half objects show the members that there are; everything else stays what it is."""
    assert isinstance(readable(said), str)
    whole = json.dumps({"action": said, "more": {"word": said}, "none": None})
    shown = readable(whole[:cut_at])
    assert shown == "" or not shown.startswith("{") or cut_at < 4 or said.startswith("{")


@pytest.mark.parametrize("columns", [40, 60, 120])
@given(
    texts=st.lists(st.text(max_size=300), max_size=12),
    detail=st.text(max_size=300),
    value=st.text(max_size=300),
)
def test_nothing_that_a_model_says_leaves_its_place(
    columns: int, texts: list[str], detail: str, value: str
) -> None:
    """No control character gets out, no line is wider than the terminal, and the region has its bound of lines."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(columns))
        patch.setenv("TERM", "xterm")
        patch.setattr(sys.stderr, "isatty", lambda: True)
        kept, region = drawn(LiveView(), texts, row_of(detail, value), value)
    lines = region.split("\n")
    assert len(lines) <= 1 + LINES_MAX
    shown = re.sub(r"\x1b\[[0-9;]*m", "", kept + region)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", shown)
    assert all(cell_len(line) <= columns for line in shown.split("\n"))


def row_of(detail: str, word: str) -> TransitionTaken:
    """Return the row of a call."""
    return TransitionTaken("run", 0, "specify", "Specifying", "Executing", 1, 5, 9, detail, {"word": word})


def test_keys_of_the_environment_are_left_out_whoever_says_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the text, in a row with its arguments, and in a note; a host's own model takes none out."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    kept, region = drawn(LiveView(), [f'{{"word": "{KEY}'], row_of("look", KEY), f"refused {KEY}")
    assert KEY not in region + kept
    assert (region + kept).count("[secret redacted]") == 3
