"""What a new run is told of the rounds before, with its texts: on its way from the run that it follows into its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from ...states.records.conversation import Item, Piece
from ...tools.tool import Document
from ..journal.payloads import Payload, Stager, as_text


class Told(NamedTuple):
    """
    One or more earlier rounds on their way.

    Attributes:
        runs: Ids of the runs in which they were said.
        whole: Their messages (`prompts.building.conversation.round_text`), or the payload that holds them, which is copied as it is.
        brief: The same with summaries in the place of results; None where those are no shorter.
        effect: See `Item`.
    """

    runs: tuple[str, ...]
    whole: Payload | str
    brief: Payload | str | None = None
    effect: bool = False

    @property
    def text(self) -> str:
        """What they hold."""
        return _text(self.whole)

    def and_then(self, other: Told) -> Told:
        """Return both as one."""
        brief = None
        if self.brief is not None or other.brief is not None:
            brief = _joined(self.brief or self.whole, other.brief or other.whole)
        effect = self.effect or other.effect
        return Told(self.runs + other.runs, _joined(self.whole, other.whole), brief, effect)

    def staged(self, stager: Stager) -> Item:
        """Return it as an item of a run, with its texts staged, none of them together with another."""
        whole = stager.stage_told(self.whole)
        return Item(
            role="round",
            pieces=(Piece(text=whole),),
            size=whole.bytes,
            effect=self.effect,
            run=self.runs[0],
            more=self.runs[1:],
            brief=None if self.brief is None else stager.stage_told(self.brief),
        )


def _text(told: Payload | str) -> str:
    return told if isinstance(told, str) else as_text(told.body) or ""


def _joined(one: Payload | str, other: Payload | str) -> str:
    """Return two lists of messages as one."""
    return f"{_text(one)[:-1]},{_text(other)[1:]}"


@dataclass(frozen=True, slots=True)
class Earlier:
    """
    What a new round goes on from.

    Attributes:
        conversation: Its id.
        follows: Id of the run of the round before; empty in the first.
        round: Number of the new one.
        told: The rounds before it, oldest first.
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
