"""
The machine as a picture: Mermaid, DOT and SVG, all derived from the table.

One graph (`diagram_graph`), drawn in three forms; over it what one run did, what runs have covered, or how two differ.
Nothing here reads a clock, a file or a random number: same input, same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, assert_never

from .diagram_graph import Covered, Overlay, Parted, Step, Walk, graph_of, plain, status_of, walk_of
from .diagram_words import caption
from .table import ROWS, Row

Format = Literal["mermaid", "dot", "svg"]


def diagram(form: Format, overlay: Overlay | None = None, *, rows: Sequence[Row] = ROWS) -> str:
    """
    Return the machine as text in *form*, with *overlay* laid over it.

    Args:
        form: ``mermaid`` (a ``stateDiagram-v2``), ``dot`` (Graphviz) or ``svg`` (a finished picture).
        overlay: Of one run, of a coverage, or of two runs; steps that are not in *rows* are drawn too, since they
            happened.
        rows: The table; the engine's own by default. A coverage brings the table that it was measured on.

    Returns:
        The source. Without an overlay the guards of every row are shown, in the order in which they are tried.
    """
    graph = graph_of(rows, overlay)
    match form:
        case "mermaid":
            from .diagram_mermaid import mermaid

            return mermaid(graph)
        case "dot":
            from .diagram_dot import dot

            return dot(graph)
        case "svg":
            from .diagram_svg import svg

            return svg(graph)
    assert_never(form)


def table_markdown(rows: Sequence[Row] = ROWS) -> str:
    """Return the table as Markdown, in the order in which its rows are tried."""
    lines = ["| from | trigger | to | guards | meaning |", "|---|---|---|---|---|"]
    for row in rows:
        guards = ", ".join(f"`{_cell(guard)}`" for guard in row.guards)
        cells = (_cell(row.source), f"`{_cell(row.trigger)}`", _cell(row.dest), guards, _cell(row.meaning))
        lines.append("|" + "|".join(f" {cell} " if cell else " " for cell in cells) + "|")
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    """Return *text* for one cell of a Markdown table."""
    return plain(text).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("`", "'")


__all__ = [
    "Covered",
    "Format",
    "Overlay",
    "Parted",
    "Step",
    "Walk",
    "caption",
    "diagram",
    "graph_of",
    "plain",
    "status_of",
    "table_markdown",
    "walk_of",
]
