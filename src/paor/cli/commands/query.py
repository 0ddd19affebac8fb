"""`paor query`: a question to the journal in SQL, which can only read."""

from __future__ import annotations

import csv
import io
import json
import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ...fsm.journal.file import ours
from ...fsm.journal_api import Journal
from ...states.base.errors import JournalBusy, UsageError
from ..support.journals import reading
from ..support.streams import OK, command, say, say_bytes, tell, width
from ..support.text import harmless, one_line

Row = tuple[Any, ...]

BATCH = 200
"""Rows that are read before they are written; memory does not grow with their number."""

TABLE_MAX = 1_000
"""Rows of a table for people."""

CELL_CHARS = 200
"""Of a text that a table shows; the rest would only be cut away to fit."""

BLOB_BYTES = 32
"""Bytes of a blob that a table shows in hex, enough for a hash; of a larger one it says the size."""

COLUMN_CELLS = 8
"""Cells of the narrowest column worth reading; where there is less for each, a row is shown as a list."""

PULSE = 10_000
"""Steps of SQLite's machine, less than a millisecond, between two looks at whether Ctrl-C was pressed."""

_NOT_RAW = re.compile("[\x7f-\x9f\ud800-\udfff]")


@command(
    "query",
    'paor query "SELECT run_id, status, steps, cost FROM v_runs"',
    'paor query "SELECT * FROM v_actions WHERE error IS NOT NULL" --csv > failed.csv',
    "paor query \"SELECT name, sql FROM sqlite_master WHERE type = 'view'\" --json",
)
@click.argument("sql")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV with a line of column names.")
def query(sql: str, as_csv: bool, journal: str, as_json: bool) -> int:
    """
    Print the rows of a SELECT, for example from the views v_runs, v_steps, v_actions and v_usage.

    It can only read, also while runs continue: a statement that would write, attach a file or load code is refused
    before it begins. The default is a table of at most 1,000 rows, with long texts cut and large blobs replaced by
    their size. --csv and --json print every row as it is read, with blobs in hex; control characters are replaced
    in CSV and escaped in JSON.
    """
    if as_csv and as_json:
        raise click.UsageError("--csv and --json exclude each other")
    with reading(journal) as reader, _answer(reader, sql) as (names, rows):
        (_say_json if as_json else _say_csv if as_csv else _say_table)(names, rows)
    return OK


# -- reading -----------------------------------------------------------------------------------------------------


@contextmanager
def _answer(reader: Journal, sql: str) -> Iterator[tuple[list[str], Iterator[Row]]]:
    """
    Give the names of a query's columns, and its rows one by one.

    Raises:
        UsageError: The statement cannot be run, would write, or gives no rows.
        JournalBusy: The file was written while it was read without locks, since nobody had it open before.
        JournalError: SQLite cannot read the file.
        KeyboardInterrupt: Ctrl-C, also while SQLite is at work.
    """
    database = reader.db
    database.conn.text_factory = lambda data: data.decode("utf-8", "replace")
    # Python looks for signals when it runs Python, so that without this a long query could not be ended
    database.conn.set_progress_handler(lambda: 0, PULSE)

    def whole(cursor: sqlite3.Cursor) -> Iterator[Row]:
        while batch := cursor.fetchmany(BATCH):
            if reader.db is not database:  # before the rows are shown: they may be of two states of the file
                raise JournalBusy(f"{reader.path}: was written while it was read; try again")
            yield from batch

    try:
        cursor = database.execute(sql)
        if cursor.description is None:
            raise UsageError("query: the statement gives no rows; expected a SELECT")
        yield _distinct([str(column[0]) for column in cursor.description]), whole(cursor)
    except (sqlite3.Error, sqlite3.Warning, UnicodeError) as error:
        raise _error(error, reader.path) from None


def _error(error: Exception, path: str) -> BaseException:
    """Return what an error of SQLite means for whoever asked."""
    name = getattr(error, "sqlite_errorname", None) or ""
    if name == "SQLITE_INTERRUPT":
        return KeyboardInterrupt()
    if name in ("SQLITE_AUTH", "SQLITE_READONLY") or "not authorized" in str(error):
        return UsageError("query: refused, since it does more than read this journal")
    if isinstance(error, sqlite3.Error) and name not in ("", "SQLITE_ERROR", "SQLITE_TOOBIG"):
        return ours(error, path)
    return UsageError(f"query: {one_line(str(error))[:200]}")


def _distinct(names: Sequence[str]) -> list[str]:
    """Return column names with a number behind each that is there before, so that no value is lost in JSON."""
    found: list[str] = []
    for name in names:
        count, own = 1, name
        while own in found:
            count += 1
            own = f"{name}_{count}"
        found.append(own)
    return found


# -- writing -----------------------------------------------------------------------------------------------------


def _batched(rows: Iterator[Row], lines: Callable[[Sequence[Row]], str]) -> None:
    """Write what *lines* makes of the rows, some rows at a time."""
    while batch := list(islice(rows, BATCH)):
        say_bytes(lines(batch).encode())


def _say_csv(names: Sequence[str], rows: Iterator[Row]) -> None:
    def lines(batch: Sequence[Row]) -> str:
        text = io.StringIO()
        written = csv.writer(text, lineterminator="\n")
        written.writerows([_plain(value) for value in row] for row in batch)
        return text.getvalue()

    _batched(chain([tuple(names)], rows), lines)


def _plain(value: Any) -> Any:
    """Return a value for CSV: NULL is empty, a blob hex, a text without what could steer a terminal."""
    if isinstance(value, bytes):
        return value.hex()
    return harmless(value) if isinstance(value, str) else value


def _say_json(names: Sequence[str], rows: Iterator[Row]) -> None:
    first = True

    def lines(batch: Sequence[Row]) -> str:
        nonlocal first
        texts = [_json(dict(zip(names, row, strict=True))) for row in batch]
        start, first = ("" if first else ",\n"), False
        return start + ",\n".join(texts)

    say_bytes(b"[\n")
    _batched(rows, lines)
    say_bytes(b"]\n" if first else b"\n]\n")


def _json(row: dict[str, Any]) -> str:
    values = {
        name: value.hex()
        if isinstance(value, bytes)
        else str(value)
        if value in (float("inf"), float("-inf"))
        else value
        for name, value in row.items()
    }
    text = json.dumps(values, ensure_ascii=False)
    return _NOT_RAW.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _say_table(names: Sequence[str], rows: Iterator[Row]) -> None:
    """Write rows for people: a table, or a list for each row where it has too many columns for the width."""
    shown = [[_cell(value) for value in row] for row in islice(rows, TABLE_MAX)]
    more = next(rows, None) is not None
    heads = [one_line(name)[:CELL_CHARS] for name in names]
    cells = width()
    if len(heads) * (COLUMN_CELLS + 2) <= cells:
        say(*_table(heads, shown, cells))
    else:
        for row in shown:
            say(*_table(("column", "value"), [*map(list, zip(heads, row, strict=True))], cells), "")
    if more:
        tell(f"paor: the first {TABLE_MAX:,} rows; all of them: --csv or --json")
    elif not shown:
        tell("paor: no rows")


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bytes):
        return value.hex() if len(value) <= BLOB_BYTES else f"{len(value):,} bytes"
    text = str(value)
    return one_line(text[:CELL_CHARS]) + ("…" if len(text) > CELL_CHARS else "")


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], cells: int) -> list[str]:
    """Return a table as lines of at most *cells* cells; a column that needs less leaves the others more."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for head in heads:
        table.add_column(Text(head), no_wrap=True, overflow="ellipsis")
    for row in rows:
        table.add_row(*map(Text, row))
    text = io.StringIO()
    Console(file=text, width=cells, color_system=None, legacy_windows=False).print(table)
    return [line.rstrip() for line in text.getvalue().splitlines()]
