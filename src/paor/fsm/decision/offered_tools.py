"""Which tools a turn of the profile `native` is offered, and with which choices of documents and connections. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...prompts.building.conversation import wire_names
from ...prompts.model import OfferedTool
from ...states.run.spec import Spec
from ...states.run.state import Run
from ...tools.catalog import CONNECTION, DOCUMENT_LIST, Catalog
from ...tools.policy import denial


def offered_tools(catalog: Catalog, run: Run) -> tuple[OfferedTool, ...]:
    """Return the tools that a turn is offered: none that is denied, none that needs documents or a connection and has none."""
    spec = run.spec
    names = wire_names(tool.name for tool in spec.tools)
    choices = {DOCUMENT_LIST: list(run.memory.references), CONNECTION: list(spec.connections)}
    found = []
    for tool in catalog:
        required = catalog.schema(tool).required
        if any(name in required and not choices[name] for name in choices):
            continue
        if denial(spec.policy, spec.task_type, tool.name) is None:
            schema = _schema(tool.parameters, choices)
            found.append(OfferedTool(names[tool.name], tool.description, schema))
    return tuple(found)


def takes_documents(catalog: Catalog) -> bool:
    """Return whether some tool takes documents, so that results have to say where theirs are."""
    return any(DOCUMENT_LIST in catalog.schema(tool).names for tool in catalog)


def _schema(parameters: Mapping[str, Any], choices: Mapping[str, list[str]]) -> dict[str, Any]:
    """Return a tool's schema with what can be chosen of documents and connections; without what cannot be chosen at all."""
    schema = {"type": "object", "properties": {}} | dict(parameters)
    given = schema["properties"]
    if not isinstance(given, Mapping) or not choices.keys() & given.keys():
        return schema
    properties = {name: value for name, value in given.items() if choices.get(name) != []}
    for name in choices.keys() & properties.keys():
        own = properties[name] if isinstance(properties[name], Mapping) else {}
        about = {"description": own["description"]} if "description" in own else {}
        one = {"type": "string", "enum": choices[name]}
        properties[name] = about | (one if name == CONNECTION else {"type": "array", "items": one})
    return schema | {"properties": {name: properties[name] for name in given if name in properties}}


def connection_meant(named: Any, spec: Spec, *, needed: bool) -> str | None:
    """Return the connection *named* if the run has it; where one is *needed* the run's only one, else None."""
    if named in spec.connections:
        return str(named)
    return spec.connections[0] if needed and len(spec.connections) == 1 else None


def connection_lacks(tool: str, key: str, spec: Spec) -> str:
    """Return what a model is told that chose *tool* without the connection that it needs under *key*."""
    labels = ", ".join(spec.connections)
    return f"{tool} needs {key}{f': {labels}' if labels else ', and this run has no connection'}"
