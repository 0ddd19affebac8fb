"""`paor export` and `paor import`: runs as JSON lines, out of a journal and into one."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Annotated

from ...fsm.journal.postgres.address import is_address
from ...fsm.journal_api import Journal
from ...fsm.transfer.export import export_runs, in_order, line_bytes
from ...fsm.transfer.line_format import LINE_BYTES_MAX
from ...fsm.transfer.redaction import Redaction, rules_of_text
from ...states.base.errors import PaorError, UsageError
from ..support import terminal as io
from ..support.journals import busy_timeout_s, find_run, reading
from ..support.options import Everything, Output, Redact, command, refuse


@command(
    "paor export last > run.jsonl",
    "paor export 0199d2b4-6f1e --output run.jsonl",
    "paor export --all --redact default --output runs.jsonl",
)
def export(
    names: Annotated[tuple[str, ...], "[RUN]..."],
    everything: Everything,
    conversation: Annotated[str | None, "--conversation ID", "Every round of this conversation."],
    redact: Redact,
    output: Output,
    journal: str,
) -> None:
    """
    Print runs as JSON lines: of each its header, payloads, rows, documents, erasures and head.

    The same bytes for the same runs, with or without --json, and nothing about the host or process. Without RUN it
    is the newest. The runs whose rows a fork shares come before it. Payloads that --redact leaves out are exported
    as erased, with the names of the rules, so that the rest still verifies.
    """
    several = sum((everything, bool(names), conversation is not None)) > 1
    refuse((several, "choose one of RUN, --conversation and --all"))
    redaction = redaction_given(redact)
    with reading(journal) as opened:
        if everything:
            ids = in_order(opened.reader)
        elif conversation is not None:
            opened.conversation(conversation)
            ids = opened.reader.index.of_conversation(conversation)
        else:
            ids = [find_run(opened, name).run_id for name in names or (None,)]
        io.say_or_write(output, map(line_bytes, export_runs(opened.reader, ids, redaction)))


def redaction_given(given: tuple[str, ...]) -> Redaction | None:
    """Return the rules that ``--redact`` names, each time a file or the word default; None without one."""
    rules: dict[str, str] = {}
    for name in given:
        if name != "default":
            from ..support.json_input import text_file  # with what starts runs

            rules |= rules_of_text(text_file(name), name)
    return Redaction(rules) if given else None


@command(
    "paor import runs.jsonl --journal archive.db",
    "paor export last --journal a.db | paor import - --journal b.db",
)
def import_(file: Annotated[str, "FILE|-"], journal: str) -> int:
    """
    Import runs from JSON lines, as paor export prints them: all of them or none.

    Everything is verified first. A run that the journal has already is not written again; if the import has more
    rows of it, these are added.

    Exit codes: 0 imported or known; 2 an invalid line; 4 lines that do not verify, or a run of which the journal
    has other rows.
    """
    if os.path.isdir(journal):
        raise UsageError(f"{journal}: is a directory, expected a journal file")
    fresh = not (is_address(journal) or os.path.exists(journal))
    try:
        with nullcontext(sys.stdin.buffer) if file == "-" else open(file, "rb") as stream:
            lines = iter(lambda: stream.readline(LINE_BYTES_MAX + 1), b"")
            with Journal(journal, busy_timeout_s=busy_timeout_s()) as writer:
                done = writer.import_lines(lines)
    except (PaorError, OSError, ValueError) as error:
        if fresh:
            _take_back(journal)
        if isinstance(error, PaorError):
            raise
        raise UsageError(f"{file}: cannot be read ({io.reason(error)})") from None
    data = [{"run_id": run.run_id, "how": run.how, "transitions": run.transitions} for run in done]
    said = (
        f"run {run.run_id}  {HOW[run.how].format(io.count(run.transitions, 'transition'))}" for run in done
    )
    return io.say_either(data, said)


HOW = {"new": "imported, {}", "extended": "extended by {}", "known": "is here already, nothing was written"}


def _take_back(journal: str) -> None:
    """Remove a journal that this command has made and in which nothing was written."""
    with suppress(PaorError, OSError):
        with Journal(journal, read_only=True) as made:
            if made.runs():
                return
        for ending in ("", "-wal", "-shm"):
            Path(f"{journal}{ending}").unlink(missing_ok=True)
