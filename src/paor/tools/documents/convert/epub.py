"""Read EPUB: the pages of a book in the order in which they are read, each as any web page; pictures are left out."""

import posixpath
from collections import Counter
from urllib.parse import unquote
from xml.etree import ElementTree

from . import noted
from .archive import checked_parts
from .conversion import ConversionError, Converted, one_line
from .html import markdown_of, page_text

MIME = "application/epub+zip"
_CONTAINER, _ENCRYPTION = "META-INF/container.xml", "META-INF/encryption.xml"
_APART = "pages that are not in the book's reading order, left out"
CHARS_MAX = 10_000_000


def read_book(data: bytes, charset: str = "") -> Converted:
    """
    Turn a book into Markdown, chapter after chapter.

    Raises:
        ConversionError: ``encrypted`` when its pages are, ``broken`` without a list of them, or what an archive may raise.
    """
    parts = checked_parts(data, "book", ".*")
    container = ElementTree.fromstring(parts.get(_CONTAINER, b"<none/>")).find(".//{*}rootfile")
    root = container.get("full-path", "") if container is not None else ""
    if root not in parts:
        raise ConversionError("broken", "does not say which pages it has, so it is no book; save it again")
    package = ElementTree.fromstring(parts[root])
    pages = {item.get("id"): item.get("href", "") for item in package.findall(".//{*}item")}
    folder = posixpath.dirname(root)
    texts: list[str] = []
    notes: dict[str, None] = {}
    seen = Counter[str]()
    read = set[str]()
    left = CHARS_MAX
    for item in package.findall(".//{*}itemref"):
        name = posixpath.normpath(posixpath.join(folder, unquote(pages.get(item.get("idref"), ""))))
        if name not in parts:
            notes["a page of the book is missing"] = None
            continue
        if name.encode() in parts.get(_ENCRYPTION, b""):
            raise ConversionError("encrypted", "is protected against copying; its pages cannot be read")
        source, more = page_text(parts[name])
        notes |= dict.fromkeys(more)
        text, _, found = markdown_of(source)
        seen += found
        read.add(name)
        left -= len(text)
        if left < 0:
            notes["the book holds more text than is read of one; the rest is left out"] = None
            break
        texts.append(text)
    apart = {
        posixpath.normpath(posixpath.join(folder, unquote(item.get("href", ""))))
        for item in package.iterfind(".//{*}item")
        if "html" in item.get("media-type", "") and "nav" not in item.get("properties", "").split()
    }
    seen[_APART] += len((apart & parts.keys()) - read)
    stated = package.find(".//{http://purl.org/dc/elements/1.1/}title")
    title = one_line(stated.text or "") if stated is not None else None
    return Converted(
        "\n\n".join(text for text in texts if text), MIME, title, notes=(*notes, *noted.counted(seen))
    )
