"""Planted bugs: the public testing kit finds every one of them, makes it small, and finds nothing where there is none."""

from __future__ import annotations

import ast
import json
from collections import Counter
from collections.abc import Iterator

import pytest

from paor.fuzz import INVARIANTS

from ..support.edits import sources
from .planted_bugs import EXAMPLES, MEASURED, ROWS, SECONDS, Bug, Copy, judged, patched, planted, problems

BUGS = planted()


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Copy]:
    yield Copy(tmp_path_factory.mktemp("copy"))


def test_there_are_42_bugs_in_all_areas() -> None:
    assert len(BUGS) == len({bug.name for bug in BUGS}) == 42
    areas = Counter(bug.area for bug in BUGS)
    assert areas.keys() >= {
        "guards",
        "counters",
        "parser",
        "journal",
        "duplicates",
        "policy",
        "budgets",
        "resume",
        "own machine",
    }


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_is_code_that_differs_and_breaks_something_that_the_kit_holds(bug: Bug) -> None:
    files = patched(bug)
    assert files
    for file, text in files.items():
        compile(text, file, "exec")
        assert ast.dump(ast.parse(text)) != ast.dump(ast.parse(sources()[file]))
    assert set(bug.seen_by) <= set(INVARIANTS)


def test_what_was_measured_last_is_of_these_bugs_and_within_the_bounds() -> None:
    """Each figure of the page is within the bounds that the judge holds a bug to, and no bug is without one."""
    measured = json.loads(MEASURED.read_text())
    assert measured.keys() == {bug.name for bug in BUGS}
    for bug in BUGS:
        facts = measured[bug.name]
        assert facts["invariant"] in bug.seen_by
        assert facts["examples"] <= EXAMPLES or facts["seconds"] <= SECONDS
        assert facts["rows"] <= ROWS[bug.agent]


@pytest.mark.whole
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_the_kit_finds_a_planted_bug(bug: Bug, copy: Copy) -> None:
    """Its repro file fails in a fresh process with the bug, and no more without it."""
    assert problems(bug, judged(copy, bug)) == []


@pytest.mark.whole
@pytest.mark.parametrize("agent", ["desk", "machine"])
def test_the_kit_finds_nothing_where_nothing_is_planted(agent: str, copy: Copy) -> None:
    """The same agents, the same search, no bug."""
    told = judged(copy, None, examples=25, agent=agent)
    assert not told["found"], told
