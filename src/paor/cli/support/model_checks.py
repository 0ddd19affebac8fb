"""What `paor doctor` says about models: which one a run would use, what it lacks, and what it answers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib import metadata
from typing import NamedTuple

from ...fsm.lifecycle.arguments import automatic, model_of
from ...prompts.clients.asking import ask
from ...prompts.clients.client import RemoteModel
from ...prompts.clients.prices import MILLION
from ...prompts.clients.settings import checked_url, price_list, shown_url
from ...prompts.model import Model, ModelCall, ModelUnavailable, Notice, PromptMessage
from ...states.base.errors import UsageError
from .streams import USAGE, tell
from .text import one_line

VARIABLES = {
    "openai": ("OPENAI_API_KEY", "OPENAI_BASE_URL"),
    "anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL"),
}
QUESTION = "Reply with the one word: ready"


class DoctorFinding(NamedTuple):
    """
    One thing that was looked at.

    Attributes:
        name: Of the thing.
        state: ``ok``, ``missing`` (optional, not there) or ``bad`` (paor cannot work).
        text: What is there, or what to do.
        code: Exit code when it is bad.
    """

    name: str
    state: str
    text: str
    code: int = USAGE


def model_findings(given: str | None, *, ask: bool) -> Iterator[DoctorFinding]:
    """Yield what is known of the model that a run would use, or of *given*; with *ask* what it answers."""
    yield from _providers()
    yield _prices()
    name = automatic()[0] if given in (None, "auto") else str(given)
    try:
        model = model_of(name)
    except UsageError as error:
        yield DoctorFinding("model", "bad", f"{name}{_why(given)}: {error}")
        return
    text = f"{model.name}{_why(given)}"
    if isinstance(model, RemoteModel):
        text = f"{text}; {_about(model)}"
    elif given is None and name == "offline":
        why = "no key in the environment" if "PAOR_MODEL" not in os.environ else "as PAOR_MODEL says"
        text = f"offline: {why}; works without a network, and quotes sentences instead of writing"
        named = [provider for provider, names in VARIABLES.items() if os.environ.get(names[-1])]
        if named and "PAOR_MODEL" not in os.environ:
            text += f"; for the server of your own name a model: --model {named[0]}:NAME or PAOR_MODEL"
    yield DoctorFinding("model", "ok", text)
    if ask:
        yield _answer(model)


def _providers() -> Iterator[DoctorFinding]:
    """Yield for each provider what the environment sets; never a value of a key."""
    for provider, names in VARIABLES.items():
        *keys, address = names
        known = [f"{key} is set" for key in keys if os.environ.get(key)]
        try:
            if url := os.environ.get(address):
                known.append(f"{address} is {shown_url(checked_url(url, address))}")
        except UsageError as error:
            yield DoctorFinding(provider, "missing", str(error))
            continue
        text = "; ".join(known) or f"none of {', '.join(names)} is set"
        yield DoctorFinding(provider, "ok" if known else "missing", text)


def _prices() -> DoctorFinding:
    """Return which price list holds."""
    try:
        prices = price_list(None)
    except UsageError as error:
        return DoctorFinding("prices", "missing", str(error))
    text = f"{prices.origin.removeprefix('prices ')}, {len(prices.models)} models"
    return DoctorFinding("prices", "ok", text)


def _why(given: str | None) -> str:
    """Return what decided for the model, names of variables without their values."""
    if given is not None:
        return ""
    if os.environ.get("PAOR_MODEL", "").strip():
        return ", as PAOR_MODEL says"
    found = [name for names in VARIABLES.values() for name in names if os.environ.get(name)]
    return f", as the environment says ({', '.join(found)})" if found else ""


def _about(model: RemoteModel) -> str:
    """Return where a model is, with which SDK it is asked, and what it costs."""
    where = "the provider's own server" if model.base_url is None else shown_url(model.base_url)
    variable = VARIABLES[model.provider][0]
    key = "a key is set" if model.has_key else f"without a key ({variable} is not set)"
    price = model.price
    cost = "price not known: costs are counted as 0, and a cost_budget is refused"
    if price is not None:
        cost = f"{price.tokens_in / MILLION:g} in, {price.tokens_out / MILLION:g} out for a million tokens"
    return f"{where}, {key}; {model.provider} {metadata.version(model.provider)}; {cost}"


def _tell_attempt(notice: Notice) -> None:
    """Tell of an attempt that is made again; a server that is not there is waited for."""
    if notice.kind == "retry":
        tell(f"paor: {one_line(notice.text)}; the next one in {notice.wait_us / 1e6:.1f} s")


def _answer(model: Model) -> DoctorFinding:
    """Ask *model* and return the finding."""
    messages = (PromptMessage("system", "Answer in one word."), PromptMessage("user", QUESTION))
    try:
        reply = ask(model, ModelCall("text", messages, timeout_s=60, on_notice=_tell_attempt))
    except ModelUnavailable as error:
        return DoctorFinding("answer", "bad", f"{error.code}: {error.message}")
    usage = reply.usage
    tokens = f", {usage.tokens_in:,} tokens in and {usage.tokens_out:,} out" if usage is not None else ""
    if not reply.text.strip():
        text = f"the model answered nothing (it ended by {reply.finish}){tokens}"
        return DoctorFinding("answer", "bad", text)
    return DoctorFinding("answer", "ok", f"the model answers{tokens}")
