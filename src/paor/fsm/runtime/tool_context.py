"""The recording context that a tool gets: its documents, and the run's model for free text."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import orjson
from msgspec.structs import replace

from ...prompts.building.builder import TextTask
from ...prompts.building.fencing import beginning
from ...prompts.clients import background_loop
from ...prompts.clients.settings import said_scrubber
from ...prompts.model import (
    CallStopped,
    Model,
    ModelCall,
    ModelUnavailable,
    Notice,
    PromptMessage,
    Reply,
    checked_reply,
    estimated_usage,
    prompt_bytes,
    reasoning_tokens,
    request_label,
    shown_to,
)
from ...states.base.errors import ToolError
from ...states.records.actions import Intent, StoredText
from ...states.records.outcomes import NO_USAGE, Usage
from ...states.run.budgets import (
    BYTES_PER_TOKEN,
    NO_RESERVATION,
    Allowance,
    Reservation,
    allowance,
    exhausted_budget,
    refusal,
    reply_limit,
    reservation,
    shorter,
    time_budget_used_up,
    time_left_s,
)
from ...states.run.state import Counters, Run
from ...states.settings.limits import Limits
from ...tools.tool import Document, Resumption, Tool
from ..decision.run_resources import RunResources
from ..journal.payloads import JSON, Stager


class Account:
    """
    What the calls that are made at the same time have used together, and what their open requests hold.

    Open requests hold their reservations against each other whatever the limits say, so that ten that are made at once
    do not each find the same money.

    Args:
        limits, counters: Of the run, as the row left it with which these calls became durable.
        elapsed_us: Active time since that row.
        is_cancelled: Whether somebody has asked to cancel the run.

    Attributes:
        is_cancelled: As given.
    """

    def __init__(
        self,
        limits: Limits,
        counters: Counters,
        *,
        elapsed_us: Callable[[], int],
        is_cancelled: Callable[[], bool],
    ) -> None:
        self.is_cancelled = is_cancelled
        self._limits = limits
        self._counters = counters
        self._elapsed_us = elapsed_us
        self._usage = Usage()
        self._held: list[Reservation] = []
        self._lock = threading.Lock()

    def reserve(self, prompt_bytes: int) -> tuple[int, Reservation, Allowance]:
        """
        Return the request's number within the run, its reservation, and what it may use.

        Raises:
            ToolError: A budget is used up, or what is left is too little; or the run is cancelled.
        """
        if self.is_cancelled():
            raise ToolError("the run is cancelled; no model is asked any more")
        with self._lock:
            limits, used, held = self._limits, self._counters_now(), NO_RESERVATION
            for other in self._held:
                held = Reservation(held.tokens + other.tokens, held.cost_micro + other.cost_micro)
            reason = exhausted_budget(limits, used, held)
            if reason is not None:
                raise ToolError(f"the {_words(reason)} is used up")
            wanted = reservation(limits, used, prompt_bytes)
            short = refusal(limits, used, wanted, held)
            if short is not None:
                raise ToolError(f"what is left of the {_words(short)} is too little for this request")
            self._held.append(wanted)
            return used.calls + len(self._held) - 1, wanted, allowance(limits, used, prompt_bytes, held)

    def is_out_of_time(self) -> bool:
        """Return whether the time budget is used up by now."""
        return time_budget_used_up(self._limits, self._counters_now())

    def _counters_now(self) -> Counters:
        """Return the run's counters with what these calls have settled, and their time if that is limited."""
        counters, usage = self._counters, self._usage
        elapsed_us = self._elapsed_us() if self._limits.time_budget_us is not None else 0
        return replace(
            counters,
            calls=counters.calls + usage.calls,
            tokens_in=counters.tokens_in + usage.tokens_in,
            tokens_out=counters.tokens_out + usage.tokens_out,
            cost_micro=counters.cost_micro + usage.cost_micro,
            time_us=counters.time_us + elapsed_us,
        )

    def settle(self, ledger: CallLedger, usage: Usage, wanted: Reservation | None) -> None:
        """Count what a request of the call with *ledger* has used, and give back what it held."""
        with self._lock:
            if wanted is not None:
                self._held.remove(wanted)
            self._usage += usage
            ledger.usage += usage


class CallLedger:
    """
    Reserve before a request is made, settle when it has ended; for any number of requests at once.

    Args:
        account: Of the calls that are made at the same time, this one among them.

    Attributes:
        account: As given.
        usage: What was settled.
    """

    def __init__(self, account: Account) -> None:
        self.usage = Usage()
        self.reserve = account.reserve
        self.is_out_of_time = account.is_out_of_time
        self.is_cancelled = account.is_cancelled
        self.account = account

    def settle(self, usage: Usage, wanted: Reservation | None = None) -> None:
        """Count what a request has used, and give back what it held; of a failed one as far as it is known."""
        self.account.settle(self, usage, wanted)


def _words(reason: str) -> str:
    return reason.replace("_", " ")


Loader = Callable[[int, int], list[Document]]
"""Returns documents by number of the first and count."""


class CallContext:
    """
    What one call may know and ask; see `tools.tool.ToolContext` for the public side.

    Everything asked through it belongs to the outcome of the call's `execute` row, and is asked again if the
    process dies before that row.
    """

    def __init__(
        self,
        run: Run,
        intent: Intent,
        *,
        kit: RunResources,
        model: Model,
        load: Loader,
        connection: Any,
        deps: Any,
        ledger: CallLedger,
        timeout_s: float | None,
        traceparent: str = "",
    ) -> None:
        self.run_id = run.run_id
        self.traceparent = traceparent
        self.action = run.counters.action
        self.language = run.spec.language
        self.objective = run.spec.objective
        self.success_criteria = run.spec.success_criteria
        self.idempotency_key = intent.idempotency_key
        self.connection = connection
        self.deps = deps
        self.policy = run.spec.policy
        self.limits = run.spec.limits
        self.takes_pictures = bool(run.spec.pictures)
        self.timeout_s = timeout_s
        selection = run.memory.selection
        is_final = selection is not None and selection.origin == "format"
        self.final_format = run.spec.final_format if is_final else None
        self.resumption: Resumption | None = None
        review, refinement = run.memory.review, run.memory.refinement
        self.answer = (
            (review and review.answer) or (refinement and refinement.answer) or run.memory.answer or ""
        )
        self._texts: list[tuple[str, str]] = []
        self.staged: tuple[tuple[StoredText, StoredText], ...] = ()
        self.ledger = ledger
        self.request_ids: list[str] = []
        self.on_text: Callable[[str], None] | None = None
        self.on_notice: Callable[[Notice], None] | None = None
        self.is_unheard: Callable[[], bool] | None = None
        self._run = run
        self._kit = kit
        self._model = model
        self.streams = bool(getattr(model, "streams", False))
        self._load = load
        self._lock = threading.Lock()
        self._recording = threading.Lock()
        self._is_closed = False

    def close(self) -> None:
        """Take nothing more from the call, which was given up: its driver goes on, and the journal is the driver's alone."""
        with self._recording:
            self._is_closed = True

    def stage_texts(self, stager: Stager, given: Iterable[str]) -> None:
        """Stage the requests that the call has made and their replies, without keys and *given* secrets, for the row that tells what it came to."""
        with self._recording:
            if self._texts:
                scrub = said_scrubber(self._model, given).of_said
                texts = [(scrub(prompt), scrub(reply)) for prompt, reply in self._texts]
                self.staged = tuple(
                    (stager.stage(prompt, JSON), stager.stage(reply)) for prompt, reply in texts
                )

    def stopped(self) -> str | None:
        """Return why the call is to stop now, or None; the final formatting is beyond the time budget."""
        if self.ledger.is_cancelled():
            return "the run is cancelled"
        if self._is_closed:
            return "the call was given up"
        is_late = self.final_format is None and self.ledger.is_out_of_time()
        return "the time budget is used up" if is_late else None

    def call_apart(self, tool: Tool, arguments: Mapping[str, Any]) -> Any:
        """Call the function of *tool* in a process of its own; see `tools.process.call.call_in_process`."""
        from ...tools.process.call import call_in_process  # few tools need it

        assert tool.run is not None, "only a tool with a function is called"
        return call_in_process(tool.run, arguments, self, typed=tool.typed, once=tool.effect == "once")

    def documents(self, references: Sequence[str]) -> list[Document]:
        """Return the documents behind *references*, in order, each once."""
        found: dict[int, Document] = {}
        for reference in references:
            label, mark, position = str(reference).partition(":")[2].partition("#")
            entry = self._run.memory.labels.get(label)
            if entry is None or (mark and not _is_place(position, entry[1])):
                raise ToolError(f"{ascii(reference)[:120]} names no document of this run")
            first, count = entry
            if mark:
                first, count = first + int(position), 1
            for number, document in enumerate(self._load(first, count), first):
                found.setdefault(number, document)
        return list(found.values())

    def ask(
        self,
        request: str,
        documents: Sequence[tuple[str, str | bytes]] = (),
        *,
        instructions: str = "",
        format: str = "",
    ) -> str:
        """
        Return the model's free text on *request*, written from *documents* (name and text, or a picture's bytes).

        Raises:
            ToolError: The model cannot answer, answers nothing, or the token budget is used up.
        """
        with self._lock:
            call, wanted = self._call(TextTask(request, documents, instructions, format))
            try:
                reply = checked_reply(background_loop.ask(self._model, call))
            except BaseException as error:
                raise self._settle_failure(error, wanted) from None
            return self._record_reply(call, reply, wanted)

    async def aask(
        self,
        request: str,
        documents: Sequence[tuple[str, str | bytes]] = (),
        *,
        instructions: str = "",
        format: str = "",
    ) -> str:
        """Do the same as `ask` without blocking the event loop; for async tools."""
        call, wanted = self._call(TextTask(request, documents, instructions, format))
        try:
            reply = checked_reply(await background_loop.aask(self._model, call))
        except BaseException as error:
            raise self._settle_failure(error, wanted) from None
        return self._record_reply(call, reply, wanted)

    def _call(self, task: TextTask) -> tuple[ModelCall, Reservation]:
        if self._is_closed:
            raise _given_up()
        spec = self._run.spec
        room = spec.context_tokens * BYTES_PER_TOKEN // 2 if spec.revision > 1 else None
        messages = self._kit.prompts.text(_shortened(task, spec.limits.text_chars, room))
        number, wanted, allowed = self.ledger.reserve(prompt_bytes(messages))
        call = ModelCall(
            "text",
            shown_to(self._model, messages, lambda place: None),
            number=spec.asked_before + number,
            timeout_s=shorter(time_left_s(self._run), self.timeout_s),
            on_text=self.on_text,
            on_notice=self.on_notice,
            max_tokens=reply_limit(
                self._run.spec.limits, "text", allowed.reply, reasoning_tokens(self._model)
            ),
            tokens_left=allowed.left,
            is_cancelled=self._is_stopped,
            run_id=self.run_id,
            seq=self._run.seq,
            step=self._run.counters.step,
        )
        return call, wanted

    def _is_stopped(self) -> bool:
        if self._is_closed or (self.is_unheard is not None and self.is_unheard()):
            return True
        return self.ledger.is_cancelled()

    def _settle_failure(self, error: BaseException, wanted: Reservation) -> BaseException:
        """Return what a tool is told of a request that failed; what it used, as far as known, is settled."""
        known = error.usage if isinstance(error, ModelUnavailable) else None
        self.ledger.settle(known or NO_USAGE, wanted)
        if isinstance(error, ModelUnavailable) and error.request_id is not None:
            self.request_ids.append(error.request_id)
        if isinstance(error, CallStopped):
            return ToolError("the run is cancelled; what the model would have written is not waited for")
        if isinstance(error, ModelUnavailable | TypeError):
            return ToolError(f"the model could not write the text: {error}")
        return error

    def _record_reply(self, call: ModelCall, reply: Reply, wanted: Reservation) -> str:
        usage = reply.usage or estimated_usage(call, reply.text)
        self.ledger.settle(replace(usage, calls=1), wanted)
        with self._recording:
            if self._is_closed:
                raise _given_up()
            if (request_id := request_label(reply.request_id)) is not None:
                self.request_ids.append(request_id)
            self._texts.append((messages_text(call.messages), reply.text))
        if not reply.text.strip():
            raise ToolError("the model wrote nothing")
        if reply.finish in ("refusal", "content_filter"):
            raise ToolError("the model declined to write the text")
        if reply.finish == "length":
            raise ToolError("the model's text was cut off at its token limit; ask for a shorter one")
        return reply.text


def _given_up() -> ToolError:
    return ToolError("the call was given up; no model is asked any more")


def _is_place(position: str, count: int) -> bool:
    """Whether *position* is the number of one of *count* documents."""
    return position.isascii() and position.isdigit() and len(position) < 10 and int(position) < count


def messages_text(messages: Sequence[PromptMessage]) -> str:
    """Return messages as one JSON text, as they are stored for a tool's own requests."""
    pairs = [[message.role, message.text] for message in messages]
    try:
        return orjson.dumps(pairs).decode()
    except TypeError:  # lone surrogates in a host's own text
        return str(pairs).encode("ascii", "backslashreplace").decode()


def _shortened(task: TextTask, chars_max: int, bytes_max: int | None) -> TextTask:
    """Return *task* with its texts cut so that together they fit, the longest ones first, and its pictures behind them."""
    texts = [(name, data) for name, data in task.documents if isinstance(data, str)]
    pictures = [(name, data) for name, data in task.documents if isinstance(data, bytes)]
    return dataclasses.replace(task, documents=[*_shorten(texts, chars_max, bytes_max), *pictures])


def _shorten(texts: list[tuple[str, str]], chars_max: int, bytes_max: int | None) -> list[tuple[str, str]]:
    total = sum(len(text) for _, text in texts)
    if total > chars_max:
        allowed = chars_max // max(1, len(texts))
        short = sum(len(text) for _, text in texts if len(text) <= allowed)
        long = [text for _, text in texts if len(text) > allowed]
        allowed = max(allowed, (chars_max - short) // max(1, len(long)))
        texts = [(name, beginning(text, allowed)) for name, text in texts]
        total = sum(len(text) for _, text in texts)
    size = sum(len(text.encode("utf-8", "replace")) for _, text in texts)
    if bytes_max is None or size <= bytes_max:
        return texts
    # what is cut away may be denser than what is kept, so this may take a few rounds; each leaves less
    return _shorten(texts, min(total - 1, total * bytes_max // size), bytes_max)
