"""What a step comes to: a call with its arguments, a question for missing ones, a refusal, an end, or nothing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paor.fsm.placeholders import StepOutput
from paor.fsm.plan_steps import (
    NEVER_RETRIED,
    Aborted,
    Asked,
    Called,
    Idle,
    Refused,
    may_retry,
    missing_question,
    settled,
)
from paor.states.plans import Elicitation, Step
from paor.states.spec import ToolSpec
from paor.tools.catalog import Catalog
from paor.tools.schema import ParameterSchema

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
CATALOG = Catalog([FETCH, ToolSpec(name="notes.write")])
GOOD = {"url": "https://a", "count": 1}


def come_to(step: Step, **more: Any) -> Any:
    """Return what a step comes to as the second of a plan, after one that gave an object."""
    steps = [Step(name="notes.write"), step]
    return settled(steps, 1, [StepOutput({"link": "https://b", "n": 2}), None], CATALOG, **more)


@pytest.mark.parametrize("name", ["web.fetch", "web_fetch", "web:fetch", "Web/Fetch"])
def test_A141_A166_a_tool_step_is_a_call(name: str) -> None:
    """In either spelling of the name."""
    assert come_to(Step(name=name, args=GOOD)) == Called(FETCH, GOOD)


def test_placeholders_are_resolved_before_arguments_are_checked() -> None:
    """The tool gets values, of the right types."""
    args = {"url": "$step[0].output.link", "count": "$step[0].output.n"}
    assert come_to(Step(name="web.fetch", args=args)) == Called(FETCH, {"url": "https://b", "count": 2})
    refused = come_to(
        Step(name="web.fetch", args={"url": "$step[0].output.nothing", "count": "$step[1].output"})
    )
    assert refused == Refused(
        "invalid_parameters", "$step[0].output has no 'nothing'; it has: link, n; step 1 refers to itself"
    )


def test_A140_noop_and_abort() -> None:
    """An abort says why."""
    assert come_to(Step(type="noop")) == Idle()
    assert come_to(Step(type="abort", reason=" no budget ")) == Aborted("no budget")
    assert come_to(Step(type="abort")).reason


def test_A150_an_elicitation_step_asks() -> None:
    """With its own message and schema."""
    question = Elicitation(message="Which?", requested_schema={"type": "object"})
    assert come_to(Step(type="elicitation", elicitation=question)) == Asked(question)
    assert come_to(Step(type="elicitation", reason="Which?")).question.message == "Which?"


def test_A150_missing_arguments_are_asked_for_by_name() -> None:
    """As the tool declares them, also one with a default; the answer completes the call."""
    asked = come_to(Step(name="web_fetch", args={"mode": "a"}))
    assert (asked.tool, asked.missing) == ("web.fetch", ("url", "count"))
    assert asked.question.message == "The tool web.fetch needs url, count."
    assert asked.question.requested_schema == {
        "type": "object",
        "properties": {name: FETCH.parameters["properties"][name] for name in ("url", "count")},
        "required": ["url", "count"],
    }
    step = Step(name="web.fetch", args={"mode": "a"})
    assert come_to(step, answer=GOOD) == Called(FETCH, {**GOOD, "mode": "a"})
    assert come_to(step, answer={**GOOD, "mode": "b"}).arguments["mode"] == "a"
    assert isinstance(come_to(step, answer={"url": "x"}), Asked)


def test_the_question_of_a_missing_argument_is_a_schema_of_its_own() -> None:
    """References still lead somewhere; what is not declared by itself is a text."""
    schema = missing_question(FETCH, ["mode"]).requested_schema
    assert not ParameterSchema(schema).check({"mode": "a"}) and ParameterSchema(schema).check({"mode": "c"})
    bare = missing_question(ToolSpec(name="a.b", parameters={"required": ["x"]}), ["x"])
    assert bare.requested_schema["properties"] == {"x": {"type": "string"}}


@pytest.mark.parametrize(
    ("step", "code", "words"),
    [
        (
            Step(name="web.fetch", fault="the arguments cannot be read"),
            "invalid_parameters",
            "cannot be read",
        ),
        (Step(name="web.fecth", args=GOOD), "unknown_action", "choose one of: web.fetch, notes.write"),
        (Step(name="web.fetch", args={**GOOD, "count": "x"}), "invalid_parameters", "count must be"),
        (
            Step(name="web.fetch", args={"count": "x"}),
            "invalid_parameters",
            "url is required but missing; count",
        ),
        (
            Step(name="web.fetch", args={**GOOD, **{f"x{n}": 1 for n in range(9)}}),
            "invalid_parameters",
            "and 4 more",
        ),
    ],
)
def test_A141_what_cannot_be_called_is_refused(step: Step, code: str, words: str) -> None:
    """The planner reads why; the tool is not called."""
    refused = come_to(step)
    assert isinstance(refused, Refused) and refused.code == code and words in refused.message


def test_A142_attempts_are_one_more_than_retries() -> None:
    """Errors and empty results are tried again, refusals never."""
    step = Step(name="web.fetch", retries=2)
    assert [may_retry(step, made, error_code="tool_error") for made in (1, 2, 3)] == [True, True, False]
    assert may_retry(step, 1, error_code=None, is_empty=True) and not may_retry(step, 1, error_code=None)
    assert not any(may_retry(step, 1, error_code=code) for code in sorted(NEVER_RETRIED))
    assert not may_retry(Step(name="web.fetch"), 1, error_code="tool_error")


JSON = st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.lists(st.integers(), max_size=2)


@given(
    st.builds(
        Step,
        type=st.sampled_from(["tool", "elicitation", "noop", "abort"]),
        name=st.sampled_from(["web.fetch", "notes_write", "nothing", ""]),
        args=st.dictionaries(
            st.sampled_from(["url", "count", "mode", "x"]), JSON | st.just("$step[0].output.link")
        ),
    ),
    st.none() | st.dictionaries(st.sampled_from(["url", "count", "x"]), JSON),
)
def test_a_call_always_fits_its_schema(step: Step, answer: dict[str, Any] | None) -> None:
    """Whatever the planner and the user gave; and a question asks only for what is not there."""
    found = come_to(step, answer=answer)
    if isinstance(found, Called):
        assert not CATALOG.schema(found.tool).check(found.arguments)
    elif isinstance(found, Asked) and found.tool:
        assert found.missing and not set(found.missing) & set(step.args)
