"""Documents to text: what is recognised, what comes out, and that every bad file is one clear error."""

import builtins
import csv
import io
import pickle
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import docx
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from paor.tools.convert import DOCX, ConversionError, Converted, convert, sniff_mime
from paor.tools.convert_text import text_of
from paor.tools.converted import clean, one_line, tidy

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples" / "documents"


def word_file(build: Callable[..., None] | None = None) -> bytes:
    """Return a Word document as python-docx writes it; *build* fills it."""
    document = docx.Document()
    if build:
        build(document)
    written = io.BytesIO()
    document.save(written)
    return written.getvalue()


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


def test_binary_data_is_never_taken_for_text() -> None:
    """Not even by a reader that was called for it."""
    with pytest.raises(ConversionError, match="binary data where text"):
        text_of(b"a\x00b")
    assert convert("a.txt", b"even", mime="text/plain; charset=utf-16").text == "even"


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
    assert converted == Converted("intro\n\n# The *Plan* #\n\n- one", "text/markdown", "The *Plan*")
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


def test_text_that_is_no_csv_is_kept_as_text() -> None:
    """A cell larger than the parser takes must not lose the file."""
    converted = convert("a.csv", b'"' + b"x" * 140_000 + b'",b\n')
    assert converted.mime == "text/plain"
    assert "not valid CSV" in converted.notes[0]


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


def test_title_part_of_a_word_document_may_be_missing() -> None:
    """The first heading serves as the title then."""
    good = word_file(lambda document: document.add_heading("Only heading", 1))
    written = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(good)) as source, zipfile.ZipFile(written, "w") as target:
        for name in source.namelist():
            if name != "docProps/core.xml":
                target.writestr(name, source.read(name))
    assert convert("a.docx", written.getvalue()).title == "Only heading"


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
        ("a.rtf", b"{\\rtf1 x}", "unsupported", "RTF"),
        ("a.gz", b"\x1f\x8b\x08\x00", "unsupported", "unpack it"),
        ("a.pdf", b"no pdf at all", "broken", "damaged"),
        ("a" * 300 + ".pdf", b"%PDF-1.4", "broken", "…"),
    ],
)
def test_refusals_say_what_to_do(name: str, data: bytes, code: str, words: str) -> None:
    """A person gets one line with the file's name, and a program gets a code."""
    error = failure(name, data)
    assert (error.code, words in error.message, "\n" in error.message) == (code, True, False)
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own error, to show that it pickles
    assert (copy.code, str(copy)) == (error.code, str(error))


def test_size_is_limited() -> None:
    """Both the bytes of a file and the characters of a page have a limit."""
    assert failure("a.txt", b"12345", size_max=4).code == "too_large"
    assert convert("a.txt", b"1234", size_max=4).text == "1234"


@pytest.mark.parametrize(
    ("name", "data", "library"),
    [("a.pdf", b"%PDF-1.4", "pypdf"), ("a.html", b"<p>x", "bs4"), ("a.docx", word_file(), "mammoth")],
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


def test_importing_the_converter_loads_no_library() -> None:
    """A program that never meets a PDF must not pay for one."""
    code = (
        "import sys, paor.tools.convert; print([m for m in ('pypdf', 'mammoth', 'bs4') if m in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert shown.stdout.strip() == "[]"


HEADS = st.sampled_from(
    [
        b"",
        b"%PDF-1.4\n",
        b"PK\x03\x04",
        b"<html>",
        b"<table><td>",
        b"{",
        b"[[",
        b"a;b\n",
        b"\xff\xfe",
        b"\xef\xbb\xbf",
    ]
)
NAMES = st.sampled_from(
    ["a.pdf", "a.docx", "a.html", "a.csv", "a.json", "a.md", "a.txt", "a", ".", "x/", "a.tsv"]
)


@settings(deadline=None, max_examples=300)
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


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(sorted(path.name for path in EXAMPLES.iterdir())), st.data())
def test_damaged_documents_are_text_or_a_conversion_error(name: str, data: st.DataObject) -> None:
    """Real files with bytes changed or cut off behave as well as random ones."""
    content = bytearray((EXAMPLES / name).read_bytes())
    for _ in range(data.draw(st.integers(0, 8))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(1, len(content)))
    try:
        assert convert(name, bytes(content[:cut])).text.strip()
    except ConversionError as error:
        assert error.message


@pytest.mark.parametrize(
    ("name", "title", "sentences"),
    [
        (
            "contract.pdf",
            "Services Agreement: Berth Planning System for the Port of Sandmere",
            (
                (
                    "2.1 The Supplier shall present a project plan with milestones and named staff within 10 "
                    "working days of the Effective Date."
                ),
                "D4 | Migration of the planning data of 2023 to 2026 | 28 August 2026 | 44,000",
                "The Client shall pay each undisputed invoice within 30 days of receiving it.",
                "by giving 60 days' written notice.",
                "limited to EUR 480,000 in total, which is one and a half times the fees of clause 6.1.",
            ),
        ),
        (
            "minutes.docx",
            "Minutes of the Steering Meeting No. 4",
            (
                "| 3 | Draft change note CN-02 with a new date for D4 | Omar Rees | 29 May 2026 |",
                "Objections to these minutes must reach Piet Hallam within 7 days.",
            ),
        ),
        ("prices.csv", None, ('| D-602 | Wall chart "Berths at a glance" | piece | 24.50 |',)),
        (
            "notes.html",
            "Berth Planning System: working notes",
            (
                "moved deliverable D4 from 28 August 2026 to 18 September 2026, because",
                "| Acceptance tests | Jonas Adeyemi (from 1 July 2026) | B 206 |",
            ),
        ),
    ],
)
def test_key_sentences_of_the_examples_are_found(
    name: str, title: str | None, sentences: tuple[str, ...]
) -> None:
    """What the examples are about can be quoted word for word."""
    converted = convert(name, (EXAMPLES / name).read_bytes())
    assert converted.title == title
    for sentence in sentences:
        assert sentence in converted.text
    for noise in ("Confidential\n", "Page 2", "Canteen", "tracker", "cookie"):
        assert noise not in converted.text


def test_example_documents_can_be_made_again(tmp_path: Path) -> None:
    """The committed files are what the script writes, so texts and files cannot drift apart."""
    script = ROOT / "examples" / "make_documents.py"
    for folder in ("one", "two"):
        subprocess.run([sys.executable, str(script), str(tmp_path / folder)], check=True, capture_output=True)
    for path in sorted(EXAMPLES.iterdir()):
        once, again = ((tmp_path / folder / path.name).read_bytes() for folder in ("one", "two"))
        assert once == again
        assert convert(path.name, once).text == convert(path.name, path.read_bytes()).text


def test_pages_are_found_by_offset() -> None:
    """A quoted sentence can be given its page."""
    contract = convert("contract.pdf", (EXAMPLES / "contract.pdf").read_bytes())
    assert contract.pages == len(contract.page_starts) == 4
    assert [contract.page_at(start) for start in contract.page_starts] == [1, 2, 3, 4]
    assert contract.page_at(contract.text.index("30 days of receiving")) == 3
    assert convert("a.txt", b"word").page_at(0) is None


@given(st.text(max_size=60))
def test_cleaning_twice_is_cleaning_once(text: str) -> None:
    """Clean text holds no control characters and does not change again."""
    assert clean(clean(text)) == clean(text)
    assert tidy(tidy(text)) == tidy(text)
    assert one_line(text) is None or "\n" not in str(one_line(text))
    assert clean(text).encode("utf-8", "strict").decode() == clean(text)
