"""The tool ``runs``: the runs of a journal, newest first."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from ..fsm.host.moments import moment_of
from ..fsm.journal_api import STATUSES
from ..states.base.errors import UsageError
from ..states.run.labels import key_of
from .answers import RunsAnswer
from .looking import Look

LIMIT, LIMIT_MAX = 20, 100
"""Runs of one answer: by default, and at most."""


def runs(look: Look, arguments: Mapping[str, Any]) -> RunsAnswer:
    """
    Return the runs that all conditions hold for.

    Args:
        look: At the journal.
        arguments: ``status``, ``state``, ``since``, ``key``, ``limit``, ``before``; none is needed.

    Raises:
        UnknownRun: *before* is no run of this journal.
        UsageError: *since* is no moment.
    """
    limit, before = int(arguments.get("limit", LIMIT)), arguments.get("before")
    since = arguments.get("since")
    found = look.reader.runs(
        status=arguments.get("status"),
        state=arguments.get("state"),
        key=key_of(arguments.get("key")),
        since=_since(since) if since is not None else None,
        before=look.run(before).run if before is not None else None,
        limit=limit + 1,
    )
    lines = [look.line(row) for row in found[:limit]]
    more = f'there are older ones: before="{lines[-1].run_id}"' if len(found) > limit else None
    return RunsAnswer(runs=lines, more=more)


def _since(text: str) -> int:
    found = moment_of(text, datetime.now(UTC))
    if found is None:
        raise UsageError(
            f"since {text!a:.60}: expected a date, a time such as 2026-05-31T18:00Z, or 90m, 12h, 7d"
        )
    return found


SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "status": {"enum": list(STATUSES)},
        "state": {
            "type": "string",
            "pattern": "^[A-Z][A-Za-z0-9]{0,39}$",
            "description": "Phase in which it is, such as Executing, or Done or Failed.",
        },
        "since": {
            "type": "string",
            "maxLength": 40,
            "description": "Started since: a date or time (ISO 8601), or 90m, 12h, 7d ago.",
        },
        "key": {"type": "string", "maxLength": 200, "description": "The host's own key of the run, exactly."},
        "limit": {"type": "integer", "minimum": 1, "maximum": LIMIT_MAX, "default": LIMIT},
        "before": {"type": "string", "maxLength": 64, "description": "Only runs older than this run."},
    },
    "additionalProperties": False,
}
