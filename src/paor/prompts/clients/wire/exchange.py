"""
One attempt as it comes in: the events of the SDK's stream or a whole body in, the reply or what went wrong out; pure.

A server may ignore that it was asked for a stream, and label its body wrongly. So a body is read as a stream when one was
asked for or its content type says that it is one, and one without any event is then read as a whole.

A text that has begun to say the same again and again, as small models do: found while it comes in; pure.

What counts is exact, so that a table of like rows, a quoted clause or a list with one new word each is none: at least
1,000 characters that the text ends with, and the same as many directly before them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from ....states.base.secrets import Scrubber, StreamScrubber
from .faults import AttemptFault, one_line
from .interface import MALFORMED, Interface, ParsedReply, bad_body, decoded
from .pieces import joined

REPEATED_CHARS = 1_000
"""How many characters a text has to say again; a shorter passage that comes again is one while it fills as many."""


def said_once(text: str) -> int | None:
    """Return after how many characters *text* only repeats what stands directly before, None if it does not."""
    tail = text[-REPEATED_CHARS:]
    before = text.rfind(tail, 0, -1) if len(tail) == REPEATED_CHARS else -1
    period = len(text) - REPEATED_CHARS - before
    if before < 0 or text[-period:] != text[-2 * period : -period]:
        return None
    begin = len(text) - 2 * period
    while begin and text[begin - 1] == text[begin - 1 + period]:
        begin -= 1
    return begin + period


CHARS_PER_TOKEN_MAX = 8
"""More characters for a token than a reply has on average, whatever its language: one that is longer goes beyond its limit."""
_LOOK_CHARS = 500
"""After how many further characters it is looked whether a text repeats itself."""
_MENDED = ("cut_stream", "timeout")
"""How a stream may break without loss once the reason of the reply's end has come."""


class Exchange:
    """
    One response as it comes in.

    Args:
        interface: Which the server speaks.
        on_text: Called with each piece of text, without secrets.
        scrub: Takes secrets out.
        max_tokens: Most tokens of the reply, as the server was told; a text that is certainly longer is cut off.

    Attributes:
        begun: Whether an event has come.
        request_id, content_type: As the head of the response has them.
    """

    def __init__(
        self, interface: Interface, on_text: Callable[[str], None] | None, scrub: Scrubber, max_tokens: int
    ) -> None:
        self.begun = False
        self.request_id: str | None = None
        self.content_type = ""
        self._interface = interface
        self._reader = interface.reader()
        self._on_text = on_text
        self._shown = StreamScrubber(scrub)
        self._texts: list[str] = []
        self._chars_left = max_tokens * CHARS_PER_TOKEN_MAX
        self._unlooked = 0
        self._once: int | None = None
        self._half = ""

    @property
    def is_events(self) -> bool:
        """Whether the server says that it streams."""
        return "event-stream" in self.content_type

    def take(self, event: Any) -> bool:
        """Take the next event of the stream and return whether it was the last one; raises `MALFORMED`."""
        self.begun = True
        text = joined((self._half, self._reader.add(event)))
        self._half = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""  # the other half may follow
        text = text.removesuffix(self._half)
        if text:
            self._texts.append(text[: self._chars_left])
            self._chars_left -= len(text)
            self._show(self._shown.feed(self._texts[-1]))
            self._look(len(text))
        return self._reader.done or self._chars_left < 0 or self._once is not None

    def _look(self, chars: int) -> None:
        """Look now and then whether the text only repeats itself by now."""
        self._unlooked += chars
        if self._unlooked >= _LOOK_CHARS:
            self._unlooked = 0
            self._once = said_once("".join(self._texts))

    def _show(self, text: str) -> None:
        if text and self._on_text is not None:
            self._on_text(text)

    def end(self, broken: AttemptFault | None, *, is_done: bool) -> ParsedReply | AttemptFault:
        """
        Return what the events so far make.

        Args:
            broken: Why there were no more, if that was before the last one.
            is_done: Whether the server has said that there are no more.
        """
        self._reader.done = self._reader.done or is_done
        if self._chars_left < 0:  # the server has not kept to the limit that it was told
            self._show(self._shown.end())
            return ParsedReply("".join(self._texts), "length", self._reader.usage)
        if self._once is not None:
            self._show(self._shown.end())
            return ParsedReply("".join(self._texts)[: self._once], "repetition", self._reader.usage)
        try:
            result = self._reader.end()
            usage = self._reader.usage
        except MALFORMED:
            return bad_body("its events are not as its interface has them")
        mended = broken is None or (broken.code in _MENDED and not broken.status)
        if isinstance(result, ParsedReply) and mended:
            self._show(self._shown.feed(self._half) + self._shown.end())
            return result
        return result if broken is None else replace(broken, usage=usage)

    def whole(self, body: bytes) -> ParsedReply | AttemptFault:
        """Return what a body that was no stream says."""
        if not body.strip():
            return bad_body("it is empty, or neither JSON nor a stream")
        try:
            data = decoded(body)
        except ValueError as error:
            what = "no JSON object" if str(error) == "no JSON object" else "no JSON"
            return bad_body(f"it is {what} (content type {one_line(self.content_type)[:80] or 'unknown'})")
        try:
            result = self._reader.whole(self._interface.sdk_type(self._interface.reply).construct(**data))
            if isinstance(result, ParsedReply) and (parts := _as_sent(data, result.parts)) is not None:
                result = replace(result, parts=parts)
        except MALFORMED:
            return bad_body("it is not as its interface has it")
        if isinstance(result, ParsedReply) and result.finish != "tool_calls":
            if len(result.text) > self._chars_left:
                result = replace(
                    result, text=result.text[: self._chars_left], finish="length", parts=(), is_paused=False
                )
            self._show(self._shown.feed(result.text) + self._shown.end())
        return result


def _as_sent(data: Mapping[str, Any], parts: tuple[dict[str, Any], ...]) -> tuple[dict[str, Any], ...] | None:
    """Return *parts* with their members in the order in which the server sent them, which the SDK does not keep; None without them."""
    choices = data.get("choices")
    message = choices[0].get("message") if choices else None
    for sent in (data.get("content"), data.get("output"), [message]):
        if parts and isinstance(sent, list) and sent == list(parts):
            return tuple(sent)
    return None
