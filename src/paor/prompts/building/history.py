"""History as a model sees it: newest first, under a character budget (document 003)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from ...states.records.observations import Message


def first_bytes(text: str, bytes_max: int) -> str:
    """Return the beginning of *text* that has at most *bytes_max* bytes."""
    if len(text) * 4 <= bytes_max:
        return text
    return text.encode("utf-8", "replace")[: max(0, bytes_max)].decode("utf-8", "ignore")


OMITTED = "(older actions left out)"
SHORTENED = "(shortened)"


def message_text(message: Message, whole: str = "") -> str:
    """Return one action as a few lines; what it lacks leaves no empty heading. *whole* stands in place of its summary and notes."""
    outcome = "ok" if message.success else "failed"
    place = f"Step {message.step}"
    if message.round:
        place = f"Round {message.round}, step {message.step}" if message.step else f"Round {message.round}"
    lines = [f"- {place}: {message.tool} [{outcome}] {message.objective}".rstrip()]
    if message.label and message.documents_count:
        lines.append(f"  Documents: docList:{message.label} ({message.documents_count})")
        lines.extend(f"    {document}" for document in message.documents)
    if arguments := arguments_text(message):
        lines.append(f"  Arguments: {arguments}")
    lines.append(f"  Summary: {' '.join(whole.split()) or message.summary}")
    if message.notes and not whole:
        lines.append("  Notes: " + "; ".join(message.notes))
    if message.learnings:
        lines.append("  Learnings: " + "; ".join(message.learnings))
    return "\n".join(lines)


ARGUMENTS_CHARS = 400
"""Of one action's arguments, as history and judges see them."""


def arguments_text(message: Message) -> str:
    """Return an action's arguments as JSON of at most `ARGUMENTS_CHARS` characters, empty where it had none."""
    if not message.arguments:
        return ""
    shown = msgspec.json.encode(message.arguments).decode()
    return shown if len(shown) <= ARGUMENTS_CHARS else f"{shown[: ARGUMENTS_CHARS - 1]}…"


def result_text(message: Message) -> str:
    """Return one call as a planner sees it: JSON with id, name, args, result and error."""
    data: dict[str, object] = {"id": message.call_id} if message.call_id else {}
    data |= {"name": message.tool, "args": message.arguments or {}}
    if message.output or not message.error:
        data["result"] = message.output
    if message.error:
        data["error"] = message.told_error
    return msgspec.json.encode(data).decode()


def newest_lines(lines: Sequence[str], chars_max: int, bytes_max: int | None = None) -> str:
    """Return *lines* in their order, the oldest left out until they fit; the newest is always there, cut to size."""
    return "\n".join(reversed(_fitting(reversed(lines), chars_max, bytes_max)))


def history_text(rendered: Iterable[str], chars_max: int, bytes_max: int | None = None) -> str:
    """
    Return actions as `message_text` gives them, newest first, as text of at most *chars_max* characters and *bytes_max* bytes.

    A marker follows when something was cut. The newest action is always there, cut to size when it alone is too
    long.
    """
    return "\n".join(_fitting(rendered, chars_max, bytes_max))


def _fitting(texts: Iterable[str], left: int, bytes_left: int | None) -> list[str]:
    """Return the first of *texts* that fit into *left* characters and bytes, and what is said of those that do not."""
    kept: list[str] = []
    rest = iter(texts)
    for text in rest:
        size = 0 if bytes_left is None else len(text.encode("utf-8", "replace"))
        if len(text) > left or size > (bytes_left or 0):
            if not kept and left > 0:
                beginning = text[:left]
                if bytes_left is not None:
                    beginning = first_bytes(beginning, bytes_left)
                kept.append(f"{beginning}\n{SHORTENED}")
                if next(rest, None) is None:
                    break
            kept.append(OMITTED)
            break
        kept.append(text)
        left -= len(text) + 1
        bytes_left = None if bytes_left is None else bytes_left - size - 1
    return kept
