"""
Make the example documents in ``examples/documents``; the same libraries give the same bytes.

For developers only: needs fpdf2 and python-docx (``pip install "paor[dev]"``). Run it from anywhere:

    python examples/make_documents.py [FOLDER]
"""

import io
import sys
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import document_notes as notes
import document_texts as texts
import docx
from docx.document import Document
from docx.shared import Cm, Pt
from fpdf import FPDF
from fpdf.fonts import FontFace

WRITTEN = datetime(2026, 1, 22, 9, 0, tzinfo=UTC)
INK = (28, 38, 56)
GREY = (110, 116, 128)
RULE = (176, 184, 196)
SHADE = (238, 241, 246)
INDENT_MM = 12
LINE_MM = 5.4


class ContractPdf(FPDF):
    """A4 pages with a running head and page numbers."""

    def header(self) -> None:
        """Print the contract's number on all pages but the first."""
        if self.page_no() > 1:
            self.set_font("Helvetica", size=8)
            self.set_text_color(GREY)
            self.set_xy(self.l_margin, 12)
            self.cell(0, 4, f"{texts.CONTRACT_TITLE} {texts.CONTRACT_NUMBER}")
            self.set_draw_color(RULE)
            self.line(self.l_margin, 17.5, self.w - self.r_margin, 17.5)
            self.set_xy(self.l_margin, 24)

    def footer(self) -> None:
        """Print the page number."""
        self.set_y(-16)
        self.set_font("Helvetica", size=8)
        self.set_text_color(GREY)
        self.cell(0, 4, f"Page {self.page_no()} of {{nb}}", align="L")
        self.set_x(self.l_margin)
        self.cell(0, 4, "Confidential", align="R")

    def body(self, *, bold: bool = False, size: float = 10.5) -> None:
        """Choose the type of running text."""
        self.set_font("Times", "B" if bold else "", size)
        self.set_text_color(INK)


def contract() -> bytes:
    """
    Lay out the contract.

    Returns:
        The PDF file.
    """
    pdf = ContractPdf(format="A4")
    pdf.set_creation_date(WRITTEN)
    pdf.set_producer("paor examples")
    pdf.set_title(f"{texts.CONTRACT_TITLE}: {texts.CONTRACT_SUBTITLE}")
    pdf.set_author("Tallow Lane Systems Ltd")
    pdf.set_lang("en")
    pdf.set_margins(27, 24, 27)
    pdf.c_margin = 0
    pdf.set_auto_page_break(True, 26)
    pdf.add_page()
    _title(pdf)
    _parties(pdf)
    for number, (heading, paragraphs) in enumerate(texts.CLAUSES, start=1):
        _clause(pdf, number, heading, paragraphs)
    _signatures(pdf)
    return bytes(pdf.output())


def _title(pdf: ContractPdf) -> None:
    pdf.set_y(30)
    pdf.body(bold=True, size=24)
    pdf.cell(0, 11, texts.CONTRACT_TITLE, new_x="LMARGIN", new_y="NEXT")
    pdf.body(size=14)
    pdf.cell(0, 8, texts.CONTRACT_SUBTITLE, new_x="LMARGIN", new_y="NEXT")
    pdf.set_font("Helvetica", size=9)
    pdf.set_text_color(GREY)
    pdf.cell(0, 6, f"Contract number {texts.CONTRACT_NUMBER}", new_x="LMARGIN", new_y="NEXT")
    pdf.ln(3)
    pdf.set_draw_color(INK)
    pdf.set_line_width(0.5)
    pdf.line(pdf.l_margin, pdf.get_y(), pdf.w - pdf.r_margin, pdf.get_y())
    pdf.set_line_width(0.2)
    pdf.ln(6)


def _parties(pdf: ContractPdf) -> None:
    pdf.body()
    pdf.cell(0, LINE_MM, "This Agreement is made between", new_x="LMARGIN", new_y="NEXT")
    pdf.ln(2.5)
    for (role, name, details), end in zip(texts.PARTIES, (", and", "."), strict=True):
        pdf.body(bold=True)
        pdf.cell(0, LINE_MM, name, new_x="LMARGIN", new_y="NEXT")
        pdf.body()
        pdf.multi_cell(0, LINE_MM, f"{details} (the {role}){end}", align="L", new_x="LMARGIN", new_y="NEXT")
        pdf.ln(2.5)
    pdf.ln(1.5)
    pdf.multi_cell(0, LINE_MM, texts.RECITAL, align="J", new_x="LMARGIN", new_y="NEXT")


def _clause(pdf: ContractPdf, number: int, heading: str, paragraphs: tuple[str, ...]) -> None:
    if pdf.will_page_break(32):
        pdf.add_page()
    pdf.ln(5)
    pdf.body(bold=True, size=12.5)
    pdf.cell(INDENT_MM, 7, f"{number}")
    pdf.cell(0, 7, heading, new_x="LMARGIN", new_y="NEXT")
    pdf.ln(0.5)
    for index, paragraph in enumerate(paragraphs, start=1):
        pdf.body()
        height = pdf.multi_cell(
            pdf.epw - INDENT_MM, LINE_MM, paragraph, align="J", dry_run=True, output="HEIGHT"
        )
        if pdf.will_page_break(min(float(str(height)), 3 * LINE_MM)):
            pdf.add_page()
            pdf.body()
        pdf.cell(INDENT_MM, LINE_MM, f"{number}.{index}")
        pdf.multi_cell(0, LINE_MM, paragraph, align="J", new_x="LMARGIN", new_y="NEXT")
        pdf.ln(1.8)
        if paragraph.endswith("stated:"):
            _deliverables(pdf)


def _deliverables(pdf: ContractPdf) -> None:
    pdf.ln(1)
    pdf.body(size=10)
    pdf.set_draw_color(RULE)
    widths = (14, 78, 38, 26)
    head = FontFace(emphasis="BOLD", fill_color=SHADE, color=INK)
    with pdf.table(
        col_widths=widths,
        width=sum(widths),
        align="RIGHT",
        text_align=("LEFT", "LEFT", "LEFT", "RIGHT"),
        line_height=6.4,
        padding=(0.4, 2),
        borders_layout="HORIZONTAL_LINES",
        headings_style=head,
    ) as table:
        for cells in texts.DELIVERABLES:
            table.row(cells)
    pdf.ln(4)


def _signatures(pdf: ContractPdf) -> None:
    if pdf.will_page_break(52):
        pdf.add_page()
    pdf.ln(12)
    top, half = pdf.get_y(), pdf.epw / 2
    pdf.set_draw_color(INK)
    for column, (party, place, name, role) in enumerate(texts.SIGNATURES):
        left = pdf.l_margin + column * half
        pdf.body(bold=True)
        pdf.set_xy(left, top)
        pdf.cell(half, LINE_MM, party)
        pdf.body()
        pdf.set_xy(left, top + 6)
        pdf.cell(half, LINE_MM, place)
        pdf.line(left, top + 25, left + half - 12, top + 25)
        pdf.set_xy(left, top + 27)
        pdf.cell(half, LINE_MM, name)
        pdf.set_xy(left, top + 32.4)
        pdf.cell(half, LINE_MM, role)


def minutes() -> bytes:
    """
    Lay out the minutes.

    Returns:
        The DOCX file.
    """
    document = docx.Document()
    style = document.styles["Normal"]
    style.font.name, style.font.size = "Calibri", Pt(11)
    for section in document.sections:
        section.left_margin = section.right_margin = Cm(2.5)
    core = document.core_properties
    core.title, core.author = notes.MINUTES_TITLE, "Piet Hallam"
    core.created = core.modified = WRITTEN.replace(tzinfo=None, month=5, day=15)
    document.add_heading(notes.MINUTES_TITLE, level=0)
    _table(document, notes.MINUTES_FACTS, (3.8, 12.2), bold_column=True)
    for number, (heading, paragraphs) in enumerate(notes.MINUTES, start=1):
        document.add_heading(f"{number}. {heading}", level=1)
        for paragraph in paragraphs:
            document.add_paragraph(paragraph)
    document.add_heading("Action items", level=1)
    _table(document, notes.ACTIONS, (1.2, 8.2, 3.4, 3.2), bold_column=False)
    document.add_paragraph()
    document.add_paragraph(notes.MINUTES_END)
    written = io.BytesIO()
    document.save(written)
    return _same_bytes(written.getvalue())


def _table(
    document: Document, rows: tuple[tuple[str, ...], ...], widths: tuple[float, ...], *, bold_column: bool
) -> None:
    table = document.add_table(rows=0, cols=len(widths), style="Table Grid")
    table.autofit = False
    for number, row in enumerate(rows):
        for column, (cell, text) in enumerate(zip(table.add_row().cells, row, strict=True)):
            cell.width = Cm(widths[column])
            run = cell.paragraphs[0].add_run(text)
            run.bold = column == 0 if bold_column else number == 0


def _same_bytes(archive: bytes) -> bytes:
    """Pack a ZIP archive anew without the time of day in it."""
    packed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive)) as source, zipfile.ZipFile(packed, "w") as target:
        for name in source.namelist():
            part = zipfile.ZipInfo(name, (2026, 5, 15, 9, 0, 0))
            part.compress_type = zipfile.ZIP_DEFLATED
            target.writestr(part, source.read(name))
    return packed.getvalue()


def documents() -> dict[str, bytes]:
    """
    Make all example documents.

    Returns:
        File names and contents.
    """
    return {
        "contract.pdf": contract(),
        "minutes.docx": minutes(),
        "prices.csv": notes.PRICES.encode(),
        "notes.html": notes.NOTES_HTML.encode(),
    }


def main() -> None:
    """Write the documents into the folder given as the first argument, by default beside this script."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "documents"
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in documents().items():
        (folder / name).write_bytes(content)
        print(f"{folder / name}: {len(content):,} bytes")


if __name__ == "__main__":
    main()
