"""
What a run writes to the standard logger ``paor``: run, place, decision and its reason; never what anybody said.

INFO tells starts, ended calls, waits and ends; DEBUG every transition with its guards; WARNING what went wrong outside: a
model that could not answer, an effect in doubt, a call that was left running. A message holds names, codes and numbers only,
so that a log may be kept where prompts and documents must not. The same facts stand in the record as ``record.paor``, a
mapping, for structured logs.
"""

from __future__ import annotations

import logging
from typing import Any

from ...states.records.observations import clean
from ...states.run.phase_names import EXECUTING, FINAL
from ...states.run.state import Run
from ..machine.updates import Decision

LOGGER = logging.getLogger("paor")
LOGGER.addHandler(logging.NullHandler())

_WHY = ("invalid", "duplicate", "error", "code", "stop", "action", "why")
"""Codes of an outcome, from closed lists, that say why a row was taken."""


def log_transition(run: Run, decision: Decision, after: Run) -> None:
    """Tell one transition from *run* to *after*, once its row is durable."""
    row = decision.row
    if decision.facts["kind"] != "fault" and row.trigger != "wait" and not LOGGER.isEnabledFor(logging.INFO):
        return
    if not LOGGER.isEnabledFor(level := _level(decision, after)):
        return
    step = after.counters.step
    why = reason_of(decision, after)
    facts: dict[str, Any] = {
        "run_id": run.run_id,
        "seq": run.seq,
        "step": step,
        "max_steps": run.spec.limits.max_steps,
        "trigger": row.trigger,
        "source": row.source,
        "dest": row.dest,
        "reason": why,
    }
    told = f" ({why})" if why else ""
    if level == logging.DEBUG and (refinement := decision.change.refinement) and refinement.reason:
        facts["said"] = clean(refinement.reason)
        told += f": the model says: {facts['said']}"
    if level == logging.DEBUG:
        told += "".join(f" {name}={value}" for name, value in decision.guards.items())
    LOGGER.log(
        level,
        "run %s row %d step %d of %d: %s, %s to %s%s",
        run.run_id,
        run.seq,
        step,
        run.spec.limits.max_steps,
        row.trigger,
        row.source,
        row.dest,
        told,
        extra={"paor": facts},
    )


def log_start(run: Run, *, resumed: bool) -> None:
    """Tell that a run is driven from here on."""
    if LOGGER.isEnabledFor(logging.INFO):
        facts = {"run_id": run.run_id, "seq": run.seq, "step": run.counters.step, "resumed": resumed}
        words = "resumed" if resumed else "started"
        LOGGER.info(
            "run %s %s in %s, mode %s", run.run_id, words, run.state, run.spec.mode, extra={"paor": facts}
        )


def log_left(tool: str, key: str, after_s: float) -> None:
    """Tell that a call was given up and still runs; *key* names run and action."""
    facts = {"tool": tool, "key": key, "after_s": round(after_s, 3)}
    told = (
        "call %s of %s was given up and is left running after %.3f s; nothing it still does will be recorded"
    )
    LOGGER.warning(told, key, tool, after_s, extra={"paor": facts})


def log_late_end(tool: str, key: str, after_s: float) -> None:
    """Tell that a call which was left running has ended."""
    facts = {"tool": tool, "key": key, "after_s": round(after_s, 3)}
    told = "call %s of %s, which was left running, has ended after %.3f s; its result is dropped"
    LOGGER.warning(told, key, tool, after_s, extra={"paor": facts})


def reason_of(decision: Decision, after: Run) -> str:
    """Return why a row was taken: of an end its reason, of a judgement what was decided, else the outcome's code or nothing."""
    if after.state in FINAL or decision.row.trigger == "conclude":
        return after.counters.stop or ""
    if decision.row.trigger in ("proceed", "next_step") and decision.change.refinement:
        return f"decided_{decision.change.refinement.decision}"
    codes = (decision.facts.get(name) for name in _WHY)
    return next((code for code in codes if isinstance(code, str) and code), "")


def _level(decision: Decision, after: Run) -> int:
    row, facts = decision.row, decision.facts
    trigger = row.trigger
    if facts["kind"] == "fault" or (trigger == "wait" and row.source == EXECUTING and "noted" not in facts):
        return logging.WARNING
    return logging.INFO if trigger in _TOLD or row.dest in FINAL else logging.DEBUG


_TOLD = frozenset(("execute", "refuse", "wait", "provide"))
"""Triggers that are told of at INFO."""
