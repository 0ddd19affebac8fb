"""
What is left of a search whose process ends in the middle of it: the case that was being tried, as a file.

A tool that ends its process, or kills it, ends the search too, and nobody is left to tell. So the case stands in a file
before a tool of the engine's own is called, and the file is gone when the search has come to its end.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from ..states.errors import UsageError
from .oracles.invariants import Violation
from .repro import repro_of


class Unfinished:
    """
    The file of one search.

    Args:
        path: Of the file. A place that cannot be written is left alone: it is no reason not to search.
        app: What the engine is called on the command line.
    """

    def __init__(self, path: Path, app: str) -> None:
        self._path, self._app = path, app
        self._made = [folder for folder in (path.parent, *path.parent.parents) if not folder.exists()]

    def write(self, case: Violation) -> None:
        """Write the case in which a tool is now called."""
        with suppress(UsageError):
            repro_of(case, self._app).save(self._path.parent, self._path.name)

    def drop(self) -> None:
        """Leave nothing behind: the search has come to its end."""
        with suppress(OSError):
            self._path.unlink()
        for folder in self._made:
            with suppress(OSError):  # something is in it
                folder.rmdir()
