"""Every text of every picture can be read: at least 4.5:1 against what is behind it, on a light and on a dark page."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from paor import coverage

from ..explain.test_coverage import Taken, steps
from .drawn_machines import MACHINES
from .inside import ROWS, SCALE, Parted, diagram
from .test_diagram import FINAL, STEPS, SVG, USER, parsed, walked

pytestmark = pytest.mark.whole

LEAST = 4.5
"""Source: WCAG 2.2, success criterion 1.4.3, for text of any size."""

DOCS = Path(__file__).parents[2] / "docs"
DARK = "@media (prefers-color-scheme: dark) {"
STATUSES = ("running", "waiting", "done", "failed", "odd")
LEFT, RIGHT = walked(*STEPS[:3], status="failed"), walked(*STEPS[:2], STEPS[-1], status="done")
TAKEN = [record for record, _, _ in steps(list(ROWS), dict.fromkeys(row.source for row in ROWS))][::7]
FOREIGN = Taken(1, "Observing", "leap", "Archived", {})
OWN = MACHINES["verifying"]()
OWN_STEPS = [(row.source, row.trigger, row.dest) for row in OWN.rows if row.host]
PICTURES = {
    **{path.name: path.read_text(encoding="utf-8") for path in sorted(DOCS.glob("*.svg"))},
    **{status: diagram("svg", walked(*STEPS, status=status, reason="why")) for status in STATUSES},
    **{f"at {end}": diagram("svg", walked(*STEPS, state=end, status=end.lower())) for end in sorted(FINAL)},
    "ladder": diagram("svg", rows=USER),
    "ladder of a run": diagram("svg", walked(("draft", "save", "draft")), rows=USER),
    "covered": diagram("svg", coverage([*TAKEN, FOREIGN])),
    "nothing covered": diagram("svg", coverage([])),
    "parted": diagram("svg", Parted("P", LEFT, RIGHT, 2, "Planning", "cause", "detail", 2, (STEPS[0], None))),
    **{name: diagram("svg", rows=made().rows, host=made().host) for name, made in MACHINES.items()},
    **{
        f"own {status}": diagram(
            "svg",
            walked(*OWN_STEPS[:3], state="Verifying", status=status, reason="why"),
            rows=OWN.rows,
            host=OWN.host,
        )
        for status in STATUSES
    },
    "own covered": diagram("svg", coverage([], rows=OWN.rows), rows=OWN.rows, host=OWN.host),
    "own parted": diagram(
        "svg",
        Parted(
            "P", walked(*OWN_STEPS[:3], state="Verifying"), LEFT, 2, "Verifying", "c", "d", 2, (None, None)
        ),
        rows=OWN.rows,
        host=OWN.host,
    ),
    "same": diagram("svg", Parted("P", LEFT, LEFT, None, "", "", "", None, (None, None))),
}


class Rule(NamedTuple):
    """One selector of a style sheet: the classes and names of each of its parts, and what it sets."""

    parts: tuple[frozenset[str], ...]
    values: Mapping[str, str]


class Plate(NamedTuple):
    """A rectangle that was painted: left, top, right, low, and its colour."""

    x: float
    y: float
    right: float
    low: float
    fill: str


class Words(NamedTuple):
    """One text, its colour and the one behind it."""

    text: str
    fill: str
    behind: str


def rules_of(css: str, dark: bool) -> list[Rule]:
    """Return the rules of a style sheet in their order for one kind of page."""
    light, _, rest = re.sub(r"@media\s*\(prefers-color-scheme:\s*dark\)\s*\{", DARK, css).partition(DARK)
    rules = []
    for selectors, body in re.findall(r"([^{}]+)\{([^{}]*)\}", light + (rest if dark else "")):
        values = dict(re.findall(r"([\w-]+)\s*:\s*([^;]+)", body))
        for selector in selectors.split(","):
            parts = tuple(frozenset(re.findall(r"\.?[\w-]+", part)) for part in selector.split())
            rules.append(Rule(parts, values))
    return rules


def names_of(element: ET.Element) -> frozenset[str]:
    return frozenset(
        [element.tag.removeprefix(SVG), *(f".{name}" for name in element.get("class", "").split())]
    )


def colour(way: Sequence[ET.Element], rules: Sequence[Rule], inherited: str) -> str:
    """Return the fill of the last element of *way*, which leads to it from the root."""
    names = [names_of(element) for element in way]
    own, best = way[-1].get("fill", inherited), (-1, -1)
    for rule in rules:
        if "fill" in rule.values and rule.parts[-1] <= names[-1] and _within(rule.parts[:-1], names[:-1]):
            said = [name for part in rule.parts for name in part]
            weight = (sum(name[0] == "." for name in said), sum(name[0] != "." for name in said))
            if weight >= best:
                own, best = rule.values["fill"].strip(), weight
    return own


def _within(parts: Sequence[frozenset[str]], names: Sequence[frozenset[str]]) -> bool:
    waiting = iter(names)
    return all(any(part <= name for name in waiting) for part in parts)


def told(root: ET.Element, *, dark: bool) -> Iterator[Words]:
    """Yield every text in the order of painting, with what was last painted where it begins."""
    css = "".join(style.text or "" for style in root.iter(f"{SVG}style"))
    rules, plates = rules_of(css, dark), list[Plate]()

    def walk(way: list[ET.Element], x: float, y: float, fill: str, scale: float = 1.0) -> Iterator[Words]:
        element = way[-1]
        moved = re.search(r"translate\(([-\d.]+) ([-\d.]+)\)", element.get("transform", ""))
        x, y = (x + float(moved[1]), y + float(moved[2])) if moved else (x, y)
        scale *= SCALE if "scale" in element.get("transform", "") else 1.0
        fill = colour(way, rules, fill)
        kind = element.tag.removeprefix(SVG)
        if kind == "rect" and fill != "none":
            left, top = x + scale * float(element.get("x", 0)), y + scale * float(element.get("y", 0))
            right = left + scale * float(element.get("width", 0))
            low = top + scale * float(element.get("height", 0))
            plates.append(Plate(left, top, right, low, fill))
        if kind == "text":
            place = (x + scale * float(element.get("x", 0)), y + scale * float(element.get("y", 0)) - 3)
            behind = [
                plate
                for plate in plates
                if plate.x <= place[0] <= plate.right and plate.y <= place[1] <= plate.low
            ]
            assert behind, f"{element.text!r} stands on no card"
            if element.text and element.text.strip():
                yield Words(element.text, fill, behind[-1].fill)
            for part in element.iter(f"{SVG}tspan"):
                yield Words(part.text or "", colour([*way, part], rules, fill), behind[-1].fill)
            return
        for child in element:
            yield from walk([*way, child], x, y, fill, scale)

    yield from walk([root], 0.0, 0.0, "#000000")


def luminance(colour: str) -> float:
    """Return the relative luminance of ``#rrggbb``."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def test_the_formula() -> None:
    """Against the values that the recommendation names: 21 for black on white, 4.48 for the grey one below the bound."""
    assert contrast("#000000", "#ffffff") == 21
    assert contrast("#ffffff", "#ffffff") == 1
    assert [round(contrast(grey, "#ffffff"), 2) for grey in ("#777777", "#767676")] == [4.48, 4.54]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("name", PICTURES)
def test_every_text_of_a_picture_can_be_read(name: str, dark: bool) -> None:
    """Labels of what was not taken are lighter than the others, and no lighter than that."""
    texts = set(told(parsed(PICTURES[name]), dark=dark))
    assert len(texts) > 10
    faint = sorted(
        (round(contrast(item.fill, item.behind), 2), *item)
        for item in texts
        if contrast(item.fill, item.behind) < LEAST
    )
    assert faint == []


def test_the_boxes_of_the_text_forms_can_be_read() -> None:
    """Mermaid's classes and Graphviz's nodes; and Graphviz's edges, whose labels stand on white."""
    for status in STATUSES:
        walk = walked(*STEPS[:3], status=status)
        mermaid = re.findall(
            r"classDef \w+ fill:(#\w{6}),stroke:\S+?,color:(#\w{6})", diagram("mermaid", walk)
        )
        dot = re.findall(r'fillcolor="(#\w{6})".*?fontcolor="(#\w{6})"', diagram("dot", walk))
        edges = [("#ffffff", one) for one in re.findall(r'edge .*fontcolor="(#\w{6})"', diagram("dot", walk))]
        assert mermaid and dot and edges
        assert [pair for pair in (*mermaid, *dot, *edges) if contrast(*pair) < LEAST] == []
