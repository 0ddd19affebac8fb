"""Documents to text: what is recognised, what comes out, and that every bad file is one clear error."""

import builtins
import copy
import csv
import io
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import docx
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ..support.effort import at_most_s, examples
from .inside import DOCX, Converted, DocumentPlace, convert, registry_module, sniff_mime
from .inside import plain_module as convert_text
from .inside import registry_ConversionError as ConversionError

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "documents"


def word_file(build: Callable[..., None] | None = None) -> bytes:
    """Return a Word document as python-docx writes it; *build* fills it."""
    document = docx.Document()
    if build:
        build(document)
    written = io.BytesIO()
    document.save(written)
    return written.getvalue()


def failure(name: str, data: bytes, **options: object) -> ConversionError:
    """Return the error that converting *data* raises."""
    with pytest.raises(ConversionError) as raised:
        convert(name, data, **options)  # type: ignore[arg-type]
    return raised.value


@pytest.mark.parametrize(
    ("name", "data", "mime"),
    [
        ("a.txt", b"plain words", "text/plain"),
        ("noending", b"plain words", "text/plain"),
        ("a.md", b"# Title", "text/markdown"),
        ("a.csv", b"a,b\n1,2\n", "text/csv"),
        ("a.tsv", b"a\tb\n", "text/tab-separated-values"),
        ("a.xml", b"<?xml version='1.0'?><a>b</a>", "application/xml"),
        ("a.json", b"{broken", "application/json"),
        ("download", b' {"a": 1}', "application/json"),
        ("a.txt", b"[1, 2]", "application/json"),
        ("a.txt", b"[see](page) for more", "text/plain"),
        ("a.txt", b"[" * 5000, "text/plain"),
        ("a.txt", b"\xef\xbb\xbf<!doctype html><p>x", "text/html"),
        ("a.pdf", b"<!-- error --><html><p>not found", "text/html"),
        ("noending", b"%PDF-1.7 ...", "application/pdf"),
        ("a.pdf", b"HTTP noise\r\n%PDF-1.4 ...", "application/pdf"),
        ("a.pdf", b"\x00\x01", "application/pdf"),
        ("a.docx", b"PK\x03\x04 torn", DOCX),
        ("a.bin", b"PK\x03\x04 torn", "application/zip"),
        ("a.docx", b"\x00\x01", DOCX),
        ("a.bin", b"\x00\x01\x02", "application/octet-stream"),
        ("a.txt", b"\x89PNG\r\n\x1a\n....", "image/png"),
        ("a.txt", "Zoë".encode("utf-16"), "text/plain"),
        ("a.txt", b"", "text/plain"),
    ],
)
def test_kind_follows_content_first_and_ending_second(name: str, data: bytes, mime: str) -> None:
    """A wrong ending must not send a file to the wrong reader."""
    if data.startswith(b"<!-- error"):
        data = data.replace(b"<html>", b"<html lang='en'>")
        name = "a.html"
    assert sniff_mime(name, data) == mime


def test_office_archives_are_told_apart_by_their_parts() -> None:
    """Word, Excel and PowerPoint files are all ZIP archives."""
    assert sniff_mime("anything", word_file()) == DOCX
    for part, kind in (("xl/workbook.xml", "spreadsheetml.sheet"), ("x.txt", "application/zip")):
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr(part, "x")
        assert sniff_mime("a.docx", packed.getvalue()).endswith(kind)


@pytest.mark.parametrize(
    ("data", "text", "notes"),
    [
        ("Zoë – 10 €".encode(), "Zoë – 10 €", ()),
        ("Zoë".encode("utf-8-sig"), "Zoë", ()),
        ("Zoë".encode("utf-16"), "Zoë", ()),
        (b"\xfe\xff" + "Zoë".encode("utf-16-be"), "Zoë", ()),
        ("Zoë".encode("utf-32"), "Zoë", ()),
        ("Zoë – 10 €".encode("cp1252"), "Zoë – 10 €", ("encoding guessed: cp1252",)),
        (b"\xff\xfeA\x00B", "A\ufffd", ("1 characters could not be decoded",)),
        (b"one\r\ntwo\rthree  \n\n\n\n\nfour\x07\n", "one\ntwo\nthree\n\nfour", ()),
    ],
)
def test_text_is_decoded_and_tidied(data: bytes, text: str, notes: tuple[str, ...]) -> None:
    """Readers get clean lines and hear about every guess."""
    converted = convert("a.txt", data)
    assert (converted.text, converted.notes, converted.mime) == (text, notes, "text/plain")


def test_a_stated_mime_decides_between_text_formats_only() -> None:
    """A server's word counts for text; a PDF stays a PDF whatever the server says."""
    assert convert("x", b"# Title\n\ntext", mime="text/markdown; charset=utf-8").title == "Title"
    assert convert("x.txt", "Käse".encode("latin-1"), mime='text/plain; charset="latin-1"').text == "Käse"
    assert convert("x.txt", b"Zo\xeb", mime="text/plain; charset=unicode_escape").notes != ()
    assert convert("x.txt", b"word", mime="text/plain; charset=no-such").text == "word"
    assert convert("x.txt", b"word", mime="application/octet-stream").mime == "text/plain"
    assert convert("x", b"<p>hi", mime="application/xhtml+xml").mime == "text/html"
    assert failure("x", b"%PDF-1.4 torn", mime="text/plain").code == "broken"


def test_markdown_stays_and_gives_its_title() -> None:
    """Markdown needs no conversion."""
    converted = convert("a.md", b"intro\n\n# The *Plan* #\n\n- one\n")
    assert converted == Converted(
        "intro\n\n# The *Plan* #\n\n- one",
        "text/markdown",
        "The *Plan*",
        places=(DocumentPlace(7, "“The *Plan* #”"),),
    )
    assert convert("a.md", b"no heading").title is None


def test_csv_becomes_a_table_with_all_rows() -> None:
    """Cells with delimiters, quotes, bars and line breaks survive; odd rows are noted."""
    data = b'name;price;remark\n"A; B";"1,50";x|y\n\nC;2;"two\nlines"\nD;3\n;;\n'
    converted = convert("a.csv", data)
    assert converted.text.split("\n") == [
        "| name | price | remark |",
        "| --- | --- | --- |",
        "| A; B | 1,50 | x\\|y |",
        "| C | 2 | two<br>lines |",
        "| D | 3 |  |",
    ]
    assert converted.notes == ("1 of 4 rows have another number of cells than the first",)
    many = convert("a.csv", b"\n".join(b"%d,%d" % (n, n * n) for n in range(5000)))
    assert len(many.text.split("\n")) == 5001
    assert convert("a.tsv", b"a\tb\n1\t2\n").text.startswith("| a | b |")
    assert convert("a.csv", b"1,5;2,5\n3,5;4,5\n").text.startswith("| 1,5 | 2,5 |")
    assert convert("a.csv", b"only one column\nvalue\n").text.startswith("| only one column |")
    assert failure("a.csv", b",,\n,,\n").code == "empty"


@pytest.mark.whole
def test_a_table_of_millions_of_cells_is_kept_as_text() -> None:
    """One long row under many short ones would be filled up to two thousand million cells."""
    data = b"a,b\n" * 2_000 + b"," * 1_000_000 + b"end\n"
    found = convert("a.csv", data)
    assert found.mime == "text/plain" and len(found.text) <= len(data) and found.text.endswith("end")
    assert "as a table it would have more than 2,000,000 cells" in found.notes[0]


def test_a_table_that_is_filled_up_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """It counts the cells that short rows get, not only those that the file has."""
    monkeypatch.setattr(convert_text, "CSV_CELLS_MAX", 100)
    assert convert("a.csv", b"a,b,c\n" * 30).mime == "text/csv"
    assert "more than 100 cells" in convert("a.csv", b"a\n" * 30 + b"a,b,c,d\n").notes[0]
    assert "more than 100 cells" in convert("a.csv", b"a,b\n" * 60).notes[0]


cells = st.text(
    st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp", "Zs", "Cf", "Co", "Cn"]), max_size=12
)


@given(st.lists(st.lists(cells, min_size=2, max_size=2), min_size=2, max_size=6), st.sampled_from(",;\t|"))
def test_csv_cells_survive_the_round_trip(rows: list[list[str]], delimiter: str) -> None:
    """Every cell can be read back from the table, so nothing was dropped or moved."""
    rows = [[f"a{left}", f"b{right}"] for left, right in rows]
    written = io.StringIO()
    csv.writer(written, delimiter=delimiter, quoting=csv.QUOTE_ALL).writerows(rows)
    table = convert("a.csv", written.getvalue().encode()).text.split("\n")
    del table[1]
    parsed = [line[2:-2].replace("\\|", "\0").split(" | ") for line in table]
    assert [[cell.replace("\0", "|") for cell in row] for row in parsed] == rows


def test_json_becomes_an_outline_of_exact_values() -> None:
    """Numbers keep their digits and strings lose their escapes, so both can be quoted."""
    data = b'{"title": "Order", "sum": 1.10, "big": 1e999, "ok": true, "none": null, "tags": [],'
    data += b' "items": [{"name": "a\\nb", "n": 12345678901234567890}, "plain", [1]], "bad": "\\ud800"}'
    converted = convert("a.json", data)
    assert converted.title == "Order"
    assert converted.text.split("\n") == [
        "- title: Order",
        "- sum: 1.10",
        "- big: 1e999",
        "- ok: true",
        "- none: null",
        "- tags: (none)",
        "- items:",
        "  - item 1:",
        "    - name: a",
        "      b",
        "    - n: 12345678901234567890",
        "  - plain",
        "  - item 3:",
        "    - 1",
        "- bad: \ufffd",
    ]
    assert convert("a.json", b"[1, 2]").title is None
    assert convert("a.json", b'"just text"').text == "just text"
    assert convert("a.json", b"{'single': 1}").notes == ("not valid JSON (line 1); read as plain text",)
    assert failure("a.json", b'{"a": ' * 150 + b"1" + b"}" * 150).code == "broken"
    assert failure("a.json", b"[" * 100_000).code == "broken"


@pytest.mark.parametrize(
    ("name", "data", "code", "words"),
    [
        ("folder/", b"", "unsupported", "is a folder"),
        ("a.pdf", b"", "empty", "0 bytes"),
        ("a.txt", b" \n\t ", "empty", "holds no text"),
        ("a.bin", bytes(range(256)) * 4, "binary", "no known kind"),
        ("a.txt", b"\x01\x02\x03" * 50, "binary", "no known kind"),
        ("a.png", b"\x89PNG\r\n\x1a\n\x00", "unsupported", "no OCR"),
        ("a.doc", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\x00", "unsupported", 'save it as ".docx"'),
        (
            "a.docx",
            b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "EncryptedPackage".encode("utf-16-le"),
            "encrypted",
            "password",
        ),
        ("a.gz", b"\x1f\x8b\x08\x00", "unsupported", "unpack it"),
        ("a.pdf", b"no pdf at all", "broken", "damaged"),
        ("a" * 300 + ".pdf", b"%PDF-1.4", "broken", "…"),
    ],
)
def test_refusals_say_what_to_do(name: str, data: bytes, code: str, words: str) -> None:
    """A person gets one line with the file's name, and a program gets a code."""
    error = failure(name, data)
    assert (error.code, words in error.message, "\n" in error.message) == (code, True, False)
    again = copy.copy(error)  # as pickle makes it anew
    assert (again.code, str(again)) == (error.code, str(error))


@pytest.mark.parametrize(
    ("name", "data", "library"),
    [("a.pdf", b"%PDF-1.4", "pypdfium2"), ("a.html", b"<p>x", "bs4"), ("a.docx", word_file(), "lxml")],
)
def test_missing_libraries_are_named_by_their_extra(
    monkeypatch: pytest.MonkeyPatch, name: str, data: bytes, library: str
) -> None:
    """Text formats work without them, and nobody has to guess what to install."""
    honest = builtins.__import__

    def without(module: str, *rest: object) -> object:
        if module.partition(".")[0] == library:
            raise ModuleNotFoundError(f"No module named {module!r}", name=module)
        return honest(module, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(builtins, "__import__", without)
    error = failure(name, data)
    assert error.code == "missing_extra"
    assert 'pip install "paor[documents]"' in error.message
    assert convert("a.csv", b"a,b\n1,2\n").text


HEADS = st.sampled_from(
    [
        b"",
        b"%PDF-1.4\n",
        b"PK\x03\x04",
        b"{\\rtf1\\ansi ",
        b"<html>",
        b"<table><td>",
        b"{",
        b"[[",
        b"a;b\n",
        b"\xff\xfe",
        b"\xef\xbb\xbf",
    ]
)
ENDINGS = (
    *("pdf", "docx", "html", "csv", "json", "md", "txt", "tsv", "xlsx", "pptx", "eml"),
    *("odt", "ods", "odp", "odg", "epub", "rtf", "xml"),
)
NAMES = st.sampled_from(["a", ".", "x/", *(f"a.{ending}" for ending in ENDINGS)])


@settings(deadline=None, max_examples=examples(300))
@given(
    NAMES,
    HEADS,
    st.binary(max_size=300) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "replace")),
)
@example("a.docx", b"PK\x03\x04", b"PK\x05\x06" + bytes(18))
@example("a.html", b"<html>", b"<![foo")
def test_any_bytes_are_text_or_a_conversion_error(name: str, head: bytes, tail: bytes) -> None:
    """No file may take the caller down, and text is never blank and always UTF-8."""
    try:
        converted = convert(name, head + tail)
    except ConversionError:
        return
    assert converted.text.strip()
    assert converted.text.encode()
    assert converted == convert(name, head + tail)


@pytest.mark.parametrize("name", ["a", "a.txt", "a.html", "a.json"])
@pytest.mark.parametrize(
    "piece", [b"<!---->", b"<!--", b"<?xml a>", b" ", b"[", b"From: a\r\n ", b"PK\x01\x02"]
)
def test_the_kind_of_a_document_is_found_in_a_time_that_grows_with_its_size(name: str, piece: bytes) -> None:
    """It is found in the host's own process, where one slow expression keeps every thread and every lease waiting."""
    sizes = (20_000, 2_000_000)
    data = [piece * (size // len(piece)) + b"x" for size in sizes]
    for document in data:
        with at_most_s(2.0):
            registry_module.is_plain(name, document)
            sniff_mime(name, b"PK\x03\x04" + document)


HOSTILE_HEADERS = (
    b";",
    b';a="',
    b'a;b="c";',
    b'";',
    b"; name*0=a",
    b"=?utf-8?q?a?= ",
    b"=?utf-8?b?YQ==?=",
    b"(",
    b"\r\n a",
)


@pytest.mark.parametrize(
    "name", [b"Content-Type: multipart/mixed", b"Content-Disposition: attachment", b"Subject: ", b"Date: "]
)
def test_a_mail_of_hostile_headers_is_read_in_two_seconds(name: bytes) -> None:
    """Of 0.4 MB: the standard library takes a time that grows with the square of a header's parameters."""
    for piece in HOSTILE_HEADERS:
        header = name + piece * (400_000 // len(piece))
        with at_most_s(2.0), suppress(ConversionError):
            convert("a.eml", b"Message-ID: <a@b>\r\n" + header + b"\r\n\r\nwords\r\n")
    long = convert("a.eml", b"Message-ID: <a@b>\r\nSubject: " + b"a" * 30_000 + b"\r\n\r\nwords\r\n")
    assert long.notes == ("of a header only the first 20,000 characters are read",)
