"""
Export: runs as JSON-able lines, versioned, in a fixed order, the same bytes for the same run.

Of each run first the header, then its immutable columns, payloads by number, rows by seq, documents by number, records
of erasures, and last the head. Nothing of a lease, a host or a process is in it. A fork comes after the runs whose rows
it shares, oldest first, each whole: so what is exported proves itself, and no run is ever shown with its end cut off.
Exports put one after the other are an export, and `fsm.transfer.importer` takes them back.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ..journal.erasure_log import Erasure, chained_erasure, ranges_text
from ..journal.reader import damage_told
from ..journal.record import COLUMNS, canonical
from .erasure_plan import named_with
from .line_format import FORMAT, VERSION, HeadLine
from .redaction import Redaction

if TYPE_CHECKING:
    from ..journal.payloads import Payload
    from ..journal.reader import JournalReader
    from ..journal.rows import RunRow
from ..journal.run_writer import GONE, PLAIN_TYPES


def export_runs(
    journal: JournalReader, run_ids: Sequence[str], redaction: Redaction | None = None
) -> Iterator[dict[str, Any]]:
    """
    Yield the lines of runs as they are when the first one is asked for, each run once.

    Args:
        journal: That holds them.
        run_ids: Their ids.
        redaction: What is left out, as erased; None: nothing.

    Raises:
        UnknownRun: There is no such run.
        JournalDamaged: A row cannot be read.
        JournalBusy: The file was written meanwhile in a way that hides that moment; try again.
    """
    with journal.snapshot() as still:
        if still is not journal:
            yield from _lines(still, run_ids, redaction)
            return
        lines = list(_lines(still, run_ids, redaction))  # one in memory shows a moment under its lock only
    yield from lines


def line_bytes(line: dict[str, Any]) -> bytes:
    """Return a line of an export as it is written: compact JSON in UTF-8, with its line break."""
    text = json.dumps(line, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "surrogatepass") + b"\n"


def in_order(journal: JournalReader) -> list[str]:
    """Return the ids of all runs in an order that does not depend on the file they are in: by time, then by id."""
    return journal.index.ids_by_time()


def _lines(
    journal: JournalReader, run_ids: Sequence[str], redaction: Redaction | None
) -> Iterator[dict[str, Any]]:
    given: set[int] = set()
    for run_id in run_ids:
        parts = [part for part in journal.lineage(journal.run(run_id).run) if part.run not in given]
        if parts:
            yield {"line": "header", "format": FORMAT, "version": VERSION}
        for part in parts:
            given.add(part.run)
            with damage_told(part.run_id):
                for line in _run_lines(journal, journal.run(part.run_id), redaction):
                    if wrong := [
                        name for name, value in line.items() if not isinstance(value, str | int | None)
                    ]:
                        raise TypeError(f"{wrong[0]} of a {line['line']} is neither text nor number")
                    yield line


def _run_lines(journal: JournalReader, row: RunRow, redaction: Redaction | None) -> Iterator[dict[str, Any]]:
    """Yield what belongs to one run, from its columns to its head."""
    left_out, names = redaction.plan(journal, row.run) if redaction is not None else (set[int](), [])
    root = journal.root_columns(row.run)
    yield {"line": "run", **root}
    unnamed = set(named_with(journal, row.run, left_out))
    for payload in journal.iterate_payloads(row.run, 200):
        yield _payload_line(payload, erased=payload.n in left_out)
    for values in journal.iterate_rows(row.run, 2000):
        columns = dict(zip(COLUMNS, values, strict=True))
        del columns["run"]
        columns["prev_hash"], columns["hash"] = values[-2].hex(), values[-1].hex()
        yield {"line": "transition", **columns}
    for document in journal.stored_documents(row.run):
        columns = {name: getattr(document, name) for name in document.__slots__}
        if document.number in unnamed:
            columns |= {"name": GONE, "mime": GONE}
        yield {"line": "document", **columns}
    for erasure in _erasures(journal, row.run, left_out, names):
        yield {"line": "erasure", **erasure._asdict(), "hash": erasure.hash.hex()}
    head = {name: getattr(row, name) for name in HeadLine.__struct_fields__}
    yield {"line": "head", **head, "head_hash": row.head_hash.hex()}


def _payload_line(payload: Payload, *, erased: bool) -> dict[str, Any]:
    kind = payload.media_type
    if erased and kind not in PLAIN_TYPES:
        kind = ""
    body, salt = (None, None) if erased else (payload.body, payload.salt)
    line: dict[str, Any] = {"line": "payload", "n": payload.n, "media_type": kind}
    line["digest"] = payload.digest.hex()
    line["salt"] = salt.hex() if salt is not None else None
    if isinstance(body, bytes):
        line["base64"] = base64.b64encode(body).decode()
    else:
        line["text"] = body
    return line


def _erasures(journal: JournalReader, run: int, left_out: set[int], names: list[str]) -> list[Erasure]:
    """Return the records of a run, and one of what this export leaves out; it bears the time of the run's last row."""
    records = journal.erasures(run)
    if left_out:
        before = records[-1].hash if records else journal.stored_root(run)
        row = journal.run(journal.index.names([run])[run])
        at = row.created_at if row.ended_at is None else row.ended_at
        rule = canonical({"by": "redaction", "rules": names})
        records.append(chained_erasure(before, len(records), at, rule, ranges_text(left_out), None))
    return records
