"""Word files: what comes through, and what is refused before a library opens it."""

import io
import zipfile

import docx
import docx.document

from .inside import DOCX, convert
from .test_convert import failure, word_file


def changed_zip(data: bytes, **parts: bytes) -> bytes:
    """Return the archive *data* with parts replaced; in names, ``__`` stands for a slash and ``_`` a dot."""
    renamed = {name.replace("__", "/").replace("_", "."): content for name, content in parts.items()}
    written = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(written, "w") as target:
        for name in source.namelist():
            if name not in renamed:
                target.writestr(name, source.read(name))
        for name, content in renamed.items():
            target.writestr(name, content, zipfile.ZIP_DEFLATED)
    return written.getvalue()


def test_word_document_becomes_markdown() -> None:
    """Headings, lists, tables and the title come through; nothing is emphasised."""

    def build(document: docx.document.Document) -> None:
        document.core_properties.title = "Plan  2026"
        document.add_heading("Scope", 1)
        document.add_paragraph("We deliver ").add_run("everything").bold = True
        document.add_paragraph("first", style="List Number")
        document.add_paragraph("dot", style="List Bullet")
        table = document.add_table(2, 2)
        for cell, text in zip((c for row in table.rows for c in row.cells), "ab|d", strict=True):
            cell.text = text

    converted = convert("plan.docx", word_file(build))
    assert converted.title == "Plan 2026"
    assert converted.text.startswith("# Scope\n\nWe deliver everything\n\n1. first\n\n- dot\n\n| a | b |")
    assert converted.text.endswith("| \\| | d |")
    assert converted.mime == DOCX
    assert failure("empty.docx", word_file()).code == "empty"


def test_word_document_is_checked_before_it_is_opened() -> None:
    """Bombs, entities, passwords and archives without a document are refused by name."""
    good = word_file(lambda document: document.add_paragraph("text"))
    body = zipfile.ZipFile(io.BytesIO(good)).read("word/document.xml")
    entity = body.replace(b"<w:document", b"<!DOCTYPE x [<!ENTITY a 'b'>]><w:document", 1)
    assert failure("a.docx", changed_zip(good, word__document_xml=entity)).code == "broken"
    assert failure("a.docx", changed_zip(good, word__big_xml=b" " * 20_000_000)).code == "too_large"
    empty = io.BytesIO()
    zipfile.ZipFile(empty, "w").close()
    missing = b"PK\x03\x04" + changed_zip(empty.getvalue(), other_txt=b"x")
    assert failure("a.docx", missing).code == "unsupported"
    assert failure("a.docx", missing, mime=DOCX).code == "unsupported"
    locked = bytearray(good)
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = locked.find(mark)
        while at >= 0:
            locked[at + offset] |= 1
            at = locked.find(mark, at + 4)
    assert failure("a.docx", bytes(locked)).code == "encrypted"
    assert failure("a.docx", good[: len(good) // 2]).code == "broken"
    changed = body.replace(b"<w:p>", b'<w:p><w:ins w:id="1" w:author="a"/>', 1)
    assert "tracked changes" in convert("a.docx", changed_zip(good, word__document_xml=changed)).notes[0]
    bare = changed_zip(good, docProps__core_xml=b"<a/>")
    assert convert("a.docx", bare).title is None
    depth = b"<w:p><w:r>" + b"<w:smartTag>" * 3000 + b"</w:smartTag>" * 3000 + b"</w:r></w:p>"
    deep = body.replace(b"<w:p>", depth + b"<w:p>", 1)
    assert failure("a.docx", changed_zip(good, word__document_xml=deep)).message.endswith("to be read")
