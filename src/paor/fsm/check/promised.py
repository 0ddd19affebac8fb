"""
Properties of a host's own (`fsm.machine.properties`), held to every run of an explored world.

A world's call stands for calls of any tool: where a row begins one, each kind of tool is tried that the engine has and that its policy lets be
called so, with an approval or without. So a walk through the product of the graph, what has happened so far and whose call is under way
comes to every way to break a property; the first that is found is a shortest one.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ...states.run.phase_names import EXECUTING
from ...states.run.spec import ToolSpec
from ...states.run.state import Run
from ...states.settings.policy import Policy
from ...tools.policy import denial, matches
from ..machine.machine import Machine
from ..machine.properties import Happened, Property, PropertyWatch
from .bounded_specs import CALL, READ
from .state_space import StateEdge, StateGraph


class Caller(NamedTuple):
    """
    A kind of tool that a world's call can be one of.

    Attributes:
        tool: One tool of the kind.
        effect: Of its calls.
        approved: Whether a person is asked about its calls: None for some of them.
    """

    tool: str
    effect: str
    approved: bool | None


class Broken(NamedTuple):
    """
    A shortest walk that breaks a property.

    Attributes:
        prop: The property.
        edges: From the start.
        calls: By the number of a step the tool whose call it begins, and its effect.
    """

    prop: Property
    edges: tuple[StateEdge, ...]
    calls: Mapping[int, tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Tools:
    """
    The tools of an engine, as a property tells them apart.

    Attributes:
        specs: All of them by name.
        policy: What may be called, and what a person is asked about.
    """

    specs: Mapping[str, ToolSpec]
    policy: Policy

    def caller(self, name: str, usual: str) -> Caller:
        """Return the kind of the tool *name*; *usual* is its effect where the engine has no such tool."""
        effect = self.specs[name].effect if name in self.specs else usual
        return Caller(name, effect, self._approved(name))

    def kinds(self, prop: Property, machine: Machine) -> tuple[Caller, ...]:
        """Return one tool of each kind that may be called and that *prop* tells apart from the others."""
        patterns = [
            term.name for term in (prop.happens, prop.needs) if term is not None and term.kind == "tool"
        ]
        own = [guard.tools for guard in machine.host.guards.values() if guard.tools is not None]
        kinds: dict[object, Caller] = {}
        for name in self.specs:
            if self._is_denied(name):
                continue
            caller = self.caller(name, "once")
            fits = tuple(matches(name, (pattern,)) for pattern in patterns)
            asked = tuple(matches(name, tools) for tools in own)
            kinds.setdefault((fits, asked, caller.effect == "read", caller.approved), caller)
        return tuple(kinds.values())

    def _is_denied(self, name: str) -> bool:
        return all(denial(self.policy, kind, name) for kind in (None, *self.policy.task_types))

    def _approved(self, name: str) -> bool | None:
        found: bool | None = False
        for rule in self.policy.approvals:
            if matches(name, (rule if isinstance(rule, str) else rule.tool,)):
                if isinstance(rule, str) or not rule.arguments:
                    return True
                found = None
        return found


Node = tuple[int, bool, Caller | None]
"""A state, whether what the property needs has been, and whose call is under way."""


def broken(graph: StateGraph, machine: Machine, prop: Property, tools: Tools) -> Broken | None:
    """
    Return a shortest walk of a world that breaks a property, None where every run keeps it.

    Args:
        graph: The world, explored.
        machine: That was explored, with its rows and the host's guards.
        prop: The property.
        tools: Of the engine.
    """
    watch, kinds = PropertyWatch(prop, machine), tools.kinds(prop, machine)
    told = (
        prop.needs is not None and prop.needs.kind == "tool"
    )  # else whose call has ended makes no difference
    leads = defaultdict[int, list[StateEdge]](list)
    for edge in graph.edges:
        leads[edge.source].append(edge)
    start: Node = (0, False, None)
    via: dict[Node, tuple[Node, StateEdge, Happened] | None] = {start: None}
    line = deque([start])
    while line:
        node = line.popleft()
        number, held, caller = node
        for edge in leads[number]:
            for taken in _happenings(graph, edge, caller, kinds, tools):
                watch.held = held
                if watch.breaks(taken):
                    return _walk(via, node, edge, taken, prop)
                under_way = caller
                if taken.begun:
                    under_way = Caller(*taken.begun[0], None)
                after: Node = (
                    edge.dest,
                    watch.after(held, taken),
                    under_way if told and edge.row.dest == EXECUTING else None,
                )
                if after not in via:
                    via[after] = node, edge, taken
                    line.append(after)
    return None


def _happenings(
    graph: StateGraph, edge: StateEdge, caller: Caller | None, kinds: Sequence[Caller], tools: Tools
) -> Iterator[Happened]:
    """Yield what an edge's row may have done: where it begins a call, one for each kind of tool whose call it can be."""
    before, after, row = graph.runs[edge.source], graph.runs[edge.dest], edge.row
    if row.dest != EXECUTING or row.source == EXECUTING:
        result = after.memory.result
        ok = row.trigger == "execute" and caller is not None and result is not None and result.ok
        yield Happened(row, edge.guards, (), caller.tool if ok and caller is not None else None)
        return
    reply = before.memory.reply
    approved = reply is not None and reply.approves
    for kind in _callers(after, kinds, tools, approved=approved):
        yield Happened(row, edge.guards, ((kind.tool, kind.effect),), None, approved)


def _callers(after: Run, kinds: Sequence[Caller], tools: Tools, *, approved: bool) -> Iterator[Caller]:
    """Yield whose call it can be that is begun: a world's own stands for the engine's tools, a phase's and the last formatting are what they are."""
    intent, selection = after.memory.intent, after.memory.selection
    assert intent is not None, "a call is begun with its intent"
    if intent.tool in (CALL, READ):
        for kind in kinds:
            reads = kind.effect == "read"
            # a call that reads and that a person is asked about goes the ways of the call with an effect
            fits = reads if intent.tool == READ else not reads or kind.approved is not False
            if fits and kind.approved is not (not approved):
                yield kind
        return
    kind = tools.caller(intent.tool, intent.effect)
    if selection is None or not selection.caller or kind.approved is not (not approved):
        yield kind


def _walk(
    via: Mapping[Node, tuple[Node, StateEdge, Happened] | None],
    node: Node,
    edge: StateEdge,
    taken: Happened,
    prop: Property,
) -> Broken:
    """Return the walk to an edge that breaks a property."""
    steps = [(edge, taken)]
    while (before := via[node]) is not None:
        node, edge, taken = before
        steps.append((edge, taken))
    steps.reverse()
    calls = {number: taken.begun[0] for number, (_, taken) in enumerate(steps) if taken.begun}
    return Broken(prop, tuple(edge for edge, _ in steps), calls)
