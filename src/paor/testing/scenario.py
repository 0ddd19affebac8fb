"""A recorded run as a script: what it was given, what the model said, the outcomes of tools, what people answered."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from ..fsm.engine import Engine
from ..fsm.journal.rows import Transition
from ..fsm.journal_api import Journal
from ..fsm.runtime.ports import SeededIds, SteppingClock
from ..prompts.scripted import ScriptedModel
from ..states.base.errors import UsageError
from ..states.records.actions import ToolResult
from ..states.records.questions import Answer, Asking
from ..states.run.spec import Spec, ToolSpec
from ..states.run.state import Change
from ..states.settings.limits import Limits
from ..states.settings.policy import Policy
from ..states.settings.profile import Profile
from .python_literals import DEPTH_MAX, New, depth, made
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

    def played(self) -> Walk:
        """Return what the run does when it is played in this process."""
        with Engine(
            ScriptedModel(made(self.replies)),
            made(self.tools),
            Journal(":memory:", "off"),
            clock=SteppingClock(step_us=1),
            ids=SeededIds(),
            builtins=False,
            **made(self.options),
        ) as engine:
            return play(engine, made(self.run), self.answers)


def scenario_of(journal: Journal, run_id: str) -> Scenario:
    """Return a recorded run as a script."""
    return _Reader(journal, run_id).scenario()


class _Reader:
    """One run, read into a scenario."""

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
        """Return it."""
        before: Transition | None = None
        question = ""
        for row in self._rows:
            change = self._journal.change(self._run, json.dumps(dict(row.change)))
            first = before.counters.get("calls", 0) if before is not None else 0
            self._read(row, change, first, question)
            if change.question:
                question = change.question.kind
            elif row.trigger == "wait":
                question = "in_doubt"
            before = row
        replies = [self._replies.get(number, "") for number in range(max(self._replies, default=-1) + 1)]
        return Scenario(self._arguments(), self._options(), replies, self._tools(replies), self._answers)

    def _text(self, place: dict[str, Any]) -> str:
        body = self._journal.payload(self._run, place["n"]).body
        return body if isinstance(body, str) else (body or b"").decode("utf-8", "surrogatepass")

    def _read(self, row: Transition, change: Change, first: int, question: str) -> None:
        facts, kind = row.outcome, row.outcome["kind"]
        if kind == "reply":
            self._replies[first] = self._reply(facts)
        elif kind == "fault":
            self._replies[first] = New("ModelUnavailable", (facts["code"], self._text(facts["message"])))
        elif kind == "answer":
            self._answers.append(_answer(Answer.model_validate_json(self._text(facts["answer"])), question))
        elif kind == "cancelled":
            if not self._waiting_before(row.seq):
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

    def _waiting_before(self, seq: int) -> bool:
        return seq > 0 and self._rows[seq - 1].trigger == "wait"

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
        if facts["kind"] == "in_doubt":
            return New("EffectUnknown", (facts.get("why", "") or "nobody knows",))
        if facts["kind"] == "asked":
            asking = Asking.model_validate_json(self._text(facts["asked"]))
            return New("AnswerNeeded", (asking.message, asking.answer_schema, asking.state))
        result = change.result
        if not result:
            return None
        if not result.ok:
            sure = result.retryable and row.request.get("effect") == "once"
            return New("NotStarted" if sure else "ToolError", (result.error or "",))
        return self._returned(result)

    def _returned(self, result: ToolResult) -> Any:
        documents = [
            (item.name, self._journal.payload(self._run, item.payload.n).body or "", item.mime)
            for item in result.documents
        ]
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
            New(
                "Document",
                (item.name, self._journal.payload(self._run, item.payload.n).body or "", item.mime),
            )
            for item in spec.documents
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
            given["profile"] = New("Profile", (), _own(spec.profile, Profile()))
        if spec.workflow is not None:
            given["workflow"] = New("Workflow.model_validate", (spec.workflow,))
            given["variables"] = _variables(spec)
        return {"objective": spec.objective, **{name: value for name, value in given.items() if value}}

    def _options(self) -> dict[str, Any]:
        spec = self._spec
        limits, policy = _own(spec.limits, Limits()), _own(spec.policy, Policy())
        given = {"limits": New("Limits", (), limits) if limits or spec.mode == "planner" else None}
        given["policy"] = New("Policy", (), policy) if policy else None
        return {name: value for name, value in given.items() if value is not None}

    def _tools(self, replies: Sequence[Any]) -> list[Any]:
        """Return scripted tools in place of those that were called, or that a model could have meant."""
        said = json.dumps([_plain(reply) for reply in replies], default=str).casefold()
        said += json.dumps(self._spec.workflow or {}).casefold()
        return [
            self._tool(tool)
            for tool in self._spec.tools
            if tool.name in self._outcomes or re.split(r"[._]", tool.name)[-1].casefold() in said
        ]

    def _tool(self, tool: ToolSpec) -> New:
        given = {
            "parameters": tool.parameters,
            "effect": tool.effect,
            "label": tool.label,
            "retries": tool.step_retries,
            "repeat_allowed": tool.repeat_allowed,
            "duplicate_limits": tool.duplicate_limits,
        }
        usual = {
            "effect": "read",
            "label": "result",
            "retries": 0,
            "repeat_allowed": False,
            "duplicate_limits": {},
        }
        options = {name: value for name, value in given.items() if name not in usual or usual[name] != value}
        return New("scripted_tool", (tool.name, self._outcomes.get(tool.name, [])), options)


def _variables(spec: Spec) -> dict[str, Any]:
    """Return the values that a workflow's variables began with, without those that the run makes itself."""
    from ..fsm.workflow.variables import SAME

    flow = spec.flow
    return {
        name: value
        for name, value in (flow.variables if flow is not None else {}).items()
        if name not in SAME
    }


def _own(value: Any, usual: Any) -> dict[str, Any]:
    """Return the settings in which two values differ, as plain data."""
    data: dict[str, Any] = value.model_dump(mode="json")
    default = usual.model_dump(mode="json")
    return {name: item for name, item in data.items() if item != default[name]}


def _answer(given: Answer, question: str) -> dict[str, Any]:
    """Return the arguments of `Engine.resume` that give an answer."""
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


def _plain(reply: Any) -> Any:
    return list(reply.arguments) if isinstance(reply, New) else reply
