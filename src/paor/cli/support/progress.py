"""Progress of a run on a terminal: one line that moves, and one that stays for every step."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ...states.records.events import Event, RunStarted, StepCompleted, TransitionTaken
from .text import count, cut, duration, one_line

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_DOING = {
    "Planning": "choosing the next action",
    "Specifying": "settling its parameters",
    "Executing": "running",
    "Observing": "reading the result",
    "Reviewing": "judging the progress",
}


class Watch:
    """
    Follows a run's events; knows its id, and on a terminal shows where it is.

    Attributes:
        run_id: Of the run, once it has started.
    """

    def __init__(self, run_id: str | None = None) -> None:
        self.run_id = run_id
        self._console: Console | None = None
        self._doing = "starting"
        self._facts = ""
        self._lines = 0
        self._began = time.monotonic()

    def __call__(self, event: Event) -> None:
        """Take notice of one event."""
        if isinstance(event, RunStarted):
            self.run_id = self.run_id or event.run_id  # the first one: a workflow's tasks are runs, too
        elif isinstance(event, TransitionTaken):
            self._moved(event)
        elif isinstance(event, StepCompleted):
            self._stepped(event)

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show progress on standard error while the block runs, if that is a terminal."""
        if not sys.stderr.isatty():
            yield
            return
        from rich.console import Console
        from rich.live import Live

        self._console = Console(stderr=True, highlight=False)
        try:
            with Live(self, console=self._console, refresh_per_second=8, transient=True):
                yield
        finally:
            self._console = None
        if self._lines and sys.stdout.isatty():
            sys.stderr.write("\n")

    def __rich__(self) -> Table:
        """Return the line that moves."""
        from rich.spinner import Spinner
        from rich.table import Table
        from rich.text import Text

        if not hasattr(self, "_spinner"):
            self._spinner = Spinner("dots", style="dim")
        passed = duration(time.monotonic() - self._began)
        text = Text.assemble(
            self._doing, ("  " + ", ".join(part for part in (self._facts, passed) if part), "dim")
        )
        text.no_wrap, text.overflow = True, "ellipsis"
        grid = Table.grid(padding=(0, 1))
        grid.add_row(self._spinner, text)
        return grid

    def _moved(self, event: TransitionTaken) -> None:
        self._doing = f"{event.dest}: {_DOING[event.dest]}" if event.dest in _DOING else event.dest
        if event.dest == "Executing" and event.detail:
            self._doing += f" {one_line(event.detail)}"
        step = f"step {event.step:,} of {event.max_steps:,}" if event.step else ""
        self._facts = ", ".join(
            part for part in (step, count(event.tokens, "token") if event.tokens else "") if part
        )

    def _stepped(self, event: StepCompleted) -> None:
        if self._console is None:
            return
        from rich.cells import cell_len
        from rich.text import Text

        mark, style = ("✓ ", "green") if event.success else ("✗ ", "red")
        tool = one_line(event.tool)
        rest = cut(event.summary, max(8, self._console.width - cell_len(tool) - 4))
        self._console.print(Text.assemble((mark, style), tool, (f"  {rest}", "dim")))
        self._lines += 1
