"""
Read DOCX: mammoth turns the body into HTML, which goes the way of any web page.

A DOCX file is a ZIP archive of XML parts, so it is checked before mammoth opens it: how large it would
become, and that no part declares entities. Pictures are not decoded, linked files are not opened.
Not covered: page headers and footers, comments, and deletions of tracked changes.
"""

import io
import zipfile
from typing import Any

from .convert_web import markdown_of
from .converted import ConversionError, Converted, one_line

_MIME = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
_UNPACKED_MAX = 200_000_000
_RATIO_MAX = 300
"""Deflate can reach 1,032 to 1; the XML of real documents stays below 50 to 1."""
_RATIO_FREE = 10_000_000
"""Parts below this size may pack as tightly as they like."""
_PARTS_MAX = 10_000
_ENTITY = tuple("<!ENTITY".encode(codec) for codec in ("ascii", "utf-16-le", "utf-16-be"))
_TITLE = ".//{http://purl.org/dc/elements/1.1/}title"
_STYLES = "p[style-name='Title'] => h1:fresh\np[style-name='Subtitle'] => p:fresh"


def read_docx(data: bytes, charset: str = "") -> Converted:
    """
    Turn a Word document into Markdown: headings, lists, tables, footnotes.

    Args:
        data: The file.
        charset: Not used; all parts of a DOCX file are XML.

    Returns:
        The Markdown with title and notes; the text is empty when the document is.

    Raises:
        ConversionError: ``broken``, ``encrypted`` or ``too_large``; libraries may raise anything else.
    """
    import mammoth

    changed, title = _check(data)
    result: Any = mammoth.convert_to_html(
        io.BytesIO(data),
        style_map=_STYLES,
        include_embedded_style_map=False,
        convert_image=mammoth.images.img_element(lambda image: {"src": ""}),
    )
    text, heading, notes = markdown_of(result.value)
    if changed:
        notes = (*notes, "tracked changes: insertions are included, deletions are left out")
    return Converted(text, _MIME, title or heading, notes=notes)


def _check(data: bytes) -> tuple[bool, str | None]:
    """Refuse dangerous archives; return whether changes are tracked and the stated title."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        parts = archive.infolist()
        unpacked = sum(part.file_size for part in parts)
        bombs = [part for part in parts if _is_bomb(part)]
        if unpacked > _UNPACKED_MAX or len(parts) > _PARTS_MAX or bombs:
            message = f"would unpack to {unpacked:,} bytes in {len(parts)} parts; it is refused as a ZIP bomb"
            raise ConversionError("too_large", message)
        if any(part.flag_bits & 1 for part in parts):
            raise ConversionError("encrypted", "is protected by a password; save a copy without one")
        names = {part.filename for part in parts}
        for name in sorted(names):
            if not name.startswith("word/media/") and _has_entities(archive.read(name)):
                raise ConversionError("broken", f"declares entities in {name!r}, which no Word document may")
        body = archive.read("word/document.xml")
        core = archive.read("docProps/core.xml") if "docProps/core.xml" in names else b""
    return any(mark in body for mark in (b"<w:del ", b"<w:ins ")), _title(core)


def _is_bomb(part: zipfile.ZipInfo) -> bool:
    return part.file_size > _RATIO_FREE and part.file_size > part.compress_size * _RATIO_MAX


def _has_entities(content: bytes) -> bool:
    return any(mark in content for mark in _ENTITY)


def _title(core: bytes) -> str | None:
    from xml.etree import ElementTree

    if not core:
        return None
    found = ElementTree.fromstring(core).find(_TITLE)  # entities were ruled out before
    return one_line(found.text or "") if found is not None else None
