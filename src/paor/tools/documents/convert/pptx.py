"""
Read PPTX, PPTM and PPSX: each slide with its title, texts, tables, chart data, drawings made of text, comments and notes; texts of masters once, behind them.

Macros are not run, links not followed. Not covered: animations; pictures, films, embedded files and the layout of formulas are counted.
"""

import io
from collections import Counter
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

from . import noted
from .archive import chart_text, checked_parts, drawing_words, stated_title, usual_form
from .conversion import (
    RAISED,
    ConversionError,
    Converted,
    cell_of,
    numeral,
    one_line,
    repeated,
    table_of,
    tidy,
    whole,
)

MIME = "application/vnd.openxmlformats-officedocument.presentationml.presentation"
SLIDES_MAX = 2_000
SHAPES_MAX = 200_000
DEPTH_MAX = 30
"""Groups within groups; programs make two or three levels."""
CHARS_MAX = 10_000_000
_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_MC = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
_M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
_P = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
_R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_NUMBERINGS = {"alphaLc": "a", "alphaUc": "A", "romanLc": "i", "romanUc": "I"}
_COUNTED = {
    "blip": noted.PICTURES,
    "videoFile": noted.MEDIA,
    "audioFile": noted.MEDIA,
    "wavAudioFile": noted.MEDIA,
    "oleObj": noted.FILES,
    "oMath": noted.FORMULAS,
}


def read_slides(data: bytes, charset: str = "") -> Converted:
    """Turn a slide deck into Markdown; the text is empty when no slide has any."""
    from pptx.package import Package
    from pptx.parts.presentation import PresentationPart

    checked_parts(data, "slide deck")
    deck: Any = Package.open(io.BytesIO(usual_form(data))).main_document_part
    if not isinstance(deck, PresentationPart):
        raise ConversionError(
            "broken", "does not say which slides it has, so it is no slide deck; save it again"
        )
    reader = _Reader()
    parts = []
    slides = list(deck.presentation.slides)
    for number, slide in enumerate(slides[:SLIDES_MAX], 1):
        parts.append(reader.slide(slide, number))
        if reader.chars_left < 0 or reader.shapes_left < 0:
            reader.notes["the deck is larger than what is read of one; the rest is left out"] = None
            break
    if len(slides) > SLIDES_MAX:
        reader.notes[f"{len(slides) - SLIDES_MAX} more slides are left out"] = None
    reader.seen[noted.HEADS] += len(reader.designed)
    text = tidy("\n\n".join([*parts, *reader.designed])) if reader.has_text else ""
    return Converted(text, MIME, stated_title(data), notes=(*reader.notes, *noted.counted(reader.seen)))


class _Reader:
    """Takes slides apart, within bounds."""

    def __init__(self) -> None:
        self.notes: dict[str, None] = {}
        self.seen: Counter[str] = Counter()
        self.has_text = False
        self.designed: dict[str, None] = {}
        self._designs: set[Any] = set()
        self.shapes_left, self.chars_left = SHAPES_MAX, CHARS_MAX

    def slide(self, slide: Any, number: int) -> str:
        """Return one slide as Markdown."""
        self._everywhere(slide.part)
        for alternative in list(slide._element.iter(f"{_MC}AlternateContent")):
            if alternative.getparent().tag in (f"{_P}spTree", f"{_P}grpSp"):
                for shape in [*next(iter(alternative), ())]:
                    alternative.addprevious(shape)
        title = slide.shapes.title
        heading = one_line(title.text_frame.text) if title is not None and title.has_text_frame else None
        hidden = " (hidden)" if slide._element.get("show") == "0" else ""
        self.seen[noted.HIDDEN] += bool(hidden)
        blocks = [f"## Slide {number}{hidden}" + (f": {heading}" if heading else "")]
        skipped = title._element if title is not None else None
        for shape in self._shapes(slide.shapes, DEPTH_MAX):
            for block in self._blocks(shape) if shape._element is not skipped and self.chars_left > 0 else ():
                self.chars_left -= len(block)
                blocks.append(block)
        if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
            said = tidy(slide.notes_slide.notes_text_frame.text).strip()
            blocks += [f"Notes: {said}"] if said else []
        blocks += self._comments(slide.part)
        self.has_text = self.has_text or heading is not None or len(blocks) > 1
        return "\n\n".join(blocks)

    def _everywhere(self, part: Any) -> None:
        """Take the texts that a slide has from its layout and master, each once, but for those that the slide replaces."""
        for kind in ("slideLayout", "slideMaster"):
            part = next(_related(part, kind), None)
            if part is None or part in self._designs:
                return
            self._designs.add(part)
            for shape in part._element.iter(f"{_P}sp"):
                words = " ".join(" ".join(map(_words, shape.iter(f"{_A}p"))).split())
                if words and shape.find(f"{_P}nvSpPr/{_P}nvPr/{_P}ph") is None:
                    self.chars_left -= len(words)
                    self.designed[f"Slide master: {words}"] = None

    def _shapes(self, shapes: Any, depth: int) -> Iterator[Any]:
        for shape in shapes:
            self.shapes_left -= 1
            if self.shapes_left < 0:
                return
            inner = getattr(shape, "shapes", None)
            if inner is None:
                yield shape
            elif depth:
                yield from self._shapes(inner, depth - 1)

    def _blocks(self, shape: Any) -> Iterator[str]:
        if getattr(shape, "has_table", False) and shape.table._tbl is not None:
            yield from _table(self._cells(shape.table))
        elif shape.has_text_frame:
            lines = list(_items(shape.text_frame.paragraphs))
            text = "\n".join(line for line in lines if line.strip())
            if text:
                yield text
        yield from self._drawn(shape)

    def _cells(self, table: Any) -> list[list[str]]:
        """Return the cells of a table; one that another covers gets the text of that one where it is short."""
        rows: list[list[str]] = []
        for row in table._tbl.tr_lst:
            texts: list[str] = []
            for cell in row.tc_lst:
                if cell.hMerge:
                    texts.append(repeated(texts[-1]) if texts else "")
                elif cell.vMerge:
                    texts.append(
                        repeated(rows[-1][len(texts)]) if rows and len(rows[-1]) > len(texts) else ""
                    )
                else:
                    self.seen[noted.MERGED] += cell.gridSpan > 1 or cell.rowSpan > 1
                    texts.append(
                        "\n".join(_words(paragraph) for paragraph in cell.txBody.p_lst)
                        if cell.txBody is not None
                        else ""
                    )
            rows.append(texts)
        return rows

    def _drawn(self, shape: Any) -> Iterator[str]:
        """Yield the words of a drawing and those for a picture; what has none is counted."""
        element = shape._element
        for part in element.iter():
            name = part.tag.rpartition("}")[2] if isinstance(part.tag, str) else ""
            if name == "relIds" and (key := part.get(f"{_R}dm")) in shape.part.rels:  # SmartArt
                self.seen[noted.DRAWINGS] += 1
                yield "\n".join(f"- {words}" for words in drawing_words(shape.part.related_part(key).blob))
            elif name == "chart":
                self.seen[noted.CHARTS] += 1
                if (key := part.get(f"{_R}id")) in shape.part.rels:
                    source = shape.part.related_part(key).blob
                    self.chars_left -= len(source)
                    yield chart_text(source)
            elif what := _COUNTED.get(name):
                self.seen[what] += 1
        words = one_line(next((found.get("descr", "") for found in element.iter(f"{_P}cNvPr")), ""))
        if words and element.tag.endswith(("}pic", "}graphicFrame")):
            yield f"[picture: {words}]"

    def _comments(self, part: Any) -> Iterator[str]:
        """Yield what was remarked on a slide."""
        for comments in _related(part, "comments"):
            for item in ElementTree.fromstring(comments.blob).iter():
                if item.tag.endswith("}cm"):
                    texts = (found for found in item.iter() if found.tag.endswith(("}text", "}t")))
                    self.seen[noted.COMMENTS] += 1
                    yield f"Comment: {' '.join(' '.join(found.text or '' for found in texts).split())}"


def _related(part: Any, kind: str) -> Iterator[Any]:
    """Yield the parts of a kind that a part of the deck refers to."""
    for relation in part.rels.values():
        if not relation.is_external and relation.reltype.rpartition("/")[2] == kind:
            yield relation.target_part


def _words(paragraph: Any) -> str:
    """Return the text of a paragraph: fields and formulas included, struck-out words marked."""
    parts: list[str] = []
    for part in paragraph.iter(f"{_A}t", f"{_A}br", f"{_M}t"):
        look = part.getparent().find(f"{_A}rPr")
        text = "\n" if part.tag == f"{_A}br" else part.text or ""
        if look is not None and text.strip():
            raised = text.isdigit() and look.get("baseline", "").startswith(("1", "2", "3", "4"))
            text = text.translate(RAISED) if raised else text
            struck = look.get("strike", "noStrike") != "noStrike"
            text = f"[struck out: {text}]" if struck else text
        parts.append(text)
    return "".join(parts)


def _items(paragraphs: Any) -> Iterator[str]:
    """Yield paragraphs as items, with their numbers where the paragraph itself asks for them."""
    counts, kinds = [0] * 9, [("", "")] * 9
    for paragraph in paragraphs:
        level = min(paragraph.level, 8)
        text = " ".join(tidy(_words(paragraph._p)).split())
        numbered = paragraph._p.find(f"{_A}pPr/{_A}buAutoNum")
        counts[level + 1 :] = [0] * (8 - level)
        if not text:
            continue
        if numbered is None:
            counts[level] = 0
            yield f"{'  ' * level}- {text}"
            continue
        kind, start = asked = numbered.get("type", ""), numbered.get("startAt", "")
        goes_on = counts[level] and kinds[level] == asked
        counts[level], kinds[level] = counts[level] + 1 if goes_on else whole(start, 1), asked
        form = next((form for name, form in _NUMBERINGS.items() if kind.startswith(name)), "1")
        before, after = (
            "(" * kind.endswith("ParenBoth"),
            ")" if "Paren" in kind else "." if "Period" in kind else "",
        )
        yield f"{'  ' * level}{before}{numeral(counts[level], form)}{after} {text}"


def _table(rows: list[list[str]]) -> Iterator[str]:
    """Yield rows as one Markdown table, unless they are blank."""
    cells = [[cell_of(cell) for cell in row] for row in rows]
    if any(map(any, cells)):
        yield table_of(cells, max(map(len, cells)))
