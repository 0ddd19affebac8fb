"""
Turn a document into text: plain text, Markdown, HTML, CSV, JSON, PDF, Office and OpenDocument files, EPUB, RTF and mails (EML).

Rules: the content decides on the format, then the name's ending. Nothing in a document is run, no
reference in it is followed, and no file or network is touched: bytes go in, text comes out. Every way
in which a document can be bad ends in one :class:`ConversionError`; any other exception is a bug here.
The libraries for all but plain formats (``paor[documents]``) are loaded only when such a file arrives.
Not covered: recognition of text in pictures (OCR), and the old binary ``.doc``, ``.xls``, ``.ppt`` and ``.msg``.
"""

import importlib.util
import io
import re
import zipfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from ....states.base.pictures import picture_kind
from .archive import PARTS_MAX
from .conversion import CODES, ConversionError, Converted, places_of
from .docx import BODY, read_docx
from .eml import MIME as MAIL
from .eml import looks_like_mail, read_mail
from .epub import MIME as BOOK
from .epub import read_book
from .html import read_html
from .opendocument import KINDS, read_opendocument
from .opendocument import MIME as OPENDOCUMENT_MIME
from .pdf import read_pdf
from .plain import decode, read_csv, read_json, read_markdown, read_plain, valid_json
from .pptx import MIME as SLIDES
from .pptx import read_slides
from .rtf import MIME as RTF
from .rtf import read_rtf
from .xlsx import MIME as SHEETS
from .xlsx import read_sheets

__all__ = ["CODES", "DOCX", "ConversionError", "Converted", "convert", "sniff_mime"]

DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
OPENDOCUMENT = tuple(OPENDOCUMENT_MIME + kind for kind in KINDS)
_UNKNOWN = "application/octet-stream"
SIZE_MAX = 50_000_000
"""Larger than any contract or manual we met; the limit is on the bytes of the source."""

_MAGIC = (
    (b"%PDF-", "application/pdf"),
    (b"II*\x00", "image/tiff"),
    (b"MM\x00*", "image/tiff"),
    (b"\x1f\x8b", "application/gzip"),
    (b"{\\rtf", RTF),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "application/x-ole-storage"),
)
_PARTS = (
    (BODY, DOCX),
    (re.compile(r"xl/workbook\.xml"), SHEETS),
    (re.compile(r"ppt/presentation\.xml"), SLIDES),
)
_ENDINGS = {
    "pdf": "application/pdf",
    **dict.fromkeys(("docx", "docm"), DOCX),
    **dict.fromkeys(("xlsx", "xlsm"), SHEETS),
    **dict.fromkeys(("pptx", "pptm", "ppsx"), SLIDES),
    **dict(zip(("odt", "ods", "odp", "odg"), OPENDOCUMENT, strict=True)),
    "epub": BOOK,
    "rtf": RTF,
    "eml": MAIL,
    **dict.fromkeys(("html", "htm", "xhtml"), "text/html"),
    **dict.fromkeys(("md", "markdown"), "text/markdown"),
    "csv": "text/csv",
    "tsv": "text/tab-separated-values",
    "json": "application/json",
    "xml": "application/xml",
}
_OFFICE = (DOCX, SHEETS, SLIDES, *OPENDOCUMENT, BOOK)
_PACKED = ("application/pdf", *_OFFICE)
"""Kinds that a damaged file keeps by its name."""
_HTML = re.compile(
    rb"\s*+(?:<\?xml[^>]*+>\s*+)?+(?:<!--(?:(?!-->).)*+-->\s*+)*+<(?:!doctype\s++html|html|head|body)[\s>]",
    re.IGNORECASE | re.DOTALL,
)
"""What a page begins with. Read in the host's own process, so nothing in it is tried twice."""
_ADVICE = {
    "application/x-ole-storage": 'is an old Office or Outlook file; save it as ".docx", ".xlsx", ".pptx", ".eml" or PDF and try again',
    "application/zip": "is a ZIP archive; unpack it and pass the files one by one",
    "application/gzip": "is compressed; unpack it and pass the file inside",
}

Reader = Callable[[bytes, str], Converted]
"""
Reads one format from the file and the character set that its server stated (empty for none; only texts have one).

Raises `ConversionError`, or whatever its library raises; its text may be empty.
"""

_READERS: dict[str, Reader] = {
    "application/pdf": read_pdf,
    DOCX: read_docx,
    SHEETS: read_sheets,
    SLIDES: read_slides,
    **dict.fromkeys(OPENDOCUMENT, read_opendocument),
    BOOK: read_book,
    RTF: read_rtf,
    "text/html": read_html,
    "text/markdown": read_markdown,
    "text/csv": read_csv,
    "text/tab-separated-values": read_csv,
    "application/json": read_json,
    "application/xml": read_plain,
    "text/plain": read_plain,
}


_TABLES = (SHEETS, OPENDOCUMENT[1], "text/csv", "text/tab-separated-values", "application/json")
_PLAIN = (read_plain, read_markdown, read_csv, read_json)

_PAGES = ("bs4", "markdownify")
LIBRARIES: dict[str, tuple[str, ...]] = {
    "application/pdf": ("pypdfium2",),
    DOCX: ("lxml",),
    SHEETS: ("openpyxl",),
    SLIDES: ("pptx",),
    BOOK: _PAGES,
    RTF: ("striprtf",),
    "text/html": _PAGES,
}
"""By kind, the modules of other projects that its reader imports. A mail needs what its parts need, and is read without them."""


def sniff_mime(name: str, data: bytes) -> str:
    """
    Return the kind of a document, by its content first and by the ending of its name second.

    Of *name*, a file name or path, only the ending is looked at. Binary data of no known kind is
    ``application/octet-stream``.
    """
    ending = _ENDINGS.get(name.rpartition(".")[2].lower() if "." in name else "")
    if picture := picture_kind(data):
        return picture
    head = data[:1024]
    for magic, mime in _MAGIC:
        if head.lstrip(b"\xef\xbb\xbf\r\n\t ").startswith(magic):
            return mime
    if ending == "application/pdf" and b"%PDF-" in head:
        return ending
    if head.startswith(b"PK\x03\x04"):
        return _sniff_zip(data, ending)
    if ending in _PACKED:
        return ending
    if decode(data) is None:
        return _UNKNOWN
    if _HTML.match(data.removeprefix(b"\xef\xbb\xbf")[:4096]):
        return "text/html"
    if ending in (None, "text/plain") and looks_like_mail(data[:8192].removeprefix(b"\xef\xbb\xbf")):
        return MAIL
    if ending is None and valid_json(data):
        return "application/json"
    return ending or "text/plain"


def _sniff_zip(data: bytes, ending: str | None) -> str:
    if data.count(b"PK\x01\x02") > PARTS_MAX:  # a bomb, for whoever opens it
        return ending if ending in _OFFICE else "application/zip"
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = set(archive.namelist())
            stated = (
                archive.open("mimetype").read(80).decode("ascii", "replace") if "mimetype" in names else ""
            )
    except Exception:  # noqa: BLE001 - a torn archive: its name is the only hint left
        return ending if ending in _OFFICE else "application/zip"
    stated = stated.strip().removesuffix("-template")
    known = stated if stated in _OFFICE else "application/zip"
    return next((mime for part, mime in _PARTS if any(map(part.fullmatch, names))), known)


def convert(name: str, data: bytes, *, mime: str | None = None, size_max: int = SIZE_MAX) -> Converted:
    """
    Turn one document into text.

    Args:
        name: File name, for the kind and for error messages; nothing is opened.
        data: The whole document.
        mime: Kind as a server or caller stated it, e.g. ``text/html; charset=utf-8``. It is followed for
            text formats; a PDF, DOCX or other binary file is recognised by its content all the same.
        size_max: Most bytes that are looked at; 50 MB by default.

    Returns:
        The text with its title, pages and notes.

    Raises:
        ConversionError: For every document that gives no text; ``code`` says why.
    """
    return _convert(name, data, mime=mime, size_max=size_max)


def _convert(name: str, data: bytes, *, mime: str | None = None, size_max: int, depth: int = 0) -> Converted:
    """Convert a document that is in *depth* mails."""
    if name.endswith(("/", "\\")):
        raise ConversionError("unsupported", f"{shown(name)} is a folder; pass one file of it")
    if not data:
        raise ConversionError("empty", f"{shown(name)} is empty (0 bytes)")
    if len(data) > size_max:
        message = f"{shown(name)} has {len(data):,} bytes, the limit is {size_max:,}; split it"
        raise ConversionError("too_large", message)
    kind, charset = _kind(name, data, mime)
    reader = _READERS.get(kind)
    if kind == MAIL:
        reader = partial(read_mail, convert=partial(_convert, size_max=size_max), depth=depth)
    if reader is None:
        raise _refusal(name, data, kind)
    try:
        converted = reader(data, charset)
    except ConversionError as error:
        raise ConversionError(error.code, f"{shown(name)}: {error.message}") from error
    except ModuleNotFoundError as error:
        needs = f'{shown(name)} needs a library that is not installed: pip install "paor[documents]"'
        raise ConversionError("missing_extra", needs) from error
    except MemoryError:
        raise ConversionError(
            "too_large", f"{shown(name)} needs more memory than there is to read it; split it"
        ) from None
    except RecursionError as error:
        raise ConversionError("broken", f"{shown(name)} is nested too deeply to be read") from error
    except Exception as error:  # whatever a library makes of a damaged file
        if "Excessive depth" in str(error):  # of lxml
            raise ConversionError("broken", f"{shown(name)} is nested too deeply to be read") from error
        what = f"{shown(name)} is damaged and could not be read as {kind} ({type(error).__name__})"
        raise ConversionError("broken", f"{what}; open it in its own program and save it again") from error
    if not converted.text.strip():
        raise ConversionError("empty", f"{shown(name)} holds no text")
    if kind in _TABLES:
        return converted
    return replace(converted, places=places_of(converted.text, converted.places))


def absent_libraries(name: str, data: bytes) -> tuple[str, ...]:
    """Return the modules without which `convert` cannot read a document, and that are not installed; imports nothing."""
    absent = {
        name for names in LIBRARIES.values() for name in names if importlib.util.find_spec(name) is None
    }
    needed = LIBRARIES.get(_kind(name, data, None)[0], ()) if absent else ()
    return tuple(name for name in needed if name in absent)


def is_plain(name: str, data: bytes, mime: str | None = None) -> bool:
    """Return whether a document is plain text, Markdown, CSV, JSON or XML: read in a time that grows with its size only."""
    return _READERS.get(_kind(name, data, mime)[0]) in _PLAIN or not data


def _kind(name: str, data: bytes, mime: str | None) -> tuple[str, str]:
    """Return the reader's key and the charset that *mime* named, or an empty one."""
    sniffed = sniff_mime(name, data)
    stated, _, parameters = (mime or "").lower().partition(";")
    stated = {"application/xhtml+xml": "text/html"}.get(stated.strip(), stated.strip())
    charset = re.search(r"charset\s*=\s*[\"']?([\w.:-]+)", parameters)
    if _is_text(sniffed) and _is_text(stated) and stated in _READERS:
        sniffed = stated
    return sniffed, charset[1] if charset else ""


def _is_text(mime: str) -> bool:
    return mime.startswith("text/") or mime in ("application/json", "application/xml")


def _refusal(name: str, data: bytes, kind: str) -> ConversionError:
    if kind == "application/x-ole-storage" and "EncryptedPackage".encode("utf-16-le") in data:
        code, words = "encrypted", "is protected by a password; save a copy without one and try again"
    elif kind.startswith("image/"):
        code, words = "unsupported", "is a picture; text in pictures is not recognised (no OCR)"
    elif kind in _ADVICE:
        code, words = "unsupported", _ADVICE[kind]
    else:
        code, words = "binary", "is binary data of no known kind, not a document"
    return ConversionError(code, f"{shown(name)} {words}")


def shown(name: str) -> str:
    """Return a file's name for a message."""
    return repr(name if len(name) <= 80 else f"{name[:38]}…{name[-38:]}")
