"""Whatever a workflow file says and a model replies: a run ends, replays identical, and is restored as it was."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paor import Limits
from paor.errors import UsageError

from ..support.flows import EMPTY, OK, PLAN, TORN, Calls, check_journal
from ..support.journey import answered
from ..support.recording import World
from .inside import REASONS

NAMES = ("plan", "exec", "ask", "note", "set", "inner")
CONDITIONS = (
    "len(plan.steps) > 0",
    "len(results) > 1",
    "n < 2",
    "seen == null",
    "results[-1].error != null",
    "n < 'a'",
    True,
    False,
)
VALUES = (
    "${n + 1}",
    "${len(results)}",
    "${results[-1].result}",
    "${plan.intention}",
    "${answer}",
    "${result}",
    "x",
    1,
)


def often(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return *strategy* or nothing at all."""
    return st.one_of(st.none(), strategy)


GOTO = st.fixed_dictionaries({"task": st.sampled_from(NAMES), "when": often(st.sampled_from(CONDITIONS))})
POST = st.dictionaries(
    st.sampled_from(("n", "seen", "all[]", "answer", "context")), st.sampled_from(VALUES), max_size=2
)
COMMON = {"when": often(st.sampled_from(CONDITIONS)), "post": often(POST), "goto": often(GOTO)}
INPUT = st.fixed_dictionaries({"data": st.sampled_from(VALUES)})
HOOK = st.just({"action": "notify:send_slack", "input": {"text": "${step.name}: ${error}"}})
RISKY = {"onError": often(HOOK), "abort": often(st.booleans())}
TASKS = {
    "plan": st.fixed_dictionaries({"action": st.just("llm/core:plan"), **COMMON}),
    "exec": st.fixed_dictionaries({"action": st.just("llm/exec:run_plan"), **COMMON, **RISKY}),
    "ask": st.fixed_dictionaries({"elicitation": st.just("Is ${len(results)} enough?"), **COMMON}),
    "note": st.fixed_dictionaries(
        {"action": st.just("my/tool:summarise"), "input": INPUT, **COMMON, **RISKY}
    ),
    "set": st.fixed_dictionaries(
        {**COMMON, "abort": often(st.just(True)), "post": st.just({"n": "${n + 1}"})}
    ),
    "inner": st.fixed_dictionaries(
        {"when": COMMON["when"], "read": st.just({"action": "notes:read", "input": {"page": 13}})}
    ),
}


def whole(stage: dict[str, Any]) -> dict[str, Any]:
    """Return a stage without what is not there, and without jumps to it."""
    found = {
        name: {key: value for key, value in task.items() if value is not None}
        for name, task in stage.items()
        if task
    }
    for task in found.values():
        if task.get("goto", {}).get("task") not in (None, *found):
            del task["goto"]
    return {name: task for name, task in found.items() if task}


STAGES = st.permutations(NAMES).flatmap(
    lambda names: st.fixed_dictionaries(
        {name: TASKS[name] if name in ("plan", "exec") else often(TASKS[name]) for name in names}
    ).map(whole)
)
ASKING = {"steps": [{"type": "elicitation", "elicitation": {"message": "Go on?"}}, *PLAN(TORN, 1)["steps"]]}
REPLIES = (
    *(
        PLAN(1),
        PLAN(TORN, 2),
        PLAN(1, 1, 1),
        EMPTY,
        EMPTY,
        {**EMPTY, "answer": "It is done."},
        ASKING,
        "words",
    ),
    PLAN(1, name="no.such"),
    *(
        {"steps": [{"type": "noop"}, {"type": "abort", "reason": "enough"}]},
        {"elicitation": {"message": "What?"}},
    ),
)

RETRY = {"status": "retry", "improvements": ["more"]}


@pytest.mark.whole
@settings(max_examples=80, deadline=None)
@given(
    stage=STAGES,
    init=st.sampled_from([{"n": 0}, {}]),
    plans=st.lists(st.sampled_from(REPLIES), min_size=12, max_size=12),
    reviews=st.lists(st.sampled_from([OK, RETRY]), min_size=12, max_size=12),
    answer=st.sampled_from(["yes", {"action": "decline"}, {"n": 1}]),
)
def test_any_workflow_ends_in_a_row_of_the_table(
    stage: dict[str, Any], init: dict[str, Any], plans: list[Any], reviews: list[Any], answer: Any
) -> None:
    """Or is refused before its first row; nothing else leaves `run`."""
    replies = [
        lambda call, plan=plan, review=review: plan if call.kind == "plan" else review
        for plan, review in zip(plans, reviews, strict=True)
    ]
    limits = Limits(max_steps=6, max_elicitations=4, max_consecutive_errors=4)
    with (
        tempfile.TemporaryDirectory() as folder,
        World(Path(folder), replies, Calls().tools, limits=limits) as own,
    ):
        try:
            result = own.run(workflow={"init": init, "stage": stage})
        except UsageError:
            assert own.journal.runs() == []
            return
        while result.status == "waiting":
            result = answered(own.engine, result.run_id, answer=answer)
        assert result.state in ("Done", "Failed") and result.reason in REASONS and result.answer
        assert result.reason != "internal_error" and result.steps <= 6
        check_journal(own)
