"""What is asked of a search, what it answers, and which search there is: one small protocol for every back end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, Protocol
from urllib.parse import urlsplit

Depth = Literal["basic", "advanced"]
TimeRange = Literal["day", "week", "month", "year"]
Topic = Literal["general", "news", "finance"]
BACKENDS = ("tavily", "searxng", "ddgs")


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """
    One search, with the documents' parameters.

    Attributes:
        query: What to look for.
        max_results: Most results.
        depth: ``advanced`` where the back end knows it.
        time_range: Only results that are at most this old; None for any age.
        topic: Kind of sources.
        include_domains: Only these domains and their subdomains.
        exclude_domains: Not these domains and their subdomains.
        language: Such as ``de``; None for any.
        include_answer: Also a short answer, where the back end writes one.
        include_raw_content: Also the text of the pages, where the back end has it.
        timeout_s: Seconds.
    """

    query: str
    max_results: int = 5
    depth: Depth = "basic"
    time_range: TimeRange | None = None
    topic: Topic = "general"
    include_domains: tuple[str, ...] = ()
    exclude_domains: tuple[str, ...] = ()
    language: str | None = None
    include_answer: bool = False
    include_raw_content: bool = False
    timeout_s: float = 30.0

    def takes(self, url: str) -> bool:
        """
        Return whether the domains allow a page; checked for every back end, since not all of them do.

        Args:
            url: Its address.
        """
        try:
            host = (urlsplit(url).hostname or "").lower()
        except ValueError:
            return False
        inside = not self.include_domains or _below(host, self.include_domains)
        return bool(host) and inside and not _below(host, self.exclude_domains)

    @property
    def words(self) -> str:
        """Return the query with its domains as operators, for a back end that has no fields for them."""
        inside = " OR ".join(f"site:{domain}" for domain in self.include_domains)
        outside = " ".join(f"-site:{domain}" for domain in self.exclude_domains)
        return " ".join(part for part in (self.query, inside, outside) if part)


def _below(host: str, domains: Iterable[str]) -> bool:
    cleaned = [domain.strip().lower().removeprefix("*.").strip(".") for domain in domains]
    return any(domain and (host == domain or host.endswith("." + domain)) for domain in cleaned)


@dataclass(frozen=True, slots=True)
class SearchHit:
    """
    One result.

    Attributes:
        url: The page.
        title: One line.
        content: A few sentences.
        score: From the back end, the higher the better; None without one.
        raw_content: The page's text; empty without one.
        published: A date, as the back end writes it.
    """

    url: str
    title: str = ""
    content: str = ""
    score: float | None = None
    raw_content: str = ""
    published: str = ""


@dataclass(frozen=True, slots=True)
class SearchReply:
    """
    What a search found.

    Attributes:
        hits: Results, best first.
        answer: An answer that the search engine wrote; empty without one.
    """

    hits: tuple[SearchHit, ...] = ()
    answer: str = ""


class SearchBackend(Protocol):
    """
    Anything that can search the web.

    Attributes:
        name: Short, for notes and errors.
    """

    name: str

    def search(self, query: SearchQuery) -> SearchReply:
        """
        Return the results; an empty reply if there are none.

        Args:
            query: What to search for, with its bounds.

        Raises:
            ToolError: The search failed; the text is shown to the model, so it must not contain a key.
        """
        ...
