"""
Fingerprints change with what code means, never with its form.

Refactorings of the real deciding code change nothing, and a waiting run resumes after them; edits of what it means are all seen, and
a run that was recorded before them is refused. Both in the words of the code as it is: each edit is found exactly once.
"""

from __future__ import annotations

import ast
import inspect
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path

import pytest

import paor
from paor.fsm.machine.guards import GUARDS
from paor.fsm.versioning.fingerprints import computed_code, package_files, read_package, roots_of
from paor.fsm.versioning.source_digests import Package

from ..support.pages import PACKAGE, ROOT
from . import refactoring
from .refactoring import Edits, deciding, everywhere

KEPT = {"_READERS", "_BY_PHASE"}
"""Private names that the fingerprints begin with."""


@lru_cache(maxsize=1)
def plain() -> dict[str, str]:
    """Return the fingerprints of the code as it is."""
    return computed_code(package_files())


def parts_after(edits: Mapping[str, str]) -> set[str]:
    """Return the parts that are others after *edits*."""
    for path, text in edits.items():
        compile(text, path, "exec")
    found = computed_code(package_files({path: text.encode() for path, text in edits.items()}))
    assert found.keys() == plain().keys()
    return {part for part in found if found[part] != plain()[part]}


def edited(*edits: tuple[str, str, str]) -> Edits:
    """Return files after edits of a path, an old text that is there once, and a new one."""
    files: Edits = {}
    for path, old, new in edits:
        text = files.get(path) or (PACKAGE / path).read_text(encoding="utf-8")
        assert text.count(old) == 1, (path, old, text.count(old))
        files[path] = text.replace(old, new)
    return files


# -- refactorings -------------------------------------------------------------------------------------------------

FORM: dict[str, Callable[[str], str]] = {
    "formatting": refactoring.reformatted,
    "comments": refactoring.commented,
    "docstrings": refactoring.redocumented,
    "annotations": refactoring.unannotated,
    "order of functions": refactoring.reordered,
    "order of imports": refactoring.imports_turned,
}


@pytest.mark.whole
@pytest.mark.parametrize("name", FORM)
def test_the_form_of_all_deciding_modules_changes_nothing(name: str) -> None:
    """Every module at once, and each of them is another text than before."""
    files = deciding()
    after = everywhere(files, FORM[name])
    assert sum(after[path] != files[path] for path in files) >= 60
    assert parts_after(after) == set()


def all_locals_renamed() -> tuple[Edits, int]:
    """Return all deciding modules with their local variables and parameters renamed."""
    files = deciding()
    given = refactoring.keywords_in([path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")])
    found = {path: refactoring.locals_renamed(text, given) for path, text in files.items()}
    return {path: text for path, (text, _) in found.items()}, sum(count for _, count in found.values())


def all_helpers_renamed() -> tuple[Edits, int]:
    """Return all deciding modules with their private functions, classes and constants renamed."""
    return refactoring.helpers_renamed(deciding(), set(roots()))


def all_attributes_renamed() -> tuple[Edits, int]:
    """Return all deciding modules with the private attributes and methods of their classes renamed."""
    return refactoring.attributes_renamed(deciding())


def all_moved() -> tuple[Edits, int]:
    """Return all deciding modules with every function that can move in a module of a new room of its floor."""
    edits: Edits = {}
    count = 0
    for path, text in deciding().items():
        floor, _, file = path.partition("/")
        names = [name for name in refactoring.movable(text) if name not in roots()]
        if names and "\nfrom __future__" in text:
            edits |= refactoring.moved(path, text, names, f"{floor}/attic/{file}")
            edits[f"{floor}/attic/__init__.py"] = ""
            count += len(names)
    return edits, count


@lru_cache(maxsize=1)
def roots() -> frozenset[str]:
    """Return the names of the definitions that this very process decides with, which the parts begin with."""
    package = read_package(package_files())
    begun = {place for places in roots_of(package).values() for place in places.values()}
    return frozenset(name for module, name in begun if (module, name) not in package.boundaries) | KEPT


RENAMINGS: dict[str, tuple[Callable[[], tuple[Edits, int]], int]] = {
    "local variables and parameters": (all_locals_renamed, 800),
    "private functions, classes and constants": (all_helpers_renamed, 300),
    "private attributes and methods": (all_attributes_renamed, 50),
    "functions moved to a new room": (all_moved, 300),
}


@pytest.mark.whole
@pytest.mark.parametrize("name", RENAMINGS)
def test_names_and_places_in_all_deciding_modules_change_nothing(name: str) -> None:
    """All of them at once; how many there are at least is beside it."""
    make, least = RENAMINGS[name]
    edits, count = make()
    assert count >= least, count
    assert parts_after(edits) == set()


PUBLIC = (
    *(
        "plans_left",
        "stale_after",
        "steps_left_in_plan",
        "step_of",
        "selection_of",
        "first_stop",
        "folded_text",
    ),
    *(
        "rule_broken",
        "limits_for",
        "observation_of",
        "previews_of",
        "message_of",
        "token_budget_used_up",
        "nothing_stops",
    ),
    *(
        "limit_reached",
        "prompt_tokens",
        "newest_lines",
        "history_text",
        "final_answer",
        "Reservation",
        "Invalid",
    ),
)
"""Public functions and classes that only the package uses."""


G, J, C = "fsm/machine/guards.py", "fsm/decision/progress.py", "fsm/machine/updates.py"


def public_renamed(*names: str) -> Edits:
    """Return the deciding modules with public names renamed wherever they are used."""
    whole = re.compile(rf"\b({'|'.join(names)})\b")
    return everywhere(deciding(), lambda text: whole.sub(lambda found: f"{found[1]}_anew", text))


def is_defined(name: str) -> bool:
    """Return whether a name is defined in a deciding module."""
    return any(re.search(rf"(?m)^(?:def|class) {name}\b", text) for text in deciding().values())


def test_public_names_within_the_package_change_nothing() -> None:
    """All at once; where that fails, each alone, so that the failure has a name."""
    assert {name for name in PUBLIC if not is_defined(name)} == set(), "names that are not there"
    if parts_after(public_renamed(*PUBLIC)):
        assert {name: parts for name in PUBLIC if (parts := parts_after(public_renamed(name)))} == {}
        raise AssertionError("only all of them together change something")


def module_renamed(old: str, new: str) -> Callable[[], Mapping[str, str | None]]:
    """Return what renames a module, which may go to another room."""
    return lambda: refactoring.module_moved(deciding(), f"{old}.py", f"{new}.py")


def merged() -> Mapping[str, str | None]:
    """Return the modules with `fsm.decision.progress` within `fsm.decision.plan_mode`."""
    files: dict[str, str | None] = {
        path: re.sub(r"(\.decision|from )\.progress import", r"\1.plan_mode import", text)
        for path, text in deciding().items()
    }
    own = (files.pop(J) or "").replace("from __future__ import annotations\n", "")
    target = "fsm/decision/plan_mode.py"
    return {**files, J: None, target: f"{files[target]}\n{own}"}


MODULES: dict[str, Callable[[], Mapping[str, str | None]]] = {
    "a module is renamed": module_renamed("fsm/decision/progress", "fsm/decision/judgements"),
    "a module goes to a room of its own": module_renamed(
        "fsm/decision/duplicate_calls", "fsm/decision/calls/duplicates"
    ),
    "another one does": module_renamed("states/run/budgets", "states/settings/budgets"),
    "the references go to another room": module_renamed(
        "fsm/workflow/step_references", "fsm/decision/step_references"
    ),
    "two modules become one": merged,
}


@pytest.mark.whole
@pytest.mark.parametrize("name", MODULES)
def test_modules_have_no_say(name: str) -> None:
    """What a module is called, which room it is in and what else it defines changes nothing."""
    edits = MODULES[name]()
    found = computed_code(package_files({path: text and text.encode() for path, text in edits.items()}))  # type: ignore[misc]
    assert found == plain()


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
    "the variable of a generator": (
        (
            G,
            "next((tool.step_retries for tool in case.run.spec.tools if intent and tool.name == intent.tool), 0)",
            "next((each.step_retries for each in case.run.spec.tools if intent and each.name == intent.tool), 0)",
        ),
    ),
    "another local with the name of a module's function": (
        (
            J,
            "    wanted = [folded_text(text) for text in run.spec.success_criteria]",
            "    progress = [folded_text(text) for text in run.spec.success_criteria]",
        ),
        (J, "in enumerate(wanted):", "in enumerate(progress):"),
    ),
    "an import has an alias": (
        ("fsm/decision/interpret.py", "import fill_defaults\n", "import fill_defaults as completed\n"),
        ("fsm/decision/interpret.py", "= fill_defaults(", "= completed("),
    ),
    "a module is imported instead of its functions": (
        (
            G,
            "from ..decision.plan_mode import step_of, steps_left_in_plan",
            "from ..decision import plan_mode",
        ),
        (G, "case.intent, step_of(case.run)", "case.intent, plan_mode.step_of(case.run)"),
        (G, "step = step_of(case.run) if", "step = plan_mode.step_of(case.run) if"),
        (G, "return steps_left_in_plan(case.run) > 0", "return plan_mode.steps_left_in_plan(case.run) > 0"),
        (
            G,
            "memory.plan, steps_left_in_plan(case.run)",
            "memory.plan, plan_mode.steps_left_in_plan(case.run)",
        ),
    ),
    "an import is within a function": (
        ("fsm/decision/duplicate_calls.py", "import hashlib\n", ""),
        (
            "fsm/decision/duplicate_calls.py",
            "    return hashlib.sha256(",
            "    import hashlib\n\n    return hashlib.sha256(",
        ),
    ),
    "a name is imported from its module": (
        ("fsm/decision/plan_mode.py", "import uuid\n", "from uuid import UUID, uuid5\n"),
        ("fsm/decision/plan_mode.py", '_PLAN_IDS = uuid.UUID("', '_PLAN_IDS = UUID("'),
        ("fsm/decision/plan_mode.py", "uuid.uuid5(", "uuid5("),
    ),
    "a local has an annotation": (
        (J, "    met = list(run.counters.criteria)", "    met: list[str] = list(run.counters.criteria)"),
    ),
    "a constant has another annotation": (
        (
            C,
            "def _failed(case: GuardContext, reason: str) -> Update:",
            "def _failed(case: Any, reason: Any) -> Any:",
        ),
    ),
    "parentheses and lines": (
        (
            G,
            "    return reviewed and case.stop_reason is None",
            "    return (\n        reviewed\n        and (case.stop_reason is None)\n    )",
        ),
    ),
    "a statement that does nothing": (
        (
            G,
            "    result = case.result\n    if result is None or",
            "    result = case.result\n    pass\n    if result is None or",
        ),
    ),
    "a parameter and those who give it by name": (
        (
            "fsm/decision/duplicate_calls.py",
            "limits: Limits, *, succeeded: bool = False",
            "limits: Limits, *, worked: bool = False",
        ),
        ("fsm/decision/duplicate_calls.py", "and succeeded and window", "and worked and window"),
        ("fsm/decision/interpret.py", "succeeded=succeeded", "worked=succeeded"),
    ),
    "a function that nobody uses": (
        (J, "def folded_text(", "def unused(text: str) -> str:\n    return text\n\n\ndef folded_text("),
    ),
    "a constant that nobody uses": ((G, "Guard = Callable", "UNUSED = 7\nGuard = Callable"),),
}


def test_small_refactorings_change_nothing() -> None:
    """All at once; where that fails, each alone, so that the failure has a name."""
    every = [edit for edits in SMALL.values() for edit in edits]
    if parts_after(edited(*every)):
        assert {name: parts for name, edits in SMALL.items() if (parts := parts_after(edited(*edits)))} == {}
        raise AssertionError("only all of them together change something")


def test_there_are_enough_refactorings() -> None:
    """At least forty named ones, most of them in all modules at once."""
    assert len(FORM) + len(RENAMINGS) + len(PUBLIC) + len(MODULES) + len(SMALL) >= 50


# -- changes of meaning -------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def known() -> Package:
    """Return the package as it is, with the boundaries of its parts."""
    return read_package(package_files())


@lru_cache(maxsize=64)
def alone(part: str) -> tuple[str, ...]:
    """Return the digests of the definitions that one part begins with, read without the others."""
    return digests_of(part, {})


def digests_of(part: str, edits: Mapping[str, str]) -> tuple[str, ...]:
    """Return the digests of the definitions that a part begins with after *edits*."""
    package = Package(package_files({path: text.encode() for path, text in edits.items()}))
    package.boundaries |= known().boundaries
    places = roots_of(known())[part].values()
    found = package.digests(places)
    return tuple(found[place] for place in places)


class _Denied(ast.NodeTransformer):
    """Negates what one function returns."""

    def __init__(self, name: str) -> None:
        self.name = name

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self.generic_visit(node) if node.name == self.name else node

    def visit_Return(self, node: ast.Return) -> ast.AST:
        assert node.value is not None
        return ast.copy_location(ast.Return(ast.UnaryOp(ast.Not(), node.value)), node)


@pytest.mark.parametrize("name", sorted(GUARDS))
def test_a_guard_that_says_the_opposite_is_seen(name: str) -> None:
    """Every guard of the table."""
    tree = _Denied(name).visit(ast.parse((PACKAGE / G).read_text(encoding="utf-8")))
    text = ast.unparse(ast.fix_missing_locations(tree))
    assert digests_of(f"guard.{name}", {G: text}) != alone(f"guard.{name}")


A, B, D, O, S = (
    "fsm/decision/guard_context.py",
    "states/run/budgets.py",
    "fsm/decision/duplicate_calls.py",
    "fsm/decision/observation.py",
    "fsm/asking.py",
)
MEANING: tuple[tuple[str, str, str, str], ...] = (
    # another comparison
    (
        "guard.elicitations_left",
        "states/run/budgets.py",
        "counters.elicitations < run",
        "counters.elicitations <= run",
    ),
    (
        "guard.selection_retries_left",
        "states/run/budgets.py",
        "counters.selection_retries < run",
        "counters.selection_retries <= run",
    ),
    (
        "guard.step_retries_left",
        "states/run/budgets.py",
        "run.counters.step_retries < allowed",
        "run.counters.step_retries <= allowed",
    ),
    ("guard.retries_left", "states/run/budgets.py", "counters.retries < run", "counters.retries <= run"),
    ("guard.plan_has_steps", G, "steps_left_in_plan(case.run) > 0", "steps_left_in_plan(case.run) >= 0"),
    ("guard.steps_left", "states/run/budgets.py", "counters.plans < run", "counters.plans <= run"),
    ("phase.Reviewing", J, "score > best", "score >= best"),
    (
        "core.decide",
        "states/run/budgets.py",
        "stale >= run.spec",
        "stale > run.spec",
    ),
    (
        "guard.budget_used_up",
        "states/run/budgets.py",
        "held.tokens >= limits.token_budget",
        "held.tokens > limits.token_budget",
    ),
    (
        "phase.Specifying",
        D,
        "same_key if window and window[-1] == key else 0",
        "same_key if window and window[-1] != key else 0",
    ),
    ("phase.Specifying", D, "trailing + 1 >= limits", "trailing + 1 > limits"),
    # another constant
    ("phase.Reviewing", J, "return stale + 1, best", "return stale + 2, best"),
    (
        "core.decide",
        "fsm/machine/table.py",
        '"no_improvement",\n        "stop_reached"',
        '"max_plans",\n        "stop_reached"',
    ),
    ("phase.Specifying", D, "ALTERNATION = 8", "ALTERNATION = 6"),
    ("phase.Observing", O, "SUMMARY_CHARS = 140", "SUMMARY_CHARS = 141"),
    ("phase.Observing", O, 'CUT = "…"', 'CUT = "..."'),
    ("guard.answer_valid", G, '("accept", "decline")', '("accept", "cancel")'),
    ("phase.Specifying", "fsm/machine/updates.py", '"required": ["approve"]', '"required": []'),
    ("guard.criteria_met", "states/run/budgets.py", '"0" not in criteria', '"1" not in criteria'),
    ("phase.Executing", C, "counters.same_key + 1 if window", "counters.same_key + 2 if window"),
    # another default
    ("phase.Specifying", D, "succeeded: bool = False", "succeeded: bool = True"),
    ("guard.budget_used_up", B, "    tokens: int = 0\n", "    tokens: int = 1\n"),
    # another attribute
    ("guard.hard_stop", G, "return case.stop is not None", "return case.denied is not None"),
    (
        "guard.review_retries_left",
        "states/run/budgets.py",
        "spec.limits.review_retries",
        "spec.limits.max_retries",
    ),
    ("phase.Reviewing", C, "improvements=review.improvements or None", "improvements=review.status or None"),
    (
        "phase.Specifying",
        C,
        "refused=_failures_in_row(case, counters.refused",
        "refused=_failures_in_row(case, counters.errors",
    ),
    # another order of checks
    (
        "guard.selection_ok",
        G,
        "return selection_valid(case) and action_allowed(case)",
        "return action_allowed(case) and selection_valid(case)",
    ),
    (
        "guard.parameters_ok",
        G,
        "return parameters_valid(case) and parameters_safe(case)",
        "return parameters_safe(case) and parameters_valid(case)",
    ),
    (
        "core.decide",
        "fsm/machine/table.py",
        '(REVIEWING,), ("review_retry",), meaning="a retry, and none',
        '(REVIEWING,), ("reviewed",), meaning="a retry, and none',
    ),
    (
        "core.decide",
        "fsm/machine/stop_rules.py",
        "    case.stop = None if nothing_stops(case) else first_stop(case, HARD_STOP)\n",
        "    case.stop = None\n",
    ),
    # a swapped argument
    ("phase.Reviewing", C, "stale_after(case.run, refinement)", "stale_after(refinement, case.run)"),
    (
        "phase.Specifying",
        "fsm/decision/interpret.py",
        "duplicate_key(run.spec.key_salt, tool.name, arguments)",
        "duplicate_key(tool.name, run.spec.key_salt, arguments)",
    ),
    (
        "phase.Specifying",
        "fsm/decision/interpret.py",
        "case.approval_id = approval_id(policy, tool.name, key)",
        "case.approval_id = approval_id(policy, key, tool.name)",
    ),
    # swapped locals, parameters and names
    ("phase.Reviewing", J, "        return 0, score\n", "        return 0, best\n"),
    ("phase.Reviewing", J, "    stale, best = run.counters.stale", "    best, stale = run.counters.stale"),
    (
        "phase.Specifying",
        D,
        "def duplicate_key(salt: str, tool: str,",
        "def duplicate_key(tool: str, salt: str,",
    ),
    ("guard.input_required", G, "isinstance(case.outcome, Asked)", "isinstance(case.outcome, Answered)"),
    (
        "guard.argument_missing",
        G,
        "def argument_missing(case: GuardContext) -> bool:\n",
        "def argument_missing(case: GuardContext) -> bool:\n    case = None\n",
    ),
    # a helper instead of another, a call left out, a decorator, a keyword
    (
        "phase.Reviewing",
        "fsm/machine/updates.py",
        "answer = final_answer(case, counters.stop, done=True)",
        "answer = final_answer(case, counters.stop, done=False)",
    ),
    ("phase.Observing", O, '    return " ".join(clean(text).split())', '    return " ".join(text.split())'),
    (
        "phase.Planning",
        C,
        "selection_retries=counters.selection_retries + 1",
        "parameter_retries=counters.selection_retries + 1",
    ),
    # what the shared parts are made of
    (
        "core.vocabulary",
        "states/records/actions.py",
        "class Intent(Stored, frozen=True",
        "class Intent(Stored, frozen=False",
    ),
    ("core.vocabulary", "states/settings/limits.py", "    max_steps: int", "    max_steps_: int"),
    (
        "core.decide",
        "fsm/machine/fold.py",
        '(OBSERVING, "observe"): "observation check message"',
        '(OBSERVING, "observe"): "observation check"',
    ),
    ("core.prompts", "prompts/building/history.py", "if len(text) > left:", "if len(text) >= left:"),
    ("core.prompts", "prompts/building/builder.py", "_RECENT_LABELS = 10", "_RECENT_LABELS = 11"),
    ("core.results", "fsm/runtime/tool_results.py", "ERROR_CHARS = 500", "ERROR_CHARS = 501"),
    ("core.schemas", "tools/schema/parameters.py", "_VISITS_MAX = 20_000", "_VISITS_MAX = 20_001"),
    ("core.plans", "fsm/workflow/step_references.py", "DEPTH_MAX = 64", "DEPTH_MAX = 65"),
    ("core.workflow", "fsm/workflow/navigation.py", "HOPS_MAX = 1_000", "HOPS_MAX = 1_001"),
    ("core.expressions", "fsm/workflow/expressions/nodes.py", "DEPTH_MAX = ", "DEPTH_MAX = 1 + "),
)


@pytest.mark.whole
@pytest.mark.parametrize("number", range(len(MEANING)))
def test_a_change_of_meaning_is_seen_in_its_part(number: int) -> None:
    """Another comparison, constant, default, attribute, order, argument."""
    part, path, old, new = MEANING[number]
    assert digests_of(part, edited((path, old, new))) != alone(part), (old, new)


def test_there_are_enough_changes_of_meaning() -> None:
    """At least sixty."""
    assert len(GUARDS) + len(MEANING) >= 75


def test_the_order_of_rows_templates_and_schemas_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is no code of a phase has parts of its own."""
    from paor.fsm.machine import table
    from paor.fsm.versioning import fingerprints
    from paor.prompts.parsing.reply_forms import answer_form
    from paor.states.run.spec import Spec

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
    plain, other = Spec(objective="x", templates={"plan": "a"}), Spec(objective="x", templates={"plan": "b"})
    assert (
        fingerprints.given_fingerprints(plain)["prompt.plan"]
        != fingerprints.given_fingerprints(other)["prompt.plan"]
    )


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


def refactored() -> Edits:
    """Return all modules of the package with local variables and private helpers renamed, laid out anew, functions moved."""
    files = {
        path.relative_to(PACKAGE).as_posix(): path.read_text(encoding="utf-8")
        for floor in ("fsm", "states", "prompts", "tools")
        for path in (PACKAGE / floor).rglob("*.py")
        if path.name != "__init__.py"
    }
    files, _ = refactoring.helpers_renamed(files, {"_COMPILED", "_current"})
    outside = [
        *PACKAGE.glob("[!fpst]*/**/*.py"),
        ROOT / "tests" / "support" / "worlds.py",
        ROOT / "tests" / "support" / "planning.py",
    ]
    given = refactoring.keywords_in(
        [*files.values(), *(path.read_text(encoding="utf-8") for path in outside)]
    )
    given |= set(inspect.signature(paor.Engine).parameters)
    for path in deciding():
        files[path], _ = refactoring.locals_renamed(files[path], given)
    edits = dict(files)
    for path in deciding():
        floor, _, file = path.partition("/")
        names = [] if path == G else refactoring.movable(files[path])
        if names and "\nfrom __future__" in files[path]:
            edits |= refactoring.moved(path, files[path], names, f"{floor}/attic/{file}")
            edits[f"{floor}/attic/__init__.py"] = ""
    return edits


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
    assert ran(copied(tmp_path / "anew", refactored()), tmp_path / "runs", "resume") == "Done"
