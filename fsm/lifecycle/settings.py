"""What an engine was constructed with, checked once: its model, tools, bounds, policy, prompts and rules."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...prompts.model import Model
from ...states.base.errors import UsageError
from ...states.run.spec import Mode, Spec
from ...states.settings.limits import Limits, merged_limits
from ...states.settings.policy import Policy
from ...tools.catalog import fold_name
from ...tools.documents.tools import generate_report
from ...tools.policy_typos import find_typos
from ...tools.tool import Tool
from .arguments import model_of, rules_of, templates_of, toolbox

PLANNER_STEPS = 1000
"""Steps of a run in planner mode whose host has set no limits: a planner plans again until a plan is empty."""


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """
    What an engine decides and performs its runs with.

    Attributes:
        model: For runs that bring none.
        tools: By name, a host's own before the built-in ones.
        given_limits, given_policy: What the host gave; None where it gave nothing.
        prompts: Templates by name that replace the shipped ones.
        rules: Instead of the shipped ones; none for those.
        deps: What the host hands to its tools in runs that bring none.
    """

    model: Model
    tools: Mapping[str, Tool]
    given_limits: Limits | None
    given_policy: Policy | None
    prompts: Mapping[str, str]
    rules: tuple[str, ...]
    deps: Any = None

    @property
    def limits(self) -> Limits:
        """Bounds of every run that brings none."""
        return self.given_limits if self.given_limits is not None else Limits()

    @property
    def policy(self) -> Policy:
        """What runs may do."""
        return self.given_policy if self.given_policy is not None else Policy()

    def limits_of(self, mode: Mode) -> Limits:
        """Return the limits of a run that is started without its own: the defaults of its mode with the engine's."""
        usual = Limits(max_steps=PLANNER_STEPS) if mode == "planner" else Limits()
        return merged_limits(usual, self.given_limits)

    def bounds_of(self, spec: Spec) -> dict[str, Any]:
        """Return what the next round of a run inherits: no round is freer than the one before it."""
        names = {fold_name(tool.name) for tool in spec.tools}
        offered = [name for name in self.tools if fold_name(name) in names]
        bounds = {"mode": spec.mode, "limits": spec.limits.model_dump(), "task_type": spec.task_type}
        return bounds | ({"tools": offered} if len(offered) < len(self.tools) else {})

    def current_spec(self, spec: Spec) -> Spec:
        """Return *spec* as an engine with these settings would write it now; see `fsm.engine.Engine.current_spec`."""
        kept = {
            *spec.own_templates,
            *(set(spec.host_templates) - self.prompts.keys()),
        } & spec.templates.keys()
        templates = templates_of(self.prompts, stage=spec.profile.stage)
        templates |= {name: spec.templates[name] for name in kept}
        hosts = tuple(sorted({*self.prompts, *spec.host_templates}))
        own: dict[str, Any] = {"templates": templates, "host_templates": hosts}
        if spec.task == 0:  # a workflow calls its tasks whatever the policy says; the tasks obey it
            return spec.model_copy(update=own)
        tools = {fold_name(name): tool.spec() for name, tool in self.tools.items()}
        own["tools"] = tuple(tools.get(fold_name(tool.name), tool) for tool in spec.tools)
        own["formatter"] = generate_report.spec() if spec.formatter is not None else None
        own["policy"] = self.given_policy if self.given_policy is not None else spec.policy
        own["rules"] = self.rules or spec.rules
        return spec.model_copy(update=own)


def settings_of(
    model: Model | str | None,
    tools: Sequence[Tool],
    limits: Limits | None,
    policy: Policy | None,
    prompts: Mapping[str, str] | None,
    rules: Sequence[str] | None,
    *,
    builtins: bool,
    deps: Any = None,
) -> EngineSettings:
    """
    Return what an engine was given, checked; the arguments are those of `fsm.engine.Engine`.

    Raises:
        UsageError: An unusable model, tool, template, rule, or bounds and policy that are none.
    """
    if not isinstance(limits, Limits | None) or not isinstance(policy, Policy | None):
        raise UsageError("limits and policy must be a Limits and a Policy value")
    chosen, offered = model_of(model), toolbox(tools, builtins=builtins)
    if policy is not None:
        for problem in find_typos(policy, offered.keys()):
            warnings.warn(problem, stacklevel=3)  # at the line that makes the engine
    templates_of(prompts)
    return EngineSettings(chosen, offered, limits, policy, dict(prompts or {}), rules_of(rules), deps)
