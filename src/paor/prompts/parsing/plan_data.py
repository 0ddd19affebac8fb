"""
A plan as raw JSON data, read into its model: every defect with its place, or the plan.

Tolerant about form: keys that a model adds, ``arguments`` for ``args``, arguments as JSON text, null for what is not
there, a step without type that names a tool. Strict about meaning: an unknown type, a tool step without a tool or a
question without words is a defect, never skipped.

Source: document 004 section 3; docs/spec-coverage.md, A139 to A143, C11, C13.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, get_args

from pydantic import ValidationError

from ...states.base.wire import Wire
from ...states.records.plans import STEPS_MAX, Elicitation, Plan, Step, StepType
from .tool_calls import Known, any_call, native_step, read_arguments, unsaid

W = TypeVar("W", bound=Wire)

TYPES: tuple[str, ...] = get_args(StepType)

ARGUMENT_KEYS = ("args", "arguments", "parameters", "input")
_STEP_KEYS = {*Step.model_fields, *ARGUMENT_KEYS, "function", "call_id"}
_QUESTION_KEYS = ("message", "schema", "requestedSchema")
_OLD_TYPES = {"clarify_intent": "elicitation"}
"""Source: the original executor, which takes this type for compatibility."""


@dataclass(frozen=True, slots=True)
class PlanProblem:
    """
    One thing that is wrong with a plan.

    Attributes:
        code: From a closed list, for the journal.
        path: Keys and indexes that lead to it from the top.
        message: One ASCII line, without the place.
    """

    code: str
    path: tuple[str | int, ...]
    message: str

    @property
    def place(self) -> str:
        """The path as people write it: ``steps[0].retries``."""
        return place_of(self.path)


def place_of(path: tuple[str | int, ...]) -> str:
    """Return a path as people write it, ``the plan`` for an empty one."""
    shown = ""
    for part in path:
        shown += f"[{part}]" if isinstance(part, int) else f"{'.' if shown else ''}{part}"
    return ascii(shown)[1:-1][:120] or "the plan"


def plan_of(
    data: object, known: Known = any_call, rounded: Collection[float] = ()
) -> Plan | tuple[PlanProblem, ...]:
    """Return *data* as a plan, or everything that is wrong with it; of calls that need all that is said, also what `unsaid` finds."""
    if not isinstance(data, Mapping):
        return (PlanProblem("wrong_type", (), f"expected an object, found {kind_of(data)}"),)
    problems: list[PlanProblem] = []
    raw_steps = data.get("steps")
    if raw_steps is not None and not isinstance(raw_steps, list):
        problems.append(PlanProblem("wrong_type", ("steps",), f"expected a list, found {kind_of(raw_steps)}"))
        raw_steps = []
    if raw_steps is not None and len(raw_steps) > STEPS_MAX:
        message = f"{len(raw_steps)} steps, at most {STEPS_MAX} are allowed"
        problems.append(PlanProblem("too_many_steps", ("steps",), message))
        raw_steps = []
    steps = [_step(raw, ("steps", index), problems) for index, raw in enumerate(raw_steps or ())]
    for index, (raw, step) in enumerate(zip(raw_steps or (), steps, strict=True)):
        if step is not None and step.type == "tool" and step.fault is None:
            beside = [key for key in raw if key not in _STEP_KEYS]
            if (lost := unsaid(beside, step.args, known(step.name), rounded)) is not None:
                problems.append(PlanProblem("arguments", ("steps", index), lost))
    question = _question(data.get("elicitation"), ("elicitation",), problems)
    rest = {key: data[key] for key in ("id", "intention") if data.get(key) is not None}
    head = _validate(Plan, rest, (), problems)
    if problems or head is None:
        return tuple(problems)
    return head.model_copy(update={"steps": tuple(filter(None, steps)), "elicitation": question})


def _step(raw: object, path: tuple[str | int, ...], problems: list[PlanProblem]) -> Step | None:
    if raw is None:
        return Step(type="noop")
    if not isinstance(raw, Mapping):
        problems.append(PlanProblem("wrong_type", path, f"expected an object, found {kind_of(raw)}"))
        return None
    native = native_step(raw)
    data: dict[str, Any] = native or {
        key: raw[key] for key in ("id", "name", "reason", "retries", "fault") if raw.get(key) is not None
    }
    if native is None:
        kind = _type_of(raw, path, problems)
        if kind is None:
            return None
        data["type"] = kind
        data |= _arguments(raw, path, problems)
        if kind == "elicitation":
            data["elicitation"] = _step_question(raw, data.get("args", {}), path, problems)
    if isinstance(data.get("name"), str):
        data["name"] = data["name"].strip()
    step = _validate(Step, data, path, problems)
    if step is not None and step.type == "tool" and not step.name:
        problems.append(
            PlanProblem("no_tool", (*path, "name"), "a step of type tool needs the name of a tool")
        )
    return step


def _type_of(raw: Mapping[str, Any], path: tuple[str | int, ...], problems: list[PlanProblem]) -> str | None:
    """Return a step's type; without one, what its other keys say: a tool's name, a question, or nothing to do."""
    given = raw.get("type")
    if given is None or (isinstance(given, str) and not given.strip()):
        if raw.get("name"):
            return "tool"
        return "elicitation" if raw.get("elicitation") or raw.get("message") else "noop"
    if isinstance(given, str):
        kind = given.strip().lower()
        kind = _OLD_TYPES.get(kind, kind)
        if kind in TYPES:
            return kind
    message = f"expected one of {', '.join(TYPES)}, found {short(given)}"
    problems.append(PlanProblem("unknown_type", (*path, "type"), message))
    return None


def _arguments(
    raw: Mapping[str, Any], path: tuple[str | int, ...], problems: list[PlanProblem]
) -> dict[str, Any]:
    """Return a step's arguments under their one name."""
    given = [key for key in ARGUMENT_KEYS if raw.get(key) is not None]
    if len(given) > 1 and any(raw[key] != raw[given[0]] for key in given):
        message = f"found {' and '.join(given)}, which differ; expected one of them"
        problems.append(PlanProblem("two_arguments", (*path, given[1]), message))
        return {}
    if not given:
        return {}
    read = read_arguments(raw[given[0]])
    if isinstance(read, str):
        problems.append(PlanProblem("arguments", (*path, given[0]), read))
        return {}
    return {"args": read}


def _step_question(
    raw: Mapping[str, Any], args: dict[str, Any], path: tuple[str | int, ...], problems: list[PlanProblem]
) -> Elicitation | None:
    """Return the question of an elicitation step: in ``elicitation``, in the step itself, or in its arguments."""
    found: object = raw.get("elicitation")
    if found is None:
        source = raw if raw.get("message") else args
        found = {key: source[key] for key in _QUESTION_KEYS if source.get(key) is not None}
        if not found:
            words = next((raw[key] for key in ("content", "followup_prompt") if raw.get(key)), None)
            found = {"message": words} if words else None
    before = len(problems)
    question = _question(found, (*path, "elicitation"), problems)
    if question is None and len(problems) == before:
        problems.append(
            PlanProblem("no_question", path, "a step of type elicitation needs a message or a schema")
        )
    return question


def _question(raw: object, path: tuple[str | int, ...], problems: list[PlanProblem]) -> Elicitation | None:
    """Return a question, None for none or a blank one."""
    if raw is None:
        return None
    if not isinstance(raw, Mapping):
        problems.append(PlanProblem("wrong_type", path, f"expected an object, found {kind_of(raw)}"))
        return None
    given = {key: value for key, value in raw.items() if value is not None}
    question = _validate(Elicitation, given, path, problems)
    return None if question is None or question.is_blank else question


_WIRE_NAMES = {"requested_schema": "requestedSchema", "schema_text": "schema"}


def _validate(
    model: type[W], data: object, path: tuple[str | int, ...], problems: list[PlanProblem]
) -> W | None:
    """Return *data* as *model*; what does not fit is added to *problems*, without the foreign value."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        for found in error.errors(include_url=False, include_context=False, include_input=False):
            place = tuple(_WIRE_NAMES.get(str(part), part) for part in found["loc"])
            problems.append(PlanProblem("wrong_type", (*path, *place), ascii(found["msg"])[1:-1][:200]))
        return None


def kind_of(value: object) -> str:
    """Return what a JSON value is, for messages."""
    names = {str: "a text", bool: "true or false", int: "a number", float: "a number", list: "a list"}
    return "nothing" if value is None else names.get(type(value), "an object")


def short(value: object) -> str:
    """Return *value* for a message: at most 60 characters of ASCII."""
    shown = ascii(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."
