"""
Causes: which of the things that decide a row made two runs differ at it. Pure: it decides again, with one thing exchanged.

Two runs that stood in the same state differ in a request or a decision only by what they are decided with: parts of the
spec, what they have used, or the code. Each part in which they differ is exchanged by itself; what then comes out
otherwise is a cause. When nothing does, it was decided by other code.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from ...states.base.errors import PaorError
from ...states.records.outcomes import Outcome
from ...states.run.phase_names import PHASES
from ...states.run.spec import Spec, machine_data
from ...states.run.state import Run, initial_run
from ..decision.host_machine import recorded_phases
from ..decision.run_resources import RunResources
from ..journal.rows import Transition
from ..machine.decide import Moment, decide, request_of
from ..replay.recorded_outcome import RecordedHost
from ..versioning.fingerprints import given_fingerprints
from ..versioning.host_code import machine_fingerprints

CAUSES: dict[str, str] = {
    "model_output": "the model said something else",
    "tool_output": "a tool came to something else",
    "answer": "a person answered otherwise",
    "prompt": "the prompts are not the same",
    "code": "paor decides otherwise: another version, or a changed guard",
    "machine": "they walk other machines: a row, a phase or a guard of the host's own",
    "values": "the host gave other values",
    "config": "they were started with other settings",
    "policy": "the host allows other things",
    "budget": "another budget, or another use of it",
    "clock": "time passed otherwise",
    "crash": "a driver was lost in the middle of an effect",
    "cancelled": "somebody cancelled one of them",
    "unfinished": "one of them has not gone on from here",
}
"""The closed list of causes, each with its sentence."""

_BUDGETS = frozenset({"token_budget", "time_budget_s", "cost_budget"})
NAMES = frozenset(
    {
        "workflow_id",
        "key",
        "metadata",
        "key_salt",
        "own_templates",
        "own_tools",
        "model",
        "fallback_for",
        "fallback_reason",
        "host_templates",
    }
)
"""Fields of a spec that name a run or its model; they decide nothing."""

_CAUSE_OF = {"policy": "policy", "values": "values"}
_CAUSE_OF |= dict.fromkeys(("rules", "instructions", "own_instructions", "templates"), "prompt")
_CAUSE_OF |= dict.fromkeys(("engine", "machine", "fingerprints"), "code")


class ComparedPart(NamedTuple):
    """
    One thing in which what decides two runs differs.

    Attributes:
        cause: Kind of cause it would be, a key of `CAUSES`.
        name: Such as ``limits.max_steps``.
        left, right: Its values.
        spec: Fields of the spec that give the left run the right one's value.
        counters: Counters that do so.
    """

    cause: str
    name: str
    left: Any
    right: Any
    spec: Mapping[str, Any]
    counters: Mapping[str, int] = {}


class SpecPlace(NamedTuple):
    """
    A place at which two specs differ.

    Attributes:
        field, key: Field of the spec, and the field or entry within it; the key is empty where it is the whole field.
        left, right: Their values; None for an entry that one does not have.
    """

    field: str
    key: str
    left: Any
    right: Any

    @property
    def name(self) -> str:
        """Such as ``limits.max_steps``."""
        return f"{self.field}.{self.key}" if self.key else self.field

    def put(self, spec: Spec, value: Any) -> Spec:
        """Return *spec* with another value at this place; None takes an entry away."""
        held = getattr(spec, self.field)
        if self.key and isinstance(held, Mapping):
            value = {name: item for name, item in {**held, self.key: value}.items() if item is not None}
        elif self.key:
            value = held.model_copy(update={self.key: value})
        return spec.model_copy(update={self.field: value})


def spec_places(left: Spec, right: Spec) -> Iterator[SpecPlace]:
    """Yield every place at which two specs differ, but for documents and what decides nothing."""
    for name in Spec.model_fields:
        one, other = getattr(left, name), getattr(right, name)
        if one == other or name in NAMES or name == "documents":
            continue
        if name in ("limits", "policy", "profile"):
            one, other = (
                {key: getattr(side, key) for key in type(side).model_fields} for side in (one, other)
            )
        elif name not in ("templates", "values") or None in (*one.values(), *other.values()):
            # where an entry may be null, None cannot stand for one that is not there
            yield SpecPlace(name, "", one, other)
            continue
        for key in dict.fromkeys((*one, *other)):
            if one.get(key) != other.get(key):
                yield SpecPlace(name, key, one.get(key), other.get(key))


def parts_between(left: Spec, right: Spec) -> list[ComparedPart]:
    """Return every part in which two specs differ, documents left out: their content is compared elsewhere."""
    found = []
    for place in spec_places(left, right):
        name, before, after = place.field, place.left, place.right
        if name in ("machine", "phase_tools") and left.host_machine != right.host_machine:
            continue  # named by its rows and phases
        if name == "tools":
            found.append(_tools(left, right))
        elif name == "host_machine":
            found += _machine_parts(left, right)
        else:
            if name == "fingerprints":  # of what is in the spec itself nothing new
                before, after = (
                    {part: digest for part, digest in parts.items() if part not in given_fingerprints(spec)}
                    for parts, spec in ((before, left), (after, right))
                )
            cause = "budget" if place.key in _BUDGETS else _CAUSE_OF.get(name, "config")
            changed = {name: getattr(place.put(left, place.right), name)}
            found += [ComparedPart(cause, place.name, before, after, changed)] if before != after else []
    return found


def _machine_parts(left: Spec, right: Spec) -> list[ComparedPart]:
    """Return the rows, phases and guards of the host's own in which two machines differ; each exchanges the whole machine."""
    one, other = (machine_fingerprints(spec.host_machine) for spec in (left, right))
    names = {name for machine in (left, right) for name in recorded_phases(machine.host_machine)}
    templates = {name: text for name, text in left.templates.items() if name not in names}
    templates |= {name: text for name, text in right.templates.items() if name in names}
    changed = {
        "host_machine": right.host_machine,
        "phase_tools": right.phase_tools,
        "templates": templates,
    }
    return [
        ComparedPart("machine", name, one.get(name, ""), other.get(name, ""), changed)
        for name in dict.fromkeys((*one, *other))
        if one.get(name) != other.get(name)
    ]


def changed_guards(parts: Sequence[ComparedPart], row: Transition, other: Transition) -> list[ComparedPart]:
    """Return the guards of the host's own that say something else in two rows, and are not the same function in both runs."""
    differ = {f"guard.{name}" for name in _differing(row, other)}
    return [part for part in parts if part.cause == "machine" and part.name in differ]


def host_causes(
    parts: Sequence[ComparedPart], run: Run, row: Transition, other: Transition
) -> list[ComparedPart]:
    """
    Return what of the host's own can have made two rows differ: its code is not here, so nothing can be decided again.

    Args:
        parts: In which the runs differ.
        run: One of them as it stood before its row.
        row, other: The rows.

    Returns:
        Rows and phases that only one machine has, at the place where the runs stand; else those that are others there; else the
        values that the host gave, where a guard of its own looked at them.
    """
    places = (f"row.{row.source}.", f"row.{other.source}.")
    phases = {f"phase.{name}" for item in (row, other) for name in (item.source, item.dest)}
    here = [
        part
        for part in parts
        if part.cause == "machine" and (part.name in phases or part.name.startswith(places))
    ]
    if here:
        return [part for part in here if "" in (part.left, part.right)] or here
    own = {guard["name"] for guard in machine_data(run.spec.host_machine).get("guards", ())}
    looked = row.source not in PHASES or own & _differing(row, other)
    return [part for part in parts if part.cause == "values" and looked]


def _differing(row: Transition, other: Transition) -> set[str]:
    names = {*row.guards, *other.guards}
    return {name for name in names if row.guards.get(name) is not other.guards.get(name)}


def _tools(left: Spec, right: Spec) -> ComparedPart:
    one = {tool.name: tool for tool in left.tools}
    other = {tool.name: tool for tool in right.tools}
    changed = [name for name in dict.fromkeys((*one, *other)) if one.get(name) != other.get(name)]
    names = ", ".join(changed) or "their order"
    before, after = (
        {name: tools[name].model_dump(mode="json") for name in changed if name in tools}
        for tools in (one, other)
    )
    return ComparedPart("config", f"tools: {names}", before, after, {"tools": right.tools})


def parts_used(left: Run, right: Run) -> list[ComparedPart]:
    """Return what two runs have used differently until now, as far as a budget can depend on it."""
    groups = (
        ("budget", "tokens", ("tokens_in", "tokens_out")),
        ("budget", "cost", ("cost_micro",)),
        ("clock", "active time", ("time_us",)),
    )
    found = []
    for cause, name, fields in groups:
        one, other = ({field: getattr(run.counters, field) for field in fields} for run in (left, right))
        before, after = sum(one.values()), sum(other.values())
        if before != after:
            found.append(ComparedPart(cause, f"used {name}", before, after, {}, other))
    return found


def _exchange_part(run: Run, part: ComparedPart) -> Run:
    """Return a run with the other one's value of a part."""
    run = replace(run, counters=replace(run.counters, **part.counters))
    if not part.spec:
        return run
    spec = run.spec.model_copy(update=part.spec)
    return run.under(spec) if run.seq else initial_run(run.run_id, run.number, spec)


def causes_of(
    run: Run, row: Transition, outcome: Outcome | None, parts: list[ComparedPart], recorded: RecordedHost
) -> list[ComparedPart]:
    """
    Return the parts without whose difference *row* would have come out like the other run's.

    Args:
        run: As it stood before the row.
        row: As recorded.
        outcome: What came back; None to look at the request alone.
        parts: In which the two runs differ.
        recorded: What the row has recorded of the host's own.
    """
    usual = _derive(run, row, outcome, recorded)
    return [
        part
        for part in parts
        if part.cause not in ("code", "machine")  # a name of the code, not the code itself
        and _derive(_exchange_part(run, part), row, outcome, recorded) != usual
    ]


def _derive(run: Run, row: Transition, outcome: Outcome | None, recorded: RecordedHost) -> object:
    """Return what comes out of a run: its request, and with an outcome the decision; an error is a result, too."""
    try:
        kit = RunResources(run.spec)
        request = request_of(run)
        kind = getattr(request, "kind", None)
        texts = [message.body for message in kit.messages(kind, run)] if kind is not None else []
        if outcome is None:
            return type(request), kind, texts
        given, fresh = recorded
        decision = decide(run, outcome, Moment(row.at, 0), kit, given=given, fresh=fresh)
        return decision.row, decision.guards, decision.facts, decision.change_text
    except (PaorError, ValueError, LookupError, TypeError, AttributeError, AssertionError) as error:
        # what the exchange breaks comes out otherwise, too
        return type(error)
