"""What the tests of this room look at inside the package: a module that moves is named here alone."""

from __future__ import annotations

from paor.tools.policy import unsafe_address, unsafe_url
from paor.tools.web.extraction import Page, urls_in
from paor.tools.web.relevance import enrich
from paor.tools.web.search import BACKENDS, MetaSearch, SearxngSearch, TavilySearch, backend_of
