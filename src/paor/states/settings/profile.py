"""Which form of replies a run asks for, and how strictly they are held to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from .base import Settings

Stage = Literal["two_stage", "single", "native"]
CatalogForm = Literal["auto", "names", "described"]


class Profile(Settings):
    """
    Which form of replies a run in react mode asks for, and which other forms it accepts.

    Attributes:
        strict: Accept exactly the form of *stage*. ``two_stage``: `action` is one text ``method.name``, Stage 2
            names its schema ``parameters_v1``, fields have no type ``array`` and no `values`. ``single``: `action`
            is an object of `method` and `name`, neither holding the other. Otherwise all of these are accepted.
        stage: ``two_stage`` asks for the action with its objective, inputs and parameters' schema, ``single`` only
            for the choice ``{"method", "name"}``; Stage 2 follows both. ``native`` has no Stage 2 and no refinement: one
            request a step offers the tools through the provider's own tool calling; a reply without a call is the answer.
        forbidden: Whether the names that Stage 2 may not set are dropped with a note (of a ``read`` tool), or make its reply invalid.
        force_stage_2: Ask Stage 2 also for an action whose schema leaves nothing to set.
        catalog: How actions are shown to Stage 1: ``names`` of actions and parameters, ``described`` with a line of
            description each, ``auto`` described as long as the catalog has at most 2,000 characters.

    Raises:
        UsageError: An unknown name or value.
    """

    strict: bool = False
    stage: Stage = "two_stage"
    forbidden: Literal["drop", "reject"] = "drop"
    force_stage_2: bool = False
    catalog: CatalogForm = "auto"


def recorded_profile(data: Mapping[str, Any]) -> Profile:
    """Return a profile from a journal: an earlier version that did not know `Profile.catalog` showed names only."""
    return Profile.model_validate({"catalog": "names", **data})


AUTO = "auto"
"""The choice between ``native`` and ``two_stage``, made when a run starts, by what its model can do."""

NAMED: dict[str, dict[str, Any]] = {
    "native": {"stage": "native"},
    "two_stage": {},
    "strict": {"strict": True, "forbidden": "reject"},
}
"""Profiles that have a name."""
