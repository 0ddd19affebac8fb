"""What a run is about to do, and what came of it: selection, intent, result."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import field
from pydantic import Field

from ..base.pictures import is_picture
from ..base.wire import Data, Stored, Wire

Effect = Literal["read", "idempotent", "once"]
"""How often an effect may happen; ``once`` is the default for a host's tools."""

FORBIDDEN_FIELDS = frozenset({"documentlist", "connectionreference", "history", "documents", "connections"})
"""
Names, in lower case, that neither `parametersSchema` nor Stage 2 may carry (document 003), unless the action itself has a
parameter of that name; those of `SET_BY_CODE` not even then.
"""

SET_BY_CODE = frozenset({"documentlist", "connectionreference"})
"""Names, in lower case, of parameters that get what Stage 1 has chosen."""


class ActionSelection(Wire):
    """The bare choice of document 002: ``{"method": "web", "name": "scrape"}``."""

    method: str = Field(min_length=1, max_length=200)
    name: str = Field(min_length=1, max_length=200)

    @property
    def tool(self) -> str:
        """The compound name, ``web.scrape``."""
        return f"{self.method}.{self.name}"


class ActionParameters(Wire):
    """Stage 2's reply: the chosen action's business parameters."""

    parameters: Data
    schema_name: str | None = Field(default=None, alias="schema")


class SchemaField(Wire):
    """One business parameter that Stage 1 asks Stage 2 for."""

    name: str = Field(min_length=1, max_length=200)
    type: Literal["string", "number", "boolean", "enum", "object", "array"] = "string"
    required: bool = False
    description: str = ""
    values: tuple[str | int | float | bool, ...] | None = Field(default=None, strict=False)


class Selection(Wire):
    """
    Stage 1's accepted choice of the one next action.

    Attributes:
        tool: Canonical compound name, ``method.name``.
        objective: What this action is for (``actionObjective``).
        learnings: What was learnt so far, shown in later history.
        documents: References, ``docList:`` or ``docItem:`` (``requiredInputDocuments``).
        connection: Label of a connection, or None.
        context: The only context Stage 2 gets (``parametersContext``).
        fields: Stage 1's ``parametersSchema.fields``; None when Stage 1 sent no schema.
        arguments: Business parameters that are settled already (a plan's step, the final formatting, no fields).
        origin: Who chose: the model, a plan, or code (``format``: the one last formatting action; ``workflow``: a task
            of the workflow file, ``hook``: its ``onError``; ``phase``: a phase of the host's own).
        needs: Numbers of the plan's steps whose outputs the arguments refer to; of a call that the workflow names not
            empty when its input reads the newest result.
        caller: The host's own phase that the call was made for and goes back to; empty for any other.
        left_out: References and connections that Stage 1 has named and the run does not have.
    """

    tool: str
    objective: str = ""
    learnings: tuple[str, ...] = Field(default=(), strict=False)
    documents: tuple[str, ...] = Field(default=(), strict=False)
    connection: str | None = None
    context: str = ""
    fields: tuple[SchemaField, ...] | None = Field(default=None, strict=False)
    arguments: Data | None = None
    origin: Literal["model", "plan", "format", "workflow", "hook", "phase"] = "model"
    needs: tuple[int, ...] = Field(default=(), strict=False)
    caller: str = ""
    left_out: tuple[str, ...] = Field(default=(), strict=False)

    @property
    def is_bare(self) -> bool:
        """Whether it names an action and nothing else, so that Stage 2 has to be told more (document 002's form)."""
        return not self.objective and self.fields is None


class Intent(Stored, frozen=True, gc=False):
    """
    The decision to execute, journaled before the tool starts: this row **is** the intent.

    Attributes:
        tool: Canonical tool name.
        arguments: The exact arguments the tool gets, references and defaults filled in.
        label: Where its documents will stand, ``round{r}_task{t}_action{a}_{label}``.
        key: Duplicate key: a digest of tool and canonical arguments, salted per run.
        idempotency_key: Stable across retries and crashes: the same for every attempt of this action.
        effect: The tool's effect class at the time of the decision.
        left_out: What the reply said of the call and it does not get, by name; only ever of a ``read`` tool.
        changed: Names of the arguments that a person has changed in approving the call.
    """

    tool: str
    arguments: dict[str, Any]
    label: str
    key: str
    idempotency_key: str
    effect: Effect
    left_out: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self._seal("arguments")


class StoredText(Stored, frozen=True, gc=False):
    """A reference to a payload: its number within the run, salted digest (hex) and size in bytes."""

    n: int
    digest: str
    bytes: int

    def wire(self) -> dict[str, Any]:
        """Return the reference as it is in rows."""
        return {"n": self.n, "digest": self.digest, "bytes": self.bytes}


class DocumentRef(Stored, frozen=True, gc=False):
    """
    One document a run holds: its number within the run, where it stands and where its bytes are.

    Attributes:
        text: Whether its bytes are text, found when it was stored; not known of documents of the first revision.
    """

    number: int
    label: str
    position: int
    name: str
    mime: str
    payload: StoredText
    text: bool = False

    @property
    def is_picture(self) -> bool:
        """Whether it can be shown to a model as a picture."""
        return is_picture(self.mime, self.payload.bytes)

    @property
    def reference(self) -> str:
        """The reference a model uses for this one document."""
        return f"docItem:{self.label}#{self.position}"


class Preview(Stored, frozen=True, gc=False):
    """One document of an observation: exactly these three strings."""

    name: str
    mime: str
    snippet: str


class WebFact(Stored, frozen=True, gc=False):
    """
    What a web tool knows of one URL.

    Attributes:
        url: The page.
        relevance_score: How well it fits the query, from 0 to 1; None if it was not judged.
        key_points: Sentences that say the most.
        entities: Names that occur on it.

    Source: the names of PowerOn's protocol; its older ones are accepted, see docs/spec-coverage.md.
    """

    url: str
    relevance_score: float | None = field(default=None, name="relevance_score")
    key_points: tuple[str, ...] = field(default=(), name="key_points")
    entities: tuple[str, ...] = ()


REFUSED_CODES = ("invalid_parameters", "unsafe_parameters")
NOT_MADE_CODES = (*REFUSED_CODES, "duplicate_call_blocked", "denied")
"""Error codes of calls that were refused for their parameters, and of all that were not executed."""


class ToolResult(Stored, frozen=True, gc=False):
    """
    How a call ended, before it is observed.

    Attributes:
        ok: The tool returned.
        error: One line when it did not: raised, refused, denied, blocked.
        error_code: ``tool_error``, ``denied``, ``duplicate_call_blocked``, ``invalid_parameters``,
            ``unsafe_parameters``, ``timeout``, or ``reconciled``.
        documents: What it produced, already stored as payloads.
        notes: Short facts of the tool.
        web: Per-URL facts of a web tool, best first.
        echo: For a blocked call: the payload of the last successful output of the same call.
        tool: The call's canonical tool name.
        retryable: The error may be gone next time, as far as the tool says; of a plan's step also that an empty result
            may.
        answer: What the user answered to a plan's question, text or JSON as text.
    """

    tool: str
    ok: bool
    error: str | None = None
    error_code: str | None = None
    documents: tuple[DocumentRef, ...] = ()
    notes: tuple[str, ...] = ()
    web: tuple[WebFact, ...] = ()
    echo: StoredText | None = None
    retryable: bool = False
    answer: str = ""
