"""A report as a Word document, from the tokens of its Markdown: python-docx writes it, and its bytes depend on nothing else."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from typing import Any

import docx
from docx.opc.constants import RELATIONSHIP_TYPE
from docx.oxml import OxmlElement
from docx.oxml.ns import qn
from docx.shared import Cm, Pt, RGBColor
from markdown_it.token import Token

_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The first day that a ZIP archive can name; every part of a report has it."""

_INK, _LINE, _HEAD_FILL, _CODE_FILL = "17324D", "B9C6D2", "E9EEF3", "F3F5F6"
_FONT, _CODE_FONT = "Calibri", "Consolas"
_LISTS_DEEP = 3
_AFTER_SHADE = (
    *("w:tabs", "w:spacing", "w:ind", "w:jc", "w:outlineLvl", "w:rPr", "w:sectPr"),
    *("w:noWrap", "w:vAlign"),
)
"""Properties that come after the shading of a paragraph or a cell: Word insists on its order."""
_COLUMNS_MAX = 63
"""Word's own bound."""


def document_of(tokens: Sequence[Token], title: str, language: str) -> bytes:
    """
    Return a Word document.

    Args:
        tokens: Of `reports.parsed`.
        title: For its properties.
        language: Of its text, such as ``de``; empty where it is not known.
    """
    writer = _Writer(title, language)
    writer.write(tokens)
    written = io.BytesIO()
    writer.document.save(written)
    return _repack(written.getvalue())


def _repack(data: bytes) -> bytes:
    """Return the archive without times."""
    target = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(data)) as source,
        zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as packed,
    ):
        for name in source.namelist():
            part = zipfile.ZipInfo(name, _EPOCH)
            part.compress_type, part.create_system, part.external_attr = zipfile.ZIP_DEFLATED, 3, 0o600 << 16
            packed.writestr(part, source.read(name))
    return target.getvalue()


class _Writer:
    """Writes tokens one after the other."""

    def __init__(self, title: str, language: str) -> None:
        self.document = docx.Document()
        self._set_style(language)
        facts = self.document.core_properties
        facts.title, facts.author, facts.comments, facts.keywords = title[:250], "paor", "", ""
        facts.last_modified_by, facts.language, facts.revision = "", language, 1
        for element in list(facts._element):
            if element.tag.endswith(("}created", "}modified")):
                facts._element.remove(element)
        package = self.document.part.package
        for key, relation in list(package.rels.items()):
            if relation.reltype.endswith("/thumbnail"):
                del package.rels[key]
        self._lists: list[tuple[str, int | None]] = []
        self._quotes = 0
        self._item_begun = False

    def _set_style(self, language: str) -> None:
        styles = self.document.styles
        normal = styles["Normal"]
        normal.font.name, normal.font.size = _FONT, Pt(11)
        normal.paragraph_format.space_after, normal.paragraph_format.line_spacing = Pt(8), 1.15
        for element in list(styles.element.iter(qn("w:lang"))):
            if language:
                element.set(qn("w:val"), language)
            else:
                element.getparent().remove(element)
        sizes = {"Title": 24, "Heading 1": 18, "Heading 2": 14, "Heading 3": 12, "Heading 4": 11}
        for name, size in sizes.items():
            font = styles[name].font
            font.name, font.size, font.bold = _FONT, Pt(size), True
            font.color.rgb = RGBColor.from_string(_INK)
            fonts = styles[name].element.rPr.rFonts
            for kind in ("asciiTheme", "hAnsiTheme", "eastAsiaTheme", "cstheme"):
                fonts.attrib.pop(qn(f"w:{kind}"), None)
        for section in self.document.sections:
            section.page_width, section.page_height = Cm(21), Cm(29.7)
            section.left_margin = section.right_margin = section.top_margin = section.bottom_margin = Cm(2.5)

    def write(self, tokens: Sequence[Token]) -> None:
        rows: list[list[tuple[Token, str]]] = []
        align = style = ""
        is_begun = False
        for token in tokens:
            match token.type:
                case "heading_open":
                    level = int(token.tag[1])
                    style = "Title" if level == 1 and not is_begun else f"Heading {min(level, 4)}"
                case "heading_close":
                    style = ""
                case "inline" if rows:
                    rows[-1].append((token, align))
                case "inline":
                    paragraph = self.document.add_paragraph(style=style) if style else self._paragraph()
                    self._text(paragraph, token)
                    is_begun = True
                case "tr_open":
                    rows.append([])
                case "th_open" | "td_open":
                    align = str(token.attrGet("style") or "").removeprefix("text-align:")
                case "table_close":
                    self._table([row[:_COLUMNS_MAX] for row in rows])
                    rows = []
                case "fence" | "code_block":
                    self._code(token.content)
                case "hr":
                    _add_borders(self.document.add_paragraph(), "bottom")
                case "bullet_list_open":
                    self._lists.append(("List Bullet", None))
                case "ordered_list_open":
                    self._lists.append(("List Number", self._numbering(int(token.attrGet("start") or 1))))
                case "bullet_list_close" | "ordered_list_close":
                    self._lists.pop()
                case "list_item_open":
                    self._item_begun = False
                case "blockquote_open" | "blockquote_close":
                    self._quotes += token.nesting

    def _paragraph(self) -> Any:
        """Add a paragraph in the style of where it stands."""
        if self._lists:
            style, number = self._lists[-1]
            depth = min(len(self._lists), _LISTS_DEEP)
            paragraph = self.document.add_paragraph()
            if self._item_begun:  # a further paragraph of the same item
                paragraph.paragraph_format.left_indent = Cm(0.63 * depth)
            else:
                paragraph.style = self.document.styles[style if depth == 1 else f"{style} {depth}"]
                paragraph.paragraph_format.space_after = Pt(3)
                if number is not None:
                    properties = paragraph._p.get_or_add_pPr().get_or_add_numPr()
                    properties.get_or_add_ilvl().val = 0
                    properties.get_or_add_numId().val = number
                    paragraph.paragraph_format.left_indent = Cm(0.63 * depth)
                    paragraph.paragraph_format.first_line_indent = Cm(-0.63)
            self._item_begun = True
            return paragraph
        if self._quotes > 0:
            paragraph = self.document.add_paragraph(style="Quote")
            paragraph.paragraph_format.left_indent = Cm(0.8 * min(self._quotes, 4))
            _add_borders(paragraph, "left")
            return paragraph
        return self.document.add_paragraph()

    def _numbering(self, start: int) -> int:
        """Return a numbering of its own for one list, so that it does not go on from the list before."""
        numbering = self.document.part.numbering_part.element
        depth = min(len(self._lists) + 1, _LISTS_DEEP)
        style = self.document.styles["List Number" if depth == 1 else f"List Number {depth}"].element
        own = style.pPr.numPr.numId.val
        abstract = next(item.abstractNumId.val for item in numbering.num_lst if item.numId == own)
        number = numbering.add_num(abstract)
        number.add_lvlOverride(ilvl=0).add_startOverride(min(max(start, 0), 32_000))
        return int(number.numId)

    def _code(self, text: str) -> None:
        paragraph = self.document.add_paragraph()
        paragraph.paragraph_format.line_spacing = 1.0
        _filled(paragraph._p.get_or_add_pPr(), _CODE_FILL)
        run = paragraph.add_run(text.rstrip("\n"))
        run.font.name, run.font.size = _CODE_FONT, Pt(9.5)

    def _table(self, rows: list[list[tuple[Token, str]]]) -> None:
        """Add a table of texts and how they are aligned; its first row is the head, and repeats on every page."""
        width = max(map(len, rows), default=0)
        if not width:
            return
        table = self.document.add_table(len(rows), width, style="Table Grid")
        _add_line(table)
        for number, (row, written) in enumerate(zip(rows, table.rows, strict=True)):
            for (token, side), cell in zip(row, written.cells, strict=False):
                paragraph = cell.paragraphs[0]
                paragraph.paragraph_format.space_before = paragraph.paragraph_format.space_after = Pt(2)
                paragraph.alignment = {"center": 1, "right": 2}.get(side)
                self._text(paragraph, token, bold=number == 0)
                if number == 0:
                    _filled(cell._tc.get_or_add_tcPr(), _HEAD_FILL)
        table.rows[0]._tr.get_or_add_trPr().append(OxmlElement("w:tblHeader"))
        self.document.add_paragraph().paragraph_format.space_after = Pt(4)

    def _text(self, paragraph: Any, inline: Token, *, bold: bool = False) -> None:
        """Write the words of one block into *paragraph*."""
        marks = {"strong": int(bold), "em": 0, "s": 0}
        link: Any = None
        for token in inline.children or ():
            if token.tag in marks and token.nesting:
                marks[token.tag] += token.nesting
            elif token.type == "link_open":
                link = _add_link(paragraph, str(token.attrGet("href")))
            elif token.type == "link_close":
                link = None
            elif token.type == "hardbreak":
                paragraph.add_run().add_break()
            else:
                text = " " if token.type == "softbreak" else token.content
                self._run(paragraph, text, marks, link, code=token.type == "code_inline")

    def _run(self, paragraph: Any, text: str, marks: dict[str, int], link: Any, *, code: bool) -> None:
        run = paragraph.add_run(text)
        run.bold, run.italic, run.font.strike = (marks[tag] > 0 or None for tag in ("strong", "em", "s"))
        if code:
            run.font.name, run.font.size = _CODE_FONT, Pt(10)
        if link is not None:
            run.font.color.rgb, run.font.underline = RGBColor.from_string("1A5A96"), True
            link.append(run._r)


def _element(tag: str, **values: str) -> Any:
    element = OxmlElement(tag)
    for name, value in values.items():
        element.set(qn(f"w:{name}"), value)
    return element


def _add_link(paragraph: Any, target: str) -> Any:
    """Return a new link element at the end of *paragraph*."""
    link = OxmlElement("w:hyperlink")
    relation = paragraph.part.relate_to(target[:2000], RELATIONSHIP_TYPE.HYPERLINK, is_external=True)
    link.set(qn("r:id"), relation)
    paragraph._p.append(link)
    return link


def _filled(properties: Any, colour: str) -> None:
    shade = _element("w:shd", val="clear", color="auto", fill=colour)
    properties.insert_element_before(shade, *_AFTER_SHADE)


def _add_borders(paragraph: Any, side: str) -> None:
    size = "12" if side == "left" else "6"
    borders = OxmlElement("w:pBdr")
    borders.append(_element(f"w:{side}", val="single", sz=size, space="8", color=_LINE))
    paragraph._p.get_or_add_pPr().insert_element_before(borders, "w:shd", *_AFTER_SHADE)


def _add_line(table: Any) -> None:
    """Give a table thin grey lines instead of black ones."""
    borders = OxmlElement("w:tblBorders")
    for side in ("top", "left", "bottom", "right", "insideH", "insideV"):
        borders.append(_element(f"w:{side}", val="single", sz="4", space="0", color=_LINE))
    table._tbl.tblPr.insert_element_before(borders, "w:shd", "w:tblLayout", "w:tblCellMar", "w:tblLook")
