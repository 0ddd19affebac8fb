"""The tool ``verify``: whether a journal, or one run of it, holds, and whether runs replay as they were recorded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..fsm.journal.reader import JournalReader
from ..fsm.journal.rows import RunRow
from ..fsm.replay.replay import Divergence, Replay, replay
from ..fsm.verify.verify import Defect as Found
from ..fsm.verify.verify import run_defects, verify_journal
from ..states.base.errors import JournalBusy, PaorError
from .answers import ShownDefect, ShownDifference, ShownReplay, Texts, VerifyAnswer
from .looking import Look
from .names import LEFT_OUT, error_words, field_of, name_of, part_of, place_of
from .show import RUN, TEXT_CHARS

DEFECTS_SHOWN, DIFFERENCES_SHOWN, PARTS_NAMED = 50, 20, 20
"""Most of each kind that are in an answer."""

REPLAYED = 20
"""Runs that are replayed when the whole journal is verified: the newest ones."""

REPLAYED_ROWS = 20_000
"""Rows after which no further run is replayed then: at about a millisecond a row an agent would give up waiting."""


def verify(look: Look, arguments: Mapping[str, Any]) -> VerifyAnswer:
    """
    Verify the journal, or one run.

    Args:
        look: At the journal.
        arguments: ``run``, default all of them; ``replay``, default true.

    Raises:
        UnknownRun: There is no such run.
        JournalBusy: The file was written while it was read.
    """
    unchecked: list[Found] = []
    name, again = arguments.get("run"), arguments.get("replay", True)
    if name is None:
        defects = verify_journal(look.reader, (), unchecked)
        count, rows = look.reader.index.counts()
        chosen = _newest(look.reader) if again else []
        head = None
    else:
        run = look.run(name)
        defects = list(_of_run(look.reader, run))
        count, rows, head = 1, run.head_seq + 1, run.head_hash.hex()
        chosen = [run] if again else []
    replays = [_replayed(look, row) for row in chosen]
    return VerifyAnswer(
        ok=not defects and all(item.error is None and not item.differences for item in replays),
        runs=count,
        rows=rows,
        defects=[_defect(look.texts, item) for item in defects[:DEFECTS_SHOWN]],
        unchecked=len(unchecked),
        head=head,
        replays=replays if again else None,
        more=_more(len(defects), count if again else 0, len(replays)),
    )


def _newest(reader: JournalReader) -> list[RunRow]:
    """Return the runs that are replayed with a whole journal; one at least, if there is one."""
    found: list[RunRow] = []
    rows = 0
    for run in reader.runs(limit=REPLAYED):
        rows += run.head_seq + 1
        if found and rows > REPLAYED_ROWS:
            break
        found.append(run)
    return found


def _more(defects: int, runs: int, replayed: int) -> str | None:
    told = []
    if defects > DEFECTS_SHOWN:
        told.append(f"{defects - DEFECTS_SHOWN} more defects; all of them: paor verify")
    if runs > replayed:
        left = runs - replayed
        were = (
            "1 older run was not replayed: name it"
            if left == 1
            else f"{left} older runs were not replayed: name one"
        )
        told.append(f"{were}, or use paor replay")
    return "; ".join(told) or None


def _of_run(reader: JournalReader, run: RunRow) -> Iterator[Found]:
    """Yield what is wrong with one run, of a fork also with the runs whose rows it shares; nothing of it where the file is not one that can be walked."""
    checks = reader.source.integrity
    problems = [*checks.schema(), *checks.types()]
    if problems:
        yield from (Found("", place, problem) for place, problem in problems)
        return
    for part in reader.lineage(run.run):
        yield from run_defects(reader, part.run)


def _defect(texts: Texts, item: Found) -> ShownDefect:
    """Return a defect; of a changed file even the names in it may be text of somebody else."""
    problem = item.problem.partition("; run: paor verify")[0]
    plain = problem
    if problem.endswith(" is not in the table here"):
        plain = "its transition is not in the table here"
    elif item.place.startswith(("file", "view runs", "specs")) or any(mark in problem for mark in "('\""):
        plain = problem if problem in _SAFE else "cannot be read as it should be"
    return ShownDefect(
        run_id=name_of(item.run_id) if item.run_id else None,
        place=place_of(item.place),
        problem=texts.words(problem, plain),
    )


_SAFE = frozenset(
    (
        "the immutable columns do not fit their hash",
        "key and metadata are not what its spec says",
        "its derived columns are not what the rows say",
        "its number is out of range",
    )
)
"""Words of a place that can also hold those of an error."""


def _replayed(look: Look, row: RunRow) -> ShownReplay:
    """Replay one run; one that cannot be read says so in its place."""
    told: str | None = None
    try:
        found = replay(look.reader, row.run_id)
    except JournalBusy:
        raise
    except PaorError as error:
        told = look.texts.words(str(error), error_words(error))
        found = Replay(row.run_id, row.head_seq + 1, False, ())
    return ShownReplay(
        run_id=name_of(row.run_id),
        rows=found.transitions,
        identical=found.identical,
        differences=list(_differences(look.texts, found.divergences)),
        unchecked=len(found.unchecked),
        changed=[part_of(part.part) for part in found.changed if part.relevant][:PARTS_NAMED],
        more=_left(len(found.divergences)),
        error=told,
    )


def _left(differences: int) -> str | None:
    left = differences - DIFFERENCES_SHOWN
    return f"{left} more differences; all of them: paor replay --json" if left > 0 else None


def _differences(texts: Texts, items: Iterable[Divergence]) -> Iterator[ShownDifference]:
    for item in list(items)[:DIFFERENCES_SHOWN]:
        field = field_of(item.field)
        yield ShownDifference(
            row=item.seq,
            field=field if field else LEFT_OUT,
            recorded=texts(item.expected),
            derived=texts(item.found),
        )


SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "run": RUN | {"description": f"{RUN['description']} Default: the whole journal."},
        "replay": {
            "type": "boolean",
            "default": True,
            "description": f"Also derive the run again and compare; of a whole journal the newest {REPLAYED} runs.",
        },
        "chars": TEXT_CHARS,
    },
    "additionalProperties": False,
}
