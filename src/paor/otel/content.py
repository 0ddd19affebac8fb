"""Texts on their way out: without keys, without half characters, bounded; and the payloads that they are read from."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from ..fsm.journal.prompts import EarlierRows
from ..fsm.journal.reader import JournalReader
from ..fsm.journal.rows import Transition
from ..fsm.transfer.redaction import OutgoingText
from ..prompts.clients.settings import outgoing_secrets
from .span import limit

CONTENT_VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""OpenTelemetry's own switch for texts in traces."""

KNOWN_MAX = 1000
"""Names that are kept with what they become."""


def content_wanted(given: bool | None) -> bool:
    """Return whether texts are exported: as *given*, else as the environment says; no by default."""
    if given is not None:
        return given
    return os.environ.get(CONTENT_VARIABLE, "").strip().lower() in (
        "true",
        "1",
        "span_only",
        "span_and_event",
    )


class Cleaner:
    """
    Makes texts fit to leave.

    The keys of this process's environment are taken out of every text; what looks like a key, a token or a password also out of contents.
    """

    __slots__ = ("_known", "_outgoing")

    def __init__(self) -> None:
        self._known: dict[str, str] = {}
        self._outgoing = OutgoingText(outgoing_secrets())

    def name(self, text: str) -> str:
        """Return a name or a code; most of them come again and again."""
        most = limit("name_chars")
        found = self._known.get(text)
        if found is None:
            found = whole_characters(self._outgoing.beginning(text, most, rules=False))
            if len(self._known) >= KNOWN_MAX:
                self._known.clear()
            if len(text) <= most:
                self._known[text] = found
        return found

    def content(self, text: str, *, under: str = "") -> str:
        """
        Return a text of a user, a model or a tool; a longer one is cut and says so.

        Args:
            text: As it stands in the journal.
            under: Name of the field that it is the value of.
        """
        most = limit("text_chars")
        found = whole_characters(self._outgoing.beginning(text, most, under=under))
        return found if len(text) <= most else f"{found} [{len(text) - most} more characters]"

    def data(self, value: Any, *, under: str = "") -> Any:
        """Return JSON data with every text in it cleaned, and a number that stands in the place of a secret."""
        if isinstance(value, str):
            return self.content(value, under=under)
        if isinstance(value, Mapping):
            return {self.content(str(name)): self.data(item, under=str(name)) for name, item in value.items()}
        if isinstance(value, Sequence):
            return [self.data(item, under=under) for item in value]
        if value is None or isinstance(value, bool):
            return value
        told = str(value)
        return value if (found := self.content(told, under=under)) == told else found


def whole_characters(text: str) -> str:
    """Return *text* with halves of characters replaced, which no encoding of a trace takes."""
    return text.encode("utf-8", "replace").decode()


class PayloadTexts:
    """
    The payloads of one run as texts.

    Args:
        reader: Of the journal.
        run: The run's number; payloads that a fork shares are found, too.
        cleaner: What every text goes through.
    """

    def __init__(self, reader: JournalReader, run: int, cleaner: Cleaner) -> None:
        self.reader = reader
        self._run = run
        self._cleaner = cleaner

    def body(self, place: Any) -> str | None:
        """Return the text of a reference in a row, as it is; None once erased, for bytes that are none, or for no reference."""
        body = self._stored(place)
        if not isinstance(body, bytes):
            return body
        with suppress(UnicodeDecodeError):
            return body.decode("utf-8", "surrogatepass")
        return None

    def _stored(self, place: Any) -> str | bytes | None:
        number = place.get("n") if isinstance(place, Mapping) else place
        payload = self.reader.find_payload(self._run, number) if type(number) is int else None
        return payload.body if payload is not None else None

    def rows(self, row: Transition) -> EarlierRows:
        """Return the rows before *row*, for a prompt that begins as one of theirs."""
        return EarlierRows(self.reader, self.owner(row.run))

    def owner(self, run: int) -> str:
        """Return the id of the run under whose number a row of this run stands."""
        return next(part.run_id for part in self.reader.lineage(self._run) if part.run == run)

    def shown(self, place: Any) -> str | None:
        """Return the text of a reference, fit to leave; of bytes that are none only how many there are."""
        body = self.body(place)
        if body is not None:
            return self._cleaner.content(body)
        stored = self._stored(place)
        return None if stored is None else f"[{len(stored)} bytes that are no text]"


def messages(said: Iterable[tuple[str, str]], finish: str | None = None) -> str | None:
    """
    Return messages as JSON in the form of OpenTelemetry's conventions; None without any.

    Args:
        said: Role and text of each.
        finish: Why the last one ended, of a reply.
    """
    found: list[dict[str, Any]] = [
        {"role": role, "parts": [{"type": "text", "content": text}]} for role, text in said
    ]
    if found and finish is not None:
        found[-1]["finish_reason"] = finish
    return compact(found) if found else None


def roles_of(kind: str, texts: Sequence[str | None]) -> list[str]:
    """
    Return who said each message of a prompt after the system message, as far as the journal tells, which has texts only.

    In the judgement after an action the objective comes first, and then each action with its result. All others count as the user's;
    of a conversation the row itself says it.

    Args:
        kind: Of the request.
        texts: In order; None for an erased one.
    """
    roles = ["user"] * len(texts)
    for place in range(1, len(texts)):
        if kind == "refinement" and place % 2 and place + 1 < len(texts):
            roles[place] = "assistant"
    return roles


def compact(data: Any) -> str:
    """Return *data* as JSON, the same text for the same data."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
