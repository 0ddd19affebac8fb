"""
Colours and shapes of the SVG form, for a light and a dark page.

Plain CSS classes only, since not every renderer knows variables; fonts that every system has one of.
"""

from __future__ import annotations

from string import Template

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
