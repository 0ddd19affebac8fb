"""Two hundred kills in conversations of ten rounds: no word is lost, and none is doubled."""

from __future__ import annotations

import os
import random
import signal
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from paor import Journal

from .talk import desk, holds

ROUNDS = 10
KILLS = 200
FUSE_S = 120
WORDS = tuple(f"find O-{number}" if number % 3 == 1 else f"Say {number}" for number in range(ROUNDS))


def talk_until(path: Path, target: int) -> None:
    """Take up what is there and say the rest of `WORDS`; killed before or after the write number *target*, 0 for never."""
    with desk(path) as host:
        store: Any = host.journal.store
        writes = [0]

        def killing(write: Any) -> Any:
            def counted(*arguments: Any, **options: Any) -> Any:
                writes[0] += 2
                if writes[0] - 1 == target:
                    os.kill(os.getpid(), signal.SIGKILL)
                found = write(*arguments, **options)
                if writes[0] == target:
                    os.kill(os.getpid(), signal.SIGKILL)
                return found

            return counted

        store.create, store.backend.append = killing(store.create), killing(store.backend.append)
        assert not host.recover().refused
        for number, words in enumerate(WORDS):
            host.run(words, conversation="c", key=str(number))


def ended_with(path: Path, target: int) -> int | None:
    """Return how a process that talks has ended."""
    context = get_context("forkserver")
    context.set_forkserver_preload(["tests.conversation.talk"])
    child = context.Process(target=talk_until, args=(path, target))
    child.start()
    child.join(FUSE_S)
    code = child.exitcode
    child.kill()
    return code


def kills_in_a_conversation(path: Path, seed: int, kills: int) -> None:
    """Kill process after process at writes of a conversation, then let one end it; check what was said."""
    chance, done = random.Random(seed), 0
    while done < kills:
        code = ended_with(path, chance.randrange(1, 12))
        assert code in (0, -signal.SIGKILL)
        if code == 0:  # it was over before that write
            check(path)
            path = path.with_name(f"{path.stem}+.db")
        done += 1
    assert ended_with(path, 0) == 0
    check(path)


def check(path: Path | str) -> None:
    """See to it that each word was said once, in order, and that each round was told of those before it and nothing twice."""
    with Journal(path) as journal:
        found = journal.conversation("c")
        assert tuple(message.text for message in found.messages[::2]) == WORDS
        assert [row.round for row in found.runs] == list(range(1, ROUNDS + 1)) and len(
            journal.runs()
        ) == ROUNDS
        for row in found.runs:
            told = [run for item in journal.spec(row.run_id).earlier for run in item.runs]
            assert told == [other.run_id for other in found.runs if other.round < row.round]
        holds(journal)


def test_a_conversation_survives_kills(tmp_path: Path) -> None:
    """One of those below."""
    kills_in_a_conversation(tmp_path / "runs.db", 0, 1)


@pytest.mark.whole
@pytest.mark.parametrize("seed", range(1, 1 + KILLS // 10))
def test_two_hundred_kills(seed: int, tmp_path: Path) -> None:
    """Ten a conversation."""
    kills_in_a_conversation(tmp_path / "runs.db", seed, 10)
