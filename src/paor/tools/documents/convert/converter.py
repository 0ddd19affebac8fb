"""
Convert documents in a process of their own: a clock, a bound on memory, and a run that is to stop all end it.

A file can be made so that reading it takes hours or all memory, and the libraries that read PDF are written in C. So
every format but small plain texts is read by a process that has no keys and no open files, and is killed when its time
is up. It reads one document after the other; after a failure the next document gets a new process. Documents go in and
texts come out as bytes and JSON over pipes.
"""

from __future__ import annotations

import json
import os
from base64 import b64decode
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self

from ....states.settings.limits import Limits
from ...process.child import AskedToStop, ChildProcess
from .conversion import ConversionError, Converted, DocumentPlace
from .registry import SIZE_MAX, convert, is_plain, shown

_PLAIN_BYTES = 1_000_000
"""Plain texts up to this size are read without a process; the time that takes grows with their size only."""
MODULE = "paor.tools.documents.convert.worker"
KEPT = (
    "LD_LIBRARY_PATH",
    "DYLD_LIBRARY_PATH",
    "PYTHONHOME",
    "PYTHONPYCACHEPREFIX",
    "PYTHONDONTWRITEBYTECODE",
    "SYSTEMROOT",
)
"""All of the environment that the process sees, beside the path of modules: what a Python may need to start."""


def read_bytes(name: str, data: bytes, *, mime: str | None = None, limits: Limits | None = None) -> Converted:
    """Return the text of one document, as `Converter` does for several."""
    with Converter(limits) as convert:
        return convert(name, data, mime=mime)


def _never() -> str | None:
    return None


class Converter:
    """
    Converts the documents of one call; a context manager, whose end is the end of the process. Not for several threads.

    Args:
        limits: `Limits.document_time_s` and `Limits.document_memory_bytes` of one document.
        stopped: Asked ten times a second; a text says why reading is to stop at once.
    """

    def __init__(self, limits: Limits | None = None, stopped: Callable[[], str | None] = _never) -> None:
        self._limits, self._stopped = limits or Limits(), stopped
        self._process: ChildProcess | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def __call__(self, name: str, data: bytes, *, mime: str | None = None) -> Converted:
        """
        Return the text of one document, as `registry.convert` does.

        Raises:
            ConversionError: As there; also ``too_slow``, ``stopped``, and ``too_large`` when memory did not suffice.
        """
        if len(data) > SIZE_MAX or (len(data) <= _PLAIN_BYTES and is_plain(name, data, mime)):
            return convert(name, data, mime=mime)
        if (reason := self._stopped()) is not None:
            raise ConversionError("stopped", f"{shown(name)} was not read: {reason}")
        answer = self._ask(name, data, mime)
        places = tuple(DocumentPlace(**place) for place in answer["places"])
        return Converted(**answer | {"notes": tuple(answer["notes"]), "places": places})

    def pictures(self, name: str, data: bytes, pages: Sequence[int]) -> tuple[int, list[bytes]]:
        """
        Return how many pages a PDF file has, and pictures of some of them: PNG, none for a page that it has not.

        Raises:
            ConversionError: As `__call__`.
        """
        answer = self._ask(name, data, None, pages)
        return answer["count"], [b64decode(one) for one in answer["pictures"]]

    def _ask(
        self, name: str, data: bytes, mime: str | None, pages: Sequence[int] | None = None
    ) -> dict[str, Any]:
        """Return what the process answers; it ends with any failure."""
        try:
            answer = self._answer(name, data, {"mime": mime, "pages": pages})
            if "code" in answer:
                raise ConversionError(answer["code"], answer["message"])
        except BaseException:
            self._end()
            raise
        return answer

    def _answer(self, name: str, data: bytes, asked: dict[str, Any]) -> dict[str, Any]:
        """Return what the process answers: the fields of `Converted`, pictures, or a code and a message."""
        limit_s = self._limits.document_time_s
        process = self._process = self._process or self._started()
        head = json.dumps({"name": name, "bytes": len(data), **asked}).encode() + b"\n"
        try:
            line = process.ask((head, data), self._stopped, limit_s)
        except AskedToStop as reason:
            raise ConversionError("stopped", f"{shown(name)} was not read to its end: {reason}") from None
        except TimeoutError:
            message = (
                f"takes more than {limit_s:g} seconds to read and was given up (document_time_s); split it"
            )
            raise ConversionError("too_slow", f"{shown(name)} {message}") from None
        try:
            found: dict[str, Any] = json.loads(line)
        except ValueError:
            memory = f"{self._limits.document_memory_bytes:,} bytes of memory (document_memory_bytes)"
            message = f"ended the process that read it: it is damaged, or needs more than {memory}"
            raise ConversionError("broken", f"{shown(name)} {message}") from None
        return found

    def _started(self) -> ChildProcess:
        """Start a process; it inherits nothing but three pipes and the path of modules."""
        bounds = (str(self._limits.document_time_s), str(self._limits.document_memory_bytes))
        kept = {key: os.environ[key] for key in KEPT if key in os.environ}
        environment = kept | {"PYTHONHASHSEED": "0", "PYTHONUTF8": "1"}
        return ChildProcess(MODULE, *bounds, environment=environment, is_quiet=True)

    def _end(self) -> None:
        """End the process, whatever it does."""
        process, self._process = self._process, None
        if process is not None:
            process.end()
