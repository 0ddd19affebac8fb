"""
One attempt as it comes in: bytes of a response in, the reply or what went wrong out; pure.

A server may ignore that it was asked for a stream, and label its body wrongly: what the body is, is seen by how it
begins when its content type does not say that it is a stream.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec.structs import replace

from .faults import Fault, one_line
from .interface import Heard, Interface, bad_body, decoded
from .secrets import Scrubber, StreamScrubber
from .sse import Event, SseReader

BYTES_MAX = 32 * 2**20
_SNIFFED = 7
_STREAM_BEGINNINGS = (b"data:", b"event:", b"id:", b"retry:", b":")


class Exchange:
    """
    What one response comes to.

    Args:
        interface: Which the server speaks.
        headers: Of the response, names in lower case.
        on_text: Told each piece of text, without secrets.
        scrub: Takes secrets out.

    Attributes:
        done: Whether nothing more needs to be read.
    """

    def __init__(
        self,
        interface: Interface,
        headers: Mapping[str, str],
        on_text: Callable[[str], None] | None,
        scrub: Scrubber,
    ) -> None:
        self.done = False
        self._interface = interface
        self._hearing = interface.hearing()
        self._type = headers.get("content-type", "").lower()
        self._streamed: bool | None = True if "event-stream" in self._type else None
        self._reader = SseReader()
        self._kept: list[bytes] = []
        self._bytes = 0
        self._problem: Fault | None = None
        self._on_text = on_text
        self._shown = StreamScrubber(scrub)

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        self._bytes += len(data)
        if self._bytes > BYTES_MAX:
            self._problem = Fault("bad_body", f"the response has more than {BYTES_MAX:,} bytes")
            self.done = True
            return
        if not self._streamed:
            self._kept.append(data)
            if self._streamed is None and self._bytes >= _SNIFFED:
                self._sniff()
            return
        self._hear(self._reader.feed(data))

    def _sniff(self) -> None:
        """Find out by its beginning whether the body is a stream."""
        begin = b"".join(self._kept)
        self._streamed = begin.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(_STREAM_BEGINNINGS)
        if self._streamed:
            self._kept = []
            self._hear(self._reader.feed(begin))

    def _hear(self, events: list[Event], *, cut: bool = False) -> None:
        """Take whole events; *cut*: the stream ended within the one that there may be."""
        for name, data in events:
            if self.done:
                return
            try:
                text = self._hearing.feed(name, data)
            except ValueError as error:
                unreadable = bad_body(f"an event is {_told(error)}")
                self._problem = (
                    Fault("cut_stream", "the stream ended within an event", True) if cut else unreadable
                )
                self.done = True
                return
            self._show(self._shown.feed(text))
            self.done = self._hearing.done

    def _show(self, text: str) -> None:
        if text and self._on_text is not None:
            self._on_text(text)

    def end(self, broken: Fault | None = None) -> Heard | Fault:
        """Return what it came to; *broken* is why the response ended before its end, if it did."""
        if self._streamed is None:
            self._sniff()
        if not self._streamed:
            return self._problem or broken or self._whole()
        if self._problem is None and broken is None and not self.done:
            self._hear(self._reader.end(), cut=True)
        result = self._hearing.end()
        if isinstance(result, Heard) and self._problem is None:
            self._show(self._shown.end())
            return result
        problem = self._problem or broken
        return replace(problem, usage=result.usage) if problem is not None else result

    def _whole(self) -> Heard | Fault:
        """Read a body that is no stream."""
        body = b"".join(self._kept)
        if not body.strip():
            return bad_body("it is empty")
        try:
            data = decoded(body.removeprefix(b"\xef\xbb\xbf"))
        except ValueError as error:
            return bad_body(f"it is {_told(error)} (content type {one_line(self._type)[:80] or 'unknown'})")
        result = self._interface.read(data)
        if isinstance(result, Heard):
            self._show(self._shown.feed(result.text) + self._shown.end())
        return result


def _told(error: ValueError) -> str:
    """Return what is wrong with a text that should be JSON, without its words."""
    return "no JSON object" if str(error) == "no JSON object" else "no JSON"
