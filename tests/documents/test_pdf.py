"""PDF to running text: real files made here, lines by hand for the rules, and manuals made by others."""

import zlib
from datetime import UTC, datetime
from typing import Any

import pytest
from fpdf import FPDF
from hypothesis import given, settings
from hypothesis import strategies as st

from . import everything
from .inside import PageLine, convert, drop_running_heads, flow
from .inside import pdf_module as convert_pdf
from .inside import registry_ConversionError as ConversionError


def paper(*pages: str, **options: object) -> FPDF:
    """Return a PDF in the making with one page for each text."""
    pdf = FPDF()
    pdf.set_creation_date(datetime(2026, 1, 1, tzinfo=UTC))
    pdf.set_font("Times", size=11)
    for page in pages:
        pdf.add_page()
        if page:
            pdf.multi_cell(options.get("width", 0), 5, page, align="L")  # type: ignore[arg-type]
    return pdf


def text_of(pdf: FPDF) -> str:
    """Return the text that *pdf* converts to."""
    return convert("a.pdf", bytes(pdf.output())).text


def lines(*texts: str, size: float = 10, x: float = 50, **marks: bool) -> list[PageLine]:
    """Return lines one below the other."""
    return [PageLine(text, x, 700 - 12 * number, size, **marks) for number, text in enumerate(texts)]


def hand_made(
    stream: bytes, *, font: bytes = b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>", pages: int = 1
) -> bytes:
    """Return a file whose pages share one stream."""
    kids = b" ".join(b"%d 0 R" % (5 + number) for number in range(pages))
    page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 99 99]/Contents 3 0 R/Resources<</Font<</F 4 0 R>>>>>>"
    packed = zlib.compress(stream, 9)
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[%b]/Count %d>>" % (kids, pages),
        b"<</Length %d/Filter/FlateDecode>>stream\n%b\nendstream" % (len(packed), packed),
        font,
        *[page] * pages,
    ]
    written, places = b"%PDF-1.7\n", []
    for number, item in enumerate(objects, 1):
        places.append(len(written))
        written += b"%d 0 obj\n%b\nendobj\n" % (number, item)
    rows = b"".join(b"%010d 00000 n \n" % place for place in places)
    end = b"trailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % (len(objects) + 1, len(written))
    return written + b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1) + rows + end


LONG = "The supplier shall deliver all of the goods that are listed below to the "


def test_paragraphs_run_on() -> None:
    """Sentences are whole."""
    sentence = "The supplier shall deliver the goods within thirty days of the order. "
    pdf = paper(sentence * 8, "", f"{sentence * 3}\n\n{sentence}")
    pdf.set_title("Order")
    converted = convert("a.pdf", bytes(pdf.output()))
    assert converted.text == "\n\n".join([(sentence * 8).strip(), (sentence * 3).strip(), sentence.strip()])
    assert (converted.title, converted.pages, converted.mime) == ("Order", 3, "application/pdf")
    assert converted.notes == ("1 of 3 pages hold no text",)


def test_headers_and_footers_are_written_once_behind_the_text() -> None:
    """They would otherwise stand in the middle of sentences; one may say of which contract the pages are."""
    pdf = paper()
    for number in range(1, 5):
        pdf.add_page()
        pdf.text(20, 10, "Annual report")
        pdf.multi_cell(0, 5, f"Page body {number} says something {'new ' * number}.\nAnd more {number}.")
        pdf.text(20, 280, f"Page {number} of 4")
    converted = convert("a.pdf", bytes(pdf.output()))
    body, _, heads = converted.text.partition("\n\nPage header or footer: ")
    assert heads == "Annual report\n\nPage header or footer: Page 4 of 4"
    assert body.count("Page body") == 4
    assert converted.notes[-1] == "page headers and footers, written once: 2"
    assert converted.place(converted.text.index("Annual report")) == "headers and footers"
    assert converted.place(len(body) - 1) == "page 4"


def test_tables_headings_raised_numbers_and_code_keep_their_form() -> None:
    """Rows stay rows, and a footnote's number is not taken for a digit of the sum."""
    pdf = paper()
    pdf.add_page()
    pdf.set_font("Helvetica", "B", 20)
    pdf.cell(0, 12, "Price list", new_x="LMARGIN", new_y="NEXT")
    pdf.set_font("Helvetica", size=11)
    with pdf.table() as table:
        for row in (("Item", "Price"), ("Bolt", "1,00"), ("Nut", "2,00")):
            table.row(row)
    pdf.write(6, "It costs 30")
    pdf.char_vpos = "SUP"
    pdf.write(6, "2")
    pdf.char_vpos = "LINE"
    pdf.ln(20)
    pdf.set_font("Courier", size=11)
    pdf.multi_cell(0, 5, "for x in y:\nprint(x)")
    text = text_of(pdf)
    assert (
        text == "Price list\n\nItem | Price\nBolt | 1,00\nNut | 2,00\n\nIt costs 30²\n\nfor x in y:\nprint(x)"
    )
    assert convert("a.pdf", bytes(pdf.output())).title == "Price list"


def test_rotated_text_is_read_along_its_own_direction() -> None:
    """Landscape tables in portrait files are common."""
    pdf = paper()
    pdf.add_page()
    with pdf.rotation(90, 100, 150):
        pdf.set_xy(20, 100)
        pdf.multi_cell(150, 5, "Turned text must also be joined to a sentence that runs over two lines " * 2)
    assert text_of(pdf).count("\n") == 0


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (bytes(paper("", "").output()), "scanned"),
        (bytes(paper("text").output())[:300], "broken"),
        (b"%PDF-1.4\n%%EOF", "broken"),
        (b"%PDF-1.4\n" + b"[" * 10_000, "broken"),
    ],
)
def test_files_without_text_say_why(data: bytes, code: str) -> None:
    """A scan needs OCR, a torn file needs a new copy."""
    with pytest.raises(ConversionError) as raised:
        convert("a.pdf", data)
    assert raised.value.code == code and "Error" not in raised.value.message


def test_protected_files_open_when_the_password_is_empty() -> None:
    """Many files only forbid printing; they can be read."""
    open_to_all = paper("Readable text.")
    open_to_all.set_encryption(owner_password="boss")
    assert text_of(open_to_all) == "Readable text."
    locked = paper("Secret text.")
    locked.set_encryption(owner_password="boss", user_password="worker")
    with pytest.raises(ConversionError) as raised:
        convert("a.pdf", bytes(locked.output()))
    assert raised.value.code == "encrypted"


def test_one_unreadable_page_is_a_note_and_all_of_them_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long report must not be lost for one bad page, nor half of it without a word."""
    honest = convert_pdf._lines
    bad = {1}

    def lines_of(document: Any, index: int, *given: Any) -> tuple[list[PageLine], bool, bool]:
        if index in bad:
            raise ValueError("bad stream")
        return honest(document, index, *given)

    monkeypatch.setattr(convert_pdf, "_lines", lines_of)
    data = bytes(paper("first page", "second page").output())
    converted = convert("a.pdf", data)
    assert (converted.text, converted.notes) == ("first page", ("page 2: could not be read",))
    bad.add(0)
    with pytest.raises(ConversionError) as raised:
        convert("a.pdf", data)
    assert raised.value.code == "broken"


def test_pages_and_characters_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """The work on one file is bounded."""
    data = bytes(paper("some words", "more words").output())
    monkeypatch.setattr(convert_pdf, "PAGES_MAX", 1)
    with pytest.raises(ConversionError, match="2 pages"):
        convert("a.pdf", data)
    monkeypatch.setattr(convert_pdf, "PAGES_MAX", 10)
    monkeypatch.setattr(convert_pdf, "CHARS_MAX", 12)
    with pytest.raises(ConversionError, match="12 characters"):
        convert("a.pdf", data)


VERTICAL = (
    b"<</Type/Font/Subtype/Type0/BaseFont/Ryumin-Light/Encoding/90ms-RKSJ-V/DescendantFonts[<</Type/Font/Subtype"
    b"/CIDFontType0/BaseFont/Ryumin-Light/CIDSystemInfo<</Registry(Adobe)/Ordering(Japan1)/Supplement 2>>"
    b"/FontDescriptor<</Type/FontDescriptor/FontName/Ryumin-Light/Flags 4>>>>]>>"
)


@pytest.mark.parametrize("count", [0, 30])
def test_texts_that_give_nothing_are_noted(count: int) -> None:
    """The library reads no vertical lines: a page that has some beside its text is named."""
    lines = b"".join(b"BT /F 9 Tf %d 80 Td <825082518252> Tj ET " % (3 * at) for at in range(count))
    data = hand_made(b"BT /G 9 Tf 5 5 Td (Read) Tj ET " + lines, font=VERTICAL)
    read = convert(
        "a.pdf", data.replace(b"/F 4 0 R", b"/F 4 0 R/G<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>")
    )
    assert read.text == "Read"
    assert [note for note in read.notes if "vertical" in note] == (
        ["page 1: not all of the text could be read, such as vertical lines"] if count else []
    )


def test_doubtful_pages_are_named() -> None:
    """Words without spaces between them on two of twelve pages, and signs that the file does not explain."""
    prose = "The supplier shall deliver the goods within thirty days of the order. " * 4
    pages = [prose, prose.replace(" ", "")] * 2 + [prose] * 8
    assert convert("a.pdf", bytes(paper(*pages).output())).notes[0] == (
        "pages 2, 4: words seem to be glued together, the file does not set them apart"
    )
    many = convert("a.pdf", bytes(paper(*[prose.replace(" ", "")] * 12).output()))
    assert many.notes[0].startswith("pages 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 2 more: words")
    assert convert("a.pdf", bytes(paper("Donaudampfschifffahrtsgesellschaft " + prose).output())).notes == ()
    unnamed = b"<</Type/Font/Subtype/Type3/FontBBox[0 0 9 9]/FontMatrix[.1 0 0 .1 0 0]/FirstChar 1/LastChar 2/Widths[9 9]"
    unnamed += b"/CharProcs<<>>/Encoding<</Differences[1/g1/g2]>>>>"
    (note,) = convert("a.pdf", hand_made(b"BT /F 9 Tf 9 9 Td (\1\2\1\2) Tj ET", font=unnamed)).notes
    assert note.startswith("page 1: the file does not say which letters")


@pytest.mark.parametrize(
    ("page", "text"),
    [
        (lines(LONG + "circumvent-", "ing parties."), LONG + "circumventing parties."),
        (lines(LONG + "third-", "party. A third party-", "based."), None),
        (lines(LONG + "well-known", "and well-", "known."), LONG + "well-known and well-known."),
        (lines(LONG + "city of New-", "York"), LONG + "city of New-York"),
        (lines(LONG + "exclus-²", "ive rights."), LONG + "exclusive² rights."),
        (lines(LONG + "range 5-", "6"), LONG + "range 5- 6"),
        (lines(LONG + "end.", "Short line.", "Next."), LONG + "end. Short line.\n\nNext."),
        (lines(LONG, "Name", "Street", "city"), f"{LONG} Name\nStreet city"),
        (lines("• one and", "more", "• two"), "- one and more\n- two"),
        (lines(LONG + "as:", "1. first", "2. second"), LONG + "as:\n1. first\n2. second"),
        (lines(LONG + "by", "12. May at the latest."), LONG + "by 12. May at the latest."),
        ([*lines("Head", size=14), *lines("text", x=51)], "Head\n\ntext"),
        ([*lines("Head", bold=True), PageLine("Text is here", 50, 688, 10)], "Head\n\nText is here"),
        ([*lines("a = 1", "b = 2", code=True), PageLine("Text", 50, 676, 10)], "a = 1\nb = 2\n\nText"),
        ([*lines("a | b", "c | d", row=True), PageLine("Text", 50, 676, 10)], "a | b\nc | d\n\nText"),
        ([*lines("we | have", row=True), PageLine("this one.", 50, 688, 10)], "we | have this one."),
        ([PageLine(LONG, 50, 700, 10), PageLine("Far below.", 50, 600, 10)], f"{LONG}\n\nFar below."),
        (
            [PageLine(LONG, 50, 100, 10), PageLine("and on the right.", 300, 700, 10)],
            f"{LONG} and on the right.",
        ),
        ([PageLine(LONG, 50, 100, 10), PageLine("Right column.", 300, 700, 10)], f"{LONG}\n\nRight column."),
        ([PageLine(LONG, 50, 100, 10), PageLine("Beside", 300, 100, 10)], f"{LONG} Beside"),
        ([PageLine(LONG + "end.", 50, 100, 10), PageLine("Indented", 62, 88, 10)], LONG + "end.\n\nIndented"),
        (
            [PageLine(LONG + "end.", 62, 100, 10), PageLine("Moved back", 50, 88, 10)],
            LONG + "end.\nMoved back",
        ),
        (
            [PageLine("1. " + LONG + "end.", 50, 100, 10), PageLine("Hanging", 62, 88, 10)],
            f"1. {LONG}end. Hanging",
        ),
        (
            [
                PageLine("1. One.", 50, 100, 10),
                PageLine("2. Two.", 50, 88, 10),
                PageLine("3. Far.", 50, 60, 10),
            ],
            "1. One.\n2. Two.\n\n3. Far.",
        ),
    ],
)
def test_lines_are_joined_by_rule(page: list[PageLine], text: str | None) -> None:
    """Each rule of the module's description, one by one."""
    joined, _, _ = flow([page])
    if text is None:
        assert "third-party. A third" in joined
    else:
        assert joined == text


def numbered(number: int, *, head: str = "", foot: str = "") -> list[PageLine]:
    """Return a page of seven lines with a head and a foot."""
    body = [
        PageLine(f"Body {number * 7 % 5} {word}", 50, 600 - 12 * n, 10) for n, word in enumerate("abcdefg")
    ]
    top = [PageLine(head, 50, 780, 8)] if head else []
    return [*top, *body, *([PageLine(foot, 50, 30, 8)] if foot else [])]


def test_a_page_that_was_taken_out_of_a_form_keeps_what_is_filled_in() -> None:
    """Programs that cut a file into pages leave the list of its fields behind."""
    whole = everything.MAKERS["pdf"]({"form"})
    assert b"/AcroForm" in whole
    page = convert("a.pdf", whole.replace(b"/AcroForm", b"/AcroFarm"))
    assert [line for line in convert("a.pdf", whole).text.split("\n") if "[" in line][:1] == [
        line for line in page.text.split("\n") if "[" in line
    ][:1]
    assert "fields of forms, with what is filled in" in page.notes[-1]


def test_running_heads_are_told_from_text_that_repeats() -> None:
    """Numbers must count the pages, and what differs in size or sum is text."""
    kept, heads = drop_running_heads([numbered(n, foot=f"{n + 7} of 99") for n in range(4)])
    assert heads == ["10 of 99"]
    assert all(len(page) == 7 for page in kept)
    sums = [31, 8, 77, 12, 50]
    kept, heads = drop_running_heads([numbered(n, foot=f"Sum {sums[n]} EUR") for n in range(5)])
    assert heads == []
    chapters = [
        numbered(n, head=["One", "Two"][n // 3], foot=["ii", "iii", "iv", "v", "vi", "x"][n])
        for n in range(6)
    ]
    assert all(len(page) == 7 for page in drop_running_heads(chapters)[0])
    assert drop_running_heads([lines("All", "pages", "are", "alike")] * 3)[1] == []
    mixed = [numbered(n, foot=f"{n + 1} Part {'abc'[n % 3]}") for n in range(6)]
    assert all(len(page) == 7 for page in drop_running_heads(mixed)[0])


@settings(deadline=None)
@given(
    st.lists(
        st.lists(
            st.builds(
                PageLine,
                st.sampled_from(["word", "de-", "Page 1", "• x", "1. y", "th e", "A b.", "- ", "xii"]),
                st.floats(0, 600),
                st.floats(0, 800),
                st.floats(0.1, 40),
                bold=st.booleans(),
                code=st.booleans(),
                row=st.booleans(),
            ),
            max_size=8,
        ),
        max_size=5,
    )
)
def test_any_lines_flow(pages: list[list[PageLine]]) -> None:
    """Whatever a file says about places, there is text where there were lines."""
    assert bool(flow(pages)[0]) == any(pages)
