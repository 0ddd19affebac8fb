"""Office files are ZIP archives of XML parts: what is checked before any library opens one."""

import io
import re
import zipfile

from .conversion import ConversionError, one_line

_UNPACKED_MAX = 200_000_000
_RATIO_MAX = 300
"""Deflate can reach 1,032 to 1; the XML of real documents stays below 50 to 1."""
_RATIO_FREE = 10_000_000
"""Parts below this size may pack as tightly as they like."""
PARTS_MAX = 10_000
_ENTITY = tuple("<!ENTITY".encode(codec) for codec in ("ascii", "utf-16-le", "utf-16-be"))
_DRAWING = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
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
            content = archive.read(name)
            if any(mark in content for mark in _ENTITY):
                raise ConversionError("broken", f"declares entities in {name!r}, which no {kind} may")
            if re.fullmatch(wanted, name):
                found[name] = content
        return found


def drawing_words(part: bytes) -> list[str]:
    """Return the texts of a drawing made of shapes (SmartArt), or of text boxes, given a checked part of an office file."""
    from xml.etree import ElementTree

    texts = (
        " ".join("".join(item.itertext()).split())
        for item in ElementTree.fromstring(part).iter(f"{_DRAWING}p")
    )
    return [text for text in texts if text]


def stated_title(data: bytes, part: str = "docProps/core.xml") -> str | None:
    """Return the title that a checked office file gives itself in *part*."""
    from xml.etree import ElementTree

    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        core = archive.read(part) if part in archive.namelist() else b""
    if not core:
        return None
    found = ElementTree.fromstring(core).find(_TITLE)  # entities were ruled out before
    return one_line(found.text or "") if found is not None else None
