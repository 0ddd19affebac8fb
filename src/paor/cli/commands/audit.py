"""`paor why` and `paor diff`: what decided a row, and where two runs part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click
from rich.cells import cell_len

from ...fsm.explain.diff import RunDiff, Side
from ...fsm.explain.diff import diff as compare
from ...fsm.explain.divergence import CAUSES
from ...fsm.explain.why import Candidate, Checked, Why, WhyNot, why_not
from ...fsm.explain.why import why as explain
from ..support.journals import find_run, reading, two_runs
from ..support.options import OTHER, command
from ..support.run_summary import question_pairs
from ..support.streams import DIVERGED, OK, say_either, tell
from ..support.text import (
    Cell,
    Column,
    arrow,
    count,
    cut,
    duration,
    facts,
    folded,
    one_line,
    styled,
    table,
    width,
)

FATES = {
    "taken": ("taken", "good"),
    "kept": ("kept out", "dim"),
    "later": ("not tried", "dim"),
    "open": ("open", "warn"),
}
"""Fates of a candidate row in words, and their style."""


@command("why", "paor why last", "paor why last 4", "paor why 0199d2b4-6f1e 4 --not Done")
@click.argument("name", metavar="[RUN]", required=False)
@click.argument("seq", metavar="[SEQ]", type=int, required=False)
@click.option("--not", "phase", metavar="PHASE", help="Why the row did not lead to this phase.")
def why(name: str | None, seq: int | None, phase: str | None, journal: str, as_json: bool) -> int:
    """
    Explain what decided one row of a run: every candidate row of the table with its guards.

    Without SEQ it is the last row; the next number is the row that is not decided yet. The values of the guards are
    those in the journal. What each guard examined is derived again; no model and no tool is called.

    Exit codes: 0 explained, 2 no such run, row or phase, 4 the row cannot be read.
    """
    with reading(journal) as reader:
        found = explain(reader, find_run(reader, name).run_id, seq)
        other = why_not(found, phase) if phase is not None else None
    data = found.wire() if other is None else found.wire() | {"not": other.wire()}
    code = say_either(as_json, data, explanation(found, other))
    if found.note and not as_json:
        tell(styled(found.note, "dim"))
    return code


def explanation(found: Why, other: WhyNot | None = None) -> Iterator[str]:
    """Yield what decided a row, guard by guard, and what kept it from another phase."""
    title = f"run {found.run_id}, row {found.seq}: "
    if found.decided:
        yield f"{title}{styled(found.trigger, 'strong')}, {found.source} {arrow()} {found.dest}"
    else:
        yield f"{title}not decided yet"
    where = f"{found.source}, waiting" if found.waiting else found.source
    came = found.told.told if found.told is not None else ""
    pairs = [("phase", where, ""), ("request", found.request, ""), ("outcome", came, "")]
    yield from facts([*pairs, *question_pairs(found.question)])
    if other is not None:
        yield from ("", *folded(f"not {other.phase}: {other.answer}"), *_candidate_lines(other.candidates))
        return
    yield from _candidate_lines([item for item in found.candidates if item.fate != "later"])
    rest = [_way(item) for item in found.candidates if item.fate == "later"]
    if rest:
        message = f"not tried, since {found.trigger} was taken: {', '.join(rest)}"
        yield from ("", *(styled(line, "dim") for line in folded(message)))


def _candidate_lines(items: Sequence[Candidate]) -> Iterator[str]:
    """Yield rows of the table, each with its guards under it, the columns of all of them in line."""
    ways = max((len(_way(item)) for item in items), default=0)
    names = max((len(_name(guard)) for item in items for guard in item.guards), default=0)
    columns = [Column("", least=2), Column("", least=names), Column("", least=5), Column("", wide=True)]
    for item in items:
        message, style = FATES[item.fate]
        head = f"{_way(item):<{ways}}  {message:<8}"
        meaning = cut(item.meaning, max(8, width() - cell_len(head) - 2))
        yield from ("", f"{styled(head, style)}  {styled(meaning, 'dim')}")
        cells = [_guard_cells(guard) for guard in item.guards]
        if not cells:
            cells = [[Cell("ok", "good"), Cell("no guards", "dim"), Cell(""), Cell("it always fits", "dim")]]
        yield from (f"    {line}" for line in table(columns, cells, width() - 4, wrap=True, head=False))


def _way(item: Candidate) -> str:
    return f"{item.trigger} {arrow()} {item.dest}"


def _name(guard: Checked) -> str:
    return guard.guard if guard.wanted else f"not {guard.guard}"


def _guard_cells(guard: Checked) -> list[Cell]:
    holds = None if guard.value is None else guard.value is guard.wanted
    mark, style = {None: ("?", "dim"), True: ("ok", "good"), False: ("no", "bad")}[holds]
    value = "" if guard.value is None else str(guard.value)
    return [Cell(mark, style), Cell(_name(guard)), Cell(value), Cell(guard.fact, "dim")]


@command(
    "diff",
    "paor diff last~1 last",
    "paor diff 0199d2b4-6f1e 0199d2b5-01ab --json",
    "paor diff last last --other yesterday.db",
)
@click.argument("left", metavar="A")
@click.argument("right", metavar="B")
@OTHER
@click.option("--exit-code", "coded", is_flag=True, help="Exit with 3 when the runs differ.")
def diff(left: str, right: str, other: str | None, coded: bool, journal: str, as_json: bool) -> int:
    """
    Compare two runs: the first difference, its cause, and how they end.

    Ids, times and salts do not count. The cause is the first input that was not the same: the output of a model, a
    tool or a person, a prompt, the code, a setting, the policy, a budget, the clock, a crash. Erased content counts
    as the same.

    Exit codes: 0 compared, identical or not; with --exit-code 3 when they differ; 2 no such run or journal.
    """
    with two_runs(journal, left, right, other) as (reader, one, second, two):
        found = compare(reader, one.run_id, two.run_id, second)
    say_either(as_json, found.wire(), _diff_lines(found))
    return DIVERGED if coded and not found.identical else OK


def _diff_lines(found: RunDiff) -> Iterator[str]:
    yield from (f"A  run {found.left.run_id}", f"B  run {found.right.run_id}")
    if found.shared:
        yield f"they share rows 0 to {found.shared - 1}"
    if found.identical:
        message = f"identical  {count(found.left.transitions, 'transition')}, {_end(found.left)}"
        yield styled(message, "good")
    else:
        line = f", line {found.line}" if found.line > 1 else ""
        place = f"row {found.seq} ({found.source}), {found.field}{line}"
        cause = f"{found.cause.replace('_', ' ')}: {CAUSES[found.cause]}"
        yield from ("", *facts([("first differs", place, "strong"), ("cause", cause, "warn")]))
        yield from folded(found.detail)
        yield from ("", *_side_line("A", found.left.text, "bad"), *_side_line("B", found.right.text, "good"))
        yield from ("", *_ends(found))
    if found.others:
        yield from folded(f"they differ in {', '.join(found.others)} too, which is not the cause")


def _side_line(name: str, text: str, style: str) -> list[str]:
    shown = folded(one_line(text) or "(empty)", width() - 3)[:4]
    return [styled(f"{name if index == 0 else ' '}  {line}", style) for index, line in enumerate(shown)]


def _end(side: Side) -> str:
    return f"{side.state} ({side.reason or side.status})"


def _ends(found: RunDiff) -> list[str]:
    """Return how both runs end, as a small table, and what that says."""
    rows = []
    for name, side in (("A", found.left), ("B", found.right)):
        numbers = (f"{number:,}" for number in (side.transitions, side.steps, side.tokens))
        cost = f"{side.cost:,.4f}" if side.cost else ""
        rows.append([Cell(text) for text in (name, _end(side), *numbers, cost, duration(side.seconds))])
    numbered = (Column(head, right=True) for head in ("rows", "steps", "tokens", "cost", "time"))
    columns = [Column(""), Column("end"), *numbered]
    if found.decision_seq is None:
        message = "every transition is the same"
    else:
        message = f"the first other transition is row {found.decision_seq}"
    end = "same end" if found.same_end else "not the same end"
    answer = "same answer" if found.same_answer else "other answer"
    return [*table(columns, rows), *folded(f"{message}; {end}, {answer}")]
