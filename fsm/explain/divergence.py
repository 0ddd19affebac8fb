"""
Causes: which of the things that decide a row made two runs differ at it. Pure: it decides again, with one thing exchanged.

Two runs that stood in the same state differ in a request or a decision only by what they are decided with: parts of the
spec, what they have used, or the code. Each part in which they differ is exchanged by itself; what then comes out
otherwise is a cause. When nothing does, it was decided by other code.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from msgspec.structs import replace

from ...states.base.errors import PaorError
from ...states.records.outcomes import Outcome
from ...states.run.spec import Spec
from ...states.run.state import Run, initial_run
from ..decision.run_resources import RunResources
from ..journal.rows import Transition
from ..machine.decide import Moment, decide, request_of
from ..versioning.fingerprints import given_fingerprints

CAUSES: dict[str, str] = {
    "model_output": "the model said something else",
    "tool_output": "a tool came to something else",
    "answer": "a person answered otherwise",
    "prompt": "the prompts are not the same",
    "code": "paor decides otherwise: another version, or a changed guard",
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
_NAMES = frozenset(
    {
        "workflow_id",
        "key",
        "metadata",
        "key_salt",
        "own_templates",
        "model",
        "fallback_for",
        "fallback_reason",
        "host_templates",
    }
)
"""Fields of a spec that name a run or its model; they decide nothing."""

_CODE = frozenset({"engine", "machine", "fingerprints"})


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


def parts_between(left: Spec, right: Spec) -> list[ComparedPart]:
    """Return every part in which two specs differ, documents left out: their content is compared elsewhere."""
    found = []
    for name in type(left).model_fields:
        one, other = getattr(left, name), getattr(right, name)
        whole = {name: other}
        if one == other or name in _NAMES or name == "documents":
            continue
        if name in ("limits", "policy"):
            for field in type(one).model_fields:
                before, after = getattr(one, field), getattr(other, field)
                if before != after:
                    cause = "policy" if name == "policy" else "budget" if field in _BUDGETS else "config"
                    changed = {name: one.model_copy(update={field: after})}
                    found.append(ComparedPart(cause, f"{name}.{field}", before, after, changed))
        elif name == "templates":
            for key in dict.fromkeys((*one, *other)):
                before, after = one.get(key), other.get(key)
                if before != after:
                    texts = {item: text for item, text in {**one, key: after}.items() if text is not None}
                    found.append(ComparedPart("prompt", f"templates.{key}", before, after, {name: texts}))
        elif name == "tools":
            found.append(_tools(left, right))
        elif name == "fingerprints":  # of what is in the spec itself nothing new
            before, after = _of_code(one, left), _of_code(other, right)
            if before != after:
                found.append(ComparedPart("code", name, before, after, whole))
        else:
            cause = "prompt" if name == "rules" else "code" if name in _CODE else "config"
            found.append(ComparedPart(cause, name, one, other, whole))
    return found


def _of_code(parts: Mapping[str, str], spec: Spec) -> dict[str, str]:
    given = given_fingerprints(spec)
    return {name: digest for name, digest in parts.items() if name not in given}


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
    run: Run, row: Transition, outcome: Outcome | None, parts: list[ComparedPart]
) -> list[ComparedPart]:
    """
    Return the parts without whose difference *row* would have come out like the other run's.

    Args:
        run: As it stood before the row.
        row: As recorded.
        outcome: What came back; None to look at the request alone.
        parts: In which the two runs differ.
    """
    usual = _derive(run, row, outcome)
    return [
        part
        for part in parts
        if part.cause != "code"  # a name of the code, not the code itself
        and _derive(_exchange_part(run, part), row, outcome) != usual
    ]


def _derive(run: Run, row: Transition, outcome: Outcome | None) -> object:
    """Return what comes out of a run: its request, and with an outcome the decision; an error is a result, too."""
    try:
        kit = RunResources(run.spec)
        request = request_of(run)
        kind = getattr(request, "kind", None)
        texts = [message.body for message in kit.messages(kind, run)] if kind is not None else []
        if outcome is None:
            return type(request), kind, texts
        decision = decide(run, outcome, Moment(row.at, 0), kit)
        return decision.row, decision.guards, decision.facts, decision.change.wire_json()
    except (PaorError, ValueError, LookupError, TypeError, AttributeError, AssertionError) as error:
        # what the exchange breaks comes out otherwise, too
        return type(error)
