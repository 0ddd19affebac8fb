"""The ledger of one call: what the requests of a tool have used, what open ones hold, and whether one more fits."""

from __future__ import annotations

import threading
from collections.abc import Callable

from msgspec.structs import replace

from ...states.base.errors import ToolError
from ...states.records.outcomes import Usage
from ...states.run.budgets import (
    NO_RESERVATION,
    Allowance,
    Reservation,
    allowance,
    exhausted_budget,
    refusal,
    reservation,
    time_budget_used_up,
)
from ...states.run.state import Counters
from ...states.settings.limits import Limits


class CallLedger:
    """
    Reserve before a request is made, settle when it has ended; for any number of requests at once.

    Open requests hold their reservations against each other whatever the limits say, so that ten that are made at once
    do not each find the same money.

    Args:
        limits, counters: Of the run, as the intent's row left it.
        elapsed_us: Active time since that row.
        is_cancelled: Whether somebody has asked to cancel the run.

    Attributes:
        usage: What was settled.
        is_cancelled: As given.
    """

    def __init__(
        self,
        limits: Limits,
        counters: Counters,
        *,
        elapsed_us: Callable[[], int],
        is_cancelled: Callable[[], bool],
    ) -> None:
        self.usage = Usage()
        self._limits = limits
        self._counters = counters
        self._elapsed_us = elapsed_us
        self.is_cancelled = is_cancelled
        self._held: list[Reservation] = []
        self._lock = threading.Lock()

    def reserve(self, prompt_bytes: int) -> tuple[int, Reservation, Allowance]:
        """
        Return the request's number within the run, its reservation, and what it may use.

        Raises:
            ToolError: A budget is used up, or what is left is too little; or the run is cancelled.
        """
        if self.is_cancelled():
            raise ToolError("the run is cancelled; no model is asked any more")
        with self._lock:
            limits, used, held = self._limits, self._counters_now(), NO_RESERVATION
            for other in self._held:
                held = Reservation(held.tokens + other.tokens, held.cost_micro + other.cost_micro)
            reason = exhausted_budget(limits, used, held)
            if reason is not None:
                raise ToolError(f"the {_words(reason)} is used up")
            wanted = reservation(limits, used, prompt_bytes)
            short = refusal(limits, used, wanted, held)
            if short is not None:
                raise ToolError(f"what is left of the {_words(short)} is too little for this request")
            self._held.append(wanted)
            return used.calls + len(self._held) - 1, wanted, allowance(limits, used, prompt_bytes, held)

    def is_out_of_time(self) -> bool:
        """Return whether the time budget is used up by now."""
        return time_budget_used_up(self._limits, self._counters_now())

    def _counters_now(self) -> Counters:
        """Return the run's counters with what this call has settled, and its time if that is limited."""
        counters, usage = self._counters, self.usage
        elapsed_us = self._elapsed_us() if self._limits.time_budget_us is not None else 0
        return replace(
            counters,
            calls=counters.calls + usage.calls,
            tokens_in=counters.tokens_in + usage.tokens_in,
            tokens_out=counters.tokens_out + usage.tokens_out,
            cost_micro=counters.cost_micro + usage.cost_micro,
            time_us=counters.time_us + elapsed_us,
        )

    def settle(self, usage: Usage, wanted: Reservation | None = None) -> None:
        """Count what a request has used, and give back what it held; of a failed one as far as it is known."""
        with self._lock:
            if wanted is not None:
                self._held.remove(wanted)
            self.usage += usage


def _words(reason: str) -> str:
    return reason.replace("_", " ")
