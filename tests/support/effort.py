"""
Which examples hypothesis takes: by default the same every time, so that no run fails by chance; with ``--whole`` twice as many, drawn anew.
"""

from __future__ import annotations

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
