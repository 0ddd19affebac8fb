"""
The terminal: what is printed, the files that are written, exit codes, and text for people.

Objectives, answers, names and messages come from users, models and tools. On a terminal a control character in them
could move the cursor, recolour or hide what is printed, so each becomes a visible picture of itself, and that before rich
sees the text: rich drops some control characters and prints others. Commands import this module as ``io``.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TextIO

import click
from rich.cells import cell_len, chop_cells, set_cell_size

from ...states.base.errors import JournalDamaged, JournalError, PaorError, ReplayDiverged, UsageError
from ...states.base.secrets import Scrubber, scrubbed

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


def tell_error(text: str, where: str = "paor") -> None:
    """Write one line on what went wrong."""
    tell(f"{where}: {one_line(harmless(text))}")


def _write(stream: TextIO, lines: Sequence[str]) -> None:
    """Write lines without the keys of the environment, wherever in them one stands."""
    text = scrubber()("".join(f"{line}\n" for line in lines))
    with output():
        stream.write(text if coloured(stream) else click.unstyle(text))
        stream.flush()


def scrubber() -> Scrubber:
    """Return what takes the keys of the environment out of texts."""
    from ...prompts.clients.settings import environment_secrets  # which a page of help need not load

    return Scrubber(environment_secrets())


def wants_json() -> bool:
    """Return whether the command that runs was given ``--json``."""
    return bool(click.get_current_context().meta.get("paor.json"))


def say_either(data: Any, lines: Iterable[str], *notes: str, code: int = OK) -> int:
    """Write what a command found, *data* as JSON, or else *lines*, which are made only then, and *notes* to standard error; return *code*."""
    if wants_json():
        say_json(data)
    else:
        say(*lines)
        tell(*notes)
    return code


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
    with output():
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


def say_or_write(output: str | None, pieces: Iterable[bytes]) -> int:
    """Write bytes as they come to standard output, or to the file of ``--output``; return how many; raise as `write_atomically`."""
    written = 0
    if output is not None:
        written = write_atomically(Path(output), pieces)
        tell(f"wrote {output} ({written:,} bytes)")
        return written
    for piece in pieces:
        say_bytes(piece)
        written += len(piece)
    return written


class OutputLost(Exception):
    """What was to be printed could not be written, and not because its reader has gone."""


@contextmanager
def output() -> Iterator[None]:
    """Raise `OutputLost` for what cannot be written, but where its reader has gone."""
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


def unless_wrong(*wrong: tuple[object, str]) -> None:
    """Raise `UsageError` with the first text whose condition holds."""
    for condition, text in wrong:
        if condition:
            raise UsageError(text)


def exit_code_of(error: PaorError) -> int:
    """Return the exit code of an error of paor's own."""
    if isinstance(error, JournalDamaged):
        return DAMAGED
    if isinstance(error, ReplayDiverged):
        return DIVERGED
    return USAGE if isinstance(error, UsageError | JournalError) else RUN_FAILED


# -- text for people --------------------------------------------------------------------------------------------

CUT, WIDE_LEAST = "…", 8
"""What shows that a text was cut, and cells that it has at least, however narrow the terminal is."""

_PICTURES = {code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\n\t"} | {0x7F: "\u2421"}
_HIDDEN = [*range(0x80, 0xA0), 0x061C, *range(0x202A, 0x202F), *range(0x2066, 0x206A), *range(0xD800, 0xE000)]
_SEPARATORS = {0x2028: "\n", 0x2029: "\n"}
_HARMLESS = _PICTURES | dict.fromkeys(_HIDDEN, "\ufffd") | _SEPARATORS
"""C0 controls as their pictures; C1 controls, direction overrides and lone surrogates as the replacement mark."""

_WORD = re.compile(r"\A\s*\S+\s*|\S+\s*")
_BULLET = re.compile(r"\s*(?:[-*+>] |\d{1,3}[.)] )?")


NARROW, SLIM = 92, 78
"""
Widths below which tables leave out what can be seen elsewhere (the phase a row comes from, the year of a date), and all but what tells
rows apart and their text: no numbers of single rows, no dates.
"""


def width(stream: TextIO | None = None) -> int:
    """Return the cells of a line of *stream*: the terminal's, ``COLUMNS``, or 100 for neither; at least 40."""
    with suppress(ValueError):
        return max(40, int(os.environ.get("COLUMNS") or ""))
    with suppress(OSError, ValueError):
        return max(40, os.get_terminal_size((stream or sys.stdout).fileno()).columns)
    return 100


def arrow() -> str:
    """Return an arrow that standard output can show."""
    try:
        "→".encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return "->"
    return "→"


def harmless(text: str) -> str:
    """
    Return *text* without the keys of the environment, and with every control character but line feed and tab made visible.

    Line separators are line feeds. Keys go here, before anything is cut, folded or styled: no part of one is known afterwards.
    """
    return scrubber()(text).replace("\r\n", "\n").translate(_HARMLESS)


def one_line(text: str) -> str:
    """Return *text* harmless and on one line."""
    return harmless(" ".join(text.split()))


def cut(text: str, cells: int) -> str:
    """Return one line within *cells* terminal cells, with a mark when something was cut."""
    line = one_line(text)
    if cell_len(line) <= cells:
        return line
    return set_cell_size(line, max(0, cells - 1)).rstrip() + CUT


def folded(text: str, cells: int | None = None) -> list[str]:
    """Return *text* as lines of at most *cells* cells, default the terminal's, broken at spaces where there are any."""
    cells = max(WIDE_LEAST, width() if cells is None else cells)
    paragraphs = harmless(text).expandtabs(4).split("\n")
    return [line for paragraph in paragraphs for line in _paragraph(paragraph, cells)]


def _paragraph(text: str, cells: int) -> list[str]:
    """Wrap one line; what follows hangs under the text of a list item."""
    if cell_len(text) <= cells:
        return [text.rstrip()]
    bullet = _BULLET.match(text)
    lead = bullet[0] if bullet and len(bullet[0]) <= cells // 2 else ""
    lines = _wrapped(text[len(lead) :], cells - cell_len(lead))
    return [f"{' ' * len(lead) if index else lead}{line}".rstrip() for index, line in enumerate(lines)]


def _wrapped(text: str, cells: int) -> list[str]:
    """Break a text at its spaces into lines of at most *cells* cells; a word that is longer is broken, too."""
    lines, line, used = [], "", 0
    for word in _WORD.findall(text):
        length = cell_len(word.rstrip())
        if used + length <= cells:
            line, used = line + word, used + cell_len(word)
            continue
        lines += [line] if line else []
        *whole, line = chop_cells(word, cells) if length > cells else [word]
        lines, used = lines + whole, cell_len(line)
    return [item.rstrip() for item in (*lines, line)]


def answer_lines(answer: str) -> list[str]:
    """Return an answer as it is printed: wrapped on a terminal, else line by line as it is."""
    return folded(answer) if sys.stdout.isatty() else harmless(answer.rstrip("\n")).split("\n")


def count(number: int, noun: str) -> str:
    """Return ``1 step``, ``5,210 tokens``: the noun in its right number."""
    plural = noun if number == 1 else f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number:,} {plural}"


def cached_text(share: float) -> str:
    """Return what stands behind a number of tokens: how much of the input came from a provider's cache; nothing for none."""
    return f" ({share:.0%} of the input cached)" if share else ""


def duration(seconds: float) -> str:
    """Return a time for people: ``85 ms``, ``1.2 s``, ``2 min 05 s``, ``1 h 02 min``."""
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    return f"{minutes // 60:,} h {minutes % 60:02} min"


def local_time(microseconds: int) -> str:
    """Return a moment in the reader's time zone, to the second."""
    try:
        return datetime.fromtimestamp(microseconds / 1e6).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, OSError, ValueError):
        return "?"


def size(number: int) -> str:
    """Return a size for people: ``312 B``, ``4.1 kB``, ``12 MB``."""
    amount = float(number)
    for unit in ("B", "kB", "MB"):
        if amount < 999.5:
            return f"{amount:.1f} {unit}" if amount < 9.95 and unit != "B" else f"{amount:.0f} {unit}"
        amount /= 1000
    return f"{amount:,.1f} GB"


Cell = str | tuple[str, str]
"""One cell of a table: its text, or that with the name of its style (see `STYLES`)."""

STYLES = {
    "": ("", 0),
    "dim": ("dim", 2),
    "strong": ("bold", 1),
    "good": ("green", 32),
    "bad": ("red", 31),
    "warn": ("yellow", 33),
}
"""What the names of styles mean to rich, and their codes on a terminal."""


def styled(text: str, style: str) -> str:
    """Return *text* with the colours of *style*; what is printed without colours takes them out again."""
    return f"\x1b[{STYLES[style][1]}m{text}\x1b[0m" if style and text else text


STATE_STYLES = {"done": "good", "failed": "bad", "waiting": "warn", "running": ""}
"""Style of a run's state by its status."""


def state_text(state: str, why: str, status: str) -> str:
    """Return the phase of a run with the reason of its end, or what else says how it is, in the colour of its status."""
    return styled(f"{state} ({why})", STATE_STYLES.get(status, ""))


class Column(NamedTuple):
    """
    One column of a table.

    Attributes:
        head: Its heading.
        right: Whether it is aligned to the right, as numbers are.
        wide: Whether it gets what the others leave, its text being wrapped or cut.
        least: Cells that it has at least; with none it is left out when all its cells are empty.
        from_width: Cells of the narrowest terminal on which it is shown.
    """

    head: str
    right: bool = False
    wide: bool = False
    least: int = 0
    from_width: int = 0


def columns(*heads: str) -> list[Column]:
    """Return columns by their headings: ``>`` after one aligns to the right, ``*`` is wide, ``~`` not on a slim terminal, a number its least cells."""
    found = []
    for text in heads:
        parts = re.fullmatch(r"(.*?)([>*~]*)(\d*)", text)
        assert parts is not None, "every text is one"
        head, marks, least = parts.groups()
        found.append(Column(head, ">" in marks, "*" in marks, int(least or 0), SLIM if "~" in marks else 0))
    return found


def table(
    columns: Sequence[Column],
    rows: Iterable[Sequence[Cell]],
    cells: int | None = None,
    *,
    wrap: bool = False,
    head: bool = True,
) -> list[str]:
    """
    Return a table as lines of at most *cells* cells, by default the terminal's; a cell is one line.

    Columns that are wide share what the others leave, and alone shrink: their text is cut, or with *wrap* goes over further lines.
    """
    cells = width() if cells is None else cells
    lines = [[(cell, "") if isinstance(cell, str) else cell for cell in row] for row in rows]
    lines = [[(one_line(text), style) for text, style in row] for row in lines]
    texts = [[column.head, *(row[place][0] for row in lines)] for place, column in enumerate(columns)]
    own = [max(map(cell_len, said)) for said in texts]
    used = [
        place
        for place, column in enumerate(columns)
        if cells >= column.from_width and (column.wide or column.least or any(texts[place][1:]))
    ]
    wide = [place for place in used if columns[place].wide]
    widths = {place: max(columns[place].least, own[place]) for place in used if place not in wide}
    room = cells - sum(widths.values()) - 2 * (len(used) - 1)
    for left, place in zip(range(len(wide), 0, -1), sorted(wide, key=lambda place: own[place]), strict=True):
        widths[place] = max(columns[place].least or WIDE_LEAST, min(own[place], room // left))
        room -= widths[place]
    told = []
    for row in ([[(column.head, "dim") for column in columns]] if head else []) + lines:
        parts = {place: _cell_lines(row[place][0], widths[place], wrap) for place in used}
        for number in range(max(map(len, parts.values()), default=0)):
            pieces = []
            for place in used:
                text = "".join(parts[place][number : number + 1])
                gap, shown = " " * (widths[place] - cell_len(text)), styled(text, row[place][1])
                pieces.append(gap + shown if columns[place].right else shown + gap)
            told.append("  ".join(pieces).rstrip())
    return told


def _cell_lines(text: str, cells: int, wrap: bool) -> list[str]:
    if cell_len(text) <= cells:
        return [text]
    return _wrapped(text, cells) if wrap else [set_cell_size(text, cells - 1) + CUT]


def bounded(text: str, cells: int, lines_max: int) -> list[str]:
    """Return *text* as at most *lines_max* lines of *cells* cells, with a mark when something was cut."""
    lines = folded(text, cells)
    if len(lines) > lines_max:
        lines = [*lines[: lines_max - 1], f"{cut(lines[lines_max - 1], cells - 2).removesuffix(CUT)} {CUT}"]
    return lines


def facts(
    pairs: Iterable[tuple[str, str, str]], cells: int | None = None, *, lines_max: int = 4
) -> list[str]:
    """Return names, values and their styles in two columns; an empty value leaves the pair out, a longer one is at most *lines_max* lines."""
    kept = [pair for pair in pairs if pair[1]]
    names = max((len(name) for name, _, _ in kept), default=0)
    lines = []
    for name, value, style in kept:
        for index, text in enumerate(bounded(value, (cells or width()) - names - 2, lines_max)):
            head = styled(name.ljust(names), "dim") if index == 0 else " " * names
            lines.append(f"{head}  {styled(text, style)}".rstrip())
    return lines


@contextmanager
def logged(
    names: Iterable[str], take: Callable[[logging.LogRecord], None], *, alone: bool = False
) -> Iterator[None]:
    """Give each warning of some loggers to *take* while the block runs; *alone*: to nothing else, such as a log file of the host's."""
    handler = logging.Handler(logging.WARNING)
    handler.emit = take  # type: ignore[assignment, method-assign]
    loggers = [logging.getLogger(name) for name in names]
    before = [logger.propagate for logger in loggers]
    for logger in loggers:
        logger.propagate = logger.propagate and not alone
        logger.addHandler(handler)
    try:
        yield
    finally:
        for logger, propagate in zip(loggers, before, strict=True):
            logger.removeHandler(handler)
            logger.propagate = propagate
