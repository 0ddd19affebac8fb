"""What comes in as JSON or text: standard input, files, ``--input`` and its fields, answers to a run's question."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from ...fsm.lifecycle.arguments import text_of_file
from ...fsm.lifecycle.options import TYPES, nearest
from ...fsm.lifecycle.resume import answer_of
from ...states.base.errors import InvalidAnswer, UsageError
from ...states.records.questions import Question
from . import terminal as io

_SAME = {"query": "objective", "document": "documents", "output_schema": "output_type"}
_SAME |= {"time_budget": "time_budget_s", "tool_timeout": "tool_timeout_s"}
_SAME |= dict.fromkeys(("criterion", "criteria"), "success_criteria")
BOUNDS = ("max_steps", "token_budget", "time_budget_s", "tool_timeout_s")


Kind = tuple[str, Any, Any]
"""What the value of a field must be: in words, as types, and of a list the types of its items."""

TEXT: Kind = ("a text", str, None)
OBJECT: Kind = ("an object", dict, None)
BOOLEAN: Kind = ("true or false", bool, None)
TEXTS: Kind = ("a list of texts", list, str)


def _kind(hint: Any) -> Kind | None:
    """Return what JSON gives an option of this type, None for one that it cannot give."""
    members = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    by_origin = {get_origin(item) or item: item for item in members}
    if Sequence in by_origin:
        return TEXTS if get_args(by_origin[Sequence]) == (str,) else ("a list of objects", list, dict)
    if bool in by_origin:
        return BOOLEAN
    is_text = str in by_origin or Literal in by_origin
    if Mapping in by_origin:
        return ("a text or an object", str | dict, None) if is_text else OBJECT
    return TEXT if is_text else None


FIELDS: Mapping[str, Kind] = {
    **{name: kind for name, hint in TYPES.items() if (kind := _kind(hint)) is not None},
    **dict.fromkeys(("objective", "prompt_template_file", "output", "durability", "app"), TEXT),
    **dict.fromkeys(("web", "enrich", "tasks"), BOOLEAN),
    **dict.fromkeys(BOUNDS, ("a number", int | float, None)),
    "documents": ("a list of texts", list, str | dict),
    "success_criteria": TEXTS,
    "policy": OBJECT,
}
"""Every field of ``--input``, and what its value must be: the options of a run, by their types, and what else a command is given."""

TEXT_BYTES_MAX = 100_000_000
"""Most that is read of a file of input or of a template; a device has no end."""


def standard_input(bytes_max: int | None = None) -> str:
    """Return standard input as text; raise `UsageError` when it is longer than *bytes_max* bytes, or not UTF-8."""
    data = sys.stdin.buffer.read(-1 if bytes_max is None else bytes_max + 1)
    if bytes_max is not None and len(data) > bytes_max:
        raise UsageError(f"standard input: more than {bytes_max:,} bytes, no more are read")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError("standard input is not UTF-8 text") from None


def input_fields(source: str) -> dict[str, Any]:
    """Return the fields of ``--input`` under the names of `FIELDS`; raise `UsageError` for one that is wrong or unknown."""
    where, data = json_object(source, "--input", "with fields such as objective and documents")
    values: dict[str, Any] = {}
    for key, value in data.items():
        name = _SAME.get(snake(key), snake(key))
        if name not in FIELDS:
            raise UsageError(f"{where}: unknown field {key!r}; {nearest(name, FIELDS)}")
        if name in values:
            raise UsageError(f"{where}: {key!r} gives {name} a second time")
        if value is not None:
            values[name] = _check_field(where, key, name, value)
    return values


def json_object(given: str, option: str, expected: str) -> tuple[str, dict[str, Any]]:
    """Return where a JSON object comes from, the *option* itself, a file or ``-``, and it; raise `UsageError` for anything else."""
    if given.lstrip().startswith(("{", "[", '"')):
        where, text = option, given
    else:
        where, text = ("standard input", standard_input()) if given == "-" else (given, text_file(given))
    data = json_value(text, where)
    if not isinstance(data, dict):
        raise UsageError(f"{where}: expected a JSON object {expected}")
    return where, data


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def text_file(name: str, bytes_max: int | None = None) -> str:
    """Return a file's text; raise `UsageError` when it is missing, unreadable, not UTF-8 or over *bytes_max* bytes."""
    return text_of_file(Path(name), TEXT_BYTES_MAX if bytes_max is None else bytes_max)


def json_value(text: str, where: str) -> Any:
    """Return a JSON value; raise `UsageError` when *text* is something else."""
    try:
        return json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        why = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise UsageError(f"{where}: is not JSON ({why})") from None


def snake(name: str) -> str:
    """Return ``maxSteps``, ``max-steps`` and ``max_steps`` as ``max_steps``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).replace("-", "_").lower()


def _check_field(where: str, key: str, name: str, value: Any) -> Any:
    """Return a field's value; what has to be a text, list or number is one."""
    words, types, items = FIELDS[name]
    if types is list and isinstance(value, str):
        return value.split(",") if name == "tools" else [value]
    good = isinstance(value, types) and (types is bool or not isinstance(value, bool))
    if not good or (types is list and not all(isinstance(item, items) for item in value)):
        raise UsageError(f"{where}: {key} must be {words}")
    return value


APPROVALS = {"yes": True, "approve": True, "no": False, "deny": False}
"""Words that answer an approval, in any case."""


def answer_value(text: str, question: Question | None, flag: str = "--answer ") -> Any:
    """
    Return what ``--answer`` says to *question*, as `Engine.resume` takes it; with none open, the engine will say so.

    For an approval that is one of the words of `APPROVALS`. Anything else is read as JSON, and where that does not fit, or it is none, as the
    text that it is; but what begins like JSON is nothing else, since an answer counts once. What fits in no form is a `UsageError` that
    shows those that do; it puts *flag* before an answer, empty where people type nothing else.
    """
    approves = APPROVALS.get(text.strip().lower())
    if question is not None and question.kind == "approval" and approves is not None:
        return {"approve": approves}
    begins = text.lstrip().startswith(("{", "[", '"'))
    try:
        forms = [json_value(text, flag.strip() or "the answer")]
    except UsageError as error:
        if begins:
            raise UsageError(f"{error}{_forms(question, flag)}") from None
        forms = []
    if forms == [None]:
        raise UsageError(f'{flag}null answers nothing; decline with {{"action": "decline"}}')
    forms += [] if begins else [text]
    if question is None:
        return forms[0]
    if question.kind == "approval" and not flag and not begins:
        raise UsageError(f"{io.one_line(text)[:80]}: expected one of {', '.join(typed_answers(question))}")
    wrong = list[str]()
    for value in forms:
        try:
            answer_of(question, {"answer": value})
            return value
        except InvalidAnswer as error:
            wrong.append(str(error))
    raise UsageError(f"{flag}{io.one_line(text)[:80]}: {wrong[0].rstrip('.')}{_forms(question, flag)}")


def _forms(question: Question | None, flag: str) -> str:
    """Return what answers *question*, to be said after why something does not."""
    if question is None:
        return ""
    words = [f"{flag}{word}" for word in APPROVALS] if question.kind == "approval" else []
    return f"; it takes {', '.join([*words, *_answers_to(question)] if flag else typed_answers(question))}"


def typed_answers(question: Question) -> list[str]:
    """Return what answers *question* where a person types it in place: no options, nothing quoted for a shell."""
    if question.kind == "in_doubt":
        return ['done "what it returned"', "retry", "fail"]
    if question.kind == "approval":
        return ["yes", "no", '{"approve": true, "arguments": {...}}']
    return [shlex.split(words)[1] for words in _answers_to(question)]


def answers_to(question: Question) -> list[str]:
    """Return the options of ``paor resume`` that answer *question*, ready for a shell; each names it."""
    return [f"--question {question.id} {words}" for words in _answers_to(question)]


def _answers_to(question: Question) -> list[str]:
    if question.kind == "in_doubt":
        return ["--outcome done --result '\"what it returned\"'", "--outcome retry", "--outcome fail"]
    if question.kind == "approval":
        return ["--answer '{\"approve\": true}'", "--answer '{\"approve\": false}'"]
    parts = question.schema.get("properties")
    example = _example(question.schema)
    if isinstance(parts, dict):
        example = {name: _example(part) for name, part in parts.items()}
    told = example if isinstance(example, str) else json.dumps(example, ensure_ascii=False)
    return [f"--answer {shlex.quote(told)}", '--answer \'{"action": "decline"}\'']


def _example(schema: Any) -> Any:
    """Return a value of the right type where that is simple."""
    if not isinstance(schema, dict):
        return "..."
    if schema.get("enum"):
        return schema["enum"][0]
    simple = {"boolean": True, "integer": 1, "number": 1, "array": [], "object": {}}
    return simple.get(str(schema.get("type")), "...")
