"""`paor query`: a question to the journal in SQL, which can only read."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from io import StringIO
from itertools import chain, count, islice
from math import isinf
from typing import Annotated, Any

from ...states.base.secrets import scrubbed
from ..support import terminal as io
from ..support.journals import reading
from ..support.options import command, refuse

Row = tuple[Any, ...]

BATCH, TABLE_MAX = 200, 1_000
"""Rows that are read before they are written, so that memory does not grow with their number; and most of a table for people."""
CELL_CHARS, BLOB_BYTES = 200, 32
"""Of a text that a table shows, the rest would only be cut away; and bytes of a blob in hex: of a larger one it says the size."""
COLUMN_CELLS = 8
"""Cells of the narrowest column worth reading; where there is less for each, a row is shown as a list."""


@command(
    'paor query "SELECT run_id, status, steps, cost FROM v_runs"',
    'paor query "SELECT * FROM v_actions WHERE error IS NOT NULL" --csv > failed.csv',
    "paor query \"SELECT name, sql FROM sqlite_master WHERE type = 'view'\" --json",
)
def query(
    sql: Annotated[str, "SQL"],
    as_csv: Annotated[bool, "--csv", "Print CSV with a line of column names."],
    journal: str,
) -> None:
    """
    Print the rows of a SELECT, for example from the views v_runs, v_steps, v_actions, v_calls and
    v_usage.

    It can only read, also while runs go on: a statement that would write, attach a file or load code is refused before
    it begins. In PostgreSQL it is what the role of the address may read. For people a table of at most 1,000 rows, with long texts cut and a large blob by its size. With
    --csv and --json every row, as it is read, blobs in hex; control characters are replaced in CSV and escaped in JSON.
    """
    refuse((as_csv and io.wants_json(), "--csv and --json exclude each other"))
    with reading(journal) as reader, reader.store.backend.answer(sql, BATCH) as (names, rows):
        (_say_json if io.wants_json() else _say_csv if as_csv else _say_table)(_distinct(names), rows)


def _distinct(names: Sequence[str]) -> list[str]:
    """Return column names with a number behind each that is there before, so that no value is lost in JSON."""
    found: dict[str, None] = {}
    for name in names:
        numbered = (f"{name}_{number}" for number in count(2))
        found[next(own for own in chain([name], numbered) if own not in found)] = None
    return list(found)


def _batches(rows: Iterator[Row]) -> Iterator[list[Row]]:
    while batch := list(islice(rows, BATCH)):
        yield batch


def _say_csv(names: Sequence[str], rows: Iterator[Row]) -> None:
    for batch in _batches(chain([tuple(names)], rows)):
        text = StringIO()
        plain = scrubbed([[_plain(value) for value in row] for row in batch], io.scrubber())
        csv.writer(text, lineterminator="\n").writerows(plain)
        io.say_bytes(text.getvalue().encode())


def _plain(value: Any) -> Any:
    """Return a value for CSV: NULL is empty, a blob hex, a text without what could steer a terminal."""
    if isinstance(value, bytes):
        return value.hex()
    return io.harmless(value) if isinstance(value, str) else value


def _say_json(names: Sequence[str], rows: Iterator[Row]) -> None:
    between = b"[\n"
    for batch in _batches(rows):
        data = [{name: _jsonable(value) for name, value in zip(names, row, strict=True)} for row in batch]
        io.say_bytes(between + ",\n".join(map(io.json_text, data)).encode())
        between = b",\n"
    io.say_bytes(b"[\n]\n" if between == b"[\n" else b"\n]\n")


def _jsonable(value: Any) -> Any:
    """Return a value for JSON, which knows neither blobs nor infinite numbers."""
    if isinstance(value, bytes):
        return value.hex()
    return str(value) if isinstance(value, float) and isinf(value) else value


def _say_table(names: Sequence[str], rows: Iterator[Row]) -> None:
    """Write rows for people: a table, or a list for each row where it has too many columns for the width."""
    shown = [[_cell(value) for value in row] for row in islice(rows, TABLE_MAX)]
    more = next(rows, None) is not None
    heads = [io.one_line(name)[:CELL_CHARS] for name in names]
    if len(heads) * (COLUMN_CELLS + 2) <= io.width():
        io.say(*io.table([io.Column(head, wide=True, least=1) for head in heads], shown))
    else:
        for row in shown:
            io.say(*io.table(io.columns("column*", "value*"), list(zip(heads, row, strict=True))), "")
    if more:
        io.tell(f"paor: the first {TABLE_MAX:,} rows; all of them: --csv or --json")
    elif not shown:
        io.tell("paor: no rows")


def _cell(value: Any) -> str:
    if isinstance(value, bytes):
        return value.hex() if len(value) <= BLOB_BYTES else f"{len(value):,} bytes"
    text = "" if value is None else io.harmless(str(value))
    return text if len(text) <= CELL_CHARS else text[:CELL_CHARS] + io.CUT
