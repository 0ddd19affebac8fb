"""``--mcp`` on the command line: tools listed, called, asked about and answered in another process."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from ..support.cli_support import Shell
from ..support.mcp_kit import FAULTY, MODERN, SECRET, command, done, script


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    """A folder of its own to run commands in."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return Shell(tmp_path, capsys, monkeypatch)


def words(script_file: Path, folder: Path, *more: str) -> str:
    """Return a server's command as one would type it."""
    return shlex.join(command(script_file, folder / "effects", *more))


def test_tools_lists_what_servers_offer(shell: Shell) -> None:
    """Two servers that call themselves the same get names of their own; what is left out is said."""
    both = (
        "--mcp",
        words(FAULTY, shell.folder),
        "--mcp",
        words(FAULTY, shell.folder, "--listing", "schemas"),
    )
    said = shell("tools", *both, "--json")
    assert said.code == 0
    tools = {tool["name"]: tool for tool in json.loads(said.out)}
    assert tools["fault_server.echo"]["effect"] == "once" and "fault_server_2.refs" in tools
    assert "the tool remote is left out" in said.err
    said = shell("tools", "--mcp", words(FAULTY, shell.folder), "--mcp-trust", "--json")
    assert {tool["name"]: tool["effect"] for tool in json.loads(said.out)}["fault_server.echo"] == "read"


@pytest.mark.whole
def test_a_run_asks_and_another_process_answers(shell: Shell) -> None:
    """The printed command answers; the server is started anew, so the once call is in doubt until somebody says retry."""
    server = words(MODERN, shell.folder)
    model = shell.script(*script("modern.delete", path="x"))
    said = shell("run", "Delete x", "--model", model, "--mcp", server)
    assert said.code == 5 and "Delete x?" in said.out
    assert f"--mcp {shlex.quote(server)}" in said.err and "--answer" in said.err
    said = shell("resume", "last", "--answer", '{"ok": true}', "--model", model, "--mcp", server)
    assert (
        said.code == 5
        and "may or may not have taken effect" in said.out
        and done(shell.folder / "effects") == []
    )
    named = ("--question", *re.findall(r"--question (\S+)", said.err)[:1], "--outcome", "retry")
    said = shell("resume", "last", *named, "--model", model, "--mcp", server)
    assert said.code == 0 and done(shell.folder / "effects") == ["delete"]
    assert shell("verify").code == 0 and shell("replay", "last").code == 0


@pytest.mark.whole
def test_a_run_with_a_server_cannot_go_on_without_it(shell: Shell) -> None:
    """It says which tools are missing, and how to give them."""
    model = shell.script(*script("modern.delete", path="x"))
    assert shell("run", "Delete x", "--model", model, "--mcp", words(MODERN, shell.folder)).code == 5
    said = shell("resume", "last", "--answer", '{"ok": true}', "--model", model)
    assert said.code == 2 and "--mcp COMMAND|URL" in said.err


def test_secrets_come_from_the_environment(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """They stand neither on the command line nor in the journal."""
    monkeypatch.setenv("MY_TOKEN", SECRET)
    server = words(FAULTY, shell.folder)
    model = shell.script(*script("fault_server.environment", text="x"))
    said = shell("run", "Show it", "--model", model, "--mcp", server, "--mcp-env", "MY_TOKEN")
    assert said.code == 0
    data = b"".join(path.read_bytes() for path in shell.folder.glob("paor.db*"))
    assert SECRET.encode() not in data and b"[secret redacted]" in data and SECRET not in said.out + said.err


@pytest.mark.parametrize(
    ("options", "words_said"),
    [
        (("--mcp", "no-such-server-anywhere"), "there is no no-such-server-anywhere"),
        (("--mcp", 'python "'), "cannot be split into words"),
        (("--mcp", ""), "expected a command"),
        (("--mcp", "http://127.0.0.1:9/mcp"), "cannot be reached"),
        (("--mcp", "x", "--app", "shop:engine"), "--mcp goes without --app"),
        (("--mcp-env", "HOME"), "--mcp-env comes with one --mcp command"),
        (("--mcp-header", "A=B"), "--mcp-header comes with one --mcp URL"),
        (("--mcp-trust",), "--mcp-trust comes with --mcp"),
        (("--mcp", "python x.py", "--mcp-env", "NO_SUCH_VARIABLE"), "no such variable"),
        (("--mcp", "http://127.0.0.1:9/", "--mcp-header", "Authorization"), "expected NAME=VARIABLE"),
    ],
)
@pytest.mark.parametrize("command_name", ["tools", "run"])
def test_bad_options_are_one_line(
    shell: Shell, command_name: str, options: tuple[str, ...], words_said: str
) -> None:
    """Usage errors, before anything is written."""
    arguments = ("Do it",) if command_name == "run" else ()
    said = shell(command_name, *arguments, *options)
    said.refused(words_said)
    assert not (shell.folder / "paor.db").exists()
