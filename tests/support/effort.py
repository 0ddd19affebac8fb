"""
How much is spent on a test: the processor's time that one input may take, and which examples hypothesis takes: by default the same every time, so that no run fails by chance; with ``--whole`` twice as many, drawn anew.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

from hypothesis import HealthCheck, settings

EXAMPLES = 100
"""Of a property that says no number, with ``--whole``."""

settings.register_profile(
    "paor",
    max_examples=EXAMPLES // 2,
    derandomize=True,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile("whole", settings.get_profile("paor"), max_examples=EXAMPLES, derandomize=False)


def examples(whole: int) -> int:
    """Return how many of the *whole* number are taken in this run, for a property that says its own number."""
    return whole * settings().max_examples // EXAMPLES


class TooSlow(BaseException):
    """An input took more of the processor than it may; no error that a reader may catch."""


@contextmanager
def at_most_s(seconds: float) -> Iterator[None]:
    """End what takes more than *seconds* of the processor, whatever else the machine does; `re` looks for signals, too."""

    def end(*_: object) -> None:
        raise TooSlow

    before = signal.signal(signal.SIGVTALRM, end)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
