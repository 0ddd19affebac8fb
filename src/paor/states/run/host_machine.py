"""What a spec records of a host's own machine, as data: read here without any of the host's code."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import orjson


@lru_cache(maxsize=64)
def machine_data(text: str) -> Mapping[str, Any]:
    """Return the machine that a spec's `host_machine` tells, an empty mapping for the standard one; not to be changed."""
    data: Mapping[str, Any] = orjson.loads(text) if text else {}
    return data
