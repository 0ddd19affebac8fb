"""
The extension ``io.modelcontextprotocol/tasks``: a server answers a call with a handle, and its result is polled.

The handle is the state of the call's `Dialogue`. A run journals it before it polls, so whoever resumes the run after a
crash asks for the task and never makes the call again (`AnswerNeeded.looks_only`).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal

EXTENSION = "io.modelcontextprotocol/tasks"
POLL_S = 1.0
"""Seconds between two looks at a task whose server does not say how often it wants to be asked."""

POLL_MAX_S = 60.0
"""Most that a server can ask for: a run that is cancelled or out of time is noticed between two looks."""


@lru_cache(maxsize=1)
def extension() -> Any:
    """Return the extension for the package's client: with it a server may answer with a handle."""
    from mcp.client.extension import ClientExtension, ResultClaim
    from mcp_types import Result

    class Handle(Result):
        """What a call that became a task comes to at first."""

        result_type: Literal["task"]
        task_id: str

    async def never(handle: Any, context: Any) -> Any:
        raise AssertionError("a handle is taken by the call itself")

    class Tasks(ClientExtension):
        """Claims the results that are handles."""

        identifier = EXTENSION

        def claims(self) -> Any:
            return [ResultClaim(result_type="task", model=Handle, resolve=never)]

    return Tasks()


async def ask(session: Any, method: str, task: str, **params: Any) -> dict[str, Any]:
    """Return what a server says of a task: ``tasks/get``, ``tasks/update`` or ``tasks/cancel``."""
    from mcp_types import Request
    from pydantic import TypeAdapter

    class AboutTask(Request[dict[str, Any], str]):
        name_param = "taskId"

    request = AboutTask(method=method, params={"taskId": task, **params})
    found: dict[str, Any] = await session.client.session.send_request(request, TypeAdapter(dict[str, Any]))
    return found


def pause_s(told: dict[str, Any]) -> float:
    """Return the seconds until a task is looked at again, as its server wishes within bounds."""
    wish = told.get("pollIntervalMs")
    if not isinstance(wish, int | float) or isinstance(wish, bool):
        return POLL_S
    return min(max(wish / 1000, 0.02), POLL_MAX_S)
