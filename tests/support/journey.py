"""What a journey is: a scripted run with its tools and answers, and the walk to its end; `journeys` lists them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from paor import Document, Engine, Result, Tool, ToolContext, ToolOutput, tool
from paor.errors import AnswerNeeded
from paor.states.records.actions import Effect
from paor.web import WebFact

from .worlds import (
    PARAMETERS,
    SELECT,
    TOOLS,
    Script,
    engine,
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


def asking(times: int, *, effect: Effect = "read", lost: int = 0) -> Tool:
    """Return a tool that asks *times* questions before it works, then takes the driver with it *lost* times."""
    schema = {"type": "object", "properties": {"copy": {"type": "string"}}, "required": ["copy"]}
    left = [lost]

    @tool("notes.ask", effect=effect)
    def ask(context: ToolContext, page: int) -> str:
        """Read a copy of a page, after asking which."""
        before = context.resumption
        said = [*before.state, [before.accepted, before.content]] if before is not None else []
        if len(said) < times:
            raise AnswerNeeded(f"Which copy of page {page}, {len(said) + 1}?", schema, said)
        left[0] -= 1
        if left[0] >= 0:
            raise Lost
        return f"page {page}: {said}, again: {before is not None and before.again}"

    return ask


@tool("notes.peek", effect="read")
def peek(page: int) -> str:
    """Read a page that stays as it is."""
    return f"Page {page}: 30 days."


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


BAD = "this is no JSON"
CRITERIA = {"success_criteria": ["every page is read", "the dates are listed"]}
ODD = 'sn\N{SNOWMAN}w \\"quoted\\" \\n \\\\ \\ud83d\\ude00 \x7f \u2028'


def open_question(result: Result) -> str:
    """Return the id of what a run waits for, which an answer names."""
    assert result.waiting_for is not None
    return result.waiting_for.id


def answered(scripted: Engine, run_id: str, **message: Any) -> Result:
    """Answer what a run waits for now, by its id."""
    return scripted.resume(run_id, question=open_question(scripted.resume(run_id)), **message)


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
        try:
            named = {"question": open_question(result), **answer}
            result = scripted.cancel(result.run_id) if cancelled else go("resume", result.run_id, **named)
        except Lost:
            result = go("resume", result.run_id)
    assert not answers, f"{journey.name}: answers left"
    assert (result.state, result.reason) == (journey.state, journey.reason), result
    return result
