"""Where a quote was: its page, clause or cell, in the texts that tools read, in what the offline model writes, and for a host."""

from __future__ import annotations

import io
import re

import docx
import pytest
from fpdf import FPDF
from hypothesis import given, settings
from hypothesis import strategies as st
from openpyxl import Workbook

from paor import Engine
from paor.documents import read

from ..support.effort import examples
from .everything import MAKERS
from .inside import Converted, DocumentPlace

JOB = "Summarise the obligations and list every deadline"


def pdf(*pages: str) -> bytes:
    """Return a file of some pages."""
    paper = FPDF()
    paper.set_font("helvetica", size=11)
    for page in pages:
        paper.add_page()
        paper.multi_cell(0, 6, page)
    return bytes(paper.output())


def sheet() -> bytes:
    """Return a workbook whose table begins at B2, with a row left empty."""
    book = Workbook()
    rows = (
        ("Task", "Owner", "Due date"),
        ("Plans", "Ann", "2027-01-15"),
        (),
        ("Delivery", "Bob", "2027-03-03"),
    )
    for number, row in enumerate(rows, 2):
        for column, text in enumerate(row, 2):
            book.active.cell(number, column, text)
    book.active.title = "Milestones"
    file = io.BytesIO()
    book.save(file)
    return file.getvalue()


def contract() -> bytes:
    """Return a Word document with a heading and clauses."""
    made = docx.Document()
    made.add_heading("Terms", 1)
    made.add_paragraph("4.1 The keys are two.")
    made.add_paragraph("4.2 Both parties agree. The Tenant must give notice three months before the end.")
    made.add_paragraph("(a) The Tenant shall keep the keys.")
    file = io.BytesIO()
    made.save(file)
    return file.getvalue()


PAPER = pdf(
    "1. Scope\n\nThe Supplier shall deliver 40 machines by 3 March 2027.\n\nNothing else is said of this here.",
    "2. Payment\n\nThe Customer shall pay each invoice within 30 days of receipt.",
)
DUE = b"Task,Due date\nPlans,2027-01-15\n\nDelivery,2027-03-03\n"
LIST = b"1. Members shall pay.\n\n2. Guests must leave.\n"
QUOTES = {
    "a.pdf-page 2": (PAPER, "The Customer shall pay each invoice within 30 days of receipt.", "page 2, 2. Payment"),
    "a.pdf-page 1": (PAPER, "The Supplier shall deliver 40 machines by 3 March 2027.", "page 1, 1. Scope"),
    "a.xlsx-B5": (sheet(), "Task: Delivery; Owner: Bob; Due date: 2027-03-03", "Milestones!B5"),
    "a.csv-row 4": (DUE, "Task: Delivery; Due date: 2027-03-03", "row 4"),
    "a.docx-clause 4.2": (contract(), "The Tenant must give notice three months before the end.", "Terms, clause 4.2"),
    "a.docx-clause 4.2 (a)": (contract(), "The Tenant shall keep the keys.", "Terms, clause 4.2 (a)"),
    "a.md-item 2": (b"# Rules\n\n" + LIST, "Guests must leave.", "Rules, item 2"),
    "a.md-clause 2": (LIST, "Guests must leave.", "clause 2"),
}  # fmt: skip


@pytest.mark.parametrize("case", QUOTES)
def test_the_offline_report_names_where_each_quote_was(case: str) -> None:
    """Through a whole run: the file is read, its extract keeps the places, and the answer cites them."""
    (data, words, place), name = QUOTES[case], case.partition("-")[0]
    with Engine(model="offline", journal=":memory:") as engine:
        result = engine.run(JOB, documents=[(name, data)])
        texts = [text for document in result.documents if isinstance(text := document.read(), str)]
    assert any(f"- {words} *({name}, {place})*" in text for text in texts), texts


def test_the_places_of_a_table_are_those_of_its_own_program() -> None:
    """Also where rows are empty, repeated or left out, and in every format that has sheets."""
    table = read("a.xlsx", sheet())
    assert [place.name for place in table.places] == [f"Milestones!B{row}" for row in (2, 3, 5)]
    assert table.text[table.places[2].at :].startswith("| Delivery |")
    assert "| [B5] Delivery | Bob |" in table.marked
    calc = read("a.ods", MAKERS["ods"](set()))
    assert calc.places
    for place in calc.places:
        assert calc.text[place.at :].startswith("| ")
        assert calc.marked.count(f"| [{place.name.partition('!')[2]}] ") >= 1
    assert [place.name for place in read("a.csv", DUE).places] == ["row 1", "row 2", "row 4"]


WORDS = st.text(alphabet="ab.) \n", max_size=12)


@settings(max_examples=examples(300))
@given(st.lists(WORDS, min_size=1, max_size=6))
def test_marks_of_pages_take_nothing_and_cut_no_sentence(pages: list[str]) -> None:
    """Without its marks the text is as it was; each is where a line or a sentence begins, none before its page does."""
    text = "".join(pages)
    starts = [sum(map(len, pages[:number])) for number in range(len(pages))]
    found = Converted(
        text,
        "application/pdf",
        places=tuple(DocumentPlace(at, f"page {n}") for n, at in enumerate(starts, 1)),
    )
    mark = re.compile(r"\[page (\d+)\][ \n]")
    assert mark.sub("", found.marked) == text
    for hit in mark.finditer(found.marked):
        before = mark.sub("", found.marked[: hit.start()])
        assert len(before) >= starts[int(hit[1]) - 1]
        assert re.search(r"(\A|\n|[.!?:;][\"')]* )\Z", before) or len(before) == len(text)
    assert [int(hit[1]) for hit in mark.finditer(found.marked)] == [*range(2, len(pages) + 1)]
