"""
Journeys: scripted runs that together show every row of the table that react mode can take.

For the tests of journal, fold, replay, verify, export and drivers: what holds must hold for each of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from paor import (
    Document,
    Engine,
    Limits,
    ModelUnavailable,
    Policy,
    Reply,
    Result,
    Tool,
    ToolContext,
    ToolOutput,
    Usage,
    WebFact,
    tool,
)

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
    Script,
    engine,
    flaky,
)


class Lost(BaseException):
    """The process ends here, as far as the engine can tell."""


def losing(times: int = 1, **options: Any) -> Tool:
    """Return a once tool that takes the driver with it *times* times, after its effect."""
    left = [times]

    @tool("notes.lose", effect="once", **options)
    def lose(page: int) -> str:
        """Tear a page out."""
        left[0] -= 1
        if left[0] >= 0:
            raise Lost
        return f"page {page} is gone"

    return lose


@tool("notes.scan", effect="read", label="scan")
def scan(context: ToolContext, page: int) -> ToolOutput:
    """Return all kinds of documents, and a text of the model's."""
    written = context.ask("Describe the page", [("page", f"page {page}")])
    documents = [
        Document("text.md", written, "text/markdown"),
        Document("scan.bin", bytes(range(256)), "image/x-scan"),
        Document("odd \N{SNOWMAN}\0\udcff.txt", "lone \ud800, null \0, \N{SNOWMAN}", "text/plain"),
        Document("empty.txt", "", "text/plain"),
        Document("same.bin", written.encode(), "application/octet-stream"),
    ]
    web = [WebFact(url="https://example.org/a", relevance_score=0.1, key_points=("fast",))]
    return ToolOutput(documents=documents, notes=["five documents"], web=web)


@tool("notes.slow", effect="idempotent")
async def slow(page: int) -> dict[str, Any]:
    """Return data from a coroutine."""
    await asyncio.sleep(0)
    return {"page": page, "numbers": [1, 2.5, -0.0, 2**60], "text": "\N{SNOWMAN}"}


@dataclass(frozen=True)
class Journey:
    """
    A scripted run and what is given to it whenever it waits.

    Attributes:
        name: For test ids.
        replies: The script.
        tools: Makes its tools; some count their calls.
        options: Of the engine.
        run: Of `Engine.run`.
        answers: Of `Engine.resume`, one for each time it waits; ``{"cancel": True}`` cancels the run instead.
        state, reason: How it ends.
    """

    name: str
    replies: Script
    reason: str | None
    state: str = "Done"
    tools: Callable[[], Sequence[Tool]] = lambda: TOOLS
    options: Mapping[str, Any] = field(default_factory=dict)
    run: Mapping[str, Any] = field(default_factory=dict)
    answers: Sequence[Mapping[str, Any]] = ()

    def engine(self, folder: Path, **options: Any) -> Engine:
        """Return an engine for it with a journal in *folder*."""
        return engine(folder, self.replies, self.tools(), **{**self.options, **options})


def SEND(text: str) -> list[dict[str, Any]]:
    """Return the replies of an iteration that calls the once tool."""
    return [SELECT("notes.send", {"text": "string"}), PARAMETERS(text=text)]


def CALL(name: str, page: int = 1) -> list[dict[str, Any]]:
    """Return the replies of an iteration that calls a tool with a page."""
    return [SELECT(name), PARAMETERS(page=page)]


_BAD = "this is no JSON"
_CRITERIA = {"success_criteria": ["every page is read", "the dates are listed"]}
_ODD = 'sn\N{SNOWMAN}w \\"quoted\\" \\n \\\\ \\ud83d\\ude00 \x7f \u2028'

JOURNEYS = (
    Journey("two_pages", [*READ(1), CONTINUE, *READ(2), STOP, SUCCESS], "model_stop", run=_CRITERIA),
    Journey("reselected", [_BAD, *READ(1), STOP, SUCCESS], "model_stop"),
    Journey("selection_invalid", [_BAD, SELECT("no.such")], "selection_invalid", "Failed"),
    Journey(
        "respecified",
        [SELECT(), PARAMETERS(page="one"), PARAMETERS(page=1), STOP, SUCCESS],
        "model_stop",
    ),
    Journey(
        "refused",
        [SELECT(), PARAMETERS(page="one"), _BAD, CONTINUE, *READ(2), STOP, SUCCESS],
        "model_stop",
    ),
    Journey(
        "stuck",
        [SELECT(), _BAD, _BAD, CONTINUE, SELECT(), _BAD, _BAD, CONTINUE, SELECT(), _BAD, _BAD],
        "stuck",
        "Failed",
    ),
    Journey(
        "blocked",
        [*READ(1), CONTINUE, *READ(1), CONTINUE, *READ(2), REFINE("stop", answer="Both pages."), SUCCESS],
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
        run=_CRITERIA,
    ),
    Journey(
        "retries_exhausted",
        [*READ(1), STOP, REVIEW("retry", "again"), *READ(2), STOP, REVIEW("retry", "again")],
        "retries_exhausted",
        "Failed",
        options={"limits": Limits(max_retries=1)},
    ),
    Journey("reassessed", [*READ(1), _BAD, STOP, _BAD, SUCCESS], "model_stop"),
    Journey("review_failed", [*READ(1), STOP, _BAD, _BAD], "review_failed", "Failed"),
    Journey("answered", [ANSWER("It is 30 days."), SUCCESS], "model_stop"),
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
                f'{{"action": "notes.send", "actionObjective": "{_ODD}", "learnings": ["{_ODD}"], '
                f'"requiredInputDocuments": [], "requiredConnection": null, "parametersContext": "{_ODD}", '
                '"parametersSchema": {"fields": [{"name": "text", "type": "string", "required": true}]}}'
            ),
            f'{{"parameters": {{"text": "{_ODD}"}}}}',
            f'{{"decision": "stop", "reason": "{_ODD}", "answer": "{_ODD}"}}',
            "lone \ud83d outside of JSON",
            f'{{"status": "success", "improvements": [], "answer": "{_ODD}"}}',
        ],
        "model_stop",
        run={"objective": "odd \ud800 \0 \N{SNOWMAN}"},
    ),
    Journey("coroutine", [*CALL("notes.slow"), STOP, SUCCESS], "model_stop", tools=lambda: (slow,)),
)
"""Every journey ends; `play` walks them."""

BY_NAME = {journey.name: journey for journey in JOURNEYS}


def play(journey: Journey, scripted: Engine, *, driver: str = "sync") -> Result:
    """Walk *journey* to its end with either driver and return the result; a lost driver is replaced by the next."""
    options = {"objective": f"Journey {journey.name}", **journey.run}
    answers = list(journey.answers)

    def go(method: str, *arguments: Any, **keywords: Any) -> Result:
        if driver == "sync":
            result: Result = getattr(scripted, method)(*arguments, **keywords)
        else:
            result = asyncio.run(getattr(scripted, f"a{method}")(*arguments, **keywords))
        return result

    try:
        result = go("run", **options)
    except Lost:
        result = go("resume", scripted.journal.runs()[0].run_id)
    while result.status == "waiting":
        answer = answers.pop(0)
        cancelled = "cancel" in answer
        result = scripted.cancel(result.run_id) if cancelled else go("resume", result.run_id, **answer)
    assert not answers, f"{journey.name}: answers left"
    assert (result.state, result.reason) == (journey.state, journey.reason), result
    return result
