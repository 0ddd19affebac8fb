"""The workflow file: the document's own, its recipes as changes to the default, every defect with its place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paor import Workflow, load_workflow
from paor.errors import UsageError

from .inside import (
    EXEC_ACTION,
    EXECUTOR_INPUTS,
    EXECUTOR_OUTPUTS,
    PLAN_ACTION,
    PLANNER_INPUTS,
    PLANNER_OUTPUTS,
    Cursor,
    Flow,
    PlanResult,
    StepCall,
    WorkflowError,
    default_workflow,
    default_workflow_text,
    find_task,
    read_source,
    workflow_of_text,
)

FIXTURES = Path(__file__).parents[1] / "fixtures" / "document_004"


def fixture(name: str) -> str:
    """Return one of the document's snippets, as it is there."""
    return (FIXTURES / name).read_text(encoding="utf-8")


# -- reading ---------------------------------------------------------------------------------------------------------


def test_A129_the_documents_workflow_is_read_as_it_stands() -> None:
    """And means what the shipped one means, but for the transcript that ours begins with."""
    theirs, ours = load_workflow(fixture("workflow.yaml")), default_workflow()
    assert theirs.tasks == ours.tasks
    assert theirs.init == {"results": []} and ours.init == {"results": [], "transcript": []}
    assert [task.path for task in theirs.walk()] == ["loop", "loop.plan", "loop.exec"]
    assert load_workflow("") == ours


def test_A129_a_workflow_survives_the_journal() -> None:
    """It is kept in the spec as JSON."""
    for name in ("workflow.yaml", "loop_limit.yaml", "on_error.yaml", "post_processing.yaml"):
        workflow = load_workflow(fixture(name))
        assert Workflow.model_validate_json(workflow.wire_json()) == workflow


def test_A165_inputs_and_outputs_of_both_actions_are_the_documents() -> None:
    """Section 6 is the contract."""
    said = dict[str, set[str]]()
    for block in fixture("inputs_outputs.txt").strip().split("\n\n"):
        title, names = block.split("\n")
        said[title[2:].partition("  ")[0]] = {name.strip().removesuffix("[]") for name in names.split(",")}
    assert said == {
        "Planner input": set(PLANNER_INPUTS),
        "Planner output": set(PLANNER_OUTPUTS),
        "Executor input": set(EXECUTOR_INPUTS),
        "Executor output": set(EXECUTOR_OUTPUTS),
    }


def test_A132_A135_the_default_passes_exactly_these_on() -> None:
    """Both tasks of the shipped workflow."""
    plan, execute = find_task(default_workflow(), "plan"), find_task(default_workflow(), "loop.exec")
    assert plan is not None and execute is not None
    assert (plan.action, execute.action) == (PLAN_ACTION, EXEC_ACTION)
    assert (set(plan.input), set(plan.post)) == (set(PLANNER_INPUTS), set(PLANNER_OUTPUTS))
    assert (set(execute.input), set(execute.post)) == (set(EXECUTOR_INPUTS), set(EXECUTOR_OUTPUTS))
    assert find_task(default_workflow(), "nothing") is None


def test_A155_the_documents_blocked_result_is_a_result() -> None:
    """Section 5.x, with its fields."""
    (raw,) = read_source(fixture("blocked_result.yaml")).data
    result = PlanResult.model_validate(raw)
    assert (result.name, result.args, result.error) == (
        "cat.file",
        {"path": "file.txt"},
        "duplicate_call_blocked",
    )
    assert result.result == "...last successful output..."


def test_changes_replace_and_merge_key_by_key() -> None:
    """``input`` and ``post`` are merged, everything else is replaced; JSON works as YAML does."""
    changes = {
        "name": "mine",
        "init": {"results": ["seed"]},
        "vars": {"transcript": None, "n": 0},
        "exec": {"when": "n < 3", "input": {"tools": ["a"]}, "post": {"n": "${n + 1}"}},
        "loop": {"when": True, "plan": {"input": {"model": "small"}}},
        "last": {"action": "notes:write"},
    }
    workflow = load_workflow(json.dumps(changes))
    assert (workflow.name, workflow.init) == ("mine", {"results": ["seed"], "transcript": None, "n": 0})
    execute = find_task(workflow, "exec")
    assert execute is not None and execute.when == "n < 3"
    assert (execute.input["tools"], execute.input["query"]) == (["a"], "${query}")
    plan = find_task(workflow, "plan")
    assert plan is not None and plan.action == PLAN_ACTION and plan.input["model"] == "small"
    assert execute.post == {"n": "${n + 1}", **{name: f"${{{name}}}" for name in EXECUTOR_OUTPUTS}}
    assert [task.path for task in workflow.walk()] == ["loop", "loop.plan", "loop.exec", "loop.last"]
    assert default_workflow() == load_workflow(default_workflow_text())


WHOLE = """\
stage:
  loop:
    plan:
      action: llm/core:plan
"""

DEFECTS: dict[str, list[str]] = {
    "5": ["1:1: a workflow is an object with a stage"],
    "stage:": ["1:1: stage: the stage has no tasks"],
    "stage: 5": ["1:1: stage: the stage has no tasks", "1:1: stage: stage must be an object"],
    "a: [1": ["1:6: neither YAML nor JSON: expected ',' or ']', but got '<stream end>'"],
    WHOLE + "    5: x": ['5:5: a key is a text; write "5" in quotes'],
    WHOLE + "init: {a: 1}\nvars: {a: 2}": ["6:8: vars.a: 'a' stands in init and in vars"],
    WHOLE + "      goto: lop": ["5:7: stage.loop.plan.goto: there is no task 'lop'; did you mean loop?"],
    WHOLE + "      goto: [loop, x]": [
        "5:20: stage.loop.plan.goto[1]: there is no task 'x'; there are: loop, plan"
    ],
    WHOLE + "      goto: [{when: a <}]": [
        "5:14: stage.loop.plan.goto[0]: goto needs the name of a task",
        "5:15: stage.loop.plan.goto[0].when: the expression ends too early, at character 4 of 'a <'",
    ],
    WHOLE + "      when: len(x": [
        "5:7: stage.loop.plan.when: the expression ends too early, at character 6 of 'len(x'"
    ],
    WHOLE + "      input: {promptemplate: x}": [
        "5:15: stage.loop.plan.input.promptemplate: llm/core:plan has no input 'promptemplate'"
    ],
    WHOLE + "      input: {tools: [{a: ['${1 +}']}]}": [
        "5:28: stage.loop.plan.input.tools[0].a[0]: the expression ends too early, at character 6 of '${1 +}'"
    ],
    WHOLE + "      inptu: {a: 1}": [
        "5:7: stage.loop.plan.inptu: 'inptu' is not known in a task; did you mean input?"
    ],
    WHOLE + "      retry: {x: 1}": ["5:7: stage.loop.plan.retry: 'retry' of a task has no meaning here"],
    WHOLE + "      post: {x: '${y z}'}": [
        "5:14: stage.loop.plan.post.x: unexpected 'z', at character 5 of '${y z}'"
    ],
    WHOLE + "      on_error: {action: a, inputs: {}}": [
        "5:29: stage.loop.plan.on_error.inputs: 'inputs' is not known in onError; did you mean input?"
    ],
    WHOLE + "      elicitation: Which?": [
        "5:7: stage.loop.plan.elicitation: a task has an action or asks a question, not both"
    ],
    WHOLE + "    ask: {elicitation: {message: 5}}": [
        "5:5: stage.loop.ask: the task 'ask' has no action and does nothing",
        "5:11: stage.loop.ask.elicitation: elicitation: Input should be a valid string",
    ],
    WHOLE + "    idle: {description: x, onError: {action: a}}": [
        "5:5: stage.loop.idle: the task 'idle' has no action and does nothing",
        "5:28: stage.loop.idle.onError: onError needs an action that can fail",
    ],
    WHOLE + "    act: {action: 'rm -rf'}": [
        "5:11: stage.loop.act.action: 'rm -rf' is no action: a tool, or service/path:method"
    ],
    WHOLE + "    abort: true": ["5:5: stage.loop.abort: a task that holds tasks has no abort"],
    WHOLE + "  again: {plan: {action: a}, b: {goto: plan}}": [
        "5:34: stage.again.b.goto: 'plan' is the name of several tasks: loop.plan, again.plan"
    ],
    "exec: {post: {x: '${1 +}'}}": [
        "1:15: exec.post.x: the expression ends too early, at character 6 of '${1 +}'"
    ],
    "init: {a: 1}\nvars: {a: 2}": ["2:8: vars.a: 'a' stands in init and in vars"],
}


@pytest.mark.parametrize("text", DEFECTS, ids=lambda text: ascii(text.removeprefix(WHOLE).strip()[:30]))
def test_A167_every_defect_is_named_with_its_place(text: str) -> None:
    """Line and column in the file that was given, also where it only holds changes."""
    workflow, defects = workflow_of_text(text)
    found = [str(item) for item in defects if item.severity == "error"]
    wanted = DEFECTS[text]
    assert len(found) == len(wanted) and all(map(str.startswith, found, wanted)), found
    assert workflow is None
    with pytest.raises(WorkflowError) as caught:
        load_workflow(text, name="my.yaml")
    assert isinstance(caught.value, UsageError) and caught.value.defects == defects
    assert str(caught.value).startswith("my.yaml:") and str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        (
            "stage: {a: {action: b}}",
            "1:1: warning: no task has the action llm/core:plan, so nothing is planned",
        ),
        ("exce:\n  goto: loop", "1:1: warning: exce: 'exce' is a new task; did you mean exec?"),
        (
            fixture("prompt_template.yaml"),
            "4:5: warning: plan.input.promptTemplate: nothing sets the variable 'myPrompt'",
        ),
        (
            "exec: {when: resluts}",
            "1:8: warning: exec.when: nothing sets the variable 'resluts', so the caller has to",
        ),
        (
            "exec: {input: {tools: '${step.name}'}}",
            "1:16: warning: exec.input.tools: nothing sets the variable 'step'",
        ),
    ],
)
def test_what_may_be_meant_is_a_warning(text: str, warning: str) -> None:
    """The workflow can be used."""
    workflow, defects = workflow_of_text(text)
    assert workflow is not None
    assert [str(item)[: len(warning)] for item in defects] == ([warning] if warning else [])
    assert load_workflow(text) == workflow


def test_variables_that_are_null_are_none() -> None:
    """``init:`` without anything below it; found by a random test."""
    for text in ("init:\nvars:", "vars: {n: 1}\ninit:", "init: {n: 1}\nvars:"):
        workflow = load_workflow(text)
        assert {**workflow.init, "n": 1} == {**default_workflow().init, "n": 1}


# -- walking ---------------------------------------------------------------------------------------------------------


RICH = """
init: {n: 0, log: [], greeting: "for ${query}"}
stage:
  start: {post: {n: "${n + 10}", "log[]": start, "seen[]": "${n}"}}
  skipped: {when: n < 10, inner: {action: a.b}, deeper: {x: {action: a.b}}}
  work:
    when: "${n >= 10}"
    ask:
      elicitation: {message: "Which, ${query}?", schema: {type: object}}
      post: {"log[]": "${answer.key}"}
    again:
      when: n < 12
      post: {n: "${n + 1}"}
      goto: [{when: n == 99, task: start}, {task: work.ask}]
  stop: {when: len(log) > 3, abort: true}
  never: {when: false, action: a.b}
  last: {action: notes/write:all, input: {n: "${n}", missing: "${nobody}", text: "n=${n}"}}
"""


def test_every_kind_of_task() -> None:
    """Questions, variables that are set or appended to, jumps, groups that are skipped, and an end."""
    flow = Flow(load_workflow(RICH))
    cursor = flow.start({"query": "Ann", "context": None})
    assert cursor.variables == {"n": 0, "log": [], "greeting": "for Ann", "query": "Ann"}
    for count, key in enumerate(("x", "y", "z")):
        cursor, task = flow.upcoming(cursor)
        assert task is not None and task.path == "work.ask" and task.elicitation is not None
        assert cursor.variables["n"] == 10 + count
        assert cursor.changed == (("n", "log", "seen") if count == 0 else ("n",))
        if count < 2:
            cursor = flow.done(cursor, task, {"answer": {"key": key}})
            assert cursor.changed == ("log",)
    assert cursor.variables["log"] == ["start", "x", "y"] and cursor.variables["seen"] == [0]
    assert task is not None
    aborted = flow.upcoming(flow.done(cursor, task, {"answer": {"key": "z"}}))
    assert aborted[1] is None and aborted[0].aborted == "stop"
    fine = Cursor(cursor.at, {**cursor.variables, "log": "one"})
    fine, last = flow.upcoming(flow.done(fine, task, {"answer": None}))
    assert last is not None and last.name == "last" and fine.variables["log"] == ["one", None]
    assert flow.call(fine, last) == StepCall("notes/write:all", {"n": 12, "missing": None, "text": "n=12"})
    assert flow.upcoming(flow.done(fine, last, {}))[1] is None


WORDS = (
    *("stage", "loop", "plan", "exec", "action", "input", "post", "when", "goto", "task", "onError", "abort"),
    *("elicitation", "message", "init", "vars", "x"),
)


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.sampled_from(["loop", "a.b", "${x}", "1 <", "len(results) > 0"]),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=5)
        ),
        max_leaves=25,
    )
)
def test_any_data_is_a_workflow_or_has_defects(data: Any) -> None:
    """Each with a place in the file."""
    text = json.dumps(data, indent=1)
    workflow, defects = workflow_of_text(text)
    assert (workflow is None) == any(item.severity == "error" for item in defects)
    assert all(1 <= item.line <= text.count("\n") + 1 and item.column >= 1 for item in defects)
    assert all(item.wire()["message"] == item.message and item.message.isascii() for item in defects)
    if workflow is not None:
        assert Workflow.model_validate_json(workflow.wire_json()) == workflow
        Flow(workflow)
