"""What a run was started with; written once, never changed, the root of its hash chain."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, lru_cache
from typing import Annotated, Any, Literal, Self

import orjson
from msgspec import field, to_builtins
from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, field_validator

from ..base.sealed import SealedDict, sealed
from ..base.wire import SEALED, Data, Stored
from ..records.actions import DocumentRef, Effect, StoredText
from ..records.conversation import Item
from ..records.observations import Message
from ..records.plans import PlannedTask, TranscriptMessage
from ..settings.limits import Limits, recorded_limits
from ..settings.policy import Policy
from ..settings.profile import Profile, recorded_profile


@lru_cache(maxsize=64)
def machine_data(text: str) -> Mapping[str, Any]:
    """Return the machine that a spec's `host_machine` tells, an empty mapping for the standard one."""
    data: Mapping[str, Any] = sealed(orjson.loads(text) if text else {})
    return data


REVISION = 2
"""Of the rules that runs are started with."""

CONTEXT_TOKENS = 32_000
"""Of a model whose context nobody knows."""

VARIABLES_BYTES_MAX = 32_768
"""Most bytes, as JSON, of the variables that a workflow keeps; results and plans are not among them."""

FlowKind = Literal["plan", "exec", "tool", "ask", "end", "lost", "waits"]


class FlowState(Stored, frozen=True, gc=False):
    """
    The task that a workflow is at, and what it remembers.

    Attributes:
        at: Number of the task's instruction.
        kind: What is to be done: ask the planner, execute its plan, call a tool, ask the user, or nothing more;
            ``lost`` when it failed before its first task, ``waits`` as long as the run waits for the rounds before it.
        variables: Those that neither the run's rows nor its spec tell.
        last: Payload of the newest result, None when it has none.
        last_data: Whether that is JSON that a tool returned as data, not a text.
        failed: A tool of the task failed, and its hook is being called.
        problem: Why it was lost.
    """

    at: int
    kind: FlowKind
    variables: dict[str, Any] = field(default_factory=dict)
    last: StoredText | None = None
    last_data: bool = False
    failed: bool = False
    problem: str = ""


Mode = Literal["react", "batch", "planner"]


class ToolSpec(BaseModel):
    """
    What a spec keeps of a tool: enough to offer it, check a call and compare it later.

    Attributes:
        name: Canonical compound name, ``method.name``.
        description: One paragraph; not shown in the tiny catalog.
        parameters: JSON Schema (2020-12) of the arguments.
        effect: How often its effect may happen.
        label: Label for its documents.
        repeat_allowed: A polling tool: exempt from the duplicate guard.
        step_retries: How often a retryable error is tried again within the step.
        duplicate_limits: Bounds of the duplicate guard for this tool, by name; the run's for what is not there.
        filled: Names of optional parameters that the run fills where a call leaves them out.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    name: str
    description: str = ""
    parameters: Data = Field(default_factory=SealedDict)
    effect: Effect = "once"
    label: str = "result"
    repeat_allowed: bool = False
    step_retries: int = 0
    duplicate_limits: Annotated[dict[str, int], SEALED] = Field(default_factory=SealedDict)
    filled: tuple[str, ...] = ()


TASK_TOOL = ToolSpec(
    name="workflow.task",
    description="Drive one task of the workflow as a run of its own.",
    parameters={
        "type": "object",
        "properties": {
            "id": {"type": "string"},
            "objective": {"type": "string"},
            "success_criteria": {"type": "array", "items": {"type": "string"}},
            "dependencies": {"type": "array", "items": {"type": "string"}},
            "language": {"type": "string"},
        },
        "required": ["id", "objective"],
        "additionalProperties": False,
    },
    effect="idempotent",
    label="task",
    repeat_allowed=True,
)
"""What the steps of a workflow's own run call; never offered to a model."""


class Spec(BaseModel):
    """
    Everything that decides a run besides what comes from outside.

    Attributes:
        objective: What the run is for, in the user's words.
        success_criteria: Statements that must hold at the end; may be empty.
        language: Language of the answer: the run's, else the user's; empty where nobody asked for one, so that the objective's decides.
        task_type: Name of the task type for the policy, or None.
        mode: ``react`` (one action at a time), ``batch`` or ``planner``.
        profile: How strictly replies are held to their form.
        rules: The host's own business rules of a selection prompt; empty for the shipped ones, where these apply.
        instructions: The engine's instructions to the model, which are in the system text of every prompt.
        own_instructions: Those that the run brought itself, which follow them.
        fallback: Mode in which the task is started again when this run fails, or None.
        fallback_for: Id of the failed run that this one stands in for; empty for none.
        fallback_reason: Why that one failed.
        limits: Bounds and budgets.
        policy: What the host allows.
        tools: The catalog offered to this run, in order.
        own_tools: Whether this run brought the choice of them itself.
        templates: Prompt templates by name, as they were at the start.
        own_templates: Names of those that this run brought itself.
        host_templates: Names of those that its engine was given; the others are paor's.
        model: Name of the model, for people and for replay.
        documents: Input documents.
        pictures: Whether pictures are shown to the model; None in runs from before they could be.
        connections: Labels of connections; their secrets are never here.
        context: Extra context for selection prompts.
        final_format: Ending of the one last formatting action (``md``), or None.
        formatter: The tool of that action; it need not be in the catalog.
        output_schema: JSON Schema of the final answer, or None for a text.
        transcript: The conversation before this run, for a planner.
        workflow: The workflow file as JSON (`states.records.workflow.Workflow`), for a planner; None: plan until it is empty.
        flow: Where that begins, with the first values of its variables.
        workflow_id: The workflow this run belongs to; its own id for a single run.
        conversation: Id of the conversation of which the run is a round; empty for none.
        follows: Id of the run whose round this one follows; empty for none.
        earlier: What was said in the rounds before, oldest first, its texts copied into this run.
        asked_before: Model requests of the rounds before, so that a script goes on where it stood; -1 while it waits for their end.
        round: Round of the workflow, or of the conversation, from 1.
        task: Task within the round, from 1; 0 is the workflow itself, whose steps are its tasks.
        task_id: Name of the task in its workflow's plan.
        tasks: Of a workflow: tasks that the host has given; empty: the model plans them.
        children: Of a workflow: what its tasks are started with (mode, tools, limits and so on).
        history: What earlier rounds of the workflow did, as summaries, newest last.
        key: The host's own key of the run, or None; no other start of the journal has it.
        metadata: What the host finds it by; decides nothing.
        key_salt: Hex salt of this run's duplicate and idempotency keys.
        engine: Version of paor.
        revision: Of paor's own rules, by which the run is decided and replayed; a spec that does not say it is of the first.
        machine: Fingerprint of the transition table.
        host_machine: The host's own machine as JSON (`fsm.machine.markup`), its code by digests; empty for the standard one.
        phase_tools: The tools that its phases call; a model is offered them only where they are among *tools*.
        values: Values from the host that guards may look at, as JSON data.
        fingerprints: Digest of every part that decides the run, by its name (`fsm.versioning.fingerprints`).
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    objective: str
    success_criteria: tuple[str, ...] = ()
    language: str = ""
    task_type: str | None = None
    mode: Mode = "react"
    fallback: Literal["batch"] | None = None
    fallback_for: str = ""
    fallback_reason: str = ""
    profile: Profile = Field(default_factory=Profile)
    rules: tuple[str, ...] = ()
    instructions: str = ""
    own_instructions: str = ""
    limits: Limits = Field(default_factory=Limits)
    policy: Policy = Field(default_factory=Policy)
    tools: tuple[ToolSpec, ...] = ()
    own_tools: bool = False
    templates: Annotated[dict[str, str], SEALED] = Field(default_factory=SealedDict)
    own_templates: tuple[str, ...] = ()
    host_templates: tuple[str, ...] = ()
    model: str = "offline"
    documents: tuple[DocumentRef, ...] = ()
    pictures: bool | None = None
    connections: tuple[str, ...] = ()
    context: str = ""
    final_format: str | None = None
    formatter: ToolSpec | None = None
    output_schema: Data | None = None
    transcript: tuple[TranscriptMessage, ...] = ()
    workflow: Data | None = None
    flow: FlowState | None = None
    workflow_id: str = ""
    conversation: str = ""
    follows: str = ""
    earlier: Annotated[tuple[Item, ...], PlainSerializer(to_builtins)] = ()
    asked_before: int = 0
    round: int = 1
    task: int = 1
    task_id: str = ""
    tasks: tuple[PlannedTask, ...] = ()
    children: Data = Field(default_factory=SealedDict)
    history: tuple[Message, ...] = ()
    key: str | None = None
    metadata: Data = Field(default_factory=SealedDict)
    key_salt: str = ""
    engine: str = ""
    revision: int = 1
    machine: str = ""
    host_machine: str = ""
    phase_tools: tuple[ToolSpec, ...] = ()
    values: Data = Field(default_factory=SealedDict)
    fingerprints: Annotated[dict[str, str], SEALED] = Field(default_factory=SealedDict)

    @field_validator("limits", mode="before")
    @classmethod
    def _recorded_limits(cls, limits: Any) -> Any:
        return recorded_limits(limits) if isinstance(limits, dict) else limits

    @field_validator("profile", mode="before")
    @classmethod
    def _recorded_profile(cls, profile: Any) -> Any:
        return recorded_profile(profile) if isinstance(profile, dict) else profile

    def __copy__(self) -> Self:
        """Return a copy that is asked anew what follows from its fields; `model_copy` changes some of them."""
        copy = super().__copy__()
        for name in vars(copy).keys() - type(self).model_fields:
            del vars(copy)[name]
        return copy

    @cached_property
    def call_policy(self) -> Policy:
        """What the run's own calls are held against: a workflow calls its tasks whatever `policy` says, and these obey it."""
        return self.policy if self.task else Policy()

    @property
    def in_line(self) -> bool:
        """Whether it waits for the end of the rounds before it, of which it is then told."""
        return self.asked_before < 0

    @cached_property
    def context_tokens(self) -> int:
        """Tokens of the model's context."""
        return self.limits.context_tokens or CONTEXT_TOKENS

    @cached_property
    def converses(self) -> bool:
        """Whether its requests are ranges of one growing conversation, not reports made anew: in every profile that holds one."""
        holds = self.revision > 1 if self.plans else self.two_stage
        return holds and self.workflow is None and self.task != 0

    @cached_property
    def two_stage(self) -> bool:
        """Whether the two stages are asked for behind a conversation; the strict profile and earlier versions have reports."""
        profile = self.profile
        return (
            "opening" in self.templates
            and self.mode == "react"
            and profile.stage == "two_stage"
            and not profile.strict
        )

    @cached_property
    def to_the_letter(self) -> bool:
        """Whether the two stages are those of document 003 exactly: every key of Stage 1, and nothing but Stage 1 in Stage 2."""
        profile = self.profile
        return self.revision > 1 and self.mode == "react" and profile.strict and profile.stage == "two_stage"

    @property
    def is_outdated(self) -> bool:
        """Whether it is of an earlier version whose prompts are not made any more: turns that were reports."""
        return self.native and self.revision == 1

    @cached_property
    def native(self) -> bool:
        """Whether the run asks for one turn a step, with the provider's own tool calling."""
        return self.mode == "react" and self.profile.stage == "native"

    @cached_property
    def plans(self) -> bool:
        """Whether a reply may hold several steps, which are taken one after the other without a refinement."""
        return self.mode != "react" or self.profile.stage == "native"
