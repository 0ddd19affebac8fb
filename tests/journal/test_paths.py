"""A journal's path means the file that it leads to now, wherever the process stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from paor import Journal

from ..support.worlds import READ, STOP, SUCCESS, engine

ONE_STEP = [*READ(1), STOP, SUCCESS]


def test_a_relative_path_leads_to_another_file_in_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A reader looks for the log beside the file that it opens, not beside one that had the name before.

    Found by the tests of full disks when they ran behind those of read-only ones: the log was looked for in the
    other folder, so the file was read without it and seemed damaged.
    """
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        with engine(tmp_path / name, ONE_STEP, journal=Journal("runs.db", "off")) as host:
            run_id = host.run("Read").run_id
            with Journal("runs.db", read_only=True) as reader:  # while the writer's rows are in the log alone
                assert [row.run_id for row in reader.runs()] == [run_id]
                assert len(reader.transitions(run_id)) == 6
        with Journal("runs.db", read_only=True) as reader:
            assert reader.verify() == []


@pytest.mark.parametrize("name", ["file:runs.db", "a b?mode=ro#c%20.db", "-runs.db"])
def test_a_name_is_a_name_whatever_it_looks_like(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some builds of SQLite take what begins with ``file:`` for an address."""
    monkeypatch.chdir(tmp_path)
    with engine(tmp_path, ONE_STEP, journal=Journal(name, "off")) as host:
        run_id = host.run("Read").run_id
    assert (tmp_path / name).exists()
    with Journal(name, read_only=True) as reader:
        assert [row.run_id for row in reader.runs()] == [run_id] and reader.verify() == []
