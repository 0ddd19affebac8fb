"""Export: one run as lines, complete, in a fixed order, the same bytes for the same run."""

from __future__ import annotations

import base64
import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import rfc8785

from paor import Journal
from paor.errors import UnknownRun
from paor.testing import SeededIds

from ..support.forging import forge, stored_row, writable
from ..support.inside import HASHED, ROOT_COLUMNS
from ..support.journeys import BY_NAME, JOURNEYS, Journey, play
from ..support.stored import file_of
from ..support.worlds import CONTINUE, JOURNAL, READ, STOP, SUCCESS, engine

EACH = pytest.mark.parametrize("journey", JOURNEYS, ids=[journey.name for journey in JOURNEYS])
OBJECTS = ("guards", "request", "outcome", "change", "counters")
ORDER = ("header", "run", "payload", "transition", "document", "head")


def exported(journey: Journey, folder: Path) -> list[dict[str, Any]]:
    """Return the lines of a journey's run, through JSON."""
    with journey.engine(folder) as scripted:
        run_id = play(journey, scripted).run_id
        text = "\n".join(json.dumps(line) for line in scripted.journal.export(run_id))
    return [json.loads(line) for line in text.split("\n")]


@EACH
def test_lines_come_in_a_fixed_order_and_hold_everything(journey: Journey, tmp_path: Path) -> None:
    """Every row of every table that belongs to the run, but nothing of leases, hosts or processes."""
    lines = exported(journey, tmp_path)
    kinds = [line.pop("line") for line in lines]
    assert kinds == sorted(kinds, key=ORDER.index)
    assert lines[0] == {"format": "paor-export", "version": 2}
    connection = forge(tmp_path / JOURNAL)
    for kind, table in (("payload", "payloads"), ("transition", "transitions"), ("document", "documents")):
        (count,) = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
        assert kinds.count(kind) == count
    head = connection.execute(
        "SELECT state, status, reason, ended_at, head_seq, hex(head_hash) FROM runs"
    ).fetchone()
    assert [*list(lines[-1].values())[:-1], lines[-1]["head_hash"].upper()] == list(head)
    keys = {key for line in lines for key in line}
    assert keys.isdisjoint({"run", "owner", "fence", "lease_until", "cancel"})


@EACH
def test_an_export_proves_itself(journey: Journey, tmp_path: Path) -> None:
    """Root, chain and payload digests can be recomputed from its lines alone, by whoever reads the docs."""
    lines = exported(journey, tmp_path)
    of = {kind: [line for line in lines if line["line"] == kind] for kind in ORDER}
    head = sha256(rfc8785.dumps({name: of["run"][0][name] for name in ROOT_COLUMNS})).digest()
    for row in of["transition"]:
        assert bytes.fromhex(row["prev_hash"]) == head
        columns = {name: json.loads(row[name]) if name in OBJECTS else row[name] for name in HASHED}
        head = sha256(head + rfc8785.dumps(stored_row(columns))).digest()
        assert bytes.fromhex(row["hash"]) == head
    assert of["head"][0]["head_hash"] == head.hex()
    for payload in of["payload"]:
        text = "text" in payload
        body = payload["text"].encode() if text else base64.b64decode(payload["base64"])
        told = sha256(body).digest() + (b"T" if text else b"B") + payload["media_type"].encode()
        assert sha256(bytes.fromhex(payload["salt"]) + told).hexdigest() == payload["digest"]


def test_an_erased_payload_is_exported_as_erased(tmp_path: Path) -> None:
    """The digest stays, so that the chain can still be checked."""
    with engine(tmp_path, [*READ(1), STOP, SUCCESS]) as scripted:
        run_id = scripted.run("Read").run_id
        writable(file_of(scripted.journal).connection).execute(
            "UPDATE payloads SET body = NULL, salt = NULL WHERE n = 3"
        )
        line = next(line for line in scripted.journal.export(run_id) if line.get("n") == 3)
    assert line["salt"] is line["text"] is None and len(line["digest"]) == 64


def test_an_unknown_run_is_told_before_the_first_line(tmp_path: Path) -> None:
    """And a prefix is enough, as everywhere."""
    with engine(tmp_path, [*READ(1), CONTINUE, *READ(2), STOP, SUCCESS]) as scripted:
        run_id = scripted.run("Read").run_id
        with pytest.raises(UnknownRun):
            next(scripted.journal.export("none-such"))
        assert list(scripted.journal.export(run_id[:10])) == list(scripted.journal.export(run_id))


def test_the_same_run_exports_the_same_from_anywhere(tmp_path: Path) -> None:
    """Open or closed, by a writer or a reader."""
    with BY_NAME["documents"].engine(tmp_path) as scripted:
        run_id = play(BY_NAME["documents"], scripted).run_id
        first = list(scripted.journal.export(run_id))
    with Journal(tmp_path / JOURNAL, read_only=True) as journal:
        assert list(journal.export(run_id)) == first


def test_a_run_exports_the_same_whatever_else_is_in_the_file(tmp_path: Path) -> None:
    """Its number in the file is not under the hash, so that a run can be taken into another journal as it is."""
    exports = []
    for name, others in (("alone", 0), ("third", 2)):
        (tmp_path / name).mkdir()
        for other in range(others):
            with BY_NAME["blocked"].engine(tmp_path / name, ids=SeededIds(f"other {other}")) as scripted:
                play(BY_NAME["blocked"], scripted)
        with BY_NAME["documents"].engine(tmp_path / name) as scripted:
            run_id = play(BY_NAME["documents"], scripted).run_id
            exports.append(list(scripted.journal.export(run_id)))
            assert scripted.journal.run(run_id).run == others + 1
    assert exports[0] == exports[1]
