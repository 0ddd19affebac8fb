"""Near misses that only one kind of reply has: merged names, missing wrappers, words that are none of the closed lists."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from .reply_builder import FAMILIES, Family, Said, Verdict, miss

Change = Callable[[dict[str, Any]], Any]


def _own(verdict: Verdict, change: Change) -> Family:
    """Return a family that changes the reply's object, not its text."""
    return Family(verdict, lambda text: json.dumps(change(json.loads(text))))


def _set(**keys: Any) -> Change:
    return lambda data: data | keys


def _without(*names: str) -> Change:
    return lambda data: {name: value for name, value in data.items() if name not in names}


def _only(**keys: Any) -> Change:
    return lambda data: keys


def _first(key: str, change: Change) -> Change:
    return lambda data: data | {key: [change(data[key][0]), *data[key][1:]]}


_FIELD = {"name": "odd", "type": "string", "required": True, "description": "odd"}

OWN: dict[str, dict[str, Family]] = {
    "selection": {
        "merged_method": _own("refused", _set(action={"method": "notes.read", "name": "page"})),
        "several_actions": _own("refused", lambda data: data | {"action": [data["action"]] * 2}),
        "unknown_tool": _own("refused", _set(action="nobody.knows")),
        "no_tool_name": _own("refused", _set(action="just words")),
        "wrong_type": _own("refused", _set(action=17)),
        "no_action": _own("refused", _without("action")),
        "no_answer": _own("refused", _set(action=None, answer="")),
        "blank_answer": _own("either", _set(action=None, answer="  ")),
        "has_parameters": _own("refused", _set(parameters={"page": 1})),
        "no_objective": _own("either", _set(actionObjective="")),
        "schema_as_list": _own("refused", _set(parametersSchema=[_FIELD])),
        "forbidden_field": _own(
            "refused", _set(parametersSchema={"fields": [_FIELD | {"name": "documentList"}]})
        ),
        "bad_field_type": _own("refused", _set(parametersSchema={"fields": [_FIELD | {"type": "date"}]})),
        "no_such_document": _own("either", _set(requiredInputDocuments=["docList:somewhere_else"])),
        "no_reference": _own("either", _set(requiredInputDocuments=["contract.pdf"])),
        "no_such_connection": _own("either", _set(requiredConnection="nobody")),
        "review_instead": _own("refused", _only(status="success", improvements=[])),
    },
    "parameters": {
        "no_wrapper": _own("refused", lambda data: data["parameters"]),
        "other_version": _own("refused", _set(schema="parameters_v2")),
        "no_version": _own("read", _without("schema")),
        "values_as_list": _own("refused", lambda data: data | {"parameters": [data["parameters"]]}),
        "values_as_text": _own("refused", lambda data: data | {"parameters": json.dumps(data["parameters"])}),
        "values_are_null": _own("refused", _set(parameters=None)),
        "documents_given": _own(
            "either", lambda data: data | {"parameters": data["parameters"] | {"documentList": ["docList:x"]}}
        ),
        "selection_instead": _own("refused", _only(action="notes.read")),
    },
    "refinement": {
        "no_such_decision": _own("refused", _set(decision="halt")),
        "no_decision": _own("refused", _without("decision")),
        "decision_is_true": _own("refused", _set(decision=True)),
        "criteria_as_text": _own("refused", _set(criteria="all met")),
        "met_as_text": _own("refused", _set(criteria=[{"criterion": "x", "met": "perhaps"}])),
        "score_as_word": _own("refused", _set(score="high")),
        "review_instead": _own("refused", _only(status="success", improvements=[])),
    },
    "review": {
        "no_such_status": _own("refused", _set(status="fine")),
        "no_status": _own("refused", _without("status")),
        "status_is_true": _own("refused", _set(status=True)),
        "status_as_list": _own("refused", _set(status=["success"])),
        "criteria_as_text": _own("refused", _set(criteria="all met")),
        "refinement_instead": _own("refused", _only(decision="stop", reason="done")),
    },
    "plan": {
        "steps_as_object": _own("refused", _set(steps={"0": {}})),
        "unknown_type": _own("refused", _first("steps", _set(type="think"))),
        "unknown_tool": _own("refused", _first("steps", _set(type="tool", name="nobody.knows"))),
        "no_tool_name": _own("refused", _first("steps", lambda step: {"type": "tool", "args": {}})),
        "two_arguments": _own("refused", _first("steps", _set(args={"a": 1}, arguments={"a": 2}))),
        "arguments_as_list": _own("refused", _first("steps", _set(args=[1]))),
        "own_output": _own("refused", _first("steps", _set(args={"page": "$step[0].output"}))),
        "later_output": _own("refused", _first("steps", _set(args={"page": "$step[7].output"}))),
        "negative_retries": _own("refused", _first("steps", _set(retries=-1))),
        "step_as_text": _own("refused", lambda data: data | {"steps": ["read page 1", *data["steps"]]}),
        "too_many_steps": _own("refused", lambda data: data | {"steps": data["steps"][:1] * 2000}),
        "bare_step": _own("either", lambda data: data["steps"][0] if data.get("steps") else {}),
    },
    "task_plan": {
        "no_tasks": _own("refused", _set(tasks=[])),
        "tasks_as_text": _own("refused", _set(tasks="read, then write")),
        "own_dependency": _own("refused", _first("tasks", _set(id="a", dependencies=["a"]))),
        "no_such_dependency": _own("refused", _first("tasks", _set(dependencies=["nobody"]))),
        "no_objective": _own("refused", _first("tasks", _without("objective"))),
        "id_twice": _own("refused", lambda data: data | {"tasks": data["tasks"][:1] * 2}),
    },
    "turn": {
        "no_calls": _own("either", _set(calls=[])),
        "calls_as_object": _own("either", _set(calls={"0": {}})),
        "no_call_name": _own("either", _first("calls", _set(name=None))),
        "arguments_as_list": _own("either", _first("calls", _set(arguments=[1]))),
        "call_as_text": _own("either", lambda data: data | {"calls": ["read page 1"]}),
        "bare_call": _own("read", lambda data: data["calls"][0]),
    },
    "answer": {
        "no_answer": _own("refused", _set(answer="")),
        "answer_is_null": _own("refused", _set(answer=None)),
        "answer_as_list": _own("refused", lambda data: data | {"answer": [data["answer"]]}),
        "blank_answer": _own("either", _set(answer=" ")),
        "selection_instead": _own("refused", _only(action="notes.read", actionObjective="read on")),
    },
    "phase": {
        "value_in_a_list": _own("refused", lambda data: [data]),
        "selection_instead": _own("either", _only(action="notes.read", actionObjective="read on")),
    },
    "text": {},
    "summary": {},
}
"""Families by kind of request."""


def families(kind: str) -> dict[str, Family]:
    """Return every family of near misses of a *kind* of reply, those that any reply has first."""
    return FAMILIES | OWN[kind]


def near_miss(said: Said, family: str) -> Said:
    """Return the near miss of *family* made from the good reply *said*; itself where there is nothing to change."""
    own = OWN[said.kind].get(family)
    if own is None:
        return miss(said, family)
    try:
        text = own.change(said.text)
    except (KeyError, IndexError, TypeError, ValueError):
        return said
    if text == said.text:
        return said
    verdict = own.verdict
    if said.kind == "selection" and "action" not in said.means:  # an answer: its other keys are not read
        verdict = "either"
    good = {"read": said.good, "refused": False, "either": None}[verdict]
    return said._replace(text=text, family=family, good=good, means=said.means if good else {})
