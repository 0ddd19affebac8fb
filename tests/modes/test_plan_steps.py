"""The question for arguments that a plan's step lacks; what else a step comes to is shown on the engine."""

from __future__ import annotations

from paor.fsm.decision.plan_mode import missing_question
from paor.states.run.spec import ToolSpec
from paor.tools.schema.parameters import ParameterSchema

FETCH = ToolSpec(
    name="web.fetch",
    parameters={
        "type": "object",
        "properties": {
            "url": {"type": "string", "description": "where"},
            "count": {"type": "integer", "default": 5},
            "mode": {"$ref": "#/$defs/mode"},
        },
        "required": ["url", "count"],
        "$defs": {"mode": {"enum": ["a", "b"]}},
    },
)


def test_A150_missing_arguments_are_asked_for_by_name() -> None:
    """As the tool declares them, also one with a default."""
    question = missing_question(FETCH, ["url", "count"])
    assert question.message == "The tool web.fetch needs url, count."
    assert question.requested_schema == {
        "type": "object",
        "properties": {name: FETCH.parameters["properties"][name] for name in ("url", "count")},
        "required": ["url", "count"],
    }


def test_the_question_of_a_missing_argument_is_a_schema_of_its_own() -> None:
    """References still lead somewhere; what is not declared by itself is a text."""
    schema = missing_question(FETCH, ["mode"]).requested_schema
    assert not ParameterSchema(schema).check({"mode": "a"}) and ParameterSchema(schema).check({"mode": "c"})
    bare = missing_question(ToolSpec(name="a.b", parameters={"required": ["x"]}), ["x"])
    assert bare.requested_schema["properties"] == {"x": {"type": "string"}}
