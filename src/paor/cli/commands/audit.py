"""`paor why` and `paor diff`: what decided a row, and where two runs part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

from rich.cells import cell_len

from ...fsm.explain.diff import RunDiff, Side
from ...fsm.explain.diff import diff as compare
from ...fsm.explain.divergence import CAUSES
from ...fsm.explain.why import Candidate, Why, WhyNot, why_not
from ...fsm.explain.why import why as explain
from ..support import terminal as io
from ..support.journals import find_run, reading, two_runs
from ..support.options import Other, Run, command
from ..support.run_text import question_pairs

FATES = {
    "taken": ("taken", "good"),
    "kept": ("kept out", "dim"),
    "later": ("not tried", "dim"),
    "open": ("open", "warn"),
}
"""Fates of a candidate row in words, and their style."""


@command("paor why last", "paor why last 4", "paor why 0199d2b4-6f1e 4 --not Done")
def why(
    name: Run,
    seq: Annotated[int | None, "[SEQ]"],
    phase: Annotated[str | None, "--not PHASE", "Why the row did not lead to this phase."],
    journal: str,
) -> int:
    """
    Explain what decided one row of a run: every candidate row of the table with its guards.

    Without SEQ it is the last row; the next number is the row that is not decided yet. The values of the guards are
    those in the journal. What each guard examined is derived again; no model and no tool is called.

    Exit codes: 0 explained, 2 no such run, row or phase, 4 the row cannot be read.
    """
    with reading(journal) as reader:
        found = explain(reader, find_run(reader, name).run_id, seq)
    other = why_not(found, phase) if phase is not None else None
    data = found.wire() | ({"not": other.wire()} if other is not None else {})
    notes = [io.styled(found.note, "dim")] if found.note else []
    return io.say_either(data, explanation(found, other), *notes)


def explanation(found: Why, other: WhyNot | None = None) -> Iterator[str]:
    """Yield what decided a row, guard by guard, and what kept it from another phase."""
    taken = f"{io.styled(found.trigger, 'strong')}, {found.source} {io.arrow()} {found.dest}"
    yield f"run {found.run_id}, row {found.seq}: {taken if found.decided else 'not decided yet'}"
    where = f"{found.source}, waiting" if found.waiting else found.source
    came = found.told.told if found.told is not None else ""
    pairs = [("phase", where, ""), ("request", found.request, ""), ("outcome", came, "")]
    yield from io.facts([*pairs, *question_pairs(found.question)])
    if other is not None:
        yield from ("", *io.folded(f"not {other.phase}: {other.answer}"), *_ways(other.candidates))
        return
    yield from _ways([item for item in found.candidates if item.fate != "later"])
    if rest := [_way(item) for item in found.candidates if item.fate == "later"]:
        message = f"not tried, since {found.trigger} was taken: {', '.join(rest)}"
        yield from ("", *(io.styled(line, "dim") for line in io.folded(message)))


def _ways(items: Sequence[Candidate]) -> Iterator[str]:
    """Yield rows of the table, each with its guards under it, the columns of all of them in line."""
    ways = max((len(_way(item)) for item in items), default=0)
    names = max((len(_name(guard.guard, guard.wanted)) for item in items for guard in item.guards), default=0)
    columns = [*(io.Column("", least=cells) for cells in (2, names, 5)), io.Column("", wide=True)]
    for item in items:
        message, style = FATES[item.fate]
        head = f"{_way(item):<{ways}}  {message:<8}"
        meaning = io.cut(item.meaning, max(8, io.width() - cell_len(head) - 2))
        yield from ("", f"{io.styled(head, style)}  {io.styled(meaning, 'dim')}")
        cells: list[list[io.Cell]] = []
        for guard in item.guards:
            holds = None if guard.value is None else guard.value is guard.wanted
            mark = {None: ("?", "dim"), True: ("ok", "good"), False: ("no", "bad")}[holds]
            value = "" if guard.value is None else str(guard.value)
            cells.append([mark, _name(guard.guard, guard.wanted), value, (guard.fact, "dim")])
        cells = cells or [[("ok", "good"), ("no guards", "dim"), "", ("it always fits", "dim")]]
        yield from (f"    {line}" for line in io.table(columns, cells, io.width() - 4, wrap=True, head=False))


def _way(item: Candidate) -> str:
    return f"{item.trigger} {io.arrow()} {item.dest}"


def _name(guard: str, wanted: bool) -> str:
    return guard if wanted else f"not {guard}"


@command(
    "paor diff last~1 last",
    "paor diff 0199d2b4-6f1e 0199d2b5-01ab --json",
    "paor diff last last --other yesterday.db",
)
def diff(
    left: Annotated[str, "A"],
    right: Annotated[str, "B"],
    other: Other,
    coded: Annotated[bool, "--exit-code", "Exit with 3 when the runs differ."],
    journal: str,
) -> int:
    """
    Compare two runs: the first difference, its cause, and how they end.

    Ids, times and salts do not count. The cause is the first input that was not the same: the output of a model, a
    tool or a person, a prompt, the code, a setting, the policy, a budget, the clock, a crash. Erased content counts
    as the same.

    Exit codes: 0 compared, identical or not; with --exit-code 3 when they differ; 2 no such run or journal.
    """
    with two_runs(journal, left, right, other) as (reader, one, second, two):
        found = compare(reader, one.run_id, two.run_id, second)
    code = io.DIVERGED if coded and not found.identical else io.OK
    return io.say_either(found.wire(), _diff_lines(found), code=code)


def _diff_lines(found: RunDiff) -> Iterator[str]:
    yield from (f"A  run {found.left.run_id}", f"B  run {found.right.run_id}")
    if found.shared:
        yield f"they share rows 0 to {found.shared - 1}"
    if found.identical:
        message = f"identical  {io.count(found.left.transitions, 'transition')}, {_end(found.left)}"
        yield io.styled(message, "good")
    else:
        line = f", line {found.line}" if found.line > 1 else ""
        place = f"row {found.seq} ({found.source}), {found.field}{line}"
        cause = f"{found.cause.replace('_', ' ')}: {CAUSES[found.cause]}"
        yield from ("", *io.facts([("first differs", place, "strong"), ("cause", cause, "warn")]))
        yield from (*io.folded(found.detail), "")
        for name, side, style in (("A", found.left, "bad"), ("B", found.right, "good")):
            shown = io.folded(io.one_line(side.text) or "(empty)", io.width() - 3)[:4]
            yield from (io.styled(f"{' ' if n else name}  {text}", style) for n, text in enumerate(shown))
        yield from ("", *_ends(found))
    if found.others:
        yield from io.folded(f"they differ in {', '.join(found.others)} too, which is not the cause")


def _end(side: Side) -> str:
    return f"{side.state} ({side.reason or side.status})"


def _ends(found: RunDiff) -> list[str]:
    """Return how both runs end, as a small table, and what that says."""
    rows = []
    for name, side in (("A", found.left), ("B", found.right)):
        numbers = (f"{number:,}" for number in (side.transitions, side.steps, side.tokens))
        cost = f"{side.cost:,.4f}" if side.cost else ""
        rows.append([name, _end(side), *numbers, cost, io.duration(side.seconds)])
    message = f"the first other transition is row {found.decision_seq}"
    message = "every transition is the same" if found.decision_seq is None else message
    end = "same end" if found.same_end else "not the same end"
    answer = "same answer" if found.same_answer else "other answer"
    columns = io.columns("", "end", "rows>", "steps>", "tokens>", "cost>", "time>")
    return [*io.table(columns, rows), *io.folded(f"{message}; {end}, {answer}")]
