"""
What came back from the outside: one value per way a request can end.

Everything that is not a pure function of the run enters here as data: replies, results, faults, the time.
"""

from __future__ import annotations

from operator import add
from typing import ClassVar, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import astuple

from .actions import StoredText, ToolResult
from .questions import Answer, Asking


class Usage(Struct, frozen=True, gc=False):
    """
    What one request to a model, or a whole run, used.

    Attributes:
        calls: Requests made.
        tokens_in: Input tokens as the model counts them, cached ones included.
        tokens_out: Output tokens, reasoning included.
        cost_micro: Millionths of the currency unit.
        tokens_cached: Input tokens that were read from the provider's cache.
        tokens_cache_write: Input tokens that were written to it.
        tokens_reasoning: Output tokens that are reasoning and not part of the reply.
        time_us: Microseconds of active time: of a run, without the time in which it waited; 0 in what a model reports.
    """

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost_micro: int = 0
    tokens_cached: int = 0
    tokens_cache_write: int = 0
    tokens_reasoning: int = 0
    time_us: int = 0

    @property
    def cost(self) -> float:
        """Return the cost in the currency of the price list."""
        return self.cost_micro / 1e6

    @property
    def cached_share(self) -> float:
        """Return how much of the input was read from a provider's cache, from 0 to 1."""
        return cached_share(self.tokens_cached, self.tokens_in)

    @property
    def seconds(self) -> float:
        """Return the active time in seconds."""
        return self.time_us / 1e6

    def wire(self) -> dict[str, int | float]:
        """Return the JSON form of a run's usage."""
        names = ("tokens_in", "tokens_out", "tokens_cached", "tokens_cache_write", "cost", "seconds", "calls")
        return {name: getattr(self, name) for name in names}

    def __add__(self, other: Usage) -> Usage:
        """Return the sum of both, field by field."""
        return Usage(*map(add, astuple(self), astuple(other)))

    def details(self) -> dict[str, int]:
        """Return the cached and reasoning tokens by name, without zeros."""
        if self.tokens_cached or self.tokens_cache_write or self.tokens_reasoning:
            return {name: value for name in DETAILS if (value := getattr(self, name))}
        return {}


def cached_share(cached: int, tokens_in: int) -> float:
    """Return how much of *tokens_in* the *cached* tokens are, from 0 to 1; 0 of nothing."""
    return min(1.0, cached / tokens_in) if tokens_in else 0.0


DETAILS = ("tokens_cached", "tokens_cache_write", "tokens_reasoning")
"""Parts of a usage that few models report; a row holds those that are not 0."""


USED = ("tokens_in", "tokens_out", "cost_micro", *DETAILS)
"""Every part of a usage that a row's outcome tells, beside the number of requests."""

NO_USAGE = Usage()
"""Nothing was asked of a model."""


class NoOutcome(Struct, frozen=True, gc=False):
    """Nothing was needed."""

    kind: ClassVar[str] = "none"
    usage: ClassVar[Usage] = NO_USAGE


class Replied(Struct, frozen=True, gc=False):
    """
    A model replied.

    Attributes:
        text: The raw reply.
        payload: Where it is stored.
        finish: ``stop``, ``length``, ``repetition``, ``refusal``, ``content_filter`` or ``tool_calls``.
        usage: What this request used.
        request_id: The provider's id of the exchange, if it gave one.
        attempts: How often it was asked, failed attempts before this reply included.
        parts: Where the turn as its provider gave it is stored; None for none.
        model: Which model that was.
        refused: What the host's own type says against the output in it, and where those words are stored; None for nothing.
    """

    text: str
    payload: StoredText
    finish: str
    usage: Usage
    request_id: str | None = None
    attempts: int = 1
    parts: StoredText | None = None
    model: str = ""
    refused: tuple[str, StoredText] | None = None
    kind: ClassVar[str] = "reply"


class ModelFault(Struct, frozen=True, gc=False):
    """
    A model failed after its bounded retries.

    Attributes:
        code: A short label from a closed list (`prompts.model.FAULT_CODES`).
        payload: The message, stored as a payload since it is foreign text.
        message: The same, for the final message.
        usage: What the failed attempts used, as far as known.
        request_id: The provider's id of the last exchange, if it gave one.
    """

    code: str
    message: str
    payload: StoredText
    usage: Usage = NO_USAGE
    request_id: str | None = None
    kind: ClassVar[str] = "fault"


class Ended(Struct, frozen=True, gc=False):
    """
    A tool ended, with a result or an error.

    Attributes:
        result: What it left.
        usage: Model requests that the tool made through its context; of a workflow's task all that it used.
        texts: Payload pairs (prompt, reply) of those requests, in order.
        reconciled: What the tool's own reconciliation said first: ``done``, and this is its result; ``not_done``, so the
            call was made; empty when it was not asked.
        request_ids: The provider's ids of those exchanges that it gave one.
        left: Whether it was given up at its deadline and still ran, so that it was left running.
    """

    result: ToolResult
    usage: Usage = NO_USAGE
    texts: tuple[tuple[StoredText, StoredText], ...] = ()
    reconciled: Literal["", "done", "not_done"] = ""
    request_ids: tuple[str, ...] = ()
    left: bool = False
    kind: ClassVar[str] = "result"


Doubt = Literal[
    "",
    "driver_lost",
    "reconcile_failed",
    "reconcile_unreadable",
    "task_pending",
    "shared_intent",
    "tool_unsure",
    "deadline",
]
"""Why nobody knows of an effect whether it happened; a closed list, since it is in hashed rows."""


DOUBTS = {
    "": "begun by a driver that is gone",
    "driver_lost": "begun by a driver that is gone",
    "reconcile_failed": "begun, and its reconciliation could not say whether it happened",
    "reconcile_unreadable": "begun, and its reconciliation gave a value that no journal can hold",
    "tool_unsure": "begun, and its tool cannot say what it did",
    "deadline": "given up at its deadline",
    "task_pending": "begun, and the task that it starts waits, or somebody else drives it",
    "shared_intent": "begun by the run that this one was forked from, which may be about to make the call",
}
"""How an effect in doubt was begun, by `InDoubt.why`."""


class InDoubt(Struct, frozen=True, gc=False):
    """
    A `once` effect was begun; whether it happened is not known.

    Attributes:
        why: ``driver_lost`` (the tool cannot be asked), ``reconcile_failed`` (it was asked and raised),
            ``reconcile_unreadable`` (it returned what no journal can hold), ``tool_unsure`` (the tool itself cannot say),
            ``deadline`` (the call was given up at its deadline), ``task_pending`` (a workflow's task waits or
            is driven by somebody else), ``shared_intent`` (of a fork: the tool says that it did not happen, and the
            parent may be about to do it); empty: not said.
        told: What the reconciliation or the tool raised, in its own words, or how long the call was waited for.
        payload: Where that is stored, since it is foreign text.
        left: Whether the call still ran when it was given up, so that it was left running.
    """

    why: Doubt = ""
    told: str = ""
    payload: StoredText | None = None
    left: bool = False
    kind: ClassVar[str] = "in_doubt"
    usage: ClassVar[Usage] = NO_USAGE


class Asked(Struct, frozen=True, gc=False):
    """
    A tool cannot go on without somebody's answer.

    Attributes:
        asking: What it asks, and what it wants back beside the answer.
        payload: Where that is stored, since it is foreign text.
    """

    asking: Asking
    payload: StoredText
    kind: ClassVar[str] = "asked"
    usage: ClassVar[Usage] = NO_USAGE


class Recalled(Struct, frozen=True, gc=False):
    """
    Earlier payloads, read back.

    Attributes:
        texts: One per payload that was asked for; None for bytes and for what has been erased.
        numbers: Of the payloads; none where nobody needs them.
    """

    texts: tuple[str | None, ...]
    numbers: tuple[int, ...] = ()
    kind: ClassVar[str] = "recalled"
    usage: ClassVar[Usage] = NO_USAGE


class Answered(Struct, frozen=True, gc=False):
    """
    Somebody answered what the run waits for.

    Attributes:
        answer: What was said, and by whom.
        payload: Where its JSON form is stored.
    """

    answer: Answer
    payload: StoredText
    kind: ClassVar[str] = "answer"
    usage: ClassVar[Usage] = NO_USAGE


class Cancelled(Struct, frozen=True, gc=False):
    """
    The run was told to stop.

    Attributes:
        in_doubt: Whether a call was open that may have taken effect, and nobody knows.
        usage, texts, request_ids, left: Of a call that was broken off: the model requests that it had made, and whether
            it was left running, as in `Ended`.
    """

    in_doubt: bool = False
    usage: Usage = NO_USAGE
    texts: tuple[tuple[StoredText, StoredText], ...] = ()
    request_ids: tuple[str, ...] = ()
    left: bool = False
    kind: ClassVar[str] = "cancelled"


class Unaffordable(Struct, frozen=True, gc=False):
    """
    A model was not asked, since what the request would need does not fit into what is left of a budget.

    Attributes:
        reason: Which budget, from the reasons of the end.
    """

    reason: Literal["token_budget", "cost_budget"]
    kind: ClassVar[str] = "unaffordable"
    usage: ClassVar[Usage] = NO_USAGE


Outcome: TypeAlias = (
    NoOutcome
    | Replied
    | ModelFault
    | Unaffordable
    | Ended
    | InDoubt
    | Asked
    | Recalled
    | Answered
    | Cancelled
)
