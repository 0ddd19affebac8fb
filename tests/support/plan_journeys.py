"""Journeys of batch and planner mode, part of `journeys.JOURNEYS`."""

from __future__ import annotations

import json

from paor import Limits, Policy

from .journey import BAD, CRITERIA, ODD, Journey, losing, scan, slow
from .planning import ABORT, ASK, END, NOOP, NOTHING, PLAN, STEP
from .worlds import REVIEW, SUCCESS, TOOLS

BATCH, PLANNER = {"mode": "batch"}, {"mode": "planner"}

PLANNED = (
    Journey(
        "batch",
        [PLAN(STEP(page=1), NOOP, STEP("notes.fail", page=2), STEP(page="one"), STEP(page=4)), SUCCESS],
        "model_stop",
        run={**BATCH, **CRITERIA, "limits": Limits(max_steps=9)},
    ),
    Journey(
        "batch_replanned",
        [BAD, PLAN(STEP(page=1)), REVIEW("retry", "read page 2"), PLAN(STEP(page=2)), BAD, SUCCESS],
        "model_stop",
        run=BATCH,
    ),
    Journey(
        "batch_skipped",
        [PLAN(*[STEP(page=number) for number in range(4)]), REVIEW("retry", "read the rest")],
        "max_steps",
        "Failed",
        run={**BATCH, "limits": Limits(max_steps=2)},
    ),
    Journey("batch_invalid", [BAD, BAD], "selection_invalid", "Failed", run=BATCH),
    Journey(
        "batch_formatted",
        [PLAN(STEP(page=1)), REVIEW("success", answer="# The answer")],
        "model_stop",
        run={**BATCH, "final_format": "md"},
    ),
    Journey(
        "batch_in_doubt",
        [PLAN(STEP("notes.lose", page=1), STEP("notes.read", page=2)), SUCCESS],
        "model_stop",
        tools=lambda: (*TOOLS, losing()),
        run=BATCH,
        answers=[{"outcome": "done", "result": "torn"}],
    ),
    Journey(
        "planner",
        [
            PLAN(STEP("notes.scan", page=1), STEP(page=2, retries=2), reason="first"),
            "The picture.",
            "Some words before it: " + json.dumps(PLAN(STEP("notes.send", text="$step[0].output"))),
            PLAN(STEP("notes.slow", page=3), STEP("notes.read", page="$step[0].output.page")),
            END("Pages 2 and 3."),
            REVIEW("success"),
        ],
        "model_stop",
        tools=lambda: (*TOOLS, scan, slow),
        run={**PLANNER, "transcript": [{"role": "user", "content": ODD}]},
    ),
    Journey(
        "planner_blocked",
        [*[PLAN(STEP(page=1), STEP("notes_read", page=1))] * 2, NOTHING, SUCCESS],
        "model_stop",
        run=PLANNER,
    ),
    Journey("planner_answered", ["Some words.", SUCCESS], "model_stop", run=PLANNER),
    Journey(
        "planner_asked",
        [
            {"elicitation": {"message": "Which?", "schema": '{"type": "object"}'}},
            PLAN(ASK(page="integer"), STEP("notes.read", page="$step[0].output.page"), ASK()),
            END(),
            SUCCESS,
        ],
        "model_stop",
        run=PLANNER,
        answers=[{"answer": {"any": 1}}, {"answer": {"page": 2}}, {"answer": {"action": "decline"}}],
    ),
    Journey(
        "planner_missing",
        [
            *[PLAN(STEP("notes.send"), STEP("notes.read"))] * 2,
            *(NOTHING, REVIEW("retry", "again"), END(), SUCCESS),
        ],
        "model_stop",
        options={"policy": Policy(approvals=("*.send",))},
        run=PLANNER,
        answers=[
            {"answer": {"text": "hi"}},
            {"answer": {"approve": True}},
            {"answer": {"action": "decline"}},
        ],
    ),
    Journey("planner_aborted", [PLAN(STEP(page=1), ABORT, STEP(page=2))], "aborted", "Failed", run=PLANNER),
    Journey(
        "planner_native",
        [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "c1", "function": {"name": "notes_read", "arguments": '{"page": 1}'}},
                    {"id": "c2", "function": {"name": "notes_read", "arguments": "{page"}},
                ],
            },
            {"content": [{"type": "text", "text": "Done."}], "role": "assistant"},
            SUCCESS,
        ],
        "model_stop",
        run=PLANNER,
    ),
    Journey(
        "planner_max_plans",
        [PLAN(STEP(page=1)), PLAN(STEP(page=2)), REVIEW("retry", "more")],
        "max_plans",
        "Failed",
        run={**PLANNER, "limits": Limits(max_plans=2)},
    ),
)
"""Together they take every row that only a plan can take."""
