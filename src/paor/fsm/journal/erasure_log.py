"""
The record of what was erased: one row an erasure, chained, without a word of what was there.

hash = SHA-256(hash before || RFC 8785 JSON of number, at, rule, payloads and reason); the first one follows the run's
root hash. So nobody can add, change or drop a record unseen, and `fsm.verify.verify` holds the records against the payloads
that are gone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from hashlib import sha256
from itertools import pairwise
from typing import Any, NamedTuple

import orjson

REASON = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/#-]{0,79}")
"""A reason is the number of a ticket or a code, not a sentence: it stays, so no free text may get into it."""

COLUMNS = ("number", "at", "rule", "payloads", "reason")
"""Columns under the hash, in the order of the table."""


class Erasure(NamedTuple):
    """
    One row of `erasures`, without its key.

    Attributes:
        number: Within the run, from 0.
        at: Microseconds since the epoch.
        rule: JSON object: ``by``, and what it named.
        payloads: JSON list of pairs: first and last number of payloads that were erased.
        reason: Code that was given with the erasure, or None.
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
        """What selected the texts: one of `RULES`, empty if the rule cannot be read."""
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


def erasure_problems(
    records: Iterable[Erasure], root: bytes, count: int, gone: list[tuple[int, int]]
) -> Iterator[tuple[str, str]]:
    """
    Yield place and problem of every record that does not hold, and of every payload that is gone without one.

    Args:
        records: Of a run, in order.
        root: Its root hash.
        count: How many payloads it has.
        gone: Those that are gone: first and last number of each stretch, rising.
    """
    told: list[tuple[int, int]] = []
    head = root
    for expected, item in enumerate(records):
        place = f"erasures number {item.number}"
        if item.number != expected:
            yield place, f"expected number {expected}: records are missing"
        if chained_erasure(head, *item[:-1]).hash != item.hash:
            yield place, "the record does not fit its hash"
        head = item.hash
        problem = _problem(item, told, count)
        if problem:
            yield place, problem
    for n in _only_in(gone, told):
        yield f"payloads n {n}", "has been erased without a record"
    for n in _only_in(told, gone):
        yield f"payloads n {n}", "stands there, and a record says that it was erased"


def _problem(item: Erasure, told: list[tuple[int, int]], count: int) -> str:
    """Return what is wrong with one record, and take note of the payloads that it names."""
    try:
        pairs = ranges_of(item.payloads)
        rule: Any = orjson.loads(item.rule)
    except ValueError:
        return "its rule or its payloads cannot be read"
    if not pairs or pairs[-1][1] >= count:
        return "names payloads that the run does not have"
    before = len(told)
    told += pairs
    if before:
        told.sort()
        if any(one[1] >= other[0] for one, other in pairwise(told)):
            told[:] = _merge_ranges(told)
            return "names a payload that was erased before"
    if not isinstance(rule, dict) or rule.get("by") not in RULES:
        return f"its rule is none of {', '.join(RULES)}"
    if item.reason is not None and not REASON.fullmatch(item.reason):
        return "its reason is no code"
    return ""


def _merge_ranges(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return sorted stretches without overlaps."""
    found: list[tuple[int, int]] = []
    for first, last in pairs:
        if found and first <= found[-1][1]:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        else:
            found.append((first, last))
    return found


def _only_in(pairs: list[tuple[int, int]], others: list[tuple[int, int]]) -> Iterator[int]:
    """Yield the numbers in one list of rising stretches that are not in the other, the first few of each stretch."""
    place = 0
    for first, last in pairs:
        number, shown = first, 0
        while number <= last and shown < SHOWN:
            while place < len(others) and others[place][1] < number:
                place += 1
            if place < len(others) and others[place][0] <= number:
                number = others[place][1] + 1
            else:
                yield number
                number, shown = number + 1, shown + 1


SHOWN = 1000
"""Payloads of a stretch that are named; more would say nothing new."""

RULES = ("run", "document", "field", "payload", "redaction")
"""By what can be erased."""
