"""A host's instructions to the model, as texts or made by a pure function of what a run is started with."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeAlias

from ...states.base.errors import UsageError
from ...states.run.spec import Mode, Spec

INSTRUCTIONS_CHARS = 100_000
"""Most characters of an engine's instructions, and of a run's."""


@dataclass(frozen=True, slots=True)
class InstructionsContext:
    """
    What a function that gives instructions may look at: how a run is started.

    Attributes:
        objective: What it is for.
        success_criteria: What must hold at its end.
        language: Language of the answer; empty where nobody asked for one.
        mode: ``react``, ``batch`` or ``planner``.
        task_type: As it was given.
        context: The extra context of the run.
        metadata, values: As they were given, read-only.
        round: Round of its workflow, from 1.
        task: Task within the round, from 1; 0 is the workflow of tasks itself.
    """

    objective: str
    success_criteria: tuple[str, ...] = ()
    language: str = ""
    mode: Mode = "react"
    task_type: str | None = None
    context: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)
    round: int = 1
    task: int = 1


Instructions: TypeAlias = str | Callable[[InstructionsContext], str]
"""A text, or a pure function: the same run gets the same text whenever it is asked."""


def instructions_of(given: object) -> Instructions | None:
    """
    Return instructions as they were given, checked as far as that is possible without a run.

    Raises:
        UsageError: Neither a text nor a plain function, or a text that is too long.
    """
    if given is None or isinstance(given, str):
        return _checked(given) if given is not None else None
    if not callable(given) or inspect.iscoroutinefunction(given):
        raise UsageError(
            f"instructions are a text or a function (not async) that returns one, not {type(given).__name__}"
        )
    return given


def instructions_text(given: Instructions | None, spec: Spec) -> str:
    """
    Return the instructions of the run that *spec* starts; empty without any.

    Raises:
        UsageError: The function failed, or what it returned is no text or too long.
    """
    if given is None or isinstance(given, str):
        return given or ""
    context = InstructionsContext(
        objective=spec.objective,
        success_criteria=spec.success_criteria,
        language=spec.language,
        mode=spec.mode,
        task_type=spec.task_type,
        context=spec.context,
        metadata=MappingProxyType(spec.metadata),
        values=MappingProxyType(spec.values),
        round=spec.round,
        task=spec.task,
    )
    try:
        text = given(context)
    except Exception as error:  # the function is the host's own, and may raise anything
        raise UsageError(
            f"instructions: the function raised {type(error).__name__}: {error!s:.200}"
        ) from error
    if not isinstance(text, str):
        raise UsageError(f"instructions: the function returned a {type(text).__name__}, expected a text")
    return _checked(text)


def _checked(text: str) -> str:
    if len(text) > INSTRUCTIONS_CHARS:
        raise UsageError(f"instructions: {len(text):,} characters, at most {INSTRUCTIONS_CHARS:,} are taken")
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", "\ufffd").strip()
