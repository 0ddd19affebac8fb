"""
Runs and outcomes as plain values, and a walk that decides without journal, model or tools.

For the tests of what is pure: a `Walk` does what the engine's loop does, but its outcomes are given by the test.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from paor.fsm.decision.run_resources import RunResources
from paor.fsm.journal.payloads import Stager
from paor.fsm.machine.decide import Moment, decide, request_of
from paor.fsm.machine.fold import applied
from paor.fsm.machine.updates import Decision
from paor.fsm.runtime.tool_results import error_of, result_of
from paor.prompts.building.templates import default_templates
from paor.states.base.secrets import Scrubber
from paor.states.records.actions import (
    FORBIDDEN_FIELDS,
    SET_BY_CODE,
    ActionParameters,
    ActionSelection,
    DocumentRef,
    Intent,
    SchemaField,
    Selection,
    StoredText,
    ToolResult,
)
from paor.states.records.observations import Turn
from paor.states.records.outcomes import (
    Answered,
    Asked,
    Cancelled,
    Ended,
    InDoubt,
    ModelFault,
    NoOutcome,
    Outcome,
    Recalled,
    Replied,
    Usage,
)
from paor.states.records.plans import (
    RETRIES_MAX,
    STEPS_MAX,
    TASKS_MAX,
    Elicitation,
    Plan,
    PlanResult,
    Step,
    TaskPlan,
    TranscriptMessage,
)
from paor.states.records.questions import Answer, Asking, QuestionRecord
from paor.states.records.requests import ModelRequest, Nothing, Recall, Request, RequestKind, ToolRequest
from paor.states.records.reviews import CriterionCheck
from paor.states.records.workflow import PLANNER_OUTPUTS
from paor.states.run.budgets import BYTES_PER_TOKEN, limit_reached, reply_limit, reservation, tools_withheld
from paor.states.run.completion import draft_of, review_by_rules
from paor.states.run.counters import counters_text
from paor.states.run.phase_names import (
    DONE,
    EXECUTING,
    FAILED,
    FINAL,
    OBSERVING,
    PHASES,
    PLANNING,
    REVIEWING,
    SPECIFYING,
)
from paor.states.run.reasons import REASONS
from paor.states.run.spec import FlowState, Spec, ToolSpec
from paor.states.run.state import SLOTS, Change, Memory, Run, chosen_spec, initial_run
from paor.states.settings.limits import Limits
from paor.states.settings.policy import Policy
from paor.states.settings.profile import NAMED

from .worlds import CONTINUE, PARAMETERS, SELECT, SUCCESS, TOOLS

__all__ = [
    "BYTES_PER_TOKEN",
    "DONE",
    "DOUBT",
    "EXECUTING",
    "FAILED",
    "FINAL",
    "FORBIDDEN_FIELDS",
    "INTENT",
    "MOMENT",
    "NAMED",
    "OBSERVING",
    "OUTCOMES",
    "PHASES",
    "PLACE",
    "PLANNER_OUTPUTS",
    "PLANNING",
    "QUESTION",
    "REASONS",
    "RESULT",
    "RETRIES_MAX",
    "REVIEWING",
    "SELECTION",
    "SETTLED",
    "SET_BY_CODE",
    "SLOTS",
    "SPECIFYING",
    "SPECS",
    "STEPS_MAX",
    "TASKS_MAX",
    "ActionParameters",
    "ActionSelection",
    "Answer",
    "Change",
    "CriterionCheck",
    "Decision",
    "DocumentRef",
    "Elicitation",
    "FlowState",
    "Memory",
    "ModelRequest",
    "Moment",
    "Nothing",
    "Outcome",
    "Plan",
    "PlanResult",
    "Recall",
    "RequestKind",
    "Run",
    "RunResources",
    "SchemaField",
    "Spec",
    "Step",
    "StoredText",
    "TaskPlan",
    "ToolRequest",
    "ToolSpec",
    "TranscriptMessage",
    "Turn",
    "Walk",
    "answered",
    "chosen_spec",
    "counters_text",
    "decide",
    "draft_of",
    "ended",
    "fault",
    "initial_run",
    "limit_reached",
    "replied",
    "reply_limit",
    "request_of",
    "reservation",
    "review_by_rules",
    "run_in",
    "short",
    "spec",
    "tools_withheld",
]
"""Cases of this module, and what of the inner modules the rooms that test pure code take from here: one place knows where it lies."""

PLACE = StoredText(0, "00" * 32, 1)
MOMENT = Moment(1_767_225_600_000_000, 10)
SPECS = tuple(tool.spec() for tool in TOOLS)


def short(value: object) -> str:
    """Return *value* as the id of a test: as much of its text as a line can carry."""
    text = re.sub(r" at 0x[0-9a-f]+", "", " ".join(str(value).split()))  # the same in every process
    return text if len(text) <= 40 else f"{text[:37]}..."


def spec(
    *,
    tools: tuple[ToolSpec, ...] = SPECS,
    limits: Mapping[str, Any] | None = None,
    policy: Mapping[str, Any] | None = None,
    **changes: Any,
) -> Spec:
    """Return what a run with the tools of `worlds` is started with; *limits* and *policy* by field name."""
    values: dict[str, Any] = {
        "objective": "Read the notes",
        "tools": tools,
        "limits": Limits(**(limits or {})),
        "policy": Policy(**(policy or {})),
        "templates": default_templates(),
        "workflow_id": "run-1",
        "key_salt": "ab",
    }
    return Spec(**(values | changes))


def replied(
    text: str | Mapping[str, Any], *, tokens: tuple[int, int] = (10, 5), finish: str = "stop"
) -> Replied:
    """Return a model's reply; a mapping is sent as JSON."""
    body = text if isinstance(text, str) else json.dumps(text)
    return Replied(body, PLACE, finish, Usage(1, *tokens))


def fault(code: str = "timeout") -> ModelFault:
    """Return a model's failure."""
    return ModelFault(code, "no answer", PLACE)


def ended(value: Any, intent: Intent, limits: Limits | None = None, *, first: int = 0) -> Ended:
    """Return the end of *intent*'s call; an exception as *value* is an error."""
    if isinstance(value, BaseException):
        return Ended(error_of(intent, value))
    stager = Stager(0, lambda: bytes(16))
    return Ended(
        result_of(intent, value, first=first, limits=limits or Limits(), stager=stager, scrub=Scrubber())
    )


def answered(action: str, content: Any = None) -> Answered:
    """Return somebody's answer."""
    return Answered(Answer(action=action, content=content), PLACE)  # type: ignore[arg-type]


INTENT = Intent(
    tool="notes.read",
    arguments={"page": 1},
    label="round1_task1_action1_page",
    key="k1",
    idempotency_key="run-1-1",
    effect="read",
)
SELECTION = Selection(tool="notes.read", objective="read page 1", fields=())
SETTLED = SELECTION.model_copy(update={"arguments": {"page": 1}})
RESULT = ToolResult(tool="notes.read", ok=True)
QUESTION = QuestionRecord(
    kind="approval", message="May notes.read be called?", tool="notes.read", key="run-1-1"
)
DOUBT = QuestionRecord(kind="in_doubt", message="Did it happen?", tool="notes.read", key="run-1-1")

OUTCOMES: dict[str, Outcome] = {
    "none": NoOutcome(),
    "reply": replied("no JSON at all"),
    "fault": fault(),
    "result": Ended(RESULT),
    "in_doubt": InDoubt(),
    "asked": Asked(Asking(message="Which copy?"), StoredText(9, "0" * 64, 40)),
    "recalled": Recalled(("earlier text",)),
    "answer": answered("accept", {"approve": True}),
    "cancelled": Cancelled(),
}
"""One outcome of every kind."""


def run_in(
    state: str, of: Spec | None = None, *, counters: Mapping[str, Any] | None = None, **memory: Any
) -> Run:
    """Return a run that is in *state* with these counters and slots of its memory."""
    start = initial_run("run-1", 1, of if of is not None else spec())
    return replace(
        start,
        state=state,
        counters=replace(start.counters, **(counters or {})),
        memory=replace(start.memory, **memory),
    )


class Walk:
    """
    A run between two decisions.

    Attributes:
        run: Where it stands.
        decisions: What was decided so far.
    """

    def __init__(self, of: Spec | None = None, run: Run | None = None) -> None:
        start = run.spec if run is not None else of if of is not None else spec()
        self.run = run if run is not None else initial_run("run-1", 1, start)
        self.kit = RunResources(start)
        self.decisions: list[Decision] = []

    @property
    def request(self) -> Request:
        """What the run needs next."""
        return request_of(self.run)

    def take(self, outcome: Outcome | str | Mapping[str, Any]) -> Decision:
        """Decide *outcome* (text or a mapping is a model's reply) and go on."""
        if isinstance(outcome, str | Mapping):
            outcome = replied(outcome)
        decision = decide(self.run, outcome, MOMENT, self.kit)
        self.run = applied(self.run, decision, MOMENT.at_us)
        self.decisions.append(decision)
        return decision

    def end(self, value: Any = "text") -> Decision:
        """Have the tool that is being executed return (or raise) *value*."""
        intent = self.run.memory.intent
        assert intent is not None
        return self.take(ended(value, intent, self.run.spec.limits, first=self.run.counters.documents))

    def take_nothing(self) -> Decision:
        """Decide what needs nothing from the outside, or (Observing) bodies that the test does not care about."""
        request = self.request
        if isinstance(request, Recall):
            return self.take(Recalled(("text",) * len(request.payloads)))
        return self.take(NoOutcome())

    def read_on(self, tokens: tuple[int, int]) -> Decision:
        """Decide what a model says that reads page after page and never stops, at this price a request."""
        request = self.request
        if isinstance(request, ToolRequest):
            return self.end()
        if not isinstance(request, ModelRequest):
            return self.take_nothing()
        page = self.run.counters.step
        says = {"selection": SELECT(), "parameters": PARAMETERS(page=page), "refinement": CONTINUE}
        return self.take(replied(says.get(request.kind, SUCCESS), tokens=tokens))

    @property
    def triggers(self) -> list[str]:
        """Triggers taken so far."""
        return [decision.row.trigger for decision in self.decisions]
