"""Streams, exit codes and the options that every command has."""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

import click

from ...states.base.errors import (
    JournalDamaged,
    JournalError,
    PaorError,
    ReplayDiverged,
    UsageError,
)
from .text import harmless, one_line

OK, RUN_FAILED, USAGE, DIVERGED, DAMAGED, WAITING, LIMIT, INTERRUPTED = 0, 1, 2, 3, 4, 5, 6, 130
"""Exit codes; 130 is what a shell gives a program that Ctrl-C ended."""

DEFAULT_JOURNAL = "paor.db"


# -- writing -----------------------------------------------------------------------------------------------------


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


def width(stream: TextIO | None = None) -> int:
    """Return the cells of a line of *stream*: the terminal's, ``COLUMNS``, or 100 for neither; at least 40."""
    with suppress(ValueError):
        return max(40, int(os.environ.get("COLUMNS") or ""))
    with suppress(OSError, ValueError):
        return max(40, os.get_terminal_size((stream or sys.stdout).fileno()).columns)
    return 100


NARROW = 92
"""Below this width tables leave out what can be seen elsewhere: the phase a row comes from, the year of a date."""

SLIM = 78
"""Below this one they keep what tells rows apart and their text: no numbers of single rows, no dates."""


def arrow() -> str:
    """Return an arrow that standard output can show."""
    try:
        "→".encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return "->"
    return "→"


def say(*lines: str) -> None:
    """Write lines for people to standard output; the flush tells at once when nobody reads any more."""
    _write(sys.stdout, lines)


def tell(*lines: str) -> None:
    """Write messages to standard error; a reader that has gone is no reason to fail."""
    with suppress(OSError, ValueError, OutputLost):
        _write(sys.stderr, lines)


def _write(stream: TextIO, lines: Sequence[str]) -> None:
    text = "".join(f"{line}\n" for line in lines)
    with _output():
        stream.write(text if coloured(stream) else click.unstyle(text))
        stream.flush()


def say_json(data: Any, *, compact: bool = False) -> None:
    """Write *data* as JSON in UTF-8; the same data gives the same bytes."""
    if compact:
        text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    else:
        text = json.dumps(data, ensure_ascii=False, indent=2)
    say_bytes(_ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", text).encode() + b"\n")


_ESCAPED = re.compile("[\x7f-\x9f\ud800-\udfff]")
"""Characters that JSON allows and a terminal or UTF-8 does not; they occur within JSON strings only."""


def say_bytes(data: bytes) -> None:
    """Write bytes to standard output as they are."""
    with _output():
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


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


def write_atomically(path: Path, data: bytes) -> None:
    """
    Write a file so that it is there whole or not at all; a device or pipe is written directly.

    Raises:
        UsageError: It cannot be written; what was there before is untouched.
    """
    try:
        target = path.resolve()
        if target.exists() and not target.is_file():
            target.write_bytes(data)
            return
        mode = target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask()
        handle, name = tempfile.mkstemp(prefix=f".{target.name[:60]}.", dir=target.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(name, mode)
            os.replace(name, target)
        except BaseException:
            with suppress(OSError):
                os.unlink(name)
            raise
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: cannot be written ({reason(error)})") from None


BESIDE = ("", "-wal", "-shm", "-journal")
"""What SQLite may keep beside a journal, by what it adds to its name."""


def keep_journals(option: str, path: str, *journals: str) -> None:
    """
    See to it that a file that is written replaces none of *journals*, there already or not yet, nor what is beside them.

    Raises:
        UsageError: It would.
    """
    for journal in journals:
        if any(same_file(path, journal + ending) for ending in BESIDE):
            raise UsageError(f"{option} {one_line(path)}: would replace the journal {one_line(journal)}")


def same_file(one: str, other: str) -> bool:
    """Whether two names lead to the same file, which need not be there yet."""
    try:
        return os.path.realpath(one) == os.path.realpath(other) or os.path.samefile(one, other)
    except (OSError, ValueError):
        return False


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def reason(error: BaseException) -> str:
    """Return an exception as a few words: the system's own where there are any."""
    text = getattr(error, "strerror", None) or str(error)
    return one_line(text) if text else type(error).__name__


# -- commands ----------------------------------------------------------------------------------------------------


def command(name: str, *examples: str) -> Callable[[Callable[..., int]], click.Command]:
    """
    Make a function a command with its examples and the options that all commands have.

    Args:
        name: Of the command.
        examples: Command lines for the help page.
    """

    def decorate(function: Callable[..., int]) -> click.Command:
        epilog = "\b\nExamples:\n" + "\n".join(f"  {example}" for example in examples)
        made = click.command(name, epilog=epilog, context_settings=SETTINGS)(function)
        where = f"Journal file; default $PAOR_JOURNAL or {DEFAULT_JOURNAL}."
        what = "Print JSON, the same bytes for the same data."
        made.params.append(click.Option(["--journal"], metavar="FILE", callback=_journal_path, help=where))
        made.params.append(click.Option(["--json", "as_json"], is_flag=True, help=what))
        return made

    return decorate


SETTINGS: Mapping[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 96}


def _journal_path(context: click.Context, option: click.Parameter, value: str | None) -> str:
    if value == "":
        raise click.UsageError("--journal: expected a file name")
    context.meta["paor.journal"] = value is not None
    return value or os.environ.get("PAOR_JOURNAL") or DEFAULT_JOURNAL


def journal_flag(path: str) -> str:
    """Return what a next command needs to find the same journal, with a space before; often nothing."""
    import shlex

    usual = os.environ.get("PAOR_JOURNAL") or DEFAULT_JOURNAL
    return "" if path == usual else f" --journal {shlex.quote(path)}"


# -- errors ------------------------------------------------------------------------------------------------------


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
