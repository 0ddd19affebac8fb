"""
The options of every way to start, resume, answer and fork a run: each is declared once, as a field of a TypedDict.

A field has the option's name and type, and an `Option` with its default, its flag and how it is read; the docstring above it has its
description. Signatures are typed by these TypedDicts, and from `RunOptions` are made: the reference, the flags of ``paor run`` and
``paor chat``, the fields of ``--input``, what a spec records, what the tasks of a workflow inherit, and what a key is compared by.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Flag, auto
from functools import cache
from types import MappingProxyType, UnionType
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    TypedDict,
    _SpecialForm,  # what a Literal is to a type checker
    cast,
    get_args,
    get_type_hints,
)

from pydantic import ValidationError
from typing_extensions import TypeVar

from ...prompts.model import Model
from ...states.base.errors import UnknownOption, UsageError
from ...states.records.observations import clean
from ...states.records.plans import TranscriptMessage
from ...states.records.workflow import Workflow
from ...states.run.labels import conversation_of, key_of, metadata_of, values_of
from ...states.run.spec import Mode
from ...states.settings.limits import Limits
from ...states.settings.policy import Policy
from ...states.settings.profile import Profile, Stage
from .instructions import Instructions, instructions_of

T = TypeVar("T", default=Any)
D = TypeVar("D", bound=Mapping[str, Any])
OutputType = type[T] | Mapping[str, Any] | UnionType | _SpecialForm | None
"""What a type checker takes for the type of an answer."""

FORMATS = {"md": "md", "markdown": "md", "txt": "txt", "html": "html", "htm": "html", "docx": "docx"}
"""Endings that the final formatting writes."""

MODES = get_args(Mode)

WORKFLOW_MODES: dict[str, Mode] = {"react": "react", "actionplan": "batch"}
"""What ``workflow_mode`` calls a mode, in lower case."""


class Use(Flag):
    """
    What an option of a run is for, beside the run itself.

    Attributes:
        CHAT: ``paor chat`` has its flag too, for each round.
        SPEC: The run's spec has the value under the same name.
        TASKS: Each task of a workflow is started with it as it was given; with limits, profile and stage, too, which the workflow
            records in a form of their own.
        WHOLE: The run of a workflow of tasks is itself started with it.
        ONE_RUN: It is of one run alone, so that the runs of `Engine.as_tool` cannot have it.
    """

    CHAT = auto()
    SPEC = auto()
    TASKS = auto()
    WHOLE = auto()
    ONE_RUN = auto()


CHAT, SPEC, TASKS, WHOLE, ONE_RUN = Use
_RUN_ALONE = Use(0)
_EMPTY: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Option:
    """
    What is known of an option beside its name, its type and its description.

    Attributes:
        use: What it is for, beside the run.
        flag: On the command line, with the placeholder of its value; empty where it has none.
        help: Of the flag.
        default: What None, and leaving it out, stand for.
        read: Checks a value that is given and returns it as the run has it; what was read can be read again.
    """

    use: Use = _RUN_ALONE
    flag: str = ""
    help: str = ""
    default: Any = None
    read: Callable[[Any], Any] | None = None


# -- reading single values ---------------------------------------------------------------------------------------


def _connections(given: object) -> Mapping[str, Any]:
    """Return values by label; raise `UsageError` for anything but a mapping of printable labels."""
    if not isinstance(given, Mapping):
        raise UsageError("connections must be a mapping of labels to values")
    if not all(isinstance(label, str) and label.isprintable() and label.strip() for label in given):
        raise UsageError("the labels of connections must be printable texts")
    return dict(given)


def turns_of(given: Any) -> tuple[TranscriptMessage, ...]:
    """
    Return a conversation in the form that a spec has.

    Raises:
        UsageError: It is not a list of ``{"role": ..., "content": ...}``.
    """
    try:
        if isinstance(given, str | bytes | Mapping):
            raise TypeError
        turns = [TranscriptMessage.model_validate(turn) for turn in given]
    except (ValidationError, TypeError):
        raise UsageError(
            'transcript must be a list of {"role": "user", "content": TEXT} (or assistant, system, tool)'
        ) from None
    return tuple(turn.model_copy(update={"content": clean(turn.content)}) for turn in turns)


def _format(given: object) -> str | None:
    """Return the ending that the final formatting writes, None for an empty text; raise `UsageError` for an unknown one."""
    form = FORMATS.get(given.lower().lstrip(".")) if isinstance(given, str) else None
    if form is None and given != "":
        raise UsageError(f"final_format {given!a:.60}: use one of {', '.join(FORMATS)}")
    return form


def _limits(given: object) -> Limits | Mapping[str, Any]:
    """Return limits, or the fields of some; raise `UsageError` for anything else."""
    if not isinstance(given, Limits | Mapping):
        raise UsageError("limits must be a Limits value, such as Limits(max_steps=3), or a mapping of limits")
    return given


def _mode(given: str) -> Mode:
    """Return a mode; raise `UsageError` for an unknown one."""
    if given not in MODES:
        raise UsageError(f"mode {given!a:.60} is unknown; use {', '.join(MODES)}")
    return cast("Mode", given)


def _react_mode(given: object) -> Mode:
    if not isinstance(given, bool):
        raise UsageError(f"react_mode must be True or False, not {given!a:.60}")
    return "react" if given else "batch"


def _workflow_mode(given: object) -> Mode:
    known = WORKFLOW_MODES.get(given.lower()) if isinstance(given, str) else None
    if known is None:
        raise UsageError(f"workflow_mode {given!a:.60} is unknown; use React or Actionplan")
    return known


# -- the options --------------------------------------------------------------------------------------------------


class RunOptions(TypedDict, Generic[T], total=False):
    """
    What every start of a run takes by keyword beside its objective, criteria and documents; None is as good as nothing.

    Attributes:
        model: Instead of the engine's.
        mode: ``react`` (default): one action at a time; ``batch``: one plan, reviewed when its steps are used up; ``planner``:
            plans until one is empty.
        react_mode: Another name for ``mode``: True for react, False for batch.
        workflow_mode: Another name for ``mode``: ``React`` for react, ``Actionplan`` for batch.
        profile: For react mode, by default the engine's. ``auto``: ``native`` where the model calls tools, else ``two_stage``,
            chosen when the run starts and recorded in its spec; a server that does not say it is asked (`ModelNotice`). ``native``:
            one request a turn, with the provider's own tool calls. ``two_stage``: an action is chosen, then its parameters are set,
            in every documented form of a reply. ``strict``: likewise, in one form only. Or a `Profile`.
        stage: Instead of the profile's: ``two_stage`` asks for the action with its objective and inputs, ``single`` only for the
            choice of the action, ``native`` for turns.
        tools: Names of the tools this run may use; None offers all (of the built-in ones see ``builtins`` of `Engine`).
        task_type: A key of `Policy.task_types`.
        limits: The limits that change, as a `Limits` value or a mapping such as ``{"max_steps": 9}``; all others stay the engine's.
            The same rule holds for `fork` (over the parent's). A run that is resumed keeps its limits.
        language: Language of the answer, such as ``de``; default: *user_language*, else that of the objective.
        user_language: Language of the user's profile, for a run without a language of its own.
        instructions: What the model is told in every request of this run, after the engine's `instructions`; likewise a text or a
            function. A workflow of tasks takes a text.
        metadata: What to find the run by, as JSON data of at most 4,096 bytes, such as ``{"tenant": "acme"}``. It decides nothing
            and is in no prompt; `Journal.runs` searches it, and erasing the run erases it.
        fallback: ``batch``: if this react run fails, the task is started again as a batch run of the same workflow, and its result
            counts. Each run has its own limits. A run that was cancelled, ran out of budget or lost its model is not started again.
        conversation: Your own id of a conversation, at most 200 characters, such as ``c-17``: the run is its next round, and is
            told of those before: the user's words, the answers, calls with their results as far as the model's context reaches. The
            first run with an id begins it. It goes on with the documents of the rounds before, and with their language.
        after: Id of a run that has ended, which a new conversation goes on from: a branch of another one, or the sequel of a run
            that is in none.
        queue: If another round of the conversation runs or waits for a person: wait for its end, in place of the error. Nothing is
            written before; the caller drives the round in its turn. `submit` does not wait: it writes the round, which stands in line
            until those before it have ended.
        prompt_template: Instead of the template that plans: ``turn`` or ``selection`` in react mode, by the profile, else ``plan``.
        workflow: A workflow file, its text, or a `Workflow`; implies the mode ``planner``.
        variables: Values of the workflow's variables, as JSON data; they take precedence over those of the file.
        output_type: Type of the answer: a pydantic model, dataclass, TypedDict, ``list[str]`` and the like, or a JSON Schema as a
            mapping. The completion review is then always asked of the model; it gives the value, which is held to the type's JSON
            Schema and to the type's own validators, and asked for again, `Limits.review_retries` times, where it does not fit;
            after that the run is Failed(review_failed). `Result.output` is the value. Not with *final_format*.
        final_format: ``md``, ``txt``, ``html`` or ``docx``: one last formatting action after a successful review.
        context: Extra context for selection prompts.
        transcript: The conversation before, for a planner: mappings with ``role`` and ``content``.
        connections: Values by label; only labels reach prompts and journal.
        key: Your own name of this start, at most 200 characters, such as the id of the message that asks for it. No two runs of a
            journal have the same: a start that comes again goes on with the run of the first one and does nothing twice, whichever
            process it is in.
        values: What guards of the host's own machine may look at (`GuardContext.values`), as JSON data of at most 65,536 bytes,
            such as ``{"credit": 500}``; journaled with the run, so that a replay sees the same.
        deps: What tools get as `ToolContext.deps`: an object of yours, never journaled, so a resume takes it again. By default the
            engine's.
    """

    model: Annotated[
        Model | str | None,
        Option(
            CHAT | WHOLE,
            "--model M",
            "openai:NAME, anthropic:NAME, offline or script:FILE; default: a key in the environment decides, else offline.",
        ),
    ]
    mode: Annotated[
        Mode | None,
        Option(
            CHAT | SPEC | TASKS,
            "--mode MODE",
            "react (default): one action at a time; planner: plans until one is empty; batch (legacy): one plan.",
            read=_mode,
        ),
    ]
    react_mode: Annotated[bool | None, Option(read=_react_mode)]
    workflow_mode: Annotated[str | None, Option(read=_workflow_mode)]
    profile: Annotated[
        Profile | str | None,
        Option(
            CHAT,
            "--profile NAME",
            "auto (default): native where the model calls tools, else two_stage; strict: two stages in one form.",
        ),
    ]
    stage: Annotated[
        Stage | None,
        Option(
            CHAT,
            "--stage NAME",
            "two_stage, single or native: what a reply is asked for, instead of the profile's.",
        ),
    ]
    tools: Annotated[
        Sequence[str] | None,
        Option(
            CHAT | TASKS,
            "--tools A,B",
            "Names of the tools the run may use; default: all, those for documents if it has some. See: paor tools.",
        ),
    ]
    task_type: Annotated[
        str | None,
        Option(
            CHAT | SPEC | TASKS,
            "--task-type T",
            "A task type of --policy: what this run may call of all that is offered.",
        ),
    ]
    limits: Annotated[Limits | Mapping[str, Any] | None, Option(read=_limits)]
    language: Annotated[
        str | None,
        Option(
            CHAT | SPEC | WHOLE,
            "--language L",
            "Language of the answer, such as de; default: that of the objective.",
        ),
    ]
    user_language: Annotated[str | None, Option(WHOLE)]
    instructions: Annotated[
        Instructions | None,
        Option(
            CHAT | TASKS | WHOLE,
            "--instructions TEXT",
            "What the model is told in every request.",
            read=instructions_of,
        ),
    ]
    metadata: Annotated[
        Mapping[str, Any] | None,
        Option(
            CHAT | SPEC | WHOLE,
            "--metadata K=V",
            "What to find the run by; repeatable.",
            default=_EMPTY,
            read=metadata_of,
        ),
    ]
    fallback: Annotated[
        Literal["batch"] | None,
        Option(SPEC | TASKS, "--fallback MODE", "batch: if a react run fails, start it again as one plan."),
    ]
    conversation: Annotated[
        str | None,
        Option(
            SPEC | ONE_RUN,
            "--conversation ID",
            "Your own name of a conversation: the run is its next round and is told of those before.",
            read=conversation_of,
        ),
    ]
    after: Annotated[
        str | None,
        Option(
            ONE_RUN,
            "--after RUN",
            "Begin the conversation after this run, which has ended: a branch of another one.",
        ),
    ]
    queue: Annotated[
        bool, Option(ONE_RUN, "--queue", "Wait while another round of the conversation runs.", default=False)
    ]
    prompt_template: Annotated[
        str | None, Option(TASKS, "--prompt-template FILE", "Instead of the shipped planning prompt.")
    ]
    workflow: Annotated[
        Workflow | Mapping[str, Any] | str | os.PathLike[str] | None,
        Option(flag="--workflow FILE", help="Follow a workflow file, YAML or JSON; implies --mode planner."),
    ]
    variables: Mapping[str, Any] | None
    output_type: Annotated[
        OutputType[T], Option(WHOLE, "--output-schema FILE", "JSON Schema of the answer, which is then JSON.")
    ]
    final_format: Annotated[str | None, Option(SPEC | TASKS, read=_format)]
    context: Annotated[
        str | None, Option(SPEC | TASKS | WHOLE, "--context TEXT", "Extra context for choosing actions.")
    ]
    transcript: Annotated[Sequence[Mapping[str, str]], Option(SPEC | TASKS, default=(), read=turns_of)]
    connections: Annotated[Mapping[str, Any] | None, Option(WHOLE, default=_EMPTY, read=_connections)]
    key: Annotated[
        str | None,
        Option(
            SPEC | WHOLE | ONE_RUN,
            "--key TEXT",
            "Your own name of this run: a second start with it goes on with the first.",
            read=key_of,
        ),
    ]
    values: Annotated[
        Mapping[str, Any] | None,
        Option(
            SPEC | TASKS,
            "--values JSON",
            "What guards of the app's own machine may look at: an object, or a file with one.",
            default=_EMPTY,
            read=values_of,
        ),
    ]
    deps: Annotated[Any, Option(WHOLE)]


class AnswerOptions(TypedDict, total=False):
    """
    What an answer to a run's question is made of.

    Attributes:
        answer: For a run that waits for a question or an approval: ``{"approve": true}``, perhaps with all ``arguments`` of the
            call where they are to be others, the accepted values, or ``{"action": "decline"}``.
        outcome: For an effect in doubt: ``done`` (with *result*), ``retry`` or ``fail``.
        result: What the effect returned, for ``done``; for ``fail`` a text that says what went wrong.
        reason: Why this answer or outcome was chosen; stored in the journal with it.
        actor: Who approved, answered or settled it, such as the name of a user of the host; stored in the journal with it and shown
            by ``paor show`` and ``paor why``. paor does not check the name.
    """

    answer: Any
    outcome: str | None
    result: Any
    reason: str | None
    actor: str | None


class ResumeOptions(AnswerOptions, Generic[T], total=False):
    """
    What every way to go on with a run takes by keyword beside its id.

    Attributes:
        question: Id of the question that this answers (`Result.waiting_for`), so that a message that is delivered twice settles
            nothing else; an approval may hold it as ``"approval"``. Only the first question of a run may be answered without.
        connections: Values by label, as for `run`; they are never in the journal.
        deps: As for `run`.
        model: Instead of the engine's, for a run that was started with its own.
        accept_changes: Continue even if parts that decide the run have changed since it was recorded. The next row records this,
            and from it on this engine's prompts, tools and policy apply (`changes` lists the parts).
        output_type: Type of `Result.output`: that of `run`. Its own validators judge what the model gives from now on; the schema
            stays the one that the run was started with.
    """

    question: str | None
    connections: Mapping[str, Any] | None
    deps: Any
    model: Model | str | None
    accept_changes: bool
    output_type: OutputType[T]


class ForkOptions(AnswerOptions, total=False):
    """
    What a fork takes by keyword beside where it leaves its parent; an answer if that waited at this row.

    Attributes:
        connections, deps: As for `resume`.
        model: Used instead of the engine's; if its name differs from the parent's, the fork's own spec records it.
        limits: The limits that change for the fork's own rows, as for `run`; all others stay the parent's.
        policy, prompt_template: Used instead of the parent's for the fork's own rows.
        current: Take this engine's prompts, rules, tool schemas and policy instead of those that the parent recorded.
    """

    connections: Mapping[str, Any] | None
    deps: Any
    model: Model | str | None
    limits: Limits | Mapping[str, Any] | None
    policy: Policy | None
    prompt_template: str | None
    current: bool


TYPES = get_type_hints(RunOptions)
OPTIONS: Mapping[str, Option] = {
    name: next(iter(getattr(hint, "__metadata__", ())), Option())
    for name, hint in get_type_hints(RunOptions, include_extras=True).items()
}
"""What is known of every option of a run, by its name."""

_MODES = ("mode", "react_mode", "workflow_mode")

NOTHING_GIVEN: ResumeOptions = {
    "answer": None,
    "outcome": None,
    "result": None,
    "question": None,
    "reason": None,
    "actor": None,
}
"""What is left for a workflow when its answer went to the task that waits."""


def run_options(given: Mapping[str, Any]) -> RunOptions[Any]:
    """
    Return the options of a run, frozen: each one known, read, and there, with its default where it was not given.

    The mode has its one name, and is None where the caller chose none. What was read can be read again.

    Args:
        given: As the caller gave them.

    Raises:
        UnknownOption: One that no run takes.
        UsageError: A value that cannot be used, with the name of its option.
    """
    check_names(given, OPTIONS, "a run")
    read = {name: _read(name, given.get(name), TYPES[name]) for name in OPTIONS}
    modes = {name: read.pop(name) for name in _MODES}
    chosen = {name: mode for name, mode in modes.items() if mode is not None}
    if len(set(chosen.values())) > 1:
        given_as = ", ".join(f"{name} says {mode}" for name, mode in chosen.items())
        raise UsageError(f"the mode is given twice and differently: {given_as}")
    read["mode"] = next(iter(chosen.values()), None)
    return cast("RunOptions[Any]", MappingProxyType(read))


def checked_options(given: D, kind: Callable[..., D], what: str) -> D:
    """
    Return options that go on with a run, each one known, and those that a run has, too, read as a run's.

    Args:
        given: As the caller gave them.
        kind: Their TypedDict.
        what: What takes them, for messages.

    Raises:
        UnknownOption: One that *kind* has not.
        UsageError: A value that cannot be used, with the name of its option.
    """
    types = _types_of(kind)
    check_names(given, types, what)
    return cast("D", {name: _read(name, value, types[name]) for name, value in given.items()})


_types_of = cache(get_type_hints)


def _read(name: str, value: Any, hint: Any) -> Any:
    """Return the value of an option as a run has it; None stands for the default."""
    option = OPTIONS.get(name)
    if value is None:
        return option.default if option is not None else None
    if hint is bool and not isinstance(value, bool):
        raise UsageError(f"{name} must be True or False, not {value!a:.60}")
    if option is None:
        return value
    if option.read is not None:
        value = option.read(value)
    elif isinstance(value, str) and hint is not Any and os.PathLike[str] not in get_args(hint):
        value = clean(value)  # deps are the host's own, paths the file system's
    elif hint == str | None:
        raise UsageError(f"{name} must be a text, not {type(value).__name__}")
    return list(value) if isinstance(value, Iterator) else value


def check_names(given: Mapping[str, Any], known: Mapping[str, Any], what: str) -> None:
    """Raise `UnknownOption` for a name that is not among *known*, with the nearest one that is; *what* takes the options."""
    for name in given:
        if name not in known:
            raise UnknownOption(f"{what} has no option {name!a:.60}; {nearest(name, known)}")


def nearest(name: str, known: Mapping[str, Any]) -> str:
    """Return the name of *known* that a misspelt one may stand for, in words; all of them where none is near."""
    found = difflib.get_close_matches(name, known, 1)
    return f"did you mean {found[0]}?" if found else f"there are: {', '.join(sorted(known))}"


NO_OPTIONS = run_options({})
"""Those of a run that is given none."""
