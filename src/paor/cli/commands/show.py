"""`paor show`: what one run did, row by row, action by action, document by document."""

from __future__ import annotations

import base64
import sys
from collections.abc import Sequence

import click

from ...fsm.explain.story import RowReader, StoryRow, document_content, document_wire, is_given
from ...fsm.journal.reader import damage_told
from ...fsm.journal.rows import RunRow, StoredDocument, Transition, transition_of
from ...fsm.journal_api import Journal
from ...states.base.errors import UsageError
from ..support.journals import ALONE, command_line, find_run, reading
from ..support.options import command, option
from ..support.row_text import row_cells, row_columns, text_lines
from ..support.run_summary import (
    ACTION_COLUMNS,
    action_cells,
    call_blocks,
    head_pairs,
    question_pairs,
    state_pairs,
    story_of,
)
from ..support.streams import OK, say, say_bytes, say_json, tell
from ..support.text import (
    NARROW,
    SLIM,
    Cell,
    Column,
    answer_lines,
    count,
    duration,
    facts,
    local_time,
    size,
    styled,
    table,
    width,
)

BEAT_S = 1.0
"""Seconds after which `--follow` looks whether anybody still drives a run that nothing is new of."""


@command(
    "show",
    "paor show",
    "paor show last --row 4",
    "paor show last --steps",
    "paor show 0199d2b4-6f1e --documents",
    "paor show last --content round1_task1_action3_report#0",
    "paor show last --follow",
)
@click.argument("name", metavar="[RUN]", required=False)
@option(
    "--row", "SEQ", "One row: what was asked, what came back, and what each guard looked at.", "seq", type=int
)
@click.option(
    "--steps", is_flag=True, help="Each action with its result, and why the model went on or stopped."
)
@click.option("--documents", is_flag=True, help="Its input documents and those that it produced.")
@click.option("--content", metavar="LABEL#POSITION|NUMBER", help="Print one document as it is.")
@click.option("--follow", is_flag=True, help="Print rows as they are written, until the run ends or waits.")
def show(
    name: str | None,
    seq: int | None,
    steps: bool,
    documents: bool,
    content: str | None,
    follow: bool,
    journal: str,
    as_json: bool,
) -> int:
    """
    Show what a run did: a summary, its calls, then every transition with what decided it.

    With --row the prompt of one row, in which a + marks the lines that the last prompt of its kind did not have, the
    reply, and the guards in words.

    RUN is an id, an unambiguous start of one, or "last"; without it the newest run.
    """
    if sum((seq is not None, steps, documents, content is not None, follow)) > 1:
        raise click.UsageError("--row, --steps, --documents, --content and --follow exclude each other")
    with reading(journal) as reader:
        row = find_run(reader, name)
        if seq is not None:
            _one_row(reader, row, seq, as_json)
        elif content is not None:
            _content(reader, row, content, as_json)
        elif documents:
            _documents(reader, row, as_json)
        elif steps:
            _steps(reader, row, as_json)
        elif follow:
            import asyncio

            asyncio.run(_follow(reader, row, as_json))
        else:
            show_run(reader, row, as_json=as_json)
    return OK


def show_run(journal: Journal, row: RunRow, *, as_json: bool) -> None:
    """Print what a run did: its head, its calls and its rows, and how it goes on if it has not ended."""
    told = story_of(journal, row)
    if as_json:
        say_json(told.wire())
        return
    say(*facts(head_pairs(told)))
    if told.calls:
        say("", styled("calls", "dim"), *call_blocks(told.calls))
    if told.rows:
        say("", *_table(told.rows, head=True))
    _say_next(journal, row)


def _one_row(journal: Journal, row: RunRow, seq: int, as_json: bool) -> None:
    """Print one row: its facts, the prompt with what is new in it, the reply, and the guards."""
    from ...fsm.explain.why import one_row
    from .audit import explanation

    found = one_row(journal.reader, row.run_id, seq)
    if as_json:
        say_json(found.wire())
        return
    title, *lines = explanation(found.why)
    say(
        title, *(facts(_row_facts(found.row, found.why.told)) if found.row and found.why.told else ()), *lines
    )
    say(*text_lines(found.texts))


def _row_facts(row: Transition, told: StoryRow) -> list[tuple[str, str, str]]:
    """Return when a row was decided and what it took, as names, values and styles."""
    tokens = told.tokens_in + told.tokens_out
    took = ", ".join([duration(told.time_us / 1e6), *([count(tokens, "token")] if tokens else [])])
    return [("at", local_time(row.at), ""), ("took", took, ""), ("step", str(row.step), "")]


def _say_next(journal: Journal, row: RunRow) -> None:
    """Tell how a run that has not ended goes on."""
    if row.status in ("running", "waiting"):
        todo = "what it waits for"
        if row.status == "running":
            todo = "a process drives it; later" if row.driver is not None else f"{ALONE}; go on"
        tell(f"{styled(f'{todo}:', 'dim')} {command_line('resume', journal, row.run_id)}")


def _table(rows: Sequence[StoryRow], *, head: bool) -> list[str]:
    return table(row_columns(), [row_cells(row) for row in rows], wrap=True, head=head)


async def _follow(journal: Journal, row: RunRow, as_json: bool) -> None:
    """Print the rows that are there, then each new one soon after it was committed."""
    from ...fsm.lifecycle.listening import abatches, listening_of

    heard = abatches(listening_of(journal.store), row.run_id, row.head_seq, beat_s=BEAT_S)
    before: Transition | None = None
    first, alone = True, False
    while True:
        row = journal.run(row.run_id)
        with damage_told(row.run_id):
            later = journal.reader.rows(row.run, before.seq + 1 if before else 0)
            rows = [transition_of(item) for item in later]
        if as_json:
            for item in rows:
                say_json(item._asdict(), compact=True)
        elif rows or first:
            read = RowReader(journal.reader, before)
            say(*_table([read.add(item) for item in rows], head=first))
            first = False
        before = rows[-1] if rows else before
        if row.status != "running" and (before is None or before.seq >= row.head_seq):
            break
        if row.status == "running" and not alone and row.driver is None:
            alone = True
            _say_next(journal, row)
        await anext(heard, None)
    await heard.aclose()
    if not as_json:
        told = story_of(journal, row)
        say("", *facts([*state_pairs(told), *question_pairs(told.question)]))
        _say_next(journal, row)


def _steps(journal: Journal, row: RunRow, as_json: bool) -> None:
    calls = journal.calls(row.run_id)
    if as_json:
        say_json([call.wire() for call in calls])
    elif calls:
        say(*table(ACTION_COLUMNS, [action_cells(call) for call in calls], wrap=True))
    else:
        tell(f"run {row.run_id} has taken no action")


def _documents(journal: Journal, row: RunRow, as_json: bool) -> None:
    documents = journal.documents(row.run_id)
    if as_json:
        say_json([document_wire(document) for document in documents])
        return
    if not documents:
        tell(f"run {row.run_id} has no documents")
        return
    short = width() < NARROW
    cells = [
        [
            Cell(str(item.number), "dim"),
            Cell("given" if is_given(row, item.label) else "produced"),
            Cell(f"{item.label}#{item.position}", "strong"),
            Cell(_kind(item.mime) if short or len(item.mime) > 24 else item.mime, "dim"),
            Cell(size(item.bytes)),
            Cell(item.name),
        ]
        for item in documents
    ]
    say(*table(DOCUMENT_COLUMNS, cells))
    tell(f"{styled('print one:', 'dim')} {command_line('show', journal, row.run_id)} --content NUMBER")


DOCUMENT_COLUMNS = (
    Column("#", right=True),
    Column("", from_width=SLIM),
    Column("reference"),
    Column("type"),
    Column("size", right=True),
    Column("name", wide=True),
)
OFFICE = {"wordprocessingml": "docx", "spreadsheetml": "xlsx", "presentationml": "pptx"}


def _kind(mime: str) -> str:
    """Return a media type in at most 16 characters."""
    name = mime.rpartition("/")[2]
    return next((short for part, short in OFFICE.items() if part in name), name[-16:])


def _content(journal: Journal, row: RunRow, wanted: str, as_json: bool) -> None:
    """Print one document: as it is into a file or pipe, made harmless on a terminal."""
    document = _find_document(journal, row, wanted)
    content = document_content(journal.reader, row, document)
    if as_json:
        say_json(content)
        return
    body = content["text"] if "text" in content else base64.b64decode(content["base64"])
    data = body.encode("utf-8", "surrogatepass") if isinstance(body, str) else body
    if not sys.stdout.isatty():
        say_bytes(data)
        return
    try:
        text = data.decode()
    except UnicodeDecodeError:
        kind = f"{document.mime}, {size(document.bytes)}"
        raise UsageError(f"{document.name}: is not text ({kind}); send it to a file with > FILE") from None
    say(*answer_lines(text))


def _find_document(journal: Journal, row: RunRow, wanted: str) -> StoredDocument:
    """Return the document that *wanted* names; raise `UsageError` when it is none or several."""
    documents = journal.documents(row.run_id)
    label, mark, position = wanted.removeprefix("docItem:").removeprefix("docList:").partition("#")
    if not mark and wanted.isascii() and wanted.isdigit():
        found = [item for item in documents if str(item.number) == wanted]
    else:
        found = [
            item for item in documents if item.label == label and (not mark or str(item.position) == position)
        ]
    if len(found) > 1:
        raise UsageError(f"{wanted}: there are {len(found)} documents under it; add #0 to #{len(found) - 1}")
    if not found:
        raise UsageError(f"{wanted}: run {row.run_id} has no such document; list them with --documents")
    return found[0]
