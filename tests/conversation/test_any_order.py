"""Whatever is done with conversations, in any order: each round knows what was said before it, and nothing that was erased."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from paor import Engine
from paor.errors import ConversationBusy

from ..support.inside import line_bytes
from .talk import Clerk, desk, holds
from .test_rounds import MODES

NAMES = st.sampled_from(["c", "d"])
HOW = st.sampled_from([mode for mode in MODES if mode != "batch"])


class Gone(BaseException):
    """The process has ended."""


class Leaves(Clerk):
    """A clerk whose process ends when it is asked, if it is to."""

    leaves = False

    def ask(self, call: Any) -> Any:
        """Answer, or end the process."""
        if self.leaves:
            raise Gone
        return super().ask(call)


class Conversations(RuleBasedStateMachine):
    """
    Two conversations, and what is known of them without paor: the words of each round that is left, and what one of them waits for.

    Attributes:
        rounds: Of each conversation id and words of its rounds.
        open: Conversations whose newest round was left on its way.
        erased: Words that nobody may be told of.
    """

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.model = Leaves()
        self.files = 0
        self.host = self._engine()
        self.rounds: dict[str, list[tuple[str, str]]] = {"c": [], "d": []}
        self.before: dict[str, list[str]] = {"c": [], "d": []}
        self.open: set[str] = set()
        self.erased: set[str] = set()
        self.number = 0

    def _engine(self) -> Engine:
        self.files += 1
        return desk(Path(self.folder.name) / f"{self.files}.db", self.model)

    def _words(self) -> str:
        self.number += 1
        return f"Say number-{self.number}-of-all"

    @initialize()
    def begins(self) -> None:
        """Begin with a round, so that there is something to do."""
        self.says("c", "native")

    @rule(name=NAMES, how=HOW)
    def says(self, name: str, how: str) -> None:
        """Say something; while a round is on its way that is refused."""
        words, runs = self._words(), len(self.host.journal.runs())
        if name in self.open:
            with pytest.raises(ConversationBusy):
                self.host.run(words, conversation=name, **MODES[how])
            assert len(self.host.journal.runs()) == runs
            return
        result = self.host.run(words, conversation=name, **MODES[how])
        told = self.model.told()
        known = [*self.before[name], *(said for _, said in self.rounds[name])]
        assert all(f"{said}" in told for said in known), "it is told of every round"
        assert not any(said in told for said in self.erased), "and of none that was erased"
        self.rounds[name].append((result.run_id, words))

    @rule(name=NAMES)
    def is_left(self, name: str) -> None:
        """The process ends while a round is on its way."""
        if name in self.open:
            return
        words = self._words()
        self.model.leaves = True
        with pytest.raises(Gone):
            self.host.run(words, conversation=name)
        self.model.leaves = False
        row = self.host.journal.runs(conversation=name)[0]
        assert row.status == "running"
        self.rounds[name].append((row.run_id, words))
        self.open.add(name)

    @precondition(lambda self: self.open)
    @rule(name=NAMES, how=HOW)
    def stands_in_line(self, name: str, how: str) -> None:
        """Something is said behind a round that is on its way."""
        if name not in self.open:
            return
        words = self._words()
        result = self.host.submit(words, conversation=name, queue=True, **MODES[how])
        self.rounds[name].append((result.run_id, words))

    @precondition(lambda self: self.open)
    @rule()
    def goes_on(self) -> None:
        """Another process goes on with what was left."""
        recovery = self.host.recover()
        assert not recovery.refused and {result.status for result in recovery.results} == {"done"}
        self.open.clear()

    @precondition(lambda self: not self.open)
    @rule(name=NAMES, place=st.integers(0, 9))
    def is_erased(self, name: str, place: int) -> None:
        """One round of a conversation goes."""
        if not self.rounds[name]:
            return
        run_id, words = self.rounds[name].pop(place % len(self.rounds[name]))
        self.host.journal.erase(run_id, others="erase")
        self.erased.add(words)
        files = [f"{self.host.journal.path}{end}" for end in ("", "-wal")]
        held = b"".join(Path(file).read_bytes() for file in files if Path(file).exists())
        assert words.encode() not in held, "nothing of it is left in the file"
        for told in self.before.values():
            if words in told:
                told.remove(words)
        if not self.rounds[name]:  # what it branched off is known to nobody: the next round begins it anew
            self.before[name].clear()

    @precondition(lambda self: not self.open)
    @rule()
    def moves(self) -> None:
        """Both go on in another file."""
        other = self._engine()
        for name in self.rounds:
            if self.rounds[name]:
                other.journal.import_lines(map(line_bytes, self.host.journal.export(conversation=name)))
        self.host.close()
        self.host = other

    @precondition(lambda self: not self.open and not self.rounds["d"] and not self.before["d"])
    @rule(place=st.integers(0, 9))
    def branches(self, place: int) -> None:
        """The other one begins after a round of the first."""
        if not self.rounds["c"]:
            return
        place %= len(self.rounds["c"])
        words = self._words()
        result = self.host.run(words, conversation="d", after=self.rounds["c"][place][0])
        self.before["d"] = [said for _, said in self.rounds["c"][: place + 1]]
        told = self.model.told()
        assert all(said in told for said in self.before["d"]) and not any(
            said in told for said in self.erased
        )
        self.rounds["d"].append((result.run_id, words))

    @rule(name=NAMES)
    def is_forked(self, name: str) -> None:
        """A fork of a run belongs to no conversation and changes none."""
        if not self.rounds[name] or name in self.open:
            return
        fork = self.host.fork(self.rounds[name][-1][0], 0)
        assert self.host.journal.run(fork.run_id).conversation is None

    @invariant()
    def says_what_was_said(self) -> None:
        """The journal shows the words of each conversation."""
        for name, rounds in self.rounds.items():
            found = self.host.journal.runs(conversation=name)
            assert [row.run_id for row in reversed(found)] == [run_id for run_id, _ in rounds]
            if rounds:
                messages = self.host.journal.conversation(name).messages
                assert [item.text for item in messages if item.role == "user"] == [
                    words for _, words in rounds
                ]

    def teardown(self) -> None:
        """All verifies and replays."""
        try:
            holds(self.host.journal)
        finally:
            self.host.close()
            self.folder.cleanup()


@pytest.mark.whole
def test_conversations_in_any_order() -> None:
    """Whatever is done with them."""
    run_state_machine_as_test(
        Conversations,
        settings=settings(
            max_examples=10, stateful_step_count=10, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
