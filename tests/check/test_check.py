"""
`paor.check`: nothing is wrong with the shipped machine, and every defect that was planted in a copy is found by its code.

Each finding that has a walk is real: the walk, taken again by the real decision, goes where the finding says.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import paor
from paor import Engine, Journal, Limits, Machine, ScriptedModel, Tool
from paor.audit import Check, Finding
from paor.fsm.check.bounded_specs import CALL, CAPS, PARAMETERS, BoundedSpec, worlds_of
from paor.fsm.check.checker import default_limits, path_of, prove, rerun
from paor.fsm.check.findings import CODES
from paor.fsm.check.inputs import outcome_of
from paor.fsm.check.invariants import PROMISES
from paor.fsm.check.state_space import explore
from paor.fsm.machine.table import TABLE, WAITING

from ..support.cases import REVIEWING
from ..support.cli_support import Shell
from .table_defects import DEFECTS, Defect

WORLDS: dict[str, BoundedSpec] = {
    world.name: world
    for world in worlds_of({"react": Limits(parameter_retries=2), "planner": Limits(parameter_retries=2)})
}
FEW = 300
"""States that show most defects; those that they do not show are looked for in the whole world."""


def found(defect: Defect, states_max: int = 50_000) -> list[Finding]:
    worlds = [WORLDS[defect.world]] if defect.world else []
    check = prove(defect.rules, worlds, states_max=states_max)
    return [item for item in check.findings if item.code == defect.code]


def holds(finding: Finding, rules: Machine) -> bool:
    """Return whether a finding's walk is a real one: taken again, it takes the rows that it tells."""
    assert finding.path is not None
    told = [(step.phase, step.trigger, step.dest) for step in finding.path.steps]
    return [(phase, trigger.strip("!"), dest) for phase, trigger, dest in rerun(finding.path, rules)] == told


# -- the shipped machine -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "states"),
    [
        (Limits(max_steps=1, max_retries=0, max_elicitations=1), 100),
        pytest.param(Limits(), 1_000, marks=pytest.mark.whole),
    ],
    ids=["few", "shipped"],
)
def test_nothing_is_wrong_with_the_shipped_machine_in_react_mode(limits: Limits, states: int) -> None:
    """Every case has a row, every run ends, no promise is broken."""
    check = prove(Machine(), worlds_of({"react": limits})[:1])
    wrong = [item for item in check.findings if item.code != "row_never_taken"]
    assert wrong == [] and check.states > states and check.edges > 2 * check.states


@pytest.mark.whole
def test_nothing_is_wrong_with_the_shipped_machine() -> None:
    """In every mode, with every row taken by some run."""
    with Engine("offline", journal=Journal(":memory:")) as engine:
        check = paor.check(engine)
    assert check.findings == () and check.ok and check.unused == ()
    assert [item.world for item in check.worlds] == [
        f"{mode}{kind}" for mode in ("react", "batch", "planner", "native") for kind in ("", ", full")
    ]
    taken = {number for item in check.worlds for number in item.rows}
    assert taken == set(range(len(TABLE + WAITING)))


@pytest.mark.whole
@pytest.mark.parametrize(
    "limits",
    [
        Limits(max_steps=1, max_plans=1, max_retries=0, max_elicitations=0),
        Limits(selection_retries=0, parameter_retries=0, review_retries=0),
    ],
    ids=["least", "no retries"],
)
def test_nothing_is_wrong_with_any_limits(limits: Limits) -> None:
    """Rows that a limit of nothing keeps from being taken are told, and are no finding."""
    with Engine("offline", journal=Journal(":memory:"), limits=limits) as engine:
        check = paor.check(engine, modes=("react", "planner"))
    assert check.findings == ()
    assert ("Planning.reselect" in check.unused) is (limits.selection_retries == 0)


# -- sixty defects and a few more ----------------------------------------------------------------------------------


def test_there_are_sixty_defects_of_many_kinds() -> None:
    assert len(DEFECTS) >= 60 and len({defect.name for defect in DEFECTS}) == len(DEFECTS)
    kinds = {defect.code for defect in DEFECTS}
    assert kinds <= set(CODES) and len(kinds) >= 20
    assert {code for code, _ in PROMISES} <= set(CODES)


SHOWN = (
    "denied actions are selected",
    "specified before approved",
    "steps are not counted",
    "a way out of Done",
)
"""Defects that the default run looks for."""


@pytest.mark.parametrize(
    "defect",
    [pytest.param(item, marks=() if item.name in SHOWN else pytest.mark.whole) for item in DEFECTS],
    ids=lambda defect: defect.name,
)
def test_every_defect_is_found_by_its_code_with_a_walk_that_is_real(defect: Defect) -> None:
    findings = found(defect, FEW) or found(defect)
    assert findings, defect.code
    walks = [item for item in findings if item.path is not None]
    assert all(holds(item, defect.rules) for item in walks[:3])
    if defect.world and defect.code not in ("row_never_taken", "missing_row"):
        assert walks


def test_a_row_of_paors_own_that_is_missing_is_told_without_a_run() -> None:
    """Beside what a run of such a machine comes to; of the shipped machine nothing is."""
    lax = next(item for item in DEFECTS if item.name == "no approval is asked for").rules
    world = worlds_of({"react": Limits()})[:1]
    (told,) = [item for item in prove(lax, world, states_max=FEW).findings if item.code == "unsafe_row"]
    assert told.place == "Specifying.wait" and "approval_needed" in told.message
    assert "unsafe_row" not in {item.code for item in prove(Machine(), world, states_max=FEW).findings}


def test_a_walk_survives_json() -> None:
    """So it can be kept in a file and taken again by somebody else."""
    defect = next(item for item in DEFECTS if item.name == "steps are not counted")
    finding = found(defect, FEW)[0]
    assert finding.path is not None and finding.path.loop is not None
    data = json.loads(json.dumps(finding.wire()))["path"]
    steps = tuple(paor.fsm.check.findings.PathStep(**step) for step in data["steps"])
    again = paor.fsm.check.findings.Path(data["world"], steps, data["loop"])
    assert again == finding.path and rerun(again, defect.rules) == rerun(finding.path, defect.rules)
    assert list(again.replies) == data["replies"] and len(again.replies) > 1


# -- the walks of the shipped machine are runs of the real engine --------------------------------------------------


def test_a_walk_to_every_row_is_a_run_of_the_real_engine(tmp_path: Path) -> None:
    """The replies of a walk, given by a scripted model, make the engine take the very same rows."""
    world = replace(WORLDS["react"], limits=WORLDS["react"].limits)
    graph = explore(world, Machine(), states_max=FEW)
    seen, walked = set[str](), 0
    for edge in graph.edges:
        way = [*graph.way(edge.source), edge]
        kinds = {item.move["kind"] for item in way}
        plain = kinds <= {"reply", "recalled", "none", "result"} and not any(item.kept for item in way)
        if edge.row.dest not in ("Done", "Failed") or not plain or edge.move["move"] in seen:
            continue
        seen.add(edge.move["move"])
        path = path_of(graph, way, Machine())
        tries = [item.move for item in way if item.move["kind"] == "result"]

        def call(text: str, url: str = "", tries: list[Any] = tries) -> str:
            move = tries.pop(0)
            if move["ok"]:
                return text
            raise paor.errors.NotStarted("not now") if move.get("retryable") else RuntimeError("it failed")

        tool = Tool(CALL, "Check.", PARAMETERS, call, retries=1)
        journal = tmp_path / f"{walked}.db"
        with Engine(
            ScriptedModel(path.replies),
            tools=[tool],
            journal=str(journal),
            limits=world.limits,
            builtins=False,
        ) as engine:
            result = engine.run("check the machine")
            rows = [(row.source, row.trigger, row.dest) for row in engine.journal.transitions(result.run_id)]
        assert rows == [(step.phase, step.trigger, step.dest) for step in path.steps]
        walked += 1
    assert walked >= 4


def test_every_move_is_an_outcome_that_a_row_takes() -> None:
    """In a part of each world; `nothing is wrong` says it of the whole."""
    for world in worlds_of(default_limits()):
        graph = explore(world, Machine(), states_max=60)
        assert not graph.stuck and not graph.full
        for edge in graph.edges:
            assert outcome_of(edge.move, graph.runs[edge.source]).kind == edge.move["kind"]


def test_caps_cut_only_what_is_larger() -> None:
    limits = Limits(max_steps=1, max_retries=0)
    world = worlds_of({"react": limits})[0]
    assert (world.limits.max_steps, world.limits.max_retries) == (1, 0)
    assert not {"max_steps", "max_retries"} & set(dict(world.beyond))
    assert all(getattr(world.limits, name) <= cap for name, cap in CAPS.items())


# -- on the command line -------------------------------------------------------------------------------------------


@pytest.mark.whole
def test_check_tells_what_was_explored(shell: Shell) -> None:
    said = shell("check", "--mode", "batch")
    assert said.code == 0 and "states" in said.out and "no loop without a bound" in said.out
    told = shell("check", "--mode", "batch", "--json")
    assert told.json["ok"] and told.json["states"] == sum(item["states"] for item in told.json["worlds"])
    assert told.out == shell("check", "--mode", "batch", "--json").out


def test_a_finding_on_the_command_line_comes_with_its_walk(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    defect = next(item for item in DEFECTS if item.name == "denied actions are selected")
    finding = found(defect, FEW)[0]
    check = Check((finding,), 1, 1)
    monkeypatch.setattr("paor.cli.commands.check.examined", lambda engine, **options: check)
    said = shell("check")
    assert said.code == 1 and said.out.startswith(
        "Planning.select: the action is not allowed\n  0 Planning: select"
    )
    assert shell("check", "--json").json["findings"][0]["path"]["steps"][-1]["phase"] == "Planning"
    assert finding.place.startswith("Planning") and REVIEWING not in finding.place
