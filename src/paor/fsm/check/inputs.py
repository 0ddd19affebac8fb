"""
Moves: every kind of outcome that a request of a world's run can come to, as plain data, and the outcome of one. Pure.

What is left out of a move is what no guard and no effect of a row looks at: the words of an answer, the number of a
document, the name of an error. `outcome_of` gives the real outcome, which `fsm.machine.decide.decide` reads like any other.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from ...states.phase import Phase
from ...states.records.actions import DocumentRef, StoredText, ToolResult
from ...states.records.outcomes import (
    Answered,
    Asked,
    Cancelled,
    Ended,
    InDoubt,
    ModelFault,
    NoOutcome,
    Outcome,
    Recalled,
    Replied,
    Unaffordable,
    Usage,
)
from ...states.records.questions import Answer, Asking, QuestionRecord
from ...states.records.requests import ModelRequest, Nothing, Recall, Request, ToolRequest
from ...states.records.reviews import SCORE_UNIT
from ...states.run.phase_names import EXECUTING, PHASES, SPECIFYING
from ...states.run.state import Run
from ...tools.schema.parameters import ParameterSchema, SchemaError
from ..decision.duplicate_calls import duplicate_key
from ..decision.host_machine import recorded_phases
from .bounded_specs import BUDGET, CALL, CRITERION, DENIED, READ, BoundedSpec
from .findings import Move

VALUES_MAX = 8
"""Values of one schema that are tried."""


def fitting_values(schema: Mapping[str, Any] | None) -> tuple[dict[str, Any], ...]:
    """
    Return objects that fit *schema*: a smallest one, and one for each other choice or truth value of its properties.

    Args:
        schema: Of an object; None for any, which is empty then.

    Returns:
        At most `VALUES_MAX`; empty when none could be made, such as for a pattern.
    """
    if schema is None:
        return ({},)
    least = smallest_of(schema)
    if not isinstance(least, dict):
        return ()
    found: list[dict[str, Any]] = []
    for value in (least, *_others(least, schema)):
        if value not in found and not problems_of(schema, value):
            found.append(value)
    return tuple(found[:VALUES_MAX])


def problems_of(schema: Mapping[str, Any] | None, value: dict[str, Any]) -> bool:
    """Return whether *value* does not fit *schema*, or nothing that can be said of it does."""
    try:
        return bool(ParameterSchema(dict(schema or {"type": "object"})).check(value))
    except SchemaError:
        return True


def _others(least: dict[str, Any], schema: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for name, item in schema.get("properties", {}).items():
        if isinstance(item, Mapping):
            choices = item.get("enum", [True, False] if item.get("type") == "boolean" else [])
            yield from ({**least, name: choice} for choice in choices)


def smallest_of(schema: Any) -> Any:
    """Return a small value of *schema*: its constant, its first choice, its required names, what its type and bounds need."""
    if not isinstance(schema, Mapping):
        return "x"
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return schema["enum"][0]
    for name in ("anyOf", "oneOf"):
        if schema.get(name):
            return smallest_of(schema[name][0])
    kind = schema.get("type", "object" if "properties" in schema else "string")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object":
        properties = schema.get("properties", {})
        return {name: smallest_of(properties.get(name, {})) for name in schema.get("required", ())}
    if kind == "array":
        return [smallest_of(schema.get("items", {}))] * schema.get("minItems", 0)
    if kind == "string":
        return "x" * max(1, schema.get("minLength", 1))
    if kind in ("integer", "number"):
        return schema.get("minimum", schema.get("maximum", 1))
    return {"boolean": True, "null": None}.get(kind)


PLANNED_RETRIES = 1
"""Of a plan's step that has any."""

PLACE = StoredText(0, "00" * 32, 1)
NOW_US = 1_767_225_600_000_000
NEW_TEXTS = tuple(f"{kind}{number}" for number in range(60) for kind in "nam")
"""Arguments of calls, by the number of the action before: new, to be approved, the second of a turn; no path has as many."""

READ_KEY = duplicate_key("00", READ, {})
"""Duplicate key of the one call of the tool that reads, in any world."""

LATE_US = NOW_US + 10**14
"""After every approval has ended."""


def outcome_of(move: Move, run: Run) -> Outcome:
    """Return the outcome of *move* for *run*."""
    kind = move["kind"]
    if kind == "reply":
        return _model_replied(move["text"], BUDGET if move.get("spends") else 0)
    if kind == "result":
        return _tool_ended(move, run)
    if kind == "answer":
        return Answered(Answer(action=move["action"], content=move.get("content")), PLACE)
    if kind == "recalled":
        return Recalled(("text",) * move["texts"])
    return _PLAIN[kind]


_PLAIN: dict[str, Outcome] = {
    "none": NoOutcome(),
    "fault": ModelFault("timeout", "no answer", PLACE),
    "unaffordable": Unaffordable("token_budget"),
    "in_doubt": InDoubt("driver_lost"),
    "asked": Asked(Asking(message="Which one?"), PLACE),
    "cancelled": Cancelled(),
}


@lru_cache(maxsize=1024)
def _model_replied(text: str, tokens: int) -> Replied:
    return Replied(text, PLACE, "stop", Usage(1, tokens, 0))


def _tool_ended(move: Move, run: Run) -> Ended:
    intent, again = run.memory.intent, bool(move.get("retryable"))
    tool, label = (intent.tool, intent.label) if intent is not None else (CALL, "result")
    usage = Usage(1, BUDGET, 0) if move.get("spends") else Usage()
    if not move["ok"]:
        failed = ToolResult(tool, ok=False, error="it failed", error_code="tool_error", retryable=again)
        return Ended(failed, usage)
    document = DocumentRef(run.counters.documents, label, 0, "result.txt", "text/plain", PLACE)
    return Ended(ToolResult(tool, ok=True, documents=(document,), retryable=again), usage)


def moves_of(run: Run, request: Request, world: BoundedSpec) -> Iterator[Move]:
    """Yield every move from where *run* is; a cancellation last."""
    question, reply = run.memory.question, run.memory.reply
    if question is not None:
        yield from _answers(run, question)
    elif isinstance(request, ModelRequest):
        for name, data, may_spend in _replies(run, request.kind, world):
            text = data if isinstance(data, str) else json.dumps(data)
            yield {"move": name, "kind": "reply", "text": text}
            if may_spend and world.full:
                yield {"move": f"{name}, budget spent", "kind": "reply", "text": text, "spends": True}
        yield {"move": "model fault", "kind": "fault"}
        if world.full and not run.counters.formatted:
            yield {"move": "unaffordable", "kind": "unaffordable"}
    elif isinstance(request, ToolRequest):
        yield from _ends(run, request, world)
    elif isinstance(request, Recall):
        yield {"move": "recalled", "kind": "recalled", "texts": len(request.payloads)}
    elif isinstance(request, Nothing) and run.state == EXECUTING:
        done = reply is not None and reply.action == "done"
        yield {"move": "reconciled", "kind": "result", "ok": done}
    else:
        yield {"move": "nothing", "kind": "none"}
        if run.state == SPECIFYING and reply is not None:
            yield {"move": "nothing, much later", "kind": "none", "late": True}
    yield {"move": "cancelled", "kind": "cancelled"}


def _answers(run: Run, question: QuestionRecord) -> Iterator[Move]:
    given: list[Any] = [{}]
    kind = question.kind
    if run.state not in PHASES:
        given = list(fitting_values(question.answer_schema)) or given
    elif kind == "approval":
        given = [{"approve": True}, {"approve": False}]
    elif kind == "argument":
        given += [{"text": text} for _, text in _texts(run)]
    elif kind == "elicitation":
        given += [{"words": "given"}]
    answers = [("accept", content) for content in given]
    if kind == "in_doubt":
        answers = [("done", "it happened"), ("retry", None), ("fail", "it did not")]
    for action, content in answers:
        name = f"{action} {json.dumps(content)}"
        yield {"move": name, "kind": "answer", "action": action, "content": content}
    for action in ("cancel",) if kind == "in_doubt" else ("decline", "cancel"):
        yield {"move": action, "kind": "answer", "action": action}


def _ends(run: Run, request: ToolRequest, world: BoundedSpec) -> Iterator[Move]:
    yield {"move": "result", "kind": "result", "ok": True}
    if run.memory.plan is not None:
        yield {"move": "empty result", "kind": "result", "ok": True, "retryable": True}
    yield {"move": "error", "kind": "result", "ok": False}
    yield {"move": "retryable error", "kind": "result", "ok": False, "retryable": True}
    if world.full:
        yield {"move": "result, budget spent", "kind": "result", "ok": True, "spends": True}
    if request.intent.effect == "once":
        yield {"move": "in doubt", "kind": "in_doubt"}
    yield {"move": "tool asks", "kind": "asked"}


Reply = tuple[str, dict[str, Any] | str, bool]
"""Name, JSON data or text, and whether it may use up the budget, of a kind of reply."""


def _replies(run: Run, kind: str, world: BoundedSpec) -> Iterator[Reply]:
    """Yield every kind of reply to a request."""
    met = {"criteria": [{"criterion": CRITERION, "met": True}]}
    if kind == "selection":
        yield "select", _select(CALL, _FIELDS), True
        yield "select the tool that reads", _select(READ, []), False
        yield "select a denied tool", _select(DENIED, _FIELDS), False
        yield "answer", {"action": None, "answer": "It is known."}, True
        yield "invalid reply", "no JSON", True
    elif kind == "answer":
        yield "answer", {"answer": "It is known."}, True
        yield "invalid reply", {"answer": ""}, True
    elif kind == "parameters":
        for name, text in _texts(run):
            yield f"{name} call", _parameters_reply(text=text), name == "new"
        yield "unsafe parameters", _parameters_reply(text="x", url="file:///etc/passwd"), False
        yield "invalid parameters", _parameters_reply(), True
        yield "invalid reply", "no JSON", False
    elif kind == "plan":
        yield from _plans(run)
    elif kind == "turn":
        yield from _turns(run)
    elif kind == "refinement":
        go_on, best = {"decision": "continue", "reason": "more to do"}, run.counters.best_score or 0
        yield "continue", go_on, True
        if not world.full:
            yield "continue, the score rises", {**go_on, "score": best // SCORE_UNIT + 1}, False
            yield "continue, the score does not rise", {**go_on, "score": best // SCORE_UNIT}, False
        yield "stop", {"decision": "stop", "reason": "done"}, True
        yield "stop with an answer", {"decision": "stop", "reason": "done", "answer": "It is known."}, True
        if world.full:
            yield "continue, criteria met", {**go_on, **met}, True
        yield "invalid reply", "no JSON", True
    elif kind == "phase":
        yield from _phase_replies(recorded_phases(run.spec.host_machine)[run.state], world)
    else:
        for status in ("success", "retry", "failed"):
            yield f"review {status}", {"status": status, "improvements": []}, True
        if world.full:
            yield "review retry, criteria met", {"status": "retry", "improvements": [], **met}, True
        yield "invalid reply", "no JSON", True


def _phase_replies(phase: Phase, world: BoundedSpec) -> Iterator[Reply]:
    """Yield the replies to a phase of a host's own: what they say decides only where they choose the mode and the limits."""
    values = _choices(phase, world) if phase.chooses else fitting_values(phase.reply)
    for number, value in enumerate(values):
        yield f"a reply that fits: {json.dumps(value)}", value, not number
    yield "invalid reply", "no JSON", True


LOWER = {"parameter_retries": 1}
"""Limits that a first phase chooses; the other limits of a world are as low as can be chosen."""


def _choices(phase: Phase, world: BoundedSpec) -> tuple[dict[str, Any], ...]:
    """Return the replies of a first phase that choose the mode of *world*; what they choose else, other worlds have."""
    mode = "react" if world.mode == "native" else world.mode
    least = smallest_of(phase.reply or {})
    plain = {name: value for name, value in least.items() if name not in ("mode", "limits")}
    tried: tuple[dict[str, Any], ...] = (
        {"mode": mode},
        {},
        {"mode": mode, "limits": LOWER},
        {"limits": LOWER},
    )
    allowed = [value for more in tried if not problems_of(phase.reply, value := {**plain, **more})]
    return tuple(allowed[::2] if len(allowed) == len(tried) else allowed)


def _plans(run: Run) -> Iterator[Reply]:
    new = f"n{run.counters.action}"
    asks = {"message": "Which?", "requestedSchema": {}}
    for name, text in _texts(run):
        yield f"plan {name} call", _plan(_step(CALL, text=text)), name == "new"
    yield "plan two calls", _plan(_step(CALL, text=new), _step(CALL, text=f"{new} $step[0].output")), False
    yield "plan a call with retries", _plan({**_step(CALL, text=new), "retries": PLANNED_RETRIES}), False
    yield "plan a denied call", _plan(_step(DENIED, text=new)), False
    yield "plan an unsafe call", _plan(_step(CALL, text="x", url="file:///etc/passwd")), False
    yield "plan a call without its argument", _plan(_step(CALL)), False
    yield "plan a question", _plan({"type": "elicitation", "elicitation": asks}), False
    yield "plan to abort", _plan({"type": "abort", "reason": "no use"}), False
    yield "plan nothing, then a call", _plan({"type": "noop"}, _step(CALL, text=new)), False
    yield "ask", {"steps": [], "elicitation": asks}, True
    yield "empty plan", {"steps": []}, True
    yield "invalid reply", {"steps": "none"}, True


def _turns(run: Run) -> Iterator[Reply]:
    new = f"n{run.counters.action}"
    for name, text in _texts(run):
        yield f"{name} call", _turn(_step(CALL, text=text)), name == "new"
    yield "a call of the tool that reads", _turn(_step(READ)), False
    yield "two calls", _turn(_step(CALL, text=new), _step(CALL, text=f"m{run.counters.action}")), False
    yield "two calls, the second reads", _turn(_step(CALL, text=new), _step(READ)), False
    yield "two calls without their argument", _turn(_step(CALL), _step(CALL)), False
    yield (
        "a call of the tool that reads, then one without its argument",
        _turn(_step(READ), _step(CALL)),
        False,
    )
    yield "a denied call", _turn(_step(DENIED, text=new)), False
    yield "a call of an unknown tool", _turn(_step("check.unknown", text=new)), False
    yield "an unsafe call", _turn(_step(CALL, text="x", url="file:///etc/passwd")), False
    yield "a call without its argument", _turn(_step(CALL)), False
    yield "answer", "It is known.", True
    yield "invalid reply", "", True


def _texts(run: Run) -> Iterator[tuple[str, str]]:
    """Yield the argument of a call that is new, of one to be approved, and of one that was made before."""
    count = run.counters.action
    yield "new", f"n{count}"
    yield "new, to be approved,", f"a{count}"
    yield from made_texts(run).items()


def made_texts(run: Run) -> dict[str, str]:
    """
    Return arguments of calls that *run* has executed, one of each kind that makes a difference, by the name of its move.

    With native calls it matters whether the call has left a result: one that failed has none.
    """
    found: dict[str, str] = {}
    for text in NEW_TEXTS[: 3 * run.counters.action]:
        key = key_of_call(text)
        if key in run.memory.window:
            failed = run.spec.native and key not in run.memory.outputs
            found.setdefault("repeated, failed" if failed else "repeated", text)
    return found


def read_made(run: Run) -> str:
    """Return how the call that only reads stands: ``""`` for not made, ``made``, or ``known`` with its result."""
    if READ_KEY not in run.memory.window:
        return ""
    return "known" if READ_KEY in run.memory.outputs else "made"


@lru_cache(maxsize=4096)
def key_of_call(text: str) -> str:
    """Return the duplicate key of a call in any world."""
    return duplicate_key("00", CALL, {"text": text})


_FIELDS = [{"name": "text", "type": "string", "required": True}, {"name": "url", "type": "string"}]


def _select(tool: str, fields: Sequence[object]) -> dict[str, Any]:
    return {
        "action": tool,
        "actionObjective": "check",
        "requiredInputDocuments": [],
        "parametersSchema": {"fields": fields},
    }


def _parameters_reply(**values: str) -> dict[str, Any]:
    return {"schema": "parameters_v1", "parameters": values}


def _step(tool: str, **args: Any) -> dict[str, Any]:
    return {"type": "tool", "name": tool, "args": args}


def _turn(*steps: dict[str, Any]) -> dict[str, Any]:
    calls = [{"id": "c", "name": step["name"], "arguments": step["args"]} for step in steps]
    return {"text": "", "calls": calls}


def _plan(*steps: dict[str, Any]) -> dict[str, Any]:
    return {"id": "p", "intention": "check", "steps": list(steps)}
