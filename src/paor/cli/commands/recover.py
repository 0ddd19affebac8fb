"""`paor recover`: go on with every run that nobody drives."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from typing import Any

import click

from ...fsm.journal.rows import RunRow
from ...fsm.lifecycle.arguments import model_of
from ...fsm.lifecycle.options import ResumeOptions
from ...fsm.lifecycle.recover import Recovery
from ...fsm.runtime.result import Result
from ...states.base.errors import JournalDamaged
from ..support.app import EngineOptions, engine_options
from ..support.journals import command_line
from ..support.options import QUIET, command, option
from ..support.streams import DAMAGED, OK, USAGE, say, say_json, tell
from ..support.text import count, one_line, state_text, styled
from .run import MODELS, check_tools, model_of_run


@command(
    "recover",
    "paor recover --app shop:engine",
    "paor recover --journal runs.db --json",
    "paor recover --accept-changes --model offline",
)
@option("--model", "M", f"{MODELS} the model that each run had.")
@click.option(
    "--accept-changes", is_flag=True, help="Continue although prompts, tools, policy or code have changed."
)
@QUIET
@engine_options
def recover(
    model: str | None, accept_changes: bool, quiet: bool, options: EngineOptions, as_json: bool
) -> int:
    """
    Go on with every run that has not ended, waits for nobody, and has no driver: for the time after a crash.

    The oldest run is first, and each goes on to its end or until it waits. A run that cannot go on does not stop the
    others: it is named with the reason and left as it is. Two of these commands at once share the runs, and drive none
    twice.

    Exit codes: 0 every such run was continued, however it ended, or there was none; 2 one cannot go on, or bad input or
    journal; 4 the journal or one of the runs is damaged.
    """
    chosen = model_of(model) if model is not None else None
    with options.looking():
        pass  # it is there, and it is a journal: a reading command would say so too, and nothing is created
    with options.tools() as tools, options.driving(tools, model=chosen or "offline") as engine:

        def options_of(row: RunRow) -> ResumeOptions:
            given: ResumeOptions = {"accept_changes": accept_changes}
            if options.app is None:
                check_tools(engine.journal, row, tools, web=options.web)
                given["model"] = chosen or model_of_run(engine.journal, row)
            elif chosen is not None:
                given["model"] = chosen
            if not quiet:
                tell(
                    f"run {row.run_id}: goes on in {row.state} after {count(row.head_seq + 1, 'transition')}"
                )
            return given

        with redirect_stdout(sys.stderr):
            found = engine.recover(options_of)
        if as_json:
            say_json(_wire(found))
        else:
            for result in found:
                say(_line(result))
            if not found and not found.refused:
                tell(f"{engine.journal.path}: no run is left without a driver")
        for run_id, error in found.refused.items():
            tell(
                f"{styled('run', 'bad')} {run_id} cannot go on: {one_line(str(error))}",
                f"  {styled('look:', 'dim')} {command_line('show', engine.journal, run_id)}",
            )
    if any(isinstance(error, JournalDamaged) for error in found.refused.values()):
        return DAMAGED
    return USAGE if found.refused else OK


def _line(result: Result) -> str:
    why = result.reason or (f"waits: {result.waiting_for.kind}" if result.waiting_for else result.status)
    key = f"  key {one_line(result.key)}" if result.key else ""
    return f"run {result.run_id}  {state_text(result.state, why, result.status)}  {count(result.steps, 'step')}{key}"


def _wire(found: Recovery) -> dict[str, Any]:
    return {
        "results": [result.wire() for result in found],
        "refused": [{"run_id": run_id, "error": str(error)} for run_id, error in found.refused.items()],
    }
