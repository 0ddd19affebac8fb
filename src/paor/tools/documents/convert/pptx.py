"""
Read PPTX, PPTM and PPSX: each slide with its title, texts, tables, chart data and notes.

Macros are not run, links not followed, pictures not decoded. Not covered: text in pictures and in SmartArt drawings,
animations, masters.
"""

import io
from collections.abc import Iterator
from typing import Any

from .archive import checked_parts, stated_title
from .conversion import ConversionError, Converted, cell_of, one_line, table_of, tidy

MIME = "application/vnd.openxmlformats-officedocument.presentationml.presentation"
SLIDES_MAX = 2_000
SHAPES_MAX = 200_000
DEPTH_MAX = 30
"""Groups within groups; programs make two or three levels."""
CHARS_MAX = 10_000_000
_POINTS_MAX = 1_000


def read_slides(data: bytes, charset: str = "") -> Converted:
    """Turn a slide deck into Markdown; the text is empty when no slide has any."""
    from pptx.package import Package
    from pptx.parts.presentation import PresentationPart

    checked_parts(data, "slide deck")
    deck: Any = Package.open(io.BytesIO(data)).main_document_part
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
    text = tidy("\n\n".join(parts)) if reader.has_text else ""
    return Converted(text, MIME, stated_title(data), notes=tuple(reader.notes))


class _Reader:
    """Takes slides apart, within bounds."""

    def __init__(self) -> None:
        self.notes: dict[str, None] = {}
        self.has_text = False
        self.shapes_left, self.chars_left = SHAPES_MAX, CHARS_MAX

    def slide(self, slide: Any, number: int) -> str:
        """Return one slide as Markdown."""
        title = slide.shapes.title
        heading = one_line(title.text_frame.text) if title is not None and title.has_text_frame else None
        hidden = " (hidden)" if slide._element.get("show") == "0" else ""
        blocks = [f"## Slide {number}{hidden}" + (f": {heading}" if heading else "")]
        skipped = title._element if title is not None else None
        for shape in self._shapes(slide.shapes, DEPTH_MAX):
            if shape._element is not skipped:
                blocks += self._blocks(shape)
        if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
            said = tidy(slide.notes_slide.notes_text_frame.text).strip()
            blocks += [f"Notes: {said}"] if said else []
        self.has_text = self.has_text or heading is not None or len(blocks) > 1
        text = "\n\n".join(blocks)
        self.chars_left -= len(text)
        return text

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
        if getattr(shape, "has_table", False):
            yield from _table([[cell.text for cell in row.cells] for row in shape.table.rows])
        elif getattr(shape, "has_chart", False):
            yield from self._chart(shape.chart)
        elif shape.has_text_frame:
            lines = [_item(paragraph) for paragraph in shape.text_frame.paragraphs]
            text = "\n".join(line for line in lines if line.strip())
            if text:
                yield text
        elif "/diagram" in str(shape._element.xml if shape._element.tag.endswith("graphicFrame") else ""):
            self.notes["drawings made of text (SmartArt) are left out"] = None

    def _chart(self, chart: Any) -> Iterator[str]:
        """Yield a chart's data as a table; a chart that cannot be read is left out with a note."""
        try:
            plot = chart.plots[0]
            names = [one_line(str(name)) or "" for name in list(plot.categories)[:_POINTS_MAX]]
            rows = [["", *names]]
            for series in plot.series:
                values = [
                    "" if value is None else format(value, ".15g")
                    for value in list(series.values)[:_POINTS_MAX]
                ]
                rows.append([one_line(series.name or "") or "", *values])
        except Exception:  # noqa: BLE001 - kinds of charts that the library does not know
            self.notes["a chart could not be read"] = None
            return
        yield from _table(rows)


def _item(paragraph: Any) -> str:
    text = " ".join(tidy("".join(run.text for run in paragraph.runs) or paragraph.text).split())
    return f"{'  ' * min(paragraph.level, 8)}- {text}" if text else ""


def _table(rows: list[list[str]]) -> Iterator[str]:
    """Yield rows as one Markdown table, unless they are blank."""
    cells = [[cell_of(cell) for cell in row] for row in rows]
    if any(map(any, cells)):
        yield table_of(cells, max(map(len, cells)))
