"""
Reports: Markdown as a web page or a Word document, the same bytes for the same text.

One parser reads the Markdown for both. What is in it is data: HTML in it is shown as text, links lead to http,
https and mail addresses only, pictures are named and not fetched, and the page forbids everything active by its own
policy. No clock is looked at: neither file says when it was made.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from ...states.base.errors import MissingExtra, ToolError
from .convert.conversion import clean
from .report_links import link_of

if TYPE_CHECKING:
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


def render_report(text: str, form: str, *, title: str = "", language: str = "en") -> str | bytes:
    """
    Return Markdown *text* in a format.

    Args:
        text: Markdown.
        form: One of `MIMES`.
        title: For the file's properties; the text has its own headings.
        language: Of the text, for hyphenation and reading aloud.

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
    tag = language if re.fullmatch(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*", language) else "en"
    if form == "html":
        return _page(tokens, clean(title), tag)
    from .docx_report import document_of

    return document_of(tokens, clean(title), tag)


def parse_markdown(text: str) -> list[Token]:
    """Return the tokens of Markdown with tables; HTML in it is text."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": 20}).enable(["table", "strikethrough"])
    return parser.parse(text)


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
    body = "".join(_block(token) for token in tokens)
    policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
    return (
        f'<!DOCTYPE html>\n<html lang="{language}">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta name="referrer" content="no-referrer">\n<title>{escape(title or "Report")}</title>\n'
        f"<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n{body}</main>\n</body>\n</html>\n"
    )


_TAGS = frozenset(
    (
        "blockquote",
        "em",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "li",
        "ol",
        "p",
        "s",
        "strong",
        "table",
        "tbody",
        "td",
    )
) | {"th", "thead", "tr", "ul"}
_BREAKS = frozenset(("blockquote", "li", "ol", "table", "tbody", "thead", "tr", "ul"))


def _block(token: Token) -> str:
    """Return a token of the block level as HTML."""
    if token.type == "inline":
        return _words(token.children or ())
    if token.type in ("fence", "code_block"):
        return f"<pre><code>{escape(token.content, quote=False)}</code></pre>\n"
    if token.type == "hr":
        return "<hr>\n"
    if token.hidden or token.tag not in _TAGS:
        return "" if token.nesting else escape(token.content, quote=False)
    if token.nesting < 0:
        return f"</{token.tag}>" + ("</div>\n" if token.tag == "table" else "\n")
    start = str(token.attrGet("start") or "")
    mark = f' start="{start}"' if token.tag == "ol" and start.isdecimal() else ""
    align = str(token.attrGet("style") or "")
    if token.tag in ("td", "th") and align in ("text-align:right", "text-align:center"):
        mark = f' style="{align}"'
    opened = f"<{token.tag}{mark}>"
    if token.tag == "table":
        opened = f'<div class="wide">{opened}'
    return opened + ("\n" if token.tag in _BREAKS and token.tag != "li" else "")


def _words(tokens: Sequence[Token]) -> str:
    """Return the tokens within a paragraph as HTML; a link that a report must not open is text."""
    parts: list[str] = []
    target = ""
    for token in tokens:
        if token.type == "link_open":
            target = link_of(token)
            parts.append(f'<a href="{escape(target)}" rel="noopener noreferrer nofollow">' if target else "")
        elif token.type == "link_close":
            parts.append("</a>" if target else "")
        else:
            parts.append(_inline(token))
    return "".join(parts)


def _inline(token: Token) -> str:
    """Return a token within a paragraph as HTML."""
    if token.type == "text":
        return escape(token.content, quote=False)
    if token.type == "code_inline":
        return f"<code>{escape(token.content, quote=False)}</code>"
    if token.type == "softbreak":
        return "\n"
    if token.type == "hardbreak":
        return "<br>\n"
    if token.type == "image":
        return escape(f"[picture: {token.content}]", quote=False)
    if token.tag in _TAGS and token.nesting:
        return f"<{token.tag}>" if token.nesting > 0 else f"</{token.tag}>"
    return escape(token.content, quote=False)
