"""How a receiver of traces is spoken to: of what it answers a bounded part is read."""

from __future__ import annotations

from typing import Any

import requests
from requests.adapters import HTTPAdapter

ANSWER_BYTES = 64_000
"""Of an answer, whose status says all that is needed; what a longer one has is left, and its connection closed."""


class BoundedAdapter(HTTPAdapter):
    """An adapter of requests that reads a bounded part of each answer, also of one that leads elsewhere."""

    def send(self, *arguments: Any, **keywords: Any) -> requests.Response:
        """Send a request, and return its answer, read as far as it may be."""
        response = super().send(*arguments, **keywords)
        body = response.raw.read(ANSWER_BYTES + 1, decode_content=False)
        if len(body) > ANSWER_BYTES:
            response.close()
        response._content = body[:ANSWER_BYTES]  # what `requests` reads otherwise, without a bound
        response._content_consumed = True
        return response


def bounded_session() -> requests.Session:
    """Return a session of requests with such adapters."""
    session = requests.Session()
    for scheme in ("http://", "https://"):
        session.mount(scheme, BoundedAdapter())
    return session
