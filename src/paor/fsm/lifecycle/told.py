"""What a new run is told of the rounds before, with its texts: on its way from the run that it follows into its own."""

from __future__ import annotations

from dataclasses import dataclass, field

from msgspec.structs import replace

from ...states.records.actions import StoredText
from ...states.records.conversation import Item, Piece
from ...tools.tool import Document
from ..journal.payloads import JSON, TEXT, Stager


@dataclass(frozen=True, slots=True)
class Told:
    """
    One message of an earlier round, with its texts.

    Attributes:
        item: Without its texts.
        text: What is said.
        brief, parts, asked: As those of `Item`; None for none.
    """

    item: Item
    text: str
    brief: str | None = None
    parts: str | None = None
    asked: str | None = None

    @property
    def size(self) -> int:
        """Bytes of it in a request."""
        return self.item.size

    def staged(self, stager: Stager) -> Item:
        """Return the item with its texts staged, none of them together with another."""

        def place(text: str | None, media_type: str = TEXT) -> StoredText | None:
            return None if text is None else stager.stage_told(text, media_type)

        text = Piece(text=place(self.text))
        # a reply as it came is read as such; what else a model has said is in two pieces, and told as it is
        pieces = (text,) if self.item.role != "assistant" or self.item.pieces else (Piece(), text)
        return replace(
            self.item,
            pieces=pieces,
            brief=place(self.brief),
            parts=place(self.parts, JSON),
            asked=text.text if self.asked == self.text else place(self.asked),
        )


@dataclass(frozen=True, slots=True)
class Earlier:
    """
    What a new round goes on from.

    Attributes:
        conversation: Its id.
        follows: Id of the run of the round before; empty in the first.
        round: Number of the new one.
        told: What was said, oldest first.
        asked: Model requests so far.
        language: In which the round before answers, if one was asked for.
        inputs: The newest documents that the rounds before were given.
        produced: Those that the round before has made, for runs whose conversation does not hold them.
    """

    conversation: str = ""
    follows: str = ""
    round: int = 1
    told: tuple[Told, ...] = ()
    asked: int = 0
    language: str = ""
    inputs: tuple[Document, ...] = ()
    produced: tuple[Document, ...] = field(default=())
