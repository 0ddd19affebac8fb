"""
What requests cost: a price list as data, whole micro-units out.

The shipped list is `prices.json`; `docs/models.md` says how to replace it. Prices are decimal texts for a million tokens.
A model that is not in the list costs nothing, and the client says so once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from msgspec import Struct

from ...states.base.errors import UsageError
from ...states.records.outcomes import Usage

MILLION = 1_000_000
PRICE_MAX = Decimal(1_000_000)
_NAMES = ("in", "out", "cached", "cache_write")
_SNAPSHOT = re.compile(r"(?:[-@](?:\d{4}-\d{2}-\d{2}|\d{8})|-latest)\Z")
"""What a provider adds to a name for one version of it."""


class Price(Struct, frozen=True):
    """
    Micro-units for a million tokens.

    Attributes:
        tokens_in, tokens_out: What is read and written.
        cached: What is read from the cache; without an own price the same as *tokens_in*.
        cache_write: What is written to the cache, likewise.
        above: From how many input tokens on another price holds for the whole request; 0 for none.
        dearer: That price.
    """

    tokens_in: int
    tokens_out: int
    cached: int
    cache_write: int
    above: int = 0
    dearer: Price | None = None

    def of(self, usage: Usage) -> int:
        """Return what *usage*, of one request, costs in micro-units, rounded up."""
        if self.dearer is not None and usage.tokens_in > self.above:
            return self.dearer.of(usage)
        cached = min(usage.tokens_cached, usage.tokens_in)
        written = min(usage.tokens_cache_write, usage.tokens_in - cached)
        plain = usage.tokens_in - cached - written
        total = plain * self.tokens_in + cached * self.cached + written * self.cache_write
        return -(-(total + usage.tokens_out * self.tokens_out) // MILLION)


class Prices(Struct, frozen=True):
    """
    A price list.

    Attributes:
        models: Prices by ``provider:name``.
        origin: Where it comes from, for messages.
        own: Whether the user gave it; the shipped list holds for the providers' own addresses only.
    """

    models: dict[str, Price]
    origin: str = "prices.json"
    own: bool = False

    def price(self, name: str) -> Price | None:
        """Return the price of ``provider:name``, of a dated version that of its name, or None."""
        return self.models.get(name) or self.models.get(_SNAPSHOT.sub("", name))


def prices_of(text: str, origin: str, *, own: bool = True) -> Prices:
    """
    Return the price list that *text*, JSON, holds.

    Raises:
        UsageError: It is none; the first defect is named with *origin*.
    """
    try:
        data = json.loads(text, parse_float=Decimal)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{origin}: is not JSON ({error})") from None
    models = data.get("models") if isinstance(data, dict) else None
    if not isinstance(models, dict):
        raise UsageError(
            f'{origin}: expected {{"models": {{"provider:name": {{"in": "2.50", "out": "10"}}}}}}'
        )
    return Prices({name: _price(entry, f"{origin}: {name}") for name, entry in models.items()}, origin, own)


def _price(entry: object, place: str, *, inner: bool = False) -> Price:
    if not isinstance(entry, Mapping):
        raise UsageError(f'{place}: expected an object such as {{"in": "2.50", "out": "10"}}')
    known = (*_NAMES, "note") if inner else (*_NAMES, "above", "note")
    for name in entry:
        if name not in known:
            raise UsageError(f"{place}: unknown key {name!r}; there are: {', '.join(known)}")
    amounts = {name: _amount(entry[name], f"{place}.{name}") for name in _NAMES if name in entry}
    if "in" not in amounts or "out" not in amounts:
        raise UsageError(f"{place}: both in and out are needed")
    read = amounts["in"]
    price = Price(read, amounts["out"], amounts.get("cached", read), amounts.get("cache_write", read))
    above = entry.get("above")
    if above is None:
        return price
    tokens = above.get("tokens") if isinstance(above, Mapping) else None
    if type(tokens) is not int or not 0 < tokens < 2**40:
        raise UsageError(f"{place}.above: expected tokens, a whole number, and its prices")
    rest = {name: value for name, value in above.items() if name != "tokens"}
    dearer = _price(rest, f"{place}.above", inner=True)
    return Price(price.tokens_in, price.tokens_out, price.cached, price.cache_write, tokens, dearer)


def _amount(value: Any, place: str) -> int:
    try:
        amount = Decimal(value) if isinstance(value, str | int | Decimal) else Decimal("NaN")
    except InvalidOperation:
        amount = Decimal("NaN")
    if isinstance(value, bool) or not amount.is_finite() or not 0 <= amount <= PRICE_MAX:
        raise UsageError(f'{place}: expected a price such as "2.50", from 0 to 1,000,000')
    micro = amount * MILLION
    if micro != micro.to_integral_value():
        raise UsageError(f"{place}: finer than a millionth")
    return int(micro)
