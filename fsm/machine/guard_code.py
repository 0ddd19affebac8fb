"""Placeholder until the real one is merged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def impurities(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return nothing."""
    return ()
