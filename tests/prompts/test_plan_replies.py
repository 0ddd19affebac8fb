"""What a planner may reply, on the real engine: native tool calls of providers, plans within prose, what is cut off."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ..support.planning import PLAN, STEP, World, check, counted, ends, results

MODES = pytest.mark.parametrize("mode", ["batch", "planner"])


CALLS = {
    "openai": {
        "choices": [
            {
                "message": {
                    "role": "assistant",
                    "content": "I read both.",
                    "tool_calls": [
                        {
                            "id": "c1",
                            "type": "function",
                            "function": {"name": "notes_read", "arguments": '{"page": 1}'},
                        },
                        {
                            "id": "c2",
                            "type": "function",
                            "function": {"name": "notes_read", "arguments": '{"page": 2}'},
                        },
                    ],
                }
            }
        ]
    },
    "anthropic": {
        "role": "assistant",
        "content": [
            {"type": "text", "text": "I read both."},
            {"type": "tool_use", "id": "c1", "name": "notes_read", "input": {"page": 1}},
            {"type": "tool_use", "id": "c2", "name": "notes_read", "input": {"page": 2}},
        ],
    },
    "responses": {
        "output": [
            {"type": "message", "content": [{"type": "output_text", "text": "I read both."}]},
            {"type": "function_call", "call_id": "c1", "name": "notes_read", "arguments": '{"page": 1}'},
            {"type": "function_call", "call_id": "c2", "name": "notes_read", "arguments": '{"page": 2}'},
        ]
    },
}


@MODES
@pytest.mark.parametrize("provider", CALLS)
def test_A149_native_tool_calls_are_the_steps_of_a_plan(tmp_path: Path, mode: Any, provider: str) -> None:
    """Two calls, two steps, ids kept, arguments parsed from text; the planner sees results under those ids."""
    calls: list[int] = []
    with World(tmp_path, ends(mode, CALLS[provider]), [counted(calls)]) as world:
        assert world.run(mode=mode).steps == 2
        check(world)
        shown = results(world.model.calls[1]) if mode == "planner" else []
    assert calls == [1, 2]
    assert [item["id"] for item in shown] == (["c1", "c2"] if mode == "planner" else [])


def test_C3_18_malformed_arguments_are_an_error_result_and_missing_ids_are_derived(tmp_path: Path) -> None:
    """Never no arguments: the tool is not called; the same reply gives the same id in every replay."""
    calls: list[int] = []
    broken = [
        {"function": {"name": "notes_read", "arguments": text}}
        for text in ('{"page": 1', "[1]", '{"page": 3}')
    ]
    with World(
        tmp_path, ends("planner", {"role": "assistant", "tool_calls": broken}), [counted(calls)]
    ) as world:
        assert world.run(mode="planner").state == "Done"
        check(world)
        shown = results(world.model.calls[1])
    assert calls == [3]
    assert ["error" in item for item in shown] == [True, True, False]
    assert all(item["id"].startswith("call_") for item in shown) and len({item["id"] for item in shown}) == 3


@MODES
@pytest.mark.parametrize(
    "text",
    [
        "Look at {this} first.\n```json\n" + json.dumps(PLAN(STEP(page=1))) + "\n```\nThat is {all}.",
        "Plan: " + json.dumps(PLAN(STEP(page=1))) + " (see elicitation rules)",
        json.dumps(PLAN(STEP(page=1), note="the word elicitation stands here")),
    ],
    ids=["braces in prose", "words around", "the word only"],
)
def test_C3_19_a_plan_is_found_by_a_scanner_and_a_word_is_no_question(
    tmp_path: Path, mode: Any, text: str
) -> None:
    """Braces in prose do not break it; the word elicitation asks nobody."""
    with World(tmp_path, ends(mode, text)) as world:
        result = world.run(mode=mode)
        check(world)
    assert (result.state, result.steps, world.count("wait")) == ("Done", 1, 0)


@MODES
def test_C3_19_a_plan_that_is_cut_off_is_asked_again(tmp_path: Path, mode: Any) -> None:
    """Half a plan is neither a plan nor an answer."""
    half = json.dumps(PLAN(STEP(page=1), STEP(page=2)))[:-30]
    with World(tmp_path, ends(mode, half, PLAN(STEP(page=1)))) as world:
        assert world.run(mode=mode).steps == 1
        check(world)
    assert world.triggers[0] == "reselect"
