"""
Mutants: single edits to what decides a run, made from the syntax of the code, from templates, limits, policies and tools.

    for mutant in mutants(count=300, seed=7): ...

The same seed gives the same mutants of the same code. Docstrings, annotations, messages of errors and of assertions are left
alone: they decide nothing.
"""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

PACKAGE = Path(__file__).parents[2] / "src" / "paor"

SOURCES: dict[str, tuple[int, tuple[str, ...]]] = {
    "guard": (60, ("fsm/machine/guards.py",)),
    "table": (12, ("fsm/machine/table.py",)),
    "handler": (
        96,
        (
            *(
                "fsm/decision/interpret.py",
                "fsm/decision/progress.py",
                "fsm/machine/updates.py",
                "fsm/machine/stop_rules.py",
                "fsm/machine/machine.py",
                "fsm/machine/decide.py",
                "fsm/machine/decide.py",
                "fsm/decision/plan_mode.py",
                "fsm/decision/observation.py",
            ),
            *("fsm/machine/fold.py", "states/planning.py", "states/specifying.py"),
            *(
                "states/executing.py",
                "states/observing.py",
                "states/reviewing.py",
                "fsm/decision/workflow_mode.py",
            ),
        ),
    ),
    "limit": (20, ("states/run/budgets.py", "fsm/decision/duplicate_calls.py", "states/settings/limits.py")),
    "prompt": (
        30,
        ("prompts/building/builder.py", "prompts/building/history.py", "fsm/decision/run_resources.py"),
    ),
    "parser": (
        30,
        ("prompts/parsing/replies.py", "prompts/parsing/plans.py", "fsm/workflow/step_references.py"),
    ),
    "default": (
        12,
        ("tools/defaults.py", "tools/policy.py", "states/run/spec.py", "states/settings/policy.py"),
    ),
}
"""Kinds of edits to code: how many of three hundred, and where."""

LEFT_OUT = {
    "_",
    *("words", "words_of", "doubt_words", "_budgets", "_patience"),
    "restore",
    "reply_schema",
    "unsafe_url",
    "unsafe_address",
    "path_arguments",
    *("merged_limits", "_merged"),
}
"""
Functions that no replay of a journal runs: what a guard looked at in words (`_` and its like), how a resume reads a run (a
test of its own holds it to the fold), and the schema that a model is given with a request, which a row does not name. Their
fingerprints are those of their parts. How limits are put together is over before a run begins, whose spec has what came of it. The three before are called by web tools and where a tool opens a file, while they work: that is the code of tools,
which decides no run.
"""

TEMPLATES, GIVEN, POLICIES = 20, 16, 4
"""How many of three hundred are words of templates, and values of limits, policies and tools."""


@dataclass(frozen=True)
class Mutant:
    """
    One edit.

    Attributes:
        kind: What was edited: a key of `SOURCES`, ``template``, ``limits``, ``policy`` or ``tool``.
        file: Where, from the root of the repository; empty for what a spec holds.
        line: Where in it.
        what: The edit in words.
        place: Function or value that it is in.
        text: The whole file after it, or for a spec the value.
    """

    kind: str
    file: str
    line: int
    what: str
    place: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.file}:{self.line} {self.place}: {self.what}"


class Edit(NamedTuple):
    """What makes a mutant; to make it takes longer than to choose it."""

    kind: str
    file: str
    make: Callable[[], Mutant]


def mutants(count: int = 300, seed: int = 20260101) -> list[Mutant]:
    """Return *count* different mutants, shared out among the kinds as `SOURCES` says."""
    return [edit.make() for edit in edits(count, seed)]


def edits(count: int = 300, seed: int = 20260101) -> list[Edit]:
    """Return what makes these mutants, in their order."""
    chance = random.Random(seed)
    whole = sum(share for share, _ in SOURCES.values()) + TEMPLATES + GIVEN + POLICIES
    pools: list[tuple[int, list[Edit]]] = [
        (share, [edit for file in files for edit in code_edits(kind, file)])
        for kind, (share, files) in SOURCES.items()
    ]
    pools += [
        (TEMPLATES, list(template_edits())),
        (GIVEN, list(given_edits())),
        (POLICIES, list(policy_edits())),
    ]
    chosen: list[Edit] = []
    left: list[Edit] = []
    for share, pool in pools:
        chance.shuffle(pool)
        number = round(count * share / whole)
        chosen += pool[:number]
        left += pool[number:]
    chance.shuffle(left)
    chosen += left[: max(0, count - len(chosen))]
    return chosen[:count]


# -- code ---------------------------------------------------------------------------------------------------------

_COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}


def code_edits(kind: str, file: str) -> Iterator[Edit]:
    """Yield everything that can be edited in a file of code."""
    source = (PACKAGE / file).read_text(encoding="utf-8")
    tree = ast.parse(source)
    for number, (node, place) in enumerate(_deciding(tree)):
        for name, _ in _edits(node):
            line = getattr(node, "lineno", 0)
            yield Edit(kind, file, partial(_mutant, kind, file, source, number, name, place, line))


def _mutant(kind: str, file: str, source: str, number: int, name: str, place: str, line: int) -> Mutant:
    tree = ast.parse(source)
    node, _ = next(islice(_deciding(tree), number, None))
    before = ast.unparse(node)
    dict(_edits(node))[name]()
    after = ast.unparse(node)
    return Mutant(
        kind,
        file,
        line,
        f"{before[:90]} -> {after[:90]}",
        place,
        ast.unparse(tree),
    )


def _deciding(tree: ast.Module) -> Iterator[tuple[ast.AST, str]]:
    """Yield the nodes that decide something, with the name of what they stand in."""
    left: list[tuple[ast.AST, str]] = [(item, "") for item in reversed(tree.body)]
    while left:
        node, place = left.pop()
        if isinstance(node, ast.Import | ast.ImportFrom | ast.Assert | ast.Raise) or _is_docstring(node):
            continue
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Assign) and any(
            isinstance(t, ast.Name) and t.id in ("__all__", "_STOPS") for t in node.targets
        ):  # what a module gives away, and the words of stops for people
            continue
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            place = node.name
            if place in LEFT_OUT:
                continue
            inner: list[ast.AST] = list(node.body)
            if isinstance(node, ast.FunctionDef):
                inner += node.args.defaults
        else:
            inner = [
                child
                for name, value in ast.iter_fields(node)
                if name not in ("annotation", "returns")
                for child in (value if isinstance(value, list) else [value])
                if isinstance(child, ast.AST)
            ]
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id in ("cast", "Literal", "Row", "Stop")
            ):  # the last of a row and of a stop is its meaning, for people
                inner = inner[:-1] if node.func.id in ("Row", "Stop") else []
            if isinstance(node, ast.JoinedStr):
                inner = [item for item in inner if isinstance(item, ast.FormattedValue)]
            yield node, place
        left += [(item, place) for item in reversed(inner)]


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _edits(node: ast.AST) -> list[tuple[str, Callable[[], None]]]:
    """Return the edits that a node allows, each by its name."""
    found: list[tuple[str, Callable[[], None]]] = []
    if isinstance(node, ast.Compare):
        other = _COMPARED.get(type(node.ops[0]))
        if other is not None:
            found.append(("compare", lambda: node.ops.__setitem__(0, other())))
    elif isinstance(node, ast.BoolOp):
        turned = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        found.append(("turn", lambda: setattr(node, "op", turned)))
        for index in range(len(node.values)):
            if _is_empty(node.values[index]):
                continue  # "x or ''" for a text that is None or empty: the two read the same afterwards
            found.append((f"drop {index}", lambda index=index: _dropped(node, index)))  # type: ignore[misc]
    elif isinstance(node, ast.If | ast.IfExp | ast.While):
        negated = ast.UnaryOp(ast.Not(), node.test)
        found.append(("negate", lambda: setattr(node, "test", negated)))
    elif isinstance(node, ast.Return) and node.value is not None and _is_truth(node.value):
        denied = ast.UnaryOp(ast.Not(), node.value)
        found.append(("negate", lambda: setattr(node, "value", denied)))
    elif isinstance(node, ast.Constant):
        value = node.value
        if isinstance(value, bool):
            found.append(("flip", lambda: setattr(node, "value", not value)))
        elif isinstance(value, int):
            found.append(("more", lambda: setattr(node, "value", value + 1)))
        elif isinstance(value, str) and value.strip():
            found.append(("word", lambda: setattr(node, "value", f"{value}x")))
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        operator = ast.Sub() if isinstance(node.op, ast.Add) else ast.Add()
        if not any(
            isinstance(side, ast.Constant) and isinstance(side.value, str) for side in (node.left, node.right)
        ):
            found.append(("sign", lambda: setattr(node, "op", operator)))
    elif (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("replace", "Change")
    ):
        for index, keyword in enumerate(node.keywords):
            if keyword.arg is not None:
                found.append((f"without {keyword.arg}", partial(_without, node, index)))
    return found


def _without(node: ast.Call, index: int) -> None:
    """Leave one argument out."""
    del node.keywords[index]


def _is_empty(node: ast.AST) -> bool:
    """Whether an expression is nothing: None, an empty text, list, tuple or mapping."""
    if isinstance(node, ast.Constant):
        return node.value in (None, "")
    if isinstance(node, ast.Dict):
        return not node.keys
    return isinstance(node, ast.List | ast.Tuple) and not node.elts


def _is_truth(node: ast.AST) -> bool:
    """Whether an expression is a truth value, so that its negation is another one."""
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id in ("bool", "any", "all", "isinstance")
    return isinstance(node, ast.Compare) or (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not))


def _dropped(node: ast.BoolOp, index: int) -> None:
    """Leave one term of a condition out; of two the other is alone, as a conjunction with itself."""
    kept = [value for place, value in enumerate(node.values) if place != index]
    node.values = kept if len(kept) > 1 else [kept[0], deepcopy(kept[0])]


# -- templates, limits, policies, tools ------------------------------------------------------------------------------


def template_edits() -> Iterator[Edit]:
    """Yield every word of the shipped templates, to be another one."""
    for path in sorted((PACKAGE / "prompts").glob("*.md")):
        text = path.read_text(encoding="utf-8")
        for word in re.finditer(r"(?<![\w{:])[a-z]{4,}(?![\w}])", text):
            line = text.count("\n", 0, word.start()) + 1
            changed = f"{text[: word.start()]}{word[0][::-1]}{text[word.end() :]}"
            if changed != text and "===" not in text.splitlines()[line - 1]:
                file, what = f"prompts/{path.name}", f"{word[0]} -> {word[0][::-1]}"
                make = partial(Mutant, "template", file, line, what, path.stem, changed)
                yield Edit("template", file, make)


LIMITS = (
    *("max_steps", "max_plans", "selection_retries", "parameter_retries", "review_retries", "max_retries"),
    *("max_elicitations", "no_improvement_limit", "max_consecutive_errors", "max_consecutive_refused"),
    *("max_blocked_calls", "consecutive_limit", "window_freq_limit", "observation_chars", "snippet_chars"),
    *("note_chars", "previews", "history_chars", "context_chars", "reply_chars"),
)
_TOOL_EDITS: dict[str, Any] = {
    "effect": "the other one",
    "label": "sheet",
    "step_retries": 1,
    "repeat_allowed": True,
    "description": "Something else.",
    "parameters": "another property is required",
    "default": "a property has a default",
    "type": "a property is of another type",
    "name of a parameter": "a property has another name",
}


def given_edits() -> Iterator[Edit]:
    """Yield edits to what a spec holds: limits one less, signatures of tools."""
    for name in LIMITS:
        yield Edit("limits", "", partial(Mutant, "limits", "", 0, f"{name} is less", name, name))
    for name, value in _TOOL_EDITS.items():
        yield Edit("tool", "", partial(Mutant, "tool", "", 0, f"{name}: {value}", name, str(value)))


def policy_edits() -> Iterator[Edit]:
    """Yield policies that forbid or ask."""
    for name, value in (
        ("deny", "notes.*"),
        ("approvals", "notes.*"),
        ("allow", "other.*"),
        ("deny", "notes.send"),
    ):
        yield Edit("policy", "", partial(Mutant, "policy", "", 0, f"{name}: {value}", name, value))
