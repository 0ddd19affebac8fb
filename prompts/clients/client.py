"""
What the clients of all providers share: attempts, waiting, prices, secrets. One attempt is the provider's own.

A client makes a bounded number of attempts and says so; the SDKs' own retries are off. Whatever a server does ends in a
`Reply` or in `ModelUnavailable` with a code. Time comes through `Port`, so that tests wait for nothing.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Generator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ...states.budgets import prompt_tokens
from ...states.errors import UsageError
from ...states.outcomes import Usage
from ..model import (
    CallStopped,
    ModelCall,
    ModelUnavailable,
    Notice,
    Reply,
    estimated_usage,
    prompt_bytes,
)
from .background_loop import BESIDE
from .connection import Attempt, Connection
from .prices import Price
from .settings import (
    Port,
    SystemPort,
    checked_url,
    client_secrets,
    environment_secrets,
    is_below,
    number,
    price_list,
    shown_url,
    url_secrets,
    whole,
)
from .wire.faults import Fault, backoff_s, lacking, one_line
from .wire.interface import Asked, Heard, as_json

LOGGER = logging.getLogger("paor.models")
STRUCTURES = ("auto", "schema", "object", "tool", "none")
MAX_TOKENS, MAX_TOKENS_ELSEWHERE = 16_000, 4_096
"""Most tokens of a reply unless a client is told otherwise, at the providers and at servers of one's own."""
PAUSES_MAX = 3
_LIMIT_NAMES = ("max_tokens", "max_completion_tokens", "max_output_tokens")


class Course(Struct):
    """How far one call has come: attempts made, retries among them, what they used, what a paused turn said so far."""

    attempts: int = 0
    retries: int = 0
    usage: Usage | None = None
    said: str = ""
    turns: list[Any] = []
    request_id: str | None = None


Talk = Generator[Attempt | float, Any, Reply | ModelUnavailable]
"""Yields what to do, an attempt or seconds to wait, is sent what an attempt came to, and returns the answer."""


class RemoteModel(Connection):
    """
    A language model behind an SDK; see `OpenAIModel` and `AnthropicModel` for the arguments.

    Attributes:
        name: ``provider:model``, for the journal.
        streams: True: it tells its text as it comes in when somebody listens.
        stops: True: it gives up when it is told that the run is cancelled.
        base_url: The server, None for the provider's own.
        official: Whether that is the provider's own.
        without: Features that this server has refused and is not asked for any more.
    """

    provider = ""
    hosts: tuple[str, ...] = ()
    streams = True
    stops = True

    def __init__(
        self,
        model: str,
        *,
        key: str | None,
        base_url: str | None,
        max_tokens: int | None,
        temperature: float | None,
        effort: str | None,
        structured: str,
        timeout_s: float,
        retries: int,
        wait_max_s: float,
        stream: bool | None,
        prices: Mapping[str, Any] | str | os.PathLike[str] | None,
        extra: Mapping[str, Any] | None,
        headers: Mapping[str, str] | None,
        port: Port | None,
        client: Any,
        async_client: Any,
    ) -> None:
        self.name = f"{self.provider}:{model}"
        if not (
            isinstance(model, str) and model and model.isascii() and model.isprintable() and len(model) < 180
        ):
            raise UsageError(f"{self.provider}: a model's name is 1 to 180 printable ASCII characters")
        given = [one for one in (client, async_client) if one is not None]
        if given and base_url is None:
            base_url = str(given[0].base_url)
        self.base_url = (
            checked_url(base_url, f"base_url or {self.provider.upper()}_BASE_URL") if base_url else None
        )
        self.official = self.base_url is None or is_below(self.base_url, self.hosts)
        self._model = model
        limit = (
            max_tokens if max_tokens is not None else MAX_TOKENS if self.official else MAX_TOKENS_ELSEWHERE
        )
        self._max_tokens = whole(limit, "max_tokens", 1, 10_000_000)
        self._temperature = None if temperature is None else number(temperature, "temperature", 0, 100)
        self._effort = effort
        if structured not in STRUCTURES:
            raise UsageError(f"structured={structured!r}: use {', '.join(STRUCTURES)}")
        self._structured = structured
        self._timeout_s = number(timeout_s, "timeout_s", 0.001, 86_400)
        self._retries = whole(retries, "retries", 0, 100)
        self._wait_max_s = number(wait_max_s, "wait_max_s", 0, 86_400)
        self._stream = stream
        self._extra, self._headers = dict(extra or {}), dict(headers or {})
        for name in _LIMIT_NAMES:
            if name in self._extra:
                raise UsageError(f"extra holds {name}: use max_tokens, which the budgets of a run can lower")
        self.without: frozenset[str] = frozenset()
        self._refused: frozenset[str] = frozenset()
        self._prices = price_list(prices)
        self._has_given = bool(given)
        self._price_told = False
        secrets = self._secrets_with(key, given)
        super().__init__(port if port is not None else SystemPort(), secrets, client, async_client)

    def _secrets_with(self, key: str | None, given: Sequence[Any]) -> frozenset[str]:
        """Check the key, and return everything that must not get out."""
        found = next((one for one in (key, *(getattr(one, "api_key", None) for one in given)) if one), None)
        if found is not None and not (isinstance(found, str) and found.isascii() and found.isprintable()):
            raise UsageError(f"{self.name}: the key is not a text of printable ASCII characters")
        self._key = found or ""
        secrets = {self._key, *map(str, self._headers.values()), *environment_secrets()}
        for one in given:
            secrets |= client_secrets(one)
        if self.base_url is not None:
            secrets |= url_secrets(self.base_url)
        return frozenset(filter(None, secrets))

    @property
    def has_key(self) -> bool:
        """Whether there is a key."""
        return bool(self._key)

    def __repr__(self) -> str:
        where = "" if self.base_url is None else f", base_url={shown_url(self.base_url)!r}"
        return f"{type(self).__name__}({self._model!r}{where})"

    def __reduce__(self) -> Any:
        raise TypeError(f"{type(self).__name__} holds a key and is not pickled")

    # -- asking ----------------------------------------------------------------------------------------------------

    def ask(self, call: ModelCall) -> Reply:
        """
        Answer as `Model.ask` says; raise `ModelUnavailable` when that is not possible.

        Raises:
            CallStopped: `ModelCall.is_cancelled` has become true; the exchange is closed.
        """
        if call.is_cancelled is not None and not self._has_given:
            return BESIDE.wait(self.aask(call), call.is_cancelled)
        talk, came = self._talk(call), None
        while True:
            if call.is_cancelled is not None and call.is_cancelled():
                raise CallStopped("the run is cancelled")
            try:
                step = talk.send(came)
            except StopIteration as stop:
                answer: Reply | ModelUnavailable = stop.value
                break
            if isinstance(step, float):
                self._port.sleep(step)
                came = None
            else:
                came = self._attempted(step)
        if isinstance(answer, ModelUnavailable):
            raise answer  # outside of any handler: no exception of an SDK hangs on it
        return answer

    async def aask(self, call: ModelCall) -> Reply:
        """Do the same as `ask` without blocking the event loop."""
        talk, came = self._talk(call), None
        while True:
            try:
                step = talk.send(came)
            except StopIteration as stop:
                answer: Reply | ModelUnavailable = stop.value
                break
            if isinstance(step, float):
                await self._port.asleep(step)
                came = None
            else:
                came = await self._aattempted(step)
        if isinstance(answer, ModelUnavailable):
            raise answer
        return answer

    def _talk(self, call: ModelCall) -> Talk:
        """Make attempts until there is a reply or no more use in trying."""
        course = Course(turns=[])
        end = None if call.timeout_s is None else self._port.now() + call.timeout_s
        while True:
            asked = self._asked(call)
            body, features = self._interface.body(call, asked)
            if course.turns:
                body["messages"] = [*body["messages"], *course.turns]
            left = self._timeout_s if end is None else min(self._timeout_s, end - self._port.now())
            course.attempts += 1
            came: tuple[Heard | Fault, str | None] = yield Attempt(body, max(left, 0.001), call)
            result, request_id = came
            course.request_id = request_id or course.request_id
            self._add_usage(call, course, result.usage)
            if isinstance(result, Heard):
                turn = {"role": "assistant", "content": result.paused}
                last = result.paused is None or len(course.turns) >= PAUSES_MAX
                if last or not self._fits(call, asked, course, as_json(turn)):
                    return self._replied(call, course, result)
                course.turns.append(turn)
                course.said += result.text
                continue
            if self._learnt(call, asked, result, features):
                continue
            wait = self._wait(course, result, end)
            if not isinstance(wait, str) and not self._fits(call, asked, course):
                wait = " (what is left of the token budget is too little for another attempt)"
            if isinstance(wait, str):
                return self._unavailable(call, course, result, wait + self._hint(result))
            course.retries += 1
            text = f"attempt {course.attempts} failed: {self._clean(result.message)}"
            told = f"attempt {course.attempts} failed ({result.code}), the next one in {wait:g} s"
            self._tell(call, Notice("retry", result.code, text, course.attempts, round(wait * 1e6)), told)
            yield wait

    def _asked(self, call: ModelCall) -> Asked:
        structures = self._interface.structures
        structure = self._structured
        if structure == "auto":
            left = [name for name in structures if name not in self.without]
            refused = _schema_key(call) in self._refused
            structure = next((name for name in left if not (refused and name == "schema")), "none")
        return Asked(
            self._model,
            self._max_tokens if call.max_tokens is None else min(self._max_tokens, call.max_tokens),
            self._temperature,
            self._effort,
            structure,
            self.without,
            self.official,
            call.on_text is not None if self._stream is None else self._stream,
        )

    def _learnt(self, call: ModelCall, asked: Asked, fault: Fault, features: set[str]) -> bool:
        """Remember what the server does not take; return whether to ask again without it."""
        found = lacking(fault, features)
        if found is None:
            return False
        feature, always = found
        before = self.without, self._refused
        if feature == "structure":
            if self._structured != "auto":
                return False
            if asked.structure == "schema" and not always:
                self._refused |= {_schema_key(call)}
            else:
                self.without |= {asked.structure}
            feature = f"structured output ({asked.structure})"
        else:
            self.without |= {feature}
        if before == (self.without, self._refused):
            return False  # it was left out already: the server means something else
        told = f"asked without {feature}"
        self._tell(call, Notice("fallback", feature, f"{told}: {self._clean(fault.message)}"), told)
        return True

    def _fits(self, call: ModelCall, asked: Asked, course: Course, more: str = "") -> bool:
        """Return whether the token budget holds another attempt, its prompt *more* longer, if anything is known to be used."""
        used = course.usage or Usage()
        tokens = used.tokens_in + used.tokens_out
        if call.tokens_left is None or not tokens:
            return True
        size = prompt_bytes(call.messages) + len(as_json(course.turns)) + len(more)
        return tokens + prompt_tokens(size) + asked.max_tokens <= call.tokens_left

    def _hint(self, fault: Fault) -> str:
        """Return what else may be wrong when a server has no such place."""
        below = self.base_url is not None and "/v1" in self.base_url
        if self.provider != "openai" or self.official or below or fault.status not in (404, 405):
            return ""
        return " (most compatible servers listen below /v1, and base_url does not end so)"

    def _wait(self, course: Course, fault: Fault, end: float | None) -> float | str:
        """Return the seconds until the next attempt, or why there is none."""
        if not fault.again:
            return ""
        if course.retries >= self._retries:
            return f" (attempt {course.attempts}, the last one)" if self._retries else ""
        wait = fault.wait_s
        if wait is None:
            wait = backoff_s(course.retries + 1, self._port.jitter())
        if wait > self._wait_max_s:
            return f" (it asks to wait {wait:,.0f} s; at most {self._wait_max_s:,.0f} s are waited)"
        if end is not None and self._port.now() + wait >= end:
            return " (there is no time left for another attempt)"
        return float(wait)

    # -- answering -------------------------------------------------------------------------------------------------

    def _replied(self, call: ModelCall, course: Course, heard: Heard) -> Reply:
        text = self._scrub(course.said + heard.text)
        usage = heard.usage
        if usage is None or not (
            usage.tokens_in or usage.tokens_out
        ):  # who tells nothing reads and writes all the same
            self._add_usage(call, course, estimated_usage(call, text))
        reply = Reply(text, course.usage, heard.finish, course.request_id, course.attempts)
        if LOGGER.isEnabledFor(logging.DEBUG):
            used = course.usage or Usage()
            told = f"answered ({heard.finish}), {used.tokens_in} tokens in, {used.tokens_out} out"
            self._log(logging.DEBUG, call, "reply", heard.finish, told, course.attempts)
        return reply

    def _unavailable(self, call: ModelCall, course: Course, fault: Fault, more: str) -> ModelUnavailable:
        usage = replace(course.usage or Usage(), calls=course.attempts)
        told = f"no answer ({fault.code}), attempts: {course.attempts}"
        self._log(logging.WARNING, call, "fault", fault.code, told, course.attempts)
        return ModelUnavailable(fault.code, self._clean(fault.message) + more, usage, course.request_id)

    def _clean(self, text: str) -> str:
        return one_line(self._scrub(text))

    def _add_usage(self, call: ModelCall, course: Course, usage: Usage | None) -> None:
        """Add what an attempt used, with what it costs; a model without a price is told once."""
        if usage is None:
            return
        price = self.price
        if price is not None:
            usage = replace(usage, cost_micro=price.of(usage))
        elif not self._price_told:
            self._price_told = True
            where = "" if self.base_url is None else f" at {shown_url(self.base_url)}"
            text = f"no price is known for {self.name}{where}: its cost is counted as 0"
            self._tell(call, Notice("prices", "unknown", text), text)
        course.usage = usage if course.usage is None else course.usage + usage

    @property
    def price(self) -> Price | None:
        """What the model costs, None if that is not known; the shipped list is that of the providers' own servers."""
        return self._prices.price(self.name) if self.official or self._prices.own else None

    @property
    def is_priced(self) -> bool:
        """Whether costs are known; a run with `Limits.cost_budget` is not begun without."""
        return self.price is not None

    def _tell(self, call: ModelCall, notice: Notice, told: str) -> None:
        """Tell whoever listens, and the log: *told* there, since a notice may hold words of the server."""
        self._log(logging.WARNING, call, notice.kind, notice.code, told, notice.attempt)
        if notice.text != told:
            LOGGER.debug("%s, %s: %s", self.name, call.kind, notice.text)
        if call.on_notice is not None:
            call.on_notice(notice)

    def _log(self, level: int, call: ModelCall, what: str, code: str, told: str, attempt: int) -> None:
        """Write one line with codes and numbers only."""
        if not LOGGER.isEnabledFor(level):
            return
        facts: dict[str, Any] = {"run_id": call.run_id, "seq": call.seq, "step": call.step}
        facts |= {"model": self.name, "request": call.kind, "event": what, "code": code, "attempt": attempt}
        place = f"run {call.run_id} row {call.seq} step {call.step}: " if call.run_id else ""
        LOGGER.log(level, "%s%s, %s: %s", place, self.name, call.kind, told, extra={"paor": facts})


def _schema_key(call: ModelCall) -> str:
    return json.dumps(call.schema, sort_keys=True, default=str)
