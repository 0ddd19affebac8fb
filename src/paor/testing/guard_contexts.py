"""A guard context for a host's own tests: what a guard is given in a run that the test describes, without a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from msgspec.structs import replace
from rpds import HashTrieMap

from ..fsm.decision.guard_context import EPOCH, GuardContext
from ..states.phase import Phase
from ..states.records.actions import Effect, Intent, Selection, ToolResult
from ..states.records.outcomes import NoOutcome, Outcome
from ..states.records.visits import Visit
from ..states.run.phase_names import PHASES, SPECIFYING
from ..states.run.spec import Spec
from ..states.run.state import Memory, Run, initial_run
from ..states.settings.limits import Limits

CALL_KEY = "run-1"
"""The idempotency key of the call that a context is about."""


def guard_context(
    state: str = SPECIFYING,
    *,
    tool: str | None = None,
    arguments: Mapping[str, Any] | None = None,
    effect: Effect = "once",
    result: ToolResult | None = None,
    outcome: Outcome | None = None,
    visits: Iterable[Visit] = (),
    values: Mapping[str, Any] | None = None,
    counters: Mapping[str, Any] | None = None,
    limits: Limits | Mapping[str, Any] | None = None,
    now: datetime = datetime(2026, 1, 1, 12, tzinfo=UTC),
    memory: Mapping[str, Any] | None = None,
    objective: str = "",
    **fields: Any,
) -> GuardContext:
    """
    Return what a guard looks at, for a test of it: ``assert office_hours(guard_context(now=sunday)) is False``.

    Nothing is decided and nothing is run: what is not given is as at the start of a run.

    Args:
        state: The phase: one of the seven, or one of the host's own.
        tool: Name of the tool that is called; None while none is.
        arguments: The call's complete arguments; None while they are not complete.
        effect: The tool's effect class.
        result: How the call ended.
        outcome: What came back, such as ``Replied``; default nothing.
        visits: What the last stay in each of the host's own phases came to; that in *state* is the one that is decided on. A visit whose
            ``call`` is empty counts for every call, one with `CALL_KEY` for the call that the context is about.
        values: The host's own values.
        counters: Of `Counters`, by name; ``{"errors": 2, "own": {"rework": 1}}``.
        limits: The run's limits; a mapping names those that are not at their default.
        now: When the outcome came in.
        memory: What the run remembers beside that, by name, such as ``history`` and ``observation``.
        objective: What the run is for.
        **fields: Any other attribute of `GuardContext`.

    Raises:
        TypeError: There is no counter, slot of the memory or attribute of that name.
        UsageError: There is no limit of that name, or it cannot have that value.
    """
    own = None if state in PHASES else fields.pop("phase", None) or Phase(state)
    intent = None if tool is None or arguments is None else _intent(tool, arguments, effect)
    stays = {visit.phase: visit for visit in visits}
    here = stays.pop(state, None)
    kept: dict[str, Any] = {"selection": None if tool is None else Selection(tool=tool), "result": result}
    kept |= {"intent": None if state == SPECIFYING else intent, "visits": HashTrieMap(stays)}
    given: dict[str, Any] = {"intent": intent if state == SPECIFYING else None, "phase": own, "visit": here}
    given |= {"result": result, "at_us": round((now - EPOCH).total_seconds() * 1_000_000)}
    return GuardContext(
        _run(state, counters or {}, kept | dict(memory or {}), _spec(objective, values, limits)),
        outcome if outcome is not None else NoOutcome(),
        **(given | fields),
    )


def _intent(tool: str, arguments: Mapping[str, Any], effect: Effect) -> Intent:
    return Intent(tool, dict(arguments), "", tool, CALL_KEY, effect)


def _spec(
    objective: str, values: Mapping[str, Any] | None, limits: Limits | Mapping[str, Any] | None
) -> Spec:
    bounds = limits if isinstance(limits, Limits) else Limits(**(limits or {}))
    return Spec(
        objective=objective, values=dict(values or {}), limits=bounds, workflow_id="run", key_salt="00"
    )


def _run(state: str, counters: Mapping[str, Any], memory: Mapping[str, Any], spec: Spec) -> Run:
    start = initial_run("run", 1, spec)
    return replace(
        start,
        state=state,
        counters=replace(start.counters, **counters),
        memory=Memory(
            **({"labels": start.memory.labels, "references": start.memory.references} | dict(memory))
        ),
    )
