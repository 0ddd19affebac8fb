"""Whoever decides sees what is to be decided: the call, its arguments and its effect, in the library and on the command line."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from paor import Engine, Policy, Question, Result, Task, Tool, ToolContext, replay, tool
from paor.errors import AnswerNeeded, EffectUnknown
from paor.events import RunWaiting

from ..support.cli_support import Shell
from ..support.inside import ParameterSchema
from ..support.planning import NOTHING, PLAN, STEP, World
from ..support.worlds import PARAMETERS, SELECT, STOP, SUCCESS

NAMES = [
    "run_id",
    "id",
    "kind",
    "message",
    "tool",
    "arguments",
    "effect",
    "asked_at",
    "approval",
    "schema",
    "key",
]
CALL = [SELECT("bank.pay", {"to": "string", "amount": "number"}), PARAMETERS(to="ann", amount=5)]


@tool("bank.pay", effect="once")
def pay(to: str, amount: int, note: str = "thanks") -> str:
    """Pay."""
    return "paid"


@tool("bank.pay", effect="once")
def unsure(to: str, amount: int, note: str = "thanks") -> str:
    """Pay."""
    raise EffectUnknown("the line broke")


@tool("bank.pay", effect="idempotent")
def asking(to: str, amount: int, context: ToolContext, note: str = "thanks") -> str:
    """Pay."""
    if context.resumption is None:
        raise AnswerNeeded("Really?", {"type": "object", "properties": {"ok": {"type": "boolean"}}})
    return "paid"


ARGUMENTS = {"to": "ann", "amount": 5, "note": "thanks"}


def asked(result: Result) -> Question:
    assert result.status == "waiting" and result.waiting_for is not None
    return result.waiting_for


def wait_row(world: World) -> Any:
    return next(row for row in reversed(world.journal.transitions(world.run_id)) if row.trigger == "wait")


@pytest.mark.parametrize(
    ("made", "policy", "kind", "effect"),
    [
        (pay, Policy(approvals=("bank.*",)), "approval", "once"),
        (unsure, Policy(), "in_doubt", "once"),
        (asking, Policy(), "elicitation", "idempotent"),
    ],
    ids=["approval", "doubt", "tool asks"],
)
def test_a_call_that_waits_shows_all_of_itself(
    made: Tool, policy: Policy, kind: str, effect: str, tmp_path: Path
) -> None:
    """With defaults filled in; the same live, in the event, read again, and after the question was asked by another process."""
    with World(tmp_path, [*CALL, STOP, SUCCESS], [made], policy=policy) as world:
        result = world.run()
        question = asked(result)
        assert [field.name for field in fields(Question)] == NAMES == list(question.wire())
        assert (question.kind, question.tool, question.effect) == (kind, "bank.pay", effect)
        assert question.arguments == ARGUMENTS and question.run_id == result.run_id
        assert question.key == f"{result.run_id}-1"
        assert question.approval == (question.id if kind == "approval" else None)
        row = wait_row(world)
        assert question.asked_at == row.at and question.id.startswith(f"{row.seq}-")
        assert world.engine.resume(result.run_id).waiting_for == question
        assert json.loads(json.dumps(result.wire()))["waiting_for"] == question.wire()
        assert replay(world.journal, result.run_id).identical


def test_the_event_has_the_question_of_the_result(tmp_path: Path) -> None:
    with World(tmp_path, [*CALL, STOP, SUCCESS], [pay], policy=Policy(approvals=("bank.*",))) as world:
        events = list(world.engine.stream("Pay ann", on_close="stop"))
        waiting = next(event for event in events if isinstance(event, RunWaiting))
        assert waiting.question == world.engine.resume(waiting.run_id).waiting_for
        assert waiting.question.arguments == ARGUMENTS


FORMS: dict[str, dict[str, Any]] = {
    "approval": {"approve": True},
    "in_doubt": {"outcome": "done", "result": 1},
}


@pytest.mark.parametrize(("made", "kind"), [(pay, "approval"), (unsure, "in_doubt")])
def test_a_form_made_of_the_schema_is_the_answer(made: Tool, kind: str, tmp_path: Path) -> None:
    """What fits the schema is taken as it is: as the answer, of a doubt as the arguments of `resume`."""
    with World(tmp_path, [*CALL, STOP, SUCCESS], [made], policy=Policy(approvals=("bank.*",))) as world:
        question, form = asked(world.run()), FORMS[kind]
        if kind == "in_doubt":  # it was approved first
            question = asked(
                world.engine.resume(world.run_id, answer={"approve": True}, question=question.id)
            )
        assert question.kind == kind
        assert ParameterSchema(question.schema).check(form) == ()
        given = form if kind == "in_doubt" else {"answer": form}
        assert world.engine.resume(world.run_id, question=question.id, **given).state == "Done"


def test_a_step_that_lacks_an_argument_shows_those_that_it_has(tmp_path: Path) -> None:
    script = [*[PLAN(STEP("bank.pay", to="ann", reason="pay her"))] * 2, NOTHING, SUCCESS]
    with World(tmp_path, script, [pay]) as world:
        question = asked(world.run(mode="planner"))
        assert (question.kind, question.tool, question.effect) == ("argument", "bank.pay", "once")
        assert question.arguments == {"to": "ann"} and question.schema["required"] == ["amount"]


def test_a_question_of_the_planner_is_about_no_call(tmp_path: Path) -> None:
    script = [PLAN(STEP("bank.pay", to="ann", amount=1)), {"elicitation": {"message": "Which?"}}]
    with World(tmp_path, script, [pay]) as world:
        question = asked(world.run(mode="planner"))
        assert (question.kind, question.message) == ("elicitation", "Which?")
        assert (question.tool, question.arguments, question.effect, question.key) == (None, None, None, None)


def test_the_question_of_a_workflow_names_the_task_that_asks(tmp_path: Path) -> None:
    with World(
        tmp_path, [*CALL, STOP, SUCCESS, SUCCESS], [pay], policy=Policy(approvals=("bank.*",))
    ) as world:
        result = world.engine.run_workflow("Pay ann", tasks=[Task("Pay her")])
        question = asked(result)
        assert question.run_id != result.run_id
        assert world.journal.run(question.run_id).task == 1 and question.arguments == ARGUMENTS


# -- the command line ----------------------------------------------------------------------------------------------

LONG = """
import os
from paor import Engine, Policy, ScriptedModel, tool

@tool("mail.send", effect="once")
def send(to: str, body: str, key: str, more: dict[str, int] = {}) -> str:
    "Send."
    return "sent"

def engine(journal):
    body = "\\n".join(f"line {number}" for number in range(40))
    values = {"to": "ann@example.org", "body": body, "key": os.environ["OPENAI_API_KEY"]}
    script = [{"action": "mail.send", "actionObjective": "send"}, {"parameters": values}]
    return Engine(ScriptedModel(script), [send], journal, policy=Policy(approvals=("mail.*",)))
"""


def test_every_command_that_shows_a_question_shows_its_call(shell: Shell, shop: str) -> None:
    for command in (
        ["run", "Buy tea", "--app", f"{shop}:engine"],
        ["resume", "last"],
        ["show"],
        ["why"],
    ):
        said = shell(*command)
        assert "shop.buy (once)" in said.out, (command, said)
        assert "item: tea␛[2J" in said.out and "count: 1" in said.out, (command, said)
    listed = shell("runs").out
    assert 'approval: shop.buy(item="tea\\u001b[2J", count=1)' in listed and "Buy tea" in listed
    followed = shell("show", "--follow").out
    assert "shop.buy (once)" in followed and "count: 1" in followed


def test_every_json_has_the_whole_question(shell: Shell, shop: str) -> None:
    first = shell("run", "Buy tea", "--app", f"{shop}:engine", "--json").json["waiting_for"]
    assert list(first) == NAMES and first["arguments"] == {"item": "tea\x1b[2J", "count": 1}
    assert shell("resume", "last", "--json").json["waiting_for"] == first
    assert shell("show", "--json").json["waiting_for"] == first
    assert shell("runs", "--json").json[0]["waiting_for"] == first
    asks = int(first["id"].partition("-")[0])
    for row, expected in ((asks - 1, None), (asks, first), (asks + 1, first)):
        assert shell("why", "last", str(row), "--json").json["question"] == expected


def test_a_long_call_is_bounded_and_says_so_and_a_key_is_taken_out(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody approves what is not shown without being told that there is more."""
    key = "sk-test-0123456789abcdef"
    monkeypatch.setenv("OPENAI_API_KEY", key)
    shell.write("post.py", LONG)
    for command in (["run", "Write", "--app", "post:engine"], ["show"], ["runs"], ["why", "last"]):
        said = shell(*command)
        assert key not in said.out + said.err, command
        if command != ["runs"]:
            assert (
                "key: [secret redacted]" in said.out and "line 10" in said.out and "line 39" not in said.out
            )
            assert "more characters of body; whole with --json)" in said.out, said.out
    assert "line 39" in shell("show", "--json").json["waiting_for"]["arguments"]["body"]


def test_a_public_question_is_exported_and_read_only() -> None:
    import paor

    assert paor.Question is Question and "Question" in paor.__all__
    question = Question("r", "1-0", "elicitation", "Who?", None, None, None, 0, None, {})
    with pytest.raises(AttributeError):
        question.kind = "approval"  # type: ignore[misc]


def test_an_engine_of_another_process_reads_the_same_question(tmp_path: Path) -> None:
    with World(tmp_path, [*CALL, STOP, SUCCESS], [pay], policy=Policy(approvals=("bank.*",))) as world:
        first = asked(world.run())
        path = world.journal.path
    with Engine("offline", journal=path) as other:
        assert other.resume(first.run_id).waiting_for == first
