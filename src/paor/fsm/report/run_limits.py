"""What a run could not do, and where its tokens, time and money went."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ...states.run.spec import Spec
from ..explain.calls import RunCall
from ..explain.story import policy_of
from .run_rows import RunRows


def policy_with_calls(
    spec: Spec, calls: Sequence[RunCall], refused: Sequence[tuple[int, str, str]]
) -> dict[str, Any]:
    """Return what a run was allowed, with the tools that it has not called, and what was refused: row, tool and why."""
    called = {call.tool for call in calls if call.started_at is not None}
    policy = policy_of(spec)
    return policy | {
        "uncalled": [name for name in policy["offered"] if name not in called],
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
