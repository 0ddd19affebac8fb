"""
Answering a call: its arguments checked, the journal opened for reading at one moment, and every error as one line.

A call opens the file anew, so what another process writes meanwhile is in the next answer, and a file that was moved or replaced is
found as it is. Nothing is written, nothing is created.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ..fsm.journal_api import Journal
from ..states.base import errors as known
from ..states.base.errors import InternalError, JournalBusy, PaorError
from .forms import CHARS, Texts, sieved, visible, without_secrets
from .tools import TOOLS, JournalTool

LINE_CHARS, PROBLEMS_TOLD = 400, 3
"""Characters of an error, and problems of the arguments that it names."""

ATTEMPTS = 3
"""How often a journal is read anew that nobody had open, and that was written all the same."""

_SHAPE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What a row of a shape that is none makes of code that reads it."""

_TOLD = (known.UsageError, known.NotAJournal, JournalBusy, known.JournalTooNew, known.JournalTooOld)
"""Errors whose words are paor's own and the caller's: nothing of a journal's content is in them."""


def _words(error: PaorError) -> str:
    """Return what an error says, without what a journal holds."""
    if isinstance(error, _TOLD):
        return str(error)
    if isinstance(error, known.Erased):
        return "what this needs has been erased"
    if isinstance(error, known.JournalDamaged):
        return "the journal is damaged where this reads it; the tool verify says where"
    return f"the journal cannot be read ({type(error).__name__})"


class CallOutcome(NamedTuple):
    """What came of a call: the answer, or one line that says what was wrong."""

    answer: dict[str, Any] | None
    error: str = ""


class Answerer:
    """
    Answers calls about one journal; from any thread.

    Args:
        path: Of the journal; it need not be there yet.
        content: Whether texts of users, models and tools are shown.
        busy_timeout_s: Seconds to wait for another process's lock.
        log: Is told where an internal error was, without what it said.
    """

    def __init__(
        self,
        path: str,
        *,
        content: bool = False,
        busy_timeout_s: float = 30.0,
        log: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.path, self.content = path, content
        self._busy_timeout_s = busy_timeout_s
        self._log = log

    def answer(self, name: str, arguments: Mapping[str, Any]) -> CallOutcome:
        """Return what came of a call of a tool, one of `TOOLS`; nothing is raised of its arguments or the journal."""
        tool = TOOLS[name]
        problems = tool.parameters.check(arguments)
        if problems:
            told = "; ".join(problem.message for problem in problems[:PROBLEMS_TOLD])
            return CallOutcome(None, self._line(f"{name}: {told}"))
        try:
            return CallOutcome(self._found(tool, arguments))
        except InternalError as error:
            return CallOutcome(None, self._internal(error))
        except PaorError as error:
            return CallOutcome(None, self._line(str(error) if self.content else _words(error)))
        except _SHAPE as error:
            where = f"{type(error).__name__}; {_where(error)}"
            self._log(f"a journal that could not be read, or an error of paor's own: {where}")
            return CallOutcome(None, UNREADABLE)
        except Exception as error:  # noqa: BLE001 - a server answers, whatever happened
            return CallOutcome(None, self._internal(error))

    def _found(self, tool: JournalTool, arguments: Mapping[str, Any]) -> dict[str, Any]:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                with (
                    Journal(self.path, read_only=True, busy_timeout_s=self._busy_timeout_s) as journal,
                    journal.snapshot() as reader,
                ):
                    found, tools = tool.function(reader, arguments)
                    reader.check_same()
                texts = Texts(self.content, int(arguments.get("chars", CHARS)), tools)
                answer: dict[str, Any] = sieved(texts, found, tool.form)
                return answer
            except JournalBusy:
                if attempt == ATTEMPTS:
                    raise
        raise InternalError("unreachable")

    def _internal(self, error: Exception) -> str:
        self._log(f"internal error: {type(error).__name__}; {_where(error)}")
        return (
            f"internal error ({type(error).__name__}); the server's error output says where, please report it"
        )

    @staticmethod
    def _line(text: str) -> str:
        """Return an error as one line within bounds, without keys."""
        line = visible(without_secrets(" ".join(text[: 4 * LINE_CHARS].split())))
        return line if len(line) <= LINE_CHARS else f"{line[: LINE_CHARS - 3]}..."


UNREADABLE = "the journal holds something that cannot be read here; the tool verify says where"


def _where(error: Exception) -> str:
    """Return the places of an error, innermost last, without its text: that may be of a journal."""
    frames = traceback.extract_tb(error.__traceback__)[-4:]
    return ", ".join(f"{frame.name} line {frame.lineno}" for frame in frames)
