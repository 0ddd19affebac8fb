"""Requests of recorded runs that other settings would word differently: a sample of them, and how replies to them are compared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from heapq import heappush, heappushpop
from typing import Any, NamedTuple, get_args

import orjson
from msgspec.structs import replace

from ...prompts.model import Model, ModelCall, Reply, prompt_bytes, reasoning_tokens, shown_to
from ...states.base.errors import ForbiddenRow, HostFunctionError, IllegalEvent
from ...states.records.outcomes import Replied
from ...states.run.budgets import Allowance, allowance, is_reckoned
from ..machine.updates import Decision
from ..replay.comparison import apart, built_prompt, short
from ..replay.trial import Kind, NewRequest
from ..runtime.loop import model_call


class Reading(NamedTuple):
    """
    What a reply means for its run.

    Attributes:
        form: ``read``, else why it cannot be read.
        action: The tools that it chooses, ``an answer`` or ``a question``; empty where it is asked for neither.
        arguments: Those of the calls as JSON, or why they are refused; of a phase of the host's own, the reply's object.
        verdict: The judgement, which criteria are met, and the row of the table that is taken.
        answer: The answer that it gives; this is not compared.
    """

    form: str
    action: str = ""
    arguments: str = ""
    verdict: str = ""
    answer: str | None = None


@dataclass(frozen=True, slots=True)
class NewCall:
    """
    A request that is put to a model again.

    Attributes:
        run_id, seq: Of the row.
        place: The recorded row, as ``PHASE.TRIGGER``.
        call: The new request.
        was: What the recorded reply means.
        read: Returns what another reply means.
    """

    run_id: str
    seq: int
    place: str
    call: ModelCall
    was: Reading
    read: Callable[[Reply], Reading]


class Sample:
    """
    The requests of a sample: those with the smallest SHA-256 of ``RUN_ID SEQ``, so that it is the same each time.

    Args:
        size: Of how many.
        model: That they are made for.
    """

    def __init__(self, size: int, model: Model) -> None:
        self._size, self._model = size, model
        self._heap: list[tuple[int, str, int]] = []
        self._asked: dict[tuple[int, str, int], NewCall] = {}

    def take(self, new: NewRequest) -> None:
        """Keep a request if it is one of the sample so far; a row that a fork shares counts once."""
        place = new.run.run_id, new.row.seq
        key = -int.from_bytes(sha256("{} {}".format(*place).encode()).digest(), "big"), *place
        if key in self._asked or (len(self._heap) == self._size and key < self._heap[0]):
            return
        self._asked[key] = asked_of(new, self._model)
        if len(self._heap) < self._size:
            heappush(self._heap, key)
        else:
            del self._asked[heappushpop(self._heap, key)]

    def all(self) -> tuple[NewCall, ...]:
        """Return them, in the order of their runs and rows."""
        return tuple(sorted(self._asked.values(), key=lambda item: (item.run_id, item.seq)))


def asked_of(new: NewRequest, model: Model) -> NewCall:
    """Return a request as *model* would get it from the run, but for what is left of the run's time."""
    run, kind, limits = new.run, new.request.kind, new.run.spec.limits
    messages, _ = built_prompt(new.store, new.kit, run, new.row, new.request, model.name)
    allowed = Allowance()
    if is_reckoned(limits):
        allowed = allowance(limits, run.counters, prompt_bytes(messages, new.kit.offered(kind, run)))
    shown = shown_to(model, messages, lambda place: new.store.payload(run.number, place.n).body)
    call = model_call(new.kit, run, kind, shown, allowed, reasoning_tokens(model))

    def read(reply: Reply) -> Reading:
        given = replace(new.outcome, text=reply.text, finish=reply.finish, parts=None, refused=None)
        return reading_of(new.decided, given)

    was = reading_of(new.decided, new.outcome)
    place = f"{new.row.source}.{new.row.trigger}"
    return NewCall(run.run_id, new.row.seq, place, replace(call, timeout_s=None), was, read)


def reading_of(decided: Callable[[Replied], Decision], reply: Replied) -> Reading:
    """Return what a reply means: its row is decided, and nothing of it is done."""
    try:
        found = decided(reply)
    except (HostFunctionError, IllegalEvent, ForbiddenRow) as error:
        return Reading("read", verdict=short(f"{error}".partition(": ")[2]))
    case = found.case
    form = "read" if case.problem is None else f"{case.problem.code}: {case.problem.message}"
    judged: str = case.refinement.decision if case.refinement is not None else ""
    judged = case.review.status if case.review is not None else judged
    criteria = f"criteria {case.criteria}" if judged and case.criteria else ""
    row = f"{found.row.trigger} to {found.row.dest}"
    verdict = ", ".join(filter(None, (judged, criteria, row)))
    return Reading(form, *_call(found), verdict, case.answer)


def _call(found: Decision) -> tuple[str, str]:
    """Return which action a reply chooses, and with what arguments."""
    case = found.case
    if case.question is not None:
        return "a question", ""
    if case.plan is not None:
        steps = case.plan.steps
        names = ", ".join(step.name or step.type for step in steps)
        return names, _text([step.fault or dict(step.args) for step in steps])
    if case.invalid is not None:
        return case.tool or "", f"refused: {case.invalid}"
    if case.visit is not None:
        return "", _text(case.visit.value)
    if case.answer is not None:
        return "an answer", ""
    if case.selection is None:
        return "", ""
    given = case.arguments if case.arguments is not None else case.selection.arguments
    return case.selection.tool, "" if given is None else _text(given)


def _text(value: Any) -> str:
    return orjson.dumps(value, default=dict, option=orjson.OPT_SORT_KEYS).decode()


COMPARED: tuple[Kind, ...] = get_args(Kind)[3:7]
"""How replies are compared: form, action, arguments, verdict."""


def difference(was: Reading, now: Reading) -> tuple[Kind, str, str] | None:
    """Return the first of `COMPARED` in which two replies differ, with both as a line each; None where none does."""
    for kind, before, after in zip(COMPARED, was, now, strict=False):
        if before != after:
            return kind, *apart(before, after)
    return None
