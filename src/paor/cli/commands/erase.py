"""`paor erase`: texts of runs go for good, the chain stays."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from ...fsm.journal_api import Journal
from ...fsm.transfer.erasure import Others
from ...states.base.errors import UsageError
from ..support.journals import busy_timeout_s, find_run, reading
from ..support.options import age, age_text, command, option
from ..support.streams import say_either, tell
from ..support.text import count


@command(
    "erase",
    "paor erase last --all",
    "paor erase 0199d2b4-6f1e --document round1_task1_action0_input#0 --reason TICKET-17",
    "paor erase 0199d2b4-6f1e --document 0 --others erase",
    "paor erase --older-than 180d --dry-run",
    "paor erase --finish",
)
@click.argument("name", metavar="[RUN]", required=False)
@click.option("--all", "everything", is_flag=True, help="All content of the run.")
@option("--conversation", "ID", "All content of every round of a conversation.")
@option(
    "--older-than",
    "AGE",
    "All content of every run that ended longer ago, such as 180d or 36h.",
    callback=age,
)
@option(
    "--min-age",
    "AGE",
    "Refuse an --older-than below this; default 30d.",
    callback=age,
    default="30d",
    envvar="PAOR_ERASE_MIN_AGE",
    show_envvar=True,
)
@option(
    "--document",
    "LABEL|NUMBER",
    "A document, what quotes it, and what calls have derived from it.",
    "documents",
    multiple=True,
)
@option("--payload", "N", "One payload by its number.", "payloads", type=int, multiple=True)
@click.option(
    "--others",
    type=click.Choice(["erase", "keep"]),
    help="What to do with other runs that contain the text; if there are any, nothing is erased without this option.",
)
@option("--reason", "CODE", "A code to record, such as a ticket number; not a sentence.")
@click.option(
    "--force", is_flag=True, help="Erase even if the run has not ended; it cannot be resumed afterwards."
)
@click.option("--dry-run", is_flag=True, help="Erase nothing; only show what would be erased.")
@click.option("--finish", is_flag=True, help="Remove the old copies that an interrupted erasure has left.")
def erase(
    name: str | None,
    everything: bool,
    conversation: str | None,
    older_than: int | None,
    min_age: int,
    others: Others | None,
    dry_run: bool,
    finish: bool,
    journal: str,
    as_json: bool,
    **given: Any,
) -> int:
    """
    Erase content of a run for good, and record the erasure; the rest still verifies.

    Afterwards no table, log or free page of the file holds the texts or their salts. Copies elsewhere, such as
    exports and backups, remain. So does what a model has said in its own words about a text, except with --all.

    Exit codes: 0 erased, or nothing was there; 2 the run has a driver, has not ended, or shares text with other
    runs; 2 also if other processes have the file open: then the erasure is recorded, and --finish completes it.
    """
    chosen = (
        everything,
        finish,
        conversation is not None,
        older_than is not None,
        *(bool(given[name]) for name in ("documents", "payloads")),
    )
    if sum(chosen) != 1:
        raise click.UsageError(
            "choose one of --all, --document, --payload, --conversation, --older-than and --finish"
        )
    alone = "--finish" if finish else "--conversation" if conversation is not None else ""
    alone = "--older-than" if older_than is not None else alone
    if older_than is not None and older_than < min_age:
        raise UsageError(
            f"--older-than {age_text(older_than)} is below --min-age {age_text(min_age)}: nothing was erased"
        )
    if older_than is not None and given["force"]:
        raise UsageError("--force goes without --older-than, which leaves runs that have not ended")
    if bool(alone) is (name is not None):
        raise click.UsageError(f"{alone} goes without RUN" if alone else "Missing argument 'RUN'.")
    with reading(journal) as reader:  # a file that is not there is not created
        run_id = "" if alone else find_run(reader, name).run_id
    with Journal(journal, busy_timeout_s=busy_timeout_s()) as writer:
        if finish:
            runs = writer.store.unscrubbed()
            writer.finish_erasing()
            note = "no old copies are left" if runs else "nothing was left to do"
            return say_either(as_json, {"runs": runs, "scrubbed": bool(runs)}, [note])
        options: dict[str, Any] = {"others": others or "refuse", "dry_run": dry_run}
        if older_than is not None:
            options["others"] = others or "keep"
            done = writer.erase_older_than(older_than, reason=given["reason"], **options)
        elif conversation is not None:
            more = {name: given[name] for name in ("reason", "force")}
            done = writer.erase_conversation(conversation, **options, **more)
        else:
            done = [writer.erase(run_id, **options, **given)]
    verb = "would be erased" if dry_run else "erased"
    lines = [
        f"run {run_id}  {count(number, 'payload')} {verb}"
        for one in done
        for run_id, number in one.erased.items()
    ]
    data = [asdict(one) | {"dry_run": dry_run} for one in done]
    code = say_either(
        as_json,
        data[0] if not alone else data,
        lines or [f"run {done[0].run_id}  nothing is left to erase" if done else "no run is due"],
    )
    if older_than is not None and not as_json:
        tell(f"older than {age_text(older_than)} (at least {age_text(min_age)}): {count(len(done), 'run')}")
    if not as_json:
        kept = dict.fromkeys(run_id for one in done for run_id in one.kept)
        tell(*(f"run {run_id} holds text of it {'too' if dry_run else 'still'}" for run_id in kept))
    return code
