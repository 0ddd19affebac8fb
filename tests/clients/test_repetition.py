"""A reply that repeats itself is cut off, over real HTTP, and nothing else is taken for one."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ..support.model_server import WIRES, ModelServer, Wire, model_server, streamed
from .inside import REPEATED_CHARS, Invalid, after, said_once
from .test_clients import asked, call

CLAUSE = "".join(
    f"{number}. The supplier reports by day {number} of each month.\n" for number in range(1, 31)
)
CHAT = WIRES[0]
each_wire = pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.name)
_WORDS = st.lists(
    st.sampled_from(["a", "ab", "| - |\n", "Notice is given. ", "x" * 333, "y" * 999]), max_size=6
)


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    """One server for all tests of this file."""
    with model_server() as running:
        yield running


def shortest_period(text: str) -> int | None:
    """Return the definition, tried for every period: what at least 1,000 characters at the end have directly before them."""
    for period in range(1, len(text)):
        again = max(REPEATED_CHARS, period)
        if again + period <= len(text) and text[-again:] == text[-again - period : -period]:
            return period
    return None


@given(st.builds("".join, _WORDS), st.builds("".join, _WORDS), st.integers(0, 60), st.integers(0, 50))
@example(CLAUSE, "", 0, 0)
@example("", CLAUSE, 2, 0)
@example("Obligations:\n", CLAUSE, 1, 0)
@example("", "| - |\n", 167, 1)
@example("", "| - |\n", 168, 0)
def test_what_is_cut_is_only_what_was_said_directly_before(
    head: str, unit: str, times: int, more: int
) -> None:
    """It is found exactly when the definition says so, and the rest of the text follows from what is kept."""
    text = head + unit * times + unit[:more]
    once, period = said_once(text), shortest_period(text)
    assert (once is None) == (period is None)
    if once is not None and period is not None:
        assert all(text[at] == text[at - period] for at in range(once, len(text)))
        assert once == period or text[once - 1] != text[once - 1 - period]


@each_wire
@pytest.mark.parametrize("driver", ["sync", "async"])
def test_a_report_that_begins_again_is_kept_once(server: ModelServer, wire: Wire, driver: str) -> None:
    """The rest of the stream is not waited for, and the reply tells how it ended; nobody listens here."""
    text = "# Obligations\n\n" + CLAUSE * 50
    server.script(streamed(wire.events(text, size=40)))
    reply = asked(wire.model(server.url, prices={}), call(schema=None), driver)
    assert (reply.text, reply.finish, reply.attempts) == (
        "# Obligations\n\n" + CLAUSE.rstrip(),
        "repetition",
        1,
    )
    assert reply.usage is not None and reply.usage.tokens_out > 0
    assert server.requests[0].body["stream"] is True


@each_wire
def test_a_passage_that_is_quoted_twice_is_none(server: ModelServer, wire: Wire) -> None:
    """What stands between makes it another text."""
    text = f"The contract says:\n{CLAUSE}The notes say:\n{CLAUSE}So they agree."
    server.script(streamed(wire.events(text, size=40)))
    reply = asked(wire.model(server.url, prices={}), call(schema=None), "sync")
    assert (reply.text, reply.finish) == (text, "stop")


def test_json_that_was_cut_is_asked_for_again_in_other_words() -> None:
    """Its reader finds it cut, and what the model is told is not that it was too long."""
    cut = Invalid("truncated", "found JSON that is cut off")
    told = after("repetition", cut)
    assert isinstance(told, Invalid) and told.code == "repetition" and "again and again" in told.message
    assert after("repetition", json.loads("{}")) == {}
