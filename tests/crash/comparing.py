"""Where the facts of two journals differ."""

from __future__ import annotations

import re
from typing import Any


def differences(found: dict[str, Any], whole: dict[str, Any]) -> list[str]:
    """Return where the facts of a run that was taken up differ from those of the uninterrupted one."""
    told = []
    if len(found["facts"]) != len(whole["facts"]):
        return [f"{len(found['facts'])} runs, expected {len(whole['facts'])}"]
    for run, expected in zip(found["facts"], whole["facts"], strict=True):
        for key, value in expected.items():
            if key == "time_us" and run["task"] == 0:
                continue  # a workflow's own time holds that of its tasks, as far as one process has driven them
            if key == "rows":
                told += _row_differences(run["rows"], value)
            elif _without_rows(run[key]) != _without_rows(value):
                told.append(f"{key}: {run[key]!r}, expected {value!r}")
    return told


def _without_rows(fact: Any) -> Any:
    """Return a fact without the numbers of rows in its words: a call in doubt is settled in rows of its own."""
    return [re.sub(r"\(row \d+\)", "(row)", str(text)) for text in fact] if isinstance(fact, list) else fact


def _row_differences(rows: list[Any], expected: list[Any]) -> list[str]:
    if len(rows) != len(expected):
        return [f"{len(rows)} rows, expected {len(expected)}"]
    return [
        f"row {place}, {key}: {row[key]!r}, expected {value!r}"
        for place, (row, other) in enumerate(zip(rows, expected, strict=True))
        for key, value in other.items()
        if row[key] != value
    ][:3]
