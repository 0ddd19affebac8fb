"""
Answering without driving: the answer to what a run waits for, as one row, and the run is left to whoever drives it next.

A process that has no model and none of the host's tools can do this, such as a web page for those who approve: the row is decided by the
run's own record. The lease is taken for it as for any row, so of all who answer at once one is first, and the others are told.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Unpack

from ...prompts.clients.settings import said_scrubber
from ...states.base.errors import Erased, InvalidAnswer, JournalDamaged
from ...states.records.questions import Answer
from ...states.run.phase_names import PHASES
from ...tools.schema.secret_values import hidden
from ..journal.lineage import part_with
from ..journal.reader import JournalReader
from ..journal.record import COLUMNS
from ..journal.store import JournalStore
from ..runtime.ports import RandomIds, SystemClock
from .acceptance import check_unchanged
from .options import AnswerOptions, ResumeOptions, check_names
from .resume import answer_of, asked_by_message, check_approved, check_open
from .runner import Runner, compile_catalogs
from .settings import settings_of
from .subrun_runner import SubrunDriver

_TRIGGER, _CHANGE = COLUMNS.index("trigger"), COLUMNS.index("change")


def runner_as_recorded(store: JournalStore) -> Runner:
    """
    Return a runner that can answer, cancel and fork the runs of a journal as they were recorded, and drives none.

    It has no tools, and a model that nobody asks. Of a machine of the host's own it has no function, and needs none: none decides whether
    an answer is taken (`fsm.machine.host_checks.KEPT`).
    """
    settings = replace(settings_of("offline", (), None, None, None, None, builtins=False), as_recorded=True)
    return Runner(settings, store, SystemClock(), RandomIds(), (), SubrunDriver, compile_catalogs(settings))


def answer_run(runner: Runner, run_id: str, question: str, **given: Unpack[AnswerOptions]) -> tuple[str, int]:
    """
    Write an answer and return the run and the row that has taken it; see `fsm.engine.Engine.answer`.

    Of a run that waits for one that it has called it is the run that asks.
    """
    check_names(given, AnswerOptions.__annotations__, "an answer")
    options = ResumeOptions(question=question, answer=given.get("answer"), outcome=given.get("outcome"))
    journal = runner.journal.reader
    row = journal.run(asked_by_message(runner, run_id, options) or run_id)
    runner = runner.runner_of(row)
    if row.status != "waiting":
        check_open(journal, row, None, options)
    drive, answered = runner.take(row.run_id), None
    try:
        check_unchanged(runner, drive, accept_changes=False)
        asked = drive.run.waiting_for
        check_open(journal, journal.run(row.run_id), asked, options)  # as it is under the lease
        assert asked is not None, "an answer to nothing is refused"
        reply = answer_of(asked, given, own=drive.run.state not in PHASES)
        check_approved(drive.run, drive.kit, reply, said_scrubber(drive.model, drive.given), runner.clock)
        if (
            asked.kind != "approval"
            and reply.action == "accept"
            and hidden(reply.content, asked.schema, asked.id)[1]
        ):
            raise InvalidAnswer(
                "the answer holds a secret, which no journal keeps: give it to a resume, in the process that drives the run"
            )
        runner.answered_only(drive, reply)
        answered = drive.run.seq - 1
        return drive.run.run_id, answered
    finally:
        runner.release(drive, answered=answered)
        if answered is not None:
            runner.queue.release(
                drive.run.number
            )  # after the lease: a worker that is woken can take the run up


def answer_to(journal: JournalReader, run_id: str, question: str) -> Answer | None:
    """
    Return the answer that a question of a run has got; None while it is open, when the run ended without one, and once it is erased.

    Args:
        journal: What holds the run.
        run_id: The run that asked; of a workflow its task.
        question: Id of the question.
    """
    row = journal.run(run_id)
    seq, sign, _ = question.partition("-")
    if not (sign and seq.isascii() and seq.isdecimal() and len(seq) < 10):
        return None
    at = int(seq) + 1
    part = part_with(journal.lineage(row.run), "first_seq", at)
    rows = journal.own_rows(part.run, at, at)
    if not rows or rows[0][_TRIGGER] != "provide":
        return None
    try:
        return journal.change(part.run, rows[0][_CHANGE]).reply or None
    except (Erased, JournalDamaged):
        return None
