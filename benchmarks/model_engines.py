"""
The engines of `models.py`: each takes a task, its world and a server, and says how the run ended.

All get the task's words, the same tools (names, types, docstrings), the same server, sampling and longest reply. Beyond that:

| engine | is given |
|---|---|
| ``paor`` | the default profile and limits (at most 5 actions), an attached document, a policy for a denied tool |
| ``two_stage`` | the same, with that profile |
| ``pydantic-ai`` | `Agent` with the tools and the instructions `HINT`, at most 8 requests |
| ``bare-loop`` | thirty lines over the SDK and the instructions `HINT`: one call a turn; a repeated call is not made, and an answer is asked for without tools; at most 8 requests |

The peers get an attached document as text in the prompt, and the words of a failed tool as its result. They have no policy: a denied
tool answers that the policy does not permit it. Retries and everything else are as their makers set them.
"""

import functools
import importlib.metadata
import inspect
import json
import os
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from model_tasks import ONCE, Ended, Task, World

from paor import Engine, Journal, OpenAIModel, Policy, Tool, tool
from paor.errors import ToolError

HINT = "Use the tools to get what you need. Answer as soon as you have the result."
LAST_WORDS = "You have that result already. Answer now in one or two sentences."
REQUESTS_MAX = 8
INVALID = ("reselect", "respecify", "reassess")
"""Triggers of rows after which the same question is asked again."""


def api_key() -> str:
    """Return the key of the server that is measured; a server of one's own needs none."""
    return os.environ.get("OPENAI_API_KEY") or "none"


def run_paor(task: Task, world: World, url: str, model: str, journal: Path, profile: str) -> Ended:
    """Run a task in paor; *journal* is a file that is not there yet."""
    tools: list[Tool] = [
        tool(name, effect="once" if name in ONCE else "read")(_method(world, name)) for name in task.tools
    ]
    client = OpenAIModel(model, base_url=url, api_key=api_key(), timeout_s=600)
    policy = Policy(deny=task.denied)
    documents = [task.document] if task.document else []
    with Journal(journal) as book:
        engine = Engine(client, tools, book, policy=policy)
        result = engine.run(task.objective, documents=documents, profile=profile)
        rows = book.transitions(result.run_id)
    refused = sum(bool(row.outcome.get("invalid")) or row.trigger in INVALID for row in rows)
    return Ended(result.state, result.reason or "", result.answer, refused)


def _method(world: World, name: str) -> Callable[..., Any]:
    method: Callable[..., Any] = getattr(world, name.replace(".", "_"))
    return method


def peer_tools(task: Task, world: World) -> dict[str, Callable[..., Any]]:
    """Return the functions of a task by the names that a provider's interface allows; a denied one only refuses."""
    return {name.replace(".", "_"): _function(name, task, world) for name in task.tools}


def _function(name: str, task: Task, world: World) -> Callable[..., Any]:
    method = _method(world, name)

    @functools.wraps(method)
    def call(*values: Any, **named: Any) -> Any:
        if name in task.denied:
            return "Not permitted: the policy denies this tool."
        try:
            return method(*values, **named)
        except ToolError as error:
            return f"Error: {error}"

    return call


def peer_prompt(task: Task) -> str:
    """Return the objective, with the attached document below it."""
    return task.objective + (f"\n\n# {task.document[0]}\n{task.document[1]}" if task.document else "")


def run_pydantic_ai(task: Task, world: World, url: str, model: str) -> Ended:
    """Run a task in pydantic-ai."""
    from pydantic_ai import Agent
    from pydantic_ai import Tool as PeerTool
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider
    from pydantic_ai.usage import UsageLimits

    client = OpenAIChatModel(model, provider=OpenAIProvider(base_url=url, api_key=api_key()))
    tools = [PeerTool(function, name=name) for name, function in peer_tools(task, world).items()]
    agent = Agent(client, tools=tools, instructions=HINT)
    limits = UsageLimits(request_limit=REQUESTS_MAX)
    return Ended("Done", "", agent.run_sync(peer_prompt(task), usage_limits=limits).output)


def run_bare_loop(task: Task, world: World, url: str, model: str) -> Ended:
    """Run a task in a loop over the SDK with one rule: a call that is repeated is not made, and an answer is asked for."""
    from openai import OpenAI

    functions = peer_tools(task, world)
    offered: list[Any] = [
        {
            "type": "function",
            "function": {
                "name": name,
                "description": inspect.getdoc(function),
                "parameters": tool(full)(_method(world, full)).parameters,
            },
        }
        for full, (name, function) in zip(task.tools, functions.items(), strict=True)
    ]
    messages: list[Any] = [
        {"role": "system", "content": HINT},
        {"role": "user", "content": peer_prompt(task)},
    ]
    made: set[tuple[str, str]] = set()
    with OpenAI(base_url=url, api_key=api_key()) as client:
        for _ in range(REQUESTS_MAX):
            tools = {"tools": offered} if offered else {}
            said = client.chat.completions.create(model=model, messages=messages, **tools).choices[0].message
            if not said.tool_calls:
                return Ended("Done", "", said.content or "")
            call = said.tool_calls[0]
            wanted = (call.function.name, call.function.arguments)
            if wanted in made:
                offered = []
                messages.append({"role": "user", "content": LAST_WORDS})
                continue
            made.add(wanted)
            messages.append({"role": "assistant", "content": said.content, "tool_calls": [call.to_dict()]})
            messages.append({"role": "tool", "tool_call_id": call.id, "content": _called(functions, *wanted)})
    return Ended("Failed", "too many requests", "")


def _called(functions: dict[str, Callable[..., Any]], name: str, arguments: str) -> str:
    try:
        return json.dumps(functions[name](**json.loads(arguments)))
    except (KeyError, TypeError, ValueError) as error:
        return f"Error: {error}"


PROFILES = {"paor": "auto", "two_stage": "two_stage"}
"""Engines that are paor, with the profile that each uses."""

PEERS = {
    "pydantic-ai": (run_pydantic_ai, "pydantic_ai", "pydantic-ai-slim[openai]"),
    "bare-loop": (run_bare_loop, "openai", "openai"),
}
"""The others: what runs a task, the module that it needs, and what to install."""

ENGINES = (*PROFILES, *PEERS)


def missing(engine: str) -> str:
    """Return why an engine cannot run here, in one line; empty if it can."""
    if engine in PROFILES:
        return ""
    _, module, package = PEERS[engine]
    return "" if find_spec(module) else f"{engine} is skipped: pip install '{package}'"


def version_of(engine: str) -> str:
    """Return the version of an engine's package."""
    return importlib.metadata.version(PEERS[engine][2].partition("[")[0] if engine in PEERS else "paor")


def run_engine(engine: str, task: Task, world: World, url: str, model: str, journal: Path) -> Ended:
    """Run a task; an exception that ends it is how it ended."""
    try:
        if engine in PEERS:
            return PEERS[engine][0](task, world, url, model)
        return run_paor(task, world, url, model, journal, PROFILES[engine])
    except Exception as error:  # noqa: BLE001  (whatever a library raises is how the run ended)
        return Ended("Failed", type(error).__name__, "")
