"""The workflow file: the document's own, its recipes as changes to the default, every defect with its place."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paor.fsm.workflow.defects import shown_path
from paor.fsm.workflow.expressions.evaluator import ExpressionError
from paor.fsm.workflow.navigation import HOPS_MAX, Cursor, Flow, FlowError, StepCall
from paor.fsm.workflow.reader import (
    WorkflowError,
    default_workflow,
    default_workflow_text,
    find_task,
    load_workflow,
    workflow_of_text,
)
from paor.fsm.workflow.source import read_source
from paor.states.base.errors import UsageError
from paor.states.records.plans import PlanResult
from paor.states.records.workflow import (
    EXEC_ACTION,
    EXECUTOR_INPUTS,
    EXECUTOR_OUTPUTS,
    PLAN_ACTION,
    PLANNER_INPUTS,
    PLANNER_OUTPUTS,
    Workflow,
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


def test_A158_recipe_5_1_replaces_the_prompt() -> None:
    """The input is added to the default's, and the template may be text or a file."""
    workflow = load_workflow(fixture("prompt_template.yaml"))
    plan = find_task(workflow, "plan")
    assert plan is not None and set(plan.input) == {*PLANNER_INPUTS, "promptTemplate"}
    flow = Flow(workflow)
    cursor, task = flow.upcoming(flow.start({"query": "q", "myPrompt": "Plan {{KEY:OBJECTIVE}}"}))
    assert task is not None and flow.call(cursor, task).input["promptTemplate"] == "Plan {{KEY:OBJECTIVE}}"
    cursor, task = flow.upcoming(flow.start({"query": "q"}))
    assert task is not None and flow.call(cursor, task).input["promptTemplate"] is None


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
    WHOLE + "extra: 1": [
        "5:1: extra: 'extra' is not known here; there are: name, description, init, vars, stage"
    ],
    WHOLE + "init: 5": ["5:1: init: init must be an object"],
    WHOLE + "init: {a b: 1}": ["5:8: init.a b: 'a b' is no name of a variable: letters, digits and _"],
    WHOLE + "init: {a: '${len(}'}": [
        "5:8: init.a: the expression ends too early, at character 7 of '${len(}'"
    ],
    WHOLE + "init: {a: 1}\nvars: {a: 2}": ["6:8: vars.a: 'a' stands in init and in vars"],
    WHOLE + "name: [1]": ["5:1: name: name must be a text"],
    WHOLE + "      goto: lop": ["5:7: stage.loop.plan.goto: there is no task 'lop'; did you mean loop?"],
    WHOLE + "      goto: {task: lop}": [
        "5:14: stage.loop.plan.goto.task: there is no task 'lop'; did you mean loop?"
    ],
    WHOLE + "      goto: [loop, x]": [
        "5:20: stage.loop.plan.goto[1]: there is no task 'x'; there are: loop, plan"
    ],
    WHOLE + "      goto: [{when: a <}]": [
        "5:14: stage.loop.plan.goto[0]: goto needs the name of a task",
        "5:15: stage.loop.plan.goto[0].when: the expression ends too early, at character 4 of 'a <'",
    ],
    WHOLE + "      goto: 5": [
        "5:7: stage.loop.plan.goto: goto is a task's name, or an object with task and when"
    ],
    WHOLE + "      goto: {task: loop, wen: 1}": [
        "5:26: stage.loop.plan.goto.wen: 'wen' is not known in goto; did you mean when?"
    ],
    WHOLE + "      when: [1]": ["5:7: stage.loop.plan.when: when must be an expression, or true or false"],
    WHOLE + "      when: len(x": [
        "5:7: stage.loop.plan.when: the expression ends too early, at character 6 of 'len(x'"
    ],
    WHOLE + "      abort: 5": ["5:7: stage.loop.plan.abort: abort must be true or false"],
    WHOLE + "      input: [1]": ["5:7: stage.loop.plan.input: input must be an object"],
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
    WHOLE + "      post: {a-b: 1}": [
        "5:14: stage.loop.plan.post.a-b: 'a-b' is no name of a variable, with [] to append"
    ],
    WHOLE + "      post: {x: '${y z}'}": [
        "5:14: stage.loop.plan.post.x: unexpected 'z', at character 5 of '${y z}'"
    ],
    WHOLE + "      onError: {input: {a: 1}}": ["5:7: stage.loop.plan.onError: onError needs an action"],
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
    WHOLE + "    ask: {elicitation: {}}": [
        "5:11: stage.loop.ask.elicitation: an elicitation needs a message or a schema"
    ],
    WHOLE + "    ask: {elicitation: '${a b}'}": [
        "5:11: stage.loop.ask.elicitation.message: unexpected 'b', at character 5 of '${a b}'"
    ],
    WHOLE + "    idle: {}": ["5:5: stage.loop.idle: the task 'idle' has no action and does nothing"],
    WHOLE + "    idle: {description: x, onError: {action: a}}": [
        "5:5: stage.loop.idle: the task 'idle' has no action and does nothing",
        "5:28: stage.loop.idle.onError: onError needs an action that can fail",
    ],
    WHOLE + "    odd: 5": ["5:5: stage.loop.odd: 'odd' is not known in a task; there are: action, input"],
    WHOLE + "  odd: 5": ["5:3: stage.odd: the task 'odd' must be an object"],
    WHOLE + "    act: {action: 'rm -rf'}": [
        "5:11: stage.loop.act.action: 'rm -rf' is no action: a tool, or service/path:method"
    ],
    WHOLE + "    act: {action: 5}": [
        "5:5: stage.loop.act: the task 'act' has no action and does nothing",
        "5:11: stage.loop.act.action: action must be a text",
    ],
    WHOLE + "    abort: true": ["5:5: stage.loop.abort: a task that holds tasks has no abort"],
    WHOLE + "  again: {plan: {action: a}, b: {goto: plan}}": [
        "5:34: stage.again.b.goto: 'plan' is the name of several tasks: loop.plan, again.plan"
    ],
    "exec: {goto: {task: nowhere}}": [
        "1:15: exec.goto.task: there is no task 'nowhere'; there are: loop, plan, exec"
    ],
    "exec: {post: {x: '${1 +}'}}": [
        "1:15: exec.post.x: the expression ends too early, at character 6 of '${1 +}'"
    ],
    "exec: 5": ["1:1: exec: 'exec' is not known here; there are: name, description, init, vars, stage"],
    "vars: 5": ["1:1: vars: vars must be an object"],
    "init: 5": ["1:1: init: init must be an object"],
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


def test_tasks_can_be_nested_but_not_without_end() -> None:
    """Bounded far above need."""
    for levels, usable in ((7, True), (9, False)):
        data: dict[str, Any] = {"action": PLAN_ACTION}
        for level in range(levels):
            data = {f"t{level}": data}
        assert (workflow_of_text(json.dumps({"stage": data}))[0] is not None) is usable


def test_paths_are_shown_as_people_write_them() -> None:
    """ASCII on one line, whatever the keys are."""
    assert shown_path(("a", 0, "b", "é\n")) == "a[0].b.\\xe9\\n"


# -- walking ---------------------------------------------------------------------------------------------------------

Planner = Callable[[int, dict[str, Any]], dict[str, Any]]
STEPS = {"plan": {"steps": [{"type": "tool", "name": "web.fetch"}], "elicitation": None}}
EMPTY = {"plan": {"steps": []}, "answer": "done"}


class Walk:
    """
    Walks a workflow with a planner and an executor made of data.

    Attributes:
        tasks: Names of the tasks done, in order.
        calls: Their inputs.
        cursor: Where it ended.
    """

    def __init__(
        self, text: str, plans: list[dict[str, Any]], *, error: str = "", inputs: Any = None
    ) -> None:
        self.flow = Flow(load_workflow(text))
        self.tasks: list[str] = []
        self.calls: list[StepCall] = []
        self.hooks: list[StepCall] = []
        plans = list(plans)
        self.cursor = self.flow.start(inputs or {"query": "q"})
        while True:
            self.cursor, task = self.flow.upcoming(self.cursor)
            if task is None:
                break
            call = self.flow.call(self.cursor, task)
            self.tasks.append(task.name)
            self.calls.append(call)
            outputs: dict[str, Any] = {"summary": "in short"}
            if call.action == PLAN_ACTION:
                outputs = {name: call.input.get(name) for name in ("results", "transcript")} | plans.pop(0)
            elif call.action == EXEC_ACTION:
                result = {
                    "name": "web.fetch",
                    "result": None if error else f"raw {len(call.input['results'])}",
                    "error": error,
                }
                outputs = {
                    "results": [*call.input["results"], result],
                    "transcript": call.input["transcript"],
                }
                hook = self.flow.hook(self.cursor, task, {"name": "web.fetch"}, error) if error else None
                self.hooks += [hook] if hook else []
            self.cursor = self.flow.done(self.cursor, task, outputs, failed=bool(error))


def test_A130_A131_A136_plan_and_exec_alternate_until_the_plan_is_empty() -> None:
    """Two plans with steps and an empty one: three plans, two executions."""
    walk = Walk(fixture("workflow.yaml"), [STEPS, STEPS, EMPTY])
    assert walk.tasks == ["plan", "exec", "plan", "exec", "plan"]
    assert walk.calls[0].input["results"] == []
    assert walk.calls[2].input["results"] == [{"name": "web.fetch", "result": "raw 0", "error": ""}]
    assert [result["result"] for result in walk.cursor.variables["results"]] == ["raw 0", "raw 1"]
    assert walk.cursor.variables["answer"] == "done" and not walk.cursor.aborted


@pytest.mark.parametrize("plan", [{"plan": None}, {}, {"plan": {}}, {"plan": {"steps": None}}, EMPTY])
def test_A134_without_a_plan_nothing_is_executed(plan: dict[str, Any]) -> None:
    """Null, missing or empty: no error."""
    assert Walk("", [plan]).tasks == ["plan"]


def test_A133_variables_are_set_after_the_plan() -> None:
    """Each from the outputs; the question from within the plan."""
    question = {"message": "Which?"}
    walk = Walk("", [{"plan": {"steps": [], "elicitation": question}, "answer": None}])
    variables = walk.cursor.variables
    assert (variables["elicitation"], variables["answer"]) == (question, None)
    assert variables["plan"] == {"steps": [], "elicitation": question}


def test_A161_recipe_5_3_runs_once_with_the_last_result() -> None:
    """And is skipped when there are none."""
    walk = Walk(fixture("post_processing.yaml"), [STEPS, STEPS, EMPTY])
    assert walk.tasks == ["plan", "exec", "plan", "exec", "plan", "postproc"]
    assert walk.calls[-1] == StepCall("my/tool:summarise", {"data": "raw 1"})
    assert walk.cursor.variables["summary"] == "in short"
    assert Walk(fixture("post_processing.yaml"), [EMPTY]).tasks == ["plan"]


def test_A162_recipe_5_4_executes_exactly_three_times() -> None:
    """The variable is raised before the jump is tried; steps that are left do not matter."""
    walk = Walk(fixture("loop_limit.yaml"), [STEPS] * 9)
    assert walk.tasks == ["plan", "exec"] * 3
    assert walk.cursor.variables["iteration"] == 3
    assert Walk(fixture("loop_limit.yaml"), [STEPS, EMPTY]).tasks == ["plan", "exec", "plan"]


def test_A164_recipe_5_5_calls_its_hook_once_and_aborts() -> None:
    """With both values; results are kept; nothing is called when nothing fails."""
    walk = Walk(fixture("on_error.yaml"), [STEPS, STEPS], error="no route")
    text = "tool web.fetch failed: no route"
    assert walk.hooks == [StepCall("notify:send_slack", {"channel": "#runtime-alerts", "text": text})]
    assert (walk.tasks, walk.cursor.aborted) == (["plan", "exec"], "loop.exec")
    assert walk.cursor.variables["results"][0]["error"] == "no route"
    assert walk.flow.upcoming(walk.cursor)[1] is None
    assert Walk(fixture("on_error.yaml"), [STEPS, EMPTY]).hooks == []


def test_A163_an_error_goes_back_to_the_planner_by_default() -> None:
    """The loop goes on; there is no hook in the default workflow."""
    walk = Walk("", [STEPS, EMPTY], error="no route")
    assert walk.tasks == ["plan", "exec", "plan"] and walk.hooks == []
    assert walk.calls[2].input["results"][0]["error"] == "no route"


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


def test_an_input_wins_over_the_files_variable() -> None:
    """A caller that gives earlier results goes on from them."""
    start = Flow(default_workflow()).start({"results": [1], "transcript": None})
    assert start.variables == {"results": [1], "transcript": []} and start.changed == (
        "results",
        "transcript",
    )


def test_a_circle_of_jumps_is_an_error_not_a_hang() -> None:
    """Bounded by `HOPS_MAX`."""
    flow = Flow(load_workflow("stage: {a: {goto: b}, b: {goto: a}}"))
    with pytest.raises(FlowError, match=f"jumped {HOPS_MAX} times"):
        flow.upcoming(flow.start({}))


def test_a_variable_that_is_set_later_is_null_until_then() -> None:
    """A condition can ask for it; a name that nothing sets is a typo."""
    flow = Flow(load_workflow("exec: {post: {seen: '${true}'}}\nlast: {when: seen == null, action: a.b}"))
    cursor, task = flow.upcoming(flow.start({"query": "q"}))
    assert task is not None
    _, last = flow.upcoming(flow.done(cursor, task, {"plan": None}))
    assert last is not None and last.name == "last"


def test_a_condition_that_cannot_be_evaluated_is_a_typed_error() -> None:
    """A typo in a variable's name is not taken for false."""
    flow = Flow(load_workflow("exec: {when: resluts > 0}"))
    cursor, task = flow.upcoming(flow.start({"query": "q"}))
    assert task is not None
    with pytest.raises(ExpressionError, match="did you mean results"):
        flow.upcoming(flow.done(cursor, task, {"results": []}))


@given(st.lists(st.booleans(), max_size=12), st.integers(0, 3))
def test_the_default_ends_with_the_first_empty_plan(plans: list[bool], extra: int) -> None:
    """One execution for every plan with steps before it; the walk is the same when it is repeated."""
    script = [STEPS if full else EMPTY for full in plans] + [EMPTY] * (extra + 1)
    full = next(index for index, plan in enumerate(script) if plan is EMPTY)
    walks = [Walk("", script) for _ in range(2)]
    assert walks[0].tasks == ["plan", "exec"] * full + ["plan"]
    assert walks[0].cursor == walks[1].cursor and walks[0].calls == walks[1].calls


@given(st.text(max_size=80) | st.text(alphabet="stageloopinitvars:{}[]'\"$ \n-", max_size=60))
def test_any_text_is_a_workflow_or_has_defects(text: str) -> None:
    """Never another exception."""
    workflow, defects = workflow_of_text(text)
    assert (workflow is None) == any(item.severity == "error" for item in defects)


WORDS = (
    *("stage", "loop", "plan", "exec", "action", "input", "post", "when", "goto", "task", "onError", "abort"),
    *("elicitation", "message", "init", "vars", "x"),
)


@pytest.mark.parametrize(
    "data",
    [
        {"loop": {"plan": None, "abort": True}, "abort": {}},
        {"loop": {"plan": "text", "abort": "loop"}, "abort": {}, "plan": {}},
        {"stage": 1, "loop": {"plan": {}}, "plan": {"input": {}}},
    ],
)
def test_a_change_within_a_task_that_another_change_made_none_is_a_defect(data: dict[str, Any]) -> None:
    workflow, defects = workflow_of_text(json.dumps(data))
    assert workflow is None
    assert any(item.severity == "error" for item in defects)


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.sampled_from(["loop", "a.b", "${x}", "1 <", "len(results) > 0"]),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(WORDS),
                inner,
                max_size=5,
            )
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
