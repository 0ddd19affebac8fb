"""
Secrets that must not leave with an export: rules that recognise them, and what has to be left out because of them.

A body cannot be changed without breaking its digest, so a payload in which a rule finds something is exported as
erased, with the names of the rules in the record of the erasure. So is every other payload in which `EXCERPT`
characters in a row of a found secret stand, such as a prompt that was cut in the middle of it.

Texts of a journal on their way to another program: without the secrets that are known, and without what looks like one.

A text is searched as it stands and without JSON's escapes, as an export is: in a reply that is JSON a key may follow the ``n`` of an
escaped line break. It is searched before it is cut, so no half of a key is left at the cut.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ...states.base.errors import UsageError
from ...states.base.secrets import LENGTH_MIN, Scrubber, replaced
from .erasure_plan import ErasurePlan
from .text_search import plain, unescaped

if TYPE_CHECKING:
    from ..journal.reader import JournalReader

EXCERPT = 8
"""Characters in a row of a secret, blanks aside, that give too much of it away."""

NAME = re.compile(r"[a-z][a-z0-9_-]{0,39}")
RULES_MAX = 200
PATTERN_CHARS = 2000

DEFAULT_RULES: Mapping[str, str] = {
    "private_key": r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?:[\s\S]*?-----END [A-Z ]*PRIVATE KEY-----|[\s\S]*)",
    "provider_key": r"\bsk-(?:ant-|proj-|svcacct-)?[A-Za-z0-9_-]{16,}",
    "github_token": r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,})",
    "gitlab_token": r"\bglpat-[A-Za-z0-9_-]{16,}",
    "aws_key": r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",
    "google_key": r"\bAIza[0-9A-Za-z_-]{30,}",
    "slack_token": r"\bxox[abeoprs]-[0-9A-Za-z-]{10,}",
    "stripe_key": r"\b[rs]k_(?:live|test)_[0-9A-Za-z]{16,}",
    "json_web_token": r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*",
    "bearer_token": r"(?i)\bbearer\s+(?P<secret>[A-Za-z0-9._~+/-]{16,}=*)",
    "basic_login": r"(?i)\bbasic\s+(?P<secret>[A-Za-z0-9+/]{16,}=*)",
    "url_password": r"(?i)\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@\"']{1,100}:(?P<secret>[^\s/@\"']{3,200})@",
    "assigned_secret": (
        r"(?i)(?<![a-z])(?:password|passwd|passphrase|secret|client[_-]?secret|api[_-]?key|access[_-]?key|auth[_-]?token"
        r"|access[_-]?token)\"?'?\s*[:=]\s*[\"']?(?P<secret>[^\s\"',;{}\[\]]{8,})"
    ),
}
"""
What looks like a key, a token or a password; by name, as records of erasures show it.

Where a pattern has a group ``secret``, that is what other payloads are searched for; else all that it fits.
"""


class Redaction:
    """
    Rules by name.

    Args:
        rules: Your own rules; they are added to the shipped ones, or replace one of the same name.

    Raises:
        UsageError: A name or a pattern that cannot be used.
    """

    def __init__(self, rules: Mapping[str, str] | None = None) -> None:
        given = dict(rules or {})
        if len(given) > RULES_MAX:
            raise UsageError(f"{len(given)} rules of redaction; at most {RULES_MAX} are allowed")
        self.rules: dict[str, re.Pattern[str]] = {}
        for name, pattern in {**DEFAULT_RULES, **given}.items():
            if not isinstance(name, str) or not NAME.fullmatch(name):
                raise UsageError(
                    f"rule {name!a:.60}: a name is of a-z, 0-9, _ and -, and begins with a letter"
                )
            if not isinstance(pattern, str) or not 0 < len(pattern) <= PATTERN_CHARS:
                raise UsageError(f"rule {name}: a pattern is a text of at most {PATTERN_CHARS} characters")
            try:
                self.rules[name] = re.compile(pattern)
            except (re.error, RecursionError, OverflowError) as error:
                raise UsageError(f"rule {name}: is no regular expression ({error})") from None
            if self.rules[name].search(""):
                raise UsageError(f"rule {name}: fits an empty text, and so everything")

    def found_in(self, body: str | bytes) -> dict[str, list[str]]:
        """Return what each rule finds in a body, as it stands and without JSON's escapes."""
        text = body if isinstance(body, str) else body.decode("utf-8", "replace")
        texts = dict.fromkeys((text, plain(body)))
        found = {}
        for name, pattern in self.rules.items():
            part = "secret" if "secret" in pattern.groupindex else 0
            hits = [hit[part] for text in texts for hit in pattern.finditer(text) if hit[part]]
            if hits:
                found[name] = hits
        return found

    def plan(self, journal: JournalReader, run: int) -> tuple[set[int], list[str]]:
        """Return the payloads of a run that are not to leave, and the names of the rules that say so."""
        plan, names = ErasurePlan(journal, [run], EXCERPT), set()
        for payload in journal.iterate_payloads(run, 200):
            texts = [payload.media_type] if payload.body is None else [payload.body, payload.media_type]
            for text in texts:
                for name, hits in self.found_in(text).items():
                    names.add(name)
                    plan.search(hits)
                    plan.doom(run, [payload.n])
        plan.settle()
        return plan.doomed.get(run, set()), sorted(names)


def redaction_of(
    given: Redaction | Mapping[str, str] | Iterable[tuple[str, str]] | bool | None,
) -> Redaction | None:
    """
    Return rules in any of their forms; True: the shipped ones, None and False: nothing is left out.

    Raises:
        UsageError: None of these forms.
    """
    if given is None or given is False:
        return None
    if isinstance(given, Redaction):
        return given
    if given is True:
        return Redaction()
    try:
        return Redaction(dict(given))
    except (TypeError, ValueError) as error:
        if isinstance(error, UsageError):
            raise
        raise UsageError("redact takes True, or rules as {name: regular expression}") from None


def rules_of_text(text: str, where: str) -> dict[str, str]:
    """
    Return the rules of a file: one a line, ``name: regular expression``; ``#`` begins a comment line.

    Raises:
        UsageError: A line of another form.
    """
    rules: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, mark, pattern = line.partition(":")
        if not mark or not NAME.fullmatch(name.strip()) or not pattern.strip():
            raise UsageError(f"{where}, line {number}: expected NAME: REGULAR EXPRESSION")
        if name.strip() in rules:
            raise UsageError(f"{where}, line {number}: the rule {name.strip()} stands twice")
        rules[name.strip()] = pattern.strip()
    return rules


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
        for readable, starts in unescaped(text):
            found += [(starts[first], starts[last]) for first, last in self._known.spans(readable)]
        return found

    def _spans(self, text: str) -> Spans:
        found, secrets = self._known_spans(text), dict[str, None]()
        for readable, starts in unescaped(text):
            for rule in self._rules:
                part = "secret" if "secret" in rule.groupindex else 0
                for hit in rule.finditer(readable):
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
