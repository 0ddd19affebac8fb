"""Scripted replies and tools, and `walk`: what a run did, as one value that a test compares."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from ..fsm.engine import Engine
from ..fsm.journal.prompts import prompt_places, told_messages, with_summary
from ..fsm.journal.rows import Transition
from ..fsm.journal_api import Journal
from ..fsm.replay.replay import replay
from ..fsm.replay.restore import restore_run
from ..states.base.errors import ToolError, UsageError
from ..states.records.actions import Effect, Intent
from ..states.run.state import Change
from ..tools.tool import Tool, ToolContext


def select(tool: str, fields: Mapping[str, str] | None = None, **keys: Any) -> dict[str, Any]:
    """
    Return the reply that chooses *tool* (Stage 1).

    Args:
        tool: Compound name, ``method.name``.
        fields: Names and types for the hint ``parametersSchema``; what Stage 2 is asked for is decided by the tool's schema.
        **keys: Other keys of the reply, under their wire names (``requiredInputDocuments=[...]``).
    """
    schema = [
        {"name": name, "type": kind, "required": True, "description": name}
        for name, kind in (fields or {}).items()
    ]
    return {
        "action": tool,
        "actionObjective": f"use {tool}",
        "learnings": [],
        "requiredInputDocuments": [],
        "requiredConnection": None,
        "parametersContext": "as the objective says",
        "parametersSchema": {"fields": schema},
    } | keys


def parameters(**values: Any) -> dict[str, Any]:
    """Return the reply that settles the chosen tool's arguments (Stage 2)."""
    return {"schema": "parameters_v1", "parameters": values}


def call(tool: str, **arguments: Any) -> list[dict[str, Any]]:
    """
    Return the replies that call *tool* with *arguments*: the choice, and the arguments if there are any.

    A tool whose parameters may all be left out is asked for them all the same: ``[select(tool), parameters()]``.
    """
    chosen = select(tool, {name: _type_of(value) for name, value in arguments.items()})
    return [chosen, parameters(**arguments)] if arguments else [chosen]


_TYPES = ((bool, "boolean"), (int | float, "number"), (Mapping, "object"), (list | tuple, "array"))


def _type_of(value: object) -> str:
    return next((name for kind, name in _TYPES if isinstance(value, kind)), "string")


def refine(decision: str, **keys: Any) -> dict[str, Any]:
    """Return the reply after an action: ``continue`` or ``stop``, with ``hint``, ``answer``, ``criteria``, ``score``."""
    return {"decision": decision, "reason": f"the script says {decision}"} | keys


def review(status: str, *improvements: str, **keys: Any) -> dict[str, Any]:
    """Return the completion review: ``success``, ``retry`` or ``failed``, with ``answer`` and ``criteria``."""
    return {"status": status, "improvements": list(improvements)} | keys


def answer(text: str) -> dict[str, Any]:
    """Return the reply that answers at once, without an action."""
    return {"action": None, "answer": text}


def step(tool: str, /, **arguments: Any) -> dict[str, Any]:
    """Return a plan's step that calls *tool*."""
    return {"type": "tool", "name": tool, "args": arguments, "reason": ""}


def plan(*steps: Mapping[str, Any], **keys: Any) -> dict[str, Any]:
    """Return a plan of *steps*, for the modes ``batch`` and ``planner``; without steps it ends a planner's run."""
    return {"intention": "as the script says", "steps": list(steps)} | keys


def call_tools(*steps: Mapping[str, Any], text: str = "") -> dict[str, Any]:
    """
    Return a reply of the profile ``native`` that calls tools; a plain text is its answer.

    Args:
        *steps: As `step` gives them; ``call_tools(step("orders.find", order_id="O-1"))``.
        text: What the model says beside the calls.
    """
    calls = [
        {"id": f"call_{number}", "name": item["name"], "arguments": item["args"]}
        for number, item in enumerate(steps, 1)
    ]
    return {"text": text, "calls": calls}


@dataclass(frozen=True, slots=True)
class Asks:
    """
    An outcome of a scripted tool that asks the run's model for texts first.

    Attributes:
        times: How many texts.
        outcome: The outcome after them.
    """

    times: int
    outcome: Any = None


def scripted_tool(
    name: str,
    outcomes: Sequence[Any] = (),
    *,
    parameters: Mapping[str, Any] | None = None,
    effect: Effect = "read",
    label: str = "result",
    description: str = "",
    retries: int = 0,
    repeat_allowed: bool = False,
    duplicate_limits: Mapping[str, int] | None = None,
    timeout_s: float | None = None,
) -> Tool:
    """
    Return a tool whose n-th call has the n-th outcome.

    Args:
        name: Compound name, ``method.name``.
        outcomes: What each call returns; an exception is raised, an `Asks` asks the model first. A `TimedOut` is what a
            call comes to that is given up at its deadline, and nobody waits for it. A call too many fails.
        parameters: JSON Schema of the arguments; None takes any.
        effect, label, description, retries, repeat_allowed, duplicate_limits, timeout_s: See `Tool`.

    Raises:
        UsageError: As `Tool`, or *outcomes* is a text.
    """
    if isinstance(outcomes, str | bytes | Mapping) or not isinstance(outcomes, Iterable):
        raise UsageError(f"tool {name}: outcomes must be a list, one for each call")
    given = list(outcomes)
    left = iter(given)

    def run(_context: ToolContext, **arguments: Any) -> Any:
        try:
            outcome = next(left)
        except StopIteration:
            raise ToolError(f"the script of {name} has no outcome {len(given) + 1}") from None
        if isinstance(outcome, Asks):
            for _ in range(outcome.times):
                with suppress(ToolError):  # what the tool made of a failed one is in its outcome
                    _context.ask("a text")
            outcome = outcome.outcome
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    return Tool(
        name=name,
        description=description,
        parameters={"type": "object", "additionalProperties": True}
        if parameters is None
        else dict(parameters),
        run=run,
        effect=effect,
        label=label,
        retries=retries,
        repeat_allowed=repeat_allowed,
        duplicate_limits=dict(duplicate_limits or {}),
        timeout_s=timeout_s,
        parallel=1,  # the n-th call is the n-th to begin
    )


@dataclass(frozen=True, slots=True)
class Call:
    """
    One call of a tool.

    Attributes:
        tool: Its name.
        arguments: What it got.
        ok: Whether it returned a result; None if it asked a question, was cancelled, or is in doubt.
        error: What went wrong, else None.
        output: The first document that it returned, None for none or once erased.
    """

    tool: str
    arguments: Mapping[str, Any]
    ok: bool | None
    error: str | None = None
    output: str | bytes | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """
    One request to the model.

    Attributes:
        kind: ``selection``, ``parameters``, ``refinement``, ``review``, ``plan``, ``task_plan``, ``turn``, or a tool's ``text``.
        prompt: All of its messages, one after the other.
        reply: The raw reply; None when there was none.
    """

    kind: str
    prompt: str
    reply: str | None


@dataclass(frozen=True, slots=True)
class Walk:
    """
    What a run did, as recorded in its journal.

    Attributes:
        run_id: The run.
        state, status, reason, answer: As in ``Result``.
        triggers: The transitions taken.
        phases: The phases visited, each change once.
        calls: Calls of tools, in order; each attempt is one.
        asked: Requests to the model, those of tools included.
    """

    run_id: str
    state: str
    status: str
    reason: str | None
    answer: str
    triggers: tuple[str, ...]
    phases: tuple[str, ...]
    calls: tuple[Call, ...]
    asked: tuple[Asked, ...]

    @property
    def tools(self) -> tuple[str, ...]:
        """Names of the tools that were called, in order."""
        return tuple(item.tool for item in self.calls)

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of the requests, in order."""
        return tuple(item.kind for item in self.asked)


def walk(journal: Journal, run_id: str) -> Walk:
    """
    Return what a run did.

    Args:
        journal: The journal that holds it.
        run_id: Its id, or an unambiguous prefix.

    Raises:
        UnknownRun: There is no such run.
        JournalDamaged: Its rows cannot be read.
    """
    row = journal.run(run_id)
    run, _ = restore_run(journal.reader, row.run_id)
    rows = journal.transitions(row.run_id)
    phases = [*(row.source for row in rows[:1]), *(row.dest for row in rows)]
    calls, asked = list[Call](), list[Asked]()
    intent: Intent | None = None
    for item in rows:
        change = journal.reader.change(item.run, json.dumps(dict(item.change)))
        if "prompt" in item.request:
            asked += [_ask_of(journal, rows, one) for one in with_summary(item)]
        asked += [
            Asked("text", _body(journal, item.run, prompt) or "", _body(journal, item.run, reply))
            for prompt, reply in item.outcome.get("texts", ())
        ]
        if item.request["kind"] == "tool":
            calls.append(_call(journal, item, change, intent))
        intent = change.intent or intent
    return Walk(
        row.run_id,
        run.state,
        run.status,
        run.reason if run.final else None,
        run.memory.answer or "",
        tuple(item.trigger for item in rows),
        tuple(phase for phase, _ in groupby(phases)),
        tuple(calls),
        tuple(asked),
    )


def _body(journal: Journal, run: int, place: Mapping[str, Any]) -> str | None:
    body = journal.payload(run, place["n"]).body
    return body if isinstance(body, str) or body is None else body.decode("utf-8", "replace")


def _ask_of(journal: Journal, rows: Sequence[Transition], row: Transition) -> Asked:
    told = told_messages(prompt_places(rows, row), lambda found: _body(journal, found.run, found.place))
    prompt = "\n\n".join("(erased)" if text is None else text for _, text in told)
    reply = row.outcome.get("reply")
    return Asked(row.request["kind"], prompt, _body(journal, row.run, reply) if reply is not None else None)


def _call(journal: Journal, row: Transition, change: Change, intent: Intent | None) -> Call:
    arguments = intent.arguments if intent is not None else {}
    result = change.result
    if not result:
        return Call(row.request["tool"], arguments, None)
    first = result.documents[0].payload if result.documents else None
    output = journal.payload(row.run, first.n).body if first is not None else None
    return Call(row.request["tool"], arguments, result.ok, result.error, output)


def problems(journal: Journal, run_ids: Iterable[str] | None = None) -> list[str]:
    """
    Return all defects of a journal: of its chain and payloads, and of the replay of its runs.

    Args:
        journal: The journal.
        run_ids: Runs to replay; None: all.

    Returns:
        One line for each defect or difference; empty if there is none.
    """
    found = [str(defect) for defect in journal.verify()]
    for run_id in [row.run_id for row in journal.runs()] if run_ids is None else run_ids:
        found += [f"run {run_id}, replay: {line}" for line in replay(journal, run_id).divergences]
    return found


def play(engine: Engine, run: Mapping[str, Any], answers: Sequence[Mapping[str, Any]] = ()) -> Walk:
    """
    Run to the end, giving an answer each time the run waits, and return what it did.

    Args:
        engine: The engine that runs it.
        run: Arguments of `Engine.run`.
        answers: Arguments of `Engine.resume`, one for each time it waits; ``{"cancel": True}`` cancels the run instead.

    Raises:
        AssertionError: It waits less often or more often than there are answers.
    """
    result = engine.run(**run)
    for number, given in enumerate(answers, 1):
        if result.status != "waiting":
            raise AssertionError(f"the run is {result.status} and was to wait for answer {number}")
        if given == {"cancel": True}:
            result = engine.cancel(result.run_id)
        else:
            question = result.waiting_for.id if result.waiting_for is not None else None
            result = engine.resume(result.run_id, **{"question": question, **given})
    if result.status == "waiting" and answers:
        raise AssertionError(f"the run waits once more than there are answers ({len(answers)})")
    return walk(engine.journal, result.run_id)
