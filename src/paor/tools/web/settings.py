"""How far the web tools go: sizes, times, counts and manners, as one value that a host can change."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from ...states.base.errors import UsageError

PRODUCT = "paor"
"""The name under which ``robots.txt`` files are read."""


@dataclass(frozen=True, slots=True)
class WebSettings:
    """
    Limits of the web tools. Each holds for every page, however a server behaves.

    Attributes:
        user_agent: The header ``User-Agent``; should name a way to reach you. In robots.txt the rules for ``paor`` apply.
        robots: Whether robots.txt is honoured.
        call_s: Largest duration of one tool call with all its requests, in seconds.
        request_s: Longest wait for a connection, and for the next byte from a server, in seconds.
        page_s: Largest duration of one page with its redirects, in seconds.
        redirects: Redirects followed for one page.
        bytes_max: Largest response in bytes, compressed and decompressed.
        html_bytes: Largest HTML page that is parsed, in bytes; a larger one is refused.
        text_chars: Characters kept of one page's text; the rest is cut, with a note.
        pages: Most pages that one call fetches.
        host_interval_s: Seconds between two requests to one host; a longer Crawl-delay wins, up to `delay_max_s`.
        delay_max_s: Longest Crawl-delay that is respected, in seconds.
        workers: Pages fetched at the same time, on different hosts.
        cache_pages: Pages kept in memory.
        cache_bytes: Bytes kept in memory.
        cache_s: Seconds for which a page or robots.txt is kept.
        enrich_top: Pages that are enriched and reranked, if that is on.

    Raises:
        UsageError: A number is negative, not finite, or zero where zero is not allowed.
    """

    user_agent: str = f"Mozilla/5.0 (compatible; {PRODUCT}; agent tool)"
    robots: bool = True
    call_s: float = 90.0
    request_s: float = 15.0
    page_s: float = 30.0
    redirects: int = 5
    bytes_max: int = 20_000_000
    html_bytes: int = 3_000_000
    text_chars: int = 200_000
    pages: int = 10
    host_interval_s: float = 1.0
    delay_max_s: float = 10.0
    workers: int = 4
    cache_pages: int = 64
    cache_bytes: int = 32_000_000
    cache_s: float = 300.0
    enrich_top: int = 10

    def __post_init__(self) -> None:
        may_be_zero = {"redirects", "host_interval_s", "delay_max_s", "cache_pages", "cache_bytes", "cache_s"}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, str | bool):
                continue
            if not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
                raise UsageError(f"WebSettings: {field.name} must be a number, not negative, not {value!a}")
            if value == 0 and field.name not in may_be_zero:
                raise UsageError(f"WebSettings: {field.name} must be more than 0")
        if not (self.user_agent.isascii() and self.user_agent.isprintable() and self.user_agent.strip()):
            raise UsageError("WebSettings: user_agent must be printable ASCII")
