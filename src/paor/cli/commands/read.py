"""`paor runs`, `paor replay`, `paor query`: what a journal holds."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from io import StringIO
from itertools import chain, count, islice
from math import isinf
from typing import TYPE_CHECKING, Annotated, Any

import click

from ...fsm.explain.story import line_wire, objective_of
from ...fsm.journal.postgres.address import shown
from ...fsm.journal.rows import RunRow
from ...fsm.journal_api import STATUSES, Journal
from ...fsm.replay.callers import open_question
from ...states.base.errors import JournalDamaged, UsageError
from ...states.base.secrets import scrubbed
from ...states.run.labels import conversation_of, key_of, value_text
from ...states.run.phase_names import PHASES
from ..support import terminal as io
from ..support.journals import ALONE, find_run, reading, short_id
from ..support.options import APP, YOURS, Metadata, Run, Since, command, refuse
from ..support.run_text import question_line

if TYPE_CHECKING:
    from ...fsm.replay.replay import Replay

SHOWN = 20
"""Runs that a list for people shows by default."""

CONDITIONS = {
    "status": Annotated[
        str | None, "--status", "Only runs with this status.", {"type": click.Choice(STATUSES)}
    ],
    "state": Annotated[str | None, "--state", "Only runs in this phase.", {"type": click.Choice(PHASES)}],
    "key": Annotated[str | None, "--key TEXT", "Only the run that was started with this key."],
    "conversation": Annotated[str | None, "--conversation ID", "Only the rounds of this conversation."],
    "metadata": Metadata,
    "since": Since,
}


@command(
    "paor runs",
    "paor runs --status waiting --limit 0",
    "paor runs --metadata tenant=acme --since 7d",
    "paor runs --json --journal runs.db",
)
def runs(
    wanted: Annotated[dict[str, Any], CONDITIONS],
    limit: Annotated[
        int | None,
        "--limit N",
        f"Newest N runs, 0 for all; default {SHOWN}.",
        {"type": click.IntRange(min=0)},
    ],
    journal: str,
) -> int:
    """
    List the runs of a journal, newest first. With several conditions, a run must meet all of them.

    A run is "running" until it ends or waits, whether or not anybody drives it. VALUE of --metadata is a text or JSON.

    Of a run that waits the question is shown, for a call with its arguments.

    With --json all of them, keys as the columns of the view "runs", times in microseconds since the epoch, and
    "waiting_for", the question of a run that waits, and "used": its steps, tokens, cost and time.
    """
    conversation = conversation_of(wanted["conversation"]) or None
    wanted |= {"conversation": conversation, "key": key_of(wanted["key"])}
    wanted["metadata"] = {name: _meanings(value) for name, value in wanted["metadata"].items()}
    with reading(journal) as opened:
        reader = opened.reader
        rows = reader.runs(**wanted)
        most = limit if io.wants_json() or limit is not None else SHOWN
        some = rows[: most or None]
        if io.wants_json():
            some = reader.with_objectives(some)
            io.say_json([line_wire(reader, row, open_question(reader, row)) for row in some])
            return io.OK
        if not rows:
            io.tell(
                f"{opened.path}: the journal holds no {'such run' if any(wanted.values()) else 'run yet'}"
            )
            return io.OK
        head, *lines = io.table(RUN_COLUMNS, [_run_cells(opened, row) for row in some])
        said = [head]
        for row, line in zip(some, lines, strict=True):
            asked = open_question(reader, row)
            said += [line, *(io.facts([("  waits for", question_line(asked), "warn")]) if asked else ())]
    io.say(*said)
    if more := len(rows) - len(some):
        io.tell(io.styled(f"{io.count(more, 'older run')}: paor runs --limit 0", "dim"))
    return io.OK


def _meanings(value: str) -> list[str]:
    """Return what a value of metadata on the command line may be in a journal, as canonical JSON: a text, and what it is as JSON."""
    texts = [value_text("", value)]
    with suppress(ValueError, UsageError):
        texts.append(value_text("", json.loads(value)))
    return texts


RUN_COLUMNS = io.columns("run", "started~", "state", "rows>", "objective*")


def _mark_of(row: RunRow) -> str:
    """Return where a run is in its workflow or was forked, nothing for a run by itself."""
    if row.parent_seq is not None:
        return f"[fork at row {row.parent_seq}] "
    if (called := row.called_by) is not None:
        return f"[called by {called.run_id[:13]}] "
    place = f"task {row.task}" if row.task else ""
    if row.task and row.workflow_id == row.run_id:
        return ""
    return f"[round {row.round}, {place}] " if place else f"[workflow, round {row.round}] "


def _run_cells(journal: Journal, row: RunRow) -> list[io.Cell]:
    row = journal.run(row.run_id) if row.status == "running" else row
    why = row.reason or (row.status if row.status in ("waiting", "running") else "")
    if row.status == "running" and row.driver is None:
        why = ALONE
    objective = objective_of(journal.reader, row)
    return [
        short_id(journal, row.run_id),
        (io.local_time(row.created_at)[5 if io.width() < io.NARROW else 0 : 16], "dim"),
        (f"{row.state} ({why})" if why else row.state, io.STATE_STYLES.get(row.status, "")),
        f"{row.head_seq + 1:,}",
        f"{_mark_of(row)}{objective}" if objective is not None else ("(erased)", "dim"),
    ]


@command(
    "paor replay",
    "paor replay last",
    "paor replay 0199d2b4-6f1e --app shop:engine --json",
    "paor replay --repro .paor/repro/check-1f2e3d4c.json --app shop:engine",
)
def replay(
    name: Run,
    app: Annotated[str | None, APP, f"Compare with its prompts, schemas and policy. {YOURS}"],
    repro: Annotated[str | None, "--repro FILE", "A case that paor fuzz has saved; its steps are repeated."],
    journal: str,
) -> int:
    """
    Derive a run again from its recorded outcomes and compare every field with the record.

    Offline: no model and no tool is called. Without RUN it replays every run of the journal, without --app with the
    run's own prompts, schemas and policy. If content was erased, the rest is compared, and what cannot be
    checked is named.

    The first difference is shown, with --json all of them. Parts that have changed since the run was recorded are
    named, too; alone they do not count as a difference.

    With --repro no journal is read: the steps of a case that paor fuzz has saved are repeated, with the engine that
    --app names.

    Exit codes: 0 identical, or no longer fails; 3 diverged, or still fails; 4 a run whose record cannot be read.
    """
    from ...fsm.replay.replay import Replay  # with all that decides, which a list of runs does not need
    from ...fsm.replay.replay import replay as replay_run

    if repro is not None:
        if name is not None:
            raise UsageError("--repro goes without a run: the file holds all steps")
        from .fuzz import replay_repro

        return replay_repro(repro, app)
    replays: list[Replay] = []
    unreadable: dict[str, str] = {}
    with ExitStack() as stack:
        engine = None
        if app is None:
            reader = stack.enter_context(reading(journal))
        else:
            from ..support.app import EngineOptions, engine_of

            reader = stack.enter_context(EngineOptions(journal, app=app).looking())
            engine = engine_of(app, reader)
        for row in [find_run(reader, name)] if name is not None else list(reversed(reader.runs())):
            try:
                replays.append(replay_run(reader, row.run_id, engine))
            except JournalDamaged as error:
                replays.append(Replay(row.run_id, 0, False, ()))
                unreadable[row.run_id] = str(error)
    found = [item.wire(unreadable.get(item.run_id)) for item in replays]
    notes = () if replays else (f"{shown(journal)}: the journal holds no run yet",)
    lines = (line for item in replays for line in _replay_lines(item, unreadable.get(item.run_id)))
    io.say_either(found[0] if name is not None else found, lines, *notes)
    if unreadable:
        return io.DAMAGED
    return io.DIVERGED if any(item.divergences for item in replays) else io.OK


def _replay_lines(item: Replay, error: str | None) -> Iterator[str]:
    if error is not None:
        yield from (f"run {item.run_id}  {io.styled('not readable', 'bad')}", f"  {io.one_line(error)}")
        return
    verdict = io.styled("identical", "good") if item.identical else io.styled("diverged", "bad")
    if item.unchecked and not item.divergences:
        verdict = io.styled("identical as far as it was not erased", "warn")
    yield f"run {item.run_id}  {verdict}  {io.count(item.transitions, 'transition')}"
    for first in item.divergences[:1]:
        place = f"row {first.seq}, {first.field}" if first.seq >= 0 else first.field
        yield f"  {place} ({first.where})" if first.where else f"  {place}"
        yield from (
            f"    recorded  {io.one_line(first.expected)}",
            f"    derived   {io.one_line(first.found)}",
        )
    if more := len(item.divergences[1:]):
        rows = len({divergence.seq for divergence in item.divergences})
        yield f"  and {io.count(more, 'more difference')} in {io.count(rows, 'row')}; all of them: --json"
    for seq, parts in item.accepted:
        yield f"  {io.styled('accepted', 'warn')} from row {seq} on: {', '.join(parts)}"
    for part in item.changed:
        if part.relevant:
            yield f"  {io.styled('changed since', 'warn')}: {io.one_line(str(part))}"
    erased: dict[int, list[str]] = {}
    for one in item.unchecked:
        erased.setdefault(one.seq, []).append(one.field)
    for seq, names in sorted(erased.items()):
        where = f"row {seq}" if seq >= 0 else "run"
        yield f"  {where}, not checked since it was erased: {', '.join(names)}"


Row = tuple[Any, ...]

BATCH, TABLE_MAX = 200, 1_000
"""Rows that are read before they are written, so that memory does not grow with their number; and most of a table for people."""
CELL_CHARS, BLOB_BYTES = 200, 32
"""Of a text that a table shows, the rest would only be cut away; and bytes of a blob in hex: of a larger one it says the size."""
COLUMN_CELLS = 8
"""Cells of the narrowest column worth reading; where there is less for each, a row is shown as a list."""


@command(
    'paor query "SELECT run_id, status, steps, cost FROM v_runs"',
    'paor query "SELECT * FROM v_actions WHERE error IS NOT NULL" --csv > failed.csv',
    "paor query \"SELECT name, sql FROM sqlite_master WHERE type = 'view'\" --json",
)
def query(
    sql: Annotated[str, "SQL"],
    as_csv: Annotated[bool, "--csv", "Print CSV with a line of column names."],
    journal: str,
) -> None:
    """
    Print the rows of a SELECT, for example from the views v_runs, v_steps, v_actions, v_calls and
    v_usage.

    It can only read, also while runs go on: a statement that would write, attach a file or load code is refused before
    it begins. In PostgreSQL it is what the role of the address may read. For people a table of at most 1,000 rows, with long texts cut and a large blob by its size. With
    --csv and --json every row, as it is read, blobs in hex; control characters are replaced in CSV and escaped in JSON.
    """
    refuse((as_csv and io.wants_json(), "--csv and --json exclude each other"))
    with reading(journal) as reader, reader.store.backend.answer(sql, BATCH) as (names, rows):
        (_say_json if io.wants_json() else _say_csv if as_csv else _say_table)(_distinct(names), rows)


def _distinct(names: Sequence[str]) -> list[str]:
    """Return column names with a number behind each that is there before, so that no value is lost in JSON."""
    found: dict[str, None] = {}
    for name in names:
        numbered = (f"{name}_{number}" for number in count(2))
        found[next(own for own in chain([name], numbered) if own not in found)] = None
    return list(found)


def _batches(rows: Iterator[Row]) -> Iterator[list[Row]]:
    while batch := list(islice(rows, BATCH)):
        yield batch


def _say_csv(names: Sequence[str], rows: Iterator[Row]) -> None:
    for batch in _batches(chain([tuple(names)], rows)):
        text = StringIO()
        plain = scrubbed([[_plain(value) for value in row] for row in batch], io.scrubber())
        csv.writer(text, lineterminator="\n").writerows(plain)
        io.say_bytes(text.getvalue().encode())


def _plain(value: Any) -> Any:
    """Return a value for CSV: NULL is empty, a blob hex, a text without what could steer a terminal."""
    if isinstance(value, bytes):
        return value.hex()
    return io.harmless(value) if isinstance(value, str) else value


def _say_json(names: Sequence[str], rows: Iterator[Row]) -> None:
    between = b"[\n"
    for batch in _batches(rows):
        data = [{name: _jsonable(value) for name, value in zip(names, row, strict=True)} for row in batch]
        io.say_bytes(between + ",\n".join(map(io.json_text, data)).encode())
        between = b",\n"
    io.say_bytes(b"[\n]\n" if between == b"[\n" else b"\n]\n")


def _jsonable(value: Any) -> Any:
    """Return a value for JSON, which knows neither blobs nor infinite numbers."""
    if isinstance(value, bytes):
        return value.hex()
    return str(value) if isinstance(value, float) and isinf(value) else value


def _say_table(names: Sequence[str], rows: Iterator[Row]) -> None:
    """Write rows for people: a table, or a list for each row where it has too many columns for the width."""
    shown = [[_cell(value) for value in row] for row in islice(rows, TABLE_MAX)]
    more = next(rows, None) is not None
    heads = [io.one_line(name)[:CELL_CHARS] for name in names]
    if len(heads) * (COLUMN_CELLS + 2) <= io.width():
        io.say(*io.table([io.Column(head, wide=True, least=1) for head in heads], shown))
    else:
        for row in shown:
            io.say(*io.table(io.columns("column*", "value*"), list(zip(heads, row, strict=True))), "")
    if more:
        io.tell(f"paor: the first {TABLE_MAX:,} rows; all of them: --csv or --json")
    elif not shown:
        io.tell("paor: no rows")


def _cell(value: Any) -> str:
    if isinstance(value, bytes):
        return value.hex() if len(value) <= BLOB_BYTES else f"{len(value):,} bytes"
    text = "" if value is None else io.harmless(str(value))
    return text if len(text) <= CELL_CHARS else text[:CELL_CHARS] + io.CUT
