"""Pages of a real server on loopback: read well, and every way to be bad ends in words, within bounds."""

from __future__ import annotations

import itertools
import threading
import time
from dataclasses import replace

import pytest

from paor.errors import ToolError

from .websites import (
    ARTICLES,
    FAST,
    Answer,
    Context,
    Index,
    Site,
    Visit,
    article,
    bomb,
    packed,
    redirect,
    robots,
    scraped,
    sends,
    text_of,
    tools,
)

SMALL = replace(FAST, bytes_max=200_000, html_bytes=150_000, page_s=60.0, request_s=30.0)
SHORT = replace(SMALL, page_s=1.0, request_s=0.5)
"""For pages that never come."""


def failure(answers: dict[str, Answer], path: str = "/bad", **options: object) -> str:
    """Return why a page could not be read."""
    with Site(answers) as site, pytest.raises(ToolError) as caught:
        scraped(site.url(path), **options)  # type: ignore[arg-type]
    return str(caught.value)


# -- good pages ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["markdown", "text", "html"])
def test_a_page_becomes_its_main_text_without_what_stands_around_it(form: str) -> None:
    """Title, text and table; no menu, no newsletter, no footer, no script."""
    with Site() as site:
        output = scraped(site.url("/mealy.html"), format=form)
    [document] = output.documents
    assert document.mime == {"markdown": "text/markdown", "text": "text/plain", "html": "text/html"}[form]
    assert document.name == {"markdown": "01-mealy.md", "text": "01-mealy.txt", "html": "01-mealy.html"}[form]
    text = str(document.data)
    assert "Mealy machines" in text
    assert site.url("/mealy.html") in text
    assert "George Mealy described it in 1955." in text
    assert "planning" in text and "acting" in text
    for noise in ("newsletter", "imprint", "Home", "secret"):
        assert noise not in text
    assert ("<p>" in text) == (form == "html")


CHARSETS = {
    "the server's": ("iso-8859-2", "text/html; charset=iso-8859-2", "utf-8"),
    "the page's": ("windows-1251", "text/html", "windows-1251"),
    "utf-8 without a word": ("utf-8", "text/html", "utf-8"),
    "a wrong one": ("cp1252", "text/html; charset=utf-8", "utf-8"),
    "an unknown one": ("utf-8", "text/html; charset=klingon", "utf-8"),
    "Python's own": ("utf-8", "text/html; charset=unicode_escape", "utf-8"),
    "utf-16 with a mark": ("utf-16", "text/html; charset=utf-8", "utf-8"),
}


@pytest.mark.parametrize("case", CHARSETS)
def test_text_is_decoded_whatever_is_said_of_it(case: str) -> None:
    """The server's word, the page's, or a good guess; never an error."""
    codec, mime, meta = CHARSETS[case]
    words = {"iso-8859-2": "Zażółć gęślą jaźń", "windows-1251": "Съешь ещё этих булок"}.get(
        codec, "Grüße für alle"
    )
    body = article("Page", f"It says: {words}, and that is all.", charset=meta).encode(codec)
    with Site({"/a": sends(body, mime)}) as site:
        assert words in text_of(scraped(site.url("/a")))


@pytest.mark.parametrize(("form", "encoding"), [("gzip", "gzip"), ("zlib", "deflate"), ("bare", "deflate")])
def test_packed_pages_are_unpacked(form: str, encoding: str) -> None:
    """All three forms that servers send under two names."""
    body = packed(article(*ARTICLES["/fsm.html"]), form)
    with Site({"/a": sends(body, Content_Encoding=encoding)}) as site:
        assert "exactly one state" in text_of(scraped(site.url("/a")))


@pytest.mark.whole
def test_other_documents_than_pages_are_read_too() -> None:
    """Plain text, JSON and PDF go the way of documents; the type of a server that does not know is not believed."""
    from fpdf import FPDF

    pdf = FPDF()
    pdf.add_page()
    pdf.set_font("Helvetica", size=12)
    pdf.cell(text="The supplier delivers within ten days.")
    answers = {
        "/a.txt": sends("Plain words.", "text/plain"),
        "/b": sends('{"delivery": "ten days"}', "application/json"),
        "/c": sends(bytes(pdf.output()), "application/octet-stream"),
    }
    with Site(answers) as site:
        assert "Plain words." in text_of(scraped(site.url("/a.txt")))
        assert "ten days" in text_of(scraped(site.url("/b")))
        assert "within ten days" in text_of(scraped(site.url("/c")))


# -- bad pages -------------------------------------------------------------------------------------------------------

BAD: dict[str, tuple[Answer, str]] = {
    "not found": (sends("", status=404), "the server answered 404"),
    "broken": (sends("boom", status=500), "the server answered 500"),
    "empty": (sends(""), "the page is empty"),
    "a redirect without a target": (sends("", status=302), "the server answered 302"),
    "a picture": (sends(b"\x89PNG\r\n\x1a\n" + b"\0" * 50, "image/png"), "'image/png', which is not read"),
    "a film": (sends(b"\0" * 50, "video/mp4"), "'video/mp4', which is not read"),
    "binary data": (sends(bytes(range(256)) * 9, "text/html"), "binary"),
    "a program": (sends(b"MZ" + bytes(range(256)) * 9, "application/octet-stream"), "binary data of no known kind"),
    "nothing to read": (sends("<html><body></body></html>"), "holds no text"),
    "a gzip bomb": (sends(bomb(100_000_000), Content_Encoding="gzip"), "is larger than 200,000 bytes"),
    "a bomb in a bomb": (sends(bomb(1000), Content_Encoding="gzip, gzip"), "which was not asked for"),
    "an unknown packing": (sends("x", Content_Encoding="br"), "is packed as 'br'"),
    "damaged packing": (sends(b"\x1f\x8bnonsense", Content_Encoding="gzip"), "is packed and damaged"),
    "huge": (sends(b"<p>" + b"word " * 50_000), "is larger than 200,000 bytes"),
    "a huge page": (sends(b"<html><p>" + b"word " * 35_000), "is a page of more than 150,000 bytes"),
    "endless": (lambda visit: _endless(visit, b"<p>more</p>" * 1000, 0.0), "is larger than 200,000 bytes"),
    "endless and slow": (lambda visit: _endless(visit, b"x", 0.05), "took longer than 1 seconds"),
    "endless headers": (lambda visit: _dripping(visit), "took longer than 1 seconds"),
    "silent": (lambda visit: _silent(visit), "did not answer in time"),
    "cut": (lambda visit: _cut(visit), "was cut or is not HTTP"),
    "no HTTP": (lambda visit: _no_http(visit), "was cut or is not HTTP"),
}  # fmt: skip


def _endless(visit: Visit, chunk: bytes, pause: float) -> None:
    visit.head("text/html")
    visit.endless(chunk, pause)


def _dripping(visit: Visit) -> None:
    visit.wfile.write(b"HTTP/1.1 200 OK\r\nX-Long: ")
    visit.endless(b"x", 0.05)


def _silent(visit: Visit) -> None:
    visit.server.site.closing.wait(60)
    visit.close_connection = True


def _cut(visit: Visit) -> None:
    visit.head("text/html", Content_Length="1000")
    visit.wfile.write(b"<html>")
    visit.close_connection = True


def _no_http(visit: Visit) -> None:
    visit.wfile.write(b"SSH-2.0-server\r\n")
    visit.close_connection = True


@pytest.mark.parametrize("case", BAD)
def test_a_bad_page_ends_in_words(case: str) -> None:
    """In one line that names the URL, and never in another exception."""
    answer, told = BAD[case]
    settings = SHORT if case in ("endless and slow", "endless headers", "silent") else SMALL
    message = failure({"/bad": answer}, settings=settings)
    assert "/bad: " in message
    assert told in message


def test_a_server_that_nobody_runs_is_told() -> None:
    """A closed port, and a name that does not exist."""
    with Site() as site:
        port = site.port
    with pytest.raises(ToolError, match="no connection to the server"):
        scraped(f"http://127.0.0.1:{port}/", settings=replace(FAST, robots=False))

    def unknown(host: str, port: int) -> list[str]:
        raise OSError("no such name")

    with pytest.raises(ToolError, match=r"the name nowhere\.example is not known"):
        scraped("http://nowhere.example/", settings=replace(FAST, robots=False), resolver=unknown)


def test_a_resolver_that_hangs_is_not_waited_for() -> None:
    """The time of the page is the time of its name too."""

    let_go = threading.Event()

    def hanging(host: str, port: int) -> list[str]:
        let_go.wait(60)
        return ["127.0.0.1"]

    settings = replace(FAST, robots=False, page_s=0.2)
    with pytest.raises(ToolError, match="was not resolved in time"):
        scraped("http://slow.example/", settings=settings, resolver=hanging)
    let_go.set()


def test_a_calls_time_is_bounded_however_many_pages_are_slow() -> None:
    """Pages that the time does not reach are told, the others are there."""
    slow = {f"/slow{number}": BAD["silent"][0] for number in range(8)}
    settings = replace(FAST, call_s=2.0, page_s=30.0, workers=2)
    with Site(slow) as site:
        index = Index(site.url("/fsm.html"), *(site.url(path) for path in slow))
        began = time.monotonic()
        output = tools(index, settings)["web.scrape"].invoke(
            {"query": "machines", "maxResults": 9}, Context()
        )
        assert time.monotonic() - began < 30  # less than one of eight pages that never come
    assert [document.name for document in output.documents] == ["01-fsm.md"]
    assert len(output.notes) == 9


@pytest.mark.whole
def test_a_call_that_has_a_bound_returns_what_it_has_before_it_is_given_up() -> None:
    """The bound of the call is shorter than the tools' own."""
    slow = {f"/slow{number}": BAD["silent"][0] for number in range(4)}
    with Site(slow) as site:
        index = Index(site.url("/fsm.html"), *(site.url(path) for path in slow))
        context = Context()
        context.timeout_s = 4
        settings = replace(FAST, page_s=30.0, workers=2)
        output = tools(index, settings)["web.scrape"].invoke({"query": "machines", "maxResults": 5}, context)
    assert [document.name for document in output.documents] == ["01-fsm.md"]
    assert any("3.6 seconds" in note for note in output.notes)


# -- redirects -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_followed(status: int) -> None:
    """Every kind; the document says where it came from at last."""
    with Site({"/old": redirect("/fsm.html", status)}) as site:
        assert site.url("/fsm.html") in text_of(scraped(site.url("/old")))
        assert site.paths == ["/old", "/fsm.html"]


def test_redirect_loops_end() -> None:
    """One page to itself, two to each other, and a chain that never comes back."""

    def onward(visit: Visit) -> None:
        redirect(f"/on?n={int(visit.query.get('n', 0)) + 1}")(visit)

    answers = {"/self": redirect("/self"), "/a": redirect("/b"), "/b": redirect("/a"), "/on": onward}
    with Site(answers) as site:
        for path in ("/self", "/a", "/on"):
            site.visits.clear()
            with pytest.raises(ToolError, match="more than 5 redirects"):
                scraped(site.url(path))
            assert len(site.paths) == 6


# -- manners ---------------------------------------------------------------------------------------------------------


def test_robots_txt_is_honoured() -> None:
    """By path, with wildcards, also where a redirect leads; asked for once a site."""
    rules = "User-agent: *\nAllow: /open/\nDisallow: /private\nDisallow: /*.secret$\n"
    with Site(robots(rules) | {"/old": redirect("/private/x")}) as site:
        web = tools()["web.scrape"]
        for path in ("/private/x", "/a.secret", "/old"):
            with pytest.raises(ToolError, match=r"robots\.txt does not allow it"):
                web.invoke({"query": site.url(path)}, Context())
        web.invoke({"query": site.url("/fsm.html")}, Context())
        asked = [path for _, path, _ in site.visits]
    assert asked == ["/robots.txt", "/old", "/fsm.html"]


ROBOTS: dict[str, tuple[dict[str, Answer], bool]] = {
    "none": ({}, True),
    "empty": (robots(""), True),
    "forbidden to read": (robots("no", 403), True),
    "for us": (robots("User-agent: paor\nDisallow: /\n\nUser-agent: *\nAllow: /"), False),
    "for others": (robots("User-agent: other\nDisallow: /"), True),
    "broken server": (robots("", 503), False),
    "asked too often": (robots("", 429), False),
    "binary": ({"/robots.txt": sends(bytes(range(256)), "text/plain")}, True),
    "endless": ({"/robots.txt": lambda visit: _endless(visit, b"# more\n" * 999, 0.0)}, True),
    "moved": ({"/robots.txt": redirect("/rules"), "/rules": sends("User-agent: *\nDisallow: /", "text/plain")}, False),
    "moved in a circle": ({"/robots.txt": redirect("/robots.txt")}, False),
    "patterns of stars": (robots("User-agent: *\nDisallow: /" + "*a" * 900 + "b$"), True),
}  # fmt: skip


@pytest.mark.parametrize("case", ROBOTS)
def test_every_kind_of_robots_txt_means_yes_or_no(case: str) -> None:
    """As RFC 9309 says: none is yes, a server that cannot tell is no."""
    answers, allowed = ROBOTS[case]
    with Site(answers) as site:
        if allowed:
            assert "exactly one state" in text_of(scraped(site.url("/fsm.html")))
        else:
            with pytest.raises(ToolError, match=r"robots\.txt"):
                scraped(site.url("/fsm.html"))
            assert "/fsm.html" not in site.paths
        scraped(site.url("/fsm.html"), settings=replace(FAST, robots=False))  # a host's own site


def test_one_host_is_asked_slowly() -> None:
    """The longer of the host's interval and the site's Crawl-delay lies between two requests."""
    with Site(robots("User-agent: *\nCrawl-delay: 0.3")) as site:
        index = Index(*(site.url(path) for path in ARTICLES))
        settings = replace(FAST, host_interval_s=0.1)
        output = tools(index, settings)["web.scrape"].invoke({"query": "machines"}, Context())
        times = [at for at, path, _ in site.visits if path != "/robots.txt"]
    assert len(output.documents) == 4
    assert all(after - before > 0.25 for before, after in itertools.pairwise(times))


def test_a_page_is_kept_for_a_while_and_no_longer_than_there_is_room() -> None:
    """The same page twice is one request; without room, or too old, it is two."""
    with Site() as site:
        for settings, visits in (
            (FAST, 1),
            (replace(FAST, cache_bytes=10), 2),
            (replace(FAST, cache_s=0), 2),
        ):
            web = tools(settings=settings)["web.scrape"]
            site.visits.clear()
            texts = [text_of(web.invoke({"query": site.url("/fsm.html")}, Context())) for _ in range(2)]
            assert texts[0] == texts[1]
            assert len(site.paths) == visits


def test_the_server_is_told_who_asks_and_nothing_else() -> None:
    """The product's name, no referrer, no cookie of another site, no credentials of the environment."""
    with Site() as site:
        scraped(site.url("/fsm.html"))
        headers = {name.lower(): value for name, value in site.visits[-1][2].items()}
    assert "paor" in headers["user-agent"]
    assert headers.keys() <= {"host", "user-agent", "accept", "accept-encoding", "connection"}
