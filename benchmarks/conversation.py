"""
What an agent's requests cost beside the same agent in pydantic-ai, and how long independent reads of one reply take.

Ten tools, results of 1,000 characters, a scripted model that calls one tool a reply and answers at the end. A request is its
offered tools and its messages as text, four characters a token. Of a request the longest beginning that an earlier request of the
run has, too, is taken as cached from 1,024 tokens on, in steps of 128, and billed at a tenth: the rule of OpenAI's interfaces.
"""

from __future__ import annotations

import asyncio
import json
import re
import statistics
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from paor import Engine, Limits, ModelCall, Reply, Tool, tool

OBJECTIVE = "Find the section that defines the retention policy and say how long documents are kept"
CRITERIA = ("the retention period is named", "the section is named")
INSTRUCTIONS = "Call tools as needed, then answer."
ANSWER = "Documents are kept for ten years, says section 4."
PAGE = "A record is kept from the day of its entry until the period of its class has passed. " * 12
RESULT_CHARS, READ_S, READS = 1000, 0.3, 4
CONTEXT_TOKENS = 128_000
STEPS = (5, 20, 50)
MODES: dict[str, dict[str, Any]] = {
    "auto": {"profile": "auto"},
    "two_stage": {"profile": "two_stage"},
    "planner": {"mode": "planner"},
}
MISSING = "skipped: pip install pydantic-ai-slim"

Row = tuple[str, str, str]


def _page(query: str) -> str:
    return f"[{query}] {PAGE}"[:RESULT_CHARS]


def _searches() -> list[Callable[..., str]]:
    found = []
    for number in range(10):

        def search(query: str, limit: int = 5) -> str:
            return _page(query)

        search.__name__ = f"docs_search_{number}"
        search.__doc__ = f"Search collection {number} of the archive for a query; return the best passages."
        found.append(search)
    return found


def _dotted(function: Callable[..., object]) -> str:
    return function.__name__.replace("_", ".", 1)


def _request(tools: object, messages: Iterable[tuple[str, str, object]]) -> str:
    """Return a request as one text: the offered tools, then each message's role, text and calls."""
    parts = [f"<{role}>{text}{json.dumps(calls) if calls else ''}" for role, text, calls in messages]
    return (json.dumps(tools) if tools else "") + "".join(parts)


class Script:
    """A model of paor's that takes *steps* steps, a tool each, and keeps what it was asked."""

    name = "script"
    calls_tools = True

    def __init__(self, steps: int) -> None:
        self.requests: list[str] = []
        self._steps, self._done = steps, 0

    def ask(self, call: ModelCall) -> Reply:
        """Take the next step in the form that is asked for."""
        tools = [(item.name, item.description, item.schema) for item in call.tools]
        messages = [
            (
                message.role,
                message.call_id + message.text,
                [(c.id, c.name, c.arguments) for c in message.calls],
            )
            for message in call.messages
        ]
        self.requests.append(_request(tools, messages))
        number, more = self._done, self._done < self._steps
        self._done += call.kind in ("turn", "plan", "parameters")
        if call.kind == "turn":
            calls = [{"id": f"c{number}", "name": f"docs_search_{number % 10}", "arguments": _asked(number)}]
            words = json.dumps({"text": "", "calls": calls})
            return Reply(words, finish="tool_calls") if more else Reply(ANSWER)
        return Reply(json.dumps(self._said(call.kind, number, more)))

    def _said(self, kind: str, number: int, more: bool) -> dict[str, Any]:
        name = f"docs.search_{number % 10}"
        if kind == "selection":
            aim = f"find passage {number} on the retention policy"
            return {"action": name, "actionObjective": aim, "parametersContext": f"query: retention {number}"}
        if kind == "parameters":
            return {"schema": "parameters_v1", "parameters": _asked(number)}
        if kind == "refinement" and more:
            return {"decision": "continue", "reason": f"passage {number} does not name the period yet"}
        if kind == "refinement":
            return {"decision": "stop", "reason": "all is found", "answer": ANSWER}
        if kind == "plan" and more:
            return {
                "steps": [{"id": f"s{number}", "type": "tool", "name": name, "arguments": _asked(number)}]
            }
        return {"answer": ANSWER} if kind == "plan" else {"status": "success", "improvements": []}


def _asked(number: int) -> dict[str, Any]:
    return {"query": f"retention policy {number}", "limit": 5}


def own_requests(path: Path, steps: int, mode: str) -> list[str]:
    """Return the requests of a run of paor."""
    model = Script(steps)
    tools: list[Tool] = [
        tool(_dotted(search), effect="read", repeat_allowed=True)(search) for search in _searches()
    ]
    limits = Limits(max_steps=steps + 1, context_tokens=CONTEXT_TOKENS)
    with Engine(model, tools, path, limits=limits, builtins=False) as engine:
        result = engine.run(OBJECTIVE, CRITERIA if mode == "two_stage" else (), **MODES[mode])
    assert (result.state, result.steps) == ("Done", steps), result
    return model.requests


def peer_requests(steps: int) -> list[str]:
    """Return the requests of the same run in pydantic-ai."""
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel
    from pydantic_ai.usage import UsageLimits

    requests: list[str] = []

    def answer(messages: list[Any], info: Any) -> Any:
        tools = [(item.name, item.description, item.parameters_json_schema) for item in info.function_tools]
        parts = [part for message in messages for part in message.parts]
        requests.append(
            _request(tools, [("system", INSTRUCTIONS, None), *(_peer_part(part) for part in parts)])
        )
        number = len(requests) - 1
        if number >= steps:
            return ModelResponse(parts=[TextPart(ANSWER)])
        call = ToolCallPart(f"docs_search_{number % 10}", _asked(number), f"c{number}")
        return ModelResponse(parts=[call])

    agent = Agent(FunctionModel(answer), instructions=INSTRUCTIONS, tools=_searches())
    agent.run_sync(OBJECTIVE, usage_limits=UsageLimits(request_limit=None))
    return requests


def _peer_part(part: Any) -> tuple[str, str, object]:
    if part.part_kind == "tool-call":
        return "assistant", "", [(part.tool_call_id, part.tool_name, part.args)]
    if part.part_kind == "tool-return":
        return "tool", f"{part.tool_call_id}{part.content}", None
    return "user" if part.part_kind == "user-prompt" else "assistant", str(part.content), None


def shared(one: str, other: str) -> int:
    """Return the length of the longest beginning that both texts have."""
    if one == other[: len(one)]:
        return len(one)
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[:middle] == other[:middle] else (low, middle - 1)
    return low


@dataclass(frozen=True)
class Cost:
    """
    What the requests of one run cost.

    Attributes:
        requests: How many there are.
        tokens: Their characters, by four.
        billed: The same with a cached beginning at a tenth.
        prefix: Share of the characters after the first request that is the beginning of the request before.
        seen: Results in the last request.
    """

    requests: int
    tokens: float
    billed: float
    prefix: float
    seen: int


def cost_of(requests: Sequence[str]) -> Cost:
    """Count a run's requests."""
    total = sum(map(len, requests))
    cached = kept = 0
    for index, request in enumerate(requests):
        beginning = max((shared(earlier, request) for earlier in requests[:index]), default=0) // 4
        cached += beginning // 128 * 128 if beginning >= 1024 else 0
        kept += shared(requests[index - 1], request) if index else 0
    seen = len(set(re.findall(r"\[(retention policy \d+)\] A record", requests[-1])))
    prefix = kept / ((total - len(requests[0])) or 1)
    return Cost(len(requests), total / 4, total / 4 - 0.9 * cached, prefix, seen)


def costs(folder: Path, divisor: int) -> list[Row]:
    """Requests, tokens and beginnings kept of runs of 5, 20 and 50 steps, beside pydantic-ai."""
    rows: list[Row] = []
    for steps in STEPS[: 2 if divisor > 1 else 3]:
        peer = cost_of(peer_requests(steps)) if find_spec("pydantic_ai") else None
        for name in MODES:
            own = cost_of(own_requests(folder / f"{name}-{steps}.db", steps, name))
            rows += _cost_rows(f"{name}, {steps} steps", own, peer, name, steps)
        if peer:
            rows += _cost_rows(f"pydantic-ai, {steps} steps", peer, None, "", steps)
    return rows if find_spec("pydantic_ai") else [*rows, ("  beside pydantic-ai", MISSING, "")]


def _cost_rows(label: str, own: Cost, peer: Cost | None, profile: str, steps: int) -> list[Row]:
    grows, at_20 = profile == "auto", steps == 20

    def beside(figure: float, other: float | None) -> str:
        return f" ({figure / other:.2f}x)" if other else ""

    billed_target = (
        {"auto": "<= 1.1x", "two_stage": "<= 45,800, 0.75 of what it was"}.get(profile, "") if at_20 else ""
    )
    return [
        (
            f"{label}: requests an action",
            f"{own.requests / steps:.2f}{beside(own.requests, peer and peer.requests)}",
            "<= 1.1x" if grows else "",
        ),
        ("  input tokens", f"{own.tokens:,.0f}{beside(own.tokens, peer and peer.tokens)}", ""),
        ("  billed tokens", f"{own.billed:,.0f}{beside(own.billed, peer and peer.billed)}", billed_target),
        ("  beginning of the request before", f"{own.prefix:.2f}", ">= 0.90" if grows and at_20 else ""),
        ("  results in the last request", f"{own.seen}", "20" if grows and at_20 else ""),
    ]


def overlap(folder: Path, divisor: int) -> list[Row]:
    """Four async reads of 0.3 s in one reply against the same in pydantic-ai, in turn; the median of 5 pairs."""
    label, target = f"{READS} reads of {READ_S} s in one reply", "<= 1.3x"
    own, peer = [], []
    for pair in range(2 if divisor > 1 else 5):
        own.append(asyncio.run(_own_reads(folder / f"overlap-{pair}.db")))
        if find_spec("pydantic_ai"):
            peer.append(asyncio.run(_peer_reads()))
    rows = [(f"{label}: reads' time", f"{statistics.median(own) / READ_S:.2f}x", "")]
    ratio = f"{statistics.median(a / b for a, b in zip(own, peer, strict=True)):.2f}x" if peer else MISSING
    return [*rows, ("  pydantic-ai's time", ratio, target)]


def _reads() -> list[Callable[[], Awaitable[str]]]:
    found: list[Callable[[], Awaitable[str]]] = []
    for number in range(READS):

        async def read() -> str:
            """Read a page."""
            await asyncio.sleep(READ_S)
            return "page"

        read.__name__ = f"docs_read_{number}"
        found.append(read)
    return found


class Reader:
    """A model of paor's that asks for all reads in one reply."""

    name = "reader"
    calls_tools = True

    async def aask(self, call: ModelCall) -> Reply:
        """Call every tool, then answer."""
        if call.number:
            return Reply(ANSWER)
        calls = [{"id": f"c{n}", "name": f"docs_read_{n}", "arguments": {}} for n in range(READS)]
        return Reply(json.dumps({"text": "", "calls": calls}), finish="tool_calls")


async def _own_reads(path: Path) -> float:
    tools: list[Tool] = [tool(_dotted(read), effect="read")(read) for read in _reads()]
    async with Engine(Reader(), tools, path, builtins=False) as engine:
        started = time.perf_counter()
        result = await engine.arun("Read all pages", **MODES["auto"])
        seconds = time.perf_counter() - started
    assert (result.state, result.steps) == ("Done", READS), result
    return seconds


async def _peer_reads() -> float:
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel

    def answer(messages: list[Any], _: Any) -> Any:
        calls = [ToolCallPart(f"docs_read_{n}", {}, f"c{n}") for n in range(READS)]
        return ModelResponse(parts=calls if len(messages) == 1 else [TextPart(ANSWER)])

    agent = Agent(FunctionModel(answer), tools=_reads())
    started = time.perf_counter()
    await agent.run("Read all pages")
    return time.perf_counter() - started
