"""Strategies of plans: what a planner says in batch and planner mode, and a workflow's plan of tasks."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from ...states.run.spec import ToolSpec
from ...tools.catalog import CONNECTION, DOCUMENT_LIST
from .json_schema import Known, arguments, near_arguments
from .reply_builder import Said
from .setting import ANY, Setting

QUESTION = {
    "message": "Which page?",
    "requestedSchema": {
        "type": "object",
        "properties": {"page": {"type": "integer"}},
        "required": ["page"],
    },
}
_OTHER_STEPS: tuple[dict[str, Any], ...] = (
    {"type": "noop", "reason": "nothing to do"},
    {"type": "elicitation", "elicitation": QUESTION},
    {"type": "elicitation", "message": "Say something"},
    {"type": "abort", "reason": "the notes are gone"},
)


@st.composite
def plan(draw: DrawFn, setting: Setting = ANY) -> Said:
    """Return plans whose first step calls a tool; good as far as their form and the policy go."""
    tools = [tool for tool in setting.usable if CONNECTION not in tool.parameters.get("required", ())]
    if not tools:
        return draw(nothing_left())
    steps = [_call(draw, draw(st.sampled_from(tools)), setting.known)]
    for number in range(draw(st.sampled_from([0, 0, 1, 1, 2, 3]))):
        how = draw(st.integers(0, 5))
        if how >= 4:  # a step that was there already, or one that calls no tool
            steps.append(draw(st.sampled_from(steps if how == 4 else _OTHER_STEPS)))
        else:
            steps.append(_call(draw, draw(st.sampled_from(tools)), setting.known, after=number + 1))
    text = json.dumps({"intention": "read on", "steps": steps})
    good = None if "\\u0000" in text else True  # no text that is read may hold it
    return Said("plan", text, good=good, means={"steps": steps})


def _call(draw: DrawFn, tool: ToolSpec, known: Known, after: int = 0) -> dict[str, Any]:
    """Return a step that calls *tool*: with arguments that fit, some that do not, or an earlier step's output."""
    required = [name for name in tool.parameters.get("required", ()) if name != DOCUMENT_LIST]
    schema = {**tool.parameters, "required": required}
    how = draw(st.integers(0, 7))
    values = draw(near_arguments(schema, known))[1] if how == 7 else draw(arguments(schema, known))
    values = {  # no text is a placeholder by accident
        name: value.replace("$", "$$") if isinstance(value, str) else value for name, value in values.items()
    }
    if how == 6 and after and values:
        outputs = ["$step[0].output", "$step[0].output.total", "x $step[0].output"]
        values[min(values)] = draw(st.sampled_from(outputs))
    step: dict[str, Any] = {"type": "tool", "name": tool.name, "args": values, "reason": f"use {tool.name}"}
    if draw(st.integers(0, 5)) == 5:
        step["retries"] = draw(st.integers(1, 2))
    return step


def nothing_left() -> SearchStrategy[Said]:
    """Return replies that say that nothing is left to do."""
    replies: list[dict[str, Any]] = [{"steps": [], "answer": "All is read."}, {"answer": "It is the 3rd."}]
    return st.sampled_from(replies).map(
        lambda item: Said("plan", json.dumps(item), means={"answer": item["answer"]})
    )


def question() -> SearchStrategy[Said]:
    """Return replies that ask the user first."""
    return st.just(Said("plan", json.dumps({"elicitation": QUESTION}), means={"asks": True}))


@st.composite
def no_plan(draw: DrawFn, near_misses: SearchStrategy[Said], setting: Setting = ANY) -> Said:
    """Return replies that are no plan: the *near_misses* of one, plans with tools that are denied."""
    forbidden = [tool for tool in setting.tools if tool.name in setting.denied]
    wanted: bool = draw(st.booleans())
    if forbidden and wanted:
        steps = [_call(draw, draw(st.sampled_from(forbidden)), setting.known)]
        return Said("plan", json.dumps({"steps": steps}), good=False)
    return draw(near_misses)


@st.composite
def task_plan(draw: DrawFn, setting: Setting = ANY) -> Said:
    """Return plans of a workflow's tasks, some of which need others."""
    tasks: list[dict[str, Any]] = []
    for number in range(draw(st.sampled_from([1, 1, 2, 3]))):
        needs = [f"t{other}" for other in range(number) if draw(st.booleans())]
        tasks.append(
            {"id": f"t{number}", "objective": f"read page {number}", "dependencies": needs}
            | {"success_criteria": ["it is read"] if draw(st.booleans()) else []}
        )
    data = {"overview": "read on", "languageUserDetected": "en", "tasks": tasks}
    return Said("task_plan", json.dumps(data))
