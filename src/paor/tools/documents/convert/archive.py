"""Office files are ZIP archives of XML parts: what is checked before any library opens one."""

import io
import re
import zipfile
from collections.abc import Mapping
from datetime import date, timedelta
from typing import Any

from .conversion import ConversionError, cell_of, one_line, table_of, whole

_UNPACKED_MAX = 200_000_000
_RATIO_MAX = 300
"""Deflate can reach 1,032 to 1; the XML of real documents stays below 50 to 1."""
_RATIO_FREE = 10_000_000
"""Parts below this size may pack as tightly as they like."""
PARTS_MAX = 10_000
_ENTITY = tuple("<!ENTITY".encode(codec) for codec in ("ascii", "utf-16-le", "utf-16-be"))
_STRICT_MARK = b"http://purl.oclc.org/ooxml/"
_STRICT = re.compile(re.escape(_STRICT_MARK) + rb"(\w+)/")
_DRAWING = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_QUOTED = re.compile(r'"[^"]*"|\[[^][]*\]|\\.')
_CHART = "{http://schemas.openxmlformats.org/drawingml/2006/chart}"
_TITLE = ".//{http://purl.org/dc/elements/1.1/}title"


def checked_parts(data: bytes, kind: str, wanted: str = "") -> dict[str, bytes]:
    """
    Refuse a dangerous archive and return some of its parts.

    Args:
        data: The file.
        kind: What it claims to be, for messages: ``Word document``.
        wanted: Regular expression for the whole names of the parts to return; empty for none.

    Raises:
        ConversionError: ``too_large`` for a bomb, ``encrypted``, ``broken`` where a part declares entities.
    """
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        parts = archive.infolist()
        unpacked = sum(part.file_size for part in parts)
        large = (part for part in parts if part.file_size > _RATIO_FREE)
        bombs = any(part.file_size > part.compress_size * _RATIO_MAX for part in large)
        if unpacked > _UNPACKED_MAX or len(parts) > PARTS_MAX or bombs:
            message = f"would unpack to {unpacked:,} bytes in {len(parts)} parts; it is refused as a ZIP bomb"
            raise ConversionError("too_large", message)
        if any(part.flag_bits & 1 for part in parts):
            raise ConversionError("encrypted", "is protected by a password; save a copy without one")
        found: dict[str, bytes] = {}
        for name in sorted({part.filename for part in parts if "/media/" not in part.filename}):
            content = _usual(archive.read(name))
            if any(mark in content for mark in _ENTITY):
                raise ConversionError("broken", f"declares entities in {name!r}, which no {kind} may")
            if re.fullmatch(wanted, name):
                found[name] = content
        return found


def _usual(part: bytes) -> bytes:
    """Return a part with the usual namespaces in place of those of the strict form of the formats (ISO 29500)."""
    return _STRICT.sub(rb"http://schemas.openxmlformats.org/\1/2006/", part) if _STRICT_MARK in part else part


def usual_form(data: bytes) -> bytes:
    """Return a checked office file, rewritten where it has the strict form, which libraries do not read."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        if _STRICT_MARK not in archive.read("_rels/.rels"):
            return data
        return packed({name: _usual(archive.read(name)) for name in archive.namelist()})


def packed(parts: Mapping[str, bytes]) -> bytes:
    """Return an archive of *parts*."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return written.getvalue()


def drawing_words(part: bytes) -> list[str]:
    """Return the texts of a drawing made of shapes (SmartArt), or of text boxes, given a checked part of an office file."""
    from xml.etree import ElementTree

    texts = (
        " ".join("".join(item.itertext()).split())
        for item in ElementTree.fromstring(part).iter(f"{_DRAWING}p")
    )
    return [text for text in texts if text]


_POINTS_MAX = 1_000
"""Of one series of a chart; its parts have no more of them than a sheet has rows."""


_CHART_MAX = 20_000
"""Cells of its table, empty ones included: of a point with a high number those before it."""


def chart_text(part: bytes) -> str:
    """Return the titles of a chart and a table of its data, given a checked part of an office file; empty where there are none."""
    from xml.etree import ElementTree

    rows: list[list[str]] = []
    for series in ElementTree.fromstring(part).iter(f"{_CHART}ser"):
        places = _points(series, "cat", "xVal")
        if sum(map(len, rows)) > _CHART_MAX:
            rows.append(["(more is left out)"])
            break
        if places and (not rows or rows[-1][1:] != places):
            rows.append(["", *places])
        values = [_point(value) for value in _points(series, "val", "yVal")]
        rows.append([" ".join(_points(series, "tx")), *values])
    cells = [[cell_of(cell) for cell in row] for row in rows]
    table = table_of(cells, max(map(len, cells))) if any(map(any, cells)) else ""
    return "\n\n".join(filter(None, (*dict.fromkeys(drawing_words(part)), table)))


def _points(series: Any, *names: str) -> list[str]:
    """Return what a chart has kept of the cells that it draws, the outer labels of a place before the inner ones."""
    found: dict[int, str] = {}
    for name in names:
        form = series.findtext(f"{_CHART}{name}//{_CHART}formatCode") or ""
        is_day = re.search("[yd]", _QUOTED.sub("", form), re.IGNORECASE) is not None
        for point in series.iterfind(f"{_CHART}{name}//{_CHART}pt"):
            at = whole(point.get("idx", ""))
            text = point.findtext(f"{_CHART}v") or ""
            if at < _POINTS_MAX:
                text = _day(text) if is_day and name == "cat" else text
                found[at] = f"{text} {found[at]}" if at in found else text
        if direct := series.findtext(f"{_CHART}{name}/{_CHART}v"):
            found.setdefault(0, direct)
    return [found.get(at, "") for at in range(max(found, default=-1) + 1)]


def _day(number: str) -> str:
    try:
        return (date(1899, 12, 30) + timedelta(float(number))).isoformat()
    except (ValueError, OverflowError):
        return number


def _point(value: str) -> str:
    try:
        return format(float(value), ".15g")
    except ValueError:
        return value


def stated_title(data: bytes, part: str = "docProps/core.xml") -> str | None:
    """Return the title that a checked office file gives itself in *part*."""
    from xml.etree import ElementTree

    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        core = archive.read(part) if part in archive.namelist() else b""
    if not core:
        return None
    found = ElementTree.fromstring(core).find(_TITLE)  # entities were ruled out before
    return one_line(found.text or "") if found is not None else None
