"""
The worlds in which the machine is explored: a spec that is small in every number, and all that can come back in it.

A world stands for every run of a mode, with whatever tools: its one tool has an effect that may happen once only, some of
its calls need approval, it can be tried again, and beside it there are a tool that only reads and one that is denied. Its limits are the engine's own, cut down where they are large (`CAPS`); its moves are one outcome of every kind that the readers of
`fsm.decision.interpret` tell apart. Moves are plain JSON data, so a path of them can be kept and walked again. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from ...prompts.building.templates import default_templates
from ...states.run.spec import REVISION, Mode, Spec, ToolSpec
from ...states.settings.limits import Limits
from ...states.settings.policy import ApprovalRule, Policy
from ...states.settings.profile import Profile
from ...tools.documents.tools import generate_report

CALL, READ, DENIED = "check.call", "check.read", "check.denied"
Form: TypeAlias = Mode | Literal["native"]
"""A mode, or the profile of that name, whose runs go other ways."""

FORMS: tuple[Form, ...] = (*get_args(Mode), "native")
APPROVED = "a*"
"""Texts of calls that a person must approve."""

CRITERION = "it is checked"
BUDGET = 1_000
"""Tokens of the budget; a move uses none of it or all."""

PARAMETERS = {
    "type": "object",
    "properties": {"text": {"type": "string"}, "url": {"type": "string"}},
    "required": ["text"],
    "additionalProperties": False,
}
NO_PARAMETERS = {"type": "object", "properties": {}, "additionalProperties": False}
"""Of the tool that reads: every call of it is the same, and Stage 2 has nothing to ask."""

CAPS: dict[str, int] = {
    "max_steps": 1,
    "max_plans": 1,
    "selection_retries": 1,
    "parameter_retries": 2,
    "review_retries": 1,
    "max_retries": 1,
    "max_elicitations": 1,
    "no_improvement_limit": 1,
    "max_consecutive_errors": 1,
    "max_consecutive_refused": 1,
    "max_blocked_calls": 1,
}
"""Where a larger limit is cut; beyond it a counter is explored as *at least that far from its limit*."""

KEPT = ("completion_review",)
"""Settings among the limits that a world has from its engine."""

DUPLICATES = {"consecutive_limit": 2, "window_freq_limit": 1, "window_size": 10_000}
"""Of a repeat any is blocked, and none of a call that is new; for larger bounds either may happen, as here."""

BOUNDS: dict[str, str] = {
    "step": "max_steps",
    "plans": "max_plans",
    "selection_retries": "selection_retries",
    "parameter_retries": "parameter_retries",
    "review_retries": "review_retries",
    "retries": "max_retries",
    "elicitations": "max_elicitations",
    "stale": "no_improvement_limit",
    "errors": "max_consecutive_errors",
    "refused": "max_consecutive_refused",
    "blocked": "max_blocked_calls",
}
"""Counters of a run and the limit of each."""


@dataclass(frozen=True)
class BoundedSpec:
    """
    One spec that is explored.

    Attributes:
        name: ``react``, ``planner, full`` and so on.
        mode: Of the run, or ``native``.
        limits: Cut down.
        full: With a criterion, a final format and a token budget, and without scores.
        step_retries: Of the tool.
        beyond: The engine's own limits that are larger, by name.
    """

    name: str
    mode: Form
    limits: Limits
    full: bool = False
    step_retries: int = 1
    beyond: tuple[tuple[str, int], ...] = ()

    def wire(self) -> dict[str, Any]:
        """Return what the world is made of, as JSON; `world_of` takes it back."""
        return {
            "full": self.full,
            "limits": {name: getattr(self.limits, name) for name in (*CAPS, *KEPT)},
            "mode": self.mode,
            "name": self.name,
            "step_retries": self.step_retries,
        }


def world_of(data: Mapping[str, Any]) -> BoundedSpec:
    """Return the world that `BoundedSpec.wire` told."""
    limits = cut_limits(Limits(**data["limits"]), full=data["full"])
    return BoundedSpec(data["name"], data["mode"], limits, data["full"], data["step_retries"])


def cut_limits(limits: Limits, *, full: bool) -> Limits:
    """Return the limits of a world: every bound of *limits* as it is, budgets and duplicate bounds as worlds have them."""
    kept: dict[str, Any] = {name: getattr(limits, name) for name in (*CAPS, *KEPT)} | DUPLICATES
    if full:
        kept |= {"token_budget": BUDGET, "reply_tokens": 1}
    return Limits(**kept)


def worlds_of(limits: Mapping[Form, Limits]) -> tuple[BoundedSpec, ...]:
    """
    Return the worlds that stand for every run of an engine, two for each mode.

    Args:
        limits: The engine's, by mode.
    """
    found = []
    for mode, own in limits.items():
        beyond = {name: getattr(own, name) for name, cap in CAPS.items() if getattr(own, name) > cap}
        capped = own.model_copy(update={name: CAPS[name] for name in beyond})
        for full in (False, True):
            name, cut = f"{mode}, full" if full else mode, cut_limits(capped, full=full)
            found.append(BoundedSpec(name, mode, cut, full, beyond=tuple(beyond.items())))
    return tuple(found)


def spec_of_world(world: BoundedSpec) -> Spec:
    """Return the spec that a world's runs are started with."""
    return Spec(
        objective="check the machine",
        success_criteria=(CRITERION,) if world.full else (),
        mode="react" if world.mode == "native" else world.mode,
        profile=Profile(stage="native") if world.mode == "native" else Profile(),
        limits=world.limits,
        policy=Policy(deny=(DENIED,), approvals=(ApprovalRule(tool=CALL, arguments={"text": APPROVED}),)),
        tools=(
            ToolSpec(name=CALL, parameters=PARAMETERS, effect="once", step_retries=world.step_retries),
            ToolSpec(name=READ, parameters=NO_PARAMETERS, effect="read"),
            ToolSpec(name=DENIED, parameters=PARAMETERS, effect="read"),
        ),
        templates=default_templates(),
        final_format="md" if world.full else None,
        formatter=generate_report.spec() if world.full else None,
        workflow_id="check",
        key_salt="00",
        revision=REVISION,
    )
