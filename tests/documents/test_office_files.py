"""
Workbooks, slides and mails: what comes through, what is refused, and that nothing else can happen.

The files in ``fixtures/documents`` were written by other programs: LibreOffice 7.4 (``orders.xlsx``, ``plan.pptx``) and
nodemailer 7 (``offer.eml``).
"""

from __future__ import annotations

import datetime
import email.message
import io
import random
import zipfile
from pathlib import Path
from typing import Any

import docx
import openpyxl
import pptx
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.util import Inches

from paor.tools.documents.convert import docx as convert_office
from paor.tools.documents.convert import eml as convert_mail
from paor.tools.documents.convert import pptx as convert_slides
from paor.tools.documents.convert import xlsx as convert_sheets
from paor.tools.documents.convert.eml import MIME as MAIL
from paor.tools.documents.convert.pptx import MIME as SLIDES
from paor.tools.documents.convert.registry import ConversionError, Converted, convert, sniff_mime
from paor.tools.documents.convert.xlsx import MIME as SHEETS

from ..support.effort import examples
from .test_convert import failure
from .test_office import changed_zip

FILES = Path(__file__).parents[1] / "fixtures" / "documents"


def real(name: str) -> Converted:
    """Convert a file that another program wrote."""
    return convert(name, (FILES / name).read_bytes())


def workbook(*sheets: list[list[Any]]) -> bytes:
    """Return a workbook as openpyxl writes it."""
    book = openpyxl.Workbook()
    book.remove(book.active)
    for rows in sheets:
        sheet = book.create_sheet()
        for row in rows:
            sheet.append(row)
    written = io.BytesIO()
    book.save(written)
    return written.getvalue()


def deck(*titles: str) -> bytes:
    """Return a deck as python-pptx writes it: a title, a list, a table, a chart, a group and notes."""
    made = pptx.Presentation()
    for title in titles:
        slide = made.slides.add_slide(made.slide_layouts[1])
        slide.shapes.title.text = title
        body = slide.placeholders[1].text_frame
        body.text = "first"
        item = body.add_paragraph()
        item.text, item.level = "deeper", 1
        table = slide.shapes.add_table(2, 2, Inches(1), Inches(3), Inches(4), Inches(1)).table
        for place, text in enumerate(("a", "b", "c|d", "e")):
            table.cell(place // 2, place % 2).text = text
        data: Any = CategoryChartData()  # type: ignore[no-untyped-call]
        data.categories = ["May", "June"]
        data.add_series("Sales", (1.5, None))
        slide.shapes.add_chart(XL_CHART_TYPE.LINE, Inches(1), Inches(1), Inches(4), Inches(3), data)
        group = slide.shapes.add_group_shape()
        group.shapes.add_textbox(Inches(1), Inches(1), Inches(1), Inches(1)).text_frame.text = "grouped"
        slide.notes_slide.notes_text_frame.text = "say this"
    written = io.BytesIO()
    made.save(written)
    return written.getvalue()


def mail(text: str = "Hello", **headers: str) -> email.message.EmailMessage:
    """Return a mail."""
    made = email.message.EmailMessage()
    for name, value in {"From": "a@example.org", "To": "b@example.org", "Subject": "S", **headers}.items():
        made[name] = value
    made.set_content(text)
    return made


# -- files of other programs -----------------------------------------------------------------------------------------


def test_a_workbook_of_libreoffice() -> None:
    """Dates, percentages, saved values of formulas, errors, line breaks in cells, a hidden sheet; no empty sheet."""
    found = real("orders.xlsx")
    assert found.mime == SHEETS and found.notes == ()
    assert found.text.startswith(
        "## Orders 2026\n\n| Item | Due | Price | Share |\n| --- | --- | --- | --- |\n"
    )
    assert "| Größe \\| A<br>second line | 2026-03-01 | 10.5 | 25% |" in found.text
    assert "| Sum |  | 42 | #DIV/0! |" in found.text
    assert "## Hidden (hidden)" in found.text and "Empty" not in found.text


def test_slides_of_libreoffice() -> None:
    """Lists with their levels, and tables."""
    found = real("plan.pptx")
    assert found.mime == SLIDES
    assert "- First wave in March\n  - Bolts and nuts\n- Second wave in May" in found.text
    assert "## Slide 2\n\n| Item | Day |\n| --- | --- |\n| Bolts | 15 April |" in found.text


def test_a_mail_with_a_mail_in_it() -> None:
    """Encoded headers, the plain text of two forms, a table, a picture that has no text, and an attached mail."""
    found = real("offer.eml")
    assert found.mime == MAIL
    assert found.title == "Angebot für Schrauben – Größe M, bitte bis 15. März antworten"
    assert "- From: Jörg Ärger <joerg@example.org>" in found.text
    assert "- Date: 2026-03-01 10:30:00+00:00" in found.text
    assert "der Preis gilt bis zum 15. März 2026." in found.text and "alert" not in found.text
    assert "## Attachment: Preise Größe.csv\n\n| Artikel | Preis |" in found.text
    assert "Die alte Lieferung kam zu spät." in found.text
    assert [note for note in found.notes if "no OCR" in note and "bild.png" in note]


# -- workbooks -------------------------------------------------------------------------------------------------------


def test_a_formula_without_a_saved_value_is_shown_as_it_is_written() -> None:
    """And counted in a note; nothing is calculated."""
    found = convert("a.xlsx", workbook([["n", 2], ["sum", "=B1+1"]]))
    assert "| sum | =B1+1 |" in found.text
    assert "1 formulas have no saved value" in found.notes[0]


def test_values_are_shown_as_people_write_them() -> None:
    """Days without a time of day, times, truth, whole and broken numbers."""
    moment = datetime.datetime(2026, 3, 1, 14, 30)  # noqa: DTZ001 - a cell has no zone
    row = [moment.date(), moment, datetime.time(8, 5), True, 0.1 + 0.2, 1e15, -3, None, " text "]
    found = convert("a.xlsx", workbook([row, row]))
    line = "| 2026-03-01 | 2026-03-01 14:30:00 | 08:05:00 | TRUE | 0.3 | 1000000000000000 | -3 |  | text |"
    assert found.text.splitlines()[2].replace("1e+15", "1000000000000000") == line


@pytest.mark.whole
def test_a_sheet_that_is_huge_on_paper_only_costs_nothing() -> None:
    """One cell in the last corner is a table of one cell."""
    book = openpyxl.Workbook()
    book.active["XFD1048576"] = "corner"
    written = io.BytesIO()
    book.save(written)
    assert convert("a.xlsx", written.getvalue()).text.endswith("| corner |\n| --- |")


def test_a_large_sheet_is_cut_with_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows, columns, cells and sheets each have a bound."""
    monkeypatch.setattr(convert_sheets, "ROWS_MAX", 10)
    found = convert("a.xlsx", workbook([[number] for number in range(25)]))
    assert found.notes == ("15 rows of the sheet 'Sheet' are left out",)
    monkeypatch.setattr(convert_sheets, "CHARS_MAX", 1000)
    wide: list[list[Any]] = [[None] * 400 + ["far"], *[["x"]] * 9]
    found = convert("a.xlsx", workbook(wide))
    assert "columns of the sheet" in found.notes[0] and len(found.text) < 3000
    monkeypatch.setattr(convert_sheets, "CELLS_MAX", 5)
    assert "larger than what is read" in convert("a.xlsx", workbook([["a"], ["b"], ["c"]] * 9)).notes[0]
    monkeypatch.undo()
    monkeypatch.setattr(convert_sheets, "SHEETS_MAX", 2)
    assert "1 more sheets are left out" in convert("a.xlsx", workbook([["a"]], [["b"]], [["c"]])).notes


def test_filled_cells_count_more_than_empty_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """They take longer to read, so that the time for one file is bounded either way; so are the bytes of all sheets."""
    monkeypatch.setattr(convert_sheets, "CELLS_MAX", 100)
    assert convert("a.xlsx", workbook([["a"] for _ in range(15)])).notes == ()
    assert "larger than what is read" in convert("a.xlsx", workbook([["a"] for _ in range(30)])).notes[0]
    monkeypatch.setattr(convert_sheets, "_SHEETS_BYTES_MAX", 100)
    with pytest.raises(ConversionError, match="bytes of sheets; the limit is 100") as caught:
        convert("a.xlsx", workbook([["a"]]))
    assert caught.value.code == "too_large"


def test_a_word_document_of_nothing_but_paragraphs_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """They pack to nothing, and each of them costs time."""
    monkeypatch.setattr(convert_office, "MARKS_MAX", 50)
    written = io.BytesIO()
    document = docx.Document()
    for _ in range(60):
        document.add_paragraph()
    document.save(written)
    with pytest.raises(ConversionError, match="marks of structure") as caught:
        convert("a.docx", written.getvalue())
    assert caught.value.code == "too_large"


def test_macros_are_ignored() -> None:
    """A workbook with a macro part is read as any other; the part is never looked into."""
    data = changed_zip(workbook([["a"]]), xl__vbaProject_bin=b"Sub AutoOpen()\nShell\n")
    assert convert("a.xlsm", data).text.endswith("| a |\n| --- |")


@pytest.mark.parametrize("name", ["a.xlsx", "a.pptx"])
def test_office_files_are_checked_before_they_are_opened(name: str) -> None:
    """Bombs, entities, passwords, torn archives: one clear error each."""
    good, part = (
        (workbook([["a"]]), "xl__workbook_xml") if name == "a.xlsx" else (deck("t"), "ppt__presentation_xml")
    )
    path = part.replace("__", "/").replace("_", ".")
    body = zipfile.ZipFile(io.BytesIO(good)).read(path)
    entity = b"<!DOCTYPE x [<!ENTITY a SYSTEM 'file:///etc/passwd'>]>" + body
    assert failure(name, changed_zip(good, **{part: entity})).code == "broken"
    assert failure(name, changed_zip(good, big_xml=b" " * 20_000_000)).code == "too_large"
    assert failure(name, good[: len(good) // 2]).code == "broken"
    locked = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600) + "EncryptedPackage".encode("utf-16-le")
    assert failure(name, locked).code == "encrypted"
    old = failure(name.replace("x", "", 1), b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600))
    assert old.code == "unsupported" and ".xlsx" in old.message
    assert failure(name, workbook([]) if name == "a.xlsx" else deck()).code in ("empty", "broken")


def test_a_deck_whose_main_part_is_another_is_told_as_such() -> None:
    """The library takes any part for it."""
    with zipfile.ZipFile(io.BytesIO(deck("t"))) as archive:
        types = archive.read("[Content_Types].xml").replace(b"presentation.main+xml", b"other+xml")
        changed = {name: archive.read(name) for name in archive.namelist()} | {"[Content_Types].xml": types}
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        for name, body in changed.items():
            archive.writestr(name, body)
    assert "which slides it has" in failure("a.pptx", written.getvalue()).message


def test_an_archive_is_no_spreadsheet_by_its_name_only() -> None:
    """An OpenDocument file states its kind in a part of its own; without it the message says what to do."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("content.xml", "<x/>")
    refused = failure("a.ods", packed.getvalue())
    assert refused.code == "unsupported" and "is a ZIP archive; unpack it" in refused.message


# -- slides ----------------------------------------------------------------------------------------------------------


def test_every_part_of_a_slide_comes_through() -> None:
    """Title, list, table, chart data, groups and notes, in their order."""
    text = convert("a.pptx", deck("Plan", "Money")).text
    assert text.startswith(
        "## Slide 1: Plan\n\n- first\n  - deeper\n\n| a | b |\n| --- | --- |\n| c\\|d | e |"
    )
    assert "|  | May | June |\n| --- | --- | --- |\n| Sales | 1.5 |  |" in text
    assert "- grouped" in text and "Notes: say this" in text and "## Slide 2: Money" in text


def test_a_show_and_a_deck_with_macros_are_read_too() -> None:
    """PPSX and PPTM differ in one word of a part."""
    good = deck("Plan")
    kind = b"application/vnd.openxmlformats-officedocument.presentationml.presentation.main+xml"
    types = zipfile.ZipFile(io.BytesIO(good)).read("[Content_Types].xml")
    for name, other in (
        ("a.ppsx", b"application/vnd.openxmlformats-officedocument.presentationml.slideshow.main+xml"),
        ("a.pptm", b"application/vnd.ms-powerpoint.presentation.macroEnabled.main+xml"),
    ):
        changed = changed_zip(good, **{"[Content_Types]_xml": types.replace(kind, other)})
        assert "Slide 1: Plan" in convert(name, changed).text


def test_a_deck_is_cut_with_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slides, shapes and characters have bounds."""
    data = deck("a", "b", "c")
    monkeypatch.setattr(convert_slides, "SLIDES_MAX", 2)
    assert "1 more slides are left out" in convert("a.pptx", data).notes
    monkeypatch.setattr(convert_slides, "SHAPES_MAX", 3)
    assert "larger than what is read" in convert("a.pptx", data).notes[0]


# -- mails -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("charset", "encoded", "shown"),
    [
        ("utf-8", "Größe".encode(), "Größe"),
        ("iso-8859-1", "Größe".encode("latin-1"), "Größe"),
        ("x-unknown-charset", "Größe".encode(), "Größe"),
        ("unicode_escape", rb"\x41", r"\x41"),
        ("us-ascii", "Größe".encode(), "Größe"),
        ("utf-8", "Größe".encode("latin-1"), "Größe"),
    ],
)
def test_charsets_of_mails_are_believed_as_far_as_they_fit(charset: str, encoded: bytes, shown: str) -> None:
    """An unknown or wrong one is guessed; none is a codec of Python's own."""
    head = f"From: a@example.org\nSubject: S\nContent-Type: text/plain; charset={charset}\n".encode()
    data = head + b"Content-Transfer-Encoding: 8bit\nMIME-Version: 1.0\n\n" + encoded
    assert convert("a.eml", data).text.endswith(shown)


def test_a_mail_in_html_only_is_read_as_a_page() -> None:
    """What it hides stays hidden."""
    made = mail("x")
    made.set_content("<p>Price: <b>5</b></p><div style='display:none'>secret</div>", subtype="html")
    text = convert("a.eml", made.as_bytes()).text
    assert "Price: 5" in text and "secret" not in text


def test_mails_within_mails_end_somewhere() -> None:
    """Three deep are read; what is deeper is named."""
    inner = mail("the innermost text")
    for depth in range(6):
        outer = mail(f"level {depth}")
        outer.add_attachment(inner)
        inner = outer
    found = convert("a.eml", inner.as_bytes())
    assert "level 5" in found.text and "level 2" in found.text and "innermost" not in found.text
    assert any("a mail within 3 others is left out" in note for note in found.notes)


def test_attachments_are_read_as_files_are() -> None:
    """Also a workbook; one that cannot be read is a note, and the mail is read all the same."""
    made = mail("see the sheet")
    made.add_attachment(
        workbook([["cell"]]), maintype="application", subtype="octet-stream", filename="a.xlsx"
    )
    made.add_attachment(b"\x00\x01", maintype="application", subtype="octet-stream", filename="b.bin")
    found = convert("a.eml", made.as_bytes())
    assert "## Attachment: a.xlsx" in found.text and "| cell |" in found.text
    assert any("b.bin is left out" in note for note in found.notes)


def test_mails_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts, characters, and boundaries within boundaries, which make a parser slow."""
    many = mail("x")
    for _ in range(5):
        many.add_attachment("text", filename="a.txt")
    monkeypatch.setattr(convert_mail, "PARTS_MAX", 3)
    assert "only the first 3 parts are read" in convert("a.eml", many.as_bytes()).notes
    monkeypatch.setattr(convert_mail, "CHARS_MAX", 10)
    assert "the rest is left out" in convert("a.eml", mail("y" * 100).as_bytes()).notes[0]
    nested = b"From: a@b.c\nSubject: s\n" + b"".join(
        b"Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n" % (depth, depth) for depth in range(500)
    )
    assert failure("a.eml", nested).code == "broken"


def test_an_encrypted_mail_is_named() -> None:
    """It has no text that anybody else can read."""
    data = b"From: a@b.c\nSubject: s\nContent-Type: application/pkcs7-mime; smime-type=enveloped-data\n\nAAAA"
    assert failure("a.eml", data).code == "encrypted"


def test_a_mail_is_recognised_without_its_ending() -> None:
    """By its headers; prose with a colon is none."""
    assert sniff_mime("message", mail().as_bytes()) == MAIL
    assert sniff_mime("a.txt", (FILES / "offer.eml").read_bytes()) == MAIL
    assert sniff_mime("a.txt", b"From: the beginning\nit was clear\n") == "text/plain"
    assert sniff_mime("notes.md", mail().as_bytes()) == "text/markdown"


# -- anything at all -------------------------------------------------------------------------------------------------

GOOD = {
    "a.xlsx": workbook([["a", 1.5, "=A1"], ["b"]]),
    "a.pptx": deck("t"),
    "a.eml": (FILES / "offer.eml").read_bytes(),
}


@settings(max_examples=examples(150))
@given(
    name=st.sampled_from(sorted(GOOD)),
    seed=st.integers(0, 2**32),
    damage=st.integers(1, 40),
    packed=st.booleans(),
)
@example(name="a.eml", seed=0, damage=1, packed=False)
def test_damaged_files_are_read_or_refused(name: str, seed: int, damage: int, packed: bool) -> None:
    """Bytes changed, lost and doubled, in the archive or in its parts: text within bounds, or the one typed error."""
    chance = random.Random(seed)
    data = GOOD[name]
    if packed and name != "a.eml":
        archive = zipfile.ZipFile(io.BytesIO(data))
        part = chance.choice([item for item in archive.namelist() if item.endswith((".xml", ".rels"))])
        written = io.BytesIO()
        with zipfile.ZipFile(written, "w") as target:
            for item in archive.namelist():
                body = archive.read(item)
                target.writestr(item, _damaged(body, chance, damage) if item == part else body)
        data = written.getvalue()
    else:
        data = _damaged(data, chance, damage)
    try:
        found = convert(name, data)
    except ConversionError as error:
        assert "\n" not in str(error)
        return
    assert 0 < len(found.text) < 1_000_000 and found.text.encode("utf-8")
    assert all("\n" not in note for note in found.notes)


def _damaged(data: bytes, chance: random.Random, times: int) -> bytes:
    changed = bytearray(data)
    for _ in range(times):
        place = chance.randrange(max(1, len(changed)))
        what = chance.randrange(3)
        if what == 0 and changed:
            changed[min(place, len(changed) - 1)] = chance.randrange(256)
        elif what == 1:
            del changed[place : place + chance.randrange(1, 30)]
        else:
            changed[place:place] = changed[place : place + chance.randrange(1, 30)]
    return bytes(changed)


@settings(max_examples=examples(150))
@given(
    cells=st.lists(
        st.lists(
            st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
            | st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20),
            max_size=5,
        ),
        max_size=5,
    )
)  # fmt: skip
def test_any_cells_become_one_table(cells: list[list[Any]]) -> None:
    """Every line has the same number of bars, and every text is there."""
    try:
        found = convert("a.xlsx", workbook(cells))
    except ConversionError as error:
        assert error.code in ("empty", "broken")
        return
    lines = [line for line in found.text.splitlines() if line.startswith("|")]
    bars = {line.replace("\\|", "").count("|") for line in lines}
    assert len(bars) == 1


@settings(max_examples=examples(150))
@given(data=st.binary(max_size=400))
def test_any_bytes_after_a_mails_head_are_read_or_refused(data: bytes) -> None:
    """The parser takes anything; what comes out is text."""
    head = b"From: a@b.c\nSubject: s\nMIME-Version: 1.0\n"
    try:
        assert convert("a.eml", head + data).text
    except ConversionError as error:
        assert "\n" not in str(error)
