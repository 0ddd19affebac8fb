"""
A run on a terminal: one line stays for every row, and below them a region that moves shows what the model writes now.

Everything that is drawn is somebody else's: made harmless and bounded, without keys, and rich gets it as text, never as markup.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from time import monotonic
from typing import Any

from pydantic import TypeAdapter
from rich.cells import cell_len
from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from ...fsm.runtime.events import Event, ModelNotice, ModelText, RunStarted, StepCompleted, TransitionTaken
from ...states.run.phase_names import FINAL
from . import terminal as io
from .run_text import TRIGGER_STYLES

SAID_CHARS, LINES_MAX = 100_000, 8
"""Characters of one reply that are kept for the region, of a longer one its end; and lines of it there."""
WINDOW_CHARS = 2_000
"""A long text is wrapped from a multiple of this many characters on: its lines change their breaks only then."""
ROW_LINES, CALL_LINES, NOTE_LINES = 2, 4, 3
"""Lines that stay of a row, of a call with its arguments, and of what the model's client tells."""

_OBJECT = TypeAdapter(dict[str, Any])
_DOING = {
    "Planning": "choosing the next action",
    "Specifying": "settling its parameters",
    "Executing": "running",
    "Observing": "reading the result",
    "Reviewing": "judging the progress",
}
FILE_CELLS, OWN_PHASE = 10_000, "a phase of your own"
"""Width of a line where standard error is no terminal; and what is done in a phase of a host's own."""
GOOD, BAD = "✓ ", "✗ "


class LiveView:
    """What is drawn on one terminal while a run is driven; with *calls_only* a line stays for each call and its outcome alone."""

    def __init__(self, *, calls_only: bool = False) -> None:
        self._calls_only = calls_only
        width = None if sys.stderr.isatty() else FILE_CELLS
        self._console = Console(stderr=True, markup=False, emoji=False, highlight=False, width=width)
        self._spinner = Spinner("dots", style="dim")
        self._scrub = io.scrubber()
        self._arrow = io.arrow()
        self._begun = monotonic()
        self._doing, self._waits = "starting", ""
        self._facts: list[str] = []
        self._pieces: list[str] = []
        self._size = 0

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Draw while the block runs; then the region is gone, the lines stay."""
        live = Live(get_renderable=self._region, console=self._console, transient=True, refresh_per_second=10)
        with live:
            self._console.show_cursor(True)  # a process that is killed cannot bring it back
            yield

    # -- what stays ------------------------------------------------------------------------------------------------

    def take(self, event: Event) -> None:
        """Draw what an event tells."""
        if isinstance(event, RunStarted):
            self._doing = "going on" if event.resumed else f"Planning: {_DOING['Planning']}"
        elif isinstance(event, ModelText):
            self._add(event.text)
        elif isinstance(event, ModelNotice):
            self._forget()
            self._waits = f"waiting {event.wait_us / 1e6:.1f} s for the model" if event.wait_us else ""
        elif isinstance(event, StepCompleted):
            detail, mark = f"{event.tool}: {event.summary}", GOOD if event.success else BAD
            self._settle("Observing", "Reviewing", "observe", detail, mark=mark)
        elif isinstance(event, TransitionTaken):
            self._forget()
            self._advance(event)
            # the step that is completed with an observation says more
            if event.trigger != "observe" and (event.arguments is not None or not self._calls_only):
                lines, detail = ROW_LINES, event.detail
                if event.arguments is not None:
                    given = (f"{name}={_json(value)}" for name, value in event.arguments.items())
                    lines, detail = CALL_LINES, f"{detail}({', '.join(given)})"
                self._settle(event.source, event.dest, event.trigger, detail, lines)

    def note(self, text: str) -> None:
        """Leave a line on something that the model's client did by itself."""
        lines = io.folded(io.one_line(self._scrub(text)), self._console.width - 3)[:NOTE_LINES]
        self._print(Text("\n".join(f"  {line}" for line in lines), io.STYLES["warn"][0]))

    def _settle(
        self, source: str, dest: str, trigger: str, detail: str, lines_max: int = ROW_LINES, mark: str = ""
    ) -> None:
        narrow, style = self._console.width < io.NARROW, TRIGGER_STYLES.get(trigger, "strong")
        way = f"{self._arrow} {dest}".ljust(13) if narrow else f"{source} {self._arrow} {dest}".ljust(24)
        row = Text()
        if not self._calls_only:
            row = Text.assemble((f"{way}  ", "dim"), (trigger.ljust(10), io.STYLES[style][0]), "  ")
        lead = row.cell_len
        text = io.one_line(self._scrub(f"{mark}{detail}"))
        lines = io.bounded(text, self._console.width - lead - 1, lines_max)
        row.append(f"\n{' ' * lead}".join(lines))
        if mark:
            row.stylize(io.STYLES["good" if mark == GOOD else "bad"][0], lead, lead + 1)
        self._print(row)

    def _print(self, text: Text) -> None:
        self._console.print(text, soft_wrap=True)

    # -- what moves ------------------------------------------------------------------------------------------------

    def _add(self, piece: str) -> None:
        self._waits = ""
        self._pieces.append(piece)
        self._size += len(piece)
        if self._size > SAID_CHARS:
            self._pieces = ["".join(self._pieces)[-SAID_CHARS // 2 :]]
            self._size = len(self._pieces[0])

    def _forget(self) -> None:
        self._pieces, self._size, self._waits = [], 0, ""

    def _advance(self, event: TransitionTaken) -> None:
        """Take over what the run does now."""
        self._doing = (
            f"{event.dest}: {_DOING.get(event.dest, OWN_PHASE)}" if event.dest not in FINAL else event.dest
        )
        if event.dest == "Executing" and event.detail:
            self._doing += f" {io.one_line(event.detail)}"
        self._facts = [f"step {event.step:,} of {event.max_steps:,}"] if event.step else []
        self._facts += [io.count(event.tokens, "token")] if event.tokens else []

    def _region(self) -> Text:
        """Return what is drawn now; called by rich's thread, too."""
        cells, lines = self._console.width - 1, max(1, min(LINES_MAX, self._console.height - 3))
        minutes, seconds = divmod(int(monotonic() - self._begun), 60)
        facts = f"  {minutes}:{seconds:02}"
        doing = io.cut(self._waits or self._doing, cells - len(facts) - 2)
        for fact in reversed(self._facts):
            if cell_len(f"  {doing}  {fact}{facts}") <= cells:
                facts = f"  {fact}{facts}"
        spin = self._spinner.render(self._console.get_time())
        region = Text.assemble(spin if isinstance(spin, Text) else "*", f" {doing}", (facts, "dim"))
        said = readable(self._scrub("".join(self._pieces)))
        if said:
            begin = max(0, len(said) // WINDOW_CHARS - 1) * WINDOW_CHARS
            for line in [line for line in io.folded(said[begin:], cells - 4) if line][-lines:]:
                region.append("\n  │ ", "dim").append(line, "dim")
        return region


def readable(said: str) -> str:
    """Return what a model has said so far for people: of an object, which may not be whole yet, a line for each member."""
    said = said.strip()
    text = said.removeprefix("```json").removeprefix("```").lstrip()
    if not text.startswith("{"):
        return said
    try:
        data = _OBJECT.validate_json(text.removesuffix("```"), experimental_allow_partial="trailing-strings")
    except ValueError:
        return said
    return "\n".join(_members(data))


def _members(data: Mapping[str, Any], lead: str = "") -> Iterator[str]:
    """Yield a line for each member that says something, those of an object in it below its name."""
    for name, value in data.items():
        if isinstance(value, dict) and value and not lead:
            yield f"{name}:"
            yield from _members(value, "  ")
        elif value not in (None, "", [], {}) and name != "schema":
            shown = value if isinstance(value, str) else _json(value)
            yield f"{lead}{name}: {shown}"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
