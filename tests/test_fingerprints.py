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
from paor.fsm import fingerprints, machine
from paor.fsm.fingerprints import MODULES, UNREADABLE, code_fingerprints, computed_code, fingerprints_of
from paor.fsm.guards import GUARDS
from paor.fsm.source_digests import read_module
from paor.fsm.table import ROWS
from paor.prompts.templates import NAMES

from .pages import ROOT
from .worlds import READ, STOP, SUCCESS, engine


def sources() -> dict[str, bytes]:
    """Return the files of all modules that decide."""
    return {name: (ROOT / f"{name.replace('.', '/')}.py").read_bytes() for name in MODULES}


@pytest.fixture(scope="module")
def plain() -> dict[str, str]:
    """Return the fingerprints of the code as it stands."""
    return computed_code(sources())


def changed(plain: dict[str, str], module: str, old: str, new: str) -> set[str]:
    """Return the parts that are others once *old* is *new* in a module."""
    files = sources()
    text = files[module].decode()
    assert text.count(old) == 1, (module, old)
    files[module] = text.replace(old, new).encode()
    found = computed_code(files)
    assert found.keys() == plain.keys()
    return {part for part in found if found[part] != plain[part]}


def test_the_kept_fingerprints_are_those_of_the_code_now(plain: dict[str, str]) -> None:
    """Else a first run would read all the code; python docs/generate.py writes them."""
    assert (ROOT / "fsm" / "fingerprints.json").read_text() == fingerprints.kept_text()
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


def test_comments_formatting_docstrings_and_annotations_do_not_count(plain: dict[str, str]) -> None:
    """What is written otherwise and means the same has the same fingerprint."""
    files = sources()
    for name, source in files.items():
        text = re.sub(r"(?m)^( *)(return .*)$", r"\1# a comment\n\1\2  # another", source.decode())
        files[name] = (text + "\n\n# the end\n").encode()
    assert computed_code(files) == plain
    same = (
        ("fsm.guards", '"""There is a reason to stop: ', '"""Other words: '),
        ("fsm.guards", "def stop_reached(case: Case) -> bool:", "def stop_reached(case) -> 'bool':"),
        (
            "fsm.guards",
            "return bool(case.run.counters.concluded)",
            "return bool(\n        (case.run.counters.concluded),\n    )",
        ),
        (
            "fsm.duplicates",
            "from __future__ import annotations",
            "from __future__ import annotations\nimport math",
        ),
    )
    for edit in same:
        assert changed(plain, *edit) == set(), edit


def test_a_part_is_named_with_whatever_it_depends_on(plain: dict[str, str]) -> None:
    """A helper belongs to every part that uses it, and to no other."""
    cases = (
        (
            "fsm.guards",
            'case.review.status == "retry"',
            'case.review.status != "retry"',
            {"guard.review_retry"},
        ),
        (
            "fsm.planned",
            "return run.counters.plans < run.spec.limits.max_plans",
            "return run.counters.plans <= run.spec.limits.max_plans",
            {"guard.steps_left", "phase.Planning", "phase.Reviewing"},
        ),
        (
            "fsm.judging",
            "if best is None or score > best:",
            "if best is None or score >= best:",
            {"phase.Reviewing"},
        ),
        ("states.executing", "return ToolRequest(run.memory.intent)", "return NOTHING", {"phase.Executing"}),
        ("prompts.builders", 'memory.hint or ""', '""', {"core.prompts"}),
    )
    for module, old, new, parts in cases:
        assert changed(plain, module, old, new) == parts, (module, old)
    grammar = re.search(r"(?m)^\?conditional: either .*$", sources()["fsm.expression_parsing"].decode())
    assert grammar is not None
    assert changed(plain, "fsm.expression_parsing", grammar[0], f"{grammar[0]} ") == {"core.expressions"}


def test_every_definition_that_decides_belongs_to_a_part(plain: dict[str, str]) -> None:
    """So that no edit of what decides goes unseen; what is left writes rows, and decides nothing."""
    from paor.fsm.fingerprints import roots_of, stops_of
    from paor.fsm.source_digests import closure

    modules = {name: read_module(name, source, MODULES) for name, source in sources().items()}
    covered = {
        place for part, roots in roots_of().items() for place in closure(modules, roots, stops_of(part))
    }
    left = {
        f"{module}.{name}"
        for module, read in modules.items()
        for name in read.texts
        if (module, name) not in covered
    }
    allowed = (
        r"(fsm\.record|states\.counters)\..*",
        r"fsm\.(case\._READERS|changes\.CHANGES|asking\.Effect|guards\.(GUARDS|Guard|_FUNCTIONS))",
        r"fsm\.table\.(ROWS|TABLE|WAITING|fingerprint)",
        r"prompts\.model\..*|prompts\.replies\.[RW]|tools\.canonical\..*",
        r"tools\.hosts\.Address|tools\.policy\.(URL_CHARS|_CONTROL|path_arguments|unsafe_address|unsafe_url)",
    )
    assert [name for name in sorted(left) if not any(re.fullmatch(one, name) for one in allowed)] == []


def test_guards_and_changes_that_somebody_replaced_are_seen(
    monkeypatch: pytest.MonkeyPatch, plain: dict[str, str]
) -> None:
    """Also when the files are as they were."""
    compiled = dict(machine._COMPILED)
    key = ("Reviewing", False)
    compiled[key] = [
        (
            row,
            tuple(
                (name, wanted, (lambda case: True) if name == "retries_left" else guard)
                for name, wanted, guard in needed
            ),
        )
        for row, needed in compiled[key]
    ]
    monkeypatch.setattr(machine, "_COMPILED", compiled)
    found = code_fingerprints()
    assert {part for part in found if found[part] != plain[part]} == {"guard.retries_left"}


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
    program = tmp_path / "digests.py"
    shutil.copy(ROOT / "fsm" / "source_digests.py", tmp_path / "source_digests.py")
    program.write_text(
        "import sys, pathlib, hashlib, source_digests as d\n"
        "root, names = pathlib.Path(sys.argv[1]), frozenset(sys.argv[2:])\n"
        "for name in sorted(names):\n"
        "    read = d.read_module(name, (root / f\"{name.replace('.', '/')}.py\").read_bytes(), names)\n"
        "    text = repr((sorted(read.texts.items()), sorted((k, sorted(v)) for k, v in read.uses.items())))\n"
        "    print(name, hashlib.sha256(text.encode()).hexdigest())\n"
    )
    command = [str(program), str(ROOT), *sorted(MODULES)]
    here = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=True).stdout
    there = subprocess.run([python, *command], capture_output=True, text=True, check=True).stdout
    assert here == there and here.count("\n") == len(MODULES)


def test_without_sources_the_version_stands_for_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that was only compiled says so, instead of digests that nothing was read for."""

    def gone(name: str) -> bytes:
        raise FileNotFoundError(name)

    fingerprints.published_code.cache_clear()
    monkeypatch.setattr(fingerprints, "_source", gone)
    try:
        assert list(fingerprints.published_code()) == [UNREADABLE]
    finally:
        fingerprints.published_code.cache_clear()


def test_a_policy_and_a_tool_are_told_by_their_values(tmp_path: Path) -> None:
    """Equal values, equal fingerprints; any other value, another one."""
    from paor.states.spec import Spec, ToolSpec

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
