"""Word files: what comes through, and what is refused before a library opens it."""

import io
import re
import zipfile
from typing import Any

import docx
import docx.document
import pytest
from lxml import etree

from . import everything
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


def test_a_list_may_label_a_level_in_its_own_way() -> None:
    """Word writes it so when somebody changes the numbers of one list only."""
    data = everything.docx({"number"})
    own = (
        '<w:lvlOverride w:ilvl="1"><w:lvl w:ilvl="1"><w:start w:val="1"/><w:numFmt w:val="upperLetter"/>'
        '<w:lvlText w:val="%2)"/></w:lvl></w:lvlOverride></w:num>'
    )
    changed = everything.part(data, "word/numbering.xml").replace("</w:num>", own)
    text = convert("a.docx", everything.packed({"word/numbering.xml": changed}, data)).text
    assert re.findall(r"(?m)^\S+(?= )", text)[1:] == ["1.", "A)", "2.", "A)"]


def word_body(body: str, *, source: bytes = b"") -> str:
    """Return what a Word document with this body converts to."""
    whole = f"<w:document {everything.NAMES}><w:body>{body}</w:body></w:document>"
    return convert(
        "a.docx", everything.packed({"word/document.xml": whole}, source or everything.docx({"number"}))
    ).text


def test_a_clause_without_words_has_its_number_and_is_counted() -> None:
    """The clauses behind it would be cited by the number before theirs; a column of numbers would be empty."""

    def clause(words: str, mark: str = "") -> str:
        look = f'<w:pPr><w:numPr><w:ilvl w:val="0"/><w:numId w:val="1"/></w:numPr>{mark}</w:pPr>'
        return f"<w:p>{look}<w:r><w:t>{words}</w:t></w:r></w:p>"

    deleted = clause(
        "", '<w:rPr><w:del w:id="1" w:author="a"/></w:rPr>'
    )  # its end only: it is part of the next one
    cells = f"<w:tbl><w:tr><w:tc>{clause('')}</w:tc><w:tc>{clause('Rent')}</w:tc></w:tr></w:tbl>"
    found = word_body(clause("Scope") + clause("") + deleted + clause("Term") + cells)
    assert found == "1. Scope\n2.\n3. Term\n\n| 4. | 5. Rent |\n| --- | --- |"


def test_a_large_first_letter_is_part_of_its_word() -> None:
    """Word keeps it in a paragraph of its own."""
    cap = '<w:p><w:pPr><w:framePr w:dropCap="drop" w:lines="3"/></w:pPr><w:r><w:t>T</w:t></w:r></w:p>'
    found = word_body(f"{cap}<w:p><w:r><w:t>enants pay.</w:t></w:r></w:p>{cap}<w:tbl/>")
    assert found == "Tenants pay.\n\nT"


def test_a_symbol_is_read_by_its_font() -> None:
    """One code is a limit in one font and a box in another."""
    named = (
        ("Symbol", "F0A3"),
        ("Wingdings 2", "F0A3"),
        ("Symbol", "0061"),
        ("Symbol", "F0FF"),
        ("Symbol", "x"),
    )
    symbols = "".join(f'<w:sym w:font="{font}" w:char="{code}"/>' for font, code in named)
    assert word_body(f"<w:p><w:r>{symbols}<w:t> 30 days</w:t></w:r></w:p>") == "≤☐α\ufffd\ufffd 30 days"


def test_a_word_document_of_a_browser_is_one() -> None:
    """Its main part has another name."""
    written = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(everything.docx({"number"}))) as old,
        zipfile.ZipFile(written, "w") as new,
    ):
        for name in old.namelist():
            new.writestr(name.replace("document.xml", "document2.xml"), old.read(name))
    assert convert("a", written.getvalue()).mime == DOCX
    assert "1. one\n\n1.1 in one" in convert("a.docx", written.getvalue()).text


def test_notes_are_looked_up_in_a_part_that_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A book of 800 notes took five seconds when each of them was looked for in the part anew."""
    several = 30
    body = "".join(f'<w:p><w:r><w:footnoteReference w:id="{place}"/></w:r></w:p>' for place in range(several))
    notes = "".join(f'<w:footnote w:id="{place}"><w:p/></w:footnote>' for place in range(several))
    data = everything.packed(
        {
            "word/document.xml": f"<w:document {everything.NAMES}><w:body>{body}</w:body></w:document>",
            "word/footnotes.xml": f"<w:footnotes {everything.NAMES}>{notes}</w:footnotes>",
        },
        everything.docx({"footnote"}),
    )
    parsed: list[bytes] = []
    honest = etree.fromstring

    def counting(part: bytes, *given: Any) -> Any:
        parsed.append(part)
        return honest(part, *given)

    monkeypatch.setattr(etree, "fromstring", counting)
    assert f"[{several}]" in convert("a.docx", data).text
    assert sum(b"<w:footnotes" in part for part in parsed) == 1


@pytest.mark.parametrize("number", ["²", "-1", "x", "", "9" * 30])
def test_a_number_in_an_attribute_that_is_none_spoils_nothing(number: str) -> None:
    """`str.isdigit` takes a raised two for a digit, `int` does not."""
    attributes = r'((?:w:gridSpan|w:ilvl|w:start|startAt|authorId)(?: w:val)?=)"\d+"'
    for maker, parts in (
        (everything.docx, ("word/document.xml", "word/numbering.xml")),
        (everything.xlsx, ("xl/comments1.xml",)),
        (everything.pptx, ("ppt/slides/slide1.xml",)),
    ):
        good = maker({"merged", "number", "comment"} & everything.FORMATS[maker.__name__].keys())
        texts = {
            name: everything.part(good, name).replace("buAutoNum ", 'buAutoNum startAt="1" ')
            for name in parts
        }
        changed = {name: re.sub(attributes, rf'\1"{number}"', text) for name, text in texts.items()}
        assert changed != texts
        assert everything.PLAIN in convert(f"a.{maker.__name__}", everything.packed(dict(changed), good)).text
