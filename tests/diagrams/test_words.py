"""What a reader's eye meets in an SVG: letters that can be read on their ground, and words that are there once."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest

from paor.fsm.diagrams.render import Parted
from paor.fsm.diagrams.render import diagram as picture
from paor.fsm.diagrams.svg import CSS

from .test_diagram import STEPS, SVG, parsed, walked

LIGHT, DARK = CSS.split("@media(prefers-color-scheme:dark)")
RULE = re.compile(r"([^{}]+)\{([^{}]+)\}")


def colour(sheet: str, wanted: str, *path: ET.Element) -> str:
    """Return what *sheet* gives the last element of *path*: the most specific rule, of equals the last."""
    best, found = (-1, -1), ""
    for selectors, body in RULE.findall(sheet):
        told = dict(part.split(":", 1) for part in body.split(";"))
        for parts in (selector.split() for selector in selectors.split(",")):
            weight = (".".join(parts).count("."), sum(not part.startswith(".") for part in parts))
            if wanted in told and reaches(parts, path) and weight >= best:
                best, found = weight, told[wanted]
    return found


def reaches(parts: list[str], path: tuple[ET.Element, ...]) -> bool:
    """Return whether a descendant selector means the last element."""
    if not fits(parts[-1], path[-1]):
        return False
    above = iter(path[:-1])
    return all(any(fits(part, element) for element in above) for part in parts[:-1])


def fits(part: str, element: ET.Element) -> bool:
    tag, *classes = part.split(".")
    return tag in ("", element.tag.removeprefix(SVG)) and set(classes) <= set(
        element.get("class", "").split()
    )


def contrast(one: str, two: str) -> float:
    """Return the contrast of two colours as WCAG 2 defines it, 1 to 21."""

    def light(text: str) -> float:
        parts = [int(text[place : place + 2], 16) / 255 for place in (1, 3, 5)]
        red, green, blue = (x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    low, high = sorted((light(one), light(two)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("sheet", [LIGHT, LIGHT + DARK.strip("{}") + "}"], ids=["light", "dark"])
@pytest.mark.parametrize("status", ["running", "waiting", "done", "failed"])
def test_letters_in_the_boxes_of_two_runs_can_be_read(sheet: str, status: str) -> None:
    """On a light and on a dark page, whatever colour the box has."""
    walk = walked(*STEPS[:1], state=STEPS[0][2], status=status)
    root = parsed(picture("svg", Parted("T", walk, walk, None, "", "", "", None)))
    box = next(group for group in root.iter(f"{SVG}g") if f"phase {status}" == group.get("class"))
    badges = [mark for mark in box.iter(f"{SVG}rect") if "badge" in mark.get("class", "").split()]
    letters = [mark for mark in box.iter(f"{SVG}text") if "tag" in mark.get("class", "").split()]
    assert [mark.text for mark in letters] == ["A", "B"] and len(badges) == 2
    for badge, letter in zip(badges, letters, strict=True):
        ground = colour(sheet, "fill", root, box, badge)
        assert contrast(ground, colour(sheet, "fill", root, box, letter)) >= 4.5
        assert contrast(ground, colour(sheet, "stroke", root, box, badge)) >= 3


def test_a_run_says_its_kinds_and_a_title_that_shows_nothing_gets_one() -> None:
    """A word joiner alone is an objective, too."""
    walk = walked(*STEPS[:2], *STEPS[:1], title="\u2060", status="failed", reason="stuck")
    texts = [text.text for text in parsed(picture("svg", walk)).iter(f"{SVG}text")][:2]
    assert texts[0] == "A run" and texts[1] is not None
    assert texts[1].startswith("3 transitions of 2 kinds; the table has ")


def test_how_two_runs_ended_is_said_once() -> None:
    """Done is done; where a run waits is another thing than that it waits."""
    done = walked(*STEPS[:1], title="one", state="Done", status="done", reason="model_stop")
    waits = walked(*STEPS[:1], title="two", state="Specifying", status="waiting")
    root = parsed(picture("svg", Parted("T", done, waits, None, "", "", "", None)))
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert "done · model_stop, 1 transition" in texts
    assert "Specifying, waiting, 1 transition" in texts
