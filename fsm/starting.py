"""Starting: every argument of a run checked, and what the run will be decided by, as one spec."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, cast, get_args

from pydantic import ValidationError

from ..prompts.model import Model
from ..states.actions import DocumentRef
from ..states.errors import UsageError
from ..states.limits import Limits
from ..states.plans import TranscriptMessage
from ..states.policy import Policy
from ..states.profile import Profile
from ..states.run import label_of
from ..states.spec import TASK_TOOL, Mode, Spec
from ..tools.documents import generate_report
from ..tools.tool import Document, Tool
from .observe import cut, line
from .payloads import Stager
from .table import fingerprint
from .version import VERSION

if TYPE_CHECKING:
    from .workflows import Place

FORMATS = {"md": "md", "markdown": "md", "txt": "txt", "html": "html", "htm": "html", "docx": "docx"}
"""Endings that the final formatting writes."""

MODES = get_args(Mode)

PLANNER_STEPS = 1000
"""Steps of a run in planner mode whose host has set no limits: document 004 loops until a plan is empty."""

WORKFLOW_MODES: dict[str, Mode] = {"react": "react", "actionplan": "batch"}
"""What older hosts call a mode, in lower case."""


def mode_of(
    mode: str | None = None, *, react_mode: bool | None = None, workflow_mode: str | None = None
) -> Mode:
    """
    Return the mode that a caller chose, under whichever of its names; ``react`` without a choice.

    Args:
        mode: ``react``, ``batch`` or ``planner``.
        react_mode: True for ``react``, False for ``batch`` (document 002's flag).
        workflow_mode: ``React`` or ``Actionplan``, in any case.

    Raises:
        UsageError: Unknown, or two names that choose differently.
    """
    chosen: dict[str, Mode] = {}
    if mode is not None:
        if mode not in MODES:
            raise UsageError(f"mode {mode!r} is unknown; use {', '.join(MODES)}")
        chosen["mode"] = cast("Mode", mode)
    if react_mode is not None:
        if not isinstance(react_mode, bool):
            raise UsageError(f"reactMode must be true or false, not {react_mode!r}")
        chosen["reactMode"] = "react" if react_mode else "batch"
    if workflow_mode is not None:
        known = WORKFLOW_MODES.get(workflow_mode.lower()) if isinstance(workflow_mode, str) else None
        if known is None:
            raise UsageError(f"workflowMode {workflow_mode!r} is unknown; use React or Actionplan")
        chosen["workflowMode"] = known
    if len(set(chosen.values())) > 1:
        told = ", ".join(f"{name} says {value}" for name, value in chosen.items())
        raise UsageError(f"the mode is given twice and differently: {told}")
    return next(iter(chosen.values()), "react")


def spec_of(
    objective: str,
    success_criteria: Sequence[str],
    *,
    limits: Limits,
    policy: Policy,
    model: Model,
    offered: Sequence[Tool],
    templates: dict[str, str],
    own_templates: tuple[str, ...],
    host_templates: tuple[str, ...],
    profile: Profile,
    rules: tuple[str, ...],
    connections: tuple[str, ...],
    key_salt: str,
    language: str | None = None,
    user_language: str | None = None,
    task_type: str | None = None,
    mode: Mode = "react",
    context: str | None = None,
    final_format: str | None = None,
    fallback: Literal["batch"] | None = None,
    transcript: Sequence[Mapping[str, str]] = (),
) -> Spec:
    """
    Return the spec of a run, still without documents and ids.

    Args:
        objective, success_criteria, language, user_language, task_type, mode, context, final_format, fallback, transcript: See `fsm.engine.Engine.stream`.
        limits, policy, model, offered, templates, own_templates, host_templates, profile, rules: What the engine and the run's options come to.
        connections: Labels only.
        key_salt: Hex salt of the run's keys.

    Raises:
        UsageError: An argument that cannot be used.
    """
    if not isinstance(objective, str) or not objective.strip():
        raise UsageError("the objective must be a non-empty text")
    criteria = texts_of(success_criteria)
    if criteria is None:
        raise UsageError("success_criteria must be a list of non-empty texts")
    if not all(isinstance(label, str) and label.isprintable() and label.strip() for label in connections):
        raise UsageError("the labels of connections must be printable texts")
    texts = {"language": language, "user_language": user_language, "context": context, "task_type": task_type}
    for name, value in texts.items():
        if not isinstance(value, str | None):
            raise UsageError(f"{name} must be a text, not {type(value).__name__}")
    form = FORMATS.get(str(final_format).lower().lstrip(".")) if final_format else None
    if final_format and form is None:
        raise UsageError(f"final format {final_format!r}: use one of {', '.join(FORMATS)}")
    return Spec(
        objective=scrubbed(objective.strip()),
        success_criteria=tuple(scrubbed(item.strip()) for item in criteria),
        language=scrubbed(language or user_language or "en"),
        task_type=task_type,
        mode=mode,
        fallback=fallback,
        limits=limits,
        policy=policy,
        tools=tuple(tool.spec() for tool in offered),
        templates=templates,
        own_templates=own_templates,
        host_templates=host_templates,
        profile=profile,
        rules=rules,
        model=model.name,
        connections=connections,
        context=scrubbed(context or ""),
        final_format=form,
        formatter=generate_report.spec() if form is not None else None,
        transcript=turns_of(transcript),
        key_salt=key_salt,
        engine=VERSION,
        machine=fingerprint(),
    )


def placed(spec: Spec, place: Place, *, detect: bool) -> Spec:
    """
    Return *spec* at its place in a workflow.

    Args:
        spec: As `spec_of` gives it.
        place: Where it stands.
        detect: The language is the one that the planner of the tasks detects.
    """
    update: dict[str, object] = {
        "workflow_id": place.workflow_id,
        "round": place.round,
        "task": place.task,
        "task_id": place.task_id,
        "history": place.history,
    }
    if place.task == 0:
        update |= {"tools": (TASK_TOOL,), "tasks": place.tasks, "children": dict(place.options)}
        update |= {"formatter": None, "final_format": None} | ({"language": ""} if detect else {})
    return spec.model_copy(update=update)


def turns_of(transcript: Sequence[Mapping[str, str]]) -> tuple[TranscriptMessage, ...]:
    """
    Return a conversation as it stands in a spec.

    Raises:
        UsageError: It is not a list of ``{"role": ..., "content": ...}``.
    """
    try:
        turns = [TranscriptMessage.model_validate(turn) for turn in transcript]
    except (ValidationError, TypeError):
        raise UsageError(
            'transcript must be a list of {"role": "user", "content": TEXT} (or assistant, system, tool)'
        ) from None
    return tuple(turn.model_copy(update={"content": scrubbed(turn.content)}) for turn in turns)


def texts_of(given: object) -> list[str] | None:
    """Return the texts of a list or of an iterator, read once; None for anything else or an empty text."""
    if not isinstance(given, Iterable) or isinstance(given, str | bytes | Mapping):
        return None
    texts = list(given)
    return texts if all(isinstance(item, str) and item.strip() for item in texts) else None


def scrubbed(text: str) -> str:
    """Return a caller's text as it may stand in JSON: lone surrogates and NUL replaced."""
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", "\ufffd")


def input_references(spec: Spec, inputs: Sequence[Document], stager: Stager) -> tuple[DocumentRef, ...]:
    """
    Stage the input documents of a run and return their references, those of one label together.

    Documents of a workflow keep the labels under which they were produced; those of a first run stand under ``input``.
    """
    kept = inputs if spec.workflow_id else [replace(item, label="") for item in inputs]
    return tuple(
        DocumentRef(
            number=number,
            label=label,
            position=position,
            name=cut(line(document.name), 200) or "document",
            mime=cut(line(document.mime), 100),
            payload=stager.stage(document.data, cut(line(document.mime), 100)),
        )
        for number, (label, position, document) in enumerate(_grouped(kept, label_of(spec, 0, "input")))
    )


def _grouped(documents: Iterable[Document], label: str) -> list[tuple[str, int, Document]]:
    """Return documents with label and position, those of one label together; without a label they get *label*."""
    groups: dict[str, list[Document]] = {}
    for document in documents:
        groups.setdefault(document.label or label, []).append(document)
    return [
        (name, position, document)
        for name, group in groups.items()
        for position, document in enumerate(group)
    ]
