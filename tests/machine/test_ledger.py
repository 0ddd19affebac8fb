"""
The ledger of budgets: reserve before a request is made, settle with what it used, and count what the rows say.

The worlds here have a model whose prices are drawn, a tool that asks it for texts, and drivers that are lost anywhere.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paor import Engine, Journal, Limits, ModelCall, Reply, Result, Task, ToolContext, Usage, replay, tool
from paor.errors import ModelUnavailable, ToolError
from paor.machine import Counters
from paor.prompts.model import prompt_bytes
from paor.states.run import budgets
from paor.testing import RandomIds

from ..support.cases import BYTES_PER_TOKEN, reservation
from ..support.worlds import JOURNAL, MET, PARAMETERS, REFINE, REVIEW, SELECT

LARGE = 10**9


class Lost(BaseException):
    """The process is gone."""


class Priced:
    """
    A model that does what is asked, and whose n-th request of a run uses what is at place n.

    Args:
        prices: Tokens in, tokens out, and money in millionths; from the start again when they are used up.
        lost: Called with each request after it was answered; may raise `Lost`.
        met: Whether refinements say that the criterion is met.
    """

    name = "priced"

    def __init__(
        self,
        prices: Sequence[tuple[int, int, int]],
        lost: Callable[[ModelCall], None] = lambda call: None,
        *,
        met: bool = False,
    ) -> None:
        self.prices, self.lost, self.met = prices, lost, met
        self.calls: list[ModelCall] = []

    def ask(self, call: ModelCall) -> Reply:
        """Answer."""
        self.calls.append(call)
        page = call.number
        reply: Any = {
            "selection": SELECT("notes.ask"),
            "parameters": PARAMETERS(page=page),
            "refinement": REFINE("continue", criteria=[MET("all is there", met=self.met)]),
            "review": REVIEW("success"),
            "task_plan": {},
            "text": "a text",
        }[call.kind]
        tokens_in, tokens_out, cost = self.prices[call.number % len(self.prices)]
        self.lost(call)
        text = reply if isinstance(reply, str) else json.dumps(reply)
        return Reply(text, Usage(1, tokens_in, tokens_out, cost))

    async def aask(self, call: ModelCall) -> Reply:
        """Answer, after others had their turn."""
        await asyncio.sleep(0)
        return self.ask(call)


def asking(texts: int, *, fails: int = 0) -> Any:
    """Return a tool that asks for *texts* texts in each attempt; its first *fails* attempts of a process raise."""
    left = [fails]

    @tool("notes.ask", effect="read", label="text", retries=3, repeat_allowed=True)
    def ask(context: ToolContext, page: int) -> str:
        """Ask."""
        said = [context.ask(f"text {number}") for number in range(texts)]
        left[0] -= 1
        if left[0] >= 0:
            raise OSError("the disk is slow")
        return " ".join(said)

    return ask


def world(folder: Path, model: Any, made: Any, limits: Limits, **options: Any) -> Engine:
    """Return an engine of a new process on the folder's journal."""
    return Engine(
        model,
        [made],
        Journal(folder / JOURNAL, "off"),
        limits,
        builtins=False,
        **{"ids": RandomIds(), **options},
    )


def finished(folder: Path, make: Callable[[], Engine]) -> tuple[Engine, Result]:
    """Drive a run to its end, through as many lost drivers as there are."""
    for _ in range(200):
        scripted = make()
        try:
            runs = scripted.journal.runs()
            if runs:
                return scripted, scripted.resume(runs[0].run_id)
            return scripted, scripted.run("Read", ["all is there"])
        except Lost:
            scripted.close()
    raise AssertionError("the run does not end")


def totals(rows: Sequence[Any]) -> tuple[int, int, int, int]:
    """Return the sums of what the rows say was used: tokens in and out, cost, requests."""
    found = [0, 0, 0, 0]
    for row in rows:
        outcome = row.outcome
        for index, name in enumerate(("tokens_in", "tokens_out", "cost_micro")):
            found[index] += outcome.get(name, 0)
        asked = 1 if outcome["kind"] == "reply" else len(outcome.get("texts", ()))
        found[3] += outcome.get("calls", asked)
    return found[0], found[1], found[2], found[3]


def judge(journal: Journal, run_id: str) -> list[Any]:
    """Assert that totals are folds of the rows, and that the journal holds; return the rows."""
    rows = journal.transitions(run_id)
    for count in range(1, len(rows) + 1):
        last = rows[count - 1]
        used = (last.tokens_in, last.tokens_out, last.cost_micro, last.counters.get("calls", 0))
        assert used == totals(rows[:count])
    assert journal.verify() == []
    assert replay(journal, run_id).identical
    return rows


PRICES = st.lists(
    st.tuples(st.integers(0, 900), st.integers(0, 900), st.integers(0, 500)), min_size=1, max_size=12
)


@pytest.mark.whole
@settings(max_examples=60, deadline=None)
@given(
    prices=PRICES,
    token_budget=st.one_of(st.none(), st.integers(1, 20_000)),
    cost_budget=st.one_of(st.none(), st.floats(0.000001, 0.005)),
    reply_tokens=st.one_of(st.none(), st.integers(1, 1000)),
    texts=st.integers(0, 3),
    fails=st.integers(0, 2),
    crashes=st.lists(st.integers(0, 12), max_size=5),
)
def test_no_request_is_begun_that_does_not_fit_and_crashes_change_no_total(
    prices: list[tuple[int, int, int]],
    token_budget: int | None,
    cost_budget: float | None,
    reply_tokens: int | None,
    texts: int,
    fails: int,
    crashes: list[int],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """
    Overspent by what the one last request used above its reservation at most; without reservations, by its use.

    Lost drivers, lost replies and repeated attempts of a tool change no total of the run that nobody interrupted, as long
    as the tool itself does the same.
    """
    limits = Limits(
        token_budget=token_budget, cost_budget=cost_budget, reply_tokens=reply_tokens, max_steps=4
    )
    folder = tmp_path_factory.mktemp("ledger")
    whole, broken = folder / "whole", folder / "broken"
    whole.mkdir()
    broken.mkdir()
    with world(whole, Priced(prices), asking(texts), limits) as scripted:
        expected = scripted.run("Read", ["all is there"])
        rows = judge(scripted.journal, expected.run_id)
    left = list(crashes)

    def lost(call: ModelCall) -> None:
        if left:
            left[0] -= 1
            if left[0] < 0:
                left.pop(0)
                raise Lost

    scripted, result = finished(broken, lambda: world(broken, Priced(prices, lost), asking(texts), limits))
    with scripted:
        again = judge(scripted.journal, result.run_id)
        assert [(row.trigger, row.tokens_in, row.tokens_out, row.cost_micro) for row in again] == [
            (row.trigger, row.tokens_in, row.tokens_out, row.cost_micro) for row in rows
        ]
        assert (result.state, result.reason) == (expected.state, expected.reason)
    judge_bound(rows, limits)
    if fails:  # attempts that failed are settled, too: what they asked for was paid
        failing = folder / "failing"
        failing.mkdir()
        with world(failing, Priced(prices), asking(texts, fails=fails), limits) as scripted:
            judge_bound(judge(scripted.journal, scripted.run("Read").run_id), limits)


def judge_bound(rows: Sequence[Any], limits: Limits) -> None:
    """Assert that before every request it fitted, so that only the last one can have used too much."""
    before = Counters()
    for row in rows:
        used, own = before.tokens_in + before.tokens_out, row.tokens_in + row.tokens_out
        if row.outcome["kind"] == "reply":
            assert limits.token_budget is None or used < limits.token_budget
            assert limits.cost_budget_micro is None or before.cost_micro < limits.cost_budget_micro
            reserved = row.request.get("reserved")
            assert (reserved is None) is (limits.reply_tokens is None)
            if reserved is not None and limits.token_budget is not None:
                assert used + reserved <= limits.token_budget
                assert own <= limits.token_budget + max(0, own - used - reserved)
        if row.outcome["kind"] == "unaffordable":
            assert row.tokens_in + row.tokens_out == used
        before = Counters(tokens_in=row.tokens_in, tokens_out=row.tokens_out, cost_micro=row.cost_micro)


def reserved_of(call: ModelCall, limits: Limits) -> int:
    """Return what a request reserves."""
    return reservation(limits, Counters(), prompt_bytes(call.messages)).tokens


def sizes(folder: Path, *, texts: int = 1) -> list[int]:
    """Return what each request of a run without budgets would reserve with an allowance of 100 tokens."""
    folder.mkdir()
    model = Priced([(10, 10, 0)], met=True)
    with world(folder, model, asking(texts), Limits()) as scripted:
        scripted.run("Read", ["all is there"])
    return [reserved_of(call, Limits(reply_tokens=100)) for call in model.calls]


USED = 10_000
"""Tokens of each request in the next test."""


@pytest.mark.parametrize("number", range(5))
@pytest.mark.parametrize("spare", [-1, 0])
def test_a_request_is_made_exactly_when_it_fits(number: int, spare: int, tmp_path: Path) -> None:
    """Selection, parameters, the tool's text, refinement and review, each at and one token below its reservation."""
    needed = sizes(tmp_path / "measure")
    kinds = ["selection", "parameters", "text", "refinement", "review"]
    budget = USED * number + needed[number] + spare
    model = Priced([(USED // 2, USED // 2, 0)], met=True)
    limits = Limits(token_budget=budget, reply_tokens=100)
    assert max(needed) < USED, "each request uses so much that the earlier ones have fitted"
    with world(tmp_path, model, asking(1), limits) as scripted:
        result = scripted.run("Read", ["all is there"])
        rows = judge(scripted.journal, result.run_id)
        asked = [call.kind for call in model.calls]
        assert asked[: number + (spare == 0)] == kinds[: number + (spare == 0)]
        if spare == 0:
            return
        if kinds[number] == "text":
            call = next(row for row in rows if row.trigger == "execute")
            assert call.outcome["error"] == "tool_error"
        else:
            assert asked == kinds[:number]
            refused = [row for row in rows if row.outcome["kind"] == "unaffordable"]
            assert refused[0].request["kind"] == kinds[number]
            assert refused[0].request["reserved"] == needed[number]
            met = number > 3  # the refinement before it has said so
            assert (result.state, result.reason) == (
                ("Done", "criteria_met") if met else ("Failed", "token_budget")
            )


def test_an_unaffordable_refinement_leads_to_done_when_the_criteria_were_met_before(tmp_path: Path) -> None:
    """As a budget that is used up does: nothing is asked any more, and what was wanted is there."""

    class Again(Priced):
        def ask(self, call: ModelCall) -> Reply:
            reply = super().ask(call)
            if call.kind == "review":
                return Reply(json.dumps(REVIEW("retry", "more")), reply.usage)
            return reply

    model = Again([(10, 10, 0)] * 5 + [(LARGE, 0, 0)], met=True)
    limits = Limits(token_budget=LARGE + 200, reply_tokens=100)
    with world(tmp_path, model, asking(0), limits) as scripted:
        result = scripted.run("Read", ["all is there"])
        rows = judge(scripted.journal, result.run_id)
        assert (result.state, result.reason) == ("Done", "token_budget")
        assert [call.kind for call in model.calls][-2:] == ["selection", "parameters"]
        refused = [row for row in rows if row.outcome["kind"] == "unaffordable"]
        assert [(row.trigger, row.request["kind"]) for row in refused] == [
            ("conclude", "refinement"),
            ("finish", "review"),
        ]


def test_a_cost_budget_reserves_at_the_price_so_far(tmp_path: Path) -> None:
    """Before the first price is known nothing can be said; then a request that would cost too much is not made."""
    model = Priced([(100, 100, 2_000)])
    limits = Limits(cost_budget=0.01, reply_tokens=1000)
    with world(tmp_path, model, asking(0), limits) as scripted:
        result = scripted.run("Read")
        rows = judge(scripted.journal, result.run_id)
        assert result.reason == "cost_budget"
        assert [call.kind for call in model.calls] == ["selection"]
        assert rows[-1].outcome == {"kind": "unaffordable", "stop": "cost_budget"}
        reserved = rows[-1].request["reserved"]
        assert 2_000 + reserved * 10 > 10_000


def test_requests_that_are_open_at_once_hold_their_reservations_against_each_other(tmp_path: Path) -> None:
    """Of ten requests at once only those are made that fit together, with and without `reply_tokens`."""
    refused: list[str] = []

    @tool("notes.ask", effect="read")
    async def ask(context: ToolContext, page: int) -> str:
        """Ask ten times at once."""

        async def one(number: int) -> str:
            try:
                return await context.aask(f"text {number}")
            except ToolError as error:
                refused.append(str(error))
                return ""

        return " ".join(await asyncio.gather(*[one(number) for number in range(10)]))

    for reply_tokens, told in ((None, "used up"), (100, "too little for this request")):
        refused.clear()
        folder = tmp_path / f"reply{reply_tokens}"
        folder.mkdir()
        model = Priced([(10, 10, 0)])
        with world(folder, model, ask, Limits()) as scripted:
            scripted.run("Read")
            size = next(
                reserved_of(call, Limits(reply_tokens=reply_tokens))
                for call in model.calls
                if call.kind == "text"
            )
        (folder / JOURNAL).unlink()
        first = max(
            reserved_of(call, Limits(reply_tokens=reply_tokens))
            for call in model.calls
            if call.kind != "text"
        )
        budget = max(40 + 3 * size + size // 2, first + 40 if reply_tokens else 0)
        made = (budget - 40) // size if reply_tokens else -(-(budget - 40) // size)
        model = Priced([(10, 10, 0)])
        refused.clear()
        limits = Limits(token_budget=budget, reply_tokens=reply_tokens, max_steps=1)
        with world(folder, model, ask, limits) as scripted:
            scripted.run("Read")
        assert [call.kind for call in model.calls].count("text") == made < 10
        numbers = [call.number for call in model.calls if call.kind == "text"]
        assert len(set(numbers)) == len(numbers), "each request has a number of its own"
        assert len(refused) == 10 - made and all(told in text for text in refused)


def test_what_a_failed_request_of_a_tool_used_is_settled(tmp_path: Path) -> None:
    """A model may have used tokens before it failed."""

    class Failing(Priced):
        def ask(self, call: ModelCall) -> Reply:
            if call.kind == "text":
                raise ModelUnavailable("cut_stream", "the line broke", Usage(2, 70, 30, 5))
            return super().ask(call)

    with world(tmp_path, Failing([(10, 10, 0)]), asking(1), Limits(max_steps=1)) as scripted:
        result = scripted.run("Read")
        rows = judge(scripted.journal, result.run_id)
        attempts = [row.outcome for row in rows if row.source == "Executing"]
        assert len(attempts) == 4
        assert all(
            (found["calls"], found["tokens_in"], found["cost_micro"]) == (2, 70, 5) for found in attempts
        )


def test_the_time_of_a_tools_own_requests_counts_before_its_row(tmp_path: Path) -> None:
    """A tool that asks for hours is stopped at the time budget, although no row has been written since."""

    class Clock:
        us = 1_767_225_600_000_000

        def now_us(self) -> int:
            return self.us

        def active_us(self) -> int:
            return self.us

    clock = Clock()

    def late(call: ModelCall) -> None:
        clock.us += 1_000_000

    model = Priced([(1, 1, 0)], late)
    limits = Limits(time_budget_s=5, max_steps=1)
    with world(tmp_path, model, asking(30), limits, clock=clock) as scripted:
        result = scripted.run("Read")
        assert result.reason == "time_budget"
        assert len(model.calls) == 5


def test_the_estimate_of_a_prompt_is_a_third_of_its_bytes() -> None:
    """Rounded up, so that an empty prompt reserves the reply alone."""
    limits = Limits(reply_tokens=7)
    assert [reservation(limits, Counters(), size).tokens for size in (0, 1, 3, 4)] == [7, 8, 8, 9]
    assert BYTES_PER_TOKEN == 3


def test_a_replay_derives_every_reservation_and_every_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With another estimate both the numbers and the requests that were made or not come out otherwise."""
    needed = sizes(tmp_path / "measure", texts=0)
    limits = Limits(token_budget=USED + needed[1] - 1, reply_tokens=100)
    with world(tmp_path, Priced([(USED, 0, 0)]), asking(0), limits) as scripted:
        result = scripted.run("Read")
        judge(scripted.journal, result.run_id)
        monkeypatch.setattr(budgets, "BYTES_PER_TOKEN", 100)
        fields = [item.field for item in replay(scripted.journal, result.run_id).divergences]
        assert fields.count("request.reserved") == 2
        assert fields.count("request.refused") == 1


# -- a workflow's tasks ----------------------------------------------------------------------------------------------


class Working(Priced):
    """A model whose tasks answer at once; each request uses 100 tokens."""

    def ask(self, call: ModelCall) -> Reply:
        """Answer, or review."""
        self.calls.append(call)
        self.lost(call)
        reply = (
            {"action": None, "answer": "so"} if call.kind == "selection" else REVIEW("success", answer="so")
        )
        return Reply(json.dumps(reply), Usage(1, 50, 50, 20))


TASKS = [Task(f"Work {number}") for number in range(1, 6)]


def flow(folder: Path, limits: Limits, lost: Callable[[ModelCall], None] = lambda call: None) -> Engine:
    """Return an engine for workflows of `TASKS`; each of them is reviewed by the model, so that it makes two requests."""
    limits = limits.model_copy(update={"completion_review": "model"})
    return world(folder, Working([(0, 0, 0)], lost), asking(0), limits)


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(
    ("limits", "reason", "started"),
    [
        (Limits(), "model_stop", 5),
        (Limits(token_budget=450), "token_budget", 3),
        (Limits(token_budget=600), "token_budget", 3),
        (Limits(token_budget=2000), "model_stop", 5),
        (Limits(cost_budget=0.00009), "cost_budget", 3),
    ],
    ids=["none", "in a task", "between tasks", "enough", "money"],
)
def test_the_tasks_of_a_workflow_draw_from_one_budget(
    limits: Limits, reason: str, started: int, is_async: bool, tmp_path: Path
) -> None:
    """Each gets what is left; the sum of all is overspent by the last request at most, and is in the whole's rows."""
    with flow(tmp_path, limits) as scripted:
        if is_async:
            result = asyncio.run(scripted.arun_workflow("Work", tasks=TASKS, mode="react"))
        else:
            result = scripted.run_workflow("Work", tasks=TASKS, mode="react")
        runs = scripted.journal.runs()
        assert result.reason == reason
        assert len(runs) - 1 == started
        tasks = [run for run in runs if run.task]
        used = 0
        for run in reversed(tasks):
            left = scripted.journal.spec(run.run_id).limits.token_budget
            assert left == (None if limits.token_budget is None else limits.token_budget - used)
            used += sum(scripted.journal.transitions(run.run_id)[-1][13:15])
        whole = scripted.journal.transitions(result.run_id)
        settled = [row.outcome.get("tokens_in", 0) * 2 for row in whole if row.trigger == "execute"]
        assert sum(settled) == used
        spent = result.usage.tokens_in + result.usage.tokens_out
        assert spent == used + 100 * (reason == "model_stop")
        if limits.token_budget is not None:
            assert spent < limits.token_budget + 100
        assert scripted.journal.verify() == []
        assert all(replay(scripted.journal, run.run_id).identical for run in runs)


@pytest.mark.parametrize("crash", range(7))
def test_a_workflow_that_lost_its_driver_spends_the_same(crash: int, tmp_path: Path) -> None:
    """What a task used is counted once, whether it had ended before the driver was lost or not."""
    limits = Limits(token_budget=450)
    left = [crash]

    def lost(call: ModelCall) -> None:
        left[0] -= 1
        if left[0] == -1:
            raise Lost

    def make() -> Engine:
        return flow(tmp_path, limits, lost)

    scripted = make()
    try:
        result = scripted.run_workflow("Work", tasks=TASKS, mode="react")
    except Lost:
        scripted.close()
        scripted = make()
        whole = next(run for run in scripted.journal.runs() if run.task == 0)
        result = scripted.resume(whole.run_id)
    with scripted:
        assert (result.reason, result.usage.tokens_in, result.usage.cost) == ("token_budget", 250, 0.0001)
        assert scripted.journal.verify() == []
