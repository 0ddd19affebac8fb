"""What is wrong with a file, as a list with places; what `paor validate` prints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal

from .source import Path, Place, SourceText


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
        names = ("line", "column", "path", "severity", "code", "message")
        return {name: getattr(self, name) for name in names}


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


class DefectList:
    """
    Collects what is wrong with one file.

    Args:
        source: The file, for places.
        origin: Where parts of the checked data are in the file: a path of the data to one of the file.

    Attributes:
        defects: What was found so far.
    """

    def __init__(self, source: SourceText, origin: Mapping[Path, Path]) -> None:
        self.source = source
        self.origin = dict(origin)
        self.defects: list[FileDefect] = []

    def place(self, path: Path) -> tuple[Path, Place]:
        """Return where something is in the file: its path there, and line and column."""
        for size in range(len(path), -1, -1):
            if path[:size] in self.origin:
                path = (*self.origin[path[:size]], *path[size:])
                break
        return path, self.source.place(path)

    def add(self, code: str, message: str, path: Path, *, warning: bool = False) -> None:
        """Add a defect at a path of the data."""
        shown, place = self.place(path)
        self.defects.append(defect(code, message, shown, place, warning=warning))


def near(word: str, known: Iterable[str]) -> str:
    """Return a suggestion for a word that is not known, with a leading separator; empty where none is like it."""
    found = get_close_matches(word, list(known), n=1)
    return f"; did you mean {found[0]}?" if found else ""


def near_or_all(word: str, known: Iterable[str]) -> str:
    """Return a suggestion for a word that is not known, with a leading separator: one like it, else all."""
    return near(word, known) or f"; there are: {', '.join(known)}"


def is_usable(defects: Iterable[FileDefect]) -> bool:
    """Return whether a file can be used: there is nothing but warnings."""
    return all(item.severity == "warning" for item in defects)


def in_order(defects: Iterable[FileDefect]) -> tuple[FileDefect, ...]:
    """Return defects as they stand in the file, each once."""
    return tuple(
        dict.fromkeys(sorted(defects, key=lambda item: (item.line, item.column, item.path, item.code)))
    )
