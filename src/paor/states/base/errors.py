"""
Every error that paor raises, split by whose fault it is.

PaorError
    UsageError                  the caller's: a bad argument, an unknown name, an unusable file
        UnknownOption           an option that nothing takes; the nearest one that is taken is named
        MissingExtra            an optional dependency is not installed
        UnknownRun              no such run in this journal
        IllegalEvent            no row of the table allows this event in this phase
        InvalidAnswer           an answer that does not fit what the run waits for
            AlreadyAnswered     an answer to a question that is settled: delivered twice, or too late
        InvalidOutput           an answer that fits its schema, and that the caller's own type refuses
        KeyConflict             a key of a run that was started otherwise
        ConversationBusy        another round of the conversation runs or waits
        UnknownConversation     no run of this journal is a round of it
        InvalidFork             a run that cannot be forked at this row
        HostFunctionError       a function of the host's own machine raised, or gave what it must not
        ForbiddenRow            a row would break what an engine was given with never
        RunChanged              what decides a run is not what it was recorded with
    ModelError                  a model's or its transport's; becomes a journaled outcome, never leaves `run`
        ScriptExhausted         a ScriptedModel was asked more often than it has replies
    ToolError                   raised by a tool to fail with exactly this text; becomes an observation
        NotStarted              raised by a tool to state that its effect certainly did not begin
        EffectUnknown           raised by a tool that cannot say whether its effect happened
        TimedOut                raised by a tool that has waited too long; what a call comes to at its deadline
        AnswerNeeded            raised by a tool that cannot go on without somebody's answer
    JournalError                the file's
        NotAJournal             missing, foreign, or not SQLite
        JournalBusy             locked by somebody for longer than the busy timeout
        JournalFull             no space, or the file cannot be written
        JournalTooNew           written by a newer paor
        JournalTooOld           written before the first release
        JournalDamaged          chain or integrity broken
            JournalConflict     an import and this file tell the same run differently
        Erased                  what this needs has been erased
        LeaseLost               another driver took the run over; nothing was appended
        LeaseHeld               another driver is alive and drives this run
    ReplayDiverged              a replay derived something else than was recorded
    InternalError               a bug in paor: an invariant did not hold

Facts are attributes, messages say run, expected, found and what to do. All of them pickle.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class PaorError(Exception):
    """Base class; never raised itself."""


class UsageError(PaorError, ValueError):
    """The caller passed something that cannot be used; nothing was started or changed."""


class UnknownOption(UsageError, TypeError):
    """An option has a name that nothing here takes, as of a misspelt one; nothing was started or changed."""


class MissingExtra(UsageError, ImportError):
    """An optional dependency is missing; the message names the extra to install."""


class UnknownRun(UsageError, LookupError):
    """The journal holds no run with this id."""


class IllegalEvent(UsageError):
    """No row of the table allows this event now; the run stays as it was."""


class InvalidAnswer(UsageError):
    """The answer does not fit what the run waits for; the run keeps waiting."""


class AlreadyAnswered(InvalidAnswer):
    """The question that this answers is settled: the message came twice, or too late. Nothing was changed."""


class InvalidOutput(UsageError):
    """The run is Done with an output that its schema allows and the caller's type refuses; the run stays as it is."""


class KeyConflict(UsageError):
    """The key names a run that was started otherwise; nothing was started or changed."""


class ConversationBusy(UsageError):
    """
    Another round of the conversation runs, waits for a person, or has begun meanwhile; nothing was started.

    Attributes:
        conversation: Its id.
        run_id: That round.
        status: ``running`` or ``waiting``; empty where it has ended since what this one would be told was read.
    """

    def __init__(self, conversation: str, run_id: str = "", status: str = "") -> None:
        super().__init__(conversation, run_id, status)
        self.conversation, self.run_id, self.status = conversation, run_id, status

    def __str__(self) -> str:
        does = {"waiting": "waits for an answer", "": "has begun meanwhile"}.get(self.status, "has not ended")
        return (
            f"conversation {self.conversation!a:.60}: run {self.run_id} {does}, and one round runs at a time; nothing was started"
            " (queue=True waits for its turn)"
        )


class UnknownConversation(UsageError, LookupError):
    """No run of the journal is a round of this conversation."""


class InvalidFork(UsageError):
    """The run cannot be forked at this row; nothing was created."""


class HostFunctionError(UsageError):
    """
    A guard or another function of the host's own machine raised, or gave something else than it must.

    Nothing was decided and nothing appended: the run stays where it is, and can be resumed once the function is mended.
    """


class ForbiddenRow(UsageError):
    """
    A row would break a property that an engine was given with ``never``.

    Nothing was appended, and no call was begun: the run stays where it is, and can be resumed by an engine whose machine or policy goes another way.
    """


class RunChanged(UsageError):
    """
    What decides a run has changed since it was recorded, in parts that matter to it; nothing was appended.

    Attributes:
        parts: Every part that has changed, one line each; those that do not matter to the run last.
    """

    def __init__(self, message: str, parts: tuple[str, ...] = ()) -> None:
        super().__init__(message, parts)
        self.parts = parts

    def __str__(self) -> str:
        return str(self.args[0])


class ModelError(PaorError):
    """A model could not answer. Inside a run it becomes a journaled outcome and, at last, Failed(model_error)."""


class ScriptExhausted(ModelError):
    """A scripted model has no reply left for this request."""


class ToolError(PaorError):
    """Raised by a tool: the call failed, and this text is what the model may read about it."""


class NotStarted(ToolError):
    """Raised by a tool: the effect certainly did not begin, so even a ``once`` call may be tried again."""


class EffectUnknown(ToolError):
    """
    Raised by a tool: the call was begun, and nobody knows whether its effect happened.

    With a ``once`` tool the run then waits until a person says (question ``in_doubt``); with any other tool it is
    an error.
    """


class TimedOut(ToolError):
    """
    Raised by a tool: what it waited for did not come in time. A call that is given up at its deadline comes to the same.

    With a ``once`` tool the run then waits until a person says what happened (question ``in_doubt``); with any other
    tool it is an error that may be tried again.

    Args:
        message: What took too long, for the model; empty: the time that the call had.
        left: Whether the call was given up and still ran, so that it was left running.
    """

    def __init__(self, message: str = "", *, left: bool = False) -> None:
        super().__init__(message)
        self.left = left


class AnswerNeeded(ToolError):
    """
    Raised by a tool: it cannot go on without somebody's answer. The run waits; any process can answer.

    After the answer the tool is called again with the same arguments and the same idempotency key; its
    `ToolContext.resumption` then holds *state* and the answer.

    Args:
        message: The question, for a person.
        schema: JSON Schema of the answer; empty for any.
        state: What the tool wants back; JSON. It is in the journal: no secrets.
        looks_only: Whether the tool, called again with *state*, only looks for what it has begun, however often it is called.
            The first time, unless there is a *schema*, nobody is asked: *state* is journaled and the tool is called again at
            once. A ``once`` call whose driver is lost from then on is made again with *state*, and is not in doubt.
    """

    def __init__(
        self,
        message: str,
        schema: Mapping[str, Any] | None = None,
        state: Any = None,
        *,
        looks_only: bool = False,
    ) -> None:
        super().__init__(message, schema, state)
        self.message = message
        self.schema = dict(schema or {})
        self.state = state
        self.looks_only = looks_only

    def __str__(self) -> str:
        return self.message


class JournalError(PaorError):
    """Something is wrong with a journal file; the message names it."""


class NotAJournal(JournalError, UsageError):
    """The file is missing, unreadable, or not a paor journal."""


class JournalBusy(JournalError):
    """Another process held the journal's write lock longer than the busy timeout; nothing was lost."""


class JournalFull(JournalError):
    """The journal could not be written (no space, read-only); the last committed row is intact."""


class JournalTooNew(JournalError, UsageError):
    """The journal's schema is newer than this version of paor knows."""


class JournalTooOld(JournalError, UsageError):
    """The journal's schema, or what a run in it was recorded by, is from before the first release, and is not followed any more."""


OUTDATED = (
    "run {}: its native calls were recorded by an earlier version of paor; it can be shown, verified, exported and cancelled,"
    " not replayed or continued"
)
"""Of a run whose prompts this version does not make any more."""


class JournalDamaged(JournalError):
    """The hash chain or the file's integrity is broken; `paor verify` lists the places."""


class JournalConflict(JournalDamaged):
    """The import and the file have different rows for the same run; nothing was imported."""


class Erased(JournalError, UsageError):
    """What this needs has been erased; the run can still be verified, and replayed as far as it is there."""


class LeaseLost(JournalError):
    """Another driver has taken this run over; this driver stopped before its next effect."""


class LeaseHeld(JournalError, UsageError):
    """Another driver is alive and drives this run."""


class ReplayDiverged(PaorError):
    """A replay derived something other than the journal records."""


class InternalError(PaorError):
    """An invariant of paor itself did not hold; please report it with the run's export."""
