"""
What comes from elsewhere is refused: more than 200 requests of others, each but for one thing like the page's own.

The request from which all are made is the page's own answer to a question, and the last test sends it: so what refuses the others is what was
changed in them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="needs paor[inspect]")

from paor import Engine
from paor.errors import UsageError
from paor.inspect import app

from ..support.cli_support import words
from .inside import listen, serve
from .inspect_kit import Answer, Browser, bank, request, rows_of, sent, served


@dataclass(frozen=True)
class Sent:
    """A request on its way; `{port}` and the like are filled in when it is sent."""

    method: str = "POST"
    target: str = "/answer/{run}"
    headers: tuple[tuple[str, str], ...] = (
        ("Host", "127.0.0.1:{port}"),
        ("Cookie", "{cookie}"),
        ("X-Paor-Token", "{page}"),
        ("Content-Type", "application/json"),
        ("Origin", "http://127.0.0.1:{port}"),
    )
    body: str | bytes = '{"name": "{question}", "answer": {"approve": true}, "actor": "eve"}'
    length: str | None = "{length}"
    padding: int = 0

    def having(self, **values: str | None) -> Sent:
        """Return it with other headers; None takes one away."""
        names = {name.replace("_", "-").lower(): value for name, value in values.items()}
        kept = [(name, value) for name, value in self.headers if name.lower() not in names]
        return replace(
            self, headers=(*kept, *((name, value) for name, value in names.items() if value is not None))
        )

    def also(self, name: str, value: str) -> Sent:
        """Return it with one header more, which may be there already."""
        return replace(self, headers=(*self.headers, (name, value)))

    def asking(self, method: str, target: str) -> Sent:
        """Return it as a request without a body."""
        headers = tuple(item for item in self.headers if item[0] in ("Host", "Cookie"))
        return replace(self, method=method, target=target, headers=headers, body=b"", length=None)


WRITE = Sent()
READ = WRITE.asking("GET", "/data/index")
PAGE = WRITE.asking("GET", "/")
LOGIN = replace(WRITE.asking("GET", "/?token={token}").having(Cookie=None))

HOSTS = (
    *words("""
        evil.example evil.example:{port} 127.0.0.1 localhost 127.0.0.1:1 localhost:80 [::1]:1
        localhost.evil.example:{port} 127.0.0.1.evil.example:{port} 127.0.0.1:{port}.evil.example
        0.0.0.0:{port} 127.0.0.2:{port} 2130706433:{port} 0x7f000001:{port} 127.1:{port}
        localhost.:{port} user@127.0.0.1:{port} 127.0.0.1:{port}@evil.example 127.0.0.1:{port}/
        127.0.0.1:{port},evil.example [::ffff:127.0.0.1]:{port} [::1%25lo]:{port} 127.0.0.1:0{port}
        127.0.0.1:+{port} 127.0.0.1: :{port} [::1] xn--localhost:{port}
    """),
    *("127.0.0.1:{port} evil.example", "\xfflocalhost:{port}", ""),
)
ORIGINS = (
    *words("""
        null http://evil.example https://evil.example http://evil.example:{port} http://127.0.0.1 *
        http://127.0.0.1:1 http://localhost:{port} https://127.0.0.1:{port} http://[::1]:{port} file://
        file:/// http://127.0.0.1:{port}.evil.example http://127.0.0.1:{port}@evil.example
        http://evil.example#127.0.0.1:{port} http://user@127.0.0.1:{port} http://127.0.0.1:{port}/
        http://127.0.0.1:{port}/data http://127.0.0.1:0{port} chrome-extension://abcdefghijklmnop data:
        about:blank blob:http://127.0.0.1:{port} ws://127.0.0.1:{port}
    """),
    *(
        "",
        "http://127.0.0.1:{port} http://evil.example",
        "http://127.0.0.1:{port}, http://evil.example",
        "http://127.0.0.1:{port}\xa0",
    ),
)
TYPES = (
    *words("""
        text/plain application/x-www-form-urlencoded text/json application/jsonp
        application/json-patch+json application/json;charset=utf-8;x=1 application/json;;
        application/csp-report application/ld+json */* json application/reports+json
    """),
    *(
        "multipart/form-data; boundary=x",
        "",
        "application/json, text/plain",
        "text/plain, application/json",
        "application/json; charset=utf-16",
        "text/plain; application/json",
        "application/json\x0btext/plain",
        "application\\json",
    ),
)
TOKENS = (
    *words("""
        x {token} {cookie} {cookie_value} {page}x {page_start} {page_upper} * null undefined
        {page},{page} aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
    """),
    *("", "\x00{page}", '"{page}"', "Bearer {page}", "\xff" * 43),
)
COOKIES = (
    *words("""
        x paor_inspect_{port}= paor_inspect_{port}=x paor_inspect_1={cookie_value}
        paor_inspect={cookie_value} paor_inspect_{port}={token} paor_inspect_{port}={page}
        PAOR_INSPECT_{port}={cookie_value} {cookie}x
    """),
    *("", "{cookie}x; x"),
)
ODD_BODIES = """
null
[]
"text"
1
{
{}
name=x&answer=yes
{"name": "{question}"}
{"answer": {"approve": true}}
{"name": "{question}", "answer": null}
{"name": 7, "answer": {"approve": true}}
{"name": "", "answer": {"approve": true}}
{"name": "{question}", "answer": {"approve": true}, "run": "x"}
{"name": ["{question}"], "answer": {"approve": true}}
{"name": "{question}", "answer": {"approve": NaN}}
{"name": "{question}", "answer": {"approve": true, "approve": false}}
{"name": "{question}", "answer": {"approve": 1}}
{"name": "{question}", "answer": {"approve": "true"}}
{"name": "{question}", "answer": true}
{"name": "{question}", "answer": {}}
{"name": "{question}", "answer": {"approve": true, "amount": 1}}
{"name": "{question}", "answer": {"action": "accept"}}
{"name": "{question}", "answer": {"approve": true}, "actor": 7}
{"name": "0-000000000000000000000000", "answer": {"approve": true}}
{"name": "{question_start}", "answer": {"approve": true}}
{"name": "{question}", "answer": {"approve": true}, "reason": {"a": 1}}
{"name": "{question}", "answer": {"approve": true}, "reason": false}
{"name": "{question}", "answer": {"approve": true}, "actor": []}
{"name": "{question}", "answer": {"approve": true}, "outcome": "done"}
{"name": "{question}", "answer": {"approve": true}} x
""".strip()
BODIES = (
    *ODD_BODIES.split("\n"),
    "",
    "\ufeff{}",
    '{"name": "{question}", "answer": ' + "[" * 50_000 + "]" * 50_000 + "}",
    '{"name": "{question}", "answer": {"approve": ' + "9" * 9000 + "}}",
    '{"name": "\\ud800", "answer": {"approve": true}}',
    '{"name": "{question}", "answer": {"approve": true}, "actor": "' + "a" * 9000 + '"}',
)
PARTS = (
    *words("""
        ../answer/{run} %2e%2e/answer/{run} ..%2fanswer%2f{run} /etc/passwd run/../../../etc/passwd run/..
        run/%2e%2e run/ run rows/{run} rows/{run}/ rows/{run}/-1 rows/{run}/999999 rows/{run}/0x0
        rows/{run}/1e3 rows/{run}/0/0 run/{run_start} run/{run}/x run/{run}%00 INDEX index/ index%00 diff
        run/%ff%fe run/last run/* run/'%20OR%201=1-- rows/{run}/%D9%A1
    """),
    *("run/{run}%0d%0aX: y", ""),
    "run/" + "a" * 5000,
)
METHODS = words("PUT PATCH DELETE OPTIONS TRACE FOO post Post HEAD GET PROPFIND CONNECT")


def forged() -> Iterator[tuple[str, Sent]]:
    """Yield every request of others, with what is wrong in it."""
    for host in HOSTS:
        yield f"write, host {host}", WRITE.having(host=host)
        yield f"read, host {host}", READ.having(host=host)
    for host in HOSTS[:12]:
        yield f"login, host {host}", LOGIN.having(host=host)
    for origin in ORIGINS:
        yield f"write, origin {origin}", WRITE.having(origin=origin)
    for origin in ORIGINS[:8]:
        yield f"read, origin {origin}", READ.having(origin=origin)
    for kind in TYPES:
        yield f"type {kind}", WRITE.having(content_type=kind)
    for token in TOKENS:
        yield f"token {token}", WRITE.having(x_paor_token=token)
    for cookie in COOKIES:
        yield f"write, cookie {cookie}", WRITE.having(cookie=cookie)
        yield f"read, cookie {cookie}", READ.having(cookie=cookie)
    for body in BODIES:
        yield f"body {body[:60]}", replace(WRITE, body=body)
    for name in PARTS:
        yield f"part {name[:60]}", READ.asking("GET", f"/data/{name}")
    for method in METHODS:
        yield f"method {method}", replace(WRITE, method=method)
    for site in ("cross-site", "same-site", "CROSS-SITE", "none, cross-site", "x"):
        yield f"write, site {site}", WRITE.having(sec_fetch_site=site)
        yield f"read, site {site}", READ.having(sec_fetch_site=site)
        yield (
            f"page, site {site}",
            PAGE.having(sec_fetch_site=site, sec_fetch_mode="no-cors", sec_fetch_dest="script"),
        )
    for frame in ("iframe", "frame", "embed", "object", "fencedframe", "IFRAME"):
        for name, base in (("page", PAGE), ("login", LOGIN), ("read", READ), ("write", WRITE)):
            yield f"{name} in {frame}", base.having(sec_fetch_dest=frame, sec_fetch_mode="navigate")
    yield from _others()


def _others() -> Iterator[tuple[str, Sent]]:
    for name in ("Host", "Cookie", "X-Paor-Token", "Content-Type", "Origin"):
        if name != "Cookie":
            value = dict(WRITE.headers)[name]
            yield f"{name} twice", WRITE.also(name, value)
            yield f"{name} twice, other case", WRITE.also(name.upper(), "x")
        yield f"no {name}", WRITE.having(**{name: None})
    yield "neither origin nor site", WRITE.having(origin=None, sec_fetch_site="none")
    yield "token in the query", replace(WRITE, target="/answer/{run}?token={token}").having(cookie=None)
    yield (
        "page token in the query",
        replace(WRITE, target="/answer/{run}?x-paor-token={page}").having(x_paor_token=None),
    )
    yield (
        "page token in the body",
        replace(WRITE, body='{"name": "{question}", "answer": {"approve": true}, "token": "{page}"}').having(
            x_paor_token=None
        ),
    )
    yield (
        "a form",
        replace(WRITE, body="name={question}&answer=%7B%22approve%22%3Atrue%7D").having(
            content_type="application/x-www-form-urlencoded"
        ),
    )
    yield (
        "a form as text",
        replace(WRITE, body='{"name": "{question}", "answer": {"approve": true}, "x": "="}').having(
            content_type="text/plain", x_paor_token=None
        ),
    )
    yield (
        "a beacon",
        WRITE.having(content_type="text/plain;charset=UTF-8", x_paor_token=None, sec_fetch_mode="no-cors"),
    )
    yield "override", replace(WRITE, method="GET").also("X-HTTP-Method-Override", "POST")
    yield "forwarded host", READ.having(host="evil.example").also("X-Forwarded-Host", "127.0.0.1:{port}")
    yield "forwarded for", READ.having(cookie=None).also("X-Forwarded-For", "127.0.0.1")
    yield "authorization", READ.having(cookie=None).also("Authorization", "Bearer {token}")
    yield "compressed", WRITE.also("Content-Encoding", "gzip")
    for action, query in (("answer", "name={question}&answer=true"), ("cancel", ""), ("fork", "seq=0")):
        yield f"GET {action}", READ.asking("GET", f"/{action}/{{run}}?{query}")
        yield f"HEAD {action}", READ.asking("HEAD", f"/{action}/{{run}}?{query}")
        asked = READ.asking("OPTIONS", f"/{action}/{{run}}").also("Origin", "http://evil.example")
        yield f"preflight {action}", asked.also("Access-Control-Request-Method", "POST")
        yield f"{action} of no run", replace(WRITE, target=f"/{action}/0000")
        yield f"{action} of the start of an id", replace(WRITE, target=f"/{action}/{{run_start}}")
    for body in (
        '{"seq": "0"}',
        '{"seq": -1}',
        '{"seq": 99}',
        '{"seq": 0.5}',
        '{"seq": true}',
        "{}",
        '{"seq": 1e0}',
    ):
        yield f"fork {body}", replace(WRITE, target="/fork/{run}", body=body)
    for body in ('{"force": true}', "[]", ""):
        yield f"cancel {body}", replace(WRITE, target="/cancel/{run}", body=body)
    for token in (
        "",
        "x",
        "{token}x",
        "{token_start}",
        "{page}",
        "{cookie_value}",
        "{token}&token=x",
        "%00{token}",
    ):
        yield f"login with {token}", replace(LOGIN, target=f"/?token={token}")
    yield "login by POST", replace(WRITE, target="/?token={token}").having(cookie=None)
    yield "login elsewhere", replace(LOGIN, target="/data/index?token={token}")
    for target in ("/events", "/events/{run}", "/", "/answer/{run}"):
        socket = READ.asking("GET", target).also("Connection", "Upgrade").also("Upgrade", "websocket")
        yield (
            f"websocket {target}",
            socket.also("Sec-WebSocket-Version", "13").also("Sec-WebSocket-Key", "dGhlIHNhbXBsZQ=="),
        )
    for after in ("x", "1e9", "0x1", "99999999999", "--1", "1-1", "%00"):
        yield f"events after {after}", READ.asking("GET", f"/events/{{run}}?after={after}")
    yield "search for nothing", READ.asking("GET", "/search?q=")
    yield "search for much", READ.asking("GET", f"/search?q={'a' * 300}")
    yield "2 MB", replace(WRITE, body='{"name": "' + "x" * 2_000_000 + '"}')
    yield "said to be 2 MB", replace(WRITE, length="2000000")
    chunked = replace(WRITE, length=None).also("Transfer-Encoding", "chunked")
    yield "2 MB in pieces", replace(chunked, padding=2_000_000)
    for length in ("-1", "1e1", "0x10", "+60", "60, 61", "9" * 40):
        yield f"length {length}", replace(WRITE, length=length)
    yield "length and pieces", WRITE.also("Transfer-Encoding", "chunked")
    yield "pieces of another kind", replace(WRITE, length=None).also("Transfer-Encoding", "gzip, chunked")
    yield (
        "a header within a header",
        WRITE.having(origin="http://evil.example\r\nOrigin: http://127.0.0.1:{port}"),
    )
    yield "a folded header", WRITE.having(origin="http://127.0.0.1:{port}\r\n .evil.example")
    yield "a line within a header", WRITE.having(x_paor_token="x\nX-Paor-Token: {page}")
    yield "a space before the colon", WRITE.having(origin=None).also("Origin ", "http://127.0.0.1:{port}")
    yield "another target", replace(READ, target="http://evil.example/data/index").having(host="evil.example")
    yield "no UTF-8", replace(WRITE, body=b'{"name": "\xff\xfe", "answer": {"approve": true}}')
    yield "a deep path", READ.asking("GET", "/" + "a/" * 4000)


FORGED = dict(forged())


@dataclass
class Place:
    """A server with a run that waits, and what a request is filled in with."""

    browser: Browser
    engine: Engine
    path: Path
    paid: list[int]
    words: dict[str, str] = field(default_factory=dict)

    def send(self, forgery: Sent) -> Answer:
        """Fill a request in and send it."""
        body = forgery.body if isinstance(forgery.body, bytes) else self._filled(forgery.body).encode()
        headers = [(name, self._filled(value)) for name, value in forgery.headers]
        if forgery.length is not None:
            headers.append(("Content-Length", forgery.length.replace("{length}", str(len(body)))))
        if forgery.padding:  # white space before the JSON: all of it would be read
            body = b"%x\r\n%b\r\n0\r\n\r\n" % (forgery.padding + len(body), b" " * forgery.padding + body)
        return sent(self.browser.port, request(forgery.method, self._filled(forgery.target), headers, body))

    def _filled(self, text: str) -> str:
        for name, value in self.words.items():
            text = text.replace(f"{{{name}}}", value)
        return text


@pytest.fixture(scope="module", name="place")
def make_place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Serve a run that waits for an approval."""
    path = tmp_path_factory.mktemp("forged") / "runs.db"
    paid: list[int] = []
    with bank(path, paid, 5) as engine:
        result = engine.run("Pay five")
        assert result.waiting_for is not None
        with served(app(engine)) as browser:
            place = Place(browser, engine, path, paid)
            value = browser.cookie.partition("=")[2]
            place.words = {
                "port": str(browser.port),
                "run": result.run_id,
                "run_start": result.run_id[:13],
                "question": result.waiting_for.id,
                "question_start": result.waiting_for.id[:12],
                "token": browser.token,
                "token_start": browser.token[:-1],
                "cookie": browser.cookie,
                "cookie_value": value,
                "page": browser.page_token,
                "page_start": browser.page_token[:-1],
                "page_upper": browser.page_token.swapcase(),
            }
            yield place


@pytest.mark.parametrize("name", FORGED)
def test_a_request_of_others_is_refused(name: str, place: Place) -> None:
    """Refused with a client error, without a word that lets another origin read it, and nothing is written."""
    before = rows_of(place.path)
    answer = place.send(FORGED[name])
    assert answer.status == 0 or 400 <= answer.status < 500, (answer.status, answer.body[:300])
    assert not [header for header in answer.headers if header.startswith("access-control-")]
    assert "set-cookie" not in answer.headers
    assert (
        place.words["page"].encode() not in answer.body and place.words["token"].encode() not in answer.body
    )
    assert rows_of(place.path) == before and place.paid == []


def test_there_are_at_least_200() -> None:
    """As many as were asked for."""
    assert len(FORGED) >= 200


@pytest.mark.parametrize(
    "base", [WRITE, READ, PAGE, LOGIN, READ.asking("GET", "/nothing"), WRITE.having(origin="null")]
)
def test_every_answer_says_that_it_is_not_to_be_framed_or_kept(base: Sent, place: Place) -> None:
    """Answers and refusals alike."""
    forgery = base.having(content_type="text/plain") if base is WRITE else base
    headers = place.send(forgery).headers
    assert headers["x-frame-options"] == "DENY" and headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer" and headers["cache-control"] == "no-store"
    assert headers["cross-origin-opener-policy"] == headers["cross-origin-resource-policy"] == "same-origin"
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy and "unsafe" not in policy
    assert "server" not in headers


def test_the_cookie_is_for_this_server_alone(place: Place) -> None:
    """No script reads it, no other site sends it, and the address that is led on to has no token."""
    answer = place.send(LOGIN)
    assert answer.status == 303 and answer.headers["location"] == "/"
    kept = answer.headers["set-cookie"].lower()
    assert (
        "httponly" in kept and "samesite=strict" in kept and "path=/;" in kept + ";" and "domain" not in kept
    )
    assert place.browser.token not in answer.headers["set-cookie"]


@pytest.mark.parametrize(
    "change", [lambda sent: sent, lambda sent: sent.having(sec_fetch_site="same-origin", origin=None)]
)
def test_what_the_page_itself_sends_would_be_taken(change: Callable[[Sent], Sent], place: Place) -> None:
    """The request that all of these were made from, but with a name that was never asked: it comes as far as the journal."""
    answer = place.send(
        change(
            replace(
                WRITE,
                body='{"name": "1-ffffffffffffffffffffffff", "answer": {"approve": true}, "actor": "ann"}',
            )
        )
    )
    assert answer.status == 422 and "does not ask" in answer.json["error"]


def test_the_request_that_was_not_forged_is_taken(place: Place) -> None:
    """So the others were refused for what was changed in them."""
    before = len(rows_of(place.path)[0])
    answer = place.send(WRITE)
    assert (answer.status, answer.json["ok"]) == (200, True)
    assert len(rows_of(place.path)[0]) > before


# -- who is let in -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host",
    ["0.0.0.0", "::", "10.0.0.5", "192.0.2.1", "example.org", "", "127.0.0.1.evil.example", "localhost.evil"],
)
def test_an_address_that_others_reach_is_refused(host: str) -> None:
    """Without being asked for, in one line."""
    with pytest.raises(UsageError, match="--allow-remote") as told:
        listen(host, 0)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"token": "short"}, "at least 16"),
        ({"token": "sixteen letters!"}, "at least 16"),
        ({"token": True}, "at least 16"),
        ({"token": False, "allow_remote": True}, "without a token"),
        ({"hosts": ("a b",)}, "expected a name"),
        ({"hosts": ("http://x",)}, "expected a name"),
        ({"hosts": ("",)}, "expected a name"),
        ({"options": lambda row: {}}, "is for an engine"),
    ],
)
def test_settings_that_keep_nobody_out_are_refused(
    options: dict[str, Any], words: str, tmp_path: Path
) -> None:
    """Before anything is served."""
    with bank(tmp_path / "runs.db", [], 5) as engine, pytest.raises(UsageError, match=words):
        app(engine.journal, **options)


def test_a_server_without_a_token_is_for_this_machine(tmp_path: Path) -> None:
    """An address that others reach needs one."""
    with bank(tmp_path / "runs.db", [], 5) as engine, pytest.raises(UsageError, match="needs a token"):
        serve(engine, host="0.0.0.0", allow_remote=True, token=False, hosts=("x",))


async def asked(inspector: Any, **scope: Any) -> int:
    """Return the status of an answer to a request with this scope."""
    told: list[Any] = []
    whole = {
        "type": "http",
        "method": "GET",
        "path": "/data/index",
        "query_string": b"",
        "scheme": "http",
        "http_version": "1.1",
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
        "headers": [],
        "root_path": "",
        "asgi": {"version": "3.0"},
        **scope,
    }

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        told.append(message)

    await inspector(whole, receive, send)
    return int(told[0].get("status", told[0].get("code")))


@pytest.mark.parametrize(
    ("client", "host", "server", "remote", "hosts", "status"),
    [
        ("127.0.0.1", "127.0.0.1", 80, False, (), 200),
        ("127.0.0.1", "127.0.0.1:8000", 8000, False, (), 200),
        ("::1", "[::1]:8000", 8000, False, (), 200),
        ("::ffff:127.0.0.1", "localhost:8000", 8000, False, (), 200),
        ("10.0.0.9", "127.0.0.1:8000", 8000, False, (), 403),
        ("10.0.0.9", "shop.example", 8000, False, ("shop.example",), 403),
        ("127.0.0.1", "shop.example", 8000, False, ("shop.example",), 200),
        ("127.0.0.1", "shop.example:8000", 8000, False, ("shop.example",), 200),
        ("127.0.0.1", "shop.example:8000", 8000, False, ("shop.example:8001",), 403),
        ("127.0.0.1", "10.0.0.5:8000", 8000, False, (), 403),
        ("10.0.0.9", "10.0.0.5:8000", 8000, True, ("x",), 200),
        ("10.0.0.9", "[fd00::5]:8000", 8000, True, ("x",), 200),
        ("10.0.0.9", "10.0.0.5:8001", 8000, True, ("x",), 403),
        ("10.0.0.9", "evil.example:8000", 8000, True, ("x",), 403),
        ("10.0.0.9", "shop.example", 8000, True, ("SHOP.example",), 200),
        ("testclient", "127.0.0.1", 80, False, (), 403),
        (None, "shop.example", None, False, ("shop.example",), 200),
        (None, "127.0.0.1", None, False, (), 403),
    ],
)
@pytest.mark.anyio
async def test_who_may_ask_under_which_name(
    client: str | None,
    host: str,
    server: int | None,
    remote: bool,
    hosts: tuple[str, ...],
    status: int,
    tmp_path: Path,
) -> None:
    """With the host's own checks instead of a token; another machine, or another name, is let in where that was said."""
    with bank(tmp_path / "runs.db", [], 5) as engine:
        inspector = app(engine.journal, token=False, allow_remote=remote, hosts=hosts)
        scope: dict[str, Any] = {
            "client": (client, 1) if client else None,
            "server": ("127.0.0.1", server) if server else ("/run/socket", None),
            "headers": [(b"host", host.encode())],
        }
        assert await asked(inspector, **scope) == status
        assert await asked(inspector, **scope | {"type": "websocket"}) == 1008
        inspector.close()


@pytest.fixture(scope="session", name="anyio_backend")
def choose_backend() -> str:
    """Run the coroutines of these tests on asyncio."""
    return "asyncio"


def test_no_part_of_an_answer_is_read_as_markup(place: Place) -> None:
    """What was asked for may come back in an error: as JSON, in ASCII, and never as a page."""
    answer = place.send(READ.asking("GET", "/data/run/%3Cscript%3Ealert(1)%3C%2Fscript%3E"))
    assert answer.status == 404 and answer.headers["content-type"] == "application/json"
    assert json.loads(answer.body)["error"]
