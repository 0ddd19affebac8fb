"""People: each question gets one decision, and the message that says so may come twice, late, or to somebody who did not ask."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from paor import Question


@dataclass(eq=False)
class Message:
    """
    What somebody says to one question.

    Attributes:
        number: Tells it from others; stands in the journal as the reason of the answer.
        run_id, question: What it is for.
        given: Arguments of `Engine.resume`.
        decision: ``approve``, ``deny``, ``retry``, ``done``, ``fail``, ``accept`` or ``decline``.
        is_named: Whether it names its question.
    """

    number: int
    run_id: str
    question: Question
    given: dict[str, Any]
    decision: str
    is_named: bool

    @property
    def words(self) -> str:
        """The reason that the journal keeps."""
        return f"message {self.number}"


class People:
    """
    Whoever is asked in one world.

    Args:
        chance: Decides.
    """

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self.messages: list[Message] = []
        self._by_question: dict[str, Message] = {}
        self.names_nothing = 0.2

    def answer(self, run_id: str, question: Question) -> Message:
        """Return what somebody says to a question, always the same."""
        found = self._by_question.get(question.id)
        if found is None:
            found = self._decide(run_id, question)
            self._by_question[question.id] = found
            self.messages.append(found)
        return found

    def _decide(self, run_id: str, question: Question) -> Message:
        chance, number = self._chance, len(self.messages) + 1
        if question.kind == "in_doubt":
            decision = chance.choice(("retry", "done", "fail"))
            given: dict[str, Any] = {"outcome": decision}
            if decision != "retry":
                given["result"] = f"said in message {number}"
        elif question.kind == "approval":
            decision = chance.choice(("approve", "approve", "deny"))
            given = {"answer": {"approve": decision == "approve"}}
        else:
            decision = chance.choice(("accept", "accept", "decline"))
            given = {"answer": {"action": decision, "content": {"number": number}}}
        is_named = chance.random() >= self.names_nothing
        if is_named:
            given["question"] = question.id
        given["reason"] = f"message {number}"
        return Message(number, run_id, question, given, decision, is_named)
