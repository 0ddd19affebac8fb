"""`validate`: plans and workflows as files, what kind a file is, and tools that it names."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paor import Workflow, validate
from paor.audit import Report

from .inside import Catalog, Plan, ToolSpec
from .test_workflow import FIXTURES, fixture

TOOLS = Catalog(
    [
        ToolSpec(
            name="web.fetch",
            parameters={
                "type": "object",
                "properties": {"url": {"type": "string"}, "count": {"type": "integer"}},
                "required": ["url"],
            },
        ),
        ToolSpec(name="calc.eval", parameters={"type": "object", "properties": {"text": {"type": "string"}}}),
        ToolSpec(name="my.tool.summarise"),
        ToolSpec(name="notify.send_slack"),
    ]
)


def told(report: Report) -> list[str]:
    """Return the defects as they are printed."""
    return [str(item) for item in report.defects]


def test_A139_A143_the_documents_plan_is_valid_as_it_stands() -> None:
    """Its schema is a picture of one, which is worth a warning."""
    report = validate(fixture("plan.yaml"), tools=TOOLS)
    assert report.ok and report.kind == "plan" and report.plan is not None
    (step,) = report.plan.steps
    assert (report.plan.id, step.type, step.name, step.reason, step.retries) == (
        "uuid-…",
        "tool",
        "web.fetch",
        "need raw html",
        2,
    )
    assert step.args == {"url": "https://…"}
    assert report.plan.question is not None and report.plan.question.message == "Provide API key"
    assert told(report) == [
        "13:3: warning: elicitation.schema: the schema is no JSON object, so every answer fits"
    ]


@pytest.mark.parametrize("name", sorted(path.name for path in FIXTURES.glob("*.yaml")))
def test_A167_every_snippet_of_the_document_is_valid(name: str) -> None:
    """Verbatim, with the tools that it names and without."""
    kind = "plan" if name in ("plan.yaml", "blocked_result.yaml") else "workflow"
    report = validate(fixture(name))
    assert report.ok and report.kind == kind
    assert (report.plan is None, report.workflow is None) == (kind == "workflow", kind == "plan")
    if name != "blocked_result.yaml":
        assert validate(fixture(name), tools=TOOLS).ok


PLAN = """\
intention: look
steps:
  - type: tool
    name: web_fetch
    args: {url: "https://a", count: "$step[0].output.n"}
  - type: toool
  - nmae: x
    retries: -1
elicitation: 5
"""


def test_A167_every_defect_of_a_plan_has_its_place() -> None:
    """All of them at once; as JSON the places are those of the JSON."""
    assert told(validate(PLAN)) == [
        "5:30: steps[0].args.count: step 0 refers to itself",
        "6:5: steps[1].type: expected one of tool, elicitation, noop, abort, found 'toool'",
        "7:5: warning: steps[2].nmae: 'nmae' means nothing here; did you mean name?",
        "8:5: steps[2].retries: Input should be greater than or equal to 0",
        "9:1: elicitation: expected an object, found a number",
    ]
    text = (
        '{"steps": [\n  {"type": "tool", "name": "a", "args": {"x": ["$step[0].output"]}}, {"type": "tool"}]}'
    )
    assert told(validate(text)) == [
        "2:48: steps[0].args.x[0]: step 0 refers to itself",
        "2:70: steps[1].name: a step of type tool needs the name of a tool",
    ]
    text = '{"steps": [\n  {"type": "tool", "name": "a", "args": {"x": ["$step[0].output"]}}]}'
    assert told(validate(text)) == ["2:48: steps[0].args.x[0]: step 0 refers to itself"]
    text = '{"steps": [\n  {"type": "tool"}]}'
    assert told(validate(text)) == ["2:3: steps[0].name: a step of type tool needs the name of a tool"]


WRONG: dict[str, list[tuple[str, Any]]] = {
    "form": [("retries", -1), ("retries", "2"), ("id", 5), ("reason", [1]), ("type", "toool"), ("args", 5)],
    "name": [("name", "web.fecth")],
    "args": [("args", {}), ("args", {"url": "https://a", "extra": 1}), ("args", {"url": 5})],
}


@given(st.data())
def test_A167_no_defect_hides_another(data: st.DataObject) -> None:
    """Each of a step's defects is listed, whichever others it has, and whatever is wrong with the steps beside it."""
    steps, expected = list[dict[str, Any]](), set[tuple[int, str]]()
    for index in range(data.draw(st.integers(1, 3))):
        step: dict[str, Any] = {"type": "tool", "name": "web.fetch", "args": {"url": "https://a"}}
        for kind, defects in WRONG.items():
            if data.draw(st.booleans()) and (found := data.draw(st.sampled_from(defects)))[0] not in (
                key for number, key in expected if number == index
            ):
                if kind == "args" and step["name"] != "web.fetch":
                    continue  # of no known tool
                step[found[0]] = found[1]
                expected.add((index, found[0]))
        steps.append(step)
    report = validate(json.dumps({"steps": steps}), tools=TOOLS)
    assert {(int(item.path[6]), item.path[9:].partition(".")[0]) for item in report.defects} == expected


@pytest.mark.parametrize("text", ["stage: {loop: {plan: {action: llm/core:plan}}}", "intention: look", "{}"])
def test_A167_a_file_without_steps_is_no_plan(text: str) -> None:
    """A workflow that is checked as one least of all."""
    report = validate(text, kind="plan")
    assert [item.code for item in report.defects if item.severity == "error"] == ["no_steps"]
    assert validate("steps: []", kind="plan").ok


@pytest.mark.parametrize(
    "pipeline", ["{loop: {note: {action: log:write}, again: {action: log:write, goto: {task: loop}}}}", "{}"]
)
def test_A167_a_workflow_of_pipeline_is_refused(pipeline: str) -> None:
    """Its tasks would stand behind those of the shipped workflow, which the file does not mean."""
    report = validate(f"init: {{seen: []}}\npipeline: {pipeline}")
    assert [(item.code, item.path) for item in report.defects] == [("pipeline", "pipeline")]
    assert validate("pipeline: {action: 'notify:send_slack'}").ok


def test_A166_A167_tools_and_arguments_are_checked_against_a_catalog() -> None:
    """Names in either spelling; what a placeholder will give is not known yet."""
    plan: dict[str, Any] = {
        "steps": [
            {"type": "tool", "name": "web_fetch", "args": {"url": "https://a"}},
            {
                "type": "tool",
                "name": "web.fetch",
                "args": {"url": "$step[0].output", "count": "$step[0].output.n"},
            },
            {"type": "tool", "name": "web.fecth", "args": {}},
            {"type": "tool", "name": "zzz", "args": {}},
            {"type": "tool", "name": "web.fetch", "args": {"count": "x", "extra": 1}},
            {"type": "noop", "name": "nothing"},
        ]
    }
    assert validate(json.dumps(plan)).ok
    report = validate(json.dumps(plan, indent=1), tools=TOOLS)
    assert [(item.code, item.path, item.message) for item in report.defects] == [
        ("unknown_tool", "steps[2].name", "there is no tool 'web.fecth'; did you mean web.fetch?"),
        (
            "unknown_tool",
            "steps[3].name",
            "there is no tool 'zzz'; there are: web.fetch, calc.eval, my.tool.summarise, notify.send_slack",
        ),
        ("arguments", "steps[4].args.url", "web.fetch: url is required but missing"),
        ("arguments", "steps[4].args.count", 'web.fetch: count must be integer; found "x"'),
        ("arguments", "steps[4].args.extra", "web.fetch: extra is not a known parameter"),
    ]
    assert report.plan is None


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("steps: []", "plan"),
        ("intention: x", "plan"),
        ("[]", "plan"),
        ("- type: noop", "plan"),
        ("plan: {steps: []}", "plan"),
        ("plan: [{type: noop}]", "plan"),
        ("elicitation: {message: Which}", "plan"),
        ("plan: {when: true}", "workflow"),
        ("vars: {x: 1}", "workflow"),
        ("stage: {loop: {}}", "workflow"),
        ("stage: {}\nsteps: []", "workflow"),
        ("elicitation: {action: a}", "workflow"),
        ("", "workflow"),
        ("5", "workflow"),
        ("a: [", "workflow"),
    ],
)
def test_what_a_file_is_shows_in_its_keys(text: str, kind: str) -> None:
    """And can be said instead."""
    assert validate(text).kind == kind
    assert validate(text, kind="plan").kind == "plan" and validate(text, kind="workflow").kind == "workflow"


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("[]", "1:1: warning: the plan is empty: there is nothing left to do"),
        (
            "- name: a\n  args: {x: '$step[4].output'}",
            "2:10: [0].args.x: there is no step 4; the plan has steps 0 to 0",
        ),
        ("plan:\n  steps:\n    - type: x", "3:7: plan.steps[0].type: expected one of"),
        ("plan:\n  - type: x", "2:5: plan[0].type: expected one of"),
        ("steps: 5", "1:1: steps: expected a list, found a number"),
        ("steps:\n- function: {name: a, arguments: '{'}", "2:3: steps[0]: the arguments cannot be read"),
        (
            "steps:\n- {type: elicitation, message: W, schema: x}",
            "2:3: warning: steps[0].elicitation.schema: the schema is no JSON object",
        ),
    ],
)
def test_plans_in_other_forms(text: str, first: str) -> None:
    """A list, a wrapped plan, native calls: paths are those of the file."""
    assert told(validate(text))[0].startswith(first)


@given(st.text(max_size=60), st.sampled_from([None, "plan", "workflow"]))
def test_any_text_is_answered(text: str, kind: Any) -> None:
    """Never an exception."""
    report = validate(text, kind=kind, tools=TOOLS)
    assert report.ok == (isinstance(report.plan, Plan) or isinstance(report.workflow, Workflow))


def test_A167_a_step_that_cannot_be_read_hides_nothing_of_the_others() -> None:
    """Every defect at once: of the unreadable step, and of the placeholders and arguments beside it."""
    report = validate(
        '{"steps": [{"type": "jump"}, {"name": "a.b", "args": {"u": "$step[5].output"}},'
        ' {"name": "a.b", "args": {"u": "$step[0].output"}}, {"type": "tool"}]}'
    )
    places = [(item.code, item.path) for item in report.defects]
    assert places == [
        ("unknown_type", "steps[0].type"),
        ("unknown_step", "steps[1].args.u"),
        ("no_tool", "steps[3].name"),
    ]
    assert report.plan is None
