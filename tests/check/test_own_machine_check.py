"""A host's own machine is proven, and whatever is planted in one is found before a run starts."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from paor import Limits, Machine
from paor.errors import UsageError
from paor.fsm.check.bounded_specs import worlds_of
from paor.fsm.check.checker import prove, rerun
from paor.fsm.check.findings import CODES
from paor.machine import GuardContext, defects_of
from paor.tools.tool import Tool

from ..support.own_machines import World, engine, escalating, triage, two_reviewers, verifying
from .own_machine_defects import DEFECTS, OwnDefect

SMALL = worlds_of({"react": Limits(max_steps=1, max_retries=0, max_elicitations=2)})[:1]
"""One world, small in every number."""


def tools() -> list[Tool]:
    """Return the tools of the engines here."""
    return World().tools()


def test_there_are_enough_defects_of_each_kind() -> None:
    """The list is what the issue asks for."""
    kinds = Counter(defect.kind for defect in DEFECTS.values())
    assert sum(kinds.values()) >= 30
    assert min(kinds.values()) >= 4


@pytest.mark.parametrize("what", DEFECTS)
def test_every_planted_defect_is_found_before_a_run(what: str, tmp_path: Path) -> None:
    """Where it is built, by the engine, or by `paor check`: with its place, in one line."""
    defect: OwnDefect = DEFECTS[what]
    if defect.found == "built":
        with pytest.raises(UsageError, match=defect.told):
            defect.make()
        return
    machine = defect.make()
    if defect.found == "engine":
        with pytest.raises(UsageError) as caught:
            engine(tmp_path / "runs.db", machine, [])
        assert defect.told in str(caught.value)
        assert any(item.code == defect.code and defect.told in str(item) for item in defects_of(machine))
        assert not (tmp_path / "runs.db").exists()
        return
    assert defects_of(machine) == ()
    findings = prove(machine, SMALL, tools=[tool.spec() for tool in tools()]).findings
    told = [item for item in findings if defect.told in str(item)]
    assert told and told[0].code == defect.code, [str(item) for item in findings]
    assert "\n" not in str(told[0])


def test_every_code_is_explained() -> None:
    """A finding's code is in the closed list."""
    assert {defect.code for defect in DEFECTS.values() if defect.code} <= CODES.keys()


SOUND = {
    "verifying": verifying(),
    "escalating": escalating(),
    "two reviewers": two_reviewers(),
    "triage": triage({"mode": "react"}),
}


@pytest.mark.parametrize("kind", SOUND)
def test_a_sound_machine_is_proven(kind: str) -> None:
    """Every run of it ends, whatever its guards say, and its functions are fit for a replay."""
    found = prove(SOUND[kind], SMALL, tools=[tool.spec() for tool in tools()])
    assert [str(item) for item in found.findings] == []
    assert found.states > 100


@pytest.mark.large
@pytest.mark.parametrize("kind", SOUND)
def test_a_sound_machine_is_proven_in_every_mode(kind: str, tmp_path: Path) -> None:
    """As `paor check` does it."""
    from paor import check

    assert check(engine(tmp_path / "runs.db", SOUND[kind], [])).ok


def never_enough(context: GuardContext) -> bool:
    """Nothing is ever enough."""
    return False


def test_a_finding_of_an_own_machine_comes_with_a_walk() -> None:
    """The walk says what the host's guards said on the way, and can be walked again."""
    machine = Machine.standard().require("finish", never_enough).require("conclude", never_enough)
    findings = prove(machine, SMALL).findings
    for finding in findings:
        if finding.path is not None:
            told = [(step.phase, step.trigger, step.dest) for step in finding.path.steps]
            walked = rerun(finding.path, machine)
            assert [item for item in walked if item[1]] == [item for item in told if item[1]]
