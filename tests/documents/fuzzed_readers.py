"""The readers of what strangers wrote, each with valid samples, the ways to change them, and what may come of reading the result."""

from __future__ import annotations

import contextlib
import io
import random
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import ParseError

from paor import Journal, Limits, PaorError, replay, why
from paor.cli import main
from paor.errors import InternalError, JournalError, UsageError

from .everything import FORMATS, MAKERS
from .hostile_bytes import (
    CSV,
    HTML,
    MAIL,
    PDF,
    RTF,
    Change,
    damaged,
    rearranged,
    relined,
    repacked,
    repaged,
    reproved,
    restreamed,
)
from .inside import CODES, ConversionError, Converter, convert, export_runs, in_order, line_bytes
from .inside import registry_module as registry
from .test_opendocument import book, document, row
from .test_pdf import hand_made, paper

TESTS = Path(__file__).parents[1]
HEADER = b'{"line":"header"'
CONVERTERS = str(Path(registry.__file__).parent)
CHILD = 1 / 400
"""How many documents are read a second time, by the process that a run reads them with."""
COMMANDS = (
    *("runs", "runs --json", "show", "show --steps", "show --documents", "show --content 0", "show last~3 --json"),
    *("why", "why last~2 --json", "verify --json", "replay --all", "export --all", "diff last last~1", "diagram last~1"),
    *("query SELECT*FROM[v_steps]", "query SELECT*FROM[v_runs]", "show last~5 --steps --json", "erase last --force"),
)  # fmt: skip


class Wrong(Exception):
    """A reader did not raise, and what it said is not true."""


def require(holds: object, what: str) -> None:
    """Raise `Wrong` unless something holds."""
    if not holds:
        raise Wrong(what)


@dataclass(frozen=True)
class Reader:
    """
    One reader.

    Attributes:
        samples: Inputs that it reads.
        changes: What makes hostile ones of them.
        read: Reads an input; returns after a result or a documented error, anything that it raises is a finding.
    """

    samples: tuple[bytes, ...]
    changes: tuple[Change, ...]
    read: Callable[[bytes, random.Random], None]

    def make(self, seed: str) -> bytes:
        """Return the input of a seed."""
        chance = random.Random(seed)
        data = chance.choice(self.samples)
        for change in chance.choices(self.changes, k=chance.choice((1, 1, 1, 2))):
            with suppress(
                Exception
            ):  # what an earlier change has broken can perhaps not be changed in this way
                data = change(data, chance)
        return data


def readers(folder: Path) -> dict[str, Reader]:
    """Return every reader by its name; *folder* is for files that are read."""
    golden = (TESTS / "fixtures" / "journals" / "schema3.db").read_bytes()
    lines = (TESTS / "fixtures" / "journals" / "schema3.jsonl").read_bytes()
    runs = tuple(HEADER + run for run in lines.split(HEADER) if b'"parent_run_id":null' in run)
    scratch, opened = folder / "changed.db", folder / "opened.db"
    forged = partial(reproved, path=scratch)
    proved = partial(_reproved_export, golden, scratch)
    with _as_file(golden, scratch) as path, Journal(path, read_only=True) as journal:
        exported = _exported(journal)
    return {
        **{name: Reader((*samples, *_everything(name)), changes, partial(read_document, f"a.{name}")) for name, (samples, changes) in _documents().items()},
        "kind": Reader((b"<!----><html>a", b"From: a\nSubject: b\n\nc", b"[1]"), (rearranged(HTML), rearranged(MAIL)), read_kind),
        "import": Reader((*runs, lines), (relined, relined, relined, damaged), partial(read_import, exported)),
        "forged": Reader((lines,), (proved, proved, relined), partial(read_import, None)),
        "journal": Reader((golden,), (forged, forged, repaged), partial(read_journal, opened)),
        "command": Reader((golden,), (forged, forged, repaged), partial(read_command, opened)),
    }  # fmt: skip


# -- documents -------------------------------------------------------------------------------------------------------


def _documents() -> dict[str, tuple[tuple[bytes, ...], tuple[Change, ...]]]:
    """Return samples and changes of every format, by its ending."""
    own = {path.suffix[1:]: path.read_bytes() for path in (TESTS.parent / "examples" / "documents").iterdir()}
    own |= {path.suffix[1:]: path.read_bytes() for path in (TESTS / "fixtures" / "documents").iterdir()}
    text = "<text:h>A</text:h><text:list><text:list-item><text:p>b<text:s text:c='2'/></text:p></text:list-item></text:list>"
    sheet = f"<table:table table:name='P'>{row('a', '2:b', repeated=2)}{row('3')}</table:table>"
    slide = (
        "<draw:page><draw:frame><draw:text-box><text:p>a</text:p></draw:text-box></draw:frame></draw:page>"
    )
    mime = "application/vnd.oasis.opendocument."
    bodies = {"odt": (text, "text", "text"), "ods": (sheet, "spreadsheet", "spreadsheet")}
    bodies["odp"] = (slide, "presentation", "presentation")
    pdfs = (bytes(paper("A heading\n\nSome words on a page. " * 9, "x").output()), own["pdf"])
    pages = (*pdfs, hand_made(b"BT /F 9 Tf 9 50 Td (Some words) Tj 0 -12 Td [(a) -500 (b)] TJ ET", pages=3))
    packed, plain = (repacked, repacked, repacked, damaged), (damaged,)
    rtf = rb"{\rtf1\ansi\ansicpg1252{\info{\title T}}K\'e4se f\u252?r 5\par\trowd a\cell b\cell\row {\fonttbl{\f0 A;}}x}"
    markdown = b"# A\n\n* b\n\n| c | d |\n|---|---|\n| e | f |\n\n```\ng\n```\n"
    return {
        "pdf": (pages, (restreamed, rearranged(PDF), damaged)),
        **{name: ((own[name],), packed) for name in ("docx", "xlsx", "pptx")},
        **{name: ((document(body, mime + kind, tag),), packed) for name, (body, kind, tag) in bodies.items()},
        "epub": ((book(),), packed),
        "rtf": ((rtf,), (rearranged(RTF), *plain)),
        "html": ((own["html"],), (rearranged(HTML), *plain)),
        "eml": ((own["eml"], _mail(own)), (rearranged(MAIL), rearranged(MAIL), *plain)),
        "csv": ((own["csv"], b"a;b\n1;\"2\n3\"\n"), (rearranged(CSV), *plain)),
        "md": ((markdown,), (rearranged(HTML), *plain)),
        "json": ((b'{"a": [1, {"b": null}], "c": "d"}',), (rearranged((b"[", b"{", b'"a":')), relined)),
        "txt": ((markdown, "\N{SNOWMAN} words\r\n".encode("utf-16")), (rearranged(()), *plain)),
    }  # fmt: skip


def _everything(name: str) -> list[bytes]:
    """Return a document with all that its format can hold."""
    return [MAKERS[name](set(FORMATS[name]))] if name in MAKERS else []


def _mail(own: dict[str, bytes]) -> bytes:
    head = b"From: a@b.c\nSubject: =?utf-8?Q?=C3=A4?=\nMessage-ID: <1@b>\nContent-Type: multipart/alternative; boundary=x\n\n"
    part = b"--x\nContent-Type: text/%b; charset=utf-8\nContent-Disposition: inline\n\n%b\n"
    attached = (
        b'--x\nContent-Type: text/csv; name="a.csv"\nContent-Disposition: attachment\n\n%b\n--x--\n'
        % own["csv"]
    )
    return head + part % (b"plain", b"words") + part % (b"html", b"<p>words") + attached


def read_kind(data: bytes, chance: random.Random) -> None:
    """Find out the kind of a document, as it is done before any process reads it."""
    for name in ("a", "a.txt", "a.html", "a.zip"):
        registry.is_plain(name, data)


def read_document(name: str, data: bytes, chance: random.Random) -> None:
    """Convert a document, now and then by the bounded process too."""
    found = _converted(convert, name, data)
    if chance.random() < CHILD:
        with Converter(Limits(document_time_s=20)) as read:
            by_process = _converted(read, name, data)
        require(by_process == found, "the process reads something else")


def _converted(read: Callable[..., Any], name: str, data: bytes) -> Any:
    try:
        found = read(name, data)
    except ConversionError as error:
        _own_fault(error)
        require(
            error.code in CODES and error.message.splitlines() == [error.message], "an error of many lines"
        )
        return str(error)
    require(found.text.strip() and found.text.encode(), "a result without text")
    require(
        not any("\n" in line for line in (*found.notes, found.title or "")), "a note or title of many lines"
    )
    return found


def _own_fault(error: BaseException | None) -> None:
    """Raise what a converter's own code did not expect; what libraries make of a damaged file is told as such."""
    while error is not None:
        last = traceback.extract_tb(error.__traceback__)[-1:]
        allowed = isinstance(error, (ConversionError, ParseError, MemoryError, RecursionError))
        if not allowed and any(frame.filename.startswith(CONVERTERS) for frame in last):
            raise error
        error = error.__cause__


# -- journals --------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _as_file(data: bytes, path: Path) -> Iterator[Path]:
    for ending in ("-wal", "-shm", "-journal"):
        Path(f"{path}{ending}").unlink(missing_ok=True)
    path.write_bytes(data)
    yield path


def _reproved_export(golden: bytes, scratch: Path, data: bytes, chance: random.Random) -> bytes:
    """Return the export of a journal that was changed and proved anew, whatever *data* is."""
    scratch.write_bytes(reproved(golden, chance, scratch))
    with Journal(scratch, read_only=True) as journal, suppress(PaorError):
        return b"".join(map(line_bytes, export_runs(journal.reader, in_order(journal.reader))))
    return data


def _exported(journal: Journal) -> dict[str, list[dict[str, Any]]]:
    """Return the lines of each run without what nothing proves once a text is erased: its type, and name, type and size of documents."""
    found: dict[str, list[dict[str, Any]]] = {}
    for run in journal.runs():
        lines = found[run.run_id] = list(journal.export(run.run_id))
        erased = any(line["line"] == "erasure" for line in lines)
        for line in lines:
            if line["line"] == "payload" and line.get("text", "") is None:
                del line["media_type"]
            elif line["line"] == "document" and erased:
                del line["name"], line["mime"], line["bytes"]
    return found


def read_import(exported: dict[str, list[dict[str, Any]]] | None, data: bytes, chance: random.Random) -> None:
    """Import lines: all of them, which then verify, can be read and are those that were *exported*, or none."""
    with Journal(":memory:") as journal:
        try:
            journal.import_lines(data.splitlines(keepends=True))
        except (UsageError, JournalError) as error:
            require(str(error).splitlines() == [str(error)], "an error of many lines")
            require(not journal.runs(), "a part was imported")
        else:
            require(journal.verify() == [], "what was imported does not verify")
            for run_id, lines in _exported(journal).items() if exported is not None else ():
                require(exported and lines == exported.get(run_id), "changed lines were imported")
            browse(journal)


def read_journal(path: Path, data: bytes, chance: random.Random) -> None:
    """Open a journal, for reading or for writing, and read everything in it."""
    with (
        _as_file(data, path),
        suppress(JournalError),
        Journal(path, read_only=chance.random() < 0.9) as journal,
    ):
        browse(journal)


def browse(journal: Journal) -> None:
    """Read all that a journal tells of each run; what cannot be read is an error of paor's own."""
    looks: tuple[Callable[[str], object], ...] = (
        journal.transitions,
        journal.documents,
        journal.spec,
        journal.erasures,
        partial(why, journal),
        partial(replay, journal),
        lambda run_id: [journal.document(run_id, number) for number in range(len(journal.documents(run_id)))],
        lambda run_id: [line_bytes(line) for line in journal.export(run_id)],
        lambda run_id: [journal.payload(journal.run(run_id).run, n) for n in range(9)],
    )
    for found in journal.runs():
        for look in looks:
            try:
                look(found.run_id)
            except InternalError:
                raise
            except PaorError as error:
                require(str(error).splitlines() == [str(error)], "an error of many lines")


def read_command(path: Path, data: bytes, chance: random.Random) -> None:
    """Look at a journal with a command: a documented exit code and no traceback."""
    arguments = [word.replace("[", " ").replace("]", "") for word in chance.choice(COMMANDS).split(" ")]
    said, told = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
    with _as_file(data, path), contextlib.redirect_stdout(said), contextlib.redirect_stderr(told):
        code = main([*arguments, "--journal", str(path)])
    require(code in (0, 2, 3, 4), f"paor {arguments[0]} ends with {code}")
    require("Traceback" not in told.getvalue(), f"paor {arguments[0]} prints a traceback")
    require(
        code != 2 or told.getvalue().startswith("paor"), f"paor {arguments[0]} does not say what is wrong"
    )
