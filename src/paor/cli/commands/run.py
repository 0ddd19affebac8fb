"""`paor run`: an objective to its end; and how every command drives a run."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import redirect_stdout, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import click

from ...fsm.engine import Engine
from ...fsm.journal.rows import RunRow
from ...fsm.journal_api import Journal
from ...fsm.lifecycle.options import OPTIONS, Use
from ...fsm.replay.callers import runs_of, unfinished_called
from ...fsm.replay.restore import restore_run
from ...fsm.runtime.events import Event, RunStarted
from ...fsm.runtime.result import Result
from ...states.base.errors import NotAJournal, PaorError
from ...states.run.phase_names import EXECUTING
from ...states.run.spec import TASK_TOOL
from ..support import terminal as io
from ..support.app import EngineOptions
from ..support.driving import Watch, check_output, end
from ..support.inputs import run_input
from ..support.journals import command_line, find_run
from ..support.options import Metadata, Quiet, command
from ..support.run_text import argument_lines

Required = Annotated[bool, "--require-criteria", "Exit with 1 when a criterion is not met at the end."]
Report = Annotated[str | None, "--output FILE", "Write the final report: .md, .txt, .html or .docx."]
Criteria = Annotated[tuple[str, ...], "--criterion TEXT", "What must hold at the end; repeatable."]
Tasks = Annotated[bool, "--tasks", "Plan the objective as tasks, each a run of its own."]

_BOUNDS = {
    "max_steps": Annotated[int | None, "--max-steps N", "Actions the run may start; default 5."],
    "token_budget": Annotated[int | None, "--token-budget N", "Input plus output tokens."],
    "time_budget_s": Annotated[float | None, "--time-budget S", "Seconds of active work."],
    "tool_timeout_s": Annotated[float | None, "--tool-timeout S", "Seconds of one call of a tool."],
    "durability": Annotated[
        str, "--durability D", "full (default), normal or off: what survives a power loss."
    ],
}


def _round(use: Use) -> dict[str, Any]:
    """Return what a start of a run may be given: the options for *use* in the order of `OPTIONS`, its documents and bounds."""
    documents = Annotated[tuple[str, ...], "--document FILE", "Input document, - for stdin; repeatable."]
    options = {
        name: Annotated[str | None if " " in known.flag else bool, known.flag, known.help]
        for name, known in OPTIONS.items()
        if known.flag and use in known.use
    }
    return {"documents": documents, **options, "metadata": Metadata, **_BOUNDS}


ROUND = _round(Use.CHAT)
"""What each round of a chat may be given."""
START = {"success_criteria": Criteria, **_round(Use(0)), "quiet": Quiet, "tasks": Tasks, "output": Report}


@command(
    'paor run "Summarise the obligations and list every deadline" --document contract.pdf',
    'paor run "Compare both offers" --document a.docx --document b.docx --output report.md',
    'paor run --conversation c-17 "And in euros?"',
    'paor run --input \'{"objective": "...", "documents": ["a.pdf"], "maxSteps": 8}\'',
)
def run(
    words: Annotated[tuple[str, ...], "[OBJECTIVE]"],
    flags: Annotated[dict[str, Any], START],
    required: Required,
    source: Annotated[str | None, "--input JSON|FILE|-", "The same fields as one JSON object."],
    options: EngineOptions,
) -> int:
    """
    Run an objective to its end, or until it waits for an answer.

    OBJECTIVE is the task, in your words; - reads it from standard input. The answer goes to standard output,
    everything else to standard error: the model in use and where its name comes from, on a terminal also what the
    model writes and every row of the run.

    A criterion that is not met at the end is named on standard error, and decides the exit code only with
    --require-criteria.

    With --key nothing is done twice: the first start creates the run, a later one goes on with it, or prints its
    result if it has ended. A key that was used for another objective is refused.

    Exit codes: 0 Done, 1 Failed, 2 bad input or journal, 5 waiting for an answer, 6 Failed by a limit.
    """
    watch = Watch(quiet=flags.pop("quiet"))
    given = run_input(flags | {"objective": one_text(words, "OBJECTIVE")}, options, source)
    if given.output is not None:
        form = check_output(given.output, options.journal, given.sources)
        given.arguments["final_format"] = given.arguments.get("final_format") or form
    options, model = given.engine, given.arguments.get("model")
    if (named := given.arguments.get("after")) is not None:
        with options.looking() as opened:
            given.arguments["after"] = find_run(opened, named).run_id
    options = with_policy_before(options, given.arguments)
    with options.tools() as tools, options.driving(tools, durability=given.durability, model=model) as engine:
        base = engine.limits if given.tasks else engine.limits_of(given.arguments["mode"])
        bounds = given.limits(base) if given.bounds else None
        drive = partial(engine.run_workflow if given.tasks else engine.run, **given.arguments, limits=bounds)

        def name_model(event: Event) -> None:
            """Have the model told when the run starts: a workflow file may name it."""
            if isinstance(event, RunStarted) and watch.run_id is None:
                name = engine.model.name if given.tasks else engine.journal.spec(event.run_id).model
                own = model is not None or name == engine.model.name
                watch.model = name, given.model_source if own else "from the workflow file"

        engine.hooks = (*engine.hooks, name_model, watch)
        return driven(engine, drive, watch, options, given.output, required=required)


def with_policy_of(options: EngineOptions, opened: Journal, row: RunRow) -> EngineOptions:
    """Return *options* with the policy of the runs so far, unless they have one: what goes on may do no more than what was begun."""
    if options.app is not None or options.policy is not None:
        return options
    runs = runs_of(opened.reader, row.workflow_id)
    tasks = [(round, run_id) for run_id, round, task in runs if task]  # the whole calls nothing itself
    if not tasks:
        return options
    recorded = opened.spec(max(tasks)[1]).policy.model_copy(update={"missing_ok": True})
    return replace(options, policy=recorded)  # it was checked when it was given


def with_policy_before(options: EngineOptions, arguments: Mapping[str, Any]) -> EngineOptions:
    """Return *options* with the policy of the round before, unless they have one: a conversation may do no more than it was begun with."""
    conversation, after = arguments.get("conversation"), arguments.get("after")
    if options.app is not None or conversation is None:
        return options
    with suppress(NotAJournal), options.looking() as opened:
        if (before := opened.reader.newest_round(conversation) or after) is not None:
            return with_policy_of(options, opened, opened.run(before))
    return options


def one_text(words: tuple[str, ...], name: str) -> str | None:
    """Return the argument *name*, None when it was not given; refuse more than one."""
    if len(words) <= 1:
        return words[0] if words else None
    files = " ".join(f"--document {shlex.quote(word)}" for word in words if os.path.isfile(word))
    text = f"{name} is one argument, put it in quotes: {shlex.quote(' '.join(words))}"
    raise click.UsageError(f"documents are given with an option: {files}" if files else text)


def driven(
    engine: Engine,
    drive: Callable[[], Result],
    watch: Watch,
    options: EngineOptions,
    output: Path | None,
    *,
    required: bool,
) -> int:
    """Drive a run with its progress shown, and end the command; what tools print goes to standard error."""
    try:
        with watch.shown(), redirect_stdout(sys.stderr):
            result = drive()
    except KeyboardInterrupt:
        io.tell("")
        if watch.run_id is None:
            io.tell("paor: interrupted while starting; to see what was started: paor runs")
            return io.INTERRUPTED
        app = f" --app {shlex.quote(options.app)}" if options.app else ""
        resume = command_line("resume", engine.journal, watch.run_id) + app
        if doubts := list(doubt_lines(engine.journal, watch.run_id)):
            io.tell(*doubts, f"paor: find out which; all else is safe. Go on with: {resume}", SETTLE)
        else:
            io.tell(f"paor: interrupted; what was done is safe, go on with: {resume}")
        return io.INTERRUPTED
    return end(result, engine.journal, options, output, required=required)


SETTLE = (
    "paor: unless the tool can say it itself, that asks for the outcome: done (with --result), retry or fail"
)


def doubt_lines(journal: Journal, run_id: str) -> Iterator[str]:
    """Yield the calls of a run that was interrupted, and of those that it has called, that may or may not have taken effect."""
    doubts = []
    with suppress(PaorError):
        for name in (run_id, *unfinished_called(journal.reader, journal.run(run_id))):
            run, _ = restore_run(journal.reader, name)
            intent = run.memory.intent
            if run.state == EXECUTING and run.waiting_for is None and intent and intent.effect == "once":
                doubts += [intent] if intent.tool != TASK_TOOL.name else []
    for intent in doubts:
        yield f"paor: interrupted inside {intent.tool} (once), which may or may not have taken effect:"
        yield from (f"  {line}" for line in argument_lines(intent.arguments, io.width() - 2))
        yield f"  key: {intent.idempotency_key}"
