"""
An MCP server of protocol 2026-07-28 without the SDK: ``python raw_modern_server.py EFFECTS [--listing KIND]``.

Tools that are tasks, structured content of any form, lists that change, and what a client sends along. What it knows of
its tasks is in files beside EFFECTS, as of a server that outlives its process. Where there is a file ``kill``, it kills the
process that looks for a task.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

TEXT = {"type": "object", "properties": {"text": {"type": "string"}}}
VERSION = "2026-07-28"
TASKS = "io.modelcontextprotocol/tasks"
ASKED = {
    "method": "elicitation/create",
    "params": {
        "mode": "form",
        "message": "Which colour?",
        "requestedSchema": {
            "type": "object",
            "properties": {"colour": {"type": "string"}},
            "required": ["colour"],
        },
    },
}
EFFECTS = Path(sys.argv[1])
LISTING = sys.argv[sys.argv.index("--listing") + 1] if "--listing" in sys.argv else ""


def effect(what: str) -> None:
    with EFFECTS.open("a", encoding="utf-8") as file:
        file.write(f"{what}\n")


def write(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def task_file(handle: str) -> Path:
    return EFFECTS.with_name(f"task-{handle}.json")


def task_of(handle: str, status: str, **more: Any) -> dict[str, Any]:
    at = "2026-07-28T10:00:00Z"
    return {
        "taskId": handle, "status": status, "createdAt": at, "lastUpdatedAt": at,
        "ttlMs": None, "pollIntervalMs": 20, **more,
    }  # fmt: skip


def looked_at(handle: str) -> dict[str, Any]:
    """Return a task as it is; the test says in a file of its own when it is ready."""
    kind = json.loads(task_file(handle).read_text())
    ready, update = EFFECTS.with_name("ready"), EFFECTS.with_name("update.json")
    if kind == "asking" and not update.exists():
        return task_of(handle, "input_required", inputRequests={"colour": ASKED})
    if kind == "asking":
        told = json.dumps(json.loads(update.read_text()), sort_keys=True)
        return task_of(handle, "completed", result={"content": [{"type": "text", "text": told}]})
    if kind == "failing":
        return task_of(handle, "failed", error={"code": -32603, "message": "the oven is cold"})
    if not ready.exists():
        return task_of(handle, "working", statusMessage="in the oven")
    result = {"content": [], "structuredContent": ["a", 1, None], "resultType": "complete"}
    return task_of(handle, "completed", result=result)


def listed() -> dict[str, Any]:
    tools = [
        {"name": name, "inputSchema": TEXT}
        for name in ("bake", "asking", "failing", "echo", "meta", "grow", "die", "structured")
    ]
    if EFFECTS.with_name("grown").exists():
        tools[3] = {"name": "echo", "inputSchema": {**TEXT, "required": ["text"]}}
    if LISTING == "bad":
        wrong: list[Any] = [
            {"name": "array", "inputSchema": {"type": "array"}},
            {"name": "none"},
            {"inputSchema": TEXT},
            "text",
            {"name": "hints", "inputSchema": TEXT, "annotations": "many"},
            {"name": "header", "inputSchema": {"type": "object", "properties": {"a": {"type": "string", "x-mcp-header": ""}}}},
        ]  # fmt: skip
        tools[1:1] = wrong
    return {"tools": tools, "ttlMs": 0, "cacheScope": "private"}


def called(name: str, arguments: dict[str, Any], meta: dict[str, Any]) -> dict[str, Any]:
    effect(name)
    if name in ("bake", "asking", "failing"):
        if TASKS not in meta["io.modelcontextprotocol/clientCapabilities"].get("extensions", {}):
            raise ValueError("tasks are needed")
        task_file(f"t-{name}").write_text(json.dumps(name))
        return {"resultType": "task", **task_of(f"t-{name}", "working")}
    if name == "die":
        sys.exit(0)
    if name == "structured":
        return json.loads(arguments["text"])  # type: ignore[no-any-return]
    if name == "grow":
        EFFECTS.with_name("grown").touch()
        for number in LISTENERS:
            write({"method": "notifications/tools/list_changed", "params": {"_meta": {SUBSCRIPTION: number}}})
    said = json.dumps(meta) if name == "meta" else str(arguments.get("text"))
    return {"content": [{"type": "text", "text": said}]}


SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
LISTENERS: list[Any] = []


def answer(method: str, params: dict[str, Any], number: Any) -> dict[str, Any] | None:
    if method == "server/discover":
        info = {"name": "raw", "version": "1"}
        return {
            "supportedVersions": [VERSION],
            "capabilities": {"tools": {"listChanged": True}, "extensions": {TASKS: {}}},
            "ttlMs": 0,
            "cacheScope": "private",
            "_meta": {"io.modelcontextprotocol/serverInfo": info},
        }
    if method == "tools/list":
        return listed()
    if method == "tools/call":
        return called(params["name"], params.get("arguments") or {}, params.get("_meta") or {})
    if method == "subscriptions/listen":
        LISTENERS.append(number)
        told = {"notifications": params["notifications"], "_meta": {SUBSCRIPTION: number}}
        write({"method": "notifications/subscriptions/acknowledged", "params": told})
        return None
    handle = params.get("taskId", "")
    if not method.startswith("tasks/"):
        raise LookupError(method)
    if not task_file(handle).exists():
        raise ValueError("Task not found")
    if method == "tasks/get":
        if (kill := EFFECTS.with_name("kill")).exists():
            kill.unlink()
            os.kill(os.getppid(), signal.SIGKILL)
        return looked_at(handle)
    effect(method)
    if method == "tasks/update":
        EFFECTS.with_name("update.json").write_text(json.dumps(params["inputResponses"]))
    return {}


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message or "method" not in message:
        continue
    try:
        result = answer(message["method"], message.get("params") or {}, message["id"])
        if result is not None:
            write({"id": message["id"], "result": {"resultType": "complete", **result}})
    except LookupError as error:
        write({"id": message["id"], "error": {"code": -32601, "message": f"no method {error}"}})
    except ValueError as error:
        write({"id": message["id"], "error": {"code": -32602, "message": str(error)}})
