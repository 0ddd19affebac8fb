"""Conversations as a journal has them: their rounds, what was said in them, and what they have used."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal

from ...states.base.errors import Erased, UnknownConversation
from ...states.records.outcomes import Usage
from ..journal.reader import JournalReader
from ..journal.rows import RunRow, transition_of
from ..replay.restore import restore_run


@dataclass(frozen=True, slots=True)
class ConversationMessage:
    """
    What was said in a conversation.

    Attributes:
        role: ``user`` for what the run was started with, ``assistant`` for its answer.
        text: Whole.
        run_id: Of the round.
        at: When, in microseconds since the epoch.
    """

    role: Literal["user", "assistant"]
    text: str
    run_id: str
    at: int


@dataclass(frozen=True, slots=True)
class Conversation:
    """
    A conversation; each of its rounds is a run.

    Attributes:
        id: The host's own name of it.
        runs: Its rounds, oldest first. A round that was erased is none of them.
    """

    id: str
    runs: tuple[RunRow, ...]
    _journal: JournalReader = field(repr=False, compare=False)

    @property
    def usage(self) -> Usage:
        """Requests, tokens, cost and active time of all rounds."""
        used = Usage(0, 0, 0, 0)
        for row in self.runs:
            for last in self._journal.rows(row.run, row.head_seq, row.head_seq):
                told = transition_of(last)
                counters = told.counters
                used += Usage(
                    counters.get("calls", 0),
                    told.tokens_in,
                    told.tokens_out,
                    told.cost_micro,
                    counters.get("tokens_cached", 0),
                    counters.get("tokens_cache_write", 0),
                    time_us=told.time_us,
                )
        return used

    @property
    def messages(self) -> list[ConversationMessage]:
        """
        What user and model have said, oldest first; of a round that has not ended only the user's words.

        Raises:
            JournalDamaged: A chain is broken.
        """
        found: list[ConversationMessage] = []
        for row in self.runs:
            with suppress(Erased):  # a part of it, without which nobody can say what it has answered
                run, _ = restore_run(self._journal, row.run_id)
                found.append(ConversationMessage("user", run.spec.objective, row.run_id, row.created_at))
                if row.ended_at is not None:
                    answer = run.memory.answer or ""
                    found.append(ConversationMessage("assistant", answer, row.run_id, row.ended_at))
        return found


def conversation_named(journal: JournalReader, id: str) -> Conversation:
    """
    Return a conversation; see `fsm.journal_api.Journal.conversation`.

    Raises:
        UnknownConversation: No run is a round of it.
    """
    rows = journal.with_objectives(journal.runs(conversation=id)) if isinstance(id, str) else []
    if not rows:
        raise UnknownConversation(
            f"{journal.path}: there is no conversation {id!a:.80}; list them with: paor runs"
        )
    return Conversation(id, tuple(sorted(rows, key=lambda row: (row.round, row.run))), journal)


def conversations_of(journal: JournalReader, rows: Sequence[RunRow], limit: int | None) -> list[Conversation]:
    """Return the conversations of which *rows* are rounds, in the order of these."""
    names = list(dict.fromkeys(row.conversation for row in rows if row.conversation is not None))
    return [conversation_named(journal, name) for name in names[:limit]]
