"""What a row recorded of its outcome, as the value that the machine decided on; its texts are read from the payloads."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

import orjson

from ...states.base.errors import Erased, JournalDamaged
from ...states.records.actions import StoredText
from ...states.records.outcomes import (
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
    Unaffordable,
    Usage,
)
from ...states.records.questions import Answer, Asking
from ...states.run.state import Change, Run
from ..decision.guard_context import NO_VALUES, Given
from ..journal.payloads import Payload, recalled_text
from ..journal.prompts import with_summary
from ..journal.rows import Transition


class Payloads(Protocol):
    """Where payloads are read, such as a journal."""

    def payload(self, run: int, n: int) -> Payload:
        """Return one payload of a run."""
        ...


def recorded_change(payloads: Payloads, run: int, n: int) -> Change | None:
    """
    Return the change that is in payload *n*; None once it or a text that it shows is erased.

    Args:
        payloads: Where it is read.
        run: Number of the run that holds it.
        n: Its number.
    """

    def shown(number: int) -> str | None:
        text = payloads.payload(run, number).body
        if text is None:
            raise Erased(f"payload {number} has been erased")
        return recalled_text(text, 2)

    body = payloads.payload(run, n).body
    with suppress(Erased):
        return Change.read(body, shown) if body is not None else None
    return None


class RecordedHost(NamedTuple):
    """
    What a row has recorded of what the host's own code gave, which may not be here.

    Attributes:
        given: Its guards, and what it set; None for a run on the standard machine.
        fresh: Values from the engine's ``values`` port.
    """

    given: Given | None = None
    fresh: Mapping[str, Any] = NO_VALUES


def recorded_host(journal: Payloads, run: Run, row: Transition) -> RecordedHost:
    """Return what *row* has recorded of the host's own; nothing of it once erased."""
    given, fresh = None, NO_VALUES
    if run.spec.host_machine:
        body = journal.payload(row.run, row.change["n"]).body
        given = Given(dict(row.guards), Change.read(body) if body is not None else Change())
    if "values" in row.request:
        body = journal.payload(row.run, row.request["values"]["n"]).body
        fresh = orjson.loads(body) if body is not None else NO_VALUES
    return RecordedHost(given, fresh)


def recorded_outcome(journal: Payloads, run: Run, row: Transition) -> Outcome:
    """Return the outcome that a row recorded, its texts read from the payloads."""
    row = with_summary(row)[-1]
    facts = row.outcome
    kind = facts["kind"]
    if kind == "reply":
        place = StoredText(**facts["reply"])
        text, finish = _text(journal, run, place.n), facts.get("finish", "stop")
        parts = StoredText(**facts["parts"]) if "parts" in facts else None
        asked = facts.get("request_id"), facts.get("attempts", 1), parts, row.request.get("model", "")
        refused = StoredText(**facts["refused"]) if "refused" in facts else None
        told = None if refused is None else (_text(journal, run, refused.n), refused)
        return Replied(text, place, finish, _usage(facts, 1), *asked, told)
    if kind == "fault":
        place = StoredText(**facts["message"])
        usage = _usage(facts, facts.get("calls", 0))
        return ModelFault(facts["code"], _text(journal, run, place.n), place, usage, facts.get("request_id"))
    if kind == "recalled":
        numbers = row.request["payloads"]
        bodies = [journal.payload(run.number, number).body for number in numbers]
        texts = tuple(recalled_text(body, run.spec.revision) for body in bodies)
        return Recalled(texts, tuple(numbers))
    if kind == "answer":
        place = StoredText(**facts["answer"])
        return Answered(Answer.model_validate_json(_text(journal, run, place.n)), place)
    if kind == "asked":
        place = StoredText(**facts["asked"])
        return Asked(Asking.model_validate_json(_text(journal, run, place.n)), place)
    if kind == "result":
        return _recorded_result(journal, run, row)
    if kind == "cancelled":
        used = *_recorded_usage(facts), _request_ids(facts), bool(facts.get("left"))
        return Cancelled(bool(facts.get("in_doubt")), *used)
    if kind == "in_doubt":
        return _recorded_doubt(journal, run, facts)
    plain: dict[str, Outcome] = {"none": NoOutcome()}
    if kind == "unaffordable":
        plain[kind] = Unaffordable(facts["stop"])
    return plain[kind]


def _recorded_doubt(journal: Payloads, run: Run, facts: Mapping[str, Any]) -> InDoubt:
    """Return why an effect was in doubt, with the words that tell more if there were any."""
    if "message" not in facts:
        return InDoubt(facts.get("why", ""))
    place = StoredText(**facts["message"])
    return InDoubt(facts["why"], _text(journal, run, place.n), place, bool(facts.get("left")))


def _recorded_usage(
    facts: Mapping[str, Any],
) -> tuple[Usage, tuple[tuple[StoredText, StoredText], ...]]:
    """Return what a tool's own requests used, and their payloads."""
    texts = tuple((StoredText(**prompt), StoredText(**reply)) for prompt, reply in facts.get("texts", ()))
    return _usage(facts, facts.get("calls", len(texts))), texts


def _usage(facts: Mapping[str, Any], calls: int) -> Usage:
    """Return the usage that a row's outcome has; what it leaves out is 0."""
    return Usage(calls, *map(facts.get, _USED, _NOTHING))


_USED = Usage.__struct_fields__[1:]
_NOTHING = (0,) * len(_USED)


def _request_ids(facts: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(facts.get("request_ids", ()))


def _recorded_result(journal: Payloads, run: Run, row: Transition) -> Ended:
    """The result is in the row's change, usage and the tool's own requests in its outcome."""
    facts = row.outcome
    change = Change.read(_text(journal, run, row.change["n"]))
    if not change.result:
        raise JournalDamaged("a result is missing in the change")
    usage, texts = _recorded_usage(facts)
    left = bool(facts.get("left"))
    return Ended(change.result, usage, texts, facts.get("reconciled", ""), _request_ids(facts), left)


def _text(journal: Payloads, run: Run, number: int) -> str:
    body = journal.payload(run.number, number).body
    if body is None:
        raise JournalDamaged(f"payload {number} has been erased; what follows from it cannot be checked")
    return body if isinstance(body, str) else body.decode("utf-8", "surrogatepass")
