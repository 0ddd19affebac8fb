"""What a model has thought before a reply, from its provider's own turn: what an auditor can read of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

_TEXTS = ("thinking", "reasoning_content", "reasoning")
"""Members that hold readable reasoning: of Anthropic's blocks, and of messages of servers that speak Chat Completions."""


def thought_in(stored: str | None) -> str:
    """Return the readable reasoning in a provider's own turn as it is stored; empty for none, and for what is encrypted."""
    if stored is None:
        return ""
    try:
        parts = orjson.loads(stored).get("parts", ())
    except (orjson.JSONDecodeError, AttributeError):
        return ""
    return "\n\n".join(text for part in parts if isinstance(part, Mapping) for text in _thoughts(part))


def _thoughts(part: Mapping[str, Any]) -> Iterator[str]:
    kind = part.get("type")
    if kind == "reasoning":
        for item in (*_list(part.get("summary")), *_list(part.get("content"))):
            if isinstance(item, Mapping) and isinstance(item.get("text"), str) and item["text"].strip():
                yield item["text"]
        return
    for name in _TEXTS:
        if isinstance(part.get(name), str) and part[name].strip():
            yield part[name]
            return


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
