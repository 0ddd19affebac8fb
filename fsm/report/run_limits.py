"""What a run could not do and what it used: its limits, its tools and policy, and where tokens, time and money went."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...states.run.spec import Spec
from ...states.run.state import Counters
from ...tools.policy import denial, matches
from ..explain.calls import RunCall
from ..journal.rows import Transition
from .run_rows import RunRows


def limits_of(spec: Spec, last: Transition | None) -> list[dict[str, Any]]:
    """Return what is used of each limit that a run has: name, used, allowed and unit."""
    counters = _counters(last)
    limits = spec.limits
    told: list[tuple[str, float, float | None, str]] = [
        ("steps", counters.step, limits.max_steps, "count"),
        ("retries", counters.retries, limits.max_retries, "count"),
        ("blocked calls", counters.blocked, limits.max_blocked_calls, "count"),
        ("errors in a row", counters.errors, limits.max_consecutive_errors, "count"),
        ("questions", counters.elicitations, limits.max_elicitations, "count"),
        ("tokens", counters.tokens_in + counters.tokens_out, limits.token_budget, "tokens"),
        ("active time", counters.time_us / 1e6, limits.time_budget_s, "s"),
        ("cost", counters.cost_micro / 1e6, limits.cost_budget, "money"),
    ]
    if spec.mode != "react":
        told.insert(1, ("plans", counters.plans, limits.max_plans, "count"))
    names = ("name", "used", "allowed", "unit")
    return [dict(zip(names, item, strict=True)) for item in told]


def _counters(last: Transition | None) -> Counters:
    if last is None:
        return Counters()
    columns = {
        name: getattr(last, name)
        for name in ("step", "action", "retries", "tokens_in", "tokens_out", "cost_micro", "time_us")
    }
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
    why = {name: told for name in names if (told := denial(spec.policy, spec.task_type, name)) is not None}
    called = {call.tool for call in calls if call.started_at is not None}
    offered = [name for name in names if name not in why]
    asks = [rule if isinstance(rule, str) else rule.tool for rule in spec.policy.approvals]
    return {
        "never": list(spec.policy.deny),
        "allowed": list(spec.policy.allow),
        "asks": asks,
        "offered": offered,
        "uncalled": [name for name in offered if name not in called],
        "denied": [[name, told] for name, told in why.items()],
        "refused": [{"seq": seq, "tool": tool, "why": told} for seq, tool, told in refused],
        "asks_never_met": [
            pattern for pattern in asks if not any(matches(name, (pattern,)) for name in names)
        ],
    }


def cost_of(rows: RunRows, calls: Sequence[RunCall]) -> dict[str, list[list[Any]]]:
    """Return where tokens, time and money went: by kind of request, by tool and by model."""
    kinds: dict[str, list[Any]] = {}
    models: dict[str, list[Any]] = {}
    kind_names, model_names = list(rows.tables["kind"]), list(rows.tables["model"])
    tool_names = list(rows.tables["tool"])
    tool_costs: dict[str, list[int]] = {}
    for kind, model, tool, used in _each(rows):
        name = kind_names[kind]
        if name not in ("none", "recall"):
            _add(kinds, name, used)
        if model >= 0:
            _add(models, model_names[model], used)
        if name == "tool" and tool >= 0:
            spent = tool_costs.setdefault(tool_names[tool], [0, 0])
            spent[0] += used[2]
            spent[1] += used[3]
    tools: dict[str, list[Any]] = {}
    for call in calls:
        if call.started_at is not None:
            found = tools.setdefault(call.tool, [call.tool, 0, 0, 0, 0])
            found[1] += 1
            found[2] += call.outcome == "failed"
    for name, (cost, time_us) in tool_costs.items():
        if name in tools:
            tools[name][3:] = time_us, cost
    return {"kind": _sorted(kinds), "tool": _sorted(tools), "model": _sorted(models)}


def _each(rows: RunRows) -> Iterator[tuple[int, int, int, tuple[int, int, int, int]]]:
    columns = rows.columns
    used = zip(columns["tokens_in"], columns["tokens_out"], columns["cost"], columns["took"], strict=True)
    yield from zip(columns["kind"], columns["model"], columns["tool"], used, strict=True)


def _add(found: dict[str, list[Any]], name: str, used: tuple[int, int, int, int]) -> None:
    total = found.setdefault(name, [name, 0, 0, 0, 0, 0])
    total[1] += 1
    for place, value in enumerate(used, 2):
        total[place] += value


def _sorted(found: Mapping[str, list[Any]]) -> list[list[Any]]:
    return sorted(
        found.values(), key=lambda item: (-item[-2] if len(item) > 5 else -item[-1], -item[1], item[0])
    )
