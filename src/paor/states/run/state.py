"""
A run between two transitions, as one immutable value.

A run is a fold over its rows: `Counters` stand in every row, so the last row is enough for them; `Memory` is
what the rows' changes have set, slot by slot, and stays bounded however long the run is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from functools import partial
from itertools import compress
from operator import attrgetter, is_not
from typing import Any, Self

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import astuple, replace
from rpds import HashTrieMap

from ..base.sealed import SealedDict
from ..base.wire import Stored
from ..records.actions import Intent, Selection, StoredText, ToolResult
from ..records.conversation import Item, Spoken
from ..records.observations import Message, Observation, StepCheck, StoredObservation, Turn
from ..records.plans import Plan
from ..records.questions import Answer, Question, QuestionRecord
from ..records.reviews import Refinement, Review
from ..records.visits import RunChoice, Visit
from ..settings.limits import lowered_limits
from .phase_names import DONE, FAILED, FINAL, PLANNING
from .spec import FlowState, Spec, machine_data

REFERENCES_MAX = 50
"""Most references to documents that a model is offered; the newest are kept."""

HISTORY_MESSAGES = 50
"""Actions that history keeps; more never fit under `Limits.history_chars` in practice."""


class Counters(Struct, frozen=True, gc=False):
    """
    Every number and flag of a run; each row holds them as they are after it.

    The first seven have a column of their own; the others follow in alphabetical order, as they stand in a row.

    Attributes:
        step: Actions started; what `Limits.max_steps` bounds.
        action: Number of the current action within its task; given at `specify` or `refuse`.
        retries: Completion reviews that said retry.
        tokens_in: Input tokens of all model requests.
        tokens_out: Output tokens of all model requests.
        cost_micro: Money spent, in millionths of the currency unit.
        time_us: Active time in microseconds; waiting for a person does not count.
        ahead: Number of the last action whose call was started together with an earlier one (`Change.ahead`); 0 from its own
            intent on.
        best_score: Highest score so far in millionths, or None.
        blocked: Duplicate calls blocked in this run.
        calls: Model requests made, also within tools; the next one's number for a scripted model.
        concluded: 1 once the stop is decided and only the completion review is left.
        criteria: One character per criterion, ``1`` when met; progress is never taken back.
        documents: Documents numbered, and so the next one's number.
        elicitations: Questions asked.
        errors: Tool errors in a row.
        formatted: 1 once the final formatting action has been selected.
        own: How often each row of the host's own machine was taken that has a bound, by its trigger; not to be changed.
        parameter_retries, selection_retries, step_retries: Spent in this step.
        plan_step: Number of the current step within its plan, from 0.
        plans: Plans accepted so far.
        refused: Calls refused for their parameters in a row.
        review_retries: Spent in this iteration.
        same_key: How often the last executed call is at the end of the list of executed calls.
        stale: Refinements in a row whose score did not rise.
        stop: Why the run stops, from `REASONS`; empty while it goes on.
        tokens_cache_write: Input tokens of all model requests that were written to a provider's cache.
        tokens_cached: Those of them that were read from one.
        unmade: Calls of the newest turn that were not made, since no step was left for them.
        withheld: Number of the last attempt, from 1, in which the tools were withheld after a repeated call; 0: in none.
    """

    step: int = 0
    action: int = 0
    retries: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost_micro: int = 0
    time_us: int = 0
    ahead: int = 0
    best_score: int | None = None
    blocked: int = 0
    calls: int = 0
    concluded: int = 0
    criteria: str = ""
    documents: int = 0
    elicitations: int = 0
    errors: int = 0
    formatted: int = 0
    own: Mapping[str, int] = SealedDict()
    parameter_retries: int = 0
    plan_step: int = 0
    plans: int = 0
    refused: int = 0
    review_retries: int = 0
    same_key: int = 0
    selection_retries: int = 0
    stale: int = 0
    step_retries: int = 0
    stop: str = ""
    tokens_cache_write: int = 0
    tokens_cached: int = 0
    unmade: int = 0
    withheld: int = 0


class Slots(Stored, frozen=True, gc=False, kw_only=True):
    """What a transition may set in a run's memory; what it does not set is `UNSET`, which is false, as None is."""

    selection: Selection | UnsetType | None = UNSET
    intent: Intent | UnsetType | None = UNSET
    result: ToolResult | UnsetType | None = UNSET
    observation: Observation | UnsetType | None = UNSET
    check: StepCheck | UnsetType | None = UNSET
    message: Message | UnsetType | None = UNSET
    feedback: str | UnsetType | None = UNSET
    hint: str | UnsetType | None = UNSET
    improvements: tuple[str, ...] | UnsetType | None = UNSET
    refinement: Refinement | UnsetType | None = UNSET
    review: Review | UnsetType | None = UNSET
    answer: str | UnsetType | None = UNSET
    question: QuestionRecord | UnsetType | None = UNSET
    reply: Answer | UnsetType | None = UNSET
    plan: Plan | UnsetType | None = UNSET
    turn: Turn | UnsetType | None = UNSET
    flow: FlowState | UnsetType | None = UNSET
    visit: Visit | UnsetType | None = UNSET
    choice: RunChoice | UnsetType | None = UNSET
    said: Spoken | UnsetType | None = UNSET
    ahead: tuple[Intent, ...] | UnsetType | None = UNSET


SLOTS = Slots.__struct_fields__
"""Names of the slots of a change."""

SLOT_LETTERS: Mapping[str, str] = dict(zip("abcdefghijklmnopqrstu", SLOTS, strict=True))
"""By letter the slot that a stored change names by it; a new slot is the last one, and a letter never gets another name."""


_slot_values = attrgetter(*SLOTS)
_is_set = partial(is_not, UNSET)


class StoredChange(Slots, frozen=True, gc=False, kw_only=True):
    """
    A change as it is stored.

    Attributes:
        cleared: Letters of the slots that are cleared.
        summed: There if the check and the message say what the observation says: which of the items in `said` has its summary, behind its own
            first words; -1: none.
    """

    observation: StoredObservation | UnsetType | None = UNSET  # type: ignore[assignment]
    cleared: str = ""
    summed: int | UnsetType = UNSET


def shown_payloads(text: str | bytes) -> list[int]:
    """Return the numbers of the payloads whose texts a stored change shows and does not have."""
    seen = StoredChange.read(text).observation
    return [preview.source for preview in seen.previews if preview.source >= 0] if seen else []


class Change(Slots, frozen=True, gc=False, kw_only=True):
    """What one transition sets in a run's memory; a slot that is present and None is cleared."""

    @classmethod
    def read(cls, text: str | bytes, text_of: Callable[[int], str | None] = lambda _: None) -> Self:
        """
        Return the change that *text* holds, as `wire_json` writes it.

        Args:
            text: The change as it is stored.
            text_of: Gives the text of a payload, as it was recalled; without it what an observation shows of documents is empty.

        Raises:
            ValueError: It is not JSON, or a field is missing or of another type.
        """
        stored = StoredChange.read(text)
        values = _slot_values(stored)
        slots: dict[str, Any] = dict(compress(zip(SLOTS, values, strict=True), map(_is_set, values)))
        for letter in stored.cleared:
            if letter not in SLOT_LETTERS:
                raise ValueError(f"cleared: {letter!a} is the letter of no slot")
            slots[SLOT_LETTERS[letter]] = None
        message, seen, said = stored.message, stored.observation, stored.said
        if seen:
            slots["observation"] = observation = seen.observation(text_of)
        if message and seen and stored.summed is not UNSET:
            slots["check"] = observation.check
            slots["message"] = message = observation.told(message, message.documents or None)
            if isinstance(said, Spoken) and 0 <= stored.summed < len(said.items):
                slots["said"] = _with_summary(said, stored.summed, message.summary)
        return cls(**slots)

    def wire_json(self, recalled: Sequence[tuple[int, str | None]] = ()) -> str:
        """
        Return the change as it is stored, as compact JSON.

        Slots that are cleared are told by their letters, and what follows from an observation is left out: the check, most of the message,
        and the summary of the result in the conversation.

        Args:
            recalled: The payloads that an observation was made of: the number of each, and its text as it was recalled. What it shows of them
                is told by its place there.
        """
        slots, cleared = {}, ""
        for name, letter, value in zip(SLOTS, SLOT_LETTERS, astuple(self), strict=True):
            if value is None:
                cleared += letter
            elif value is not UNSET:
                slots[name] = value
        summed: int | UnsetType = UNSET
        if "observation" in slots:
            summed = _shorten(slots)
            slots["observation"] = StoredObservation.of_observation(slots["observation"], recalled)
        return StoredChange(**slots, cleared=cleared, summed=summed).wire_json()

    def slots(self) -> dict[str, Any]:
        """Return what is set, None where it is cleared."""
        values = astuple(self)
        return dict(compress(zip(SLOTS, values, strict=True), map(_is_set, values)))

    @property
    def ahead_words(self) -> str:
        """What a row with calls ahead says of them, empty for any other row."""
        return f", {len(self.ahead)} more at once" if self.ahead else ""


def _shorten(slots: dict[str, Any]) -> int | UnsetType:
    """Leave out what follows from the observation in *slots*; return `StoredChange.summed`."""
    observation, message, said = slots["observation"], slots.get("message"), slots.get("said")
    if message is None or slots.get("check") != observation.check:
        return UNSET
    told = observation.told(message)
    documents = () if told.documents == message.documents else message.documents
    if observation.told(message, documents or None) != message:
        return UNSET
    del slots["check"]
    slots["message"] = replace(
        message, label="", documents=documents, documents_count=0, summary="", notes=(), success=True
    )
    if said is None:
        return -1
    for place, item in enumerate(said.items):
        if item.summary and item.summary == _words_of(item) + message.summary:
            slots["said"] = _with_summary(said, place, None)
            return place
    return -1


def _words_of(item: Item) -> str:
    return item.pieces[0].words if item.pieces else ""


def _with_summary(said: Spoken, place: int, summary: str | None) -> Spoken:
    """Return *said* with a summary of the item at *place* behind its first words, without any for None."""
    items = list(said.items)
    told = "" if summary is None else _words_of(items[place]) + summary
    items[place] = replace(items[place], summary=told)
    return replace(said, items=tuple(items))


class Memory(Struct, frozen=True, gc=False):
    """
    What a run remembers beside its counters; bounded.

    Attributes:
        selection ... flow, choice: The slots of `Change`; `ahead` belongs to the intent beside it, and goes with it; `message` goes to `history`, `turn` to `turns`, `visit` to `visits`,
            `said` to `conversation`.
        history: The last `HISTORY_MESSAGES` actions, oldest first.
        window: Duplicate keys of the last executed calls, oldest first.
        window_steps: The step of each of them, as history numbers steps.
        labels: Labels of documents that later actions may use: number of the first document, and how many.
        references: The newest references to them that a model is offered, oldest first, at most `REFERENCES_MAX`.
        outputs: Per duplicate key of a call that succeeded, the payload of its last output; None if it had none.
        turns: The last `HISTORY_MESSAGES` turns of the dialogue with a planner, oldest first.
        produced: Per step of the current plan that gave one, the payload of its output.
        asked: The payload of what the current call has asked last; None when it has asked nothing.
        answered: The payload of the answer to that, once there is one.
        visits: What the last stay in each of the host's own phases came to, by the phase's name.
        conversation: What the run and its model have said, oldest first, without what cuts have taken; bounded by the model's context.
    """

    selection: Selection | None = None
    intent: Intent | None = None
    ahead: tuple[Intent, ...] | None = None
    result: ToolResult | None = None
    observation: Observation | None = None
    check: StepCheck | None = None
    feedback: str | None = None
    hint: str | None = None
    improvements: tuple[str, ...] | None = None
    refinement: Refinement | None = None
    review: Review | None = None
    answer: str | None = None
    question: QuestionRecord | None = None
    reply: Answer | None = None
    plan: Plan | None = None
    flow: FlowState | None = None
    choice: RunChoice | None = None
    history: tuple[Message, ...] = ()
    window: tuple[str, ...] = ()
    window_steps: tuple[int, ...] = ()
    labels: HashTrieMap[str, tuple[int, int]] = HashTrieMap()
    references: tuple[str, ...] = ()
    outputs: HashTrieMap[str, StoredText | None] = HashTrieMap()
    turns: tuple[Turn, ...] = ()
    produced: HashTrieMap[int, StoredText] = HashTrieMap()
    asked: StoredText | None = None
    answered: StoredText | None = None
    visits: HashTrieMap[str, Visit] = HashTrieMap()
    conversation: tuple[Item, ...] = ()


class Run(Struct, frozen=True, gc=False):
    """
    One run between two transitions.

    Attributes:
        run_id: Public id, time-ordered.
        number: The journal's own number of the run.
        spec: What it was started with.
        state: Name of its phase.
        seq: Number of the next row, from 0.
        counters: Numbers and flags.
        memory: Texts and windows.
        at: When its last row was decided, in microseconds since the epoch; 0 before the first.
    """

    run_id: str
    number: int
    spec: Spec
    state: str = PLANNING
    seq: int = 0
    counters: Counters = Counters()
    memory: Memory = Memory()
    at: int = 0

    def under(self, spec: Spec) -> Run:
        """Return the run with *spec*, but for what its first phase has chosen."""
        return replace(self, spec=chosen_spec(spec, self.memory.choice))

    @property
    def final(self) -> bool:
        """Whether the run has ended."""
        return self.state in FINAL

    @property
    def waiting_for(self) -> Question | None:
        """What the run waits for, or None."""
        asked, intent, plan = self.memory.question, self.memory.intent, self.memory.plan
        if asked is None:
            return None
        key, arguments, effect, schema = None, None, None, None
        if intent is not None:
            # a default that the call has left to its function is among what a person decides about
            tools = (*self.spec.tools, *self.spec.phase_tools)
            schema = next((tool.parameters for tool in tools if tool.name == intent.tool), None)
            key, effect = intent.key, intent.effect
            arguments = with_defaults(intent.arguments, schema or {})
        elif asked.tool is not None:  # a step of a plan that lacks an argument is no call yet
            effect = next((tool.effect for tool in self.spec.tools if tool.name == asked.tool), None)
            arguments = plan.steps[self.counters.plan_step].args if plan is not None else None
        call = (arguments, effect) if asked.tool is not None else (None, None)
        return Question.of(
            asked, self.run_id, self.seq - 1, asked_at=self.at, key=key, call=call, parameters=schema
        )

    @property
    def status(self) -> str:
        """``running``, ``waiting``, ``done`` or ``failed``."""
        return status_of(self.state, waiting=self.memory.question is not None)

    @property
    def reason(self) -> str | None:
        """Why the run ended or is about to, from the closed list of reasons."""
        return self.counters.stop or None


def with_defaults(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return *arguments* with the values of those that a call leaves to its function, as far as its schema tells them."""
    return dict(arguments) | {
        name: deepcopy(item["default"])
        for name, item in schema.get("properties", {}).items()
        if name not in arguments and isinstance(item, Mapping) and "default" in item
    }


def status_of(state: str, *, waiting: bool) -> str:
    """Return a run's status for people from its phase and whether it waits."""
    if state == DONE:
        return "done"
    if state == FAILED:
        return "failed"
    return "waiting" if waiting else "running"


def chosen_spec(spec: Spec, choice: RunChoice | None) -> Spec:
    """Return *spec* with the mode and the limits that the run's first phase has chosen; no limit rises."""
    if choice is None:
        return spec
    mode = choice.mode or spec.mode
    return spec.model_copy(update={"mode": mode, "limits": lowered_limits(spec.limits, choice.limits)})


def extend_references(references: tuple[str, ...], added: Iterable[tuple[str, int]]) -> tuple[str, ...]:
    """Return *references* and those to the documents of the *added* labels: to all of a label, and to each if there are several."""
    found = list(references)
    for label, count in added:
        if count:
            found.append(f"docList:{label}")
        if count > 1:
            found += [f"docItem:{label}#{place}" for place in range(min(count, REFERENCES_MAX))]
    return tuple(found[-REFERENCES_MAX:])


def label_of(spec: Spec, action: int, name: str) -> str:
    """Return the deterministic label ``round{r}_task{t}_action{a}_{name}`` (document 000)."""
    return f"round{spec.round}_task{spec.task}_action{action}_{name}"


def initial_run(run_id: str, number: int, spec: Spec) -> Run:
    """Return a run before its first transition."""
    labels: dict[str, tuple[int, int]] = {}
    for document in spec.documents:
        first, count = labels.get(document.label, (document.number, 0))
        labels[document.label] = (first, count + 1)
    counters = Counters(criteria="0" * len(spec.success_criteria), documents=len(spec.documents))
    references = extend_references((), ((label, count) for label, (_, count) in labels.items()))
    told = (
        spec.earlier if spec.native and spec.converses else ()
    )  # any other run is told of them in its opening
    memory = Memory(labels=HashTrieMap(labels), references=references, flow=spec.flow, conversation=told)
    state = machine_data(spec.host_machine).get("initial", PLANNING)
    return Run(run_id, number, spec, state, counters=counters, memory=memory)
