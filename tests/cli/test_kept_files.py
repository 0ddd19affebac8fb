"""What the commands never write over, and never take for a run: a journal that is there or will be, an empty name."""

from __future__ import annotations

import os
import sqlite3
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..support.cli_support import Shell
from .inside import write_atomically

NAMES = ("paor.db", "paor.db-wal", "paor.db-shm", "./sub/../paor.db", "link.db")
WRITERS = (
    ("export", "last"),
    ("export", "--all"),
    ("diagram", "last"),
    ("diagram",),
    ("diagram", "--coverage", "all"),
)


@pytest.mark.parametrize("command", WRITERS, ids=" ".join)
def test_no_output_replaces_the_journal(command: tuple[str, ...], shell: Shell, tmp_path: Path) -> None:
    """Not under another name either, nor what SQLite keeps beside it; the journal holds afterwards."""
    assert shell.run().code == 0
    (tmp_path / "sub").mkdir()
    (tmp_path / "link.db").symlink_to("paor.db")
    before = (tmp_path / "paor.db").read_bytes()
    for name in NAMES:
        shell(*command, "--output", name).refused("--output", "would replace the journal")
    assert (tmp_path / "paor.db").read_bytes() == before
    assert shell("verify").code == 0
    assert shell(*command, "--output", "paor.db.txt").code == 0


def test_no_picture_replaces_the_other_journal_of_a_difference(shell: Shell, tmp_path: Path) -> None:
    """`--other` names a journal as well."""
    assert shell.run().code == 0 and shell.run("--journal", "b.db").code == 0
    said = shell("diagram", "last", "--diff", "last", "--other", "b.db", "--output", "b.db")
    said.refused("would replace the journal b.db")
    assert shell("verify", "--journal", "b.db").code == 0


@pytest.mark.parametrize("output", ["new.md", "./new.md", "dangling.md"])
def test_no_report_replaces_a_journal_that_is_not_there_yet(
    output: str, shell: Shell, tmp_path: Path
) -> None:
    """One name for both: nothing is begun. A dangling link leads to it too."""
    (tmp_path / "dangling.md").symlink_to("new.md")
    said = shell.run("--journal", "new.md", "--output", output)
    said.refused("would replace the journal new.md")
    assert not (tmp_path / "new.md").exists()


@pytest.mark.parametrize("name", ["", "  "])
@pytest.mark.parametrize(
    "command",
    [("erase", "--all"), ("show",), ("resume",), ("cancel",), ("fork", "--at", "0")],
    ids=lambda command: command[0],
)
def test_an_empty_run_is_none(command: tuple[str, ...], name: str, shell: Shell) -> None:
    """Of a variable that was never set: above all, nothing is erased."""
    assert shell.run().code == 0
    before = shell("export", "last").out
    shell(command[0], name, *command[1:]).refused("RUN is empty")
    assert shell("export", "last").out == before
    assert len(shell("runs", "--json").json) == 1


def test_the_working_folder_need_not_be_known_by_one_name(shell: Shell, tmp_path: Path) -> None:
    """A journal that is named whole is the one that is named short."""
    assert shell.run().code == 0
    shell("export", "last", "--output", os.fspath(tmp_path / "paor.db")).refused("would replace the journal")


def test_a_journal_whose_making_was_cut_short_is_told_to_be_empty(shell: Shell, tmp_path: Path) -> None:
    """As a full disk leaves it: nothing foreign, and the next run begins it."""
    connection = sqlite3.connect(tmp_path / "paor.db")
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("VACUUM")
    connection.close()
    assert (tmp_path / "paor.db").stat().st_size > 0
    for command in ("runs", "verify", "show"):
        shell(command).refused("is empty: a run begins a journal")
    assert shell.run().code == 0
    assert shell("verify").code == 0


def test_a_file_is_written_as_its_bytes_come(tmp_path: Path) -> None:
    """Of 64 MB no more than a few are in memory, and the file has all of them."""
    tracemalloc.start()
    try:
        written = write_atomically(tmp_path / "large", (bytes([number]) * 2**20 for number in range(64)))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * 2**20
    assert written == (tmp_path / "large").stat().st_size == 64 * 2**20


def test_a_file_is_as_it_was_where_its_bytes_end_early(tmp_path: Path) -> None:
    """What makes the bytes has an error of its own, which is not one of the file."""
    file = tmp_path / "kept"
    file.write_bytes(b"before")

    def failing() -> Iterator[bytes]:
        yield b"after"
        raise ValueError("a row cannot be read")

    with pytest.raises(ValueError, match=r"^a row cannot be read$"):
        write_atomically(file, failing())
    assert [item.read_bytes() for item in tmp_path.iterdir()] == [b"before"]
