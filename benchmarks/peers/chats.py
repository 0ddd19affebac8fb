"""
The same chat with each library, through a closed tab, a second tab, another person and kills. README.md here has the specification.

    python chats.py                           # every chat and every scenario, as a table
    python chats.py paor --only killed        # one chat, the scenarios whose names have this word
    python chats.py serve chat_langgraph 8000 # one chat as a service, in this folder

A chat is a module with a FastAPI ``app`` that serves the page of ``chat_service.py``. It runs as a separate process, with the client of
its library and a scripted server that speaks Chat Completions. The tabs here read what that page reads, and do with it what it does.
"""

from __future__ import annotations

import argparse
import ast
import functools
import http.client
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
EXAMPLES = HERE.parent.parent / "examples"
CHATS = {
    "paor": (EXAMPLES / "chat_service.py", "paor"),
    "langgraph": (HERE / "chat_langgraph.py", "langgraph"),
    "pydantic-ai": (HERE / "chat_pydantic_ai.py", "pydantic-ai-slim"),
}
FIRST, REST = "Both are ", "in Leeds, three days late."
WORD_S = 0.2
PATIENCE_S = 30.0
DESKS = {"paor": HERE / "desk_paor.py", "pydantic-ai": HERE / "desk_pydantic_ai.py"}


# -- the model: a script behind Chat Completions --------------------------------------------------------------------


class Script(ThreadingHTTPServer):
    """Calls two tools at once, or one that pays; then says `FIRST`, and, once `go` is set, `REST` word by word."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Turn)
        self.go = threading.Event()
        self.requests: list[list[dict[str, Any]]] = []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class Turn(BaseHTTPRequestHandler):
    """One request to the model."""

    server: Script

    def log_message(self, *ignored: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        """Report nothing about the model."""
        self.send_error(404)

    def do_POST(self) -> None:
        """Stream a reply."""
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        messages = body["messages"]
        self.server.requests.append(messages)
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        with suppress(OSError):
            self._say(role="assistant", content="")
            if messages[-1]["role"] == "user":
                self._say(tool_calls=list(calls_of(messages, body.get("tools", []))))
                self._say("tool_calls")
            else:
                self._say(content=FIRST)
                self.server.go.wait(2 * PATIENCE_S)
                for word in REST.split():
                    time.sleep(WORD_S)
                    self._say(content=f"{word} ")
                self._say("stop")
            self.wfile.write(b"data: [DONE]\n\n")

    def _say(self, finish: str | None = None, **delta: Any) -> None:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        chunk = {
            "id": "1",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "scripted",
            "choices": [choice],
        }
        self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
        self.wfile.flush()


def calls_of(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the calls that the user's last words ask for."""
    words = json.dumps(messages[-1]["content"])
    names = [tool["function"]["name"] for tool in tools]
    wanted: list[tuple[str, dict[str, Any]]] = [("find", {"order_id": "O-1"}), ("find", {"order_id": "O-2"})]
    if "refund" in words.lower():
        wanted = [("refund", {"order_id": "O-1", "amount": 250})]
    for index, (ending, arguments) in enumerate(wanted):
        name = next(name for name in names if name.endswith(ending))
        made = {"name": name, "arguments": json.dumps(arguments)}
        yield {"index": index, "id": f"call-{len(messages)}-{index}", "type": "function", "function": made}


# -- a chat as a process --------------------------------------------------------------------------------------------


def serve(file: str, port: int) -> None:
    """Serve a chat or a desk until this process is killed; the refund of the example, which has no bank, pays as in the others."""
    sys.path[:0] = [str(EXAMPLES), str(HERE)]
    import uvicorn

    if file == "chat_service":
        import chat_world

        import paor

        plain = paor.tool

        def paying(name: str, **options: Any) -> Any:
            def decorate(function: Callable[..., Any]) -> Any:
                pays = options["effect"] == "once"
                return plain(name, **options)(functools.wraps(function)(chat_world.pay) if pays else function)

            return decorate

        paor.tool = paying  # type: ignore[assignment]
    uvicorn.run(f"{file}:app", host="127.0.0.1", port=port, log_level="error")


class Service:
    """One process of a chat in a separate folder; it can be killed and started again under the same address."""

    def __init__(self, file: Path, folder: Path, model: Script) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self.file, self.folder, self.model = file.stem, folder, model
        self.start()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        url = self.model.url
        own = {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": "none", "PAOR_MODEL": "openai:scripted", "LLM": url}
        self.log = self.folder.joinpath("log").open("ab")
        command = [sys.executable, str(Path(__file__).resolve()), "serve", self.file, str(self.port)]
        self.process = subprocess.Popen(
            command, cwd=self.folder, env=os.environ | own, stdout=self.log, stderr=self.log
        )
        until = time.monotonic() + 60
        while time.monotonic() < until and self.process.poll() is None:
            with suppress(OSError):
                self.call("/openapi.json")
                return
            time.sleep(0.05)
        raise RuntimeError(f"{self.file} does not answer:\n{self.folder.joinpath('log').read_text()}")

    def kill(self) -> None:
        """End the process as a crash does."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.log.close()

    def call(self, path: str, body: object = None, user: str = "ann") -> Any:
        """Return the JSON of an answer; raise OSError for none, and for one that refuses."""
        data = json.dumps(body).encode() if body is not None else None
        headers = {"content-type": "application/json", "user": user}
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data, headers)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.load(answer)
        except (http.client.HTTPException, ValueError) as error:
            raise OSError(str(error)) from None

    def say(self, text: str) -> str:
        """Send a message, and return its run."""
        return str(self.call("/chats/one", {"text": text}))

    def paid(self) -> int:
        """Return how many payments the ledger has."""
        ledger = self.folder / "ledger.txt"
        return len(ledger.read_text().splitlines()) if ledger.exists() else 0

    def wait_for_payment(self) -> None:
        """Wait until the ledger has a line."""
        until = time.monotonic() + PATIENCE_S
        while not self.paid():
            if time.monotonic() > until:
                raise TimeoutError(f"{self.file} does not pay")
            time.sleep(0.01)

    def approvers(self) -> list[str]:
        """Return who the chat's own records say has approved."""
        if self.file == "chat_service":
            from paor import Journal

            with Journal(self.folder / "chat.db", read_only=True) as journal:
                calls = [call for row in journal.runs() for call in journal.calls(row.run_id)]
                return [decided.actor or "" for call in calls for decided in call.decided]
        with sqlite3.connect(self.folder / "chat.db") as db:
            return [name for (name,) in db.execute("SELECT decided_by FROM rounds") if name]


class Tab:
    """
    What the page shows of a run: it opens an event stream, connects again with the last id when that breaks, and closes it at the end.

    Attributes:
        words: The text below the message.
        steps: The calls that it lists.
        question: What it asks, None once it is settled.
        status: How the run has ended, None before.
    """

    def __init__(self, service: Service, run: str) -> None:
        self.service, self.run = service, run
        self.words, self.steps, self.status = "", 0, ""
        self.question: dict[str, Any] | None = None
        self.open, self._seq, self._last = True, -1, ""
        self._changed = threading.Condition()
        threading.Thread(target=self._listen, daemon=True).start()

    def wait(self, what: Callable[[Tab], object], patience_s: float = PATIENCE_S) -> bool:
        """Wait until the tab shows something; return whether it does."""
        with self._changed:
            return bool(self._changed.wait_for(lambda: what(self), patience_s))

    def close(self) -> None:
        """Close it as a browser does: the connection goes."""
        self.open = False
        with suppress(OSError, AttributeError):
            self._connection.sock.shutdown(socket.SHUT_RDWR)

    def answer(self, user: str) -> None:
        """Press the first button of the question: approve, or, of an effect in doubt, done."""
        assert self.question is not None
        in_doubt = self.question.get("kind") == "in_doubt"
        given: dict[str, Any] = {"outcome": "done"} if in_doubt else {"answer": {"approve": True}}
        self.service.call(f"/runs/{self.run}/answer", {"question": self.question["id"], **given}, user)

    def _listen(self) -> None:
        while self.open and not self.status:
            with suppress(OSError, http.client.HTTPException):
                self._connection = http.client.HTTPConnection("127.0.0.1", self.service.port, timeout=60)
                headers = {"Last-Event-ID": self._last} if self._last else {}
                self._connection.request("GET", f"/runs/{self.run}/events", headers=headers)
                self._read(self._connection.getresponse())
            time.sleep(0.05)

    def _read(self, stream: http.client.HTTPResponse) -> None:
        event: dict[str, str] = {}
        for line in stream:
            name, _, value = line.decode().rstrip("\n").partition(": ")
            if name:
                event[name] = value
            elif event:
                with self._changed:
                    self._last = event.get("id", self._last)
                    self._show(event.get("event", ""), json.loads(event.get("data", "{}")))
                    self._changed.notify_all()
                event = {}

    def _show(self, kind: str, data: dict[str, Any]) -> None:
        if kind == "model_text":
            self.words = ("" if data["seq"] > self._seq else self.words) + data["text"]
            self._seq = data["seq"]
        elif kind == "step":
            self.steps += 1
        elif kind == "transition":
            self.question = None
        elif kind == "waiting":
            self.question = data["question"]
        elif kind == "complete":
            self.words, self.status = data["result"]["answer"], data["result"]["status"]


# -- scenarios: each returns the losses and surprises, nothing when there is none --------------------------


def half_said(tab: Tab) -> bool:
    """Return whether the first words are there and the others are not."""
    return tab.words == FIRST


def whole(tab: Tab, steps: int = 2) -> Iterator[str]:
    """Report words and calls that an ended tab lacks or has too often."""
    missing = [word for word in (FIRST + REST).split() if word not in tab.words.split()]
    if not tab.status:
        yield "never ends"
    elif missing:
        yield f"{len(missing)} words lost"
    if tab.steps != steps:
        yield f"{tab.steps} of {steps} calls shown"


def closed_tab(service: Service) -> Iterator[str]:
    """Close the tab in the middle of a round that has called two tools; look again later."""
    tab = Tab(service, service.say("Where are my orders?"))
    tab.wait(half_said)
    tab.close()
    service.model.go.set()
    again = Tab(service, service.call("/chats/one")[0][-1][0])
    again.wait(lambda tab: tab.status)
    yield from whole(again)
    yield from asked_again(service, 2)


def asked_again(service: Service, needed: int) -> Iterator[str]:
    """Say how often the model was asked beyond need."""
    if (more := len(service.model.requests) - needed) > 0:
        yield f"model asked {more} more times"


def second_tab(service: Service) -> Iterator[str]:
    """Open a second tab on the running round: what was said is there at once, the rest appears in both."""
    run = service.say("Where are my orders?")
    first = Tab(service, run)
    first.wait(half_said)
    second = Tab(service, run)
    if not second.wait(half_said, 5):
        yield f"sees {len(second.words.split())} of 2 words"
    if not second.wait(lambda tab: tab.steps == 2, 5):
        yield f"sees {second.steps} of 2 calls"
    service.model.go.set()
    for tab in (first, second):
        tab.wait(lambda tab: tab.status)
        yield from whole(tab)
    yield from asked_again(service, 2)


def another_person(service: Service) -> Iterator[str]:
    """Ann asks, Bob approves in his tab; the same answer again is refused, and both see the end."""
    service.model.go.set()
    run = service.say("A refund, please")
    ann, bob = Tab(service, run), Tab(service, run)
    for tab in (ann, bob):
        if not tab.wait(lambda tab: tab.question):
            yield "a tab does not ask"
    question = dict(bob.question or {})
    with suppress(urllib.error.HTTPError):
        ann.answer("ann")
        yield "who asks may approve"
    bob.answer("bob")
    with suppress(urllib.error.HTTPError):
        bob.question = question
        bob.answer("eve")
        yield "an answer counts twice"
    for tab in (ann, bob):
        tab.wait(lambda tab: tab.status)
        yield from whole(tab, steps=1)
    yield from payments(service)
    if service.approvers() != ["bob"]:
        yield f"approved by {service.approvers()}"


def payments(service: Service) -> Iterator[str]:
    """Say whether a refund was lost or doubled."""
    if (paid := service.paid()) != 1:
        yield f"paid {paid} times"


def killed_asking(service: Service) -> Iterator[str]:
    """Kill it while it waits for a person, start it again, and approve."""
    service.model.go.set()
    tab = Tab(service, service.say("A refund, please"))
    tab.wait(lambda tab: tab.question)
    restart(service)
    tab.answer("bob")
    tab.wait(lambda tab: tab.status)
    yield from whole(tab, steps=1)
    yield from payments(service)


def restart(service: Service) -> None:
    """Kill the process, and start it again."""
    service.kill()
    service.start()


def killed_speaking(service: Service) -> Iterator[str]:
    """Kill it in the middle of an answer, with a tab open."""
    tab = Tab(service, service.say("Where are my orders?"))
    tab.wait(half_said)
    service.kill()
    service.model.go.set()
    service.start()
    tab.wait(lambda tab: tab.status)
    yield from whole(tab)
    yield from asked_again(service, 3)


def killed_paying(service: Service) -> Iterator[str]:
    """Kill it after the bank has paid and before it knows, and start it again."""
    service.model.go.set()
    slow = service.folder / "slow"
    slow.touch()
    run = service.say("A refund, please")
    tab = Tab(service, run)
    tab.wait(lambda tab: tab.question)
    tab.answer("bob")
    service.wait_for_payment()
    service.kill()
    slow.unlink()
    service.start()
    after = Tab(service, run)
    after.wait(lambda tab: tab.status or (tab.question or {}).get("kind") == "in_doubt")
    if after.question is not None:
        yield "asks a person whether it was paid"
        after.answer("bob")
        after.wait(lambda tab: tab.status)
        yield from whole(after, steps=1)
    elif after.status == "failed":
        yield f"ends and says: {after.words}"
    yield from payments(service)


def cancelled(service: Service) -> Iterator[str]:
    """Cancel in the middle of an answer; the next message is answered, and the model knows both."""
    run = service.say("Where are my orders?")
    tab = Tab(service, run)
    tab.wait(half_said)
    service.call(f"/runs/{run}/cancel", {})
    if not tab.wait(lambda tab: tab.status):
        yield "never ends"
    service.model.go.set()
    following = Tab(service, service.say("And where is the other one?"))
    following.wait(lambda tab: tab.status)
    yield from whole(following)
    said = json.dumps(service.model.requests[-1])
    if "Where are my orders?" not in said:
        yield "the cancelled message is forgotten"


SCENARIOS = {
    "tab closed in a round that uses tools": closed_tab,
    "second tab in the running round": second_tab,
    "approved by another person": another_person,
    "cancelled, then the next message": cancelled,
    "killed while it waits for approval": killed_asking,
    "killed in the middle of an answer": killed_speaking,
    "killed in a payment": killed_paying,
}


def desk_forgets(service: Service) -> Iterator[str]:
    """Leave in the middle of an answer, and write again: report what the model no longer gets."""
    with post(service, "/chat/one", "Where are my orders?") as stream:
        for line in stream:
            if FIRST.strip() in line.decode():
                break
    service.model.go.set()
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        with suppress(urllib.error.HTTPError), post(service, "/chat/one", "And the other one?") as stream:
            stream.read()
            break
        time.sleep(0.05)
    known = json.dumps(service.model.requests[-1])
    yield from ["message lost"] if "Where are my orders?" not in known else []
    yield from ["answer lost"] if FIRST + REST not in known else []


def post(service: Service, path: str, text: str) -> Any:
    """Return the open response to a message."""
    headers = {"content-type": "application/json", "user": "ann"}
    url = f"http://127.0.0.1:{service.port}{path}"
    return urllib.request.urlopen(urllib.request.Request(url, json.dumps({"text": text}).encode(), headers))


@contextmanager
def running(file: Path) -> Iterator[Service]:
    """Give a chat in a separate folder."""
    with tempfile.TemporaryDirectory() as folder:
        model = Script()
        service = Service(file, Path(folder), model)
        try:
            yield service
        finally:
            model.go.set()
            service.kill()
            model.shutdown()
            model.server_close()


# -- the table -------------------------------------------------------------------------------------------------------


def lines_of(path: Path) -> int:
    """Return how many lines have code: not blank, no comment, no docstring, not the page."""
    text = path.read_text(encoding="utf-8")
    lines = enumerate(text.splitlines(), 1)
    left = {number for number, line in lines if line.strip() and not line.strip().startswith("#")}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                left -= set(range(first.lineno, (first.end_lineno or first.lineno) + 1))
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "PAGE":
            left -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(left)


def version_of(package: str) -> str:
    """Return the installed version; of paor, when this checkout runs without being installed, that it does."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "this checkout"


def main(chats: list[str], only: str) -> None:
    """Play the scenarios and print the table."""
    print("| |", " | ".join(chats), "|")
    print("|---|" + "---|" * len(chats))
    print("| version |", " | ".join(version_of(CHATS[chat][1]) for chat in chats), "|")
    print(
        "| lines of code, without the page |",
        " | ".join(str(lines_of(CHATS[chat][0])) for chat in chats),
        "|",
    )
    for name, scenario in SCENARIOS.items():
        if only in name:
            cells = []
            for chat in chats:
                with running(CHATS[chat][0]) as service:
                    cells.append(", ".join(scenario(service)) or "-")
            print(f"| {name} |", " | ".join(cells), "|", flush=True)
    print("\n| support desk |", " | ".join(DESKS), "|\n|---|" + "---|" * len(DESKS))
    print("| lines of code |", " | ".join(str(lines_of(file)) for file in DESKS.values()), "|")
    cells = []
    for file in DESKS.values():
        with running(file) as service:
            cells.append(", ".join(desk_forgets(service)) or "-")
    print("| left in the middle of an answer |", " | ".join(cells), "|")


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        serve(sys.argv[2], int(sys.argv[3]))
    else:
        parser = argparse.ArgumentParser()
        parser.add_argument("chats", nargs="*", default=list(CHATS))
        parser.add_argument("--only", default="")
        given = parser.parse_args()
        main(given.chats, given.only)
