"""
Read HTML: headings, paragraphs, lists, tables and link texts as Markdown, without the page around them.

`Balancer` first writes a small, balanced page; only that goes to BeautifulSoup and markdownify, which recurse once per
level. Real pages are not well formed: ``<p>`` and ``<li>`` stay open, tags cross, layouts nest hundreds deep, and hostile
pages are made to take hours. So the page is cut into tags and text in one pass that never looks back (`tokens`), and
written anew with every tag closed and little depth. Of its attributes only the start and the numbers of a list, what is
filled into a form, the words for a picture, and how many rows and columns a cell covers are kept. Nothing in a page is
fetched or run.
"""

import re
from collections import Counter
from collections.abc import Iterator
from html import escape, unescape
from typing import Any

from . import noted
from .conversion import RAISED, ConversionError, Converted, numeral, one_line, repeated, tidy
from .plain import text_of

_HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
_HIDDEN = frozenset(("script", "style", "title", "template", "noscript", "canvas", "iframe", "object")) | {
    *("nav", "footer", "svg", "audio", "video", "button", "noembed")
}
"""Elements whose text is no part of the document; the title is kept aside."""
_COUNTED = {
    **dict.fromkeys(("nav", "footer", "button"), noted.NOISE),
    **dict.fromkeys(("svg", "canvas", "img"), noted.PICTURES),
    **dict.fromkeys(("audio", "video"), noted.MEDIA),
    **dict.fromkeys(("iframe", "object", "embed"), noted.FILES),
    "math": noted.FORMULAS,
}
_INLINE = {
    **dict.fromkeys(("del", "s", "strike"), ("[deleted: ", "]")),
    "ins": ("[inserted: ", "]"),
    "rt": (" (", ") "),
    "sup": ("", ""),
    "select": ("", " "),
    "option": ("", " "),
    "textarea": ("", " "),
}
"""Elements within a line, with what is written before and after their text."""
_UNSHOWN = frozenset(("hidden", "password", "submit", "button", "reset", "image", "file"))
_SECTIONS = frozenset(
    ("address", "article", "aside", "body", "center", "details", "div", "form", "header", "main", "section")
) | {"fieldset", "figcaption", "figure", "hgroup", "summary"}
"""Elements that only start a new block; they all become ``div``."""
_BLOCKS = _SECTIONS | {*_HEADINGS, "blockquote", "dl", "hr", "ol", "p", "pre", "table", "ul", "nav", "footer"}
CELLS = frozenset(("td", "th"))
_ROWS = CELLS | {"tr"}
_TABLE = _ROWS | {"thead", "tbody", "tfoot", "caption", "table"}
_ITEMS = frozenset(("li", "dt", "dd"))
_KEPT = _BLOCKS | _TABLE | _ITEMS | {"br"} | _HIDDEN | _INLINE.keys()
_VOID = frozenset(("br", "hr"))
_EMPTY = frozenset(
    ("area", "base", "col", "embed", "img", "input", "link", "meta", "param", "source", "track", "wbr")
)
_ROLES = frozenset(("navigation", "contentinfo", "search"))
DEPTH_MAX = 100
"""Deeper tags keep their text and lose their structure; pages written by people stay below 60."""
_FLATTENED = f"elements nested more than {DEPTH_MAX} levels deep, whose structure is lost"
_OPEN_MAX = 200
"""Open tags that are kept track of, so that a hostile page cannot make each step slower."""

_IMPLIED: dict[str, tuple[frozenset[str], frozenset[str]]] = {
    **dict.fromkeys(_BLOCKS, (frozenset(("p",)), CELLS | {"table", "caption", "li", "dd"})),
    **dict.fromkeys(_HEADINGS, (frozenset(("p", *_HEADINGS)), CELLS | {"table", "caption", "li", "dd"})),
    "li": (frozenset(("li", "p")), frozenset(("ul", "ol", "table"))),
    "dt": (frozenset(("dt", "dd", "p")), frozenset(("dl", "table"))),
    "dd": (frozenset(("dt", "dd", "p")), frozenset(("dl", "table"))),
    "tr": (_ROWS | {"caption"}, frozenset(("table",))),
    "option": (frozenset(("option",)), frozenset(("select",))),
    "td": (CELLS, frozenset(("tr", "table"))),
    "th": (CELLS, frozenset(("tr", "table"))),
    **dict.fromkeys(("thead", "tbody", "tfoot"), (_TABLE - {"table"}, frozenset(("table",)))),
}
"""
Start tag -> (elements that it ends although their end tag is missing, elements that stop the search).

Source: the HTML standard, section "Optional tags".
"""


_RAW = frozenset(("script", "style", "title", "textarea", "xmp", "iframe", "noembed", "noframes"))
"""Elements that hold text only: a tag inside them is text."""
_TAG = re.compile(r"</?([a-zA-Z][^\s/>]*+)((?:[^>=]++|=\s*+(?:\"[^\"]*+\"|'[^']*+')?+)*+)>")
_ATTRIBUTE = re.compile(r"([^\s>/=]++)(?:\s*+=\s*+(\"[^\"]*+\"|'[^']*+'|[^\s>]++))?")

Token = tuple[str, str, dict[str, str]]
"""Kind ("start", "end" or "text"), tag name or text, attributes of a start tag."""


def tokens(html: str) -> Iterator[Token]:
    """
    Cut a page into tags and text; time grows with its length and with nothing else.

    Names of tags are in lower case, character references in text are replaced, comments and declarations are left
    out. A tag that never ends is text.

    Source: the tokenization chapter of the HTML standard, much simplified. The standard library's parser
        took 118 s for 100 kB of ``<a <a <a`` (Python 3.11.7, measured 2026-11-21).
    """
    position = 0
    while position < len(html):
        opening = html.find("<", position)
        if opening < 0:
            break
        if opening > position:
            yield "text", unescape(html[position:opening]), {}
        found = _TAG.match(html, opening)
        if html.startswith(("<!", "<?"), opening):
            mark = "-->" if html.startswith("<!--", opening) else ">"
            end = html.find(mark, opening + 2)
            position = len(html) if end < 0 else end + len(mark)
        elif found is not None:
            yield from _tag_tokens(found)
            position = found.end()
            if found[1].lower() in _RAW and html[opening + 1] != "/":
                closing = re.compile(f"</{re.escape(found[1])}", re.IGNORECASE).search(html, position)
                position = closing.start() if closing else len(html)
                yield "text", unescape(html[found.end() : position]), {}
        elif html[opening + 1 : opening + 2].isalpha() and html.find(">", opening) < 0:
            position = opening
            break
        else:
            yield "text", "<", {}
            position = opening + 1
    yield "text", unescape(html[position:]), {}


def _tag_tokens(found: re.Match[str]) -> Iterator[Token]:
    name = found[1].lower()
    if found[0].startswith("</"):
        yield "end", name, {}
        return
    pairs = [(key.lower(), unescape(value.strip("\"'"))) for key, value in _ATTRIBUTE.findall(found[2])]
    yield "start", name, dict(reversed(pairs))  # of two attributes of one name the first counts
    if found[2].endswith("/") and name != "p":  # a lone <p/> separates
        yield "end", name, {}


class Balancer:
    """
    Write the readable part of a page as balanced HTML of known tags.

    Attributes:
        title: Text of the ``title`` element in pieces.
        flattened: Number of elements whose structure is lost because they are too deep.
        seen: What was left out or flattened, and how often.
    """

    def __init__(self) -> None:
        self.title: list[str] = []
        self.flattened = 0
        self.seen: Counter[str] = Counter()
        self._out: list[str] = []
        self._open: list[tuple[str, str, bool]] = []  # source tag, written tag or "", hides its text
        self._hiding = 0
        self._verbatim = 0

    def balance(self, html: str) -> str:
        """
        Return *html* as markup in which every element is closed and none is deeper than 100 levels.

        Text of scripts, styles, navigation, footers and hidden elements is not in it.
        """
        for kind, value, attributes in tokens(html):
            if kind == "start":
                self._start(value, attributes)
            elif kind == "end":
                self._end(value)
            else:
                self._text(value)
        self._close_to(0)
        return "".join(self._out)

    def _start(self, tag: str, named: dict[str, str]) -> None:
        ended, stops = _IMPLIED.get(tag, (frozenset(), frozenset()))
        lowest = None
        for index in range(len(self._open) - 1, -1, -1) if ended else ():
            name = self._open[index][0]
            if name in ended:
                lowest = index
            elif name in stops:
                break
        if lowest is not None:
            self._close_to(lowest)
        concealed = _concealed(named)
        unchosen = tag == "option" and "selected" not in named
        noise = (
            tag in _HIDDEN
            or unchosen
            or named.get("role") in _ROLES
            or "headerlink" in named.get("class", "")
        )
        if not self._hiding:
            is_told = concealed or (tag == "img" and bool(named.get("alt", "").strip()))
            self.seen[_COUNTED.get(tag, noted.NOISE if named.get("role") in _ROLES else "")] += not is_told
            self.seen[noted.CONCEALED] += concealed and tag not in _EMPTY
            self.seen[noted.TRACKED] += tag in _INLINE and "[" in _INLINE[tag][0]
            self.seen[noted.FIELDS] += tag in ("select", "textarea")
        if tag in _VOID:
            self._write(f"<{tag}>")
        elif tag in ("img", "input") and not concealed:
            self._write(escape(self._standing_for(tag, named), quote=False))
        elif tag not in _EMPTY and (tag in _KEPT or concealed or noise or self._hiding):
            self._push(tag, named, concealed or noise)

    def _standing_for(self, tag: str, named: dict[str, str]) -> str:
        """Return the words for a picture, or what is filled into a field."""
        if tag == "img":
            words = one_line(named.get("alt", ""))
            return f" [picture: {words}] " if words else ""
        kind = named.get("type", "").lower()
        if kind in _UNSHOWN:
            return ""
        self.seen[noted.FIELDS] += not self._hiding
        if kind in ("checkbox", "radio"):
            return "☒ " if "checked" in named else "☐ "
        return f" {one_line(named.get('value', '')) or '____'} "

    def _push(self, tag: str, attributes: dict[str, str], hides: bool) -> None:
        if len(self._open) >= _OPEN_MAX and (self._hiding or not hides):
            self.flattened += not self._hiding
            return
        written = "div" if tag in _SECTIONS else "" if tag in _INLINE else tag if tag in _KEPT else ""
        if tag in _TABLE and any(entry[1] in CELLS for entry in self._open):
            written = ""  # Markdown has no table inside a table
            self._write(" " if tag in CELLS else "")
        if hides or self._hiding:
            written = ""
        if len(self._open) >= DEPTH_MAX:
            self.flattened += bool(written)
            written = ""
        opening = _INLINE[tag][0] if tag in _INLINE else "\n"
        self._write(f"<{written}{_attributes(written, attributes)}>" if written else opening)
        self._open.append((tag, written, hides))
        self._hiding += hides
        self._verbatim += tag == "pre"

    def _end(self, tag: str) -> None:
        barrier = frozenset() if tag in _TABLE else CELLS | {"table"}
        for index in range(len(self._open) - 1, -1, -1):
            name = self._open[index][0]
            if name == tag:
                self._close_to(index)
            if name == tag or name in barrier:
                return

    def _text(self, data: str) -> None:
        if self._hiding == 0:
            plain = data if self._verbatim else re.sub(r"\s+", " ", data)
            if self._open and self._open[-1][0] == "sup" and plain.strip().isdigit():
                plain = plain.translate(RAISED)
            self._out.append(escape(plain, quote=False))
        elif self._open[-1][0] == "title":
            self.title.append(data)

    def _close_to(self, index: int) -> None:
        while len(self._open) > index:
            tag, written, hides = self._open.pop()
            if written == "tr" and self._out[-1] == "<tr>":
                self._out.pop()  # a row without cells is none
            else:
                self._write(f"</{written}>" if written else _INLINE[tag][1] if tag in _INLINE else "\n")
            self._hiding -= hides
            self._verbatim -= tag == "pre"

    def _write(self, markup: str) -> None:
        if self._hiding == 0:
            self._out.append(markup)


def _concealed(attributes: dict[str, str]) -> bool:
    styled = "none" in _styles(attributes, "display") or "hidden" in _styles(attributes, "visibility")
    return "hidden" in attributes or styled


def _attributes(tag: str, given: dict[str, str]) -> str:
    """Return those attributes of a tag that are kept: small whole numbers, and how a list is numbered."""
    style = ["", *_styles(given, "list-style"), *_styles(given, "list-style-type")][-1]
    kind = given.get("type", _LIST_STYLES.get(style, ""))
    form = f' type="{kind}"' if tag == "ol" and kind in _LIST_TYPES else ""
    names = {
        "ol": (("start", 6),),
        "li": (("value", 6),),
        **dict.fromkeys(CELLS, (("colspan", 3), ("rowspan", 5))),
    }.get(tag, ())
    values = ((name, given.get(name, ""), digits_max) for name, digits_max in names)
    fit = (
        (name, value)
        for name, value, most in values
        if value.isascii() and value.isdigit() and len(value) <= most
    )
    return form + "".join(f' {name}="{value}"' for name, value in fit)


_LIST_TYPES = ("a", "A", "i", "I")
_LIST_STYLES = {
    "lower-alpha": "a",
    "lower-latin": "a",
    "upper-alpha": "A",
    "upper-latin": "A",
    "lower-roman": "i",
    "upper-roman": "I",
}


def _styles(given: dict[str, str], name: str) -> list[str]:
    """Return the values that an element's own style has for *name*, the one that counts last."""
    return re.findall(rf"(?<![\w-]){name}\s*+:\s*+([\w-]+)", given.get("style", "").lower())


def _label_items(soup: Any) -> None:
    """Write the label of each item of a list that counts with letters or Roman numerals, or from item to item as it likes."""
    for found in soup.find_all("ol"):
        items = found.find_all("li", recursive=False)
        form = found.attrs.pop("type", "")
        if not form and not any("value" in item.attrs for item in items):
            continue
        found.name = "ul"
        number = int(found.attrs.pop("start", "1")) - 1
        for item in items:
            number = int(item.attrs.pop("value", number + 1))
            item.insert(0, f"{numeral(number, form or '1')}. ")


_COLUMNS_MAX = 100
_ROWS_MAX = 65_534
_COVERED_MAX = 100_000
"""Cells of a page that are written because another cell covers them."""


def _repeat_merged(soup: Any) -> int:
    """Give each cell that another one covers a place of its own, with its text where that is short; return how many cover others."""
    left, merged = _COVERED_MAX, 0
    for table in soup.find_all("table"):
        covered: dict[int, tuple[str, int]] = {}
        for row in table.find_all("tr"):
            column = 0
            for cell in row.find_all(list(CELLS), recursive=False):
                while column in covered:
                    column, left = _fill(soup, cell.insert_before, covered, column), left - 1
                wide, high = (int(cell.attrs.pop(f"{name}span", "1") or 1) for name in ("col", "row"))
                wide = max(1, min(wide, _COLUMNS_MAX))
                merged += wide > 1 or high > 1
                text = repeated(" ".join(cell.get_text(" ").split())) if wide > 1 or high != 1 else ""
                if left < wide:
                    return merged
                for place in range(column, column + wide):
                    if high != 1:
                        covered[place] = (text, (high or _ROWS_MAX) - 1)
                for _ in range(1, wide):
                    added = soup.new_tag(cell.name)
                    added.string = text
                    cell.insert_after(added)
                left -= wide
                column += wide
            while column in covered and left > 0:
                column, left = _fill(soup, row.append, covered, column), left - 1
    return merged


def _fill(soup: Any, put: Any, covered: dict[int, tuple[str, int]], column: int) -> int:
    """Add a cell for one that is covered; return the next column."""
    text, rows = covered.pop(column)
    if rows > 1:
        covered[column] = (text, rows - 1)
    added = soup.new_tag("td")
    added.string = text
    put(added)
    return column + 1


CHARS_MAX = 10_000_000
"""A manual of 115,000 characters took 0.2 seconds (2026-11-21), pages of nothing but tags ten times that."""
MARKS_MAX = 1_000_000
"""Tags of a page; three million of them took minutes of a book of 40 kB (2026-11-23)."""


def markdown_of(html: str) -> tuple[str, str | None, Counter[str]]:
    """
    Return Markdown, title (of the page, else of its first heading of level one) and what is counted of HTML, well formed or not.

    Emphasis and link targets are dropped, so that sentences can be quoted word for word. The text may be empty.

    Raises:
        ConversionError: ``too_large`` above ten million characters, or a million tags.
    """
    from bs4 import BeautifulSoup
    from markdownify import MarkdownConverter

    if len(html) > CHARS_MAX:
        raise ConversionError("too_large", f"is a page of more than {CHARS_MAX:,} characters; split it")
    if html.count("<") > MARKS_MAX:
        raise ConversionError("too_large", f"is a page of more than {MARKS_MAX:,} tags; split it")
    balancer = Balancer()
    soup = BeautifulSoup(balancer.balance(html), "html.parser")
    _label_items(soup)
    balancer.seen[noted.MERGED] += _repeat_merged(soup)
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
    del balancer.seen[""]
    balancer.seen[_FLATTENED] += balancer.flattened
    return markdown, title, balancer.seen


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
    markdown, title, seen = markdown_of(text)
    return Converted(markdown, "text/html", title, notes=(*notes, *noted.counted(seen)))
