"""Fetch one URL within bounds: checked at each redirect, paced, as robots.txt allows, unpacked no further than allowed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ...states.base.errors import ToolError
from ...states.settings.policy import Policy
from ..policy import unsafe_url
from .bounds import AddressRefused, Deadline, Resolver, resolve
from .robots import ROBOTS_BYTES, Cache, Pace, RobotsRules, robots_url, rules_of
from .settings import WebSettings

if TYPE_CHECKING:
    import httpx2

_ACCEPT = "text/html,application/xhtml+xml,text/*;q=0.9,application/pdf;q=0.8,*/*;q=0.5"
_TYPES = ("text/", "application/json", "application/xml", "application/xhtml+xml", "application/pdf")
_OFFICE = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
_UNSURE = ("", "application/octet-stream", "binary/octet-stream")
"""Types of servers that do not know; the content decides."""

NO_URL = "the server redirects to something that is no URL"


@dataclass(frozen=True, slots=True)
class Fetched:
    """
    One answer.

    Attributes:
        url: Where it came from, after redirects.
        status: HTTP status.
        mime: The ``Content-Type``, with its parameters; empty without one.
        data: The body, unpacked.
    """

    url: str
    status: int
    mime: str
    data: bytes


class Fetcher:
    """
    Fetches pages for one set of web tools; keeps the cache, the rules of sites and the pace.

    Args:
        settings: Bounds.
        resolver: Finds addresses; the system's by default.
    """

    def __init__(self, settings: WebSettings, resolver: Resolver = resolve) -> None:
        self.settings = settings
        self._resolver = resolver
        self._pages: Cache[Fetched] = Cache(settings.cache_pages, settings.cache_bytes, settings.cache_s)
        self._rules: Cache[RobotsRules] = Cache(500, 1, max(settings.cache_s, 60.0))
        self._pace = Pace()

    def page(self, url: str, policy: Policy, within: Deadline) -> Fetched:
        """
        Return the page at *url*.

        Raises:
            Refused: The policy or the site does not allow it, here or where it redirects to.
            ToolError: It cannot be had: no answer, an error status, too large, too slow, too many redirects.
        """
        key = (policy.private_hosts, policy.url_schemes, url)
        reason = unsafe_url(policy, url)  # as it was written, before anything reads it in its own way
        if reason is not None:
            raise AddressRefused(reason)
        kept = self._pages.get(key)
        if kept is not None:
            return kept
        deadline = Deadline(self.settings.page_s, within)
        fetched = self._follow(url, policy, deadline)
        if fetched.status != 200:
            raise ToolError(f"the server answered {fetched.status}")
        if not fetched.data:
            raise ToolError("the page is empty")
        self._pages.put(key, fetched, len(fetched.data))
        return fetched

    def _follow(self, url: str, policy: Policy, deadline: Deadline, *, rules: bool = False) -> Fetched:
        """Return the answer at *url* or where it redirects to; *rules*: it is a robots.txt, asked for at once."""
        import httpx2

        from .transport import TROUBLE, CheckedBackend, checked_transport, fault_words

        backend = CheckedBackend(policy, deadline, self._resolver)
        headers = {
            "User-Agent": self.settings.user_agent,
            "Accept": _ACCEPT,
            "Accept-Encoding": "gzip, deflate",
        }
        limits = httpx2.Timeout(self.settings.request_s)
        try:
            with httpx2.Client(
                transport=checked_transport(backend), headers=headers, timeout=limits, trust_env=False
            ) as client:
                request: httpx2.Request | None = client.build_request("GET", url)
                for _ in range(self.settings.redirects + 1):
                    assert request is not None
                    self._permit(str(request.url), policy, deadline, rules=rules)
                    answer = self._answer(client, request, deadline, rules=rules)
                    if isinstance(answer, Fetched):
                        return answer
                    request = answer
        except TROUBLE as error:
            deadline.check()  # of two reasons the one that says how long it took
            raise ToolError(fault_words(error)) from None
        except (ValueError, UnicodeError):  # of a redirect that names no URL
            raise ToolError(NO_URL) from None
        raise ToolError(f"more than {self.settings.redirects} redirects")

    def _answer(
        self, client: httpx2.Client, request: httpx2.Request, deadline: Deadline, *, rules: bool
    ) -> Fetched | httpx2.Request:
        """Return the answer to *request*, or the request that it redirects to."""
        response = client.send(request, stream=True, follow_redirects=False)
        try:
            if response.next_request is not None:
                return response.next_request
            if response.has_redirect_location:
                raise ToolError(NO_URL)
            mime = response.headers.get("content-type", "")
            if response.status_code != 200:
                return Fetched(str(response.url), response.status_code, mime, b"")
            if not rules:
                _check_type(mime)
            limit = ROBOTS_BYTES if rules else self.settings.bytes_max
            data = _body(response, limit, deadline, cut=rules)
            return Fetched(str(response.url), response.status_code, mime, data)
        finally:
            response.close()

    def _permit(self, url: str, policy: Policy, deadline: Deadline, *, rules: bool) -> None:
        """
        Wait for a turn at the host of *url*; *rules*: it is a robots.txt, for which there is no turn.

        Raises:
            Refused: It must not be fetched.
        """
        reason = unsafe_url(policy, url)
        if reason is not None:
            raise AddressRefused(reason)
        if rules:
            return
        interval = self.settings.host_interval_s
        if self.settings.robots:
            found = self._rules_for(url, policy, deadline)
            if not found.allows(url):
                raise AddressRefused("the site's robots.txt does not allow it")
            interval = max(interval, min(found.delay_s, self.settings.delay_max_s))
        host = urlsplit(url).hostname or ""
        deadline.wait(self._pace.pause(host, interval, deadline.left))

    def _rules_for(self, url: str, policy: Policy, deadline: Deadline) -> RobotsRules:
        place = robots_url(url)
        key = (policy.private_hosts, place)
        rules = self._rules.get(key)
        if rules is None:
            try:
                answer = self._follow(place, policy, deadline, rules=True)
                rules = rules_of(answer.status, answer.data)
            except AddressRefused:
                raise
            except ToolError as error:
                raise ToolError(f"its robots.txt cannot be had: {error}") from None
            self._rules.put(key, rules)
        return rules


def _check_type(mime: str) -> None:
    """Raise `ToolError` for a type that is not read, before its body is."""
    kind = mime.partition(";")[0].strip().lower()
    known = kind.startswith(_TYPES) or kind.endswith(("+xml", "+json")) or kind in (*_UNSURE, _OFFICE)
    if not known or kind.startswith("image/"):
        raise ToolError(f"is {kind[:60]!a}, which is not read")


def _body(response: httpx2.Response, limit: int, deadline: Deadline, *, cut: bool) -> bytes:
    """
    Return the unpacked body within *limit* bytes.

    Raises:
        ToolError: It is larger and not to be *cut*, or packed in an unknown way.
    """
    stated = response.headers.get("content-length", "")
    if not cut and stated.isdecimal() and len(stated) < 19 and int(stated) > limit:
        raise ToolError(f"is larger than {limit:,} bytes")
    encoding = response.headers.get("content-encoding", "").strip().lower()
    if encoding not in ("", "identity", "gzip", "deflate"):
        raise ToolError(f"is packed as {encoding[:40]!a}, which was not asked for")
    body = bytearray()
    for part in response.iter_bytes():  # of at most a megabyte, however far what is packed unpacks
        deadline.check()
        body += part
        if len(body) > limit:
            if cut:
                break
            raise ToolError(f"is larger than {limit:,} bytes")
    return bytes(body[:limit])
