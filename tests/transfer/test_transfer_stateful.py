"""Random runs, forks, erasures, exports and imports in any order between files: what must hold after each step."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from paor import Engine, Journal, replay
from paor.errors import UsageError
from paor.fsm.transfer.erasure import Others
from paor.fsm.transfer.export import export_runs, line_bytes
from paor.testing import SeededIds, SteppingClock

from ..support.journeys import BY_NAME, play
from ..support.worlds import CONTINUE, READ, STOP, SUCCESS, engine

NAMES = (
    "two_pages",
    "documents",
    "batch",
    "planner",
    "selection_invalid",
    "in_doubt_done",
    "formatted",
    "odd_texts",
)
FILES = ("a.db", "b.db", "c.db")


class Transfers(RuleBasedStateMachine):
    """Three files and what is known of each run: its whole export, and whether a file holds all of it."""

    @initialize()
    def open(self) -> None:
        """Begin with empty files."""
        self.folder = tempfile.TemporaryDirectory()
        self.journals = {name: Journal(Path(self.folder.name, name), "off") for name in FILES}
        self.whole: dict[str, list[bytes]] = {}
        self.erased: dict[str, set[str]] = {name: set() for name in FILES}
        self.ids = SeededIds("stateful")
        self.clock = SteppingClock()

    def teardown(self) -> None:
        """Close the files."""
        for journal in getattr(self, "journals", {}).values():
            journal.close()
        if hasattr(self, "folder"):
            self.folder.cleanup()

    def _engine(self, name: str, file: str) -> Engine:
        ports: dict[str, Any] = {"ids": self.ids, "clock": self.clock, "journal": self.journals[file]}
        if name == "fork":
            return engine(Path(self.folder.name), [*READ(1), CONTINUE, *READ(2), STOP, SUCCESS], **ports)
        return BY_NAME[name].engine(Path(self.folder.name), **ports)

    def _export(self, file: str, run_id: str) -> list[bytes]:
        return [line_bytes(line) for line in export_runs(self.journals[file].reader, [run_id])]

    def _runs(self, file: str) -> list[str]:
        return sorted(row.run_id for row in self.journals[file].runs())

    @rule(name=st.sampled_from(NAMES), file=st.sampled_from(FILES))
    def run(self, name: str, file: str) -> None:
        """Walk a journey."""
        run_id = play(BY_NAME[name], self._engine(name, file)).run_id
        self.whole[run_id] = self._export(file, run_id)

    @rule(file=st.sampled_from(FILES), seq=st.integers(0, 8))
    def fork(self, file: str, seq: int) -> None:
        """Make a run and a fork of it."""
        scripted = self._engine("fork", file)
        parent = scripted.run("Read").run_id
        fork = scripted.fork(parent, seq).run_id
        for run_id in (parent, fork):
            self.whole[run_id] = self._export(file, run_id)

    @precondition(lambda self: any(self._runs(file) for file in FILES))
    @rule(data=st.data())
    def erase(self, data: st.DataObject) -> None:
        """Erase something of some run."""
        file = data.draw(st.sampled_from([file for file in FILES if self._runs(file)]))
        run_id = data.draw(st.sampled_from(self._runs(file)))
        kind = data.draw(st.sampled_from(("run", "payload", "document")))
        what: dict[str, Any] = {}
        if kind == "payload":
            number = self.journals[file].run(run_id).run
            last = self.journals[file].reader.next_payload(number) - 1
            what["payloads"] = data.draw(st.lists(st.integers(0, last), min_size=1, max_size=9))
        elif kind == "document":
            what["documents"] = [item.number for item in self.journals[file].documents(run_id)][:1]
        others: Others = data.draw(st.sampled_from(get_args(Others)))
        try:
            done = self.journals[file].erase(run_id, others=others, **what)
        except UsageError as error:
            assert others == "refuse" and "nothing was erased" in str(error)
            return
        assert set(done.erased) <= {run_id} or others == "erase"
        forks = {row.run_id for row in self.journals[file].runs() if row.parent_run_id in done.erased}
        self.erased[file] |= {*done.erased, *forks}

    @precondition(lambda self: any(self._runs(file) for file in FILES))
    @rule(data=st.data())
    def carry(self, data: st.DataObject) -> None:
        """Export some runs from one file, in any order, into another one."""
        source = data.draw(st.sampled_from([file for file in FILES if self._runs(file)]))
        target = data.draw(st.sampled_from(FILES))
        runs = data.draw(st.permutations(self._runs(source)))[: data.draw(st.integers(1, 4))]
        known = set(self._runs(target))
        text = [line_bytes(line) for line in export_runs(self.journals[source].reader, runs)]
        done = {item.run_id: item.how for item in self.journals[target].import_lines(text)}
        assert set(runs) <= done.keys()
        for run_id, how in done.items():
            assert how == ("known" if run_id in known else "new")
            if how == "new" and run_id in self.erased[source]:
                self.erased[target].add(run_id)

    @invariant()
    def every_file_holds(self) -> None:
        """It verifies; what was not erased replays, and is exported as it was at first, from wherever it is."""
        for file, journal in getattr(self, "journals", {}).items():
            assert journal.verify() == []
            for run_id in self._runs(file):
                found = replay(journal, run_id)
                assert not found.divergences
                if run_id not in self.erased[file]:
                    assert found.identical
                    assert self._export(file, run_id) == self.whole[run_id]


TestTransfers = Transfers.TestCase
TestTransfers.settings = settings(max_examples=6, stateful_step_count=8)


class ManyTransfers(Transfers):
    """The same for longer."""


TestManyTransfers = pytest.mark.large(ManyTransfers.TestCase)
TestManyTransfers.settings = settings(max_examples=60, stateful_step_count=15)
