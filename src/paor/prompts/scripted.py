"""A model that answers from a list: for tests, examples and benchmarks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..states.base.errors import ScriptExhausted, UsageError
from .model import ModelCall, ModelUnavailable, Reply


class ScriptedModel:
    """
    Answer the n-th model request of a run with the n-th reply.

    The count is the run's own (it is in the journal), so a script continues correctly after a resume in another
    process, and one model serves any number of concurrent runs.

    Args:
        replies: Texts, JSON-able mappings (sent as JSON), `Reply` values, or exceptions to raise.
        cycle: Start over when the replies are used up, instead of failing the run with ``model_error``.
        name: Name in the journal.
        calls_tools: Whether ``profile="auto"`` asks it for turns with tool calls; None: whether its first reply has ``calls``.

    Attributes:
        answers_in_order: What it answers depends on the order of the requests, so no two calls of tools ask it at the same time.

    Raises:
        UsageError: A reply is neither text nor JSON-able.
    """

    answers_in_order = True

    def __init__(
        self,
        replies: Sequence[str | Mapping[str, Any] | Reply | Exception],
        *,
        cycle: bool = False,
        name: str = "scripted",
        calls_tools: bool | None = None,
    ) -> None:
        if isinstance(replies, str | bytes | Mapping) or not isinstance(replies, Iterable):
            raise UsageError("ScriptedModel takes a list of replies, one for each model request")
        self._replies = [_prepare(reply, index) for index, reply in enumerate(replies)]
        self._cycle = cycle
        self._used: set[int] = set()
        self.name = name
        self.calls_tools = _has_calls(self._replies) if calls_tools is None else calls_tools

    def ask(self, call: ModelCall) -> Reply:
        """Answer as `Model.ask` says, by the number of the call; raise `ModelUnavailable` when the script is used up."""
        index = call.number
        if self._cycle and self._replies:
            index %= len(self._replies)
        if index >= len(self._replies):
            there = "1 reply" if len(self._replies) == 1 else f"{len(self._replies)} replies"
            message = f"the script has {there} and was asked for reply {index + 1} ({call.kind})"
            raise ModelUnavailable("script_exhausted", message)
        self._used.add(index)
        reply = self._replies[index]
        if isinstance(reply, Exception):
            raise reply
        return reply

    async def aask(self, call: ModelCall) -> Reply:
        """Do the same as `ask`; never blocks."""
        return self.ask(call)

    def assert_all_used(self) -> None:
        """Raise `ScriptExhausted` naming the first reply that no request asked for."""
        unused = [index for index in range(len(self._replies)) if index not in self._used]
        if unused:
            raise ScriptExhausted(f"reply {unused[0] + 1} of {len(self._replies)} was never asked for")


def _has_calls(replies: Sequence[Reply | Exception]) -> bool:
    """Return whether the first reply is a turn that calls tools."""
    first = next((reply.text for reply in replies if isinstance(reply, Reply)), "")
    try:
        turn = json.loads(first)
    except (ValueError, RecursionError):
        return False
    return isinstance(turn, dict) and "calls" in turn


def _prepare(reply: object, index: int) -> Reply | Exception:
    """Return *reply* in the form that `ask` gives; fail early, naming its position."""
    if isinstance(reply, Reply | Exception):
        return reply
    if isinstance(reply, str):
        return Reply(reply)
    if isinstance(reply, Mapping):
        try:
            return Reply(json.dumps(reply, ensure_ascii=False))
        except (TypeError, ValueError) as error:
            raise UsageError(f"reply {index + 1} is not JSON: {error}") from None
    raise UsageError(f"reply {index + 1} is a {type(reply).__name__}; expected text or a mapping")
