"""What the tests of MCP servers share: servers as processes, engines over them, and what they have done."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from paor import Engine, Journal, McpServer, Result, ScriptedModel, replay

from .worlds import PARAMETERS, SELECT, STOP, SUCCESS

HERE = Path(__file__).parents[1] / "mcp"
FAULTY = HERE / "fault_server.py"
MODERN = HERE / "modern_server.py"
SECRET = "s3cr3t-token-0123456789"


def command(script: Path, effects: Path, *more: str) -> list[str]:
    """Return the command of one of our servers; what it does is in the file *effects*."""
    return [sys.executable, str(script), str(effects), *more]


def done(effects: Path) -> list[str]:
    """Return the first word of every effect."""
    return [line.split()[0] for line in effects.read_text().splitlines()] if effects.exists() else []


@contextmanager
def faulty(tmp_path: Path, *more: str, **options: Any) -> Iterator[McpServer]:
    """A connection to the server that does everything wrong; its tools are called ``f.NAME``."""
    options = {"name": "f", "call_s": 30, **options}
    with McpServer(command(FAULTY, tmp_path / "effects", *more), **options) as server:
        yield server


@contextmanager
def modern(tmp_path: Path, **options: Any) -> Iterator[McpServer]:
    """A connection to the server of the new protocol; its tools are called ``m.NAME``."""
    with McpServer(command(MODERN, tmp_path / "effects"), **{"name": "m", **options}) as server:
        yield server


@contextmanager
def over_http(script: Path, tmp_path: Path) -> Iterator[str]:
    """Serve one of our servers over HTTP on a free port and give its URL; it ends with the block."""
    effects = tmp_path / "effects"
    if script == FAULTY:
        process = subprocess.Popen(command(script, effects, "--http"), stdout=subprocess.PIPE)
        assert process.stdout is not None
        port = int(process.stdout.readline())
    else:
        port = free_port()
        words = command(script, effects, str(port))
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _reached(port, process)
    try:
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.terminate()
        process.wait(10)
        if process.stdout is not None:
            process.stdout.close()


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _reached(port: int, process: subprocess.Popen[bytes]) -> None:
    for _ in range(600):
        assert process.poll() is None, "the server ended"
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise AssertionError("the server does not listen")


def script(tool: str, **arguments: Any) -> list[Any]:
    """Return the replies of a run that calls one tool."""
    kinds = {bool: "boolean", int: "number", str: "string"}
    fields = {name: kinds[type(value)] for name, value in arguments.items()}
    call = [SELECT(tool, fields), PARAMETERS(**arguments)] if fields else [SELECT(tool, {})]
    return [*call, STOP, SUCCESS]


def engine_of(server: McpServer, folder: Path, tool: str, **options: Any) -> Engine:
    """Return an engine whose script calls one tool of *server*, with a journal in *folder*."""
    arguments = options.pop("arguments", {"text": "hi"})
    journal = Journal(str(folder / "runs.db"), "off")
    return Engine(
        ScriptedModel(script(tool, **arguments)), server.tools(), journal, builtins=False, **options
    )


def called(server: McpServer, folder: Path, tool: str, **options: Any) -> Result:
    """Run *tool* and return the result; the run must verify and replay."""
    with engine_of(server, folder, tool, **options) as engine:
        result = engine.run(f"Call {tool}")
        sound(engine, result.run_id)
        return result


def sound(engine: Engine, run_id: str) -> None:
    """Check that a run's journal holds, and replays identically without any server."""
    assert engine.journal.verify() == []
    replayed = replay(engine.journal, run_id)
    assert replayed.identical, replayed.divergences[:3]


def outcome(folder: Path) -> str:
    """Return how the last call ended: ``ok``, the error's code, or what it waits for."""
    with Journal(str(folder / "runs.db")) as journal:
        last = journal.runs()[0]
        rows = [row for row in journal.transitions(last.run_id) if row.source == "Executing"]
        facts = rows[-1].outcome
        if facts["kind"] == "result":
            return "ok" if facts.get("ok") else str(facts.get("error"))
        return str(facts["kind"])


def error_of(folder: Path) -> str:
    """Return the words of the last failed call."""
    with Journal(str(folder / "runs.db")) as journal:
        last = journal.runs()[0]
        for row in journal.transitions(last.run_id):
            if row.trigger == "execute":
                change = journal.reader.change(last.run, f'{{"n":{row.change["n"]}}}')
                if change.result and change.result.error:
                    return change.result.error
    return ""


def texts(folder: Path) -> dict[str, str | bytes | None]:
    """Return the documents of the last run in a folder by name."""
    with Journal(str(folder / "runs.db")) as journal:
        run_id = journal.runs()[0].run_id
        return {item.name: journal.document(run_id, item.number) for item in journal.documents(run_id)}


def bytes_written(folder: Path) -> bytes:
    """Return everything that is in a folder's journal files."""
    return b"".join(path.read_bytes() for path in sorted(folder.glob("runs.db*")))
