"""The duplicate guard on real runs, held to its table and to an oracle that shares no code and no shape with it."""

from __future__ import annotations

import contextlib
import itertools
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from paor import Engine, Journal, Limits, ModelCall, Reply, ScriptedModel, Tool, ToolContext, tool
from paor.errors import ToolError

from ..support.effort import examples
from ..support.stored import blocked_steps
from ..support.worlds import CONTINUE, JOURNAL, PARAMETERS, SELECT, STOP, SUCCESS, engine

WIDE: dict[str, Any] = {"max_steps": 1000, "max_blocked_calls": 10_000, "max_consecutive_errors": 10_000}

TABLE: dict[str, list[int]] = {
    "AAAA": [3, 4],
    "AAABAAA": [3, 7],
    "XXXXYXXXX": [3, 4, 8, 9],
    "AABAABA": [7],
    "ABABABA": [],
    "ABABABAB": [8],
    "ABABABABAB": [8, 9, 10],
    "ABABABABCA": [8, 10],
    "ABABABABCDA": [8],
    "AbAcAdAeA": [9],
    "ABCABCABCABC": [],
    "acXaXbXXdX12345XX6X7X8X": [10, 23],
}
"""Sequences of calls and the numbers of those that are blocked, from 1."""

UNITS: dict[str, tuple[str, list[int]]] = {
    "three successes": ("AAA", [3]),
    "twice, another, twice": ("AAOAA", []),
    "four errors": ("aaaa", [3, 4]),
    "two errors, another, an error": ("aaOa", []),
    "an error, a success, a success": ("aAAOAA", [3]),
    "a seeded success, then again": ("AA", []),
    "a seeded error, then again": ("aA", []),
    "an error in the middle of an alternation": ("ABaBABAB", [8]),
}
"""Unit cases of the original guard: a lower-case letter is the same call as its capital, and fails."""


def playing(executed: list[str], proposals: str = "") -> Tool:
    """
    Return a tool that keeps the key of each call.

    Args:
        executed: Gets the keys.
        proposals: Spellings of the calls by their turn; a call that is spelled in lower case fails.
    """

    @tool("notes.read", effect="idempotent", label="page")
    def play(context: ToolContext, page: int) -> str:
        """Play."""
        executed.append(chr(page))
        if proposals and proposals[context.action - 1].islower():
            raise ToolError("torn")
        return chr(page)

    return play


def script(sequence: str) -> list[Any]:
    """Return replies that propose the calls of *sequence*, then stop."""
    calls = [reply for key in sequence for reply in (SELECT(), PARAMETERS(page=ord(key)), CONTINUE)]
    return [*calls[:-1], STOP, SUCCESS]


def played(
    folder: Path, sequence: str, limits: dict[str, int] | None = None, *, proposals: str = ""
) -> tuple[list[int], str]:
    """Run *sequence* on a real engine; return the blocked calls by number, and the executed ones."""
    executed: list[str] = []
    bounds = Limits(**(WIDE | (limits or {})))
    with engine(folder, script(sequence), [playing(executed, proposals)], limits=bounds) as host:
        result = host.run("Read")
        assert (result.state, result.steps) == ("Done", len(sequence))
    return blocked_steps(folder / JOURNAL), "".join(executed)


# -- the oracle ----------------------------------------------------------------------------------------------------


def told(sequence: str, *, consecutive: int = 3, window: int = 8, frequency: int = 4) -> list[int]:
    """
    Return the blocked calls of *sequence*, from the words of the rule and not from its code.

    The executed calls are one text. In a row: it ends in `consecutive - 1` times the call. Frequency: in its last
    `window` letters the call is `frequency` times. Alternation: with the call it ends in four times a pair.
    """
    text, blocked = "", []
    for number, key in enumerate(sequence, 1):
        in_a_row = text.endswith(key * (consecutive - 1))
        often = Counter(text[max(0, len(text) - window) :])[key] >= frequency
        pairs = {(x + y) * 4 for x, y in itertools.permutations(set(text + key), 2)}
        if in_a_row or often or (text + key)[-8:] in pairs:
            blocked.append(number)
        else:
            text += key
    return blocked


# -- the table -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sequence", TABLE)
def test_C1_A152_A153_A154_D15_D16_the_table_of_sequences(tmp_path: Path, sequence: str) -> None:
    """Each line in a real run with the default limits; what is blocked is not executed; the oracle agrees."""
    blocked, executed = played(tmp_path, sequence)
    assert blocked == TABLE[sequence] == told(sequence)
    assert executed == "".join(key for number, key in enumerate(sequence, 1) if number not in blocked)


@pytest.mark.parametrize("case", UNITS)
def test_C1_A152_A153_the_unit_cases_with_errors(tmp_path: Path, case: str) -> None:
    """A failed call counts like any other: what is repeated is the call, not its success."""
    proposals, expected = UNITS[case]
    blocked, _ = played(tmp_path, proposals.upper(), proposals=proposals)
    assert blocked == expected == told(proposals.upper())


@pytest.mark.parametrize(
    ("limits", "sequence", "expected"),
    [
        ({"consecutive_limit": 2}, "AABA", [2]),
        ({"consecutive_limit": 4}, "AAAAA", [4, 5]),
        ({"window_freq_limit": 2}, "AbAcA", [5]),
        ({"window_freq_limit": 5, "window_size": 10}, "AbAcAdAeAfA", [11]),
        ({"window_freq_limit": 2, "window_size": 3}, "AbcAdeA", []),
        ({"window_size": 7}, "AbAcAdAeA", []),
        ({"window_size": 9}, "AbAcAdAeA", [9]),
    ],
)
def test_A157_each_number_of_the_guard_can_be_set(
    tmp_path: Path, limits: dict[str, int], sequence: str, expected: list[int]
) -> None:
    """And the run then blocks by it: one more, one less, a shorter memory."""
    assert played(tmp_path, sequence, limits)[0] == expected


BOUNDS = st.fixed_dictionaries(
    {
        "consecutive_limit": st.integers(2, 5),
        "window_size": st.integers(1, 12),
        "window_freq_limit": st.integers(1, 6),
    }
)
DEFAULTS = {"consecutive_limit": 3, "window_size": 8, "window_freq_limit": 4}


@settings(max_examples=examples(40))
@given(sequence=st.text(alphabet="ABC", min_size=1, max_size=24), bounds=st.just(DEFAULTS) | BOUNDS)
@example(sequence="ABABABABABABAB", bounds=DEFAULTS)
@example(sequence="ABABABABCDABABABAB", bounds=DEFAULTS | {"window_size": 2})
def test_C1_A152_A153_A154_A157_a_run_blocks_what_the_words_of_the_rule_say(
    sequence: str, bounds: dict[str, int]
) -> None:
    """Any sequence under any limits: a real engine and its journal against the oracle."""
    with tempfile.TemporaryDirectory() as folder:
        expected = told(
            sequence,
            consecutive=bounds["consecutive_limit"],
            window=bounds["window_size"],
            frequency=bounds["window_freq_limit"],
        )
        assert played(Path(folder), sequence, bounds)[0] == expected


class Lost(BaseException):
    """The process is gone; nobody catches it."""


class Losing(ScriptedModel):
    """A scripted model whose process is lost at one of its requests."""

    def __init__(self, replies: list[Any], at: int) -> None:
        super().__init__(replies)
        self.at = at

    def ask(self, call: ModelCall) -> Reply:
        """Answer, or be lost."""
        if call.number == self.at:
            raise Lost
        return super().ask(call)


@settings(max_examples=examples(24))
@given(
    sequence=st.text(alphabet="AB", min_size=3, max_size=14),
    losses=st.lists(st.integers(1, 40), min_size=1, max_size=4, unique=True),
)
@example(sequence="AAA", losses=[7])
def test_C1_C2_1_a_run_that_is_lost_anywhere_blocks_the_same_calls(sequence: str, losses: list[int]) -> None:
    """The guard's memory comes from the journal: other engines take over at any request, several times."""
    executed: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / JOURNAL
        for at in (*sorted(losses), 10_000):
            host = Engine(
                model=Losing(script(sequence), at),
                tools=[playing(executed)],
                journal=Journal(file, "off"),
                limits=Limits(**WIDE),
                builtins=False,
            )
            with host, contextlib.suppress(Lost):
                runs = host.journal.runs() if file.exists() else []
                result = host.resume(runs[0].run_id) if runs else host.run("Read")
        assert (result.state, result.steps) == ("Done", len(sequence))
        blocked = blocked_steps(file)
        assert blocked == told(sequence)
        assert len(executed) == len(sequence) - len(blocked)
