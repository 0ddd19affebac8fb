"""Coverage and the difference of two runs as pictures: the right counts, nothing hidden, nothing on anything else."""

from __future__ import annotations

import html
import importlib
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paor import Journal, coverage, diagram
from paor.audit import Coverage
from paor.errors import UnknownRun, UsageError

from ..explain.test_coverage import Taken, steps
from ..support.effort import examples
from .inside import (
    BETWEEN,
    BOLD,
    EDGES,
    FONT,
    NAME,
    ROWS,
    SCALE,
    SIGN,
    Overlay,
    Parted,
    Rect,
    Row,
    RunWalk,
    Step,
    graph_of,
    layout_of,
    legend_of,
    width_of,
)
from .inside import diagram as picture
from .test_diagram import (
    FORMATS,
    HOSTILE,
    READERS,
    STEPS,
    SVG,
    assert_dot,
    assert_mermaid,
    in_one_row,
    parsed,
    walked,
    walks,
)

DOCS = Path(__file__).parents[2] / "docs"
WORLD = [record for record, _, _ in steps(list(ROWS), dict.fromkeys(row.source for row in ROWS))][::7]
"""Records that the table's machine could make: every seventh of all."""


@st.composite
def coverages(draw: st.DrawFn) -> Coverage:
    taken = draw(st.lists(st.sampled_from(WORLD), max_size=40))
    return coverage(taken)


@st.composite
def partings(draw: st.DrawFn) -> Parted:
    left, right = draw(walks()), draw(walks())
    seq = draw(st.none() | st.integers(0, 10**6))
    source = draw(st.sampled_from(["", *dict.fromkeys(row.source for row in ROWS)]))
    ways = draw(st.tuples(st.none() | st.sampled_from(STEPS), st.none() | st.sampled_from(STEPS)))
    decision = draw(st.none() | st.integers(0, 10**6))
    return Parted("T", left, right, seq, source, draw(st.text()), draw(st.text()), decision, ways)


OVERLAYS = st.none() | walks() | coverages() | partings()


# -- what is told --------------------------------------------------------------------------------------------------


@given(covered=coverages())
@settings(max_examples=examples(25))
def test_a_coverage_shows_every_count_and_dashes_what_was_never_taken(covered: Coverage) -> None:
    counts: dict[Step, int] = {}
    for row in covered.rows:
        key = (row.source, row.trigger, row.dest)
        counts[key] = counts.get(key, 0) + row.count
    for form in ("mermaid", "dot"):
        found = {
            (source, label.partition(" ")[0], dest): label
            for (source, dest), labels in READERS[form](picture(form, covered)).items()
            for label in labels
        }
        for (source, trigger, dest), count in counts.items():
            assert found[source, trigger, dest] == f"{trigger} {f'×{count}' if count else '(never)'}"
    looks = edge_looks(picture("svg", covered))
    taken = {(source, dest) for (source, _, dest), count in counts.items() if count}
    assert {ends for ends, look in looks.items() if look == "walked"} == taken
    assert {ends for ends, look in looks.items() if look == "never"} == {
        (row.source, row.dest) for row in ROWS
    } - taken


@given(covered=coverages())
@settings(max_examples=examples(25))
def test_every_guard_outcome_that_is_missing_stands_in_every_form(covered: Coverage) -> None:
    missing = covered.missing_outcomes
    root = parsed(picture("svg", covered))
    chips = {look: marked(root, look) for look in ("got", "lack")}  # the legend has one of each
    assert len(chips["lack"]) - 1 == len(missing)
    assert len(chips["got"]) - 1 == len(covered.possible) - len(missing)
    told = " ".join(legend_of(covered))
    assert sum(told.count(word) for word in (" true", " false")) == len(missing)
    assert told.count("never taken") == len(covered.missing_rows)
    dot = html.unescape(picture("dot", covered))
    mermaid = picture("mermaid", covered)
    for place, guard, value in missing:
        row = covered.rows[place]
        assert f"{guard} {str(value).lower()}" in mermaid
        assert re.search(
            rf"{row.source} {row.trigger} to {row.dest}: [^\\]*{guard} {str(value).lower()}", dot
        )


def test_everything_that_was_seen_is_said_to_be_seen() -> None:
    world = [record for record, _, _ in steps(list(ROWS), dict.fromkeys(row.source for row in ROWS))]
    covered = coverage(world)
    assert covered.percent == 100
    assert legend_of(covered) == ["everything was seen"]
    assert "        everything was seen\n    end note\n" in picture("mermaid", covered)
    assert "never seen" not in picture("mermaid", covered)
    assert len(marked(parsed(picture("svg", covered)), "lack")) == 1
    assert set(edge_looks(picture("svg", covered)).values()) == {"walked"}


@given(parted=partings())
@settings(max_examples=examples(40))
def test_a_difference_shows_whose_each_edge_is_and_how_often(parted: Parted) -> None:
    left, right = parted.left.counts, parted.right.counts
    ends = [{(source, dest) for source, _, dest in counts} for counts in (left, right)]
    looks = edge_looks(picture("svg", parted))
    assert {edge for edge, look in looks.items() if look == "both"} == ends[0] & ends[1]
    assert {edge for edge, look in looks.items() if look == "left"} == ends[0] - ends[1]
    assert {edge for edge, look in looks.items() if look == "right"} == ends[1] - ends[0]
    for form in ("mermaid", "dot"):
        labels = READERS[form](picture(form, parted))
        for source, trigger, dest in {**left, **right}:
            one, two = left.get((source, trigger, dest), 0), right.get((source, trigger, dest), 0)
            told = [f"A ×{one}"] * bool(one) + [f"B ×{two}"] * bool(two)
            expected = f"{trigger} ×{one}" if one == two else f"{trigger} {', '.join(told)}"
            assert expected in labels[source, dest]


def test_a_difference_tells_both_runs_their_ends_the_place_and_the_cause() -> None:
    way = ("Specifying", "refuse", "Observing")
    parted = Parted(
        "Tell the customer",
        walked(*STEPS[:3], title="run-one", state="Done", status="done", reason="model_stop"),
        walked(*STEPS[:2], title="run-two", state="Failed", status="failed", reason="stuck"),
        8,
        "Specifying",
        "answer: a person answered otherwise",
        "what a person answered differs",
        9,
        (way, None),
    )
    for form in FORMATS:
        text = html.unescape(picture(form, parted)).replace("<br/>", " ")
        for word in (
            *("run-one", "run-two", "model_stop", "stuck", "row 8", "Specifying", "Tell the customer"),
            *("answer: a person answered otherwise", "what a person answered differs"),
            "row 9: A takes refuse to Observing, B has no such row",
        ):
            assert word in text, (form, word)
    root = parsed(picture("svg", parted))
    boxes = {
        next(group.iter(f"{SVG}text")).text: [text.text for text in group.iter(f"{SVG}text")][1:]
        for group in marked(root, "node")
    }
    assert boxes["Specifying"] == ["≠ row 8"] and boxes["Done"] == ["A"] and boxes["Failed"] == ["B"]
    assert boxes["Planning"] == []


def test_identical_runs_are_said_to_be_identical() -> None:
    walk = walked(*STEPS[:2], title="one")
    parted = Parted("T", walk, walk, None, "", "", "", None)
    assert all("identical" in picture(form, parted) for form in FORMATS)
    assert not {"left", "right"} & set(edge_looks(picture("svg", parted)).values())
    assert "≠" not in picture("svg", parted)


def test_the_machine_lists_its_guards_in_the_order_in_which_they_are_tried() -> None:
    root = parsed(picture("svg"))
    for phase in dict.fromkeys(row.source for row in ROWS):
        (block,) = [
            group
            for group in root.iter(f"{SVG}g")
            if group.get("transform") and next(group.iter(f"{SVG}text")).text == phase
        ]
        shown = " ".join("".join(text.itertext()) for text in block.iter(f"{SVG}text"))
        rows = sorted((row for row in ROWS if row.source == phase), key=lambda row: row.answers)
        place = 0
        for number, row in enumerate(rows, start=1):
            waits = " (waiting)" if row.answers else ""
            words = f"{number} {row.trigger} → {row.dest}{waits} {' '.join(row.guards) or 'always'}"
            place = shown.index(words, place) + len(words)


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
    assert "A: run one, done · model_stop, 1 transition" in texts
    assert "B: run two, Specifying, waiting, 1 transition" in texts


# -- geometry ------------------------------------------------------------------------------------------------------


@given(overlay=OVERLAYS)
@settings(max_examples=examples(40))
def test_no_text_lies_on_another_one_or_outside_the_picture(overlay: Overlay | None) -> None:
    """All texts of the whole picture, as wide as they are estimated; the estimate is on the safe side."""
    root = parsed(picture("svg", overlay))
    width, height = float(root.get("width", "0")), float(root.get("height", "0"))
    found = list(text_rects(root))
    for (one, rect), (two, other) in combinations(found, 2):
        assert not rect.meets(other), (one, two)
    for text, rect in found:
        assert rect.x >= 0 and rect.right <= width and rect.y >= 0 and rect.low <= height, text
    for group in marked(root, "node"):
        rim = next(group.iter(f"{SVG}rect"))
        x, y, wide, high = (float(rim.get(name, "0")) for name in ("x", "y", "width", "height"))
        for text, rect in text_rects(group):
            assert rect.x >= x and rect.right <= x + wide and rect.y >= y and rect.low <= y + high, text


@pytest.mark.parametrize("count", [1, 999, 9_999, 100_000])
def test_long_runs_keep_the_layout(count: int) -> None:
    one = RunWalk("all", dict.fromkeys(STEPS, count), "Reviewing", "running", None)
    assert in_one_row(layout_of(graph_of(ROWS, one)))
    few = RunWalk("few", {step: count - 1 for step in STEPS[2:]}, "Planning", "running", None)
    text = picture("svg", Parted("T", one, few, 3, "Planning", "c", "d", 4))
    assert parsed(text).get("viewBox", "").split()[2] == "906"


NAMES = st.text(min_size=1, max_size=300) | st.sampled_from(["Planning", "Failed", "ラベル" * 40, "W" * 200])
TABLES = st.lists(
    st.builds(Row, NAMES, NAMES, NAMES, st.lists(NAMES, max_size=3).map(tuple), st.just("")), max_size=9
)


@pytest.mark.whole
@given(rows=TABLES, data=st.data())
@settings(max_examples=examples(50))
def test_any_table_is_drawn_with_every_overlay(rows: list[Row], data: st.DataObject) -> None:
    taken = [Taken(0, row.source, row.trigger, row.dest, {}) for row in rows]
    some = data.draw(st.lists(st.sampled_from(taken), max_size=5)) if taken else []
    walk = walked(*((row.source, row.trigger, row.dest) for row in some))
    for overlay in (
        coverage(some, rows=rows),
        Parted("P", walk, walked(), 0, "nowhere", "c", "d", 0),
    ):
        root = parsed(picture("svg", overlay, rows=rows))
        width = float(root.get("width", "0"))
        rects = list(text_rects(root))
        assert all(rect.right <= width for _, rect in rects)
        assert not any(one.meets(two) for (_, one), (_, two) in combinations(rects, 2))
        assert_mermaid(picture("mermaid", overlay, rows=rows))
        assert_dot(picture("dot", overlay, rows=rows))


# -- form ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_that_somebody_wrote_breaks_out(text: str) -> None:
    rows = [Row(text or "x", text, "end", (text or "g",), text), Row("state", "go", "note", (), "")]
    foreign = Taken(0, text, text or "t", text, {})
    for overlay in (
        coverage([foreign], rows=rows),
        coverage([foreign]),
        Parted(
            text,
            walked(*STEPS[:2], title=text, reason=text),
            walked(*STEPS[:3], title=text, status=text),
            1,
            "Planning",
            text,
            text,
            2,
            ((text, text, text), None),
        ),
    ):
        for form in FORMATS:
            assert "<script" not in picture(form, overlay) or form == "dot"
        root = parsed(picture("svg", overlay))
        assert not any(element.tag.endswith(("script", "a", "image", "use")) for element in root.iter())
        assert_mermaid(picture("mermaid", overlay))
        assert_dot(picture("dot", overlay))


@given(overlay=OVERLAYS)
@settings(max_examples=examples(25))
def test_every_overlay_is_told_in_words_without_scripts_or_references(overlay: Overlay | None) -> None:
    text = picture("svg", overlay)
    root = parsed(text)
    assert root.get("role") == "img" and root.findtext(f"{SVG}title")
    described = root.findtext(f"{SVG}desc") or ""
    assert all(line in described for line in legend_of(overlay))
    plainly = re.sub(r"<(title|desc|text|tspan)\b[^>]*>[^<]*", "", text)
    assert not re.search(r"href|url\(|@import|javascript|\bon\w+=", plainly)
    ids = [element.get("id") for element in root.iter() if element.get("id")]
    assert ids == ["paor-title", "paor-desc"]


def test_pictures_of_the_docs_are_what_is_drawn_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """Golden bytes: ``python docs/generate.py`` writes them."""
    monkeypatch.syspath_prepend(str(DOCS))
    made: dict[str, str] = importlib.import_module("pictures").pictures()
    for name, text in made.items():
        if name.endswith(".svg"):
            assert (DOCS / name).read_text(encoding="utf-8") == text, f"{name}: run python docs/generate.py"
            assert len(text) < 50_000


@pytest.mark.whole
def test_the_same_journal_gives_the_same_bytes_in_every_process(tmp_path: Path) -> None:
    """Under different orders of hashes."""
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); from pictures import *\n"
        "from pathlib import Path; from paor.fsm.diagrams.overlays import coverage_of\n"
        "path = Path(sys.argv[2]); one, other = record(path)\n"
        "with Journal(path, read_only=True) as journal:\n"
        "    for form in ('mermaid', 'dot', 'svg'):\n"
        "        print(diagram(form=form), diagram(journal, one, form=form))\n"
        "        found = coverage_of(journal.reader)\n"
        "        print(diagram(coverage=found, form=form), found.wire_json())\n"
        "        print(diagram(journal, one, diff=other, form=form))\n"
    )
    said = [
        subprocess.run(
            [sys.executable, "-c", program, str(DOCS), str(tmp_path / f"{seed}.db")],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            timeout=120,
        ).stdout
        for seed in ("0", "4711")
    ]
    assert said[0] == said[1] and len(said[0]) > 100_000


def arrows(text: str) -> list[tuple[str, str]]:
    """The arrows of a Mermaid text in the order in which Mermaid numbers them."""
    return re.findall(r"^    (\S+) --> ([^\s:]+)", text, re.MULTILINE)


@given(overlay=walks() | coverages() | partings())
@settings(max_examples=examples(40))
def test_mermaid_gives_every_edge_the_look_that_it_has_in_the_other_forms(overlay: Overlay) -> None:
    """By its number, which is that of its arrow: a number too far would colour the neighbour."""
    text = picture("mermaid", overlay)
    looks = {}
    for look, (colour, width, dashes) in EDGES.items():
        style = f"stroke:{colour}; stroke-width:{width}px" + (
            f"; stroke-dasharray:{dashes}" if dashes else ""
        )
        for rule in re.findall(rf"^    (.*) \{{{re.escape(style)}\}}$", text, re.MULTILINE):
            for number in re.findall(r"edge(\d+)", rule):
                looks[arrows(text)[int(number)]] = look
    assert looks == edge_looks(picture("svg", overlay))


# -- from Python ---------------------------------------------------------------------------------------------------


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Journal, str, str]]:
    """A journal with two runs that differ."""
    monkeypatch.syspath_prepend(str(DOCS))
    one, other = importlib.import_module("pictures").record(tmp_path / "shop.db")
    with Journal(tmp_path / "shop.db", read_only=True) as journal:
        yield journal, one, other


def test_diagram_takes_a_run_a_coverage_or_two_runs(shop: tuple[Journal, str, str]) -> None:
    journal, one, other = shop
    assert diagram() == diagram(form="mermaid") == picture("mermaid")
    assert "Where is order O-1004" in diagram(journal, one, form="svg")
    found = coverage(row for run in (one, other) for row in journal.transitions(run))
    assert f"{found.percent} %" in diagram(coverage=found, form="svg")
    assert "a person answered otherwise" in diagram(journal, one, diff=other)
    assert diagram(journal, one, diff=other) == diagram(journal, one, diff=other, other=journal)
    assert "identical" in diagram(journal, one, diff=one)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"form": "png"}, "expected one of mermaid, dot, svg"),
        ({"coverage": {}}, "takes a Coverage"),
        ({"coverage": Coverage.empty(), "run": "last"}, "not two of them"),
        ({"diff": "last"}, "second run"),
        ({"run": "last"}, "takes a Journal"),
        ({"run": "last", "journal": "shop.db"}, "takes a Journal"),
    ],
)
def test_what_does_not_go_together_is_a_usage_error(given: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        diagram(**given)


def test_a_run_that_is_not_there_is_unknown(shop: tuple[Journal, str, str]) -> None:
    journal, one, _ = shop
    for named in ({"run": "nobody"}, {"run": one, "diff": "nobody"}, {"run": 17}):
        with pytest.raises(UnknownRun):
            diagram(journal, **named)


# -- reading pictures ----------------------------------------------------------------------------------------------


def marked(root: ET.Element, look: str) -> list[ET.Element]:
    """Return the groups of a class."""
    return [group for group in root.iter(f"{SVG}g") if look in group.get("class", "").split()]


def edge_looks(text: str) -> dict[tuple[str, str], str]:
    """Return how each edge is drawn."""
    found = {}
    for group in marked(parsed(text), "edge"):
        source, dest = (group.findtext(f"{SVG}title") or "").splitlines()[0].split(" → ")
        found[source, dest] = group.get("class", "").split()[-1]
    return found


SIZES = {
    "title": 18,
    "name": NAME,
    "pill": 13,
    "label": FONT,
    "below": SIGN,
    "head2": 14,
    "small": 11,
    "tiny": 10,
}
HEAVY = {"title", "name", "pill", "head2", "strong", "used"}
MIDDLE = {"mid", "name", "pill", "below"}


def text_rects(root: ET.Element, x: float = 0, y: float = 0, scale: float = 1) -> Iterator[tuple[str, Rect]]:
    """Yield every text with the room that it takes, as estimated."""
    moved = re.match(r"translate\(([\d.-]+) ([\d.-]+)\)", root.get("transform", ""))
    x, y = (x + float(moved[1]), y + float(moved[2])) if moved else (x, y)
    scale *= SCALE if "scale" in root.get("transform", "") else 1
    if root.tag == f"{SVG}text":
        words, own = "".join(root.itertext()), root.get("class", "").split()
        size = next((SIZES[look] for look in own if look in SIZES), 12)
        wide = scale * sum(
            width_of(part, (SIGN if sign else size) * (BOLD if bold else 1)) + BETWEEN * sign
            for part, bold, sign in _parts(root, bool(HEAVY & set(own)))
        )
        left = x + scale * float(root.get("x", "0"))
        middle = root.get("text-anchor") == "middle" or MIDDLE & set(own)
        left -= wide / 2 if middle else wide if "end" in own or root.get("text-anchor") == "end" else 0
        base = y + scale * float(root.get("y", "0"))
        yield words, Rect(left, base - scale * size * 0.75, wide, scale * size * 0.95)
    for child in root:
        yield from text_rects(child, x, y, scale)


def _parts(text: ET.Element, bold: bool) -> Iterator[tuple[str, bool, bool]]:
    """Yield the parts of a text, whether each is bold, and whether it is a sign."""
    yield text.text or "", bold, False
    for part in text:
        look = part.get("class", "")
        sign = look in ("times", "place", "left", "right")
        yield part.text or "", sign or "strong" in look, sign
        yield part.tail or "", bold, False
