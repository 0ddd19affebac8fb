"""`paor show`: what one run did, row by row, call by call, document by document."""

from __future__ import annotations

import base64
import sys
from typing import Annotated

from ...fsm.explain.story import RowReader, document_content, document_wire, is_given
from ...fsm.journal.reader import damage_told
from ...fsm.journal.rows import RunRow, Transition, transition_of
from ...fsm.journal_api import Journal
from ...states.base.errors import UsageError
from ..support import terminal as io
from ..support.journals import ALONE, command_line, find_run, reading
from ..support.options import Run, command, refuse
from ..support.run_text import (
    call_blocks,
    head_pairs,
    question_pairs,
    row_table,
    state_pairs,
    story_of,
    text_lines,
)

BEAT_S = 1.0
"""Seconds after which `--follow` looks whether anybody still drives a run that nothing is new of."""


@command(
    "paor show",
    "paor show last --row 4",
    "paor show last --steps",
    "paor show 0199d2b4-6f1e --documents",
    "paor show last --content round1_task1_action3_report#0",
    "paor show last --follow",
)
def show(
    name: Run,
    seq: Annotated[int | None, "--row SEQ", "One row: what was asked, what came back, and its guards."],
    steps: Annotated[bool, "--steps", "Each action with its result, and why the model went on or stopped."],
    documents: Annotated[bool, "--documents", "Its input documents and those that it produced."],
    content: Annotated[str | None, "--content LABEL#POSITION|NUMBER", "Print one document as it is."],
    follow: Annotated[bool, "--follow", "Print rows as they are written, until the run ends or waits."],
    journal: str,
) -> None:
    """
    Show what a run did: a summary, its calls, then every transition with what decided it.

    With --row the prompt of one row, in which a + marks the lines that the last prompt of its kind did not have, the
    reply, and the guards in words.

    RUN is an id, an unambiguous start of one, or "last"; without it the newest run.
    """
    several = sum((seq is not None, steps, documents, content is not None, follow)) > 1
    refuse((several, "--row, --steps, --documents, --content and --follow exclude each other"))
    with reading(journal) as reader:
        row = find_run(reader, name)
        if seq is not None:
            _one_row(reader, row, seq)
        elif content is not None:
            _content(reader, row, content)
        elif documents:
            _documents(reader, row)
        elif steps:
            calls = reader.calls(row.run_id)
            notes = () if calls else (f"run {row.run_id} has taken no action",)
            io.say_either([call.wire() for call in calls], call_blocks(calls), *notes)
        elif follow:
            import asyncio

            asyncio.run(_follow(reader, row))
        else:
            show_run(reader, row)


def show_run(journal: Journal, row: RunRow) -> None:
    """Print what a run did: its head, its calls and its rows, and how it goes on if it has not ended."""
    told = story_of(journal, row)
    if io.wants_json():
        io.say_json(told.wire())
        return
    io.say(*io.facts(head_pairs(told)))
    if told.calls:
        io.say("", io.styled("calls", "dim"), *call_blocks(told.calls))
    if told.rows:
        io.say("", *row_table(told.rows, head=True))
    _say_next(journal, row)


def _one_row(journal: Journal, row: RunRow, seq: int) -> None:
    """Print one row: its facts, the prompt with what is new in it, the reply, and the guards."""
    from ...fsm.explain.why import one_row
    from .audit import explanation

    found = one_row(journal.reader, row.run_id, seq)
    if io.wants_json():
        io.say_json(found.wire())
        return
    title, *lines = explanation(found.why)
    io.say(title)
    if found.row and (told := found.why.told):
        tokens = told.tokens_in + told.tokens_out
        took = io.duration(told.time_us / 1e6) + (f", {io.count(tokens, 'token')}" if tokens else "")
        at = io.local_time(found.row.at)
        io.say(*io.facts([("at", at, ""), ("took", took, ""), ("step", str(found.row.step), "")]))
    io.say(*lines, *text_lines(found.texts))


def _say_next(journal: Journal, row: RunRow) -> None:
    """Tell how a run that has not ended goes on."""
    if row.status in ("running", "waiting"):
        todo = "what it waits for"
        if row.status == "running":
            todo = "a process drives it; later" if row.driver is not None else f"{ALONE}; go on"
        io.tell(f"{io.styled(f'{todo}:', 'dim')} {command_line('resume', journal, row.run_id)}")


async def _follow(journal: Journal, row: RunRow) -> None:
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
        if io.wants_json():
            for item in rows:
                io.say_json(item._asdict(), compact=True)
        elif rows or first:
            read = RowReader(journal.reader, before)
            io.say(*row_table([read.add(item) for item in rows], head=first))
            first = False
        before = rows[-1] if rows else before
        if row.status != "running" and (before is None or before.seq >= row.head_seq):
            break
        if row.status == "running" and not alone and row.driver is None:
            alone = True
            _say_next(journal, row)
        await anext(heard, None)
    await heard.aclose()
    if not io.wants_json():
        told = story_of(journal, row)
        io.say("", *io.facts([*state_pairs(told), *question_pairs(told.question)]))
        _say_next(journal, row)


def _documents(journal: Journal, row: RunRow) -> None:
    documents, short = journal.documents(row.run_id), io.width() < io.NARROW
    cells: list[list[io.Cell]] = [
        [
            (str(item.number), "dim"),
            "given" if is_given(row, item.label) else "produced",
            (f"{item.label}#{item.position}", "strong"),
            (_kind(item.mime) if short or len(item.mime) > 24 else item.mime, "dim"),
            io.size(item.bytes),
            item.name,
        ]
        for item in documents
    ]
    note = f"{io.styled('print one:', 'dim')} {command_line('show', journal, row.run_id)} --content NUMBER"
    note = note if documents else f"run {row.run_id} has no documents"
    columns = io.columns("#>", "~", "reference", "type", "size>", "name*")
    lines = io.table(columns, cells) if documents else ()
    io.say_either([document_wire(document) for document in documents], lines, note)


OFFICE = {"wordprocessingml": "docx", "spreadsheetml": "xlsx", "presentationml": "pptx"}


def _kind(mime: str) -> str:
    """Return a media type in at most 16 characters."""
    name = mime.rpartition("/")[2]
    return next((short for part, short in OFFICE.items() if part in name), name[-16:])


def _content(journal: Journal, row: RunRow, wanted: str) -> None:
    """Print one document: as it is into a file or pipe, made harmless on a terminal."""
    label, mark, position = wanted.removeprefix("docItem:").removeprefix("docList:").partition("#")
    numbered = not mark and wanted.isascii() and wanted.isdigit()
    found = [
        item
        for item in journal.documents(row.run_id)
        if (str(item.number) == wanted if numbered else item.label == label)
        and (not mark or str(item.position) == position)
    ]
    if len(found) > 1:
        raise UsageError(f"{wanted}: there are {len(found)} documents under it; add #0 to #{len(found) - 1}")
    if not found:
        raise UsageError(f"{wanted}: run {row.run_id} has no such document; list them with --documents")
    (document,) = found
    content = document_content(journal.reader, row, document)
    if io.wants_json():
        io.say_json(content)
        return
    body = content["text"] if "text" in content else base64.b64decode(content["base64"])
    data = body.encode("utf-8", "surrogatepass") if isinstance(body, str) else body
    if not sys.stdout.isatty():
        io.say_bytes(data)
        return
    try:
        text = data.decode()
    except UnicodeDecodeError:
        kind = f"{document.mime}, {io.size(document.bytes)}"
        raise UsageError(f"{document.name}: is not text ({kind}); send it to a file with > FILE") from None
    io.say(*io.answer_lines(text))
