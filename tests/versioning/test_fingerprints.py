"""
Fingerprints change with what code means, never with its form; every part that decides has one, and a waiting run resumes after a
refactoring. The edits are of the deciding code as it is: each old text is found exactly once.
"""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

import pytest

from paor import Policy
from paor.fsm.machine import machine, table
from paor.fsm.machine.guards import GUARDS
from paor.fsm.versioning import fingerprints
from paor.fsm.versioning.fingerprints import (
    UNREADABLE,
    code_fingerprints,
    computed_code,
    fingerprints_of,
    given_fingerprints,
    package_files,
    read_package,
    roots_of,
)
from paor.fsm.versioning.source_digests import Package
from paor.machine import Machine
from paor.prompts.building.templates import NAMES
from paor.prompts.parsing.reply_forms import answer_form
from paor.states.run.spec import Spec, ToolSpec

from ..support.pages import PACKAGE, ROOT
from ..support.worlds import READ, STOP, SUCCESS, engine

G, J, C, D = (
    "fsm/machine/guards.py",
    "fsm/decision/progress.py",
    "fsm/machine/updates.py",
    "fsm/decision/duplicate_calls.py",
)
B, O, I = "states/run/budgets.py", "fsm/decision/observation.py", "fsm/decision/interpret.py"


@lru_cache(maxsize=1)
def plain() -> dict[str, str]:
    """Return the fingerprints of the code as it is."""
    return computed_code(package_files())


@lru_cache(maxsize=1)
def known() -> Package:
    """Return the package as it is, with the boundaries of its parts."""
    return read_package(package_files())


def edited(*edits: tuple[str, str, str]) -> dict[str, str]:
    """Return files after edits of a path, an old text that is there once, and a new one."""
    files: dict[str, str] = {}
    for path, old, new in edits:
        text = files.get(path) or (PACKAGE / path).read_text(encoding="utf-8")
        assert text.count(old) == 1, (path, old, text.count(old))
        files[path] = text.replace(old, new)
    return files


def parts_after(edits: Mapping[str, str | None]) -> set[str]:
    """Return the parts that are others after *edits*; None removes a file."""
    files = {path: None if text is None else text.encode() for path, text in edits.items()}
    found = computed_code(package_files(files))
    assert found.keys() == plain().keys()
    return {part for part in found if found[part] != plain()[part]}


def digests_of(part: str, edits: Mapping[str, str]) -> tuple[str, ...]:
    """Return the digests of the definitions that a part begins with after *edits*, read without the others."""
    package = Package(package_files({path: text.encode() for path, text in edits.items()}))
    package.boundaries |= known().boundaries
    places = roots_of(known())[part].values()
    found = package.digests(places)
    return tuple(found[place] for place in places)


# -- form ---------------------------------------------------------------------------------------------------------------

SMALL: dict[str, tuple[tuple[str, str, str], ...]] = {
    "what a stop says to people": (
        ("fsm/machine/table.py", 'meaning="every criterion is met"', 'meaning="all criteria are met"'),
    ),
    "a local variable of a guard": (
        (
            G,
            "    spec = case.run.spec\n    wanted = spec.final_format is not None and spec.formatter is not None",
            "    given = case.run.spec\n    wanted = given.final_format is not None and given.formatter is not None",
        ),
    ),
    "the parameter of a guard": (
        (G, "def duplicate(case: GuardContext) -> bool:", "def duplicate(it: GuardContext) -> bool:"),
        (G, "return case.duplicate is not None", "return it.duplicate is not None"),
    ),
    "an import has an alias": (
        (I, "import fill_defaults\n", "import fill_defaults as completed\n"),
        (I, "= fill_defaults(", "= completed("),
    ),
    "an import is within a function": (
        (D, "import hashlib\n", ""),
        (
            D,
            "    return hashlib.sha256(",
            "    import hashlib\n\n    return hashlib.sha256(",
        ),
    ),
    "a name is imported from its module": (
        ("fsm/decision/plan_mode.py", "import uuid\n", "from uuid import UUID, uuid5\n"),
        ("fsm/decision/plan_mode.py", '_PLAN_IDS = uuid.UUID("', '_PLAN_IDS = UUID("'),
        ("fsm/decision/plan_mode.py", "uuid.uuid5(", "uuid5("),
    ),
    "a parameter and those who give it by name": (
        (
            D,
            "limits: Limits, *, succeeded: bool = False",
            "limits: Limits, *, worked: bool = False",
        ),
        (D, "and succeeded and window", "and worked and window"),
        (I, "succeeded=succeeded", "worked=succeeded"),
    ),
    "a function that nobody uses": (
        (J, "def folded_text(", "def unused(text: str) -> str:\n    return text\n\n\ndef folded_text("),
    ),
}


def test_small_refactorings_change_nothing() -> None:
    """All at once; where that fails, each alone, so that the failure has a name."""
    every = [edit for edits in SMALL.values() for edit in edits]
    if parts_after(edited(*every)):
        assert {name: parts for name, edits in SMALL.items() if (parts := parts_after(edited(*edits)))} == {}
        raise AssertionError("only all of them together change something")


def renamed_within() -> tuple[dict[str, str], int]:
    """Return the deciding modules with the private functions, constants, attributes and methods that only they name renamed."""
    texts = {path: path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}
    mentions = {path: set(re.findall(r"\b_[A-Za-z]\w+", text)) for path, text in texts.items()}
    begun = {name for places in roots_of(known()).values() for _, name in places.values()}
    files, count = {}, 0
    for path in DECIDING.split():
        text = texts[PACKAGE / path]
        elsewhere = set().union(*(names for other, names in mentions.items() if other != PACKAGE / path))
        defined = set(re.findall(r"(?m)^ *(?:def |class |self\.)?(_[A-Za-z]\w+)(?=[(:]| = |: )", text))
        own = sorted(defined - elsewhere - begun - {"_READERS", "_BY_PHASE"})
        files[path] = re.sub(rf"\b({'|'.join(own)})\b", r"\1_anew", text) if own else text
        count += len(own)
    return files, count


@pytest.mark.whole
def test_private_names_of_all_deciding_modules_change_nothing() -> None:
    """All of them at once."""
    files, count = renamed_within()
    assert count >= 100
    assert parts_after(files) == set()


@pytest.mark.whole
def test_a_module_may_go_elsewhere_under_another_name() -> None:
    """What a module is called, and which room it is in, changes nothing."""
    files: dict[str, str | None] = {
        path.relative_to(PACKAGE).as_posix(): re.sub(
            r"from \.(?:\.decision\.)?progress import", "from ...states.run.judgements import", text
        )
        for path in PACKAGE.glob("fsm/*/*.py")
        if "progress import" in (text := path.read_text(encoding="utf-8"))
    }
    assert len(files) >= 3
    own = (PACKAGE / J).read_text(encoding="utf-8")
    moved = own.replace("from ...states.", "from ..")
    assert parts_after({**files, J: None, "states/run/judgements.py": moved}) == set()


# -- meaning ------------------------------------------------------------------------------------------------------------


class _Denied(ast.NodeTransformer):
    """Negates what one function returns."""

    def __init__(self, name: str) -> None:
        self.name = name

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self.generic_visit(node) if node.name == self.name else node

    def visit_Return(self, node: ast.Return) -> ast.AST:
        assert node.value is not None
        return ast.copy_location(ast.Return(ast.UnaryOp(ast.Not(), node.value)), node)


@pytest.mark.whole
def test_a_guard_that_says_the_opposite_is_seen() -> None:
    """Every guard of the table."""
    for name in sorted(GUARDS):
        tree = _Denied(name).visit(ast.parse((PACKAGE / G).read_text(encoding="utf-8")))
        text = ast.unparse(ast.fix_missing_locations(tree))
        assert digests_of(f"guard.{name}", {G: text}) != digests_of(f"guard.{name}", {}), name


MEANING: tuple[tuple[str, str, str, str], ...] = (
    # another comparison, constant, default or attribute
    ("guard.elicitations_left", B, "counters.elicitations < run", "counters.elicitations <= run"),
    ("phase.Reviewing", J, "score > best", "score >= best"),
    ("phase.Specifying", D, "ALTERNATION = 8", "ALTERNATION = 6"),
    ("phase.Observing", O, 'CUT = "…"', 'CUT = "..."'),
    ("phase.Specifying", C, '"required": ["approve"]', '"required": []'),
    ("phase.Specifying", D, "succeeded: bool = False", "succeeded: bool = True"),
    ("guard.budget_used_up", B, "    tokens: int = 0\n", "    tokens: int = 1\n"),
    ("guard.hard_stop", G, "return case.stop is not None", "return case.denied is not None"),
    # another order of checks, a swapped argument, local or parameter
    (
        "guard.selection_ok",
        G,
        "return selection_valid(case) and action_allowed(case)",
        "return action_allowed(case) and selection_valid(case)",
    ),
    ("phase.Reviewing", C, "stale_after(case.run, refinement)", "stale_after(refinement, case.run)"),
    ("phase.Reviewing", J, "    stale, best = run.counters.stale", "    best, stale = run.counters.stale"),
    (
        "phase.Specifying",
        D,
        "def duplicate_key(salt: str, tool: str,",
        "def duplicate_key(tool: str, salt: str,",
    ),
    # another type, a call left out, what the shared parts are made of
    ("guard.input_required", G, "isinstance(case.outcome, Asked)", "isinstance(case.outcome, Answered)"),
    ("phase.Observing", O, '    return " ".join(clean(text).split())', '    return " ".join(text.split())'),
    (
        "core.vocabulary",
        "states/records/actions.py",
        "class Intent(Stored, frozen=True",
        "class Intent(Stored, frozen=False",
    ),
    ("core.prompts", "prompts/building/history.py", "if len(text) > left:", "if len(text) >= left:"),
    ("core.results", "fsm/runtime/tool_results.py", "ERROR_CHARS = 500", "ERROR_CHARS = 501"),
    ("core.schemas", "tools/schema/parameters.py", "_VISITS_MAX = 20_000", "_VISITS_MAX = 20_001"),
    ("core.plans", "fsm/workflow/step_references.py", "DEPTH_MAX = 64", "DEPTH_MAX = 65"),
    ("core.workflow", "fsm/workflow/navigation.py", "HOPS_MAX = 1_000", "HOPS_MAX = 1_001"),
    ("core.expressions", "fsm/workflow/expressions/nodes.py", "DEPTH_MAX = ", "DEPTH_MAX = 1 + "),
    (
        "core.expressions",
        "fsm/workflow/expressions/parser.py",
        "?conditional: either",
        "?conditional:  either",
    ),
)
"""Part, file, old and new text of an edit."""


@pytest.mark.whole
def test_a_change_of_meaning_is_seen_in_its_part() -> None:
    """One of each kind."""
    for part, path, old, new in MEANING:
        assert digests_of(part, edited((path, old, new))) != digests_of(part, {}), (old, new)


@pytest.mark.parametrize(
    ("path", "old", "new", "parts"),
    [
        (
            J,
            "if best is None or score > best:",
            "if best is None or score >= best:",
            "phase.Reviewing core.decide",
        ),
        (
            G,
            'case.review.status == "retry"',
            'case.review.status != "retry"',
            "guard.review_retry core.decide",
        ),
        pytest.param(
            G,
            "return budgets.steps_left(case.run) and budgets.plans_left(case.run)",
            "return budgets.steps_left(case.run) or budgets.plans_left(case.run)",
            "guard.steps_left",
            marks=pytest.mark.whole,
        ),
        pytest.param(
            "states/executing.py",
            "return ToolRequest(run.memory.intent)",
            "return NOTHING",
            "phase.Executing",
            marks=pytest.mark.whole,
        ),
    ],
)
def test_a_part_is_named_with_whatever_it_depends_on(path: str, old: str, new: str, parts: str) -> None:
    """A helper belongs to every part that uses it, and to no other."""
    assert parts_after(edited((path, old, new))) == set(parts.split())


def test_the_order_of_rows_templates_and_schemas_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is no code of a phase has parts of its own."""
    before = fingerprints.rows_and_schemas.__wrapped__("double")
    rows = list(table.ROWS)
    rows[0], rows[1] = rows[1], rows[0]
    monkeypatch.setattr(fingerprints, "ROWS", tuple(rows))
    forms = dict.fromkeys(fingerprints.KINDS, (answer_form(),))
    monkeypatch.setattr(fingerprints, "example_forms", lambda stage: forms)
    after = fingerprints.rows_and_schemas.__wrapped__("double")
    changed = {part for part in after if after[part] != before[part]}
    assert {f"row.{row.source}.{row.trigger}" for row in rows[:2]} <= changed
    assert {"schema.selection", "schema.review", "schema.plan"} <= changed
    one, other = (given_fingerprints(Spec(objective="x", templates={"plan": text})) for text in "ab")
    assert one["prompt.plan"] != other["prompt.plan"]


# -- parts --------------------------------------------------------------------------------------------------------------


def test_the_kept_fingerprints_are_those_of_the_code_now() -> None:
    """Else a first run would read all the code; python docs/generate.py writes them."""
    assert fingerprints._KEPT.read_text() == fingerprints.kept_text()
    assert fingerprints.published_code() == code_fingerprints()


def test_a_spec_has_one_for_every_part(tmp_path: Path) -> None:
    """Phases, guards, rows, templates, schemas, tools, policy."""
    with engine(tmp_path, [*READ(1), STOP, SUCCESS]) as scripted:
        run_id = scripted.run("Read").run_id
        spec = scripted.journal.spec(run_id)
    parts = set(spec.fingerprints)
    assert {f"guard.{name}" for name in GUARDS} <= parts
    assert {f"row.{row.source}.{row.trigger}" for row in table.ROWS} <= parts
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


DECIDING = """
    fsm/machine/guards.py fsm/decision/guard_context.py fsm/machine/updates.py fsm/decision/progress.py
    fsm/machine/stop_rules.py fsm/decision/plan_mode.py fsm/machine/machine.py fsm/machine/fold.py
    fsm/decision/observation.py fsm/machine/decide.py fsm/decision/duplicate_calls.py
    fsm/decision/run_resources.py fsm/decision/workflow_mode.py fsm/workflow/variables.py
    fsm/workflow/step_references.py fsm/runtime/tool_results.py prompts/building/builder.py
    prompts/building/history.py prompts/parsing/replies.py prompts/parsing/plans.py
    prompts/parsing/plan_data.py prompts/parsing/json_reading.py states/run/budgets.py states/run/state.py
    states/run/spec.py states/records/actions.py tools/catalog.py
"""

LEFT = """
    Callback Compiled Guard Needed Predicate R RESOLVED SAME Sets T Transition Update Values W WORDS Words _
    _FUNCTIONS _STOPS _budgets _patience _usage_words doubt_words guards_in_force should_continue words words_of
"""
"""Tables of parts, names for types, the words of guards, and what no decision uses."""


@pytest.mark.whole
def test_every_definition_that_decides_belongs_to_a_part() -> None:
    """So that no edit of what decides goes unseen; what is left are tables of the parts and what only writes or types."""
    package = known()
    fingerprints.parts_of(package)
    roots = [place for places in roots_of(package).values() for place in places.values()]
    covered = set().union(*map(package.reached, roots)) | package.boundaries.keys()
    left = {
        name
        for path in DECIDING.split()
        for name in getattr(package.source(path.removesuffix(".py").replace("/", ".")), "definitions", ())
        if (path.removesuffix(".py").replace("/", "."), name) not in covered
    }
    assert left == set(LEFT.split())


def test_guards_and_changes_that_somebody_replaced_are_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also when the files are as they were."""
    monkeypatch.setattr(machine, "MACHINE", Machine(guards={**GUARDS, "retries_left": lambda case: True}))
    found = code_fingerprints()
    assert {part for part in found if found[part] != plain()[part]} == {"guard.retries_left"}


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
    command = [str(program), str(PACKAGE), *DECIDING.split()]
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
        "filled": ("language",),
    }
    assert edits.keys() == ToolSpec.model_fields.keys()
    for name, value in edits.items():
        after = fingerprints_of(spec.model_copy(update={"tools": (tool.model_copy(update={name: value}),)}))
        assert after.get("tool.a.b") != before["tool.a.b"], name
    after = fingerprints_of(spec.model_copy(update={"policy": Policy(deny=("a.b",))}))
    assert {part for part in after if after[part] != before[part]} == {"policy"}


# -- waiting runs -------------------------------------------------------------------------------------------------

SCRIPT = """
import sys
from pathlib import Path
from paor import Policy
from paor.errors import RunChanged
from tests.support.worlds import PARAMETERS, SELECT, STOP, SUCCESS, engine

import paor
assert Path(paor.__file__).parent == Path(sys.argv[1]), paor.__file__
script = [SELECT("notes.send", {"text": "string"}), PARAMETERS(text="x"), STOP, SUCCESS]
with engine(Path(sys.argv[2]), script, policy=Policy(approvals=("*.send",))) as scripted:
    if sys.argv[3] == "record":
        print(scripted.run("Send it").status)
    else:
        run_id = scripted.journal.runs()[0].run_id
        try:
            print(scripted.resume(run_id, answer={"approve": True}).state)
        except RunChanged as error:
            print(*(line.split(" ")[0] for line in error.parts))
"""


def copied(folder: Path, edits: Mapping[str, str]) -> Path:
    """Return a copy of the package with *edits*."""
    package = folder / "paor"
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(PACKAGE, package, ignore=ignored)
    for path, text in edits.items():
        target = package / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    return package


def ran(package: Path, journal: Path, what: str) -> str:
    """Return what the script says when it runs with a copy of the package."""
    code = f"import sys; sys.path.insert(0, {str(package.parent)!r})\n{SCRIPT}"
    command = [sys.executable, "-c", code, str(package), str(journal), what]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr[-3000:]
    return ended.stdout.strip()


@pytest.mark.whole
def test_a_waiting_run_resumes_after_a_refactoring_and_not_after_a_change(tmp_path: Path) -> None:
    """Recorded by the package as it is; each of the others is a copy of it, with files of its own, in a process of its own."""
    plain_copy = copied(tmp_path / "plain", {})
    (tmp_path / "runs").mkdir()
    assert ran(plain_copy, tmp_path / "runs", "record") == "waiting"
    shutil.copytree(tmp_path / "runs", tmp_path / "changed")
    guard = edited(("states/run/budgets.py", "counters.step < run.spec", "counters.step <= run.spec"))
    assert (
        ran(copied(tmp_path / "guard", guard), tmp_path / "changed", "resume")
        == "core.decide core.prompts guard.plan_has_steps guard.steps_left phase.Planning"
    )
    assert ran(copied(tmp_path / "anew", {**renamed_within()[0]}), tmp_path / "runs", "resume") == "Done"
