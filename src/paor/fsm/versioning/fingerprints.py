"""
Fingerprints: one short digest for every part that decides a run, recorded in the run's spec.

The parts, by the beginning of their names:

- ``machine.rules``: the number of paor's own rules (`fsm.machine.table.RULES`), no digest; ``machine.table``: the table and the stops;
- ``prompt.NAME`` (``prompt.instructions``: the host's instructions), ``tool.NAME``, ``formatter``, ``policy``, ``rules``, ``limits``: what an engine
  was given. Of a tool its signature counts, not its code, which is outside of what paor decides;
- ``row.PHASE.TRIGGER``, ``phase.NAME``, ``guard.NAME``: a host's own machine (`fsm.versioning.host_code`).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import orjson

from ...states.run.spec import Spec, ToolSpec
from ..machine.table import ROWS, RULES, STOPS
from .host_code import host_fingerprints, short_digest

RULES_PART, TABLE_PART, INSTRUCTIONS = "machine.rules", "machine.table", "prompt.instructions"

LATER_LIMITS = {"context_tokens", "calls_per_reply", "parallel_calls", "compaction"}
"""Limits that the first journals did not know; the digest of theirs is without them."""

_OF_DRIVERS = ("document_time_s", "document_memory_bytes", "tool_timeout_s")
"""Limits that bound a tool while it runs and decide nothing; runs from before they existed have the same fingerprint."""


def fingerprints_of(spec: Spec) -> dict[str, str]:
    """Return the fingerprints of a run that is started with *spec* now."""
    rows = [[row.source, row.trigger, row.dest, *row.guards] for row in ROWS]
    stops = [[stop.reason, stop.guard, stop.phases, stop.when] for stop in STOPS]
    return {RULES_PART: f"{RULES}", TABLE_PART: _data_digest([rows, stops]), **given_fingerprints(spec)}


def given_fingerprints(spec: Spec) -> dict[str, str]:
    """Return the fingerprints of the values in a spec itself: templates, tools, policy, rules, limits, a host's own machine."""
    found = {f"prompt.{name}": _text_digest(text) for name, text in spec.templates.items()}
    found |= {f"tool.{tool.name}": _tool_digest(tool) for tool in (*spec.phase_tools, *spec.tools)}
    if spec.formatter is not None:
        found["formatter"] = _tool_digest(spec.formatter)
    found["policy"] = _data_digest(spec.policy.model_dump(mode="json"))
    if texts := [text for text in (spec.instructions, spec.own_instructions) if text]:
        found[INSTRUCTIONS] = _data_digest(texts)
    found["rules"] = _data_digest(list(spec.rules))
    unknown = LATER_LIMITS - spec.limits.model_fields_set
    limits = spec.limits.model_dump(mode="json", exclude={*_OF_DRIVERS, *unknown})
    if limits["max_reply_tokens"] is None:  # as an earlier version has written it
        del limits["max_reply_tokens"]
    found["limits"] = _data_digest(limits)
    return found | host_fingerprints(spec.host_machine)


def _tool_digest(tool: ToolSpec) -> str:
    return _data_digest(tool.model_dump(mode="json", exclude=None if tool.filled else {"filled"}))


@lru_cache(maxsize=256)
def _text_digest(text: str) -> str:
    return short_digest(text.encode("utf-8", "surrogatepass"))


def _data_digest(data: Any) -> str:
    return short_digest(orjson.dumps(data, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS))
