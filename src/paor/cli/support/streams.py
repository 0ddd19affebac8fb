"""Streams, files that are written, and exit codes."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO, TextIO

import click

from ...states.base.errors import JournalDamaged, JournalError, PaorError, ReplayDiverged, UsageError
from ...states.base.secrets import Scrubber, scrubbed
from .text import harmless, one_line

OK, RUN_FAILED, USAGE, DIVERGED, DAMAGED, WAITING, LIMIT, INTERRUPTED = 0, 1, 2, 3, 4, 5, 6, 130
"""Exit codes; 130 is what a shell gives a program that Ctrl-C ended."""


def prepare_streams() -> None:
    """Make sure that no text can fail because of the terminal's encoding, or because a stream was closed (``>&-``)."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - for the whole process
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, ValueError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]


def coloured(stream: TextIO) -> bool:
    """Return whether *stream* is a terminal that shows colours, and they are wanted (NO_COLOR)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def say(*lines: str) -> None:
    """Write lines for people to standard output; the flush tells at once when nobody reads any more."""
    _write(sys.stdout, lines)


def tell(*lines: str) -> None:
    """Write messages to standard error; a reader that has gone is no reason to fail."""
    with suppress(OSError, ValueError, OutputLost):
        _write(sys.stderr, lines)


def _write(stream: TextIO, lines: Sequence[str]) -> None:
    """Write lines without the keys of the environment, wherever in them one stands."""
    text = scrubber()("".join(f"{line}\n" for line in lines))
    with _output():
        stream.write(text if coloured(stream) else click.unstyle(text))
        stream.flush()


def scrubber() -> Scrubber:
    """Return what takes the keys of the environment out of texts."""
    from ...prompts.clients.settings import environment_secrets  # which a page of help need not load

    return Scrubber(environment_secrets())


def say_either(as_json: bool, data: Any, lines: Iterable[str]) -> int:
    """Write what a command found, *data* as JSON or else *lines*, which are made only then; return `OK`."""
    if as_json:
        say_json(data)
    else:
        say(*lines)
    return OK


def say_json(data: Any, *, compact: bool = False) -> None:
    """Write *data* as JSON in UTF-8; the same data gives the same bytes."""
    text = json_text(data, separators=(",", ":")) if compact else json_text(data, indent=2)
    say_bytes(text.encode() + b"\n")


def json_text(data: Any, **layout: Any) -> str:
    """Return *data* without the keys of the environment, as JSON in a layout that `json.dumps` knows; a dataclass is the object of its fields."""
    scrub = scrubber()
    data = scrubbed(data, scrub)
    text = json.dumps(data, ensure_ascii=False, default=lambda item: scrubbed(asdict(item), scrub), **layout)
    return _ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


_ESCAPED = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that JSON allows and a terminal or UTF-8 does not, or that turn around what follows; they occur within JSON strings only."""


def say_bytes(data: bytes) -> None:
    """Write bytes to standard output as they are."""
    with _output():
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


def say_or_write(output: str | None, pieces: Iterable[bytes]) -> int:
    """
    Write bytes as they come to standard output, or to the file of ``--output``; return how many there were.

    Raises:
        UsageError: The file cannot be written.
    """
    if output is not None:
        written = write_atomically(Path(output), pieces)
        tell(f"wrote {output} ({written:,} bytes)")
        return written
    written = 0
    for piece in pieces:
        say_bytes(piece)
        written += len(piece)
    return written


class OutputLost(Exception):
    """What was to be printed could not be written, and not because its reader has gone."""


@contextmanager
def _output() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputLost(f"the output cannot be written ({reason(error)})") from None


def forget_output() -> None:
    """Point standard output to nowhere, so that the interpreter's last flush cannot fail."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def write_atomically(path: Path, pieces: Iterable[bytes]) -> int:
    """Write a file whole or not at all, a device or pipe directly, and return its size; raise `UsageError` when it cannot be written."""
    from tempfile import mkstemp

    with _writing(path):
        target = path.resolve()
        if target.exists() and not target.is_file():
            with target.open("wb") as file:
                return _write_pieces(path, file, pieces)
        os.umask(mask := os.umask(0o022))
        mode = target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~mask
        handle, name = mkstemp(prefix=f".{target.name[:60]}.", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            written = _write_pieces(path, file, pieces)
            with _writing(path):
                file.flush()
                os.fsync(file.fileno())
        with _writing(path):
            os.chmod(name, mode)
            os.replace(name, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise
    return written


def _write_pieces(path: Path, file: BinaryIO, pieces: Iterable[bytes]) -> int:
    written = 0
    for piece in pieces:
        with _writing(path):
            file.write(piece)
        written += len(piece)
    return written


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Tell that a file cannot be written; where the bytes come from has errors of its own."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: cannot be written ({reason(error)})") from None


BESIDE = ("", "-wal", "-shm", "-journal")
"""What SQLite may keep beside a journal, by what it adds to its name."""


def keep_journals(option: str, path: str | None, *journals: str | None) -> None:
    """Raise `UsageError` when a file that is written would replace a journal, there or not yet, or what is beside it."""
    for journal in journals:
        if path and journal and any(same_file(path, journal + ending) for ending in BESIDE):
            raise UsageError(f"{option} {one_line(path)}: would replace the journal {one_line(journal)}")


def same_file(one: str, other: str) -> bool:
    """Whether two names lead to the same file, which need not be there yet."""
    try:
        return os.path.realpath(one) == os.path.realpath(other) or os.path.samefile(one, other)
    except (OSError, ValueError):
        return False


def reason(error: BaseException) -> str:
    """Return an exception as a few words: the system's own where there are any."""
    text = getattr(error, "strerror", None) or str(error)
    return one_line(text) if text else type(error).__name__


def exit_code_of(error: PaorError) -> int:
    """Return the exit code of an error of paor's own."""
    if isinstance(error, JournalDamaged):
        return DAMAGED
    if isinstance(error, ReplayDiverged):
        return DIVERGED
    return USAGE if isinstance(error, UsageError | JournalError) else RUN_FAILED


def tell_error(text: str, where: str = "paor") -> None:
    """Write one line on what went wrong."""
    tell(f"{where}: {one_line(harmless(text))}")
