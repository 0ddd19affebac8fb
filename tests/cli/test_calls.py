"""`paor show` tells every call with who decided about it, what a run may do, and with --row what was said in one row."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from paor import ApprovalRule, Limits, Policy, tool
from paor.audit import RunCall
from paor.errors import EffectUnknown, ToolError

from ..support.cli_support import Shell
from ..support.planning import World
from ..support.worlds import CONTINUE, PARAMETERS, SELECT, STOP, SUCCESS

APP = """
import os
from paor import ApprovalRule, Engine, Limits, Policy, ScriptedModel, tool
from paor.errors import EffectUnknown, ToolError

@tool("bank.pay", effect="once")
def pay(to: str, amount: int) -> str:
    "Pay."
    return "paid \\x1b[2J"

@tool("bank.look", effect="read")
def look(to: str) -> str:
    "Look."
    raise ToolError("the line broke")

def call(name, **values):
    return [{"action": name, "actionObjective": "go"}, {"parameters": values}]

def engine(journal):
    go, key = {"decision": "continue", "reason": "go on"}, os.environ["OPENAI_API_KEY"]
    end = [{"decision": "stop", "reason": "enough"}, {"status": "success", "improvements": [], "answer": "Done."}]
    script = [*call("bank.look", to=key), go, *call("bank.pay", to="ann", amount=500), *end]
    rule = ApprovalRule(tool="bank.pay", arguments={"amount": {"gt": 100}})
    policy = Policy(deny=("web.*", "document.*"), approvals=(rule, "mail.*"), missing_ok=True)
    limits = Limits(max_steps=3, token_budget=90_000)
    return Engine(ScriptedModel(script), [pay, look], journal, limits, policy, builtins=True)
"""
KEY = "sk-test-0123456789abcdef"


@pytest.fixture(name="bank")
def make_bank(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """Return a shell with a finished run: a call that failed, and one that was approved."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    shell.write("bank.py", APP)
    assert shell("run", "Pay ann", "--app", "bank:engine").code == 5
    flags = ("--answer", '{"approve": true}', "--actor", "bob", "--reason", "is owed", "--app", "bank:engine")
    assert shell("resume", "last", *flags).code == 0
    return shell


def test_show_tells_every_call_and_what_a_run_may_do(bank: Shell) -> None:
    said = bank("show")
    text = " ".join(said.out.split())
    for words in (
        "offered bank.pay, bank.look, ai.process",
        "denied document.extract, document.generateReport, web.*",
        'approvals bank.pay where {"amount": {"gt": 100}}; mail.*',
        "limits max_steps 3, token_budget 90000",
        "1 bank.look (read) failed",
        "to: [secret redacted] result: tool_error: the line broke",
        "2 bank.pay (once) ok",
        "to: ann amount: 500 approved by bob, ",
        ": is owed result: 1 document: paid ␛[2J",
    ):
        assert words in text, (words, said.out)
    assert re.search(r"ok  \d\d:\d\d:\d\d to \d\d:\d\d:\d\d", said.out) and KEY not in said.out


def test_the_json_of_a_run_has_its_calls_whole(bank: Shell) -> None:
    calls = bank("show", "--json").json["calls"]
    assert [(call["tool"], call["effect"], call["outcome"]) for call in calls] == [
        ("bank.look", "read", "failed"),
        ("bank.pay", "once", "ok"),
    ]
    assert calls[1]["arguments"] == {"to": "ann", "amount": 500}
    (decided,) = calls[1]["decided"]
    assert (decided["decision"], decided["actor"], decided["reason"]) == ("approved", "bob", "is owed")
    assert calls[1]["asked_at"] <= decided["at"] <= calls[1]["started_at"] <= calls[1]["ended_at"]


def test_a_row_shows_prompt_reply_and_guards(bank: Shell) -> None:
    """What the last prompt of its kind did not have is marked; of the first one nothing is."""
    first, second = bank("show", "--row", "0").out, bank("show", "--row", "5").out
    assert first.startswith("run ") and ", row 0: select" in first.splitlines()[0]
    assert "\n+ " not in first and "  Pay ann" in first
    assert "  ok  selection_valid  " in first.replace("True", "  ") or "selection_valid" in first
    assert '\n  {"action": "bank.look", "actionObjective": "go"}' in first
    assert '+ {"action":"bank.look"' in second and "+ Error of bank.look:" in second and "  Pay ann" in second
    assert "+ Pay ann" not in second and re.search(r"at +\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", second)
    assert KEY not in first + second
    data = bank("show", "--row", "5", "--json").json
    assert data["row"]["seq"] == 5 and data["why"]["trigger"] == "select"
    assert data["prompt"][3].startswith("Error of bank.look:") and '"bank.pay"' in data["reply"]
    assert data["roles"] == ["system", "user", "assistant", "user", "user"]


def test_rows_without_a_prompt_and_rows_that_are_none(bank: Shell) -> None:
    assert "prompt" not in bank("show", "--row", "2").out
    bank("show", "--row", "99").refused("there is no row 99")
    bank("show", "--row", "-1").refused("there is no row -1")
    bank("show", "--row", "1", "--steps").refused("exclude each other", lines=2)


def test_what_was_erased_is_said(bank: Shell) -> None:
    assert bank("erase", "last", "--all").code == 0
    assert "(erased)" in bank("show", "--row", "0").out
    assert bank("show").code == 0 and bank("show", "--json").json["calls"][1]["arguments"] is None


# -- in the library ------------------------------------------------------------------------------------------------


def test_calls_that_wait_are_in_doubt_or_were_refused(tmp_path: Path) -> None:
    @tool("bank.pay", effect="once")
    def pay(amount: int) -> str:
        """Pay."""
        raise EffectUnknown("who knows")

    @tool("bank.look", effect="read")
    def look(page: int) -> str:
        """Look."""
        raise ToolError("gone")

    def ask(name: str, **values: Any) -> list[Any]:
        return [SELECT(name, dict.fromkeys(values, "number")), PARAMETERS(**values)]

    script = [*ask("bank.pay", amount=1), CONTINUE, *ask("bank.pay", amount=200), STOP, SUCCESS]
    rule = ApprovalRule(tool="bank.pay", arguments={"amount": {"gt": 100}})
    policy, limits = Policy(approvals=(rule,)), Limits(max_steps=3)
    with World(tmp_path, script, [pay, look], policy=policy, limits=limits) as world:
        result = world.run()

        def calls() -> list[RunCall]:
            return world.journal.calls(result.run_id)

        assert [(call.outcome, call.arguments) for call in calls()] == [("in doubt", {"amount": 1})]
        world.engine.resume(result.run_id, outcome="fail", result="it was not", actor="ann")
        (first, second) = calls()
        assert (first.outcome, first.decided[0].actor, first.decided[0].decision) == ("failed", "ann", "fail")
        assert "it was not" in first.result
        assert (second.outcome, second.started_at, second.arguments) == ("waits", None, {"amount": 200})
        question = world.engine.resume(result.run_id).waiting_for
        assert question is not None and question.asked_at == second.asked_at
        world.engine.resume(result.run_id, answer={"approve": False}, question=question.id)
        second = calls()[1]
        assert (second.outcome, second.decided[0].decision) == ("refused", "not approved")
        assert (second.started_at, second.ended_at is None) == (None, False)


def test_the_view_of_calls_says_what_the_commands_say(bank: Shell) -> None:
    rows = bank("query", "SELECT * FROM v_calls ORDER BY seq", "--json").json
    told = [(row["action"], row["tool"], row["effect"], row["ok"], row["approved_by"]) for row in rows]
    assert told == [(1, "bank.look", "read", 0, None), (2, "bank.pay", "once", 1, "bob")]
    assert json.loads(rows[1]["arguments"]) == {"to": "ann", "amount": 500}
    assert rows[0]["error"] == "tool_error" and rows[1]["started"] <= rows[1]["ended"]
    calls = bank("show", "--json").json["calls"]
    assert [row["seq"] for row in rows] == [1, calls[1]["seq"] + 2]


def test_a_call_that_has_not_ended_or_was_erased_is_in_the_view(tmp_path: Path) -> None:
    @tool("bank.pay", effect="once")
    def pay(amount: int) -> str:
        """Pay."""
        raise EffectUnknown("who knows")

    script = [SELECT("bank.pay", {"amount": "number"}), PARAMETERS(amount=1), STOP, SUCCESS]
    with World(tmp_path, script, [pay], policy=Policy(approvals=("bank.*",))) as world:
        result = world.run()
        assert list(world.journal.db["v_calls"].rows) == []
        world.engine.resume(result.run_id, answer={"approve": True})
        (row,) = world.journal.db["v_calls"].rows
        assert (row["approved_by"], row["ended"], row["ok"]) == ("somebody", None, None)
        world.journal.erase(result.run_id, force=True)
        (row,) = world.journal.db["v_calls"].rows
        assert (row["tool"], row["arguments"], row["approved_by"]) == (None, None, None)
