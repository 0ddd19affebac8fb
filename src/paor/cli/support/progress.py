"""What a command that drives a run tells while it does: the model, what the model's client does by itself, on a terminal every row, in a chat the calls."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from ...fsm.runtime.events import Event, ModelNotice, RunStarted
from . import terminal as io

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
