"""Settings of all tests: hypothesis without deadlines, since tests never assert times."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "paor",
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("paor")

for _name in (
    *("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_CUSTOM_HEADERS", "OPENAI_LOG"),
    *("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "ANTHROPIC_CUSTOM_HEADERS"),
    *("ANTHROPIC_LOG", "PAOR_MODEL", "PAOR_PRICES"),
):
    os.environ.pop(_name, None)  # no test reaches a provider because of what is set where it runs
