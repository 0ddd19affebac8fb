"""
Show words of a source as Markdown.

What comes from a source is data: it is put in so that it shows as plain words and cannot become a heading, a link, HTML, a
fence, or an open emphasis that swallows what follows. Every pattern is bounded, so the time is linear in the text.
"""

import re

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\xad\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_STRONG = re.compile(r"(\*\*|__)(?=\S)([^*_]{1,300}?)(?<=\S)\1")
_EMPHASIS = re.compile(r"(?<![\w*\\])([*_])(?=[^\s*_])([^*_]{1,300}?)(?<=[^\s*_])\1(?![\w*])")
_CODE = re.compile(r"((?<!`)`[^`]+`(?!`))")
_LINK = re.compile(r"!?\[([^\[\]]{0,200})\]\(([^()\s]{0,300})(?: \"[^\"]{0,100}\")?\)")
_SPECIAL = re.compile(r"[*\[\]`]|\\(?=[!-/:-@\[-`{-~]|$)|(?<!\w)_|_(?!\w)|~~")
_TAG = re.compile(r"<(?=[A-Za-z/!?])")
_START = re.compile(r"(?:#{1,6}(?=\s|$)|>|[-+](?=\s|$)|[-=~]{3,}|\d{1,9}(?=[.)](?:\s|$)))")


def escape(text: str, *, start: bool = True) -> str:
    """
    Return *text*, one line of a source, as Markdown that shows its words and nothing else.

    Code spans stay; links show their target as text; bold and italic marks around words go. With *start* it may come to
    be at the start of a line, where more is special.
    """
    line = _SURROGATE.sub("\ufffd", _CONTROL.sub("", " ".join(text.split())))
    pieces = _CODE.split(line)
    pieces[::2] = map(_plain, pieces[::2])
    line = "".join(pieces)
    mark = _START.match(line) if start else None
    if mark is None:
        return line
    return line[: mark.end()] + "\\" + line[mark.end() :] if mark.group()[0].isdigit() else "\\" + line


def _plain(text: str) -> str:
    """Escape *text*, which holds no code span."""
    if "](" in text:
        text = _LINK.sub(
            lambda link: f"{link[1]} ({link[2]})" if link[2] not in ("", link[1]) else link[1], text
        )
    text = _EMPHASIS.sub(r"\2", _STRONG.sub(r"\2", text))
    return _TAG.sub("&lt;", _SPECIAL.sub(r"\\\g<0>", text))
