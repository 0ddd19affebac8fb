"""Deadlines of tools: what a call comes to that takes too long, in every form and effect, and what becomes of it afterwards."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from paor import Engine, Journal, Limits, ModelCall, Reply, Result, Task, Tool, ToolContext, replay, tool
from paor.audit import Transition
from paor.cli import main
from paor.errors import NotStarted, TimedOut, ToolError, UsageError
from paor.events import TransitionTaken
from paor.testing import RandomIds, SteppingClock

from ..lifecycle.test_resume import die, in_child
from ..support.worlds import CONTINUE, PARAMETERS, SELECT, STOP, SUCCESS, engine
from .inside import GRACE_S, ChildProcess, Effect, Timing, wait_for

WORK = [SELECT("notes.work"), PARAMETERS(page=1), STOP, SUCCESS]
DRIVERS = pytest.mark.parametrize("driver", ["sync", "async"])
FORMS = pytest.mark.parametrize("form", ["sync", "async"])
FEW_DRIVERS = pytest.mark.parametrize("driver", ["sync", pytest.param("async", marks=pytest.mark.whole)])
EFFECTS = pytest.mark.parametrize("effect", ["read", "idempotent", "once"])
SOON = 0.05
"""Seconds that a tool may take which never ends by itself."""


class Begun(SteppingClock):
    """A clock by which the sync driver counts a call's time from when its tool has begun, however busy the machine is."""

    def __init__(self, begun: threading.Semaphore) -> None:
        super().__init__()

        def wait(over: Any, seconds: float | None) -> None:
            if seconds != GRACE_S:
                begun.acquire(timeout=60)
            wait_for(over, seconds)

        self.timing = Timing(wait=wait)


class Hanging:
    """A tool that hangs until it is let go, however it is asked to stop."""

    def __init__(self, form: str = "sync", effect: Effect = "read", **options: Any) -> None:
        self.released, self.ended = threading.Event(), threading.Event()
        self.begun = threading.Semaphore(0)
        self.keys: list[str] = []
        options.setdefault("timeout_s", SOON)
        self.tool = tool("notes.work", effect=effect, **options)(self.awork if form == "async" else self.work)

    def work(self, page: int, context: ToolContext) -> str:
        """Hang."""
        self.keys.append(context.idempotency_key)
        self.begun.release()
        self.released.wait(60)
        self.ended.set()
        return "too late"

    async def awork(self, page: int, context: ToolContext) -> str:
        """Hang, whoever cancels it."""
        self.keys.append(context.idempotency_key)
        self.begun.release()
        while not self.released.is_set():
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0.005)
        self.ended.set()
        return "too late"


@contextmanager
def hanging(
    folder: Path, form: str = "sync", effect: Effect = "read", **options: Any
) -> Iterator[tuple[Hanging, Engine]]:
    """Give a tool that hangs and an engine that has it; it is let go at the end."""
    given = {name: options.pop(name) for name in ("retries", "reconcile", "timeout_s") if name in options}
    work = Hanging(form, effect, **given)
    clock: Callable[[Hanging], Any] = options.pop("clock", lambda work: Begun(work.begun))
    options["clock"] = clock(work)
    with engine(folder, options.pop("script", WORK), [work.tool], **options) as scripted:
        try:
            yield work, scripted
        finally:
            work.released.set()


def run(scripted: Engine, driver: str, work: Hanging | None = None) -> Result:
    """Run on either driver; what hangs on the event loop is let go once the run has ended."""

    async def arun() -> Result:
        result = await scripted.arun("Work")
        if work is not None:
            work.released.set()
        return result

    return asyncio.run(arun()) if driver == "async" else scripted.run("Work")


def judged(scripted: Engine, result: Result) -> list[Transition]:
    """Assert that the journal holds, and return the rows of the run's calls."""
    assert scripted.journal.verify() == []
    assert replay(scripted.journal, result.run_id).identical
    return [row for row in scripted.journal.transitions(result.run_id) if row.request["kind"] == "tool"]


def error_of(scripted: Engine, row: Transition) -> str:
    """Return the error that the model is told of a call."""
    body = scripted.journal.payload(row.run, row.change["n"]).body
    error: str = json.loads(body or "{}")["result"]["error"]
    return error


# -- what it comes to ----------------------------------------------------------------------------------------------


@DRIVERS
@FORMS
@pytest.mark.parametrize("effect", ["read", "idempotent"])
def test_a_call_that_takes_too_long_is_an_error_that_the_model_sees(
    effect: Effect, form: str, driver: str, tmp_path: Path
) -> None:
    """And the run goes on; a result that comes later is nowhere."""
    with hanging(tmp_path, form, effect) as (work, scripted):
        result = run(scripted, driver, work)
        work.released.set()
        assert work.ended.wait(60)
        (row,) = judged(scripted, result)
        assert result.state == "Done" and not result.documents
        assert (row.trigger, row.outcome["error"], row.outcome["left"]) == ("execute", "timeout", 1)
        assert error_of(scripted, row) == "timed out after 0.05 s"
        assert "timed out after 0.05 s" in str(scripted.journal.payload(row.run, row.change["n"] + 1).body)


@DRIVERS
@FORMS
def test_a_once_call_that_takes_too_long_is_in_doubt_and_never_failed(
    form: str, driver: str, tmp_path: Path
) -> None:
    """The run waits, the row says that it was the deadline, and nothing is begun again by itself."""
    with hanging(tmp_path, form, "once", retries=3) as (work, scripted):
        result = run(scripted, driver, work)
        work.released.set()
        assert work.ended.wait(60)
        (row,) = judged(scripted, result)
        assert (result.status, row.trigger) == ("waiting", "wait")
        assert (row.outcome["kind"], row.outcome["why"], row.outcome["left"]) == ("in_doubt", "deadline", 1)
        assert result.waiting_for is not None and result.waiting_for.kind == "in_doubt"
        assert "timed out after 0.05 s" in result.waiting_for.message
        assert "left running" in result.waiting_for.message
        assert scripted.resume(result.run_id).status == "waiting" and len(work.keys) == 1
        done = scripted.resume(result.run_id, outcome="done", result="it was sent")
        assert done.state == "Done" and len(work.keys) == 1
        assert [document.read() for document in done.documents] == ["it was sent"]


@DRIVERS
def test_an_idempotent_call_is_tried_again_as_often_as_its_step_may(driver: str, tmp_path: Path) -> None:
    """With the same key, as after any other error."""
    with hanging(tmp_path, effect="idempotent", retries=2) as (work, scripted):
        rows = judged(scripted, run(scripted, driver))
        assert [row.trigger for row in rows] == ["retry_step", "retry_step", "execute"]
        assert len(work.keys) == 3 and len(set(work.keys)) == 1


@DRIVERS
@pytest.mark.parametrize("swallows", [False, True], ids=["raises", "returns"])
def test_an_async_tool_cleans_up_and_what_it_gives_then_does_not_count(
    swallows: bool, driver: str, tmp_path: Path
) -> None:
    """It is cancelled and waited for: nothing is left, no result is accepted, and another error hides no deadline."""
    log: list[str] = []

    @tool("notes.work", effect="once", timeout_s=SOON)
    async def work(page: int) -> str:
        """Work."""
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            await asyncio.sleep(0.01)
            log.append("cleaned up")
            if not swallows:
                raise NotStarted("as if nothing had begun") from None
        return "too late"

    with engine(tmp_path, WORK, [work]) as scripted:
        (row,) = judged(scripted, run(scripted, driver))
        assert log == ["cleaned up"]
        assert row.outcome["why"] == "deadline" and "left" not in row.outcome


@DRIVERS
def test_a_call_that_ends_in_time_is_as_without_a_deadline(driver: str, tmp_path: Path) -> None:
    """The same rows, byte for byte, with and without a bound; also for what a tool raises."""

    def work(page: int, context: ToolContext) -> str:
        """Work."""
        if "error" in context.objective:
            raise ToolError("page 1 is torn out")
        return f"page {page}"

    def rows(folder: str, bound: float | None) -> list[str]:
        (tmp_path / folder).mkdir()
        made = tool("notes.work", effect="read", timeout_s=bound)(work)
        with engine(tmp_path / folder, WORK * 2, [made]) as scripted:
            runs = [
                asyncio.run(scripted.arun(objective)) if driver == "async" else scripted.run(objective)
                for objective in ("Work", "Work to an error")
            ]
            return [row.hash for each in runs for row in scripted.journal.transitions(each.run_id)]

    assert rows("with", 60) == rows("without", None)


class Patient(SteppingClock):
    """A clock by which the driver waits however long a call takes, as one does that gets no processor."""

    timing = Timing(wait=lambda over, seconds: over.result(60))


@EFFECTS
def test_a_result_after_its_time_is_late_however_slow_the_driver_is(effect: Effect, tmp_path: Path) -> None:
    """The call's own time decides, not who was faster; and nothing is asked for it any more."""
    contexts: list[ToolContext] = []

    @tool("notes.work", effect=effect, timeout_s=SOON)
    def work(page: int, context: ToolContext) -> str:
        """Work."""
        contexts.append(context)
        time.sleep(1.5 * SOON)
        return "too late"

    with engine(tmp_path, WORK, [work], clock=Patient()) as scripted:
        result = scripted.run("Work")
        (row,) = judged(scripted, result)
        assert row.outcome.get("error", row.outcome.get("why")) == (
            "deadline" if effect == "once" else "timeout"
        )
        assert not result.documents and "left" not in row.outcome
        assert contexts[0].stopped() == "the call was given up"


@DRIVERS
def test_an_exit_or_an_odd_error_within_the_time_is_the_calls_own(driver: str, tmp_path: Path) -> None:
    """As without a deadline: the host goes on."""
    for number, error in enumerate((SystemExit(3), asyncio.CancelledError(), StopIteration(1))):

        async def work(page: int, raised: BaseException = error) -> str:
            raise raised

        parameters = {"type": "object", "properties": {"page": {}}}
        made = Tool("notes.work", parameters=parameters, run=work, effect="read", timeout_s=60)
        (tmp_path / str(number)).mkdir()
        with engine(tmp_path / str(number), WORK, [made]) as scripted:
            (row,) = judged(scripted, run(scripted, driver))
            assert row.outcome["error"] == "tool_error"


# -- which bound holds ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("own", "limit", "holds"),
    [(None, 0.02, 0.02), (0.02, 60, 0.02), (60, 0.02, 0.02), (30.5, 60, None), (None, None, None)],
)
def test_the_shorter_bound_holds_and_the_tool_is_told(
    own: float | None, limit: float | None, holds: float | None, tmp_path: Path
) -> None:
    """Of the tool's own and the run's; neither lengthens the other."""
    told: list[float | None] = []

    @tool("notes.work", effect="read", timeout_s=own)
    def work(page: int, context: ToolContext) -> str:
        """Work."""
        told.append(context.timeout_s)
        while holds is not None and context.stopped() is None:
            time.sleep(0.002)
        return "worked"

    with engine(tmp_path, WORK, [work], limits=Limits(tool_timeout_s=limit)) as scripted:
        result = scripted.run("Work")
        (row,) = judged(scripted, result)
        assert told == [min((bound for bound in (own, limit) if bound is not None), default=None)]
        assert row.outcome.get("error") == ("timeout" if holds is not None else None)
        assert "left" not in row.outcome, "it has stopped when it was asked to"


class Spending(Begun):
    """A clock by which a run has worked for as long as a test says."""

    def __init__(self, begun: threading.Semaphore, used_us: Callable[[], int]) -> None:
        super().__init__(begun)
        self._used_us = used_us

    def active_us(self) -> int:
        return self._used_us()


def asking(scripted: Engine, before: Callable[[ModelCall], object]) -> None:
    """Do something before each request to the model."""
    ask = scripted.model.ask  # type: ignore[union-attr]

    def asked(call: ModelCall) -> Reply:
        before(call)
        return ask(call)

    scripted.model.ask = asked  # type: ignore[method-assign, union-attr]


@DRIVERS
def test_the_time_budget_ends_a_call_that_has_a_deadline(driver: str, tmp_path: Path) -> None:
    """The row says so, and the run then ends by its budget."""
    limits = Limits(time_budget_s=10, tool_timeout_s=60)
    asked: list[ModelCall] = []

    def clock(work: Hanging) -> Spending:
        return Spending(work.begun, lambda: 10_100_000 if work.keys else 9_500_000 if len(asked) > 1 else 0)

    with hanging(tmp_path, timeout_s=None, limits=limits, clock=clock) as (work, scripted):
        asking(scripted, asked.append)
        result = run(scripted, driver)
        (row,) = judged(scripted, result)
        assert (result.state, result.reason) == ("Failed", "time_budget")
        assert error_of(scripted, row).endswith(": the time budget is used up") and len(work.keys) == 1


def test_a_call_is_not_begun_when_no_time_is_left(tmp_path: Path) -> None:
    """So of a once tool nothing is in doubt."""
    limits = Limits(time_budget_s=1, tool_timeout_s=60)
    asked: list[ModelCall] = []

    def clock(work: Hanging) -> Spending:
        return Spending(work.begun, lambda: 1_000_001 if len(asked) > 1 else 0)

    with hanging(tmp_path, effect="once", limits=limits, clock=clock) as (work, scripted):
        asking(scripted, asked.append)
        result = scripted.run("Work")
        (row,) = judged(scripted, result)
        assert (row.trigger, row.outcome["error"]) == ("execute", "timeout") and not work.keys
        assert (result.state, result.reason) == ("Failed", "time_budget")


def test_a_task_of_a_workflow_is_no_call_that_times_out(tmp_path: Path) -> None:
    """The bound holds for each call of its run, however long they take together."""
    seconds, made = iter(range(0, 1000, 3)), list[float | None]()

    @tool("notes.work", effect="read")
    def work(page: int, context: ToolContext) -> str:
        """Work; each look at the clock is three seconds later, so that a call takes three of them."""
        made.append(context.timeout_s)
        return f"page {page}"

    clock = SteppingClock()
    clock.timing = Timing(now_s=lambda: float(next(seconds)))  # type: ignore[attr-defined]
    script = [*WORK[:2], CONTINUE, WORK[0], PARAMETERS(page=2), STOP, SUCCESS, SUCCESS]
    with engine(tmp_path, script, [work], clock=clock) as scripted:
        limits = Limits(tool_timeout_s=5, completion_review="rules")
        result = scripted.run_workflow("Work", tasks=[Task("Work twice")], limits=limits)
        assert result.state == "Done" and made == [5, 5] and next(seconds) > 6


@pytest.mark.parametrize(
    "value", [0, -1, float("nan"), float("inf"), 1e9, True, "5", 10**400, pytest.param(10**5000, id="huge")]
)
def test_a_bound_that_is_none_is_refused(value: Any) -> None:
    """One line, when it is given."""
    with pytest.raises(UsageError, match="timeout_s") as found:
        tool("notes.work", timeout_s=value)(lambda: "worked")
    assert "\n" not in str(found.value)
    with pytest.raises(UsageError, match="tool_timeout_s") as told:
        Limits(tool_timeout_s=value)
    assert "\n" not in str(told.value)


# -- what it asks and who cancels it -------------------------------------------------------------------------------


@DRIVERS
@FORMS
@EFFECTS
def test_a_cancel_reaches_a_call_that_has_a_deadline(
    effect: Effect, form: str, driver: str, tmp_path: Path
) -> None:
    """Also a sync tool, which is left; of a once tool the row says that its effect is in doubt."""
    with hanging(
        tmp_path, form, effect, timeout_s=60, clock=lambda work: SteppingClock(), ids=RandomIds()
    ) as (work, scripted):

        def cancel() -> None:
            work.begun.acquire(timeout=60)
            scripted.cancel(scripted.journal.runs()[0].run_id)

        canceller = threading.Thread(target=cancel)
        canceller.start()
        result = run(scripted, driver, work)
        canceller.join(60)
        (row,) = judged(scripted, result)
        assert (result.state, result.reason) == ("Failed", "cancelled")
        assert row.outcome["left"] == 1
        assert row.outcome.get("in_doubt") == (1 if effect == "once" else None)


def test_what_is_left_asks_no_model_and_writes_nothing(tmp_path: Path) -> None:
    """Its requests are refused, and a reply that was under way is not recorded: the journal is the driver's."""
    released, answered, told = threading.Event(), threading.Event(), list[str]()
    asking_begun = threading.Semaphore(0)

    @tool("notes.work", effect="read", timeout_s=SOON)
    def work(page: int, context: ToolContext) -> str:
        """Work."""
        for _ in range(2):
            try:
                told.append(context.ask("a text"))
            except ToolError as error:
                told.append(str(error))
        answered.set()
        return "too late"

    script = [*WORK[:2], "A text.", *WORK[2:]]
    with engine(tmp_path, script, [work], clock=Begun(asking_begun)) as scripted:

        def slow(call: ModelCall) -> None:
            if call.kind == "text":
                asking_begun.release()
                released.wait(60)

        asking(scripted, slow)
        result = scripted.run("Work")
        before = scripted.journal.reader.query("SELECT count(*) FROM payloads")
        released.set()
        assert answered.wait(60)
        (row,) = judged(scripted, result)
        assert told == ["the call was given up; no model is asked any more"] * 2
        assert scripted.journal.reader.query("SELECT count(*) FROM payloads") == before
        assert "texts" not in row.outcome


def test_the_log_tells_when_a_call_is_left_and_when_it_has_ended(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One line each, with the call's key."""
    with caplog.at_level(logging.WARNING, "paor"), hanging(tmp_path) as (work, scripted):
        scripted.run("Work")
        assert [record.message.split(" after")[0].split(", which")[0] for record in caplog.records] == [
            f"call {work.keys[0]} of notes.work was given up and is left running"
        ]
        (thread,) = (each for each in threading.enumerate() if each.name == "paor-tool notes.work")
        work.released.set()
        thread.join(60)
        assert (
            f"call {work.keys[0]} of notes.work, which was left running, has ended"
            in caplog.records[1].message
        )


# -- its own reconciliation ----------------------------------------------------------------------------------------


@DRIVERS
@pytest.mark.parametrize(
    ("says", "comes_to"),
    [("it was sent", "Done"), (None, "tried again"), (RuntimeError("no"), "waiting"), ("hangs", "waiting")],
    ids=["done", "not done", "raises", "hangs"],
)
def test_a_once_call_that_has_ended_is_settled_by_its_own_reconciliation(
    says: Any, comes_to: str, driver: str, tmp_path: Path
) -> None:
    """As after a lost driver; the reconciliation has the same time as the call."""
    begun: list[int] = []
    released = threading.Event()

    def look(key: str) -> Any:
        if says == "hangs":
            released.wait(60)
        if isinstance(says, Exception):
            raise says
        return says

    @tool("notes.work", timeout_s=SOON, reconcile=look, retries=1)
    async def work(page: int) -> str:
        """Work."""
        begun.append(page)
        if len(begun) == 1:
            await asyncio.sleep(3600)
        return "at the second attempt"

    with engine(tmp_path, WORK, [work]) as scripted:
        result = run(scripted, driver)
        released.set()
        rows = judged(scripted, result)
        assert result.state == ("Executing" if comes_to == "waiting" else "Done")
        assert len(begun) == (2 if comes_to == "tried again" else 1)
        assert [row.trigger for row in rows] == {
            "Done": ["execute"],
            "tried again": ["retry_step", "execute"],
        }.get(comes_to, ["wait"])


@pytest.mark.parametrize("says", ["it was sent", None], ids=["done", "not done"])
def test_what_a_call_asked_the_model_counts_whatever_its_reconciliation_says(
    says: Any, tmp_path: Path
) -> None:
    """The requests were made and paid."""

    @tool("notes.work", timeout_s=60, reconcile=lambda key: says)
    def work(page: int, context: ToolContext) -> str:
        """Work."""
        context.ask("a text")
        raise TimedOut("silent")

    with engine(tmp_path, [*WORK[:2], "A text.", *WORK[2:]], [work]) as scripted:
        (row,) = judged(scripted, scripted.run("Work"))
        assert len(row.outcome["texts"]) == 1 and row.outcome["tokens_in"] > 0


def test_a_once_call_that_was_left_is_not_asked_about(tmp_path: Path) -> None:
    """It may still do what its reconciliation would deny now."""
    asked: list[str] = []
    with hanging(tmp_path, effect="once", retries=1, reconcile=asked.append) as (work, scripted):
        result = scripted.run("Work")
        (row,) = judged(scripted, result)
        assert row.outcome["why"] == "deadline" and not asked and len(work.keys) == 1


# -- processes that die --------------------------------------------------------------------------------------------


class OnLog(logging.Handler):
    """Do something with the first log line that contains some words."""

    def __init__(self, words: str, act: Callable[[], None]) -> None:
        super().__init__()
        self.words, self.act = words, act

    def emit(self, record: logging.LogRecord) -> None:
        """Look at a line."""
        if self.words in record.getMessage():
            self.act()


@pytest.mark.parametrize(
    "effect", ["once", *(pytest.param(effect, marks=pytest.mark.whole) for effect in ("read", "idempotent"))]
)
@pytest.mark.parametrize(
    "when", ["between the deadline and its row", "after its row, while the call still runs"]
)
def test_a_process_that_is_killed_around_a_deadline_repeats_no_once_effect(
    when: str, effect: Effect, tmp_path: Path
) -> None:
    """Killed with SIGKILL: of a once effect the run waits and nothing is begun; any other may be made again."""

    def begun(folder: Path) -> int:
        return len((folder / "begun").read_text().split())

    def made(folder: Path, *, hangs: bool) -> Tool:
        @tool("notes.work", effect=effect, timeout_s=SOON if hangs else None)
        def work(page: int, context: ToolContext) -> str:
            """Work."""
            with (folder / "begun").open("a") as file:
                file.write(f"{context.idempotency_key}\n")
            if hangs:
                time.sleep(60)
            return "worked"

        return work

    def lost() -> None:
        def look(event: Any) -> None:
            if isinstance(event, TransitionTaken) and event.trigger in ("execute", "wait"):
                die()

        if when.startswith("between"):
            logging.getLogger("paor").addHandler(OnLog("is left running", die))
        hooks = [] if when.startswith("between") else [look]
        engine(tmp_path, WORK, [made(tmp_path, hangs=True)], hooks=hooks).run("Work")

    assert in_child(lost) == signal.SIGKILL
    with engine(tmp_path, WORK, [made(tmp_path, hangs=False)], ids=RandomIds()) as scripted:
        run_id = scripted.journal.runs()[0].run_id
        result = scripted.resume(run_id)
        rows = judged(scripted, result)
        if effect != "once":
            assert result.state == "Done" and begun(tmp_path) == (2 if when.startswith("between") else 1)
            return
        assert result.status == "waiting" and begun(tmp_path) == 1
        why = "driver_lost" if when.startswith("between") else "deadline"
        assert [row.outcome["why"] for row in rows] == [why]


# -- the journal and who reads it ----------------------------------------------------------------------------------


@pytest.mark.parametrize("effect", ["once", pytest.param("read", marks=pytest.mark.whole)])
def test_what_was_timed_out_is_told_everywhere(
    effect: Effect, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`show`, `why`, `doctor`, the export and its import."""
    monkeypatch.setenv("COLUMNS", "250")
    with hanging(tmp_path, effect=effect) as (_, scripted):
        result = scripted.run("Work")
        (row,) = judged(scripted, result)
    place = ["--journal", scripted.journal.path]

    def said(*arguments: str) -> str:
        assert main([*arguments, *place]) in (0, 5)
        return capsys.readouterr().out

    shown = said("show", result.run_id)
    assert "left running" in shown and ("deadline" if effect == "once" else "timeout") in shown
    why = said("why", result.run_id, str(row.seq))
    assert "left running" in why and ("given up at its deadline" if effect == "once" else "timeout") in why
    assert "1 call was left running" in said("doctor")
    lines = said("export", result.run_id)
    with Journal(tmp_path / "other.db") as other:
        other.import_lines(lines.encode().splitlines(keepends=True))
        assert other.verify() == [] and replay(other, result.run_id).identical


@pytest.mark.parametrize("effect", ["read", "once"])
def test_a_tool_that_says_itself_that_its_time_is_over_is_recorded_alike(
    effect: Effect, tmp_path: Path
) -> None:
    """So a script can have a call time out without anybody waiting for it."""

    @tool("notes.work", effect=effect)
    def work(page: int) -> str:
        """Work."""
        raise TimedOut("the server was silent for 30 s")

    with engine(tmp_path, WORK, [work]) as scripted:
        result = scripted.run("Work")
        (row,) = judged(scripted, result)
        assert row.outcome.get("error", row.outcome.get("why")) == (
            "deadline" if effect == "once" else "timeout"
        )
        told = result.waiting_for.message if result.waiting_for is not None else error_of(scripted, row)
        assert "the server was silent for 30 s" in told and "left" not in row.outcome


# -- in a process of its own ---------------------------------------------------------------------------------------

MODULE = '''
import asyncio, os, signal, subprocess, sys, threading, time
from pathlib import Path
from paor import Tool, ToolContext, tool
from paor.errors import AnswerNeeded, EffectUnknown, NotStarted, TimedOut, ToolError

@tool("notes.work", effect="once", process=True)
def work(page: int, context: ToolContext, how: str = "", ids: set[int] = set()) -> dict:
    """Work."""
    place = Path(context.objective)
    place.joinpath("begun").open("a").write(f"{os.getpid()}\\\\n")
    print("printed")
    if how == "hang":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        place.joinpath("begun").open("a").write(f"{child.pid}\\\\n")
        time.sleep(60)
    if how == "die":
        os._exit(7)
    if how in ERRORS:
        raise ERRORS[how]
    if how == "bytes":
        return b"bytes"
    if how == "object":
        return object()
    if how == "ask":
        return context.ask("a text")
    if how == "stdin":
        return {"own": sys.stdin.read(), "started": subprocess.run(["cat"], capture_output=True, text=True).stdout}
    if how == "huge":
        return "x" * 7000
    if how == "lock":
        return {"n": 2**70, "lock": threading.Lock()}
    if how == "exits":
        return {"id": "R-7", "all": {Exits(), "x"}}
    if how == "leaves":
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        place.joinpath("begun").open("a").write(f"{child.pid}\\n")
    return {"page": page, "ids": sorted(ids), "key": context.idempotency_key, "env": os.environ.get("HERE"), "again": context.resumption and context.resumption.content}

class Exits:
    def __str__(self): raise SystemExit(3)

ERRORS = {"ToolError": ToolError("torn out"), "ValueError": ValueError("odd"), "NotStarted": NotStarted("busy"), "EffectUnknown": EffectUnknown("cut off"), "TimedOut": TimedOut("silent"), "exit": SystemExit(3), "AnswerNeeded": AnswerNeeded("Which?", {"type": "object"}, {"n": 1}, looks_only=True)}

@tool("notes.work", effect="read", process=True)
async def awork(page: int) -> str:
    """Work."""
    await asyncio.sleep(0)
    return f"page {page}"

def plain(**arguments):
    return arguments

class Wordless(ToolError):
    def __str__(self):
        raise RuntimeError("no words")

ERRORS |= {"asks odd": AnswerNeeded("Which?", {"type": "object"}, {1}), "wordless": Wordless()}

@tool("notes.first", effect="read", process=True)
def twice(page: int) -> str:
    """Work."""
    return "the first"

first = twice

@tool("notes.work", effect="read", process=True)
def twice(page: int) -> str:
    """Work."""
    return "the second"
'''


@pytest.fixture
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Give the module of the tools that run in a process of their own."""
    name = f"apart_{abs(hash(str(tmp_path)))}"
    (tmp_path / f"{name}.py").write_text(MODULE.replace("\\\\n", "\\n"))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("HERE", "yes")
    return __import__(name)


def working(folder: Path, made: Tool, **options: Any) -> Engine:
    """Return an engine that calls a tool once with some arguments."""
    arguments = {"page": 1} | options.pop("arguments", {})
    return engine(folder, [SELECT("notes.work"), PARAMETERS(**arguments), STOP, SUCCESS], [made], **options)


@FEW_DRIVERS
def test_a_tool_in_a_process_gives_what_it_would_give_here(
    driver: str,
    tmp_path: Path,
    apart: Any,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Arguments converted, the context's plain data, the environment; what it prints goes to standard error."""
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    for made, expected in ((apart.work, ["yes", [1, 2]]), (apart.awork, "page 1")):
        arguments = {"ids": [2, 1]} if made is apart.work else {}
        with working(tmp_path, made, arguments=arguments, ids=RandomIds()) as scripted:
            call = scripted.arun(str(tmp_path)) if driver == "async" else None
            result = asyncio.run(call) if call is not None else scripted.run(str(tmp_path))
            judged(scripted, result)
            (document,) = result.documents
            if made is apart.awork:
                assert document.read() == expected
            else:
                told = json.loads(str(document.read()))
                assert [told["env"], told["ids"]] == expected and told["key"] == f"{result.run_id}-1"
    assert "printed" in capfd.readouterr().err


def ended(pid: int) -> bool:
    """Return whether a process is gone, or gone but for who asks for its end."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().split(") ")[1][0] == "Z"
    except OSError:
        return True


def soon_ended(pid: int) -> bool:
    """Return whether a process is gone, once it is, and in less than the minute for which those of this file hang."""
    for _ in range(2000):
        if ended(pid):
            return True
        time.sleep(0.01)
    return False


@FEW_DRIVERS
def test_a_tool_in_a_process_is_killed_with_all_that_it_has_started(
    driver: str, tmp_path: Path, apart: Any
) -> None:
    """Nothing is left, although it ignores being asked."""
    made = Tool(
        "notes.work",
        parameters=apart.work.parameters,
        run=apart.work.run,
        typed=True,
        process=True,
        timeout_s=3 if driver == "async" else 60,
    )

    def wait(over: Any, seconds: float | None) -> None:
        """Have the deadline of the call pass when it hangs."""
        while seconds != GRACE_S and not (begun.exists() and begun.read_text().count("\n") == 2):
            time.sleep(0.002)
        wait_for(over, seconds if seconds == GRACE_S else 0)

    begun, clock = tmp_path / "begun", SteppingClock()
    clock.timing = Timing(wait=wait)  # type: ignore[attr-defined]
    with working(tmp_path, made, arguments={"how": "hang"}, clock=clock) as scripted:
        call = scripted.arun(str(tmp_path)) if driver == "async" else None
        result = asyncio.run(call) if call is not None else scripted.run(str(tmp_path))
        (row,) = judged(scripted, result)
        assert row.outcome["why"] == "deadline" and "left" not in row.outcome
    pids = [int(line) for line in (tmp_path / "begun").read_text().split()]
    assert len(pids) == 2
    assert all(soon_ended(pid) for pid in pids)


MEANINGS = {
    "ToolError": "tool_error",
    "ValueError": "tool_error",
    "exit": "tool_error",
    "ask": "tool_error",
    "NotStarted": "tool_error",
    "EffectUnknown": "tool_unsure",
    "die": "tool_unsure",
    "TimedOut": "deadline",
    "asks odd": "tool_error",
    "wordless": "tool_error",
    "AnswerNeeded": None,
}


@pytest.mark.parametrize(
    "how",
    [
        pytest.param(how, marks=() if how in ("ToolError", "die", "AnswerNeeded") else pytest.mark.whole)
        for how in MEANINGS
    ],
)
def test_what_a_tool_in_a_process_raises_means_what_it_means_here(
    how: str, tmp_path: Path, apart: Any
) -> None:
    """Also when its process dies: nobody knows then what it did."""
    with working(tmp_path, apart.work, arguments={"how": how}) as scripted:
        result = scripted.run(str(tmp_path))
        (row,) = judged(scripted, result)
        assert row.outcome.get("error", row.outcome.get("why")) == MEANINGS[how]
        if how == "AnswerNeeded":
            assert result.waiting_for is not None and result.waiting_for.message == "Which?"
            body = json.loads(scripted.journal.payload(row.run, row.outcome["asked"]["n"]).body or "{}")
            assert (body["state"], body["looksOnly"]) == ({"n": 1}, True)


@pytest.mark.whole
def test_a_tool_in_a_process_reads_nothing_of_what_its_driver_says(tmp_path: Path, apart: Any) -> None:
    """Neither it nor a program that it starts waits for input that never comes."""
    with working(
        tmp_path, apart.work, arguments={"how": "stdin"}, limits=Limits(tool_timeout_s=20)
    ) as scripted:
        result = scripted.run(str(tmp_path))
        judged(scripted, result)
        (document,) = result.documents
        assert json.loads(str(document.read())) == {"own": "", "started": ""}


@pytest.mark.whole
def test_what_a_process_returns_beyond_the_limit_is_not_read(
    tmp_path: Path, apart: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is refused where it was made; only the refusal comes over."""
    read: list[int] = []
    ask = ChildProcess.ask

    def asked(*given: Any) -> bytes:
        read.append(len(line := ask(*given)))
        return line

    monkeypatch.setattr(ChildProcess, "ask", asked)
    made = replace(apart.work, effect="read")
    with working(tmp_path, made, arguments={"how": "huge"}, limits=Limits(result_bytes=1000)) as scripted:
        (row,) = judged(scripted, scripted.run(str(tmp_path)))
        assert "at most 1000 are kept" in error_of(scripted, row) and read[0] < 1000


@pytest.mark.parametrize(
    ("how", "kept"),
    [
        ("huge", "x" * 1000),
        ("lock", '{"n":1180591620717411303424,"lock":"<lock>"}'),
        ("exits", '{"id":"R-7","all":"<set>"}'),
        ("bytes", b"bytes"),
        ("object", '"<object>"'),
    ],
    ids=["huge", "lock", "exits", "bytes", "object"],
)
def test_a_once_call_in_a_process_is_done_whatever_it_returned(
    how: str, kept: object, tmp_path: Path, apart: Any
) -> None:
    """What can be kept comes over."""
    with working(tmp_path, apart.work, arguments={"how": how}, limits=Limits(result_bytes=1000)) as scripted:
        result = scripted.run(str(tmp_path))
        (document,) = result.documents
        assert result.state == "Done" and document.read() == kept


def test_what_a_process_has_started_ends_with_its_call(tmp_path: Path, apart: Any) -> None:
    """Also when the call has ended well."""
    with working(tmp_path, apart.work, arguments={"how": "leaves"}) as scripted:
        assert scripted.run(str(tmp_path)).documents
    assert soon_ended(int((tmp_path / "begun").read_text().split()[1]))


def test_a_process_ends_when_its_driver_is_killed(tmp_path: Path, apart: Any) -> None:
    """What hangs does not outlive whoever waited for it, nor does what it has started."""

    def lost() -> None:
        def wait_and_die() -> None:
            begun = tmp_path / "begun"
            while not begun.exists() or begun.read_text().count("\n") < 2:
                time.sleep(0.01)
            die()

        threading.Thread(target=wait_and_die, daemon=True).start()
        working(tmp_path, apart.work, arguments={"how": "hang"}).run(str(tmp_path))

    assert in_child(lost) == signal.SIGKILL
    assert all(soon_ended(int(pid)) for pid in (tmp_path / "begun").read_text().split())


def test_a_function_that_no_process_can_import_is_refused(apart: Any) -> None:
    """Where it is declared; one whose module is gone is not started, for certain."""

    def within(page: int) -> str:
        """Work."""
        return "never"

    for function in (within, lambda page: "never", str, apart.work):
        with pytest.raises(UsageError, match="process=True needs a function"):
            Tool("notes.work", run=function, process=True)
    with pytest.raises(UsageError, match="process must be True or False"):
        Tool("notes.work", run=apart.plain, process=1)  # type: ignore[arg-type]
    main_module = sys.modules["__main__"]
    apart.plain.__module__ = "__main__"
    spec, main_module.__spec__ = main_module.__spec__, None
    try:
        with pytest.raises(UsageError, match="not the program that runs"):
            Tool("notes.work", run=apart.plain, process=True)
    finally:
        main_module.__spec__ = spec


@pytest.mark.whole
def test_a_function_that_is_gone_from_its_module_was_certainly_not_called(tmp_path: Path, apart: Any) -> None:
    """Of a once tool too nothing is in doubt."""
    made = Tool("notes.work", parameters={"properties": {"page": {}}}, run=apart.plain, process=True)
    file = Path(apart.__file__)
    file.write_text("")
    with working(tmp_path, made) as scripted:
        (row,) = judged(scripted, scripted.run("Work"))
        assert "cannot import" in error_of(scripted, row) and row.outcome["error"] == "tool_error"


# -- many runs -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "driver"),
    [
        ("async", "sync"),
        *(
            pytest.param(*pair, marks=pytest.mark.whole)
            for pair in (("sync", "sync"), ("sync", "async"), ("async", "async"))
        ),
    ],
)
@pytest.mark.parametrize("effect", ["once", pytest.param("read", marks=pytest.mark.whole)])
def test_no_run_is_held_no_late_result_accepted_and_nothing_begun_twice(
    effect: Effect, form: str, driver: str, tmp_path: Path
) -> None:
    """A tool that heeds nothing holds its run for its bound and a second; the quickest of three, as others need the processor, too."""
    held_s: list[float] = []
    while len(held_s) < 3 and min(held_s, default=60) > SOON + 1:
        folder = tmp_path / str(len(held_s))
        folder.mkdir()
        with hanging(folder, form, effect) as (work, scripted):
            began = time.monotonic()
            result = run(scripted, driver, work)
            held_s.append(time.monotonic() - began)
            work.released.set()
            assert work.ended.wait(60)
            (row,) = judged(scripted, result)
            assert row.outcome["left"] == 1 and not result.documents and len(work.keys) == 1
    assert min(held_s) < SOON + 1
