"""
The SVG form: draws a `diagram_layout.Layout`.

One self-contained file without scripts or references, for a light and a dark page: it paints its own card, and
its colours follow ``prefers-color-scheme``. Plain CSS classes only, since not every renderer knows variables.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from .diagram import Edge, Graph, Walk, caption, plain, status_of
from .diagram_layout import (
    BADGE,
    BOLD,
    Kind,
    Layout,
    Mark,
    Point,
    Rect,
    Route,
    badge_width,
    count_text,
    cut,
    layout_of,
    width_of,
)

_MARGIN = 28.0
_TITLE = "An agent run as a finite state machine"
_ROLE = 'style="max-width:100%;height:auto" role="img" aria-labelledby="paor-title paor-desc"'
_HEAD = 9.0
_RADIUS = 14.0
_MEANINGS: dict[Kind, str] = {
    "flow": "next phase",
    "skip": "shortcut",
    "back": "back for another step or round",
    "loop": "stays: asks again, waits, retries",
    "fail": "fails",
}

_PALETTE = {
    "paper": ("#ffffff", "#15181e"),
    "card": ("#e4e7ec", "#2a2f3a"),
    "ink": ("#1f2430", "#e7eaf0"),
    "quiet": ("#667085", "#98a2b3"),
    "faded": ("#d0d5dd", "#363d4a"),
    "dim": ("#858fa2", "#6f798c"),
    "box": ("#f5f6f9", "#1e232c"),
    "rim": ("#98a2b3", "#5b6577"),
    "seen": ("#e8edff", "#232f55"),
    "flow": ("#344054", "#cbd2de"),
    "skip": ("#5d6b82", "#98a4b8"),
    "back": ("#3b5bdb", "#8da2fb"),
    "loop": ("#8592a6", "#7b879b"),
    "fail": ("#c4453c", "#f0837b"),
    "walked": ("#3b5bdb", "#8da2fb"),
    "running": ("#3b5bdb", "#4c6ef5"),
    "waiting": ("#f5a524", "#f5a524"),
    "done": ("#2b8a3e", "#2b8a3e"),
    "failed": ("#c92a2a", "#e03131"),
    "on": ("#ffffff", "#ffffff"),
    "onwaiting": ("#2b1a00", "#2b1a00"),
}
"""Each colour on a light and on a dark page."""
_SHAPE = (
    '.paor text{font-family:ui-sans-serif,system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,'
    "sans-serif;font-size:12px}"
    ".paor .title{font-size:18px;font-weight:600}"
    ".paor .name{font-size:15px;font-weight:600;text-anchor:middle}"
    ".paor .pill{font-size:13px;font-weight:600;text-anchor:middle}"
    ".paor .place{font-size:10px;font-weight:600;text-anchor:middle}"
    ".paor .mid{text-anchor:middle}"
    ".paor .line{fill:none;stroke-width:1.6}.paor .flow .line{stroke-width:2.2}"
    ".paor .edge text{paint-order:stroke;stroke-width:4px;stroke-linejoin:round}"
    ".paor .walked .line{stroke-width:2.6}.paor .walked .used{font-weight:600}.paor .edge .times{font-weight:400}"
    ".paor .faded .line{stroke-width:1.5}.paor .edge.fail .line{stroke-width:2}.paor .walked.fail .line{stroke-width:3}"
    ".paor .rim{stroke-width:1.5}.paor .inner{fill:none;stroke-width:1.2}"
    ".paor .life{stroke-dasharray:2 5}"
)

_MARKS = {"back": "back", "loop": "quiet", "fail": "fail", "walked": "ink", "faded": "dim"}


def _colours(scheme: int) -> str:
    """Return the colours of one scheme, 0 for light and 1 for dark, as CSS rules."""
    of = {name: colours[scheme] for name, colours in _PALETTE.items()}
    rules = [
        f".paor .card{{fill:{of['paper']};stroke:{of['card']}}}",
        f".paor text,.paor .between{{fill:{of['ink']}}}.paor .sub{{fill:{of['quiet']}}}",
        f".paor .edge text{{stroke:{of['paper']}}}.paor .life{{stroke:{of['faded']}}}",
        f".paor .rim{{fill:{of['box']};stroke:{of['rim']}}}.paor .inner{{stroke:{of['rim']}}}",
        f".paor .seen .rim{{fill:{of['seen']};stroke:{of['walked']}}}.paor .seen .inner{{stroke:{of['walked']}}}",
        f".paor .unseen .rim,.paor .unseen .inner{{stroke:{of['faded']}}}.paor .unseen text{{fill:{of['dim']}}}",
        f".paor .dot,.paor .start .head{{fill:{of['flow']}}}.paor .start .line{{stroke:{of['flow']}}}",
    ]
    for kind in (*_MEANINGS, "walked", "faded"):
        rules.append(f".paor .{kind} .line{{stroke:{of[kind]}}}.paor .{kind} .head{{fill:{of[kind]}}}")
    for kind, text in _MARKS.items():
        rules.append(f".paor .{kind} .mark,.paor .{kind} .between{{fill:{of[text]}}}")
    rules.append(
        f".paor .edge .unused{{fill:{of['dim']}}}.paor .edge .times,.paor .times{{fill:{of['walked']}}}"
    )
    rules.append(
        f".paor .badge{{fill:{of['walked']}}}.paor .edge .place,.paor .place{{fill:{of['paper']};stroke:none}}"
    )
    for status in ("running", "waiting", "done", "failed"):
        on = of["onwaiting"] if status == "waiting" else of["on"]
        rules.append(
            f".paor .{status} .rim{{fill:{of[status]};stroke:{of[status]}}}.paor .{status} .inner{{stroke:{on}}}"
        )
        rules.append(f".paor .{status} text{{fill:{on}}}")
    return "".join(rules)


_CSS = f"{_SHAPE}{_colours(0)}@media(prefers-color-scheme:dark){{{_colours(1)}}}"


def svg(graph: Graph) -> str:
    """Return *graph* as one SVG file."""
    layout, walk = layout_of(graph), graph.walk
    wide, high = _n(layout.width), _n(layout.height)
    size = f'viewBox="0 0 {wide} {high}" width="{wide}" height="{high}"'
    heading = caption(walk) if walk else _TITLE
    faded_first = sorted(layout.routes, key=lambda route: route.edge.walked)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="paor" {size} {_ROLE}>',
        f'<title id="paor-title">{_text(heading)}</title>',
        f'<desc id="paor-desc">{_text(_description(graph))}</desc>',
        f"<style>{_CSS}</style>",
        f'<rect class="card" x="0.5" y="0.5" width="{_n(layout.width - 1)}" height="{_n(layout.height - 1)}" rx="12"/>',
        *_header(graph, layout),
        *_lifelines(layout),
        *_start(layout.start),
        *(_route(route, walked=walk is not None) for route in faded_first),
        *(_box(graph, phase, box) for phase, box in layout.boxes.items()),
        *_legend(walk, layout),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


# -- text ----------------------------------------------------------------------------------------------------------


def _text(text: str) -> str:
    """Return *text* for an element or an attribute."""
    return escape(plain(text))


def _n(number: float) -> str:
    """Return a coordinate with at most one decimal."""
    return f"{number:.1f}".removesuffix(".0")


def _description(graph: Graph) -> str:
    """Return the picture in words, for those who cannot see it."""
    parts = [f"Starts in {graph.initial}"]
    for edge in graph.edges:
        parts.append(f"{edge.source} to {edge.dest}: {', '.join(label.walked_text for label in edge.labels)}")
    return ". ".join(parts) + "."


def _hover(edge: Edge) -> str:
    """Return an edge's hover text: its rows with all their guards."""
    lines = [f"{edge.source} → {edge.dest}"]
    for label in edge.labels:
        for row in label.rows:
            guards = f" [{', '.join(row.guards)}]" if row.guards else ""
            lines.append(f"{label.trigger}{guards}: {row.meaning}")
        lines += [] if label.rows else [f"{label.trigger}: not in this table"]
        lines += (
            [f"{label.trigger}: taken ×{label.count}, #{label.first} by first use"] if label.first else []
        )
    return "\n".join(_text(line) for line in lines)


# -- header and legend ---------------------------------------------------------------------------------------------


def _header(graph: Graph, layout: Layout) -> list[str]:
    """Return title, subtitle and, for a run, its status and reason."""
    walk, room, pill = graph.walk, layout.width - 2 * _MARGIN, []
    labels = [label for edge in graph.edges for label in edge.labels]
    if walk is None:
        rows = sum(len(label.rows) for label in labels)
        sub = f"{len(graph.phases)} phases, {len(graph.edges)} edges, {rows} rows, drawn from the table"
    else:
        text = cut(walk.status + (f" · {walk.reason}" if walk.reason else ""), room / 2, 13)
        wide = width_of(text, 13 * BOLD) + 26
        room -= wide + 24
        x = layout.width - _MARGIN - wide
        rim = f'<rect class="rim" x="{_n(x)}" y="22" width="{_n(wide)}" height="28" rx="14"/>'
        words = f'<text class="pill" x="{_n(x + wide / 2)}" y="40.5">{_text(text)}</text>'
        pill = [f'<g class="{status_of(walk)}">{rim}{words}</g>']
        known = sum(1 for label in labels if label.rows)
        sub = f"{sum(walk.counts.values()):,} transitions, {len(walk.order)} different; the table has {known}"
    title = cut(walk.title if walk else _TITLE, room, 18 * BOLD)
    return [
        f'<text class="title" x="{_n(_MARGIN)}" y="42">{_text(title)}</text>',
        f'<text class="sub" x="{_n(_MARGIN)}" y="63">{_text(sub)}</text>',
        *pill,
    ]


def _legend(walk: Walk | None, layout: Layout) -> list[str]:
    """Return the line at the bottom that says what the signs mean."""
    y, x, parts = layout.height - 24, _MARGIN, []
    for sign, width, text in _signs(walk, layout):
        parts.append(f'<g transform="translate({_n(x)} {_n(y)})">{sign}')
        parts.append(f'<text class="sub" x="{_n(width + 8)}" y="4">{_text(text)}</text></g>')
        x += width + 8 + width_of(text) + 22
    return parts


def _signs(walk: Walk | None, layout: Layout) -> list[tuple[str, float, str]]:
    """Return the legend's signs with their width and meaning."""
    if walk:
        return [
            (_badge(0, 0, BADGE, "1"), BADGE, "order of first use"),
            ('<text class="times" x="0" y="4">×3</text>', 16, "times taken"),
            (f'<g class="walked">{_arrow(((0, 0), (30, 0)))}</g>', 30, "taken"),
            (f'<g class="faded">{_arrow(((0, 0), (30, 0)))}</g>', 30, "not taken"),
            (_swatch(status_of(walk)), 26, "where the run stands"),
        ]
    drawn = {route.kind for route in layout.routes}
    lines = [
        (f'<g class="{kind}">{_arrow(((0, 0), (30, 0)))}</g>', 30.0, meaning)
        for kind, meaning in _MEANINGS.items()
        if kind in drawn
    ]
    start = ('<circle class="dot" cx="6" cy="0" r="6"/>', 12.0, "start")
    return [
        start,
        *lines,
        (_swatch("") + '<rect class="inner" x="3" y="-5" width="20" height="10" rx="3"/>', 26, "end"),
    ]


def _swatch(name: str) -> str:
    return f'<g class="{name}"><rect class="rim" x="0" y="-8" width="26" height="16" rx="5"/></g>'


# -- boxes and lines -----------------------------------------------------------------------------------------------


def _box(graph: Graph, phase: str, box: Rect) -> str:
    """Return one phase."""
    walk, look = graph.walk, "phase"
    if walk:
        look += (
            f" {status_of(walk)}" if phase == walk.state else " seen" if phase in graph.visited else " unseen"
        )
    x, y = box.middle
    inner = _rect("inner", box, 4, 7) if phase in graph.final else ""
    return (
        f'<g class="{look}">{_rect("rim", box, 0, 10)}{inner}'
        f'<text class="name" x="{_n(x)}" y="{_n(y + 5)}">{_text(phase)}</text></g>'
    )


def _rect(name: str, box: Rect, inset: float, radius: float) -> str:
    return (
        f'<rect class="{name}" x="{_n(box.x + inset)}" y="{_n(box.y + inset)}" '
        f'width="{_n(box.width - 2 * inset)}" height="{_n(box.height - 2 * inset)}" rx="{_n(radius)}"/>'
    )


def _start(points: Sequence[Point] | None) -> list[str]:
    """Return the dot and the arrow that lead to the initial phase."""
    if points is None:
        return []
    x, y = points[0]
    return [f'<g class="start"><circle class="dot" cx="{_n(x)}" cy="{_n(y)}" r="6"/>{_arrow(points)}</g>']


def _lifelines(layout: Layout) -> list[str]:
    """Return the ladder's columns."""
    if layout.columns is None:
        return []
    low = _n(layout.columns)
    return [
        f'<path class="life" d="M{_n(box.middle[0])} {_n(box.low)}V{low}"/>' for box in layout.boxes.values()
    ]


def _route(route: Route, *, walked: bool) -> str:
    """Return one edge with its marks; *walked*: a run is laid over the picture."""
    look = f"{route.kind} {'walked' if route.edge.walked else 'faded'}" if walked else route.kind
    marks = "".join(_mark(mark, unused=route.edge.walked and not mark.label.first) for mark in route.marks)
    marks += "".join(f'<circle class="between" cx="{_n(x)}" cy="{_n(y)}" r="1.5"/>' for x, y in route.dots)
    return f'<g class="edge {look}"><title>{_hover(route.edge)}</title>{_arrow(route.points)}{marks}</g>'


def _mark(mark: Mark, *, unused: bool) -> str:
    """Return one piece of text: badge, trigger, count, as far as it has them; *unused*: others of its edge do."""
    label, x, y = mark.label, mark.x, mark.y
    name = _text(label.trigger) if mark.name else ""
    if not label.first:
        look, x = ("mark unused", x) if unused else ("mark mid", mark.rect.middle[0])
        return f'<text class="{look}" x="{_n(x)}" y="{_n(y + 4)}">{name}</text>'
    if not mark.count:
        return f'<text class="mark used mid" x="{_n(mark.rect.middle[0])}" y="{_n(y + 4)}">{name}</text>'
    times = f'<tspan class="times">{count_text(label.count)}</tspan>'
    left = x + badge_width(label) + 5
    text = f'<text class="mark used" x="{_n(left)}" y="{_n(y + 4)}">{name}{" " if name else ""}{times}</text>'
    return _badge(x, y, badge_width(label), str(label.first)) + text


def _badge(x: float, y: float, width: float, text: str) -> str:
    """Return the badge with the place in the order of first use; *x* is its left end, *y* its middle."""
    return (
        f'<rect class="badge" x="{_n(x)}" y="{_n(y - BADGE / 2)}" width="{_n(width)}" height="{_n(BADGE)}" '
        f'rx="{_n(BADGE / 2)}"/><text class="place" x="{_n(x + width / 2)}" y="{_n(y + 3.5)}">{text}</text>'
    )


def _arrow(points: Sequence[Point]) -> str:
    """Return a line of horizontal and vertical pieces with round corners and a head at its end."""
    (x1, y1), (x2, y2) = points[-2:]
    dx, dy = (x2 > x1) - (x2 < x1), (y2 > y1) - (y2 < y1)
    ends = [*points[:-1], (x2 - dx * (_HEAD - 1), y2 - dy * (_HEAD - 1))]
    back, side = (x2 - dx * _HEAD, y2 - dy * _HEAD), (dy * 4.2, dx * 4.2)
    corners = ((x2, y2), (back[0] + side[0], back[1] + side[1]), (back[0] - side[0], back[1] - side[1]))
    head = "L".join(f"{_n(x)} {_n(y)}" for x, y in corners)
    return f'<path class="line" d="{_path(ends)}"/><path class="head" d="M{head}Z"/>'


def _path(points: Sequence[Point]) -> str:
    """Return a path along *points* whose inner corners are round."""
    parts = [f"M{_n(points[0][0])} {_n(points[0][1])}"]
    for before, corner, after in zip(points, points[1:], points[2:], strict=False):
        radius = min(_RADIUS, _apart(before, corner) / 2, _apart(corner, after) / 2)
        (x1, y1), (x2, y2) = _towards(corner, before, radius), _towards(corner, after, radius)
        parts.append(f"L{_n(x1)} {_n(y1)}Q{_n(corner[0])} {_n(corner[1])} {_n(x2)} {_n(y2)}")
    return "".join([*parts, f"L{_n(points[-1][0])} {_n(points[-1][1])}"])


def _apart(one: Point, two: Point) -> float:
    return abs(one[0] - two[0]) + abs(one[1] - two[1])


def _towards(start: Point, end: Point, distance: float) -> Point:
    """Return the point at *distance* from *start* on the way to *end*, along one axis."""
    dx, dy = (end[0] > start[0]) - (end[0] < start[0]), (end[1] > start[1]) - (end[1] < start[1])
    return start[0] + dx * distance, start[1] + dy * distance
