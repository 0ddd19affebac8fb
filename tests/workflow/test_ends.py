"""Workflows that go wrong, stop, wait or lose their driver: every end is an end of the table, and replays identical."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from paor import Limits, Policy
from paor.errors import UsageError
from paor.events import TransitionTaken

from ..support.flows import EMPTY, OK, PLAN, TORN, Calls, check_journal, fixture
from ..support.journey import answered
from ..support.journeys import Lost
from ..support.recording import World, sections
from ..support.stored import query
from ..support.worlds import fail

POST = fixture("post_processing.yaml")
LIMIT = fixture("loop_limit.yaml")
HOOK = fixture("on_error.yaml")
CALM = HOOK.replace("  abort: true\n", "")
"""The document's hook without its abort."""

ASKING = """
vars: {seen: []}
ask:
  when: len(results) > 1 && len(answer) == 0
  elicitation: {message: "Is ${results[-1].result} enough?"}
  post: {enough: "${answer.enough}", "seen[]": "${action}"}
  goto: {task: loop, when: "len(seen) < 2"}
postproc:
  action: my/tool:summarise
  input: {data: "${results[-1].result}"}
  post: {answer: "${summary}"}
"""
"""After the loop a question, which may lead back to it, and a task."""

RETRY = {"status": "retry", "improvements": ["read more"]}

FLOWS: dict[str, tuple[str, list[Any], str]] = {
    "hook": (CALM, [PLAN(TORN, 2, TORN), PLAN(4), EMPTY, OK], "model_stop"),
    "ask": (ASKING, [PLAN(1, 2), EMPTY, PLAN(3), EMPTY, OK], "model_stop"),
    "retry": (POST, [PLAN(1), EMPTY, RETRY, PLAN(2), EMPTY, OK], "model_stop"),
    "references": (
        CALM,
        [
            {
                "steps": [
                    {"type": "tool", "name": "notes.data", "args": {"page": 2}},
                    {"type": "tool", "name": "notes.read", "args": {"page": TORN}},
                    {"type": "tool", "name": "notes.read", "args": {"page": "$step[0].output.page"}},
                ]
            },
            EMPTY,
            OK,
        ],
        "model_stop",
    ),
}


def walk(folder: Path, name: str, lost_at: int | None = None) -> tuple[list[Any], Any, Calls]:
    """Return rows, result and calls of a flow; its driver is lost after row *lost_at*, and another one takes over."""
    flow, script, _ = FLOWS[name]
    calls = Calls()

    def lose(event: Any) -> None:
        if isinstance(event, TransitionTaken) and event.seq == lost_at:
            raise Lost

    with World(folder, script, calls.tools, limits=Limits(max_steps=9), hooks=[lose]) as own:
        try:
            result = own.run(workflow=flow)
        except Lost:
            own.journal.store.leases.release(1, 1)
        run_id = own.run_id
    with World(folder, script, calls.tools) as own:
        result = own.engine.resume(run_id)
        while result.status == "waiting":
            result = answered(own.engine, run_id, answer={"enough": True})
        check_journal(own)
        return own.rows, result, calls


@pytest.mark.whole
@pytest.mark.parametrize("name", FLOWS)
def test_A148_D20_a_lost_driver_changes_nothing_whatever_row_it_was_lost_after(
    tmp_path: Path, name: str
) -> None:
    """The same rows, the same variables, the same end, and no tool called once more."""
    rows, whole, calls = walk(tmp_path / "whole", name)
    assert whole.reason == FLOWS[name][2]
    for lost_at in range(len(rows) - 1):
        again, result, others = walk(tmp_path / str(lost_at), name, lost_at)
        assert [(row.trigger, row.guards, row.counters) for row in again] == [
            (row.trigger, row.guards, row.counters) for row in rows
        ]
        assert (result.state, result.reason, result.answer) == (whole.state, whole.reason, whole.answer)
        assert (others.summarised, others.sent) == (calls.summarised, calls.sent)


def test_the_flows_above_do_what_they_are_for(tmp_path: Path) -> None:
    """Hooks, questions, retries and references: what their tools were called with."""
    _, asked, calls = walk(tmp_path / "ask", "ask")
    assert calls.summarised == ["page 3"] and asked.answer == "about page 3"
    _, _, calls = walk(tmp_path / "retry", "retry")
    assert calls.summarised == ["page 1", "page 2"]
    _, _, calls = walk(tmp_path / "hook", "hook")
    assert [call["text"] for call in calls.sent] == ["tool notes.read failed: page 13 is torn out"] * 2
    _, ended, calls = walk(tmp_path / "references", "references")
    assert query(tmp_path / "references" / "runs.db", "SELECT count(*) FROM payloads WHERE body = 'page 2'")[
        0
    ][0]
    assert len(calls.sent) == 1
    assert ended.steps == 3


# -- hooks -----------------------------------------------------------------------------------------------------


def test_A164_a_hook_that_fails_calls_no_hook_and_counts_as_no_error(tmp_path: Path) -> None:
    """The plan goes on; only the plan's own errors count, and they end the run where they should."""
    calls = Calls(broken=True)
    script = [PLAN(TORN, 2), EMPTY, OK]
    with World(tmp_path / "on", script, calls.tools) as own:
        assert own.run(workflow=CALM).steps == 2
        check_journal(own)
    assert len(calls.sent) == 1
    pages = {"steps": [{"type": "tool", "name": "notes.fail", "args": {"page": n}} for n in range(4)]}
    limits = Limits(max_consecutive_errors=2, max_steps=9)
    with World(tmp_path / "off", [pages], (*Calls().tools, fail), limits=limits) as own:
        assert own.run(workflow=CALM).reason == "consecutive_errors"
        check_journal(own)


def test_A164_the_same_hook_again_and_again_is_blocked_and_ends_nothing(tmp_path: Path) -> None:
    """It is guarded like any call, but a run is not stuck because of it."""
    calls = Calls()
    flow = CALM.replace('"tool ${step.name} failed: ${error}"', "failed")
    with World(tmp_path, [PLAN(*[TORN] * 2), PLAN(1, TORN), EMPTY, OK], calls.tools) as own:
        assert own.run(workflow=flow).state == "Done"
        assert own.last_counters().get("blocked", 0) == 0
        check_journal(own)
    assert len(calls.sent) == 3


@pytest.mark.parametrize("policy", [Policy(deny=("notify.*",)), Policy(approvals=("notify.*",))])
def test_A164_policy_holds_for_hooks_and_tasks(tmp_path: Path, policy: Policy) -> None:
    """A denied hook is not called, one that needs approval waits for it; then the run goes on to its abort."""
    calls = Calls()
    with World(tmp_path, [PLAN(TORN)], calls.tools, policy=policy) as own:
        result = own.run(workflow=HOOK)
        if policy.approvals:
            assert result.waiting_for is not None and result.waiting_for.kind == "approval"
            result = own.engine.resume(result.run_id, answer={"approve": True})
        assert result.reason == "aborted" and len(calls.sent) == len(policy.approvals)
        check_journal(own)


def test_a_task_of_its_own_has_a_hook_and_an_abort_too(tmp_path: Path) -> None:
    """The hook is told the task's tool; nothing that comes after the abort is done."""
    flow = """
postproc:
  action: notes:read
  input: {page: 13}
  onError: {action: "notify:send_slack", input: {text: "${step.name}(${step.args.page}): ${error}"}}
  abort: true
after: {action: "my/tool:summarise", input: {data: 1}}
"""
    calls = Calls()
    with World(tmp_path, [EMPTY], calls.tools) as own:
        result = own.run(workflow=flow)
        assert (result.state, result.reason) == ("Failed", "aborted")
        assert "postproc" in result.answer and calls.summarised == []
        check_journal(own)
    assert calls.sent == [{"text": "notes.read(13): page 13 is torn out"}]


# -- ends ------------------------------------------------------------------------------------------------------


def test_C22_a_review_that_asks_for_more_begins_again_with_a_plan(tmp_path: Path) -> None:
    """Variables are kept, so a counted loop has no round left but the one that the review asked for."""
    with World(tmp_path, [PLAN(1), PLAN(2), PLAN(3), RETRY, PLAN(4), OK], Calls().tools) as own:
        result = own.run(workflow=LIMIT)
        assert (result.state, result.steps, own.count("retry")) == ("Done", 4, 1)
        assert "- read more" in sections(own.model.of("plan")[3])["Improvements asked for"]
        check_journal(own)


@pytest.mark.parametrize(
    ("flow", "script", "told"),
    [
        ("vars: {n: 0}\nexec: {goto: {when: 'n < \"x\"', task: loop}}", [PLAN(1)], "compares"),
        ("after: {when: 'results', action: 'my/tool:summarise'}", [EMPTY], "condition"),
        ("after: {action: 'my/tool:summarise', input: {data: '${1 + plan}'}}", [EMPTY], "object"),
        ("exec: {post: {big: \"${join(['${results[0].result}'], 'x')}\", plain: '" + "x" * 33_000 + "'}}",
         [PLAN(1)], "bytes"),
        ("after: {goto: after}", [EMPTY], "jumped"),
        ("exec: {input: {tools: 5}}", [PLAN(1)], "tools"),
        ("exec: {post: {tools: [no.such]}}", [PLAN(1)], "no.such"),
        ("exec: {post: {promptTemplate: '{{KEY:NOTHING}}'}}\nplan: {input: {promptTemplate: '${promptTemplate}'}}",
         [PLAN(1)], "NOTHING"),
        ("ask: {elicitation: 'Go on?', post: {a: '${1 + answer}'}}", [EMPTY], "text"),
        ("exec: {onError: {action: 'notify:send_slack', input: {text: '${1 + step}'}}}", [PLAN(TORN)], "object"),
        ("plan: {when: 'len(results) < 1 || 1 + answer'}", [PLAN(1), OK], None),
    ],
)  # fmt: skip
def test_a_workflow_that_cannot_be_followed_ends_in_failed(
    tmp_path: Path, flow: str, script: list[Any], told: str | None
) -> None:
    """Never in an exception: with the reason, the text, and what was done so far."""
    with World(tmp_path, script, Calls().tools) as own:
        result = own.run(workflow=flow)
        if result.status == "waiting":
            result = own.engine.resume(result.run_id, answer="yes")
        assert (result.state, result.reason) == ("Failed", "workflow_error"), result
        assert "The workflow: " in result.answer and (told or "") in result.answer
        check_journal(own)


def test_C12_a_step_that_asks_keeps_its_place_and_is_one_result(tmp_path: Path) -> None:
    """The question is not lost to the next plan; its answer is once among the results, between the calls."""
    plan = PLAN(1, 2)
    plan["steps"].insert(1, {"type": "elicitation", "elicitation": {"message": "Go on?"}})
    flow = "after: {action: 'my/tool:summarise', input: {data: '${results}'}}"
    calls = Calls()
    with World(tmp_path, [plan, EMPTY, OK], calls.tools) as own:
        waiting = own.run(workflow=flow)
        assert (waiting.state, own.model.kinds) == ("Specifying", ["plan"])
        assert own.engine.resume(waiting.run_id, answer="yes").state == "Done"
        check_journal(own)
    assert [item["result"] for item in calls.summarised[0]] == ["page 1", "yes", "page 2"]


@pytest.mark.parametrize("text", ["", HOOK])
def test_C13_a_plan_that_aborts_keeps_its_results_and_calls_no_hook(tmp_path: Path, text: str) -> None:
    """Nothing is planned or called again; the step's reason is told."""
    plan = PLAN(1)
    plan["steps"].append({"type": "abort", "reason": "this makes no sense"})
    calls = Calls()
    with World(tmp_path, [plan], calls.tools) as own:
        result = own.run(workflow=text)
        assert (result.state, result.reason, len(result.documents)) == ("Failed", "aborted", 1)
        assert "this makes no sense" in result.answer
        check_journal(own)
    assert calls.sent == []


def test_a_task_that_aborts_ends_the_run(tmp_path: Path) -> None:
    """Reaching it does; results are kept, and the plan before it is not executed twice."""
    flow = "enough: {when: 'len(results) > 0', abort: true}"
    with World(tmp_path, [PLAN(1), EMPTY], Calls().tools) as own:
        result = own.run(workflow=flow)
        assert (result.state, result.reason, len(result.documents)) == ("Failed", "aborted", 1)
        assert "enough" in result.answer
        check_journal(own)


def test_a_round_that_follows_a_workflow_file_is_told_of_those_before(tmp_path: Path) -> None:
    """As its variable ``transcript``; a workflow of several tasks has no file."""
    flow = "after: {action: 'my/tool:summarise', input: {data: '${transcript[0].content} then ${query}'}}"
    calls = Calls()
    with World(tmp_path, [EMPTY, OK] * 2, calls.tools) as own:
        own.run(
            "one",
            workflow="after: {action: 'my/tool:summarise', input: {data: '${query}'}}",
            conversation="c",
        )
        second = own.run("two", workflow=flow, conversation="c")
        assert second.state == "Done" and own.journal.spec(second.run_id).round == 2
        assert calls.summarised == ["one", "one then two"]
        check_journal(own)
        with pytest.raises(UsageError, match="one run"):
            own.engine.run_workflow("four", workflow=flow)


# -- before anything is started ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"workflow": "exec: {wen: 1}\nname: 5"}, "wen|name"),
        ({"workflow": "no_such_file.yaml"}, "no_such_file"),
        ({"workflow": 5}, "expected a path"),
        ({"workflow": "after: {action: 'no:tool'}"}, "no tool 'no:tool'"),
        ({"workflow": "exec: {onError: {action: no.tool}}"}, "onError"),
        ({"workflow": "", "mode": "react"}, "mode planner, not react"),
        ({"workflow": "", "variables": {"results": []}}, "results"),
        ({"workflow": "", "variables": {"a b": 1}}, "names"),
        ({"workflow": "", "variables": {"a": object()}}, "JSON"),
        ({"variables": {"a": 1}}, "workflow"),
        ({"workflow": "exec: {post: {plan: 5}}"}, "'plan' is what the run makes it"),
        ({"workflow": "exec: {post: {'results[]': 5}}"}, "'results' is what the run makes it"),
        ({"workflow": "init: {tools: [no.such]}\nname: x"}, "no.such"),
        ({"workflow": "init: {model: 5}\nname: x"}, "model"),
        ({"workflow": "plan: {input: {promptTemplateFile: no.md}}"}, "no.md"),
        ({"workflow": "loop: {when: 'false'}"}, "before anything"),
        ({"workflow": "", "tools": ["no.such"]}, "no.such"),
    ],
)
def test_C20_what_is_wrong_before_the_first_row_starts_nothing(
    tmp_path: Path, options: dict[str, Any], told: str
) -> None:
    """One line, and no run in the journal."""
    with World(tmp_path, [EMPTY, OK], Calls().tools) as own:
        with pytest.raises(UsageError, match=told) as caught:
            own.run(**options)
        assert "\n" not in str(caught.value) and own.journal.runs() == []


LOST = {
    "an initial value": ("init: {x: '${1 + query}'}\nname: x", "text"),
    "a circle": ("stage: {a: {goto: {task: b, when: true}}, b: {goto: {task: a, when: true}}}", "1000 times"),
    "a text that grows": (
        "stage: {a: {post: {x: '${x+x}'}, goto: {task: a, when: true}}}\nvars: {x: 'aaaa'}",
        "1000000 characters",
    ),
    "a condition": ("stage: {a: {when: '${query > 1}', abort: true}}", "> compares"),
    "the planner's input": ("stage: {a: {action: 'llm/core:plan', input: {query: '${query + 1}'}}}", "text"),
}


@pytest.mark.parametrize("name", LOST)
def test_a_workflow_that_fails_before_its_first_action_ends_failed_with_the_reason(
    tmp_path: Path, name: str
) -> None:
    """As one that fails later does: nothing is raised out of the run, and the journal says why."""
    flow, told = LOST[name]
    with World(tmp_path, [EMPTY, OK], Calls().tools) as own:
        result = own.run(workflow=flow)
        assert (result.state, result.reason) == ("Failed", "workflow_error") and told in result.answer
        assert own.model.calls == [] and own.triggers == ["fail"]
        assert own.engine.resume(result.run_id) == result
        check_journal(own)
