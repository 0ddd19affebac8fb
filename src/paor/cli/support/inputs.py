"""What starts a run, by options or as JSON, checked before anything is started."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...fsm.journal.backend import DURABILITIES, Durability
from ...fsm.lifecycle import arguments as of_lifecycle
from ...fsm.lifecycle.options import OPTIONS, run_options
from ...fsm.lifecycle.output_type import output_schema_of
from ...fsm.lifecycle.workflow_start import given_workflow
from ...states.base.errors import UsageError
from ...states.settings.limits import Limits, merged_limits
from ...tools.documents.convert.conversion import ConversionError
from ...tools.documents.convert.converter import read_bytes
from ...tools.documents.convert.registry import DOCX
from ...tools.documents.tools import check_documents
from ...tools.tool import Document
from . import terminal as io
from .app import EngineOptions, asked_tools, policy_of
from .json_input import BOUNDS, input_fields, json_object, json_value, standard_input, text_file

READABLE = ("application/json", "application/xml", "application/pdf", DOCX)
"""Kinds that can be read beside every ``text/``; see `paor.tools.documents.convert.registry`."""


@dataclass(frozen=True, slots=True)
class RunInput:
    """
    Everything that starts a run.

    Attributes:
        arguments: What `Engine.stream` takes, but the limits; the workflow read and checked, with its variables.
        bounds: Fields of `Limits` that were given.
        sources: Paths of the documents that were read from files.
        model_source: Where the name of the model comes from, for people.
    """

    arguments: dict[str, Any]
    bounds: dict[str, Any]
    sources: tuple[str, ...]
    output: Path | None
    engine: EngineOptions
    durability: Durability
    tasks: bool
    model_source: str

    def limits(self, base: Limits) -> Limits:
        """Return *base* with the bounds that were given; raise `UsageError` with the names of those that are wrong."""
        return merged_limits(base, self.bounds)


def run_input(flags: Mapping[str, Any], options: EngineOptions, source: str | None = None) -> RunInput:
    """
    Return what a run is started with; raise `UsageError` for what cannot be used, by name.

    Args:
        flags: Values of the options under the names of `FIELDS`; None or empty where an option was not given.
        options: Of the engine; the JSON can name its app, policy and web tools where these do not.
        source: ``--input``: JSON text, a file, or ``-``; an option given beside it wins.
    """
    if sum((source == "-", flags.get("objective") == "-", "-" in (flags.get("documents") or ()))) > 1:
        raise UsageError("standard input (-) can be read once only")
    values = input_fields(source) if source is not None else {}
    engine = {name: getattr(options, name) for name in ("app", "web", "enrich", "policy")}
    given_flags = {
        name: FROM_FLAG[name](value) if name in FROM_FLAG else value
        for name, value in {**flags, **engine}.items()
        if value is not False and value not in (None, (), [], {})
    }
    values |= given_flags
    if values.get("objective") == "-":
        values["objective"] = standard_input()
    where = "from --model" if "model" in given_flags else "from --input"
    if values.get("model", "auto") == "auto":
        variable = of_lifecycle.automatic()[1]
        where = f"{f'from {variable}' if variable else 'no key found'}; choose another with --model"
        if values.get("app") is not None and "model" not in values:
            where = f"from --app {values['app']}"
    given = _read_fields(values, options, where)
    _check(given)
    return given


def _read_fields(values: Mapping[str, Any], options: EngineOptions, model_source: str) -> RunInput:
    """Return the fields as what a run takes; files are read here."""
    engine = {name: values[name] for name in ("app", "web", "enrich", "policy") if name in values}
    if isinstance(policy := engine.get("policy"), dict):
        engine["policy"] = policy_of(policy, "policy")
    known = {name: value for name, value in values.items() if name in OPTIONS}
    if "tools" in values:
        known["tools"] = [name.strip() for name in ",".join(values["tools"]).split(",") if name.strip()]
    read = run_options(known)
    arguments: dict[str, Any] = {name: item for name, item in read.items() if item != OPTIONS[name].default}
    bounds = arguments.pop("limits", {})
    workflow = given_workflow(arguments.pop("workflow", None), arguments.pop("variables", None))
    mode, documents = read["mode"], values.get("documents", ())
    arguments |= {
        "objective": values.get("objective", ""),
        "success_criteria": [item.strip() for item in values.get("success_criteria", ())],
        "mode": workflow.mode(mode) if workflow is not None else mode or "react",
        "tools": read["tools"],
        "workflow": workflow,
        "prompt_template": _template(values.get("prompt_template"), values.get("prompt_template_file")),
    }
    given = RunInput(
        arguments=arguments,
        bounds={**bounds, **{name: values[name] for name in BOUNDS if name in values}},
        sources=tuple(item for item in documents if isinstance(item, str) and item != "-"),
        output=Path(values["output"]) if "output" in values else None,
        engine=replace(options, **engine),
        durability=values.get("durability", "full"),
        tasks=values.get("tasks", False),
        model_source=model_source,
    )
    size_max = given.limits(Limits()).document_bytes
    arguments["documents"] = _read_documents(documents, size_max, any_kind=given.engine.app is not None)
    return given


def _template(text: str | None, file: str | None) -> str | None:
    """Return the text of the planning template, None for the shipped one; one line that names a file is that file."""
    if text and "\n" not in text and len(text) < 1000 and "\0" not in text and Path(text).is_file():
        file, text = text, None
    return text or (_template_file(file) if file else None)


def _template_file(file: str) -> str:
    content = text_file(file)
    if not content.strip():
        raise UsageError(f"{file}: the template is empty")
    return content


FROM_FLAG: Mapping[str, Callable[[str], Any]] = {
    "tools": lambda names: [names],
    "output_type": lambda file: json_value(text_file(file), file),
    "prompt_template": _template_file,
    "values": lambda given: json_object(given, "--values", "such as '{\"open\": true}'")[1],
    "workflow": Path,
}
"""How a flag gives what ``--input`` has as JSON, where it is not the same text."""


def _read_documents(given: Any, size_max: int, *, any_kind: bool) -> list[Document]:
    """
    Read paths, ``-`` for standard input, and ``{"name": ..., "content": ...}`` objects as documents.

    Raises:
        UsageError: Missing, unreadable, empty, too large, or, but with *any_kind*, of a kind that paor's own tools cannot read; by name.
    """
    documents = of_lifecycle.documents_of([_document(item) for item in given], size_max=size_max)
    for document in documents:
        readable = any_kind or document.mime.startswith("text/") or document.mime in READABLE
        if isinstance(document.data, bytes) and not readable:
            try:
                read_bytes(document.name, document.data)
            except ConversionError as error:
                raise UsageError(error.message) from None
    return documents


def _document(item: str | dict[str, Any]) -> str | Document:
    if item == "-":
        data = sys.stdin.buffer.read()
        return Document("stdin", data, of_lifecycle.mime_of("stdin", data))
    if isinstance(item, str):
        return item
    name, content = item.get("name"), item.get("content")
    known = not set(item) - {"name", "content", "mime"}
    if not (known and isinstance(name, str) and name and isinstance(content, str)):
        raise UsageError('documents: expected paths or objects {"name": TEXT, "content": TEXT}')
    return Document(name, content, str(item.get("mime") or of_lifecycle.mime_of(name, content)))


def _check(given: RunInput) -> None:
    """Raise `UsageError` for what would otherwise only be found after the journal was opened."""
    arguments, engine, mode = given.arguments, given.engine, given.arguments["mode"]
    known, typed = engine.policy or engine.app or arguments.get("conversation"), arguments.get("output_type")
    durabilities = f"expected one of {', '.join(DURABILITIES)}"
    io.unless_wrong(
        (
            arguments.get("task_type") and not known,
            "--task-type is one of a policy, which says what it may call: give that with --policy FILE",
        ),
        (
            not arguments["objective"].strip(),
            "the objective is empty: give a text, - for standard input, or --input",
        ),
        (not all(arguments["success_criteria"]), "a criterion is empty"),
        (
            typed is not None and given.output is not None,
            "--output writes a text, and with an output schema the answer is JSON, on standard output: leave one out",
        ),
        (given.durability not in DURABILITIES, f"durability {given.durability!r}: {durabilities}"),
    )
    if typed is not None:
        output_schema_of(typed)
    profile = of_lifecycle.profile_of(arguments.get("profile"), arguments.get("stage"), mode=mode)
    if "model" in arguments:
        arguments["model"] = of_lifecycle.model_of(arguments["model"])
    if (template := arguments["prompt_template"]) is not None:
        # whether the model calls tools is not known yet: what fits a turn is taken for one
        profile = profile or of_lifecycle.auto_profile({}, template, calls_tools=True)
        of_lifecycle.templates_of({}, template, mode=mode, profile=profile)
    if engine.app is None or engine.web:
        tools = of_lifecycle.toolbox(asked_tools(engine.app, web=engine.web), builtins=True)
        offered = of_lifecycle.offered_tools(tools, arguments["tools"])
        check_documents(arguments["documents"], offered)
        if arguments["workflow"] is not None:
            arguments["workflow"].tools_of_workflow(tools, offered)
