"""
Write the reference from docstrings: one page for each group of public names, under ``docs/reference``.

Signatures are taken from the source text as it stands, not from live objects, so every version of Python writes the
same pages. What a page says of a name stands in that name's docstring and nowhere else: mend it there.
"""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import paor
from docstrings import Docstring, cell, parsed

WIDTH = 100


@dataclass(frozen=True)
class Group:
    """
    One page.

    Attributes:
        title: Its heading.
        lead: What stands below it.
        names: Public names of `paor`, in the order of the page.
        shapes: What these give back or take and is not public itself, as ``module:Name``.
        module: Module whose ``__all__`` it is, for groups that are a module of their own.
    """

    title: str
    lead: str
    names: tuple[str, ...] = ()
    shapes: tuple[str, ...] = ()
    module: str = ""


GROUPS = {
    "engine": Group(
        "Engine, results and settings",
        "What a host constructs, calls and gets back. How to use it: the [tutorial](../tutorial.md) and the how-tos.",
        (
            *("Engine", "Result", "Usage", "Limits", "Policy", "ApprovalRule", "Profile", "Task", "Workflow"),
            *("load_workflow", "validate", "__version__"),
        ),
        (
            "paor.fsm.result:ResultDocument",
            "paor.fsm.result:CriterionResult",
            "paor.states.waiting:Question",
        ),
    ),
    "events": Group(
        "Events",
        "What `Engine.stream` yields and hooks are called with. How to use them: [events](../howto/events.md).",
        (
            *("Event", "RunStarted", "TransitionTaken", "StepCompleted", "RunWaiting", "RunEnded"),
            *("ModelText", "ModelNotice"),
        ),
    ),
    "tools": Group(
        "Tools",
        "Tools of a host, the built-in ones, the web's and those of MCP servers. How to make one: "
        "[own tools](../howto/tools.md).",
        (
            *("tool", "Tool", "ToolContext", "ToolOutput", "Document", "WebFact", "Resumption"),
            *("builtin_tools", "open_within", "web_tools", "WebSettings", "SearchBackend", "SearchQuery"),
            *("SearchReply", "SearchHit", "mcp_tools", "McpServer"),
        ),
    ),
    "models": Group(
        "Models",
        "What is asked, and what a model of your own has to be. How to set one up: [models](../models.md), "
        "[own model](../howto/model.md).",
        (
            *("OpenAIModel", "AnthropicModel", "OfflineModel", "ScriptedModel", "Model", "ModelCall"),
            *("PromptMessage", "Reply", "Notice", "ModelUnavailable"),
        ),
    ),
    "journal": Group(
        "Journal, replay, diff and why",
        "What reads a journal, and what it says. How to use it: [audit](../howto/audit.md); what stands in the file: "
        "[the journal's format](../journal-format.md).",
        (
            *("Journal", "replay", "Replay", "Divergence", "Unchecked", "ChangedPart", "diff", "RunDiff", "why"),
            *("why_not", "Why", "WhyNot", "Erasure", "ErasureResult", "Redaction", "Imported"),
        ),
        (
            *("paor.fsm.journal_rows:RunRow", "paor.fsm.journal_rows:Transition"),
            *("paor.fsm.journal_rows:StoredDocument", "paor.fsm.why:Candidate", "paor.fsm.diff:Side"),
        ),
    ),
    "ports": Group(
        "Time and ids",
        "The only sources of time and chance; with ports of your own a journal is the same every time.",
        ("Clock", "Ids", "SystemClock", "RandomIds", "SteppingClock", "SeededIds"),
    ),
    "errors": Group("Errors", "", ()),
    "fuzz": Group(
        "The fuzz kit",
        "What `paor.fuzz` has; it needs `pip install \"paor[fuzz]\"`.",
        module="paor.fuzz",
    ),
    "testing": Group("The testing kit", "What `paor.testing` has.", module="paor.testing"),
}
"""Every public name stands in exactly one of them; those that are errors are found by themselves."""

INNER = {
    "Engine": frozenset(("adrive_task", "arun_task", "current_spec", "drive_task", "run_task")),
    "Journal": frozenset(
        (
            *("append", "append_all", "change", "create", "cursor", "documents_at", "find_payload"),
            *("iterate_payloads", "iterate_rows", "lineage", "next_payload", "own_rows", "payloads"),
            *("payloads_at", "query", "read_leniently", "root", "root_columns", "rows", "stored_documents"),
        )
    ),
    "Tool": frozenset(("invoke", "is_async", "reconciles_async", "spec")),
    "Redaction": frozenset(("found_in", "plan")),
    "Usage": frozenset(("of", "read")),
    "WebFact": frozenset(("of", "read")),
}
"""Methods that paor itself calls; they may change without notice, so the reference leaves them out."""


@dataclass
class Member:
    """One thing with a docstring: a class, a function, a method, a property, an alias."""

    name: str
    node: ast.AST
    doc: Docstring
    fields: dict[str, tuple[str, str]] = field(default_factory=dict)
    members: list[Member] = field(default_factory=list)


def pages() -> dict[str, str]:
    """Return the text of every page by its path under ``docs``."""
    made = {}
    for key, group in GROUPS.items():
        names = names_of(key)
        if names:
            made[f"reference/{key}.md"] = _page(group, names)
    return made


def names_of(key: str) -> tuple[str, ...]:
    """Return the names of a group; none for a module that is not there."""
    group = GROUPS[key]
    if group.module:
        try:
            found = importlib.import_module(group.module)
        except ImportError:
            return ()
        return tuple(f"{group.module}:{name}" for name in getattr(found, "__all__", ()))
    if key == "errors":
        return tuple(_errors())
    return group.names


def described(name: str) -> Member:
    """Return what is known of a public name, or of a ``module:Name``."""
    home, _, inner = name.rpartition(":")
    value = getattr(importlib.import_module(home) if home else paor, inner)
    if inner == "__version__":
        return Member(inner, ast.Name(id="str"), parsed("Version of paor, such as ``0.1.0``."))
    if inspect.isclass(value):
        return _class(value)
    module = _home_of(inner, home, value)
    node = _found(_tree(module), inner)
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return Member(inner, node, parsed(ast.get_docstring(node) or ""))
    return Member(inner, node, parsed(_text_after(_tree(module), node)))


def undescribed(name: str) -> Iterator[str]:
    """Yield what of a public name has no description: parameters, fields, methods, attributes."""
    member = described(name)
    yield from _gaps(member, member.name)


def _gaps(member: Member, name: str) -> Iterator[str]:
    if not member.doc.text:
        yield f"{name}: no docstring"
    for item in member.fields:
        if item not in member.doc.named:
            yield f"{name}: field {item}"
    if not member.doc.like:
        yield from (f"{name}: argument {item}" for item in _parameters(member) if item not in member.doc.named)
    for inner in member.members:
        yield from _gaps(inner, f"{name}.{inner.name}")


def _parameters(member: Member) -> list[str]:
    """Return the parameters that need a description; those of twins stand with the one they are like."""
    if not isinstance(member.node, ast.FunctionDef | ast.AsyncFunctionDef):
        return []
    return [arg.arg for arg, _ in _arguments(member.node.args)]


def _arguments(args: ast.arguments) -> list[tuple[ast.arg, ast.expr | None]]:
    plain = [*args.posonlyargs, *args.args]
    first = len(plain) - len(args.defaults)
    found: list[tuple[ast.arg, ast.expr | None]] = [
        (arg, args.defaults[place - first] if place >= first else None) for place, arg in enumerate(plain)
    ]
    found += [(args.vararg, None)] if args.vararg else []
    found += list(zip(args.kwonlyargs, args.kw_defaults, strict=True))
    found += [(args.kwarg, None)] if args.kwarg else []
    return [(arg, default) for arg, default in found if arg.arg not in ("self", "cls")]


def _class(kind: type) -> Member:
    """Return a class with its fields and its public methods, inherited ones of paor's own bases too."""
    homes = [base for base in kind.__mro__ if base.__module__.startswith("paor.")]
    made = Member(kind.__name__, _node(kind), parsed(ast.get_docstring(_node(kind)) or ""))
    for base in reversed(homes):
        for name, (annotation, default) in _fields(base).items():
            made.fields[name] = (annotation, default)
    seen: set[str] = set()
    for base in homes:
        for node in _node(base).body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name not in seen:
                seen.add(node.name)
                shown = not node.name.startswith("_") and node.name not in INNER.get(kind.__name__, ())
                if shown and not issubclass(kind, BaseException):
                    made.members.append(Member(node.name, node, parsed(ast.get_docstring(node) or "")))
    made.fields.update({} if made.fields else _set_in_protocol(homes))
    return made


_VALUES = ("__dataclass_fields__", "__struct_fields__", "model_fields", "_fields")


def _fields(kind: type) -> dict[str, tuple[str, str]]:
    """Return the fields that a class of values declares, with annotation and default."""
    if not any(hasattr(kind, mark) for mark in _VALUES):
        return {}
    found = {}
    for node in _node(kind).body:
        if not (isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)):
            continue
        annotation = ast.unparse(node.annotation)
        if not node.target.id.startswith("_") and not annotation.startswith(("ClassVar", "InitVar")):
            found[node.target.id] = _shape(annotation, node.value)
    return found


def _set_in_protocol(homes: list[type]) -> dict[str, tuple[str, str]]:
    """Return the attributes that a protocol asks for."""
    return {
        node.target.id: (ast.unparse(node.annotation), "")
        for base in homes
        if getattr(base, "_is_protocol", False)
        for node in _node(base).body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }


def _shape(annotation: str, value: ast.expr | None) -> tuple[str, str]:
    """Return type and default of a field, the bounds of a validated one with its type."""
    if not (isinstance(value, ast.Call) and ast.unparse(value.func) in ("Field", "field")):
        return annotation, "" if value is None else ast.unparse(value)
    given = {item.arg: item.value for item in value.keywords}
    signs = {"gt": ">", "ge": "from", "lt": "<", "le": "to"}
    bounds = [f"{signs[name]} {_number(given[name])}" for name in signs if name in given]
    default = ast.unparse(given["default"]) if "default" in given else ""
    if "default_factory" in given:
        made = ast.unparse(given["default_factory"])
        default = {"dict": "{}", "list": "[]"}.get(made, f"{made}()")
    return annotation + (f", {' '.join(bounds)}" if bounds else ""), default


_CEILINGS = {"MAX_STEPS_CEILING": "1,000,000", "GUARD_CEILING": "10,000"}


def _number(node: ast.expr) -> str:
    text = ast.unparse(node)
    value = ast.literal_eval(text) if text.replace("_", "").isdigit() else None
    return f"{value:,}" if value is not None else _CEILINGS.get(text, text)


def _page(group: Group, names: tuple[str, ...]) -> str:
    lines = [f"# {group.title}", ""]
    lines += ["*Written from the docstrings by `python docs/generate.py`. Ids such as A043 after \"Source\" are those of*",
              "*[behaviour and tests](../spec-coverage.md).*", ""]  # fmt: skip
    lines += [group.lead, ""] if group.lead else []
    if not group.names and not group.module:
        lines += [_error_lead(), ""]
    if group.names or group.module:
        lines += [_list_of(names), ""]
    for name in names:
        lines += _entry(described(name), 2)
    if group.shapes:
        lines += ["## Values within them", "", "Not imported by name; what the above give back.", ""]
        for name in group.shapes:
            lines += _entry(described(name), 3)
    return "\n".join(lines).rstrip() + "\n"


def _list_of(names: tuple[str, ...]) -> str:
    """Return links to the entries of a page."""
    short = [name.rpartition(":")[2] for name in names]
    return ", ".join(f"[`{name}`](#{anchor(name)})" for name in short)


def anchor(title: str) -> str:
    """Return the anchor that a forge gives to a heading of code."""
    return "".join(letter for letter in title.lower() if letter.isalnum() or letter in "_-")


def _entry(member: Member, depth: int, prefix: str = "") -> list[str]:
    name = f"{prefix}{member.name}"
    lines = [f"{'#' * depth} `{name}`", ""]
    head = _head(member, name)
    lines += ["```python", *head, "```", ""] if head else []
    doc = member.doc
    lines += [doc.text, ""] if doc.text else []
    values = _values(member)
    if values:
        title = "attribute" if member.fields else "argument"
        lines += [f"| {title} | type | default | meaning |", "|---|---|---|---|"]
        lines += [f"| `{item}` | {_code(kind)} | {_code(default)} | {cell(text)} |" for item, kind, default, text in values]
        lines.append("")
    lines += [f"**Returns** {doc.returns}", ""] if doc.returns else []
    if doc.raises:
        lines += ["**Raises**", "", *(f"- `{kind}`: {text}" for kind, text in doc.raises), ""]
    lines += [f"**Source** {doc.source}", ""] if doc.source else []
    for inner in member.members:
        lines += _entry(inner, depth + 1, f"{member.name}.")
    return lines


def _code(text: str) -> str:
    return f"`{text}`".replace("|", "\\|") if text else ""


def _values(member: Member) -> list[tuple[str, str, str, str]]:
    """Return the rows of the table of arguments or attributes."""
    if member.fields:
        told = member.doc.named
        return [(name, kind, default, told.get(name, "")) for name, (kind, default) in member.fields.items()]
    node = _constructor(member)
    if node is None:
        return [(name, "", "", text) for name, text in member.doc.named.items()]
    rows = []
    for arg, default in _arguments(node.args):
        kind = ast.unparse(arg.annotation) if arg.annotation else ""
        text = member.doc.named.get(arg.arg)
        if text is not None:
            rows.append((arg.arg, kind, ast.unparse(default) if default is not None else "", text))
    known = {row[0] for row in rows}
    return rows + [(name, "", "", text) for name, text in member.doc.named.items() if name not in known]


def _constructor(member: Member) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    node = member.node
    if isinstance(node, ast.ClassDef):
        return _initial(member.name)
    return node if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else None


@cache
def _initial(name: str) -> ast.FunctionDef | None:
    """Return the ``__init__`` of a public class, the nearest that paor has."""
    kind = getattr(paor, name, None)
    if kind is None or getattr(kind, "_is_protocol", False):
        return None
    for base in kind.__mro__:
        if base.__module__.startswith("paor."):
            for node in _node(base).body:
                if isinstance(node, ast.FunctionDef) and node.name == "__init__":
                    return node
    return None


def _head(member: Member, name: str) -> list[str]:
    """Return the lines of a signature; none where there is nothing to call."""
    node = member.node
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        if any(ast.unparse(item) == "property" for item in node.decorator_list):
            return [f"{name}: {ast.unparse(node.returns) if node.returns else 'Any'}"]
        word = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
        returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
        return _folded(f"{word} {name}", _shown(node.args), returns)
    if isinstance(node, ast.ClassDef):
        initial = _initial(member.name)
        if initial is not None and not member.fields:
            return _folded(name, _shown(initial.args), "")
        return []
    if isinstance(node, ast.AnnAssign | ast.Assign) and node.value is not None:
        return [f"{name} = {ast.unparse(node.value)}"]
    return []


def _shown(args: ast.arguments) -> list[str]:
    """Return the arguments as a caller sees them: names, types, defaults, and the star after which names are needed."""
    parts = []
    for arg, default in _arguments(args):
        star = "*" if arg is args.vararg else "**" if arg is args.kwarg else ""
        if arg in args.kwonlyargs and args.vararg is None and arg is args.kwonlyargs[0]:
            parts.append("*")
        text = f"{star}{ast.unparse(arg)}"
        parts.append(text if default is None else f"{text} = {ast.unparse(default)}" if arg.annotation else f"{text}={ast.unparse(default)}")
    return parts


def _folded(name: str, parts: list[str], end: str) -> list[str]:
    line = f"{name}({', '.join(parts)}){end}"
    if len(line) <= WIDTH:
        return [line]
    return [f"{name}(", *(f"    {part}," for part in parts), f"){end}"]


def _errors() -> list[str]:
    """Return the public errors, in the order of their tree."""
    from paor.states import errors

    found = [name for name in paor.__all__ if _is_error(name)]
    order = [line.split()[0] for line in (errors.__doc__ or "").splitlines() if line.strip()]
    return [name for name in order if name in found and name != "ModelUnavailable"]


def _is_error(name: str) -> bool:
    value: Any = getattr(paor, name)
    return inspect.isclass(value) and issubclass(value, BaseException)


def _error_lead() -> str:
    from paor.states import errors

    text = errors.__doc__ or ""
    tree = text[text.index("PaorError\n") : text.index("\n\nFacts are")]
    return f"{ERROR_LEAD}\n\n```text\n{tree}\n```\n\n{_fault_table()}"


ERROR_LEAD = (
    "`run` raises for what the caller did wrong, before anything is started, and for a journal that cannot be written. A "
    "model or tool that fails is no exception: the run ends in Failed with a reason, or goes on. Catch `PaorError` for all "
    "of these; each pickles, keeps its facts as attributes, and its message says run, expected, found and what to do. A "
    "`UsageError` is a `ValueError` too."
)


def _fault_table() -> str:
    """Return whose fault each branch is, and the exit code that a command ends with."""
    from paor import _cli_io as io

    lines = ["| error | whose fault | exit code of a command |", "|---|---|---|"]
    for name in _errors():
        kind = getattr(paor, name)
        branch = _branch(kind)
        code = NO_CODE.get(branch) or io.exit_code_of(kind.__new__(kind))
        lines.append(f"| [`{name}`](#{anchor(name)}) | {FAULTS[branch]} | {code} |")
    return "\n".join(lines)


FAULTS = {
    "PaorError": "",
    "UsageError": "the caller's",
    "ModelError": "the model's",
    "ToolError": "the tool's",
    "JournalError": "the file's, or of who writes it",
    "ReplayDiverged": "of who changed the journal, the prompts or the code",
    "InternalError": "paor's own",
}


NO_CODE = {
    "PaorError": "never raised itself",
    "ModelError": "none: the run ends, as Failed(model_error) at worst",
    "ToolError": "none: the run observes it",
}


def _branch(kind: type) -> str:
    return next(base.__name__ for base in kind.__mro__ if base.__name__ in FAULTS)


@cache
def _tree(module: ModuleType) -> ast.Module:
    return ast.parse(Path(inspect.getsourcefile(module) or "").read_text(encoding="utf-8"))


def _node(kind: type) -> ast.ClassDef:
    node = _found(_tree(importlib.import_module(kind.__module__)), kind.__name__)
    assert isinstance(node, ast.ClassDef)
    return node


def _found(tree: ast.Module, name: str) -> ast.stmt:
    for node in tree.body:
        targets = [getattr(node, "name", None), getattr(getattr(node, "target", None), "id", None)]
        targets += [getattr(item, "id", None) for item in getattr(node, "targets", ())]
        if name in targets:
            return node
    raise LookupError(name)


def _home_of(name: str, home: str, value: object) -> ModuleType:
    """Return the module in which a name is defined."""
    where = getattr(value, "__module__", None) if inspect.isfunction(value) else None
    return importlib.import_module(where or home or f"paor{paor._MODULES[name]}")


def _text_after(tree: ast.Module, node: ast.stmt) -> str:
    """Return the string that stands below an assignment."""
    after = tree.body[tree.body.index(node) + 1 :][:1]
    text = after[0].value if after and isinstance(after[0], ast.Expr) else None
    return inspect.cleandoc(str(text.value)) if isinstance(text, ast.Constant) else ""
