"""How a command that drives a run tells of it: what happens while it does, then the answer or the question, facts, the report, the exit code."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING

import click
from rich.cells import cell_len

from ...fsm.journal_api import Journal
from ...fsm.lifecycle.options import FORMATS
from ...fsm.runtime.events import Event, ModelNotice, RunStarted
from ...fsm.runtime.result import Result
from ...states.base.errors import PaorError, UsageError
from ...states.records.questions import Question
from ...states.run.reasons import LIMIT_REASONS
from ...tools.documents.reports import MIMES, check_report_format, render_report
from . import terminal as io
from .app import EngineOptions
from .journals import command_line
from .json_input import answers_to
from .run_text import call_lines

if TYPE_CHECKING:  # loaded where something is drawn only
    from .live_view import LiveView


class Watch:
    """
    Follows a run's events, and tells of them but where it is *quiet*; *calls_only*: of the rows only the calls and their outcomes.

    Attributes:
        run_id: Of the run, once it has started.
        model: Which model is asked, and where its name comes from; told when the run starts.
    """

    def __init__(self, run_id: str | None = None, *, quiet: bool = False, calls_only: bool = False) -> None:
        self.run_id, self.quiet, self._calls_only = run_id, quiet, calls_only
        self.model: tuple[str, str] | None = None
        self._view: LiveView | None = None

    def __call__(self, event: Event) -> None:
        """Take notice of one event."""
        if isinstance(event, RunStarted):
            self.run_id = self.run_id or event.run_id  # the first one: a workflow's tasks are runs, too
        if self.quiet:
            return
        if isinstance(event, RunStarted) and self.model is not None:
            name, source = self.model
            io.tell(f"model: {io.one_line(name)} ({io.one_line(source)})")
            self.model = None
        if self._view is not None:
            with suppress(OSError, ValueError):  # a terminal that has gone is no reason to fail
                self._view.take(event)
        if isinstance(event, ModelNotice) and event.notice != "prices":
            self._note(event)

    def _note(self, event: ModelNotice) -> None:
        """Tell of another attempt, or of what a server is asked without."""
        wait = f"; the next one in {event.wait_us / 1e6:.1f} s" if event.notice == "retry" else ""
        if self._view is None or not sys.stderr.isatty():
            io.tell(f"paor: {io.one_line(event.text)}{wait}")
            return
        with suppress(OSError, ValueError):
            self._view.note(f"{event.text}{wait}")

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Draw the run on standard error while the block runs; where that is no terminal, the calls only if they are all that is shown."""
        if self.quiet or not (self._calls_only or sys.stderr.isatty()):
            yield
            return
        from .live_view import LiveView

        self._view = LiveView(calls_only=self._calls_only)
        try:
            with self._view.shown():
                yield
        finally:
            self._view = None
        if sys.stdout.isatty():
            sys.stderr.write("\n")


REPORT_LABELS = ("_final_format", "_report")
"""Ends of the labels of reports: the last formatting action's, and `document.generateReport`'s."""


def check_output(path: Path, journal: str, documents: tuple[str, ...] = ()) -> str:
    """
    Return the format that the ending of ``--output`` asks for.

    Raises:
        UsageError: Another ending, a folder that cannot be written, or what the run reads or writes would be replaced.
    """
    form = FORMATS.get(path.suffix.lower().removeprefix("."))
    if form is None:
        endings = ", ".join(f".{name}" for name in FORMATS)
        raise UsageError(f"--output {path}: the ending must be one of {endings}")
    check_report_format(form)
    try:
        folder = path.resolve().parent
        if path.is_dir() or not folder.is_dir():
            wrong = "is a directory" if path.is_dir() else f"there is no folder {folder}"
            raise UsageError(f"--output {path}: {wrong}")
        io.keep_journals("--output", str(path), journal)
        if any(io.same_file(str(path), document) for document in documents):
            raise UsageError(f"--output {path}: would replace what the run reads")
        with TemporaryFile(dir=folder):
            return form
    except OSError as error:
        raise UsageError(f"--output {path}: the folder cannot be written ({io.reason(error)})") from None
    except ValueError as error:
        if isinstance(error, PaorError):
            raise
        raise UsageError(f"--output {str(path)!r}: is not a file name") from None


def _write_report(result: Result, path: Path) -> str:
    """
    Write what a run produced to *path* and return one line about it; raise `UsageError` when it cannot be written.

    The last report of a finished run; the answer when it is Done without one. A run that failed without a report or
    waits writes nothing.
    """
    if result.status not in ("done", "failed"):
        return f"{path}: not written yet; the run waits"
    report = next((item for item in reversed(result.documents) if item.label.endswith(REPORT_LABELS)), None)
    body = report.read() if report is not None else None
    if body is None and result.status == "failed":
        return f"{path}: not written; the run produced no report"
    form = FORMATS[path.suffix.lower().removeprefix(".")]
    content: str | bytes = result.answer.rstrip("\n") + "\n" if body is None else body
    if isinstance(content, str) and (report is None or body is None or report.mime != MIMES[form]):
        try:
            content = render_report(content, form, title=path.stem)
        except PaorError as error:
            raise UsageError(f"{path}: not written: {error}") from None
    data = content if isinstance(content, bytes) else content.encode("utf-8", "replace")
    io.write_atomically(path, [data])
    return f"wrote {path} ({'the answer' if body is None else 'the report'}, {len(data):,} bytes)"


def code_of(result: Result) -> int:
    """Return the exit code of a run that has ended, or waits."""
    ended = {"done": io.OK, "failed": io.LIMIT if result.reason in LIMIT_REASONS else io.RUN_FAILED}
    return ended.get(result.status, io.WAITING)


def why_of(result: Result) -> str:
    """Return why a run has ended, or what it waits for, in a word or two."""
    waits = f"waits: {result.waiting_for.kind}" if result.waiting_for else result.status
    return result.reason or waits


def end(
    result: Result, journal: Journal, options: EngineOptions, output: Path | None, *, required: bool = False
) -> int:
    """
    Write the report to *output*, print how a run ended or what it waits for, and return the exit code.

    Args:
        required: Whether a run that is Done with a criterion that does not hold counts as failed.
    """
    ended, as_json = result.status in ("done", "failed"), io.wants_json()
    left_open = [item.criterion for item in result.criteria if not item.met] if ended else []
    code = io.RUN_FAILED if required and left_open and result.status == "done" else code_of(result)
    notes = [io.styled(io.one_line(f"not met: {text}"), "warn") for text in left_open]
    if output is not None:
        try:
            notes.append(io.one_line(_write_report(result, output)))
        except UsageError as error:
            notes.append(io.one_line(f"paor: {error}"))
            code = code or io.USAGE
    try:
        if as_json:
            io.say_json(result.wire())
        elif result.waiting_for is not None:
            io.say(*question_lines(result.waiting_for))
        elif result.answer:
            io.say(*io.answer_lines(result.answer))
    except BrokenPipeError:
        io.forget_output()
    blank = [""] if not as_json and sys.stdout.isatty() and sys.stderr.isatty() else []
    after = next_commands(result, journal, options, output)
    io.tell(*blank, *facts_line(result, journal), *notes, *after)
    return code


def facts_line(result: Result, journal: Journal) -> list[str]:
    """Return the one line of facts; on a terminal that is too narrow for it, two."""
    usage = result.usage
    numbers = (
        io.count(result.steps, "step"),
        io.count(journal.run(result.run_id).head_seq + 1, "transition"),
        io.count(usage.tokens_in + usage.tokens_out, "token") + io.cached_text(usage.cached_share),
        *((f"{usage.cost:,.4f} cost",) if usage.cost else ()),
        io.duration(usage.seconds),
    )
    head = f"run {result.run_id}  {io.state_text(result.state, why_of(result), result.status)}"
    line = f"{head}  {', '.join(numbers)}"
    if sys.stderr.isatty() and cell_len(click.unstyle(line)) > io.width(sys.stderr):
        return [head, f"    {', '.join(numbers)}"]
    return [line]


def question_lines(question: Question) -> list[str]:
    """Return the question, and the call that it is about."""
    lines = io.folded(question.message, None if sys.stdout.isatty() else 10_000)
    call = [f"  {line}" for line in call_lines(question, io.width() - 2)]
    return [*lines, "", *call] if call else lines


def next_commands(result: Result, journal: Journal, options: EngineOptions, output: Path | None) -> list[str]:
    """Return the commands that come next, if any."""
    if result.waiting_for is not None:
        given = (("--app", options.app), *(("--mcp", server) for server in options.mcp), ("--output", output))
        flags = "".join(f" {name} {shlex.quote(str(value))}" for name, value in given if value)
        resume = command_line("resume", journal, result.run_id) + flags
        answers = answers_to(result.waiting_for)
        lead = "answer it with one of:" if len(answers) > 1 else "answer it with:"
        return [io.styled(lead, "dim"), *(f"  {resume} {answer}" for answer in answers)]
    show = command_line("show", journal, result.run_id)
    if result.status == "failed":
        return [f"{io.styled('what it did:', 'dim')} {show}"]
    if output is not None or not result.documents:
        return []
    named = next((item for item in reversed(result.documents) if item.label in result.answer), None)
    if named is not None:
        return [f"{io.styled('whole text:', 'dim')} {show} --content {named.number}"]
    return [f"{io.styled('documents:', 'dim')} {show} --documents"]
