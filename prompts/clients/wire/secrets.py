"""
Keys do not get out: what a server sends back is searched for the keys that it was sent.

A server can repeat a key in an error, a header, an id or a reply, in the clear or in the ways in which keys travel. Every
text that leaves a model client goes through a `Scrubber`.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable
from urllib.parse import quote, quote_plus

REDACTED = "[redacted]"
LENGTH_MIN = 8
"""Shorter values are no keys but words such as ``none``, which local servers are given."""


class Scrubber:
    """
    Takes secrets out of texts.

    Args:
        secrets: The values; those shorter than `LENGTH_MIN` are left alone.
    """

    __slots__ = ("_forms", "_pattern")

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        forms = {form for secret in secrets if len(secret) >= LENGTH_MIN for form in _forms_of(secret)}
        self._forms = tuple(sorted(forms, key=lambda form: (-len(form), form)))
        self._pattern = re.compile("|".join(map(re.escape, self._forms))) if forms else None

    def __call__(self, text: str) -> str:
        """Return *text* with every secret replaced."""
        return text if self._pattern is None else self._pattern.sub(REDACTED, text)

    def held_back(self, text: str) -> int:
        """Return how many characters at the end of *text* may be the beginning of a secret."""
        longest = 0
        for form in self._forms:
            for length in range(min(len(form) - 1, len(text)), longest, -1):
                if text.endswith(form[:length]):
                    longest = length
                    break
        return longest

    def __repr__(self) -> str:
        return "Scrubber()"


class StreamScrubber:
    """A scrubber for a text that comes in pieces; a secret may be cut by them."""

    def __init__(self, scrub: Scrubber) -> None:
        self._scrub = scrub
        self._kept = ""

    def feed(self, piece: str) -> str:
        """Return what can be shown after *piece*."""
        text = self._scrub(self._kept + piece)
        end = len(text) - self._scrub.held_back(text)
        self._kept = text[end:]
        return text[:end]

    def end(self) -> str:
        """Return what was held back."""
        kept, self._kept = self._kept, ""
        return kept


def _forms_of(secret: str) -> set[str]:
    """Return the forms in which a secret travels: plain, in a URL, in JSON, in base64."""
    raw = secret.encode("utf-8", "surrogatepass")
    forms = {secret, json.dumps(secret)[1:-1], base64.b64encode(raw).decode().rstrip("=")}
    forms |= {quote(raw, safe=""), quote(raw), quote_plus(raw)}
    return {form for form in forms if len(form) >= LENGTH_MIN}
