"""`paor erase`: texts of runs go for good, the chain stays."""

from __future__ import annotations

from typing import Any

import click

from ...fsm.erasure.execute import ErasureResult, unfinished_runs
from ...fsm.journal_api import Journal
from ..support.journals import busy_timeout_s, find_run, reading
from ..support.streams import OK, command, say, say_json, tell
from ..support.text import count


@command(
    "erase",
    "paor erase last --all",
    "paor erase 0199d2b4-6f1e --document round1_task1_action0_input#0 --reason TICKET-17",
    "paor erase 0199d2b4-6f1e --document 0 --others erase",
    "paor erase --finish",
)
@click.argument("name", metavar="[RUN]", required=False)
@click.option("--all", "everything", is_flag=True, help="All content of the run.")
@click.option(
    "--document",
    "documents",
    metavar="LABEL|NUMBER",
    multiple=True,
    help="A document, what quotes it, and what calls have derived from it.",
)
@click.option(
    "--payload", "payloads", metavar="N", type=int, multiple=True, help="One payload by its number."
)
@click.option(
    "--others",
    type=click.Choice(["erase", "keep"]),
    help="What to do with other runs that contain the text; if there are any, nothing is erased without this option.",
)
@click.option("--reason", metavar="CODE", help="A code to record, such as a ticket number; not a sentence.")
@click.option(
    "--force", is_flag=True, help="Erase even if the run has not ended; it cannot be resumed afterwards."
)
@click.option("--dry-run", is_flag=True, help="Erase nothing; only show what would be erased.")
@click.option("--finish", is_flag=True, help="Remove the old copies that an interrupted erasure has left.")
def erase(
    name: str | None,
    everything: bool,
    documents: tuple[str, ...],
    payloads: tuple[int, ...],
    others: str | None,
    reason: str | None,
    force: bool,
    dry_run: bool,
    finish: bool,
    journal: str,
    as_json: bool,
) -> int:
    """
    Erase content of a run for good, and record the erasure; the rest still verifies.

    Afterwards no table, log or free page of the file holds the texts or their salts. Copies elsewhere, such as
    exports and backups, remain. So does what a model has said in its own words about a text, except with --all.

    Exit codes: 0 erased, or nothing was there; 2 the run has a driver, has not ended, or shares text with other
    runs; 2 also if other processes have the file open: then the erasure is recorded, and --finish completes it.
    """
    chosen = sum((everything, bool(documents), bool(payloads), finish))
    if chosen != 1:
        raise click.UsageError("choose one of --all, --document, --payload and --finish")
    if finish is (name is not None):
        raise click.UsageError("--finish goes without RUN" if finish else "Missing argument 'RUN'.")
    with reading(journal) as reader:  # a file that is not there is not created
        run_id = "" if finish else find_run(reader, name).run_id
    with Journal(journal, busy_timeout_s=busy_timeout_s()) as writer:
        if finish:
            return _finish(writer, as_json)
        done = writer.erase(
            run_id,
            documents=documents,
            payloads=payloads,
            others=others or "refuse",  # type: ignore[arg-type]
            reason=reason,
            force=force,
            dry_run=dry_run,
        )
    _show(done, as_json, dry_run=dry_run)
    return OK


def _finish(writer: Journal, as_json: bool) -> int:
    runs = unfinished_runs(writer)
    writer.finish_erasing()
    if as_json:
        say_json({"runs": runs, "scrubbed": bool(runs)})
    else:
        say("no old copies are left" if runs else "nothing was left to do")
    return OK


def _show(done: ErasureResult, as_json: bool, *, dry_run: bool) -> None:
    if as_json:
        data: dict[str, Any] = {"run_id": done.run_id, "erased": done.erased, "kept": list(done.kept)}
        say_json(data | {"scrubbed": done.scrubbed, "dry_run": dry_run})
        return
    verb = "would be erased" if dry_run else "erased"
    for run_id, number in done.erased.items():
        say(f"run {run_id}  {count(number, 'payload')} {verb}")
    if not done.erased:
        say(f"run {done.run_id}  nothing is left to erase")
    for run_id in done.kept:
        tell(f"run {run_id} {'also' if dry_run else 'still'} holds text of it")
