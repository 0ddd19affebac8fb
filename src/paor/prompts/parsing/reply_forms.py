"""
The forms of replies: for every kind of request the one definition from which its prompt's words and its wire schema are made.

A form lists alternatives, each an object of parts; `Form.words` is what the model is shown, `Form.schema` what a server is
held to. Both are made for the run, so that nothing is offered that the run does not have. What the schema admits, the readers
of `prompts.parsing` take; tests/test_reply_contract.py draws replies from the schemas and reads them.

Texts are bounded at 2,000 characters at most, since servers that compile grammars refuse longer repetitions; an answer has no
bound but the request's limit of tokens.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from msgspec import Struct
from msgspec.json import encode

from ...states.records.actions import SET_BY_CODE
from ...states.records.plans import RETRIES_MAX
from .plan_data import TYPES

Schema = dict[str, Any]


class Part(Struct, frozen=True):
    """
    One key of a reply.

    Attributes:
        name: The key.
        words: Its value as the prompt shows it, JSON or nearly.
        schema: JSON Schema of the value.
        required: Whether the readers refuse a reply without it.
    """

    name: str
    words: str
    schema: Schema
    required: bool = True


class Form(Struct, frozen=True, dict=True):
    """
    The form of one kind of reply: one object, or one of several.

    Attributes:
        alternatives: Each with the words that lead to it, empty for the usual one, and its parts in the order in which a
            model should write them.
    """

    alternatives: tuple[tuple[str, tuple[Part, ...]], ...]

    @cached_property
    def words(self) -> str:
        """The form as the prompt shows it, a line for each alternative that has words of its own."""
        lines = []
        for lead, parts in self.alternatives:
            shown = ", ".join(f'"{part.name}": {part.words}' for part in parts if part.words)
            if shown:
                lines.append(f"{lead}{{{shown}}}")
        return "\n".join(lines)

    @cached_property
    def schema(self) -> Schema:
        """JSON Schema of the reply: an object, or ``anyOf`` several; the same one each time."""
        objects = [
            {
                "type": "object",
                "properties": {part.name: part.schema for part in parts},
                "required": [part.name for part in parts if part.required],
                "additionalProperties": False,
            }
            for _, parts in self.alternatives
        ]
        return objects[0] if len(objects) == 1 else {"anyOf": objects}

    @cached_property
    def schema_json(self) -> bytes:
        """That schema as JSON, of which a run's models get a value of their own: a model may take it apart."""
        return encode(self.schema)


class Needs(Struct, frozen=True):
    """
    What an action cannot be called without.

    Attributes:
        document: At least one document.
        connection: A connection.
    """

    document: bool = False
    connection: bool = False

    def met(self, *, documents: bool, connections: bool) -> bool:
        """Return whether an action with these needs can be called in a run that has *documents*, *connections*."""
        return (documents or not self.document) and (connections or not self.connection)


class Offer(Struct, frozen=True):
    """
    What a run offers to Stage 1.

    Attributes:
        actions: Names of the actions, in groups with the same needs; a group is offered where the run has what it needs.
        documents: Whether the run has documents to refer to.
        connections: Labels of its connections.
        learnings: Whether something can have been learnt: the run has a history.
    """

    actions: tuple[tuple[Needs, tuple[str, ...]], ...] = ()
    documents: bool = False
    connections: tuple[str, ...] = ()
    learnings: bool = False

    @property
    def offered(self) -> tuple[tuple[Needs, tuple[str, ...]], ...]:
        """The groups that the run has everything for."""
        given = {"documents": self.documents, "connections": bool(self.connections)}
        return tuple((needs, names) for needs, names in self.actions if needs.met(**given))

    @property
    def names(self) -> tuple[str, ...]:
        """The actions that the run has everything for."""
        return tuple(name for _, names in self.offered for name in names)


LINE, PASSAGE = 300, 1_000
"""Most characters of a sentence, and of a passage, in a structured reply."""

ITEMS = 10
"""Most items of a list in a structured reply."""


REFERENCE: Schema = {
    "type": "string",
    "pattern": r"^doc(List:[^\s#]+|Item:[^\s#]+#[0-9]+)$",
    "maxLength": LINE,
}
"""
Schema of a reference to documents.

A pattern, not the documents there are: a schema stays the same for a whole run, since a provider compiles each new one, and keeps
nothing of a prompt whose schema has changed. The readers refuse or leave out what names no document.
"""


def text(chars_max: int | None = LINE) -> Schema:
    """Return the schema of a text that is more than blanks and dots: a small model copies those that stand in its place."""
    bound = {} if chars_max is None else {"maxLength": chars_max}
    return {"type": "string", "minLength": 1, "pattern": r"[^\s.…]", **bound}


def items(of: Schema, least: int = 0, most: int = ITEMS) -> Schema:
    """Return the schema of a list."""
    return {"type": "array", "items": of, "maxItems": most} | ({"minItems": least} if least else {})


def one(*parts: Part) -> Form:
    """Return the form that has no alternatives."""
    return Form((("", parts),))


_ANSWER = Part("answer", '"..."', text(None))
"""Without words in its place: a small model copies them instead of answering."""


# -- Stage 1 and 2 ------------------------------------------------------------------------------------------------


def selection_form(offer: Offer, *, stage: str = "two_stage", strict: bool = False) -> Form:
    """Return the form of Stage 1: one of the offered actions, or an answer."""
    reply: list[tuple[str, tuple[Part, ...]]] = []
    for needs, names in offer.offered:
        parts = _chosen(offer, names, needs, stage=stage, strict=strict)
        # one line for all: only the schema tells apart which actions need a document or a connection
        reply.append(("", parts if not reply else tuple(_silent(part) for part in parts)))
    lead = "When no action is needed: " if reply else ""
    # `action` comes first here, too: with a key of its own the answer tempts small models to guess what a tool would tell
    reply.append((lead, (Part("action", "null", {"type": "null"}), _ANSWER)))
    return Form(tuple(reply))


def _chosen(
    offer: Offer, names: tuple[str, ...], needs: Needs, *, stage: str, strict: bool
) -> tuple[Part, ...]:
    if stage == "single":
        pairs = [dict(zip(("method", "name"), name.split(".", 1), strict=True)) for name in names]
        parts = [
            Part(
                "action", '{"method": "METHOD", "name": "NAME"}', {"anyOf": [_constant(one) for one in pairs]}
            )
        ]
    else:
        parts = [
            Part("action", '"one name from the list"', {"enum": list(names)}),
            Part("actionObjective", '"what this action is for"', text()),
        ]
    whole = strict and stage != "single"  # every key in every run, as document 003 prints them
    if whole or (offer.learnings and stage != "single"):
        parts.append(Part("learnings", '["what is known by now"]', items(text()), required=whole))
    if whole or offer.documents:
        listed = items(REFERENCE, least=int(needs.document))
        words = '["docList:LABEL" or "docItem:LABEL#0" of what it reads]'
        parts.append(Part("requiredInputDocuments", words, listed, required=whole or needs.document))
    if whole or offer.connections:
        labels = [*offer.connections] if needs.connection else [*offer.connections, None]
        words = '"LABEL"' if needs.connection else '"LABEL" or null'
        parts.append(Part("requiredConnection", words, {"enum": labels}, required=whole or needs.connection))
    if stage != "single":
        words = '"the values, names and texts from which its parameters are set"'
        parts.append(
            Part("parametersContext", words, {"type": "string", "maxLength": PASSAGE}, required=whole)
        )
    if whole:
        words = '{"fields": [{"name": "NAME", "type": "string|number|boolean|enum|object", "required": true, "description": "what it means"}]}'
        parts.append(Part("parametersSchema", words, closed(fields=items(_FIELD, most=FIELDS_MAX))))
    return tuple(parts)


def _silent(part: Part) -> Part:
    return Part(part.name, "", part.schema, part.required)


def _constant(values: Mapping[str, str]) -> Schema:
    return closed(**{name: {"const": value} for name, value in values.items()})


def closed(**properties: Schema) -> Schema:
    """Return the schema of an object with exactly these properties."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


FIELDS_MAX = 50
"""Most parameters that Stage 1 lists: as many as a tool can be expected to have."""

_FIELD = closed(
    name={"type": "string", "minLength": 1, "maxLength": 200},
    type={"enum": ["string", "number", "boolean", "enum", "object"]},
    required={"type": "boolean"},
    description={"type": "string", "maxLength": LINE},
)


_PARAMETERS = "parameters"


def parameters_form(tool_parameters: Mapping[str, Any], listed: frozenset[str] | None = None) -> Form:
    """Return the form of Stage 2 for a tool, without the names that Stage 2 may not set; of those that are *listed*, if any are."""
    schema: Schema = {"type": "object", **tool_parameters}
    properties = schema.get("properties")
    if isinstance(properties, Mapping):
        allowed = [
            name
            for name in properties
            if name.lower() not in SET_BY_CODE and (listed is None or name in listed)
        ]
        schema["properties"] = {name: properties[name] for name in allowed}
        required = [name for name in schema.get("required", ()) if name.lower() not in SET_BY_CODE]
        schema["required"] = required
        if {"additionalProperties", "unevaluatedProperties", "patternProperties"}.isdisjoint(schema):
            schema["additionalProperties"] = False  # an unknown argument is a problem there, too
    schema = moved_references(schema, "#", PARAMETERS_PLACE)
    return one(
        Part("schema", '"parameters_v1"', {"const": "parameters_v1"}),
        Part(_PARAMETERS, '{"NAME": "value"}', schema),
    )


PARAMETERS_PLACE = f"#/properties/{_PARAMETERS}"
"""JSON pointer to the arguments' schema within the reply schema."""


def moved_references(schema: Any, before: str, after: str) -> Any:
    """Return *schema* with its references, which count from the top of a document, as they are once *before* stands at *after*."""
    if isinstance(schema, list):
        return [moved_references(item, before, after) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    moved = {name: moved_references(item, before, after) for name, item in schema.items()}
    for key in ("$ref", "$dynamicRef"):
        target = schema.get(key)
        if isinstance(target, str) and f"{target}/".startswith(f"{before}/"):
            moved[key] = after + target[len(before) :]
    return moved


# -- judgements ----------------------------------------------------------------------------------------------------


def _criteria(criteria: Sequence[str]) -> tuple[Part, ...]:
    """Return the part in which criteria are judged: none in a run without criteria."""
    if not criteria:
        return ()
    words = '[{"criterion": "its text", "met": true or false, "evidence": "where"}]'
    check = closed(
        criterion={"enum": list(criteria)},
        met={"type": "boolean"},
        evidence={"type": "string", "maxLength": LINE},
    )
    return (Part("criteria", words, items(check, most=len(criteria)), required=False),)


def refinement_form(actions: Sequence[str], criteria: Sequence[str] = (), *, first: bool = False) -> Form:
    """
    Return the form of a refinement: whether to go on, why, and a hint for the next selection or the answer.

    Args:
        actions: That may be taken; none: there is nothing to go on with.
        criteria: The run's criteria.
        first: Whether it is the form of the first journals: the next action in place of a decision.
    """
    head = _criteria(criteria)
    score = Part("score", "0.0 to 1.0", {"type": "number", "minimum": 0, "maximum": 1}, required=False)
    tail = (score,) if criteria else ()
    if not first:
        reason = Part("reason", '"why, in one sentence"', text(LINE))
        advice = Part("hint", '"which action is next, and with what"', text(LINE))
        go_on = Part("decision", '"continue"', {"const": "continue"})
        end = Part("decision", '"stop"', {"const": "stop"})
        stop = "When no action is needed any more: ", (*head, end, reason, _ANSWER, *tail)
        go = "When an action is still needed: ", (*head, go_on, reason, advice, *tail)
        return Form((go, stop) if actions else (stop,))
    action = Part("action", '"name"', {"enum": list(actions)})
    hint = Part("hint", '"..."', {"type": "string", "maxLength": LINE}, required=False)
    stop = "When no action is needed any more: ", (*head, _ANSWER, *tail)
    return Form((("To take an action: ", (*head, action, hint, *tail)), stop) if actions else (stop,))


def output_form(schema: Mapping[str, Any], place: str = "#") -> Form:
    """Return the form of the object that holds an output; *place* is where the object stands in the whole reply."""
    moved = moved_references(schema, "#", f"{place}/properties/output")
    return one(Part("output", "a value that the schema under Output allows", moved))


def phase_form(schema: Mapping[str, Any]) -> Form:
    """Return the form of the reply to a phase of the host's own: an object, by the host's JSON Schema."""
    required = schema.get("required", ())
    properties = schema.get("properties", {})
    parts = [Part(name, _value_words(value), value, name in required) for name, value in properties.items()]
    return one(*parts)


def _value_words(schema: Mapping[str, Any]) -> str:
    """Return a value as a prompt shows it: its choices, else its type and what it is for."""
    if "enum" in schema:
        return " | ".join(json.dumps(value, ensure_ascii=False) for value in schema["enum"])
    kind = schema.get("type", "value")
    about = f": {schema['description']}" if schema.get("description") else ""
    return f"<{kind}{about}>"


def review_form(criteria: Sequence[str] = (), output: Mapping[str, Any] | None = None) -> Form:
    """
    Return the form of a completion review.

    Args:
        criteria: The run's criteria.
        output: JSON Schema of what a success gives in place of an answer, None for an answer.
    """
    head = _criteria(criteria)
    improvements = Part("improvements", '["what to do better"]', items(text(), least=1))
    message = given = _ANSWER
    if output is not None:
        ((_, (given,)),) = output_form(output, "#/anyOf/0").alternatives

    def status(word: str) -> Part:
        return Part("status", f'"{word}"', {"const": word})

    return Form(
        (
            ("When the objective is reached: ", (*head, status("success"), given)),
            ("When another attempt can reach it: ", (*head, status("retry"), improvements)),
            ("When it cannot be reached: ", (*head, status("failed"), message)),
        )
    )


def answer_form() -> Form:
    """Return the form of the answer that is asked for when the tools are withheld."""
    return one(_ANSWER)


# -- plans ---------------------------------------------------------------------------------------------------------

_QUESTION = {
    "type": "object",
    "properties": {
        "message": {"type": "string", "pattern": "^[A-Za-z].{0,300}$"},
        "requestedSchema": {"type": "object"},
    },
    "required": ["message"],
    "additionalProperties": False,
}


def plan_form(tools: Sequence[str] = ()) -> Form:
    """Return the form of a plan: steps, perhaps none of them with an answer, or a question."""
    reason = {"type": "string", "maxLength": LINE}
    retries = {"type": "integer", "minimum": 0, "maximum": RETRIES_MAX}

    def step(kind: str, **more: Schema) -> Schema:
        properties = {"type": {"const": kind}, **more, "reason": reason}
        required = ["type", *(name for name in more if name not in ("args", "retries"))]
        return {
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": False,
        }

    steps = [step(kind) for kind in TYPES if kind not in ("tool", "elicitation")]
    steps.insert(0, step("elicitation", elicitation=_QUESTION))
    if tools:
        steps.insert(0, step("tool", name={"enum": list(tools)}, args={"type": "object"}, retries=retries))
    words = '[{"type": "tool", "name": "service.method", "args": {}, "reason": "why", "retries": 0}]'
    intention = Part(
        "intention", '"what the plan is for"', {"type": "string", "maxLength": LINE}, required=False
    )
    nothing = Part("steps", "[]", {"type": "array", "maxItems": 0})
    asked = Part("elicitation", '{"message": "a question to the user", "requestedSchema": {}}', _QUESTION)
    final = Part("answer", _ANSWER.words, text(None), required=False)
    return Form(
        (
            ("", (intention, Part("steps", words, items({"anyOf": steps}, least=1, most=50)))),
            ("When nothing is left to do: ", (nothing, final)),
            ("Only when nothing can be planned without the user: ", (nothing, asked)),
        )
    )


def task_plan_form() -> Form:
    """Return the form of a workflow's tasks."""
    name = {"type": "string", "pattern": "^task_[1-9][0-9]?$"}
    task = {
        "type": "object",
        "properties": {
            "id": name,
            "objective": text(PASSAGE),
            "dependencies": items(name),
            "success_criteria": items(text()),
            "estimated_complexity": {"enum": ["low", "medium", "high"]},
            "userMessage": {"type": "string", "maxLength": LINE},
        },
        "required": ["id", "objective", "dependencies", "success_criteria"],
        "additionalProperties": False,
    }
    words = (
        '[{"id": "task_1", "objective": "what the task is to reach", "dependencies": [], "success_criteria": ["what must'
        ' hold at its end"], "estimated_complexity": "low" or "medium" or "high", "userMessage": "what the user is told'
        ' when it starts"}]'
    )
    return one(
        Part("overview", '"one or two sentences on the whole"', {"type": "string", "maxLength": PASSAGE}),
        Part(
            "languageUserDetected",
            '"code of the user\'s language, such as de"',
            {"type": "string", "maxLength": 20},
            required=False,
        ),
        Part(
            "userMessage",
            '"what the user is told first, in that language"',
            {"type": "string", "maxLength": LINE},
            required=False,
        ),
        Part("tasks", words, items(task, least=1, most=20)),
    )
