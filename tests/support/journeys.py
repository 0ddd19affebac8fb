"""
Journeys: scripted runs that together show every row of the table, in react, batch and planner mode.

For the tests of journal, fold, replay, verify, export and drivers: what holds must hold for each of them.
"""

from __future__ import annotations

from paor import Limits, Policy, Reply, Usage
from paor.errors import ModelUnavailable

from .journey import BAD, CALL, CRITERIA, ODD, SEND, Journey, Lost, asking, losing, peek, play, scan, slow
from .plan_journeys import PLANNED
from .worlds import (
    ANSWER,
    CONTINUE,
    MET,
    PARAMETERS,
    READ,
    REFINE,
    REVIEW,
    SELECT,
    STOP,
    SUCCESS,
    TOOLS,
    flaky,
)

JOURNEYS = (
    Journey("two_pages", [*READ(1), CONTINUE, *READ(2), STOP, SUCCESS], "model_stop", run=CRITERIA),
    Journey("reselected", [BAD, *READ(1), STOP, SUCCESS], "model_stop"),
    Journey("selection_invalid", [BAD, SELECT("no.such")], "selection_invalid", "Failed"),
    Journey(
        "respecified",
        [SELECT(), PARAMETERS(page="one"), PARAMETERS(page=1), STOP, SUCCESS],
        "model_stop",
    ),
    Journey(
        "refused",
        [SELECT(), PARAMETERS(page="one"), BAD, CONTINUE, *READ(2), STOP, SUCCESS],
        "model_stop",
    ),
    Journey(
        "stuck",
        [SELECT(), BAD, BAD, CONTINUE, SELECT(), BAD, BAD, CONTINUE, SELECT(), BAD, BAD],
        "stuck",
        "Failed",
    ),
    Journey(
        "blocked",
        [*READ(1), CONTINUE, *READ(1), CONTINUE, *READ(2), REFINE("stop", answer="Both pages.")],
        "model_stop",
        options={"limits": Limits(consecutive_limit=2)},
    ),
    Journey("tool_error", [*CALL("notes.fail"), CONTINUE, *READ(1), STOP, SUCCESS], "model_stop"),
    Journey(
        "errors_in_a_row",
        [*CALL("notes.fail", 1), CONTINUE, *CALL("notes.fail", 2)],
        "consecutive_errors",
        "Failed",
        options={"limits": Limits(max_consecutive_errors=2)},
    ),
    Journey(
        "retried_step",
        [*CALL("notes.flaky"), STOP, SUCCESS],
        "model_stop",
        tools=lambda: (*TOOLS, flaky(2, retries=2)),
    ),
    Journey(
        "retried_run",
        [
            *READ(1),
            REFINE("stop", criteria=[MET("Every page is read.")]),
            REVIEW("retry", "read page 2 too"),
            *READ(2),
            REFINE("continue", criteria=[MET("every page is read", met=False), MET("the dates are listed")]),
            REVIEW("success", answer="Pages 1 and 2.", criteria=[MET("the dates are listed")]),
        ],
        "criteria_met",
        run=CRITERIA,
    ),
    Journey(
        "retries_exhausted",
        [*READ(1), STOP, REVIEW("retry", "again"), *READ(2), STOP, REVIEW("retry", "again")],
        "retries_exhausted",
        "Failed",
        options={"limits": Limits(max_retries=1)},
    ),
    Journey("reassessed", [*READ(1), BAD, STOP, BAD, SUCCESS], "model_stop"),
    Journey("review_failed", [*READ(1), STOP, BAD, BAD], "review_failed", "Failed"),
    Journey("answered", [ANSWER("It is 30 days.")], "model_stop"),
    Journey(
        "answered_and_reviewed",
        [ANSWER("It is 30 days."), SUCCESS],
        "model_stop",
        options={"limits": Limits(completion_review="model")},
    ),
    Journey(
        "withheld",
        [*[*CALL("notes.peek"), CONTINUE] * 2, *CALL("notes.peek"), {"answer": "It says 30 days."}],
        "model_stop",
        tools=lambda: (*TOOLS, peek),
    ),
    Journey(
        "no_improvement",
        [
            *READ(1),
            REFINE("continue", score=0.5),
            *READ(2),
            REFINE("continue", score=0.5),
            *READ(3),
            REFINE("continue", score=0.25),
            SUCCESS,
        ],
        "no_improvement",
    ),
    Journey(
        "max_steps",
        [*READ(1), CONTINUE, *READ(2), CONTINUE, REVIEW("retry", "page 3")],
        "max_steps",
        "Failed",
        options={"limits": Limits(max_steps=2)},
    ),
    Journey(
        "token_budget",
        [*READ(1), CONTINUE, *READ(2), CONTINUE],
        "token_budget",
        "Failed",
        options={"limits": Limits(token_budget=1000)},
    ),
    Journey(
        "cost_budget_with_criteria_met",
        [
            *READ(1),
            Reply('{"decision": "continue", "reason": "x"}', Usage(1, 7, 3, 5_000)),
            SELECT(),
            Reply('{"schema": "parameters_v1", "parameters": {"page": 2}}', Usage(1, 7, 3, 2_500_000)),
            STOP,
        ],
        "cost_budget",
        "Failed",
        options={"limits": Limits(cost_budget=2.5)},
    ),
    Journey("script_exhausted", [*READ(1)], "model_error", "Failed"),
    Journey(
        "model_fault",
        [*READ(1), ModelUnavailable("rate_limited", "slow \N{SNOWMAN} down", Usage(2, 10, 0, 7))],
        "model_error",
        "Failed",
    ),
    Journey(
        "approved",
        [*SEND("hello"), CONTINUE, *SEND("again"), STOP, SUCCESS],
        "model_stop",
        options={"policy": Policy(approvals=("notes.send",))},
        answers=[{"answer": {"approve": True}}, {"answer": {"action": "decline"}}],
    ),
    Journey(
        "cancelled_by_answer",
        [*SEND("hello")],
        "cancelled",
        "Failed",
        options={"policy": Policy(approvals=("*.send",))},
        answers=[{"answer": {"action": "cancel"}}],
    ),
    Journey(
        "denied",
        [SEND("hello")[0], *READ(1), STOP, SUCCESS],
        "model_stop",
        options={"policy": Policy(deny=("notes.send",))},
    ),
    Journey(
        "formatted",
        [*READ(1), STOP, REVIEW("success", answer="# The answer")],
        "model_stop",
        run={"final_format": "md"},
    ),
    Journey(
        "in_doubt_done",
        [*CALL("notes.lose"), STOP, SUCCESS],
        "model_stop",
        tools=lambda: (losing(),),
        answers=[{"outcome": "done", "result": {"receipt": [1, 2.5, None, "\N{SNOWMAN}"]}}],
    ),
    Journey(
        "in_doubt_retry",
        [*CALL("notes.lose"), STOP, SUCCESS],
        "model_stop",
        tools=lambda: (losing(),),
        answers=[{"outcome": "retry"}],
    ),
    Journey(
        "in_doubt_fail",
        [*CALL("notes.lose"), STOP, SUCCESS],
        "model_stop",
        tools=lambda: (losing(),),
        answers=[{"outcome": "fail", "result": "nobody was there"}],
    ),
    Journey(
        "in_doubt_cancelled",
        [*CALL("notes.lose")],
        "cancelled",
        "Failed",
        tools=lambda: (losing(),),
        answers=[{"cancel": True}],
    ),
    Journey(
        "asked",
        [*CALL("notes.ask"), STOP, SUCCESS],
        "model_stop",
        tools=lambda: (asking(2),),
        answers=[{"answer": {"copy": "first"}}, {"answer": {"action": "decline"}}],
    ),
    Journey(
        "asked_too_often",
        [*CALL("notes.ask"), STOP, SUCCESS],
        "model_stop",
        options={"limits": Limits(max_elicitations=1)},
        tools=lambda: (asking(2),),
        answers=[{"answer": {"copy": "first"}}],
    ),
    Journey(
        "asked_and_lost",
        [*CALL("notes.ask"), STOP, SUCCESS],
        "model_stop",
        tools=lambda: (asking(1, effect="once", lost=1),),
        answers=[{"answer": {"copy": "first"}}, {"outcome": "retry"}],
    ),
    Journey(
        "asked_cancelled",
        [*CALL("notes.ask")],
        "cancelled",
        "Failed",
        tools=lambda: (asking(1),),
        answers=[{"answer": {"action": "cancel"}}],
    ),
    Journey(
        "reconciled",
        [*CALL("notes.lose"), STOP, SUCCESS],
        "model_stop",
        tools=lambda: (losing(reconcile=lambda key: f"receipt {key}"),),
    ),
    Journey(
        "documents",
        [
            SELECT("notes.scan", requiredInputDocuments=["docList:round1_task1_action0_input"]),
            PARAMETERS(page=1),
            "A page with a drawing.",
            CONTINUE,
            SELECT("notes.scan", requiredInputDocuments=["docItem:round1_task1_action1_scan#1"]),
            PARAMETERS(page=2),
            "A page with a drawing.",
            STOP,
            SUCCESS,
        ],
        "model_stop",
        tools=lambda: (*TOOLS, scan),
        run={"documents": [("a.txt", "first"), ("b.bin", b"\xff\x00second"), ("c.txt", "first")]},
    ),
    Journey(
        "odd_texts",
        [
            "lone \ud83d outside of JSON",
            (
                f'{{"action": "notes.send", "actionObjective": "{ODD}", "learnings": ["{ODD}"], '
                f'"requiredInputDocuments": [], "requiredConnection": null, "parametersContext": "{ODD}", '
                '"parametersSchema": {"fields": [{"name": "text", "type": "string", "required": true}]}}'
            ),
            f'{{"parameters": {{"text": "{ODD}"}}}}',
            f'{{"decision": "stop", "reason": "{ODD}", "answer": "{ODD}"}}',
            "lone \ud83d outside of JSON",
            f'{{"status": "success", "improvements": [], "answer": "{ODD}"}}',
        ],
        "model_stop",
        options={"limits": Limits(completion_review="model")},
        run={"objective": "odd \ud800 \0 \N{SNOWMAN}"},
    ),
    Journey("coroutine", [*CALL("notes.slow"), STOP, SUCCESS], "model_stop", tools=lambda: (slow,)),
    *PLANNED,
)
"""Every journey ends; `play` walks them."""

BY_NAME = {journey.name: journey for journey in JOURNEYS}

__all__ = ["BY_NAME", "JOURNEYS", "SEND", "Journey", "Lost", "losing", "play"]
