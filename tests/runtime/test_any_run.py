"""
Whatever a run lives through, everything that reads it works, and no reader shows what was erased.

The testing kit draws runs in every mode and on every machine, with crashes, answers, cancellations, jumps of the clock and wrong
replies at any row, and holds each row to its invariants. Here every run that ends is read by all that reads runs: it verifies, replays identically, and has
the same heads after an export and an import; `why`, `diff`, the calls, the diagram, the report and ``paor show`` are total; the command
line, the MCP server and the page say the same of each row.
A fork of it at any row does as much. Then it is erased, and all of it holds again, without one word of its texts.
"""

from __future__ import annotations

import base64
import gzip
import io
import json
import re
import tempfile
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import settings

from paor import Engine, Journal, Machine, coverage, diff, replay, report, why
from paor.audit import Replay
from paor.cli import main
from paor.errors import InvalidFork
from paor.fuzz import EngineMachine, World

from ..explain.telling import told_alike
from ..support import own_machines
from ..support.effort import examples

SECRET = "zebracorn"
"""Stands in every text of a run: what it is for, its documents, and what its tools take and give."""


def lines(journal: Journal, run_id: str) -> list[bytes]:
    """Return the lines of an export."""
    return [json.dumps(line, ensure_ascii=False).encode() for line in journal.export(run_id)]


def command(*arguments: str) -> str:
    """Return what a command of ``paor`` prints; it must end well."""
    said = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with redirect_stdout(said):
        assert main(arguments) == 0, arguments
    said.seek(0)
    return said.read()


def readings(journal: Journal, run_id: str) -> Iterator[str]:
    """Yield what every reader says of a run, as text."""
    rows = journal.transitions(run_id)
    for row in rows:
        yield json.dumps(why(journal, run_id, row.seq).wire())
    yield repr(journal.run(run_id)) + repr(rows) + repr(journal.calls(run_id))
    yield json.dumps(diff(journal, run_id, run_id).wire()) + json.dumps(coverage(rows).wire())
    for part in re.findall(r'data-part="[^"]+">([^<]+)<', report(journal, run_id)):
        yield gzip.decompress(base64.b64decode(part)).decode()
    of = (run_id, "--journal", journal.path)
    for options in ((), ("--json",), ("--steps",), ("--documents",), ("--row", str(rows[-1].seq))):
        yield command("show", *of, *options)
    yield command("diagram", *of, "--format", "svg")


def held(journal: Journal, run_id: str) -> list[str]:
    """Assert that a run verifies and replays, and return what its readers say."""
    assert journal.verify() == []
    found = replay(journal, run_id)
    assert not found.divergences, found
    assert [row.seq for row in journal.transitions(run_id)] == list(range(journal.run(run_id).head_seq + 1))
    told_alike(journal, run_id, every=9)
    return list(readings(journal, run_id))


class AnyRun(EngineMachine):
    """Runs on the standard machine, and what reads them."""

    repro_folder: ClassVar[str | None] = None
    objective: ClassVar[str] = f"Read the notes of {SECRET}"
    documents: ClassVar = (("notes.txt", f"Page 1: {SECRET} delivers on the 3rd."),)
    values: ClassVar = {name: [SECRET] for name in ("text", "sql")}
    runs: ClassVar[int] = 1
    own: ClassVar[Machine | None] = None
    read: set[str]

    def prepare(self) -> None:
        """Nothing was read yet."""
        self.read = set()

    def check(self, world: World) -> None:
        """Have every reader read each run once, when it has ended."""
        journal: Journal = world.engine.journal
        for row in journal.runs() if world.need == "end" else ():
            if row.state in ("Done", "Failed") and row.run_id not in self.read:
                self.read.add(row.run_id)
                self.outlive(journal, row.run_id)

    def outlive(self, journal: Journal, run_id: str) -> None:
        """Carry a run to another file; fork it there, and erase it."""
        assert journal.verify() == []
        with tempfile.TemporaryDirectory() as folder, Journal(Path(folder, "copy.db"), "off") as copy:
            copy.import_lines(line + b"\n" for line in lines(journal, run_id))
            assert lines(copy, run_id) == lines(journal, run_id)
            carried = {head.run_id: head for head in copy.heads()}
            assert carried.items() <= {head.run_id: head for head in journal.heads()}.items()
            assert self.replayed(copy, run_id).identical
            said = any(SECRET in text for text in held(copy, run_id))
            assert (
                said or SECRET not in copy.spec(run_id).objective
            )  # a task's may be the planner's own words
            fork = self.forked(copy, run_id)
            assert run_id in copy.erase(run_id, others="erase").erased
            for erased in [run_id, *([fork] if fork is not None else [])]:
                for text in held(copy, erased):
                    at = text.find(SECRET)
                    assert at < 0, text[max(0, at - 200) : at + 50]

    def replayed(self, copy: Journal, run_id: str) -> Replay:
        """Replay a run, from its journal alone where the machine is the standard one."""
        return replay(copy, run_id, self.engine(copy) if self.own is not None else None)

    def forked(self, copy: Journal, run_id: str) -> str | None:
        """Fork a run in the middle, have the engine's own model drive it, and return the fork's id."""
        engine = self.engine(copy)
        try:
            result = engine.fork(run_id, copy.run(run_id).head_seq // 2, current=True)
        except InvalidFork:
            return None
        if result.status == "waiting":
            result = engine.cancel(result.run_id)
        assert result.state in ("Done", "Failed")
        assert self.replayed(copy, result.run_id).identical
        held(copy, result.run_id)
        return result.run_id


class AnyOwnRun(AnyRun):
    """The same on a machine of a host's own."""

    vary_policy: ClassVar[bool] = False  # a replay with the engine compares it

    def engine(self, journal: Journal) -> Engine:
        """Return an engine with that machine, and tools of every effect class."""
        return Engine("offline", own_machines.World().tools(), journal, machine=self.own)


def case(kind: type[AnyRun], count: int, **attributes: Any) -> Any:
    """Return a test case of *count* runs, twice as many with ``--whole``."""
    found: Any = type(kind.__name__, (kind,), attributes)
    found = found.TestCase
    found.settings = settings(found.settings, max_examples=examples(2 * count))
    return found


TestReact = case(AnyRun, 4, modes=("react",))
TestNative = case(AnyRun, 3, modes=("native",))
TestBatch = case(AnyRun, 2, modes=("batch",))
TestPlanner = case(AnyRun, 1, modes=("planner",))
TestTasks = case(AnyRun, 1, modes=("workflow",))
TestVerifying = case(AnyOwnRun, 2, own=own_machines.verifying())
TestEscalating = case(AnyOwnRun, 2, own=own_machines.escalating())
TestTwoReviewers = case(AnyOwnRun, 2, own=own_machines.two_reviewers())
TestTriage = case(AnyOwnRun, 2, own=own_machines.triage())


@pytest.mark.whole
def test_a_hundred_runs_of_any_mode() -> None:
    """The same with more of everything."""
    case(AnyRun, 50)("runTest").runTest()
