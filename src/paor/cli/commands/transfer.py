"""`paor export`, `paor import`, `paor erase`: runs as JSON lines, out of a journal and into one; and texts that go for good."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import click

from ...fsm.journal.postgres.address import is_address
from ...fsm.journal_api import Journal
from ...fsm.transfer.erasure import Others
from ...fsm.transfer.export import export_runs, in_order, line_bytes
from ...fsm.transfer.line_format import LINE_BYTES_MAX
from ...fsm.transfer.redaction import Redaction, rules_of_text
from ...states.base.errors import PaorError, UsageError
from ..support import terminal as io
from ..support.journals import busy_timeout_s, find_run, reading
from ..support.options import Everything, Output, Redact, Run, age, age_text, command, refuse


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


CHOICES = "choose one of --all, --document, --payload, --conversation, --older-than and --finish"
_OLDER = "All content of every run that ended longer ago, such as 180d."
_LEAST = {"type": age, "default": "30d", "envvar": "PAOR_ERASE_MIN_AGE", "show_envvar": True}
_OTHERS = "What to do with other runs that contain the text; if there are any, nothing is erased without this option."


@command(
    "paor erase last --all",
    "paor erase 0199d2b4-6f1e --document round1_task1_action0_input#0 --reason TICKET-17",
    "paor erase 0199d2b4-6f1e --document 0 --others erase",
    "paor erase --older-than 180d --dry-run",
    "paor erase --finish",
)
def erase(
    name: Run,
    everything: Annotated[bool, "--all", "All content of the run."],
    conversation: Annotated[str | None, "--conversation ID", "All content of every round of a conversation."],
    older_than: Annotated[int | None, "--older-than AGE", _OLDER, {"type": age}],
    min_age: Annotated[int, "--min-age AGE", "Refuse an --older-than below this; default 30d.", _LEAST],
    documents: Annotated[
        tuple[str, ...], "--document LABEL|NUMBER", "A document, with what quotes it or derives from it."
    ],
    payloads: Annotated[tuple[int, ...], "--payload N", "One payload by its number."],
    others: Annotated[Others | None, "--others", _OTHERS, {"type": click.Choice(["erase", "keep"])}],
    reason: Annotated[
        str | None, "--reason CODE", "A code to record, such as a ticket number; not a sentence."
    ],
    force: Annotated[
        bool, "--force", "Erase even if the run has not ended; it cannot be resumed afterwards."
    ],
    dry_run: Annotated[bool, "--dry-run", "Erase nothing; only show what would be erased."],
    finish: Annotated[bool, "--finish", "Remove the old copies that an interrupted erasure has left."],
    journal: str,
) -> int:
    """
    Erase content of a run for good, and record the erasure; the rest still verifies.

    Afterwards no table, log or free page of the file holds the texts or their salts. Copies elsewhere, such as
    exports and backups, remain. So does what a model has said in its own words about a text, except with --all.
    --older-than leaves runs that have not ended, and those that such a run shares texts with.

    Exit codes: 0 erased, or nothing was there; 2 the run has a driver, has not ended, or shares text with other
    runs; 2 also if other processes have the file open: then the erasure is recorded, and --finish completes it.
    """
    choices = {
        "--finish": finish,
        "--conversation": conversation is not None,
        "--older-than": older_than is not None,
        "--all": everything,
        "--document": bool(documents),
        "--payload": bool(payloads),
    }
    chosen = [choice for choice, is_given in choices.items() if is_given]
    refuse((len(chosen) != 1, CHOICES))
    of_run = chosen[0] in ("--all", "--document", "--payload")
    if older_than is not None and older_than < min_age:
        least = f"is below --min-age {age_text(min_age)}"
        raise UsageError(f"--older-than {age_text(older_than)} {least}: nothing was erased")
    if older_than is not None and force:
        raise UsageError("--force goes without --older-than, which leaves runs that have not ended")
    refuse((of_run and name is None, "Missing argument 'RUN'."))
    refuse((not of_run and name is not None, f"{chosen[0]} goes without RUN"))
    with reading(journal) as reader:  # a file that is not there is not created
        run_id = find_run(reader, name).run_id if of_run else ""
    with Journal(journal, busy_timeout_s=busy_timeout_s()) as writer:
        if finish:
            runs = writer.store.unscrubbed()
            writer.finish_erasing()
            note = "no old copies are left" if runs else "nothing was left to do"
            return io.say_either({"runs": runs, "scrubbed": bool(runs)}, [note])
        options: dict[str, Any] = {"others": others or "refuse", "dry_run": dry_run, "reason": reason}
        if older_than is not None:
            done = writer.erase_older_than(older_than, **options | {"others": others or "keep"})
        elif conversation is not None:
            done = writer.erase_conversation(conversation, force=force, **options)
        else:
            content: dict[str, Any] = {"documents": documents, "payloads": payloads}
            done = [writer.erase(run_id, force=force, **content, **options)]
    verb = "would be erased" if dry_run else "erased"
    erased = [pair for one in done for pair in one.erased.items()]
    lines = [f"run {run_id}  {io.count(number, 'payload')} {verb}" for run_id, number in erased]
    nothing = f"run {done[0].run_id}  nothing is left to erase" if done else "no run is due"
    data = [asdict(one) | {"dry_run": dry_run} for one in done]
    notes = []
    if older_than is not None:
        ages = f"older than {age_text(older_than)} (at least {age_text(min_age)})"
        notes.append(f"{ages}: {io.count(len(done), 'run')}")
    kept = dict.fromkeys(run_id for one in done for run_id in one.kept)
    notes += [f"run {run_id} holds text of it {'too' if dry_run else 'still'}" for run_id in kept]
    return io.say_either(data[0] if of_run else data, lines or [nothing], *notes)
