"""Strategies of everything else that comes from outside: tools, people, clocks, limits and policies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from ...states.records.questions import Question
from ...states.settings.policy import Policy
from ...tools.schema.parameters import ParameterSchema, SchemaError
from .injected_faults import CALL, HANGS, RAISED, RETURNED
from .json_schema import arguments, weighted

_ASKED = {"message": "Which page?", "schema": {"type": "object", "properties": {"page": {"type": "integer"}}}}

tool_faults: SearchStrategy[dict[str, Any]] = st.sampled_from(sorted(RAISED)).map(
    lambda what: {"do": "raise", "what": what}
)
"""Calls that raise an exception of any kind instead of being made."""

hangs: SearchStrategy[dict[str, Any]] = st.sampled_from(HANGS).map(lambda kind: {"do": kind})
"""Calls that hang past their deadline."""

FAULTS: SearchStrategy[dict[str, Any]] = st.one_of(
    tool_faults,
    st.sampled_from(["ToolError", "TimeoutError", "KeyError"]).map(
        lambda what: {"do": "raise_after", "what": what}
    ),
    st.just({"do": "ask", **_ASKED, "state": {"page": 1}}),
    hangs,
)
"""What can go wrong in a call of any tool: exceptions instead of it or after it, a question in the middle of it."""


def _returning(names: Sequence[str]) -> SearchStrategy[dict[str, Any]]:
    return st.sampled_from(names).map(lambda what: {"do": "return", "what": what})


RESULTS: SearchStrategy[dict[str, Any]] = _returning(sorted(RETURNED))
"""Values of every kind that replace a tool's own results."""

_PLAIN_RESULTS = _returning(["text", "data", "documents"])


def outcomes(*, fake: bool, faults: bool = True) -> SearchStrategy[dict[str, Any]]:
    """
    Return a strategy of outcomes of a tool call, most of them successful.

    Args:
        fake: Whether its function is never called, and a generated result is used.
        faults: Whether failures may occur that are not the tool's own.
    """
    usual: SearchStrategy[dict[str, Any]] = _PLAIN_RESULTS if fake else st.just(CALL)
    return weighted((6, usual), (int(fake), RESULTS), (int(faults), FAULTS))


def answers(question: Question) -> SearchStrategy[Any]:
    """Return a strategy of answers to a question: most fit, others decline or do not fit."""
    content = {"action": "accept", "content": 1}
    wrong = st.sampled_from(["yes", {"approve": "yes"}, {"action": "accept"}, {}, [], 17, content])
    if question.kind == "approval":
        yes, no = st.just({"approve": True}), st.just({"approve": False})
        return weighted((4, yes), (1, no), (1, st.just({"action": "decline"})), (1, wrong))
    fitting = _fitting(question.schema)
    bare = st.sampled_from([{"action": "decline"}, {"action": "accept"}])
    return weighted((4, fitting), (2, bare), (1, wrong))


def own_answers(question: Question) -> SearchStrategy[Any]:
    """Return a strategy of answers to the question of an own phase: most fit its schema, others decline, cancel or do not fit."""
    bare = st.sampled_from([{"action": "decline"}, {"action": "accept"}, {"action": "decline"}])
    cancel, wrong = st.just({"action": "cancel"}), st.sampled_from(["yes", {}, [], 17, {"nobody": "asked"}])
    return weighted((8, _fitting(question.schema)), (2, bare), (1, cancel), (1, wrong))


def _fitting(schema: Mapping[str, Any]) -> SearchStrategy[Any]:
    if schema.get("type", "object") == "object" and schema.get("properties"):
        try:
            ParameterSchema(schema)
        except SchemaError:
            return st.just({"answer": "page 3"})
        return arguments(schema)
    return st.sampled_from(["page 3", {"answer": "page 3"}, {"page": 3}])


settlements: SearchStrategy[dict[str, Any]] = st.sampled_from(
    [
        {"outcome": "done", "result": "it was sent"},
        {"outcome": "done", "result": {"receipt": 17}},
        {"outcome": "retry"},
        {"outcome": "fail", "result": "it was not sent"},
        {"outcome": "perhaps"},
    ]
)
"""Outcomes that people give for an effect in doubt."""

_SECOND, _DAY = 1_000_000, 86_400_000_000
jumps: SearchStrategy[dict[str, int]] = st.one_of(
    st.sampled_from([1, 60, -60, 3601]).map(lambda seconds: {"wall_us": seconds * _SECOND, "active_us": 0}),
    st.sampled_from([-400, 1, 400, 4000]).map(lambda days: {"wall_us": days * _DAY, "active_us": 0}),
    st.sampled_from([1, 30, 5000]).map(lambda seconds: {"wall_us": 0, "active_us": seconds * _SECOND}),
)
"""Jumps of the wall clock, also backwards, and of the clock for time budgets."""

LIMITS: SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"max_steps": st.integers(1, 5)},
    optional={
        "selection_retries": st.integers(0, 2),
        "parameter_retries": st.integers(0, 2),
        "review_retries": st.integers(0, 2),
        "max_retries": st.integers(0, 2),
        "max_plans": st.integers(1, 3),
        "max_elicitations": st.integers(0, 3),
        "no_improvement_limit": st.integers(1, 2),
        "max_consecutive_errors": st.integers(1, 3),
        "max_consecutive_refused": st.integers(1, 3),
        "max_blocked_calls": st.integers(1, 3),
        "consecutive_limit": st.integers(2, 3),
        "window_freq_limit": st.sampled_from([1, 1, 2]),
        "block_repeated_success": st.booleans(),
        "observation_chars": st.sampled_from([400, 4000]),
        "history_chars": st.sampled_from([0, 50, 4000]),
        "elicitation_timeout_s": st.sampled_from([0.5, 60.0]),
        "tool_timeout_s": st.sampled_from([0.5, 60.0]),
        "completion_review": st.sampled_from(["auto", "model", "rules"]),
    },
)
"""Small limits, so that short runs reach them."""

BUDGETS: SearchStrategy[dict[str, Any]] = st.one_of(
    st.integers(1, 200).map(lambda tokens: {"token_budget": tokens}),
    st.sampled_from([20, 40, 60, 80, 120, 140]).map(lambda tokens: {"token_budget": tokens}),
    st.sampled_from([{"cost_budget": 0.00002}, {"time_budget_s": 5.0}, {"time_budget_s": 0.01}]),
    st.just({"token_budget": 5000, "reply_tokens": 200}),
)
"""Budgets that a short run uses up, some of them exactly, since most replies have 20 tokens."""


def tighter(policy: Policy, names: Sequence[str]) -> SearchStrategy[dict[str, Any] | None]:
    """Return policies that forbid more than *policy*, as JSON; None, most of the time, for itself."""
    if not names:
        return st.none()
    whole = policy.model_dump(mode="json")
    name = st.sampled_from(sorted(names))
    patterns = st.one_of(name, name.map(lambda text: text.partition(".")[0] + ".*"))
    denying = patterns.map(lambda pattern: whole | {"deny": [*whole["deny"], pattern]})
    asking = st.one_of(name, st.just("*")).map(
        lambda pattern: whole | {"approvals": [*whole["approvals"], pattern]}
    )
    often = min(4, len(names))  # of few tools a ban leaves little to do
    return weighted((6, st.none()), (often, denying), (2, asking))
