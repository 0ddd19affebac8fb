"""The spans of a run, or of the whole trace that it belongs to, read from a journal."""

from __future__ import annotations

from collections.abc import Iterator

from ..fsm.journal.reader import JournalReader, Readable, damage_told, reader_of
from ..fsm.journal.rows import transition_of
from ..fsm.replay.callers import called_runs, outermost
from .content import Cleaner
from .run_spans import RunSpans, facts_of
from .span import Span


def spans_of(journal: Readable, run_id: str, *, content: bool = False) -> list[Span]:
    """
    Return every span of a run that is over, in the order in which they ended: of a run that has ended its own last.

    Of a run that has not ended there is no span of its own yet, nor of a call that is open or a wait without an answer. Requests, calls
    and waits name it as their parent all the same, because its id is known from the start.

    Args:
        journal: The journal that holds it, or a snapshot.
        run_id: Its id, or an unambiguous prefix.
        content: Whether prompts, replies, arguments, results, questions and answers are in them. Erased texts never are.

    Raises:
        UnknownRun: There is no such run.
        JournalDamaged: A row cannot be read.
    """
    reader = reader_of(journal, "spans_of takes a Journal, such as spans_of(engine.journal, run_id)")
    return list(_spans(reader, reader.run(run_id).run_id, Cleaner(), content=content))


def _spans(reader: JournalReader, run_id: str, cleaner: Cleaner, *, content: bool) -> Iterator[Span]:
    with damage_told(run_id):
        fold = fold_of(reader, run_id, cleaner, content=content)
        for row in reader.rows(fold.run.row.run):
            yield from fold.take(transition_of(row), reader)


def fold_of(reader: JournalReader, run_id: str, cleaner: Cleaner, *, content: bool) -> RunSpans:
    """Return the fold that gives the spans of a run, before its first row; *run_id* is the whole id."""
    return RunSpans(facts_of(reader, reader.run(run_id)), content=content, cleaner=cleaner)


def trace_of(journal: Readable, run_id: str, *, content: bool = False) -> Iterator[Span]:
    """
    Yield the spans of all runs of one trace: of a workflow and its tasks, of a run and the one that replaced it; mostly of one run.

    Args:
        journal, content: As for `spans_of`.
        run_id: Id of any run of the trace, or an unambiguous prefix.

    Raises:
        UnknownRun: There is no such run.
        JournalDamaged: A row cannot be read.
    """
    reader = reader_of(journal, "trace_of takes a Journal, such as trace_of(engine.journal, run_id)")
    cleaner = Cleaner()
    for found in runs_of_trace(reader, run_id):
        yield from _spans(reader, found, cleaner, content=content)


def runs_of_trace(reader: JournalReader, run_id: str) -> list[str]:
    """Return the ids of the runs of the trace that a run belongs to, in the order in which they were started."""
    first = outermost(reader, reader.run(run_id))
    found = {
        run.run_id: reader.run(run.run_id)
        for run in reader.index.of_workflow(first.workflow_id, round=first.round)
    }
    left = [row for row in found.values() if row.task != 0]  # the tasks of a workflow are among them
    while left:
        for row in called_runs(reader, left.pop()):
            found[row.run_id] = row
            left.append(row)
    return [row.run_id for row in sorted(found.values())]
