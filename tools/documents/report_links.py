"""Which links a report may open: http, https and mail addresses."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it.token import Token

_LINK = re.compile(r"(?:https?://|mailto:)", re.IGNORECASE)


def link_of(token: Token) -> str:
    """Return where a link leads; empty where it leads to what a report must not open."""
    target = str(token.attrGet("href") or "")
    return target if _LINK.match(target) else ""
