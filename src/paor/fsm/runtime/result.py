"""The result of a run, for the caller."""

from __future__ import annotations

import builtins
import json
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Generic

from typing_extensions import TypeVar

from ...states.base.sealed import unsealed
from ...states.records.outcomes import Usage
from ...states.records.questions import Question
from ...states.run.phase_names import DONE
from ...states.run.state import Run
from ..journal.places.opening import open_store
from ..journal.reader import JournalReader
from ..journal.rows import StoredDocument


@dataclass(frozen=True, slots=True)
class ResultDocument:
    """
    A document of a run; its content is read from the journal when asked for.

    Attributes:
        number: Its number within the run, from 0.
        label: Deterministic label, such as ``round1_task1_action1_result``.
        position: Its place under the label, from 0.
        name: File name, as the tool or the caller gave it.
        mime: Media type, as the tool or the caller gave it.
        bytes: Size in bytes.
        digest: Salted digest, hex.
    """

    number: int
    label: str
    position: int
    name: str
    mime: str
    bytes: int
    digest: str
    _journal: JournalReader | str = field(repr=False, compare=False)
    _run_id: str = field(repr=False, compare=False)

    @property
    def reference(self) -> str:
        """Return the reference ``docItem:LABEL#POSITION``."""
        return f"docItem:{self.label}#{self.position}"

    def read(self) -> str | builtins.bytes | None:
        """Return the content: text, or bytes; None once erased."""
        if isinstance(self._journal, JournalReader):
            return self._journal.document(self._run_id, self.number)
        with closing(open_store(self._journal, read_only=True)) as store:
            return store.reader.document(self._run_id, self.number)

    def __reduce__(self) -> tuple[Any, ...]:
        """Go to another process, which has the file and not the open journal."""
        place = self._journal.place if isinstance(self._journal, JournalReader) else self._journal
        values = [getattr(self, name) for name in self.__slots__]
        return ResultDocument, (*values[:-2], place, self._run_id)

    def wire(self) -> dict[str, Any]:
        """Return the JSON form."""
        names = ("label", "position", "name", "mime", "bytes", "digest")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, slots=True)
class CriterionResult:
    """
    One success criterion.

    Attributes:
        criterion: As it was given.
        met: Whether it was met at the end.
    """

    criterion: str
    met: bool


T = TypeVar("T", default=Any)


@dataclass(frozen=True, slots=True)
class Result(Generic[T]):
    """
    The result of a run.

    Attributes:
        run_id: For resume, replay and the command line.
        state: ``Done``, ``Failed``, or the phase where it waits.
        status: ``done``, ``failed`` or ``waiting``; ``running`` of a run that was only looked at or created.
        reason: From the closed list `states.run.reasons.REASONS`; None before the end.
        answer: The final message; never empty at an end. With an ``output_type`` that of a run that is Done is JSON.
        output: The answer as the ``output_type`` of this call; as JSON data where the call named a JSON Schema or no type. None
            without an ``output_type`` of the run, before the end, of a run that Failed, and of one that used up a budget and is
            Done since all its criteria are met.
        documents: What actions produced, in order; input documents are not repeated.
        steps: Actions started.
        usage: Requests, tokens, cost and active time of the whole run.
        criteria: Every success criterion with its state.
        waiting_for: The question, for a waiting run.
        key: The host's own key of the run, None for none; of a run that stands in for a failed one the key of that.
        metadata: What the host gave with the run, to find it by.
        variables: Of a run that follows a workflow file: its variables as they are now, as ``init``, ``post`` and the caller set them;
            those that the result tells anyway, such as ``answer``, are left out.
        objective: What the run was started with, in the user's words.
        conversation: Id of the conversation of which it is a round; None for none.
    """

    run_id: str
    state: str
    status: str
    reason: str | None
    answer: str
    documents: tuple[ResultDocument, ...]
    steps: int
    usage: Usage
    criteria: tuple[CriterionResult, ...]
    waiting_for: Question | None
    output: T | None = None
    key: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    variables: Mapping[str, Any] = field(default_factory=dict)
    objective: str = ""
    conversation: str | None = None

    def wire(self) -> dict[str, Any]:
        """Return the JSON form, keys as the attributes."""
        return {
            "run_id": self.run_id,
            "state": self.state,
            "status": self.status,
            "reason": self.reason,
            "answer": self.answer,
            "output": json.loads(self.answer) if self.output is not None else None,
            "documents": [document.wire() for document in self.documents],
            "steps": self.steps,
            "usage": self.usage.wire(),
            "criteria": [{"criterion": item.criterion, "met": item.met} for item in self.criteria],
            "waiting_for": self.waiting_for.wire() if self.waiting_for is not None else None,
            "key": self.key,
            "metadata": self.metadata,
            "variables": self.variables,
            "objective": self.objective,
            "conversation": self.conversation,
        }


def result_of_run(run: Run, journal: JournalReader) -> Result:
    """Return the result of *run* as it is now."""
    counters, spec = run.counters, run.spec
    found: list[StoredDocument] = journal.documents(run.run_id)[len(spec.documents) :]
    documents = tuple(
        ResultDocument(
            item.number,
            item.label,
            item.position,
            item.name,
            item.mime,
            item.bytes,
            item.digest,
            journal,
            run.run_id,
        )
        for item in found
    )
    criteria = zip(spec.success_criteria, counters.criteria, strict=True)
    return Result(
        run_id=run.run_id,
        state=run.state,
        status=run.status,
        reason=run.reason if run.final else None,
        answer=run.memory.answer or "",
        documents=documents,
        steps=counters.step,
        usage=Usage(
            counters.calls,
            counters.tokens_in,
            counters.tokens_out,
            counters.cost_micro,
            counters.tokens_cached,
            counters.tokens_cache_write,
            time_us=counters.time_us,
        ),
        criteria=tuple(CriterionResult(text, met == "1") for text, met in criteria),
        waiting_for=run.waiting_for,
        output=_output_of(run),
        key=journal.run(spec.fallback_for).key if spec.fallback_for else spec.key,
        metadata=unsealed(spec.metadata),
        variables=unsealed(dict(run.memory.flow.variables)) if run.memory.flow is not None else {},
        objective=spec.objective,
        conversation=spec.conversation or None,
    )


def _output_of(run: Run) -> Any:
    """Return the answer of a run with an `output_schema` as data: only a completion review has one, and it is checked there."""
    if run.spec.output_schema is None or run.state != DONE or run.memory.review is None:
        return None
    return json.loads(run.memory.answer or "null")
