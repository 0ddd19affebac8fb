"""Reads of one reply that are made at the same time: which ones, with which intents, and that their rows are those of a serial run."""

from __future__ import annotations

import asyncio
import contextvars
import json
import logging
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
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
    ScriptedModel,
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
from .inside import GROUP_MOST, TimedCall, Together

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
def test_a_journal_differs_from_a_serial_one_in_what_was_started_ahead_alone(
    driver: str, tmp_path: Path
) -> None:
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
        with engine(
            tmp_path / driver, [reads(3), "All."], [read_tool(lambda page: f"page {page}")]
        ) as scripted:
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


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(REPLIES, st.integers(1, 9), st.integers(2, 4), st.sampled_from(["native", "planner"]))
def test_an_intent_ahead_is_the_one_that_its_own_row_proposes(
    tmp_path_factory: Any, replies: list[list[dict[str, Any]]], max_steps: int, most: int, mode: str
) -> None:
    """For drawn replies, whatever the calls before come to: the same intent, or none since the run has ended before."""
    folder = tmp_path_factory.mktemp("drawn")
    tools = [a, b, put, send, secret, denied]
    policy = Policy(approvals=("notes.secret",), deny=("notes.denied",))
    script = [call_tools(*calls) for calls in replies] if mode == "native" else _plans(replies)
    with engine(folder, [*script, *["All."] * 9], tools, policy=policy) as scripted:
        options: dict[str, Any] = {"profile": "native"} if mode == "native" else {"mode": "planner"}
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


def test_a_call_that_repeats_one_of_its_group_is_judged_with_that_one_counted(tmp_path: Path) -> None:
    """The third call in a row is a duplicate: it is no member, since its row refuses it."""
    script = [call_tools(*[step("notes.a", page=1)] * 4), "All."]
    with engine(tmp_path, script, [a]) as scripted:
        result = drive(scripted, "sync", limits=Limits(max_steps=9))
        rows = judged(scripted, result)
        assert groups_of(scripted, result) == [["1", "2"]]
        assert "refuse" in [row.trigger for row in rows]


def test_a_reply_of_many_calls_makes_groups_of_a_bounded_size(tmp_path: Path) -> None:
    """The first row of each holds the intents of its group, and no more."""
    count = GROUP_MOST + 3
    with engine(tmp_path, [reads(count), "All."], [read_tool(lambda page: f"page {page}")]) as scripted:
        result = drive(scripted, "sync", limits=Limits(max_steps=count + 1))
        assert [len(group) for group in groups_of(scripted, result)] == [GROUP_MOST, 3]
        judged(scripted, result)


def test_steps_of_a_plan_that_need_no_output_are_read_together(tmp_path: Path) -> None:
    """A step that refers to the output of another waits for it."""
    met = threading.Barrier(2)

    def work(page: Any) -> str:
        if page in (1, 2):
            met.wait(FUSE_S)
        return f"page {page}"

    schema = {"type": "object", "properties": {"page": {}}, "required": ["page"]}
    tools = [Tool("notes.read", parameters=schema, run=work, effect="read")]
    steps = [step("notes.read", page=1), step("notes.read", page=2)]
    steps.append(step("notes.read", page="$step[1].output"))
    with engine(tmp_path, [{"steps": steps}, {"steps": []}, "All."], tools) as scripted:
        result = scripted.run("Read all", mode="planner")
        assert groups_of(scripted, result) == [["1", "2"]]
        judged(scripted, result)


def test_in_a_machine_of_the_hosts_own_calls_are_made_one_after_the_other(tmp_path: Path) -> None:
    """A guard of the host's may want to see a result before it lets the next call pass."""
    alone = threading.Lock()
    machine = Machine.standard()

    def seen_before(case: Any) -> bool:
        """The call before has ended."""
        made: int = case.counters.action
        return len(case.run.memory.window) == made

    def work(page: int) -> str:
        assert alone.acquire(blocking=False)
        alone.release()
        return f"page {page}"

    with engine(
        tmp_path, [reads(3), "All."], [read_tool(work)], machine=machine.require("specify", seen_before)
    ) as scripted:
        result = drive(scripted, "sync")
        assert result.state == "Done" and groups_of(scripted, result) == []
        rows = scripted.journal.transitions(result.run_id)
        assert [row.guards.get("seen_before") for row in rows].count(True) == 3
        assert replay(scripted.journal, result.run_id, engine=scripted).identical


# -- how many ------------------------------------------------------------------------------------------------------


class Counted:
    """A tool that counts how many of its calls run at the same time, held until they are let go."""

    def __init__(self, form: str = "sync", name: str = "notes.read", **options: Any) -> None:
        self.running = self.highest = self.made = 0
        self.gate = threading.Event()
        self._lock = threading.Lock()
        self.tool = read_tool(self.awork if form == "async" else self.work, name, **options)

    def work(self, page: int) -> str:
        """Wait at the gate."""
        with self._lock:
            self.made += 1
            self.running += 1
            self.highest = max(self.highest, self.running)
        assert self.gate.wait(FUSE_S)
        with self._lock:
            self.running -= 1
        return f"page {page}"

    async def awork(self, page: int) -> str:
        """Do the same without blocking the loop."""
        return await asyncio.to_thread(self.work, page)


@pytest.fixture
def begun_at_first(monkeypatch: pytest.MonkeyPatch) -> tuple[list[int], list[threading.Event]]:
    """Count the calls that were begun when the driver asks for the first one, then open the gates."""
    counts, gates = list[int](), list[threading.Event]()
    call = Together._call

    def counted(self: Together, effect: Any) -> TimedCall:
        if not counts:
            counts.append(len(self._running))
            for gate in gates:
                gate.set()
        return call(self, effect)

    monkeypatch.setattr(Together, "_call", counted)
    return counts, gates


@FORMS
@DRIVERS
def test_never_more_calls_than_the_limit_run_at_the_same_time(
    driver: str, form: str, begun_at_first: tuple[list[int], list[threading.Event]], tmp_path: Path
) -> None:
    """Of sixteen reads four are begun, while none of them can end; then each end lets one more begin."""
    work = Counted(form)
    begun_at_first[1].append(work.gate)
    with engine(tmp_path, [reads(16), "All."], [work.tool]) as scripted:
        result = drive(scripted, driver, limits=Limits(max_steps=20, parallel_calls=4))
        assert begun_at_first[0] == [4]
        assert (work.made, work.running) == (16, 0) and work.highest <= 4
        assert [len(group) for group in groups_of(scripted, result)] == [16]
        judged(scripted, result)


@DRIVERS
def test_a_tools_own_limit_wins(
    driver: str, begun_at_first: tuple[list[int], list[threading.Event]], tmp_path: Path
) -> None:
    """Of six calls of a tool for one at a time and six of another, one and as many as the run allows are begun."""
    lone, free = Counted(name="notes.lone", parallel=1), Counted(name="notes.free", parallel=2)
    begun_at_first[1].extend([lone.gate, free.gate])
    calls = [step(name, page=page) for page in range(6) for name in ("notes.lone", "notes.free")]
    with engine(tmp_path, [call_tools(*calls), "All."], [lone.tool, free.tool]) as scripted:
        result = drive(scripted, driver, limits=Limits(max_steps=20))
        assert begun_at_first[0] == [3]
        assert (lone.made, free.made, lone.highest) == (6, 6, 1) and free.highest <= 2
        judged(scripted, result)


@pytest.mark.parametrize("wrong", [0, -1, True, 1.5, "2"])
def test_a_limit_that_is_none_is_refused(wrong: Any) -> None:
    """A whole number from 1."""
    with pytest.raises(UsageError, match="parallel must be a whole number from 1"):
        read_tool(lambda page: "", parallel=wrong)


def test_one_call_at_a_time_is_a_serial_run_in_the_drivers_own_thread(tmp_path: Path) -> None:
    """For tools that must not leave the thread of their host."""
    threads = set()

    def work(page: int) -> str:
        threads.add(threading.get_ident())
        return f"page {page}"

    with engine(tmp_path, [reads(3), "All."], [read_tool(work)]) as scripted:
        result = drive(scripted, "sync", limits=Limits(parallel_calls=1))
        assert threads == {threading.get_ident()} and groups_of(scripted, result) == []


# -- what a call may expect ----------------------------------------------------------------------------------------

WHO: contextvars.ContextVar[str] = contextvars.ContextVar("WHO", default="nobody")


@FORMS
@DRIVERS
def test_calls_see_the_context_variables_of_their_run(driver: str, form: str, tmp_path: Path) -> None:
    """Also those that begin when another call has ended; what a call sets is its own."""
    seen = []

    def work(page: int) -> str:
        seen.append(WHO.get())
        WHO.set(f"page {page}")
        return f"page {page}"

    async def awork(page: int) -> str:
        return work(page)

    def go() -> Result:
        WHO.set("somebody")
        return drive(scripted, driver, limits=Limits(max_steps=9, parallel_calls=2))

    with engine(tmp_path, [reads(5), "All."], [read_tool(awork if form == "async" else work)]) as scripted:
        contextvars.copy_context().run(go)
        assert seen == ["somebody"] * 5


@DRIVERS
def test_a_call_that_raises_is_tried_again_in_its_turn_and_the_others_are_not(
    driver: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the same key; the retry has a row of its own between those of its call."""
    calls: list[tuple[int, int, str]] = []

    def work(page: int, context: ToolContext) -> str:
        calls.append((page, context.action, context.idempotency_key.rpartition("-")[2]))
        if page == 2 and sum(made == 2 for made, *_ in calls) == 1:
            raise ToolError("busy")
        if page == 3:
            raise ToolError("torn out")
        return f"page {page}"

    work.__annotations__["context"] = ToolContext
    schema = {"type": "object", "properties": {"page": {"type": "integer"}}, "required": ["page"]}
    tools = [Tool("notes.read", parameters=schema, run=work, effect="read", retries=1)]
    with engine(tmp_path, [reads(4), "All."], tools) as scripted:
        monkeypatch.setattr(ScriptedModel, "answers_in_order", False)
        result = drive(scripted, driver)
        rows = judged(scripted, result)
        assert sorted(calls) == [(page, page, str(page)) for page in (1, 2, 2, 3, 3, 4)]
        triggers = [row.trigger for row in rows if row.source == "Executing"]
        assert triggers == ["execute", "retry_step", "execute", "retry_step", "execute", "execute"]
        assert [row.outcome["ok"] for row in rows if row.trigger == "execute"] == [True, True, False, True]


class Writer:
    """A model that answers turns from a script and every text with the words of its request."""

    name = "writer"
    calls_tools = True

    def __init__(self, *turns: str | dict[str, Any]) -> None:
        self._turns = list(turns)
        self.numbers: list[int] = []

    def ask(self, call: ModelCall) -> Reply:
        """Answer."""
        self.numbers.append(call.number)
        if call.kind == "text":
            return Reply(f"text of {call.step}")
        turn = self._turns.pop(0)
        return Reply(turn if isinstance(turn, str) else json.dumps(turn), finish="stop")

    async def aask(self, call: ModelCall) -> Reply:
        """Answer."""
        return self.ask(call)


@DRIVERS
def test_texts_that_a_call_asks_for_belong_to_its_own_row(driver: str, tmp_path: Path) -> None:
    """Numbered through for the whole run, whoever asks first; usage and texts are counted in each call's row."""
    both = threading.Barrier(3)

    @tool("notes.sum", effect="read")
    def summed(page: int, context: ToolContext) -> str:
        """Sum up."""
        both.wait(FUSE_S)
        return context.ask(f"sum up page {page}")

    model = Writer(reads(3, "notes.sum"), "All.")
    with Engine(model, [summed], tmp_path / "runs.db", builtins=False, ids=RandomIds()) as scripted:
        result = drive(scripted, driver)
        rows = [row for row in judged(scripted, result) if row.trigger == "execute"]
        assert [len(row.outcome["texts"]) for row in rows] == [1, 1, 1]
        assert sorted(model.numbers) == [0, 1, 2, 3, 4] and result.usage.calls == 5
        documents = [scripted.journal.document(result.run_id, number) for number in range(3)]
        assert documents == ["text of 1", "text of 2", "text of 3"]
        for row in rows:
            reply = scripted.journal.payload(row.run, row.outcome["texts"][0][1]["n"]).body
            assert reply == f"text of {row.step}"


def test_calls_made_together_do_not_each_find_the_same_money(tmp_path: Path) -> None:
    """A request that is open holds its reservation against those of the other calls."""
    first, asked = threading.Event(), list[str]()

    class Slow(Writer):
        def ask(self, call: ModelCall) -> Reply:
            if call.kind == "text":
                first.set()
                assert refused.wait(FUSE_S)
            return super().ask(call)

    refused = threading.Event()

    @tool("notes.sum", effect="read")
    def summed(page: int, context: ToolContext) -> str:
        """Sum up."""
        if page == 2:
            assert first.wait(FUSE_S)
        try:
            return context.ask(f"sum up page {page}")
        except ToolError as error:
            asked.append(str(error))
            raise
        finally:
            refused.set()

    limits = Limits(token_budget=6_000, reply_tokens=2_990)
    model = Slow(reads(2, "notes.sum"), "All.")
    with Engine(model, [summed], tmp_path / "runs.db", builtins=False) as scripted:
        drive(scripted, "sync", limits=limits)
        assert len(asked) == 1 and "too little" in asked[0]


def test_a_script_is_asked_in_the_order_of_the_calls(
    begun_at_first: tuple[list[int], list[threading.Event]], tmp_path: Path
) -> None:
    """Its n-th reply is for the n-th request, so tools that may ask are called one after the other there."""

    @tool("notes.sum", effect="read")
    def summed(page: int, context: ToolContext) -> str:
        """Sum up."""
        return context.ask(f"sum up page {page}")

    script = [reads(3, "notes.sum"), "one", "two", "three", "All."]
    with engine(tmp_path, script, [summed]) as scripted:
        result = drive(scripted, "async")
        assert len(groups_of(scripted, result)) == 1
        documents = [scripted.journal.document(result.run_id, number) for number in range(3)]
        assert documents == ["one", "two", "three"] and begun_at_first[0] == []


# -- deadlines, cancel, questions, leaving: what is not asked for any more is given up ------------------------------


class Hanging:
    """A tool whose calls for one page hang until they are let go or, if async, cancelled."""

    def __init__(self, form: str, page: int, *, timeout_s: float | None = None) -> None:
        self.page, self.form = page, form
        self.begun, self.released, self.stopped = threading.Event(), threading.Event(), threading.Event()
        function = self.awork if form == "async" else self.work
        self.tool = read_tool(function, timeout_s=timeout_s)

    def work(self, page: int) -> str:
        """Hang."""
        if page == self.page:
            self.begun.set()
            assert self.released.wait(FUSE_S)
            self.stopped.set()
        return f"page {page}"

    async def awork(self, page: int) -> str:
        """Hang until cancelled."""
        if page == self.page:
            self.begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.stopped.set()
        return f"page {page}"


@FORMS
@DRIVERS
def test_a_call_beyond_its_deadline_fails_and_the_others_have_their_results(
    driver: str, form: str, tmp_path: Path
) -> None:
    """The second of three hangs."""
    work = Hanging(form, 2, timeout_s=0.05)
    with engine(tmp_path, [reads(3), "All."], [work.tool]) as scripted:
        result = drive(scripted, driver)
        rows = [row for row in judged(scripted, result) if row.trigger == "execute"]
        assert [row.outcome.get("error") for row in rows] == [None, "timeout", None]
        assert [row.outcome.get("left", 0) for row in rows] == [0, int(form == "sync"), 0]
        work.released.set()
        assert work.stopped.wait(FUSE_S)


@FORMS
@DRIVERS
def test_cancelling_ends_every_call_that_is_open(
    driver: str, form: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Async ones clean up; a sync one is left with a line in the log. The run ends as cancelled, with nothing of them recorded."""
    work = Hanging(form, 3)

    def hook(event: Any) -> None:
        if isinstance(event, TransitionTaken) and event.trigger == "execute":
            assert work.begun.wait(FUSE_S)
            with engine(tmp_path, []) as other:
                other.cancel(event.run_id)

    caplog.set_level(logging.WARNING, "paor")
    with engine(tmp_path, [reads(3), "All."], [work.tool], hooks=[hook]) as scripted:
        result = drive(scripted, driver)
        rows = judged(scripted, result)
        assert (result.state, result.reason) == ("Failed", "cancelled")
        assert sum(row.trigger == "execute" for row in rows) < 3
        if form == "sync":
            assert "is left running" in caplog.text
            work.released.set()
        assert work.stopped.wait(FUSE_S)


@pytest.mark.parametrize("after", range(14))
@DRIVERS
def test_a_run_that_is_cancelled_at_any_row_ends_with_the_next(
    driver: str, after: int, tmp_path: Path
) -> None:
    """Nothing is recorded of calls that have ended before their turn."""
    seen: list[str] = []

    def hook(event: Any) -> None:
        if isinstance(event, TransitionTaken) and event.seq == after and not seen:
            seen.append(event.run_id)
            with engine(tmp_path, []) as other:
                other.cancel(event.run_id)

    with (
        nothing_left_behind(),
        engine(
            tmp_path, [reads(3), "All."], [read_tool(lambda page: f"page {page}")], hooks=[hook]
        ) as scripted,
    ):
        result = drive(scripted, driver)
        rows = judged(scripted, result)
        assert result.reason == "cancelled" and rows[-1].outcome["kind"] == "cancelled"
        told = [row.seq for row in rows if row.trigger == "execute" and row.seq > after + 1]
        assert told == [], "one row may have been written with the one that was seen"


@FORMS
@DRIVERS
def test_a_question_of_one_call_gives_the_others_up_until_it_is_answered(
    driver: str, form: str, tmp_path: Path
) -> None:
    """The run waits with nothing left running; once answered all are read, those that were given up for the second time."""
    hanging = Hanging(form, 2)
    answers: list[Any] = []

    @tool("notes.ask", effect="read")
    def ask(page: int, context: ToolContext) -> str:
        """Ask."""
        if context.resumption is None:
            assert hanging.begun.wait(FUSE_S)
            raise AnswerNeeded("Which edition?", {"type": "string"})
        answers.append(context.resumption.content)
        hanging.page = 0
        return "the second edition"

    calls = call_tools(step("notes.ask", page=1), step("notes.read", page=2), step("notes.read", page=3))
    with engine(tmp_path, [calls, "All."], [ask, hanging.tool]) as scripted:
        hanging.begun.clear()
        result = drive(scripted, driver)
        assert result.status == "waiting"
        if form == "async":
            assert hanging.stopped.is_set()
        hanging.released.set()
        assert hanging.stopped.wait(FUSE_S)
        hanging.page = 0
        result = scripted.resume(result.run_id, answer="the second")
        rows = judged(scripted, result)
        assert answers == ["the second"] and result.state == "Done"
        assert [row.outcome["ok"] for row in rows if row.trigger == "execute"] == [True, True, True]


@DRIVERS
def test_reads_that_name_what_they_have_begun_are_called_again_in_their_group(
    driver: str, tmp_path: Path
) -> None:
    """Each begins once, all at the same time, and nobody is asked."""
    begun, looked = list[int](), list[Any]()
    all_begun = threading.Barrier(3)

    @tool("notes.read", effect="read")
    def work(page: int, context: ToolContext) -> str:
        """Read a page."""
        if context.resumption is None:
            begun.append(page)
            all_begun.wait(FUSE_S)
            raise AnswerNeeded("It is being read.", state=page, looks_only=True)
        looked.append(context.resumption.state)
        return f"page {page}"

    with (
        nothing_left_behind(),
        Engine(Writer(reads(3), "All."), [work], tmp_path / "runs.db", builtins=False) as scripted,
    ):
        result = drive(scripted, driver)
        rows = judged(scripted, result)
        assert (result.state, sorted(begun), looked) == ("Done", [1, 2, 3], [1, 2, 3])
        walk = ["specify", "wait", "provide", "execute", "observe"]
        assert [row.trigger for row in rows[1:18]] == [*[*walk, "next_step"] * 2, *walk]


def test_a_stream_that_is_closed_leaves_no_task_behind(tmp_path: Path) -> None:
    """Its calls are cancelled and have cleaned up when the stream is closed; the run goes on with a resume."""
    work = Hanging("async", 2)

    async def watch() -> str:
        events: Any = scripted.astream("Read all", profile="native", on_close="stop")
        async for event in events:
            if isinstance(event, TransitionTaken) and event.trigger == "execute":
                await asyncio.to_thread(work.begun.wait, FUSE_S)
                break
        await events.aclose()
        assert work.stopped.is_set()
        mine = asyncio.current_task()
        assert [task for task in asyncio.all_tasks() if "TimedCall" in repr(task) and task is not mine] == []
        return str(event.run_id)

    with engine(tmp_path, [reads(3), "All."], [work.tool]) as scripted:
        run_id = asyncio.run(watch())
        work.page = 0
        result = scripted.resume(run_id)
        assert result.state == "Done"
        judged(scripted, result)


@FORMS
def test_a_stream_that_is_closed_stops_the_calls_of_its_threads(
    form: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """An async tool cleans up; a sync one cannot be ended from outside: the log says that it was left."""
    work = Hanging(form, 2)
    caplog.set_level(logging.WARNING, "paor")
    with engine(tmp_path, [reads(3), "All."], [work.tool]) as scripted, nothing_left_behind():
        events: Any = scripted.stream("Read all", profile="native", on_close="stop")
        for event in events:
            if isinstance(event, TransitionTaken) and event.trigger == "execute":
                assert work.begun.wait(FUSE_S)
                break
        events.close()
        if form == "sync":
            assert "was given up and is left running" in caplog.text
            work.released.set()
        assert work.stopped.wait(10)


# -- crashes -------------------------------------------------------------------------------------------------------


def page_of(page: int) -> str:
    """Read a page."""
    return f"page {page}"


ROWS = 19
"""Of a run of four reads in one reply."""


@pytest.mark.parametrize("after", range(-1, ROWS - 1))
def test_a_run_that_is_killed_at_any_row_ends_as_if_nothing_had_happened(after: int, tmp_path: Path) -> None:
    """What was read ahead is lost with the process and read again; rows, documents and totals are those of a run without."""

    def make(name: str, hooks: Sequence[Any] = (), ids: Any = None) -> Engine:
        (tmp_path / name).mkdir(exist_ok=True)
        options: dict[str, Any] = {"hooks": hooks, "ids": ids} if ids is not None else {"hooks": hooks}
        return engine(tmp_path / name, [reads(4), "All."], [read_tool(page_of)], **options)

    def hook(event: Any) -> None:
        seq = event.seq if isinstance(event, TransitionTaken) else -1
        if seq == after:
            die()

    def child() -> None:
        with make("killed", [hook]) as scripted:
            drive(scripted, "sync")

    with make("whole") as scripted:
        whole = what_counts(scripted, drive(scripted, "sync"))
        assert len(whole["rows"]) == ROWS
    assert in_child(child) == signal.SIGKILL
    with make("killed", ids=RandomIds()) as scripted:
        assert scripted.journal.verify() == []
        result = scripted.resume(scripted.journal.runs()[0].run_id)
        judged(scripted, result)
        found = what_counts(scripted, result)
        assert found.pop("keys")[1] == whole.pop("keys")[1]
        assert found == whole


def test_reads_that_were_ahead_of_a_killed_process_are_made_again(tmp_path: Path) -> None:
    """Killed in the first call, when the others have ended: all of them are made again, and each counts once."""

    def make(*, dies: bool) -> Engine:
        ended = threading.Barrier(4)

        def work(page: int) -> str:
            with (tmp_path / "effects").open("a") as file:
                file.write(f"{page}\n")
            if dies:
                ended.wait(FUSE_S)
                die()
            return f"page {page}"

        return engine(tmp_path, [reads(4), "All."], [read_tool(work)], ids=RandomIds())

    def child() -> None:
        with make(dies=True) as scripted:
            drive(scripted, "sync")

    assert in_child(child) == signal.SIGKILL
    with make(dies=False) as scripted:
        result = scripted.resume(scripted.journal.runs()[0].run_id)
        assert result.state == "Done" and result.steps == 4
        judged(scripted, result)
    assert sorted((tmp_path / "effects").read_text().split()) == sorted("12341234")
