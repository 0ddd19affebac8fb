"""
Plan over HTTP: the input of a planner, posted as JSON.

    python examples/recipe_http.py

paor has no server of its own. A host has one already; this is all that it needs: read the fields, run, answer with the
result. Requests are data: only the fields below are read, and the engine's own policy and limits hold for every one.
"""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from paor import Engine, Journal, ModelCall, Reply, ScriptedModel
from paor.errors import UsageError

FIELDS = {
    "query": "objective",
    "context": "context",
    "tools": "tools",
    "transcript": "transcript",
    "promptTemplate": "prompt_template",
}
"""Inputs of ``llm/core:plan`` and what `Engine.run` calls them."""

BYTES_MAX = 1_000_000


def handler(engine: Engine) -> type[BaseHTTPRequestHandler]:
    """Return a handler that runs what is posted to ``/plan`` on *engine*."""

    class Plans(BaseHTTPRequestHandler):
        """Answers a planner's input with the result of its run."""

        def do_POST(self) -> None:
            """Run the request; what cannot be used is 400 with one line."""
            try:
                size = int(self.headers.get("Content-Length") or 0)
                if self.path != "/plan" or not 0 < size <= BYTES_MAX:
                    raise UsageError(f"post JSON of at most {BYTES_MAX:,} bytes to /plan")
                data = json.loads(self.rfile.read(size))
                if not isinstance(data, dict) or "query" not in data:
                    raise UsageError("the request needs a query")
                options = {FIELDS[name]: value for name, value in data.items() if name in FIELDS}
                self.answer(200, engine.run(mode="planner", **options).wire())
            except (ValueError, UsageError) as error:
                self.answer(400, {"error": str(error)})

        def answer(self, status: int, data: dict[str, Any]) -> None:
            """Send *data* as JSON."""
            body = json.dumps(data).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            """Stay silent."""

    return Plans


def posted(port: int, data: Any) -> tuple[int, dict[str, Any]]:
    """Return status and body of what the server says to *data*."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}/plan", json.dumps(data).encode())
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


class Shown(ScriptedModel):
    """A script that shows what its planner was asked."""

    def ask(self, call: ModelCall) -> Reply:
        """Print the user's part of a planner's prompt, then answer."""
        if call.kind == "plan":
            print(call.messages[-1].text.splitlines()[0])
        return super().ask(call)


def main() -> None:
    """Post three requests to a server on this machine and print what comes back."""
    replies = ["The archive opens at nine.", {"status": "success", "improvements": []}]
    engine = Engine(model=Shown(replies), journal=Journal(":memory:", "off"))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler(engine))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    port = server.server_address[1]
    requests: list[Any] = [
        {"query": "When does it open?"},
        {"query": "When does it open?", "promptTemplate": "Clerk, plan this: {{KEY:OBJECTIVE}}"},
        {"promptTemplate": "no query"},
    ]
    for request in requests:
        status, data = posted(port, request)
        print(status, data.get("answer") or data["error"])
    server.shutdown()
    server.server_close()
    engine.close()


if __name__ == "__main__":
    main()
