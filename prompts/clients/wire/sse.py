"""
Server-sent events: bytes in, events out, as the HTML standard has them and without a limit of its own on time or size.

Lines end with CR, LF or both; a byte order mark at the beginning is not part of the text; a line without a colon is a
field without a value; comments, ids and fields that nobody knows are passed over. Bytes that are no UTF-8 become the
replacement character: what then is no JSON is found by whoever reads it.
"""

from __future__ import annotations

import codecs
import re

Event = tuple[str, str]
"""Name of the event, empty without one, and its data."""

_LINE_END = re.compile("\r\n|\n|\r")


class SseReader:
    """Collects the events of one response."""

    def __init__(self) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._begun = False
        self._after_cr = False
        self._line: list[str] = []
        self._name = ""
        self._data: list[str] = []

    def feed(self, data: bytes) -> list[Event]:
        """Return the events that *data* completes."""
        return self._read(self._decode(data))

    def end(self) -> list[Event]:
        """Return the event that stood at the end without the empty line that should follow it."""
        return [*self._read(self._decode(b"", True)), *self._read("\n\n")]

    def _read(self, text: str) -> list[Event]:
        if not text:
            return []
        if not self._begun:
            self._begun, text = True, text.removeprefix("\ufeff")
        if self._after_cr:
            text = text.removeprefix("\n")
        self._after_cr = text.endswith("\r")
        *lines, rest = _LINE_END.split(text)
        events: list[Event] = []
        for line in lines:
            self._line.append(line)
            self._take("".join(self._line), events)
            self._line = []
        if rest:
            self._line.append(rest)
        return events

    def _take(self, line: str, events: list[Event]) -> None:
        """Take one whole line; an empty one completes an event that has data."""
        if not line:
            if self._data:
                events.append((self._name, "\n".join(self._data)))
            self._name, self._data = "", []
            return
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._name = value
