"""
What is asked of a search, what it answers, and which search there is: one small protocol for every back end.

Three searches: Tavily and what speaks its language, SearXNG, and a keyless metasearch library.

Their addresses come from the host, so they may be private. Keys stay in the object: what a server says is never
repeated but for results, and in those the key is blotted out.
"""

from __future__ import annotations

import importlib.util
import json
import math
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol
from urllib.parse import urlsplit, urlunsplit

from ...states.base.errors import MissingExtra, ToolError, UsageError
from .bounds import Deadline

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


REPLY_BYTES = 10_000_000
_TAVILY = "https://api.tavily.com"
_REFUSALS = {
    400: "refused the request (400)",
    401: "refused the key (401); check it",
    403: "does not allow it (403)",
    422: "refused the request (422)",
    429: "is asked too often or its quota is used up (429)",
    432: "says that the plan's limit is reached (432)",
    433: "says that the pay-as-you-go limit is reached (433)",
}
_LANGUAGE = re.compile(r"([A-Za-z]{2})(?:[-_]([A-Za-z]{2}))?\Z")


def missing_extra(*modules: str) -> None:
    """
    Check that *modules* are installed, without importing them.

    Raises:
        MissingExtra: They are not.
    """
    absent = [name for name in modules if importlib.util.find_spec(name) is None]
    if absent:
        raise MissingExtra(f'the web tools need {", ".join(absent)}: pip install "paor[web]"')


class TavilySearch:
    """
    Tavily's search API, or any server with the same.

    Args:
        api_key: Without one ``TAVILY_API_KEY``.
        base_url: Without one ``TAVILY_BASE_URL``, else Tavily itself.

    Raises:
        UsageError: There is no key, or the address is none.
        MissingExtra: The extra ``web`` is not installed.
    """

    name = "tavily"

    def __init__(self, api_key: str | None = None, base_url: str | None = None) -> None:
        self._key = (api_key if api_key is not None else os.environ.get("TAVILY_API_KEY", "")).strip()
        if not self._key:
            raise UsageError("tavily: no key; set TAVILY_API_KEY, or use another search")
        if not (self._key.isascii() and self._key.isprintable()):
            raise UsageError("tavily: the key holds characters that no key has")
        self._url, _ = _address(base_url or os.environ.get("TAVILY_BASE_URL") or _TAVILY, "tavily")
        missing_extra("httpx2")

    def search(self, query: SearchQuery) -> SearchReply:
        """Return what the server finds; see `SearchBackend`."""
        wanted: dict[str, Any] = {
            "query": query.query,
            "max_results": query.max_results,
            "search_depth": query.depth,
            "topic": query.topic,
            "time_range": query.time_range,
            "include_domains": list(query.include_domains) or None,
            "exclude_domains": list(query.exclude_domains) or None,
            "language": query.language,
            "include_answer": query.include_answer or None,
            "include_raw_content": "markdown" if query.include_raw_content else None,
        }
        body = {name: value for name, value in wanted.items() if value is not None}
        headers = {"Authorization": f"Bearer {self._key}"}
        reply = _ask_server(
            self.name, "POST", f"{self._url}/search", query, headers=headers, json=body, secret=self._key
        )
        hits = _hits(reply.get("results"), raw_content="raw_content", published="published_date")
        return SearchReply(hits, _text(reply, "answer"))


class SearxngSearch:
    """
    A SearXNG server with the JSON format enabled (``search.formats`` in its settings).

    Args:
        base_url: Without one ``SEARXNG_URL``; user and password in it are sent as basic authentication.

    Raises:
        UsageError: There is no address, or it is none.
        MissingExtra: The extra ``web`` is not installed.
    """

    name = "searxng"

    def __init__(self, base_url: str | None = None) -> None:
        address = base_url or os.environ.get("SEARXNG_URL")
        if not address:
            raise UsageError("searxng: no address; set SEARXNG_URL, or use another search")
        self._url, self._auth = _address(address, "searxng")
        missing_extra("httpx2")

    def search(self, query: SearchQuery) -> SearchReply:
        """Return what the server finds; see `SearchBackend`."""
        wanted = {
            "q": query.words,
            "format": "json",
            "categories": "news" if query.topic == "news" else "general",
            "language": query.language,
            "time_range": query.time_range,
        }
        params = {name: value for name, value in wanted.items() if value is not None}
        secret = self._auth[1] if self._auth else ""
        reply = _ask_server(
            self.name, "GET", f"{self._url}/search", query, params=params, auth=self._auth, secret=secret
        )
        hits = _hits(reply.get("results"), published="publishedDate")
        answers = reply.get("answers")
        first = answers[0] if isinstance(answers, list) and answers else ""
        answer = _text(first, "answer") if isinstance(first, Mapping) else str(first)
        return SearchReply(hits, answer)


class MetaSearch:
    """
    Public search engines without a key, through the library ddgs (``paor[web]``).

    For trying things out and for small loads: engines change their pages and turn away who asks often.

    Raises:
        MissingExtra: The library is not installed.
    """

    name = "ddgs"

    def __init__(self) -> None:
        missing_extra("ddgs")

    def search(self, query: SearchQuery) -> SearchReply:
        """Return what the engines find; see `SearchBackend`."""
        from ddgs import DDGS
        from ddgs.exceptions import DDGSException, RatelimitException, TimeoutException

        options: dict[str, Any] = {"max_results": query.max_results, "region": _region(query.language)}
        if query.time_range is not None:
            options["timelimit"] = query.time_range[0]
        try:
            client = DDGS(timeout=max(1, int(min(query.timeout_s, 20))))
            found = (client.news if query.topic == "news" else client.text)(query.words, **options)
        except RatelimitException:
            raise ToolError("ddgs: the search engines turn us away for asking too often; try later") from None
        except TimeoutException:
            raise ToolError("ddgs: no search engine answered in time") from None
        except DDGSException as error:
            if "No results" in str(error):
                return SearchReply()
            raise ToolError("ddgs: no search engine could be asked") from None
        except Exception as error:  # noqa: BLE001 - pages of search engines change, and the library with them
            raise ToolError(f"ddgs: the search failed ({type(error).__name__})") from None
        link = "url" if query.topic == "news" else "href"
        return SearchReply(_hits(list(found), url=link, content="body", published="date"))


def _region(language: str | None) -> str:
    """Return a language as ddgs names regions, country first: ``us-en``, ``de-de``; no region for an unknown one."""
    found = _LANGUAGE.match(language or "")
    if found is None:
        return "wt-wt"
    code = found[1].lower()
    return f"{(found[2] or {'en': 'us'}.get(code, code)).lower()}-{code}"


def _address(url: str, name: str) -> tuple[str, tuple[str, str] | None]:
    """Return a base URL without user info, and the user info."""
    try:
        parts = urlsplit(url.strip())
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or parts.scheme not in ("http", "https"):
        raise UsageError(f"{name}: its address must be a URL of http or https")
    place = f"[{host}]" if ":" in host else host
    netloc = place if port is None else f"{place}:{port}"
    auth = (parts.username or "", parts.password or "") if parts.username is not None else None
    return urlunsplit((parts.scheme, netloc, parts.path.rstrip("/"), "", "")), auth


def _ask_server(
    name: str, method: str, url: str, query: SearchQuery, *, secret: str, **options: Any
) -> Mapping[str, Any]:
    """
    Return the JSON object that a search server answers.

    Raises:
        ToolError: It does not answer, refuses, or answers something else; in our words, not in the server's.
    """
    import httpx2

    deadline, body = Deadline(query.timeout_s), bytearray()
    try:
        with (
            httpx2.Client(timeout=query.timeout_s, follow_redirects=False) as client,
            client.stream(method, url, **options) as response,
        ):
            if response.status_code != 200:
                status = response.status_code
                raise ToolError(f"{name} {_REFUSALS.get(status, f'answered with status {status}')}")
            for chunk in response.iter_bytes():
                deadline.check()
                body += chunk
                if len(body) > REPLY_BYTES:
                    raise ToolError(f"{name} answered more than {REPLY_BYTES:,} bytes")
    except httpx2.TimeoutException:
        raise ToolError(f"{name} did not answer in time") from None
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise ToolError(f"{name} cannot be reached ({type(error).__name__})") from None
    text = body.decode("utf-8", "replace")
    try:
        reply = json.loads(text.replace(secret, "[key]") if secret else text)
    except (ValueError, RecursionError):
        raise ToolError(f"{name} answered something that is not JSON") from None
    if not isinstance(reply, Mapping):
        raise ToolError(f"{name} answered JSON of another form than a search")
    return reply


def _hits(found: object, **renamed: str) -> tuple[SearchHit, ...]:
    """Return the results in a server's list; *renamed*: its names of fields that are not called as here."""
    names = {"url": "url", "title": "title", "content": "content"} | renamed
    hits = []
    for item in found if isinstance(found, list) else ():
        if isinstance(item, Mapping):
            texts: dict[str, Any] = {field: _text(item, name) for field, name in names.items()}
            hits.append(SearchHit(**texts, score=_number(item.get("score"))))
    return tuple(hits)


def _text(item: Mapping[str, Any], name: str) -> str:
    value = item.get(name)
    return value if isinstance(value, str) else ""


def _number(value: object) -> float | None:
    known = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if known else None  # type: ignore[arg-type]


def backend_of(given: SearchBackend | str | None) -> SearchBackend:
    """
    Return a back end from an instance or a name; None: what the environment has, ``TAVILY_API_KEY`` first.

    Raises:
        UsageError: An unknown name, or one whose key or address is missing.
        MissingExtra: The keyless search is not installed.
    """
    if given is None:
        known = {"tavily": "TAVILY_API_KEY", "searxng": "SEARXNG_URL"}
        given = next((name for name, variable in known.items() if os.environ.get(variable)), "ddgs")
    if not isinstance(given, str):
        if not (callable(getattr(given, "search", None)) and isinstance(getattr(given, "name", None), str)):
            raise UsageError(
                f"{type(given).__name__} is no search back end; it needs a name and search(query)"
            )
        return given
    for backend in (TavilySearch, SearxngSearch, MetaSearch):
        if given == backend.name:
            return backend()
    raise UsageError(
        f"unknown search {given!a}; use one of {', '.join(BACKENDS)}, or an object with search(query)"
    )
