"""Progress of a run on a terminal: one line that moves, and one that stays for every step."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.cells import cell_len

from ...states.records.events import Event, RunStarted, StepCompleted, TransitionTaken
from .text import count, cut, one_line

if TYPE_CHECKING:  # loaded on a terminal only
    from rich.progress import Progress
    from rich.text import Text

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
        self._progress: Progress | None = None

    def __call__(self, event: Event) -> None:
        """Take notice of one event."""
        if isinstance(event, RunStarted):
            self.run_id = self.run_id or event.run_id  # the first one: a workflow's tasks are runs, too
        if self._progress is None:
            return
        if isinstance(event, TransitionTaken):
            self._progress.update(self._progress.task_ids[0], description=_doing(event))
        elif isinstance(event, StepCompleted):
            self._progress.console.print(_step(event, self._progress.console.width))

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show progress on standard error while the block runs, if that is a terminal."""
        if not sys.stderr.isatty():
            yield
            return
        from rich.console import Console
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
        from rich.table import Column

        column = Column(no_wrap=True, overflow="ellipsis")
        self._progress = Progress(
            SpinnerColumn(style="dim"),
            TextColumn("{task.description}", markup=False, table_column=column),
            TimeElapsedColumn(),
            console=Console(stderr=True, highlight=False),
            transient=True,
        )
        self._progress.add_task("starting", total=None)
        try:
            with self._progress:
                yield
        finally:
            self._progress = None
        if sys.stdout.isatty():
            sys.stderr.write("\n")


def _doing(event: TransitionTaken) -> str:
    """Return what a run does now, on one line."""
    doing = f"{event.dest}: {_DOING[event.dest]}" if event.dest in _DOING else event.dest
    if event.dest == "Executing" and event.detail:
        doing += f" {one_line(event.detail)}"
    step = f"step {event.step:,} of {event.max_steps:,}" if event.step else ""
    tokens = count(event.tokens, "token") if event.tokens else ""
    return "  ".join(part for part in (doing, step, tokens) if part)


def _step(event: StepCompleted, cells: int) -> Text:
    """Return the line that stays of a step."""
    from rich.text import Text

    mark, style = ("✓ ", "green") if event.success else ("✗ ", "red")
    tool = one_line(event.tool)
    rest = cut(event.summary, max(8, cells - cell_len(tool) - 4))
    return Text.assemble((mark, style), tool, (f"  {rest}", "dim"))
