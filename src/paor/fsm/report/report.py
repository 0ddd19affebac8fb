"""The report: runs of a journal as one HTML file that needs nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from ...states.base.errors import UsageError
from ..explain.diff import diff as compare
from ..journal.places.opening import open_store
from ..journal.reader import JournalReader, Readable, reader_of
from ..transfer.export import export_runs, in_order, line_bytes
from ..transfer.importer import import_lines
from ..transfer.redaction import Redaction, redaction_of
from .html import page_html
from .run_view import CHUNK
from .view import JournalView


def report(
    journal: Readable,
    run: str | None = None,
    *,
    diff: str | None = None,
    redact: Redaction | Mapping[str, str] | bool | None = None,
) -> str:
    """
    Return a page of one run, of two that are compared, or of all runs of a journal, as the text of one HTML file.

    It shows everything that the journal knows, needs no server and no network, and is the same for the same journal. Keys of the
    environment stand nowhere in it. The page computes the hash chain again and says so.

    Args:
        journal: That holds the runs.
        run: The run; None: all of them, with a list that can be filtered.
        diff: A second run, shown beside *run* up to their first difference.
        redact: As for `Journal.export`: what is left out there is not in the page either.

    Raises:
        UsageError: A second run without a first one, rules that cannot be used, or a journal without runs.
        UnknownRun: There is no such run.
        JournalDamaged: A row cannot be read.
    """
    reader = reader_of(journal, "report takes a Journal, such as report(engine.journal, run_id)")
    if diff is not None and run is None:
        raise UsageError("diff= names a second run, to be compared with run=")
    rules = redaction_of(redact)
    with ExitStack() as stack:
        name = reader.name
        still = stack.enter_context(reader.snapshot())
        wanted = [run, *([diff] if diff is not None else [])] if run is not None else in_order(still)[::-1]
        ids = list(dict.fromkeys(still.run(str(item)).run_id for item in wanted))
        if not ids:
            raise UsageError(
                f"{reader.path}: the journal holds no run yet; start one with: paor run OBJECTIVE"
            )
        if rules is not None:
            still = _redacted(stack, still, ids, rules)
        return page_html(_parts(still, ids, compared=diff is not None, redacted=rules is not None, name=name))


def _redacted(
    stack: ExitStack, reader: JournalReader, run_ids: Sequence[str], rules: Redaction
) -> JournalReader:
    """Return a reader of a copy in memory that holds what a redacted export of the runs holds, and no more."""
    store = open_store(":memory:", "off")
    stack.callback(store.close)
    import_lines(store, map(line_bytes, export_runs(reader, run_ids, rules)))
    return store.reader


def _parts(
    reader: JournalReader, run_ids: list[str], *, compared: bool, redacted: bool, name: str
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield every part of the page by its name."""
    view = JournalView(reader, name=name)
    yield "index", view.index(run_ids) | {"compared": compared} | ({"open": run_ids[0]} if compared else {})
    if compared:
        yield "diff", _difference(view, run_ids)
    for run_id in run_ids:
        yield f"run/{run_id}", view.part(f"run/{run_id}") | {"redacted": redacted}
        for number in range(-(-view.run(run_id).rows.count // CHUNK)):
            yield f"rows/{run_id}/{number}", view.part(f"rows/{run_id}/{number}")


def _difference(view: JournalView, run_ids: Sequence[str]) -> Mapping[str, Any]:
    left, right = run_ids[0], run_ids[-1]
    found = compare(view.journal, left, right)
    told = found.wire()
    one, two = told.pop("left"), told.pop("right")
    return view.clean(
        told | {"left": left, "right": right, "left_text": one["text"], "right_text": two["text"]}
    )
