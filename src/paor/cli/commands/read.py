"""`paor runs` and `paor replay`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from itertools import chain
from typing import TYPE_CHECKING, Any

import click

from ...fsm.explain.story import line_wire, objective_of
from ...fsm.journal.postgres.address import shown
from ...fsm.journal.rows import RunRow
from ...fsm.journal_api import STATUSES, Journal
from ...fsm.replay.callers import open_question
from ...states.base.errors import JournalDamaged, UsageError
from ...states.run.labels import conversation_of, key_of, value_text
from ...states.run.phase_names import PHASES
from ..support.journals import ALONE, find_run, reading, short_id
from ..support.options import METADATA, SINCE, app_option, command, file_name, option
from ..support.run_summary import question_line
from ..support.streams import DAMAGED, DIVERGED, OK, say, say_json, tell
from ..support.text import (
    NARROW,
    SLIM,
    STATE_STYLES,
    Cell,
    Column,
    count,
    facts,
    local_time,
    one_line,
    styled,
    table,
    width,
)

if TYPE_CHECKING:
    from ...fsm.replay.replay import Replay

SHOWN = 20
"""Runs that a list for people shows by default."""


@command(
    "runs",
    "paor runs",
    "paor runs --status waiting --limit 0",
    "paor runs --metadata tenant=acme --since 7d",
    "paor runs --json --journal runs.db",
)
@click.option("--status", type=click.Choice(STATUSES), help="Only runs with this status.")
@click.option("--state", type=click.Choice(PHASES), help="Only runs in this phase.")
@option("--key", "TEXT", "Only the run that was started with this key.")
@option("--conversation", "ID", "Only the rounds of this conversation.")
@METADATA
@SINCE
@option("--limit", "N", f"Newest N runs, 0 for all; default {SHOWN}.", type=click.IntRange(min=0))
def runs(limit: int | None, since: int | None, journal: str, as_json: bool, **wanted: Any) -> int:
    """
    List the runs of a journal, newest first. With several conditions, a run must meet all of them.

    A run is "running" until it ends or waits, whether or not anybody drives it. VALUE of --metadata is a text or JSON.

    Of a run that waits the question is shown, for a call with its arguments.

    With --json all of them, keys as the columns of the view "runs", times in microseconds since the epoch, and
    "waiting_for", the question of a run that waits, and "used": its steps, tokens, cost and time.
    """
    conversation = conversation_of(wanted["conversation"]) or None
    wanted |= {"conversation": conversation, "key": key_of(wanted["key"]), "since": since}
    wanted["metadata"] = {name: _meanings(value) for name, value in wanted["metadata"].items()}
    with reading(journal) as reader:
        rows = reader.reader.runs(**wanted)
        most = limit if as_json or limit is not None else SHOWN
        shown = rows[: most or None]
        if as_json:
            shown = reader.reader.with_objectives(shown)
            say_json([line_wire(reader.reader, row, open_question(reader.reader, row)) for row in shown])
            return OK
        if not rows:
            asked = any(value for value in wanted.values())
            tell(f"{reader.path}: the journal holds no {'such run' if asked else 'run yet'}")
            return OK
        head, *lines = table(RUN_COLUMNS, [_run_cells(reader, row) for row in shown])
        questions = [_asked_lines(reader, row) for row in shown]
    say(head, *chain.from_iterable([line, *more] for line, more in zip(lines, questions, strict=True)))
    if len(rows) > len(shown):
        tell(styled(f"{count(len(rows) - len(shown), 'older run')}: paor runs --limit 0", "dim"))
    return OK


def _meanings(value: str) -> list[str]:
    """Return what a value of metadata on the command line may be in a journal, as canonical JSON: a text, and what it is as JSON."""
    texts = [value_text("", value)]
    with suppress(ValueError, UsageError):
        texts.append(value_text("", json.loads(value)))
    return texts


RUN_COLUMNS = (
    Column("run"),
    Column("started", from_width=SLIM),
    Column("state"),
    Column("rows", right=True),
    Column("objective", wide=True),
)


def mark_of(row: RunRow) -> str:
    """Return where a run is in its workflow or was forked, nothing for a run by itself."""
    if row.parent_seq is not None:
        return f"[fork at row {row.parent_seq}] "
    if (called := row.called_by) is not None:
        return f"[called by {called.run_id[:13]}] "
    if row.task == 0:
        return f"[workflow, round {row.round}] "
    return f"[round {row.round}, task {row.task}] " if row.workflow_id != row.run_id else ""


def _run_cells(journal: Journal, row: RunRow) -> list[Cell]:
    row = journal.run(row.run_id) if row.status == "running" else row
    why = row.reason or (row.status if row.status in ("waiting", "running") else "")
    if row.status == "running" and row.driver is None:
        why = ALONE
    state = f"{row.state} ({why})" if why else row.state
    objective = objective_of(journal.reader, row)
    return [
        Cell(short_id(journal, row.run_id)),
        Cell(local_time(row.created_at)[5 if width() < NARROW else 0 : 16], "dim"),
        Cell(state, STATE_STYLES.get(row.status, "")),
        Cell(f"{row.head_seq + 1:,}"),
        Cell(f"{mark_of(row)}{objective}", "") if objective is not None else Cell("(erased)", "dim"),
    ]


def _asked_lines(journal: Journal, row: RunRow) -> list[str]:
    """Return what a run waits for, below its own line; nothing for another run."""
    question = open_question(journal.reader, row)
    return facts([("  waits for", question_line(question), "warn")]) if question is not None else []


@command(
    "replay",
    "paor replay",
    "paor replay last",
    "paor replay 0199d2b4-6f1e --app shop:engine --json",
    "paor replay --repro .paor/repro/check-1f2e3d4c.json --app shop:engine",
)
@click.argument("name", metavar="[RUN]", required=False)
@app_option("Compare with its prompts, schemas and policy.")
@option("--repro", "FILE", "A case that paor fuzz has saved; its steps are repeated.", callback=file_name)
def replay(name: str | None, app: str | None, repro: str | None, journal: str, as_json: bool) -> int:
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

        return replay_repro(repro, app, as_json=as_json)
    with ExitStack() as stack:
        engine = None
        if app is None:
            reader = stack.enter_context(reading(journal))
        else:
            from ..support.app import EngineOptions, engine_of

            reader = stack.enter_context(EngineOptions(journal, app).looking())
            engine = engine_of(app, reader)
        rows = [find_run(reader, name)] if name is not None else list(reversed(reader.runs()))
        replays: list[Replay | str] = []
        for row in rows:
            try:
                replays.append(replay_run(reader, row.run_id, engine))
            except JournalDamaged as error:
                replays.append(str(error))
    if as_json:
        found = [
            Replay(row.run_id, 0, False, ()).wire(item) if isinstance(item, str) else item.wire()
            for row, item in zip(rows, replays, strict=True)
        ]
        say_json(found[0] if name is not None else found)
    else:
        for row, item in zip(rows, replays, strict=True):
            say(*_replay_lines(row, item))
        if not rows:
            tell(f"{shown(journal)}: the journal holds no run yet")
    if any(isinstance(item, str) for item in replays):
        return DAMAGED
    return DIVERGED if any(isinstance(item, Replay) and item.divergences for item in replays) else OK


def _replay_lines(row: RunRow, item: Replay | str) -> Iterator[str]:
    if isinstance(item, str):
        yield from (f"run {row.run_id}  {styled('not readable', 'bad')}", f"  {one_line(item)}")
        return
    verdict = styled("identical", "good") if item.identical else styled("diverged", "bad")
    if item.unchecked and not item.divergences:
        verdict = styled("identical as far as it was not erased", "warn")
    yield f"run {row.run_id}  {verdict}  {count(item.transitions, 'transition')}"
    for first in item.divergences[:1]:
        place = f"row {first.seq}, {first.field}" if first.seq >= 0 else first.field
        yield f"  {place} ({first.where})" if first.where else f"  {place}"
        yield from (f"    recorded  {one_line(first.expected)}", f"    derived   {one_line(first.found)}")
    if more := len(item.divergences[1:]):
        rows = len({divergence.seq for divergence in item.divergences})
        yield f"  and {count(more, 'more difference')} in {count(rows, 'row')}; all of them: --json"
    for seq, parts in item.accepted:
        yield f"  {styled('accepted', 'warn')} from row {seq} on: {', '.join(parts)}"
    for part in item.changed:
        if part.relevant:
            yield f"  {styled('changed since', 'warn')}: {one_line(str(part))}"
    erased: dict[int, list[str]] = {}
    for one in item.unchecked:
        erased.setdefault(one.seq, []).append(one.field)
    for seq, names in sorted(erased.items()):
        where = f"row {seq}" if seq >= 0 else "run"
        yield f"  {where}, not checked since it was erased: {', '.join(names)}"
