"""Heads: kept elsewhere, they tell what a chain cannot show by itself; a file that is none is told in one line."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from paor import Journal
from paor.audit import Head
from paor.errors import UsageError

from ..support.cli_support import Shell, given_run
from ..support.inside import BYTES_MAX, heads_file, read
from ..support.journeys import BY_NAME, play
from ..support.worlds import JOURNAL
from ..verify.test_verify import by_script


def given_heads(shell: Shell) -> Path:
    """Run once and write the heads; return their file."""
    given_run(shell)
    said = shell("verify", "--write-head", "heads.json")
    assert (said.code, said.err) == (0, "wrote heads.json (1 head)\n")
    return shell.folder / "heads.json"


def test_heads_are_the_same_bytes_and_say_where_each_run_ends(shell: Shell) -> None:
    """Versioned, canonical, with a digest over everything else; a run that has ended does not change any more."""
    file = given_heads(shell)
    before = file.read_bytes()
    assert shell("verify", "--write-head", "again.json").code == 0
    assert (shell.folder / "again.json").read_bytes() == before
    data = json.loads(before)
    with Journal(shell.folder / "paor.db", read_only=True) as journal:
        (row,) = journal.runs()
        heads = journal.heads()
    assert heads == [Head(row.run_id, row.head_seq, row.head_hash.hex())] == read(before, "heads.json")
    assert data == {
        "format": "paor-heads",
        "version": 1,
        "runs": [{"run_id": row.run_id, "head_seq": row.head_seq, "head_hash": row.head_hash.hex()}],
        "digest": data["digest"],
    }
    said = shell("verify", "--head", "heads.json")
    assert (said.code, said.out.endswith("hold, 1 head too\n")) == (0, True)


def test_new_runs_are_no_defect_and_a_missing_one_is(shell: Shell) -> None:
    """Exit code 4 and one line for each."""
    given_heads(shell)
    given_run(shell)
    assert shell("verify", "--head", "heads.json").code == 0
    assert shell("verify", "--write-head", "two.json").code == 0
    for table in ("leases", "transitions", "payloads", "documents", "specs"):
        shell.sql(f"DELETE FROM {table} WHERE run = 2")
    said = shell("verify", "--head", "two.json")
    assert (said.code, len(said.out.splitlines())) == (4, 1)
    assert "head seq 5: the run is missing" in said.out
    found = shell("verify", "--head", "two.json", "--json").json
    assert (found["ok"], found["heads"], len(found["defects"])) == (False, 2, 1)
    assert shell("verify", "--head", "heads.json").code == 0


def test_no_heads_are_written_of_what_does_not_hold(shell: Shell) -> None:
    """They would vouch for it."""
    file = given_heads(shell)
    before = file.read_bytes()
    shell("verify", "--write-head", "no/such/heads.json").refused("cannot be written", code=2)
    shell.sql("UPDATE transitions SET at = at + 1 WHERE seq = 2")
    said = shell("verify", "--write-head", "new.json")
    assert (said.code, (shell.folder / "new.json").exists()) == (4, False)
    assert (shell("verify", "--write-head", "heads.json").code, file.read_bytes()) == (4, before)
    assert "no heads were written" in said.err
    shell("verify", "--write-head", "paor.db").refused("would replace the journal", code=2)


@pytest.mark.parametrize("name", ["approved", "documents"])
def test_a_run_that_has_grown_since_fits_each_of_its_heads(name: str, tmp_path: Path) -> None:
    """Its row of then has the hash of then; with no row yet it is the hash of its first columns."""
    taken: list[list[Head]] = []
    with BY_NAME[name].engine(tmp_path) as scripted:
        scripted._runner.hooks = (lambda event: taken.append(scripted.journal.heads()),)
        play(BY_NAME[name], scripted)
        assert {head.head_seq for (head,) in taken} >= {0, 1, 3, 4}  # 2 is written with 3
        for heads in taken:
            assert scripted.journal.verify(heads) == []
        (last,) = taken[-1]
        first = Head(last.run_id, -1, scripted.journal.reader.root(1).hex())
        assert scripted.journal.verify([first]) == []
        (tmp_path / "heads.json").write_bytes(heads_file([first]))
        wrong = [
            last._replace(head_hash="0" * 64),
            first._replace(head_hash="0" * 64),
            last._replace(head_seq=999),
        ]
        for head in wrong:
            (defect,) = scripted.journal.verify([head])
            assert (defect.run_id, defect.place) == (head.run_id, f"head seq {head.head_seq}")
    assert by_script(tmp_path / JOURNAL, tmp_path / "heads.json")[0] == 0
    for head in wrong:
        (tmp_path / "heads.json").write_bytes(heads_file([head]))
        code, lines = by_script(tmp_path / JOURNAL, tmp_path / "heads.json")
        assert (code, lines[0]) == (4, f"run {head.run_id}, head seq {head.head_seq}: is not there any more")


GOOD = heads_file([Head("0199", 3, "a" * 64)])


def changed(**values: Any) -> bytes:
    """Return a file of heads with other values, its digest left as it was."""
    return json.dumps(json.loads(GOOD) | values, sort_keys=True, separators=(",", ":")).encode()


BAD = {
    "nothing": b"",
    "no JSON": b"heads",
    "no UTF-8": b"\xff\xfe",
    "a list": b"[]",
    "a number": b"7",
    "deep": b"[" * 200_000,
    "another format": changed(format="paor-export"),
    "a newer version": changed(version=2),
    "a version that is no number": changed(version=True),
    "no runs": changed(runs=None),
    "runs of another type": changed(runs={"0199": 3}),
    "a run that is a text": changed(runs=["0199"]),
    "a run without a hash": changed(runs=[{"run_id": "0199", "head_seq": 3}]),
    "a seq that is a text": changed(runs=[{"run_id": "0199", "head_seq": "3", "head_hash": "a" * 64}]),
    "a seq below": changed(runs=[{"run_id": "0199", "head_seq": -2, "head_hash": "a" * 64}]),
    "a seq beyond": changed(runs=[{"run_id": "0199", "head_seq": 2**80, "head_hash": "a" * 64}]),
    "a short hash": changed(runs=[{"run_id": "0199", "head_seq": 3, "head_hash": "a"}]),
    "a lone surrogate": GOOD.replace(b"0199", b"\\ud800"),
    "a run twice": changed(runs=json.loads(GOOD)["runs"] * 2),
    "another head": GOOD.replace(b'"head_seq":3', b'"head_seq":2'),
    "another digest": changed(digest="0" * 64),
    "one key more": changed(more=1),
    "a fraction": GOOD.replace(b'"head_seq":3', b'"head_seq":3.0'),
    "a key twice": GOOD.replace(b'"version":1', b'"version":1,"version":1'),
    "cut": GOOD[:-20],
    "large": b" " * (BYTES_MAX + 1),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_file_of_heads_is_one_line_and_exit_2(what: str, shell: Shell) -> None:
    """By the command and by the script, before the journal is looked at."""
    with pytest.raises(UsageError, match=r"heads\.json"):
        read(BAD[what], "heads.json")
    file = given_heads(shell)
    file.write_bytes(BAD[what])
    shell("verify", "--head", "heads.json").refused("heads.json", code=2)
    if what != "large":  # what is nothing but spaces is no JSON either
        assert by_script(shell.folder / "paor.db", file)[0] == 2


@pytest.mark.parametrize("place", ["missing.json", "folder", "heads.json/x", ""])
def test_a_file_of_heads_that_cannot_be_read_is_exit_2(place: str, shell: Shell) -> None:
    """Missing, a directory, below a file, without a name."""
    given_heads(shell)
    os.mkdir(shell.folder / "folder")
    shell("verify", "--head", place).refused("cannot be read", code=2)
    assert by_script(shell.folder / "paor.db", shell.folder / place if place else shell.folder)[0] == 2
