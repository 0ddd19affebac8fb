"""One driver's hold on one run: what the loop reads, asks and writes with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from ...prompts.building.conversation import ShownMessages
from ...prompts.clients.settings import environment_secrets, said_scrubber
from ...prompts.model import Model, Notice, PromptMessage
from ...states.base.secrets import Scrubber
from ...states.records.actions import StoredText
from ...states.records.requests import Request
from ...states.run.state import Run
from ...tools.schema.secret_values import texts_in
from ...tools.tool import Tool
from ..decision.run_resources import RunResources
from ..journal.payloads import Stager, as_text
from ..journal.store import JournalStore
from ..machine.properties import Promises
from .channel import Channel
from .ports import Clock, ValuesPort
from .together import Together
from .tool_context import Loader

Leaves = Callable[[], bool]
"""Whether a driver is to leave its run after the current call; asked after each transition."""


class LastPrompt(NamedTuple):
    """
    The newest prompt of a run that holds a conversation.

    Attributes:
        seq: Number of the row that has it; -1 before the first.
        bodies: Its messages as they are stored.
        stable: Those with which the next one begins, too, unless the conversation is cut; none where another driver asked.
    """

    seq: int
    bodies: list[str]
    stable: tuple[PromptMessage, ...] = ()


@dataclass(slots=True)
class RunContext:
    """
    One driver's hold on one run.

    Attributes:
        run: As of the last durable row.
        head: Hash of that row.
        fence: The lease's token.
        kit, model, tools, connections, deps: What the run is decided and performed with.
        stager: Payloads of the next row.
        journal, clock: Ports.
        mark_us: Active clock at the last row.
        resumed: Whether an effect that is pending was begun by another driver.
        may_be_made: Whether that driver may be alive and still make the call.
        cancelled: Whether somebody asked to cancel.
        listening: Whether whoever drives it, or a hook, wants events.
        amended: Payload that amends the run's spec, to be named by the next row.
        accepting: Whether what the engine has changed since is accepted, for the tasks of a workflow too.
        first: Number of the first row that this driver may write.
        values: The port for values from the host; None for none.
        output_type: The Python type that the caller has named for the answer; None without one.
        notices: What was found about the model before the run was written, to be told first.
        prompt: The run's newest prompt; None while this driver has not looked.
        shown: The messages of its requests as its model gets them.
        together: The calls of the newest reply that were begun at the same time; None where there are none.
        secrets: Secrets of answers by their marks, as far as this engine was given them; in memory alone.
        environment: The keys of the environment, as this driver has found them.
        traceparent: Gives the span of the call that a run is at; None where no trace is sent.
        leaves: Whether its driver is to leave it, and the tasks of a workflow, between two calls; None for never.
        next: A run after a row, and what it needs next; None for nothing known.
        looked: Whether the newest row has just said whether the run is to be cancelled.
        promises: What no row may do, held to the rows so far; None for nothing.
        channel: To those who listen to the run in this process; None while nobody drives it.
    """

    run: Run
    head: bytes
    fence: int
    kit: RunResources
    model: Model
    tools: dict[str, Tool]
    connections: dict[str, Any]
    stager: Stager
    journal: JournalStore
    clock: Clock
    mark_us: int
    resumed: bool = False
    may_be_made: bool = False
    cancelled: bool = False
    listening: bool = False
    amended: StoredText | None = None
    accepting: bool = False
    first: int = 0
    deps: Any = None
    values: ValuesPort | None = None
    output_type: Any = None
    secrets: dict[str, Any] = field(default_factory=dict)
    environment: frozenset[str] = field(default_factory=partial(environment_secrets, keys=True))
    notices: tuple[Notice, ...] = ()
    traceparent: Callable[[Run], str] | None = None
    leaves: Leaves | None = None
    channel: Channel | None = None
    next: tuple[Run, Request] | None = None
    looked: bool = False
    promises: Promises | None = None
    together: Together | None = None
    prompt: LastPrompt | None = None
    shown: ShownMessages = field(default_factory=ShownMessages)
    load: Loader = field(default=lambda first, count: [])

    @property
    def heard(self) -> bool:
        """Whether anybody wants events now: whoever drives the run, a hook, or a listener, who may come at any time."""
        return self.listening or (self.channel is not None and self.channel.heard)

    @property
    def given(self) -> list[str]:
        """Texts and numbers of the secrets, which nothing that a tool says may repeat."""
        return list(texts_in(list(self.secrets.values()))) if self.secrets else []

    @property
    def scrubber(self) -> Scrubber:
        """What takes keys and secrets out of what tools, people and hosts say."""
        return said_scrubber(self.model, self.given, self.environment)


def recall(drive: RunContext, place: StoredText) -> str | bytes | None:
    """Return a payload's body: the last row's from memory, any other from the journal, held to its digest."""
    if place.n in drive.stager.recent:
        return drive.stager.recent[place.n]
    return drive.journal.reader.intact(drive.run.number, place.n, place.digest)


def text_of(drive: RunContext, place: StoredText) -> str | None:
    """Return a stored text of the run's conversation; None for what is no text."""
    return as_text(recall(drive, place))


def place_of_next(drive: RunContext) -> tuple[str, int] | None:
    """Return run and number of the next row for events of a call, None when nobody wants them."""
    return (drive.run.run_id, drive.run.seq) if drive.heard else None
