"""
Reports: Markdown as a web page or a Word document, the same bytes for the same text.

One parser reads the Markdown for both. What is in it is data: HTML in it is shown as text, links lead to http,
https and mail addresses only, pictures are named and not fetched, and the page forbids everything active by its own
policy. No clock is looked at: neither file says when it was made.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from html import escape
from typing import TYPE_CHECKING, Any

from ...states.base.errors import MissingExtra, ToolError
from .convert.conversion import clean

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

MIMES: dict[str, str] = {
    "md": "text/markdown",
    "txt": "text/markdown",
    "html": "text/html",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
}
ENDINGS: dict[str, str] = {"md": "md", "txt": "md", "html": "html", "docx": "docx"}
CHARS_MAX = 2_000_000
"""Longest text that is laid out; a book of 700 pages."""

_NEEDS = {"html": ("markdown_it",), "docx": ("markdown_it", "docx")}


def check_report_format(form: str | None) -> None:
    """
    Check that *form* can be written, without importing anything.

    Raises:
        MissingExtra: A library is not installed.
    """
    absent = [name for name in _NEEDS.get(form or "", ()) if importlib.util.find_spec(name) is None]
    if absent:
        raise MissingExtra(f'reports as {form} need {", ".join(absent)}: pip install "paor[documents]"')


def render_report(text: str, form: str, *, title: str = "", language: str = "") -> str | bytes:
    """
    Return Markdown *text* in a format.

    Args:
        text: Markdown.
        form: One of `MIMES`.
        title: For the file's properties; the text has its own headings.
        language: Of the text, for hyphenation and reading aloud; empty where it is not known.

    Raises:
        ToolError: The text is too long to be laid out, or a library is missing.
    """
    if form not in _NEEDS:
        return text
    check_report_format(form)
    if len(text) > CHARS_MAX:
        raise ToolError(
            f"the report has {len(text):,} characters; at most {CHARS_MAX:,} are written as {form}"
        )
    tokens = parse_markdown(clean(text))
    tag = language if re.fullmatch(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*", language) else ""
    if form == "html":
        return _page(tokens, clean(title), tag)
    from .docx_report import document_of

    return document_of(tokens, clean(title), tag)


_LINK = re.compile(r"(?:https?://|mailto:)", re.IGNORECASE)


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    """Return the parser of Markdown with tables, for which HTML is text, and the writer of its page."""
    from markdown_it import MarkdownIt
    from markdown_it.renderer import RendererHTML

    class Page(RendererHTML):
        """Writes tables that can be wider than the page, and code without the name of its language."""

        def table_open(self, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:
            return f'<div class="wide">{self.renderToken(tokens, place, options, env)}'

        def table_close(self, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:
            return "</table></div>\n"

        def fence(self, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:
            return f"<pre><code>{escape(tokens[place].content, quote=False)}</code></pre>\n"

    options = {"html": False, "xhtmlOut": False, "maxNesting": 20}
    parser = MarkdownIt("commonmark", options, renderer_cls=Page)
    return parser.enable(["table", "strikethrough"])


def parse_markdown(text: str) -> list[Token]:
    """Return the tokens of Markdown; a link that a report must not open is text, and so is the name of a picture."""
    tokens = _parser().parse(text)
    for token in tokens:
        token.children = list(_checked(token.children or ()))
    return tokens


def _checked(tokens: Sequence[Token]) -> Iterator[Token]:
    """Yield tokens within a paragraph, of links only those of http, https and mail."""
    is_open = False
    for token in tokens:
        if token.type == "link_open":
            target = str(token.attrGet("href"))
            is_open = _LINK.match(target) is not None
            token.attrs = {"href": target, "rel": "noopener noreferrer nofollow"}
        elif token.type == "image":
            token.type, token.tag, token.content = "text", "", f"[picture: {token.content}]"
        if is_open or token.type not in ("link_open", "link_close"):
            yield token


_STYLE = """
:root { color-scheme: light; }
body { margin: 0; background: #f4f4f1; color: #1d1f21; font: 17px/1.6 "Segoe UI", "Helvetica Neue", Arial, sans-serif; }
main { max-width: 46rem; margin: 2rem auto; padding: 3rem 3.5rem; background: #fff; border: 1px solid #e2e2dc;
  overflow-wrap: break-word; }
h1, h2, h3, h4, h5, h6 { line-height: 1.25; margin: 2em 0 .6em; color: #17324d; }
h1 { font-size: 2rem; margin-top: 0; padding-bottom: .4em; border-bottom: 3px solid #17324d; }
h2 { font-size: 1.4rem; border-bottom: 1px solid #d9dee3; padding-bottom: .2em; }
h3 { font-size: 1.15rem; }
h4, h5, h6 { font-size: 1rem; }
p, ul, ol, table, blockquote, pre { margin: 0 0 1em; }
li { margin: .2em 0; }
table { border-collapse: collapse; width: 100%; font-size: .94em; }
.wide { overflow-x: auto; }
th, td { border: 1px solid #cfd6dc; padding: .45em .7em; text-align: left; vertical-align: top; }
th { background: #e9eef3; }
tbody tr:nth-child(even) td { background: #f8f9fa; }
blockquote { border-left: 4px solid #b9c6d2; margin-left: 0; padding: .1em 1.2em; color: #44525e; }
code { font: .9em "SFMono-Regular", Consolas, "Liberation Mono", monospace; background: #eff1f2; padding: .1em .3em; }
pre { background: #f3f5f6; border: 1px solid #dfe4e8; padding: 1em; overflow-x: auto; }
pre code { background: none; padding: 0; }
hr { border: 0; border-top: 1px solid #cfd6dc; margin: 2em 0; }
a { color: #1a5a96; }
@media (max-width: 40rem) { main { margin: 0; padding: 1.5rem; border: 0; } }
@media print { body { background: #fff; font-size: 11pt; } main { margin: 0; padding: 0; border: 0; max-width: none; }
  h1, h2, h3 { break-after: avoid; } tr, blockquote, pre { break-inside: avoid; } thead { display: table-header-group; } }
"""


def _page(tokens: list[Token], title: str, language: str) -> str:
    """Return a whole web page that loads nothing and runs nothing."""
    body = _parser().renderer.render(tokens, _parser().options, {})
    policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
    return (
        f'<!DOCTYPE html>\n<html lang="{language}">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta name="referrer" content="no-referrer">\n<title>{escape(title or "Report")}</title>\n'
        f"<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n{body}</main>\n</body>\n</html>\n"
    )
