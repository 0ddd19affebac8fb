"""
Read the formats that need only the standard library: plain text, Markdown, CSV and JSON.

Also home of :func:`decode`, the one place where bytes become characters.
"""

import codecs
import csv
import io
import json
import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Any

from .conversion import PLACES_MAX, ConversionError, Converted, cell_of, one_line, rows_of, table_of, tidy

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16: its mark begins with the shorter one
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_CHARSETS = re.compile(r"utf-8|ascii|iso8859|cp\d|koi8|mac|shift_jis|euc|gb|big5|johab|hz|iso2022|tis")
"""Codecs that a document may name: character sets only, never Python's own such as ``unicode_escape``."""
_DELIMITERS = "\t;|,"
CSV_CELLS_MAX = 2_000_000
"""Cells of a table, those included that fill up short rows: one long row under many short ones would make billions of them."""
_SNIFFED_CHARS_MAX = 1_000_000
_SNIFFED_ROWS_MAX = 50
_CONTROLS_SHARE_MAX = 0.05
"""Random bytes hold 11 % control characters, text next to none."""
_DETECTED_BYTES = 50_000
_LATIN = ("cp1250", "cp1254", "cp1257", "cp1258", "iso8859-15", "iso8859-16", "mac-roman")
_FEW = 8
"""Letters with accents; fewer do not tell one Latin alphabet from another, and most are Western."""
_DEPTH_MAX = 100
_INDENTS_MAX = 20


def decode(data: bytes, charset: str = "") -> tuple[str, tuple[str, ...]] | None:
    """
    Return bytes as text with notes about a guess, or None when they are not text.

    Args:
        data: Any bytes.
        charset: Name that the document or its server stated; unknown and unfit names are ignored.

    Source: the order (byte order mark, *charset*, UTF-8) is that of the HTML standard, section "Determining
        the character encoding", with a detector in place of its last step.
    """
    for mark, codec in _BOMS:
        if data.startswith(mark):
            text = data.decode(codec, "replace").removeprefix("\ufeff")
            damaged = text.count("\ufffd")
            notes = (f"{damaged} characters could not be decoded",) if damaged else ()
            return None if _binary(text) else (text, notes)
    stated = _charset(charset)
    unfit = (f"the encoding is not {charset[:40]} as stated",) if charset else ()
    for codec in (stated, "utf-8"):
        try:
            text = data.decode(codec)
        except UnicodeDecodeError:
            continue
        return None if _binary(text) else (text, unfit if codec != stated else ())
    codec = _detected(data)
    text = data.decode(codec, "replace")
    damaged = text.count("\ufffd")
    lost = (f"{damaged} characters could not be decoded",) if damaged else ()
    return None if _binary(text) else (text, (*unfit, f"encoding guessed: {codec}", *lost))


def _detected(data: bytes) -> str:
    """Return the most likely encoding; where the library is missing, the Web's default."""
    try:
        from chardet import EncodingEra, detect
    except ModuleNotFoundError:
        return "cp1252"
    sample = b"\n".join(line for line in data[:_DETECTED_BYTES].split(b"\n") if not line.isascii()) or data
    found = detect(sample[:_DETECTED_BYTES], encoding_era=EncodingEra.MODERN_WEB)["encoding"] or "cp1252"
    codec = _charset(found)
    letters = len(re.findall(rb"[\x80-\xff]", sample))
    return "cp1252" if codec == "utf-8" or (codec in _LATIN and letters < _FEW) else codec


def _charset(name: str) -> str:
    try:
        found = codecs.lookup(name).name
    except (LookupError, ValueError):
        return "utf-8"
    latin = found in ("ascii", "iso8859-1")  # as browsers read them
    return "cp1252" if latin else found if _CHARSETS.match(found) else "utf-8"


def _binary(text: str) -> bool:
    if "\0" in text:
        return True
    controls = sum(text.count(chr(code)) for code in (*range(1, 9), *range(14, 27), *range(28, 32), 127))
    return controls > len(text) * _CONTROLS_SHARE_MAX


def text_of(data: bytes, charset: str = "") -> tuple[str, tuple[str, ...]]:
    """
    Return text and notes as `decode` does, for a caller that can do nothing with binary data.

    Raises:
        ConversionError: ``binary`` when the bytes are not text.
    """
    decoded = decode(data, charset)
    if decoded is None:
        raise ConversionError("binary", "holds binary data where text was expected")
    return decoded


def read_plain(data: bytes, charset: str = "") -> Converted:
    """Read plain text as it is."""
    text, notes = text_of(data, charset)
    return Converted(tidy(text), "text/plain", notes=notes)


def read_markdown(data: bytes, charset: str = "") -> Converted:
    """Read Markdown as it is; the first heading of level one is the title."""
    text, notes = text_of(data, charset)
    text = tidy(text)
    heading = re.search(r"^# (.{1,300})", text, re.MULTILINE)
    title = one_line(heading[1].strip(" #")) if heading else None
    return Converted(text, "text/markdown", title, notes=notes)


def read_csv(data: bytes, charset: str = "") -> Converted:
    """
    Turn a CSV or TSV file into one Markdown table with all its rows; the first row is the head.

    Comma, semicolon, tab and bar are tried as delimiters. Blank rows are left out, short rows are filled up with a
    note. Text that is no CSV comes back as it is with a note.
    """
    text, notes = text_of(data, charset)
    try:
        numbered = dict(_csv_rows(text, _delimiter(text[:_SNIFFED_CHARS_MAX]), CSV_CELLS_MAX))
        numbers, rows = list(numbered), list(numbered.values())
        width = max(map(len, rows), default=0)
        if width * len(rows) > CSV_CELLS_MAX:
            raise csv.Error(f"as a table it would have more than {CSV_CELLS_MAX:,} cells")
    except csv.Error as error:
        note = f"not valid CSV ({error}); read as plain text"
        return Converted(tidy(text), "text/plain", notes=(*notes, note))
    uneven = sum(len(row) != len(rows[0]) for row in rows)
    if uneven:
        notes = (*notes, f"{uneven} of {len(rows)} rows have another number of cells than the first")
    table = table_of(rows, width)
    names = [f"row {number}" for number in numbers[: PLACES_MAX + 1]]
    return Converted(table, "text/csv", notes=notes, places=rows_of(table, [*names[:1], "", *names[1:]]))


def _csv_rows(text: str, delimiter: str, cells_max: int | None = None) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows with something in them, each with its number; raise `csv.Error` when they have more cells than *cells_max*."""
    left = cells_max
    for number, row in enumerate(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter), 1):
        if left is not None and (left := left - len(row)) < 0:
            raise csv.Error(f"it has more than {cells_max:,} cells")
        if any(cells := [cell_of(cell) for cell in row]):
            yield number, cells


def _delimiter(text: str) -> str:
    """
    Return the delimiter that splits most of the first rows into the same number of cells.

    Of two that do so equally well the one that leaves fewer quotation marks wins, then the rarer
    character: files with semicolons often hold decimal commas, hardly ever the other way round.
    """

    def score(delimiter: str) -> tuple[float, int]:
        try:
            rows = [row for _, row in islice(_csv_rows(text, delimiter), _SNIFFED_ROWS_MAX)]
        except csv.Error:
            return 0.0, 0
        widths = Counter(map(len, rows))
        width, count = max(widths.items(), key=lambda item: (item[1], item[0]), default=(1, 1))
        quotes = sum(cell.count('"') for row in rows for cell in row)
        return (count / len(rows) if width > 1 else 0.0), -quotes

    best = max(_DELIMITERS, key=score)
    return best if score(best)[0] else ","


def valid_json(data: bytes) -> bool:
    """Return whether *data* is a JSON object or array; a bare number or string is more likely plain text."""
    decoded = decode(data)
    if decoded is None or decoded[0].lstrip()[:1] not in ("{", "["):
        return False
    try:
        _parse(decoded[0])
    except (ValueError, RecursionError):
        return False
    return True


def _parse(text: str) -> Any:
    return json.loads(text, parse_int=str, parse_float=str, parse_constant=str, object_pairs_hook=_each)


def _each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object with all its values: a key that is there again gets a number."""
    times = Counter[str]()
    named: dict[str, Any] = {}
    for key, value in pairs:
        times[key] += 1
        named[key if times[key] == 1 else f"{key} ({times[key]})"] = value
    return named


def read_json(data: bytes, charset: str = "") -> Converted:
    """
    Turn JSON into an outline of ``- key: value`` lines, indented by level; what is no JSON is plain text with a note.

    Strings stand without quotes and escapes, numbers digit by digit as written.

    Raises:
        ConversionError: ``broken`` when nested more than 100 levels deep.
    """
    text, notes = text_of(data, charset)
    try:
        value = _parse(text)
    except ValueError as error:
        where = f"line {error.lineno}" if isinstance(error, json.JSONDecodeError) else "a number"
        note = f"not valid JSON ({where}); read as plain text"
        return Converted(tidy(text), "text/plain", notes=(*notes, note))
    title = value.get("title") if isinstance(value, dict) else None
    lines = _outline(value, 0) if isinstance(value, dict | list) else [_scalar(value)]
    named = one_line(title) if isinstance(title, str) else None
    return Converted(tidy("\n".join(lines)), "application/json", named, notes=notes)


def _outline(value: dict[str, Any] | list[Any], depth: int) -> Iterator[str]:
    if depth > _DEPTH_MAX:
        raise ConversionError("broken", f"is nested more than {_DEPTH_MAX} levels deep")
    margin = "  " * min(depth, _INDENTS_MAX)
    named = value.items() if isinstance(value, dict) else ((None, item) for item in value)
    for number, (key, item) in enumerate(named, start=1):
        if isinstance(item, dict | list) and item:
            yield f"{margin}- {_scalar(key) if key is not None else f'item {number}'}:"
            yield from _outline(item, depth + 1)
        else:
            label = f"{_scalar(key)}: " if key is not None else ""
            yield f"{margin}- {label}{_scalar(item)}".replace("\n", f"\n{margin}  ")


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "(none)" if isinstance(value, dict | list) else json.dumps(value)
