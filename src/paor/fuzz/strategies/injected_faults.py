"""
What can happen in a call of a tool, as JSON, and how it is made to happen.

A happening says whether the tool's own function is called, and what the engine gets: its result, another value, or
an exception of any kind. The list of exceptions is closed: a repro file names one of them and brings none. A call can also
hang past its deadline: it ends while it is waited for to clean up (``late``), or is left running and ends later (``hang``).
"""

from __future__ import annotations

import asyncio
import decimal
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from ...states.base.errors import AnswerNeeded, EffectUnknown, NotStarted, TimedOut, ToolError
from ...tools.tool import Document, ToolOutput
from .reply_builder import INJECTED

CALL: dict[str, Any] = {"do": "call"}
"""The tool's own function is called, and what it returns or raises counts."""


HANGS = ("hang", "late")
"""What a call does that is given up at its deadline; one that has none raises `TimeoutError` instead."""


class BadWords(RuntimeError):
    """An exception that cannot say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


RAISED: dict[str, Callable[[], BaseException]] = {
    "ToolError": lambda: ToolError("page 3 is torn out"),
    "ToolError, injected": lambda: ToolError(INJECTED),
    "NotStarted": lambda: NotStarted("the line is busy"),
    "EffectUnknown": lambda: EffectUnknown("the answer was cut off"),
    "TimedOut": lambda: TimedOut("the server was silent for 30 s"),
    "TimeoutError": lambda: TimeoutError("timed out after 30 s"),
    "ConnectionResetError": lambda: ConnectionResetError(104, "Connection reset by peer"),
    "OSError": lambda: OSError(28, "No space left on device"),
    "PermissionError": lambda: PermissionError(13, "Permission denied", "/root/.ssh/id_rsa"),
    "KeyError": lambda: KeyError("id"),
    "IndexError": lambda: IndexError("list index out of range"),
    "TypeError": lambda: TypeError("unsupported operand"),
    "ValueError": lambda: ValueError("\0\ud800 not a number"),
    "UnicodeDecodeError": lambda: UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
    "ZeroDivisionError": lambda: ZeroDivisionError("division by zero"),
    "AssertionError": lambda: AssertionError(),
    "RecursionError": lambda: RecursionError("maximum recursion depth exceeded"),
    "MemoryError": lambda: MemoryError(),
    "StopIteration": lambda: StopIteration(1),
    "StopAsyncIteration": lambda: StopAsyncIteration(),
    "CancelledError": lambda: asyncio.CancelledError(),
    "SystemExit": lambda: SystemExit(3),
    "ExceptionGroup": lambda: ExceptionGroup("several", [ValueError("one"), KeyError("two")]),
    "long message": lambda: RuntimeError("x" * 200_000),
    "no words": lambda: BadWords(),
}
"""Exceptions of every kind that a tool may raise, by name."""

RETURNED: dict[str, Callable[[], Any]] = {
    "nothing": lambda: None,
    "empty text": lambda: "",
    "text": lambda: "Page 3: the supplier delivers within 30 days.",
    "injected": lambda: INJECTED,
    "data": lambda: {"total": 17, "items": [{"id": "A-1", "late": True}, {"id": "A-2", "late": None}]},
    "empty list": list,
    "many items": lambda: [{"number": number} for number in range(2000)],
    "deep": lambda: json.loads("[" * 200 + "1" + "]" * 200),
    "huge": lambda: "word " * 100_000,
    "binary": lambda: bytes(range(256)) * 8,
    "control characters": lambda: "a\0b\x1b[2J\ud800\u202e",
    "not a number": lambda: {"value": float("nan"), "most": float("inf")},
    "big number": lambda: {"value": 2**70},
    "decimal and date": lambda: {"price": decimal.Decimal("1.10"), "at": datetime(2026, 1, 31, tzinfo=UTC)},
    "set": lambda: {3, 1, 2},
    "object": lambda: object(),
    "generator": lambda: (number for number in range(3)),
    "number keys": lambda: {1: "one", 2: "two"},
    "documents": lambda: [Document("a.txt", "one"), Document("b.bin", b"\0\xff", "application/octet-stream")],
    "odd document": lambda: Document("../../etc/passwd\0", "text", "text/\nplain"),
    "odd output": lambda: ToolOutput(documents=("no document",), notes=(1, None)),  # type: ignore[arg-type]
    "notes": lambda: ToolOutput(notes=["3 pages", "x" * 5000, INJECTED]),
}
"""Values of every kind that a tool may return, by name; ``data`` and the others are what real tools return, too."""


def exception_of(happening: Mapping[str, Any]) -> BaseException:
    """Return the exception that *happening* names."""
    if happening["do"] == "ask":
        return AnswerNeeded(happening["message"], happening.get("schema"), happening.get("state"))
    return RAISED[happening["what"]]()


def check_happening(data: object) -> dict[str, Any]:
    """
    Return a happening as a repro file holds it.

    Raises:
        ValueError: It is none.
    """
    if not isinstance(data, Mapping) or data.get("do") not in (
        "call",
        "raise",
        "raise_after",
        "return",
        "ask",
        *HANGS,
    ):
        raise ValueError("something that happens in a tool and is unknown")
    kind, what = data["do"], data.get("what")
    if kind in ("raise", "raise_after") and what not in RAISED:
        raise ValueError(f"an exception that is not on the list: {what!a:.80}")
    if kind == "return" and what not in RETURNED and "value" not in data:
        raise ValueError(f"a result that is not on the list: {what!a:.80}")
    if kind == "ask" and not isinstance(data.get("message"), str):
        raise ValueError("a question without words")
    return dict(data)
