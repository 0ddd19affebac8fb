"""The runs that are killed: every mode, all classes of effect, documents, errors, a workflow, a fallback, an approval."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from paor import Engine, Journal, Limits, Policy, Result, Task
from paor.testing import SeededIds, call_tools, step

from ..support.planning import END, PLAN, STEP
from ..support.worlds import CONTINUE, JOURNAL, PARAMETERS, REFINE, REVIEW, SELECT, STOP
from .outside import Outside, Speaker, WorkClock
from .points import Points, WatchedModel

BAD = "this is no JSON"
READ_ALL = "Read, keep, send and pay every page"


def CALL(name: str, page: int, objective: str = READ_ALL) -> list[dict[str, Any]]:
    """Return the replies of one iteration up to its refinement."""
    return [SELECT(name, parametersContext=f"for: {objective}"), PARAMETERS(page=page)]


EFFECTS = ("notes.read", "crm.put", "mail.send", "bank.pay")
LONG: list[Any] = [
    BAD,
    *CALL("notes.read", 1),
    CONTINUE,
    SELECT("mail.send", parametersContext=f"for: {READ_ALL}"),
    PARAMETERS(page="two"),
    PARAMETERS(page=2),
    REFINE("continue", score=0.5, answer="One was sent."),
    *CALL("crm.put", 3),
    BAD,
    CONTINUE,
    *CALL("bank.pay", 4),
    CONTINUE,
    *CALL("notes.scan", 5),
    "A page with a drawing.",
    REFINE("continue", criteria=[{"criterion": "every page is read", "met": True}]),
    *CALL("mail.send", 6),
    STOP,
    REVIEW("retry", "pay the rest"),
    *CALL("bank.pay", 7),
    REFINE("stop", answer="All is paid."),
    REVIEW(
        "success",
        answer="# All is read, kept, sent and paid",
        criteria=[{"criterion": "all is paid", "met": True}],
    ),
]
TASKS = ("Send the pages of the first task", "Pay the pages of the second task")
WHOLE = "The whole of both tasks"


@dataclass(frozen=True)
class Scenario:
    """
    One kind of run.

    Attributes:
        name: For test ids.
        scripts: What the model says, by objective.
        start: Starts it with an engine.
        options: Of the engine.
        answers: To its questions, by kind.
        durability: Of the journal.
    """

    name: str
    scripts: Mapping[str, list[Any]]
    start: Callable[[Engine], Result]
    options: Mapping[str, Any] = field(default_factory=dict)
    answers: Mapping[str, Any] = field(default_factory=dict)
    durability: Literal["full", "normal"] = "full"

    def engine(
        self,
        folder: Path,
        points: Points,
        outside: Outside,
        *,
        ids: str = "first",
        journal: Journal | None = None,
    ) -> Engine:
        """Return an engine of one process on the folder's journal."""
        if journal is None:
            journal = Journal(folder / JOURNAL, self.durability, lease_s=3600)
        return Engine(
            WatchedModel(Speaker(dict(self.scripts), outside), points),
            outside.tools(),
            journal,
            hooks=[outside.hook],
            clock=outside.clock,
            ids=SeededIds(ids),
            builtins=False,
            **self.options,
        )


def clock_of(generation: int) -> WorkClock:
    """Return the clock of the n-th process of a case: a day after the one before."""
    return WorkClock(1_767_225_600_000_000 + generation * 86_400_000_000)


def _react(engine: Engine) -> Result:
    return engine.run(
        READ_ALL,
        ["every page is read", "all is paid"],
        documents=[("a.txt", "Alpha"), ("b.bin", b"\xff\x00")],
        final_format="md",
        limits=Limits(max_steps=20),
    )


def _planned(mode: Any) -> Callable[[Engine], Result]:
    return lambda engine: engine.run(READ_ALL, mode=mode, limits=Limits(max_steps=9))


def _async(engine: Engine) -> Result:
    return asyncio.run(engine.arun(READ_ALL, limits=Limits(max_steps=9)))


SHORT = [
    *CALL("mail.send", 1),
    CONTINUE,
    *CALL("crm.put", 2),
    CONTINUE,
    *CALL("bank.pay", 3),
    STOP,
    REVIEW("success"),
]
STEPS = [STEP(name, page=number) for number, name in enumerate(EFFECTS, 1)]
FAILING = "Fail first, then follow a plan"

SCENARIOS = (
    Scenario("react", {READ_ALL: LONG}, _react),
    Scenario("batch", {READ_ALL: [PLAN(*STEPS), REVIEW("success", answer="All.")]}, _planned("batch")),
    Scenario(
        "planner",
        {
            READ_ALL: [
                PLAN(*STEPS[:2]),
                PLAN(STEP("mail.send", page=5), STEP("bank.pay", page="$step[0].output.page")),
                PLAN(STEP("bank.pay", page=6)),
                END("All."),
                REVIEW("success"),
            ]
        },
        _planned("planner"),
    ),
    Scenario(
        "native",
        {
            READ_ALL: [
                call_tools(*STEPS),
                call_tools(step("mail.send", page=5), step("nobody.knows"), step("bank.pay", page=6)),
                "",
                "All.",
                REVIEW("success"),
            ]
        },
        lambda engine: engine.run(READ_ALL, profile="native", limits=Limits(max_steps=9)),
    ),
    Scenario("async", {READ_ALL: SHORT}, _async),
    Scenario(
        "workflow",
        {
            WHOLE: [REVIEW("success", answer="Both tasks are done.")],
            TASKS[0]: [
                *CALL("mail.send", 1, TASKS[0]),
                CONTINUE,
                *CALL("notes.scan", 2, TASKS[0]),
                "A page.",
                STOP,
                REVIEW("success", answer="Sent."),
            ],
            TASKS[1]: [
                *CALL("crm.put", 3, TASKS[1]),
                CONTINUE,
                *CALL("bank.pay", 4, TASKS[1]),
                STOP,
                REVIEW("success", answer="Paid."),
            ],
        },
        lambda engine: engine.run_workflow(
            WHOLE, documents=[("a.txt", "Alpha")], tasks=[Task(text) for text in TASKS]
        ),
    ),
    Scenario(
        "fallback",
        {
            FAILING: [*CALL("mail.send", 1, FAILING), CONTINUE, BAD, BAD],
            f"{FAILING}/batch": [PLAN(STEP("mail.send", page=2), STEP("crm.put", page=3)), REVIEW("success")],
        },
        lambda engine: engine.run(FAILING, fallback="batch", documents=[("a.txt", "Alpha")]),
    ),
    Scenario(
        "approved",
        {READ_ALL: SHORT},
        lambda engine: engine.run(READ_ALL),
        options={"policy": Policy(approval_valid_s=31_536_000, approvals=("mail.send", "bank.pay"))},
        answers={"approval": {"approve": True}},
    ),
)
"""Those that are killed."""

BRIEF = Scenario(
    "brief",
    {READ_ALL: [PLAN(STEP("mail.send", page=1), STEP("crm.put", page=2)), REVIEW("success", answer="Both.")]},
    _planned("batch"),
)
"""The one whose disk fails at every operation."""

BY_NAME = {scenario.name: scenario for scenario in (*SCENARIOS, BRIEF)}

HOSTED = "async"
"""The one that `app` gives to a command: its options are ones that a command line can have as well."""

FOLDER, TARGET, GENERATION = "PAOR_TEST_FOLDER", "PAOR_TEST_TARGET", "PAOR_TEST_GENERATION"
"""The variables of the environment that tell `app` where to work, which point to end at, and which process of a run it is."""
