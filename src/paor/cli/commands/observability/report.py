"""`paor report`: runs of a journal as one HTML file."""

from __future__ import annotations

import click

from ....fsm.report.report import report as page_of
from ...support.journals import find_run, reading
from ...support.options import OUTPUT, command, option
from ...support.streams import OK, keep_journals, say_json, say_or_write
from ..transfer import redaction_given


@command(
    "report",
    "paor report last --output run.html",
    "paor report last~1 --diff last --output compared.html",
    "paor report --all --redact default --output runs.html",
)
@click.argument("name", metavar="[RUN]", required=False)
@click.option(
    "--diff", "second", metavar="OTHER", help="A second run, side by side up to the first difference."
)
@click.option("--all", "everything", is_flag=True, help="Every run of the journal, with a list to filter.")
@option(
    "--redact",
    "FILE|default",
    "Leave out payloads with keys, tokens and passwords, as export does; FILE adds rules.",
    multiple=True,
)
@OUTPUT
def report(
    name: str | None,
    second: str | None,
    everything: bool,
    redact: tuple[str, ...],
    output: str | None,
    journal: str,
    as_json: bool,
) -> int:
    """
    Write a page of a run: what it did, why, what it could not do, and whether the journal holds.

    One HTML file that needs no server and no network, with the same bytes for the same journal. It shows the verdict, the calls,
    a timeline, every row with its prompt, reply and guards, the limits, the cost, and the machine as it went step by step.
    Keys of the environment are taken out. RUN is an id, an unambiguous start of one, or "last"; without it the newest run.

    Exit codes: 0 written, 2 no such run or file, 4 a row cannot be read.
    """
    if everything and (name is not None or second is not None):
        raise click.UsageError("--all goes without RUN and --diff")
    if as_json and output is None:
        raise click.UsageError("--json tells what was written: it goes with --output")
    keep_journals("--output", output, journal)
    with reading(journal) as opened:
        one = None if everything else find_run(opened, name).run_id
        other = find_run(opened, second).run_id if second is not None else None
        page = page_of(opened, one, diff=other, redact=redaction_given(redact)).encode()
    say_or_write(page, output)
    if as_json:
        say_json({"run_id": one, "diff": other, "output": output, "bytes": len(page)})
    return OK
