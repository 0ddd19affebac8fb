"""The rows of a run as `paor show` prints them: what was asked for, what came back, and the guard that decided."""

from __future__ import annotations

from collections.abc import Iterator

from ...fsm.explain.story import RowTexts, StoryRow
from .streams import scrubber
from .text import NARROW, SLIM, Cell, Column, arrow, cut, duration, harmless, styled, width


def text_lines(texts: RowTexts) -> Iterator[str]:
    """Yield the texts of a row for people: keys of the environment taken out, new lines of a prompt marked."""
    scrub = scrubber()
    for number, text in enumerate(texts.prompt, 1):
        of = f" {number} of {len(texts.prompt)}" if len(texts.prompt) > 1 else ""
        who = f", {texts.roles[number - 1]}" if any(texts.roles) else ""
        yield from ("", styled(f"prompt{of}{who}", "strong"))
        last = texts.before[number - 1] if number <= len(texts.before) else None
        known = set((last or "").split("\n")) if texts.before else None
        for line in harmless(scrub("(erased)" if text is None else text)).split("\n"):
            new = known is not None and line.strip() and line not in known
            yield styled(f"+ {line}", "good") if new else f"  {line}".rstrip()
    for name, said, shown in (
        *(("beside it", text, True) for text in texts.inner),
        ("thought", texts.thought, texts.thought),
        ("reply", texts.reply, texts.replied),
    ):
        if shown:
            yield from ("", styled(name, "strong"))
            yield from (f"  {line}" for line in harmless("(erased)" if said is None else said).split("\n"))


TRIGGER_STYLES = {"finish": "good", "fail": "bad", "wait": "warn"} | dict.fromkeys(
    ("reselect", "withhold", "respecify", "refuse", "retry_step", "reassess", "retry"), "warn"
)


SAID_CELLS = 200
"""Cells of a text of others that are shown of a row; the rest is in the journal."""


def row_columns() -> list[Column]:
    """Return the columns of the rows' table; the same widths for every row, since they may come one by one."""
    narrow = width() < NARROW
    return [
        Column("seq", right=True, least=3),
        Column("trigger", least=10),
        Column("to" if narrow else f"from {arrow()} to", least=12 if narrow else 24),
        Column("step", right=True, least=4, from_width=SLIM),
        Column("tokens", right=True, least=6, from_width=SLIM),
        Column("time", right=True, least=6, from_width=SLIM),
        Column("detail", wide=True),
    ]


def row_cells(row: StoryRow) -> list[Cell]:
    """Return one row of a run as cells; tokens and time are its own, not the run's."""
    tokens, way = (
        row.tokens_in + row.tokens_out,
        row.dest if width() < NARROW else f"{row.source} {arrow()} {row.dest}",
    )
    return [
        Cell(str(row.seq), "dim"),
        Cell(row.trigger, TRIGGER_STYLES.get(row.trigger, "strong")),
        Cell(way),
        Cell(str(row.step) if row.step else "", "dim"),
        Cell(f"{tokens:,}" if tokens else "", "dim"),
        Cell(duration(row.time_us / 1e6) if row.time_us >= 500 else "", "dim"),
        Cell(detail_of(row)),
    ]


def detail_of(row: StoryRow) -> str:
    """Return what was asked for, what came back and the guards that decided, in one line."""
    parts = ["" if row.asked == "tool" else row.asked, row.tool or ""]
    parts += [f"attempt {row.attempt + 1}" if row.attempt else "", *row.facts]
    told = ", ".join(part for part in parts if part)
    told += f" by {cut(row.actor, SAID_CELLS)}" if row.actor else ""
    told += f": {cut(row.said, SAID_CELLS)}" if row.said else ""
    return told + (f" [{', '.join(row.decided)}]" if row.decided else "")
