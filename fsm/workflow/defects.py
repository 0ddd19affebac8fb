"""What is wrong with a file, as a list with places; what `paor validate` prints."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from .source import Path, Place


@dataclass(frozen=True, slots=True)
class FileDefect:
    """
    One thing that is wrong with a plan or workflow.

    Attributes:
        code: From a closed list, such as ``unknown_key``.
        message: One ASCII line, without the place.
        path: Keys and indexes that lead to it, as people write them; empty for the whole.
        line: From 1.
        column: From 1.
        severity: ``error``, or ``warning`` for what may be meant.
    """

    code: str
    message: str
    path: str
    line: int
    column: int
    severity: Literal["error", "warning"] = "error"

    def __str__(self) -> str:
        where = f" {self.path}:" if self.path else ""
        what = "" if self.severity == "error" else " warning:"
        return f"{self.line}:{self.column}:{what}{where} {self.message}"

    def wire(self) -> dict[str, Any]:
        """Return the defect as JSON data."""
        return {
            "line": self.line,
            "column": self.column,
            "path": self.path,
            "severity": self.severity,
            "code": self.code,
            "message": self.message,
        }


def defect(code: str, message: str, path: Path, place: Place, *, warning: bool = False) -> FileDefect:
    """Return a defect at *path*."""
    line = " ".join(message.split())
    severity: Literal["error", "warning"] = "warning" if warning else "error"
    return FileDefect(code, ascii(line)[1:-1][:300], shown_path(path), place.line, place.column, severity)


def shown_path(path: Path) -> str:
    """Return a path as people write it: ``stage.loop.exec.goto[0].when``."""
    shown = ""
    for part in path:
        if isinstance(part, int):
            shown += f"[{part}]"
        else:
            shown += f"{'.' if shown else ''}{part}"
    return ascii(shown)[1:-1][:200]


def in_order(defects: Iterable[FileDefect]) -> tuple[FileDefect, ...]:
    """Return defects as they stand in the file, each once."""
    return tuple(
        dict.fromkeys(sorted(defects, key=lambda item: (item.line, item.column, item.path, item.code)))
    )
