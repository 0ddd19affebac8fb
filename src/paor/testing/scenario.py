"""A recorded run as a script: what it was given, what the model said, the outcomes of tools, what people answered."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from pydantic import BaseModel

from ..fsm.engine import Engine
from ..fsm.journal.rows import Transition
from ..fsm.journal_api import Journal
from ..fsm.runtime.ports import SeededIds, SteppingClock
from ..fsm.workflow.variables import SAME
from ..prompts.scripted import ScriptedModel
from ..states.base.errors import UsageError
from ..states.records.actions import ToolResult
from ..states.records.questions import Answer, Asking
from ..states.run.spec import Spec, ToolSpec
from ..states.run.state import Change
from ..states.settings.profile import Profile
from .python_literals import DEPTH_MAX, New, depth, value_of
from .scripted import Walk, play


@dataclass(frozen=True, slots=True)
class Scenario:
    """
    A run as a script; its values are literals, or `New` calls of public names.

    Attributes:
        run: Arguments of `Engine.run`.
        options: Of the engine: limits, policy.
        replies: Of the model, by number of the request.
        tools: Scripted tools.
        answers: Arguments of `Engine.resume`, one for each time it waits.
    """

    run: dict[str, Any]
    options: dict[str, Any]
    replies: list[Any]
    tools: list[Any]
    answers: list[dict[str, Any]]

    def play_back(self) -> Walk:
        """Return what the run does when it is played in this process."""
        with Engine(
            ScriptedModel(value_of(self.replies)),
            value_of(self.tools),
            Journal(":memory:", "off"),
            clock=SteppingClock(step_us=1),
            ids=SeededIds(),
            builtins=False,
            **value_of(self.options),
        ) as engine:
            return play(engine, value_of(self.run), self.answers)


def scenario_of(journal: Journal, run_id: str) -> Scenario:
    """Return a recorded run as a script."""
    return _Reader(journal, run_id).scenario()


class _Reader:
    def __init__(self, journal: Journal, run_id: str) -> None:
        self._journal = journal
        self._run = journal.run(run_id).run
        self._run_id = run_id
        self._spec: Spec = journal.spec(run_id)
        self._rows = journal.transitions(run_id)
        self._replies: dict[int, Any] = {}
        self._outcomes: dict[str, list[Any]] = {}
        self._answers: list[dict[str, Any]] = []

    def scenario(self) -> Scenario:
        first, question = 0, ""
        for row in self._rows:
            change = self._journal.reader.change(self._run, json.dumps(dict(row.change)))
            self._read(row, change, first, question)
            if change.question:
                question = change.question.kind
            elif row.trigger == "wait":
                question = "in_doubt"
            first = row.counters.get("calls", 0)
        replies = [self._replies.get(number, "") for number in range(max(self._replies, default=-1) + 1)]
        return Scenario(self._arguments(), self._options(), replies, self._tools(replies), self._answers)

    def _body(self, number: int) -> str | bytes:
        return self._journal.payload(self._run, number).body or ""

    def _text(self, place: dict[str, Any]) -> str:
        body = self._body(place["n"])
        return body if isinstance(body, str) else body.decode("utf-8", "surrogatepass")

    def _read(self, row: Transition, change: Change, first: int, question: str) -> None:
        facts, kind = row.outcome, row.outcome["kind"]
        if kind == "reply":
            self._replies[first] = self._reply(facts)
        elif kind == "fault":
            self._replies[first] = New("ModelUnavailable", (facts["code"], self._text(facts["message"])))
        elif kind == "answer":
            self._answers.append(_answer(Answer.model_validate_json(self._text(facts["answer"])), question))
        elif kind == "cancelled":
            if row.seq == 0 or self._rows[row.seq - 1].trigger != "wait":
                raise UsageError(
                    f"run {self._run_id} was cancelled while it was driven, which a script cannot show"
                )
            self._answers.append({"cancel": True})
        if row.request["kind"] == "tool" and facts.get("error") != "unsafe_parameters":
            texts = facts.get("texts", ())
            for number, (_, reply) in enumerate(texts, first):
                self._replies[number] = self._text(reply)
            outcome = self._outcome(row, change)
            asked = facts.get("calls", len(texts))
            self._outcomes.setdefault(row.request["tool"], []).append(
                New("Asks", (asked, outcome)) if asked else outcome
            )

    def _reply(self, facts: Any) -> Any:
        text = self._text(facts["reply"])
        finish, budgets = facts.get("finish", "stop"), self._spec.limits
        options: dict[str, Any] = {}
        if budgets.token_budget is not None or budgets.cost_budget is not None:
            used = (1, facts["tokens_in"], facts["tokens_out"], facts.get("cost_micro", 0))
            options["usage"] = New("Usage", used)
        if finish != "stop":
            options["finish"] = finish
        if options:
            return New("Reply", (text,), options)
        return _object(text)

    def _outcome(self, row: Transition, change: Change) -> Any:
        """Return what a scripted tool does in place of a call."""
        facts = row.outcome
        if facts["kind"] == "in_doubt" and facts.get("why") == "deadline":
            return New("TimedOut", (self._text(facts["message"]),))
        if facts["kind"] == "in_doubt":
            return New("EffectUnknown", (facts.get("why", "") or "nobody knows",))
        if facts["kind"] == "asked":
            asking = Asking.model_validate_json(self._text(facts["asked"]))
            return New("AnswerNeeded", (asking.message, asking.answer_schema, asking.state))
        result = change.result
        if not result:
            return None
        if facts.get("error") == "timeout" and result.retryable and row.request.get("effect") != "once":
            return New("TimedOut", (result.error or "",))
        if not result.ok:
            sure = result.retryable and row.request.get("effect") == "once"
            return New("NotStarted" if sure else "ToolError", (result.error or "",))
        return self._return_value(result)

    def _return_value(self, result: ToolResult) -> Any:
        documents = [(item.name, self._body(item.payload.n), item.mime) for item in result.documents]
        notes = [
            note for note in result.notes if not any(note.startswith(f"{name}: ") for name, _, _ in documents)
        ]
        web = [fact.wire() for fact in result.web]
        if not documents and not web and notes == ["the tool returned nothing"]:
            return None
        if len(documents) == 1 and not notes and not web:
            ((name, body, mime),) = documents
            if (name, mime) == ("result.txt", "text/plain"):
                return body
            if (name, mime) == ("result.json", "application/json"):
                return orjson.loads(body)
        options: dict[str, Any] = {"documents": [New("Document", item) for item in documents]}
        options |= ({"notes": notes} if notes else {}) | ({"web": web} if web else {})
        return New("ToolOutput", (), options)

    def _arguments(self) -> dict[str, Any]:
        """Return the arguments of `Engine.run`, without those that are as they would be anyhow."""
        spec = self._spec
        documents = [
            New("Document", (item.name, self._body(item.payload.n), item.mime)) for item in spec.documents
        ]
        given: dict[str, Any] = {
            "success_criteria": list(spec.success_criteria),
            "documents": documents,
            "language": spec.language if spec.language not in ("", "en") else None,
            "task_type": spec.task_type,
            "mode": spec.mode if spec.mode != "react" else None,
            "connections": dict.fromkeys(spec.connections, "a connection"),
            "context": spec.context,
            "transcript": [turn.wire() for turn in spec.transcript],
            "final_format": spec.final_format,
        }
        if spec.profile != Profile():
            given["profile"] = New("Profile", (), _own(spec.profile))
        if spec.workflow is not None:
            given["workflow"] = New("Workflow.model_validate", (spec.workflow,))
            variables = spec.flow.variables if spec.flow is not None else {}
            given["variables"] = {name: value for name, value in variables.items() if name not in SAME}
        return {"objective": spec.objective, **{name: value for name, value in given.items() if value}}

    def _options(self) -> dict[str, Any]:
        limits, policy = _own(self._spec.limits), _own(self._spec.policy)
        given = {"limits": New("Limits", (), limits)} if limits or self._spec.mode == "planner" else {}
        return given | ({"policy": New("Policy", (), policy)} if policy else {})

    def _tools(self, replies: Sequence[Any]) -> list[Any]:
        """Return scripted tools in place of those that were called, or that a model could have meant."""
        texts = json.dumps([replies, self._spec.workflow], default=lambda new: new.arguments).casefold()
        return [
            self._tool(tool)
            for tool in self._spec.tools
            if tool.name in self._outcomes or re.split(r"[._]", tool.name)[-1].casefold() in texts
        ]

    def _tool(self, tool: ToolSpec) -> New:
        given = {
            "effect": (tool.effect, "read"),
            "label": (tool.label, "result"),
            "retries": (tool.step_retries, 0),
            "repeat_allowed": (tool.repeat_allowed, False),
            "duplicate_limits": (tool.duplicate_limits, {}),
        }
        options = {name: value for name, (value, usual) in given.items() if value != usual}
        outcomes = self._outcomes.get(tool.name, [])
        return New("scripted_tool", (tool.name, outcomes), {"parameters": tool.parameters} | options)


def _own(value: BaseModel) -> dict[str, Any]:
    """Return the settings that are not as usual, as plain data."""
    return value.model_dump(mode="json", exclude_defaults=True)


def _answer(given: Answer, question: str) -> dict[str, Any]:
    if given.action in ("done", "retry", "fail"):
        found: dict[str, Any] = {"outcome": given.action}
        return found | ({"result": given.content} if given.content is not None else {})
    if given.action == "accept" and question == "approval" and isinstance(given.content, dict):
        return {"answer": {"approve": given.content.get("approve")}}
    return {"answer": {"action": given.action, "content": given.content}}


def _object(text: str) -> Any:
    """Return a reply as the mapping that a script sends as JSON, where that says the same; else the text."""
    try:
        data = json.loads(text, object_pairs_hook=_unique)
        plain = isinstance(data, dict) and json.loads(json.dumps(data, ensure_ascii=False)) == data
    except (ValueError, RecursionError):
        return text
    return data if plain and data and depth(data) <= DEPTH_MAX else text


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice")
    return found
