"""
Tampering is seen: whatever is changed in a journal is found by paor and by the script, and named by its place.

Each case is a seed (`tampering.Tamperer`), so ``check(journal, SEED)`` makes a failing one again. What no verifier can see is listed in
docs/journal-format.md and is not tried.
"""

from __future__ import annotations

import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest

from paor import Journal
from paor.audit import Head
from paor.errors import JournalDamaged

from ..support.erasing import erase_by_hand
from ..support.forging import writable
from ..support.inside import Checkpoint
from . import tampering
from .tampering import Case, Tamperer
from .test_verify import SCRIPT, VERIFIER

BLOCK = 40
"""Cases of one test; a thousand cases are twenty-five of them."""


class Victim(NamedTuple):
    """The journal that is tampered with, its heads in memory and in a file, and what makes the changes."""

    data: bytes
    heads: list[Head]
    file: Path
    tamperer: Tamperer


@pytest.fixture(scope="module")
def victim(tmp_path_factory: pytest.TempPathFactory) -> Victim:
    """Return a journal of many runs, its heads, and its rows."""
    folder = tmp_path_factory.mktemp("victim")
    path = tampering.build(folder)
    with Journal(path, read_only=True) as journal:
        heads = journal.heads()
        assert journal.verify(heads) == []
    file = folder / "heads.json"
    file.write_bytes(Checkpoint("paor/heads", heads).file())
    with closing(sqlite3.connect(path)) as connection:  # one file, no log: a case is made by copying bytes
        assert connection.execute("PRAGMA journal_mode = DELETE").fetchone() == ("delete",)
    return Victim(path.read_bytes(), heads, file, Tamperer(path))


def tampered(victim: Victim, path: Path, seed: int) -> Case:
    """Write a copy of the journal with the change of *seed*."""
    path.write_bytes(victim.data)
    with closing(writable(sqlite3.connect(path, isolation_level=None))) as connection:
        for pragma in ("ignore_check_constraints = ON", "synchronous = OFF", "journal_mode = MEMORY"):
            connection.execute(f"PRAGMA {pragma}")
        return victim.tamperer.case(seed, connection)


def by_package(path: Path, heads: list[Head]) -> list[str]:
    """Return ``run_id place`` of every defect that the package finds."""
    try:
        with Journal(path, read_only=True) as journal:
            return [f"{defect.run_id} {defect.place}" for defect in journal.verify(heads)]
    except JournalDamaged:  # a schema that SQLite cannot read; the command says so of the file
        return [" file"]


def by_script(path: Path, heads: Path | None, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str]]:
    """Return exit code and ``run_id place`` of every defect that the script finds."""
    code = VERIFIER.main(str(path), str(heads or ""))
    lines = capsys.readouterr().out.splitlines()[:-1]
    return code, [
        re.sub(r"^(?:run (\S+), )?(.*?): .*", lambda found: f"{found[1] or ''} {found[2]}", line)
        for line in lines
    ]


def check(victim: Victim, path: Path, seed: int, capsys: pytest.CaptureFixture[str]) -> Case:
    """Make one case and assert that both find it, at its place, and blame no other run."""
    case = tampered(victim, path, seed)
    found = by_package(path, victim.heads)
    code, lines = by_script(path, victim.file, capsys)
    assert any(re.search(case.places, place) for place in found), (case, found)
    assert code == 4 and any(re.search(case.places, place) for place in lines), (case, code, lines)
    for places in (found, lines) if case.runs else ():
        assert all(place.split(" ", 1)[0] in (*case.runs, "") for place in places), (case, places)
    if case.head:  # and nothing else tells
        assert by_package(path, []) == [] and by_script(path, None, capsys) == (0, []), case
    return case


@pytest.mark.parametrize(
    "block", [pytest.param(block, marks=[pytest.mark.whole] * (block not in (0, 2))) for block in range(25)]
)
def test_a_thousand_changes_are_found_by_both_at_their_place(
    block: int, victim: Victim, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Edits, deletions, insertions, swaps, cut ends, missing runs, forged digests and hashes, views and triggers."""
    path = tmp_path / "runs.db"
    cases = [check(victim, path, block * BLOCK + number, capsys) for number in range(BLOCK)]
    assert len({case.kind for case in cases}) >= 8  # the seeds reach them all


@pytest.mark.whole
@pytest.mark.parametrize("seed", range(5000, 5008))
def test_the_commands_say_so_too(seed: int, victim: Victim, tmp_path: Path) -> None:
    """In processes of their own, with exit code 4 and a line for each defect."""
    path = tmp_path / "runs.db"
    case = tampered(victim, path, seed)
    commands = (
        [sys.executable, "-m", "paor", "verify", "--journal", str(path), "--heads", str(victim.file)],
        [sys.executable, "-I", str(SCRIPT), str(path), str(victim.file)],
    )
    for command in commands:
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
        places = [
            re.sub(r"^run (\S+), ", r"\1 ", f" {line}".replace(" run ", "run ", 1))
            for line in done.stdout.splitlines()
        ]
        assert done.returncode == 4 and "Traceback" not in done.stderr, (case, done)
        assert any(re.search(case.places.replace("$", ":"), place) for place in places), (case, places)


def test_erased_and_grown_runs_still_fit_their_heads(victim: Victim, tmp_path: Path) -> None:
    """No text is under a hash; what came later is no defect."""
    path = tmp_path / "runs.db"
    path.write_bytes(victim.data)
    with closing(sqlite3.connect(path)) as connection:
        erase_by_hand(connection)
        connection.commit()
    assert by_package(path, victim.heads) == []
    shorter = [_first(victim, head.run_id) for head in victim.heads]
    assert by_package(path, shorter) == [] and by_package(path, victim.heads[1:]) == []
    other = victim.heads[0]._replace(run_id="0000-other")
    assert by_package(path, [other]) == [f"0000-other head seq {other.head_seq}"]
    shutil.copy(path, tmp_path / "copy.db")
    assert by_package(tmp_path / "copy.db", victim.heads) == []


def _first(victim: Victim, run_id: str) -> Head:
    """Return the head that a run had after its first own row."""
    run = next(number for number, own in victim.tamperer.ids.items() if own == run_id)
    row = next(row for row in victim.tamperer.rows["transitions"] if row["run"] == run)
    return Head(run_id, row["seq"], row["hash"].hex())


def test_a_number_that_says_a_run_too_does_not_pass_for_its_key(
    victim: Victim, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Seed 488: in run 3, ``3 << 32 | n`` is the same key for n and for n with the run's own bits."""
    path = tmp_path / "runs.db"
    path.write_bytes(victim.data)
    run, row = next((run, row["id"]) for row in victim.tamperer.rows["documents"] if (run := row["run"]) == 1)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE documents SET number = number | ? WHERE id = ?", (run << 32, row))
        connection.commit()
    assert any(place.split()[0] == "documents" or " documents " in place for place in by_package(path, []))
    assert by_script(path, None, capsys)[0] == 4


def test_a_run_number_out_of_range_is_a_defect_and_no_crash(victim: Victim, tmp_path: Path) -> None:
    """Found among the seeds from 2200 on: the rows of such a run have no key at all."""
    path = tmp_path / "runs.db"
    path.write_bytes(victim.data)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE specs SET run = ? WHERE run = 3", (2**62,))
        connection.commit()
    places = by_package(path, victim.heads)
    run_id = victim.tamperer.ids[3]
    assert {f"{run_id} specs run {2**62}", " rows run 3"} < set(places)
    assert any(place.startswith(f"{run_id} head seq") for place in places)
