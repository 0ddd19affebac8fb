"""
What a server refuses of a request, and how it is asked once more: without it, smaller, in another form, or as it was; pure.

What is decided is decided by what an error is about: the status says that the request is meant, its parameter and words name something
that was sent. How a provider says that it does not want it does not matter, but where it decides between two ways to do without.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Literal

from msgspec import Struct

from ...model import OfferedTool
from .faults import AttemptFault

Scope = Literal["server", "schema", "request"]


class Refusal(Struct, frozen=True):
    """
    What another attempt does without.

    Attributes:
        feature: What is left out, of those that were sent; ``smaller`` asks for fewer tokens, ``again`` changes nothing.
        scope: For what this holds once it has helped: every request to this server, those with the same schema, this one.
        limit: Of ``smaller``: most tokens of the reply.
        tool: Of ``offer``: the tool that is not offered.
    """

    feature: str
    scope: Scope = "server"
    limit: int = 0
    tool: str = ""


_ABOUT_REQUESTS = (400, 404, 405, 415, 422, 501)
"""Statuses that can mean a part of the request; at 500 only a schema can be meant, of which servers make a grammar."""
_SCHEMA = re.compile(r"\bschema|grammar")
_UNSUPPORTED = re.compile(
    r"support|unknown|unrecogni[sz]ed|permitted|allowed|implemented|available|enabled|deprecated|removed"
)
_WRONG_SCHEMA = re.compile(
    r"invalid (?:json )?schema|schema (?:error|conversion)|(?:parse|compile) grammar|complex"
)
_NOT_THEIRS = re.compile(r"\A(?=.*?(?:signature|encrypted))(?=.*?(?:invalid|verif|decrypt))", re.DOTALL)
"""How providers say that a turn which is sent back is of another account, or of a key that is no more."""
_BUDGET = re.compile(r"budget.?tokens|thinking.?budget")
"""What gateways make of an effort; where it does not fit the limit of a short reply, longer ones may still have it."""
_NAMES = {
    "pictures": r"\bimages?\b|image_url|\bvision\b|multi.?modal|mmproj|content\b.{0,60}\bstring|string\b.{0,60}\bcontent",
    "stream_options": r"stream.options|include.usage",
    "include": r"\binclude\b|encrypted.content",
    "cache": r"cache.control|prompt.cache",
    "structure": r"response.?format|json.?(?:object|schema|mode|reply|output)|structured|text\.format|output.config|output.format"
    r"|response.?(?:mime.?type|json.?schema|schema)|guided|grammar|\bschema|forces? tool|forced tool|tool.choice.*thinking|thinking.*tool.choice",
    "tool_choice": r"tool.?choice|tool.?config",
    "parts": r"reasoning.content|annotations|thinking.block|\bmessages[.\[]|\binput[.\[]",
    "max_completion_tokens": r"max.completion.tokens",
    "max_tokens": r"max.tokens",
    "temperature": r"temperature|sampling",
    "effort": r"effort|reasoning|thinking",
    "store": r"\bstore\b",
    "system": r"\bsystem\b|developer (?:role|message|instruction)|\broles?\b|\binstructions\b",
}
"""
What can be left out of a request, and what servers call it. The first that was sent and is named is meant: an error about a
combination names first what the other one depends on.
"""
_BAD_PICTURE = re.compile(
    r"process|decod|corrupt|dimension|exceed|too (?:large|many|big)|larger than|above|invalid image|appears to be|truncat|format|media.?type|pixels|bytes"
)
"""What providers say of one picture, and not of all."""
_NO_PICTURES = re.compile(
    r"multi.?modal|mmproj|content type|variant|\bvision\b|image input|images are not supported by|processing images is not supported"
    r"|image (?:processing|content) is not supported (?:by|for)|not support images?(?=[.,;:(]|$)"
    r"|(?:can(?:not|'t)|unable to|not support) (?:process(?:ing)? )?(?:any )?(?:images|pictures|image (?:content|inputs?))"
    r"(?! (?:larger|bigger|exceed\w*|over|above|more|of|in|with)\b)"
)
"""What they say of all pictures, whatever words for one stand beside it."""
_TOOL_SCHEMA = re.compile(r"tool|function|input_schema|parameters")
_TOOL_NUMBER = re.compile(r"(?:function_declarations|functions|tools)[.\[]\s*(\d{1,4})\b")

_LIMIT = re.compile(
    r"max\w*.?tokens|max.?output|maximum tokens|predict|completion|output tokens|generated tokens"
)
_OF_BOTH = re.compile(r"context|input|prompt|messages")
_STATUS = re.compile(r"\b(?:http|code|status|error)\W{0,5}[45]\d\d\b")
_NUMBER = re.compile(r"(?<![\w.-])\d(?:[\d,_]*\d)?(?![\w-]|\.\d)")
LIMIT_MIN = 16
"""No server is asked for fewer tokens: the prompt fills its context."""


def refused(
    fault: AttemptFault, sent: Collection[str], *, max_tokens: int, tools: Sequence[OfferedTool] = ()
) -> Refusal | None:
    """
    Return what of a request a server refused, None if it was nothing that can be done without.

    Args:
        fault: Of the attempt.
        sent: Features that were in the request and can be left out.
        max_tokens: Most tokens of the reply, as they were sent.
        tools: Which were offered.
    """
    if fault.is_slip:
        return Refusal("again", "request") if "again" in sent else None
    if fault.status not in _ABOUT_REQUESTS and fault.status != 500:
        return None
    words = f"{fault.param} {fault.message}".lower()
    if fault.status == 500 and "pictures" in sent and re.search(_NAMES["pictures"], words):
        return _of_pictures(words)
    if fault.status == 500:
        sent = {"pattern", "structure", "schemas", "offer"}.intersection(sent)
        if not (_SCHEMA.search(words) and (_WRONG_SCHEMA.search(words) or _UNSUPPORTED.search(words))):
            return None
    return (
        _smaller(words, sent, max_tokens)
        or _tool_schema(words, sent, tools)
        or _named(fault.param.lower(), words, sent)
        or _named(fault.message.lower(), words, sent)
    )


def _named(text: str, words: str, sent: Collection[str]) -> Refusal | None:
    """Return the feature that *text* names."""
    if "parts" in sent and _NOT_THEIRS.search(words):
        return Refusal("parts", "request")
    if "effort" in sent and _BUDGET.search(words):
        return Refusal("effort", "request")
    unsupported, wrong = _UNSUPPORTED.search(words), _WRONG_SCHEMA.search(words)
    if wrong and "pattern" in sent and text:
        return Refusal("pattern")
    name = next((name for name, names in _NAMES.items() if name in sent and re.search(names, text)), None)
    if name is None:
        return None
    if name == "pictures":
        return _of_pictures(words)
    is_one = name == "structure" and (wrong or not unsupported)
    return Refusal(name, "schema" if is_one else "server")


def _of_pictures(words: str) -> Refusal:
    """Return whether one picture was refused, which says nothing of the next one, or every picture is."""
    is_one = _BAD_PICTURE.search(words) and not _NO_PICTURES.search(words)
    return Refusal("pictures", "request" if is_one else "server")


def _tool_schema(words: str, sent: Collection[str], tools: Sequence[OfferedTool]) -> Refusal | None:
    """Return what is done where the schema of a tool is refused: patterns go first, then what few servers take, then the tool."""
    if not tools or not _TOOL_SCHEMA.search(words):
        return None
    tool = _tool_named(words, tools)
    if tool is None and not (_SCHEMA.search(words) and "structure" not in sent):
        return None
    feature = next((name for name in ("pattern", "schemas") if name in sent), "")
    if feature or tool is None:
        return Refusal(feature) if feature else None
    return Refusal("offer", tool=tool.name) if "offer" in sent else None


def _tool_named(words: str, tools: Sequence[OfferedTool]) -> OfferedTool | None:
    """Return the tool that an error names, by its name or by its number."""
    for tool in sorted(tools, key=lambda tool: -len(tool.name)):
        if re.search(rf"(?<![\w-]){re.escape(tool.name.lower())}(?![\w-])", words):
            return tool
    found = _TOOL_NUMBER.findall(words)
    return tools[int(found[-1])] if found and int(found[-1]) < len(tools) else None


def _smaller(words: str, sent: Collection[str], max_tokens: int) -> Refusal | None:
    """Return the limit that an error leaves for a reply: its numbers are the server's limits and what the request needs."""
    if "smaller" not in sent or not _LIMIT.search(words):
        return None
    told = {int(re.sub("[,_]", "", found)) for found in _NUMBER.findall(_STATUS.sub(" ", words))}
    others = {number for number in told if LIMIT_MIN <= number < 10**8 and number != max_tokens}
    rests = {whole - used for whole in others for used in others if used < whole}
    is_context = _OF_BOTH.search(words) is not None
    ways: tuple[tuple[set[int], Scope], ...] = ((rests, "request"), (others, "server"))
    for fits, scope in ways if is_context else ways[1:]:
        limit = max((number for number in fits if LIMIT_MIN <= number < max_tokens), default=0)
        if limit:
            return Refusal("smaller", scope, limit)
    return None
