"""
Read HTML: headings, paragraphs, lists, tables and link texts as Markdown, without the page around them.

`html_sanitizer` first writes a small, balanced page; only that goes to BeautifulSoup and markdownify,
which recurse once per level. Nothing in a page is fetched or run.
"""

import re
from typing import Any

from .conversion import ConversionError, Converted, one_line, tidy
from .html_sanitizer import CELLS, DEPTH_MAX, Balancer
from .plain import text_of

_CHARS_MAX = 10_000_000
"""A manual of 115,000 characters took 0.2 seconds (2026-11-21), pages of nothing but tags ten times that."""
MARKS_MAX = 1_000_000
"""Tags of a page; three million of them took minutes of a book of 40 kB (2026-11-23)."""


def markdown_of(html: str) -> tuple[str, str | None, tuple[str, ...]]:
    """
    Return Markdown, title (of the page, else of its first heading of level one) and notes of HTML, well formed or not.

    Emphasis and link targets are dropped, so that sentences can be quoted word for word. The text may be empty.

    Raises:
        ConversionError: ``too_large`` above ten million characters, or a million tags.
    """
    from bs4 import BeautifulSoup
    from markdownify import MarkdownConverter

    if len(html) > _CHARS_MAX:
        raise ConversionError("too_large", f"is a page of more than {_CHARS_MAX:,} characters; split it")
    if html.count("<") > MARKS_MAX:
        raise ConversionError("too_large", f"is a page of more than {MARKS_MAX:,} tags; split it")
    balancer = Balancer()
    soup = BeautifulSoup(balancer.balance(html), "html.parser")
    for cell in soup.find_all(list(CELLS)):
        for text in cell.find_all(string=re.compile(r"\|")):
            text.replace_with(str(text).replace("|", "\\|"))

    class Writer(MarkdownConverter):
        def convert_pre(self, el: Any, text: str, parent_tags: Any) -> str:
            text = _without_blank_ends(text)
            return f"\n\n```\n{text}\n```\n\n" if text else ""

    converter = Writer(
        heading_style="ATX",
        bullets="-",
        escape_misc=False,
        escape_asterisks=False,
        escape_underscores=False,
        table_infer_header=True,
    )
    markdown = tidy(converter.convert_soup(soup))
    heading = soup.find("h1")
    title = one_line("".join(balancer.title)) or (one_line(heading.get_text(" ")) if heading else None)
    notes = []
    if balancer.hidden:
        notes.append(f"{balancer.hidden} hidden elements left out")
    if balancer.flattened:
        notes.append(f"nested more than {DEPTH_MAX} levels deep; the inner structure is lost")
    return markdown, title, tuple(notes)


def _without_blank_ends(text: str) -> str:
    """Return *text* without blank lines at its ends; markdownify's own search for them takes the square of their length."""
    indent = len(text) - len(text.lstrip(" \n"))
    return text[text.rfind("\n", 0, indent) + 1 :].rstrip(" \n")


def page_text(data: bytes, charset: str = "") -> tuple[str, tuple[str, ...]]:
    """
    Return the source of a page as text, with notes on how it was decoded.

    Args:
        data: The page.
        charset: Character set that the server stated; else a byte order mark or the page's ``meta`` counts.

    Raises:
        ConversionError: ``binary`` when it is no text.
    """
    stated = re.search(rb"<meta[^>]{0,200}charset\s*=\s*[\"']?([\w.:-]{1,40})", data[:4096], re.IGNORECASE)
    return text_of(data, charset or (stated[1].decode("ascii", "replace") if stated else ""))


def read_html(data: bytes, charset: str = "") -> Converted:
    """Turn a web page into Markdown; scripts, styles, navigation, footers and hidden parts are left out."""
    text, notes = page_text(data, charset)
    markdown, title, more = markdown_of(text)
    return Converted(markdown, "text/html", title, notes=(*notes, *more))
