"""
Export: one run as JSON-able lines, versioned, in a fixed order, the same bytes for the same run.

First the header, then the run's immutable columns, payloads by number, rows by seq, documents by number, and last
the head. Nothing of a lease, a host or a process is in it. A fork comes after the runs whose rows it shares, oldest
first, each whole: so what is exported proves itself, and no run is ever shown with its end cut off.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .record import Record

if TYPE_CHECKING:
    from .journal_reading import JournalReader
    from .journal_rows import RunRow

FORMAT = "paor-export"
VERSION = 1


def export_run(journal: JournalReader, run_id: str) -> Iterator[dict[str, Any]]:
    """
    Yield the lines of one run as it stands when the first one is asked for.

    Raises:
        UnknownRun: There is none.
        JournalBusy: The file was written meanwhile in a way that hides that moment; try again.
    """
    with journal.snapshot() as still:
        if still is not journal:
            yield from _lines(still, run_id)
            return
        lines = list(_lines(still, run_id))  # one in memory shows a moment under its lock only
    yield from lines


def _lines(journal: JournalReader, run_id: str) -> Iterator[dict[str, Any]]:
    parts = journal.lineage(journal.run(run_id).run)
    yield {"line": "header", "format": FORMAT, "version": VERSION}
    for part in parts:
        yield from _run_lines(journal, journal.run(part.run_id))


def _run_lines(journal: JournalReader, row: RunRow) -> Iterator[dict[str, Any]]:
    """Yield what stands under one run, from its columns to its head."""
    yield {"line": "run", **journal.root_columns(row.run)}
    for payload in journal.iterate_payloads(row.run, 200):
        line: dict[str, Any] = {"line": "payload", "n": payload.n, "media_type": payload.media_type}
        line["digest"] = payload.digest.hex()
        line["salt"] = payload.salt.hex() if payload.salt is not None else None
        if isinstance(payload.body, bytes):
            line["base64"] = base64.b64encode(payload.body).decode()
        else:
            line["text"] = payload.body
        yield line
    for values in journal.iterate_rows(row.run, 2000):
        columns = dict(zip(Record._fields, values, strict=True))
        del columns["run"]
        columns["prev_hash"], columns["hash"] = values[-2].hex(), values[-1].hex()
        yield {"line": "transition", **columns}
    for document in journal.stored_documents(row.run):
        yield {"line": "document"} | {name: getattr(document, name) for name in document.__slots__}
    yield {
        "line": "head",
        "state": row.state,
        "status": row.status,
        "reason": row.reason,
        "ended_at": row.ended_at,
        "head_seq": row.head_seq,
        "head_hash": row.head_hash.hex(),
    }
