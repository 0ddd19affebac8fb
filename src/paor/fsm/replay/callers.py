"""Runs that call one another, as a journal has them: who has called whom, and whose question a waiting run waits for."""

from __future__ import annotations

from contextlib import suppress

import orjson

from ...states.base.errors import Erased, JournalDamaged, UnknownRun
from ...states.records.questions import Question
from ..journal.reader import JournalReader
from ..journal.rows import RunRow


def runs_of(journal: JournalReader, workflow_id: str, round: int | None = None) -> list[tuple[str, int, int]]:
    """Return run id, round and task of the runs of a workflow, in the order in which they were started."""
    return [
        (found.run_id, found.round, found.task)
        for found in journal.index.of_workflow(workflow_id, round=round)
    ]


def called_runs(journal: JournalReader, row: RunRow) -> list[RunRow]:
    """Return the runs that a run has called, in order: of a workflow its tasks, of any other run those of its tools."""
    if row.task != 0:
        return [journal.run(run) for run in journal.called_by(row.run_id)]
    return [journal.run(run) for run, _, task in runs_of(journal, row.workflow_id, row.round) if task > 0]


def caller_of(journal: JournalReader, row: RunRow) -> RunRow | None:
    """Return the run that has called a run, of a task its workflow; None for a run that nobody has called, or whose caller is not here."""
    if (called := row.called_by) is not None:
        return _found(journal, called.run_id)
    if row.task == 0 or row.workflow_id == row.run_id:
        return None
    found = journal.index.of_workflow(row.workflow_id, round=row.round, task=0)
    return journal.run(found[-1].run_id) if found else None


def _found(journal: JournalReader, run_id: str) -> RunRow | None:
    with suppress(UnknownRun):  # an import may bring a run without its caller
        return journal.run(run_id)
    return None


def outermost(journal: JournalReader, row: RunRow) -> RunRow:
    """Return the run that goes on when a run does: the last of its callers, the run itself where it has none."""
    while (caller := caller_of(journal, row)) is not None:
        row = caller
    return row


def waits_for_called(journal: JournalReader, row: RunRow) -> bool:
    """Return whether a run waits for one that it has called, and not for an answer to a question of its own."""
    if row.status != "waiting":
        return False
    if row.task == 0:
        return True
    for part in journal.lineage(row.run):
        for (outcome,) in journal.columns(part.run, ("outcome",), ("wait",), row.head_seq, row.head_seq):
            return bool(orjson.loads(outcome).get("why") == "task_pending")
    return False


def asking_run(journal: JournalReader, row: RunRow) -> RunRow | None:
    """
    Return the run whose question a waiting run waits for: itself, or one that it has called, however deep.

    None where no such run waits any more: then the run goes on by itself.
    """
    while waits_for_called(journal, row):
        called = called_runs(journal, row)
        if not called:
            return None
        row = called[-1]
    return row if row.status == "waiting" else None


def waiting_called(journal: JournalReader, row: RunRow) -> str | None:
    """Return the run that a waiting run has called and whose question it waits for, or None."""
    found = asking_run(journal, row)
    return found.run_id if found is not None and found.run_id != row.run_id else None


def open_question(journal: JournalReader, row: RunRow) -> Question | None:
    """Return what a run waits for, of one that has called another what that asks; None for nothing, or once it was erased."""
    if row.status != "waiting":
        return None
    from .restore import restore_run  # with what decides, which no list of runs needs that have ended

    with suppress(Erased, JournalDamaged):
        return restore_run(journal, waiting_called(journal, row) or row.run_id)[0].waiting_for
    return None


def pending_call(journal: JournalReader, row: RunRow) -> str | None:
    """Return the tool by which a run was called that its caller still waits for; None where the caller has ended or went on."""
    if (called := row.called_by) is None or (caller := _found(journal, called.run_id)) is None:
        return None
    from .restore import restore_run

    with suppress(Erased, JournalDamaged):
        run = restore_run(journal, caller.run_id)[0]
        intent = run.memory.intent
        if not run.final and intent is not None and run.counters.action == called.action:
            return intent.tool
    return None


def used_tools(journal: JournalReader, row: RunRow) -> list[str]:
    """Return the names of the tools that a run is offered; of a workflow those of its tasks, as far as they are known."""
    if row.task != 0:
        return [tool.name for tool in journal.spec(row.run_id).tools]
    tasks = [run for run, _, task in runs_of(journal, row.workflow_id, row.round) if task > 0]
    names = list(journal.spec(row.run_id).children.get("tools", ()))
    names += [tool.name for run in tasks for tool in journal.spec(run).tools]
    return list(dict.fromkeys(names))


def unfinished_called(journal: JournalReader, row: RunRow) -> list[str]:
    """Return the runs that a run has called and that have not ended."""
    return [run.run_id for run in called_runs(journal, row) if run.status not in ("done", "failed")]
