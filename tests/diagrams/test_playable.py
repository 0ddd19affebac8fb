"""The compact picture that a page plays: every row has its parts, nothing lies on anything, and nothing in it can act."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paor import Machine, Phase
from paor.errors import UsageError

from ..own_machine.test_machine_examples import NAMES, engine_of, examples  # noqa: F401  # a fixture
from ..support import effort
from .drawn_machines import MACHINES, machines
from .inside import BOLD, FONT, NAME, SIGN, Playable, Rect, Row, graph_of, playable, playable_graph, width_of

SVG = "{http://www.w3.org/2000/svg}"
MADE = {"standard": Machine.standard, **MACHINES}
MOST = "×999"
"""The widest count that a place has room for."""
TAGS = {"svg", "g", "path", "rect", "circle", "text", "tspan", "title"}
ATTRIBUTES = {
    "svg": {"class", "viewBox", "font-size", "role", "aria-label"},
    "g": {"id", "class"},
    "path": {"id", "class", "d"},
    "rect": {"class", "x", "y", "width", "height", "rx"},
    "circle": {"class", "cx", "cy", "r"},
    "text": {"id", "class", "x", "y", "text-anchor", "font-size", "font-weight"},
    "tspan": {"id", "class", "dx"},
    "title": set[str](),
}


@st.composite
def odd_machines(draw: st.DrawFn) -> Machine:
    """A machine with up to eight own phases, and with names as long as they may be."""
    machine = Machine.standard()
    phases = st.from_regex(r"\A[A-Z][A-Za-z0-9]{0,39}\Z").filter(lambda name: name not in machine.states)
    asks: list[dict[str, Any]] = [{}, {"question": "Why?"}, {"tool": "tests.run"}]
    names = draw(st.lists(phases, unique=True, max_size=8))
    for place, name in enumerate(names):
        own = Phase(name, **draw(st.sampled_from(asks)))
        machine = machine.phase(own, initial=place == 0 and draw(st.booleans()))
    ends = ["Planning", "Specifying", "Reviewing", *names]
    for number in range(draw(st.integers(0, 10))):
        trigger = draw(st.from_regex(r"\A[a-z][a-z0-9_]{0,36}\Z")) + str(number)
        source = draw(st.sampled_from(ends))
        dest = draw(st.sampled_from([*ends, "Failed", *(["Done"] * (source not in ends[:2]))]))
        machine = machine.row(source, trigger, dest, when="succeeded")
    return machine


def steps_of(machine: Machine) -> set[str]:
    """But for those of paor's own that a gate has turned, which no run takes."""
    gates = machine.host.gates
    rows = (row for row in machine.rows if row.host or gates.get(row.dest, row.source) == row.source)
    return {f"{row.source}|{row.trigger}|{row.dest}" for row in rows}


def parsed(picture: Playable) -> ET.Element:
    return ET.fromstring(picture.svg)


def by_id(root: ET.Element) -> dict[str, ET.Element]:
    found = [(item.get("id"), item) for item in root.iter() if item.get("id")]
    assert len(found) == len({name for name, _ in found}), "an id stands twice"
    return {str(name): item for name, item in found}


def looks(item: ET.Element) -> list[str]:
    return item.get("class", "").split()


def number(item: ET.Element, name: str) -> float:
    return float(item.get(name, "0"))


# -- ids -----------------------------------------------------------------------------------------------------------


def assert_every_part(machine: Machine, picture: Playable) -> None:
    parts = by_id(parsed(picture))
    assert set(picture.edges) == steps_of(machine)
    assert set(picture.nodes) == set(machine.states)
    for step, ids in picture.edges.items():
        source, trigger, dest = step.split("|")
        edge, line, label, count = (parts[name] for name in ids)
        assert "edge" in looks(edge) and line in list(edge) and "line" in looks(line)
        assert "label" in looks(label) and label.tag == f"{SVG}text"
        shown = label.text or "".join(part.tail or "" for part in label.iter(f"{SVG}title"))
        assert shown == trigger or (shown.endswith("…") and label[0].text == trigger)
        assert "count" in looks(count) and count.text is None
        assert all(
            line is not parts[other[1]] for key, other in picture.edges.items() if ends(key) != ends(step)
        )
        assert (source, dest) == ends(step)
    labels = [ids[2] for ids in picture.edges.values()] + [ids[3] for ids in picture.edges.values()]
    assert len(labels) == len(set(labels))
    for phase, name in picture.nodes.items():
        node = parts[name]
        shown = "".join(text.text or "" for text in node.iter(f"{SVG}text"))
        assert "node" in looks(node) and shown == phase
        assert ("own" in looks(node)) == (phase in machine.host.phases)
        assert ("end" in looks(node)) == (phase in ("Done", "Failed"))
        assert ("start" in looks(node)) == (phase == machine.host.initial)
    used = {*picture.nodes.values(), *(name for ids in picture.edges.values() for name in ids)}
    assert used == set(parts) and all(name.startswith("m-") for name in parts)


def ends(step: str) -> tuple[str, str]:
    source, _, dest = step.split("|")
    return source, dest


@pytest.mark.parametrize("name", MADE)
def test_every_row_and_every_phase_has_its_parts(name: str) -> None:
    machine = MADE[name]()
    assert_every_part(machine, playable(machine))


@pytest.mark.whole
@given(machine=machines() | odd_machines())
@settings(max_examples=effort.examples(40), deadline=None)
def test_any_own_machine_has_its_parts_and_room_for_them(machine: Machine) -> None:
    """With many phases and long names, too; and nothing in it can act."""
    picture = playable(machine)
    assert_every_part(machine, picture)
    assert_nothing_on_anything(picture)
    assert_lines_lead_from_phase_to_phase(picture)
    assert_harmless(picture)


def test_what_is_the_hosts_own_is_said_to_be() -> None:
    machine = MACHINES["verifying"]()
    picture = playable(machine)
    parts = by_id(parsed(picture))
    for row in machine.rows:
        ids = picture.edges[f"{row.source}|{row.trigger}|{row.dest}"]
        assert ("own" in looks(parts[ids[2]])) == row.host, row
    assert "own" not in playable(Machine.standard()).svg


# -- geometry ------------------------------------------------------------------------------------------------------


class Piece(NamedTuple):
    """A straight piece of the line of an edge."""

    edge: str
    rect: Rect


def points_of(line: ET.Element) -> list[tuple[float, float]]:
    """Return the points of a line; of a round corner some that lie on it."""
    points: list[tuple[float, float]] = []
    for sign, told in re.findall(r"([MLQ])([^MLQZ]+)", line.get("d", "")):
        x, y, *end = map(float, told.split())
        if sign == "Q":
            (x0, y0), (x2, y2) = points[-1], end
            for t in (step / 12 for step in range(1, 13)):
                near, bend, far = (1 - t) ** 2, 2 * t * (1 - t), t * t
                points.append((near * x0 + bend * x + far * x2, near * y0 + bend * y + far * y2))
        else:
            points.append((x, y))
    return points


def pieces_of(root: ET.Element) -> Iterator[Piece]:
    for group in root.iter(f"{SVG}g"):
        if "edge" in looks(group):
            for (x1, y1), (x2, y2) in pairwise(points_of(group[0])):
                left, top = min(x1, x2), min(y1, y2)
                yield Piece(
                    str(group.get("id")), Rect(left - 0.7, top - 0.7, abs(x1 - x2) + 1.4, abs(y1 - y2) + 1.4)
                )


def texts_of(root: ET.Element) -> Iterator[tuple[str, Rect]]:
    """Yield every label and count with the room that it takes at most: bold, with the widest count."""
    for text in root.iter(f"{SVG}text"):
        if "name" in looks(text):
            continue
        words = (text.text or "") + "".join(part.tail or "" for part in text.iter(f"{SVG}title"))
        wide = width_of(words, FONT * BOLD)
        if "count" in looks(text):
            words, wide = MOST, width_of(MOST, SIGN)
        for part in text.iter(f"{SVG}tspan"):
            words, wide = words + MOST, wide + number(part, "dx") + width_of(MOST, SIGN)
        left = (
            number(text, "x") - wide * {"start": 0, "middle": 0.5, "end": 1}[text.get("text-anchor", "start")]
        )
        yield words, Rect(left, number(text, "y") - 9.5, wide, 12.5)


def boxes_of(root: ET.Element) -> dict[str, Rect]:
    found = {}
    for group in root.iter(f"{SVG}g"):
        if "node" in looks(group):
            rim = next(item for item in group if "rim" in looks(item))
            found[str(group.get("id"))] = Rect(*(number(rim, name) for name in ("x", "y", "width", "height")))
    return found


def assert_nothing_on_anything(picture: Playable) -> None:
    root = parsed(picture)
    _, _, width, height = map(float, root.get("viewBox", "").split())
    texts, pieces, boxes = list(texts_of(root)), list(pieces_of(root)), boxes_of(root)
    for words, rect in texts:
        assert rect.x > -1 and rect.right < width + 1 and rect.y > -1 and rect.low < height + 1, words
        assert not any(rect.meets(box) for box in boxes.values()), words
        assert not [piece for piece in pieces if rect.meets(piece.rect)], words
    for (one, rect), (two, other) in combinations(texts, 2):
        assert not rect.meets(other), (one, two)
    for one_box, two_box in combinations(boxes.values(), 2):
        assert not one_box.meets(two_box)
    for box in boxes.values():
        assert box.x >= 0 and box.right <= width and box.y >= 0 and box.low <= height
    for group in root.iter(f"{SVG}g"):
        if "node" in looks(group):
            for text in group.iter(f"{SVG}text"):
                wide = width_of(text.text or "", NAME * BOLD)
                assert wide <= boxes[str(group.get("id"))].width, text.text


def assert_lines_lead_from_phase_to_phase(picture: Playable) -> None:
    """A line begins at the rim of its source and its head ends at that of its destination, and runs through no other."""
    root = parsed(picture)
    parts, boxes = by_id(root), boxes_of(root)
    for step, ids in picture.edges.items():
        source, dest = (boxes[picture.nodes[name]] for name in ends(step))
        tip = points_of(parts[ids[0]][1])[0]
        for box, (x, y) in ((source, points_of(parts[ids[1]])[0]), (dest, tip)):
            level = abs(y - box.y) < 0.2 or abs(y - box.low) < 0.2
            beside = abs(x - box.x) < 0.2 or abs(x - box.right) < 0.2
            assert (level and box.x < x < box.right) or (beside and box.y < y < box.low), step
    for piece in pieces_of(root):
        inner = (Rect(box.x + 1.5, box.y + 1.5, box.width - 3, box.height - 3) for box in boxes.values())
        assert not any(piece.rect.meets(box) for box in inner), piece


@pytest.mark.parametrize("name", MADE)
def test_no_text_lies_on_a_text_a_line_or_a_phase(name: str) -> None:
    picture = playable(MADE[name]())
    assert_nothing_on_anything(picture)
    assert_lines_lead_from_phase_to_phase(picture)


@pytest.mark.parametrize("name", NAMES)
def test_the_machines_of_the_examples_are_drawn(name: str, tmp_path: Path) -> None:
    with engine_of(name, tmp_path) as engine:
        picture = playable(engine.machine)
        assert_every_part(engine.machine, picture)
    assert_nothing_on_anything(picture)
    assert_lines_lead_from_phase_to_phase(picture)


def test_a_column_has_room_for_any_table() -> None:
    """A table that the fixed drawing has no place for: a way to Executing from elsewhere."""
    rows = (*Machine.standard().rows, Row("Reviewing", "again", "Executing", (), "back"))
    picture = playable_graph(graph_of(rows))
    assert "Reviewing|again|Executing" in picture.edges
    assert_nothing_on_anything(picture)
    assert_lines_lead_from_phase_to_phase(picture)


def test_it_fits_beside_two_other_columns() -> None:
    """At its natural size, where the text is 11.5 px and more; with one own phase or two, too."""
    assert FONT >= 11.5 and NAME <= 13
    for name in ("standard", "verifying", "escalating", "reviewers", "triage", "guarded"):
        width = float(parsed(playable(MADE[name]())).get("viewBox", "").split()[2])
        assert 640 <= width <= 700, (name, width)


def test_the_places_have_room_for_four_characters() -> None:
    """For each form in which a page writes a count, to a pixel."""
    room = width_of(MOST, SIGN) + 1
    assert all(width_of(text, SIGN) <= room for text in ("×1", "×99", "×1k", "×99k", "×.9M", "×9M"))


# -- what is in it -------------------------------------------------------------------------------------------------


def assert_harmless(picture: Playable) -> None:
    root = parsed(picture)
    assert root.get("role") == "img" and root.get("aria-label")
    for item in root.iter():
        tag = item.tag.removeprefix(SVG)
        assert tag in TAGS and set(item.keys()) <= ATTRIBUTES[tag], (tag, item.keys())
    assert "xlink" not in picture.svg and "url(" not in picture.svg and "<!" not in picture.svg
    assert not re.search(r"#[0-9a-f]{3,6}\b|rgb|fill|stroke", picture.svg)


HOSTILE = [
    "</text><script>alert(1)</script>",
    '" onload="alert(1)',
    "<![CDATA[x]]>",
    "&lt;b&gt;&amp;",
    "a\u202eb\u2028c\x1b[31md\x00e",
    "\ud800",
    "W" * 400,
]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_names_are_impossible_in_a_machine_and_harmless_in_a_table(text: str) -> None:
    with pytest.raises(UsageError):
        Machine.standard().phase(Phase(text))
    with pytest.raises(UsageError):
        Machine.standard().row("Planning", text, "Done", when="succeeded")
    rows = (
        Row("Planning", text, "Done", (), text),
        Row(text, "on", "Planning", (), ""),
        Row(text, text, text, (), ""),
    )
    picture = playable_graph(graph_of(rows))
    assert_harmless(picture)
    assert picture.svg.encode()


# -- in a browser --------------------------------------------------------------------------------------------------
