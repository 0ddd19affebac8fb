"""
Secrets that must not leave with an export: rules that recognise them, and what has to be left out because of them.

A body cannot be changed without breaking its digest, so a payload in which a rule finds something is exported as
erased, with the names of the rules in the record of the erasure. So is every other payload in which `EXCERPT`
characters in a row of a found secret stand, such as a prompt that was cut in the middle of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ...states.base.errors import UsageError
from ..erasure.plan import ErasurePlan
from ..erasure.text_search import plain

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
