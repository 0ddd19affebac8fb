"""
The SVG form: the machine's drawing with its overlay, a title above it, and below it the legend and a panel.

One self-contained file without scripts or references, for a light and a dark page: it paints its own card, and its colours follow
``prefers-color-scheme``. Plain CSS classes only, since not every renderer knows variables; fonts that every system has one of.
"""

from __future__ import annotations

from string import Template

from ..explain.coverage import Coverage
from .captions import asks_for, heading, legend_of
from .drawing import arrow, label_text, node, px, safe, shape, words
from .geometry import BOLD, Layout, Route, cut, width_of
from .graph import Edge, Graph, Parted, RunWalk, status_of
from .layout import layout_of
from .panel import MARGIN, chip, panel_of

PALETTE = {
    "paper": ("#ffffff", "#15181e"),
    "card": ("#e4e7ec", "#2a2f3a"),
    "ink": ("#1f2430", "#e7eaf0"),
    "quiet": ("#5d6b82", "#98a2b3"),
    "faded": ("#d0d5dd", "#363d4a"),
    "box": ("#f5f6f9", "#1e232c"),
    "rim": ("#98a2b3", "#5b6577"),
    "seen": ("#e8edff", "#232f55"),
    "flow": ("#344054", "#cbd2de"),
    "walked": ("#3b5bdb", "#8da2fb"),
    "fail": ("#b42318", "#f97066"),
    "left": ("#c2410c", "#fb923c"),
    "right": ("#7048e8", "#b197fc"),
    "own": ("#0b6e66", "#4fd1c1"),
    "ownbox": ("#e3f4f1", "#14332f"),
    "running": ("#3b5bdb", "#4263eb"),
    "waiting": ("#f5a524", "#f5a524"),
    "done": ("#27803a", "#27803a"),
    "failed": ("#c92a2a", "#e03131"),
}
"""Each colour on a light and on a dark page."""
_SHAPE = (
    '.paor text{font-family:ui-sans-serif,system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,'
    "sans-serif;font-size:12px}"
    ".paor .title{font-size:18px;font-weight:600}.paor .head2{font-size:14px;font-weight:600}"
    ".paor .pill{font-size:13px;font-weight:600;text-anchor:middle}"
    ".paor .label{font-size:11.5px}.paor .used,.paor .strong{font-weight:600}"
    ".paor .label tspan{font-size:10.5px;font-weight:600}.paor .below{font-size:10.5px;text-anchor:middle}"
    ".paor .small{font-size:11px}.paor .tiny{font-size:10px}.paor .end{text-anchor:end}.paor .mid{text-anchor:middle}"
    ".paor .line{fill:none;stroke-width:1.5}.paor .flow .line{stroke-width:2}"
    ".paor .walked .line,.paor .both .line,.paor .left .line,.paor .right .line{stroke-width:2.4}"
    ".paor .never .line{stroke-dasharray:5 4}.paor .right .line{stroke-dasharray:8 4}"
    ".paor .rim{stroke-width:1.4}.paor .inner{fill:none;stroke-width:1.1}"
    ".paor .rule{fill:none;stroke-width:1}.paor .chip{stroke-width:1}.paor .lack .chip{stroke-dasharray:3 2}"
)
_LINES = {
    **{look: look for look in ("flow", "fail", "own", "walked", "faded", "left", "right")},
    "skip": "quiet",
    "back": "walked",
    "loop": "quiet",
    "never": "rim",
    "both": "flow",
}
"""Colour of an edge's line by its kind or look."""
_LABELS = {"back": "walked", "loop": "quiet", "fail": "fail", "faded": "quiet", "never": "quiet"}
_STATUSES = {"running": "#ffffff", "waiting": "#2b1a00", "done": "#ffffff", "failed": "#ffffff"}
_COLOURS = (
    ".paor .card{fill:$paper;stroke:$card}.paor text{fill:$ink}.paor .sub{fill:$quiet}",
    ".paor .rim{fill:$box;stroke:$rim}.paor .inner{stroke:$rim}.paor .dot{fill:$flow}",
    ".paor .node.own .rim{fill:$ownbox;stroke:$own}",
    ".paor .seen .rim,.paor .own.seen .rim{fill:$seen;stroke:$walked}.paor .seen .inner{stroke:$walked}",
    ".paor .unseen .rim,.paor .own.unseen .rim,.paor .unseen .inner{stroke:$faded}.paor .unseen text{fill:$quiet}",
    *(
        f".paor .{kind} .line{{stroke:${line}}}.paor .{kind} .head{{fill:${line}}}"
        for kind, line in _LINES.items()
    ),
    *(f".paor .{kind} .label{{fill:${text}}}" for kind, text in _LABELS.items()),
    ".paor .edge .unused{fill:$quiet}.paor .times,.paor .place{fill:$walked}.paor .yours,.paor .edge .yours{fill:$own}",
    ".paor text .left,.paor text.left{fill:$left}.paor text .right,.paor text.right{fill:$right}",
    ".paor .rule{stroke:$card}.paor .got .chip{fill:$ownbox;stroke:$ownbox}.paor .got text{fill:$own}",
    ".paor .lack .chip{fill:none;stroke:$fail}.paor .lack text,.paor .lacks{fill:$fail}",
    *(
        f".paor .{status} .rim,.paor .own.{status} .rim{{fill:${status};stroke:${status}}}"
        f".paor .{status} .inner{{stroke:{on}}}.paor .{status} text{{fill:{on}}}"
        for status, on in _STATUSES.items()
    ),
)
"""Colours by their names in `PALETTE`."""


_LIGHT, _DARK = (
    Template("".join(_COLOURS)).substitute({name: colours[scheme] for name, colours in PALETTE.items()})
    for scheme in (0, 1)
)
CSS = f"{_SHAPE}{_LIGHT}@media(prefers-color-scheme:dark){{{_DARK}}}"
SCALE = 1.25
"""How much larger the drawing is here than on a page that plays it."""
_HEADER, _LEGEND, _LEAST = 82.0, 52.0, 893.5
"""Heights of what is above the drawing and right below it, and the picture's least width."""
_KINDS = {
    "flow": "next phase",
    "skip": "shortcut",
    "back": "back",
    "loop": "stays",
    "fail": "fails",
    "own": "your own",
}


def svg(graph: Graph) -> str:
    """Return *graph* as one SVG file."""
    layout = layout_of(graph)
    width = max(_LEAST, layout.width * SCALE + 2 * MARGIN)
    low = _HEADER + layout.height * SCALE + _LEGEND
    panel = panel_of(graph, width, low)
    size = f'viewBox="0 0 {px(width)} {px(panel.low)}" width="{px(width)}" height="{px(panel.low)}"'
    left, told = (width - layout.width * SCALE) / 2, [f"Starts in {graph.initial}"]
    for edge in graph.edges:
        told.append(f"{edge.source} to {edge.dest}: {', '.join(label.walked_text for label in edge.labels)}")
    role = 'style="max-width:100%" role="img" aria-labelledby="paor-title paor-desc"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="paor" {size} {role}>',
        f'<title id="paor-title">{safe(heading(graph).line)}</title>',
        f'<desc id="paor-desc">{safe(". ".join([*told, *legend_of(graph.overlay)]))}.</desc>',
        f"<style>{CSS}</style>",
        shape("rect", "card", x=0.5, y=0.5, width=width - 1, height=panel.low - 1, rx=12),
        *_header(graph, width),
        f'<g transform="translate({px(left)} {px(_HEADER)}) scale({SCALE})">',
        *(_route(route) for route in sorted(layout.routes, key=lambda route: route.edge.walked)),
        *(_node(graph, phase, layout) for phase in graph.phases),
        "</g>",
        *_legend(graph, layout, low - 22),
        *panel.parts,
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _route(route: Route) -> str:
    """Return one edge with its words; dashes begin where it shares its line with others, else they would fill each other's gaps."""
    edge = route.edge
    rest = "unused" if edge.walked else "yours" if edge.look == "own" else ""
    labels = [label_text(mark, f"label {'used' if mark.label.count else rest}") for mark in route.marks]
    parts = [f"<title>{_hover(edge)}</title>", arrow(route.points, backwards=not route.trunk), *labels]
    return f'<g class="edge {edge.look or route.kind}">{"".join(parts)}</g>'


def _node(graph: Graph, phase: str, layout: Layout) -> str:
    """Return one phase; below its name, of two runs, where they part and which of them is here, of an own one what it asks for."""
    overlay, below = graph.overlay, ""
    if isinstance(overlay, Parted):
        told = [f"≠ row {overlay.seq}"] * (overlay.seq is not None and overlay.source == phase)
        told += ["A"] * (overlay.left.state == phase) + ["B"] * (overlay.right.state == phase)
        below = " ".join(told)
    elif phase in graph.own:
        below = asks_for(graph, phase)
    look = graph.look_of(phase)
    return node(graph, phase, layout.boxes[phase], [look] * bool(look), below=below)


def _hover(edge: Edge) -> str:
    """Return an edge's hover text: its rows with all their guards."""
    lines = [f"{edge.source} → {edge.dest}"]
    for label in edge.labels:
        for row in label.rows:
            guards = f" [{', '.join(row.guards)}]" if row.guards else ""
            lines.append(f"{label.trigger}{guards}: {row.meaning}")
        lines += [] if label.rows else [f"{label.trigger}: not in this table"]
        lines += [label.walked_text] if edge.look not in ("", "own") else []
    return "\n".join(safe(line) for line in lines)


def _header(graph: Graph, width: float) -> list[str]:
    """Return title, subtitle and, in a pill, what it came to."""
    room = width - 2 * MARGIN
    title, sub, look, told = heading(graph)
    pill = []
    if told:
        text = cut(told, room / 2, 13)
        wide = width_of(text, 13 * BOLD) + 26
        room -= wide + 24
        x = width - MARGIN - wide
        rim = shape("rect", "rim", x=x, y=22, width=wide, height=28, rx=14)
        pill = [f'<g class="{look}">{rim}{words("pill", x + wide / 2, 40.5, text)}</g>']
    titled = words("title", MARGIN, 42, cut(title, room, 18 * BOLD))
    return [titled, words("sub", MARGIN, 63, cut(sub, room)), *pill]


def _legend(graph: Graph, layout: Layout, y: float) -> list[str]:
    """Return the line below the drawing that says what the signs mean."""
    x, parts = MARGIN, list[str]()
    for sign, wide, text in _signs(graph, layout):
        parts.append(f'<g transform="translate({px(x)} {px(y)})">{sign}')
        parts.append(words("sub", wide + 8, 4, text) + "</g>")
        x += wide + 8 + width_of(text) + 16
    return parts


def _signs(graph: Graph, layout: Layout) -> list[tuple[str, float, str]]:
    """Return the legend's signs with their width and meaning."""
    overlay = graph.overlay

    def line(look: str, meaning: str) -> tuple[str, float, str]:
        return f'<g class="{look}">{arrow(((0.0, 0.0), (30.0, 0.0)))}</g>', 30.0, meaning

    def text(look: str, shown: str, meaning: str) -> tuple[str, float, str]:
        return words(f"{look} strong", 0, 4, shown), width_of(shown, 12 * BOLD), meaning

    def box(look: str, meaning: str, inner: str = "") -> tuple[str, float, str]:
        rim = shape("rect", "rim", x=0, y=-8, width=26, height=16, rx=5)
        return f'<g class="node {look}">{rim}{inner}</g>', 26.0, meaning

    own = [box("own", "your own")] if overlay is not None and graph.own else []
    if isinstance(overlay, RunWalk):
        signs = [text("place", "#1", "order of first use"), text("times", "×3", "times taken")]
        signs += [line("walked", "taken"), line("faded", "not taken")]
        return [*signs, box(status_of(overlay), "where the run is"), *own]
    if isinstance(overlay, Coverage):
        signs = [text("times", "×3", "times taken"), line("walked", "taken"), line("never", "never taken")]
        signs += [(chip("got", 0, 0, "true"), 32, "the guard was true there")]
        return [*signs, (chip("lack", 0, 0, "false"), 32, "it was never false"), *own]
    if isinstance(overlay, Parted):
        signs = [line("both", "both"), line("left", "only A"), line("right", "only B")]
        signs += [
            line("faded", "neither"),
            text("left", "A×2", "times in A"),
            text("right", "B×3", "times in B"),
        ]
        return [*signs, text("times", "×3", "the same in both"), *own]
    kinds = {*(route.kind for route in layout.routes), *(["own"] * graph.has_own)}
    start = (shape("circle", "dot", cx=4, cy=0, r=4), 8.0, "start")
    end = box("end", "end", shape("rect", "inner", x=3, y=-5, width=20, height=10, rx=3))
    return [start, *(line(kind, meaning) for kind, meaning in _KINDS.items() if kind in kinds), end]
