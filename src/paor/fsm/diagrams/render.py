"""
The machine as a picture: Mermaid, DOT and SVG, all derived from the table.

One graph (`diagram_graph`), drawn in three forms; over it what one run did, what runs have covered, or how two differ.
Nothing here reads a clock, a file or a random number: same input, same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from ..machine.host_rows import NO_HOST, Host
from ..machine.table import CONCLUDED, ROWS, STOPS, Row, Stop
from .captions import caption
from .graph import Covered, Overlay, Parted, RunWalk, Step, graph_of, plain, status_of, walk_of
from .mermaid import dot, mermaid
from .svg import svg

Format = Literal["mermaid", "dot", "svg"]
_FORMS = {"mermaid": mermaid, "dot": dot, "svg": svg}


def diagram(
    form: Format, overlay: Overlay | None = None, *, rows: Sequence[Row] = ROWS, host: Host = NO_HOST
) -> str:
    """
    Return the machine as text in *form*, with *overlay* laid over it.

    Args:
        form: ``mermaid`` (a ``stateDiagram-v2``), ``dot`` (Graphviz) or ``svg`` (a finished picture).
        overlay: Of one run, of a coverage, or of two runs; steps that are not in *rows* are drawn too, since they
            happened.
        rows: The table; the standard machine's by default. A coverage brings the table that it was measured on.
        host: What the machine has from its host, whose phases and rows stand out.

    Returns:
        The source. Without an overlay the guards of every row are shown, in the order in which they are tried.
    """
    assert form in _FORMS, form
    return _FORMS[form](graph_of(rows, overlay, host))


def table_markdown(rows: Sequence[Row] = ROWS) -> str:
    """Return the table as Markdown, in the order in which its rows are tried."""
    lines = ["| from | trigger | to | guards | meaning |", "|---|---|---|---|---|"]
    for row in rows:
        guards = ", ".join(f"`{_cell(guard)}`" for guard in row.guards)
        cells = (_cell(row.source), f"`{_cell(row.trigger)}`", _cell(row.dest), guards, _cell(row.meaning))
        lines.append("|" + "|".join(f" {cell} " if cell else " " for cell in cells) + "|")
    return "\n".join(lines) + "\n"


def stops_markdown(stops: Sequence[Stop] = STOPS, rows: Sequence[Row] = ROWS) -> str:
    """Return the table of stops as Markdown, numbered in the order in which they are read."""
    lines = ["| | read in | when | reason | leads to | meaning |", "|---|---|---|---|---|---|"]
    for number, stop in enumerate(stops, 1):
        when = ", ".join(f"`{_cell(name)}`" for name in stop.when) or "no other stop holds"
        reason = f"`{_cell(stop.reason)}`" if stop.reason != CONCLUDED else "as recorded"
        where, leads = _cell(", ".join(stop.phases)), _led_to(stop, rows)
        cells = (str(number), where, when, reason, leads, _cell(stop.meaning))
        lines.append("|" + "|".join(f" {cell} " for cell in cells) + "|")
    return "\n".join(lines) + "\n"


def _led_to(stop: Stop, rows: Sequence[Row]) -> str:
    """Return the transition that a stop makes a run take, with the guard that it makes hold."""
    if not stop.guard:
        return "the last `fail`"
    trigger = next(row.trigger for row in rows if row.guards[:1] == (stop.guard,))
    return f"`{_cell(trigger)}`, by `{_cell(stop.guard)}`"


def stops_mermaid(stops: Sequence[Stop] = STOPS) -> str:
    """Return the order in which stops are read as a Mermaid flowchart: one chain for each guard that they make hold."""
    lines = ["flowchart LR"]
    for guard in dict.fromkeys(stop.guard for stop in stops):
        title = guard or "no other row fits"
        lines.append(f'  subgraph {guard or "last"}["{title}"]')
        chain = [(number, stop) for number, stop in enumerate(stops, 1) if stop.guard == guard]
        for number, stop in chain:
            lines.append(f'    s{number}["{number} {plain(stop.reason) or "as recorded"}"]')
        if len(chain) > 1:
            lines.append("    " + " --> ".join(f"s{number}" for number, _ in chain))
        lines.append("  end")
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return plain(text).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("`", "'")


__all__ = [
    "Covered",
    "Format",
    "Overlay",
    "Parted",
    "RunWalk",
    "Step",
    "caption",
    "diagram",
    "graph_of",
    "plain",
    "status_of",
    "stops_markdown",
    "stops_mermaid",
    "table_markdown",
    "walk_of",
]
