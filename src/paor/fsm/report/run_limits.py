"""What a run could not do and what it used: its limits, its tools and policy, and where tokens, time and money went."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ...states.run.counters import COLUMN_COUNTERS
from ...states.run.spec import Spec
from ...states.run.state import Counters
from ...tools.policy import denial
from ..explain.calls import RunCall
from ..journal.rows import Transition
from .run_rows import RunRows


def limits_of(spec: Spec, last: Transition | None) -> list[dict[str, Any]]:
    """
    Return what is used of each limit that a run has.

    Each has a ``name``, the ``counter`` that it bounds, ``used`` and ``allowed`` (None for no limit), and their ``unit``: ``count``,
    ``tokens``, ``s`` for seconds, ``money`` for units of the price list.
    """
    counters = _counters(last)
    limits = spec.limits
    told: list[tuple[str, str, float, float | None, str]] = [
        ("steps", "step", counters.step, limits.max_steps, "count"),
        ("retries", "retries", counters.retries, limits.max_retries, "count"),
        ("blocked calls", "blocked", counters.blocked, limits.max_blocked_calls, "count"),
        ("errors in a row", "errors", counters.errors, limits.max_consecutive_errors, "count"),
        ("questions", "elicitations", counters.elicitations, limits.max_elicitations, "count"),
        ("tokens", "tokens", counters.tokens_in + counters.tokens_out, limits.token_budget, "tokens"),
        ("active time", "time", counters.time_us / 1e6, limits.time_budget_s, "s"),
        ("cost", "cost", counters.cost_micro / 1e6, limits.cost_budget, "money"),
    ]
    if spec.mode != "react":
        told.insert(1, ("plans", "plans", counters.plans, limits.max_plans, "count"))
    names = ("name", "counter", "used", "allowed", "unit")
    return [dict(zip(names, item, strict=True)) for item in told]


def _counters(last: Transition | None) -> Counters:
    if last is None:
        return Counters()
    columns = {name: getattr(last, name) for name in COLUMN_COUNTERS}
    return Counters(**columns, **dict(last.counters))


def policy_of(
    spec: Spec, calls: Sequence[RunCall], refused: Sequence[tuple[int, str, str]]
) -> dict[str, Any]:
    """
    Return what a run was allowed.

    Args:
        spec: In force.
        calls: Its calls.
        refused: What was refused: row, tool and why.
    """
    names = [tool.name for tool in spec.tools]
    why = {
        name: told for name in names if (told := denial(spec.call_policy, spec.task_type, name)) is not None
    }
    called = {call.tool for call in calls if call.started_at is not None}
    offered = [name for name in names if name not in why]
    asks = [rule if isinstance(rule, str) else rule.tool for rule in spec.policy.approvals]
    return {
        "never": list(spec.policy.deny),
        "only": list(spec.policy.allow),
        "asks": asks,
        "offered": offered,
        "uncalled": [name for name in offered if name not in called],
        "denied": [[name, told] for name, told in why.items()],
        "refused": [{"seq": seq, "tool": tool, "why": told} for seq, tool, told in refused],
    }


Used = tuple[int, int, int, int]
"""Of one row: tokens in, tokens out, cost in millionths, and microseconds of work."""


def cost_of(rows: RunRows, calls: Sequence[RunCall]) -> dict[str, list[list[Any]]]:
    """
    Return where tokens, time and money went: by ``kind`` of request, by ``tool`` and by ``model``, the dearest first.

    Of a kind and a model: name, requests, tokens in and out, cost in millionths, microseconds. Of a tool: name, calls, failed
    ones, microseconds, cost in millionths.
    """
    kinds: dict[str, list[Any]] = {}
    models: dict[str, list[Any]] = {}
    tools: dict[str, list[Any]] = {}
    for call in calls:
        if call.started_at is not None:
            counted = tools.setdefault(call.tool, [call.tool, 0, 0, 0, 0])
            counted[1] += 1
            counted[2] += call.outcome == "failed"
    for kind, model, tool, used in _each(rows):
        if kind not in ("none", "recall"):
            _add(kinds, kind, used)
        if model:
            _add(models, model, used)
        if kind == "tool" and tool in tools:
            tools[tool][3] += used[3]
            tools[tool][4] += used[2]
    return {
        "kind": sorted(kinds.values(), key=lambda item: (-item[4], -item[1], item[0])),
        "tool": sorted(tools.values(), key=lambda item: (-item[4], -item[1], item[0])),
        "model": sorted(models.values(), key=lambda item: (-item[4], -item[1], item[0])),
    }


def _each(rows: RunRows) -> Iterator[tuple[str, str, str, Used]]:
    """Yield kind, model and tool of each row by name, empty for none, and what it used."""
    columns = rows.columns
    names = {name: [*rows.tables[name], ""] for name in ("kind", "model", "tool")}  # -1 is the last, for none
    used = zip(columns["tokens_in"], columns["tokens_out"], columns["cost"], columns["took"], strict=True)
    for kind, model, tool, spent in zip(
        columns["kind"], columns["model"], columns["tool"], used, strict=True
    ):
        yield names["kind"][kind], names["model"][model], names["tool"][tool], spent


def _add(found: dict[str, list[Any]], name: str, used: Used) -> None:
    total = found.setdefault(name, [name, 0, 0, 0, 0, 0])
    total[1] += 1
    for place, value in enumerate(used, 2):
        total[place] += value
