"""
Read DOCX: mammoth turns the body into HTML, which goes the way of any web page.

The archive is checked before mammoth opens it (:mod:`convert_archive`). Pictures are not decoded, linked files are not opened.
Not covered: page headers and footers, comments, and deletions of tracked changes.
"""

import io
import re
from typing import Any

from .archive import checked_parts, stated_title
from .conversion import ConversionError, Converted
from .html import markdown_of

_MIME = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
_BODY = "word/document.xml"
MARKS_MAX = 1_000_000
"""Opening and closing marks of the body; 200,000 paragraphs took minutes of a file of 20 kB (2026-11-22)."""
_STYLES = "p[style-name='Title'] => h1:fresh\np[style-name='Subtitle'] => p:fresh"


def read_docx(data: bytes, charset: str = "") -> Converted:
    """Turn a Word document into Markdown: headings, lists, tables, footnotes; empty when the document is."""
    import mammoth

    body = checked_parts(data, "Word document", re.escape(_BODY))[_BODY]
    marks = body.count(b"<")
    if marks > MARKS_MAX:
        raise ConversionError(
            "too_large", f"holds {marks:,} marks of structure; the limit is {MARKS_MAX:,}; split it"
        )
    title = stated_title(data)
    result: Any = mammoth.convert_to_html(
        io.BytesIO(data),
        style_map=_STYLES,
        include_embedded_style_map=False,
        convert_image=mammoth.images.img_element(lambda image: {"src": ""}),
    )
    text, heading, notes = markdown_of(result.value)
    if any(mark in body for mark in (b"<w:del ", b"<w:ins ")):
        notes = (*notes, "tracked changes: insertions are included, deletions are left out")
    return Converted(text, _MIME, title or heading, notes=notes)
