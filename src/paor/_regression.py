"""
A recorded run as a regression test: its inputs, replies, tool outcomes and answers, told to scripts.

A test is only written when it passes: what would be written is played here first, and must take the same transitions
and call the same tools as the record. What looks like a secret is replaced by a word of its own, the same everywhere.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from ._regression_source import CALLABLE, DEPTH_MAX, New, changed, depth, made, names_in, source
from .fsm.engine import Engine
from .fsm.excerpts import Excerpts
from .fsm.journal import Journal
from .fsm.journal_rows import Transition
from .fsm.ports import SeededIds, SteppingClock
from .fsm.redaction import EXCERPT, Redaction
from .fsm.version import VERSION
from .prompts.scripted import ScriptedModel
from .states.actions import ToolResult
from .states.errors import PaorError, UsageError
from .states.limits import Limits
from .states.policy import Policy
from .states.profile import Profile
from .states.run import Change
from .states.spec import Spec, ToolSpec
from .states.waiting import Answer, Asking
from .testing import Walk, play, walk


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


def regression_test(journal: Journal, run_id: str, redaction: Redaction | None = None) -> str:
    """
    Return the source of a test that plays a run again.

    Args:
        journal: That holds it.
        run_id: Its id.
        redaction: Rules of what must not stand in it; None: those that are shipped.

    Raises:
        UsageError: The run cannot be told as a script, and why.
        UnknownRun: There is none.
    """
    row = journal.run(run_id)
    _check(journal, row.run_id)
    rules = redaction if redaction is not None else Redaction()
    try:
        recorded = walk(journal, row.run_id)
        scenario, hidden = _without_secrets(_Reader(journal, row.run_id).scenario(), rules)
        played = _played(scenario, recorded, hidden)
        text = _source(scenario, played, row.run_id)
    except RecursionError:
        raise UsageError(f"run {row.run_id}: its data is nested too deeply for a test") from None
    if rules.found_in(text):
        raise UsageError(
            f"run {row.run_id}: a secret would stand in the test, in a form that cannot be replaced"
        )
    return text


def _played(scenario: Scenario, recorded: Walk, hidden: int) -> Walk:
    """
    Return what a scenario does when it is played.

    Raises:
        UsageError: It is not what is recorded.
    """
    try:
        played = scenario.played()
    except (PaorError, AssertionError, TypeError) as error:
        told = f"playing it ended with {type(error).__name__}: {error}"
        raise UsageError(_unlike(recorded.run_id, hidden, told)) from None
    if (place := _first_difference(recorded, played)) is not None:
        raise UsageError(_unlike(recorded.run_id, hidden, place))
    return played


def _unlike(run_id: str, hidden: int, place: str) -> str:
    why = f"; {hidden} texts were replaced since they look like secrets" if hidden else ""
    return f"run {run_id}: as a script it would not do what is recorded: {place}{why}"


def _first_difference(recorded: Walk, played: Walk) -> str | None:
    """Return where a script leaves the record, None when it does not."""
    for number, (one, other) in enumerate(_longest(recorded.triggers, played.triggers)):
        if one != other:
            return f"row {number} is {one}, played {other}"
    for number, (one, other) in enumerate(_longest(recorded.tools, played.tools), 1):
        if one != other:
            return f"call {number} is {one}, played {other}"
    ends = (recorded.state, recorded.reason), (played.state, played.reason)
    return None if ends[0] == ends[1] else f"it ended in {ends[0]}, played {ends[1]}"


def _longest(one: Sequence[str], other: Sequence[str]) -> Iterator[tuple[str, str]]:
    for place in range(max(len(one), len(other))):
        yield tuple(names[place] if place < len(names) else "nothing" for names in (one, other))  # type: ignore[misc]


def _check(journal: Journal, run_id: str) -> None:
    """
    Refuse what cannot be told as a script.

    Raises:
        UsageError: And why.
    """
    row = journal.run(run_id)
    name = f"run {row.run_id}"
    if row.status not in ("done", "failed"):
        raise UsageError(f"{name} is {row.status}; a test is made of a run that has ended")
    if len(journal.lineage(row.run)) > 1:
        raise UsageError(f"{name} is a fork, which begins in another run; a test is made of a run of its own")
    if row.task == 0:
        raise UsageError(
            f"{name} is a workflow that drives other runs; export its first task, or runs of their own"
        )
    if (row.round, row.task) != (1, 1):
        raise UsageError(
            f"{name} is task {row.task} of round {row.round}: it begins with what other runs have left"
        )
    if row.reason == "time_budget":
        raise UsageError(f"{name} ended since its time was used up, which a script cannot show")
    if any(payload.body is None for payload in journal.iterate_payloads(row.run, 200)):
        raise UsageError(f"{name}: something of it has been erased")
    rows = journal.transitions(row.run_id)
    if any("spec" in item.request for item in rows):
        raise UsageError(f"{name}: changes of prompts, tools or policy were accepted on its way")


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
    from .fsm.flow_values import SAME

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


# -- secrets ---------------------------------------------------------------------------------------------------


def _without_secrets(scenario: Scenario, rules: Redaction) -> tuple[Scenario, int]:
    """Return a scenario without what looks like a secret, and how many texts were changed."""
    values = {name: getattr(scenario, name) for name in Scenario.__slots__}
    secrets: dict[str, str] = {}

    def gather(text: str | bytes) -> str | bytes:
        for name, hits in rules.found_in(text).items():
            for hit in hits:
                secrets.setdefault(hit, name)
        return text

    changed(list(values.values()), gather)
    if not secrets:
        return scenario, 0
    ordered = sorted(secrets, key=len, reverse=True)
    numbers = {secret: number for number, secret in enumerate(secrets, 1)}
    index, count = Excerpts(ordered, least=EXCERPT), [0]

    def hide(text: str | bytes) -> str | bytes:
        found: Any = text
        for secret in ordered:
            mark = f"redacted-{numbers[secret]}"
            found = (
                found.replace(secret.encode(), mark.encode())
                if isinstance(found, bytes)
                else found.replace(secret, mark)
            )
        if rules.found_in(found) or index.stand_in(found):
            found = b"redacted" if isinstance(text, bytes) else "redacted"
        count[0] += found != text
        return found  # type: ignore[no-any-return]

    return replace(scenario, **{name: changed(value, hide) for name, value in values.items()}), count[0]


# -- source ----------------------------------------------------------------------------------------------------


HEAD = '''"""
A recorded run as a regression test, as `paor export --pytest` has written it.

The model and the tools are scripts that say again what they said then; nothing is asked and nothing is done. It fails
when the run takes another way, calls other tools, or comes to another end. Tools are stubs: their code is not tested.
"""

from __future__ import annotations

'''

BODY = '''

def test_run_{name}(tmp_path):
    """The run of paor {version}; its phases, its calls and its answer are as they were."""
    with Engine(
        ScriptedModel(REPLIES),
        tools(),
        Journal(tmp_path / "runs.db", "off"),
        clock=SteppingClock(step_us=1),
        ids=SeededIds(),
        builtins=False,
        **OPTIONS,
    ) as engine:
        seen = play(engine, RUN, ANSWERS)
        assert problems(engine.journal) == []
    assert seen.phases == PHASES
    assert seen.triggers == TRIGGERS
    assert [(call.tool, call.arguments) for call in seen.calls] == CALLS
    assert (seen.state, seen.reason) == END
    assert seen.answer == ANSWER
'''


def _source(scenario: Scenario, played: Walk, run_id: str) -> str:
    """Return the file."""
    constants = {
        "RUN": scenario.run,
        "OPTIONS": scenario.options,
        "REPLIES": scenario.replies,
        "ANSWERS": scenario.answers,
        "PHASES": played.phases,
        "TRIGGERS": played.triggers,
        "CALLS": [(call.tool, dict(call.arguments)) for call in played.calls],
        "END": (played.state, played.reason),
        "ANSWER": played.answer,
    }
    written = [f"{name} = {source(value, 0)}\n" for name, value in constants.items()]
    tools = f"\n\ndef tools():\n    return {source(scenario.tools, 4)}\n"
    body = "\n".join(written) + tools
    names = names_in([*constants.values(), scenario.tools])
    imports = _imports(names, uses_json="json.loads(" in body)
    name = re.sub(r"[^0-9a-z]", "_", run_id.lower())[:40]
    return HEAD + imports + "\n" + body + BODY.format(name=name, version=VERSION)


def _imports(names: set[str], *, uses_json: bool) -> str:
    places = {"paor": {"Engine", "Journal", "ScriptedModel", "SeededIds", "SteppingClock"}}
    places["paor.testing"] = {"play", "problems"}
    for name in names:
        places[CALLABLE[name]].add(name.partition(".")[0])
    lines = ["import json\n"] if uses_json else []
    for place, found in places.items():
        lines.append(f"from {place} import (\n" + "".join(f"    {name},\n" for name in sorted(found)) + ")")
    return "\n".join(lines) + "\n"
