"""
A run as a reader of the table expects it: thirty lines that share no code with the engine.

The engine is held beside it row by row. What it claims can be checked by eye against docs/machine.md: phases, the end,
what a step is, what may be asked again and how often. Everything else is in `invariants`.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...fsm.journal.rows import Transition
from ...fsm.machine.machine import MACHINE, Machine
from ...fsm.machine.table import ROWS
from ...states.settings.limits import Limits

ARROWS = {(row.source, row.trigger, row.dest) for row in ROWS}
ENDS = ("Done", "Failed")
MODELLED = (
    *("seq_without_gap", "nothing_after_an_end", "only_rows_of_the_table", "only_answers_while_it_waits"),
    *("done_only_from_reviewing", "counters_tell_the_rows", "steps_within_bounds", "retries_within_bounds"),
    *("questions_within_bounds", "asked_again_within_bounds", "withheld_tools_stay_withheld"),
)
"""The names of what `RunModel.take` tells."""

AGAIN = {"reselect": "selection_retries", "respecify": "parameter_retries", "reassess": "review_retries"}
AGAIN |= {"reask": "review_retries"}


class RunModel:
    """One run on its machine; `take` tells of every row by name what should hold, and whether it does."""

    def __init__(self, limits: Limits, machine: Machine = MACHINE) -> None:
        self.limits, self.phase, self.waits, self.last = limits, machine.host.initial, False, ""
        self.arrows, self.ends_from = ARROWS, {"Reviewing"}
        if not machine.is_standard:
            self.arrows = {(row.source, row.trigger, row.dest) for row in machine.rows}
            self.ends_from |= {row.source for row in machine.rows if row.host and row.dest == "Done"}
            self.attempts = {
                (row.source, row.trigger) for row in machine.rows if row.host and row.dest == "Planning"
            }
        else:
            self.attempts = set()
        self.seq = self.steps = self.actions = self.retries = self.asked = self.again = self.withheld = 0

    def take(self, row: Transition) -> Iterator[tuple[str, bool]]:
        """Yield what should hold of the next row, with whether it does, and go on with it."""
        yield "seq_without_gap", row.seq == self.seq
        yield "nothing_after_an_end", self.phase not in ENDS
        yield "only_rows_of_the_table", (self.phase, row.trigger, row.dest) in self.arrows
        yield "only_rows_of_the_table", row.source == self.phase
        yield "only_answers_while_it_waits", (row.trigger == "provide") == self.waits or row.dest == "Failed"
        yield "done_only_from_reviewing", row.dest != "Done" or row.source in self.ends_from
        is_withheld = self.withheld > self.retries
        yield "withheld_tools_stay_withheld", not (is_withheld and row.trigger in ("select", "withhold"))
        self.again = self.again + 1 if row.trigger == self.last else 1
        self.seq, self.phase, self.waits, self.last = (
            self.seq + 1,
            row.dest,
            row.trigger == "wait",
            row.trigger,
        )
        self.steps += row.trigger in ("select", "next_step")
        self.actions += row.trigger in ("specify", "refuse")
        self.retries += (row.source, row.trigger) == ("Reviewing", "retry")
        self.asked += row.trigger == "wait" and row.outcome["kind"] != "in_doubt"
        self.withheld = self.retries + 1 if row.trigger == "withhold" else self.withheld
        if (row.source, row.trigger) in self.attempts:  # a new attempt, in which the tools are offered again
            self.withheld = min(self.withheld, self.retries)
        yield "counters_tell_the_rows", row.counters.get("withheld", 0) == self.withheld
        yield "counters_tell_the_rows", (row.step, row.action) == (self.steps, self.actions)
        yield "counters_tell_the_rows", row.retries == self.retries
        yield "counters_tell_the_rows", row.counters.get("elicitations", 0) == self.asked
        yield "steps_within_bounds", self.steps <= self.limits.max_steps
        yield "retries_within_bounds", self.retries <= self.limits.max_retries
        yield "questions_within_bounds", self.asked <= self.limits.max_elicitations
        if row.trigger in AGAIN:
            yield "asked_again_within_bounds", self.again <= getattr(self.limits, AGAIN[row.trigger])
