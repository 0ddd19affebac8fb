"""
The record of what was erased: one row an erasure, chained, without a word of what was there.

hash = SHA-256(hash before || RFC 8785 JSON of number, at, rule, payloads and reason); the first one follows the run's
root hash. So nobody can add, change or drop a record unseen, and `fsm.verify` holds the records against the payloads
that are gone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

if TYPE_CHECKING:
    from .journal_reading import JournalReader

REASON = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/#-]{0,79}")
"""A reason is the number of a ticket or a code, not a sentence: it stays, so no free text may get into it."""

COLUMNS = ("number", "at", "rule", "payloads", "reason")
"""Columns under the hash, in the order of the table."""

_SELECT = "SELECT number, at, rule, payloads, reason, hash FROM erasures WHERE id BETWEEN ? AND ? ORDER BY id"


class Erasure(NamedTuple):
    """
    One row of `erasures`, without its key.

    Attributes:
        number: Within the run, from 0.
        at: Microseconds since the epoch.
        rule: JSON object: ``by``, and what it named.
        payloads: JSON list of pairs: first and last number of payloads that were erased.
        reason: Code that whoever erased gave, or None.
        hash: The chain, 32 bytes.
    """

    number: int
    at: int
    rule: str
    payloads: str
    reason: str | None
    hash: bytes

    @property
    def by(self) -> str:
        """What was erased by: one of `RULES`, empty when the rule cannot be read."""
        try:
            by = orjson.loads(self.rule)["by"]
        except (ValueError, TypeError, LookupError):
            return ""
        return by if by in RULES else ""


def chained_erasure(
    before: bytes, number: int, at: int, rule: str, payloads: str, reason: str | None
) -> Erasure:
    """Return the record that follows the one with the hash *before*."""
    record = dict(zip(COLUMNS, (number, at, rule, payloads, reason), strict=True))
    text = orjson.dumps(record, option=orjson.OPT_SORT_KEYS)
    return Erasure(number, at, rule, payloads, reason, sha256(before + text).digest())


def erasures_of(journal: JournalReader, run: int) -> list[Erasure]:
    """Return the records of run number *run* in order."""
    return [Erasure(*row) for row in journal.query(_SELECT, (run << 32, run << 32 | (2**32 - 1)))]


def root_of(journal: JournalReader, run: int) -> bytes:
    """Return the root hash of a run, which its first record follows."""
    root: bytes = journal.query("SELECT root_hash FROM specs WHERE run = ?", (run,))[0][0]
    return root


def ranges_text(numbers: Iterable[int]) -> str:
    """Return numbers as a JSON list of pairs, first and last of each stretch."""
    pairs: list[list[int]] = []
    for number in sorted(numbers):
        if pairs and number == pairs[-1][1] + 1:
            pairs[-1][1] = number
        else:
            pairs.append([number, number])
    return orjson.dumps(pairs).decode()


def ranges_of(text: str) -> list[tuple[int, int]]:
    """
    Return the pairs of a record.

    Raises:
        ValueError: They are no rising pairs of whole numbers.
    """
    data = orjson.loads(text)
    pairs, least = [], 0
    for pair in data if isinstance(data, list) else [data]:
        if not (isinstance(pair, list) and len(pair) == 2 and all(type(number) is int for number in pair)):
            raise ValueError("expected pairs of whole numbers")
        first, last = pair
        if not least <= first <= last < 2**32:
            raise ValueError("expected rising pairs")
        pairs.append((first, last))
        least = last + 1
    return pairs


def numbers_of(erasures: Iterable[Erasure]) -> set[int]:
    """Return the numbers of all payloads that records name."""
    return {
        number
        for item in erasures
        for first, last in ranges_of(item.payloads)
        for number in range(first, last + 1)
    }


def erasure_problems(journal: JournalReader, run: int, root: bytes, count: int) -> Iterator[tuple[str, str]]:
    """
    Yield place and problem of every record that does not hold, and of every payload that is gone without one.

    Args:
        journal: That holds them.
        run: Number of the run.
        root: Its root hash.
        count: How many payloads it has.
    """
    told: set[int] = set()
    head = root
    for expected, item in enumerate(erasures_of(journal, run)):
        place = f"erasures number {item.number}"
        if item.number != expected:
            yield place, f"expected number {expected}: records are missing"
        if chained_erasure(head, *item[:-1]).hash != item.hash:
            yield place, "the record does not fit its hash"
        head = item.hash
        problem = _problem(item, told, count)
        if problem:
            yield place, problem
    gone = {
        n
        for (n,) in journal.query(
            "SELECT n FROM payloads WHERE id BETWEEN ? AND ? AND body IS NULL AND salt IS NULL",
            (run << 32, run << 32 | (2**32 - 1)),
        )
    }
    for n in sorted(gone - told):
        yield f"payloads n {n}", "has been erased without a record"
    for n in sorted(told - gone):
        yield f"payloads n {n}", "stands there, and a record says that it was erased"


def _problem(item: Erasure, told: set[int], count: int) -> str:
    """Return what is wrong with one record, and take note of the payloads that it names."""
    try:
        pairs = ranges_of(item.payloads)
        rule: Any = orjson.loads(item.rule)
    except ValueError:
        return "its rule or its payloads cannot be read"
    if not pairs or pairs[-1][1] >= count:
        return "names payloads that the run does not have"
    numbers = {number for first, last in pairs for number in range(first, last + 1)}
    again = not numbers.isdisjoint(told)
    told |= numbers
    if again:
        return "names a payload that was erased before"
    if not isinstance(rule, dict) or rule.get("by") not in RULES:
        return f"its rule is none of {', '.join(RULES)}"
    if item.reason is not None and not REASON.fullmatch(item.reason):
        return "its reason is no code"
    return ""


RULES = ("run", "document", "field", "payload", "redaction")
"""By what can be erased."""
