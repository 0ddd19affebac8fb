"""
Workbooks, slides and mails: what comes through, what is refused, and that nothing else can happen.

The files in ``fixtures/documents`` were written by other programs: LibreOffice 7.4 (``orders.xlsx``, ``plan.pptx``) and
nodemailer 7 (``offer.eml``).
"""

from __future__ import annotations

import email.message
import io
import re
import zipfile
from copy import deepcopy
from pathlib import Path
from typing import Any, cast

import docx
import openpyxl
import pptx
import pytest
from lxml import etree
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.util import Inches

from . import everything
from .inside import MIME as MAIL
from .inside import Converted, convert, sniff_mime
from .inside import docx_module as convert_office
from .inside import eml_module as convert_mail
from .inside import pptx_MIME as SLIDES
from .inside import pptx_module as convert_slides
from .inside import registry_ConversionError as ConversionError
from .inside import xlsx_MIME as SHEETS
from .inside import xlsx_module as convert_sheets
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
    assert found.mime == SHEETS and found.notes == ("hidden sheets, marked as such: 1",)
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


def test_a_workbook_that_openpyxl_does_not_open_is_read_all_the_same() -> None:
    """Other programs leave out the names of styles, or announce a part for texts that they do not write."""
    data = workbook([[1, 2.5]])
    styles = re.sub(' name="Normal"', "", everything.part(data, "xl/styles.xml"))
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        bare = {name: archive.read(name) for name in archive.namelist() if name != "xl/sharedStrings.xml"}
    for changed in (everything.packed({"xl/styles.xml": styles}, data), everything.packed({**bare})):
        assert convert("a.xlsx", changed).text == "## Sheet\n\n| 1 | 2.5 |\n| --- | --- |"


def test_cells_show_characters_that_are_written_as_codes_and_powers_of_ten() -> None:
    """XML cannot hold every character; a number with a power of ten is rounded as any other."""
    book = openpyxl.Workbook()
    book.active["A1"] = "Rich_x0041_ _x20_"
    book.active["B1"] = 123456
    book.active["B1"].number_format = "0.00E+00"
    written = io.BytesIO()
    book.save(written)
    found = convert("a.xlsx", written.getvalue())
    assert "| RichA _x20_ | 1.23E+05 |" in found.text
    assert found.notes == ("numbers rounded as the sheet shows them: 1",)


@pytest.mark.parametrize(
    ("form", "shown"),
    [
        ('[>999999]#,,"M";[>999]#,"K";#', ["-102", "2", "102", "12K", "3M"]),
        ("[<0]0.0;[=2]000;0", ["-102.0", "002", "102", "12000", "3000000"]),
        ("[Red]0", ["-102", "2", "102", "12000", "3000000"]),
    ],
)
def test_a_number_is_shown_by_the_part_of_its_format_that_is_for_it(form: str, shown: list[str]) -> None:
    """102 is not "0M"."""
    assert shown_numbers(form, -102, 2, 102, 12_000, 3_000_000) == shown


def test_fractions_are_shown_as_such() -> None:
    """Shares of a company are."""
    assert shown_numbers("# ?/?", 1.5, 0.25, -1.2222, 3, 0) == ["1 1/2", "1/4", "-1 2/9", "3", "0"]
    assert shown_numbers("# ??/??", 0.3125, float("1e15")) == ["5/16", "1000000000000000"]


def shown_numbers(form: str, *values: float) -> list[str]:
    """Return what a sheet shows of numbers in one format."""
    book = openpyxl.Workbook()
    for column, value in enumerate(values, 1):
        book.active.cell(1, column, value).number_format = form
    written = io.BytesIO()
    book.save(written)
    row = convert("a.xlsx", written.getvalue()).text.split("\n")[2]
    return [cell.strip() for cell in row.strip("|").split("|")]


# -- slides ----------------------------------------------------------------------------------------------------------


def test_every_part_of_a_slide_comes_through() -> None:
    """Title, list, table, chart data, groups and notes, in their order."""
    text = convert("a.pptx", deck("Plan", "Money")).text
    assert text.startswith(
        "## Slide 1: Plan\n\n- first\n  - deeper\n\n| a | b |\n| --- | --- |\n| c\\|d | e |"
    )
    assert "|  | May | June |\n| --- | --- | --- |\n| Sales | 1.5 |  |" in text
    assert "- grouped" in text and "Notes: say this" in text and "## Slide 2: Money" in text


def test_a_list_of_another_kind_begins_anew() -> None:
    """One right below another is numbered by itself, as is one that says where it begins."""
    data = everything.MAKERS["pptx"]({"number"})
    name = "ppt/slides/slide1.xml"
    made = everything.part(data, name)
    item = re.findall(r"<a:p><a:pPr><a:buAutoNum.*?</a:p>", made)[-1]
    asked = (
        "arabicPeriod",
        "arabicPeriod",
        'romanUcPeriod" startAt="2',
        'romanUcPeriod" startAt="2',
        "alphaLcParenR",
    )
    items = "".join(item.replace("alphaLcParenBoth", kind) for kind in asked)
    text = convert("a.pptx", everything.packed({name: made.replace(item, items)}, data)).text
    assert re.findall(r"(?m)^(\S+) numbered words", text) == ["1.", "2.", "II.", "III.", "a)"]


@pytest.mark.parametrize("form", ["docx", "pptx"])
def test_a_chart_and_what_refers_to_it_have_bounds(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A point of a series may have any number, and a file may show one chart a thousand times."""
    point = '<c:pt idx="999"><c:v>1</c:v></c:pt>'
    series = f"<c:ser><c:val><c:numRef><c:numCache>{point}</c:numCache></c:numRef></c:val></c:ser>"
    chart = f"<c:chartSpace {everything.NAMES}>{series * 2000}</c:chartSpace>"
    data = everything.MAKERS[form]({"chart"})
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        name = next(name for name in archive.namelist() if re.search(r"/charts/chart\d+\.xml", name))
    found = convert(f"a.{form}", everything.packed({name: chart}, data))
    assert "(more is left out)" in found.text and len(found.text) < 100_000
    main, item = {"docx": ("word/document.xml", "w:p"), "pptx": ("ppt/slides/slide1.xml", "p:graphicFrame")}[
        form
    ]
    shown = next(
        part
        for part in re.findall(f"<{item}>.*?</{item}>", everything.part(data, main), re.DOTALL)
        if "chart" in part
    )
    many = everything.packed(
        {name: chart, main: everything.part(data, main).replace(shown, shown * 1000)}, data
    )
    monkeypatch.setattr({"docx": convert_office, "pptx": convert_slides}[form], "CHARS_MAX", 400_000)
    if form == "docx":
        assert failure("a.docx", many).code == "too_large"
    else:
        assert "larger than what is read" in convert("a.pptx", many).notes[0]


def test_of_a_shape_in_two_forms_the_newer_one_is_read() -> None:
    """PowerPoint writes one for itself and one for older programs."""
    data = deck("Plan")
    name = "ppt/slides/slide1.xml"
    root = etree.fromstring(everything.part(data, name).encode())
    space = "http://schemas.openxmlformats.org/markup-compatibility/2006"
    for shape in list(root[0][0])[3:]:
        both = etree.SubElement(shape.getparent(), f"{{{space}}}AlternateContent")
        for form in ("Choice", "Fallback"):
            etree.SubElement(both, f"{{{space}}}{form}").append(deepcopy(shape))
        shape.getparent().remove(shape)
    changed = everything.packed({name: etree.tostring(root)}, data)
    assert convert("a.pptx", changed) == convert("a.pptx", data)


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
    found = convert("a.eml", made.as_bytes())
    assert "Price: 5" in found.text and "secret" not in found.text


@pytest.mark.parametrize("charset", ["utf-8", "iso-8859-1", "utf-16"])
def test_what_a_page_in_a_mail_says_of_its_encoding_is_not_believed_twice(charset: str) -> None:
    """The part itself is decoded by its own header; programs leave any ``meta`` in the page."""
    for stated in ("utf-8", "iso-8859-1", "shift_jis"):
        made = mail("x")
        page = f"<html><head><meta charset={stated}></head><body><p>Größe für naïve</p></body></html>"
        made.set_content(page.encode(charset), "text", "html")
        made.set_param("charset", charset)
        assert convert("a.eml", made.as_bytes()).text.endswith("Größe für naïve")


def test_a_picture_of_an_alternative_that_is_not_read_is_noted() -> None:
    """The plain text is read, and its twin in HTML has the picture."""
    made = mail("plain words")
    made.add_alternative("<p>plain words <img src='cid:1'></p>", subtype="html")
    page = cast("email.message.EmailMessage", list(made.iter_parts())[1])
    page.add_related(b"\x89PNG\r\n\x1a\n", "image", "png", cid="<1>", filename="logo.png")
    found = convert("a.eml", made.as_bytes())
    assert found.text.count("plain words") == 1
    assert [note for note in found.notes if note.startswith("the attachment logo.png is left out")]


def test_the_words_of_an_invitation_are_as_they_were_written() -> None:
    r"""``\,`` is a comma, ``\n`` a line break, ``\\`` one backslash; long lines are folded."""
    made = mail("x")
    lines = (r"SUMMARY:Lunch\, then\; C:\\new\Nroom", "DESCRIPTION:long", "  line", "END:VEVENT", "")
    made.add_alternative("BEGIN:VEVENT\r\n" + "\r\n".join(lines), subtype="calendar")
    text = convert("a.eml", made.as_bytes()).text
    assert r"- SUMMARY:Lunch, then; C:\new room" in text and "- DESCRIPTION:long line" in text


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


def test_a_mail_is_recognised_without_its_ending() -> None:
    """By its headers; prose with a colon is none."""
    assert sniff_mime("message", mail().as_bytes()) == MAIL
    assert sniff_mime("a.txt", (FILES / "offer.eml").read_bytes()) == MAIL
    assert sniff_mime("a.txt", b"From: the beginning\nit was clear\n") == "text/plain"
    assert sniff_mime("notes.md", mail().as_bytes()) == "text/markdown"


# -- anything at all -------------------------------------------------------------------------------------------------
