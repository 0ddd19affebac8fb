"""
Who may ask what: the checks that every request passes before anything of the journal is read or changed.

Four attackers are kept out. A page of another site cannot read (the cookie is `SameSite=Strict`, nothing allows CORS, what the browser
says of a request's origin is believed when it says no) and cannot write (a write also needs a header that only this page knows, and a body
that no form can send). A name that is bound to this address (DNS rebinding) is refused by its ``Host``. A page that frames this one is
refused. Another machine is refused unless it was let in, and then it needs the token.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import Any, Literal
from urllib.parse import parse_qs, quote

from starlette.datastructures import MutableHeaders
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..states.base.errors import UsageError

TOKEN_CHARS = 16
"""Characters that a token given by a host has at least; our own has 43."""

BODY_BYTES = 1 << 20
"""Bytes of a request's body, about 100 times the largest answer that we have seen."""

PAGE_HEADER = "x-paor-token"
"""Header of every write; its value is in the page, and in no cookie."""

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
"""Names under which a browser on this machine reaches it."""

NOTHING = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
"""Content-Security-Policy of everything but the page."""

HEADERS = {
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Robots-Tag": "noindex",
}
"""Headers of every answer."""

FRAMES = frozenset(("iframe", "frame", "embed", "object", "fencedframe"))
"""``Sec-Fetch-Dest`` of what shows one page within another."""


class Refused(Exception):
    """
    A request that is not answered.

    Attributes:
        status: HTTP status.
        message: One line that says why, and what to do.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


@dataclass(frozen=True, slots=True)
class Access:
    """
    What a request must bring.

    Attributes:
        token: Secret of this start, None where the host's own server has checked already who asks.
        page_token: Secret that only the page knows, for writes.
        hosts: Further values of ``Host``, in small letters, with a port or for any port.
        allow_remote: Whether other machines may ask.
    """

    token: str | None
    page_token: str
    hosts: frozenset[str] = frozenset()
    allow_remote: bool = False

    @property
    def cookie_value(self) -> str:
        """What the cookie holds: it shows that somebody had the token, and is not the token."""
        assert self.token is not None, "without a token there is no cookie"
        return hmac.new(self.token.encode(), b"paor inspect: cookie", hashlib.sha256).hexdigest()

    def check(self, scope: Scope) -> None:
        """
        Let a request pass.

        Raises:
            Refused: It does not bring what it must.
        """
        headers = Headers(scope)
        host = self.check_place(headers, scope)
        if self.token is not None and not _same_text(headers.cookies(cookie_name(host)), self.cookie_value):
            raise Refused(401, "open the address with its token, as paor inspect printed it")
        if scope["method"] not in ("GET", "HEAD"):
            self._check_write(headers)

    def check_place(self, headers: Headers, scope: Scope) -> str:
        """
        Return the name under which a request reaches this server, and from nowhere else than from its own page.

        Raises:
            Refused: It comes from another machine, under another name, or from a page of another origin.
        """
        self._check_client(scope)
        host = headers.one("host")
        if host is None or not self._is_ours(host.lower(), scope):
            raise Refused(403, "this server does not answer under that name (Host); see --allow-host")
        if (headers.one("upgrade") or "").lower() == "websocket":
            raise Refused(400, "there is no WebSocket here")
        self._check_site(headers, scope)
        origin = headers.one("origin")
        if origin is not None and not self._is_same(origin, host, scope):
            raise Refused(403, "this comes from a page of another origin")
        return host

    def _check_client(self, scope: Scope) -> None:
        client = scope.get("client")
        if self.allow_remote or client is None:  # None: a socket in the file system
            return
        if not is_loopback(str(client[0])):
            raise Refused(403, "other machines are not let in; see --allow-remote")

    def _is_ours(self, host: str, scope: Scope) -> bool:
        name, _, port = host.rpartition(":") if _has_port(host) else (host, "", "")
        if host in self.hosts or name in self.hosts:
            return True
        server = scope.get("server")
        own = str(server[1]) if server is not None and server[1] is not None else ""
        usual = "443" if scope["scheme"] == "https" else "80"
        if not own or (port or usual) != own:
            return False
        # a number cannot be bound to another address, only a name can
        return name in LOOPBACK or (self.allow_remote and is_address(name))

    def _is_same(self, origin: str, host: str, scope: Scope) -> bool:
        """Return whether an origin is that of the server; one that a host named may stand behind a server that ends TLS."""
        schemes = (
            {scope["scheme"]} if host.rpartition(":")[0].lower() in LOOPBACK else {scope["scheme"], "https"}
        )
        return any(origin.lower() == f"{scheme}://{host.lower()}" for scheme in schemes)

    def _check_site(self, headers: Headers, scope: Scope) -> None:
        if (headers.one("sec-fetch-dest") or "").lower() in FRAMES:
            raise Refused(403, "this page is not shown within another one")
        site = (headers.one("sec-fetch-site") or "none").lower()
        opened = (headers.one("sec-fetch-mode"), headers.one("sec-fetch-dest")) == ("navigate", "document")
        if site not in ("none", "same-origin") and not (opened and is_page(scope)):
            raise Refused(403, "this comes from a page of another origin")

    def _check_write(self, headers: Headers) -> None:
        if headers.one("origin") is None and headers.one("sec-fetch-site") != "same-origin":
            raise Refused(403, "a write says where it comes from (Origin)")
        if not _same_text([headers.one(PAGE_HEADER) or ""], self.page_token):
            raise Refused(403, "a write needs the page's own token; load the page again")
        kind, _, parameters = (headers.one("content-type") or "").lower().partition(";")
        if kind.strip() != "application/json" or parameters.strip() not in ("", "charset=utf-8"):
            raise Refused(415, "a write is JSON (Content-Type: application/json)")
        if headers.one("content-encoding") is not None:
            raise Refused(415, "a write is not compressed")
        if None not in (headers.one("transfer-encoding"), headers.one("content-length")):
            raise Refused(400, "a write has one length")
        length = headers.one("content-length") or "0"
        if not (length.isascii() and length.isdecimal()) or int(length[:20]) > BODY_BYTES:
            raise Refused(413, f"a write has at most {BODY_BYTES:,} bytes")


class Headers:
    """
    The headers of a request, each at most once where it counts.

    Args:
        scope: Of the request.
    """

    def __init__(self, scope: Scope) -> None:
        self._all: list[tuple[bytes, bytes]] = list(scope["headers"])

    def one(self, name: str) -> str | None:
        """
        Return a header, None when it is not there.

        Raises:
            Refused: It stands twice, so that two programs may read it differently.
        """
        found = [value for key, value in self._all if key.lower() == name.encode()]
        if len(found) > 1:
            raise Refused(400, f"the header {name} stands twice")
        return found[0].decode("latin-1").strip(" \t") if found else None

    def cookies(self, name: str) -> list[str]:
        """Return the values of a cookie; another program of this machine may have set one of the same name."""
        found = []
        for key, value in self._all:
            if key.lower() != b"cookie":
                continue
            for pair in value.decode("latin-1").split(";"):
                try:
                    read = SimpleCookie(pair)
                except CookieError:
                    continue
                found += [read[name].value] if name in read else []
        return found


class Guard:
    """
    ASGI middleware: lets through what `Access.check` lets through, and gives every answer its headers.

    Args:
        app: What is guarded.
        access: What a request must bring.
    """

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self.app, self.access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.setdefault("Content-Security-Policy", NOTHING)
                headers.update(HEADERS)
            await send(message)

        try:
            answer: ASGIApp = self._login(scope) or self._checked(scope)
        except Refused as error:
            answer = refusal(error, scope)
        await answer(scope, receive, send_guarded)

    def _checked(self, scope: Scope) -> ASGIApp:
        self.access.check(scope)
        return self.app

    def _login(self, scope: Scope) -> Response | None:
        """Return what sets the cookie for the right token in the page's address, and leads on to the address without it."""
        access = self.access
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [])
        if access.token is None or scope["method"] != "GET" or not is_page(scope) or not given:
            return None
        host = access.check_place(Headers(scope), scope)
        if not _same_text(given[:1], access.token) or len(given) > 1:
            raise Refused(401, "this token is not the one of this start; see what paor inspect printed")
        answer = RedirectResponse(base_of(scope), status_code=303)
        answer.set_cookie(
            cookie_name(host),
            access.cookie_value,
            path=base_of(scope),
            secure=scope["scheme"] == "https",
            httponly=True,
            samesite="strict",
        )
        return answer


def access_of(
    token: str | Literal[False] | None, *, hosts: Iterable[str] = (), allow_remote: bool = False
) -> Access:
    """
    Return what requests must bring.

    Args:
        token: None for a new secret, a secret of the host's, or False where the host's own server checks who asks.
        hosts: Further names of the server, as a browser sends them in ``Host``.
        allow_remote: Whether other machines may ask.

    Raises:
        UsageError: A token that is too short, names that are none, or other machines let in with nothing that holds them back.
    """
    if token is not False and token is not None and not _is_token(token):
        raise UsageError(f"token: expected at least {TOKEN_CHARS} letters, digits, - or _, or False")
    names = [hosts] if isinstance(hosts, str) else list(hosts)
    wrong = [name for name in names if not isinstance(name, str) or not _is_name(name)]
    if wrong:
        raise UsageError(
            f"hosts: {wrong[0]!a:.80}: expected a name such as inspect.example.org or 10.0.0.5:8000"
        )
    if token is False and allow_remote and not names:
        raise UsageError(
            "hosts: without a token, name what other machines call this server, such as inspect.example.org"
        )
    own = secrets.token_urlsafe(32) if token is None else (token or None)
    return Access(own, secrets.token_urlsafe(32), frozenset(name.lower() for name in names), allow_remote)


def base_of(scope: Scope) -> str:
    """Return the path under which the application stands, with a slash at its end."""
    return quote(str(scope.get("root_path", "")), safe="/") + "/"


def is_page(scope: Scope) -> bool:
    """Return whether a request is for the page itself."""
    path, root = str(scope["path"]), str(scope.get("root_path", ""))
    return path.removeprefix(root) in ("", "/")


def cookie_name(host: str) -> str:
    """Return the name of the cookie: cookies do not know ports, so it says which server of this machine it is for."""
    return f"paor_inspect_{host.rpartition(':')[2]}" if _has_port(host) else "paor_inspect"


def refusal(error: Refused, scope: Mapping[str, Any]) -> Response:
    """Return the answer to a request that is refused: a line for people where they asked for the page."""
    if is_page(dict(scope)):
        return PlainTextResponse(f"paor inspect: {error.message}\n", error.status)
    return JSONResponse({"error": error.message}, error.status)


def is_address(name: str) -> bool:
    """Return whether a name in ``Host`` is the number of an address."""
    try:
        ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True


def is_loopback(address: str) -> bool:
    """Return whether an address is one of this machine that no other reaches."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    mapped = getattr(found, "ipv4_mapped", None)
    return bool((mapped or found).is_loopback)


def _has_port(host: str) -> bool:
    return host.rpartition(":")[2].isdecimal() and not host.endswith("]")


def _same_text(given: Iterable[str], wanted: str) -> bool:
    """Return whether one of the texts is the wanted one; in a time that tells nothing of how much of it fits."""
    found = [hmac.compare_digest(text.encode(), wanted.encode()) for text in given]
    return any(found)


def _is_token(text: object) -> bool:
    return (
        isinstance(text, str)
        and len(text) >= TOKEN_CHARS
        and all(char.isascii() and (char.isalnum() or char in "-_") for char in text)
    )


def _is_name(text: str) -> bool:
    return bool(text) and all(char.isascii() and (char.isalnum() or char in "-._:[]") for char in text)
