"""Payloads for a replay: read many at a time in the order of the rows, and bounded in memory however long a run is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

from ...prompts.model import PromptMessage
from ..journal.payloads import Payload
from ..journal.prompts import Known, MessagePlace
from ..journal.reader import JournalReader

AHEAD = 256
"""Payloads that one statement reads; a row has about four."""

KEPT = 1024
"""Payloads that are kept in memory; older ones, such as a system message, are read again when they are referred to."""


class PayloadWindow:
    """
    The payloads of a journal, where rows are replayed in order.

    Args:
        journal: That holds them; it is only read.

    Attributes:
        missed: Whether one of those that were returned since this was last set to False was erased.
        prompts: Those of the rows that were replayed last.
        same_prompts: By kind of request the newest of them that is derived as it was recorded: where its messages are, and they.
    """

    def __init__(self, journal: JournalReader) -> None:
        self.missed = False
        self.prompts: Known = {}
        self.same_prompts: dict[str, tuple[Sequence[MessagePlace], Sequence[PromptMessage]]] = {}
        self._journal = journal
        self._kept: dict[tuple[int, int], Payload] = {}
        self._known: dict[int, _Known] = {}

    def payload(self, run: int, n: int) -> Payload:
        """
        Return one payload.

        Raises:
            JournalDamaged: There is none, or it cannot be read.
        """
        payload = self._kept.get((run, n)) or self._read(run, n)
        self.missed = self.missed or payload.body is None
        return payload

    def _read(self, run: int, n: int) -> Payload:
        if len(self._kept) > KEPT:
            for key in list(self._kept)[: KEPT // 2]:
                del self._kept[key]
        if 0 <= n < 2**32:
            newest = next(reversed(self._kept), (run, -1))
            count = AHEAD if newest[0] != run or n > newest[1] else 1
            for payload in self._journal.payloads_at(run, n, count):
                self._kept.setdefault((run, payload.n), payload)
        return self._kept.get((run, n)) or self._journal.payload(run, n)  # of a fork one that it shares

    def begins_as_before(
        self, kind: str, places: Sequence[MessagePlace], messages: Sequence[PromptMessage]
    ) -> int:
        """Return how many messages of a prompt are those with which that of its kind in `same_prompts` begins; without its last."""
        known_places, known = self.same_prompts.get(kind, ((), ()))
        count = max(0, len(known) - 1)
        # mostly the same objects, so this is quick
        same = messages[:count] == known[:count] and places[:count] == known_places[:count]
        return count if same else 0

    def is_text(self, payload: Payload, place: Mapping[str, Any], text: str) -> bool:
        """Whether the payload that *place* refers to is *text*: by its salted digest, and its size where that is told."""
        known = self._known.get(payload.n)
        if known is None or known.payload is not payload or known.text != text:  # else compared before
            if (known := _known_text(payload, text)) is None:
                return False
            if len(self._known) > KEPT:
                self._known.clear()
            self._known[payload.n] = known
        return (
            place.get("bytes", known.size) == known.size and place.get("digest", known.own) in known.digests
        )


class _Known(NamedTuple):
    """What a payload holds: its text and the size of that in bytes, its own digest, and those that are right."""

    payload: Payload
    text: str
    size: int
    own: str
    digests: tuple[str, str]


def _known_text(payload: Payload, text: str) -> _Known | None:
    """Return what is known of a payload that holds *text*, None when it does not."""
    data = text.encode("utf-8", "surrogatepass")
    if payload.salt is None or payload.body != (data if isinstance(payload.body, bytes) else text):
        return None
    content, media_type = payload.salt + sha256(data).digest(), payload.media_type.encode()
    digests = tuple(sha256(content + kind + media_type).hexdigest() for kind in (b"T", b"B"))
    return _Known(payload, text, len(data), payload.digest.hex(), (digests[0], digests[1]))
