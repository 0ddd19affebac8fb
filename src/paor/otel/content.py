"""Texts on their way out: without keys, without half characters, bounded; and the payloads that they are read from."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..fsm.journal.reader import JournalReader
from ..fsm.transfer.redaction import Redaction
from ..prompts.clients.settings import environment_secrets
from ..states.base.secrets import REDACTED, Scrubber
from ..states.run.state import Change
from .conventions import limit

CONTENT_VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""OpenTelemetry's own switch for texts in traces."""

_HEADERS = ("OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS")
KNOWN_MAX = 1000
"""Names that are kept with what they become."""

_MORE_CHARS = 4096
"""Characters beyond the limit that are searched for keys, so that none is cut into something that looks like none."""


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


def _header_secrets() -> set[str]:
    """Return the values of the headers with which traces are sent; a login there is a key like any other."""
    lines = ",".join(os.environ.get(name, "") for name in _HEADERS).split(",")
    return {value.strip() for line in lines if (value := line.partition("=")[2])}


class Cleaner:
    """
    Makes texts fit to leave.

    The keys of this process's environment are taken out of every text; what looks like a key, a token or a password also out of contents.
    """

    __slots__ = ("_known", "_rules", "_scrub")

    def __init__(self) -> None:
        self._known: dict[str, str] = {}
        self._scrub = Scrubber(environment_secrets() | _header_secrets())
        self._rules = tuple(Redaction().rules.values())

    def name(self, text: str) -> str:
        """Return a name or a code; most of them come again and again."""
        found = self._known.get(text)
        if found is None:
            found = self._scrub(whole_characters(text[: limit("name_chars")]))
            if len(self._known) >= KNOWN_MAX:
                self._known.clear()
            self._known[text] = found
        return found

    def content(self, text: str) -> str:
        """Return a text of a user, a model or a tool; a longer one is cut and says so."""
        most = limit("text_chars")
        found = self._scrub(whole_characters(text[: most + _MORE_CHARS]))
        for rule in self._rules:
            found = rule.sub(_hidden, found)
        if len(text) <= most:
            return found
        return f"{found[:most]} [{len(text) - most} more characters]"

    def data(self, value: Any) -> Any:
        """Return JSON data with every text in it cleaned."""
        if isinstance(value, str):
            return self.content(value)
        if isinstance(value, Mapping):
            return {self.content(str(name)): self.data(item) for name, item in value.items()}
        if isinstance(value, Sequence):
            return [self.data(item) for item in value]
        return value


def _hidden(found: Any) -> str:
    """Return what a rule has found with the secret in it replaced."""
    if "secret" not in found.re.groupindex:
        return REDACTED
    whole, (first, last) = found[0], found.span("secret")
    return f"{whole[: first - found.start()]}{REDACTED}{whole[last - found.start() :]}"


def whole_characters(text: str) -> str:
    """Return *text* with halves of characters replaced, which no encoding of a trace takes."""
    return text.encode("utf-8", "replace").decode()


class Texts:
    """
    The payloads of one run as texts.

    Args:
        reader: Of the journal.
        run: The run's number; payloads that a fork shares are found, too.
        cleaner: What every text goes through.
    """

    def __init__(self, reader: JournalReader, run: int, cleaner: Cleaner) -> None:
        self._reader = reader
        self._run = run
        self._cleaner = cleaner

    def body(self, place: Any) -> str | None:
        """Return the text of a reference in a row, as it is; None once erased, for bytes that are none, or for no reference."""
        number = place.get("n") if isinstance(place, Mapping) else place
        payload = self._reader.find_payload(self._run, number) if type(number) is int else None
        if payload is None or payload.body is None:
            return None
        return (
            payload.body if isinstance(payload.body, str) else payload.body.decode("utf-8", "surrogatepass")
        )

    def owner(self, run: int) -> str:
        """Return the id of the run under whose number a row of this run stands."""
        return next(part.run_id for part in self._reader.lineage(self._run) if part.run == run)

    def change(self, place: Any) -> Change:
        """Return what a row set, nothing once erased."""
        body = self.body(place)
        return Change.read(body) if body is not None else Change()

    def shown(self, place: Any) -> str | None:
        """Return the text of a reference, fit to leave."""
        body = self.body(place)
        return self._cleaner.content(body) if body is not None else None


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

    In the judgement after an action the objective comes first, and then each action with its result. In a turn an assistant's message
    that only calls has no text, and the results of its calls follow. All others count as the user's.

    Args:
        kind: Of the request.
        texts: In order; None for an erased one.
    """
    roles = ["user"] * len(texts)
    for place in range(1, len(texts)):
        if kind == "refinement" and place % 2 and place + 1 < len(texts):
            roles[place] = "assistant"
        if kind == "turn" and texts[place - 1] == "":
            roles[place - 1 : place + 1] = ["assistant", "tool"]
    return roles


def compact(data: Any) -> str:
    """Return *data* as JSON, the same text for the same data."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
