"""The next round of a workflow: where it stands, and what it starts with of the rounds before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..states.errors import UsageError
from ..states.observations import Message
from ..states.plans import TASKS_MAX
from ..states.spec import Spec
from ..tools.tool import Document
from .observe import cut, line
from .restore import restored
from .workflows import Place, kept, produced, runs_of

if TYPE_CHECKING:
    from .journal_reading import JournalReader


SUMMARY_CHARS = 400
"""Characters of an earlier round's answer that the next round's history keeps."""

HISTORY_MAX = 50


def next_round(journal: JournalReader, run_id: str) -> tuple[Place, Spec, list[Document]]:
    """
    Return where the next round of a run's workflow stands, its last spec, and the documents that it starts with.

    Raises:
        UsageError: A run of the workflow is not finished.
    """
    row = journal.run(run_id)
    runs = runs_of(journal, row.workflow_id)
    first, last = runs[0][0], max(round for _, round, _ in runs)
    head = next(run for run, round, _ in runs if round == last)
    documents: list[Document] = []
    history: list[Message] = []
    for other, round, task in sorted(runs, key=lambda run: (run[1], run[2] or TASKS_MAX + 1)):
        state = journal.run(other)
        if state.status not in ("done", "failed"):
            raise UsageError(f"run {other} of this workflow is {state.status}; finish it first")
        run, _ = restored(journal, other)
        if other == first:
            documents = kept(journal, other, 0, len(journal.spec(other).documents)) + documents
        if task:  # of the workflow itself, whose steps are the tasks, only the answer is news
            documents += produced(journal, other)
            history += [_summary(message, round) for message in run.memory.history]
        history.append(_answer(run.memory.answer or "", round, task, state.status == "done"))
    spec = journal.spec(head)
    place = Place(
        row.workflow_id,
        last + 1,
        0 if spec.task == 0 else 1,
        history=tuple(history[-HISTORY_MAX:]),
        options=spec.children,
    )
    return place, spec, documents


def _summary(message: Message, round: int) -> Message:
    """Return an action of an earlier round: its summary only."""
    return Message(
        action=message.action,
        step=message.step,
        tool=message.tool,
        label=message.label,
        documents_count=message.documents_count,
        summary=message.summary,
        success=message.success,
        round=message.round or round,
    )


def _answer(text: str, round: int, task: int, success: bool) -> Message:
    summary = cut(line(text), SUMMARY_CHARS) or "no answer"
    return Message(
        action=0,
        step=0,
        tool=f"answer of task {task}" if task else "answer",
        summary=summary,
        success=success,
        round=round,
    )
