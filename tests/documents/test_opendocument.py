"""OpenDocument files, books and RTF: made by hand here, and by others in `test_real_documents`."""

from __future__ import annotations

import io
import zipfile
from xml.sax.saxutils import escape

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from .inside import OPENDOCUMENT, Converted, convert, sniff_mime
from .inside import opendocument_module as module
from .inside import registry_ConversionError as ConversionError

TEXT, SHEET, SLIDES, _ = OPENDOCUMENT
SPACES = " ".join(
    f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{space}:1.0"'
    for name, space in {
        "office": "office",
        "text": "text",
        "table": "table",
        "draw": "drawing",
        "pres": "presentation",
    }.items()
)
SPACES += ' xmlns:xlink="http://www.w3.org/1999/xlink"'


def packed(**parts: str) -> bytes:
    """Return an archive; two underscores in a name stand for a slash, one for a dot."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in parts.items():
            archive.writestr(name.replace("__", "/").replace("_", "."), text)
    return written.getvalue()


def document(body: str, mime: str = TEXT, kind: str = "text", **parts: str) -> bytes:
    """Return an OpenDocument file."""
    content = f"<office:document-content {SPACES}><office:body><office:{kind}>{body}</office:{kind}></office:body></office:document-content>"
    return packed(mimetype=mime, content_xml=content, **parts)


def text(body: str) -> str:
    """Return what the body of a text document converts to."""
    return convert("a.odt", document(body)).text


def sheet(*rows: str) -> Converted:
    """Return what a sheet of *rows* converts to."""
    table = f'<table:table table:name="Plan">{"".join(rows)}</table:table>'
    return convert("a.ods", document(table, SHEET, "spreadsheet"))


def row(*cells: str, repeated: int = 1) -> str:
    """Return a row; a cell that begins with a number and a colon is repeated."""
    made = ""
    for cell in cells:
        count, _, shown = cell.partition(":") if ":" in cell else ("1", "", cell)
        made += f'<table:table-cell table:number-columns-repeated="{count}"><text:p>{shown}</text:p></table:table-cell>'
    return f'<table:table-row table:number-rows-repeated="{repeated}">{made}</table:table-row>'


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (
            '<text:h text:outline-level="1">Plan</text:h><text:p>One <text:span>two</text:span>.</text:p>',
            "# Plan\n\nOne two.",
        ),
        ('<text:h text:outline-level="9">Deep</text:h><text:h>First</text:h>', "###### Deep\n\n# First"),
        ("<text:p>a\n  b<text:s text:c='3'/>c<text:tab/>d<text:line-break/>e</text:p>", "a b c d\ne"),
        (
            (
                "<text:list><text:list-item><text:p>A</text:p><text:p>more</text:p><text:list><text:list-item><text:p>B</text:p>"
                "</text:list-item></text:list></text:list-item></text:list><text:p>End</text:p>"
            ),
            "- A\n  more\n  - B\n\nEnd",
        ),
        (
            (
                "<text:p>Sum<text:note><text:note-citation>1</text:note-citation><text:note-body><text:p>Net.</text:p>"
                "</text:note-body></text:note> of all</text:p>"
            ),
            "Sum (Net.) of all",
        ),
        (
            "<text:p>before <draw:text-box><text:p>in a frame</text:p></draw:text-box>after</text:p>",
            "in a frame\n\nbefore after",
        ),
        (
            (
                "<text:tracked-changes><text:p>gone</text:p></text:tracked-changes><text:p>kept"
                "<office:annotation><text:p>remark</text:p></office:annotation></text:p>"
            ),
            "kept\n\nComment after “kept”: remark",
        ),
        (
            (
                "<table:table><table:table-row><table:table-cell><text:p>a|b</text:p><text:p>c</text:p></table:table-cell>"
                "<table:table-cell><table:table><table:table-row><table:table-cell><text:p>x</text:p></table:table-cell>"
                "</table:table-row></table:table></table:table-cell></table:table-row></table:table>"
            ),
            "| a\\|b<br>c | x |\n| --- | --- |",
        ),
    ],
)
def test_a_text_keeps_its_structure(body: str, shown: str) -> None:
    """Headings, lists, notes, frames and tables; comments and deletions are left out."""
    assert text(body) == shown


def test_sheets_show_what_their_cells_show() -> None:
    """Repeated cells and rows are written out, and the million empty ones around them cost nothing."""
    found = sheet(
        row("Item", "2:x"), row("3:", repeated=7), row("a", repeated=2), row("16384:", repeated=1_048_576)
    )
    assert found.text == "## Plan\n\n| Item | x | x |\n| --- | --- | --- |\n| a |  |  |\n| a |  |  |"
    assert (found.mime, found.notes) == (SHEET, ())


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param([row("xyz", repeated=999_999_999)], marks=pytest.mark.whole),
        pytest.param([row("2000:x", repeated=999_999_999)], marks=pytest.mark.whole),
        [row("9999:x"), row("y", repeated=99_999)],
        [row("head"), row(f"99999:{'x' * 2000}", repeated=99_999)],
    ],
)
def test_what_is_repeated_has_a_bound(rows: list[str]) -> None:
    """A file of 1 kB may say that a cell is there a billion times."""
    found = sheet(*rows)
    assert len(found.text) < 4 * module.CHARS_MAX
    assert found.notes == (module.CUT,)


def test_slides_are_numbered_and_their_notes_named() -> None:
    """A deck without any text is empty."""
    page = "<draw:page><draw:frame><text:p>{}</text:p></draw:frame><pres:notes><text:p>{}</text:p></pres:notes></draw:page>"
    deck = page.format("Plan", "Say hello") + page.format("Money", "") + page.format("End", "")
    found = convert("a.odp", document(deck, SLIDES, "presentation"))
    assert found.text == "## Slide 1\n\nPlan\n\nNotes: Say hello\n\n## Slide 2\n\nMoney\n\n## Slide 3\n\nEnd"
    with pytest.raises(ConversionError, match="holds no text"):
        convert("a.odp", document(page.format("", ""), SLIDES, "presentation"))


def test_a_heading_in_a_list_has_the_number_of_its_item() -> None:
    """Contracts that were written in Word are like this once they are saved as ODT."""
    level = '<text:list-level-style-number text:level="1" style:num-suffix="." style:num-format="1"/>'
    style = f'<text:list-style style:name="L" xmlns:style="urn:oasis:names:tc:opendocument:xmlns:style:1.0">{level}</text:list-style>'
    item = '<text:list text:style-name="L" text:continue-numbering="true"><text:list-item><text:h text:outline-level="1">{}</text:h></text:list-item></text:list>'
    assert (
        text(style + item.format("Rent") + "<text:p>100</text:p>" + item.format("Term"))
        == "# 1. Rent\n\n100\n\n# 2. Term"
    )


def test_the_footer_that_slides_share_is_written_once() -> None:
    """It is declared before the slides, and they refer to it."""
    declared = '<pres:footer-decl pres:name="a">Contract 4711</pres:footer-decl><pres:date-time-decl pres:name="d">1 May 2026</pres:date-time-decl>'
    page = "<draw:page><draw:frame><text:p>Plan</text:p></draw:frame></draw:page>"
    found = convert("a.odp", document(declared + page, SLIDES, "presentation"))
    assert found.text == "## Slide 1\n\nPlan\n\nPage footer: Contract 4711\n\nPage footer: 1 May 2026"
    assert found.notes == ("page headers and footers, written once: 2",)


def test_embedded_parts_are_read_once_and_where_they_are() -> None:
    """A file that refers to one of them many times is no longer for it; one that nothing refers to, or within another, is counted."""
    part = document("<text:p>inner</text:p>")
    with zipfile.ZipFile(io.BytesIO(part)) as archive:
        inner = archive.read("content.xml").decode()
    frame = '<draw:frame><draw:object xlink:href="./A"/></draw:frame>'
    parts = {"A/content.xml": inner, "B/content.xml": inner, "A/C/content.xml": inner}
    found = convert("a.odt", document(f"<text:p>first</text:p>{frame * 3}<text:p>last</text:p>", **parts))
    assert found.text == "first\n\ninner\n\nlast"
    assert found.notes == ("embedded files or objects, left out: 2",)


def test_the_text_of_a_file_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left out is said."""
    monkeypatch.setattr(module, "CHARS_MAX", 10)
    found = convert("a.odt", document("<text:p>12345678</text:p>" * 3))
    assert (found.text, found.notes) == ("12345678", (module.CUT,))


def test_kinds_are_told_by_what_the_archive_says() -> None:
    """Templates are read as their documents, and what has another name, too."""
    assert sniff_mime("a.ott", document("", f"{TEXT}-template")) == TEXT
    assert sniff_mime("a", document("", SHEET)) == SHEET
    assert sniff_mime("a.zip", packed(mimetype="application/epub+zip")) == "application/epub+zip"
    assert (
        sniff_mime("a.odf", document("", "application/vnd.oasis.opendocument.formula")) == "application/zip"
    )
    assert sniff_mime("a.odt", b"PK\x03\x04torn") == TEXT


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (
            document("<text:p>x</text:p>", **{"META-INF__manifest_xml": "<a><encryption-data/></a>"}),
            "encrypted",
        ),
        (packed(mimetype=TEXT, content_xml="<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>"), "broken"),
        (packed(mimetype=TEXT, content_xml="<a><b></a>"), "broken"),
        (packed(mimetype=TEXT, other_xml="<a/>"), "broken"),
        (packed(mimetype=TEXT, content_xml=" " * 60_000_000), "too_large"),
        (document(""), "empty"),
    ],
)
def test_files_that_cannot_be_read_say_why(data: bytes, code: str) -> None:
    """Locked, hostile, torn or empty."""
    with pytest.raises(ConversionError) as raised:
        convert("a.odt", data)
    assert raised.value.code == code and "KeyError" not in raised.value.message


TAGS = st.sampled_from(
    [
        *("text:p", "text:h", "text:list", "text:list-item", "text:note", "text:note-body"),
        *("table:table", "table:table-row", "table:table-cell", "draw:page", "pres:notes"),
        *("text:s", "text:tab", "office:annotation", "draw:frame"),
    ]
)
BODIES = st.recursive(
    st.text(
        st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff"), max_size=8
    ).map(escape),
    lambda inner: st.builds(
        lambda tag, parts, count: (
            f'<{tag} table:number-columns-repeated="{count}" table:number-rows-repeated="{count}">{"".join(parts)}</{tag}>'
        ),
        TAGS,
        st.lists(inner, max_size=4),
        st.integers(-1, 20_000),
    ),
    max_leaves=20,
)


@given(BODIES, st.sampled_from(["text", "spreadsheet", "presentation"]))
@example("<text:p><text:note-body><text:p>a</text:p></text:p></text:note-body>", "text")
def test_any_body_is_text_or_a_conversion_error(body: str, kind: str) -> None:
    """Elements in any order, at any depth."""
    data = document(body, OPENDOCUMENT[0], kind)
    try:
        found = convert("a.odt", data)
    except ConversionError as error:
        assert error.code in ("empty", "broken")
        return
    assert found.text.strip() and found == convert("a.odt", data)


# -- books -----------------------------------------------------------------------------------------------------------

CONTAINER = '<container xmlns="urn:c"><rootfiles><rootfile full-path="OEBPS/b.opf"/></rootfiles></container>'
PACKAGE = (
    '<package xmlns:dc="http://purl.org/dc/elements/1.1/"><metadata><dc:title>A Book</dc:title></metadata><manifest>'
    '<item id="1" href="one.xhtml"/><item id="2" href="two%20b.html"/><item id="n" href="nav.html"/></manifest>'
    '<spine><itemref idref="2"/><itemref idref="1"/>{}</spine></package>'
)


def book(more: str = "", **parts: str) -> bytes:
    """Return a book of two pages, the second of them first."""
    pages = {
        "OEBPS/one.xhtml": "<h1>One</h1><p>First.",
        "OEBPS/two b.html": "<p>Second.",
        "OEBPS/nav.html": "no page",
    }
    written = io.BytesIO(
        packed(mimetype="application/epub+zip", **{"META-INF__container_xml": CONTAINER}, **parts)
    )
    with zipfile.ZipFile(written, "a") as archive:
        for name, page in {**pages, "OEBPS/b.opf": PACKAGE.format(more)}.items():
            archive.writestr(name, page)
    return written.getvalue()


def test_a_book_is_read_in_its_order() -> None:
    """The spine decides, not the names."""
    found = convert("a.epub", book())
    assert (found.text, found.title, found.notes) == ("Second.\n\n# One\n\nFirst.", "A Book", ())
    assert convert("a.epub", book('<itemref idref="no"/>')).notes == ("a page of the book is missing",)


def test_a_book_with_encrypted_pages_says_so() -> None:
    """Encrypted fonts do not matter."""
    fonts = {"META-INF__encryption_xml": "<a uri='OEBPS/font.otf'/>"}
    assert convert("a.epub", book(**fonts)).title == "A Book"
    with pytest.raises(ConversionError, match="protected against copying"):
        convert("a.epub", book(**{"META-INF__encryption_xml": "<a uri='OEBPS/one.xhtml'/>"}))


def test_a_page_of_nothing_but_tags_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a book as of the web: packed it is small, and its time grows with the tags."""
    monkeypatch.setattr("paor.tools.documents.convert.html.MARKS_MAX", 2)
    for name, data in (("a.html", b"<p>words<b><i>"), ("a.epub", book())):
        with pytest.raises(ConversionError, match="more than 2 tags"):
            convert(name, data)


# -- RTF -------------------------------------------------------------------------------------------------------------


def test_rtf_gives_text_and_tables() -> None:
    """Characters in any of its three forms."""
    data = rb"{\rtf1\ansi\ansicpg1252{\info{\title An offer}}K\'e4se f\u252?r 5 \u8364?\par\par "
    data += rb"\trowd Item\cell Price\cell\row \trowd Nut\cell 2\cell\row After\par}"
    found = convert("a.rtf", data)
    assert found.text == "Käse für 5 €\n\n| Item | Price |\n| --- | --- |\n| Nut | 2 |\n\nAfter"
    assert (found.title, found.mime) == ("An offer", "application/rtf")
    assert convert("a", data) == found


@pytest.mark.parametrize(
    ("table", "read"),
    [
        (b"{\\f0\\froman\\fcharset0 Times;}" * 300, True),
        (b"\\f0 " * 100_000 + b";", False),
        (b"\\f0\\fcharset0" * 3000, False),
        (b"\\f" + b"0" * 300_000 + b" A;", False),
    ],
)
def test_a_table_of_fonts_costs_no_more_than_its_length(table: bytes, read: bool) -> None:
    """What no program writes, and the search for fonts would take hours for, is refused."""
    data = b"{\\rtf1 {\\fonttbl" + table + b"}words}"
    if read:
        assert convert("a.rtf", data).text == "words"
    else:
        with pytest.raises(ConversionError, match="table of fonts"):
            convert("a.rtf", data)


@pytest.mark.parametrize("word", ["deleted", "revised", "v", "strike", "super"])
def test_a_word_that_switches_a_look_is_read_as_a_group_of_it(word: str) -> None:
    """Some programs write groups, others switch it on and off; nothing is counted of styles that a file only defines."""
    group = convert("a.rtf", rb"{\rtf1 a {\b\%b words} b}" % word.encode())
    for begin, end in (
        (word, f"{word}0"),
        (f"{word}1", f"{word}0"),
        (word, "plain"),
        (f"b\\{word}", "plain"),
    ):
        switched = convert("a.rtf", rf"{{\rtf1 a \{begin} words\{end}  b}}".encode())
        assert (switched.text.split(), switched.notes) == (group.text.split(), group.notes)
    assert "words" in group.text
    styles = rf"{{\rtf1{{\stylesheet{{\s1\{word} Name;}}{{\*\cs1\b\{word} Other;}}}}words}}".encode()
    assert (convert("a.rtf", styles).text, convert("a.rtf", styles).notes) == ("words", ())
