"""Batch mode on the same engine, row by row: one plan, executed in order, reviewed; and what both modes share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from paor import Limits, Tool, ToolContext, replay, tool

from ..support.recording import World
from ..support.stored import labels, prompts, query, started_with, triggers
from ..support.worlds import CONTINUE, PARAMETERS, READ, REVIEW, SELECT, STOP, SUCCESS, TOOLS, read

PAGES = ["round1_task1_action1_page#0", "round1_task1_action2_page#0", "round1_task1_action3_page#0"]


def PLAN(*pages: int, name: str = "notes.read") -> dict[str, Any]:
    """Return a plan that calls *name* for each page."""
    steps = [
        {"type": "tool", "name": name, "args": {"page": page}, "reason": f"read {page}"} for page in pages
    ]
    return {"intention": "read them", "steps": steps}


def test_A055_A084_one_call_runs_both_modes_to_the_same_end(tmp_path: Path) -> None:
    """The same task, once as three iterations and once as one plan: the same labels and texts, both Done."""
    react = [*READ(1), CONTINUE, *READ(2), CONTINUE, *READ(3), STOP, SUCCESS]
    ends = []
    for flag, script in ((True, react), (False, [PLAN(1, 2, 3), SUCCESS])):
        with World(tmp_path / str(flag), script) as world:
            result = world.run("Read three pages", react_mode=flag)
            world.model.assert_all_used()
            texts = [document.read() for document in result.documents]
            ends.append((result.state, result.steps, result.answer, texts, labels(world.path)))
            assert replay(world.journal, world.run_id).identical and world.journal.verify() == []
        assert started_with(world.path)["mode"] == ("react" if flag else "batch")
    assert ends[0] == ends[1]
    assert ends[0][4] == PAGES


def test_A087_a_plan_is_asked_once_executed_in_order_and_reviewed_once(tmp_path: Path) -> None:
    """Three actions: one planning call, three executions, one review, and nothing else is asked."""
    calls: list[int] = []

    @tool("notes.read", effect="read", label="page")
    def count(page: int) -> str:
        """Count."""
        calls.append(page)
        return f"page {page}"

    with World(tmp_path, [PLAN(3, 1, 2), SUCCESS], [count]) as world:
        assert world.run(mode="batch").state == "Done"
        assert world.model.kinds == ["plan", "review"]
    assert calls == [3, 1, 2]
    assert triggers(world.path).count("execute") == 3


def test_A087_a_review_that_says_retry_has_the_plan_made_anew(tmp_path: Path) -> None:
    """Action 2 fails, the others run; the next plan is asked with the improvements, and the counter is at 1."""

    @tool("notes.read", effect="read", label="page")
    def torn(page: int) -> str:
        """Fail on page 2."""
        if page == 2:
            raise OSError("torn")
        return f"page {page}"

    script = [PLAN(1, 2, 3), REVIEW("retry", "read page 4 instead"), PLAN(4), SUCCESS]
    with World(tmp_path, script, [torn]) as world:
        result = world.run(mode="batch", limits=Limits(max_steps=9))
        assert (result.state, result.steps, world.model.kinds) == (
            "Done",
            4,
            ["plan", "review", "plan", "review"],
        )
    assert "- read page 4 instead" in prompts(world.path, "plan")[1]["user"]
    assert query(world.path, "SELECT max(retries) FROM transitions") == [(1,)]
    assert [label[:-7] for label in labels(world.path)] == [f"round1_task1_action{n}" for n in (1, 3, 4)]


def test_A002_A070_batch_prompts_hold_the_whole_catalog_and_react_prompts_are_smaller(tmp_path: Path) -> None:
    """With schemas and descriptions in the one, names alone in the other; fewer characters for the same three actions."""
    properties = {
        f"option{n}": {"type": "string", "description": "a long description " * 8} for n in range(40)
    }
    big = Tool(
        name="crm.export",
        description="Export everything.",
        parameters={"type": "object", "properties": properties},
        run=lambda **_: "x",
    )
    react = [*READ(1), CONTINUE, *READ(2), CONTINUE, *READ(3), STOP, SUCCESS]
    sizes, plans = [], [PLAN(1), REVIEW("retry", "2"), PLAN(2), REVIEW("retry", "3"), PLAN(3), SUCCESS]
    for mode, script in (("react", react), ("batch", plans)):
        with World(tmp_path / mode, script, [*TOOLS, big]) as world:
            assert world.run(mode=mode).steps == 3
        kind = "selection" if mode == "react" else "plan"
        found = prompts(world.path, kind)
        sizes.append(sum(len(text) for prompt in found for text in prompt.values()))
        assert ("a long description" in found[0]["system"]) is (mode == "batch")
        assert ('"properties"' in found[0]["system"]) is (mode == "batch")
    assert sizes[0] < sizes[1]


def test_A098_a_reference_means_the_same_documents_in_both_modes(tmp_path: Path) -> None:
    """The same strings, in Stage 1 and in a plan's arguments, reach the one resolver."""
    got: list[list[str]] = []

    @tool("notes.join", effect="read")
    def join(context: ToolContext, documentList: list[str]) -> str:
        """Join."""
        got.append([str(document.data) for document in context.documents(documentList)])
        return "joined"

    references = ["docItem:round1_task1_action0_input#1", "docList:round1_task1_action0_input"]
    step = {"type": "tool", "name": "notes.join", "args": {"documentList": references}, "reason": "join"}
    react = [SELECT("notes.join", {}, requiredInputDocuments=references), STOP, SUCCESS]
    for mode, script in (("react", react), ("batch", [{"steps": [step]}, SUCCESS])):
        with World(tmp_path / mode, script, [read, join]) as world:
            assert world.run(mode=mode, documents=[("a.txt", "Alpha"), ("b.txt", "Beta")]).state == "Done"
    assert got == [["Beta", "Alpha"]] * 2


@pytest.mark.parametrize("mode", ["react", "batch"])
def test_A085_A083_an_extra_parameter_never_reaches_a_tool_in_either_mode(tmp_path: Path, mode: str) -> None:
    """React drops it, or in the strict profile asks again; batch has no such request: the refusal is the step's result."""
    calls: list[Any] = []
    keep = Tool(
        name="notes.keep",
        parameters={"type": "object", "properties": {"page": {}}},
        run=lambda **values: calls.append(values),
        effect="read",
    )
    bad = {"page": 1, "apiKey": "k"}
    plan = {"steps": [{"type": "tool", "name": "notes.keep", "args": bad, "reason": "r"}]}
    select = SELECT("notes.keep", parametersSchema=None)
    react = [select, PARAMETERS(**bad), PARAMETERS(**bad), STOP, SUCCESS]
    if mode == "react":
        with World(tmp_path / "lenient", [*react[:2], STOP, SUCCESS], [keep]) as world:
            assert world.run(mode=mode).state == "Done"
        assert calls == [{"page": 1}]
        calls.clear()
    with World(tmp_path, react if mode == "react" else [plan, SUCCESS], [keep]) as world:
        assert world.run(mode=mode, profile="strict").state == "Done"
    assert calls == []
    assert triggers(world.path).count("refuse") == 1
    assert len(prompts(world.path, "parameters")) == (2 if mode == "react" else 0)


def test_A083_react_mode_changes_nothing_of_what_batch_mode_writes(tmp_path: Path) -> None:
    """A batch run in a file of its own and one behind a react run: the same requests and outcomes, row by row."""
    seen = []
    for before in (False, True):
        with World(tmp_path / str(before), [PLAN(1, 2), SUCCESS]) as world:
            if before:
                world.engine.run("Read", model=type(world.model)([*READ(1), STOP, SUCCESS]))
            world.run(mode="batch")
        statement = """SELECT "trigger", source, dest, request ->> '$.kind', outcome ->> '$.kind', guards
                       FROM transitions WHERE run = (SELECT max(run) FROM specs) ORDER BY seq"""
        seen.append((query(world.path, statement), prompts(world.path, "plan"), json.dumps(PLAN(1, 2))))
    assert seen[0] == seen[1]
