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
from hashlib import sha256
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from ...states.base.errors import MissingExtra, UsageError
from ...states.records.outcomes import Usage
from ...states.run.budgets import prompt_tokens
from ..model import (
    CallStopped,
    Finish,
    ModelCall,
    ModelUnavailable,
    Notice,
    Reply,
    estimated_usage,
    prompt_bytes,
    without_pictures,
)
from ..parsing.json_reading import after_thinking
from ..parsing.provider_schema import plain_schema, without_patterns
from ..parsing.turns import turn_text
from ..parsing.unparsed import calls_in, with_thoughts_marked
from .background_loop import BACKGROUND
from .connection import Attempt, AttemptResult, Connection
from .facts import KNOWN, ServerFacts, ServerQuestion, facts_plan, listed_context, remember
from .prices import Price
from .remedies import NO_TOOLS, ending, next_step
from .settings import (
    Port,
    SystemPort,
    checked_url,
    client_secrets,
    environment_secrets,
    header_secrets,
    is_below,
    is_local,
    number,
    one_of,
    price_list,
    shown_url,
    url_secrets,
    whole,
)
from .wire.faults import AttemptFault, backoff_s, one_line
from .wire.interface import ParsedReply, RequestOptions, as_json, without_system
from .wire.kept_turns import kept_parts
from .wire.refusals import Refusal, refused

LOGGER = logging.getLogger("paor.models")
MAX_TOKENS, MAX_TOKENS_ELSEWHERE = 16_000, 4_096
"""Most tokens of a reply unless a client is told otherwise, at the providers and at servers of one's own."""
TIMEOUT_S, TIMEOUT_S_ELSEWHERE = 300.0, 1_800.0
"""Seconds of one attempt likewise: on a processor a model writes as many tokens in half an hour as a provider's in one minute."""
REASONING_TOKENS = 4_096
"""Tokens that a model which reasons may use for that, at least: more than the limit of a short reply."""
LOADING_S = 30.0
"""How long a server of one's own network that is not there, or loads its model, is waited for, in seconds."""
PAUSES_MAX = 3
REFUSALS_MAX = 24
"""Most times that a request is asked anew without something: each of its features, and some tools."""
_ONLY_AT = {"tool": "AnthropicModel", "object": "OpenAIModel"}
_LIMIT_NAMES = ("max_tokens", "max_completion_tokens", "max_output_tokens")


class CallProgress(Struct):
    """
    How far one call has come: attempts made, retries among them, seconds waited, what they used, what a paused turn said.

    Attributes:
        refusals: What is left out of this request, since the server has refused it. What holds for other requests, too, is remembered
            once the server has answered without it.
    """

    attempts: int = 0
    retries: int = 0
    waited_s: float = 0
    usage: Usage | None = None
    said: str = ""
    turns: list[Any] = []
    parts: tuple[dict[str, Any], ...] = ()
    refusals: tuple[Refusal, ...] = ()
    request_id: str | None = None

    def limits(self) -> list[int]:
        """Return the limits that the server has named."""
        return [refusal.limit for refusal in self.refusals if refusal.feature == "smaller"]

    def left_out(self) -> set[str]:
        """Return the names of tools that are not offered."""
        return {refusal.tool for refusal in self.refusals if refusal.tool}


Answer = Reply | ModelUnavailable
AttemptPlan = Generator[Attempt | float | Answer, AttemptResult | None, None]
"""Yields what to do, an attempt or seconds to wait, is sent what an attempt came to, and yields the answer at its end."""


class RemoteModel(Connection):
    """
    A language model behind an SDK; see `OpenAIModel` and `AnthropicModel` for the arguments.

    Attributes:
        name: ``provider:model``, for the journal.
        streams: True: it tells its text as it comes in when somebody listens.
        stops: True: it gives up when it is told that the run is cancelled.
        base_url: The server, None for the provider's own.
        official: Whether that is the provider's own.
        models_path: Where below its address a server lists its models.
        hosts, key_names: The provider's own servers, and the variables of the environment that may hold its key.
        apis, structures: What `api` and `structured` can be besides ``auto``.
        without: Features that this server has refused and is not asked for any more, by the names of `wire.refusals`.
    """

    models_path = "/models"
    hosts: tuple[str, ...] = ()
    key_names: tuple[str, ...] = ()
    apis: tuple[str, ...] = ()
    structures: tuple[str, ...] = ()
    streams = True
    stops = True

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        api: str = "auto",
        max_tokens: int | None = None,
        temperature: float | None = None,
        effort: str | None = None,
        structured: str = "auto",
        timeout_s: float | None = None,
        retries: int = 3,
        wait_max_s: float = 60.0,
        stream: bool | None = None,
        prices: Mapping[str, Any] | str | os.PathLike[str] | None = None,
        extra: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        port: Port | None = None,
        client: Any = None,
        async_client: Any = None,
    ) -> None:
        if find_spec(self.provider) is None:
            raise MissingExtra(f'{self.provider}:{model} needs the SDK: pip install "paor[{self.provider}]"')
        self.name = f"{self.provider}:{model}"
        if not (
            isinstance(model, str) and model and model.isascii() and model.isprintable() and len(model) < 180
        ):
            raise UsageError(f"{self.provider}: a model's name is 1 to 180 printable ASCII characters")
        self._model = model
        self._api = one_of(api, "api", ("auto", *self.apis))
        if structured in _ONLY_AT and structured not in self.structures:
            raise UsageError(
                f"structured={structured!r} is for {_ONLY_AT[structured]}; use {', '.join(self.structures)}"
            )
        self._structured = one_of(structured, "structured", ("auto", *self.structures))
        given = [one for one in (client, async_client) if one is not None]
        self._place(base_url, given)
        limit = MAX_TOKENS if self.official else MAX_TOKENS_ELSEWHERE
        self._max_tokens = whole(limit if max_tokens is None else max_tokens, "max_tokens", 1, 10_000_000)
        self._temperature = None if temperature is None else number(temperature, "temperature", 0, 100)
        self._effort = effort
        attempt_s = TIMEOUT_S if self.official else TIMEOUT_S_ELSEWHERE
        self._timeout_s = number(attempt_s if timeout_s is None else timeout_s, "timeout_s", 0.001, 86_400)
        self._retries = whole(retries, "retries", 0, 100)
        self._wait_max_s = number(wait_max_s, "wait_max_s", 0, 86_400)
        self._stream = stream
        self._extra, self._headers = dict(extra or {}), dict(headers or {})
        for name in _LIMIT_NAMES:
            if name in self._extra:
                raise UsageError(f"extra holds {name}: use max_tokens, which the budgets of a run can lower")
        self._reasons = self.official  # whether it does cannot be known before its first reply
        self.without: frozenset[str] = frozenset()
        self._refused: frozenset[str] = frozenset()
        self._limit = self._max_tokens
        self._prices = price_list(prices)
        self._price_told = False
        if api_key is None and not given:
            api_key = next(filter(None, map(os.environ.get, self.key_names)), None)
        secrets = self._secrets_with(api_key, given)
        if self.official and not (self._key or given):
            where = f"or {self.provider.upper()}_BASE_URL for a server of your own"
            raise UsageError(f"{self.name} needs a key: set {self.key_names[0]}, {where}")
        quiet = [one and one.with_options(max_retries=0) for one in (client, async_client)]
        self._seen: ServerFacts | None = None
        self._is_own = not given
        super().__init__(port if port is not None else SystemPort(), secrets, *quiet)

    def _place(self, base_url: str | None, given: Sequence[Any]) -> None:
        """Check where the server is: as it was given, as a host's own client has it, or as the environment says."""
        name = f"{self.provider.upper()}_BASE_URL"
        url = base_url or (str(given[0].base_url) if given else os.environ.get(name)) or None
        self.base_url = checked_url(url, f"base_url or {name}") if url else None
        self.official = self.base_url is None or is_below(self.base_url, self.hosts)
        self._is_local = self.base_url is not None and is_local(self.base_url)

    def _secrets_with(self, key: str | None, given: Sequence[Any]) -> frozenset[str]:
        """Check the key, and return everything that must not get out."""
        found = next((one for one in (key, *(getattr(one, "api_key", None) for one in given)) if one), None)
        if found is not None and not (isinstance(found, str) and found.isascii() and found.isprintable()):
            raise UsageError(f"{self.name}: the key is not a text of printable ASCII characters")
        self._key = found or ""
        self.keys = self._held(given, keys=True)
        return self._held(given) | frozenset(filter(None, map(str, self._headers.values())))

    def _held(self, given: Sequence[Any], *, keys: bool = False) -> frozenset[str]:
        """Return the secrets that this client sends; with *keys* only what is a key by its name."""
        secrets = {self._key, *environment_secrets(keys=keys)}
        for name, value in self._headers.items():
            secrets |= header_secrets(name, str(value), keys=True)
        for one in given:
            secrets |= client_secrets(one, keys=keys)
        if self.base_url is not None:
            secrets |= url_secrets(self.base_url, keys=keys)
        return frozenset(filter(None, secrets))

    @property
    def reasoning_tokens(self) -> int:
        """
        Tokens that the model may use to reason, on top of `Limits.max_reply_tokens`.

        Of the provider's own models all but 4,000 of the client's ``max_tokens``; of others 0 until a reply has shown that
        the model reasons.
        """
        return max(REASONING_TOKENS, self._max_tokens - 4_000) if self._reasons else 0

    @property
    def has_key(self) -> bool:
        """Whether there is a key."""
        return bool(self._key)

    def __repr__(self) -> str:
        where = "" if self.base_url is None else f", base_url={shown_url(self.base_url)!r}"
        return f"{type(self).__name__}({self._model!r}{where})"

    def __reduce__(self) -> Any:
        raise TypeError(f"{type(self).__name__} holds a key and is not pickled")

    # -- what is known before -----------------------------------------------------------------------------------------------

    @property
    def calls_tools(self) -> bool | None:
        """Whether it calls tools: the providers' own models do; of another server None until `look` has asked it."""
        facts = self._facts
        return None if facts is None else facts.calls_tools

    @property
    def context_tokens(self) -> int | None:
        """Tokens of a request and its reply together; None if neither a list nor the server says."""
        facts = self._facts
        return None if facts is None else facts.context_tokens

    @property
    def takes_pictures(self) -> bool | None:
        """Whether it is shown pictures: the providers' own models are; of another server None until it has said so or refused one."""
        facts = self._facts
        return None if facts is None else facts.takes_pictures

    @property
    def _facts(self) -> ServerFacts | None:
        if self.official:
            return ServerFacts(True, listed_context(self._model), True)
        return self._seen or (KNOWN.get(self._place_key) if self._is_own else None)

    @property
    def _turns_of(self) -> str:
        """What `Reply.api` says: the interface, with a digest of the address of a server that is not the provider's own."""
        if self.official:
            return self._interface.api
        digest = sha256(shown_url(str(self.base_url)).rstrip("/").encode()).hexdigest()[:8]
        return f"{self._interface.api}:{digest}"

    @property
    def _place_key(self) -> tuple[str, ...]:
        return (self.provider, self._interface.api, str(self.base_url), self._model)

    def look(self, *, calls: bool = True) -> ServerFacts:
        """
        Return what the server says of the model, asked once for this object and, of its own clients, in this process.

        Args:
            calls: Whether it has to be known if tools are called, for which a request to the model may be needed.

        A server that cannot be asked counts as one that calls no tools, and is asked again the next time; nothing is raised.
        """
        if self._client is None:
            return BACKGROUND.wait(self.alook(calls=calls), lambda: False)
        plan = self._looking(calls)
        step = next(plan)
        while not isinstance(step, ServerFacts):
            if isinstance(step, ServerQuestion):
                step = plan.send(self._asked(step))
            else:
                try:
                    reply: Reply | dict[str, Any] | None = self.ask(step)
                except ModelUnavailable as fault:
                    reply = _refusal(fault)
                step = plan.send(reply)
        return step

    async def alook(self, *, calls: bool = True) -> ServerFacts:
        """Do the same as `look` without blocking the event loop."""
        plan = self._looking(calls)
        step = next(plan)
        while not isinstance(step, ServerFacts):
            if isinstance(step, ServerQuestion):
                step = plan.send(await self._aasked(step))
            else:
                try:
                    reply: Reply | dict[str, Any] | None = await self.aask(step)
                except ModelUnavailable as fault:
                    reply = _refusal(fault)
                step = plan.send(reply)
        return step

    def _looking(self, calls: bool) -> Generator[ServerQuestion | ModelCall | ServerFacts, Any, None]:
        """Yield what to ask, and the facts at the end."""
        facts = self._facts
        if facts is None:
            facts, lasts = yield from facts_plan(self._model, self._models_url, calls=calls)
            if lasts:
                self._seen = facts
                if self._is_own:
                    remember(self._place_key, facts)
        yield facts

    @property
    def _models_url(self) -> str:
        url = urlsplit(str(self.base_url))
        return url._replace(path=url.path.rstrip("/") + self.models_path, query="").geturl()

    # -- asking ----------------------------------------------------------------------------------------------------

    def ask(self, call: ModelCall) -> Reply:
        """
        Answer as `Model.ask` says; raise `ModelUnavailable` when that is not possible.

        Raises:
            CallStopped: `ModelCall.is_cancelled` became true; the request is closed.
        """
        if self._client is None:
            return BACKGROUND.wait(self.aask(call), call.is_cancelled or (lambda: False))
        plan = self._plan(call)
        step = next(plan)
        while not isinstance(step, Answer):
            # before each attempt, so also after each wait: a run that was cancelled during it sends nothing more
            if call.is_cancelled is not None and call.is_cancelled():
                raise CallStopped("the run is cancelled")
            if isinstance(step, Attempt):
                step = plan.send(self._attempted(step))
            else:
                self._port.sleep(step)
                step = next(plan)
        return _reply_or_raise(step)

    async def aask(self, call: ModelCall) -> Reply:
        """Do the same as `ask` without blocking the event loop."""
        plan = self._plan(call)
        step = next(plan)
        while not isinstance(step, Answer):
            if isinstance(step, Attempt):
                step = plan.send(await self._aattempted(step))
            else:
                await self._port.asleep(step)
                step = next(plan)
        return _reply_or_raise(step)

    def _plan(self, call: ModelCall) -> AttemptPlan:
        """Make attempts until there is a reply or no more use in trying."""
        progress = CallProgress(turns=[])
        end = None if call.timeout_s is None else self._port.now() + call.timeout_s
        while True:
            options = self._options(call, progress)
            offered = self._offered(call, progress)
            body, features = self._body(offered, options)
            if options.stream:
                body["stream"] = True
            if progress.turns:
                body["messages"] = [*body["messages"], *progress.turns]
            left = self._timeout_s if end is None else min(self._timeout_s, end - self._port.now())
            progress.attempts += 1
            came = yield Attempt(body, max(left, 0.001), call, options.max_tokens)
            assert came is not None, "an attempt comes to something"
            result, request_id = came
            progress.request_id = request_id or progress.request_id
            # before it is decided whether to ask again: `_fits` must know what this attempt used, or the next one exceeds
            # the token budget
            self._add_usage(call, progress, result.usage)
            if isinstance(result, ParsedReply):
                self._remember(call, progress.refusals)
                turn = {"role": "assistant", "content": list(result.parts)}
                last = not result.is_paused or len(progress.turns) >= PAUSES_MAX
                if last or not self._fits(call, options, progress, as_json(turn)):
                    yield self._make_reply(call, progress, result)
                    return
                progress.turns.append(turn)
                progress.said += result.text
                progress.parts += result.parts
                continue
            if self._learnt(offered, options, progress, result, features):
                continue
            wait = self._wait(progress, result, end)
            if not isinstance(wait, str) and not self._fits(call, options, progress):
                wait = " (what is left of the token budget is too little for another attempt)"
            if isinstance(wait, str):
                yield self._unavailable(call, progress, result, wait)
                return
            progress.retries += 1
            progress.waited_s += wait
            text = f"attempt {progress.attempts} failed: {self._clean(result.message)}"
            told = f"attempt {progress.attempts} failed ({result.code}), the next one in {wait:g} s"
            self._tell(call, Notice("retry", result.code, text, progress.attempts, round(wait * 1e6)), told)
            yield wait

    def _offered(self, call: ModelCall, progress: CallProgress) -> ModelCall:
        """Return a request without the tools whose schemas the server does not take in any form."""
        gone = progress.left_out()
        tools = [tool for tool in call.tools if tool.name not in gone and not self._is_refused(tool.schema)]
        return call if len(tools) == len(call.tools) else replace(call, tools=tuple(tools))

    def _is_refused(self, schema: object) -> bool:
        """Return whether the server has refused that very schema."""
        return bool(self._refused) and _schema_key(schema) in self._refused

    def _body(self, call: ModelCall, options: RequestOptions) -> tuple[dict[str, Any], set[str]]:
        """Return a request's body, and which features of it can be left out."""
        for feature, changed in _CHANGED.items():
            if not options.takes(feature):
                call = changed(call)
        return self._interface.body(call, options)

    def _options(self, call: ModelCall, progress: CallProgress) -> RequestOptions:
        without = self.without | {refusal.feature for refusal in progress.refusals}
        forms = self._interface.structures if self._structured == "auto" else (self._structured,)
        gone = without | ({"schema"} if self._is_refused(call.schema) else set())
        structure = next((form for form in forms if form not in gone), "none")
        limits = [self._max_tokens, self._limit, *progress.limits()]
        return RequestOptions(
            self._model,
            min(limits if call.max_tokens is None else [*limits, call.max_tokens]),
            self._temperature,
            self._effort,
            structure,
            without,
            self.official,
            call.on_text is not None or not self.official if self._stream is None else self._stream,
            self._turns_of,
        )

    def _learnt(
        self,
        call: ModelCall,
        options: RequestOptions,
        progress: CallProgress,
        fault: AttemptFault,
        features: set[str],
    ) -> bool:
        """Note what the server does not take; return whether to ask again without it."""
        made = {refusal.feature for refusal in progress.refusals}
        sent = features | {"smaller", "offer"} | ({"again"} - made)
        sent |= {name for name, changed in _CHANGED.items() if options.takes(name) and changed(call) != call}
        found = refused(fault, sent, max_tokens=options.max_tokens, tools=call.tools)
        if found is None or found in progress.refusals or len(progress.refusals) >= REFUSALS_MAX:
            return False
        if found.feature == "structure":
            found = replace(found, feature=options.structure)
        progress.refusals += (found,)
        told = _told_of(found)
        self._tell(call, Notice("fallback", found.feature, f"{told}: {self._clean(fault.message)}"), told)
        return True

    def _remember(self, call: ModelCall, refusals: Sequence[Refusal]) -> None:
        """Keep what is not to be asked for any more: the server has answered without it."""
        for one in refusals:
            if one.feature == "smaller" and one.scope == "server":
                self._limit = min(self._limit, one.limit)
            elif one.feature == "offer":
                self._refused |= {_schema_key(tool.schema) for tool in call.tools if tool.name == one.tool}
            elif one.scope == "schema" and one.feature == "schema":
                self._refused |= {_schema_key(call.schema)}
            elif one.scope != "request" and one.feature != "smaller":
                self.without |= {one.feature}

    def _fits(self, call: ModelCall, options: RequestOptions, progress: CallProgress, more: str = "") -> bool:
        """Return whether the token budget holds another attempt, its prompt *more* longer, if anything is known to be used."""
        used = progress.usage or Usage()
        tokens = used.tokens_in + used.tokens_out
        if call.tokens_left is None or not tokens:
            return True
        said = as_json(progress.turns) if progress.turns else ""
        size = prompt_bytes(call.messages, call.tools) + len(said) + len(more)
        return tokens + prompt_tokens(size) + options.max_tokens <= call.tokens_left

    def _wait(self, progress: CallProgress, fault: AttemptFault, end: float | None) -> float | str:
        """Return the seconds until the next attempt, or why there is none."""
        if not fault.again:
            return ""
        loading = self._retries > 0 and self._is_local and fault.absent and progress.waited_s < LOADING_S
        if progress.retries >= self._retries and not loading:
            return f" (attempt {progress.attempts}, the last one)" if self._retries else ""
        wait = fault.wait_s
        if wait is None:
            wait = backoff_s(progress.retries + 1, self._port.jitter())
        if wait > self._wait_max_s:
            return f" (it asks to wait {wait:,.0f} s; at most {self._wait_max_s:,.0f} s are waited)"
        if end is not None and self._port.now() + wait >= end:
            return " (there is no time left for another attempt)"
        return float(wait)

    # -- answering -------------------------------------------------------------------------------------------------

    def _make_reply(self, call: ModelCall, progress: CallProgress, parsed: ParsedReply) -> Reply:
        self._reasons = self._reasons or parsed.reasoned
        text = progress.said + parsed.text  # joined first: a key may be split over two turns
        finish = parsed.finish
        if call.kind == "turn" and finish == "tool_calls":
            text = turn_text(parsed.text, progress.said)
        elif finish in ("stop", "length"):
            text, finish = _taken_apart(call, text, finish)
        text = self._scrub(text)
        usage = parsed.usage
        if usage is None or not (
            usage.tokens_in or usage.tokens_out
        ):  # who tells nothing reads and writes all the same
            self._add_usage(call, progress, estimated_usage(call, text))
        parts = kept_parts(progress.parts + parsed.parts, self._scrub)
        api = self._turns_of if parts else ""
        reply = Reply(text, progress.usage, finish, progress.request_id, progress.attempts, parts, api)
        if LOGGER.isEnabledFor(logging.DEBUG):
            used = progress.usage or Usage()
            told = f"answered ({finish}), {used.tokens_in} tokens in, {used.tokens_out} out"
            self._log(logging.DEBUG, call, "reply", finish, told, progress.attempts)
        return reply

    def _unavailable(
        self, call: ModelCall, progress: CallProgress, fault: AttemptFault, more: str
    ) -> ModelUnavailable:
        usage = replace(progress.usage or Usage(), calls=progress.attempts)
        told = f"no answer ({fault.code}), attempts: {progress.attempts}"
        self._log(logging.WARNING, call, "fault", fault.code, told, progress.attempts)
        below = self.base_url is not None and "/v1" in self.base_url
        lacks_v1 = self.provider == "openai" and not (self.official or below)
        step = next_step(fault, call, extra=self._extra, lacks_v1=lacks_v1, key=self.key_names[0])
        server, said = shown_url(self.base_url or self.home), self._clean(fault.message) + more
        message = ending(server, self._model, call, said, step, refused=300 <= fault.status < 500)
        return ModelUnavailable(fault.code, message, usage, progress.request_id)

    def _clean(self, text: str) -> str:
        return one_line(self._scrub(text))

    def _add_usage(self, call: ModelCall, progress: CallProgress, usage: Usage | None) -> None:
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
        progress.usage = usage if progress.usage is None else progress.usage + usage

    @property
    def price(self) -> Price | None:
        """Price of the model, None if unknown; the shipped list is valid for the providers' own servers only."""
        return self._prices.price(self.name) if self.official or self._prices.own else None

    @property
    def is_priced(self) -> bool:
        """Whether the price is known; without it a run with `Limits.cost_budget` cannot start."""
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


def _refusal(fault: ModelUnavailable) -> dict[str, Any] | None:
    """Return something if a server has refused to be asked with a tool, None if it could not be asked."""
    return {} if fault.code == "bad_request" or NO_TOOLS in fault.message else None


def _reply_or_raise(answer: Answer) -> Reply:
    if isinstance(answer, ModelUnavailable):
        raise answer  # outside of any handler: no exception of an SDK hangs on it
    return answer


def _taken_apart(call: ModelCall, text: str, finish: Finish) -> tuple[str, Finish]:
    """Return a reply with the thoughts and calls in their one form that its server has left in the text."""
    text = with_thoughts_marked(text)
    if call.kind == "text":
        return after_thinking(text), finish
    called = calls_in(text, call.tools, call.reads) if call.kind == "turn" and finish == "stop" else None
    return (text, finish) if called is None else (called, "tool_calls")


def _schema_key(schema: object) -> str:
    return json.dumps(schema, sort_keys=True, default=str)


def _with_fewer_patterns(call: ModelCall) -> ModelCall:
    tools = [replace(tool, schema=without_patterns(tool.schema)) for tool in call.tools]
    return replace(call, schema=without_patterns(call.schema), tools=tuple(tools))


def _with_plain_tools(call: ModelCall) -> ModelCall:
    tools = []
    for tool in call.tools:
        try:
            tools.append(replace(tool, schema=plain_schema(tool.schema)))
        except ValueError:  # it stays as it is, and is left out if that is refused
            tools.append(tool)
    return replace(call, tools=tuple(tools))


def _with_words_for_pictures(call: ModelCall) -> ModelCall:
    return replace(call, messages=without_pictures(call.messages))


_CHANGED = {
    "pictures": _with_words_for_pictures,
    "schemas": _with_plain_tools,
    "pattern": _with_fewer_patterns,
    "system": without_system,
}
"""How a request looks without a feature that every interface has."""


def _told_of(refusal: Refusal) -> str:
    """Return what is done about a refusal, for events and logs."""
    if refusal.feature == "smaller":
        return f"asked for at most {refusal.limit:,} tokens"
    if refusal.feature in ("schema", "object"):
        return f"asked without structured output ({refusal.feature})"
    return {
        "again": "asked again: the server could not take what its model wrote",
        "system": "asked without a system message: its text is the user's",
        "schemas": "asked with plainer schemas of the tools",
        "pattern": "asked without patterns in schemas",
        "offer": f"asked without the tool {refusal.tool}, whose schema the server does not take",
    }.get(refusal.feature, f"asked without {refusal.feature}")
