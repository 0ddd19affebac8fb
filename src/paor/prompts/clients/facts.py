"""
What is known of a model and its server before the first request: whether tools are called, and how much context there is.

Of the providers' own models a list says it (`models.json`). Other servers are asked, cheap questions first: what they list of the
model, llama.cpp's properties, Ollama's description. Where none of these says whether tools are called, one tiny request shows it.
What is asked and how answers are read stands here; the connection asks.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Generator, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from msgspec import Struct

from ..model import ModelCall, OfferedTool, PromptMessage, Reply
from ..parsing.turns import Calls, read_turn

LOOK_S, QUESTION_S = 120.0, 5.0
"""Most seconds of the tiny request, a server that loads its model included, and of one question."""
ANSWER_BYTES = 4 * 2**20
"""Most bytes of an answer; the longest are the lists of services with hundreds of models."""
PROBE_TOKENS = 512
"""Enough for a call behind some thoughts."""
CONTEXT_MAX = 2**40


class ServerFacts(Struct, frozen=True):
    """
    What a server says of a model.

    Attributes:
        calls_tools: Whether it calls tools, and the server reads its calls.
        context_tokens: Tokens of a request and its reply together; None if nobody says.
        takes_pictures: Whether the model looks at pictures; None if nobody says, so that the first one shows it.
    """

    calls_tools: bool
    context_tokens: int | None = None
    takes_pictures: bool | None = None


class ServerQuestion(Struct, frozen=True):
    """A cheap question: where, and what is posted there, None to get it."""

    url: str
    body: dict[str, Any] | None = None


Answer = Mapping[str, Any] | Reply | None
"""What a question or the tiny request came to: an object, empty if it was refused; None if nobody answered."""

FactsPlan = Generator[ServerQuestion | ModelCall, Answer, tuple[ServerFacts, bool]]
"""Yields what to ask and is sent the answers; returns the facts, and whether they are to be remembered."""

KNOWN: dict[tuple[str, ...], ServerFacts] = {}
"""What servers have said in this process, by interface, address and model."""
_LOCK = threading.Lock()


def remember(key: tuple[str, ...], facts: ServerFacts) -> None:
    """Keep *facts*, those of few servers: a process that asks many forgets the first."""
    with _LOCK:
        while len(KNOWN) >= 256:
            KNOWN.pop(next(iter(KNOWN)))
        KNOWN[key] = facts


@lru_cache(maxsize=1)
def _listed() -> dict[str, int]:
    data = json.loads(Path(__file__).with_name("models.json").read_text(encoding="utf-8"))
    return {name: int(tokens) for name, tokens in data["context_tokens"].items()}


def listed_context(model: str) -> int | None:
    """Return the context of a provider's own model, by the longest beginning of its name that is in the list."""
    found = max(filter(model.startswith, _listed()), key=len, default=None)
    return None if found is None else _listed()[found]


# -- asking ----------------------------------------------------------------------------------------------------------

PROBE = ModelCall(
    "turn",
    (
        PromptMessage("system", "Call the tool."),
        PromptMessage("user", "Which temperature is it in Leeds?"),
    ),
    timeout_s=LOOK_S,
    max_tokens=PROBE_TOKENS,
    tools=(
        OfferedTool(
            "temperature",
            "Return the temperature of a place now.",
            {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]},
        ),
    ),
)


def facts_plan(model: str, models_url: str, *, calls: bool) -> FactsPlan:
    """
    Ask a server about *model*.

    Args:
        model: Its name there.
        models_url: Where the server lists its models.
        calls: Whether it has to be known if tools are called; else the tiny request is not made.
    """
    told = yield from _told(model, models_url)
    if not calls:
        return told.facts(), told.calls_tools is not None
    if told.calls_tools is not None and not (told.is_ollama and told.context_tokens is None):
        return told.facts(), True
    reply = yield PROBE
    if not isinstance(reply, Reply):
        return told.facts(), isinstance(reply, Mapping)
    called = isinstance(read_turn(reply.text, chars_max=ANSWER_BYTES, finish=reply.finish), Calls)
    now = told
    if told.context_tokens is None:  # the model may be loaded only now
        now = yield from _told(model, models_url)
    known = told.calls_tools if told.calls_tools is not None else now.calls_tools
    facts = ServerFacts(called if known is None else known, now.context_tokens, now.takes_pictures)
    return facts, known is not None or called or reply.finish != "length"


class _Told(Struct):
    """What the answers to cheap questions say; None where none does."""

    calls_tools: bool | None = None
    context_tokens: int | None = None
    takes_pictures: bool | None = None
    is_ollama: bool = False

    def facts(self) -> ServerFacts:
        """Return them where it need not, or cannot, be tried whether tools are called."""
        return ServerFacts(bool(self.calls_tools), self.context_tokens, self.takes_pictures)


def _told(model: str, models_url: str) -> Generator[ServerQuestion, Answer, _Told]:
    """Ask cheap questions until both facts are known."""
    root = models_url.removesuffix("/models").removesuffix("/v1")
    told = _Told()
    for question, read in (
        (ServerQuestion(models_url), _of_list),
        (ServerQuestion(f"{root}/props"), _of_props),
        (ServerQuestion(f"{root}/api/ps"), _of_loaded),
        (ServerQuestion(f"{root}/api/show", {"model": model}), _of_show),
    ):
        if read is _of_show and not told.is_ollama:
            break  # nothing is posted to a server that may take it for a request to the model
        data = yield question
        if data is None:  # nobody is there, or not yet
            break
        if isinstance(data, Mapping) and data:
            calls_tools, context, sees = read(data, model)
            told.calls_tools = calls_tools if told.calls_tools is None else told.calls_tools
            told.takes_pictures = sees if told.takes_pictures is None else told.takes_pictures
            told.context_tokens = context or told.context_tokens
            told.is_ollama = told.is_ollama or (read is _of_loaded and isinstance(data.get("models"), list))
        if told.calls_tools is not None and told.context_tokens is not None:
            break
    return told


# -- reading ---------------------------------------------------------------------------------------------------------

_Read = tuple[bool | None, int | None, bool | None]
_CONTEXTS = ("max_model_len", "context_length", "context_window", "max_context_length", "max_input_tokens")
"""How vLLM, OpenRouter and Together, Groq, Mistral, and Anthropic call it in their lists."""


def _of_list(data: Mapping[str, Any], model: str) -> _Read:
    """Read a list of models; of a server with one model it is that one, whatever its name."""
    entry = _entry(data.get("data"), model, "id")
    meta = entry.get("meta")
    context = next(filter(None, (_tokens(entry.get(name)) for name in _CONTEXTS)), None)
    if context is None and isinstance(meta, Mapping):
        context = _tokens(meta.get("n_ctx"))
    takes, can = entry.get("supported_parameters"), entry.get("capabilities")
    built = entry.get("architecture")
    inputs = built.get("input_modalities") if isinstance(built, Mapping) else None
    if isinstance(takes, list):
        return "tools" in takes, context, "image" in inputs if isinstance(inputs, list) else None
    return _flag(can, "function_calling"), context, _flag(can, "vision")


def _of_props(data: Mapping[str, Any], model: str) -> _Read:
    """Read llama.cpp's properties; the context is that of one slot."""
    can, settings = data.get("chat_template_caps"), data.get("default_generation_settings")
    context = _tokens(settings.get("n_ctx")) if isinstance(settings, Mapping) else None
    return _flag(can, "supports_tool_calls"), context, _flag(data.get("modalities"), "vision")


def _of_show(data: Mapping[str, Any], model: str) -> _Read:
    """Read Ollama's description; it serves less than the model could take, unless the model says how much."""
    can, parameters = data.get("capabilities"), data.get("parameters")
    lines = parameters.splitlines() if isinstance(parameters, str) else []
    words = [line.split() for line in lines]
    given = next((pair[1] for pair in words if len(pair) == 2 and pair[0] == "num_ctx"), "")
    context = _tokens(int(given)) if given.isascii() and given.isdigit() and len(given) < 10 else None
    return ("tools" in can, context, "vision" in can) if isinstance(can, list) else (None, context, None)


def _of_loaded(data: Mapping[str, Any], model: str) -> _Read:
    """Read which models Ollama has loaded, with the context that each has got."""
    return None, _tokens(_entry(data.get("models"), model, "name").get("context_length")), None


def _entry(entries: object, model: str, name: str) -> Mapping[str, Any]:
    found = [one for one in entries if isinstance(one, Mapping)] if isinstance(entries, list) else []
    named: Iterator[Mapping[str, Any]] = (one for one in found if one.get(name) in (model, f"{model}:latest"))
    return next(named, found[0] if len(found) == 1 else {})


def _flag(values: object, name: str) -> bool | None:
    flag = values.get(name) if isinstance(values, Mapping) else None
    return flag if isinstance(flag, bool) else None


def _tokens(value: object) -> int | None:
    return value if type(value) is int and 0 < value <= CONTEXT_MAX else None
