"""Fingerprints: every part that decides has one, nothing else changes it, and a part is told with what it depends on."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from paor import Policy
from paor.fsm.machine import machine
from paor.fsm.machine.guards import GUARDS
from paor.fsm.machine.machine import Machine
from paor.fsm.machine.table import ROWS
from paor.fsm.versioning import fingerprints
from paor.fsm.versioning.fingerprints import (
    UNREADABLE,
    code_fingerprints,
    computed_code,
    fingerprints_of,
    package_files,
    read_package,
    roots_of,
)
from paor.prompts.building.templates import NAMES

from ..support.pages import PACKAGE
from ..support.worlds import READ, STOP, SUCCESS, engine


@pytest.fixture(scope="module")
def plain() -> dict[str, str]:
    """Return the fingerprints of the code as it stands."""
    return computed_code(package_files())


def changed(plain: dict[str, str], path: str, old: str, new: str) -> set[str]:
    """Return the parts that are others once *old* is *new* in a file."""
    text = (PACKAGE / path).read_text(encoding="utf-8")
    assert text.count(old) == 1, (path, old)
    found = computed_code(package_files({path: text.replace(old, new).encode()}))
    assert found.keys() == plain.keys()
    return {part for part in found if found[part] != plain[part]}


def test_the_kept_fingerprints_are_those_of_the_code_now(plain: dict[str, str]) -> None:
    """Else a first run would read all the code; python docs/generate.py writes them."""
    assert fingerprints._KEPT.read_text() == fingerprints.kept_text()
    assert fingerprints.published_code() == plain == code_fingerprints()


def test_a_spec_has_one_for_every_part(tmp_path: Path) -> None:
    """Phases, guards, rows, templates, schemas, tools, policy."""
    with engine(tmp_path, [*READ(1), STOP, SUCCESS]) as scripted:
        run_id = scripted.run("Read").run_id
        spec = scripted.journal.spec(run_id)
    parts = set(spec.fingerprints)
    assert {f"guard.{name}" for name in GUARDS} <= parts
    assert {f"row.{row.source}.{row.trigger}" for row in ROWS} <= parts
    assert {f"prompt.{name}" for name in NAMES} <= parts
    assert {f"phase.{phase.name}" for phase in machine.PHASE_STATES} <= parts
    assert {
        "schema.selection",
        "schema.review",
        "tool.notes.read",
        "tool.notes.send",
        "policy",
        "rules",
    } <= parts
    assert spec.fingerprints == fingerprints_of(spec)
    assert len(json.dumps(spec.fingerprints)) < 5_000
    assert all(re.fullmatch("[0-9a-f]{10}", digest) for digest in spec.fingerprints.values())


@pytest.mark.whole
def test_a_part_is_named_with_whatever_it_depends_on(plain: dict[str, str]) -> None:
    """A helper belongs to every part that uses it, and to no other."""
    cases = (
        (
            "fsm/machine/guards.py",
            'case.review.status == "retry"',
            'case.review.status != "retry"',
            {"guard.review_retry", "core.decide"},
        ),
        (
            "fsm/machine/guards.py",
            "return budgets.steps_left(case.run) and budgets.plans_left(case.run)",
            "return budgets.steps_left(case.run) or budgets.plans_left(case.run)",
            {"guard.steps_left"},
        ),
        (
            "fsm/decision/progress.py",
            "if best is None or score > best:",
            "if best is None or score >= best:",
            {"phase.Reviewing", "core.decide"},
        ),
        (
            "states/executing.py",
            "return ToolRequest(run.memory.intent)",
            "return NOTHING",
            {"phase.Executing"},
        ),
        ("prompts/building/builder.py", 'run.memory.hint or ""', '""', {"core.prompts"}),
    )
    for path, old, new, parts in cases:
        assert changed(plain, path, old, new) == parts, (path, old)
    path = "fsm/workflow/expressions/parser.py"
    grammar = re.search(r"(?m)^\?conditional: either .*$", (PACKAGE / path).read_text(encoding="utf-8"))
    assert grammar is not None
    assert changed(plain, path, grammar[0], f"{grammar[0]} ") == {"core.expressions"}


DECIDING = (
    *(
        "fsm/machine/guards.py",
        "fsm/decision/guard_context.py",
        "fsm/machine/updates.py",
        "fsm/decision/progress.py",
        "fsm/machine/stop_rules.py",
        "fsm/decision/plan_mode.py",
    ),
    *(
        "fsm/machine/machine.py",
        "fsm/machine/fold.py",
        "fsm/decision/observation.py",
        "fsm/machine/decide.py",
    ),
    *(
        "fsm/decision/duplicate_calls.py",
        "fsm/decision/run_resources.py",
        "fsm/decision/workflow_mode.py",
        "fsm/workflow/variables.py",
    ),
    *(
        "fsm/workflow/step_references.py",
        "fsm/runtime/tool_results.py",
        "prompts/building/builder.py",
        "prompts/building/history.py",
    ),
    *(
        "prompts/parsing/replies.py",
        "prompts/parsing/plans.py",
        "prompts/parsing/plan_data.py",
        "prompts/parsing/json_reading.py",
    ),
    *(
        "states/run/budgets.py",
        "states/run/state.py",
        "states/run/spec.py",
        "states/records/actions.py",
        "tools/catalog.py",
    ),
)


def test_every_definition_that_decides_belongs_to_a_part() -> None:
    """So that no edit of what decides goes unseen; what is left are tables of the parts and what only writes or types."""
    package = read_package(package_files())
    fingerprints.parts_of(package)
    roots = [place for places in roots_of(package).values() for place in places.values()]
    covered = set().union(*map(package.reached, roots)) | package.boundaries.keys()
    left = {
        name
        for path in DECIDING
        for name in getattr(package.source(path.removesuffix(".py").replace("/", ".")), "definitions", ())
        if (path.removesuffix(".py").replace("/", "."), name) not in covered
    }
    assert left == LEFT


LEFT = {
    "Callback",
    "Compiled",
    "Guard",
    "Needed",
    "Predicate",
    "R",
    "RESOLVED",
    "SAME",
    "Sets",
    "T",
    "Transition",
    "Update",
    "Values",
    "W",
    "WORDS",
    "Words",
    "_",
    "_FUNCTIONS",
    "_STOPS",
    "_budgets",
    "_patience",
    "_usage_words",
    "doubt_words",
    "guards_in_force",
    "words",
    "words_of",
}
"""Tables of parts, names for types, the words of guards, and what no decision uses."""


def test_guards_and_changes_that_somebody_replaced_are_seen(
    monkeypatch: pytest.MonkeyPatch, plain: dict[str, str]
) -> None:
    """Also when the files are as they were."""
    monkeypatch.setattr(machine, "MACHINE", Machine(guards={**GUARDS, "retries_left": lambda case: True}))
    found = code_fingerprints()
    assert {part for part in found if found[part] != plain[part]} == {"guard.retries_left"}


@pytest.mark.whole
@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13"])
def test_every_python_gives_the_same_ones(version: str, tmp_path: Path) -> None:
    """The module that digests needs nothing but the standard library, so any interpreter can be asked."""
    python = shutil.which(f"python{version}")
    ask = [python or "", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    if (
        python is None
        or subprocess.run(ask, check=False, capture_output=True, text=True).stdout.strip() != version
    ):
        pytest.skip(f"python{version} is not installed here")
    (tmp_path / "digesting").mkdir()
    for name in ("normal_form", "source_digests"):
        shutil.copy(Path(fingerprints.__file__).with_name(f"{name}.py"), tmp_path / "digesting")
    program = tmp_path / "digests.py"
    program.write_text(
        "import sys, pathlib\n"
        "from digesting.source_digests import Files, Package\n"
        "package = Package(Files(pathlib.Path(sys.argv[1])))\n"
        "modules = [path.removesuffix('.py').replace('/', '.') for path in sys.argv[2:]]\n"
        "roots = [(name, each) for name in modules for each in package.source(name).definitions]\n"
        "for place, digest in sorted(package.digests(roots).items()):\n"
        "    print(place, digest)\n"
    )
    command = [str(program), str(PACKAGE), *DECIDING]
    here = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=True).stdout
    there = subprocess.run([python, *command], capture_output=True, text=True, check=True).stdout
    assert here == there and here.count("\n") > 400


def test_without_sources_the_version_stands_for_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that was only compiled says so, instead of digests that nothing was read for."""

    def gone() -> None:
        raise FileNotFoundError("paor")

    fingerprints.published_code.cache_clear()
    monkeypatch.setattr(fingerprints, "package_files", gone)
    try:
        assert list(fingerprints.published_code()) == [UNREADABLE]
    finally:
        fingerprints.published_code.cache_clear()


def test_a_policy_and_a_tool_are_told_by_their_values(tmp_path: Path) -> None:
    """Equal values, equal fingerprints; any other value, another one."""
    from paor.states.run.spec import Spec, ToolSpec

    tool = ToolSpec(name="a.b", parameters={"type": "object", "properties": {"x": {"type": "string"}}})
    spec = Spec(objective="x", tools=(tool,))
    before = fingerprints_of(spec)
    edits = {
        "name": "a.c",
        "description": "other",
        "parameters": {},
        "effect": "read",
        "label": "x",
        "repeat_allowed": True,
        "step_retries": 1,
        "duplicate_limits": {"consecutive_limit": 2},
    }
    assert edits.keys() == ToolSpec.model_fields.keys()
    for name, value in edits.items():
        after = fingerprints_of(spec.model_copy(update={"tools": (tool.model_copy(update={name: value}),)}))
        assert after.get("tool.a.b") != before["tool.a.b"], name
    after = fingerprints_of(spec.model_copy(update={"policy": Policy(deny=("a.b",))}))
    assert {part for part in after if after[part] != before[part]} == {"policy"}
