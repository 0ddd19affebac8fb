"""
How a model's reply is read: raw text in, one typed value or one `Invalid` out; never an exception.

Lenient about packaging (fences, prose around the JSON, extra keys), strict about meaning: a reply that could be
read in two ways is invalid and is asked again, it is never executed as guessed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

from msgspec import Struct
from pydantic import ValidationError

from ...states.base.wire import Wire
from ...states.records.actions import (
    FORBIDDEN_FIELDS,
    SET_BY_CODE,
    ActionParameters,
    ActionSelection,
    SchemaField,
    Selection,
)
from ...states.records.reviews import REASON_CHARS, Refinement, Review, says_something
from ...states.settings.profile import Profile
from .json_reading import Unreadable, after_thinking, read_object, rounded_in
from .plan_data import ARGUMENT_KEYS, short
from .tool_calls import unsaid

PARAMETERS_SCHEMA = "parameters_v1"
WRAPPER = "reply"
"""The key around a reply of several forms, at servers that take no alternatives at the top of a schema."""

_ALIAS = re.compile(r"[A-Za-z][A-Za-z0-9]*[_:/-][A-Za-z0-9_:/-]*[A-Za-z0-9]")
"""``web_fetch``, ``web:fetch``: the catalog knows whether it is a name."""
W = TypeVar("W", bound=Wire)
R = TypeVar("R")


class Invalid(Struct, frozen=True):
    """
    A reply that cannot be used.

    Attributes:
        code: From a closed list, for the journal.
        message: One line for the next prompt and for people.
    """

    code: str
    message: str


_CUT_OFF = {
    "length": "was cut off at its token limit; answer more briefly",
    "repetition": "said the same again and again and was cut off; say each thing once",
}
_CUT = ("empty", "truncated", "no_json", "malformed")
"""What a reply can look like that was cut off."""


def after(finish: str, read: R) -> R | Invalid:
    """
    Return *read*, or what the way the reply ended says better.

    A reply that was refused or filtered is no answer, whatever can be read from it; one that was cut off may be whole
    all the same: models run on after the object that was asked for.
    """
    if finish in ("refusal", "content_filter"):
        return Invalid(finish, "the model declined to answer")
    if isinstance(read, Invalid) and finish in _CUT_OFF and read.code in _CUT:
        return Invalid(finish, f"the reply {_CUT_OFF[finish]}")
    return read


_MADE_UP = re.compile(
    r"(?:\s*<(tool_response|tool_result|function_results?)>(?:(?!</?\1>).)*(?:</\1>|\Z))+\s*", re.DOTALL
)


def answer_in(said: str) -> str | Invalid:
    """Return an answer without the thoughts before it, or why it is none: some small models write the template of a tool's result."""
    answer = after_thinking(said).strip()
    if answer and not _MADE_UP.fullmatch(answer):
        return answer
    told = "found nothing but thoughts, or a tool's result, which only a tool gives; expected an action or an answer"
    return Invalid("no_answer", told)


class DirectAnswer(Struct, frozen=True):
    """Stage 1 chose no action: ``{"answer": "..."}``, also beside ``"action": null``."""

    text: str


class Parameters(Struct, frozen=True):
    """Stage 2's values, and the names that were dropped since Stage 2 may not set them."""

    values: dict[str, Any]
    dropped: tuple[str, ...] = ()


TWO_STAGE = Profile.model_construct()
"""Takes every form that a document has."""


def read_selection(
    text: str, *, chars_max: int, context_chars: int, profile: Profile = TWO_STAGE, whole: bool = False
) -> Selection | DirectAnswer | Invalid:
    """
    Read Stage 1: document 003's object by default, 002's ``{"action": {"method", "name"}}`` as well.

    Args:
        text: The raw reply.
        chars_max: A longer reply is invalid unread.
        context_chars: `parametersContext` is cut to this, with a marker.
        profile: Which forms are taken.
        whole: Whether every key that document 003 prints must be there, and no other.
    """
    data = _object(text, chars_max)
    if isinstance(data, Invalid):
        return data
    if "parameters" in data:
        return Invalid("has_parameters", "Stage 1 must not include `parameters`; the next step collects them")
    action = data.get("action")
    if action is None or (action in _NO_ACTION and not profile.strict and data.get("answer")):
        return _direct_answer(data, strict=profile.strict)
    if isinstance(action, str) and not profile.strict:
        named = _WITH_PARAMETERS.match(action)
        action = named[1] if named is not None else action
    compact = isinstance(action, dict)
    problem = _off_profile(action, data.get("parametersSchema"), profile.stage) if profile.strict else None
    problem = problem or (_wrong_keys(data) if whole else None)
    if problem is not None:
        return problem
    tool = _tool_of(action)
    if isinstance(tool, Invalid):
        return tool
    return _selection(data, tool, compact=compact, context_chars=context_chars, strict=profile.strict)


_NO_ACTION = ("null", "none", "None", "")
"""What models write for null beside an answer."""

_WITH_PARAMETERS = re.compile(r"([^(]*+)\(.*\)\s*+\Z", re.DOTALL)
"""A name as the catalog shows it, followed by its parameters: ``orders.lookup(order_id)``."""


def _object(text: str, chars_max: int) -> dict[str, Any] | Invalid:
    """Return the object of a reply."""
    data = read_object(text, chars_max=chars_max)
    if isinstance(data, Unreadable):
        return Invalid(data.code, data.message)
    return unwrapped(data)


def unwrapped(data: dict[str, Any]) -> dict[str, Any]:
    """Return a reply's object without the one key that some servers need around alternatives."""
    inner = data.get(WRAPPER)
    return inner if len(data) == 1 and isinstance(inner, dict) else data


def _off_profile(action: object, schema: object, stage: str) -> Invalid | None:
    """Return in what a reply leaves the one form of the strict profile, or None."""
    if stage == "single":
        if not isinstance(action, dict):
            return Invalid("action_form", '`action` must be {"method": "...", "name": "..."}')
        method, name = str(action.get("method")), str(action.get("name"))
        if "." in method or name.startswith(f"{method}."):
            return Invalid(
                "merged_method", "`method` is what stands before the first dot, `name` what follows it"
            )
        return None
    if isinstance(action, dict) or (isinstance(action, str) and "." not in action):
        return Invalid("action_form", '`action` must be one text, "method.name"')
    fields = schema.get("fields") if isinstance(schema, dict) else None
    for place, field in enumerate(fields if isinstance(fields, list) else ()):
        if isinstance(field, dict) and (field.get("type") == "array" or field.get("values") is not None):
            where = f"`parametersSchema.fields[{place}]`"
            return Invalid("schema_fields", f"{where}: the type array and `values` are not among its forms")
    return None


_STAGE_1 = (
    *("action", "actionObjective", "learnings", "requiredInputDocuments"),
    *("requiredConnection", "parametersContext", "parametersSchema"),
)
_FIELD = ("name", "type", "required", "description")


def _wrong_keys(data: dict[str, Any]) -> Invalid | None:
    """Return which keys of Stage 1 and of its fields are not there, or which others are, or None."""
    lacking = [name for name in _STAGE_1 if name not in data]
    schema = data.get("parametersSchema")
    fields = schema.get("fields") if isinstance(schema, dict) else None
    if not lacking and not isinstance(fields, list):
        lacking = ["parametersSchema.fields"]
    for place, field in enumerate(fields if isinstance(fields, list) else ()):
        own = field if isinstance(field, dict) else {}
        lacking += [f"parametersSchema.fields[{place}].{name}" for name in _FIELD if name not in own]
    if lacking:
        return Invalid("missing_keys", f"Stage 1 lacks {_list(lacking)}")
    more = [key for key in data if key not in (*_STAGE_1, "answer")]
    return Invalid("unknown_keys", f"Stage 1 has no {_list(more)}") if more else None


def _direct_answer(data: dict[str, Any], *, strict: bool) -> DirectAnswer | Invalid:
    """Return the answer beside ``"action": null``, or the one that stands alone; beside keys of an action it is none."""
    answer = data.get("answer")
    given = "action" in data if strict else "action" in data or len(data) == 1
    if given and isinstance(answer, str) and says_something(answer):
        return DirectAnswer(answer.strip())
    if "action" in data:
        return Invalid("no_action", "`action` is null, so `answer` must be a non-empty text")
    return Invalid(
        "no_action", 'the key `action` is missing; expected "method.name" or null with an `answer`'
    )


def _tool_of(action: object) -> str | Invalid:
    """Return the compound name, with a merged ``method`` normalised once where its meaning is certain."""
    if isinstance(action, str):
        method, dot, name = action.strip().partition(".")
        if not dot and _ALIAS.fullmatch(method):
            return method
        if not (method and dot and name):
            return Invalid("action_name", f'`action` must be "method.name", found {short(action)}')
        return f"{method}.{name}"
    if isinstance(action, list):
        return Invalid("several_actions", f"exactly one action per step, found a list of {len(action)}")
    if not isinstance(action, dict):
        return Invalid("action_name", f'`action` must be "method.name", found {short(action)}')
    choice = validated(ActionSelection, action)
    if isinstance(choice, Invalid):
        return choice
    method, name = choice.method, choice.name
    if name.startswith(f"{method}."):
        return name
    if method.endswith(f".{name}"):
        return method
    if "." in method:
        return Invalid(
            "merged_method",
            f"`method` {short(method)} holds a dot and does not end with `name` {short(name)}",
        )
    return choice.tool


def _selection(
    data: dict[str, Any], tool: str, *, compact: bool, context_chars: int, strict: bool
) -> Selection | Invalid:
    """Return the whole Stage 1 object; with the *compact* form everything but the action is optional."""
    objective = data.get("actionObjective")
    if not (isinstance(objective, str) and objective):
        if not compact or objective is not None:
            return Invalid("objective", "`actionObjective` must be a non-empty text")
        objective = ""
    fields = _schema_fields(data.get("parametersSchema"))
    if isinstance(fields, Invalid):
        return fields
    context = data.get("parametersContext")
    raw: dict[str, Any] = {
        "objective": objective.strip(),
        "learnings": data.get("learnings"),
        "documents": data.get("requiredInputDocuments"),
        "connection": data.get("requiredConnection"),
        "context": _cut(context, context_chars) if isinstance(context, str) else context,
        "fields": fields,
    }
    raw = {"tool": tool} | {name: value for name, value in raw.items() if value not in (None, "", [])}
    selection = validated(Selection, raw, names=_STAGE_1_NAMES)
    if strict and isinstance(selection, Selection):
        for reference in selection.documents:
            if not reference.startswith(("docList:", "docItem:")):
                return Invalid(
                    "reference",
                    f"{short(reference)} is not a reference; use docList:LABEL or docItem:LABEL#0",
                )
    return selection


_STAGE_1_NAMES = {
    "documents": "requiredInputDocuments",
    "connection": "requiredConnection",
    "context": "parametersContext",
    "objective": "actionObjective",
}


def _schema_fields(schema: object) -> tuple[SchemaField, ...] | Invalid | None:
    if schema is None:
        return None
    if not isinstance(schema, dict) or not isinstance(schema.get("fields", []), list):
        return Invalid("schema_fields", '`parametersSchema` must be {"fields": [...]}')
    fields: list[SchemaField] = []
    for raw in schema.get("fields", []):
        field = validated(SchemaField, raw)
        if isinstance(field, Invalid):
            return Invalid("schema_fields", f"`parametersSchema.fields[{len(fields)}]`: {field.message}")
        if field.name.lower() in FORBIDDEN_FIELDS:
            return Invalid("forbidden_field", f"`parametersSchema` must not list {short(field.name)}")
        fields.append(field)
    return tuple(fields)


def read_parameters(
    text: str,
    known: Callable[[str], bool],
    *,
    chars_max: int,
    profile: Profile = TWO_STAGE,
    exact: bool = False,
    all_said: bool = False,
) -> Parameters | Invalid:
    """
    Read Stage 2: ``{"schema": "parameters_v1", "parameters": {...}}``; a missing `schema` is tolerated.

    Args:
        text: The raw reply.
        known: Whether the tool has a parameter of this name.
        chars_max: A longer reply is invalid unread.
        profile: Whether `schema` must be there, and whether forbidden names are dropped or refused.
        exact: Whether a name that Stage 2 may not set, or that the tool does not have, makes the reply invalid; else it is dropped.
        all_said: Whether a parameter beside `parameters`, in the strict profile any other key, and a rounded number make it invalid.
    """
    data = _object(text, chars_max)
    if isinstance(data, Invalid):
        return data
    if "parameters" not in data:
        return Invalid("no_wrapper", 'the values must stand in {"parameters": {...}}')
    wrapper = validated(ActionParameters, data)
    if isinstance(wrapper, Invalid):
        return wrapper
    name, values = wrapper.schema_name, wrapper.parameters
    if name not in (None, PARAMETERS_SCHEMA):
        return Invalid("schema_name", f"`schema` must be {PARAMETERS_SCHEMA!r}, found {short(name)}")
    if name is None and profile.strict and profile.stage == "two_stage":
        return Invalid("schema_name", f"`schema` must be {PARAMETERS_SCHEMA!r}, and it is missing")
    if all_said:
        beside = [key for key in data if key not in ("schema", "parameters")]
        if beside and profile.strict:
            return Invalid("unknown_keys", f"beside `parameters` there must not be {_list(beside)}")
        if [key for key in beside if key in ARGUMENT_KEYS and data[key] != values]:
            return Invalid("two_arguments", "the values must stand in `parameters` alone")
        if (lost := unsaid(beside, values, known, rounded_in(text))) is not None:
            return Invalid("arguments", lost)
    forbidden = [
        name for name in values if name.lower() in (SET_BY_CODE if known(name) else FORBIDDEN_FIELDS)
    ]
    if forbidden and (exact or profile.forbidden == "reject"):
        return Invalid("forbidden_field", f"`parameters` must not hold {_list(forbidden)}")
    unknown = [name for name in values if name not in forbidden and not known(name)]
    if unknown and (exact or profile.strict):
        return Invalid("unknown_parameter", f"the action has no such parameters: {_list(unknown)}")
    dropped = (*forbidden, *unknown)
    return Parameters({name: value for name, value in values.items() if name not in dropped}, dropped)


def read_answer(text: str, *, chars_max: int) -> DirectAnswer | Invalid:
    """Read ``{"answer": str}``, which is asked for when the tools are withheld; words without JSON are the answer, too."""
    data = _object(text, chars_max)
    if isinstance(data, Invalid):
        plain = after_thinking(text).strip() if data.code == "no_json" else ""
        return DirectAnswer(plain) if plain else data
    answer = data.get("answer")
    if isinstance(answer, str) and says_something(answer):
        return DirectAnswer(answer.strip())
    return Invalid("no_answer", "`answer` must be a non-empty text")


def read_refinement(
    text: str, *, chars_max: int, strict: bool = False, first: bool = False
) -> Refinement | Invalid:
    """
    Read ``{"decision": "continue"|"stop", "reason": str, "hint"?: str, ...}``, as document 002 has it.

    Unless *strict*, decision and reason may both be missing: an action that is named means to go on, and is a hint for the next
    selection; an answer means to stop.

    Args:
        text: The reply.
        chars_max: Most characters that are read.
        strict: Whether both have to be given.
        first: Whether it is read as the first journals were: a reason was made up where none was given.
    """
    data = _object(text, chars_max)
    if isinstance(data, Invalid):
        return data
    data = {name: value for name, value in data.items() if value is not None}
    if first:
        return _first_refinement(data)
    if isinstance(reason := data.get("reason"), str):
        data["reason"] = _cut(" ".join(reason.split()), REASON_CHARS)
    given = strict or "decision" in data
    if not given:
        action = data.pop("action", None)
        if isinstance(action, str) and action not in _NO_ACTION:
            data["decision"] = "continue"
            if isinstance(hint := data.get("hint", ""), str):
                said = hint if says_something(hint) else ""
                data["hint"] = f"Take the action {action}. {said}".rstrip()
        elif "answer" in data:
            data["decision"] = "stop"
    return _with_reason(data) if given else validated(Refinement, data)


def _first_refinement(data: dict[str, Any]) -> Refinement | Invalid:
    action, hint = data.pop("action", None), data.get("hint", "")
    if action in _NO_ACTION and data.get("answer"):
        action = None
    if "decision" not in data and isinstance(action, str):
        if isinstance(hint, str):
            data["hint"] = f"Take the action {action} now. {hint if says_something(hint) else ''}".rstrip()
        data |= {"decision": "continue", "reason": f"{action} is to follow"}
    elif "decision" not in data and "answer" in data:
        data |= {"decision": "stop", "reason": "no action is needed any more"}
    return _with_reason(data)


def _with_reason(data: dict[str, Any]) -> Refinement | Invalid:
    read = validated(Refinement, data)
    if isinstance(read, Invalid) or read.reason:
        return read
    wrong = "String should have at least 1 character" if "reason" in data else "Field required"
    return Invalid("wrong_type", f"`reason`: {wrong}")


def read_review(text: str, *, chars_max: int) -> Review | Invalid:
    """Read ``{"status": "success"|"retry"|"failed", ...}``."""
    return _read(Review, text, chars_max)


def read_host_reply(text: str, *, chars_max: int) -> dict[str, Any] | Invalid:
    """Parse the object requested by a host phase; the caller validates its schema."""
    return _object(text, chars_max)


def read_output(text: str, *, chars_max: int) -> Review | Invalid:
    """Read ``{"output": ...}``, or the output itself where it is an object, as a successful review."""
    data = _object(text, chars_max)
    if isinstance(data, Invalid):
        return data
    return Review(status="success", output=data.get("output", data))


def _read(model: type[W], text: str, chars_max: int) -> W | Invalid:
    data = _object(text, chars_max)
    if isinstance(data, Invalid):
        return data
    return validated(model, {name: value for name, value in data.items() if value is not None})


def validated(model: type[W], data: object, *, names: dict[str, str] | None = None) -> W | Invalid:
    """Return *data* as *model*, or which key is wrong and how; foreign values are not echoed."""
    try:
        found: W = model.__pydantic_validator__.validate_python(data)
        return found
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "the object"
        head, dot, tail = place.partition(".")
        place = (names or {}).get(head, head) + dot + tail
        return Invalid("wrong_type", f"`{place}`: {first['msg']}")


def _cut(text: str, chars_max: int) -> str:
    """Return *text* within *chars_max* characters, with a marker when something was cut."""
    return text if len(text) <= chars_max else text[: chars_max - 1] + "…" if chars_max else ""


def _list(names: list[str]) -> str:
    shown = ", ".join(short(name) for name in names[:10])
    return shown if len(names) <= 10 else f"{shown} and {len(names) - 10} more"
