"""
The completion review without a model: what code can say of a run that would end, from what the model has said last. Pure.

Source: `Limits.completion_review`. A run without success criteria whose model has stopped with an answer has been judged by it;
a second judgement costs a request. Code never calls a run done whose last call failed, a call of its last reply, or one that is not `read`:
whether its answer is true, only the results tell.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..records.actions import NOT_MADE_CODES
from ..records.observations import Message
from ..records.reviews import Review
from .state import Run


def draft_of(run: Run) -> str:
    """Return the answer that the model gave when it stopped, empty without one."""
    refinement = run.memory.refinement
    said = refinement.answer if refinement is not None and refinement.decision == "stop" else None
    return (run.memory.answer or said or "").strip()


def last_call_failed(run: Run) -> bool:
    """
    Return whether the last call has failed, was refused for its parameters, or was denied by a policy or a person.

    A call that was blocked as a duplicate changes nothing, nor does that of a hook or of a host's own phase.
    """
    own = {tool.name for tool in run.spec.phase_tools} - {tool.name for tool in run.spec.tools}
    for message in reversed(run.memory.history):
        if message.round or message.origin == "hook" or message.tool in own or message.tool in _NO_CALLS:
            continue
        if message.error_code != _BLOCKED:
            return not message.success
    return False


_NO_CALLS = ("noop", "elicitation")
_BLOCKED = "duplicate_call_blocked"


def failed_calls(run: Run) -> Iterator[Message]:
    """
    Yield the failed calls after which code does not judge: those of the newest turn, and any made that is not `read`.

    Of two stages none: a refinement has judged each result. A call with an effect that was blocked since it was made before has not
    failed: the one that was made tells.
    """
    reads = {tool.name for tool in run.spec.tools if tool.effect == "read"}
    own = {tool.name for tool in run.spec.tools} - reads
    first = run.counters.step - run.counters.plan_step
    for message in run.memory.history:
        if message.success or message.origin or message.round or message.tool not in own | reads:
            continue
        acts, code = message.tool in own, message.error_code
        newest = run.spec.native and message.step >= first and not (acts and code == _BLOCKED)
        if newest or (acts and message.error and code not in NOT_MADE_CODES):
            yield message


def decided_by_rules(run: Run) -> bool:
    """Return whether the completion review of a run that has concluded is code's, so that no model is asked."""
    choice = run.spec.limits.completion_review
    stopped = ("model_stop", "max_steps") if run.spec.native else ("model_stop",)
    if choice == "model":
        return False
    if choice == "auto" and (
        run.spec.success_criteria or run.counters.stop not in stopped or not draft_of(run)
    ):
        return False
    if run.spec.revision == 1 or not (last_call_failed(run) or any(failed_calls(run))):
        return True
    review = review_by_rules(run)
    return review is None or review.status != "success"


def output_asked(run: Run) -> bool:
    """
    Return whether the model of a run that has concluded is asked for the output alone: code has judged the run, and well.

    A judgement beside it would be one more thing in which a small model can err.
    """
    if run.spec.output_schema is None or not decided_by_rules(run):
        return False
    review = review_by_rules(run)
    return review is not None and review.status == "success"


def review_by_rules(run: Run) -> Review | None:
    """
    Return code's completion review of a run that has concluded.

    Success when its criteria are met, or when its model has stopped and either gave an answer or saw its last action
    succeed; failed when the model stopped after a failure and without an answer. None when a limit stopped the run: then the
    limit is the reason why it fails.
    """
    stop, check = run.counters.stop, run.memory.check
    if stop not in ("criteria_met", "model_stop"):
        return None
    if stop == "criteria_met" or draft_of(run) or (check is not None and check.status == "success"):
        return Review(status="success")
    return Review(status="failed", improvements=check.improvements if check is not None else ())
