"""The table of behaviour and tests: what counts as a proof, and what its generator refuses."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

from ..support.pages import ROOT


@pytest.fixture
def coverage(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return `docs/spec_coverage.py` as a module."""
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    return importlib.import_module("spec_coverage")


@pytest.mark.parametrize(
    ("name", "ids"),
    [
        ("test_A001_the_loop", ["A001"]),
        ("test_A019_A072_3_steps", ["A019", "A072"]),
        ("test_C1_A152_the_table", ["C1", "A152"]),
        ("test_C2_1_after_a_restart", ["C2.1"]),
        ("test_C2_25_stdout", ["C3.25"]),
        ("test_A166_C2_5_aliases", ["A166", "C2.5"]),
        ("test_C26_D7_binary", ["C4.26", "D7"]),
        ("test_the_row_A001_is_not_meant", []),
        ("test_A1_too_short", []),
    ],
)
def test_a_tests_name_begins_with_the_ids_it_proves(coverage: Any, name: str, ids: list[str]) -> None:
    """Several are allowed; an id further back is only a word."""
    assert coverage.ids_of(name) == ids


def test_every_row_is_there_once_and_every_module_exists(coverage: Any) -> None:
    """168 rows of part A, 32 items of part C, 22 decisions; a row that is missing something says what."""
    rows = coverage.rows()
    assert [sum(row.id.startswith(letter) for row in rows) for letter in "ACD"] == [168, 32, 22]
    assert not [row.id for row in rows if not row.statement.endswith(".") or row.missing.endswith(".")]
    assert {number for row in rows for number in row.documents} == {"000", "001", "002", "003", "004"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("A002;", "A003;"), "ids"),
        (("src/paor/fsm/machine/table.py", "fsm/tables.py"), "A001 names fsm/tables.py"),
        ((";000 001;", ";000 001;;"), "columns"),
    ],
)
def test_a_broken_row_is_refused(
    coverage: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: tuple[str, str], message: str
) -> None:
    """A duplicate id, a module that has gone, a column too many."""
    broken = tmp_path / "rows.csv"
    broken.write_text(coverage.ROWS.read_text(encoding="utf-8").replace(*change, 1), encoding="utf-8")
    monkeypatch.setattr(coverage, "ROWS", broken)
    with pytest.raises(ValueError, match=message):
        coverage.rows()


def test_a_row_is_covered_by_a_test_on_the_engine_and_when_nothing_is_missing(
    coverage: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A test of a part alone, or a note of what is missing, makes it covered in part; no test leaves it open."""
    rows = [
        coverage.SpecRow("A001", ("000",), (), "", "One."),
        coverage.SpecRow("A002", ("000",), (), "a part", "Two."),
        coverage.SpecRow("A003", ("000",), (), "a part", "Three."),
        coverage.SpecRow("A004", ("000",), (), "", "Four."),
    ]
    proof = coverage.Proof("f.py", "test_it")
    proven = {"A001": [proof], "A002": [proof], "A004": [coverage.Proof("g.py", "test_part", False)]}
    monkeypatch.setattr(coverage, "rows", lambda: rows)
    monkeypatch.setattr(coverage, "tests", lambda: proven)
    text = coverage.coverage()
    assert "**1 of 4 rows of part A are covered**, 2 more in part, 1 are open." in text
    assert "| A001 | 000 | One. | `f.py::test_it` |" in text
    assert "| A002 | 000 | Two. *In part; missing: a part.* | `f.py::test_it` |" in text
    assert "| A003 | 000 | Three. | open |" in text
    assert "| A004 | 000 | Four. *In part; missing: a test on the real engine.* | `g.py::test_part` |" in text
    monkeypatch.setattr(coverage, "tests", lambda: {"A999": [proof]})
    with pytest.raises(ValueError, match="A999"):
        coverage.coverage()


def test_files_that_drive_the_engine_are_told_from_those_that_do_not(coverage: Any) -> None:
    """By what they import."""
    driving = {proof.file: proof.driving for proofs in coverage.tests().values() for proof in proofs}
    assert driving["modes/test_react_loop.py"] and driving["machine/test_spec_guard.py"]
    assert not driving["prompts/test_catalog.py"] and not driving["tools/test_policy.py"]
