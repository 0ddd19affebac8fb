"""`paor verify`: does a journal hold, by itself and against heads that were kept elsewhere?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from ...fsm.journal.postgres.address import shown
from ...fsm.verify.heads import BYTES_MAX, Head, heads_file, read
from ...fsm.verify.verify import Defect
from ...states.base.errors import JournalDamaged, UsageError
from ..support.journals import reading
from ..support.options import command
from ..support.streams import DAMAGED, OK, keep_journals, reason, say, say_json, tell, write_atomically
from ..support.text import count, one_line, styled


@command(
    "verify",
    "paor verify",
    "paor verify --write-head heads.json",
    "paor verify --head heads.json",
    "paor verify --journal runs.db --json",
)
@click.option("--head", metavar="FILE", help="Earlier heads: each must still be in its chain.")
@click.option(
    "--write-head", metavar="FILE", help="Write the heads of all runs there, if there are no defects."
)
def verify(head: str | None, write_head: str | None, journal: str, as_json: bool) -> int:
    """
    Check a whole journal: every hash, payload digest and derived column of every run.

    A chain alone does not show that its end or a whole run is missing, or that it was rebuilt. Keep the heads
    elsewhere (--write-head) and compare with them later (--head).

    Exit codes: 0 no defects, 4 with a line for each defect, 2 not a paor journal or not a file of heads.
    """
    before = read(_bytes(head), one_line(head)) if head is not None else []
    keep_journals("--write-head", write_head, journal)
    defects: list[Defect] = []
    unchecked: list[Defect] = []
    now: list[Head] = []
    runs = transitions = 0
    try:
        with reading(journal) as opened:
            # taken first, so that they are verified too
            now = opened.heads() if write_head is not None else []
            defects = opened.verify([*before, *now], unchecked=unchecked)
            runs, transitions = opened.reader.index.counts()
    except JournalDamaged as error:
        defects = defects or [Defect("", "file", str(error))]
    # the advice to run paor verify is what was done
    defects = [replace(item, problem=item.problem.partition("; run: paor verify")[0]) for item in defects]
    if write_head is not None and not defects:
        write_atomically(Path(write_head), [heads_file(now)])
    if as_json:
        message = {"ok": not defects, "runs": runs, "transitions": transitions, "heads": len(before)}
        say_json({**message, "defects": defects} | ({"unchecked": unchecked} if unchecked else {}))
    elif defects:
        say(*(one_line(str(item)) for item in defects))
        tell(styled(f"{shown(journal)}: {count(len(defects), 'defect')}", "bad"))
    else:
        holds = "chain, payloads and columns hold" + (f", {count(len(before), 'head')} too" if before else "")
        say(f"{styled('ok', 'good')}  {count(runs, 'run')}, {count(transitions, 'transition')}: {holds}")
    if not as_json:
        tell(*(one_line(f"not checked: {item}") for item in unchecked))
    if write_head is not None:
        written = f"wrote {write_head} ({count(len(now), 'head')})"
        tell(one_line("no heads were written" if defects else written))
    return DAMAGED if defects else OK


def _bytes(name: str) -> bytes:
    """Return what is in a file, a byte more than is allowed at most; raise `UsageError` when it cannot be read."""
    try:
        with open(name, "rb") as opened:
            return opened.read(BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        raise UsageError(f"{one_line(name)}: cannot be read ({reason(error)})") from None
