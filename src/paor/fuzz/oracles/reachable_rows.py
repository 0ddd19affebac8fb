"""Rows of the table that no run of a mode takes, so that what a search has not taken is told apart from what it could not."""

from __future__ import annotations

from collections.abc import Sequence

from ...fsm.explain.coverage import RowCoverage, RowKey
from ...fsm.machine.table import ROWS

_ASKS = ("Planning wait", "Planning provide", "Specifying wait argument_missing")
"""What only a plan that a model has made of actions can lead to."""

NEVER: dict[str, tuple[str, ...]] = {
    "react": (*_ASKS, "Reviewing next_step"),
    "batch": ("Specifying withhold", "Specifying respecify", "Reviewing proceed"),
    "planner": ("Specifying withhold", "Specifying respecify"),
    "native": (*_ASKS, "Specifying respecify"),
    "workflow": _ASKS,
}
"""
By mode: source and trigger, and the first guard of one row among several. The exploration of `paor check` finds these and
no others in its modes, and a test holds that; a workflow is a run of tasks, which ask nobody, and its tasks are runs of react.
"""


def never(mode: str) -> frozenset[RowKey]:
    """Return the rows that no run of a mode takes; none for a mode that is unknown."""
    names = frozenset(NEVER.get(mode, ()))
    return frozenset(
        (row.source, row.trigger, row.dest, row.guards)
        for row in ROWS
        if {f"{row.source} {row.trigger}", " ".join((row.source, row.trigger, *row.guards[:1]))} & names
    )


def parted(
    missing: Sequence[RowCoverage], modes: Sequence[str]
) -> tuple[list[RowCoverage], list[RowCoverage]]:
    """
    Part rows that were never taken into those that a run of some mode could take, and those that none could.

    Args:
        missing: The rows.
        modes: As `EngineMachine.modes` has them; none for all.
    """
    other = frozenset.intersection(*map(never, modes)) if modes else frozenset()
    return [row for row in missing if row.key not in other], [row for row in missing if row.key in other]
