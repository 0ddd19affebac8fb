"""
What a step of a plan comes to, once those before it have run: a call, a question, a refusal, or nothing.

A tool step is settled in this order: its native arguments could be read, its tool exists, its placeholders have values,
and what then are its arguments fits the tool's schema. If nothing is wrong but that required arguments are missing, the
user is asked for exactly those; anything else is for the planner to repair, so the call is refused with the reason.

Source: DESIGN section 2 (a planner elicits a missing argument, also one with a default); SPEC A140 to A142, A150, C12
to C14, B1.6.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ..states.plans import Elicitation, Step
from ..states.spec import ToolSpec
from ..tools.catalog import Catalog
from ..tools.schema import ParameterSchema, Problem
from .placeholders import StepOutput, resolve_arguments

NEVER_RETRIED = frozenset(
    ("denied", "duplicate_call_blocked", "invalid_parameters", "unsafe_parameters", "reconciled")
)
"""Error codes after which the same call would end in the same way (SPEC C14)."""

_SHOWN = 5
_SHARED = ("$defs", "definitions")


@dataclass(frozen=True, slots=True)
class Called:
    """A tool is to be called with these arguments, placeholders resolved."""

    tool: ToolSpec
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Asked:
    """
    The user is to be asked.

    Attributes:
        question: With the schema of its answer.
        tool: Of the step that lacks arguments; empty for an elicitation step.
        missing: Names of those arguments.
    """

    question: Elicitation
    tool: str = ""
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Refused:
    """
    The call cannot be made; its result is this error, and the plan goes on.

    Attributes:
        code: ``unknown_action`` or ``invalid_parameters``.
        message: One line for the planner.
    """

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Idle:
    """Nothing is to be done."""


@dataclass(frozen=True, slots=True)
class Aborted:
    """The plan ends the run, with its results so far."""

    reason: str


Settled: TypeAlias = Called | Asked | Refused | Idle | Aborted


def settled(
    steps: Sequence[Step],
    index: int,
    outputs: Sequence[StepOutput | None],
    catalog: Catalog,
    *,
    answer: Mapping[str, Any] | None = None,
) -> Settled:
    """
    Return what step *index* comes to.

    Args:
        steps: Of the plan.
        index: From 0.
        outputs: One per step; None for steps without output and those that have not run.
        catalog: The tools that the run is offered.
        answer: What the user gave when asked for missing arguments; a step's own arguments win.
    """
    step = steps[index]
    if step.type == "noop":
        return Idle()
    if step.type == "abort":
        return Aborted(step.reason.strip() or "the plan ends here")
    if step.type == "elicitation":
        return Asked(step.elicitation or Elicitation(message=step.reason))
    if step.fault is not None:
        return Refused("invalid_parameters", step.fault)
    tool = catalog.find(step.name)
    if tool is None:
        names = ", ".join(item.name for item in catalog)
        return Refused(
            "unknown_action", f"there is no action {ascii(step.name)[:80]}; choose one of: {names}"
        )
    arguments = resolve_arguments(step.args, index, outputs)
    if not isinstance(arguments, dict):
        return Refused("invalid_parameters", _listed([defect.message for defect in arguments]))
    return _checked(tool, catalog.schema(tool), {**(answer or {}), **arguments})


def _checked(tool: ToolSpec, schema: ParameterSchema, arguments: dict[str, Any]) -> Called | Asked | Refused:
    """Return the call if its arguments fit, a question for those that are missing, or why it cannot be made."""
    problems = schema.check(arguments)
    if not problems:
        return Called(tool, arguments)
    missing = tuple(name for name in schema.required if name not in arguments)
    if len(missing) == len(problems) and all(map(_is_missing, problems)):
        return Asked(missing_question(tool, missing), tool.name, missing)
    return Refused("invalid_parameters", _listed([problem.message for problem in problems]))


def _is_missing(problem: Problem) -> bool:
    return problem.code == "missing"


def missing_question(tool: ToolSpec, missing: Sequence[str]) -> Elicitation:
    """
    Return the question for arguments that a call lacks.

    Its schema asks for each of them as the tool's schema declares it; one that is not declared by itself is a text.
    """
    declared = tool.parameters.get("properties")
    known = declared if isinstance(declared, Mapping) else {}
    properties = {name: known.get(name, {"type": "string"}) for name in missing}
    schema: dict[str, Any] = {"type": "object", "properties": properties, "required": list(missing)}
    if "$ref" in json.dumps(properties):
        schema |= {key: tool.parameters[key] for key in _SHARED if key in tool.parameters}
    words = ", ".join(missing)
    return Elicitation.model_validate(
        {"message": f"The tool {tool.name} needs {words}.", "requestedSchema": schema}
    )


def may_retry(step: Step, attempts: int, *, error_code: str | None, is_empty: bool = False) -> bool:
    """
    Return whether a step's call is made once more: attempts are ``1 + retries`` in all.

    Args:
        step: Of the plan.
        attempts: Calls made so far, at least one.
        error_code: Of the last one, None when it succeeded.
        is_empty: Whether it succeeded and returned nothing, which counts as a failure here.
    """
    if attempts > step.retries or error_code in NEVER_RETRIED:
        return False
    return error_code is not None or is_empty


def _listed(messages: Sequence[str]) -> str:
    shown = "; ".join(messages[:_SHOWN])
    return shown if len(messages) <= _SHOWN else f"{shown}; and {len(messages) - _SHOWN} more"
