"""
One call of a server's tool: its rounds, what the server asks meanwhile, and how a call goes on after an answer.

The protocol has two ways to ask. Since 2026-07-28 a server *answers* that it needs input, with a state of its own; the
call goes on by making the request again with answers and state, which any process can do. Before, a server *asks back*
while the call is open; only the process that holds the session can answer, and while it lives the call stays open.

Where a call cannot go on (its session is gone, its state is not accepted any more) it is made anew, and the server's
questions are answered as they were, in order. That may repeat an effect, so a ``once`` call is in doubt instead, unless
the host has said that the server's tools ask first, or somebody has decided that it may be tried again.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ...states.base.errors import AnswerNeeded, EffectUnknown, NotStarted, TimedOut, ToolError
from ...states.records.actions import Effect
from ..tool import ToolContext
from .http import FATE, LOST, REFUSED
from .naming import Listed, one_line
from .results import Redactor
from .session import Session, roots_of
from .settings import McpSettings
from .tasks import ask, pause_s
from .transcript import Dialogue, digest_of, plain_of, typed_responses
from .wire import put_aside, structured_of

ROUNDS_MAX = 10
"""Rounds of one call without a person in between. Source: the default of the ``mcp`` package's own client."""

QUESTION_BYTES = 1_000_000
"""Most that a question with its schema and the server's own state may have: it is in the journal, and a person reads it."""

_SAMPLES_MAX = 10
_LISTING_S = 10.0
"""Seconds in which a server may say again what it has, once a call has come back."""
_META_KEY = "paor/idempotencyKey"
_NOTHING_SENT = ("invalid_request_state",)


class CallRefused(Exception):
    """The server turned the request away unread: nothing was done."""


class StateRefused(CallRefused):
    """The server does not take its own state back: its key or its time is over."""


@dataclass(frozen=True)
class _ServerRequest:
    """What a task needs, as a request of the server."""

    method: str
    params: Any


@dataclass(eq=False)
class Open(Exception):
    """
    A question of the old protocol: the call stays open behind it.

    Attributes:
        session: Its own until it is answered.
        call: Whose question it is.
        task: The open request.
        answer: To be given to the server.
        question: As the run waits for it.
    """

    session: Session
    call: McpCall
    task: asyncio.Task[Any]
    answer: asyncio.Future[Any]
    question: AnswerNeeded


class McpCall:
    """
    One call of one tool; lives on the event loop of its server.

    Args:
        settings: Of the server.
        redactor: For what a person is asked.
        listed: The tool, as the server listed it to the engine.
        arguments: Checked already.
        effect: The effect class it was declared with.
        context: Of the run.

    Attributes:
        notes: What is to be said of its result.
    """

    def __init__(
        self,
        settings: McpSettings,
        redactor: Redactor,
        listed: Listed,
        arguments: dict[str, Any],
        effect: Effect,
        context: ToolContext,
    ) -> None:
        self.name = listed.name
        self._schema = listed.schema
        self.context = context
        self._settings = settings
        self._redactor = redactor
        self._arguments = arguments
        self._effect = effect
        self._asked: asyncio.Queue[tuple[Any, asyncio.Future[Any]]] = asyncio.Queue()
        self._samples = 0
        self.dialogue = Dialogue()
        self.notes: list[str] = []
        self._again: list[tuple[str, dict[str, Any]]] = []

    # -- what the server asks while the call is open ---------------------------------------------------------------

    async def elicited(self, params: Any) -> Any:
        """Answer a question of the old protocol: from before where the call is made anew, else when somebody does."""
        from mcp_types import ElicitResult

        known = self._earlier_answer(self._question_record(params))
        if known is not None:
            return ElicitResult.model_validate(known)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._asked.put_nowait((params, answer))
        return await answer

    async def sampled(self, params: Any) -> Any:
        """Have the run's model answer, recorded and paid for as the run's own request."""
        from mcp_types import CreateMessageRequestParams, CreateMessageResult, TextContent

        params = CreateMessageRequestParams.model_validate(params)
        self._samples += 1
        if self._samples > _SAMPLES_MAX:
            raise ToolError(f"the server asks the model more than {_SAMPLES_MAX} times in one call")
        parts = [
            f"{message.role}: {block.text}"
            for message in params.messages
            for block in message.content_as_list
            if block.type == "text"
        ]
        text = await asyncio.to_thread(
            self.context.ask, "\n\n".join(parts), (), instructions=params.system_prompt or ""
        )
        return CreateMessageResult(
            role="assistant", content=TextContent(text=text), model="the run's model", stop_reason="endTurn"
        )

    # -- making it -------------------------------------------------------------------------------------------------

    async def begin(self, session: Session, answers: Sequence[tuple[str, dict[str, Any]]] = ()) -> Any:
        """Make the call; *answers* are given again to the questions they were given to."""
        self.dialogue, self._again = Dialogue(answers=list(answers)), list(answers)
        if await session.schema_now(self.name) not in (None, self._schema):
            words = f"the MCP server {self._settings.shown} has changed the parameters of {self.name}"
            raise NotStarted(f"{words} since it listed it; refresh() lists its tools for the next engine")
        return await self._rounds(session, None, None)

    async def go_on(self, session: Session) -> Any:
        """Make the next round of a call in rounds, with the answers of this one; of a task look for its result."""
        dialogue = self.dialogue
        if dialogue.pending:
            raise self._question()
        if dialogue.way == "task":
            return await self._polled(session)
        responses = None if dialogue.way == "url" else dialogue.responses
        return await self._rounds(session, responses, dialogue.request_state)

    def answered(self, answer: dict[str, Any]) -> None:
        """Take the answer to the question that is first."""
        dialogue = self.dialogue
        if not dialogue.pending:
            return
        key, params = dialogue.pending.pop(0)
        dialogue.responses[key] = answer
        dialogue.answers.append((digest_of(params), answer))

    async def _rounds(
        self, session: Session, responses: dict[str, Any] | None, request_state: str | None
    ) -> Any:
        for number in range(ROUNDS_MAX):
            result = await self._request(session, responses, request_state)
            if result.result_type == "task":
                self.dialogue = Dialogue("task", result.task_id, answers=self.dialogue.answers)
                if self.context.idempotency_key:  # of a run: its handle is journaled first
                    raise self.unfinished({})
                return await self._polled(session)
            if result.result_type != "input_required":
                return result
            request_state, responses = result.request_state, None
            self.dialogue = Dialogue("rounds", request_state, answers=self.dialogue.answers)
            if not result.input_requests:
                await asyncio.sleep(min(0.05 * 2**number, 1.0))
                continue
            responses = await self._inputs(result.input_requests)
        raise ToolError(f"the server asks again after {ROUNDS_MAX} rounds")

    # -- as a task of the server -----------------------------------------------------------------------------------

    async def _polled(self, session: Session) -> Any:
        """
        Return the result of the call's task, looked for at least once and until `McpSettings.task_s` is over.

        Raises:
            AnswerNeeded: It is not there yet, or cannot be asked for now. Or the task needs an answer itself.
            ToolError, EffectUnknown: The task failed, or its server knows it no more.
        """
        dialogue, loop = self.dialogue, asyncio.get_running_loop()
        until, told = loop.time() + self._settings.task_s, {}
        while True:
            try:
                if dialogue.responses:
                    await self._of_task(session, "tasks/update", inputResponses=dialogue.responses)
                    dialogue.responses = {}
                told = await self._of_task(session, "tasks/get")
            except (TimedOut, CallRefused):
                raise self.unfinished(told) from None
            status, answered = told.get("status"), {digest for digest, _ in dialogue.answers}
            if status == "completed":
                return await self._of_completed(session, told)
            if status in ("failed", "cancelled"):
                error = told.get("error")
                words = told.get("statusMessage") or (error.get("message") if isinstance(error, dict) else "")
                reason = self._redactor.text(one_line(str(words or ""), 300))
                raise ToolError(f"the task of {self.name} {status}" + (f": {reason}" if reason else ""))
            if status == "input_required":
                requests = {
                    key: _ServerRequest(asked["method"], asked.get("params") or {})
                    for key, asked in (told.get("inputRequests") or {}).items()
                    if isinstance(asked, dict)
                    and isinstance(asked.get("method"), str)
                    and f"{key}" not in answered
                }
                dialogue.answers += [(key, {}) for key in requests]  # asked once, however often it is listed
                if requests:
                    await self._inputs(requests)
                    continue
            elif status != "working":
                raise self.lost(
                    f"breaks the protocol: the task of {self.name} is {one_line(str(status), 40)!a}"
                )
            if loop.time() >= until:
                raise self.unfinished(told)
            await asyncio.sleep(min(pause_s(told), max(0.02, until - loop.time())))

    async def _of_task(self, session: Session, method: str, **params: Any) -> dict[str, Any]:
        """
        Return what the server says of the call's task.

        Raises:
            EffectUnknown, ToolError: It does not know the task.
        """
        handle = str(self.dialogue.request_state)
        try:
            return await asyncio.wait_for(ask(session, method, handle, **params), self._settings.call_s)
        except TimeoutError:
            raise TimedOut(f"the MCP server {self._settings.shown} did not answer {method}") from None
        except Exception as error:  # noqa: BLE001 - of a foreign package over a foreign program
            from mcp_types import INVALID_PARAMS

            if getattr(error, "code", None) == INVALID_PARAMS:
                words = self._redactor.text(one_line(str(error), 300))
                raise self.lost(f"knows the task of {self.name} no more ({words})") from None
            raise CallRefused(type(error).__name__) from None

    async def _of_completed(self, session: Session, told: dict[str, Any]) -> Any:
        """Return the result that a task has left."""
        from mcp_types import CallToolResult

        found = told.get("result")
        try:
            if isinstance(found, dict):
                put_aside(found)
            result = CallToolResult.model_validate(found, by_name=False)
        except ValueError:
            raise self.lost(f"breaks the protocol in the result of the task of {self.name}") from None
        await self._note_misfit(session, result)
        return result

    def unfinished(self, told: dict[str, Any]) -> AnswerNeeded:
        """Return what a run notes of a task at first, and then the question with which it waits: whoever answers looks again."""
        said = self._redactor.text(one_line(str(told.get("statusMessage") or ""), 300))
        words = f"The MCP server {self._settings.shown} works on {self.name}" + (f" ({said})" if said else "")
        state = self._redactor.json(self.dialogue.state()) | {"requestState": self.dialogue.request_state}
        return AnswerNeeded(f"{words}. Answer with {{}} to look for its result.", {}, state, looks_only=True)

    async def give_up(self, session: Session) -> Any:
        """Tell the server that nobody waits for the call's task any more."""
        with suppress(Exception):
            await self._of_task(session, "tasks/cancel")
        raise self.lost(f"was told to cancel the task of {self.name}; it may have done a part of it")

    async def _inputs(self, requests: dict[str, Any]) -> dict[str, Any]:
        """
        Return what the server needs for the next round.

        Raises:
            AnswerNeeded: A person has to answer first.
            ToolError: It needs what it is not given.
        """
        dialogue = self.dialogue
        for key, request in requests.items():
            if request.method == "elicitation/create":
                params = self._question_record(request.params)
                known = self._earlier_answer(params)
                if known is None:
                    dialogue.pending.append((key, params))
                else:
                    dialogue.responses[key] = known
            elif request.method == "sampling/createMessage" and self._settings.sampling:
                dialogue.responses[key] = plain_of(await self.sampled(request.params))
            elif request.method == "roots/list" and self._settings.roots:
                dialogue.responses[key] = plain_of(roots_of(self._settings))
            else:
                what = "a model (sampling)" if request.method.startswith("sampling") else "folders (roots)"
                raise ToolError(f"the server asks for {what}, which it is not given")
        if dialogue.pending:
            raise self._question()
        return dialogue.responses

    def _question_record(self, params: Any) -> dict[str, Any]:
        """Return a question as it may stand in a journal."""
        said: dict[str, Any] = self._redactor.json(plain_of(params))
        return said

    def _earlier_answer(self, params: dict[str, Any]) -> dict[str, Any] | None:
        """Return the answer that this question had before, once."""
        digest = digest_of(params)
        for place, (asked, answer) in enumerate(self._again):
            if asked == digest:
                del self._again[place]
                return answer
        return None

    def _question(self) -> AnswerNeeded:
        """Return the first pending question, as a run waits for it."""
        _, params = self.dialogue.pending[0]
        message, schema = (
            one_line(str(params.get("message") or ""), 2000),
            params.get("requestedSchema") or {},
        )
        if params.get("mode") == "url":
            url = one_line(str(params.get("url")), 2000)
            message, schema = f"{message} Visit {url}, then accept with an empty answer.", {}
        asked = f"The MCP server {self._settings.shown}, for {self.name}, asks: {message}"
        state = self._redactor.json(self.dialogue.state())
        if len(json.dumps(state)) > QUESTION_BYTES:
            raise self.lost(f"asks with more than {QUESTION_BYTES:,} bytes in the middle of {self.name}")
        return AnswerNeeded(asked, schema, state, looks_only=self.dialogue.way == "task")

    async def _request(
        self, session: Session, responses: dict[str, Any] | None, request_state: str | None
    ) -> Any:
        """Send one round and wait for what it comes to."""
        key = self.context.idempotency_key
        meta = {_META_KEY: key} if key and self._effect != "read" else {}
        if self.context.traceparent:
            meta["traceparent"] = self.context.traceparent
        task = asyncio.create_task(
            session.client.session.call_tool(
                self.name,
                self._arguments,
                input_responses=typed_responses(responses),
                request_state=request_state,
                meta=meta or None,
                allow_input_required=True,
                allow_claimed=True,
            )
        )
        result = await self.settle(session, task)
        await self._note_misfit(session, result)
        return result

    async def _note_misfit(self, session: Session, result: Any) -> None:
        """Note where a result does not fit the tool's own schema: the call was made, and its result is kept."""
        if getattr(result, "is_error", True):
            return
        found, structured = structured_of(result)
        if found and structured is not None:
            result = result.model_copy(update={"structured_content": structured})
        try:
            async with asyncio.timeout(_LISTING_S):  # a tool that is not known any more is looked up
                await session.fits(self.name, result)
        except Exception as error:  # noqa: BLE001 - of a foreign package over a foreign program
            words = one_line(str(error), 300) or type(error).__name__
            self.notes.append(
                f"{self.name} was called, and returned what its own schema does not allow: {words}"
            )

    async def settle(self, session: Session, task: asyncio.Task[Any]) -> Any:
        """
        Wait for an open request; the time runs from now, since a person may just have answered.

        Raises:
            AnswerNeeded, ToolError, EffectUnknown, TimedOut, Refused: It came to that.
        """
        asked = asyncio.create_task(self._asked.get())
        try:
            done, _ = await asyncio.wait(
                {task, asked}, timeout=self._settings.call_s, return_when=asyncio.FIRST_COMPLETED
            )
            if task in done:
                return task.result()
            if asked in done:
                params, answer = asked.result()
                self.dialogue = Dialogue(
                    "open", None, [("", self._question_record(params))], answers=self.dialogue.answers
                )
                try:
                    question = self._question()
                except ToolError:
                    task.cancel()
                    raise
                raise Open(session, self, task, answer, question)
            task.cancel()
            session.stalled = not self._settings.is_url
            words = f"did not answer {self.name} within {self._settings.call_s:g} seconds"
            raise TimedOut(f"the MCP server {self._settings.shown} {words}")
        except (AnswerNeeded, ToolError, Open):
            raise
        except (
            asyncio.CancelledError
        ):  # the call was given up, so that nobody knows what the server still does
            task.cancel()
            session.stalled = not self._settings.is_url
            raise
        except Exception as error:  # noqa: BLE001 - of a foreign package over a foreign program
            raise await self._error_of(session, error) from None
        finally:
            asked.cancel()

    async def _error_of(self, session: Session, error: Exception) -> Exception:
        """Return what an exception of the client means for the call."""
        from mcp_types import CONNECTION_CLOSED, INVALID_PARAMS, PARSE_ERROR, URL_ELICITATION_REQUIRED

        code, data = getattr(error, "code", None), getattr(error, "data", None)
        data = data if isinstance(data, dict) else {}
        words = self._redactor.text(one_line(str(error), 300)) or type(error).__name__
        if code == INVALID_PARAMS and data.get("reason") in _NOTHING_SENT:
            return StateRefused(words)
        if data.get(FATE) == REFUSED:
            return CallRefused(words)
        if code == URL_ELICITATION_REQUIRED and data.get("elicitations"):
            pending = [
                ("", self._redactor.json(item)) for item in data["elicitations"] if isinstance(item, dict)
            ]
            self.dialogue = Dialogue("url", None, pending[:ROUNDS_MAX], answers=self.dialogue.answers)
            if pending and len(self.dialogue.answers) < ROUNDS_MAX:
                return self._question()
        if code == CONNECTION_CLOSED and (session.ended or self._settings.is_url):
            await session.settle()
            told = self._redactor.text(one_line(session.told, 300)) or (words if "SSE" in words else "")
            return self.lost(f"was gone before it answered {self.name}" + (f" ({told})" if told else ""))
        if data.get(FATE) == LOST or code == PARSE_ERROR:
            return self.lost(f"breaks the protocol in its answer to {self.name}: {words}")
        if code is not None:
            return ToolError(f"the MCP server {self._settings.shown} refused {self.name}: {words}")
        return self.lost(f"breaks the protocol in its answer to {self.name} ({type(error).__name__})")

    def lost(self, what: str) -> ToolError:
        """Return the error for a call of which nobody knows what it did; of a ``once`` one it stays in doubt."""
        words = f"the MCP server {self._settings.shown} {what}"
        return EffectUnknown(words) if self._effect == "once" else ToolError(words)

    @property
    def may_repeat(self) -> bool:
        """Whether the call may be made anew after it had begun."""
        resumption = self.context.resumption
        again = resumption is not None and resumption.again
        return self._effect != "once" or self._settings.asks_first or again
