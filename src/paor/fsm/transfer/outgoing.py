"""
Texts of a journal on their way to another program: without the secrets that are known, and without what looks like one.

A text is searched as it stands and without JSON's escapes, as an export is: in a reply that is JSON a key may follow the ``n`` of an
escaped line break. It is searched before it is cut, so no half of a key is left at the cut.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ...states.base.secrets import LENGTH_MIN, Scrubber, replaced
from ..erasure.text_search import unescaped
from .redaction import Redaction

LOOKED_AT = 16_384
"""Characters behind a cut in which a secret may go on that begins before it: more than a token in a header can have."""

REPEATED_MAX = 50
"""Secrets of a text, found by a rule, that are searched in all of it in the disguises of `Scrubber`."""

Spans = list[tuple[int, int]]


class OutgoingText:
    """
    Takes secrets out of texts.

    Args:
        secrets: Those that are known, such as the keys of this process's environment.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        self._known = Scrubber(secrets)
        self._rules = tuple(Redaction().rules.values())

    def beginning(self, text: str, most: int, *, under: str = "", rules: bool = True) -> str:
        """
        Return the first *most* characters of *text* with every secret in them replaced, also one that goes on behind them.

        Args:
            text: What is shown.
            most: Characters of it as it stands; replacements do not count.
            under: Name of the field that it is the value of: what is called a password is one.
            rules: Whether what looks like a secret is replaced, too; else only those that are known.
        """
        prefix = f"{under}: " if under else ""
        whole = f"{prefix}{text[: most + LOOKED_AT]}"
        shift, end = len(prefix), len(prefix) + min(most, len(text))
        found = self._spans(whole) if rules else self._known_spans(whole)
        spans = [(max(first, shift), last) for first, last in found if last > shift and first < end]
        end = max(end, *(last for _, last in spans)) if spans else end
        return replaced(whole[:end], spans)[shift:]

    def __call__(self, text: str) -> str:
        """Return a whole text with every secret replaced."""
        return self.beginning(text, len(text))

    def _known_spans(self, text: str) -> Spans:
        found: Spans = []
        for plain, starts in unescaped(text):
            found += [(starts[first], starts[last]) for first, last in self._known.spans(plain)]
        return found

    def _spans(self, text: str) -> Spans:
        found, secrets = self._known_spans(text), dict[str, None]()
        for plain, starts in unescaped(text):
            for rule in self._rules:
                part = "secret" if "secret" in rule.groupindex else 0
                for hit in rule.finditer(plain):
                    first, last = hit.span(part)
                    found.append((starts[first], starts[last]))
                    secrets[hit[part]] = None
        return found + _repeated(text, [secret for secret in secrets if len(secret) >= LENGTH_MIN])


def _repeated(text: str, secrets: list[str]) -> Spans:
    """Return where else in a text secrets stand that a rule has found in one place of it."""
    found = Scrubber(secrets[:REPEATED_MAX]).spans(text)
    for secret in secrets[REPEATED_MAX:]:
        found += [hit.span() for hit in re.finditer(re.escape(secret), text)]
    return found
