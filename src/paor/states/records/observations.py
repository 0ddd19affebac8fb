"""What the model may see of a result (Observation), and what history keeps of an action (Message)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain, islice, repeat
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import replace

from ..base.wire import Stored
from .actions import Preview, WebFact

CUT = "…"
RESULT_CHARS = 400
"""Characters of a result in the summary of its action: what a later step may have to copy from it."""

SHORT = 60
"""Characters of a snippet that is stored as it is, though its document has it, too."""

LISTED = 5
"""Documents that history refers to of one action."""


def clean(text: str) -> str:
    """Return *text* as it may stand in JSON: lone surrogates and NUL replaced, each by one character."""
    if text.isascii() and "\0" not in text:
        return text
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", "\ufffd")


def cut(text: str, chars_max: int) -> str:
    """Return *text* within *chars_max* characters, with a marker when something was cut."""
    return text if len(text) <= chars_max else text[: max(0, chars_max - len(CUT))] + CUT


class Observation(Stored, frozen=True, gc=False, omit_defaults=False):
    """
    The compact view of one result; never the raw payload.

    Attributes:
        success: The tool returned.
        result_label: Label under which the documents stand.
        documents_count: The true total, however many previews there are.
        previews: The first few documents, cut to size.
        notes: Short facts: errors, sizes, what was cut.
        web: Per-URL relevance, key points and entities, best first; absent when no tool gave any.

    Source: documents 000 and 002; docs/spec-coverage.md.
    """

    success: bool
    result_label: str
    documents_count: Annotated[int, Meta(ge=0)]
    previews: tuple[Preview, ...] = ()
    notes: tuple[str, ...] = ()
    web: tuple[WebFact, ...] | UnsetType = UNSET

    @property
    def check(self) -> StepCheck:
        """The light review of one iteration: an error is a retry with the error as improvement."""
        return SUCCEEDED if self.success else StepCheck("retry", self.notes[:1])

    @property
    def summary(self) -> str:
        """One or two sentences, from its texts or else its notes; never empty."""
        if not self.success:
            return cut(self.notes[0] if self.notes else "failed", RESULT_CHARS)
        count = self.documents_count
        head = "no documents" if count == 0 else "1 document" if count == 1 else f"{count} documents"
        first = next((preview.snippet for preview in self.previews if preview.snippet), "")
        if first:
            first = " ".join(first[: 2 * RESULT_CHARS].split())
        elif self.notes:
            first = self.notes[0]
        return cut(f"{head}: {first}" if first else head, RESULT_CHARS)

    def references(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return how history tells of its first documents, at most five, of their *names*."""
        return tuple(
            f"docItem:{self.result_label}#{place} {cut(name, 80)}"
            for place, name in enumerate(islice(names, LISTED))
        )

    def told(self, message: Message, documents: tuple[str, ...] | None = None) -> Message:
        """
        Return *message* with all that follows from the observation.

        Args:
            message: Of the same action.
            documents: References to its documents; None: to those that have a preview.
        """
        if documents is None:
            documents = self.references(preview.name for preview in self.previews)
        return replace(
            message,
            label=self.result_label if self.documents_count else "",
            documents=documents,
            documents_count=self.documents_count,
            summary=self.summary,
            notes=self.notes[:3],
            success=self.success,
        )


class StoredPreview(Stored, frozen=True, gc=False):
    """
    A preview as it is stored.

    Attributes:
        name, mime: Of the document.
        snippet: Empty where `source` is told.
        source: Number of the payload that the snippet is the beginning of; -1: of none.
        chars: Characters of it that are shown, before the mark of a cut; 0: all, and no mark.
    """

    name: str = ""
    mime: str = ""
    snippet: str = ""
    source: int = -1
    chars: int = 0

    @classmethod
    def of_preview(cls, preview: Preview, source: int = -1, text: str | None = None) -> StoredPreview:
        """
        Return how a preview is stored.

        Args:
            preview: As it is shown.
            source: Number of the payload that was previewed.
            text: That, as it was recalled.
        """
        snippet = preview.snippet
        if text is not None and len(snippet) > SHORT:
            shown = clean(text[: len(snippet)])
            if len(text) == len(snippet) and shown == snippet:
                return cls(preview.name, preview.mime, source=source)
            chars = len(snippet) - len(CUT)
            if snippet.endswith(CUT) and shown[:chars] == snippet[:chars]:
                return cls(preview.name, preview.mime, source=source, chars=chars)
        return cls(preview.name, preview.mime, snippet)

    def preview(self, text_of: Callable[[int], str | None]) -> Preview:
        """Return the preview; *text_of* gives the text of a payload, as it was recalled."""
        snippet = self.snippet
        if self.source >= 0:
            text = text_of(self.source) or ""
            snippet = clean(text[: self.chars]) + CUT if self.chars else clean(text)
        return Preview(self.name, self.mime, snippet)


class StoredObservation(Stored, frozen=True, gc=False):
    """An observation as it is stored: the same, but without what is at its default, and with the places of the snippets for them."""

    success: bool = True
    result_label: str = ""
    documents_count: int = 0
    previews: tuple[StoredPreview, ...] = ()
    notes: tuple[str, ...] = ()
    web: tuple[WebFact, ...] | UnsetType = UNSET

    @classmethod
    def of_observation(
        cls, seen: Observation, recalled: Sequence[tuple[int, str | None]]
    ) -> StoredObservation:
        """Return how an observation is stored that was made of these payloads: the number of each, and its text as it was recalled."""
        nothing = repeat((-1, None), len(seen.previews))
        previews = [
            StoredPreview.of_preview(preview, source, text)
            for preview, (source, text) in zip(seen.previews, chain(recalled, nothing), strict=False)
        ]
        return cls(
            seen.success, seen.result_label, seen.documents_count, tuple(previews), seen.notes, seen.web
        )

    def observation(self, text_of: Callable[[int], str | None]) -> Observation:
        """Return the observation; *text_of* gives the text of a payload, as it was recalled."""
        previews = tuple(preview.preview(text_of) for preview in self.previews)
        return Observation(
            self.success, self.result_label, self.documents_count, previews, self.notes, self.web
        )


class StepCheck(Stored, frozen=True, gc=False):
    """
    The light review after every observation, derived by code.

    Attributes:
        status: How the action ended.
        improvements: What the next one should do better.
    """

    status: Literal["success", "retry", "failed"]
    improvements: tuple[str, ...] = ()


SUCCEEDED = StepCheck("success")


class Message(Stored, frozen=True, gc=False, kw_only=True):
    """
    One action in the history of a run: what later prompts may know of it.

    Attributes:
        action: The action's number within its task.
        step: The step's number within the run.
        tool: What was called.
        objective: What for.
        label: Where its documents stand; empty when it produced none.
        documents: References with names, at most a handful.
        documents_count: How many there are.
        summary: One or two sentences; never empty.
        notes: Short facts.
        learnings: What Stage 1 had learnt by then.
        success: How it ended.
        call_id: Id of the call, as a planner's model gave it.
        arguments: What it got; for a planner as it was, of a native call what the model gave, else with long texts cut. None where
            nothing was called.
        output: What it returned as text, cut to size, for a planner; a user's answer is whole, since later steps use it.
        error: Why there is no output, for a planner.
        origin: ``workflow`` or ``hook`` for a call that the workflow file names; empty for any other.
        data: The output is JSON that the tool returned as data, for a workflow.
        round: Of a message of an earlier round; 0: this one.
        shown: What its observation shows, as text; taken from there, and in no row.
    """

    action: int
    step: int
    tool: str
    objective: str = ""
    label: str = ""
    documents: tuple[str, ...] = ()
    documents_count: int = 0
    summary: str
    notes: tuple[str, ...] = ()
    learnings: tuple[str, ...] = ()
    success: bool
    call_id: str = ""
    arguments: dict[str, Any] | None = None
    output: str = ""
    error: str = ""
    origin: str = ""
    data: bool = False
    round: int = 0
    shown: str = ""

    def __post_init__(self) -> None:
        self._seal("arguments")

    @property
    def error_code(self) -> str:
        """The code of the error, see `states.records.actions.ToolResult`; empty where there is none."""
        told = "" if self.success else self.error or "".join(self.notes[:1])
        return told.partition(":")[0]

    @property
    def told_error(self) -> str:
        """The error as a planner is told: of a blocked call the marker alone, of a tool its words."""
        code, _, told = self.error.partition(": ")
        if code == "duplicate_call_blocked":
            return code
        return told if code == "tool_error" else self.error


class Turn(Stored, frozen=True, gc=False):
    """One turn of the dialogue between a planner and the user: who speaks, and what is said, cut to size."""

    role: Literal["assistant", "user"]
    content: str
