"""
Write the reference from docstrings: one page for each group of public names, under ``docs/reference``.

Signatures are taken from the source text as it stands, not from live objects, so every version of Python writes the
same pages. What a page says of a name is in that name's docstring and nowhere else: mend it there.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import is_typeddict

from docstrings import cell
from public_names import Member, arguments_of, described, initial_of

import paor

WIDTH = 100


@dataclass(frozen=True)
class Group:
    """
    One page.

    Attributes:
        title: Its heading.
        lead: What is below it.
        names: Public names of `paor`, in the order of the page.
        shapes: What these give back or take and is not public itself, as ``module:Name``.
        module: Module whose ``__all__`` stands on it too, after the names of `paor`.
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
            *("Engine", "Result", "ResultDocument", "CriterionResult", "Question", "Recovery", "Usage"),
            *("Limits", "ReplyTokens", "Policy", "ApprovalRule", "Profile", "Task", "Workflow"),
            *("load_workflow", "validate", "RunOptions", "ResumeOptions", "AnswerOptions", "ForkOptions"),
            "__version__",
            "InstructionsContext",
        ),
        ("paor.states.settings.policy:Condition",),
    ),
    "events": Group(
        "Events",
        "What `Engine.stream` yields and hooks are called with. How to use them: [events](../howto/events.md).",
        ("Event",),
        module="paor.events",
    ),
    "tools": Group(
        "Tools",
        "Your own tools, the built-in ones, web tools and tools of MCP servers. How to write one: "
        "[write your own tools](../howto/tools.md).",
        (
            *("tool", "Tool", "FunctionTool", "ToolContext", "ToolOutput", "Document", "Resumption"),
            *("builtin_tools", "open_within", "web_tools", "mcp_tools", "McpServer"),
        ),
        module="paor.web",
    ),
    "models": Group(
        "Models",
        "The shipped models, and the protocol for a model of your own. How to set one up: [models](../models.md), "
        "[connect your own model](../howto/model.md).",
        (
            *("OpenAIModel", "AnthropicModel", "OfflineModel", "ScriptedModel"),
            *("Model", "ModelCall", "Reply"),
        ),
        module="paor.models",
    ),
    "audit": Group(
        "Journal, replay, why, checks and diagrams",
        "Reading, checking, comparing and drawing journals and the machine, and what that gives back. How to use it: "
        "[audit](../howto/audit.md). The contents of the file: [the journal's format](../journal-format.md).",
        ("Journal", "replay", "diff", "why", "why_not", "check", "coverage", "diagram", "report"),
        module="paor.audit",
    ),
    "machine": Group(
        "The machine",
        "Guards, phases and rows of your own, and what your functions are given. How to build one: "
        "[build your own machine](../howto/machine.md).",
        ("Machine", "Phase"),
        module="paor.machine",
    ),
    "documents": Group(
        "Documents",
        "The contents of `paor.documents`. What each format gives: [documents](../documents.md).",
        module="paor.documents",
    ),
    "inspect": Group(
        "Inspect",
        'The contents of `paor.inspect`; it needs `pip install "paor[inspect]"`. How to use it: [inspect](../howto/inspect.md).',
        module="paor.inspect",
    ),
    "worker": Group(
        "Workers",
        "The contents of `paor.worker`. How to use it: [many machines](../howto/scale.md).",
        module="paor.worker",
    ),
    "temporal": Group(
        "Temporal",
        'The contents of `paor.temporal`; it needs `pip install "paor[temporal]"`. How to use it: [many machines](../howto/scale.md).',
        module="paor.temporal",
    ),
    "otel": Group(
        "Traces",
        'The contents of `paor.otel`; to send anything it needs `pip install "paor[otel]"`. How to use it: [traces](../howto/traces.md).',
        module="paor.otel",
    ),
    "errors": Group("Errors", "", module="paor.errors"),
    "fuzz": Group(
        "The fuzz kit",
        'The contents of `paor.fuzz`; it needs `pip install "paor[fuzz]"`.',
        module="paor.fuzz",
    ),
    "testing": Group(
        "The testing kit",
        "The contents of `paor.testing`: scripted worlds, and the ports of an engine, which are its only sources of time and "
        "randomness.",
        module="paor.testing",
    ),
}
"""Every public name is in exactly one of them."""


def pages() -> dict[str, str]:
    """Return the text of every page by its path under ``docs``."""
    made = {}
    for key, group in GROUPS.items():
        names = names_of(key)
        if names:
            made[f"reference/{key}.md"] = _page(group, names)
    return made


def names_of(key: str) -> tuple[str, ...]:
    """Return the names of a group, those of its module as ``module:Name``; none for a module that is not there."""
    group = GROUPS[key]
    if not group.module:
        return group.names
    try:
        found = importlib.import_module(group.module).__all__
    except ImportError:
        return ()
    names = _by_tree(found) if key == "errors" else [name for name in found if name not in group.names]
    return (*group.names, *(f"{group.module}:{name}" for name in names))


def index() -> str:
    """Return the list of the pages, for the index of the documentation."""
    lines = ["| reference | names |", "|---|---|"]
    for key, group in GROUPS.items():
        names = [f"`{name.rpartition(':')[2]}`" for name in names_of(key)]
        if names:
            told = ", ".join(names if len(names) <= 8 else [*names[:7], f"and {len(names) - 7} more"])
            lines.append(f"| [{group.title}](reference/{key}.md) | {told} |")
    return "\n".join(lines)


def _page(group: Group, names: tuple[str, ...]) -> str:
    lines = [f"# {group.title}", ""]
    lines += ["*Written from the docstrings by `python docs/generate.py`.*", ""]
    lines += [group.lead, ""] if group.lead else []
    if group.title == "Errors":
        lines += [_error_lead(), ""]
    entries = []
    for name in names:
        entries += _entry(described(name), 2)
    if group.shapes:
        entries += ["## Values within them", "", "Returned by the names above; not imported by name.", ""]
        for name in group.shapes:
            entries += _entry(described(name), 3)
    if group.title != "Errors":
        lines += [*_lists(names, [f"# {group.title}", *entries]), ""]
    lines += entries
    return "\n".join(lines).rstrip() + "\n"


def _lists(names: tuple[str, ...], entries: list[str]) -> list[str]:
    """
    Return links to the entries of a page, by the module that has the names.

    Of headings that a forge takes for the same the later ones are numbered.
    """
    seen: dict[str, int] = {}
    anchors = {}
    for line in entries:
        if line.startswith("#"):
            title = line.strip("#` ")
            place = anchor(title)
            anchors[title] = f"{place}-{seen[place]}" if place in seen else place
            seen[place] = seen.get(place, 0) + 1
    links: dict[str, list[str]] = {}
    for name in names:
        home, _, short = name.rpartition(":")
        links.setdefault(home or "paor", []).append(f"[`{short}`](#{anchors[short]})")
    return [f"`from {home} import`: {', '.join(found)}  " for home, found in links.items()]


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
        title = (
            "option"
            if is_typeddict(getattr(paor, member.name, None))
            else "attribute"
            if member.fields
            else "argument"
        )
        lines += [f"| {title} | type | default | meaning |", "|---|---|---|---|"]
        lines += [
            f"| `{item}` | {_code(kind)} | {_code(default)} | {cell(text)} |"
            for item, kind, default, text in values
        ]
        lines.append("")
    lines += [f"**Returns** {doc.returns}", ""] if doc.returns else []
    if doc.raises:
        lines += ["**Raises**", "", *(f"- `{kind}`: {text}" for kind, text in doc.raises), ""]
    if doc.source and "spec-coverage" not in doc.source:  # the specification is for those who work on paor
        lines += [f"**Source** {doc.source}", ""]
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
    for arg, default in arguments_of(node.args):
        kind = ast.unparse(arg.annotation) if arg.annotation else ""
        text = member.doc.named.get(arg.arg)
        if text is not None:
            rows.append((arg.arg, kind, ast.unparse(default) if default is not None else "", text))
    known = {row[0] for row in rows}
    return rows + [(name, "", "", text) for name, text in member.doc.named.items() if name not in known]


def _constructor(member: Member) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    node = member.node
    if isinstance(node, ast.ClassDef):
        return initial_of(member.name)
    return node if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else None


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
        initial = initial_of(member.name)
        if initial is not None and not member.fields:
            return _folded(name, _shown(initial.args), "")
        return []
    if isinstance(node, ast.AnnAssign) and "TypeAlias" not in ast.unparse(node.annotation):
        return [f"{name}: {ast.unparse(node.annotation)}"]
    if isinstance(node, ast.AnnAssign) and node.value is not None:
        return [f"{name} = {ast.unparse(node.value)}"]
    return []


def _shown(args: ast.arguments) -> list[str]:
    """Return the arguments as a caller sees them: names, types, defaults, and the star after which names are needed."""
    parts = []
    for arg, default in arguments_of(args):
        star = "*" if arg is args.vararg else "**" if arg is args.kwarg else ""
        if arg in args.kwonlyargs and args.vararg is None and arg is args.kwonlyargs[0]:
            parts.append("*")
        text = f"{star}{ast.unparse(arg)}"
        parts.append(
            text
            if default is None
            else f"{text} = {ast.unparse(default)}"
            if arg.annotation
            else f"{text}={ast.unparse(default)}"
        )
    return parts


def _folded(name: str, parts: list[str], end: str) -> list[str]:
    line = f"{name}({', '.join(parts)}){end}"
    if len(line) <= WIDTH:
        return [line]
    return [f"{name}(", *(f"    {part}," for part in parts), f"){end}"]


def _by_tree(names: Iterable[str]) -> list[str]:
    """Return the names of errors in the order of their tree; what is none of paor's own comes last."""
    from paor.states.base import errors

    tree = [line.split()[0] for line in (errors.__doc__ or "").splitlines() if line.strip()]
    return sorted(names, key=lambda name: (name not in tree, tree.index(name) if name in tree else 0, name))


def _error_lead() -> str:
    from paor.states.base import errors

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
    from paor.cli.support import terminal as io

    lines = ["| error | whose fault | exit code of a command |", "|---|---|---|"]
    from paor import errors

    for name in _by_tree(errors.__all__):
        kind = getattr(errors, name)
        if not issubclass(kind, errors.PaorError):
            continue
        branch = _branch(kind)
        code = NO_CODE.get(branch) or io.exit_code_of(kind.__new__(kind))
        lines.append(f"| [`{name}`](#{anchor(name)}) | {FAULTS[branch]} | {code} |")
    return "\n".join(lines)


FAULTS = {
    "PaorError": "",
    "UsageError": "the caller's",
    "ModelError": "the model's",
    "ToolError": "the tool's",
    "JournalError": "the file's, or its writers'",
    "ReplayDiverged": "a change of the journal, the prompts or the code",
    "InternalError": "paor's own",
}


NO_CODE = {
    "PaorError": "never raised itself",
    "ModelError": "none: the run ends, as Failed(model_error) at worst",
    "ToolError": "none: the run observes it",
}


def _branch(kind: type) -> str:
    return next(base.__name__ for base in kind.__mro__ if base.__name__ in FAULTS)
