"""Where a process can be killed: the points of the kit that users have, for the scenarios of this folder."""

from __future__ import annotations

from paor.testing.crash_points import RENEWER, Points, Watched, WatchedModel, watching

__all__ = ["RENEWER", "Points", "Watched", "WatchedModel", "watching"]
