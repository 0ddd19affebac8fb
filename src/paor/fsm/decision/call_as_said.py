"""
A call as its reply says it. Pure.

A call of a tool that is not `read` gets exactly what was said of it, or is not made and asked again: no reference, connection or
parameter is dropped, replaced or guessed. The strict profile holds `read` tools to the same. For other `read` tools a mistake costs
nothing but a wrong answer, so what names nothing is left out, and what is missing is the only one that there is; what was left out
stands in the row by name, and the model reads it with the result.

One place for every profile and mode: the two stages, native calls, steps of plans, tasks of workflow files, calls of the host's phases.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from ...prompts.parsing.replies import Invalid
from ...prompts.parsing.tool_calls import Known
from ...states.base.sealed import unsealed
from ...states.records.actions import Selection
from ...states.records.observations import cut
from ...states.run.spec import Spec, ToolSpec
from ...states.run.state import Run, with_defaults
from ...tools.catalog import CONNECTION, DOCUMENT_LIST
from ...tools.schema.canonical import canonical_arguments
from ...tools.schema.parameters import ParameterSchema
from .observation import line
from .run_resources import RunResources

_NAMES_TOLD = 10


class Target(Struct, frozen=True):
    """
    What an action is about.

    Attributes:
        documents: References to documents of the run, each once.
        connection: A connection of the run, or None.
        left_out: What was said and names nothing.
    """

    documents: tuple[str, ...]
    connection: str | None
    left_out: tuple[str, ...] = ()


def is_exact(spec: Spec, tool: ToolSpec) -> bool:
    """Return whether a call of *tool* gets exactly what is said of it."""
    return spec.profile.strict or (spec.revision > 1 and tool.effect != "read")


def exact_calls(kit: RunResources, spec: Spec) -> Known:
    """Return of which tools a call gets all that is said of it, by name, and what parameters those have."""

    def known(name: str) -> Callable[[str], bool] | None:
        tool = kit.catalog.find(name)
        if tool is None or spec.revision == 1 or not is_exact(spec, tool):
            return None
        return kit.schema(tool).is_known

    return known


def target_of(selection: Selection, tool: ToolSpec, kit: RunResources, run: Run) -> Target | Invalid:
    """Return the documents and the connection that Stage 1 has chosen for *tool*, or why it is asked again."""
    spec, needs, exact = run.spec, kit.needs(tool), is_exact(run.spec, tool)
    given = {text: text if spec.profile.strict else _mended(text) for text in selection.documents}
    found = {text: _reference_problem(run, reference) for text, reference in given.items()}
    if exact and not spec.profile.strict:
        found = {text: problem or _several(run, text, given[text]) for text, problem in found.items()}
    wrong = {text: problem for text, problem in found.items() if problem is not None}
    documents = tuple(dict.fromkeys(given[text] for text in given if text not in wrong))
    named = selection.connection
    unknown = (named,) if named is not None and named not in spec.connections else ()
    if exact and wrong:
        return Invalid("reference", next(iter(wrong.values())))
    if exact and unknown:
        return Invalid("connection", unknown_connection(unknown[0], spec))
    if exact and spec.revision > 1 and (useless := _useless(documents, tool, kit, run)):
        return Invalid("reference", useless)
    if needs.document and not documents and not exact and len(spec.documents) == 1:
        documents = (spec.documents[0].reference,)  # the only input is meant
    if needs.document and not documents:
        why = f": {next(iter(wrong.values()))}" if wrong else ""
        return Invalid("no_documents", f"{tool.name} needs at least one of requiredInputDocuments{why}")
    connection = None if unknown else named
    if connection is None and needs.connection:
        connection = None if exact else only_connection(spec)
        if connection is None:
            return Invalid("no_connection", connection_lacks(tool.name, "requiredConnection", spec))
    return Target(documents, connection, (*wrong, *unknown))


def _useless(documents: tuple[str, ...], tool: ToolSpec, kit: RunResources, run: Run) -> str | None:
    """
    Return why *tool* cannot be about these documents; what an earlier result says, Stage 2 reads.

    A connection that is no parameter of a tool reaches it as `ToolContext.connection`.
    """
    results = {message.label for message in run.memory.history}
    inputs = [one for one in documents if one.partition(":")[2].partition("#")[0] not in results]
    if inputs and DOCUMENT_LIST not in kit.schema(tool).names:
        return f"{tool.name} takes no documents, not even {ascii(inputs[0])[:120]}"
    return None


def call_arguments(
    given: Mapping[str, Any], tool: ToolSpec, schema: ParameterSchema, spec: Spec
) -> tuple[dict[str, Any], tuple[str, ...]] | str:
    """
    Return the arguments of a native call and what of them was left out, or why the call is not made.

    Of a `read` tool one reference may stand for a list of one; where it needs documents, the call names none and the run was given
    just one, that is meant; where it needs a connection, and the call names none that there is, the run's only one.
    """
    values, left_out = dict(given), ()
    if is_exact(spec, tool):
        return values, left_out
    if isinstance(values.get(DOCUMENT_LIST), str):
        values[DOCUMENT_LIST] = [values[DOCUMENT_LIST]]
    if not values.get(DOCUMENT_LIST) and DOCUMENT_LIST in schema.required and len(spec.documents) == 1:
        values[DOCUMENT_LIST] = [spec.documents[0].reference]
    named = values.get(CONNECTION)
    if CONNECTION not in schema.required or named in spec.connections:
        return values, left_out
    connection = only_connection(spec)
    if connection is not None:
        values[CONNECTION] = connection
        return values, () if named is None else (str(named),)
    return connection_lacks(tool.name, CONNECTION, spec) if named is None else (values, left_out)


def target_problem(arguments: Mapping[str, Any], schema: ParameterSchema, run: Run) -> str | None:
    """Return why complete arguments name a document or a connection that the run does not have, or None."""
    named = arguments.get(DOCUMENT_LIST)
    for reference in named if isinstance(named, list) else ():
        if isinstance(reference, str) and (reason := _reference_problem(run, reference)) is not None:
            return reason
    if run.spec.revision == 1 or CONNECTION not in schema.names:
        return None
    label = arguments.get(CONNECTION)
    return (
        unknown_connection(label, run.spec)
        if isinstance(label, str) and label not in run.spec.connections
        else None
    )


def only_connection(spec: Spec) -> str | None:
    """Return the run's only connection, None where it has none or several."""
    return spec.connections[0] if len(spec.connections) == 1 else None


def unknown_connection(named: Any, spec: Spec) -> str:
    """Return what a model is told that named a connection which the run does not have."""
    labels = ", ".join(spec.connections)
    told = f"there is no connection {ascii(named)[:80]}"
    return told if spec.revision == 1 or not labels else f"{told}; there are: {labels}"


def connection_lacks(tool: str, key: str, spec: Spec) -> str:
    """Return what a model is told that chose *tool* without the connection that it needs under *key*."""
    labels = ", ".join(spec.connections)
    return f"{tool} needs {key}{f': {labels}' if labels else ', and this run has no connection'}"


def left_out_note(names: tuple[str, ...]) -> str:
    """Return what a model is told of a call from which *names* were left out."""
    shown = ", ".join(ascii(cut(line(name), 80)) for name in names[:_NAMES_TOLD])
    more = f" and {len(names) - _NAMES_TOLD} more" if len(names) > _NAMES_TOLD else ""
    return f"left out of this call, since there is nothing of that name: {shown}{more}"


def changed_names(
    asked: Mapping[str, Any], approved: Mapping[str, Any], schema: Mapping[str, Any]
) -> tuple[str, ...]:
    """Return the names of the arguments in which an approved call differs from the one that was asked about."""
    before, after = (
        {name: canonical_arguments({name: value}) for name, value in with_defaults(given, schema).items()}
        for given in (unsealed(asked), approved)
    )
    return tuple(sorted(name for name in {**before, **after} if before.get(name) != after.get(name)))


def changed_note(names: tuple[str, ...], arguments: Mapping[str, Any]) -> str:
    """Return what a model is told of a call that a person has changed in approving it."""
    shown = [
        f"{ascii(name)[:80]} {cut(line(json.dumps(unsealed(arguments[name]), ensure_ascii=False)), 120)}"
        if name in arguments
        else f"{ascii(name)[:80]} left out"
        for name in names[:_NAMES_TOLD]
    ]
    more = f" and {len(names) - _NAMES_TOLD} more" if len(names) > _NAMES_TOLD else ""
    return (
        f"the person who approved this call changed its arguments; it was made with {', '.join(shown)}{more}"
    )


def _mended(reference: str) -> str:
    """Return *reference* with the prefix that it should have: a model may write the other one, or none."""
    place = reference.removeprefix("docList:").removeprefix("docItem:")
    return f"{'docItem' if '#' in place else 'docList'}:{place}"


def _several(run: Run, said: str, reference: str) -> str | None:
    """Return why *said*, which names one document without its position, can mean several, or None when it cannot."""
    label = reference.partition(":")[2]
    if said.startswith("docList:") or "#" in label or run.memory.labels[label][1] == 1:
        return None
    return (
        f"{ascii(said)[:120]} can mean {run.memory.labels[label][1]} documents;"
        f" use docItem:{label}#0 for one, docList:{label} for all"
    )


def _reference_problem(run: Run, reference: str) -> str | None:
    """Return why *reference* names no document of this run, or None when it does."""
    kind, _, place = reference.partition(":")
    label, mark, position = place.partition("#")
    found = run.memory.labels.get(label)
    if found is None or kind not in ("docList", "docItem") or (kind == "docItem") != bool(mark):
        return f"{ascii(reference)[:120]} names no document of this run"
    count = found[1]
    if count == 0:
        return f"{ascii(reference)[:120]} holds no documents"
    if mark and not (
        position.isascii() and position.isdigit() and len(position) < 10 and int(position) < count
    ):
        return f"{ascii(reference)[:120]}: the label holds documents #0 to #{count - 1}"
    return None
