"""Own machines as pictures and as data: nothing is missing, nothing on anything else, and the library's own tools read them."""

from __future__ import annotations

import copy
import json
import re
from collections import Counter
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transitions.extensions import GraphMachine
from transitions.extensions.markup import MarkupMachine

from paor import Engine, Machine, Phase, ScriptedModel, coverage, diagram, tool
from paor.errors import JournalDamaged, UsageError
from paor.testing import call, refine

from ..support.effort import examples
from .drawn_machines import MACHINES, machines, verifying
from .inside import (
    MACHINE,
    ROWS,
    Format,
    Overlay,
    Parted,
    RunWalk,
    graph_of,
    joined,
    layout_of,
)
from .inside import diagram as picture
from .test_diagram import FORMATS, SVG, assert_dot, assert_mermaid, in_one_row, parsed, walked
from .test_overlays import text_rects

NAMES = [*MACHINES]


def drawn(form: Format, machine: Machine, overlay: Overlay | None = None) -> str:
    return picture(form, overlay, rows=machine.rows, host=machine.host)


def steps_of(machine: Machine) -> tuple[tuple[str, str, str], ...]:
    return tuple(dict.fromkeys((row.source, row.trigger, row.dest) for row in machine.rows))


def everything(machine: Machine, count: int = 1) -> RunWalk:
    steps = steps_of(machine)
    return RunWalk("all", dict.fromkeys(steps, count), "Reviewing", "running", None)


def overlays(machine: Machine) -> list[Overlay | None]:
    """Every kind of overlay, with few and with many steps."""
    steps = steps_of(machine)
    own = next((row for row in machine.rows if row.host), machine.rows[0])
    few = walked((own.source, own.trigger, own.dest), state=own.dest)
    other = walked(*steps[::2], state="Done", status="done")
    taken = coverage((), rows=machine.rows)
    return [
        None,
        few,
        everything(machine),
        Parted("T", few, other, 0, own.source, "c", "d", 0),
        taken,
    ]


# -- pictures ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_an_own_machine_has_the_fixed_layout_and_nothing_lies_on_anything(name: str) -> None:
    machine = MACHINES[name]()
    for overlay in overlays(machine):
        graph = graph_of(machine.rows, overlay, machine.host)
        layout = layout_of(graph)
        assert in_one_row(layout) and not layout.clashes
        assert {route.edge for route in layout.routes} == set(graph.edges)
        assert not any(one.meets(two) for one, two in combinations(layout.boxes.values(), 2))
        root = parsed(drawn("svg", machine, overlay))
        width, height = float(root.get("width", "0")), float(root.get("height", "0"))
        found = list(text_rects(root))
        for text, rect in found:
            assert rect.x >= 0 and rect.right <= width and rect.low <= height, text
        for (one, rect), (two, other) in combinations(found, 2):
            assert not rect.meets(other), (one, two)


@given(machine=machines(), data=st.data())
@settings(max_examples=examples(40), deadline=None)
def test_any_own_machine_is_drawn_in_every_form_and_under_every_overlay(
    machine: Machine, data: st.DataObject
) -> None:
    """And no words lie on others, on a line, or on a box."""
    overlay = data.draw(st.sampled_from(overlays(machine)))
    layout = layout_of(graph_of(machine.rows, overlay, machine.host))
    assert not layout.clashes
    parsed(drawn("svg", machine, overlay))
    assert_mermaid(drawn("mermaid", machine, overlay))
    assert_dot(drawn("dot", machine, overlay))


@pytest.mark.parametrize("name", NAMES)
def test_what_is_the_hosts_own_is_said_to_be(name: str) -> None:
    """Once in the legend, and by the sentence of each guard; that its words can be read, `test_contrast` tests."""
    machine = MACHINES[name]()
    texts = ["".join(text.itertext()) for text in parsed(drawn("svg", machine)).iter(f"{SVG}text")]
    assert texts.count("your own") == 1
    for guard in machine.host.guards.values():
        assert guard.name in texts and str(guard.__doc__) in " ".join(texts)


def test_the_standard_machine_has_nothing_of_a_hosts_own() -> None:
    text = diagram(form="svg")
    assert "your own" not in text and not re.search(r'class="[^"]*\bown\b', text)
    assert diagram(Machine.standard(), form="svg") == text == picture("svg", rows=ROWS)
    assert "own" not in diagram().split() and "---" not in diagram()


@tool("tests.run", effect="read")
def run_tests() -> str:
    """Run the tests."""
    return "all passed"


def walk_once(path: Path) -> Engine:
    engine = Engine(
        ScriptedModel([*call("tests.run"), refine("stop", answer="ok")]),
        tools=[run_tests],
        journal=path,
        machine=verifying(),
    )
    result = engine.run("Mend the bug")
    assert result.state == "Done", result
    return engine


def test_a_run_is_drawn_on_the_machine_that_it_has(tmp_path: Path) -> None:
    """Also by somebody who has the journal alone; the engine's own machine without a run."""
    with walk_once(tmp_path / "own.db") as engine:
        run_id = engine.journal.runs()[0].run_id
        assert diagram(engine) == diagram(engine.machine) == drawn("mermaid", verifying())
        for form in FORMATS:
            text = diagram(engine, run_id, form=form)
            assert text == diagram(engine.journal, run_id, form=form)
            assert "Verifying" in text and "Mend the bug" in text
        assert "verify ×1 (#" in diagram(engine, run_id) and "rework" in diagram(engine, run_id)


def test_two_runs_are_drawn_on_the_rows_of_both(tmp_path: Path) -> None:
    with (
        walk_once(tmp_path / "own.db") as engine,
        Engine(
            ScriptedModel([*call("tests.run"), refine("stop", answer="ok")]),
            tools=[run_tests],
            journal=tmp_path / "std.db",
        ) as other,
    ):
        there = other.run("Mend the bug").run_id
        text = diagram(
            engine.journal, engine.journal.runs()[0].run_id, diff=there, other=other.journal, form="svg"
        )
        assert "only A" in text and "Verifying" in text
        back = diagram(
            other.journal, there, diff=engine.journal.runs()[0].run_id, other=engine.journal, form="svg"
        )
        assert "Verifying" in back
    both = joined(verifying(), MACHINES["escalating"]())
    assert set(both.rows) == {*verifying().rows, *MACHINES["escalating"]().rows}
    assert joined(MACHINE, MACHINE) is MACHINE


def test_a_damaged_machine_of_a_run_is_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with walk_once(tmp_path / "own.db") as engine:
        row = engine.journal.runs()[0]
        for text in ("{", "{}", "[]", 5, '{"states": []}'):
            body = json.dumps({"objective": "o", "host_machine": text})
            monkeypatch.setattr(
                type(engine.journal.reader), "payload", lambda *_, body=body: SimpleNamespace(body=body)
            )
            with pytest.raises(JournalDamaged, match="its machine cannot be read"):
                diagram(engine.journal, row.run_id)


# -- the library's own tools ---------------------------------------------------------------------------------------


def expected_labels(machine: Machine) -> dict[tuple[str, str], Counter[str]]:
    """What the library's pictures must show: an edge for each pair of phases, on it each row with its conditions."""
    found: dict[tuple[str, str], Counter[str]] = {}
    for row in machine.rows:
        conditions = " & ".join([*row.conditions, *(f"!{name}" for name in row.unless)])
        label = f"{row.trigger} [{conditions}]" if conditions else row.trigger
        found.setdefault((row.source, row.dest), Counter())[label] += 1
    return found


WALKED = [("standard", Machine.standard), *MACHINES.items()]


@pytest.mark.parametrize("made", [made for _, made in WALKED], ids=[name for name, _ in WALKED])
def test_the_librarys_graph_machine_draws_every_row_with_its_conditions(made: Any) -> None:
    machine = made()
    graph = GraphMachine(graph_engine="mermaid", show_conditions=True, **machine.graph_data())
    source: str = graph.get_graph().source
    found = {
        (one, two): Counter(labels.split(" | "))
        for one, two, labels in re.findall(r"^ *(\w+) --> (\w+): (.*)$", source, re.MULTILINE)
    }
    assert found == expected_labels(machine)
    assert f"[*] --> {machine.host.initial}" in source


@pytest.mark.parametrize("made", [made for _, made in WALKED], ids=[name for name, _ in WALKED])
def test_the_librarys_markup_gives_the_same_transitions_back(made: Any) -> None:
    data = made().graph_data()
    markup: Any = MarkupMachine(model=None, **copy.deepcopy(data)).markup

    def told(items: list[dict[str, Any]]) -> Counter[str]:
        return Counter(json.dumps(item, sort_keys=True) for item in items)

    assert told(markup["transitions"]) == told(data["transitions"])
    assert [state["name"] for state in markup["states"]] == [state["name"] for state in data["states"]]
    assert [state["name"] for state in markup["states"] if state.get("final")] == ["Done", "Failed"]
    assert markup["initial"] == data["initial"] and markup["name"] == "paor"
    again = MarkupMachine(model=None, markup=copy.deepcopy(markup))
    assert told(again.markup["transitions"]) == told(data["transitions"])


# -- as data -------------------------------------------------------------------------------------------------------


def told_phases(machine: Machine) -> Any:
    return machine.to_dict()["states"]


@given(machine=machines())
@settings(max_examples=examples(60), deadline=None)
def test_a_machine_comes_back_from_its_data(machine: Machine) -> None:
    data = machine.to_dict()
    for form in (data, orjson.loads(orjson.dumps(data)), json.loads(json.dumps(data))):
        again = Machine.from_dict(form)
        assert again.table == machine.table and again.waiting == machine.waiting
        assert told_phases(again) == told_phases(machine) and again.host.initial == machine.host.initial
        assert list(again.host.guards) == list(machine.host.guards)
        for name, guard in machine.host.guards.items():
            assert (again.host.guards[name].__doc__, again.host.guards[name].tools) == (
                guard.__doc__,
                guard.tools,
            )
        assert again.guards.keys() == machine.guards.keys() and again.changes.keys() == machine.changes.keys()
        assert again.host.fresh == machine.host.fresh and again.to_dict() == data
        bound = Machine.from_dict(form, machine)
        assert [guard.function for guard in bound.host.guards.values()] == [
            guard.function for guard in machine.host.guards.values()
        ]


@pytest.mark.parametrize(
    ("asks", "message"),
    [
        ({"tool": "t", "arguments": {"x": object()}}, "arguments is no JSON data"),
        ({"tool": "t", "arguments": {1: 2}}, "arguments is no JSON data"),
        ({"question": "q", "answer": 5}, "answer is a mapping"),
        ({"question": "q", "answer": {"enum": {1, 2}}}, "answer is no JSON data"),
    ],
)
def test_a_phase_that_no_journal_could_record_is_refused(asks: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Machine.standard().phase(Phase("A", **asks))
