"""
Read EML: who wrote what to whom and when, the text, and the attachments as far as they have text.

Everything is the standard library's but the formats of attachments. Nothing is fetched; what a mail hides in HTML is
left out as for any page. Not covered: Outlook's ``.msg``, and mails that are encrypted.
"""

import email.policy
import re
from collections.abc import Callable, Iterator
from email.header import decode_header
from email.message import Message
from email.parser import BytesParser
from email.utils import parsedate_to_datetime
from typing import Any

from .conversion import ConversionError, Converted, clean, one_line, tidy
from .plain import decode

MIME = "message/rfc822"
_UTF_8_PAGE = "text/html; charset=utf-8"
DEPTH_MAX = 3
"""Mails within mails."""
PARTS_MAX = 200
CHARS_MAX = 10_000_000
_MULTIPARTS_MAX = 100
"""The parser looks for every open boundary in each line: without a bound its time grows with the square."""
_HEADERS = ("From", "Reply-To", "To", "Cc", "Bcc", "Date", "Subject")
_HEAD = re.compile(
    rb"(?:From |(?:Received|From|To|Subject|Date|Message-ID|MIME-Version|Return-Path|Delivered-To|X-[\w-]+|Content-Type)"
    rb":)[^\r\n]*\r?\n(?:[ \t][^\r\n]*\r?\n)*",
    re.IGNORECASE,
)
HEADER_CHARS_MAX = 20_000
"""Characters of a header; the standard library takes a time that grows with the square of them."""


class _ShortHeaders(email.policy.Compat32):
    """The newer policies parse structured headers, and raise on some that servers deliver every day."""

    def header_source_parse(self, sourcelines: list[str]) -> tuple[str, str]:
        """Return a header's name and the beginning of its value."""
        name, value = super().header_source_parse(sourcelines)
        return name, value[:HEADER_CHARS_MAX]


Converter = Callable[..., Converted]
"""Converts an attachment or a page, given its name, its bytes, `mime` where it is known, and `depth`: how many mails it is in."""


def looks_like_mail(head: bytes) -> bool:
    """Whether a text begins as a mail does: with two headers of a mail at least, one of them its own."""
    names: list[bytes] = []
    position = 0
    while (found := _HEAD.match(head, position)) is not None:
        names.append(found[0].partition(b":")[0].lower())
        position = found.end()
    own = {b"received", b"message-id", b"return-path", b"delivered-to", b"mime-version"}
    return len(names) >= 2 and (not own.isdisjoint(names) or {b"from", b"subject"} <= set(names))


def read_mail(data: bytes, charset: str = "", *, convert: Converter, depth: int) -> Converted:
    """
    Return a mail as Markdown.

    Args:
        data: The file.
        charset: Not used; each part states its own.
        convert: Reads what is attached, and pages.
        depth: How many mails it is in.

    Raises:
        ConversionError: ``encrypted``, or ``broken`` when it is made to take very long.
    """
    return _Mail(convert, depth).read(data)


class _Mail:
    """One mail and what is attached to it."""

    def __init__(self, convert: Converter, depth: int) -> None:
        self._convert = convert
        self._depth = depth
        self._chars = CHARS_MAX
        self.notes: list[str] = []

    def read(self, data: bytes) -> Converted:
        """Return it as Markdown."""
        if len(re.findall(rb"(?i)multipart/", data)) > _MULTIPARTS_MAX:
            raise ConversionError("broken", f"has more than {_MULTIPARTS_MAX} parts made of parts")
        message = BytesParser(policy=_ShortHeaders()).parsebytes(data)
        subject = _shown(message, "Subject")
        headers = [f"- {name}: {value}" for name in _HEADERS if (value := _shown(message, name))]
        blocks = ["\n".join(headers)] if headers else []
        texts, attachments = self._sort(message)
        if not texts and not attachments and message.get_content_type() in _ENCRYPTED:
            raise ConversionError("encrypted", "is an encrypted mail; save its text and try again")
        blocks += map(self._text, texts)
        for number, part in enumerate(attachments, 1):
            blocks += self._attachment(part, number)
        if any(len(str(value)) >= HEADER_CHARS_MAX for value in message.values()):
            self.notes.append(f"of a header only the first {HEADER_CHARS_MAX:,} characters are read")
        text = tidy("\n\n".join(block for block in blocks if block.strip()))
        return Converted(text, MIME, subject, notes=tuple(self.notes))

    def _sort(self, message: Message) -> tuple[list[Message], list[Message]]:
        """Return the parts that are the mail's text, and those that are attached."""
        texts: list[Message] = []
        attachments: list[Message] = []
        for count, part in enumerate(_leaves(message)):
            if count >= PARTS_MAX:
                self.notes.append(f"only the first {PARTS_MAX} parts are read")
                break
            kind = part.get_content_type()
            attached = (part.get_content_disposition() or "") == "attachment" or bool(_name(part))
            if not attached and kind in ("text/plain", "text/html", "text/calendar"):
                texts.append(part)
            elif kind in _ENCRYPTED:
                self.notes.append(f"a part that is encrypted or sealed ({kind}) is left out")
            else:
                attachments.append(part)
        return texts, attachments

    def _text(self, part: Message) -> str:
        """Return a text part; of HTML what a reader sees."""
        charset = str(part.get_content_charset() or "")
        unsure = charset in ("us-ascii", "ascii")  # what is not ASCII is guessed
        decoded = decode(_body(part), "" if unsure else charset)
        if decoded is None:
            self.notes.append("a text part holds binary data and is left out")
            return ""
        text, notes = decoded
        self.notes += notes
        if part.get_content_type() == "text/html":
            try:  # what the page says of its own encoding was true of the part as it came
                page = self._convert(
                    "mail.html", text.encode("utf-8", "replace"), mime=_UTF_8_PAGE, depth=self._depth
                )
            except ConversionError as error:
                self.notes.append(f"an HTML part is left out: {error.message}")
                return ""
            text = page.text
            self.notes += page.notes
        if part.get_content_type() == "text/calendar":
            text = "Invitation:\n" + _invitation(text)
        return self._cut(tidy(text).strip())

    def _attachment(self, part: Message, number: int) -> Iterator[str]:
        name = one_line(_name(part)) or f"attachment {number}"
        is_mail = part.get_content_type() == "message/rfc822"
        if is_mail and self._depth + 1 > DEPTH_MAX:
            self.notes.append(f"a mail within {DEPTH_MAX} others is left out")
            return
        data = _body(part)
        if not data:
            self.notes.append(f"{name}: is empty")
            return
        try:
            converted = self._convert(f"{name}.eml" if is_mail else name, data, depth=self._depth + 1)
        except ConversionError as error:
            self.notes.append(f"the attachment {name} is left out: {error.message}")
            return
        self.notes += [f"{name}: {note}" for note in converted.notes]
        yield f"## Attachment: {name}"
        yield self._cut(converted.text)

    def _cut(self, text: str) -> str:
        kept = text[: max(0, self._chars)]
        self._chars -= len(text)
        if len(kept) < len(text):
            self.notes.append("the mail holds more text than is read of one; the rest is left out")
        return kept


_ENCRYPTED = ("application/pkcs7-mime", "application/x-pkcs7-mime", "application/pgp-encrypted")


def _leaves(message: Message) -> Iterator[Message]:
    """
    Yield the parts that hold content, in order; of alternatives the plain text, else the HTML.

    A mail that is attached is one part.
    """
    pending = [message]
    while pending:
        part = pending.pop()
        inner = part.get_payload()
        if part.get_content_type() == "message/rfc822" or not isinstance(inner, list):
            if part.get_content_maintype() != "multipart":
                yield part
        elif part.get_content_type() == "multipart/alternative":
            parts = [item for item in inner if isinstance(item, Message)]
            best = _best(parts) or Message()
            others = [item for part in parts if part is not best for item in _around(part)]
            more = [item for item in others if item.get_content_type() not in _TEXTS]
            pending.extend([*reversed(more), best])
        elif part.get_content_maintype() == "message":  # a report on delivery: its parts are headers only
            yield _report(part, inner)
        else:
            pending.extend(reversed([item for item in inner if isinstance(item, Message)]))


_TEXTS = ("text/plain", "text/html", "text/enriched", "text/x-amp-html", "text/watch-html")
"""Forms of the same text; of alternatives one of them is read."""


def _around(part: Message) -> list[Message]:
    """Return a form of the text with the pictures that come with it."""
    inner = part.get_payload()
    is_related = part.get_content_type() == "multipart/related" and isinstance(inner, list)
    return [item for item in inner if isinstance(item, Message)] if is_related else [part]


def _report(part: Message, inner: list[Any]) -> Message:
    """Return a part that is made of headers as plain text."""
    made = Message()
    made.set_payload("\n\n".join(str(item) for item in inner).encode("utf-8", "replace"))
    made["Content-Type"] = "text/plain; charset=utf-8"
    return made


_CALENDAR = re.compile(
    r"(?:BEGIN|END|UID|DTSTAMP|SEQUENCE|PRODID|VERSION|CALSCALE|X-[\w-]+|TZ\w+|RRULE-\w+)[:;].*",
    re.IGNORECASE,
)


def _invitation(text: str) -> str:
    """Return the lines of a calendar that a person would be shown, unfolded: when, where, who, how often."""
    lines = re.sub(r"\r?\n[ \t]", "", text).splitlines()
    kept = (line for line in lines if line.strip() and not _CALENDAR.fullmatch(line))
    return "\n".join(
        "- " + re.sub(r"\\(.)", lambda at: " " if at[1] in "nN" else at[1], line) for line in kept
    )


def _best(parts: list[Message]) -> Message | None:
    kinds = {part.get_content_type(): part for part in reversed(parts)}
    for kind in ("text/plain", "text/html"):
        if kind in kinds and _body(kinds[kind]).strip():
            return kinds[kind]
    nested = [part for part in parts if part.is_multipart()]
    return nested[0] if nested else (parts[0] if parts else None)


def _body(part: Message) -> bytes:
    """Return the bytes of a part; of an attached mail its source."""
    inner = part.get_payload()
    if isinstance(inner, list):
        return b"".join(item.as_bytes() for item in inner[:1] if isinstance(item, Message))
    body = part.get_payload(decode=True)
    return body if isinstance(body, bytes) else b""


def _name(part: Message) -> str:
    try:
        return clean(_words(part.get_filename() or ""))
    except (LookupError, ValueError, TypeError):
        return ""


def _words(text: str) -> str:
    """Return a header with its encoded words decoded, whatever charset they claim."""
    try:
        found = decode_header(text)
    except (ValueError, LookupError):
        return text
    parts = (
        part if isinstance(part, str) else (decode(part, charset or "") or ("",))[0]
        for part, charset in found
    )
    return "".join(parts)


def _shown(message: Message, name: str) -> str | None:
    value = one_line(_words(str(message.get(name) or "")))
    if name != "Date" or not value:
        return value
    try:
        return parsedate_to_datetime(value).isoformat(" ")
    except (ValueError, TypeError, IndexError, OverflowError):
        return value
