"""`paor query`: a question to the journal in SQL, which can only read."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from itertools import chain, count, islice
from math import isinf
from typing import Any

import click

from ...states.base.secrets import scrubbed
from ..support.journals import reading
from ..support.options import command
from ..support.streams import OK, json_text, say, say_bytes, scrubber, tell
from ..support.text import CUT, Cell, Column, harmless, one_line, table, width

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
    Print the rows of a SELECT, for example from the views v_runs, v_steps, v_actions, v_calls and
    v_usage.

    It can only read, also while runs go on: a statement that would write, attach a file or load code is refused before
    it begins. In PostgreSQL it is what the role of the address may read. For people a table of at most 1,000 rows, with long texts cut and a large blob by its size. With
    --csv and --json every row, as it is read, blobs in hex; control characters are replaced in CSV and escaped in JSON.
    """
    if as_csv and as_json:
        raise click.UsageError("--csv and --json exclude each other")
    with reading(journal) as reader, reader.store.backend.answer(sql, BATCH) as (names, rows):
        (_say_json if as_json else _say_csv if as_csv else _say_table)(_distinct(names), rows)
    return OK


def _distinct(names: Sequence[str]) -> list[str]:
    """Return column names with a number behind each that is there before, so that no value is lost in JSON."""
    found: dict[str, None] = {}
    for name in names:
        numbered = (f"{name}_{number}" for number in count(2))
        found[next(own for own in chain([name], numbered) if own not in found)] = None
    return list(found)


def _say_csv(names: Sequence[str], rows: Iterator[Row]) -> None:
    rows = chain([tuple(names)], rows)
    while batch := list(islice(rows, BATCH)):
        text = io.StringIO()
        plain = scrubbed([[_plain(value) for value in row] for row in batch], scrubber())
        csv.writer(text, lineterminator="\n").writerows(plain)
        say_bytes(text.getvalue().encode())


def _plain(value: Any) -> Any:
    """Return a value for CSV: NULL is empty, a blob hex, a text without what could steer a terminal."""
    if isinstance(value, bytes):
        return value.hex()
    return harmless(value) if isinstance(value, str) else value


def _say_json(names: Sequence[str], rows: Iterator[Row]) -> None:
    between = b"[\n"
    while batch := list(islice(rows, BATCH)):
        texts = [
            json_text({name: _jsonable(value) for name, value in zip(names, row, strict=True)})
            for row in batch
        ]
        say_bytes(between + ",\n".join(texts).encode())
        between = b",\n"
    say_bytes(b"[\n]\n" if between == b"[\n" else b"\n]\n")


def _jsonable(value: Any) -> Any:
    """Return a value for JSON, which knows neither blobs nor infinite numbers."""
    if isinstance(value, bytes):
        return value.hex()
    return str(value) if isinstance(value, float) and isinf(value) else value


def _say_table(names: Sequence[str], rows: Iterator[Row]) -> None:
    """Write rows for people: a table, or a list for each row where it has too many columns for the width."""
    shown = [[_cell(value) for value in row] for row in islice(rows, TABLE_MAX)]
    more = next(rows, None) is not None
    heads = [one_line(name)[:CELL_CHARS] for name in names]
    if len(heads) * (COLUMN_CELLS + 2) <= width():
        say(*table([Column(head, wide=True, least=1) for head in heads], shown))
    else:
        columns = (Column("column", wide=True), Column("value", wide=True))
        for row in shown:
            say(*table(columns, [(Cell(head), cell) for head, cell in zip(heads, row, strict=True)]), "")
    if more:
        tell(f"paor: the first {TABLE_MAX:,} rows; all of them: --csv or --json")
    elif not shown:
        tell("paor: no rows")


def _cell(value: Any) -> Cell:
    if isinstance(value, bytes):
        return Cell(value.hex() if len(value) <= BLOB_BYTES else f"{len(value):,} bytes")
    text = "" if value is None else str(value)
    return Cell(text if len(text) <= CELL_CHARS else text[:CELL_CHARS] + CUT)
