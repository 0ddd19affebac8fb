"""
The settings of the web tools, and what a search service of your own is made of.

    from paor.web import SearchBackend, WebSettings

The tools themselves are `paor.web_tools`. How to use them: docs/web.md.
"""

from __future__ import annotations

from .states.records.actions import WebFact
from .tools.web.relevance import Enricher
from .tools.web.search import SearchBackend, SearchHit, SearchQuery, SearchReply
from .tools.web.settings import WebSettings

__all__ = [
    "Enricher",
    "SearchBackend",
    "SearchHit",
    "SearchQuery",
    "SearchReply",
    "WebFact",
    "WebSettings",
]
