"""Moments as people write them: a date, a time, or how long ago; pure, the time of now comes in."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import datetime, timedelta

_AGO = re.compile(r"(\d{1,6})([mhd])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days"}


def moment_of(text: str, now: datetime) -> int | None:
    """
    Return a moment as microseconds since the epoch, None for what is none.

    Args:
        text: ``2026-05-31``, ``2026-05-31T18:00`` (local without a time zone), or ``90m``, ``12h``, ``7d`` ago.
        now: With its time zone.
    """
    with suppress(ValueError, OverflowError, OSError):
        if ago := _AGO.fullmatch(text):
            moment = now - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        else:
            moment = datetime.fromisoformat(text)
        return round(moment.timestamp() * 1e6)
    return None
