"""
web.search, web.scrape and web.crawl: with the documents' parameters, within bounds, and only where a host offers them.

    engine = Engine(tools=[*web_tools()])

Nothing here touches the network before a run calls one of the tools. What comes back is data: documents and facts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from ...states.base.errors import ToolError, UsageError
from ...states.records.actions import WebFact
from ...states.settings.policy import Policy
from ..defaults import FILLED, WEB, WINDOWS
from ..documents.convert.converter import Converter
from ..policy import unsafe_url
from ..tool import Document, Tool, ToolContext, ToolOutput
from .bounds import Deadline, Resolver, resolve
from .extraction import FORMATS, Page, document_name, links_of, page_of, urls_in
from .fetch import Fetcher
from .relevance import Enricher
from .relevance import enrich as enriched_by_words
from .search import SearchBackend, SearchHit, SearchQuery, SearchReply, backend_of, missing_extra
from .settings import WebSettings

RESULTS_MAX = 20
_DEPTHS = ["basic", "advanced"]


def _domains(what: str) -> dict[str, Any]:
    domain = {"type": "string", "minLength": 1, "maxLength": 253}
    return {"type": "array", "items": domain, "maxItems": 50, "description": what}


_SEARCH: dict[str, Any] = {
    "query": {"type": "string", "minLength": 1, "maxLength": 2000, "description": "what to look for"},
    "maxResults": {
        "type": "integer",
        "minimum": 1,
        "maximum": RESULTS_MAX,
        "default": 5,
        "description": "most results",
    },
    "searchDepth": {"enum": _DEPTHS, "description": "advanced for analysis, basic for look-ups"},
    "timeRange": {"enum": list(WINDOWS), "description": "only what is that new; leave out for all times"},
    "topic": {"enum": ["general", "news", "finance"], "default": "general", "description": "kind of sources"},
    "includeDomains": _domains("only results from these domains"),
    "excludeDomains": _domains("no results from these domains"),
    "language": {"type": "string", "maxLength": 20, "description": "language of the results, such as de"},
    "includeAnswer": {
        "type": "boolean",
        "default": False,
        "description": "a short answer of the search's own",
    },
    "includeRawContent": {"type": "boolean", "default": False, "description": "also whole pages as they are"},
}
_EXTRACT: dict[str, Any] = {
    "extractDepth": {
        "enum": _DEPTHS,
        "description": "advanced also keeps where links lead, and for web.crawl follows them",
    },
    "format": {
        "enum": ["markdown", "text", "html"],
        "default": "markdown",
        "description": "form of the pages' text",
    },
}
_DOCUMENTS: dict[str, Any] = {
    "documentList": {
        "type": "array",
        "items": {"type": "string"},
        "minItems": 1,
        "description": "references of documents with URLs in them, such as the results of a search",
    }
}


def _object(properties: dict[str, Any], required: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": [required],
        "additionalProperties": False,
    }


SEARCH = _object(_SEARCH, "query")
SCRAPE = _object(_SEARCH | _EXTRACT, "query")
CRAWL = _object(_DOCUMENTS | _EXTRACT, "documentList")


Found = TypeVar("Found", Page, SearchHit)
_REASONS_MAX = 8
"""Pages that failed, each with a note of its own."""


def web_tools(
    search: SearchBackend | str | None = None,
    *,
    settings: WebSettings | None = None,
    enrich: bool | Enricher = False,
    resolver: Resolver = resolve,
) -> tuple[Tool, ...]:
    """
    Return the three web tools for ``Engine(tools=[...])``; they share a cache and rate limits.

    Args:
        search: A search engine, or the name of one: ``tavily``, ``searxng``, ``ddgs``. None, the default, uses the
            first that the environment has: ``TAVILY_API_KEY``, else ``SEARXNG_URL``, else the keyless ``ddgs``.
        settings: Limits; see `WebSettings`.
        enrich: True adds relevance, key points and entities by URL and puts the best pages first; a function
            computes them in its own way. False, the default, adds nothing.
        resolver: Finds the addresses of a host; the system's by default.

    Raises:
        MissingExtra: The extra ``web`` is not installed.
        UsageError: An unknown search, or one without its key or address.
    """
    missing_extra("httpx2", "httpcore2", "trafilatura", "protego", "lxml_html_clean")
    if not (isinstance(enrich, bool) or callable(enrich)):
        raise UsageError("web_tools: enrich is True, False or a function of a query and pages")
    hook = (enriched_by_words if enrich else None) if isinstance(enrich, bool) else enrich
    settings = settings or WebSettings()
    web = _Web(backend_of(search), settings, Fetcher(settings, resolver), hook)

    def offered(
        name: str, run: Callable[..., Any], parameters: dict[str, Any], label: str, words: str
    ) -> Tool:
        names = sorted(FILLED & parameters["properties"].keys())
        return Tool(name, words, parameters, run, effect="read", label=label, filled=names)

    searches = "Search the web; gives titles, URLs and a few sentences of each result."
    scrapes = "Search the web and read the pages that were found; a query that is a URL reads that page."
    crawls = (
        "Read the pages whose URLs stand in documents, such as the results of a search;"
        " advanced also reads pages of the same sites that they link to."
    )
    search_name, scrape_name, crawl_name = WEB
    return (
        offered(search_name, web.search, SEARCH, "search", searches),
        offered(scrape_name, web.scrape, SCRAPE, "pages", scrapes),
        offered(crawl_name, web.crawl, CRAWL, "pages", crawls),
    )


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What came of one URL: a page, or why there is none."""

    url: str
    page: Page | None
    error: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class _Web:
    """The three tools' functions over one search and one fetcher."""

    backend: SearchBackend
    settings: WebSettings
    fetcher: Fetcher
    hook: Enricher | None

    def search(self, context: ToolContext, **arguments: Any) -> ToolOutput:
        """Search; one document of results, and one for each page's text that the back end has."""
        query = _query(arguments, self._deadline(context))
        reply, notes = self._filter(query, context.policy)
        pages = [
            Page(hit.url, hit.title, hit.raw_content or hit.content, "text", score=hit.score)
            for hit in reply.hits
        ]
        facts, notes = self._facts(query.query, pages, notes)
        hits = _best_first(reply.hits, facts)
        documents = [Document("results.md", _markdown_list(query, reply.answer, hits), "text/markdown")]
        if query.include_raw_content:
            documents += [
                Document(f"{number:02d}-raw.md", hit.raw_content, "text/markdown")
                for number, hit in enumerate(hits, 1)
                if hit.raw_content
            ]
        return ToolOutput(documents, notes, facts or _scores_of(hits))

    def scrape(self, context: ToolContext, **arguments: Any) -> ToolOutput:
        """Search, then read what was found."""
        deadline = self._deadline(context)
        query = _query(arguments, deadline)
        notes: tuple[str, ...] = ()
        if query.query.strip().lower().startswith(("http://", "https://")):
            reply = SearchReply((SearchHit(query.query.strip()),))
        else:
            reply, notes = self._filter(query, context.policy)
        if not reply.hits:
            return ToolOutput((), notes)
        outcomes = self._read(context, deadline, [hit.url for hit in reply.hits], arguments)
        found = {hit.url: hit for hit in reply.hits}
        outcomes = [_known(outcome, found[outcome.url]) for outcome in outcomes]
        output = self._output(query.query, outcomes, notes, sources=query.include_raw_content)
        answer = [Document("answer.md", reply.answer, "text/markdown")] if reply.answer else []
        return ToolOutput([*answer, *output.documents], output.notes, output.web or _scores_of(reply.hits))

    def crawl(
        self,
        context: ToolContext,
        documentList: list[str],
        extractDepth: str = "basic",
        format: str = "markdown",
    ) -> ToolOutput:
        """Read the pages that documents name, and for ``advanced`` pages of their sites that these link to."""
        deadline = self._deadline(context)
        given = {"extractDepth": extractDepth, "format": format}
        urls: dict[str, None] = {}
        for document in context.documents(documentList):
            if isinstance(document.data, bytes) and not document.mime.startswith("text/"):
                continue
            text = (
                document.data if isinstance(document.data, str) else document.data.decode("utf-8", "replace")
            )
            urls |= dict.fromkeys(urls_in(text, self.settings.pages))
        if not urls:
            raise ToolError("web.crawl: documentList names no document with a URL in it")
        first = list(urls)[: self.settings.pages]
        outcomes = self._read(context, deadline, first, given)
        if extractDepth == "advanced" and len(first) < self.settings.pages:
            further = self._links(outcomes, seen=set(first))
            outcomes += self._read(context, deadline, further, given) if further else []
        return self._output(context.objective, outcomes, ())

    def _deadline(self, context: ToolContext) -> Deadline:
        """Return when the call is to return what it has: a little before it would be given up with all that it has."""
        bound = self.settings.call_s
        return Deadline(bound if context.timeout_s is None else min(bound, 0.9 * context.timeout_s))

    def _links(self, outcomes: Sequence[_Outcome], *, seen: set[str]) -> list[str]:
        """Return what the pages link to, one link of each page after the other, as many as may still be read."""
        left = self.settings.pages - len(outcomes)
        seen = seen | {outcome.page.url for outcome in outcomes if outcome.page}
        lists = [links_of(outcome.page, 100) for outcome in outcomes if outcome.page]
        turns = [links[turn] for turn in range(100) for links in lists if turn < len(links)]
        return [url for url in dict.fromkeys(turns) if url not in seen][:left]

    def _filter(self, query: SearchQuery, policy: Policy) -> tuple[SearchReply, tuple[str, ...]]:
        """Return the results that domains and policy allow, each once, and a note on them."""
        reply = self.backend.search(query)
        hits: dict[str, SearchHit] = {}
        for hit in reply.hits:
            if query.takes(hit.url) and unsafe_url(policy, hit.url) is None:
                hits.setdefault(hit.url, hit)
        kept = tuple(list(hits.values())[: query.max_results])
        notes = [f"{len(kept)} results from {self.backend.name}"]
        if query.include_answer and not reply.answer:
            notes.append(f"{self.backend.name} gave no answer of its own")
        if query.include_raw_content and not any(hit.raw_content for hit in kept):
            notes.append(f"{self.backend.name} gave no texts of pages")
        return SearchReply(kept, reply.answer), tuple(notes)

    def _read(
        self, context: ToolContext, deadline: Deadline, urls: Sequence[str], arguments: dict[str, Any]
    ) -> list[_Outcome]:
        """Fetch pages and take them apart, several at a time, in the order of *urls*."""
        form, depth = arguments.get("format") or "markdown", arguments.get("extractDepth") or "basic"
        if form not in FORMATS:
            raise ToolError(f"format {form!a}: use {', '.join(FORMATS)}")

        def stopped() -> str | None:
            return context.stopped() or (None if deadline.left else f"{deadline.seconds:g} seconds are over")

        def read(url: str) -> _Outcome:
            try:
                fetched = self.fetcher.page(url, context.policy, deadline)
                with Converter(context.limits, stopped) as convert:
                    return _Outcome(url, page_of(fetched, form, depth, self.settings, convert))
            except ToolError as error:
                return _Outcome(url, None, str(error))

        wanted = list(urls)[: self.settings.pages]
        with ThreadPoolExecutor(min(self.settings.workers, len(wanted)), "paor-web") as pool:
            return list(pool.map(read, wanted))

    def _output(
        self, query: str, outcomes: Sequence[_Outcome], notes: tuple[str, ...], *, sources: bool = False
    ) -> ToolOutput:
        """
        Return pages as documents, best first where they are enriched, with a note on each that failed.

        Raises:
            ToolError: There is no page at all.
        """
        failed = [f"{outcome.url}: {outcome.error}" for outcome in outcomes if outcome.page is None]
        pages = list({outcome.page.url: outcome.page for outcome in outcomes if outcome.page}.values())
        if not pages:
            raise ToolError(f"no page could be read: {'; '.join(failed[:_REASONS_MAX])}")
        facts, notes = self._facts(query, pages, notes)
        pages = _best_first(pages, facts)
        documents: list[Document] = []
        for number, page in enumerate(pages, 1):
            documents.append(Document(document_name(page, number), page.document, FORMATS[page.form]))
            if sources and page.source:
                documents.append(
                    Document(document_name(page, number, "source.html"), page.source, "text/html")
                )
        told = [f"{page.url}: {note}" for page in pages for note in page.notes]
        return ToolOutput(documents, (*notes, *failed[:_REASONS_MAX], *told), facts)

    def _facts(
        self, query: str, pages: Sequence[Page], notes: tuple[str, ...]
    ) -> tuple[list[WebFact], tuple[str, ...]]:
        """Return what is known of the best pages, best first; nothing is asked where enrichment is off."""
        if self.hook is None or not pages:
            return [], notes
        known = {page.url for page in pages}
        try:
            facts = [fact for fact in self.hook(query, pages) if fact.url in known]
            facts.sort(key=lambda fact: -(fact.relevance_score or 0.0))
        except Exception as error:  # noqa: BLE001 - a host's code; the pages are there all the same
            return [], (*notes, f"the pages could not be enriched ({type(error).__name__})")
        return facts[: self.settings.enrich_top], notes


_PARAMETERS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "query": ("query", str),
    "maxResults": ("max_results", int),
    "searchDepth": ("depth", str),
    "timeRange": ("time_range", str),
    "topic": ("topic", str),
    "includeDomains": ("include_domains", tuple),
    "excludeDomains": ("exclude_domains", tuple),
    "language": ("language", str),
    "includeAnswer": ("include_answer", bool),
    "includeRawContent": ("include_raw_content", bool),
}
"""The documents' parameters: the attribute of a `SearchQuery`, and its type."""


def _query(arguments: dict[str, Any], deadline: Deadline) -> SearchQuery:
    values: dict[str, Any] = {
        name: kind(arguments[given])
        for given, (name, kind) in _PARAMETERS.items()
        if arguments.get(given) is not None
    }
    return SearchQuery(**values, timeout_s=min(30.0, deadline.left))


def _best_first(found: Iterable[Found], facts: Sequence[WebFact]) -> list[Found]:
    """Return pages or results: those with facts in their order, then the others in theirs."""
    order = {fact.url: place for place, fact in reversed(list(enumerate(facts)))}
    return sorted(found, key=lambda item: order.get(item.url, len(facts)))


def _scores_of(hits: Sequence[SearchHit]) -> list[WebFact]:
    """Return the scores that a back end gives, where nothing else is known of the pages."""
    return [WebFact(hit.url, hit.score) for hit in hits if hit.score is not None]


def _known(outcome: _Outcome, hit: SearchHit) -> _Outcome:
    """Return the page with the search's score, and of one that could not be read the text that the search has."""
    if outcome.page is not None:
        return replace(outcome, page=replace(outcome.page, score=hit.score))
    if not hit.raw_content:
        return outcome
    note = f"as the search has it, since it could not be read: {outcome.error}"
    page = Page(hit.url, hit.title or hit.url, hit.raw_content, "markdown", (note,), score=hit.score)
    return _Outcome(outcome.url, page)


def _markdown_list(query: SearchQuery, answer: str, hits: Sequence[SearchHit]) -> str:
    """Return results as Markdown: each URL on a line of its own, so that web.crawl finds it."""
    parts = [f"# Results for: {' '.join(query.query.split())}"]
    if answer:
        parts.append(answer)
    for number, hit in enumerate(hits, 1):
        title = " ".join(hit.title.split()) or hit.url
        dated = f" ({hit.published})" if hit.published else ""
        parts.append(f"## {number}. {title}{dated}\n\n<{hit.url}>\n\n{hit.content.strip()}".rstrip())
    return "\n\n".join(parts if hits else [*parts, "Nothing was found."]) + "\n"
