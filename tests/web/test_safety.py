"""URLs of the web tools: checked as text, as an address when it is connected to, and again after every redirect."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paor import Document, Policy
from paor.errors import ToolError

from .inside import unsafe_address, unsafe_url
from .websites import FAST, LOCAL, Context, Index, Site, redirect, scraped, text_of, tools

PUBLIC = Policy()
OPEN = replace(FAST, robots=False)
BAD_URLS = {
    "file": "file:///etc/passwd",
    "script": "javascript:alert(1)",
    "data": "data:text/html,x",
    "nothing": "",
    "no host": "http:///x",
    "user and password": "http://user:secret@example.org/",
    "a host as user": "http://example.org@127.0.0.1/",
    "loopback": "http://127.0.0.1/",
    "loopback by name": "http://localhost:8080/",
    "local names": "http://printer.local/",
    "decimal": "http://2130706433/",
    "link local": "http://169.254.169.254/latest/meta-data/",
    "IPv6 loopback": "http://[::1]/",
    "IPv4 mapped": "http://[::ffff:127.0.0.1]/",
    "port of mail": "http://example.org:25/",
    "no port": "http://example.org:99999/",
    "backslash": "http://example.org\\@127.0.0.1/",
    "long": "http://example.org/" + "a" * 3000,
    "broken": "http://[::1",
    "a line break": "http://example.org/\r\nX-Evil: yes",
    "a blank": "http://example.org/a b",
    "NUL": "http://example.org/\0",
    "a name of one word": "http://intranet/",
    "a number that is no address": "http://127.0.0.08/",
}


@pytest.mark.parametrize("case", BAD_URLS)
def test_A092_a_url_that_must_not_be_fetched_is_refused_before_anything_is_sent(case: str) -> None:
    """By the rule, and by web.scrape, web.crawl and the results of a search, without a look at the name server."""
    url = BAD_URLS[case]
    assert unsafe_url(PUBLIC, url)

    def resolver(host: str, port: int) -> list[str]:
        raise AssertionError(f"{host} was looked up")

    index = Index(url)
    web = tools(index, OPEN, resolver=resolver)
    found = web["web.search"].invoke({"query": "x"}, Context(policy=PUBLIC))
    assert "Nothing was found." in text_of(found)
    assert web["web.scrape"].invoke({"query": "x"}, Context(policy=PUBLIC)).documents == ()
    if url.lower().startswith("http"):
        with pytest.raises(ToolError):
            web["web.scrape"].invoke({"query": url}, Context(policy=PUBLIC))
    if case == "backslash":
        return  # in a text it ends the URL
    with pytest.raises(ToolError):
        listed = Document("a.txt", f"see {url} there")
        web["web.crawl"].invoke({"documentList": ["docList:x"]}, Context([listed], PUBLIC))


GOOD_URLS = (
    "http://example.org",
    "https://example.org:8443/a?b=c#d",
    "HTTP://EXAMPLE.ORG/",
    "http://8.8.8.8/",
    "http://[2606:4700::1111]/",
    "https://xn--bcher-kva.example/",
)


@pytest.mark.parametrize("url", GOOD_URLS)
def test_A092_public_urls_may_be_fetched(url: str) -> None:
    """Names, addresses, ports that web servers have."""
    assert unsafe_url(PUBLIC, url) is None
    assert unsafe_url(Policy(url_schemes=("https",)), url) is None or url[:5].lower() == "http:"


@given(st.text(max_size=60))
def test_A092_any_text_gets_a_verdict(text: str) -> None:
    """Never an exception, whatever is in a page."""
    for url in (text, f"http://{text}/", f"http://example.org{text}"):
        reason = unsafe_url(PUBLIC, url)
        assert reason is None or reason
        assert unsafe_address(PUBLIC, text) in (True, False)


PRIVATE = ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "fe80::1%eth0", "::ffff:10.0.0.1", "fd00::1", "0.0.0.0", "x"]  # fmt: skip


@pytest.mark.parametrize("address", PRIVATE)
def test_A092_a_public_name_with_a_private_address_is_not_connected_to(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the name is; also when only one of its addresses is private."""
    monkeypatch.setattr(socket, "create_connection", _forbidden)
    for addresses in ([address], ["8.8.8.8", address]):
        with pytest.raises(ToolError, match="names a private address"):
            scraped("http://example.org/", OPEN, PUBLIC, resolver=lambda host, port, found=addresses: found)


def _forbidden(*arguments: Any, **options: Any) -> Any:
    raise AssertionError(f"connected to {arguments}")


def test_A092_the_address_that_was_checked_is_the_one_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name server that changes its mind (DNS rebinding) is asked once, and the number it gave is used."""
    answers = iter([["93.184.216.34"], ["127.0.0.1"]])
    asked: list[str] = []
    connected: list[tuple[str, int]] = []

    def resolver(host: str, port: int) -> list[str]:
        asked.append(host)
        return next(answers)

    def connect(address: tuple[str, int], *arguments: Any, **options: Any) -> socket.socket:
        connected.append(address)
        raise OSError("unreachable")

    monkeypatch.setattr(socket, "create_connection", connect)
    with pytest.raises(ToolError, match="no connection"):
        scraped("http://rebind.example:8080/", OPEN, PUBLIC, resolver=resolver)
    assert (asked, connected) == (["rebind.example"], [("93.184.216.34", 8080)])


def test_A092_a_pinned_connection_still_speaks_to_the_name() -> None:
    """The server gets the name in its Host header, though the number was connected to."""
    with Site() as site:
        scraped(site.url("/fsm.html", "www.example.org"), resolver=lambda host, port: ["127.0.0.1"])
        assert {visit[2]["Host"] for visit in site.visits} == {f"www.example.org:{site.port}"}


REDIRECTS = {
    "to loopback": ("http://127.0.0.1/admin", "names a private address"),
    "to the metadata service": ("http://169.254.169.254/latest/meta-data/", "gives credentials"),
    "to a decimal host": ("http://2130706433/", "names a private address"),
    "to a private name": ("http://localhost/", "names a private host"),
    "to a file": ("file:///etc/passwd", "cannot be fetched"),
    "to a script": ("javascript:alert(1)", "redirects to something that is no URL"),
    "to a user": ("http://user:secret@example.org/", "user info"),
    "to another port": ("http://example.org:25/", "has the port 25"),
    "to nonsense": ("http://[::1", "redirects to something that is no URL"),
}


@pytest.mark.parametrize("case", REDIRECTS)
@pytest.mark.parametrize("hops", [1, 3])
def test_A092_every_redirect_is_checked_again(case: str, hops: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A public page that leads to a private one, at once or at the end of a chain; nothing is sent there."""
    target, told = REDIRECTS[case]
    with Site({f"/{n}": redirect(f"/{n + 1}" if n < hops else target) for n in range(1, hops + 1)}) as site:
        _pretend_public(site, monkeypatch)
        with pytest.raises(ToolError) as caught:
            scraped(site.url("/1", "example.org"), OPEN, PUBLIC, resolver=lambda host, port: ["8.8.8.8"])
        assert len(site.visits) == hops
    assert told in str(caught.value)


def test_A092_a_name_that_turns_private_after_a_redirect_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second connection is checked as the first one was."""
    addresses = {"a.example": ["8.8.8.8"], "b.example": ["192.168.0.1"]}
    with Site() as site:
        site.answers["/1"] = redirect(site.url("/fsm.html", "b.example"))
        _pretend_public(site, monkeypatch)
        with pytest.raises(ToolError, match="names a private address"):
            scraped(site.url("/1", "a.example"), OPEN, PUBLIC, resolver=lambda host, port: addresses[host])
        assert site.paths == ["/1"]


def test_A092_robots_txt_leads_nowhere_private_either(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rules of a site are asked for with the same care."""
    with Site({"/robots.txt": redirect("http://127.0.0.1:8080/x")}) as site:
        _pretend_public(site, monkeypatch)
        with pytest.raises(ToolError, match="names a private address"):
            scraped(site.url("/a", "example.org"), FAST, PUBLIC, resolver=lambda host, port: ["8.8.8.8"])
        assert [path for _, path, _ in site.visits] == ["/robots.txt"]


def _pretend_public(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the address 8.8.8.8 lead to *site*, and no other address anywhere."""
    connect = socket.create_connection

    def connected(address: tuple[str, int], *arguments: Any, **options: Any) -> socket.socket:
        assert address[0] == "8.8.8.8", f"connected to {address}"
        return connect(("127.0.0.1", site.port), *arguments, **options)

    monkeypatch.setattr(socket, "create_connection", connected)


def test_A092_proxies_and_credentials_of_the_environment_are_not_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """A proxy would resolve names again, and a .netrc would tell them to whoever asks."""
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login me password secret", encoding="utf-8")
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with Site() as site:
        assert "exactly one state" in text_of(scraped(site.url("/fsm.html")))
        assert all("Authorization" not in headers for _, _, headers in site.visits)


@pytest.fixture
def secure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A site with TLS for the name secure.example, whose certificate is trusted."""
    if shutil.which("openssl") is None:
        pytest.skip("needs the program openssl to make a certificate")
    key, certificate = str(tmp_path / "key.pem"), str(tmp_path / "certificate.pem")
    names = ["-subj", "/CN=secure.example", "-addext", "subjectAltName=DNS:secure.example"]
    making = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *names]
    subprocess.run([*making, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate, key)
    trusted = ssl.create_default_context(cafile=certificate)
    monkeypatch.setattr("paor.tools.web.transport._certificates", lambda: trusted)
    with Site(tls=server) as site:
        yield site


def test_A092_tls_checks_the_name_though_the_address_is_connected_to(secure: Site) -> None:
    """The right name is read, another one for the same server is not."""

    def resolver(host: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    url = secure.url("/fsm.html", "secure.example").replace("http:", "https:")
    assert "exactly one state" in text_of(scraped(url, resolver=resolver))
    other = url.replace("secure.example", "other.example")
    with pytest.raises(ToolError, match="certificate is not valid"):
        scraped(other, resolver=resolver)
    assert {visit[2]["Host"].partition(":")[0] for visit in secure.visits} == {"secure.example"}


def test_A092_a_policy_may_allow_private_hosts_and_never_users_or_other_schemes() -> None:
    """`Policy.private_hosts` opens hosts, nothing else."""
    assert unsafe_url(LOCAL, "http://127.0.0.1:8080/") is None
    assert unsafe_url(LOCAL, "http://localhost/") is None
    for url in ("http://user@127.0.0.1/", "file:///etc/passwd", "http://127.0.0.1:22/"):
        assert unsafe_url(LOCAL, url)
