"""
Deadlines of tools, measured: many runs with tools that hang, ignore being cancelled, or end a millisecond before or after
their deadline; in the driver's process, async, and in a process of their own; of every effect; some are cancelled meanwhile.

    python -m tests.tools.tool_deadlines --runs 10000        # from the top of the repository; exits 1 when a promise is broken

Three promises are counted: no run is held longer than the bound of its call plus one second, no result that came too late is
accepted, and no once effect is begun twice. Each journal is verified, and each run replayed.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from paor import Engine, Journal, Result, ScriptedModel, Tool, ToolContext, replay
from paor.errors import JournalError, ToolError
from paor.states.records.actions import Effect
from paor.testing import call, refine, review

FORMS = ("sync", "sync", "async", "async", "process")
EFFECTS: tuple[Effect, ...] = ("read", "idempotent", "once")
BEHAVIOURS = ("is quick", "hangs", "ignores a cancel", "ends before", "ends after", "fails after", "stops")
TOO_LATE = ("hangs", "ignores a cancel", "ends after", "fails after", "stops")
BOUND_S = {"sync": 0.06, "async": 0.06, "process": 1.2}
"""Seconds of a call; a process needs some to begin."""
CLOSE_S = 0.001
_STARTING = threading.Semaphore(3)
"""Processes at the same time: more would take each other the time to begin."""
SECOND = 1.0
"""How much longer than the bound a run may be held."""


@dataclass(frozen=True)
class Case:
    """One run: what its tool is and does, on which driver, and whether it is cancelled in the middle."""

    number: int
    form: str
    effect: Effect
    behaviour: str
    driver: str
    cancelled: bool

    @property
    def bound_s(self) -> float:
        """Seconds that its call may take."""
        return BOUND_S[self.form]


def case(number: int) -> Case:
    """Return the case of a number, always the same."""
    chance = random.Random(number)
    form, effect, behaviour = chance.choice(FORMS), chance.choice(EFFECTS), chance.choice(BEHAVIOURS)
    return Case(number, form, effect, behaviour, chance.choice(("sync", "async")), chance.random() < 0.1)


@dataclass
class Found:
    """
    What one run has come to.

    Attributes:
        case: Which.
        outcomes: Of its calls: ``accepted``, ``timeout``, ``in doubt``, ``cancelled`` or another error.
        held_s: Longest that a call has held it.
        left: Calls that were left running.
        broken: Promises that were not kept.
    """

    case: Case
    outcomes: list[str] = field(default_factory=list)
    held_s: float = 0.0
    left: int = 0
    broken: list[str] = field(default_factory=list)


class Place:
    """Where a tool works: it notes each call in a file, and hangs until it is let go."""

    def __init__(self, folder: Path, case: Case) -> None:
        self.case, self.log = case, folder / f"begun-{case.number}"
        self.released, self.inside = threading.Event(), threading.Event()
        self.ended = threading.Semaphore(0)

    @property
    def begun(self) -> list[str]:
        """The idempotency keys of the calls that were begun."""
        return self.log.read_text().split() if self.log.exists() else []

    def begin(self, context: ToolContext) -> float:
        """Note a call; return how long it is to take, without what hangs."""
        with self.log.open("a") as file:
            file.write(f"{context.idempotency_key}\n")
        self.inside.set()
        return {"ends before": self.case.bound_s - CLOSE_S, "ends after": self.case.bound_s + CLOSE_S}.get(
            self.case.behaviour, self.case.bound_s * 1.3 if self.case.behaviour == "fails after" else 0.0
        )

    def work(self, context: ToolContext, page: int) -> str:
        """Do what the case says, in a thread."""
        try:
            time.sleep(self.begin(context))
            if self.case.behaviour in ("hangs", "ignores a cancel"):
                self.released.wait(60)
            while self.case.behaviour == "stops" and context.stopped() is None:
                time.sleep(0.005)
            return self.result()
        finally:
            self.ended.release()

    async def awork(self, context: ToolContext, page: int) -> str:
        """Do what the case says, on an event loop."""
        try:
            await asyncio.sleep(self.begin(context))
            while (
                self.case.behaviour in ("hangs", "ignores a cancel", "stops") and not self.released.is_set()
            ):
                try:
                    await asyncio.sleep(0.01)
                except asyncio.CancelledError:
                    if self.case.behaviour != "ignores a cancel":
                        await asyncio.sleep(0.05)
                        raise
            return self.result()
        finally:
            self.ended.release()

    def result(self) -> str:
        """Return what tells this call's result from all others, or raise it."""
        if self.case.behaviour == "fails after":
            raise ToolError(f"result-{self.case.number}")
        return f"result-{self.case.number}"

    def tool(self) -> Tool:
        """Return the tool."""
        given: dict[str, Any] = {"sync": self.work, "async": self.awork, "process": apart}
        names = {"page": {"type": "integer"}} | ({"given": {}} if self.case.form == "process" else {})
        return Stamped(
            "desk.work",
            parameters={"type": "object", "properties": names, "required": list(names)},
            run=given[self.case.form],
            effect=self.case.effect,
            retries=1 if self.case.effect == "idempotent" else 0,
            timeout_s=self.case.bound_s,
            process=self.case.form == "process",
        )


class Stamped(Tool):
    """A tool whose function in another process is told when its call was begun."""

    def invoke(self, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        """Call it."""
        given = arguments.get("given")
        stamped = {"given": {**given, "began": time.monotonic()}} if given is not None else {}
        return super().invoke({**arguments, **stamped}, context)


def apart(context: ToolContext, page: int, given: dict[str, Any]) -> str:
    """Do what a case says, in a process of its own, in which nobody lets it go; *given*: its folder and number."""
    place = Place(Path(given["folder"]), case(given["number"]))
    wait_s = place.begin(context)
    if wait_s:  # counted from when the call was begun, by the clock that both processes have
        time.sleep(max(0.0, given["began"] + wait_s - time.monotonic()))
    if place.case.behaviour in ("hangs", "ignores a cancel", "stops"):
        time.sleep(60)
    return place.result()


def measured(number: int, folder: Path) -> Found:
    """Run a case; return what it has come to."""
    with _STARTING if case(number).form == "process" else nullcontext():
        return _measured(case(number), folder)


def _measured(chosen: Case, folder: Path) -> Found:
    number = chosen.number
    place, found = Place(folder, chosen), Found(chosen)
    given = {"given": {"folder": str(folder), "number": number}}
    asked = call("desk.work", page=1, **(given if chosen.form == "process" else {}))
    replies = [*asked, refine("stop", answer="It is done."), review("success")]
    with Engine(ScriptedModel(replies), [place.tool()], Journal(":memory:", "off"), builtins=False) as engine:
        if chosen.cancelled:
            threading.Thread(target=_cancel, args=(engine, place), daemon=True).start()
        result = asyncio.run(_arun(engine, place)) if chosen.driver == "async" else engine.run("Work")
        place.released.set()
        if chosen.form != "process":  # whatever was left has ended before the journal is looked at
            for _ in place.begun:
                place.ended.acquire(timeout=10)
        result = _settled(engine, place, result, found)
        _look(engine, place, result, found)
    return found


async def _arun(engine: Engine, place: Place) -> Result:
    """Run on this event loop; what was left is let go, or the loop would wait for it."""
    result = await engine.arun("Work")
    place.released.set()
    return result


def _cancel(engine: Engine, place: Place) -> None:
    if place.inside.wait(0.03):
        time.sleep(0.01)
    with suppress(JournalError):  # on a busy machine the run may be over, and its journal closed
        runs = engine.journal.runs()
        if runs and runs[0].status == "running":
            engine.cancel(runs[0].run_id)


def _settled(engine: Engine, place: Place, result: Result, found: Found) -> Result:
    """Return how the run ends once a person has settled what is in doubt; a resume alone settles nothing."""
    if result.status != "waiting":
        return result
    begun = place.begun
    if engine.resume(result.run_id).status != "waiting" or place.begun != begun:
        found.broken.append("a call in doubt went on by itself")
    return engine.resume(result.run_id, outcome="fail", result="nobody has got it")


def _look(engine: Engine, place: Place, result: Result, found: Found) -> None:
    """Hold the run's journal to the promises."""
    journal, chosen, before_us = engine.journal, found.case, 0
    for row in journal.transitions(result.run_id):
        if row.request["kind"] == "tool":
            held_s = (row.time_us - before_us) / 1_000_000
            found.held_s = max(found.held_s, held_s)
            found.outcomes.append(_word(row.outcome))
            found.left += row.outcome.get("left", 0)
            if held_s > chosen.bound_s + SECOND:
                found.broken.append(f"held {held_s:.3f} s by a bound of {chosen.bound_s} s")
        before_us = row.time_us
    own = f"result-{chosen.number}"
    accepted = any(own in str(document.read()) for document in result.documents) or own in result.answer
    # a tool that stops when it is asked to may be faster than who gives it up
    is_late = chosen.behaviour in TOO_LATE and not (chosen.behaviour == "stops" and chosen.cancelled)
    if accepted and is_late:
        found.broken.append("a late result was accepted")
    if chosen.effect == "once" and len(place.begun) > 1:
        found.broken.append(f"a once effect was begun {len(place.begun)} times")
    if result.status not in ("done", "failed"):
        found.broken.append(f"the run is {result.status}")
    found.broken += [f"journal: {defect}" for defect in journal.verify()]
    found.broken += [f"replay: {line}" for line in replay(journal, result.run_id).divergences]


def _word(outcome: Any) -> str:
    if outcome["kind"] == "in_doubt":
        return "in doubt" if outcome["why"] == "deadline" else f"in doubt: {outcome['why']}"
    if outcome["kind"] == "cancelled":
        return "cancelled"
    return "accepted" if outcome.get("ok") else str(outcome.get("error"))


def measure(runs: int, *, at_once: int = 8, first: int = 0) -> Iterator[Found]:
    """Yield what each of many runs has come to, several of them at once."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(at_once) as pool:
        yield from pool.map(partial(measured, folder=Path(folder)), range(first, first + runs))


def report(found: Sequence[Found], took_s: float) -> list[str]:
    """Return the figures, line by line."""
    lines = [f"{len(found):,} runs in {took_s:,.0f} s"]
    for title in ("form", "effect", "behaviour"):
        for name in sorted({getattr(item.case, title) for item in found}):
            some = [item for item in found if getattr(item.case, title) == name]
            outcomes = Counter(word for item in some for word in item.outcomes)
            told = ", ".join(f"{word} {number:,}" for word, number in sorted(outcomes.items()))
            lines.append(f"{title} {name}: {len(some):,} runs; calls: {told}")
    over = sorted(max(0.0, item.held_s - item.case.bound_s) for item in found)
    lines.append(
        f"held beyond the bound: median {_at(over, 0.5)}, 99 % {_at(over, 0.99)}, longest {over[-1]:.3f} s"
    )
    lines.append(f"calls left running: {sum(item.left for item in found):,}")
    for title, mark in (
        (f"held longer than the bound + {SECOND:g} s", "held"),
        ("late results accepted", "a late result"),
        ("once effects begun twice", "a once effect"),
    ):
        lines.append(f"{title}: {sum(any(line.startswith(mark) for line in item.broken) for item in found)}")
    return [*lines, *(f"BROKEN {item.case}: {line}" for item in found for line in item.broken)]


def _at(values: Sequence[float], share: float) -> str:
    return f"{values[min(len(values) - 1, int(share * len(values)))]:.3f} s"


def main(arguments: Sequence[str] | None = None, tell: Callable[[str], None] = print) -> int:
    """Measure and print; return 1 when a promise is broken."""
    parser = argparse.ArgumentParser(description="Measure deadlines of tools.")
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--at-once", type=int, default=8, help="runs at the same time")
    given = parser.parse_args(arguments)
    began, found = time.monotonic(), list[Found]()
    for item in measure(given.runs, at_once=given.at_once):
        found.append(item)
        if len(found) % 500 == 0:
            print(f"{len(found):,} of {given.runs:,}", file=sys.stderr)
    for line in report(found, time.monotonic() - began):
        tell(line)
    return 1 if any(item.broken for item in found) else 0


if __name__ == "__main__":
    sys.exit(main())
