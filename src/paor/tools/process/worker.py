"""
The process in which a tool's function is called: ``python -m paor.tools.process.worker``, started by `call`.

One line of JSON comes in on standard input, one goes out on standard output. The function has neither: what it prints goes
to standard error, and what it reads is empty. When the input ends, whoever asked is gone, and so this process ends with all
that it has started, whatever the function does.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import os
import signal
import sys
import threading
from base64 import b64encode
from collections.abc import Mapping
from contextlib import suppress
from operator import attrgetter
from types import SimpleNamespace
from typing import Any, BinaryIO, NoReturn, cast

from ...states.base.errors import AnswerNeeded, EffectUnknown, NotStarted, TimedOut, ToolError
from ...states.settings.limits import Limits
from ...states.settings.policy import Policy
from ..kept_values import OF_ITS_CLASS, plain, rescued
from ..signature import bind, context_parameter
from ..tool import Document, Resumption, Tool, ToolContext, ToolOutput


def answer_to(call: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the function returns or raises, in the form that `call` reads."""
    try:
        value = _called(call)
        limits = Limits.model_validate(call["context"]["limits"])
        try:
            return {"returned": _returned(value, limits.result_bytes)}
        except ToolError:
            if not call["once"]:
                raise
            return {"kept": _parts(rescued(value, limits))}  # the call was made, whatever came of it
    except AnswerNeeded as error:
        return _asked(error)
    except ToolError as error:
        kinds = (NotStarted, EffectUnknown, TimedOut, ToolError)  # a host's own classes count as paor's
        kind = next(kind for kind in kinds if isinstance(error, kind))
        return {"raised": kind.__name__, "text": _words(error)}
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is the function's, and is told in words
        return {"raised": "", "text": f"{type(error).__name__}: {_words(error)}"}


def _asked(error: AnswerNeeded) -> dict[str, Any]:
    asked = [error.message, error.schema, error.state, error.looks_only]
    try:
        json.dumps(asked)
    except (TypeError, ValueError, RecursionError) as reason:
        return {"raised": "", "text": f"what it asks has no JSON form: {reason}"}
    return {"asked": asked}


def _called(call: Mapping[str, Any]) -> Any:
    function = _function(call["function"])
    values = bind(function, call["arguments"]) if call["typed"] else dict(call["arguments"])
    if (name := context_parameter(function)) is not None:
        values[name] = context_of(call["context"])
    value = function(**values)
    return asyncio.run(_awaited(value)) if inspect.isawaitable(value) else value


async def _awaited(value: Any) -> Any:
    return await value


def _function(name: str) -> Any:
    """Return the function of a name; of a decorated one the name is the tool's."""
    module, _, attribute = name.partition(":")
    try:
        found = attrgetter(attribute)(importlib.import_module(module))
    except BaseException as error:  # noqa: BLE001 - a module may raise anything
        raise NotStarted(
            f"its process cannot import {name}: {type(error).__name__}: {_words(error)}"
        ) from None
    return found.run if isinstance(found, Tool) else found


_JSON_MOST = 6
"""Most letters of JSON that a byte of text becomes."""


def _returned(value: Any, bytes_max: int) -> Any:
    """Return a value as JSON has it; raise `ToolError` where that is not what it is, or more than a call may return."""
    if isinstance(value, bytes | bytearray | Document | ToolOutput):
        raise ToolError(
            f"the tool ran and returned {type(value).__name__}; a process gives back text or JSON"
        )
    try:
        text = json.dumps(value, default=plain)
    except OF_ITS_CLASS:
        raise ToolError(
            f"the tool ran and returned a {type(value).__name__}, which has no JSON form"
        ) from None
    if len(text) > _JSON_MOST * bytes_max:  # so that whoever asked never reads it
        raise ToolError(f"the call returned {len(text)} bytes of JSON; at most {bytes_max} are kept")
    return json.loads(text)


def _parts(output: ToolOutput) -> dict[str, Any]:
    """Return what was kept as JSON has it, bytes in base64."""
    documents = [
        [
            document.name,
            document.mime,
            b64encode(document.data).decode() if isinstance(document.data, bytes) else document.data,
            isinstance(document.data, bytes),
        ]
        for document in output.documents
    ]
    return {"documents": documents, "notes": list(output.notes), "web": [fact.wire() for fact in output.web]}


def _words(error: BaseException) -> str:
    try:
        return str(error)
    except OF_ITS_CLASS:
        return ""


def context_of(plain: Mapping[str, Any]) -> ToolContext:
    """Return what a function in a process of its own may know of its run."""
    resumption = plain["resumption"]
    given = {
        "success_criteria": tuple(plain["success_criteria"]),
        "policy": Policy.model_validate(plain["policy"]),
        "limits": Limits.model_validate(plain["limits"]),
        "resumption": Resumption(**resumption) if resumption is not None else None,
    }
    none = {"connection": None, "stopped": lambda: None, "documents": _refuse, "ask": _refuse}
    given["takes_pictures"] = False
    return cast(ToolContext, SimpleNamespace(**{**plain, **given, **none}))


def _refuse(*args: Any, **kwargs: Any) -> NoReturn:
    raise ToolError("a tool in a process of its own can ask no model and read no documents")


def _end_with_caller(requests: BinaryIO) -> None:
    """End this process and its group once its input does: only the death of the caller, or its kill, ends that."""
    while requests.read(1):
        pass
    if hasattr(os, "killpg") and os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


def main() -> None:
    """Serve one call on the standard streams."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    call = json.loads(requests.readline())
    threading.Thread(target=_end_with_caller, args=(requests,), daemon=True).start()
    answer = json.dumps(answer_to(call)).encode() + b"\n"
    with suppress(
        Exception
    ):  # whatever the function has made of it; once the answer is out, this process is killed
        sys.stdout.flush()
    answers.write(answer)
    answers.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
