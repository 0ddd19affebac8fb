"""Reads of one reply that are made at the same time: which ones, with which intents, and that their rows are those of a serial run."""

from __future__ import annotations

import asyncio
import contextvars
import json
import logging
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paor import (
    Engine,
    Limits,
    Machine,
    ModelCall,
    Policy,
    Reply,
    Result,
    Tool,
    ToolContext,
    replay,
    tool,
)
from paor.audit import Transition
from paor.errors import AnswerNeeded, ToolError, UsageError
from paor.events import TransitionTaken
from paor.testing import RandomIds, call_tools, step

from ..lifecycle.test_resume import die, in_child, what_counts
from ..support.worlds import engine
from .inside import GROUP_MOST, Intent, TimedCall, Together

DRIVERS = pytest.mark.parametrize("driver", ["sync", "async"])
FORMS = pytest.mark.parametrize("form", ["sync", "async"])
FUSE_S = 60


def reads(count: int, name: str = "notes.read") -> dict[str, Any]:
    """Return a reply that calls a tool *count* times, for another page each."""
    return call_tools(*(step(name, page=page) for page in range(1, count + 1)))


def drive(scripted: Engine, driver: str, **options: Any) -> Result:
    """Run with native calls on either driver."""
    given = {"profile": "native", **options}
    if driver == "async":
        return asyncio.run(scripted.arun("Read all", **given))
    return scripted.run("Read all", **given)


def read_tool(function: Callable[..., Any], name: str = "notes.read", **options: Any) -> Tool:
    """Return a tool that only reads and calls *function* with the page."""
    schema = {"type": "object", "properties": {"page": {"type": "integer"}}, "required": ["page"]}
    return Tool(name=name, parameters=schema, run=function, effect="read", **options)


def changes_of(scripted: Engine, result: Result) -> list[tuple[Transition, dict[str, Any]]]:
    """Return a run's rows, each with what it has set."""
    journal = scripted.journal
    found = []
    for row in journal.transitions(result.run_id):
        body = journal.payload(row.run, row.change["n"]).body
        assert isinstance(body, str)
        found.append((row, json.loads(body)))
    return found


def groups_of(scripted: Engine, result: Result) -> list[list[str]]:
    """Return the idempotency keys of each group of calls that were started together, without the run's id."""
    groups = []
    for row, change in changes_of(scripted, result):
        if row.trigger == "specify" and "ahead" in change:
            keys = [change["intent"], *change["ahead"]]
            groups.append([item["idempotencyKey"].rpartition("-")[2] for item in keys])
    return groups


def judged(scripted: Engine, result: Result) -> list[Transition]:
    """Return the rows of a run whose journal holds and replays."""
    assert scripted.journal.verify() == []
    again = replay(scripted.journal, result.run_id)
    assert again.identical, again.divergences
    return scripted.journal.transitions(result.run_id)


@contextmanager
def nothing_left_behind() -> Iterator[None]:
    """Fail where a thread of a call is still there at the end."""
    yield
    left = [thread for thread in threading.enumerate() if thread.name.startswith("paor-tool")]
    for thread in left:  # one that has given its result may need a moment to end
        thread.join(FUSE_S)
    assert not any(thread.is_alive() for thread in left)


# -- at the same time, recorded in their order ---------------------------------------------------------------------


@FORMS
@DRIVERS
def test_reads_of_one_reply_run_at_the_same_time_and_are_recorded_in_their_order(
    driver: str, form: str, tmp_path: Path
) -> None:
    """Each call waits for the end of the one behind it, so they end in the reverse order; one after the other none would end."""
    ended = {page: threading.Event() for page in range(1, 6)}
    ended[5].set()
    order: list[int] = []

    def work(page: int) -> str:
        assert ended[min(page + 1, 5)].wait(FUSE_S)
        order.append(page)
        ended[page].set()
        return f"page {page}"

    async def awork(page: int) -> str:
        return await asyncio.to_thread(work, page)

    with nothing_left_behind():
        tools = [read_tool(awork if form == "async" else work)]
        with engine(tmp_path, [reads(4), "All."], tools) as scripted:
            ended[4].clear()
            result = drive(scripted, driver)
            rows = judged(scripted, result)
            assert result.state == "Done" and order == [4, 3, 2, 1]
            assert groups_of(scripted, result) == [["1", "2", "3", "4"]]
            bodies = [scripted.journal.document(result.run_id, number) for number in range(4)]
            assert bodies == [f"page {page}" for page in (1, 2, 3, 4)]
            walk = ["specify", "execute", "observe", "next_step"]
            assert [row.trigger for row in rows[1:17]] == [*walk * 3, *walk[:3], "proceed"]


def serial_and_together(
    folder: Path, script: Sequence[Any], tools: Sequence[Tool], driver: str, **options: Any
) -> list[list[Any]]:
    """Return what two runs of a script have recorded, with reads at the same time and without; apart from what tells so."""
    limits = options.pop("limits", Limits(max_steps=20))
    found = []
    for name, most in (("serial", 1), ("together", 8)):
        (folder / name).mkdir(parents=True)
        with engine(folder / name, script, tools) as scripted:
            own = limits.model_copy(update={"parallel_calls": most})
            result = drive(scripted, driver, limits=own, **options)
            judged(scripted, result)
            assert bool(groups_of(scripted, result)) is (most > 1)
            told = []
            for row, change in changes_of(scripted, result):
                counters = {key: value for key, value in row.counters.items() if key != "ahead"}
                seen = {key: value for key, value in change.items() if key != "ahead"}
                place = row.change["n"]
                told.append(
                    (row.trigger, row.guards, row.request, row.outcome, counters, seen, place, row.step)
                )
            documents = [
                (item.number, item.label, item.position, item.digest)
                for item in scripted.journal.documents(result.run_id)
            ]
            found.append([told, documents, result.answer, result.steps])
    return found


@DRIVERS
def test_a_journal_differs_from_a_serial_one_in_what_was_started_ahead_alone(driver: str, tmp_path: Path) -> None:
    """Rows, guards, outcomes, payloads and their numbers, with an error among the results."""

    def work(page: int) -> str:
        if page == 2:
            raise ToolError("page 2 is torn out")
        return f"page {page}"

    script = [reads(4), call_tools(step("notes.read", page=5), step("notes.read", page=6)), "All."]
    serial, together = serial_and_together(tmp_path, script, [read_tool(work)], driver)
    assert together == serial


def test_both_drivers_write_the_same_journal(tmp_path: Path) -> None:
    """To the hash of the last row, with clocks and ids that are the same."""
    heads = []
    for driver in ("sync", "async"):
        (tmp_path / driver).mkdir()
        with engine(tmp_path / driver, [reads(3), "All."], [read_tool(lambda page: f"page {page}")]) as scripted:
            drive(scripted, driver)
            heads.append(scripted.journal.runs()[0].head_hash)
    assert heads[0] == heads[1]


# -- which calls ---------------------------------------------------------------------------------------------------


@tool("notes.a", effect="read")
def a(page: int, words: str = "all") -> str:
    """Read."""
    if page == 3:
        raise ToolError("page 3 is torn out")
    return f"{page} {words}"


@tool("notes.b", effect="read", retries=1)
def b(page: int) -> str:
    """Read otherwise."""
    if page == 2:
        raise ToolError("page 2 is torn out")
    return f"page {page}"


@tool("notes.put", effect="idempotent")
def put(page: int) -> str:
    """Put."""
    return "put"


@tool("notes.send", effect="once")
def send(page: int) -> str:
    """Send."""
    return "sent"


@tool("notes.secret", effect="read")
def secret(page: int) -> str:
    """Read what a person must allow."""
    return "secret"


@tool("notes.denied", effect="read")
def denied(page: int) -> str:
    """Read what nobody may."""
    return "denied"


NAMES = ("notes.a", "notes.b", "notes.put", "notes.send", "notes.secret", "notes.denied", "notes.nobody")
CALLS = st.builds(
    lambda name, page, more: step(name, page=page, **more),
    st.sampled_from((*NAMES, "notes.a", "notes.b", "notes.a")),
    st.one_of(st.integers(1, 3), st.integers(1, 3), st.integers(1, 3), st.just("no number")),
    st.sampled_from(({}, {}, {}, {"words": "few"})),
)
REPLIES = st.lists(st.lists(CALLS, min_size=1, max_size=7), min_size=1, max_size=3)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(REPLIES, st.integers(1, 9), st.integers(2, 4), st.sampled_from(["native", "planner"]))
def test_an_intent_ahead_is_the_one_that_its_own_row_proposes(
    tmp_path_factory: Any, replies: list[list[dict[str, Any]]], max_steps: int, most: int, mode: str
) -> None:
    """For drawn replies, whatever the calls before come to: the same intent, or none since the run has ended before."""
    folder = tmp_path_factory.mktemp("drawn")
    tools = [a, b, put, send, secret, denied]
    policy = Policy(approvals=["notes.secret"], deny=["notes.denied"])
    script = [call_tools(*calls) for calls in replies] if mode == "native" else _plans(replies)
    with engine(folder, [*script, *["All."] * 9], tools, policy=policy) as scripted:
        options = {"profile": "native"} if mode == "native" else {"mode": "planner"}
        result = scripted.run("Go", limits=Limits(max_steps=max_steps, parallel_calls=most), **options)
        for _ in range(9):
            if result.status == "waiting":
                result = scripted.resume(result.run_id, answer={"approve": True})
        rows = changes_of(scripted, result)
        judged(scripted, result)
        _check_groups(rows)


def _plans(replies: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    return [{"steps": calls} for calls in replies]


def _check_groups(rows: list[tuple[Transition, dict[str, Any]]]) -> None:
    promised: list[Any] = []
    before = 0, False
    for seq, (row, change) in enumerate(rows):
        if row.trigger in ("select", "proceed"):
            assert not promised, "a call that was started has its row before the model is asked again"
        if row.trigger == "refuse":
            assert not promised, "a call that was started is not refused"
        if row.trigger != "specify":
            continue
        intent = change["intent"]
        if promised:
            assert intent == promised.pop(0) and "ahead" not in change
        elif before == (seq - 4, True) and intent["effect"] == "read":
            assert _repeats(rows, seq), "a call that was certain was not started ahead"
        promised += change.get("ahead", [])
        assert "ahead" not in change or len({item["effect"] for item in (intent, *change["ahead"])}) == 1
        before = seq, intent["effect"] == "read" and not promised


def _repeats(rows: list[tuple[Transition, dict[str, Any]]], seq: int) -> bool:
    """Return whether a call repeats another one: that may be certain only once its result is known."""
    key = rows[seq][1]["intent"]["key"]
    return any(change.get("intent", {}) and change["intent"]["key"] == key for _, change in rows[:seq])
