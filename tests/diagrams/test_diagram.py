"""The diagrams: nothing of the table is missing, nothing overlaps, and no title can break out of them."""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ..support.effort import examples
from .inside import (
    INITIAL,
    ROWS,
    Format,
    Layout,
    Row,
    RunWalk,
    count_text,
    cut,
    diagram,
    graph_of,
    heading,
    layout_of,
    plain,
    status_of,
    walk_of,
    width_of,
)

FORMATS: tuple[Format, ...] = get_args(Format)
SVG = "{http://www.w3.org/2000/svg}"
DOCS = Path(__file__).parents[2] / "docs"
FINAL = {row.dest for row in ROWS} - {row.source for row in ROWS}
STEPS = tuple(dict.fromkeys((row.source, row.trigger, row.dest) for row in ROWS))
USER = (
    Row("draft", "submit", "in review", ("complete",), "sent"),
    Row("draft", "save", "draft", (), "kept"),
    Row("draft", "autosave", "draft", ("idle",), "kept"),
    Row("in review", "approve", "published", (), "fine"),
    Row("in review", 'reject: "no"; [x] #1;', "draft", ("not fine",), "<b>back</b> | again"),
    Row("draft", "publish", "published", ("admin",), "at once"),
    Row("published", "retract", "Failed", (), "gone"),
)
HOSTILE = (
    "<script>alert(1)</script>",
    "quote \" and ' and \\",
    "two\nlines\r\nand\ta tab",
    "--> [*] : %%{init: {}}%%",
    "]]> & &amp; <!-- -->",
    "\x00\x1b[31m\ud800\u202e\u2028",
    "---\ntitle: other\n---\nflowchart",
    "``` `x` | #35; #quot;",
    "日本語のとても長いタイトル" * 20,
    "",
)


class Taken(NamedTuple):
    source: str
    trigger: str
    dest: str


def walked(*steps: tuple[str, str, str], **given: Any) -> RunWalk:
    known = {
        "title": "A run",
        "state": steps[-1][2] if steps else INITIAL,
        "status": "running",
        "reason": None,
    }
    return walk_of([Taken(*step) for step in steps], **{**known, **given})


@st.composite
def walks(draw: st.DrawFn) -> RunWalk:
    """A random way through the table, at most 60 rows long."""
    at, steps = INITIAL, []
    for _ in range(draw(st.integers(0, 60))):
        ways = [step for step in STEPS if step[0] == at]
        if not ways:
            break
        steps.append(draw(st.sampled_from(ways)))
        at = steps[-1][2]
    status = draw(st.sampled_from(["running", "waiting", "done", "failed", "odd"]))
    return walked(*steps, state=at, title=draw(st.text()), status=status, reason=draw(st.none() | st.text()))


def geometry(walk: RunWalk | None = None, rows: tuple[Row, ...] = ROWS) -> Layout:
    return layout_of(graph_of(rows, walk))


def parsed(text: str) -> ET.Element:
    return ET.fromstring(text.encode())


def mermaid_edges(text: str) -> dict[tuple[str, str], list[str]]:
    found = re.findall(r"^    (\w+) --> (\w+) : (.*)$", text, re.MULTILINE)
    names = {alias: name for name, alias in re.findall(r'^    state "(.*)" as (\w+)$', text, re.MULTILINE)}
    return {(names.get(a, a), names.get(b, b)): label.split("<br/>") for a, b, label in found}


def dot_edges(text: str) -> dict[tuple[str, str], list[str]]:
    found = re.findall(r'^    "(.*?)" -> "(.*?)" \[label="((?:[^"\\]|\\.)*)"', text, re.MULTILINE)
    return {(source, dest): [line.strip() for line in label.split("\\n")] for source, dest, label in found}


def svg_edges(text: str) -> dict[tuple[str, str], list[str]]:
    edges = {}
    for group in parsed(text).iter(f"{SVG}g"):
        if "edge" in group.get("class", "").split():
            source, dest = (group.findtext(f"{SVG}title") or "").splitlines()[0].split(" → ")
            names = [
                (mark.text or "").strip()
                for mark in group.iter(f"{SVG}text")
                if "label" in str(mark.get("class"))
            ]
            edges[source, dest] = [name for name in names if name]
    return edges


READERS = {"mermaid": mermaid_edges, "dot": dot_edges, "svg": svg_edges}


# -- derived from the table ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("walk", [None, walked()])
def test_every_row_is_in_every_form_once(form: Format, walk: RunWalk | None) -> None:
    """One edge per source and dest, one label per trigger on it, and nothing that the table does not have."""
    edges = READERS[form](diagram(form, walk))
    assert set(edges) == {(row.source, row.dest) for row in ROWS}
    for (source, dest), labels in edges.items():
        triggers = [re.split(r" [\[×]", label)[0] for label in labels]
        assert triggers == list(
            dict.fromkeys(r.trigger for r in ROWS if (r.source, r.dest) == (source, dest))
        )


@pytest.mark.parametrize("form", ["mermaid", "dot"])
def test_the_text_forms_show_all_guards(form: Format) -> None:
    text = diagram(form)
    labels = [label for labels in READERS[form](text).values() for label in labels]
    labels += re.findall(r"^    %% (.*)$", text, re.MULTILINE)  # Mermaid shows triggers alone
    assert "select [selection_valid, action_allowed, steps_left]" in labels
    assert "fail [hard_stop | otherwise]" in labels
    assert "observe" in labels
    for row in ROWS:
        assert any(label.startswith(row.trigger) and ", ".join(row.guards) in label for label in labels)


def test_the_svg_shows_all_guards_and_meanings_on_hover() -> None:
    hovers = {
        line
        for title in parsed(diagram("svg")).iter(f"{SVG}title")
        for line in (title.text or "").splitlines()
    }
    for row in ROWS:
        guards = f" [{', '.join(row.guards)}]" if row.guards else ""
        assert f"{row.trigger}{guards}: {row.meaning}" in hovers


def test_mermaid_starts_at_the_initial_phase_and_ends_at_the_final_ones() -> None:
    text = diagram("mermaid")
    assert text.startswith("stateDiagram-v2\n")
    assert f"    [*] --> {INITIAL}\n" in text
    assert set(re.findall(r"^    (\w+) --> \[\*\]$", text, re.MULTILINE)) == FINAL


def test_the_table_in_the_docs_has_every_row_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DOCS))
    head, rule, *lines = importlib.import_module("machine_parts").table_markdown().splitlines()
    assert head == "| from | trigger | to | guards | meaning |" and set(rule) == {"|", "-"}
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    guards = [", ".join(f"`{guard}`" for guard in row.guards) for row in ROWS]
    named = zip(ROWS, guards, strict=True)
    assert cells == [[row.source, f"`{row.trigger}`", row.dest, told, row.meaning] for row, told in named]


def test_the_picture_in_the_docs_is_the_one_of_the_table() -> None:
    """`docs/machine.svg` is written by ``paor diagram --format svg``; it must not drift."""
    if not (DOCS / "machine.svg").exists():
        pytest.skip("the docs are not part of this checkout")
    assert (DOCS / "machine.svg").read_text(encoding="utf-8") == diagram("svg")


# -- walks ---------------------------------------------------------------------------------------------------------


def test_a_walk_counts_its_steps_in_order_of_first_use() -> None:
    one, two = STEPS[0], STEPS[1]
    walk = walked(two, one, two, two)
    assert list(walk.counts.items()) == [(two, 3), (one, 1)]


@given(walk=walks())
@settings(max_examples=examples(60))
def test_counts_and_places_are_the_same_in_every_form(walk: RunWalk) -> None:
    expected = {
        (edge.source, edge.dest): [label.walked_text for label in edge.labels]
        for edge in graph_of(ROWS, walk).edges
    }
    assert sum(label.count for edge in graph_of(ROWS, walk).edges for label in edge.labels) == sum(
        walk.counts.values()
    )
    for place, (source, trigger, dest) in enumerate(walk.counts, start=1):
        assert f"{trigger} ×{walk.counts[source, trigger, dest]} (#{place})" in expected[source, dest]
    assert mermaid_edges(diagram("mermaid", walk)) == expected
    assert dot_edges(diagram("dot", walk)) == expected
    root = parsed(diagram("svg", walk))
    edges = [group for group in root.iter(f"{SVG}g") if "edge" in group.get("class", "").split()]
    taken = [group for group in edges if "walked" in group.get("class", "").split()]
    assert len(taken) == len({(source, dest) for source, _, dest in walk.counts})
    places = [
        (mark.text or "").removeprefix("#")
        for group in taken
        for mark in group.iter(f"{SVG}tspan")
        if mark.get("class") == "place"
    ]
    assert sorted(map(int, places)) == list(range(1, len(walk.counts) + 1))


@pytest.mark.parametrize("status", ["running", "waiting", "done", "failed", "odd"])
def test_the_phase_where_the_run_stands_is_highlighted_by_its_status(status: str) -> None:
    walk = walked(("Planning", "select", "Specifying"), status=status, reason="why")
    look = "running" if status == "odd" else status
    assert status_of(walk) == look
    boxes = {
        group.findtext(f"{SVG}text"): group.get("class", "").split()
        for group in parsed(diagram("svg", walk)).iter(f"{SVG}g")
        if "node" in group.get("class", "").split()
    }
    assert boxes["Specifying"] == ["node", look]
    assert boxes["Planning"] == ["node", "start", "seen"]
    assert boxes["Done"] == ["node", "end", "unseen"]
    text = diagram("mermaid", walk)
    assert f"    class Specifying {look}\n" in text and "    class Planning seen\n" in text
    assert f"{status} · why" in text and f"{status} · why" in diagram("dot", walk)


@pytest.mark.parametrize("form", FORMATS)
def test_a_step_that_the_table_does_not_know_is_drawn_too(form: Format) -> None:
    """A journal of an older table tells what happened; it is not hidden."""
    edges = READERS[form](
        diagram(form, walked(("Observing", "jump", "Archived"), ("Planning", "leap", "Reviewing")))
    )
    assert len(edges["Observing", "Archived"]) == 1
    assert edges["Observing", "Archived"][0].startswith("jump")
    assert any(label.startswith("leap") for label in edges["Planning", "Reviewing"])
    assert {(row.source, row.dest) for row in ROWS} < set(edges)


# -- geometry ------------------------------------------------------------------------------------------------------


@given(walk=st.none() | walks())
@settings(max_examples=examples(80))
def test_the_engines_own_table_has_the_fixed_layout_without_overlaps(walk: RunWalk | None) -> None:
    layout = geometry(walk)
    assert in_one_row(layout) and layout.width == 680 and not layout.clashes
    assert not any(one.meets(two) for one, two in combinations(layout.boxes.values(), 2))


@pytest.mark.parametrize(
    ("more", "fits"),
    [
        (Row("Observing", "again", "Planning", (), "no lane"), True),
        (Row("Done", "reopen", "Planning", (), "out of an end"), True),
        (Row("Planning", "pause", "Archived", (), "another phase"), True),
        (Row("Planning", "a_name_that_is_too_long_for_the_gap", "Specifying", (), "too wide"), False),
        (Row("Reviewing", "again", "Executing", (), "no gate"), False),
    ],
)
def test_what_the_drawing_has_no_place_for_is_above_it_or_all_is_a_column(more: Row, fits: bool) -> None:
    layout = geometry(rows=(*ROWS, more))
    assert not layout.clashes and in_one_row(layout) == fits
    assert any(label.trigger == more.trigger for route in layout.routes for label in route.edge.labels)


def in_one_row(layout: Layout) -> bool:
    """Whether the seven phases have their fixed drawing."""
    return len({layout.boxes[name].y for name in {"Done", *(row.source for row in ROWS)}}) == 1


NAMES = st.text(min_size=1, max_size=12) | st.sampled_from(
    ["A", "B", "state", "end", "Planning", "Failed", "ラベル"]
)
TABLES = st.lists(st.builds(Row, NAMES, NAMES, NAMES, st.just(()), st.text(max_size=20)), max_size=12)


@given(rows=TABLES, data=st.data())
@settings(max_examples=examples(80))
def test_any_table_is_drawn(rows: list[Row], data: st.DataObject) -> None:
    """Every label inside the picture, none on another, on a line or on a box, in well-formed XML."""
    steps = (
        data.draw(st.lists(st.sampled_from([(r.source, r.trigger, r.dest) for r in rows]))) if rows else []
    )
    walk = data.draw(st.none() | st.just(walked(*steps)))
    layout = geometry(walk, tuple(rows))
    assert not layout.clashes
    assert not any(one.meets(two) for one, two in combinations(layout.boxes.values(), 2))
    for form in FORMATS:
        assert diagram(form, walk, rows=rows) == diagram(form, walk, rows=list(rows))
    parsed(diagram("svg", walk, rows=rows))
    assert_mermaid(diagram("mermaid", walk, rows=rows))
    assert_dot(diagram("dot", walk, rows=rows))


def test_text_is_measured_and_cut() -> None:
    assert width_of("日本") > width_of("abc") > width_of("il")
    assert cut("short", 100) == "short"
    assert cut("a\nvery long title", 60).endswith("…") and width_of(cut("x" * 500, 60)) <= 60
    assert cut("xyz", 1) == "…"
    counts = [count_text(n) for n in (1, 9999, 10_000, 999_999, 2_500_000)]
    assert counts == ["×1", "×9999", "×10k", "×999k", "×2M"]


# -- form ----------------------------------------------------------------------------------------------------------


def test_the_svg_is_self_contained_and_accessible() -> None:
    for walk in (None, walked(("Planning", "select", "Specifying"))):
        text = diagram("svg", walk)
        root = parsed(text)
        assert root.get("role") == "img" and root.get("viewBox", "").startswith("0 0 906 ")
        ids = [element.get("id") for element in root.iter() if element.get("id")]
        assert root.get("aria-labelledby", "").split() == ids
        assert root.findtext(f"{SVG}title") and "Planning to Specifying: select" in (
            root.findtext(f"{SVG}desc") or ""
        )
        assert "prefers-color-scheme:dark" in text
        assert {element.tag.removeprefix(SVG) for element in root.iter()} <= {
            *("svg", "title", "desc", "style", "g", "rect", "circle", "path", "text", "tspan")
        }
        assert not re.search(r"href|url\(|@import|javascript|\bon\w+=", text)


@pytest.mark.parametrize("form", FORMATS)
def test_same_input_same_bytes(form: Format) -> None:
    walk = walked(*STEPS)
    assert diagram(form, walk) == diagram(form, walked(*STEPS))
    assert diagram(form) == diagram(form, rows=list(ROWS))
    assert diagram(form).endswith("\n")


@pytest.mark.parametrize("text", HOSTILE)
def test_titles_and_reasons_cannot_break_out(text: str) -> None:
    steps = (("Planning", "select", "Specifying"), ("Specifying", "specify", "Executing"))
    walk = walked(*steps, title=text, status="failed", reason=text)
    plain_lines = {
        form: diagram(form, walked(*steps, status="failed", reason="x")).count("\n") for form in FORMATS
    }
    for form in FORMATS:
        out = diagram(form, walk)
        out.encode()
        assert form == "dot" or "<script" not in out
        assert out.count("\n") == plain_lines[form]
        assert READERS[form](out) == READERS[form](diagram(form, walked(*steps)))
    root = parsed(diagram("svg", walk))
    told = heading(graph_of(ROWS, walk)).line
    assert root.findtext(f"{SVG}title") == told == plain(told)
    assert_mermaid(diagram("mermaid", walk))
    assert_dot(diagram("dot", walk))


def assert_mermaid(text: str) -> None:
    """Each line is one that Mermaid's grammar for state diagrams knows, with labels of harmless characters."""
    label = r"(?:[\w ,.()\[\]|×#-]|#\d+;|<br/>)+"
    shown = r"(?:[\w ,.()\[\]|×·:?!'/+=%‹›＆＃，（）…→≠-]|<br/>)+"
    line = re.compile(
        r"stateDiagram-v2|    %%\{init: \{[\w\": ,{}]*\}\}%%"
        rf"|    state \"{shown}\" as s\d+|    %% {label}"
        rf"|    note right of \w+|        (?:A: |never seen|everything ){shown}|    end note"
        rf"|    \w+ --> \w+ : {label}|    \[\*\] --> \w+|    \w+ --> \[\*\]"
        r"|    classDef \w+ [\w:#,-]+|    class \w+(,\w+)* \w+"
    )
    lines = text.splitlines()
    if lines[0] == "---":
        head, lines = lines[1 : lines.index("---", 1)], lines[lines.index("---", 1) + 1 :]
        assert re.fullmatch(rf'title: "{shown}"', head[0])
        assert head[1:3] in ([], ["config:", "  themeCSS: |"])
        for rule in head[3:]:
            assert re.fullmatch(r"    (?:path\[data-id=edge\d+\](?:, )?)+ \{[\w#:;. -]+\}", rule), rule
    assert lines[0] == "stateDiagram-v2"
    for found in lines:
        assert line.fullmatch(found), found


def assert_dot(text: str) -> None:
    """Outside quoted strings there is only what this module writes."""
    bare = re.sub(r'"(?:[^"\\\n]|\\.)*"', '""', text)
    assert bare.startswith("digraph paor {\n") and bare.endswith("\n}\n")
    for line in bare.splitlines()[1:-1]:
        assert re.fullmatch(
            r'    (?:(?:graph|node|edge|""|"" -> "")(?: \[[\w=", .\-]*\])?|label="")', line
        ), line


@pytest.mark.skipif(shutil.which("dot") is None, reason="needs Graphviz: apt-get install graphviz")
@pytest.mark.parametrize("title", HOSTILE)
def test_graphviz_reads_the_dot_form(title: str) -> None:
    out = subprocess.run(
        ["dot", "-Tplain"],
        input=diagram("dot", walked(*STEPS[:3], title=title)).encode(),
        capture_output=True,
        check=True,
        timeout=60,
    )
    nodes = re.findall(r"^node (\".*?\"|\S+) ", out.stdout.decode(), re.MULTILINE)
    assert set(nodes) == {'" start"', *(row.source for row in ROWS), *FINAL}
    assert not out.stderr
