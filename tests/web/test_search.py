"""Searches: what servers are asked, what becomes of their answers, and that keys stay where they are."""

from __future__ import annotations

from typing import Any

import pytest

from paor import Document, web_tools
from paor.errors import ToolError, UsageError
from paor.web import SearchHit, SearchQuery, WebSettings

from .inside import BACKENDS, MetaSearch, SearxngSearch, TavilySearch, backend_of, urls_in
from .websites import ARTICLES, Answer, Context, Index, Site, Visit, sends, text_of, tools

KEY = "tvly-secret-0123456789"
FULL = SearchQuery(
    query="state machines",
    max_results=3,
    depth="advanced",
    time_range="week",
    topic="news",
    include_domains=("example.org",),
    exclude_domains=("bad.example.org",),
    language="de",
    include_answer=True,
    include_raw_content=True,
)
RESULTS = [
    {
        "title": "One",
        "url": "http://example.org/1",
        "content": "First.",
        "score": 0.9,
        "raw_content": "All of it.",
    },
    {"title": "Two", "url": "http://example.org/2", "content": "Second.", "score": float("nan")},
    {"title": None, "url": 7, "content": ["x"], "score": "high"},
    "nonsense",
]
ENVIRONMENT = ("TAVILY_API_KEY", "TAVILY_BASE_URL", "SEARXNG_URL")


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)


def answering(value: Any, status: int = 200) -> dict[str, Answer]:
    """Return a search server that always says the same."""
    return {"/search": lambda visit: visit.json(value, status=status)}


# -- Tavily ------------------------------------------------------------------------------------------------------------


def test_tavily_is_asked_with_its_own_names_and_unset_ones_are_left_out() -> None:
    """As its own client sends them; the key is in one header only."""
    with Site(answering({"results": RESULTS, "answer": "Yes."})) as site:
        search = TavilySearch(KEY, site.url())
        reply = search.search(FULL)
        search.search(SearchQuery("bare"))
        _, path, headers = site.visits[0]
        full, bare = site.bodies
    assert path == "/search"
    assert headers["Authorization"] == f"Bearer {KEY}"
    assert full == {
        "query": "state machines",
        "max_results": 3,
        "search_depth": "advanced",
        "topic": "news",
        "time_range": "week",
        "include_domains": ["example.org"],
        "exclude_domains": ["bad.example.org"],
        "language": "de",
        "include_answer": True,
        "include_raw_content": "markdown",
    }
    assert bare == {"query": "bare", "max_results": 5, "search_depth": "basic", "topic": "general"}
    assert reply.answer == "Yes."
    assert reply.hits[0] == SearchHit("http://example.org/1", "One", "First.", 0.9, "All of it.")
    assert reply.hits[1].score is None
    assert reply.hits[2] == SearchHit("")


BAD_REPLIES: dict[str, tuple[Answer, str]] = {
    **{
        f"status {status}": (sends('{"detail": "x"}', "application/json", status), str(status))
        for status in (302, 400, 401, 403, 429, 432, 500)
    },
    "no JSON": (sends("<html>"), "not JSON"),
    "a list": (sends("[]", "application/json"), "another form"),
    "deep": (sends("[" * 200_000, "application/json"), "not JSON"),
    "a huge one": (sends(b'"' + b"x" * 11_000_000, "application/json"), "more than 10,000,000 bytes"),
    "cut": (lambda visit: _cut(visit), "cannot be reached"),
    "slow": (lambda visit: _slow(visit), "did not answer in time"),
}


def _cut(visit: Visit) -> None:
    visit.head("application/json", Content_Length="100")
    visit.close_connection = True


def _slow(visit: Visit) -> None:
    visit.server.site.closing.wait(60)
    visit.close_connection = True


@pytest.mark.parametrize("case", BAD_REPLIES)
@pytest.mark.parametrize("name", ["tavily", "searxng"])
def test_a_search_that_fails_is_told_in_our_words(case: str, name: str) -> None:
    """In one line, with the back end's name and without the key."""
    answer, told = BAD_REPLIES[case]
    with Site({"/search": answer}) as site:
        search = TavilySearch(KEY, site.url()) if name == "tavily" else SearxngSearch(site.url())
        with pytest.raises(ToolError) as caught:
            search.search(SearchQuery("x", timeout_s=0.3 if case == "slow" else 60.0))
    assert told in str(caught.value) and name in str(caught.value)
    assert KEY not in repr(caught.value)


def test_a_key_that_a_server_repeats_is_blotted_out() -> None:
    """Results go into the journal."""
    echo = {
        "results": [{"url": "http://example.org/", "title": KEY, "content": f"Bearer {KEY}"}],
        "answer": KEY,
    }
    with Site(answering(echo)) as site:
        found = TavilySearch(KEY, site.url()).search(SearchQuery("x"))
    assert KEY not in repr(found)
    assert "[key]" in found.answer


# -- SearXNG and ddgs ----------------------------------------------------------------------------------------------------


def test_searxng_is_asked_with_operators_and_basic_authentication() -> None:
    """Domains become operators, since it has no fields for them; user info of its address becomes a header."""
    results = [{"title": "One", "url": "http://example.org/1", "content": "First.", "score": 3.5, "publishedDate": "2026-01-02"}]  # fmt: skip
    with Site(answering({"results": results, "answers": [{"answer": "Yes."}]})) as site:
        reply = SearxngSearch(site.url().replace("://", "://me:pass@")).search(FULL)
        _, path, headers = site.visits[0]
    asked = dict(part.split("=") for part in path.partition("?")[2].split("&"))
    assert asked == {
        "q": "state+machines+site%3Aexample.org+-site%3Abad.example.org",
        "format": "json",
        "categories": "news",
        "language": "de",
        "time_range": "week",
    }
    assert headers["Authorization"].startswith("Basic ")
    assert reply.answer == "Yes."
    assert reply.hits == (SearchHit("http://example.org/1", "One", "First.", 3.5, published="2026-01-02"),)


class _Engines:
    """What stands in for the library: keeps what it was asked."""

    asked: list[tuple[str, str, dict[str, Any]]]
    error: Exception | None

    def __init__(self, **options: Any) -> None:
        pass

    def _search(self, kind: str, words: str, options: dict[str, Any]) -> list[dict[str, Any]]:
        type(self).asked.append((kind, words, options))
        error = type(self).error
        if error is not None:
            raise error
        return [
            {"title": "One", "href" if kind == "text" else "url": "http://example.org/1", "body": "First."}
        ]

    def text(self, words: str, **options: Any) -> list[dict[str, Any]]:
        return self._search("text", words, options)

    def news(self, words: str, **options: Any) -> list[dict[str, Any]]:
        return self._search("news", words, options)


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> type[_Engines]:
    """Put `_Engines` in the place of the library's class."""
    import ddgs

    _Engines.asked, _Engines.error = [], None
    monkeypatch.setattr(ddgs, "DDGS", _Engines)
    return _Engines


def test_the_keyless_search_is_asked_with_region_and_time(engines: type[_Engines]) -> None:
    """News and text have their own methods, and other names for the URL."""
    found = MetaSearch().search(FULL)
    assert found.hits == (SearchHit("http://example.org/1", "One", "First."),)
    MetaSearch().search(SearchQuery("x", language="klingon"))
    assert engines.asked == [
        ("news", FULL.words, {"max_results": 3, "region": "de-de", "timelimit": "w"}),
        ("text", "x", {"max_results": 5, "region": "wt-wt"}),
    ]


# -- which search there is -----------------------------------------------------------------------------------------------


def test_the_environment_decides_on_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key first, then an address, then none of both; a name or an object wins."""
    assert backend_of(None).name == "ddgs"
    monkeypatch.setenv("SEARXNG_URL", "http://127.0.0.1:8888")
    assert backend_of(None).name == "searxng"
    monkeypatch.setenv("TAVILY_API_KEY", KEY)
    assert backend_of(None).name == "tavily"
    assert [backend_of(name).name for name in BACKENDS] == list(BACKENDS)
    index = Index()
    assert backend_of(index) is index


def test_a_search_that_cannot_be_used_is_told_at_once() -> None:
    """Before any run: unknown names, missing keys and addresses, things that are none."""
    for given in ("bing", "tavily", "searxng", object(), 7):
        with pytest.raises(UsageError):
            web_tools(given)  # type: ignore[arg-type]
    with pytest.raises(UsageError):
        web_tools(Index(), enrich="yes")  # type: ignore[arg-type]
    refused: tuple[dict[str, Any], ...] = (
        {"pages": 0},
        {"call_s": -1},
        {"page_s": float("nan")},
        {"user_agent": "a\nb"},
    )
    for settings in refused:
        with pytest.raises(UsageError):
            WebSettings(**settings)


# -- what the tools make of results ----------------------------------------------------------------------------------------


def test_results_stand_in_one_document_that_a_crawl_can_use() -> None:
    """Titles, dates, URLs and contents; each URL alone on its line."""
    hits = [
        SearchHit(f"http://example.org/{n}", f"Title {n}\n# no", f"See http://other.org/{n}.", None)
        for n in (1, 2)
    ]
    output = tools(Index(*hits, answer="Forty-two."))["web.search"].invoke({"query": "what"}, Context())
    [document] = output.documents
    assert (document.name, document.mime) == ("results.md", "text/markdown")
    assert str(document.data).startswith("# Results for: what\n\nForty-two.\n\n## 1. Title 1 # no\n")
    assert urls_in(str(document.data), 9) == [hit.url for hit in hits]
    assert output.notes == ("2 results from index",)
    assert list(output.web) == []


def test_domains_hold_whatever_a_back_end_does() -> None:
    """Also below a domain, never beside it; each URL once, and as many as were asked for."""
    hosts = (
        "example.org",
        "www.example.org",
        "badexample.org",
        "example.org.evil.com",
        "x.bad.example.org",
        "b.net",
    )
    index = Index(*(f"http://{host}/" for host in (*hosts, "example.org")))
    search = tools(index)["web.search"]
    given = {"query": "x", "includeDomains": ["Example.org."], "excludeDomains": ["*.bad.example.org"]}
    assert urls_in(text_of(search.invoke(given, Context())), 9) == [
        "http://example.org/",
        "http://www.example.org/",
    ]
    one = search.invoke({"query": "x", "maxResults": 1}, Context())
    assert urls_in(text_of(one), 9) == ["http://example.org/"]
    asked = index.asked[0]
    assert (asked.include_domains, asked.exclude_domains) == (("Example.org.",), ("*.bad.example.org",))


def test_raw_content_is_given_where_there_is_any_and_stands_in_for_pages_that_fail() -> None:
    """A document each for web.search; for web.scrape when the page itself cannot be read."""
    with Site() as site:
        hits = (
            SearchHit(site.url("/gone.html"), "Gone", "short", 0.5, "The whole text."),
            SearchHit(site.url("/fsm.html")),
        )
        web = tools(Index(*hits))
        found = web["web.search"].invoke({"query": "x", "includeRawContent": True}, Context())
        scraped = web["web.scrape"].invoke({"query": "x", "includeRawContent": True}, Context())
        plain = tools(Index("http://example.org/"))["web.search"]
        none = plain.invoke({"query": "x", "includeRawContent": True, "includeAnswer": True}, Context())
    assert [document.name for document in found.documents] == ["results.md", "01-raw.md"]
    assert "The whole text." in text_of(found)
    assert [document.name for document in scraped.documents] == [
        "01-gone.md",
        "02-fsm.md",
        "02-fsm.source.html",
    ]
    assert "The whole text." in str(scraped.documents[0].data)
    assert any("could not be read: the server answered 404" in note for note in scraped.notes)
    assert len(none.notes) == 3


def test_a_crawl_reads_what_documents_name_and_says_when_they_name_nothing() -> None:
    """Lists, Markdown, HTML as bytes; each page once."""
    crawl = tools()["web.crawl"]
    with Site() as site:
        given = [
            Document("a.md", f"- {site.url('/fsm.html')}\n2. <{site.url('/guards.html')}>\n"),
            Document("b.html", f'<a href="{site.url("/fsm.html")}">x</a>'.encode(), "text/html"),
            Document("c.pdf", b"%PDF-1.4", "application/pdf"),
        ]
        output = crawl.invoke({"documentList": ["docList:x"]}, Context(given))
        assert sorted(site.paths) == ["/fsm.html", "/guards.html"]
        further = crawl.invoke(
            {"documentList": ["docList:x"], "extractDepth": "advanced"}, Context(given[:1])
        )
        assert sorted(set(site.paths)) == sorted(ARTICLES)
    assert [document.name for document in output.documents] == ["01-fsm.md", "02-guards.md"]
    assert [document.name for document in further.documents][:2] == ["01-fsm.md", "02-guards.md"]
    assert len(further.documents) == 4
    with pytest.raises(ToolError, match="names no document with a URL"):
        crawl.invoke({"documentList": ["docList:x"]}, Context([Document("a.txt", "no address")]))


def test_keys_and_passwords_do_not_show() -> None:
    """In no representation, and in no complaint about an address."""
    assert KEY not in repr(TavilySearch(KEY)) + str(vars(web_tools(TavilySearch(KEY))[0]))
    with pytest.raises(UsageError) as caught:
        TavilySearch(KEY, f"ftp://{KEY}@example.org")
    assert KEY not in str(caught.value)
    with pytest.raises(UsageError) as caught:
        TavilySearch(f"{KEY}\n\u00e9")
    assert KEY not in str(caught.value)
