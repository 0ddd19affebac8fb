"""Document 004's workflow on the real engine: its loop, its variables, and its five recipes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from paor import Limits, load_workflow, tool
from paor.errors import UsageError

from ..support.flows import EMPTY, OK, PLAN, TORN, Calls, check_journal, fixture
from ..support.recording import World, sections, text_of
from ..support.stored import started_with

POST = fixture("post_processing.yaml")
LIMIT = fixture("loop_limit.yaml")
HOOK = fixture("on_error.yaml")


def world(folder: Path, script: list[Any], calls: Calls | None = None, **options: Any) -> World:
    """Return an engine with a script and the workflow tools."""
    return World(folder, script, (calls or Calls()).tools, **options)


# -- the loop ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", fixture("workflow.yaml")], ids=["shipped", "document"])
def test_A129_A131_A136_plan_and_execute_repeat_until_a_plan_is_empty(tmp_path: Path, text: str) -> None:
    """Two plans with steps, then an empty one: three plan requests, two executions, each followed by planning."""
    with world(tmp_path, [PLAN(1, 2), PLAN(3), EMPTY, OK]) as own:
        result = own.run(workflow=text)
        assert (result.state, result.reason, result.steps) == ("Done", "model_stop", 3)
        assert own.model.kinds == ["plan", "plan", "plan", "review"]
        assert own.count("proceed") == 2
        places = [(row.trigger, row.source, row.dest) for row in own.rows if row.trigger == "proceed"]
        assert places == [("proceed", "Reviewing", "Planning")] * 2
        assert started_with(own.path)["mode"] == "planner"
        check_journal(own)


def test_A129_a_workflow_is_given_as_path_text_data_or_value(tmp_path: Path) -> None:
    """The four come to the same, and the spec holds the whole of it, so that a resume needs no file."""
    file = tmp_path / "flow.yaml"
    file.write_text(POST, encoding="utf-8")
    specs = []
    data: dict[str, Any] = {"postproc": {"action": "my/tool:summarise", "when": "len(results) > 0"}}
    data["postproc"] |= {"input": {"data": "${results[-1].result}"}, "post": {"summary": "${summary}"}}
    for number, given in enumerate((file, str(file), POST, data, load_workflow(POST))):
        with world(tmp_path / str(number), [EMPTY, OK]) as own:
            assert own.run(workflow=given).state == "Done"
            specs.append(started_with(own.path)["workflow"])
    assert all(spec == specs[0] == load_workflow(POST).wire() for spec in specs)


def test_A130_A132_A133_the_planner_gets_six_inputs_and_sets_the_variables(tmp_path: Path) -> None:
    """Results begin empty; afterwards plan, results and transcript stand in the variables that a later task is given."""
    flow = """
after:
  action: my/tool:summarise
  input:
    data:
      query: ${query}
      context: ${context}
      model: ${model}
      results: ${results}
      roles: ${transcript[0].role + transcript[1].role + transcript[2].role}
      answer: ${answer}
      plan: ${plan}
      elicitation: ${elicitation}
"""
    calls = Calls()
    with world(tmp_path, [PLAN(1), {**EMPTY, "answer": "page one"}, OK], calls) as own:
        turns = [{"role": "user", "content": "Hello"}]
        assert own.run("Read", workflow=flow, context="in haste", transcript=turns).answer == "page one"
        first, second = own.model.of("plan")
        assert sections(first)["Objective"] == "Read" and sections(first)["Context"] == "in haste"
        assert "user: Hello" in sections(first)["Conversation"] and "notes.read" in text_of(first)
        assert not any(name.startswith("Results") for name in sections(first))
        assert '"result":"page 1"' in sections(second)["Results so far, oldest first"]
        check_journal(own)
    (seen,) = calls.summarised
    result = {"id": "action1", "name": "notes.read", "args": {"page": 1}, "result": "page 1", "error": ""}
    assert seen["results"] == [result] and seen["roles"] == "userassistantassistant"
    assert (seen["query"], seen["context"], seen["model"]) == ("Read", "in haste", "scripted")
    assert (seen["answer"], seen["plan"], seen["elicitation"]) == ("page one", None, None)


@pytest.mark.parametrize("reply", [EMPTY, {"plan": None}, "It is known.", {"answer": "It is known."}])
def test_A134_A138_without_steps_nothing_is_executed(tmp_path: Path, reply: Any) -> None:
    """An empty plan or an answer skips the execution; that is no error."""
    with world(tmp_path, [reply, OK]) as own:
        result = own.run(workflow="")
        assert (result.state, result.steps) == ("Done", 0)
        assert ("known" in result.answer) == ("known" in str(reply))
        assert own.triggers == ["answer", "finish"]
        check_journal(own)


def test_A135_A151_results_grow_by_the_executed_steps(tmp_path: Path) -> None:
    """Earlier results stay first and as they were."""
    flow = """
exec:
  post:
    all[]: '${string(len(results)) + " " + results[0].result}'
after: {action: "my/tool:summarise", input: {data: "${all}"}}
"""
    calls = Calls()
    with world(tmp_path, [PLAN(1, 2), PLAN(3), EMPTY, OK], calls) as own:
        assert own.run(workflow=flow).state == "Done"
        check_journal(own)
    assert calls.summarised == [["2 page 1", "3 page 1"]]


def test_A137_a_question_waits_and_its_answer_goes_on_in_the_same_run(tmp_path: Path) -> None:
    """No planner is asked until somebody answers, in another process even; then the workflow goes on where it was."""
    ask = {"elicitation": {"message": "Which page?", "schema": {"type": "object"}}}
    script = [PLAN(1), ask, PLAN(2), EMPTY, OK]
    with world(tmp_path, script) as own:
        result = own.run(workflow=LIMIT)
        assert (result.status, result.state, own.model.kinds) == ("waiting", "Planning", ["plan", "plan"])
        assert result.waiting_for is not None and result.waiting_for.message == "Which page?"
        check_journal(own)
    with world(tmp_path, script) as other:
        ended = other.engine.resume(result.run_id, answer={"page": 2})
        assert (ended.run_id, ended.state, ended.steps) == (result.run_id, "Done", 2)
        assert '{"page":2}' in sections(other.model.of("plan")[0])["Conversation"]
        check_journal(other)


@pytest.mark.parametrize(("answer", "page"), [({"page": 2}, 2), ({"action": "decline"}, None)])
def test_a_task_asks_the_user_before_anything_is_planned(
    tmp_path: Path, answer: dict[str, Any], page: int | None
) -> None:
    """The question is the workflow's, its answer a variable; the planner is asked afterwards."""
    flow = """
stage:
  ask:
    elicitation: {message: "Which page of ${query}?", schema: {type: object}}
    post: {page: "${answer.page}"}
  plan: {action: "llm/core:plan", input: {context: "page ${page ?? 0}"}}
"""
    with world(tmp_path, [EMPTY, OK]) as own:
        result = own.run("the book", workflow=flow)
        assert result.waiting_for is not None and result.waiting_for.message == "Which page of the book?"
        assert own.model.kinds == []
        assert own.engine.resume(result.run_id, answer=answer).state == "Done"
        assert sections(own.model.of("plan")[0])["Context"] == f"page {page or 0}"
        check_journal(own)


@pytest.mark.parametrize("beside_steps", [False, True])
def test_A143_the_variable_elicitation_carries_the_plans_question(tmp_path: Path, beside_steps: bool) -> None:
    """While the planner's question is open and until it replies again; beside steps also in what `post` sets."""
    question = {"message": "Which page?", "requestedSchema": {"type": "object"}}
    asks = {"elicitation": question, "steps": PLAN(1)["steps"] if beside_steps else []}
    flow = json.dumps(
        {
            "plan": {
                "input": {
                    "context": "asked ${elicitation.message} and ${plan.elicitation.message}, set ${seen}"
                },
                "post": {"seen[]": "${plan.elicitation.message}"},
            }
        }
    )
    with world(tmp_path, [asks, EMPTY, OK]) as own:
        waiting = own.run(workflow=flow)
        assert waiting.waiting_for is not None and waiting.waiting_for.message == "Which page?"
        assert own.engine.resume(waiting.run_id, answer={"page": 2}).state == "Done"
        contexts = [sections(call)["Context"].strip() for call in own.model.of("plan")]
        check_journal(own)
    assert contexts[0] == "asked  and , set"
    told = '["Which page?"]' if beside_steps else ""
    assert contexts[1] == f"asked Which page? and Which page?, set {told}".strip()


# -- 5.1 and 5.2: prompt, tools, model ------------------------------------------------------------------------------

TEMPLATE = (
    "You plan for {{KEY:OBJECTIVE}}.\n\n=== user ===\n\nGo. ${this stays}\n\n## Results\n{{KEY:RESULTS}}\n"
)


def test_A158_A159_D19_every_route_gives_the_same_prompt(tmp_path: Path) -> None:
    """
    A caller's variable, a caller's option, a text and a file in the workflow; empty falls back; the text wins.

    A planner without a workflow holds a conversation; what stands behind its first prompt are turns, not another report.
    """
    (tmp_path / "my.md").write_text(TEMPLATE, encoding="utf-8")
    (tmp_path / "file.yaml").write_text("plan: {input: {promptTemplateFile: my.md}}")
    literal = json.dumps({"plan": {"input": {"promptTemplate": TEMPLATE.replace("${", "$${")}}})
    both = json.dumps({"plan": {"input": {"promptTemplate": "${own}", "promptTemplateFile": "my.md"}}})
    (tmp_path / "both.yaml").write_text(both)
    document, blank = fixture("prompt_template.yaml"), "plan: {input: {promptTemplate: '  '}}"
    routes: list[tuple[dict[str, Any], str]] = [
        ({"workflow": document, "variables": {"myPrompt": TEMPLATE}}, "own"),
        ({"workflow": "", "prompt_template": TEMPLATE}, "own"),
        ({"mode": "planner", "prompt_template": TEMPLATE}, "own"),
        ({"workflow": literal}, "own"),
        ({"workflow": tmp_path / "file.yaml"}, "own"),
        ({"workflow": tmp_path / "both.yaml"}, "own"),
        ({"workflow": tmp_path / "both.yaml", "variables": {"own": "Only {{KEY:OBJECTIVE}}."}}, "text"),
        ({"workflow": document}, "shipped"),
        ({"workflow": blank}, "shipped"),
        ({"mode": "planner"}, "shipped"),
    ]
    first: dict[str, set[tuple[str, ...]]] = {}
    reports: dict[str, set[str]] = {}
    for number, (options, name) in enumerate(routes):
        with world(tmp_path / str(number), [PLAN(1), EMPTY, OK]) as own:
            assert own.run("the book", **options).state == "Done"
            opening, report = own.model.of("plan")
            first.setdefault(name, set()).add(tuple(message.text for message in opening.messages))
            if "workflow" in options:
                reports.setdefault(name, set()).add(text_of(report))
            else:
                assert report.messages[: len(opening.messages)] == opening.messages
            check_journal(own)
    for found in (first, reports):
        assert {name: len(prompts) for name, prompts in found.items()} == {"own": 1, "text": 1, "shipped": 1}
    (own_prompt,) = first["own"]
    assert own_prompt[0] == "You plan for the book." and "Go. ${this stays}" in own_prompt[1]


VELOCITY = "You plan. Query: ${query}\n#foreach($tool in $tools)\n- $tool.name\n#end\nResults: $results"


@pytest.mark.parametrize(
    ("template", "told"),
    [
        (VELOCITY, r"{{KEY:CATALOG_FULL}} for \$tools"),
        ("Answer $query.", "KEY:OBJECTIVE"),
        ("Be brief.", "KEY:OBJECTIVE"),
    ],
    ids=["velocity", "a dollar", "neither"],
)
def test_A158_a_template_that_is_not_rendered_is_refused_with_what_to_write_instead(
    tmp_path: Path, template: str, told: str
) -> None:
    """Before anything is asked, by every route: never is it sent as it is."""
    (tmp_path / "my.md").write_text(template, encoding="utf-8")
    (tmp_path / "file.yaml").write_text("plan: {input: {promptTemplateFile: my.md}}")
    with world(tmp_path / "world", []) as own:
        for options in (
            {"workflow": fixture("prompt_template.yaml"), "variables": {"myPrompt": template}},
            {"workflow": tmp_path / "file.yaml"},
            {"mode": "planner", "prompt_template": template},
        ):
            with pytest.raises(UsageError, match=told):
                own.run("the book", **options)
        assert own.model.calls == [] and own.journal.runs() == []


def test_A160_only_listed_tools_are_offered_and_planned(tmp_path: Path) -> None:
    """By the file's variable and by the caller's list, which wins; another tool makes the plan invalid."""
    for number, (flow, names) in enumerate([("init: {tools: [notes_read]}", None), ("", ["notes.read"])]):
        with world(tmp_path / str(number), [PLAN(1, name="notes.data"), PLAN(1), EMPTY, OK]) as own:
            assert own.run(workflow=flow + "\n", tools=names).state == "Done"
            assert own.triggers[0] == "reselect" and "notes.data" not in text_of(own.model.of("plan")[0])
            assert "not offered" in text_of(own.model.of("plan")[1]) or names
            check_journal(own)
    with world(tmp_path / "own", [EMPTY, OK]) as own:
        own.run(workflow="init: {tools: [notes.read]}\n", tools=["notes.data"])
        offered = text_of(own.model.of("plan")[0])
        assert "notes.data" in offered and "notes.read" not in offered


# -- 5.3 to 5.5: a task after execution, the loop's end, errors ------------------------------------------------------


@pytest.mark.parametrize("size", [1, 50_000])
def test_A161_recipe_5_3_runs_once_with_the_last_result(tmp_path: Path, size: int) -> None:
    """The whole of it, however long; its output is a variable, not a result."""

    @tool("notes.long", effect="read")
    def long(page: int) -> str:
        """Return a long page."""
        return f"page {page} " + "x" * size

    calls = Calls()
    calls.tools += (long,)
    flow = POST + "    answer: 'In short: ${summary}'\n"
    with world(tmp_path, [PLAN(1, 2, name="notes.long"), EMPTY, OK], calls) as own:
        result = own.run(workflow=flow)
        assert (result.state, result.steps) == ("Done", 3)
        assert calls.summarised == ["page 2 " + "x" * size]
        assert result.answer == "In short: about page 2"
        assert result.variables["summary"] == result.wire()["variables"]["summary"] == "about page 2"
        assert own.engine.result(result.run_id).variables == result.variables
        check_journal(own)


def test_A161_the_task_is_skipped_without_results(tmp_path: Path) -> None:
    """Its condition does not hold."""
    calls = Calls()
    with world(tmp_path, [EMPTY, OK], calls) as own:
        assert own.run(workflow=POST).state == "Done"
        check_journal(own)
    assert calls.summarised == []


def test_a_task_is_given_data_as_data_and_as_text_where_its_tool_wants_text(tmp_path: Path) -> None:
    """What a tool returned as data has its type; a path leads into it."""
    got: list[Any] = []

    @tool("my.count", effect="read")
    def count(lines: list[str], text: str) -> str:
        """Count."""
        got.append((lines, json.loads(text)))
        return str(len(lines))

    flow = """
after:
  action: my:count
  input: {lines: "${results[-1].result.lines}", text: "${results[-1].result}", missing: "${nothing}"}
  post: {answer: "${result} lines"}
"""
    calls = Calls()
    calls.tools += (count,)
    with world(tmp_path, [PLAN(400, name="notes.data"), EMPTY, OK], calls) as own:
        assert own.run(workflow=flow).answer == "400 lines"
        check_journal(own)
    assert got == [([f"line {n}" for n in range(400)], {"page": 400, "lines": got[0][0]})]


def test_A162_C20_C3_21_C22_recipe_5_4_executes_exactly_three_times(tmp_path: Path) -> None:
    """`post` comes before `goto`; then the run is concluded and reviewed, with plans left to make."""
    with world(tmp_path, [PLAN(1), PLAN(2, 3), PLAN(4), OK]) as own:
        result = own.run(workflow=LIMIT)
        assert (result.state, result.reason, result.steps) == ("Done", "model_stop", 4)
        assert own.model.kinds == ["plan"] * 3 + ["review"] and result.answer
        assert own.triggers[-2:] == ["conclude", "finish"]
        check_journal(own)


def test_C22_at_the_step_limit_the_rest_is_skipped_and_the_run_reviewed(tmp_path: Path) -> None:
    """Not one step more, and nothing of the workflow's own; what was done is judged."""
    calls = Calls()
    with world(tmp_path, [PLAN(1, 2, 3), OK], calls, limits=Limits(max_steps=2)) as own:
        result = own.run(workflow=POST)
        assert (result.state, result.reason, result.steps) == ("Done", "max_steps", 2)
        conclude = next(row for row in own.rows if row.trigger == "conclude")
        assert conclude.outcome["skipped"] == 1
        check_journal(own)
    assert calls.summarised == []


def test_A163_D20_an_error_is_a_result_and_the_loop_goes_on(tmp_path: Path) -> None:
    """Without a hook the planner is told, and nobody else."""
    calls = Calls()
    with world(tmp_path, [PLAN(1, TORN, 3), EMPTY, OK], calls) as own:
        assert own.run(workflow=POST).state == "Done"
        told = sections(own.model.of("plan")[1])["Results so far, oldest first"]
        assert "page 13 is torn out" in told and "page 3" in told
        check_journal(own)
    assert calls.summarised == ["page 3"] and calls.sent == []


def test_A164_D20_recipe_5_5_calls_its_hook_once_and_aborts(tmp_path: Path) -> None:
    """With the step's name and its error; the results so far are kept, and nothing after it is done."""
    calls = Calls()
    with world(tmp_path, [PLAN(1, TORN, 3)], calls) as own:
        result = own.run(workflow=HOOK)
        assert (result.state, result.reason, result.steps) == ("Failed", "aborted", 2)
        assert [document.read() for document in result.documents][:1] == ["page 1"]
        check_journal(own)
    assert calls.sent == [
        {"channel": "#runtime-alerts", "text": "tool notes.read failed: page 13 is torn out"}
    ]


def test_A164_the_hook_is_not_called_on_success(tmp_path: Path) -> None:
    """And without a failure there is nothing to abort."""
    calls = Calls()
    with world(tmp_path, [PLAN(1, 2), EMPTY, OK], calls) as own:
        assert own.run(workflow=HOOK).state == "Done"
    assert calls.sent == []


def test_D18_vars_is_init_and_names_have_dots_or_underscores(tmp_path: Path) -> None:
    """The same file with either word, the same tool under either name."""
    for number, word in enumerate(("vars", "init")):
        with world(tmp_path / word, [PLAN(1, name="notes_read"), EMPTY, OK]) as own:
            assert own.run(workflow=f"{word}: {{query: 'page {number}'}}\n").steps == 1
    with pytest.raises(UsageError, match=r"init\.results"):
        own.engine.run("Read", workflow="init: {results: [1]}\n")
