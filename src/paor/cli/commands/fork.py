"""`paor fork`: a new run that shares the beginning of another one."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click

from ...fsm.lifecycle.fork import calls_after, fork_point
from ...prompts.model import Model
from ..support import terminal as io
from ..support.app import EngineOptions, engine_options
from ..support.journals import command_line, find_run
from ..support.json_input import answer_value, text_file
from ..support.options import command, option
from ..support.progress import Watch
from .run import driven, engine_of_run, recorded_model, recorded_run_options


@command(
    "fork",
    "paor fork last --at 4",
    "paor fork 0199d2b4-6f1e --at 7 --max-steps 9 --model script:other.json",
    "paor fork last --at 3 --answer no",
    "paor fork last --at 4 --no-run",
)
@click.argument("name", metavar="RUN")
@option("--at SEQ", "Last row to share; see paor show.", "at_seq", type=int, required=True)
@recorded_run_options
@option("--max-steps N", "Instead of the run's; shared steps count.", type=int)
@option("--token-budget N", "The same; shared tokens count.", type=int)
@option("--time-budget S", "The same; shared time counts.", "time_budget_s", type=float)
@option("--prompt-template FILE", "Instead of the run's planning prompt.")
@option("--current", "Use prompts, tool schemas, rules and policy as they are now.")
@option("--no-run", "Only create it; paor resume continues it.")
@engine_options
def fork(
    name: str,
    at_seq: int,
    given: dict[str, Any],
    model: Model | None,
    report: Path | None,
    prompt_template: str | None,
    current: bool,
    no_run: bool,
    required: bool,
    quiet: bool,
    options: EngineOptions,
    **bounds: Any,
) -> int:
    """
    Start a new run that shares the rows of RUN up to SEQ, and continue from there.

    Nothing is copied: the new run refers to the shared rows, and its hash chain continues theirs. RUN does not
    change, and may still be running. The new run makes its own calls, so calls that RUN made after SEQ may be made
    again.

    Exit codes: those of paor run; with --no-run 0.
    """
    given["limits"] = {bound: value for bound, value in bounds.items() if value is not None} or None
    given["prompt_template"] = text_file(prompt_template) if prompt_template is not None else None
    given |= {"current": current, "model": model}
    with options.looking() as opened:
        row = find_run(opened, name)
        point = fork_point(opened.reader, row.run_id, at_seq)
        if given["answer"] is not None:
            given["answer"] = answer_value(given["answer"], point.run.waiting_for)
        again = ", ".join(dict.fromkeys(calls_after(opened.reader, row.run_id, at_seq)))
    watch = Watch(quiet=quiet)
    with engine_of_run(options, row, model, watch, "--current") as engine:
        if again:
            io.tell(
                f"paor: after row {at_seq} run {row.run_id} has called {again}; the fork may do so once more"
            )
        drive = partial(engine.fork, row.run_id, at_seq, drive=not no_run, **given)
        if not no_run:
            watch.model = recorded_model(engine, row, options, model)
            return driven(engine, drive, watch, options, report, required=required)
        result = drive()
        state = io.state_text(result.state, result.status, result.status)
        line = f"run {result.run_id}  {state}  shares rows 0 to {at_seq} of run {row.run_id}"
        note = f"{io.styled('go on:', 'dim')} {command_line('resume', engine.journal, result.run_id)}"
        return io.say_either(result.wire(), [line], note)
