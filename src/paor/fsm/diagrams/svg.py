"""
The SVG form: draws a `diagram_layout.Layout`, and below it a `diagram_panel.Panel`.

One self-contained file without scripts or references, for a light and a dark page: it paints its own card, and
its colours follow ``prefers-color-scheme``.

Colours and shapes of the SVG form, for a light and a dark page.

Plain CSS classes only, since not every renderer knows variables; fonts that every system has one of.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from string import Template

from .captions import asks_for, caption, count_words, legend_of, own_title, shares
from .geometry import (
    BADGE,
    BETWEEN,
    BOLD,
    FONT,
    Kind,
    Layout,
    Mark,
    Point,
    Rect,
    Route,
    Tag,
    cut,
    tag_width,
    width_of,
)
from .graph import Covered, Edge, Graph, Parted, RunWalk, plain, status_of
from .layout import layout_of
from .legend import MARGIN, badge, chip, panel_of, px, safe, shape, words

PALETTE = {
    "paper": ("#ffffff", "#15181e"),
    "card": ("#e4e7ec", "#2a2f3a"),
    "ink": ("#1f2430", "#e7eaf0"),
    "quiet": ("#667085", "#98a2b3"),
    "faded": ("#d0d5dd", "#363d4a"),
    "dim": ("#667085", "#828c9f"),
    "box": ("#f5f6f9", "#1e232c"),
    "rim": ("#98a2b3", "#5b6577"),
    "seen": ("#e8edff", "#232f55"),
    "flow": ("#344054", "#cbd2de"),
    "skip": ("#5d6b82", "#98a4b8"),
    "back": ("#3b5bdb", "#8da2fb"),
    "loop": ("#8592a6", "#7b879b"),
    "fail": ("#c4453c", "#f0837b"),
    "walked": ("#3b5bdb", "#8da2fb"),
    "running": ("#3b5bdb", "#4263eb"),
    "waiting": ("#f5a524", "#f5a524"),
    "done": ("#27803a", "#27803a"),
    "failed": ("#c92a2a", "#e03131"),
    "left": ("#c2410c", "#fb923c"),
    "right": ("#7048e8", "#b197fc"),
    "both": ("#344054", "#cbd2de"),
    "never": ("#98a2b3", "#596274"),
    "lack": ("#b42318", "#f97066"),
    "tint": ("#e6f4ea", "#1d3527"),
    "yes": ("#1b6e2e", "#7ee2a0"),
    "on": ("#ffffff", "#ffffff"),
    "own": ("#0b6e66", "#4fd1c1"),
    "ownbox": ("#e3f4f1", "#14332f"),
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
    ".paor .walked .line{stroke-width:2.6}.paor .used{font-weight:600}.paor .edge .times{font-weight:400}"
    ".paor .faded .line{stroke-width:1.5}.paor .edge.fail .line{stroke-width:2}.paor .walked.fail .line,"
    ".paor .both.fail .line,.paor .left.fail .line,.paor .right.fail .line{stroke-width:3}"
    ".paor .rim{stroke-width:1.5}.paor .inner{fill:none;stroke-width:1.2}"
    ".paor .life{stroke-dasharray:2 5}.paor .never .line{stroke-dasharray:5 4}"
    ".paor .both .line,.paor .left .line,.paor .right .line{stroke-width:2.6}.paor .right .line{stroke-dasharray:8 4}"
    ".paor .phase .badge{stroke-width:2;paint-order:stroke}"
    ".paor .tag{font-size:10px;font-weight:600;text-anchor:middle}"
    ".paor .head2{font-size:14px;font-weight:600}.paor .strong{font-weight:600}"
    ".paor .small{font-size:11px}.paor .tiny{font-size:10px}.paor .end{text-anchor:end}"
    ".paor .rule{fill:none;stroke-width:1}.paor .chip{stroke-width:1}.paor .lack .chip{stroke-dasharray:3 2}"
)

_LINES = ("flow", "skip", "back", "loop", "fail", "walked", "faded", "never", "both", "left", "right")
_MARKS = {"back": "back", "loop": "quiet", "fail": "fail", "faded": "dim", "never": "dim"}
_MARKS |= dict.fromkeys(("walked", "both", "left", "right"), "ink")
_STATUSES = {"running": "on", "waiting": "onwaiting", "done": "on", "failed": "on"}
_COLOURS = (
    ".paor .card{fill:$paper;stroke:$card}",
    ".paor text,.paor .between{fill:$ink}.paor .sub{fill:$quiet}",
    ".paor .edge text{stroke:$paper}.paor .life{stroke:$faded}",
    ".paor .rim{fill:$box;stroke:$rim}.paor .inner{stroke:$rim}",
    ".paor .seen .rim{fill:$seen;stroke:$walked}.paor .seen .inner{stroke:$walked}",
    ".paor .unseen .rim,.paor .unseen .inner{stroke:$faded}.paor .unseen text{fill:$dim}",
    ".paor .dot,.paor .start .head{fill:$flow}.paor .start .line{stroke:$flow}",
    *(f".paor .{kind} .line{{stroke:${kind}}}.paor .{kind} .head{{fill:${kind}}}" for kind in _LINES),
    *(f".paor .{kind} .mark,.paor .{kind} .between{{fill:${text}}}" for kind, text in _MARKS.items()),
    ".paor .edge .unused{fill:$dim}.paor .edge .times,.paor .times{fill:$walked}",
    ".paor .badge{fill:$walked}.paor .edge .place,.paor .place{fill:$paper;stroke:none}",
    ".paor .left .badge,.paor .badge.left{fill:$left}",
    ".paor .right .badge,.paor .badge.right{fill:$right}",
    ".paor .edge .tag,.paor .tag{fill:$paper;stroke:none}",
    ".paor .rule{stroke:$card}.paor .part{fill:$lack}",
    ".paor .got .chip{fill:$tint;stroke:$tint}.paor .got text{fill:$yes}",
    ".paor .lack .chip{fill:none;stroke:$lack}.paor .lack text,.paor .lacks{fill:$lack}",
    *(
        f".paor .{status} .rim{{fill:${status};stroke:${status}}}"
        f".paor .{status} .inner{{stroke:${on}}}.paor .{status} text{{fill:${on}}}"
        for status, on in _STATUSES.items()
    ),
    ".paor .phase .tag{fill:$paper}.paor .phase .badge{stroke:$paper}",
)
"""Colours by their names in `PALETTE`."""


_OWN_SHAPE = ".paor .own .line{stroke-width:2}"
_OWN_COLOURS = (
    ".paor .phase.own .rim,.paor .sign.own .rim{fill:$ownbox;stroke:$own}",
    ".paor .own .line{stroke:$own}.paor .own .head{fill:$own}",
    ".paor .own .mark,.paor .own .between,.paor .yours,.paor .edge .yours{fill:$own}",
)
"""What only a host's own machine has."""


def _colours(rules: tuple[str, ...], scheme: int) -> str:
    """Return the colours of one scheme, 0 for light and 1 for dark, as CSS rules."""
    of = {name: colours[scheme] for name, colours in PALETTE.items()}
    return Template("".join(rules)).substitute(of)


def _sheet(shapes: str, rules: tuple[str, ...]) -> str:
    return f"{shapes}{_colours(rules, 0)}@media(prefers-color-scheme:dark){{{_colours(rules, 1)}}}"


CSS = _sheet(_SHAPE, _COLOURS)
OWN_CSS = _sheet(_SHAPE + _OWN_SHAPE, (*_COLOURS, *_OWN_COLOURS))
"""Instead of `CSS` where a host's own phases, rows or guards are drawn."""


_TITLE = "An agent run as a finite state machine"
_ROLE = 'style="max-width:100%" role="img" aria-labelledby="paor-title paor-desc"'
_HEAD = 9.0
_RADIUS = 14.0
_MEANINGS: dict[Kind, str] = {
    "flow": "next phase",
    "skip": "shortcut",
    "back": "back for another step or round",
    "loop": "stays: asks again, waits, retries",
    "fail": "fails",
    "own": "your own",
}


def svg(graph: Graph) -> str:
    """Return *graph* as one SVG file."""
    layout, overlay = layout_of(graph), graph.overlay
    panel = panel_of(graph, layout.width, layout.height)
    wide, high = px(layout.width), px(panel.low)
    size = f'viewBox="0 0 {wide} {high}" width="{wide}" height="{high}"'
    heading = caption(overlay) if overlay else _TITLE
    faded_first = sorted(layout.routes, key=lambda route: route.edge.walked)
    joining = _joining(layout.routes)
    card = f'width="{px(layout.width - 1)}" height="{px(panel.low - 1)}" rx="12"/>'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="paor" {size} {_ROLE}>',
        f'<title id="paor-title">{safe(heading)}</title>',
        f'<desc id="paor-desc">{safe(_description(graph))}</desc>',
        f"<style>{OWN_CSS if graph.has_own else CSS}</style>",
        f'<rect class="card" x="0.5" y="0.5" {card}',
        *_header(graph, layout),
        *_lifelines(layout),
        *_start(layout.start),
        *(_route(route, ends=route not in joining) for route in faded_first),
        *(_box(graph, phase, box) for phase, box in layout.boxes.items()),
        *_legend(graph, layout),
        *panel.parts,
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


# -- text ----------------------------------------------------------------------------------------------------------


def _description(graph: Graph) -> str:
    """Return the picture in words, for those who cannot see it."""
    parts = [f"Starts in {graph.initial}"]
    for edge in graph.edges:
        parts.append(f"{edge.source} to {edge.dest}: {', '.join(label.walked_text for label in edge.labels)}")
    return ". ".join([*parts, *legend_of(graph.overlay)]) + "."


def _hover(edge: Edge) -> str:
    """Return an edge's hover text: its rows with all their guards."""
    lines = [f"{edge.source} → {edge.dest}"]
    for label in edge.labels:
        for row in label.rows:
            guards = f" [{', '.join(row.guards)}]" if row.guards else ""
            lines.append(f"{label.trigger}{guards}: {row.meaning}")
        lines += [] if label.rows else [f"{label.trigger}: not in this table"]
        if label.first:
            lines.append(f"{label.trigger}: taken ×{label.count}, #{label.first} by first use")
        elif edge.overlaid:
            lines.append(label.walked_text)
    return "\n".join(safe(line) for line in lines)


# -- header and legend ---------------------------------------------------------------------------------------------


def _header(graph: Graph, layout: Layout) -> list[str]:
    """Return title, subtitle and, in a pill, what it came to."""
    room = layout.width - 2 * MARGIN
    title, sub, look, told = _heading(graph)
    pill = []
    if told:
        text = cut(told, room / 2, 13)
        wide = width_of(text, 13 * BOLD) + 26
        room -= wide + 24
        x = layout.width - MARGIN - wide
        rim = shape("rect", "rim", x=x, y=22, width=wide, height=28, rx=14)
        pill = [f'<g class="{look}">{rim}{words("pill", x + wide / 2, 40.5, text)}</g>']
    heading = words("title", MARGIN, 42, cut(title, room, 18 * BOLD))
    return [heading, words("sub", MARGIN, 63, cut(sub, room)), *pill]


def _heading(graph: Graph) -> tuple[str, str, str, str]:
    """Return title and subtitle, and the pill's look and text."""
    overlay, known = graph.overlay, sum(1 for label in graph.labels if label.rows)
    if isinstance(overlay, RunWalk):
        kinds = f"{count_words(len(overlay.order), 'kind')}; the table has {known}"
        sub = f"{count_words(overlay.transitions, 'transition')} of {kinds}"
        told = overlay.status + (f" · {overlay.reason}" if overlay.reason else "")
        return overlay.title if plain(overlay.title) else "A run", sub, status_of(overlay), told
    if isinstance(overlay, Covered):
        found = overlay.coverage
        runs = f"{count_words(found.runs, 'run')}, {count_words(found.transitions, 'transition')}"
        look = "done" if found.percent == 100 else "running"
        return overlay.title, f"{runs}: {shares(found).partition(', ')[2]}", look, f"{found.percent} %"
    if isinstance(overlay, Parted):
        sides = f"A {count_words(overlay.left.transitions, 'transition')}, B {overlay.right.transitions:,}"
        if overlay.seq is None:
            return overlay.title, sides, "done", "identical"
        same = f"rows 0 to {overlay.seq - 1:,} are the same" if overlay.seq > 1 else "row 0 is the same"
        same = same if overlay.seq else "they differ from the start"
        return overlay.title, f"{sides}; {same}", "waiting", f"differ at row {overlay.seq:,}"
    sizes = f"{len(graph.phases)} phases, {len(graph.edges)} edges, {len(graph.rows)} rows"
    if graph.has_own:
        return _TITLE, f"{sizes}, drawn from the table; {own_title(graph)}", "", ""
    return _TITLE, f"{sizes}, drawn from the table", "", ""


def _legend(graph: Graph, layout: Layout) -> list[str]:
    """Return the line below the picture that says what the signs mean."""
    y, x, parts = layout.height - 24, MARGIN, []
    signs = _signs(graph, layout)
    taken = sum(width + 8 + width_of(text) for _, width, text in signs)
    between = min(22.0, (layout.width - 2 * MARGIN - taken) / (len(signs) - 1))
    for sign, width, text in signs:
        parts.append(f'<g transform="translate({px(x)} {px(y)})">{sign}')
        parts.append(words("sub", width + 8, 4, text) + "</g>")
        x += width + 8 + width_of(text) + between
    return parts


def _signs(graph: Graph, layout: Layout) -> list[tuple[str, float, str]]:
    """Return the legend's signs with their width and meaning."""
    own = (_swatch("sign own", radius=8), 26.0, "your own")
    return _all_signs(graph, layout) + ([own] if graph.overlay is not None and graph.own else [])


def _all_signs(graph: Graph, layout: Layout) -> list[tuple[str, float, str]]:
    """Return the signs that every picture of its kind has."""
    overlay, line = graph.overlay, ((0.0, 0.0), (30.0, 0.0))
    arrow = {
        look: f'<g class="{look}">{_arrow(line)}</g>'
        for look in ("walked", "faded", "never", "both", "left", "right")
    }
    times = (words("times", 0, 4, "×3"), 16.0, "times taken")
    if isinstance(overlay, RunWalk):
        return [
            (badge(0, 0, Tag("place", "1")), BADGE, "order of first use"),
            times,
            (arrow["walked"], 30, "taken"),
            (arrow["faded"], 30, "not taken"),
            (_swatch(status_of(overlay)), 26, "where the run stands"),
        ]
    if isinstance(overlay, Covered):
        return [
            times,
            (arrow["walked"], 30, "taken"),
            (arrow["never"], 30, "never taken"),
            (chip("got", 0, 0, "true"), 32, "the guard was seen true there"),
            (chip("lack", 0, 0, "false"), 32, "it was never seen false"),
        ]
    if isinstance(overlay, Parted):
        tags = Tag("left", "A×2"), Tag("right", "B×3")
        return [
            (arrow["both"], 30, "both"),
            (arrow["left"], 30, "only A"),
            (arrow["right"], 30, "only B"),
            (arrow["faded"], 30, "neither"),
            *((badge(0, 0, tag), tag_width(tag), f"times in {tag.text[0]}") for tag in tags),
            (times[0], 16, "the same in both"),
        ]
    drawn = {route.kind for route in layout.routes} | ({"own"} if graph.has_own else set[Kind]())
    kinds = [(kind, meaning) for kind, meaning in _MEANINGS.items() if kind in drawn]
    lines = [(f'<g class="{kind}">{_arrow(line)}</g>', 30.0, meaning) for kind, meaning in kinds]
    start = (shape("circle", "dot", cx=6, cy=0, r=6), 12.0, "start")
    inner = shape("rect", "inner", x=3, y=-5, width=20, height=10, rx=3)
    return [start, *lines, (_swatch("") + inner, 26, "end")]


def _swatch(name: str, *, radius: float = 5) -> str:
    return f'<g class="{name}">{shape("rect", "rim", x=0, y=-8, width=26, height=16, rx=radius)}</g>'


# -- boxes and lines -----------------------------------------------------------------------------------------------


def _box(graph: Graph, phase: str, box: Rect) -> str:
    """Return one phase; below its name, of two runs, where they part and which of them is here, of an own one what it asks for."""
    own = graph.own.get(phase)
    look = f"phase {graph.look_of(phase) or ('own' if own is not None else '')}".rstrip()
    x, y = box.middle
    inner = _rect("inner", box, 4, 7) if phase in graph.final else ""
    below = _below(graph, phase, box, y + 10.5)
    if own is not None and not below:
        below = words("tiny mid", x, y + 14, cut(asks_for(own), box.width - 20, 10))
    name_y = y - 4 if below else y + 5
    rim = _rect("rim", box, 0, 10 if own is None else box.height / 2)
    return f'<g class="{look}">{rim}{inner}{words("name", x, name_y, phase)}{below}</g>'


def _below(graph: Graph, phase: str, box: Rect, y: float) -> str:
    """Return the second line of a phase's box: where two runs part, and which of them is there."""
    overlay = graph.overlay
    if not isinstance(overlay, Parted):
        return ""
    both = ((Tag("left", "A"), overlay.left), (Tag("right", "B"), overlay.right))
    tags = [tag for tag, walk in both if walk.state == phase]
    wide = sum(tag_width(tag) + BETWEEN for tag in tags)
    text = ""
    if overlay.seq is not None and overlay.source == phase:
        texts = (f"≠ row {overlay.seq}", f"≠ {overlay.seq}")
        fitting = (told for told in texts if wide + width_of(told, 10 * BOLD) <= box.width - 12)
        text = next(fitting, "≠")
    long = width_of(text, 10 * BOLD)
    x = box.middle[0] - (long + wide - BETWEEN * bool(tags and not text)) / 2
    told = words("tiny strong part", x, y + 3.5, text) if text else ""
    return told + _badges(x + long + BETWEEN if text else x, y, tags)[0]


def _rect(name: str, box: Rect, inset: float, radius: float) -> str:
    width, height = box.width - 2 * inset, box.height - 2 * inset
    return shape("rect", name, x=box.x + inset, y=box.y + inset, width=width, height=height, rx=radius)


def _start(points: Sequence[Point] | None) -> list[str]:
    """Return the dot and the arrow that lead to the initial phase."""
    if points is None:
        return []
    x, y = points[0]
    return [f'<g class="start">{shape("circle", "dot", cx=x, cy=y, r=6)}{_arrow(points)}</g>']


def _lifelines(layout: Layout) -> list[str]:
    if layout.columns is None:
        return []
    low = px(layout.columns)
    starts = [f"M{px(box.middle[0])} {px(box.low)}" for box in layout.boxes.values()]
    return [f'<path class="life" d="{start}V{low}"/>' for start in starts]


def _joining(routes: Sequence[Route]) -> list[Route]:
    """Return the dashed ways to Failed that another dashed one goes on for: two lines of dashes would fill each other."""
    first: dict[tuple[str, Point], float] = {}
    falls = [route for route in routes if route.edge.look in ("never", "right") and len(route.points) == 3]
    for route in falls:
        key, x = (route.edge.look, route.points[-1]), route.points[0][0]
        first[key] = min(x, first.get(key, x))
    return [route for route in falls if route.points[0][0] > first[route.edge.look, route.points[-1]]]


def _route(route: Route, *, ends: bool) -> str:
    """Return one edge with its marks; one that does not end by itself leads into another one's line."""
    edge = route.edge
    points = route.points if ends else (*route.points[:2], (route.points[1][0] + _RADIUS, route.points[1][1]))
    marks = "".join(
        _mark(mark, unused=edge.walked and not mark.label.count, own=mark.label.own and not edge.look)
        for mark in route.marks
    )
    marks += "".join(shape("circle", "between", cx=x, cy=y, r=1.5) for x, y in route.dots)
    look = (
        f"edge {route.kind} {edge.look}".rstrip()
        if route.kind != "own" or not edge.look
        else f"edge {edge.look}"
    )
    # from the line that several share, so that their dashes fall on each other's and do not fill the gaps
    shared = route.kind == "own" and edge.look in ("never", "right") and points[0][1] < points[-1][1]
    arrow = _arrow(points, head=ends, backwards=shared)
    return f'<g class="{look}"><title>{_hover(edge)}</title>{arrow}{marks}</g>'


def _mark(mark: Mark, *, unused: bool, own: bool) -> str:
    """Return one piece of text: trigger and tags, as far as it has them; *unused*: others of its edge were taken."""
    label, x, y = mark.label, mark.x, mark.y
    if not mark.tags:
        if unused:
            return words("mark unused", x, y + 4, label.trigger)
        look = "mark used mid" if label.count else "mark mid yours" if own else "mark mid"
        return words(look, mark.rect.middle[0], y + 4, label.trigger)
    before, x = _badges(x, y, (tag for tag in mark.tags if tag.look == "place"))
    texts = [safe(label.trigger)] if mark.name else []
    texts += [f'<tspan class="times">{safe(tag.text)}</tspan>' for tag in mark.tags if tag.look == "times"]
    told = f'<text class="mark used" x="{px(x)}" y="{px(y + 4)}">{" ".join(texts)}</text>' if texts else ""
    x += width_of(plain(label.trigger), FONT * BOLD) + BETWEEN if mark.name else 0
    return before + told + _badges(x, y, (tag for tag in mark.tags if tag.look in ("left", "right")))[0]


def _badges(x: float, y: float, tags: Iterable[Tag]) -> tuple[str, float]:
    """Return badges side by side, and where what follows them begins."""
    parts = []
    for tag in tags:
        parts.append(badge(x, y, tag))
        x += tag_width(tag) + BETWEEN
    return "".join(parts), x


def _arrow(points: Sequence[Point], *, head: bool = True, backwards: bool = False) -> str:
    """Return a line of horizontal and vertical pieces with round corners and a head at its end."""
    if not head:
        return f'<path class="line" d="{rounded(points)}"/>'
    ends, tip = with_tip(points)
    return (
        f'<path class="line" d="{rounded(ends[::-1] if backwards else ends)}"/><path class="head" d="{tip}"/>'
    )


def with_tip(points: Sequence[Point], long: float = _HEAD, wide: float = 4.2) -> tuple[list[Point], str]:
    """Return the corners of a line that ends in an arrow's head, and the path of that; *wide* is half its width."""
    (x1, y1), (x2, y2) = points[-2:]
    dx, dy = (x2 > x1) - (x2 < x1), (y2 > y1) - (y2 < y1)
    ends = [*points[:-1], (x2 - dx * (long - 1), y2 - dy * (long - 1))]
    back, side = (x2 - dx * long, y2 - dy * long), (dy * wide, dx * wide)
    corners = ((x2, y2), (back[0] + side[0], back[1] + side[1]), (back[0] - side[0], back[1] - side[1]))
    return ends, f"M{'L'.join(f'{px(x)} {px(y)}' for x, y in corners)}Z"


def rounded(points: Sequence[Point], most: float = _RADIUS) -> str:
    """Return a path along *points* whose inner corners are round, with a radius of at *most* that."""
    parts = [f"M{px(points[0][0])} {px(points[0][1])}"]
    for before, corner, after in zip(points, points[1:], points[2:], strict=False):
        radius = min(most, _apart(before, corner) / 2, _apart(corner, after) / 2)
        (x1, y1), (x2, y2) = _towards(corner, before, radius), _towards(corner, after, radius)
        parts.append(f"L{px(x1)} {px(y1)}Q{px(corner[0])} {px(corner[1])} {px(x2)} {px(y2)}")
    return "".join([*parts, f"L{px(points[-1][0])} {px(points[-1][1])}"])


def _apart(one: Point, two: Point) -> float:
    return abs(one[0] - two[0]) + abs(one[1] - two[1])


def _towards(start: Point, end: Point, distance: float) -> Point:
    """Return the point at *distance* from *start* on the way to *end*, along one axis."""
    dx, dy = (end[0] > start[0]) - (end[0] < start[0]), (end[1] > start[1]) - (end[1] < start[1])
    return start[0] + dx * distance, start[1] + dy * distance
