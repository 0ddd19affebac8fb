"""How `paor run` and `paor resume` end: the answer or the question, one line of facts, the report, the exit code."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import click
from rich.cells import cell_len

from ...fsm.journal_api import Journal
from ...fsm.lifecycle.result import Result
from ...fsm.lifecycle.start import FORMATS
from ...states.base.errors import PaorError, UsageError
from ...states.records.questions import Question
from ...states.run.reasons import LIMIT_REASONS
from ...states.run.state import Change
from ...tools.documents.reports import MIMES, check_report_format, render_report
from .journals import short_id
from .run_summary import asking
from .streams import (
    LIMIT,
    OK,
    RUN_FAILED,
    USAGE,
    WAITING,
    forget_output,
    journal_flag,
    keep_journals,
    reason,
    same_file,
    say,
    say_json,
    tell,
    width,
    write_atomically,
)
from .text import STATE_STYLES, count, duration, folded, harmless, one_line, styled

REPORT_LABELS = ("_final_format", "_report")
"""Ends of the labels under which reports stand: the last formatting action's, and `document.generateReport`'s."""


def exit_code(result: Result) -> int:
    """Return the exit code of a run's result."""
    if result.status == "done":
        return OK
    if result.status == "failed":
        return LIMIT if result.reason in LIMIT_REASONS else RUN_FAILED
    return WAITING


# -- --output ----------------------------------------------------------------------------------------------------


def check_output(path: Path, journal: str, documents: tuple[str, ...] = ()) -> str:
    """
    Return the format that the ending of ``--output`` asks for, after checking that it can be written.

    Args:
        path: The file.
        journal: Path of the journal, which it must not replace.
        documents: Paths of input documents, which it must not replace either.

    Raises:
        UsageError: Another ending, no such folder, a folder that cannot be written.
    """
    form = FORMATS.get(path.suffix.lower().removeprefix("."))
    if form is None:
        raise UsageError(
            f"--output {path}: the ending must be one of {', '.join(f'.{name}' for name in FORMATS)}"
        )
    check_report_format(form)
    try:
        if path.is_dir():
            raise UsageError(f"--output {path}: is a directory")
        folder = path.resolve().parent
        if not folder.is_dir():
            raise UsageError(f"--output {path}: there is no folder {folder}")
        keep_journals("--output", str(path), journal)
        if any(same_file(str(path), document) for document in documents):
            raise UsageError(f"--output {path}: would replace what the run reads")
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UsageError(f"--output {path}: the folder cannot be written ({reason(error)})") from None
    except ValueError as error:
        if isinstance(error, PaorError):
            raise
        raise UsageError(f"--output {str(path)!r}: is not a file name") from None
    return form


def write_report(result: Result, path: Path) -> str:
    """
    Write what a run produced to *path* and return one line about it.

    The last report of a finished run; the answer when it is Done without one. A run that failed without a report or
    waits writes nothing.

    Raises:
        UsageError: The file cannot be written.
    """
    report = next((item for item in reversed(result.documents) if item.label.endswith(REPORT_LABELS)), None)
    if result.status not in ("done", "failed"):
        return f"{path}: not written yet; the run waits"
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
    write_atomically(path, data)
    return f"wrote {path} ({'the answer' if body is None else 'the report'}, {len(data):,} bytes)"


# -- the end -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ending:
    """
    What an ended command has to say.

    Attributes:
        result: Of the run.
        journal: Where it stands; still open.
        app: ``--app`` as it was given.
        output: Where the report goes.
        as_json: Print the result as JSON.
        more: Other options that a command that comes next needs, ready for a shell.
    """

    result: Result
    journal: Journal
    app: str | None = None
    output: Path | None = None
    as_json: bool = False
    more: str = ""

    def report(self) -> int:
        """Write the report, print everything, and return the exit code."""
        result, code, note = self.result, exit_code(self.result), ""
        if self.output is not None:
            try:
                note = write_report(result, self.output)
            except UsageError as error:
                note, code = f"paor: {error}", code or USAGE
        try:
            self._say()
        except BrokenPipeError:
            forget_output()
        quiet = self.as_json or not (sys.stdout.isatty() and sys.stderr.isatty())
        tell(*([] if quiet else [""]), *self._line(), *([one_line(note)] if note else []), *self._next())
        return code

    def _say(self) -> None:
        result = self.result
        if self.as_json:
            say_json(result.wire())
        elif result.waiting_for is not None:
            say(*self._question(result.waiting_for))
        elif result.answer:
            say(*answer_lines(result.answer))

    def _line(self) -> list[str]:
        """Return the one line of facts; on a terminal that is too narrow for it, two."""
        result, usage = self.result, self.result.usage
        rows = self.journal.run(result.run_id).head_seq + 1
        why = result.reason or (f"waits: {result.waiting_for.kind}" if result.waiting_for else result.status)
        numbers = (
            count(result.steps, "step"),
            count(rows, "transition"),
            count(usage.tokens_in + usage.tokens_out, "token"),
            *((f"{usage.cost:,.4f} cost",) if usage.cost else ()),
            duration(usage.seconds),
        )
        state = styled(f"{result.state} ({why})", STATE_STYLES.get(result.status, ""))
        parts = [f"run {result.run_id}  {state}", ", ".join(numbers)]
        if sys.stderr.isatty() and cell_len(click.unstyle("  ".join(parts))) > width(sys.stderr):
            return [parts[0], f"    {parts[1]}"]
        return ["  ".join(parts)]

    def _question(self, question: Question) -> list[str]:
        """Return the question, and for a call that is to be approved or in doubt the call itself."""
        lines = folded(question.message, width() if sys.stdout.isatty() else 10_000)
        asked = asking(self.journal, self.journal.run(self.result.run_id))
        call = last_intent(self.journal, asked.run_id)
        if question.tool and call is not None:
            lines.append("")
            for name, value in call["arguments"].items():
                text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
                lines += [f"  {line}" for line in folded(f"{name}: {text}", width() - 2)[:12]]
        return lines

    def _next(self) -> list[str]:
        """Return the commands that come next, if any."""
        result = self.result
        name = short_id(self.journal, result.run_id)
        flags = journal_flag(self.journal.path) + (f" --app {shlex.quote(self.app)}" if self.app else "")
        if result.waiting_for is not None:
            flags += self.more
            flags += f" --output {shlex.quote(str(self.output))}" if self.output is not None else ""
            commands = [f"  paor resume {name}{flags} {answer}" for answer in answers_to(result.waiting_for)]
            return [
                styled("answer it with one of:" if len(commands) > 1 else "answer it with:", "dim"),
                *commands,
            ]
        flags = journal_flag(self.journal.path)
        if result.status == "failed":
            return [f"{styled('what it did:', 'dim')} paor show {name}{flags}"]
        named = next((item for item in reversed(result.documents) if item.label in result.answer), None)
        if named is not None and self.output is None:
            return [f"{styled('whole text:', 'dim')} paor show {name} --content {named.number}{flags}"]
        if result.documents and self.output is None:
            return [f"{styled('documents:', 'dim')} paor show {name} --documents{flags}"]
        return []


def answer_lines(answer: str) -> list[str]:
    """Return an answer as it is printed: wrapped on a terminal, else line by line as it stands."""
    return folded(answer, width()) if sys.stdout.isatty() else harmless(answer.rstrip("\n")).split("\n")


def answers_to(question: Question) -> list[str]:
    """Return the options of ``paor resume`` that answer *question*, ready for a shell."""
    if question.kind == "in_doubt":
        return ["--outcome done --result '\"what it returned\"'", "--outcome retry", "--outcome fail"]
    if question.kind == "approval":
        return ["--answer '{\"approve\": true}'", "--answer '{\"approve\": false}'"]
    values = {
        name: _example(schema) for name, schema in (question.answer_schema.get("properties") or {}).items()
    }
    example = shlex.quote(json.dumps(values, ensure_ascii=False))
    return [f"--answer {example}", '--answer \'{"action": "decline"}\'']


def _example(schema: Any) -> Any:
    """Return a value in the place of a property, of the right type where that is simple."""
    if not isinstance(schema, dict):
        return "..."
    if schema.get("enum"):
        return schema["enum"][0]
    return {"boolean": True, "integer": 1, "number": 1, "array": [], "object": {}}.get(
        str(schema.get("type")), "..."
    )


def last_intent(journal: Journal, run_id: str) -> dict[str, Any] | None:
    """Return the call that a waiting run is about: tool and arguments."""
    number = journal.run(run_id).run
    for row in reversed(journal.rows(number)):
        change: Change = journal.change(number, row[9])
        if change.intent:
            return change.intent.wire()
    return None
