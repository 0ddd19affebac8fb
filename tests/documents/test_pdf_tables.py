"""Tables of PDF pages: cells stay in their columns, whatever is empty or wrapped, and what is no table stays as it was."""

from __future__ import annotations

import time

import pytest
from fpdf import FPDF
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from paor.documents import read

from ..support.effort import examples
from .inside import PageCell, convert, pdf_tables

ROWS = (
    ("Milestone", "Owner", "Due", "Amount"),
    ("Design review with the customer and both of its subsidiaries in Leeds and York", "Ann", "3 March 2027", "EUR 1,000"),
    ("Delivery", "", "", "EUR 2,500"),
    ("Acceptance", "Bob", "1 May 2027", ""),
)  # fmt: skip
BEFORE = "The schedule of the contract, with the milestones and the payments that fall due between the two parties."
AFTER = "Payments are due within thirty days of each milestone. The supplier shall tell the customer of any delay."


def paper(rows: tuple[tuple[str, ...], ...], borders: str = "ALL") -> str:
    """Return the text of a file that has a table between two paragraphs."""
    page = FPDF()
    page.add_page()
    page.set_font("helvetica", size=10)
    page.multi_cell(0, 6, BEFORE, new_x="LMARGIN", new_y="NEXT")
    page.ln(4)
    with page.table(borders_layout=borders) as table:
        for row in rows:
            drawn = table.row()
            for cell in row:
                drawn.cell(cell)
    page.ln(4)
    page.multi_cell(0, 6, AFTER)
    return convert("a.pdf", bytes(page.output())).text


@pytest.mark.parametrize("borders", ["ALL", "NONE"])
def test_empty_and_wrapped_cells_stay_in_their_columns(borders: str) -> None:
    """With or without lines around them; the text around the table is no part of it."""
    head, *rest = [f"| {' | '.join(row)} |" for row in ROWS]
    table = "\n".join([head, "| --- | --- | --- | --- |", *rest])
    assert paper(ROWS, borders) == f"{BEFORE}\n\n{table}\n\n{AFTER}"


def test_a_table_goes_on_over_the_page_and_keeps_a_head_that_each_page_repeats() -> None:
    """A head is no running head, although it is at the top of each page."""
    rows = tuple(
        (f"Task {number}", "Ann" if number % 3 else "", f"{number % 28 + 1} May 2027") for number in range(90)
    )
    text = paper((("Task", "Owner", "Due"), *rows))
    assert text.count("| Task | Owner | Due |") == 3
    for row in rows:
        assert f"| {' | '.join(row)} |" in text


@settings(max_examples=examples(30), deadline=None)
@given(st.data())
def test_any_table_of_cells_comes_back(data: st.DataObject) -> None:
    """As files have them: height by height through all columns, or cell by cell, each with its lines one after the other."""
    width, by_cell = data.draw(st.integers(3, 6)), data.draw(st.booleans())
    counts = st.tuples(
        st.integers(1, 3 if by_cell else 1), st.integers(1, 3), *[st.integers(0, 3)] * (width - 2)
    )
    grid = [(1,) * width, *data.draw(st.lists(counts, min_size=3, max_size=9))]
    assume(2 * sum(map(bool, (count for row in grid for count in row))) >= len(grid) * width)
    placed: list[PageCell] = []
    expected = []
    y = 800.0
    for number, row in enumerate(grid):
        cells = [
            [
                PageCell(f"r{number}c{column}l{at}", 90 * column, 90 * column + 40, y - 12 * at, 10)
                for at in range(count)
            ]
            for column, count in enumerate(row)
        ]
        expected.append([" ".join(line.text for line in cell) for cell in cells])
        found = [line for cell in cells for line in cell]
        placed += found if by_cell else sorted(found, key=lambda line: -line.y)
        y -= 12 * max(row) + 6
    lines: list[list[PageCell]] = []
    for cell in placed:  # what stands on one height, one after the other, is a line
        if lines and lines[-1][-1].y == cell.y:
            lines[-1].append(cell)
        else:
            lines.append([cell])
    assume(sum(len(line) > 1 for line in lines) > 0)
    assert [row.cells for _, _, rows in pdf_tables(lines) for row in rows] == expected


TEXT = "words of a column that are set as text"
PROSE = [
    [
        PageCell(TEXT[: 30 + (at + left) % 9], left, left + 170 + at % 9, 700 - 12 * at, 10)
        for left in (30, 230, 430)
    ]
    for at in range(30)
]
LIST = [
    [PageCell(f"{at}.", 30, 40, 700 - 12 * at, 10), PageCell("an item", 60, 99 + at, 700 - 12 * at, 10)]
    for at in range(9)
]
PAIR = [
    [PageCell("Name", 30, 60, 700 - 12 * at, 10), PageCell("Ann", 90, 110, 700 - 12 * at, 10)]
    for at in range(9)
]
HEAD = [[PageCell("20", 30, 40, 800, 10), PageCell("Manual", 200, 230, 800, 10), PageCell("Page", 400, 420, 800, 10)],
        [PageCell("V", 30, 40, 780, 10), PageCell("303", 400, 420, 780, 10)]]  # fmt: skip


def test_the_numbered_lines_of_a_form_are_rows_of_their_own() -> None:
    """They stand as close as the lines of one cell; a number at their begin, and often the same at their end, tells them apart."""
    labels = ["8", "9a", "9b", "10"]
    texts = ["Wages and tips", "Taxable interest", "Tax-exempt interest", "Dividends"]
    parts = ["d", "", "", ""]  # numbers in the first column begin a row in any case
    columns = [(parts, 20.0), (labels, 40.0), (texts, 60.0), (labels, 400.0)]
    lines = [
        [
            PageCell(words[at], x, x + 5.0 * len(words[at]), 700 - 11.9 * at, 9.0)
            for words, x in columns
            if words[at]
        ]
        for at in range(4)
    ]
    ((begin, end, rows),) = pdf_tables(lines)
    assert (begin, end) == (0, 4)
    assert [tuple(row.cells) for row in rows] == list(zip(parts, labels, texts, labels, strict=True))


@pytest.mark.parametrize("lines", [PROSE, LIST, PAIR, HEAD], ids=["prose", "list", "pairs", "head"])
def test_what_is_no_table_is_none(lines: list[list[PageCell]]) -> None:
    """Text in two columns, a numbered list, pairs that are lines already, a page's header with a line below it."""
    assert list(pdf_tables(lines)) == []


@pytest.mark.parametrize(
    "lines",
    [
        PAIR * 900,
        [[PageCell(f"{at}.", 30, 40, 700 - 12 * at, 10), PageCell("x", 60, 70, 700 - 12 * at, 10)] for at in range(8_000)],
        [[PageCell("x", 9 * at, 9 * at + 5, 700 - row, 10) for at in range(900)] for row in range(30)],
        [[PageCell("x", 9 * at + row, 9 * at + row + 2, 700 - row, 10) for at in range(39)] for row in range(300)],
        [
            [PageCell("x", 30 + 60 * (at % 2), 40 + 60 * (at % 2), 700 - at / 1e6, 10)]
            + [PageCell("y", 200, 210, 700 - at / 1e6, 10)] * (at % 2)
            for at in range(8_000)
        ],
    ],
    ids=["pairs", "numbers", "wide", "shifting", "level"],
)  # fmt: skip
def test_no_page_takes_long(lines: list[list[PageCell]]) -> None:
    """However many lines and cells: each line is looked at a few times, and a table has at most 40 columns."""
    begun = time.process_time()
    list(pdf_tables(lines))
    assert time.process_time() - begun < 5


@pytest.mark.parametrize(
    ("rows", "shown"),
    [
        (
            [("No", "Task", "Due"), *((str(n), f"Do the {n} thing", f"May {n}") for n in range(1, 5))],
            ["| No | Task | Due |", "| 1 | Do the 1 thing | May 1 |", "| 4 | Do the 4 thing | May 4 |"],
        ),
        (
            [("", "2026", "2027"), ("Sales", "1", "2"), ("", "3", "4"), ("Cost", "5", "6")],
            ["|  | 2026 | 2027 |", "| Sales | 1 | 2 |", "|  | 3 | 4 |", "| Cost | 5 | 6 |"],
        ),
    ],
    ids=["alone", "empty cells"],
)
def test_a_table_alone_on_a_page_keeps_its_rows(rows: list[tuple[str, ...]], shown: list[str]) -> None:
    """PDFium tells no ends of lines there, or some between the cells of one."""
    paper = FPDF()
    paper.add_page()
    paper.set_font("helvetica", size=12)
    with paper.table() as table:
        for cells in rows:
            table.row(cells)
    text = read("a.pdf", bytes(paper.output())).text
    assert [line for line in shown if line not in text.splitlines()] == [], text
