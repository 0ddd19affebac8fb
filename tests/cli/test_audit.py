"""`paor fork`, `paor why` and `paor diff`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ..support.cli_support import (
    CONTINUE,
    DONE,
    PARAMETERS,
    RETRY,
    SELECT,
    STOP,
    SUCCESS,
    TEXT,
    Shell,
    on_terminal,
)

TWO = [
    SELECT,
    PARAMETERS,
    TEXT,
    CONTINUE,
    SELECT,
    {"parameters": {"aiPrompt": "go on"}},
    "More.",
    STOP,
    SUCCESS,
]


@pytest.fixture(name="run")
def make_run(shell: Shell) -> str:
    """Return the id of a run of two actions; row 4 is the refinement that goes on."""
    assert shell.run(replies=TWO).code == 0
    run_id: str = shell("runs", "--json").json[0]["run_id"]
    return run_id


# -- fork ------------------------------------------------------------------------------------------------------------


def test_fork_creates_and_drives_and_prints_the_result(shell: Shell, run: str) -> None:
    """The answer on standard output, the line of facts with the new id on standard error."""
    said = shell("fork", "last", "--at", "4", "--model", shell.script(*TWO))
    assert (said.code, said.out) == (0, "It is **done**.\n"), said
    newest = shell("runs", "--json").json[0]
    assert newest["parent_run_id"] == run and newest["parent_seq"] == 4
    assert f"run {newest['run_id']}  Done (model_stop)" in said.err
    assert shell("verify").code == 0 and shell("replay").code == 0
    assert len(shell("show", newest["run_id"], "--json").json["rows"]) == 11
    assert f"shares rows 0 to 4 of run {run}" in shell("show", newest["run_id"]).out
    assert "[fork at row 4] Write it" in shell("runs").out
    assert "stateDiagram" in shell("diagram", newest["run_id"]).out
    lines = [json.loads(line) for line in shell("export", newest["run_id"]).out.splitlines()]
    assert [line["run_id"] for line in lines if line["line"] == "run"] == [run, newest["run_id"]]


def test_fork_only_creates_where_that_is_asked(shell: Shell, run: str) -> None:
    """And resume goes on with it."""
    said = shell("fork", run, "--at", "4", "--no-run", "--model", shell.script(*TWO))
    assert said.code == 0
    assert f"(running)  shares rows 0 to 4 of run {run}" in said.out
    assert "go on: paor resume " in said.err
    created = shell("runs", "--json").json[0]
    assert (created["status"], created["head_seq"]) == ("running", 4)
    assert shell("resume", "last", "--model", shell.script(*TWO)).code == 0
    told = shell("fork", run, "--at", "4", "--no-run", "--json", "--model", shell.script(*TWO)).json
    assert (told["status"], told["run_id"]) == ("running", shell("runs", "--json").json[0]["run_id"])


def test_fork_with_other_limits_ends_with_their_exit_code(shell: Shell, run: str) -> None:
    """A budget that the shared rows have used up already."""
    said = shell("fork", run, "--at", "4", "--token-budget", "10", "--model", shell.script(*TWO))
    assert said.code == 6 and "token_budget" in said.err
    replies = [*TWO[:3], {"decision": "continue", "reason": "?"}, RETRY]
    said = shell("fork", run, "--at", "3", "--max-steps", "1", "--model", shell.script(*replies))
    assert said.code == 6 and "max_steps" in said.err
    shell.write("plan.md", "Choose well. {{KEY:OBJECTIVE}} {{KEY:CATALOG}}")
    said = shell("fork", run, "--at", "4", "--prompt-template", "plan.md", "--model", shell.script(*TWO))
    assert said.code == 0
    assert shell("diff", "last~3", "last", "--json").json["parts"] == ["templates.selection"]
    assert shell("verify").code == 0


def test_fork_refuses_with_one_line(shell: Shell, run: str) -> None:
    """Unknown runs, rows that are not there, the last row, erased and damaged rows."""
    model = ("--model", shell.script(*TWO))
    shell("fork", "none-such", "--at", "1", *model).refused("no run 'none-such'")
    shell("fork", run, "--at", "11", *model).refused("no row 11 to fork at")
    shell("fork", run, "--at", "-1", *model).refused("no row -1 to fork at")
    shell("fork", run, "--at", "10", *model).refused("ended with row 10")
    shell("fork", run, "--at", "x", *model).refused("--at", lines=2)
    shell("fork", run, *model).refused("--at", lines=2)
    shell("fork", run, "--at", "4", "--max-steps", "0", *model).refused("max_steps")
    shell("fork", run, "--at", "4", "--prompt-template", "none.md", *model).refused("none.md")
    shell("fork", run, "--at", "4", "--answer", "1", "--outcome", "done", *model).refused("exclude", lines=2)
    shell("fork", run, "--at", "4", "--journal", "none.db").refused("none.db")
    assert len(shell("runs", "--json").json) == 1
    shell.sql("UPDATE transitions SET step = 9 WHERE seq = 2")
    shell("fork", run, "--at", "4", *model).refused("row 2 does not fit the hash chain", code=4)
    shell.sql("UPDATE transitions SET step = 1 WHERE seq = 2")
    shell.sql("UPDATE payloads SET body = NULL, salt = NULL")
    shell("fork", run, "--at", "4", *model).refused("was erased")
    assert "none.db" not in shell.files()


# -- why -------------------------------------------------------------------------------------------------------------


def test_why_explains_the_last_row_and_any_other(shell: Shell, run: str) -> None:
    """Every row that was tried, its guards with their values, and what they looked at."""
    said = shell("why")
    assert said.code == 0
    assert said.out.splitlines()[0] == f"run {run}, row 10: finish, Reviewing → Done"
    assert "finish → Done" in said.out and "taken" in said.out
    assert "the completion review says success" in said.out
    assert "not tried, since finish was taken: " in said.out
    first = shell("why", "last", "0").out
    assert "steps_left" in first and "step 0 of max_steps 5" in first
    assert shell("why", run, "4", "--not", "done").out.count("kept out") == 2
    told = shell("why", run, "0", "--not", "Done").out
    assert "not Done: no row of the table leads from Planning to Done" in told


def test_why_as_json_has_the_same_facts(shell: Shell, run: str) -> None:
    """The same bytes each time."""
    said = shell("why", run, "0", "--json")
    assert said.out == shell("why", run, "0", "--json").out
    data: dict[str, Any] = said.json
    assert (data["run_id"], data["seq"], data["trigger"], data["dest"]) == (run, 0, "select", "Specifying")
    taken = next(item for item in data["candidates"] if item["fate"] == "taken")
    assert [guard["guard"] for guard in taken["guards"]] == [
        "selection_valid",
        "action_allowed",
        "steps_left",
    ]
    other = shell("why", run, "0", "--not", "Reviewing", "--json").json["not"]
    assert other["phase"] == "Reviewing" and other["answer"].startswith("answer_present was False")


@pytest.mark.parametrize("columns", [80, 120])
def test_why_and_diff_keep_to_the_terminals_width(
    columns: int, shell: Shell, run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No line is longer than the terminal is wide; control characters never get there."""
    import click
    from rich.cells import cell_len

    shell.run(replies=[{**SELECT, "action": "no.\x1b[31msuch" + "x" * 90}, *TWO])
    for arguments in (
        ("why",),
        ("why", "last", "0"),
        ("why", "last", "0", "--not", "Done"),
        ("diff", "last~1", "last"),
    ):
        out, _ = on_terminal(shell, monkeypatch, *arguments, columns=columns)
        plain = click.unstyle(out)
        assert "\x1b" not in plain
        assert max(cell_len(line) for line in plain.splitlines()) <= columns


def test_why_refuses_with_one_line(shell: Shell, run: str) -> None:
    """No such run, row, phase; a damaged chain."""
    shell("why", "none-such").refused("no run")
    shell("why", run, "99").refused("no row 99")
    shell("why", run, "x").refused("SEQ", lines=2)
    shell("why", run, "--not", "Doing").refused("there is no phase 'Doing'")
    shell("why", "last~7").refused("no run last~7")
    shell("why", "--journal", "none.db").refused("none.db")
    shell.sql("UPDATE transitions SET step = 9 WHERE seq = 2")
    shell("why", run, "6").refused("does not fit", code=4)
    assert "none.db" not in shell.files()


# -- diff ------------------------------------------------------------------------------------------------------------


def test_diff_names_the_row_the_cause_and_both_lines(shell: Shell, run: str) -> None:
    """And how both end."""
    shell.run(replies=[*TWO[:3], STOP, SUCCESS])
    said = shell("diff", run, "last")
    assert said.code == 0
    lines = said.out.splitlines()
    assert lines[0] == f"A  run {run}"
    assert "first differs  row 4 (Reviewing), outcome.reply" in lines
    assert "cause          model output: the model said something else" in lines
    assert any(line.startswith("A  {") and "continue" in line for line in lines)
    assert any(line.startswith("B  {") and "stop" in line for line in lines)
    assert lines[-1] == "the first other transition is row 4; same end, same answer"
    assert shell("diff", run, "last", "--exit-code").code == 3
    data = shell("diff", run, "last", "--json").json
    assert (data["seq"], data["cause"], data["left"]["run_id"]) == (4, "model_output", run)


def test_diff_of_identical_runs_says_so(shell: Shell, run: str) -> None:
    """Also from another file, and of a fork."""
    shell.run(replies=TWO)
    said = shell("diff", "last", "last~1", "--exit-code")
    assert said.code == 0 and "identical  11 transitions, Done (model_stop)" in said.out
    assert shell.run("--journal", "other.db", replies=TWO).code == 0
    assert shell("diff", run, "last", "--other", "other.db", "--json").json["identical"] is True
    shell("fork", run, "--at", "4", "--model", shell.script(*TWO))
    assert "they share rows 0 to 4" in shell("diff", run, "last").out


def test_diff_refuses_with_one_line(shell: Shell, run: str) -> None:
    """No such run or file."""
    shell("diff", run, "none-such").refused("no run")
    shell("diff", run).refused("B", lines=2)
    shell("diff", run, "last", "--other", "none.db").refused("none.db")
    shell.write("text.txt", "no journal")
    shell("diff", run, "last", "--other", "text.txt").refused("text.txt")
    assert shell.run(replies=DONE).code == 0
