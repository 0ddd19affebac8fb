"""
What the tests of the command line share: one call of `main` in this process, one in another, scripts and an app.

It holds no tests; it is named so that it is with them.
"""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from .forging import forge

SELECT: dict[str, Any] = {
    "action": "ai.process",
    "actionObjective": "write",
    "requiredInputDocuments": [],
    "parametersContext": "write it",
}
PARAMETERS = {"parameters": {"aiPrompt": "write it"}}
TEXT = "A text of two words."
STOP = {"decision": "stop", "reason": "enough"}
CONTINUE = {"decision": "continue", "reason": "more to do"}
SUCCESS = {"status": "success", "improvements": [], "answer": "It is **done**."}
RETRY = {"status": "retry", "improvements": ["more"]}
BUILT_IN = ("ai.process", "document.extract", "document.generateReport")
DONE = [SELECT, PARAMETERS, TEXT, STOP, SUCCESS]
OUT_OF_STEPS = [SELECT, PARAMETERS, TEXT, CONTINUE, RETRY]

APP = '''
"""A host with tools of its own, for the tests of the command line."""
import json
import os
import pathlib
import time

from paor import Engine, Policy, ScriptedModel, tool


@tool("shop.look", effect="read")
def look(word: str) -> str:
    """Look a word up."""
    print("looking")
    pathlib.Path("looking").write_text("x")
    until = time.monotonic() + 60
    while os.environ.get("SHOP_HOLD") and not pathlib.Path("go").exists() and time.monotonic() < until:
        time.sleep(0.02)
    return f"seen \\x1b[31m{word}\\x1b[0m"


@tool("shop.buy")
def buy(item: str, count: int = 1) -> str:
    """Buy something."""
    return "bought"


def choose(name):
    return {"action": name, "actionObjective": "go", "requiredInputDocuments": [], "parametersContext": ""}


LOOK = [choose("shop.look"), {"parameters": {"word": "tea"}}]
BUY = [choose("shop.buy"), {"parameters": {"item": "tea\\x1b[2J"}}]
GO, STOP = {"decision": "continue", "reason": "go on"}, {"decision": "stop", "reason": "enough"}
END = {"status": "success", "improvements": [], "answer": "All is bought."}


def engine(journal):
    model = ScriptedModel([*LOOK, GO, *BUY, STOP, END])
    return Engine(model=model, tools=[look, buy], journal=journal, policy=Policy(approvals=("shop.buy",)))


def plain(journal):
    return Engine(model=ScriptedModel([*LOOK, STOP, END]), tools=[look, buy], journal=journal)


def angry(journal):
    raise RuntimeError("no shop\\ntoday")


def leaving(journal):
    raise SystemExit("bye")


def nothing(journal):
    return None


NUMBER = 5
'''


@dataclass(frozen=True)
class Said:
    """What one command came to."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output as JSON."""
        return json.loads(self.out)

    def refused(self, *words: str, code: int = 2, lines: int = 1) -> None:
        """Assert that the command failed with *code*, one calm message that has *words*, and no output."""
        told = self.err.splitlines()
        assert self.code == code, self
        assert 1 <= len(told) <= lines, self.err
        assert self.out == ""
        assert told[0].startswith("paor")
        assert "Traceback" not in self.err
        for word in words:
            assert word in self.err, (word, self.err)


class Shell:
    """
    A folder in which commands are run.

    Args:
        folder: Working folder.
        capture: Of pytest.
        patch: Of pytest.
    """

    def __init__(self, folder: Path, capture: pytest.CaptureFixture[str], patch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self._capture = capture
        self._patch = patch

    def __call__(self, *arguments: str, stdin: bytes = b"") -> Said:
        """Run a command in this process."""
        from paor.cli import main

        self._patch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        self._capture.readouterr()
        code = main(list(arguments))
        out, err = self._capture.readouterr()
        return Said(code, out, err)

    def script(self, *replies: object, name: str = "script.json") -> str:
        """Write a script and return the model that plays it."""
        (self.folder / name).write_text(json.dumps(replies))
        return f"script:{name}"

    def run(self, *arguments: str, replies: Sequence[object] = tuple(DONE), stdin: bytes = b"") -> Said:
        """Run an objective with a scripted model, which is offered the built-in tools."""
        named = () if {"--tools", "--app"} & {*arguments} else ("--tools", ",".join(BUILT_IN))
        return self("run", "Write it", "--model", self.script(*replies), *named, *arguments, stdin=stdin)

    def files(self) -> set[str]:
        """Return the names of all files here."""
        return {
            str(path.relative_to(self.folder))
            for path in self.folder.rglob("*")
            if "__pycache__" not in path.parts
        }

    def sql(self, statement: str, *values: object, journal: str = "paor.db") -> list[Any]:
        """Execute a statement on the journal behind the engine's back."""
        with forge(self.folder / journal) as connection:
            found = connection.execute(statement, values).fetchall()
        connection.close()
        return found

    def write(self, name: str, content: str | bytes) -> str:
        """Write a file and return its name."""
        path = self.folder / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return name

    def process(self, *arguments: str, stdin: bytes = b"", **environment: str) -> Said:
        """Run a command as a process of its own."""
        done = subprocess.run(
            [sys.executable, "-m", "paor", *arguments],
            cwd=self.folder,
            input=stdin,
            capture_output=True,
            env=environ(environment),
            timeout=120,
            check=False,
        )
        return Said(done.returncode, done.stdout.decode(), done.stderr.decode())

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen[bytes]:
        """Start a command and leave it running."""
        return subprocess.Popen(
            [sys.executable, "-m", "paor", *arguments],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environ(environment),
            preexec_fn=interruptible,  # noqa: PLW1509 - one call, before anything else can run
        )


def words(text: str) -> tuple[str, ...]:
    """Return the words of a list that is written as a text."""
    return tuple(text.split())


def interruptible() -> None:
    """Let Ctrl-C through: who starts the tests in the background may have had it ignored."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def environ(more: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a process: ours without what changes output, and *more*."""
    unwanted = ("PAOR_", "COLUMNS", "NO_COLOR", "OPENAI_API_KEY", "ANTHROPIC_API_KEY")
    return {name: value for name, value in os.environ.items() if not name.startswith(unwanted)} | dict(more)


class Terminal(io.StringIO):
    """A stream that says it is a terminal; what is written stays to be read."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        """Return True."""
        return True


APPS = iter(range(10_000))


@pytest.fixture(name="shell")
def make_shell(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    """Return a shell in an empty folder, without settings from outside."""
    monkeypatch.chdir(tmp_path)
    for name in ("PAOR_JOURNAL", "PAOR_BUSY_TIMEOUT_S", "PAOR_TRACEBACK", "COLUMNS", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    return Shell(tmp_path, capsys, monkeypatch)


@pytest.fixture(name="shop")
def make_shop(shell: Shell) -> str:
    """Return the name of a module with an app; each test has its own, since a process imports a name once."""
    name = f"shop{next(APPS)}"
    shell.write(f"{name}.py", APP)
    return name


def until_looking(shell: Shell, process: subprocess.Popen[bytes]) -> None:
    """Wait until the tool of the shop works in *process*, which tells so with a file."""
    deadline = time.monotonic() + 60
    while not (shell.folder / "looking").exists():
        assert time.monotonic() < deadline and process.poll() is None, process.communicate()
        time.sleep(0.02)


def killed(shell: Shell, *arguments: str, **environment: str) -> None:
    """Run a command, and kill it without warning while its tool works."""
    process = shell.start(*arguments, SHOP_HOLD="1", **environment)
    until_looking(shell, process)
    process.kill()
    process.communicate()


def on_terminal(
    shell: Shell,
    monkeypatch: pytest.MonkeyPatch,
    *arguments: str,
    columns: int = 80,
    err: Terminal | None = None,
) -> tuple[str, str]:
    """Run a command with both streams being terminals, *err* perhaps one of the test's; return what was written to them."""
    from paor.cli import main

    out, err = Terminal(), err or Terminal()
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm")
    with monkeypatch.context() as patch:
        patch.setattr("sys.stdout", out)
        patch.setattr("sys.stderr", err)
        main(list(arguments))
    return out.getvalue(), err.getvalue()


def given_run(shell: Shell, *arguments: str) -> None:
    """Run with one document given and one produced."""
    shell.write("note.txt", "Tea is due on Monday.\n")
    assert shell.run("--document", "note.txt", "--criterion", "is done", *arguments).code == 0
