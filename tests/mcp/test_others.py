"""
MCP servers that others wrote, run as they come from their registries: npm and PyPI, old and new protocol.

Each is installed once, with its version pinned, into ``$PAOR_TEST_CACHE`` or the user's cache folder; a test whose
server cannot be installed here is skipped and says why.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import threading
import time
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from paor import Journal, McpServer, Policy, replay

from ..support.mcp_kit import bytes_written, called, engine_of, error_of, free_port, texts

pytestmark = pytest.mark.whole

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "paor-tests"
HOME = Path(os.environ.get("PAOR_TEST_CACHE") or CACHE) / "paor-mcp-servers"
NPM = {
    "mcp-server-everything": "@modelcontextprotocol/server-everything@2026.8.31",
    "mcp-server-filesystem": "@modelcontextprotocol/server-filesystem@2026.8.31",
    "mcp-server-memory": "@modelcontextprotocol/server-memory@2026.8.31",
    "mcp-server-sequential-thinking": "@modelcontextprotocol/server-sequential-thinking@2026.8.31",
    "playwright-mcp": "@playwright/mcp@0.0.83",
    "notion-mcp-server": "@notionhq/notion-mcp-server@2.5.2",
    "chrome-devtools-mcp": "chrome-devtools-mcp@1.11.0",
}
PYPI = {
    "mcp-server-time": ("mcp-server-time==2026.10.19",),
    "mcp-server-git": ("mcp-server-git==2026.10.19",),
    "mcp-server-fetch": ("mcp-server-fetch==2026.10.24",),
    "mcp-server-sqlite": ("mcp-server-sqlite==2025.4.25", "mcp<2"),
}
PATIENCE_S = 300


def installed(name: str) -> str:
    """Return the command of a server, installed if it is not there; skip the test where that cannot be."""
    folder = HOME / name
    bin_folder = folder / ("node_modules/.bin" if name in NPM else "bin")
    if not (bin_folder / name).exists():
        shutil.rmtree(folder, ignore_errors=True)
        if name in NPM:
            if shutil.which("npm") is None:
                pytest.skip("npm is not installed")
            words = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(folder), NPM[name]]
        else:
            venv.create(folder, with_pip=True)
            words = [str(bin_folder / "python"), "-m", "pip", "install", "-q", *PYPI[name]]
        folder.mkdir(parents=True, exist_ok=True)
        try:
            done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            pytest.skip(f"{name} cannot be installed: {error}")
        if done.returncode or not (bin_folder / name).exists():
            pytest.skip(
                f"{name} cannot be installed: {(done.stderr.strip().splitlines() or ['?'])[-1][:200]}"
            )
    return str(bin_folder / name)


@contextmanager
def page() -> Iterator[str]:
    """A page on this machine."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            is_page = self.path == "/page.html"
            self.send_response(200 if is_page else 404)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(b"<html><body><h1>Plums</h1><p>They are in the icebox.</p></body></html>")

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/page.html"
        server.shutdown()
        thread.join()


THOUGHT = {"thought": "Plums", "nextThoughtNeeded": False, "thoughtNumber": 1, "totalThoughts": 1}
SERVERS: dict[str, tuple[int, str, dict[str, Any], str]] = {
    "mcp-server-everything": (15, "echo", {"message": "plums"}, "plums"),
    "mcp-server-filesystem": (14, "list_directory", {"path": "FOLDER"}, ".git"),
    "mcp-server-memory": (9, "search_nodes", {"query": "plums"}, "entities"),
    "mcp-server-sequential-thinking": (1, "sequentialthinking", THOUGHT, "thoughtNumber"),
    "mcp-server-time": (2, "get_current_time", {"timezone": "UTC"}, "UTC"),
    "mcp-server-git": (12, "git_status", {"repo_path": "FOLDER"}, "branch"),
    "mcp-server-sqlite": (6, "read_query", {"query": "SELECT 41 + 1 AS plums"}, "plums"),
    "mcp-server-fetch": (1, "fetch", {"url": "PAGE"}, "icebox"),
    "playwright-mcp": (25, "", {}, ""),
    "notion-mcp-server": (24, "", {}, ""),
    "chrome-devtools-mcp": (32, "", {}, ""),
}
"""By command: how many tools it lists, and a call that needs no network, with what its result holds."""

ARGUMENTS = {
    "mcp-server-filesystem": ["FOLDER"],
    "mcp-server-git": ["--repository", "FOLDER"],
    "mcp-server-sqlite": ["--db-path", "FOLDER/shop.sqlite"],
    "mcp-server-fetch": ["--allow-private-ips"],
}


@pytest.mark.parametrize("name", list(SERVERS))
def test_a_server_of_others_is_listed_alike_in_every_mode_and_called(name: str, tmp_path: Path) -> None:
    """None of its tools is left out, their names do not depend on the protocol, and the run replays without it."""
    count, tool, arguments, told = SERVERS[name]
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    words = [installed(name), *(word.replace("FOLDER", str(tmp_path)) for word in ARGUMENTS.get(name, ()))]
    env = {"MEMORY_FILE_PATH": str(tmp_path / "memory.json")} if name == "mcp-server-memory" else {}
    names = {}
    for mode in ("auto", "legacy"):
        with McpServer(words, mode=mode, env=env, connect_s=120) as server, page() as url:
            names[mode] = [item.name for item in server.tools()]
            assert server.skipped == {}
            if tool:
                folder = tmp_path / mode
                folder.mkdir()
                places = {"FOLDER": str(tmp_path), "PAGE": url}
                given = {key: places.get(str(value), value) for key, value in arguments.items()}
                local = Policy(private_hosts=True)
                called(server, folder, f"{server.prefix}.{tool}", arguments=given, policy=local)
                assert told in str(texts(folder)), texts(folder)
    assert names["auto"] == names["legacy"] and len(names["auto"]) == count


def listening(port: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until a server listens."""
    for _ in range(600):
        assert process.poll() is None, "the server ended"
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise AssertionError("the server does not listen")


def test_the_filesystem_server_reads_and_writes(tmp_path: Path) -> None:
    """Its tools in one run after the other; its own limits on folders hold."""
    data = tmp_path / "data"
    data.mkdir()
    (data / "a.txt").write_text("Größe 42\n", encoding="utf-8")
    with McpServer(
        [installed("mcp-server-filesystem"), str(data)], name="files", trust_annotations=True
    ) as server:
        effects = {tool.name: tool.effect for tool in server.tools()}
        assert effects["files.read_text_file"] == "read" and effects["files.move_file"] == "once"
        called(server, tmp_path, "files.read_text_file", arguments={"path": str(data / "a.txt")})
        assert texts(tmp_path) == {"result.txt": "Größe 42\n"}
        for name in ("b", "c"):
            (tmp_path / name).mkdir()
        arguments = {"path": str(data / "b.txt"), "content": "written"}
        called(server, tmp_path / "b", "files.write_file", arguments=arguments)
        assert (data / "b.txt").read_text() == "written"
        called(server, tmp_path / "c", "files.read_text_file", arguments={"path": "/etc/hostname"})
        assert "outside" in error_of(tmp_path / "c").lower()


def test_the_everything_server_gives_every_kind_of_content(tmp_path: Path) -> None:
    """Pictures, links, structured content, in the old protocol."""
    with McpServer([installed("mcp-server-everything")], name="all", env={"TOKEN": "tok-12345678"}) as server:
        tools = {tool.own_name for tool in server.tools()}  # type: ignore[attr-defined]
        assert {"echo", "get-sum", "get-tiny-image", "get-structured-content"} <= tools

        def found(tool: str, **arguments: Any) -> dict[str, Any]:
            folder = tmp_path / tool
            folder.mkdir()
            called(server, folder, f"all.{tool}", arguments=arguments)
            return texts(folder)

        assert found("echo", message="hi") == {"result.txt": "Echo: hi"}
        assert "42" in str(found("get-sum", a=40, b=2)["result.txt"])
        image = found("get-tiny-image")
        assert image["image.png"].startswith(b"\x89PNG")
        assert "temperature" in json.loads(found("get-structured-content", location="Chicago")["result.json"])
        assert "links.md" in found("get-resource-links", count=2)
        assert "tok-12345678" not in str(found("get-env")) and b"tok-12345678" not in bytes_written(
            tmp_path / "get-env"
        )


def test_the_everything_server_over_http_asks_and_is_gone_when_the_run_is_replayed(tmp_path: Path) -> None:
    """Streamable HTTP of the other SDK: sessions, answers as events, a question in the middle of a call."""
    port = free_port()
    env = os.environ | {"PORT": str(port)}
    words = [installed("mcp-server-everything"), "streamableHttp"]
    with subprocess.Popen(words, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            url = f"http://127.0.0.1:{port}/mcp"
            listening(port, process)
            with McpServer(url, name="all") as server:
                (tmp_path / "a").mkdir()
                called(server, tmp_path / "a", "all.echo", arguments={"message": "over HTTP"})
                with engine_of(server, tmp_path, "all.trigger-elicitation-request", arguments={}) as engine:
                    waiting = engine.run("Ask me")
                    question = waiting.waiting_for
                    assert question is not None and question.kind == "elicitation"
                    answer = {name: "Ada" for name in question.schema.get("required", ["name"])}
                    assert engine.resume(waiting.run_id, answer=answer).state == "Done"
        finally:
            process.terminate()
            process.wait(20)
    assert texts(tmp_path / "a") == {"result.txt": "Echo: over HTTP"} and "Ada" in str(texts(tmp_path))
    for folder in (tmp_path, tmp_path / "a"):
        with Journal(str(folder / "runs.db")) as alone:
            assert replay(alone, alone.runs()[0].run_id).identical and alone.verify() == []


def test_the_sqlite_server_of_the_old_package(tmp_path: Path) -> None:
    """It needs a version of the SDK from before the new protocol; the client does not."""
    words = [installed("mcp-server-sqlite"), "--db-path", str(tmp_path / "shop.sqlite")]
    with McpServer(words, name="sql", effects={"read_query": "read", "list_tables": "read"}) as server:
        for number, (tool, query) in enumerate(
            (
                ("create_table", "CREATE TABLE t (a TEXT)"),
                ("write_query", "INSERT INTO t VALUES ('plum')"),
                ("read_query", "SELECT a FROM t"),
            )
        ):
            folder = tmp_path / str(number)
            folder.mkdir()
            called(server, folder, f"sql.{tool}", arguments={"query": query})
        assert "plum" in str(texts(tmp_path / "2"))
