"""What a transition sets that asks a person, or takes in what one has answered; part of `fsm.changes`."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from ..states.observations import Turn
from ..states.outcomes import Answered, Asked, InDoubt, Replied
from ..states.phase import EXECUTING
from ..states.run import Change, Counters
from ..states.spec import TASK_TOOL
from ..states.waiting import Answer, Question
from .case import Case
from .observe import TURN_CHARS, answer_text, clean, cut, line

Effect = tuple[Change, Counters]
"""What a transition sets, and the counters after it; time and usage are added by `fsm.machine.decide`."""

APPROVAL_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "approve": {"type": "boolean"},
        "approval": {"type": "string"},
        "comment": {"type": "string"},
    },
    "required": ["approve"],
    "additionalProperties": False,
}


def wait_planning(case: Case) -> Effect:
    """A planner's question stops the run until somebody answers."""
    assert case.question is not None, "a planner waits for an answer"
    counters = case.run.counters
    change = Change(question=case.question, reply=None, feedback=None, turn=said(case))
    return change, replace(counters, elicitations=counters.elicitations + 1, selection_retries=0)


def wait_specifying(case: Case) -> Effect:
    """A call waits for its approval, or a plan's step for an argument that nobody has given."""
    intent, question = case.intent, case.question
    if question is None:
        assert intent is not None, "an approval is about a complete call"
        question = Question(
            kind="approval",
            message=f"May {intent.tool} be called?",
            answer_schema=APPROVAL_SCHEMA,
            tool=intent.tool,
            key=intent.idempotency_key,
            approval=case.approval_id,
        )
    counters = case.run.counters
    change = Change(intent=intent, question=question, reply=None)
    return change, replace(counters, elicitations=counters.elicitations + 1)


def wait_executing(case: Case) -> Effect:
    """A call waits for what its tool has asked, or for the outcome that nobody knows."""
    intent, outcome = case.run.memory.intent, case.outcome
    if isinstance(outcome, Asked):
        return _asking(case, outcome)
    assert intent is not None and isinstance(outcome, InDoubt), "only an effect can be in doubt"
    message = (
        f"{intent.tool} may or may not have taken effect before the driver was lost; what is its outcome?"
    )
    if intent.tool == TASK_TOOL.name:
        message = (
            f"The task {intent.arguments.get('id')} is not settled: it waits, or somebody else drives it."
        )
    elif outcome.why.startswith("reconcile"):
        told = cut(line(outcome.told), TURN_CHARS) or "it gave a value that no journal can hold"
        message = f"{message} Its own reconciliation could not say: {told}"
    elif outcome.why == "tool_unsure":
        told = cut(line(outcome.told), TURN_CHARS)
        message = f"{intent.tool} may or may not have taken effect; what is its outcome? It says: {told}"
    question = Question(
        kind="in_doubt",
        message=message,
        tool=intent.tool,
        key=intent.idempotency_key,
    )
    return Change(question=question, reply=None), case.run.counters


def _asking(case: Case, outcome: Asked) -> Effect:
    """The tool's own question; what it wants back with the answer stays in the payload of the outcome."""
    intent, counters = case.run.memory.intent, case.run.counters
    assert intent is not None, "Executing is entered with an intent"
    question = Question(
        kind="elicitation",
        message=outcome.asking.message,
        answer_schema=outcome.asking.answer_schema,
        tool=intent.tool,
        key=intent.idempotency_key,
    )
    return Change(question=question, reply=None), replace(counters, elicitations=counters.elicitations + 1)


def provide(case: Case) -> Effect:
    """An answer settles the question; one to an approval is for that question's call alone."""
    outcome = case.outcome
    assert isinstance(outcome, Answered), "only an answer is valid here"
    planned: dict[str, Any] = {}
    if case.run.spec.mode != "react" and case.run.state != EXECUTING:
        planned = {"turn": Turn("user", cut(clean(_words(outcome.answer)), TURN_CHARS))}
    question, reply = case.run.memory.question, outcome.answer
    if (
        question is not None and question.approval is not None
    ):  # an approval is for this question's call alone
        reply = reply.model_copy(
            update={"approval": question.approval, "run_id": case.run.run_id, "at": case.at_us}
        )
    return Change(question=None, reply=reply, **planned), case.run.counters


def _words(answer: Answer) -> str:
    if answer.action == "decline":
        return "(declined to answer)"
    return answer_text(answer.content) or "(an empty answer)"


def said(case: Case) -> Turn | None:
    """Return what a planner has said, or what a workflow asks, as a turn of the dialogue; nothing when code decides."""
    outcome = case.outcome
    if not isinstance(outcome, Replied):
        return Turn("assistant", cut(clean(case.question.message), TURN_CHARS)) if case.question else None
    return Turn("assistant", cut(clean(outcome.text.strip()), TURN_CHARS))
