"""
A call of a tool's function in a process of its own, which `worker` is: there by name, arguments and result as JSON.

The function gets no object of this process. Of its context it gets what is plain data, so also its idempotency key, but it
can ask no model and read no documents. The process has the environment and the folder of this one, and ends with it.
"""

from __future__ import annotations

import json
import os
import sys
from base64 import b64decode
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, NoReturn

from ...states.base.errors import AnswerNeeded, EffectUnknown, NotStarted, TimedOut, ToolError
from ...states.records.actions import WebFact
from ..signature import importable_name
from ..tool import Document, Tool, ToolOutput
from .child import AskedToStop, ChildProcess

WORKER = "paor.tools.process.worker"
PLAIN = (
    *("run_id", "action", "language", "objective", "success_criteria", "idempotency_key", "answer"),
    *("timeout_s", "final_format", "traceparent"),
)
"""What a context has as plain data, beside policy, limits and resumption."""

_RAISED: dict[str, type[ToolError]] = {
    kind.__name__: kind for kind in (ToolError, NotStarted, EffectUnknown, TimedOut)
}
"""Exceptions that mean in the caller what they mean in the function; all others are told in words."""


def call_in_process(
    function: Callable[..., Any], arguments: Mapping[str, Any], context: Any, *, typed: bool, once: bool
) -> Any:
    """
    Return what *function* returns, as JSON has it.

    Args:
        function: One that has an `importable_name`.
        arguments: Plain data.
        context: Of the call; `ToolContext.stopped` is asked whether to kill the process.
        typed: Whether the arguments are converted to the function's annotations.
        once: Whether a value that has no JSON form is kept as far as it can be, as a `ToolOutput`; else it is an error.

    Raises:
        ToolError: The function raised; `NotStarted`, `EffectUnknown`, `TimedOut` and `AnswerNeeded` as they were.
        NotStarted: There is no process, or it cannot import the function, or would find another one by its name.
        EffectUnknown: The process ended, or was ended, before it answered.
    """
    call = {
        "function": _name_of(function),
        "arguments": dict(arguments),
        "typed": typed,
        "once": once,
        "context": _plain(context),
    }
    request = json.dumps(call).encode() + b"\n"
    try:
        child = ChildProcess(WORKER, environment=os.environ)
    except OSError as error:
        raise NotStarted(f"its process could not be started: {error}") from None
    line = b""
    try:
        line = child.ask((request,), context.stopped)
    except AskedToStop as reason:
        raise EffectUnknown(f"its process was ended: {reason}") from None
    finally:
        code = child.end()
    if not line.endswith(b"\n"):
        raise EffectUnknown(f"its process ended before it answered (exit code {code})")
    answer = json.loads(line)
    if "kept" in answer:
        return _kept(answer["kept"])
    return answer["returned"] if "returned" in answer else _raise(answer)


def _kept(parts: Mapping[str, Any]) -> ToolOutput:
    documents = [
        Document(name, b64decode(data) if is_bytes else data, mime)
        for name, mime, data, is_bytes in parts["documents"]
    ]
    return ToolOutput(documents, parts["notes"], [WebFact.of(fact) for fact in parts["web"]])


def _name_of(function: Callable[..., Any]) -> str | None:
    name, nothing = importable_name(function), object()
    found: Any = sys.modules.get(function.__module__, nothing)
    for part in function.__qualname__.split("."):
        found = getattr(found, part, nothing)
    found = found.run if isinstance(found, Tool) else found
    if found is not function and found is not nothing:
        raise NotStarted(f"its process would find another function by the name {name}")
    return name


def _raise(answer: Mapping[str, Any]) -> NoReturn:
    if "asked" in answer:
        *asked, looks_only = answer["asked"]
        raise AnswerNeeded(*asked, looks_only=looks_only)
    raise _RAISED.get(answer["raised"], ToolError)(answer["text"])


def _plain(context: Any) -> dict[str, Any]:
    resumption = context.resumption
    return {name: getattr(context, name) for name in PLAIN} | {
        "policy": context.policy.model_dump(mode="json"),
        "limits": context.limits.model_dump(mode="json"),
        "resumption": asdict(resumption) if resumption is not None else None,
    }
