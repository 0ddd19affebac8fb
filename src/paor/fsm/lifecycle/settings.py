"""What an engine was constructed with, checked once: its model, tools, bounds, policy, prompts and rules."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...prompts.building.builder import readable_size, shown_whole
from ...prompts.building.templates import reported
from ...prompts.model import Model
from ...states.base.errors import UsageError
from ...states.phase import Phase
from ...states.run.spec import TASK_TOOL, Mode, Spec, ToolSpec
from ...states.settings.limits import PLANNER_STEPS, Limits, merged_limits
from ...states.settings.policy import Policy
from ...states.settings.profile import Profile
from ...tools.catalog import fold_name
from ...tools.defaults import WEB
from ...tools.documents.tools import builtin_tools, generate_report
from ...tools.policy import check_patterns, matches
from ...tools.schema.parameters import ParameterSchema
from ...tools.tool import Tool
from ..machine.decide import machine_told
from ..machine.impure_names import impure_parts
from ..machine.machine import MACHINE, Machine
from ..machine.properties import Property, properties_of
from ..runtime.ports import ValuesPort
from ..versioning.host_code import host_text
from .arguments import model_of, offered_tools, profile_of, rules_of, templates_of, toolbox
from .instructions import Instructions, instructions_of, instructions_text
from .model_facts import said_by

_OWN = frozenset({*(tool.name for tool in builtin_tools()), *WEB, TASK_TOOL.name})
"""Names of paor's own tools: a pattern of a policy is no mistake where the engine does not offer them."""


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
        profile: Of runs in react mode that bring none; None for ``auto``.
        instructions: Of every run.
        for_documents: Names of the tools that are offered only where there is use for them: the built-in ones, unless the host
            has asked for these.
        deps: What the host hands to its tools in runs that bring none.
        machine: The host's own; None for the standard one.
        host_machine: The same as a spec records it.
        values: The port for values from the host; None for none.
        connections: Of every run, values by label: of the runs of a tool that was made with some.
        as_recorded: Whether a run counts as unchanged but for paor itself: of somebody who only looks, answers and forks, and has
            neither the host's tools nor its prompts or policy.
        never: What no row of a run may do.
    """

    model: Model
    tools: Mapping[str, Tool]
    given_limits: Limits | None
    given_policy: Policy | None
    prompts: Mapping[str, str]
    rules: tuple[str, ...]
    profile: Profile | None = None
    instructions: Instructions | None = None
    for_documents: frozenset[str] = frozenset()
    deps: Any = None
    machine: Machine | None = None
    host_machine: str = ""
    values: ValuesPort | None = None
    connections: Mapping[str, Any] = field(default_factory=dict)
    as_recorded: bool = False
    never: tuple[Property, ...] = ()

    @property
    def limits(self) -> Limits:
        """Bounds of every run that brings none."""
        return self.given_limits if self.given_limits is not None else Limits()

    @property
    def policy(self) -> Policy:
        """What runs may do."""
        return self.given_policy if self.given_policy is not None else Policy()

    @property
    def phase_tools(self) -> tuple[ToolSpec, ...]:
        """What the phases of the host's own machine call."""
        phases = self.machine.host.phases.values() if self.machine is not None else ()
        names = dict.fromkeys(phase.tool for phase in phases if phase.tool is not None)
        return tuple(self.tools[name].spec() for name in names)

    def machine_for(self, spec: Spec) -> Machine | None:
        """Return the machine that a run with *spec* walks, with this engine's functions; None for the standard one."""
        if not spec.host_machine:
            return None
        if spec.host_machine == self.host_machine:
            return self.machine
        return machine_told(spec.host_machine, self.machine)

    def limits_of(self, mode: Mode) -> Limits:
        """Return the limits of a run that is started without its own: the defaults of its mode with the engine's."""
        usual = Limits(max_steps=PLANNER_STEPS) if mode == "planner" else Limits()
        return merged_limits(usual, self.given_limits)

    def offered(
        self, names: Sequence[str] | None, task_type: str | None, *, documents: bool
    ) -> tuple[Tool, ...]:
        """
        Return the tools that one run is offered.

        The built-in tools work on documents. Unless the host has asked for them (``builtins=True``), they are offered to a run that
        has documents which its first prompt does not show whole, and to others as far as *names* or the patterns of the task type
        name them.

        Args:
            names: Those that the caller of the run names; None for the usual ones.
            task_type: Of the run.
            documents: Whether it begins with such documents, or with a model that works on nothing else.

        Raises:
            UsageError: A name that no tool has.
        """
        if names is not None or documents or not self.for_documents:
            return offered_tools(self.tools, names)
        patterns = self.policy.task_types.get(task_type or "", ())
        named = [pattern for pattern in patterns if pattern != "*"]
        return tuple(
            tool
            for name, tool in self.tools.items()
            if name not in self.for_documents or matches(tool.name, named)
        )

    def in_context_of(self, spec: Spec, model: Model) -> Spec:
        """Return *spec* for *model* to go on with: with its context where it is another model than before, and has a smaller one."""
        context = said_by(model).context_tokens
        if model.name == spec.model or context is None or context >= spec.context_tokens:
            return spec
        limits = spec.limits.model_copy(update={"context_tokens": context})
        return self.readable(spec.model_copy(update={"limits": limits}), before=spec)

    def readable(self, spec: Spec, *, before: Spec) -> Spec:
        """Return *spec* with the tools that read documents, where the prompts of *before* showed all of them and its own do not."""
        documents = [
            readable_size(spec, document.mime, document.payload.bytes, is_text=document.text)
            for document in spec.documents
        ]
        shown = [len(shown_whole(one, documents)) == len(documents) for one in (before, spec)]
        usual = [tool.name for tool in self.offered(None, spec.task_type, documents=False)]
        held = [tool.name for tool in spec.tools]
        if not spec.native or shown != [True, False] or spec.own_tools or held != usual:
            return spec
        tools = self.offered(None, spec.task_type, documents=True)
        return spec.model_copy(update={"tools": tuple(tool.spec() for tool in tools)})

    def current_spec(self, spec: Spec, *, whole: bool = False) -> Spec:
        """
        Return *spec* as an engine with these settings would write it now; see `fsm.engine.Engine.current_spec`.

        Args:
            spec: As it was recorded.
            whole: What the engine was not given counts as taken away; see `fsm.engine.Engine.trial_spec`.
        """
        if self.as_recorded:
            return spec
        others = set[str]() if whole else set(spec.host_templates) - self.prompts.keys()
        kept = {*spec.own_templates, *others} & spec.templates.keys()
        # as it was started: its first phase may have chosen another mode since, and reports are no conversation to go on with
        holds = "opening" in spec.templates
        mode = "react" if holds and "opening" not in spec.host_templates else spec.mode
        templates = templates_of(self.prompts, mode=mode, profile=spec.profile)
        templates = templates if holds else reported(templates)
        templates |= {name: spec.templates[name] for name in kept}
        hosts = tuple(sorted({*self.prompts, *spec.host_templates}))
        own: dict[str, Any] = {"templates": templates, "host_templates": hosts}
        own["policy"] = self.policy if whole or self.given_policy is not None else spec.policy
        if whole:
            own["limits"] = (
                merged_limits(spec.limits, self.given_limits) if self.given_limits else spec.limits
            )
        if whole or self.instructions is not None:
            own["instructions"] = instructions_text(self.instructions, spec)
        if spec.task == 0:  # it calls nothing but its tasks
            return spec.model_copy(update=own)
        tools = {fold_name(name): tool.spec() for name, tool in self.tools.items()}
        listed = self.tools.keys() - _OWN and whole
        own["tools"] = tuple(
            tools.get(fold_name(tool.name), tool)
            for tool in spec.tools
            if not listed or fold_name(tool.name) in tools
        )
        own["formatter"] = generate_report.spec() if spec.formatter is not None else None
        own["rules"] = self.rules or (() if whole else spec.rules)
        if spec.host_machine or (spec.workflow is None and self.host_machine):
            own |= {"host_machine": self.host_machine, "phase_tools": self.phase_tools}
            own["templates"] |= phase_templates(self.machine)
        return spec.model_copy(update=own)


def settings_of(
    model: Model | str | None,
    tools: Sequence[Tool],
    limits: Limits | None,
    policy: Policy | None,
    prompts: Mapping[str, str] | None,
    rules: Sequence[str] | None,
    *,
    builtins: bool | None,
    profile: Profile | str | None = None,
    instructions: Instructions | None = None,
    deps: Any = None,
    machine: Machine | None = None,
    values: ValuesPort | None = None,
    never: str | Sequence[str] = (),
) -> EngineSettings:
    """
    Return what an engine was given, checked; the arguments are those of `fsm.engine.Engine`.

    Raises:
        UsageError: An unusable model, tool, template, rule, or bounds and policy that are none.
    """
    if not isinstance(limits, Limits | None) or not isinstance(policy, Policy | None):
        raise UsageError("limits and policy must be a Limits and a Policy value")
    chosen, offered = model_of(model), toolbox(tools, builtins=builtins is not False)
    check_policy(policy, offered)
    templates_of(prompts)
    own = usable_machine(machine, offered)
    for place, told in impure_parts(own.host) if own is not None else ():
        warnings.warn(f"{place} {told}", stacklevel=3)
    check_values_port(own, values)
    return EngineSettings(
        chosen,
        offered,
        limits,
        policy,
        dict(prompts or {}),
        rules_of(rules),
        profile_of(profile),
        instructions_of(instructions),
        frozenset(offered) - {tool.name for tool in tools} if builtins is None else frozenset(),
        deps,
        own,
        host_text(own),
        values,
        never=properties_of(own or MACHINE, {*offered, *_OWN}, never),
    )


def usable_machine(machine: Machine | None, tools: Mapping[str, Tool]) -> Machine | None:
    """
    Return a host's own machine, checked; None for the standard one.

    Raises:
        UsageError: It is none, it may not end, or one of its phases calls a tool that the engine does not have.
    """
    if machine is None:
        return None
    if not isinstance(machine, Machine):
        raise UsageError("machine must be a paor.Machine: begin with Machine.standard()")
    machine.check_whole()
    if machine.is_standard:
        return None
    from ..check.checker import machine_defects  # only a machine of the host's own is examined

    problems = machine_defects(machine)
    if problems:
        told = "".join(f"\n  {problem}" for problem in problems)
        raise UsageError(f"the machine cannot be used:{told}")
    for phase in machine.host.phases.values():
        if phase.tool is not None and phase.tool not in tools:
            raise UsageError(f"{phase.name} calls {phase.tool!a:.60}, which is no tool of this engine")
        _check_arguments(phase, tools)
        if isinstance(phase.model, str):
            raise UsageError(
                f"{phase.name}: model takes a model itself, such as OpenAIModel({phase.model!r:.60})"
            )
        if phase.model is not None:
            model_of(phase.model)
    return machine


def _check_arguments(phase: Phase, tools: Mapping[str, Tool]) -> None:
    """Raise `UsageError` where the arguments of a phase's call are values that its tool does not take; what is missing may be filled in."""
    if phase.tool is None or not isinstance(phase.arguments, Mapping):
        return
    found = ParameterSchema(tools[phase.tool].parameters).check(phase.arguments)
    wrong = [problem.message for problem in found if problem.code != "missing"]
    if wrong:
        raise UsageError(f"{phase.name}: arguments for {phase.tool}: {'; '.join(wrong[:3])}")


def check_values_port(machine: Machine | None, values: ValuesPort | None) -> None:
    """
    Refuse a ``values`` port that is none, that no row asks, or that a row would ask and that is not there.

    Raises:
        UsageError: One of these.
    """
    asked = machine.host.fresh if machine is not None else ()
    if values is not None and not callable(values):
        raise UsageError("values must be a function of the run's id and its phase that gives a mapping")
    if values is not None and not asked:
        raise UsageError("nothing asks the values port: machine.ask_values('specify') says before which rows")
    if values is None and asked:
        raise UsageError(f"the machine asks the values port before {asked[0]}: give Engine(values=...)")


def phase_templates(machine: Machine | None) -> dict[str, str]:
    """Return the templates of the phases of a host's own machine, by the phases' names."""
    phases = machine.host.phases if machine is not None else {}
    return {name: phase.prompt for name, phase in phases.items() if phase.prompt is not None}


def check_policy(policy: Policy | None, offered: Mapping[str, Tool]) -> None:
    """
    Check that every pattern of a policy that a host gives fits a tool; paor's own tools count where they are not offered.

    Raises:
        UsageError: One line that names each pattern that fits none.
    """
    if policy is not None:
        check_patterns(policy, {*offered, *_OWN})
