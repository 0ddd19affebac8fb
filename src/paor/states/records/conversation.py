"""
What a run and its model have said to each other, in the order in which it happened, as references to texts that the journal holds.

Each item is made once, by the row that brought it (`fsm.decision.conversation`), and never changes until a cut. Texts stand where
they were stored first: a reply in its payload, a result in its document's. Only the engine's own words stand in the item.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Literal

from msgspec.structs import replace

from ..base.pictures import PICTURE_ROOM
from ..base.wire import Stored
from .actions import StoredText

Role = Literal["assistant", "tool", "user", "round"]
"""Who speaks: the model, a tool, or the user, for whom the engine speaks too; ``round``: earlier rounds, whole."""


class Piece(Stored, frozen=True, gc=False):
    """
    One piece of an item's text: words, then a stored text.

    Attributes:
        words: Said by the engine.
        text: Payload of the text behind them; None for none.
        bytes: How many of its bytes are shown, at most; 0 for all.
        picture: Payload of a picture that is shown with the words.
    """

    words: str = ""
    text: StoredText | None = None
    bytes: int = 0
    picture: StoredText | None = None

    @property
    def size(self) -> int:
        """Bytes that it has at most."""
        shown = PICTURE_ROOM * (self.picture is not None)
        return len(self.words.encode()) + shown + (0 if self.text is None else self.bytes or self.text.bytes)


class Item(Stored, frozen=True, gc=False, kw_only=True):
    """
    One message of a conversation.

    Attributes:
        role: Who speaks.
        pieces: What is said, one after the other.
        size: Bytes of all that, for the budget of the context.
        calls: Of the model: ids of the calls that it makes, in their order; the first piece is then a reply in the form of turns.
        call: Of a tool: id of the call whose result it is.
        parts: Of the model: payload of its turn as its provider gave it (`prompts.model.Reply.parts`).
        model: Which model that was; another one gets the turn without its parts.
        summary: Of a result: what stands in its place after a cut.
        whole: Of one that is not told whole: bytes of all of it.
        effect: It tells of a call with an effect, so others are shortened before it, and none is asked for again.
        run: Of an earlier round: id of the run in which it was said. All its texts are stored, and told as they are.
        more: Of several rounds: ids of the runs of those after the first.
        asked: Of an earlier round's beginning, where each of its messages is an item: what the user said, alone.
        brief: Of earlier rounds: their text with summaries in the place of results, as it is after a cut; of a message of one the summary
            of a result.
    """

    role: Role
    pieces: tuple[Piece, ...] = ()
    size: int = 0
    calls: tuple[str, ...] = ()
    call: str = ""
    parts: StoredText | None = None
    model: str = ""
    summary: str = ""
    effect: bool = False
    whole: int = 0
    run: str = ""
    more: tuple[str, ...] = ()
    asked: StoredText | None = None
    brief: StoredText | None = None

    @property
    def runs(self) -> tuple[str, ...]:
        """Ids of all runs in which it was said."""
        return (self.run, *self.more)

    @property
    def places(self) -> Iterator[StoredText]:
        """Every stored text that it refers to."""
        told = [place for piece in self.pieces for place in (piece.text, piece.picture)]
        yield from (place for place in (*told, self.parts, self.asked, self.brief) if place is not None)


class Cut(Stored, frozen=True, gc=False):
    """
    A conversation that no longer fitted its context, cut in one block.

    Attributes:
        dropped: How many of its items, from the oldest on, are left out.
        shortened: Places, among the others, of those that have their summaries instead of their results.
        size: Bytes of all items before it.
        left: Bytes after it.
        summary: What stands in the place of those that are left out, as a model has said it; None for nothing.
    """

    dropped: int
    shortened: tuple[int, ...]
    size: int
    left: int
    summary: Item | None = None


class Spoken(Stored, frozen=True, gc=False):
    """
    What a row adds to a run's conversation.

    Attributes:
        items: In order.
        cut: What is cut of all items, these included; None for nothing.
        first: What was cut of those before, for the row's own request; None for nothing.
    """

    items: tuple[Item, ...] = ()
    cut: Cut | None = None
    first: Cut | None = None


SUMMARY_ENDS = " (shortened to save room; call again for the whole)"
EFFECT_ENDS = " (shortened to save room; it is done)"
"""After the summary of a result that a cut has taken: of a reading, and of a call with an effect."""


def with_said(items: tuple[Item, ...], said: Spoken) -> tuple[Item, ...]:
    """Return a conversation after a row has added to it."""
    return with_cut(with_cut(items, said.first) + said.items, said.cut)


def with_cut(items: tuple[Item, ...], cut: Cut | None) -> tuple[Item, ...]:
    """Return what a cut leaves of a conversation."""
    if cut is None:
        return items
    kept = list(items[cut.dropped :])
    for place in cut.shortened:
        kept[place] = summarized(kept[place])
    return tuple(kept if cut.summary is None else (cut.summary, *kept))


def summarized(item: Item) -> Item:
    """Return a result with its summary in its place; any other item, and one that is not longer, as it is."""
    if item.brief is not None:
        size = item.brief.bytes + len(item.call)
        pieces = (Piece(text=item.brief),)
        return item if size >= item.size else replace(item, pieces=pieces, size=size, brief=None)
    words = f"{item.summary}{EFFECT_ENDS if item.effect else SUMMARY_ENDS}"
    size = len(words.encode()) + len(item.call)
    if not item.summary or size >= item.size:
        return item
    return Item(role=item.role, pieces=(Piece(words),), size=size, call=item.call)


_size = attrgetter("size")


def size_of(items: Iterable[Item]) -> int:
    """Return the bytes of items."""
    return sum(map(_size, items))


def _begins(item: Item) -> bool:
    """Return whether what is before an item can be left out: of earlier rounds only whole ones are."""
    return item.role == "round" or (item.asked is not None if item.run else item.role == "assistant")


def own_begin(items: tuple[Item, ...]) -> int:
    """Return the place of the first item of the run's own; those of earlier rounds are before it."""
    return next((at for at, item in enumerate(items) if not item.run), len(items))


def _newest(items: tuple[Item, ...]) -> int:
    """Return where the newest turn begins; without one, where the run's own items do."""
    own = own_begin(items)
    return next((at for at in range(len(items) - 1, own - 1, -1) if items[at].role == "assistant"), own)


def _dropped(items: tuple[Item, ...], sizes: list[int], newest: int, goal: int) -> int:
    """Return how many items are left out, whole turns from the oldest on, so that the rest has *goal* bytes or is the newest turn."""
    left, dropped = sum(sizes), 0
    for start in (*(place for place in range(1, newest) if _begins(items[place])), newest):
        if left <= goal:
            break
        left -= sum(sizes[dropped:start])
        dropped = start
    return dropped


def block_of(items: tuple[Item, ...], room: int) -> int:
    """
    Return how many of the oldest items a summary is to replace where all have more than *room* bytes; 0 where none is worth it.

    The rest, in whole turns, has three eighths of that, so that with the summary (`SUMMARY_SHARE`) it has half.
    """
    sizes = [item.size for item in items]
    if sum(sizes) <= room:
        return 0
    count = _dropped(items, sizes, _newest(items), room * 3 // 8)
    return count if sum(sizes[:count]) > 2 * room // SUMMARY_SHARE else 0


SUMMARY_SHARE = 8
"""Of a conversation's room a summary has this part at most."""


def cut_of(items: tuple[Item, ...], room: int) -> Cut | None:
    """
    Return how a conversation is cut that has more than *room* bytes; None for one that has not.

    It is cut to half of that, so that the next requests have room to grow and begin with the same bytes: first older results
    become their summaries, those of effects last, then the oldest turns are left out. The newest turn stays whole where that
    is enough for *room*; its newest item always does, and of a turn with calls each result has its place.
    """
    size = size_of(items)
    if size <= room:
        return None
    newest = _newest(items)
    sizes, shortened, left = [item.size for item in items], set[int](), size

    def shorten(places: range, goal: int) -> None:
        nonlocal left
        for place in sorted(places, key=lambda place: items[place].effect):
            if left <= goal:
                return
            if (saved := sizes[place] - summarized(items[place]).size) > 0:
                sizes[place] -= saved
                left -= saved
                shortened.add(place)

    shorten(range(newest), room // 2)
    dropped = _dropped(items, sizes, newest, room // 2)
    left -= sum(sizes[:dropped])
    if left > room:
        shorten(range(newest, len(items) - 1), room)
    alone = newest < len(items) and not items[newest].calls  # nothing in it refers to another item
    while alone and left > room and dropped < len(items) - 1:
        left -= sizes[dropped]
        dropped += 1
    kept = tuple(place - dropped for place in sorted(shortened) if place >= dropped)
    return Cut(dropped, kept, size, left) if left < size else None
