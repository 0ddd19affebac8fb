"""
What a run and its model have said to each other, in the order in which it happened, as references to texts that the journal holds.

Each item is made once, by the row that brought it (`fsm.decision.conversation`), and never changes until a cut. Texts stand where
they were stored first: a reply in its payload, a result in its document's. Only the engine's own words stand in the item.
"""

from __future__ import annotations

from typing import Literal

from ..base.wire import Stored
from .actions import StoredText


class Piece(Stored, frozen=True, gc=False):
    """
    One piece of an item's text: words, then a stored text.

    Attributes:
        words: Said by the engine.
        text: Payload of the text behind them; None for none.
        chars: How many of its characters are shown; 0 for all.
    """

    words: str = ""
    text: StoredText | None = None
    chars: int = 0


class Item(Stored, frozen=True, gc=False, kw_only=True):
    """
    One message of a conversation.

    Attributes:
        role: Who speaks: the model, a tool, or the user, for whom the engine speaks too.
        pieces: What is said, one after the other.
        size: Bytes of all that, for the budget of the context.
        calls: Of the model: ids of the calls that it makes, in their order; the first piece is then a reply in the form of turns.
        call: Of a tool: id of the call whose result it is.
        parts: Of the model: payload of its turn as its provider gave it (`prompts.model.Reply.parts`).
        model: Which model that was; another one gets the turn without its parts.
        summary: Of a result: what stands in its place after a cut.
    """

    role: Literal["assistant", "tool", "user"]
    pieces: tuple[Piece, ...] = ()
    size: int = 0
    calls: tuple[str, ...] = ()
    call: str = ""
    parts: StoredText | None = None
    model: str = ""
    summary: str = ""


class Cut(Stored, frozen=True, gc=False):
    """
    A conversation that no longer fitted its context, cut in one block.

    Attributes:
        dropped: How many of its items, from the oldest on, are left out.
        summarized: How many of those after them have their summaries instead of their results.
        size: Bytes of all items before it.
        left: Bytes after it.
    """

    dropped: int
    summarized: int
    size: int
    left: int


class Spoken(Stored, frozen=True, gc=False):
    """
    What a row adds to a run's conversation.

    Attributes:
        items: In order.
        cut: What is cut of all items, these included; None for nothing.
    """

    items: tuple[Item, ...] = ()
    cut: Cut | None = None


SUMMARY_ENDS = " (shortened to save room; call again for the whole)"
"""After the summary of a result that a cut has taken."""


def with_said(items: tuple[Item, ...], said: Spoken) -> tuple[Item, ...]:
    """Return a conversation after a row has added to it."""
    items += said.items
    if (cut := said.cut) is None:
        return items
    kept = items[cut.dropped :]
    return (*map(summarized, kept[: cut.summarized]), *kept[cut.summarized :])


def summarized(item: Item) -> Item:
    """Return a result with its summary in its place; any other item, and one that is not longer, as it is."""
    size = len(item.summary.encode()) + len(SUMMARY_ENDS)
    if not item.summary or size >= item.size:
        return item
    pieces = (Piece(f"{item.summary}{SUMMARY_ENDS}"),)
    return Item(role=item.role, pieces=pieces, size=size, call=item.call)


def cut_of(items: tuple[Item, ...], room: int) -> Cut | None:
    """
    Return how a conversation is cut that has more than *room* bytes; None for one that has not.

    It is cut to half of that, so that the next requests have room to grow and begin with the same bytes: first older results
    become their summaries, then the oldest turns are left out. The newest turn with its results stays whole.
    """
    size = sum(item.size for item in items)
    if size <= room:
        return None
    newest = next((at for at in range(len(items) - 1, -1, -1) if items[at].role == "assistant"), 0)
    left, at = size, 0
    while at < newest and left > room // 2:
        left -= items[at].size - summarized(items[at]).size
        at += 1
    if left <= room // 2:
        return Cut(0, at, size, left)
    dropped = 0
    starts = [*(place for place in range(1, newest) if items[place].role == "assistant"), newest]
    for start in starts:
        left -= sum(summarized(item).size for item in items[dropped:start])
        dropped = start
        if left <= room // 2:
            break
    return Cut(dropped, max(0, at - dropped), size, left)
