"""JSON Schemas of the web tools: the documents' parameters in the documents' order, and no other."""

from __future__ import annotations

from typing import Any

from ..search_defaults import WINDOWS

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
