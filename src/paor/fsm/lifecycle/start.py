"""Starting: every argument of a run checked, and what the run will be decided by, as one spec."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import orjson
from pydantic import ValidationError

from ...prompts.building.builder import shown_whole
from ...prompts.building.conversation import said_in
from ...prompts.building.templates import NAMES
from ...prompts.clients.settings import said_scrubber
from ...prompts.model import Model, Notice
from ...states.base.errors import UsageError
from ...states.base.secrets import Scrubber
from ...states.base.version import VERSION
from ...states.records.actions import DocumentRef
from ...states.records.observations import Message
from ...states.records.plans import PlannedTask, TranscriptMessage
from ...states.run.labels import key_of, metadata_of, values_of
from ...states.run.spec import CONTEXT_TOKENS, REVISION, TASK_TOOL, Mode, Spec, ToolSpec
from ...states.run.state import label_of
from ...states.settings.limits import Limits, merged_limits
from ...states.settings.policy import Policy
from ...states.settings.profile import AUTO, Profile
from ...tools.documents.reports import check_report_format
from ...tools.documents.tools import check_documents, generate_report
from ...tools.tool import Document, Tool
from ..decision.observation import cut, line
from ..journal.payloads import Stager, is_text
from ..machine.decide import machine_told
from ..machine.table import fingerprint
from ..runtime.tool_results import without_keys
from .arguments import (
    DocumentLike,
    TypedRunOptions,
    auto_profile,
    check_deps,
    check_names,
    check_priced,
    documents_of,
    mode_of,
    model_of,
    planning_template,
    profile_of,
    templates_of,
)
from .fallback import fallback_of, warn_of_legacy
from .instructions import Instructions, instructions_of, instructions_text
from .model_facts import Looking, ModelFacts, facts_of, said_by
from .settings import EngineSettings, phase_templates

if TYPE_CHECKING:
    from .told import Earlier
    from .workflow_start import GivenWorkflow, WorkflowLike


@dataclass(frozen=True, slots=True)
class WorkflowPosition:
    """
    Where a run belongs in a workflow.

    Attributes:
        workflow_id: Id of the workflow; empty: a new one, the run's own id.
        round: From 1.
        task: From 1; 0 is the workflow itself.
        task_id: The task's own name.
        history: What earlier rounds did, newest last, as summaries.
        tasks: Tasks that the host has given.
        options: What the tasks of a workflow are started with.
    """

    workflow_id: str = ""
    round: int = 1
    task: int = 1
    task_id: str = ""
    history: tuple[Message, ...] = ()
    tasks: tuple[PlannedTask, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)


def as_transcript(
    earlier: Earlier, given: Sequence[Mapping[str, str]]
) -> tuple[Earlier, Sequence[Mapping[str, str]]]:
    """Return what a run goes on from with what was said as a transcript."""
    said = [
        {"role": "user" if one.role == "asked" else "assistant", "content": one.words or one.text}
        for told in earlier.told
        for one in said_in(told.text)
        if one.role in ("asked", "assistant", "reply")
    ]
    return replace(earlier, told=()), [*said, *given]


FORMATS = {"md": "md", "markdown": "md", "txt": "txt", "html": "html", "htm": "html", "docx": "docx"}
"""Endings that the final formatting writes."""


@dataclass(frozen=True, slots=True)
class NewRun:
    """
    A run whose arguments are checked, and of which nothing is written yet.

    Attributes:
        spec: What it is decided by, without documents and ids.
        documents: Its input.
        model: That answers.
        connections: Values by label; they are never written.
        deps: What the host hands to its tools; never written.
        given: Which of `FROM_ENGINE` the caller gave.
        notices: What its driver tells first.
        output_type: The Python type of its answer; never written.
        earlier: What it is told of the rounds before; None in no conversation.
    """

    spec: Spec
    documents: Sequence[Document]
    model: Model
    connections: dict[str, Any]
    deps: Any = None
    given: tuple[str, ...] = ()
    notices: tuple[Notice, ...] = ()
    output_type: Any = None
    earlier: Earlier | None = None


FROM_ENGINE = ("limits", "tools", "prompt_template", "profile")
"""Options that are the engine's unless the caller of a run gives them."""


def new_run(
    settings: EngineSettings,
    salt: Callable[[], bytes],
    objective: str,
    success_criteria: Sequence[str],
    documents: Sequence[DocumentLike] = (),
    *,
    model: Model | str | None = None,
    connections: Mapping[str, Any] | None = None,
    deps: Any = None,
    position: WorkflowPosition | None = None,
    earlier: Earlier | None = None,
    **options: Any,
) -> Looking[NewRun]:
    """
    Check every argument of a run, before anything of it is written; pause where the model's server has to be asked.

    Args:
        settings: The engine's own.
        salt: Gives the salt of the run's keys.
        objective, success_criteria, documents, model, connections, deps, options: See `fsm.engine.Engine.stream`.
        position: Where it belongs in a workflow of tasks.
        earlier: What it goes on from, where it is a round of a conversation.

    Raises:
        UsageError: A bad argument.
        TypeError: One that no run takes.
    """
    check_names(options, TypedRunOptions, "run")
    if connections is not None and not isinstance(connections, Mapping):
        raise UsageError("connections must be a mapping of labels to values")
    if earlier is not None and options.get("language") is None and options.get("user_language") is None:
        options["language"] = earlier.language or None
    if not isinstance(options.get("limits"), Limits | Mapping | None):
        raise UsageError("limits must be a Limits value, such as Limits(max_steps=3), or a mapping of limits")
    _check_task_type(options.get("task_type"), settings.policy)
    given = tuple(name for name in FROM_ENGINE if options.get(name) not in (None, AUTO))
    given += ("profile",) if options.get("stage") is not None else ()
    chosen = model_of(model) if model is not None else settings.model
    flow = _given_flow(options.pop("workflow", None), options.pop("variables", None))
    if isinstance(options.get("final_format"), str):
        check_report_format(FORMATS.get(options["final_format"].lower().lstrip(".")))
    modes = {name: options.pop(name, None) for name in ("mode", "react_mode", "workflow_mode")}
    mode = options["mode"] = mode_of(**modes) if flow is None else flow.mode(modes)
    limits, template = options.pop("limits", None), options.pop("prompt_template", None)
    limits = merged_limits(settings.limits_of(mode), limits)
    whole = position is not None and position.task == 0
    if not whole:
        warn_of_legacy(mode)
    options["fallback"] = fallback_of(options.get("fallback"), mode)
    profile = profile_of(
        options.pop("profile", None), options.pop("stage", None), mode=mode, usual=settings.profile
    )
    own_instructions = instructions_of(options.pop("instructions", None))
    output_type = options.get("output_type")
    if flow is not None and earlier is not None:  # a workflow file reads what was said as its own variable
        earlier, options["transcript"] = as_transcript(earlier, options.get("transcript") or ())
    options["output_schema"] = _output_schema(options, chosen)
    inputs = documents_of(documents, size_max=limits.document_bytes)
    names = options.pop("tools", None)
    kept = earlier.inputs if earlier is not None else ()
    if position is None:
        inputs = [replace(item, label="") for item in inputs]
    reads = bool(inputs or kept) or getattr(chosen, "quotes_only", False)
    offered = settings.offered(names, options.get("task_type"), documents=reads)
    if deps is None:
        deps = settings.deps
    check_deps(offered, deps)
    if position is None or whole:  # a task has the documents of its workflow
        check_documents(inputs, offered)
    said, auto = said_by(chosen), profile is None
    if profile is None:  # until its server was asked, a model counts as one that calls tools
        profile = auto_profile(settings.prompts, template, calls_tools=said.calls_tools is not False)
    spec = spec_of(
        objective,
        success_criteria,
        limits=limits_for(limits, chosen, said),
        policy=settings.policy,
        model=chosen,
        offered=() if whole else offered if flow is None else flow.tools_of_workflow(settings.tools, offered),
        templates=templates_of(settings.prompts, template, mode=mode, profile=profile)
        | ({} if whole else phase_templates(settings.machine)),
        profile=profile,
        rules=settings.rules,
        own_templates=(planning_template(mode, profile.stage),) if template else (),
        host_templates=tuple(sorted(settings.prompts)),
        connections=tuple(connections or ()),
        key_salt=salt().hex(),
        **_own_machine(settings, workflow=flow is not None, whole=whole),
        **options,
    )
    if flow is not None:
        listed = [tool.name for tool in offered] if names is not None else None
        spec, chosen = flow.begin_workflow(spec, chosen, tools=listed, own_model=model is not None)
    check_priced(chosen, spec.limits)  # after the workflow, which may name the model
    if position is not None:
        spec = spec_at(spec, position)
    spec = with_instructions(spec, settings.instructions, own_instructions)
    own_context = limits.context_tokens is not None
    known, asked = yield from facts_of(chosen, calls=auto and spec.native, context=not own_context)
    if asked and not known.calls_tools:
        spec = in_two_stages(spec, settings.prompts, template)
    if not own_context and known.context_tokens != said.context_tokens:
        context = known.context_tokens or CONTEXT_TOKENS
        spec = spec.model_copy(update={"limits": spec.limits.model_copy(update={"context_tokens": context})})
    if earlier is not None:
        inputs = [*_kept(spec, earlier), *inputs]
        spec = _in_round(spec, earlier, earlier.round if position is None or whole else position.round)
    if spec.native and inputs and not getattr(chosen, "quotes_only", False):
        sizes = [(is_text(document.data), document.size_bytes) for document in inputs]
        if not kept and len(shown_whole(spec, sizes)) == len(
            sizes
        ):  # the model reads them in its first prompt
            usual = settings.offered(names, options.get("task_type"), documents=False)
            spec = spec.model_copy(update={"tools": tuple(tool.spec() for tool in usual)})
    notices = (_profile_notice(spec),) if asked else ()
    scrub = said_scrubber(chosen)
    spec, inputs = _without_keys(spec, scrub), [without_keys(document, scrub) for document in inputs]
    return NewRun(spec, inputs, chosen, dict(connections or {}), deps, given, notices, output_type, earlier)


def in_turn(
    settings: EngineSettings, spec: Spec, given: Sequence[Document], earlier: Earlier
) -> tuple[Spec, list[Document], Earlier]:
    """
    Return spec and documents of a round that has waited in line, with what it goes on from, as `new_run` makes those of one that has not.

    Args:
        settings: Of the engine that begins it.
        spec: As it was written.
        given: Its own documents.
        earlier: What it goes on from; returned without what the spec has of it.
    """
    inputs = [*_kept(spec, earlier), *given]
    usual, all_of_them = (settings.offered(None, spec.task_type, documents=reads) for reads in (False, True))
    update: dict[str, Any] = {"language": spec.language or earlier.language}
    if len(inputs) > len(given) and [tool.name for tool in spec.tools] == [tool.name for tool in usual]:
        update["tools"] = tuple(tool.spec() for tool in all_of_them)
    if spec.workflow is not None:
        turns = [turn.model_dump() for turn in spec.transcript]
        earlier, said = as_transcript(earlier, turns)
        update["transcript"] = turns_of(said)
    return _in_round(spec.model_copy(update=update), earlier, spec.round), inputs, earlier


def _kept(spec: Spec, earlier: Earlier) -> tuple[Document, ...]:
    """Return the documents of the rounds before with which a round begins."""
    return (*earlier.inputs, *(() if spec.native else earlier.produced))


def _in_round(spec: Spec, earlier: Earlier, number: int) -> Spec:
    return spec.model_copy(
        update={
            "conversation": earlier.conversation,
            "follows": earlier.follows,
            "round": number,
            "asked_before": earlier.asked,
        }
    )


_NOT_SAID = {"tools", "templates", "machine", "host_machine", "limits", "policy", "key"}
"""Members of a spec that name what the host's program has, by which a run that is resumed is compared with it."""


def _without_keys(spec: Spec, scrub: Scrubber) -> Spec:
    """
    Return *spec* without the keys that its model holds, wherever its host has said them; itself where it has not.

    Raises:
        UsageError: The run's own key holds one.
    """
    data = orjson.loads(spec.model_dump_json(exclude=_NOT_SAID))
    clean = scrub.of_data(data)
    if spec.key is not None and scrub(spec.key) != spec.key:
        raise UsageError("key holds a key of the model's server, which no journal may have: use another one")
    return spec if clean == data else spec.model_validate({**orjson.loads(spec.model_dump_json()), **clean})


def in_two_stages(spec: Spec, prompts: Mapping[str, str], template: str | None) -> Spec:
    """Return *spec*, which was made for turns, for a model that does not call tools."""
    profile = Profile()
    kept = {
        name: text for name, text in spec.templates.items() if name not in NAMES
    }  # of the host's own phases
    templates = templates_of(prompts, template, mode=spec.mode, profile=profile) | kept
    update: dict[str, object] = {"profile": profile, "templates": templates}
    if template:
        update["own_templates"] = (planning_template(spec.mode, profile.stage),)
    return spec.model_copy(update=update)


def with_instructions(spec: Spec, usual: Instructions | None, own: Instructions | None) -> Spec:
    """Return *spec* with the instructions of its engine and its own; raise `UsageError` where a function gives none."""
    if usual is None and own is None:
        return spec
    texts = {
        "instructions": instructions_text(usual, spec),
        "own_instructions": instructions_text(own, spec),
    }
    return spec.model_copy(update=texts)


def _profile_notice(spec: Spec) -> Notice:
    """Return what is told of a profile that a server's word has decided."""
    does = "calls tools" if spec.native else "does not call tools"
    return Notice(
        "profile", spec.profile.stage, f"{spec.model}: its server {does}; profile {spec.profile.stage}"
    )


def _own_machine(settings: EngineSettings, *, workflow: bool, whole: bool) -> dict[str, Any]:
    """Return what a spec has of the host's own machine; the run of a workflow walks the standard one, its tasks the host's."""
    if whole or not settings.host_machine:
        return {}
    if workflow:
        raise UsageError(
            "a run that follows a workflow file walks the standard machine; this engine has another one: use an engine without it"
        )
    return {"host_machine": settings.host_machine, "phase_tools": settings.phase_tools}


def _output_schema(options: dict[str, Any], model: Model) -> dict[str, Any] | None:
    """Take the type of the answer out of *options*, and return its JSON Schema; raise `UsageError` where there can be none."""
    output_type = options.pop("output_type", None)
    if output_type is None:
        return None
    if options.get("final_format"):
        raise UsageError(
            "final_format formats a text, and a run with an output_type has none: use one of them"
        )
    if getattr(model, "quotes_only", False):
        raise UsageError(
            f"the model {model.name} only quotes texts and has no output_type; name another model"
        )
    from .output_type import output_schema_of  # few runs have one

    return output_schema_of(output_type)


def _check_task_type(task_type: object, policy: Policy) -> None:
    """Raise `UsageError` for a task type that the policy does not list, if it lists any."""
    if isinstance(task_type, str) and policy.task_types and task_type not in policy.task_types:
        known = ", ".join(policy.task_types)
        raise UsageError(f"task_type {task_type!a:.60} is not in Policy.task_types; there are: {known}")


def limits_for(limits: Limits, model: Model, facts: ModelFacts) -> Limits:
    """Return *limits* with what they leave to the model: who reviews the completion, and how much it can be asked at once."""
    update: dict[str, object] = {}
    own = getattr(model, "completion_review", "auto")
    if limits.completion_review == "auto" and own in ("model", "rules"):
        update["completion_review"] = own
    if limits.context_tokens is None:
        update["context_tokens"] = facts.context_tokens or CONTEXT_TOKENS
    return limits.model_copy(update=update)


def _given_flow(given: WorkflowLike | None, variables: Mapping[str, Any] | None) -> GivenWorkflow | None:
    """Return a workflow file, None without one; what reads it is imported on first use."""
    if given is None and variables is None:
        return None
    from .workflow_start import given_workflow

    return given_workflow(given, variables)


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
    output_schema: dict[str, Any] | None = None,
    key: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    values: Mapping[str, Any] | None = None,
    host_machine: str = "",
    phase_tools: tuple[ToolSpec, ...] = (),
) -> Spec:
    """
    Return the spec of a run, still without documents and ids.

    Args:
        objective, success_criteria, language, user_language, task_type, mode, context, final_format, fallback, transcript, key, metadata, values: See `fsm.engine.Engine.stream`.
        limits, policy, model, offered, templates, own_templates, host_templates, profile, rules: What the engine and the run's options come to.
        connections: Labels only.
        output_schema: JSON Schema of the answer, None for a text.
        key_salt: Hex salt of the run's keys.
        host_machine, phase_tools: The host's own machine, and what its phases call.

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
        objective=clean_text(objective.strip()),
        success_criteria=tuple(clean_text(item.strip()) for item in criteria),
        language=clean_text(language or user_language or ""),
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
        context=clean_text(context or ""),
        final_format=form,
        formatter=generate_report.spec() if form is not None else None,
        output_schema=output_schema,
        transcript=turns_of(transcript),
        key=key_of(key),
        metadata=metadata_of(metadata),
        values=values_of(values),
        host_machine=host_machine,
        phase_tools=phase_tools,
        key_salt=key_salt,
        engine=VERSION,
        revision=REVISION,
        machine=fingerprint(machine_told(host_machine).rows),
    )


def spec_at(spec: Spec, position: WorkflowPosition) -> Spec:
    """Return *spec* at its position in a workflow."""
    update: dict[str, object] = {
        "workflow_id": position.workflow_id,
        "round": position.round,
        "task": position.task,
        "task_id": position.task_id,
        "history": position.history,
    }
    if position.task == 0:
        update |= {"tools": (TASK_TOOL,), "tasks": position.tasks, "children": dict(position.options)}
        update |= {"formatter": None, "final_format": None}
    return spec.model_copy(update=update)


def turns_of(transcript: Sequence[Mapping[str, str]]) -> tuple[TranscriptMessage, ...]:
    """
    Return a conversation in the form that a spec has.

    Raises:
        UsageError: It is not a list of ``{"role": ..., "content": ...}``.
    """
    try:
        turns = [TranscriptMessage.model_validate(turn) for turn in transcript]
    except (ValidationError, TypeError):
        raise UsageError(
            'transcript must be a list of {"role": "user", "content": TEXT} (or assistant, system, tool)'
        ) from None
    return tuple(turn.model_copy(update={"content": clean_text(turn.content)}) for turn in turns)


def texts_of(given: object) -> list[str] | None:
    """Return the texts of a list or of an iterator, read once; None for anything else or an empty text."""
    if not isinstance(given, Iterable) or isinstance(given, str | bytes | Mapping):
        return None
    texts = list(given)
    return texts if all(isinstance(item, str) and item.strip() for item in texts) else None


def clean_text(text: str) -> str:
    """Return a caller's text as JSON can hold it: lone surrogates and NUL replaced."""
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", "\ufffd")


def input_references(spec: Spec, inputs: Sequence[Document], stager: Stager) -> tuple[DocumentRef, ...]:
    """
    Stage the input documents of a run and return their references, those of one label together.

    Documents of a workflow and of earlier rounds keep the labels under which they were produced; others get the label ``input``.
    """
    return tuple(
        DocumentRef(
            number=number,
            label=label,
            position=position,
            name=cut(line(document.name), 200) or "document",
            mime=cut(line(document.mime), 100),
            payload=stager.stage(document.data, cut(line(document.mime), 100)),
            text=is_text(document.data),
        )
        for number, (label, position, document) in enumerate(
            _label_documents(inputs, label_of(spec, 0, "input"))
        )
    )


def _label_documents(documents: Iterable[Document], label: str) -> list[tuple[str, int, Document]]:
    """Return documents with label and position, those of one label together; without a label they get *label*."""
    groups: dict[str, list[Document]] = {}
    for document in documents:
        groups.setdefault(document.label or label, []).append(document)
    return [
        (name, position, document)
        for name, group in groups.items()
        for position, document in enumerate(group)
    ]
