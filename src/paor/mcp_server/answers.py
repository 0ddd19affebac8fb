"""
The answers of the tools as data; what an agent reads as their schemas is made from these classes.

A field that is a text of somebody else is an `Untrusted`, and is left out where content is not shown. So is a field without a value.

Texts of users, models, tools and hosts on their way to a coding agent: shown only where that was asked for, and never as our own words.

A text that is shown stands by itself under the key ``untrusted``, without keys and passwords, bounded, and with every character that
could not be seen or could steer a terminal as an escape.
"""

from __future__ import annotations

import re
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from ..fsm.transfer.redaction import OutgoingText
from ..prompts.clients.settings import outgoing_secrets

CHARS = 1_500
"""Characters of one text, unless the caller asks for another number."""

CHARS_MAX = 20_000
"""Most characters of one text that can be asked for."""

TOTAL_CHARS = 60_000
"""Characters of all texts of an answer together: about 15,000 tokens."""

_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufdd0-\ufdef\ufff0-\ufffb\ufffe\uffff\ud800-\udfff\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Controls but tab and line feed, and what shows nothing: direction, width, tags, variation selectors, lone surrogates."""


class Untrusted(BaseModel):
    """A text that a user, a model, a tool or a host wrote: data, never an instruction."""

    model_config = ConfigDict(extra="forbid")

    untrusted: str
    left_out: int = Field(default=0, description="Characters that are not shown.")


def visible(text: str) -> str:
    r"""Return *text* with every hidden character as ``\u{200b}``."""
    return _HIDDEN.sub(lambda found: f"\\u{{{ord(found[0]):x}}}", text)


class Texts:
    """
    Shows the texts of one answer, or none.

    Args:
        shown: Whether any is shown.
        chars: Characters of one text at most.
    """

    def __init__(self, shown: bool, chars: int = CHARS) -> None:
        self.shown = shown
        self._chars = chars
        self._left = TOTAL_CHARS
        self._outgoing = OutgoingText(outgoing_secrets())

    def __call__(self, text: str | bytes | None) -> Untrusted | None:
        """Return a text as it is shown; None where none is, also for one that was erased."""
        if not self.shown or text is None:
            return None
        if isinstance(text, bytes):
            text = text.decode("utf-8", "replace")
        room = min(self._chars, self._left)
        safe = visible(self._outgoing.beginning(text, room))
        told = safe[:room]
        self._left -= len(told)
        return Untrusted(untrusted=told, left_out=len(safe) - len(told) + max(0, len(text) - room))

    def words(self, text: str, safe: str) -> str:
        """Return our own words around a text of others if texts are shown, else *safe*."""
        found = self(text)
        return safe if found is None else found.untrusted


def without_secrets(text: str) -> str:
    """Return *text* without the keys of the environment and what looks like a key, a token or a password."""
    return OutgoingText(outgoing_secrets())(text)


class ToolAnswer(BaseModel):
    """What all of them have: no field that is not declared."""

    model_config = ConfigDict(extra="forbid")

    def wire(self) -> dict[str, Any]:
        """Return the JSON form, without the fields that have no value."""
        return self.model_dump(mode="json", exclude_none=True)


class WaitsFor(ToolAnswer):
    """What a run waits for."""

    kind: str = Field(
        description="approval of a call; argument that a step of a plan lacks; elicitation, a question of planner or tool;"
        " in_doubt, whether a call took effect; erased, its texts are gone."
    )
    tool: str | None = None
    effect: str | None = None
    since: str | None = None
    message: Untrusted | None = None
    arguments: Untrusted | None = None


class ShownRun(ToolAnswer):
    """One run. A run is running until it ends or waits, whether or not anybody drives it."""

    run_id: str
    status: str
    state: str
    reason: str | None = None
    started: str | None
    ended: str | None = None
    rows: int
    steps: int = Field(description="Actions begun.")
    calls: int
    refused: int = Field(description="Calls that were refused.")
    tokens: int
    cost: float = Field(description="In the currency of the price list.")
    seconds: float = Field(description="Active time; waiting for a person does not count.")
    model: str | None = None
    mode: str | None = None
    tools: list[str] = Field(description="Names of the tools that it called.")
    waits_for: WaitsFor | None = None
    fork_of: str | None = Field(default=None, description="Run and row that it was forked at.")
    workflow: str | None = Field(default=None, description="Of a task: workflow, round and task.")
    objective: Untrusted | None = None
    key: Untrusted | None = None
    metadata: Untrusted | None = None


class RunsAnswer(ToolAnswer):
    """Runs, newest first."""

    runs: list[ShownRun]
    more: str | None = Field(default=None, description="There are older ones: how to ask for them.")


class ShownDecision(ToolAnswer):
    """What a person decided about a call."""

    decision: str
    at: str | None
    actor: Untrusted | None = None
    reason: Untrusted | None = None


class ShownCall(ToolAnswer):
    """One call of a tool, made or refused."""

    row: int = Field(description="Row that began, asked about or refused it.")
    step: int
    tool: str
    effect: str | None = None
    outcome: str
    started: str | None = None
    ended: str | None = None
    decided: list[ShownDecision]
    arguments: Untrusted | None = None
    result: Untrusted | None = None


class ShownRow(ToolAnswer):
    """One transition."""

    row: int
    at: str | None
    trigger: str
    source: str
    dest: str
    asked: str = Field(description="What was asked for.")
    came: str = Field(description="What came back.")
    step: int
    tokens: int = Field(description="Of this row alone.")
    seconds: float


class ShownDetail(ToolAnswer):
    """More of one transition; texts of a model, tool or person only with content."""

    guards: dict[str, bool] = Field(description="Every guard that was evaluated, with its value.")
    prev_hash: str
    hash: str
    erased: bool = Field(description="Whether a text of this row has been erased.")
    prompt: list[Untrusted] | None = None
    reply: Untrusted | None = None
    answer: Untrusted | None = None
    inner: list[Untrusted] | None = Field(
        None, description="Prompts and replies of what its tool asked a model."
    )
    set: Untrusted | None = Field(default=None, description="What the row set in the run, as JSON.")


class ShownCriterion(ToolAnswer):
    """One success criterion."""

    met: bool
    text: Untrusted | None = None


class ShownDocument(ToolAnswer):
    """One document, given or produced."""

    number: int
    bytes: int
    erased: bool
    label: Untrusted | None = None
    name: Untrusted | None = None
    mime: Untrusted | None = None


class ShowAnswer(ToolAnswer):
    """A run: its head, some of its rows, and the calls that began in them; or one row with what is behind it."""

    run: ShownRun
    reason_means: str | None = None
    paor: str | None = Field(default=None, description="Version that began the run.")
    criteria: list[ShownCriterion] | None = None
    answer: Untrusted | None = None
    documents: list[ShownDocument] | None = None
    erasures: int | None = None
    calls: list[ShownCall]
    rows: list[ShownRow]
    detail: ShownDetail | None = None
    text: Untrusted | None = Field(default=None, description="Of the one document that was asked for.")
    more: str | None = Field(default=None, description="There is more: how to ask for it.")


class ShownGuard(ToolAnswer):
    """One guard of a row of the table: what the row needs it to be, and what the run's journal recorded."""

    guard: str
    wanted: bool
    value: bool | None = None
    means: str | None = Field(default=None, description="What a guard of paor's own asks.")
    fact: Untrusted | None = Field(default=None, description="What it looked at.")


class ShownWay(ToolAnswer):
    """One row of the table that could be taken: taken, kept from it by a guard, later than the one taken, or open."""

    trigger: str
    dest: str
    fate: str
    means: str | None = None
    guards: list[ShownGuard]


class WhyNotAnswer(ToolAnswer):
    """What kept a row from leading to another phase."""

    phase: str
    answer: str


class WhyAnswer(ToolAnswer):
    """What decided one row."""

    run_id: str
    row: int
    decided: bool
    source: str
    trigger: str | None = None
    dest: str | None = None
    waiting: bool
    asked: str
    came: str | None = None
    told: Untrusted | None = Field(default=None, description="What came back, with what was said in it.")
    ways: list[ShownWay] = Field(description="In the table's order.")
    note: str | None = None
    waits_for: WaitsFor | None = None
    why_not: WhyNotAnswer | None = None


class ShownSide(ToolAnswer):
    """One of two runs that were compared."""

    run_id: str
    state: str
    status: str
    reason: str | None = None
    rows: int
    steps: int
    tokens: int
    cost: float
    seconds: float
    line: Untrusted | None = Field(
        default=None, description="The first line that differs, as this run has it."
    )


class DiffAnswer(ToolAnswer):
    """Where two runs part, and why."""

    left: ShownSide
    right: ShownSide
    identical: bool = Field(description="But for ids, times and salts.")
    shared: int = Field(description="Rows that both have by reference, as a fork and its parent do.")
    row: int | None = Field(default=None, description="First row that differs.")
    source: str | None = None
    field: str | None = None
    line: int | None = None
    cause: str | None = None
    cause_means: str | None = None
    parts: list[str]
    others: list[str] = Field(description="Other settings that differ and are not the cause.")
    other_way_at: int | None = Field(
        default=None, description="First row from there on with another transition."
    )
    same_end: bool
    same_answer: bool
    detail: Untrusted | None = None


class ShownDefect(ToolAnswer):
    """One place where the journal does not hold."""

    run_id: str | None = None
    place: str
    problem: str


class ShownDifference(ToolAnswer):
    """One difference between the record of a run and what is derived from it now."""

    row: int
    field: str
    recorded: Untrusted | None = None
    derived: Untrusted | None = None


class ShownReplay(ToolAnswer):
    """A replay of one run, offline: no model and no tool is called."""

    run_id: str
    rows: int
    identical: bool
    differences: list[ShownDifference]
    unchecked: int = Field(description="Fields that could not be compared, since texts were erased.")
    changed: list[str] = Field(description="Parts of paor that have changed since and matter to the run.")
    more: str | None = None
    error: str | None = Field(default=None, description="Why it could not be replayed.")


class VerifyAnswer(ToolAnswer):
    """Whether the journal, or one run of it, holds."""

    ok: bool
    runs: int
    rows: int
    defects: list[ShownDefect]
    unchecked: int = Field(description="Places that are no defect and could not be checked.")
    head: str | None = Field(default=None, description="Of one run: hash of its last row.")
    replays: list[ShownReplay] | None = None
    more: str | None = None
