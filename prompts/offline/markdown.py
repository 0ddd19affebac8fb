"""
Show words of a source as Markdown.

What comes from a source is data: it is put in so that it shows as plain words and cannot become a heading, a link, HTML, a
fence, or an open emphasis that swallows what follows. Every pattern is bounded, so the time is linear in the text.
"""

import re
from typing import Final

_CONTROL: Final = dict.fromkeys(
    [
        *range(0x20),
        *range(0x7F, 0xA0),
        0xAD,
        0x200B,
        0x200E,
        0x200F,
        *range(0x202A, 0x202F),
        *range(0x2060, 0x206A),
        0xFEFF,
    ]
)
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_STRONG = re.compile(r"(\*\*|__)(?=\S)([^*_]{1,300}?)(?<=\S)\1")
_EMPHASIS = re.compile(r"(?<![\w*\\])([*_])(?=[^\s*_])([^*_]{1,300}?)(?<=[^\s*_])\1(?![\w*])")
_LINK = re.compile(r"!?\[([^\[\]]{0,200})\]\(([^()\s]{0,300})(?: \"[^\"]{0,100}\")?\)")
_SPECIAL = re.compile(r"[*\[\]]|\\(?=[!-/:-@\[-`{-~]|$)|(?<!\w)_|_(?!\w)|~~")
_TAG = re.compile(r"<(?=[A-Za-z/!?])")
_START = re.compile(r"(?:#{1,6}(?=\s|$)|>|[-+](?=\s|$)|[-=~]{3,}|\d{1,9}(?=[.)](?:\s|$)))")


def escape(text: str, *, start: bool = True) -> str:
    """
    Return *text*, one line of a source, as Markdown that shows its words and nothing else.

    Code spans stay; links show their target as text; bold and italic marks around words go. With *start* it may come to
    be at the start of a line, where more is special.
    """
    text = bare(text)
    parts = text.split("`")
    if len(parts) % 2 == 0 or any(not part for part in parts[1:-1]):
        line = _plain(text).replace("`", r"\`")
    else:
        line = "`".join(part if number % 2 else _plain(part) for number, part in enumerate(parts))
    mark = _START.match(line) if start else None
    if mark is None:
        return line
    return line[: mark.end()] + "\\" + line[mark.end() :] if mark.group()[0].isdigit() else "\\" + line


def bare(text: str) -> str:
    """Return *text* in one line without control characters."""
    return _SURROGATE.sub("\ufffd", " ".join(text.split()).translate(_CONTROL))


def _plain(text: str) -> str:
    """Escape *text*, which holds no code span."""
    if "](" in text:
        text = _LINK.sub(
            lambda match: f"{match[1]} ({match[2]})" if match[2] and match[1] != match[2] else match[1], text
        )
    text = _EMPHASIS.sub(r"\2", _STRONG.sub(r"\2", text))
    return _TAG.sub("&lt;", _SPECIAL.sub(lambda match: "\\" + match.group(), text))
