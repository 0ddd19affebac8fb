"""From an answer to a page: its main text as Markdown, text or HTML, and the links it has to its own site."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from html import escape
from itertools import islice
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

from ...states.base.errors import ToolError
from ..documents.convert.conversion import Converted, one_line, tidy
from ..documents.convert.converter import Converter
from ..documents.convert.html import page_text
from ..documents.convert.registry import sniff_mime
from .fetch import Fetched
from .settings import WebSettings

FORMATS = {"markdown": "text/markdown", "text": "text/plain", "html": "text/html"}
ENDINGS = {"markdown": "md", "text": "txt", "html": "html"}
_HTML = ("text/html", "application/xhtml+xml")
_HEADER = re.compile(r"charset\s*=\s*[\"']?([\w.:-]{1,40})", re.IGNORECASE)
_AROUND = frozenset({"nav", "header", "footer", "aside"})
_TAGS_MAX = 50_000
"""Opening and closing tags of a page that is taken apart with care; at twice as many that can take ten seconds (2026)."""

_SPAN = re.compile(r"\b((?:col|row)span\s*=\s*[\"']?\s*)(\d+)", re.IGNORECASE)
_SPAN_MAX = 50
"""Columns that one cell may cover; ten thousand cells of a thousand columns each would take minutes."""

_ANCHORS_MAX = 2000
"""Links of one page that are looked at."""


@dataclass(frozen=True, slots=True)
class Page:
    """
    What a page says.

    Attributes:
        url: Where it was found, after redirects.
        title: One line; the end of the URL when it has none.
        text: In the form that was asked for.
        form: One of `FORMATS`.
        notes: What a reader should know of it.
        source: The HTML as it was sent, of a page that was HTML.
        score: From the search engine that found it, the higher the better; None without one.
    """

    url: str
    title: str
    text: str
    form: str
    notes: tuple[str, ...] = ()
    source: str = ""
    score: float | None = None

    @property
    def document(self) -> str:
        """Return its text with its title and where it comes from."""
        if self.form == "html":
            url = escape(self.url)
            return f'<p>Source: <a href="{url}">{url}</a></p>\n{self.text}\n'
        mark = "# " if self.form == "markdown" and not self.text.startswith("# ") else ""
        title = "" if self.form == "markdown" and not mark else f"{mark}{self.title}\n\n"
        return f"{title}Source: {self.url}\n\n{self.text}\n"


def page_of(fetched: Fetched, form: str, depth: str, settings: WebSettings, convert: Converter) -> Page:
    """
    Return the page that was fetched.

    Args:
        fetched: The answer.
        form: One of `FORMATS`; what is not HTML becomes Markdown or text all the same.
        depth: ``basic`` for the main text, ``advanced`` also for where its links lead.
        settings: Sizes.
        convert: Reads files.

    Raises:
        ToolError: There is no text in it, or it is of no kind that can be read.
    """
    name = _name(fetched.url)
    kind = fetched.mime.partition(";")[0].strip().lower()
    sniffed = sniff_mime(name, fetched.data)
    source = ""
    if sniffed == "text/html" or (kind in _HTML and sniffed.startswith("text/")):
        if len(fetched.data) > settings.html_bytes:
            raise ToolError(f"is a page of more than {settings.html_bytes:,} bytes")
        stated = _HEADER.search(fetched.mime)
        charset = stated[1] if stated else ""
        source, notes = page_text(fetched.data, charset)
        if source.count("<") > _TAGS_MAX:
            found = _plain(source)
        else:
            whole = f"text/html; charset={charset}"
            found = _extract(source, fetched.url, form, depth) or replace(
                convert(name, fetched.data, mime=whole), mime="text/markdown"
            )
        found = Converted(found.text, found.mime, found.title, notes=(*notes, *found.notes))
    else:
        found = convert(name, fetched.data, mime=fetched.mime or None)
    text, notes = found.text, found.notes
    if len(text) > settings.text_chars:
        text = text[: settings.text_chars]
        notes = (*notes, f"cut after {settings.text_chars:,} characters")
    form = form if found.mime == "text/html" or form == "text" else "markdown"
    return Page(fetched.url, found.title or name, text, form, notes, source)


def _extract(source: str, url: str, form: str, depth: str) -> Converted | None:
    """Return the main text of a page, or None where there is too little of it to be found."""
    import trafilatura

    options: dict[str, Any] = {
        "config": _config(),
        "url": url,
        "output_format": {"text": "txt"}.get(form, form),
        "include_comments": False,
        "include_tables": True,
        "include_links": depth == "advanced",
    }
    source = _SPAN.sub(_narrow, source)
    try:
        text = trafilatura.extract(source, **options)
        head = trafilatura.extract_metadata(source, default_url=url, extensive=False)
    except Exception:  # noqa: BLE001 - whatever a library makes of a page: it is read whole instead
        return None
    if not text or not text.strip():
        return None
    title = one_line(str(getattr(head, "title", None) or "")) if head is not None else None
    return Converted(tidy(text), "text/html", title)


def _narrow(span: re.Match[str]) -> str:
    """Return an attribute of a table's cell with at most `_SPAN_MAX` columns or rows in it."""
    small = len(span[2]) <= 4 and int(span[2]) <= _SPAN_MAX
    return span[0] if small else f"{span[1]}1"


@lru_cache(maxsize=1)
def _config() -> Any:
    """Return the library's settings; short pages too keep their structure, not only pages of 250 characters or more."""
    from trafilatura.settings import use_config

    for name in (
        "trafilatura",
        "htmldate",
        "courlan",
    ):  # what they say of odd pages is not for a host's terminal
        logging.getLogger(name).addHandler(logging.NullHandler())
    config = use_config()
    config["DEFAULT"]["MIN_EXTRACTED_SIZE"] = config["DEFAULT"]["MIN_OUTPUT_SIZE"] = "20"
    return config


def _plain(source: str) -> Converted:
    """Return the bare text of a page with so many tags that taking it apart would take long."""
    from lxml import etree
    from lxml import html as lxml_html

    try:
        tree = lxml_html.document_fromstring(source.encode("utf-8", "replace"))
        etree.strip_elements(tree, "script", "style", "template", *sorted(_AROUND), with_tail=False)
    except (etree.LxmlError, ValueError):
        raise ToolError("is a page that cannot be taken apart") from None
    title = tree.findtext(".//title")
    body = tree.find("body")
    parts = (str(part).strip() for part in (tree if body is None else body).itertext())
    text = tidy("\n".join(part for part in parts if part))
    if not text:
        raise ToolError("holds no text")
    note = "the page has very many tags; its text stands here without structure"
    return Converted(text, "text/plain", one_line(title) if title else None, notes=(note,))


def links_of(page: Page, count_max: int) -> list[str]:
    """Return links in the text of an HTML page to its own site, in its order, each once, without its own URL."""
    if not page.source:
        return []
    from lxml import html as lxml_html

    try:
        tree = lxml_html.document_fromstring(page.source.encode("utf-8", "replace"))
    except Exception:  # noqa: BLE001 - a page that cannot be parsed has no links
        return []
    own, site = urldefrag(page.url).url, urlsplit(page.url).netloc.lower()
    urls = (
        _absolute(page.url, anchor.get("href") or "")
        for anchor in islice(tree.iter("a"), _ANCHORS_MAX)
        if "nofollow" not in (anchor.get("rel") or "").lower().split()
        and not any(parent.tag in _AROUND for parent in anchor.iterancestors())
    )
    return _first((url for url in urls if url != own and urlsplit(url).netloc.lower() == site), count_max)


def _absolute(base: str, href: str) -> str:
    try:
        url = urldefrag(urljoin(base, href.strip())).url
        return url if urlsplit(url).scheme in ("http", "https") else ""
    except ValueError:
        return ""


_URL = re.compile(r"https?://(?:\[[0-9a-f:.]+\])?[^\s<>\"'`\[\]})|\\]*", re.IGNORECASE)
_ALONE = re.compile(r"(?:[-*+]|\d{1,4}[.)])?[ \t]*<?(https?://[^\s<>\"'`|\\]+)>?", re.IGNORECASE)


def urls_in(text: str, count_max: int) -> list[str]:
    """
    Return the URLs of a text, each once, in its order.

    Those that stand alone on a line, as in a list of results; without any such line every URL in the text.
    """
    lines = (_ALONE.fullmatch(line.strip()) for line in text.splitlines() if "://" in line)
    alone = (match[1] for match in lines if match)
    anywhere = (match[0].rstrip(".,;:!?") for match in _URL.finditer(text))
    return _first(alone, count_max) or _first(anywhere, count_max)


def _first(urls: Iterable[str], count_max: int) -> list[str]:
    found: dict[str, None] = {}
    for url in urls:
        found.setdefault(url)
        if len(found) >= count_max:
            break
    return list(found)


def _name(url: str) -> str:
    """Return a file name for *url*, from its path; its ending is kept for what cannot be told by content."""
    parts = urlsplit(url)
    last = unquote(parts.path.rstrip("/").rpartition("/")[2])
    return re.sub(r"[^\w.-]+", "-", last).strip("-.")[:80] or (parts.hostname or "page")


def document_name(page: Page, number: int, ending: str | None = None) -> str:
    """Return the name of a page's document: its place and the end of its URL."""
    stem = re.sub(r"\.(html?|md|txt|pdf|docx|json|csv|php|aspx?)$", "", _name(page.url), flags=re.IGNORECASE)
    return f"{number:02d}-{stem}.{ending or ENDINGS[page.form]}"
