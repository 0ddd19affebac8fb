"""
Scripted worlds for tests of agents: replies, tools with given outcomes, and what a run did, so that one line asserts it.

    from paor import Engine, ScriptedModel
    from paor.testing import call, refine, review, scripted_tool, walk

    find = scripted_tool("orders.find", ["It is in Leeds."])
    script = [*call("orders.find", order_id="O-1"), refine("stop"), review("success", answer="Leeds.")]
    with Engine(ScriptedModel(script), [find], "runs.db") as engine:
        seen = walk(engine.journal, engine.run("Where is O-1?").run_id)
    assert seen.tools == ("orders.find",)

`evaluate` scores the answers of recorded runs. `guard_context` is what a guard of the host's own is tested with. With `SeededIds` and `SteppingClock` as an engine's ports its
journal is the same every time. Needs no pytest; the fixtures of `paor.pytest_plugin` are made of it. The other modules of this
room are what they use: runs that are killed and resumed (`killing`), and the coverage report (`pytest_coverage`). May import the four folders,
nothing of `paor.cli` and `paor.fuzz`. Start reading at `scripted`.
"""

from __future__ import annotations

from ..fsm.evaluation.evaluation import Score, evaluate
from ..fsm.evaluation.scorers import Expected, Judge, Scorer, contains, criteria_met, exact, json_equal
from ..fsm.lifecycle.callbacks import listen
from ..fsm.runtime.ports import Clock, Ids, RandomIds, SeededIds, SteppingClock, SystemClock
from .guard_contexts import CALL_KEY, guard_context
from .scripted import (
    Asked,
    Asks,
    Call,
    Walk,
    answer,
    call,
    call_tools,
    parameters,
    plan,
    play,
    problems,
    refine,
    review,
    scripted_tool,
    select,
    step,
    walk,
)

__all__ = [
    "CALL_KEY",
    "Asked",
    "Asks",
    "Call",
    "Clock",
    "Expected",
    "Ids",
    "Judge",
    "RandomIds",
    "Score",
    "Scorer",
    "SeededIds",
    "SteppingClock",
    "SystemClock",
    "Walk",
    "answer",
    "call",
    "call_tools",
    "contains",
    "criteria_met",
    "evaluate",
    "exact",
    "guard_context",
    "json_equal",
    "listen",
    "parameters",
    "plan",
    "play",
    "problems",
    "refine",
    "review",
    "scripted_tool",
    "select",
    "step",
    "walk",
]
