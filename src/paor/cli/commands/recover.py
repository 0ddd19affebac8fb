"""`paor recover`: go on with every run that nobody drives."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout

from ...fsm.journal.rows import RunRow
from ...fsm.lifecycle.arguments import model_of
from ...fsm.lifecycle.options import ResumeOptions
from ...fsm.runtime.result import Result
from ...states.base.errors import JournalDamaged
from ..support import terminal as io
from ..support.app import EngineOptions, engine_options
from ..support.journals import command_line
from ..support.options import ACCEPT, QUIET, command, option
from ..support.outcome import why_of
from .run import MODELS, check_tools, model_of_run


@command(
    "recover",
    "paor recover --app shop:engine",
    "paor recover --journal runs.db --json",
    "paor recover --accept-changes --model offline",
)
@option("--model M", f"{MODELS} the model that each run had.")
@ACCEPT
@QUIET
@engine_options
def recover(model: str | None, accept_changes: bool, quiet: bool, options: EngineOptions) -> int:
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
                rows = io.count(row.head_seq + 1, "transition")
                io.tell(f"run {row.run_id}: goes on in {row.state} after {rows}")
            return given

        with redirect_stdout(sys.stderr):
            found = engine.recover(options_of)
        refused = [{"run_id": run_id, "error": str(error)} for run_id, error in found.refused.items()]
        data = {"results": [result.wire() for result in found], "refused": refused}
        none = () if found or refused else (f"{engine.journal.path}: no run is left without a driver",)
        io.say_either(data, map(_line, found), *none)
        for item in refused:
            io.tell(
                f"{io.styled('run', 'bad')} {item['run_id']} cannot go on: {io.one_line(item['error'])}",
                f"  {io.styled('look:', 'dim')} {command_line('show', engine.journal, item['run_id'])}",
            )
    if any(isinstance(error, JournalDamaged) for error in found.refused.values()):
        return io.DAMAGED
    return io.USAGE if refused else io.OK


def _line(result: Result) -> str:
    key = f"  key {io.one_line(result.key)}" if result.key else ""
    state = io.state_text(result.state, why_of(result), result.status)
    return f"run {result.run_id}  {state}  {io.count(result.steps, 'step')}{key}"
