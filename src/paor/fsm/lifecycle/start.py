"""Starting: every argument of a run checked, and what the run will be decided by, as one spec."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import orjson

from ...prompts.building.builder import readable_size, shown_whole
from ...prompts.building.conversation import said_in
from ...prompts.building.templates import NAMES
from ...prompts.clients.settings import said_scrubber
from ...prompts.model import Model, Notice
from ...states.base.errors import UsageError
from ...states.base.secrets import Scrubber
from ...states.base.version import VERSION
from ...states.records.actions import DocumentRef
from ...states.records.observations import Message, clean, cut
from ...states.records.plans import PlannedTask
from ...states.run.spec import CONTEXT_TOKENS, REVISION, TASK_TOOL, Spec
from ...states.run.state import label_of
from ...states.settings.limits import Limits, merged_limits
from ...states.settings.policy import Policy
from ...states.settings.profile import AUTO, Profile
from ...tools.documents.reports import check_report_format
from ...tools.documents.tools import check_documents, generate_report
from ...tools.tool import Document
from ..decision.observation import line
from ..journal.payloads import Stager, is_text
from ..machine.decide import machine_told
from ..machine.table import fingerprint
from ..runtime.tool_results import without_keys
from .arguments import (
    DocumentLike,
    auto_profile,
    check_deps,
    check_priced,
    documents_of,
    model_of,
    planning_template,
    profile_of,
    templates_of,
)
from .fallback import fallback_of, warn_of_legacy
from .instructions import Instructions, instructions_text
from .model_facts import Looking, ModelFacts, facts_of, said_by
from .options import OPTIONS, RunOptions, Use, turns_of
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
    documents: Sequence[DocumentLike],
    given: RunOptions[Any],
    *,
    position: WorkflowPosition | None = None,
    earlier: Earlier | None = None,
) -> Looking[NewRun]:
    """
    Check every argument of a run, before anything of it is written; pause where the model's server has to be asked.

    Args:
        settings: The engine's own.
        salt: Gives the salt of the run's keys.
        objective, success_criteria, documents: See `fsm.engine.Engine.run`.
        given: The options, as `run_options` has read them.
        position: Where it belongs in a workflow of tasks.
        earlier: What it goes on from, where it is a round of a conversation.

    Raises:
        UsageError: A bad argument.
    """
    options: Mapping[str, Any] = given
    _check_task_type(given["task_type"], settings.policy)
    from_caller = tuple(name for name in FROM_ENGINE if options[name] not in (None, AUTO))
    from_caller += ("profile",) if given["stage"] is not None else ()
    chosen = model_of(given["model"]) if given["model"] is not None else settings.model
    flow = _given_flow(given["workflow"], given["variables"])
    if given["final_format"]:
        check_report_format(given["final_format"])
    mode = flow.mode(given["mode"]) if flow is not None else given["mode"] or "react"
    limits, template = merged_limits(settings.limits_of(mode), given["limits"]), given["prompt_template"]
    whole = position is not None and position.task == 0
    if not whole:
        warn_of_legacy(mode)
    profile = profile_of(given["profile"], given["stage"], mode=mode, usual=settings.profile)
    language, transcript = given["language"] or given["user_language"], given["transcript"]
    if earlier is not None:
        language = language or earlier.language
        if flow is not None:  # a workflow file reads what was said as its own variable
            earlier, transcript = as_transcript(earlier, transcript)
    inputs = documents_of(documents, size_max=limits.document_bytes)
    names, connections = given["tools"], {**(given["connections"] or {}), **settings.connections}
    kept = earlier.inputs if earlier is not None else ()
    if position is None:
        inputs = [replace(item, label="") for item in inputs]
    reads = bool(inputs or kept) or getattr(chosen, "quotes_only", False)
    offered = settings.offered(names, given["task_type"], documents=reads)
    deps = given["deps"] if given["deps"] is not None else settings.deps
    check_deps(offered, deps)
    if position is None or whole:  # a task has the documents of its workflow
        check_documents(inputs, offered)
    said, auto = said_by(chosen), profile is None
    if profile is None:  # until its server was asked, a model counts as one that calls tools
        profile = auto_profile(settings.prompts, template, calls_tools=said.calls_tools is not False)
    usable = () if whole else offered if flow is None else flow.tools_of_workflow(settings.tools, offered)
    spec = spec_of(
        objective,
        success_criteria,
        given,
        mode=mode,
        fallback=fallback_of(given["fallback"], mode),
        language=clean(language or ""),
        transcript=turns_of(transcript),
        limits=limits_for(limits, chosen, said),
        policy=settings.policy,
        model=chosen.name,
        tools=tuple(tool.spec() for tool in usable),
        own_tools=names is not None,
        templates=templates_of(settings.prompts, template, mode=mode, profile=profile)
        | ({} if whole else phase_templates(settings.machine)),
        profile=profile,
        rules=settings.rules,
        own_templates=(planning_template(mode, profile.stage),) if template else (),
        host_templates=tuple(sorted(settings.prompts)),
        connections=tuple(connections),
        output_schema=_output_schema(given, chosen),
        key_salt=salt().hex(),
        **_own_machine(settings, workflow=flow is not None, whole=whole),
    )
    if flow is not None:
        listed = [tool.name for tool in offered] if names is not None else None
        spec, chosen = flow.begin_workflow(
            spec,
            chosen,
            tools=listed,
            own_model=given["model"] is not None,
            waits=earlier is not None and earlier.asked < 0,
        )
    check_priced(chosen, spec.limits)  # after the workflow, which may name the model
    if position is not None:
        spec = spec_at(spec, position)
    spec = with_instructions(spec, settings.instructions, given["instructions"])
    own_context = limits.context_tokens is not None
    known, asked = yield from facts_of(chosen, calls=auto and spec.native, context=not own_context)
    spec = spec.model_copy(update={"pictures": known.takes_pictures is not False})
    if asked and not known.calls_tools:
        spec = in_two_stages(spec, settings.prompts, template)
    if not own_context and known.context_tokens != said.context_tokens:
        context = known.context_tokens or CONTEXT_TOKENS
        spec = spec.model_copy(update={"limits": spec.limits.model_copy(update={"context_tokens": context})})
    if earlier is not None:
        inputs = [*_kept(spec, earlier), *inputs]
        spec = _in_round(spec, earlier, earlier.round if position is None or whole else position.round)
    if spec.native and inputs and not getattr(chosen, "quotes_only", False):
        sizes = [
            readable_size(spec, document.mime, document.size_bytes, is_text=is_text(document.data))
            for document in inputs
        ]
        if not kept and len(shown_whole(spec, sizes)) == len(
            sizes
        ):  # the model reads them in its first prompt
            usual = settings.offered(names, given["task_type"], documents=False)
            spec = spec.model_copy(update={"tools": tuple(tool.spec() for tool in usual)})
    notices = (_profile_notice(spec),) if asked else ()
    scrub = said_scrubber(chosen)
    spec, inputs = _without_keys(spec, scrub), [without_keys(document, scrub) for document in inputs]
    return NewRun(
        spec, inputs, chosen, connections, deps, from_caller, notices, given["output_type"], earlier
    )


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
    update: dict[str, Any] = {"language": spec.language or earlier.language}
    if earlier.inputs and spec.task != 0 and not spec.own_tools:  # with the tools that documents bring
        held = {tool.name: tool for tool in spec.tools}
        usual, whole = (settings.offered(None, spec.task_type, documents=reads) for reads in (False, True))
        found = {tool.name: tool.spec() for tool in whole if tool.name in held or tool not in usual}
        update["tools"] = tuple((found | held).values())
    if spec.workflow is not None:
        turns = [turn.model_dump() for turn in spec.transcript]
        earlier, said = as_transcript(earlier, turns)
        update["transcript"] = turns_of(said)
    spec = _in_round(spec.model_copy(update=update), earlier, spec.round)
    if spec.workflow is not None:
        from .workflow_start import begun_in_turn  # few rounds have one

        spec = begun_in_turn(spec)
    return spec, inputs, earlier


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
    texts = {"instructions": instructions_text(usual, spec), "own_instructions": instructions_text(own, spec)}
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


def _output_schema(given: RunOptions[Any], model: Model) -> dict[str, Any] | None:
    """Return the JSON Schema of the type of the answer, None without one; raise `UsageError` where there can be none."""
    if given["output_type"] is None:
        return None
    if given["final_format"]:
        raise UsageError(
            "final_format formats a text, and a run with an output_type has none: use one of them"
        )
    if getattr(model, "quotes_only", False):
        raise UsageError(
            f"the model {model.name} only quotes texts and has no output_type; name another model"
        )
    from .output_type import output_schema_of  # few runs have one

    return output_schema_of(given["output_type"])


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


def spec_of(objective: str, success_criteria: Sequence[str], given: RunOptions[Any], **decided: Any) -> Spec:
    """
    Return the spec of a run, still without documents and ids.

    Args:
        objective, success_criteria: See `fsm.engine.Engine.run`.
        given: The options of the run, of which the spec records some as they are.
        **decided: Fields of the spec that the engine decides, or the options and the engine together.

    Raises:
        UsageError: An argument that cannot be used.
    """
    if not isinstance(objective, str) or not objective.strip():
        raise UsageError("the objective must be a non-empty text")
    criteria = texts_of(success_criteria)
    if criteria is None:
        raise UsageError("success_criteria must be a list of non-empty texts")
    options: Mapping[str, Any] = given
    recorded = {name: options[name] for name, option in OPTIONS.items() if Use.SPEC in option.use}
    return Spec(
        **recorded
        | {
            "objective": clean(objective.strip()),
            "success_criteria": tuple(clean(item.strip()) for item in criteria),
            "context": clean(given["context"] or ""),
            "conversation": given["conversation"] or "",
            "formatter": generate_report.spec() if given["final_format"] else None,
            "engine": VERSION,
            "revision": REVISION,
            "machine": fingerprint(machine_told(decided.get("host_machine", "")).rows),
        }
        | decided
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


def texts_of(given: object) -> list[str] | None:
    """Return the texts of a list or of an iterator, read once; None for anything else or an empty text."""
    if not isinstance(given, Iterable) or isinstance(given, str | bytes | Mapping):
        return None
    texts = list(given)
    return texts if all(isinstance(item, str) and item.strip() for item in texts) else None


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
