"""`paor diagram` on runs, coverages and differences; and everything that it refuses."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest

from paor import Journal
from paor.audit import Coverage

from ..support.cli_support import (
    CONTINUE,
    OUT_OF_STEPS,
    PARAMETERS,
    SELECT,
    STOP,
    SUCCESS,
    TEXT,
    Shell,
)


def counted(shell: Shell, *names: str) -> Coverage:
    """Return what ``--coverage --json`` says."""
    said = shell("diagram", "--coverage", *names, "--json")
    assert said.code == 0, said
    return Coverage.read(json.dumps(said.json["coverage"]))


def test_coverage_adds_runs_and_files_up(shell: Shell) -> None:
    shell.run()
    first = counted(shell)
    shell.run("--max-steps", "1", replies=OUT_OF_STEPS)
    assert counted(shell, "last~1") == first and first.runs == 1
    both = counted(shell, "all")
    assert both == counted(shell) == counted(shell, "last", "last~1") == first + counted(shell, "last")
    assert counted(shell, "last", "last").runs == 1
    shell.write("one.json", first.wire_json())
    shell.write("printed.json", shell("diagram", "last~1", "--coverage", "--json").out)
    assert counted(shell, "one.json") == counted(shell, "printed.json") == first
    assert counted(shell, "one.json", "last") == both
    said = shell("diagram", "--coverage", "--json").json
    assert said["percent"] == both.percent and said["run_id"] is None and said["format"] == "mermaid"


def test_rows_that_forks_share_count_once(shell: Shell) -> None:
    shell.run(replies=[SELECT, PARAMETERS, TEXT, CONTINUE, SELECT, PARAMETERS, TEXT, STOP, SUCCESS])
    alone = counted(shell)
    assert shell("fork", "last", "--at", "4", "--no-run", "--model", shell.script()).code == 0
    fork = counted(shell, "last")
    assert (fork.transitions, fork.runs) == (5, 1)
    both = counted(shell)
    assert (both.transitions, both.runs) == (alone.transitions, 2)
    assert counted(shell, "last", "last~1") == both


def test_every_picture_in_every_form(shell: Shell) -> None:
    shell.run()
    shell.run("--max-steps", "1", replies=OUT_OF_STEPS)
    for words in (("last",), ("--coverage",), ("last~1", "--diff", "last")):
        assert "stateDiagram-v2" in shell("diagram", *words).out
        assert shell("diagram", *words, "--format", "dot").out.startswith("digraph paor {")
        said = shell("diagram", *words, "--format", "svg", "--output", "it.svg")
        assert (said.code, said.out) == (0, "") and said.err.startswith("wrote it.svg (")
        assert ElementTree.parse(shell.folder / "it.svg").getroot().tag.endswith("svg")


def test_a_difference_tells_what_diff_tells(shell: Shell) -> None:
    shell.run()
    shell.run("--max-steps", "1", replies=OUT_OF_STEPS)
    told = shell("diff", "last~1", "last", "--json").json
    said = shell("diagram", "last~1", "--diff", "last", "--json").json
    assert said["diff"] == told and said["run_id"] == told["left"]["run_id"]
    assert f"first different at row {told['seq']} ({told['source']})" in said["diagram"]
    (shell.folder / "paor.db").rename(shell.folder / "old.db")
    shell.run()
    said = shell("diagram", "last", "--diff", "last", "--other", "old.db")
    assert said.code == 0 and told["right"]["run_id"] in said.out


GARBAGE = {
    "empty.json": b"",
    "binary.json": b"\xff\xfe\x00\x00",
    "list.json": b"[]",
    "deep.json": b"[" * 200_000,
    "other.json": b'{"coverage": {"format": "paor-coverage"}}',
    "heads.json": b'{"format": "paor-heads", "version": 1, "runs": []}',
    "nothing.json": Coverage.empty().wire_json().encode(),
}


@pytest.mark.parametrize("name", GARBAGE)
def test_a_file_that_is_no_coverage_is_one_clear_line(shell: Shell, name: str) -> None:
    shell.write(name, GARBAGE[name])
    what = "not one transition" if name == "nothing.json" else name
    shell("diagram", "--coverage", name).refused(what)
    assert shell.files() == {name}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nobody",), "there is no run 'nobody'"),
        (("last", "--diff", "nobody"), "there is no run 'nobody'"),
        (("--coverage", "nobody"), "there is no run 'nobody'"),
        (("--coverage", "last", "missing.json"), "missing.json: cannot be read"),
        (("last", "last"), "compare two with: paor diagram A --diff B"),
        (("--diff", "last"), "needs the run to compare with"),
        (("last", "--diff", "last", "--coverage"), "two pictures"),
        (("last", "--other", "x.db"), "--other names the journal"),
        (("last", "--diff", "last", "--other", "x.db"), "x.db: there is no such journal"),
        (("last", "--diff", "last~9"), "holds no run last~9"),
        (("last", "--format", "gif"), "'gif' is not one of"),
        (("last", "--output", "nowhere/x.svg"), "nowhere/x.svg: cannot be written"),
    ],
)
def test_what_cannot_be_drawn_is_refused(shell: Shell, words: tuple[str, ...], message: str) -> None:
    shell.run()
    before = shell.files()
    said = shell("diagram", *words)
    assert said.code == 2 and message in said.err and not said.out and "Traceback" not in said.err
    assert shell.files() == before


def test_a_journal_without_runs_has_nothing_to_draw(shell: Shell) -> None:
    shell("diagram", "--coverage").refused("there is no such journal")
    Journal(shell.folder / "paor.db").close()
    shell("diagram", "--coverage").refused("not one transition was recorded")
    shell("diagram", "last").refused("holds no run yet")


def test_guards_that_cannot_be_read_are_damage(shell: Shell) -> None:
    shell.run()
    shell.sql("UPDATE transitions SET guards = '[' WHERE seq = 1")
    said = shell("diagram", "--coverage")
    assert said.code == 4 and ": cannot be read (JSONDecodeError" in said.err and said.err.count("\n") == 1
    shell.sql("""UPDATE transitions SET guards = '{"hard_stop": 3}' WHERE seq = 1""")
    found = counted(shell)
    assert [step.trigger for step in found.foreign] == ["specify"]
