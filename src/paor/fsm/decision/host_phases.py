"""
The host's own phases: how what they asked for is read. Pure.

Whatever a phase asked, what came of it is one `Visit`: the rows of the phase are tried with it, and it stays in the run's memory for later guards.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from ...prompts.parsing.replies import Invalid, after, read_host_reply
from ...states.phase import Phase
from ...states.records.outcomes import Replied
from ...states.records.visits import RunChoice, Visit
from ...states.run.spec import Mode
from ...states.run.state import Run
from ...states.settings.limits import LOWERABLE
from .guard_context import GuardContext
from .run_resources import RunResources


def read_host_phase(case: GuardContext, kit: RunResources) -> None:
    """Fill *case* with what the phase that the run is in has asked for and got."""
    phase = kit.phases[case.run.state]
    case.phase = phase
    if phase.prompt is not None:
        _read_reply(case, phase, kit)
    elif phase.tool is not None:
        case.visit = _visit_of_call(case.run, phase)
    elif phase.question is not None:
        case.visit = _visit_of_answer(case.run, phase)
    else:
        case.visit = visit_of(case.run, phase, ok=True)


def visit_of(run: Run, phase: Phase, *, ok: bool, value: Any = None, actor: str | None = None) -> Visit:
    """Return what a stay of *run* in *phase* came to."""
    call = run.memory.intent.idempotency_key if run.memory.intent is not None and phase.tool is None else ""
    return Visit(phase.name, ok, value, actor, call, run.seq)


def _read_reply(case: GuardContext, phase: Phase, kit: RunResources) -> None:
    outcome, run = case.outcome, case.run
    if not isinstance(outcome, Replied):
        return
    read = after(outcome.finish, read_host_reply(outcome.text, chars_max=run.spec.limits.reply_chars))
    if not isinstance(read, Invalid):
        problems = kit.phase_schema(phase).check(read)
        if problems:
            read = Invalid("wrong_type", "; ".join(problem.message for problem in problems[:10]))
        elif phase.chooses and (wrong := choice_problem(read)) is not None:
            read = Invalid("wrong_type", wrong)
    if isinstance(read, Invalid):
        case.problem = read
        return
    case.visit = visit_of(run, phase, ok=True, value=read)


def called_by(run: Run, phase: str) -> bool:
    """Return whether the call that the run has made last was made for *phase*."""
    selection = run.memory.selection
    return selection is not None and selection.caller == phase


def _visit_of_call(run: Run, phase: Phase) -> Visit | None:
    result, observation = run.memory.result, run.memory.observation
    if not called_by(run, phase.name) or result is None:
        return None
    summary = run.memory.history[-1].summary if run.memory.history else ""
    previews = observation.previews if observation is not None else ()
    output = "\n".join(preview.snippet for preview in previews if preview.snippet)
    return visit_of(
        run, phase, ok=result.ok, value={"error": result.error, "summary": summary, "output": output}
    )


def _visit_of_answer(run: Run, phase: Phase) -> Visit | None:
    reply = run.memory.reply
    if reply is None:
        return None
    return visit_of(run, phase, ok=reply.action == "accept", value=reply.content, actor=reply.actor)


# -- what a first phase chooses -----------------------------------------------------------------------------------


def choice_of(reply: Mapping[str, Any]) -> RunChoice:
    """Return the mode and the limits that a first phase's reply chooses."""
    return RunChoice(reply.get("mode"), dict(reply.get("limits") or {}))


def choice_problem(reply: Mapping[str, Any]) -> str | None:
    """Return why a reply cannot be chosen by, None when it can."""
    mode, limits = reply.get("mode"), reply.get("limits")
    if mode is not None and mode not in get_args(Mode):
        return f"mode: use one of {', '.join(get_args(Mode))}"
    if limits is None:
        return None
    if not isinstance(limits, Mapping):
        return "limits: an object of limits is needed"
    for name, value in limits.items():
        if name not in LOWERABLE:
            return f"limits: {ascii(name)[:60]} cannot be chosen; there are: {', '.join(LOWERABLE)}"
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            return f"limits.{name}: a whole number from 1 is needed"
    return None
